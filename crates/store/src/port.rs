//! The port that every adapter implements. One conformance suite runs over all of them.
//!
//! # Order and atomicity
//! An [`Append`] is atomic. A shard's writer calls [`ShardWriter::commit`] with all waiting appends. They share one
//! durable transaction (group commit) and are checked one after the other in the given order. A refused append leaves
//! the others unaffected, except those that it is [joined](Append::joined) with. When `commit` returns, every append
//! with the outcome [`AppendOutcome::Committed`] is durable. Positions grow in commit order: a reader that has seen
//! position `p` never later finds a new row at or below `p`.
//!
//! # Unknown outcomes
//! If `commit` fails with [`StoreError`], its outcome is *unknown*: the transaction may or may not be durable. The
//! caller never repeats the commit; it reopens the writer under a new epoch and reads the truth from the log.
//!
//! # Whole or not
//! Rows of the log and snapshots carry a checksum, which every read verifies. A row that is damaged is still a row, with
//! its position and without its events ([`LogRow::events`]); a snapshot that is damaged is none. Beyond that the store
//! draws no conclusion: what becomes of the run, its caller decides, and may [put down](ShardWriter::quarantine).
//!
//! # Derived rows
//! Rows that only queries need, and the columns of the run list, follow from a run's events alone. They are written with
//! the events that they follow from, never change, and go with their run; [`ShardWriter::mend`] writes them again, for
//! whoever has computed them from the log. The store does not know what they mean.
//!
//! # Histories
//! Each claim of a shard has a random [`Mark`] and begins an [`Era`]. What is given out with a position (a cursor, a
//! lease) carries the mark under which it was made, and [`History::contains`] says whether this store wrote it. A copy
//! of a store, or an earlier state that was restored, shares the past and not the future.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use bytes::Bytes;

pub use crate::blob::{BlobHash, NotAHash};
use crate::derived;
pub use crate::derived::{Derived, DerivedRow, MAX_DERIVED_KEY, Mended, Place};
pub use crate::history::{Era, History, Mark, Unmarked};
pub use crate::quarantine::{Quarantine, QuarantineReason};
use crate::remembered;
pub use crate::remembered::{
    FoundEntry, MAX_MEMORY_NAME, MEMORY_MODES, MEMORY_TYPES, MemoryChange, MemoryEntry, MemoryOf,
    MemoryOrder, MemoryPage, MemoryRow, MemorySearch, Recall, entry_id, settled,
};
pub use crate::removals::Removals;

/// The UUIDv7 of a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct RunId(pub uuid::Uuid);

impl RunId {
    pub const MIN: Self = Self(uuid::Uuid::nil());
    pub const MAX: Self = Self(uuid::Uuid::max());
}

impl fmt::Display for RunId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(formatter)
    }
}

impl fmt::Debug for RunId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(formatter)
    }
}

impl std::str::FromStr for RunId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        uuid::Uuid::try_parse(text).map(Self)
    }
}

/// A fixed part of all runs, owned by one daemon at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct ShardId(pub u32);

/// The number of a claim of a shard, which grows with each claim. Appends of an older epoch are refused.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub struct Epoch(pub u64);

/// The place of an append in its shard, from 1, growing in commit order.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize, serde::Deserialize,
)]
pub struct Position(pub u64);

/// A time in Unix milliseconds.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize, serde::Deserialize,
)]
pub struct Millis(pub i64);

/// Events of one run that become durable together.
#[derive(Clone, Debug)]
pub struct Append {
    pub run: RunId,
    /// The sequence number of the first event. The first one of a run's own requires [`Append::create`]: that is number 1,
    /// or the next one after its [past](Create::past).
    pub first_seq: u64,
    /// The number of events, at least 1.
    pub count: u32,
    /// The events, each preceded by its length as a varint.
    pub events: Bytes,
    pub create: Option<Create>,
    /// The columns of the read model after these events; `None` leaves them unchanged. A run that is created without a
    /// summary has the status and the counts 0, and its creation counts as its last update.
    pub summary: Option<Summary>,
    /// When the run next has to be looked at, if nothing of it is in work after these events; `None` if something is, or
    /// if it has finished.
    pub rest: Option<Rest>,
    /// The rows that follow from these events, by their events' numbers and then by their own.
    pub derived: Vec<Derived>,
    /// What these events change in memory, by their events' numbers and then by their own.
    pub memory: Vec<MemoryRow>,
    /// The hashes of blobs that these events name for the first time.
    pub blobs: Vec<BlobHash>,
    /// True when the append is joined with the next append of the same commit, which is for another stream. If one of
    /// them is refused, both are, with the same outcome.
    pub joined: bool,
    /// A change of a key whose run is another shard's. Such an append has no events and nothing else.
    pub key: Option<KeyChange>,
}

/// A change of what a shard knows of a key whose run is another shard's, and that this shard's runs do not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyChange {
    /// From now on the key names the append's run, until it is released: no retention removes it. Where it names a run
    /// already, also where that is this one, the outcome is [`AppendOutcome::KeyTaken`].
    Register(IdempotencyKey),
    /// The key names the append's run no longer, if it did.
    Release(Bytes),
}

/// The run that a key names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRow {
    pub run: RunId,
    /// As in [`IdempotencyKey::request`].
    pub request: [u8; 32],
}

/// The name of a claim, in errors.
pub(crate) const CLAIM: &str = "claim the shard";

/// The time at which a run that nobody works on next has to be looked at. It need not be in memory until then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Rest {
    /// By the wall clock; `None` if only an input can make it go on.
    pub due_at: Option<Millis>,
    /// The same in milliseconds from the append: whatever the wall clock says at a claim, it is never due later than that
    /// after the claim.
    pub due_in: i64,
}

impl Rest {
    /// The rest of a run that only an input can make go on.
    pub const ON_INPUT: Self = Self { due_at: None, due_in: i64::MAX };
}

/// An unfinished run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfinished {
    pub run: RunId,
    pub rest: Option<Rest>,
}

/// Splits appends into groups that are accepted or refused together.
pub(crate) fn groups(appends: &[Append]) -> impl Iterator<Item = &[Append]> {
    appends.split_inclusive(|append| !append.joined)
}

impl Append {
    /// A change of a key, which names `run` or did.
    #[must_use]
    pub fn of_key(run: RunId, change: KeyChange) -> Self {
        Self {
            run,
            first_seq: 0,
            count: 0,
            events: Bytes::new(),
            create: None,
            summary: None,
            rest: None,
            derived: Vec::new(),
            memory: Vec::new(),
            blobs: Vec::new(),
            joined: false,
            key: Some(change),
        }
    }

    /// The sequence number of the last event.
    pub fn last_seq(&self) -> u64 {
        self.first_seq.saturating_add(u64::from(self.count)).saturating_sub(1)
    }

    /// Returns whether the append contains an event, its numbers fit into 63 bits, it creates the run exactly if it
    /// begins the run, and its derived rows and its changes of memory are of its own events, in order and each once; or whether it changes a key and
    /// has nothing else. Any other append gets [`AppendOutcome::Conflict`].
    pub fn is_well_formed(&self) -> bool {
        if self.key.is_some() {
            let has_events = self.count > 0 || self.first_seq > 0 || !self.events.is_empty();
            let has_rows = self.create.is_some() || self.summary.is_some() || self.rest.is_some();
            let names = !self.derived.is_empty() || !self.memory.is_empty() || !self.blobs.is_empty();
            return !(has_events || has_rows || names || self.joined);
        }
        self.count >= 1
            && self.first_seq >= 1
            && self.last_seq() < i64::MAX as u64
            && self.create.as_ref().map_or(self.first_seq > 1, |create| self.first_seq == create.first_seq())
            && self.create.as_ref().and_then(|create| create.past).is_none_or(|past| past.of != self.run)
            && derived::are_well_formed(&self.derived, self.first_seq, self.last_seq())
            && remembered::are_well_formed(&self.memory, self.first_seq, self.last_seq())
    }
}

/// The facts that are fixed when a run is created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Create {
    /// The contract's `RunKind`.
    pub kind: i32,
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub created_at: Millis,
    pub key: Option<IdempotencyKey>,
    /// What the run has of another one's log, before its own first event.
    pub past: Option<Past>,
}

/// The log of a run up to one of its events, which another run begins with. The store copies its rows when it creates that
/// run, as [inherited](LogRow::inherited) ones, and the run names the blobs that the other one names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Past {
    /// Another run of the same shard.
    pub of: RunId,
    /// The event, with which a row ends. All rows up to it must be whole.
    pub seq: u64,
}

impl Create {
    /// The number of the first event that is the run's own.
    #[must_use]
    pub fn first_seq(&self) -> u64 {
        self.past.map_or(0, |past| past.seq).saturating_add(1)
    }
}

/// A claim on a client's idempotency key. In a shard, a key names one run at most.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct IdempotencyKey {
    #[serde(with = "octets")]
    pub key: Bytes,
    /// The BLAKE3 hash of the canonical request.
    pub request: [u8; 32],
}

/// Bytes, within other encodings.
mod octets {
    use bytes::Bytes;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
        bytes.as_ref().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        Vec::<u8>::deserialize(deserializer).map(Bytes::from)
    }
}

/// The changing columns of the run list.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Summary {
    /// The contract's `RunStatus`.
    pub status: i32,
    /// The contract's `RunOutcome`; 0 while there is none.
    pub outcome: i32,
    pub updated_at: Millis,
    pub finished_at: Option<Millis>,
    pub tasks_total: u32,
    pub tasks_settled: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum AppendOutcome {
    /// The position of the row; of a change of a key, which has no row, that of the newest row before it.
    Committed(Position),
    /// The run's log does not end at `first_seq - 1`, the run to be created exists, or the append is not well formed.
    Conflict,
    /// The past of the run to be created is not there: the other run was removed, has no row that ends with that event, or is
    /// damaged before it.
    PastGone,
    /// The idempotency key belongs to a run, which retention may have removed since, and nothing was written. This
    /// outcome takes precedence over those before, so that a repeated creation finds the run of its key.
    KeyTaken { run: RunId, same_request: bool },
    /// Another epoch owns the shard. All appends of the same commit have this outcome.
    Fenced,
}

/// A failure beneath an adapter. After a failed commit, the outcome is unknown.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Input or output failed: disk full, read-only folder, broken disk.
    #[error("the store could not {operation}")]
    Io {
        operation: &'static str,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The file is not a database, or is damaged.
    #[error("the database is damaged: {detail}")]
    Corrupt { detail: String },
    /// The database was written by a newer version.
    #[error("the database has format {found}, this version reads up to {supported}")]
    TooNew { found: u32, supported: u32 },
    /// The store was closed, or a fault was injected.
    #[error("the store is closed")]
    Closed,
}

/// Rows of a run's log from its first one on, without their events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The first and the last event of the last one of these rows.
    pub first: u64,
    pub last: u64,
    /// Bytes of the events of all of them.
    pub bytes: u64,
}

/// One row of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRow {
    /// The row's position; 0 for events of a run that are missing from the log, which [`Store::read_run`] notices.
    pub position: Position,
    pub run: RunId,
    pub first_seq: u64,
    pub count: u32,
    /// The events, as they were appended; `None` where the bytes, or the other columns of the row, are not those that
    /// were written. The other columns are then what the store has now: they are a hint for people, and nothing may be
    /// computed from them.
    pub events: Option<Bytes>,
    /// It is a copy of a row of another run, which this one began with; see [`Past`]. The events were readers' before, under
    /// that run.
    pub inherited: bool,
}

/// One row of the run list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRow {
    pub run: RunId,
    pub kind: i32,
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub created_at: Millis,
    pub summary: Summary,
    pub last_seq: u64,
    /// The reason why the run is not to be worked on; `None` for a run like any other.
    pub quarantine: Option<Quarantine>,
}

/// The conditions of a listing; all that are set must match.
#[derive(Clone, Debug, Default)]
pub struct RunQuery {
    pub labels: BTreeMap<String, String>,
    pub status: Option<i32>,
    pub outcome: Option<i32>,
    pub kind: Option<i32>,
    /// The kind to leave out.
    pub except_kind: Option<i32>,
    /// Only runs that have no end.
    pub unfinished: bool,
    pub name: Option<NamePattern>,
    /// Only runs that were created then or later.
    pub since: Option<Millis>,
    /// Only runs that were created before then.
    pub until: Option<Millis>,
    /// The exclusive upper bound: only older runs are listed (a listing is newest first).
    pub before: Option<RunId>,
    /// The inclusive lower bound: what is older is not looked at.
    pub from: Option<RunId>,
    pub limit: u32,
}

impl RunQuery {
    /// Returns whether the row fulfils the conditions other than the bounds.
    #[must_use]
    pub fn matches(&self, row: &RunRow) -> bool {
        self.labels.iter().all(|(key, value)| row.labels.get(key) == Some(value))
            && self.status.is_none_or(|status| status == row.summary.status)
            && self.outcome.is_none_or(|outcome| outcome == row.summary.outcome)
            && self.kind.is_none_or(|kind| kind == row.kind)
            && self.except_kind != Some(row.kind)
            && (!self.unfinished || row.summary.finished_at.is_none())
            && self.since.is_none_or(|since| since <= row.created_at)
            && self.until.is_none_or(|until| row.created_at < until)
            && self.name.as_ref().is_none_or(|name| name.matches(&row.name))
    }
}

/// What the name of a run is to be like, case ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamePattern(Vec<char>);

impl NamePattern {
    /// A part of the name; or the whole of it, where the text has `*` for any characters, or `?` for one.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let lowered = text.to_lowercase();
        let is_whole = text.contains(['*', '?']);
        Self(if is_whole { lowered } else { format!("*{lowered}*") }.chars().collect())
    }

    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        let name: Vec<char> = name.to_lowercase().chars().collect();
        let (mut at, mut of) = (0, 0);
        // The last `*`, and the end of what it stands for so far. Another try makes that longer; earlier ones need none.
        let mut star = None;
        while let Some(character) = name.get(at) {
            match (self.0.get(of), star) {
                (Some('*'), _) => {
                    of += 1;
                    star = Some((of, at));
                }
                (Some(wanted), _) if *wanted == '?' || wanted == character => (at, of) = (at + 1, of + 1),
                (_, Some((after, end))) => {
                    star = Some((after, end + 1));
                    (at, of) = (end + 1, after);
                }
                (_, None) => return false,
            }
        }
        self.0.iter().skip(of).all(|rest| *rest == '*')
    }
}

/// A cached fold of a run's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The number of the last event that the state includes.
    pub seq: u64,
    /// The version of the state's encoding. A reader ignores a snapshot of another version.
    pub format: u32,
    pub state: Bytes,
}

/// An agent that is or was known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentRow {
    pub name: String,
    /// The contract's `Agent`, encoded.
    pub agent: Bytes,
    pub last_seen: Millis,
}

/// What one sweep of retention removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Swept {
    pub runs: u64,
    pub keys: u64,
    pub blobs: u64,
    /// The bytes of events and blobs that are gone.
    pub bytes: u64,
    /// Removed runs of which rows are left that could not be read, and runs that stay although they are due, because something
    /// that belongs to them could not be. A later sweep tries them again.
    pub unreadable: u64,
    /// Finished runs are left that the sweep did not come to, or rows of a run that it has removed. Or it has met rows or runs
    /// that cannot be read, and has removed nothing: the next one passes over them.
    pub more: bool,
    /// Where it ended then: a sweep [after](Retention::after) this run goes on there.
    pub next: Option<(Millis, RunId)>,
}

/// What became of a run that somebody wants removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Removal {
    /// Nobody reads anything of it any more. The bytes of its events that are gone already.
    Removed { bytes: u64 },
    /// There is no such run.
    Missing,
    /// It has not finished, and is not in quarantine.
    Unfinished,
    /// An unfinished run needs it.
    Held,
}

/// The bytes that removing a row costs, beside those of its events; see [`Retention::batch_bytes`].
pub const ROW_COST: u64 = 512;

/// The bytes after which [`ShardWriter::remove`] leaves the rows of a run to the next sweeps, counted as those of a sweep are.
pub const REMOVED_AT_ONCE: u64 = 4 * 1024 * 1024;

/// Which finished runs go.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Retention {
    /// Streams that stay, however old they are: somebody works with them.
    pub keep: BTreeSet<RunId>,
    /// A kind of derived rows whose keys are ids of runs: a run with such a row stays while the run that it names is
    /// unfinished, however old it is, and however large the log.
    pub held_by: Option<u16>,
    /// Runs that finished before this go.
    pub finished_before: Option<Millis>,
    /// While the events of the shard have more bytes than this, the runs that finished first are removed.
    pub max_log_bytes: Option<u64>,
    /// Only runs that finished after this one are looked at: the time at which it finished, and its id.
    pub after: Option<(Millis, RunId)>,
    /// The maximum number of finished runs that one sweep looks at, those that stay among them.
    pub looked_at: u32,
    /// Keys of runs that finished before this time are removed, even if the run is still kept.
    pub keys_before: Millis,
    /// Blobs that no run names and that were put before this time are removed.
    pub blobs_before: Millis,
    /// The maximum number of runs, of keys, of blobs and of eras in one sweep, so that the writer is never blocked for long.
    pub batch: u32,
    /// The bytes after which a sweep removes no further row of a run, and no further blob. Each row of a run counts as
    /// [`ROW_COST`] bytes more than its events have. Each sweep removes at least one that is due.
    pub batch_bytes: u64,
}

/// The store: it opens writers and serves reads. A store is cheap to clone and safe to use from many threads.
///
/// All methods block on I/O. They are called from threads that may block.
pub trait Store: Send + Sync + 'static {
    /// Claims the shard: returns its writer under a new, greater epoch. From then on, older writers are fenced.
    ///
    /// The claim begins an [`Era`] at the first position that may be written under it, which replaces an era under which
    /// nothing was written. The caller draws the mark at random: the store draws nothing.
    ///
    /// # Errors
    /// Also for the mark 0, and for the mark of an era of this shard that has positions. Nothing is claimed then.
    fn claim(&self, shard: ShardId, mark: Mark) -> Result<Box<dyn ShardWriter>, StoreError>;

    /// Returns the eras of the shard that retention has not forgotten.
    fn history(&self, shard: ShardId) -> Result<History, StoreError>;

    /// Commits appends of several shards at once. Every shard has an outcome of its own, as from its
    /// [`ShardWriter::commit`]: one that is fenced, or whose outcome is unknown, leaves the others unaffected.
    fn commit(&self, batches: &mut [ShardBatch<'_>]) -> Vec<Result<Vec<AppendOutcome>, StoreError>> {
        batches.iter_mut().map(|batch| batch.writer.commit(batch.appends)).collect()
    }

    /// Reads rows after `after`, in order, at most `max_rows` and, after the first row, `max_bytes` of events.
    fn read_log(
        &self,
        shard: ShardId,
        after: Position,
        max_rows: usize,
        max_bytes: usize,
    ) -> Result<Vec<LogRow>, StoreError>;

    /// Reads a run's rows that contain events after `after_seq`, in order, with the limits of [`Store::read_log`].
    ///
    /// Events that the run has, by its row in the run list, but that no row of the log contains, are one row without
    /// events at position 0.
    fn read_run(
        &self,
        run: RunId,
        after_seq: u64,
        max_rows: usize,
        max_bytes: usize,
    ) -> Result<Vec<LogRow>, StoreError>;

    /// What the rows of a run's log are up to the one with event `seq`; `None` where no row has it. Nothing is read of their
    /// events, so that damage to them is not found.
    fn extent(&self, run: RunId, seq: u64) -> Result<Option<Extent>, StoreError>;

    /// Returns the newest position of the shard, the size of its log, and what retention has removed of it.
    fn bounds(&self, shard: ShardId) -> Result<Bounds, StoreError>;

    /// Returns what the shard's writers have [put down](ShardWriter::put_readings) last; `None` if they have put down
    /// nothing.
    fn readings(&self, shard: ShardId) -> Result<Option<Bytes>, StoreError>;

    fn get_run(&self, run: RunId) -> Result<Option<RunRow>, StoreError>;

    /// Lists runs, newest first.
    fn list_runs(&self, query: &RunQuery) -> Result<Vec<RunRow>, StoreError>;

    /// Returns the last of the first `runs` runs that [`Self::list_runs`] looks at, whether they match or not, as the lower
    /// bound of a listing that is not to look at more; `None` if there are fewer.
    fn listing_floor(&self, query: &RunQuery, runs: u32) -> Result<Option<RunId>, StoreError>;

    /// Lists at most `limit` unfinished runs of a shard with ids greater than `after`, by id.
    fn unfinished(
        &self,
        shard: ShardId,
        after: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<Unfinished>, StoreError>;

    /// The run's snapshot; `None` also where the snapshot is damaged, because it is a cache.
    fn snapshot(&self, run: RunId) -> Result<Option<Snapshot>, StoreError>;

    /// Lists at most `limit` quarantined runs of a shard with ids greater than `after`, by id.
    fn quarantined(
        &self,
        shard: ShardId,
        after: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<(RunId, Quarantine)>, StoreError>;

    /// Lists at most `limit` derived rows of a kind with exactly this key after `after`, by run, event and number.
    fn derived(
        &self,
        kind: u16,
        key: &[u8],
        after: Option<(RunId, Place)>,
        limit: usize,
    ) -> Result<Vec<DerivedRow>, StoreError>;

    /// The run that the key names in this shard.
    fn key(&self, shard: ShardId, key: &[u8]) -> Result<Option<KeyRow>, StoreError>;

    /// Lists at most `limit` keys of the shard after `after`, in the order of their bytes, with the runs that they name.
    fn keys(
        &self,
        shard: ShardId,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Bytes, RunId)>, StoreError>;

    /// Returns the greatest id among the runs of the shard whose keys retention has removed; `None` if it has removed
    /// none. A run with a greater id has its key, if it ever had one.
    fn keys_removed(&self, shard: ShardId) -> Result<Option<RunId>, StoreError>;

    /// Lists at most `limit` derived rows of a run after `after`, by event and number.
    fn derived_of(&self, run: RunId, after: Option<Place>, limit: usize) -> Result<Vec<Derived>, StoreError>;

    /// The entries of memory that are wanted, in their order.
    fn recall(&self, wanted: &Recall<'_>) -> Result<Vec<FoundEntry>, StoreError>;

    /// Lists entries of memory, newest first; of one moment the one with the greatest id first.
    fn memories(&self, search: &MemorySearch) -> Result<MemoryPage, StoreError>;

    fn memory_entry(&self, id: &str) -> Result<Option<FoundEntry>, StoreError>;

    /// Whether a person wants the entry of this id forgotten.
    fn is_forgotten(&self, id: &str) -> Result<bool, StoreError>;

    /// All that a run, or a session, has changed in memory and that is there.
    fn memory_of(&self, run: RunId) -> Result<MemoryOf, StoreError>;

    /// Lists at most `limit` ids greater than `after`, in order, that have derived rows, or rows in memory, and no row in
    /// the run list.
    fn strays(&self, after: Option<RunId>, limit: usize) -> Result<Vec<RunId>, StoreError>;

    fn agents(&self) -> Result<Vec<AgentRow>, StoreError>;

    /// Stores content durably. Storing it again only renews its age.
    fn put_blob(&self, content: &[u8], now: Millis) -> Result<BlobHash, StoreError>;

    /// Reads at most `length` bytes from `offset`; `None` if the blob does not exist, or was read as a whole and is damaged.
    fn read_blob(&self, blob: BlobHash, offset: u64, length: usize) -> Result<Option<Bytes>, StoreError>;

    /// Renews the ages of the blobs that exist, so that no sweep takes them as old ones before somebody names them.
    /// Returns those that do not exist.
    fn renew_blobs(&self, blobs: &[BlobHash], now: Millis) -> Result<Vec<BlobHash>, StoreError>;

    /// The blob's size in bytes; `None` if the blob does not exist.
    fn blob_size(&self, blob: BlobHash) -> Result<Option<u64>, StoreError>;
}

/// The appends of one shard in a commit for several.
#[expect(missing_debug_implementations, reason = "a writer has none")]
pub struct ShardBatch<'a> {
    pub writer: &'a mut dyn ShardWriter,
    pub appends: &'a [Append],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Bounds {
    /// The position of the newest row; 0 if there was never one.
    pub newest: Position,
    /// The highest position that retention removed; 0 if it removed none. Whoever goes on at or above this position misses
    /// nothing, and below it nothing that was kept: rows of runs that are still there lie on both sides of it.
    pub removed: Position,
    /// What retention has removed. Whoever goes on below `removed` misses nothing either, if this has not changed since
    /// it began.
    pub removals: Removals,
    /// The bytes of all events of the log.
    pub bytes: u64,
}

/// The only writer of a shard under one epoch.
///
/// After an error, but for those of [`ShardWriter::put_snapshot`] and for damage that [`ShardWriter::sweep`] or
/// [`ShardWriter::remove`] has met, every method returns [`StoreError::Closed`] and writes nothing. The same holds once another
/// epoch owns the shard, except that [`ShardWriter::commit`] then returns [`AppendOutcome::Fenced`].
pub trait ShardWriter: Send {
    fn epoch(&self) -> Epoch;

    /// Whether an error was such that nothing is written any more. A writer that another epoch has fenced has not failed.
    fn has_failed(&self) -> bool;

    /// Commits all of `appends` in one durable transaction, and returns their outcomes in the same order.
    ///
    /// # Errors
    /// The outcome is unknown, and this writer must not be used again.
    fn commit(&mut self, appends: &[Append]) -> Result<Vec<AppendOutcome>, StoreError>;

    /// Writes a snapshot, which replaces the run's earlier one. A snapshot is a cache and not necessarily durable at
    /// once. The snapshot of a run that is not in the store is dropped.
    ///
    /// # Errors
    /// The snapshot is not there, and the run's earlier one may be. The writer can be used as before: nobody rests on a
    /// cache.
    fn put_snapshot(&mut self, run: RunId, snapshot: &Snapshot) -> Result<(), StoreError>;

    /// Puts down durably that the run is not to be worked on, and why; an earlier reason is replaced. That of a run that
    /// is not in the store is dropped. The store itself treats the run like any other: its log can be read, appended to
    /// and removed.
    fn quarantine(&mut self, run: RunId, quarantine: &Quarantine) -> Result<(), StoreError>;

    /// Takes the quarantine back durably, and returns whether there was one.
    fn release(&mut self, run: RunId) -> Result<bool, StoreError>;

    /// Puts down what the caller has read of its clocks, in place of what was put down before. It is durable with the next
    /// commit, if not before, and the store does not know what it means.
    fn put_readings(&mut self, readings: &[u8]) -> Result<(), StoreError>;

    /// Writes what follows from the logs of runs in place of what is there, in one durable transaction. The logs stay as
    /// they are. Of a run that is not in the store, all derived rows are removed, and nothing is written.
    fn mend(&mut self, mended: &[Mended]) -> Result<(), StoreError>;

    /// Stores agents; an agent with the same name is replaced.
    fn put_agents(&mut self, agents: &[AgentRow]) -> Result<(), StoreError>;

    /// Removes the agents of these names, and returns how many of them existed.
    fn forget_agents(&mut self, names: &[String]) -> Result<usize, StoreError>;

    /// Removes whole finished runs, keys and blobs, a limited number at a time, starting with those that finished (or
    /// were put) first. A run's events, derived rows, snapshot, labels, quarantine and claims on blobs are removed with it; its key
    /// stays until [`Retention::keys_before`]. A key that was [registered](KeyChange::Register) stays until it is released.
    ///
    /// Nobody can read anything of a removed run, also where not all of its rows have room in the sweep. Those that are left are
    /// what the next sweeps begin with, of whatever writer. Those that cannot be read [stay](Swept::unreadable) for now, as do
    /// whole runs of which something else cannot be, and everything else goes on. A run is in conflict with those of an earlier
    /// one of its id that its append comes to.
    ///
    /// Eras are forgotten that have no row left and end before [`Bounds::removed`]: of a cursor into them nobody can say any
    /// more whether it is of this history.
    /// Each sweep after which no row of a removed run is left looks at [`Retention::batch`] eras, where the one before it ended.
    /// Where finished runs are left, it says after which one the next sweep [goes on](Swept::next), so that those that stay are
    /// looked at once, and not by each sweep.
    ///
    /// # Errors
    /// Runs could not be removed. Keys, eras and blobs that could not be are left to the next sweep, without an error.
    fn sweep(&mut self, retention: &Retention) -> Result<Swept, StoreError>;

    /// Removes a whole run that has finished or is in quarantine, as a sweep does, unless it has a derived row of the kind
    /// `held_by` whose key is the id of an unfinished run. Its key stays; that of a run that has not finished counts from
    /// `at`. Rows beyond [`REMOVED_AT_ONCE`] are what the next sweeps begin with.
    fn remove(&mut self, run: RunId, held_by: Option<u16>, at: Millis) -> Result<Removal, StoreError>;
}
