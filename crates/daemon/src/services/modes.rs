//! ModeService: the choice of a mode, executions as they stand, their checkpoints; and what a start of one needs.

use std::collections::BTreeMap;
use std::sync::Arc;

use capataz_contracts::browser::ALL_TOOLS;
use capataz_contracts::v1::mode_service_server::ModeService;
use capataz_contracts::{Violation, v1, validate};
use capataz_display::words::Language;
use capataz_engine::{BROWSER_AGENT, BUILT_IN_TOOLS, Input, built_in_tool, materialise_mode, mode_contracts};
use capataz_executor::dsl;
use capataz_policy::mode::browser::{self, BuiltIn};
use capataz_policy::mode::risk::{ToolFacts, assess};
use capataz_runtime::{Busy, Runtime};
use capataz_store::RunId;
use tonic::{Code, Request, Response, Status};

use super::analytics::analytics;
use super::reports::language_of;
use super::runs::Runs;
use super::starts::{Places, refuse, too_large};
use crate::status;

/// Agents that are asked for at a time.
const PAGE: u32 = 500;
/// How often a start is prepared at most while agents that it names come and go.
const MOST_TRIES: u32 = 8;
/// Tools that an assessment looks for where none are named.
const RISK_TOOLS_MAX: usize = 200;
/// Bytes of why a user makes a checkpoint.
const REASON_MAX: usize = 200;

pub(super) struct Modes {
    runs: Arc<Runs>,
}

impl Modes {
    pub(super) fn new(runs: Arc<Runs>) -> Self {
        Self { runs }
    }
}

/// What `keep` wants of each agent that is known, by the names of those of which it wants something. Whoever asks has the right
/// to hold that ([`Reads::catalogue`](capataz_runtime::Reads::catalogue)); everything else of a page goes with the page.
async fn kept_of_agents<T>(
    runtime: &Runtime,
    keep: impl Fn(v1::Agent) -> Option<T>,
) -> Result<BTreeMap<String, T>, Status> {
    let mut found = BTreeMap::new();
    let mut after = None;
    loop {
        let page = runtime.agents(after, PAGE).await;
        let (agents, more) = page.map_err(|declined| status::declined(&declined))?;
        after = agents.last().map(|agent| agent.known.agent.name.clone());
        let agents = agents.into_iter().map(|agent| agent.known.agent);
        found.extend(agents.filter_map(|agent| Some((agent.name.clone(), keep(agent)?))));
        if !more || after.is_none() {
            return Ok(found);
        }
    }
}

/// Fills in what a start of an execution leaves to what is known now: its planner, its tools and what they declare, and every
/// default.
///
/// # Errors
/// All that is wrong with that, or the names that nobody knows.
pub(super) async fn prepare(runtime: &Runtime, run: &mut v1::ModeRun) -> Result<(), Status> {
    for _ in 0..MOST_TRIES {
        let mut prepared = run.clone();
        if fill_in(runtime, &mut prepared).await? {
            *run = prepared;
            return Ok(());
        }
        let named: Vec<String> = agents_of(&prepared).cloned().collect();
        let checked = runtime.check_agents(named, Vec::new(), Vec::new()).await;
        if let Some(error) = checked.map_err(|declined| status::declined(&declined))?.error() {
            let places = Places::of_mode(run).by_error();
            let place = |error: &v1::Error| places.get(&error.message).cloned();
            return Err(status::contract(Code::NotFound, &error, place));
        }
        // It has come meanwhile: what it declares counts, such as that each call of it is approved.
    }
    Err(status::busy(Busy::Overloaded))
}

/// The agents that a run names: its planner, and its tools that are not built in.
fn agents_of(run: &v1::ModeRun) -> impl Iterator<Item = &String> {
    let tools = run.tools.iter().map(|tool| &tool.name).filter(|name| built_in_tool(name).is_none());
    tools.chain([&run.planner])
}

/// Whether a start needs to know of this agent: it names the agent, or leaves to what is known which ones of its kind it has.
fn is_needed(run: &v1::ModeRun, agent: &v1::Agent) -> bool {
    let is_named = |name: &str| run.tools.iter().any(|tool| tool.name == name);
    if agent.name == run.planner || is_named(&agent.name) {
        return true;
    }
    match agent.kind() {
        v1::AgentKind::Planner => run.planner.is_empty(),
        v1::AgentKind::Tool => run.tools.is_empty() || is_named(validate::ALL_AGENTS),
        v1::AgentKind::Unspecified | v1::AgentKind::Task | v1::AgentKind::Spec => false,
    }
}

/// Characters of the name of a tool that nobody knows.
const NAME_SHOWN: usize = 128;

/// What an assessment takes into account of the named tools, or of all that are agents: their names, whether what they do can be
/// undone, and whether each call is approved.
///
/// # Errors
/// All names of which there is no tool.
async fn facts_of(runtime: &Runtime, named: Vec<String>) -> Result<BTreeMap<String, (bool, bool)>, Status> {
    let _place = runtime.reads().catalogue().await.map_err(status::busy)?;
    let of_tool = |agent: v1::Agent| is_tool(&agent).then_some((agent.undoable, agent.needs_approval));
    let tools = kept_of_agents(runtime, of_tool).await?;
    let all = || tools.iter().take(RISK_TOOLS_MAX).map(|(name, facts)| (name.clone(), *facts));
    let of_built_in = |name: String| built_in_tool(&name).map(|tool| (name, (tool.undoable, false)));
    let mut facts: BTreeMap<String, (bool, bool)> = BTreeMap::new();
    if named.is_empty() {
        facts.extend(all());
    }
    let mut unknown = Vec::new();
    for (place, name) in named.into_iter().enumerate() {
        match tools.get(&name) {
            Some(known) => facts.extend([(name, *known)]),
            None if name == validate::ALL_AGENTS => facts.extend(all()),
            None if name == ALL_TOOLS => facts.extend(browser::names().filter_map(of_built_in)),
            None => match of_built_in(name.clone()) {
                Some(tool) => facts.extend([tool]),
                None => {
                    let shown: String = name.chars().take(NAME_SHOWN).collect();
                    let message = format!("there is no tool {shown:?}");
                    unknown.push(Violation::new(format!("tools[{place}]"), "tool", message));
                }
            },
        }
    }
    refuse(&unknown)?;
    Ok(facts)
}

/// Whether all agents that it names then were known when it was filled in.
async fn fill_in(runtime: &Runtime, run: &mut v1::ModeRun) -> Result<bool, Status> {
    let _place = runtime.reads().catalogue().await.map_err(status::busy)?;
    let agents = kept_of_agents(runtime, |agent| is_needed(run, &agent).then_some(agent)).await?;
    let mut violations = Vec::new();
    choose_planner(run, &agents, &mut violations);
    name_all(&mut run.tools, ALL_TOOLS, browser::names());
    choose_tools(run, &agents, &mut violations);
    violations.extend(prepare_browser(run));
    if violations.is_empty() {
        violations.extend(materialise_mode(run).err().unwrap_or_default());
        violations.extend(too_large(&*run));
    }
    if violations.is_empty() {
        for contract in mode_contracts(run) {
            if let Some(violation) =
                capataz_judge::Schema::compile(&contract).err().unwrap_or_default().first()
            {
                let message =
                    format!("with these tools there is no contract: {}", capataz_judge::shown(violation));
                violations.push(Violation::new("tools", "schema", message));
                break;
            }
        }
    }
    let under: Vec<Violation> = violations.into_iter().map(|violation| violation.under("mode")).collect();
    refuse(&under)?;
    Ok(agents_of(run).all(|name| agents.contains_key(name)))
}

fn choose_planner(
    run: &mut v1::ModeRun,
    agents: &BTreeMap<String, v1::Agent>,
    violations: &mut Vec<Violation>,
) {
    let planners = || agents.values().filter(|agent| agent.kind() == v1::AgentKind::Planner);
    if run.planner.is_empty() {
        let names: Vec<&str> = planners().map(|agent| agent.name.as_str()).collect();
        match names.as_slice() {
            [only] => (*only).clone_into(&mut run.planner),
            [] => violations.push(Violation::new(
                "planner",
                "required",
                "no agent of kind planner is known; connect one, or declare `[[planners]]` in capataz.toml"
                    .to_owned(),
            )),
            several => violations.push(Violation::new(
                "planner",
                "required",
                format!("there are several planners; name one of {}", several.join(", ")),
            )),
        }
    } else if let Some(agent) =
        agents.get(&run.planner).filter(|agent| agent.kind() != v1::AgentKind::Planner)
    {
        let kind = kind_name(agent.kind());
        let message = format!("`{}` is no planner: it is of kind {kind}", agent.name);
        violations.push(Violation::new("planner", "kind", message));
    }
}

/// The name that stands for all of these becomes those that are not named beside it. Whether it was there.
fn name_all(tools: &mut Vec<v1::ModeTool>, stands: &str, all: impl Iterator<Item = String>) -> bool {
    let Some(place) = tools.iter().position(|tool| tool.name == stands) else { return false };
    let given = tools.remove(place);
    let unnamed: Vec<String> = all.filter(|name| tools.iter().all(|tool| tool.name != *name)).collect();
    tools.extend(unnamed.into_iter().map(|name| v1::ModeTool { name, ..given.clone() }));
    true
}

/// Fills in what the browser of a run with such tools may do, as for an interactive session of actions.
fn prepare_browser(run: &mut v1::ModeRun) -> Vec<Violation> {
    if !run.tools.iter().any(|tool| browser::is_tool(&tool.name)) {
        return Vec::new();
    }
    let mut session = v1::Script {
        name: "browser".to_owned(),
        interactive: true,
        policy: Some(run.browser_policy.clone().unwrap_or_default()),
        browser: Some(run.browser.clone().unwrap_or_default()),
        ..v1::Script::default()
    };
    let found = dsl::check_script(&session);
    if found.is_empty() {
        dsl::materialise(&mut session);
        (run.browser_policy, run.browser) = (session.policy, session.browser);
    }
    let here = |path: &str| match path.strip_prefix("policy") {
        Some(below) => format!("browser_policy{below}"),
        None => path.to_owned(),
    };
    found.into_iter().map(|wrong| Violation::new(here(&wrong.path), "browser", wrong.message)).collect()
}

fn choose_tools(
    run: &mut v1::ModeRun,
    agents: &BTreeMap<String, v1::Agent>,
    violations: &mut Vec<Violation>,
) {
    if run.tools.is_empty() {
        run.tools.push(v1::ModeTool { name: validate::ALL_AGENTS.to_owned(), ..v1::ModeTool::default() });
    }
    let known = agents.values().filter(|agent| is_tool(agent)).map(|agent| agent.name.clone());
    if name_all(&mut run.tools, validate::ALL_AGENTS, known) {
        if run.tools.len() > validate::TOOLS_MAX {
            let message = format!(
                "{} tools with all that are known, and a run has at most {}; name those that it may use",
                run.tools.len(),
                validate::TOOLS_MAX
            );
            return violations.push(Violation::new("tools", "limit", message));
        }
        if run.tools.is_empty() {
            let built_in = BUILT_IN_TOOLS.join(", ");
            let message = format!(
                "no agent of kind tool is known; declare one, or name a tool that is built in: {built_in}, {ALL_TOOLS}"
            );
            return violations.push(Violation::new("tools", "required", message));
        }
    }
    if run.tools.len() > validate::TOOLS_MAX {
        let message =
            format!("{} tools with those of the browser; at most {}", run.tools.len(), validate::TOOLS_MAX);
        violations.push(Violation::new("tools", "limit", message));
    }
    for (place, tool) in run.tools.iter_mut().enumerate() {
        if let Some(BuiltIn { description, input_schema, undoable }) = built_in_tool(&tool.name) {
            (tool.description, tool.input_schema, tool.undoable) = (description, input_schema, undoable);
            continue;
        }
        // One that nobody knows is refused with all other names.
        let Some(agent) = agents.get(&tool.name) else { continue };
        if !is_tool(agent) {
            let kind = kind_name(agent.kind());
            let message = format!("`{}` is no tool: it is of kind {kind}", agent.name);
            violations.push(Violation::new(format!("tools[{place}].name"), "kind", message));
            continue;
        }
        tool.description.clone_from(&agent.description);
        tool.input_schema.clone_from(&agent.input_schema);
        tool.undoable = agent.undoable;
        tool.needs_approval |= agent.needs_approval;
    }
}

/// The browser's host is a tool of scripts, and understands nothing else.
fn is_tool(agent: &v1::Agent) -> bool {
    agent.kind() == v1::AgentKind::Tool && agent.name != BROWSER_AGENT
}

fn kind_name(kind: v1::AgentKind) -> &'static str {
    match kind {
        v1::AgentKind::Unspecified | v1::AgentKind::Task => "task",
        v1::AgentKind::Spec => "spec",
        v1::AgentKind::Planner => "planner",
        v1::AgentKind::Tool => "tool",
    }
}

#[tonic::async_trait]
impl ModeService for Modes {
    async fn choose_mode(
        &self,
        request: Request<v1::ChooseModeRequest>,
    ) -> Result<Response<v1::ChooseModeResponse>, Status> {
        let v1::ChooseModeRequest { session, mode } = request.into_inner();
        let mut violations = validate::session(&session);
        if v1::ExecutionMode::try_from(mode).unwrap_or_default() == v1::ExecutionMode::Unspecified {
            let message = "one of simple, planner and supervised is chosen".to_owned();
            violations.push(Violation::new("mode", "enum", message));
        }
        refuse(&violations)?;
        // A session may have any name, and nobody means a new one by the id of a run.
        if let Ok(run) = session.parse::<RunId>() {
            match self.runs.row(run).await {
                Ok(_) => {
                    let message = "a run stays in the mode in which it began: a mode is chosen for a session";
                    return Err(status::invalid_field("session", "run", message.to_owned()));
                }
                Err(error) if error.code() == Code::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        let chosen = self.runs.runtime().choose_mode(session, mode).await;
        let chosen = chosen.map_err(|declined| status::declined(&declined))?;
        Ok(Response::new(v1::ChooseModeResponse { seq: chosen.seq, before: chosen.before }))
    }

    async fn get_execution(
        &self,
        request: Request<v1::GetExecutionRequest>,
    ) -> Result<Response<v1::GetExecutionResponse>, Status> {
        let v1::GetExecutionRequest { run_id, at_seq, include_output } = request.into_inner();
        let state = self.runs.state_at(&run_id, (at_seq > 0).then_some(at_seq)).await?;
        Ok(Response::new(v1::GetExecutionResponse {
            state: state.execution(include_output),
            seq: state.seq(),
        }))
    }

    async fn create_checkpoint(
        &self,
        request: Request<v1::CreateCheckpointRequest>,
    ) -> Result<Response<v1::CreateCheckpointResponse>, Status> {
        let v1::CreateCheckpointRequest { run_id, reason, request_id, if_seq } = request.into_inner();
        if reason.trim().is_empty() || reason.len() > REASON_MAX {
            let message = format!("a reason has 1 to {REASON_MAX} bytes, and is not blank");
            return Err(status::invalid_field("reason", "length", message));
        }
        let input = Input::Checkpoint { reason, request_id: request_id.clone() };
        let (seq, ..) = self.runs.command(&run_id, &request_id, if_seq, input).await?;
        let state = self.runs.state_at(&run_id, Some(seq)).await?;
        let made = state.execution(false).unwrap_or_default().checkpoints;
        let checkpoint_id = made.into_iter().rev().find(|kept| kept.seq == seq);
        Ok(Response::new(v1::CreateCheckpointResponse {
            seq,
            checkpoint_id: checkpoint_id.map(|kept| kept.checkpoint_id).unwrap_or_default(),
        }))
    }

    async fn rollback_execution(
        &self,
        request: Request<v1::RollbackExecutionRequest>,
    ) -> Result<Response<v1::RollbackExecutionResponse>, Status> {
        let v1::RollbackExecutionRequest { run_id, checkpoint_id, request_id, if_seq } = request.into_inner();
        let input = Input::RollbackExecution { checkpoint: checkpoint_id, request_id: request_id.clone() };
        let (seq, ..) = self.runs.command(&run_id, &request_id, if_seq, input).await?;
        Ok(Response::new(v1::RollbackExecutionResponse { seq }))
    }

    async fn get_analytics(
        &self,
        request: Request<v1::GetAnalyticsRequest>,
    ) -> Result<Response<v1::GetAnalyticsResponse>, Status> {
        let since_ms = request.into_inner().since_ms;
        analytics(self.runs.runtime(), since_ms).await.map(Response::new)
    }

    async fn assess_risk(
        &self,
        request: Request<v1::AssessRiskRequest>,
    ) -> Result<Response<v1::AssessRiskResponse>, Status> {
        let v1::AssessRiskRequest { query, tools, language } = request.into_inner();
        let in_spanish = language_of(&language)? == Language::Spanish;
        refuse(&validate::query(&query))?;
        if tools.len() > validate::TOOLS_MAX {
            let message = format!("{} tools; at most {} are allowed", tools.len(), validate::TOOLS_MAX);
            return Err(status::invalid_field("tools", "limit", message));
        }
        let facts = facts_of(self.runs.runtime(), tools).await?;
        let facts: Vec<ToolFacts<'_>> = facts
            .iter()
            .map(|(name, (undoable, needs_approval))| ToolFacts {
                name,
                undoable: *undoable,
                needs_approval: *needs_approval,
            })
            .collect();
        let risk = assess(&query, &facts);
        Ok(Response::new(v1::AssessRiskResponse {
            estimated_steps: risk.estimated_steps,
            complexity_score: risk.complexity_score,
            risk_level: risk.risk_level.as_str().to_owned(),
            confidence: risk.confidence,
            reasoning: risk.reasoning.iter().map(|reason| reason.text(in_spanish)).collect(),
        }))
    }
}
