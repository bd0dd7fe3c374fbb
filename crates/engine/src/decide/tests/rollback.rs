//! A user takes a task back (seed 000, contract 2).

use v1::TaskState::{Active, Complete, Failed, Init, RolledBack};

use super::*;

fn states(view: &v1::TaskView) -> Vec<v1::TaskState> {
    view.history.iter().map(v1::Transition::to).collect()
}

fn refused(bench: Bench, task: &str, cascade: bool) -> String {
    let error = bench.input(rollback(task, cascade, "refused")).expect_rule();
    assert_eq!((error.code.as_str(), error.severity()), ("INVALID_STATE_TRANSITION", v1::Severity::High));
    error.message
}

// S000-C2-15
#[test]
fn a_complete_task_is_taken_back_and_begins_anew() {
    let bench =
        Bench::plan("a b").lease_all().completes("a").roll_back("a").expect_kinds(&["task_rolled_back"]);
    let task = bench.at("a");
    assert_eq!(bench.effects(), [Effect::Enqueue { task }]);
    let view = bench.task("a");
    assert_eq!(states(&view), [Init, Active, Complete, RolledBack, Init]);
    assert_eq!((view.state(), view.activation, view.status, view.output), (Init, 2, None, None));
    assert_eq!(bench.state.progress(), (0, 2));
    let bench = bench.after(MINUTE).lease("a", "w2");
    assert_eq!(bench.task("a").deadline_ms, Some(bench.now.0 + 30 * MINUTE), "its time begins anew");
    bench.completes("a").completes("b").expect_outcome(v1::RunOutcome::Succeeded);
}

// S000-C2-15
#[test]
fn an_active_task_is_taken_from_its_worker_whose_result_no_longer_counts() {
    let bench = Bench::plan("a b").lease_all();
    let (task, lease) = (bench.at("a"), bench.token("a"));
    let bench = bench.roll_back("a");
    assert_eq!(bench.effects(), [Effect::Revoke { task, lease }, Effect::Enqueue { task }]);
    assert_eq!(states(&bench.task("a")), [Init, Active, RolledBack, Init]);
    let bench = bench.input(reported(task, lease, "w1", Report::Completed(json("1"))));
    assert_eq!(bench.kinds(), ["result_refused"]);
    bench.lease("a", "w2").completes("a").completes("b").expect_outcome(v1::RunOutcome::Succeeded);
}

#[test]
fn a_task_that_waits_for_its_next_attempt_is_taken_back_with_all_its_attempts() {
    let bench = Bench::plan("a").lease("a", "w1").fails("a", "NETWORK_ERROR").roll_back("a").lease("a", "w1");
    assert_eq!((bench.task("a").attempt, bench.task("a").attempts.len()), (1, 0));
}

#[test]
fn later_waves_that_have_begun_go_back_only_on_demand() {
    let bench = Bench::plan("a | b c d e f g | h").lease("a", "w1").completes("a");
    let bench = bench.lease_all().completes("b").fails("c", "BAD");
    let text = refused(bench.clone_run(), "a", false);
    assert!(text.contains(r#""b", "c", "d", "e", "f", … (+1)"#), "{text}");
    // Nothing of the refusal stays.
    let leases: Vec<_> = ["d", "e", "f", "g"].map(|name| (bench.at(name), bench.token(name))).into();
    let bench = bench.roll_back_all("a").expect_kinds(&["task_rolled_back"]);
    let revoked = leases.into_iter().map(|(task, lease)| Effect::Revoke { task, lease });
    let anew = Effect::Enqueue { task: bench.at("a") };
    assert_eq!(bench.effects(), revoked.chain([anew]).collect::<Vec<_>>());
    assert_eq!(states(&bench.task("b")), [Init, Active, Complete, RolledBack, Init]);
    assert_eq!(states(&bench.task("c")), [Init, Active, Failed, Active, RolledBack, Init], "by the table");
    assert_eq!(bench.state.progress(), (0, 8));
    assert_eq!(bench.run().summary.map(|summary| summary.total), Some(0));

    let bench = bench.lease("a", "w1").completes("a");
    bench.clone_run().expect_kinds(&["task_settled", "wave_finished", "wave_started"]);
    let activations = ["b", "c", "g", "h"].map(|name| bench.task(name).activation);
    assert_eq!(activations, [2, 2, 2, 0]);
    let mut bench = bench.lease_all();
    for name in ["b", "c", "d", "e", "f", "g"] {
        bench = bench.completes(name);
    }
    bench.lease("h", "w1").completes("h").expect_outcome(v1::RunOutcome::Succeeded);
}

#[test]
fn later_waves_of_which_nothing_has_begun_go_back_by_themselves() {
    let bench = Bench::plan("a | b").lease("a", "w1").completes("a");
    let (a, b) = (bench.at("a"), bench.at("b"));
    let bench = bench.roll_back("a");
    assert_eq!(bench.effects(), [Effect::Dequeue { task: b }, Effect::Enqueue { task: a }]);
    let bench = bench.lease("a", "w1").completes("a");
    assert_eq!(bench.task("b").activation, 1, "it has never begun");
    bench.lease("b", "w1").completes("b").expect_outcome(v1::RunOutcome::Succeeded);
}

#[test]
fn what_begins_again_gets_its_input_anew() {
    let edit = |plan: &mut v1::Plan| {
        plan.waves[0].tasks[0].input = Some(json(r#"{"n":1}"#));
        plan.waves[1].tasks[0].input = Some(json(r#"{"from":"${tasks.a.output}"}"#));
    };
    let bench = Bench::with("a | b", edit).lease("a", "w1").completes_with("a", "1").lease("b", "w1");
    let input =
        |bench: &Bench, name| bench.state.assignment(bench.at(name)).and_then(|view| view.input.cloned());
    assert_eq!(input(&bench, "b"), Some(json(r#"{"from":1}"#)));
    let bench = bench.completes("b");
    // The run has ended: too late.
    assert_eq!(bench.clone_run().input(rollback("a", true, "late")).expect_refusal(), Refusal::RunFinished);

    let bench = Bench::with("a | b", edit).lease("a", "w1").completes_with("a", "1").lease("b", "w1");
    let bench = bench.roll_back_all("a").lease("a", "w1");
    assert_eq!(input(&bench, "a"), Some(json(r#"{"n":1}"#)), "as declared");
    let bench = bench.completes_with("a", "2").lease("b", "w1");
    assert_eq!(input(&bench, "b"), Some(json(r#"{"from":2}"#)));
}

#[test]
fn the_rest_of_its_wave_keeps_what_it_has() {
    let edit = |plan: &mut v1::Plan| plan.waves[1].tasks[0].input = Some(json(r#""${tasks.b.output}""#));
    let bench = Bench::with("a b | c", edit).lease_all().completes("a").completes_with("b", "7");
    let bench = bench.roll_back("a").lease("a", "w1").completes("a").lease("c", "w1");
    assert_eq!((bench.task("b").activation, bench.task("b").state()), (1, Complete));
    let view = bench.state.assignment(bench.at("c")).unwrap();
    assert_eq!(view.input, Some(&json("7")));
}

#[test]
fn a_task_that_was_given_up_stays_so_when_its_wave_begins_again() {
    let asks = |plan: &mut v1::Plan| plan.on_high = Some(v1::OnHigh::Pause as i32);
    let bench = Bench::with("quorum: a | b c d", asks).lease("a", "w1").completes("a");
    let bench =
        bench.lease("b", "w1").completes("b").lease("c", "w1").fails("c", "TESTS_FAILED").answer("skip");
    let bench = bench.roll_back_all("a");
    assert_eq!(bench.state.progress(), (1, 4), "what is given up stays settled");
    assert_eq!(bench.run().summary.map(|summary| summary.high), Some(1), "and failed");
    assert_eq!(
        bench.clone_run().input(retry("c", "r")).expect_rule().reason.as_deref(),
        Some("nothing may follow DELETED")
    );
    let bench = bench.lease("a", "w1").completes("a");
    assert_eq!((bench.task("c").state(), bench.state.progress()), (v1::TaskState::Deleted, (2, 4)));
    let bench = bench.lease("b", "w1").completes("b").lease("d", "w1").completes("d");
    bench.expect_outcome(v1::RunOutcome::SucceededWithFailures);
}

#[test]
fn a_task_that_was_given_up_is_offered_to_nobody_when_its_wave_begins_again() {
    let edit = |plan: &mut v1::Plan| {
        plan.on_high = Some(v1::OnHigh::Pause as i32);
        plan.timeouts = Some(v1::TimeoutPolicy { schedule_to_start_ms: Some(MINUTE), ..Default::default() });
    };
    let bench = Bench::with("quorum: a | b c", edit).lease("a", "w1").completes("a");
    let bench = bench.lease("c", "w1").fails("c", "TESTS_FAILED").answer("skip");
    let bench = bench.roll_back("a").lease("a", "w1").completes("a");
    assert_eq!(bench.state.queued().collect::<Vec<_>>(), [bench.at("b")]);
}

#[test]
fn a_wave_that_was_decided_is_open_again_for_a_task_that_is_taken_back() {
    // One success of two is the quorum: `b`, which nobody has begun, is cancelled.
    let bench = Bench::plan("quorum early: a b | c").lease("a", "w1").completes("a");
    assert_eq!(bench.task("b").state(), v1::TaskState::Deleted);
    let bench = bench.roll_back("a").lease("a", "w1").fails("a", "NETWORK_ERROR");
    bench.expect_kinds(&["task_attempt_failed"]).after(SECOND).lease("a", "w1");
}

#[test]
fn a_task_that_only_the_end_of_its_wave_has_cancelled_waits_again_with_it() {
    // The wave of `b` is decided by its success: `c`, which nobody has begun, is DELETED.
    let bench = Bench::plan("quorum early: a | b c | d").lease("a", "w1").completes("a");
    let bench = bench.lease("b", "w1").completes("b").lease("d", "w1");
    assert_eq!(bench.task("c").state(), v1::TaskState::Deleted);
    let bench = bench.roll_back_all("a");
    assert_eq!(bench.state.progress(), (0, 4));
    let bench = bench.lease("a", "w1").completes("a").lease("b", "w1").fails("b", "BAD");
    let bench = bench.lease("c", "w1").completes("c").lease("d", "w1").completes("d");
    bench.expect_outcome(v1::RunOutcome::SucceededWithFailures);
}

#[test]
fn what_the_table_does_not_allow_is_refused_with_what_it_does() {
    let waiting = Bench::plan("a | b");
    let error = waiting.input(rollback("a", false, "r")).expect_rule();
    assert_eq!(error.message, "invalid transition: INIT -> ROLLED_BACK");
    assert_eq!(error.suggested_action.as_deref(), Some("INIT -> ACTIVE -> ROLLED_BACK"));
    let failed = Bench::plan("a b").lease_all().fails("a", "BAD");
    let error = failed.input(rollback("a", false, "r")).expect_rule();
    assert_eq!(error.suggested_action.as_deref(), Some("FAILED -> ACTIVE -> ROLLED_BACK"));
    let later = Bench::plan("a | b");
    assert_eq!(
        later.input(rollback("b", false, "r")).expect_rule().message,
        "invalid transition: INIT -> ROLLED_BACK"
    );
    let unknown = Bench::plan("a").input(rollback("b", false, "r")).expect_rule();
    assert_eq!(unknown.code, "TASK_NOT_FOUND");
}

#[test]
fn what_is_being_stopped_is_not_taken_back() {
    let cancelled = Bench::plan("a b").lease_all().completes("a").cancel();
    assert!(refused(cancelled, "a", false).contains("being stopped"));
    let decided = Bench::plan("fail_fast: a b").lease_all().fails("a", "BAD");
    assert!(refused(decided, "b", false).contains("being stopped"));
}

#[test]
fn a_run_that_is_paused_stays_so() {
    let bench = Bench::plan("a b").lease_all().completes("a").pause().roll_back("a");
    assert_eq!(bench.effects(), []);
    bench.resume().lease("a", "w1").completes("a").completes("b").expect_outcome(v1::RunOutcome::Succeeded);
}

#[test]
fn a_question_about_what_is_taken_back_is_withdrawn_and_holds_nothing() {
    let bench = Bench::plan("a@once b").lease_all().loses("a").expect_status(v1::RunStatus::Waiting);
    let bench = bench.roll_back("a").expect_kinds(&["task_rolled_back", "question_answered"]);
    assert!(bench.open().is_empty());
    let bench = bench.expect_status(v1::RunStatus::Running).lease("a", "w2").completes("a").completes("b");
    bench.expect_outcome(v1::RunOutcome::Succeeded);
}

#[test]
fn the_same_request_takes_back_once() {
    let bench = Bench::plan("a b").lease_all().completes("a").does(rollback("a", false, "r1"));
    let seq = bench.last.as_ref().unwrap().request_seq;
    let again = bench.lease("a", "w1").completes("a").does(rollback("a", false, "r1")).expect_kinds(&[]);
    assert_eq!(again.last.as_ref().unwrap().request_seq, seq);
    let other = again.input(rollback("a", true, "r1")).expect_refusal();
    assert_eq!(other, Refusal::RequestReused { request_id: "r1".to_owned() });
}

#[test]
fn a_task_that_is_a_run_at_work_is_not_taken_back_and_one_that_has_ended_gets_a_new_run() {
    let edit = |plan: &mut v1::Plan| {
        let work = v1::child_run::Work::Plan(super::plan("x"));
        plan.waves[0].tasks[0].agent = String::new();
        let run = v1::ChildRun { work: Some(work), ..v1::ChildRun::default() };
        plan.waves[0].tasks[0].run = Some(Box::new(run));
    };
    let bench = Bench::with("a b", edit);
    let first = bench.task("a").child.unwrap_or_default();
    let text = refused(bench.clone_run(), "a", false);
    assert!(text.contains(&first) && text.contains("wait until it has ended"), "{text}");
    let news = ChildNews::Ended {
        outcome: Some(v1::RunOutcome::Succeeded),
        error: None,
        output: None,
        blobs: Vec::new(),
    };
    let task = bench.at("a");
    let bench = bench.does(Input::Child { task, run_id: first.clone(), news }).roll_back("a");
    let second = bench.task("a").child.unwrap_or_default();
    assert!(!second.is_empty() && second != first, "{second}");
    let start = bench.state.child_start("parent", task, String::new()).unwrap();
    assert_eq!(start.parent.unwrap().activation, 2);
}

#[test]
fn a_refusal_offers_to_take_back_only_what_would_be_taken() {
    let refused = |bench: Bench, input: Input| bench.input(input).expect_rule().options;
    let retry = || Input::Retry { task: "a".to_owned(), request_id: "again".to_owned() };
    let done = || Bench::plan("a b | c").lease_all().completes("a");
    assert_eq!(refused(done(), retry()), ["correct", "abort"]);
    let built_on = done().completes("b").lease("c", "w1");
    assert_eq!(refused(built_on, retry()), ["cascade", "abort"], "a task of a later wave has begun");
    assert_eq!(refused(done().cancel(), retry()), ["abort"], "the run is being stopped");
    let extend = Input::Extend { task: "a".to_owned(), by_ms: MINUTE, request_id: "more".to_owned() };
    assert_eq!(refused(done(), extend), ["abort"], "who wants more time does not want the work to be lost");
}
