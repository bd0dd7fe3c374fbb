//! The last lines of a command that waited for a run.

use capataz_contracts::v1;

use super::{Daemon, Outcome, act, fetch};
use crate::exit::Exit;
use crate::output::Output;
use crate::watch::follow::{End, now_ms};
use crate::watch::model::Run;
use capataz_display::frame::visible;
use capataz_display::paint::Tone;
use capataz_display::words::{fill, words};
use capataz_display::{format, payload, retry, run as display};

/// Maximum number of tasks whose attempts are shown.
const MOST_RETRIES: usize = 3;
/// Maximum number of tasks whose outputs are shown.
const MOST_OUTPUTS: usize = 4;

/// Prints the result of a finished run for people.
pub async fn finished(daemon: &Daemon, run_id: &str, model: &Run, out: &mut Output) -> Outcome {
    if model.script.is_some() {
        return Ok(act::ended(run_id, model, out));
    }
    let run = fetch::run(daemon, run_id, true).await?;
    let retries: Vec<String> = model
        .tasks()
        .filter(|task| task.attempts.len() > 1)
        .take(MOST_RETRIES)
        .map(|task| retry::retry(&task.name, &task.attempts, task.max_attempts, out.paint))
        .collect();
    let mut parts = retries;
    parts.push(display::wave_boxes(&run, out.paint));
    parts.push(display::failures(&run, false, out.paint));
    parts.extend(outputs(&run, out));
    for part in parts.iter().filter(|part| !part.is_empty()) {
        out.line("");
        out.line(part);
    }
    out.line("");
    out.line(&display::outcome_line(&run, now_ms(), out.paint));
    out.line(&fill(words().watch.show_with, &[run_id]));
    Ok(Exit::of_outcome(run.outcome()))
}

/// The outputs of the tasks of the last wave.
fn outputs(run: &v1::Run, out: &Output) -> Vec<String> {
    let Some(wave) = run.waves.last() else { return Vec::new() };
    let given = wave.tasks.iter().filter_map(|task| task.output.as_ref().map(|output| (task, output)));
    given
        .take(MOST_OUTPUTS)
        .filter_map(|(task, output)| {
            let title = fill(words().watch.output_of, &[&visible(&task.name)]);
            let body = match payload::excerpt(output) {
                Some(excerpt) => excerpt,
                None if payload::size(output) <= "null".len() as u64 => return None,
                None => fill(words().watch.output_elsewhere, &[&run.run_id]),
            };
            Some(format!("{}\n{body}", out.paint.text(Tone::Strong, &title)))
        })
        .collect()
}

/// Prints why the waiting ended, and how to return to the run. With JSON, only the exit code says so.
pub fn unfinished(
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
