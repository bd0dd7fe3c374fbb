//! What a person may say of a task whose time is over, while its grace lasts (seed 000, contract 3).

use super::*;

fn short(plan: &mut v1::Plan) {
    plan.timeouts = Some(v1::TimeoutPolicy { timeout_ms: Some(SECOND), ..Default::default() });
}

/// One second of time, all of which is over.
fn exceeded(waves: &str) -> Bench {
    Bench::with(waves, short).lease("a", "w1").after(SECOND)
}

fn half() -> v1::Payload {
    json("\"half\"")
}

// S000-C3-10, S000-C3-14, S000-C3-16
#[test]
fn a_task_whose_time_is_over_is_asked_about_and_nothing_waits_for_the_answer() {
    let mut bench = Bench::with("a b | c", short).lease("a", "w1");
    bench.now = bench.now.plus(SECOND);
    let observed = Observed { last_frame: Some(Timestamp(START + 3)), partial_output: Some(half()) };
    let bench = bench.tick_seeing("a", observed);
    let [question] = bench.run().questions.try_into().unwrap();
    assert_eq!(question.purpose(), v1::QuestionPurpose::Timeout);
    assert_eq!(question.holds(), v1::QuestionHold::Nothing);
    assert_eq!(question.options, ["extend", "terminate", "retry", "abort"]);
    assert_eq!(question.task.as_deref(), Some("a"));
    let error = question.error.unwrap();
    assert_eq!((&*error.code, error.severity()), ("TASK_TIMEOUT", v1::Severity::High));
    let detail = error.timeout.unwrap();
    assert_eq!((detail.configured_timeout_ms, detail.elapsed_ms), (SECOND, SECOND));
    assert_eq!((detail.last_health_check_ms, detail.partial_output), (Some(START + 3), Some(half())));
    // Other tasks are leased meanwhile, and nobody has to answer.
    let bench = bench.expect_status(v1::RunStatus::Running).lease("b", "w2").completes("b");
    let bench = bench.after(10 * SECOND).expect_timed_out("a");
    assert_eq!(bench.run().questions, [], "what nobody has answered in time is in the log alone");
    bench.lease("c", "w1").completes("c").expect_outcome(v1::RunOutcome::SucceededWithFailures);
}

// S000-C3-17
#[test]
fn extend_adds_a_quarter_of_an_hour_and_withdraws_the_cancel() {
    let bench = exceeded("a").after(9 * SECOND).answer("extend");
    let bench = bench.expect_kinds(&["question_answered", "task_extended"]);
    let (task, lease) = (bench.at("a"), bench.token("a"));
    let deadline = Moment::first(Wall(START + SECOND + 15 * MINUTE));
    assert_eq!(bench.effects(), [Effect::Extend { task, lease, deadline, cancel_withdrawn: true }]);
    // The next deadline is asked about as the first one was.
    let bench = bench.after(15 * MINUTE).expect_unsettled("a");
    assert_eq!(bench.open().len(), 1);
    bench.completes("a").expect_timed_out("a");
}

// S000-C3-18
#[test]
fn more_time_by_another_call_answers_the_question() {
    let bench = exceeded("a").extend("a", MINUTE).expect_kinds(&["task_extended", "question_answered"]);
    assert_eq!(bench.run().questions[0].answer.as_deref(), Some("extend"));
    bench.completes("a").expect_succeeded("a");
}

// S000-C3-20
#[test]
fn terminate_makes_the_partial_output_what_later_waves_refer_to() {
    let bench = Bench::with("a | b", |plan| {
        short(plan);
        plan.policy = Some(policy_named("continue_all"));
        plan.waves[1].tasks[0].input = Some(json("\"${tasks.a.output}\""));
    });
    let bench = bench.lease("a", "w1").after(SECOND).answer("terminate").expect_unsettled("a");
    let bench = bench.report("a", Report::Cancelled(Some(half()))).expect_timed_out("a");
    let task = bench.task("a");
    assert_eq!((task.output, task.partial), (Some(half()), true));
    let bench = bench.lease("b", "w2");
    assert_eq!(bench.state.assignment(bench.at("b")).unwrap().input, Some(&half()));
    bench.completes("b").expect_outcome(v1::RunOutcome::SucceededWithFailures);
}

#[test]
fn without_that_answer_nobody_refers_to_a_partial_output() {
    let bench = Bench::with("a | b", |plan| {
        short(plan);
        plan.policy = Some(policy_named("continue_all"));
        plan.waves[1].tasks[0].input = Some(json("\"${tasks.a.output}\""));
    });
    let bench = bench.lease("a", "w1").after(SECOND).report("a", Report::Cancelled(Some(half())));
    assert_eq!(bench.task("a").output, None);
    assert_eq!(bench.error("b").code, "INPUT_UNRESOLVED");
}

#[test]
fn terminate_without_any_output_is_a_timeout_without_one() {
    let bench = exceeded("a").answer("terminate").after(10 * SECOND).expect_timed_out("a");
    assert_eq!((bench.count("partial_output_kept"), bench.task("a").output), (0, None));
}

// S000-C3-21
#[test]
fn retry_ends_the_work_by_force_and_begins_it_again() {
    let bench = exceeded("a");
    let (task, lease) = (bench.at("a"), bench.token("a"));
    let bench = bench.answer("retry");
    let bench = bench.expect_kinds(&["question_answered", "task_settled", "task_reactivated"]);
    assert_eq!(bench.effects(), [Effect::Revoke { task, lease }, Effect::Enqueue { task }]);
    let bench = bench.lease("a", "w2");
    assert_eq!((bench.task("a").activation, bench.task("a").attempt), (2, 1));
    bench.completes("a").expect_outcome(v1::RunOutcome::Succeeded);
}

// S000-C3-22
#[test]
fn abort_ends_the_run_with_the_timeout() {
    let bench = exceeded("a b").answer("abort").expect_status(v1::RunStatus::Cancelling);
    bench.after(10 * SECOND).expect_outcome(v1::RunOutcome::Failed).expect_run_error("TASK_TIMEOUT");
}

#[test]
fn what_was_told_to_end_for_good_is_not_extended() {
    let bench = Bench::with("a", short);
    let task = bench.at("a");
    let lease =
        Input::Lease { output_schema: None, cancel_is_final: true, mark: 0, task, worker: "w".to_owned() };
    let bench = bench.does(lease).after(SECOND);
    assert_eq!(bench.run().questions[0].options, ["terminate", "retry", "abort"]);
    let error = bench.clone_run().input(extend("a", MINUTE, "")).expect_rule();
    assert_eq!(error.code, "TASK_ENDING");
    assert_eq!(error.message, "task \"a\" was told to end, and its agent \"a\" cannot go on after that");
    let [question_id] = bench.open().try_into().unwrap();
    let refused = bench.clone_run().input(resolve(&question_id, "extend", "")).expect_refusal();
    assert!(matches!(refused, Refusal::NotAnOption { .. }), "{refused:?}");
    bench.after(10 * SECOND).expect_timed_out("a");
}

#[test]
fn what_a_decided_wave_has_stopped_neither_goes_on_nor_begins_again() {
    let bench = Bench::with("fail_fast: a b", |plan| {
        plan.waves[0].tasks[0].timeouts =
            Some(v1::TimeoutPolicy { timeout_ms: Some(SECOND), ..Default::default() });
    });
    let bench = bench.lease("a", "w1").lease("b", "w2").after(SECOND).fails("b", "TESTS_FAILED");
    let [question_id] = bench.open().try_into().unwrap();
    for answer in ["extend", "retry"] {
        let error = bench.clone_run().input(resolve(&question_id, answer, "")).expect_rule();
        assert_eq!(error.code, "INVALID_STATE_TRANSITION", "{answer}");
    }
    bench.answer("terminate").after(10 * SECOND).expect_outcome(v1::RunOutcome::Failed);
}

#[test]
fn the_answer_is_the_event_that_the_request_named() {
    for answer in ["extend", "terminate", "retry"] {
        let bench = exceeded("a");
        let [question_id] = bench.open().try_into().unwrap();
        let bench = bench.does(resolve(&question_id, answer, "r1"));
        let seq = bench.state.request_seq("r1");
        let again = bench.clone_run().does(resolve(&question_id, answer, "r1"));
        assert_eq!(again.state.request_seq("r1"), seq, "{answer}");
    }
}

#[test]
fn what_the_question_has_shown_is_kept_though_nothing_newer_is_seen() {
    let seen = |bench: Bench| {
        let observed = Observed { last_frame: Some(Timestamp(START + 3)), partial_output: Some(half()) };
        let mut bench = bench;
        bench.now = bench.now.plus(SECOND);
        bench.tick_seeing("a", observed).answer("terminate")
    };
    type End = fn(Bench) -> Bench;
    let ended: [(End, i64); 4] = [
        (|bench| bench.report("a", Report::Cancelled(None)), START + SECOND),
        (|bench| bench.fails("a", "TESTS_FAILED"), START + SECOND),
        (|bench| bench.loses("a"), START + 3),
        // Nobody has seen anything of the work since a restart.
        (|bench| bench.after(10 * SECOND), START + 3),
    ];
    for (end, heard_last) in ended {
        let bench = end(seen(Bench::with("a", short).lease("a", "w1"))).expect_timed_out("a");
        let task = bench.task("a");
        assert_eq!((task.output, task.partial), (Some(half()), true));
        assert_eq!(bench.error("a").timeout.unwrap().last_health_check_ms, Some(heard_last));
    }
    let bench = seen(Bench::with("a", short).lease("a", "w1"));
    let newer = json("\"whole\"");
    let bench = bench.report("a", Report::Cancelled(Some(newer.clone())));
    assert_eq!(bench.task("a").output, Some(newer), "what is newer counts");
}

#[test]
fn what_was_heard_of_a_worker_before_it_had_the_work_is_no_check_of_it() {
    let mut bench = Bench::with("a", short);
    bench.now = bench.now.plus(500);
    let mut bench = bench.lease("a", "w1");
    bench.now = bench.now.plus(SECOND);
    let observed = Observed { last_frame: Some(Timestamp(START + 499)), partial_output: None };
    let bench = bench.tick_seeing("a", observed);
    let error = bench.run().questions[0].error.clone().unwrap();
    assert_eq!(error.timeout.unwrap().last_health_check_ms, None);
}

#[test]
fn a_retry_that_would_end_the_run_is_not_offered() {
    let bench = Bench::with("a", |plan| {
        short(plan);
        plan.waves[0].tasks[0].severity = Some(v1::Severity::Critical as i32);
    });
    let bench = bench.lease("a", "w1").after(SECOND);
    assert_eq!(bench.run().questions[0].options, ["extend", "terminate", "abort"]);
    let [question_id] = bench.open().try_into().unwrap();
    let refused = bench.clone_run().input(resolve(&question_id, "retry", "")).expect_refusal();
    assert!(matches!(refused, Refusal::NotAnOption { .. }), "{refused:?}");
}

#[test]
fn who_has_said_terminate_is_not_asked_again() {
    let asking = |plan: &mut v1::Plan| {
        short(plan);
        plan.on_high = Some(v1::OnHigh::Pause as i32);
    };
    let bench = Bench::with("a b", asking).lease("a", "w1").after(SECOND).answer("terminate");
    let bench = bench.after(10 * SECOND).expect_timed_out("a").expect_status(v1::RunStatus::Running);
    assert_eq!(bench.open(), [""; 0]);
    let unanswered = Bench::with("a b", asking).lease("a", "w1").after(11 * SECOND);
    assert_eq!(unanswered.expect_status(v1::RunStatus::Waiting).open().len(), 1);
}

#[test]
fn many_deadlines_are_not_in_the_view_of_their_run() {
    let names: Vec<String> = (0..200).map(|number| format!("t{number}")).collect();
    let mut bench = Bench::with(&names.join(" "), short).lease_all();
    bench.now = bench.now.plus(SECOND);
    let partial_output = Some(json(&format!("\"{}\"", "x".repeat(60 * 1024))));
    let see = |index| {
        let task = TaskRef { wave: 0, task: index };
        (task, Observed { last_frame: None, partial_output: partial_output.clone() })
    };
    let bench = bench.does(Input::Tick { observed: (0..200).map(see).collect() });
    assert_eq!(bench.open().len(), 200);
    let bytes = |bench: &Bench, outputs| {
        let options = ViewOptions { tasks: false, outputs, offset: 0, limit: 0 };
        prost::Message::encoded_len(&bench.state.view(String::new(), options))
    };
    assert!(bytes(&bench, false) < 200_000, "a summary has no outputs: {}", bytes(&bench, false));
    let bench = bench.after(10 * SECOND);
    assert!(bytes(&bench, true) < 20_000, "what is over is in the log: {}", bytes(&bench, true));
}
