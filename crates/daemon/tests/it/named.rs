//! Blobs that somebody names, and appends that are larger than an answer.

use std::time::Duration;

use capataz_contracts::v1::connect_request::Frame as Say;
use capataz_contracts::v1::{self, blob_service_client::BlobServiceClient, payload::Data};
use capataz_daemon::Config;
use tokio_stream::iter;
use tonic::Code;

use crate::support::{Harness, code_of, json, one_wave};

fn naming(blob: &v1::BlobRef) -> v1::Payload {
    v1::Payload { media_type: "application/octet-stream".to_owned(), data: Some(Data::Blob(blob.clone())) }
}

fn nowhere() -> v1::BlobRef {
    v1::BlobRef { blake3: "ab".repeat(32), size: 7 }
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
    let mut worker = harness.worker("w1", &["a"]).await;
    let mut plan = one_wave(&["a"]);
    let reader = |number: usize| v1::Task {
        name: format!("r{number}"),
        agent: "nobody".to_owned(),
        input: Some(json(serde_json::json!("${tasks.a.output}"))),
        ..Default::default()
    };
    plan.waves.push(v1::Wave { tasks: (0..200).map(reader).collect(), ..Default::default() });
    let _nobody = harness.worker("w2", &["nobody"]).await;
    let run = harness.start_run(plan).await;
    let assigned = worker.assignment().await;
    // All inputs of the second wave are resolved in one append.
    worker.complete(&assigned.lease, json(serde_json::json!("x".repeat(30_000)))).await;
    let events = loop {
        let events = harness.export(&run).await;
        if events.len() > 200 {
            break events;
        }
    };
    assert!(events.iter().map(prost::Message::encoded_len).sum::<usize>() > 5_000_000);
    assert!(events.iter().enumerate().all(|(index, event)| event.seq == index as u64 + 1));
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

async fn is_there(harness: &Harness, blob: &v1::BlobRef) -> bool {
    let mut blobs = BlobServiceClient::new(harness.channel.clone());
    let request = v1::GetBlobRequest { blake3: blob.blake3.clone() };
    blobs.get_blob(request).await.is_ok()
}
