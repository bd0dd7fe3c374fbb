//! Inputs and outputs of agents, for people.

use capataz_contracts::json::is_json;
use capataz_contracts::v1;
use capataz_contracts::v1::payload::Data;

use crate::frame::{truncated, visible_block};

/// The size of the payload in bytes.
pub fn size(payload: &v1::Payload) -> u64 {
    match &payload.data {
        None => 0,
        Some(Data::Inline(bytes)) => bytes.len() as u64,
        Some(Data::Blob(blob)) => blob.size,
    }
}

/// Maximum number of lines of a payload that is shown.
const MOST_LINES: usize = 24;
/// Maximum number of columns of each such line.
const LINE_WIDTH: usize = 110;

/// The payload as text, shortened. `None` for payloads that are not text, are stored as a blob, or are absent.
pub fn excerpt(payload: &v1::Payload) -> Option<String> {
    let Some(Data::Inline(bytes)) = &payload.data else { return None };
    let text = std::str::from_utf8(bytes).ok()?;
    let pretty = if is_json(&payload.media_type) {
        let value: serde_json::Value = serde_json::from_str(text).ok()?;
        match value {
            serde_json::Value::Null => return None,
            serde_json::Value::String(text) => text,
            value => serde_json::to_string_pretty(&value).ok()?,
        }
    } else {
        text.to_owned()
    };
    let shown = visible_block(pretty.trim_end());
    let mut lines: Vec<String> =
        shown.lines().take(MOST_LINES).map(|line| truncated(line, LINE_WIDTH)).collect();
    if shown.lines().count() > MOST_LINES {
        lines.push("…".to_owned());
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(media_type: &str, text: &str, expected: Option<&str>) {
        let payload = v1::Payload {
            media_type: media_type.to_owned(),
            data: Some(Data::Inline(text.as_bytes().to_vec().into())),
        };
        assert_eq!(excerpt(&payload).as_deref(), expected);
    }

    #[test]
    fn json_is_laid_out_and_texts_are_shown_as_they_are() {
        check("application/json", r#"{"a":1}"#, Some("{\n  \"a\": 1\n}"));
        check("application/json", r#""two\nlines""#, Some("two\nlines"));
        check("application/json", "null", None);
        check("text/plain", "a\u{7}\n\tb\n", Some("a\\u{7}\n    b"));
        check("application/octet-stream", "", None);
    }
}
