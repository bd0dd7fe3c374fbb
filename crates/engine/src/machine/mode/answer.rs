//! Answers of planners: what they say, and what is wrong with them beside their schema.

use std::collections::{BTreeMap, BTreeSet};

use capataz_contracts::Violation;
use capataz_contracts::browser::OBSERVE_TOOL;
use capataz_contracts::json::{self, JSON_MEDIA_TYPE};
use capataz_contracts::v1::{
    self, ExecutionMode, PlannerDecision, ReplanReason, SchemaViolation, payload::Data,
};
use capataz_contracts::validate::{self, PlanLimits};
use capataz_policy::mode::contract;
use serde::Deserialize;
use serde_json::Value;

use super::browser;
use super::state::{Execution, ModeState};
use crate::machine::pipeline::materialise;
use crate::plan::Plan;
use crate::planted::{self, Fault};

/// A tool that is the run of a plan.
pub(super) const PLAN_RUN: &str = "plan.run";
/// A tool that is the run of a pipeline.
pub(super) const PIPELINE_RUN: &str = "pipeline.run";
/// A tool that asks the specs.
pub(super) const ROUTER_ASK: &str = "router.ask";

/// What is shown of what was found.
const FOUND_MAX: usize = 120;

/// `SimpleResponse` of the seed.
#[derive(Debug, Deserialize)]
struct Simple {
    action: Action,
    reasoning: String,
    r#continue: bool,
    confidence: f64,
}

/// `PlannerResponse` of the seed.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Planner {
    plan_update: Option<Update>,
    next_action: Action,
    replan_required: bool,
    reasoning: String,
    confidence: f64,
}

/// `SupervisedResponse` of the seed.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Supervised {
    decision: Decision,
    next_action: Option<Action>,
    escalation: Option<Escalation>,
    plan_adherence: f64,
    reasoning: String,
    confidence: f64,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Decision {
    Continue,
    Escalate,
    Pause,
    Complete,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Action {
    tool: String,
    parameters: Value,
    step_index: Option<Place>,
}

/// The place of a step. An integer is one however it is written: 1.0 is 1, as the contract has it.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "f64")]
struct Place(u32);

impl TryFrom<f64> for Place {
    type Error = &'static str;

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is a small integer")]
    fn try_from(number: f64) -> Result<Self, Self::Error> {
        let is_place = number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number);
        if is_place { Ok(Self(number as u32)) } else { Err("no place of a step") }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Update {
    r#type: UpdateType,
    steps: Vec<Step>,
    estimated_time: f64,
    checkpoints: Vec<Place>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum UpdateType {
    Create,
    Modify,
    Continue,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Step {
    id: String,
    description: String,
    tool: String,
    parameters: Value,
    expected: Option<Value>,
    depends_on: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Escalation {
    reason: String,
    user_question: String,
    suggested_options: Vec<String>,
}

/// A plan as a person gives it.
#[derive(Debug, Deserialize)]
struct Edited {
    steps: Vec<Step>,
    checkpoints: Option<Vec<Place>>,
}

/// What was found wrong, where it is.
pub(super) struct Wrong(Vec<SchemaViolation>);

impl Wrong {
    fn add(&mut self, path: String, rule: &str, expected: impl Into<String>, found: impl Into<String>) {
        let found: String = found.into();
        let found = found.chars().take(FOUND_MAX).collect();
        let violation = SchemaViolation { path, rule: rule.to_owned(), expected: expected.into(), found };
        self.0.push(violation);
    }
}

impl ModeState {
    /// What the answer says, which has passed its schema.
    ///
    /// # Errors
    /// What is wrong with it beside that.
    pub(super) fn read(
        &self,
        wave: u32,
        output: &v1::Payload,
    ) -> Result<v1::PlannerAnswered, Vec<SchemaViolation>> {
        let mut wrong = Wrong(Vec::new());
        let Some(Data::Inline(text)) = &output.data else {
            let most = validate::INLINE_MAX;
            wrong.add(String::new(), "size", format!("at most {most} bytes"), "more");
            return Err(wrong.0);
        };
        let unread = |error: serde_json::Error| {
            let mut wrong = Wrong(Vec::new());
            wrong.add(
                String::new(),
                "contract",
                "an answer by the contract of the prompt",
                error.to_string(),
            );
            wrong.0
        };
        let answered = match self.contract() {
            ExecutionMode::Unspecified | ExecutionMode::Simple => {
                self.simple(serde_json::from_slice(text).map_err(unread)?, &mut wrong)
            }
            ExecutionMode::Planner => self.planner(serde_json::from_slice(text).map_err(unread)?, &mut wrong),
            ExecutionMode::Supervised => {
                self.supervised(serde_json::from_slice(text).map_err(unread)?, &mut wrong)
            }
        };
        match wrong.0.is_empty() {
            true => Ok(v1::PlannerAnswered { wave, ..answered }),
            false => Err(wrong.0),
        }
    }

    fn simple(&self, answer: Simple, wrong: &mut Wrong) -> v1::PlannerAnswered {
        check_call(&answer.action.tool, &answer.action.parameters, "/action", wrong);
        v1::PlannerAnswered {
            decision: PlannerDecision::Act.into(),
            call: Some(call_of(&answer.action, None)),
            goes_on: answer.r#continue,
            reasoning: answer.reasoning,
            confidence: answer.confidence,
            ..v1::PlannerAnswered::default()
        }
    }

    fn planner(&self, answer: Planner, wrong: &mut Wrong) -> v1::PlannerAnswered {
        let revision = self.revisions.saturating_add(1);
        let is_proposal = self.mode() == ExecutionMode::Supervised;
        let update = answer.plan_update.filter(|update| update.r#type != UpdateType::Continue);
        let plan = update.map(|update| {
            let path = "/planUpdate";
            if is_proposal {
                self.check_tools(&update.steps, path, wrong);
            }
            let plan = v1::ModePlan {
                revision,
                estimated_minutes: update.estimated_time,
                ..plan_of(update.steps, update.checkpoints, path, wrong)
            };
            (plan, update.r#type)
        });
        // Where the plan is another one, what counts already is what it keeps.
        let mut then = self.execution.clone();
        if let Some((plan, kind)) = &plan {
            then.begin_plan(plan.clone(), *kind == UpdateType::Modify, 0);
        }
        if !is_proposal {
            let action = &answer.next_action;
            check_call(&action.tool, &action.parameters, "/nextAction", wrong);
            check_step(&then, action, wrong);
        }
        let mut reasons: Vec<i32> = self.reasons.clone();
        let is_another = self.execution.plan.is_some() && plan.is_some() && !is_proposal;
        if (answer.replan_required || is_another) && reasons.is_empty() && self.execution.plan.is_some() {
            reasons.push(ReplanReason::Planner.into());
        }
        if plan.is_none() {
            reasons.clear();
        }
        let decision = if is_proposal { PlannerDecision::Propose } else { PlannerDecision::Act };
        let step_index = answer.next_action.step_index.map(|Place(place)| place);
        let keeps_done = plan.as_ref().is_some_and(|(_, kind)| *kind == UpdateType::Modify);
        v1::PlannerAnswered {
            keeps_done,
            decision: decision.into(),
            call: (!is_proposal).then(|| call_of(&answer.next_action, step_index)),
            plan: plan.map(|(plan, _)| plan),
            goes_on: true,
            reasoning: answer.reasoning,
            confidence: answer.confidence,
            reasons: if is_proposal || planted::is(Fault::ReplanForgotten) { Vec::new() } else { reasons },
            ..v1::PlannerAnswered::default()
        }
    }

    fn supervised(&self, answer: Supervised, wrong: &mut Wrong) -> v1::PlannerAnswered {
        let current = self.execution.current();
        let step = current.and_then(|place| self.execution.plan_steps().get(place as usize));
        let mut answered = v1::PlannerAnswered {
            goes_on: true,
            reasoning: answer.reasoning,
            confidence: answer.confidence,
            adherence: Some(answer.plan_adherence),
            ..v1::PlannerAnswered::default()
        };
        match answer.decision {
            Decision::Pause => answered.decision = PlannerDecision::Pause.into(),
            Decision::Escalate => {
                answered.decision = PlannerDecision::Escalate.into();
                answered.escalation = answer.escalation.map(|asked| v1::Escalation {
                    reason: asked.reason,
                    question: asked.user_question,
                    options: asked.suggested_options,
                });
            }
            Decision::Complete => {
                answered.decision = PlannerDecision::Complete.into();
                let open = self.execution.steps.len() - succeeded(&self.execution);
                answered.escalation = Some(v1::Escalation {
                    reason: format!("the planner says that the plan is done, and {open} steps of it are not"),
                    question: "Is the query done?".to_owned(),
                    options: Vec::new(),
                });
            }
            Decision::Continue => {
                let Some(action) = &answer.next_action else { return answered };
                check_call(&action.tool, &action.parameters, "/nextAction", wrong);
                if let Some(step) = step.filter(|step| step.tool != action.tool) {
                    let expected = format!("{:?}, which the approved plan names for this step", step.tool);
                    wrong.add("/nextAction/tool".to_owned(), "plan", expected, format!("{:?}", action.tool));
                }
                answered.call = Some(call_of(action, current));
                answered.decision = PlannerDecision::Act.into();
                let least = 1.0 - self.autonomy();
                // What is allowed is allowed, whatever the last bit of the difference says.
                if answer.plan_adherence < least - f64::EPSILON {
                    answered.decision = PlannerDecision::Escalate.into();
                    answered.escalation = Some(v1::Escalation {
                        reason: format!(
                            "by the planner's own words the action keeps to the plan by {:.2}, and {least:.2} is needed",
                            answer.plan_adherence
                        ),
                        question: "Is the action to be done?".to_owned(),
                        options: Vec::new(),
                    });
                }
            }
        }
        answered
    }

    /// A plan that a person approves can be carried out: it names tools that there are, and gives those that are runs, or act in
    /// the browser, what they take. What other tools take is in the schema of the plan. A step that needs what an earlier one gives
    /// is judged when it is done.
    fn check_tools(&self, steps: &[Step], path: &str, wrong: &mut Wrong) {
        let tools = self.tool_names();
        for (place, step) in steps.iter().enumerate() {
            if !tools.contains(step.tool.as_str()) {
                let known: Vec<&str> = tools.iter().copied().collect();
                let path = format!("{path}/steps/{place}/tool");
                wrong.add(path, "tool", format!("one of {}", known.join(", ")), format!("{:?}", step.tool));
            }
            if !contract::names_later(&step.parameters) {
                check_call(&step.tool, &step.parameters, &format!("{path}/steps/{place}"), wrong);
            }
        }
    }

    /// The plan that a person gives in place of the proposed one.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn edited(&self, value: &v1::Payload) -> Result<v1::ModePlan, Vec<SchemaViolation>> {
        let mut wrong = Wrong(Vec::new());
        let Some(Data::Inline(text)) = &value.data else {
            wrong.add(String::new(), "size", format!("at most {} bytes", validate::INLINE_MAX), "more");
            return Err(wrong.0);
        };
        let edited: Edited = serde_json::from_slice(text).map_err(|error| {
            let mut wrong = Wrong(Vec::new());
            wrong.add(String::new(), "contract", "a plan", error.to_string());
            wrong.0
        })?;
        self.check_tools(&edited.steps, "", &mut wrong);
        let minutes = self.execution.plan.as_ref().map_or(0.0, |plan| plan.estimated_minutes);
        let plan = plan_of(edited.steps, edited.checkpoints.unwrap_or_default(), "", &mut wrong);
        match wrong.0.is_empty() {
            true => Ok(v1::ModePlan {
                revision: self.revisions.saturating_add(1),
                estimated_minutes: minutes,
                ..plan
            }),
            false => Err(wrong.0),
        }
    }
}

fn succeeded(execution: &Execution) -> usize {
    (0u32..).take(execution.steps.len()).filter(|place| execution.has_succeeded(*place)).count()
}

/// The steps of a plan, and what is wrong with them beside their schema.
fn plan_of(steps: Vec<Step>, checkpoints: Vec<Place>, path: &str, wrong: &mut Wrong) -> v1::ModePlan {
    let checkpoints: Vec<u32> = checkpoints.into_iter().map(|Place(place)| place).collect();
    if steps.is_empty() {
        wrong.add(format!("{path}/steps"), "minItems", "at least 1 step", "none");
    }
    let mut ids = BTreeMap::new();
    for (place, step) in steps.iter().enumerate() {
        if ids.insert(step.id.clone(), place).is_some() {
            let path = format!("{path}/steps/{place}/id");
            wrong.add(path, "unique", "an id that no other step has", format!("{:?}", step.id));
        }
    }
    for (place, step) in steps.iter().enumerate() {
        for (index, needed) in step.depends_on.iter().flatten().enumerate() {
            if !ids.contains_key(needed) || *needed == step.id {
                let path = format!("{path}/steps/{place}/dependsOn/{index}");
                wrong.add(path, "step", "the id of another step of the plan", format!("{needed:?}"));
            }
        }
    }
    if let Some(place) = in_circle(&steps) {
        let path = format!("{path}/steps/{place}/dependsOn");
        wrong.add(path, "circle", "steps that can be done one after the other", "a circle");
    }
    for (index, place) in checkpoints.iter().enumerate() {
        if *place as usize >= steps.len() {
            let path = format!("{path}/checkpoints/{index}");
            wrong.add(path, "step", format!("a place below {}", steps.len()), place.to_string());
        }
    }
    let step = |step: Step| v1::PlanStep {
        id: step.id,
        description: step.description,
        tool: step.tool,
        parameters: step.parameters.to_string(),
        expected: step.expected.unwrap_or_else(|| serde_json::json!({ "success": true })).to_string(),
        depends_on: step.depends_on.unwrap_or_default(),
    };
    v1::ModePlan { steps: steps.into_iter().map(step).collect(), checkpoints, ..v1::ModePlan::default() }
}

/// The place of a step that waits for itself, over however many others.
fn in_circle(steps: &[Step]) -> Option<usize> {
    let mut done = BTreeSet::new();
    loop {
        let ready: Vec<&str> = steps
            .iter()
            .filter(|step| !done.contains(step.id.as_str()))
            // What is no step was told already.
            .filter(|step| {
                let is_step = |id: &&String| steps.iter().any(|step| step.id == **id);
                step.depends_on.iter().flatten().filter(is_step).all(|needed| done.contains(needed.as_str()))
            })
            .map(|step| step.id.as_str())
            .collect();
        if ready.is_empty() {
            return steps.iter().position(|step| !done.contains(step.id.as_str()));
        }
        done.extend(ready);
    }
}

fn call_of(action: &Action, step_index: Option<u32>) -> v1::ToolCall {
    v1::ToolCall { tool: action.tool.clone(), parameters: action.parameters.to_string(), step_index }
}

/// The step that is to be done can be done now.
fn check_step(then: &Execution, action: &Action, wrong: &mut Wrong) {
    let path = || "/nextAction/stepIndex".to_owned();
    let Some(Place(place)) = action.step_index else { return };
    let Some(step) = then.plan_steps().get(place as usize) else {
        let steps = then.plan_steps().len();
        return wrong.add(path(), "step", format!("a place below {steps}"), place.to_string());
    };
    if then.has_succeeded(place) {
        return wrong.add(path(), "step", "a step that has not succeeded yet", place.to_string());
    }
    if let Some(needed) = then.unmet(step) {
        let found = format!("{place}, which needs {needed:?}");
        return wrong.add(path(), "step", "a step all of whose needs have succeeded", found);
    }
    if step.tool != action.tool {
        let expected = format!("{:?}, the tool of step {place}", step.tool);
        wrong.add("/nextAction/tool".to_owned(), "plan", expected, format!("{:?}", action.tool));
    }
}

/// What a tool that is a run is given has to be one.
fn check_call(tool: &str, parameters: &Value, path: &str, wrong: &mut Wrong) {
    match tool {
        PLAN_RUN | PIPELINE_RUN | ROUTER_ASK => {
            let violations = match tool {
                PLAN_RUN => plan(parameters).err(),
                PIPELINE_RUN => pipeline(parameters).err(),
                _ => ask(parameters).err(),
            };
            for violation in violations.unwrap_or_default() {
                wrong.add(below(path, &violation.path), violation.rule, violation.message, "this");
            }
        }
        tool if browser::is_of_browser(tool) && tool != OBSERVE_TOOL => {
            // Under the longest of numbers: as long as it may be then, it may be under any.
            for violation in browser::action(tool, parameters, u32::MAX).err().unwrap_or_default() {
                wrong.add(below(path, &violation.path), violation.rule, violation.message, "this");
            }
        }
        _ => {}
    }
}

/// The pointer to what lies at `path` of the parameters of a call.
fn below(call: &str, path: &str) -> String {
    let path = path.replace(['.', '['], "/").replace(']', "");
    if path.is_empty() { format!("{call}/parameters") } else { format!("{call}/parameters/{path}") }
}

/// The plan of a call of `plan.run`, with every default filled in.
fn plan(parameters: &Value) -> Result<v1::Plan, Vec<Violation>> {
    let mut plan: v1::Plan = json::parse("capataz.v1.Plan", parameters)?;
    let violations = validate::plan(&plan, &PlanLimits::default());
    if !violations.is_empty() {
        return Err(violations);
    }
    Plan::materialise(&mut plan)?;
    Ok(plan)
}

/// The pipeline of a call of `pipeline.run`, with every default filled in.
fn pipeline(parameters: &Value) -> Result<v1::Pipeline, Vec<Violation>> {
    let mut pipeline: v1::Pipeline = json::parse("capataz.v1.Pipeline", parameters)?;
    let violations = validate::pipeline(&pipeline);
    if !violations.is_empty() {
        return Err(violations);
    }
    materialise(&mut pipeline)?;
    Ok(pipeline)
}

/// The ask of a call of `router.ask`.
fn ask(parameters: &Value) -> Result<v1::Ask, Vec<Violation>> {
    let text = |key: &str| parameters.get(key).and_then(Value::as_str).map(str::to_owned);
    let ask = v1::Ask { text: text("text").unwrap_or_default(), spec: text("spec"), ..v1::Ask::default() };
    let violations = validate::ask(&ask);
    if violations.is_empty() { Ok(ask) } else { Err(violations) }
}

/// The run that a call of such a tool is; `None` of a tool that is an agent.
pub(super) fn child(call: &v1::ToolCall) -> Option<v1::ChildRun> {
    let parameters = || serde_json::from_str::<Value>(&call.parameters).ok();
    match call.tool.as_str() {
        PLAN_RUN => Some(v1::ChildRun::of_plan(plan(&parameters()?).ok()?)),
        PIPELINE_RUN => Some(v1::ChildRun::of_pipeline(pipeline(&parameters()?).ok()?)),
        ROUTER_ASK => Some(v1::ChildRun::of_ask(ask(&parameters()?).ok()?)),
        _ => None,
    }
}

/// What an agent is given.
pub(super) fn input(call: &v1::ToolCall) -> v1::Payload {
    v1::Payload {
        media_type: JSON_MEDIA_TYPE.to_owned(),
        data: Some(Data::Inline(call.parameters.clone().into_bytes().into())),
    }
}
