//! What can still be read of a text that was JSON once: its beginning, as far as that is whole.

use serde_json::{Map, Value};

use super::MAX_BYTES;

/// The fields of an object whose text ends too early or becomes something else on the way; `None` where there are none.
///
/// Members and elements that are whole are kept; the one in which the damage begins is not, unless it contains such
/// itself.
#[must_use]
pub fn salvaged(bytes: &[u8]) -> Option<Map<String, Value>> {
    let bytes = bytes.get(..MAX_BYTES).unwrap_or(bytes);
    // Bytes that are not a text are damage like any other.
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(bytes.get(..error.valid_up_to())?).ok()?,
    };
    let text = without_beginning(text);
    let end = match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(state)) => return Some(state).filter(|state| !state.is_empty()),
        Ok(_) => return None,
        Err(error) => offset(text, error.line(), error.column()),
    };
    let closed = closed_before(text, end)?;
    match serde_json::from_str(&closed) {
        Ok(Value::Object(state)) if !state.is_empty() => Some(state),
        _ => None,
    }
}

/// The text from its object on: a byte order mark, a remark or the mark of a conflict before it are damage like any other.
fn without_beginning(text: &str) -> &str {
    // What is in a list is no state, wherever the list begins.
    let begin =
        text.find(['{', '[']).filter(|begin| text.get(*begin..).is_some_and(|rest| rest.starts_with('{')));
    begin.and_then(|begin| text.get(begin..)).unwrap_or(text)
}

/// The place in the text of a line and a column, both from 1, as serde_json counts them: columns are bytes.
fn offset(text: &str, line: usize, column: usize) -> usize {
    let before: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    (before + column).min(text.len())
}

/// The longest beginning of the text before `end` after which a value is whole, with the brackets closed that are open
/// there.
fn closed_before(text: &str, end: usize) -> Option<String> {
    let mut open = Vec::new();
    let mut safe: Option<(usize, Vec<u8>)> = None;
    let (mut in_string, mut escaped) = (false, false);
    for (place, byte) in text.bytes().enumerate().take(end) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' => open.push(b'}'),
            b'[' => open.push(b']'),
            b'}' | b']' => {
                if open.pop() != Some(byte) {
                    break;
                }
                // What the parser stumbles over is not whole.
                if place + 1 < end || end == text.len() {
                    safe = Some((place + 1, open.clone()));
                }
            }
            b',' if place + 1 < end || end == text.len() => safe = Some((place, open.clone())),
            _ => {}
        }
    }
    let (end, open) = safe?;
    let mut closed = text.get(..end)?.to_owned();
    closed.extend(open.iter().rev().map(|byte| char::from(*byte)));
    Some(closed)
}
