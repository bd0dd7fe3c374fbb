//! `capataz runs …`.

use capataz_contracts::{json, v1};
use capataz_policy::lifecycle::TaskState;
use serde_json::{Value, json};

use super::{Daemon, Outcome, ending, fetch, report, task_output, time_travel};
use crate::args::{Global, ListArgs, Patience, RunsCommand, WatchArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::watch::follow::{self, End, Options, Style, now_ms, record};
use crate::watch::lines::{self, Detail};
use capataz_display::frame::visible;
use capataz_display::model::Run;
use capataz_display::paint::Tone;
use capataz_display::report::Report;
use capataz_display::words::{fill, words};
use capataz_display::{explain, failed, payload, run as display};

/// Runs in one answer: the daemon's limit.
const PAGE: u32 = 500;

pub async fn runs(command: RunsCommand, global: &Global, out: &mut Output) -> Outcome {
    let daemon = &Daemon::connect(global).await?;
    match command {
        RunsCommand::List(args) => list(daemon, args, out).await,
        RunsCommand::Show { run, failed: true, all, at, .. } => failures(daemon, &run, all, at, out).await,
        RunsCommand::Show { run, outputs, states, at, .. } => {
            show(daemon, &run, outputs, &states, at, out).await
        }
        RunsCommand::Output(args) => task_output::output(daemon, args, out).await,
        RunsCommand::Diff { before, after, all } => {
            time_travel::diff(daemon, &before, &after, all, out).await
        }
        RunsCommand::Replay { run } => time_travel::replay(daemon, &run, out).await,
        RunsCommand::Continue(args) => super::run::continued(daemon, args, out).await,
        RunsCommand::Fork(args) => super::run::forked(daemon, args, out).await,
        RunsCommand::Watch(args) => watch(daemon, args, out).await,
        RunsCommand::Answer { run } => super::ask::again(daemon, &run, out).await,
        RunsCommand::Logs { run, follow } => logs(daemon, &run, follow, out).await,
        RunsCommand::Report(args) => report::report(daemon, args, out).await,
        RunsCommand::Explain { run } => explained(daemon, &run, out).await,
        RunsCommand::Export { run } => export(daemon, &run, out).await,
        steering => super::steer::steer(daemon, steering, out).await,
    }
}

async fn list(daemon: &Daemon, args: ListArgs, out: &mut Output) -> Outcome {
    let mut runs: Vec<v1::Run> = Vec::new();
    let mut page_token = args.page_token;
    let parent = match &args.parent {
        Some(parent) => Some(fetch::run_id(daemon, parent).await?),
        None => None,
    };
    // A page may be short, or empty, though there are more: each of them asks about the same time.
    let now = now_ms();
    let ago =
        |age: std::time::Duration| now.saturating_sub(i64::try_from(age.as_millis()).unwrap_or(i64::MAX));
    loop {
        let left = args.limit.saturating_sub(u32::try_from(runs.len()).unwrap_or(u32::MAX));
        if left == 0 {
            break;
        }
        let request = v1::ListRunsRequest {
            labels: args.labels.iter().cloned().collect(),
            status: args.status.map(|status| status as i32),
            outcome: args.outcome.map(|outcome| outcome as i32),
            kind: args.kind.map(|kind| kind as i32),
            page_size: left.min(PAGE),
            page_token,
            parent: parent.clone(),
            name: args.name.clone(),
            since_ms: args.since.map(ago),
            until_ms: args.until.map(ago),
            session: args.session.clone(),
        };
        let page = daemon.client.list_runs(request).await.map_err(|error| daemon.failure(error))?;
        runs.extend(page.runs);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    if out.json {
        let response = v1::ListRunsResponse { runs, next_page_token: page_token };
        let mut document = json::print("capataz.v1.ListRunsResponse", &response);
        // Protobuf's JSON form omits empty lists, but an empty list is the answer here.
        if let Some(object) = document.as_object_mut() {
            object.entry("runs").or_insert_with(|| json!([]));
        }
        out.document(&document);
        return Ok(Exit::Ok);
    }
    if runs.is_empty() {
        out.line(words().runs.none);
        return Ok(Exit::Ok);
    }
    out.line(&display::list(&runs, now_ms(), out.paint));
    if !page_token.is_empty() {
        out.note(&fill(words().runs.more, &[&page_token]));
    }
    Ok(Exit::Ok)
}

async fn show(
    daemon: &Daemon,
    run: &str,
    outputs: bool,
    states: &[TaskState],
    at: Option<u64>,
    out: &mut Output,
) -> Outcome {
    let run_id = fetch::run_id(daemon, run).await?;
    let mut run = fetch::run_at(daemon, &run_id, at, outputs).await?;
    let is_script = run.kind() == v1::RunKind::Script;
    // People see its actions, and programs the tasks below them.
    if is_script && !out.json && !states.is_empty() {
        return Err(Failure::invalid(fill(words().runs.states_of_script, &[&run_id])));
    }
    if !states.is_empty() {
        let wanted = |task: &v1::TaskView| {
            TaskState::from_proto(task.state).is_some_and(|state| states.contains(&state))
        };
        run.waves.iter_mut().for_each(|wave| wave.tasks.retain(wanted));
    }
    if out.json {
        out.document(&json::print("capataz.v1.Run", &run));
        return Ok(Exit::Ok);
    }
    // What had not ended by then has lasted until then, and not until now.
    let now = if at.is_some() { run.updated_at_ms } else { now_ms() };
    if let Some(at) = at {
        out.note(&fill(words().time_travel.as_it_was, &[&at.to_string()]));
    }
    if is_script {
        // Its outputs are there in any case.
        return show_script(daemon, &run, at, now, out).await;
    }
    out.line(&display::show(&run, now, out.form, out.paint));
    if run.kind() == v1::RunKind::Ask {
        super::ask::tell(daemon, &run, at, out).await?;
        if !outputs {
            return Ok(Exit::Ok);
        }
    }
    let tasks = run.waves.iter().flat_map(|wave| &wave.tasks);
    for (task, output) in tasks.filter_map(|task| Some((task, task.output.as_ref()?))) {
        let title = fill(words().watch.output_of, &[&visible(&task.name)]);
        out.line(&format!("\n{}", out.paint.text(Tone::Strong, &title)));
        let texts = &words().watch;
        let body = match payload::excerpt(output) {
            Some(excerpt) => excerpt,
            None if payload::size(output) == 0 => texts.output_empty.to_owned(),
            None => fill(texts.output_elsewhere, &[&run_id, &visible(&task.name)]),
        };
        out.line(&body);
    }
    Ok(Exit::Ok)
}

/// Prints what has failed, and nothing else.
async fn failures(daemon: &Daemon, run: &str, all: bool, at: Option<u64>, out: &mut Output) -> Outcome {
    let run_id = fetch::run_id(daemon, run).await?;
    let run = fetch::run_at(daemon, &run_id, at, false).await?;
    // Both tell of the same moment.
    let events = report::read(daemon, &run_id, run.seq).await?;
    let failed = failed::of_run(&run, &events);
    if out.json {
        out.document(&failed::document(&run, &failed));
        return Ok(Exit::Ok);
    }
    if let Some(at) = at {
        out.note(&fill(words().time_travel.as_it_was, &[&at.to_string()]));
    }
    let report = Report { run: &run, events: &events, answer: None, verbose: false, form: out.form };
    let of_script = report.failure_of_script(out.paint);
    out.line(&of_script.unwrap_or_else(|| failed::text(&run, &failed, all, out.form, out.paint)));
    Ok(Exit::Ok)
}

/// Prints a script by its actions, which its events describe. The waves below the actions are an implementation detail.
async fn show_script(daemon: &Daemon, run: &v1::Run, at: Option<u64>, now: i64, out: &mut Output) -> Outcome {
    let events = report::read(daemon, &run.run_id, at.unwrap_or(u64::MAX)).await?;
    let report = Report { run, events: &events, answer: None, verbose: true, form: out.form };
    out.line(&report.whole(now, out.paint));
    Ok(Exit::Ok)
}

async fn watch(daemon: &Daemon, args: WatchArgs, out: &mut Output) -> Outcome {
    let run_id = fetch::run_id(daemon, &args.run).await?;
    let style = if out.json { Style::Json } else { super::run::style_for_people(out) };
    let Patience { timeout, exit_on_question } = args.patience;
    let options = Options { style, timeout, exit_on_question, progress: args.progress };
    let (model, end) =
        follow::follow(&daemon.client, &run_id, options, out).await.map_err(|error| daemon.failure(error))?;
    // A reader that has gone has read what it wanted, whatever becomes of the run.
    if out.is_closed() {
        Ok(Exit::Ok)
    } else if end != End::Finished || !model.is_finished() {
        Ok(ending::unfinished(daemon, &run_id, &model, end, options.timeout, out))
    } else if out.json {
        Ok(Exit::of_outcome(model.outcome))
    } else {
        ending::finished(daemon, &run_id, &model, out).await
    }
}

async fn logs(daemon: &Daemon, run: &str, follow: bool, out: &mut Output) -> Outcome {
    let run_id = fetch::run_id(daemon, run).await?;
    if follow {
        let style = if out.json { Style::Json } else { Style::Lines(Detail::Everything) };
        let options = Options { style, timeout: None, exit_on_question: false, progress: false };
        let (_, end) = follow::follow(&daemon.client, &run_id, options, out)
            .await
            .map_err(|error| daemon.failure(error))?;
        return Ok(match end {
            End::Interrupted => Exit::Interrupted,
            End::Gone => Exit::Unreachable,
            _ => Exit::Ok,
        });
    }
    let mut model = Run::default();
    for_each_event(daemon, &run_id, out, |event, out| {
        model.apply(event);
        if out.json {
            out.record(&record(&run_id, event, None));
        } else if let Some(line) = lines::render(&model, &run_id, event, Detail::Everything, out.paint) {
            out.line(&line);
        }
    })
    .await
}

async fn explained(daemon: &Daemon, run: &str, out: &mut Output) -> Outcome {
    let run_id = fetch::run_id(daemon, run).await?;
    let mut events = Vec::new();
    for_each_event(daemon, &run_id, out, |event, _| events.push(event.clone())).await?;
    let decisions = explain::explain(&events);
    if out.json {
        let listed: Vec<Value> = decisions.iter().map(explain::Decision::to_json).collect();
        out.document(&json!({ "run_id": run_id, "decisions": listed }));
    } else {
        out.line(&explain::text(&decisions, out.paint));
    }
    Ok(Exit::Ok)
}

async fn export(daemon: &Daemon, run: &str, out: &mut Output) -> Outcome {
    let run_id = fetch::run_id(daemon, run).await?;
    for_each_event(daemon, &run_id, out, |event, out| out.record(&json::print("capataz.v1.Event", event)))
        .await
}

/// Calls the function for every event that is stored now, until the reader of the output has gone.
async fn for_each_event(
    daemon: &Daemon,
    run_id: &str,
    out: &mut Output,
    mut show: impl FnMut(&v1::Event, &mut Output),
) -> Outcome {
    let mut events = daemon.client.export_run(run_id).await.map_err(|error| daemon.failure(error))?;
    while let Some(event) = events.next().await {
        show(&event.map_err(|error| daemon.failure(error))?, out);
        if out.is_closed() {
            break;
        }
    }
    Ok(Exit::Ok)
}
