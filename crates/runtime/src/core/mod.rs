//! The shard's core, sans-IO: requests, worker frames, store completions and the time go in; appends, frames, replies
//! and published events come out.
//!
//! One [`Core`] owns all runs of a shard. It never blocks, never reads a clock and knows neither sockets nor SQL: its
//! tokio shell and the simulator drive the same code. Its rules:
//!
//! - Nothing leaves before it is durable: what a turn wants to send waits in [`Pending`](commits) for the commit of the
//!   turn's append, in order.
//! - The state runs ahead of the log by the appends in flight. When one of them fails, all of it is thrown away and
//!   read again from the store ([`Output::Restart`]).
//! - Queues, slots, liveness and progress are memory: they are rebuilt from state and from what workers say.
//!
//! Begin reading with [`Core::handle`]; then `leases` (who works on what), `commits` (what leaves when).

mod agents;
mod commits;
mod leases;
mod recovery;
mod requests;
mod sessions;
mod workers;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use capataz_contracts::v1;
use capataz_engine::session::{Accepted, SessionState};
use capataz_engine::{Query, QueryId, Refusal, RunState, StartRun, TaskRef, Timestamp};
use capataz_store::{
    AgentRow, Append, AppendOutcome, Epoch, IdempotencyKey, Millis, Position, RunId, Snapshot,
};

use agents::{AgentId, Agents};
pub use agents::{AgentSnapshot, Known, KnownAgent};
use commits::{Batch, Pending, Projected};
use leases::Held;
pub use recovery::blob_hash;
use sessions::SessionSlot;
pub use sessions::{Chosen, Found, Route, SESSION_LABEL, SESSION_SNAPSHOT_FORMAT, find, session_stream};
use workers::Connection;

/// Names a caller that waits for an answer; given by the shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplyId(pub u64);

/// Names a worker's stream; given by the shell, never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// Names an append in flight; grows by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct AppendId(pub u64);

/// Limits and times. Milliseconds unless the name says otherwise.
#[derive(Clone, Debug)]
pub struct CoreConfig {
    /// A worker's frame is due at least this often, and so is one of ours to it.
    pub heartbeat_ms: i64,
    /// Heartbeats that may be missed in a row before either end takes the other for lost (seed 000, contract 3; CONTRACTS §1.3).
    pub missed_heartbeats: i64,
    /// Time in which a worker acknowledges an assignment.
    pub ack_timeout_ms: i64,
    /// How long a lease waits for its worker to come back.
    pub reattach_ms: i64,
    /// Unfinished runs beyond which new ones are refused.
    pub max_unfinished_runs: usize,
    /// Appends in flight beyond which new requests are refused.
    pub max_pending_appends: usize,
    /// Callers that may wait for one run.
    pub max_waiters_per_run: usize,
    /// Events after which a run's state is cached in the store.
    pub snapshot_every: u64,
    /// Events after which a session's state is cached in the store.
    pub session_snapshot_every: u64,
    /// Sessions that nobody asks anything, kept in memory.
    pub max_idle_sessions: usize,
    /// Asks of one session that may wait for their turn.
    pub max_waiting_per_session: usize,
    /// Events after which a run is ended with RUN_LIMIT_EXCEEDED.
    pub max_events_per_run: u64,
    /// Bytes of outputs in the answer to a caller that waits.
    pub max_result_bytes: usize,
}

impl Default for CoreConfig {
    fn default() -> Self {
        Self {
            heartbeat_ms: 5_000,
            missed_heartbeats: 3,
            ack_timeout_ms: 10_000,
            reattach_ms: 15_000,
            max_unfinished_runs: 200_000,
            max_pending_appends: 8_192,
            max_waiters_per_run: 1_024,
            snapshot_every: 2_000,
            session_snapshot_every: 64,
            max_idle_sessions: 1_024,
            max_waiting_per_session: 256,
            max_events_per_run: 1_000_000,
            max_result_bytes: 1024 * 1024,
        }
    }
}

/// What the core is told.
#[derive(Debug)]
pub enum Input {
    Request {
        reply: ReplyId,
        request: Request,
    },
    /// The caller no longer waits.
    Forget {
        reply: ReplyId,
        run: RunId,
    },
    /// A validated frame of a worker; the first one of a connection is its hello.
    Frame {
        connection: ConnectionId,
        frame: v1::connect_request::Frame,
    },
    Disconnected {
        connection: ConnectionId,
    },
    /// The outcomes of the oldest appends in flight, in their order.
    Committed {
        outcomes: Vec<AppendOutcome>,
    },
    /// A commit failed: nobody knows what is durable.
    CommitFailed,
    /// The shard was claimed and its unfinished runs read.
    Recovered(Recovered),
    /// The answer to [`Output::LoadSession`]; `None` where there is no such session.
    SessionLoaded {
        stream: RunId,
        load: u64,
        state: Option<Box<SessionState>>,
    },
    /// Retention is due: answered with [`Output::Sweep`].
    Sweep,
    /// The sweep that was let go has ended, well or not.
    Swept,
    /// The answer to [`Output::Query`].
    Answered {
        run: RunId,
        query: QueryId,
        answer: Found,
    },
    /// What the configuration names; beside what is known already.
    Learn(Known),
    /// The time of [`Core::next_wake`] has come.
    Wake,
    /// No new runs from now on, and workers are told.
    Drain,
}

/// What a claim of the shard found.
#[derive(Debug)]
pub struct Recovered {
    pub epoch: Epoch,
    pub runs: Vec<(RunId, RunState)>,
    /// Those of unfinished asks, by their streams; `None` where nothing was said in it yet.
    pub sessions: Vec<(RunId, Option<SessionState>)>,
    pub agents: Vec<KnownAgent>,
}

/// What a caller asks for. Already validated.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one for each request, moved once")]
pub enum Request {
    Start(Box<StartRequest>),
    /// Answers when the run has finished.
    Wait {
        run: RunId,
    },
    Command {
        run: RunId,
        if_seq: Option<u64>,
        input: capataz_engine::Input,
    },
    CheckAgents {
        agents: Vec<String>,
        commands: Vec<String>,
        resources: Vec<String>,
    },
    ListAgents,
    /// Moves a session to the spec that the answer to an ask has suggested.
    AcceptTransition {
        session: String,
        request_id: String,
    },
}

#[derive(Debug)]
pub struct StartRequest {
    pub run: RunId,
    pub start: StartRun,
    /// The session that the run belongs to.
    pub session: Option<String>,
    /// Every agent that the plan names.
    pub agents: BTreeSet<String>,
    pub commands: Vec<String>,
    pub resources: Vec<String>,
    pub key: Option<IdempotencyKey>,
    /// Answer when the run has finished, not when it is accepted.
    pub wait: bool,
    /// Blobs that the plan's inputs name.
    pub blobs: Vec<capataz_store::BlobHash>,
}

/// What the core wants done. In order.
#[derive(Debug)]
pub enum Output {
    Append {
        id: AppendId,
        append: Append,
    },
    /// `urgent` frames pass ahead of others on the worker's stream.
    Frame {
        connection: ConnectionId,
        frame: v1::connect_response::Frame,
    },
    Close {
        connection: ConnectionId,
        reason: CloseReason,
    },
    Reply {
        reply: ReplyId,
        answer: Answer,
    },
    /// These events are durable.
    Publish(Published),
    /// Not durable; for whoever looks on.
    Progress(v1::ProgressFrame),
    PutSnapshot {
        run: RunId,
        snapshot: Snapshot,
    },
    PutAgents(Vec<AgentRow>),
    /// Read a session and answer with [`Input::SessionLoaded`], under the same number. The answer to an older one is
    /// not believed.
    LoadSession {
        stream: RunId,
        load: u64,
    },
    /// Let retention sweep, but for these streams, which are in use; `None` where it must not sweep now. In the writer's
    /// order, and answered with [`Input::Swept`].
    Sweep {
        keep: Option<BTreeSet<RunId>>,
    },
    /// Find this out and answer with [`Input::Answered`]; [`Core::asks_for`] has what there is to say, [`find`] does it.
    Query {
        run: RunId,
        query: QueryId,
        asked: Query,
    },
    /// A script has ended: nobody needs its browser any more.
    ScriptOver {
        run: RunId,
    },
    /// Claim the shard anew, read it, and answer with [`Input::Recovered`]. Every append in flight is void.
    Restart,
    /// Another daemon owns the shard.
    Fenced,
}

/// Events of one append, durable.
#[derive(Clone, Debug)]
pub struct Published {
    pub position: Position,
    pub run: RunId,
    pub first_seq: u64,
    pub count: u32,
    /// Each with a varint length before it.
    pub events: Bytes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The first frame was no hello, or a second hello came.
    Protocol,
    /// Another connection has the same worker id.
    Replaced,
    /// No frame for too long.
    Silent,
    /// The shard is read again from the store.
    Restarting,
}

/// The answer to a [`Request`].
#[derive(Debug)]
pub enum Answer {
    Started {
        run: RunId,
    },
    /// The idempotency key named this run.
    Existing {
        run: RunId,
    },
    /// The idempotency key belongs to another request.
    KeyReused {
        run: RunId,
    },
    Finished {
        run: RunId,
        result: Box<v1::RunResult>,
    },
    /// The run is not in work: the store knows it, or nobody does.
    NotActive {
        run: RunId,
    },
    Done {
        seq: u64,
        deadline_ms: i64,
        activation: u32,
    },
    Refused(Refusal),
    Accepted(Accepted),
    SessionNotFound,
    /// No answer to that request suggests a transition that is still open.
    TransitionNotFound,
    SeqMismatch {
        actual: u64,
    },
    /// AGENT_NOT_FOUND or AGENTS_VALIDATION_FAILED.
    UnknownAgents(Box<v1::Error>),
    Agents(Vec<AgentSnapshot>),
    Checked(capataz_policy::registry::Batch),
    Overloaded {
        retry_after_ms: i64,
    },
    Unavailable,
    Draining,
}

pub(crate) struct RunSlot {
    pub(crate) state: RunState,
    /// The newest append of this run that is in flight or done.
    last_append: AppendId,
    /// What the run list was told last: status and wave.
    projected: Projected,
    waiters: Vec<ReplyId>,
    wake_at: Option<Timestamp>,
    /// Timers stand still until then, after a restart.
    quiet_until: Timestamp,
    snapshot_seq: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Run(RunId),
    Reattach(RunId, TaskRef, u64),
    Connection(ConnectionId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Running,
    /// Waits for [`Input::Recovered`].
    Recovering,
    Fenced,
}

/// All runs of one shard, and the workers that serve them.
pub struct Core {
    config: CoreConfig,
    mode: Mode,
    draining: bool,
    now: Timestamp,
    runs: BTreeMap<RunId, RunSlot>,
    held: BTreeMap<(RunId, TaskRef), Held>,
    agents: Agents,
    connections: BTreeMap<ConnectionId, Connection>,
    workers: BTreeMap<String, ConnectionId>,
    timers: BTreeSet<(Timestamp, Timer)>,
    pending: VecDeque<Pending>,
    next_append: AppendId,
    /// Decisions of this turn, by run.
    batches: Vec<Batch>,
    dirty_agents: BTreeSet<AgentId>,
    sessions: BTreeMap<RunId, SessionSlot>,
    /// Sessions that nobody asks anything, each once, those first that were left first; some may be busy again.
    idle_sessions: BTreeMap<u64, RunId>,
    /// Sessions that were asked for.
    loads: u64,
    /// Sweeps that were let go and have not ended.
    sweeps: u32,
    /// Sessions that are read when no sweep is at work any more, for it may remove them.
    unread_sessions: BTreeSet<RunId>,
    /// Until then an agent that nobody knows may be one whose worker has not come back yet.
    gathering_until: Timestamp,
    /// The connection whose report is being handled.
    reporting: Option<ConnectionId>,
    outputs: Vec<Output>,
}

impl std::fmt::Debug for Core {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Core")
            .field("mode", &self.mode)
            .field("runs", &self.runs.len())
            .field("connections", &self.connections.len())
            .field("pending", &self.pending.len())
            .finish_non_exhaustive()
    }
}

impl Core {
    /// A core that waits for its first [`Input::Recovered`].
    #[must_use]
    pub fn new(config: CoreConfig) -> Self {
        Self {
            config,
            mode: Mode::Recovering,
            draining: false,
            now: Timestamp::default(),
            runs: BTreeMap::new(),
            held: BTreeMap::new(),
            agents: Agents::default(),
            connections: BTreeMap::new(),
            workers: BTreeMap::new(),
            timers: BTreeSet::new(),
            pending: VecDeque::new(),
            next_append: AppendId(1),
            batches: Vec::new(),
            dirty_agents: BTreeSet::new(),
            sessions: BTreeMap::new(),
            idle_sessions: BTreeMap::new(),
            loads: 0,
            sweeps: 0,
            unread_sessions: BTreeSet::new(),
            gathering_until: Timestamp::default(),
            reporting: None,
            outputs: Vec::new(),
        }
    }

    /// Handles one input at the given time (Unix milliseconds) and appends to `outputs` what is to be done, in order.
    pub fn handle(&mut self, now: Timestamp, input: Input, outputs: &mut Vec<Output>) {
        self.now = self.now.max(now);
        std::mem::swap(&mut self.outputs, outputs);
        match input {
            Input::Request { reply, request } => self.request(reply, request),
            Input::Forget { reply, run } => self.forget(reply, run),
            Input::Frame { connection, frame } => self.frame(connection, frame),
            Input::Disconnected { connection } => self.disconnected(connection),
            Input::Committed { outcomes } => self.committed(outcomes),
            Input::CommitFailed => self.commit_failed(),
            Input::Recovered(recovered) => self.recovered(recovered),
            Input::SessionLoaded { stream, load, state } => self.session_loaded(stream, load, state),
            Input::Sweep => self.sweep(),
            Input::Swept => self.swept(),
            Input::Answered { run, query, answer } => self.answered(run, query, answer),
            Input::Learn(known) => self.learn(known),
            Input::Wake => {}
            Input::Drain => self.drain(),
        }
        self.fire_timers();
        self.assign_slots();
        self.flush();
        std::mem::swap(&mut self.outputs, outputs);
    }

    /// When [`Input::Wake`] is due.
    #[must_use]
    pub fn next_wake(&self) -> Option<Timestamp> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Runs in work.
    #[must_use]
    pub fn run_count(&self) -> usize {
        self.runs.len()
    }

    /// Appends that were not answered yet.
    #[must_use]
    pub fn pending_appends(&self) -> usize {
        self.pending.len()
    }

    /// The state of a run in work, for invariant checks.
    #[must_use]
    pub fn run(&self, run: RunId) -> Option<&RunState> {
        self.runs.get(&run).map(|slot| &slot.state)
    }

    /// Live leases that are attached to a connection: run, task, token, worker.
    pub fn attached(&self) -> impl Iterator<Item = (RunId, TaskRef, u64, &str)> {
        self.held
            .iter()
            .filter(|(_, held)| held.connection.is_some())
            .map(|((run, task), held)| (*run, *task, held.token, held.worker.as_str()))
    }

    fn fire_timers(&mut self) {
        while let Some((at, timer)) = self.timers.first().copied() {
            if at > self.now || self.mode != Mode::Running {
                break;
            }
            self.timers.pop_first();
            match timer {
                Timer::Run(run) => self.tick_run(run),
                Timer::Reattach(run, task, token) => self.reattach_expired(run, task, token),
                Timer::Connection(connection) => self.check_connection(connection),
            }
        }
    }

    fn drain(&mut self) {
        self.draining = true;
        let connections: Vec<ConnectionId> = self.connections.keys().copied().collect();
        for connection in connections {
            self.send(connection, v1::connect_response::Frame::Drain(v1::Drain {}));
        }
    }

    fn reply(&mut self, reply: ReplyId, answer: Answer) {
        self.outputs.push(Output::Reply { reply, answer });
    }

    fn send(&mut self, connection: ConnectionId, frame: v1::connect_response::Frame) {
        self.outputs.push(Output::Frame { connection, frame });
    }

    fn millis(&self) -> Millis {
        Millis(self.now.0)
    }
}

/// What tells a run's jitter from that of others.
pub(crate) fn seed_of(run: RunId) -> u64 {
    run.0.as_u64_pair().1
}
