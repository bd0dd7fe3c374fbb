//! Script files: a [`v1::Script`] as a person writes it, in TOML or JSON.
//!
//! `name` stands at the top level, beside `[[actions]]`, `[variables]`, `[policy]` and `[browser]`: the message as it is.
//! Dates and times in TOML are read as strings.

pub use crate::document::{Format, MAX_BYTES};
use crate::violation::Violation;
use crate::{InPart, document, json, v1};

/// Reads a script file. The shape of the script is not validated: see [`crate::validate::script`].
///
/// # Errors
/// As [`parse`]; where the bytes are not UTF-8, one violation of the rule `syntax`.
pub fn parse_bytes(bytes: &[u8], format: Format) -> Result<v1::Script, Vec<Violation>> {
    parse_in_part(bytes, format)?.whole()
}

/// Reads a script file. The shape of the script is not validated: see [`crate::validate::script`].
///
/// # Errors
/// One violation of the rule `size` or `syntax`, the latter with line and column; else all violations of the JSON form,
/// with their paths.
pub fn parse(text: &str, format: Format) -> Result<v1::Script, Vec<Violation>> {
    parse_bytes(text.as_bytes(), format)
}

/// Reads as much of a script file as its form leaves, so that its rules can be checked as well.
///
/// # Errors
/// One violation of the rule `size` or `syntax`: nothing of the file can be read.
pub fn parse_in_part(bytes: &[u8], format: Format) -> Result<InPart<v1::Script>, Vec<Violation>> {
    let document = document::value(document::text(bytes)?, format)?;
    let mut script = json::parse_in_part("capataz.v1.Script", &document);
    script.name_durations_of(document);
    Ok(script)
}
