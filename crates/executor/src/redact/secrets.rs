//! Secrets that are known because the executor typed them, in the forms in which pages and URLs give them back.

use std::collections::BTreeSet;
use std::ops::Range;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use regex::{Regex, RegexBuilder};

use crate::text::normalised;

/// What stands in the place of something secret.
pub const MASK: &str = "«secret»";

/// A text of fewer characters than this is too common to be masked wherever it appears, unless it was declared a secret.
const PECULIAR_FROM: usize = 5;
/// From this length on no text is common.
const LONG_FROM: usize = 12;

/// True if a text that was typed in clear is a secret wherever it appears: it has 12 characters or more, or 5 or more and
/// two of letters, digits and signs. Any other, such as an ordinary word, is on too many pages: it is masked in the field,
/// and in the action that types it, and nowhere else.
pub(crate) fn is_peculiar(text: &str) -> bool {
    let kinds = [
        text.chars().any(char::is_alphabetic),
        text.chars().any(char::is_numeric),
        text.chars().any(|c| !c.is_alphanumeric() && !c.is_whitespace()),
    ];
    let several = kinds.iter().filter(|is_there| **is_there).count() > 1;
    let length = text.chars().count();
    length >= LONG_FROM || (length >= PECULIAR_FROM && several)
}

/// Shorter ones are masked only where they stand alone: else every `1` of a page would be one.
const ALONE_BELOW: usize = 4;
/// A piece of base64 that is shorter than this could be anything.
const BASE64_PIECE: usize = 8;

#[derive(Clone, Debug, Default)]
pub(super) struct Secrets {
    /// Every form of every secret.
    forms: BTreeSet<String>,
    /// All forms at once, the longest first, so that no form is masked only in part.
    pattern: Option<Regex>,
}

impl Secrets {
    pub(super) fn learn(&mut self, secret: &str) {
        let before = self.forms.len();
        self.forms.extend(forms(secret).into_iter().filter(|form| !form.trim().is_empty()));
        if self.forms.len() == before {
            return;
        }
        let mut forms: Vec<&String> = self.forms.iter().collect();
        forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
        // A mask comes before everything: what looks like a part of one is not masked within it.
        let masks = std::iter::once(regex::escape(MASK));
        let alternatives: Vec<String> =
            masks.chain(forms.into_iter().map(|form| alternative(form))).collect();
        // Literals compile to a machine of their own size; the default limit of 10 MB is far beyond what can be typed.
        self.pattern = RegexBuilder::new(&alternatives.join("|")).size_limit(1 << 28).build().ok();
    }

    /// The places of secrets in the text.
    pub(super) fn find(&self, text: &str) -> Vec<Range<usize>> {
        let Some(pattern) = &self.pattern else { return Vec::new() };
        let found = pattern.find_iter(text).filter(|found| found.as_str() != MASK);
        found.map(|found| found.range()).collect()
    }
}

fn alternative(form: &str) -> String {
    let escaped = regex::escape(form);
    if form.len() >= ALONE_BELOW {
        return escaped;
    }
    let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let before = if is_word(form.chars().next()) { r"\b" } else { "" };
    let after = if is_word(form.chars().next_back()) { r"\b" } else { "" };
    format!("{before}{escaped}{after}")
}

fn forms(secret: &str) -> Vec<String> {
    let component = percent_encoded(secret, "-_.~");
    let mut forms = vec![
        component.replace("%20", "+"),
        component.to_ascii_lowercase(),
        component,
        // What scripts of pages leave alone in a part of a URL, and in a whole one.
        percent_encoded(secret, "-_.~!*'()"),
        percent_encoded(secret, "-_.~!*'();/?:@&=+$,#"),
    ];
    // The secret as it is, as people read it, and as a page shows it that has only half decoded a form.
    for text in [secret.to_owned(), normalised(secret), secret.replace(' ', "+")] {
        forms.push(html_escaped(&text, "&#39;", "&quot;"));
        forms.push(html_escaped(&text, "&#x27;", "&#34;"));
        forms.push(html_escaped(&text, "'", "\""));
        let quoted = serde_json::Value::from(text.as_str()).to_string();
        if let Some(json) = quoted.strip_prefix('"').and_then(|json| json.strip_suffix('"')) {
            forms.push(json.replace('/', "\\/"));
            forms.push(json.to_owned());
        }
        forms.push(text);
    }
    for offset in 0..3 {
        for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
            forms.extend(base64_piece(secret, offset, engine));
        }
    }
    forms
}

fn percent_encoded(text: &str, kept: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || kept.as_bytes().contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

fn html_escaped(text: &str, apostrophe: &str, quote: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('\'', apostrophe).replace('"', quote)
}

/// The characters of a base64 text that depend on the secret alone, if the secret begins at byte `offset` of a group of
/// three. `None` if they are too few to be told from others.
fn base64_piece(secret: &str, offset: usize, engine: &impl Engine) -> Option<String> {
    let mut bytes = vec![0; offset];
    bytes.extend_from_slice(secret.as_bytes());
    let encoded = engine.encode(&bytes);
    let first = (offset * 8).div_ceil(6);
    let end = bytes.len() * 8 / 6;
    encoded.get(first..end).filter(|piece| piece.len() >= BASE64_PIECE).map(str::to_owned)
}
