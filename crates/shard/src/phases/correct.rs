//! What an attempt is given after one whose output was rejected.

use capataz_contracts::v1::SchemaViolation;
use capataz_contracts::{json, v1};
use capataz_engine::Rule;
use serde_json::{Map, Value, json};

use super::{Budget, Contents, Failed, PIPELINE_INPUT_MAX, Unavailable, payload_of, value_of};

/// The most bytes of a rejected output that are given back with its violations.
const OUTPUT_MAX: usize = 16 * 1024;
/// The key of the input under which an agent finds what was wrong.
const CORRECTION: &str = "correction";

/// The input, with what was wrong. `None` where the input cannot be read: then the next attempt is given it as it is.
pub(super) fn input(
    rule: &Rule,
    output: Option<&[u8]>,
    violations: &[SchemaViolation],
    contents: &dyn Contents,
) -> Result<Option<v1::Payload>, Unavailable> {
    let given = match rule
        .input
        .as_ref()
        .map(|input| value_of(input, PIPELINE_INPUT_MAX, &mut Budget::default(), contents))
    {
        None => Value::Null,
        Some(Ok(given)) => given,
        Some(Err(Failed::Unavailable)) => return Err(Unavailable),
        Some(Err(Failed::With(_))) => return Ok(None),
    };
    let mut input = match given {
        Value::Object(object) => object,
        other => Map::from_iter([("input".to_owned(), other)]),
    };
    let listed = violations.iter().map(|violation| {
        let SchemaViolation { path, rule, expected, found } = violation;
        json!({ "path": path, "rule": rule, "expected": expected, "found": found })
    });
    let mut correction = json!({ "attempt": rule.attempt, "violations": listed.collect::<Vec<_>>() });
    let rejected = output.filter(|output| output.len() <= OUTPUT_MAX);
    if let (Some(Ok(output)), Some(correction)) = (rejected.map(json::from_slice), correction.as_object_mut())
    {
        correction.insert("output".to_owned(), output);
    }
    input.insert(CORRECTION.to_owned(), correction);
    match payload_of(Value::Object(input).to_string().as_bytes(), contents) {
        Ok(payload) => Ok(Some(payload)),
        Err(_) => Err(Unavailable),
    }
}
