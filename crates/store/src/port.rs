//! The port that every adapter implements. One conformance suite runs over all of them.
//!
//! # Order and atomicity
//! An [`Append`] is atomic. A shard's writer calls [`ShardWriter::commit`] with all the appends that wait: they share
//! one durable transaction (group commit), are checked one after the other in the order given, and an append that is
//! refused leaves the others untouched, but for those that it is [joined](Append::joined) with. When `commit` returns, every append that it answered with
//! [`AppendOutcome::Committed`] is durable. Positions grow in commit order: a reader that has seen position `p` never
//! later finds a new row at or below `p`.
//!
//! # Unknown outcomes
//! `commit` that fails with [`StoreError`] is *unknown*: the transaction may or may not be durable. The caller never
//! repeats it; it reopens the writer under a new epoch and reads the truth from the log.

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;

/// UUIDv7 of a run.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(pub u32);

/// Grows with each claim of a shard; appends of an older epoch are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epoch(pub u64);

/// Where an append lies in its shard; from 1, growing in commit order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position(pub u64);

/// Unix milliseconds.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize, serde::Deserialize,
)]
pub struct Millis(pub i64);

/// Events that become durable together, for one run.
#[derive(Clone, Debug)]
pub struct Append {
    pub run: RunId,
    /// Sequence number of the first event; 1 creates the run and needs [`Append::create`].
    pub first_seq: u64,
    /// Number of events; at least 1.
    pub count: u32,
    /// The events, each with a varint length before it.
    pub events: Bytes,
    pub create: Option<Create>,
    /// The columns of the read model after these events; `None` leaves them. A run created without has the status and
    /// counts 0 and was updated when it was created.
    pub summary: Option<Summary>,
    /// Hashes of blobs that these events name for the first time.
    pub blobs: Vec<BlobHash>,
    /// It stands or falls with the next append of the same commit, which is for another stream: where one of them is
    /// refused, both are, with the same outcome.
    pub joined: bool,
}

/// Splits appends into the groups that stand or fall together.
pub(crate) fn groups(appends: &[Append]) -> impl Iterator<Item = &[Append]> {
    appends.split_inclusive(|append| !append.joined)
}

impl Append {
    /// Sequence number of the last event.
    pub fn last_seq(&self) -> u64 {
        self.first_seq.saturating_add(u64::from(self.count)).saturating_sub(1)
    }

    /// Whether it holds an event, its numbers fit into 63 bits, and it creates the run exactly where it begins it.
    /// Anything else is answered with [`AppendOutcome::Conflict`].
    pub fn is_well_formed(&self) -> bool {
        self.count >= 1
            && self.first_seq >= 1
            && self.last_seq() < i64::MAX as u64
            && self.create.is_some() == (self.first_seq == 1)
    }
}

/// What is fixed when a run is created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Create {
    /// `RunKind` of the contract.
    pub kind: i32,
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub created_at: Millis,
    pub key: Option<IdempotencyKey>,
}

/// A claim on a client's key: at most one run has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotencyKey {
    pub key: Bytes,
    /// BLAKE3 of the canonical request.
    pub request: [u8; 32],
}

/// The changing columns of the run list.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Summary {
    /// `RunStatus` of the contract.
    pub status: i32,
    /// `RunOutcome` of the contract; 0 while there is none.
    pub outcome: i32,
    pub updated_at: Millis,
    pub finished_at: Option<Millis>,
    pub tasks_total: u32,
    pub tasks_settled: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppendOutcome {
    Committed(Position),
    /// The run's log does not end at `first_seq - 1`, the run to be created is there, or the append is not well formed.
    Conflict,
    /// The idempotency key belongs to a run, which retention may have removed since; nothing was written. It precedes
    /// [`AppendOutcome::Conflict`]: a repeated creation finds the run of its key.
    KeyTaken {
        run: RunId,
        same_request: bool,
    },
    /// Another epoch owns the shard. Every append of the same commit has this outcome.
    Fenced,
}

/// What went wrong beneath an adapter. After a failed commit the outcome is unknown.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Input or output failed: disk full, read-only folder, broken disk.
    #[error("the store could not {operation}")]
    Io {
        operation: &'static str,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The file is no database, or damaged.
    #[error("the database is damaged: {detail}")]
    Corrupt { detail: String },
    /// Written by a newer version.
    #[error("the database has format {found}, this version reads up to {supported}")]
    TooNew { found: u32, supported: u32 },
    /// The store does what it is told not to (fault injection), or was closed.
    #[error("the store is closed")]
    Closed,
}

/// One row of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRow {
    pub position: Position,
    pub run: RunId,
    pub first_seq: u64,
    pub count: u32,
    pub events: Bytes,
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
}

/// What a listing asks for; all that is set must match.
#[derive(Clone, Debug, Default)]
pub struct RunQuery {
    pub labels: BTreeMap<String, String>,
    pub status: Option<i32>,
    pub outcome: Option<i32>,
    pub kind: Option<i32>,
    /// Without those of this kind.
    pub except_kind: Option<i32>,
    /// Only runs older than this one (listing is newest first).
    pub before: Option<RunId>,
    pub limit: u32,
}

/// A cached fold of a run's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The state includes all events up to this one.
    pub seq: u64,
    /// Version of the state's encoding; a snapshot of another version is ignored by its reader.
    pub format: u32,
    pub state: Bytes,
}

/// An agent that was ever known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentRow {
    pub name: String,
    /// The encoded `Agent` of the contract.
    pub agent: Bytes,
    pub last_seen: Millis,
}

/// BLAKE3 of a blob's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobHash(pub [u8; 32]);

impl BlobHash {
    /// The hash of `content`.
    pub fn of(content: &[u8]) -> Self {
        Self(*blake3::hash(content).as_bytes())
    }
}

/// 64 lower-case hexadecimal digits.
impl fmt::Display for BlobHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

/// What a text is that names no blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a blob's hash has 64 hexadecimal digits")]
pub struct NotAHash;

/// 64 hexadecimal digits, in either case.
impl std::str::FromStr for BlobHash {
    type Err = NotAHash;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.as_bytes();
        let mut hash = [0; 32];
        if digits.len() != 2 * hash.len() {
            return Err(NotAHash);
        }
        let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
            let [high, low] = pair else { return Err(NotAHash) };
            let (Some(high), Some(low)) = (digit(*high), digit(*low)) else { return Err(NotAHash) };
            *byte = high * 16 + low;
        }
        Ok(Self(hash))
    }
}

/// What one sweep of retention removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Swept {
    pub runs: u64,
    pub keys: u64,
    pub blobs: u64,
    /// Of events and blobs.
    pub bytes: u64,
}

/// Which finished runs go.
#[derive(Clone, Copy, Debug)]
pub struct Retention {
    /// Runs that finished before this go.
    pub finished_before: Option<Millis>,
    /// While the events of the shard have more bytes, the runs that finished first go.
    pub max_log_bytes: Option<u64>,
    /// Keys of runs that finished before this go, whether the run is still kept or not.
    pub keys_before: Millis,
    /// Blobs that no run names and that were put before this go.
    pub blobs_before: Millis,
    /// At most so many runs, so many keys and so many blobs in one sweep, so that the writer is never held for long.
    pub batch: u32,
}

/// Opens writers and answers reads. Cheap to clone; safe to use from many threads.
///
/// All methods block on I/O and are called from threads that may block.
pub trait Store: Send + Sync + 'static {
    /// Takes the shard over: returns its writer under a new, greater epoch. Older writers are fenced from now on.
    fn claim(&self, shard: ShardId) -> Result<Box<dyn ShardWriter>, StoreError>;

    /// Rows after `after`, in order, at most `max_rows` and, beyond the first row, `max_bytes` of events.
    fn read_log(
        &self,
        shard: ShardId,
        after: Position,
        max_rows: usize,
        max_bytes: usize,
    ) -> Result<Vec<LogRow>, StoreError>;

    /// A run's rows whose events reach beyond `after_seq`, in order, bounded like [`Store::read_log`].
    fn read_run(
        &self,
        run: RunId,
        after_seq: u64,
        max_rows: usize,
        max_bytes: usize,
    ) -> Result<Vec<LogRow>, StoreError>;

    /// Newest position of the shard, and the oldest that is still kept (a cursor before `oldest - 1` has missed rows).
    fn bounds(&self, shard: ShardId) -> Result<Bounds, StoreError>;

    fn get_run(&self, run: RunId) -> Result<Option<RunRow>, StoreError>;

    /// Newest first.
    fn list_runs(&self, query: &RunQuery) -> Result<Vec<RunRow>, StoreError>;

    /// Unfinished runs of a shard after `after`, by id, at most `limit`.
    fn unfinished(
        &self,
        shard: ShardId,
        after: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<RunId>, StoreError>;

    fn snapshot(&self, run: RunId) -> Result<Option<Snapshot>, StoreError>;

    fn agents(&self) -> Result<Vec<AgentRow>, StoreError>;

    /// Stores content durably; storing it again only renews its age.
    fn put_blob(&self, content: &[u8], now: Millis) -> Result<BlobHash, StoreError>;

    /// At most `length` bytes from `offset`; `None` where there is no such blob.
    fn read_blob(&self, blob: BlobHash, offset: u64, length: usize) -> Result<Option<Bytes>, StoreError>;

    /// Size in bytes; `None` where there is no such blob.
    fn blob_size(&self, blob: BlobHash) -> Result<Option<u64>, StoreError>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Bounds {
    /// Position of the newest row; 0 where there was never one.
    pub newest: Position,
    /// Highest position that retention has removed; 0 where it has removed none. A cursor at or above it misses nothing.
    pub removed: Position,
}

/// The one writer of a shard under one epoch.
///
/// After an error, and (but for [`ShardWriter::commit`], which answers [`AppendOutcome::Fenced`]) once another epoch
/// owns the shard, every method answers [`StoreError::Closed`] and writes nothing.
pub trait ShardWriter: Send {
    fn epoch(&self) -> Epoch;

    /// One durable transaction over all of `appends`; the outcomes in their order.
    ///
    /// # Errors
    /// The outcome is unknown; this writer must not be used again.
    fn commit(&mut self, appends: &[Append]) -> Result<Vec<AppendOutcome>, StoreError>;

    /// Writes a snapshot, which replaces the run's earlier one; a cache, not necessarily durable at once. The snapshot
    /// of a run that is not in the store is dropped.
    fn put_snapshot(&mut self, run: RunId, snapshot: &Snapshot) -> Result<(), StoreError>;

    /// Remembers agents; an agent of the same name is replaced.
    fn put_agents(&mut self, agents: &[AgentRow]) -> Result<(), StoreError>;

    /// Forgets an agent; whether there was one.
    fn forget_agent(&mut self, name: &str) -> Result<bool, StoreError>;

    /// Removes whole finished runs, keys and blobs, a bounded number at a time, those that finished (or were put) first
    /// going first. A run takes its events, snapshot, labels and claims on blobs with it; its key stays until
    /// [`Retention::keys_before`].
    fn sweep(&mut self, retention: &Retention) -> Result<Swept, StoreError>;
}
