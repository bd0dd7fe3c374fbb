//! What callers ask for.

use capataz_contracts::v1;
use capataz_engine::{self as engine, Effect, Refusal, Timestamp};
use capataz_store::{Create, RunId};

use super::commits::Deferred;
use super::{Answer, AppendId, Core, Mode, Output, ReplyId, Request, RunSlot, StartRequest, Timer, seed_of};

/// What an overloaded daemon asks its callers to wait. Milliseconds.
const RETRY_AFTER_MS: i64 = 250;

impl Core {
    pub(super) fn request(&mut self, reply: ReplyId, request: Request) {
        if self.mode != Mode::Running {
            return self.reply(reply, Answer::Unavailable);
        }
        match request {
            Request::Start(request) => self.start(reply, *request),
            Request::Wait { run } => self.wait(reply, run),
            Request::Command { run, if_seq, input } => self.command(reply, run, if_seq, input),
            Request::CheckAgents { agents, commands, resources } => {
                let batch = self.agents.registry().check_all(&agents, &commands, &resources);
                self.reply(reply, Answer::Checked(batch));
            }
            Request::AcceptTransition { session, request_id } => {
                self.accept_transition(reply, &session, request_id);
            }
            Request::ListAgents => {
                let agents = self.agents.snapshots();
                self.reply(reply, Answer::Agents(agents));
            }
        }
    }

    fn start(&mut self, reply: ReplyId, request: StartRequest) {
        if self.draining {
            return self.reply(reply, Answer::Draining);
        }
        if self.runs.len() >= self.config.max_unfinished_runs || self.overloaded() {
            return self.reply(reply, Answer::Overloaded { retry_after_ms: RETRY_AFTER_MS });
        }
        if let Some(error) = self.agents.unknown(&request.agents, &request.commands, &request.resources) {
            return self.reply(reply, Answer::UnknownAgents(Box::new(error)));
        }
        if let Some(answer) = self.session_is_full(request.session.as_deref()) {
            return self.reply(reply, answer);
        }
        let run = request.run;
        let labels = request.start.labels.clone();
        let started = engine::start(seed_of(run), request.start, self.now);
        let (state, decision) = match started {
            Ok(started) => started,
            Err(refusal) => return self.reply(reply, Answer::Refused(refusal)),
        };
        let create = Create {
            kind: state.kind() as i32,
            name: state.plan().name.clone(),
            labels,
            created_at: self.millis(),
            key: request.key,
        };
        self.runs.insert(
            run,
            RunSlot {
                state,
                last_append: AppendId(0),
                projected: (v1::RunStatus::Unspecified, 0),
                waiters: if request.wait { vec![reply] } else { Vec::new() },
                wake_at: None,
                quiet_until: Timestamp::default(),
                snapshot_seq: 0,
            },
        );
        let batch = self.batch(run);
        batch.create = Some(create);
        batch.blobs = request.blobs;
        if !request.wait {
            batch.deferred.push(Deferred::Reply(reply, Answer::Started { run }));
        } else {
            batch.waiting_creator = Some(reply);
        }
        self.decided(run, decision, None);
        self.join_session(run);
        for task in self.absent_agents(run) {
            self.input(run, engine::Input::AgentAbsent { task }, None);
        }
    }

    /// One task for each agent of the run's first wave that nobody serves.
    fn absent_agents(&self, run: RunId) -> Vec<engine::TaskRef> {
        let Some(slot) = self.runs.get(&run) else { return Vec::new() };
        let agents = slot.state.plan().agents();
        agents.into_iter().filter(|(agent, _)| self.agents.is_absent(agent)).map(|(_, task)| task).collect()
    }

    pub(super) fn overloaded(&self) -> bool {
        self.pending.len() >= self.config.max_pending_appends
    }

    fn wait(&mut self, reply: ReplyId, run: RunId) {
        let limit = self.config.max_waiters_per_run;
        let Some(slot) = self.runs.get_mut(&run) else {
            return self.reply(reply, Answer::NotActive { run });
        };
        if slot.waiters.len() >= limit {
            return self.reply(reply, Answer::Overloaded { retry_after_ms: RETRY_AFTER_MS });
        }
        slot.waiters.push(reply);
    }

    pub(super) fn forget(&mut self, reply: ReplyId, run: RunId) {
        if let Some(slot) = self.runs.get_mut(&run) {
            slot.waiters.retain(|waiter| *waiter != reply);
        }
    }

    fn command(&mut self, reply: ReplyId, run: RunId, if_seq: Option<u64>, input: engine::Input) {
        if self.overloaded() {
            return self.reply(reply, Answer::Overloaded { retry_after_ms: RETRY_AFTER_MS });
        }
        let Some(slot) = self.runs.get(&run) else {
            return self.reply(reply, Answer::NotActive { run });
        };
        let actual = slot.state.seq();
        // A request that was carried out gets its answer again, whatever has happened since.
        let repeats = slot.state.request_seq(request_id_of(&input)).is_some();
        if !repeats && if_seq.is_some_and(|expected| expected != actual) {
            // The number may be that of an event which is not durable yet.
            return self.batch(run).deferred.push(Deferred::Reply(reply, Answer::SeqMismatch { actual }));
        }
        self.input(run, input, Some(reply));
    }

    /// Lets the engine decide one input of a run. `reply`, where there is one, is answered when that is durable.
    pub(super) fn input(&mut self, run: RunId, input: engine::Input, reply: Option<ReplyId>) {
        let Some(slot) = self.runs.get_mut(&run) else { return };
        let task = match &input {
            engine::Input::Extend { task, .. } | engine::Input::Retry { task, .. } => {
                slot.state.plan().find(task)
            }
            _ => None,
        };
        match engine::decide(&mut slot.state, input, self.now) {
            Ok(decision) => {
                let answer = reply.map(|reply| {
                    let assignment = task.and_then(|task| slot.state.assignment(task));
                    let answer = Answer::Done {
                        seq: decision.request_seq.unwrap_or(slot.state.seq()),
                        deadline_ms: assignment.as_ref().map_or(0, |assignment| assignment.deadline_ms),
                        activation: assignment.as_ref().map_or(0, |assignment| assignment.activation),
                    };
                    Deferred::Reply(reply, answer)
                });
                self.decided(run, decision, answer);
                self.enforce_limit(run);
            }
            Err(Refusal::Corrupt(corrupt)) => {
                tracing::error!(%run, %corrupt, "the engine wrote an event that it cannot fold");
                if let Some(reply) = reply {
                    self.reply(reply, Answer::Unavailable);
                }
                self.commit_failed();
            }
            Err(refusal) => {
                if let Some(reply) = reply {
                    self.batch(run).deferred.push(Deferred::Reply(reply, Answer::Refused(refusal)));
                }
            }
        }
    }

    /// Takes a decision into this turn's batch of the run, and its memory-only effects at once.
    pub(super) fn decided(&mut self, run: RunId, decision: engine::Decision, answer: Option<Deferred>) {
        let mut effects = Vec::with_capacity(decision.effects.len());
        let mut finishes = false;
        for effect in decision.effects {
            match effect {
                Effect::Enqueue { task } => self.enqueue(run, task),
                Effect::Release => self.enqueue_all(run),
                // Queues are checked against the state when a slot is given away.
                Effect::Dequeue { .. } | Effect::Hold => {}
                // Nothing outside changes by it: it need not wait for the commit.
                Effect::Query { query, asked } => self.outputs.push(Output::Query { run, query, asked }),
                effect => {
                    finishes |= effect == Effect::Finish;
                    effects.push(effect);
                }
            }
        }
        for effect in effects {
            self.defer(run, effect);
        }
        let batch = self.batch(run);
        if decision.count > 0 {
            if batch.count == 0 {
                batch.first_seq = decision.first_seq;
            }
            batch.count += decision.count;
            batch.events.push(decision.events);
        }
        batch.deferred.extend(answer);
        if finishes {
            self.record_in_session(run);
        }
    }

    /// Ends a run that has outgrown its limit.
    fn enforce_limit(&mut self, run: RunId) {
        let limit = self.config.max_events_per_run;
        let Some(slot) = self.runs.get(&run) else { return };
        if slot.state.seq() < limit
            || slot.state.status() == v1::RunStatus::Cancelling
            || slot.state.is_finished()
        {
            return;
        }
        let input = engine::Input::LimitExceeded { limit };
        self.input(run, input, None);
    }

    pub(super) fn tick_run(&mut self, run: RunId) {
        let Some(slot) = self.runs.get_mut(&run) else { return };
        slot.wake_at = None;
        if slot.quiet_until > self.now {
            return;
        }
        let due: Vec<engine::TaskRef> = slot.state.due(self.now).collect();
        let observed = due.into_iter().filter_map(|task| {
            let held = self.held.get(&(run, task))?;
            Some((task, held.observed()))
        });
        let observed = observed.collect();
        self.input(run, engine::Input::Tick { observed }, None);
        self.batch(run);
    }

    /// Keeps the run's timer in step with its state.
    pub(super) fn arm(&mut self, run: RunId) {
        let Some(slot) = self.runs.get_mut(&run) else { return };
        let due = slot.state.next_deadline().map(|at| at.max(slot.quiet_until));
        if slot.wake_at == due {
            return;
        }
        if let Some(before) = slot.wake_at.take() {
            self.timers.remove(&(before, Timer::Run(run)));
        }
        if let Some(due) = due {
            self.timers.insert((due, Timer::Run(run)));
            slot.wake_at = Some(due);
        }
    }
}

/// The id by which a user's request is known again; empty for what is no user's request.
fn request_id_of(input: &engine::Input) -> &str {
    use engine::Input;
    match input {
        Input::Cancel { request_id, .. }
        | Input::Pause { request_id }
        | Input::Resume { request_id }
        | Input::Extend { request_id, .. }
        | Input::Retry { request_id, .. }
        | Input::Propose { request_id, .. }
        | Input::CloseBrowser { request_id }
        | Input::Resolve { request_id, .. } => request_id,
        Input::Lease { .. }
        | Input::LeaseLost { .. }
        | Input::Report { .. }
        | Input::AgentAbsent { .. }
        | Input::SessionTurn { .. }
        | Input::Answered { .. }
        | Input::LimitExceeded { .. }
        | Input::Tick { .. } => "",
    }
}
