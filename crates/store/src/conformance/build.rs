//! Builders for appends and queries.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::{SHARD, Subject};
use crate::port::{
    Append, AppendOutcome, BlobHash, Create, IdempotencyKey, LogRow, Mark, Millis, Position, Quarantine,
    QuarantineReason, Retention, RunId, RunQuery, ShardWriter, Store, Summary, Unfinished,
};

/// A limit above the size of any page in the tests.
pub const ALL: usize = 1_000_000;

/// The id of run `number`; a greater number is a newer run.
pub fn run_id(number: u64) -> RunId {
    RunId(uuid::Uuid::from_u128((u128::from(number) + 1) << 64 | 0x8000))
}

/// The first append of run `number`: two events.
pub fn creation(number: u64) -> Append {
    let create = Create {
        kind: 1,
        name: format!("run {number}"),
        labels: BTreeMap::new(),
        created_at: Millis(1_000),
        key: None,
        past: None,
    };
    Append { create: Some(create), ..more(number, 1, 2) }
}

/// `count` events of run `number` from `first_seq` on.
pub fn more(number: u64, first_seq: u64, count: u32) -> Append {
    Append {
        run: run_id(number),
        first_seq,
        count,
        events: Bytes::from(format!("events of {number} from {first_seq}")),
        create: None,
        summary: None,
        derived: Vec::new(),
        memory: Vec::new(),
        blobs: Vec::new(),
        rest: None,
        joined: false,
        key: None,
    }
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

/// Retention that removes nothing.
pub fn keep() -> Retention {
    Retention {
        keep: BTreeSet::new(),
        held_by: None,
        finished_before: None,
        max_log_bytes: None,
        after: None,
        looked_at: u32::MAX,
        keys_before: Millis(i64::MIN),
        blobs_before: Millis(i64::MIN),
        batch: 100,
        batch_bytes: u64::MAX,
    }
}

/// A query for all runs, newest first.
pub fn everything() -> RunQuery {
    RunQuery { limit: u32::MAX, ..RunQuery::default() }
}

/// Further properties of an append.
pub trait Shape: Sized {
    /// Makes the append a creation under an idempotency key.
    #[must_use]
    fn key(self, key: &str, request: u8) -> Self;

    #[must_use]
    fn label(self, key: &str, value: &str) -> Self;

    #[must_use]
    fn summary(self, summary: Summary) -> Self;

    #[must_use]
    fn events(self, events: impl Into<Bytes>) -> Self;

    #[must_use]
    fn names(self, blob: BlobHash) -> Self;

    /// Joins the append with the next one.
    #[must_use]
    fn joined(self) -> Self;

    /// The row that the append becomes.
    fn row(&self, position: u64) -> LogRow;
}

impl Shape for Append {
    fn key(mut self, key: &str, request: u8) -> Self {
        if let Some(create) = &mut self.create {
            create.key = Some(IdempotencyKey { key: Bytes::from(key.to_owned()), request: [request; 32] });
        }
        self
    }

    fn label(mut self, key: &str, value: &str) -> Self {
        if let Some(create) = &mut self.create {
            create.labels.insert(key.to_owned(), value.to_owned());
        }
        self
    }

    fn summary(mut self, summary: Summary) -> Self {
        self.summary = Some(summary);
        self
    }

    fn events(mut self, events: impl Into<Bytes>) -> Self {
        self.events = events.into();
        self
    }

    fn names(mut self, blob: BlobHash) -> Self {
        self.blobs.push(blob);
        self
    }

    fn joined(mut self) -> Self {
        self.joined = true;
        self
    }

    fn row(&self, position: u64) -> LogRow {
        LogRow {
            position: Position(position),
            run: self.run,
            first_seq: self.first_seq,
            count: self.count,
            events: Some(self.events.clone()),
            inherited: false,
        }
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

/// The ids of the runs with these numbers.
/// Unfinished runs of which something is in work.
pub fn in_work(numbers: &[u64]) -> Vec<Unfinished> {
    numbers.iter().map(|number| Unfinished { run: run_id(*number), rest: None }).collect()
}

pub fn ids(numbers: &[u64]) -> Vec<RunId> {
    numbers.iter().map(|number| run_id(*number)).collect()
}
