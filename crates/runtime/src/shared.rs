//! What subscribers and others read of the shards' thread: the newest events, and bells.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use capataz_contracts::v1;
use capataz_shard::Published;
use capataz_shard::feed::{Ring, Topic};
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
    /// Those who wait for a topic alone, by it.
    waiting: Mutex<BTreeMap<Topic, watch::Sender<Position>>>,
    /// Rings when retention has removed runs.
    pub(crate) swept: watch::Sender<()>,
}

impl Feed {
    pub(crate) fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps an append, and wakes those who may want it.
    pub(crate) fn publish(&self, published: Published) {
        let newest = published.position;
        let topics = self.ring().push(published);
        self.newest.send_replace(newest);
        if topics.is_empty() {
            return;
        }
        let waiting = self.waiting();
        for sender in topics.iter().filter_map(|topic| waiting.get(topic)) {
            sender.send_replace(newest);
        }
    }

    /// What is at or before this position is in the log, and nobody was told of it.
    pub(crate) fn begin_again(&self, newest: Position) {
        self.ring().begin_again(newest);
        self.newest.send_replace(newest);
        for sender in self.waiting().values() {
            sender.send_replace(newest);
        }
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeMap<Topic, watch::Sender<Position>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells of what has this topic, until [`no_longer_awaits`](Self::no_longer_awaits).
    pub(crate) fn awaits(&self, topic: &Topic) -> watch::Receiver<Position> {
        let mut waiting = self.waiting();
        self.ring().awaits(topic.clone());
        let sender = || watch::Sender::new(Position(0));
        waiting.entry(topic.clone()).or_insert_with(sender).subscribe()
    }

    pub(crate) fn no_longer_awaits(&self, topic: &Topic) {
        let mut waiting = self.waiting();
        if self.ring().no_longer_awaits(topic) {
            waiting.remove(topic);
        }
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
            (*shard, Feed { ring, history: Mutex::default(), newest, waiting: Mutex::default(), swept })
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
