//! What the crew says: who is there, which slots are free, and what workers say of leases. A worker is never believed:
//! what it says of a lease counts only where the engine agrees.

use std::collections::BTreeSet;
use std::sync::Arc;

use capataz_contracts::v1::{self, connect_response::Frame};
use capataz_crew::link::{Arrival, Packet};
use capataz_crew::{
    ConnectionId, Declared, Departure, LOOK_AGAIN_MS, Lease, Mono, OfferId, Said, Spurned, ToCrew, ToShard,
};
use capataz_engine::planted::{self, Fault};
use capataz_engine::{self as engine, Effect, Moment, Report, TaskRef};
use capataz_policy::codes;
use capataz_store::RunId;

use crate::leases::Seat;
use crate::outbox::Deferred;
use crate::recovery::blob_hash;
use crate::resting::Wanted;
use crate::shard::{Mode, Origin, Output, Shard};
use crate::spans;
use crate::tail;
use crate::timers::Timer;
use crate::touched::{Kept, What};

impl Shard {
    pub(crate) fn packet(&mut self, packet: Packet<ToShard>) {
        let is_read_again = self.restart.is_some();
        if self.mode != Mode::Running && !is_read_again {
            return;
        }
        match self.link().arrived_at_shard(&packet) {
            Arrival::Stale => {}
            Arrival::Gap if is_read_again => self.link_is_broken(),
            Arrival::Gap => self.open(),
            Arrival::First | Arrival::Next if is_read_again => self.keep(Kept::Message(packet.body)),
            Arrival::First | Arrival::Next => self.told(packet.body),
        }
    }

    /// What the crew says, in order.
    pub(crate) fn told(&mut self, message: ToShard) {
        match message {
            ToShard::Present { connection, worker, held, browsers } => {
                self.present(connection, &worker, held);
                self.browsers_present(connection, &worker, &browsers);
            }
            ToShard::BrowserGone { worker, run } => self.browser_gone(&worker, run),
            ToShard::Left { connection, departure } => self.left(connection, departure),
            ToShard::Offered { offer, connection, worker, agent, declared, run } => {
                self.offered(Seat { connection, offer }, worker, &agent, declared, run);
            }
            ToShard::Said { connection, worker, lease, said } => {
                self.said(connection, &worker, lease, *said);
            }
            ToShard::Pulse { connection, last_frame } => self.pulse(connection, last_frame),
            ToShard::Beat => {}
        }
    }

    /// Begins a session with the crew, which knows of nothing then: all workers are away, and what waits is said again.
    pub(crate) fn open(&mut self) {
        self.link().begin();
        for (run, task) in self.leases.seated().map(|(run, task, _)| (run, task)).collect::<Vec<_>>() {
            self.detach(run, task);
        }
        self.outbox.all_departed();
        self.await_browsers();
        self.tell(ToCrew::Opened);
        self.queues.say_all();
        if !self.timers.is_set(Timer::Beat) {
            self.beat();
        }
    }

    /// The shard is read again: the crew is to leave it alone.
    pub(crate) fn close(&mut self) {
        self.link().begin();
        self.tell(ToCrew::Closed);
    }

    /// A word to the crew, so that a message that never came shows.
    pub(crate) fn beat(&mut self) {
        self.tell(ToCrew::Beat);
        self.timers.set(Timer::Beat, self.now.mono.plus(self.config.heartbeat_ms));
    }

    /// Tells the crew how many tasks wait, where that has changed.
    pub(crate) fn say_wants(&mut self) {
        for (run, agent) in self.queues.take_changed() {
            let tasks = self.queues.length(run, &agent);
            let only = self.browsers.worker_for(run, &agent).cloned();
            self.tell(ToCrew::Wanted { agent, run, tasks, only });
        }
    }

    /// A worker is there, with leases that it still has, or has come back without them.
    fn present(&mut self, connection: ConnectionId, worker: &Arc<str>, held: Vec<(Lease, OfferId)>) {
        let mut runs = BTreeSet::new();
        let mut kept = Vec::new();
        let asked = !held.is_empty();
        for (lease, offer) in held {
            runs.insert(lease.run);
            let task = task_of(&lease);
            let seat = Seat { connection, offer };
            if self.leases.reattach((lease.run, task, lease.token), worker, seat, self.now.mono) {
                self.timers.cancel(Timer::Reattach(lease.run, task, lease.token));
                kept.push((lease, offer, self.agent_of(lease.run, task)));
            }
        }
        if asked {
            self.tell(ToCrew::Reattached { connection, leases: kept });
        }
        // A lease of this worker that it does not speak of is gone: the worker restarted, or never got it.
        for (run, task, lease) in self.leases.away_of(worker) {
            runs.insert(run);
            self.lose(run, task, lease, v1::LeaseLossReason::Restarted);
        }
        for run in runs {
            self.resend(connection, run);
            self.end_quiet(run);
        }
    }

    fn left(&mut self, connection: ConnectionId, departure: Departure) {
        for (run, task, lease) in self.leases.seated_at(connection) {
            match departure {
                Departure::Gone => self.detach(run, task),
                Departure::Silent => self.lose(run, task, lease, v1::LeaseLossReason::Silent),
            }
        }
        self.outbox.departed(connection);
        self.browsers_left(connection, departure);
    }

    /// A slot for a task of the run. Only what really waits takes it; what was cancelled meanwhile does not.
    fn offered(&mut self, seat: Seat, worker: Arc<str>, agent: &Arc<str>, declared: Declared, run: RunId) {
        let may_lease =
            !self.leases_nothing() && self.runs.get(run).is_some_and(|slot| slot.state.may_lease());
        if !may_lease {
            // A held run queues its tasks again when it is released.
            self.queues.drop_agent(run, agent);
        }
        // It was offered before the crew knew whose slot the run waits for.
        let only = self.browsers.worker_for(run, agent).cloned();
        if only.as_ref().is_some_and(|only| *only != worker) {
            let tasks = self.queues.length(run, agent);
            self.tell(ToCrew::Wanted { agent: Arc::clone(agent), run, tasks, only });
            return self.tell(ToCrew::Returned { offer: seat.offer });
        }
        while let Some(task) = self.queues.next(run, agent) {
            let waits = self.runs.get(run).is_some_and(|slot| slot.state.is_queued(task));
            if !waits {
                continue;
            }
            let lease = engine::Input::Lease {
                task,
                worker: worker.to_string(),
                mark: self.mark(),
                output_schema: declared.output_schema.clone(),
                cancel_is_final: declared.cancel_is_final,
            };
            self.input(run, lease, Origin::Shard);
            let token = self.runs.get(run).and_then(|slot| slot.state.lease_of(task)).map(|(token, _)| token);
            let Some(token) = token else { continue };
            self.leases.grant(run, task, token, worker, seat);
            let tasks = self.queues.length(run, agent);
            return self.tell(ToCrew::Taken { offer: seat.offer, tasks });
        }
        // The crew has to know that nothing waits before it has a slot to offer again.
        self.tell(ToCrew::Wanted { agent: Arc::clone(agent), run, tasks: 0, only: None });
        self.tell(ToCrew::Returned { offer: seat.offer });
    }

    pub(crate) fn said(&mut self, connection: ConnectionId, worker: &str, lease: Lease, said: Said) {
        let task = task_of(&lease);
        match said {
            Said::Acknowledged => {
                self.leases.heard(connection, (lease.run, task, lease.token), self.now.mono);
            }
            Said::Progress(progress) => {
                let key = (lease.run, task, lease.token);
                self.leases.heard(connection, key, self.now.mono);
                let held = match planted::is(Fault::LogOfALostLease) {
                    true => self.leases.of_task_mut(lease.run, task),
                    false => self.leases.at(connection, key),
                };
                if let Some(held) = held {
                    let before = held.progress.take().and_then(|before| before.log);
                    held.progress = Some(v1::Progress { log: progress.log.or(before), ..progress });
                    self.show_progress(lease.run, task);
                }
            }
            Said::Completed(completed) => {
                let report = Report::Completed(completed.output.unwrap_or_else(null));
                self.report(connection, worker, lease, report, completed.log, completed.usage);
            }
            Said::Failed(failed) => {
                let report = Report::Failed(failed.error.unwrap_or_default());
                self.report(connection, worker, lease, report, failed.log, failed.usage);
            }
            Said::Cancelled(cancelled) => {
                let report = Report::Cancelled(cancelled.partial_output);
                self.report(connection, worker, lease, report, cancelled.log, None);
            }
            Said::Returned => {
                if self.leases.connection_of(lease.run, task, lease.token) == Some(connection) {
                    self.hear(connection, worker, lease, What::Returned);
                    self.handed_back(lease.run, task, lease.token);
                }
            }
        }
    }

    pub(crate) fn report(
        &mut self,
        connection: ConnectionId,
        worker: &str,
        lease: Lease,
        report: Report,
        log: String,
        usage: Option<v1::Usage>,
    ) {
        let task = task_of(&lease);
        // A result at once needs no acknowledgement before it.
        if self.leases.connection_of(lease.run, task, lease.token) == Some(connection) {
            self.returns.taken(lease.run, task);
        }
        let refused = |reason: v1::RefusalReason| refusal(connection, &lease, reason);
        if !self.is_ours(lease.token) {
            return self.tell(refused(v1::RefusalReason::OtherHistory));
        }
        let Some(slot) = self.runs.get(lease.run) else {
            // It may be the answer to a lease that has settled, said again because its confirmation was lost.
            let (worker, report) = (worker.to_owned(), Box::new(report));
            let wanted = Wanted::Report { connection, worker, lease, report, log, usage };
            if self.want(lease.run, wanted).is_ok() {
                return;
            }
            // Nothing of a run that is over changes any more, and its log stays as it is.
            return self.tell(refused(v1::RefusalReason::AlreadySettled));
        };
        if slot.state.plan().task(task).is_none() {
            return self.tell(refused(v1::RefusalReason::UnknownTask));
        }
        if slot.state.report_to_judge(task, lease.token, worker, &report).is_some() {
            return self.await_judge(connection, worker, lease, report, (log, usage));
        }
        if let Report::Completed(output) | Report::Judged(output, _) | Report::Cancelled(Some(output)) =
            &report
        {
            let named = slot.state.blobs_of(output);
            self.outbox.batch(lease.run).blobs.extend(named.iter().filter_map(blob_hash));
        }
        if let Report::Judged(_, verdict) | Report::Unread(_, verdict) = &report {
            // What was made of the output, and what the next attempt is given.
            let made = verdict.value.iter().chain(&verdict.corrected);
            let blobs = made.filter_map(|payload| match &payload.data {
                Some(v1::payload::Data::Blob(blob)) => blob_hash(blob),
                _ => None,
            });
            self.outbox.batch(lease.run).blobs.extend(blobs);
        }
        if let Report::Failed(error) = &report {
            self.tell_limited(connection, &lease, error);
        }
        self.hear(
            connection,
            worker,
            lease,
            What::Report(Box::new(report.clone()), log.clone(), usage.clone()),
        );
        let worker = worker.to_owned();
        let input = engine::Input::Report { task, lease: lease.token, worker, report, log, usage };
        self.input(lease.run, input, Origin::Worker(connection));
    }

    /// A rate limit is one of the agent: its other tasks wait as well, whatever run they are of.
    fn tell_limited(&mut self, connection: ConnectionId, lease: &Lease, error: &v1::Error) {
        let task = task_of(lease);
        let is_holder = self.leases.connection_of(lease.run, task, lease.token) == Some(connection);
        let limits_hold = self.runs.get(lease.run).is_some_and(|slot| slot.state.limits_hold());
        let is_limit = is_holder && limits_hold && error.code == codes::RATE_LIMIT;
        if let Some(for_ms) = error.retry_after_ms.filter(|for_ms| is_limit && *for_ms > 0) {
            let agent = self.agent_of(lease.run, task);
            self.tell(ToCrew::Limited { agent, for_ms });
        }
    }

    /// A heartbeat interval has passed: did the worker acknowledge what it was given?
    fn pulse(&mut self, connection: ConnectionId, last_frame: Mono) {
        for (run, task, lease) in self.leases.seated_at(connection) {
            // What had arrived is read first.
            let again = self.now.mono.plus(LOOK_AGAIN_MS);
            if self.leases.is_overdue(run, task, lease, again) {
                self.timers.set(Timer::Unacknowledged(run, task, lease), again);
            } else {
                self.leases.checked(run, task, last_frame);
                if let Some(slot) = self.runs.get_mut(run) {
                    slot.checked(task);
                }
                self.show_progress(run, task);
            }
        }
    }

    pub(crate) fn not_acknowledged(&mut self, run: RunId, task: TaskRef, lease: u64) {
        if self.leases.is_overdue(run, task, lease, self.now.mono) {
            self.tell_spurned(run, task, lease, Spurned::Unacknowledged);
            self.lose(run, task, lease, v1::LeaseLossReason::NotAcknowledged);
        }
    }

    /// What is known of the work that goes on for the run.
    pub(crate) fn health(&self, run: RunId) -> Vec<(TaskRef, v1::HealthChecks)> {
        let leased = self.runs.get(run).into_iter().flat_map(|slot| slot.state.leases());
        leased.filter_map(|(task, ..)| Some((task, self.health_of(run, task)?))).collect()
    }

    fn health_of(&self, run: RunId, task: TaskRef) -> Option<v1::HealthChecks> {
        let held = self.leases.of_task(run, task)?;
        let slot = self.runs.get(run)?;
        let (started, deadline) = slot.state.running_times(task)?;
        let now = slot.clock(self.now.mono);
        let heard = held.last_frame().filter(|at| slot.clock(*at) >= started);
        Some(v1::HealthChecks {
            count: slot.checks(task),
            last_at_ms: heard.map(|at| self.now.wall.0.saturating_sub(self.now.mono.since(at))),
            time_used: share(now.since(started), deadline.since(started)),
            lease: held.token,
            message: held.progress.as_ref().and_then(|progress| progress.message.clone()),
            log: held.progress.as_ref().and_then(|progress| progress.log.clone()),
        })
    }

    fn show_progress(&mut self, run: RunId, task: TaskRef) {
        let Some(held) = self.leases.of_task(run, task) else { return };
        let Some(slot) = self.runs.get(run) else { return };
        let Some((started, deadline)) = slot.state.running_times(task) else { return };
        let Some(health) = self.health_of(run, task) else { return };
        let now = slot.clock(self.now.mono);
        let progress = v1::ProgressFrame {
            run_id: run.to_string(),
            wave: task.wave,
            task: task.task,
            at_ms: self.now.wall.0,
            elapsed_ms: now.since(started),
            remaining_ms: deadline.since(now),
            health_checks: health.count,
            last_health_check_ms: health.last_at_ms,
            time_used: health.time_used,
            fraction: held.progress.as_ref().and_then(|progress| progress.fraction),
            message: health.message,
            partial_tail: held.progress.as_ref().and_then(tail::of_progress),
            lease: health.lease,
            log: health.log,
        };
        self.out(Output::Progress(progress));
    }

    /// Sends an assignment whose lease is durable, where its holder is still there.
    pub(crate) fn assign(&mut self, run: RunId, task: TaskRef, token: u64, deadline: Option<Moment>) {
        let Some(connection) = self.leases.connection_of(run, task, token) else { return };
        if self.is_kept_back(run, task, token) {
            return;
        }
        let Some(slot) = self.runs.get(run) else { return };
        let Some(assignment) = slot.state.assignment(task) else { return };
        let run_id = run.to_string();
        let remaining_ms = deadline.map_or(0, |at| slot.remaining(at.clock, self.now.mono));
        let frame = v1::Assignment {
            idempotency_key: format!("{run_id}/{}/{}", assignment.name, assignment.activation),
            lease: Some(v1::LeaseRef { run_id, wave: task.wave, task: task.task, lease: token }),
            agent: assignment.agent.to_owned(),
            task_name: assignment.name.to_owned(),
            activation: assignment.activation,
            attempt: assignment.attempt,
            input: assignment.input.cloned(),
            deadline_ms: deadline.map_or(0, |at| at.wall.0),
            remaining_ms,
            output_schema: assignment.output_schema.unwrap_or_default().to_owned(),
            traceparent: spans::of_lease(run, &slot.state, token).to_string(),
        };
        self.leases.assigned(run, task, self.now.mono.plus(self.config.ack_timeout_ms));
        self.tell(ToCrew::Tell { connection, frame: Frame::Assignment(frame) });
    }

    /// The lease is over: its slot is free when that is durable.
    pub(crate) fn let_go(&mut self, run: RunId, task: TaskRef, token: u64) {
        let Some(held) = self.leases.release(run, task, token) else { return };
        self.timers.cancel(Timer::Reattach(run, task, token));
        if let Some(vacated) = held.vacated(task) {
            self.outbox.batch(run).deferred.push(Deferred::Return(vacated));
        }
    }

    pub(crate) fn lose(&mut self, run: RunId, task: TaskRef, lease: u64, reason: v1::LeaseLossReason) {
        self.input(run, engine::Input::LeaseLost { task, lease, reason }, Origin::Shard);
        // Where the engine no longer knew the lease, the slot is free all the same.
        self.let_go(run, task, lease);
    }

    /// The lease's worker is away: the lease waits for it to come back.
    pub(crate) fn detach(&mut self, run: RunId, task: TaskRef) {
        self.leases.detach(run, task);
        let Some(held) = self.leases.of_task(run, task) else { return };
        let timer = Timer::Reattach(run, task, held.token);
        if !self.timers.is_set(timer) {
            self.timers.set(timer, self.now.mono.plus(self.config.reattach_ms));
        }
    }

    pub(crate) fn reattach_expired(&mut self, run: RunId, task: TaskRef, lease: u64) {
        if self.leases.get(run, task, lease).is_some_and(|held| held.seat().is_none()) {
            self.lose(run, task, lease, v1::LeaseLossReason::Disconnected);
        }
    }

    /// Once every lease of a recovered run is accounted for, its deadlines count again.
    fn end_quiet(&mut self, run: RunId) {
        if self.leases.waits_for_worker(run) || planted::is(Fault::TimerNotRearmed) {
            return;
        }
        if let Some(slot) = self.runs.get_mut(run)
            && slot.quiet_until > self.now.mono
        {
            slot.quiet_until = self.now.mono;
            self.outbox.batch(run);
        }
    }

    /// Tells a worker that came back what it may have missed about its leases in this run.
    pub(crate) fn resend(&mut self, connection: ConnectionId, run: RunId) {
        let Some(slot) = self.runs.get(run) else { return };
        let mut missed = Vec::new();
        for effect in slot.state.outstanding() {
            match effect {
                Effect::Assign { task, lease }
                    if self.leases.connection_of(run, task, lease) == Some(connection) =>
                {
                    // Under an earlier claim the worker may have been told what this history does not know.
                    let earlier = engine::mark_of(lease) != self.mark();
                    missed.extend(deadline_of(&slot.state, task, lease, earlier));
                }
                Effect::Cancel { task, lease, .. }
                    if self.leases.connection_of(run, task, lease) == Some(connection) =>
                {
                    missed.push(effect);
                }
                _ => {}
            }
        }
        for effect in missed {
            self.defer(run, effect, Origin::Shard);
        }
    }

    fn agent_of(&self, run: RunId, task: TaskRef) -> Arc<str> {
        let declared = self.runs.get(run).and_then(|slot| slot.state.plan().task(task));
        Arc::from(declared.map_or("", |task| task.agent.as_str()))
    }
}

/// A result does not count.
pub(crate) fn refusal(connection: ConnectionId, lease: &Lease, reason: v1::RefusalReason) -> ToCrew {
    let lease = Some(lease.reference());
    let frame = v1::ResultRefusedFrame { lease, reason: reason as i32, error: None };
    ToCrew::Tell { connection, frame: Frame::ResultRefused(frame) }
}

pub(crate) fn task_of(lease: &Lease) -> TaskRef {
    TaskRef { wave: lease.wave, task: lease.task }
}

fn null() -> v1::Payload {
    v1::Payload {
        media_type: "application/json".to_owned(),
        data: Some(v1::payload::Data::Inline(bytes::Bytes::from_static(b"null"))),
    }
}

/// The deadline of a task that was ever extended, or where it is told anyway, and that a cancel before it is withdrawn; one
/// that is open follows.
fn deadline_of(state: &engine::RunState, task: TaskRef, lease: u64, anyway: bool) -> Option<Effect> {
    let (started, until) = state.running_times(task)?;
    let deadline = state.assignment(task)?.deadline?;
    let timeout = i64::try_from(state.plan().timeouts_of(task).timeout().as_millis()).unwrap_or(i64::MAX);
    let extended = until != started.plus(timeout);
    (extended || anyway).then_some(Effect::Extend { task, lease, deadline, cancel_withdrawn: true })
}

/// What part of the time is over.
fn share(elapsed_ms: i64, of_ms: i64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a share for people")]
    let share = elapsed_ms as f64 / of_ms.max(1) as f64;
    share
}
