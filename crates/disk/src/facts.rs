//! What a program under test was told by the store, in the order in which it was told, and what follows from it for a folder
//! after a cut.

use std::collections::{BTreeMap, BTreeSet};

use capataz_store::BlobHash;
use serde::{Deserialize, Serialize};

/// A note among the records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fact {
    /// An append is committed, or was read by a claim as being so.
    Appended(Appended),
    /// A blob is there; so it is while no sweep takes blobs of that age.
    Blob {
        hash: BlobHash,
        at: i64,
    },
    /// From now on nobody knows which of both holds.
    Trying(Change),
    Done(Change),
    /// A call of the store failed.
    Failed {
        operation: String,
        kind: ErrorKind,
        error: String,
    },
    /// The store could not go on after failures, and was opened again.
    Reopened,
    /// A daemon has told that the run is finished.
    Served {
        run: String,
    },
    /// All of the work is done.
    Ended,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Appended {
    pub run: u64,
    pub last_seq: u64,
    pub finished_at: Option<i64>,
    pub key: Option<String>,
    pub blobs: Vec<BlobHash>,
}

/// A change that can be taken back.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Change {
    Agent(String),
    NoAgent(String),
    Quarantine(u64),
    Release(u64),
    Register {
        key: String,
        run: u64,
    },
    Unregister {
        key: String,
        run: u64,
    },
    /// Runs that finished, and blobs that were put, before this time may go, and with the runs parts of batches up to this
    /// one.
    Sweep {
        before: i64,
        batch: u64,
    },
}

/// The kinds of the store's errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ErrorKind {
    Io,
    Corrupt,
    TooNew,
    Closed,
}

/// All that was told up to some moment.
#[derive(Clone, Debug, Default)]
pub struct Known {
    pub runs: BTreeMap<u64, Run>,
    /// Blobs and the times at which they were put last.
    pub blobs: BTreeMap<BlobHash, i64>,
    /// Whether each of these holds; `None` where nobody knows.
    pub agents: BTreeMap<String, Option<bool>>,
    pub quarantined: BTreeMap<u64, Option<bool>>,
    pub registered: BTreeMap<(String, u64), Option<bool>>,
    /// The last of each that a sweep may have removed; runs and blobs before this time.
    pub swept_before: i64,
    pub swept_batch: u64,
    pub failures: Vec<(String, ErrorKind, String)>,
    pub reopened: usize,
    pub ended: bool,
    /// The runs that a daemon has told to be finished.
    pub served: Vec<String>,
    pub facts: u64,
}

#[derive(Clone, Debug, Default)]
pub struct Run {
    pub last_seq: u64,
    pub finished_at: Option<i64>,
    pub key: Option<String>,
    pub blobs: BTreeSet<BlobHash>,
}

impl Known {
    pub fn take(&mut self, fact: &Fact) {
        self.facts += 1;
        match fact {
            Fact::Appended(appended) => self.appended(appended),
            Fact::Blob { hash, at } => drop(self.blobs.insert(*hash, *at)),
            Fact::Trying(change) => self.change(change, false),
            Fact::Done(change) => self.change(change, true),
            Fact::Failed { operation, kind, error } => {
                self.failures.push((operation.clone(), *kind, error.clone()));
            }
            Fact::Reopened => self.reopened += 1,
            Fact::Served { run } => self.served.push(run.clone()),
            Fact::Ended => self.ended = true,
        }
    }

    fn appended(&mut self, appended: &Appended) {
        let run = self.runs.entry(appended.run).or_default();
        run.last_seq = run.last_seq.max(appended.last_seq);
        run.finished_at = run.finished_at.or(appended.finished_at);
        if appended.key.is_some() {
            run.key.clone_from(&appended.key);
        }
        run.blobs.extend(&appended.blobs);
    }

    fn change(&mut self, change: &Change, done: bool) {
        let certain = |holds: bool| done.then_some(holds);
        match change {
            Change::Agent(name) => drop(self.agents.insert(name.clone(), certain(true))),
            Change::NoAgent(name) => drop(self.agents.insert(name.clone(), certain(false))),
            Change::Quarantine(run) => drop(self.quarantined.insert(*run, certain(true))),
            Change::Release(run) => drop(self.quarantined.insert(*run, certain(false))),
            Change::Register { key, run } => {
                self.registered.insert((key.clone(), *run), certain(true));
            }
            Change::Unregister { key, run } => {
                self.registered.insert((key.clone(), *run), certain(false));
            }
            Change::Sweep { before, batch } => {
                self.swept_before = self.swept_before.max(*before);
                self.swept_batch = self.swept_batch.max(*batch);
            }
        }
    }

    /// Whether a sweep may have removed the run.
    #[must_use]
    pub fn may_be_gone(&self, run: &Run) -> bool {
        run.finished_at.is_some_and(|at| at < self.swept_before)
    }
}
