//! What is reported: violations with their places, bounded, and values cut short.

use capataz_contracts::v1::SchemaViolation;
use serde_json::Value;

use crate::REPORTED_MAX;

/// Characters of a value that are shown.
const SHOWN: usize = 80;
/// Characters of a place that are shown; a key may be as long as a document.
const PLACE: usize = 1_000;

/// One step from a value to one within it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Segment<'a> {
    Key(&'a str),
    Item(usize),
}

/// A place, as a JSON pointer.
pub(crate) fn pointer(place: &[Segment<'_>]) -> String {
    let mut text = String::new();
    for segment in place {
        text.push('/');
        match segment {
            Segment::Item(index) => text.push_str(&index.to_string()),
            Segment::Key(key) => {
                let rest = PLACE.saturating_sub(text.len());
                for character in key.chars().take(rest) {
                    match character {
                        '~' => text.push_str("~0"),
                        '/' => text.push_str("~1"),
                        other => text.push(other),
                    }
                }
            }
        }
    }
    text
}

/// Violations, or how many there would be where nobody reads them.
#[derive(Debug, Default)]
pub(crate) struct Sink {
    found: Vec<SchemaViolation>,
    beyond: usize,
    is_silent: bool,
}

impl Sink {
    /// Only whether there is a violation matters.
    pub(crate) fn silent() -> Self {
        Self { is_silent: true, ..Self::default() }
    }

    pub(crate) fn is_silent(&self) -> bool {
        self.is_silent
    }

    pub(crate) fn count(&self) -> usize {
        self.found.len() + self.beyond
    }

    pub(crate) fn found(&self) -> &[SchemaViolation] {
        &self.found
    }

    /// Reports a violation; what it says is only worked out where somebody reads it.
    pub(crate) fn push(
        &mut self,
        place: &[Segment<'_>],
        rule: &str,
        words: impl FnOnce() -> (String, String),
    ) {
        if self.is_silent || self.found.len() >= REPORTED_MAX {
            self.beyond += 1;
            return;
        }
        let (expected, found) = words();
        self.found.push(crate::violation(&pointer(place), rule, expected, found));
    }

    /// Takes over what another sink has found.
    pub(crate) fn append(&mut self, other: Self) {
        self.beyond += other.beyond;
        for violation in other.found {
            if self.is_silent || self.found.len() >= REPORTED_MAX {
                self.beyond += 1;
            } else {
                self.found.push(violation);
            }
        }
    }

    pub(crate) fn into_violations(mut self) -> Vec<SchemaViolation> {
        if self.beyond > 0 {
            self.found.truncate(REPORTED_MAX - 1);
            let more = format!(
                "{} more violations",
                self.beyond + usize::from(self.found.len() + 1 == REPORTED_MAX)
            );
            self.found.push(crate::violation("", "truncated", "no further violations".to_owned(), more));
        }
        self.found
    }
}

/// A value for people: a text, a number, true, false and null as JSON, lists and objects by their size.
pub(crate) fn value_shown(value: &Value) -> String {
    match value {
        Value::Array(items) => counted(items.len(), "a list of", "item"),
        Value::Object(object) => counted(object.len(), "an object with", "key"),
        Value::String(text) => text_shown(text),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

/// A text as JSON, cut short.
pub(crate) fn text_shown(text: &str) -> String {
    let mut cut: String = text.chars().take(SHOWN).collect();
    if cut.len() < text.len() {
        cut.push('…');
    }
    Value::String(cut).to_string()
}

fn counted(count: usize, what: &str, unit: &str) -> String {
    format!("{what} {count} {unit}{}", if count == 1 { "" } else { "s" })
}
