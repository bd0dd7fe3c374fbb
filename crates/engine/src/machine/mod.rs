//! The kinds of runs: thin machines over the activity machine, variants of one closed enum behind one interface.
//!
//! The activity machine ([`decide`](mod@crate::decide)) asks a machine what comes next and what a settled, failed,
//! refused or timed-out activity means ([`Kind`]), and carries the answer out. A machine reads the state and changes
//! nothing. No other code asks for the kind of a run: `cargo xtask layers` knows the files that may.
//!
//! Each variant has a folder of its own, with the part of the state that only it has in `state.rs`, which belongs to the
//! fold and calls no rule.

pub(crate) mod ask;
pub(crate) mod correction;
mod host_error;
pub(crate) mod mode;
mod own_browser;
pub(crate) mod pipeline;
pub(crate) mod plan;
pub(crate) mod script;

use capataz_contracts::browser::BROWSER_AGENT;
use capataz_contracts::v1::{self, event::Body, run_accepted, run_result};
use capataz_policy::aggregation::ResultStatus;
use capataz_policy::lifecycle::{self, TaskState};
use capataz_policy::session::Progress;

use crate::decide::{Ending, Refusal};
use crate::fold::state::{Moment, RunState, Timestamp};
use crate::input::{Answer, QueryAnswer, ResolvedInput, TaskRef};
use crate::plan::Plan;
use crate::query::{Query, QueryId};

use ask::state::AskState;
use mode::state::ModeState;
use pipeline::state::PipelineState;
use plan::state::PlanState;
use script::state::ScriptState;

/// What only runs of one kind have.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Machine {
    Plan(PlanState),
    Ask(Box<AskState>),
    Script(Box<ScriptState>),
    Pipeline(Box<PipelineState>),
    Mode(Box<ModeState>),
}

/// What comes next in a run, in the words that the activity machine understands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// Record an event of the kind's own.
    Record(Body),
    /// Record the event that carries a user's request out.
    RecordRequest(Body),
    /// The user's request was carried out before, with the run's newest event at the latest.
    AsBefore,
    /// Record a notice, which changes nothing.
    Notice(v1::NoticeKind, v1::Error),
    /// Begin a wave that the plan declares. These of its inputs were resolved outside.
    BeginWave { wave: u32, resolved: Vec<ResolvedInput> },
    /// Record an event that brings a wave of its own, and begin that wave.
    Begin(Body),
    /// The one task of the wave that has just begun fails before anybody works on it.
    FailBegun(v1::Error),
    /// The wave's outcome cannot change any more: what still runs or waits in it is cancelled.
    StopWave { wave: u32, evaluation: v1::Evaluation },
    /// Ask something that has no effect outside.
    Query(QueryId, Query),
    /// Record that the browser is closed and its state kept, and tell its worker so.
    KeepBrowser { body: Body, worker: String },
    /// Ask a person something about the run, which waits for the answer.
    Ask(Box<v1::Question>),
    /// A question needs no answer any more.
    Withdraw(String),
    /// These tasks of the wave in work are ended at once, for this reason: whatever their workers say later is refused.
    EndTasks(Vec<TaskRef>, v1::CancelReason),
    /// Something is in work, or somebody is waited for.
    Wait,
    /// The run has ended.
    Finish { outcome: v1::RunOutcome, error: Option<v1::Error> },
}

/// What the answer of a task's worker means.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Verdict {
    /// Events of the kind's own, recorded first.
    pub(crate) record: Vec<Body>,
    pub(crate) meaning: Meaning,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Meaning {
    /// The task has succeeded.
    Done(Option<v1::Payload>),
    /// An attempt has failed; `may_pass` where whoever failed knows whether another one may succeed.
    AttemptFailed { error: v1::Error, output: Option<v1::Payload>, may_pass: Option<bool> },
    /// The task has failed for good.
    Failed(v1::Error),
    /// The task has ended exactly so.
    Settled(Box<Ending>),
}

impl Verdict {
    pub(crate) fn done(output: Option<v1::Payload>) -> Self {
        Self { record: Vec::new(), meaning: Meaning::Done(output) }
    }

    pub(crate) fn attempt_failed(error: v1::Error) -> Self {
        Self { record: Vec::new(), meaning: Meaning::AttemptFailed { error, output: None, may_pass: None } }
    }
}

/// Why only one worker may do what a run has to be done in its browser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding<'a> {
    pub worker: &'a str,
    /// The worker has it in memory, so that it is gone when the worker's process is; else it has kept it.
    pub is_live: bool,
}

/// What a user can do to runs of some kinds only.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Command {
    /// Propose an action; validated, with every default filled in.
    Propose(Box<v1::Action>),
    CloseBrowser,
    /// Go back to the newest completed checkpoint before this phase; before the one in work where it is empty.
    RollBack {
        phase: String,
    },
    /// Make a place to which an execution can go back.
    Checkpoint {
        reason: String,
    },
    /// Go back to a checkpoint of an execution.
    RollBackTo {
        checkpoint: String,
    },
}

/// The one interface of all kinds. Every answer is bounded, and none of them changes the state.
pub(crate) trait Kind {
    fn run_kind(&self) -> v1::RunKind;

    /// The next steps of a run that neither waits for a person nor ends. If the list ends with a wait, a query or the
    /// end of the run, nothing more is to be done now.
    fn next(&self, run: &RunState, now: Moment) -> Vec<Step>;

    /// The meaning of an answer by which the holder of the task's lease says that the work is done.
    fn completed(&self, run: &RunState, task: TaskRef, output: v1::Payload, now: Moment) -> Verdict;

    /// The schemas that the output of a task has to pass before it counts, of those that its worker has declared and its kind
    /// wants.
    fn schemas_of<'a>(&'a self, _: &'a RunState, _: TaskRef) -> Vec<&'a String> {
        Vec::new()
    }

    /// The schema of a task's output that its worker is told: it does not follow from the task.
    fn contract_of(&self, _: TaskRef) -> Option<&str> {
        None
    }

    /// What its kind wants to be checked of the output of a task beside schemas; `None` where outputs are neither corrected nor
    /// changed.
    fn checks_of(&self, _: TaskRef) -> Option<Vec<v1::OutputCheck>> {
        None
    }

    /// What is wrong with an output that passes its schemas.
    fn found_beside(&self, _: &RunState, _: TaskRef, _output: &v1::Payload) -> Vec<v1::SchemaViolation> {
        Vec::new()
    }

    /// What is wrong with an output that nobody could read, where that is a rejected one like any other.
    fn found_unread(&self, _: TaskRef, _: &v1::Error) -> Vec<v1::SchemaViolation> {
        Vec::new()
    }

    /// The meaning of an output that breaks its schemas. `corrected` is what the next attempt is given then.
    fn rejected(
        &self,
        run: &RunState,
        task: TaskRef,
        violations: Vec<v1::SchemaViolation>,
        _corrected: Option<v1::Payload>,
    ) -> Verdict {
        correction::failed(run, task, &violations)
    }

    /// The meaning of an answer by which the holder of the task's lease says that the work has failed.
    fn failed(&self, run: &RunState, task: TaskRef, error: v1::Error) -> Verdict;

    /// The error of an attempt that was not answered in time.
    fn attempt_too_late(&self, run: &RunState, task: TaskRef) -> v1::Error;

    /// The status and the error of a task that no worker took in time.
    fn not_taken(&self, run: &RunState, task: TaskRef) -> (ResultStatus, v1::Error);

    /// Returns whether its tasks are those that its start has declared: another run can take them over.
    fn declares_tasks(&self) -> bool;

    /// Returns whether a rate limit that one of its tasks meets holds the agent's other tasks.
    fn limits_hold(&self) -> bool {
        true
    }

    /// Returns whether a CRITICAL failure of a task aborts the run at once.
    fn aborts_when_critical(&self) -> bool;

    /// Returns whether a HIGH failure of a task becomes a question.
    fn asks_when_high(&self) -> bool;

    /// What people are told of a task that ends because its run goes back.
    fn why_taken_back(&self) -> &'static str {
        "its phase was rolled back"
    }

    /// Returns whether a person is asked about a task whose time is over, as long as its grace lasts.
    fn asks_at_deadline(&self) -> bool;

    /// Returns whether a person who knows that the work of a task is done may say what it gave back.
    fn outcome_may_be_given(&self) -> bool;

    /// What is recorded of the work of the newest task where a person says that it is done: its worker has not told it.
    fn outcome_given(&self, _now: Moment) -> Vec<Body> {
        Vec::new()
    }

    /// Returns whether a person may let a failed task of this name run again.
    ///
    /// # Errors
    /// Why not.
    fn may_run_again(&self, run: &RunState, task: TaskRef, name: &str) -> Result<(), Refusal>;

    /// Returns whether a person may take a task of this name back.
    ///
    /// # Errors
    /// Why not.
    fn may_be_taken_back(&self, name: &str) -> Result<(), Refusal> {
        let mut error = lifecycle::refused(TaskState::Active, TaskState::RolledBack);
        error.message = format!("{name:?} does not belong to a plan, and only tasks of plans are taken back");
        error.suggested_action = None;
        error.options = vec!["abort".to_owned()];
        Err(Refusal::Rule(Box::new(error)))
    }

    /// Its events may change the memory of a session.
    fn remembers(&self) -> bool {
        false
    }

    /// Returns whether another run may go on from here: nothing of this one is anywhere but in its log.
    fn may_be_forked(&self) -> bool {
        true
    }

    /// The query that has no answer yet.
    fn open_query(&self, run: &RunState) -> Option<(QueryId, Query)>;

    /// Its number alone, which is asked for more often.
    fn open_query_id(&self, run: &RunState) -> Option<QueryId> {
        self.open_query(run).map(|(query, _)| query)
    }

    /// What follows from the answer to the open query.
    ///
    /// # Errors
    /// [`Refusal::Outdated`] if that query is not open.
    fn answered(&self, run: &RunState, answer: QueryAnswer, now: Moment) -> Result<Vec<Step>, Refusal>;

    /// What a command asks for, to tell a repeated request from another one with the same id.
    fn digest(&self, run: &RunState, request_id: &str, command: &Command) -> String;

    /// What follows from a user's command, which was not carried out before.
    ///
    /// # Errors
    /// The reason why the command cannot be carried out.
    fn command(&self, run: &RunState, command: Command, request_id: String) -> Result<Vec<Step>, Refusal>;

    /// What follows from a person's answer to a question that is about no task.
    ///
    /// # Errors
    /// Why it can be no answer.
    fn person_answered(
        &self,
        _: &RunState,
        _question: &v1::Question,
        _answer: &str,
        _value: Option<&v1::Payload>,
    ) -> Result<Vec<Step>, Refusal> {
        Ok(Vec::new())
    }

    /// What the kind has against an answer.
    ///
    /// # Errors
    /// The reason why it can be none.
    fn judge_answer(&self, _: &v1::Question, _: &Answer) -> Result<(), Refusal> {
        Ok(())
    }

    /// The outcome of a run that aborts itself because of this error.
    fn outcome_when_aborted(&self, _: &v1::Error) -> v1::RunOutcome {
        v1::RunOutcome::Failed
    }

    /// Where the phases stand.
    fn checkpoints(&self, _run_id: &str) -> Vec<v1::Checkpoint> {
        Vec::new()
    }

    /// Where an execution stands, with what its last action has given where that is wanted.
    fn execution(&self, _: &RunState, _output: bool) -> Option<v1::ExecutionState> {
        None
    }

    /// An execution that has begun and ended, with its mode.
    fn execution_ended(&self, _: &RunState) -> Option<(v1::ExecutionMode, v1::ExecutionEnded)> {
        None
    }

    /// The steps that follow when the machine's own deadline has passed.
    fn overdue(&self) -> Vec<Step>;

    /// The steps that follow when the run's turn in its session has come.
    ///
    /// # Errors
    /// [`Refusal::Outdated`] if the run does not wait for its turn.
    fn turn_has_come(&self, run: &RunState, context: v1::SessionContext) -> Result<Vec<Step>, Refusal>;

    /// The session that the run belongs to.
    fn session(&self) -> Option<&str>;

    /// Returns whether the run waits for its turn in its session.
    fn awaits_turn(&self) -> bool;

    /// What the ended run adds to its session.
    fn session_turn(&self, run: &RunState, run_id: &str) -> Option<v1::SessionTurn>;

    /// Where the run stands, for the state of its session's work, but for the tasks that have not settled; `None` for what is
    /// no such work, or has not begun.
    fn progress<'a>(&'a self, _: &'a RunState, _run_id: &'a str) -> Option<Progress<'a>> {
        None
    }

    /// Returns whether the run has a browser that must be released after the run's end.
    fn uses_browser(&self) -> bool;

    /// Returns whether some worker may have the run's browser in its memory.
    fn has_open_browser(&self) -> bool {
        self.binding().is_some_and(|bound| bound.is_live)
    }

    /// What binds the run's tasks for its browser to one worker.
    fn binding(&self) -> Option<Binding<'_>> {
        None
    }

    /// The error of a task that waits and cannot begin any more, because the browser that it was for is not there.
    fn cannot_begin(&self, _: &RunState, _: TaskRef) -> Option<v1::Error> {
        None
    }

    /// What follows when the worker has lost the run's browser.
    ///
    /// # Errors
    /// [`Refusal::Outdated`] if the worker had none.
    fn browser_lost(&self, _: &str, _: v1::BrowserLossReason) -> Result<Vec<Step>, Refusal> {
        Err(Refusal::Outdated)
    }

    /// The steps that follow when the run has waited for a person for as long as [`Machine::keep_after`] says.
    fn put_away(&self) -> Vec<Step> {
        Vec::new()
    }

    /// Blobs that an answer names beside its payload.
    fn blobs_of(&self, output: &v1::Payload) -> Vec<v1::BlobRef>;

    /// The result of the run, beside the results of its tasks.
    fn result(&self, run: &RunState) -> Option<run_result::Work>;
}

impl Machine {
    /// The machine of an accepted run, and the waves that it declares.
    pub(crate) fn accepted(work: run_accepted::Work) -> Option<(Self, Plan)> {
        Some(match work {
            run_accepted::Work::Plan(plan) => {
                let state = PlanState::accepted(&plan);
                (Self::Plan(state), Plan::recorded(plan)?)
            }
            run_accepted::Work::Ask(ask) => {
                let plan = Plan::undeclared("ask".to_owned());
                (Self::Ask(Box::new(AskState::new(ask))), plan)
            }
            run_accepted::Work::Script(script) => {
                let plan = Plan::undeclared(script.name.clone());
                (Self::Script(Box::new(ScriptState::new(script))), plan)
            }
            run_accepted::Work::Pipeline(pipeline) => {
                let plan = Plan::undeclared(pipeline.name.clone());
                (Self::Pipeline(Box::new(PipelineState::new(pipeline))), plan)
            }
            run_accepted::Work::Mode(run) => {
                let plan = Plan::undeclared(run.title().to_owned());
                (Self::Mode(Box::new(ModeState::new(run))), plan)
            }
        })
    }

    pub(crate) fn kind(&self) -> &dyn Kind {
        match self {
            Self::Plan(plan) => plan,
            Self::Ask(ask) => &**ask,
            Self::Script(script) => &**script,
            Self::Pipeline(pipeline) => &**pipeline,
            Self::Mode(mode) => &**mode,
        }
    }

    /// Folds an event that only one kind has. `None` where it does not fit the run.
    /// `seq` is the number of the event.
    pub(crate) fn apply(&mut self, body: Body, at: Moment, seq: u64) -> Option<Applied> {
        match self {
            Self::Plan(plan) => plan.apply(body),
            Self::Ask(ask) => ask.apply(body, at),
            Self::Script(script) => script.apply(body, at),
            Self::Pipeline(pipeline) => pipeline.apply(body, at),
            Self::Mode(mode) => mode.apply(body, at, seq),
        }
    }

    /// A person is asked something.
    pub(crate) fn asked(&mut self, question: &v1::Question) -> Option<()> {
        match self {
            Self::Plan(_) | Self::Ask(_) | Self::Script(_) | Self::Pipeline(_) => Some(()),
            Self::Mode(mode) => mode.asked(question),
        }
    }

    /// A person has let the run go on.
    pub(crate) fn resumed(&mut self) {
        if let Self::Mode(mode) = self {
            mode.resumed();
        }
    }

    /// The run is a fork of another one, and belongs to no session.
    pub(crate) fn forked(&mut self, of: &str, own: &str, input: Option<v1::Payload>, at: Moment) {
        match self {
            Self::Plan(plan) => plan.leave_session(),
            Self::Ask(ask) => ask.leave_session(),
            Self::Script(script) => script.rename_run(of, own),
            Self::Pipeline(pipeline) => pipeline.work_on(input),
            Self::Mode(mode) => mode.leave_session(own, at),
        }
    }

    /// The bytes that the machine holds.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Plan(_) => 0,
            Self::Ask(ask) => ask.bytes(),
            Self::Script(script) => script.bytes(),
            Self::Pipeline(pipeline) => pipeline.bytes(),
            Self::Mode(mode) => mode.bytes(),
        }
    }

    /// The part of [`Machine::bytes`] that an event may replace, and that is small enough to be counted with each event.
    pub(crate) fn changing_bytes(&self) -> u64 {
        match self {
            Self::Plan(_) => 0,
            Self::Ask(ask) => ask.bytes(),
            Self::Script(script) => script.changing_bytes(),
            Self::Pipeline(pipeline) => pipeline.changing_bytes(),
            Self::Mode(mode) => mode.changing_bytes(),
        }
    }

    /// When the machine's own time is over, while no activity is in work.
    pub(crate) fn due_at(&self) -> Option<Timestamp> {
        match self {
            Self::Plan(_) | Self::Ask(_) | Self::Pipeline(_) | Self::Mode(_) => None,
            Self::Script(script) => script.idle_at,
        }
    }

    /// After how long of waiting for a person what the run has in memory elsewhere is put away. Milliseconds.
    pub(crate) fn keep_after(&self) -> Option<i64> {
        match self {
            Self::Plan(_) | Self::Ask(_) | Self::Pipeline(_) => None,
            Self::Script(script) => script.keep_after(),
            Self::Mode(mode) => mode.keep_after(),
        }
    }
}

/// The consequences of an event for the state outside of the machine's own part.
#[derive(Debug, Default)]
pub(crate) struct Applied {
    /// A wave that begins, and its number.
    pub(crate) wave: Option<(u32, v1::Wave)>,
    /// A user's request that was carried out, by its id, and what it asked for.
    pub(crate) request: Option<(String, String)>,
    /// Bytes that were added to the machine's lists, beside its `changing_bytes`.
    pub(crate) added_bytes: u64,
    pub(crate) removed_bytes: u64,
}

impl RunState {
    pub(crate) fn rules(&self) -> &dyn Kind {
        self.machine.kind()
    }

    /// The kind of the run, for whoever shows it.
    #[must_use]
    pub fn kind(&self) -> v1::RunKind {
        self.rules().run_kind()
    }

    /// The session that this run belongs to.
    #[must_use]
    pub fn session(&self) -> Option<&str> {
        self.rules().session()
    }

    /// The session whose turn this run waits for.
    #[must_use]
    pub fn awaited_session(&self) -> Option<&str> {
        self.session().filter(|_| self.rules().awaits_turn() && self.goes_on())
    }

    /// Returns whether the run may have added something to its session.
    #[must_use]
    pub fn has_spoken(&self) -> bool {
        self.is_finished() || self.rules().progress(self, "").is_some()
    }

    /// Returns whether the run has a browser that must be released after the run's end.
    #[must_use]
    pub fn uses_browser(&self) -> bool {
        self.rules().uses_browser()
    }

    /// Returns whether the run may have a browser in some worker's memory.
    #[must_use]
    pub fn has_open_browser(&self) -> bool {
        self.rules().has_open_browser()
    }

    /// Returns whether a worker has a task that is done in the run's browser.
    #[must_use]
    pub fn works_in_browser(&self) -> bool {
        let in_browser = |task| self.plan.task(task).is_some_and(|task| task.agent == BROWSER_AGENT);
        self.activities().any(|(task, activity)| activity.lease().is_some() && in_browser(task))
    }

    /// What binds the run's tasks for [`BROWSER_AGENT`] to one worker.
    #[must_use]
    pub fn binding(&self) -> Option<Binding<'_>> {
        if crate::planted::is(crate::planted::Fault::AnotherHostGetsTheBrowser) {
            return None;
        }
        self.rules().binding()
    }

    /// Where the phases of a pipeline stand, for the run of this id; nothing of other kinds.
    #[must_use]
    pub fn checkpoints(&self, run_id: &str) -> Vec<v1::Checkpoint> {
        self.rules().checkpoints(run_id)
    }

    /// Where an execution stands, with what its last action has given where that is wanted; nothing of other kinds.
    #[must_use]
    pub fn execution(&self, output: bool) -> Option<v1::ExecutionState> {
        self.rules().execution(self, output)
    }

    /// An execution that has begun and ended, with its mode; nothing of other kinds.
    #[must_use]
    pub fn execution_ended(&self) -> Option<(v1::ExecutionMode, v1::ExecutionEnded)> {
        self.rules().execution_ended(self)
    }

    /// Blobs that a worker's answer names, in its payload or beside it.
    #[must_use]
    pub fn blobs_of(&self, output: &v1::Payload) -> Vec<v1::BlobRef> {
        let mut named = self.rules().blobs_of(output);
        if let Some(v1::payload::Data::Blob(blob)) = &output.data {
            named.push(blob.clone());
        }
        named
    }

    /// The number of the query that waits for its answer.
    pub(crate) fn open_query_id(&self) -> Option<QueryId> {
        if !self.goes_on() {
            return None;
        }
        self.rules().open_query_id(self)
    }

    /// The query that waits for its answer.
    #[must_use]
    pub fn open_query(&self) -> Option<(QueryId, Query)> {
        if !self.goes_on() {
            return None;
        }
        self.rules().open_query(self)
    }

    /// The policy by which the actions of a script are performed; nothing of other kinds.
    #[must_use]
    pub fn script_policy(&self) -> Option<&v1::ScriptPolicy> {
        match &self.machine {
            Machine::Script(script) => script.policy(),
            Machine::Plan(_) | Machine::Ask(_) | Machine::Pipeline(_) | Machine::Mode(_) => None,
        }
    }

    /// The text and the context by which the router is asked; `None` where a run has neither.
    #[must_use]
    pub fn ask_query(&self) -> Option<(&v1::Ask, &v1::SessionContext)> {
        match &self.machine {
            Machine::Ask(ask) => Some((&ask.ask, &ask.context)),
            Machine::Plan(_) | Machine::Script(_) | Machine::Pipeline(_) | Machine::Mode(_) => None,
        }
    }
}
