//! Pipelines that go on from the middle of another one, with another input.

use capataz_contracts::v1::pipeline_service_client::PipelineServiceClient;
use capataz_contracts::v1::{self, CheckpointStatus, event::Body};
use serde_json::json as of;

use super::{REVIEW, checkpoints, given, start, statuses, value};
use crate::support::{Harness, json};

fn is_completed(event: &&v1::Event) -> bool {
    matches!(event.body, Some(Body::PhaseCompleted(_)))
}

#[tokio::test]
async fn a_fork_behind_a_phase_keeps_its_checkpoint_and_goes_on_with_another_input() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["reader", "teller"]).await;
    let shop = v1::Pipeline { product_id: Some("shop".to_owned()), ..given(REVIEW, of!({ "path": "src" })) };
    let base = start(&harness, shop).await;
    let read = worker.assignment().await;
    worker.complete(&read.lease, json(of!({ "title": "the sea" }))).await;
    let tell = worker.assignment().await;
    let title = of!({ "read": { "title": "the sea" } });
    let input = value(&harness, tell.assignment.input.as_ref()).await;
    assert_eq!(input, of!({ "input": { "path": "src" }, "phases": title }));
    worker.complete(&tell.lease, json(of!(1))).await;
    harness.wait(&base).await;
    let log = harness.export(&base).await;
    let seq = log.iter().find(is_completed).expect("the first phase was completed").seq;
    let then = checkpoints(&harness, &base, Some(seq)).await;
    assert_eq!(statuses(&then), [CheckpointStatus::Completed, CheckpointStatus::Pending]);

    let request = v1::ForkRunRequest {
        run_id: base.clone(),
        at_seq: Some(seq),
        input: Some(json(of!({ "path": "docs" }))),
        ..v1::ForkRunRequest::default()
    };
    let forked = harness.runs.clone().fork_run(request).await.unwrap().into_inner();
    assert_eq!(forked.at_seq, seq);
    let fork = forked.run_id;
    let tell = worker.assignment().await;
    assert_eq!((&tell.lease.run_id, tell.assignment.task_name.as_str()), (&fork, "tell"));
    let input = value(&harness, tell.assignment.input.as_ref()).await;
    assert_eq!(input, of!({ "input": { "path": "docs" }, "phases": title }));
    worker.complete(&tell.lease, json(of!(2))).await;
    assert_eq!(harness.wait(&fork).await.outcome(), v1::RunOutcome::Succeeded);

    // What had been read is not read again.
    let own = harness.export(&fork).await.split_off(usize::try_from(seq).unwrap());
    assert!(matches!(own[0].body, Some(Body::RunForked(_))), "{own:?}");
    assert_eq!(own.iter().filter(|event| matches!(event.body, Some(Body::TaskLeased(_)))).count(), 1);
    assert_eq!(own.iter().filter(is_completed).count(), 1);
    let stands = checkpoints(&harness, &fork, None).await;
    assert_eq!(statuses(&stands), [CheckpointStatus::Completed; 2]);
    let first = v1::Checkpoint { run_id: fork.clone(), ..then[0].clone() };
    assert_eq!(stands[0], first, "field by field");

    let request = v1::ListCheckpointsRequest { product_id: "shop".to_owned(), ..Default::default() };
    let mut pipelines = PipelineServiceClient::new(harness.channel.clone());
    let listed = pipelines.list_checkpoints(request).await.unwrap().into_inner().checkpoints;
    let mut runs: Vec<&str> = listed.iter().map(|checkpoint| checkpoint.run_id.as_str()).collect();
    runs.sort_unstable();
    let mut both = [&*base, &*base, &*fork, &*fork];
    both.sort_unstable();
    assert_eq!(runs, both);
}
