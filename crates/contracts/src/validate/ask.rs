//! Asks: a text for a spec.

use std::collections::BTreeMap;

use serde_json::Value;

use super::name;
use crate::path::Path;
use crate::violation::Violations;
use crate::{json, spec, v1};

/// The largest text of an ask, in bytes as a JSON string: with its conversation it has to fit into one assignment.
pub const TEXT_MAX: usize = 16 * 1024;

const SESSION_MAX: usize = 128;
/// The bytes of the free parts of an ask, and those that a session keeps, as JSON (CONTRACTS §2): 256 KiB.
pub const CONTEXT_MAX: usize = 256 * 1024;

/// How deep the value of a free part is nested at most: in a document of the spec contract it is below three objects.
const FREE_DEPTH_MAX: usize = 61;
const _: () = assert!(FREE_DEPTH_MAX == spec::MAX_DEPTH - 3);

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
    let preferences =
        Free::check(&ask.preferences, ask.preferences_json.as_ref(), "preferences", path, violations);
    let custom = Free::check(&ask.custom, ask.custom_json.as_ref(), "custom", path, violations);
    if preferences.bytes + custom.bytes > CONTEXT_MAX {
        let bytes = preferences.bytes + custom.bytes;
        let message =
            format!("preferences and custom have {bytes} bytes as JSON; at most {CONTEXT_MAX} are allowed");
        let larger = if custom.bytes > preferences.bytes { custom.field } else { preferences.field };
        violations.push(&path.key(larger), "size", message);
    }
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

/// How many times as long as its value a text may be: a character that is written as `\u0434` has two bytes.
const AS_WRITTEN: usize = 6;

/// A free part of an ask: how much it has, and where most of it is.
struct Free {
    bytes: usize,
    field: &'static str,
}

impl Free {
    fn check(
        texts: &BTreeMap<String, String>,
        object: Option<&String>,
        name: &'static str,
        path: &Path<'_>,
        violations: &mut Violations,
    ) -> Self {
        let object_name = if name == "custom" { "custom_json" } else { "preferences_json" };
        let of_texts: usize = texts.iter().map(|(key, text)| entry_bytes(key, &Value::from(&**text))).sum();
        let in_texts = Self { bytes: of_texts, field: name };
        let Some(text) = object else { return in_texts };
        let path = &path.key(object_name);
        // What is far too large is not read.
        if text.len() > AS_WRITTEN * CONTEXT_MAX {
            return Self { bytes: of_texts.saturating_add(text.len()), field: object_name };
        }
        let value = match json::from_str(text) {
            Ok(Value::Object(value)) => value,
            Ok(other) => {
                let message = format!("expected an object, found {}", json::describe(&other));
                violations.push(path, "type", message);
                return in_texts;
            }
            Err(violation) => {
                violations.push(path, "json", violation.message);
                return in_texts;
            }
        };
        if let Some((key, _)) = value.iter().find(|(_, value)| !json::depth_is_within(value, FREE_DEPTH_MAX))
        {
            let message = format!("nested deeper than {FREE_DEPTH_MAX} levels");
            violations.push(&path.key(key), "depth", message);
        }
        spec::check_integers(text, path, violations);
        let bytes = value.iter().map(|(key, value)| entry_bytes(key, value)).sum::<usize>();
        let field = if bytes > of_texts { object_name } else { name };
        Self { bytes: of_texts.saturating_add(bytes), field }
    }
}

/// The bytes of an entry of an object in JSON: the key, the value, a colon and a comma.
#[must_use]
pub fn entry_bytes(key: &str, value: &Value) -> usize {
    quoted(key).saturating_add(value.to_string().len()).saturating_add(2)
}

fn quoted(key: &str) -> usize {
    Value::from(key).to_string().len()
}
