//! What the agents of this world declare of their outputs, and which values pass it. The model judges by a rule of its own,
//! and never by a schema.

use capataz_contracts::v1;
use capataz_contracts::v1::payload::Data;

/// A worker's own output, or an even number that somebody tells.
const SCHEMA: &str = r#"{"anyOf":[{"type":"object","required":["lease"]},
    {"type":"object","required":["told"],"properties":{"told":{"type":"integer","multipleOf":2}}}]}"#;

/// The schema that every worker of the agent declares; empty where it declares none.
#[must_use]
pub fn declared_by(agent: &str) -> &'static str {
    let is_odd = agent.bytes().last().is_some_and(|last| last % 2 == 1);
    if is_odd && agent.starts_with("agent-") { SCHEMA } else { "" }
}

/// Whether an output breaks what its agent declares: a worker here breaks it by its media type alone.
#[must_use]
pub fn breaks(agent: &str, output: Option<&v1::Payload>) -> bool {
    let is_json = output.is_some_and(|output| output.media_type == "application/json");
    let passes = is_json && passes(output);
    !declared_by(agent).is_empty() && !passes
}

/// Whether somebody may say that such an agent has given this back.
#[must_use]
pub fn passes(value: Option<&v1::Payload>) -> bool {
    let Some(Data::Inline(text)) = value.and_then(|value| value.data.as_ref()) else { return false };
    let Ok(text) = std::str::from_utf8(text) else { return false };
    let told = text.strip_prefix("{\"told\":").and_then(|rest| rest.strip_suffix('}'));
    match told.map(str::parse::<u64>) {
        Some(told) => told.is_ok_and(|told| told.is_multiple_of(2)),
        None => text.contains("\"lease\":"),
    }
}
