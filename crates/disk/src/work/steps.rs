//! One step of the work: some operation of the store, by chance.

use std::collections::BTreeSet;
use std::mem;

use bytes::Bytes;
use capataz_store::conformance::{SHARD, Shape, creation, everything, keep, more, updated};
use capataz_store::{
    AgentRow, Append, AppendOutcome, BlobHash, IdempotencyKey, KeyChange, Millis, Quarantine,
    QuarantineReason, Retention, ShardWriter, Snapshot, Store, StoreError, Summary,
};

use super::payload::Payload;
use super::{Broken, Worker, id_of};
use crate::facts::{Appended, Change, Fact};

/// The most appends in one commit.
const BATCH: u64 = 4;
/// The most bytes of a blob.
const BLOB: usize = 20_000;
/// Runs of the time of the work for which finished runs are kept.
const KEPT_FOR: i64 = 400;

/// Something that is there and can be taken back.
#[derive(Clone, Debug)]
pub(super) enum Held {
    Agent(String),
    Quarantine(u64),
    Key { key: String, run: u64 },
}

impl Worker {
    pub(super) fn step(&mut self) -> Result<(), Broken> {
        self.now += 10;
        match self.chance.u32(..100) {
            0..=44 => self.commit(Vec::new()),
            45..=58 => self.put_blob().map(drop),
            59..=68 => self.name_blobs(),
            69..=74 => self.snapshot(),
            75..=80 => self.hold(),
            81..=85 => self.let_go(),
            86..=89 => self.sweep(),
            90..=93 => self.look(),
            94..=96 => self.recover(),
            _ => self.open_anew(),
        }
    }

    /// Calls the writer. One that is not there was lost with an error that was told.
    fn written<T>(
        &mut self,
        operation: &str,
        call: impl FnOnce(&mut dyn ShardWriter) -> Result<T, StoreError>,
    ) -> Result<T, Broken> {
        let result = match &mut self.writer {
            Some(writer) => call(writer.as_mut()),
            None => Err(StoreError::Closed),
        };
        self.told(operation, result)
    }

    /// Commits some appends, of which the first one names these blobs.
    fn commit(&mut self, mut blobs: Vec<BlobHash>) -> Result<(), Broken> {
        self.batch += 1;
        let of = self.chance.u64(1..=BATCH);
        let (mut appends, mut facts, mut touched) = (Vec::new(), Vec::new(), BTreeSet::new());
        for index in 0..of {
            let named = mem::take(&mut blobs);
            let (append, fact) = self.append(index, of, &mut touched, named);
            appends.push(append);
            facts.push(fact);
        }
        let outcomes = self.written("commit", |writer| writer.commit(&appends))?;
        for (outcome, fact) in outcomes.iter().zip(facts) {
            if !matches!(outcome, AppendOutcome::Committed(_)) {
                return Err(Broken::Notes(format!("an append was refused: {outcome:?}, {fact:?}").into()));
            }
            match fact.finished_at {
                Some(_) => drop(self.open.remove(&fact.run)),
                None => drop(self.open.insert(fact.run, fact.last_seq)),
            }
            self.note(&Fact::Appended(fact))?;
        }
        Ok(())
    }

    fn append(
        &mut self,
        index: u64,
        of: u64,
        touched: &mut BTreeSet<u64>,
        blobs: Vec<BlobHash>,
    ) -> (Append, Appended) {
        let free: Vec<(u64, u64)> = self
            .open
            .iter()
            .map(|(run, last)| (*run, *last))
            .filter(|(run, _)| !touched.contains(run))
            .collect();
        let known = if self.chance.u8(..3) == 0 { None } else { self.chance.choice(free) };
        let (run, first_seq) = known.map_or((self.next_run, 1), |(run, last)| (run, last + 1));
        touched.insert(run);
        let payload = Payload { run, first_seq, batch: self.batch, index, of, blobs: blobs.clone() };
        let finishes = known.is_some() && self.chance.u8(..4) == 0;
        let finished_at = finishes.then_some(self.now);
        let mut key = None;
        let mut append = match known {
            None => {
                self.next_run += 1;
                let name = format!("key of {run}");
                let created = creation(run).label("batch", &self.batch.to_string());
                let created = if self.chance.bool() { created.key(&name, 1) } else { created };
                key = created.create.as_ref().and_then(|create| create.key.as_ref()).map(|_| name);
                created
            }
            Some(_) => more(run, first_seq, self.chance.u32(1..4)),
        };
        append = append.events(payload.encode());
        append = match finished_at {
            Some(at) => append.summary(Summary { finished_at: Some(Millis(at)), status: 9, ..updated(at) }),
            None => append.summary(updated(self.now)),
        };
        append.blobs.clone_from(&blobs);
        let fact = Appended { run, last_seq: append.last_seq(), finished_at, key, blobs };
        (append, fact)
    }

    /// Puts a blob: a new one, or one that was put before.
    fn put_blob(&mut self) -> Result<BlobHash, Broken> {
        let again = if self.chance.u8(..3) == 0 { self.chance.choice(self.blobs.clone()) } else { None };
        let content = again.unwrap_or_else(|| {
            let length = self.chance.usize(..BLOB);
            std::iter::repeat_with(|| self.chance.u8(..)).take(length).collect()
        });
        if !self.blobs.contains(&content) {
            self.blobs.push(content.clone());
        }
        let put = self.store()?.put_blob(&content, Millis(self.now));
        let hash = self.told("put a blob", put)?;
        self.note(&Fact::Blob { hash, at: self.now })?;
        Ok(hash)
    }

    /// Names blobs in a run as a shard does: it renews them, and names those that are there.
    fn name_blobs(&mut self) -> Result<(), Broken> {
        if self.chance.bool() {
            self.put_blob()?;
        }
        let contents = self.chance.choose_multiple(self.blobs.clone(), 2);
        let hashes: Vec<BlobHash> = contents.iter().map(|content| BlobHash::of(content)).collect();
        let renewed = self.store()?.renew_blobs(&hashes, Millis(self.now));
        let missing = self.told("renew blobs", renewed)?;
        self.commit(hashes.into_iter().filter(|hash| !missing.contains(hash)).collect())
    }

    fn snapshot(&mut self) -> Result<(), Broken> {
        let open: Vec<(u64, u64)> = self.open.iter().map(|(run, last)| (*run, *last)).collect();
        let Some((run, seq)) = self.chance.choice(open) else { return Ok(()) };
        let state: Vec<u8> = std::iter::repeat_with(|| self.chance.u8(..)).take(9_000).collect();
        let snapshot = Snapshot { seq, format: 1, state: Bytes::from(state) };
        self.written("write a snapshot", |writer| writer.put_snapshot(id_of(run), &snapshot))
    }

    /// Puts something there that can be taken back.
    fn hold(&mut self) -> Result<(), Broken> {
        let number = self.chance.u32(..);
        let run = self.open.keys().next().copied();
        let held = match (self.chance.u8(..3), run) {
            (0, Some(run)) => Held::Quarantine(run),
            (1, Some(run)) => Held::Key { key: format!("registered {number}"), run },
            _ => Held::Agent(format!("agent {number}")),
        };
        self.note(&Fact::Trying(held.there()))?;
        let change = held.clone();
        let now = self.now;
        self.written("put something down", |writer| match change {
            Held::Agent(name) => {
                let agent = Bytes::from(name.clone());
                writer.put_agents(&[AgentRow { name, agent, last_seen: Millis(now) }])
            }
            Held::Quarantine(run) => {
                let quarantine = Quarantine {
                    reason: QuarantineReason::Conflicted,
                    seq: 1,
                    position: None,
                    detail: "by the disk test".to_owned(),
                    at: Millis(now),
                };
                writer.quarantine(id_of(run), &quarantine)
            }
            Held::Key { key, run } => {
                let key = IdempotencyKey { key: Bytes::from(key), request: [1; 32] };
                writer.commit(&[Append::of_key(id_of(run), KeyChange::Register(key))]).map(drop)
            }
        })?;
        self.note(&Fact::Done(held.there()))?;
        self.held.push(held);
        Ok(())
    }

    /// Takes something back.
    fn let_go(&mut self) -> Result<(), Broken> {
        if self.held.is_empty() {
            return Ok(());
        }
        let held = self.held.swap_remove(self.chance.usize(..self.held.len()));
        self.note(&Fact::Trying(held.gone()))?;
        let change = held.clone();
        self.written("take something back", |writer| match change {
            Held::Agent(name) => writer.forget_agents(&[name]).map(drop),
            Held::Quarantine(run) => writer.release(id_of(run)).map(drop),
            Held::Key { key, run } => {
                writer.commit(&[Append::of_key(id_of(run), KeyChange::Release(Bytes::from(key)))]).map(drop)
            }
        })?;
        self.note(&Fact::Done(held.gone()))
    }

    fn sweep(&mut self) -> Result<(), Broken> {
        let before = self.now - KEPT_FOR;
        let change = Change::Sweep { before, batch: self.batch };
        self.note(&Fact::Trying(change.clone()))?;
        let (time, batch) = (Millis(before), self.chance.u32(1..20));
        let retention =
            Retention { finished_before: Some(time), keys_before: time, blobs_before: time, batch, ..keep() };
        self.written("sweep", |writer| writer.sweep(&retention))?;
        self.note(&Fact::Done(change))
    }

    /// Reads, as callers do.
    fn look(&mut self) -> Result<(), Broken> {
        let store = self.store()?;
        let listed = store.list_runs(&everything());
        let rows = self.told("list runs", listed)?;
        if let Some(row) = self.chance.choice(rows) {
            let read = store.read_run(row.run, 0, 100, 1 << 20);
            self.told("read a run", read)?;
        }
        if let Some(content) = self.chance.choice(self.blobs.clone()) {
            let read = store.read_blob(BlobHash::of(&content), 0, usize::MAX);
            self.told("read a blob", read)?;
        }
        let bounds = store.bounds(SHARD);
        self.told("read the bounds", bounds).map(drop)
    }

    /// Closes the store and opens it again, as a daemon that ends and starts.
    fn open_anew(&mut self) -> Result<(), Broken> {
        self.writer = None;
        self.store = None;
        self.recover()
    }
}

impl Held {
    fn there(&self) -> Change {
        match self.clone() {
            Self::Agent(name) => Change::Agent(name),
            Self::Quarantine(run) => Change::Quarantine(run),
            Self::Key { key, run } => Change::Register { key, run },
        }
    }

    fn gone(&self) -> Change {
        match self.clone() {
            Self::Agent(name) => Change::NoAgent(name),
            Self::Quarantine(run) => Change::Release(run),
            Self::Key { key, run } => Change::Unregister { key, run },
        }
    }
}
