//! Checkpoints of a product, of all of its runs.

use capataz_contracts::v1::pipeline_service_client::PipelineServiceClient;
use capataz_contracts::v1::{self, CheckpointStatus};
use serde_json::json as of;

use super::{REVIEW, pipeline, start, statuses};
use crate::support::{Harness, code_of, json};

async fn listed(
    harness: &Harness,
    request: v1::ListCheckpointsRequest,
) -> Result<v1::ListCheckpointsResponse, tonic::Status> {
    let mut pipelines = PipelineServiceClient::new(harness.channel.clone());
    Ok(pipelines.list_checkpoints(request).await?.into_inner())
}

fn of_product(product: &str, page_size: u32, page_token: String) -> v1::ListCheckpointsRequest {
    let product_id = product.to_owned();
    v1::ListCheckpointsRequest { product_id, page_size, page_token, ..v1::ListCheckpointsRequest::default() }
}

// S003-CP-06
#[tokio::test]
async fn the_checkpoints_of_a_product_are_those_of_its_runs_the_newest_first() {
    let harness = Harness::start().await;
    let _worker = harness.worker("w1", &["reader", "teller"]).await;
    let of = |product: &str| v1::Pipeline { product_id: Some(product.to_owned()), ..pipeline(REVIEW) };
    let first = start(&harness, of("shop")).await;
    let _other = start(&harness, of("another")).await;
    let second = start(&harness, of("shop")).await;

    let all = listed(&harness, of_product("shop", 0, String::new())).await.unwrap();
    let runs: Vec<&str> = all.checkpoints.iter().map(|checkpoint| checkpoint.run_id.as_str()).collect();
    assert_eq!(runs, [&second, &second, &first, &first]);
    assert!(all.checkpoints.iter().all(|checkpoint| checkpoint.product_id == "shop"));
    let stand = statuses(&all.checkpoints);
    assert_eq!((stand[1], stand[3]), (CheckpointStatus::Pending, CheckpointStatus::Pending));
    assert_eq!((all.seq, all.next_page_token.as_str()), (0, ""));

    let page = listed(&harness, of_product("shop", 1, String::new())).await.unwrap();
    assert_eq!(page.checkpoints.len(), 2);
    let rest = listed(&harness, of_product("shop", 1, page.next_page_token)).await.unwrap();
    assert!(rest.checkpoints.iter().all(|checkpoint| checkpoint.run_id == first));

    assert!(listed(&harness, of_product("nothing", 0, String::new())).await.unwrap().checkpoints.is_empty());
    let both = v1::ListCheckpointsRequest { run_id: first, ..of_product("shop", 0, String::new()) };
    assert_eq!(code_of(&listed(&harness, both).await.unwrap_err()), "VALIDATION_ERROR");
}

/// Runs of a product in one page, where they have room there.
const RUNS: usize = 20;
/// Phases of each of these runs: with a summary of 30,000 bytes each, they have more than the 4 MiB that a client takes.
const PHASES: usize = 8;

#[tokio::test]
async fn large_checkpoints_of_a_product_come_in_pages_that_every_client_takes() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["reader"]).await;
    let phase = |number: usize| v1::Phase {
        name: format!("p{number}"),
        agent: "reader".to_owned(),
        input: Some("{}".to_owned()),
        summary: vec!["text".to_owned()],
        ..v1::Phase::default()
    };
    let large = v1::Pipeline {
        name: "large".to_owned(),
        product_id: Some("shop".to_owned()),
        phases: (0..PHASES).map(phase).collect(),
        ..v1::Pipeline::default()
    };
    let mut runs = Vec::new();
    for _ in 0..RUNS {
        runs.push(start(&harness, large.clone()).await);
    }
    let text = "x".repeat(30_000);
    for _ in 0..RUNS * PHASES {
        let read = worker.assignment().await;
        worker.complete(&read.lease, json(of!({ "text": text }))).await;
    }
    for run in &runs {
        assert_eq!(harness.wait(run).await.outcome(), v1::RunOutcome::Succeeded);
    }
    let (mut told, mut pages, mut page_token) = (Vec::new(), 0, String::new());
    loop {
        let page = listed(&harness, of_product("shop", 0, page_token)).await.unwrap();
        pages += 1;
        told.extend(page.checkpoints.into_iter().map(|checkpoint| checkpoint.run_id));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    // Every run is told once and whole, the newest first.
    let all: Vec<String> = runs.iter().rev().flat_map(|run| vec![run.clone(); PHASES]).collect();
    assert_eq!(told, all);
    assert_eq!(pages, 2);
}
