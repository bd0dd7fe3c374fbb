//! Pipeline files: a [`v1::Pipeline`] as a person writes it, in TOML or JSON.
//!
//! The message as it is, but that `output.schema` of a phase may be a text: the path of a file with the schema, relative to the
//! pipeline's own. Whoever reads the file reads the schemas too, so that a run holds them and no daemon reads files of others.

use serde_json::Value;

pub use crate::document::{Format, MAX_BYTES};
use crate::violation::Violation;
use crate::{InPart, document, json, v1};

/// The most bytes of a schema's file.
pub const SCHEMA_FILE_MAX: usize = 64 * 1024;

/// Reads a pipeline file. The shape of the pipeline is not validated: see [`crate::validate::pipeline`]. `schema` gives the
/// contents of the file with a schema, or says why it cannot.
///
/// # Errors
/// One violation of the rule `size` or `syntax`, the latter with line and column; else all violations of the JSON form and all
/// schemas that cannot be read, rule `schema`, with their paths.
pub fn parse_bytes(
    bytes: &[u8],
    format: Format,
    schema: &mut dyn FnMut(&str) -> Result<Vec<u8>, String>,
) -> Result<v1::Pipeline, Vec<Violation>> {
    parse_in_part(bytes, format, schema)?.whole()
}

/// Reads as much of a pipeline file as its form and its schemas leave, so that its rules can be checked as well.
///
/// # Errors
/// One violation of the rule `size` or `syntax`: nothing of the file can be read.
pub fn parse_in_part(
    bytes: &[u8],
    format: Format,
    schema: &mut dyn FnMut(&str) -> Result<Vec<u8>, String>,
) -> Result<InPart<v1::Pipeline>, Vec<Violation>> {
    let mut document = document::value(document::text(bytes)?, format)?;
    let mut unread = Vec::new();
    let phases = document.get_mut("phases").and_then(Value::as_array_mut);
    for (index, phase) in phases.into_iter().flatten().enumerate() {
        let Some(place) = phase.get_mut("output").and_then(|output| output.get_mut("schema")) else {
            continue;
        };
        let Value::String(file) = &*place else { continue };
        match schema(file).and_then(|contents| read(&contents)) {
            Ok(value) => *place = value,
            Err(reason) => {
                let path = format!("phases[{index}].output.schema");
                unread.push(Violation::new(path, "schema", format!("`{file}`: {reason}")));
                *place = Value::Bool(true);
            }
        }
    }
    let mut pipeline = json::parse_in_part("capataz.v1.Pipeline", &document);
    pipeline.name_durations_of(document);
    for violation in unread {
        let place = violation.path.clone();
        pipeline.refuse(violation, &place);
    }
    Ok(pipeline)
}

fn read(contents: &[u8]) -> Result<Value, String> {
    if contents.len() > SCHEMA_FILE_MAX {
        return Err(format!("more than {SCHEMA_FILE_MAX} bytes"));
    }
    json::from_slice(contents).map_err(|violation| violation.message)
}
