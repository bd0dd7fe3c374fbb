//! What follows from the results of a plan, computed and not believed: how far they depart from it, and why it is made anew
//! (CONTRACTS §5).

use std::collections::BTreeSet;

use capataz_contracts::v1::event::Body;
use capataz_contracts::v1::{self, ReplanReason, StepStatus};
use capataz_policy::{codes, mode};

use super::memory;
use super::state::{Call, Execution, ModeState};

impl Execution {
    /// The share of steps done under this revision that miss what was expected.
    pub(super) fn deviation(&self) -> f64 {
        mode::deviation(self.missed.len(), self.done)
    }

    pub(super) fn plan_steps(&self) -> &[v1::PlanStep] {
        self.plan.as_ref().map_or(&[], |plan| plan.steps.as_slice())
    }

    /// The steps of the plan with their places, and where they stand.
    fn known(&self) -> impl Iterator<Item = (u32, &v1::PlanStep, StepStatus)> {
        let status = |status: &i32| StepStatus::try_from(*status).unwrap_or_default();
        let steps = self.plan_steps().iter().zip(&self.steps).zip(0u32..);
        steps.map(move |((step, stands), place)| (place, step, status(stands)))
    }

    /// Returns whether every step of the plan has succeeded.
    pub(super) fn is_complete(&self) -> bool {
        self.plan.is_some() && self.known().all(|(.., status)| status == StepStatus::Succeeded)
    }

    /// The share of the plan's steps that have succeeded.
    pub(super) fn progress(&self) -> f64 {
        let done = self.known().filter(|(.., status)| *status == StepStatus::Succeeded).count();
        mode::deviation(done, u32::try_from(self.steps.len()).unwrap_or(u32::MAX))
    }

    /// Steps that are to be done, and depend, over however many others, on one that has failed.
    pub(super) fn invalidated(&self) -> Vec<u32> {
        let failed = self.known().filter(|(.., status)| *status == StepStatus::Failed);
        let mut lost: BTreeSet<&str> = failed.map(|(_, step, _)| step.id.as_str()).collect();
        let mut found = BTreeSet::new();
        // Each pass finds those that depend on what the one before has found; a plan has 50 steps at most.
        loop {
            let before = lost.len();
            for (place, step, status) in self.known() {
                let is_open = matches!(status, StepStatus::Pending | StepStatus::InProgress);
                if is_open && step.depends_on.iter().any(|needed| lost.contains(needed.as_str())) {
                    lost.insert(step.id.as_str());
                    found.insert(place);
                }
            }
            if lost.len() == before {
                return found.into_iter().collect();
            }
        }
    }

    /// Steps that are to be done by tools that are not there.
    fn without_tool(&self, tools: &BTreeSet<&str>) -> Vec<u32> {
        let open = self.known().filter(|(.., status)| *status != StepStatus::Succeeded);
        open.filter(|(_, step, _)| !tools.contains(step.tool.as_str())).map(|(place, ..)| place).collect()
    }

    /// The first step that has not succeeded, and all of whose needs have; else the first that has not.
    pub(super) fn current(&self) -> Option<u32> {
        let mut open = self.known().filter(|(.., status)| *status != StepStatus::Succeeded);
        let ready = |(_, step, _): &(u32, &v1::PlanStep, StepStatus)| self.unmet(step).is_none();
        let first = self.known().filter(|(.., status)| *status != StepStatus::Succeeded).find(ready);
        first.or_else(|| open.next()).map(|(place, ..)| place)
    }

    /// A step that has to succeed before this one, and has not.
    pub(super) fn unmet<'a>(&'a self, step: &'a v1::PlanStep) -> Option<&'a str> {
        let succeeded: BTreeSet<&str> = self
            .known()
            .filter(|(.., status)| *status == StepStatus::Succeeded)
            .map(|(_, step, _)| step.id.as_str())
            .collect();
        step.depends_on.iter().map(String::as_str).find(|needed| !succeeded.contains(needed))
    }

    pub(super) fn has_succeeded(&self, place: u32) -> bool {
        self.steps.get(place as usize) == Some(&i32::from(StepStatus::Succeeded))
    }
}

impl ModeState {
    pub(super) fn tool_names(&self) -> BTreeSet<&str> {
        self.run.tools.iter().map(|tool| tool.name.as_str()).collect()
    }

    /// Those of them that there is somebody for, as far as the run knows.
    pub(super) fn present_tools(&self) -> BTreeSet<&str> {
        self.tool_names().into_iter().filter(|name| !self.absent.contains(*name)).collect()
    }

    /// What comes of a call whose tool nobody serves: it is not made, so that another plan is.
    pub(super) fn missed(&self, call: &Call) -> Option<Body> {
        let tool = Some(&call.call.tool).filter(|tool| self.absent.contains(*tool))?;
        let message = format!("nobody serves the tool {tool:?}");
        let remembered = memory::absence(self, tool, &message);
        Some(self.not_made(call, codes::error(codes::AGENT_ABSENT, message), remembered))
    }

    /// What comes of a call that is not made.
    pub(super) fn not_made(&self, call: &Call, error: v1::Error, remembered: v1::Remembered) -> Body {
        Body::ToolObserved(v1::ToolObserved {
            step: self.execution.step.saturating_add(1),
            tool: call.call.tool.clone(),
            step_index: call.call.step_index,
            error: Some(error),
            remembered: Some(remembered),
            ..v1::ToolObserved::default()
        })
    }

    pub(super) fn tool(&self, name: &str) -> Option<&v1::ModeTool> {
        self.run.tools.iter().find(|tool| tool.name == name)
    }

    /// Why the plan has to be made anew, but for what only the planner says.
    pub(super) fn reasons(&self) -> Vec<ReplanReason> {
        let execution = &self.execution;
        let is_planned = self.mode() == v1::ExecutionMode::Planner && execution.plan.is_some();
        let found = [
            (execution.deviation() > mode::MAX_DEVIATION, ReplanReason::Deviation),
            (execution.errors >= mode::MAX_ERRORS, ReplanReason::Errors),
            (!execution.without_tool(&self.present_tools()).is_empty(), ReplanReason::ResourcesUnavailable),
            (!execution.invalidated().is_empty(), ReplanReason::InvalidatedSteps),
        ];
        found.into_iter().filter(|(holds, _)| is_planned && *holds).map(|(_, reason)| reason).collect()
    }

    /// Places of the steps that what went wrong concerns: those that missed what was expected, that cannot be done, or that
    /// depend on such.
    pub(super) fn impacted(&self) -> Vec<u32> {
        let execution = &self.execution;
        let mut impacted: BTreeSet<u32> = execution.missed.iter().copied().collect();
        impacted.extend(execution.invalidated());
        impacted.extend(execution.without_tool(&self.present_tools()));
        impacted.into_iter().collect()
    }

    /// How far results may depart from an approved plan.
    pub(super) fn autonomy(&self) -> f64 {
        self.run.autonomy_level.unwrap_or(mode::AUTONOMY)
    }

    /// The plan was made anew more often than it may be before a person is asked.
    pub(super) fn replans_too_often(&self) -> bool {
        let execution = &self.execution;
        execution.replans.saturating_sub(execution.replans_allowed) > mode::MAX_REPLANS
    }
}
