//! What the state of an execution has beside its waves: each call of the planner or of a tool is a wave. Part of the fold.

use std::collections::BTreeSet;

use capataz_contracts::browser::{BROWSER_AGENT, NAVIGATE_TOOL};
use capataz_contracts::v1::{self, PlannerDecision, StepStatus, event::Body};

use crate::fold::bytes;
use crate::fold::digest;
use crate::fold::state::{Moment, Wall};
use crate::machine::Applied;
use crate::machine::own_browser::OwnBrowser;
use crate::planted::{self, Fault};
use crate::snapshot::as_bytes;

/// The state that only runs in an execution mode have.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct ModeState {
    /// As it was accepted, with every default filled in.
    #[serde(with = "as_bytes::one")]
    pub(crate) run: v1::ModeRun,
    /// The mode, and the contracts of the planner; once the run has its turn.
    #[serde(with = "as_bytes::option")]
    pub(super) begun: Option<v1::ModeBegun>,
    pub(super) stage: Stage,
    /// What a checkpoint keeps, and a rollback brings back.
    pub(super) execution: Execution,
    pub(super) checkpoints: Vec<Kept>,
    /// Checkpoints that were made, revisions of the plan, questions of planners: their numbers are given once.
    pub(super) made: u32,
    pub(super) revisions: u32,
    pub(super) escalations: u32,
    /// What was recalled for the newest prompt.
    #[serde(with = "as_bytes::option")]
    pub(super) recalled: Option<v1::Recalled>,
    /// The newest prompt has to be answered with a plan.
    pub(super) plan_wanted: bool,
    /// Why the plan is made anew, as the newest prompt says.
    pub(super) reasons: Vec<i32>,
    /// Events of its own so far. It numbers queries, so that what was asked before one of them is stale after it.
    pub(super) decisions: u64,
    /// What was done, whatever was gone back on since; of a fork, what it has done itself.
    #[serde(with = "as_bytes::one")]
    pub(super) metrics: v1::ExecutionMetrics,
    /// The run's own browser.
    pub(super) browser: OwnBrowser,
    /// A host was given something to do in it, so that it has to be told of the run's end.
    pub(super) browser_used: bool,
    /// The page was reached by its address alone, and nothing was sent to it since: it may be loaded again.
    pub(super) shows_again: bool,
    /// Tools that nobody served when the newest prompt was made.
    pub(super) absent: BTreeSet<String>,
}

/// What the run waits for, or does next.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) enum Stage {
    /// Its turn has not come.
    #[default]
    Begins,
    /// A prompt is to be made, unless a rule says otherwise.
    Plans,
    /// The planner is asked.
    Asked { wave: u32 },
    /// A person decides about the plan.
    Proposed,
    /// A person has rejected the plan.
    Rejected,
    /// A tool is to be called.
    Wanted(Call),
    /// A tool is at work.
    Called { wave: u32, call: Call },
    /// A person is asked on behalf of the planner.
    Escalated(Escalated),
    /// The query is done.
    Completed { wave: Option<u32> },
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) struct Call {
    #[serde(with = "as_bytes::one")]
    pub(super) call: v1::ToolCall,
    /// A person has approved this very call.
    pub(super) approved: bool,
    /// `continue` of the planner's answer.
    pub(super) goes_on: bool,
}

/// What a person is asked on behalf of the planner.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) struct Escalated {
    #[serde(with = "as_bytes::one")]
    pub(super) escalation: v1::Escalation,
    /// The planner says that the plan is done.
    pub(super) completes: bool,
    /// What is done where the person lets it be done.
    pub(super) then: Option<Call>,
}

/// The state of an execution (seed 004): what a rollback brings back.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) struct Execution {
    /// Actions that were done.
    pub(super) step: u32,
    /// Errors in a row.
    pub(super) errors: u32,
    pub(super) last: Option<Outcome>,
    #[serde(with = "as_bytes::option")]
    pub(super) plan: Option<v1::ModePlan>,
    /// Where the steps of the plan stand: values of [`StepStatus`].
    pub(super) steps: Vec<i32>,
    /// A person has approved this revision.
    pub(super) approved: bool,
    /// Steps that were done under this revision, and the places of those that miss what was expected.
    pub(super) done: u32,
    pub(super) missed: Vec<u32>,
    /// Steps before which a checkpoint was made under this revision.
    pub(super) marked: Vec<u32>,
    /// A checkpoint is due, for this reason.
    pub(super) checkpoint_due: Option<String>,
    /// How often the plan was made anew, and how often it may be before a person is asked.
    pub(super) replans: u32,
    pub(super) replans_allowed: u32,
    /// How many of those that miss a person knows of.
    pub(super) known_misses: usize,
    /// What people were asked, and what they have answered.
    pub(super) asked: Vec<String>,
    /// Number of the event that has made the plan.
    pub(super) planned_at: u64,
    /// `simple`: the planner has said that nothing follows.
    pub(super) ended: bool,
}

/// What an action has come to.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) struct Outcome {
    pub(super) tool: String,
    /// Its wave has what it gave back.
    pub(super) wave: Option<u32>,
    pub(super) step_index: Option<u32>,
    #[serde(with = "as_bytes::option")]
    pub(super) error: Option<v1::Error>,
    /// It has an error, and was not to have one.
    pub(super) failed: bool,
    pub(super) duration_ms: i64,
}

/// A checkpoint.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) struct Kept {
    pub(super) id: String,
    pub(super) at: Wall,
    pub(super) reason: String,
    /// Number of the event that made it.
    pub(super) seq: u64,
    pub(super) execution: Execution,
    /// The first tool called since then whose effect cannot be undone.
    pub(super) irreversible: Option<String>,
}

/// Checkpoints that are kept, and the bytes of their states: the oldest go first.
const CHECKPOINTS: usize = 50;
const CHECKPOINT_BYTES: u64 = 64 * 1024 * 1024;
/// Questions and answers that a prompt tells; the newest.
const ASKED: usize = 20;

impl Execution {
    fn bytes(&self) -> u64 {
        let lists = (self.steps.len() + self.missed.len() + self.marked.len()) as u64 * bytes::ENTRY;
        let last = self.last.as_ref().map_or(0, |last| {
            bytes::text(&last.tool) + bytes::optional(last.error.as_ref()) + 2 * bytes::ENTRY
        });
        let parts = [
            8 * bytes::ENTRY,
            lists,
            last,
            bytes::optional(self.plan.as_ref()),
            self.checkpoint_due.as_deref().map_or(0, bytes::text),
            self.asked.iter().map(|asked| bytes::text(asked)).sum(),
        ];
        parts.iter().sum()
    }

    /// The plan begins, with what of it was done before.
    pub(super) fn begin_plan(&mut self, plan: v1::ModePlan, keeps: bool, seq: u64) {
        let done: Vec<(&str, i32)> = match &self.plan {
            Some(before) if keeps => {
                before.steps.iter().map(|step| step.id.as_str()).zip(self.steps.iter().copied()).collect()
            }
            _ => Vec::new(),
        };
        let succeeded = |id: &str| {
            done.iter().any(|(known, status)| *known == id && *status == StepStatus::Succeeded as i32)
        };
        let status = |step: &v1::PlanStep| match succeeded(&step.id) {
            true => StepStatus::Succeeded.into(),
            false => StepStatus::Pending.into(),
        };
        self.steps = plan.steps.iter().map(status).collect();
        (self.done, self.approved, self.known_misses) = (0, false, 0);
        self.missed.clear();
        self.marked.clear();
        self.planned_at = seq;
        self.plan = Some(plan);
    }

    fn set(&mut self, step: Option<u32>, status: StepStatus) {
        if let Some(place) = step.and_then(|step| self.steps.get_mut(step as usize)) {
            *place = status.into();
        }
    }
}

impl Call {
    fn bytes(&self) -> u64 {
        bytes::message(&self.call) + bytes::ENTRY
    }
}

impl Stage {
    fn bytes(&self) -> u64 {
        match self {
            Self::Wanted(call) | Self::Called { call, .. } => call.bytes(),
            Self::Escalated(escalated) => {
                bytes::message(&escalated.escalation) + escalated.then.as_ref().map_or(0, Call::bytes)
            }
            Self::Begins
            | Self::Plans
            | Self::Asked { .. }
            | Self::Proposed
            | Self::Rejected
            | Self::Completed { .. } => 0,
        }
    }
}

impl Kept {
    fn bytes(&self) -> u64 {
        let texts = bytes::text(&self.id) + bytes::text(&self.reason);
        texts + self.irreversible.as_deref().map_or(0, bytes::text) + self.execution.bytes() + bytes::ENTRY
    }
}

impl ModeState {
    pub(crate) fn new(run: v1::ModeRun) -> Self {
        Self {
            run,
            begun: None,
            stage: Stage::Begins,
            execution: Execution::default(),
            checkpoints: Vec::new(),
            made: 0,
            revisions: 0,
            escalations: 0,
            recalled: None,
            plan_wanted: false,
            reasons: Vec::new(),
            decisions: 0,
            metrics: v1::ExecutionMetrics::default(),
            browser: OwnBrowser::None,
            browser_used: false,
            shows_again: false,
            absent: BTreeSet::new(),
        }
    }

    /// After how long of waiting for a person the browser is closed and its state kept. Milliseconds.
    pub(crate) fn keep_after(&self) -> Option<i64> {
        self.browser.keep_after()
    }

    pub(crate) fn bytes(&self) -> u64 {
        let checkpoints = self.checkpoints.iter().map(Kept::bytes).fold(0, u64::saturating_add);
        bytes::message(&self.run).saturating_add(checkpoints).saturating_add(self.changing_bytes())
    }

    /// Without the checkpoints, which are counted when they come and go.
    pub(crate) fn changing_bytes(&self) -> u64 {
        let begun = bytes::optional(self.begun.as_ref()) + bytes::optional(self.recalled.as_ref());
        let reasons = self.reasons.len() as u64 * bytes::ENTRY;
        let absent = self.absent.iter().map(|tool| bytes::text(tool)).fold(0, u64::saturating_add);
        begun + absent + reasons + self.stage.bytes() + self.execution.bytes() + self.browser.bytes()
    }

    /// The run is a fork of another one, and belongs to no session: what it keeps in memory from here on is its own.
    pub(crate) fn leave_session(&mut self, own: &str, at: Moment) {
        self.run.session = None;
        own.clone_into(&mut self.run.run_id);
        let begun_at_ms = self.begun.as_ref().map_or(0, |_| at.wall.0);
        self.metrics = v1::ExecutionMetrics { begun_at_ms, ..v1::ExecutionMetrics::default() };
    }

    /// Counts what an event has done.
    fn count(&mut self, body: &Body, at: Moment) {
        let counts = self.counts(body);
        let metrics = &mut self.metrics;
        let one_more = |count: &mut u32, more: bool| *count = count.saturating_add(u32::from(more));
        match body {
            Body::ModeBegun(_) => metrics.begun_at_ms = at.wall.0,
            Body::PlannerAsked(event) => {
                one_more(&mut metrics.recalls, true);
                if let Some(recalled) = &event.recalled {
                    one_more(&mut metrics.recalls_with_entries, !recalled.entries.is_empty());
                    let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
                    add(&mut metrics.recalled_tokens, recalled.tokens.into());
                    add(&mut metrics.source_tokens, recalled.source_tokens.into());
                    add(&mut metrics.digest_tokens, recalled.digest_tokens.into());
                    add(&mut metrics.digest_source_tokens, recalled.digest_source_tokens.into());
                    add(&mut metrics.recall_us, recalled.took_us);
                }
            }
            Body::PlannerAnswered(event) => {
                one_more(&mut metrics.replans, event.plan.is_some() && !event.reasons.is_empty());
            }
            Body::ToolObserved(event) => {
                one_more(&mut metrics.actions, true);
                one_more(&mut metrics.plan_steps, event.step_index.is_some() && counts);
            }
            _ => {}
        }
    }

    /// A call that was not made is no step that was done, and departs from no expectation. Where a person has approved the plan and
    /// refuses a call of it, the run departs from the plan.
    fn counts(&self, body: &Body) -> bool {
        let was_made = |event: &v1::ToolObserved| event.wave.is_some();
        matches!(body, Body::ToolObserved(event) if was_made(event) || self.mode() == v1::ExecutionMode::Supervised)
    }

    /// A person is asked: on behalf of the planner that is an escalation, whatever is answered (CONTRACTS §5, "Analytics").
    pub(crate) fn asked(&mut self, question: &v1::Question) -> Option<()> {
        if question.purpose() == v1::QuestionPurpose::Escalation {
            self.escalations = self.escalations.checked_add(1)?;
            self.metrics.escalations = self.metrics.escalations.saturating_add(1);
        }
        Some(())
    }

    /// A person has had their time: who was not there may be there now.
    pub(crate) fn resumed(&mut self) {
        self.absent.clear();
    }

    pub(crate) fn apply(&mut self, body: Body, at: Moment, seq: u64) -> Option<Applied> {
        let mut applied = Applied::default();
        let body = match self.apply_of_browser(body) {
            Some(body) => body,
            None => return Some(applied),
        };
        self.decisions = self.decisions.checked_add(1)?;
        self.count(&body, at);
        let counts = self.counts(&body);
        match body {
            Body::ModeBegun(event) => {
                self.begun = Some(event);
                self.stage = Stage::Plans;
            }
            Body::PlannerAsked(event) => {
                self.stage = Stage::Asked { wave: event.wave };
                (self.recalled, self.plan_wanted, self.reasons) =
                    (event.recalled, event.plan_wanted, event.reasons);
                applied.wave = Some((event.wave, event.tasks?));
            }
            Body::PlannerAnswered(event) => self.answered(event, seq)?,
            Body::PlanEdited(event) => {
                self.revisions = self.revisions.checked_add(1)?;
                self.execution.begin_plan(event.plan?, true, seq);
                self.stage = Stage::Proposed;
            }
            Body::PlanApproved(_) => {
                self.execution.approved = true;
                self.stage = Stage::Plans;
            }
            Body::PlanRejected(_) => {
                let Stage::Proposed = self.stage else { return None };
                self.stage = Stage::Rejected;
            }
            Body::ToolsMissed(event) => {
                let Stage::Plans = self.stage else { return None };
                self.absent = event.tools.into_iter().collect();
            }
            Body::ToolApproved(event) => {
                let Stage::Wanted(wanted) = &mut self.stage else { return None };
                wanted.call = event.call?;
                wanted.approved = true;
            }
            Body::ToolCalled(event) => {
                let Stage::Wanted(call) = std::mem::take(&mut self.stage) else { return None };
                if event.irreversible {
                    for kept in &mut self.checkpoints {
                        if kept.irreversible.is_none() {
                            kept.irreversible = Some(call.call.tool.clone());
                            applied.added_bytes += bytes::text(&call.call.tool);
                        }
                    }
                }
                self.execution.set(event.step_index, StepStatus::InProgress);
                let tasks = event.tasks.iter().flat_map(|wave| &wave.tasks);
                if tasks.into_iter().any(|task| task.agent == BROWSER_AGENT) {
                    self.browser_used = true;
                    self.shows_again &= !event.irreversible && call.call.tool != NAVIGATE_TOOL;
                }
                self.stage = Stage::Called { wave: event.wave, call };
                applied.wave = Some((event.wave, event.tasks?));
            }
            Body::ToolObserved(event) => self.observed(event, counts)?,
            Body::EscalationAnswered(event) => {
                self.stage = match std::mem::take(&mut self.stage) {
                    Stage::Escalated(asked) => asked.then.map_or(Stage::Plans, Stage::Wanted),
                    Stage::Wanted(call) => Stage::Wanted(call),
                    Stage::Plans | Stage::Asked { .. } => Stage::Plans,
                    Stage::Begins
                    | Stage::Proposed
                    | Stage::Rejected
                    | Stage::Called { .. }
                    | Stage::Completed { .. } => {
                        return None;
                    }
                };
                self.execution.asked.push(format!("{}: {}", event.reason, event.answer));
                let surplus = self.execution.asked.len().saturating_sub(ASKED);
                self.execution.asked.drain(..surplus);
                self.execution.known_misses = self.execution.missed.len();
                self.execution.replans_allowed = self.execution.replans;
                self.resumed();
            }
            Body::ModeCheckpointed(event) => {
                self.made = self.made.checked_add(1)?;
                self.execution.checkpoint_due = None;
                self.execution.marked.extend(event.step_index);
                let mut execution = self.execution.clone();
                // What is at work then is done again by whoever goes back.
                for status in
                    execution.steps.iter_mut().filter(|status| **status == StepStatus::InProgress as i32)
                {
                    *status = StepStatus::Pending.into();
                }
                // It is of a moment before that ends: whoever goes back there does it again.
                let irreversible = match &self.stage {
                    Stage::Called { call, .. } if !planted::is(Fault::CheckpointForgetsTheCall) => {
                        self.tool(&call.call.tool).filter(|tool| !tool.undoable).map(|tool| tool.name.clone())
                    }
                    _ => None,
                };
                let request = (event.request_id, digest::checkpoint(&event.reason));
                let kept = Kept {
                    id: event.checkpoint_id,
                    at: at.wall,
                    reason: event.reason,
                    seq,
                    execution,
                    irreversible,
                };
                applied.added_bytes += kept.bytes();
                self.checkpoints.push(kept);
                applied.removed_bytes += self.forget_oldest();
                applied.request = Some(request).filter(|(id, _)| !id.is_empty());
            }
            Body::ModeRolledBack(event) => {
                let place = self.checkpoints.iter().position(|kept| kept.id == event.checkpoint_id)?;
                for gone in self.checkpoints.drain(place.checked_add(1)?..) {
                    applied.removed_bytes += gone.bytes();
                }
                self.execution = self.checkpoints.get(place)?.execution.clone();
                self.stage = match (&self.execution.plan, self.mode()) {
                    (Some(_), v1::ExecutionMode::Supervised) if !self.execution.approved => Stage::Proposed,
                    _ => Stage::Plans,
                };
                (self.recalled, self.plan_wanted) = (None, false);
                self.reasons.clear();
                let digest = digest::rollback_execution(&event.checkpoint_id);
                applied.request = Some((event.request_id, digest)).filter(|(id, _)| !id.is_empty());
            }
            Body::ModeCompleted(event) => self.stage = Stage::Completed { wave: event.wave },
            _ => return None,
        }
        Some(applied)
    }

    /// What has become of the browser. No question to anybody depends on it. The event, where it is none of the browser's.
    fn apply_of_browser(&mut self, body: Body) -> Option<Body> {
        match body {
            Body::BrowserOpened(event) => self.browser.opened(event),
            Body::BrowserClosed(event) => self.browser.closed(event),
            Body::BrowserLost(event) => self.browser.lost(event),
            Body::ActionFinished(_) => {
                let navigated =
                    matches!(&self.stage, Stage::Called { call, .. } if call.call.tool == NAVIGATE_TOOL);
                self.shows_again |= navigated;
            }
            Body::ActionFailed(_) | Body::StageFinished(_) => {}
            other => return Some(other),
        }
        None
    }

    /// The oldest checkpoints go, while there are too many of them; the bytes that they had.
    fn forget_oldest(&mut self) -> u64 {
        let mut kept: u64 = self.checkpoints.iter().map(Kept::bytes).fold(0, u64::saturating_add);
        let mut removed = 0;
        while self.checkpoints.len() > CHECKPOINTS || (kept > CHECKPOINT_BYTES && self.checkpoints.len() > 1)
        {
            let bytes = self.checkpoints.remove(0).bytes();
            kept = kept.saturating_sub(bytes);
            removed += bytes;
        }
        removed
    }

    fn answered(&mut self, event: v1::PlannerAnswered, seq: u64) -> Option<()> {
        let decision = event.decision();
        if let Some(plan) = event.plan {
            self.revisions = self.revisions.checked_add(1)?;
            self.execution.begin_plan(plan, event.keeps_done, seq);
            if !event.reasons.is_empty() {
                self.execution.replans = self.execution.replans.checked_add(1)?;
                if !planted::is(Fault::ReplanKeepsErrors) {
                    self.execution.errors = 0;
                }
                self.execution.checkpoint_due = Some(REPLANNED.to_owned());
            }
        }
        let call = event.call.map(|call| Call { call, approved: false, goes_on: event.goes_on });
        self.stage = match (decision, call, event.escalation) {
            (PlannerDecision::Propose, ..) => Stage::Proposed,
            (PlannerDecision::Pause, ..) => Stage::Plans,
            (PlannerDecision::Escalate | PlannerDecision::Complete, then, Some(escalation)) => {
                let completes = decision == PlannerDecision::Complete;
                Stage::Escalated(Escalated { escalation, completes, then })
            }
            (_, Some(call), _) => Stage::Wanted(call),
            _ => return None,
        };
        Some(())
    }

    fn observed(&mut self, event: v1::ToolObserved, counts: bool) -> Option<()> {
        let call = match std::mem::take(&mut self.stage) {
            Stage::Called { call, .. } | Stage::Wanted(call) => call,
            _ => return None,
        };
        let is_simple = self.mode() == v1::ExecutionMode::Simple;
        let execution = &mut self.execution;
        // What was to fail, and has, went as planned.
        let failed = event.error.is_some() && !event.as_expected;
        execution.step = event.step;
        execution.errors = if failed { execution.errors.checked_add(1)? } else { 0 };
        if let Some(place) = event.step_index {
            if counts {
                execution.done = execution.done.checked_add(1)?;
                if !event.as_expected {
                    execution.missed.push(place);
                }
            }
            execution.set(Some(place), if failed { StepStatus::Failed } else { StepStatus::Succeeded });
        }
        execution.last = Some(Outcome {
            tool: event.tool,
            wave: event.wave,
            step_index: event.step_index,
            error: event.error,
            failed,
            duration_ms: event.duration_ms,
        });
        execution.ended = is_simple && !call.goes_on;
        self.stage = Stage::Plans;
        Some(())
    }

    /// The mode; unspecified until the run has its turn.
    pub(crate) fn mode(&self) -> v1::ExecutionMode {
        self.begun.as_ref().map_or(v1::ExecutionMode::Unspecified, v1::ModeBegun::mode)
    }
}

/// Why a checkpoint is made after a plan was made anew.
pub(super) const REPLANNED: &str = "the plan was made anew";
