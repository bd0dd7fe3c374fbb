//! The real daemon, killed with SIGKILL: what is left of its work, and what goes on.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests")]
#![expect(clippy::disallowed_types, reason = "starts the daemon as a program")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use capataz_client::Client;
use capataz_client::worker::{Task, TaskError, TaskOutput, Worker};
use capataz_contracts::v1;

/// Reached only by a test that fails.
const PATIENCE: Duration = Duration::from_secs(60);

struct Served {
    process: Child,
    address: String,
}

impl Served {
    fn start(folder: &Path, config: &str, listen: &str) -> Self {
        let file = folder.join("capataz.toml");
        std::fs::write(&file, config).unwrap();
        let mut process = Command::new(env!("CARGO_BIN_EXE_capataz"))
            .args(["serve", "--json", "--listen", listen, "--config"])
            .arg(&file)
            .arg("--data-dir")
            .arg(folder.join("data"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let said: serde_json::Value = serde_json::from_str(&line).expect("the daemon says where it listens");
        Self { process, address: said["address"].as_str().unwrap().to_owned() }
    }

    async fn client(&self) -> Client {
        Client::connect(&format!("http://{}", self.address)).await.unwrap()
    }

    /// SIGKILL, and nothing else.
    fn kill(mut self) -> String {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        std::mem::take(&mut self.address)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn one_task(agent: &str) -> v1::StartRunRequest {
    let task = v1::Task { name: "t".to_owned(), agent: agent.to_owned(), ..Default::default() };
    let wave = v1::Wave { tasks: vec![task], ..Default::default() };
    let plan = v1::Plan { name: "p".to_owned(), waves: vec![wave], ..Default::default() };
    v1::StartRunRequest { plan: Some(plan), ..Default::default() }
}

async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !holds() {
        assert!(tokio::time::Instant::now() < deadline, "in time: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn lines(path: &Path) -> Vec<String> {
    std::fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn after_a_kill_no_child_or_grandchild_is_alive_when_the_next_lease_starts() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal");
    // Each start says which processes of earlier starts are alive, then leaves three of its own: itself, a child, and a
    // grandchild in a session of its own. The second start ends.
    let script = r#"
        for pid in $(sed -n 's/^pid //p' "$JOURNAL"); do
            kill -0 "$pid" 2>/dev/null && echo "alive $pid" >> "$JOURNAL"
        done
        echo start >> "$JOURNAL"
        [ "$(grep -c start "$JOURNAL")" -ge 2 ] && { echo 1; exit 0; }
        sleep 1000 &
        echo "pid $!" >> "$JOURNAL"
        setsid sh -c 'echo "pid $$" >> "$JOURNAL"; exec sleep 1000' &
        echo "pid $$" >> "$JOURNAL"
        wait
    "#;
    std::fs::write(&journal, "").unwrap();
    let script = serde_json::to_string(&["sh", "-c", script]).unwrap();
    let config = format!(
        "[[agents]]\nname = \"nest\"\ncommand = {script}\nenv = {{ JOURNAL = {:?} }}\n",
        journal.display().to_string()
    );
    let daemon = Served::start(folder.path(), &config, "127.0.0.1:0");
    let run = daemon.client().await.start_run(one_task("nest")).await.unwrap().run_id;
    eventually("three processes run", || {
        lines(&journal).iter().filter(|line| line.starts_with("pid")).count() == 3
    })
    .await;
    daemon.kill();
    let daemon = Served::start(folder.path(), &config, "127.0.0.1:0");
    let result = daemon.client().await.wait_run(&run, Some(PATIENCE)).await.unwrap().expect("it ends");
    assert_eq!(result.outcome(), v1::RunOutcome::Succeeded);
    let journal = lines(&journal);
    assert_eq!(journal.iter().filter(|line| *line == "start").count(), 2, "{journal:?}");
    assert!(!journal.iter().any(|line| line.starts_with("alive")), "{journal:?}");
    let view = daemon.client().await;
    let request = v1::GetRunRequest { run_id: run, ..Default::default() };
    let run = view.get_run(request).await.unwrap().run.unwrap();
    assert_eq!(run.waves[0].tasks[0].attempt, 1, "a lost lease is no attempt");
}

#[tokio::test]
async fn a_worker_that_comes_back_after_a_kill_keeps_its_task_and_its_attempt_count() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Served::start(folder.path(), "", "127.0.0.1:0");
    let (started, mut begun) = tokio::sync::mpsc::channel(8);
    let (finish, finished) = tokio::sync::watch::channel(false);
    let work = move |_: Task| {
        let (started, mut finished) = (started.clone(), finished.clone());
        async move {
            let _ = started.send(()).await;
            let _ = finished.wait_for(|finished| *finished).await;
            Ok::<_, TaskError>(TaskOutput::text("done"))
        }
    };
    let worker = Worker::new(format!("http://{}", daemon.address)).id("w1").agent("slow", work);
    let worker = tokio::spawn(worker.run_until(std::future::pending::<()>()));
    let client = daemon.client().await;
    let run = loop {
        // Until the worker has said hello, nobody knows its agent.
        match client.start_run(one_task("slow")).await {
            Ok(started) => break started.run_id,
            Err(error) => assert_eq!(error.code(), Some("AGENT_NOT_FOUND")),
        }
        tokio::task::yield_now().await;
    };
    begun.recv().await.unwrap();
    let address = daemon.kill();
    let daemon = Served::start(folder.path(), "", &address);
    finish.send_replace(true);
    let client = daemon.client().await;
    let result = client.wait_run(&run, Some(PATIENCE)).await.unwrap().expect("it ends");
    assert_eq!(result.outcome(), v1::RunOutcome::Succeeded);
    assert!(begun.try_recv().is_err(), "the work was begun once");
    let request = v1::GetRunRequest { run_id: run, ..Default::default() };
    let view = client.get_run(request).await.unwrap().run.unwrap();
    assert_eq!(view.waves[0].tasks[0].attempt, 1);
    worker.abort();
}

#[tokio::test]
async fn sigterm_drains_and_a_second_daemon_is_refused_until_then() {
    let folder = tempfile::tempdir().unwrap();
    let mut daemon = Served::start(folder.path(), "", "127.0.0.1:0");
    let second = Command::new(env!("CARGO_BIN_EXE_capataz"))
        .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(folder.path().join("data"))
        .output()
        .unwrap();
    assert!(!second.status.success());
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(said.contains("another daemon") && said.contains(&daemon.process.id().to_string()), "{said}");
    let pid = daemon.process.id().to_string();
    assert!(Command::new("kill").args(["-TERM", pid.as_str()]).status().unwrap().success());
    let status = daemon.process.wait().unwrap();
    assert!(status.success(), "{status}");
}
