//! Logs that no run has written: the fold refuses them, and says at which event.

use super::*;
use crate::CorruptLog;

/// Why the run's log does not fold once its last event is changed.
#[track_caller]
fn refused(bench: &Bench, change: impl FnOnce(&mut v1::Event)) -> CorruptLog {
    let mut events = bench.ledger.events.clone();
    change(events.last_mut().unwrap());
    RunState::fold(SEED, events).expect_err("the event does not fit")
}

fn not_there(seq: u64) -> CorruptLog {
    CorruptLog { seq, detail: "it names a task or question that is not there" }
}

#[test]
fn neither_clock_of_a_run_goes_backwards() {
    let bench = Bench::plan("a").after(SECOND).lease("a", "w1");
    let backwards = CorruptLog { seq: 3, detail: "time goes backwards" };
    assert_eq!(refused(&bench, |event| event.at_ms = START - 1), backwards);
    assert_eq!(refused(&bench, |event| event.elapsed_ms = -1), backwards);
}

#[test]
fn a_schema_is_recorded_under_the_next_number_and_named_by_one_that_was_recorded() {
    let bench = Bench::plan("a").lease("a", "w1");
    for (number, text) in [(1, Some("true")), (0, None), (1, None)] {
        let refusal = refused(&bench, |event| {
            let Some(Body::TaskLeased(leased)) = &mut event.body else { panic!("it is a lease") };
            leased.output_schema = Some(v1::RecordedSchema { number, text: text.map(str::to_owned) });
        });
        assert_eq!(refusal, not_there(3), "{number}, {text:?}");
    }
}

#[test]
fn with_a_task_only_those_of_later_waves_are_taken_back() {
    let refusal = |bench: &Bench, other: TaskRef| {
        refused(bench, |event| {
            let Some(Body::TaskRolledBack(back)) = &mut event.body else { panic!("it is taken back") };
            let first = back.taken_back[0].clone();
            back.taken_back.push(v1::TaskTakenBack { wave: other.wave, task: other.task, ..first });
        })
    };
    let bench = Bench::plan("a b | c").lease_all().completes("a").completes("b").lease("c", "w1");
    let earlier = bench.clone_run().roll_back("c");
    assert_eq!(refusal(&earlier, earlier.at("a")), not_there(earlier.state.seq()));
    let beside = bench.roll_back_all("a");
    assert_eq!(refusal(&beside, beside.at("b")), not_there(beside.state.seq()));
}
