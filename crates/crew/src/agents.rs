//! The agents that are known, and who serves them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use capataz_contracts::v1;
use capataz_contracts::within::{as_bytes, number};
use capataz_policy::registry::Registry;
use capataz_store::Millis;

use crate::ConnectionId;

/// An agent that plans may name.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct KnownAgent {
    #[serde(with = "as_bytes::one")]
    pub agent: v1::Agent,
    #[serde(with = "number")]
    pub source: v1::AgentSource,
    pub last_seen: Option<Millis>,
}

/// What plans may name.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
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
}

/// All agents. A connection is ready for an agent only while it serves it.
#[derive(Default)]
pub(crate) struct Agents {
    entries: BTreeMap<Arc<str>, Entry>,
    registry: Registry,
}

impl Agents {
    /// Makes an agent known. Whether that is news.
    pub(crate) fn learn(&mut self, mut known: KnownAgent) -> bool {
        let name: Arc<str> = Arc::from(known.agent.name.as_str());
        // What the store remembers of a worker is older than what the worker has said since.
        let is_older = |before: &KnownAgent| {
            known.source == v1::AgentSource::Worker
                && before.source == v1::AgentSource::Worker
                && known.last_seen < before.last_seen
        };
        if self.entry(&name).known.as_ref().is_some_and(is_older) {
            return false;
        }
        self.registry.agents.insert(known.agent.name.clone(), known.agent.category.clone());
        let entry = self.entry(&name);
        let news = entry.known.as_ref().is_none_or(|before| before.agent != known.agent);
        // What the configuration names stays its own, whoever serves it.
        if let Some(before) = entry.known.as_ref().filter(|before| before.source != v1::AgentSource::Worker) {
            known.source = before.source;
        }
        entry.known = Some(known);
        news
    }

    pub(crate) fn learn_names(&mut self, commands: BTreeSet<String>, resources: BTreeSet<String>) {
        self.registry.commands.extend(commands);
        self.registry.resources.extend(resources);
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// What is known of an agent.
    pub(crate) fn known(&self, name: &str) -> Option<&v1::Agent> {
        self.entries.get(name)?.known.as_ref().map(|known| &known.agent)
    }

    /// Whether nobody serves the agent.
    pub(crate) fn is_absent(&self, name: &str) -> bool {
        self.entries.get(name).is_none_or(|entry| entry.workers.is_empty())
    }

    /// All that is known, by name, with the number of connections that serve it.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&Arc<str>, &KnownAgent, usize)> {
        self.entries
            .iter()
            .filter_map(|(name, entry)| Some((name, entry.known.as_ref()?, entry.workers.len())))
    }

    pub(crate) fn add_worker(&mut self, agent: &Arc<str>, connection: ConnectionId) {
        self.entry(agent).workers.insert(connection);
    }

    pub(crate) fn remove_worker(&mut self, agent: &str, connection: ConnectionId) {
        let Some(entry) = self.entries.get_mut(agent) else { return };
        entry.workers.remove(&connection);
        entry.ready.remove(&connection);
    }

    /// Whether the connection's readiness for the agent changed.
    pub(crate) fn set_ready(&mut self, agent: &str, connection: ConnectionId, ready: bool) -> bool {
        let Some(entry) = self.entries.get_mut(agent) else { return false };
        if ready { entry.ready.insert(connection) } else { entry.ready.remove(&connection) }
    }

    /// Whether the connection has a free slot for the agent; any one of them where none is named.
    pub(crate) fn is_ready(&self, agent: &str, connection: Option<ConnectionId>) -> bool {
        self.entries.get(agent).is_some_and(|entry| match connection {
            Some(connection) => entry.ready.contains(&connection),
            None => !entry.ready.is_empty(),
        })
    }

    /// The ready connection that is next in turn for a task of this agent.
    pub(crate) fn next_ready(&mut self, agent: &str) -> Option<ConnectionId> {
        let entry = self.entries.get_mut(agent)?;
        let after = entry.last.and_then(|last| {
            entry.ready.range((std::ops::Bound::Excluded(last), std::ops::Bound::Unbounded)).next().copied()
        });
        let next = after.or_else(|| entry.ready.first().copied())?;
        entry.last = Some(next);
        Some(next)
    }

    fn entry(&mut self, agent: &Arc<str>) -> &mut Entry {
        self.entries.entry(Arc::clone(agent)).or_default()
    }
}
