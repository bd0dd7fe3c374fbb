//! Workers that come, go, lie and return: what the daemon believes, and what it records.

use capataz_contracts::v1::{
    self, connect_request::Frame as Say, connect_response::Frame as Hear, event::Body,
};

use crate::support::time::{SECOND, Time};
use crate::support::{Harness, Worker, code_of, error, json, one_wave, plan};

async fn refusal(worker: &mut Worker) -> v1::RefusalReason {
    worker
        .hear_until(|frame| match frame {
            Hear::ResultRefused(refused) => Some(refused.reason()),
            _ => None,
        })
        .await
}

#[tokio::test]
async fn a_worker_that_reconnects_keeps_its_task_and_its_attempt() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["a"]).await;
    let run = harness.start_run(one_wave(&["a"])).await;
    let assigned = worker.assignment().await;
    drop(worker);
    let worker = Worker::connect(harness.channel.clone(), "w1", &["a"], vec![assigned.lease.clone()]).await;
    assert_eq!(worker.welcome.reattached, std::slice::from_ref(&assigned.lease));
    worker.complete(&assigned.lease, json(serde_json::json!("kept"))).await;
    let result = harness.wait(&run).await;
    assert_eq!(result.outcome(), v1::RunOutcome::Succeeded);
    assert_eq!(harness.get(&run).await.waves[0].tasks[0].attempt, 1);
}

#[tokio::test]
async fn a_worker_keeps_its_task_over_a_restart_of_the_daemon() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["a"]).await;
    let run = harness.start_run(one_wave(&["a"])).await;
    let assigned = worker.acknowledged().await;
    // A drain would wait for the task: the worker leaves first.
    drop(worker);
    let harness = harness.restart().await;
    let worker = Worker::connect(harness.channel.clone(), "w1", &["a"], vec![assigned.lease.clone()]).await;
    assert_eq!(worker.welcome.reattached, std::slice::from_ref(&assigned.lease));
    worker.complete(&assigned.lease, json(serde_json::json!("kept"))).await;
    assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Succeeded);
}

#[tokio::test]
async fn a_worker_that_restarted_and_forgot_its_task_gets_it_anew_as_the_same_attempt() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["a"]).await;
    let run = harness.start_run(one_wave(&["a"])).await;
    let old = worker.assignment().await;
    drop(worker);
    let mut worker = harness.worker("w1", &["a"]).await;
    let new = worker.assignment().await;
    assert_eq!((old.assignment.attempt, new.assignment.attempt), (1, 1));
    assert!(new.lease.lease > old.lease.lease);
    // The old lease's result comes too late, is refused, and that is recorded once.
    for _ in 0..2 {
        worker.complete(&old.lease, json(serde_json::json!("old"))).await;
        assert_eq!(refusal(&mut worker).await, v1::RefusalReason::StaleLease);
    }
    worker.complete(&new.lease, json(serde_json::json!("new"))).await;
    let result = harness.wait(&run).await;
    assert_eq!(result.tasks[0].output, Some(json(serde_json::json!("new"))));
    let refused = harness
        .export(&run)
        .await
        .into_iter()
        .filter(|event| matches!(event.body, Some(Body::ResultRefused(_))))
        .count();
    assert_eq!(refused, 1);
}

#[tokio::test]
async fn a_result_twice_counts_once_and_is_confirmed_twice() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["a", "b"]).await;
    let run = harness.start_run(one_wave(&["a", "b"])).await;
    let assigned = worker.assignments(2).await;
    for answer in ["first", "second"] {
        worker.complete(&assigned["a"].lease, json(serde_json::json!(answer))).await;
        worker.hear_until(|frame| matches!(frame, Hear::ResultAccepted(_)).then_some(())).await;
    }
    worker.complete(&assigned["b"].lease, json(serde_json::json!(1))).await;
    let result = harness.wait(&run).await;
    assert_eq!(result.tasks[0].output, Some(json(serde_json::json!("first"))));
}

#[tokio::test]
async fn what_a_worker_says_that_its_work_used_is_shown_with_the_task() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["a", "b"]).await;
    let run = harness.start_run(one_wave(&["a", "b"])).await;
    let assigned = worker.assignments(2).await;
    let priced = |currency: &str| v1::Usage {
        input_tokens: Some(1_200),
        cost: Some(v1::Cost { nanos: 1_920_000, currency: currency.to_owned() }),
        ..Default::default()
    };
    for (task, currency) in [("a", "EUR"), ("b", "euros")] {
        let completed = v1::Completed {
            lease: Some(assigned[task].lease.clone()),
            output: Some(json(serde_json::json!(1))),
            usage: Some(priced(currency)),
            ..Default::default()
        };
        worker.say(Say::Completed(completed)).await;
    }
    let result = harness.wait(&run).await;
    let of_result: Vec<_> = result.tasks.into_iter().map(|task| task.usage).collect();
    // A price without a currency is dropped, and the work that it is for is done all the same.
    let unpriced = v1::Usage { cost: None, ..priced("") };
    assert_eq!(of_result, [Some(priced("EUR")), Some(unpriced)]);
    let shown = harness.get(&run).await.waves.remove(0).tasks;
    assert_eq!(shown.into_iter().map(|task| task.usage).collect::<Vec<_>>(), of_result);
}

#[tokio::test]
async fn results_of_unknown_runs_tasks_and_other_workers_are_refused() {
    let harness = Harness::start().await;
    let mut holder = harness.worker("holder", &["a"]).await;
    let run = harness.start_run(one_wave(&["a"])).await;
    let assigned = holder.assignment().await;
    let mut liar = harness.worker("liar", &["b"]).await;
    let lies = [
        (
            v1::LeaseRef { run_id: "no run".to_owned(), ..assigned.lease.clone() },
            v1::RefusalReason::UnknownTask,
        ),
        (v1::LeaseRef { task: 7, ..assigned.lease.clone() }, v1::RefusalReason::UnknownTask),
        (v1::LeaseRef { lease: 99, ..assigned.lease.clone() }, v1::RefusalReason::StaleLease),
        (assigned.lease.clone(), v1::RefusalReason::NotYours),
    ];
    for (lease, expected) in lies {
        liar.complete(&lease, json(serde_json::json!("a lie"))).await;
        assert_eq!(refusal(&mut liar).await, expected, "{lease:?}");
    }
    holder.complete(&assigned.lease, json(serde_json::json!("the truth"))).await;
    let result = harness.wait(&run).await;
    assert_eq!(result.tasks[0].output, Some(json(serde_json::json!("the truth"))));
}

#[tokio::test]
async fn a_result_after_the_cancel_does_not_make_the_task_a_success() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["a"]).await;
    let run = harness.start_run(one_wave(&["a"])).await;
    let assigned = worker.assignment().await;
    let request = v1::CancelRunRequest {
        run_id: run.clone(),
        request_id: "c1".to_owned(),
        reason: "enough".to_owned(),
        ..Default::default()
    };
    harness.runs.clone().cancel_run(request).await.unwrap();
    worker.hear_until(|frame| matches!(frame, Hear::Cancel(_)).then_some(())).await;
    worker.complete(&assigned.lease, json(serde_json::json!("too late"))).await;
    let result = harness.wait(&run).await;
    assert_eq!(result.outcome(), v1::RunOutcome::Cancelled);
    assert_eq!(result.tasks[0].status(), v1::ResultStatus::Cancelled);
}

#[tokio::test]
async fn an_output_that_is_too_large_or_no_json_fails_its_task() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["a"]).await;
    for (output, code) in [
        (json(serde_json::json!("x".repeat(40_000))), "OUTPUT_TOO_LARGE"),
        (
            v1::Payload {
                media_type: "application/json".to_owned(),
                data: Some(v1::payload::Data::Inline("{not json".into())),
            },
            "INVALID_OUTPUT",
        ),
    ] {
        let run = harness.start_run(one_wave(&["a"])).await;
        let assigned = worker.assignment().await;
        worker.complete(&assigned.lease, output).await;
        let result = harness.wait(&run).await;
        let error = result.tasks[0].error.clone().unwrap();
        assert_eq!(error.cause.map(|cause| cause.code), Some(code.to_owned()));
    }
}

#[tokio::test]
async fn a_task_that_is_given_back_unbegun_goes_to_another_worker() {
    let harness = Harness::start().await;
    let mut first = harness.worker("w1", &["a"]).await;
    let run = harness.start_run(one_wave(&["a"])).await;
    let assigned = first.assignment().await;
    first.say(Say::Drain(v1::DrainRequested {})).await;
    first.say(Say::Returned(v1::Returned { lease: Some(assigned.lease.clone()) })).await;
    let mut second = harness.worker("w2", &["a"]).await;
    let again = second.assignment().await;
    assert_eq!(again.assignment.attempt, 1);
    second.complete(&again.lease, json(serde_json::json!(2))).await;
    assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Succeeded);
}

#[tokio::test]
async fn a_task_that_may_run_once_only_asks_what_became_of_it() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["pay"]).await;
    let run = harness
        .start_run(plan(
            r#"
            name = "once"
            [[tasks]]
            name = "pay"
            agent = "pay"
            effect = "at_most_once"
            "#,
        ))
        .await;
    worker.assignment().await;
    drop(worker);
    // The worker is back and knows nothing.
    let worker = harness.worker("w1", &["pay"]).await;
    let question = loop {
        let view = harness.get(&run).await;
        if let Some(question) = view.questions.first() {
            assert_eq!(view.status(), v1::RunStatus::Waiting);
            break question.clone();
        }
        tokio::task::yield_now().await;
    };
    let mut answer = v1::ResolveRequest {
        run_id: run.clone(),
        question_id: question.question_id.clone(),
        answer: "maybe".to_owned(),
        request_id: "a1".to_owned(),
        ..Default::default()
    };
    assert!(harness.runs.clone().resolve(answer.clone()).await.is_err(), "not an option");
    answer.answer = "succeeded".to_owned();
    harness.runs.clone().resolve(answer.clone()).await.unwrap();
    let result = harness.wait(&run).await;
    assert_eq!(result.outcome(), v1::RunOutcome::Succeeded);
    answer.request_id = "a2".to_owned();
    answer.answer = "failed".to_owned();
    assert!(harness.runs.clone().resolve(answer).await.is_err(), "a second answer is refused");
    drop(worker);
}

#[tokio::test]
async fn a_result_that_comes_too_late_is_proposed_to_the_person_who_is_asked() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["pay"]).await;
    let text = "name = \"once\"\n[[tasks]]\nname = \"pay\"\nagent = \"pay\"\neffect = \"at_most_once\"";
    let run = harness.start_run(plan(text)).await;
    let lost = worker.assignment().await;
    drop(worker);
    // It is back without its lease, and finds the result after that.
    let mut worker = harness.worker("w1", &["pay"]).await;
    worker.complete(&lost.lease, json(serde_json::json!({"paid": 7}))).await;
    let refused = |frame: &Hear| match frame {
        Hear::ResultRefused(refused) => Some(refused.reason()),
        _ => None,
    };
    assert_eq!(worker.hear_until(refused).await, v1::RefusalReason::StaleLease);
    let question = harness.get(&run).await.questions.remove(0);
    assert_eq!((question.revision, question.purpose()), (2, v1::QuestionPurpose::Outcome));
    let answer = |answer: &str, revision, value| v1::ResolveRequest {
        run_id: run.clone(),
        question_id: question.question_id.clone(),
        answer: answer.to_owned(),
        request_id: format!("{answer}-{revision}"),
        revision: Some(revision),
        value,
        ..Default::default()
    };
    let mut runs = harness.runs.clone();
    assert_eq!(code_of(&runs.resolve(answer("failed", 1, None)).await.unwrap_err()), "QUESTION_REVISED");
    let of_no_use = Some(json(serde_json::json!(1)));
    assert_eq!(code_of(&runs.resolve(answer("failed", 1, of_no_use)).await.unwrap_err()), "VALIDATION_ERROR");
    let broken = v1::Payload {
        media_type: "application/json".to_owned(),
        data: Some(v1::payload::Data::Inline("{".into())),
    };
    assert_eq!(
        code_of(&runs.resolve(answer("succeeded", 2, Some(broken))).await.unwrap_err()),
        "VALIDATION_ERROR"
    );
    runs.resolve(answer("succeeded", 2, None)).await.unwrap();
    let result = harness.wait(&run).await;
    assert_eq!(result.tasks[0].output, Some(json(serde_json::json!({"paid": 7}))));
}

#[tokio::test]
async fn two_workers_with_one_id_are_one_worker_the_last() {
    let harness = Harness::start().await;
    let mut first = harness.worker("w1", &["a"]).await;
    let _second = harness.worker("w1", &["a"]).await;
    assert_eq!(first.hear().await, None);
}

#[tokio::test]
async fn an_idempotency_key_names_one_run_whoever_asks_and_how_often() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["a"]).await;
    let request = v1::StartRunRequest {
        idempotency_key: Some("order-1".to_owned()),
        ..v1::StartRunRequest::of_plan(one_wave(&["a"]))
    };
    let many = (0..20).map(|_| {
        let mut runs = harness.runs.clone();
        let request = request.clone();
        tokio::spawn(async move { runs.start_run(request).await.unwrap().into_inner() })
    });
    let mut ids = std::collections::BTreeSet::new();
    let mut created = 0;
    for started in many.collect::<Vec<_>>() {
        let started = started.await.unwrap();
        ids.insert(started.run_id);
        created += u32::from(started.created);
    }
    assert_eq!((ids.len(), created), (1, 1));
    let assigned = worker.assignment().await;
    worker.complete(&assigned.lease, json(serde_json::json!(1))).await;
    let execute = v1::ExecuteRunRequest { start: Some(request.clone()), timeout_ms: None };
    let executed = harness.runs.clone().execute_run(execute).await.unwrap().into_inner();
    assert!(!executed.created && executed.result.is_some());
    let other = v1::StartRunRequest {
        idempotency_key: request.idempotency_key,
        ..v1::StartRunRequest::of_plan(one_wave(&["a", "a2"]))
    };
    let refusal = harness.runs.clone().start_run(other).await;
    let refusal = refusal.unwrap_err();
    assert!(
        ["IDEMPOTENCY_KEY_REUSED", "AGENT_NOT_FOUND"].contains(&crate::support::code_of(&refusal).as_str())
    );
    assert_eq!(harness.run_count().await, 1);
}

#[tokio::test]
async fn a_repeated_extension_adds_its_time_once() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["a"]).await;
    let run = harness.start_run(one_wave(&["a"])).await;
    let assigned = worker.assignment().await;
    let extend = |request_id: &str| v1::ExtendTaskRequest {
        run_id: run.clone(),
        task: "a".to_owned(),
        request_id: request_id.to_owned(),
        if_seq: None,
        by_ms: None,
    };
    let mut deadlines = Vec::new();
    for id in ["e1", "e1", "e2"] {
        deadlines.push(harness.runs.clone().extend_task(extend(id)).await.unwrap().into_inner().deadline_ms);
    }
    let quarter = 15 * 60 * 1000;
    assert_eq!(deadlines[0], assigned.assignment.deadline_ms + quarter);
    assert_eq!(deadlines[1], deadlines[0]);
    assert_eq!(deadlines[2], deadlines[0] + quarter);
    worker.fail(&assigned.lease, error("LOGIC_ERROR", "enough")).await;
    harness.wait(&run).await;
}

// S000-C4-24
#[tokio::test]
async fn a_rate_limit_holds_the_agents_other_tasks_whatever_run_they_are_of() {
    let time = Time::default();
    let harness = Harness::start_with(|config| time.of(config)).await;
    let mut worker = harness.worker("w1", &["model", "linter"]).await;
    let mut plan = one_wave(&["model"]);
    plan.retry = Some(v1::RetryPolicy { max_attempts: Some(1), ..v1::RetryPolicy::default() });
    let failed = harness.start_run(plan).await;
    let first = worker.assignment().await;
    let limit = v1::Error { retry_after_ms: Some(30 * SECOND), ..error("RATE_LIMIT", "429 of the model") };
    worker.fail(&first.lease, limit).await;
    assert_eq!(harness.wait(&failed).await.outcome(), v1::RunOutcome::Failed);

    let waits = harness.start_run(one_wave(&["model"])).await;
    let other = harness.start_run(one_wave(&["linter"])).await;
    let given = worker.assignment().await;
    assert_eq!(given.assignment.agent, "linter", "another agent of the same worker is not held");
    worker.complete(&given.lease, json(serde_json::json!("clean"))).await;
    harness.wait(&other).await;
    let model = |agents: &v1::ListAgentsResponse| {
        let of_model = |status: &&v1::AgentStatus| status.agent.as_ref().unwrap().name == "model";
        let status = agents.agents.iter().find(of_model).unwrap();
        (status.queued, status.running, status.held_for_ms)
    };
    let list = || async {
        let request = v1::ListAgentsRequest::default();
        harness.agents.clone().list_agents(request).await.unwrap().into_inner()
    };
    assert_eq!(model(&list().await), (1, 0, Some(30 * SECOND)));

    time.passes(30 * SECOND);
    // Whatever the daemon is told next, it looks at the clock.
    harness.start_run(one_wave(&["linter"])).await;
    let given = worker.assignments(2).await;
    let model_again = given.values().find(|given| given.assignment.agent == "model").unwrap();
    assert_eq!(model_again.assignment.lease.as_ref().unwrap().run_id, waits);
    assert_eq!(model(&list().await).2, None);
}

#[tokio::test]
async fn a_rate_limit_that_a_planner_or_a_phase_meets_holds_its_agent() {
    let of_mode = v1::StartRunRequest::of_mode(v1::ModeRun {
        query: "tidy up".to_owned(),
        planner: "brain".to_owned(),
        tools: vec![v1::ModeTool { name: "router.ask".to_owned(), ..v1::ModeTool::default() }],
        ..v1::ModeRun::default()
    });
    let of_pipeline = v1::StartRunRequest::of_pipeline(v1::Pipeline {
        name: "p".to_owned(),
        phases: vec![v1::Phase {
            name: "only".to_owned(),
            agent: "brain".to_owned(),
            output: Some(v1::OutputRule { schema: Some("{}".to_owned()), ..v1::OutputRule::default() }),
            ..v1::Phase::default()
        }],
        ..v1::Pipeline::default()
    });
    for request in [of_mode, of_pipeline] {
        let harness = Harness::start().await;
        let brain = v1::Agent {
            name: "brain".to_owned(),
            category: "utility".to_owned(),
            kind: v1::AgentKind::Planner.into(),
            contract_version: "1.0.0".to_owned(),
            max_concurrency: 4,
            ..v1::Agent::default()
        };
        let hello = v1::Hello {
            worker_id: "w1".to_owned(),
            agents: vec![brain],
            slots: 4,
            protocol: 1,
            ..v1::Hello::default()
        };
        let mut worker = Worker::with_hello(harness.channel.clone(), hello).await.unwrap();
        harness.runs.clone().start_run(request).await.unwrap();
        let given = worker.assignment().await;
        let limit =
            v1::Error { retry_after_ms: Some(30 * SECOND), ..error("RATE_LIMIT", "429 of the model") };
        worker.fail(&given.lease, limit).await;
        let status = loop {
            let request = v1::ListAgentsRequest::default();
            let agents = harness.agents.clone().list_agents(request).await.unwrap().into_inner().agents;
            let of_brain = |status: &v1::AgentStatus| status.agent.as_ref().unwrap().name == "brain";
            let status = agents.into_iter().find(of_brain).unwrap();
            if status.running == 0 {
                break status;
            }
        };
        assert!(status.held_for_ms.is_some_and(|left| left > 20 * SECOND), "{status:?}");
    }
}

#[tokio::test]
async fn a_rate_limit_that_its_teller_has_no_lease_for_holds_nothing() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["model"]).await;
    let run = harness.start_run(one_wave(&["model"])).await;
    let first = worker.assignment().await;
    let unknown = v1::LeaseRef { lease: first.lease.lease + 1, ..first.lease.clone() };
    let limit = v1::Error { retry_after_ms: Some(i64::MAX), ..error("RATE_LIMIT", "never again") };
    worker.fail(&unknown, limit.clone()).await;
    assert_eq!(refusal(&mut worker).await, v1::RefusalReason::OtherHistory);
    worker.complete(&first.lease, json(serde_json::json!(1))).await;
    harness.wait(&run).await;
    worker.fail(&first.lease, limit).await;
    harness.start_run(one_wave(&["model"])).await;
    worker.assignment().await;
}

#[tokio::test]
async fn a_rate_limit_of_a_lease_that_another_worker_has_holds_nothing() {
    let time = Time::default();
    let harness = Harness::start_with(|config| time.of(config)).await;
    let mut holder = harness.worker("w1", &["model"]).await;
    harness.start_run(one_wave(&["model"])).await;
    let held = holder.assignment().await;
    let mut stranger = harness.worker("w2", &["model"]).await;
    let limit = v1::Error { retry_after_ms: Some(30 * SECOND), ..error("RATE_LIMIT", "never again") };
    stranger.fail(&held.lease, limit).await;
    assert_eq!(refusal(&mut stranger).await, v1::RefusalReason::NotYours);
    // What was refused was judged; nobody looks at the clock from now on.
    harness.start_run(one_wave(&["model"])).await;
    stranger.assignment().await;
}
