//! Waves, and what their policies make of their results (seed 000, contract 5).

use v1::RunOutcome::{Failed, Succeeded, SucceededWithFailures};

use super::*;

#[test]
fn waves_run_in_order_and_a_wave_begins_when_the_one_before_has_ended() {
    Bench::plan("a b | c | d")
        .lease_all()
        .completes("a")
        .expect_kinds(&["task_settled"])
        .completes("b")
        .expect_kinds(&["task_settled", "wave_finished", "wave_started"])
        .lease("c", "w1")
        .completes("c")
        .lease("d", "w1")
        .completes("d")
        .expect_kinds(&["task_settled", "wave_finished", "run_finished"])
        .expect_outcome(Succeeded);
}

#[test]
fn a_task_of_a_later_wave_is_not_leased() {
    let bench = Bench::plan("a | b");
    let later = bench.at("b");
    let bench = bench.input(Input::Lease {
        output_schema: None,
        cancel_is_final: false,
        mark: 0,
        task: later,
        worker: "w1".to_owned(),
    });
    assert_eq!(bench.expect_refusal(), Refusal::Outdated);
}

// S000-CL-03, S000-IN-03
#[test]
fn a_run_of_one_task_is_two_decisions_and_a_lease() {
    let bench = Bench::plan("a");
    assert_eq!(bench.kinds(), ["run_accepted", "wave_started"]);
    assert_eq!(bench.effects(), [Effect::Enqueue { task: bench.at("a") }]);
    let bench = bench.lease("a", "w1").expect_kinds(&["task_leased"]);
    let (task, lease) = (bench.at("a"), bench.token("a"));
    assert_eq!(bench.effects(), [Effect::Assign { task, lease }]);
    let bench = bench.completes("a").expect_kinds(&["task_settled", "wave_finished", "run_finished"]);
    assert_eq!(bench.effects(), [Effect::Accept { task, lease }, Effect::Finish]);
}

// S000-C5-04, S000-CL-21, S000-IN-06
#[test]
fn half_of_the_tasks_is_a_quorum() {
    Bench::plan("quorum: a b")
        .lease_all()
        .fails("a", "BAD")
        .completes("b")
        .expect_outcome(SucceededWithFailures)
        .expect_kinds(&["task_settled", "wave_finished", "notice", "run_finished"]);
}

/// Seed 000, scenario 5.
// S000-C5-07, S000-CL-21, S000-IN-06
#[test]
fn one_success_of_four_is_no_quorum_and_is_told_when_all_four_have_ended() {
    let bench = Bench::plan("a b c d | e")
        .lease_all()
        .fails("b", "BAD")
        .fails("c", "BAD")
        .fails("d", "BAD")
        .expect_status(v1::RunStatus::Running)
        .completes("a")
        .expect_outcome(Failed)
        .expect_run_error("QUORUM_NOT_MET");
    let run = bench.run();
    let evaluation = run.waves[0].evaluation.clone().unwrap();
    assert_eq!((evaluation.successes, evaluation.total, evaluation.quorum_met), (1, 4, Some(false)));
    assert_eq!(evaluation.failed_agents, ["b", "c", "d"]);
    assert_eq!(run.error.unwrap().severity, v1::Severity::High as i32);
    assert_eq!(bench.task("e").state, v1::TaskState::Init as i32, "a wave that never began");
}

// S000-C5-14, S000-CL-10
#[test]
fn each_result_carries_the_evaluation_so_far() {
    let bench = Bench::plan("a b").lease_all().fails("a", "BAD").completes("b");
    let rates = bench.ledger.events.iter().filter_map(|event| match event.body.as_ref()? {
        Body::TaskSettled(settled) => Some(settled.evaluation.as_ref()?.success_rate),
        _ => None,
    });
    assert_eq!(rates.collect::<Vec<_>>(), [0.0, 0.5]);
}

/// A list has 20 names at most: very many results in one turn do not each say them again.
#[test]
fn a_result_that_adds_no_name_and_is_no_success_says_none() {
    let failing: Vec<String> = (0..21).map(|index| format!("f{index}")).collect();
    let text = format!("continue_all: good {} left gone", failing.join(" "));
    let mut bench = Bench::plan(&text).lease_all();
    for name in &failing {
        bench = bench.fails(name, "BAD");
    }
    let bench = bench.completes("good").does(Input::Cancel {
        reason: String::new(),
        force: true,
        request_id: "c".to_owned(),
    });
    let said = bench.ledger.events.iter().filter_map(|event| match event.body.as_ref()? {
        Body::TaskSettled(settled) => {
            let evaluation = settled.evaluation.as_ref()?;
            Some((evaluation.total, evaluation.failed_agents.len(), evaluation.optional_failures.len()))
        }
        _ => None,
    });
    let mut expected: Vec<_> = (1..=20).map(|total| (total, total as usize, total as usize)).collect();
    expected.extend([(21, 0, 0), (22, 20, 20), (23, 0, 0), (24, 0, 0)]);
    assert_eq!(said.collect::<Vec<_>>(), expected);
}

// S000-C2-16, S000-C5-05, S000-C5-06
#[test]
fn fail_fast_stops_the_rest_at_the_first_failure() {
    let bench = Bench::plan("fail_fast: a b c d | e")
        .lease("a", "w1")
        .lease("b", "w2")
        .lease("c", "w3")
        .completes("c");
    let bench = bench
        .fails("a", "TESTS_FAILED")
        .expect_kinds(&["task_settled", "wave_decided", "task_cancel_requested", "task_settled"])
        .expect_task("d", v1::TaskState::Deleted, v1::ResultStatus::Cancelled)
        .expect_status(v1::RunStatus::Running)
        .stops("b")
        .expect_task("b", v1::TaskState::Failed, v1::ResultStatus::Cancelled)
        .expect_succeeded("c")
        .expect_outcome(Failed)
        .expect_run_error("NON_RETRYABLE_ERROR");
    let decided = bench.ledger.events.iter().find_map(|event| match event.body.as_ref()? {
        Body::WaveDecided(decided) => decided.evaluation.clone(),
        _ => None,
    });
    assert_eq!(decided.unwrap().failed_agents, ["a"]);
    assert_eq!(bench.run().error.unwrap().cause.unwrap().code, "TESTS_FAILED");
}

#[test]
fn the_rest_of_a_failed_wave_is_not_waited_for_beyond_its_grace() {
    Bench::plan("fail_fast: a b").lease_all().fails("a", "BAD").after(10 * SECOND).expect_outcome(Failed);
}

// S000-C5-08
#[test]
fn continue_all_goes_on_whatever_fails() {
    let bench = Bench::plan("continue_all: a b | c")
        .lease_all()
        .fails("a", "BAD")
        .fails("b", "BAD")
        .lease("c", "w1")
        .completes("c")
        .expect_outcome(SucceededWithFailures);
    let run = bench.run();
    let evaluation = run.waves[0].evaluation.clone().unwrap();
    assert!(evaluation.should_continue);
    assert_eq!((evaluation.successes, evaluation.total), (0, 2));
    assert_eq!(evaluation.failed_agents, ["a", "b"]);
    // Nobody knows BAD, which is HIGH.
    let summary = run.summary.unwrap();
    assert_eq!((summary.total, summary.high, summary.critical_tasks), (2, 2, 0));
}

// S000-C5-10
#[test]
fn on_the_critical_path_only_critical_tasks_count() {
    let bench = Bench::plan("critical_path: a! b | c").lease_all().fails("b", "BAD").completes("a");
    let [notice] = bench.notices("OPTIONAL_AGENT_FAILED").try_into().unwrap();
    assert_eq!(notice.task, Some(bench.at("b").task));
    bench.lease_all().completes("c").expect_outcome(SucceededWithFailures);
}

// S000-C5-09
#[test]
fn a_failed_critical_task_stops_its_wave() {
    let bench = Bench::plan("critical_path: a! b c").lease("a", "w1").lease("b", "w2").fails("a", "BAD");
    assert_eq!(
        bench.task("a").severity,
        v1::Severity::High as i32,
        "that it is critical makes it no severer"
    );
    assert!(bench.error("a").is_critical);
    bench.stops("b").expect_outcome(Failed).expect_run_error("CRITICAL_AGENT_FAILED");
}

// S000-C5-11
#[test]
fn the_tasks_of_critical_agents_are_critical() {
    let named = |plan: &mut v1::Plan| {
        let policy = plan.policy.as_mut().unwrap();
        policy.critical_agents = vec!["a".to_owned()];
    };
    let bench =
        Bench::with("critical_path: a b c", named).lease("a", "w1").lease("b", "w2").fails("a", "BAD");
    assert!(bench.task("a").critical && !bench.task("b").critical);
    bench.stops("b").expect_outcome(Failed).expect_run_error("CRITICAL_AGENT_FAILED");
    let without = Bench::plan("critical_path: a b c").lease_all().fails("a", "BAD");
    without.expect_unsettled("b");
}

// S000-C5-18, S000-CL-09
#[test]
fn a_wave_may_have_a_policy_of_its_own() {
    let own = |plan: &mut v1::Plan| plan.waves[0].policy = Some(policy_named("continue_all"));
    Bench::with("fail_fast: a b | c", own)
        .lease_all()
        .fails("a", "BAD")
        .fails("b", "BAD")
        .lease_all()
        .fails("c", "BAD")
        .expect_outcome(Failed);
}

#[test]
fn stop_when_decided_ends_a_quorum_that_is_met() {
    Bench::plan("quorum early: a b c d | e")
        .lease_all()
        .completes("a")
        .expect_kinds(&["task_settled"])
        .completes("b")
        .expect_kinds(&["task_settled", "wave_decided", "task_cancel_requested", "task_cancel_requested"])
        .stops("c")
        .stops("d")
        .lease_all()
        .completes("e")
        .expect_outcome(Succeeded);
}

#[test]
fn stop_when_decided_ends_a_quorum_that_cannot_be_met() {
    Bench::plan("quorum early: a b c d")
        .lease("a", "w1")
        .lease("b", "w2")
        .lease("c", "w3")
        .fails("a", "TESTS_FAILED")
        .fails("b", "TESTS_FAILED")
        .expect_kinds(&["task_settled"])
        .fails("c", "TESTS_FAILED")
        .expect_task("d", v1::TaskState::Deleted, v1::ResultStatus::Cancelled)
        .expect_outcome(Failed)
        .expect_run_error("QUORUM_NOT_MET");
}

#[test]
fn an_early_end_is_evaluated_with_the_tasks_that_it_cancelled() {
    let bench = Bench::plan("quorum early: a b").lease("a", "w1").completes("a").expect_outcome(Succeeded);
    let evaluation = bench.run().waves[0].evaluation.clone().unwrap();
    assert_eq!((evaluation.successes, evaluation.total, evaluation.should_continue), (1, 2, true));
}

#[test]
fn the_end_says_how_many_tasks_were_never_started() {
    let bench = Bench::plan("fail_fast: a b | c d").lease("a", "w1").fails("a", "BAD").expect_outcome(Failed);
    let Some(Body::RunFinished(finished)) = &bench.ledger.events.last().unwrap().body else { panic!() };
    assert_eq!(finished.not_started, 3, "b was deleted, c and d had no wave");
    assert_eq!(finished.summary.as_ref().unwrap().total, 1, "cancelled tasks are not failures");
}

#[test]
fn a_wave_of_ten_thousand_tasks_costs_a_few_events_for_each() {
    const TASKS: usize = 10_000;
    let names: Vec<String> = (0..TASKS).map(|index| format!("t{index}")).collect();
    let line = format!("fail_fast: {}", names.join(" "));
    let bench = Bench::start(plan(&line), false);
    assert_eq!(bench.kinds(), ["run_accepted", "wave_started"], "one event for the whole wave");
    assert_eq!(bench.effects().len(), TASKS);

    let bench = bench.lease("t0", "w1").fails("t0", "TESTS_FAILED").expect_outcome(Failed);
    assert_eq!(bench.kinds().len(), TASKS + 3, "each task settles once; decided, finished, finished");
    let bytes = bench.last.as_ref().unwrap().events.len();
    assert!(bytes < TASKS * 400, "{bytes} bytes: no list grows with the wave");
}

#[test]
fn ten_thousand_results_cost_one_event_each() {
    const TASKS: usize = 10_000;
    let names: Vec<String> = (0..TASKS).map(|index| format!("t{index}")).collect();
    let mut plan = plan(&names.join(" "));
    Plan::materialise(&mut plan).unwrap();
    let request = StartRun { work: Work::Plan(plan), labels: BTreeMap::new(), parent: None, lineage: None };
    let (mut state, _) = start(SEED, request, Wall(START)).unwrap();
    let queued: Vec<TaskRef> = state.queued().collect();
    for task in queued {
        let worker = "w1".to_owned();
        decide(
            &mut state,
            Input::Lease {
                output_schema: None,
                cancel_is_final: false,
                mark: 0,
                task,
                worker: worker.clone(),
            },
            Moment::first(Wall(START)),
        )
        .unwrap();
        let (lease, _) = state.lease_of(task).unwrap();
        let report = Report::Completed(json("1"));
        decide(&mut state, reported(task, lease, &worker, report), Moment::first(Wall(START))).unwrap();
    }
    assert_eq!(state.outcome(), Some(Succeeded));
    assert_eq!(state.seq(), 2 + 2 * TASKS as u64 + 2);
}

#[test]
fn a_thousand_waves_that_fail_at_once_do_not_grow_the_stack() {
    let waves = (1..1_000).map(|index| format!("t{index}"));
    let line = format!("continue_all: t0 | {}", waves.collect::<Vec<_>>().join(" | "));
    let mut plan = plan(&line);
    for wave in plan.waves.iter_mut().skip(1) {
        wave.tasks[0].input = Some(json("\"${tasks.t0.output.missing}\""));
    }
    Bench::start(plan, false).lease("t0", "w1").completes("t0").expect_outcome(SucceededWithFailures);
}
