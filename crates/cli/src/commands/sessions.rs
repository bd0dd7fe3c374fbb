//! `capataz sessions …`: the state file of a project, for which no daemon is needed, and the sessions of a daemon.

use std::io;
use std::path::Path;

use capataz_contracts::{Violation, json as contract_json, v1};
use capataz_policy::codes;
use capataz_policy::session::{self, Place, Places, Repair};
use serde_json::{Map, Value, json};

use super::session_diff::Diff;
use super::{Daemon, Outcome, session_views, state_sync};
use crate::args::{Global, RepairArgs, SessionsCommand, StateArgs};
use crate::exit::Exit;
use crate::failure::{Failure, violations_json};
use crate::output::Output;
use crate::state_file::StateFile;
use crate::watch::follow::now_ms;
use capataz_display::error::{self, Context};
use capataz_display::words::messages::message;
use capataz_display::words::{Language, Sessions, counted, fill, words};

pub async fn sessions(command: SessionsCommand, global: &Global, out: &mut Output) -> Outcome {
    match command {
        SessionsCommand::List(args) => session_views::list(args, global, out).await,
        SessionsCommand::Show { session } => session_views::show(&session, global, out).await,
        SessionsCommand::Import { session, state } => {
            let daemon = Daemon::connect(global).await?;
            let imported = state_sync::import(&session, &state.file, &daemon).await?;
            let (texts, file) = (&words().sessions, state.file.display().to_string());
            let text = if imported.changed { texts.imported } else { texts.same };
            match out.json {
                true => out.document(
                    &json!({ "session": session, "seq": imported.seq, "changed": imported.changed }),
                ),
                false => out.line(&error::ok(&fill(text, &[&session, &file]), out.paint)),
            }
            Ok(Exit::Ok)
        }
        SessionsCommand::Export { session, state } => {
            let daemon = Daemon::connect(global).await?;
            let exported = state_sync::export(&session, &state.file, &daemon, out).await?;
            let file = state.file.display().to_string();
            match (out.json, exported) {
                (true, _) => out.document(&json!({ "session": session, "file": file, "exported": exported })),
                (false, true) => {
                    out.line(&error::ok(&fill(words().sessions.exported, &[&session, &file]), out.paint))
                }
                (false, false) => out.note(&fill(words().sessions.no_state, &[&session])),
            }
            Ok(if exported { Exit::Ok } else { Exit::Failed })
        }
        SessionsCommand::Validate(args) => validate(&args, out),
        SessionsCommand::Repair(args) => repair(&args, out),
        SessionsCommand::Restore(args) => restore(&args, out),
    }
}

/// What is in a state file.
pub(super) enum Found {
    Valid(Map<String, Value>),
    /// A state with these violations.
    Invalid(Map<String, Value>, Vec<Violation>),
    /// What is no state, and why.
    Unreadable(Box<v1::Error>),
}

pub(super) fn look(bytes: &[u8], file: &Path) -> Found {
    match session::parse(bytes) {
        Err(cause) => Found::Unreadable(Box::new(session::corrupted(&file.display().to_string(), cause))),
        Ok(state) => match session::violations(&state) {
            violations if violations.is_empty() => Found::Valid(state),
            violations => Found::Invalid(state, violations),
        },
    }
}

pub fn validate(args: &StateArgs, out: &mut Output) -> Outcome {
    let (file, bytes) = open(&args.file)?;
    let (error, violations) = match look(&bytes, &args.file) {
        Found::Valid(_) => (None, Vec::new()),
        Found::Invalid(_, violations) => (session::failed(&violations), violations),
        Found::Unreadable(error) => (Some(*error), Vec::new()),
    };
    let places = Places::of(&bytes);
    let places: Vec<Option<Place>> =
        violations.iter().map(|violation| places.find(&violation.path)).collect();
    let exit = if error.is_some() { Exit::Invalid } else { Exit::Ok };
    if out.json {
        let error = error.map(|error| contract_json::print("capataz.v1.Error", &error));
        out.document(&json!({
            "file": args.file.display().to_string(),
            "kind": "session",
            "valid": exit == Exit::Ok,
            "violations": listed(&violations, &places),
            "error": error,
        }));
    } else if let Some(mut error) = error {
        for (detail, place) in error.details.iter_mut().zip(&places) {
            detail.message = at_place(&detail.message, *place);
        }
        let recovery = recovery(&args.file, &file, Some(&bytes));
        let context = Context { recovery: &recovery, form: out.form, ..Context::default() };
        out.note(&error::error(&error, &context, out.error_paint()));
    } else {
        out.line(&error::ok(&fill(words().sessions.valid, &[&args.file.display().to_string()]), out.paint));
    }
    Ok(exit)
}

/// The violations with their kinds, by which the contract tells them apart, and their places.
fn listed(violations: &[Violation], places: &[Option<Place>]) -> Value {
    let mut listed = violations_json(violations);
    for ((entry, violation), place) in listed.as_array_mut().into_iter().flatten().zip(violations).zip(places)
    {
        entry["rule"] = violation.rule.into();
        if let Some(place) = place {
            entry["line"] = place.line.into();
            entry["column"] = place.column.into();
        }
    }
    listed
}

/// The message, in English as the contract has it, behind the place that it is about.
fn at_place(message: &str, place: Option<Place>) -> String {
    match place {
        Some(Place { line, column }) => format!("line {line}, column {column}: {message}"),
        None => message.to_owned(),
    }
}

/// The ways to recover from a file that is not valid, as commands. A repair is one of them where its bytes are given, because it has
/// not failed, and something of them would be kept.
fn recovery(path: &Path, file: &StateFile, bytes: Option<&[u8]>) -> Vec<(&'static str, String)> {
    let options = &words().options;
    let has_backup = file.read_backup().ok().flatten().is_some_and(|bytes| valid(&bytes).is_some());
    let keeps = bytes.is_some_and(|bytes| match look(bytes, path) {
        Found::Valid(_) => false,
        Found::Invalid(..) => true,
        Found::Unreadable(_) => !has_backup && session::salvaged(bytes).is_some(),
    });
    let file = match path == Path::new(crate::args::STATE) {
        true => String::new(),
        false => format!(" {}", path.display()),
    };
    let mut ways = Vec::new();
    if has_backup {
        ways.push(("[b] ", fill(options.restore, &[&file])));
    }
    if keeps {
        ways.push(("[p] ", fill(options.repair, &[&file])));
    }
    ways.push(("[r] ", fill(options.reinitialise, &[&file])));
    ways.push(("[m] ", options.edit.to_owned()));
    ways
}

/// The refusal of a file, with the ways to recover from it; a repair of these bytes is one of them.
pub(super) fn refused(path: &Path, file: &StateFile, bytes: Option<&[u8]>, error: v1::Error) -> Failure {
    Failure::State { error: Box::new(error), recovery: recovery(path, file, bytes) }
}

/// The state in the bytes, if it is valid.
fn valid(bytes: &[u8]) -> Option<Map<String, Value>> {
    session::parse(bytes).ok().filter(|state| session::violations(state).is_empty())
}

/// What a repair comes to, and where it is from.
struct Repaired {
    text: Vec<u8>,
    state: Map<String, Value>,
    source: &'static str,
    repairs: Vec<Repair>,
}

impl Repaired {
    /// # Errors
    /// The state may not be written.
    fn of(
        state: Map<String, Value>,
        source: &'static str,
        repairs: Vec<Repair>,
    ) -> Result<Self, Box<v1::Error>> {
        Ok(Self { text: session::text(&state)?, state, source, repairs })
    }

    fn new(now: i64) -> Result<Self, Box<v1::Error>> {
        Self::of(session::initial(now), "new", Vec::new())
    }

    fn keeping(damaged: &Map<String, Value>, now: i64) -> Result<Self, Box<v1::Error>> {
        let (state, repairs) = session::repaired(damaged, now);
        Self::of(state, "repair", repairs)
    }
}

/// What becomes of what was found: `None` where it stays as it is.
///
/// What is no state at all comes from its backup, else what is whole of it is kept, else it begins anew. A state that is
/// only not valid is newer than its backup, so that what is valid of it is kept, and a person may still restore it.
fn planned(file: &StateFile, bytes: &[u8], args: &RepairArgs, now: i64) -> Result<Option<Repaired>, Failure> {
    let told = |error| refused(&args.state.file, file, None, session::repair_failed(error));
    if args.reinitialise {
        return Repaired::new(now).map(Some).map_err(told);
    }
    match look(bytes, &args.state.file) {
        Found::Valid(_) => Ok(None),
        Found::Invalid(state, _) => Repaired::keeping(&state, now).map(Some).map_err(told),
        Found::Unreadable(_) => {
            let backup = match args.no_backup {
                true => None,
                false => file.read_backup().map_err(|error| failed(&file.backup(), &error))?,
            };
            if let Some(text) = backup
                && let Some(state) = valid(&text)
            {
                return Ok(Some(Repaired { text, state, source: "backup", repairs: Vec::new() }));
            }
            let kept = session::salvaged(bytes).and_then(|damaged| Repaired::keeping(&damaged, now).ok());
            kept.map_or_else(|| Repaired::new(now), Ok).map(Some).map_err(told)
        }
    }
}

fn repair(args: &RepairArgs, out: &mut Output) -> Outcome {
    let path = &args.state.file;
    let now = now_ms();
    let (file, bytes) = open(path)?;
    if args.dry_run {
        let repaired = planned(&file, &bytes, args, now)?;
        return told(args, &bytes, repaired, None, out);
    }
    let Carried { before, repaired, aside } = carried_out(&file, args, now)?;
    told(args, &before, repaired, aside, out)
}

/// What became of a file that was looked at under its lock.
struct Carried {
    before: Vec<u8>,
    /// `None` where it needed nothing.
    repaired: Option<Repaired>,
    /// Where the former file is kept.
    aside: Option<String>,
}

/// Repairs the file under its lock, where it needs that.
fn carried_out(file: &StateFile, args: &RepairArgs, now: i64) -> Result<Carried, Failure> {
    let path = &args.state.file;
    let locked = file.lock().map_err(|error| failed(path, &error))?;
    // What another process has made of the file until it was locked.
    let bytes = read(file, path)?;
    let Some(repaired) = planned(file, &bytes, args, now)? else {
        return Ok(Carried { before: bytes, repaired: None, aside: None });
    };
    if let Found::Valid(_) = look(&bytes, path) {
        locked.back_up(&bytes).map_err(|error| failed(&file.backup(), &error))?;
    }
    let aside = locked.keep_aside(now).map_err(|error| failed(path, &error))?;
    locked.write(&repaired.text).map_err(|error| failed(path, &error))?;
    Ok(Carried { before: bytes, repaired: Some(repaired), aside: Some(aside.display().to_string()) })
}

/// A text of this command in a language.
pub(super) type Told = fn(&Sessions) -> &'static str;

/// A file that was made valid.
pub(super) struct Mended {
    pub(super) state: Map<String, Value>,
    /// What was done, with a place for the file's name.
    pub(super) outcome: Told,
    /// In English words, as all that logs keep.
    pub(super) repairs: Vec<String>,
}

/// Makes a file valid, as `sessions repair` does.
pub(super) fn mend(path: &Path, file: &StateFile) -> Result<Mended, Failure> {
    let state = StateArgs { file: path.to_owned() };
    let args = RepairArgs { state, dry_run: false, no_backup: false, reinitialise: false };
    let Carried { before, repaired, .. } = carried_out(file, &args, now_ms())?;
    let Some(repaired) = repaired else {
        let state = valid(&before).unwrap_or_default();
        return Ok(Mended { state, outcome: |texts| texts.valid, repairs: Vec::new() });
    };
    let outcome: Told = match repaired.source {
        "backup" => |texts| texts.restored,
        "new" => |texts| texts.begun,
        _ => |texts| texts.repaired,
    };
    let repairs = Language::English.within(|| repaired.repairs.iter().map(in_words).take(99).collect());
    Ok(Mended { state: repaired.state, outcome, repairs })
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
    let Some(Repaired { text, state, source, repairs }) = repaired else {
        match out.json {
            true => out.document(&json!({ "file": file, "changed": false })),
            false => out.line(&error::ok(&fill(texts.valid, &[&file]), out.paint)),
        }
        return Ok(Exit::Ok);
    };
    let places = Places::of(before);
    let repairs: Vec<(String, Option<Place>)> =
        repairs.iter().map(|repair| (in_words(repair), places.find(field_of(repair)))).collect();
    let (before, after) = (String::from_utf8_lossy(before), String::from_utf8_lossy(&text));
    let diff = Diff::of(&before, &after);
    if out.json {
        let list = repairs.iter().map(|(repair, place)| {
            let mut entry = json!({ "message": repair });
            if let Some(place) = place {
                entry["line"] = place.line.into();
                entry["column"] = place.column.into();
            }
            entry
        });
        out.document(&json!({
            "file": file,
            "changed": !args.dry_run,
            "source": source,
            "repairs": list.collect::<Vec<Value>>(),
            "diff": diff.to_json(),
            "kept_aside": aside,
            "state": state,
        }));
        return Ok(Exit::Ok);
    }
    for line in diff.lines(&file, texts.repaired_name) {
        out.line(&capataz_display::frame::visible(&line));
    }
    for (repair, place) in repairs {
        out.line(&format!("- {}", message(&at_place(&repair, place))));
    }
    let outcome = match (args.dry_run, source) {
        (true, "backup") => texts.would_restore,
        (true, "new") => texts.would_begin,
        (true, _) => texts.would_repair,
        (false, "backup") => texts.restored,
        (false, "new") if args.reinitialise => texts.reinitialised,
        (false, "new") => texts.begun,
        (false, _) => texts.repaired,
    };
    out.line(&error::ok(&fill(outcome, &[&file]), out.paint));
    if let Some(aside) = aside {
        out.line(&fill(texts.kept_aside, &[&aside]));
    }
    Ok(Exit::Ok)
}

/// The field that a repair is about, as a violation would name it.
fn field_of(repair: &Repair) -> &str {
    match repair {
        Repair::Added { field } | Repair::Reset { field } | Repair::Removed { field } => field,
        Repair::Filtered { .. } => "history",
    }
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
    let file = StateFile::at(path).map_err(|error| unreadable(path, &error))?;
    // Where there is nothing to restore, no lock is left behind.
    backup_of(&file, path)?;
    let locked = file.lock().map_err(|error| failed(path, &error))?;
    let (text, state) = backup_of(&file, path)?;
    let present = file.read().map_err(|error| unreadable(path, &error))?;
    let aside = match present.as_ref().map(|bytes| (bytes, look(bytes, path))) {
        None => None,
        Some((bytes, Found::Valid(_))) => {
            locked.back_up(bytes).map_err(|error| failed(&file.backup(), &error))?;
            None
        }
        Some(_) => Some(locked.keep_aside(now_ms()).map_err(|error| failed(path, &error))?),
    };
    locked.write(&text).map_err(|error| failed(path, &error))?;
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

/// The backup's text and its state. A state that is not valid is put nowhere, not even from a backup.
fn backup_of(file: &StateFile, path: &Path) -> Result<(Vec<u8>, Map<String, Value>), Failure> {
    let backup = file.backup();
    let Some(text) = file.read_backup().map_err(|error| failed(&backup, &error))? else {
        let message = fill(words().sessions.no_backup, &[&backup.display().to_string()]);
        return Err(Failure::invalid(message));
    };
    match look(&text, &backup) {
        Found::Valid(state) => Ok((text, state)),
        Found::Invalid(_, violations) => Err(refused(path, file, None, session::invalid(&violations))),
        Found::Unreadable(error) => Err(refused(path, file, None, *error)),
    }
}

/// The file that is there, and its bytes.
pub(super) fn open(path: &Path) -> Result<(StateFile, Vec<u8>), Failure> {
    let file = StateFile::at(path).map_err(|error| unreadable(path, &error))?;
    let bytes = read(&file, path)?;
    Ok((file, bytes))
}

/// The file, which may not be there yet, and its bytes where it is.
pub(super) fn open_or_new(path: &Path) -> Result<(StateFile, Option<Vec<u8>>), Failure> {
    let file = StateFile::at(path).map_err(|error| unreadable(path, &error))?;
    let bytes = file.read().map_err(|error| unreadable(path, &error))?;
    Ok((file, bytes))
}

fn read(file: &StateFile, path: &Path) -> Result<Vec<u8>, Failure> {
    let not_found = || {
        let message = format!("there is no state file {}", path.display());
        let error = v1::Error {
            suggested_action: Some(
                "Name the state file that is meant, or begin one by `run --session`.".to_owned(),
            ),
            ..codes::error(codes::SESSION_NOT_FOUND, message)
        };
        Failure::State { error: Box::new(error), recovery: Vec::new() }
    };
    file.read().map_err(|error| unreadable(path, &error))?.ok_or_else(not_found)
}

/// A state file that is there and cannot be read (seed 000, contract 7: whatever the reason, if it is not that there is none).
/// Nothing of it could be restored or repaired in its place.
fn unreadable(path: &Path, error: &io::Error) -> Failure {
    let error = codes::error(codes::SESSION_CORRUPTED, reason(path, error));
    Failure::State {
        error: Box::new(error),
        recovery: vec![("[m] ", words().options.make_readable.to_owned())],
    }
}

/// What could not be done to a file of a state, or to what belongs to it.
pub(super) fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure::failed(reason(path, error))
}

fn reason(path: &Path, error: &io::Error) -> String {
    let texts = &words().sessions;
    let file = path.display().to_string();
    match error.kind() {
        io::ErrorKind::WouldBlock => fill(texts.in_use, &[&file]),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            fill(texts.not_allowed, &[&file, &error.to_string()])
        }
        _ => fill(texts.cannot, &[&file, &error.to_string()]),
    }
}
