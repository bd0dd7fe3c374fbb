//! Who works on what: queues of tasks, slots of workers, leases and their holders.

use capataz_contracts::v1;
use capataz_engine::planted::{self, Fault};
use capataz_engine::{self as engine, Effect, Observed, TaskRef, Timestamp};
use capataz_store::RunId;

use super::agents::AgentId;
use super::commits::Deferred;
use super::{ConnectionId, Core, Mode, Timer};

/// A live lease as the runtime sees it.
pub(crate) struct Held {
    pub(super) token: u64,
    pub(super) worker: String,
    pub(super) agent: AgentId,
    /// `None` while its worker is away.
    pub(super) connection: Option<ConnectionId>,
    /// Until when the worker has to acknowledge it; `None` once it has, and before the assignment has left.
    pub(super) ack_by: Option<Timestamp>,
    reattach_by: Option<Timestamp>,
    /// Last frame of the worker that spoke of this lease.
    pub(super) last_frame: Option<Timestamp>,
    pub(super) progress: Option<v1::Progress>,
    pub(super) health_checks: u32,
}

impl Held {
    pub(super) fn observed(&self) -> Observed {
        Observed {
            last_frame_ms: self.last_frame.map(|at| at.0),
            partial_output: self.progress.as_ref().and_then(|progress| progress.partial_output.clone()),
        }
    }
}

impl Core {
    /// The task waits for a slot of its agent.
    pub(super) fn enqueue(&mut self, run: RunId, task: TaskRef) {
        let Some(slot) = self.runs.get(&run) else { return };
        let Some(declared) = slot.state.plan().task(task) else { return };
        let agent = self.agents.id(&declared.agent);
        self.agents.enqueue(agent, run, task);
        self.dirty_agents.insert(agent);
    }

    pub(super) fn enqueue_all(&mut self, run: RunId) {
        let Some(slot) = self.runs.get(&run) else { return };
        let queued: Vec<TaskRef> = slot.state.queued().collect();
        for task in queued {
            self.enqueue(run, task);
        }
    }

    /// Gives free slots to waiting tasks, run after run in turn.
    pub(super) fn assign_slots(&mut self) {
        let drains = self.draining && !planted::is(Fault::LeaseGrantedWhileDraining);
        if self.mode != Mode::Running || drains {
            return self.dirty_agents.clear();
        }
        while let Some(agent) = self.dirty_agents.pop_first() {
            while let Some(connection) = self.agents.next_ready(agent) {
                let Some((run, task)) = self.next_queued(agent) else { break };
                self.lease(run, task, agent, connection);
            }
        }
    }

    /// The next task that really waits; what was cancelled, held or leased meanwhile is dropped on the way.
    fn next_queued(&mut self, agent: AgentId) -> Option<(RunId, TaskRef)> {
        loop {
            let (run, task) = self.agents.dequeue(agent)?;
            let waits = self.runs.get(&run).map(|slot| (slot.state.may_lease(), slot.state.is_queued(task)));
            match waits {
                Some((true, true)) => return Some((run, task)),
                Some((true, false)) => {}
                // A held run queues its tasks again when it is released.
                Some((false, _)) | None => self.agents.drop_run(agent, run),
            }
        }
    }

    fn lease(&mut self, run: RunId, task: TaskRef, agent: AgentId, connection: ConnectionId) {
        let Some(worker) = self.connections.get(&connection).map(|connection| connection.worker.clone())
        else {
            return;
        };
        // The slot may be one that another run has just given up: that has to be durable first.
        self.append_last(run);
        self.input(run, engine::Input::Lease { task, worker: worker.clone() }, None);
        let token = self.runs.get(&run).and_then(|slot| slot.state.lease_of(task)).map(|(token, _)| token);
        let Some(token) = token else { return };
        self.held.insert(
            (run, task),
            Held {
                token,
                worker,
                agent,
                connection: Some(connection),
                ack_by: None,
                reattach_by: None,
                last_frame: None,
                progress: None,
                health_checks: 0,
            },
        );
        self.occupy(connection, agent, run, task);
    }

    /// Sends an assignment whose lease is durable, where its holder is still there.
    pub(super) fn assign(&mut self, run: RunId, task: TaskRef, lease: u64, deadline_ms: i64) {
        let by = self.now.plus(self.config.ack_timeout_ms);
        let Some(held) = self.held.get_mut(&(run, task)).filter(|held| held.token == lease) else { return };
        let Some(connection) = held.connection else { return };
        let Some(slot) = self.runs.get(&run) else { return };
        let Some(assignment) = slot.state.assignment(task) else { return };
        held.ack_by = Some(by);
        let run_id = run.to_string();
        let frame = v1::Assignment {
            idempotency_key: format!("{run_id}/{}/{}", assignment.name, assignment.activation),
            lease: Some(v1::LeaseRef { run_id, wave: task.wave, task: task.task, lease }),
            agent: assignment.agent.to_owned(),
            task_name: assignment.name.to_owned(),
            activation: assignment.activation,
            attempt: assignment.attempt,
            input: assignment.input.cloned(),
            deadline_ms,
        };
        self.send(connection, v1::connect_response::Frame::Assignment(frame));
    }

    pub(super) fn connection_of(&self, run: RunId, task: TaskRef, lease: u64) -> Option<ConnectionId> {
        self.held.get(&(run, task)).filter(|held| held.token == lease)?.connection
    }

    /// The lease is over: its slot is free.
    pub(super) fn let_go(&mut self, run: RunId, task: TaskRef, lease: u64) {
        if self.held.get(&(run, task)).is_none_or(|held| held.token != lease) {
            return;
        }
        let Some(held) = self.held.remove(&(run, task)) else { return };
        if let Some(at) = held.reattach_by {
            self.timers.remove(&(at, Timer::Reattach(run, task, lease)));
        }
        if let Some(connection) = held.connection {
            self.vacate(connection, held.agent, run, task);
        }
    }

    pub(super) fn lose(&mut self, run: RunId, task: TaskRef, lease: u64, reason: v1::LeaseLossReason) {
        self.input(run, engine::Input::LeaseLost { task, lease, reason }, None);
        // Where the engine no longer knew the lease, the slot is free all the same.
        self.let_go(run, task, lease);
    }

    /// The lease's worker is away: the lease waits for it to come back.
    pub(super) fn detach(&mut self, run: RunId, task: TaskRef) {
        let by = self.now.plus(self.config.reattach_ms);
        let Some(held) = self.held.get_mut(&(run, task)) else { return };
        held.connection = None;
        held.ack_by = None;
        if held.reattach_by.is_none() {
            held.reattach_by = Some(by);
            self.timers.insert((by, Timer::Reattach(run, task, held.token)));
        }
    }

    /// Puts a lease that was read from the log into memory, its worker still away.
    pub(super) fn recover_lease(&mut self, run: RunId, task: TaskRef, token: u64, worker: String) {
        let Some(agent) = self.runs.get(&run).and_then(|slot| slot.state.plan().task(task)) else { return };
        let agent = self.agents.id(&agent.agent);
        self.held.insert(
            (run, task),
            Held {
                token,
                worker,
                agent,
                connection: None,
                ack_by: None,
                reattach_by: None,
                last_frame: None,
                progress: None,
                health_checks: 0,
            },
        );
        self.detach(run, task);
    }

    /// The worker is back and says that it still has this lease. Whether it goes on.
    pub(super) fn reattach(
        &mut self,
        connection: ConnectionId,
        worker: &str,
        run: RunId,
        task: TaskRef,
        lease: u64,
    ) -> bool {
        let Some(held) = self.held.get_mut(&(run, task)) else { return false };
        if held.token != lease || held.worker != worker {
            return false;
        }
        held.connection = Some(connection);
        held.last_frame = Some(self.now);
        let agent = held.agent;
        if let Some(at) = held.reattach_by.take() {
            self.timers.remove(&(at, Timer::Reattach(run, task, lease)));
        }
        self.occupy(connection, agent, run, task);
        true
    }

    /// Once every lease of a recovered run is accounted for, its deadlines count again.
    pub(super) fn end_quiet(&mut self, run: RunId) {
        let first = TaskRef { wave: 0, task: 0 };
        let mut leases = self.held.range((run, first)..).take_while(|((of, _), _)| *of == run);
        if leases.any(|(_, held)| held.connection.is_none()) || planted::is(Fault::TimerNotRearmed) {
            return;
        }
        if let Some(slot) = self.runs.get_mut(&run)
            && slot.quiet_until > self.now
        {
            slot.quiet_until = self.now;
            self.batch(run);
        }
    }

    /// Tells a worker that came back what it may have missed about its leases in this run.
    pub(super) fn resend(&mut self, connection: ConnectionId, run: RunId) {
        let Some(slot) = self.runs.get(&run) else { return };
        let mut missed = Vec::new();
        for effect in slot.state.outstanding() {
            match effect {
                Effect::Assign { task, lease }
                    if self.connection_of(run, task, lease) == Some(connection) =>
                {
                    missed.extend(extension_of(&slot.state, task, lease));
                }
                Effect::Cancel { task, lease, .. }
                    if self.connection_of(run, task, lease) == Some(connection) =>
                {
                    missed.push(effect);
                }
                _ => {}
            }
        }
        for effect in missed {
            self.defer(run, effect);
        }
    }

    pub(super) fn reattach_expired(&mut self, run: RunId, task: TaskRef, lease: u64) {
        let Some(held) = self.held.get_mut(&(run, task)).filter(|held| held.token == lease) else { return };
        held.reattach_by = None;
        if held.connection.is_none() {
            self.lose(run, task, lease, v1::LeaseLossReason::Disconnected);
        }
    }

    fn occupy(&mut self, id: ConnectionId, agent: AgentId, run: RunId, task: TaskRef) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.running.insert((run, task));
        if let Some(offer) = connection.offers.get_mut(&agent) {
            offer.running += 1;
        }
        self.agents.started(agent);
        self.refresh_readiness(id);
    }

    fn vacate(&mut self, id: ConnectionId, agent: AgentId, run: RunId, task: TaskRef) {
        self.agents.stopped(agent);
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.running.remove(&(run, task));
        if let Some(offer) = connection.offers.get_mut(&agent) {
            offer.running = offer.running.saturating_sub(1);
        }
        self.refresh_readiness(id);
    }

    /// Which agents' tasks the connection can take now.
    pub(super) fn refresh_readiness(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get(&id) else { return };
        let has_slot = connection.running.len() < connection.slots && !connection.draining;
        for (agent, offer) in &connection.offers {
            let ready = has_slot && offer.running < offer.max_concurrency;
            if self.agents.set_ready(*agent, id, ready) && ready {
                self.dirty_agents.insert(*agent);
            }
        }
    }

    /// Timers of a recovered run stand still for the reattach window, where it has leases.
    pub(super) fn quiet_after_recovery(&self, has_leases: bool) -> Timestamp {
        if planted::is(Fault::TimerNotRearmed) {
            return Timestamp(i64::MAX);
        }
        if has_leases { self.now.plus(self.config.reattach_ms) } else { Timestamp::default() }
    }

    pub(super) fn answer_report(&mut self, run: RunId, effect: Effect) {
        use v1::connect_response::Frame;
        let Some(connection) = self.reporting else { return };
        let frame = match effect {
            Effect::Accept { task, lease } => {
                self.let_go(run, task, lease);
                let lease = v1::LeaseRef { run_id: run.to_string(), wave: task.wave, task: task.task, lease };
                Frame::ResultAccepted(v1::ResultAccepted { lease: Some(lease) })
            }
            Effect::Refuse { task, lease, reason, .. } => {
                let lease = v1::LeaseRef { run_id: run.to_string(), wave: task.wave, task: task.task, lease };
                Frame::ResultRefused(v1::ResultRefusedFrame { lease: Some(lease), reason: reason as i32 })
            }
            _ => return,
        };
        self.batch(run).deferred.push(Deferred::Frame(connection, frame));
    }
}

/// The deadline of a task that was ever extended, and that a cancel before it is withdrawn; one that is open follows.
fn extension_of(state: &engine::RunState, task: TaskRef, lease: u64) -> Option<Effect> {
    let (started, deadline_ms) = state.running_times(task)?;
    let timeout = i64::try_from(state.plan().timeouts_of(task).timeout().as_millis()).unwrap_or(i64::MAX);
    let extended = deadline_ms != started.saturating_add(timeout);
    extended.then_some(Effect::Extend { task, lease, deadline_ms, cancel_withdrawn: true })
}
