//! Workers' streams: hello, frames, silence, departure. A worker is never believed: what it says of a lease counts only
//! where the engine agrees.

use std::collections::{BTreeMap, BTreeSet};

use capataz_contracts::v1::{self, connect_request::Frame as Said, connect_response::Frame};
use capataz_engine::{self as engine, Report, TaskRef, Timestamp};
use capataz_store::{AgentRow, RunId};
use prost::Message;

use super::agents::{AgentId, KnownAgent};
use super::{CloseReason, ConnectionId, Core, Mode, Output, Timer};

pub(crate) struct Connection {
    pub(super) worker: String,
    pub(super) offers: BTreeMap<AgentId, Offer>,
    pub(super) slots: usize,
    pub(super) running: BTreeSet<(RunId, TaskRef)>,
    pub(super) draining: bool,
    last_frame: Timestamp,
}

pub(crate) struct Offer {
    pub(super) running: u32,
    pub(super) max_concurrency: u32,
}

impl Core {
    pub(super) fn frame(&mut self, id: ConnectionId, frame: Said) {
        if self.mode != Mode::Running {
            return self.close(id, CloseReason::Restarting);
        }
        let frame = match (self.connections.get_mut(&id), frame) {
            (None, Said::Hello(hello)) => return self.hello(id, hello),
            (None, _) | (Some(_), Said::Hello(_)) => {
                self.disconnected(id);
                return self.close(id, CloseReason::Protocol);
            }
            (Some(connection), frame) => {
                connection.last_frame = self.now;
                frame
            }
        };
        match frame {
            Said::Hello(_) | Said::Heartbeat(_) => {}
            Said::Ack(ack) => {
                if let Some((run, task, lease)) = parse(ack.lease) {
                    self.acknowledged(id, run, task, lease);
                }
            }
            Said::Progress(progress) => self.progress(id, progress),
            Said::Completed(completed) => {
                let output = completed.output.unwrap_or_else(null);
                let report = Report::Completed(output);
                self.report(id, completed.lease, report, completed.log, completed.usage);
            }
            Said::Failed(failed) => {
                let error = failed.error.unwrap_or_default();
                self.report(id, failed.lease, Report::Failed(error), failed.log, None);
            }
            Said::Cancelled(cancelled) => {
                let report = Report::Cancelled(cancelled.partial_output);
                self.report(id, cancelled.lease, report, cancelled.log, None);
            }
            Said::Returned(returned) => {
                if let Some((run, task, lease)) = parse(returned.lease)
                    && self.connection_of(run, task, lease) == Some(id)
                {
                    self.lose(run, task, lease, v1::LeaseLossReason::Returned);
                }
            }
            Said::Drain(_) => {
                if let Some(connection) = self.connections.get_mut(&id) {
                    connection.draining = true;
                }
                self.refresh_readiness(id);
            }
        }
    }

    fn hello(&mut self, id: ConnectionId, hello: v1::Hello) {
        if let Some(before) = self.workers.get(&hello.worker_id).copied() {
            self.disconnected(before);
            self.close(before, CloseReason::Replaced);
        }
        let worker = hello.worker_id;
        let mut offers = BTreeMap::new();
        let mut news = Vec::new();
        for agent in hello.agents {
            let agent_id = self.agents.id(&agent.name);
            offers.insert(agent_id, Offer { running: 0, max_concurrency: agent.max_concurrency.max(1) });
            self.agents.add_worker(agent_id, id);
            let encoded = agent.encode_to_vec();
            let name = agent.name.clone();
            let last_seen = self.millis();
            let known = KnownAgent { agent, source: v1::AgentSource::Worker, last_seen: Some(last_seen) };
            if self.agents.learn(known) {
                news.push(AgentRow { name, agent: encoded.into(), last_seen });
            }
        }
        if !news.is_empty() {
            self.outputs.push(Output::PutAgents(news));
        }
        self.workers.insert(worker.clone(), id);
        self.connections.insert(
            id,
            Connection {
                worker: worker.clone(),
                offers,
                slots: hello.slots as usize,
                running: BTreeSet::new(),
                draining: false,
                last_frame: self.now,
            },
        );
        let claimed: BTreeSet<(RunId, TaskRef, u64)> =
            hello.held.into_iter().filter_map(|lease| parse(Some(lease))).collect();
        let mut reattached = Vec::new();
        for (run, task, lease) in &claimed {
            if self.reattach(id, &worker, *run, *task, *lease) {
                let run_id = run.to_string();
                reattached.push(v1::LeaseRef { run_id, wave: task.wave, task: task.task, lease: *lease });
            }
        }
        // A lease of this worker that it does not speak of is gone: the worker restarted, or never got it.
        let gone: Vec<(RunId, TaskRef, u64)> = self
            .held
            .iter()
            .filter(|(_, held)| held.worker == worker && held.connection.is_none())
            .map(|((run, task), held)| (*run, *task, held.token))
            .collect();
        let runs: BTreeSet<RunId> =
            claimed.iter().map(|(run, ..)| *run).chain(gone.iter().map(|(run, ..)| *run)).collect();
        for (run, task, lease) in gone {
            self.lose(run, task, lease, v1::LeaseLossReason::Restarted);
        }
        for run in runs {
            self.resend(id, run);
            self.end_quiet(run);
        }
        self.send(
            id,
            Frame::Welcome(v1::Welcome {
                heartbeat_interval_ms: self.config.heartbeat_ms,
                ack_timeout_ms: self.config.ack_timeout_ms,
                reattached,
                silence_limit_ms: self.silence_limit_ms(),
            }),
        );
        if self.draining {
            self.send(id, Frame::Drain(v1::Drain {}));
        }
        self.refresh_readiness(id);
        self.timers.insert((self.now.plus(self.config.heartbeat_ms), Timer::Connection(id)));
    }

    pub(super) fn disconnected(&mut self, id: ConnectionId) {
        for (run, task) in self.remove_connection(id) {
            self.detach(run, task);
        }
    }

    /// Takes a connection out of all lists; what it was working on.
    fn remove_connection(&mut self, id: ConnectionId) -> BTreeSet<(RunId, TaskRef)> {
        let Some(connection) = self.connections.remove(&id) else { return BTreeSet::new() };
        if self.workers.get(&connection.worker) == Some(&id) {
            self.workers.remove(&connection.worker);
        }
        for agent in connection.offers.keys() {
            self.agents.remove_worker(*agent, id);
        }
        for place in &connection.running {
            if let Some(held) = self.held.get(place) {
                self.agents.stopped(held.agent);
            }
        }
        connection.running
    }

    /// Every heartbeat interval: is the worker alive, did it acknowledge what it was given? And a word to it, so that it
    /// knows the same of the daemon.
    pub(super) fn check_connection(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get(&id) else { return };
        let silent_for = self.now.0.saturating_sub(connection.last_frame.0);
        if silent_for >= self.silence_limit_ms() {
            for (run, task) in self.remove_connection(id) {
                let Some(held) = self.held.get_mut(&(run, task)) else { continue };
                held.connection = None;
                let lease = held.token;
                self.lose(run, task, lease, v1::LeaseLossReason::Silent);
            }
            return self.close(id, CloseReason::Silent);
        }
        let running: Vec<(RunId, TaskRef)> = connection.running.iter().copied().collect();
        for (run, task) in running {
            let Some(held) = self.held.get_mut(&(run, task)) else { continue };
            if held.ack_by.is_some_and(|by| by <= self.now) {
                let lease = held.token;
                self.lose(run, task, lease, v1::LeaseLossReason::NotAcknowledged);
                continue;
            }
            held.health_checks += 1;
            self.show_progress(run, task);
        }
        // Sent also where other frames were: then no gap is longer than an interval, and nobody has to keep count.
        self.send(id, Frame::Heartbeat(v1::Heartbeat {}));
        self.timers.insert((self.now.plus(self.config.heartbeat_ms), Timer::Connection(id)));
    }

    /// Silence after which either end takes the connection for dead.
    fn silence_limit_ms(&self) -> i64 {
        self.config.heartbeat_ms.saturating_mul(self.config.missed_heartbeats)
    }

    fn acknowledged(&mut self, id: ConnectionId, run: RunId, task: TaskRef, lease: u64) {
        let now = self.now;
        if let Some(held) = self.held.get_mut(&(run, task))
            && held.token == lease
            && held.connection == Some(id)
        {
            held.ack_by = None;
            held.last_frame = Some(now);
        }
    }

    fn progress(&mut self, id: ConnectionId, mut progress: v1::Progress) {
        let Some((run, task, lease)) = parse(progress.lease.take()) else { return };
        self.acknowledged(id, run, task, lease);
        if let Some(held) = self.held.get_mut(&(run, task))
            && held.token == lease
            && held.connection == Some(id)
        {
            held.progress = Some(progress);
            self.show_progress(run, task);
        }
    }

    fn show_progress(&mut self, run: RunId, task: TaskRef) {
        let Some(held) = self.held.get(&(run, task)) else { return };
        let Some(slot) = self.runs.get(&run) else { return };
        let Some((started, deadline)) = slot.state.running_times(task) else { return };
        self.outputs.push(Output::Progress(v1::ProgressFrame {
            run_id: run.to_string(),
            wave: task.wave,
            task: task.task,
            at_ms: self.now.0,
            elapsed_ms: self.now.0.saturating_sub(started),
            remaining_ms: deadline.saturating_sub(self.now.0),
            health_checks: held.health_checks,
            fraction: held.progress.as_ref().and_then(|progress| progress.fraction),
            message: held.progress.as_ref().and_then(|progress| progress.message.clone()),
        }));
    }

    fn report(
        &mut self,
        id: ConnectionId,
        lease: Option<v1::LeaseRef>,
        report: Report,
        log: String,
        usage: Option<v1::Usage>,
    ) {
        let Some(reference) = lease else { return };
        let Some(worker) = self.connections.get(&id).map(|connection| connection.worker.clone()) else {
            return;
        };
        let unknown = |reference: v1::LeaseRef, reason: v1::RefusalReason| {
            Frame::ResultRefused(v1::ResultRefusedFrame { lease: Some(reference), reason: reason as i32 })
        };
        let Some((run, task, token)) = parse(Some(reference.clone())) else {
            return self.send(id, unknown(reference, v1::RefusalReason::UnknownTask));
        };
        let Some(slot) = self.runs.get(&run) else {
            // Nothing of a run that is over changes any more, and its log stays as it is.
            return self.send(id, unknown(reference, v1::RefusalReason::AlreadySettled));
        };
        if slot.state.plan().task(task).is_none() {
            return self.send(id, unknown(reference, v1::RefusalReason::UnknownTask));
        }
        if let Report::Completed(output) | Report::Cancelled(Some(output)) = &report {
            let named = slot.state.blobs_of(output);
            self.batch(run).blobs.extend(named.iter().filter_map(super::recovery::blob_hash));
        }
        self.reporting = Some(id);
        self.input(run, engine::Input::Report { task, lease: token, worker, report, log, usage }, None);
        self.reporting = None;
    }

    fn close(&mut self, connection: ConnectionId, reason: CloseReason) {
        self.outputs.push(Output::Close { connection, reason });
    }
}

/// `None` for a reference that names no run.
fn parse(lease: Option<v1::LeaseRef>) -> Option<(RunId, TaskRef, u64)> {
    let lease = lease?;
    let run = lease.run_id.parse().ok()?;
    Some((run, TaskRef { wave: lease.wave, task: lease.task }, lease.lease))
}

fn null() -> v1::Payload {
    v1::Payload {
        media_type: "application/json".to_owned(),
        data: Some(v1::payload::Data::Inline(bytes::Bytes::from_static(b"null"))),
    }
}
