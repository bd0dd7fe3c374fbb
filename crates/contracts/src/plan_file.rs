//! Plan files: a [`v1::Plan`] as a person writes it, in TOML or JSON.
//!
//! A plan of one wave may list its tasks at the top level, `[[tasks]]`, instead of in `[[waves]]`. Dates and times in
//! TOML are read as strings.

use std::ops::Range;

use serde_json::{Map, Number, Value};

use crate::path::Path;
use crate::violation::{Violation, Violations};
use crate::{json, v1};

/// The largest plan file: 4 MiB, as much as a request can carry.
pub const MAX_BYTES: usize = 4 * 1024 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Toml,
    Json,
}

/// Reads a plan file. The structure of the plan is not validated: see [`crate::validate::plan`].
///
/// # Errors
/// As [`parse`]; where the bytes are not UTF-8, one violation of the rule `syntax`.
pub fn parse_bytes(bytes: &[u8], format: Format) -> Result<v1::Plan, Vec<Violation>> {
    check_size(bytes.len())?;
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = bytes.iter().take(error.valid_up_to()).filter(|byte| **byte == b'\n').count() + 1;
        vec![Violation::new("", "syntax", format!("not UTF-8 at line {line}"))]
    })?;
    parse(text, format)
}

/// Reads a plan file. The structure of the plan is not validated: see [`crate::validate::plan`].
///
/// # Errors
/// One violation of the rule `size` or `syntax`, the latter with line and column; else all violations of the JSON form,
/// with their paths.
pub fn parse(text: &str, format: Format) -> Result<v1::Plan, Vec<Violation>> {
    check_size(text.len())?;
    let mut document = match format {
        Format::Json => json::from_str(text).map_err(|violation| vec![violation])?,
        Format::Toml => from_toml(text)?,
    };
    let sugared = unfold_tasks(&mut document)?;
    let mut result = json::parse("capataz.v1.Plan", &document);
    if let Err(violations) = &mut result
        && sugared
    {
        violations.iter_mut().for_each(restore_path);
    }
    result
}

fn check_size(bytes: usize) -> Result<(), Vec<Violation>> {
    if bytes <= MAX_BYTES {
        return Ok(());
    }
    let message = format!("the plan has {bytes} bytes, at most {MAX_BYTES} are allowed");
    Err(vec![Violation::new("", "size", message)])
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
}

fn from_toml(text: &str) -> Result<Value, Vec<Violation>> {
    let table: toml::Table = toml::from_str(text).map_err(|error| {
        let place =
            error.span().map(|span| format!(" at {}", line_and_column(text, span))).unwrap_or_default();
        vec![Violation::new("", "syntax", format!("{}{place}", error.message()))]
    })?;
    let mut violations = Violations::default();
    let value = from_table(table, &Path::Root, &mut violations);
    if violations.is_empty() { Ok(value) } else { Err(violations.into_vec()) }
}

fn line_and_column(text: &str, span: Range<usize>) -> String {
    let before = text.get(..span.start).unwrap_or(text);
    let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    format!("line {line} column {column}")
}

/// The depth is that of the TOML parser, at most 80 levels for tables and again for values.
fn from_table(table: toml::Table, path: &Path<'_>, violations: &mut Violations) -> Value {
    let mut object = Map::new();
    for (key, value) in table {
        let value = from_toml_value(value, &path.key(&key), violations);
        object.insert(key, value);
    }
    Value::Object(object)
}

fn from_toml_value(value: toml::Value, path: &Path<'_>, violations: &mut Violations) -> Value {
    match value {
        toml::Value::String(text) => Value::String(text),
        toml::Value::Integer(number) => number.into(),
        toml::Value::Boolean(value) => Value::Bool(value),
        toml::Value::Datetime(datetime) => Value::String(datetime.to_string()),
        toml::Value::Float(number) => Number::from_f64(number).map_or_else(
            || {
                violations.push(path, "range", format!("{number} is not a finite number"));
                Value::Null
            },
            Value::Number,
        ),
        toml::Value::Array(items) => items
            .into_iter()
            .enumerate()
            .map(|(index, item)| from_toml_value(item, &path.index(index), violations))
            .collect(),
        toml::Value::Table(table) => from_table(table, path, violations),
    }
}
