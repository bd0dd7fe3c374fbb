//! `capataz status` and `capataz stop`: the daemon of a data folder, as it is, and its end.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use capataz_contracts::v1;
use capataz_daemon::{Config, Holder, Listening, Overrides};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::{Daemon, Outcome, agents};
use crate::address::url;
use crate::args::{FolderArgs, Global, StatusArgs, StopArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::watch::follow::now_ms;
use capataz_display::error;
use capataz_display::format::{exactly, took, utc};
use capataz_display::frame::visible;
use capataz_display::paint::Tone;
use capataz_display::run::unfinished_name;
use capataz_display::words::{counted, fill, words};

/// Runs in one answer of the daemon, and answers that are read to count the runs of a status.
const PAGE: u32 = 500;
const PAGES: usize = 20;
/// How long one look at the end of a daemon takes, after which it is said what the daemon waits for.
const LOOK: Duration = Duration::from_secs(1);

/// What the names of the daemon's own agents begin with.
const OWN_AGENTS: &str = "capataz.";

/// The statuses of runs that have not ended.
const UNFINISHED: [v1::RunStatus; 4] =
    [v1::RunStatus::Running, v1::RunStatus::Waiting, v1::RunStatus::Paused, v1::RunStatus::Cancelling];

pub async fn status(args: StatusArgs, global: &Global, out: &mut Output) -> Outcome {
    let (daemon, local) = if global.addr.is_some() {
        (Daemon::connect(global).await?, None)
    } else {
        let (data_dir, holder) = holder(&args.folder)?;
        let listening = listening(&data_dir, &holder)?.clone();
        (Daemon::connect_to(&url(listening.address)).await?, Some((data_dir, holder, listening)))
    };
    let state = state(&daemon).await;
    let runs = unfinished(&daemon).await?;
    let agents = daemon.client.list_agents().await.map_err(|error| daemon.failure(error))?;
    if out.json {
        let counts: serde_json::Map<String, Value> =
            runs.iter().map(|(status, count)| (name(*status), json!(count.number))).collect();
        let agents: Vec<Value> = agents.iter().map(agent_json).collect();
        let mut document = json!({
            "address": daemon.address(),
            "state": state,
            "runs": counts,
            "more_runs": runs.iter().any(|(_, count)| count.more),
            "agents": agents,
        });
        if let (Some(document), Some((data_dir, holder, listening))) = (document.as_object_mut(), local) {
            document.insert("process".to_owned(), holder.process().into());
            document.insert("version".to_owned(), listening.version.into());
            document.insert("since_ms".to_owned(), listening.since_ms.into());
            document.insert("data_dir".to_owned(), data_dir.display().to_string().into());
        }
        out.document(&document);
        return Ok(Exit::Ok);
    }
    let texts = &words().status;
    let said = match state {
        SERVING => texts.serves,
        DRAINING => texts.drains,
        _ => texts.unknown,
    };
    let head = fill(said, &[daemon.address()]);
    let tone = if state == SERVING { Tone::Good } else { Tone::Warning };
    out.line(&out.paint.text(tone, &visible(&head)));
    if let Some((data_dir, holder, listening)) = local {
        let age = took(now_ms().saturating_sub(listening.since_ms));
        let process = holder.process().to_string();
        out.line(&fill(
            texts.process,
            &[&process, &visible(&listening.version), &utc(listening.since_ms), &age],
        ));
        out.line(&fill(words().serve.data, &[&data_dir.display().to_string()]));
    }
    out.line(&runs_line(&runs));
    out.line("");
    // The daemon's own agents are worth a line while they work.
    let is_shown = |status: &v1::AgentStatus| {
        let is_own = status.agent.as_ref().is_some_and(|agent| agent.name.starts_with(OWN_AGENTS));
        !is_own || status.running > 0 || status.queued > 0
    };
    let shown: Vec<v1::AgentStatus> = agents.into_iter().filter(is_shown).collect();
    out.line(&agents::table(&shown, out.paint));
    Ok(Exit::Ok)
}

fn agent_json(status: &v1::AgentStatus) -> Value {
    json!({
        "name": status.agent.as_ref().map(|agent| agent.name.as_str()).unwrap_or_default(),
        "workers": status.workers,
        "running": status.running,
        "queued": status.queued,
    })
}

/// The name of a status in JSON.
fn name(status: v1::RunStatus) -> String {
    status.as_str_name().trim_start_matches("RUN_STATUS_").to_ascii_lowercase()
}

/// Of which status there are how many runs.
fn runs_line(runs: &[(v1::RunStatus, Count)]) -> String {
    let texts = &words().status;
    let parts: Vec<String> = runs
        .iter()
        .filter(|(_, count)| count.number > 0)
        .map(|(status, count)| {
            let template = if count.more { texts.more_runs } else { texts.runs };
            fill(template, &[&count.number.to_string(), unfinished_name(*status)])
        })
        .collect();
    if parts.is_empty() { texts.idle.to_owned() } else { fill(texts.all_runs, &[&parts.join(", ")]) }
}

pub async fn stop(args: StopArgs, global: &Global, out: &mut Output) -> Outcome {
    let texts = &words().status;
    let (data_dir, holder) = holder(&args.folder)?;
    let listening = listening(&data_dir, &holder)?.clone();
    if let Some(addr) = global.addr.as_ref().filter(|addr| !is_address(addr, listening.address)) {
        let place = data_dir.display().to_string();
        let message = fill(texts.elsewhere, &[&place, &url(listening.address), addr]);
        return Err(unreachable(message, texts.elsewhere_hint));
    }
    let begun = Instant::now();
    // It is asked what it waits for as long as it answers.
    let daemon = timeout(LOOK, Daemon::connect_to(&url(listening.address))).await.ok().and_then(Result::ok);
    let failed = |error: std::io::Error| Failure::failed(fill(texts.not_asked, &[&error.to_string()]));
    // Whoever asks twice says so: another `stop`, or systemd, may have asked before.
    let drains = match &daemon {
        Some(daemon) => timeout(LOOK, state(daemon)).await == Ok(DRAINING),
        None => false,
    };
    if !drains {
        holder.ask_to_end().map_err(failed)?;
    }
    if !out.json {
        let text = if drains { texts.drains } else { texts.asked };
        out.note(&fill(text, &[&url(listening.address), &holder.process().to_string()]));
    }
    let holder = Arc::new(holder);
    let mut told = String::new();
    let has_ended = loop {
        let left = args.timeout.map(|limit| limit.saturating_sub(begun.elapsed()));
        let look = left.map_or(LOOK, |left| left.min(LOOK));
        let waiting = Arc::clone(&holder);
        let looked = tokio::task::spawn_blocking(move || waiting.wait(look)).await;
        if looked.unwrap_or_else(|error| Err(std::io::Error::other(error))).map_err(failed)? {
            break true;
        }
        if left.is_some_and(|left| left <= look) {
            break false;
        }
        if let Some(waits_for) = waits_for(daemon.as_ref()).await
            && waits_for != told
            && !out.json
        {
            out.note(&waits_for);
            told = waits_for;
        }
    };
    let waited_ms = i64::try_from(begun.elapsed().as_millis()).unwrap_or(i64::MAX);
    if out.json {
        out.document(&json!({
            "address": url(listening.address),
            "process": holder.process(),
            "ended": has_ended,
            "waited_ms": waited_ms,
        }));
    } else if has_ended {
        out.line(&error::ok(&fill(texts.ended, &[&url(listening.address), &took(waited_ms)]), out.paint));
    } else {
        let limit = args.timeout.and_then(|limit| i64::try_from(limit.as_millis()).ok()).unwrap_or_default();
        out.note(&fill(texts.not_ended, &[&exactly(limit)]));
    }
    Ok(if has_ended { Exit::Ok } else { Exit::StillRunning })
}

/// What the daemon waits for: running tasks, by agent. `None` where it does not say, or waits for nothing.
async fn waits_for(daemon: Option<&Daemon>) -> Option<String> {
    let agents = timeout(LOOK, daemon?.client.list_agents()).await.ok()?.ok()?;
    let mut running: BTreeMap<String, u64> = BTreeMap::new();
    for status in agents.into_iter().filter(|status| status.running > 0) {
        running.insert(status.agent.unwrap_or_default().name, status.running.into());
    }
    let tasks: u64 = running.values().sum();
    let names: Vec<String> =
        running.iter().map(|(name, tasks)| format!("{} ({tasks})", visible(name))).collect();
    let texts = &words().status;
    let text = counted(tasks, texts.waits_one, texts.waits_many);
    (tasks > 0).then(|| format!("{text} {}", names.join(", ")))
}

/// The daemon that has the folder.
fn holder(args: &FolderArgs) -> Result<(PathBuf, Holder), Failure> {
    let overrides = Overrides { data_dir: args.data_dir.clone(), ..Overrides::default() };
    let config = Config::load(args.config.as_deref(), overrides).map_err(Failure::of_config)?;
    // Whoever reads it may be in another folder.
    let data_dir = std::path::absolute(&config.data_dir).unwrap_or(config.data_dir);
    let place = data_dir.display().to_string();
    let texts = &words().status;
    match Holder::of(&data_dir) {
        Ok(Some(holder)) => Ok((data_dir, holder)),
        Ok(None) => Err(unreachable(fill(texts.none, &[&place]), texts.none_hint)),
        Err(error) => Err(Failure::failed(fill(texts.not_known, &[&place, &error.to_string()]))),
    }
}

/// Where it listens. Who has the folder and does not listen starts or ends, or is another command that works on it.
fn listening<'h>(data_dir: &std::path::Path, holder: &'h Holder) -> Result<&'h Listening, Failure> {
    let texts = &words().status;
    holder.listening().ok_or_else(|| {
        let place = data_dir.display().to_string();
        unreachable(fill(texts.silent, &[&holder.process().to_string(), &place]), texts.silent_hint)
    })
}

fn unreachable(message: String, hint: &str) -> Failure {
    Failure::Local { exit: Exit::Unreachable, message, hint: Some(hint.to_owned()) }
}

/// Whether the URL, or host and port, is this address.
fn is_address(named: &str, address: SocketAddr) -> bool {
    let named = named.strip_prefix("http://").unwrap_or(named).trim_end_matches('/');
    named.replace("localhost:", "127.0.0.1:").parse() == Ok(address)
}

pub const SERVING: &str = "serving";
const DRAINING: &str = "draining";

/// What the health service says of the daemon: it serves, it drains, or nothing.
pub async fn state(daemon: &Daemon) -> &'static str {
    let request = HealthCheckRequest { service: String::new() };
    match HealthClient::new(daemon.client.channel())
        .check(request)
        .await
        .map(|said| said.into_inner().status())
    {
        Ok(ServingStatus::Serving) => SERVING,
        Ok(ServingStatus::NotServing) => DRAINING,
        Ok(ServingStatus::Unknown | ServingStatus::ServiceUnknown) | Err(_) => "unknown",
    }
}

/// A number of runs, and whether there are more of them that were not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    number: usize,
    more: bool,
}

/// The runs that have not ended, by status.
async fn unfinished(daemon: &Daemon) -> Result<Vec<(v1::RunStatus, Count)>, Failure> {
    let mut counts = Vec::new();
    for status in UNFINISHED {
        let mut count = Count::default();
        let mut page_token = String::new();
        for _ in 0..PAGES {
            let request = v1::ListRunsRequest {
                status: Some(status.into()),
                page_size: PAGE,
                page_token,
                ..v1::ListRunsRequest::default()
            };
            let page = daemon.client.list_runs(request).await.map_err(|error| daemon.failure(error))?;
            count.number += page.runs.len();
            page_token = page.next_page_token;
            if page_token.is_empty() {
                break;
            }
        }
        count.more = !page_token.is_empty();
        counts.push((status, count));
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_the_same_with_and_without_its_scheme() {
        let address = SocketAddr::from(([127, 0, 0, 1], 7411));
        for named in ["http://127.0.0.1:7411", "127.0.0.1:7411", "http://localhost:7411/"] {
            assert!(is_address(named, address), "{named}");
        }
        for named in ["http://127.0.0.1:7412", "unix:/run/capataz", "7411", ""] {
            assert!(!is_address(named, address), "{named}");
        }
    }

    #[test]
    fn only_statuses_that_some_runs_have_are_listed() {
        let of = |running, waiting, paused| {
            let counts = [running, waiting, paused].map(|(number, more)| Count { number, more });
            let statuses = [v1::RunStatus::Running, v1::RunStatus::Waiting, v1::RunStatus::Paused];
            statuses.into_iter().zip(counts).collect::<Vec<_>>()
        };
        let none = of((0, false), (0, false), (0, false));
        assert_eq!(runs_line(&none), "runs: none is unfinished");
        let some = of((2, false), (0, false), (500, true));
        assert_eq!(runs_line(&some), "runs: 2 running, 500 or more paused");
    }
}
