//! Pipelines over a real socket: what is judged, corrected, blocked, mended, rolled back, and what of it a restart keeps.

mod bad_input;
mod forks;
mod judged;
mod models;
mod people;
mod products;
mod restarts;
mod rollback;

use std::future::Future;

use capataz_contracts::pipeline_file::{self, Format};
use capataz_contracts::v1::blob_service_client::BlobServiceClient;
use capataz_contracts::v1::pipeline_service_client::PipelineServiceClient;
use capataz_contracts::v1::{self, CheckpointStatus, event::Body, payload::Data};
use serde_json::Value;
use tokio_stream::iter;
use tonic::Status;

use crate::support::{Harness, PATIENCE, json};

/// Two phases, the first of which has to give a title. Nothing waits before it is tried again.
const REVIEW: &str = r#"
name = "review"

[[phases]]
name = "read"
agent = "reader"
summary = ["title"]
output.schema = { type = "object", required = ["title"], properties = { title = { type = "string" } } }
retry = { delays_ms = [0, 0, 0] }

[[phases]]
name = "tell"
agent = "teller"
retry = { delays_ms = [0, 0, 0] }
"#;

#[track_caller]
fn pipeline(toml: &str) -> v1::Pipeline {
    let read = pipeline_file::parse_bytes(toml.as_bytes(), Format::Toml, &mut |file| Err(file.to_owned()));
    match read {
        Ok(pipeline) => pipeline,
        Err(violations) => panic!("{violations:?}"),
    }
}

/// The same with an input.
fn given(toml: &str, input: Value) -> v1::Pipeline {
    v1::Pipeline { input: Some(json(input)), ..pipeline(toml) }
}

async fn try_start(harness: &Harness, pipeline: v1::Pipeline) -> Result<String, Status> {
    let request = v1::StartRunRequest::of_pipeline(pipeline);
    Ok(harness.runs.clone().start_run(request).await?.into_inner().run_id)
}

async fn start(harness: &Harness, pipeline: v1::Pipeline) -> String {
    try_start(harness, pipeline).await.unwrap()
}

/// The checkpoints of a run, as they were after an event where one is named.
async fn checkpoints(harness: &Harness, run: &str, at_seq: Option<u64>) -> Vec<v1::Checkpoint> {
    let request = v1::ListCheckpointsRequest {
        run_id: run.to_owned(),
        at_seq: at_seq.unwrap_or(0),
        ..Default::default()
    };
    let mut pipelines = PipelineServiceClient::new(harness.channel.clone());
    pipelines.list_checkpoints(request).await.unwrap().into_inner().checkpoints
}

fn statuses(checkpoints: &[v1::Checkpoint]) -> Vec<CheckpointStatus> {
    checkpoints.iter().map(v1::Checkpoint::status).collect()
}

/// Asks again until there is what is wanted.
async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, mut ask: impl FnMut() -> F) -> T {
    let asked = async {
        loop {
            if let Some(found) = ask().await {
                return found;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, asked).await.unwrap_or_else(|_| panic!("in time: {what}"))
}

/// The open question of a blocked phase.
async fn blocked(harness: &Harness, run: &str) -> v1::Question {
    let open = || async {
        let questions = harness.get(run).await.questions;
        questions.into_iter().find(|question| question.answer.is_none())
    };
    eventually("a question", open).await
}

/// The code of what has blocked a phase.
#[track_caller]
fn cause_of(question: &v1::Question) -> String {
    let error = question.error.clone().unwrap();
    assert_eq!(error.code, "PHASE_BLOCKED");
    error.cause.unwrap().code
}

fn answer(run: &str, question: &v1::Question, answer: &str, value: Option<Value>) -> v1::ResolveRequest {
    v1::ResolveRequest {
        run_id: run.to_owned(),
        question_id: question.question_id.clone(),
        answer: answer.to_owned(),
        request_id: format!("{answer} {}", question.question_id),
        value: value.map(json),
        ..v1::ResolveRequest::default()
    }
}

async fn roll_back(harness: &Harness, request: v1::RollbackPipelineRequest) -> Result<u64, Status> {
    let mut pipelines = PipelineServiceClient::new(harness.channel.clone());
    Ok(pipelines.rollback_pipeline(request).await?.into_inner().seq)
}

fn back_to(run: &str, phase: &str, request_id: &str) -> v1::RollbackPipelineRequest {
    v1::RollbackPipelineRequest {
        run_id: run.to_owned(),
        phase: phase.to_owned(),
        request_id: request_id.to_owned(),
        if_seq: None,
    }
}

async fn put(harness: &Harness, contents: Vec<u8>) -> v1::Payload {
    let mut blobs = BlobServiceClient::new(harness.channel.clone());
    let chunks: Vec<v1::PutBlobRequest> =
        contents.chunks(64 * 1024).map(|chunk| v1::PutBlobRequest { chunk: chunk.to_vec().into() }).collect();
    let blob = blobs.put_blob(iter(chunks)).await.unwrap().into_inner().blob.unwrap();
    v1::Payload { media_type: "application/json".to_owned(), data: Some(Data::Blob(blob)) }
}

/// The value of a payload, wherever its bytes are.
async fn value(harness: &Harness, payload: Option<&v1::Payload>) -> Value {
    match payload.and_then(|payload| payload.data.clone()) {
        None => Value::Null,
        Some(Data::Inline(bytes)) => serde_json::from_slice(&bytes).unwrap(),
        Some(Data::Blob(blob)) => {
            let mut blobs = BlobServiceClient::new(harness.channel.clone());
            let request = v1::GetBlobRequest { blake3: blob.blake3 };
            let mut stream = blobs.get_blob(request).await.unwrap().into_inner();
            let mut contents = Vec::new();
            while let Some(chunk) = stream.message().await.unwrap() {
                contents.extend_from_slice(&chunk.chunk);
            }
            serde_json::from_slice(&contents).unwrap()
        }
    }
}

async fn rejections(harness: &Harness, run: &str) -> Vec<v1::OutputRejected> {
    let events = harness.export(run).await.into_iter();
    let rejected = events.filter_map(|event| match event.body {
        Some(Body::OutputRejected(rejected)) => Some(rejected),
        _ => None,
    });
    rejected.collect()
}

/// The number of the newest event of this kind.
async fn seq_of(harness: &Harness, run: &str, wanted: fn(&Body) -> bool) -> u64 {
    let events = harness.export(run).await;
    let newest = events.iter().rev().find(|event| event.body.as_ref().is_some_and(wanted));
    newest.expect("there is such an event").seq
}
