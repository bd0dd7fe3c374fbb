//! What each event of an execution is held against, and what it changes.

use std::collections::BTreeSet;

use capataz_contracts::browser::{BROWSER_AGENT, TOOL_PREFIX};
use capataz_contracts::v1::{self, ExecutionMode, PlannerDecision, ReplanReason, event::Body};
use capataz_engine::{CHILD_AGENT, TaskRef};

use super::Stage;
use crate::invariant::{Invariant, Violation};
use crate::model::log::{RunModel, Step};
use crate::modes::{CONTAINED, PLAN_RUN, TO_FAIL};

impl RunModel {
    pub(in crate::model) fn execution(&mut self, body: Body) -> Result<(), Violation> {
        self.remember(&body)?;
        let text = self.at(format!("{body:?}"));
        let held = self.is_held() || self.ending.is_some();
        let seq = self.seq();
        let rule =
            |holds: bool, why: &str| Invariant::ModesKeepTheirRules.check(holds, || format!("{text}: {why}"));
        match body {
            Body::ModeBegun(event) => {
                let mode = self.mode()?;
                let named = mode.run.mode();
                let expected = match (named, mode.chosen) {
                    (ExecutionMode::Unspecified, ExecutionMode::Unspecified) => ExecutionMode::Simple,
                    (ExecutionMode::Unspecified, chosen) => chosen,
                    (named, _) => named,
                };
                rule(mode.stage == Stage::Begins && event.mode() == expected, "another mode, or twice")?;
                (mode.mode, mode.stage) = (Some(expected), Stage::Plans);
            }
            Body::PlannerAsked(event) => {
                let wave = event.tasks.unwrap_or_default();
                let is_next = event.wave as usize == self.waves.len();
                let mode = self.mode()?;
                let asks = wave.tasks.iter().all(|task| task.agent == mode.run.planner);
                let reasons = mode.reasons();
                rule(!held && is_next && asks && mode.stage == Stage::Plans, "nobody is to be asked now")?;
                rule(mode.may_ask(), "a rule comes before")?;
                rule(event.reasons == reasons, &format!("expected the reasons {reasons:?}"))?;
                let first = mode.now.plan.is_none() && mode.mode == Some(ExecutionMode::Planner);
                let proposes = mode.mode == Some(ExecutionMode::Supervised) && !mode.now.approved;
                let wanted = first || proposes || !reasons.is_empty();
                rule(event.plan_wanted == wanted, "a plan is wanted, or not")?;
                (mode.stage, mode.asked) = (Stage::Asked(event.wave), reasons);
                self.open_wave(wave);
            }
            Body::PlannerAnswered(event) => {
                let mode = self.mode()?;
                rule(mode.stage == Stage::Asked(event.wave), "nobody was asked")?;
                let decision = event.decision();
                if let Some(plan) = event.plan {
                    mode.revisions += 1;
                    rule(plan.revision == mode.revisions, "another revision")?;
                    let is_another = mode.now.plan.is_some() && mode.mode == Some(ExecutionMode::Planner);
                    let by_planner = vec![i32::from(ReplanReason::Planner)];
                    let expected = match (is_another, mode.asked.is_empty()) {
                        (false, _) => Vec::new(),
                        (true, true) => by_planner,
                        (true, false) => mode.asked.clone(),
                    };
                    rule(event.reasons == expected, &format!("expected the reasons {expected:?}"))?;
                    mode.now.begins(plan, event.keeps_done);
                    if is_another {
                        mode.now.replans += 1;
                        mode.now.errors = 0;
                        (mode.owes_checkpoint, mode.now.owes_checkpoint) = (true, true);
                    }
                }
                let known = event.call.as_ref().is_none_or(|call| mode.tool(&call.tool).is_some());
                rule(known, "a tool that is not there")?;
                let call = event.call.map(|call| (call, event.goes_on));
                mode.stage = match (decision, call) {
                    (PlannerDecision::Propose, _) => Stage::Proposed,
                    (PlannerDecision::Pause, _) => Stage::Plans,
                    (PlannerDecision::Escalate | PlannerDecision::Complete, then) => Stage::Escalated(then),
                    (_, Some((call, goes_on))) => Stage::Wanted(call, false, goes_on),
                    (_, None) => return rule(false, "there is no call"),
                };
            }
            Body::PlanEdited(event) => {
                let answered = self.answered_with("edit");
                let mode = self.mode()?;
                mode.revisions += 1;
                let plan = event.plan.unwrap_or_default();
                rule(answered && mode.stage == Stage::Proposed, "nobody has edited it")?;
                rule(plan.revision == mode.revisions, "another revision")?;
                mode.now.begins(plan, true);
            }
            Body::PlanApproved(event) => {
                let answered = self.answered_with("approve");
                let mode = self.mode()?;
                let is_newest = mode.now.plan.as_ref().is_some_and(|plan| plan.revision == event.revision);
                rule(answered && is_newest && mode.stage == Stage::Proposed, "nobody has approved it")?;
                mode.now.approved = true;
                mode.stage = Stage::Plans;
            }
            Body::PlanRejected(event) => {
                let answered = self.answered_with("reject");
                let mode = self.mode()?;
                let is_newest = mode.now.plan.as_ref().is_some_and(|plan| plan.revision == event.revision);
                rule(answered && is_newest && mode.stage == Stage::Proposed, "nobody has rejected it")?;
                mode.stage = Stage::Rejected;
            }
            Body::ToolApproved(event) => {
                let answered = self.answered_with("approve");
                let mode = self.mode()?;
                match (&mut mode.stage, event.call) {
                    (Stage::Wanted(call, approved, _), Some(of)) if answered && *call == of => {
                        *approved = true
                    }
                    _ => return rule(false, "nobody has approved it"),
                }
            }
            Body::ToolCalled(event) => {
                let wave = event.tasks.unwrap_or_default();
                let is_next = event.wave as usize == self.waves.len();
                let mode = self.mode()?;
                let Stage::Wanted(call, approved, goes_on) = mode.stage.clone() else {
                    return rule(false, "no call is wanted");
                };
                let served = match call.tool.as_str() {
                    tool if tool.starts_with(TOOL_PREFIX) => BROWSER_AGENT,
                    PLAN_RUN => CHILD_AGENT,
                    tool => tool,
                };
                let is_call = wave.tasks.iter().all(|task| task.agent == served);
                rule(!held && is_next && is_call, "another call, or not now")?;
                rule(!mode.needs_approval(&call, approved), "a person has to approve it")?;
                rule(!mode.owes_checkpoint, "a checkpoint comes before")?;
                let supervised = mode.mode == Some(ExecutionMode::Supervised);
                rule(!supervised || mode.now.approved, "the plan is not approved")?;
                let undoable = mode.tool(&call.tool).is_some_and(|tool| tool.undoable);
                rule(event.irreversible != undoable, "it can be undone, or not")?;
                if !undoable {
                    mode.kept.values_mut().for_each(|(.., may)| *may = false);
                }
                rule(!mode.absent.contains(&call.tool), "nobody serves the tool")?;
                rule(
                    mode.now.replans.saturating_sub(mode.now.allowed) <= 10,
                    "a person is asked after ten new plans",
                )?;
                mode.stage = Stage::Called(event.wave, call, goes_on);
                self.open_wave(wave);
            }
            Body::ToolObserved(event) => {
                let task = event.wave.and_then(|wave| self.task(TaskRef { wave, task: 0 }));
                // What a person says that it has given back is another text.
                let vouched = task.is_some_and(|task| task.vouched);
                let status = task.and_then(|task| task.result.as_ref()).map(|result| result.status);
                let succeeded = status == Some(v1::ResultStatus::Success as i32);
                let rejected = event.wave.is_none() && self.answered_with("reject");
                let mode = self.mode()?;
                let missed = event.wave.is_none() && mode.absent.contains(&event.tool);
                let rejected = rejected && !missed;
                let (call, goes_on) = match &mode.stage {
                    Stage::Called(wave, call, goes_on) if event.wave == Some(*wave) && status.is_some() => {
                        (call.clone(), *goes_on)
                    }
                    Stage::Wanted(call, _, goes_on) if rejected => (call.clone(), *goes_on),
                    Stage::Wanted(call, _, goes_on) if missed && call.tool == event.tool => {
                        (call.clone(), *goes_on)
                    }
                    _ => return rule(false, "nothing was called"),
                };
                rule(
                    event.error.is_none() == (succeeded && !rejected && !missed),
                    "it failed, or it did not",
                )?;
                rule(event.step == mode.now.step + 1, "actions are counted")?;
                rule(
                    mode.now.replans.saturating_sub(mode.now.allowed) <= 10,
                    "a person is asked after ten new plans",
                )?;
                let planned = call.step_index.and_then(|place| {
                    Some((
                        place as usize,
                        mode.now.plan.as_ref()?.steps.get(place as usize)?.expected.clone(),
                    ))
                });
                // Everything that a tool of this world gives back contains this word, and no other.
                let expected = planned.as_ref().map_or(CONTAINED, |(_, expected)| expected.as_str());
                let as_expected = match expected.contains(TO_FAIL) {
                    // A tool that a person has rejected has not failed, nor has one that was not reached or not waited for.
                    true => event.wave.is_some() && event.error.as_ref().is_some_and(is_of_the_tool),
                    false => event.error.is_none() && expected.contains(CONTAINED),
                };
                // What the run of a plan gives back depends on how its tasks went.
                let unknown = vouched || call.tool == PLAN_RUN;
                rule(unknown || event.as_expected == as_expected, "it is as expected, or not")?;
                mode.now.step = event.step;
                // What was to fail, and has, went as planned.
                let failed = event.error.is_some() && !event.as_expected;
                mode.now.last_failed = event.error.is_some();
                mode.now.erred = failed;
                mode.now.errors = if failed { mode.now.errors + 1 } else { 0 };
                if let Some((place, _)) = planned {
                    // A call that was not made is no step that was done, but a refused one departs from an approved plan.
                    let counts = event.wave.is_some() || mode.mode == Some(ExecutionMode::Supervised);
                    mode.now.done += u32::from(counts);
                    mode.now.missed += u32::from(counts && !event.as_expected);
                    if let Some(step) = mode.now.steps.get_mut(place) {
                        *step = Some(!failed);
                    }
                }
                mode.now.ended = mode.mode == Some(ExecutionMode::Simple) && !goes_on;
                mode.stage = Stage::Plans;
            }
            Body::ToolsMissed(event) => {
                let mode = self.mode()?;
                let tools: BTreeSet<String> = event.tools.iter().cloned().collect();
                let planned = mode.mode == Some(ExecutionMode::Planner) && mode.stage == Stage::Plans;
                let known = tools.iter().all(|tool| mode.tool(tool).is_some());
                rule(!held && planned && known && tools != mode.absent, "no other tools are missed")?;
                mode.absent = tools;
            }
            Body::EscalationAnswered(event) => {
                let mode = self.mode()?;
                rule((event.deviation - mode.now.deviation()).abs() < 1e-9, "another deviation")?;
                mode.now.known = mode.now.missed;
                mode.now.allowed = mode.now.replans;
                mode.absent.clear();
                mode.stage = match std::mem::take(&mut mode.stage) {
                    Stage::Escalated(Some((call, goes_on))) => Stage::Wanted(call, false, goes_on),
                    Stage::Wanted(call, approved, goes_on) => Stage::Wanted(call, approved, goes_on),
                    Stage::Escalated(None) | Stage::Plans | Stage::Asked(_) => Stage::Plans,
                    _ => return rule(false, "nobody was asked"),
                };
            }
            Body::ModeCheckpointed(event) => {
                self.request(event.request_id.clone())?;
                let mode = self.mode()?;
                rule(mode.mode.is_some(), "it has not begun")?;
                (mode.owes_checkpoint, mode.now.owes_checkpoint) = (false, false);
                // What cannot be undone is at work: to go back to this moment would be to do it twice.
                let at_work = match &mode.stage {
                    Stage::Called(_, call, _) => mode.tool(&call.tool),
                    _ => None,
                };
                let may = at_work.is_none_or(|tool| tool.undoable);
                let kept = (seq, mode.now.clone(), may);
                rule(mode.kept.insert(event.checkpoint_id, kept).is_none(), "another one has its name")?;
            }
            Body::ModeRolledBack(event) => {
                let settled =
                    self.waves.iter().flat_map(|wave| &wave.tasks).all(|task| task.step == Step::Settled);
                let live = self.leases.values().any(|lease| lease.end.is_none());
                Invariant::RollbackEndsWork
                    .check(settled && !live, || format!("{text} with work that goes on"))?;
                self.request(event.request_id.clone())?;
                let mode = self.mode()?;
                let Some((made, then, may)) = mode.kept.get(&event.checkpoint_id).cloned() else {
                    return rule(false, "there is no such checkpoint");
                };
                rule(may && event.to_seq == made, "it cannot go back there")?;
                mode.kept.retain(|_, (seq, ..)| *seq <= made);
                mode.owes_checkpoint = then.owes_checkpoint;
                let proposes =
                    mode.mode == Some(ExecutionMode::Supervised) && then.plan.is_some() && !then.approved;
                mode.stage = if proposes { Stage::Proposed } else { Stage::Plans };
                mode.now = then;
            }
            Body::ModeCompleted(event) => {
                let said_so = self.answered_with("complete");
                let mode = self.mode()?;
                rule(
                    event.remembered.is_some() == mode.now.is_complete(),
                    "a plan that was done is a pattern",
                )?;
                let by_rule = match mode.mode {
                    Some(ExecutionMode::Simple) => mode.now.ended && !mode.now.last_failed,
                    Some(ExecutionMode::Planner) => mode.now.is_done(),
                    _ => mode.now.is_complete() && mode.keeps_to_plan(),
                };
                let by_person = said_so && matches!(mode.stage, Stage::Escalated(_));
                // A person may say so while the run is held.
                rule(!held && by_rule && mode.stage == Stage::Plans || by_person, "it is not done")?;
                mode.completed = true;
            }
            other => return Invariant::GaplessSeq.broken(self.at(format!("{other:?} in a run"))),
        }
        Ok(())
    }

    /// Whether somebody has answered a question so; the newest event that names a question is its answer.
    fn answered_with(&self, answer: &str) -> bool {
        self.questions.values().any(|question| question.answer.as_deref() == Some(answer))
    }
}

/// The failure is what the tool has said, whatever was tried and concluded after it.
fn is_of_the_tool(error: &v1::Error) -> bool {
    let concluded = ["RETRY_EXHAUSTED", "NON_RETRYABLE_ERROR", "TOTAL_TIMEOUT_EXCEEDED"];
    match &error.cause {
        Some(cause) if concluded.contains(&error.code.as_str()) => is_of_the_tool(cause),
        _ => ![
            "TASK_TIMEOUT",
            "TIMEOUT",
            "TOTAL_TIMEOUT_EXCEEDED",
            "SCHEDULE_TO_START_TIMEOUT",
            "WORKER_LOST",
            "OUTCOME_UNKNOWN",
            "TASK_CANCELLED",
            "BROWSER_LOST",
            "EVIDENCE_FAILED",
            "INVALID_OUTPUT",
            "OUTPUT_TOO_LARGE",
            "INPUT_TOO_LARGE",
            "INPUT_UNRESOLVED",
            "RUN_LIMIT_EXCEEDED",
        ]
        .contains(&error.code.as_str()),
    }
}
