//! What subscribers and others read of the shards' thread: the newest events, and bells.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use capataz_contracts::v1;
use capataz_shard::feed::Ring;
use capataz_store::{History, Position, RunId, ShardId};
use tokio::sync::{broadcast, watch};

use crate::meters::Meters;
use crate::reads::Reads;

/// Scripts that may have ended before their browsers are seen to; beyond them the store is asked.
const SCRIPTS_BACKLOG: usize = 1_024;

/// Runs in quarantine that a subscriber may lag behind.
const QUARANTINED_BACKLOG: usize = 1_024;

pub(crate) struct Shared {
    feeds: BTreeMap<ShardId, Feed>,
    pub(crate) progress: broadcast::Sender<v1::ProgressFrame>,
    /// Another daemon owns one of the shards.
    pub(crate) fenced: watch::Sender<bool>,
    /// Every script that ends; `None` where some may have ended of which nothing was said.
    pub(crate) scripts_over: broadcast::Sender<Option<RunId>>,
    /// How many tasks are in the hands of connected workers, since the daemon drains.
    pub(crate) at_work: watch::Sender<Option<usize>>,
    /// Runs that are in quarantine from now on.
    pub(crate) quarantined: broadcast::Sender<RunId>,
    /// By how many milliseconds the clock on the wall was ahead of the time by which the newest sweep went.
    pub(crate) behind_ms: watch::Sender<i64>,
    pub(crate) reads: Arc<Reads>,
    pub(crate) meters: Arc<Meters>,
    /// The shards' thread has ended.
    pub(crate) over: watch::Sender<bool>,
    /// After how long a subscriber that gets no events is told how far the log has gone on.
    pub(crate) beat: Duration,
}

/// One shard's newest events.
pub(crate) struct Feed {
    ring: Mutex<Ring>,
    history: Mutex<Arc<History>>,
    pub(crate) newest: watch::Sender<Position>,
    /// Rings when retention has removed runs.
    pub(crate) swept: watch::Sender<()>,
}

impl Feed {
    pub(crate) fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Which positions were written under which claims.
    pub(crate) fn history(&self) -> Arc<History> {
        Arc::clone(&self.history.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn set_history(&self, history: History) {
        *self.history.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(history);
    }
}

impl Shared {
    pub(crate) fn new(
        shards: &[ShardId],
        ring_bytes: usize,
        progress_backlog: usize,
        beat: Duration,
    ) -> Self {
        let feed = |shard: &ShardId| {
            let ring = Mutex::new(Ring::new(Position(0), ring_bytes));
            let (newest, swept) = (watch::Sender::new(Position(0)), watch::Sender::new(()));
            (*shard, Feed { ring, history: Mutex::default(), newest, swept })
        };
        Self {
            feeds: shards.iter().map(feed).collect(),
            progress: broadcast::Sender::new(progress_backlog),
            fenced: watch::Sender::new(false),
            scripts_over: broadcast::Sender::new(SCRIPTS_BACKLOG),
            at_work: watch::Sender::new(None),
            quarantined: broadcast::Sender::new(QUARANTINED_BACKLOG),
            behind_ms: watch::Sender::new(0),
            reads: Arc::default(),
            meters: Arc::default(),
            over: watch::Sender::new(false),
            beat,
        }
    }

    pub(crate) fn feed(&self, shard: ShardId) -> Option<&Feed> {
        self.feeds.get(&shard)
    }
}
