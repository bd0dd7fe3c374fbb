//! A subscriber of the event stream.

use std::sync::Arc;

use capataz_contracts::v1;
use capataz_shard::LoadError;
use capataz_shard::feed::{Cursor, Filter, Placed, Reader, Step, Unservable};
use capataz_store::{RunId, ShardId, StoreError};
use tokio::sync::{broadcast, watch};

use crate::runtime::Runtime;
use crate::shared::{Feed, Shared};

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
    newest: watch::Receiver<capataz_store::Position>,
    progress: Option<broadcast::Receiver<v1::ProgressFrame>>,
    /// The run that the filter names.
    run: Option<RunId>,
    quarantined: broadcast::Receiver<RunId>,
}

/// What a subscriber gets next.
#[derive(Debug)]
pub enum Item {
    Step(Step, Cursor),
    Progress(v1::ProgressFrame),
    /// The run that the filter names may be in quarantine: the store knows.
    Quarantined(RunId),
}

impl Subscription {
    /// Begins in a shard, after `cursor`; `None` begins with what comes next, `Some` of the default with the oldest event.
    ///
    /// # Errors
    /// The cursor has missed events, or the store cannot be read.
    pub async fn begin(
        runtime: &Runtime,
        shard: ShardId,
        filter: Filter,
        cursor: Option<Placed>,
        max_batch: usize,
        progress: bool,
    ) -> Result<Self, CursorError> {
        let shared = Arc::clone(runtime.shared());
        let Some(feed) = shared.feed(shard) else { return Err(CursorError::Store(StoreError::Closed)) };
        // Heard of from here on, and what is so already the caller finds in the store.
        let quarantined = shared.quarantined.subscribe();
        let store = Arc::clone(runtime.store());
        let bounds = read(&shared, move || store.bounds(shard)).await.map_err(CursorError::Store)?;
        let run = filter.run;
        let cursor = match cursor {
            None => Cursor::behind(bounds.newest),
            Some(placed) => placed.check(bounds, &feed.history())?,
        };
        Ok(Self {
            reader: Some(Reader::new(shard, filter, cursor, max_batch)),
            runtime: runtime.clone(),
            shard,
            newest: feed.newest.subscribe(),
            progress: progress.then(|| shared.progress.subscribe()),
            run,
            quarantined,
        })
    }

    /// Marks cursors of this subscription, so that another history knows them for not its own.
    pub fn marks(&self) -> impl Fn(Cursor) -> Placed + use<> {
        let history = self.runtime.shared().feed(self.shard).map(Feed::history).unwrap_or_default();
        move |cursor| Placed::new(cursor, &history)
    }

    /// The next events, or the news that there are none now; waits at the end of the log for what comes.
    /// `idle` says that the caller has been told of the end already.
    ///
    /// # Errors
    /// The store cannot be read, or the run that the filter names is damaged.
    pub async fn next(&mut self, idle: bool) -> Result<Item, LoadError> {
        loop {
            self.newest.mark_unchanged();
            let (step, cursor) = self.step().await?;
            if !step.is_empty() || step.finished || (step.at_end && !idle) {
                return Ok(Item::Step(step, cursor));
            }
            if !step.at_end {
                if cursor.position.0 % 4096 == 0 {
                    return Ok(Item::Step(step, cursor));
                }
                continue;
            }
            let progress = self.progress.as_mut();
            tokio::select! {
                changed = self.newest.changed() => {
                    if changed.is_err() {
                        return Err(StoreError::Closed.into());
                    }
                }
                run = next_quarantined(self.run, &mut self.quarantined) => return Ok(Item::Quarantined(run)),
                frame = next_progress(progress) => return Ok(Item::Progress(frame)),
            }
        }
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
        Ok((step?, cursor))
    }
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
