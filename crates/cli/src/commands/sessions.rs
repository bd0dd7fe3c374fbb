//! `capataz sessions …`, which needs no daemon.

use std::io;
use std::path::Path;

use capataz_contracts::{json as contract_json, v1};
use capataz_policy::codes;
use capataz_policy::session::{self, Repair};
use serde_json::{Map, Value, json};
use similar::TextDiff;

use super::Outcome;
use crate::args::{RepairArgs, SessionsCommand, StateArgs};
use crate::exit::Exit;
use crate::failure::{Failure, violations_json};
use crate::output::Output;
use crate::state_file::StateFile;
use crate::watch::follow::now_ms;
use capataz_display::error::{self, Context};
use capataz_display::words::{counted, fill, words};

/// Lines around a change that a diff shows.
const AROUND: usize = 3;

pub fn sessions(command: SessionsCommand, out: &mut Output) -> Outcome {
    match command {
        SessionsCommand::Validate(args) => validate(&args, out),
        SessionsCommand::Repair(args) => repair(&args, out),
        SessionsCommand::Restore(args) => restore(&args, out),
    }
}

/// What is in a state file.
enum Found {
    Valid,
    /// A state with these violations.
    Invalid(Map<String, Value>, Vec<capataz_contracts::Violation>),
    /// What is no state, and why.
    Unreadable(Box<v1::Error>),
}

fn look(bytes: &[u8], file: &Path) -> Found {
    match session::parse(bytes) {
        Err(cause) => Found::Unreadable(Box::new(session::corrupted(&file.display().to_string(), cause))),
        Ok(state) => match session::violations(&state) {
            violations if violations.is_empty() => Found::Valid,
            violations => Found::Invalid(state, violations),
        },
    }
}

fn validate(args: &StateArgs, out: &mut Output) -> Outcome {
    let (_, bytes) = open(&args.file)?;
    let (error, violations) = match look(&bytes, &args.file) {
        Found::Valid => (None, Vec::new()),
        Found::Invalid(_, violations) => (session::failed(&violations), violations),
        Found::Unreadable(error) => (Some(*error), Vec::new()),
    };
    let exit = if error.is_some() { Exit::Invalid } else { Exit::Ok };
    if out.json {
        let error = error.map(|error| contract_json::print("capataz.v1.Error", &error));
        out.document(&json!({
            "file": args.file.display().to_string(),
            "kind": "session",
            "valid": exit == Exit::Ok,
            "violations": kinds(&violations),
            "error": error,
        }));
    } else if let Some(error) = error {
        out.note(&error::error(&error, &Context::default(), out.error_paint()));
    } else {
        out.line(&error::ok(&fill(words().sessions.valid, &[&args.file.display().to_string()]), out.paint));
    }
    Ok(exit)
}

/// The violations with their kinds, by which the contract tells them apart.
fn kinds(violations: &[capataz_contracts::Violation]) -> Value {
    let mut listed = violations_json(violations);
    for (entry, violation) in listed.as_array_mut().into_iter().flatten().zip(violations) {
        entry["rule"] = violation.rule.into();
    }
    listed
}

/// What a repair comes to, and where it is from.
struct Repaired {
    state: Map<String, Value>,
    source: &'static str,
    repairs: Vec<Repair>,
}

fn repair(args: &RepairArgs, out: &mut Output) -> Outcome {
    let path = &args.state.file;
    let (file, bytes) = open(path)?;
    let _lock = if args.dry_run { None } else { Some(file.lock().map_err(|error| failed(path, &error))?) };
    let found = look(&bytes, path);
    if matches!(found, Found::Valid) && !args.reinitialise {
        return told(args, &bytes, None, None, out);
    }
    let now = now_ms();
    let backup = match args.no_backup || args.reinitialise {
        true => None,
        false => file.backed_up().map_err(|error| failed(&file.backup(), &error))?,
    };
    let damaged = match found {
        Found::Invalid(state, _) => Some(state),
        Found::Valid => None,
        Found::Unreadable(_) => session::salvaged(&bytes),
    };
    let repaired = match (backup, damaged.filter(|_| !args.reinitialise)) {
        (Some(state), _) => Repaired { state, source: "backup", repairs: Vec::new() },
        (None, Some(damaged)) => {
            let (state, repairs) = session::repaired(&damaged, now);
            Repaired { state, source: "repair", repairs }
        }
        (None, None) => Repaired { state: session::initial(now), source: "new", repairs: Vec::new() },
    };
    let aside = match args.dry_run {
        true => None,
        false => {
            let aside = file.keep_aside(now).map_err(|error| failed(path, &error))?;
            file.write(&text_of(&repaired.state)).map_err(|error| failed(path, &error))?;
            Some(aside.display().to_string())
        }
    };
    told(args, &bytes, Some(repaired), aside, out)
}

fn told(
    args: &RepairArgs,
    before: &[u8],
    repaired: Option<Repaired>,
    aside: Option<String>,
    out: &mut Output,
) -> Outcome {
    let file = args.state.file.display().to_string();
    let texts = &words().sessions;
    let Some(Repaired { state, source, repairs }) = repaired else {
        match out.json {
            true => out.document(&json!({ "file": file, "changed": false })),
            false => out.line(&error::ok(&fill(texts.valid, &[&file]), out.paint)),
        }
        return Ok(Exit::Ok);
    };
    let repairs: Vec<String> = repairs.iter().map(in_words).collect();
    if out.json {
        out.document(&json!({
            "file": file,
            "changed": !args.dry_run,
            "source": source,
            "repairs": repairs,
            "kept_aside": aside,
            "state": state,
        }));
        return Ok(Exit::Ok);
    }
    let after = text_of(&state);
    let (before, after) = (String::from_utf8_lossy(before), String::from_utf8_lossy(&after));
    let diff = TextDiff::from_lines(before.as_ref(), after.as_ref());
    let shown = diff.unified_diff().context_radius(AROUND).header(&file, texts.repaired_name).to_string();
    for line in shown.lines() {
        out.line(&capataz_display::frame::visible(line));
    }
    for repair in repairs {
        out.line(&format!("- {repair}"));
    }
    let outcome = match (args.dry_run, source) {
        (true, "backup") => texts.would_restore,
        (true, "new") => texts.would_begin,
        (true, _) => texts.would_repair,
        (false, "backup") => texts.restored,
        (false, "new") => texts.begun,
        (false, _) => texts.repaired,
    };
    out.line(&error::ok(&fill(outcome, &[&file]), out.paint));
    if let Some(aside) = aside {
        out.line(&fill(texts.kept_aside, &[&aside]));
    }
    Ok(Exit::Ok)
}

fn in_words(repair: &Repair) -> String {
    let texts = &words().sessions;
    match repair {
        Repair::Added { field } => fill(texts.added, &[field]),
        Repair::Reset { field } => fill(texts.reset, &[field]),
        Repair::Removed { field } => fill(texts.removed, &[field]),
        Repair::Filtered { entries } => counted(*entries as u64, texts.filtered_one, texts.filtered_many),
    }
}

fn restore(args: &StateArgs, out: &mut Output) -> Outcome {
    let path = &args.file;
    let file = StateFile::at(path).map_err(|error| failed(path, &error))?;
    let backup = file.backup();
    let Some(state) = file.backed_up().map_err(|error| failed(&backup, &error))? else {
        let message = fill(words().sessions.no_backup, &[&backup.display().to_string()]);
        return Err(Failure::invalid(message));
    };
    let _lock = file.lock().map_err(|error| failed(path, &error))?;
    let present = file.read().map_err(|error| failed(path, &error))?;
    let aside = match present.as_ref().map(|bytes| (bytes, look(bytes, path))) {
        None => None,
        Some((bytes, Found::Valid)) => {
            file.back_up(bytes).map_err(|error| failed(&backup, &error))?;
            None
        }
        Some(_) => Some(file.keep_aside(now_ms()).map_err(|error| failed(path, &error))?),
    };
    file.write(&text_of(&state)).map_err(|error| failed(path, &error))?;
    let aside = aside.map(|aside| aside.display().to_string());
    if out.json {
        out.document(&json!({ "file": path.display().to_string(), "changed": true, "kept_aside": aside, "state": state }));
        return Ok(Exit::Ok);
    }
    out.line(&error::ok(&fill(words().sessions.restored, &[&path.display().to_string()]), out.paint));
    if let Some(aside) = aside {
        out.line(&fill(words().sessions.kept_aside, &[&aside]));
    }
    Ok(Exit::Ok)
}

/// The file that is there, and its bytes.
fn open(path: &Path) -> Result<(StateFile, Vec<u8>), Failure> {
    let file = StateFile::at(path).map_err(|error| failed(path, &error))?;
    match file.read().map_err(|error| failed(path, &error))? {
        Some(bytes) => Ok((file, bytes)),
        None => {
            let message = fill(
                words().sessions.not_found,
                &[codes::SESSION_NOT_FOUND.as_str(), &path.display().to_string()],
            );
            Err(Failure::invalid(message))
        }
    }
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    let texts = &words().sessions;
    let file = path.display().to_string();
    match error.kind() {
        io::ErrorKind::WouldBlock => Failure::failed(fill(texts.in_use, &[&file])),
        _ => Failure::failed(fill(texts.cannot, &[&file, &error.to_string()])),
    }
}

/// The state as the file has it: laid out, with a line break at its end.
fn text_of(state: &Map<String, Value>) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(state).unwrap_or_default();
    text.push(b'\n');
    text
}
