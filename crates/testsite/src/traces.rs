//! How a secret would be found again: every form in which somebody may have written it.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use crate::secrets::SECRETS;

/// What tests type into password fields: every character that somebody escapes.
pub const TYPED_SECRET: &str = "Zq7\"w&<x>'é/+ 9%k=Ñ";

/// One form of one secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The secret's name; `typed` for [`TYPED_SECRET`].
    pub name: &'static str,
    pub form: String,
}

impl Trace {
    /// True if the content holds this form of the secret.
    #[must_use]
    pub fn is_in(&self, content: &[u8]) -> bool {
        memchr::memmem::find(content, self.form.as_bytes()).is_some()
    }
}

/// Every form of every secret of [`SECRETS`], and of [`TYPED_SECRET`].
#[must_use]
pub fn traces() -> Vec<Trace> {
    let planted = SECRETS.iter().map(|secret| (secret.name, secret.value));
    let planted = planted.chain([("typed", TYPED_SECRET)]);
    planted.flat_map(|(name, value)| forms(value).into_iter().map(move |form| Trace { name, form })).collect()
}

/// What is found of them, each in words that name the place.
#[must_use]
pub fn found_in(place: &str, content: &[u8], traces: &[Trace]) -> Vec<String> {
    let found = traces.iter().filter(|trace| trace.is_in(content));
    found.map(|trace| format!("{} as {:?} in {place}", trace.name, trace.form)).collect()
}

/// The secret as it is, as URLs, forms, JSON and HTML write it, as HTML writes each of these, and what base64 makes of it
/// wherever it begins.
fn forms(secret: &str) -> BTreeSet<String> {
    let json = serde_json::Value::from(secret).to_string();
    let json = json.trim_start_matches('"').trim_end_matches('"').to_owned();
    let plain = BTreeSet::from([
        secret.to_owned(),
        json.replace('/', "\\/"),
        json.replace('é', "\\u00e9").replace('Ñ', "\\u00d1"),
        json,
        percent(secret, "-_.~"),
        percent(secret, "-_.~!*'()"),
        percent(secret, "-_.~!*'();/?:@&=+$,#"),
        percent(secret, "-_.~").replace("%20", "+"),
        percent(secret, "-_.~").to_ascii_lowercase(),
        secret.replace(' ', ""),
        secret.replace(' ', "-"),
    ]);
    let quotes = [("&quot;", "&#39;"), ("\"", "'"), ("&#34;", "&#x27;")];
    let in_html =
        plain.iter().flat_map(|text| quotes.map(|(quote, apostrophe)| html(text, quote, apostrophe)));
    let mut forms: BTreeSet<String> = in_html.chain(base64_of(secret)).collect();
    forms.extend(plain);
    forms
}

fn percent(text: &str, kept: &str) -> String {
    let written = |byte: u8| match byte {
        byte if byte.is_ascii_alphanumeric() || kept.as_bytes().contains(&byte) => {
            char::from(byte).to_string()
        }
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(written).collect()
}

fn html(text: &str, quote: &str, apostrophe: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', quote).replace('\'', apostrophe)
}

/// The base64 characters that depend on the secret alone, for each place in a group of three bytes where it may begin.
fn base64_of(secret: &str) -> Vec<String> {
    let mut pieces = Vec::new();
    for offset in 0..3 {
        let mut bytes = vec![0; offset];
        bytes.extend_from_slice(secret.as_bytes());
        for engine in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
            let encoded = engine.encode(&bytes);
            let piece = encoded.get((offset * 8).div_ceil(6)..bytes.len() * 8 / 6).unwrap_or_default();
            if piece.len() >= 8 {
                pieces.push(piece.to_owned());
            }
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_is_found_where_it_is() {
        for trace in traces() {
            let content = format!("before{}after", trace.form);
            assert!(!found_in("here", content.as_bytes(), &[trace]).is_empty());
        }
    }

    #[test]
    fn what_was_encoded_is_found_in_the_midst_of_other_things() {
        let texts = [
            STANDARD_NO_PAD.encode(format!("ab{TYPED_SECRET}cd")),
            URL_SAFE_NO_PAD.encode(format!("a{TYPED_SECRET}cd")),
            serde_json::json!({ "observed": TYPED_SECRET }).to_string(),
            html(&serde_json::json!([TYPED_SECRET]).to_string(), "&quot;", "&#39;"),
        ];
        for text in texts {
            let found = found_in("here", text.as_bytes(), &traces());
            assert!(found.iter().any(|hit| hit.starts_with("typed as ")), "{text}");
        }
    }

    #[test]
    fn nothing_is_found_where_nothing_is() {
        assert_eq!(found_in("here", "Password «secret»".as_bytes(), &traces()), Vec::<String>::new());
    }
}
