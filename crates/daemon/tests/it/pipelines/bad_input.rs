//! Pipelines that are refused, each with everything that is wrong with it.

use capataz_contracts::v1;
use tonic_types::StatusExt;

use super::{REVIEW, pipeline, try_start};
use crate::support::{Harness, code_of, json, paths_of};

async fn refused(harness: &Harness, pipeline: v1::Pipeline) -> tonic::Status {
    try_start(harness, pipeline).await.unwrap_err()
}

#[track_caller]
fn has_paths(refused: &tonic::Status, expected: &[&str]) {
    assert_eq!(code_of(refused), "VALIDATION_ERROR", "{refused:?}");
    let mut paths = paths_of(refused);
    paths.sort();
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    assert_eq!(paths, expected, "{:?}", refused.get_error_details().bad_request());
}

#[tokio::test]
async fn everything_that_is_wrong_with_a_pipeline_is_told_at_once_with_its_place() {
    let harness = Harness::start().await;
    let wrong = r#"
        name = ""
        product_id = " "
        [[phases]]
        name = "a.b"
        agent = "one"
        output.schema = { type = "text", properties = { n = { minimum = "0" } } }
        [[phases]]
        name = "read"
        agent = ""
        input = { later = "${phases.tell.summary}", own = "${phases.read.output}", item = "${item}", odd = "${phases}" }
        [[phases]]
        name = "read"
        agent = "two"
        for_each = "all of ${input}"
        summary = ["title", "title"]
        retry = { max_attempts = 0 }
    "#;
    let expected = [
        "pipeline.name",
        "pipeline.product_id",
        "pipeline.phases[0].name",
        "pipeline.phases[0].output.schema/type",
        "pipeline.phases[0].output.schema/properties/n/minimum",
        "pipeline.phases[1].agent",
        "pipeline.phases[1].input.later",
        "pipeline.phases[1].input.own",
        "pipeline.phases[1].input.item",
        "pipeline.phases[1].input.odd",
        "pipeline.phases[2].name",
        "pipeline.phases[2].for_each",
        "pipeline.phases[2].summary[1]",
        "pipeline.phases[2].retry.max_attempts",
    ];
    has_paths(&refused(&harness, pipeline(wrong)).await, &expected);
    assert_eq!(harness.run_count().await, 0);
}

#[tokio::test]
async fn templates_and_inputs_that_are_no_json_are_refused() {
    let harness = Harness::start().await;
    let mut given = pipeline(REVIEW);
    given.phases[0].input = Some("{\"a\": ".to_owned());
    given.phases[1].input = Some("{\"a\": 1, \"a\": 2}".to_owned());
    given.input = Some(v1::Payload {
        media_type: "application/json".to_owned(),
        data: Some(v1::payload::Data::Inline("{\"a\": NaN}".into())),
    });
    let expected = ["pipeline.input", "pipeline.phases[0].input", "pipeline.phases[1].input"];
    has_paths(&refused(&harness, given).await, &expected);
    let text = v1::Payload { media_type: "text/plain".to_owned(), ..json(serde_json::json!("a")) };
    let given = v1::Pipeline { input: Some(text), ..pipeline(REVIEW) };
    has_paths(&refused(&harness, given).await, &["pipeline.input.media_type"]);
    let mut deep = pipeline(REVIEW);
    deep.phases[0].input = Some(format!("{}{}", "[".repeat(1_000), "]".repeat(1_000)));
    has_paths(&refused(&harness, deep).await, &["pipeline.phases[0].input"]);
    let missing = v1::BlobRef { blake3: "0".repeat(64), size: 7, answer: None };
    let input = v1::Payload {
        media_type: "application/json".to_owned(),
        data: Some(v1::payload::Data::Blob(missing)),
    };
    let refusal = refused(&harness, v1::Pipeline { input: Some(input), ..pipeline(REVIEW) }).await;
    assert!(!code_of(&refusal).is_empty(), "{refusal:?}");
    assert_eq!(harness.run_count().await, 0);
}

#[tokio::test]
async fn schemas_that_are_none_or_would_cost_too_much_are_refused() {
    let harness = Harness::start().await;
    let rows = [
        (r#"{"$ref": "https://example.com/schema.json"}"#, "/$ref"),
        (r##"{"$ref": "#"}"##, ""),
        (r#"{"pattern": "(a+)+\\1"}"#, "/pattern"),
        ("7", ""),
    ];
    for (schema, place) in rows {
        let mut given = pipeline(REVIEW);
        given.phases[1].output = Some(v1::OutputRule { schema: Some(schema.to_owned()), checks: Vec::new() });
        let refusal = refused(&harness, given).await;
        assert_eq!(code_of(&refusal), "VALIDATION_ERROR", "{schema}");
        let expected = format!("pipeline.phases[1].output.schema{place}");
        assert!(
            paths_of(&refusal).iter().all(|path| path.starts_with(&expected)),
            "{schema}: {:?}",
            paths_of(&refusal)
        );
    }
    let mut large = pipeline(REVIEW);
    let schema = format!("{{\"title\": \"{}\"}}", "a".repeat(64 * 1024));
    large.phases[0].output = Some(v1::OutputRule { schema: Some(schema), checks: Vec::new() });
    has_paths(&refused(&harness, large).await, &["pipeline.phases[0].output.schema"]);
}

#[tokio::test]
async fn a_pipeline_has_at_least_one_phase_and_at_most_64() {
    let harness = Harness::start().await;
    let of = |phases: usize| {
        let one = |number: usize| v1::Phase {
            name: format!("p{number}"),
            agent: "a".to_owned(),
            ..v1::Phase::default()
        };
        v1::Pipeline {
            name: "p".to_owned(),
            phases: (0..phases).map(one).collect(),
            ..v1::Pipeline::default()
        }
    };
    has_paths(&refused(&harness, of(0)).await, &["pipeline.phases"]);
    has_paths(&refused(&harness, of(65)).await, &["pipeline.phases"]);
    let mut worker = harness.worker("w1", &["a"]).await;
    let run = try_start(&harness, of(64)).await.unwrap();
    assert_eq!(worker.assignment().await.lease.run_id, run);
}

#[tokio::test]
async fn a_pipeline_with_an_agent_that_nobody_knows_is_refused_whole() {
    let harness = Harness::start().await;
    let _worker = harness.worker("w1", &["reader"]).await;
    let refusal = refused(&harness, pipeline(REVIEW)).await;
    assert_eq!(code_of(&refusal), "AGENT_NOT_FOUND");
    assert!(refusal.message().contains("teller"), "{}", refusal.message());
    assert_eq!(harness.run_count().await, 0);
}

#[tokio::test]
async fn the_same_key_names_the_same_pipeline_and_no_other_one() {
    let harness = Harness::start().await;
    let _worker = harness.worker("w1", &["reader", "teller"]).await;
    let mut runs = harness.runs.clone();
    let mut start = async |pipeline: v1::Pipeline| {
        let request = v1::StartRunRequest {
            idempotency_key: Some("once".to_owned()),
            ..v1::StartRunRequest::of_pipeline(pipeline)
        };
        runs.start_run(request).await.map(tonic::Response::into_inner)
    };
    let first = start(pipeline(REVIEW)).await.unwrap();
    let second = start(pipeline(REVIEW)).await.unwrap();
    assert_eq!((first.created, second.created, &second.run_id), (true, false, &first.run_id));
    let mut other = pipeline(REVIEW);
    other.phases[0].summary.clear();
    assert_eq!(code_of(&start(other).await.unwrap_err()), "IDEMPOTENCY_KEY_REUSED");
}
