//! The limits of time (seed 000, contract 3).

use super::*;

const HALF_AN_HOUR: i64 = 30 * MINUTE;

fn timeouts(timeout_ms: i64, schedule_to_start_ms: Option<i64>) -> impl FnOnce(&mut v1::Plan) {
    move |plan| {
        let policy =
            v1::TimeoutPolicy { timeout_ms: Some(timeout_ms), schedule_to_start_ms, ..Default::default() };
        plan.timeouts = Some(policy);
    }
}

fn short() -> Bench {
    Bench::with("a", timeouts(SECOND, None)).lease("a", "w1")
}

/// Seed 000, scenario 3.
// S000-C3-01, S000-C3-09, S000-C3-10, S000-C3-12, S000-SC-04
#[test]
fn a_timeout_warns_cancels_waits_and_then_forces() {
    let bench = Bench::plan("explore-codebase b c").lease_all().completes("b").completes("c");
    let task = bench.at("explore-codebase");
    let lease = bench.token("explore-codebase");

    let bench = bench.after(HALF_AN_HOUR - MINUTE);
    assert_eq!(bench.notices("TIMEOUT_IMMINENT").len(), 0, "a whole minute is left");
    let bench = bench.after(1);
    let [notice] = bench.notices("TIMEOUT_IMMINENT").try_into().unwrap();
    assert_eq!(notice.notice.unwrap().severity, v1::Severity::Medium as i32);

    let bench = bench.after(MINUTE - 1).expect_kinds(&["task_cancel_requested", "question_asked"]);
    let reason = v1::CancelReason::Timeout;
    assert_eq!(bench.effects(), [Effect::Cancel { task, lease, reason, grace_ms: 10 * SECOND }]);

    let bench = bench.after(10 * SECOND).expect_timed_out("explore-codebase");
    assert_eq!(bench.effects(), [Effect::Revoke { task, lease }, Effect::Finish]);
    assert_eq!(bench.notices("TIMEOUT_IMMINENT").len(), 1, "given once");
    let error = bench.error("explore-codebase");
    assert_eq!(error.severity, v1::Severity::High as i32);
    let detail = error.timeout.unwrap();
    assert_eq!((detail.configured_timeout_ms, detail.elapsed_ms), (HALF_AN_HOUR, HALF_AN_HOUR + 10 * SECOND));
    bench.expect_outcome(v1::RunOutcome::SucceededWithFailures);
}

#[test]
fn a_timeout_of_a_minute_or_less_gives_no_warning() {
    let bench =
        Bench::with("a", timeouts(MINUTE, None)).lease("a", "w1").after(2 * MINUTE).expect_timed_out("a");
    assert_eq!(bench.notices("TIMEOUT_IMMINENT").len(), 0);
}

#[test]
fn a_warning_that_comes_after_the_deadline_is_not_given() {
    let bench = Bench::plan("a")
        .lease("a", "w1")
        .away(HALF_AN_HOUR)
        .expect_kinds(&["task_cancel_requested", "question_asked"]);
    assert_eq!(bench.notices("TIMEOUT_IMMINENT").len(), 0);
}

// S000-C3-02, S000-CL-05
#[test]
fn the_timeout_spans_all_attempts() {
    let bench = Bench::with("a", timeouts(10 * SECOND, None)).lease("a", "w1").after(5 * SECOND);
    let bench = bench.fails("a", "NETWORK_ERROR").after(SECOND).lease("a", "w2");
    assert_eq!(bench.task("a").deadline_ms, Some(START + 10 * SECOND));
    bench.after(4 * SECOND).expect_kinds(&["task_cancel_requested", "question_asked"]);
}

// S000-C3-03, S000-CL-05
#[test]
fn the_time_in_a_queue_before_the_first_lease_does_not_count() {
    let bench = Bench::plan("a").after(HALF_AN_HOUR).lease("a", "w1");
    assert_eq!(bench.task("a").deadline_ms, Some(START + 2 * HALF_AN_HOUR));
}

#[test]
fn a_result_in_the_grace_counts_as_timeout_and_keeps_the_output() {
    let bench = short().after(SECOND).after(5 * SECOND).completes_with("a", "\"late\"").expect_timed_out("a");
    let detail = bench.error("a").timeout.unwrap();
    assert_eq!(detail.partial_output, Some(json("\"late\"")));
    assert_eq!(detail.last_health_check_ms, Some(START + 6 * SECOND));
}

#[test]
fn a_partial_answer_to_the_cancel_is_kept() {
    let bench =
        short().after(SECOND).report("a", Report::Cancelled(Some(json("\"half\"")))).expect_timed_out("a");
    assert_eq!(bench.error("a").timeout.unwrap().partial_output, Some(json("\"half\"")));
}

// S000-C3-14, S000-C3-15
#[test]
fn a_forced_end_keeps_what_the_worker_has_shown() {
    let mut bench = short().after(SECOND);
    bench.now = bench.now.plus(10 * SECOND);
    assert_eq!(bench.state.due(bench.now).collect::<Vec<_>>(), [bench.at("a")]);
    let observed =
        Observed { last_frame: Some(Timestamp(START + 3)), partial_output: Some(json("\"half\"")) };
    let bench = bench.tick_seeing("a", observed).expect_timed_out("a");
    let detail = bench.error("a").timeout.unwrap();
    assert_eq!(detail.last_health_check_ms, Some(START + 3));
    assert_eq!(detail.partial_output, Some(json("\"half\"")));
}

#[test]
fn after_the_grace_nothing_is_left_to_extend() {
    let bench = short().after(11 * SECOND).expect_timed_out("a");
    assert_eq!(bench.error("a").options, ["terminate", "retry", "abort"]);
}

// S000-C3-18
#[test]
fn more_time_before_the_deadline_moves_it() {
    let bench = short().after(SECOND / 2).extend("a", 15 * MINUTE).expect_kinds(&["task_extended"]);
    let (task, lease) = (bench.at("a"), bench.token("a"));
    let deadline = Moment::first(Wall(START + SECOND + 15 * MINUTE));
    assert_eq!(bench.effects(), [Effect::Extend { task, lease, deadline, cancel_withdrawn: false }]);
    let bench = bench.after(15 * MINUTE).expect_unsettled("a");
    bench.after(SECOND / 2).expect_kinds(&["task_cancel_requested", "question_asked"]);
}

// S000-C3-17
#[test]
fn more_time_within_the_grace_withdraws_the_cancel() {
    let bench = short().after(SECOND).after(9 * SECOND).extend("a", 15 * MINUTE);
    let (task, lease) = (bench.at("a"), bench.token("a"));
    let deadline = Moment::first(Wall(START + SECOND + 15 * MINUTE));
    assert_eq!(bench.effects(), [Effect::Extend { task, lease, deadline, cancel_withdrawn: true }]);
    bench.after(5 * MINUTE).completes("a").expect_succeeded("a");
}

#[test]
fn more_time_is_warned_of_again() {
    let bench = Bench::plan("a").lease("a", "w1").after(HALF_AN_HOUR).extend("a", 15 * MINUTE);
    let bench = bench.after(15 * MINUTE);
    assert_eq!(bench.notices("TIMEOUT_IMMINENT").len(), 2, "once for each deadline");
}

#[test]
fn the_warning_goes_by_all_of_the_time_that_there_is() {
    let five = |plan: &mut v1::Plan| {
        plan.timeouts = Some(v1::TimeoutPolicy { timeout_ms: Some(5 * SECOND), ..Default::default() });
    };
    let bench = Bench::with("a", five).lease("a", "w1").after(4 * SECOND).extend("a", 62 * SECOND);
    let bench = bench.after(3 * SECOND);
    assert_eq!(bench.notices("TIMEOUT_IMMINENT").len(), 0, "a whole minute is left");
    let bench = bench.after(1);
    assert_eq!(bench.notices("TIMEOUT_IMMINENT").len(), 1, "67 s in all");
    bench.after(MINUTE - 1).expect_kinds(&["task_cancel_requested", "question_asked"]);
    // In all a minute, of which some is over.
    let bench = Bench::with("a", five).lease("a", "w1").after(4 * SECOND).extend("a", 55 * SECOND);
    assert_eq!(bench.after(2 * MINUTE).notices("TIMEOUT_IMMINENT").len(), 0);
}

#[test]
fn a_late_extension_still_lies_in_the_future() {
    let bench = Bench::with("a", |plan| {
        let policy =
            v1::TimeoutPolicy { timeout_ms: Some(SECOND), grace_ms: Some(MINUTE), ..Default::default() };
        plan.timeouts = Some(policy);
    });
    let bench = bench.lease("a", "w1").after(SECOND).after(30 * SECOND).extend("a", SECOND);
    assert_eq!(bench.task("a").deadline_ms, Some(bench.now.0 + 1));
}

// S000-C3-19
#[test]
fn after_the_end_no_time_can_be_added() {
    let bench = Bench::with("a b", timeouts(SECOND, None))
        .lease("a", "w1")
        .after(11 * SECOND)
        .input(extend("a", SECOND, ""));
    let error = bench.expect_rule();
    assert_eq!(error.code, "INVALID_STATE_TRANSITION");
    assert_eq!(error.message, "task \"a\" is FAILED and has no time that runs");
}

// S000-C3-19
#[test]
fn a_task_that_nobody_has_taken_has_no_deadline_to_move() {
    let error = Bench::plan("a").input(extend("a", SECOND, "")).expect_rule();
    assert_eq!(error.message, "task \"a\" is INIT and has no time that runs");
    assert_eq!(error.reason.as_deref(), Some("INIT may be followed by ACTIVE, FAILED, DELETED"));
}

// S000-C2-10
#[test]
fn a_task_may_wait_for_a_worker_only_so_long() {
    let bench = Bench::with("a b", timeouts(MINUTE, Some(5 * SECOND))).lease("b", "w1");
    let bench = bench.after(5 * SECOND - 1).expect_unsettled("a").after(1);
    let bench =
        bench.expect_task("a", v1::TaskState::Failed, v1::ResultStatus::Timeout).expect_unsettled("b");
    assert_eq!(bench.error("a").code, "SCHEDULE_TO_START_TIMEOUT");
    assert_eq!(bench.notices("INCOMPLETE_LIFECYCLE").len(), 1, "it failed and never was ACTIVE");
}

#[test]
fn each_wait_for_a_worker_counts_from_its_own_beginning() {
    let bench = Bench::with("a", timeouts(MINUTE, Some(5 * SECOND))).after(4 * SECOND).lease("a", "w1");
    let bench = bench.after(10 * SECOND).loses("a").after(5 * SECOND - 1).expect_unsettled("a");
    bench.after(1).expect_task("a", v1::TaskState::Failed, v1::ResultStatus::Timeout);
}

#[test]
fn paused_time_does_not_count_toward_the_wait_for_a_worker() {
    let bench = Bench::with("a", timeouts(MINUTE, Some(5 * SECOND))).after(4 * SECOND).pause();
    let bench = bench.after(MINUTE).expect_unsettled("a").resume().after(SECOND - 1).expect_unsettled("a");
    bench.after(1).expect_task("a", v1::TaskState::Failed, v1::ResultStatus::Timeout);
}

#[test]
fn a_task_that_begins_to_wait_during_a_pause_has_its_whole_time_after_it() {
    let bench = Bench::with("a", timeouts(10 * MINUTE, Some(5 * SECOND))).lease("a", "w1").pause();
    let bench = bench.after(MINUTE).loses("a").after(MINUTE).resume();
    let bench = bench.after(5 * SECOND - 1).expect_unsettled("a");
    bench.after(1).expect_task("a", v1::TaskState::Failed, v1::ResultStatus::Timeout);
}

#[test]
fn a_running_tasks_deadline_passes_while_the_run_is_paused() {
    short().pause().after(11 * SECOND).expect_timed_out("a").expect_outcome(v1::RunOutcome::Failed);
}

#[test]
fn a_clock_may_go_backwards_and_the_runs_time_does_not() {
    let mut bench = Bench::plan("a").after(MINUTE).lease("a", "w1");
    bench.now = Timestamp(START - MINUTE);
    let bench = bench.completes("a").expect_succeeded("a");
    assert_eq!(bench.state.updated_at_ms(), START + MINUTE);
}

const YEAR: i64 = 365 * 24 * 60 * MINUTE;

#[test]
fn the_clock_on_the_wall_jumps_and_deadlines_stay_as_far_ahead_as_they_were() {
    for jump in [YEAR, -YEAR] {
        let bench = Bench::with("a b", timeouts(2 * SECOND, None)).lease("a", "w1").after(SECOND);
        // What is begun after the jump has the same time as what was begun before it.
        let bench = bench.wall_jumps(jump).lease("b", "w2").after(SECOND - 1).expect_unsettled("a");
        let bench =
            bench.after(1).expect_kinds(&["task_cancel_requested", "question_asked"]).after(SECOND - 1);
        bench.after(1).expect_kinds(&["task_cancel_requested", "question_asked"]).expect_unsettled("b");
    }
}

#[test]
fn a_retry_is_due_after_its_delay_wherever_the_clock_on_the_wall_stands() {
    for jump in [YEAR, -YEAR] {
        let bench = Bench::plan("a").lease("a", "w1").fails("a", "NETWORK_ERROR").wall_jumps(jump);
        // The first delay is 2 s (seed 000, contract 4).
        bench.after(2 * SECOND - 1).after(1).expect_kinds(&["task_retry_due"]);
    }
}

#[test]
fn people_read_what_the_clock_on_the_wall_says_and_that_it_never_runs_backwards() {
    let bench = short().after(SECOND / 2).wall_jumps(YEAR).extend("a", MINUTE);
    // A deadline is shown by the clock as it stood when the task began.
    let at = START + SECOND / 2 + YEAR;
    let deadline = START + SECOND + MINUTE;
    assert_eq!((bench.state.updated_at_ms(), bench.task("a").deadline_ms), (at, Some(deadline)));
    let bench = bench.wall_jumps(-2 * YEAR).completes("a").expect_succeeded("a");
    assert_eq!(bench.state.updated_at_ms(), at);
    assert_eq!(bench.state.result(0).unwrap().duration_ms, SECOND / 2);
}

#[test]
fn the_time_in_which_nobody_has_the_run_is_what_the_clock_on_the_wall_says_and_never_negative() {
    let bench = short().after(SECOND / 2);
    let taken_up = |wall: i64| bench.state.taken_up_at(Wall(wall)).0;
    assert_eq!(taken_up(bench.state.updated_at_ms() + 300), bench.state.last().clock.0 + 300);
    assert_eq!(taken_up(bench.state.updated_at_ms() - YEAR), bench.state.last().clock.0);
    assert_eq!(taken_up(i64::MIN), bench.state.last().clock.0);
}

#[test]
fn timers_that_are_long_overdue_fire_in_their_order() {
    let bench = Bench::with("a b", timeouts(2 * SECOND, None)).lease_all().fails("a", "NETWORK_ERROR");
    // The retry was due first, then the deadlines; the grace of b begins now.
    let bench = bench.away(MINUTE).expect_kinds(&[
        "task_retry_due",
        "task_settled",
        "task_cancel_requested",
        "question_asked",
    ]);
    bench.expect_timed_out("a").after(10 * SECOND).expect_timed_out("b");
}

// S000-C3-12
#[test]
fn without_grace_the_end_is_forced_at_once() {
    let bench = Bench::with("a", |plan| {
        let policy = v1::TimeoutPolicy { timeout_ms: Some(SECOND), grace_ms: Some(0), ..Default::default() };
        plan.timeouts = Some(policy);
    });
    bench.lease("a", "w1").after(SECOND).expect_timed_out("a");
}
