//! `capataz act`.

use std::path::Path;

use capataz_contracts::v1;
use serde_json::json;

use super::{Daemon, Outcome, ending, local, report, run};
use crate::args::{ActArgs, ActCommand, Global, Patience};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::plan_source::name_of;
use crate::script::source::{self, Given};
use crate::watch::follow::{self, End, Options, Style, now_ms};
use crate::watch::lines::Detail;
use capataz_display::actions as display;
use capataz_display::error;
use capataz_display::model::Run;
use capataz_display::report::Report;
use capataz_display::words::{counted, fill, words};

/// `act check`, which needs neither a daemon nor a browser.
pub fn check(command: ActCommand, out: &mut Output) -> Outcome {
    let ActCommand::Check { file, format, variables } = command;
    let script = valid(&file, source::load(&file, format.map(Into::into), &variables)?)?;
    let name = name_of(&file);
    if out.json {
        out.document(&json!({ "file": name, "kind": "script", "valid": true, "violations": [] }));
        return Ok(Exit::Ok);
    }
    let texts = &words().act;
    let text = if script.interactive {
        fill(texts.valid_session, &[&name])
    } else {
        let actions = counted(script.actions.len() as u64, texts.actions_one, texts.actions_many);
        fill(texts.valid, &[&name, &actions])
    };
    out.line(&error::ok(&text, out.paint));
    Ok(Exit::Ok)
}

/// The script, if it keeps every rule.
pub fn valid(file: &Path, given: Given) -> Result<v1::Script, Failure> {
    match given.violations.is_empty() {
        true => Ok(given.script),
        false => Err(Failure::Script { file: name_of(file), violations: given.violations }),
    }
}

pub async fn act(args: ActArgs, global: &Global, out: &mut Output) -> Outcome {
    let Some(file) = &args.file else { return Err(Failure::invalid(words().contract.document)) };
    let mut script = valid(file, source::load(file, args.format.map(Into::into), &args.variables)?)?;
    if args.headed {
        script.browser.get_or_insert_default().headed = true;
    }
    let (daemon, place) = local::connect(&args.local, global, out).await?;
    place.during(async |out: &mut Output| perform(&daemon, script, &args, out).await, out).await
}

async fn perform(daemon: &Daemon, script: v1::Script, args: &ActArgs, out: &mut Output) -> Outcome {
    let request = v1::StartRunRequest {
        labels: args.labels.iter().cloned().collect(),
        idempotency_key: args.key.clone(),
        ..v1::StartRunRequest::of_script(script)
    };
    let started = daemon.client.start_run(request).await.map_err(|error| daemon.failure(error))?;
    if args.detach {
        run::detached(&started, out);
        return Ok(Exit::Ok);
    }
    run::begun(&started, out);
    let style = match (args.watch, out.json) {
        (false, true) => Style::Silent,
        (true, true) => Style::Json,
        // Above the view are the lines that there are without it.
        (false, false) if out.moves => Style::Live,
        (false, false) => Style::Lines(Detail::Results),
        (true, false) => Style::Lines(Detail::Steps),
    };
    let Patience { timeout, exit_on_question } = args.patience;
    let options = Options { style, timeout, exit_on_question, progress: false };
    let run_id = &started.run_id;
    let (model, end) =
        follow::follow(&daemon.client, run_id, options, out).await.map_err(|error| daemon.failure(error))?;
    let finished = end == End::Finished && model.is_finished();
    let mut exit = match (finished, out.json) {
        (true, true) => Exit::of_outcome(model.outcome),
        (true, false) => ended(run_id, &model, out),
        (false, _) => ending::unfinished(daemon, run_id, &model, end, options.timeout, out),
    };
    let run_id = run_id.clone();
    if out.json && !args.watch {
        run::answer(daemon, started, finished, out).await?;
    }
    // What came of the run is told by now, whatever becomes of its report.
    if let (true, Some(path)) = (finished, &args.report) {
        match report::write(daemon, &run_id, path, true, out).await {
            Ok(_) if out.json => {}
            Ok(_) => out.line(&fill(words().act.report_written, &[&path.display().to_string()])),
            Err(failure) => {
                failure.tell(out);
                exit = if exit == Exit::Ok { failure.exit() } else { exit };
            }
        }
    }
    Ok(exit)
}

/// Prints the result of a script that has ended: its error, its outputs, its outcome.
pub fn ended(run_id: &str, model: &Run, out: &mut Output) -> Exit {
    let Some(script) = &model.script else { return Exit::of_outcome(model.outcome) };
    let run = v1::Run::default();
    let report = Report { run: &run, events: model, answer: None, verbose: false, form: out.form };
    for part in report.parts(out.paint) {
        out.line("");
        out.line(&part);
    }
    out.line("");
    out.line(&display::outcome_line(script, now_ms(), out.paint));
    ending::show_with(run_id, out);
    Exit::of_outcome(model.outcome)
}
