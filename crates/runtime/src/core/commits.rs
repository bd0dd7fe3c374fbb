//! What leaves when: a turn's outputs wait for the commit of the turn's append.

use bytes::{Bytes, BytesMut};
use capataz_contracts::v1;
use capataz_engine::planted::{self, Fault};
use capataz_engine::{self as engine, Effect, TaskRef};
use capataz_store::{Append, AppendOutcome, BlobHash, Create, Millis, Position, RunId, Snapshot, Summary};

use super::sessions::{SessionAppend, session_stream};
use super::{Answer, AppendId, CloseReason, ConnectionId, Core, Mode, Output, Published, ReplyId, Timer};

/// All that one turn does to one run.
pub(crate) struct Batch {
    pub(super) run: RunId,
    pub(super) first_seq: u64,
    pub(super) count: u32,
    pub(super) events: Vec<Bytes>,
    pub(super) deferred: Vec<Deferred>,
    pub(super) create: Option<Create>,
    pub(super) blobs: Vec<BlobHash>,
    /// The caller that started the run and waits for its end.
    pub(super) waiting_creator: Option<ReplyId>,
    /// What becomes durable together with the run's last event.
    pub(super) session: Option<SessionAppend>,
    /// What the run list is told with this append, where another one of this turn follows for the same run: it must not
    /// be ahead of its log.
    listed: Option<(Projected, Summary)>,
}

/// What the run list was told: the status, and the settled tasks in steps.
pub(crate) type Projected = (v1::RunStatus, usize);

/// An append in flight, and what leaves when it is durable.
pub(crate) struct Pending {
    pub(super) id: AppendId,
    pub(super) run: RunId,
    first_seq: u64,
    count: u32,
    events: Bytes,
    creates: bool,
    pub(super) deferred: Vec<Deferred>,
    waiting_creator: Option<ReplyId>,
    /// Only for a planted fault.
    append: Option<Append>,
}

/// Something that leaves the core.
#[derive(Debug)]
pub(crate) enum Deferred {
    Reply(ReplyId, Answer),
    Frame(ConnectionId, v1::connect_response::Frame),
    /// With the deadline of the time of the decision: a later one may not be durable yet, and is told in its turn.
    Assign {
        task: TaskRef,
        lease: u64,
        deadline_ms: i64,
    },
    Finish,
}

impl Batch {
    fn new(run: RunId) -> Self {
        Self {
            run,
            first_seq: 0,
            count: 0,
            events: Vec::new(),
            deferred: Vec::new(),
            create: None,
            blobs: Vec::new(),
            waiting_creator: None,
            session: None,
            listed: None,
        }
    }
}

impl Core {
    /// This turn's batch of the run.
    pub(super) fn batch(&mut self, run: RunId) -> &mut Batch {
        let index = self.batches.iter().rposition(|batch| batch.run == run).unwrap_or_else(|| {
            self.batches.push(Batch::new(run));
            self.batches.len() - 1
        });
        &mut self.batches[index]
    }

    /// What follows for the run rests on all that this turn has decided so far, for any run: it is appended after that.
    pub(super) fn append_last(&mut self, run: RunId) {
        let Some(index) = self.batches.iter().rposition(|batch| batch.run == run) else { return };
        if index + 1 == self.batches.len() {
            return;
        }
        let batch = match self.batches[index].count {
            0 => self.batches.remove(index),
            _ => {
                self.batches[index].listed = self.runs.get(&run).map(|slot| listed(&slot.state));
                Batch::new(run)
            }
        };
        self.batches.push(batch);
    }

    /// Sends this turn's batches on their way.
    pub(super) fn flush(&mut self) {
        let mut batches = std::mem::take(&mut self.batches);
        for batch in batches.drain(..) {
            let run = batch.run;
            self.arm(run);
            if batch.count > 0 {
                self.append(batch);
            } else {
                self.attach(run, batch.deferred);
            }
        }
        if self.batches.is_empty() {
            self.batches = batches;
        }
    }

    fn append(&mut self, batch: Batch) {
        let Some(slot) = self.runs.get_mut(&batch.run) else { return };
        let id = self.next_append;
        self.next_append = AppendId(id.0 + 1);
        slot.last_append = id;
        let (projected, summary) = batch.listed.unwrap_or_else(|| listed(&slot.state));
        let summary = (projected != slot.projected).then_some(summary);
        slot.projected = projected;
        let events = join(batch.events);
        // The mark binds the next append, whatever that is: without the session's there must be no mark.
        let session = batch.session.filter(|session| self.is_loaded(session.stream));
        let append = Append {
            run: batch.run,
            first_seq: batch.first_seq,
            count: batch.count,
            events,
            create: batch.create,
            summary,
            blobs: batch.blobs,
            joined: session.is_some() && !planted::is(Fault::JoinedAppendLosesItsMark),
        };
        let mut deferred = batch.deferred;
        if planted::is(Fault::AcknowledgeBeforeCommit) {
            let early = std::mem::take(&mut deferred);
            self.release(batch.run, early);
        }
        self.in_flight(id, append, deferred, batch.waiting_creator);
        if let Some(session) = session {
            self.append_session(session, Vec::new());
        }
    }

    /// Sends an append on its way, and keeps what leaves when it is durable.
    pub(super) fn in_flight(
        &mut self,
        id: AppendId,
        append: Append,
        deferred: Vec<Deferred>,
        waiting_creator: Option<ReplyId>,
    ) {
        self.pending.push_back(Pending {
            id,
            run: append.run,
            first_seq: append.first_seq,
            count: append.count,
            events: append.events.clone(),
            creates: append.create.is_some(),
            deferred,
            waiting_creator,
            append: planted::is(Fault::AppendRepeatedAfterUnknown).then(|| append.clone()),
        });
        self.outputs.push(Output::Append { id, append });
    }

    /// What was decided without an event rests on the run's last append: it leaves after it.
    fn attach(&mut self, run: RunId, deferred: Vec<Deferred>) {
        if deferred.is_empty() {
            return;
        }
        let last = self.runs.get(&run).map_or(AppendId(0), |slot| slot.last_append);
        self.after_append(run, last, deferred);
    }

    /// Lets go what rests on the append `last`, once that is durable.
    pub(super) fn after_append(&mut self, run: RunId, last: AppendId, deferred: Vec<Deferred>) {
        let oldest = self.pending.front().map(|pending| pending.id);
        if let Some(oldest) = oldest
            && last >= oldest
            && let Some(pending) =
                self.pending.get_mut(usize::try_from(last.0 - oldest.0).unwrap_or(usize::MAX))
        {
            pending.deferred.extend(deferred);
            return;
        }
        self.release(run, deferred);
    }

    pub(super) fn committed(&mut self, outcomes: Vec<AppendOutcome>) {
        for outcome in outcomes {
            let Some(pending) = self.pending.pop_front() else { return };
            let stream = pending.run;
            match outcome {
                AppendOutcome::Committed(position) => self.durable(pending, position),
                AppendOutcome::KeyTaken { run, same_request }
                    if pending.creates && self.runs.contains_key(&pending.run) =>
                {
                    self.creation_refused(pending, run, same_request);
                }
                AppendOutcome::KeyTaken { .. }
                    if planted::is(Fault::RefusedAskLeavesItsTurn) && self.is_loaded(stream) =>
                {
                    self.reread_session(stream);
                }
                // It was refused with its ask, or rests on one that was: the session is being read again.
                AppendOutcome::KeyTaken { .. } | AppendOutcome::Conflict
                    if self.sessions.contains_key(&stream) && !self.is_loaded(stream) =>
                {
                    for reply in replies_of(&pending.deferred) {
                        self.reply(reply, Answer::Unavailable);
                    }
                }
                AppendOutcome::Fenced => {
                    self.pending.push_front(pending);
                    self.abandon();
                    self.mode = Mode::Fenced;
                    self.outputs.push(Output::Fenced);
                    return;
                }
                // The run's creation was refused before: nothing of it is there, and nobody was told of it.
                AppendOutcome::Conflict
                    if !self.runs.contains_key(&pending.run) && !self.sessions.contains_key(&pending.run) =>
                {
                    for reply in replies_of(&pending.deferred) {
                        self.reply(reply, Answer::Unavailable);
                    }
                }
                // The log is not what this core believes: believe the log.
                AppendOutcome::Conflict | AppendOutcome::KeyTaken { .. } => {
                    tracing::error!(run = %pending.run, "an append does not fit the log; the shard is read again");
                    self.pending.push_front(pending);
                    return self.commit_failed();
                }
            }
            self.reread_when_settled(stream);
        }
    }

    fn durable(&mut self, pending: Pending, position: Position) {
        self.outputs.push(Output::Publish(Published {
            position,
            run: pending.run,
            first_seq: pending.first_seq,
            count: pending.count,
            events: pending.events,
        }));
        self.release(pending.run, pending.deferred);
        self.snapshot_if_due(pending.run, pending.id);
        self.snapshot_session(pending.run, pending.id);
    }

    /// The run was there already: this one never was.
    fn creation_refused(&mut self, pending: Pending, existing: RunId, same_request: bool) {
        let answer = || {
            if same_request {
                Answer::Existing { run: existing }
            } else {
                Answer::KeyReused { run: existing }
            }
        };
        for reply in replies_of(&pending.deferred) {
            self.reply(reply, answer());
        }
        if let Some(reply) = pending.waiting_creator {
            self.reply(reply, answer());
        }
        // What the run has said in its session was never said: nobody may begin on it.
        let ended = self.runs.get(&pending.run).filter(|slot| slot.state.is_finished());
        let ended = ended.filter(|_| !planted::is(Fault::RefusedAskLeavesItsTurn));
        if let Some(session) = ended.and_then(|slot| slot.state.session()) {
            self.reread_session(session_stream(session));
        }
        self.forget_run(pending.run);
    }

    /// Removes a run from memory, with its leases and timers.
    pub(super) fn forget_run(&mut self, run: RunId) {
        let Some(slot) = self.runs.remove(&run) else { return };
        if let Some(at) = slot.wake_at {
            self.timers.remove(&(at, Timer::Run(run)));
        }
        let leases: Vec<(TaskRef, u64)> = slot.state.leases().map(|(task, token, _)| (task, token)).collect();
        for (task, token) in leases {
            self.let_go(run, task, token);
        }
        if let Some(session) = slot.state.session() {
            self.leave_session(run, session);
        }
    }

    /// Nobody knows what is durable: all that was not acknowledged is thrown away and read again.
    pub(super) fn commit_failed(&mut self) {
        if self.mode != Mode::Running {
            return;
        }
        if planted::is(Fault::AppendRepeatedAfterUnknown) {
            let again: Vec<(AppendId, Append)> = self
                .pending
                .iter()
                .filter_map(|pending| Some((pending.id, pending.append.clone()?)))
                .collect();
            self.outputs.extend(again.into_iter().map(|(id, append)| Output::Append { id, append }));
            return;
        }
        self.abandon();
        self.outputs.push(Output::Restart);
    }

    /// Throws all work away and tells everybody who waits.
    fn abandon(&mut self) {
        self.mode = Mode::Recovering;
        let mut replies = Vec::new();
        for pending in self.pending.drain(..) {
            replies.extend(replies_of(&pending.deferred));
        }
        for batch in self.batches.drain(..) {
            replies.extend(replies_of(&batch.deferred));
        }
        for slot in std::mem::take(&mut self.runs).into_values() {
            replies.extend(slot.waiters);
        }
        for slot in std::mem::take(&mut self.sessions).into_values() {
            replies.extend(slot.into_callers());
        }
        self.idle_sessions.clear();
        self.sweeps = 0;
        self.unread_sessions.clear();
        for reply in replies {
            self.reply(reply, Answer::Unavailable);
        }
        for connection in std::mem::take(&mut self.connections).into_keys() {
            self.outputs.push(Output::Close { connection, reason: CloseReason::Restarting });
        }
        self.workers.clear();
        self.held.clear();
        self.timers.clear();
        self.dirty_agents.clear();
        self.agents.forget_work();
    }

    /// Lets go what is durable.
    fn release(&mut self, run: RunId, deferred: Vec<Deferred>) {
        for deferred in deferred {
            match deferred {
                Deferred::Reply(reply, answer) => self.reply(reply, answer),
                Deferred::Frame(connection, frame) => {
                    if self.connections.contains_key(&connection) {
                        self.send(connection, frame);
                    }
                }
                Deferred::Assign { task, lease, deadline_ms } => self.assign(run, task, lease, deadline_ms),
                Deferred::Finish => self.finish(run),
            }
        }
    }

    fn finish(&mut self, run: RunId) {
        let Some(slot) = self.runs.get_mut(&run) else { return };
        if slot.state.uses_browser() {
            self.outputs.push(Output::ScriptOver { run });
        }
        let waiters = std::mem::take(&mut slot.waiters);
        if !waiters.is_empty()
            && let Some(result) = slot.state.result(self.config.max_result_bytes)
        {
            let mut result = Some(Box::new(result));
            let last = waiters.len() - 1;
            for (index, reply) in waiters.into_iter().enumerate() {
                let own = if index == last { result.take() } else { result.clone() };
                if let Some(result) = own {
                    self.reply(reply, Answer::Finished { run, result });
                }
            }
        }
        self.forget_run(run);
    }

    /// Caches a long run's state. Only what is wholly durable may be cached.
    fn snapshot_if_due(&mut self, run: RunId, committed: AppendId) {
        // What this turn has decided for the run is part of its state, and not of the log yet.
        if self.batches.iter().any(|batch| batch.run == run && batch.count > 0) {
            return;
        }
        let every = self.config.snapshot_every;
        let Some(slot) = self.runs.get_mut(&run) else { return };
        let seq = slot.state.seq();
        if slot.last_append != committed || seq < slot.snapshot_seq.saturating_add(every) {
            return;
        }
        match slot.state.snapshot() {
            Ok(state) => {
                slot.snapshot_seq = seq;
                let snapshot = Snapshot { seq, format: engine::SNAPSHOT_FORMAT, state: state.into() };
                self.outputs.push(Output::PutSnapshot { run, snapshot });
            }
            Err(error) => tracing::warn!(%run, %error, "the state could not be cached"),
        }
    }

    /// Turns an effect into what leaves at the commit, while the lease's connection is known.
    pub(super) fn defer(&mut self, run: RunId, effect: Effect) {
        use v1::connect_response::Frame;
        let reference = |task: TaskRef, lease: u64| {
            Some(v1::LeaseRef { run_id: run.to_string(), wave: task.wave, task: task.task, lease })
        };
        let deferred = match effect {
            Effect::Assign { task, lease } => {
                let assignment = self.runs.get(&run).and_then(|slot| slot.state.assignment(task));
                let deadline_ms = assignment.map_or(0, |assignment| assignment.deadline_ms);
                Deferred::Assign { task, lease, deadline_ms }
            }
            Effect::Finish => Deferred::Finish,
            Effect::Cancel { task, lease, reason, grace_ms } => {
                let Some(connection) = self.connection_of(run, task, lease) else { return };
                let frame = v1::Cancel { lease: reference(task, lease), reason: reason as i32, grace_ms };
                Deferred::Frame(connection, Frame::Cancel(frame))
            }
            Effect::Extend { task, lease, deadline_ms, cancel_withdrawn } => {
                let Some(connection) = self.connection_of(run, task, lease) else { return };
                let frame =
                    v1::DeadlineExtended { lease: reference(task, lease), deadline_ms, cancel_withdrawn };
                Deferred::Frame(connection, Frame::DeadlineExtended(frame))
            }
            Effect::Revoke { task, lease } => {
                let connection = self.connection_of(run, task, lease);
                self.let_go(run, task, lease);
                let Some(connection) = connection else { return };
                let frame = v1::LeaseRevoked { lease: reference(task, lease) };
                Deferred::Frame(connection, Frame::LeaseRevoked(frame))
            }
            // Answered to whoever reported; see `workers`.
            Effect::Accept { .. } | Effect::Refuse { .. } => return self.answer_report(run, effect),
            Effect::Enqueue { .. }
            | Effect::Dequeue { .. }
            | Effect::Hold
            | Effect::Release
            | Effect::Query { .. } => return,
        };
        self.batch(run).deferred.push(deferred);
    }
}

/// Callers that wait for these.
fn replies_of(deferred: &[Deferred]) -> Vec<ReplyId> {
    let reply = |deferred: &Deferred| match deferred {
        Deferred::Reply(reply, _) => Some(*reply),
        _ => None,
    };
    deferred.iter().filter_map(reply).collect()
}

/// What the run list says of this state.
fn listed(state: &engine::RunState) -> (Projected, Summary) {
    let (settled, total) = state.progress();
    let projected = (state.status(), settled as usize / 256);
    let summary = Summary {
        status: state.status() as i32,
        outcome: state.outcome().map_or(0, |outcome| outcome as i32),
        updated_at: Millis(state.updated_at_ms()),
        finished_at: state.finished_at_ms().map(Millis),
        tasks_total: total,
        tasks_settled: settled,
    };
    (projected, summary)
}

fn join(mut chunks: Vec<Bytes>) -> Bytes {
    if chunks.len() == 1 {
        return chunks.swap_remove(0);
    }
    let mut joined = BytesMut::with_capacity(chunks.iter().map(Bytes::len).sum());
    for chunk in chunks {
        joined.extend_from_slice(&chunk);
    }
    joined.freeze()
}
