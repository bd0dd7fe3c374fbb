//! Builders for what a test writes into a store or asks of it: appends, a query, a rule of retention. They are for tests
//! of this crate and of those above it, which write logs by hand.
//!
//! [`beginning`] and [`continuation`] are the least that an append may be; what else one has, [`Shape`] says by name.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::port::{
    Append, BlobHash, Create, Derived, IdempotencyKey, LogRow, Millis, Place, Position, Retention, RunId,
    RunQuery, Summary,
};

/// The first append of a run: one event, which nobody can read.
pub fn beginning(run: RunId) -> Append {
    let create = Create {
        kind: 1,
        name: "p".to_owned(),
        labels: BTreeMap::new(),
        created_at: Millis(0),
        key: None,
        past: None,
    };
    Append { create: Some(create), ..continuation(run, 1) }
}

/// A later append of a run: one event, which nobody can read.
pub fn continuation(run: RunId, seq: u64) -> Append {
    Append {
        run,
        first_seq: seq,
        count: 1,
        events: Bytes::from_static(b"event"),
        create: None,
        summary: None,
        rest: None,
        derived: Vec::new(),
        memory: Vec::new(),
        blobs: Vec::new(),
        joined: false,
        key: None,
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

/// Further properties of an append. What is fixed when a run is created, only an append that creates one has.
pub trait Shape: Sized {
    /// Creates a run of this kind, the contract's `RunKind`.
    #[must_use]
    fn kind(self, kind: i32) -> Self;

    /// Creates a run of this name.
    #[must_use]
    fn named(self, name: &str) -> Self;

    #[must_use]
    fn created_at(self, at: i64) -> Self;

    /// Makes the append a creation under an idempotency key.
    #[must_use]
    fn key(self, key: &str, request: u8) -> Self;

    #[must_use]
    fn label(self, key: &str, value: &str) -> Self;

    /// The number of its events.
    #[must_use]
    fn count(self, count: u32) -> Self;

    #[must_use]
    fn events(self, events: impl Into<Bytes>) -> Self;

    #[must_use]
    fn summary(self, summary: Summary) -> Self;

    /// Lists the run as one that finished at this time.
    #[must_use]
    fn ended_at(self, at: i64) -> Self;

    #[must_use]
    fn names(self, blob: BlobHash) -> Self;

    /// A row without a value follows from its first event.
    #[must_use]
    fn derives(self, kind: u16, key: impl Into<Bytes>) -> Self;

    /// Joins the append with the next one.
    #[must_use]
    fn joined(self) -> Self;

    /// The row that the append becomes.
    fn row(&self, position: u64) -> LogRow;
}

impl Shape for Append {
    fn kind(mut self, kind: i32) -> Self {
        if let Some(create) = &mut self.create {
            create.kind = kind;
        }
        self
    }

    fn named(mut self, name: &str) -> Self {
        if let Some(create) = &mut self.create {
            create.name = name.to_owned();
        }
        self
    }

    fn created_at(mut self, at: i64) -> Self {
        if let Some(create) = &mut self.create {
            create.created_at = Millis(at);
        }
        self
    }

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

    fn count(mut self, count: u32) -> Self {
        self.count = count;
        self
    }

    fn events(mut self, events: impl Into<Bytes>) -> Self {
        self.events = events.into();
        self
    }

    fn summary(mut self, summary: Summary) -> Self {
        self.summary = Some(summary);
        self
    }

    fn ended_at(self, at: i64) -> Self {
        let at = Millis(at);
        self.summary(Summary { updated_at: at, finished_at: Some(at), ..Summary::default() })
    }

    fn names(mut self, blob: BlobHash) -> Self {
        self.blobs.push(blob);
        self
    }

    fn derives(mut self, kind: u16, key: impl Into<Bytes>) -> Self {
        let n = self.derived.last().map_or(0, |row| row.place.n + 1);
        let place = Place { seq: self.first_seq, n };
        self.derived.push(Derived { place, kind, key: key.into(), value: Bytes::new() });
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
