//! What executions may do (seed 004; CONTRACTS §5): errors, deviations, revisions and approvals are counted here by hand, from
//! what planners and tools said and people answered.

use std::collections::{BTreeMap, BTreeSet};

use capataz_contracts::v1::{self, ExecutionMode, ReplanReason};
use capataz_engine::TaskRef;

use super::log::{RunModel, Step};
use super::mode_browser::ModeBrowser;
use super::script::Kind;
use crate::invariant::{Invariant, Violation};

mod events;
mod memory;

use memory::Memory;
pub use memory::Pool;

#[derive(Clone, Debug)]
pub struct ModeModel {
    pub run: v1::ModeRun,
    /// The mode that its session had chosen when it began.
    chosen: ExecutionMode,
    mode: Option<ExecutionMode>,
    stage: Stage,
    now: Counted,
    /// Checkpoints by their ids: the number of their event, what there was then, and whether it can be gone back to.
    kept: BTreeMap<String, (u64, Counted, bool)>,
    revisions: u32,
    /// What the planner was asked for.
    asked: Vec<i32>,
    memory: Memory,
    /// A plan was made anew, and its checkpoint is to follow.
    owes_checkpoint: bool,
    pub completed: bool,
    /// Tools that nobody served when the newest prompt was made.
    absent: BTreeSet<String>,
    pub(super) browser: ModeBrowser,
}

#[derive(Clone, Debug, Default, PartialEq)]
enum Stage {
    #[default]
    Begins,
    Plans,
    Asked(u32),
    Proposed,
    Rejected,
    /// A call, and whether a person has approved it.
    Wanted(v1::ToolCall, bool, bool),
    Called(u32, v1::ToolCall, bool),
    Escalated(Option<(v1::ToolCall, bool)>),
}

/// What a checkpoint keeps.
#[derive(Clone, Debug, Default, PartialEq)]
struct Counted {
    step: u32,
    errors: u32,
    ended: bool,
    plan: Option<v1::ModePlan>,
    /// By step: done, failed, or neither.
    steps: Vec<Option<bool>>,
    done: u32,
    missed: u32,
    approved: bool,
    replans: u32,
    /// Of them, those that a person knows of.
    allowed: u32,
    last_failed: bool,
    /// The last result is an error that was not to be one.
    erred: bool,
    /// Of those that miss, how many a person knows of.
    known: u32,
    /// A plan was made anew before, and its checkpoint is to follow.
    owes_checkpoint: bool,
}

impl Counted {
    fn deviation(&self) -> f64 {
        if self.done == 0 { 0.0 } else { f64::from(self.missed) / f64::from(self.done) }
    }

    fn is_complete(&self) -> bool {
        self.plan.is_some() && self.steps.iter().all(|step| *step == Some(true))
    }

    /// Every step has succeeded, and the results do not depart from the plan so far that another one is due.
    fn is_done(&self) -> bool {
        self.is_complete() && self.deviation() <= 0.4
    }

    fn begins(&mut self, plan: v1::ModePlan, keeps: bool) {
        let before: BTreeMap<String, Option<bool>> = match &self.plan {
            Some(before) if keeps => {
                before.steps.iter().map(|step| step.id.clone()).zip(self.steps.iter().copied()).collect()
            }
            _ => BTreeMap::new(),
        };
        let was_done = |step: &v1::PlanStep| before.get(&step.id).copied().flatten().filter(|done| *done);
        self.steps = plan.steps.iter().map(was_done).collect();
        (self.done, self.missed, self.approved, self.known) = (0, 0, false, 0);
        self.plan = Some(plan);
    }
}

impl ModeModel {
    pub fn new(run: v1::ModeRun) -> Self {
        Self {
            run,
            chosen: ExecutionMode::Unspecified,
            mode: None,
            stage: Stage::Begins,
            now: Counted::default(),
            kept: BTreeMap::new(),
            absent: BTreeSet::new(),
            revisions: 0,
            asked: Vec::new(),
            memory: Memory::default(),
            owes_checkpoint: false,
            completed: false,
            browser: ModeBrowser::default(),
        }
    }

    /// The wave and the call that are at work.
    pub(super) fn called(&self) -> Option<(u32, &v1::ToolCall)> {
        match &self.stage {
            Stage::Called(wave, call, _) => Some((*wave, call)),
            _ => None,
        }
    }

    /// Actions that were done.
    pub(super) fn actions(&self) -> u32 {
        self.now.step
    }

    /// A fork belongs to no session, and remembers nothing.
    pub(super) fn leaves_session(&mut self) {
        self.run.session = None;
        self.memory = Memory::default();
    }

    fn tool(&self, name: &str) -> Option<&v1::ModeTool> {
        self.run.tools.iter().find(|tool| tool.name == name)
    }

    /// Why the plan is to be made anew, by the order of the contract.
    fn reasons(&self) -> Vec<i32> {
        let Some(plan) = self.now.plan.as_ref().filter(|_| self.mode == Some(ExecutionMode::Planner)) else {
            return Vec::new();
        };
        let stands = |id: &str| {
            let place = plan.steps.iter().position(|step| step.id == id);
            place.and_then(|place| self.now.steps.get(place).copied().flatten())
        };
        let open = || plan.steps.iter().zip(&self.now.steps).filter(|(_, stands)| **stands != Some(true));
        let needs_failed = |step: &v1::PlanStep| {
            let mut wanted: Vec<&str> = step.depends_on.iter().map(String::as_str).collect();
            let mut met = Vec::new();
            while let Some(id) = wanted.pop() {
                if stands(id) == Some(false) {
                    return true;
                }
                if stands(id).is_none() && !met.contains(&id) {
                    met.push(id);
                    let step = plan.steps.iter().find(|step| step.id == id);
                    wanted.extend(step.into_iter().flat_map(|step| &step.depends_on).map(String::as_str));
                }
            }
            false
        };
        let found = [
            (self.now.deviation() > 0.4, ReplanReason::Deviation),
            (self.now.errors >= 3, ReplanReason::Errors),
            (open().any(|(step, _)| self.is_missing(&step.tool)), ReplanReason::ResourcesUnavailable),
            (
                open().any(|(step, stands)| stands.is_none() && needs_failed(step)),
                ReplanReason::InvalidatedSteps,
            ),
        ];
        found.into_iter().filter(|(holds, _)| *holds).map(|(_, reason)| reason.into()).collect()
    }

    /// Nobody could do a step with it.
    fn is_missing(&self, tool: &str) -> bool {
        self.tool(tool).is_none() || self.absent.contains(tool)
    }

    /// The results keep to the approved plan, or a person knows that they do not.
    fn keeps_to_plan(&self) -> bool {
        self.now.deviation() <= self.run.autonomy_level.unwrap_or(0.3) || self.now.missed <= self.now.known
    }

    /// A person decides, or the run is at its end, before the planner is asked again.
    fn may_ask(&self) -> bool {
        let steps = self.run.max_steps.unwrap_or(50);
        let rules = match self.mode {
            Some(ExecutionMode::Simple) => self.now.errors < 3 && !self.now.ended,
            Some(ExecutionMode::Planner) => !self.now.is_done(),
            Some(ExecutionMode::Supervised) if self.now.approved => {
                !self.now.is_complete() && self.keeps_to_plan()
            }
            Some(ExecutionMode::Supervised) => true,
            Some(ExecutionMode::Unspecified) | None => false,
        };
        rules && self.now.step < steps && !self.owes_checkpoint
    }

    /// Why a run that has ended by itself has not succeeded.
    fn has_failed(&self, planner_failed: bool) -> bool {
        let is_simple = self.mode == Some(ExecutionMode::Simple);
        let by_rule = is_simple && (self.now.errors >= 3 || self.now.ended && self.now.last_failed)
            || self.now.step >= self.run.max_steps.unwrap_or(50);
        by_rule || planner_failed
    }

    fn needs_approval(&self, call: &v1::ToolCall, approved: bool) -> bool {
        let demanded = self.tool(&call.tool).is_some_and(|tool| tool.needs_approval);
        let planned = call.step_index.and_then(|place| self.now.plan.as_ref()?.steps.get(place as usize));
        let as_planned = planned.is_some_and(|step| step.parameters == call.parameters);
        demanded
            && !approved
            && !(self.mode == Some(ExecutionMode::Supervised) && self.now.approved && as_planned)
    }
}

impl RunModel {
    fn mode(&mut self) -> Result<&mut ModeModel, Violation> {
        let text = self.at("something of an execution in another run");
        match &mut self.kind {
            Kind::Mode(mode) => Ok(mode),
            _ => Invariant::ModesKeepTheirRules.broken(text),
        }
    }

    /// A person has let the run go on: who is there is looked at anew.
    pub(super) fn mode_resumed(&mut self) {
        if let Kind::Mode(mode) = &mut self.kind {
            mode.absent.clear();
        }
    }

    pub fn is_mode(&self) -> bool {
        matches!(self.kind, Kind::Mode(_))
    }

    pub(super) fn mode_outcome(&self) -> Option<v1::RunOutcome> {
        let Kind::Mode(mode) = &self.kind else { return None };
        let failed = |wave: u32| {
            let task = self.task(TaskRef { wave, task: 0 })?;
            Some(task.result.as_ref()?.status != v1::ResultStatus::Success as i32)
        };
        let planner_failed = matches!(mode.stage, Stage::Asked(wave) if failed(wave) == Some(true));
        let rejected = mode.stage == Stage::Rejected;
        match () {
            () if mode.completed => Some(v1::RunOutcome::Succeeded),
            () if rejected => Some(v1::RunOutcome::Cancelled),
            // What cannot be computed ends it as well: then it neither asks nor looks.
            () if mode.has_failed(planner_failed) || self.could_not_be_computed() => {
                Some(v1::RunOutcome::Failed)
            }
            () => None,
        }
    }

    /// A query was open, whose answer may have been that there is none.
    fn could_not_be_computed(&self) -> bool {
        let Kind::Mode(mode) = &self.kind else { return false };
        match mode.stage {
            Stage::Plans => mode.may_ask(),
            Stage::Called(wave, ..) => {
                self.task(TaskRef { wave, task: 0 }).is_some_and(|task| task.step == Step::Settled)
            }
            _ => false,
        }
    }

    /// The run has its turn in a session that has chosen this mode.
    pub fn has_its_turn_in(&mut self, chosen: ExecutionMode) {
        if let Kind::Mode(mode) = &mut self.kind {
            mode.chosen = chosen;
        }
    }

    pub fn had_its_turn_in(&self) -> ExecutionMode {
        match &self.kind {
            Kind::Mode(mode) => mode.chosen,
            _ => ExecutionMode::Unspecified,
        }
    }
}
