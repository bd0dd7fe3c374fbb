//! What a shard and the crew say to each other.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use capataz_contracts::v1::{self, connect_response};
use capataz_store::{RunId, ShardId};

use crate::clock::Mono;

/// The eight bits of an id that say in which shard its run, or its session, lives: the last ones. There are 256 of these
/// places, however many shards share them.
#[must_use]
pub fn place(run: RunId) -> u8 {
    let [.., place] = run.0.into_bytes();
    place
}

/// The same id in another place.
#[must_use]
pub fn placed(run: RunId, place: u8) -> RunId {
    let mut bytes = run.0.into_bytes();
    let [.., last] = &mut bytes;
    *last = place;
    RunId(uuid::Uuid::from_bytes(bytes))
}

/// The shard in which this id lives, out of all shards, so that every call that names a run finds it without a table;
/// `None` where there are no shards. Two shards share the places by turns, and so do 256.
#[must_use]
pub fn home(run: RunId, shards: &[ShardId]) -> Option<ShardId> {
    let turn = usize::from(place(run)).checked_rem(shards.len())?;
    shards.get(turn).copied()
}

/// Names a worker's stream; given by the shell, never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct ConnectionId(pub u64);

/// Names one slot of a worker from its offer to its return; never used twice by a crew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OfferId(pub u64);

/// A lease as a worker names it, parsed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lease {
    pub run: RunId,
    pub wave: u32,
    pub task: u32,
    pub token: u64,
}

impl Lease {
    /// `None` for a reference that names no run.
    #[must_use]
    pub fn parse(lease: &v1::LeaseRef) -> Option<Self> {
        let run = lease.run_id.parse().ok()?;
        Some(Self { run, wave: lease.wave, task: lease.task, token: lease.lease })
    }

    #[must_use]
    pub fn reference(&self) -> v1::LeaseRef {
        v1::LeaseRef { run_id: self.run.to_string(), wave: self.wave, task: self.task, lease: self.token }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}.{} #{}", self.run, self.wave, self.task, self.token)
    }
}

/// What a worker has declared of an agent, as far as it matters for a lease.
#[derive(Clone, Debug, Default)]
pub struct Declared {
    /// JSON Schema of the outputs.
    pub output_schema: Option<Arc<str>>,
    /// Work that was told to end cannot go on.
    pub cancel_is_final: bool,
}

/// What the crew tells a shard.
#[derive(Clone, Debug)]
pub enum ToShard {
    /// The worker is connected, and says that it still has these leases of the shard; each has the slot that it
    /// occupies. A lease of the worker that is not among them is gone. Answered with [`ToCrew::Reattached`].
    Present { connection: ConnectionId, worker: Arc<str>, held: Vec<(Lease, OfferId)>, browsers: Browsers },
    /// The worker's browser of this run has ended by itself.
    BrowserGone { worker: Arc<str>, run: RunId },
    /// The connection has ended.
    Left { connection: ConnectionId, departure: Departure },
    /// A free slot for a waiting task of this run. Answered with [`ToCrew::Taken`] or [`ToCrew::Returned`].
    Offered {
        offer: OfferId,
        connection: ConnectionId,
        worker: Arc<str>,
        agent: Arc<str>,
        declared: Declared,
        run: RunId,
    },
    /// What a worker said of a lease.
    Said { connection: ConnectionId, worker: Arc<str>, lease: Lease, said: Box<Said> },
    /// A heartbeat interval has passed for the connection, which has slots of the shard. `last_frame` is when its worker was
    /// heard last, whatever it said.
    Pulse { connection: ConnectionId, last_frame: Mono },
    /// Nothing; a later message than the last shows whether that one arrived.
    Beat,
}

/// Which browsers of the shard's runs a worker has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Browsers {
    /// It has just come, and says that it has those of these runs.
    Of(BTreeSet<RunId>),
    /// It never left, and has what it had, but for those of these runs.
    AllBut(BTreeSet<RunId>),
}

impl Browsers {
    /// Whether the worker has the run's browser, if it ever had.
    #[must_use]
    pub fn has(&self, run: RunId) -> bool {
        match self {
            Self::Of(runs) => runs.contains(&run),
            Self::AllBut(runs) => !runs.contains(&run),
        }
    }
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// The stream is over: the worker may come back with its leases.
    Gone,
    /// The worker said nothing for too long.
    Silent,
}

/// What a worker said of a lease.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "one for each frame, moved a few times")]
pub enum Said {
    Acknowledged,
    Progress(v1::Progress),
    Completed(v1::Completed),
    Failed(v1::Failed),
    Cancelled(v1::Cancelled),
    /// The worker hands the task back, undone.
    Returned,
}

/// How a worker did not take what it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spurned {
    /// It has handed the task back.
    HandedBack,
    /// It has not said in time that it has the task.
    Unacknowledged,
}

/// What a shard tells the crew.
#[expect(
    clippy::large_enum_variant,
    reason = "one for each frame, moved twice; a box would be an allocation for each"
)]
#[derive(Clone, Debug)]
pub enum ToCrew {
    /// The first message of a session: the shard is at work, and knows of no connection and no offer.
    Opened,
    /// The first message of a session: the shard is read again, and takes nothing meanwhile.
    Closed,
    /// So many tasks of the run wait for the agent, those aside for which a slot was taken; with `only`, for a slot of
    /// that worker and no other.
    Wanted { agent: Arc<str>, run: RunId, tasks: u32, only: Option<Arc<str>> },
    /// The slot is used; so many tasks of its run still wait for the agent.
    Taken { offer: OfferId, tasks: u32 },
    /// The slot's worker has not taken what it was given: a later slot is better another worker's.
    Spurned { offer: OfferId, how: Spurned },
    /// A worker has failed at a task of the agent, and says that the agent takes nothing for so long. Milliseconds.
    Limited { agent: Arc<str>, for_ms: i64 },
    /// The slot is free again. What had occupied it is over, durably.
    Returned { offer: OfferId },
    /// Which of the leases of [`ToShard::Present`] go on, with their agents. The slots of the others are free.
    Reattached { connection: ConnectionId, leases: Vec<(Lease, OfferId, Arc<str>)> },
    /// A frame for a worker.
    Tell { connection: ConnectionId, frame: connect_response::Frame },
    /// Nothing; see [`ToShard::Beat`].
    Beat,
}
