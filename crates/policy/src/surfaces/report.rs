//! Violations as the judge of schemas tells them: a place, a rule, what is expected there and what was found.

use capataz_contracts::v1::SchemaViolation;

/// The most violations that are reported; the last one then says that there are more.
pub const REPORTED_MAX: usize = 64;
/// Characters of a value that are shown.
const SHOWN: usize = 80;

/// Violations, and how many there are beyond the bound.
#[derive(Debug, Default)]
pub(super) struct Report {
    found: Vec<SchemaViolation>,
    beyond: usize,
}

impl Report {
    pub(super) fn push(&mut self, path: String, rule: &str, expected: String, found: String) {
        if self.found.len() >= REPORTED_MAX {
            self.beyond += 1;
            return;
        }
        self.found.push(SchemaViolation { path, rule: rule.to_owned(), expected, found });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    pub(super) fn into_violations(mut self) -> Vec<SchemaViolation> {
        if self.beyond > 0 {
            self.found.truncate(REPORTED_MAX - 1);
            self.found.push(SchemaViolation {
                path: String::new(),
                rule: "truncated".to_owned(),
                expected: "no further violations".to_owned(),
                found: format!("{} more violations", self.beyond + 1),
            });
        }
        self.found
    }
}

/// A text as JSON, cut short.
pub(super) fn shown(text: &str) -> String {
    let mut cut: String = text.chars().take(SHOWN).collect();
    if cut.len() < text.len() {
        cut.push('…');
    }
    serde_json::Value::String(cut).to_string()
}
