//! `capataz backup`, `restore` and `verify`: copies of a data folder, without the daemon's help.

use std::path::PathBuf;

use capataz_daemon::{Config, Copying, Looked, Overrides, Step, Told};
use indicatif::ProgressBar;
use serde_json::{Value, json};

use super::Outcome;
use super::rebuild::progress;
use crate::args::{BackupArgs, RestoreArgs, VerifyArgs};
use crate::exit::Exit;
use crate::failure::{Failure, chain};
use crate::output::Output;
use capataz_display::format::utc;
use capataz_display::frame::visible;
use capataz_display::paint::Tone;
use capataz_display::words::{counted, fill, words};

pub fn backup(args: BackupArgs, out: &mut Output) -> Outcome {
    let data_dir = data_dir(args.config, args.data_dir)?;
    let looked = watched(out, |tell| capataz_daemon::backup(&data_dir, &args.target, tell))?;
    let target = args.target.display().to_string();
    let record = json!({ "backup": target });
    Ok(summarise(&looked, record, &fill(words().backup.made, &[&target]), out))
}

pub fn restore(args: RestoreArgs, out: &mut Output) -> Outcome {
    let data_dir = data_dir(args.config, args.data_dir)?;
    let (note, looked) = watched(out, |tell| capataz_daemon::restore(&args.from, &data_dir, tell))?;
    let place = data_dir.display().to_string();
    let record = json!({ "restored": place, "begun_at_ms": note.begun_at_ms, "version": note.version });
    let texts = &words().backup;
    let head = [fill(texts.restored, &[&place]), fill(texts.from, &[&utc(note.begun_at_ms)])].join("; ");
    Ok(summarise(&looked, record, &head, out))
}

pub fn verify(args: VerifyArgs, out: &mut Output) -> Outcome {
    let folder = match args.folder {
        Some(folder) => folder,
        None => data_dir(args.config, args.data_dir)?,
    };
    let looked = watched(out, |tell| capataz_daemon::verify(&folder, tell))?;
    let folder = folder.display().to_string();
    Ok(summarise(&looked, json!({ "folder": folder }), &folder, out))
}

fn data_dir(config: Option<PathBuf>, data_dir: Option<PathBuf>) -> Result<PathBuf, Failure> {
    let overrides = Overrides { data_dir, ..Overrides::default() };
    let config = Config::load(config.as_deref(), overrides).map_err(Failure::of_config)?;
    Ok(config.data_dir)
}

/// Does the work, shows how far it is, and tells of each damage when it is met.
fn watched<T>(
    out: &mut Output,
    work: impl FnOnce(&mut dyn FnMut(Step<'_>)) -> Result<T, capataz_daemon::BackupError>,
) -> Result<T, Failure> {
    let progress = progress();
    let done = work(&mut |step| tell(step, &progress, out));
    progress.finish_and_clear();
    done.map_err(|error| Failure::failed(chain(&error)))
}

fn tell(step: Step<'_>, progress: &ProgressBar, out: &mut Output) {
    let texts = &words().backup;
    match step {
        Step::Copying(Copying::Database { done, of }) => {
            let percent = done.saturating_mul(100).checked_div(of).unwrap_or(100);
            progress.set_message(fill(texts.copying, &[&percent.to_string()]));
        }
        Step::Copying(Copying::Blobs { done, of }) => {
            progress.set_message(fill(texts.blobs, &[&done.to_string(), &of.to_string()]));
        }
        Step::Verifying(Told::Progress(totals)) => {
            progress.set_message(fill(texts.verifying, &[&totals.runs.to_string()]));
        }
        Step::Verifying(Told::LeftAlone(damage)) => progress.suspend(|| {
            let record = json!({ "run_id": damage.run.to_string(), "left_alone": damage.to_string() });
            say(record, &fill(texts.damaged_run, &[&damage.to_string()]), Some(Tone::Bad), out);
        }),
        Step::Verifying(Told::Differs(difference)) => progress.suspend(|| {
            let record = json!({ "run_id": difference.run.to_string(), "column": difference.column });
            say(record, &fill(texts.stale_row, &[&difference.to_string()]), None, out);
        }),
    }
    progress.tick();
}

fn say(record: Value, text: &str, tone: Option<Tone>, out: &mut Output) {
    if out.json {
        return out.record(&record);
    }
    let text = visible(text);
    out.line(&tone.map_or_else(|| text.to_string(), |tone| out.paint.text(tone, &text)));
}

fn summarise(looked: &Looked, mut record: Value, head: &str, out: &mut Output) -> Exit {
    let texts = &words().backup;
    let Looked { totals, blobs, position } = looked;
    for (hashes, key, text) in [
        (&blobs.damaged, "damaged_blob", texts.damaged_blob),
        (&blobs.missing, "missing_blob", texts.missing_blob),
    ] {
        for hash in hashes {
            let hash = hash.to_string();
            say(json!({ key: hash }), &fill(text, &[&hash]), Some(Tone::Bad), out);
        }
    }
    let damage = totals.left + blobs.damaged.len() as u64 + blobs.missing.len() as u64;
    if out.json {
        let counts = json!({
            "runs": totals.runs,
            "blobs": blobs.count,
            "blob_bytes": blobs.bytes,
            "position": position,
            "left_alone": totals.left,
            "damaged_blobs": blobs.damaged.len(),
            "missing_blobs": blobs.missing.len(),
        });
        if let (Value::Object(record), Value::Object(counts)) = (&mut record, counts) {
            record.extend(counts);
        }
        out.record(&record);
    } else {
        let whole = if damage == 0 {
            texts.whole.to_owned()
        } else {
            counted(damage, texts.damage_one, texts.damage_many)
        };
        let runs = counted(totals.runs, texts.runs_one, texts.runs_many);
        let blobs = counted(blobs.count, texts.blobs_one, texts.blobs_many);
        out.line(&visible(&[head.to_owned(), runs, blobs, whole].join("; ")));
    }
    if looked.is_whole() { Exit::Ok } else { Exit::Failed }
}
