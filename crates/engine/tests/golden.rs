//! A stored log stays readable. `golden/format-1.binpb` holds the events of one run, each with its length before it, as
//! the store keeps them; `golden/format-1.txt` says what they fold to.
//!
//! Once a version that writes this format is released, its file never changes: a later format gets a file of its own.
//! Until then `CAPATAZ_WRITE_GOLDEN=1 cargo test -p capataz-engine --test golden` writes both anew.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod golden_run;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use capataz_contracts::v1::{self, event::Body};
use capataz_engine::{RunState, ViewOptions};
use prost::Message;

const SEED: u64 = 42;

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

#[expect(clippy::disallowed_methods, reason = "whoever runs the tests asks for the files to be written")]
fn wants_writing() -> bool {
    std::env::var("CAPATAZ_WRITE_GOLDEN").is_ok_and(|value| value == "1")
}

fn events(mut bytes: &[u8]) -> Vec<v1::Event> {
    let mut events = Vec::new();
    while !bytes.is_empty() {
        events.push(v1::Event::decode_length_delimited(&mut bytes).expect("an event can be read"));
    }
    events
}

static STORED: LazyLock<Vec<u8>> = LazyLock::new(|| {
    if wants_writing() {
        let log = golden_run::log(SEED);
        let state = RunState::fold(SEED, events(&log)).expect("the log can be folded");
        fs::write(path("format-1.txt"), told(&state)).unwrap();
        fs::write(path("format-1.binpb"), log).unwrap();
    }
    fs::read(path("format-1.binpb")).expect("the golden log is there")
});

fn stored() -> Vec<v1::Event> {
    events(&STORED)
}

#[test]
fn a_log_of_format_1_folds_to_the_same_run() {
    let events = stored();
    let state = RunState::fold(SEED, events).expect("the log can be folded");
    assert_eq!(told(&state), fs::read_to_string(path("format-1.txt")).unwrap());
}

#[test]
fn every_beginning_of_the_log_is_a_log() {
    let events = stored();
    for end in 1..=events.len() {
        let state = RunState::fold(SEED, events[..end].iter().cloned()).expect("the beginning can be folded");
        assert_eq!(state.seq(), end as u64);
        assert_eq!(state.is_finished(), end == events.len());
        let bytes = state.snapshot().unwrap();
        assert_eq!(RunState::from_snapshot(&bytes).unwrap().snapshot().unwrap(), bytes);
    }
}

#[test]
fn the_log_has_every_kind_of_event() {
    let kinds: BTreeSet<usize> = stored().iter().map(|event| kind(event.body.as_ref().unwrap())).collect();
    assert_eq!(kinds, (0..KINDS).collect());
}

const KINDS: usize = 21;

fn kind(body: &Body) -> usize {
    match body {
        Body::RunAccepted(_) => 0,
        Body::WaveStarted(_) => 1,
        Body::TaskInputResolved(_) => 2,
        Body::TaskLeased(_) => 3,
        Body::TaskLeaseLost(_) => 4,
        Body::TaskAttemptFailed(_) => 5,
        Body::TaskRetryDue(_) => 6,
        Body::TaskCancelRequested(_) => 7,
        Body::TaskExtended(_) => 8,
        Body::TaskSettled(_) => 9,
        Body::TaskReactivated(_) => 10,
        Body::ResultRefused(_) => 11,
        Body::WaveDecided(_) => 12,
        Body::WaveFinished(_) => 13,
        Body::QuestionAsked(_) => 14,
        Body::QuestionAnswered(_) => 15,
        Body::RunPaused(_) => 16,
        Body::RunResumed(_) => 17,
        Body::RunCancelRequested(_) => 18,
        Body::RunFinished(_) => 19,
        Body::Notice(_) => 20,
        Body::AskBegun(_)
        | Body::AskRouted(_)
        | Body::TransitionConsidered(_)
        | Body::SessionOpened(_)
        | Body::SessionTurn(_)
        | Body::SessionTransitionAccepted(_)
        | Body::BrowserActivityStarted(_)
        | Body::BrowserOpened(_)
        | Body::ActionProposed(_)
        | Body::StageFinished(_)
        | Body::ActionFinished(_)
        | Body::ActionFailed(_)
        | Body::BrowserCloseRequested(_)
        | Body::BrowserClosed(_) => panic!("the log is that of a plan"),
    }
}

/// The run in words, field by field, so that a field that is new to the view does not change them.
fn told(state: &RunState) -> String {
    let options = ViewOptions { tasks: true, outputs: true, offset: 0, limit: usize::MAX };
    let run = state.view("run".to_owned(), options);
    let mut text = String::new();
    let out = &mut text;
    writeln!(out, "run {:?} seq {} wave {}", run.name, run.seq, run.wave).unwrap();
    writeln!(out, "  {:?}, {:?}", run.status(), run.outcome()).unwrap();
    writeln!(out, "  at {} to {:?}", run.created_at_ms, run.finished_at_ms).unwrap();
    writeln!(out, "  labels {:?}", run.labels).unwrap();
    if let Some(parent) = &run.parent {
        writeln!(out, "  parent {} {} {}", parent.run_id, parent.task, parent.lease).unwrap();
    }
    if let Some(summary) = &run.summary {
        let v1::ErrorSummary { total, critical, high, medium, low, critical_tasks } = summary;
        writeln!(out, "  errors {total}: {critical} {high} {medium} {low}, critical tasks {critical_tasks}")
            .unwrap();
    }
    writeln!(
        out,
        "  settled {} of {}, error {:?}",
        run.tasks_settled,
        run.tasks_total,
        code(run.error.as_ref())
    )
    .unwrap();
    for question in &run.questions {
        let v1::Question { question_id, options, task, answer, asked_at_ms, error, .. } = question;
        writeln!(out, "question {question_id} {task:?} {:?} {options:?}: {answer:?}", code(error.as_ref()))
            .unwrap();
        writeln!(out, "  asked at {asked_at_ms}").unwrap();
    }
    for wave in &run.waves {
        writeln!(out, "wave {} {:?}", wave.name, wave.policy()).unwrap();
        if let Some(evaluation) = &wave.evaluation {
            let v1::Evaluation { should_continue, successes, total, quorum_met, failed_agents, .. } =
                evaluation;
            writeln!(out, "  {should_continue} {successes}/{total} {quorum_met:?} {failed_agents:?}")
                .unwrap();
        }
        for task in &wave.tasks {
            tell_task(out, task);
        }
    }
    text
}

fn tell_task(out: &mut String, task: &v1::TaskView) {
    writeln!(out, "  task {} by {} critical {}", task.name, task.agent, task.critical).unwrap();
    writeln!(out, "    {:?} {:?}", task.state(), task.status.map(|_| task.status())).unwrap();
    writeln!(out, "    attempt {}/{} activation {}", task.attempt, task.max_attempts, task.activation)
        .unwrap();
    writeln!(out, "    {:?} {:?} {:?}", task.started_at_ms, task.deadline_ms, task.settled_at_ms).unwrap();
    writeln!(out, "    error {:?} worker {:?}", code(task.error.as_ref()), task.worker).unwrap();
    let output = task.output.as_ref().and_then(|output| match output.data.as_ref()? {
        v1::payload::Data::Inline(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        v1::payload::Data::Blob(blob) => Some(blob.blake3.clone()),
    });
    writeln!(out, "    output {output:?}").unwrap();
    let steps: Vec<String> =
        task.history.iter().map(|step| format!("{:?}@{}", step.to(), step.at_ms)).collect();
    writeln!(out, "    {}", steps.join(" ")).unwrap();
}

fn code(error: Option<&v1::Error>) -> Option<&str> {
    error.map(|error| error.code.as_str())
}
