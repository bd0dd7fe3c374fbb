//! The commands under `runs` that change a run.

use capataz_client::ClientError;
use capataz_contracts::{json, v1};
use serde_json::Value;

use super::{Daemon, Outcome, fetch};
use crate::args::{CancelArgs, DeleteArgs, ExtendArgs, ResolveArgs, RunsCommand};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use capataz_display::words::{fill, words};
use capataz_display::{error, format};

pub async fn steer(daemon: &Daemon, command: RunsCommand, out: &mut Output) -> Outcome {
    let texts = &words().runs;
    let client = &daemon.client;
    let failed = |run_id: &str| {
        let run_id = run_id.to_owned();
        move |error| daemon.failure(error).about(&run_id)
    };
    let failed_with = |run_id: &str, task: &str| {
        let (of_run, task) = (failed(run_id), task.to_owned());
        move |error| of_run(error).about_task(&task)
    };
    let (text, answer): (String, Value) = match command {
        RunsCommand::Cancel(args) => return cancel(daemon, args, out).await,
        RunsCommand::Pause { run, mutation } => {
            let run_id = fetch::run_id(daemon, &run).await?;
            let request = v1::PauseRunRequest {
                run_id: run_id.clone(),
                request_id: mutation.request_id,
                if_seq: mutation.if_seq,
            };
            let response = client.pause_run(request).await.map_err(failed(&run_id))?;
            (fill(texts.paused, &[&run_id]), json::print("capataz.v1.PauseRunResponse", &response))
        }
        RunsCommand::Resume { run, mutation } => {
            let run_id = fetch::run_id(daemon, &run).await?;
            let request = v1::ResumeRunRequest {
                run_id: run_id.clone(),
                request_id: mutation.request_id,
                if_seq: mutation.if_seq,
            };
            let response = client.resume_run(request).await.map_err(failed(&run_id))?;
            (fill(texts.resumed, &[&run_id]), json::print("capataz.v1.ResumeRunResponse", &response))
        }
        RunsCommand::Extend(ExtendArgs { run, task, by, mutation }) => {
            let run_id = fetch::run_id(daemon, &run).await?;
            let request = v1::ExtendTaskRequest {
                run_id: run_id.clone(),
                task: task.clone(),
                request_id: mutation.request_id,
                if_seq: mutation.if_seq,
                by_ms: by.and_then(|by| i64::try_from(by.as_millis()).ok()),
            };
            let response = client.extend_task(request).await.map_err(failed_with(&run_id, &task))?;
            let until = format::utc(response.deadline_ms);
            (fill(texts.extended, &[&task, &until]), json::print("capataz.v1.ExtendTaskResponse", &response))
        }
        RunsCommand::Retry { run, task, mutation } => {
            let run_id = fetch::run_id(daemon, &run).await?;
            let request = v1::RetryTaskRequest {
                run_id: run_id.clone(),
                task: task.clone(),
                request_id: mutation.request_id,
                if_seq: mutation.if_seq,
            };
            let response = client.retry_task(request).await.map_err(failed_with(&run_id, &task))?;
            let activation = response.activation.to_string();
            (
                fill(texts.retried, &[&task, &activation]),
                json::print("capataz.v1.RetryTaskResponse", &response),
            )
        }
        RunsCommand::Rollback { run, task, cascade, mutation } => {
            let run_id = fetch::run_id(daemon, &run).await?;
            let request = v1::RollbackTaskRequest {
                run_id: run_id.clone(),
                task: task.clone(),
                request_id: mutation.request_id,
                if_seq: mutation.if_seq,
                cascade,
            };
            let response = client.rollback_task(request).await.map_err(failed_with(&run_id, &task))?;
            let activation = response.activation.to_string();
            (
                fill(texts.rolled_back, &[&task, &activation]),
                json::print("capataz.v1.RollbackTaskResponse", &response),
            )
        }
        RunsCommand::Resolve(ResolveArgs { run, question, answer, value, revision, mutation }) => {
            let answer = answer.unwrap_or_default();
            let run_id = fetch::run_id(daemon, &run).await?;
            let meant = meant_by(daemon, &run_id, &question, &answer).await?;
            let request = v1::ResolveRequest {
                run_id: run_id.clone(),
                question_id: question.clone(),
                answer: meant,
                request_id: mutation.request_id,
                if_seq: mutation.if_seq,
                value: value.as_deref().map(value_of).transpose()?,
                revision,
            };
            let response = client.resolve(request).await.map_err(failed(&run_id))?;
            let told = if answer.is_empty() { value.unwrap_or_default() } else { answer };
            (fill(texts.resolved, &[&question, &told]), json::print("capataz.v1.ResolveResponse", &response))
        }
        RunsCommand::Delete(args) => return delete(daemon, args, out).await,
        RunsCommand::Release { run } => {
            let run_id = fetch::run_id(daemon, &run).await?;
            let response = client.release_run(&run_id).await.map_err(failed(&run_id))?;
            let text = if response.released { texts.released } else { texts.not_quarantined };
            (fill(text, &[&run_id]), json::print("capataz.v1.ReleaseRunResponse", &response))
        }
        // The module `runs` handles these.
        RunsCommand::List(_)
        | RunsCommand::Show { .. }
        | RunsCommand::Output(_)
        | RunsCommand::Watch(_)
        | RunsCommand::Continue(_)
        | RunsCommand::Fork(_)
        | RunsCommand::Diff { .. }
        | RunsCommand::Replay { .. }
        | RunsCommand::Logs { .. }
        | RunsCommand::Report(_)
        | RunsCommand::Explain { .. }
        | RunsCommand::Answer { .. }
        | RunsCommand::Export { .. } => return Ok(Exit::Ok),
    };
    if out.json {
        out.document(&answer);
    } else {
        out.line(&error::ok(&text, out.paint));
    }
    Ok(Exit::Ok)
}

async fn cancel(daemon: &Daemon, args: CancelArgs, out: &mut Output) -> Outcome {
    let texts = &words().runs;
    let does = async |run_id: &str| {
        let request = v1::CancelRunRequest {
            run_id: run_id.to_owned(),
            request_id: args.mutation.request_id.clone(),
            if_seq: args.mutation.if_seq,
            reason: args.reason.clone(),
            force: args.force,
        };
        let response = daemon.client.cancel_run(request).await?;
        let text = fill(texts.cancelled, &[run_id]);
        Ok::<_, ClientError>((text, json::print("capataz.v1.CancelRunResponse", &response)))
    };
    each(daemon, &args.runs, texts.not_cancelled, out, does).await
}

async fn delete(daemon: &Daemon, args: DeleteArgs, out: &mut Output) -> Outcome {
    let texts = &words().runs;
    let does = async |run_id: &str| {
        let response = daemon.client.delete_run(run_id).await?;
        let text = fill(texts.deleted, &[run_id, &response.bytes.to_string()]);
        Ok::<_, ClientError>((text, json::print("capataz.v1.DeleteRunResponse", &response)))
    };
    each(daemon, &args.runs, texts.not_deleted, out, does).await
}

/// Does this with each of the runs, one after the other, and says what came of it. Nothing is done if one of the names is none of a
/// run; a run with which the daemon refuses it does not keep it from the others, and a daemon that is gone does.
async fn each(
    daemon: &Daemon,
    names: &[String],
    not_done: &str,
    out: &mut Output,
    does: impl AsyncFn(&str) -> Result<(String, Value), ClientError>,
) -> Outcome {
    let mut run_ids: Vec<String> = Vec::new();
    for name in names {
        // Of one alone, the daemon says so itself.
        let run_id = match names {
            [one] => fetch::run_id(daemon, one).await?,
            _ => fetch::known_id(daemon, name).await?,
        };
        if run_ids.contains(&run_id) {
            out.note(&fill(words().runs.named_twice, &[&run_id]));
        } else {
            run_ids.push(run_id);
        }
    }
    let are_several = run_ids.len() > 1;
    let mut exit = Exit::Ok;
    for run_id in &run_ids {
        let of_run = |mut document: Value| {
            if let Some(object) = document.as_object_mut() {
                object.insert("run_id".to_owned(), run_id.as_str().into());
            }
            document
        };
        match does(run_id.as_str()).await.map_err(|error| daemon.failure(error).about(run_id)) {
            Ok((_, answer)) if out.json && are_several => out.record(&of_run(answer)),
            Ok((_, answer)) if out.json => out.document(&of_run(answer)),
            Ok((text, _)) => out.line(&error::ok(&text, out.paint)),
            Err(failure) => {
                if out.json {
                    out.record(&of_run(failure.to_json()));
                } else {
                    if are_several {
                        out.note(&fill(not_done, &[run_id]));
                    }
                    failure.tell(out);
                }
                exit = if exit == Exit::Ok { failure.exit() } else { exit };
                // Nobody is there for the others either.
                if failure.exit() == Exit::Unreachable {
                    return Ok(Exit::Unreachable);
                }
            }
        }
    }
    Ok(exit)
}

/// The value of an answer: JSON, or the content of a file, which is JSON if its name says so, and else text.
fn value_of(text: &str) -> Result<v1::Payload, Failure> {
    let payload = |media_type: &str, bytes: Vec<u8>| v1::Payload {
        media_type: media_type.to_owned(),
        data: Some(v1::payload::Data::Inline(bytes.into())),
    };
    let Some(name) = text.strip_prefix('@') else {
        return Ok(payload("application/json", text.as_bytes().to_vec()));
    };
    let content = std::fs::read(name)
        .map_err(|error| Failure::invalid(fill(words().contract.cannot_read, &[name, &error.to_string()])))?;
    let is_json = std::path::Path::new(name).extension().is_some_and(|extension| extension == "json");
    Ok(payload(if is_json { "application/json" } else { "text/plain" }, content))
}

/// The answer that a person means who says so: `retry` is any of the names for trying again.
async fn meant_by(daemon: &Daemon, run_id: &str, question_id: &str, answer: &str) -> Result<String, Failure> {
    if answer != error::RETRY {
        return Ok(answer.to_owned());
    }
    let request = v1::GetRunRequest { run_id: run_id.to_owned(), ..v1::GetRunRequest::default() };
    let found = daemon.client.get_run(request).await.map_err(|error| daemon.failure(error).about(run_id))?;
    let questions = found.run.unwrap_or_default().questions;
    let asked = questions.iter().find(|question| question.question_id == question_id);
    let meant = asked.and_then(|question| error::meant(&question.options, answer));
    // What the daemon says of an answer that there is not, it says itself.
    Ok(meant.unwrap_or(answer).to_owned())
}
