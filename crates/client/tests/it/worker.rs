//! The worker SDK: what it says, when, and what it keeps.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use capataz_client::worker::{Task, TaskError, TaskOutput, Worker};
use capataz_client::{ClientError, v1};
use capataz_contracts::v1::connect_request::Frame as Said;
use capataz_contracts::v1::connect_response::Frame;
use capataz_contracts::v1::payload::Data;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use super::daemon::{Connection, Daemon, soon};
use super::proxy::Proxy;

/// A grace period that no test waits for.
const LONG: i64 = 3_600_000;

fn lease(lease: u64) -> v1::LeaseRef {
    v1::LeaseRef { run_id: "run-1".to_owned(), wave: 0, task: 0, lease }
}

fn payload(value: &Value) -> v1::Payload {
    v1::Payload {
        media_type: "application/json".to_owned(),
        data: Some(Data::Inline(value.to_string().into())),
    }
}

fn completed(number: u64, value: &Value) -> Said {
    Said::Completed(v1::Completed {
        lease: Some(lease(number)),
        output: Some(payload(value)),
        ..Default::default()
    })
}

fn ack(number: u64) -> Said {
    Said::Ack(v1::Ack { lease: Some(lease(number)) })
}

impl Connection {
    async fn welcome(&self, reattached: &[u64]) {
        let reattached = reattached.iter().copied().map(lease).collect();
        self.welcome_with(reattached, 0).await;
    }

    /// A welcome that says how long a silence means something; 0 of a daemon that sends no heartbeats.
    async fn welcome_with(&self, reattached: Vec<v1::LeaseRef>, silence_limit_ms: i64) {
        let welcome =
            v1::Welcome { heartbeat_interval_ms: 5_000, ack_timeout_ms: 5_000, reattached, silence_limit_ms };
        self.send(Frame::Welcome(welcome)).await;
    }

    /// The leases that the hello lists, and the welcome.
    async fn greet(&mut self, reattached: &[u64]) -> Vec<u64> {
        let hello = self.hello().await;
        self.welcome(reattached).await;
        let mut held: Vec<u64> = hello.held.iter().map(|lease| lease.lease).collect();
        held.sort_unstable();
        held
    }

    async fn assign(&self, number: u64, input: &Value) {
        self.assign_to("echo", number, payload(input)).await;
    }

    async fn assign_to(&self, agent: &str, number: u64, input: v1::Payload) {
        let assignment = v1::Assignment {
            lease: Some(lease(number)),
            agent: agent.to_owned(),
            task_name: "the task".to_owned(),
            activation: 1,
            attempt: 2,
            input: Some(input),
            deadline_ms: 4_000_000_000_000,
            remaining_ms: 3_600_000,
            output_schema: String::new(),
            traceparent: String::new(),
            idempotency_key: "run-1/the task/1".to_owned(),
        };
        self.send(Frame::Assignment(assignment)).await;
    }

    /// The next frame that is not an acknowledgement: a result that is quick enough needs none.
    async fn answer(&mut self) -> Said {
        loop {
            let frame = self.frame().await;
            if !matches!(frame, Said::Ack(_)) {
                return frame;
            }
        }
    }

    /// Assigns what takes its time, and takes the acknowledgement.
    async fn begin(&mut self, number: u64, input: &Value) {
        self.assign(number, input).await;
        assert_eq!(self.frame().await, ack(number));
    }

    async fn cancel(&self, number: u64, grace_ms: i64) {
        let reason = v1::CancelReason::Timeout as i32;
        self.send(Frame::Cancel(v1::Cancel { lease: Some(lease(number)), reason, grace_ms })).await;
    }

    async fn accept(&self, number: u64) {
        self.send(Frame::ResultAccepted(v1::ResultAccepted { lease: Some(lease(number)) })).await;
    }

    /// Makes sure that the worker has dealt with what was sent before: frames are dealt with in their order.
    async fn settle(&mut self) {
        self.assign_to("nobody", 999, v1::Payload::default()).await;
        assert_eq!(self.frame().await, Said::Returned(v1::Returned { lease: Some(lease(999)) }));
    }

    async fn cut(self) {
        self.fail(Status::unavailable("cut")).await;
    }
}

/// A running worker that can be told to stop.
struct Running {
    stop: oneshot::Sender<()>,
    ended: JoinHandle<Result<(), ClientError>>,
}

fn run(worker: Worker) -> Running {
    let (stop, stopped) = oneshot::channel();
    let ended = tokio::spawn(worker.run_until(async {
        let _ = stopped.await;
    }));
    Running { stop, ended }
}

fn echo(daemon: &Daemon) -> Worker {
    echo_at(&daemon.endpoint())
}

fn echo_at(endpoint: &str) -> Worker {
    Worker::new(endpoint)
        .id("worker-1")
        .slots(2)
        .agent("echo", |task: Task| async move { Ok(json!({ "echo": task.input_json::<Value>()? })) })
}

/// A worker whose tasks the test gets to see; each ends as the test says.
fn scripted(daemon: &Daemon) -> (Worker, mpsc::UnboundedReceiver<Step>) {
    scripted_at(&daemon.endpoint())
}

fn scripted_at(endpoint: &str) -> (Worker, mpsc::UnboundedReceiver<Step>) {
    let (steps, seen) = mpsc::unbounded_channel();
    let worker = Worker::new(endpoint).id("worker-1").slots(2).agent("echo", move |task| {
        let steps = steps.clone();
        async move {
            let (finish, finished) = oneshot::channel();
            let (alive, dropped) = oneshot::channel();
            steps.send(Step { task, finish, dropped }).unwrap();
            let _alive: oneshot::Sender<()> = alive;
            finished.await.unwrap()
        }
    });
    (worker, seen)
}

struct Step {
    task: Task,
    finish: oneshot::Sender<Result<TaskOutput, TaskError>>,
    /// Ready when the handler's future is gone.
    dropped: oneshot::Receiver<()>,
}

impl Step {
    fn finish(self, value: Value) {
        assert!(self.finish.send(Ok(value.into())).is_ok(), "the handler is gone");
    }

    async fn gone(self) {
        assert!(soon(self.dropped).await.is_err());
    }
}

async fn step(seen: &mut mpsc::UnboundedReceiver<Step>) -> Step {
    soon(seen.recv()).await.unwrap()
}

#[tokio::test]
async fn a_task_from_hello_to_confirmation() {
    let mut daemon = Daemon::start().await;
    let _worker = run(echo(&daemon));
    let mut connection = daemon.worker().await;
    let hello = connection.hello().await;
    assert_eq!((&*hello.worker_id, hello.slots, hello.protocol), ("worker-1", 2, 1));
    assert_eq!((&*hello.agents[0].name, hello.agents[0].max_concurrency), ("echo", 2));
    assert!(hello.held.is_empty());
    connection.welcome(&[]).await;
    connection.assign(1, &json!([1, 2])).await;
    assert_eq!(connection.answer().await, completed(1, &json!({ "echo": [1, 2] })));
    connection.accept(1).await;
    connection.settle().await;
    connection.cut().await;
    assert!(daemon.worker().await.greet(&[]).await.is_empty());
}

#[tokio::test]
async fn what_a_handler_sees() {
    let mut daemon = Daemon::start().await;
    let (worker, mut seen) = scripted(&daemon);
    let _worker = run(worker);
    let mut connection = daemon.worker().await;
    connection.greet(&[]).await;
    connection.begin(7, &json!("in")).await;
    let step = step(&mut seen).await;
    let task = &step.task;
    assert_eq!((task.run_id(), task.name(), task.agent()), ("run-1", "the task", "echo"));
    assert_eq!((task.attempt(), task.activation()), (2, 1));
    assert_eq!(task.idempotency_key(), "run-1/the task/1");
    assert_eq!(task.parent_ref().lease, 7);
    assert_eq!(task.input(), &payload(&json!("in")));
    assert_eq!(task.input_json::<String>(), Ok("in".to_owned()));
    assert_eq!(task.input_json::<u64>().unwrap_err().code(), "VALIDATION_ERROR");
    assert!(!task.is_cancelled());
    // Counted from when the frame came, which was before now and after the test began.
    let left = |task: &Task| task.deadline().duration_since(tokio::time::Instant::now().into_std()).as_secs();
    assert!((3_000..=3_600).contains(&left(task)), "{}", left(task));
    let extended = v1::DeadlineExtended {
        lease: Some(lease(7)),
        deadline_ms: 4_000_003_600_000,
        cancel_withdrawn: false,
        remaining_ms: 7_200_000,
    };
    connection.send(Frame::DeadlineExtended(extended)).await;
    connection.settle().await;
    assert!((6_600..=7_200).contains(&left(task)), "{}", left(task));
}

#[tokio::test]
async fn a_result_is_sent_until_it_is_confirmed() {
    let mut daemon = Daemon::start().await;
    let _worker = run(echo(&daemon));
    let mut connection = daemon.worker().await;
    connection.greet(&[]).await;
    connection.assign(1, &json!(1)).await;
    let result = completed(1, &json!({ "echo": 1 }));
    assert_eq!(connection.answer().await, result);
    // Whether the daemon still knows the lease makes no difference to a result.
    for reattached in [&[1_u64][..], &[]] {
        connection.cut().await;
        connection = daemon.worker().await;
        assert_eq!(connection.greet(reattached).await, [1]);
        assert_eq!(connection.frame().await, result);
    }
    let refused = v1::ResultRefusedFrame {
        lease: Some(lease(1)),
        reason: v1::RefusalReason::StaleLease as i32,
        error: None,
    };
    connection.send(Frame::ResultRefused(refused)).await;
    connection.settle().await;
    connection.cut().await;
    assert!(daemon.worker().await.greet(&[]).await.is_empty());
}

#[tokio::test]
async fn running_work_goes_on_where_it_is_reattached_and_is_dropped_where_it_is_not() {
    let mut daemon = Daemon::start().await;
    let (worker, mut seen) = scripted(&daemon);
    let _worker = run(worker);
    let mut connection = daemon.worker().await;
    connection.greet(&[]).await;
    connection.begin(1, &json!(1)).await;
    let kept = step(&mut seen).await;
    connection.begin(2, &json!(2)).await;
    let lost = step(&mut seen).await;
    connection.cut().await;
    let mut connection = daemon.worker().await;
    assert_eq!(connection.greet(&[1]).await, [1, 2]);
    lost.gone().await;
    kept.finish(json!("kept"));
    assert_eq!(connection.frame().await, completed(1, &json!("kept")));
    connection.cut().await;
    assert_eq!(daemon.worker().await.greet(&[]).await, [1]);
}

#[tokio::test]
async fn a_killed_daemon_gets_its_results_when_it_is_back() {
    let mut daemon = Daemon::start().await;
    let (worker, mut seen) = scripted(&daemon);
    let _worker = run(worker);
    let mut connection = daemon.worker().await;
    connection.greet(&[]).await;
    connection.begin(1, &json!(1)).await;
    let step = step(&mut seen).await;
    let address = daemon.address;
    daemon.kill().await;
    step.finish(json!("done while nobody listened"));
    let mut daemon = Daemon::start_on(address).await;
    let mut connection = daemon.worker().await;
    assert_eq!(connection.greet(&[1]).await, [1]);
    assert_eq!(connection.frame().await, completed(1, &json!("done while nobody listened")));
}

/// Far below the time after which the transport itself gives a connection up.
const SHORT_SILENCE_MS: i64 = 200;

#[tokio::test]
async fn a_connection_that_falls_silent_is_left_and_the_work_goes_on_over_a_new_one() {
    let mut daemon = Daemon::start().await;
    let proxy = Proxy::start(daemon.address).await;
    let (worker, mut seen) = scripted_at(&proxy.endpoint());
    let _worker = run(worker);
    let mut half_open = daemon.worker().await;
    half_open.hello().await;
    half_open.welcome_with(Vec::new(), SHORT_SILENCE_MS).await;
    half_open.begin(1, &json!(1)).await;
    let step = step(&mut seen).await;
    proxy.silence();
    // The daemon has not noticed anything; what it says now nobody hears.
    half_open.send(Frame::LeaseRevoked(v1::LeaseRevoked { lease: Some(lease(1)) })).await;

    let mut connection = daemon.worker().await;
    assert_eq!(connection.greet(&[1]).await, [1]);
    assert_eq!(proxy.connections(), 2);
    step.finish(json!("kept"));
    assert_eq!(connection.frame().await, completed(1, &json!("kept")));
    connection.accept(1).await;
    connection.settle().await;
}

#[tokio::test]
async fn blobs_go_over_the_new_connection_too() {
    let mut daemon = Daemon::start().await;
    let proxy = Proxy::start(daemon.address).await;
    let _worker = run(echo_at(&proxy.endpoint()));
    let mut silent = daemon.worker().await;
    silent.hello().await;
    silent.welcome_with(Vec::new(), SHORT_SILENCE_MS).await;
    silent.settle().await;
    proxy.silence();
    let mut connection = daemon.worker().await;
    connection.greet(&[]).await;
    connection.assign(1, &json!("x".repeat(200_000))).await;
    let Said::Completed(done) = connection.answer().await else { panic!("not completed") };
    assert!(matches!(done.output.unwrap().data, Some(Data::Blob(_))));
    assert_eq!(proxy.connections(), 2);
}

#[tokio::test]
async fn the_silence_of_a_daemon_that_sends_no_heartbeats_means_nothing() {
    let mut daemon = Daemon::start().await;
    let _old = run(echo(&daemon));
    let mut old = daemon.worker().await;
    old.hello().await;
    old.welcome_with(Vec::new(), 0).await;
    // Another worker measures the time: it gives up three silent connections meanwhile.
    let mut newer_daemon = Daemon::start().await;
    let _measure = run(echo(&newer_daemon));
    let mut silent = Vec::new();
    for _ in 0..3 {
        let connection = newer_daemon.worker().await;
        connection.welcome_with(Vec::new(), SHORT_SILENCE_MS).await;
        silent.push(connection);
    }
    newer_daemon.worker().await;
    old.settle().await;
}

#[tokio::test]
async fn frames_of_a_kind_that_the_worker_does_not_know_are_passed_over() {
    // As an older client sees a newer frame: field 99, an empty message.
    let unknown: &[u8] = &[0x9a, 0x06, 0x00];
    let response: v1::ConnectResponse = prost::Message::decode(unknown).unwrap();
    assert_eq!(response.frame, None);

    let mut daemon = Daemon::start().await;
    let _worker = run(echo(&daemon));
    let mut connection = daemon.worker().await;
    connection.greet(&[]).await;
    connection.send_raw(response).await;
    connection.send(Frame::Heartbeat(v1::Heartbeat {})).await;
    connection.settle().await;
}

#[tokio::test]
async fn a_revoked_lease_is_dropped_at_once() {
    let mut daemon = Daemon::start().await;
    let (worker, mut seen) = scripted(&daemon);
    let _worker = run(worker);
    let mut connection = daemon.worker().await;
    connection.greet(&[]).await;
    connection.begin(1, &json!(1)).await;
    let step = step(&mut seen).await;
    connection.send(Frame::LeaseRevoked(v1::LeaseRevoked { lease: Some(lease(1)) })).await;
    step.gone().await;
    connection.settle().await;
    connection.cut().await;
    assert!(daemon.worker().await.greet(&[]).await.is_empty());
}

#[tokio::test]
async fn a_handler_that_heeds_the_cancel_has_stopped_in_time() {
    let mut daemon = Daemon::start().await;
    let worker = Worker::new(daemon.endpoint()).agent("echo", |task: Task| async move {
        task.cancelled().await;
        Ok(format!("{:?}", task.cancel_reason()))
    });
    let _worker = run(worker);
    let mut connection = daemon.worker().await;
    connection.greet(&[]).await;
    connection.begin(1, &json!(1)).await;
    connection.cancel(1, LONG).await;
    let partial_output = Some(v1::Payload {
        media_type: "text/plain".to_owned(),
        data: Some(Data::Inline(Bytes::from_static(b"Some(Timeout)"))),
    });
    let cancelled = v1::Cancelled { lease: Some(lease(1)), partial_output, ..Default::default() };
    assert_eq!(connection.frame().await, Said::Cancelled(cancelled));
}

#[tokio::test]
async fn a_handler_that_ignores_the_cancel_is_dropped_after_the_grace() {
    let mut daemon = Daemon::start().await;
    let (worker, mut seen) = scripted(&daemon);
    let _worker = run(worker);
    let mut connection = daemon.worker().await;
    connection.greet(&[]).await;
    connection.begin(1, &json!(1)).await;
    let step = step(&mut seen).await;
    step.task.log("begun");
    step.task.partial_output(json!("half")).await.unwrap();
    let Said::Progress(progress) = connection.frame().await else { panic!("no progress") };
    assert_eq!(progress.partial_output, Some(payload(&json!("half"))));
    connection.cancel(1, LONG).await;
    soon(step.task.cancelled()).await;
    // A second cancel ends the grace.
    connection.cancel(1, 0).await;
    let cancelled = v1::Cancelled {
        lease: Some(lease(1)),
        partial_output: Some(payload(&json!("half"))),
        log: "begun\n".to_owned(),
    };
    assert_eq!(connection.frame().await, Said::Cancelled(cancelled.clone()));
    step.gone().await;
    // It is a result like others.
    connection.cut().await;
    let mut connection = daemon.worker().await;
    assert_eq!(connection.greet(&[]).await, [1]);
    assert_eq!(connection.frame().await, Said::Cancelled(cancelled));
}

#[tokio::test]
async fn more_time_withdraws_the_cancel() {
    let mut daemon = Daemon::start().await;
    let (worker, mut seen) = scripted(&daemon);
    let _worker = run(worker);
    let mut connection = daemon.worker().await;
    connection.greet(&[]).await;
    connection.begin(1, &json!(1)).await;
    let step = step(&mut seen).await;
    connection.cancel(1, LONG).await;
    soon(step.task.cancelled()).await;
    let extended = v1::DeadlineExtended {
        lease: Some(lease(1)),
        deadline_ms: 5,
        cancel_withdrawn: true,
        remaining_ms: 1,
    };
    connection.send(Frame::DeadlineExtended(extended)).await;
    connection.settle().await;
    assert!(!step.task.is_cancelled());
    step.finish(json!("in time"));
    assert_eq!(connection.frame().await, completed(1, &json!("in time")));
}

#[tokio::test]
async fn failures() {
    let mut daemon = Daemon::start().await;
    let worker = Worker::new(daemon.endpoint()).agent("echo", |task: Task| async move {
        match task.input_json::<String>()?.as_str() {
            "panic" => panic!("of {}", task.name()),
            "parse" => Ok("x".parse::<u32>()?.to_string()),
            _ => Err(TaskError::new("RATE_LIMIT", "slow down")
                .retry_after(Duration::from_secs(3))
                .severity(v1::Severity::Low)),
        }
    });
    let _worker = run(worker);
    let mut connection = daemon.worker().await;
    connection.greet(&[]).await;
    let error = |code: &str, message: &str| v1::Error {
        code: code.to_owned(),
        message: message.to_owned(),
        ..v1::Error::default()
    };
    let limited = v1::Error {
        severity: v1::Severity::Low as i32,
        retry_after_ms: Some(3_000),
        ..error("RATE_LIMIT", "slow down")
    };
    let cases = [
        ("panic", error("LOGIC_ERROR", "the handler panicked: of the task")),
        ("parse", error("UNKNOWN_ERROR", "invalid digit found in string")),
        ("other", limited),
    ];
    for (number, (input, error)) in (1..).zip(cases) {
        connection.assign(number, &json!(input)).await;
        let failed = v1::Failed { lease: Some(lease(number)), error: Some(error), ..Default::default() };
        assert_eq!(connection.answer().await, Said::Failed(failed));
        connection.accept(number).await;
    }
}

#[tokio::test]
async fn what_the_work_used_goes_with_its_result_and_is_repeated_with_it() {
    let mut daemon = Daemon::start().await;
    let usage = v1::Usage {
        input_tokens: Some(1_200),
        output_tokens: Some(80),
        cached_tokens: Some(0),
        cost: Some(v1::Cost { nanos: 1_920_000, currency: "EUR".to_owned() }),
    };
    let said = usage.clone();
    let worker = Worker::new(daemon.endpoint()).agent("echo", move |_| {
        let output = TaskOutput::text("x").with_usage(said.clone());
        async { Ok(output) }
    });
    let _worker = run(worker);
    let mut connection = daemon.worker().await;
    connection.greet(&[]).await;
    connection.assign(1, &json!(1)).await;
    for _ in 0..2 {
        let Said::Completed(done) = connection.answer().await else { panic!("not completed") };
        assert_eq!(done.usage.as_ref(), Some(&usage));
        connection.cut().await;
        connection = daemon.worker().await;
        connection.greet(&[1]).await;
    }
}

#[tokio::test]
async fn a_repeated_assignment_is_acknowledged_and_done_once() {
    let mut daemon = Daemon::start().await;
    let begun = Arc::new(AtomicUsize::new(0));
    let (finish, finished) = tokio::sync::watch::channel(false);
    let worker = Worker::new(daemon.endpoint()).agent("echo", {
        let begun = Arc::clone(&begun);
        move |_| {
            begun.fetch_add(1, Ordering::Relaxed);
            let mut finished = finished.clone();
            async move {
                finished.wait_for(|is_finished| *is_finished).await?;
                Ok(())
            }
        }
    });
    let _worker = run(worker);
    let mut connection = daemon.worker().await;
    connection.greet(&[]).await;
    connection.begin(1, &json!(1)).await;
    connection.begin(1, &json!(1)).await;
    finish.send_replace(true);
    assert_eq!(connection.frame().await, completed(1, &Value::Null));
    connection.begin(1, &json!(1)).await;
    connection.settle().await;
    assert_eq!(begun.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn what_it_has_no_room_for_goes_back() {
    let mut daemon = Daemon::start().await;
    let (worker, mut seen) = scripted(&daemon);
    let _worker = run(worker);
    let mut connection = daemon.worker().await;
    connection.greet(&[]).await;
    let returned = |number| Said::Returned(v1::Returned { lease: Some(lease(number)) });
    connection.begin(1, &json!(1)).await;
    connection.begin(2, &json!(2)).await;
    connection.assign(3, &json!(3)).await;
    assert_eq!(connection.frame().await, returned(3));
    for _ in 0..2 {
        let step = step(&mut seen).await;
        let number = step.task.parent_ref().lease;
        step.finish(json!(null));
        assert_eq!(connection.frame().await, completed(number, &json!(null)));
    }
    // Unconfirmed results are kept, so a daemon that confirms none gets no further ones.
    for number in [4, 5] {
        connection.begin(number, &json!(number)).await;
        step(&mut seen).await.finish(json!(null));
        assert_eq!(connection.frame().await, completed(number, &json!(null)));
    }
    connection.assign(6, &json!(6)).await;
    assert_eq!(connection.frame().await, returned(6));
    connection.accept(1).await;
    connection.begin(7, &json!(7)).await;
}

#[tokio::test]
async fn large_payloads_travel_as_blobs() {
    let mut daemon = Daemon::start().await;
    let _worker = run(echo(&daemon));
    let mut connection = daemon.worker().await;
    connection.greet(&[]).await;
    let text = json!("x".repeat(200_000));
    let blake3 = "a".repeat(64);
    daemon.blobs.lock().unwrap().insert(blake3.clone(), text.to_string().into());
    let blob = |blake3: &str, size| v1::Payload {
        media_type: "application/json".to_owned(),
        data: Some(Data::Blob(v1::BlobRef::new(blake3.to_owned(), size))),
    };
    connection.assign_to("echo", 1, blob(&blake3, 200_002)).await;
    let stored = format!("{:064x}", 1);
    let output = Some(blob(&stored, 200_011));
    assert_eq!(
        connection.answer().await,
        Said::Completed(v1::Completed { lease: Some(lease(1)), output, ..Default::default() })
    );
    assert_eq!(daemon.blobs.lock().unwrap()[&stored], json!({ "echo": text }).to_string());

    connection.assign_to("echo", 2, blob("gone", 5)).await;
    let Said::Failed(failed) = connection.answer().await else { panic!("not failed") };
    assert!(failed.error.unwrap().message.contains("no such blob"));
}

#[tokio::test]
async fn progress_comes_down_to_the_newest() {
    let mut daemon = Daemon::start().await;
    let (worker, mut seen) = scripted(&daemon);
    let _worker = run(worker);
    let mut connection = daemon.worker().await;
    connection.greet(&[]).await;
    connection.begin(1, &json!(1)).await;
    let step = step(&mut seen).await;
    let began = Instant::now();
    for percent in 0..=1_000_u32 {
        step.task.progress(f64::from(percent) / 1_000.0, percent.to_string()).await;
        if percent % 100 == 0 {
            tokio::task::yield_now().await;
        }
    }
    let mut frames = 0;
    loop {
        let Said::Progress(progress) = connection.frame().await else { panic!("no progress") };
        frames += 1;
        if progress.fraction == Some(1.0) {
            assert_eq!(progress.message.as_deref(), Some("1000"));
            break;
        }
    }
    let tenths = began.elapsed().as_millis() / 100;
    assert!(frames <= tenths + 1, "{frames} frames in {tenths} tenths of a second");
    step.finish(json!(null));
    assert_eq!(connection.frame().await, completed(1, &json!(null)));
}

#[tokio::test]
async fn a_stopped_worker_finishes_confirms_and_leaves() {
    let mut daemon = Daemon::start().await;
    let (worker, mut seen) = scripted(&daemon);
    let worker = run(worker);
    let mut connection = daemon.worker().await;
    connection.greet(&[]).await;
    connection.begin(1, &json!(1)).await;
    let step = step(&mut seen).await;
    worker.stop.send(()).unwrap();
    assert_eq!(connection.frame().await, Said::Drain(v1::DrainRequested {}));
    connection.assign(2, &json!(2)).await;
    assert_eq!(connection.frame().await, Said::Returned(v1::Returned { lease: Some(lease(2)) }));
    step.finish(json!("done"));
    assert_eq!(connection.frame().await, completed(1, &json!("done")));
    // Not before the result is confirmed, be it over another connection.
    connection.cut().await;
    let mut connection = daemon.worker().await;
    assert_eq!(connection.greet(&[1]).await, [1]);
    assert_eq!(connection.frame().await, Said::Drain(v1::DrainRequested {}));
    assert_eq!(connection.frame().await, completed(1, &json!("done")));
    assert!(!worker.ended.is_finished());
    connection.accept(1).await;
    connection.closed().await;
    drop(connection);
    soon(worker.ended).await.unwrap().unwrap();
}

#[tokio::test]
async fn an_idle_worker_leaves_at_once() {
    let mut daemon = Daemon::start().await;
    let worker = run(echo(&daemon));
    let mut connection = daemon.worker().await;
    connection.greet(&[]).await;
    connection.settle().await;
    worker.stop.send(()).unwrap();
    assert_eq!(connection.frame().await, Said::Drain(v1::DrainRequested {}));
    connection.closed().await;
    drop(connection);
    soon(worker.ended).await.unwrap().unwrap();

    // Neither does one that never got through.
    let endpoint = daemon.endpoint();
    daemon.kill().await;
    let worker = run(Worker::new(endpoint).agent("echo", |_| async { Ok(()) }));
    worker.stop.send(()).unwrap();
    soon(worker.ended).await.unwrap().unwrap();
}

#[tokio::test]
async fn work_that_does_not_end_in_the_time_to_drain_is_dropped() {
    let mut daemon = Daemon::start().await;
    let (worker, mut seen) = scripted(&daemon);
    let worker = run(worker.drain_timeout(Duration::from_millis(10)));
    let mut connection = daemon.worker().await;
    connection.greet(&[]).await;
    connection.begin(1, &json!(1)).await;
    let step = step(&mut seen).await;
    worker.stop.send(()).unwrap();
    soon(worker.ended).await.unwrap().unwrap();
    step.gone().await;
}

#[tokio::test]
async fn a_dropped_worker_drops_its_work() {
    let mut daemon = Daemon::start().await;
    let (worker, mut seen) = scripted(&daemon);
    let worker = run(worker);
    let mut connection = daemon.worker().await;
    connection.greet(&[]).await;
    connection.begin(1, &json!(1)).await;
    let step = step(&mut seen).await;
    worker.ended.abort();
    step.gone().await;
}

#[tokio::test]
async fn a_daemon_that_shuts_down_gets_the_results_first() {
    let mut daemon = Daemon::start().await;
    let (worker, mut seen) = scripted(&daemon);
    let _worker = run(worker);
    let mut connection = daemon.worker().await;
    connection.greet(&[]).await;
    connection.begin(1, &json!(1)).await;
    let step = step(&mut seen).await;
    connection.send(Frame::Drain(v1::Drain {})).await;
    connection.settle().await;
    step.finish(json!("done"));
    assert_eq!(connection.frame().await, completed(1, &json!("done")));
    connection.accept(1).await;
    connection.closed().await;
    drop(connection);
    assert!(daemon.worker().await.greet(&[]).await.is_empty());
}

#[tokio::test]
async fn a_worker_that_is_refused_for_good_ends() {
    let mut daemon = Daemon::start().await;
    let worker = run(echo(&daemon));
    let mut connection = daemon.worker().await;
    connection.hello().await;
    connection.fail(Status::permission_denied("not you")).await;
    let error = soon(worker.ended).await.unwrap().unwrap_err();
    assert_eq!(error.grpc_code(), Code::PermissionDenied);

    let worker = Worker::new(daemon.endpoint()).id("").slots(0);
    let error = worker.run_until(std::future::pending()).await.unwrap_err();
    assert_eq!(error.grpc_code(), Code::InvalidArgument);
    let paths: Vec<&str> = error.violations().iter().map(|violation| &*violation.path).collect();
    assert_eq!(paths, ["worker_id", "slots", "agents"]);
}

#[tokio::test]
async fn a_result_that_no_frame_can_carry_fails_its_task() {
    let mut daemon = Daemon::start().await;
    let worker = Worker::new(daemon.endpoint()).agent("echo", |_| async {
        let reason = Some("x".repeat(5 * 1024 * 1024));
        Err::<(), _>(TaskError::detailed(v1::Error { code: "X".to_owned(), reason, ..v1::Error::default() }))
    });
    let _worker = run(worker);
    let mut connection = daemon.worker().await;
    connection.greet(&[]).await;
    connection.assign(1, &json!(0)).await;
    let Said::Failed(failed) = connection.answer().await else { panic!("it has failed") };
    assert_eq!(failed.lease, Some(lease(1)));
    assert_eq!(failed.error.unwrap().code, "OUTPUT_TOO_LARGE");
}

#[tokio::test]
async fn what_was_refused_for_its_size_is_not_said_again() {
    let mut daemon = Daemon::start().await;
    let worker = Worker::new(daemon.endpoint()).slots(2).agent("echo", |task: Task| async move {
        match task.input_json::<bool>()? {
            true => Ok(TaskOutput::text("x".repeat(20_000))),
            false => Ok(TaskOutput::text("small")),
        }
    });
    let _worker = run(worker);
    let mut connection = daemon.worker().await;
    connection.greet(&[]).await;
    for (number, is_large) in [(1, true), (2, false)] {
        connection.assign(number, &json!(is_large)).await;
        assert!(matches!(connection.answer().await, Said::Completed(_)));
    }
    let mut details = ErrorDetails::new();
    let metadata = [("limit".to_owned(), "10000".to_owned())];
    details.set_error_info("FRAME_TOO_LARGE", "capataz", metadata);
    let refusal = Status::with_error_details(Code::OutOfRange, "too large", details);
    connection.fail(refusal).await;

    let mut connection = daemon.worker().await;
    assert_eq!(connection.greet(&[1, 2]).await, [1, 2]);
    let mut said = BTreeMap::new();
    for _ in 0..2 {
        match connection.answer().await {
            Said::Completed(done) => said.insert(done.lease.unwrap().lease, "done".to_owned()),
            Said::Failed(failed) => said.insert(failed.lease.unwrap().lease, failed.error.unwrap().code),
            other => panic!("{other:?}"),
        };
    }
    let expected = [(1, "OUTPUT_TOO_LARGE".to_owned()), (2, "done".to_owned())];
    assert_eq!(said, BTreeMap::from(expected));
}

#[tokio::test]
async fn every_worker_has_an_id_of_its_own() {
    let mut daemon = Daemon::start().await;
    let mut ids = Vec::new();
    for _ in 0..2 {
        let worker = Worker::new(daemon.endpoint()).agent("echo", |_| async { Ok(()) });
        let worker = run(worker);
        let mut connection = daemon.worker().await;
        ids.push(connection.hello().await.worker_id);
        connection.cut().await;
        // Over all of its connections.
        assert_eq!(daemon.worker().await.hello().await.worker_id, *ids.last().unwrap());
        worker.ended.abort();
    }
    assert_ne!(ids[0], ids[1]);
}
