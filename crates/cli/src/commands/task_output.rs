//! `capataz runs output`: what a task has given back, whole, also where it is kept apart from the run's events.

use bytes::Bytes;
use capataz_contracts::json;
use capataz_contracts::v1::{self, payload::Data};
use capataz_display::frame::visible_block;
use capataz_display::script::describe::bytes;
use capataz_display::words::{fill, words};
use serde_json::{Value, json};

use super::report::{self, STDOUT};
use super::{Daemon, Outcome, fetch};
use crate::args::OutputArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;

pub async fn output(daemon: &Daemon, args: OutputArgs, out: &mut Output) -> Outcome {
    if let Some(file) = &args.output {
        report::refuse_existing(file, args.force)?;
    }
    let run_id = fetch::run_id(daemon, &args.run).await?;
    let task = named(daemon, &run_id, &args.task).await?;
    let (media_type, content) = match task.output.clone().map(|output| (output.media_type, output.data)) {
        Some((media_type, Some(Data::Inline(content)))) => (media_type, content),
        Some((media_type, Some(Data::Blob(blob)))) => {
            let read = daemon.client.get_blob(&blob.blake3).await;
            (media_type, read.map_err(|error| daemon.failure(error).about(&run_id))?)
        }
        Some((_, None)) | None => return Err(none(&run_id, &task)),
    };
    let Some(file) = args.output.as_deref().filter(|file| file.as_os_str() != STDOUT) else {
        return match (&args.output, out.json) {
            (None, true) => {
                let data = Some(Data::Inline(content.clone()));
                let mut document = about(&run_id, &task, &media_type, &content);
                let value = json::print("capataz.v1.Payload", &v1::Payload { media_type, data });
                insert(&mut document, "output", value);
                out.document(&document);
                Ok(Exit::Ok)
            }
            (None, false) if out.terminal => shown(&media_type, &content, out),
            _ => {
                out.raw(&content);
                Ok(Exit::Ok)
            }
        };
    };
    report::keep(file, &content, args.force)?;
    let place = file.display().to_string();
    if out.json {
        let mut document = about(&run_id, &task, &media_type, &content);
        insert(&mut document, "file", place.into());
        out.document(&document);
    } else {
        let size = bytes(content.len() as u64);
        out.line(&fill(words().runs.output_saved, &[&place, &size, &media_type]));
    }
    Ok(Exit::Ok)
}

/// The task with what it has given back.
async fn named(daemon: &Daemon, run_id: &str, name: &str) -> Result<v1::TaskView, Failure> {
    let run = fetch::run(daemon, run_id, false).await?;
    let names: Vec<&str> =
        run.waves.iter().flat_map(|wave| &wave.tasks).map(|task| task.name.as_str()).collect();
    let unknown = || fetch::unknown_task(run_id, name, &names);
    let place = names.iter().position(|known| *known == name).ok_or_else(unknown)?;
    // Outputs of thousands of tasks may be a lot, and this one alone is wanted.
    let request = v1::GetRunRequest {
        run_id: run_id.to_owned(),
        include_outputs: true,
        task_offset: u32::try_from(place).unwrap_or(u32::MAX),
        task_limit: 1,
        ..v1::GetRunRequest::default()
    };
    let response =
        daemon.client.get_run(request).await.map_err(|error| daemon.failure(error).about(run_id))?;
    let mut tasks = response.run.unwrap_or_default().waves.into_iter().flat_map(|wave| wave.tasks);
    tasks.find(|task| task.name == name).ok_or_else(unknown)
}

fn none(run_id: &str, task: &v1::TaskView) -> Failure {
    let texts = &words().runs;
    let text = if task.status.is_some() { texts.no_output } else { texts.no_output_yet };
    Failure::failed(fill(text, &[run_id, &task.name]))
}

/// Shows the output to a person, whose terminal does nothing but show it.
fn shown(media_type: &str, content: &[u8], out: &mut Output) -> Outcome {
    let Ok(text) = std::str::from_utf8(content) else {
        let size = bytes(content.len() as u64);
        return Err(Failure::invalid(fill(words().runs.output_no_text, &[&size, media_type])));
    };
    out.line(&visible_block(text));
    Ok(Exit::Ok)
}

fn about(run_id: &str, task: &v1::TaskView, media_type: &str, content: &Bytes) -> Value {
    json!({
        "run_id": run_id,
        "task": task.name,
        "media_type": media_type,
        "bytes": content.len(),
        "partial": task.partial,
    })
}

fn insert(document: &mut Value, key: &str, value: Value) {
    if let Some(object) = document.as_object_mut() {
        object.insert(key.to_owned(), value);
    }
}
