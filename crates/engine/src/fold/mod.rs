//! The fold: events into state. It records, and decides nothing: no module of it imports a rule, which `cargo xtask
//! layers` checks. Whatever a table says when an event is made is written in the event; what an older format left to a
//! table is added by [`upcast`], which is frozen and stands before the fold.

pub mod activity;
pub(crate) mod bytes;
pub(crate) mod digest;
mod fork;
mod rollback;
pub mod session;
pub(crate) mod state;
mod timers;
pub(crate) mod upcast;

use std::cmp::Reverse;
use std::time::Duration;

use capataz_contracts::v1::{self, event::Body};
use capataz_policy::aggregation::{ResultStatus, Tally};
use capataz_policy::lifecycle::TaskState;
use capataz_policy::severity::Severity;

use crate::input::TaskRef;
use crate::machine::{Applied, Machine};
use activity::{Activity, Child, ChildCancel, End, Lease, PendingCancel, Step};
use state::{AskedQuestion, CorruptLog, Moment, Phase, RunState, Timestamp, Wall, WaveState};
use upcast::Upcaster;

/// The format of the events that this version writes; see `Event.format`.
pub const EVENT_FORMAT: u32 = 3;

impl RunState {
    /// Folds a run's whole log.
    ///
    /// `seed` distinguishes the run from others; any fixed function of its id will do.
    ///
    /// # Errors
    /// The events are not a log that this engine wrote.
    pub fn fold(seed: u64, events: impl IntoIterator<Item = v1::Event>) -> Result<Self, CorruptLog> {
        let mut events = events.into_iter();
        let first = events.next().ok_or(CorruptLog { seq: 0, detail: "the log is empty" })?;
        let mut state = Self::begin(seed, first)?;
        for event in events {
            state.apply(event)?;
        }
        state.loaded();
        Ok(state)
    }

    /// The state was read from the log, and the process that wrote it may be gone.
    pub fn loaded(&mut self) {
        self.leases_since_load = 0;
    }

    pub(crate) fn begin(seed: u64, first: v1::Event) -> Result<Self, CorruptLog> {
        let (seq, at) = (first.seq, Wall(first.at_ms));
        let corrupt = |detail| CorruptLog { seq, detail };
        let Some(Body::RunAccepted(accepted)) = first.body else {
            return Err(corrupt("the first event is not run_accepted"));
        };
        if seq != 1 {
            return Err(corrupt("the first event is not number 1"));
        }
        let upcaster = (first.format < EVENT_FORMAT).then(|| Box::new(Upcaster::new(&accepted)));
        let work = accepted.work.ok_or(corrupt("no work was accepted"))?;
        let (machine, plan) =
            Machine::accepted(work).ok_or(corrupt("the accepted plan lacks what it was to decide by"))?;
        let mut state = Self {
            seed,
            seq,
            created_at: at,
            last: Moment::first(at),
            plan: Box::new(plan),
            machine,
            machine_timer: None,
            put_away_at: None,
            upcaster,
            labels: accepted.labels,
            parent: accepted.parent,
            forked: None,
            lineage: accepted.lineage.unwrap_or_default(),
            phase: Phase::Running,
            paused: false,
            held_since: None,
            waves: Vec::new(),
            schemas: Vec::new(),
            questions: Vec::new(),
            unanswered: Default::default(),
            holding: 0,
            timers: Default::default(),
            held_timers: Default::default(),
            refused: Default::default(),
            refused_in_init: Default::default(),
            requests: Default::default(),
            taken_back: Default::default(),
            notices: Vec::new(),
            notices_omitted: 0,
            settled: 0,
            bytes: Default::default(),
            leases_since_load: 0,
        };
        state.bytes = state.counted();
        Ok(state)
    }

    /// Folds one more event.
    ///
    /// # Errors
    /// The event does not follow the ones before it; the state must not be used further.
    pub fn apply(&mut self, event: v1::Event) -> Result<(), CorruptLog> {
        let corrupt = |detail| CorruptLog { seq: event.seq, detail };
        if self.seq.checked_add(1) != Some(event.seq) {
            return Err(corrupt("the sequence number is not the next one"));
        }
        let at = Moment { clock: self.clock_of(&event), wall: Wall(event.at_ms) };
        if at.clock < self.last.clock || at.wall < self.last.wall {
            return Err(corrupt("time goes backwards"));
        }
        let seq = event.seq;
        self.seq = seq;
        self.last = at;
        let (format, body) = (event.format, event.body);
        let mut body = body.ok_or(CorruptLog { seq, detail: "an event of an unknown kind" })?;
        match &mut self.upcaster {
            Some(upcaster) if format < EVENT_FORMAT => upcaster.raise(format, &mut body, at.clock),
            // This version wrote this event and all that follow.
            Some(_) => self.upcaster = None,
            None => {}
        }
        self.apply_body(at, body)
            .ok_or(CorruptLog { seq, detail: "it names a task or question that is not there" })?;
        self.keep_machine_timer();
        Ok(())
    }

    /// The run's own clock at an event. Before format 3 a run's only clock was the one on the wall.
    fn clock_of(&self, event: &v1::Event) -> Timestamp {
        if event.format < 3 {
            Timestamp(event.at_ms)
        } else {
            Timestamp(self.created_at.0).plus(event.elapsed_ms)
        }
    }

    /// `None` where the event names something that is not there.
    fn apply_body(&mut self, at: Moment, body: Body) -> Option<()> {
        match body {
            Body::RunAccepted(_) => return None,
            Body::WaveStarted(event) => {
                self.forget_resolved();
                self.begin_wave(event.wave, at)?;
            }
            Body::TaskInputResolved(event) => {
                self.change(task(event.wave, event.task), |activity| activity.input = event.input)?;
            }
            Body::TaskLeased(event) => self.lease(event, at)?,
            Body::TaskLeaseLost(event) => {
                let losses = event.losses;
                self.queue_again(task(event.wave, event.task), at.clock, |activity| {
                    activity.losses = losses
                })?;
            }
            Body::TaskAttemptFailed(event) => self.back_off(event, at)?,
            Body::TaskRetryDue(event) => self.queue_again(task(event.wave, event.task), at.clock, |_| ())?,
            Body::TaskCancelRequested(event) => {
                let cancel =
                    PendingCancel { reason: event.reason(), grace_until: at.clock.plus(event.grace_ms) };
                self.change(task(event.wave, event.task), |activity| {
                    if let Step::Leased(lease) = &mut activity.step {
                        lease.cancel = Some(cancel);
                    }
                })?;
            }
            Body::TaskExtended(event) => {
                self.change(task(event.wave, event.task), |activity| {
                    let clock = at.clock.plus(event.deadline_in_ms);
                    activity.deadline = Some(Moment { clock, wall: Wall(event.deadline_ms) });
                    activity.imminent_given = false;
                    activity.warn_before = event.warn_before_ms.or(activity.warn_before);
                    if let Step::Leased(lease) = &mut activity.step
                        && event.cancel_withdrawn
                    {
                        lease.cancel = None;
                    }
                })?;
                let digest = digest::extend(task(event.wave, event.task), event.by_ms);
                self.remember_request(event.request_id, digest);
            }
            Body::TaskSettled(event) => self.settle(*event, at)?,
            Body::TaskReactivated(event) => self.reactivate(event, at)?,
            Body::TaskRolledBack(event) => self.roll_back(event, at)?,
            Body::OutputRejected(event) => {
                self.change(task(event.wave, event.task), |activity| {
                    activity.input = event.input.or(activity.input.take());
                })?;
            }
            Body::PartialOutputKept(event) => {
                self.change(task(event.wave, event.task), |activity| {
                    let Some(end) = &mut activity.end else { return };
                    let detail = end.error.as_ref().and_then(|error| error.timeout.as_ref());
                    end.output = detail.and_then(|detail| detail.partial_output.clone());
                })?;
            }
            Body::ResultRefused(event) => {
                // Whoever names a lease that was never given must not take the place of one that may yet be.
                let is_new = match event.error {
                    Some(_) => self.refused_in_init.insert(task(event.wave, event.task)),
                    None => self.refused.insert(event.lease),
                };
                if is_new {
                    self.bytes.add(bytes::ENTRY);
                }
            }
            Body::WaveDecided(event) => self.waves.get_mut(event.wave as usize)?.stopping = true,
            Body::WaveFinished(event) => {
                self.change_wave(event.wave, |wave| wave.evaluation = event.evaluation)?;
            }
            Body::QuestionAsked(event) => {
                let task = event.wave.zip(event.task).map(|(wave, index)| task(wave, index));
                let question = event.question?;
                self.machine.asked(&question)?;
                let place = u32::try_from(self.questions.len()).ok()?;
                if let Some(task) = task {
                    self.change(task, |activity| match question.purpose() {
                        // The work goes on until its grace is over.
                        v1::QuestionPurpose::Timeout => activity.asked_at_deadline = Some(place),
                        _ => {
                            if let Step::Leased(lease) = &activity.step {
                                activity.step = Step::Asking { worked_ms: at.clock.since(lease.since) };
                            }
                        }
                    })?;
                }
                self.unanswered.insert(question.question_id.clone(), self.questions.len());
                let asked = AskedQuestion { task, asked_at: at.clock, question };
                self.holding += usize::from(asked.holds_run());
                self.bytes.add(asked.bytes());
                self.questions.push(asked);
                self.update_hold(at.clock);
            }
            Body::QuestionAnswered(event) => {
                let place = self.unanswered.remove(&event.question_id)?;
                let digest = digest::resolve(&event.question_id, &event.answer, event.value.as_ref());
                let asked = self.questions.get_mut(place)?;
                self.holding = self.holding.checked_sub(usize::from(asked.holds_run()))?;
                let (before, about) = (asked.bytes(), asked.task);
                asked.question.answer = Some(event.answer);
                asked.question.answer_value = event.value;
                self.bytes.replace(before, asked.bytes());
                if event.gives_up {
                    self.change(about?, |activity| activity.enter(TaskState::Deleted, at.wall))?;
                }
                self.remember_request(event.request_id, digest);
                self.update_hold(at.clock);
            }
            Body::QuestionRevised(event) => {
                let question = event.question?;
                let place = *self.unanswered.get(&question.question_id)?;
                let asked = self.questions.get_mut(place)?;
                let (before, held) = (asked.bytes(), asked.holds_run());
                asked.question = question;
                self.holding =
                    (self.holding + usize::from(asked.holds_run())).checked_sub(usize::from(held))?;
                self.bytes.replace(before, asked.bytes());
                self.update_hold(at.clock);
            }
            Body::ChildNamed(event) => self.name_child(event, at)?,
            Body::ChildCancelRequested(event) => {
                let cancel = ChildCancel { reason: event.reason(), force: event.force };
                self.change(task(event.wave, event.task), |activity| {
                    if let Step::Child(child) = &mut activity.step {
                        child.cancel = Some(cancel);
                    }
                })?;
            }
            Body::ChildEnded(event) => {
                self.change(task(event.wave, event.task), |activity| {
                    if let Step::Child(child) = &mut activity.step {
                        child.ended = true;
                    }
                })?;
            }
            Body::RunForked(event) => self.fork(event, at)?,
            Body::RunPaused(event) => {
                self.paused = true;
                self.remember_request(event.request_id, digest::PAUSE.to_owned());
                self.update_hold(at.clock);
            }
            Body::RunResumed(event) => {
                self.paused = false;
                let before = self.machine.changing_bytes();
                self.machine.resumed();
                self.bytes.replace(before, self.machine.changing_bytes());
                self.remember_request(event.request_id, digest::RESUME.to_owned());
                self.update_hold(at.clock);
            }
            Body::RunCancelRequested(event) => {
                self.enter(Phase::Ending { error: event.error });
                self.remember_request(event.request_id, digest::CANCEL.to_owned());
            }
            Body::RunFinished(event) => {
                self.forget_inputs(0..self.waves.len());
                self.enter(Phase::Finished { outcome: event.outcome(), error: event.error, at: at.wall });
                self.timers.clear();
                self.held_timers.clear();
            }
            Body::SessionOpened(_)
            | Body::SessionTurn(_)
            | Body::SessionTransitionAccepted(_)
            | Body::SessionModeChosen(_)
            | Body::SessionMemoryForgotten(_)
            | Body::SessionStateWritten(_) => {
                return None;
            }
            Body::Notice(event) => self.noticed(event)?,
            body @ (Body::PlanBegun(_)
            | Body::AskBegun(_)
            | Body::AskRouted(_)
            | Body::TransitionConsidered(_)
            | Body::BrowserActivityStarted(_)
            | Body::BrowserOpened(_)
            | Body::ActionProposed(_)
            | Body::StageFinished(_)
            | Body::ActionFinished(_)
            | Body::ActionFailed(_)
            | Body::BrowserCloseRequested(_)
            | Body::BrowserClosed(_)
            | Body::BrowserLost(_)
            | Body::PhaseStarted(_)
            | Body::PhaseCompleted(_)
            | Body::PhaseBlocked(_)
            | Body::PhaseChanged(_)
            | Body::PipelineRolledBack(_)
            | Body::ModeBegun(_)
            | Body::PlannerAsked(_)
            | Body::PlannerAnswered(_)
            | Body::PlanEdited(_)
            | Body::PlanApproved(_)
            | Body::PlanRejected(_)
            | Body::ToolsMissed(_)
            | Body::ToolApproved(_)
            | Body::ToolCalled(_)
            | Body::ToolObserved(_)
            | Body::EscalationAnswered(_)
            | Body::ModeCheckpointed(_)
            | Body::ModeRolledBack(_)
            | Body::ModeCompleted(_)) => {
                let before = self.machine.changing_bytes();
                let applied = self.machine.apply(body, at, self.seq)?;
                self.bytes.replace(before, self.machine.changing_bytes());
                self.bytes.replace(applied.removed_bytes, applied.added_bytes);
                self.applied(applied, at)?;
            }
        }
        Some(())
    }

    /// What an event of one kind means for every kind: a wave that begins, a request that was carried out.
    fn applied(&mut self, applied: Applied, at: Moment) -> Option<()> {
        if let Some((number, wave)) = applied.wave {
            self.plan.push(wave)?;
            self.bytes.add(self.plan.waves.last()?.bytes());
            self.forget_inputs(self.waves.len().checked_sub(1));
            self.begin_wave(number, at)?;
        }
        if let Some((request_id, digest)) = applied.request {
            self.remember_request(request_id, digest);
        }
        Some(())
    }

    /// No task of these waves is leased again: what their tasks were given is in the log.
    fn forget_inputs(&mut self, waves: impl IntoIterator<Item = usize>) {
        for place in waves {
            let (Some(state), Some(wave)) = (self.waves.get_mut(place), self.plan.waves.get_mut(place))
            else {
                continue;
            };
            for (activity, declared) in state.tasks.iter_mut().zip(&mut wave.tasks) {
                for input in [activity.input.take(), declared.input.take()] {
                    self.bytes.replace(bytes::optional(input.as_ref()), 0);
                }
            }
        }
    }

    /// The wave in work is over. A task of it that is taken back gets its input from what is declared.
    fn forget_resolved(&mut self) {
        for activity in self.waves.last_mut().into_iter().flat_map(|wave| &mut wave.tasks) {
            let input = activity.input.take();
            self.bytes.replace(bytes::optional(input.as_ref()), 0);
        }
    }

    fn enter(&mut self, phase: Phase) {
        self.bytes.replace(self.phase.bytes(), phase.bytes());
        self.phase = phase;
    }

    /// Edits what a wave has beside its tasks.
    fn change_wave(&mut self, wave: u32, edit: impl FnOnce(&mut WaveState)) -> Option<()> {
        let wave = self.waves.get_mut(wave as usize)?;
        let before = wave.bytes();
        edit(wave);
        self.bytes.replace(before, wave.bytes());
        Some(())
    }

    /// Leaves out the newest of the mildest notices.
    fn omit_notice(&mut self) -> Option<()> {
        let severity = |of: &v1::Notice| of.notice.as_ref().map_or(0, |notice| notice.severity);
        let (place, _) =
            self.notices.iter().enumerate().min_by_key(|(place, of)| (severity(of), Reverse(*place)))?;
        let omitted = self.notices.remove(place);
        self.bytes.replace(bytes::message(&omitted), 0);
        self.notices_omitted = self.notices_omitted.saturating_add(1);
        Some(())
    }

    fn noticed(&mut self, event: v1::Notice) -> Option<()> {
        let (kind, place) = (event.kind(), event.wave.zip(event.task));
        self.bytes.add(bytes::message(&event));
        self.notices.push(event);
        if self.notices.len() > MOST_NOTICES {
            self.omit_notice()?;
        }
        let Some((wave, index)) = place else { return Some(()) };
        self.change(task(wave, index), |activity| match kind {
            v1::NoticeKind::TimeoutImminent => activity.imminent_given = true,
            v1::NoticeKind::AgentAbsent => activity.absence_given = true,
            v1::NoticeKind::RetrySuccess
            | v1::NoticeKind::OptionalAgentFailed
            | v1::NoticeKind::IncompleteLifecycle
            | v1::NoticeKind::PartialSuccess
            | v1::NoticeKind::Unclassified
            | v1::NoticeKind::Unspecified => {}
        })
    }

    fn begin_wave(&mut self, wave: u32, at: Moment) -> Option<()> {
        if wave as usize != self.waves.len() {
            return None;
        }
        let tasks = u32::try_from(self.plan.wave(wave)?.tasks.len()).ok()?;
        let mut begun = Vec::with_capacity(tasks as usize);
        for index in 0..tasks {
            let before = self.taken_back.remove(&task(wave, index));
            begun.push(before.unwrap_or_else(|| {
                let scheduled = Activity::scheduled(at.wall, 1);
                self.bytes.add(scheduled.bytes());
                scheduled
            }));
        }
        let has_given_up = begun.iter().any(Activity::is_settled);
        let state = WaveState { tasks: begun, tally: Tally::default(), stopping: false, evaluation: None };
        self.bytes.add(state.bytes());
        if self.waves.is_empty() {
            // A plan's waves are all known by then; of other runs it is the first one.
            self.waves.reserve_exact(self.plan.waves.len());
        }
        self.waves.push(state);
        if has_given_up {
            self.recount(wave)?;
        }
        for index in 0..tasks {
            let task = task(wave, index);
            if self.is_queued(task) && self.plan.timeouts_of(task).schedule_to_start().is_some() {
                self.queue_again(task, at.clock, |_| ())?;
            }
        }
        Some(())
    }

    fn lease(&mut self, event: v1::TaskLeased, at: Moment) -> Option<()> {
        self.leases_since_load = self.leases_since_load.saturating_add(1);
        let output_schema = match event.output_schema {
            Some(recorded) => Some(self.record_schema(recorded)?),
            None => None,
        };
        self.change(task(event.wave, event.task), |activity| {
            let deadline = event.deadline_in_ms.zip(event.deadline_ms);
            activity.begin_attempt(at, event.attempt, deadline, event.warn_before_ms);
            activity.step = Step::Leased(Lease {
                token: event.lease,
                worker: event.worker,
                since: at.clock,
                attempt_deadline: event.attempt_deadline_in_ms.map(|limit| at.clock.plus(limit)),
                cancel: None,
                output_schema,
                cancel_is_final: event.cancel_is_final,
            });
        })
    }

    /// The number of a schema whose text is here, or was recorded before.
    fn record_schema(&mut self, recorded: v1::RecordedSchema) -> Option<u32> {
        let place = recorded.number as usize;
        match recorded.text {
            Some(text) if place == self.schemas.len() => {
                self.bytes.add(bytes::text(&text));
                self.schemas.push(text);
            }
            None if place < self.schemas.len() => {}
            Some(_) | None => return None,
        }
        Some(recorded.number)
    }

    fn name_child(&mut self, event: v1::ChildNamed, at: Moment) -> Option<()> {
        let task = task(event.wave, event.task);
        let detached = self.plan.task(task)?.child.as_ref()?.detached;
        self.change(task, |activity| {
            let deadline = event.deadline_in_ms.zip(event.deadline_ms);
            activity.begin_attempt(at, event.attempt, deadline, event.warn_before_ms);
            activity.child = Some(event.run_id.clone());
            activity.step = Step::Child(Child {
                run_id: event.run_id,
                since: at.clock,
                attempt_deadline: event.attempt_deadline_in_ms.map(|limit| at.clock.plus(limit)),
                detached,
                cancel: None,
                ended: false,
            });
        })
    }

    fn back_off(&mut self, event: v1::TaskAttemptFailed, at: Moment) -> Option<()> {
        self.change(task(event.wave, event.task), |activity| {
            activity.attempts.push(v1::AttemptRecord {
                attempt: event.attempt,
                status: v1::AttemptStatus::Failed.into(),
                error: event.error.map(|error| error.code),
                duration_ms: event.duration_ms,
                waited_ms: std::mem::take(&mut activity.waited_ms),
                usage: event.usage,
            });
            activity.waits_since = Some(at.clock);
            activity.step = Step::Backoff { retry_at: at.clock.plus(event.delay_ms) };
        })
    }

    fn queue_again(&mut self, task: TaskRef, at: Timestamp, edit: impl FnOnce(&mut Activity)) -> Option<()> {
        let wait = self.plan.timeouts_of(task).schedule_to_start();
        let wait = wait.map(milliseconds);
        self.change(task, |activity| {
            edit(activity);
            activity.step = Step::Queued { start_by: wait.map(|wait| at.plus(wait)) };
        })
    }

    fn settle(&mut self, event: v1::TaskSettled, at: Moment) -> Option<()> {
        let task = task(event.wave, event.task);
        let status = ResultStatus::from_proto(event.status)?;
        let state = TaskState::from_proto(event.state)?;
        let severity = Severity::from_proto(event.severity);
        self.change(task, |activity| {
            let attempt_ms = activity.worked_ms(at.clock);
            let holder = activity.lease().filter(|held| Some(held.token) == event.lease);
            let worker = holder.map(|held| held.worker.clone());
            let (output, error, usage) = (event.output, event.error, event.usage);
            if event.taken_over {
                activity.enter(TaskState::Active, at.wall);
            }
            activity.enter(state, at.wall);
            activity.step = Step::Settled;
            activity.end = Some(End {
                status,
                output,
                error,
                severity,
                at: at.wall,
                attempt_ms,
                lease: event.lease,
                worker,
                usage,
                taken_over: event.taken_over,
            });
        })?;
        self.settled = self.settled.saturating_add(1);
        if event.taken_over {
            let before = self.plan.take_over(task);
            self.bytes.replace(bytes::optional(before.as_deref()), 0);
        }
        let declared = self.plan.task(task)?;
        let outcome = declared.outcome(status, severity.or(UNTOLD));
        let wave = self.waves.get_mut(task.wave as usize)?;
        let before = wave.bytes();
        wave.tally.add(&outcome);
        self.bytes.replace(before, wave.bytes());
        Some(())
    }

    fn reactivate(&mut self, event: v1::TaskReactivated, at: Moment) -> Option<()> {
        let task = task(event.wave, event.task);
        self.change(task, |activity| {
            let mut fresh = Activity::scheduled(at.wall, event.activation);
            // FAILED -> ACTIVE: a retry goes on where the task failed.
            fresh.state = TaskState::Failed;
            fresh.history = std::mem::take(&mut activity.history);
            fresh.input = activity.input.take();
            fresh.enter(TaskState::Active, at.wall);
            *activity = fresh;
        })?;
        self.settled = self.settled.saturating_sub(1);
        self.recount(task.wave)?;
        self.queue_again(task, at.clock, |_| ())?;
        self.remember_request(event.request_id, digest::retry(task));
        Some(())
    }

    /// Counts a wave's results afresh, after one of them was withdrawn.
    fn recount(&mut self, wave: u32) -> Option<()> {
        let declared = &self.plan.wave(wave)?.tasks;
        let state = self.waves.get_mut(wave as usize)?;
        let before = state.bytes();
        state.tally = Tally::default();
        for (activity, declared) in state.tasks.iter().zip(declared) {
            if let Some(end) = &activity.end {
                state.tally.add(&declared.outcome(end.status, end.severity.or(UNTOLD)));
            }
        }
        self.bytes.replace(before, state.bytes());
        Some(())
    }

    /// Remembers that the run's last event carried a user's request out.
    fn remember_request(&mut self, request_id: String, digest: String) {
        if !request_id.is_empty() {
            self.bytes.add(bytes::request(&request_id, &digest));
            // The last of several requests with one id counts.
            if let Some((before, _)) = self.requests.get(&request_id) {
                self.bytes.replace(bytes::request(&request_id, before), 0);
            }
            self.requests.insert(request_id, (digest, self.seq));
        }
    }

    /// Begins or ends the time in which nothing is leased. Waiting for a worker and for a retry stands still meanwhile.
    fn update_hold(&mut self, at: Timestamp) {
        let held = self.paused || self.is_waiting();
        match (self.held_since, held) {
            (None, true) => self.held_since = Some(at),
            (Some(since), false) => {
                self.held_since = None;
                let queued: Vec<TaskRef> = self.queued().collect();
                for task in queued {
                    let wait = self.plan.timeouts_of(task).schedule_to_start().map(milliseconds);
                    self.change(task, |activity| {
                        if let (Step::Queued { start_by: Some(start_by) }, Some(wait)) =
                            (&mut activity.step, wait)
                        {
                            // The wait of a task that was queued meanwhile has stood still only since then.
                            let still_since = since.max(start_by.plus(wait.saturating_neg()));
                            *start_by = start_by.plus(at.0.saturating_sub(still_since.0));
                        }
                    });
                }
            }
            _ => {}
        }
    }
}

/// Notices that a run's state keeps; of the others it counts how many there are.
const MOST_NOTICES: usize = 100;

/// The severity of a failure whose event does not name one.
const UNTOLD: Option<Severity> = Some(Severity::High);

fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

fn task(wave: u32, task: u32) -> TaskRef {
    TaskRef { wave, task }
}
