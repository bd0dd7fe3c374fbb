//! Repairs: what is valid of a state is kept, the rest begins anew, and each change is told.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{CONTEXT_TYPES, timestamp};
use crate::codes::{self, Code};

/// One change that a repair has made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Repair {
    /// A required field was missing, or was not one.
    Added { field: String },
    /// It was not valid, or belongs to what was interrupted, and begins anew.
    Reset { field: String },
    /// A part that was not valid is gone; the rest is kept.
    Removed { field: String },
    /// So many entries of the history were not valid.
    Filtered { entries: usize },
}

/// What a session's log is told of a repair, in words: which error it has mended and how, then each change.
#[must_use]
pub fn told(code: &str, outcome: &str, changes: Vec<String>) -> Vec<String> {
    std::iter::once(format!("{code}: {outcome}")).chain(changes).collect()
}

/// The error that was mended, as the session's log tells it: its code, or that of a state that breaks rules where none is
/// named. `None` where nothing was.
#[must_use]
pub fn mended(told: &[String]) -> Option<Code> {
    let (code, _) = told.first()?.split_once(':').unwrap_or_default();
    Some(Code::named(code).unwrap_or(codes::SESSION_VALIDATION_FAILED))
}

const VERSION: &str = "1.0.0";

/// A state to begin with, made at `now_ms`, in Unix milliseconds.
#[must_use]
pub fn initial(now_ms: i64) -> Map<String, Value> {
    let now = iso(now_ms);
    let state = json!({
        "version": VERSION,
        "created_at": now,
        "updated_at": now,
        "current_flow": null,
        "context": {},
        "history": [],
        "pending_tasks": [],
        "blocked_on": null,
        "errors": { "count": 0 },
        "suggested_next": null,
    });
    match state {
        Value::Object(state) => state,
        _ => Map::new(),
    }
}

/// The state with what is valid of `damaged`, and every change. The result has no violations.
///
/// Version, creation, context and history are kept where they are valid; the flow, the tasks and the errors of what was
/// interrupted begin anew, as the seed has it.
#[must_use]
pub fn repaired(damaged: &Map<String, Value>, now_ms: i64) -> (Map<String, Value>, Vec<Repair>) {
    let mut state = initial(now_ms);
    let mut repairs = Vec::new();
    match damaged.get("version") {
        Some(Value::String(version)) if !version.is_empty() => {
            state.insert("version".to_owned(), json!(version));
        }
        _ => repairs.push(Repair::Added { field: "version".to_owned() }),
    }
    let created = damaged.get("created_at").and_then(Value::as_str).filter(|text| {
        let now = Timestamp::from_millisecond(now_ms).ok();
        timestamp(text).zip(now).is_some_and(|(created, now)| created <= now)
    });
    match created {
        Some(created) => {
            state.insert("created_at".to_owned(), json!(created));
        }
        None => repairs.push(Repair::Added { field: "created_at".to_owned() }),
    }
    repairs.push(Repair::Reset { field: "updated_at".to_owned() });
    match damaged.get("context") {
        Some(Value::Object(context)) => {
            let kept = context_of(context, &mut repairs);
            state.insert("context".to_owned(), Value::Object(kept));
        }
        _ => repairs.push(Repair::Reset { field: "context".to_owned() }),
    }
    match damaged.get("history") {
        Some(Value::Array(history)) => {
            let kept: Vec<Value> = history.iter().filter(|entry| is_whole(entry)).cloned().collect();
            let entries = history.len() - kept.len();
            if entries > 0 {
                repairs.push(Repair::Filtered { entries });
            }
            state.insert("history".to_owned(), Value::Array(kept));
        }
        _ => repairs.push(Repair::Reset { field: "history".to_owned() }),
    }
    for field in ["current_flow", "pending_tasks", "blocked_on", "errors", "suggested_next"] {
        if damaged.get(field).is_some_and(|value| Some(value) != state.get(field)) {
            repairs.push(Repair::Reset { field: field.to_owned() });
        }
    }
    // What the contract does not name is somebody's own.
    for (field, value) in damaged {
        if !state.contains_key(field) {
            state.insert(field.clone(), value.clone());
        }
    }
    (state, repairs)
}

fn context_of(context: &Map<String, Value>, repairs: &mut Vec<Repair>) -> Map<String, Value> {
    let mut kept = context.clone();
    for (field, allowed) in CONTEXT_TYPES {
        if kept.get(field).is_some_and(|value| !allowed.fits(value)) {
            kept.remove(field);
            repairs.push(Repair::Removed { field: format!("context.{field}") });
        }
    }
    kept
}

fn is_whole(entry: &Value) -> bool {
    let has = |field: &str| entry.get(field).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    has("command") && has("completed_at")
}

pub(super) fn iso(now_ms: i64) -> String {
    let now = Timestamp::from_millisecond(now_ms).unwrap_or_default();
    format!("{now:.3}")
}
