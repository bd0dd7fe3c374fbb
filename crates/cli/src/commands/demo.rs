//! `capataz demo`.

use std::env;
use std::path::{Path, PathBuf};

use capataz_contracts::v1;
use capataz_daemon::Config;
use serde_json::json;

use super::serve::asked_to_stop;
use super::{Daemon, Outcome, report, run::style_for_people};
use crate::args::DemoArgs;
use crate::demo::crew;
use crate::display::paint::Tone;
use crate::exit::Exit;
use crate::failure::{Failure, chain};
use crate::output::Output;
use crate::text::{fill, words};
use crate::watch::follow::{self, End, Options, Style};

pub async fn demo(args: DemoArgs, out: &mut Output) -> Outcome {
    let texts = &words().demo;
    let folder = crew::absolute(&args.path)
        .ok()
        .filter(|folder| folder.is_dir())
        .ok_or_else(|| Failure::invalid(fill(texts.no_folder, &[&args.path.display().to_string()])))?;
    let data_dir = data_folder()?;
    let program = env::current_exe().map_err(|error| Failure::failed(error.to_string()))?;
    let plan = crew::plan(&folder)
        .map_err(|violations| Failure::Violations { subject: "demo".to_owned(), violations })?;
    let mut config = Config::embedded(data_dir.clone());
    config.agents = crew::agents(&program, &folder, &data_dir);
    let daemon =
        capataz_daemon::Daemon::start(config).await.map_err(|error| Failure::failed(chain(&error)))?;
    let address = daemon.address().to_string();
    if !out.json {
        out.line(&out.paint.text(Tone::Strong, &fill(texts.intro, &[&folder.display().to_string()])));
        out.line(texts.intro_tasks);
        out.line("");
        out.flush();
    }
    let outcome = run(&format!("http://{address}"), plan, &data_dir, out).await;
    if args.keep && outcome.is_ok() {
        out.note(&fill(texts.keeping, &[&address]));
        daemon.wait(asked_to_stop()).await;
    } else {
        daemon.shutdown().await;
    }
    outcome
}

/// A new folder, which stays: what happened can be looked at again.
fn data_folder() -> Result<PathBuf, Failure> {
    let folder = tempfile::Builder::new().prefix("capataz-demo-").tempdir();
    folder
        .map(tempfile::TempDir::keep)
        .map_err(|error| Failure::failed(fill(words().demo.no_runtime_folder, &[&error.to_string()])))
}

async fn run(addr: &str, plan: v1::Plan, data_dir: &Path, out: &mut Output) -> Outcome {
    let daemon = Daemon::connect_to(addr).await?;
    let request = v1::StartRunRequest { plan: Some(plan), ..v1::StartRunRequest::default() };
    let started = daemon.client.start_run(request).await.map_err(|error| daemon.failure(error))?;
    let run_id = started.run_id;
    let style = if out.json { Style::Json } else { style_for_people(out) };
    let options = Options { style, timeout: None, exit_on_question: false };
    let (model, end) =
        follow::follow(&daemon.client, &run_id, options, out).await.map_err(|error| daemon.failure(error))?;
    let data_dir = data_dir.display().to_string();
    let texts = &words().demo;
    if end != End::Finished || !model.is_finished() {
        // The daemon goes with this command: only the log is left to look at.
        out.note(&fill(texts.again, &[&data_dir]));
        out.note(&fill(texts.again_show, &[&run_id]));
        return Ok(if end == End::Interrupted { Exit::Interrupted } else { Exit::StillRunning });
    }
    if out.json {
        out.record(&json!({ "run_id": run_id, "data_dir": data_dir }));
        return Ok(Exit::of_outcome(model.outcome));
    }
    let exit = report::finished(&daemon, &run_id, &model, out).await?;
    out.line("");
    out.line(&fill(texts.log, &[&data_dir]));
    out.line(&fill(texts.again, &[&data_dir]));
    out.line(&fill(texts.again_show, &[&run_id]));
    out.line("");
    out.line(&out.paint.text(Tone::Strong, texts.next));
    out.line(texts.next_plans);
    out.line(texts.next_help);
    Ok(exit)
}
