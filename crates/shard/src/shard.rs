//! [`Shard`]: what comes in and what goes out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use capataz_contracts::v1;
use capataz_crew::link::{End, Packet};
use capataz_crew::{ConnectionId, KnownAgent, Mono, Now, ToCrew, ToShard, stood_still};
use capataz_engine::planted::{self, Fault};
use capataz_engine::session::SessionState;
use capataz_engine::{self as engine, MAX_RUN_BYTES, Query, QueryAnswer, QueryId, RunState, TaskRef, Wall};
use capataz_store::{
    Append, AppendOutcome, Epoch, History, Mark, Position, Quarantine, Removal, Rest, Retention, RunId,
    ShardId, Snapshot,
};

use crate::api::{Answer, Request};
use crate::browsers::Browsers;
use crate::family::{Finds, FoundRun, Kin};
use crate::judging::Judging;
use crate::keys::{Homes, KeyFact, KeyQuery, KeyTalk, Keys};
use crate::leases::Leases;
use crate::load::Damage;
use crate::outbox::{AppendId, Outbox};
use crate::queues::Queues;
use crate::readings::{Ages, Earlier, Readings};
use crate::resting::Resting;
use crate::returns::Returns;
use crate::runs::Runs;
use crate::sessions::{IdleSessions, Load, Sessions};
use crate::timers::{Timer, Timers};
use crate::topics::Facts;
use crate::touched::{Restart, Touched};

/// Names a caller that waits for an answer; given by the shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct ReplyId(pub u64);

/// Limits and times of a shard, and the times that it shares with the crew. Milliseconds unless the name says otherwise.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Config {
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
    /// Sessions that nobody asks anything, kept in memory: so many at most, and so many bytes.
    pub idle_sessions: IdleSessions,
    /// The bytes of the runs that wait for their turns in sessions, beyond which further ones are refused; and as much of what
    /// callers ask of sessions that were not read yet.
    pub max_waiting_bytes: u64,
    /// A run of which nothing is in work, and no deadline is due for so long, is not kept in memory.
    pub rest_after_ms: i64,
    /// Asks of one session that may wait for their turn.
    pub max_waiting_per_session: usize,
    /// Events after which a run is ended with RUN_LIMIT_EXCEEDED.
    pub max_events_per_run: u64,
    /// Bytes of a run's state after which it is ended with RUN_LIMIT_EXCEEDED.
    pub max_bytes_per_run: u64,
    /// Bytes of outputs in the answer to a caller that waits.
    pub max_result_bytes: usize,
}

/// Idle sessions in memory.
const IDLE_SESSIONS: usize = 1_024;
/// The bytes of idle sessions in memory: 32 MiB.
const IDLE_BYTES: u64 = 32 * 1024 * 1024;
/// The bytes of the runs that wait for their turns in sessions: 128 MiB.
const WAITING_BYTES: u64 = 128 * 1024 * 1024;

impl Default for Config {
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
            idle_sessions: IdleSessions { sessions: IDLE_SESSIONS, bytes: IDLE_BYTES },
            max_waiting_bytes: WAITING_BYTES,
            rest_after_ms: 10_000,
            max_waiting_per_session: 256,
            max_events_per_run: 1_000_000,
            max_bytes_per_run: MAX_RUN_BYTES,
            max_result_bytes: 1024 * 1024,
        }
    }
}

/// What a shard is told.
#[derive(Clone, Debug)]
pub enum Input {
    /// `absent` are those of a start's agents that nobody serves now.
    Request { reply: ReplyId, request: Request, absent: BTreeSet<String> },
    /// The caller no longer waits.
    Forget { reply: ReplyId, run: RunId },
    /// A message of the crew.
    Packet(Packet<ToShard>),
    /// The outcomes of the oldest appends in flight, in their order.
    Committed { outcomes: Vec<AppendOutcome> },
    /// A commit failed: nobody knows what is durable.
    CommitFailed,
    /// The shard was claimed and its unfinished runs read.
    Recovered(Recovered),
    /// The answer to [`Output::LoadSession`]; `None` where there is no such session.
    SessionLoaded { stream: RunId, load: u64, state: Result<Option<Box<SessionState>>, Damage> },
    /// The answer to [`Output::LoadRun`]; `None` where the store cannot be read.
    RunLoaded { run: RunId, load: u64, state: Result<Option<Box<RunState>>, Damage> },
    /// A reader has found a run damaged.
    FoundDamaged(Damage),
    /// The shard of this run's parent, or of its child, has said something. `absent` are those of a child's agents that
    /// nobody serves now.
    Kin { kin: Kin, absent: BTreeSet<String> },
    /// The shard of a key, or of a run that has a key of this shard, has said something.
    Key(KeyTalk),
    /// The answer to [`Output::FindKeys`].
    KeysFound { number: u64, fact: KeyFact },
    /// The answer to [`Output::FindChild`].
    ChildFound { child: RunId, number: u64, found: FoundRun },
    /// Retention is due, for what is at least so old: answered with [`Output::Sweep`].
    Sweep { retention: Box<Retention>, ages: Ages },
    /// The sweep that was let go has ended, well or not.
    Swept,
    /// The answer to [`Output::Remove`]; `None` where the store has failed.
    Removed { reply: ReplyId, run: RunId, removal: Option<Removal> },
    /// The answer to [`Output::Query`].
    Answered { run: RunId, query: QueryId, answer: QueryAnswer },
    /// The time of [`Shard::next_wake`] has come.
    Wake,
    /// No new runs from now on.
    Drain,
}

/// What a claim of the shard found.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Recovered {
    pub epoch: Epoch,
    /// Which positions were written under which mark; the newest is that of this claim.
    pub history: History,
    pub runs: Vec<(RunId, RunState)>,
    /// Unfinished runs that were not read, because nothing of them is in work.
    pub resting: Vec<(RunId, Rest)>,
    /// Unfinished runs whose rows could not be read. They are read again soon.
    pub unread: Vec<RunId>,
    /// Those of unfinished asks, by their streams; `None` where nothing was said in it yet.
    pub sessions: Vec<(RunId, Option<SessionState>)>,
    /// Where the asks that wait for their turns were accepted.
    pub accepted: BTreeMap<RunId, Position>,
    /// The agents that the store remembers.
    pub agents: Vec<KnownAgent>,
    /// What was read, where that is not everything: nobody has written anything else since the claim before.
    pub touched: Option<Touched>,
    /// What earlier processes have read of their clocks.
    pub earlier: Earlier,
}

/// What a shard wants done. In order.
#[derive(Debug)]
pub enum Output {
    Append {
        id: AppendId,
        append: Append,
    },
    /// A message to the crew.
    Packet(Packet<ToCrew>),
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
    /// The run is not to be worked on: to be put down.
    Quarantine {
        run: RunId,
        quarantine: Quarantine,
    },
    /// Read a session and answer with [`Input::SessionLoaded`], under the same number. The answer to an older one is
    /// not believed.
    LoadSession {
        stream: RunId,
        load: u64,
    },
    /// Read a run that rests and answer with [`Input::RunLoaded`], under the same number. The answer to an older one is
    /// not believed.
    LoadRun {
        run: RunId,
        load: u64,
    },
    /// A word to the shard of another run, or to this one.
    Kin(Kin),
    /// A word to the shard of a key, or of a run that has a key of this shard.
    Key(KeyTalk),
    /// Find this out about the shard's keys, and answer with [`Input::KeysFound`], under the same number.
    FindKeys {
        number: u64,
        query: KeyQuery,
    },
    /// Read a run that nobody in memory knows, and answer with [`Input::ChildFound`], under the same number. The answer to
    /// an older one is not believed.
    FindChild {
        child: RunId,
        number: u64,
    },
    /// Let retention sweep, but for the streams that are in use; `None` where it must not sweep now. In the writer's
    /// order, and answered with [`Input::Swept`].
    Sweep {
        retention: Option<Box<Retention>>,
    },
    /// Remove a run, if it may be. In the writer's order, and answered with [`Input::Removed`].
    Remove {
        reply: ReplyId,
        run: RunId,
    },
    /// Take a quarantine back that is not for damage: the shard is claimed next, and tries the run.
    Release {
        run: RunId,
    },
    /// What follows goes by the time that has passed, and the clock on the wall is ahead of that by so many milliseconds.
    Behind {
        by_ms: i64,
    },
    /// What the shard has read of its clocks: to be put down before whatever follows.
    PutReadings {
        readings: Vec<u8>,
    },
    /// Find this out and answer with [`Input::Answered`].
    Query {
        run: RunId,
        query: QueryId,
        asked: Query,
    },
    /// A script has ended: nobody needs its browser any more.
    ScriptOver {
        run: RunId,
    },
    /// Claim the shard anew, read what is touched or else everything, and answer with [`Input::Recovered`]. Every append in
    /// flight is void.
    Restart {
        touched: Touched,
    },
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
    /// What readers ask for; `None` where nobody knows any more, and the list of runs has to be asked.
    pub facts: Option<Arc<Facts>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Running,
    /// Waits for [`Input::Recovered`].
    Recovering,
    Fenced,
}

/// Who wants an input of a run, and is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The shard's own.
    Shard,
    Caller(ReplyId),
    /// A worker that reports.
    Worker(ConnectionId),
}

/// Decides one input of a run.
pub(crate) type Decide =
    fn(&mut RunState, engine::Input, engine::Moment) -> Result<engine::Decision, engine::Refusal>;

/// All runs of one shard.
///
/// Its parts own what they hold, and none of them knows another; what follows from one for another is said here.
pub struct Shard {
    pub(crate) config: Config,
    pub(crate) mode: Mode,
    pub(crate) draining: bool,
    pub(crate) now: Now,
    /// When it was called last, other than to keep what comes while it is claimed.
    listened: Mono,
    pub(crate) runs: Runs,
    pub(crate) resting: Resting,
    /// Runs that were read in this turn, and rest again at its end where nothing came of it.
    pub(crate) woken: BTreeSet<RunId>,
    pub(crate) leases: Leases,
    pub(crate) queues: Queues,
    pub(crate) returns: Returns,
    pub(crate) browsers: Browsers,
    pub(crate) sessions: Sessions,
    pub(crate) finds: Finds,
    pub(crate) keys: Keys,
    pub(crate) homes: Homes,
    pub(crate) judging: Judging,
    pub(crate) timers: Timers,
    /// The history of the claim that the shard works under.
    pub(crate) history: History,
    pub(crate) outbox: Outbox,
    /// Streams whose newest appends did not fit the log, for which the shard was read again.
    pub(crate) conflicts: BTreeSet<RunId>,
    /// Runs whose states in memory are worth nothing: they are read again with what is touched.
    pub(crate) broken: BTreeSet<RunId>,
    /// Callers that have had a run tried again.
    pub(crate) tried: Vec<ReplyId>,
    /// The engine.
    pub(crate) decide: Decide,
    /// What its clocks have said.
    pub(crate) readings: Readings,
    /// This end of what joins the shard and the crew.
    link: End,
    /// A commit has failed in this turn.
    pub(crate) failed: bool,
    /// What waits for the end of a claim.
    pub(crate) restart: Option<Restart>,
    outputs: Vec<Output>,
}

impl std::fmt::Debug for Shard {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Shard")
            .field("mode", &self.mode)
            .field("runs", &self.runs.len())
            .field("pending", &self.outbox.len())
            .finish_non_exhaustive()
    }
}

impl Shard {
    /// The shard that is one of these, and waits for its first [`Input::Recovered`].
    #[must_use]
    pub fn new(config: Config, shard: ShardId, shards: Vec<ShardId>) -> Self {
        Self {
            config,
            keys: Keys::default(),
            homes: Homes { shard, shards },
            mode: Mode::Recovering,
            draining: false,
            now: Now::default(),
            listened: Mono::default(),
            runs: Runs::default(),
            resting: Resting::default(),
            woken: BTreeSet::new(),
            leases: Leases::default(),
            queues: Queues::default(),
            returns: Returns::default(),
            browsers: Browsers::default(),
            sessions: Sessions::default(),
            finds: Finds::default(),
            judging: Judging::default(),
            timers: Timers::default(),
            history: History::default(),
            outbox: Outbox::default(),
            conflicts: BTreeSet::new(),
            broken: BTreeSet::new(),
            tried: Vec::new(),
            decide: engine::decide,
            readings: Readings::default(),
            link: End::default(),
            failed: false,
            restart: None,
            outputs: Vec::new(),
        }
    }

    /// Handles one input at the given time and appends to `outputs` what is to be done, in order.
    /// What it decides is appended at the end of the turn ([`Shard::end_turn`]).
    pub fn handle(&mut self, now: Now, input: Input, outputs: &mut Vec<Output>) {
        self.forgive_our_own_stall(now.mono, &input);
        self.now = now.not_before(self.now);
        std::mem::swap(&mut self.outputs, outputs);
        self.read_clocks();
        match input {
            Input::Request { reply, request, absent } => self.request(reply, request, &absent),
            Input::Forget { reply, run } => self.forget(reply, run),
            Input::Packet(packet) => self.packet(packet),
            Input::Committed { outcomes } => self.committed(outcomes),
            Input::CommitFailed => self.commit_failed(),
            Input::Recovered(recovered) => self.recovered(recovered),
            // It is asked for again when the shard has been read.
            Input::SessionLoaded { .. } | Input::RunLoaded { .. } if self.mode != Mode::Running => {}
            Input::SessionLoaded { stream, load, state } => {
                let load = Load { stream, number: load };
                match state {
                    Ok(state) => self.session_loaded(load, state),
                    Err(damage) => self.session_damaged(load, damage),
                }
            }
            Input::RunLoaded { run, load, state } => match state {
                Ok(state) => self.run_loaded(run, load, state),
                Err(damage) => self.run_damaged(load, &damage),
            },
            Input::FoundDamaged(damage) => self.found_damaged(&damage),
            Input::Kin { kin, absent } => self.kin(kin, absent),
            Input::Key(talk) => self.key_talk(talk),
            Input::KeysFound { number, fact } => self.keys_found(number, fact),
            Input::ChildFound { child, number, found } => self.child_found(child, number, found),
            Input::Sweep { retention, ages } => self.sweep(retention, ages),
            Input::Swept => self.swept(),
            Input::Removed { reply, run, removal } => self.removed(reply, run, removal),
            Input::Answered { run, query, answer } => self.answered(run, query, answer),
            Input::Wake => {}
            Input::Drain => self.drain(),
        }
        self.fire_timers();
        self.say_wants();
        std::mem::swap(&mut self.outputs, outputs);
    }

    /// What workers said meanwhile is still to come. While the shard is claimed their words are kept, and its timers stand
    /// still: that time counts as one stall.
    fn forgive_our_own_stall(&mut self, now: Mono, input: &Input) {
        if self.mode != Mode::Running && !matches!(input, Input::Recovered(_)) {
            return;
        }
        let before = std::mem::replace(&mut self.listened, now);
        if let Some(stall) = stood_still(before, now, self.timers.next()) {
            self.leases.forgive(stall);
            self.timers.forgive(stall);
        }
    }

    /// Ends a turn of one or more inputs: what they have decided is appended, with one append for each run.
    pub fn end_turn(&mut self, outputs: &mut Vec<Output>) {
        std::mem::swap(&mut self.outputs, outputs);
        if std::mem::take(&mut self.failed) {
            self.throw_touched();
        }
        self.flush();
        self.rest_again();
        self.say_wants();
        std::mem::swap(&mut self.outputs, outputs);
    }

    /// When [`Input::Wake`] is due.
    #[must_use]
    pub fn next_wake(&self) -> Option<Mono> {
        self.timers.next().filter(|_| self.mode == Mode::Running)
    }

    /// Unfinished runs, in memory or at rest.
    #[must_use]
    pub fn run_count(&self) -> usize {
        self.runs.len() + self.resting.len()
    }

    /// Whether the run is unfinished and not in memory.
    #[must_use]
    pub fn rests(&self, run: RunId) -> bool {
        self.resting.contains(run)
    }

    /// Appends that were not answered yet.
    #[must_use]
    pub fn pending_appends(&self) -> usize {
        self.outbox.len()
    }

    /// For each run, how many callers wait for its end, and how much is wanted of it once it is read; for invariant checks.
    pub fn kept_for_callers(&self) -> impl Iterator<Item = (usize, usize)> {
        self.runs.iter().map(|(_, slot)| (slot.waiters.len(), 0)).chain(self.resting.kept())
    }

    /// The idle sessions of which nothing is in flight, for invariant checks; `None` while the shard drains, for then nobody
    /// has a turn, and nothing is put away.
    #[must_use]
    pub fn idle_sessions(&self) -> Option<IdleSessions> {
        (!self.draining).then(|| self.sessions.idle(self.outbox.oldest()))
    }

    /// The bytes of what is asked of sessions that were not read yet, for invariant checks.
    #[must_use]
    pub fn command_bytes(&self) -> u64 {
        self.sessions.command_bytes()
    }

    /// The state of a run in work, for invariant checks.
    #[must_use]
    pub fn run(&self, run: RunId) -> Option<&RunState> {
        self.runs.get(run).map(|slot| &slot.state)
    }

    /// Live leases whose workers are connected, for invariant checks.
    pub fn attached(&self) -> impl Iterator<Item = Attached<'_>> {
        self.leases.seated().filter_map(|(run, task, held)| {
            let seat = held.seat()?;
            let (token, worker) = (held.token, &*held.worker);
            Some(Attached { run, task, token, worker, offer: seat.offer })
        })
    }

    fn fire_timers(&mut self) {
        while self.mode == Mode::Running
            && let Some(timer) = self.timers.fire(self.now.mono)
        {
            match timer {
                Timer::Run(run) => self.tick_run(run),
                Timer::Children(run) => self.ask_children(run),
                Timer::Reattach(run, task, token) => self.reattach_expired(run, task, token),
                Timer::Browser(run) => self.browser_missed(run),
                Timer::Key(ask) => self.key_is_missing(ask),
                Timer::Unacknowledged(run, task, token) => self.not_acknowledged(run, task, token),
                Timer::HandedBack(run, task) => self.offer_again(run, task),
                Timer::Beat => self.beat(),
            }
        }
    }

    pub(crate) fn out(&mut self, output: Output) {
        self.outputs.push(output);
    }

    pub(crate) fn reply(&mut self, reply: ReplyId, answer: impl Into<Answer>) {
        self.outputs.push(Output::Reply { reply, answer: answer.into() });
    }

    pub(crate) fn tell(&mut self, body: ToCrew) {
        let packet = self.link.pack(body);
        self.outputs.push(Output::Packet(packet));
    }

    pub(crate) fn link(&mut self) -> &mut End {
        &mut self.link
    }

    /// The mark of the claim that it works under.
    pub(crate) fn mark(&self) -> u32 {
        self.history.newest().unwrap_or(Mark::NONE).0
    }

    /// Whether a lease with this token was given in this history, and not in that of a copy or of what was lost.
    pub(crate) fn is_ours(&self, token: u64) -> bool {
        planted::is(Fault::MarkNotChecked)
            || match engine::mark_of(token) {
                // Format 2 gave no marks.
                0 => true,
                mark => self.history.knows(Mark(mark)),
            }
    }

    /// What the clock on the wall says.
    pub(crate) fn wall(&self) -> Wall {
        Wall(self.now.wall.0)
    }
}

/// A live lease whose worker is connected.
#[derive(Clone, Copy, Debug)]
pub struct Attached<'a> {
    pub run: RunId,
    pub task: TaskRef,
    pub token: u64,
    pub worker: &'a str,
    /// The slot that it has.
    pub offer: capataz_crew::OfferId,
}

/// What tells a run's jitter from that of others.
pub(crate) fn seed_of(run: RunId) -> u64 {
    run.0.as_u64_pair().1
}
