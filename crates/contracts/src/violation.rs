//! What is wrong with a document, and where.

use std::fmt;

use crate::path::Path;

/// One rule that a document breaks. Checks report all of them at once, in the order in which they met them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Where, in the document's own names: `waves[0].tasks[2].retry.max_attempts`. Empty for the document itself.
    pub path: String,
    /// Stable name of the rule, for programs.
    pub rule: &'static str,
    /// What is wrong, for people.
    pub message: String,
}

impl Violation {
    /// A violation of `rule` at `path`.
    pub fn new(path: impl Into<String>, rule: &'static str, message: impl Into<String>) -> Self {
        Self { path: path.into(), rule, message: message.into() }
    }

    /// The same violation, its path continued below `parent`.
    #[must_use]
    pub fn under(mut self, parent: &str) -> Self {
        let separator = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path = format!("{parent}{separator}{}", self.path);
        self
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        write!(f, "{} ({})", self.message, self.rule)
    }
}

impl std::error::Error for Violation {}

/// The most violations of one document that are reported; how many there are beyond them is counted.
const REPORTED: usize = 100;

/// The rule of the last violation, where it says how many more there are.
pub(crate) const TRUNCATED: &str = "truncated";

/// Collects the violations of one document, within bounded memory.
#[derive(Debug, Default)]
pub(crate) struct Violations {
    reported: Vec<Violation>,
    /// The places of those that were pushed, by the names of the fields ([`Path::by_names`]).
    places: Vec<String>,
    beyond: usize,
}

impl Violations {
    pub fn push(&mut self, path: &Path<'_>, rule: &'static str, message: impl Into<String>) {
        if self.is_full() {
            self.beyond += 1;
        } else {
            self.places.push(path.by_names());
            self.reported.push(Violation::new(path.to_string(), rule, message));
        }
    }

    /// Takes over a violation.
    pub fn add(&mut self, violation: Violation) {
        if self.is_full() {
            self.beyond += 1;
        } else {
            self.reported.push(violation);
        }
    }

    pub fn reported(&self) -> &[Violation] {
        &self.reported
    }

    pub fn reported_mut(&mut self) -> &mut [Violation] {
        &mut self.reported
    }

    pub fn places(&self) -> &[String] {
        &self.places
    }

    /// Returns whether there are some that were only counted.
    pub fn is_cut(&self) -> bool {
        self.beyond > 0
    }

    /// Returns whether a further violation would only be counted, so that nobody need work out its message.
    pub fn is_full(&self) -> bool {
        self.reported.len() >= REPORTED
    }

    pub fn is_empty(&self) -> bool {
        self.reported.is_empty()
    }

    /// Takes over those of `others` that a violation here does not explain already: one at the same place or above it.
    pub fn add_unexplained(&mut self, others: Self) {
        let places: Vec<String> = self.reported.iter().map(|violation| violation.path.clone()).collect();
        for other in others.reported {
            let explained = places.iter().any(|place| {
                let below = other.path.strip_prefix(place.as_str());
                place.is_empty()
                    || below.is_some_and(|below| below.is_empty() || below.starts_with(['.', '[']))
            });
            if !explained {
                self.add(other);
            }
        }
        self.beyond += others.beyond;
    }

    /// The violations; where there are too many, the last one says how many more (rule `truncated`).
    pub fn into_vec(self) -> Vec<Violation> {
        let mut violations = self.reported;
        if self.beyond > 0 {
            violations.push(Violation::new("", TRUNCATED, format!("… and {} more", self.beyond)));
        }
        violations
    }
}
