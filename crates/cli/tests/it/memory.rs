//! The real daemon's memory while subscribers do not read.

use std::collections::BTreeMap;

use capataz_client::worker::{Task, TaskError, TaskOutput, Worker};
use capataz_contracts::v1;
use capataz_contracts::v1::event_service_client::EventServiceClient;

use crate::data_folder::until_served;
use crate::served::Served;

/// Two events for each task, beside those of the run and its wave.
const PLANS: u64 = 10;
const TASKS: u64 = 5_000;
const EVENTS: u64 = PLANS * TASKS * 2;
const SUBSCRIBERS: u64 = 8;
/// The size of each task's output in its event, large enough for a queue of events to show.
const OUTPUT: usize = 1024;

/// The peak of the daemon's private memory in bytes.
fn peak(daemon: &Served) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.process_id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

fn wide_plan() -> v1::StartRunRequest {
    let task =
        |number| v1::Task { name: format!("t{number}"), agent: "filler".to_owned(), ..v1::Task::default() };
    let wave = v1::Wave { tasks: (0..TASKS).map(task).collect(), ..v1::Wave::default() };
    let plan = v1::Plan { name: "wide".to_owned(), waves: vec![wave], ..v1::Plan::default() };
    v1::StartRunRequest::of_plan(plan)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subscribers_that_do_not_read_cost_no_memory_and_lose_no_event() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Served::start(folder.path(), "");
    let client = daemon.client().await;
    let filler = |_: Task| async { Ok::<_, TaskError>(TaskOutput::text("x".repeat(OUTPUT))) };
    let worker = Worker::new(daemon.url()).id("w").slots(256).agent("filler", filler);
    let worker = tokio::spawn(worker.run_until(std::future::pending::<()>()));
    until_served(&client, &["filler"]).await;
    // The first plans show how much memory the work itself takes: it grows with the second, and then hardly.
    for _ in 0..3 {
        client.execute_run(wide_plan(), None).await.unwrap().result.unwrap();
    }
    let before = peak(&daemon);

    let mut idle = Vec::new();
    for _ in 0..SUBSCRIBERS {
        // Each subscriber has its own connection, so that none of them holds up another.
        let channel = daemon.client().await.channel();
        let request = v1::SubscribeRequest { from_now: true, ..v1::SubscribeRequest::default() };
        idle.push(EventServiceClient::new(channel).subscribe(request).await.unwrap().into_inner());
    }
    for _ in 0..PLANS {
        let executed = client.execute_run(wide_plan(), None).await.unwrap();
        assert_eq!(executed.result.unwrap().outcome(), v1::RunOutcome::Succeeded);
    }
    let grown = peak(&daemon).saturating_sub(before);
    let queued = EVENTS / 2 * OUTPUT as u64 * SUBSCRIBERS;
    assert!(grown < queued / 8, "{grown} bytes more; queues would take {queued} at least");

    // Afterwards, each subscriber gets every event once and in order.
    for stream in &mut idle {
        let mut last: BTreeMap<String, u64> = BTreeMap::new();
        let mut finished = 0;
        while finished < PLANS {
            for delivered in stream.message().await.unwrap().unwrap().events {
                let event = delivered.decode_event().unwrap();
                let seq = last.entry(delivered.run_id).or_default();
                assert_eq!(event.seq, *seq + 1);
                *seq = event.seq;
                finished += u64::from(matches!(event.body, Some(v1::event::Body::RunFinished(_))));
            }
        }
        assert!(last.values().sum::<u64>() >= EVENTS);
    }
    worker.abort();
}
