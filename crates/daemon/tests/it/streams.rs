//! Event streams: every event once, whatever is cut, and however slow the subscriber.

use std::collections::BTreeMap;

use bytes::Bytes;
use capataz_contracts::v1;
use capataz_contracts::v1::event_service_client::EventServiceClient;
use capataz_daemon::Config;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};

use crate::named::ended_with_a_large_append;
use crate::support::{Harness, PATIENCE, Worker, channel, code_of, json, one_wave};

struct Heard {
    run_id: String,
    seq: u64,
    cursor: Bytes,
}

async fn subscribe(harness: &Harness, request: v1::SubscribeRequest) -> Streaming<v1::SubscribeResponse> {
    harness.events.clone().subscribe(request).await.unwrap().into_inner()
}

fn of_run(run_id: &str) -> Option<v1::EventFilter> {
    Some(v1::EventFilter { run_id: Some(run_id.to_owned()), ..Default::default() })
}

fn heard(response: v1::SubscribeResponse) -> impl Iterator<Item = Heard> {
    response.events.into_iter().map(|delivered| Heard {
        seq: delivered.decode_event().unwrap().seq,
        run_id: delivered.run_id,
        cursor: delivered.cursor,
    })
}

async fn finished_run(harness: &Harness, worker: &mut Worker) -> String {
    let run = harness.start_run(one_wave(&["a", "b", "c"])).await;
    for (_, assigned) in worker.assignments(3).await {
        worker.complete(&assigned.lease, json(serde_json::json!(1))).await;
    }
    harness.wait(&run).await;
    run
}

#[tokio::test]
async fn a_subscriber_cut_after_every_single_event_sees_each_event_once() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["a", "b", "c"]).await;
    finished_run(&harness, &mut worker).await;
    let run = finished_run(&harness, &mut worker).await;
    finished_run(&harness, &mut worker).await;
    let expected: Vec<u64> = harness.export(&run).await.iter().map(|event| event.seq).collect();
    for filter in [of_run(&run), None] {
        let mut cursor = Bytes::new();
        let mut seen = Vec::new();
        // Each subscription hears one event and is cut.
        loop {
            let request =
                v1::SubscribeRequest { cursor: cursor.clone(), filter: filter.clone(), ..Default::default() };
            let mut stream = subscribe(&harness, request).await;
            let response = stream.message().await.unwrap().unwrap();
            let Some(first) = heard(response).next() else { break };
            cursor = first.cursor;
            if first.run_id == run {
                seen.push(first.seq);
            }
        }
        assert_eq!(seen, expected, "with the filter {filter:?}");
    }
}

#[tokio::test]
async fn history_and_live_events_meet_without_a_gap_and_the_end_ends_the_stream() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["a", "b"]).await;
    let run = harness.start_run(one_wave(&["a", "b"])).await;
    let assigned = worker.assignments(2).await;
    let request = v1::SubscribeRequest { filter: of_run(&run), until_finished: true, ..Default::default() };
    let mut stream = subscribe(&harness, request).await;
    let mut seqs = Vec::new();
    let mut caught_up = 0;
    while let Some(response) = stream.message().await.unwrap() {
        if response.caught_up {
            caught_up += 1;
            for name in ["a", "b"] {
                worker.complete(&assigned[name].lease, json(serde_json::json!(1))).await;
            }
        }
        seqs.extend(heard(response).map(|event| event.seq));
    }
    assert_eq!(caught_up, 1);
    let expected: Vec<u64> = harness.export(&run).await.iter().map(|event| event.seq).collect();
    assert_eq!(seqs, expected);
    // Resumed behind the last event, a stream that waits for the end has nothing to wait for.
    let mut cursor = Bytes::new();
    let mut stream = subscribe(
        &harness,
        v1::SubscribeRequest { filter: of_run(&run), until_finished: true, ..Default::default() },
    )
    .await;
    while let Some(response) = stream.message().await.unwrap() {
        cursor = response.cursor;
    }
    let request =
        v1::SubscribeRequest { cursor, filter: of_run(&run), until_finished: true, ..Default::default() };
    let mut stream = subscribe(&harness, request).await;
    while let Some(response) = stream.message().await.unwrap() {
        assert_eq!(response.events.len(), 0);
    }
}

/// Whoever reads what is there while the run ends hears of the end all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn runs_that_end_while_their_histories_are_read_tell_their_ends() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["a"]).await;
    for _ in 0..10 {
        let mut begun = Vec::new();
        for _ in 0..8 {
            let run = harness.start_run(one_wave(&["a"])).await;
            let assigned = worker.assignments(1).await;
            begun.push((run, assigned["a"].lease.clone()));
        }
        // Ten readers of each run, one event a step: what is there takes several, and runs end between any two of them.
        let readers = begun.iter().flat_map(|(run, _)| std::iter::repeat_n(run, 10)).map(|run| {
            let request = v1::SubscribeRequest {
                filter: of_run(run),
                until_finished: true,
                max_batch: 1,
                ..Default::default()
            };
            let mut events = harness.events.clone();
            let run = run.clone();
            tokio::spawn(async move {
                let mut stream = events.subscribe(request).await.unwrap().into_inner();
                let mut seqs = Vec::new();
                while let Some(response) = stream.message().await.unwrap() {
                    seqs.extend(heard(response).map(|event| event.seq));
                }
                (run, seqs)
            })
        });
        let readers: Vec<_> = readers.collect();
        for (_, lease) in &begun {
            worker.complete(lease, json(serde_json::json!(1))).await;
        }
        for reader in readers {
            let (run, seqs) = reader.await.unwrap();
            harness.wait(&run).await;
            let expected: Vec<u64> = harness.export(&run).await.iter().map(|event| event.seq).collect();
            assert_eq!(seqs, expected);
        }
    }
}

/// Reads until so many events of each run were seen. Each comes once and in order.
async fn see_all(
    stream: &mut Streaming<v1::SubscribeResponse>,
    seen: &mut BTreeMap<String, u64>,
    expected: &BTreeMap<String, u64>,
) {
    while *seen != *expected {
        let response = tokio::time::timeout(PATIENCE, stream.message()).await.expect("they come in time");
        for event in heard(response.unwrap().unwrap()) {
            let last = seen.entry(event.run_id).or_default();
            assert_eq!(event.seq, *last + 1);
            *last = event.seq;
        }
    }
}

#[tokio::test]
async fn a_subscriber_that_reads_nothing_for_100_000_events_holds_up_no_other_and_gets_all_afterwards() {
    let harness = Harness::start().await;
    let agent = ["a"];
    let mut worker = harness.worker("w1", &agent).await;
    let mut idle = subscribe(&harness, v1::SubscribeRequest::default()).await;
    // Streams of one connection share its window.
    let mut others = EventServiceClient::new(channel(harness.daemon.address()).await);
    let mut other = others.subscribe(v1::SubscribeRequest::default()).await.unwrap().into_inner();
    let mut seen_by_other: BTreeMap<String, u64> = BTreeMap::new();
    let tasks: Vec<v1::Task> = (0..5_000)
        .map(|index| v1::Task { name: format!("t{index}"), agent: "a".to_owned(), ..Default::default() })
        .collect();
    let plan = v1::Plan {
        name: "many".to_owned(),
        waves: vec![v1::Wave { tasks, ..Default::default() }],
        ..Default::default()
    };
    let mut expected: BTreeMap<String, u64> = BTreeMap::new();
    let mut events = 0;
    while events < 100_000 {
        let run = harness.start_run(plan.clone()).await;
        for _ in 0..5_000 {
            let assigned = worker.assignment().await;
            worker.complete(&assigned.lease, json(serde_json::json!(1))).await;
        }
        harness.wait(&run).await;
        let last = harness.get(&run).await.seq;
        events += last;
        expected.insert(run, last);
        see_all(&mut other, &mut seen_by_other, &expected).await;
    }
    see_all(&mut idle, &mut BTreeMap::new(), &expected).await;
}

#[tokio::test]
async fn filters_by_label_and_severity_show_what_matches_and_nothing_else() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["a"]).await;
    for (team, fails) in [("red", true), ("blue", true), ("red", false)] {
        let request = v1::StartRunRequest {
            labels: [("team".to_owned(), team.to_owned())].into(),
            ..v1::StartRunRequest::of_plan(one_wave(&["a"]))
        };
        let run = harness.runs.clone().start_run(request).await.unwrap().into_inner().run_id;
        let assigned = worker.assignment().await;
        if fails {
            worker.fail(&assigned.lease, crate::support::error("TESTS_FAILED", "3 tests failed")).await;
        } else {
            worker.complete(&assigned.lease, json(serde_json::json!(1))).await;
        }
        harness.wait(&run).await;
    }
    let filter = v1::EventFilter {
        labels: [("team".to_owned(), "red".to_owned())].into(),
        min_severity: Some(v1::Severity::High as i32),
        ..Default::default()
    };
    let mut stream =
        subscribe(&harness, v1::SubscribeRequest { filter: Some(filter), ..Default::default() }).await;
    let mut runs = std::collections::BTreeSet::new();
    loop {
        let response = stream.message().await.unwrap().unwrap();
        let caught_up = response.caught_up;
        runs.extend(heard(response).map(|event| event.run_id));
        if caught_up {
            break;
        }
    }
    assert_eq!(runs.len(), 1);
}

#[tokio::test]
async fn a_cursor_that_is_none_or_from_the_future_is_refused() {
    let harness = Harness::start().await;
    for (cursor, code) in [
        (Bytes::from_static(b"nonsense"), "VALIDATION_ERROR"),
        (
            Bytes::from(prost::Message::encode_to_vec(&v1::CursorState {
                positions: vec![v1::ShardPosition { position: 1_000_000, ..Default::default() }],
            })),
            "CURSOR_UNKNOWN",
        ),
    ] {
        let request = v1::SubscribeRequest { cursor, ..Default::default() };
        let refusal = harness.events.clone().subscribe(request).await.unwrap_err();
        assert_eq!(code_of(&refusal), code);
    }
}

/// The log has no room for two runs with a large append.
fn with_little_room(config: &mut Config) {
    config.retention.max_log_bytes = Some(9_000_000);
}

/// The cursor that works, of a subscriber that has missed what retention has removed.
#[track_caller]
fn cursor_that_works(refusal: &Status) -> Bytes {
    assert_eq!((refusal.code(), code_of(refusal).as_str()), (Code::OutOfRange, "CURSOR_TOO_OLD"));
    let works = refusal.metadata().get_bin("capataz-oldest-cursor-bin").expect("one that works");
    works.to_bytes().unwrap()
}

/// Goes on with the cursor of a refusal: what is there is all of the run that is kept, and nothing else.
async fn goes_on(harness: &Harness, refusal: &Status, kept: &str) {
    let request = v1::SubscribeRequest { cursor: cursor_that_works(refusal), ..Default::default() };
    let mut stream = subscribe(harness, request).await;
    let mut seqs = Vec::new();
    loop {
        let response = stream.message().await.unwrap().unwrap();
        let caught_up = response.caught_up;
        for event in heard(response) {
            assert_eq!(event.run_id, kept);
            seqs.push(event.seq);
        }
        if caught_up {
            break;
        }
    }
    let expected: Vec<u64> = harness.export(kept).await.iter().map(|event| event.seq).collect();
    assert_eq!(seqs, expected);
}

#[tokio::test]
async fn a_cursor_behind_which_events_were_removed_is_refused_with_one_that_works() {
    let harness = Harness::start_with(with_little_room).await;
    let _nobody = harness.worker("w2", &["nobody"]).await;
    let removed = ended_with_a_large_append(&harness).await;
    let mut stream = subscribe(&harness, v1::SubscribeRequest::default()).await;
    let first = heard(stream.message().await.unwrap().unwrap()).next().unwrap();
    assert_eq!((first.run_id.as_str(), first.seq), (removed.as_str(), 1));
    drop(stream);
    let kept = ended_with_a_large_append(&harness).await;
    harness.gone(&removed).await;
    let request = v1::SubscribeRequest { cursor: first.cursor, ..Default::default() };
    let refusal = harness.events.clone().subscribe(request).await.unwrap_err();
    goes_on(&harness, &refusal, &kept).await;
}

/// What the slow subscriber of the next test takes before it reads, in bytes. A large append has more than ninety times as many.
const TAKEN_UNREAD: u32 = 65_535;

#[tokio::test]
async fn a_stream_whose_next_events_were_removed_ends_with_a_cursor_that_works() {
    let harness = Harness::start_with(with_little_room).await;
    let _nobody = harness.worker("w2", &["nobody"]).await;
    let removed = ended_with_a_large_append(&harness).await;
    let address = format!("http://{}", harness.daemon.address());
    let slow = Channel::from_shared(address).unwrap().initial_stream_window_size(TAKEN_UNREAD);
    let mut events = EventServiceClient::new(slow.connect().await.unwrap());
    let request = v1::SubscribeRequest { max_batch: 1, ..Default::default() };
    let mut stream = events.subscribe(request).await.unwrap().into_inner();
    let first = heard(stream.message().await.unwrap().unwrap()).next().unwrap();
    assert_eq!((first.run_id.as_str(), first.seq), (removed.as_str(), 1));
    // What the daemon keeps in memory for subscribers has no room for two large runs, either.
    let kept = ended_with_a_large_append(&harness).await;
    harness.gone(&removed).await;
    let refusal = loop {
        match tokio::time::timeout(PATIENCE, stream.message()).await.expect("it goes on in time") {
            Ok(Some(response)) => assert!(heard(response).all(|event| event.run_id == removed)),
            Ok(None) => panic!("the stream has an end, and has not everything"),
            Err(refusal) => break refusal,
        }
    };
    goes_on(&harness, &refusal, &kept).await;
}
