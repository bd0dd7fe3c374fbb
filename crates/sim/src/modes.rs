//! Executions that clients start, and what their planners answer.

use std::collections::BTreeSet;

use capataz_contracts::browser::{BROWSER_AGENT, TOOL_PREFIX};
use capataz_contracts::v1::{self, ExecutionMode, payload::Data};
use capataz_engine::materialise_mode;
use serde_json::{Value, json};

use crate::asks;
use crate::pipelines::json as payload;
use crate::rng::Rng;
use crate::scenario::{FOREIGN_SPEC, Scenario, agent_name, spec_agent};
use crate::worker::Key;

/// What names of tasks begin with that are calls of planners.
pub const PLANNER: &str = "planner.";
/// What every output of a tool contains.
pub const CONTAINED: &str = "lease";

/// What is expected has this word in it where a step is to fail.
pub const TO_FAIL: &str = "false";

/// What a query begins with that may be worked on in a browser.
const BROWSES: &str = "browse";
/// What a query has in it that may be worked on by runs of plans.
const BEGETS: &str = "beget";
/// The tool for that.
pub const PLAN_RUN: &str = "plan.run";
/// What a query has in it that may be worked on by a tool that nobody ever serves. A call of it is not waited for long.
const ALONE: &str = "alone";
const WAITED_MS: i64 = 2_000;
/// The tools for the browser, and whether a run goes back behind them.
const BROWSER_TOOLS: [(&str, bool); 3] =
    [("browser.navigate", true), ("browser.click", false), ("browser.observe", true)];

/// What a query begins with all of whose calls of tools fail, as long as anything goes wrong at all.
const DOOMED: &str = "doomed";
const FAILS: &str = "fails";

/// Whether the tool is told to fail.
#[must_use]
pub fn is_doomed(assignment: &v1::Assignment) -> bool {
    let Some(Data::Inline(bytes)) = assignment.input.as_ref().and_then(|input| input.data.as_ref()) else {
        return false;
    };
    serde_json::from_slice::<Value>(bytes).is_ok_and(|input| input.get(FAILS).is_some())
}

/// Draws an execution, and the agents that it names.
pub fn draw(rng: &mut Rng, scenario: &Scenario, number: u64) -> (v1::ModeRun, BTreeSet<String>) {
    let modes = [ExecutionMode::Simple, ExecutionMode::Planner, ExecutionMode::Supervised];
    let (in_browser, has_children) = (rng.percent(40), rng.percent(50));
    // What fails always fails soon, and often.
    let is_doomed = rng.percent(25);
    let has_alone = !is_doomed && rng.percent(25);
    let tools = (0..scenario.agents).map(|index| v1::ModeTool {
        name: agent_name(index),
        undoable: index != 2,
        needs_approval: rng.percent(if is_doomed { 5 } else { 35 }),
        ..v1::ModeTool::default()
    });
    let of_browser = BROWSER_TOOLS.iter().filter(|_| in_browser).map(|(name, undoable)| v1::ModeTool {
        name: (*name).to_owned(),
        undoable: *undoable,
        ..v1::ModeTool::default()
    });
    let child = has_children.then(|| v1::ModeTool { name: PLAN_RUN.to_owned(), ..v1::ModeTool::default() });
    let alone = has_alone.then(|| v1::ModeTool {
        name: spec_agent(FOREIGN_SPEC),
        timeouts: Some(v1::TimeoutPolicy {
            schedule_to_start_ms: Some(WAITED_MS),
            ..v1::TimeoutPolicy::default()
        }),
        ..v1::ModeTool::default()
    });
    let tools: Vec<v1::ModeTool> = tools.chain(of_browser).chain(child).chain(alone).collect();
    let max_attempts = if is_doomed { Some(1) } else { [None, Some(1), Some(2)][rng.below(3)] };
    let max_steps = if is_doomed { 7 } else { 2 + u32::try_from(rng.below(6)).unwrap_or(0) };
    let words = [(in_browser, BROWSES), (has_children, BEGETS), (has_alone, ALONE)];
    let words = words.iter().filter(|(has, _)| *has).map(|(_, word)| format!("{word} "));
    let mut run = v1::ModeRun {
        query: match is_doomed {
            true => format!("{DOOMED} {number}"),
            false => format!("query {}{number}", words.collect::<String>()),
        },
        mode: rng.percent(90).then(|| modes[rng.below(3)].into()),
        // The first agent declares no schema of its own.
        planner: agent_name(0),
        tools,
        max_steps: Some(max_steps),
        autonomy_level: rng.percent(50).then(|| [0.0, 0.5, 1.0][rng.below(3)]),
        retry: Some(v1::RetryPolicy { max_attempts, ..v1::RetryPolicy::default() }),
        session: rng.percent(40).then(|| asks::session(rng, scenario)),
        run_id: "drawn".to_owned(),
        ..v1::ModeRun::default()
    };
    // What is drawn keeps the rules of policies.
    let _ = materialise_mode(&mut run);
    let is_served = |name: &&String| !name.starts_with(TOOL_PREFIX) && *name != PLAN_RUN;
    let served = run.tools.iter().map(|tool| &tool.name).filter(is_served);
    let browser = in_browser.then(|| BROWSER_AGENT.to_owned());
    let agents = served.cloned().chain([run.planner.clone()]).chain(browser).collect();
    (run, agents)
}

/// What the planner answers: mostly by its contract, and never for ever.
pub fn answer(
    rng: &mut Rng,
    prompt: &Value,
    key: Key,
    worker: &str,
    agents: usize,
    calm: bool,
) -> v1::Payload {
    // What tells whose answer it is.
    let said = said(key.2, worker);
    let mut answer = if prompt.get("validatedPlan").is_some() {
        supervised(rng, prompt, &said, agents, calm)
    } else if prompt.get("progress").is_some() {
        planner(rng, prompt, &said, agents, calm)
    } else {
        let doomed = !calm && fails_always(prompt);
        let n = rng.below(3);
        let (tool, parameters) = match doomed {
            true => (agent_name(rng.below(agents)), json!({ FAILS: true })),
            false => call(rng, Others::of(prompt), agents, &json!({ "n": n })),
        };
        json!({
            "action": { "tool": tool, "parameters": parameters },
            "reasoning": said, "continue": doomed || !calm && rng.percent(65), "confidence": 0.5,
        })
    };
    // A tool that is not there, a key that is missing, or one too many.
    if !calm && rng.percent(12) {
        match (rng.below(3), answer.as_object_mut()) {
            (0, Some(answer)) => drop(answer.remove("confidence")),
            (1, Some(answer)) => drop(answer.insert("more".to_owned(), json!(1))),
            (_, Some(answer)) => drop(answer.insert("confidence".to_owned(), json!(2))),
            (_, None) => {}
        }
    }
    payload(&answer.to_string())
}

/// The words by which an answer is known as that of a lease.
#[must_use]
pub fn said(lease: u64, worker: &str) -> String {
    format!("lease {lease} of {worker}")
}

/// Which tools there are beside those that agents serve: those of the browser, runs of plans, and one that nobody serves.
#[derive(Clone, Copy, Default)]
struct Others {
    browser: bool,
    plans: bool,
    alone: bool,
}

impl Others {
    fn of(prompt: &Value) -> Self {
        let has = |word: &str| prompt["query"].as_str().is_some_and(|query| query.contains(word));
        Self { browser: has(BROWSES), plans: has(BEGETS), alone: has(ALONE) }
    }
}

/// A tool, and what it is given.
fn call(rng: &mut Rng, others: Others, agents: usize, parameters: &Value) -> (String, Value) {
    if others.alone && rng.percent(25) {
        return (spec_agent(FOREIGN_SPEC), parameters.clone());
    }
    if others.plans && rng.percent(20) {
        let agent = agent_name(rng.below(agents));
        let plan = json!({ "name": "child", "waves": [{ "tasks": [{ "name": "t", "agent": agent }] }] });
        return (PLAN_RUN.to_owned(), plan);
    }
    if !others.browser || rng.percent(40) {
        return (agent_name(rng.below(agents)), parameters.clone());
    }
    let (tool, _) = BROWSER_TOOLS[rng.below(BROWSER_TOOLS.len())];
    let parameters = match tool {
        "browser.navigate" => json!({ "url": "http://page/0" }),
        "browser.click" => json!({ "target": { "ref": "d1e1" } }),
        _ => json!({}),
    };
    (tool.to_owned(), parameters)
}

/// Whether the tools of this query fail, one after the other.
fn fails_always(prompt: &Value) -> bool {
    prompt["query"].as_str().is_some_and(|query| query.starts_with(DOOMED))
}

/// Whether what the tool is given has a form of its own.
fn is_judged(tool: &str) -> bool {
    tool.starts_with(TOOL_PREFIX) || tool == PLAN_RUN
}

/// One to three steps, one after the other.
fn steps(rng: &mut Rng, others: Others, agents: usize, calm: bool) -> Vec<Value> {
    let count = 1 + rng.below(3);
    let step = |place: usize, rng: &mut Rng| {
        let contained = if calm || rng.percent(70) { CONTAINED } else { "never" };
        let unknown = !calm && rng.percent(6);
        let (tool, parameters) = match unknown {
            true => ("nobody".to_owned(), json!({ "of": place })),
            false => call(rng, others, agents, &json!({ "of": place })),
        };
        let needs = (place > 0 && rng.percent(40)).then(|| format!("s{}", place - 1));
        let expected = match !calm && rng.percent(10) {
            true => json!({ "success": false }),
            false => json!({ "contains": contained }),
        };
        json!({
            "id": format!("s{place}"), "description": "a step", "tool": tool, "parameters": parameters,
            "expected": expected, "dependsOn": needs.into_iter().collect::<Vec<_>>(),
        })
    };
    (0..count).map(|place| step(place, rng)).collect()
}

fn planner(rng: &mut Rng, prompt: &Value, said: &str, agents: usize, calm: bool) -> Value {
    let known = prompt.pointer("/currentPlan/steps").and_then(Value::as_array);
    let must_plan = known.is_none() || prompt.get("deviationAnalysis").is_some();
    let demands = known.is_some() && !calm && rng.percent(8);
    let mut answer = json!({ "replanRequired": demands, "reasoning": said, "confidence": 1 });
    let (steps, at) = match known.filter(|_| !must_plan && !demands) {
        Some(steps) => {
            let progress = prompt["progress"].as_f64().unwrap_or(0.0);
            // Steps are done in their order: so many of them have succeeded.
            let done = (0..=steps.len()).find(|done| *done as f64 >= progress * steps.len() as f64 - 0.01);
            (steps.clone(), done.unwrap_or(0).min(steps.len().saturating_sub(1)))
        }
        None => {
            let steps = steps(rng, Others::of(prompt), agents, calm);
            let kind = if known.is_some() && rng.percent(30) { "modify" } else { "create" };
            let checkpoints = if rng.percent(30) { json!([0]) } else { json!([]) };
            answer["planUpdate"] = json!({
                "type": kind, "steps": steps, "estimatedTime": 1, "checkpoints": checkpoints,
            });
            (steps, 0)
        }
    };
    let tool = steps.get(at).map(|step| step["tool"].clone()).filter(|tool| tool != "nobody");
    let as_planned = tool.as_ref().and_then(Value::as_str).is_some_and(is_judged);
    let parameters = match steps.get(at).filter(|_| as_planned) {
        Some(step) => step["parameters"].clone(),
        None if !calm && fails_always(prompt) => json!({ FAILS: true }),
        None => json!({ "n": 1 }),
    };
    answer["nextAction"] = json!({
        "tool": tool.unwrap_or_else(|| agent_name(0).into()), "parameters": parameters, "stepIndex": at,
    });
    answer
}

fn supervised(rng: &mut Rng, prompt: &Value, said: &str, agents: usize, calm: bool) -> Value {
    let step = &prompt["adherenceCheck"]["planStep"];
    let as_planned = calm || rng.percent(60) || step["tool"].as_str().is_some_and(is_judged);
    let parameters =
        if as_planned { step["parameters"].clone() } else { json!({ "other": rng.below(agents) }) };
    let adherence = if calm || rng.percent(80) { 1.0 } else { 0.5 };
    let decision = match rng.below(20) {
        _ if calm => "continue",
        0 | 1 => "escalate",
        2 => "pause",
        3 => "complete",
        _ => "continue",
    };
    json!({
        "decision": decision,
        "nextAction": { "tool": step["tool"], "parameters": parameters, "justification": "" },
        "escalation": { "reason": "a reason", "userQuestion": "What now?", "suggestedOptions": ["left", "right"] },
        "planAdherence": adherence, "reasoning": said, "confidence": 1,
    })
}

/// A plan that a person gives in place of a proposed one.
pub fn edited(rng: &mut Rng, agents: usize) -> v1::Payload {
    let as_expected = rng.percent(80);
    payload(
        &json!({ "steps": steps(rng, Others::default(), agents, as_expected), "checkpoints": [] })
            .to_string(),
    )
}
