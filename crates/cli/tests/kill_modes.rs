//! Executions whose daemon is killed with SIGKILL at every kind of step: they go on, and what may be done only once was done
//! once (seed 004; CONTRACTS §5).

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests")]
#![expect(clippy::disallowed_types, reason = "starts the daemon as a program")]

mod served;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use capataz_client::{Client, Delivery};
use capataz_contracts::v1::{self, ExecutionMode, QuestionPurpose, event::Body, payload::Data};
use served::Served;

/// A time limit that only a failing test reaches.
const PATIENCE: Duration = Duration::from_secs(120);

const RULES: &str = r#"
[[rules]]
query = "."
checkpoints = [1]

[[rules.steps]]
id = "look"
tool = "look"

[[rules.steps]]
id = "plan"
tool = "plan.run"
parameters = { name = "child", waves = [{ tasks = [{ name = "t", agent = "work" }] }] }

[[rules.steps]]
id = "pipeline"
tool = "pipeline.run"
parameters = { name = "child", phases = [{ name = "p", agent = "work" }] }

[[rules.steps]]
id = "once"
tool = "once"

[[rules.steps]]
id = "asked"
tool = "asked"
"#;

/// Tools that are commands: one that looks, and two whose effect counts, one of which a person approves.
fn config(folder: &Path) -> String {
    let counts = |name: &str| {
        let file = folder.join(name);
        format!(
            "command = [\"sh\", \"-c\", \"cat > /dev/null; echo done >> '{}'; echo true\"]",
            file.display()
        )
    };
    format!(
        "[[planners]]\nname = \"rules\"\nrules = \"rules.toml\"\n\
         [[agents]]\nname = \"work\"\ncommand = [\"echo\", \"1\"]\n\
         [[agents]]\nname = \"look\"\nkind = \"tool\"\nundoable = true\ncommand = [\"echo\", \"1\"]\n\
         [[agents]]\nname = \"once\"\nkind = \"tool\"\n{}\n\
         [[agents]]\nname = \"asked\"\nkind = \"tool\"\nneeds_approval = true\n{}\n",
        counts("once"),
        counts("asked"),
    )
}

fn lines(file: &Path) -> usize {
    fs::read_to_string(file).unwrap_or_default().lines().count()
}

/// What an event is, and what the run is about there.
fn kind_of(body: &Body, about: &mut String) -> String {
    match body {
        Body::PlannerAsked(_) => "planner".clone_into(about),
        Body::ToolCalled(called) => {
            let wave = called.tasks.as_ref().and_then(|wave| wave.name.clone());
            *about = wave.unwrap_or_default();
        }
        _ => {}
    }
    let name = format!("{body:?}");
    format!("{} of {about}", name.split('(').next().unwrap())
}

/// Answers what a person is asked: that it may go on, and of a call of which nobody knows, what has become of it.
async fn answer(client: &Client, run_id: &str, folder: &Path) {
    let request = v1::GetRunRequest { run_id: run_id.to_owned(), ..v1::GetRunRequest::default() };
    let run = client.get_run(request).await.unwrap().run.unwrap();
    for question in run.questions.into_iter().filter(|question| question.answer.is_none()) {
        let unknown = question.purpose() == QuestionPurpose::Outcome;
        let file = question.task.as_deref().and_then(|task| task.split('.').next()).unwrap_or_default();
        let was_done = lines(&folder.join(file)) > 0;
        let answer = match (unknown, was_done) {
            (true, true) => "succeeded",
            (true, false) => "retry",
            (false, _) => "approve",
        };
        let given = answer == "succeeded";
        let value = given.then(|| v1::Payload {
            media_type: "application/json".to_owned(),
            data: Some(Data::Inline("true".into())),
        });
        let request = v1::ResolveRequest {
            run_id: run_id.to_owned(),
            request_id: format!("{} {answer}", question.question_id),
            question_id: question.question_id,
            answer: answer.to_owned(),
            value,
            ..v1::ResolveRequest::default()
        };
        // One that was answered before the daemon was killed is asked no more.
        let _ = client.resolve(request).await;
    }
}

/// Reads the run's events until one is of a kind at which the daemon was not killed yet; `None` where the run has ended.
async fn next_kind(
    client: &Client,
    run_id: &str,
    folder: &Path,
    killed_at: &BTreeSet<String>,
) -> Option<String> {
    let mut stream = client.subscribe(v1::SubscribeRequest {
        filter: Some(v1::EventFilter { run_id: Some(run_id.to_owned()), ..v1::EventFilter::default() }),
        until_finished: true,
        ..v1::SubscribeRequest::default()
    });
    let mut about = String::new();
    while let Some(delivery) = stream.next().await {
        let Delivery::Event { event, .. } = delivery.unwrap() else { continue };
        let body = event.body.unwrap();
        let kind = kind_of(&body, &mut about);
        if matches!(body, Body::RunFinished(_)) {
            return None;
        }
        if !killed_at.contains(&kind) {
            return Some(kind);
        }
        if matches!(body, Body::QuestionAsked(_)) {
            answer(client, run_id, folder).await;
        }
    }
    None
}

async fn survives(mode: ExecutionMode) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("rules.toml"), RULES).unwrap();
    let mut daemon = Served::start(folder.path(), &config(folder.path()));
    let tools = ["look", "plan.run", "pipeline.run", "once", "asked"];
    let run = v1::ModeRun {
        query: "do it".to_owned(),
        mode: Some(mode.into()),
        tools: tools.map(|name| v1::ModeTool { name: name.to_owned(), ..v1::ModeTool::default() }).into(),
        ..v1::ModeRun::default()
    };
    let run_id = daemon.client().await.start_run(v1::StartRunRequest::of_mode(run)).await.unwrap().run_id;
    let mut killed_at = BTreeSet::new();
    loop {
        let client = daemon.client().await;
        let next = tokio::time::timeout(PATIENCE, next_kind(&client, &run_id, folder.path(), &killed_at));
        let Some(kind) = next.await.expect("it goes on") else { break };
        killed_at.insert(kind);
        daemon = daemon.kill_and_start();
    }
    let client = daemon.client().await;
    let result = client.wait_run(&run_id, Some(PATIENCE)).await.unwrap().expect("it has ended");
    assert_eq!(result.outcome(), v1::RunOutcome::Succeeded, "{:?}", result.error);
    for effect in ["once", "asked"] {
        assert_eq!(lines(&folder.path().join(effect)), 1, "{effect} was done once; killed at {killed_at:?}");
    }
    for kind in [
        "TaskLeased of planner",
        "PlannerAnswered of planner",
        "ChildNamed of plan.run",
        "ChildEnded of pipeline.run",
    ] {
        assert!(killed_at.contains(kind), "{kind} in {killed_at:?}");
    }
    for tool in tools {
        assert!(killed_at.contains(&format!("ToolCalled of {tool}")), "{tool} in {killed_at:?}");
        assert!(killed_at.contains(&format!("ToolObserved of {tool}")), "{tool} in {killed_at:?}");
    }
}

#[tokio::test]
async fn a_simple_execution_goes_on_wherever_its_daemon_is_killed() {
    survives(ExecutionMode::Simple).await;
}

#[tokio::test]
async fn a_planned_execution_goes_on_wherever_its_daemon_is_killed() {
    survives(ExecutionMode::Planner).await;
}

#[tokio::test]
async fn a_supervised_execution_goes_on_wherever_its_daemon_is_killed() {
    survives(ExecutionMode::Supervised).await;
}
