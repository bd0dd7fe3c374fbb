//! What is never kept: secrets in texts, URLs, attributes and headers, by what they look like and by what they are
//! (CONTRACTS: the reading of seed 002, evidence).
//!
//! Elements that are secret by their nature are the page's business; what comes from it still goes through here.

mod masked;
mod patterns;
mod secrets;

use std::borrow::Cow;
use std::ops::Range;

use regex::Regex;
use serde_json::Value;

use masked::Masked;
use patterns::{BUILT_IN, Only, card_numbers};
pub use secrets::MASK;
use secrets::Secrets;
pub(crate) use secrets::is_peculiar;

/// The most rounds; every text needs fewer.
const ROUNDS_MAX: usize = 8;

/// Masks what is secret. One for each run: it learns the secrets that the run's actions type.
#[derive(Clone, Debug)]
pub struct Redactor {
    configured: Vec<Regex>,
    secrets: Secrets,
}

impl Redactor {
    /// With the patterns that the script's policy declares.
    #[must_use]
    pub fn new(configured: &[Regex]) -> Self {
        Self { configured: configured.to_vec(), secrets: Secrets::default() }
    }

    /// From now on this is masked wherever it appears, plain or encoded as pages and URLs do.
    pub fn learn(&mut self, secret: &str) {
        self.secrets.learn(secret);
    }

    /// The text without anything secret. Borrowed where there was nothing to mask.
    #[must_use]
    pub fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.masked(text).into_text()
    }

    /// Where the secrets are that [`Self::text`] masks: ranges of bytes, in order, none within another.
    #[must_use]
    pub fn found(&self, text: &str) -> Vec<Range<usize>> {
        self.masked(text).into_hidden()
    }

    fn masked<'t>(&self, text: &'t str) -> Masked<'t> {
        let mut masked = Masked::new(text);
        // A mask may end what stood before a secret and hid it. Hardly any text needs a second round that changes it.
        for _ in 0..=ROUNDS_MAX {
            if !self.hide(&mut masked) {
                break;
            }
        }
        masked
    }

    /// Runs one round; says whether there was anything new to hide.
    fn hide(&self, masked: &mut Masked<'_>) -> bool {
        // Known secrets go first: a pattern might mask a part of it and leave the rest.
        let mut changed = masked.hide(|text| self.secrets.find(text));
        for rule in BUILT_IN.iter() {
            changed |= masked.hide(|text| find(&rule.pattern, text, rule.only));
        }
        changed |= masked.hide(card_numbers);
        for pattern in &self.configured {
            changed |= masked.hide(|text| find(pattern, text, Only::All));
        }
        changed
    }

    /// The JSON value with every text in it redacted, and every text whose key is that of a secret masked as a whole.
    /// Says whether anything was.
    pub fn json(&self, value: &mut Value) -> bool {
        let are_clean = self.texts_are_clean(value);
        self.json_unless(are_clean, value)
    }

    /// True if no text in the value needs a mask. All texts are looked at as one: a snapshot has a thousand short
    /// texts, and nearly always none of them needs a mask.
    fn texts_are_clean(&self, value: &Value) -> bool {
        // A pattern of the policy's may mean the beginning or the end of a text.
        if !self.configured.is_empty() {
            return false;
        }
        let mut all = String::new();
        collect_texts(value, &mut all);
        self.found(&all).is_empty()
    }

    /// As [`Self::json`], where the texts alone may be known to be clean.
    fn json_unless(&self, are_clean: bool, value: &mut Value) -> bool {
        match value {
            Value::String(text) => !are_clean && self.string(text),
            Value::Array(items) => {
                items.iter_mut().fold(false, |redacted, item| self.json_unless(are_clean, item) | redacted)
            }
            Value::Object(fields) => {
                let mut redacted = false;
                for (key, value) in fields {
                    match value {
                        Value::String(text) if patterns::is_secret_name(key) => {
                            redacted |= !text.is_empty() && text != MASK;
                            if !text.is_empty() {
                                MASK.clone_into(text);
                            }
                        }
                        value => redacted |= self.json_unless(are_clean, value),
                    }
                }
                redacted
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }

    /// Redacts in place; says whether anything was masked.
    pub fn string(&self, text: &mut String) -> bool {
        match self.text(text) {
            Cow::Borrowed(_) => false,
            Cow::Owned(redacted) => {
                let changed = redacted != *text;
                *text = redacted;
                changed
            }
        }
    }
}

/// Stands between texts that are looked at as one. No built-in pattern takes it for a part of a secret, of what comes before
/// one or of a word, so each text has at least the matches that it has alone.
const BETWEEN: char = '<';

fn collect_texts(value: &Value, all: &mut String) {
    match value {
        Value::String(text) => {
            all.push_str(text);
            all.push(BETWEEN);
        }
        Value::Array(items) => items.iter().for_each(|item| collect_texts(item, all)),
        Value::Object(fields) => fields.values().for_each(|value| collect_texts(value, all)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The group `secret` of each match, or the whole match where the pattern has no such group.
fn find(pattern: &Regex, text: &str, only: Only) -> Vec<Range<usize>> {
    let groups = pattern.captures_iter(text);
    let found = groups.filter_map(|groups| groups.name("secret").or_else(|| groups.get(0)));
    // A mask is left alone, so that redacting twice gives the same as redacting once.
    let secret =
        found.filter(|found| !found.is_empty() && found.as_str() != MASK && only.takes(found.as_str()));
    secret.map(|found| found.range()).collect()
}

#[cfg(test)]
mod tests;
