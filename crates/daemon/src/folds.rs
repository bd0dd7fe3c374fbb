//! Runs that were folded for readers, so that whoever looks at a run again and again reads only what is new, and so that
//! what all readers together hold has a bound.
//!
//! Readers of one run wait for one another and share what the first has read. Runs whose states are large are read one at a
//! time: nobody knows before how large a run is, so that each is begun as a small one and begun anew when it is not.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use capataz_contracts::v1;
use capataz_engine::RunState;
use capataz_runtime::{Busy, Reads};
use capataz_shard::LoadError;
use capataz_shard::forks::{Together, decided_together, newest_fork, whole_until};
use capataz_shard::journal::{go_on, load, load_at, load_within};
use capataz_shard::replay::replay;
use capataz_store::{RunId, Store};
use dashmap::DashMap;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};

/// Bytes of the states that are kept.
const MAX_BYTES: u64 = 32 * 1024 * 1024;
/// Bytes of a state up to which runs are read beside one another.
const SMALL: u64 = 4 * 1024 * 1024;

/// Readers that may wait for a large run at a time.
const MAX_WAITING: usize = 64;

/// A run as it was read last.
struct Folded {
    state: Arc<RunState>,
    /// Grows with each use of any run.
    used: u64,
}

/// A run's state, and the right to hold it.
#[derive(Clone)]
pub(crate) struct Held {
    state: Arc<RunState>,
    /// The place that a large state takes; free when nobody holds the state any more.
    large: Option<Arc<OwnedSemaphorePermit>>,
}

impl Held {
    fn new(state: RunState, large: Option<Arc<OwnedSemaphorePermit>>) -> Self {
        Self { state: Arc::new(state), large }
    }

    /// The state, for somebody who bounds what all such states together hold.
    pub(crate) fn into_state(self) -> RunState {
        Arc::unwrap_or_clone(self.state)
    }
}

impl Deref for Held {
    type Target = RunState;

    fn deref(&self) -> &RunState {
        &self.state
    }
}

/// Why a run was not read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unread {
    #[error(transparent)]
    Busy(#[from] Busy),
    #[error(transparent)]
    Load(#[from] LoadError),
}

/// What those who read a run just now have in common: what the one before has read.
type Flight = Mutex<Option<Held>>;

/// The runs that were read last, up to a number of bytes, and those that are being read.
///
/// The log only grows, so that a state is a true prefix for as long as its run is there; whether the run is still there,
/// the caller asks the store first. Readers of different runs do not wait for one another, unless they are large.
pub(crate) struct Folds {
    store: Arc<dyn Store>,
    reads: Arc<Reads>,
    runs: DashMap<RunId, Folded>,
    flights: DashMap<RunId, Arc<Flight>>,
    large: Arc<Semaphore>,
    /// Places to wait for that.
    waiting: Semaphore,
    bytes: AtomicU64,
    uses: AtomicU64,
    max_bytes: u64,
    small: u64,
}

impl Folds {
    pub(crate) fn new(store: Arc<dyn Store>, reads: Arc<Reads>) -> Self {
        Self {
            store,
            reads,
            runs: DashMap::new(),
            flights: DashMap::new(),
            large: Arc::new(Semaphore::new(1)),
            waiting: Semaphore::new(MAX_WAITING),
            bytes: AtomicU64::new(0),
            uses: AtomicU64::new(0),
            max_bytes: MAX_BYTES,
            small: SMALL,
        }
    }

    /// The state of a run after its newest durable event.
    ///
    /// # Errors
    /// The store cannot be read, the log is damaged, or too many readers wait already.
    pub(crate) async fn get(&self, run: RunId) -> Result<Held, Unread> {
        let leaves = Leaves { folds: self, run };
        let flight = Arc::clone(&self.flights.entry(run).or_default());
        let mut before = flight.lock().await;
        let kept = before.take().or_else(|| self.kept(run));
        let held = self.read(run, kept).await?;
        self.keep(run, &held.state);
        *before = Some(held.clone());
        drop(before);
        drop(flight);
        drop(leaves);
        Ok(held)
    }

    fn kept(&self, run: RunId) -> Option<Held> {
        self.runs.get(&run).map(|folded| Held { state: Arc::clone(&folded.state), large: None })
    }

    async fn read(&self, run: RunId, kept: Option<Held>) -> Result<Held, Unread> {
        let (store, small) = (Arc::clone(&self.store), self.small);
        if let Some(held) = self.reads.answer(move || read_on(&*store, run, kept, small)).await?? {
            return Ok(held);
        }
        let permit = self.right_to_a_large_one().await?;
        let store = Arc::clone(&self.store);
        // The permit goes with the read, which goes on where nobody waits for it any more.
        let held = self
            .reads
            .answer(move || load(&*store, run).map(|state| Held::new(state, Some(Arc::new(permit)))));
        Ok(held.await??)
    }

    /// The state of a run as it was after event `at`, which the run has.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub(crate) async fn at(&self, run: RunId, at: u64) -> Result<Held, Unread> {
        let (store, small) = (Arc::clone(&self.store), self.small);
        if let Some(state) = self.reads.answer(move || load_at(&*store, run, at, small)).await?? {
            return Ok(Held::new(state, None));
        }
        let permit = self.right_to_a_large_one().await?;
        let store = Arc::clone(&self.store);
        let held = self.reads.answer(move || {
            let state = load_at(&*store, run, at, u64::MAX)?;
            Ok::<_, LoadError>(state.map(|state| Held::new(state, Some(Arc::new(permit)))))
        });
        held.await??.ok_or_else(|| Busy::Lost.into())
    }

    /// Folds a run anew and compares what is stored of it; `None` where the run is not there. How large it is nobody knows
    /// before, so that this is done for one run at a time.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub(crate) async fn replay(&self, run: RunId) -> Result<Option<v1::ReplayRunResponse>, Unread> {
        let permit = self.right_to_a_large_one().await?;
        let store = Arc::clone(&self.store);
        let replayed = self.reads.answer(move || {
            let _permit = permit;
            replay(&*store, run)
        });
        Ok(replayed.await??)
    }

    /// The events of a run that were decided together with event `at`; `None` where a fork may not have so much of it.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub(crate) async fn decided_together(&self, run: RunId, at: u64) -> Result<Option<Together>, Unread> {
        let store = Arc::clone(&self.store);
        Ok(self.reads.answer(move || decided_together(&*store, run, at)).await??)
    }

    /// Reads all of the run up to event `at`.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub(crate) async fn whole_until(&self, run: RunId, at: u64) -> Result<(), Unread> {
        let store = Arc::clone(&self.store);
        Ok(self.reads.answer(move || whole_until(&*store, run, at)).await??)
    }

    /// The newest event at or before `at` after which the run may be forked. As [`Self::replay`], for one run at a time.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub(crate) async fn newest_fork(&self, run: RunId, at: u64) -> Result<Option<u64>, Unread> {
        let permit = self.right_to_a_large_one().await?;
        let store = Arc::clone(&self.store);
        let found = self.reads.answer(move || {
            let _permit = permit;
            newest_fork(&*store, run, at)
        });
        Ok(found.await??)
    }

    /// Waits for the right to read a large run, where not too many wait for it already.
    async fn right_to_a_large_one(&self) -> Result<OwnedSemaphorePermit, Busy> {
        let _place = self.waiting.try_acquire().map_err(|_| Busy::Overloaded)?;
        Arc::clone(&self.large).acquire_owned().await.map_err(|_| Busy::Lost)
    }

    fn keep(&self, run: RunId, state: &Arc<RunState>) {
        let bytes = state.bytes();
        if bytes > self.small.min(self.max_bytes / 2) {
            return self.forget(run);
        }
        let used = self.uses.fetch_add(1, Ordering::Relaxed);
        let before = self.runs.insert(run, Folded { state: Arc::clone(state), used });
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

/// Reads a run, from what was kept of it on; `None` where it is large and nobody has the right to hold it yet.
fn read_on(store: &dyn Store, run: RunId, kept: Option<Held>, small: u64) -> Result<Option<Held>, LoadError> {
    let from = match kept {
        Some(kept) if store.read_run(run, kept.seq(), 1, 1)?.is_empty() => return Ok(Some(kept)),
        kept => kept,
    };
    let (state, large) = from.map(|Held { state, large }| (state, large)).unzip();
    let state = state.map(Arc::unwrap_or_clone);
    let state = match large.flatten() {
        Some(large) => return go_on(store, run, state).map(|state| Some(Held::new(state, Some(large)))),
        None => load_within(store, run, state, small)?,
    };
    Ok(state.map(|state| Held::new(state, None)))
}

/// The last of those who read a run together takes along what they had in common, also where it gives up.
struct Leaves<'a> {
    folds: &'a Folds,
    run: RunId,
}

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.folds.flights.remove_if(&self.run, |_, flight| Arc::strong_count(flight) == 1);
    }
}

#[cfg(test)]
mod tests;
