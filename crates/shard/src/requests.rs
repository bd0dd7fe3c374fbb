//! What callers ask for.

use std::collections::{BTreeMap, BTreeSet};

use capataz_contracts::v1;
use capataz_engine::planted::{self, Fault};
use capataz_engine::{self as engine, Effect, Refusal, RunLimits, RunState, TaskRef};
use capataz_store::{Create, Millis, Past, QuarantineReason, RunId};

use crate::api::{Answer, CommandReply, Declined, Request, StartReply, StartRequest, WaitReply};
use crate::blob_hash;
use crate::load::{Damage, contained};
use crate::outbox::Deferred;
use crate::resting::Wanted;
use crate::runs::{RunSlot, Waiter};
use crate::sessions::{SessionCommand, session_stream};
use crate::shard::{Mode, Origin, Output, ReplyId, Shard, seed_of};
use crate::timers::Timer;

/// What an overloaded daemon asks its callers to wait. Milliseconds.
const RETRY_AFTER_MS: i64 = 250;
pub(crate) const OVERLOADED: Declined = Declined::Overloaded { retry_after_ms: RETRY_AFTER_MS };

/// Who starts a run, and is told when it is there.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Caller {
    /// The run whose task it is, which asks again.
    Parent,
    Starts(ReplyId),
    /// Somebody who has asked before, and hears that the run exists.
    Repeats(ReplyId),
}

impl Origin {
    /// The worker that is answered.
    pub(crate) fn worker(self) -> Option<capataz_crew::ConnectionId> {
        match self {
            Self::Worker(connection) => Some(connection),
            Self::Shard | Self::Caller(_) => None,
        }
    }

    fn caller(self) -> Option<ReplyId> {
        match self {
            Self::Caller(reply) => Some(reply),
            Self::Shard | Self::Worker(_) => None,
        }
    }
}

impl Shard {
    pub(crate) fn request(&mut self, reply: ReplyId, request: Request, absent: &BTreeSet<String>) {
        let serves = self.mode == Mode::Running;
        match request {
            Request::Start(request) => {
                let started = match serves {
                    true if self.is_registered_elsewhere(&request) => {
                        self.start_elsewhere(reply, *request, absent)
                    }
                    true => self.start(Caller::Starts(reply), *request, absent),
                    false => Err(Answer::Start(Err(Declined::Unavailable))),
                };
                if let Err(answer) = started {
                    self.reply(reply, answer);
                }
            }
            Request::Wait { .. } if !serves => self.reply(reply, Answer::Wait(Err(Declined::Unavailable))),
            Request::Wait { run } => self.wait(reply, run),
            Request::Health { .. } if !serves => {
                self.reply(reply, Answer::Health(Err(Declined::Unavailable)));
            }
            Request::Health { run } => {
                let answer = Answer::Health(Ok(self.health(run)));
                if planted::is(Fault::HealthBeforeItsLease) {
                    return self.reply(reply, answer);
                }
                // A lease may not be durable yet.
                self.outbox.batch(run).deferred.push(Deferred::Reply(reply, answer));
            }
            Request::Command { .. } if !serves => {
                self.reply(reply, Answer::Command(Err(Declined::Unavailable)));
            }
            Request::Command { run, if_seq, input } => self.command(reply, run, if_seq, *input),
            Request::AcceptTransition { .. } if !serves => {
                self.reply(reply, Answer::Transition(Err(Declined::Unavailable)));
            }
            Request::AcceptTransition { session, request_id } => {
                let command = SessionCommand::Accept { request_id };
                self.session_command(reply, session_stream(&session), command);
            }
            Request::ImportSession(_) if !serves => {
                self.reply(reply, Answer::Imported(Err(Declined::Unavailable)));
            }
            Request::ImportSession(import) => {
                let stream = session_stream(&import.session);
                self.session_command(reply, stream, SessionCommand::Import(import));
            }
            Request::ChooseMode { .. } if !serves => {
                self.reply(reply, Answer::Chosen(Err(Declined::Unavailable)));
            }
            Request::ChooseMode { session, mode } => {
                let stream = session_stream(&session);
                self.session_command(reply, stream, SessionCommand::Choose { session, mode });
            }
            Request::Forget { .. } if !serves => {
                self.reply(reply, Answer::Forgotten(Err(Declined::Unavailable)));
            }
            Request::Forget { session, entry_ids } => {
                let stream = session_stream(&session);
                self.session_command(reply, stream, SessionCommand::Forget { session, entry_ids });
            }
            Request::Delete { .. } if !serves => {
                self.reply(reply, Answer::Deleted(Err(Declined::Unavailable)))
            }
            Request::Delete { run } => self.delete(reply, run),
            Request::Release { .. } if !serves => {
                self.reply(reply, Answer::Released(Err(Declined::Unavailable)));
            }
            Request::Release { run } => self.try_again(reply, run),
            // The crew's; the driver asks it.
            Request::CheckAgents { .. } | Request::ListAgents { .. } | Request::Agents { .. } => {}
        }
    }

    /// Starts a run for a caller, or for the run whose task it is.
    ///
    /// # Errors
    /// What the caller is answered at once, for nothing was started.
    pub(crate) fn start(
        &mut self,
        caller: Caller,
        request: StartRequest,
        absent: &BTreeSet<String>,
    ) -> Result<(), Answer> {
        self.may_start(caller, &request)?;
        self.begin(caller, request, absent)
    }

    /// Whether there is room for the run.
    ///
    /// # Errors
    /// What the caller is answered at once.
    pub(crate) fn may_start(&self, caller: Caller, request: &StartRequest) -> Result<(), Answer> {
        if self.draining {
            return Err(Answer::Start(Err(Declined::Draining)));
        }
        // Its parent waits for a child, and makes no room before the child has ended.
        let is_child = matches!(caller, Caller::Parent);
        let count = self.run_count() + self.keys.waiting();
        if !is_child && count >= self.config.max_unfinished_runs || self.overloaded() {
            return Err(Answer::Start(Err(OVERLOADED)));
        }
        let session = request.session.as_deref();
        match self.session_is_full(session, is_child).or_else(|| self.damage_of_session(session)) {
            Some(declined) => Err(Answer::Start(Err(declined))),
            None => Ok(()),
        }
    }

    /// A run as it begins.
    ///
    /// # Errors
    /// What the caller is answered at once.
    pub(crate) fn accepted(
        &self,
        run: RunId,
        start: engine::StartRun,
    ) -> Result<(RunState, engine::Decision), Answer> {
        let wall = self.wall();
        contained(|| engine::start(seed_of(run), start, wall))
            .map_err(|detail| {
                let damage =
                    Damage { run, reason: QuarantineReason::Panicked, seq: 0, position: None, detail };
                tracing::error!(%run, detail = damage.detail, "a run cannot be started");
                Answer::Start(Err(Declined::Damaged(Box::new(damage))))
            })?
            .map_err(|refusal| Answer::from(StartReply::Refused(refusal)))
    }

    /// Makes a run for which there is room.
    ///
    /// # Errors
    /// What the caller is answered at once, for nothing was started.
    pub(crate) fn begin(
        &mut self,
        caller: Caller,
        request: StartRequest,
        absent: &BTreeSet<String>,
    ) -> Result<(), Answer> {
        let run = request.run;
        let labels = request.start.labels.clone();
        let (state, decision) = self.accepted(run, request.start)?;
        let past = match state.forked_from() {
            // An id that is none names no run.
            Some((of, seq)) => Some(Past { of: of.parse().map_err(|_| StartReply::BaseGone)?, seq }),
            None => None,
        };
        let create = Create {
            kind: state.kind() as i32,
            name: state.plan().name.clone(),
            labels,
            created_at: Millis(state.created_at().0),
            key: request.key,
            past,
        };
        let clock = state.last().clock;
        let mut slot = RunSlot::new(state, clock, self.now.mono);
        let (waiting, told) = match caller {
            Caller::Starts(reply) if request.wait => (Some(reply), None),
            Caller::Starts(reply) => (None, Some((reply, StartReply::Started { run }))),
            Caller::Repeats(reply) => (None, Some((reply, StartReply::Existing { run }))),
            Caller::Parent => (None, None),
        };
        slot.waiters.extend(waiting.map(|reply| Waiter { reply, started_it: true }));
        self.runs.insert(run, slot);
        let batch = self.outbox.batch(run);
        batch.create = Some(create);
        batch.blobs = request.blobs;
        batch.waiting_creator = waiting;
        batch.deferred.extend(told.map(|(reply, told)| Deferred::Reply(reply, told.into())));
        self.decided(run, decision, None, Origin::Shard);
        self.join_session(run);
        for task in self.absent_tasks(run, absent) {
            self.input(run, engine::Input::AgentAbsent { task }, Origin::Shard);
        }
        Ok(())
    }

    /// One task for each agent of the run's first wave that nobody serves.
    fn absent_tasks(&self, run: RunId, absent: &BTreeSet<String>) -> Vec<TaskRef> {
        if absent.is_empty() {
            return Vec::new();
        }
        let Some(slot) = self.runs.get(run) else { return Vec::new() };
        let agents = slot.state.plan().agents();
        agents.into_iter().filter(|(agent, _)| absent.contains(*agent)).map(|(_, task)| task).collect()
    }

    pub(crate) fn overloaded(&self) -> bool {
        let here = self.outbox.len() + self.resting.wanted();
        here + self.keys.waiting() + self.judging.len() >= self.config.max_pending_appends
    }

    fn wait(&mut self, reply: ReplyId, run: RunId) {
        let limit = self.config.max_waiters_per_run;
        let in_memory = self.runs.get_mut(run).map(|slot| &mut slot.waiters);
        let Some(waiters) = in_memory.or_else(|| self.resting.waiters(run)) else {
            return self.reply(reply, WaitReply::NotActive { run });
        };
        if waiters.len() >= limit && !planted::is(Fault::WaitersWithoutBound) {
            return self.reply(reply, Answer::Wait(Err(OVERLOADED)));
        }
        waiters.push(Waiter { reply, started_it: false });
    }

    pub(crate) fn forget(&mut self, reply: ReplyId, run: RunId) {
        self.forget_start(reply);
        self.resting.forget(run, reply);
        self.judging.forget(reply);
        if let Some(slot) = self.runs.get_mut(run) {
            slot.waiters.retain(|waiter| waiter.reply != reply);
        }
    }

    pub(crate) fn command(&mut self, reply: ReplyId, run: RunId, if_seq: Option<u64>, input: engine::Input) {
        if self.overloaded() {
            return self.reply(reply, Answer::Command(Err(OVERLOADED)));
        }
        let Some(slot) = self.runs.get(run) else {
            let wanted = Wanted::Command { reply, if_seq, input: Box::new(input) };
            if self.want(run, wanted).is_err() {
                self.reply(reply, CommandReply::NotActive { run });
            }
            return;
        };
        let actual = slot.state.seq();
        // A request that was carried out gets its answer again, whatever has happened since.
        let repeats = slot.state.request_seq(input.request_id()).is_some();
        if let Some(judgement) = slot.state.to_judge(&input) {
            return self.await_verdict(reply, run, if_seq, input, judgement);
        }
        // An answer that can be none is judged so, whatever else is wrong with the request.
        let outdated = !repeats && if_seq.is_some_and(|expected| expected != actual);
        if outdated && slot.state.judge(&input).is_ok() {
            // The number may be that of an event which is not durable yet.
            let answer = CommandReply::SeqMismatch { actual }.into();
            return self.outbox.batch(run).deferred.push(Deferred::Reply(reply, answer));
        }
        if let engine::Input::Resolve { answer: engine::Answer { value: Some(value), .. }, .. } = &input
            && let Some(v1::payload::Data::Blob(blob)) = &value.data
        {
            self.outbox.batch(run).blobs.extend(blob_hash(blob));
        }
        self.input(run, input, Origin::Caller(reply));
    }

    /// Lets the engine decide one input of a run. Its origin, where it is a caller or a worker, is answered when that is
    /// durable.
    pub(crate) fn input(&mut self, run: RunId, input: engine::Input, origin: Origin) {
        let Some(slot) = self.runs.get_mut(run) else { return };
        let task = input.task().and_then(|name| slot.state.plan().find(name));
        let now = slot.moment(self.now);
        let (seq, decide) = (slot.state.seq(), self.decide);
        let decided = match contained(|| decide(&mut slot.state, input, now)) {
            Ok(decided) => decided,
            Err(detail) => {
                let damage = Damage { run, reason: QuarantineReason::Panicked, seq, position: None, detail };
                return self.cannot_decide(damage, origin);
            }
        };
        match decided {
            Ok(decision) => {
                let answer = origin.caller().map(|reply| {
                    let (deadline_ms, activation) = task.map_or((0, 0), |task| slot.state.told_of(task));
                    let seq = decision.request_seq.unwrap_or(slot.state.seq());
                    let repeated = decision.count == 0;
                    let done = CommandReply::Done { seq, deadline_ms, activation, repeated };
                    Deferred::Reply(reply, done.into())
                });
                self.decided(run, decision, answer, origin);
                self.enforce_limit(run);
            }
            Err(Refusal::Corrupt(corrupt)) => {
                tracing::error!(%run, %corrupt, "the engine wrote an event that it cannot fold");
                if !self.conflicts(run) {
                    let damage = self.conflict(run, seq, corrupt.to_string());
                    return self.cannot_decide(damage, origin);
                }
                if let Some(reply) = origin.caller() {
                    self.reply(reply, Answer::Command(Err(Declined::Unavailable)));
                }
                // Its state has what the log does not have, though nothing of it is in flight.
                self.broken.insert(run);
                self.commit_failed();
            }
            Err(refusal) => {
                if let Some(reply) = origin.caller() {
                    let answer = CommandReply::Refused(refusal).into();
                    self.outbox.batch(run).deferred.push(Deferred::Reply(reply, answer));
                }
            }
        }
    }

    /// Nobody can decide anything about the run.
    fn cannot_decide(&mut self, damage: Damage, origin: Origin) {
        if let Some(reply) = origin.caller() {
            self.reply(reply, Answer::Command(Err(Declined::Damaged(Box::new(damage.clone())))));
        }
        self.quarantine(&damage);
    }

    /// Takes a decision into this turn's batch of the run, and its memory-only effects at once.
    pub(crate) fn decided(
        &mut self,
        run: RunId,
        decision: engine::Decision,
        answer: Option<Deferred>,
        origin: Origin,
    ) {
        let mut finishes = false;
        let decided = decision.count > 0;
        for effect in decision.effects {
            match effect {
                Effect::Enqueue { task } => self.enqueue(run, task),
                Effect::Dequeue { task } => self.dequeue(run, task),
                Effect::Hold => self.queues.drop_run(run),
                Effect::Release => self.enqueue_all(run),
                Effect::Query { query, asked }
                    if asked.recalls().is_some_and(|wanted| {
                        self.outbox.changes_memory(run, &decision.events, wanted)
                            && !planted::is(Fault::RecalledBeforeItsEvents)
                    }) =>
                {
                    self.outbox.batch(run).deferred.push(Deferred::Query(query));
                }
                // Nothing outside changes by it: it need not wait for the commit.
                Effect::Query { query, asked } => self.out(Output::Query { run, query, asked }),
                effect => {
                    finishes |= effect == Effect::Finish;
                    self.defer(run, effect, origin);
                }
            }
        }
        self.note_browser(run);
        let batch = self.outbox.batch(run);
        batch.add(decision.first_seq, decision.count, decision.events);
        batch.deferred.extend(answer);
        // Without events of its own there is nothing that it could become durable with.
        let goes_on = decided && self.runs.get(run).is_some_and(|slot| !slot.state.is_finished());
        if finishes || goes_on {
            self.record_in_session(run);
        }
    }

    /// The task waits for a slot of its agent. What a held run queues, it queues again when it is released.
    pub(crate) fn enqueue(&mut self, run: RunId, task: TaskRef) {
        // It was handed back, and waits by itself.
        if self.returns.is_paused(run, task) {
            return;
        }
        let Some(slot) = self.runs.get(run).filter(|slot| slot.state.may_lease()) else { return };
        let Some(declared) = slot.state.plan().task(task) else { return };
        self.queues.add(run, &declared.agent, task);
    }

    fn dequeue(&mut self, run: RunId, task: TaskRef) {
        // However often it was handed back, it does not wait any more.
        self.returns.taken(run, task);
        if self.returns.resume(run, task) {
            self.timers.cancel(Timer::HandedBack(run, task));
        }
        let declared = self.runs.get(run).and_then(|slot| slot.state.plan().task(task));
        if let Some(declared) = declared {
            self.queues.remove(run, &declared.agent, task);
        }
    }

    pub(crate) fn enqueue_all(&mut self, run: RunId) {
        let Some(slot) = self.runs.get(run) else { return };
        let queued: Vec<TaskRef> = slot.state.queued().collect();
        for task in queued {
            self.enqueue(run, task);
        }
    }

    /// Ends a run that has outgrown one of its limits.
    fn enforce_limit(&mut self, run: RunId) {
        let limit = self.config.max_events_per_run;
        let limits = RunLimits { events: limit, bytes: self.config.max_bytes_per_run };
        let Some(slot) = self.runs.get(run) else { return };
        if !slot.state.exceeds(limits)
            || slot.state.status() == v1::RunStatus::Cancelling
            || slot.state.is_finished()
        {
            return;
        }
        self.input(run, engine::Input::LimitExceeded { limit }, Origin::Shard);
    }

    pub(crate) fn tick_run(&mut self, run: RunId) {
        let Some(slot) = self.runs.get(run) else {
            let _ = self.want(run, Wanted::Tick);
            return;
        };
        if slot.quiet_until > self.now.mono {
            return;
        }
        if let Some(until) = self.judging.holds_until(run).filter(|until| *until > self.now.mono) {
            return self.timers.set(Timer::Run(run), until);
        }
        let clock = |at| slot.clock(at);
        let due = slot.state.due(clock(self.now.mono));
        let observed = due.filter_map(|task| Some((task, self.leases.of_task(run, task)?.observed(clock))));
        let observed: BTreeMap<TaskRef, engine::Observed> = observed.collect();
        // What is seen of a task whose time is over may be recorded, with the blobs that it names.
        let partial = observed.values().filter_map(|observed| observed.partial_output.as_ref());
        let named: Vec<v1::BlobRef> = partial.flat_map(|output| slot.state.blobs_of(output)).collect();
        self.outbox.batch(run).blobs.extend(named.iter().filter_map(blob_hash));
        self.input(run, engine::Input::Tick { observed }, Origin::Shard);
    }

    /// Keeps the run's timer in step with its state.
    pub(crate) fn arm(&mut self, run: RunId) {
        let Some(slot) = self.runs.get(run) else { return };
        match slot.state.next_deadline().map(|at| slot.when(at).max(slot.quiet_until)) {
            Some(due) => self.timers.set(Timer::Run(run), due),
            None => self.timers.cancel(Timer::Run(run)),
        }
    }
}
