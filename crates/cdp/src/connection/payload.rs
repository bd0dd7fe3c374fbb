//! Reading payloads, also those with text that is not valid Unicode.
//!
//! Strings of a page are sequences of 16-bit units, and half of a surrogate pair may stand alone in them. The browser
//! writes it as an escape that no Rust string can hold. A page must not be able to hide a whole result that way.

use serde::de::DeserializeOwned;

/// Bytes of an escape such as `\ud83d`.
const ESCAPE: usize = 6;

/// The escape that replaces a half: U+FFFD.
const REPLACEMENT: &[u8; ESCAPE] = b"\\ufffd";

/// The payload as `T`; halves of surrogate pairs are replaced by U+FFFD.
pub(super) fn parse<T: DeserializeOwned>(json: &[u8]) -> Result<T, serde_json::Error> {
    serde_json::from_slice(json).or_else(|error| match without_halves(json) {
        Some(repaired) => serde_json::from_slice(&repaired),
        None => Err(error),
    })
}

/// The same JSON without halves of surrogate pairs; `None` if it has none.
fn without_halves(json: &[u8]) -> Option<Vec<u8>> {
    let mut repaired: Option<Vec<u8>> = None;
    let mut position = 0;
    while let Some(offset) = memchr::memchr(b'\\', json.get(position..).unwrap_or_default()) {
        let start = position + offset;
        position = match (unit(json, start), unit(json, start + ESCAPE)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => start + 2 * ESCAPE,
            (Some(0xd800..=0xdfff), _) => {
                let repaired = repaired.get_or_insert_with(|| json.to_vec());
                if let Some(half) = repaired.get_mut(start..start + ESCAPE) {
                    half.copy_from_slice(REPLACEMENT);
                }
                start + ESCAPE
            }
            (Some(_), _) => start + ESCAPE,
            // Another escape, such as that of a backslash.
            (None, _) => start + 2,
        };
    }
    repaired
}

/// The 16-bit unit that the escape at this place stands for.
fn unit(json: &[u8], start: usize) -> Option<u16> {
    let digits = json.get(start..start + ESCAPE)?.strip_prefix(b"\\u")?;
    let digits = std::str::from_utf8(digits).ok()?;
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(json: &str, expected: &str) {
        assert_eq!(parse::<String>(json.as_bytes()).ok().as_deref(), Some(expected), "{json}");
    }

    #[test]
    fn halves_of_pairs_are_replaced_and_pairs_stay() {
        check(r#""\ud83d\ude00 \u00f1 \\ud83d \n""#, "\u{1f600} ñ \\ud83d \n");
        check(r#""\ud83d""#, "\u{fffd}");
        check(r#""\ude00\ud83d""#, "\u{fffd}\u{fffd}");
        check(r#""\ud83d\ud83d\ude00""#, "\u{fffd}\u{1f600}");
        check(r#""\ud83dx\\\ude00\\""#, "\u{fffd}x\\\u{fffd}\\");
        check(r#""\uD83D\u0041""#, "\u{fffd}A");
    }

    #[test]
    fn what_is_wrong_otherwise_stays_wrong() {
        for json in ["", "\"", r#""\u12""#, r#""\ud8""#, "7", r#""\ud800"#] {
            assert!(parse::<String>(json.as_bytes()).is_err(), "{json}");
        }
    }
}
