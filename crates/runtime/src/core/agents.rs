//! The agents that are known, their queues, and the connections that can take a task of theirs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use capataz_contracts::v1;
use capataz_engine::TaskRef;
use capataz_policy::registry::Registry;
use capataz_store::{Millis, RunId};

use super::ConnectionId;

/// An agent by its place in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AgentId(usize);

/// An agent that plans may name.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownAgent {
    pub agent: v1::Agent,
    pub source: v1::AgentSource,
    pub last_seen: Option<Millis>,
}

/// What plans may name.
#[derive(Clone, Debug, Default)]
pub struct Known {
    pub agents: Vec<KnownAgent>,
    /// Without the prefix `/elsabro:`.
    pub commands: BTreeSet<String>,
    /// Skills and profiles.
    pub resources: BTreeSet<String>,
}

/// An agent with its load.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentSnapshot {
    pub known: KnownAgent,
    pub workers: u32,
    pub running: u32,
    pub queued: u32,
}

#[derive(Default)]
struct Entry {
    known: Option<KnownAgent>,
    /// Connections that serve the agent.
    workers: BTreeSet<ConnectionId>,
    /// Those of them with a free slot.
    ready: BTreeSet<ConnectionId>,
    /// Whose turn is over, so that work is spread.
    last: Option<ConnectionId>,
    running: u32,
    /// Runs with waiting tasks, in turn.
    turns: VecDeque<RunId>,
    queues: BTreeMap<RunId, BTreeSet<TaskRef>>,
}

#[derive(Default)]
pub(crate) struct Agents {
    ids: BTreeMap<String, AgentId>,
    entries: Vec<Entry>,
    registry: Registry,
}

impl Agents {
    pub(super) fn id(&mut self, name: &str) -> AgentId {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        let id = AgentId(self.entries.len());
        self.ids.insert(name.to_owned(), id);
        self.entries.push(Entry::default());
        id
    }

    fn entry(&mut self, id: AgentId) -> &mut Entry {
        &mut self.entries[id.0]
    }

    /// Makes an agent known. Whether that is news.
    pub(super) fn learn(&mut self, mut known: KnownAgent) -> bool {
        let id = self.id(&known.agent.name);
        self.registry.agents.insert(known.agent.name.clone(), known.agent.category.clone());
        let entry = self.entry(id);
        let news = entry.known.as_ref().is_none_or(|before| before.agent != known.agent);
        // What the configuration names stays its own, whoever serves it.
        if let Some(before) = entry.known.as_ref().filter(|before| before.source != v1::AgentSource::Worker) {
            known.source = before.source;
        }
        entry.known = Some(known);
        news
    }

    pub(super) fn learn_names(&mut self, commands: BTreeSet<String>, resources: BTreeSet<String>) {
        self.registry.commands.extend(commands);
        self.registry.resources.extend(resources);
    }

    pub(super) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The error for the names that nobody knows.
    pub(super) fn unknown(
        &self,
        names: &BTreeSet<String>,
        commands: &[String],
        resources: &[String],
    ) -> Option<v1::Error> {
        if commands.is_empty() && resources.is_empty() && names.iter().all(|name| self.is_known(name)) {
            return None;
        }
        let names: Vec<String> = names.iter().cloned().collect();
        self.registry.check_all(&names, commands, resources).error()
    }

    fn is_known(&self, name: &str) -> bool {
        self.known(name).is_some()
    }

    /// What is known of an agent.
    pub(super) fn known(&self, name: &str) -> Option<&v1::Agent> {
        let entry = self.entries.get(self.ids.get(name)?.0)?;
        entry.known.as_ref().map(|known| &known.agent)
    }

    pub(super) fn is_absent(&self, name: &str) -> bool {
        self.ids.get(name).and_then(|id| self.entries.get(id.0)).is_none_or(|entry| entry.workers.is_empty())
    }

    pub(super) fn snapshots(&self) -> Vec<AgentSnapshot> {
        let by_name = self.ids.values().filter_map(|id| self.entries.get(id.0));
        by_name
            .filter_map(|entry| {
                Some(AgentSnapshot {
                    known: entry.known.clone()?,
                    workers: count(entry.workers.len()),
                    running: entry.running,
                    queued: entry.queues.values().map(|queue| count(queue.len())).sum(),
                })
            })
            .collect()
    }

    pub(super) fn add_worker(&mut self, agent: AgentId, connection: ConnectionId) {
        self.entry(agent).workers.insert(connection);
    }

    pub(super) fn remove_worker(&mut self, agent: AgentId, connection: ConnectionId) {
        let entry = self.entry(agent);
        entry.workers.remove(&connection);
        entry.ready.remove(&connection);
    }

    /// Whether the connection's readiness for the agent changed.
    pub(super) fn set_ready(&mut self, agent: AgentId, connection: ConnectionId, ready: bool) -> bool {
        let entry = self.entry(agent);
        if ready { entry.ready.insert(connection) } else { entry.ready.remove(&connection) }
    }

    pub(super) fn started(&mut self, agent: AgentId) {
        self.entry(agent).running += 1;
    }

    pub(super) fn stopped(&mut self, agent: AgentId) {
        let entry = self.entry(agent);
        entry.running = entry.running.saturating_sub(1);
    }

    /// The connection that is next in turn for a task of this agent, where any has a free slot and any task waits.
    pub(super) fn next_ready(&mut self, agent: AgentId) -> Option<ConnectionId> {
        let entry = self.entry(agent);
        if entry.turns.is_empty() {
            return None;
        }
        let after = entry.last.and_then(|last| {
            entry.ready.range((std::ops::Bound::Excluded(last), std::ops::Bound::Unbounded)).next().copied()
        });
        let next = after.or_else(|| entry.ready.first().copied())?;
        entry.last = Some(next);
        Some(next)
    }

    pub(super) fn enqueue(&mut self, agent: AgentId, run: RunId, task: TaskRef) {
        let entry = self.entry(agent);
        let queue = entry.queues.entry(run).or_default();
        if queue.is_empty() {
            entry.turns.push_back(run);
        }
        queue.insert(task);
    }

    /// The first waiting task of the run whose turn it is.
    pub(super) fn dequeue(&mut self, agent: AgentId) -> Option<(RunId, TaskRef)> {
        let entry = self.entry(agent);
        while let Some(run) = entry.turns.pop_front() {
            let Some(queue) = entry.queues.get_mut(&run) else { continue };
            let task = queue.pop_first();
            if queue.is_empty() {
                entry.queues.remove(&run);
            } else {
                entry.turns.push_back(run);
            }
            if let Some(task) = task {
                return Some((run, task));
            }
        }
        None
    }

    pub(super) fn drop_run(&mut self, agent: AgentId, run: RunId) {
        let entry = self.entry(agent);
        if entry.queues.remove(&run).is_some() {
            entry.turns.retain(|turn| *turn != run);
        }
    }

    /// Forgets queues, workers and load; keeps what is known.
    pub(super) fn forget_work(&mut self) {
        for entry in &mut self.entries {
            *entry = Entry { known: entry.known.take(), ..Entry::default() };
        }
    }
}

fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
