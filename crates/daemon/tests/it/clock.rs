//! A machine whose clock is wrong.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use capataz_contracts::v1::blob_service_client::BlobServiceClient;
use capataz_contracts::v1::{self, connect_response::Frame as Hear};
use capataz_daemon::{Clock, Config};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::support::{Harness, PATIENCE, Worker, json, one_wave, plan};

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// A clock that is ahead of the true one by so much.
fn ahead(by_ms: i64) -> Clock {
    Clock::of_both(move || {
        let now = capataz_runtime::now();
        (now.wall.0 + by_ms, now.mono.0)
    })
}

fn wrong(config: &mut Config) {
    config.clock = ahead(40 * DAY_MS);
}

/// Waits until the health service says this of retention.
async fn says(harness: &Harness, status: ServingStatus) {
    let request = HealthCheckRequest { service: "capataz.retention".to_owned() };
    let watched = async {
        let mut told = HealthClient::new(harness.channel.clone()).watch(request).await.unwrap().into_inner();
        while told.message().await.unwrap().unwrap().status() != status {}
    };
    tokio::time::timeout(PATIENCE, watched).await.expect("it is said in time");
}

#[tokio::test]
async fn retention_stands_still_and_says_so_where_the_clock_is_far_ahead_at_a_start() {
    let harness = Harness::start().await;
    says(&harness, ServingStatus::Serving).await;
    let mut worker = harness.worker("w", &["a"]).await;
    let run = harness.start_run(one_wave(&["a"])).await;
    let lease = worker.assignment().await.lease;
    worker.complete(&lease, json(serde_json::json!(1))).await;
    harness.wait(&run).await;
    drop(worker);
    // Runs are kept for 30 days.
    let harness = Harness::start_in(harness.stop().await, wrong).await;
    says(&harness, ServingStatus::NotServing).await;
    harness.get(&run).await;
    let folder = harness.stop().await;
    // The clock is right, says whoever knows.
    let confirmed = |config: &mut Config| {
        wrong(config);
        config.retention.believe_clock = true;
    };
    let harness = Harness::start_in(folder, confirmed).await;
    harness.gone(&run).await;
    says(&harness, ServingStatus::Serving).await;
    harness.stop().await;
}

/// Ends a run with 30,000 bytes.
async fn end_large(harness: &Harness) {
    let mut worker = harness.worker("w", &["a"]).await;
    harness.start_run(one_wave(&["a"])).await;
    let lease = worker.assignment().await.lease;
    worker.complete(&lease, json(serde_json::json!("x".repeat(30_000)))).await;
    worker.hear_until(|heard| matches!(heard, Hear::ResultAccepted(_)).then_some(())).await;
}

#[tokio::test]
async fn retention_stands_still_and_says_so_where_the_clock_is_set_while_the_daemon_works() {
    let set_by = Arc::new(AtomicI64::new(0));
    let set = Arc::clone(&set_by);
    // Nobody sets the other one.
    let clock = Clock::of_both(move || {
        let now = capataz_runtime::now();
        (now.wall.0 + set.load(Ordering::SeqCst), now.mono.0)
    });
    let harness = Harness::start_with(|config| {
        config.clock = clock;
        // One large run has room, and with each further one retention comes, which else comes once a minute.
        config.retention.max_log_bytes = Some(50_000);
    })
    .await;
    let mut blobs = BlobServiceClient::new(harness.channel.clone());
    let unused = v1::PutBlobRequest { chunk: "nobody names it".into() };
    let put = blobs.put_blob(tokio_stream::iter([unused])).await.unwrap();
    let unused = v1::GetBlobRequest { blake3: put.into_inner().blob.unwrap().blake3 };
    end_large(&harness).await;
    says(&harness, ServingStatus::Serving).await;

    set_by.store(40 * DAY_MS, Ordering::SeqCst);
    end_large(&harness).await;
    says(&harness, ServingStatus::NotServing).await;
    blobs.get_blob(unused.clone()).await.expect("only the clock on the wall makes it old");
    set_by.store(0, Ordering::SeqCst);
    end_large(&harness).await;
    says(&harness, ServingStatus::Serving).await;
    blobs.get_blob(unused).await.expect("it has been there for a moment");
    harness.stop().await;
}

#[tokio::test]
async fn a_first_start_with_a_clock_a_year_ahead_costs_no_run_anything() {
    let year_ahead = |config: &mut Config| config.clock = ahead(365 * DAY_MS);
    let harness = Harness::start_in(tempfile::tempdir().unwrap(), year_ahead).await;
    let mut worker = harness.worker("w", &["a", "b"]).await;
    let finished = harness.start_run(one_wave(&["a"])).await;
    let lease = worker.assignment().await.lease;
    worker.complete(&lease, json(serde_json::json!(1))).await;
    harness.wait(&finished).await;
    let limited = plan(
        r#"
        name = "limited"
        [[tasks]]
        name = "b"
        agent = "b"
        timeouts = { timeout = "20m" }
        "#,
    );
    let begun = harness.start_run(limited).await;
    let held = worker.assignment().await.lease;
    // The daemon has heard the acknowledgement when it answers what is said after it.
    let unknown = v1::LeaseRef { lease: held.lease + 1, ..held.clone() };
    worker.complete(&unknown, json(serde_json::Value::Null)).await;
    worker.hear_until(|heard| matches!(heard, Hear::ResultRefused(_)).then_some(())).await;
    drop(worker);
    // The clock is right from now on.
    let harness = Harness::start_in(harness.stop().await, |_| ()).await;
    let mut worker = Worker::connect(harness.channel.clone(), "w", &["a", "b"], vec![held.clone()]).await;
    assert_eq!(worker.welcome.reattached, std::slice::from_ref(&held));
    worker.complete(&held, json(serde_json::json!(2))).await;
    assert_eq!(harness.wait(&begun).await.outcome(), v1::RunOutcome::Succeeded);
    let later = harness.start_run(one_wave(&["a"])).await;
    let lease = worker.assignment().await.lease;
    worker.complete(&lease, json(serde_json::json!(3))).await;
    assert_eq!(harness.wait(&later).await.outcome(), v1::RunOutcome::Succeeded);
    assert_eq!(harness.run_count().await, 3);
}
