//! Workers' streams: who is at the other end, what it offers, and how much of that is in use.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use capataz_contracts::v1;
use capataz_store::{RunId, ShardId};

use crate::clock::Mono;
use crate::standing::Standings;
use crate::{ConnectionId, OfferId};

/// One worker's stream.
pub(crate) struct Connection {
    pub(crate) worker: Arc<str>,
    offers: BTreeMap<Arc<str>, Offer>,
    slots: usize,
    in_use: BTreeSet<OfferId>,
    pub(crate) draining: bool,
    pub(crate) last_frame: Mono,
    /// It seems silent, and is looked at again when everything that had arrived was read.
    pub(crate) seems_silent: bool,
    /// The shards that have not yet said which of the worker's leases go on; it is welcomed after that.
    pub(crate) awaits: BTreeSet<ShardId>,
    pub(crate) reattached: Vec<(OfferId, v1::LeaseRef)>,
    pub(crate) welcomed: bool,
    /// Results that were passed on to a shard and have no answer yet.
    owed: BTreeMap<ShardId, u32>,
    /// The newest of the runs that may have a browser there, and whether it said that the browser has ended since it came.
    browsers: BTreeMap<RunId, bool>,
}

/// Runs of a connection that may have a browser there: as many as a hello may name. Where one of the others was lost, a shard
/// that was read again learns it with the next activity there.
pub(crate) const MAX_BROWSERS: usize = 10_000;

struct Offer {
    in_use: u32,
    max_concurrency: u32,
    /// It serves the agent no more.
    is_over: bool,
    /// The daemon serves the agent itself: the connection gets no more of it.
    is_withheld: bool,
    /// JSON Schema of the agent's outputs, as the worker has declared it.
    output_schema: Option<Arc<str>>,
    cancel_is_final: bool,
}

impl Connection {
    pub(crate) fn new(worker: Arc<str>, slots: usize, now: Mono) -> Self {
        Self {
            worker,
            offers: BTreeMap::new(),
            slots,
            in_use: BTreeSet::new(),
            draining: false,
            last_frame: now,
            seems_silent: false,
            awaits: BTreeSet::new(),
            reattached: Vec::new(),
            welcomed: false,
            owed: BTreeMap::new(),
            browsers: BTreeMap::new(),
        }
    }

    pub(crate) fn serves(&mut self, name: Arc<str>, agent: &v1::Agent) {
        let schema = Some(agent.output_schema.as_str()).filter(|schema| !schema.is_empty());
        let offer = Offer {
            in_use: self.offers.get(&name).map_or(0, |before| before.in_use),
            max_concurrency: agent.max_concurrency.max(1),
            is_over: false,
            is_withheld: false,
            output_schema: schema.map(Arc::from),
            cancel_is_final: agent.cancel_is_final,
        };
        self.offers.insert(name, offer);
    }

    /// What it has at work of the agent goes on, and is counted where it serves the agent again.
    pub(crate) fn serves_no_more(&mut self, agent: &str) {
        if let Some(offer) = self.offers.get_mut(agent) {
            offer.is_over = true;
        }
        self.offers.retain(|_, offer| !offer.is_over || offer.in_use > 0);
    }

    /// The connection gets no more of these of its agents, and of all others what it may have.
    pub(crate) fn withhold(&mut self, agents: &BTreeSet<String>) {
        for (name, offer) in &mut self.offers {
            offer.is_withheld = agents.contains(&**name);
        }
    }

    /// The run may have a browser there: the worker has said so, or got something of it to do.
    pub(crate) fn may_have_browser(&mut self, run: RunId) {
        self.browsers.entry(run).or_insert(false);
        if self.browsers.len() > MAX_BROWSERS {
            self.browsers.pop_first();
        }
    }

    /// The worker says that the run's browser has ended, which counts for runs that may have one there.
    pub(crate) fn lost_browser(&mut self, run: RunId) {
        if let Some(is_gone) = self.browsers.get_mut(&run) {
            *is_gone = true;
        }
    }

    /// Runs whose browsers it had and lost since it came.
    pub(crate) fn lost_browsers(&self) -> BTreeSet<RunId> {
        self.browsers.iter().filter(|(_, is_gone)| **is_gone).map(|(run, _)| *run).collect()
    }

    pub(crate) fn has_slots(&mut self, slots: usize) {
        self.slots = slots;
    }

    /// What the worker has declared of the agent's outputs.
    pub(crate) fn output_schema(&self, agent: &str) -> Option<Arc<str>> {
        self.offers.get(agent)?.output_schema.clone()
    }

    /// Whether the agent's work, as the worker does it, cannot go on once it was told to end.
    pub(crate) fn cancel_is_final(&self, agent: &str) -> bool {
        self.offers.get(agent).is_some_and(|offer| offer.cancel_is_final)
    }

    pub(crate) fn agents(&self) -> impl Iterator<Item = &Arc<str>> {
        self.offers.iter().filter(|(_, offer)| !offer.is_over).map(|(name, _)| name)
    }

    /// Each agent, and whether the connection can take a task of it now.
    pub(crate) fn readiness(
        &self,
        standings: &Standings,
        now: Mono,
    ) -> impl Iterator<Item = (&Arc<str>, bool)> {
        let slots = standings.slots(&self.worker, self.slots, now);
        let has_slot = self.welcomed && !self.draining && self.in_use.len() < slots;
        self.offers.iter().map(move |(agent, offer)| {
            let may_have = !offer.is_over && !offer.is_withheld;
            let has_one = has_slot && may_have && offer.in_use < offer.max_concurrency;
            (agent, has_one && standings.gets(&self.worker, agent, now))
        })
    }

    pub(crate) fn slots(&self) -> usize {
        self.slots
    }

    pub(crate) fn occupy(&mut self, offer: OfferId, agent: Option<&str>) {
        self.in_use.insert(offer);
        self.count(agent);
    }

    /// One more slot is used for the agent.
    pub(crate) fn count(&mut self, agent: Option<&str>) {
        if let Some(offer) = agent.and_then(|agent| self.offers.get_mut(agent)) {
            offer.in_use += 1;
        }
    }

    pub(crate) fn vacate(&mut self, offer: OfferId, agent: Option<&str>) {
        if !self.in_use.remove(&offer) {
            return;
        }
        if let Some(offer) = agent.and_then(|agent| self.offers.get_mut(agent)) {
            offer.in_use = offer.in_use.saturating_sub(1);
        }
    }

    /// The shard owes the worker an answer to a result.
    pub(crate) fn is_owed(&mut self, shard: ShardId) {
        let owed = self.owed.entry(shard).or_default();
        *owed = owed.saturating_add(1);
    }

    pub(crate) fn is_answered(&mut self, shard: ShardId) {
        if let Some(owed) = self.owed.get_mut(&shard) {
            *owed = owed.saturating_sub(1);
        }
    }

    fn waits_for(&self, shard: ShardId) -> bool {
        self.owed.get(&shard).is_some_and(|owed| *owed > 0)
    }

    pub(crate) fn in_use(&self) -> impl Iterator<Item = OfferId> {
        self.in_use.iter().copied()
    }
}

/// All connections. A worker has one at a time.
#[derive(Default)]
pub(crate) struct Connections {
    connections: BTreeMap<ConnectionId, Connection>,
    workers: BTreeMap<Arc<str>, ConnectionId>,
}

impl Connections {
    pub(crate) fn of_worker(&self, worker: &str) -> Option<ConnectionId> {
        self.workers.get(worker).copied()
    }

    pub(crate) fn add(&mut self, id: ConnectionId, connection: Connection) {
        self.workers.insert(Arc::clone(&connection.worker), id);
        self.connections.insert(id, connection);
    }

    pub(crate) fn remove(&mut self, id: ConnectionId) -> Option<Connection> {
        let connection = self.connections.remove(&id)?;
        if self.workers.get(&connection.worker) == Some(&id) {
            self.workers.remove(&connection.worker);
        }
        Some(connection)
    }

    pub(crate) fn get(&self, id: ConnectionId) -> Option<&Connection> {
        self.connections.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.connections.get_mut(&id)
    }

    /// Connections whose workers wait for an answer of the shard.
    pub(crate) fn waiting_for(&self, shard: ShardId) -> Vec<ConnectionId> {
        let waiting = self.connections.iter().filter(|(_, connection)| connection.waits_for(shard));
        waiting.map(|(id, _)| *id).collect()
    }

    /// Nobody was listened to for so long: it is not their silence.
    pub(crate) fn forgive(&mut self, milliseconds: i64) {
        for connection in self.connections.values_mut() {
            connection.last_frame = connection.last_frame.plus(milliseconds);
            connection.seems_silent = false;
        }
    }

    pub(crate) fn ids(&self) -> Vec<ConnectionId> {
        self.connections.keys().copied().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.connections.len()
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn run(number: usize) -> RunId {
        RunId(Uuid::from_u128(number as u128))
    }

    #[test]
    fn what_a_worker_says_of_runs_that_it_never_had_is_not_kept() {
        let mut connection = Connection::new(Arc::from("worker"), 1, Mono(0));
        connection.may_have_browser(run(1));
        connection.may_have_browser(run(2));
        for number in 2..MAX_BROWSERS {
            connection.lost_browser(run(number));
        }
        assert_eq!((connection.browsers.len(), connection.lost_browsers()), (2, BTreeSet::from([run(2)])));
        connection.may_have_browser(run(2));
        assert_eq!(connection.lost_browsers().len(), 1, "what is lost stays lost");
    }

    #[test]
    fn the_newest_runs_of_a_worker_are_kept() {
        let mut connection = Connection::new(Arc::from("worker"), 1, Mono(0));
        for number in 0..2 * MAX_BROWSERS {
            connection.may_have_browser(run(number));
            connection.lost_browser(run(number));
        }
        assert_eq!(connection.lost_browsers().len(), MAX_BROWSERS);
        assert_eq!(connection.lost_browsers().first(), Some(&run(MAX_BROWSERS)));
    }
}
