//! [`Crew`]: what comes in and what goes out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use capataz_contracts::Violation;
use capataz_contracts::v1::{self, connect_request::Frame as Heard, connect_response::Frame};
use capataz_contracts::version::{ContractVersion, negotiate};
use capataz_policy::codes;
use capataz_policy::planted::{self, Fault};
use capataz_policy::registry::Batch;
use capataz_store::{AgentRow, RunId, ShardId};
use prost::Message as _;

use crate::agents::Agents;
use crate::clock::{Mono, Now, stood_still};
use crate::connections::Connections;
use crate::door::Reserved;
use crate::limits::Limits;
use crate::link::{End, Packet};
use crate::protocol::{ConnectionId, Departure, Lease, OfferId, ToCrew, ToShard, home};
use crate::queues::{Place, Queues};
use crate::slots::Slots;
use crate::standing::Standings;
use crate::{AgentSnapshot, Known, KnownAgent};

/// Times. Milliseconds.
#[derive(Clone, Debug)]
pub struct Config {
    /// A worker's frame is due at least this often, and so is one of ours to it, and a message to each shard.
    pub heartbeat_ms: i64,
    /// Heartbeats that may be missed in a row before either end takes the other for lost (seed 000, contract 3; CONTRACTS §1.3).
    pub missed_heartbeats: i64,
    /// Time in which a worker acknowledges an assignment; the shards' rule, told to workers here.
    pub ack_timeout_ms: i64,
    /// After a shard was opened, an agent that nobody knows may for so long be one whose worker has not come back yet; and an
    /// agent that nobody serves is for so long one whose worker is coming back.
    pub gather_ms: i64,
}

impl Config {
    /// Silence after which either end takes the connection for dead.
    pub(crate) fn silence_limit_ms(&self) -> i64 {
        self.heartbeat_ms.saturating_mul(self.missed_heartbeats)
    }
}

/// What the crew is told.
#[derive(Clone, Debug)]
pub enum Input {
    /// A validated frame of a worker; the first one of a connection is its hello.
    Frame {
        connection: ConnectionId,
        frame: Heard,
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
    Packet {
        shard: ShardId,
        packet: Packet<ToCrew>,
    },
    /// What the configuration names, in place of what it named before.
    Configure(Known),
    /// Agents that the store remembers, beside those that are known already.
    Remembered(Vec<KnownAgent>),
    /// The time of [`Crew::next_wake`] has come.
    Wake,
    /// Nothing new is begun from now on, and workers are told.
    Drain,
}

/// What the crew wants done. In order.
#[derive(Clone, Debug)]
pub enum Output {
    Frame {
        connection: ConnectionId,
        frame: Frame,
    },
    Close {
        connection: ConnectionId,
        reason: CloseReason,
    },
    /// Remember these agents.
    PutAgents(Vec<AgentRow>),
    /// Remember the agents of these names no more.
    ForgetAgents(Vec<String>),
    Packet {
        shard: ShardId,
        packet: Packet<ToShard>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The first frame was not a hello, or a second hello came.
    Protocol,
    /// Another connection has the same worker id.
    Replaced,
    /// No frame for too long.
    Silent,
    /// Too much of what the worker was sent was left unread.
    Unread,
    /// A shard that the worker has to do with is read again from the store.
    Restarting,
    /// The hello has names that only the daemon's own hosts may use.
    Reserved(Vec<Violation>),
    /// The hello's agents have no room beside all that are served.
    TooManyAgents,
    /// The worker acknowledged nothing of what it was given, time after time. It may come back then.
    SentAway { retry_after_ms: i64 },
}

/// One shard, as the crew sees it.
#[derive(Default)]
pub(crate) struct Peer {
    pub(crate) end: End,
    /// It is at work, and not being read.
    pub(crate) is_open: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    Connection(ConnectionId),
    /// The connection's worker gets something again that it did not get.
    Again(ConnectionId),
    Beat,
}

/// Workers, agents and slots of one daemon.
pub struct Crew {
    pub(crate) config: Config,
    pub(crate) now: Now,
    /// When the first input came.
    pub(crate) began: Option<Mono>,
    pub(crate) draining: bool,
    pub(crate) shards: Vec<ShardId>,
    pub(crate) peers: BTreeMap<ShardId, Peer>,
    pub(crate) connections: Connections,
    pub(crate) agents: Agents,
    pub(crate) queues: Queues,
    pub(crate) slots: Slots,
    pub(crate) standings: Standings,
    pub(crate) limits: Limits,
    pub(crate) reserved: Reserved,
    /// Connections of the daemon's own hosts.
    pub(crate) hosts: BTreeSet<ConnectionId>,
    /// Connections of workers that acknowledge nothing.
    pub(crate) send_away: BTreeSet<ConnectionId>,
    /// Connections that were closed and whose ends have not been seen yet.
    pub(crate) closed: BTreeSet<ConnectionId>,
    /// Agents for which a slot or a task has come.
    pub(crate) changed: BTreeSet<Arc<str>>,
    pub(crate) gathering_until: Mono,
    pub(crate) timers: BTreeSet<(Mono, Timer)>,
    pub(crate) outputs: Vec<Output>,
}

impl std::fmt::Debug for Crew {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Crew").field("connections", &self.connections.len()).finish_non_exhaustive()
    }
}

impl Crew {
    /// A crew that serves these shards, none of which has spoken yet.
    #[must_use]
    pub fn new(config: Config, shards: Vec<ShardId>) -> Self {
        Self {
            config,
            now: Now::default(),
            began: None,
            draining: false,
            peers: shards.iter().map(|shard| (*shard, Peer::default())).collect(),
            shards,
            connections: Connections::default(),
            agents: Agents::default(),
            queues: Queues::default(),
            slots: Slots::default(),
            standings: Standings::default(),
            limits: Limits::default(),
            reserved: Reserved::default(),
            hosts: BTreeSet::new(),
            send_away: BTreeSet::new(),
            closed: BTreeSet::new(),
            changed: BTreeSet::new(),
            gathering_until: Mono::default(),
            timers: BTreeSet::new(),
            outputs: Vec::new(),
        }
    }

    /// Handles one input at the given time and appends to `outputs` what is to be done, in order.
    pub fn handle(&mut self, now: Now, input: Input, outputs: &mut Vec<Output>) {
        self.forgive_our_own_stall(now.mono);
        self.now = now.not_before(self.now);
        self.began.get_or_insert(self.now.mono);
        std::mem::swap(&mut self.outputs, outputs);
        match input {
            Input::Frame { connection, frame } => self.frame(connection, frame),
            Input::Hosted { connection } => {
                self.hosts.insert(connection);
            }
            Input::Disconnected { connection } => {
                self.closed.remove(&connection);
                self.hosts.remove(&connection);
                self.leave(connection, Departure::Gone);
            }
            Input::Unread { connection } => {
                if self.connections.get(connection).is_some() {
                    self.leave(connection, Departure::Gone);
                }
                self.close(connection, CloseReason::Unread);
            }
            Input::Packet { shard, packet } => self.packet(shard, packet),
            Input::Configure(known) => self.configure(known),
            Input::Remembered(agents) => self.remembered(agents),
            Input::Wake => {}
            Input::Drain => self.drain(),
        }
        self.fire_timers();
        self.send_away();
        self.offer_slots();
        std::mem::swap(&mut self.outputs, outputs);
    }

    /// What workers said meanwhile is still to come.
    fn forgive_our_own_stall(&mut self, now: Mono) {
        let stall = stood_still(self.now.mono, now, self.next_wake());
        if let Some(stall) = stall.filter(|_| !planted::is(Fault::StallTakenForSilence)) {
            self.connections.forgive(stall);
        }
    }

    /// When [`Input::Wake`] is due.
    #[must_use]
    pub fn next_wake(&self) -> Option<Mono> {
        let timer = self.timers.first().map(|(at, _)| *at);
        timer.into_iter().chain(self.limits.next_end()).min()
    }

    /// Known agents, by name: at most so many of those after the name, and of so many bytes, but one at least; and whether
    /// there are more.
    #[must_use]
    pub fn agents(&self, after: Option<&str>, most: usize, most_bytes: usize) -> (Vec<AgentSnapshot>, bool) {
        let running = self.slots.running();
        let mut page = Vec::new();
        let mut bytes = 0_usize;
        for (name, known, workers) in self.agents.after(after) {
            // One that nobody may name any more is there for what still waits for it.
            let is_over = self.queues.waiting(name) == 0 && !running.contains_key(name);
            if is_over && !self.agents.may_be_named(name) {
                continue;
            }
            bytes = bytes.saturating_add(known.agent.encoded_len());
            if page.len() >= most || (bytes > most_bytes && !page.is_empty()) {
                return (page, true);
            }
            page.push(self.snapshot(name, known, workers, &running));
        }
        (page, false)
    }

    /// Those of the agents that are known, with the turn of the run at each of them.
    #[must_use]
    pub fn agents_named(&self, names: &[String], run: RunId) -> Vec<AgentSnapshot> {
        let running = self.slots.running();
        let place = home(run, &self.shards).map(|shard| Place { shard, run });
        let known = names.iter().filter_map(|name| self.agents.named(name));
        let snapshot = |(name, known, workers): (&Arc<str>, &KnownAgent, usize)| AgentSnapshot {
            ahead: place.and_then(|place| self.queues.ahead(name, place)),
            ..self.snapshot(name, known, workers, &running)
        };
        known.map(snapshot).collect()
    }

    fn snapshot(
        &self,
        name: &Arc<str>,
        known: &KnownAgent,
        workers: usize,
        running: &BTreeMap<Arc<str>, u32>,
    ) -> AgentSnapshot {
        AgentSnapshot {
            known: known.clone(),
            workers: u32::try_from(workers).unwrap_or(u32::MAX),
            running: running.get(name).copied().unwrap_or(0),
            queued: self.queues.waiting(name),
            waiting_since: self.queues.waiting_since(name),
            ahead: None,
            held_for_ms: self.limits.until(name, self.now.mono).map(|until| until.since(self.now.mono)),
        }
    }

    /// Which of these names are known.
    #[must_use]
    pub fn check(&self, agents: &[String], commands: &[String], resources: &[String]) -> Batch {
        self.agents.registry().check_all(agents, commands, resources)
    }

    /// Those of the agents that nobody serves now.
    ///
    /// # Errors
    /// AGENT_NOT_FOUND or AGENTS_VALIDATION_FAILED for names that nobody knows.
    pub fn vet(
        &self,
        agents: &BTreeSet<String>,
        commands: &[String],
        resources: &[String],
    ) -> Result<BTreeSet<String>, Box<v1::Error>> {
        let is_known = |name: &String| self.agents.known(name).is_some();
        if !commands.is_empty() || !resources.is_empty() || !agents.iter().all(is_known) {
            let names: Vec<&String> = agents.iter().collect();
            if let Some(error) = self.agents.registry().check_all(&names, commands, resources).error() {
                return Err(Box::new(error));
            }
        }
        Ok(agents.iter().filter(|agent| self.agents.is_absent(agent)).cloned().collect())
    }

    /// Whether nobody serves the agent now.
    #[must_use]
    pub fn is_absent(&self, agent: &str) -> bool {
        self.agents.is_absent(agent)
    }

    /// Whether nobody has served the agent for so long that its worker is not on its way back ([`Config::gather_ms`]).
    #[must_use]
    pub fn is_missed(&self, agent: &str) -> bool {
        let Some(left) = self.agents.unserved_since(agent) else { return false };
        let since = self.began.unwrap_or(self.now.mono).max(left);
        self.now.mono >= since.plus(self.config.gather_ms)
    }

    /// Why no worker will ever answer for the spec that the agent serves; `None` where one may.
    #[must_use]
    pub fn unavailable(&self, now: Mono, spec: &str, agent: &str) -> Option<v1::Error> {
        let Some(known) = self.agents.known(agent) else {
            // After a start its worker may not have come back yet.
            return (now >= self.gathering_until).then(|| {
                let message = format!("spec {spec:?} is served by {agent:?}, an agent that nobody knows");
                codes::error(codes::SPEC_NOT_AVAILABLE, message)
            });
        };
        let theirs = known.contract_version.as_str();
        let ours = capataz_contracts::spec::VERSION;
        let refused = match theirs.parse::<ContractVersion>() {
            Ok(theirs) => negotiate(&ours, &theirs).err().map(|violation| violation.message),
            // Agents of other kinds need not say a version.
            Err(_) if theirs.is_empty() => None,
            Err(_) => Some(format!("{theirs:?} is not a version")),
        };
        refused.map(|why| {
            let message = format!("agent {agent:?} of spec {spec:?} speaks another contract: {why}");
            codes::error(codes::INCOMPATIBLE_VERSION, message)
        })
    }

    /// The slots in use, for invariant checks: the connection, the shard, and whether it is taken.
    pub fn slots(&self) -> impl Iterator<Item = (OfferId, ConnectionId, ShardId, bool)> {
        self.slots.iter().map(|(offer, slot)| (offer, slot.connection, slot.place.shard, slot.is_taken))
    }

    /// What waits for an agent that is named no more goes on waiting, and what is at work of it goes on to its end.
    fn configure(&mut self, Known { agents, commands, resources, reserved }: Known) {
        let unnamed = self.agents.configure(agents, commands, resources, &self.hosts, self.now.wall);
        if !unnamed.forgotten.is_empty() {
            self.outputs.push(Output::ForgetAgents(unnamed.forgotten));
        }
        if !unnamed.known.is_empty() {
            let row = |known: KnownAgent| AgentRow {
                name: known.agent.name.clone(),
                agent: known.agent.encode_to_vec().into(),
                last_seen: self.now.wall,
            };
            self.outputs.push(Output::PutAgents(unnamed.known.into_iter().map(row).collect()));
        }
        self.reserved = reserved;
        // Who serves what the daemon serves itself by now keeps what it has at work, and gets no more of it meanwhile.
        for id in self.connections.ids() {
            if self.hosts.contains(&id) {
                continue;
            }
            if let Some(connection) = self.connections.get_mut(id) {
                connection.withhold(&self.reserved.agents);
            }
            self.refresh_readiness(id);
        }
    }

    fn remembered(&mut self, agents: Vec<KnownAgent>) {
        for agent in agents {
            self.agents.recall(agent);
        }
        // What was stored before there was a limit.
        self.make_room(&[]);
    }

    fn drain(&mut self) {
        self.draining = true;
        for connection in self.connections.ids() {
            self.send(connection, Frame::Drain(v1::Drain {}));
        }
    }

    fn fire_timers(&mut self) {
        while let Some((at, timer)) = self.timers.first().copied().filter(|(at, _)| *at <= self.now.mono) {
            self.timers.remove(&(at, timer));
            match timer {
                Timer::Connection(connection) => self.look_after(connection),
                Timer::Again(connection) => self.refresh_readiness(connection),
                Timer::Beat => self.beat(),
            }
        }
        while let Some(agent) = self.limits.pop_over(self.now.mono) {
            self.changed.insert(agent);
        }
    }

    pub(crate) fn after(&self, milliseconds: i64) -> Mono {
        self.now.mono.plus(milliseconds)
    }

    pub(crate) fn send(&mut self, connection: ConnectionId, frame: Frame) {
        self.outputs.push(Output::Frame { connection, frame });
    }

    pub(crate) fn tell(&mut self, shard: ShardId, body: ToShard) {
        let Some(peer) = self.peers.get_mut(&shard).filter(|peer| peer.is_open) else { return };
        self.outputs.push(Output::Packet { shard, packet: peer.end.pack(body) });
    }

    /// Whether the shard is at work.
    pub(crate) fn is_open(&self, shard: ShardId) -> bool {
        self.peers.get(&shard).is_some_and(|peer| peer.is_open)
    }

    pub(crate) fn home(&self, lease: &Lease) -> Option<ShardId> {
        home(lease.run, &self.shards)
    }
}
