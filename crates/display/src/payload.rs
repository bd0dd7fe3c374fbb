//! Inputs and outputs of agents, for people.

use capataz_contracts::json::is_json;
use capataz_contracts::v1;
use capataz_contracts::v1::payload::Data;

use crate::frame::{columns, truncated, visible, visible_block};

/// The size of the payload in bytes.
pub fn size(payload: &v1::Payload) -> u64 {
    match &payload.data {
        None => 0,
        Some(Data::Inline(bytes)) => bytes.len() as u64,
        Some(Data::Blob(blob)) => blob.size,
    }
}

/// How many bytes of text a token is taken for. Models' tokens of prose and code are about as long.
const BYTES_OF_A_TOKEN: u64 = 4;

/// About how many tokens the payload has, by its size alone; `None` where it is not text. Nobody has counted them.
pub fn about_tokens(payload: &v1::Payload) -> Option<u64> {
    let is_text = payload.media_type.starts_with("text/") || is_json(&payload.media_type);
    is_text.then(|| size(payload).div_ceil(BYTES_OF_A_TOKEN))
}

/// Maximum number of lines of a payload that is shown.
const MOST_LINES: usize = 24;
/// Columns of each such line where nothing bounds them.
const COLUMNS: usize = 110;

/// The payload as text, shortened, as wide as the terminal at most. `None` for payloads that are not text, are empty, are
/// stored as a blob, or are absent.
pub fn excerpt(payload: &v1::Payload) -> Option<String> {
    let Some(Data::Inline(bytes)) = &payload.data else { return None };
    let text = std::str::from_utf8(bytes).ok()?;
    let pretty = if is_json(&payload.media_type) {
        let value: serde_json::Value = serde_json::from_str(text).ok()?;
        match value {
            serde_json::Value::String(text) => text,
            value => serde_json::to_string_pretty(&value).ok()?,
        }
    } else {
        text.to_owned()
    };
    let shown = visible_block(pretty.trim_end());
    let columns = columns().unwrap_or(COLUMNS);
    let mut lines: Vec<String> =
        shown.lines().take(MOST_LINES).map(|line| truncated(line, columns)).collect();
    if shown.lines().count() > MOST_LINES {
        lines.push("…".to_owned());
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// The payload in one line, whole: JSON without spaces. `None` where it is `null` or several lines of text, and where [`excerpt`]
/// has nothing.
pub fn line(payload: &v1::Payload) -> Option<String> {
    let Some(Data::Inline(bytes)) = &payload.data else { return None };
    let text = std::str::from_utf8(bytes).ok()?;
    let line = if is_json(&payload.media_type) {
        match serde_json::from_str(text).ok()? {
            serde_json::Value::Null => return None,
            serde_json::Value::String(text) => text,
            value => value.to_string(),
        }
    } else {
        text.to_owned()
    };
    let line = line.trim_end();
    (!line.is_empty() && line.lines().count() == 1).then(|| visible(line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::within;

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
        check("application/json", "null", Some("null"));
        check("text/plain", "a\u{7}\n\tb\n", Some("a\\u{7}\n    b"));
        check("application/octet-stream", "", None);
    }

    #[test]
    fn a_line_is_as_wide_as_the_terminal_at_most() {
        let text = format!("{}\nshort", "x".repeat(200));
        let cut = |columns: usize| format!("{}…\nshort", "x".repeat(columns - 1));
        check("text/plain", &text, Some(&cut(110)));
        within(40, || check("text/plain", &text, Some(&cut(40))));
        within(199, || check("text/plain", &text, Some(&cut(199))));
        within(200, || check("text/plain", &text, Some(&text)));
    }

    // S000-C3-25
    #[test]
    fn the_tokens_of_a_text_follow_from_its_size() {
        #[track_caller]
        fn check(media_type: &str, size: u64, expected: Option<u64>) {
            let blob = v1::BlobRef { size, ..v1::BlobRef::default() };
            let payload = v1::Payload { media_type: media_type.to_owned(), data: Some(Data::Blob(blob)) };
            assert_eq!(about_tokens(&payload), expected, "{media_type} {size}");
        }
        check("text/plain", 4_936, Some(1_234));
        check("application/json", 6, Some(2));
        check("text/markdown", 0, Some(0));
        check("image/png", 4_936, None);
    }
}
