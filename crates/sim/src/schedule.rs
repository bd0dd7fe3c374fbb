//! What is going to happen, in the order of virtual time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use capataz_contracts::v1::{connect_request::Frame as Said, connect_response::Frame as Told};
use capataz_crew::ConnectionId;
use capataz_engine::session::SessionState;
use capataz_engine::{QueryId, RunState};
use capataz_shard::driver::Carried;
use capataz_shard::{Damage, Found, FoundRun, KeyFact, KeyQuery, Touched};
use capataz_store::{RunId, ShardId};

use crate::client::Verdict;
use crate::worker::Job;

/// One thing that happens. What belongs to a process that is dead by then does not happen.
#[derive(Debug)]
pub enum Action {
    /// The core's timer.
    Wake,
    /// The shards' thread sends what its turns have put out.
    CarryOut,
    /// The writer's thread takes what waits for it.
    Write,
    /// The writer's oldest news reaches the shards' thread.
    Written,
    /// The writer's thread claims a shard.
    Reopened {
        shard: ShardId,
        touched: Option<Touched>,
    },
    /// A message between a shard and the crew arrives.
    Carried(Box<Carried>),
    /// Somebody beside the shards' thread reads a session that the core has asked for.
    ReadSession {
        stream: RunId,
        load: u64,
    },
    /// What was read reaches the shards' thread.
    ReadRun {
        run: RunId,
        load: u64,
    },
    RunRead {
        run: RunId,
        load: u64,
        state: Result<Option<Box<RunState>>, Damage>,
    },
    /// Somebody beside the shards' thread looks for a run.
    FindRun {
        run: RunId,
        number: u64,
    },
    RunFound {
        run: RunId,
        number: u64,
        found: Box<FoundRun>,
    },
    /// Somebody beside the shards' thread reads keys.
    FindKeys {
        shard: ShardId,
        number: u64,
        query: KeyQuery,
    },
    KeysFound {
        shard: ShardId,
        number: u64,
        fact: KeyFact,
    },
    SessionRead {
        stream: RunId,
        load: u64,
        state: Option<Box<SessionState>>,
    },
    /// The answer to a query reaches the shards' thread.
    Answer {
        run: RunId,
        query: QueryId,
        answer: Box<Found>,
    },
    /// A verdict reaches the shards' thread.
    Judged {
        run: RunId,
        query: QueryId,
        verdict: Box<capataz_engine::Verdict>,
    },
    /// What a phase wants to know reaches the shards' thread.
    Computed {
        run: RunId,
        query: QueryId,
        computed: Box<capataz_engine::Computed>,
    },
    /// A new daemon starts.
    Boot,
    /// A worker's frame reaches the daemon.
    Up {
        link: ConnectionId,
        index: u64,
        frame: Box<Said>,
    },
    /// The daemon's frame reaches a worker.
    Down {
        link: ConnectionId,
        index: u64,
        frame: Box<Told>,
    },
    /// The daemon sees the end of a worker's stream.
    UpEnd {
        link: ConnectionId,
    },
    /// A worker sees the end of its stream.
    DownEnd {
        link: ConnectionId,
    },
    Work {
        worker: usize,
        job: Job,
    },
    /// A client's request reaches the daemon.
    Ask {
        op: usize,
    },
    /// A client hears what became of its request, or that nobody knows.
    Heard {
        op: usize,
        verdict: Verdict,
    },
    /// A client that waits does not wait any longer.
    GiveUp {
        op: usize,
    },
    /// Clients want something new.
    Act,
    /// People look after runs that wait for them.
    Operate,
    /// The clock of the daemon's machine is set.
    SetClock,
    /// The configuration of the daemon is changed, and read again.
    Configure,
    /// The daemon's process stands still for a while.
    Stall,
    /// A subscriber reads on. Stale where its stream has another number by now.
    Read {
        reader: usize,
        stream: u64,
    },
}

impl Action {
    /// Whether the daemon's process does it, or hears of it.
    #[must_use]
    pub fn is_daemons(&self) -> bool {
        matches!(
            self,
            Self::Wake
                | Self::CarryOut
                | Self::Write
                | Self::Written
                | Self::Reopened { .. }
                | Self::Carried(_)
                | Self::ReadSession { .. }
                | Self::SessionRead { .. }
                | Self::ReadRun { .. }
                | Self::RunRead { .. }
                | Self::FindRun { .. }
                | Self::RunFound { .. }
                | Self::FindKeys { .. }
                | Self::KeysFound { .. }
                | Self::Answer { .. }
                | Self::Judged { .. }
                | Self::Computed { .. }
                | Self::Up { .. }
                | Self::UpEnd { .. }
                | Self::Ask { .. }
                | Self::GiveUp { .. }
                | Self::Read { .. }
        )
    }
}

#[derive(Debug)]
pub struct Scheduled {
    pub at: i64,
    order: u64,
    /// The process during whose life this was scheduled.
    pub generation: u64,
    pub action: Action,
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}

impl Eq for Scheduled {}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

/// Everything that is going to happen; what is due at the same time happens in the order of scheduling.
#[derive(Debug, Default)]
pub struct Schedule {
    heap: BinaryHeap<Reverse<Scheduled>>,
    order: u64,
}

impl Schedule {
    pub fn push(&mut self, at: i64, generation: u64, action: Action) {
        self.order += 1;
        self.heap.push(Reverse(Scheduled { at, order: self.order, generation, action }));
    }

    pub fn pop(&mut self) -> Option<Scheduled> {
        self.heap.pop().map(|Reverse(scheduled)| scheduled)
    }
}
