//! Secrets are taken out of what agents say.

use std::borrow::Cow;
use std::fmt;

use serde_json::{Deserializer, Value};

/// Masks the secrets that an agent was given wherever it says them back. A secret is not found in another form, such as Base64.
#[derive(Clone, Default)]
pub(crate) struct Redactor {
    needles: Vec<Vec<u8>>,
}

/// Shorter values are not masked: they occur by chance.
const SHORTEST_MASKED: usize = 4;

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Redactor({} secrets)", self.needles.len())
    }
}

impl Redactor {
    /// Secrets of several lines are masked line by line as well: a log may show them indented.
    pub(crate) fn new(secrets: &[String]) -> Self {
        let whole = secrets.iter().map(String::as_str);
        let lines = secrets.iter().flat_map(|secret| secret.lines()).map(str::trim);
        let needles = whole.chain(lines).filter(|needle| needle.len() >= SHORTEST_MASKED);
        let mut needles: Vec<_> = needles.map(|needle| needle.as_bytes().to_vec()).collect();
        needles.sort_unstable();
        needles.dedup();
        Self { needles }
    }

    /// Bytes of the longest secret: how far a cut must stay away from what is shown.
    pub(crate) fn longest(&self) -> usize {
        self.needles.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// How many bytes at the end of `text` may be the beginning of a secret.
    pub(crate) fn begun(&self, text: &[u8]) -> usize {
        let of = |needle: &Vec<u8>| {
            let mut lengths = (1..needle.len()).rev();
            lengths.find(|length| needle.get(..*length).is_some_and(|begun| text.ends_with(begun)))
        };
        self.needles.iter().filter_map(of).max().unwrap_or(0)
    }

    /// Overwrites every secret with asterisks.
    pub(crate) fn mask(&self, text: &mut [u8]) {
        let mut found = Vec::new();
        for needle in &self.needles {
            let starts = text.windows(needle.len()).enumerate().filter(|(_, window)| window == needle);
            found.extend(starts.map(|(start, _)| start..start + needle.len()));
        }
        for range in found {
            if let Some(secret) = text.get_mut(range) {
                // A log has the same lines, whether it was masked as a whole or line by line.
                secret.iter_mut().filter(|byte| !matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b'*');
            }
        }
    }

    /// The text without secrets.
    pub(crate) fn masked<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.needles.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut bytes = text.as_bytes().to_vec();
        self.mask(&mut bytes);
        Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// What was written, or begun, as JSON, without secrets: its strings are masked as they are meant, however they are
    /// escaped. Elsewhere, and from where it is no JSON on, secrets are masked as they stand.
    pub(crate) fn masked_json(&self, json: &[u8]) -> Vec<u8> {
        let mut masked = Vec::with_capacity(json.len());
        let mut rest = json;
        while let Some(start) = rest.iter().position(|byte| *byte == b'"') {
            let (before, string) = rest.split_at(start);
            let mut strings = Deserializer::from_slice(string).into_iter::<String>();
            let Some(Ok(meant)) = strings.next() else { break };
            let (written, after) = string.split_at(strings.byte_offset());
            masked.extend_from_slice(before);
            let shown = self.masked(&meant);
            if shown == meant {
                masked.extend_from_slice(written);
            } else {
                masked.extend_from_slice(Value::from(shown).to_string().as_bytes());
            }
            rest = after;
        }
        masked.extend_from_slice(rest);
        self.mask(&mut masked);
        masked
    }

    /// The last `most` bytes of what has come so far, without secrets: neither one that is cut by the window nor one that has
    /// only begun.
    pub(crate) fn tail(&self, so_far: &str, most: usize) -> String {
        let window = most.saturating_add(self.longest());
        let from = so_far.floor_char_boundary(so_far.len().saturating_sub(window));
        let masked = self.masked(so_far.get(from..).unwrap_or_default());
        let whole = masked.floor_char_boundary(masked.len().saturating_sub(self.begun(masked.as_bytes())));
        // The window goes back further than is shown: what is cut by its beginning is not shown.
        let start = masked.ceil_char_boundary(masked.len().saturating_sub(most)).min(whole);
        masked.get(start..whole).unwrap_or_default().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_masked_also_where_they_overlap() {
        let redactor = Redactor::new(&["abcdef".to_owned(), "defghi".to_owned(), "xyz".to_owned()]);
        assert_eq!(redactor.masked("-abcdefghi- xyz"), "-*********- xyz");
        assert_eq!(redactor.longest(), 6);
        let lines = Redactor::new(&["first line\n  second line\n".to_owned()]);
        assert_eq!(lines.masked("> second line"), "> ***********");
    }

    #[test]
    fn strings_of_json_are_masked_however_they_are_escaped() {
        let redactor = Redactor::new(&["pa\"ss\\wörd".to_owned(), "20261999".to_owned()]);
        #[track_caller]
        fn check(redactor: &Redactor, json: &str, expected: &str) {
            assert_eq!(String::from_utf8(redactor.masked_json(json.as_bytes())).unwrap(), expected);
        }
        check(
            &redactor,
            r#"{"b": 1.50, "a": ["x pa\"ss\\wörd", "\u0070a\u0022ss\u005cw\u00F6rd\n"]}"#,
            r#"{"b": 1.50, "a": ["x ***********", "***********\n"]}"#,
        );
        check(
            &redactor,
            r#"{"pa\"ss\\wörd": "\u00f1", "n": 20261999}"#,
            r#"{"***********": "\u00f1", "n": ********}"#,
        );
        // Cut off within a string, no JSON, and nothing to hide.
        check(&redactor, r#"["pa\"ss\\wörd", "and 20261999"#, r#"["***********", "and ********"#);
        check(&redactor, r#"say "\q" 20261999 "\u0032""#, r#"say "\q" ******** "\u0032""#);
        check(&Redactor::default(), r#"["\u0032"]"#, r#"["\u0032"]"#);
    }

    #[test]
    fn a_tail_never_has_a_part_of_a_secret() {
        let redactor = Redactor::new(&["s3cr3t-value".to_owned()]);
        let said = "«¿s3cr3t-value? s3cr3t-value!»";
        for end in (0..=said.len()).filter(|end| said.is_char_boundary(*end)) {
            for most in 0..=said.len() {
                let tail = redactor.tail(&said[..end], most);
                assert!(tail.len() <= most, "{tail}");
                for part in 2..=12 {
                    let shown = (0..=12 - part).any(|from| tail.contains(&"s3cr3t-value"[from..from + part]));
                    assert!(!shown, "{end} {most}: {tail}");
                }
            }
        }
        assert_eq!(redactor.tail(said, 100), "«¿************? ************!»");
        assert_eq!(redactor.tail("abc", 2), "bc");
        assert_eq!(Redactor::default().tail("señor", 3), "or");
    }
}
