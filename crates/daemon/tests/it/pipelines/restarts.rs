//! A daemon that ends, in order or not, while a pipeline stands somewhere.

use capataz_contracts::v1::{self, CheckpointStatus, connect_response::Frame as Hear};
use serde_json::json as of;

use super::{REVIEW, answer, blocked, checkpoints, given, start, statuses, value};
use crate::support::{Harness, Worker, json};

const AGENTS: &[&str] = &["reader", "teller"];

/// How a daemon ends.
#[derive(Clone, Copy)]
enum End {
    InOrder,
    /// Without a drain, as if it were killed.
    Torn,
}

async fn restarted(harness: Harness, end: End) -> Harness {
    match end {
        End::InOrder => harness.restart().await,
        End::Torn => {
            let Harness { daemon, folder, .. } = harness;
            drop(daemon);
            Harness::start_in(folder, |_| ()).await
        }
    }
}

/// Waits until the daemon has heard everything that this worker has said so far.
async fn heard(worker: &mut Worker, lease: &v1::LeaseRef) {
    let unknown = v1::LeaseRef { lease: lease.lease + 1_000, ..lease.clone() };
    worker.complete(&unknown, json(of!(null))).await;
    worker.hear_until(|frame| matches!(frame, Hear::ResultRefused(_)).then_some(())).await;
}

async fn at_work(end: End) {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", AGENTS).await;
    let run = start(&harness, given(REVIEW, of!({ "path": "src" }))).await;
    let read = worker.assignment().await;
    // The second attempt, with its correction.
    worker.complete(&read.lease, json(of!({ "title": 7 }))).await;
    let read = worker.assignment().await;
    assert_eq!(read.assignment.attempt, 2);
    heard(&mut worker, &read.lease).await;
    drop(worker);
    let harness = restarted(harness, end).await;
    let mut worker = Worker::connect(harness.channel.clone(), "w1", AGENTS, vec![read.lease.clone()]).await;
    assert_eq!(worker.welcome.reattached, std::slice::from_ref(&read.lease));
    worker.complete(&read.lease, json(of!({ "title": "the sea" }))).await;
    let tell = worker.assignment().await;
    let given = value(&harness, tell.assignment.input.as_ref()).await;
    assert_eq!(given["phases"]["read"], of!({ "title": "the sea" }));
    worker.complete(&tell.lease, json(of!(1))).await;
    assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Succeeded);
}

async fn blocked_one(end: End) {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", AGENTS).await;
    let run = start(&harness, given(REVIEW, of!({ "path": "src" }))).await;
    for _ in 1..=4 {
        let read = worker.assignment().await;
        worker.complete(&read.lease, json(of!({ "title": 7 }))).await;
    }
    let question = blocked(&harness, &run).await;
    let then = checkpoints(&harness, &run, None).await;
    drop(worker);
    let harness = restarted(harness, end).await;
    assert_eq!(checkpoints(&harness, &run, None).await, then);
    assert_eq!(blocked(&harness, &run).await, question);
    let mut worker = harness.worker("w1", AGENTS).await;
    harness.runs.clone().resolve(answer(&run, &question, "retry", None)).await.unwrap();
    let read = worker.assignment().await;
    assert_eq!((read.assignment.task_name.as_str(), read.assignment.attempt), ("read.again-2", 1));
    assert_eq!(read.assignment.input, Some(json(of!({ "path": "src" }))), "without a correction");
    worker.complete(&read.lease, json(of!({ "title": "the sea" }))).await;
    let tell = worker.assignment().await;
    worker.complete(&tell.lease, json(of!(1))).await;
    assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Succeeded);
}

/// The output counts, and the next phase has begun or not.
async fn between_phases(end: End) {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", AGENTS).await;
    let run = start(&harness, given(REVIEW, of!({ "path": "src" }))).await;
    let read = worker.assignment().await;
    worker.complete(&read.lease, json(of!({ "title": "the sea" }))).await;
    worker.hear_until(|frame| matches!(frame, Hear::ResultAccepted(_)).then_some(())).await;
    // The next phase is not heard of: if it was given out already, it is given out anew.
    drop(worker);
    let harness = restarted(harness, end).await;
    let mut worker = harness.worker("w1", AGENTS).await;
    let tell = worker.assignment().await;
    assert_eq!(tell.assignment.task_name, "tell", "what counts is not done again");
    let given = value(&harness, tell.assignment.input.as_ref()).await;
    assert_eq!(given["phases"]["read"], of!({ "title": "the sea" }));
    worker.complete(&tell.lease, json(of!(1))).await;
    assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Succeeded);
    let stands = checkpoints(&harness, &run, None).await;
    assert_eq!(statuses(&stands), [CheckpointStatus::Completed; 2]);
}

#[tokio::test]
async fn a_phase_at_work_goes_on_over_a_restart() {
    at_work(End::InOrder).await;
    at_work(End::Torn).await;
}

// S003-OU-12
#[tokio::test]
async fn a_blocked_phase_and_its_question_are_there_after_a_restart() {
    blocked_one(End::InOrder).await;
    blocked_one(End::Torn).await;
}

#[tokio::test]
async fn a_restart_between_two_phases_loses_nothing_and_does_nothing_again() {
    between_phases(End::InOrder).await;
    between_phases(End::Torn).await;
}

/// An output that is being judged when the daemon ends is said again by its worker.
#[tokio::test]
async fn a_result_whose_verdict_was_not_heard_is_judged_when_it_is_said_again() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", AGENTS).await;
    let run = start(&harness, given(REVIEW, of!({ "path": "src" }))).await;
    let read = worker.assignment().await;
    heard(&mut worker, &read.lease).await;
    worker.complete(&read.lease, json(of!({ "title": 7 }))).await;
    let harness = restarted(harness, End::Torn).await;
    let mut worker = Worker::connect(harness.channel.clone(), "w1", AGENTS, vec![read.lease.clone()]).await;
    worker.complete(&read.lease, json(of!({ "title": 7 }))).await;
    let again = worker.assignment().await;
    assert_eq!(again.assignment.attempt, 2);
    let given = value(&harness, again.assignment.input.as_ref()).await;
    assert_eq!(given["correction"]["violations"][0]["path"], "/title", "{given}");
    worker.complete(&again.lease, json(of!({ "title": "the sea" }))).await;
    let tell = worker.assignment().await;
    worker.complete(&tell.lease, json(of!(1))).await;
    assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Succeeded);
}
