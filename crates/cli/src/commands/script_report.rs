//! `capataz runs report`: reads the events and the evidence of a script, and writes one HTML file.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use super::{Daemon, Outcome, fetch};
use crate::args::ReportArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::html_report::{self, Content, Report};
use crate::output::Output;
use crate::watch::follow::now_ms;
use capataz_display::model::Run;
use capataz_display::script::describe::bytes;
use capataz_display::words::{counted, fill, words};

/// The name of stdout.
const STDOUT: &str = "-";

pub async fn report(daemon: &Daemon, args: ReportArgs, out: &mut Output) -> Outcome {
    let run_id = fetch::run_id(daemon, &args.run).await?;
    let written = write(daemon, &run_id, &args.output, out).await?;
    if out.json {
        out.document(&serde_json::json!({
            "run_id": run_id,
            "file": args.output.display().to_string(),
            "bytes": written.bytes,
            "actions": written.actions,
        }));
    } else if args.output.as_os_str() != STDOUT {
        let texts = &words().act;
        let actions = counted(written.actions as u64, texts.actions_one, texts.actions_many);
        let size = bytes(written.bytes as u64);
        out.line(&fill(words().page.written, &[&args.output.display().to_string(), &actions, &size]));
    }
    Ok(Exit::Ok)
}

/// The file that was written.
pub struct Written {
    pub bytes: usize,
    pub actions: usize,
}

/// Writes the report of `run_id` to `file`.
///
/// # Errors
/// The run is not a script, the daemon cannot be reached, or the file cannot be written. Evidence that is no longer
/// stored is not an error: the report mentions it.
pub async fn write(daemon: &Daemon, run_id: &str, file: &Path, out: &mut Output) -> Result<Written, Failure> {
    let run = read(daemon, run_id, u64::MAX).await?;
    let Some(script) = run.script else {
        return Err(Failure::invalid(fill(words().page.not_a_script, &[run_id])));
    };
    let mut evidence = BTreeMap::new();
    for (piece, refused) in html_report::wanted(&script) {
        let content = match refused {
            Some(refused) => refused,
            None => content(daemon, &piece.id).await?,
        };
        evidence.insert(piece.id, content);
    }
    let actions = script.script.actions.len();
    let html = html_report::html(&Report {
        run_id: run_id.to_owned(),
        script: *script,
        questions: run.questions,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        evidence,
        now_ms: now_ms(),
    });
    if file.as_os_str() == STDOUT {
        out.raw(html.as_bytes());
        out.flush();
    } else {
        save(file, html.as_bytes()).map_err(|error| {
            let place = file.display().to_string();
            Failure::failed(fill(words().act.cannot_write, &[&place, &error.to_string()]))
        })?;
    }
    Ok(Written { bytes: html.len(), actions })
}

/// Reads the run by its events, up to event `until`.
pub async fn read(daemon: &Daemon, run_id: &str, until: u64) -> Result<Run, Failure> {
    let mut run = Run::default();
    let mut events = daemon.client.export_run(run_id).await.map_err(|error| daemon.failure(error))?;
    while let Some(event) = events.next().await {
        let event = event.map_err(|error| daemon.failure(error))?;
        if event.seq > until {
            break;
        }
        run.apply(&event);
    }
    Ok(run)
}

async fn content(daemon: &Daemon, id: &str) -> Result<Content, Failure> {
    match daemon.client.get_blob(id).await {
        Ok(content) => Ok(Content::Here(content)),
        // The loss of the daemon is an error; the loss of one piece of evidence is not.
        Err(error) if error.is_retryable() => Err(daemon.failure(error)),
        Err(error) => Ok(Content::Missing(error.message().to_owned())),
    }
}

/// Writes the file atomically: a reader never sees half of a report, and a failure leaves the old file.
fn save(file: &Path, contents: &[u8]) -> std::io::Result<()> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut temporary = tempfile::NamedTempFile::new_in(folder)?;
    temporary.write_all(contents)?;
    temporary.persist(file)?;
    Ok(())
}
