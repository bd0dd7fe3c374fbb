//! The trace of a real daemon: replayed, it has the same outputs.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use capataz_contracts::v1::{self, connect_response::Frame as Hear};
use capataz_daemon::{Config, Daemon, Trace};
use capataz_shard::trace::{MAGIC, Replay, Replayed, Turn, replay};
use capataz_shard::{Input, Request};
use serde_json::json;

use crate::support::asks::{AskExt, Does, SpecAgents, answer_to, failure_of, text, transition, with_specs};
use crate::support::{Harness, Worker, code_of, data_dir, error, json as payload, one_wave, plan};

const PLENTY: u64 = 1 << 30;

fn recorded(file: &Path) -> impl FnOnce(&mut Config) {
    let trace = Trace { file: file.to_owned(), limit: PLENTY };
    move |config| {
        with_specs(&["home", "away"])(config);
        config.trace = Some(trace);
    }
}

/// Replays a trace, with the name of every input.
fn names(trace: &[u8]) -> (Replayed, BTreeSet<String>) {
    let mut names = BTreeSet::new();
    let name = |input: &Input| {
        let text = match input {
            Input::Request { request: Request::Command { input, .. }, .. } => format!("{input:?}"),
            Input::Request { request, .. } => format!("{request:?}"),
            Input::Frame { frame, .. } => format!("{frame:?}"),
            other => format!("{other:?}"),
        };
        text.split(|character: char| !character.is_alphanumeric()).next().unwrap_or_default().to_owned()
    };
    let replay = Replay::begin(trace).unwrap();
    let replayed = replay.run(|turn| names.extend([name(&turn.input)])).unwrap();
    (replayed, names)
}

#[track_caller]
fn assert_same(file: &Path, turns: u64) -> BTreeSet<String> {
    let trace = std::fs::read(file).unwrap();
    let (replayed, names) = names(&trace);
    assert!(replayed.different.is_none(), "{:?}", replayed.different);
    assert!(replayed.unfinished.is_none(), "{:?}", replayed.unfinished);
    assert!(replayed.turns >= turns && replayed.outputs >= turns, "{replayed:?}");
    names
}

/// Attempts that fail and are tried again, and a task that fails for good.
async fn fails_and_retries(harness: &Harness, worker: &mut Worker) {
    let run = harness
        .start_run(plan(
            r#"
            name = "tried again"
            policy = { kind = "continue_all" }
            [[tasks]]
            name = "a"
            agent = "a"
            retry = { max_attempts = 2, base_delay_ms = 10, max_delay_ms = 10 }
            [[tasks]]
            name = "b"
            agent = "b"
            retry = { max_attempts = 1 }
            "#,
        ))
        .await;
    for (_, assigned) in worker.assignments(2).await {
        worker.fail(&assigned.lease, error("NETWORK_ERROR", "not yet")).await;
    }
    let again = worker.assignment().await;
    assert_eq!(again.assignment.attempt, 2);
    worker.complete(&again.lease, payload(json!({ "secret": "as the log" }))).await;
    assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::SucceededWithFailures);
}

/// Paused, gone on with, and cancelled at work.
async fn is_steered(harness: &Harness, worker: &mut Worker) {
    let run = harness.start_run(one_wave(&["a"])).await;
    worker.assignment().await;
    let mut runs = harness.runs.clone();
    let pause = v1::PauseRunRequest { run_id: run.clone(), request_id: "p".to_owned(), if_seq: None };
    runs.pause_run(pause).await.unwrap();
    let resume =
        v1::ResumeRunRequest { run_id: run.clone(), request_id: "r".to_owned(), ..Default::default() };
    runs.resume_run(resume).await.unwrap();
    let cancel =
        v1::CancelRunRequest { run_id: run.clone(), request_id: "c".to_owned(), ..Default::default() };
    runs.cancel_run(cancel).await.unwrap();
    let lease = worker
        .hear_until(|frame| match frame {
            Hear::Cancel(cancel) => cancel.lease.clone(),
            _ => None,
        })
        .await;
    let cancelled = v1::Cancelled { lease: Some(lease), ..Default::default() };
    worker.say(v1::connect_request::Frame::Cancelled(cancelled)).await;
    assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Cancelled);
}

/// A worker that goes away at work and comes back with its task.
async fn leaves_and_returns(harness: &Harness) {
    let mut worker = harness.worker("w2", &["c"]).await;
    let run = harness.start_run(one_wave(&["c"])).await;
    let assigned = worker.assignment().await;
    drop(worker);
    let worker = Worker::connect(harness.channel.clone(), "w2", &["c"], vec![assigned.lease.clone()]).await;
    worker.complete(&assigned.lease, payload(json!("kept"))).await;
    assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Succeeded);
}

/// A conversation with a failure, a suggestion and its acceptance.
async fn converses(harness: &Harness) {
    let _agents = SpecAgents::start(harness, &["home", "away"], |request| {
        Does::Says(match request["text"].as_str().unwrap() {
            "fail" => failure_of(request, "FATAL_ERROR", false, None),
            "suggest" => transition(answer_to(request, "there"), "away", 0.75, false),
            said => answer_to(request, said),
        })
    })
    .await;
    let suggested = harness.ask(text("suggest").to("home").within("s")).await;
    harness.accept("s", &suggested.ask.request_id).await.unwrap();
    assert_eq!(harness.ask(text("hello").within("s")).await.specs(), ["away"]);
    harness.ask(text("fail").within("s")).await;
}

/// With threads enough that callers take turns as well as the shards' thread.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_trace_of_a_daemon_replays_to_the_same_outputs_and_an_input_less_is_found() {
    let traces = tempfile::tempdir().unwrap();
    let (first, second) = (traces.path().join("first"), traces.path().join("second"));
    let harness = Harness::start_with(recorded(&first)).await;
    let mut worker = harness.worker("w1", &["a", "b"]).await;
    fails_and_retries(&harness, &mut worker).await;
    is_steered(&harness, &mut worker).await;
    leaves_and_returns(&harness).await;
    converses(&harness).await;
    let refusal = harness.try_start(one_wave(&["nobody"])).await.unwrap_err();
    assert_eq!(code_of(&refusal), "AGENT_NOT_FOUND");
    // The next daemon takes up a run at work, and an ask in the midst of its session.
    let unfinished = harness.start_run(one_wave(&["a"])).await;
    let assigned = worker.assignment().await;
    harness.begin(text("waits").to("home").within("s")).await;
    drop(worker);
    let folder = harness.stop().await;
    let harness = Harness::start_in(folder, recorded(&second)).await;
    let worker =
        Worker::connect(harness.channel.clone(), "w1", &["a", "b"], vec![assigned.lease.clone()]).await;
    worker.complete(&assigned.lease, payload(json!("over a restart"))).await;
    harness.wait(&unfinished).await;
    drop(worker);
    harness.stop().await;

    let names = assert_same(&first, 60);
    let expected = [
        "Ack",
        "AcceptTransition",
        "Answered",
        "Cancel",
        "Cancelled",
        "Committed",
        "Completed",
        "Disconnected",
        "Drain",
        "Failed",
        "Hello",
        "Hosted",
        "Configure",
        "Pause",
        "Recovered",
        "Resume",
        "Start",
        "Sweep",
        "Swept",
    ];
    let missing: Vec<_> = expected.iter().filter(|name| !names.contains(**name)).collect();
    assert!(missing.is_empty(), "{missing:?} of {names:?}");
    let names = assert_same(&second, 6);
    assert!(names.contains("Recovered"), "{names:?}");

    let trace = std::fs::read(&first).unwrap();
    let text = String::from_utf8_lossy(&trace);
    assert!(text.contains("as the log"), "the trace has payloads");
    let mode = std::fs::metadata(&first).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "so that only its owner may read it");
    without_one(&trace);
}

/// Leaves out the first start of a run: what follows from it is missed at once.
fn without_one(trace: &[u8]) {
    let mut started = None;
    let is_start = |input: &Input| matches!(input, Input::Request { request: Request::Start(_), .. });
    let first = |turn: &Turn| {
        if is_start(&turn.input) {
            started.get_or_insert(turn.number);
        }
    };
    Replay::begin(trace).unwrap().run(first).unwrap();
    let started = started.unwrap();
    // A length before each record, and 12 bytes after that of a turn.
    let length = |at: usize| u32::from_le_bytes(trace[at..at + 4].try_into().unwrap()) as usize;
    let mut at = MAGIC.len() + 4 + length(MAGIC.len());
    for _ in 1..started {
        at += 4 + length(at) + 12;
    }
    let shorter = [&trace[..at], &trace[at + 4 + length(at) + 12..]].concat();
    let different = replay(shorter.as_slice()).unwrap().different.unwrap();
    assert_eq!(different.number, started, "{different:?}");
}

#[tokio::test]
async fn a_trace_never_takes_the_place_of_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file: PathBuf = folder.path().join("there");
    std::fs::write(&file, "mine").unwrap();
    let mut config = Config::embedded(data_dir(&folder));
    config.trace = Some(Trace { file: file.clone(), limit: PLENTY });
    let refused = Daemon::start(config).await.unwrap_err();
    let reason = std::error::Error::source(&refused).unwrap().to_string();
    assert!(reason.contains("there cannot be created"), "{reason}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
}

#[tokio::test]
async fn a_daemon_outlives_its_trace() {
    // What a daemon hears of itself, before it has done anything.
    let idle = {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("trace");
        let trace = Trace { file: file.clone(), limit: 1024 * 1024 };
        let harness = Harness::start_in(folder, |config| config.trace = Some(trace)).await;
        let _folder = harness.stop().await;
        std::fs::metadata(&file).unwrap().len()
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace");
    let limit = idle + 16_000;
    let trace = Trace { file: file.clone(), limit };
    let harness = Harness::start_in(folder, |config| config.trace = Some(trace)).await;
    let mut worker = harness.worker("w1", &["a"]).await;
    for _ in 0..60 {
        let run = harness.start_run(one_wave(&["a"])).await;
        let assigned = worker.assignment().await;
        worker.complete(&assigned.lease, payload(json!(1))).await;
        assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Succeeded);
    }
    drop(worker);
    let _folder = harness.stop().await;
    let bytes = std::fs::metadata(&file).unwrap().len();
    // It holds whole records only: it stops before the first that does not fit.
    assert!((idle / 2..=limit).contains(&bytes), "{bytes} of {limit}, {idle} of them idle");
    assert_same(&file, 5);
}
