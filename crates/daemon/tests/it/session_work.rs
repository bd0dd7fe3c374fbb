//! Plans that are work of a session: their turns, and the state that follows them (seed 000, contract 7).

use capataz_contracts::v1::session_service_client::SessionServiceClient;
use capataz_contracts::v1::{self, event::Body};
use serde_json::{Value, json};
use tonic::{Code, Status};

use crate::support::{Harness, code_of, error, json as payload, one_wave, paths_of, plan};

fn in_session(agents: &[&str]) -> v1::Plan {
    v1::Plan { session: Some("shop".to_owned()), ..one_wave(agents) }
}

impl Harness {
    async fn work(&self) -> Value {
        let request = v1::GetSessionRequest { session: "shop".to_owned() };
        let mut sessions = SessionServiceClient::new(self.channel.clone());
        let session = sessions.get_session(request).await.unwrap().into_inner().session.unwrap();
        session.state.map_or(Value::Null, |state| serde_json::from_str(&state).unwrap())
    }

    async fn import(&self, session: &str, state: &str) -> Result<v1::ImportSessionResponse, Status> {
        let request = v1::ImportSessionRequest {
            session: session.to_owned(),
            state: state.to_owned(),
            repairs: Vec::new(),
        };
        let mut sessions = SessionServiceClient::new(self.channel.clone());
        sessions.import_session(request).await.map(tonic::Response::into_inner)
    }
}

// S000-CL-13, S000-IN-07
#[tokio::test]
async fn plans_of_a_session_are_at_work_one_after_the_other_and_the_session_follows_them() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["a", "b"]).await;
    let first = harness.start_run(in_session(&["a"])).await;
    let second = harness.start_run(in_session(&["b"])).await;
    let assigned = worker.assignment().await;
    assert_eq!(assigned.assignment.agent, "a", "the second plan has no turn yet");
    let work = harness.work().await;
    assert_eq!(work["current_flow"]["phase"], "executing_wave_1");
    assert_eq!((&work["current_flow"]["run_id"], &work["pending_tasks"]), (&json!(first), &json!(["a"])));
    let kinds: Vec<Body> = harness.export(&second).await.into_iter().filter_map(|event| event.body).collect();
    assert!(matches!(kinds.as_slice(), [Body::RunAccepted(_)]), "{kinds:?}");

    worker.fail(&assigned.lease, error("TESTS_FAILED", "two tests have failed")).await;
    harness.wait(&first).await;
    let assigned = worker.assignment().await;
    assert_eq!(assigned.assignment.agent, "b");
    worker.complete(&assigned.lease, payload(json!(1))).await;
    harness.wait(&second).await;
    let work = harness.work().await;
    let history = work["history"].as_array().unwrap();
    let told: Vec<(&str, &str)> = history
        .iter()
        .map(|entry| (entry["run_id"].as_str().unwrap(), entry["result"].as_str().unwrap()))
        .collect();
    assert_eq!(told, [(&*first, "failed"), (&*second, "succeeded")]);
    assert_eq!((&work["current_flow"], &work["errors"]["count"]), (&Value::Null, &json!(1)));
    assert_eq!(harness.get(&second).await.session.as_deref(), Some("shop"));
}

// S000-CL-11
#[tokio::test]
async fn a_session_has_its_state_after_a_restart_and_its_plan_goes_on_in_it() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["a", "b"]).await;
    let run = harness.start_run(in_session(&["a", "b"])).await;
    worker.unacknowledged().await;
    let before = harness.work().await;
    assert_eq!(before["current_flow"]["phase"], json!("executing_wave_1"));
    drop(worker);
    let harness = harness.restart().await;
    assert_eq!(harness.work().await, before);
    let mut worker = harness.worker("w2", &["a", "b"]).await;
    for (_, assigned) in worker.assignments(2).await {
        worker.complete(&assigned.lease, payload(json!(1))).await;
    }
    harness.wait(&run).await;
    assert_eq!(harness.work().await["history"].as_array().map(Vec::len), Some(1));
}

// S000-C7-08
#[tokio::test]
async fn a_state_is_imported_whole_or_not_at_all() {
    let harness = Harness::start().await;
    let state = json!({
        "version": "1.0.0",
        "updated_at": "2024-01-20T15:30:00Z",
        "context": { "project_type": "brownfield" },
        "of_ours": true,
    });
    let imported = harness.import("shop", &state.to_string()).await.unwrap();
    assert_eq!((imported.seq, imported.changed), (2, true));
    let again = harness.import("shop", &state.to_string()).await.unwrap();
    assert_eq!((again.seq, again.changed), (2, false));
    assert_eq!(harness.work().await, state);

    let broken = json!({ "version": 1, "current_flow": { "command": "execute", "phase": "sleeping" } });
    let refused = harness.import("shop", &broken.to_string()).await.unwrap_err();
    assert_eq!((refused.code(), &*code_of(&refused)), (Code::InvalidArgument, "SESSION_VALIDATION_FAILED"));
    let expected =
        ["state.updated_at", "state.version", "state.current_flow.started_at", "state.current_flow.phase"];
    assert_eq!(paths_of(&refused), expected);
    for (session, text, code) in [
        ("shop", "{", "JSON_PARSE_ERROR"),
        ("shop", "[]", "INVALID_STATE_TYPE"),
        ("no name", "{}", "VALIDATION_ERROR"),
        ("shop", &format!("\"{}\"", "x".repeat(65 * 1024)), "VALIDATION_ERROR"),
    ] {
        let refused = harness.import(session, text).await.unwrap_err();
        assert_eq!(code_of(&refused), code, "{session} {}", &text[..text.len().min(20)]);
    }
    assert_eq!(harness.work().await, state, "nothing was written");
}

#[tokio::test]
async fn no_state_is_imported_over_a_plan_that_is_at_work() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["a"]).await;
    let run = harness.start_run(in_session(&["a"])).await;
    let assigned = worker.assignment().await;
    let state = json!({ "version": "1.0.0", "updated_at": "2024-01-20T15:30:00Z" });
    let refused = harness.import("shop", &state.to_string()).await.unwrap_err();
    assert_eq!((refused.code(), &*code_of(&refused)), (Code::FailedPrecondition, "SESSION_BUSY"));
    worker.complete(&assigned.lease, payload(json!(1))).await;
    harness.wait(&run).await;
    assert!(harness.import("shop", &state.to_string()).await.unwrap().changed);
}

#[tokio::test]
async fn a_plan_whose_session_has_no_name_that_can_be_is_refused_with_the_path() {
    let harness = Harness::start().await;
    let refused = harness
        .try_start(plan(
            "name = \"p\"\nsession = \"a b\"\n[[waves]]\n[[waves.tasks]]\nname = \"t\"\nagent = \"a\"",
        ))
        .await;
    assert_eq!(paths_of(&refused.unwrap_err()), ["plan.session", "plan.waves[0].tasks[0].agent"]);
}
