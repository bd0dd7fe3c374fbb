//! Who may answer for a task: fencing, lost workers, repeated answers.

use super::*;
use v1::LeaseLossReason::{Disconnected, NotAcknowledged, Returned, ReturnedTooOften};
use v1::RefusalReason::{AlreadySettled, NotBegun, NotYours, StaleLease, UnknownTask};

fn completed(task: TaskRef, lease: u64, worker: &str) -> Input {
    reported(task, lease, worker, Report::Completed(json("1")))
}

#[track_caller]
fn check_refused(bench: &Bench, task: TaskRef, lease: u64, worker: &str, reason: v1::RefusalReason) {
    let worker = worker.to_owned();
    assert_eq!(bench.effects(), [Effect::Refuse { task, lease, worker, reason, error: None }]);
}

#[test]
fn a_lost_lease_is_no_attempt() {
    let bench = Bench::plan("a").lease("a", "w1");
    let (task, lease) = (bench.at("a"), bench.token("a"));
    let bench = bench.loses("a").expect_kinds(&["task_lease_lost"]);
    assert_eq!(bench.effects(), [Effect::Revoke { task, lease }, Effect::Enqueue { task }]);
    let bench = bench.lease("a", "w2");
    assert_eq!(bench.task("a").attempt, 1);
    let bench = bench.completes("a").expect_succeeded("a");
    assert_eq!(bench.notices("RETRY_SUCCESS").len(), 0);
}

#[test]
fn the_fifth_lost_lease_fails_the_task() {
    let mut bench = Bench::plan("a");
    for _ in 0..4 {
        bench = bench.lease("a", "w1").loses("a").expect_unsettled("a");
    }
    let bench = bench.lease("a", "w1").loses("a").expect_failed("a", "WORKER_LOST");
    assert_eq!(bench.effects().iter().filter(|effect| matches!(effect, Effect::Revoke { .. })).count(), 1);
}

#[test]
fn a_loss_of_a_lease_that_is_over_changes_nothing() {
    let bench = Bench::plan("a").lease("a", "w1");
    let (task, lease) = (bench.at("a"), bench.token("a"));
    let bench = bench.loses("a").input(Input::LeaseLost { task, lease, reason: Disconnected });
    assert_eq!(bench.expect_refusal(), Refusal::Outdated);
}

#[test]
fn a_worker_lost_in_the_grace_has_stopped() {
    let bench = Bench::with("a", |plan| {
        plan.timeouts = Some(v1::TimeoutPolicy { timeout_ms: Some(SECOND), ..Default::default() });
    });
    bench.lease("a", "w1").after(SECOND).loses("a").expect_timed_out("a");
}

#[test]
fn the_late_result_of_an_old_lease_is_refused_and_recorded_once() {
    let bench = Bench::plan("a").lease("a", "w1");
    let (task, old) = (bench.at("a"), bench.token("a"));
    let bench =
        bench.loses("a").lease("a", "w2").does(completed(task, old, "w1")).expect_kinds(&["result_refused"]);
    check_refused(&bench, task, old, "w1", StaleLease);
    let bench = bench.does(completed(task, old, "w1")).expect_kinds(&[]);
    check_refused(&bench, task, old, "w1", StaleLease);
    let bench = bench.expect_unsettled("a").completes("a").expect_outcome(v1::RunOutcome::Succeeded);
    assert_eq!(bench.count("result_refused"), 1);
}

#[test]
fn a_result_for_a_task_that_waits_is_refused() {
    let bench = Bench::plan("a").lease("a", "w1");
    let (task, old) = (bench.at("a"), bench.token("a"));
    let bench = bench.loses("a").does(completed(task, old, "w1")).expect_unsettled("a");
    check_refused(&bench, task, old, "w1", StaleLease);
}

#[test]
fn the_same_result_twice_is_accepted_twice_and_counted_once() {
    let bench = Bench::plan("a b").lease_all();
    let (task, lease) = (bench.at("a"), bench.token("a"));
    let bench = bench.completes("a").does(completed(task, lease, "a")).expect_kinds(&[]);
    assert_eq!(bench.effects(), [Effect::Accept { task, lease }]);
    assert_eq!(bench.state.progress(), (1, 2));
}

#[test]
fn another_workers_result_is_refused() {
    let bench = Bench::plan("a b").lease("a", "w1");
    let (task, lease) = (bench.at("a"), bench.token("a"));
    let bench = bench.does(completed(task, lease, "liar")).expect_unsettled("a");
    check_refused(&bench, task, lease, "liar", NotYours);
    let bench = bench.completes("a").expect_succeeded("a").does(completed(task, lease, "liar"));
    check_refused(&bench, task, lease, "liar", AlreadySettled);
}

#[test]
fn a_result_after_a_forced_end_is_refused() {
    let bench = Bench::plan("a b").lease("a", "w1").lease("b", "w2");
    let (task, lease) = (bench.at("a"), bench.token("a"));
    let bench = bench.after(30 * MINUTE + 10 * SECOND).expect_timed_out("a").expect_timed_out("b");
    let bench = bench.does(completed(task, lease, "w1")).expect_kinds(&[]);
    check_refused(&bench, task, lease, "w1", AlreadySettled);
}

#[test]
fn a_result_for_no_task_at_all_is_refused_and_not_recorded() {
    let bench = Bench::plan("a | b");
    let nowhere = TaskRef { wave: u32::MAX, task: u32::MAX };
    let bench = bench.does(completed(nowhere, u64::MAX, "w1")).expect_kinds(&[]);
    check_refused(&bench, nowhere, u64::MAX, "w1", UnknownTask);
}

/// The seed's sixth scenario: INIT -> COMPLETE is no step of the lifecycle, in the wave in work and in a later one.
// S000-SC-07
#[test]
fn who_would_complete_a_task_in_init_is_refused_with_the_transition_and_that_is_recorded_once() {
    #[track_caller]
    fn check(bench: &Bench, task: TaskRef, lease: u64) {
        let effects = bench.effects();
        let [Effect::Refuse { task: of, lease: named, worker, reason, error: Some(error) }] = effects else {
            panic!("{effects:?}")
        };
        assert_eq!((*of, *named, worker.as_str(), *reason), (task, lease, "w1", NotBegun));
        assert_eq!((error.code.as_str(), error.severity()), ("INVALID_STATE_TRANSITION", v1::Severity::High));
        assert_eq!(error.message, "invalid transition: INIT -> COMPLETE");
        assert_eq!(error.suggested_action.as_deref(), Some("INIT -> ACTIVE -> COMPLETE"));
    }
    let mut bench = Bench::plan("a | b");
    for name in ["a", "b"] {
        let task = bench.at(name);
        bench = bench.does(completed(task, 2, "w1")).expect_kinds(&["result_refused"]);
        check(&bench, task, 2);
        // Whoever lies on, with whatever lease, does not make the log grow.
        for lease in [2, 3, u64::MAX] {
            bench = bench.does(completed(task, lease, "w1")).expect_kinds(&[]);
            check(&bench, task, lease);
        }
    }
    // A failure is a step that the lifecycle has, and nobody was given the task all the same.
    let task = bench.at("b");
    let failed = Report::Failed(v1::Error::default());
    let bench = bench.does(reported(task, 2, "w1", failed)).expect_kinds(&[]);
    check_refused(&bench, task, 2, "w1", NotBegun);
    assert_eq!(bench.run().waves[1].tasks[0].state(), v1::TaskState::Init);
    // What was refused changes nothing for the lease that is given later, whatever its number.
    let bench = bench.lease("a", "w1").completes("a").lease("b", "w1");
    let (task, lease) = (bench.at("b"), bench.token("b"));
    let bench = bench.loses("b").does(completed(task, lease, "w1")).expect_kinds(&["result_refused"]);
    check_refused(&bench, task, lease, "w1", StaleLease);
}

#[test]
fn a_run_says_whether_it_has_refused_to_complete_a_task_in_init() {
    let bench = Bench::plan("a");
    assert!(!bench.state.has_refused_completions());
    let task = bench.at("a");
    let bench = bench.does(reported(task, 2, "w1", Report::Failed(v1::Error::default())));
    assert!(!bench.state.has_refused_completions(), "a failure completes nothing");
    let bench = bench.does(completed(task, 2, "w1")).expect_kinds(&["result_refused"]);
    assert!(bench.state.has_refused_completions());
}

#[test]
fn nothing_is_recorded_after_the_end_of_the_run() {
    let bench = Bench::plan("a").lease("a", "w1");
    let (task, old) = (bench.at("a"), bench.token("a"));
    let bench = bench.loses("a").lease("a", "w2").completes("a").expect_outcome(v1::RunOutcome::Succeeded);
    let bench = bench.does(completed(task, old, "w1")).expect_kinds(&[]);
    check_refused(&bench, task, old, "w1", AlreadySettled);
}

#[test]
fn tokens_increase_from_lease_to_lease() {
    let bench = Bench::plan("a").lease("a", "w1");
    let first = bench.token("a");
    let bench = bench.loses("a").lease("a", "w1");
    assert!(bench.token("a") > first);
}

#[test]
fn a_task_is_leased_once_at_a_time() {
    let bench = Bench::plan("a").lease("a", "w1");
    let task = bench.at("a");
    let bench = bench.input(Input::Lease {
        output_schema: None,
        cancel_is_final: false,
        mark: 0,
        task,
        worker: "w2".to_owned(),
    });
    assert_eq!(bench.expect_refusal(), Refusal::Outdated);
}

#[test]
fn an_absent_agent_is_told_of_once() {
    let bench = Bench::plan("a b").lease("b", "w1");
    let (waits, runs) = (bench.at("a"), bench.at("b"));
    let bench = bench.does(Input::AgentAbsent { task: waits });
    let [notice] = bench.notices("AGENT_ABSENT").try_into().unwrap();
    assert_eq!(notice.task, Some(waits.task));
    let bench = bench.input(Input::AgentAbsent { task: waits });
    assert_eq!(bench.last, Err(Refusal::Outdated));
    assert_eq!(bench.input(Input::AgentAbsent { task: runs }).expect_refusal(), Refusal::Outdated);
}

#[test]
fn what_must_run_at_most_once_is_not_given_to_another_worker_by_itself() {
    let bench = Bench::plan("a@once b").lease("a", "w1");
    let (task, lease) = (bench.at("a"), bench.token("a"));
    let bench = bench.loses("a").expect_kinds(&["question_asked"]).expect_status(v1::RunStatus::Waiting);
    assert_eq!(bench.effects(), [Effect::Revoke { task, lease }, Effect::Hold]);
    let [question] = bench.run().questions.try_into().unwrap();
    assert_eq!(question.options, ["retry", "succeeded", "failed", "abort"]);
    assert_eq!(question.error.unwrap().code, "OUTCOME_UNKNOWN");
    assert_eq!(bench.state.queued().collect::<Vec<_>>(), [bench.at("b")]);
}

#[test]
fn what_was_given_back_unbegun_may_be_given_to_another_worker() {
    let bench = Bench::plan("a@once").lease("a", "w1");
    let (task, lease) = (bench.at("a"), bench.token("a"));
    let bench = bench.loses_because("a", Returned).expect_kinds(&["task_lease_lost"]);
    assert_eq!(bench.effects(), [Effect::Revoke { task, lease }, Effect::Enqueue { task }]);
    let Some(Body::TaskLeaseLost(lost)) = bench.ledger.events.last().and_then(|event| event.body.as_ref())
    else {
        panic!("no lease was lost")
    };
    assert_eq!((lost.reason(), lost.losses), (Returned, 0), "it is no loss");
    let bench = bench.expect_status(v1::RunStatus::Running).lease("a", "w2");
    let view = bench.task("a");
    assert_eq!((view.attempt, view.worker.as_deref()), (1, Some("w2")), "it is no attempt");
    let bench = bench.completes("a").expect_outcome(v1::RunOutcome::Succeeded);
    assert_eq!(bench.task("a").attempts.len(), 1);
    assert_eq!(bench.notices("RETRY_SUCCESS").len(), 0);
}

#[test]
fn a_worker_that_did_not_acknowledge_may_have_begun_all_the_same() {
    Bench::plan("a@once")
        .lease("a", "w1")
        .loses_because("a", NotAcknowledged)
        .expect_kinds(&["question_asked"]);
}

#[test]
fn a_task_that_is_given_back_again_and_again_has_lost_no_worker() {
    let mut bench = Bench::plan("a");
    for _ in 0..10 {
        bench = bench.lease("a", "w1").loses_because("a", Returned).expect_kinds(&["task_lease_lost"]);
    }
    bench.lease("a", "w1").completes("a").expect_outcome(v1::RunOutcome::Succeeded);
}

#[test]
fn a_task_that_no_worker_takes_does_not_go_round_for_ever_and_nobody_is_asked_what_became_of_it() {
    for plan in ["a", "a@once"] {
        let mut bench = Bench::plan(plan);
        for _ in 0..4 {
            bench = bench
                .lease("a", "w1")
                .loses_because("a", ReturnedTooOften)
                .expect_kinds(&["task_lease_lost"]);
        }
        bench.lease("a", "w1").loses_because("a", ReturnedTooOften).expect_failed("a", "WORKER_LOST");
    }
}

#[test]
fn a_run_that_outgrows_its_limit_fails_without_waiting_for_anybody() {
    Bench::plan("a b")
        .lease("a", "w1")
        .does(Input::LimitExceeded { limit: 3 })
        .expect_outcome(v1::RunOutcome::Failed)
        .expect_run_error("RUN_LIMIT_EXCEEDED");
}

#[test]
fn nobody_knows_what_an_attempt_has_done_that_did_not_answer_its_cancel() {
    let limit = |plan: &mut v1::Plan| {
        plan.retry =
            Some(v1::RetryPolicy { timeout_per_attempt_ms: Some(SECOND), ..v1::RetryPolicy::default() });
    };
    let bench = Bench::with("a@once", limit).lease("a", "w1");
    let (task, lease) = (bench.at("a"), bench.token("a"));
    let bench = bench.after(11 * SECOND).expect_kinds(&["question_asked"]);
    assert_eq!(bench.effects(), [Effect::Revoke { task, lease }, Effect::Hold]);
    // A worker that says that it has stopped has not done it.
    let bench = Bench::with("a@once", limit).lease("a", "w1").after(SECOND).stops("a");
    bench.expect_kinds(&["task_attempt_failed"]);
}

#[test]
fn a_very_deep_error_does_not_make_the_log_unreadable() {
    let mut error = failure("BAD");
    for depth in 0..97 {
        error = v1::Error {
            cause: Some(Box::new(error.clone())),
            details: vec![failure("DETAIL")],
            ..failure("BAD")
        };
        assert!(depth < 97);
    }
    let bench = Bench::with("a", |plan| plan.on_high = Some(v1::OnHigh::Pause as i32));
    let high = v1::Error { code: "TESTS_FAILED".to_owned(), ..error };
    bench.lease("a", "w1").report("a", Report::Failed(high)).expect_failed("a", "NON_RETRYABLE_ERROR");
}

#[test]
fn two_copies_of_a_run_give_tokens_that_differ_and_say_under_which_mark() {
    let run = Bench::plan("a b").lease("a", "w1");
    let (task, worker) = (run.at("b"), "w2".to_owned());
    let token = |mark: u32| {
        let copy = run.clone_run().does(Input::Lease {
            task,
            worker: worker.clone(),
            mark,
            output_schema: None,
            cancel_is_final: false,
        });
        copy.token("b")
    };
    // Format 2 gave the event's number, and so does whoever has no mark.
    let (before, none) = (run.token("a"), token(0));
    assert_eq!((before, none), (3, 4));
    let (left, right) = (token(7), token(u32::MAX));
    assert_eq!((left, right), (4 * (1 << 32) + 7, 4 * (1 << 32) + 0xffff_ffff));
    assert_eq!([before, none, left, right].map(mark_of), [0, 0, 7, u32::MAX]);
}

#[test]
fn a_late_result_of_a_marked_lease_is_refused_and_recorded_once() {
    let run = Bench::plan("a");
    let (task, worker) = (run.at("a"), "w1".to_owned());
    let run = run.does(Input::Lease { task, worker, mark: 9, output_schema: None, cancel_is_final: false });
    let old = run.token("a");
    let run = run.loses("a");
    let run = run.does(Input::Lease {
        task,
        worker: "w2".to_owned(),
        mark: 9,
        output_schema: None,
        cancel_is_final: false,
    });
    let late = || reported(task, old, "w1", Report::Completed(json("1")));
    let run = run.does(late()).expect_kinds(&["result_refused"]);
    let run = run.input(late());
    assert_eq!(run.last.as_ref().map(|decision| decision.count), Ok(0), "recorded already");
    // What was never given is not recorded.
    let never = reported(task, old + (1 << 40), "w1", Report::Completed(json("1")));
    assert_eq!(run.input(never).last.map(|decision| decision.count), Ok(0));
}
