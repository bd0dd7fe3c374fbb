//! Plans that are work of a session: their turn, and the state that follows them (seed 000, contract 7).

use serde_json::{Value, json};

use super::*;
use crate::session::{Imported, SessionState, choose_mode, forget, import, record};

const RUN: &str = "018bcfe5-6800-7000-8000-000000000001";

/// A session, and all that was written of it.
#[derive(Default)]
struct Shop {
    state: Option<Box<SessionState>>,
    events: Vec<v1::Event>,
}

impl Shop {
    /// Has the run tell its session how far it is. The phases that were written, in order.
    #[track_caller]
    fn hears(&mut self, bench: &Bench) -> Vec<String> {
        let Some(decision) = record(&mut self.state, &bench.state, RUN).unwrap() else { return Vec::new() };
        let news = ledger::decoded(&decision.events);
        assert_eq!(news.len(), decision.count as usize);
        let phases = news.iter().filter_map(|event| match &event.body {
            Some(Body::SessionStateWritten(written)) => {
                let fields: Value = serde_json::from_str(&written.fields).unwrap();
                let phase = match written.cause() {
                    v1::SessionStateCause::Waiting => "the same",
                    // The seed's phase `done` is that no flow is there any more.
                    v1::SessionStateCause::RunEnded => {
                        assert_eq!(fields["current_flow"], Value::Null);
                        "done"
                    }
                    _ => fields["current_flow"]["phase"].as_str().unwrap(),
                };
                Some(phase.to_owned())
            }
            _ => None,
        });
        let phases = phases.collect();
        self.events.extend(news);
        self.is_its_fold();
        phases
    }

    #[track_caller]
    fn is_its_fold(&self) {
        let state = self.state.as_deref().unwrap();
        assert_eq!(&SessionState::fold(self.events.clone()).unwrap(), state);
        assert_eq!(&SessionState::from_snapshot(&state.snapshot().unwrap()).unwrap(), state);
    }

    fn at_work(&self) -> Option<&str> {
        self.state.as_ref()?.plan_at_work()
    }

    fn work(&self) -> Value {
        let view = self.state.as_ref().unwrap().view(String::new(), Wall(START));
        serde_json::from_str(&view.state.unwrap()).unwrap()
    }

    fn backup(&self) -> Option<Value> {
        let view = self.state.as_ref()?.view(String::new(), Wall(START));
        serde_json::from_str(&view.backup?).ok()
    }

    #[track_caller]
    fn imports(&mut self, state: &Value) -> Imported {
        let imported = import(&mut self.state, "shop", &state.to_string(), Vec::new(), Wall(START)).unwrap();
        if let Some(decision) = &imported.decision {
            self.events.extend(ledger::decoded(&decision.events));
        }
        self.is_its_fold();
        imported
    }
}

fn waiting(line: &str) -> Bench {
    Bench::with(line, |plan| plan.session = Some("shop".to_owned()))
}

fn turn() -> Input {
    Input::SessionTurn { context: v1::SessionContext::default() }
}

fn begun(line: &str) -> Bench {
    waiting(line).does(turn())
}

#[test]
fn a_plan_of_a_session_begins_when_it_has_its_turn_and_once() {
    let bench = waiting("a");
    assert_eq!(bench.kinds(), ["run_accepted"]);
    assert_eq!((bench.state.session(), bench.state.awaited_session()), (Some("shop"), Some("shop")));
    let bench = bench.does(turn()).expect_kinds(&["plan_begun", "wave_started"]);
    assert_eq!(bench.state.awaited_session(), None);
    assert_eq!(bench.input(turn()).expect_refusal(), Refusal::Outdated);
}

#[test]
fn a_plan_without_a_session_has_no_turn() {
    let bench = Bench::plan("a");
    assert_eq!(bench.kinds(), ["run_accepted", "wave_started"]);
    assert_eq!(bench.input(turn()).expect_refusal(), Refusal::Outdated);
}

// S000-C7-30
#[test]
fn the_session_follows_the_plan_from_phase_to_phase() {
    let mut shop = Shop::default();
    let bench = begun("a b | c");
    assert_eq!(shop.hears(&bench), ["initializing", "executing_wave_1"]);
    assert_eq!((shop.at_work(), &shop.work()["pending_tasks"]), (Some(RUN), &json!(["a", "b", "c"])));
    let bench = bench.lease_all().completes("a");
    assert_eq!(shop.hears(&bench), [""; 0], "the phase is what it was");
    let bench = bench.completes("b");
    assert_eq!(shop.hears(&bench), ["executing_wave_2"]);
    assert_eq!(shop.work()["pending_tasks"], json!(["c"]));
    assert_eq!(shop.backup().unwrap()["pending_tasks"], json!(["a", "b", "c"]));
    let bench = bench.lease_all().completes("c").expect_outcome(v1::RunOutcome::Succeeded);
    assert_eq!(shop.hears(&bench), ["verifying", "done"]);
    assert_eq!(shop.at_work(), None);
    let work = shop.work();
    assert_eq!((&work["current_flow"], &work["pending_tasks"]), (&Value::Null, &json!([])));
    let causes = shop.events.iter().filter_map(|event| match event.body.as_ref()? {
        Body::SessionStateWritten(written) => Some(written.cause()),
        _ => None,
    });
    assert_eq!(causes.last(), Some(v1::SessionStateCause::RunEnded));
    assert_eq!((&work["suggested_next"], &work["errors"]["count"]), (&json!("verify-work"), &json!(0)));
    let history = work["history"].as_array().unwrap();
    let told = history.iter().map(|entry| (&entry["command"], &entry["result"], &entry["run_id"]));
    assert_eq!(told.collect::<Vec<_>>(), [(&json!("execute"), &json!("succeeded"), &json!(RUN))]);
}

/// The seed's whole flow: three agents in parallel, of which one is out of time at each of its attempts.
// S000-IN-08
#[test]
fn two_of_three_agents_are_a_quorum_and_the_session_has_what_became_of_them() {
    let mut shop = Shop::default();
    let mut bench = begun("executor explorer verifier");
    assert_eq!(shop.hears(&bench), ["initializing", "executing_wave_1"]);
    bench = bench.lease_all().completes("executor").completes("explorer");
    for delay in [SECOND, 2 * SECOND] {
        bench = bench.fails("verifier", "TIMEOUT").after(delay).lease("verifier", "w3");
    }
    bench = bench.fails("verifier", "TIMEOUT").expect_failed("verifier", "RETRY_EXHAUSTED");
    assert_eq!(bench.task("verifier").severity, v1::Severity::High as i32);
    let bench = bench.expect_succeeded("executor").expect_outcome(v1::RunOutcome::SucceededWithFailures);
    let evaluation = bench.run().waves[0].evaluation.clone().unwrap();
    assert_eq!((evaluation.successes, evaluation.total, evaluation.should_continue), (2, 3, true));
    assert_eq!(evaluation.failed_agents, ["verifier"]);
    assert_eq!(shop.hears(&bench), ["verifying", "done"]);
    let work = shop.work();
    assert_eq!(
        (&work["history"][0]["result"], &work["errors"]["count"]),
        (&json!("succeeded_with_failures"), &json!(1))
    );
}

/// Of what fails, only what is HIGH or above is an error of the session.
// S000-IN-07
#[test]
fn what_is_milder_than_high_is_no_error_of_the_session() {
    let mut shop = Shop::default();
    let bench = begun("continue_all: a b c");
    shop.hears(&bench);
    let bench = bench.lease_all().fails("a", "TESTS_FAILED").fails("b", "COVERAGE_LOW").completes("c");
    let bench = bench.expect_outcome(v1::RunOutcome::SucceededWithFailures);
    let severities = ["a", "b"].map(|name| bench.task(name).severity);
    assert_eq!(severities, [v1::Severity::High as i32, v1::Severity::Medium as i32]);
    assert_eq!(shop.hears(&bench), ["verifying", "done"]);
    assert_eq!(shop.work()["errors"]["count"], 1);
}

/// SESSION_INVALID: nothing is written, and what is in memory is what the events make of it.
// S000-C7-26, S000-C7-30
#[test]
fn a_state_that_would_not_be_valid_leaves_the_session_as_it_was() {
    let mut shop = Shop::default();
    let state = json!({ "version": "1.0.0", "updated_at": "2023-11-14T22:00:00Z", "context": 7 });
    shop.imports(&state);
    let before = shop.state.clone();
    // At the beginning of the plan, and where it has come further.
    for bench in [begun("a"), begun("a").lease("a", "w1").completes("a")] {
        let violations = record(&mut shop.state, &bench.state, RUN).unwrap_err();
        let [violation] = violations.try_into().unwrap();
        assert_eq!((violation.path.as_str(), violation.rule), ("context", "TYPE_MISMATCH"));
        assert_eq!(shop.state, before);
        shop.is_its_fold();
    }
}

#[test]
fn a_plan_that_fails_is_judged_by_nobody_and_its_failures_are_counted() {
    let mut shop = Shop::default();
    let bench = begun("fail_fast: a");
    shop.hears(&bench);
    let bench = bench.lease("a", "w1").fails("a", "TESTS_FAILED").expect_outcome(v1::RunOutcome::Failed);
    assert_eq!(shop.hears(&bench), ["done"]);
    let work = shop.work();
    assert_eq!((&work["errors"]["count"], &work["suggested_next"]), (&json!(1), &json!("debug")));
    assert_eq!(work["history"][0]["result"], "failed");
}

#[test]
fn the_session_says_what_its_plan_waits_for() {
    let mut shop = Shop::default();
    let bench = begun("a");
    shop.hears(&bench);
    let bench = bench.pause();
    assert_eq!(shop.hears(&bench), ["the same"]);
    assert_eq!(shop.work()["blocked_on"], "paused");
    let bench = bench.resume();
    shop.hears(&bench);
    assert_eq!(shop.work()["blocked_on"], Value::Null);
    let bench = Bench::with("a b", |plan| {
        plan.session = Some("shop".to_owned());
        plan.on_high = Some(v1::OnHigh::Pause.into());
    });
    let bench = bench.does(turn()).lease("a", "w1").fails("a", "TESTS_FAILED");
    let question = bench.open().concat();
    let mut shop = Shop::default();
    shop.hears(&bench);
    let blocked = shop.work()["blocked_on"].as_str().unwrap().to_owned();
    assert!(blocked.starts_with(&format!("{question}: ")), "{blocked}");
}

#[test]
fn a_plan_that_is_cancelled_before_its_turn_leaves_nothing_in_its_session() {
    let mut shop = Shop::default();
    let bench = waiting("a").cancel().expect_outcome(v1::RunOutcome::Cancelled);
    assert_eq!(shop.hears(&bench), [""; 0]);
    assert_eq!(shop.state, None);
}

#[test]
fn a_plan_that_is_cancelled_before_its_turn_waits_for_it_no_more() {
    let bench = waiting("a").cancel().expect_outcome(v1::RunOutcome::Cancelled);
    assert_eq!((bench.state.session(), bench.state.awaited_session()), (Some("shop"), None));
}

#[test]
fn an_imported_state_is_the_sessions_with_what_it_knows_besides_and_changes_once() {
    let mut shop = Shop::default();
    let state = json!({
        "version": "1.0.0",
        "updated_at": "2023-11-14T22:00:00Z",
        "context": { "project_type": "brownfield" },
        "history": [{ "command": "plan", "completed_at": "2023-11-14T22:00:00Z", "result": "created" }],
        "of_ours": [1, null],
    });
    assert_eq!(shop.imports(&state).seq, 2, "the session is opened before");
    assert_eq!(shop.imports(&state), Imported { seq: 2, decision: None });
    let bench = begun("a");
    shop.hears(&bench);
    shop.hears(&bench.lease("a", "w1").completes("a"));
    let work = shop.work();
    assert_eq!((&work["of_ours"], &work["context"]), (&state["of_ours"], &state["context"]));
    let commands: Vec<&str> =
        work["history"].as_array().unwrap().iter().filter_map(|entry| entry["command"].as_str()).collect();
    assert_eq!(commands, ["plan", "execute"]);
    shop.imports(&state);
    assert_eq!(shop.work(), state, "what the plan has added is in the backup");
    assert_eq!(shop.backup(), Some(work));
}

#[test]
fn that_a_state_was_repaired_is_recorded_even_where_the_session_has_it_already() {
    let mut shop = Shop::default();
    let before = json!({ "version": "1.0.0", "updated_at": "2023-11-14T22:00:00Z" });
    let state = json!({ "version": "1.0.1", "updated_at": "2023-11-14T22:00:00Z" });
    shop.imports(&before);
    shop.imports(&state);
    let repairs = vec!["SESSION_CORRUPTED: restored".to_owned()];
    let told = import(&mut shop.state, "shop", &state.to_string(), repairs.clone(), Wall(START)).unwrap();
    let events = ledger::decoded(&told.decision.expect("an event").events);
    let [v1::Event { body: Some(Body::SessionStateWritten(written)), .. }] = events.as_slice() else {
        panic!("{events:?}")
    };
    assert_eq!(written.repairs, repairs);
    assert_eq!((shop.work(), shop.backup()), (state, Some(before)), "and nothing else has changed");
}

#[test]
fn what_is_decided_of_a_session_one_after_the_other_is_one_piece_of_its_log() {
    let mut session = None;
    let chosen = choose_mode(&mut session, "shop", v1::ExecutionMode::Planner, Wall(START)).unwrap();
    let mut decision = chosen.decision.unwrap();
    let forgotten = forget(&mut session, "shop", vec!["m1".to_owned()], Wall(START)).unwrap();
    decision.then(forgotten.decision);
    // The session is opened before it is changed.
    assert_eq!((decision.first_seq, decision.count, decision.forgets), (1, 3, true));
    let seqs: Vec<u64> = ledger::decoded(&decision.events).iter().map(|event| event.seq).collect();
    assert_eq!(seqs, [1, 2, 3]);
}
