//! The seed's failure scenarios that concern plans, end to end.

use capataz_contracts::v1::session_service_client::SessionServiceClient;
use capataz_contracts::v1::{self, event::Body};

use capataz_display::compact::Form;
use capataz_display::error::Context;
use capataz_display::explain::{self, Contract};
use capataz_display::paint::Paint;
use capataz_display::{at_once, model};
use capataz_policy::session;
use serde_json::{Value, json as value};
use tonic_types::StatusExt;

use crate::support::boxes::{LANGUAGES, RUN, boxes, check, drawn, refused};
use crate::support::time::{MINUTE, SECOND, Time};
use crate::support::{Harness, PATIENCE, Worker, code_of, error, json, one_wave, paths_of, plan};

// S000-IN-04
#[tokio::test]
async fn a_plan_of_parallel_tasks_runs_to_its_end() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["a", "b"]).await;
    let run = harness.start_run(one_wave(&["a", "b"])).await;
    for (name, assigned) in worker.assignments(2).await {
        worker.complete(&assigned.lease, json(serde_json::json!({"from": name}))).await;
    }
    let result = harness.wait(&run).await;
    assert_eq!(result.outcome(), v1::RunOutcome::Succeeded);
    let seqs: Vec<u64> = harness.export(&run).await.iter().map(|event| event.seq).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
}

/// Suggestions by hand: one letter lies between the wrong name and the first, six between it and the second.
// S000-C1-04, S000-CL-14, S000-IN-02, S000-SC-03
#[tokio::test]
async fn scenario_2_an_unknown_agent_is_named_with_similar_ones_and_nothing_starts() {
    let harness = Harness::start_with(|config| {
        let names = ["elsabro-executor", "elsabro-verifier", "elsabro-analyst"];
        config.declared_agents =
            names.map(|name| capataz_daemon::DeclaredAgent::new(name).in_category("implementation")).to_vec();
    })
    .await;
    let refusal = harness.try_start(one_wave(&["elsabro-executer"])).await.unwrap_err();
    assert_eq!(code_of(&refusal), "AGENT_NOT_FOUND");
    let info = refusal.get_error_details().error_info().unwrap().clone();
    assert_eq!(
        (&*info.metadata["suggestions"], &*info.metadata["severity"]),
        ("elsabro-executor", "CRITICAL")
    );
    for language in LANGUAGES {
        check("scenario-2-similar", language, &[refused(&refusal, language, None)]);
    }
    let refusal = harness.try_start(one_wave(&["elsabro-nonexistent"])).await.unwrap_err();
    assert_eq!(code_of(&refusal), "AGENT_NOT_FOUND");
    let info = refusal.get_error_details().error_info().unwrap().clone();
    assert_eq!(info.metadata.get("suggestions"), None);
    for language in LANGUAGES {
        check("scenario-2-nothing-similar", language, &[refused(&refusal, language, None)]);
    }
    let refusal = harness.try_start(one_wave(&["no-such-one", "nor-this"])).await.unwrap_err();
    assert_eq!(code_of(&refusal), "AGENTS_VALIDATION_FAILED");
    for language in LANGUAGES {
        check("scenario-2-several", language, &[refused(&refusal, language, None)]);
    }
    assert_eq!(harness.run_count().await, 0);
}

/// Waits until the run is like this; each look is a turn of the shard, which knows the time by then.
async fn until(harness: &Harness, run: &str, is_so: impl Fn(&v1::Run) -> bool) -> v1::Run {
    let seen = async {
        loop {
            let seen = harness.get(run).await;
            if is_so(&seen) {
                return seen;
            }
        }
    };
    tokio::time::timeout(PATIENCE, seen).await.expect("it comes in time")
}

/// The worker shows what it has, and the daemon has heard it at this moment.
async fn speaks(harness: &Harness, worker: &Worker, run: &str, lease: &v1::LeaseRef, time: &Time) {
    let partial = v1::Progress {
        lease: Some(lease.clone()),
        partial_output: Some(json(serde_json::json!("half"))),
        ..v1::Progress::default()
    };
    worker.say(v1::connect_request::Frame::Progress(partial)).await;
    let heard = |run: &v1::Run| {
        let task = run.waves.get(lease.wave as usize)?.tasks.get(lease.task as usize)?;
        task.health_checks.as_ref()?.last_at_ms
    };
    until(harness, run, |run| heard(run) == Some(time.now_ms())).await;
}

fn warnings(run: &v1::Run) -> Vec<&v1::Error> {
    let notices = run.notices.iter().filter_map(|notice| notice.notice.as_ref());
    notices.filter(|notice| notice.code == "TIMEOUT_IMMINENT").collect()
}

fn open(run: &v1::Run) -> Vec<&v1::Question> {
    run.questions.iter().filter(|question| question.answer.is_none()).collect()
}

/// Stands for the id of a question, with as many columns.
const QUESTION: &str = "q8-12345";

/// The seed's numbers: half an hour, a warning in its last minute, a quarter of an hour more, ten seconds of grace.
// S000-C5-12, S000-CL-16, S000-SC-04
#[tokio::test]
async fn scenario_3_half_an_hour_passes_and_more_is_given_until_the_work_is_ended_by_force() {
    let time = Time::default();
    let harness = Harness::start_with(|config| time.of(config)).await;
    let mut worker = harness.worker("w1", &["code-reviewer", "explore-codebase"]).await;
    let run = harness.start_run(one_wave(&["code-reviewer", "explore-codebase"])).await;
    let assigned = worker.assignments(2).await;
    worker.complete(&assigned["code-reviewer"].lease, json(serde_json::json!(1))).await;
    let slow = assigned["explore-codebase"].lease.clone();
    until(&harness, &run, |run| run.tasks_settled == 1).await;

    time.passes(29 * MINUTE);
    let seen = until(&harness, &run, |run| {
        run.waves[0].tasks[1].health_checks.as_ref().is_some_and(|checks| checks.time_used > 0.9)
    })
    .await;
    assert_eq!(warnings(&seen), Vec::<&v1::Error>::new(), "a whole minute is left");
    speaks(&harness, &worker, &run, &slow, &time).await;
    time.passes(1);
    let seen = until(&harness, &run, |run| !warnings(run).is_empty()).await;
    let [warning] = warnings(&seen).try_into().unwrap();
    assert_eq!(warning.severity(), v1::Severity::Medium);
    assert_eq!(warning.message, "task \"explore-codebase\" has less than 1m left before its timeout");

    time.passes(MINUTE - 1);
    let seen = until(&harness, &run, |run| !open(run).is_empty()).await;
    let [question] = open(&seen).try_into().unwrap();
    assert_eq!(question.options, ["extend", "terminate", "retry", "abort"]);
    assert_eq!(question.question_id.len(), QUESTION.len());
    let detail = question.error.as_ref().unwrap().timeout.clone().unwrap();
    assert_eq!((detail.configured_timeout_ms, detail.elapsed_ms), (30 * MINUTE, 30 * MINUTE));
    let cancelled = |frame: &v1::connect_response::Frame| match frame {
        v1::connect_response::Frame::Cancel(cancel) => Some(cancel.reason()),
        _ => None,
    };
    assert_eq!(worker.hear_until(cancelled).await, v1::CancelReason::Timeout);
    // The end of a question's id is drawn.
    let asked = question.question_id.clone();
    for language in LANGUAGES {
        let report = harness.report(&run, language.tag()).await.replace(&asked, QUESTION);
        check("scenario-3-deadline", language, &boxes(&report, &run));
    }

    let request = v1::ExtendTaskRequest {
        run_id: run.clone(),
        task: "explore-codebase".to_owned(),
        request_id: "more".to_owned(),
        ..v1::ExtendTaskRequest::default()
    };
    harness.runs.clone().extend_task(request).await.unwrap();
    let extended = |frame: &v1::connect_response::Frame| match frame {
        v1::connect_response::Frame::DeadlineExtended(extended) => Some(extended.cancel_withdrawn),
        _ => None,
    };
    assert!(worker.hear_until(extended).await, "the work goes on");
    let seen = harness.get(&run).await;
    assert_eq!((open(&seen).len(), seen.status()), (0, v1::RunStatus::Running));

    time.passes(14 * MINUTE + 1);
    let seen = until(&harness, &run, |run| warnings(run).len() == 2).await;
    let again = &warnings(&seen)[1].message;
    assert_eq!(again, "task \"explore-codebase\" has less than 1m left before its timeout");
    time.passes(MINUTE - 1);
    until(&harness, &run, |run| !open(run).is_empty()).await;
    speaks(&harness, &worker, &run, &slow, &time).await;
    time.passes(10 * SECOND);
    let revoked = |frame: &v1::connect_response::Frame| match frame {
        v1::connect_response::Frame::LeaseRevoked(revoked) => revoked.lease.clone(),
        _ => None,
    };
    assert_eq!(worker.hear_until(revoked).await, slow);
    let result = harness.wait(&run).await;
    assert_eq!(result.outcome(), v1::RunOutcome::SucceededWithFailures);
    let failed = &result.tasks[1];
    let error = failed.error.as_ref().unwrap();
    assert_eq!((failed.status(), error.severity()), (v1::ResultStatus::Timeout, v1::Severity::High));
    let detail = error.timeout.as_ref().unwrap();
    assert_eq!(detail.elapsed_ms, 45 * MINUTE + 10 * SECOND);
    assert_eq!(detail.partial_output, Some(json(serde_json::json!("half"))));
    for language in LANGUAGES {
        let report = harness.report(&run, language.tag()).await;
        check("scenario-3-end", language, &boxes(&report, &run));
    }
}

// S000-C3-23
#[tokio::test]
async fn scenario_3_a_task_that_exceeds_its_timeout_is_cancelled_then_ended_and_the_quorum_decides() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["fast", "slow"]).await;
    let run = harness
        .start_run(plan(
            r#"
            name = "timeout"
            [[tasks]]
            name = "fast"
            agent = "fast"
            [[tasks]]
            name = "slow"
            agent = "slow"
            timeouts = { timeout = "300ms", grace = "100ms" }
            "#,
        ))
        .await;
    let assigned = worker.assignments(2).await;
    worker.complete(&assigned["fast"].lease, json(serde_json::json!(1))).await;
    let slow = assigned["slow"].lease.clone();
    worker
        .say(v1::connect_request::Frame::Progress(v1::Progress {
            lease: Some(slow.clone()),
            partial_output: Some(json(serde_json::json!("half"))),
            ..Default::default()
        }))
        .await;
    let reason = worker
        .hear_until(|frame| match frame {
            v1::connect_response::Frame::Cancel(cancel) => Some(cancel.reason()),
            _ => None,
        })
        .await;
    assert_eq!(reason, v1::CancelReason::Timeout);
    worker
        .hear_until(|frame| matches!(frame, v1::connect_response::Frame::LeaseRevoked(_)).then_some(()))
        .await;
    let result = harness.wait(&run).await;
    assert_eq!(result.outcome(), v1::RunOutcome::SucceededWithFailures);
    let failed = &result.tasks[1];
    assert_eq!(failed.status(), v1::ResultStatus::Timeout);
    let error = failed.error.as_ref().unwrap();
    assert_eq!((error.code.as_str(), error.severity()), ("TASK_TIMEOUT", v1::Severity::High));
    let detail = error.timeout.as_ref().unwrap();
    assert_eq!(detail.configured_timeout_ms, 300);
    assert!(detail.elapsed_ms >= 400 && detail.last_health_check_ms.is_some());
    assert_eq!(detail.partial_output, Some(json(serde_json::json!("half"))));
    // The grace period is over: nothing is left to extend.
    assert_eq!(error.options, ["terminate", "retry", "abort"]);
    let (english, spanish) = (harness.report(&run, "en").await, harness.report(&run, "es-MX").await);
    for shown in [
        "|  X  Agent 2 (slow): FAILED (timeout) ",
        "|  Result: 1/2 (50%) - QUORUM MET ",
        "|  Status: CONTINUING ",
    ] {
        assert!(english.contains(shown), "{shown} in\n{english}");
    }
    for shown in [
        "|  X  Agente 2 (slow): FALLIDO (tiempo agotado)        |",
        "|  Resultado: 1/2 (50%) - QUORUM CUMPLIDO ",
        "|  Estado: CONTINUANDO ",
        "|  WARNING: TASK_TIMEOUT ",
        "|  La tarea \"slow\" excedió su tiempo límite ",
    ] {
        assert!(spanish.contains(shown), "{shown} in\n{spanish}");
    }
}

/// The waits of the seed: one second, two seconds.
// S000-CL-18, S000-SC-05
#[tokio::test]
async fn scenario_4_three_failed_attempts_exhaust_the_retries() {
    let time = Time::default();
    let harness = Harness::start_with(|config| time.of(config)).await;
    let mut worker = harness.worker("w1", &["npm-test"]).await;
    let run = harness.start_run(one_wave(&["npm-test"])).await;
    let failures = [
        error("TIMEOUT", "no answer"),
        error("SERVICE_UNAVAILABLE", "exit code 1: 2 tests"),
        error("SERVICE_UNAVAILABLE", "exit code 1: 1 test"),
    ];
    for (failure, number) in failures.into_iter().zip(1..) {
        let assigned = worker.assignment().await;
        assert_eq!(assigned.assignment.attempt, number);
        worker.fail(&assigned.lease, failure).await;
        let is_failed = |run: &v1::Run| run.waves[0].tasks[0].retry_at_ms.is_some() || run.tasks_settled == 1;
        until(&harness, &run, is_failed).await;
        time.passes(i64::from(number) * SECOND);
        // A look at the run, by which the shard knows the time.
        harness.get(&run).await;
    }
    let result = harness.wait(&run).await;
    assert_eq!(result.outcome(), v1::RunOutcome::Failed);
    let error = result.tasks[0].error.clone().unwrap();
    assert_eq!((error.code.as_str(), error.severity()), ("RETRY_EXHAUSTED", v1::Severity::High));
    let attempts: Vec<(u32, i64)> =
        error.attempts.iter().map(|attempt| (attempt.attempt, attempt.waited_ms)).collect();
    assert_eq!(attempts, [(1, 0), (2, SECOND), (3, 2 * SECOND)]);
    assert_eq!(error.options, ["debug", "retry_manual", "skip", "abort"]);
    assert_eq!(error.cause.unwrap().code, "SERVICE_UNAVAILABLE");
    let delays: Vec<i64> = harness
        .export(&run)
        .await
        .into_iter()
        .filter_map(|event| match event.body {
            Some(Body::TaskAttemptFailed(failed)) => Some(failed.delay_ms),
            _ => None,
        })
        .collect();
    assert_eq!(delays, [SECOND, 2 * SECOND]);
    for language in LANGUAGES {
        let report = harness.report(&run, language.tag()).await;
        check("scenario-4", language, &boxes(&report, &run));
    }
}

/// Two of the four exceed their half hour, as the seed draws it.
// S000-CL-20, S000-SC-06
#[tokio::test]
async fn scenario_5_one_success_of_four_does_not_meet_the_quorum() {
    let time = Time::default();
    let harness = Harness::start_with(|config| time.of(config)).await;
    let agents = ["code-reviewer", "typescript-pro", "silent-failure", "test-analyzer"];
    let mut worker = harness.worker("w1", &agents).await;
    let run = harness.start_run(one_wave(&agents)).await;
    let assigned = worker.assignments(4).await;
    worker.fail(&assigned["silent-failure"].lease, error("LOGIC_ERROR", "wrong")).await;
    worker.complete(&assigned["code-reviewer"].lease, json(serde_json::json!(null))).await;
    until(&harness, &run, |run| run.tasks_settled == 2).await;
    time.passes(30 * MINUTE);
    until(&harness, &run, |run| open(run).len() == 2).await;
    for task in ["typescript-pro", "test-analyzer"] {
        speaks(&harness, &worker, &run, &assigned[task].lease, &time).await;
    }
    time.passes(10 * SECOND);
    let result = until(&harness, &run, |run| run.status() == v1::RunStatus::Finished).await;
    assert_eq!(result.outcome(), v1::RunOutcome::Failed);
    assert_eq!(result.error.unwrap().code, "QUORUM_NOT_MET");
    let view = harness.get(&run).await;
    let evaluation = view.waves[0].evaluation.clone().unwrap();
    assert_eq!((evaluation.successes, evaluation.total), (1, 4));
    assert!(evaluation.reason.contains("1/4 (25%"), "{}", evaluation.reason);
    for language in LANGUAGES {
        let report = harness.report(&run, language.tag()).await;
        check("scenario-5", language, &boxes(&report, &run));
    }
}

/// The seed's transition, INIT to COMPLETE: a result of a task that nobody was given. The worker is told which step it would
/// have been, the log has it once, and everybody who reads the log or the report sees the seed's box.
// S000-CL-15, S000-SC-07
#[tokio::test]
async fn scenario_6_a_task_that_never_was_active_is_not_completed_and_the_refusal_names_the_steps() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["a"]).await;
    let mut other = harness.worker("w2", &["b"]).await;
    // The second task waits for the first one's wave, so that it is in INIT.
    let plan = plan(
        r#"
        name = "two"
        [[waves]]
        tasks = [{ name = "a", agent = "a" }]
        [[waves]]
        tasks = [{ name = "b", agent = "b" }]
        "#,
    );
    let run = harness.start_run(plan).await;
    let lease = worker.assignment().await.lease;
    let before = harness.export(&run).await;
    let state = |run: &v1::Run| run.waves[1].tasks[0].state();
    assert_eq!(state(&harness.get(&run).await), v1::TaskState::Init);
    let never = v1::LeaseRef { wave: 1, task: 0, ..lease.clone() };
    let refused = |frame: &v1::connect_response::Frame| match frame {
        v1::connect_response::Frame::ResultRefused(refused) => Some(refused.clone()),
        _ => None,
    };
    for _ in 0..2 {
        other.complete(&never, json(serde_json::json!(1))).await;
        let refused = other.hear_until(refused).await;
        assert_eq!((refused.lease.as_ref(), refused.reason()), (Some(&never), v1::RefusalReason::NotBegun));
        let error = refused.error.unwrap();
        assert_eq!((error.code.as_str(), error.severity()), ("INVALID_STATE_TRANSITION", v1::Severity::High));
        assert_eq!(error.suggested_action.as_deref(), Some("INIT -> ACTIVE -> COMPLETE"));
    }
    assert_eq!(state(&harness.get(&run).await), v1::TaskState::Init);
    let log = harness.export(&run).await;
    let [told] = &log[before.len()..] else { panic!("it is recorded once: {:?}", &log[before.len()..]) };
    assert_eq!(log[..before.len()], before);

    let mut folded = model::Run::default();
    log.iter().for_each(|event| folded.apply(event));
    for language in LANGUAGES {
        let report = harness.report(&run, language.tag()).await;
        check("scenario-6-never-active", language, &boxes(&report, &run));
        let at_once =
            language.within(|| at_once::of_event(&folded, &run, told, Form::Boxes, Paint::OFF).unwrap());
        check("scenario-6-never-active", language, &boxes(&at_once.text, &run));
    }
    worker.complete(&lease, json(serde_json::json!(1))).await;
    let assigned = other.assignment().await;
    other.complete(&assigned.lease, json(serde_json::json!(2))).await;
    assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Succeeded);
}

// S000-SC-07
#[tokio::test]
async fn a_transition_that_a_call_asks_for_and_the_lifecycle_does_not_allow_is_refused_and_changes_nothing() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["a", "b"]).await;
    let run = harness.start_run(one_wave(&["a", "b"])).await;
    let assigned = worker.assignments(2).await;
    worker.complete(&assigned["a"].lease, json(serde_json::json!(1))).await;
    worker
        .hear_until(|frame| matches!(frame, v1::connect_response::Frame::ResultAccepted(_)).then_some(()))
        .await;
    let before = harness.export(&run).await;
    // COMPLETE -> ACTIVE
    let request = v1::RetryTaskRequest {
        run_id: run.clone(),
        task: "a".to_owned(),
        request_id: "r1".to_owned(),
        if_seq: None,
    };
    let refusal = harness.runs.clone().retry_task(request).await.unwrap_err();
    assert_eq!(code_of(&refusal), "INVALID_STATE_TRANSITION");
    assert!(refusal.message().contains("COMPLETE -> ACTIVE"), "{}", refusal.message());
    let info = refusal.get_error_details().error_info().unwrap().clone();
    assert_eq!(info.metadata["reason"], "COMPLETE may be followed by ROLLED_BACK");
    for language in LANGUAGES {
        check(
            "scenario-6-by-a-call",
            language,
            &[refused(&refusal, language, Some((&run, "a"))).replace(&run, RUN)],
        );
    }
    assert_eq!(harness.export(&run).await, before);
    worker.complete(&assigned["b"].lease, json(serde_json::json!(2))).await;
    assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Succeeded);
}

/// The state of the session was corrupt and is repaired, another agent's time is over, and a critical agent fails.
// S000-SC-08, S000-SC-09, S000-SC-11
#[tokio::test]
async fn scenario_7_several_errors_that_stop_a_run_are_told_together() {
    let time = Time::default();
    let harness = Harness::start_with(|config| time.of(config)).await;
    let mut worker = harness.worker("w1", &["elsabro-executor", "explore-codebase"]).await;
    let request = v1::ImportSessionRequest {
        session: "shop".to_owned(),
        state: r#"{ "version": "1.0.0", "updated_at": "2024-01-20T15:30:00Z" }"#.to_owned(),
        repairs: vec!["SESSION_CORRUPTED: restored from its backup".to_owned()],
    };
    SessionServiceClient::new(harness.channel.clone()).import_session(request).await.unwrap();
    let run = harness
        .start_run(plan(
            r#"
            name = "several"
            session = "shop"
            policy = { kind = "critical_path" }
            [[tasks]]
            name = "elsabro-executor"
            agent = "elsabro-executor"
            critical = true
            timeouts = { timeout = "60m" }
            [[tasks]]
            name = "explore-codebase"
            agent = "explore-codebase"
            "#,
        ))
        .await;
    let assigned = worker.assignments(2).await;
    time.passes(30 * MINUTE);
    until(&harness, &run, |run| !open(run).is_empty()).await;
    speaks(&harness, &worker, &run, &assigned["explore-codebase"].lease, &time).await;
    time.passes(10 * SECOND);
    until(&harness, &run, |run| run.tasks_settled == 1).await;
    worker.fail(&assigned["elsabro-executor"].lease, error("BUILD_FAILED", "the build failed")).await;
    let result = harness.wait(&run).await;
    assert_eq!(result.outcome(), v1::RunOutcome::Failed);
    assert_eq!(result.error.unwrap().code, "CRITICAL_AGENT_FAILED");
    for language in LANGUAGES {
        let report = harness.report(&run, language.tag()).await;
        check("scenario-7", language, &boxes(&report, &run));
    }
    // The seed's sixth step: the state of error is persisted.
    let request = v1::GetSessionRequest { session: "shop".to_owned() };
    let session = SessionServiceClient::new(harness.channel.clone()).get_session(request).await.unwrap();
    let state = session.into_inner().session.and_then(|session| session.state).unwrap();
    let state: Value = serde_json::from_str(&state).unwrap();
    assert_eq!((&state["history"][0]["result"], &state["errors"]["count"]), (&value!("failed"), &value!(2)));
    assert_eq!((&state["current_flow"], &state["suggested_next"]), (&Value::Null, &value!("debug")));
}

/// The seed's example of all contracts together: a session whose state breaks rules, three agents of which one gives TIMEOUT at
/// each attempt, a quorum, and the session again.
// S000-IN-08
#[tokio::test]
async fn the_cascade_goes_from_a_session_that_is_repaired_through_each_contract_to_the_sessions_end() {
    let time = Time::default();
    let harness = Harness::start_with(|config| time.of(config)).await;
    let agents = ["elsabro-executor", "feature-dev:code-explorer", "elsabro-verifier"];
    let mut worker = harness.worker("w1", &agents).await;

    // Contract 7: what breaks rules is refused with each of them, is repaired, and keeps what is valid.
    let planned = value!({ "command": "plan", "completed_at": "2026-03-20T14:50:00Z", "result": "created" });
    let broken = value!({
        "version": "1.0.0",
        "updated_at": "2026-03-20T15:30:00Z",
        "context": { "project_type": "brownfield" },
        "current_flow": { "command": "execute", "phase": "sleeping", "started_at": "2026-03-20T15:00:00Z" },
        "history": [planned],
    });
    let mut sessions = SessionServiceClient::new(harness.channel.clone());
    let import = |state: &Value, repairs: Vec<String>| v1::ImportSessionRequest {
        session: "shop".to_owned(),
        state: state.to_string(),
        repairs,
    };
    let refused = sessions.import_session(import(&broken, Vec::new())).await.unwrap_err();
    assert_eq!(code_of(&refused), "SESSION_VALIDATION_FAILED");
    assert_eq!(paths_of(&refused), ["state.current_flow.phase"]);
    let broken = session::parse(broken.to_string().as_bytes()).unwrap();
    let failed = session::failed(&session::violations(&broken)).unwrap();
    let (state, repairs) = session::repaired(&broken, time.now_ms());
    let repairs = repairs.iter().map(|repair| format!("{repair:?}")).collect();
    let repairs = session::told(&failed.code, "repaired", repairs);
    sessions.import_session(import(&Value::Object(state), repairs)).await.unwrap();

    let mut plan = v1::Plan { session: Some("shop".to_owned()), ..one_wave(&agents) };
    // A task's name has no colon.
    "code-explorer".clone_into(&mut plan.waves[0].tasks[1].name);
    let run = harness.start_run(plan).await;
    let mut assigned = worker.assignments(3).await;
    for task in ["elsabro-executor", "code-explorer"] {
        worker.complete(&assigned[task].lease, json(value!({ "data": task }))).await;
    }
    until(&harness, &run, |run| run.tasks_settled == 2).await;
    let mut again = assigned.remove("elsabro-verifier").unwrap();
    for number in 1..=3 {
        assert_eq!(again.assignment.attempt, number);
        worker.fail(&again.lease, error("TIMEOUT", "no answer")).await;
        let is_failed = |run: &v1::Run| run.waves[0].tasks[2].retry_at_ms.is_some() || run.tasks_settled == 3;
        until(&harness, &run, is_failed).await;
        if number < 3 {
            time.passes(i64::from(number) * SECOND);
            harness.get(&run).await;
            again = worker.assignment().await;
        }
    }
    let result = harness.wait(&run).await;
    assert_eq!(result.outcome(), v1::RunOutcome::SucceededWithFailures);
    let failed = result.tasks[2].error.as_ref().unwrap();
    assert_eq!((failed.code.as_str(), failed.severity()), ("RETRY_EXHAUSTED", v1::Severity::High));
    for language in LANGUAGES {
        let report = harness.report(&run, language.tag()).await;
        check("cascade", language, &boxes(&report, &run));
    }

    // The contracts of the one run: how it begins, what became of the agent that failed, and how it ends.
    use Contract::{Aggregation, Lifecycle, Registry, Retry, Session, Severity, Timeout};
    let decisions = explain::explain(&harness.export(&run).await);
    let mut told: Vec<Contract> = decisions.iter().map(|decision| decision.contract).collect();
    told.dedup();
    // CONTRACTS §1: session, registry, lifecycle, timeout; its turn in the session comes in between.
    assert!(told.starts_with(&[Session, Registry, Session, Lifecycle, Timeout]), "{told:?}");
    // The last attempt; then the wave is judged, whose failure is told with its severity, and all are summed up.
    let ends = [Retry, Severity, Lifecycle, Aggregation, Severity, Aggregation, Lifecycle, Session];
    assert!(told.ends_with(&ends), "{told:?}");
    let of_failed = decisions.iter().filter(|decision| decision.subject == "elsabro-verifier");
    let retries: Vec<&str> =
        of_failed.filter(|decision| decision.contract == Retry).map(|decision| decision.verdict).collect();
    assert_eq!(retries, ["again", "again", "given_up"]);

    // Contract 7 again: what the session has of it.
    let request = v1::GetSessionRequest { session: "shop".to_owned() };
    let state = sessions.get_session(request).await.unwrap().into_inner().session.unwrap().state.unwrap();
    let state: Value = serde_json::from_str(&state).unwrap();
    assert_eq!(session::violations(state.as_object().unwrap()), []);
    assert_eq!(
        (&state["version"], &state["context"]["project_type"]),
        (&value!("1.0.0"), &value!("brownfield"))
    );
    assert_eq!((&state["current_flow"], &state["pending_tasks"]), (&Value::Null, &value!([])));
    assert_eq!(state["errors"]["count"], 1);
    let history = state["history"].as_array().unwrap();
    assert_eq!((history.len(), &history[0]), (2, &planned));
    assert_eq!(
        [&history[1]["command"], &history[1]["result"], &history[1]["run_id"]],
        ["execute", "succeeded_with_failures", &run]
    );
}

/// Each severity as it is drawn, of a run that goes on without what has failed.
// S000-CL-08, S000-CL-19
#[tokio::test]
async fn what_is_critical_high_medium_or_low_is_drawn_as_such() {
    let time = Time::default();
    let harness = Harness::start_with(|config| time.of(config)).await;
    let agents = ["good", "high", "medium", "low"];
    let mut worker = harness.worker("w1", &agents).await;
    let plan = v1::Plan {
        policy: Some(v1::AggregationPolicy {
            kind: v1::AggregationKind::ContinueAll.into(),
            ..Default::default()
        }),
        ..one_wave(&agents)
    };
    let run = harness.start_run(plan).await;
    let assigned = worker.assignments(4).await;
    worker.fail(&assigned["high"].lease, error("TESTS_FAILED", "3 tests failed")).await;
    worker.fail(&assigned["medium"].lease, error("LINT_WARNINGS", "5 lint warnings found")).await;
    worker.fail(&assigned["low"].lease, error("SUGGESTION", "use a map")).await;
    worker.fail(&assigned["good"].lease, error("TIMEOUT", "no answer")).await;
    until(&harness, &run, |run| run.waves[0].tasks[0].retry_at_ms.is_some()).await;
    time.passes(SECOND);
    harness.get(&run).await;
    let again = worker.assignment().await;
    worker.complete(&again.lease, json(serde_json::json!(1))).await;
    assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::SucceededWithFailures);
    for language in LANGUAGES {
        let report = harness.report(&run, language.tag()).await;
        check("severities", language, &boxes(&report, &run));
    }
    // What is LOW is a line.
    let seen = harness.get(&run).await;
    let notices = seen.notices.iter().filter_map(|notice| notice.notice.as_ref());
    let success = notices.into_iter().find(|notice| notice.code == "RETRY_SUCCESS").unwrap();
    for language in LANGUAGES {
        check("severity-low", language, &[drawn(success, language, &Context::default())]);
    }

    // CRITICAL aborts.
    let run = harness.start_run(one_wave(&["good", "low"])).await;
    let assigned = worker.assignments(2).await;
    worker.fail(&assigned["good"].lease, error("STATE_CORRUPTED", "the index is damaged")).await;
    worker.stops(&assigned["low"].lease).await;
    assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Failed);
    for language in LANGUAGES {
        let report = harness.report(&run, language.tag()).await;
        check("severity-critical", language, &boxes(&report, &run));
    }
}

// S000-CL-12
#[tokio::test]
async fn a_report_is_in_english_or_spanish_and_of_a_run_that_is_there() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["a"]).await;
    let run = harness.start_run(one_wave(&["a"])).await;
    let assigned = worker.assignment().await;
    let ask = |run_id: &str, language: &str| v1::RenderReportRequest {
        run_id: run_id.to_owned(),
        language: language.to_owned(),
        color: true,
        ..v1::RenderReportRequest::default()
    };
    let mut runs = harness.runs.clone();
    let unfinished = runs.render_report(ask(&run, "")).await.unwrap().into_inner();
    assert_eq!((unfinished.language.as_str(), unfinished.truncated), ("en", false));
    assert!(unfinished.text.contains("Status   running"), "{}", unfinished.text);
    assert!(!unfinished.text.contains("PARALLEL EXECUTION COMPLETE"), "{}", unfinished.text);
    worker.complete(&assigned.lease, json(serde_json::json!(1))).await;
    harness.wait(&run).await;
    let finished = runs.render_report(ask(&run, "es_ES.UTF-8")).await.unwrap().into_inner();
    assert_eq!(finished.language, "es");
    assert!(
        finished.text.contains("\u{1b}[32m") && finished.text.contains("con éxito en "),
        "{}",
        finished.text
    );

    let refused = runs.render_report(ask(&run, "de")).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::InvalidArgument);
    assert!(refused.message().contains("\"de\" is neither English nor Spanish"), "{}", refused.message());
    let unknown = runs.render_report(ask("018bcfe5-0000-7000-8000-000000000000", "es")).await.unwrap_err();
    assert_eq!(code_of(&unknown), "RUN_NOT_FOUND");
}
