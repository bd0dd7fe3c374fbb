//! Blobs that somebody names, and appends that are larger than an answer.

use std::time::Duration;

use capataz_contracts::v1::connect_request::Frame as Say;
use capataz_contracts::v1::{self, blob_service_client::BlobServiceClient, payload::Data};
use capataz_daemon::Config;
use tokio_stream::iter;
use tonic::Code;

use crate::support::{Harness, PATIENCE, Worker, code_of, data_dir, json, one_wave};

fn naming(blob: &v1::BlobRef) -> v1::Payload {
    v1::Payload { media_type: "application/octet-stream".to_owned(), data: Some(Data::Blob(blob.clone())) }
}

fn nowhere() -> v1::BlobRef {
    v1::BlobRef::new("ab".repeat(32), 7)
}

async fn put(harness: &Harness, content: &'static [u8]) -> v1::BlobRef {
    let mut blobs = BlobServiceClient::new(harness.channel.clone());
    blobs
        .put_blob(iter([v1::PutBlobRequest { chunk: content.into() }]))
        .await
        .unwrap()
        .into_inner()
        .blob
        .unwrap()
}

fn with_input(input: v1::Payload) -> v1::Plan {
    let mut plan = one_wave(&["a"]);
    plan.waves[0].tasks[0].input = Some(input);
    plan
}

#[tokio::test]
async fn a_start_that_names_a_blob_that_is_not_there_is_refused_and_nothing_is_stored() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["a"]).await;
    let refusal = harness.try_start(with_input(naming(&nowhere()))).await.unwrap_err();
    assert_eq!((refusal.code(), code_of(&refusal).as_str()), (Code::NotFound, "BLOB_NOT_FOUND"));
    assert_eq!(harness.run_count().await, 0);
    let blob = put(&harness, b"content").await;
    let run = harness.start_run(with_input(naming(&blob))).await;
    let assigned = worker.assignment().await;
    worker.complete(&assigned.lease, naming(&blob)).await;
    assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Succeeded);
}

#[tokio::test]
async fn a_result_that_names_a_blob_that_is_not_there_fails_its_task() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["a"]).await;
    let run = harness.start_run(one_wave(&["a"])).await;
    let assigned = worker.assignment().await;
    worker.complete(&assigned.lease, naming(&nowhere())).await;
    assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Failed);
    let task = harness.get(&run).await.waves.remove(0).tasks.remove(0);
    assert_eq!(task.error.unwrap().cause.unwrap().code, "BLOB_NOT_FOUND");
    assert!(task.output.is_none());
}

#[tokio::test]
async fn an_append_that_is_larger_than_an_answer_is_exported_in_parts() {
    let harness = Harness::start().await;
    let _nobody = harness.worker("w2", &["nobody"]).await;
    let (run, _worker) = with_a_large_append(&harness).await;
    let events = with_all_inputs(&harness, &run).await;
    assert!(events.iter().map(prost::Message::encoded_len).sum::<usize>() > 5_000_000);
    assert!(events.iter().enumerate().all(|(index, event)| event.seq == index as u64 + 1));
}

/// The events of the run when its large append is among them.
async fn with_all_inputs(harness: &Harness, run: &str) -> Vec<v1::Event> {
    loop {
        let events = harness.export(run).await;
        if events.len() > 200 {
            return events;
        }
    }
}

/// The first events of the run that a stream delivers, as many as asked for.
async fn delivered(
    stream: &mut tonic::Streaming<v1::SubscribeResponse>,
    run: &str,
    count: usize,
) -> Vec<v1::Event> {
    let mut events = Vec::new();
    while events.len() < count {
        let response = tokio::time::timeout(PATIENCE, stream.message()).await.expect("events in time");
        let response = response.unwrap().expect("the stream goes on");
        let of_run = response.events.iter().filter(|delivered| delivered.run_id == run);
        events.extend(of_run.map(|delivered| delivered.decode_event().unwrap()));
    }
    events.truncate(count);
    events
}

#[tokio::test]
async fn an_append_that_is_larger_than_an_answer_reaches_subscribers_entirely() {
    let harness = Harness::start().await;
    let _nobody = harness.worker("w2", &["nobody"]).await;
    let subscribe = async |filter: Option<v1::EventFilter>| {
        let request = v1::SubscribeRequest { filter, ..v1::SubscribeRequest::default() };
        harness.events.clone().subscribe(request).await.unwrap().into_inner()
    };
    // It has all that there is, and hears of the run as it goes on.
    let mut live = subscribe(None).await;
    while !live.message().await.unwrap().unwrap().caught_up {}
    let (run, _worker) = with_a_large_append(&harness).await;
    let expected = with_all_inputs(&harness, &run).await;
    let id: uuid::Uuid = run.parse().unwrap();
    let largest: u32 = rusqlite::Connection::open(data_dir(&harness.folder).join("capataz.db"))
        .unwrap()
        .query_row("SELECT max(length(events)) FROM log WHERE run = ?1", [id.as_bytes()], |row| row.get(0))
        .unwrap();
    assert!(largest > 4 * 1024 * 1024, "{largest}");
    assert!(delivered(&mut live, &run, expected.len()).await == expected, "as it happened");
    let of_run = v1::EventFilter { run_id: Some(run.clone()), ..v1::EventFilter::default() };
    for filter in [None, Some(of_run)] {
        let mut stream = subscribe(filter.clone()).await;
        assert!(delivered(&mut stream, &run, expected.len()).await == expected, "with the filter {filter:?}");
    }
}

/// Starts a run one of whose appends has more than 5 MB: all inputs of its second wave are resolved at once. The worker
/// stays, so that what it has said arrives.
async fn with_a_large_append(harness: &Harness) -> (String, Worker) {
    let mut worker = harness.worker("w1", &["a"]).await;
    let mut plan = one_wave(&["a"]);
    let reader = |number: usize| v1::Task {
        name: format!("r{number}"),
        agent: "nobody".to_owned(),
        input: Some(json(serde_json::json!("${tasks.a.output}"))),
        ..Default::default()
    };
    plan.waves.push(v1::Wave { tasks: (0..200).map(reader).collect(), ..Default::default() });
    let run = harness.start_run(plan).await;
    let assigned = worker.assignment().await;
    worker.complete(&assigned.lease, json(serde_json::json!("x".repeat(30_000)))).await;
    (run, worker)
}

/// The same, and the run has ended.
pub async fn ended_with_a_large_append(harness: &Harness) -> String {
    let (run, _worker) = with_a_large_append(harness).await;
    with_all_inputs(harness, &run).await;
    let cancel = v1::CancelRunRequest {
        run_id: run.clone(),
        request_id: "c".to_owned(),
        force: true,
        ..Default::default()
    };
    harness.runs.clone().cancel_run(cancel).await.unwrap();
    harness.wait(&run).await;
    run
}

#[tokio::test]
async fn a_blob_that_goes_while_it_is_read_has_no_end() {
    let harness = Harness::start().await;
    // More than a connection takes in before anybody reads.
    let content: Vec<_> =
        (0..32).map(|_| v1::PutBlobRequest { chunk: vec![7; 1024 * 1024].into() }).collect();
    let mut blobs = BlobServiceClient::new(harness.channel.clone());
    let v1::BlobRef { blake3, size, .. } =
        blobs.put_blob(iter(content)).await.unwrap().into_inner().blob.unwrap();
    let file = harness.folder.path().join("data/blobs").join(&blake3[..2]).join(&blake3);
    let asked = || v1::GetBlobRequest { blake3: blake3.clone() };
    let whole = rest_of(blobs.get_blob(asked()).await.unwrap().into_inner()).await;
    assert_eq!(whole.unwrap(), size);

    let mut cut = blobs.get_blob(asked()).await.unwrap().into_inner();
    cut.message().await.unwrap().unwrap();
    std::fs::File::options().write(true).open(&file).unwrap().set_len(size / 2).unwrap();
    let refusal = rest_of(cut).await.unwrap_err();
    assert_eq!((refusal.code(), code_of(&refusal).as_str()), (Code::NotFound, "BLOB_NOT_FOUND"));

    let mut removed = blobs.get_blob(asked()).await.unwrap().into_inner();
    removed.message().await.unwrap().unwrap();
    std::fs::remove_file(&file).unwrap();
    let refusal = rest_of(removed).await.unwrap_err();
    assert_eq!((refusal.code(), code_of(&refusal).as_str()), (Code::NotFound, "BLOB_NOT_FOUND"));
}

#[tokio::test]
async fn a_blob_that_is_damaged_has_no_end_until_it_is_put_again() {
    let harness = Harness::start().await;
    let content = || iter((0..3).map(|n| v1::PutBlobRequest { chunk: vec![n; 200 * 1024].into() }));
    let mut blobs = BlobServiceClient::new(harness.channel.clone());
    let v1::BlobRef { blake3, size, .. } =
        blobs.put_blob(content()).await.unwrap().into_inner().blob.unwrap();
    let file = harness.folder.path().join("data/blobs").join(&blake3[..2]).join(&blake3);
    let mut damaged = std::fs::read(&file).unwrap();
    damaged[0] ^= 1;
    std::fs::write(&file, damaged).unwrap();
    let asked = || v1::GetBlobRequest { blake3: blake3.clone() };
    let refusal = rest_of(blobs.get_blob(asked()).await.unwrap().into_inner()).await.unwrap_err();
    assert_eq!((refusal.code(), code_of(&refusal).as_str()), (Code::NotFound, "BLOB_NOT_FOUND"));
    blobs.put_blob(content()).await.unwrap();
    assert_eq!(rest_of(blobs.get_blob(asked()).await.unwrap().into_inner()).await.unwrap(), size);
}

/// The bytes of what still comes, if it comes to an end.
async fn rest_of(mut chunks: tonic::Streaming<v1::GetBlobResponse>) -> Result<u64, tonic::Status> {
    let mut bytes = 0;
    while let Some(v1::GetBlobResponse { chunk }) = chunks.message().await? {
        bytes += chunk.len() as u64;
    }
    Ok(bytes)
}

#[tokio::test]
async fn a_run_that_goes_while_it_is_exported_has_no_end() {
    // The second run is too much for the log, and the first one is finished then.
    let harness = Harness::start_with(|config| config.retention.max_log_bytes = Some(9_000_000)).await;
    let _nobody = harness.worker("w2", &["nobody"]).await;
    let run = ended_with_a_large_append(&harness).await;
    let request = v1::ExportRunRequest { run_id: run.clone() };
    let mut export = harness.runs.clone().export_run(request).await.unwrap().into_inner();
    export.message().await.unwrap().unwrap();

    let _second = with_a_large_append(&harness).await;
    harness.gone(&run).await;
    let refusal = loop {
        match export.message().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the export has an end, and has not everything"),
            Err(refusal) => break refusal,
        }
    };
    assert_eq!((refusal.code(), code_of(&refusal).as_str()), (Code::NotFound, "RUN_NOT_FOUND"));
}

#[tokio::test]
async fn blobs_of_partial_outputs_stay_with_their_run() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["a"]).await;
    let (partial, loose) = (put(&harness, b"half of it").await, put(&harness, b"nobody's").await);
    let run = harness.start_run(one_wave(&["a"])).await;
    let assigned = worker.assignment().await;
    let cancel = v1::CancelRunRequest {
        run_id: run.clone(),
        request_id: "cancel".to_owned(),
        ..v1::CancelRunRequest::default()
    };
    harness.runs.clone().cancel_run(cancel).await.unwrap();
    let cancelled = v1::Cancelled {
        lease: Some(assigned.lease.clone()),
        partial_output: Some(naming(&partial)),
        ..v1::Cancelled::default()
    };
    worker.say(Say::Cancelled(cancelled)).await;
    harness.wait(&run).await;
    // A daemon that keeps no blob that nobody names; it sweeps when it starts.
    let folder = harness.stop().await;
    let keeps_nothing = |config: &mut Config| config.retention.unused_blobs = Duration::ZERO;
    let harness = Harness::start_in(folder, keeps_nothing).await;
    while is_there(&harness, &loose).await {
        tokio::task::yield_now().await;
    }
    assert!(is_there(&harness, &partial).await);
}

#[tokio::test]
async fn blobs_that_are_only_seen_while_the_work_goes_on_stay_with_a_run_whose_time_is_over() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["a", "b"]).await;
    let (partial, loose) = (put(&harness, b"half of it").await, put(&harness, b"nobody's").await);
    let missing = v1::BlobRef { blake3: "0".repeat(64), ..partial.clone() };
    let mut plan = one_wave(&["a", "b"]);
    plan.timeouts = Some(v1::TimeoutPolicy {
        timeout_ms: Some(500),
        grace_ms: Some(100),
        ..v1::TimeoutPolicy::default()
    });
    let run = harness.start_run(plan).await;
    for (name, assigned) in worker.assignments(2).await {
        let shown = if name == "a" { &partial } else { &missing };
        let progress = v1::Progress {
            lease: Some(assigned.lease),
            partial_output: Some(naming(shown)),
            ..v1::Progress::default()
        };
        worker.say(Say::Progress(progress)).await;
    }
    let kept = harness.wait(&run).await.tasks.into_iter().map(|task| {
        let detail = task.error.unwrap().timeout.unwrap();
        detail.partial_output
    });
    assert_eq!(kept.collect::<Vec<_>>(), [Some(naming(&partial)), None], "what is not there is left out");
    let folder = harness.stop().await;
    let keeps_nothing = |config: &mut Config| config.retention.unused_blobs = Duration::ZERO;
    let harness = Harness::start_in(folder, keeps_nothing).await;
    while is_there(&harness, &loose).await {
        tokio::task::yield_now().await;
    }
    assert!(is_there(&harness, &partial).await);
}

async fn is_there(harness: &Harness, blob: &v1::BlobRef) -> bool {
    let mut blobs = BlobServiceClient::new(harness.channel.clone());
    let request = v1::GetBlobRequest { blake3: blob.blake3.clone() };
    blobs.get_blob(request).await.is_ok()
}
