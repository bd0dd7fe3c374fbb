//! Queries for a planner and tools, in all three modes. The query says what is to be done; some answers of the planner are
//! rejected until they are corrected, some calls fail at first, two of the tools must not do anything twice, and one of these
//! is called only where a person has approved that. Some steps are runs of their own: plans, pipelines and asks.

use capataz_client::worker::{Task, TaskError, TaskOutput as Output, Worker};
use capataz_contracts::json;
use capataz_contracts::v1::{self, ExecutionMode};
use serde_json::{Value, json};

use super::{ASKED, Draft, Occasion, Workload, asks, pipelines, plans};
use crate::Outcome;
use crate::children::Programs;
use crate::journal::Journal;
use crate::verdict::{self, Facts, Log, Verdict};
use crate::worker::execute;

const PLANNER: &str = "chaos-planner";
/// A tool that changes nothing, and one whose effect cannot be undone.
const READ: &str = "chaos-read";
const WRITE: &str = "chaos-write";
/// The tools that are runs of their own.
const PLAN_RUN: &str = "plan.run";
const PIPELINE_RUN: &str = "pipeline.run";
const ROUTER_ASK: &str = "router.ask";
/// The spec that such an ask names, and its agent.
const DESK: &str = "desk";
const DESK_AGENT: &str = "chaos-desk";

#[derive(Debug)]
pub(super) struct Modes;

impl Workload for Modes {
    fn share(&self) -> u64 {
        4
    }

    fn configuration(&self, programs: &Programs) -> Outcome<String> {
        let folder = programs.folder.join("specs");
        std::fs::create_dir_all(&folder)?;
        let file = format!(
            "id = \"{DESK}\"\ntitle = \"{DESK}\"\nlanguages = [\"en\"]\ncontract_version = \"1.0.0\"\n\
             agent = \"{DESK_AGENT}\"\nkeywords = [\"{DESK}\"]\n"
        );
        std::fs::write(folder.join(format!("{DESK}.toml")), file)?;
        // The daemon looks for that folder where it is started.
        Ok(String::new())
    }

    fn serve(&self, worker: Worker, journal: &Journal) -> Worker {
        let agent = |name: &str, kind: v1::AgentKind| v1::Agent {
            name: name.to_owned(),
            kind: kind.into(),
            undoable: name == READ,
            needs_approval: name == ASKED,
            max_concurrency: 16,
            ..v1::Agent::default()
        };
        let tools = [READ, WRITE, ASKED].into_iter().fold(worker, |worker, name| {
            let journal = journal.clone();
            worker.agent_with(agent(name, v1::AgentKind::Tool), move |task: Task| call(task, journal.clone()))
        });
        let of_desk = journal.clone();
        let tools = tools.agent(DESK_AGENT, move |task: Task| asks::perform(task, of_desk.clone()));
        let journal = journal.clone();
        tools
            .agent_with(agent(PLANNER, v1::AgentKind::Planner), move |task: Task| plan(task, journal.clone()))
    }

    fn draft(&self, rng: &mut fastrand::Rng, occasion: &Occasion<'_>) -> Outcome<Draft> {
        // What only looks can be gone back behind.
        let only_looks = rng.u32(0..100) < 40;
        let steps: Vec<Value> =
            (0..rng.u64(1..4)).map(|place| step(rng, occasion.key, place, only_looks)).collect();
        let query = json!({
            "key": occasion.key, "steps": steps, "is_bad_at_first": rng.u32(0..100) < 20,
        });
        let modes = [ExecutionMode::Simple, ExecutionMode::Planner, ExecutionMode::Supervised];
        let mode = modes.get(rng.usize(0..modes.len())).copied().unwrap_or_default();
        let tool = |name: &str| v1::ModeTool { name: name.to_owned(), ..v1::ModeTool::default() };
        let run = v1::ModeRun {
            query: query.to_string(),
            mode: Some(mode.into()),
            planner: PLANNER.to_owned(),
            tools: [READ, WRITE, ASKED, PLAN_RUN, PIPELINE_RUN, ROUTER_ASK].map(tool).to_vec(),
            ..v1::ModeRun::default()
        };
        Ok(Draft { request: v1::StartRunRequest::of_mode(run), has_tasks: false })
    }

    fn is_own_output(&self, log: &Log, settled: &v1::TaskSettled) -> bool {
        if let Some(key) = log.called_child(settled.wave) {
            // The call is of this run, and what it has come to is of the call.
            let is_own = key.starts_with(&plans::child_key(log.key(), ""));
            let output = verdict::inline(settled);
            return is_own
                && (plans::is_output_of_child(output, key) || asks::is_output_of_child(output, key));
        }
        let Ok(output) = serde_json::from_slice::<Value>(verdict::inline(settled)) else { return false };
        let (task, lease) = (log.task_name(settled.wave, settled.task), settled.lease.unwrap_or_default());
        match task.starts_with("planner.") {
            true => output["reasoning"] == said(log.key(), task, lease),
            false => {
                output["key"] == log.key()
                    && output["task"] == task
                    && output["lease"].as_u64() == Some(lease)
            }
        }
    }

    fn judge(&self, facts: &Facts, verdict: &mut Verdict) {
        verdict::modes::judge(facts, verdict);
    }
}

/// What the planner is to do in this place.
fn step(rng: &mut fastrand::Rng, key: &str, place: u64, only_looks: bool) -> Value {
    let tool = match rng.u32(0..100) {
        _ if only_looks => READ,
        0..25 => READ,
        25..45 => WRITE,
        45..65 => ASKED,
        65..77 => PLAN_RUN,
        77..87 => PIPELINE_RUN,
        _ => ROUTER_ASK,
    };
    let of_child = plans::child_key(key, &place.to_string());
    let parameters = match tool {
        PLAN_RUN => json::print("capataz.v1.Plan", &plans::small(rng, &of_child)),
        PIPELINE_RUN => json::print("capataz.v1.Pipeline", &pipelines::small(rng, &of_child)),
        ROUTER_ASK => json!({ "text": of_child, "spec": DESK }),
        _ => json!({
            "key": key,
            "milliseconds": if rng.u32(0..100) < 10 { rng.u64(300..900) } else { rng.u64(10..200) },
            "fails_at_first": rng.u32(0..100) < 10,
        }),
    };
    // Whoever has approved the plan has not approved other words than its own.
    let departs = tool == ASKED && rng.u32(0..100) < 60;
    json!({ "tool": tool, "parameters": parameters, "departs": departs })
}

/// Whose answer it is.
fn said(key: &str, task: &str, lease: u64) -> String {
    format!("{key}: {task} under {lease}")
}

/// Decides by the query alone, by the contract that the keys of the prompt tell.
async fn plan(task: Task, journal: Journal) -> Result<Output, TaskError> {
    let prompt: Value = task.input_json()?;
    let query: Value = serde_json::from_str(prompt["query"].as_str().unwrap_or_default())
        .map_err(|error| TaskError::new("LOGIC_ERROR", error.to_string()))?;
    if !task.output_schema().contains(READ) {
        return Err(TaskError::new("LOGIC_ERROR", "the contract of the answer does not name the tools"));
    }
    let is_bad = query["is_bad_at_first"] == true && prompt.get("correction").is_none();
    let lease = task.parent_ref().lease;
    execute(&task, &journal, 10, !is_bad).await?;
    let mut answer = answer(&prompt, &query);
    answer["reasoning"] = said(query["key"].as_str().unwrap_or_default(), task.name(), lease).into();
    answer["confidence"] = if is_bad { json!(7) } else { json!(1) };
    Output::json(answer)
}

fn answer(prompt: &Value, query: &Value) -> Value {
    let wanted = query["steps"].as_array().map(Vec::as_slice).unwrap_or_default();
    let parameters = |place: usize| wanted.get(place).map(|step| step["parameters"].clone());
    let tool = |place: usize| wanted.get(place).map(|step| step["tool"].clone());
    let last = wanted.len().saturating_sub(1);
    if prompt.get("validatedPlan").is_some() {
        let step = &prompt["adherenceCheck"]["planStep"];
        let mut parameters = step["parameters"].clone();
        if wanted.iter().any(|wanted| wanted["departs"] == true && wanted["parameters"] == parameters) {
            parameters["departs"] = true.into();
        }
        return json!({
            "decision": "continue", "planAdherence": 1,
            "nextAction": { "tool": step["tool"], "parameters": parameters, "justification": "" },
        });
    }
    if prompt.get("progress").is_none() {
        let done = prompt["step"].as_u64().and_then(|step| usize::try_from(step).ok()).unwrap_or(0);
        let place = done.min(last);
        return json!({
            "action": { "tool": tool(place), "parameters": parameters(place) }, "continue": done < last,
        });
    }
    let is_known = prompt.get("currentPlan").is_some() && prompt.get("deviationAnalysis").is_none();
    let progress = prompt["progress"].as_f64().unwrap_or_default();
    // Steps are done in their order, and a plan has three at most.
    let place = match is_known {
        true => (0..last).find(|place| progress < share(place + 1, wanted.len()) - 0.01).unwrap_or(last),
        false => 0,
    };
    let mut answer = json!({
        "nextAction": { "tool": tool(place), "parameters": parameters(place), "stepIndex": place },
        "replanRequired": false,
    });
    if !is_known {
        let step = |place: usize| {
            json!({
                "id": format!("s{place}"), "description": "", "tool": tool(place),
                "parameters": parameters(place), "expected": { "contains": query["key"] }, "dependsOn": [],
            })
        };
        let steps: Vec<Value> = (0..wanted.len()).map(step).collect();
        answer["planUpdate"] =
            json!({ "type": "create", "steps": steps, "estimatedTime": 1, "checkpoints": [0] });
    }
    answer
}

fn share(done: usize, of: usize) -> f64 {
    let [done, of] = [done, of].map(|count| u32::try_from(count).unwrap_or(u32::MAX));
    f64::from(done) / f64::from(of.max(1))
}

/// Does what it is told, under the lease that is in its output.
async fn call(task: Task, journal: Journal) -> Result<Output, TaskError> {
    let input: Value = task.input_json()?;
    let lease = task.parent_ref().lease;
    let fails = input["fails_at_first"] == true && task.attempt() == 1;
    execute(&task, &journal, input["milliseconds"].as_u64().unwrap_or_default(), !fails).await?;
    if fails {
        return Err(TaskError::new("NETWORK_ERROR", "fails as it was told to"));
    }
    Output::json(json!({ "key": input["key"], "task": task.name(), "lease": lease }))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn steps_are_of_every_tool_and_a_child_has_a_key_of_its_own() -> Outcome<()> {
        let (mut tools, mut keys) = (BTreeSet::new(), BTreeSet::new());
        for index in 0..60 {
            let mut rng = fastrand::Rng::with_seed(index);
            let draft = Modes.draft(&mut rng, &Occasion { index, key: &format!("k{index}"), site: "" })?;
            let Some(v1::start_run_request::Work::Mode(run)) = draft.request.work else {
                return Err("it is no execution".into());
            };
            let query: Value = serde_json::from_str(&run.query)?;
            for step in query["steps"].as_array().ok_or("it has no steps")? {
                let (tool, parameters) = (step["tool"].as_str().unwrap_or_default(), &step["parameters"]);
                assert!(run.tools.iter().any(|named| named.name == tool), "{tool}");
                tools.insert(tool.to_owned());
                let name = parameters.get("name").or_else(|| parameters.get("text"));
                let name = name.and_then(Value::as_str).unwrap_or_default().to_owned();
                assert!(name.is_empty() || name.starts_with(&format!("k{index}/")) && keys.insert(name));
            }
        }
        assert_eq!(tools.len(), 6);
        assert!(keys.len() > 10, "{keys:?}");
        Ok(())
    }
}
