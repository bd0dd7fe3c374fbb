//! Plan files: a [`v1::Plan`] as a person writes it, in TOML or JSON.
//!
//! A plan of one wave may list its tasks at the top level, `[[tasks]]`, instead of in `[[waves]]`. Dates and times in
//! TOML are read as strings.

use serde_json::{Map, Value};

pub use crate::document::{Format, MAX_BYTES};
use crate::violation::Violation;
use crate::{InPart, document, json, v1};

/// Reads a plan file. The structure of the plan is not validated: see [`crate::validate::plan`].
///
/// # Errors
/// As [`parse`]; where the bytes are not UTF-8, one violation of the rule `syntax`.
pub fn parse_bytes(bytes: &[u8], format: Format) -> Result<v1::Plan, Vec<Violation>> {
    parse_in_part(bytes, format)?.whole()
}

/// Reads a plan file. The structure of the plan is not validated: see [`crate::validate::plan`].
///
/// # Errors
/// One violation of the rule `size` or `syntax`, the latter with line and column; else all violations of the JSON form,
/// with their paths.
pub fn parse(text: &str, format: Format) -> Result<v1::Plan, Vec<Violation>> {
    parse_bytes(text.as_bytes(), format)
}

/// Reads as much of a plan file as its form leaves, so that its rules can be checked as well. The paths of what is told are
/// those of the file.
///
/// # Errors
/// One violation of the rule `size` or `syntax`: nothing of the file can be read.
pub fn parse_in_part(bytes: &[u8], format: Format) -> Result<InPart<v1::Plan>, Vec<Violation>> {
    let mut document = document::value(document::text(bytes)?, format)?;
    let tasks = unfold_tasks(&mut document);
    let mut plan = json::parse_in_part_beside("capataz.v1.Plan", &document, &[TASKS]);
    plan.name_durations_of(document);
    match tasks {
        Tasks::InWaves => {}
        Tasks::AtTheTop => plan.leave_out("waves[0]."),
        Tasks::InBoth => {
            let message =
                "`tasks` at the top level is a plan of one wave; with `waves`, put them into a wave";
            plan.refuse(Violation::new(TASKS, "duplicate_key", message), "waves");
        }
    }
    Ok(plan)
}

/// The key of the tasks, in a wave and at the top level.
const TASKS: &str = "tasks";

/// Where a document has its tasks.
enum Tasks {
    InWaves,
    AtTheTop,
    InBoth,
}

/// `tasks` at the top level becomes the only wave. Those beside waves are taken out.
fn unfold_tasks(document: &mut Value) -> Tasks {
    let Some(object) = document.as_object_mut() else { return Tasks::InWaves };
    let Some(tasks) = object.remove(TASKS).filter(|tasks| !tasks.is_null()) else { return Tasks::InWaves };
    if object.get("waves").is_some_and(|waves| !waves.is_null()) {
        return Tasks::InBoth;
    }
    let wave: Map<String, Value> = Map::from_iter([(TASKS.to_owned(), tasks)]);
    object.insert("waves".to_owned(), Value::Array(vec![Value::Object(wave)]));
    Tasks::AtTheTop
}
