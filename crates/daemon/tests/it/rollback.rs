//! A task is taken back, with what was built on it (seed 000, contract 2).

use capataz_contracts::v1::{self, connect_response::Frame as Hear};
use v1::TaskState::{Active, Complete, Init, RolledBack};

use tonic_types::StatusExt;

use crate::support::{Harness, code_of, json, plan};

fn request(run: &str, cascade: bool) -> v1::RollbackTaskRequest {
    v1::RollbackTaskRequest {
        run_id: run.to_owned(),
        task: "build".to_owned(),
        request_id: format!("take back {cascade}"),
        if_seq: None,
        cascade,
    }
}

// S000-C2-15
#[tokio::test]
async fn what_was_built_on_a_task_goes_back_with_it_on_demand_and_is_built_anew() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["build", "deploy"]).await;
    let two_waves = plan(
        r#"
        name = "taken-back"
        [[waves]]
        tasks = [{ name = "build", agent = "build" }]
        [[waves]]
        tasks = [{ name = "deploy", agent = "deploy", input = { from = "${tasks.build.output}" } }]
        "#,
    );
    let run = harness.start_run(two_waves).await;
    let build = worker.assignment().await;
    worker.complete(&build.lease, json(serde_json::json!(1))).await;
    let deploy = worker.assignment().await;
    assert_eq!(deploy.assignment.input, Some(json(serde_json::json!({ "from": 1 }))));

    let before = harness.export(&run).await;
    let refusal = harness.runs.clone().rollback_task(request(&run, false)).await.unwrap_err();
    assert_eq!(code_of(&refusal), "INVALID_STATE_TRANSITION");
    assert!(refusal.message().contains("\"deploy\""), "{}", refusal.message());
    let info = refusal.get_error_details().error_info().unwrap().clone();
    assert_eq!(info.metadata["options"], "cascade, abort");
    assert_eq!(harness.export(&run).await, before);

    let done = harness.runs.clone().rollback_task(request(&run, true)).await.unwrap().into_inner();
    assert_eq!(done.activation, 2);
    let again = harness.runs.clone().rollback_task(request(&run, true)).await.unwrap().into_inner();
    assert_eq!(again, done, "a repeated request is carried out once");
    let revoked = worker.hear_until(|frame| match frame {
        Hear::LeaseRevoked(revoked) => revoked.lease.clone(),
        _ => None,
    });
    assert_eq!(revoked.await, deploy.lease);
    let anew = worker.assignment().await;
    assert_eq!((anew.assignment.task_name.as_str(), anew.assignment.activation), ("build", 2));
    assert_ne!(anew.assignment.idempotency_key, build.assignment.idempotency_key);
    // What was at work says its result all the same.
    worker.complete(&deploy.lease, json(serde_json::json!("of 1"))).await;
    let reason = worker.hear_until(|frame| match frame {
        Hear::ResultRefused(refused) => Some(refused.reason()),
        _ => None,
    });
    assert_eq!(reason.await, v1::RefusalReason::StaleLease);

    worker.complete(&anew.lease, json(serde_json::json!(2))).await;
    let deploy = worker.assignment().await;
    assert_eq!(deploy.assignment.input, Some(json(serde_json::json!({ "from": 2 }))));
    assert_eq!(deploy.assignment.activation, 2);
    worker.complete(&deploy.lease, json(serde_json::json!("of 2"))).await;
    assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Succeeded);
    let run = harness.get(&run).await;
    let states =
        |wave: usize| run.waves[wave].tasks[0].history.iter().map(v1::Transition::to).collect::<Vec<_>>();
    assert_eq!(states(0), [Init, Active, Complete, RolledBack, Init, Active, Complete]);
    assert_eq!(states(1), [Init, Active, RolledBack, Init, Active, Complete]);
}
