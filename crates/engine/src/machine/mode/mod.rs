//! An execution: a query that a planner and tools work on, in one of three modes (seed 004). Each call of the planner and of a
//! tool is a wave of one task; what a prompt holds, and whether a result is what was expected, are answers to queries.

mod answer;
mod asking;
mod browser;
mod materialise;
mod memory;
mod prompt;
mod rules;
pub(crate) mod state;
mod view;

use capataz_contracts::browser::BROWSER_AGENT;
use capataz_contracts::json::JSON_MEDIA_TYPE;
use capataz_contracts::v1::{self, ExecutionMode, event::Body, payload::Data, run_result};
use capataz_policy::aggregation::{AggregationPolicy, ResultStatus};
use capataz_policy::codes;
use capataz_policy::lifecycle::{self, TaskState};
use capataz_policy::mode::{self, contract};
use capataz_policy::retry;

use super::correction;
use super::{Binding, Command, Kind, Meaning, Step, Verdict};
use crate::decide::{Refusal, not_a_session, refuse_with, schedule_to_start_error};
use crate::fold::digest;
use crate::fold::state::{Moment, Phase, RunState};
use crate::input::{Answer, Computed, QueryAnswer, TaskRef};
use crate::plan::CHILD_AGENT;
use crate::planted::{self, Fault};
use crate::query::{Observation, Query, QueryId};
use state::{Call, ModeState, Stage};

pub use materialise::{contracts_of, materialise};

/// Tools that every run may name and that no agent serves: each call of them is a run of its own.
pub const BUILT_IN_TOOLS: [&str; 3] = [answer::PLAN_RUN, answer::PIPELINE_RUN, answer::ROUTER_ASK];

/// What the planner is told of a tool that no agent of its name serves: one of [`BUILT_IN_TOOLS`], or one of the browser.
#[must_use]
pub fn built_in_tool(name: &str) -> Option<mode::browser::BuiltIn> {
    let (description, input_schema) = match name {
        answer::PLAN_RUN => (
            "Runs a plan: waves of tasks, each for an agent. The parameters are the plan.",
            r#"{"type":"object","required":["name","waves"],"properties":{"name":{"type":"string"},"waves":{"type":"array","minItems":1}}}"#,
        ),
        answer::PIPELINE_RUN => (
            "Runs a pipeline: phases whose outputs are judged, one after the other. The parameters are the pipeline.",
            r#"{"type":"object","required":["name","phases"],"properties":{"name":{"type":"string"},"phases":{"type":"array","minItems":1}}}"#,
        ),
        answer::ROUTER_ASK => (
            "Asks the spec that answers texts like this one, or the one that is named.",
            r#"{"type":"object","required":["text"],"additionalProperties":false,"properties":{"text":{"type":"string","minLength":1},"spec":{"type":"string","minLength":1}}}"#,
        ),
        _ => return mode::browser::tool(name),
    };
    let (description, input_schema) = (description.to_owned(), input_schema.to_owned());
    Some(mode::browser::BuiltIn { description, input_schema, undoable: false })
}

/// What an execution does next.
enum Next {
    /// Its turn has come, for it belongs to no session.
    Begin,
    /// It waits for its turn, for a task, or for a person.
    Wait,
    /// The next prompt is to be made.
    Compose,
    Ask(Box<v1::Question>),
    Checkpoint {
        reason: String,
        step_index: Option<u32>,
    },
    Call,
    /// What has come of it is known without that.
    Note(Box<Body>),
    /// What a tool gave back is to be looked at.
    Observe {
        wave: u32,
    },
    Complete,
    Finish {
        outcome: v1::RunOutcome,
        error: Option<Box<v1::Error>>,
    },
}

impl ModeState {
    fn query_id(&self) -> QueryId {
        QueryId(self.decisions)
    }

    fn what_next(&self, run: &RunState) -> Next {
        // Nothing is asked and nothing called until the user resumes the run.
        let held = run.paused;
        match &self.stage {
            Stage::Begins if self.run.session.is_some() => Next::Wait,
            Stage::Begins => Next::Begin,
            Stage::Plans if held => Next::Wait,
            Stage::Plans => self.plans(),
            Stage::Asked { wave } => self.after_planner(run, *wave),
            Stage::Proposed => match &self.execution.plan {
                Some(plan) => Next::Ask(Box::new(asking::plan(self, plan))),
                None => Next::Wait,
            },
            Stage::Wanted(_) if held => Next::Wait,
            Stage::Wanted(call) => self.wanted(call),
            Stage::Called { wave, .. } => match end_of(run, *wave) {
                Some(_) => Next::Observe { wave: *wave },
                None => Next::Wait,
            },
            Stage::Escalated(asked) => {
                Next::Ask(Box::new(asking::escalation(self, &asked.escalation, asked.completes)))
            }
            Stage::Rejected => Next::Finish { outcome: v1::RunOutcome::Cancelled, error: None },
            Stage::Completed { .. } => Next::Finish { outcome: v1::RunOutcome::Succeeded, error: None },
        }
    }

    /// What the rules say before the planner is asked again.
    fn plans(&self) -> Next {
        let execution = &self.execution;
        let fail =
            |error: v1::Error| Next::Finish { outcome: v1::RunOutcome::Failed, error: Some(Box::new(error)) };
        if let Some(reason) = execution.checkpoint_due.clone() {
            return Next::Checkpoint { reason, step_index: None };
        }
        let last = execution.last.as_ref().and_then(|last| last.error.as_ref());
        match self.mode() {
            ExecutionMode::Unspecified | ExecutionMode::Simple => {
                let limit = if planted::is(Fault::ErrorLimitNotKept) { u32::MAX } else { mode::MAX_ERRORS };
                if execution.errors >= limit {
                    return fail(too_many_errors(last));
                }
                if execution.ended {
                    return match last {
                        Some(error) => fail(error.clone()),
                        None => Next::Complete,
                    };
                }
            }
            // A plan whose results depart from it too far is not done, even if no step of it is left.
            ExecutionMode::Planner if execution.is_complete() && self.reasons().is_empty() => {
                return Next::Complete;
            }
            ExecutionMode::Planner => {}
            ExecutionMode::Supervised if execution.approved => {
                let deviation = execution.deviation();
                if deviation > self.autonomy() && execution.missed.len() > execution.known_misses {
                    let asked = v1::Escalation {
                        reason: format!(
                            "{deviation:.2} of the results miss what was expected, and {:.2} is allowed",
                            self.autonomy()
                        ),
                        question: "Is the plan to be worked on?".to_owned(),
                        options: Vec::new(),
                    };
                    return Next::Ask(Box::new(asking::escalation(self, &asked, false)));
                }
                if execution.is_complete() {
                    return Next::Complete;
                }
            }
            ExecutionMode::Supervised => {}
        }
        let most = self.run.max_steps.unwrap_or(mode::MAX_ACTIONS);
        if execution.step >= most {
            let message = format!("the run has done {most} actions, and may do no more");
            let error =
                v1::Error { cause: last.cloned().map(Box::new), ..codes::error(codes::STEP_LIMIT, message) };
            return fail(error);
        }
        Next::Compose
    }

    /// The planner has been asked: it works, has answered, or has failed.
    fn after_planner(&self, run: &RunState, wave: u32) -> Next {
        let Some(end) = end_of(run, wave) else { return Next::Wait };
        let error = end.error.clone().unwrap_or_else(|| {
            codes::error(codes::UNKNOWN_ERROR, "the planner has ended without an answer".to_owned())
        });
        if self.mode() == ExecutionMode::Supervised {
            let asked = v1::Escalation {
                reason: format!("the planner has failed: {}", retry::original(&error).message),
                question: "Is it to be asked again?".to_owned(),
                options: Vec::new(),
            };
            let question = asking::escalation(self, &asked, false);
            return Next::Ask(Box::new(v1::Question { error: Some(error), ..question }));
        }
        Next::Finish { outcome: v1::RunOutcome::Failed, error: Some(Box::new(error)) }
    }

    /// A tool is to be called: what comes before that.
    fn wanted(&self, call: &Call) -> Next {
        if self.replans_too_often() {
            let asked = v1::Escalation {
                reason: format!("the plan was made anew {} times", self.execution.replans),
                question: "Is it to be worked on?".to_owned(),
                options: Vec::new(),
            };
            return Next::Ask(Box::new(asking::escalation(self, &asked, false)));
        }
        if let Some(missed) = self.missed(call).filter(|_| !planted::is(Fault::AbsentToolCalled)) {
            return Next::Note(Box::new(missed));
        }
        if let Some(reason) = self.execution.checkpoint_due.clone() {
            return Next::Checkpoint { reason, step_index: None };
        }
        let named = self.execution.plan.as_ref().map_or(&[][..], |plan| plan.checkpoints.as_slice());
        if let Some(step) = call.call.step_index
            && named.contains(&step)
            && !self.execution.marked.contains(&step)
        {
            let reason = format!("before step {step}, as the plan says");
            return Next::Checkpoint { reason, step_index: Some(step) };
        }
        if asking::needs_approval(self, call) && !planted::is(Fault::ToolCalledUnapproved) {
            return Next::Ask(Box::new(asking::tool(call)));
        }
        Next::Call
    }

    /// The event by which the planner is asked.
    fn ask_planner(&self, run: &RunState, prompt: v1::Payload, recalled: v1::Recalled) -> Option<Body> {
        let wave = u32::try_from(run.waves.len()).ok()?;
        let task = v1::Task {
            name: format!("planner.{wave}"),
            agent: self.run.planner.clone(),
            input: Some(prompt),
            effect: Some(v1::Effect::AtLeastOnce.into()),
            timeouts: self.run.timeouts,
            retry: self.run.retry.clone(),
            ..v1::Task::default()
        };
        Some(Body::PlannerAsked(v1::PlannerAsked {
            wave,
            tasks: Some(wave_of("planner", task)),
            recalled: Some(recalled),
            plan_wanted: self.wants_plan(),
            reasons: self.reasons().into_iter().map(Into::into).collect(),
        }))
    }

    /// The event by which a tool is called.
    fn call_tool(&self, run: &RunState, call: &Call) -> Option<Body> {
        let wave = u32::try_from(run.waves.len()).ok()?;
        let tool = self.tool(&call.call.tool)?;
        let child = answer::child(&call.call);
        let (agent, input) = match &child {
            Some(_) => (CHILD_AGENT.to_owned(), None),
            None if browser::is_of_browser(&tool.name) => {
                (BROWSER_AGENT.to_owned(), Some(self.browser_task(call)?))
            }
            None => (tool.name.clone(), Some(answer::input(&call.call))),
        };
        let task = v1::Task {
            name: format!("{}.{wave}", tool.name),
            agent,
            input,
            effect: tool.effect,
            timeouts: tool.timeouts,
            retry: tool.retry.clone(),
            run: child.map(Box::new),
            ..v1::Task::default()
        };
        Some(Body::ToolCalled(v1::ToolCalled {
            wave,
            tasks: Some(wave_of(&tool.name, task)),
            step_index: call.call.step_index,
            irreversible: !tool.undoable,
        }))
    }

    fn observation(&self, run: &RunState, wave: u32) -> Option<Observation> {
        let Stage::Called { call, .. } = &self.stage else { return None };
        let end = end_of(run, wave)?;
        let step = call.call.step_index.and_then(|place| self.execution.plan_steps().get(place as usize));
        let failed = end.status != ResultStatus::Success;
        let error = failed.then(|| {
            end.error
                .clone()
                .unwrap_or_else(|| codes::error(codes::TASK_CANCELLED, "the call was cancelled".to_owned()))
        });
        Some(Observation {
            tool: call.call.tool.clone(),
            parameters: call.call.parameters.clone(),
            expected: step.map(|step| step.expected.clone()),
            output: end.output.clone().filter(|_| !failed),
            error: error.map(|error| retry::original(&error).clone()),
            most_tokens: mode::DIGEST_TOKENS.saturating_sub(memory::KIND_TOKENS),
        })
    }

    fn query(&self, run: &RunState) -> Option<Query> {
        match self.what_next(run) {
            Next::Compose => Some(Query::Prompt(Box::new(self.prompting(run)))),
            Next::Observe { wave } => Some(Query::Observe(Box::new(self.observation(run, wave)?))),
            _ => None,
        }
    }

    /// The event by which what a tool gave back counts.
    fn observe(&self, run: &RunState, wave: u32, seen: crate::input::Observing) -> Option<Body> {
        let observation = self.observation(run, wave)?;
        let Stage::Called { call, .. } = &self.stage else { return None };
        let activity = run.waves.get(wave as usize)?.tasks.first()?;
        let begun = activity.started.map_or(0, |started| started.wall.0);
        let ended = activity.end.as_ref()?.at.0;
        let failed = observation.error.is_some() && !seen.as_expected;
        let kind = memory::kind_of_result(self, failed, seen.as_expected);
        let useful = match (failed, &self.recalled) {
            (false, Some(recalled)) => recalled.entries.clone(),
            _ => Vec::new(),
        };
        let tool = call.call.tool.clone();
        Some(Body::ToolObserved(v1::ToolObserved {
            step: self.execution.step.checked_add(1)?,
            step_index: call.call.step_index,
            error: observation.error,
            as_expected: seen.as_expected,
            duration_ms: if begun > 0 { ended.saturating_sub(begun).max(0) } else { 0 },
            remembered: Some(memory::result(self, kind, &tool, seen.content, seen.digest)),
            useful,
            wave: Some(wave),
            tool,
        }))
    }

    fn begun(&self, chosen: ExecutionMode) -> v1::ModeBegun {
        let asked = self.run.mode();
        let chosen = if planted::is(Fault::ChosenModeIgnored) { ExecutionMode::Unspecified } else { chosen };
        let by_session = asked == ExecutionMode::Unspecified && chosen != ExecutionMode::Unspecified;
        let mode = match (asked, chosen) {
            (ExecutionMode::Unspecified, ExecutionMode::Unspecified) => ExecutionMode::Simple,
            (ExecutionMode::Unspecified, chosen) => chosen,
            (asked, _) => asked,
        };
        let tools = materialise::tools_of(&self.run);
        v1::ModeBegun {
            mode: mode.into(),
            chosen_by_session: by_session,
            answer_schema: contract::answer_schema(mode, &tools),
            plan_schema: contract::plan_schema(mode, &tools),
        }
    }

    /// The schema of the answer that is waited for.
    fn contract_schema(&self) -> Option<&String> {
        let begun = self.begun.as_ref()?;
        Some(if self.plan_wanted { &begun.plan_schema } else { &begun.answer_schema })
    }

    /// Which task is the planner's.
    fn is_planner(&self, task: TaskRef) -> bool {
        matches!(self.stage, Stage::Asked { wave } if wave == task.wave)
    }

    fn cannot_go_back(&self, run: &RunState) -> Option<Refusal> {
        if !matches!(run.phase, Phase::Running) {
            let message = "the run is about to end, and does not go back any more";
            return Some(refuse_with(codes::ROLLBACK_NOT_POSSIBLE, message));
        }
        if run.activities().any(|(_, activity)| activity.child().is_some()) {
            let message = "a tool is a run that is at work: wait until it has ended";
            return Some(refuse_with(codes::ROLLBACK_NOT_POSSIBLE, message));
        }
        None
    }

    fn roll_back(
        &self,
        run: &RunState,
        checkpoint_id: &str,
        request_id: String,
    ) -> Result<Vec<Step>, Refusal> {
        if let Some(refusal) = self.cannot_go_back(run) {
            return Err(refusal);
        }
        let kept = asking::checkpoint(self, checkpoint_id)?;
        let body = Body::ModeRolledBack(v1::ModeRolledBack {
            checkpoint_id: kept.id.clone(),
            to_seq: kept.seq,
            request_id,
        });
        let mut steps: Vec<Step> =
            run.open_questions().map(|asked| Step::Withdraw(asked.question.question_id.clone())).collect();
        let unsettled = run.activities().filter(|(_, activity)| activity.end.is_none());
        let ended: Vec<TaskRef> = unsettled.map(|(task, _)| task).collect();
        steps.push(Step::EndTasks(ended, v1::CancelReason::RolledBack));
        steps.push(Step::RecordRequest(body));
        Ok(steps)
    }
}

/// The event by which the query is done.
fn completed(state: &ModeState, _run: &RunState) -> Body {
    Body::ModeCompleted(v1::ModeCompleted {
        wave: state.execution.last.as_ref().and_then(|last| last.wave),
        remembered: memory::pattern(state),
    })
}

fn too_many_errors(last: Option<&v1::Error>) -> v1::Error {
    let said = last.map_or("", |error| error.message.as_str());
    let message = format!("{} actions in a row have failed: {}", mode::MAX_ERRORS, prompt::shortened(said));
    v1::Error { cause: last.cloned().map(Box::new), ..codes::error(codes::TOO_MANY_ERRORS, message) }
}

/// A wave of one task.
fn wave_of(name: &str, task: v1::Task) -> v1::Wave {
    v1::Wave {
        name: Some(name.to_owned()),
        tasks: vec![task],
        policy: Some(AggregationPolicy::of_one_task().to_proto()),
    }
}

/// How the one task of a wave has ended.
fn end_of(run: &RunState, wave: u32) -> Option<&crate::fold::activity::End> {
    run.waves.get(wave as usize)?.tasks.first()?.end.as_ref()
}

fn json_text(text: String) -> v1::Payload {
    v1::Payload { media_type: JSON_MEDIA_TYPE.to_owned(), data: Some(Data::Inline(text.into())) }
}

impl Kind for ModeState {
    fn run_kind(&self) -> v1::RunKind {
        v1::RunKind::Mode
    }

    fn next(&self, run: &RunState, _: Moment) -> Vec<Step> {
        let step = match self.what_next(run) {
            Next::Begin => Step::Record(Body::ModeBegun(self.begun(ExecutionMode::Unspecified))),
            Next::Wait => Step::Wait,
            Next::Compose => Step::Query(self.query_id(), Query::Prompt(Box::new(self.prompting(run)))),
            Next::Ask(question) => Step::Ask(question),
            Next::Checkpoint { reason, step_index } => {
                Step::Record(Body::ModeCheckpointed(v1::ModeCheckpointed {
                    checkpoint_id: self.next_checkpoint(),
                    reason,
                    request_id: String::new(),
                    step_index,
                }))
            }
            Next::Call => {
                let Stage::Wanted(call) = &self.stage else { return vec![Step::Wait] };
                match self.call_tool(run, call) {
                    Some(body) => Step::Begin(body),
                    // Its planner's answer was judged before: nobody waits for ever.
                    None => {
                        let message = format!("{:?} cannot be called so", call.call.tool);
                        let error = codes::error(codes::UNKNOWN_ERROR, message);
                        Step::Finish { outcome: v1::RunOutcome::Failed, error: Some(error) }
                    }
                }
            }
            Next::Note(body) => Step::Record(*body),
            Next::Observe { wave } => match self.observation(run, wave) {
                Some(observation) => Step::Query(self.query_id(), Query::Observe(Box::new(observation))),
                None => Step::Wait,
            },
            Next::Complete => Step::Record(completed(self, run)),
            Next::Finish { outcome, error } => Step::Finish { outcome, error: error.map(|error| *error) },
        };
        vec![step]
    }

    fn schemas_of<'a>(&'a self, run: &'a RunState, task: TaskRef) -> Vec<&'a String> {
        let declared = run.output_schema(task);
        if !self.is_planner(task) {
            return declared.into_iter().collect();
        }
        declared.into_iter().chain(self.contract_schema()).collect()
    }

    fn contract_of(&self, task: TaskRef) -> Option<&str> {
        self.contract_schema().filter(|_| self.is_planner(task)).map(String::as_str)
    }

    fn checks_of(&self, task: TaskRef) -> Option<Vec<v1::OutputCheck>> {
        self.is_planner(task).then(Vec::new)
    }

    fn completed(&self, run: &RunState, task: TaskRef, output: v1::Payload, now: Moment) -> Verdict {
        if !self.is_planner(task) {
            return self.browser_said(run, task, &output, now).unwrap_or_else(|| Verdict::done(Some(output)));
        }
        match self.read(task.wave, &output) {
            Ok(mut answered) => {
                answered.remembered = answered.plan.as_ref().map(|plan| memory::plan(self, plan, "proposed"));
                let pauses = answered.decision() == v1::PlannerDecision::Pause;
                let mut record = vec![Body::PlannerAnswered(answered)];
                if pauses {
                    record.push(Body::RunPaused(v1::RunPaused::default()));
                }
                Verdict { record, meaning: Meaning::Done(Some(output)) }
            }
            Err(violations) => correction::rejected(run, task, violations, Some(&output)),
        }
    }

    fn found_beside(&self, _: &RunState, task: TaskRef, output: &v1::Payload) -> Vec<v1::SchemaViolation> {
        match self.is_planner(task) {
            true => self.read(task.wave, output).err().unwrap_or_default(),
            false => Vec::new(),
        }
    }

    fn found_unread(&self, task: TaskRef, error: &v1::Error) -> Vec<v1::SchemaViolation> {
        if self.is_planner(task) { correction::of_unread(error) } else { Vec::new() }
    }

    fn rejected(
        &self,
        run: &RunState,
        task: TaskRef,
        violations: Vec<v1::SchemaViolation>,
        corrected: Option<v1::Payload>,
    ) -> Verdict {
        match self.is_planner(task) {
            true => correction::judged(run, task, violations, corrected),
            false => correction::failed(run, task, &violations),
        }
    }

    fn failed(&self, run: &RunState, task: TaskRef, error: v1::Error) -> Verdict {
        let found = self.found_unread(task, &error);
        if !found.is_empty() {
            return correction::rejected(run, task, found, None);
        }
        self.browser_failed(task, &error).unwrap_or_else(|| Verdict::attempt_failed(error))
    }

    fn attempt_too_late(&self, run: &RunState, task: TaskRef) -> v1::Error {
        retry::attempt_timeout_error(run.plan.retry_of(task).timeout_per_attempt().unwrap_or_default())
    }

    fn not_taken(&self, run: &RunState, task: TaskRef) -> (ResultStatus, v1::Error) {
        (ResultStatus::Timeout, schedule_to_start_error(run, task))
    }

    fn remembers(&self) -> bool {
        true
    }

    fn declares_tasks(&self) -> bool {
        false
    }

    /// A failure is a result, which the planner is told.
    fn aborts_when_critical(&self) -> bool {
        false
    }

    fn asks_when_high(&self) -> bool {
        false
    }

    fn why_taken_back(&self) -> &'static str {
        "its run went back to a checkpoint"
    }

    fn asks_at_deadline(&self) -> bool {
        false
    }

    fn outcome_may_be_given(&self) -> bool {
        true
    }

    fn may_run_again(&self, _: &RunState, _: TaskRef, name: &str) -> Result<(), Refusal> {
        let mut error = lifecycle::refused(TaskState::Failed, TaskState::Active);
        error.message = format!("{name:?} is a call of an execution: its planner decides what is done again");
        error.suggested_action = None;
        error.options = vec!["abort".to_owned()];
        Err(Refusal::Rule(Box::new(error)))
    }

    fn open_query(&self, run: &RunState) -> Option<(QueryId, Query)> {
        Some((self.query_id(), self.query(run)?))
    }

    fn open_query_id(&self, run: &RunState) -> Option<QueryId> {
        let is_open = matches!(self.what_next(run), Next::Compose | Next::Observe { .. });
        is_open.then(|| self.query_id())
    }

    fn answered(&self, run: &RunState, answer: QueryAnswer, _: Moment) -> Result<Vec<Step>, Refusal> {
        let QueryAnswer::Computed(computed) = answer else { return Err(Refusal::Outdated) };
        match (self.what_next(run), computed) {
            // The prompt would be about other tools than there are: it is made again.
            (Next::Compose, Computed::Prompt { absent, .. }) if !absent.iter().eq(&self.absent) => {
                Ok(vec![Step::Record(Body::ToolsMissed(v1::ToolsMissed { tools: absent }))])
            }
            (Next::Compose, Computed::Prompt { prompt, recalled, .. }) => {
                let body = self.ask_planner(run, prompt, recalled).ok_or(Refusal::Outdated)?;
                Ok(vec![Step::Begin(body)])
            }
            (Next::Observe { wave }, Computed::Observed(seen)) => {
                let body = self.observe(run, wave, seen).ok_or(Refusal::Outdated)?;
                Ok(vec![Step::Record(body)])
            }
            (Next::Compose | Next::Observe { .. }, Computed::Failed(error)) => {
                Ok(vec![Step::Finish { outcome: v1::RunOutcome::Failed, error: Some(error) }])
            }
            _ => Err(Refusal::Outdated),
        }
    }

    fn digest(&self, _: &RunState, _: &str, command: &Command) -> String {
        match command {
            Command::Checkpoint { reason } => digest::checkpoint(reason),
            Command::RollBackTo { checkpoint } => digest::rollback_execution(checkpoint),
            Command::Propose(_) | Command::CloseBrowser | Command::RollBack { .. } => String::new(),
        }
    }

    fn command(&self, run: &RunState, command: Command, request_id: String) -> Result<Vec<Step>, Refusal> {
        match command {
            Command::Checkpoint { reason } => {
                if self.begun.is_none() {
                    let message = "the run waits for its turn, and there is nothing to go back to";
                    return Err(refuse_with(codes::CHECKPOINT_NOT_FOUND, message));
                }
                Ok(vec![Step::RecordRequest(Body::ModeCheckpointed(v1::ModeCheckpointed {
                    checkpoint_id: self.next_checkpoint(),
                    reason,
                    request_id,
                    step_index: None,
                }))])
            }
            Command::RollBackTo { checkpoint } => self.roll_back(run, &checkpoint, request_id),
            command => Err(not_a_session(&command)),
        }
    }

    fn person_answered(
        &self,
        run: &RunState,
        question: &v1::Question,
        answer: &str,
        value: Option<&v1::Payload>,
    ) -> Result<Vec<Step>, Refusal> {
        asking::answered(self, run, question, answer, value)
    }

    fn judge_answer(&self, question: &v1::Question, answer: &Answer) -> Result<(), Refusal> {
        asking::judge_answer(self, question, answer)
    }

    fn overdue(&self) -> Vec<Step> {
        Vec::new()
    }

    fn turn_has_come(&self, _: &RunState, context: v1::SessionContext) -> Result<Vec<Step>, Refusal> {
        if !self.awaits_turn() {
            return Err(Refusal::Outdated);
        }
        Ok(vec![Step::Record(Body::ModeBegun(self.begun(context.chosen_mode())))])
    }

    fn session(&self) -> Option<&str> {
        self.run.session.as_deref()
    }

    fn awaits_turn(&self) -> bool {
        self.run.session.is_some() && self.begun.is_none()
    }

    fn session_turn(&self, _: &RunState, _: &str) -> Option<v1::SessionTurn> {
        None
    }

    fn may_be_forked(&self) -> bool {
        !self.browser_used
    }

    fn uses_browser(&self) -> bool {
        self.browser_used
    }

    fn binding(&self) -> Option<Binding<'_>> {
        self.browser.binding()
    }

    fn cannot_begin(&self, run: &RunState, task: TaskRef) -> Option<v1::Error> {
        self.no_browser(run, task)
    }

    fn browser_lost(&self, worker: &str, reason: v1::BrowserLossReason) -> Result<Vec<Step>, Refusal> {
        let lost = self.browser.lost_by(worker, reason).ok_or(Refusal::Outdated)?;
        Ok(vec![Step::Record(lost)])
    }

    fn put_away(&self) -> Vec<Step> {
        self.browser.put_away()
    }

    fn blobs_of(&self, output: &v1::Payload) -> Vec<v1::BlobRef> {
        browser::blobs_of(output)
    }

    fn execution(&self, run: &RunState, output: bool) -> Option<v1::ExecutionState> {
        Some(self.view(run, output))
    }

    fn execution_ended(&self, run: &RunState) -> Option<(v1::ExecutionMode, v1::ExecutionEnded)> {
        Some((self.mode(), self.ended(run)?))
    }

    fn result(&self, run: &RunState) -> Option<run_result::Work> {
        let output = match &self.stage {
            Stage::Completed { wave: Some(wave) } => end_of(run, *wave).and_then(|end| end.output.clone()),
            _ => None,
        };
        Some(run_result::Work::Mode(v1::ModeResult {
            state: Some(self.view(run, false)),
            output,
            output_omitted: false,
        }))
    }
}
