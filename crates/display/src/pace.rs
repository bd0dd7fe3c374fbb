//! How far a run is, and how long what is left of it may take.

use capataz_contracts::v1::{
    self, CheckpointStatus, ExecutionMode, QuestionHold, ResultStatus, StepStatus, event::Body,
};

use crate::model::{Phase, Run, Step, Task};

/// What is counted of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// The tasks of a plan.
    Tasks,
    /// The phases of a pipeline.
    Phases,
    /// The actions of a script, and the calls of an execution's tools.
    Actions,
    /// The steps of an approved plan.
    Steps,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HowFar {
    pub unit: Unit,
    /// What has ended, however it did.
    pub done: usize,
    /// What of that has failed, or is blocked.
    pub failed: usize,
    /// `None` where nobody knows how many there will be.
    pub all: Option<usize>,
}

/// What the estimate of a run is made of: the time in which something was done, and how much that was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// When the measure began, by the clock of the events.
    since_ms: i64,
    /// What was done by then. The tasks of a plan say so themselves, because one of them may be run again.
    done_before: usize,
    /// For how long the run has stood still since, and waited for a person.
    held_ms: i64,
    /// Since when it stands still; `None` while it is at work.
    held_since_ms: Option<i64>,
}

impl Run {
    /// How far it is; `None` for an ask, of which nothing is counted.
    #[must_use]
    pub fn how_far(&self) -> Option<HowFar> {
        if self.names_tasks {
            return Some(self.tasks_so_far());
        }
        if !self.phases.is_empty() {
            let of = |status: CheckpointStatus| {
                self.phases.iter().filter(|phase| phase.checkpoint.status() == status).count()
            };
            let (completed, failed) = (of(CheckpointStatus::Completed), of(CheckpointStatus::Blocked));
            let all = Some(self.phases.len());
            return Some(HowFar { unit: Unit::Phases, done: completed + failed, failed, all });
        }
        if let Some(script) = &self.script {
            let (done, failed) = script.ended();
            // Whoever chooses the actions of a session one by one may choose another one.
            let all = (!script.script.interactive).then_some(script.script.actions.len());
            return Some(HowFar { unit: Unit::Actions, done, failed, all });
        }
        let execution = self.execution.as_ref()?;
        // Only a plan that a person has approved is kept to.
        if execution.mode == ExecutionMode::Supervised && execution.plan.is_some() {
            let of = |wanted: StepStatus| execution.steps.iter().filter(|status| **status == wanted).count();
            let (succeeded, failed) = (of(StepStatus::Succeeded), of(StepStatus::Failed));
            let all = Some(execution.steps.len());
            return Some(HowFar { unit: Unit::Steps, done: succeeded + failed, failed, all });
        }
        let (done, failed) = (execution.actions as usize, execution.failed as usize);
        Some(HowFar { unit: Unit::Actions, done, failed, all: None })
    }

    fn tasks_so_far(&self) -> HowFar {
        let mut far = HowFar { unit: Unit::Tasks, done: 0, failed: 0, all: None };
        let mut all = 0;
        for task in self.tasks() {
            all += 1;
            if let Step::Settled { status } = task.step {
                far.done += 1;
                far.failed += usize::from(matches!(status, ResultStatus::Error | ResultStatus::Timeout));
            }
        }
        HowFar { all: Some(all), ..far }
    }

    /// The time that is left at `now_ms`, in milliseconds, if the rest takes as long as what was done: whole seconds, and
    /// `None` for less, or where nothing is known of it.
    #[must_use]
    pub fn time_left_ms(&self, far: &HowFar, now_ms: i64) -> Option<i64> {
        if self.phase != Phase::Running || self.is_held() {
            return None;
        }
        let done_before = match self.names_tasks {
            true => self.tasks().filter(|task| task.costless).count(),
            false => self.pace.done_before,
        };
        let (left, done) = (far.all?.checked_sub(far.done)?, far.done.checked_sub(done_before)?);
        let (left, done) = (i64::try_from(left).ok()?, i64::try_from(done).ok()?);
        let worked_ms = now_ms.saturating_sub(self.pace.since_ms).saturating_sub(self.pace.held_ms);
        let left_ms = worked_ms.saturating_mul(left).checked_div(done)? / 1_000 * 1_000;
        (left_ms > 0).then_some(left_ms)
    }

    /// Applies an event to the pace, after it was applied to everything else.
    pub(crate) fn keep_pace(&mut self, body: &Body, at_ms: i64) {
        match body {
            // What was done before this was not done at the pace of what is left, or is to be done again.
            Body::RunAccepted(_)
            | Body::RunForked(_)
            | Body::TaskRolledBack(_)
            | Body::PipelineRolledBack(_)
            | Body::ModeRolledBack(_)
            | Body::PlanEdited(_)
            | Body::PlanApproved(_)
            | Body::PlannerAnswered(v1::PlannerAnswered { plan: Some(_), .. }) => {
                let done_before = self.how_far().map_or(0, |far| match far.unit {
                    // A phase that is blocked and a step that has failed are done when they are done anew.
                    Unit::Phases | Unit::Steps => far.done.saturating_sub(far.failed),
                    Unit::Tasks | Unit::Actions => far.done,
                });
                self.pace = Pace { since_ms: at_ms, done_before, ..Pace::default() };
                for task in self.waves.iter_mut().flat_map(|wave| &mut wave.tasks) {
                    task.costless = matches!(task.step, Step::Settled { .. });
                }
            }
            _ => {}
        }
        match (self.pace.held_since_ms, self.is_held() && !self.is_at_work()) {
            (None, true) => self.pace.held_since_ms = Some(at_ms),
            (Some(since_ms), false) => {
                let held_ms = at_ms.saturating_sub(since_ms).max(0);
                self.pace.held_ms = self.pace.held_ms.saturating_add(held_ms);
                self.pace.held_since_ms = None;
            }
            (None, false) | (Some(_), true) => {}
        }
    }

    /// Whether nothing can be begun before a person does something.
    fn is_held(&self) -> bool {
        let holds = |question: &v1::Question| match question.holds() {
            QuestionHold::Nothing => false,
            // A plan has other tasks; of anything else, one piece of work is at work at a time.
            QuestionHold::Task => !self.names_tasks,
            QuestionHold::Run | QuestionHold::Unspecified => true,
        };
        self.phase == Phase::Paused || self.questions.iter().any(holds)
    }

    /// Whether a task is at work, as those are that had begun before the run was held. One whose outcome a person is asked
    /// for is lost.
    fn is_at_work(&self) -> bool {
        let is_lost = |task: &Task| {
            let mut asked = self.questions.iter().filter(|asked| asked.holds() != QuestionHold::Nothing);
            asked.any(|asked| asked.task.as_ref() == Some(&task.name))
        };
        let Some(wave) = self.wave.and_then(|place| self.waves.get(place)) else { return false };
        let mut active = wave.active.iter().filter_map(|place| wave.tasks.get(*place as usize));
        active.any(|task| matches!(task.step, Step::Running { .. } | Step::Stopping { .. }) && !is_lost(task))
    }
}

#[cfg(test)]
mod tests;
