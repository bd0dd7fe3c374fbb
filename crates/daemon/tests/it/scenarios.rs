//! The seed's failure scenarios that concern plans, end to end.

use capataz_contracts::v1::{self, event::Body};

use crate::support::{Harness, code_of, error, json, one_wave, plan};

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

#[tokio::test]
async fn scenario_2_an_unknown_agent_is_named_with_similar_ones_and_nothing_starts() {
    let harness = Harness::start_with(|config| {
        let names = ["elsabro-executor", "elsabro-verifier", "elsabro-analyst"];
        config.declared_agents = names
            .map(|name| capataz_daemon::DeclaredAgent {
                name: name.to_owned(),
                category: "implementation".to_owned(),
            })
            .to_vec();
    })
    .await;
    let refusal = harness.try_start(one_wave(&["elsabro-executer"])).await.unwrap_err();
    assert_eq!(code_of(&refusal), "AGENT_NOT_FOUND");
    assert!(
        format!("{refusal:?}").contains("elsabro-executor") || refusal.message().contains("elsabro-executer")
    );
    let refusal = harness.try_start(one_wave(&["elsabro-nonexistent"])).await.unwrap_err();
    assert_eq!(code_of(&refusal), "AGENT_NOT_FOUND");
    let refusal = harness.try_start(one_wave(&["no-such-one", "nor-this"])).await.unwrap_err();
    assert_eq!(code_of(&refusal), "AGENTS_VALIDATION_FAILED");
    assert_eq!(harness.run_count().await, 0);
}

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

#[tokio::test]
async fn scenario_4_three_failed_attempts_exhaust_the_retries() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["npm-test"]).await;
    let run = harness
        .start_run(plan(
            r#"
            name = "retries"
            [[tasks]]
            name = "npm-test"
            agent = "npm-test"
            retry = { base_delay_ms = 10, max_delay_ms = 40 }
            "#,
        ))
        .await;
    for attempt in 1..=3 {
        let assigned = worker.assignment().await;
        assert_eq!(assigned.assignment.attempt, attempt);
        worker.fail(&assigned.lease, error("NETWORK_ERROR", "connection failed")).await;
    }
    let result = harness.wait(&run).await;
    assert_eq!(result.outcome(), v1::RunOutcome::Failed);
    let error = result.tasks[0].error.clone().unwrap();
    assert_eq!((error.code.as_str(), error.severity()), ("RETRY_EXHAUSTED", v1::Severity::High));
    assert_eq!(error.attempts.len(), 3);
    assert_eq!(error.options, ["debug", "retry_manual", "skip", "abort"]);
    assert_eq!(error.cause.unwrap().code, "NETWORK_ERROR");
    let delays: Vec<i64> = harness
        .export(&run)
        .await
        .into_iter()
        .filter_map(|event| match event.body {
            Some(Body::TaskAttemptFailed(failed)) => Some(failed.delay_ms),
            _ => None,
        })
        .collect();
    assert_eq!(delays, [10, 20]);
    // The boxes that the seed draws, in its language and in English.
    let boxes = [
        (
            "en",
            [
                "\
|  RETRY: npm-test                                     |
+------------------------------------------------------+
|  Attempt 1/3: FAILED (NETWORK_ERROR)                 |
|  Waiting 10ms before retry...                        |
|                                                      |
|  Attempt 2/3: FAILED (NETWORK_ERROR)                 |
|  Waiting 20ms before retry...                        |
|                                                      |
|  Attempt 3/3: FAILED (NETWORK_ERROR)                 |
|                                                      |
|  X  All attempts exhausted                           |
|  -> Error escalated to user                          |
+------------------------------------------------------+",
                "\
|  ERROR: RETRY_EXHAUSTED                              |
|  Severity: HIGH                                      |
+======================================================+",
                "|  Attempts: 3/3 exhausted                             |",
                "retries: failed in ",
            ],
        ),
        (
            "es-MX",
            [
                "\
|  REINTENTO: npm-test                                 |
+------------------------------------------------------+
|  Intento 1/3: FALLIDO (NETWORK_ERROR)                |
|  Esperando 10ms antes de reintentar...               |
|                                                      |
|  Intento 2/3: FALLIDO (NETWORK_ERROR)                |
|  Esperando 20ms antes de reintentar...               |
|                                                      |
|  Intento 3/3: FALLIDO (NETWORK_ERROR)                |
|                                                      |
|  X  Todos los intentos agotados                      |
|  -> Error escalado al usuario                        |
+------------------------------------------------------+",
                "\
|  ERROR: RETRY_EXHAUSTED                              |
|  Severidad: HIGH                                     |
+======================================================+",
                "|  Intentos: 3/3 agotados                              |",
                "retries: fallida en ",
            ],
        ),
    ];
    for (language, expected) in boxes {
        let report = harness.report(&run, language).await;
        for shown in expected {
            assert!(report.contains(shown), "{shown}\nin\n{report}");
        }
    }
}

#[tokio::test]
async fn scenario_5_one_success_of_four_does_not_meet_the_quorum() {
    let harness = Harness::start().await;
    let agents = ["code-reviewer", "typescript-pro", "silent-failure", "test-analyzer"];
    let mut worker = harness.worker("w1", &agents).await;
    let run = harness.start_run(one_wave(&agents)).await;
    let assigned = worker.assignments(4).await;
    for name in &agents[1..] {
        worker.fail(&assigned[*name].lease, error("LOGIC_ERROR", "wrong")).await;
    }
    worker.complete(&assigned[agents[0]].lease, json(serde_json::json!(null))).await;
    let result = harness.wait(&run).await;
    assert_eq!(result.outcome(), v1::RunOutcome::Failed);
    assert_eq!(result.error.unwrap().code, "QUORUM_NOT_MET");
    let view = harness.get(&run).await;
    let evaluation = view.waves[0].evaluation.clone().unwrap();
    assert_eq!((evaluation.successes, evaluation.total), (1, 4));
    assert!(evaluation.reason.contains("1/4 (25%"), "{}", evaluation.reason);
    for (language, met, several) in [
        ("en", "Result: 1/4 (25%) - QUORUM NOT MET ", "MULTIPLE CRITICAL ERRORS "),
        ("es", "Resultado: 1/4 (25%) - QUORUM NO CUMPLIDO ", "MÚLTIPLES ERRORES CRÍTICOS "),
    ] {
        let report = harness.report(&run, language).await;
        for shown in [met, several, "3. LOGIC_ERROR: test-analyzer "] {
            assert!(report.contains(&format!("|  {shown}")), "{shown}\nin\n{report}");
        }
    }
}

#[tokio::test]
async fn scenario_6_a_transition_that_the_lifecycle_does_not_allow_is_refused_and_changes_nothing() {
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
    assert!(format!("{refusal:?}").contains("ROLLED_BACK"), "the allowed ones are named: {refusal:?}");
    assert_eq!(harness.export(&run).await, before);
    worker.complete(&assigned["b"].lease, json(serde_json::json!(2))).await;
    assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Succeeded);
}

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
