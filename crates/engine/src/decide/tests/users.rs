//! Commands of users: pause, resume, retry; repeated requests; refusals.

use capataz_policy::lifecycle::TaskState;

use super::*;
use crate::decide::turn::Turn;

#[test]
fn a_paused_run_gives_no_leases_and_records_results() {
    let bench = Bench::plan("a b").lease("a", "w1").pause().expect_status(v1::RunStatus::Paused);
    assert_eq!(bench.effects(), [Effect::Hold]);
    let waits = bench.at("b");
    let bench = bench.input(Input::Lease {
        output_schema: None,
        cancel_is_final: false,
        mark: 0,
        task: waits,
        worker: "w2".to_owned(),
    });
    assert_eq!(bench.last, Err(Refusal::Outdated));
    let bench = bench.completes("a").expect_succeeded("a").resume().expect_status(v1::RunStatus::Running);
    assert_eq!(bench.effects(), [Effect::Release]);
    bench.lease("b", "w2").completes("b").expect_outcome(v1::RunOutcome::Succeeded);
}

#[test]
fn retries_stand_still_while_the_run_is_paused() {
    let bench = Bench::plan("a").lease("a", "w1").fails("a", "NETWORK_ERROR").pause().after(MINUTE);
    assert_eq!(bench.count("task_retry_due"), 0);
    let bench = bench.resume().after(0);
    assert_eq!(bench.count("task_retry_due"), 1);
    bench.lease("a", "w1");
}

#[test]
fn the_next_wave_of_a_paused_run_waits() {
    let bench = Bench::plan("a | b").lease("a", "w1").pause().completes("a");
    assert!(!bench.effects().iter().any(|effect| matches!(effect, Effect::Enqueue { .. })));
    bench.resume().lease("b", "w1").completes("b").expect_outcome(v1::RunOutcome::Succeeded);
}

#[test]
fn a_request_that_is_repeated_is_carried_out_once() {
    let bench = Bench::plan("a").lease("a", "w1").does(extend("a", 15 * MINUTE, "r1"));
    let (deadline, seq) = (bench.task("a").deadline_ms, bench.last.as_ref().unwrap().request_seq);
    assert_eq!(seq, Some(bench.state.seq()));
    let bench = bench.does(extend("a", 15 * MINUTE, "r1")).expect_kinds(&[]);
    assert_eq!(bench.last.as_ref().unwrap().request_seq, seq, "the event that it first made");
    assert_eq!(bench.task("a").deadline_ms, deadline);
    let bench = bench.does(extend("a", 15 * MINUTE, "r2"));
    assert_eq!(bench.task("a").deadline_ms, deadline.map(|deadline| deadline + 15 * MINUTE));
}

#[test]
fn a_request_id_means_one_request() {
    let reused = |request_id: &str| Err(Refusal::RequestReused { request_id: request_id.to_owned() });
    let bench =
        Bench::plan("a b").lease_all().does(extend("a", MINUTE, "r1")).input(extend("a", SECOND, "r1"));
    assert_eq!(bench.last, reused("r1"));
    let bench = bench.input(extend("b", MINUTE, "r1"));
    assert_eq!(bench.last, reused("r1"));
    let bench = bench.input(Input::Pause { request_id: "r1".to_owned() });
    assert_eq!(bench.last, reused("r1"));
    let bench = bench.fails("a", "BAD").does(retry("a", "r2")).input(retry("b", "r2"));
    assert_eq!(bench.last, reused("r2"));
}

#[test]
fn every_command_remembers_its_request() {
    let asking = |plan: &mut v1::Plan| plan.on_high = Some(v1::OnHigh::Pause as i32);
    let bench =
        Bench::with("a b c", asking).lease_all().fails("c", "COVERAGE_LOW").fails("a", "TESTS_FAILED");
    let [question_id] = bench.open().try_into().unwrap();
    let commands = [
        resolve(&question_id, "skip", "r1"),
        retry("c", "r2"),
        Input::Pause { request_id: "r3".to_owned() },
        Input::Resume { request_id: "r4".to_owned() },
        extend("b", MINUTE, "r5"),
        Input::Cancel { reason: "enough".to_owned(), force: true, request_id: "r6".to_owned() },
    ];
    let mut bench = bench;
    for command in commands.clone() {
        bench = bench.does(command);
    }
    let first: Vec<_> = bench.ledger.events.iter().map(|event| event.seq).collect();
    for command in commands {
        bench = bench.does(command).expect_kinds(&[]);
        let seq = bench.last.as_ref().unwrap().request_seq.unwrap();
        assert!(first.contains(&seq), "also after the run's end");
    }
    let bench = bench.input(extend("b", MINUTE, "r7"));
    assert_eq!(bench.expect_refusal(), Refusal::RunFinished);
}

#[test]
fn a_run_that_has_ended_knows_a_request_again_by_what_it_asked_for() {
    let requests = [
        Input::Pause { request_id: "r1".to_owned() },
        Input::Resume { request_id: "r2".to_owned() },
        extend("a", MINUTE, "r3"),
    ];
    let mut bench = Bench::plan("a").lease("a", "w1");
    let mut first: Vec<Result<Option<u64>, Refusal>> = Vec::new();
    for request in requests.clone() {
        bench = bench.does(request);
        first.push(Ok(bench.last.as_ref().unwrap().request_seq));
    }
    let bench = bench.completes("a").expect_outcome(v1::RunOutcome::Succeeded);
    let again: Vec<_> = requests.iter().map(|request| bench.state.repeated(request)).collect();
    assert_eq!(again, first);
    let others = [
        (Input::Cancel { reason: String::new(), force: false, request_id: "r1".to_owned() }, "r1"),
        (rollback("a", false, "r2"), "r2"),
        (resolve("q1", "skip", "r2"), "r2"),
        (Input::Checkpoint { reason: "now".to_owned(), request_id: "r2".to_owned() }, "r2"),
        (extend("a", SECOND, "r3"), "r3"),
        (extend("nobody", MINUTE, "r3"), "r3"),
    ];
    for (other, request_id) in others {
        let reused = Refusal::RequestReused { request_id: request_id.to_owned() };
        assert_eq!(bench.state.repeated(&other), Err(reused), "{other:?}");
    }
    assert_eq!(bench.state.repeated(&extend("a", MINUTE, "r4")), Ok(None));
}

#[test]
fn what_a_user_was_told_of_a_task_is_in_the_state_after_the_event_of_the_request() {
    let requests = [extend("a", MINUTE, "r1"), extend("a", MINUTE, "r2"), retry("b", "r3"), retry("b", "r4")];
    let mut bench = Bench::plan("a b").lease_all();
    let mut told = Vec::new();
    for request in requests {
        if matches!(request, Input::Retry { .. }) {
            bench = if told.len() == 3 { bench.lease("b", "w1") } else { bench };
            bench = bench.fails("b", "BAD");
        }
        let task = bench.at(request.task().unwrap());
        bench = bench.does(request.clone());
        told.push((request, task, bench.state.told_of(task)));
    }
    // The half hour that a task has, and the minutes more. What begins anew has no deadline until somebody has taken it.
    let until = |minutes: i64| START + minutes * MINUTE;
    let by_hand = [(until(31), 1), (until(32), 1), (0, 2), (0, 3)];
    assert_eq!(told.iter().map(|(.., first)| *first).collect::<Vec<_>>(), by_hand);
    let bench = bench.lease("b", "w1").completes("a").completes("b");
    let bench = bench.expect_outcome(v1::RunOutcome::Succeeded);
    for (request, task, first) in told {
        let seq = bench.state.repeated(&request).unwrap().unwrap();
        let until = bench.ledger.events.iter().take_while(|event| event.seq <= seq).cloned();
        assert_eq!(RunState::fold(SEED, until).unwrap().told_of(task), first, "{request:?}");
    }
}

// S000-C2-17
#[test]
fn how_many_tasks_are_in_each_state_is_counted() {
    let bench = Bench::plan("a b c | d").lease("a", "w1").lease("b", "w1").completes("a").fails("b", "BAD");
    let counts = |bench: &Bench| -> Vec<(v1::TaskState, u32)> {
        bench.run().state_counts.iter().map(|count| (count.state(), count.tasks)).collect()
    };
    use v1::TaskState::{Active, Complete, Failed, Init};
    assert_eq!(counts(&bench), [(Init, 2), (Complete, 1), (Failed, 1)]);
    let bench = bench.lease("c", "w1");
    assert_eq!(counts(&bench), [(Init, 1), (Active, 1), (Complete, 1), (Failed, 1)]);
}

// S000-C4-19
#[test]
fn a_users_retry_is_a_new_activation_with_its_own_attempts_and_time() {
    let bench = Bench::plan("a b").lease_all().fails("a", "NETWORK_ERROR").after(SECOND).lease("a", "w1");
    let bench = bench.fails("a", "BAD").after(MINUTE).retry("a").expect_kinds(&["task_reactivated"]);
    assert_eq!(bench.state.progress(), (0, 2));
    let bench = bench.lease("a", "w1");
    let view = bench.task("a");
    assert_eq!((view.activation, view.attempt, view.status), (2, 1, None));
    assert_eq!(view.deadline_ms, Some(bench.now.0 + 30 * MINUTE));
    let states: Vec<i32> = view.history.iter().map(|step| step.to).collect();
    let expected = [v1::TaskState::Init, v1::TaskState::Active, v1::TaskState::Failed, v1::TaskState::Active];
    assert_eq!(states, expected.map(|state| state as i32));
    let bench = bench.completes("a").completes("b").expect_outcome(v1::RunOutcome::Succeeded);
    assert_eq!(bench.run().summary.unwrap().total, 0, "a failure that was made good is not one of the run");
    assert_eq!(bench.notices("RETRY_SUCCESS").len(), 0, "that is for automatic attempts");
}

// S000-C2-03, S000-C2-04, S000-CL-04, S000-IN-03
#[test]
fn the_history_of_a_task_has_each_state_with_its_time() {
    let bench = Bench::plan("a").after(2 * SECOND).lease("a", "w1").after(5 * SECOND).completes("a");
    let history = bench.task("a").history;
    let told: Vec<_> = history.iter().map(|step| (step.from, step.to(), step.at_ms - START)).collect();
    let [init, active] = [v1::TaskState::Init, v1::TaskState::Active];
    assert_eq!(
        told,
        [
            (None, init, 0),
            (Some(init as i32), active, 2 * SECOND),
            (Some(active as i32), v1::TaskState::Complete, 7 * SECOND),
        ]
    );
}

// S000-C2-11, S000-C5-12
#[test]
fn a_result_has_its_task_agent_status_output_and_time() {
    let bench = Bench::plan("a").after(2 * SECOND).lease("a", "w1").after(5 * SECOND).completes("a");
    let settled = bench.ledger.events.iter().find_map(|event| match event.body.as_ref()? {
        Body::TaskSettled(settled) => Some((settled.task, settled.status(), settled.duration_ms)),
        _ => None,
    });
    assert_eq!(settled, Some((0, v1::ResultStatus::Success, 5 * SECOND)), "from its first lease");
    let [result] = bench.state.result(1_024).unwrap().tasks.try_into().unwrap();
    assert_eq!((&*result.name, result.state()), ("a", v1::TaskState::Complete));
    assert_eq!((result.status(), result.error), (v1::ResultStatus::Success, None));
    assert_eq!(result.output, Some(json("\"done\"")));
    let view = bench.task("a");
    assert_eq!((&*view.agent, view.settled_at_ms), ("a", Some(START + 7 * SECOND)));
}

#[test]
fn a_late_result_of_the_activation_before_is_refused() {
    let bench = Bench::plan("a b").lease_all();
    let (task, lease) = (bench.at("a"), bench.token("a"));
    let bench = bench.fails("a", "BAD").retry("a");
    let report = Report::Completed(json("1"));
    let bench = bench.does(reported(task, lease, "a", report)).expect_unsettled("a");
    assert_eq!(bench.kinds(), ["result_refused"]);
}

// S000-C2-06
#[test]
fn only_a_failed_task_of_the_wave_in_work_is_retried() {
    let bench = Bench::plan("continue_all: a b | c d").input(retry("a", ""));
    let refusal = |bench: &Bench| match &bench.last {
        Err(Refusal::Rule(error)) => {
            assert_eq!(error.code, "INVALID_STATE_TRANSITION");
            (error.message.clone(), error.reason.clone().unwrap())
        }
        other => panic!("{other:?}"),
    };
    let (message, _) = refusal(&bench);
    assert_eq!(message, "task \"a\" is INIT: only a failed task is run again");
    let bench = bench.lease_all().fails("a", "BAD").completes("b").input(retry("a", ""));
    let (message, _) = refusal(&bench);
    assert_eq!(message, "task \"a\" is FAILED for good: what came of it is decided");
    let bench = bench.lease("c", "w1").input(retry("c", ""));
    assert_eq!(refusal(&bench).1, "ACTIVE may be followed by COMPLETE, FAILED, ROLLED_BACK");
    let bench = bench.completes("c").input(retry("c", ""));
    let (message, allowed) = refusal(&bench);
    assert_eq!(message, "invalid transition: COMPLETE -> ACTIVE");
    assert_eq!(allowed, "COMPLETE may be followed by ROLLED_BACK");
}

#[test]
fn a_wave_that_has_been_decided_is_not_reopened() {
    let bench = Bench::plan("fail_fast: a b").lease_all().fails("a", "BAD").input(retry("a", ""));
    assert_eq!(bench.expect_rule().code, "INVALID_STATE_TRANSITION");
}

// S000-C2-09
#[test]
fn an_unknown_task_gets_suggestions() {
    let error = Bench::plan("build deploy").input(retry("buidl", "")).expect_rule();
    assert_eq!(
        (error.code.as_str(), error.suggestions.as_slice()),
        ("TASK_NOT_FOUND", &["build".to_owned()][..])
    );
}

#[test]
fn a_finished_run_refuses_every_command() {
    let bench = Bench::plan("a").lease("a", "w1").completes("a").expect_outcome(v1::RunOutcome::Succeeded);
    let commands = [
        Input::Pause { request_id: String::new() },
        Input::Resume { request_id: String::new() },
        Input::Cancel { reason: String::new(), force: true, request_id: String::new() },
        Input::Tick { observed: BTreeMap::new() },
        extend("a", SECOND, ""),
        retry("a", ""),
        resolve("q1", "skip", ""),
    ];
    let mut bench = bench;
    for command in commands {
        bench = bench.input(command);
        assert_eq!(bench.last, Err(Refusal::RunFinished));
    }
    let task = bench.at("a");
    bench = bench.input(Input::Lease {
        output_schema: None,
        cancel_is_final: false,
        mark: 0,
        task,
        worker: "w1".to_owned(),
    });
    assert_eq!(bench.last, Err(Refusal::Outdated));
}

/// Whoever decides on a step asks the table for it, so that a rule that forgets to look cannot write it.
#[test]
fn a_step_that_the_lifecycle_does_not_have_is_refused_before_anything_is_written() {
    let mut bench = Bench::plan("a b | c").lease_all().completes("a");
    let (done, at_work, later) = (bench.at("a"), bench.at("b"), bench.at("c"));
    let now = bench.state.last;
    let turn = Turn::new(&mut bench.state, now);
    for (to, told) in [
        (TaskState::Active, "COMPLETE -> ACTIVE"),
        (TaskState::Failed, "COMPLETE -> FAILED"),
        (TaskState::Init, "COMPLETE -> INIT"),
    ] {
        let Err(Refusal::Rule(error)) = turn.enters(done, to) else { panic!("{told} is refused") };
        assert_eq!(error.code, "INVALID_STATE_TRANSITION");
        assert_eq!(error.message, format!("invalid transition: {told}"));
    }
    assert_eq!(turn.enters(at_work, TaskState::Complete), Ok(TaskState::Complete));
    // A task stays ACTIVE between its attempts.
    assert_eq!(turn.enters(at_work, TaskState::Active), Ok(TaskState::Active));
    assert_eq!(turn.enters(later, TaskState::Active), Err(Refusal::Outdated));
}
