//! What callers may repeat, what they may not, and how work is shared out.

use capataz_contracts::v1::mode_service_client::ModeServiceClient;
use capataz_contracts::v1::{self, connect_response::Frame as Hear};
use capataz_daemon::DeclaredAgent;

use crate::support::{Harness, Worker, code_of, error, json, one_wave, plan};

fn with_key(plan: v1::Plan, key: &str) -> v1::StartRunRequest {
    v1::StartRunRequest { idempotency_key: Some(key.to_owned()), ..v1::StartRunRequest::of_plan(plan) }
}

#[tokio::test]
async fn a_key_that_belongs_to_another_request_is_refused() {
    let harness = Harness::start().await;
    let _worker = harness.worker("w1", &["a"]).await;
    let mut runs = harness.runs.clone();
    runs.start_run(with_key(one_wave(&["a"]), "k")).await.unwrap();
    let mut other = one_wave(&["a"]);
    other.name = "another".to_owned();
    let refusal = runs.start_run(with_key(other, "k")).await.unwrap_err();
    assert_eq!(code_of(&refusal), "IDEMPOTENCY_KEY_REUSED");
    assert_eq!(harness.run_count().await, 1);
}

#[tokio::test]
async fn a_request_id_means_one_request_and_its_repetition_has_the_first_answer() {
    let harness = Harness::start().await;
    let _worker = harness.worker("w1", &["a"]).await;
    let run_id = harness.start_run(one_wave(&["a"])).await;
    let mut runs = harness.runs.clone();
    let pause = v1::PauseRunRequest { run_id: run_id.clone(), request_id: "r".to_owned(), if_seq: None };
    let first = runs.pause_run(pause.clone()).await.unwrap().into_inner().seq;
    let again = runs.pause_run(pause).await.unwrap().into_inner().seq;
    assert_eq!(first, again);
    let resume = v1::ResumeRunRequest { run_id, request_id: "r".to_owned(), if_seq: None };
    assert_eq!(code_of(&runs.resume_run(resume).await.unwrap_err()), "REQUEST_ID_REUSED");
}

#[tokio::test]
async fn a_request_id_means_one_request_also_when_its_run_has_ended() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["a"]).await;
    let run_id = harness.start_run(one_wave(&["a"])).await;
    let assigned = worker.assignment().await;
    let mut runs = harness.runs.clone();
    let request_id = "r".to_owned();
    let pause = v1::PauseRunRequest { run_id: run_id.clone(), request_id: request_id.clone(), if_seq: None };
    let first = runs.pause_run(pause.clone()).await.unwrap().into_inner();
    let resume =
        v1::ResumeRunRequest { run_id: run_id.clone(), request_id: "another".to_owned(), if_seq: None };
    runs.resume_run(resume).await.unwrap();
    worker.complete(&assigned.lease, json(serde_json::json!(1))).await;
    harness.wait(&run_id).await;
    assert_eq!(runs.pause_run(pause).await.unwrap().into_inner(), first);
    let cancel = v1::CancelRunRequest {
        run_id: run_id.clone(),
        request_id: request_id.clone(),
        ..v1::CancelRunRequest::default()
    };
    let roll_back = v1::RollbackTaskRequest {
        run_id: run_id.clone(),
        task: "a".to_owned(),
        request_id: request_id.clone(),
        ..v1::RollbackTaskRequest::default()
    };
    let resolve = v1::ResolveRequest {
        run_id: run_id.clone(),
        question_id: "q1".to_owned(),
        answer: "skip".to_owned(),
        request_id: request_id.clone(),
        ..v1::ResolveRequest::default()
    };
    let checkpoint =
        v1::CreateCheckpointRequest { run_id, reason: "now".to_owned(), request_id, if_seq: None };
    let mut modes = ModeServiceClient::new(harness.channel.clone());
    let refusals = [
        runs.cancel_run(cancel).await.unwrap_err(),
        runs.rollback_task(roll_back).await.unwrap_err(),
        runs.resolve(resolve).await.unwrap_err(),
        modes.create_checkpoint(checkpoint).await.unwrap_err(),
    ];
    for refusal in refusals {
        assert_eq!(code_of(&refusal), "REQUEST_ID_REUSED", "{refusal:?}");
    }
}

#[tokio::test]
async fn a_repeated_request_has_the_first_answer_whatever_has_become_of_the_task_and_the_run() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["a", "b"]).await;
    let run = harness.start_run(one_wave(&["a", "b"])).await;
    let held = worker.assignments(2).await;
    let extend = |request_id: &str| v1::ExtendTaskRequest {
        run_id: run.clone(),
        task: "a".to_owned(),
        request_id: request_id.to_owned(),
        if_seq: None,
        by_ms: None,
    };
    let mut runs = harness.runs.clone();
    let extended = runs.extend_task(extend("e1")).await.unwrap().into_inner();
    let later = runs.extend_task(extend("e2")).await.unwrap().into_inner();
    assert!(0 < extended.deadline_ms && extended.deadline_ms < later.deadline_ms);
    assert_eq!(runs.extend_task(extend("e1")).await.unwrap().into_inner(), extended);

    worker.fail(&held["b"].lease, error("BAD", "no")).await;
    worker.hear_until(|frame| matches!(frame, Hear::ResultAccepted(_)).then_some(())).await;
    let retry = v1::RetryTaskRequest {
        run_id: run.clone(),
        task: "b".to_owned(),
        request_id: "again".to_owned(),
        if_seq: None,
    };
    let retried = runs.retry_task(retry.clone()).await.unwrap().into_inner();
    assert_eq!(retried.activation, 2);
    let of_b = worker.assignment().await;
    let roll_back = v1::RollbackTaskRequest {
        run_id: run.clone(),
        task: "a".to_owned(),
        request_id: "back".to_owned(),
        ..v1::RollbackTaskRequest::default()
    };
    let rolled_back = runs.rollback_task(roll_back.clone()).await.unwrap().into_inner();
    assert_eq!(rolled_back.activation, 2);
    let of_a = worker.assignment().await;
    worker.complete(&of_a.lease, json(serde_json::json!(1))).await;
    worker.complete(&of_b.lease, json(serde_json::json!(2))).await;
    assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Succeeded);

    assert_eq!(runs.extend_task(extend("e1")).await.unwrap().into_inner(), extended);
    assert_eq!(runs.extend_task(extend("e2")).await.unwrap().into_inner(), later);
    assert_eq!(runs.retry_task(retry).await.unwrap().into_inner(), retried);
    assert_eq!(runs.rollback_task(roll_back).await.unwrap().into_inner(), rolled_back);
}

#[tokio::test]
async fn a_question_is_answered_once() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["a"]).await;
    let run_id = harness
        .start_run(plan("name = \"p\"\non_high = \"pause\"\n[[tasks]]\nname = \"a\"\nagent = \"a\""))
        .await;
    let assigned = worker.assignment().await;
    worker.fail(&assigned.lease, crate::support::error("TESTS_FAILED", "3 tests failed")).await;
    worker.hear_until(|frame| matches!(frame, Hear::ResultAccepted(_)).then_some(())).await;
    let question = harness.get(&run_id).await.questions.remove(0);
    let answer = |answer: &str, request_id: &str| v1::ResolveRequest {
        run_id: run_id.clone(),
        question_id: question.question_id.clone(),
        answer: answer.to_owned(),
        request_id: request_id.to_owned(),
        ..Default::default()
    };
    let mut runs = harness.runs.clone();
    let retry = question
        .options
        .iter()
        .find(|option| option.starts_with("fix") || option.starts_with("retry"))
        .unwrap();
    runs.resolve(answer(retry, "1")).await.unwrap();
    assert_eq!(code_of(&runs.resolve(answer("abort", "2")).await.unwrap_err()), "QUESTION_ANSWERED");
    let assigned = worker.assignment().await;
    assert_eq!(assigned.assignment.activation, 2);
    worker.complete(&assigned.lease, json(serde_json::json!(1))).await;
    assert_eq!(harness.wait(&run_id).await.outcome(), v1::RunOutcome::Succeeded);
}

#[tokio::test]
async fn a_large_plan_does_not_starve_a_run_of_a_single_task() {
    let harness = Harness::start().await;
    let hello = v1::Hello {
        worker_id: "w1".to_owned(),
        agents: vec![v1::Agent { name: "a".to_owned(), max_concurrency: 2, ..Default::default() }],
        slots: 5,
        held: Vec::new(),
        protocol: 1,
        browsers: Vec::new(),
    };
    let mut worker = Worker::with_hello(harness.channel.clone(), hello).await.unwrap();
    let tasks =
        (0..1_000).map(|n| v1::Task { name: format!("t{n}"), agent: "a".to_owned(), ..Default::default() });
    let wave = v1::Wave { tasks: tasks.collect(), ..Default::default() };
    let large = v1::Plan { name: "large".to_owned(), waves: vec![wave], ..Default::default() };
    let large = harness.start_run(large).await;
    // The agent's own limit holds although the worker has more slots.
    let held = [worker.assignment().await, worker.assignment().await];
    let small = harness.start_run(one_wave(&["a"])).await;
    for assigned in held {
        worker.complete(&assigned.lease, json(serde_json::json!(1))).await;
    }
    let next = [worker.assignment().await, worker.assignment().await];
    let runs: Vec<&str> = next.iter().map(|assigned| assigned.lease.run_id.as_str()).collect();
    assert!(runs.contains(&small.as_str()), "it is the small run's turn: {runs:?} and not only {large}");
}

#[tokio::test]
async fn a_key_finds_its_run_whatever_has_changed_since() {
    let harness = Harness::start_with(|config| {
        config.declared_agents = vec![DeclaredAgent::new("gone")];
    })
    .await;
    let request = with_key(one_wave(&["gone"]), "k");
    let first = harness.runs.clone().start_run(request.clone()).await.unwrap().into_inner();
    // The next daemon does not know the agent.
    let harness = harness.restart().await;
    let unknown = harness.runs.clone().start_run(with_key(one_wave(&["gone"]), "other")).await.unwrap_err();
    assert_eq!(code_of(&unknown), "AGENT_NOT_FOUND");
    let again = harness.runs.clone().start_run(request.clone()).await.unwrap().into_inner();
    assert_eq!((again.run_id, again.created), (first.run_id.clone(), false));
    // However little time it has.
    for timeout_ms in [0, 1] {
        let execute = v1::ExecuteRunRequest { start: Some(request.clone()), timeout_ms: Some(timeout_ms) };
        let executed = harness.runs.clone().execute_run(execute).await.unwrap().into_inner();
        assert_eq!((executed.run_id, executed.created), (first.run_id.clone(), false));
    }
    // Another request under the key, and an unknown agent, are what they are.
    let mut other = one_wave(&["gone"]);
    other.name = "another".to_owned();
    let refusal = harness.runs.clone().start_run(with_key(other, "k")).await.unwrap_err();
    assert_eq!(code_of(&refusal), "AGENT_NOT_FOUND");
    // Nor does it matter that nothing new is begun any more: the daemon drains, until the worker has done.
    let mut worker = harness.worker("w", &["coder"]).await;
    harness.start_run(one_wave(&["coder"])).await;
    let assigned = worker.acknowledged().await;
    let mut runs = harness.runs.clone();
    let stopping = tokio::spawn(harness.stop());
    let refusal = loop {
        match runs.start_run(v1::StartRunRequest::of_plan(one_wave(&["coder"]))).await {
            Ok(_) => tokio::task::yield_now().await,
            Err(refusal) => break refusal,
        }
    };
    assert_eq!(code_of(&refusal), "DRAINING");
    let again = runs.start_run(request).await.unwrap().into_inner();
    assert_eq!((again.run_id, again.created), (first.run_id, false));
    worker.complete(&assigned.lease, json(serde_json::json!(1))).await;
    stopping.await.unwrap();
}

#[tokio::test]
async fn an_answer_that_was_meant_for_another_run_of_the_same_plan_answers_nothing() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["a"]).await;
    let mut plan = one_wave(&["a"]);
    plan.on_high = Some(v1::OnHigh::Pause as i32);
    let mut asked = Vec::new();
    for _ in 0..2 {
        let run = harness.start_run(plan.clone()).await;
        let lease = worker.assignment().await.lease;
        let failed = v1::Failed {
            lease: Some(lease),
            error: Some(error("TESTS_FAILED", "3 tests failed")),
            ..Default::default()
        };
        worker.say(v1::connect_request::Frame::Failed(failed)).await;
        let question = loop {
            if let Some(question) = harness.get(&run).await.questions.pop() {
                break question.question_id;
            }
        };
        asked.push((run, question));
    }
    let [(one, of_one), (other, of_other)] = asked.try_into().unwrap();
    assert_ne!(of_one, of_other);
    for (run, question) in [(&one, &of_other), (&other, &of_one)] {
        let resolve = v1::ResolveRequest {
            run_id: run.clone(),
            question_id: question.clone(),
            answer: "skip".to_owned(),
            request_id: "r".to_owned(),
            ..Default::default()
        };
        let refusal = harness.runs.clone().resolve(resolve).await.unwrap_err();
        assert_eq!(code_of(&refusal), "QUESTION_NOT_FOUND");
        assert_eq!(harness.get(run).await.status(), v1::RunStatus::Waiting);
    }
}
