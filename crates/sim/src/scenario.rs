//! What a world is made of: sizes, delays and how often things go wrong. Drawn from the seed.

use capataz_contracts::v1;
use capataz_runtime::core::{CoreConfig, Known, KnownAgent};

use crate::rng::Rng;

/// Virtual time at which every world begins. Unix milliseconds.
pub const EPOCH_MS: i64 = 1_700_000_000_000;
/// Virtual time after the end of faults in which everything has to end. Milliseconds.
///
/// Three waves of tasks with at most 4 attempts, 2 minutes of timeout and some grace each, one after the other on the
/// only slot of their agent, take less.
pub const CALM_MS: i64 = 3_600_000;

#[derive(Clone, Debug)]
pub struct Scenario {
    pub core: CoreConfig,
    pub ring_bytes: usize,
    /// Agents are named by their index; worker 0 serves all of them.
    pub agents: usize,
    pub workers: Vec<WorkerShape>,
    pub readers: usize,
    /// Inputs that are delivered before the faults stop.
    pub inputs: u64,
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
    /// Mean time between two acts of the clients.
    pub client_pause: i64,
}

#[derive(Clone, Debug)]
pub struct WorkerShape {
    pub agents: Vec<usize>,
    pub slots: u32,
    pub max_concurrency: u32,
}

impl Scenario {
    #[must_use]
    pub fn draw(rng: &mut Rng) -> Self {
        let agents = 1 + rng.below(3);
        let mut workers = Vec::new();
        for index in 0..2 + rng.below(3) {
            let served: Vec<usize> = (0..agents).filter(|_| index == 0 || rng.percent(60)).collect();
            workers.push(WorkerShape {
                agents: if served.is_empty() { vec![0] } else { served },
                slots: 1 + u32::try_from(rng.below(4)).unwrap_or(0),
                max_concurrency: 1 + u32::try_from(rng.below(3)).unwrap_or(0),
            });
        }
        let slow_network = rng.percent(15);
        let slow_disk = rng.percent(15);
        Self {
            core: core_config(rng),
            ring_bytes: if rng.percent(50) { 64 + rng.below(4_000) } else { 1 << 20 },
            agents,
            workers,
            readers: 2 + rng.below(3),
            inputs: 240 + rng.below(240) as u64,
            runs: 2 + rng.below(6),
            crashes: if rng.percent(10) { 0 } else { 5 + u32::try_from(rng.below(25)).unwrap_or(0) },
            commit_faults: if rng.percent(30) { 0 } else { u32::try_from(rng.below(60)).unwrap_or(0) },
            cuts: if rng.percent(20) { 0 } else { u32::try_from(rng.below(40)).unwrap_or(0) },
            lost_answers: u32::try_from(rng.below(150)).unwrap_or(0),
            misbehaviour: if rng.percent(15) { 0 } else { 20 + u32::try_from(rng.below(50)).unwrap_or(0) },
            network_usual: if slow_network { 800 } else { 20 },
            network_worst: 9_000,
            disk_usual: if slow_disk { 300 } else { 15 },
            disk_worst: 2_500,
            client_pause: 200 + rng.between(0, 2_500),
        }
    }

    /// What the configuration names: every agent of the world is declared.
    #[must_use]
    pub fn known(&self) -> Known {
        let known =
            |index| KnownAgent { agent: agent(index, 1), source: v1::AgentSource::Declared, last_seen: None };
        Known { agents: (0..self.agents).map(known).collect(), ..Known::default() }
    }
}

fn core_config(rng: &mut Rng) -> CoreConfig {
    CoreConfig {
        heartbeat_ms: 2_000 + rng.between(0, 4_000),
        ack_timeout_ms: 3_000 + rng.between(0, 7_000),
        reattach_ms: 3_000 + rng.between(0, 12_000),
        max_unfinished_runs: if rng.percent(10) { 2 } else { 1_000 },
        max_pending_appends: if rng.percent(10) { 3 } else { 8_192 },
        snapshot_every: if rng.percent(70) { 2 + rng.draw() % 20 } else { 2_000 },
        max_events_per_run: if rng.percent(10) { 15 + rng.draw() % 40 } else { 1_000_000 },
        ..CoreConfig::default()
    }
}

#[must_use]
pub fn agent_name(index: usize) -> String {
    format!("agent-{index}")
}

#[must_use]
pub fn agent(index: usize, max_concurrency: u32) -> v1::Agent {
    v1::Agent {
        name: agent_name(index),
        category: "utility".to_owned(),
        kind: v1::AgentKind::Task as i32,
        contract_version: "1.0.0".to_owned(),
        max_concurrency,
        ..v1::Agent::default()
    }
}
