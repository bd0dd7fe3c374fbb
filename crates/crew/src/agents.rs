//! The agents that are known, and who serves them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use capataz_contracts::v1;
use capataz_contracts::within::{as_bytes, number};
use capataz_policy::registry::Registry;
use capataz_store::Millis;
use prost::Message as _;

use crate::ConnectionId;
use crate::clock::Mono;
use crate::door::Reserved;

/// An agent that plans may name.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct KnownAgent {
    #[serde(with = "as_bytes::one")]
    pub agent: v1::Agent,
    #[serde(with = "number")]
    pub source: v1::AgentSource,
    pub last_seen: Option<Millis>,
}

/// What the configuration names: what plans may name, and what workers may not.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Known {
    pub agents: Vec<KnownAgent>,
    /// Without the prefix `/elsabro:`.
    pub commands: BTreeSet<String>,
    /// Skills and profiles.
    pub resources: BTreeSet<String>,
    pub reserved: Reserved,
}

impl KnownAgent {
    /// Whether it is known from a worker alone, so that it may be forgotten.
    fn is_remembered(&self) -> bool {
        self.source == v1::AgentSource::Worker
    }
}

/// An agent with its load.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentSnapshot {
    pub known: KnownAgent,
    pub workers: u32,
    pub running: u32,
    pub queued: u32,
    /// Since when the first of these tasks waits; `None` where none does.
    pub waiting_since: Option<Mono>,
    /// Slots that go to other runs before the one that asks.
    pub ahead: Option<u32>,
    /// For how long a rate limit still holds it; `None` where none does. Milliseconds.
    pub held_for_ms: Option<i64>,
}

/// Agents that the configuration has named, and names no more.
#[derive(Debug, Default)]
pub(crate) struct Unnamed {
    /// Workers from outside serve them.
    pub(crate) known: Vec<KnownAgent>,
    pub(crate) forgotten: Vec<String>,
}

#[derive(Default)]
struct Entry {
    known: Option<KnownAgent>,
    /// Connections that serve the agent.
    workers: BTreeSet<ConnectionId>,
    /// Those of them with a free slot.
    ready: BTreeSet<ConnectionId>,
    /// The connection whose turn is over, so that work is spread.
    last: Option<ConnectionId>,
    /// When the last connection that served it was gone.
    left: Mono,
}

/// All agents. A connection is ready for an agent only while it serves it.
#[derive(Default)]
pub(crate) struct Agents {
    entries: BTreeMap<Arc<str>, Entry>,
    /// What the configuration says of the agents that it names, whatever their workers have said since.
    configured: BTreeMap<Arc<str>, KnownAgent>,
    registry: Registry,
    /// Agents that are known from workers alone, and the bytes of their descriptions.
    remembered: (usize, usize),
}

fn bytes_of(agent: &v1::Agent) -> usize {
    #[cfg(test)]
    tests::MEASURED.set(tests::MEASURED.get() + 1);
    agent.encoded_len()
}

impl Agents {
    /// What the store remembers of an agent: of a worker's, it is older than what the worker has said since.
    pub(crate) fn recall(&mut self, known: KnownAgent) {
        let is_older = |before: &KnownAgent| {
            known.source == v1::AgentSource::Worker
                && before.source == v1::AgentSource::Worker
                && known.last_seen < before.last_seen
        };
        let before = self.entries.get(known.agent.name.as_str()).and_then(|entry| entry.known.as_ref());
        if !before.is_some_and(is_older) {
            self.learn(known);
        }
    }

    /// Makes an agent known as somebody says now, whatever the clock says. Whether that is news.
    pub(crate) fn learn(&mut self, mut known: KnownAgent) -> bool {
        let name: Arc<str> = Arc::from(known.agent.name.as_str());
        self.registry.agents.insert(known.agent.name.clone(), known.agent.category.clone());
        let entry = self.entry(&name);
        let news = entry.known.as_ref().is_none_or(|before| before.agent != known.agent);
        // What the configuration names stays its own, whoever serves it.
        if let Some(before) = entry.known.as_ref().filter(|before| !before.is_remembered()) {
            known.source = before.source;
        }
        let after = known.is_remembered().then(|| bytes_of(&known.agent));
        let before = entry.known.replace(known).filter(KnownAgent::is_remembered);
        let (count, bytes) = &mut self.remembered;
        if let Some(before) = before {
            *count = count.saturating_sub(1);
            *bytes = bytes.saturating_sub(bytes_of(&before.agent));
        }
        if let Some(after) = after {
            *count = count.saturating_add(1);
            *bytes = bytes.saturating_add(after);
        }
        news
    }

    /// What the configuration names from now on, in place of what it named before. What it says of an agent as before changes
    /// nothing about it, and what a worker from outside has said of an agent goes on counting.
    ///
    /// An agent that it names no more is known from such a worker alone. Where there is none, no plan may name it any more, and
    /// it is there for what still waits for it; the daemon's own hosts are about to say that they do not serve it.
    pub(crate) fn configure(
        &mut self,
        agents: Vec<KnownAgent>,
        commands: BTreeSet<String>,
        resources: BTreeSet<String>,
        hosts: &BTreeSet<ConnectionId>,
        now: Millis,
    ) -> Unnamed {
        let agents: BTreeMap<Arc<str>, KnownAgent> =
            agents.into_iter().map(|known| (Arc::from(known.agent.name.as_str()), known)).collect();
        let before = std::mem::replace(&mut self.configured, agents.clone());
        let mut unnamed = Unnamed::default();
        for name in before.keys().filter(|name| !agents.contains_key(*name)) {
            let Some(known) = self.take_source(name, v1::AgentSource::Worker) else { continue };
            known.last_seen = Some(now);
            let known = known.clone();
            if self.is_from_outside(name, hosts) {
                unnamed.known.push(known);
            } else {
                self.registry.agents.remove(&**name);
                unnamed.forgotten.push(name.to_string());
            }
        }
        for (name, said) in agents {
            if before.get(&name) == Some(&said) {
                continue;
            }
            self.take_source(&name, said.source);
            if !self.is_from_outside(&name, hosts) {
                self.learn(said);
            }
        }
        self.registry.commands = commands;
        self.registry.resources = resources;
        unnamed
    }

    /// No plan may name the agent, unless the configuration names it or a worker serves it that is none of these.
    pub(crate) fn forget_unless_known(&mut self, name: &str, hosts: &BTreeSet<ConnectionId>) {
        if !self.configured.contains_key(name) && !self.is_from_outside(name, hosts) {
            self.registry.agents.remove(name);
        }
    }

    /// Whether a worker serves the agent that is none of these.
    fn is_from_outside(&self, name: &str, hosts: &BTreeSet<ConnectionId>) -> bool {
        self.entries.get(name).is_some_and(|entry| !entry.workers.is_subset(hosts))
    }

    /// It is known from there from now on; nothing where it is not known.
    fn take_source(&mut self, name: &str, source: v1::AgentSource) -> Option<&mut KnownAgent> {
        let known = self.entries.get_mut(name)?.known.as_mut()?;
        let (was_remembered, bytes) = (known.is_remembered(), bytes_of(&known.agent));
        known.source = source;
        let (count, all) = &mut self.remembered;
        match (was_remembered, known.is_remembered()) {
            (false, true) => (*count, *all) = (count.saturating_add(1), all.saturating_add(bytes)),
            (true, false) => (*count, *all) = (count.saturating_sub(1), all.saturating_sub(bytes)),
            _ => {}
        }
        Some(known)
    }

    /// Whether so many agents and so many bytes of their descriptions are room for these as well.
    pub(crate) fn fits(&self, agents: &[v1::Agent], (most, most_bytes): (usize, usize)) -> bool {
        let (count, bytes) = self.remembered_with(agents);
        count <= most && bytes <= most_bytes
    }

    /// How many agents are remembered once these are as well, and the bytes of their descriptions.
    fn remembered_with(&self, agents: &[v1::Agent]) -> (usize, usize) {
        let (mut count, mut bytes) = self.remembered;
        for agent in agents {
            let before = self.entries.get(agent.name.as_str()).and_then(|entry| entry.known.as_ref());
            match before {
                Some(before) if before.is_remembered() => {
                    bytes = bytes.saturating_sub(bytes_of(&before.agent)).saturating_add(bytes_of(agent));
                }
                Some(_) => {}
                None => {
                    count = count.saturating_add(1);
                    bytes = bytes.saturating_add(bytes_of(agent));
                }
            }
        }
        (count, bytes)
    }

    /// Forgets agents until these have room: those that nobody serves, and of which nothing `waits`, that were seen last
    /// the longest ago. Their names.
    pub(crate) fn forget_for(
        &mut self,
        agents: &[v1::Agent],
        (most, most_bytes): (usize, usize),
        waits: impl Fn(&Arc<str>) -> bool,
    ) -> Vec<String> {
        let comes: BTreeSet<&str> = agents.iter().map(|agent| agent.name.as_str()).collect();
        let mut idle: Vec<(Option<Millis>, Arc<str>)> = self
            .entries
            .iter()
            .filter(|(name, entry)| entry.workers.is_empty() && !comes.contains(&***name) && !waits(name))
            .filter_map(|(name, entry)| {
                let known = entry.known.as_ref().filter(|known| known.is_remembered())?;
                Some((known.last_seen, Arc::clone(name)))
            })
            .collect();
        idle.sort_unstable();
        // None of those that are forgotten is among these, so that each one's own room is what it leaves.
        let (mut count, mut bytes) = self.remembered_with(agents);
        let mut forgotten = Vec::new();
        for (_, name) in idle {
            if count <= most && bytes <= most_bytes {
                break;
            }
            let (fewer, shorter) = self.forget(&name);
            (count, bytes) = (count.saturating_sub(fewer), bytes.saturating_sub(shorter));
            forgotten.push(name.to_string());
        }
        forgotten
    }

    /// How many remembered agents this has been, and the bytes of their descriptions.
    fn forget(&mut self, name: &str) -> (usize, usize) {
        let known = self.entries.remove(name).and_then(|entry| entry.known);
        self.registry.agents.remove(name);
        let known = known.filter(KnownAgent::is_remembered);
        let (fewer, shorter) = known.map_or((0, 0), |known| (1, bytes_of(&known.agent)));
        let (count, bytes) = &mut self.remembered;
        (*count, *bytes) = (count.saturating_sub(fewer), bytes.saturating_sub(shorter));
        (fewer, shorter)
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Whether plans may name the agent.
    pub(crate) fn may_be_named(&self, name: &str) -> bool {
        self.registry.agents.contains_key(name)
    }

    /// What is known of an agent that plans may name.
    pub(crate) fn known(&self, name: &str) -> Option<&v1::Agent> {
        if !self.may_be_named(name) {
            return None;
        }
        self.entries.get(name)?.known.as_ref().map(|known| &known.agent)
    }

    /// Whether nobody serves the agent.
    pub(crate) fn is_absent(&self, name: &str) -> bool {
        self.entries.get(name).is_none_or(|entry| entry.workers.is_empty())
    }

    /// All that is known after the name, by name, with the number of connections that serve it.
    pub(crate) fn after(&self, name: Option<&str>) -> impl Iterator<Item = (&Arc<str>, &KnownAgent, usize)> {
        let from = name.map_or(Bound::Unbounded, Bound::Excluded);
        self.entries
            .range::<str, _>((from, Bound::Unbounded))
            .filter_map(|(name, entry)| Some((name, entry.known.as_ref()?, entry.workers.len())))
    }

    pub(crate) fn named(&self, name: &str) -> Option<(&Arc<str>, &KnownAgent, usize)> {
        let (name, entry) = self.entries.get_key_value(name)?;
        Some((name, entry.known.as_ref()?, entry.workers.len()))
    }

    pub(crate) fn add_worker(&mut self, agent: &Arc<str>, connection: ConnectionId) {
        self.entry(agent).workers.insert(connection);
    }

    pub(crate) fn remove_worker(&mut self, agent: &str, connection: ConnectionId, now: Mono) {
        let Some(entry) = self.entries.get_mut(agent) else { return };
        entry.workers.remove(&connection);
        entry.ready.remove(&connection);
        entry.left = now;
    }

    /// Since when nobody serves the agent; `None` while somebody does.
    pub(crate) fn unserved_since(&self, name: &str) -> Option<Mono> {
        match self.entries.get(name) {
            Some(entry) => entry.workers.is_empty().then_some(entry.left),
            None => Some(Mono::default()),
        }
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
        let after = entry
            .last
            .and_then(|last| entry.ready.range((Bound::Excluded(last), Bound::Unbounded)).next().copied());
        let next = after.or_else(|| entry.ready.first().copied())?;
        entry.last = Some(next);
        Some(next)
    }

    fn entry(&mut self, agent: &Arc<str>) -> &mut Entry {
        self.entries.entry(Arc::clone(agent)).or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        /// Descriptions that were measured.
        pub(super) static MEASURED: Cell<usize> = const { Cell::new(0) };
    }

    fn agent(name: String) -> v1::Agent {
        v1::Agent { name, ..v1::Agent::default() }
    }

    #[test]
    fn what_a_worker_says_counts_though_the_clock_was_set_back_and_what_the_store_has_does_not() {
        let said = |category: &str, at: i64| KnownAgent {
            agent: v1::Agent { category: category.to_owned(), ..agent("a".to_owned()) },
            source: v1::AgentSource::Worker,
            last_seen: Some(Millis(at)),
        };
        let category = |agents: &Agents| agents.known("a").map(|agent| agent.category.clone());
        let mut agents = Agents::default();
        assert!(agents.learn(said("first", 1_000)));
        assert!(agents.learn(said("second", 10)), "its worker says so now");
        assert_eq!(category(&agents).as_deref(), Some("second"));
        agents.recall(said("older", 9));
        assert_eq!(category(&agents).as_deref(), Some("second"));
        // A name that the configuration took away is known again by whoever serves it.
        let (own, nobody) = (BTreeMap::from([("a", v1::AgentSource::Declared)]), BTreeSet::new());
        for declared in [own, BTreeMap::new()] {
            let declared = declared.into_iter().map(|(name, source)| KnownAgent {
                agent: agent(name.to_owned()),
                source,
                last_seen: None,
            });
            let none = || (BTreeSet::new(), BTreeSet::new());
            let (commands, resources) = none();
            agents.configure(declared.collect(), commands, resources, &nobody, Millis(1_000));
        }
        assert_eq!(category(&agents), None);
        agents.learn(said("again", 10));
        assert_eq!(category(&agents).as_deref(), Some("again"));
    }

    fn remembered(count: i64) -> Agents {
        let mut agents = Agents::default();
        for number in 0..count {
            let (agent, source) = (agent(format!("old{number:05}")), v1::AgentSource::Worker);
            agents.learn(KnownAgent { agent, source, last_seen: Some(Millis(number)) });
        }
        agents
    }

    #[test]
    fn making_room_for_many_agents_measures_each_of_them_once() {
        let mut agents = remembered(1_000);
        let new: Vec<v1::Agent> = (0..600).map(|number| agent(format!("new{number:05}"))).collect();
        MEASURED.set(0);
        let forgotten = agents.forget_for(&new, (1_000, usize::MAX), |_| false);
        let oldest: Vec<String> = (0..600).map(|number| format!("old{number:05}")).collect();
        assert_eq!(forgotten, oldest);
        assert_eq!(MEASURED.get(), 600 + 600);
        assert!(agents.fits(&new, (1_000, usize::MAX)));
    }

    #[test]
    fn no_more_are_forgotten_than_bytes_of_descriptions_need() {
        let mut agents = remembered(10);
        let one = bytes_of(&agent("old00000".to_owned()));
        let new = [agent("a".repeat(3 * one)), agent("old00000".to_owned())];
        let needed = bytes_of(&new[0]);
        let forgotten = agents.forget_for(&new, (100, 10 * one), |name| &**name == "old00001");
        assert_eq!(forgotten.len(), needed.div_ceil(one));
        assert_eq!(forgotten[0], "old00002", "it comes itself, or something waits for it");
    }
}
