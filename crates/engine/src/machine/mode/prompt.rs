//! Prompts of planners (seed 004, "Especificación de prompts y respuestas"): exactly the keys of the seed.

use capataz_contracts::v1::{self, ExecutionMode, ReplanReason};
use capataz_policy::mode;
use serde_json::{Map, Value, json};

use super::built_in_tool;
use super::state::{ModeState, Outcome};
use crate::fold::state::{Moment, RunState};
use crate::query::{Prompting, Wanted};

/// Characters of a message in a prompt.
const MESSAGE: usize = 1_000;

impl ModeState {
    /// What the next prompt is made of.
    pub(super) fn prompting(&self, run: &RunState) -> Prompting {
        let execution = &self.execution;
        let mut prompt = Map::new();
        let mut holes = Vec::new();
        prompt.insert("query".to_owned(), json!(self.run.query));
        prompt.insert("memory".to_owned(), json!([]));
        match self.contract() {
            ExecutionMode::Unspecified | ExecutionMode::Simple => {
                if let Some(file) = &self.run.current_file {
                    prompt.insert("currentFile".to_owned(), json!(file));
                }
                prompt.insert("workspace".to_owned(), json!(self.run.workspace));
                self.last_result(run, &mut prompt, &mut holes);
                prompt.insert("step".to_owned(), json!(execution.step));
                prompt.insert("errorCount".to_owned(), json!(execution.errors));
            }
            ExecutionMode::Planner => {
                if let Some(plan) = &execution.plan {
                    prompt.insert("currentPlan".to_owned(), plan_value(plan));
                }
                prompt.insert("progress".to_owned(), json!(execution.progress()));
                self.last_result(run, &mut prompt, &mut holes);
                let reasons = self.reasons();
                if !reasons.is_empty() {
                    prompt.insert("deviationAnalysis".to_owned(), self.deviation_analysis(&reasons));
                }
                prompt.insert("step".to_owned(), json!(execution.step));
                prompt.insert("errorCount".to_owned(), json!(execution.errors));
            }
            ExecutionMode::Supervised => {
                if let Some(plan) = &execution.plan {
                    prompt.insert("validatedPlan".to_owned(), plan_value(plan));
                }
                prompt.insert("adherenceCheck".to_owned(), self.adherence(run, &mut holes));
                prompt.insert("autonomyLevel".to_owned(), json!(self.autonomy()));
                prompt.insert("escalationHistory".to_owned(), json!(execution.asked));
            }
        }
        Prompting {
            prompt: Value::Object(prompt).to_string(),
            results: holes,
            recall: self.recall(run.last()),
            tools: self.tools_to_miss(),
        }
    }

    /// The tools whose absence is a reason to make the plan anew: those that agents serve.
    fn tools_to_miss(&self) -> Vec<String> {
        let is_planned = self.mode() == ExecutionMode::Planner;
        let tools = self.run.tools.iter().filter(|tool| is_planned && built_in_tool(&tool.name).is_none());
        tools.map(|tool| tool.name.clone()).collect()
    }

    /// The contract of the next prompt: a plan that is to be approved is made by the contract of planners.
    pub(super) fn contract(&self) -> ExecutionMode {
        match self.mode() {
            ExecutionMode::Supervised if !self.execution.approved => ExecutionMode::Planner,
            mode => mode,
        }
    }

    /// The next answer has to bring a plan.
    pub(super) fn wants_plan(&self) -> bool {
        match self.mode() {
            ExecutionMode::Planner => self.execution.plan.is_none() || !self.reasons().is_empty(),
            ExecutionMode::Supervised => !self.execution.approved,
            ExecutionMode::Simple | ExecutionMode::Unspecified => false,
        }
    }

    /// What is recalled. The newest event says what time it is: the same question has the same answer.
    fn recall(&self, last: Moment) -> Wanted {
        let window = i64::try_from(mode::MEMORY_WINDOW.as_millis()).unwrap_or(i64::MAX);
        Wanted {
            session: self.memory_of().to_owned(),
            mode: self.mode(),
            since_ms: last.wall.0.saturating_sub(window),
            entries: mode::MEMORY_ENTRIES,
            tokens: mode::memory_tokens(self.mode()),
        }
    }

    /// The session whose memory it is.
    pub(super) fn memory_of(&self) -> &str {
        self.run.session.as_deref().unwrap_or(&self.run.run_id)
    }

    fn last_result(&self, run: &RunState, prompt: &mut Map<String, Value>, holes: &mut Vec<Hole>) {
        let Some(last) = &self.execution.last else { return };
        prompt.insert("lastResult".to_owned(), outcome_value(last));
        holes.extend(output_of(run, last).map(|output| ("/lastResult/output".to_owned(), output)));
    }

    fn deviation_analysis(&self, reasons: &[ReplanReason]) -> Value {
        let steps = self.execution.plan_steps();
        let missed = self.execution.missed.iter().filter_map(|place| {
            let step = steps.get(*place as usize)?;
            Some(format!("step {place} ({}) was expected to give {}", step.id, step.expected))
        });
        let why = reasons.iter().map(|reason| reason_text(*reason).to_owned());
        let mut told: Vec<String> = why.chain(missed).collect();
        if let Some(error) = self.execution.last.as_ref().and_then(|last| last.error.as_ref()) {
            told.push(format!("the last action failed with {}: {}", error.code, shortened(&error.message)));
        }
        json!({
            "expectedVsActual": told.join("; "),
            "impactedSteps": self.impacted(),
            "availableResources": self.present_tools(),
        })
    }

    fn adherence(&self, run: &RunState, holes: &mut Vec<Hole>) -> Value {
        let execution = &self.execution;
        let current = execution.current();
        let step = current.and_then(|place| execution.plan_steps().get(place as usize));
        let before = execution.last.as_ref().and_then(|last| last.step_index);
        let expected = before.and_then(|place| execution.plan_steps().get(place as usize));
        let expected = expected.map_or(Value::Null, |step| json_of(&step.expected));
        let actual = execution.last.as_ref().map_or(Value::Null, outcome_value);
        let output = execution.last.as_ref().and_then(|last| output_of(run, last));
        holes.extend(output.map(|output| ("/adherenceCheck/actualResult/output".to_owned(), output)));
        json!({
            "currentStep": current.unwrap_or(u32::try_from(execution.steps.len()).unwrap_or(u32::MAX)),
            "planStep": step.map_or(Value::Null, step_value),
            "actualResult": actual,
            "expectedResult": expected,
            "deviation": execution.deviation(),
        })
    }
}

/// Where an output belongs in a prompt.
type Hole = (String, v1::Payload);

/// What an action gave back.
fn output_of(run: &RunState, last: &Outcome) -> Option<v1::Payload> {
    run.waves.get(last.wave? as usize)?.tasks.first()?.end.as_ref()?.output.clone()
}

fn outcome_value(last: &Outcome) -> Value {
    let error = last.error.as_ref();
    let error = error.map(|error| json!({ "code": error.code, "message": shortened(&error.message) }));
    json!({ "tool": last.tool, "output": null, "error": error, "durationMs": last.duration_ms })
}

/// A plan as the seed has it.
pub(super) fn plan_value(plan: &v1::ModePlan) -> Value {
    json!({ "steps": plan.steps.iter().map(step_value).collect::<Vec<_>>() })
}

fn step_value(step: &v1::PlanStep) -> Value {
    json!({
        "id": step.id,
        "description": step.description,
        "tool": step.tool,
        "parameters": json_of(&step.parameters),
        "expected": json_of(&step.expected),
        "dependsOn": step.depends_on,
    })
}

/// The value of a text of JSON that was read before.
fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}

fn reason_text(reason: ReplanReason) -> &'static str {
    match reason {
        ReplanReason::Unspecified => "",
        ReplanReason::Deviation => "too many results miss what was expected",
        ReplanReason::Errors => "three results in a row are errors",
        ReplanReason::ResourcesUnavailable => "a step needs a tool that is not there",
        ReplanReason::InvalidatedSteps => "steps depend on one that has failed",
        ReplanReason::Planner => "the planner demands it",
    }
}

pub(super) fn shortened(message: &str) -> String {
    match message.char_indices().nth(MESSAGE) {
        Some((end, _)) => format!("{}…", message.get(..end).unwrap_or_default()),
        None => message.to_owned(),
    }
}
