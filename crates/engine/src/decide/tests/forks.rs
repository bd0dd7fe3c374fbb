//! Runs that begin with what another run was after one of its events.

use super::*;
use crate::NotForked;

#[test]
fn what_has_happened_is_not_done_again_and_what_was_at_work_is() {
    let base = Bench::plan("a | b c").lease_all().completes_with("a", "{\"n\":1}").lease("b", "w");
    let token = base.token("b");
    let fork = base.clone_run().forks_later(SECOND).expect_kinds(&["run_forked", "task_lease_lost"]);
    assert_eq!(
        fork.effects(),
        [Effect::Enqueue { task: fork.at("b") }, Effect::Enqueue { task: fork.at("c") }]
    );
    let lost = fork.task("b");
    assert_eq!((lost.state(), lost.attempt), (v1::TaskState::Active, 1), "{lost:?}");
    // Whoever works for the other run works for that run alone.
    let task = fork.at("b");
    let stolen = reported(task, token, "w", Report::Completed(json("1")));
    let refusal = v1::RefusalReason::StaleLease;
    let fork = fork.lease("b", "v").does(stolen);
    assert!(
        fork.effects()
            .iter()
            .any(|effect| matches!(effect, Effect::Refuse { reason, .. } if *reason == refusal)),
        "{:?}",
        fork.effects()
    );
    let fork = fork.lease("c", "v").completes("b").completes("c").expect_outcome(v1::RunOutcome::Succeeded);
    let leases = fork.ledger.events.iter().filter(|event| kind(event) == "task_leased");
    assert_eq!(leases.count(), 4, "a once, b in both runs, c in the fork");
    base.completes("b").lease("c", "w").completes("c").expect_outcome(v1::RunOutcome::Succeeded);
}

#[test]
fn a_fork_says_where_it_comes_from_and_has_labels_and_a_beginning_of_its_own() {
    let base = Bench::plan("a").lease_all();
    let (seq, first) = (base.state.seq(), base.run());
    let fork = base.forks_later(7 * SECOND);
    let run = fork.run();
    assert_eq!(run.forked_from, Some(v1::ForkRef { run_id: "run".to_owned(), seq }));
    assert_eq!(run.created_at_ms, START + 7 * SECOND);
    assert_eq!((first.created_at_ms, first.forked_from), (START, None));
    let labels = BTreeMap::from([("of".to_owned(), "a fork".to_owned())]);
    assert_eq!((&run.labels, fork.state.labels()), (&labels, &labels));
}

#[test]
fn of_work_that_may_be_done_once_a_person_is_asked_what_became_of_it() {
    let fork = Bench::plan("a@once").lease_all().forks_later(0);
    let fork = fork.expect_kinds(&["run_forked", "question_asked"]).answer("retry").lease("a", "w");
    fork.completes("a").expect_outcome(v1::RunOutcome::Succeeded);
}

#[test]
fn lost_leases_are_counted_for_each_run_and_a_fork_is_no_loss() {
    let mut bench = Bench::plan("a").lease_all();
    for _ in 0..8 {
        bench = bench.forks_later(0).lease_all();
    }
    assert_eq!(bench.count("task_lease_lost"), 8);
    // The fifth loss is the end of the task.
    for _ in 0..4 {
        bench = bench.loses("a").lease_all();
    }
    bench.loses("a").expect_failed("a", "WORKER_LOST");
}

#[test]
fn deadlines_are_as_far_ahead_as_they_were() {
    let limit = |plan: &mut v1::Plan| {
        plan.timeouts = Some(v1::TimeoutPolicy { timeout_ms: Some(10 * MINUTE), ..Default::default() });
    };
    let base = Bench::with("a", limit).lease_all().after(4 * MINUTE).pause().resume();
    assert_eq!(base.task("a").deadline_ms, Some(START + 10 * MINUTE));
    let fork = base.forks_later(60 * MINUTE).lease_all();
    assert_eq!(fork.task("a").deadline_ms, Some(START + 70 * MINUTE));
    fork.after(6 * MINUTE - 1).expect_unsettled("a").after(SECOND + MINUTE).expect_timed_out("a");
}

#[test]
fn a_retry_that_was_waited_for_is_waited_for_as_long() {
    let base = Bench::plan("a").lease_all().fails("a", "NETWORK_ERROR");
    let next = base.state.next_deadline();
    let fork = base.forks_later(MINUTE).expect_kinds(&["run_forked"]);
    assert_eq!((fork.state.next_deadline(), fork.state.queued().count()), (next, 0));
    fork.after(MINUTE).lease_all().completes("a").expect_outcome(v1::RunOutcome::Succeeded);
}

#[test]
fn request_ids_are_the_forks_own_and_questions_stay_open() {
    let on_high = |plan: &mut v1::Plan| plan.on_high = Some(v1::OnHigh::Pause as i32);
    let base = Bench::with("a b", on_high).lease_all().does(extend("b", MINUTE, "r1"));
    let base = base.fails("a", "PERMISSION_DENIED");
    let open = base.open();
    assert_eq!(open.len(), 1, "{:?}", base.run().questions);
    let again = base.clone_run().does(extend("b", MINUTE, "r1"));
    assert!(again.kinds().is_empty(), "the run knows the request");
    let fork = base.forks_later(0);
    assert_eq!(fork.open(), open);
    let fork = fork.answer("skip").lease("b", "v").does(extend("b", MINUTE, "r1"));
    fork.expect_kinds(&["task_extended"])
        .completes("b")
        .expect_outcome(v1::RunOutcome::SucceededWithFailures);
}

#[test]
fn a_plan_that_waits_for_its_session_or_is_at_work_in_it_leaves_it() {
    let of_session = |plan: &mut v1::Plan| plan.session = Some("shop".to_owned());
    let waiting = Bench::with("a", of_session);
    assert_eq!(waiting.state.awaited_session(), Some("shop"));
    let fork = waiting.forks_later(0);
    assert_eq!((fork.state.session(), fork.run().session), (None, None));
    fork.lease_all().completes("a").expect_outcome(v1::RunOutcome::Succeeded);
}

#[test]
fn a_run_that_has_ended_or_is_about_to_or_whose_task_is_a_run_at_work_is_not_forked() {
    let ending = Bench::plan("a b").lease_all().cancel();
    assert_eq!(ending.state.not_forked(), Some(NotForked::Ending));
    let ended = Bench::plan("a").lease_all().completes("a");
    let with_child = |plan: &mut v1::Plan| {
        let child = v1::child_run::Work::Plan(super::plan("x"));
        plan.waves[0].tasks[0].agent = String::new();
        plan.waves[0].tasks[0].run = Some(Box::new(v1::ChildRun { work: Some(child), ..Default::default() }));
    };
    let parent = Bench::with("a", with_child);
    assert_eq!(parent.count("child_named"), 1);
    for bench in [ending, ended, parent] {
        assert!(!bench.state.may_be_forked());
        let refused = start(SEED, bench.forked(None), Wall(START));
        assert!(matches!(refused, Err(Refusal::Outdated)), "{refused:?}");
    }
}

#[test]
fn a_fork_does_not_fit_a_log_in_which_it_is_not_the_next_event() {
    let fork = Bench::plan("a").lease_all().forks_later(0);
    let mut events = fork.ledger.events.clone();
    for event in &mut events {
        if let Some(Body::RunForked(forked)) = &mut event.body {
            forked.seq += 1;
        }
    }
    RunState::fold(SEED, events).unwrap_err();
}
