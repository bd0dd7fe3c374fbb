//! Runs that were folded for readers, so that whoever looks at a run again and again reads only what is new.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use capataz_engine::RunState;
use capataz_shard::LoadError;
use capataz_shard::journal::{go_on, load};
use capataz_store::{RunId, Store, StoreError};
use dashmap::DashMap;

/// Bytes of the states that are kept.
const MAX_BYTES: u64 = 32 * 1024 * 1024;

/// A run as it was read last.
struct Folded {
    state: Arc<RunState>,
    /// Grows with each use of any run.
    used: u64,
}

/// The runs that were read last, up to a number of bytes.
///
/// The log only grows, so that a state is a true prefix for as long as its run is there; whether the run is still there,
/// the caller asks the store first. Readers of different runs do not wait for one another.
pub(crate) struct Folds {
    store: Arc<dyn Store>,
    runs: DashMap<RunId, Folded>,
    bytes: AtomicU64,
    uses: AtomicU64,
    max_bytes: u64,
}

impl Folds {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            runs: DashMap::new(),
            bytes: AtomicU64::new(0),
            uses: AtomicU64::new(0),
            max_bytes: MAX_BYTES,
        }
    }

    /// The state of a run after its newest durable event. Blocks on I/O.
    ///
    /// # Errors
    /// The store cannot be read, or the log is damaged.
    pub(crate) fn get(&self, run: RunId) -> Result<Arc<RunState>, LoadError> {
        let kept = self.runs.get(&run).map(|folded| Arc::clone(&folded.state));
        let state = match kept {
            Some(kept) if self.is_newest(run, &kept)? => kept,
            Some(kept) => Arc::new(go_on(&*self.store, run, Some(RunState::clone(&kept)))?),
            None => Arc::new(load(&*self.store, run)?),
        };
        self.keep(run, Arc::clone(&state));
        Ok(state)
    }

    fn is_newest(&self, run: RunId, state: &RunState) -> Result<bool, StoreError> {
        Ok(self.store.read_run(run, state.seq(), 1, 1)?.is_empty())
    }

    fn keep(&self, run: RunId, state: Arc<RunState>) {
        let bytes = state.bytes();
        if bytes > self.max_bytes / 2 {
            return self.forget(run);
        }
        let used = self.uses.fetch_add(1, Ordering::Relaxed);
        let before = self.runs.insert(run, Folded { state, used });
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if let Some(before) = before {
            self.bytes.fetch_sub(before.state.bytes(), Ordering::Relaxed);
        }
        if self.bytes.load(Ordering::Relaxed) > self.max_bytes {
            self.make_room();
        }
    }

    fn forget(&self, run: RunId) {
        if let Some((_, folded)) = self.runs.remove(&run) {
            self.bytes.fetch_sub(folded.state.bytes(), Ordering::Relaxed);
        }
    }

    /// Forgets what was used longest ago, down to half of the room, so that this is done seldom.
    fn make_room(&self) {
        let mut uses: Vec<(u64, RunId)> = self.runs.iter().map(|kept| (kept.used, *kept.key())).collect();
        uses.sort_unstable();
        for (_, run) in uses {
            if self.bytes.load(Ordering::Relaxed) <= self.max_bytes / 2 {
                return;
            }
            self.forget(run);
        }
    }
}

#[cfg(test)]
mod tests;
