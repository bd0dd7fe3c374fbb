//! What only a person can decide (seed 000, contract 6; at most once).

use super::*;
use crate::decide::resolve::answer_gives_up;
use crate::decide::turn::Turn;

fn asking(line: &str) -> Bench {
    Bench::with(line, |plan| plan.on_high = Some(v1::OnHigh::Pause as i32))
}

/// A run whose only task's outcome is unknown since `START + SECOND`.
fn unknown() -> Bench {
    Bench::plan("a@once").lease("a", "w1").after(SECOND).loses("a")
}

// S000-C6-11
#[test]
fn a_high_failure_pauses_the_run_and_asks() {
    let bench = asking("a b c").lease("a", "w1").lease("b", "w2").fails("a", "TESTS_FAILED");
    let bench = bench.expect_kinds(&["task_settled", "question_asked"]).expect_status(v1::RunStatus::Waiting);
    assert_eq!(bench.effects().last(), Some(&Effect::Hold));
    let [question] = bench.run().questions.try_into().unwrap();
    assert_eq!(question.options, ["fix_manual", "skip", "abort"]);
    assert_eq!(question.task.as_deref(), Some("a"));
    let (number, tag) = question.question_id.split_once('-').unwrap();
    assert_eq!(
        (number, tag.len()),
        (&*format!("q{}", bench.state.seq()), 5),
        "the number of the event that asks"
    );
    let waits = bench.at("c");
    let bench = bench.input(Input::Lease {
        output_schema: None,
        cancel_is_final: false,
        mark: 0,
        task: waits,
        worker: "w3".to_owned(),
    });
    assert_eq!(bench.last, Err(Refusal::Outdated), "no new leases");
    bench.completes("b").expect_succeeded("b");
}

// S000-C6-12
#[test]
fn other_failures_do_not_ask() {
    asking("a b").lease_all().fails("a", "COVERAGE_LOW").expect_kinds(&["task_settled"]);
    Bench::plan("a b").lease_all().fails("a", "TESTS_FAILED").expect_kinds(&["task_settled"]);
}

// S000-C6-11
#[test]
fn skip_leaves_the_failure_to_the_policy() {
    asking("fail_fast: a b")
        .lease_all()
        .fails("a", "TESTS_FAILED")
        .answer("skip")
        .expect_kinds(&["question_answered", "wave_decided", "task_cancel_requested"])
        .stops("b")
        .expect_outcome(v1::RunOutcome::Failed);
    asking("a b").lease_all().completes("b").fails("a", "TESTS_FAILED").answer("skip");
}

/// Seed 000, contract 2: FAILED may be followed by DELETED.
// S000-C2-16
#[test]
fn a_task_that_is_skipped_is_given_up_for_good_and_counts_as_failed() {
    let bench = asking("a b").lease_all().fails("a", "TESTS_FAILED").answer("skip");
    let view = bench.task("a");
    let states: Vec<v1::TaskState> = view.history.iter().map(v1::Transition::to).collect();
    use v1::TaskState::{Active, Deleted, Failed, Init};
    assert_eq!(states, [Init, Active, Failed, Deleted]);
    assert_eq!(
        (view.status(), view.error.unwrap().code.as_str()),
        (v1::ResultStatus::Error, "NON_RETRYABLE_ERROR")
    );
    let error = bench.clone_run().input(retry("a", "r1")).expect_rule();
    assert_eq!(error.code, "INVALID_STATE_TRANSITION");
    assert_eq!(error.reason.as_deref(), Some("nothing may follow DELETED"));
    bench.completes("b").expect_outcome(v1::RunOutcome::SucceededWithFailures);
}

/// A task that is done has settled as well, and the lifecycle lets one be deleted that waits in INIT; neither has failed.
#[test]
fn only_a_task_that_has_failed_is_given_up() {
    let bench = asking("a b c").lease("a", "w1").lease("b", "w2").completes("b");
    let mut bench = bench.fails("a", "TESTS_FAILED");
    let [failed, done, waiting] = ["a", "b", "c"].map(|name| Some(bench.at(name)));
    let now = bench.moment();
    let turn = Turn::new(&mut bench.state, now);
    assert!(answer_gives_up(&turn, failed, "skip"));
    assert!(!answer_gives_up(&turn, failed, "fix_manual"));
    assert!(!answer_gives_up(&turn, done, "skip"));
    assert!(!answer_gives_up(&turn, waiting, "skip"));
    assert!(!answer_gives_up(&turn, None, "skip"));
}

#[test]
fn a_run_goes_on_unless_its_question_is_open_or_it_ends() {
    let bench = asking("a b").lease_all();
    assert!(bench.state.goes_on());
    let bench = bench.fails("a", "TESTS_FAILED").expect_status(v1::RunStatus::Waiting);
    assert!(!bench.state.goes_on(), "the question is open");
    let bench = bench.answer("skip");
    assert!(bench.state.goes_on());
    let bench = bench.cancel().expect_status(v1::RunStatus::Cancelling);
    assert!(!bench.state.goes_on(), "it ends");
}

#[test]
fn the_wave_does_not_end_before_the_answer() {
    asking("a")
        .lease("a", "w1")
        .fails("a", "TESTS_FAILED")
        .after(MINUTE)
        .expect_status(v1::RunStatus::Waiting)
        .answer("skip")
        .expect_outcome(v1::RunOutcome::Failed)
        .expect_run_error("QUORUM_NOT_MET");
}

// S000-C4-19
#[test]
fn retry_runs_the_task_anew() {
    let bench = asking("a").lease("a", "w1").fails("a", "TESTS_FAILED").answer("fix_manual");
    let bench = bench.expect_kinds(&["question_answered", "task_reactivated"]).lease("a", "w1");
    assert_eq!(bench.task("a").activation, 2);
    bench.completes("a").expect_outcome(v1::RunOutcome::Succeeded);
}

// S000-C3-20
#[test]
fn terminate_keeps_what_a_timed_out_task_had() {
    let bench = asking("a b").lease_all().completes("b").after(30 * MINUTE);
    let bench = bench.report("a", Report::Cancelled(Some(json("\"half\"")))).expect_timed_out("a");
    let questions = bench.run().questions;
    assert_eq!(questions.len(), 1, "that of the deadline is over");
    assert_eq!(questions[0].options, ["terminate", "retry", "abort"]);
    assert_eq!(bench.task("a").output, None);
    let bench = bench.answer("terminate").expect_timed_out("a");
    let task = bench.task("a");
    assert_eq!((task.output, task.partial), (Some(json("\"half\"")), true));
    bench.expect_outcome(v1::RunOutcome::SucceededWithFailures);
}

#[test]
fn abort_ends_the_run() {
    let bench = asking("continue_all: a b c")
        .lease("a", "w1")
        .lease("b", "w2")
        .fails("a", "TESTS_FAILED")
        .answer("abort");
    bench
        .expect_status(v1::RunStatus::Cancelling)
        .expect_task("c", v1::TaskState::Deleted, v1::ResultStatus::Cancelled)
        .stops("b")
        .expect_outcome(v1::RunOutcome::Failed)
        .expect_run_error("NON_RETRYABLE_ERROR");
}

#[test]
fn a_second_answer_is_refused() {
    let bench = asking("a b").lease_all().fails("a", "TESTS_FAILED");
    let [question_id] = bench.open().try_into().unwrap();
    let bench = bench.answer("skip").input(resolve(&question_id, "abort", ""));
    let answered = Refusal::QuestionAnswered { question_id, answer: "skip".to_owned() };
    assert_eq!(bench.expect_refusal(), answered);
}

#[test]
fn only_the_options_are_answers_and_only_questions_are_answered() {
    let bench = asking("a b").lease_all().fails("a", "TESTS_FAILED");
    let [question_id] = bench.open().try_into().unwrap();
    let bench = bench.input(resolve(&question_id, "debug", ""));
    let options = ["fix_manual", "skip", "abort"].map(str::to_owned).to_vec();
    assert_eq!(bench.last, Err(Refusal::NotAnOption { answer: "debug".to_owned(), options }));
    let bench = bench.input(resolve("q1", "skip", ""));
    assert_eq!(bench.expect_refusal(), Refusal::QuestionNotFound { question_id: "q1".to_owned() });
}

#[test]
fn parallel_questions_are_answered_each_by_its_id() {
    let bench = asking("a b c d").lease("a", "w1").lease("b", "w2").lease("c", "w3");
    let bench = bench.fails("a", "TESTS_FAILED").fails("b", "TESTS_FAILED").completes("c");
    let mut open = bench.open();
    open.sort();
    let [of_a, of_b] = open.try_into().unwrap();
    let bench = bench.does(resolve(&of_b, "skip", "")).expect_status(v1::RunStatus::Waiting);
    assert_eq!(bench.effects(), [], "still held by the other one");
    let bench = bench.does(resolve(&of_a, "fix_manual", "")).expect_status(v1::RunStatus::Running);
    bench.lease_all().completes("a").completes("d").expect_outcome(v1::RunOutcome::SucceededWithFailures);
}

#[test]
fn a_wave_that_is_decided_stops_though_another_of_its_failures_is_run_anew() {
    let bench = asking("fail_fast: a b").lease_all().fails("a", "TESTS_FAILED").fails("b", "TESTS_FAILED");
    let mut open = bench.open();
    open.sort();
    let [of_a, of_b] = open.try_into().unwrap();
    let bench = bench.does(resolve(&of_a, "skip", "")).does(resolve(&of_b, "fix_manual", ""));
    bench
        .expect_task("b", v1::TaskState::Failed, v1::ResultStatus::Cancelled)
        .expect_outcome(v1::RunOutcome::Failed);
}

#[test]
fn a_wave_that_is_decided_stops_though_a_user_retries_the_last_of_its_questions() {
    let bench = asking("fail_fast: a b").lease_all().fails("a", "TESTS_FAILED").fails("b", "TESTS_FAILED");
    let of_a = bench.run().questions[0].question_id.clone();
    let bench = bench.does(resolve(&of_a, "skip", "")).retry("b");
    bench
        .expect_task("b", v1::TaskState::Failed, v1::ResultStatus::Cancelled)
        .expect_outcome(v1::RunOutcome::Failed);
}

#[test]
fn retrying_a_task_answers_the_question_about_it() {
    let bench = asking("a").lease("a", "w1").fails("a", "TESTS_FAILED").retry("a");
    let bench =
        bench.expect_kinds(&["task_reactivated", "question_answered"]).expect_status(v1::RunStatus::Running);
    assert_eq!(bench.run().questions[0].answer.as_deref(), Some("retry"));
    bench.lease("a", "w1").completes("a").expect_outcome(v1::RunOutcome::Succeeded);
}

#[test]
fn cancelling_the_run_withdraws_its_questions() {
    let bench = asking("a b").lease("a", "w1").fails("a", "TESTS_FAILED").cancel();
    assert_eq!(bench.run().questions[0].answer.as_deref(), Some("withdrawn"));
    bench.expect_outcome(v1::RunOutcome::Cancelled);
}

#[test]
fn a_question_does_not_end_a_users_pause() {
    let bench = asking("a b").lease("a", "w1").fails("a", "TESTS_FAILED").pause().answer("skip");
    assert_eq!(bench.effects(), []);
    let bench = bench.expect_status(v1::RunStatus::Paused).resume();
    assert_eq!(bench.effects(), [Effect::Release]);
}

#[test]
fn an_unknown_outcome_may_be_known_to_a_person() {
    unknown().answer("succeeded").expect_succeeded("a").expect_outcome(v1::RunOutcome::Succeeded);
    unknown().answer("failed").expect_failed("a", "OUTCOME_UNKNOWN").expect_outcome(v1::RunOutcome::Failed);
    unknown().answer("abort").expect_outcome(v1::RunOutcome::Failed).expect_run_error("OUTCOME_UNKNOWN");
}

#[test]
fn an_attempt_whose_outcome_was_unknown_is_in_the_history_with_the_time_that_it_was_at_work() {
    for (answer, status) in [("succeeded", v1::AttemptStatus::Success), ("failed", v1::AttemptStatus::Failed)]
    {
        let bench = unknown().after(60 * MINUTE).answer(answer);
        let [attempt] = bench.task("a").attempts.try_into().unwrap();
        assert_eq!((attempt.attempt, attempt.status(), attempt.duration_ms), (1, status, SECOND), "{answer}");
    }
}

#[test]
fn who_says_that_a_task_has_failed_is_not_asked_what_to_do_about_it() {
    let bench = asking("a@once b").lease("a", "w1").loses("a").answer("failed");
    assert_eq!(bench.error("a").options, ["retry", "skip", "abort"]);
    bench.expect_kinds(&["question_answered", "task_settled"]).expect_status(v1::RunStatus::Running);
}

#[test]
fn an_unknown_outcome_may_be_tried_again_as_the_same_attempt() {
    let bench = unknown().answer("retry").lease("a", "w2");
    let view = bench.task("a");
    assert_eq!((view.activation, view.attempt), (1, 1));
    bench.completes("a").expect_outcome(v1::RunOutcome::Succeeded);
}

#[test]
fn the_time_that_a_person_takes_is_not_the_tasks() {
    let bench = unknown().after(60 * MINUTE).answer("retry").lease("a", "w2");
    assert_eq!(bench.task("a").deadline_ms, Some(START + 90 * MINUTE));
}

/// As after a daemon that was away for longer than the task may take (30 minutes): nobody has looked at its deadline.
#[test]
fn a_task_whose_time_was_over_when_the_person_was_asked_has_all_of_it_again() {
    let mut bench = Bench::plan("a@once").lease("a", "w1");
    bench.now = bench.now.plus(45 * MINUTE);
    let bench = bench.loses("a");
    let mut bench = bench.expect_status(v1::RunStatus::Waiting);
    bench.now = bench.now.plus(60 * MINUTE);
    let bench = bench.answer("retry").lease("a", "w2");
    assert_eq!(bench.task("a").deadline_ms, Some(START + 135 * MINUTE));
    let bench = bench.after(30 * MINUTE - 1);
    assert!(bench.state.lease_of(bench.at("a")).is_some(), "it is at work until its time is over");
    bench.completes("a").expect_outcome(v1::RunOutcome::Succeeded);
}

#[test]
fn the_worker_that_comes_back_while_a_person_is_asked_is_refused() {
    let bench = Bench::plan("a@once").lease("a", "w1");
    let (task, lease) = (bench.at("a"), bench.token("a"));
    let report = Report::Completed(json("1"));
    let bench = bench.loses("a").does(reported(task, lease, "w1", report));
    bench.expect_kinds(&["result_refused", "question_revised"]).expect_status(v1::RunStatus::Waiting);
}

/// As [`unknown`], and worker w1 has come back too late and said this.
fn heard(report: Report) -> Bench {
    let bench = Bench::plan("a@once").lease("a", "w1");
    let (task, lease) = (bench.at("a"), bench.token("a"));
    bench.loses("a").does(reported(task, lease, "w1", report))
}

/// An answer to the only open question.
fn told(bench: &Bench, option: &str, value: Option<&str>, revision: Option<u32>) -> Input {
    let [question_id] = bench.open().try_into().unwrap();
    let answer = Answer { option: option.to_owned(), value: value.map(json), revision, ..Answer::default() };
    Input::Resolve { question_id, answer, request_id: "r1".to_owned() }
}

#[test]
fn a_question_says_why_it_is_asked_what_it_is_about_and_what_it_holds() {
    let bench = Bench::plan("a@once | b").lease("a", "w1");
    let lease = bench.token("a");
    let [unknown] = bench.loses("a").run().questions.try_into().unwrap();
    assert_eq!(unknown.purpose(), v1::QuestionPurpose::Outcome);
    assert_eq!((unknown.holds(), unknown.revision), (v1::QuestionHold::Run, 1));
    let Some(v1::question_subject::About::Task(about)) = unknown.about.unwrap().about else { panic!() };
    let expected = v1::TaskSubject { wave: 0, task: 0, activation: 1, lease, worker: "w1".to_owned() };
    assert_eq!(about, expected);
    assert_eq!(unknown.value.unwrap().options, ["succeeded"]);

    let failed = asking("a").lease("a", "w1").fails("a", "TESTS_FAILED").retry("a").lease("a", "w1");
    let again = failed.fails("a", "TESTS_FAILED").run().questions.remove(1);
    assert_eq!(again.purpose(), v1::QuestionPurpose::Failure);
    let Some(v1::question_subject::About::Task(about)) = again.about.unwrap().about else { panic!() };
    assert_eq!((about.activation, about.lease), (2, 0), "the life that failed, and no lease");
    assert_eq!(again.value, None);
}

#[test]
fn what_a_worker_says_too_late_revises_the_question_about_its_lease() {
    let bench = heard(Report::Completed(json("[7]")));
    let [question] = bench.run().questions.try_into().unwrap();
    assert_eq!((question.revision, question.proposed), (2, Some(json("[7]"))));
    assert!(question.text.contains("w1"), "{}", question.text);
    let bench = bench.answer("succeeded").expect_outcome(v1::RunOutcome::Succeeded);
    assert_eq!(bench.task("a").output, Some(json("[7]")));

    let [question] = heard(Report::Failed(failure("TESTS_FAILED"))).run().questions.try_into().unwrap();
    assert_eq!((question.revision, question.proposed), (2, None));
    assert_eq!(question.error.unwrap().cause.unwrap().code, "TESTS_FAILED");
}

#[test]
fn only_the_holder_of_the_lost_lease_revises_the_question_and_only_once() {
    let bench = Bench::plan("a@once").lease("a", "w1");
    let (task, lease) = (bench.at("a"), bench.token("a"));
    let report = || Report::Completed(json("1"));
    let other = bench.clone_run().loses("a").does(reported(task, lease, "w2", report()));
    assert_eq!(other.run().questions[0].revision, 1);
    let bench = bench.loses("a").does(reported(task, lease, "w1", report()));
    let bench = bench.does(reported(task, lease, "w1", report())).expect_kinds(&[]);
    assert_eq!(bench.run().questions[0].revision, 2);
}

#[test]
fn an_answer_to_an_older_revision_is_refused() {
    let bench = heard(Report::Completed(json("1")));
    let [question_id] = bench.open().try_into().unwrap();
    let old = told(&bench, "failed", None, Some(1));
    let bench = bench.input(old);
    assert_eq!(bench.last, Err(Refusal::QuestionRevised { question_id, revision: 2 }));
    let of_no_revision = told(&bench, "failed", None, None);
    bench.clone_run().does(of_no_revision).expect_outcome(v1::RunOutcome::Failed);
    let newest = told(&bench, "failed", None, Some(2));
    bench.does(newest).expect_outcome(v1::RunOutcome::Failed);
}

#[test]
fn an_answer_is_judged_before_its_revision_is_looked_at() {
    let bench = heard(Report::Completed(json("1")));
    let no_option = told(&bench, "perhaps", None, Some(1));
    assert!(matches!(bench.clone_run().input(no_option).last, Err(Refusal::NotAnOption { .. })));
    let no_value = told(&bench, "failed", Some("1"), Some(1));
    assert!(matches!(bench.input(no_value).last, Err(Refusal::WrongValue { .. })));
}

#[test]
fn who_says_that_a_task_is_done_may_say_what_it_gave_back() {
    let bench = heard(Report::Completed(json("1")));
    let answer = told(&bench, "succeeded", Some("{\"sum\":2}"), Some(2));
    let bench = bench.does(answer.clone()).expect_outcome(v1::RunOutcome::Succeeded);
    assert_eq!(bench.task("a").output, Some(json("{\"sum\":2}")), "and not what the worker proposed");
    assert_eq!(bench.run().questions[0].answer_value, Some(json("{\"sum\":2}")));
    let Input::Resolve { question_id, .. } = answer.clone() else { panic!() };
    let bench = bench.does(answer).expect_kinds(&[]);
    // A value that differs in one bit is another one.
    let other = Answer {
        option: "succeeded".to_owned(),
        value: Some(json("{\"sum\":3}")),
        revision: None,
        ..Answer::default()
    };
    let other = Input::Resolve { question_id, answer: other, request_id: "r1".to_owned() };
    assert_eq!(bench.input(other).expect_refusal(), Refusal::RequestReused { request_id: "r1".to_owned() });
}

#[test]
fn ten_thousand_questions_are_withdrawn_at_once() {
    const TASKS: usize = 10_000;
    let names: Vec<String> = (0..TASKS).map(|index| format!("t{index}")).collect();
    let mut plan = plan(&format!("t | {}", names.join(" ")));
    plan.on_high = Some(v1::OnHigh::Pause as i32);
    for task in &mut plan.waves[1].tasks {
        task.input = Some(json("\"${tasks.t.output.missing}\""));
    }
    let bench = Bench::start(plan, false).lease("t", "w1").completes("t");
    assert_eq!(bench.open().len(), TASKS);
    let bench = bench.cancel().expect_outcome(v1::RunOutcome::Cancelled);
    assert_eq!(bench.kinds().len(), TASKS + 2);
}
