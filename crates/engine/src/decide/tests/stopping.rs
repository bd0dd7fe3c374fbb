//! The end before the end: cancel, force, and what meets them on the way.

use super::*;

fn attempt_limit(plan: &mut v1::Plan) {
    plan.retry = Some(v1::RetryPolicy { timeout_per_attempt_ms: Some(SECOND), ..v1::RetryPolicy::default() });
}

#[test]
fn cancelling_deletes_what_never_ran_and_stops_what_runs() {
    let bench = Bench::plan("a b c | d").lease("a", "w1").lease("b", "w2").completes("b").cancel();
    let (task, lease) = (bench.at("a"), bench.token("a"));
    let reason = v1::CancelReason::RunCancelled;
    assert!(bench.effects().contains(&Effect::Cancel { task, lease, reason, grace_ms: 10 * SECOND }));
    bench
        .expect_status(v1::RunStatus::Cancelling)
        .expect_task("c", v1::TaskState::Deleted, v1::ResultStatus::Cancelled)
        .stops("a")
        .expect_task("a", v1::TaskState::Failed, v1::ResultStatus::Cancelled)
        .expect_succeeded("b")
        .expect_outcome(v1::RunOutcome::Cancelled);
}

#[test]
fn a_run_that_has_no_lease_is_cancelled_at_once() {
    Bench::plan("a b").cancel().expect_outcome(v1::RunOutcome::Cancelled);
}

#[test]
fn a_result_that_meets_the_cancel_is_kept_and_does_not_count() {
    let bench = Bench::plan("a").lease("a", "w1").cancel().completes_with("a", "\"late\"");
    assert_eq!(bench.task("a").output, Some(json("\"late\"")));
    bench
        .expect_task("a", v1::TaskState::Failed, v1::ResultStatus::Cancelled)
        .expect_outcome(v1::RunOutcome::Cancelled);
}

#[test]
fn the_grace_ends_by_force() {
    let bench = Bench::plan("a").lease("a", "w1").cancel().after(10 * SECOND - 1).expect_unsettled("a");
    let (task, lease) = (bench.at("a"), bench.token("a"));
    let bench = bench.after(1).expect_outcome(v1::RunOutcome::Cancelled);
    assert_eq!(bench.effects(), [Effect::Revoke { task, lease }, Effect::Finish]);
}

#[test]
fn force_does_not_wait_for_the_grace() {
    let bench =
        Bench::plan("a b").lease("a", "w1").cancel_by_force().expect_outcome(v1::RunOutcome::Cancelled);
    assert!(bench.effects().iter().any(|effect| matches!(effect, Effect::Revoke { .. })));
}

#[test]
fn force_may_follow_a_polite_cancel() {
    Bench::plan("a").lease("a", "w1").cancel().cancel_by_force().expect_outcome(v1::RunOutcome::Cancelled);
}

#[test]
fn an_abort_stays_an_abort_though_the_user_cancels_too() {
    let bench = Bench::plan("a b").lease_all().fails("a", "STATE_CORRUPTED").cancel_by_force();
    bench.expect_outcome(v1::RunOutcome::Failed).expect_run_error("NON_RETRYABLE_ERROR");
}

#[test]
fn a_paused_run_can_be_cancelled() {
    Bench::plan("a b").lease("a", "w1").pause().cancel().stops("a").expect_outcome(v1::RunOutcome::Cancelled);
}

#[test]
fn a_task_that_waits_for_its_next_attempt_is_cancelled_as_failed() {
    let bench = Bench::plan("a").lease("a", "w1").fails("a", "NETWORK_ERROR").cancel();
    bench
        .expect_task("a", v1::TaskState::Failed, v1::ResultStatus::Cancelled)
        .expect_outcome(v1::RunOutcome::Cancelled);
}

#[test]
fn a_task_whose_outcome_is_unknown_is_cancelled() {
    Bench::plan("a@once").lease("a", "w1").loses("a").cancel().expect_outcome(v1::RunOutcome::Cancelled);
}

#[test]
fn a_cancelled_run_makes_no_further_attempt() {
    let bench = Bench::with("a", attempt_limit).lease("a", "w1").after(SECOND).cancel();
    bench.clone_run().stops("a").expect_outcome(v1::RunOutcome::Cancelled);
    bench.clone_run().fails("a", "NETWORK_ERROR").expect_outcome(v1::RunOutcome::Cancelled);
    bench.clone_run().loses("a").expect_outcome(v1::RunOutcome::Cancelled);
    bench.after(10 * SECOND).expect_outcome(v1::RunOutcome::Cancelled);
}

#[test]
fn a_cancelled_run_asks_nothing() {
    let bench = Bench::with("a@once", attempt_limit).lease("a", "w1").after(SECOND).cancel();
    bench.clone_run().loses("a").expect_outcome(v1::RunOutcome::Cancelled);
    bench.after(10 * SECOND).expect_outcome(v1::RunOutcome::Cancelled);
}

#[test]
fn a_failure_while_the_run_ends_is_no_question() {
    let bench = Bench::with("a", |plan| {
        plan.on_high = Some(v1::OnHigh::Pause as i32);
        plan.timeouts = Some(v1::TimeoutPolicy { timeout_ms: Some(SECOND), ..v1::TimeoutPolicy::default() });
    });
    let bench = bench.lease("a", "w1").after(SECOND).cancel().after(10 * SECOND).expect_timed_out("a");
    assert_eq!(bench.count("question_asked"), 1, "that of the deadline, before the cancel");
    bench.expect_outcome(v1::RunOutcome::Cancelled);
}

#[test]
fn a_decided_wave_makes_no_further_attempt() {
    let bench =
        Bench::with("fail_fast: a b", attempt_limit).lease("a", "w1").after(SECOND / 2).lease("b", "w2");
    let bench = bench.after(SECOND / 2).fails("b", "BAD").stops("a");
    bench
        .expect_task("a", v1::TaskState::Failed, v1::ResultStatus::Cancelled)
        .expect_outcome(v1::RunOutcome::Failed);
}

#[test]
fn more_time_does_not_keep_a_run_from_its_end() {
    let timeout = |plan: &mut v1::Plan| {
        plan.timeouts = Some(v1::TimeoutPolicy { timeout_ms: Some(SECOND), ..v1::TimeoutPolicy::default() });
    };
    let bench =
        Bench::with("a", timeout).lease("a", "w1").after(SECOND).cancel().input(extend("a", MINUTE, ""));
    assert!(matches!(bench.last, Err(Refusal::Rule(_))));
    bench.after(10 * SECOND).expect_timed_out("a").expect_outcome(v1::RunOutcome::Cancelled);
}

#[test]
fn a_task_stopped_for_another_reason_than_its_deadline_gets_no_more_time() {
    let bench = Bench::plan("fail_fast: a b").lease_all().fails("a", "BAD").input(extend("b", MINUTE, ""));
    assert_eq!(bench.expect_rule().code, "INVALID_STATE_TRANSITION");
    let bench = Bench::with("a", attempt_limit).lease("a", "w1").after(SECOND).input(extend("a", MINUTE, ""));
    assert_eq!(bench.expect_rule().code, "INVALID_STATE_TRANSITION");
}
