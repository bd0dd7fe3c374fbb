//! Attempts and what follows them (seed 000, contract 4).

use super::*;

fn retry_policy(policy: v1::RetryPolicy) -> impl FnOnce(&mut v1::Plan) {
    |plan| plan.retry = Some(policy)
}

// S000-C4-02, S000-C4-20, S000-CL-06
#[test]
fn a_failure_that_may_pass_is_tried_again_after_one_and_two_seconds() {
    let bench =
        Bench::plan("a").lease("a", "w1").fails("a", "NETWORK_ERROR").expect_kinds(&["task_attempt_failed"]);
    assert_eq!(bench.task("a").retry_at_ms, Some(START + SECOND));
    assert_eq!(bench.task("a").attempt, 1, "the second has not begun");
    let bench = bench.after(SECOND - 1).expect_unsettled("a");
    assert_eq!(bench.count("task_retry_due"), 0);
    let bench = bench.after(1).expect_kinds(&["task_retry_due"]).lease("a", "w2").fails("a", "NETWORK_ERROR");
    assert_eq!(bench.task("a").retry_at_ms, Some(START + 3 * SECOND));
    let bench = bench.after(2 * SECOND).lease("a", "w3");
    assert_eq!(bench.task("a").attempt, 3);
    let bench = bench.completes("a").expect_outcome(v1::RunOutcome::Succeeded);
    let [notice] = bench.notices("RETRY_SUCCESS").try_into().unwrap();
    assert_eq!(notice.notice.unwrap().severity, v1::Severity::Low as i32);
}

#[test]
fn success_at_the_first_attempt_is_no_notice() {
    let bench = Bench::plan("a").lease("a", "w1").completes("a");
    assert_eq!(bench.count("notice"), 0);
}

/// Seed 000, scenario 4.
// S000-C4-01, S000-C4-14, S000-C4-15
#[test]
fn the_third_failure_exhausts_the_attempts() {
    let bench = Bench::plan("a")
        .lease("a", "w1")
        .fails("a", "TIMEOUT")
        .after(SECOND)
        .lease("a", "w1")
        .fails("a", "RATE_LIMIT")
        .after(2 * SECOND)
        .lease("a", "w1")
        .fails("a", "NETWORK_ERROR")
        .expect_failed("a", "RETRY_EXHAUSTED");
    let error = bench.error("a");
    let codes = error.attempts.iter().map(|attempt| (attempt.attempt, attempt.error.as_deref().unwrap()));
    assert_eq!(codes.collect::<Vec<_>>(), [(1, "TIMEOUT"), (2, "RATE_LIMIT"), (3, "NETWORK_ERROR")]);
    assert_eq!(error.cause.unwrap().code, "NETWORK_ERROR");
    assert_eq!(error.options, ["debug", "retry_manual", "skip", "abort"]);
    assert!(error.suggested_action.is_some());
}

// S000-C4-11, S000-C4-18
#[test]
fn a_failure_that_does_not_pass_is_not_tried_again() {
    let bench = Bench::plan("a b")
        .lease_all()
        .fails("a", "VALIDATION_ERROR")
        .expect_failed("a", "NON_RETRYABLE_ERROR");
    let error = bench.error("a");
    assert_eq!(error.options, ["fix_manual", "skip", "abort"]);
    assert_eq!(error.attempts.len(), 1);
    bench.fails("b", "NOBODY_KNOWS_THIS").expect_failed("b", "NON_RETRYABLE_ERROR");
}

#[test]
fn a_worker_that_stops_by_itself_has_failed() {
    let bench = Bench::plan("a").lease("a", "w1").stops("a").expect_failed("a", "NON_RETRYABLE_ERROR");
    assert_eq!(bench.error("a").cause.unwrap().code, "TASK_CANCELLED");
}

// S000-C6-08
#[test]
fn the_severity_is_that_of_the_original_error() {
    let bench = Bench::plan("a b c").lease_all().fails("a", "COVERAGE_LOW").fails("b", "SOMETHING_ELSE");
    assert_eq!(bench.task("a").severity, v1::Severity::Medium as i32, "by its code");
    assert_eq!(
        bench.error("a").severity,
        v1::Severity::Medium as i32,
        "the wrapper is as severe as what is in it"
    );
    assert_eq!(bench.task("b").severity, v1::Severity::High as i32, "nobody knows it");
    assert_eq!(bench.error("b").severity, v1::Severity::High as i32);
    let bench = bench.fails("c", "TESTS_FAILED");
    assert_eq!(bench.task("c").severity, v1::Severity::High as i32);
    let summary = bench.run().summary.unwrap();
    assert_eq!((summary.total, summary.high, summary.medium), (3, 2, 1));
    let [notice] = bench.notices("UNCLASSIFIED").try_into().unwrap();
    assert_eq!(notice.task, Some(bench.at("b").task), "one notice, of the failure that no rule knows");
    assert_eq!(notice.notice.unwrap().severity, v1::Severity::Medium as i32);
}

#[test]
fn an_unknown_failure_is_high_for_the_question_too() {
    let pause = |plan: &mut v1::Plan| plan.on_high = Some(v1::OnHigh::Pause as i32);
    let bench = Bench::with("continue_all: a b", pause).lease_all().fails("a", "NOBODY_KNOWS_THIS");
    assert_eq!(bench.open().len(), 1, "on_high = pause asks");
    let medium = Bench::with("continue_all: a b", pause).lease_all().fails("a", "LINT_WARNINGS");
    assert_eq!(medium.open().len(), 0);
}

#[test]
fn the_failing_side_may_declare_the_severity() {
    let error = v1::Error { severity: v1::Severity::Medium as i32, ..failure("NOBODY_KNOWS_THIS") };
    let bench = Bench::plan("a").lease("a", "w1").report("a", Report::Failed(error));
    assert_eq!(bench.task("a").severity, v1::Severity::Medium as i32);
    assert_eq!(bench.count("notice"), 0, "it is known");
}

// S000-C6-10
#[test]
fn a_declared_critical_failure_aborts_the_run_whatever_the_policy() {
    let of_plan = |plan: &mut v1::Plan| plan.waves[0].tasks[0].severity = Some(v1::Severity::Critical as i32);
    let said = v1::Error { severity: v1::Severity::Critical as i32, ..failure("NETWORK_ERROR") };
    for bench in [
        Bench::with("continue_all: a b", of_plan).lease_all().fails("a", "NETWORK_ERROR"),
        Bench::plan("continue_all: a b").lease_all().report("a", Report::Failed(said)),
    ] {
        let bench = bench
            .expect_failed("a", "NON_RETRYABLE_ERROR")
            .expect_status(v1::RunStatus::Cancelling)
            .stops("b")
            .expect_outcome(v1::RunOutcome::Failed);
        assert_eq!(bench.task("a").severity, v1::Severity::Critical as i32);
        assert_eq!(bench.error("a").reason.unwrap(), "a CRITICAL failure aborts the run");
    }
}

#[test]
fn a_critical_failure_at_the_beginning_of_a_wave_ends_the_tasks_beside_it() {
    let missing = |plan: &mut v1::Plan| {
        for task in &mut plan.waves[1].tasks {
            task.input = Some(json("\"${tasks.x.output.missing}\""));
            task.severity = Some(v1::Severity::Critical as i32);
        }
    };
    let bench = Bench::with("continue_all: x | a b", missing).lease_all().completes("x");
    let bench = bench.expect_failed("a", "INPUT_UNRESOLVED").expect_outcome(v1::RunOutcome::Failed);
    bench.expect_task("b", v1::TaskState::Deleted, v1::ResultStatus::Cancelled);
}

// S000-CL-07
#[test]
fn a_failed_attempt_and_its_causes_have_severities_too() {
    let error = v1::Error { cause: Some(Box::new(failure("STATE_MISSING"))), ..failure("NETWORK_ERROR") };
    let bench = Bench::plan("a").lease("a", "w1").report("a", Report::Failed(error));
    let failed = bench.ledger.events.iter().find_map(|event| match event.body.as_ref()? {
        Body::TaskAttemptFailed(failed) => failed.error.clone(),
        _ => None,
    });
    let failed = failed.unwrap();
    assert_eq!(failed.severity, v1::Severity::High as i32);
    assert_eq!(failed.cause.unwrap().severity, v1::Severity::Critical as i32);
}

// S000-C4-17
#[test]
fn why_a_failure_is_not_tried_again_is_told() {
    #[track_caller]
    fn check(error: v1::Error, reason: &str) {
        let bench = Bench::plan("continue_all: a").lease("a", "w1").report("a", Report::Failed(error));
        let told = bench.expect_failed("a", "NON_RETRYABLE_ERROR").error("a");
        assert_eq!(told.reason.as_deref(), Some(reason));
    }
    check(
        failure("ESLINT_PARSE_ERROR"),
        "ESLINT_PARSE_ERROR is on the list of failures that are not retried, by PARSE_ERROR",
    );
    check(
        failure("NOBODY_KNOWS_THIS"),
        "NOBODY_KNOWS_THIS is on no list, and only failures that are known to pass are retried",
    );
    check(failure("TASK_TIMEOUT"), "TASK_TIMEOUT already ends all attempts");
}

/// Seed 000, contract 4: an entry for each attempt, and the waits are part of the time.
// S000-C4-12, S000-C4-13
#[test]
fn the_history_has_every_attempt_the_successful_one_too_with_the_waits() {
    let bench = Bench::plan("a")
        .lease("a", "w1")
        .after(300)
        .fails("a", "NETWORK_ERROR")
        .after(SECOND + 50)
        .lease("a", "w1")
        .after(400)
        .loses("a")
        .lease("a", "w2")
        .after(500)
        .completes("a");
    let attempts = bench.task("a").attempts;
    let told = attempts
        .iter()
        .map(|one| (one.attempt, one.status(), one.error.as_deref(), one.waited_ms, one.duration_ms));
    let (failed, success) = (v1::AttemptStatus::Failed, v1::AttemptStatus::Success);
    assert_eq!(
        told.collect::<Vec<_>>(),
        [(1, failed, Some("NETWORK_ERROR"), 0, 300), (2, success, None, 1_050, 500)]
    );
}

#[test]
fn a_failed_task_has_its_last_attempt_in_its_history_and_in_its_error() {
    let bench = Bench::plan("a")
        .lease("a", "w1")
        .fails("a", "NETWORK_ERROR")
        .after(SECOND)
        .lease("a", "w1")
        .after(20)
        .fails("a", "LOGIC_ERROR");
    let attempts = bench.task("a").attempts;
    assert_eq!(attempts, bench.error("a").attempts);
    let codes: Vec<_> = attempts.iter().map(|one| (one.error.as_deref().unwrap(), one.waited_ms)).collect();
    assert_eq!(codes, [("NETWORK_ERROR", 0), ("LOGIC_ERROR", SECOND)]);
}

#[test]
fn the_run_lists_its_notices_and_counts_those_beyond_a_hundred() {
    let line = (0..130).map(|number| format!("t{number}")).collect::<Vec<_>>().join(" ");
    let mut bench = Bench::start(plan(&format!("continue_all: {line}")), false).lease_all();
    for number in 0..130 {
        bench = bench.fails(&format!("t{number}"), "NOBODY_KNOWS_THIS");
    }
    let run = bench.run();
    // The last one is that the run succeeded with failures.
    assert_eq!((run.notices.len(), run.notices_omitted), (100, 31));
    assert_eq!(run.notices[0].kind(), v1::NoticeKind::Unclassified);
}

#[test]
fn the_plan_may_declare_the_severity_of_a_tasks_failures() {
    let low = |plan: &mut v1::Plan| plan.waves[0].tasks[0].severity = Some(v1::Severity::Low as i32);
    let bench = Bench::with("a", low).lease("a", "w1").fails("a", "TESTS_FAILED");
    assert_eq!(bench.task("a").severity, v1::Severity::Low as i32);
    assert_eq!(bench.run().summary.unwrap().low, 1);
}

#[test]
fn the_failing_side_may_ask_for_a_longer_wait() {
    let error = v1::Error { retry_after_ms: Some(7 * SECOND), ..failure("RATE_LIMIT") };
    let bench = Bench::plan("a").lease("a", "w1").report("a", Report::Failed(error));
    assert_eq!(bench.task("a").retry_at_ms, Some(START + 7 * SECOND));
}

// S000-C4-05
#[test]
fn an_attempt_that_takes_too_long_is_stopped_and_tried_again() {
    let limit = v1::RetryPolicy { timeout_per_attempt_ms: Some(30 * SECOND), ..v1::RetryPolicy::default() };
    let bench = Bench::with("a", retry_policy(limit)).lease("a", "w1").after(30 * SECOND);
    let (task, lease) = (bench.at("a"), bench.token("a"));
    let reason = v1::CancelReason::AttemptTimeout;
    assert_eq!(bench.effects(), [Effect::Cancel { task, lease, reason, grace_ms: 10 * SECOND }]);
    let bench = bench.stops("a").expect_kinds(&["task_attempt_failed"]).after(SECOND).lease("a", "w2");
    let lease = bench.token("a");
    let bench = bench.after(40 * SECOND);
    assert_eq!(bench.effects(), [Effect::Revoke { task, lease }], "it did not answer within its grace");
    let bench =
        bench.after(2 * SECOND).lease("a", "w3").after(40 * SECOND).expect_failed("a", "RETRY_EXHAUSTED");
    assert_eq!(bench.error("a").cause.unwrap().code, "TIMEOUT");
}

#[test]
fn a_result_in_the_grace_of_an_attempt_comes_too_late_for_it() {
    let limit = v1::RetryPolicy { timeout_per_attempt_ms: Some(SECOND), ..v1::RetryPolicy::default() };
    Bench::with("a", retry_policy(limit.clone()))
        .lease("a", "w1")
        .after(SECOND)
        .completes("a")
        .expect_kinds(&["task_attempt_failed"]);
    // What must not be done twice, and is done, is done.
    Bench::with("a@once", retry_policy(limit))
        .lease("a", "w1")
        .after(SECOND)
        .completes("a")
        .expect_succeeded("a");
}

// S000-C4-06
#[test]
fn no_attempt_begins_after_the_total_limit() {
    let limit = v1::RetryPolicy { total_timeout_ms: Some(10 * SECOND), ..v1::RetryPolicy::default() };
    Bench::with("a", retry_policy(limit))
        .lease("a", "w1")
        .after(9 * SECOND + 1)
        .fails("a", "NETWORK_ERROR")
        .expect_failed("a", "TOTAL_TIMEOUT_EXCEEDED");
}

#[test]
fn a_table_of_delays_counts_instead_of_the_exponential_ones() {
    let table = v1::RetryPolicy { delays_ms: vec![500], ..v1::RetryPolicy::default() };
    let bench = Bench::with("a", retry_policy(table)).lease("a", "w1").fails("a", "NETWORK_ERROR");
    assert_eq!(bench.task("a").retry_at_ms, Some(START + 500));
    bench.after(500).lease("a", "w1").fails("a", "NETWORK_ERROR").expect_failed("a", "RETRY_EXHAUSTED");
}

#[test]
fn jitter_shortens_the_wait_the_same_in_every_replay() {
    let jitter = || v1::RetryPolicy { jitter: Some(true), ..v1::RetryPolicy::default() };
    let wait = |bench: Bench| bench.task("a").retry_at_ms.unwrap() - START;
    let one = wait(Bench::with("a", retry_policy(jitter())).lease("a", "w1").fails("a", "NETWORK_ERROR"));
    let other = wait(Bench::with("a", retry_policy(jitter())).lease("a", "w1").fails("a", "NETWORK_ERROR"));
    assert!((0..=SECOND).contains(&one));
    assert_eq!(one, other);
}

// S000-C6-10
#[test]
fn a_critical_failure_aborts_the_run_whatever_the_policy() {
    let bench = Bench::plan("continue_all: a b c | d")
        .lease("a", "w1")
        .lease("b", "w2")
        .fails("a", "STATE_CORRUPTED");
    let bench = bench
        .expect_status(v1::RunStatus::Cancelling)
        .expect_task("c", v1::TaskState::Deleted, v1::ResultStatus::Cancelled)
        .stops("b")
        .expect_outcome(v1::RunOutcome::Failed);
    let error = bench.run().error.unwrap();
    assert_eq!(error.cause.unwrap().code, "STATE_CORRUPTED");
    assert_eq!(bench.task("a").severity, v1::Severity::Critical as i32);
}

#[test]
fn a_critical_failure_is_not_tried_again_even_where_its_code_would_be() {
    let corrupt = v1::Error { message: "the cache is corrupt".to_owned(), ..failure("NETWORK_ERROR") };
    let bench = Bench::plan("continue_all: a b").lease_all().report("a", Report::Failed(corrupt));
    bench.expect_failed("a", "NON_RETRYABLE_ERROR").expect_status(v1::RunStatus::Cancelling);
}

#[test]
fn the_task_that_waits_for_its_next_attempt_times_out_all_the_same() {
    let bench = Bench::with("a", |plan| {
        plan.timeouts = Some(v1::TimeoutPolicy { timeout_ms: Some(500), ..v1::TimeoutPolicy::default() });
    });
    let bench = bench.lease("a", "w1").fails("a", "NETWORK_ERROR").after(500).expect_timed_out("a");
    let settled = bench.ledger.events.iter().find_map(|event| match event.body.as_ref()? {
        Body::TaskSettled(settled) => Some(settled),
        _ => None,
    });
    assert_eq!(settled.unwrap().attempts, 1, "the second attempt never began");
}

#[test]
fn what_the_agent_logged_goes_with_the_attempt_that_it_tells_of() {
    let logged = |bench: Bench, report: Report, log: &str| {
        let (task, lease) = (bench.at("a"), bench.token("a"));
        let (worker, log) = ("w1".to_owned(), log.to_owned());
        bench.does(Input::Report { task, lease, worker, report, log, usage: None })
    };
    let failed = Report::Failed(failure("NETWORK_ERROR"));
    let bench = logged(Bench::plan("a").lease("a", "w1"), failed, "first").after(SECOND).lease("a", "w1");
    let bench = logged(bench, Report::Completed(json("1")), "second");
    let logs = bench.ledger.events.iter().filter_map(|event| match event.body.as_ref()? {
        Body::TaskAttemptFailed(failed) => Some(failed.log.as_str()),
        Body::TaskSettled(settled) => Some(settled.log.as_str()),
        _ => None,
    });
    assert_eq!(logs.collect::<Vec<_>>(), ["first", "second"]);
}

#[test]
fn what_the_work_used_is_kept_with_its_result() {
    let usage = v1::Usage {
        input_tokens: Some(1_200),
        output_tokens: Some(80),
        cached_tokens: None,
        cost: Some(v1::Cost { nanos: 1_920_000, currency: "EUR".to_owned() }),
    };
    let bench = Bench::plan("a b").lease("a", "w1").lease("b", "w1");
    let (task, lease, worker) = (bench.at("a"), bench.token("a"), "w1".to_owned());
    let report = Report::Completed(json("1"));
    let (log, used) = (String::new(), Some(usage.clone()));
    let bench = bench.does(Input::Report { task, lease, worker, report, log, usage: used }).completes("b");
    assert_eq!(bench.task("a").usage, Some(usage.clone()));
    assert_eq!(bench.task("b").usage, None, "what one task used is not that of the next");
    let restored = RunState::from_snapshot(&bench.state.snapshot().unwrap()).unwrap();
    let used: Vec<Option<v1::Usage>> =
        restored.result(usize::MAX).unwrap().tasks.into_iter().map(|task| task.usage).collect();
    assert_eq!(used, [Some(usage), None]);
}

#[test]
fn what_a_failed_attempt_used_is_kept_with_it() {
    let took = |tokens| Some(v1::Usage { input_tokens: Some(tokens), ..v1::Usage::default() });
    let says = |bench: Bench, report: Report, usage: Option<v1::Usage>| {
        let (task, lease, worker) = (bench.at("a"), bench.token("a"), "w1".to_owned());
        bench.does(Input::Report { task, lease, worker, report, log: String::new(), usage })
    };
    let failed = || Report::Failed(failure("NETWORK_ERROR"));
    let bench = says(Bench::plan("a").lease("a", "w1"), failed(), took(100)).after(SECOND).lease("a", "w1");
    let Some(Body::TaskAttemptFailed(attempt)) = bench
        .ledger
        .events
        .iter()
        .rev()
        .find_map(|event| event.body.clone().filter(|body| matches!(body, Body::TaskAttemptFailed(_))))
    else {
        panic!()
    };
    assert_eq!(attempt.usage, took(100));
    let done = says(bench.clone_run(), Report::Completed(json("1")), took(20));
    let used: Vec<_> = done.task("a").attempts.into_iter().map(|attempt| attempt.usage).collect();
    assert_eq!((used, done.task("a").usage), (vec![took(100), took(20)], took(20)));
    // A last attempt that fails has used what it has as well; the error tells of attempts as the seed does.
    let bench = says(bench, Report::Failed(failure("LOGIC_ERROR")), took(3));
    let restored = RunState::from_snapshot(&bench.state.snapshot().unwrap()).unwrap();
    let options = crate::ViewOptions { tasks: true, outputs: false, offset: 0, limit: 9 };
    let task = restored.view("run".to_owned(), options).waves.remove(0).tasks.remove(0);
    let used: Vec<_> = task.attempts.into_iter().map(|attempt| attempt.usage).collect();
    assert_eq!((used, task.usage), (vec![took(100), took(3)], took(3)));
    let told = task.error.unwrap().attempts;
    assert_eq!(told.len(), 2);
    assert!(told.iter().all(|attempt| attempt.usage.is_none()));
}

#[test]
fn of_very_many_notices_the_mildest_are_left_out() {
    let names: Vec<String> = (0..101).map(|number| format!("t{number}")).collect();
    let mut bench = Bench::plan(&format!("continue_all: {} x y", names.join(" ")));
    // 101 notices RETRY_SUCCESS, which are LOW.
    for name in &names {
        bench = bench.lease(name, "w1").fails(name, "NETWORK_ERROR");
    }
    bench = bench.after(MINUTE);
    for name in &names {
        bench = bench.lease(name, "w1").completes(name);
    }
    assert_eq!((bench.run().notices.len(), bench.run().notices_omitted), (100, 1));
    // UNCLASSIFIED is MEDIUM.
    let run = bench.lease("x", "w1").fails("x", "E_UNHEARD_OF").run();
    assert_eq!((run.notices.len(), run.notices_omitted), (100, 2));
    let tasks: Vec<Option<u32>> = run.notices.iter().map(|notice| notice.task).collect();
    assert_eq!((tasks[0], tasks[98], tasks[99]), (Some(0), Some(98), Some(101)));
}
