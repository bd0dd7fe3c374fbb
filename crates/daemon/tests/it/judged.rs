//! What an agent declares of its outputs, and what people may say that it gave back.

use capataz_contracts::v1;
use tokio_stream::iter;

use crate::support::{Harness, Worker, code_of, json, paths_of, plan};

fn hello(schema: &str) -> v1::Hello {
    let agent =
        v1::Agent { name: "pay".to_owned(), output_schema: schema.to_owned(), ..v1::Agent::default() };
    v1::Hello {
        worker_id: "w1".to_owned(),
        agents: vec![agent],
        slots: 1,
        protocol: 1,
        ..v1::Hello::default()
    }
}

#[tokio::test]
async fn an_agent_that_declares_what_is_no_schema_is_refused_with_its_places() {
    let harness = Harness::start().await;
    let schema = r#"{"type":"object","properties":{"a":{"type":"text"},"b":{"$ref":"https://example.com"}}}"#;
    let refused = Worker::with_hello(harness.channel.clone(), hello(schema)).await.err().unwrap();
    assert_eq!(code_of(&refused), "VALIDATION_ERROR");
    let expected = ["agents[0].output_schema/properties/b/$ref", "agents[0].output_schema/properties/a/type"];
    let mut paths = paths_of(&refused);
    paths.sort();
    assert_eq!(paths, [expected[1], expected[0]]);
    let large = format!("{{\"title\":\"{}\"}}", "a".repeat(64 * 1024));
    let refused = Worker::with_hello(harness.channel.clone(), hello(&large)).await.err().unwrap();
    assert_eq!(paths_of(&refused), ["agents[0].output_schema"]);
}

/// A run whose only task has lost its worker, and the question about it.
async fn unknown(harness: &Harness, schema: &str) -> (String, v1::Question) {
    let mut worker = Worker::with_hello(harness.channel.clone(), hello(schema)).await.unwrap();
    let text = "name = \"once\"\n[[tasks]]\nname = \"pay\"\nagent = \"pay\"\neffect = \"at_most_once\"";
    let run = harness.start_run(plan(text)).await;
    worker.assignment().await;
    drop(worker);
    // It comes back without its lease.
    let _worker = Worker::with_hello(harness.channel.clone(), hello("")).await.unwrap();
    loop {
        if let Some(question) = harness.get(&run).await.questions.first() {
            return (run, question.clone());
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_value_that_breaks_the_agents_schema_is_refused_with_every_place_and_the_question_stays_open() {
    let harness = Harness::start().await;
    let schema = r#"{"type":"object","required":["paid"],"properties":{"paid":{"type":"integer"}},"additionalProperties":false}"#;
    let (run, question) = unknown(&harness, schema).await;
    assert_eq!(question.value.unwrap().schema, schema, "of the worker that had the lease");
    let answer = |value: Option<v1::Payload>, request_id: &str| v1::ResolveRequest {
        run_id: run.clone(),
        question_id: question.question_id.clone(),
        answer: "succeeded".to_owned(),
        request_id: request_id.to_owned(),
        value,
        ..Default::default()
    };
    let mut runs = harness.runs.clone();
    let broken = json(serde_json::json!({"paid": "7", "note": 1}));
    let refused = runs.resolve(answer(Some(broken.clone()), "a")).await.unwrap_err();
    assert_eq!(code_of(&refused), "VALIDATION_ERROR");
    assert_eq!(paths_of(&refused), ["value/note", "value/paid"]);
    // Whatever else is wrong with the request.
    let outdated = v1::ResolveRequest { if_seq: Some(1), revision: Some(9), ..answer(Some(broken), "a") };
    assert_eq!(code_of(&runs.resolve(outdated).await.unwrap_err()), "VALIDATION_ERROR");
    // Nothing was proposed, and null is no such object.
    assert_eq!(paths_of(&runs.resolve(answer(None, "b")).await.unwrap_err()), ["value"]);
    let twice = v1::Payload {
        media_type: "application/json".to_owned(),
        data: Some(v1::payload::Data::Inline(r#"{"paid":1,"paid":2}"#.into())),
    };
    assert_eq!(paths_of(&runs.resolve(answer(Some(twice), "c")).await.unwrap_err()), ["value"]);
    assert_eq!(harness.get(&run).await.status(), v1::RunStatus::Waiting);

    let content = serde_json::json!({"paid": 7});
    let mut blobs = v1::blob_service_client::BlobServiceClient::new(harness.channel.clone());
    let chunk = v1::PutBlobRequest { chunk: content.to_string().into_bytes().into() };
    let blob = blobs.put_blob(iter([chunk])).await.unwrap().into_inner().blob.unwrap();
    let by_reference =
        v1::Payload { media_type: "application/json".to_owned(), data: Some(v1::payload::Data::Blob(blob)) };
    runs.resolve(answer(Some(by_reference.clone()), "d")).await.unwrap();
    assert_eq!(harness.wait(&run).await.tasks[0].output, Some(by_reference.clone()));
    // The same request again has the same answer, and nobody judges it again.
    runs.resolve(answer(Some(by_reference), "d")).await.unwrap();
}

#[tokio::test]
async fn a_value_that_cannot_be_read_now_is_no_wrong_one_and_counts_when_it_is_given_again() {
    let harness = Harness::start().await;
    let (run, question) = unknown(&harness, r#"{"type":"object"}"#).await;
    let mut blobs = v1::blob_service_client::BlobServiceClient::new(harness.channel.clone());
    let chunk = v1::PutBlobRequest { chunk: "{}".into() };
    let blob = blobs.put_blob(iter([chunk])).await.unwrap().into_inner().blob.unwrap();
    let file = harness.folder.path().join("data/blobs").join(&blob.blake3[..2]).join(&blob.blake3);
    let value =
        v1::Payload { media_type: "application/json".to_owned(), data: Some(v1::payload::Data::Blob(blob)) };
    let answer = v1::ResolveRequest {
        run_id: run.clone(),
        question_id: question.question_id.clone(),
        answer: "succeeded".to_owned(),
        request_id: "a".to_owned(),
        value: Some(value),
        ..Default::default()
    };
    // A folder in the place of the file can be opened and not be read.
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    let mut runs = harness.runs.clone();
    assert_eq!(code_of(&runs.resolve(answer.clone()).await.unwrap_err()), "UNAVAILABLE");
    assert_eq!(harness.get(&run).await.status(), v1::RunStatus::Waiting);
    std::fs::remove_dir(&file).unwrap();
    std::fs::write(&file, "{}").unwrap();
    runs.resolve(answer).await.unwrap();
    assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Succeeded);
}
