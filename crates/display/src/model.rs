//! The fold of a run's events. Everything that watches a run reads this state.
//!
//! The fold is pure and total: if an event does not fit the state, it changes as much as it can and the rest is
//! ignored.

use std::collections::BTreeSet;

use capataz_contracts::v1;
use capataz_contracts::v1::event::Body;
use capataz_policy::codes::{self, Code};

use crate::executing::Execution;
use crate::pace::Pace;
use crate::retry::{Attempt, Cause};
use crate::script::fold::ScriptRun;
use crate::{log, pipeline};

/// The state of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Step {
    /// The task's wave has not begun.
    #[default]
    Planned,
    /// The task is in its agent's queue.
    Queued,
    Running {
        since_ms: i64,
    },
    /// The task was asked to stop.
    Stopping {
        since_ms: i64,
    },
    /// The task waits between two attempts.
    Retrying {
        at_ms: i64,
    },
    Settled {
        status: v1::ResultStatus,
    },
}

/// What a worker has said of its work last.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// The share that is done.
    pub fraction: Option<f64>,
    pub message: Option<String>,
    /// The end of the output so far: a few lines.
    pub partial_tail: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub struct Task {
    pub name: String,
    pub agent: String,
    pub critical: bool,
    pub max_attempts: u32,
    pub attempt: u32,
    /// True when the running attempt was taken over by another worker.
    pub resumed: bool,
    pub step: Step,
    /// The activation's attempts that have ended.
    pub attempts: Vec<Attempt>,
    /// The worker's last progress report.
    pub progress: Progress,
    /// The last lines of the log of the attempt that has failed last.
    pub log: Vec<String>,
    /// When the time of the activation is over, in Unix milliseconds by the clock of the events; `None` before its first
    /// lease.
    pub deadline_ms: Option<i64>,
    /// TIMEOUT_IMMINENT was told of this deadline.
    pub imminent: bool,
    /// No worker that serves its agent was connected when it was queued.
    pub absent: bool,
    /// Its failure was told in a box when it came about, so that the report need not draw it again.
    pub told: bool,
    /// Somebody would have completed it while it was in INIT.
    pub refused: Option<Refused>,
    /// It has settled without work, or before the measure of the run's pace began.
    pub costless: bool,
}

/// A completion that the lifecycle does not allow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Refused {
    pub error: v1::Error,
    /// It was told in a box when it came about.
    pub told: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Wave {
    pub name: String,
    pub policy: v1::AggregationPolicy,
    pub tasks: Vec<Task>,
    pub settled: u32,
    pub succeeded: u32,
    /// Its policy has decided, and what is still at work is being stopped.
    pub decided: bool,
    /// The indices of the tasks that are running, queued, retrying or stopping.
    pub active: BTreeSet<u32>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    #[default]
    Running,
    Paused,
    Cancelling,
    Finished,
}

/// A run.
#[derive(Clone, Debug, Default)]
pub struct Run {
    pub name: String,
    pub accepted_at_ms: i64,
    /// What its own clock said then: 0, but for a fork, whose clock goes on.
    pub began_at_ms: i64,
    /// The time of the newest event.
    pub at_ms: i64,
    pub seq: u64,
    pub phase: Phase,
    pub waves: Vec<Wave>,
    /// The index of the wave that began last.
    pub wave: Option<usize>,
    /// The open questions.
    pub questions: Vec<v1::Question>,
    pub outcome: v1::RunOutcome,
    /// The fold of the browser's activities, if the run is a script.
    pub script: Option<Box<ScriptRun>>,
    /// The plan and the figures, if the run is an execution.
    pub execution: Option<Box<Execution>>,
    /// The phases, if the run is a pipeline.
    pub phases: Vec<pipeline::Phase>,
    /// Its tasks are those that its user has named, whose failures are told as they come about.
    pub names_tasks: bool,
    /// A HIGH failure holds the run, and a person is asked.
    pub pauses_on_high: bool,
    /// How fast it is.
    pub pace: Pace,
}

impl Run {
    pub fn apply(&mut self, event: &v1::Event) {
        self.seq = event.seq;
        self.at_ms = event.at_ms;
        let Some(body) = &event.body else { return };
        pipeline::apply(&mut self.phases, body, event.at_ms);
        match body {
            Body::RunAccepted(accepted) => {
                self.accepted_at_ms = event.at_ms;
                accepted.name().clone_into(&mut self.name);
                self.script = accepted.script().map(|_| Box::default());
                self.execution =
                    matches!(accepted.work, Some(v1::run_accepted::Work::Mode(_))).then(Box::default);
                self.phases = accepted.phases().map(pipeline::Phase::of).collect();
                self.waves = accepted.plan().map(waves).unwrap_or_default();
                self.names_tasks = !self.waves.is_empty();
                self.pauses_on_high = accepted.plan().is_some_and(|plan| plan.on_high() == v1::OnHigh::Pause);
            }
            Body::WaveStarted(started) => self.wave_started(started.wave),
            Body::TaskLeased(leased) => self.update(leased.wave, leased.task, |task| {
                task.resumed = task.attempt == leased.attempt;
                task.attempt = leased.attempt;
                task.step = Step::Running { since_ms: event.at_ms };
                task.progress = Progress::default();
                task.absent = false;
                // Only the first lease of an activation sets it.
                if let Some(deadline) = deadline(event.at_ms, leased.deadline_in_ms, leased.deadline_ms) {
                    (task.deadline_ms, task.imminent) = (Some(deadline), false);
                }
            }),
            Body::ChildNamed(named) => self.update(named.wave, named.task, |task| {
                task.resumed = false;
                task.attempt = named.attempt;
                task.step = Step::Running { since_ms: event.at_ms };
                task.progress = Progress::default();
            }),
            Body::ChildCancelRequested(cancel) => self.update(cancel.wave, cancel.task, |task| {
                if let Step::Running { since_ms } = task.step {
                    task.step = Step::Stopping { since_ms };
                }
            }),
            // What it means follows.
            Body::ChildEnded(_) => {}
            Body::TaskLeaseLost(lost) => self.update(lost.wave, lost.task, |task| task.step = Step::Queued),
            Body::TaskAttemptFailed(failed) => self.update(failed.wave, failed.task, |task| {
                task.step = Step::Retrying { at_ms: failed.retry_at_ms };
                task.progress = Progress::default();
                task.log = log::last_lines(&failed.log);
                task.attempts.push(Attempt {
                    number: failed.attempt,
                    failure: Some(cause_in_short(failed.error.as_ref())),
                    delay_ms: Some(failed.delay_ms),
                });
            }),
            Body::TaskRetryDue(due) => self.update(due.wave, due.task, |task| task.step = Step::Queued),
            Body::TaskCancelRequested(cancel) => self.update(cancel.wave, cancel.task, |task| {
                if let Step::Running { since_ms } = task.step {
                    task.step = Step::Stopping { since_ms };
                }
            }),
            Body::TaskExtended(extended) => self.update(extended.wave, extended.task, |task| {
                let until = Some(extended.deadline_in_ms).filter(|until| *until != 0);
                task.deadline_ms = deadline(event.at_ms, until, Some(extended.deadline_ms));
                (task.imminent, task.told) = (false, false);
                if let Step::Stopping { since_ms } = task.step
                    && extended.cancel_withdrawn
                {
                    task.step = Step::Running { since_ms };
                }
            }),
            Body::TaskSettled(settled) => self.settled(settled),
            Body::TaskReactivated(again) => self.update(again.wave, again.task, Task::begin_anew),
            Body::TaskRolledBack(back) => self.rolled_back(back),
            Body::QuestionAsked(asked) => self.questions.extend(asked.question.clone()),
            Body::QuestionRevised(revised) => {
                let Some(now) = &revised.question else { return };
                let open = self.questions.iter_mut().find(|open| open.question_id == now.question_id);
                if let Some(open) = open {
                    open.clone_from(now);
                }
            }
            Body::QuestionAnswered(answered) => {
                self.questions.retain(|question| question.question_id != answered.question_id);
            }
            // What follows is this run's own, from here on.
            Body::RunForked(forked) => {
                self.accepted_at_ms = event.at_ms;
                self.began_at_ms = event.elapsed_ms;
                for task in self.waves.iter_mut().flat_map(|wave| &mut wave.tasks) {
                    task.deadline_ms = task.deadline_ms.map(|at| at.saturating_add(forked.shifted_ms));
                    if let Step::Retrying { at_ms } = &mut task.step {
                        *at_ms = at_ms.saturating_add(forked.shifted_ms);
                    }
                }
            }
            Body::RunPaused(_) => self.phase = Phase::Paused,
            Body::RunResumed(_) => self.phase = Phase::Running,
            Body::RunCancelRequested(_) => self.phase = Phase::Cancelling,
            Body::RunFinished(finished) => {
                self.phase = Phase::Finished;
                self.outcome = finished.outcome();
                self.questions.clear();
            }
            Body::AskRouted(routed) => {
                let wave = routed.wave.clone().unwrap_or_default();
                let call = v1::Plan { waves: vec![wave], ..v1::Plan::default() };
                self.waves.extend(waves(&call));
                self.wave_started(routed.call);
            }
            Body::BrowserActivityStarted(started) => {
                let wave = started.wave.clone().unwrap_or_default();
                let activity = v1::Plan { waves: vec![wave], ..v1::Plan::default() };
                self.waves.extend(waves(&activity));
                self.wave_started(started.number);
            }
            Body::PhaseStarted(started) => {
                let wave = started.tasks.clone().unwrap_or_default();
                let phase = v1::Plan { waves: vec![wave], ..v1::Plan::default() };
                self.waves.extend(waves(&phase));
                self.wave_started(started.wave);
            }
            Body::PlannerAsked(v1::PlannerAsked { wave, tasks, .. })
            | Body::ToolCalled(v1::ToolCalled { wave, tasks, .. }) => {
                let call = v1::Plan { waves: tasks.iter().cloned().collect(), ..v1::Plan::default() };
                self.waves.extend(waves(&call));
                self.wave_started(*wave);
            }
            Body::ModeBegun(_)
            | Body::PlannerAnswered(_)
            | Body::PlanEdited(_)
            | Body::PlanApproved(_)
            | Body::PlanRejected(_)
            | Body::ToolsMissed(_)
            | Body::ToolApproved(_)
            | Body::ToolObserved(_)
            | Body::EscalationAnswered(_)
            | Body::ModeCheckpointed(_)
            | Body::ModeRolledBack(_)
            | Body::ModeCompleted(_)
            | Body::SessionModeChosen(_)
            | Body::SessionMemoryForgotten(_) => {}
            // What it means for its task follows.
            Body::OutputRejected(_)
            | Body::PhaseCompleted(_)
            | Body::PhaseBlocked(_)
            | Body::PhaseChanged(_)
            | Body::PipelineRolledBack(_) => {}
            Body::BrowserOpened(_)
            | Body::ActionProposed(_)
            | Body::StageFinished(_)
            | Body::ActionFinished(_)
            | Body::ActionFailed(_)
            | Body::BrowserCloseRequested(_)
            | Body::BrowserClosed(_)
            | Body::BrowserLost(_)
            | Body::PlanBegun(_)
            | Body::AskBegun(_)
            | Body::TransitionConsidered(_)
            | Body::SessionOpened(_)
            | Body::SessionTurn(_)
            | Body::SessionTransitionAccepted(_)
            | Body::SessionStateWritten(_)
            | Body::TaskInputResolved(_)
            | Body::PartialOutputKept(_)
            | Body::WaveFinished(_) => {}
            Body::ResultRefused(refused) => self.update(refused.wave, refused.task, |task| {
                if let Some(error) = refused.error.as_deref().cloned() {
                    task.refused = Some(Refused { error, told: false });
                }
            }),
            Body::WaveDecided(decided) => {
                if let Some(wave) = self.waves.get_mut(decided.wave as usize) {
                    wave.decided = true;
                }
            }
            Body::Notice(told) => {
                let code = told.notice.as_ref().and_then(|notice| Code::named(&notice.code));
                match (told.wave, told.task, code) {
                    (Some(wave), Some(task), Some(codes::TIMEOUT_IMMINENT)) => {
                        self.update(wave, task, |task| task.imminent = true);
                    }
                    (Some(wave), Some(task), Some(codes::AGENT_ABSENT)) => {
                        self.update(wave, task, |task| task.absent = true);
                    }
                    _ => {}
                }
            }
        }
        if let Some(script) = &mut self.script {
            script.apply(event);
        }
        if let Some(execution) = &mut self.execution {
            execution.apply(body);
        }
        self.keep_pace(body, event.at_ms);
    }

    /// Applies a worker's progress report.
    pub fn progress(&mut self, frame: &v1::ProgressFrame) {
        self.update(frame.wave, frame.task, |task| {
            if matches!(task.step, Step::Running { .. } | Step::Stopping { .. }) {
                task.progress = Progress {
                    fraction: frame.fraction,
                    message: frame.message.clone(),
                    partial_tail: frame.partial_tail.clone(),
                };
                // What the daemon counts by its own clock, which nobody sets.
                task.deadline_ms = task.deadline_ms.map(|_| frame.at_ms.saturating_add(frame.remaining_ms));
            }
        });
    }

    /// Remembers that the task's failure was told in a box.
    pub fn tell(&mut self, wave: u32, task: u32) {
        self.update(wave, task, |task| task.told = true);
    }

    /// Remembers that it was told in a box that the task's completion was refused.
    pub fn tell_refused(&mut self, wave: u32, task: u32) {
        self.update(wave, task, |task| {
            if let Some(refused) = &mut task.refused {
                refused.told = true;
            }
        });
    }

    /// Whether the run waits for an answer: a question about a deadline is open, and holds nothing.
    pub fn waits(&self) -> bool {
        self.questions.iter().any(|question| question.holds() != v1::QuestionHold::Nothing)
    }

    pub fn task(&self, wave: u32, task: u32) -> Option<&Task> {
        self.waves.get(wave as usize)?.tasks.get(task as usize)
    }

    pub fn tasks(&self) -> impl Iterator<Item = &Task> {
        self.waves.iter().flat_map(|wave| &wave.tasks)
    }

    pub fn is_finished(&self) -> bool {
        self.phase == Phase::Finished
    }

    fn wave_started(&mut self, index: u32) {
        self.wave = Some(index as usize);
        let Some(wave) = self.waves.get_mut(index as usize) else { return };
        for (task, place) in wave.tasks.iter_mut().zip(0..) {
            if task.step == Step::Planned {
                task.step = Step::Queued;
                wave.active.insert(place);
            }
        }
    }

    /// The task waits again, and the waves after its own have not begun. What was given up stays so.
    fn rolled_back(&mut self, back: &v1::TaskRolledBack) {
        self.wave = Some(back.wave as usize);
        let later = self.waves.iter().zip(0..).skip(back.wave as usize + 1);
        let waiting = later.flat_map(|(wave, place)| wave.active.iter().map(move |task| (place, *task)));
        let waiting: Vec<(u32, u32)> = waiting.collect();
        let taken = back.taken_back.iter().map(|taken| (taken.wave, taken.task));
        for (wave, task) in waiting.into_iter().chain(taken) {
            let begins = (wave, task) == (back.wave, back.task);
            self.update(wave, task, |task| {
                task.begin_anew();
                task.step = if begins { Step::Queued } else { Step::Planned };
            });
        }
        for wave in self.waves.iter_mut().skip(back.wave as usize + 1) {
            wave.active.clear();
            wave.decided = false;
        }
    }

    fn settled(&mut self, settled: &v1::TaskSettled) {
        self.update(settled.wave, settled.task, |task| {
            // Earlier failed attempts have been recorded; this event ends the last attempt, if there was one.
            if settled.attempts > 0 {
                let success = settled.status() == v1::ResultStatus::Success;
                task.attempts.push(Attempt {
                    number: settled.attempts,
                    failure: (!success).then(|| failure_of(settled)),
                    delay_ms: None,
                });
            }
            if settled.status() == v1::ResultStatus::Success {
                task.log.clear();
            } else if settled.lease.is_some() || !settled.log.is_empty() {
                // Whoever was not at work when it settled has logged nothing since.
                task.log = log::last_lines(&settled.log);
            }
            task.costless = settled.attempts == 0;
            task.step = Step::Settled { status: settled.status() };
        });
    }

    /// Changes a task and updates the counts of its wave.
    fn update(&mut self, wave: u32, index: u32, change: impl FnOnce(&mut Task)) {
        let Some(wave) = self.waves.get_mut(wave as usize) else { return };
        let Some(task) = wave.tasks.get_mut(index as usize) else { return };
        let (was_settled, was_success) = task.is_settled();
        change(task);
        let (is_settled, is_success) = task.is_settled();
        wave.settled = wave.settled + u32::from(is_settled) - u32::from(was_settled);
        wave.succeeded = wave.succeeded + u32::from(is_success) - u32::from(was_success);
        if is_settled {
            wave.active.remove(&index);
        } else {
            wave.active.insert(index);
        }
    }
}

impl Task {
    fn begin_anew(&mut self) {
        self.step = Step::Queued;
        self.attempt = 0;
        self.attempts.clear();
        self.progress = Progress::default();
        self.log.clear();
        (self.deadline_ms, self.imminent) = (None, false);
        (self.absent, self.told, self.costless) = (false, false, false);
    }

    /// Returns whether the task has settled, and whether it succeeded.
    fn is_settled(&self) -> (bool, bool) {
        match self.step {
            Step::Settled { status } => (true, status == v1::ResultStatus::Success),
            _ => (false, false),
        }
    }
}

/// A deadline by the clock of the events: so long after its event, else as older formats have it.
fn deadline(at_ms: i64, in_ms: Option<i64>, by_wall_ms: Option<i64>) -> Option<i64> {
    in_ms.map(|in_ms| at_ms.saturating_add(in_ms)).or(by_wall_ms)
}

fn waves(plan: &v1::Plan) -> Vec<Wave> {
    let default_policy = plan.policy.clone().unwrap_or_default();
    let default_attempts = plan.retry.as_ref().map_or(STANDARD_ATTEMPTS, max_attempts);
    let waves = plan.waves.iter().enumerate();
    waves
        .map(|(index, wave)| Wave {
            name: wave.name.clone().unwrap_or_else(|| format!("wave-{}", index + 1)),
            policy: wave.policy.as_ref().unwrap_or(&default_policy).clone(),
            tasks: wave
                .tasks
                .iter()
                .map(|task| Task {
                    name: task.name.clone(),
                    agent: task.agent.clone(),
                    critical: task.critical,
                    max_attempts: task.retry.as_ref().map_or(default_attempts, max_attempts),
                    ..Task::default()
                })
                .collect(),
            ..Wave::default()
        })
        .collect()
}

const STANDARD_ATTEMPTS: u32 = 3;

fn max_attempts(policy: &v1::RetryPolicy) -> u32 {
    policy.max_attempts.unwrap_or(STANDARD_ATTEMPTS)
}

fn failure_of(settled: &v1::TaskSettled) -> Cause {
    match settled.status() {
        v1::ResultStatus::Timeout => Cause::Timeout,
        v1::ResultStatus::Cancelled => Cause::Cancelled,
        _ => {
            let error = settled.error.as_ref();
            cause_in_short(error.and_then(|error| error.cause.as_deref()).or(error))
        }
    }
}

/// The cause of a failed attempt in short: that its time was over, its exit code, else the code of its error.
fn cause_in_short(error: Option<&v1::Error>) -> Cause {
    let Some(error) = error else { return Cause::Unknown };
    let front = error.message.split(':').next().unwrap_or_default();
    match error.code.as_str() {
        "TIMEOUT" | "TASK_TIMEOUT" => Cause::Timeout,
        _ if front.starts_with("exit code ") => Cause::Said(front.to_owned()),
        "" if error.message.is_empty() => Cause::Unknown,
        "" => Cause::Said(error.message.clone()),
        code => Cause::Said(code.to_owned()),
    }
}

#[cfg(any(test, feature = "stories"))]
pub mod tests;
