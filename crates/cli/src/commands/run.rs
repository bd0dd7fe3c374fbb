//! `capataz run`.

use std::time::Duration;

use capataz_client::ClientError;
use capataz_contracts::{Violation, json, v1};
use capataz_daemon::Places;
use serde_json::Value;

use super::state_sync::{LOOKED_AT, StateSync};
use super::{Daemon, Outcome, ending, fetch, local};
use crate::args::{ContinueArgs, Following, ForkArgs, Global, LocalArgs, Patience, RunArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::pipeline_source;
use crate::plan_source;
use crate::watch::follow::{self, End, Options, Style};
use crate::watch::lines::Detail;
use capataz_display::model::Run;
use capataz_display::words::{fill, words};

pub async fn run(args: RunArgs, global: &Global, out: &mut Output) -> Outcome {
    let mut looked = plan_source::look(&args.file, args.format.map(Into::into))?;
    if !looked.is_valid() {
        looked.add(unknown_names(&Places::of_plan(looked.document(), ""), Some(&args.local), global).await);
    }
    let mut plan = looked.checked()?;
    if args.session.is_some() {
        plan.session = args.session;
    }
    let (daemon, place) = local::connect(&args.local, global, out).await?;
    let work = async |out: &mut Output| {
        let state = match &plan.session {
            Some(session) => StateSync::begin(&daemon, session, args.state.as_deref(), out).await?,
            None => None,
        };
        let request = v1::StartRunRequest {
            labels: args.labels.into_iter().collect(),
            idempotency_key: args.key,
            ..v1::StartRunRequest::of_plan(plan)
        };
        let started = daemon.client.start_run(request).await.map_err(|error| daemon.failure(error))?;
        follow_started(&daemon, started, args.following, state.as_ref(), out).await
    };
    place.during(work, out).await
}

/// How long a daemon may take to say which names it knows, where what names them is wrong anyway.
const TELLS: Duration = Duration::from_secs(2);

/// The names that the daemon does not know, so that they are told with all else that is wrong. None where it does not answer
/// at once. The one of `--local` is not started for it.
pub async fn unknown_names(places: &Places, local: Option<&LocalArgs>, global: &Global) -> Vec<Violation> {
    let asked = async {
        match local.filter(|args| args.local) {
            Some(args) => local::check_names(args, places.names()).await,
            None => Daemon::connect(global).await.ok()?.client.check_agents(places.names()).await.ok(),
        }
    };
    match tokio::time::timeout(TELLS, asked).await {
        Ok(Some(checked)) => places.unknown(&checked),
        Ok(None) | Err(_) => Vec::new(),
    }
}

/// Starts a run that goes on where another one has ended.
pub async fn continued(daemon: &Daemon, args: ContinueArgs, out: &mut Output) -> Outcome {
    let run_id = fetch::run_id(daemon, &args.run).await?;
    let failed = |error| daemon.failure(error).about(&run_id);
    let summary =
        v1::GetRunRequest { run_id: run_id.clone(), summary_only: true, ..v1::GetRunRequest::default() };
    let before = daemon.client.get_run(summary).await.map_err(failed)?.run.unwrap_or_default();
    let state = match &before.session {
        Some(session) => StateSync::begin(daemon, session, args.state.as_deref(), out).await?,
        None if args.state.is_some() => {
            return Err(Failure::invalid(fill(words().runs.no_session, &[&run_id])));
        }
        None => None,
    };
    let request = v1::ContinueRunRequest {
        run_id: run_id.clone(),
        labels: args.labels.into_iter().collect(),
        idempotency_key: args.key,
    };
    let response = daemon.client.continue_run(request).await.map_err(failed)?;
    if !out.json {
        out.note(&fill(words().runs.continued, &[&run_id]));
    }
    let started = v1::StartRunResponse { run_id: response.run_id, created: response.created };
    follow_started(daemon, started, args.following, state.as_ref(), out).await
}

/// Starts a run that goes on from the middle of another one.
pub async fn forked(daemon: &Daemon, args: ForkArgs, out: &mut Output) -> Outcome {
    let input = pipeline_source::input(&args.inputs, args.input_file.as_deref(), out)?;
    let run_id = fetch::run_id(daemon, &args.run).await?;
    let input = match input {
        Some(contents) => Some(super::pipeline::payload(daemon, contents).await?),
        None => None,
    };
    let request = v1::ForkRunRequest {
        run_id: run_id.clone(),
        at_seq: args.at,
        labels: args.labels.into_iter().collect(),
        idempotency_key: args.key,
        input,
    };
    let forked = daemon.client.fork_run(request).await;
    let response = forked.map_err(|error| daemon.failure(error).about(&run_id))?;
    if !out.json && response.created {
        out.note(&fill(words().runs.forked, &[&run_id, &response.at_seq.to_string()]));
    }
    let started = v1::StartRunResponse { run_id: response.run_id, created: response.created };
    follow_started(daemon, started, args.following, None, out).await
}

/// Follows a run that was just started, as far as that is wanted.
pub async fn follow_started(
    daemon: &Daemon,
    started: v1::StartRunResponse,
    following: Following,
    state: Option<&StateSync>,
    out: &mut Output,
) -> Outcome {
    let Following { watch, wait, detach, patience, progress } = following;
    let run_id = started.run_id.clone();
    if detach {
        detached(&started, out);
        return Ok(Exit::Ok);
    }
    begun(&started, out);
    let style = match (watch, out.json) {
        (true, true) => Style::Json,
        (true, false) => style_for_people(out),
        (false, false) if !wait => style_for_people(out),
        (false, _) => Style::Silent,
    };
    let Patience { timeout, exit_on_question } = patience;
    let options = Options { style, timeout, exit_on_question, progress };
    let followed = follow_both(daemon, &run_id, options, state, out).await;
    let (model, end) = followed.map_err(|error| daemon.failure(error))?;
    let finished = end == End::Finished && model.is_finished();
    if watch || !out.json {
        return if !finished {
            Ok(ending::unfinished(daemon, &run_id, &model, end, options.timeout, out))
        } else if out.json {
            Ok(Exit::of_outcome(model.outcome))
        } else {
            ending::finished(daemon, &run_id, &model, out).await
        };
    }
    if !finished {
        let exit = ending::unfinished(daemon, &run_id, &model, end, options.timeout, out);
        answer(daemon, started, false, out).await?;
        return Ok(exit);
    }
    answer(daemon, started, true, out).await?;
    Ok(Exit::of_outcome(model.outcome))
}

/// Follows the run, and has the state file follow its session.
async fn follow_both(
    daemon: &Daemon,
    run_id: &str,
    options: Options,
    state: Option<&StateSync>,
    out: &mut Output,
) -> Result<(Run, End), ClientError> {
    let Some(state) = state else { return follow::follow(&daemon.client, run_id, options, out).await };
    let followed = tokio::select! {
        followed = follow::follow(&daemon.client, run_id, options, out) => followed,
        () = state.follow(&daemon.client, run_id, LOOKED_AT) => std::future::pending().await,
    };
    if let Err(error) = state.write(&daemon.client).await {
        out.note(&fill(words().sessions.not_written, &[&error]));
    }
    state.tell(out);
    followed
}

/// Prints the start of a run for a command that does not wait.
pub fn detached(started: &v1::StartRunResponse, out: &mut Output) {
    if out.json {
        let document = json::print("capataz.v1.StartRunResponse", started);
        out.document(&with_created(document, started.created));
    } else {
        // The id is the whole answer, so that a script can use it unchanged.
        out.line(&started.run_id);
        out.note(&fill(words().watch.watch_with, &[&started.run_id]));
    }
}

/// Prints the start of a run for a command that waits.
pub fn begun(started: &v1::StartRunResponse, out: &mut Output) {
    if !out.json {
        let text = if started.created { words().runs.started } else { words().runs.already };
        out.line(&fill(text, &[&started.run_id]));
        out.flush();
    }
}

/// The run as one document, with its result if it has ended.
pub async fn answer(
    daemon: &Daemon,
    started: v1::StartRunResponse,
    finished: bool,
    out: &mut Output,
) -> Result<(), Failure> {
    let result = if finished {
        let waited = daemon.client.wait_run(&started.run_id, None).await;
        waited.map_err(|error| daemon.failure(error))?
    } else {
        None
    };
    let response = v1::ExecuteRunResponse { run_id: started.run_id, created: started.created, result };
    let document = json::print("capataz.v1.ExecuteRunResponse", &response);
    out.document(&with_created(document, started.created));
    Ok(())
}

/// Protobuf's JSON form omits false fields; here false is an answer.
fn with_created(mut document: Value, created: bool) -> Value {
    if let Some(object) = document.as_object_mut() {
        object.insert("created".to_owned(), created.into());
    }
    document
}

/// The style for people. Moving lines need a terminal whose cursor moves.
pub fn style_for_people(out: &Output) -> Style {
    if out.moves { Style::Live } else { Style::Lines(Detail::Steps) }
}
