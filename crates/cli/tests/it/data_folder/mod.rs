//! A daemon over a data folder, its workers, and what is in the folder.

pub mod make;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use capataz_client::Client;
use capataz_client::worker::{Task, TaskError, TaskOutput, Worker};
use capataz_contracts::v1;
use serde_json::{Value, json};

/// Reached only by a test that fails.
pub const PATIENCE: Duration = Duration::from_secs(120);
pub const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The spec that answers from its file, without a worker.
pub const WHISPERS: &str = "whispers-of-the-wave";

/// The folder that a daemon of a format has left behind, and what is known of it.
pub fn fixture(format: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/data-format-{format}"))
}

#[expect(clippy::disallowed_methods, reason = "whoever runs the tests asks for the fixture to be made")]
pub fn asked_for(variable: &str) -> Option<String> {
    std::env::var(variable).ok().filter(|value| !value.is_empty())
}

/// What the folder needs of its daemon. Nothing may go by its age: how old it is depends on when the tests run.
pub fn config(format: u32) -> String {
    let specs = fixture(format).join("specs");
    let agents = ["crew", "flaky", "broken", "slow", "once", "home"];
    let declared: String =
        agents.iter().map(|name| format!("[[declared_agents]]\nname = {name:?}\n")).collect();
    format!(
        r#"
specs_dir = {:?}
[retention]
finished_runs = "never"
idempotency_keys = "36500d"
unused_blobs = "36500d"
[[agents]]
name = "shout"
command = ["tr", "a-z", "A-Z"]
[[agents]]
name = "many"
command = ["sh", "-c", "yes 0123456789 | head -n 4000"]
output = "text"
{declared}"#,
        specs.display().to_string()
    )
}

/// A daemon that ends with the test.
pub struct Daemon {
    process: Child,
    address: String,
    folder: PathBuf,
    program: PathBuf,
}

impl Daemon {
    /// The program of this version, or the one that was asked for, over `data` of the folder.
    pub fn start(folder: &Path, format: u32) -> Self {
        let own = env!("CARGO_BIN_EXE_capataz").to_owned();
        let program = PathBuf::from(asked_for("CAPATAZ_DATA_FORMAT_PROGRAM").unwrap_or(own));
        fs::write(folder.join("capataz.toml"), config(format)).unwrap();
        Self::listen(folder, "127.0.0.1:0", program)
    }

    fn listen(folder: &Path, address: &str, program: PathBuf) -> Self {
        let mut process = Command::new(&program)
            .args(["serve", "--json", "--listen", address, "--config"])
            .arg(folder.join("capataz.toml"))
            .arg("--data-dir")
            .arg(folder.join("data"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let said: Value = serde_json::from_str(&line).expect("the daemon says where it listens");
        let address = said["address"].as_str().unwrap().to_owned();
        Self { process, address, folder: folder.to_owned(), program }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub async fn client(&self) -> Client {
        Client::connect(&self.url()).await.unwrap()
    }

    /// SIGKILL and nothing else.
    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    pub fn kill_and_start(mut self) -> Self {
        self.kill();
        Self::listen(&self.folder, &self.address, self.program.clone())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What workers do with a task.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mood {
    /// Tasks of `slow` and `once` do not end, others fail as their agent's name says.
    Bad,
    /// Everything ends well.
    Good,
}

/// A worker, until it is aborted.
pub struct Hand(tokio::task::JoinHandle<()>);

impl Hand {
    pub fn aborts(self) {
        self.0.abort();
    }
}

impl Drop for Hand {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A worker of all agents but `home`.
pub fn crew(url: &str, mood: Mood) -> Hand {
    let bad = mood == Mood::Bad;
    let flaky = move |task: Task| async move {
        match bad {
            true => Err(TaskError::new("RATE_LIMIT", "too many of them")),
            false => Ok(TaskOutput::json(json!({ "attempt": task.attempt() }))?),
        }
    };
    let broken = move |_: Task| async move {
        match bad {
            true => Err(TaskError::new("LOGIC_ERROR", "it cannot be done").severity(v1::Severity::High)),
            false => Ok(TaskOutput::json(json!("mended"))?),
        }
    };
    let slow = move |_: Task| async move {
        if bad {
            std::future::pending::<()>().await;
        }
        TaskOutput::json(json!("done"))
    };
    let said = |task: Task| async move { TaskOutput::json(json!({ "said": task.input_json::<Value>()? })) };
    let worker = Worker::new(url).id("crew").slots(16);
    let worker = worker.agent("crew", said).agent("flaky", flaky).agent("broken", broken);
    let worker = worker.agent("slow", slow).agent("once", slow);
    Hand(tokio::spawn(async move {
        let _ = worker.run_until(std::future::pending::<()>()).await;
    }))
}

/// A worker of the spec `home`, which suggests the other one.
pub fn home(url: &str) -> Hand {
    let work = |task: Task| async move {
        let request: Value = task.input_json()?;
        TaskOutput::json(json!({
            "success": true,
            "spec": request["spec"],
            "request_id": request["id"],
            "timestamp": 1,
            "response": { "text": format!("re: {}", request["text"]), "format": "text" },
            "metadata": { "processing_time_ms": 1, "confidence": 1 },
            "context_update": { "emotional_state": "calm", "custom": { "last": request["text"] } },
            "transition": {
                "suggest_spec": WHISPERS,
                "reason": "better there",
                "confidence": 0.7,
                "auto_transition": false,
            },
        }))
    };
    let worker = Worker::new(url).id("home").slots(4).agent("home", work);
    Hand(tokio::spawn(async move {
        let _ = worker.run_until(std::future::pending::<()>()).await;
    }))
}

/// A run of the folder, by the name of what it shows.
pub struct Case {
    pub run: String,
    /// What started it; `None` for a session of proposals, which is opened in another way.
    pub request: Option<v1::StartRunRequest>,
}

/// What is in the folder beside its data.
pub struct Made {
    /// Unix milliseconds of the last kill.
    pub killed_at: i64,
    pub cases: BTreeMap<String, Case>,
}

impl Made {
    pub fn read(format: u32) -> Self {
        let text = fs::read_to_string(fixture(format).join("cases.json")).expect("the fixture is there");
        let value: Value = serde_json::from_str(&text).unwrap();
        let case = |value: &Value| {
            let request = value.get("request").map(|request| {
                let request = capataz_contracts::json::parse("capataz.v1.StartRunRequest", request);
                request.expect("a request can be read")
            });
            Case { run: value["run"].as_str().unwrap().to_owned(), request }
        };
        let cases = value["cases"].as_object().unwrap().iter();
        Self {
            killed_at: value["killed_at"].as_i64().unwrap(),
            cases: cases.map(|(name, value)| (name.clone(), case(value))).collect(),
        }
    }

    pub fn write(&self, format: u32) {
        let mut cases = serde_json::Map::new();
        for (name, case) in &self.cases {
            let mut value = json!({ "run": case.run });
            if let Some(request) = &case.request {
                value["request"] = capataz_contracts::json::print("capataz.v1.StartRunRequest", request);
            }
            cases.insert(name.clone(), value);
        }
        let value = json!({ "killed_at": self.killed_at, "cases": cases });
        fs::write(fixture(format).join("cases.json"), pretty(&value)).unwrap();
    }
}

pub fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap() + "\n"
}

pub async fn view(client: &Client, run: &str) -> v1::Run {
    let request = v1::GetRunRequest { run_id: run.to_owned(), include_outputs: true, ..Default::default() };
    client.get_run(request).await.unwrap().run.unwrap()
}

pub async fn until(what: &str, client: &Client, run: &str, holds: impl Fn(&v1::Run) -> bool) -> v1::Run {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let seen = view(client, run).await;
        if holds(&seen) {
            return seen;
        }
        assert!(tokio::time::Instant::now() < deadline, "in time: {what}; {seen:?}");
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// Workers of these agents are connected.
pub async fn until_served(client: &Client, agents: &[&str]) {
    let served = |known: &[v1::AgentStatus]| {
        let connected = known.iter().filter(|agent| agent.workers > 0);
        let names: Vec<String> =
            connected.filter_map(|agent| Some(agent.agent.as_ref()?.name.clone())).collect();
        agents.iter().all(|name| names.iter().any(|known| known == name))
    };
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !served(&client.list_agents().await.unwrap()) {
        assert!(tokio::time::Instant::now() < deadline, "in time: workers come");
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}
