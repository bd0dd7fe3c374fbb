//! Plan files: a [`v1::Plan`] as a person writes it, in TOML or JSON.
//!
//! A plan of one wave may list its tasks at the top level, `[[tasks]]`, instead of in `[[waves]]`. Dates and times in
//! TOML are read as strings.

use serde_json::{Map, Value};

pub use crate::document::{Format, MAX_BYTES};
use crate::violation::Violation;
use crate::{document, json, v1};

/// Reads a plan file. The structure of the plan is not validated: see [`crate::validate::plan`].
///
/// # Errors
/// As [`parse`]; where the bytes are not UTF-8, one violation of the rule `syntax`.
pub fn parse_bytes(bytes: &[u8], format: Format) -> Result<v1::Plan, Vec<Violation>> {
    parse(document::text(bytes)?, format)
}

/// Reads a plan file. The structure of the plan is not validated: see [`crate::validate::plan`].
///
/// # Errors
/// One violation of the rule `size` or `syntax`, the latter with line and column; else all violations of the JSON form,
/// with their paths.
pub fn parse(text: &str, format: Format) -> Result<v1::Plan, Vec<Violation>> {
    let mut document = document::value(text, format)?;
    let sugared = unfold_tasks(&mut document)?;
    let mut result = json::parse("capataz.v1.Plan", &document);
    if let Err(violations) = &mut result
        && sugared
    {
        violations.iter_mut().for_each(restore_path);
    }
    result
}

/// `tasks` at the top level becomes the only wave. Returns whether it was there.
fn unfold_tasks(document: &mut Value) -> Result<bool, Vec<Violation>> {
    let Some(object) = document.as_object_mut() else { return Ok(false) };
    let Some(tasks) = object.remove("tasks").filter(|tasks| !tasks.is_null()) else { return Ok(false) };
    if object.get("waves").is_some_and(|waves| !waves.is_null()) {
        let message = "`tasks` at the top level is a plan of one wave; with `waves`, put them into a wave";
        return Err(vec![Violation::new("tasks", "duplicate_key", message)]);
    }
    let wave: Map<String, Value> = Map::from_iter([("tasks".to_owned(), tasks)]);
    object.insert("waves".to_owned(), Value::Array(vec![Value::Object(wave)]));
    Ok(true)
}

fn restore_path(violation: &mut Violation) {
    if let Some(rest) = violation.path.strip_prefix("waves[0].") {
        violation.path = rest.to_owned();
    }
    // The places of keys are those of the file, too.
    if violation.rule == "unknown_key" {
        violation.message = violation.message.replace("`waves[].tasks[]", "`tasks[]");
    }
}
