//! [`Driver`]: a daemon's shards and its crew, joined.
//!
//! Every change of any of them is one [`Input`], a value. A turn hands it to whom it concerns, carries the messages
//! between the shards and the crew until there are none, and ends the shards' turns: what one input leads to, at both
//! ends, shares its commit.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use capataz_contracts::v1::{self, connect_request, connect_response};
use capataz_crew::link::Packet;
use capataz_crew::protocol::home;
use capataz_crew::{self as crew, CloseReason, ConnectionId, Crew, Known, Mono, Now, ToCrew, ToShard};
use capataz_engine::session::SessionState;
use capataz_engine::{Computed, Query, QueryAnswer, QueryId, Routed, RoutedSpec, RunState, Verdict};
use capataz_store::{
    AgentRow, Append, AppendOutcome, Quarantine, Removal, Retention, RunId, ShardId, Snapshot,
};

use crate::api::{Answer, Request, StartReply};
use crate::family::{FoundRun, Kin};
use crate::keys::{KeyFact, KeyQuery, KeyTalk};
use crate::load::Damage;
use crate::outbox::AppendId;
use crate::readings::Ages;
use crate::sessions::session_stream;
use crate::shard::{self, Attached, Config, Published, Recovered, ReplyId, Shard};
use crate::touched::Touched;
use crate::turns::Found;

/// Bytes of agents' descriptions in one answer, if these are not one agent's alone.
pub const AGENTS_PAGE_BYTES: usize = 1024 * 1024;

/// What a daemon's shards and its crew are told. A daemon gets none that cannot be written down.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
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
        #[serde(with = "crate::forms::frame")]
        frame: connect_request::Frame,
    },
    /// The connection is one of the daemon's own hosts; told before its first frame.
    Hosted {
        connection: ConnectionId,
    },
    Disconnected {
        connection: ConnectionId,
    },
    /// The worker leaves too much unread of what it was sent: something of it is lost.
    Unread {
        connection: ConnectionId,
    },
    /// The outcomes of the shard's oldest appends in flight, in their order.
    Committed {
        shard: ShardId,
        outcomes: Vec<AppendOutcome>,
    },
    /// A commit failed: nobody knows what of the shard is durable.
    CommitFailed {
        shard: ShardId,
    },
    /// The shard was claimed and its unfinished runs read.
    Recovered {
        shard: ShardId,
        recovered: Recovered,
    },
    /// The answer to [`Output::LoadSession`]; `None` where there is no such session.
    SessionLoaded {
        stream: RunId,
        load: u64,
        state: Result<Option<Box<SessionState>>, Damage>,
    },
    /// The answer to [`Output::LoadRun`]; `None` where the store cannot be read.
    RunLoaded {
        run: RunId,
        load: u64,
        state: Result<Option<Box<RunState>>, Damage>,
    },
    /// The answer to [`Output::FindChild`].
    ChildFound {
        child: RunId,
        number: u64,
        found: FoundRun,
    },
    /// A reader has found a run damaged.
    FoundDamaged(Damage),
    /// Retention is due, for what is at least so old: answered with [`Output::Sweep`].
    Sweep {
        shard: ShardId,
        retention: Box<Retention>,
        ages: Ages,
    },
    /// The sweep that was let go has ended, well or not.
    Swept {
        shard: ShardId,
    },
    /// The answer to [`Output::Remove`]; `None` where the store has failed.
    Removed {
        reply: ReplyId,
        run: RunId,
        removal: Option<Removal>,
    },
    /// The answer to [`Output::Query`].
    Answered {
        run: RunId,
        query: QueryId,
        #[serde(with = "crate::forms::found")]
        answer: Found,
    },
    /// The answer to an [`Output::Query`] for a verdict.
    Judged {
        run: RunId,
        query: QueryId,
        verdict: Verdict,
    },
    /// The answer to an [`Output::Query`] for what a phase is given or what of it goes on; [`phases`](crate::phases) has it.
    Computed {
        run: RunId,
        query: QueryId,
        computed: Computed,
    },
    /// What the configuration names, in place of what it named before.
    Configure(Known),
    /// The time of [`Driver::next_wake`] has come.
    Wake,
    /// No new runs from now on, and workers are told.
    Drain,
    /// The answer to [`Output::FindKeys`].
    KeysFound {
        shard: ShardId,
        number: u64,
        fact: KeyFact,
    },
    /// A message between a shard and the crew, which the wire has kept. No wire within a process does, so that this is
    /// never written down; it stands last, for the numbers of variants after a skipped one would not be those that are
    /// read.
    #[serde(skip)]
    Carried(Box<Carried>),
}

/// What is to be done. In order.
#[derive(Debug)]
pub enum Output {
    Append {
        shard: ShardId,
        id: AppendId,
        append: Append,
    },
    Frame {
        connection: ConnectionId,
        frame: connect_response::Frame,
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
    Publish {
        shard: ShardId,
        published: Published,
    },
    /// Not durable; for whoever looks on.
    Progress(v1::ProgressFrame),
    PutSnapshot {
        shard: ShardId,
        run: RunId,
        snapshot: Snapshot,
    },
    /// The run is not to be worked on: to be put down.
    Quarantine {
        shard: ShardId,
        run: RunId,
        quarantine: Quarantine,
    },
    PutAgents(Vec<AgentRow>),
    ForgetAgents(Vec<String>),
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
    /// Read a run that nobody in memory knows, and answer with [`Input::ChildFound`], under the same number. The answer to
    /// an older one is not believed.
    FindChild {
        child: RunId,
        number: u64,
    },
    /// Find this out about the shard's keys, and answer with [`Input::KeysFound`], under the same number.
    FindKeys {
        shard: ShardId,
        number: u64,
        query: KeyQuery,
    },
    /// Let retention sweep, but for the streams that are in use; `None` where it must not sweep now. In the writer's
    /// order, and answered with [`Input::Swept`].
    Sweep {
        shard: ShardId,
        retention: Option<Box<Retention>>,
    },
    /// Remove a run, if it may be. In the writer's order, and answered with [`Input::Removed`].
    Remove {
        shard: ShardId,
        reply: ReplyId,
        run: RunId,
    },
    /// Take a quarantine back that is not for damage: the shard is claimed next, and tries the run.
    Release {
        shard: ShardId,
        run: RunId,
    },
    /// The next sweep goes by the time that has passed, and the clock on the wall is ahead of that by so many milliseconds.
    Behind {
        shard: ShardId,
        by_ms: i64,
    },
    /// What a shard has read of its clocks: to be put down before whatever follows.
    PutReadings {
        shard: ShardId,
        readings: Vec<u8>,
    },
    /// Find this out. A spec is answered with [`Input::Answered`]; [`Driver::asks_for`] has what there is to say,
    /// [`find`](crate::find) does it. A verdict is answered with [`Input::Judged`].
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
        shard: ShardId,
        touched: Touched,
    },
    /// Another daemon owns the shard.
    Fenced {
        shard: ShardId,
    },
}

/// A message on its way between a shard and the crew, or between two shards.
#[derive(Clone, Debug)]
pub enum Carried {
    ToCrew {
        shard: ShardId,
        packet: Packet<ToCrew>,
    },
    ToShard {
        shard: ShardId,
        packet: Packet<ToShard>,
    },
    /// Between the shards of a run and of its child, which may be one.
    Kin(Kin),
    /// Between the shards of a key and of its run.
    Key(KeyTalk),
}

/// What a message between a shard and the crew, or between two shards, meets. Within a process it arrives at once.
pub trait Wire {
    /// Whether the message arrives now; `None` where the wire keeps it, to let it arrive later, or twice, or never.
    fn carry(&mut self, carried: Carried) -> Option<Carried>;

    /// A message that the wire did not keep reaches its end, after all that set out before it.
    fn arrives(&mut self, _carried: &Carried) {}
}

/// The wire within a process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Direct;

impl Wire for Direct {
    fn carry(&mut self, carried: Carried) -> Option<Carried> {
        Some(carried)
    }
}

/// A daemon's shards and its crew.
#[derive(Debug)]
pub struct Driver {
    ids: Vec<ShardId>,
    shards: BTreeMap<ShardId, Shard>,
    crew: Crew,
    /// Shards whose turns have to be ended.
    touched: BTreeSet<ShardId>,
    /// Messages that arrive in this turn, in order.
    arriving: VecDeque<Carried>,
    /// Outputs of a shard and of the crew, until they are passed on.
    of_shard: Vec<shard::Output>,
    of_crew: Vec<crew::Output>,
}

impl Driver {
    /// Shards that wait for their first [`Input::Recovered`], and a crew of nobody.
    #[must_use]
    pub fn new(config: &Config, shards: Vec<ShardId>) -> Self {
        let crew = crew::Config {
            heartbeat_ms: config.heartbeat_ms,
            missed_heartbeats: config.missed_heartbeats,
            ack_timeout_ms: config.ack_timeout_ms,
            gather_ms: config.reattach_ms,
        };
        Self {
            shards: shards
                .iter()
                .map(|shard| (*shard, Shard::new(config.clone(), *shard, shards.clone())))
                .collect(),
            crew: Crew::new(crew, shards.clone()),
            ids: shards,
            touched: BTreeSet::new(),
            arriving: VecDeque::new(),
            of_shard: Vec::new(),
            of_crew: Vec::new(),
        }
    }

    /// Handles one input at the given time, as one turn, and appends to `outputs` what is to be
    /// done, in order.
    pub fn handle(&mut self, now: Now, input: Input, outputs: &mut Vec<Output>) {
        self.handle_over(now, input, &mut Direct, outputs);
    }

    /// The same over a wire that need not be true.
    pub fn handle_over(&mut self, now: Now, input: Input, wire: &mut dyn Wire, outputs: &mut Vec<Output>) {
        let mut turn = Turn { driver: self, now, wire, outputs };
        turn.take(input);
        turn.end();
    }

    /// When [`Input::Wake`] is due.
    #[must_use]
    pub fn next_wake(&self) -> Option<Mono> {
        let shards = self.shards.values().filter_map(Shard::next_wake);
        let crew = self.crew.next_wake();
        shards.chain(crew).min()
    }

    /// The shard of a run or of a session's stream.
    #[must_use]
    pub fn home(&self, run: RunId) -> Option<ShardId> {
        home(run, &self.ids)
    }

    #[must_use]
    pub fn shard(&self, shard: ShardId) -> Option<&Shard> {
        self.shards.get(&shard)
    }

    #[must_use]
    pub fn crew(&self) -> &Crew {
        &self.crew
    }

    /// The state of a run in work.
    #[must_use]
    pub fn run(&self, run: RunId) -> Option<&RunState> {
        self.shards.get(&self.home(run)?)?.run(run)
    }

    /// Whether the run is unfinished and not in memory.
    #[must_use]
    pub fn rests(&self, run: RunId) -> bool {
        let shard = self.home(run).and_then(|home| self.shards.get(&home));
        shard.is_some_and(|shard| shard.rests(run))
    }

    /// What the run wants to know, with what the router has to be told; `None` where it wants to know nothing.
    #[must_use]
    pub fn asks_for(&self, run: RunId) -> Option<(&v1::Ask, &v1::SessionContext)> {
        self.shards.get(&self.home(run)?)?.asks_for(run)
    }

    /// Appends of all shards that were not answered yet.
    #[must_use]
    pub fn pending_appends(&self) -> usize {
        self.shards.values().map(Shard::pending_appends).sum()
    }

    /// Runs in work, of all shards.
    #[must_use]
    pub fn run_count(&self) -> usize {
        self.shards.values().map(Shard::run_count).sum()
    }

    /// Live leases of all shards whose workers are connected.
    pub fn attached(&self) -> impl Iterator<Item = Attached<'_>> {
        self.shards.values().flat_map(Shard::attached)
    }
}

/// One turn.
struct Turn<'a> {
    driver: &'a mut Driver,
    now: Now,
    wire: &'a mut dyn Wire,
    outputs: &'a mut Vec<Output>,
}

impl Turn<'_> {
    fn take(&mut self, input: Input) {
        match input {
            Input::Request { reply, request } => self.request(reply, request),
            Input::Forget { reply, run } => {
                self.shard_of(run, shard::Input::Forget { reply, run });
            }
            Input::Frame { connection, frame } => self.crew(crew::Input::Frame { connection, frame }),
            Input::Hosted { connection } => self.crew(crew::Input::Hosted { connection }),
            Input::Disconnected { connection } => self.crew(crew::Input::Disconnected { connection }),
            Input::Unread { connection } => self.crew(crew::Input::Unread { connection }),
            Input::Committed { shard, outcomes } => self.shard(shard, shard::Input::Committed { outcomes }),
            Input::CommitFailed { shard } => self.shard(shard, shard::Input::CommitFailed),
            Input::Recovered { shard, mut recovered } => {
                let agents = std::mem::take(&mut recovered.agents);
                self.crew(crew::Input::Remembered(agents));
                self.shard(shard, shard::Input::Recovered(recovered));
            }
            Input::SessionLoaded { stream, load, state } => {
                self.shard_of(stream, shard::Input::SessionLoaded { stream, load, state });
            }
            Input::RunLoaded { run, load, state } => {
                self.shard_of(run, shard::Input::RunLoaded { run, load, state });
            }
            Input::ChildFound { child, number, found } => {
                self.shard_of(child, shard::Input::ChildFound { child, number, found });
            }
            Input::FoundDamaged(damage) => {
                self.shard_of(damage.run, shard::Input::FoundDamaged(damage));
            }
            Input::Sweep { shard, retention, ages } if self.driver.shards.contains_key(&shard) => {
                self.shard(shard, shard::Input::Sweep { retention, ages });
            }
            Input::Sweep { shard, .. } => self.outputs.push(Output::Sweep { shard, retention: None }),
            Input::Swept { shard } => self.shard(shard, shard::Input::Swept),
            Input::Removed { reply, run, removal } => {
                self.shard_of(run, shard::Input::Removed { reply, run, removal });
            }
            Input::KeysFound { shard, number, fact } => {
                self.shard(shard, shard::Input::KeysFound { number, fact });
            }
            Input::Answered { run, query, answer } => {
                let answer = self.known_of(answer);
                self.shard_of(run, shard::Input::Answered { run, query, answer });
            }
            Input::Judged { run, query, verdict } => {
                let answer = QueryAnswer::Judged(verdict);
                self.shard_of(run, shard::Input::Answered { run, query, answer });
            }
            Input::Computed { run, query, mut computed } => {
                if let Computed::Prompt { absent, .. } = &mut computed {
                    absent.retain(|tool| self.driver.crew.is_missed(tool));
                    absent.sort_unstable();
                }
                let answer = QueryAnswer::Computed(computed);
                self.shard_of(run, shard::Input::Answered { run, query, answer });
            }
            Input::Configure(known) => self.crew(crew::Input::Configure(known)),
            Input::Carried(carried) => self.arrive(*carried),
            Input::Wake => {
                for shard in self.driver.ids.clone() {
                    self.shard(shard, shard::Input::Wake);
                }
                self.crew(crew::Input::Wake);
            }
            Input::Drain => {
                for shard in self.driver.ids.clone() {
                    self.shard(shard, shard::Input::Drain);
                }
                self.crew(crew::Input::Drain);
            }
        }
    }

    fn request(&mut self, reply: ReplyId, request: Request) {
        let mut absent = BTreeSet::new();
        let run = match &request {
            Request::Start(start) => {
                match self.driver.crew.vet(&start.agents, &start.commands, &start.resources) {
                    Ok(nobody_serves) => absent = nobody_serves,
                    Err(error) => {
                        let Request::Start(start) = request else { return };
                        let start = Box::new(start.start);
                        return self.reply(reply, StartReply::UnknownAgents { error, start });
                    }
                }
                start.run
            }
            Request::Wait { run }
            | Request::Health { run }
            | Request::Command { run, .. }
            | Request::Delete { run }
            | Request::Release { run } => *run,
            Request::AcceptTransition { session, .. }
            | Request::ChooseMode { session, .. }
            | Request::Forget { session, .. } => session_stream(session),
            Request::ImportSession(import) => session_stream(&import.session),
            Request::CheckAgents { agents, commands, resources } => {
                let batch = self.driver.crew.check(agents, commands, resources);
                return self.reply(reply, Answer::Checked(batch));
            }
            Request::Agents { names, run } => {
                let agents = self.driver.crew.agents_named(names, *run);
                return self.reply(reply, Answer::Agents(agents, false));
            }
            Request::ListAgents { after, most } => {
                let most = usize::try_from(*most).unwrap_or(usize::MAX);
                let (agents, more) = self.driver.crew.agents(after.as_deref(), most, AGENTS_PAGE_BYTES);
                return self.reply(reply, Answer::Agents(agents, more));
            }
        };
        self.shard_of(run, shard::Input::Request { reply, request, absent });
    }

    fn reply(&mut self, reply: ReplyId, answer: impl Into<Answer>) {
        self.outputs.push(Output::Reply { reply, answer: answer.into() });
    }

    /// What was found, with what the crew knows of the agent.
    fn known_of(&self, found: Found) -> QueryAnswer {
        let Found { spec, target, rerouted, default_spec } = found;
        let crew = &self.driver.crew;
        let target = target.map(|(routing, agent)| {
            let unavailable = crew.unavailable(self.now.mono, &routing.spec, &agent);
            RoutedSpec { routing, absent: crew.is_absent(&agent), agent, unavailable }
        });
        QueryAnswer::Routed(Routed { spec, target, rerouted, default_spec })
    }

    fn shard_of(&mut self, run: RunId, input: shard::Input) {
        if let Some(shard) = self.driver.home(run) {
            self.shard(shard, input);
        }
    }

    fn shard(&mut self, id: ShardId, input: shard::Input) {
        let Some(shard) = self.driver.shards.get_mut(&id) else { return };
        self.driver.touched.insert(id);
        shard.handle(self.now, input, &mut self.driver.of_shard);
        self.pass_on(id);
    }

    fn crew(&mut self, input: crew::Input) {
        self.driver.crew.handle(self.now, input, &mut self.driver.of_crew);
        let mut outputs = std::mem::take(&mut self.driver.of_crew);
        for output in outputs.drain(..) {
            match output {
                crew::Output::Frame { connection, frame } => {
                    self.outputs.push(Output::Frame { connection, frame });
                }
                crew::Output::Close { connection, reason } => {
                    self.outputs.push(Output::Close { connection, reason });
                }
                crew::Output::PutAgents(agents) => self.outputs.push(Output::PutAgents(agents)),
                crew::Output::ForgetAgents(names) => self.outputs.push(Output::ForgetAgents(names)),
                crew::Output::Packet { shard, packet } => {
                    let arrives = self.wire.carry(Carried::ToShard { shard, packet });
                    self.driver.arriving.extend(arrives);
                }
            }
        }
        self.driver.of_crew = outputs;
    }

    fn arrive(&mut self, carried: Carried) {
        match carried {
            Carried::ToCrew { shard, packet } => self.crew(crew::Input::Packet { shard, packet }),
            Carried::ToShard { shard, packet } => self.shard(shard, shard::Input::Packet(packet)),
            Carried::Kin(kin) => {
                let crew = &self.driver.crew;
                let absent = kin.agents().filter(|agent| crew.is_absent(agent)).cloned().collect();
                self.shard_of(kin.to(), shard::Input::Kin { kin, absent });
            }
            Carried::Key(talk) => self.shard_of(talk.to(), shard::Input::Key(talk)),
        }
    }

    /// Passes on what a shard wants done.
    fn pass_on(&mut self, shard: ShardId) {
        let mut outputs = std::mem::take(&mut self.driver.of_shard);
        for output in outputs.drain(..) {
            let output = match output {
                shard::Output::Packet(packet) => {
                    let arrives = self.wire.carry(Carried::ToCrew { shard, packet });
                    self.driver.arriving.extend(arrives);
                    continue;
                }
                shard::Output::Kin(kin) => {
                    let arrives = self.wire.carry(Carried::Kin(kin));
                    self.driver.arriving.extend(arrives);
                    continue;
                }
                shard::Output::Key(talk) => {
                    let arrives = self.wire.carry(Carried::Key(talk));
                    self.driver.arriving.extend(arrives);
                    continue;
                }
                shard::Output::FindKeys { number, query } => Output::FindKeys { shard, number, query },
                shard::Output::FindChild { child, number } => Output::FindChild { child, number },
                shard::Output::Append { id, append } => Output::Append { shard, id, append },
                shard::Output::Reply { reply, answer } => Output::Reply { reply, answer },
                shard::Output::Publish(published) => Output::Publish { shard, published },
                shard::Output::Progress(progress) => Output::Progress(progress),
                shard::Output::PutSnapshot { run, snapshot } => Output::PutSnapshot { shard, run, snapshot },
                shard::Output::Quarantine { run, quarantine } => {
                    Output::Quarantine { shard, run, quarantine }
                }
                shard::Output::LoadSession { stream, load } => Output::LoadSession { stream, load },
                shard::Output::LoadRun { run, load } => Output::LoadRun { run, load },
                shard::Output::Sweep { retention } => Output::Sweep { shard, retention },
                shard::Output::Remove { reply, run } => Output::Remove { shard, reply, run },
                shard::Output::Release { run } => Output::Release { shard, run },
                shard::Output::Behind { by_ms } => Output::Behind { shard, by_ms },
                shard::Output::PutReadings { readings } => Output::PutReadings { shard, readings },
                shard::Output::Query { run, query, asked } => Output::Query { run, query, asked },
                shard::Output::ScriptOver { run } => Output::ScriptOver { run },
                shard::Output::Restart { touched } => Output::Restart { shard, touched },
                shard::Output::Fenced => Output::Fenced { shard },
            };
            self.outputs.push(output);
        }
        self.driver.of_shard = outputs;
    }

    /// Ends the turns of the shards that had one, and those of the shards that this gives one.
    fn end(&mut self) {
        loop {
            while let Some(carried) = self.driver.arriving.pop_front() {
                self.wire.arrives(&carried);
                self.arrive(carried);
            }
            let Some(id) = self.driver.touched.pop_first() else { return };
            let Some(shard) = self.driver.shards.get_mut(&id) else { continue };
            shard.end_turn(&mut self.driver.of_shard);
            self.pass_on(id);
        }
    }
}
