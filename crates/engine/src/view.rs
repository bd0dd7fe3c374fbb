//! A run as its readers see it.

use capataz_contracts::v1;
use capataz_policy::aggregation::{ResultStatus, Tally};
use capataz_policy::lifecycle::TaskState;
use capataz_policy::retry;
use capataz_policy::severity::Severity;

use crate::decide::WITHDRAWN;
use crate::fold::activity::{Activity, End, Step};
use crate::fold::state::{AskedQuestion, Moment, Phase, RunState, Timestamp};
use crate::input::TaskRef;
use crate::plan::Task;

/// The parts of a run that a reader wants.
#[derive(Clone, Copy, Debug)]
pub struct ViewOptions {
    pub tasks: bool,
    pub outputs: bool,
    pub offset: usize,
    pub limit: usize,
}

/// What an assignment holds.
#[derive(Clone, Debug, PartialEq)]
pub struct AssignmentView<'a> {
    pub agent: &'a str,
    pub name: &'a str,
    pub activation: u32,
    pub attempt: u32,
    pub input: Option<&'a v1::Payload>,
    pub deadline: Option<Moment>,
    /// JSON Schema by which its kind will judge the output, where the holder is told.
    pub output_schema: Option<&'a str>,
}

impl RunState {
    #[must_use]
    pub fn status(&self) -> v1::RunStatus {
        match &self.phase {
            Phase::Finished { .. } => v1::RunStatus::Finished,
            Phase::Ending { .. } => v1::RunStatus::Cancelling,
            Phase::Running if self.is_waiting() => v1::RunStatus::Waiting,
            Phase::Running if self.paused => v1::RunStatus::Paused,
            Phase::Running => v1::RunStatus::Running,
        }
    }

    #[must_use]
    pub fn outcome(&self) -> Option<v1::RunOutcome> {
        match &self.phase {
            Phase::Finished { outcome, .. } => Some(*outcome),
            Phase::Running | Phase::Ending { .. } => None,
        }
    }

    /// Unix milliseconds of the run's end.
    #[must_use]
    pub fn finished_at_ms(&self) -> Option<i64> {
        match &self.phase {
            Phase::Finished { at, .. } => Some(at.0),
            Phase::Running | Phase::Ending { .. } => None,
        }
    }

    /// Unix milliseconds of the newest event.
    #[must_use]
    pub fn updated_at_ms(&self) -> i64 {
        self.last.wall.0
    }

    /// Tasks that have settled, of how many.
    #[must_use]
    pub fn progress(&self) -> (u32, u32) {
        (self.settled, self.plan.task_count())
    }

    /// What the holder of the task's lease is given.
    #[must_use]
    pub fn assignment(&self, task: TaskRef) -> Option<AssignmentView<'_>> {
        let declared = self.plan.task(task)?;
        let activity = self.activity(task)?;
        Some(AssignmentView {
            agent: &declared.agent,
            name: &declared.name,
            activation: activity.activation,
            attempt: activity.attempt,
            input: activity.input.as_ref().or(declared.input.as_ref()),
            deadline: activity.deadline,
            output_schema: self.rules().contract_of(task),
        })
    }

    /// When the task was first leased, and its deadline, by the run's own clock.
    #[must_use]
    pub fn running_times(&self, task: TaskRef) -> Option<(Timestamp, Timestamp)> {
        let activity = self.activity(task)?;
        Some((activity.started?.clock, activity.deadline?.clock))
    }

    /// How often the task was begun, from 1; 0 where its wave has never begun.
    #[must_use]
    pub fn activation(&self, task: TaskRef) -> u32 {
        self.known(task).map_or(0, |activity| activity.activation)
    }

    /// What a user is told of the task that a request was about: its deadline by the clock on the wall, 0 where it has none, and
    /// its activation.
    #[must_use]
    pub fn told_of(&self, task: TaskRef) -> (i64, u32) {
        let deadline = self.activity(task).and_then(|activity| activity.deadline);
        (deadline.map_or(0, |deadline| deadline.wall.0), self.activation(task))
    }

    /// Returns whether it has ended, and another run can do what is left of it.
    fn may_be_continued(&self) -> bool {
        let succeeded = |(task, _)| {
            let end = self.known(task).and_then(|activity| activity.end.as_ref());
            end.is_some_and(|end| end.status == ResultStatus::Success)
        };
        self.is_finished() && self.declares_tasks() && !self.plan.references().all(succeeded)
    }

    /// Returns whether the tasks are those that the run's start has declared.
    #[must_use]
    pub fn declares_tasks(&self) -> bool {
        self.rules().declares_tasks()
    }

    /// Returns whether a rate limit that one of the tasks meets holds the agent's other tasks.
    #[must_use]
    pub fn limits_hold(&self) -> bool {
        self.rules().limits_hold()
    }

    /// What the task of this name has given, where it has succeeded; `Some(None)` where that is nothing.
    #[must_use]
    pub fn success_of(&self, name: &str) -> Option<Option<&v1::Payload>> {
        let end = self.known(self.plan.find(name)?)?.end.as_ref()?;
        (end.status == ResultStatus::Success).then_some(end.output.as_ref())
    }

    /// The run as a read model.
    #[must_use]
    pub fn view(&self, run_id: String, options: ViewOptions) -> v1::Run {
        let error = match &self.phase {
            Phase::Finished { error, .. } | Phase::Ending { error } => error.clone(),
            Phase::Running => None,
        };
        v1::Run {
            run_id,
            kind: self.kind().into(),
            name: self.plan.name.clone(),
            status: self.status().into(),
            outcome: self.outcome().map(Into::into),
            labels: self.labels.clone(),
            created_at_ms: self.created_at().0,
            updated_at_ms: self.last.wall.0,
            finished_at_ms: self.finished_at_ms(),
            seq: self.seq,
            parent: self.parent.clone(),
            wave: self.current_wave(),
            waves: if options.tasks { self.wave_views(options) } else { Vec::new() },
            questions: self.question_views(options.outputs),
            error,
            summary: Some(self.error_summary()),
            tasks_total: self.plan.task_count(),
            tasks_settled: self.settled,
            session: self.session().map(str::to_owned),
            quarantine: None,
            children: Vec::new(),
            notices: if options.tasks { self.notices.clone() } else { Vec::new() },
            notices_omitted: if options.tasks { self.notices_omitted } else { 0 },
            state_counts: self.state_counts(),
            // Its session's log has it, which a run knows nothing of.
            session_repaired: None,
            continues: self.plan.continues.clone(),
            may_be_continued: self.may_be_continued(),
            forked_from: self.forked_from().map(|(run, seq)| v1::ForkRef { run_id: run.to_owned(), seq }),
        }
    }

    /// How many tasks are in each state (seed 000, contract 2), in the order of the table.
    fn state_counts(&self) -> Vec<v1::StateCount> {
        let mut counts = TaskState::ALL.map(|state| (state, 0u32));
        for (place, _) in self.plan.references() {
            let state = self.known(place).map_or(TaskState::Init, |activity| activity.state);
            if let Some((_, tasks)) = counts.iter_mut().find(|(counted, _)| *counted == state) {
                *tasks = tasks.saturating_add(1);
            }
        }
        let there = counts.into_iter().filter(|(_, tasks)| *tasks > 0);
        there.map(|(state, tasks)| v1::StateCount { state: state.to_proto().into(), tasks }).collect()
    }

    /// The questions, but for those about deadlines that nobody has answered in time: they are in the log.
    fn question_views(&self, outputs: bool) -> Vec<v1::Question> {
        let is_over = |asked: &&AskedQuestion| {
            asked.question.purpose() == v1::QuestionPurpose::Timeout
                && asked.question.answer.as_deref() == Some(WITHDRAWN)
        };
        let shown = self.questions.iter().filter(|asked| !is_over(asked));
        shown.map(|asked| question_view(asked, outputs)).collect()
    }

    fn wave_views(&self, options: ViewOptions) -> Vec<v1::WaveView> {
        let mut skip = options.offset;
        let mut room = options.limit;
        let mut views = Vec::with_capacity(self.plan.waves.len());
        for (wave, wave_index) in self.plan.waves.iter().zip(0u32..) {
            let state = self.waves.get(wave_index as usize);
            let policy = self.plan.policy_of(wave_index);
            let mut tasks = Vec::new();
            for (task, task_index) in wave.tasks.iter().zip(0u32..) {
                if skip > 0 {
                    skip -= 1;
                } else if room > 0 {
                    room -= 1;
                    let place = TaskRef { wave: wave_index, task: task_index };
                    tasks.push(task_view(self, place, task, options.outputs));
                }
            }
            views.push(v1::WaveView {
                name: wave.name.clone(),
                policy: policy.kind().to_proto().into(),
                tasks,
                evaluation: state.and_then(|state| {
                    let counted = state.tally.total() > 0;
                    state.evaluation.clone().or_else(|| counted.then(|| state.tally.evaluation(policy)))
                }),
            });
        }
        views
    }

    /// Errors of the run's tasks by severity.
    #[must_use]
    pub fn error_summary(&self) -> v1::ErrorSummary {
        let mut summary = v1::ErrorSummary::default();
        // What a person has given up in a wave that was taken back has failed all the same.
        let mut given_up = Tally::default();
        for (place, activity) in &self.taken_back {
            if let (Some(end), Some(declared)) = (&activity.end, self.plan.task(*place)) {
                given_up.add(&declared.outcome(end.status, end.severity));
            }
        }
        for tally in self.waves.iter().map(|wave| &wave.tally).chain([&given_up]) {
            let part = tally.summary();
            summary.total += part.total;
            summary.critical += part.critical;
            summary.high += part.high;
            summary.medium += part.medium;
            summary.low += part.low;
            summary.critical_tasks += part.critical_tasks;
        }
        summary
    }

    /// The end of a finished run, with the outputs of its tasks up to `max_output` bytes in all.
    #[must_use]
    pub fn result(&self, max_output: usize) -> Option<v1::RunResult> {
        let Phase::Finished { outcome, error, .. } = &self.phase else { return None };
        let mut room = max_output;
        let mut tasks = Vec::with_capacity(self.plan.task_count() as usize);
        tasks.extend(self.plan.references().map(|(place, task)| {
            let activity = self.known(place);
            let end = activity.and_then(|activity| activity.end.as_ref());
            let output = end.and_then(|end| end.output.as_ref());
            let error = end.and_then(|end| end.error.as_ref());
            let bytes =
                output.map_or(0, prost::Message::encoded_len) + error.map_or(0, prost::Message::encoded_len);
            let fits = bytes <= room;
            if fits {
                room -= bytes;
            }
            v1::TaskResult {
                name: task.name.clone(),
                state: activity.map_or(TaskState::Init, |activity| activity.state).to_proto().into(),
                status: end.map_or(v1::ResultStatus::Unspecified, |end| end.status.to_proto()).into(),
                output: output.filter(|_| fits).cloned(),
                error: error.filter(|_| fits).cloned(),
                output_omitted: !fits,
                usage: end.and_then(|end| end.usage.clone()),
                partial: end.is_some_and(End::is_partial),
            }
        }));
        Some(v1::RunResult {
            outcome: (*outcome).into(),
            error: error.clone(),
            summary: Some(self.error_summary()),
            tasks,
            // The end is the newest event, and the run's own clock began with the wall's.
            duration_ms: self.last.clock.since(self.begun_at()),
            work: self.rules().result(self),
        })
    }
}

fn question_view(asked: &AskedQuestion, outputs: bool) -> v1::Question {
    let mut view = asked.question.clone();
    // What a task had at its deadline is with the task once that is answered.
    let is_with_task = view.purpose() == v1::QuestionPurpose::Timeout && view.answer.is_some();
    if let Some(detail) =
        view.error.as_mut().and_then(|error| error.timeout.as_mut()).filter(|_| is_with_task)
    {
        detail.partial_output = None;
    }
    if !outputs {
        without_values(&mut view);
    }
    view
}

/// Leaves out of a question what may be long: the values that are proposed, answered, and those of its error.
pub fn without_values(question: &mut v1::Question) {
    (question.proposed, question.answer_value) = (None, None);
    if let Some(detail) = question.error.as_mut().and_then(|error| error.timeout.as_mut()) {
        detail.partial_output = None;
    }
}

fn task_view(run: &RunState, place: TaskRef, task: &Task, outputs: bool) -> v1::TaskView {
    let mut view = v1::TaskView {
        name: task.name.clone(),
        agent: task.agent.clone(),
        state: v1::TaskState::Init.into(),
        max_attempts: run.plan.retry_of(place).max_attempts(),
        critical: task.critical,
        ..v1::TaskView::default()
    };
    let Some(activity) = run.known(place) else { return view };
    view.state = activity.state.to_proto().into();
    view.attempt = activity.attempt;
    view.activation = activity.activation;
    view.started_at_ms = activity.started.map(|at| at.wall.0);
    view.deadline_ms = activity.deadline.map(|at| at.wall.0);
    view.attempts = ended_attempts(activity);
    view.child.clone_from(&activity.child);
    view.worker = activity.lease().map(|lease| lease.worker.clone());
    if let Step::Backoff { retry_at } = activity.step {
        view.retry_at_ms = Some(run.last.wall_at(retry_at).0);
    }
    let mut from = None;
    for step in &activity.history {
        let to = step.to.to_proto().into();
        view.history.push(v1::Transition { from, to, at_ms: step.at.0 });
        from = Some(to);
    }
    if let Some(end) = &activity.end {
        view.status = Some(end.status.to_proto().into());
        view.settled_at_ms = Some(end.at.0);
        view.error.clone_from(&end.error);
        view.severity = end.severity.map_or(v1::Severity::Unspecified, Severity::to_proto).into();
        view.output = end.output.clone().filter(|_| outputs);
        view.partial = end.is_partial();
        view.usage.clone_from(&end.usage);
        view.taken_over = end.taken_over;
    }
    view
}

/// All attempts of the activation that have ended, the last one included.
fn ended_attempts(activity: &Activity) -> Vec<v1::AttemptRecord> {
    let mut attempts = activity.attempts.clone();
    if let Some(End { attempt_ms: Some(duration_ms), status, error, usage, .. }) = &activity.end {
        let succeeded = *status == ResultStatus::Success;
        let status = if succeeded { v1::AttemptStatus::Success } else { v1::AttemptStatus::Failed };
        attempts.push(v1::AttemptRecord {
            attempt: activity.attempt,
            status: status.into(),
            error: error.as_ref().map(|error| retry::original(error).code.clone()),
            duration_ms: *duration_ms,
            waited_ms: activity.waited_ms,
            usage: usage.clone(),
        });
    }
    attempts
}
