//! What a run was, and whether what is stored of it is what its events say.

use std::collections::BTreeMap;

use capataz_contracts::v1;

use crate::support::{Harness, code_of, json, plan};

fn at(run: &str, at_seq: Option<u64>) -> v1::GetRunRequest {
    v1::GetRunRequest {
        run_id: run.to_owned(),
        include_outputs: true,
        at_seq,
        ..v1::GetRunRequest::default()
    }
}

async fn shown(harness: &Harness, run: &str, at_seq: Option<u64>) -> v1::Run {
    let response = harness.runs.clone().get_run(at(run, at_seq)).await.unwrap();
    response.into_inner().run.unwrap()
}

#[tokio::test]
async fn a_run_at_one_of_its_events_is_the_run_as_it_stood_then() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["build", "deploy"]).await;
    let two_waves = plan(
        r#"
        name = "two-waves"
        [[waves]]
        tasks = [{ name = "build", agent = "build" }]
        [[waves]]
        tasks = [{ name = "deploy", agent = "deploy" }]
        "#,
    );
    let run = harness.start_run(two_waves).await;
    let mut then = BTreeMap::new();
    let mut keep = |mut run: v1::Run| {
        // No event tells how often the worker was heard.
        for task in run.waves.iter_mut().flat_map(|wave| &mut wave.tasks) {
            task.health_checks = None;
        }
        then.insert(run.seq, run);
    };
    let build = worker.assignment().await;
    keep(shown(&harness, &run, None).await);
    worker.complete(&build.lease, json(serde_json::json!(1))).await;
    let deploy = worker.assignment().await;
    keep(shown(&harness, &run, None).await);
    worker.complete(&deploy.lease, json(serde_json::json!(2))).await;
    harness.wait(&run).await;
    keep(shown(&harness, &run, None).await);

    assert_eq!(then.len(), 3);
    for (seq, as_it_stood) in &then {
        assert_eq!(&shown(&harness, &run, Some(*seq)).await, as_it_stood, "at {seq}");
    }
    let first = shown(&harness, &run, Some(1)).await;
    assert_eq!((first.seq, first.status(), first.tasks_settled), (1, v1::RunStatus::Running, 0));

    let newest = *then.keys().next_back().unwrap();
    for absent in [0, newest + 1, u64::MAX] {
        let refusal = harness.runs.clone().get_run(at(&run, Some(absent))).await.unwrap_err();
        assert_eq!(refusal.code(), tonic::Code::InvalidArgument);
        assert_eq!(code_of(&refusal), "VALIDATION_ERROR");
        assert!(refusal.message().contains(&format!("events 1 to {newest}")), "{}", refusal.message());
    }

    let replay = v1::ReplayRunRequest { run_id: run.clone() };
    let replayed = harness.runs.clone().replay_run(replay).await.unwrap().into_inner();
    assert_eq!((replayed.events, replayed.differences), (newest, Vec::new()));
    let nobody = "0199a3c8-5b1e-7c4d-9a52-0d6f3c1b7e10".to_owned();
    let refusal = harness.runs.clone().replay_run(v1::ReplayRunRequest { run_id: nobody }).await.unwrap_err();
    assert_eq!(refusal.code(), tonic::Code::NotFound);
}
