//! Builders for appends and queries of numbered runs.

use super::{SHARD, Subject};
use crate::builders::{Shape, beginning, continuation};
use crate::port::{
    Append, AppendOutcome, LogRow, Mark, Millis, Position, Quarantine, QuarantineReason, RunId, RunQuery,
    ShardWriter, Store, Summary, Unfinished,
};

/// A limit above the size of any page in the tests.
pub const ALL: usize = 1_000_000;

/// The id of run `number`; a greater number is a newer run.
pub fn run_id(number: u64) -> RunId {
    RunId(uuid::Uuid::from_u128((u128::from(number) + 1) << 64 | 0x8000))
}

/// The first append of run `number`: two events.
pub fn creation(number: u64) -> Append {
    let append = beginning(run_id(number)).count(2).events(events_of(number, 1));
    append.named(&format!("run {number}")).created_at(1_000)
}

/// `count` events of run `number` from `first_seq` on.
pub fn more(number: u64, first_seq: u64, count: u32) -> Append {
    continuation(run_id(number), first_seq).count(count).events(events_of(number, first_seq))
}

fn events_of(number: u64, first_seq: u64) -> String {
    format!("events of {number} from {first_seq}")
}

/// One event of run `number` at `seq`, which finishes the run.
pub fn finish(number: u64, seq: u64, at: i64) -> Append {
    more(number, seq, 1).summary(Summary {
        status: 9,
        outcome: 1,
        finished_at: Some(Millis(at)),
        ..updated(at)
    })
}

/// The summary of a running run.
pub fn updated(at: i64) -> Summary {
    Summary {
        status: 3,
        outcome: 0,
        updated_at: Millis(at),
        finished_at: None,
        tasks_total: 4,
        tasks_settled: 2,
    }
}

/// A reason not to work on a run.
pub fn quarantine(reason: QuarantineReason, seq: u64, at: i64) -> Quarantine {
    Quarantine { reason, seq, position: None, detail: format!("after event {seq}"), at: Millis(at) }
}

/// Claims the shard under a mark that no claim of its known history has.
#[track_caller]
pub fn claim(store: &impl Store) -> Box<dyn ShardWriter> {
    let history = store.history(SHARD).unwrap();
    let greatest = history.eras().iter().map(|era| era.mark.0).max().unwrap_or_default();
    store.claim(SHARD, Mark(greatest + 1)).unwrap()
}

/// A fresh subject with its store and a writer.
pub fn claimed<S: Subject>() -> (S, S::Adapter, Box<dyn ShardWriter>) {
    let subject = S::fresh();
    let store = subject.store();
    let writer = claim(&store);
    (subject, store, writer)
}

/// Commits appends that must all be accepted.
#[track_caller]
pub fn accept(writer: &mut dyn ShardWriter, appends: &[Append]) -> Vec<Position> {
    let outcomes = writer.commit(appends).unwrap();
    let position = |outcome: &AppendOutcome| match outcome {
        AppendOutcome::Committed(position) => *position,
        refused => panic!("refused: {refused:?}"),
    };
    outcomes.iter().map(position).collect()
}

/// Commits one append.
#[track_caller]
pub fn commit_one(writer: &mut dyn ShardWriter, append: Append) -> AppendOutcome {
    let mut outcomes = writer.commit(&[append]).unwrap();
    assert_eq!(outcomes.len(), 1);
    outcomes.remove(0)
}

/// The whole log.
#[track_caller]
pub fn whole_log(store: &impl Store) -> Vec<LogRow> {
    store.read_log(SHARD, Position(0), ALL, ALL).unwrap()
}

/// The runs that a listing returns.
#[track_caller]
pub fn listed(store: &impl Store, query: &RunQuery) -> Vec<RunId> {
    store.list_runs(query).unwrap().into_iter().map(|row| row.run).collect()
}

/// Unfinished runs of which something is in work.
pub fn in_work(numbers: &[u64]) -> Vec<Unfinished> {
    numbers.iter().map(|number| Unfinished { run: run_id(*number), rest: None }).collect()
}

/// The ids of the runs with these numbers.
pub fn ids(numbers: &[u64]) -> Vec<RunId> {
    numbers.iter().map(|number| run_id(*number)).collect()
}
