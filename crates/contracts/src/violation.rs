//! What is wrong with a document, and where.

use std::fmt;

/// One rule that a document breaks. Checks report all of them at once, in the document's order.
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
