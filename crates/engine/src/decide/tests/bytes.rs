//! What a run holds. That the count goes along with every event, and stays near the length of the snapshot, is checked
//! after each step of every other test; see `Ledger::compare_fold`.

use super::*;
use crate::RunLimits;

const EVENTS: u64 = 1_000_000;

fn limits(bytes: u64) -> RunLimits {
    RunLimits { events: EVENTS, bytes }
}

#[test]
fn a_run_that_holds_too_many_bytes_fails_without_waiting_for_anybody() {
    let bench = Bench::plan("a b").lease("a", "w1");
    let held = bench.state.bytes();
    assert!(!bench.state.exceeds(limits(held + 1)));
    let bench = bench.lease("b", "w2").completes_with("b", &format!("\"{}\"", "x".repeat(30_000)));
    assert!(bench.state.exceeds(limits(held + 30_000)));
    let held = bench.state.bytes();
    let bench = bench
        .does(Input::LimitExceeded { limit: EVENTS })
        .expect_outcome(v1::RunOutcome::Failed)
        .expect_run_error("RUN_LIMIT_EXCEEDED");
    let message = bench.run().error.unwrap().message;
    assert_eq!(message, format!("the state of the run has {held} bytes, which is too much"));
}

#[test]
fn a_run_of_many_events_exceeds_its_limit_however_little_it_holds() {
    let bench = Bench::plan("a").lease("a", "w1");
    let seq = bench.state.seq();
    assert!(bench.state.exceeds(RunLimits { events: seq, bytes: u64::MAX }));
    assert!(!bench.state.exceeds(RunLimits { events: seq + 1, bytes: u64::MAX }));
}

#[test]
fn what_a_wave_was_given_is_forgotten_when_the_next_one_begins() {
    let refers = |plan: &mut v1::Plan| {
        plan.waves[1].tasks[0].input = Some(json(r#""${tasks.a.output}""#));
    };
    let large = format!("\"{}\"", "x".repeat(20_000));
    let bench = Bench::with("a | b | c", refers).lease("a", "w1").completes_with("a", &large);
    let held = bench.state.bytes();
    assert!(held > 40_000, "the output and the input that it became: {held}");
    let bench = bench.lease("b", "w1").completes("b").lease("c", "w1");
    assert!(bench.state.bytes() < held - 19_000, "{}", bench.state.bytes());
    bench.completes("c").expect_outcome(v1::RunOutcome::Succeeded);
}

/// A task may be taken back as long as its run has not ended.
#[test]
fn what_a_plan_declares_is_forgotten_when_the_run_ends() {
    let large = |plan: &mut v1::Plan| {
        plan.waves[0].tasks[0].input = Some(json(&format!("\"{}\"", "x".repeat(20_000))));
    };
    let bench = Bench::with("a | b", large).lease("a", "w1").completes("a").lease("b", "w1");
    let held = bench.state.bytes();
    assert!(held > 20_000, "{held}");
    let bench = bench.completes("b").expect_outcome(v1::RunOutcome::Succeeded);
    assert!(bench.state.bytes() < held - 19_000, "{}", bench.state.bytes());
}
