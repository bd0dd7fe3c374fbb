//! A store that tells what was read of it, and that a test makes fail.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use capataz_store::{
    AgentRow, BlobHash, Bounds, Derived, DerivedRow, Extent, FoundEntry, History, KeyRow, LogRow, Mark,
    MemoryOf, MemoryPage, MemorySearch, MemoryStore, Millis, Place, Position, Quarantine, Recall, RunId,
    RunQuery, RunRow, ShardId, ShardWriter, Snapshot, Store, StoreError, Unfinished,
};

/// What a store was asked for, and what it cannot read.
#[derive(Clone, Default)]
pub struct Asked {
    pub read: Arc<Mutex<Vec<RunId>>>,
    pub broken: Arc<Mutex<BTreeSet<RunId>>>,
    pub gone: Arc<Mutex<bool>>,
}

/// A store that remembers which runs were read from it.
pub struct Watched {
    pub store: MemoryStore,
    pub asked: Asked,
}

fn broken() -> StoreError {
    StoreError::Io { operation: "read", source: "the disk does not answer".into() }
}

impl Watched {
    fn answers(&self) -> Result<(), StoreError> {
        if *self.asked.gone.lock().unwrap() { Err(broken()) } else { Ok(()) }
    }
}

impl Store for Watched {
    fn claim(&self, shard: ShardId, mark: Mark) -> Result<Box<dyn ShardWriter>, StoreError> {
        self.store.claim(shard, mark)
    }

    fn history(&self, shard: ShardId) -> Result<History, StoreError> {
        self.store.history(shard)
    }

    fn read_log(
        &self,
        shard: ShardId,
        after: Position,
        rows: usize,
        bytes: usize,
    ) -> Result<Vec<LogRow>, StoreError> {
        self.store.read_log(shard, after, rows, bytes)
    }

    fn read_run(&self, run: RunId, after: u64, rows: usize, bytes: usize) -> Result<Vec<LogRow>, StoreError> {
        self.answers()?;
        if after == 0 {
            self.asked.read.lock().unwrap().push(run);
        }
        if self.asked.broken.lock().unwrap().contains(&run) {
            return Err(broken());
        }
        self.store.read_run(run, after, rows, bytes)
    }

    fn extent(&self, run: RunId, seq: u64) -> Result<Option<Extent>, StoreError> {
        self.answers()?;
        self.store.extent(run, seq)
    }

    fn bounds(&self, shard: ShardId) -> Result<Bounds, StoreError> {
        self.store.bounds(shard)
    }

    fn readings(&self, shard: ShardId) -> Result<Option<Bytes>, StoreError> {
        self.store.readings(shard)
    }

    fn get_run(&self, run: RunId) -> Result<Option<RunRow>, StoreError> {
        self.answers()?;
        self.store.get_run(run)
    }

    fn list_runs(&self, query: &RunQuery) -> Result<Vec<RunRow>, StoreError> {
        self.store.list_runs(query)
    }

    fn listing_floor(&self, query: &RunQuery, runs: u32) -> Result<Option<RunId>, StoreError> {
        self.store.listing_floor(query, runs)
    }

    fn unfinished(
        &self,
        shard: ShardId,
        after: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<Unfinished>, StoreError> {
        self.store.unfinished(shard, after, limit)
    }

    fn snapshot(&self, run: RunId) -> Result<Option<Snapshot>, StoreError> {
        self.store.snapshot(run)
    }

    fn quarantined(
        &self,
        shard: ShardId,
        after: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<(RunId, Quarantine)>, StoreError> {
        self.store.quarantined(shard, after, limit)
    }

    fn derived(
        &self,
        kind: u16,
        key: &[u8],
        after: Option<(RunId, Place)>,
        limit: usize,
    ) -> Result<Vec<DerivedRow>, StoreError> {
        self.store.derived(kind, key, after, limit)
    }

    fn key(&self, shard: ShardId, key: &[u8]) -> Result<Option<KeyRow>, StoreError> {
        self.store.key(shard, key)
    }

    fn keys(
        &self,
        shard: ShardId,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Bytes, RunId)>, StoreError> {
        self.store.keys(shard, after, limit)
    }

    fn keys_removed(&self, shard: ShardId) -> Result<Option<RunId>, StoreError> {
        self.store.keys_removed(shard)
    }

    fn derived_of(&self, run: RunId, after: Option<Place>, limit: usize) -> Result<Vec<Derived>, StoreError> {
        self.store.derived_of(run, after, limit)
    }

    fn recall(&self, wanted: &Recall<'_>) -> Result<Vec<FoundEntry>, StoreError> {
        self.store.recall(wanted)
    }

    fn memories(&self, search: &MemorySearch) -> Result<MemoryPage, StoreError> {
        self.store.memories(search)
    }

    fn memory_entry(&self, id: &str) -> Result<Option<FoundEntry>, StoreError> {
        self.store.memory_entry(id)
    }

    fn is_forgotten(&self, id: &str) -> Result<bool, StoreError> {
        self.store.is_forgotten(id)
    }

    fn memory_of(&self, run: RunId) -> Result<MemoryOf, StoreError> {
        self.store.memory_of(run)
    }

    fn strays(&self, after: Option<RunId>, limit: usize) -> Result<Vec<RunId>, StoreError> {
        self.store.strays(after, limit)
    }

    fn agents(&self) -> Result<Vec<AgentRow>, StoreError> {
        self.store.agents()
    }

    fn put_blob(&self, content: &[u8], now: Millis) -> Result<BlobHash, StoreError> {
        self.store.put_blob(content, now)
    }

    fn read_blob(&self, blob: BlobHash, offset: u64, length: usize) -> Result<Option<Bytes>, StoreError> {
        self.store.read_blob(blob, offset, length)
    }

    fn renew_blobs(&self, blobs: &[BlobHash], now: Millis) -> Result<Vec<BlobHash>, StoreError> {
        self.store.renew_blobs(blobs, now)
    }

    fn blob_size(&self, blob: BlobHash) -> Result<Option<u64>, StoreError> {
        self.store.blob_size(blob)
    }
}
