//! Asks: a text for a spec.

use std::collections::BTreeMap;

use super::name;
use crate::path::Path;
use crate::v1;
use crate::violation::Violations;

/// The largest text of an ask, in bytes as a JSON string: with its conversation it has to fit into one assignment.
pub const TEXT_MAX: usize = 16 * 1024;

const SESSION_MAX: usize = 128;
const ENTRIES_MAX: usize = 32;
const VALUE_MAX: usize = 256;
const ENTRIES_BYTES_MAX: usize = 4 * 1024;

pub fn check(ask: &v1::Ask, path: &Path<'_>, violations: &mut Violations) {
    if ask.text.trim().is_empty() {
        violations.push(&path.key("text"), "blank", "the text is missing or blank");
    } else if let Some(bytes) = too_long(&ask.text) {
        let message = format!("the text has {bytes} bytes as JSON; at most {TEXT_MAX} are allowed");
        violations.push(&path.key("text"), "length", message);
    }
    if let Some(session) = &ask.session {
        check_session(session, &path.key("session"), violations);
    }
    if let Some(spec) = &ask.spec {
        name(spec, "the spec", &path.key("spec"), violations);
    }
    if let Some(request_id) = &ask.request_id {
        name(request_id, "the request id", &path.key("request_id"), violations);
    }
    for (field, value) in [("source", &ask.source), ("device", &ask.device)] {
        if let Some(value) = value {
            name(value, field, &path.key(field), violations);
        }
    }
    check_entries(&ask.preferences, &path.key("preferences"), violations);
    check_entries(&ask.custom, &path.key("custom"), violations);
}

/// The bytes of a text within a JSON string, where they are too many. Quotes and control characters need several.
fn too_long(text: &str) -> Option<usize> {
    let bytes = match text.len() {
        length if length > TEXT_MAX => length,
        _ => serde_json::Value::from(text).to_string().len().saturating_sub(2),
    };
    (bytes > TEXT_MAX).then_some(bytes)
}

/// The name of a session: 1 to 128 of the characters that a task's name may have.
pub fn check_session(session: &str, path: &Path<'_>, violations: &mut Violations) {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if !(1..=SESSION_MAX).contains(&session.len()) || !session.bytes().all(allowed) {
        let message = format!("a session's name has 1 to {SESSION_MAX} letters, digits, `.`, `_` or `-`");
        violations.push(path, "session", message);
    }
}

fn check_entries(entries: &BTreeMap<String, String>, path: &Path<'_>, violations: &mut Violations) {
    if entries.len() > ENTRIES_MAX {
        let message = format!("{} entries; at most {ENTRIES_MAX} are allowed", entries.len());
        return violations.push(path, "limit", message);
    }
    let bytes: usize = entries.iter().map(|(key, value)| key.len() + value.len()).sum();
    if bytes > ENTRIES_BYTES_MAX {
        let message = format!("{bytes} bytes in all; at most {ENTRIES_BYTES_MAX} are allowed");
        return violations.push(path, "length", message);
    }
    for (key, value) in entries {
        let path = &path.key(key);
        name(key, "the key", path, violations);
        if value.len() > VALUE_MAX {
            let message = format!("a value has at most {VALUE_MAX} bytes, not {}", value.len());
            violations.push(path, "length", message);
        }
    }
}
