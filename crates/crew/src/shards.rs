//! What shards say: what they want, take and give back, and that they begin anew.

use std::sync::Arc;

use capataz_contracts::v1::connect_response::Frame;
use capataz_policy::planted::{self, Fault};
use capataz_store::ShardId;

use crate::crew::{CloseReason, Crew, Output, Timer};
use crate::link::{Arrival, Packet};
use crate::queues::Place;
use crate::slots::Slot;
use crate::{Browsers, ConnectionId, Declared, Departure, OfferId, ToCrew, ToShard};

impl Crew {
    pub(crate) fn packet(&mut self, shard: ShardId, packet: Packet<ToCrew>) {
        let Some(peer) = self.peers.get_mut(&shard) else { return };
        match peer.end.arrived_at_crew(&packet) {
            Arrival::Stale => return,
            Arrival::Gap => return self.break_off(shard),
            Arrival::First => self.forget(shard),
            Arrival::Next => {}
        }
        match packet.body {
            ToCrew::Opened => self.opened(shard),
            ToCrew::Closed | ToCrew::Beat => {}
            ToCrew::Wanted { agent, run, tasks, only } => {
                self.queues.want(&agent, Place { shard, run }, tasks, only, self.now.mono);
                self.changed.insert(agent);
            }
            ToCrew::Taken { offer, tasks } => self.taken(offer, tasks),
            ToCrew::Spurned { offer, how } => self.spurned(offer, how),
            ToCrew::Limited { agent, for_ms } => self.limits.hold(&agent, for_ms, self.now.mono),
            ToCrew::Returned { offer } => {
                if !planted::is(Fault::ReturnedSlotLost) {
                    self.vacate(offer);
                }
            }
            ToCrew::Reattached { connection, leases } => self.reattached(shard, connection, leases),
            ToCrew::Tell { connection, frame } => {
                let Some(hearer) = self.connections.get_mut(connection) else { return };
                if matches!(frame, Frame::ResultAccepted(_) | Frame::ResultRefused(_)) {
                    hearer.is_answered(shard);
                }
                self.send(connection, frame);
            }
        }
    }

    /// Something that the shard said never came: it has to begin anew.
    fn break_off(&mut self, shard: ShardId) {
        self.forget(shard);
        self.complain(shard);
    }

    fn complain(&mut self, shard: ShardId) {
        let Some(peer) = self.peers.get_mut(&shard).filter(|peer| peer.end.is_broken()) else { return };
        let packet = peer.end.complaint(ToShard::Beat);
        self.outputs.push(Output::Packet { shard, packet });
    }

    /// Nothing that the shard said holds any more. Workers that have to do with it come back, and say what they have.
    fn forget(&mut self, shard: ShardId) {
        if let Some(peer) = self.peers.get_mut(&shard) {
            peer.is_open = false;
        }
        self.queues.forget(shard);
        let mut concerned = self.slots.connections_of(shard);
        // The answer to a result may be lost as well.
        concerned.extend(self.connections.waiting_for(shard));
        for connection in concerned {
            if self.connections.get(connection).is_none() {
                continue;
            }
            self.leave(connection, Departure::Gone);
            self.close(connection, CloseReason::Restarting);
        }
    }

    /// The shard is at work: it is told who is there.
    fn opened(&mut self, shard: ShardId) {
        let Some(peer) = self.peers.get_mut(&shard) else { return };
        peer.is_open = true;
        self.gather();
        for connection in self.connections.ids() {
            let gone = self.connections.get(connection).map(|worker| worker.lost_browsers());
            self.present(shard, connection, Vec::new(), Browsers::AllBut(gone.unwrap_or_default()));
        }
        if !self.timers.iter().any(|(_, timer)| *timer == Timer::Beat) {
            let at = self.after(self.config.heartbeat_ms);
            self.timers.insert((at, Timer::Beat));
        }
    }

    /// A word to every shard, so that a message that never came shows.
    pub(crate) fn beat(&mut self) {
        for shard in self.shards.clone() {
            self.tell(shard, ToShard::Beat);
            self.complain(shard);
        }
        let at = self.after(self.config.heartbeat_ms);
        self.timers.insert((at, Timer::Beat));
    }

    fn taken(&mut self, offer: OfferId, tasks: u32) {
        let Some(slot) = self.slots.get_mut(offer).filter(|slot| !slot.is_taken) else { return };
        slot.is_taken = true;
        let Some(agent) = slot.agent.clone() else { return };
        let (place, connection) = (slot.place, slot.connection);
        if let Some(connection) = self.connections.get_mut(connection) {
            connection.may_have_browser(place.run);
        }
        self.queues.taken(&agent, place, tasks, self.now.mono);
        self.changed.insert(agent);
    }

    /// The slot is free.
    pub(crate) fn vacate(&mut self, offer: OfferId) {
        let Some(slot) = self.slots.remove(offer) else { return };
        self.withdraw(&slot);
        if let Some(connection) = self.connections.get_mut(slot.connection) {
            connection.vacate(offer, slot.agent.as_deref());
            if let Some(agent) = slot.agent.filter(|_| slot.is_taken && !slot.is_spurned) {
                self.standings.served(&connection.worker, &agent, connection.slots());
            }
        }
        self.refresh_readiness(slot.connection);
    }

    /// What was on offer is not any more.
    pub(crate) fn withdraw(&mut self, slot: &Slot) {
        if let Some(agent) = &slot.agent
            && !slot.is_taken
        {
            self.queues.withdrawn(agent, slot.place);
            self.changed.insert(Arc::clone(agent));
        }
    }

    /// The run whose turn it is, and the worker whose slot it gets.
    fn next_turn(&mut self, agent: &str) -> Option<(ConnectionId, Place)> {
        if self.limits.until(agent, self.now.mono).is_some() && !planted::is(Fault::HeldAgentIsOffered) {
            return None;
        }
        let (agents, connections) = (&self.agents, &self.connections);
        let is_ready = |worker: &str| {
            let connection = connections.of_worker(worker);
            connection.is_some() && agents.is_ready(agent, connection)
        };
        let (place, only) = self.queues.next(agent, agents.is_ready(agent, None), is_ready)?;
        let connection = match only {
            Some(worker) => self.connections.of_worker(&worker),
            None => self.agents.next_ready(agent),
        };
        Some((connection?, place))
    }

    /// Offers free slots to waiting runs, one run after the other.
    pub(crate) fn offer_slots(&mut self) {
        if self.draining && !planted::is(Fault::LeaseGrantedWhileDraining) {
            return self.changed.clear();
        }
        while let Some(agent) = self.changed.pop_first() {
            while let Some((connection, place)) = self.next_turn(&agent) {
                let Some(taker) = self.connections.get(connection) else { break };
                let (worker, output_schema) = (Arc::clone(&taker.worker), taker.output_schema(&agent));
                let cancel_is_final = taker.cancel_is_final(&agent);
                let slot = Slot {
                    connection,
                    agent: Some(Arc::clone(&agent)),
                    place,
                    is_taken: false,
                    since: self.now.mono,
                    is_spurned: false,
                };
                let offer = self.slots.add(slot);
                if let Some(taker) = self.connections.get_mut(connection)
                    && !planted::is(Fault::SlotOfferedTwice)
                {
                    taker.occupy(offer, Some(&agent));
                }
                self.refresh_readiness(connection);
                let (agent, run) = (Arc::clone(&agent), place.run);
                let declared = Declared { output_schema, cancel_is_final };
                let offered = ToShard::Offered { offer, connection, worker, agent, declared, run };
                self.tell(place.shard, offered);
            }
        }
    }
}
