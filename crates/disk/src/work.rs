//! The program under test: work on a store that uses every operation of it, and notes what it is told.

mod payload;
mod steps;

use std::collections::BTreeMap;
use std::path::PathBuf;

use capataz_store::conformance::{SHARD, everything, run_id};
use capataz_store::{Mark, RunId, ShardWriter, SqliteOptions, SqliteStore, Store, StoreError};

pub use self::payload::Payload;
use crate::Failure;
use crate::facts::{Appended, ErrorKind, Fact};
use crate::record::Notes;

/// How often a claim is tried before the store is opened again.
const CLAIMS: usize = 3;

/// What to do.
#[derive(Clone, Debug)]
pub struct Order {
    /// The data folder, which may not be there yet.
    pub data: PathBuf,
    pub record: PathBuf,
    pub seed: u64,
    pub steps: u64,
    /// End at the first failure as if killed, without closing anything.
    pub stop_at_failure: bool,
}

/// The exit code of a program that was to stop at the first failure, and did.
pub const STOPPED: u8 = 3;

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Done,
    Stopped,
}

/// The store's options: so small that checkpoints, restarts of the write-ahead log and truncations happen all the time.
#[must_use]
pub fn options() -> SqliteOptions {
    SqliteOptions { checkpoint_bytes: 64 << 10, wal_limit_bytes: 256 << 10, ..SqliteOptions::default() }
}

/// Does the work in this process.
///
/// # Errors
/// The store does not go on, also when it is opened again; the record cannot be written.
pub fn work(order: &Order) -> Result<Ended, Failure> {
    let notes = Notes::open(&order.record)?;
    let chance = fastrand::Rng::with_seed(order.seed);
    let mut worker = Worker {
        data: order.data.clone(),
        notes,
        chance,
        store: None,
        writer: None,
        open: BTreeMap::new(),
        next_run: 0,
        now: 1_000,
        batch: 0,
        blobs: Vec::new(),
        held: Vec::new(),
    };
    let stopped = |result: &Result<(), Broken>| matches!(result, Err(Broken::Store)) && order.stop_at_failure;
    let mut result = worker.recover();
    for _ in 0..order.steps {
        if stopped(&result) {
            break;
        }
        match result {
            Ok(()) => {}
            Err(Broken::Store) => worker.recover_until_it_works()?,
            Err(Broken::Notes(error)) => return Err(error),
        }
        result = worker.step();
    }
    if stopped(&result) {
        // Who is killed closes nothing.
        std::mem::forget(worker);
        return Ok(Ended::Stopped);
    }
    worker.notes.note(&Fact::Ended)?;
    Ok(Ended::Done)
}

fn note_failure(notes: &mut Notes, operation: &str, error: &StoreError) -> Result<(), Failure> {
    let kind = match error {
        StoreError::Io { .. } => ErrorKind::Io,
        StoreError::Corrupt { .. } => ErrorKind::Corrupt,
        StoreError::TooNew { .. } => ErrorKind::TooNew,
        StoreError::Closed => ErrorKind::Closed,
    };
    let mut text = error.to_string();
    if let Some(source) = std::error::Error::source(error) {
        text.push_str(&format!(": {source}"));
    }
    notes.note(&Fact::Failed { operation: operation.to_owned(), kind, error: text })
}

/// Why a step ended early.
#[derive(Debug)]
enum Broken {
    /// A call of the store failed, which is noted.
    Store,
    /// The harness itself cannot go on.
    Notes(Failure),
}

impl From<Failure> for Broken {
    fn from(failure: Failure) -> Self {
        Self::Notes(failure)
    }
}

struct Worker {
    data: PathBuf,
    notes: Notes,
    chance: fastrand::Rng,
    /// `None` until it is opened, and after it could not be.
    store: Option<SqliteStore>,
    writer: Option<Box<dyn ShardWriter>>,
    /// Runs that are not finished, with their last events.
    open: BTreeMap<u64, u64>,
    next_run: u64,
    now: i64,
    batch: u64,
    /// Contents of blobs that were put.
    blobs: Vec<Vec<u8>>,
    /// Names of agents and keys, and quarantined runs, that are there.
    held: Vec<steps::Held>,
}

impl Worker {
    /// Notes an error of the store.
    fn told<T>(&mut self, operation: &str, result: Result<T, StoreError>) -> Result<T, Broken> {
        match result {
            Ok(value) => Ok(value),
            Err(error) => {
                note_failure(&mut self.notes, operation, &error)?;
                Err(Broken::Store)
            }
        }
    }

    fn note(&mut self, fact: &Fact) -> Result<(), Broken> {
        self.notes.note(fact).map_err(Broken::Notes)
    }

    /// The store, for a call whose error is told.
    fn store(&mut self) -> Result<SqliteStore, Broken> {
        let store = self.store.clone().ok_or(StoreError::Closed);
        self.told("use the store", store)
    }

    /// Claims the shard anew and reads what is there. What a claim has read counts as told: a daemon acts on it.
    fn recover(&mut self) -> Result<(), Broken> {
        self.writer = None;
        let store = match &self.store {
            Some(store) => store.clone(),
            None => {
                let opened = SqliteStore::open(&self.data, options());
                let store = self.told("open", opened)?;
                self.store.insert(store).clone()
            }
        };
        let claimed = store.claim(SHARD, Mark(self.chance.u32(1..)));
        self.writer = Some(self.told("claim", claimed)?);
        let listed = store.list_runs(&everything());
        let rows = self.told("list runs", listed)?;
        self.open.clear();
        for row in rows {
            let number = number_of(row.run);
            self.next_run = self.next_run.max(number + 1);
            self.now = self.now.max(row.summary.updated_at.0).max(row.created_at.0);
            if row.summary.finished_at.is_none() {
                self.open.insert(number, row.last_seq);
            }
            let read = store.read_run(row.run, 0, usize::MAX, usize::MAX);
            let events = self.told("read a run", read)?;
            let payloads: Vec<Payload> =
                events.iter().filter_map(|row| Payload::parse(row.events.as_ref()?)).collect();
            self.batch = payloads.iter().map(|payload| payload.batch).fold(self.batch, u64::max);
            self.note(&Fact::Appended(Appended {
                run: number,
                last_seq: row.last_seq,
                finished_at: row.summary.finished_at.map(|at| at.0),
                key: None,
                blobs: payloads.into_iter().flat_map(|payload| payload.blobs).collect(),
            }))?;
        }
        Ok(())
    }

    /// The same until it works, for a store after a failure. Where it does not, the store is opened again.
    fn recover_until_it_works(&mut self) -> Result<(), Failure> {
        for tried in 0..CLAIMS * 4 {
            match self.recover() {
                Ok(()) => return Ok(()),
                Err(Broken::Notes(error)) => return Err(error),
                Err(Broken::Store) => {}
            }
            if tried % CLAIMS == CLAIMS - 1 {
                self.notes.note(&Fact::Reopened)?;
                self.writer = None;
                self.store = None;
            }
        }
        Err("the store does not go on".into())
    }
}

/// The number of a run, whose id the suite of the store makes of it.
#[must_use]
pub fn number_of(run: RunId) -> u64 {
    u64::try_from(run.0.as_u128() >> 64).unwrap_or_default().saturating_sub(1)
}

/// The id of a run of that number.
#[must_use]
pub fn id_of(number: u64) -> RunId {
    run_id(number)
}
