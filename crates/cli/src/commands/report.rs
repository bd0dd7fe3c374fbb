//! `capataz runs report`: reads the events, the outputs and the evidence of a run, and writes one HTML file.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use capataz_contracts::v1;
use serde_json::{Value, json};

use super::{Daemon, Outcome, fetch};
use crate::args::ReportArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::html_report::story::Story;
use crate::html_report::{self, Content, Report};
use crate::output::Output;
use crate::watch::follow::now_ms;
use crate::whole_file;
use capataz_display::model::Run;
use capataz_display::script::describe::bytes;
use capataz_display::words::{counted, fill, words};

/// The name of stdout.
pub const STDOUT: &str = "-";

pub async fn report(daemon: &Daemon, args: ReportArgs, out: &mut Output) -> Outcome {
    let run_id = fetch::run_id(daemon, &args.run).await?;
    // Whoever names a file wants it written anew.
    let may_replace = args.force || args.output.is_some();
    let file = args.output.unwrap_or_else(|| PathBuf::from(format!("{run_id}.html")));
    refuse_existing(&file, may_replace)?;
    let written = write(daemon, &run_id, &file, may_replace, out).await?;
    // A page on stdout is the whole answer.
    if file.as_os_str() == STDOUT {
        return Ok(Exit::Ok);
    }
    let file = file.display().to_string();
    if out.json {
        let mut document = json!({
            "run_id": run_id,
            "kind": written.kind,
            "file": file,
            "bytes": written.bytes,
        });
        if let (Some(actions), Some(object)) = (written.actions, document.as_object_mut()) {
            object.insert("actions".to_owned(), Value::from(actions));
        }
        out.document(&document);
        return Ok(Exit::Ok);
    }
    let size = bytes(written.bytes as u64);
    match written.actions {
        Some(actions) => {
            let texts = &words().act;
            let actions = counted(actions as u64, texts.actions_one, texts.actions_many);
            out.line(&fill(words().page.written, &[&file, &actions, &size]));
        }
        None => out.line(&fill(words().reports.written, &[&file, &size])),
    }
    Ok(Exit::Ok)
}

/// The file that was written.
pub struct Written {
    pub bytes: usize,
    pub kind: &'static str,
    /// How many actions the script has, where it is one.
    pub actions: Option<usize>,
}

/// Writes the report of `run_id` to `file`. One that exists is replaced only if that is allowed.
///
/// # Errors
/// The daemon cannot be reached, or the file cannot be written. Evidence that is no longer stored is not an error: the
/// report mentions it.
pub async fn write(
    daemon: &Daemon,
    run_id: &str,
    file: &Path,
    may_replace: bool,
    out: &mut Output,
) -> Result<Written, Failure> {
    let request = v1::GetRunRequest { run_id: run_id.to_owned(), task_limit: 1, ..Default::default() };
    let response = daemon.client.get_run(request).await.map_err(|error| daemon.failure(error))?;
    let run = response.run.unwrap_or_default();
    let mut story = Story::new(run_id);
    // Both tell of the same moment.
    for_each_event(daemon, run_id, run.seq, |event| story.apply(event)).await?;
    let mut evidence = BTreeMap::new();
    for (piece, refused) in html_report::wanted(&story) {
        let content = match refused {
            Some(refused) => refused,
            None => content(daemon, &piece.id).await?,
        };
        evidence.insert(piece.id, content);
    }
    for id in html_report::wanted_outputs(&story) {
        let content = content(daemon, &id).await?;
        evidence.insert(id, content);
    }
    let kind = story.kind.name();
    let actions = story.model.script.as_ref().map(|script| script.script.actions.len());
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let report = Report { story, run: Some(run), version, evidence, now_ms: now_ms() };
    let html = out.people.within(|| html_report::html(&report));
    if file.as_os_str() == STDOUT {
        out.raw(html.as_bytes());
        out.flush();
    } else {
        keep(file, html.as_bytes(), may_replace)?;
    }
    Ok(Written { bytes: html.len(), kind, actions })
}

/// Reads the run by its events, up to event `until`.
pub async fn read(daemon: &Daemon, run_id: &str, until: u64) -> Result<Run, Failure> {
    let mut run = Run::default();
    for_each_event(daemon, run_id, until, |event| run.apply(event)).await?;
    Ok(run)
}

/// Calls the function for every event of the run up to event `until`.
pub async fn for_each_event(
    daemon: &Daemon,
    run_id: &str,
    until: u64,
    mut apply: impl FnMut(&v1::Event),
) -> Result<(), Failure> {
    let mut events = daemon.client.export_run(run_id).await.map_err(|error| daemon.failure(error))?;
    while let Some(event) = events.next().await {
        let event = event.map_err(|error| daemon.failure(error))?;
        if event.seq > until {
            break;
        }
        apply(&event);
    }
    Ok(())
}

async fn content(daemon: &Daemon, id: &str) -> Result<Content, Failure> {
    match daemon.client.get_blob(id).await {
        Ok(content) => Ok(Content::Here(content)),
        // The loss of the daemon is an error; the loss of one piece of evidence is not.
        Err(error) if error.is_retryable() => Err(daemon.failure(error)),
        Err(error) => Ok(Content::Missing(error.message().to_owned())),
    }
}

/// Writes the file atomically: a reader never sees half of it, and a failure leaves an old file. One that exists is
/// replaced only if that is allowed.
fn save(file: &Path, contents: &[u8], may_replace: bool) -> std::io::Result<()> {
    // What is no regular file, such as /dev/null, is written to and stays what it is; a link stays a link.
    let target = std::fs::canonicalize(file);
    let file = target.as_deref().unwrap_or(file);
    if std::fs::metadata(file).is_ok_and(|there| !there.is_file() && !there.is_dir()) {
        return std::fs::OpenOptions::new().write(true).open(file)?.write_all(contents);
    }
    whole_file::write(file, contents, may_replace)
}

/// Writes the file as [`save`] does. The refusal of one that exists says how it is replaced.
pub fn keep(file: &Path, contents: &[u8], may_replace: bool) -> Result<(), Failure> {
    save(file, contents, may_replace).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => exists(file),
        _ => cannot_write(file, &error),
    })
}

/// Refuses a file that [`keep`] would refuse, before anything is fetched for it. One that comes meanwhile is still refused
/// there.
pub fn refuse_existing(file: &Path, may_replace: bool) -> Result<(), Failure> {
    let is_there = || std::fs::metadata(file).is_ok_and(|there| there.is_file());
    if may_replace || file.as_os_str() == STDOUT || !is_there() {
        return Ok(());
    }
    Err(exists(file))
}

fn exists(file: &Path) -> Failure {
    Failure::failed(fill(words().evidence.exists, &[&file.display().to_string()]))
}

fn cannot_write(file: &Path, error: &std::io::Error) -> Failure {
    let place = file.display().to_string();
    Failure::failed(fill(words().act.cannot_write, &[&place, &error.to_string()]))
}
