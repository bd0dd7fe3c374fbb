//! A language model as the agent of a phase.

use std::path::{Path, PathBuf};

use capataz_contracts::pipeline_file::{self, Format};
use capataz_contracts::v1::{self, CheckpointStatus};
use capataz_hosts::models::ModelAgent;
use capataz_testmodel::{Protocol, TestModel, Turn};
use serde_json::{Value, json as of};

use super::{checkpoints, rejections, start, statuses, value};
use crate::support::{Harness, json};

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/pipelines")
}

/// The pipeline of the examples whose last phase is a model's, without its pauses.
fn told_by_a_model() -> v1::Pipeline {
    let file = std::fs::read(examples().join("told-by-a-model.toml")).unwrap();
    let mut schema = |file: &str| std::fs::read(examples().join(file)).map_err(|error| error.to_string());
    let mut pipeline = pipeline_file::parse_bytes(&file, Format::Toml, &mut schema).unwrap();
    let retry = v1::RetryPolicy { delays_ms: vec![0, 0, 0], ..v1::RetryPolicy::default() };
    pipeline.phases[3].retry = Some(retry);
    pipeline
}

#[tokio::test]
async fn a_model_reads_how_its_narrative_broke_the_schema_and_mends_it() {
    let wrong = of!({ "narratives": [{ "kind": "overview", "title": "", "text": "A shop." }] });
    let right = of!({ "narratives": [{ "kind": "overview", "title": "The shop", "text": "A shop." }] });
    let server = TestModel::start([Turn::say(wrong.to_string()), Turn::say(right.to_string())]).await;
    // The model of the examples, but for where it is.
    let config = std::fs::read_to_string(examples().join("capataz.toml")).unwrap();
    let config: toml::Table = config.parse().unwrap();
    let mut model = config["models"][0].clone();
    model.as_table_mut().unwrap().insert("base_url".to_owned(), server.base_url(Protocol::OpenAi).into());
    let model: ModelAgent = model.try_into().unwrap();
    let harness = Harness::start_with(|config| config.models = vec![model]).await;

    let source = of!({ "sourceId": "shop", "paths": ["src/main.rs"], "manifests": {} });
    let input = Some(json(of!({ "sources": [source] })));
    let run = start(&harness, v1::Pipeline { input, ..told_by_a_model() }).await;
    let result = harness.wait(&run).await;
    assert_eq!(result.outcome(), v1::RunOutcome::Succeeded, "{:?}", result.error);
    let told = result.tasks.iter().find(|task| task.name == "narrative").unwrap();
    assert_eq!(value(&harness, told.output.as_ref()).await, right);
    assert_eq!(statuses(&checkpoints(&harness, &run, None).await), [CheckpointStatus::Completed; 4]);

    let asked: Vec<Value> =
        server.asked().iter().map(|asked| serde_json::from_str(&asked.text()).unwrap()).collect();
    assert_eq!(asked.len(), 2);
    // The model is given what the phases before have found, and the second time what was wrong.
    assert_eq!(asked[0]["surfaces"]["surfaces"][0]["sourceId"], "shop");
    assert_eq!(asked[0].get("correction"), None);
    assert_eq!(asked[1]["surfaces"], asked[0]["surfaces"]);
    let correction = &asked[1]["correction"];
    assert_eq!((&correction["attempt"], &correction["output"]), (&of!(1), &wrong));
    let violation = &correction["violations"][0];
    assert_eq!((&violation["path"], &violation["rule"]), (&of!("/narratives/0/title"), &of!("minLength")));
    let rejected = rejections(&harness, &run).await;
    assert_eq!((rejected.len(), rejected[0].violations.len()), (1, 1));
    // Its server is told the shape of the answer, and the model what it is.
    for asked in server.asked() {
        assert_eq!(asked.body["response_format"]["type"], "json_schema", "{}", asked.body);
        let system = asked.body["messages"][0]["content"].as_str().unwrap();
        assert!(system.contains("software product"), "{system}");
    }
}
