//! Commits: decisions become appends, and what rests on them leaves when they are durable.

use capataz_contracts::v1::{self, connect_response::Frame};
use capataz_crew::ToCrew;
use capataz_engine::planted::{self, Fault};
use capataz_engine::{self as engine, Effect, QueryId, TaskRef};
use capataz_store::{Append, AppendOutcome, Position, RunId, Snapshot};

use crate::api::{Answer, Declined, StartReply, WaitReply};
use crate::browsers;
use crate::journal::MAX_SNAPSHOT_BYTES;
use crate::outbox::{AppendId, Batch, Deferred, Pending};
use crate::projection;
use crate::runs::Waiter;
use crate::sessions::session_stream;
use crate::shard::{Mode, Origin, Output, Published, ReplyId, Shard};
use crate::timers::Timer;

impl Shard {
    /// Sends this turn's batches on their way.
    pub(crate) fn flush(&mut self) {
        for batch in self.outbox.take_batches() {
            self.arm(batch.run);
            if batch.count > 0 {
                self.append(batch);
            } else {
                let last = self.runs.get(batch.run).map_or(AppendId(0), |slot| slot.last_append);
                self.after_append(batch.run, last, batch.deferred);
            }
        }
    }

    fn append(&mut self, mut batch: Batch) {
        let events = batch.take_events();
        let rest = self.rest_of(batch.run);
        let Some(slot) = self.runs.get(batch.run) else { return };
        // The row of the list is written with each append: it never says what the log does not.
        let summary = (!planted::is(Fault::RowWithoutItsEvent) || slot.state.is_finished())
            .then(|| projection::listed(&slot.state));
        let derived = match planted::is(Fault::AppendWithoutItsRows) {
            false => projection::derived_of_append(&slot.state, batch.first_seq, &events),
            true => Vec::new(),
        };
        let memory = match slot.state.remembers() && !planted::is(Fault::MemoryWithoutItsRows) {
            true => projection::memory_of_append(batch.run, &events),
            false => Vec::new(),
        };
        // The mark binds the next append, whatever that is: without the session's there must be no mark.
        let session = batch.session.filter(|session| self.sessions.is_loaded(session.stream));
        let append = Append {
            run: batch.run,
            first_seq: batch.first_seq,
            count: batch.count,
            events,
            create: batch.create,
            summary,
            rest,
            derived,
            memory,
            blobs: batch.blobs,
            joined: session.is_some() && !planted::is(Fault::JoinedAppendLosesItsMark),
            key: None,
        };
        let mut deferred = batch.deferred;
        if planted::is(Fault::AcknowledgeBeforeCommit) {
            let early = std::mem::take(&mut deferred);
            self.release(batch.run, early);
        }
        if planted::is(Fault::CallBeforeItsApprovalIsDurable)
            && (projection::approves(&append.events) || self.outbox.approves(batch.run))
        {
            let is_call = |leaves: &Deferred| matches!(leaves, Deferred::Assign { .. });
            let (early, late) = std::mem::take(&mut deferred).into_iter().partition(is_call);
            deferred = late;
            self.release(batch.run, early);
        }
        let id = self.send_append(append, deferred, batch.waiting_creator);
        if let Some(slot) = self.runs.get_mut(batch.run) {
            slot.last_append = id;
        }
        if let Some(session) = session {
            self.append_session(session, Vec::new());
        }
    }

    /// Sends an append on its way, and keeps what leaves when it is durable.
    pub(crate) fn send_append(
        &mut self,
        append: Append,
        deferred: Vec<Deferred>,
        waiting_creator: Option<ReplyId>,
    ) -> AppendId {
        let facts = self.facts_of(append.run);
        let id = self.outbox.send(&append, facts, deferred, waiting_creator);
        self.out(Output::Append { id, append });
        id
    }

    /// Lets go what rests on the append `last`, once that is durable.
    pub(crate) fn after_append(&mut self, run: RunId, last: AppendId, deferred: Vec<Deferred>) {
        if deferred.is_empty() {
            return;
        }
        if let Some(deferred) = self.outbox.rest_on(last, deferred) {
            self.release(run, deferred);
        }
    }

    pub(crate) fn committed(&mut self, outcomes: Vec<AppendOutcome>) {
        for outcome in outcomes {
            let Some(pending) = self.outbox.settle() else { return };
            if pending.of_key && outcome != AppendOutcome::Fenced {
                self.key_settled(pending, &outcome);
                continue;
            }
            let stream = pending.run;
            match outcome {
                AppendOutcome::Committed(position) => {
                    self.fits(stream);
                    self.durable(pending, position);
                }
                AppendOutcome::KeyTaken { run, same_request }
                    if pending.creates && self.runs.contains(pending.run) =>
                {
                    self.creation_refused(pending, || match same_request {
                        true => StartReply::Existing { run },
                        false => StartReply::KeyReused { run },
                    });
                }
                // What a fork was to begin with was removed since its caller has read it.
                AppendOutcome::PastGone if pending.creates && self.runs.contains(pending.run) => {
                    self.creation_refused(pending, || StartReply::BaseGone);
                }
                AppendOutcome::KeyTaken { .. }
                    if planted::is(Fault::RefusedAskLeavesItsTurn) && self.sessions.is_loaded(stream) =>
                {
                    self.reread_session(stream);
                }
                // It was refused with its ask, or rests on one that was: the session is being read again.
                AppendOutcome::KeyTaken { .. } | AppendOutcome::Conflict
                    if self.sessions.contains(stream) && !self.sessions.is_loaded(stream) =>
                {
                    self.never_was(pending);
                }
                AppendOutcome::Fenced => {
                    self.outbox.unsettle(pending);
                    self.abandon();
                    self.mode = Mode::Fenced;
                    self.have_tried(&Err(Declined::Unavailable));
                    self.out(Output::Fenced);
                    return;
                }
                // The run's creation was refused before, so that nothing of it is there and nobody was told of it; or the
                // run has gone into quarantine meanwhile.
                AppendOutcome::Conflict | AppendOutcome::PastGone | AppendOutcome::KeyTaken { .. }
                    if !self.runs.contains(pending.run) && !self.sessions.contains(pending.run) =>
                {
                    self.never_was(pending);
                }
                // The log is not what this shard believes: believe the log.
                AppendOutcome::Conflict | AppendOutcome::PastGone | AppendOutcome::KeyTaken { .. } => {
                    if !self.conflicts(stream) {
                        self.conflicted_again(pending);
                        continue;
                    }
                    tracing::error!(run = %pending.run, "an append does not fit the log; the shard is read again");
                    self.outbox.unsettle(pending);
                    return self.commit_failed();
                }
            }
            self.reread_when_settled(stream);
        }
        self.sessions.put_away(self.outbox.oldest(), self.config.idle_sessions);
    }

    fn durable(&mut self, pending: Pending, position: Position) {
        if pending.creates {
            self.runs.accepted([(pending.run, position)]);
        }
        self.out(Output::Publish(Published {
            position,
            run: pending.run,
            first_seq: pending.first_seq,
            count: pending.count,
            events: pending.events,
            facts: pending.facts,
        }));
        self.release(pending.run, pending.deferred);
        self.snapshot_if_due(pending.run, pending.id);
        if pending.rests {
            self.lay_to_rest(pending.run, pending.id);
        }
        self.snapshot_session(pending.run, pending.id);
    }

    /// Nothing of it is there. Slots that it would have freed were never used.
    fn never_was(&mut self, pending: Pending) {
        for deferred in pending.deferred {
            match deferred {
                Deferred::Return(vacated) => self.tell(ToCrew::Returned { offer: vacated.offer }),
                other => self.decline(other.into_reply(), &Declined::Unavailable),
            }
        }
    }

    /// The run was there already, or cannot be: this one never was.
    fn creation_refused(&mut self, pending: Pending, answer: impl Fn() -> StartReply) {
        for deferred in pending.deferred {
            match deferred {
                Deferred::Reply(reply, Answer::Start(_)) => self.reply(reply, answer()),
                Deferred::Return(vacated) => self.tell(ToCrew::Returned { offer: vacated.offer }),
                other => self.decline(other.into_reply(), &Declined::Unavailable),
            }
        }
        if let Some(reply) = pending.waiting_creator {
            self.reply(reply, answer());
        }
        // What the run has said in its session was never said: nobody may begin on it.
        let spoke = self.runs.get(pending.run).filter(|slot| slot.state.has_spoken());
        let spoke = spoke.filter(|_| !planted::is(Fault::RefusedAskLeavesItsTurn));
        if let Some(session) = spoke.and_then(|slot| slot.state.session()) {
            self.reread_session(session_stream(session));
        }
        self.forget_run(pending.run);
    }

    /// Removes a run from memory, with its leases, queues and timers.
    pub(crate) fn forget_run(&mut self, run: RunId) {
        let Some(slot) = self.runs.remove(run) else { return };
        self.timers.cancel(Timer::Run(run));
        self.timers.cancel(Timer::Children(run));
        self.queues.drop_run(run);
        self.forget_returns(run);
        self.note_browser(run);
        let leases: Vec<(TaskRef, u64)> = slot.state.leases().map(|(task, token, _)| (task, token)).collect();
        for (task, token) in leases {
            self.timers.cancel(Timer::Reattach(run, task, token));
            if let Some(seat) = self.leases.release(run, task, token).and_then(|held| held.seat()) {
                self.tell(ToCrew::Returned { offer: seat.offer });
            }
        }
        if let Some(session) = slot.state.session() {
            self.leave_session(run, session);
        }
    }

    /// Nobody knows what is durable: all that was not acknowledged is thrown away at the end of the turn, and read again.
    pub(crate) fn commit_failed(&mut self) {
        if self.mode != Mode::Running {
            return;
        }
        if planted::is(Fault::AppendRepeatedAfterUnknown) {
            for (id, append) in self.outbox.repeated() {
                self.out(Output::Append { id, append });
            }
            return;
        }
        self.mode = Mode::Recovering;
        self.failed = true;
        // What the crew says in the rest of this turn is kept.
        self.restart.get_or_insert_default();
    }

    /// Throws all work away and tells everybody who waits.
    pub(crate) fn abandon(&mut self) {
        self.mode = Mode::Recovering;
        self.failed = false;
        self.restart = None;
        self.broken.clear();
        for reply in self.outbox.abandon() {
            self.decline(Some(reply), &Declined::Unavailable);
        }
        let mut waiters = self.runs.abandon();
        let timers = &self.timers;
        for (run, woken) in self.resting.abandon(|run| timers.due(Timer::Run(run))) {
            self.runs.keep_clock(run, woken.clock);
            waiters.extend(woken.waiters);
            for wanted in woken.wanted {
                self.decline_wanted(wanted, &Declined::Unavailable);
            }
        }
        self.turn_away(waiters);
        for reply in self.judging.abandon() {
            self.reply(reply, Answer::Command(Err(Declined::Unavailable)));
        }
        for (reply, command) in self.sessions.abandon() {
            self.reply(reply, command.declined(Declined::Unavailable));
        }
        self.woken.clear();
        self.abandon_keys();
        self.finds.clear();
        self.leases.clear();
        self.queues.clear();
        self.returns.clear();
        self.browsers.clear();
        self.timers.clear();
        self.close();
    }

    /// Callers that waited for the end of a run hear that nobody can say.
    pub(crate) fn turn_away(&mut self, waiters: Vec<Waiter>) {
        for waiter in waiters {
            let answer = match waiter.started_it {
                true => Answer::Start(Err(Declined::Unavailable)),
                false => Answer::Wait(Err(Declined::Unavailable)),
            };
            self.reply(waiter.reply, answer);
        }
    }

    /// The caller hears that nothing was done, or that nobody knows.
    pub(crate) fn decline(&mut self, reply: Option<(ReplyId, Answer)>, declined: &Declined) {
        let Some((reply, answer)) = reply else { return };
        if let Some(answer) = answer.declined(declined.clone()) {
            self.reply(reply, answer);
        }
    }

    /// Lets go what is durable.
    fn release(&mut self, run: RunId, deferred: Vec<Deferred>) {
        for deferred in deferred {
            match deferred {
                Deferred::Reply(reply, answer) => self.reply(reply, answer),
                Deferred::Frame(connection, frame) => self.tell(ToCrew::Tell { connection, frame }),
                Deferred::Assign { task, lease, deadline } => self.assign(run, task, lease, deadline),
                Deferred::Return(vacated) => self.tell(ToCrew::Returned { offer: vacated.offer }),
                Deferred::Child { task, child, cancel } => self.reach_child(run, task, &child, cancel),
                Deferred::Kin(kin) => self.out(Output::Kin(kin)),
                Deferred::Key(talk) => self.out(Output::Key(talk)),
                Deferred::Query(query) => self.ask_query(run, query),
                Deferred::Finish => self.finish(run),
                Deferred::Heard(_) => {}
            }
        }
    }

    /// Asks what the run wants to know, if it still does.
    fn ask_query(&mut self, run: RunId, query: QueryId) {
        let open = self.runs.get(run).and_then(|slot| slot.state.open_query());
        if let Some((_, asked)) = open.filter(|(open, _)| *open == query) {
            self.out(Output::Query { run, query, asked });
        }
    }

    fn finish(&mut self, run: RunId) {
        let Some(slot) = self.runs.get_mut(run) else { return };
        let waiters = std::mem::take(&mut slot.waiters);
        let result = if waiters.is_empty() { None } else { slot.state.result(self.config.max_result_bytes) };
        let result = result.map(|result| result.of(&run.to_string()));
        if slot.state.uses_browser() {
            self.out(Output::ScriptOver { run });
        }
        self.tell_parent(run);
        if let Some(result) = result {
            let mut result = Some(Box::new(result));
            let last = waiters.len().saturating_sub(1);
            for (index, waiter) in waiters.into_iter().enumerate() {
                let own = if index == last { result.take() } else { result.clone() };
                let Some(result) = own else { continue };
                match waiter.started_it {
                    true => self.reply(waiter.reply, StartReply::Finished { run, result }),
                    false => self.reply(waiter.reply, WaitReply::Finished { run, result }),
                }
            }
        }
        self.forget_run(run);
    }

    /// Caches a long run's state. Only what is wholly durable may be cached.
    fn snapshot_if_due(&mut self, run: RunId, committed: AppendId) {
        // What this turn has decided for the run is part of its state, and not of the log yet.
        if self.outbox.has_decided(run) {
            return;
        }
        let every = self.config.snapshot_every;
        let Some(slot) = self.runs.get_mut(run) else { return };
        let seq = slot.state.seq();
        if slot.last_append != committed || seq < slot.snapshot_seq.saturating_add(every) {
            return;
        }
        match slot.state.snapshot() {
            // It is looked at again when it has grown by as much.
            Ok(state) if state.len() > MAX_SNAPSHOT_BYTES => {
                slot.snapshot_seq = seq;
                tracing::warn!(%run, bytes = state.len(), "the state is too large to be cached");
            }
            Ok(state) => {
                slot.snapshot_seq = seq;
                let snapshot = Snapshot { seq, format: engine::SNAPSHOT_FORMAT, state: state.into() };
                self.out(Output::PutSnapshot { run, snapshot });
            }
            Err(error) => tracing::warn!(%run, %error, "the state could not be cached"),
        }
    }

    /// Turns an effect into what leaves at the commit, while the lease's connection is known.
    pub(crate) fn defer(&mut self, run: RunId, effect: Effect, origin: Origin) {
        let reference = |task: TaskRef, lease: u64| {
            Some(v1::LeaseRef { run_id: run.to_string(), wave: task.wave, task: task.task, lease })
        };
        let (to, frame, over) = match effect {
            Effect::Assign { task, lease } => {
                let assignment = self.runs.get(run).and_then(|slot| slot.state.assignment(task));
                let deadline = assignment.and_then(|assignment| assignment.deadline);
                return self.outbox.batch(run).deferred.push(Deferred::Assign { task, lease, deadline });
            }
            Effect::Child { task } => {
                let child = self.runs.get(run).and_then(|slot| slot.state.child(task));
                let Some((child, cancel)) = child.map(|child| (child.run.to_owned(), child.cancelled)) else {
                    return;
                };
                if planted::is(Fault::ChildCreatedBeforeItIsNamed) {
                    return self.reach_child(run, task, &child, cancel);
                }
                return self.outbox.batch(run).deferred.push(Deferred::Child { task, child, cancel });
            }
            Effect::Finish => return self.outbox.batch(run).deferred.push(Deferred::Finish),
            Effect::Cancel { task, lease, reason, grace_ms } => {
                let frame = v1::Cancel { lease: reference(task, lease), reason: reason as i32, grace_ms };
                (self.leases.connection_of(run, task, lease), Frame::Cancel(frame), None)
            }
            Effect::Extend { task, lease, deadline, cancel_withdrawn } => {
                let Some(slot) = self.runs.get(run) else { return };
                let frame = v1::DeadlineExtended {
                    lease: reference(task, lease),
                    deadline_ms: deadline.wall.0,
                    cancel_withdrawn,
                    remaining_ms: slot.remaining(deadline.clock, self.now.mono),
                };
                (self.leases.connection_of(run, task, lease), Frame::DeadlineExtended(frame), None)
            }
            Effect::Revoke { task, lease } => {
                let frame = v1::LeaseRevoked { lease: reference(task, lease) };
                let to = self.leases.connection_of(run, task, lease);
                (to, Frame::LeaseRevoked(frame), Some((task, lease)))
            }
            // A worker that is away is told when it is back with the browser.
            Effect::KeepBrowser { worker } => {
                (self.connection_of_worker(&worker), browsers::keep_frame(run), None)
            }
            // Answered to whoever reported.
            Effect::Accept { task, lease } => {
                let frame = v1::ResultAccepted { lease: reference(task, lease) };
                (origin.worker(), Frame::ResultAccepted(frame), Some((task, lease)))
            }
            Effect::Refuse { task, lease, reason, error, .. } => {
                let lease = reference(task, lease);
                let frame = v1::ResultRefusedFrame { lease, reason: reason as i32, error };
                (origin.worker(), Frame::ResultRefused(frame), None)
            }
            Effect::Enqueue { .. }
            | Effect::Dequeue { .. }
            | Effect::Hold
            | Effect::Release
            | Effect::Query { .. } => return,
        };
        if let Some(connection) = to {
            self.outbox.batch(run).deferred.push(Deferred::Frame(connection, frame));
        }
        if let Some((task, lease)) = over {
            self.let_go(run, task, lease);
        }
    }
}
