//! A run as its events tell it: the fold that everything which watches a run looks at.
//!
//! Pure, and total: an event that does not fit what came before changes what it can and is otherwise ignored.

use std::collections::BTreeSet;

use capataz_contracts::v1;
use capataz_contracts::v1::event::Body;

use crate::display::retry::Attempt;
use crate::script::fold::ScriptRun;
use crate::text::words;

/// How a task stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Step {
    /// Its wave has not begun.
    #[default]
    Planned,
    /// In its agent's queue.
    Queued,
    Running {
        since_ms: i64,
    },
    /// Asked to stop.
    Stopping {
        since_ms: i64,
    },
    /// Between two attempts.
    Retrying {
        at_ms: i64,
    },
    Settled {
        status: v1::ResultStatus,
    },
}

#[derive(Clone, Debug, Default)]
pub struct Task {
    pub name: String,
    pub agent: String,
    pub critical: bool,
    pub max_attempts: u32,
    pub attempt: u32,
    /// The running attempt has changed its worker.
    pub resumed: bool,
    pub step: Step,
    /// Attempts of the activation that have ended.
    pub attempts: Vec<Attempt>,
    /// What the worker said last: share done, message.
    pub progress: (Option<f64>, Option<String>),
}

#[derive(Clone, Debug, Default)]
pub struct Wave {
    pub name: String,
    pub policy: v1::AggregationPolicy,
    pub tasks: Vec<Task>,
    pub settled: u32,
    pub succeeded: u32,
    /// Tasks that are not settled and not only planned, by their index.
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
    /// Time of the newest event.
    pub at_ms: i64,
    pub seq: u64,
    pub phase: Phase,
    pub waves: Vec<Wave>,
    /// Index of the wave that began last.
    pub wave: Option<usize>,
    /// Questions without an answer.
    pub questions: Vec<v1::Question>,
    pub outcome: v1::RunOutcome,
    /// Where the run is a script: what its browser did.
    pub script: Option<Box<ScriptRun>>,
}

impl Run {
    pub fn apply(&mut self, event: &v1::Event) {
        self.seq = event.seq;
        self.at_ms = event.at_ms;
        let Some(body) = &event.body else { return };
        match body {
            Body::RunAccepted(accepted) => {
                self.accepted_at_ms = event.at_ms;
                if accepted.ask.is_some() {
                    self.name = "ask".to_owned();
                }
                if let Some(script) = &accepted.script {
                    self.name.clone_from(&script.name);
                    self.script = Some(Box::default());
                }
                if let Some(plan) = &accepted.plan {
                    self.name = plan.name.clone();
                    self.waves = waves(plan);
                }
            }
            Body::WaveStarted(started) => self.wave_started(started.wave),
            Body::TaskLeased(leased) => self.update(leased.wave, leased.task, |task| {
                task.resumed = task.attempt == leased.attempt;
                task.attempt = leased.attempt;
                task.step = Step::Running { since_ms: event.at_ms };
                task.progress = (None, None);
            }),
            Body::TaskLeaseLost(lost) => self.update(lost.wave, lost.task, |task| task.step = Step::Queued),
            Body::TaskAttemptFailed(failed) => self.update(failed.wave, failed.task, |task| {
                task.step = Step::Retrying { at_ms: failed.retry_at_ms };
                task.progress = (None, None);
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
            Body::TaskExtended(extended) if extended.cancel_withdrawn => {
                self.update(extended.wave, extended.task, |task| {
                    if let Step::Stopping { since_ms } = task.step {
                        task.step = Step::Running { since_ms };
                    }
                });
            }
            Body::TaskSettled(settled) => self.settled(settled),
            Body::TaskReactivated(again) => self.update(again.wave, again.task, |task| {
                task.step = Step::Queued;
                task.attempt = 0;
                task.attempts.clear();
            }),
            Body::QuestionAsked(asked) => self.questions.extend(asked.question.clone()),
            Body::QuestionAnswered(answered) => {
                self.questions.retain(|question| question.question_id != answered.question_id);
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
            Body::BrowserOpened(_)
            | Body::ActionProposed(_)
            | Body::StageFinished(_)
            | Body::ActionFinished(_)
            | Body::ActionFailed(_)
            | Body::BrowserCloseRequested(_)
            | Body::BrowserClosed(_)
            | Body::AskBegun(_)
            | Body::TransitionConsidered(_)
            | Body::SessionOpened(_)
            | Body::SessionTurn(_)
            | Body::SessionTransitionAccepted(_)
            | Body::TaskInputResolved(_)
            | Body::TaskExtended(_)
            | Body::ResultRefused(_)
            | Body::WaveDecided(_)
            | Body::WaveFinished(_)
            | Body::Notice(_) => {}
        }
        if let Some(script) = &mut self.script {
            script.apply(event);
        }
    }

    /// Takes up what a worker says of its work.
    pub fn progress(&mut self, frame: &v1::ProgressFrame) {
        self.update(frame.wave, frame.task, |task| {
            if matches!(task.step, Step::Running { .. } | Step::Stopping { .. }) {
                task.progress = (frame.fraction, frame.message.clone());
            }
        });
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

    fn settled(&mut self, settled: &v1::TaskSettled) {
        self.update(settled.wave, settled.task, |task| {
            // Attempts that failed before have said so themselves; this is the last one, where there was one.
            if settled.attempts > 0 {
                let success = settled.status() == v1::ResultStatus::Success;
                task.attempts.push(Attempt {
                    number: settled.attempts,
                    failure: (!success).then(|| failure_of(settled)),
                    delay_ms: None,
                });
            }
            task.step = Step::Settled { status: settled.status() };
        });
    }

    /// Changes a task and keeps the counts of its wave.
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
    /// Whether it has settled, and with success.
    fn is_settled(&self) -> (bool, bool) {
        match self.step {
            Step::Settled { status } => (true, status == v1::ResultStatus::Success),
            _ => (false, false),
        }
    }
}

fn waves(plan: &v1::Plan) -> Vec<Wave> {
    let default_policy = plan.policy.unwrap_or_default();
    let default_attempts = plan.retry.as_ref().map_or(STANDARD_ATTEMPTS, max_attempts);
    let waves = plan.waves.iter().enumerate();
    waves
        .map(|(index, wave)| Wave {
            name: wave.name.clone().unwrap_or_else(|| format!("wave-{}", index + 1)),
            policy: wave.policy.unwrap_or(default_policy),
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

fn failure_of(settled: &v1::TaskSettled) -> String {
    match settled.status() {
        v1::ResultStatus::Timeout => words().report.timeout.to_owned(),
        v1::ResultStatus::Cancelled => words().report.cancelled.to_lowercase(),
        _ => {
            let error = settled.error.as_ref();
            cause_in_short(error.and_then(|error| error.cause.as_deref()).or(error))
        }
    }
}

/// What stands in parentheses behind a failed attempt: `timeout`, `exit code 1`, else the code.
pub fn cause_in_short(error: Option<&v1::Error>) -> String {
    let Some(error) = error else { return words().report.error.to_owned() };
    let front = error.message.split(':').next().unwrap_or_default();
    match error.code.as_str() {
        "TIMEOUT" | "TASK_TIMEOUT" => words().report.timeout.to_owned(),
        _ if front.starts_with("exit code ") => front.to_owned(),
        "" if error.message.is_empty() => words().report.error.to_owned(),
        "" => error.message.clone(),
        code => code.to_owned(),
    }
}

#[cfg(test)]
pub mod tests;
