//! A pipeline whose daemon is killed with SIGKILL at every kind of event: it goes on, what is completed is not done again, and
//! what may be done only once was done once (seed 003; CONTRACTS §4).

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use crate::served::Served;
use capataz_client::{Client, Delivery};
use capataz_contracts::pipeline_file;
use capataz_contracts::v1::{self, QuestionPurpose, event::Body, payload::Data};

/// A time limit that only a failing test reaches.
const PATIENCE: Duration = Duration::from_secs(120);

/// A task may lose four leases, and each kill takes one: that is why nothing is amiss in the second phase.
const PIPELINE: &str = r#"
name = "review"
product_id = "shop"

[[phases]]
name = "read"
agent = "reader"
summary = ["title"]
output.schema = { type = "object", required = ["title"], properties = { title = { type = "string" } } }

[[phases]]
name = "read-again"
agent = "reader"

[[phases]]
name = "weigh"
agent = "careless"
summary = ["weight"]
output.schema = { type = "object", required = ["weight"], properties = { weight = { type = "integer" } } }
retry = { delays_ms = [0] }

[[phases]]
name = "tell"
agent = "teller"
effect = "at_most_once"
"#;

/// Commands that count what they do: `careless` never gives a weight, `careful` does once it is corrected, and `teller` stands
/// still until the run has gone back.
fn config(folder: &Path) -> String {
    let agent = |name: &str, script: &str| {
        let script = format!("cd '{}'; input=$(cat); {script}", folder.display());
        format!("[[agents]]\nname = {name:?}\ncommand = [\"sh\", \"-c\", {script:?}]\n")
    };
    let careful = "echo done >> careful; case \"$input\" in *correction*) echo '{\"weight\": 3}';; \
                   *) echo '{\"weight\": \"3\"}';; esac";
    agent("reader", "echo done >> read; echo '{\"title\": \"the sea\"}'")
        + &agent("careless", "echo done >> careless; echo '{\"weight\": \"much\"}'")
        + &agent("careful", careful)
        // Nobody writes to the pipe.
        + &agent("teller", "[ -e back ] || { : > holds; read -r line < held; }; echo done >> told; echo '{\"told\": true}'")
}

fn lines(file: &Path) -> usize {
    fs::read_to_string(file).unwrap_or_default().lines().count()
}

fn kind_of(body: &Body) -> String {
    format!("{body:?}").split('(').next().unwrap().to_owned()
}

/// How often the agents of the first phases have begun their work.
fn done(folder: &Path) -> [usize; 3] {
    ["read", "careless", "careful"].map(|file| lines(&folder.join(file)))
}

/// A run in the eyes of a person who works with the program.
struct Person<'t> {
    daemon: &'t Served,
    client: &'t Client,
    run_id: &'t str,
    folder: &'t Path,
}

impl Person<'_> {
    /// `capataz pipeline …`
    fn pipeline(&self, arguments: &[&str]) -> Output {
        let mut program = Command::new(env!("CARGO_BIN_EXE_capataz"));
        program.args(["--addr", &self.daemon.url(), "pipeline"]).args(arguments);
        program.output().unwrap()
    }

    async fn questions(&self) -> Vec<v1::Question> {
        let request = v1::GetRunRequest { run_id: self.run_id.to_owned(), ..v1::GetRunRequest::default() };
        let run = self.client.get_run(request).await.unwrap().run.unwrap();
        run.questions.into_iter().filter(|question| question.answer.is_none()).collect()
    }

    /// Lets the blocked phase go on with another agent; says of what was being told what has become of it.
    async fn answers(&self) {
        for question in self.questions().await {
            if question.purpose() == QuestionPurpose::Phase {
                // Where it was resumed just before the daemon was killed, no phase is blocked any more.
                drop(self.pipeline(&["resume", self.run_id, "--agent", "careful"]));
                continue;
            }
            // Whoever does it again says so when it stands still.
            let _ = fs::remove_file(self.folder.join("holds"));
            let was_told = lines(&self.folder.join("told")) > 0;
            let answer = if was_told { "succeeded" } else { "retry" };
            let value = was_told.then(|| v1::Payload {
                media_type: "application/json".to_owned(),
                data: Some(Data::Inline("{\"told\":true}".into())),
            });
            let request = v1::ResolveRequest {
                run_id: self.run_id.to_owned(),
                request_id: format!("{} {answer}", question.question_id),
                question_id: question.question_id,
                answer: answer.to_owned(),
                value,
                ..v1::ResolveRequest::default()
            };
            // One that was answered before the daemon was killed is asked no more.
            let _ = self.client.resolve(request).await;
        }
    }

    /// Goes back to the checkpoint before the last phase, once.
    async fn goes_back(&self) {
        if self.folder.join("back").exists() {
            return;
        }
        // A worker that has only just begun would see that the run has gone back. One that was lost is asked about.
        while !self.folder.join("holds").exists() {
            if !self.questions().await.is_empty() {
                return;
            }
            tokio::task::yield_now().await;
        }
        fs::write(self.folder.join("back"), "").unwrap();
        let told = self.pipeline(&["rollback", self.run_id, "tell", "--request-id", "back"]);
        assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    }

    /// Reads the run's events until one is of a kind at which the daemon was not killed yet; `None` where the run has ended.
    async fn next_kind(&self, killed_at: &BTreeSet<String>) -> Option<String> {
        let run_id = Some(self.run_id.to_owned());
        let mut stream = self.client.subscribe(v1::SubscribeRequest {
            filter: Some(v1::EventFilter { run_id, ..v1::EventFilter::default() }),
            until_finished: true,
            ..v1::SubscribeRequest::default()
        });
        let mut phase = 0;
        while let Some(delivery) = stream.next().await {
            let Delivery::Event { event, .. } = delivery.unwrap() else { continue };
            let body = event.body.unwrap();
            let kind = kind_of(&body);
            if matches!(body, Body::RunFinished(_)) {
                return None;
            }
            if !killed_at.contains(&kind) {
                return Some(kind);
            }
            match body {
                Body::QuestionAsked(_) => self.answers().await,
                Body::PhaseStarted(started) => phase = started.phase,
                // The last phase is at work.
                Body::TaskLeased(_) if phase == 3 => self.goes_back().await,
                _ => {}
            }
        }
        None
    }
}

async fn checkpoints(client: &Client, run_id: &str, at_seq: u64) -> Vec<v1::Checkpoint> {
    let request = v1::ListCheckpointsRequest { run_id: run_id.to_owned(), at_seq, ..Default::default() };
    client.list_checkpoints(request).await.unwrap().checkpoints
}

#[tokio::test]
async fn a_pipeline_goes_on_wherever_its_daemon_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let made = Command::new("mkfifo").arg(folder.path().join("held")).status().unwrap();
    assert!(made.success());
    let mut daemon = Served::start(folder.path(), &config(folder.path()));
    let toml = pipeline_file::Format::Toml;
    let pipeline = pipeline_file::parse_bytes(PIPELINE.as_bytes(), toml, &mut |file| Err(file.to_owned()));
    let request = v1::StartRunRequest::of_pipeline(pipeline.unwrap());
    let run_id = daemon.client().await.start_run(request).await.unwrap().run_id;
    let mut killed_at = BTreeSet::new();
    let mut done_before = None;
    loop {
        let client = daemon.client().await;
        let person = Person { daemon: &daemon, client: &client, run_id: &run_id, folder: folder.path() };
        let next = tokio::time::timeout(PATIENCE, person.next_kind(&killed_at));
        let Some(kind) = next.await.expect("it goes on") else { break };
        if kind == "PipelineRolledBack" {
            done_before = Some(done(folder.path()));
        }
        killed_at.insert(kind);
        daemon = daemon.kill_and_start();
    }
    let client = daemon.client().await;
    let result = client.wait_run(&run_id, Some(PATIENCE)).await.unwrap().expect("it has ended");
    assert_eq!(result.outcome(), v1::RunOutcome::Succeeded, "{:?}", result.error);

    // Every kind of event that there is on such a way.
    for kind in [
        "RunAccepted",
        "PhaseStarted",
        "TaskLeased",
        "TaskLeaseLost",
        "TaskSettled",
        "PhaseCompleted",
        "OutputRejected",
        "TaskAttemptFailed",
        "PhaseBlocked",
        "QuestionAsked",
        "QuestionAnswered",
        "PhaseChanged",
        "PipelineRolledBack",
    ] {
        assert!(killed_at.contains(kind), "{kind} in {killed_at:?}");
    }

    let mut log = client.export_run(&run_id).await.unwrap();
    let (mut leased, mut rejected, mut settled) = ([0; 4], [0; 4], [0; 4]);
    let (mut phase, mut weighed, mut back) = (0, 0, Vec::new());
    while let Some(event) = log.next().await {
        let event = event.unwrap();
        match event.body.unwrap() {
            Body::PhaseStarted(started) => phase = started.phase as usize,
            Body::TaskLeased(_) => leased[phase] += 1,
            Body::OutputRejected(_) => rejected[phase] += 1,
            Body::TaskSettled(_) => settled[phase] += 1,
            Body::PhaseCompleted(completed) if completed.phase == 2 => weighed = event.seq,
            Body::PipelineRolledBack(_) => back.push(event.seq),
            _ => {}
        }
    }
    assert_eq!(back.len(), 1, "it went back once");
    // Both attempts of the careless agent, and the first one of the careful one. What was told twice was ended once.
    assert_eq!((rejected, settled), ([0, 0, 3, 0], [1, 1, 2, 2]));
    let then = checkpoints(&client, &run_id, weighed).await;
    for later in [back[0], 0] {
        let stands = checkpoints(&client, &run_id, later).await;
        assert_eq!(stands[..3], then[..3], "field by field");
    }
    // What was completed is not done again: neither after a kill nor when the run goes back.
    let [read, careless, careful] = done(folder.path());
    assert_eq!(done_before, Some([read, careless, careful]));
    // Each time was under a lease, and each output that was judged is the work of one.
    assert!((2..=leased[0] + leased[1]).contains(&read), "{read} of {leased:?}");
    let weighed = careless + careful;
    assert!(careless >= 2 && careful >= 2 && weighed <= leased[2], "{careless} and {careful} of {leased:?}");
    assert_eq!(lines(&folder.path().join("told")), 1, "it was told once; killed at {killed_at:?}");
}
