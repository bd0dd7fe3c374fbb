//! JSON Schema: whether a value is what a schema allows, and every place at which it is not.
//!
//! Schemas and values come from anybody, so that everything here is bounded: the size and the depth of both
//! ([`SCHEMA_MAX`], [`JUDGED_MAX`], [`DEPTH_MAX`]), the subschemas and the patterns of a schema, the work of one judgement
//! ([`WORK_MAX`]), and what is reported ([`REPORTED_MAX`]). What exceeds a bound is a violation like any other. Nothing is
//! fetched: a schema refers to itself alone.
//!
//! This is draft 2020-12, and what 2019-09, draft-07 and draft-06 write differently: lists in `items`, `additionalItems`,
//! `dependencies`. `format` and the keywords about contents are remarks, as the draft has it, and so is every unknown
//! keyword. Patterns are regular expressions that are matched in linear time: one with lookaround or with a back-reference
//! is refused, and so is what ECMA-262 has no meaning for, such as flags. Only the schema itself may have an `$id`.
//!
//! Two keywords are our own. `x-lowercase: true` beside an `enum`: [`Schema::lowered`] rewrites the texts that are one of its
//! values in another case, and nothing else; a judgement itself compares texts as they are. `x-schema: true`: the value is a
//! schema that [`Schema::compile`] takes.
//!
//! The crate is pure, holds nothing, and knows no run. Begin with [`Schema::compile`] and [`Schema::judge`].

mod compile;
mod evaluate;
mod lower;
mod number;
mod pattern;
mod report;
mod schema;

use capataz_contracts::v1::{self, SchemaViolation};
use capataz_contracts::{Violation, json};

pub use number::same;
pub use schema::Schema;

/// The most bytes of a schema's text.
pub const SCHEMA_MAX: usize = 64 * 1024;
/// The most bytes of a value that is judged.
pub const JUDGED_MAX: usize = 1024 * 1024;
/// How deep a schema and a value may be nested.
pub const DEPTH_MAX: usize = json::MAX_DEPTH;
/// The most subschemas of a schema.
pub const SUBSCHEMAS_MAX: usize = 4_096;
/// The most patterns of a schema.
pub const PATTERNS_MAX: usize = 256;
/// The most bytes of a pattern's text. All that is built of a text is built before its size is known, so that this bounds it.
pub const PATTERN_MAX: usize = 1024;
/// The most bytes of the texts of a schema's patterns.
pub const PATTERNS_TEXT_MAX: usize = 16 * 1024;
/// The most bytes of a schema's patterns as they are compiled, each of them up to the next power of two.
pub const PATTERNS_COMPILED_MAX: usize = 1024 * 1024;
/// The most steps of one judgement. A step is a keyword at a place of the value, 8 bytes of text in front of 64 bytes of a
/// compiled pattern, or a decimal between a number and what it is to be a multiple of.
pub const WORK_MAX: u64 = 4_000_000;
/// The most violations that are reported; the last one then says that there are more.
pub const REPORTED_MAX: usize = 64;

/// Judges a payload, of this media type and with these contents, by the text of a schema. No violations: it passes.
#[must_use]
pub fn judge(schema: &str, media_type: &str, contents: &[u8]) -> Vec<SchemaViolation> {
    match compiled(schema) {
        Ok(schema) => judge_by(&schema, media_type, contents),
        Err(violation) => vec![violation],
    }
}

/// As [`judge`], by a schema that was compiled before.
#[must_use]
pub fn judge_by(schema: &Schema, media_type: &str, contents: &[u8]) -> Vec<SchemaViolation> {
    if json::is_json(media_type) {
        return schema.judge(contents);
    }
    let expected = json::JSON_MEDIA_TYPE.to_owned();
    vec![violation("", "media_type", expected, report::text_shown(media_type))]
}

/// The compiled schema, or the violation of every value by a text that is none.
///
/// # Errors
/// Whoever declares such a text is refused, so that it is one of another version.
pub fn compiled(schema: &str) -> Result<Schema, SchemaViolation> {
    Schema::compile(schema).map_err(|violations| {
        violation(
            "",
            "schema",
            "a value that passes the schema".to_owned(),
            format!("a schema that is none: {}", violations.first().map(shown).unwrap_or_default()),
        )
    })
}

/// What is wrong with the schemas that these agents declare, in the words of the contract.
#[must_use]
pub fn declared(agents: &[v1::Agent]) -> Vec<Violation> {
    let mut found = Vec::new();
    for (index, agent) in agents.iter().enumerate() {
        for (name, text) in [("input_schema", &agent.input_schema), ("output_schema", &agent.output_schema)] {
            let violations = if text.is_empty() { Ok(()) } else { Schema::compile(text).map(|_| ()) };
            for violation in violations.err().unwrap_or_default() {
                let path = format!("agents[{index}].{name}{}", violation.path);
                let message = format!("expected {}, found {}", violation.expected, violation.found);
                found.push(Violation::new(path, "schema", format!("{message} ({})", violation.rule)));
                if found.len() >= REPORTED_MAX {
                    return found;
                }
            }
        }
    }
    found
}

/// A violation as a line for people.
#[must_use]
pub fn shown(violation: &SchemaViolation) -> String {
    let SchemaViolation { path, rule, expected, found } = violation;
    let place = if path.is_empty() { String::new() } else { format!("{path}: ") };
    format!("{place}expected {expected}, found {found} ({rule})")
}

fn violation(path: &str, rule: &str, expected: String, found: String) -> SchemaViolation {
    SchemaViolation { path: path.to_owned(), rule: rule.to_owned(), expected, found }
}
