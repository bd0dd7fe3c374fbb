//! Documents of which a part cannot be read, with all that is wrong with them.

use serde_json::Value;

use crate::as_written;
use crate::gaps::Gaps;
use crate::violation::{Violation, Violations};

/// A document as far as it could be read, and what is wrong with it: its form, and then what rules say of the rest.
///
/// Where its form is wrong it has a gap: what is there is absent, and an item of a list has its default. What rules say
/// because of a gap is not told, since it need not be so. Where more is wrong with its form than is told, no rule is told, and
/// the document has its default.
#[derive(Debug)]
pub struct InPart<T> {
    pub document: T,
    form: Violations,
    gaps: Gaps,
    /// What rules say of a document whose form is right.
    rules: Vec<Violation>,
    /// What paths do not begin with, because the document does not have it.
    unnamed: Option<&'static str>,
    /// The document as a person has written it, by which durations are named.
    written: Option<Value>,
}

impl<T> InPart<T> {
    pub(crate) fn new(document: T, form: Violations, gaps: Gaps) -> Self {
        Self { document, form, gaps, rules: Vec::new(), unnamed: None, written: None }
    }

    /// Returns whether nothing is known to be wrong with it.
    pub fn is_valid(&self) -> bool {
        self.form.is_empty() && self.rules.is_empty()
    }

    /// Returns whether a violation may follow from the form of the document alone, so that it is not told. Its path is that of
    /// the message.
    pub fn explains(&self, path: &str, rule: &str) -> bool {
        self.gaps.explain(path, rule)
    }

    /// Adds what rules say of the document, but for what may follow from its form. Where its form is wrong, there are at most
    /// 100 violations in all, and then how many more (rule `truncated`).
    pub fn add(&mut self, violations: impl IntoIterator<Item = Violation>) {
        for mut violation in violations {
            if self.gaps.explain(&violation.path, violation.rule) {
                continue;
            }
            if let Some(document) = &self.written {
                as_written::tell(&mut violation, document);
            }
            shorten(&mut violation, self.unnamed);
            if self.gaps.is_empty() {
                self.rules.push(violation);
            } else {
                self.form.add(violation);
            }
        }
    }

    /// Adds a violation of the form; nobody knows what is meant at `place`.
    pub(crate) fn refuse(&mut self, violation: Violation, place: &str) {
        if self.form.is_full() {
            self.gaps.cut();
        } else {
            self.gaps.add(place.to_owned());
        }
        self.form.add(violation);
    }

    /// Has what rules say of durations name them as the document does.
    pub(crate) fn name_durations_of(&mut self, document: Value) {
        self.written = Some(document);
    }

    /// Leaves the beginning of paths out that the document does not have.
    pub(crate) fn leave_out(&mut self, beginning: &'static str) {
        self.unnamed = Some(beginning);
        for violation in self.form.reported_mut() {
            shorten(violation, self.unnamed);
        }
    }

    /// The document, if nothing is wrong with it.
    ///
    /// # Errors
    /// All that is wrong with it, that of its form first.
    pub fn whole(self) -> Result<T, Vec<Violation>> {
        let mut violations = self.form.into_vec();
        violations.extend(self.rules);
        if violations.is_empty() { Ok(self.document) } else { Err(violations) }
    }
}

fn shorten(violation: &mut Violation, beginning: Option<&str>) {
    if let Some(rest) = beginning.and_then(|beginning| violation.path.strip_prefix(beginning)) {
        violation.path = rest.to_owned();
    }
    // The places of keys are those of the document, too.
    if let Some(beginning) = beginning.filter(|_| violation.rule == "unknown_key") {
        let of_all = beginning.replace("[0]", "[]");
        violation.message = violation.message.replace(&format!("`{of_all}"), "`");
    }
}
