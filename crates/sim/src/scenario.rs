//! What a world is made of: sizes, delays and how often things go wrong. Drawn from the seed.

use capataz_contracts::v1;
use capataz_crew::{Known, KnownAgent, Reserved};
use capataz_engine::BROWSER_AGENT;
use capataz_shard::IdleSessions;
use capataz_shard::shard::Config;

use capataz_store::ShardId;

use crate::rng::Rng;
use crate::schemas::declared_by;

/// Virtual time at which every world begins. Unix milliseconds.
pub const EPOCH_MS: i64 = 1_700_000_000_000;
/// Virtual time after the end of faults in which everything has to end. Milliseconds.
///
/// Three waves of tasks with at most 4 attempts, 2 minutes of timeout and some grace each, one after the other on the
/// only slot of their agent, take less.
pub const CALM_MS: i64 = 3_600_000;

#[derive(Clone, Debug)]
pub struct Scenario {
    pub core: Config,
    /// Shards of the daemon.
    pub shards: usize,
    /// How often, of a thousand, a message between a shard and the crew is lost, comes twice, or out of order.
    pub wire_faults: u32,
    /// How long such a message usually takes; with 0 it arrives within its turn. Milliseconds.
    pub wire_usual: i64,
    pub ring_bytes: usize,
    /// Agents are named by their index; worker 0 serves all of them, and those of the specs.
    pub agents: usize,
    /// How many sessions asks belong to.
    pub sessions: usize,
    /// So many of a hundred runs are plans, and so many more are asks; the others are scripts.
    pub plans: u32,
    pub asks: u32,
    pub workers: Vec<WorkerShape>,
    pub readers: usize,
    /// Inputs that are delivered before the faults stop.
    pub inputs: u64,
    /// The clock of the daemon's machine is set while it runs, forwards and backwards.
    pub has_clock_jumps: bool,
    /// The machine is set back to an earlier snapshot of itself now and then.
    pub restores: bool,
    /// The disk damages rows and snapshots now and then.
    pub damages: bool,
    /// The daemon's process stands still now and then.
    pub stalls: bool,
    /// Retention removes keys, and not only runs.
    pub forgets_keys: bool,
    /// Runs that clients start at most.
    pub runs: usize,
    /// How often, of a thousand: a crash at each place where one can happen.
    pub crashes: u32,
    /// … a commit that fails, at each commit.
    pub commit_faults: u32,
    /// … a cut, at each frame of a worker's stream.
    pub cuts: u32,
    /// … an answer that never reaches its client.
    pub lost_answers: u32,
    /// How often, of a hundred, an assignment meets a worker that does something else than its work.
    pub misbehaviour: u32,
    pub network_usual: i64,
    pub network_worst: i64,
    pub disk_usual: i64,
    pub disk_worst: i64,
    /// Whether an agent is taken out of the daemon's configuration now and then, and comes back. It has a host then.
    pub reconfigures: bool,
    /// How long the shards' thread is usually busy with other things when the writer has news.
    pub news_usual: i64,
    /// Mean time between two acts of the clients.
    pub client_pause: i64,
}

#[derive(Clone, Debug)]
pub struct WorkerShape {
    pub agents: Vec<String>,
    pub slots: u32,
    pub max_concurrency: u32,
    /// It performs the actions of scripts, and dies with the daemon that it is a part of.
    pub is_host: bool,
}

impl Scenario {
    #[must_use]
    pub fn draw(rng: &mut Rng) -> Self {
        let agents = 1 + rng.below(3);
        let mut workers = Vec::new();
        for index in 0..2 + rng.below(3) {
            let all = (0..agents).map(agent_name).chain((0..SERVED_SPECS).map(spec_agent));
            let served: Vec<String> = all.filter(|_| index == 0 || rng.percent(60)).collect();
            workers.push(WorkerShape {
                agents: if served.is_empty() { vec![agent_name(0)] } else { served },
                slots: 1 + u32::try_from(rng.below(4)).unwrap_or(0),
                max_concurrency: 1 + u32::try_from(rng.below(3)).unwrap_or(0),
                is_host: false,
            });
        }
        // A second host has none of the pages of the first.
        for _ in 0..if rng.percent(35) { 2 } else { 1 } {
            workers.push(WorkerShape {
                agents: vec![BROWSER_AGENT.to_owned()],
                slots: 1 + u32::try_from(rng.below(3)).unwrap_or(0),
                max_concurrency: 4,
                is_host: true,
            });
        }
        let reconfigures = rng.percent(20);
        if reconfigures {
            workers.push(WorkerShape {
                agents: vec![RECONFIGURED.to_owned(), agent_name(1)],
                slots: 1 + u32::try_from(rng.below(3)).unwrap_or(0),
                max_concurrency: 1 + u32::try_from(rng.below(3)).unwrap_or(0),
                is_host: true,
            });
        }
        let (plans, asks) = [(100, 0), (40, 35), (10, 75), (15, 15), (20, 20)][rng.below(5)];
        let slow_network = rng.percent(15);
        let slow_disk = rng.percent(15);
        // A copy of the machine would have the damage of its time.
        let restores = rng.percent(15);
        Self {
            core: core_config(rng),
            shards: [1, 1, 2, 8][rng.below(4)],
            wire_faults: if rng.percent(60) { 0 } else { 1 + u32::try_from(rng.below(12)).unwrap_or(0) },
            wire_usual: if rng.percent(60) { 0 } else { rng.between(1, 40) },
            ring_bytes: if rng.percent(50) { 64 + rng.below(4_000) } else { 1 << 20 },
            agents,
            sessions: 1 + rng.below(3),
            plans,
            asks,
            workers,
            readers: 2 + rng.below(3),
            inputs: 240 + rng.below(240) as u64,
            has_clock_jumps: rng.percent(15),
            restores,
            damages: !restores && rng.percent(20),
            stalls: rng.percent(15),
            forgets_keys: rng.percent(30),
            runs: if plans == 100 { 2 + rng.below(6) } else { 4 + rng.below(12) },
            crashes: if rng.percent(10) { 0 } else { 5 + u32::try_from(rng.below(25)).unwrap_or(0) },
            commit_faults: if rng.percent(30) { 0 } else { u32::try_from(rng.below(60)).unwrap_or(0) },
            cuts: if rng.percent(20) { 0 } else { u32::try_from(rng.below(40)).unwrap_or(0) },
            lost_answers: u32::try_from(rng.below(150)).unwrap_or(0),
            misbehaviour: if rng.percent(15) { 0 } else { 20 + u32::try_from(rng.below(50)).unwrap_or(0) },
            network_usual: if slow_network { 800 } else { 20 },
            network_worst: 9_000,
            disk_usual: if slow_disk { 300 } else { 15 },
            disk_worst: 2_500,
            reconfigures,
            news_usual: if rng.percent(20) { 250 } else { 4 },
            client_pause: 200 + rng.between(0, 2_500),
        }
    }

    #[must_use]
    pub fn shards(&self) -> Vec<ShardId> {
        (0..self.shards).filter_map(|shard| u32::try_from(shard).ok()).map(ShardId).collect()
    }

    /// What the configuration names: every agent of the world is declared, but for the one that it says something else of.
    #[must_use]
    pub fn known(&self, naming: Naming) -> Known {
        let unnamed = naming.unnamed();
        let declared = |agent| KnownAgent { agent, source: v1::AgentSource::Declared, last_seen: None };
        let names = (0..self.agents).map(agent_name).chain((0..=SERVED_SPECS).map(spec_agent));
        let names = names.chain([BROWSER_AGENT.to_owned()]).filter(|name| Some(&**name) != unnamed);
        let names = names.map(|name| agent(&name, 1));
        let foreign =
            v1::Agent { contract_version: "2.0.0".to_owned(), ..agent(&spec_agent(FOREIGN_SPEC), 1) };
        let own = (naming == Naming::Own).then(|| RECONFIGURED.to_owned());
        let reserved = Reserved { agents: own.into_iter().collect(), ..Reserved::default() };
        Known { agents: names.chain([foreign]).map(declared).collect(), reserved, ..Known::default() }
    }
}

/// The bytes of what may wait for sessions, where that is little: of three commands, but for the largest ones, of which each has
/// room.
pub const SCARCE_BYTES: u64 = 1_000;

fn core_config(rng: &mut Rng) -> Config {
    let config = Config {
        heartbeat_ms: 2_000 + rng.between(0, 4_000),
        ack_timeout_ms: 3_000 + rng.between(0, 7_000),
        reattach_ms: 3_000 + rng.between(0, 12_000),
        max_unfinished_runs: if rng.percent(10) { 2 } else { 1_000 },
        max_pending_appends: if rng.percent(10) { 3 } else { 8_192 },
        snapshot_every: if rng.percent(70) { 2 + rng.draw() % 20 } else { 2_000 },
        session_snapshot_every: if rng.percent(70) { 1 + rng.draw() % 6 } else { 64 },
        idle_sessions: idle_sessions(rng),
        max_waiters_per_run: if rng.percent(20) { 1 + rng.below(2) } else { 1_024 },
        max_waiting_per_session: if rng.percent(10) { 2 } else { 256 },
        max_bytes_per_run: if rng.percent(10) { 1_500 + rng.draw() % 12_000 } else { u64::MAX },
        rest_after_ms: if rng.percent(60) { rng.between(0, 2_000) } else { 10_000 },
        max_events_per_run: if rng.percent(10) { 15 + rng.draw() % 40 } else { 1_000_000 },
        ..Config::default()
    };
    // Where no session stays in memory that nobody asks anything, almost all that is asked of one waits until it is read.
    let is_scarce = config.idle_sessions.sessions == 0;
    let max_waiting_bytes = if is_scarce { SCARCE_BYTES } else { config.max_waiting_bytes };
    Config { max_waiting_bytes, ..config }
}

/// Few sessions, or few bytes of them: as many as one or two short ones have.
fn idle_sessions(rng: &mut Rng) -> IdleSessions {
    if rng.percent(50) {
        IdleSessions { sessions: rng.below(3), bytes: u64::MAX }
    } else {
        IdleSessions { sessions: 1_024, bytes: 4_000 }
    }
}

/// The agent that is taken out of the configuration where there is one.
pub const RECONFIGURED: &str = "agent-0";

/// What the configuration says of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Naming {
    #[default]
    Declared,
    /// Nothing.
    Absent,
    /// The daemon serves it itself, and nobody else does.
    Own,
}

impl Naming {
    /// The agent that the configuration is without.
    #[must_use]
    pub fn unnamed(self) -> Option<&'static str> {
        (self == Self::Absent).then_some(RECONFIGURED)
    }
}

#[must_use]
pub fn agent_name(index: usize) -> String {
    format!("agent-{index}")
}

/// Specs whose agents workers serve. That of the next one is declared and never served.
pub const SERVED_SPECS: usize = 3;
/// A spec whose agent speaks another version of the contract.
pub const FOREIGN_SPEC: usize = 5;

/// The agent of a spec.
#[must_use]
pub fn spec_agent(index: usize) -> String {
    format!("sage-{index}")
}

#[must_use]
pub fn agent(name: &str, max_concurrency: u32) -> v1::Agent {
    v1::Agent {
        name: name.to_owned(),
        category: "utility".to_owned(),
        kind: v1::AgentKind::Task as i32,
        contract_version: "1.0.0".to_owned(),
        max_concurrency,
        output_schema: declared_by(name).to_owned(),
        cancel_is_final: is_final(name),
        ..v1::Agent::default()
    }
}

/// Whether the work of this agent cannot go on once it was told to end.
#[must_use]
pub fn is_final(agent: &str) -> bool {
    agent == agent_name(1)
}
