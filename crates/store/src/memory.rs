//! [`MemoryStore`]: the whole port over ordered maps, for simulations and tests.
//!
//! The store is deterministic (no hashing order, clock or randomness), and its content ends with the process. To model
//! a crash, a caller makes a [`MemoryStore::checkpoint`], an independent copy of the durable state.

mod remembered;
mod rows;
mod state;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::port::{
    self, AgentRow, Append, AppendOutcome, BlobHash, Bounds, Derived, DerivedRow, Epoch, Extent, FoundEntry,
    History, KeyRow, LogRow, Mark, MemoryOf, MemoryPage, MemorySearch, Mended, Millis, Place, Position,
    Quarantine, Recall, Removal, Retention, RunId, RunQuery, RunRow, ShardId, ShardWriter, Snapshot, Store,
    StoreError, Swept, Unfinished,
};
use state::State;

/// A store in memory. Clones share their content.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    shared: Arc<Mutex<Shared>>,
}

/// A failure of a commit, for simulations of unknown outcomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The commit fails, and nothing of it is durable.
    Lost,
    /// The commit fails, although all of it is durable.
    Kept,
}

#[derive(Debug, Default)]
struct Shared {
    state: State,
    fault: Option<Fault>,
    next_sweep_fails: bool,
    closed: bool,
}

impl MemoryStore {
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes an independent store with the same content: the store that a process finds when it starts after a crash at
    /// this moment.
    ///
    /// Writers of the original write only to the original. Pending faults and the closed state are not copied.
    pub fn checkpoint(&self) -> Self {
        let state = self.lock().state.clone();
        Self { shared: Arc::new(Mutex::new(Shared { state, ..Shared::default() })) }
    }

    /// Makes the next [`ShardWriter::commit`] of any shard fail.
    pub fn fail_next_commit(&self, fault: Fault) {
        self.lock().fault = Some(fault);
    }

    /// Makes the next [`ShardWriter::sweep`] of any shard fail, and its writer with it.
    pub fn fail_next_sweep(&self) {
        self.lock().next_sweep_fails = true;
    }

    /// Damages the row at a position, as a flipped bit on a disk would: reads find the row, and not its events. A second
    /// call makes the row whole again. Returns whether there is such a row.
    pub fn damage(&self, shard: ShardId, position: Position) -> bool {
        self.lock().state.damage(shard, position)
    }

    /// Damages the snapshot of a run, or makes it whole again, as [`MemoryStore::damage`] does a row.
    pub fn damage_snapshot(&self, run: RunId) -> bool {
        self.lock().state.damage_snapshot(run)
    }

    /// Changes a row of the run list without the store's knowledge, as somebody does who writes into a database. Returns
    /// whether there is such a row.
    pub fn disturb(&self, run: RunId, change: impl FnOnce(&mut RunRow)) -> bool {
        self.lock().state.disturb(run, change)
    }

    /// Takes a derived row away without the store's knowledge, or adds one, whether there is such a run or not.
    pub fn disturb_derived(&self, run: RunId, place: Place, row: Option<Derived>) {
        self.lock().state.disturb_derived(run, place, row);
    }

    /// Closes the store. Every later call, also through writers and clones, returns [`StoreError::Closed`].
    pub fn close(&self) {
        self.lock().closed = true;
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, action: impl FnOnce(&mut State) -> T) -> Result<T, StoreError> {
        let mut shared = self.lock();
        if shared.closed {
            return Err(StoreError::Closed);
        }
        Ok(action(&mut shared.state))
    }
}

impl Store for MemoryStore {
    fn claim(&self, shard: ShardId, mark: Mark) -> Result<Box<dyn ShardWriter>, StoreError> {
        let claimed = self.with(|state| state.claim(shard, mark))?;
        let epoch =
            claimed.map_err(|unmarked| StoreError::Io { operation: port::CLAIM, source: unmarked.into() })?;
        let eras_swept = Position(0);
        Ok(Box::new(MemoryWriter { store: self.clone(), shard, epoch, eras_swept, failed: false }))
    }

    fn history(&self, shard: ShardId) -> Result<History, StoreError> {
        self.with(|state| state.history(shard))
    }

    fn read_log(
        &self,
        shard: ShardId,
        after: Position,
        max_rows: usize,
        max_bytes: usize,
    ) -> Result<Vec<LogRow>, StoreError> {
        self.with(|state| state.read_log(shard, after, max_rows, max_bytes))
    }

    fn read_run(
        &self,
        run: RunId,
        after_seq: u64,
        max_rows: usize,
        max_bytes: usize,
    ) -> Result<Vec<LogRow>, StoreError> {
        self.with(|state| state.read_run(run, after_seq, max_rows, max_bytes))
    }

    fn extent(&self, run: RunId, seq: u64) -> Result<Option<Extent>, StoreError> {
        self.with(|state| state.extent(run, seq))
    }

    fn bounds(&self, shard: ShardId) -> Result<Bounds, StoreError> {
        self.with(|state| state.bounds(shard))
    }

    fn readings(&self, shard: ShardId) -> Result<Option<Bytes>, StoreError> {
        self.with(|state| state.readings(shard))
    }

    fn get_run(&self, run: RunId) -> Result<Option<RunRow>, StoreError> {
        self.with(|state| state.get_run(run))
    }

    fn list_runs(&self, query: &RunQuery) -> Result<Vec<RunRow>, StoreError> {
        self.with(|state| state.list_runs(query))
    }

    fn listing_floor(&self, query: &RunQuery, runs: u32) -> Result<Option<RunId>, StoreError> {
        self.with(|state| state.listing_floor(query, runs))
    }

    fn unfinished(
        &self,
        shard: ShardId,
        after: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<Unfinished>, StoreError> {
        self.with(|state| state.unfinished(shard, after, limit))
    }

    fn snapshot(&self, run: RunId) -> Result<Option<Snapshot>, StoreError> {
        self.with(|state| state.snapshot(run))
    }

    fn quarantined(
        &self,
        shard: ShardId,
        after: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<(RunId, Quarantine)>, StoreError> {
        self.with(|state| state.quarantined(shard, after, limit))
    }

    fn derived(
        &self,
        kind: u16,
        key: &[u8],
        after: Option<(RunId, Place)>,
        limit: usize,
    ) -> Result<Vec<DerivedRow>, StoreError> {
        self.with(|state| state.derived(kind, key, after, limit))
    }

    fn key(&self, shard: ShardId, key: &[u8]) -> Result<Option<KeyRow>, StoreError> {
        self.with(|state| state.key(shard, key))
    }

    fn keys(
        &self,
        shard: ShardId,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Bytes, RunId)>, StoreError> {
        self.with(|state| state.keys(shard, after, limit))
    }

    fn keys_removed(&self, shard: ShardId) -> Result<Option<RunId>, StoreError> {
        self.with(|state| state.keys_removed(shard))
    }

    fn derived_of(&self, run: RunId, after: Option<Place>, limit: usize) -> Result<Vec<Derived>, StoreError> {
        self.with(|state| state.derived_of(run, after, limit))
    }

    fn recall(&self, wanted: &Recall<'_>) -> Result<Vec<FoundEntry>, StoreError> {
        self.with(|state| state.remembered.recall(wanted))
    }

    fn memories(&self, search: &MemorySearch) -> Result<MemoryPage, StoreError> {
        self.with(|state| state.remembered.search(search))
    }

    fn memory_entry(&self, id: &str) -> Result<Option<FoundEntry>, StoreError> {
        self.with(|state| state.remembered.entry(id))
    }

    fn is_forgotten(&self, id: &str) -> Result<bool, StoreError> {
        self.with(|state| state.remembered.is_forgotten(id))
    }

    fn memory_of(&self, run: RunId) -> Result<MemoryOf, StoreError> {
        self.with(|state| state.remembered.of_run(run))
    }

    fn strays(&self, after: Option<RunId>, limit: usize) -> Result<Vec<RunId>, StoreError> {
        self.with(|state| state.strays(after, limit))
    }

    fn agents(&self) -> Result<Vec<AgentRow>, StoreError> {
        self.with(|state| state.agents.values().cloned().collect())
    }

    fn put_blob(&self, content: &[u8], now: Millis) -> Result<BlobHash, StoreError> {
        let hash = BlobHash::of(content);
        self.with(|state| state.put_blob(hash, content, now))?;
        Ok(hash)
    }

    fn renew_blobs(&self, blobs: &[BlobHash], now: Millis) -> Result<Vec<BlobHash>, StoreError> {
        self.with(|state| state.renew_blobs(blobs, now))
    }

    fn read_blob(&self, blob: BlobHash, offset: u64, length: usize) -> Result<Option<Bytes>, StoreError> {
        self.with(|state| state.read_blob(blob, offset, length))
    }

    fn blob_size(&self, blob: BlobHash) -> Result<Option<u64>, StoreError> {
        self.with(|state| state.blob_size(blob))
    }
}

/// The writer of one shard of a [`MemoryStore`].
#[derive(Debug)]
struct MemoryWriter {
    store: MemoryStore,
    shard: ShardId,
    epoch: Epoch,
    /// The first position of the era at which the last sweep ended.
    eras_swept: Position,
    failed: bool,
}

impl MemoryWriter {
    /// Runs `action` if this writer still owns its shard.
    fn owned<T>(&self, action: impl FnOnce(&mut State) -> T) -> Result<T, StoreError> {
        if self.failed {
            return Err(StoreError::Closed);
        }
        self.store
            .with(|state| (state.epoch(self.shard) == self.epoch).then(|| action(state)))?
            .ok_or(StoreError::Closed)
    }
}

impl ShardWriter for MemoryWriter {
    fn epoch(&self) -> Epoch {
        self.epoch
    }

    fn has_failed(&self) -> bool {
        self.failed
    }

    fn commit(&mut self, appends: &[Append]) -> Result<Vec<AppendOutcome>, StoreError> {
        let mut shared = self.store.lock();
        if self.failed || shared.closed {
            return Err(StoreError::Closed);
        }
        let fault = shared.fault.take();
        self.failed = fault.is_some();
        if fault == Some(Fault::Lost) {
            return Err(StoreError::Closed);
        }
        if shared.state.epoch(self.shard) != self.epoch {
            return Ok(appends.iter().map(|_| AppendOutcome::Fenced).collect());
        }
        let outcomes =
            port::groups(appends).flat_map(|group| shared.state.append_group(self.shard, group)).collect();
        match fault {
            None => Ok(outcomes),
            Some(_) => Err(StoreError::Closed),
        }
    }

    fn put_snapshot(&mut self, run: RunId, snapshot: &Snapshot) -> Result<(), StoreError> {
        self.owned(|state| state.put_snapshot(run, snapshot))
    }

    fn quarantine(&mut self, run: RunId, quarantine: &Quarantine) -> Result<(), StoreError> {
        self.owned(|state| state.quarantine(run, quarantine))
    }

    fn release(&mut self, run: RunId) -> Result<bool, StoreError> {
        self.owned(|state| state.release(run))
    }

    fn put_readings(&mut self, readings: &[u8]) -> Result<(), StoreError> {
        self.owned(|state| state.put_readings(self.shard, readings))
    }

    fn mend(&mut self, mended: &[Mended]) -> Result<(), StoreError> {
        self.owned(|state| mended.iter().for_each(|mended| state.mend(mended)))
    }

    fn put_agents(&mut self, agents: &[AgentRow]) -> Result<(), StoreError> {
        self.owned(|state| {
            state.agents.extend(agents.iter().map(|agent| (agent.name.clone(), agent.clone())));
        })
    }

    fn forget_agents(&mut self, names: &[String]) -> Result<usize, StoreError> {
        self.owned(|state| names.iter().filter(|name| state.agents.remove(*name).is_some()).count())
    }

    fn sweep(&mut self, retention: &Retention) -> Result<Swept, StoreError> {
        self.failed |= std::mem::take(&mut self.store.lock().next_sweep_fails);
        let (shard, eras_swept) = (self.shard, self.eras_swept);
        let (swept, eras_swept) = self.owned(|state| {
            let swept = state.sweep(shard, retention);
            (swept, state.sweep_eras(shard, eras_swept, retention.batch as usize))
        })?;
        self.eras_swept = eras_swept;
        Ok(swept)
    }

    fn remove(&mut self, run: RunId, held_by: Option<u16>, at: Millis) -> Result<Removal, StoreError> {
        self.owned(|state| state.remove(run, held_by, at))
    }
}
