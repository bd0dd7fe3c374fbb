//! One run as its log tells it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use bytes::Bytes;
use capataz_contracts::v1::{self, event::Body, run_accepted::Work};
use capataz_engine::TaskRef;
use capataz_store::RunId;

use super::ask::AskModel;
use super::deadline::DeadlineModel;
use super::family::ChildModel;
use super::mode::ModeModel;
use super::pipeline::PipelineModel;
use super::script::{Kind, ScriptModel};
use crate::invariant::{Invariant, Violation};
use crate::schemas::{declared_by, passes};

/// A run, followed event by event.
#[derive(Clone, Debug)]
pub struct RunModel {
    /// Leases under which workers gave what breaks its schema. A machine that is set back to a copy takes nothing of that back.
    pub(super) broken: Rc<RefCell<BTreeSet<u64>>>,
    /// What hosts have told of failures, by their leases; nor of that.
    pub(super) host_errors: Rc<RefCell<BTreeMap<u64, v1::ExecutorError>>>,
    /// Work was ended because the run goes back, which it says next.
    pub(super) goes_back: bool,
    pub run: RunId,
    /// When its newest event was seen.
    pub(super) tick: u64,
    pub plan: v1::Plan,
    /// Sessions in which the run, or an ancestor, has its turn.
    pub(super) held_sessions: Vec<String>,
    /// The span that it belongs to; empty where its trace is its own.
    pub(super) traceparent: String,
    pub labels: BTreeMap<String, String>,
    pub team: u8,
    /// As they are stored; the first has number 1.
    pub events: Vec<Bytes>,
    /// Events of its newest append.
    pub newest: Bytes,
    pub waves: Vec<WaveModel>,
    /// Tasks of waves that were taken back, until these begin again.
    pub(super) taken_back: BTreeMap<TaskRef, TaskModel>,
    /// Waves to which somebody went back, by their places.
    pub(super) went_back_to: Vec<usize>,
    pub finished: Option<i32>,
    /// The severity of the error that it has ended with.
    pub(super) failed_with: Option<i32>,
    pub paused: bool,
    /// Told to end; with the error by which it ends itself.
    pub ending: Option<Option<v1::Error>>,
    /// A task has failed in a way that ends the run at once.
    pub must_abort: bool,
    pub questions: BTreeMap<String, QuestionModel>,
    /// Numbers of the events that carried requests out.
    pub requests: BTreeMap<String, u64>,
    pub leases: BTreeMap<u64, LeaseModel>,
    /// Runs that are its tasks, by their ids.
    pub children: BTreeMap<String, ChildModel>,
    /// The run whose task it is.
    pub parent: Option<RunId>,
    pub last_at: i64,
    /// Milliseconds since the run was accepted, by its own clock, at the newest event.
    pub elapsed: i64,
    pub kind: Kind,
    /// It began with the log of another run.
    pub is_fork: bool,
    /// The newest lease of that other run.
    pub(super) inherited_token: u64,
    /// Retention has removed it.
    pub removed: bool,
}

#[derive(Clone, Debug)]
pub struct WaveModel {
    pub tasks: Vec<TaskModel>,
    pub finished: Option<bool>,
    pub decided: bool,
}

#[derive(Clone, Debug, Default)]
pub struct TaskModel {
    pub(super) state: v1::TaskState,
    pub step: Step,
    pub activation: u32,
    pub attempt: u32,
    pub losses: u32,
    pub deadline: Option<i64>,
    /// The deadline by the run's own clock, in milliseconds since it was accepted.
    pub due: Option<i64>,
    pub result: Option<ResultModel>,
    /// The output with which it has succeeded.
    pub(super) output: Option<v1::Payload>,
    /// The references of its input were replaced.
    pub(super) resolved: bool,
    /// In this activation or an earlier one.
    pub was_settled: bool,
    /// The grade with which a task of a phase has succeeded.
    pub grade: Option<u64>,
    /// A person said that the work whose outcome was unknown is done.
    pub(super) vouched: bool,
    /// What it has given back, by that person or by the worker that came back too late.
    pub(super) vouched_for: Option<v1::Payload>,
    /// Leases of this activation under which work was begun, and of which nobody knows what became.
    pub(super) begun: Vec<u64>,
    pub(super) at_deadline: DeadlineModel,
    /// How severe its run, which has failed, says that its failure is.
    pub(super) told: Option<i32>,
    /// It has succeeded in the run that is continued, and was not at work here.
    pub(super) taken_over: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Step {
    #[default]
    Queued,
    Leased(u64),
    /// Its run is at work.
    Child,
    /// The end of its run was heard.
    Heard {
        may_succeed: bool,
    },
    Backoff,
    Asking,
    Settled,
}

#[derive(Clone, Debug)]
pub struct ResultModel {
    pub status: i32,
    pub severity: i32,
}

#[derive(Clone, Debug)]
pub struct LeaseModel {
    pub task: TaskRef,
    pub worker: String,
    pub activation: u32,
    pub attempt: u32,
    /// Reasons for which a cancel is open.
    pub cancel: Option<i32>,
    /// The work cannot go on once it was told to end.
    pub cancel_is_final: bool,
    /// A cancel was requested at any time.
    pub was_cancelled: bool,
    pub deadlines: Vec<i64>,
    pub end: Option<LeaseEnd>,
    /// When it ended, by the run's own clock.
    pub ended_at: i64,
    /// Its worker has said that it has begun.
    pub was_begun: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseEnd {
    /// The activation settled; whether by this lease's result.
    Settled {
        by_result: bool,
    },
    Lost(i32),
    AttemptFailed,
    /// A person is asked what became of it.
    Asked,
    /// A person has taken the task back.
    TakenBack,
}

#[derive(Clone, Debug)]
pub struct QuestionModel {
    pub open: bool,
    pub options: Vec<String>,
    pub task: Option<TaskRef>,
    pub answer: Option<String>,
    /// It asks what became of lost work.
    pub outcome_unknown: bool,
    /// It asks about work whose time is over, and holds nothing.
    pub at_deadline: bool,
    pub revision: u32,
    /// The value that counts where an answer that may have one has none.
    pub proposed: Option<v1::Payload>,
    /// The value of an answer has to pass what the task's agent has declared.
    pub is_typed: bool,
    /// It asks about a blocked phase.
    pub about_phase: bool,
}

impl RunModel {
    pub(super) fn begin(run: RunId, event: v1::Event, bytes: Bytes) -> Result<Self, Violation> {
        let Some(Body::RunAccepted(accepted)) = event.body else {
            return Invariant::GaplessSeq.broken(format!("run {run} begins with {:?}", event.body));
        };
        let (kind, plan) = match accepted.work {
            Some(Work::Ask(ask)) => (Kind::Ask(Box::new(AskModel::new(ask))), v1::Plan::default()),
            Some(Work::Script(script)) => {
                (Kind::Script(Box::new(ScriptModel::new(script))), v1::Plan::default())
            }
            Some(Work::Plan(plan)) => (Kind::Plan { has_turn: false }, plan),
            Some(Work::Pipeline(pipeline)) => {
                (Kind::Pipeline(Box::new(PipelineModel::new(pipeline))), v1::Plan::default())
            }
            Some(Work::Mode(run)) => (Kind::Mode(Box::new(ModeModel::new(run))), v1::Plan::default()),
            None => return Invariant::GaplessSeq.broken(format!("run {run} begins without work")),
        };
        let lineage = accepted.lineage.unwrap_or_default();
        let mut held_sessions = lineage.sessions;
        held_sessions.extend(plan.session.clone());
        Ok(Self {
            run,
            plan,
            held_sessions,
            traceparent: lineage.traceparent,
            team: u8::from(accepted.labels.get("team").is_some_and(|team| team == "red")),
            labels: accepted.labels,
            events: vec![bytes],
            newest: Bytes::new(),
            waves: Vec::new(),
            taken_back: BTreeMap::new(),
            went_back_to: Vec::new(),
            finished: None,
            failed_with: None,
            paused: false,
            ending: None,
            must_abort: false,
            questions: BTreeMap::new(),
            requests: BTreeMap::new(),
            leases: BTreeMap::new(),
            children: BTreeMap::new(),
            parent: accepted.parent.and_then(|parent| parent.run_id.parse().ok()),
            last_at: event.at_ms,
            elapsed: 0,
            kind,
            broken: Rc::default(),
            host_errors: Rc::default(),
            goes_back: false,
            tick: 0,
            is_fork: false,
            inherited_token: 0,
            removed: false,
        })
    }

    /// Whether a worker has had the task.
    pub(super) fn was_leased(&self, task: TaskRef) -> bool {
        self.leases.values().any(|lease| lease.task == task)
    }

    /// Number of the newest event.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.events.len() as u64
    }

    pub fn open_questions(&self) -> impl Iterator<Item = (&String, &QuestionModel)> {
        self.questions.iter().filter(|(_, question)| question.open)
    }

    #[must_use]
    pub fn is_held(&self) -> bool {
        self.paused || self.holding_questions().next().is_some()
    }

    /// The open questions that the run waits for.
    pub fn holding_questions(&self) -> impl Iterator<Item = (&String, &QuestionModel)> {
        self.open_questions().filter(|(_, question)| !question.at_deadline)
    }

    #[must_use]
    pub fn task(&self, task: TaskRef) -> Option<&TaskModel> {
        self.waves.get(task.wave as usize)?.tasks.get(task.task as usize)
    }

    #[must_use]
    pub fn declared(&self, task: TaskRef) -> Option<&v1::Task> {
        self.plan.waves.get(task.wave as usize)?.tasks.get(task.task as usize)
    }

    /// The live lease of a task.
    #[must_use]
    pub fn live(&self, task: TaskRef) -> Option<(u64, &LeaseModel)> {
        match self.task(task)?.step {
            Step::Leased(token) => Some((token, self.leases.get(&token)?)),
            _ => None,
        }
    }

    /// Tasks that have settled.
    pub fn settled_tasks(&self) -> usize {
        let tasks = self.waves.iter().flat_map(|wave| &wave.tasks).chain(self.taken_back.values());
        tasks.filter(|task| task.step == Step::Settled).count()
    }

    /// Nothing of the run is in work, and nothing that waits could be.
    pub fn may_rest(&self) -> bool {
        let held = self.is_held() || self.ending.is_some();
        let tasks = self.waves.last().into_iter().flat_map(|wave| &wave.tasks);
        let mut at_work = tasks.map(|task| match task.step {
            Step::Leased(_) | Step::Child | Step::Heard { .. } => true,
            Step::Queued => !held,
            _ => false,
        });
        !at_work.any(|works| works)
    }

    pub(super) fn at(&self, what: impl std::fmt::Display) -> String {
        format!("run {} event {}: {what}", self.run, self.seq())
    }

    pub(super) fn observe(&mut self, event: v1::Event, bytes: Bytes) -> Result<(), Violation> {
        self.events.push(bytes);
        Invariant::GaplessSeq
            .check(event.seq == self.seq(), || self.at(format!("numbered {}", event.seq)))?;
        Invariant::GaplessSeq.check(event.at_ms >= self.last_at, || self.at("time goes backwards"))?;
        self.last_at = event.at_ms;
        Invariant::GaplessSeq
            .check(event.elapsed_ms >= self.elapsed, || self.at("its clock goes backwards"))?;
        self.elapsed = event.elapsed_ms;
        let Some(body) = event.body else { return Invariant::GaplessSeq.broken(self.at("an unknown kind")) };
        Invariant::OneTerminalEvent
            .check(self.finished.is_none(), || self.at(format!("{body:?} after the end")))?;
        self.body(body)?;
        self.look_at_idleness()
    }

    fn body(&mut self, body: Body) -> Result<(), Violation> {
        self.aborts(&body)?;
        self.goes_back_at_once(&body)?;
        match body {
            Body::RunAccepted(_) => Invariant::GaplessSeq.broken(self.at("accepted twice")),
            Body::WaveStarted(event) => self.wave_started(event.wave),
            Body::TaskInputResolved(event) => self.input_resolved(&event),
            Body::TaskLeased(event) => self.leased(event),
            Body::TaskLeaseLost(event) => self.lease_lost(&event),
            Body::TaskAttemptFailed(event) => self.attempt_failed(&event),
            Body::TaskRetryDue(event) => self.retry_due(place(event.wave, event.task)),
            Body::TaskCancelRequested(event) => self.cancel_requested(&event),
            Body::TaskExtended(event) => self.extended(&event),
            Body::TaskSettled(event) => self.settled(&event),
            Body::TaskReactivated(event) => self.reactivated(&event),
            Body::TaskRolledBack(event) => self.rolled_back(&event),
            Body::ResultRefused(event) => self.result_refused(&event),
            Body::WaveDecided(event) => self.wave_decided(event.wave, event.evaluation),
            Body::WaveFinished(event) => self.wave_finished(event.wave, event.evaluation),
            Body::PartialOutputKept(event) => self.partial_kept(place(event.wave, event.task)),
            Body::QuestionAsked(event) => self.asked(*event),
            Body::QuestionRevised(event) => self.revised(*event),
            Body::QuestionAnswered(event) => self.answered(event),
            Body::ChildNamed(event) => self.child_named(event),
            Body::ChildCancelRequested(event) => self.child_cancelled(&event),
            Body::ChildEnded(event) => self.child_ended(&event),
            Body::RunForked(event) => self.is_forked(event),
            Body::RunPaused(event) => {
                self.paused = true;
                self.request(event.request_id)
            }
            Body::RunResumed(event) => {
                self.paused = false;
                self.mode_resumed();
                self.request(event.request_id)
            }
            Body::RunCancelRequested(event) => {
                self.must_abort = false;
                self.ending = Some(event.error);
                self.request(event.request_id)
            }
            Body::RunFinished(event) => self.run_finished(&event),
            Body::Notice(event) => self.noticed(&event),
            Body::PlanBegun(_) => {
                let begins = self.waves.is_empty() && self.ending.is_none();
                let text = self.at("the plan begins");
                let waited = self.plan.session.is_some();
                let first = matches!(self.kind, Kind::Plan { has_turn: false });
                self.kind = Kind::Plan { has_turn: true };
                Invariant::AsksInOrder.check(begins && waited && first, || text)
            }
            Body::AskBegun(event) => {
                let begins = self.waves.is_empty() && self.ending.is_none();
                let text = self.at("the ask begins");
                let context = event.context.unwrap_or_default();
                let first = self.ask_mut().is_some_and(|ask| ask.begin(context));
                Invariant::AsksInOrder.check(begins && first, || text)
            }
            Body::AskRouted(event) => self.ask_routed(event),
            Body::TransitionConsidered(event) => self.considered(event.transition.unwrap_or_default()),
            Body::SessionOpened(_)
            | Body::SessionTurn(_)
            | Body::SessionTransitionAccepted(_)
            | Body::SessionModeChosen(_)
            | Body::SessionMemoryForgotten(_)
            | Body::SessionStateWritten(_) => {
                Invariant::SessionTurns.broken(self.at("a session's event in a run"))
            }
            Body::BrowserActivityStarted(event) => self.activity_started(*event),
            Body::BrowserOpened(event) => self.browser_opened(&event),
            Body::ActionProposed(event) => self.proposed(*event),
            Body::StageFinished(event) => self.stage_finished(&event),
            Body::ActionFinished(event) => self.action_finished(&event),
            Body::ActionFailed(event) => self.action_failed(&event),
            Body::BrowserCloseRequested(event) => self.close_requested(event),
            Body::BrowserClosed(event) => self.browser_closed(&event),
            Body::BrowserLost(event) => self.browser_lost(event),
            Body::PhaseStarted(event) => self.phase_started(event),
            Body::OutputRejected(event) => self.output_rejected(&event),
            Body::PhaseCompleted(event) => self.phase_completed(&event),
            Body::PhaseBlocked(event) => self.phase_blocked(&event),
            Body::PhaseChanged(event) => self.phase_changed(event),
            Body::PipelineRolledBack(event) => self.pipeline_rolled_back(event),
            body => self.execution(body),
        }
    }

    /// A request was carried out: once.
    pub(super) fn request(&mut self, request_id: String) -> Result<(), Violation> {
        if request_id.is_empty() {
            return Ok(());
        }
        let seq = self.seq();
        match self.requests.insert(request_id.clone(), seq) {
            None => Ok(()),
            Some(before) => Invariant::OneEventPerRequest
                .broken(self.at(format!("request {request_id} was carried out by event {before} already"))),
        }
    }

    fn wave_started(&mut self, wave: u32) -> Result<(), Violation> {
        let in_order = wave as usize == self.waves.len()
            && self.ending.is_none()
            && self.waves.last().is_none_or(|before| before.finished == Some(true));
        let planned = match self.kind {
            Kind::Plan { has_turn } => has_turn || self.plan.session.is_none(),
            Kind::Ask(_) | Kind::Script(_) | Kind::Pipeline(_) | Kind::Mode(_) => false,
        };
        Invariant::WavesInOrder.check(in_order && planned, || self.at(format!("wave {wave} begins")))?;
        self.begin_wave();
        Ok(())
    }

    /// A wave that no plan has named before begins.
    pub(super) fn open_wave(&mut self, wave: v1::Wave) {
        self.plan.waves.push(wave);
        self.begin_wave();
    }

    fn begin_wave(&mut self) {
        let size = self.plan.waves.get(self.waves.len()).map_or(0, |wave| wave.tasks.len());
        let state = v1::TaskState::Init;
        let fresh = || TaskModel { state, activation: 1, attempt: 1, ..TaskModel::default() };
        let places =
            (0..).map(|task| TaskRef { wave: u32::try_from(self.waves.len()).unwrap_or(u32::MAX), task });
        let places: Vec<TaskRef> = places.take(size).collect();
        let tasks = places.iter().map(|task| self.taken_back.remove(task).unwrap_or_else(fresh)).collect();
        self.waves.push(WaveModel { tasks, finished: None, decided: false });
    }

    /// The task in the wave in work; what is said of tasks elsewhere is out of order.
    pub(super) fn in_work(&mut self, task: TaskRef) -> Result<&mut TaskModel, Violation> {
        let current = (task.wave as usize) + 1 == self.waves.len();
        let text = self.at(format!("{task} is not in work"));
        let found =
            self.waves.get_mut(task.wave as usize).and_then(|wave| wave.tasks.get_mut(task.task as usize));
        match found {
            Some(found) if current => Ok(found),
            _ => Invariant::WavesInOrder.broken(text),
        }
    }

    fn asked(&mut self, event: v1::QuestionAsked) -> Result<(), Violation> {
        let question = event.question.unwrap_or_default();
        let task = event.wave.zip(event.task).map(|(wave, task)| place(wave, task));
        let mut outcome_unknown = false;
        let at_deadline = question.purpose == v1::QuestionPurpose::Timeout as i32;
        if let Some(task) = task.filter(|_| at_deadline) {
            self.asked_at_deadline(task, &question)?;
        } else if let Some(task) = task
            && let Step::Leased(token) = self.in_work(task)?.step
        {
            outcome_unknown = true;
            self.in_work(task)?.step = Step::Asking;
            self.end_lease(token, LeaseEnd::Asked);
        }
        let of_kind = [
            v1::QuestionPurpose::Phase,
            v1::QuestionPurpose::Plan,
            v1::QuestionPurpose::Tool,
            v1::QuestionPurpose::Escalation,
        ];
        let about_phase = of_kind.contains(&question.purpose());
        if question.purpose() == v1::QuestionPurpose::Phase {
            let blocked = matches!(&self.kind, Kind::Pipeline(pipeline) if pipeline.is_blocked());
            let text = self.at(format!("{} is asked of no blocked phase", question.question_id));
            Invariant::PhasesInOrder.check(blocked && task.is_none(), || text)?;
        }
        let schema = question.value.as_ref().map(|value| value.schema.as_str());
        let declared = match schema {
            Some(_) => task.and_then(|task| self.declared(task)).map(|task| declared_by(&task.agent)),
            None => None,
        };
        Invariant::AnswersPassTheirSchema.check(about_phase || schema == declared, || {
            format!("a question has the schema {schema:?}, not {declared:?}")
        })?;
        let asked = QuestionModel {
            open: true,
            options: question.options,
            task,
            answer: None,
            outcome_unknown,
            at_deadline,
            revision: question.revision,
            proposed: question.proposed,
            is_typed: schema.is_some_and(|schema| !schema.is_empty()),
            about_phase,
        };
        let text = self.at(format!("question {} at revision {}", question.question_id, asked.revision));
        Invariant::AnswersWhatIsAsked.check(asked.revision == 1, || text)?;
        self.questions.insert(question.question_id, asked);
        Ok(())
    }

    fn revised(&mut self, event: v1::QuestionRevised) -> Result<(), Violation> {
        let now = event.question.unwrap_or_default();
        let text = self.at(format!("revision {} of {}", now.revision, now.question_id));
        let open = self.questions.get_mut(&now.question_id).filter(|question| question.open);
        let Some(open) = open.filter(|open| now.revision == open.revision + 1 && now.options == open.options)
        else {
            return Invariant::AnswersWhatIsAsked.broken(text);
        };
        (open.revision, open.proposed) = (now.revision, now.proposed);
        Ok(())
    }

    fn answered(&mut self, event: v1::QuestionAnswered) -> Result<(), Violation> {
        let text = self.at(format!("answer to {}", event.question_id));
        let Some(question) = self.questions.get_mut(&event.question_id).filter(|question| question.open)
        else {
            return Invariant::OneEventPerRequest.broken(text);
        };
        question.open = false;
        question.answer = Some(event.answer.clone());
        let (task, outcome_unknown, at_deadline) =
            (question.task, question.outcome_unknown, question.at_deadline);
        // Nobody answers a question that is withdrawn, or made superfluous by a retry.
        let by_somebody = !event.request_id.is_empty() || event.revision != 0;
        let of_revision = event.revision == question.revision || !by_somebody;
        let value = event.value.or_else(|| question.proposed.clone());
        Invariant::AnswersWhatIsAsked.check(of_revision, || text)?;
        let passes = !question.is_typed || event.answer != "succeeded" || passes(value.as_ref());
        Invariant::AnswersPassTheirSchema
            .check(passes, || format!("{} is answered with {value:?}", event.question_id))?;
        // What was asked about a task whose wave was taken back is withdrawn, and says nothing about it.
        let task = task.filter(|task| event.answer != "withdrawn" || self.in_work(*task).is_ok());
        if let Some(task) = task.filter(|_| at_deadline) {
            self.answered_at_deadline(task, event.answer.clone())?;
        }
        // What a person skips has failed, and is given up (CONTRACTS §1.2).
        let skipped = task.filter(|_| event.answer == "skip" && !outcome_unknown);
        let has_failed =
            skipped.and_then(|task| self.task(task)).is_some_and(|task| task.step == Step::Settled);
        let gives_up = has_failed && matches!(self.kind, Kind::Plan { .. });
        Invariant::LifecycleIsKept.check(event.gives_up == gives_up, || {
            self.at(format!("{skipped:?} is skipped, and not given up"))
        })?;
        if let Some(task) = skipped.filter(|_| gives_up) {
            self.enters(task, v1::TaskState::Deleted as i32)?;
        }
        if let Some(task) = task.filter(|_| outcome_unknown) {
            let wave = task.wave;
            let task = self.in_work(task)?;
            task.begun.clear();
            task.vouched = event.answer == "succeeded";
            task.vouched_for = value.filter(|_| task.vouched);
            match &mut self.kind {
                Kind::Script(script) => script.forgive(),
                Kind::Mode(mode) => mode.forgive(wave),
                Kind::Plan { .. } | Kind::Ask(_) | Kind::Pipeline(_) => {}
            }
        }
        self.request(event.request_id)
    }

    pub(super) fn end_lease(&mut self, token: u64, end: LeaseEnd) {
        if let Some(lease) = self.leases.get_mut(&token) {
            lease.end = Some(end);
            lease.ended_at = self.elapsed;
        }
    }
}

pub(super) fn place(wave: u32, task: u32) -> TaskRef {
    TaskRef { wave, task }
}
