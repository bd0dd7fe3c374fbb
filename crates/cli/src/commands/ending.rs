//! The last lines of a command that waited for a run.

use super::{Daemon, Outcome, act, fetch};
use crate::exit::Exit;
use crate::output::Output;
use crate::watch::follow::{End, now_ms};
use capataz_display::compact::Form;
use capataz_display::model::Run;
use capataz_display::report::Report;
use capataz_display::words::{fill, words};
use capataz_display::{format, run as display};

/// Prints the result of a finished run for people.
pub async fn finished(daemon: &Daemon, run_id: &str, model: &Run, out: &mut Output) -> Outcome {
    if model.script.is_some() {
        return Ok(act::ended(run_id, model, out));
    }
    let run = fetch::run(daemon, run_id, true).await?;
    let report = Report { run: &run, events: model, answer: None, verbose: false, form: out.form };
    for part in report.parts(out.paint) {
        between(out);
        out.line(&part);
    }
    between(out);
    out.line(&display::outcome_line(&run, now_ms(), out.paint));
    show_with(run_id, out);
    if run.may_be_continued && Exit::of_outcome(run.outcome()) != Exit::Ok {
        out.line(&fill(words().watch.continue_with, &[run_id]));
    }
    Ok(Exit::of_outcome(run.outcome()))
}

/// Prints how to look at the run again. That this needs a daemon is among the last words of one inside this command.
pub fn show_with(run_id: &str, out: &mut Output) {
    out.line(&fill(words().watch.show_with, &[run_id]));
}

/// Boxes stand apart from each other; lines do not.
fn between(out: &mut Output) {
    if out.form == Form::Boxes {
        out.line("");
    }
}

/// Prints why the waiting ended, and how to return to the run. With JSON, only the exit code says so.
pub fn unfinished(
    daemon: &Daemon,
    run_id: &str,
    model: &Run,
    end: End,
    timeout: Option<std::time::Duration>,
    out: &mut Output,
) -> Exit {
    let texts = &words().watch;
    let exit = match end {
        End::Finished | End::Gone => Exit::Unreachable,
        End::Question => Exit::WaitsForAnswer,
        End::TimedOut if model.waits() => Exit::WaitsForAnswer,
        End::TimedOut | End::NoReader => Exit::StillRunning,
        End::Interrupted => Exit::Interrupted,
    };
    let waited = timeout.and_then(|timeout| i64::try_from(timeout.as_millis()).ok()).unwrap_or_default();
    match end {
        End::TimedOut => out.note(&fill(texts.timeout, &[&format::exactly(waited)])),
        // The daemon inside this command has its own last words.
        End::Interrupted if daemon.is_own => {}
        End::Interrupted => out.note(texts.detached),
        End::Gone | End::Finished => out.note(texts.gone),
        End::Question | End::NoReader => {}
    }
    if !out.json && end != End::NoReader {
        for question in &model.questions {
            out.note(&display::question(run_id, question, out.error_paint()));
        }
        out.note(&fill(texts.watch_with, &[run_id]));
        out.note(&fill(texts.cancel_with, &[run_id]));
    }
    exit
}
