//! `capataz pipeline …`.

use std::path::Path;

use capataz_contracts::json;
use capataz_contracts::pipeline_file::Format;
use capataz_contracts::v1::{self, payload::Data};
use capataz_daemon::Places;
use capataz_display::error;
use capataz_display::paint::Tone;
use capataz_display::pipeline as display;
use capataz_display::table::Table;
use capataz_display::words::{counted, fill, words};
use serde_json::json;

use super::{Daemon, Outcome, fetch, run, time_travel};
use crate::args::{Global, Moment, PipelineCommand, PipelineRunArgs};
use crate::exit::Exit;
use crate::failure::{Failure, violations_json};
use crate::output::Output;
use crate::pipeline_source as source;
use crate::plan_source::name_of;

/// The answer that lets a blocked phase go on.
const RETRY: &str = "retry";
/// Newest runs of a product whose checkpoints are shown: the daemon's limit of a page.
const PRODUCT_RUNS: u32 = 20;

/// The outcome of a command that needs no daemon; `None` of the others.
pub fn without_daemon(command: &PipelineCommand, out: &mut Output) -> Option<Outcome> {
    match command {
        PipelineCommand::List => Some(list(out)),
        PipelineCommand::Lint { pipeline, format } => Some(lint(pipeline, format.map(Into::into), out)),
        _ => None,
    }
}

pub async fn pipeline(command: PipelineCommand, global: &Global, out: &mut Output) -> Outcome {
    match command {
        PipelineCommand::Run(args) => start(args, global, out).await,
        PipelineCommand::Checkpoints { run, at, product } => {
            let daemon = Daemon::connect(global).await?;
            let run_id = match &run {
                Some(run) => fetch::run_id(&daemon, run).await?,
                None => String::new(),
            };
            let request = v1::ListCheckpointsRequest {
                run_id: run_id.clone(),
                at_seq: at.unwrap_or(0),
                product_id: product.unwrap_or_default(),
                ..v1::ListCheckpointsRequest::default()
            };
            let response = listed(&daemon, request).await?;
            checkpoints(&run_id, &response, out)
        }
        PipelineCommand::Diff { before, after } => {
            let daemon = Daemon::connect(global).await?;
            diff(&daemon, &before, &after, out).await
        }
        PipelineCommand::Rollback { run, phase, mutation } => {
            let daemon = Daemon::connect(global).await?;
            let run_id = fetch::run_id(&daemon, &run).await?;
            let request = v1::RollbackPipelineRequest {
                run_id: run_id.clone(),
                phase: phase.unwrap_or_default(),
                request_id: mutation.request_id,
                if_seq: mutation.if_seq,
            };
            let response = daemon.client.rollback_pipeline(request).await;
            let response = response.map_err(|error| daemon.failure(error).about(&run_id))?;
            let document = json::print("capataz.v1.RollbackPipelineResponse", &response);
            done(&fill(words().pipelines.went_back, &[&run_id]), document, out)
        }
        PipelineCommand::Resume { run, agent, input, mutation } => {
            let daemon = Daemon::connect(global).await?;
            let run_id = fetch::run_id(&daemon, &run).await?;
            let question = blocked(&daemon, &run_id).await?;
            let request = v1::ResolveRequest {
                run_id: run_id.clone(),
                question_id: question,
                answer: RETRY.to_owned(),
                request_id: mutation.request_id,
                if_seq: mutation.if_seq,
                value: changes(agent, input.as_deref())?,
                revision: None,
            };
            let response = daemon.client.resolve(request).await;
            let response = response.map_err(|error| daemon.failure(error).about(&run_id))?;
            let document = json::print("capataz.v1.ResolveResponse", &response);
            done(&fill(words().pipelines.resumed, &[&run_id]), document, out)
        }
        // These need no daemon.
        PipelineCommand::List | PipelineCommand::Lint { .. } => Ok(Exit::Ok),
    }
}

fn done(text: &str, document: serde_json::Value, out: &mut Output) -> Outcome {
    match out.json {
        true => out.document(&document),
        false => out.line(&error::ok(text, out.paint)),
    }
    Ok(Exit::Ok)
}

async fn start(args: PipelineRunArgs, global: &Global, out: &mut Output) -> Outcome {
    let mut looked = source::look(&args.pipeline, args.format.map(Into::into))?;
    if !looked.is_valid() {
        looked.add(run::unknown_names(&Places::of_pipeline(looked.document(), ""), None, global).await);
    }
    let mut pipeline = looked.checked()?;
    pipeline.product_id = args.product.or(pipeline.product_id);
    let input = source::input(&args.inputs, args.input_file.as_deref(), out)?;
    let daemon = Daemon::connect(global).await?;
    if let Some(contents) = input {
        pipeline.input = Some(payload(&daemon, contents).await?);
    }
    let request = v1::StartRunRequest {
        labels: args.labels.into_iter().collect(),
        idempotency_key: args.key,
        ..v1::StartRunRequest::of_pipeline(pipeline)
    };
    let started = daemon.client.start_run(request).await.map_err(|error| daemon.failure(error))?;
    run::follow_started(&daemon, started, args.following, None, out).await
}

/// The input of a run, stored where it is large.
pub async fn payload(daemon: &Daemon, contents: Vec<u8>) -> Result<v1::Payload, Failure> {
    let data = if source::is_inline(&contents) {
        Data::Inline(contents.into())
    } else {
        let put = daemon.client.put_blob(contents.into()).await;
        Data::Blob(put.map_err(|error| daemon.failure(error))?)
    };
    Ok(v1::Payload { media_type: json::JSON_MEDIA_TYPE.to_owned(), data: Some(data) })
}

/// The open question of a blocked phase.
async fn blocked(daemon: &Daemon, run_id: &str) -> Result<String, Failure> {
    let request =
        v1::GetRunRequest { run_id: run_id.to_owned(), summary_only: true, ..v1::GetRunRequest::default() };
    let run = daemon.client.get_run(request).await.map_err(|error| daemon.failure(error).about(run_id))?;
    let questions = run.run.unwrap_or_default().questions;
    let is_blocked = |question: &&v1::Question| {
        question.purpose() == v1::QuestionPurpose::Phase && question.answer.is_none()
    };
    let open = questions.iter().find(is_blocked);
    open.map(|question| question.question_id.clone())
        .ok_or_else(|| Failure::failed(fill(words().pipelines.nothing_blocked, &[run_id])))
}

/// What the phase goes on with.
fn changes(agent: Option<String>, input: Option<&str>) -> Result<Option<v1::Payload>, Failure> {
    if agent.is_none() && input.is_none() {
        return Ok(None);
    }
    let mut changes = serde_json::Map::new();
    if let Some(agent) = agent {
        changes.insert("agent".to_owned(), agent.into());
    }
    if let Some(input) = input {
        let input = serde_json::from_str(input).map_err(|error| {
            Failure::invalid(fill(words().pipelines.no_json, &["--input", &error.to_string()]))
        })?;
        changes.insert("input".to_owned(), input);
    }
    let text = serde_json::Value::Object(changes).to_string();
    let media_type = json::JSON_MEDIA_TYPE.to_owned();
    Ok(Some(v1::Payload { media_type, data: Some(Data::Inline(text.into())) }))
}

/// Compares what there is to go back to, and not when it came about.
async fn diff(daemon: &Daemon, before: &Moment, after: &Moment, out: &mut Output) -> Outcome {
    let read = async |moment: &Moment| {
        let run_id = fetch::run_id(daemon, &moment.run).await?;
        let request = v1::ListCheckpointsRequest {
            run_id: run_id.clone(),
            at_seq: moment.at.unwrap_or(0),
            ..v1::ListCheckpointsRequest::default()
        };
        let response = daemon.client.list_checkpoints(request).await;
        let mut checkpoints = response.map_err(|error| daemon.failure(error).about(&run_id))?.checkpoints;
        for checkpoint in &mut checkpoints {
            (checkpoint.created_at_ms, checkpoint.updated_at_ms) = (None, None);
            checkpoint.run_id.clear();
        }
        let list = v1::ListCheckpointsResponse { checkpoints, ..v1::ListCheckpointsResponse::default() };
        let mut printed = json::print("capataz.v1.ListCheckpointsResponse", &list);
        Ok::<_, Failure>(printed.get_mut("checkpoints").map(serde_json::Value::take).unwrap_or_default())
    };
    let (left, right) = (read(before).await?, read(after).await?);
    time_travel::tell(&left, &right, None, out)
}

/// The checkpoints of a run, or those of the newest runs of a product, which may take several pages.
async fn listed(
    daemon: &Daemon,
    mut request: v1::ListCheckpointsRequest,
) -> Result<v1::ListCheckpointsResponse, Failure> {
    let mut checkpoints = Vec::new();
    request.page_size = PRODUCT_RUNS;
    loop {
        let page = daemon.client.list_checkpoints(request.clone()).await;
        let page = page.map_err(|error| daemon.failure(error).about(&request.run_id))?;
        let runs = page.checkpoints.chunk_by(|one, other| one.run_id == other.run_id).count();
        request.page_size = request.page_size.saturating_sub(u32::try_from(runs).unwrap_or(u32::MAX));
        checkpoints.extend(page.checkpoints);
        if request.page_size == 0 || page.next_page_token.is_empty() {
            let (seq, next_page_token) = (page.seq, page.next_page_token);
            return Ok(v1::ListCheckpointsResponse { checkpoints, seq, next_page_token });
        }
        request.page_token = page.next_page_token;
    }
}

fn checkpoints(run_id: &str, response: &v1::ListCheckpointsResponse, out: &mut Output) -> Outcome {
    if out.json {
        out.document(&json::print("capataz.v1.ListCheckpointsResponse", response));
        return Ok(Exit::Ok);
    }
    let texts = &words().pipelines;
    if response.checkpoints.is_empty() {
        return match run_id.is_empty() {
            true => {
                out.line(texts.no_checkpoints);
                Ok(Exit::Ok)
            }
            false => Err(Failure::failed(fill(texts.none, &[run_id]))),
        };
    }
    for of_run in response.checkpoints.chunk_by(|one, other| one.run_id == other.run_id) {
        if let Some(first) = of_run.first().filter(|_| run_id.is_empty()) {
            out.line(&out.paint.text(Tone::Strong, &first.run_id));
        }
        out.line(&display::checkpoints(of_run, out.paint));
    }
    Ok(Exit::Ok)
}

fn list(out: &mut Output) -> Outcome {
    let known = source::known();
    if out.json {
        let told = known.iter().map(|known| {
            json!({
                "name": known.name,
                "file": known.file.as_ref().map(|file| file.display().to_string()),
                "phases": known.pipeline.as_ref().map_or(0, |pipeline| pipeline.phases.len()),
                "valid": known.pipeline.is_ok(),
            })
        });
        out.document(&json!({ "pipelines": told.collect::<Vec<_>>() }));
        return Ok(Exit::Ok);
    }
    let texts = &words().pipelines;
    if known.is_empty() {
        out.line(texts.no_pipelines);
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(texts.list_head);
    for known in known {
        let (phases, tone) = match &known.pipeline {
            Ok(pipeline) => {
                let names: Vec<&str> = pipeline.phases.iter().map(|phase| phase.name.as_str()).collect();
                (names.join(" → "), Tone::Plain)
            }
            Err(violations) => (violations.first().map(ToString::to_string).unwrap_or_default(), Tone::Bad),
        };
        let from = known.file.map_or_else(|| texts.built_in.to_owned(), |file| file.display().to_string());
        table.row([(known.name, Tone::Plain), (phases, tone), (from, Tone::Faint)]);
    }
    out.line(&table.render(out.paint));
    Ok(Exit::Ok)
}

fn lint(given: &Path, format: Option<Format>, out: &mut Output) -> Outcome {
    let name = name_of(given);
    let pipeline = match source::load(given, format) {
        Ok(pipeline) => pipeline,
        Err(Failure::Violations { subject, violations }) if out.json => {
            out.document(&json!({
                "file": subject, "kind": "pipeline", "valid": false, "violations": violations_json(&violations),
            }));
            return Ok(Exit::Invalid);
        }
        Err(failure) => return Err(failure),
    };
    if out.json {
        out.document(&json!({ "file": name, "kind": "pipeline", "valid": true, "violations": [] }));
        return Ok(Exit::Ok);
    }
    let texts = &words().pipelines;
    let phases = counted(pipeline.phases.len() as u64, texts.phases_one, texts.phases_many);
    out.line(&error::ok(&fill(texts.valid, &[&name, &phases]), out.paint));
    Ok(Exit::Ok)
}
