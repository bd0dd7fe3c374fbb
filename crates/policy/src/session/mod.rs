//! The state of a session, as `.elsabro/state.json` has it: what is valid, and what may be kept of what is not (seed 000,
//! contract 7).
//!
//! Nothing here reads a file. [`parse`] reads its bytes, [`violations`] finds what is wrong with a state, [`Places`] where
//! that is, [`repaired`] keeps what is valid of it, and [`initial`] is one to begin with. [`text`] is what may be written.

mod places;
mod repair;
mod salvage;
#[cfg(test)]
mod tests;
mod work;

use capataz_contracts::{Violation, v1};
use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use serde_json::{Map, Value};

use crate::codes;
use crate::severity::Severity;

pub use places::{Place, Places};
pub use repair::{Repair, initial, mended, repaired, told};
pub use salvage::salvaged;
pub use work::{PENDING, Progress, Result as WorkResult, Stage, changes};

/// Bytes of a state at most. What the contract has in it is a few kilobytes.
pub const MAX_BYTES: usize = 4 * 1024 * 1024;
/// Bytes of a state that a session takes over at most: the daemon keeps it in memory, with the one before it.
pub const MAX_IMPORT_BYTES: usize = 64 * 1024;
/// Violations that are told at most.
const MAX_VIOLATIONS: usize = 1_000;

/// The kinds of violations, by which programs tell them apart.
const MISSING_REQUIRED: &str = "MISSING_REQUIRED";
const TYPE_MISMATCH: &str = "TYPE_MISMATCH";
const INVALID_PHASE: &str = "INVALID_PHASE";
const INVALID_TIMESTAMP: &str = "INVALID_TIMESTAMP";
const INVALID_TIMESTAMP_ORDER: &str = "INVALID_TIMESTAMP_ORDER";

/// What a field may be. The names are those of the violations' messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    String,
    Object,
    Array,
    Null,
}

impl Type {
    const fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Object => "object",
            Self::Array => "array",
            Self::Null => "null",
        }
    }

    const fn fits(self, value: &Value) -> bool {
        matches!(
            (self, value),
            (Self::String, Value::String(_))
                | (Self::Object, Value::Object(_))
                | (Self::Array, Value::Array(_))
                | (Self::Null, Value::Null)
        )
    }
}

const fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

const REQUIRED: [&str; 2] = ["version", "updated_at"];
const TYPES: [(&str, &[Type]); 10] = [
    ("version", &[Type::String]),
    ("created_at", &[Type::String]),
    ("updated_at", &[Type::String]),
    ("current_flow", &[Type::Object, Type::Null]),
    ("context", &[Type::Object]),
    ("history", &[Type::Array]),
    ("pending_tasks", &[Type::Array]),
    ("blocked_on", &[Type::String, Type::Null]),
    ("errors", &[Type::Object]),
    ("suggested_next", &[Type::String, Type::Null]),
];
const FLOW_REQUIRED: [&str; 3] = ["command", "phase", "started_at"];
const CONTEXT_TYPES: [(&str, Type); 4] = [
    ("project_type", Type::String),
    ("tech_stack", Type::Array),
    ("current_feature", Type::String),
    ("plan_file", Type::String),
];

/// The phases of each command. `execute` also has `executing_wave_N` for every wave; a command that is not here may be in any
/// phase.
const PHASES: [(&str, &[&str]); 6] = [
    ("start", &["initializing", "detecting_context", "greeting", "transitioning", "done"]),
    ("plan", &["initializing", "exploring", "researching", "planning", "validating", "done"]),
    ("execute", &["initializing", "exploring", "executing_wave_N", "verifying", "done"]),
    ("verify-work", &["initializing", "verifying", "aggregating", "done"]),
    ("debug", &["initializing", "diagnosing", "fixing", "verifying", "done"]),
    ("quick", &["initializing", "executing", "done"]),
];
/// The phases of the waves, which have a number in place of the `N`.
const WAVES: &str = "executing_wave_N";

/// Reads the bytes of a state file.
///
/// # Errors
/// JSON_PARSE_ERROR with line and column, or INVALID_STATE_TYPE: it is no object.
pub fn parse(bytes: &[u8]) -> Result<Map<String, Value>, Box<v1::Error>> {
    let refused = |code, message| Err(Box::new(codes::error(code, message)));
    if bytes.len() > MAX_BYTES {
        let message = format!("the state is larger than {MAX_BYTES} bytes, the most that is read");
        return refused(codes::JSON_PARSE_ERROR, message);
    }
    match serde_json::from_slice(bytes) {
        Ok(Value::Object(state)) => Ok(state),
        Ok(other) => {
            let message = format!("the state must be an object, not {}", type_name(&other));
            refused(codes::INVALID_STATE_TYPE, message)
        }
        Err(error) => refused(codes::JSON_PARSE_ERROR, format!("the state is not valid JSON: {error}")),
    }
}

/// Everything that is wrong with the state, in the order of the contract: what is missing, types, the current flow, the
/// history, times. `rule` is the kind of the violation. At most 1,000.
#[must_use]
pub fn violations(state: &Map<String, Value>) -> Vec<Violation> {
    let mut found = Vec::new();
    missing(state, &REQUIRED, "", &mut found);
    for (field, allowed) in TYPES {
        mismatch(state, field, allowed, "", &mut found);
    }
    if let Some(Value::Object(context)) = state.get("context") {
        for (field, allowed) in CONTEXT_TYPES {
            mismatch(context, field, &[allowed], "context.", &mut found);
        }
    }
    if let Some(Value::Object(flow)) = state.get("current_flow") {
        of_flow(flow, &mut found);
    }
    if let Some(Value::Array(history)) = state.get("history") {
        for (index, entry) in history.iter().enumerate() {
            if found.len() >= MAX_VIOLATIONS {
                break;
            }
            of_entry(index, entry, &mut found);
        }
    }
    of_times(state, &mut found);
    found.truncate(MAX_VIOLATIONS);
    found
}

fn missing(fields: &Map<String, Value>, required: &[&str], prefix: &str, found: &mut Vec<Violation>) {
    for field in required.iter().filter(|field| !fields.contains_key(**field)) {
        found.push(Violation::new(
            format!("{prefix}{field}"),
            MISSING_REQUIRED,
            format!("required field '{prefix}{field}' is missing"),
        ));
    }
}

fn mismatch(
    fields: &Map<String, Value>,
    field: &str,
    allowed: &[Type],
    prefix: &str,
    found: &mut Vec<Violation>,
) {
    let Some(value) = fields.get(field).filter(|value| !allowed.iter().any(|kind| kind.fits(value))) else {
        return;
    };
    let expected: Vec<&str> = allowed.iter().map(|kind| kind.name()).collect();
    let message = format!(
        "field '{prefix}{field}' has an invalid type: expected {}, found {}",
        expected.join(" | "),
        type_name(value)
    );
    found.push(Violation::new(format!("{prefix}{field}"), TYPE_MISMATCH, message));
}

fn of_flow(flow: &Map<String, Value>, found: &mut Vec<Violation>) {
    missing(flow, &FLOW_REQUIRED, "current_flow.", found);
    for field in FLOW_REQUIRED {
        mismatch(flow, field, &[Type::String], "current_flow.", found);
    }
    let text = |field: &str| flow.get(field).and_then(Value::as_str);
    let (Some(command), Some(phase)) = (text("command"), text("phase")) else { return };
    let Some((_, phases)) = PHASES.iter().find(|(known, _)| *known == command) else { return };
    let is_it = |known: &str| if known == WAVES { is_wave(phase) } else { known == phase };
    if !phases.iter().any(|known| is_it(known)) {
        let message =
            format!("phase '{phase}' is invalid for command '{command}'; valid ones: {}", phases.join(", "));
        found.push(Violation::new("current_flow.phase", INVALID_PHASE, message));
    }
}

/// `executing_wave_` and a number from 1.
fn is_wave(phase: &str) -> bool {
    let number = WAVES.strip_suffix('N').and_then(|prefix| phase.strip_prefix(prefix));
    number.is_some_and(|number| {
        !number.starts_with('0') && !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

fn of_entry(index: usize, entry: &Value, found: &mut Vec<Violation>) {
    let Value::Object(entry) = entry else {
        let message = format!(
            "field 'history[{index}]' has an invalid type: expected object, found {}",
            type_name(entry)
        );
        found.push(Violation::new(format!("history[{index}]"), TYPE_MISMATCH, message));
        return;
    };
    for field in ["command", "completed_at"] {
        match entry.get(field) {
            Some(Value::String(text)) if !text.is_empty() => {}
            None | Some(Value::Null | Value::String(_)) => found.push(Violation::new(
                format!("history[{index}].{field}"),
                MISSING_REQUIRED,
                format!("history entry {index} has no field '{field}'"),
            )),
            Some(_) => mismatch(entry, field, &[Type::String], &format!("history[{index}]."), found),
        }
    }
}

fn of_times(state: &Map<String, Value>, found: &mut Vec<Violation>) {
    let mut times = [None, None];
    for (time, field) in times.iter_mut().zip(["created_at", "updated_at"]) {
        let Some(Value::String(text)) = state.get(field) else { continue };
        *time = timestamp(text);
        if time.is_none() {
            let message = format!("timestamp '{field}' is not a valid date: {text}");
            found.push(Violation::new(field, INVALID_TIMESTAMP, message));
        }
    }
    if let [Some(created), Some(updated)] = times
        && updated < created
    {
        let message = "updated_at is before created_at";
        found.push(Violation::new("timestamps", INVALID_TIMESTAMP_ORDER, message));
    }
}

/// A date with or without a time; without an offset it is of UTC.
fn timestamp(text: &str) -> Option<Timestamp> {
    if let Ok(timestamp) = text.parse::<Timestamp>() {
        return Some(timestamp);
    }
    let time = text.parse::<DateTime>().ok().or_else(|| Some(text.parse::<Date>().ok()?.at(0, 0, 0, 0)))?;
    time.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
}

/// When the state was written last, in Unix milliseconds; 0 where it does not say so.
#[must_use]
pub fn updated_at(state: &Map<String, Value>) -> i64 {
    state.get("updated_at").and_then(Value::as_str).map_or(0, milliseconds)
}

/// Unix milliseconds of a time; 0 for what is none.
fn milliseconds(text: &str) -> i64 {
    timestamp(text).map_or(0, Timestamp::as_millisecond)
}

/// The error of a state with these violations: CRITICAL where a required field is missing, else HIGH. `None` for none.
#[must_use]
pub fn failed(violations: &[Violation]) -> Option<v1::Error> {
    let plural = if violations.len() == 1 { "" } else { "s" };
    let is_missing = violations.iter().any(|violation| violation.rule == MISSING_REQUIRED);
    let severity = if is_missing { Severity::Critical } else { Severity::High };
    (!violations.is_empty()).then(|| v1::Error {
        severity: severity.to_proto() as i32,
        can_continue: Some(severity.flags().can_continue),
        details: details(violations),
        ..codes::error(
            codes::SESSION_VALIDATION_FAILED,
            format!("{} validation error{plural} found", violations.len()),
        )
    })
}

fn details(violations: &[Violation]) -> Vec<v1::Error> {
    let detail = |violation: &Violation| v1::Error {
        code: violation.rule.to_owned(),
        message: violation.message.clone(),
        severity: Severity::High.to_proto() as i32,
        ..v1::Error::default()
    };
    violations.iter().map(detail).collect()
}

/// The text of a state that may be written: laid out, with a line break at its end. A state that would be too large like
/// this is not laid out.
///
/// # Errors
/// SESSION_INVALID: the state has violations, or is larger than what is read. Nothing may be written.
pub fn text(state: &Map<String, Value>) -> Result<Vec<u8>, Box<v1::Error>> {
    let found = violations(state);
    if !found.is_empty() {
        return Err(Box::new(invalid(&found)));
    }
    let laid_out = serde_json::to_vec_pretty(state).unwrap_or_default();
    let mut text = match laid_out.len() < MAX_BYTES {
        true => laid_out,
        false => serde_json::to_vec(state).unwrap_or_default(),
    };
    text.push(b'\n');
    if text.len() > MAX_BYTES {
        let message = format!("the state would be larger than {MAX_BYTES} bytes, the most that is read");
        return Err(Box::new(codes::error(codes::SESSION_INVALID, message)));
    }
    Ok(text)
}

/// The error of a change after which the state would have these violations, so that nothing is written.
#[must_use]
pub fn invalid(violations: &[Violation]) -> v1::Error {
    let message = "the state would not be valid, and nothing was written".to_owned();
    v1::Error { details: details(violations), ..codes::error(codes::SESSION_INVALID, message) }
}

/// The error of a state that stays as it is, because what a repair makes of it may not be written; `cause` says why.
#[must_use]
pub fn repair_failed(cause: Box<v1::Error>) -> v1::Error {
    let message = "the state could not be repaired".to_owned();
    v1::Error { cause: Some(cause), ..codes::error(codes::REPAIR_FAILED, message) }
}

/// The error of a file that cannot be read as a state; `cause` says why.
#[must_use]
pub fn corrupted(file: &str, cause: Box<v1::Error>) -> v1::Error {
    v1::Error {
        cause: Some(cause),
        ..codes::error(codes::SESSION_CORRUPTED, format!("{file} is corrupt or has an invalid structure"))
    }
}
