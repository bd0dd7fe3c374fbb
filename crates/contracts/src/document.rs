//! Documents that people write, in TOML or JSON, as the JSON value that they stand for.

use std::ops::Range;

use serde_json::{Map, Number, Value};

use crate::json;
use crate::path::Path;
use crate::violation::{Violation, Violations};

/// The largest document: 4 MiB, as much as a request can carry.
pub const MAX_BYTES: usize = 4 * 1024 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Toml,
    Json,
}

/// The text of a file.
///
/// # Errors
/// One violation of the rule `size`, or `syntax` where the bytes are not UTF-8.
pub fn text(bytes: &[u8]) -> Result<&str, Vec<Violation>> {
    check_size(bytes.len())?;
    std::str::from_utf8(bytes).map_err(|error| {
        let line = bytes.iter().take(error.valid_up_to()).filter(|byte| **byte == b'\n').count() + 1;
        vec![Violation::new("", "syntax", format!("not UTF-8 at line {line}"))]
    })
}

/// The value of a document. Dates and times in TOML become strings.
///
/// # Errors
/// One violation of the rule `size` or `syntax`, the latter with line and column; or numbers of TOML that JSON does not
/// have (`range`), each with its path.
pub fn value(text: &str, format: Format) -> Result<Value, Vec<Violation>> {
    check_size(text.len())?;
    match format {
        Format::Json => json::from_str(text).map_err(|violation| vec![violation]),
        Format::Toml => from_toml(text),
    }
}

fn check_size(bytes: usize) -> Result<(), Vec<Violation>> {
    if bytes <= MAX_BYTES {
        return Ok(());
    }
    let message = format!("the document has {bytes} bytes, at most {MAX_BYTES} are allowed");
    Err(vec![Violation::new("", "size", message)])
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
