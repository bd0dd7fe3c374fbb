//! `capataz agents …`.

use capataz_contracts::{json, v1};
use capataz_policy::codes;
use serde_json::{Value, json};

use super::{Daemon, Outcome, fetch};
use crate::args::{AgentsCommand, Global};
use crate::exit::Exit;
use crate::failure::{Failure, insert_near};
use crate::near::{self, Near};
use crate::output::Output;
use crate::watch::follow::now_ms;
use capataz_display::error::{self, Context};
use capataz_display::paint::{Paint, Tone};
use capataz_display::table::Table;
use capataz_display::words::{counted, fill, words};
use capataz_display::{agent_stats, format};

pub async fn agents(command: AgentsCommand, global: &Global, out: &mut Output) -> Outcome {
    let daemon = Daemon::connect(global).await?;
    match command {
        AgentsCommand::List => list(&daemon, out).await,
        AgentsCommand::Stats { names, runs } => stats(&daemon, &names, runs, out).await,
        AgentsCommand::Check { names, commands, resources } => {
            let request = v1::CheckAgentsRequest { agents: names, commands, resources };
            check(&daemon, request, out).await
        }
    }
}

async fn list(daemon: &Daemon, out: &mut Output) -> Outcome {
    let agents = daemon.client.list_agents().await.map_err(|error| daemon.failure(error))?;
    if out.json {
        let listed = v1::ListAgentsResponse { agents, ..v1::ListAgentsResponse::default() };
        let mut document = json::print("capataz.v1.ListAgentsResponse", &listed);
        if let Some(object) = document.as_object_mut() {
            object.entry("agents").or_insert_with(|| Value::Array(Vec::new()));
        }
        out.document(&document);
        return Ok(Exit::Ok);
    }
    out.line(&table(&agents, out.paint));
    Ok(Exit::Ok)
}

/// The agents with their workers and tasks, or that there are none.
pub(super) fn table(agents: &[v1::AgentStatus], paint: Paint) -> String {
    let mut table = Table::new(words().agents.head);
    for status in agents {
        table.row(row(status, now_ms()));
    }
    if table.is_empty() { words().agents.none.to_owned() } else { table.render(paint) }
}

fn row(status: &v1::AgentStatus, now_ms: i64) -> [(String, Tone); 9] {
    let texts = &words().agents;
    let agent = status.agent.clone().unwrap_or_default();
    let kind = match agent.kind() {
        v1::AgentKind::Unspecified | v1::AgentKind::Task => "task",
        v1::AgentKind::Spec => "spec",
        v1::AgentKind::Planner => "planner",
        v1::AgentKind::Tool => "tool",
    };
    let source = match status.source() {
        v1::AgentSource::Process => texts.process,
        v1::AgentSource::Worker => texts.worker,
        v1::AgentSource::Declared => texts.declared,
        v1::AgentSource::Unspecified => "",
    };
    let last_seen = match status.last_seen_ms {
        _ if status.workers > 0 => texts.now.to_owned(),
        Some(at) => fill(texts.ago, &[&format::age(now_ms.saturating_sub(at))]),
        None => String::new(),
    };
    // Queued or declared work for an agent that no worker serves deserves attention.
    let absent = status.workers == 0 && status.source() != v1::AgentSource::Process;
    // How many tasks each of its workers takes, a worker says.
    let at_once = if absent { String::new() } else { agent.max_concurrency.max(1).to_string() };
    let (waiting, queued) = match status.held_for_ms {
        Some(held) => (fill(texts.held, &[&status.queued.to_string(), &format::took(held)]), Tone::Warning),
        None if absent && status.queued > 0 => (status.queued.to_string(), Tone::Warning),
        None => (status.queued.to_string(), Tone::Plain),
    };
    [
        (agent.name, Tone::Strong),
        (agent.category, Tone::Plain),
        (kind.to_owned(), Tone::Plain),
        (source.to_owned(), Tone::Plain),
        (status.workers.to_string(), Tone::Plain),
        (at_once, Tone::Plain),
        (status.running.to_string(), Tone::Plain),
        (waiting, queued),
        (last_seen, Tone::Faint),
    ]
}

async fn stats(daemon: &Daemon, names: &[String], newest: u32, out: &mut Output) -> Outcome {
    let request = v1::ListRunsRequest { page_size: newest, ..v1::ListRunsRequest::default() };
    let runs = fetch::newest(daemon, request).await?;
    let looked_at = runs.len();
    let mut tasks = Vec::new();
    // A damaged run is not read, and the others count all the same.
    for run in runs.iter().filter(|run| run.quarantine.is_none()) {
        let run = fetch::run(daemon, &run.run_id, false).await?;
        tasks.extend(agent_stats::own_tasks(run));
    }
    let is_wanted = |task: &&v1::TaskView| names.is_empty() || names.contains(&task.agent);
    let agents = agent_stats::of_tasks(tasks.iter().filter(is_wanted));
    if out.json {
        let listed: Vec<Value> = agents.iter().map(|(agent, stats)| stats.to_json(agent)).collect();
        out.document(&json!({ "runs": looked_at, "agents": listed }));
        return Ok(Exit::Ok);
    }
    let texts = &words().agent_stats;
    if agents.is_empty() {
        out.line(&fill(texts.none, &[&looked_at.to_string()]));
        return Ok(Exit::Ok);
    }
    out.line(&agent_stats::table(&agents, out.paint));
    out.note(&counted(looked_at as u64, texts.runs_one, texts.runs_many));
    Ok(Exit::Ok)
}

async fn check(daemon: &Daemon, request: v1::CheckAgentsRequest, out: &mut Output) -> Outcome {
    let response = daemon.client.check_agents(request).await.map_err(|error| daemon.failure(error))?;
    let exit = if response.can_proceed { Exit::Ok } else { Exit::Failed };
    // The answer is whole without them.
    let near = near_agents(daemon, &response.details).await.unwrap_or_default();
    if out.json {
        let mut document = json::print("capataz.v1.CheckAgentsResponse", &response);
        // Protobuf's JSON form omits false fields; here false is the answer.
        if let Some(object) = document.as_object_mut() {
            object.insert("can_proceed".to_owned(), response.can_proceed.into());
        }
        // The same as beside the error of a run that names such an agent.
        insert_near(&mut document, &near);
        out.document(&document);
        return Ok(exit);
    }
    let mut details = response.details;
    for check in details.iter_mut().filter(|check| is_unknown_agent(check)) {
        let of_check = near.iter().find(|near| near.name == check.name);
        check.suggestions.extend(of_check.into_iter().flat_map(|near| near.names.iter().cloned()));
    }
    for detail in &details {
        out.line(&shown(detail, out));
    }
    let texts = &words().agents;
    out.line(&fill(texts.checked, &[&response.valid.to_string(), &response.total.to_string()]));
    Ok(exit)
}

fn is_unknown_agent(check: &v1::NameCheck) -> bool {
    !check.valid && check.kind == "agent"
}

/// What is near unknown names of agents, beside what the answer has, which goes by whole names.
async fn near_agents(daemon: &Daemon, details: &[v1::NameCheck]) -> Result<Vec<Near>, Failure> {
    let unknown: Vec<&v1::NameCheck> = details.iter().filter(|check| is_unknown_agent(check)).collect();
    if unknown.is_empty() {
        return Ok(Vec::new());
    }
    let known = near::agents(daemon).await?;
    let of_check = |check: &&v1::NameCheck| {
        let mut names = near::names(&check.name, known.iter().map(String::as_str));
        names.retain(|name| !check.suggestions.contains(name));
        Near { name: check.name.clone(), names }
    };
    Ok(unknown.iter().map(of_check).filter(|near| !near.names.is_empty()).collect())
}

/// Formats an unknown name as the error that it would be at the start of a run.
fn shown(check: &v1::NameCheck, out: &Output) -> String {
    let category = check.category.as_deref().filter(|category| !category.is_empty());
    if check.valid {
        let texts = &words().agents;
        let kind = match check.kind.as_str() {
            "command" => texts.a_command,
            "resource" => texts.a_resource,
            _ => texts.an_agent,
        };
        let name = match category {
            Some(category) => format!("{kind} {} ({category})", check.name),
            None => format!("{kind} {}", check.name),
        };
        return error::ok(&name, out.paint);
    }
    let unknown = v1::Error {
        code: check.code.clone().unwrap_or_else(|| codes::AGENT_NOT_FOUND.into()),
        message: format!("there is no {} {:?}", check.kind, check.name),
        suggestions: check.suggestions.clone(),
        ..v1::Error::default()
    };
    error::error(&unknown, &Context { form: out.form, ..Context::default() }, out.paint)
}
