//! `capataz rebuild`: the rows of a data folder that follow from its logs, checked or made again. It needs no daemon, and
//! the folder must have none.

use capataz_daemon::{Config, Damage, Difference, Overrides, Told, Totals};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use super::Outcome;
use crate::args::RebuildArgs;
use crate::exit::Exit;
use crate::failure::{Failure, chain};
use crate::output::Output;
use capataz_display::frame::visible;
use capataz_display::paint::Tone;
use capataz_display::words::{counted, fill, words};

pub fn rebuild(args: RebuildArgs, out: &mut Output) -> Outcome {
    let overrides = Overrides { data_dir: args.data_dir, ..Overrides::default() };
    let config = Config::load(args.config.as_deref(), overrides).map_err(Failure::of_config)?;
    let progress = progress();
    let mut tell = |told: Told<'_>| match told {
        Told::Differs(difference) => progress.suspend(|| differs(difference, out)),
        Told::LeftAlone(damage) => progress.suspend(|| left_alone(damage, out)),
        Told::Progress(totals) => {
            let counts = [totals.runs, totals.differing, totals.mended].map(|count| count.to_string());
            let counts = counts.each_ref().map(String::as_str);
            progress.set_message(fill(words().rebuild.progress, &counts));
            progress.tick();
        }
    };
    let totals = capataz_daemon::rebuild(&config.data_dir, args.check, &mut tell);
    progress.finish_and_clear();
    let totals = totals.map_err(|error| Failure::failed(chain(&error)))?;
    summarise(totals, args.check, out);
    Ok(if totals.left > 0 || (args.check && totals.differing > 0) { Exit::Failed } else { Exit::Ok })
}

/// A line on stderr that moves, if stderr is a terminal.
pub fn progress() -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {msg}");
    ProgressBar::new_spinner().with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
}

fn differs(difference: &Difference, out: &mut Output) {
    let Difference { run, column, stored, derived } = difference;
    let run = run.to_string();
    if out.json {
        out.record(&json!({ "run_id": run, "column": column, "stored": stored, "derived": derived }));
    } else {
        out.line(&visible(&fill(words().rebuild.differs, &[&run, column, stored, derived])));
    }
}

fn left_alone(damage: &Damage, out: &mut Output) {
    if out.json {
        out.record(&json!({ "run_id": damage.run.to_string(), "left_alone": damage.to_string() }));
    } else {
        let text = visible(&fill(words().rebuild.left, &[&damage.to_string()]));
        out.line(&out.paint.text(Tone::Bad, &text));
    }
}

fn summarise(totals: Totals, only_check: bool, out: &mut Output) {
    let Totals { runs, differing, left, mended } = totals;
    if out.json {
        return out.record(&json!({
            "runs": runs,
            "differing": differing,
            "mended": mended,
            "left_alone": left,
            "check": only_check,
        }));
    }
    let texts = &words().rebuild;
    let mut parts = vec![counted(runs, texts.runs_one, texts.runs_many)];
    if differing > 0 {
        parts.push(counted(differing, texts.differing_one, texts.differing_many));
    }
    if mended > 0 {
        parts.push(counted(mended, texts.mended_one, texts.mended_many));
    }
    if left > 0 {
        parts.push(counted(left, texts.left_one, texts.left_many));
    }
    if differing == 0 && left == 0 {
        parts.push(texts.same.to_owned());
    }
    out.line(&parts.join("; "));
}
