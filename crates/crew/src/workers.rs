//! What workers say: hello, frames, silence, departure. A worker is never believed: what it says of a lease counts only
//! where the lease's shard agrees.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use capataz_contracts::v1::{self, connect_request::Frame as Heard, connect_response::Frame};
use capataz_policy::planted::{self, Fault};
use capataz_store::{AgentRow, RunId, ShardId};
use prost::Message;

use crate::clock::LOOK_AGAIN_MS;
use crate::connections::Connection;
use crate::crew::{CloseReason, Crew, Output, Timer};
use crate::protocol::home;
use crate::queues::Place;
use crate::slots::Slot;
use crate::standing::Verdict;
use crate::{Browsers, ConnectionId, Departure, KnownAgent, Lease, OfferId, Said, Spurned, ToShard};

impl Crew {
    pub(crate) fn frame(&mut self, id: ConnectionId, frame: Heard) {
        // What comes on a connection that was closed counts for nothing.
        if self.closed.contains(&id) {
            return;
        }
        let frame = match (self.connections.get_mut(id), frame) {
            (None, Heard::Hello(hello)) => return self.hello(id, hello),
            (Some(_), Heard::Hello(hello)) if self.hosts.contains(&id) => return self.serves_now(id, hello),
            (None, _) | (Some(_), Heard::Hello(_)) => {
                self.leave(id, Departure::Gone);
                return self.close(id, CloseReason::Protocol);
            }
            (Some(connection), frame) => {
                connection.last_frame = self.now.mono;
                connection.seems_silent = false;
                frame
            }
        };
        match frame {
            Heard::Hello(_) | Heard::Heartbeat(_) => {}
            Heard::Ack(ack) => self.said(id, ack.lease, Said::Acknowledged),
            Heard::Progress(mut progress) => {
                let lease = progress.lease.take();
                self.said(id, lease, Said::Progress(progress));
            }
            Heard::Completed(completed) => {
                self.reported(id, completed.lease.clone(), Said::Completed(completed));
            }
            Heard::Failed(failed) => self.reported(id, failed.lease.clone(), Said::Failed(failed)),
            Heard::Cancelled(cancelled) => {
                self.reported(id, cancelled.lease.clone(), Said::Cancelled(cancelled));
            }
            Heard::Returned(returned) => self.said(id, returned.lease, Said::Returned),
            Heard::BrowserGone(gone) => self.browser_gone(id, &gone.run_id),
            Heard::Drain(_) => {
                if let Some(connection) = self.connections.get_mut(id) {
                    connection.draining = true;
                }
                self.refresh_readiness(id);
            }
        }
    }

    /// Passes on what a worker said of a lease.
    fn said(&mut self, id: ConnectionId, lease: Option<v1::LeaseRef>, said: Said) {
        let Some(lease) = lease.as_ref().and_then(Lease::parse) else { return };
        self.pass_on(id, lease, said);
    }

    /// Passes on a result, which is answered in any case.
    fn reported(&mut self, id: ConnectionId, reference: Option<v1::LeaseRef>, said: Said) {
        let Some(reference) = reference else { return };
        match Lease::parse(&reference) {
            Some(lease) => self.pass_on(id, lease, said),
            None => {
                let reason = v1::RefusalReason::UnknownTask as i32;
                let refused = v1::ResultRefusedFrame { lease: Some(reference), reason, error: None };
                self.send(id, Frame::ResultRefused(refused));
            }
        }
    }

    /// A browser of the worker has ended. A shard that is being read hears of it when it is at work again.
    fn browser_gone(&mut self, id: ConnectionId, run: &str) {
        let Ok(run) = run.parse::<RunId>() else { return };
        let Some(connection) = self.connections.get_mut(id) else { return };
        connection.lost_browser(run);
        let worker = Arc::clone(&connection.worker);
        if let Some(shard) = home(run, &self.shards) {
            self.tell(shard, ToShard::BrowserGone { worker, run });
        }
    }

    fn pass_on(&mut self, connection: ConnectionId, lease: Lease, said: Said) {
        let Some(shard) = self.home(&lease) else { return };
        if !self.is_open(shard) {
            // Nobody can say what the lease is worth: the worker says it again when it has come back.
            self.leave(connection, Departure::Gone);
            return self.close(connection, CloseReason::Restarting);
        }
        let Some(speaker) = self.connections.get_mut(connection) else { return };
        let worker = Arc::clone(&speaker.worker);
        if matches!(said, Said::Completed(_) | Said::Failed(_) | Said::Cancelled(_)) {
            speaker.is_owed(shard);
        }
        self.tell(shard, ToShard::Said { connection, worker, lease, said: Box::new(said) });
    }

    fn hello(&mut self, id: ConnectionId, hello: v1::Hello) {
        let held: BTreeSet<Lease> = hello.held.iter().filter_map(Lease::parse).collect();
        let mut by_shard: BTreeMap<ShardId, Vec<Lease>> = BTreeMap::new();
        for lease in held {
            if let Some(shard) = self.home(&lease) {
                by_shard.entry(shard).or_default().push(lease);
            }
        }
        // Without any shard at work there is nothing that a worker could do, and nobody who knows its leases.
        let closed = by_shard.keys().any(|shard| !self.is_open(*shard));
        if closed || !self.peers.values().any(|peer| peer.is_open) {
            return self.close(id, CloseReason::Restarting);
        }
        if let Some(reason) = self.refuses(id, &hello) {
            return self.close(id, reason);
        }
        if let Some(before) = self.connections.of_worker(&hello.worker_id) {
            self.leave(before, Departure::Gone);
            self.close(before, CloseReason::Replaced);
        }
        let mut connection = Connection::new(Arc::from(hello.worker_id), hello.slots as usize, self.now.mono);
        for agent in &hello.agents {
            connection.serves(Arc::from(agent.name.as_str()), agent);
        }
        self.meet(id, hello.agents);
        connection.awaits = by_shard.keys().copied().collect();
        let mut browsers: BTreeMap<ShardId, BTreeSet<RunId>> = BTreeMap::new();
        for run in hello.browsers.iter().filter_map(|run| run.parse().ok()) {
            if let Some(shard) = home(run, &self.shards) {
                connection.may_have_browser(run);
                browsers.entry(shard).or_default().insert(run);
            }
        }
        self.connections.add(id, connection);
        for shard in self.shards.clone() {
            let leases = by_shard.remove(&shard).unwrap_or_default();
            let browsers = browsers.remove(&shard).unwrap_or_default();
            self.present(shard, id, leases, Browsers::Of(browsers));
        }
        self.welcome_if_known(id);
        let at = self.after(self.config.heartbeat_ms);
        self.timers.insert((at, Timer::Connection(id)));
    }

    /// The connection's worker serves these agents.
    fn meet(&mut self, id: ConnectionId, agents: Vec<v1::Agent>) {
        let mut news = Vec::new();
        for agent in agents {
            self.agents.add_worker(&Arc::from(agent.name.as_str()), id);
            let row = AgentRow {
                name: agent.name.clone(),
                agent: agent.encode_to_vec().into(),
                last_seen: self.now.wall,
            };
            let source = v1::AgentSource::Worker;
            if self.agents.learn(KnownAgent { agent, source, last_seen: Some(self.now.wall) }) {
                news.push(row);
            }
        }
        if !news.is_empty() {
            self.outputs.push(Output::PutAgents(news));
        }
    }

    /// One of the daemon's own hosts says anew what it serves, on the connection that it has: its leases are as they were. What
    /// was given to it before it has said so may still be of an agent that it serves no more.
    fn serves_now(&mut self, id: ConnectionId, hello: v1::Hello) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        connection.last_frame = self.now.mono;
        connection.has_slots(hello.slots as usize);
        let now: BTreeSet<&str> = hello.agents.iter().map(|agent| agent.name.as_str()).collect();
        let gone: Vec<Arc<str>> =
            connection.agents().filter(|agent| !now.contains(&***agent)).cloned().collect();
        for agent in &hello.agents {
            connection.serves(Arc::from(agent.name.as_str()), agent);
        }
        let forgotten: Vec<OfferId> = match planted::is(Fault::HelloAgainForgetsWork) {
            true => connection.in_use().collect(),
            false => Vec::new(),
        };
        for offer in forgotten {
            self.vacate(offer);
        }
        for agent in gone {
            self.serves_no_more(id, &agent);
            // What it said of it before the configuration was read again counts no more.
            self.agents.forget_unless_known(&agent, &self.hosts);
        }
        self.meet(id, hello.agents);
        self.refresh_readiness(id);
    }

    /// The connection gets no more tasks of the agent. What it has at work goes on.
    pub(crate) fn serves_no_more(&mut self, id: ConnectionId, agent: &Arc<str>) {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.serves_no_more(agent);
        }
        self.agents.remove_worker(agent, id, self.now.mono);
    }

    /// Tells a shard of a worker, with the leases and the browsers that it still has.
    pub(crate) fn present(
        &mut self,
        shard: ShardId,
        id: ConnectionId,
        leases: Vec<Lease>,
        browsers: Browsers,
    ) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        let worker = Arc::clone(&connection.worker);
        let mut held = Vec::with_capacity(leases.len());
        for lease in leases {
            let place = Place { shard, run: lease.run };
            let since = self.now.mono;
            let slot = Slot { connection: id, agent: None, place, is_taken: true, since, is_spurned: false };
            let offer = self.slots.add(slot);
            connection.occupy(offer, None);
            connection.may_have_browser(lease.run);
            held.push((lease, offer));
        }
        self.tell(shard, ToShard::Present { connection: id, worker, held, browsers });
    }

    /// A shard has said which of the worker's leases go on.
    pub(crate) fn reattached(
        &mut self,
        shard: ShardId,
        id: ConnectionId,
        leases: Vec<(Lease, OfferId, Arc<str>)>,
    ) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        let asked = connection.awaits.remove(&shard);
        let mut kept = BTreeSet::new();
        for (lease, offer, agent) in leases {
            let Some(slot) = self.slots.get_mut(offer).filter(|slot| slot.connection == id) else { continue };
            connection.count(Some(&agent));
            slot.agent = Some(agent);
            connection.reattached.push((offer, lease.reference()));
            kept.insert(offer);
        }
        if asked {
            let unknown = |slot: &Slot| slot.place.shard == shard && slot.agent.is_none();
            let gone: Vec<OfferId> =
                connection.in_use().filter(|offer| self.slots.get(*offer).is_some_and(unknown)).collect();
            for offer in gone {
                self.vacate(offer);
            }
        }
        self.welcome_if_known(id);
    }

    /// Welcomes the worker once every shard has spoken of its leases.
    fn welcome_if_known(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        if connection.welcomed || !connection.awaits.is_empty() {
            return;
        }
        connection.welcomed = true;
        // What the worker has settled meanwhile is not its any more.
        let reattached = std::mem::take(&mut connection.reattached).into_iter();
        let reattached = reattached.filter(|(offer, _)| self.slots.get(*offer).is_some());
        let reattached = reattached.map(|(_, lease)| lease).collect();
        self.send(
            id,
            Frame::Welcome(v1::Welcome {
                heartbeat_interval_ms: self.config.heartbeat_ms,
                ack_timeout_ms: self.config.ack_timeout_ms,
                reattached,
                silence_limit_ms: self.config.silence_limit_ms(),
            }),
        );
        if self.draining {
            self.send(id, Frame::Drain(v1::Drain {}));
        }
        self.refresh_readiness(id);
    }

    /// Every heartbeat interval: is the worker alive? And a word to it, so that it knows the same of the daemon; and to
    /// the shards whose slots it has.
    pub(crate) fn look_after(&mut self, id: ConnectionId) {
        let again = self.after(LOOK_AGAIN_MS);
        let limit = self.config.silence_limit_ms();
        let Some(connection) = self.connections.get_mut(id) else { return };
        // A host is a part of the daemon: where it says nothing, the daemon has let it say nothing.
        let is_host = self.hosts.contains(&id);
        let looks_again = !connection.seems_silent && !planted::is(Fault::StallTakenForSilence);
        if again.since(connection.last_frame) >= limit && !is_host && looks_again {
            connection.seems_silent = true;
            self.timers.insert((again, Timer::Connection(id)));
            return;
        }
        if self.now.mono.since(connection.last_frame) >= limit && !is_host {
            self.leave(id, Departure::Silent);
            return self.close(id, CloseReason::Silent);
        }
        let in_use = connection.in_use().filter_map(|offer| self.slots.get(offer));
        let shards: BTreeSet<ShardId> = in_use.map(|slot| slot.place.shard).collect();
        let last_frame = connection.last_frame;
        self.notice_long_work(id);
        for shard in shards {
            self.tell(shard, ToShard::Pulse { connection: id, last_frame });
        }
        // Sent also where other frames were: then no gap is longer than an interval, and nobody has to keep count.
        if self.connections.get(id).is_some_and(|connection| connection.welcomed) {
            self.send(id, Frame::Heartbeat(v1::Heartbeat {}));
        }
        let at = self.after(self.config.heartbeat_ms);
        self.timers.insert((at, Timer::Connection(id)));
    }

    /// Takes a connection out of all lists, and tells the shards.
    pub(crate) fn leave(&mut self, id: ConnectionId, departure: Departure) {
        let Some(connection) = self.connections.remove(id) else { return };
        for agent in connection.agents() {
            self.agents.remove_worker(agent, id, self.now.mono);
        }
        for offer in connection.in_use() {
            if let Some(slot) = self.slots.remove(offer) {
                self.withdraw(&slot);
            }
        }
        for shard in self.shards.clone() {
            self.tell(shard, ToShard::Left { connection: id, departure });
        }
    }

    /// A worker that has to show that it acknowledges has shown it, where it still has a task long after it would have lost
    /// it.
    fn notice_long_work(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get(id) else { return };
        if !self.standings.is_probed(&connection.worker) {
            return;
        }
        // A shard looks once in an interval, and what it says needs no longer than another.
        let acknowledged_by =
            self.config.ack_timeout_ms.saturating_add(self.config.heartbeat_ms.saturating_mul(2));
        let has_it = |slot: &&Slot| {
            slot.is_taken && !slot.is_spurned && self.now.mono.since(slot.since) > acknowledged_by
        };
        let slots = connection.in_use().filter_map(|offer| self.slots.get(offer));
        let agent = slots.filter(has_it).find_map(|slot| slot.agent.clone());
        let Some(agent) = agent else { return };
        self.standings.served(&connection.worker, &agent, connection.slots());
        self.refresh_readiness(id);
    }

    /// A worker has not taken what it was given.
    pub(crate) fn spurned(&mut self, offer: OfferId, how: Spurned) {
        let Some(slot) = self.slots.get_mut(offer) else { return };
        slot.is_spurned = true;
        let (id, since) = (slot.connection, slot.since);
        // The daemon's own hosts are as good as the daemon.
        if self.hosts.contains(&id) {
            return;
        }
        let Some(agent) = slot.agent.clone() else { return };
        let Some(connection) = self.connections.get(id) else { return };
        let worker = Arc::clone(&connection.worker);
        match how {
            Spurned::HandedBack => {
                self.standings.handed_back(&worker, &agent, self.now.mono);
            }
            Spurned::Unacknowledged => {
                let verdict = self.standings.unacknowledged(&worker, since, self.now.mono);
                if verdict == Some(Verdict::SendAway) {
                    self.send_away.insert(id);
                }
            }
        }
        self.refresh_readiness(id);
    }

    /// Sends away who has acknowledged nothing, time after time; after what was said of all that it had.
    pub(crate) fn send_away(&mut self) {
        while let Some(id) = self.send_away.pop_first() {
            let Some(connection) = self.connections.get(id) else { continue };
            let away = self.standings.away_until(&connection.worker);
            let retry_after_ms = away.map_or(0, |until| until.since(self.now.mono));
            self.leave(id, Departure::Gone);
            self.close(id, CloseReason::SentAway { retry_after_ms });
        }
    }

    /// Which agents' tasks the connection can take now.
    pub(crate) fn refresh_readiness(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get(id) else { return };
        for (agent, ready) in connection.readiness(&self.standings, self.now.mono) {
            if self.agents.set_ready(agent, id, ready) && ready {
                self.changed.insert(Arc::clone(agent));
            }
        }
        if let Some(at) = self.standings.next_change(&connection.worker, self.now.mono) {
            self.timers.insert((at, Timer::Again(id)));
        }
    }

    pub(crate) fn close(&mut self, connection: ConnectionId, reason: CloseReason) {
        self.closed.insert(connection);
        self.outputs.push(Output::Close { connection, reason });
    }

    /// The time by which a shard's first workers have had a chance to come back.
    pub(crate) fn gather(&mut self) {
        self.gathering_until = self.now.mono.plus(self.config.gather_ms);
    }
}
