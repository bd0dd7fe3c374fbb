//! A subscriber of the event stream.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use capataz_contracts::v1;
use capataz_shard::LoadError;
use capataz_shard::feed::{Begin, Cursor, Filter, Placed, Reader, Step, Topic, Unservable};
use capataz_store::{Removals, RunId, ShardId, StoreError};
use tokio::sync::{broadcast, watch};
use tokio::time::{Instant, Interval, MissedTickBehavior};

use crate::runtime::Runtime;
use crate::shared::{Feed, Shared};

/// After how many positions it is told in any case.
const PASSED: u64 = 4096;

/// Why a subscription cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum CursorError {
    #[error(transparent)]
    Unservable(#[from] Unservable),
    #[error("the log cannot be read")]
    Store(#[source] StoreError),
}

/// Yields every durable event after its cursor exactly once: history, then live.
#[derive(Debug)]
pub struct Subscription {
    reader: Option<Reader>,
    runtime: Runtime,
    shard: ShardId,
    /// Rings when there is something new; where all that it wants has a topic, when that has.
    newest: watch::Receiver<capataz_store::Position>,
    awaited: Option<Awaited>,
    over: watch::Receiver<bool>,
    swept: watch::Receiver<()>,
    /// The cursor that the subscriber was given last.
    told: Cursor,
    beat: Interval,
    progress: Option<broadcast::Receiver<v1::ProgressFrame>>,
    with_logs: bool,
    /// The run that the filter names.
    run: Option<RunId>,
    /// The same as progress frames have it.
    run_id: Option<String>,
    /// Where it is, for whoever wants to know how far subscribers are behind; `None` for that of a single run.
    place: Option<Arc<AtomicU64>>,
    quarantined: broadcast::Receiver<RunId>,
}

/// What a subscriber waits for, as long as it does.
struct Awaited {
    shared: Arc<Shared>,
    shard: ShardId,
    topic: Topic,
}

impl Drop for Awaited {
    fn drop(&mut self) {
        if let Some(feed) = self.shared.feed(self.shard) {
            feed.no_longer_awaits(&self.topic);
        }
    }
}

impl fmt::Debug for Awaited {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.topic.fmt(formatter)
    }
}

/// What a subscriber gets of running work beside the events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    None,
    Progress,
    ProgressAndLogs,
}

/// What a subscriber gets next.
#[derive(Debug)]
pub enum Item {
    Step(Step, Cursor),
    Progress(v1::ProgressFrame),
    /// The run that the filter names may be in quarantine: the store knows.
    Quarantined(RunId),
    /// Retention has removed what the subscriber should have got next.
    Missed(Unservable),
}

impl Subscription {
    /// Begins in a shard.
    ///
    /// # Errors
    /// The cursor has missed events, or the store cannot be read.
    pub async fn begin(
        runtime: &Runtime,
        shard: ShardId,
        filter: Filter,
        begin: Begin,
        max_batch: usize,
        news: News,
    ) -> Result<Self, CursorError> {
        let shared = Arc::clone(runtime.shared());
        let Some(feed) = shared.feed(shard) else { return Err(CursorError::Store(StoreError::Closed)) };
        // Heard of from here on, and what is so already the caller finds in the store.
        let quarantined = shared.quarantined.subscribe();
        let store = Arc::clone(runtime.store());
        let bounds = read(&shared, move || store.bounds(shard)).await.map_err(CursorError::Store)?;
        let run = filter.run;
        // A run that is not there has no events, and a caller who wants to know that asks the store.
        let start = begin.check(bounds, &feed.history(), run.is_some())?;
        let (newest, awaited) = match filter.topic() {
            Some(topic) => {
                let newest = feed.awaits(&topic);
                (newest, Some(Awaited { shared: Arc::clone(&shared), shard, topic }))
            }
            None => (feed.newest.subscribe(), None),
        };
        let place = run.is_none().then(|| shared.meters.reads(start.cursor.position.0));
        let mut beat = tokio::time::interval_at(Instant::now() + shared.beat, shared.beat);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Self {
            reader: Some(Reader::new(shard, filter, start, max_batch)),
            runtime: runtime.clone(),
            shard,
            newest,
            awaited,
            over: shared.over.subscribe(),
            swept: feed.swept.subscribe(),
            told: start.cursor,
            beat,
            progress: (news != News::None).then(|| shared.progress.subscribe()),
            with_logs: news == News::ProgressAndLogs,
            run,
            run_id: run.map(|run| run.to_string()),
            place,
            quarantined,
        })
    }

    /// Marks cursors of this subscription, so that another history knows them for not its own.
    pub fn marks(&self) -> impl Fn(Cursor) -> Placed + use<> {
        let history = self.runtime.shared().feed(self.shard).map(Feed::history).unwrap_or_default();
        let removals = self.removals();
        move |cursor| Placed::new(cursor, &history, removals)
    }

    fn removals(&self) -> Removals {
        self.reader.as_ref().map(Reader::removals).unwrap_or_default()
    }

    /// The next events, or the news that there are none now; waits at the end of the log for what comes.
    /// `idle` says that the caller has been told of the end already.
    ///
    /// A subscriber that gets none of what happens is given its cursor again and again, in a step without events, so that
    /// it never has an old one: after some time, after many positions, and when retention has removed anything.
    ///
    /// # Errors
    /// The store cannot be read, or the run that the filter names is damaged.
    pub async fn next(&mut self, idle: bool) -> Result<Item, LoadError> {
        let mut is_due = false;
        loop {
            self.newest.mark_unchanged();
            let (step, cursor) = self.step().await?;
            if step.missed {
                return self.missed(cursor).await.map(Item::Missed);
            }
            let passed = cursor.position.0.saturating_sub(self.told.position.0);
            let has_moved = std::mem::take(&mut is_due) && cursor != self.told;
            if !step.is_empty() || step.finished || (step.at_end && !idle) || passed >= PASSED || has_moved {
                return Ok(self.tell(step, cursor));
            }
            if !step.at_end {
                continue;
            }
            self.waits();
            let progress = self.progress.as_mut();
            // Who waits for a topic is not woken by what else there is, and has passed it all the same.
            let goes_on = cursor != self.told || self.awaited.is_some();
            tokio::select! {
                _ = self.beat.tick(), if goes_on => is_due = true,
                _ = self.swept.changed(), if goes_on => is_due = true,
                changed = self.newest.changed() => {
                    if changed.is_err() {
                        return Err(StoreError::Closed.into());
                    }
                }
                () = over(&mut self.over) => return Err(StoreError::Closed.into()),
                run = next_quarantined(self.run, &mut self.quarantined) => {
                    self.is_at(cursor);
                    return Ok(Item::Quarantined(run));
                }
                mut frame = next_progress(progress) => {
                    if self.run_id.as_ref().is_some_and(|run| *run != frame.run_id) {
                        continue;
                    }
                    frame.log = frame.log.filter(|_| self.with_logs);
                    self.is_at(cursor);
                    return Ok(Item::Progress(frame));
                }
            }
        }
    }

    fn tell(&mut self, step: Step, cursor: Cursor) -> Item {
        self.told = cursor;
        self.beat.reset();
        Item::Step(step, cursor)
    }

    /// What the subscriber is told of what it has missed.
    async fn missed(&self, cursor: Cursor) -> Result<Unservable, LoadError> {
        let (store, shard) = (Arc::clone(self.runtime.store()), self.shard);
        let bounds = read(self.runtime.shared(), move || store.bounds(shard)).await?;
        let history = self.runtime.shared().feed(shard).map(Feed::history).unwrap_or_default();
        Ok(Unservable::TooOld { works: Placed::new(cursor, &history, bounds.removals) })
    }

    async fn step(&mut self) -> Result<(Step, Cursor), LoadError> {
        let Some(mut reader) = self.reader.take() else { return Err(StoreError::Closed.into()) };
        let (from_ring, newest) = {
            let Some(feed) = self.runtime.shared().feed(self.shard) else {
                return Err(StoreError::Closed.into());
            };
            let ring = feed.ring();
            (reader.read_ring(&ring), ring.newest())
        };
        if let Some(step) = from_ring {
            let cursor = reader.cursor();
            self.reader = Some(reader);
            self.is_at(cursor);
            return Ok((step, cursor));
        }
        let store = Arc::clone(self.runtime.store());
        let (reader, step) = read(self.runtime.shared(), move || {
            let step = reader.read_log(&*store, newest);
            Ok((reader, step))
        })
        .await?;
        let cursor = reader.cursor();
        self.reader = Some(reader);
        self.is_at(cursor);
        Ok((step?, cursor))
    }
}

impl Subscription {
    /// Whoever waits for a topic is behind nobody, as long as he waits: whatever there is, is nothing of it.
    fn waits(&self) {
        if self.awaited.is_some()
            && let Some(place) = &self.place
        {
            place.store(u64::MAX, Ordering::Relaxed);
        }
    }

    fn is_at(&self, cursor: Cursor) {
        if let Some(place) = &self.place {
            place.store(cursor.position.0, Ordering::Relaxed);
        }
    }
}

async fn over(over: &mut watch::Receiver<bool>) {
    let _ = over.wait_for(|over| *over).await;
}

async fn next_progress(progress: Option<&mut broadcast::Receiver<v1::ProgressFrame>>) -> v1::ProgressFrame {
    let Some(progress) = progress else { return std::future::pending().await };
    loop {
        match progress.recv().await {
            Ok(frame) => return frame,
            // Progress that was missed is no longer progress.
            Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => return std::future::pending().await,
        }
    }
}

/// The run, once it may be in quarantine.
async fn next_quarantined(run: Option<RunId>, quarantined: &mut broadcast::Receiver<RunId>) -> RunId {
    let Some(run) = run else { return std::future::pending().await };
    loop {
        match quarantined.recv().await {
            Ok(other) if other != run => {}
            // Among those that were missed it may be.
            Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => return run,
            Err(broadcast::error::RecvError::Closed) => return std::future::pending().await,
        }
    }
}

async fn read<T: Send + 'static>(
    shared: &Shared,
    read: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    shared.reads.stream(read).await.unwrap_or(Err(StoreError::Closed))
}
