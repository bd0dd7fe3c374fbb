//! Sends runs as traces: reads the log behind those who write it, makes spans of it, and keeps its place.
//!
//! The place is that behind the last events whose spans have arrived. Whatever happens to the daemon, it goes on from there,
//! and a span that is sent twice has the same ids, so that the collector knows it. It is one subscriber more: a collector
//! that is slow, or not there, costs nobody anything but its own lateness.

use std::collections::{BTreeSet, VecDeque};
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use backoff::backoff::Backoff as _;
use backoff::{ExponentialBackoff, ExponentialBackoffBuilder};
use bytes::Bytes;
use capataz_contracts::{EventHead, v1};
use capataz_runtime::{CursorError, Item, News, Runtime, Subscription};
use capataz_shard::feed::{self, Begin, Cursor, Delivered, Filter, Placed, Unservable};
use capataz_shard::{Damage, LoadError};
use capataz_store::{LogRow, Position, RunId, Store, StoreError};
use capataz_telemetry::{Endpoint, ExportError, Exporter, Past, Projection, Span};
use prost::Message;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::SHARD;

/// The file in the data folder that holds the place.
const PLACE: &str = "traces.place";
/// Events that are read at a time.
const EVENTS: usize = 256;
/// Spans that are sent together.
const SPANS: usize = 1_024;
/// How long more spans are waited for after fewer than that were sent.
const LINGER: Duration = Duration::from_millis(200);
/// The time between two tries to reach the collector, at first and at most.
const AGAIN: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));
/// How long a daemon that stops may still send.
const LAST_WORDS: Duration = Duration::from_secs(3);
/// The time between two writings of the place.
const WRITTEN: Duration = Duration::from_secs(1);
/// Bytes of spans that are sent together; what a collector takes at most, unless it says otherwise, is four times as much.
const SPANS_BYTES: usize = 1024 * 1024;
/// Tries after which spans are given up, where the collector fails in a way that might be its own.
const DOUBTS: u32 = 5;
/// Runs of which is known that they cannot be read.
const UNREADABLE: usize = 1_024;
/// Rows and bytes of a run's past that are read at a time.
const PAST: (usize, usize) = (256, 1024 * 1024);

/// What has become of the spans, since the daemon has started.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) sent: AtomicU64,
    /// The collector did not take them, and never will.
    pub(crate) rejected: AtomicU64,
    /// Appends whose runs retention had removed before their spans were sent.
    pub(crate) removed: AtomicU64,
    /// Appends that cannot be read any more.
    pub(crate) damaged: AtomicU64,
    /// Tries that did not reach the collector.
    pub(crate) failures: AtomicU64,
    /// The position behind the last events whose spans have arrived.
    pub(crate) position: AtomicU64,
}

/// What sends spans while the daemon runs.
#[derive(Debug)]
pub(crate) struct Traces {
    sending: JoinHandle<()>,
    stop: watch::Sender<bool>,
}

impl Traces {
    /// Sends what comes from now on, and what came since the spans of the last daemon have arrived.
    ///
    /// # Errors
    /// The log cannot be read, or the place in it cannot be kept.
    pub(crate) async fn start(
        runtime: &Runtime,
        endpoint: &Endpoint,
        data_dir: &Path,
        counts: Arc<Counts>,
    ) -> Result<Self, TracesError> {
        let (stop, stopped) = watch::channel(false);
        let mut sender = Sender {
            place: data_dir.join(PLACE),
            exporter: Exporter::new(endpoint),
            projection: Projection::default(),
            spans: VecDeque::new(),
            fresh: Vec::new(),
            arrived: None,
            written: None,
            most: SPANS,
            unreadable: BTreeSet::new(),
            runtime: runtime.clone(),
            counts,
            stopped,
            is_silent: false,
            is_unwritten: false,
        };
        // From the first run on that this daemon accepts, whatever becomes of the daemon.
        let begin = sender.begin().await?;
        let sending = tokio::spawn(async move { sender.run_on(begin).await });
        Ok(Self { sending, stop })
    }

    /// Sends what is left, for some seconds at most; the next daemon sends the rest.
    pub(crate) async fn stop(self) {
        self.stop.send_replace(true);
        let aborting = self.sending.abort_handle();
        if tokio::time::timeout(LAST_WORDS, self.sending).await.is_err() {
            aborting.abort();
        }
    }
}

/// Why no spans are sent now.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TracesError {
    #[error(transparent)]
    Cursor(#[from] CursorError),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error("how far spans were sent cannot be read")]
    Place(#[from] io::Error),
}

impl TracesError {
    /// Whether what is read is damaged, so that it will not be read later either.
    fn is_damage(&self) -> bool {
        match self {
            Self::Cursor(CursorError::Store(error)) | Self::Load(LoadError::Store(error)) => is_damage(error),
            Self::Cursor(CursorError::Unservable(_)) | Self::Load(LoadError::Damaged(_)) | Self::Place(_) => {
                false
            }
        }
    }
}

fn is_damage(error: &StoreError) -> bool {
    matches!(error, StoreError::Corrupt { .. })
}

/// What there is behind a position of the log.
enum NextAppend {
    Whole(LogRow),
    /// What cannot be read; behind this position the log can be read again.
    Behind(Position),
    None,
}

fn next_append(store: &dyn Store, after: Position) -> Result<NextAppend, StoreError> {
    match store.read_log(SHARD, after, 1, PAST.1) {
        Ok(rows) => Ok(rows.into_iter().next().map_or(NextAppend::None, NextAppend::Whole)),
        Err(error) if is_damage(&error) => readable_after(store, after).map(NextAppend::Behind),
        Err(error) => Err(error),
    }
}

/// The position behind which the log can be read again, where it cannot behind this one. It is found by steps that double, and
/// then by halves: a damaged page may have one append on it, or lead to thousands.
fn readable_after(store: &dyn Store, after: Position) -> Result<Position, StoreError> {
    let newest = store.bounds(SHARD)?.newest.0;
    let is_readable = |position: u64| match store.read_log(SHARD, Position(position), 1, 0) {
        Ok(_) => Ok(true),
        Err(error) if is_damage(&error) => Ok(false),
        Err(error) => Err(error),
    };
    let (mut damaged, mut step) = (after.0, 1);
    let mut readable = loop {
        let next = damaged.saturating_add(step);
        if next >= newest {
            break newest;
        }
        if is_readable(next)? {
            break next;
        }
        (damaged, step) = (next, step.saturating_mul(2));
    };
    while readable.saturating_sub(damaged) > 1 {
        let middle = u64::midpoint(damaged, readable);
        match is_readable(middle)? {
            true => readable = middle,
            false => damaged = middle,
        }
    }
    Ok(Position(readable))
}

struct Sender {
    runtime: Runtime,
    exporter: Exporter,
    projection: Projection,
    /// Spans that have not arrived.
    spans: VecDeque<Span>,
    /// Those of one event, before they are encoded.
    fresh: Vec<Span>,
    /// The file of the place.
    place: PathBuf,
    /// Everything before this has arrived.
    arrived: Option<Placed>,
    /// What that file says, and since when.
    written: Option<(Placed, Instant)>,
    /// Spans that are sent together: fewer where the collector takes less.
    most: usize,
    /// Runs whose beginnings cannot be read.
    unreadable: BTreeSet<RunId>,
    counts: Arc<Counts>,
    stopped: watch::Receiver<bool>,
    /// The log has been told that the collector cannot be reached.
    is_silent: bool,
    /// The log has been told that the place cannot be written.
    is_unwritten: bool,
}

impl Sender {
    /// Sends until the daemon stops. What fails now is tried again: nothing that is in the log is given up because of the disk.
    async fn run_on(&mut self, mut begin: Begin) {
        let mut again = backoff();
        while let Err(mut error) = self.run(begin).await {
            self.forget();
            begin = self.arrived.map_or(begin, Begin::After);
            if error.is_damage() {
                match self.pass_over(begin).await {
                    Ok(true) => {
                        begin = self.arrived.map_or(begin, Begin::After);
                        continue;
                    }
                    Ok(false) => self.forget(),
                    Err(other) => {
                        self.forget();
                        error = other;
                    }
                }
            }
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "spans cannot be sent now; they stay in the log"
            );
            if self.is_stopped() || !self.pauses(&mut again).await {
                return;
            }
        }
    }

    /// Begins anew at the place, of which nothing is known but that everything before it has arrived.
    fn forget(&mut self) {
        self.spans.clear();
        self.fresh.clear();
        self.projection = Projection::default();
    }

    /// Passes over appends on a damaged page of the database: each read fails that meets one of them. What comes before them
    /// is sent, and they are counted. Whether there were any, and the place is behind them.
    async fn pass_over(&mut self, begin: Begin) -> Result<bool, TracesError> {
        let mut at = match begin {
            Begin::After(placed) => placed.cursor.position,
            Begin::Oldest => Position(0),
            Begin::Now => return Ok(false),
        };
        let marks = self.subscribe(begin).await?.marks();
        loop {
            let behind = match self.next_append(at).await? {
                NextAppend::None => return Ok(false),
                NextAppend::Whole(row) => {
                    at = row.position;
                    self.take_append(&row).await?;
                    // What waits is bounded.
                    if self.spans.len() >= SPANS && !self.send().await {
                        return Ok(false);
                    }
                    continue;
                }
                NextAppend::Behind(behind) => behind,
            };
            if !self.send().await {
                return Ok(false);
            }
            let appends = behind.0.saturating_sub(at.0);
            self.counts.damaged.fetch_add(appends, Ordering::Relaxed);
            tracing::warn!(
                appends,
                after = at.0,
                "the log is damaged: the spans of appends that cannot be read are left out"
            );
            let cursor = Cursor::behind(behind);
            self.keep(cursor, marks(cursor), true);
            return Ok(true);
        }
    }

    async fn next_append(&self, after: Position) -> Result<NextAppend, LoadError> {
        let store = Arc::clone(self.runtime.store());
        let read = self.runtime.reads().stream(move || next_append(&*store, after)).await;
        read.unwrap_or(Err(StoreError::Closed)).map_err(LoadError::Store)
    }

    /// Makes spans of the events of an append, as of those that a subscription delivers.
    async fn take_append(&mut self, row: &LogRow) -> Result<(), TracesError> {
        if row.inherited {
            return Ok(());
        }
        let Ok(events) = feed::events_of(row, row.first_seq.saturating_sub(1)) else {
            self.counts.damaged.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        };
        for event in events {
            self.take(row.run, event).await?;
        }
        Ok(())
    }

    async fn run(&mut self, mut begin: Begin) -> Result<(), TracesError> {
        loop {
            let is_last = self.is_stopped();
            let mut subscription = match self.subscribe(begin).await {
                Ok(subscription) => subscription,
                Err(CursorError::Unservable(unservable)) => {
                    begin = self.begin_again(unservable).await;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            match self.follow(&mut subscription, is_last).await? {
                Some(missed) => begin = self.begin_again(missed).await,
                None if is_last => return Ok(()),
                // What came in the last moment.
                None => begin = self.arrived.map_or(begin, Begin::After),
            }
        }
    }

    /// Whether the daemon stops, or is gone.
    fn is_stopped(&self) -> bool {
        *self.stopped.borrow() || self.stopped.has_changed().is_err()
    }

    /// Waits before the next try; whether the daemon goes on.
    async fn pauses(&self, again: &mut ExponentialBackoff) -> bool {
        let mut stopped = self.stopped.clone();
        let pause = again.next_backoff().unwrap_or(AGAIN.1);
        tokio::select! {
            () = tokio::time::sleep(pause) => true,
            _ = stopped.wait_for(|stopped| *stopped) => false,
        }
    }

    async fn subscribe(&self, begin: Begin) -> Result<Subscription, CursorError> {
        Subscription::begin(&self.runtime, SHARD, Filter::default(), begin, EVENTS, News::None).await
    }

    /// Where it stopped the last time; the first time, with what comes next, which is kept as the place then.
    async fn begin(&mut self) -> Result<Begin, TracesError> {
        match fs::read(&self.place) {
            Ok(bytes) => return Ok(Placed::decode(&bytes, SHARD).map_or(Begin::Oldest, Begin::After)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
        let mut subscription = self.subscribe(Begin::Now).await?;
        let marks = subscription.marks();
        if let Item::Step(_, cursor) = subscription.next(false).await? {
            self.keep(cursor, marks(cursor), true);
        }
        Ok(self.arrived.map_or(Begin::Now, Begin::After))
    }

    /// Where to go on when the place is not one of this log any more.
    async fn begin_again(&mut self, unservable: Unservable) -> Begin {
        self.projection = Projection::default();
        match unservable {
            Unservable::TooOld { works } => {
                let removed = self.removed_after(works.cursor).await;
                self.counts.removed.fetch_add(removed, Ordering::Relaxed);
                tracing::warn!(
                    appends = removed,
                    "retention has removed runs before their spans were sent: the collector was away too long"
                );
                Begin::After(works)
            }
            Unservable::OtherHistory { valid } => {
                tracing::warn!("the data was restored: spans are sent again from where it was the same");
                Begin::After(valid)
            }
        }
    }

    /// How many of the appends after this place are not there any more.
    async fn removed_after(&self, cursor: Cursor) -> u64 {
        let store = Arc::clone(self.runtime.store());
        let from = cursor.position;
        let count = move || -> Result<u64, StoreError> {
            let newest = store.bounds(SHARD)?.newest;
            let (mut after, mut kept) = (from, 0_u64);
            while after < newest {
                let rows = store.read_log(SHARD, after, PAST.0, PAST.1)?;
                let Some(last) = rows.last() else { break };
                kept += u64::try_from(rows.iter().filter(|row| row.position <= newest).count()).unwrap_or(0);
                after = last.position;
            }
            Ok(newest.0.saturating_sub(from.0).saturating_sub(kept))
        };
        // Where it cannot be read, it is not known, and sending goes on all the same.
        self.runtime.reads().stream(count).await.ok().and_then(Result::ok).unwrap_or_default()
    }

    /// Sends what comes, until the daemon stops or retention was faster. The last time only what is there already.
    async fn follow(
        &mut self,
        subscription: &mut Subscription,
        is_last: bool,
    ) -> Result<Option<Unservable>, TracesError> {
        let marks = subscription.marks();
        let mut stopped = self.stopped.clone();
        let mut idle = false;
        loop {
            let item = tokio::select! {
                item = subscription.next(idle) => item?,
                _ = stopped.wait_for(|stopped| *stopped), if idle => return Ok(None),
            };
            let (step, cursor) = match item {
                Item::Step(step, cursor) => (step, cursor),
                Item::Progress(_) | Item::Quarantined(_) => continue,
                Item::Missed(missed) => return Ok(Some(missed)),
            };
            let damaged = u64::try_from(step.damaged.len()).unwrap_or(u64::MAX);
            self.counts.damaged.fetch_add(damaged, Ordering::Relaxed);
            for Delivered { run, event, .. } in step.events {
                self.take(run, event).await?;
            }
            idle = step.at_end;
            let is_whole = self.spans.len() >= SPANS;
            if is_whole || idle {
                if !self.send().await {
                    return Ok(None);
                }
                self.keep(cursor, marks(cursor), idle && is_last);
            }
            if idle && is_last {
                return Ok(None);
            }
            if idle && !is_whole {
                tokio::time::sleep(LINGER).await;
            }
        }
    }

    /// Makes spans of an event.
    async fn take(&mut self, run: RunId, bytes: Bytes) -> Result<(), TracesError> {
        if self.unreadable.contains(&run) {
            return Ok(());
        }
        let id = run.0.into_bytes();
        if EventHead::read(&bytes).is_some_and(|head| self.projection.pass(id, head)) {
            return Ok(());
        }
        let Ok(event) = v1::Event::decode(bytes) else {
            self.gives_up(run);
            return Ok(());
        };
        if self.projection.apply(id, &event, &mut self.fresh).is_err() {
            match self.past(run, event.seq).await {
                Ok(past) => self.projection.recall(past, &mut self.fresh),
                Err(LoadError::Store(StoreError::Corrupt { .. }) | LoadError::Damaged(_)) => {}
                Err(LoadError::Store(error)) => return Err(LoadError::Store(error).into()),
            }
            if self.projection.apply(id, &event, &mut self.fresh).is_err() {
                self.gives_up(run);
            }
        }
        self.spans.extend(self.fresh.drain(..));
        Ok(())
    }

    /// The run's log is damaged, or retention has removed it meanwhile: nothing of it can be made, and nobody tries again.
    fn gives_up(&mut self, run: RunId) {
        if self.unreadable.len() >= UNREADABLE {
            self.unreadable.pop_first();
        }
        self.unreadable.insert(run);
    }

    /// The events of a run before this one.
    async fn past(&self, run: RunId, seq: u64) -> Result<Past, LoadError> {
        let store = Arc::clone(self.runtime.store());
        let read = move || {
            let mut past = Past::new(run.0.into_bytes());
            let mut after = 0;
            loop {
                let rows = store.read_run(run, after, PAST.0, PAST.1)?;
                if rows.is_empty() {
                    return Ok(past);
                }
                for row in &rows {
                    let unreadable = |damage: Damage| LoadError::Damaged(Damage { run, ..damage });
                    for bytes in feed::events_of(row, after).map_err(unreadable)? {
                        let head = EventHead::read(&bytes).filter(|head| head.seq < seq);
                        if let Some(head) = head.filter(|head| past.pass(*head)) {
                            after = head.seq;
                            continue;
                        }
                        let Ok(event) = v1::Event::decode(bytes) else { return Ok(past) };
                        if event.seq >= seq {
                            return Ok(past);
                        }
                        after = event.seq;
                        past.apply(&event);
                    }
                }
            }
        };
        self.runtime.reads().stream(read).await.unwrap_or(Err(LoadError::Store(StoreError::Closed)))
    }

    /// Sends the spans that there are, however long that takes: until they have arrived they are in the log. Whether they have; if
    /// not, the daemon stops.
    async fn send(&mut self) -> bool {
        let mut again = backoff();
        let mut doubts = 0;
        while !self.spans.is_empty() {
            let count = self.part();
            match self.exporter.send(self.spans.iter().take(count)).await {
                Ok(rejected) => {
                    (again, doubts) = (backoff(), 0);
                    self.have_arrived(count, rejected);
                    self.most = self.most.saturating_mul(2).min(SPANS);
                    continue;
                }
                Err(ExportError::TooMuch(_)) if count > 1 => self.most = count / 2,
                Err(ExportError::Doubtful(_)) if doubts < DOUBTS => doubts += 1,
                Err(passing @ ExportError::Passing(_)) => self.is_away(&passing),
                Err(refused) => {
                    tracing::warn!(spans = count, "spans are given up: {refused}");
                    self.have_arrived(count, u64::try_from(count).unwrap_or(u64::MAX));
                    continue;
                }
            }
            if !self.pauses(&mut again).await {
                return false;
            }
        }
        true
    }

    /// How many of the next spans are sent together: some, and not too many bytes.
    fn part(&self) -> usize {
        let mut bytes = 0;
        let fits = |span: &&Span| {
            bytes += span.size();
            bytes <= SPANS_BYTES
        };
        self.spans.iter().take(self.most).take_while(fits).count().max(1)
    }

    fn is_away(&mut self, passing: &ExportError) {
        self.counts.failures.fetch_add(1, Ordering::Relaxed);
        if !std::mem::replace(&mut self.is_silent, true) {
            tracing::warn!("{passing}; spans wait in the log until it can");
        }
    }

    fn have_arrived(&mut self, count: usize, rejected: u64) {
        self.spans.drain(..count.min(self.spans.len()));
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        self.counts.sent.fetch_add(count.saturating_sub(rejected), Ordering::Relaxed);
        self.counts.rejected.fetch_add(rejected, Ordering::Relaxed);
        if std::mem::replace(&mut self.is_silent, false) {
            tracing::info!("the collector can be reached again");
        }
    }

    /// Everything before this place has arrived. It is written now and then: what is sent again has the same ids.
    fn keep(&mut self, cursor: Cursor, placed: Placed, at_once: bool) {
        self.counts.position.store(cursor.position.0, Ordering::Relaxed);
        self.arrived = Some(placed);
        let is_due =
            |(written, at): (Placed, Instant)| written != placed && (at_once || at.elapsed() >= WRITTEN);
        if !self.written.is_none_or(is_due) {
            return;
        }
        match write(&self.place, &placed.encode(SHARD)) {
            Ok(()) => {
                self.written = Some((placed, Instant::now()));
                self.is_unwritten = false;
            }
            // A later place says the same and more.
            Err(error) => {
                self.written = Some((Placed::default(), Instant::now()));
                if !std::mem::replace(&mut self.is_unwritten, true) {
                    tracing::warn!(%error, "how far spans were sent cannot be written down now");
                }
            }
        }
    }
}

fn write(place: &Path, bytes: &[u8]) -> io::Result<()> {
    let fresh = place.with_extension("new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
    file.write_all(bytes)?;
    fs::rename(fresh, place)
}

fn backoff() -> ExponentialBackoff {
    ExponentialBackoffBuilder::new()
        .with_initial_interval(AGAIN.0)
        .with_max_interval(AGAIN.1)
        .with_max_elapsed_time(None)
        .build()
}
