//! Findings about valid but unwise catalogues, each with one line of advice.
//!
//! A finding never prevents the use of a catalogue. Only the errors of [`crate::load`] do.

mod answers;
mod words;

use std::fmt;

use serde::Serialize;

use crate::spec::{Catalogue, Spec};

/// The number of examples below which an intent teaches the model little.
pub const FEW_EXAMPLES: usize = 5;

/// The maximum number of findings of one rule for one spec. A longer list of the same finding would add nothing.
const MOST_OF_A_RULE: usize = 20;

/// The importance of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The fact may be intended.
    Note,
    /// Routing or answers are worse than they could be.
    Warning,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Note => "note",
            Self::Warning => "warning",
        })
    }
}

/// The subject of a finding. The names are stable, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Rule {
    /// No spec is the default one.
    NoDefault,
    MissingDescription,
    /// Two specs have the same keyword.
    SharedKeyword,
    /// A keyword consists of words that nearly every text has.
    StopWordKeyword,
    /// A spec has no keyword, phrase, expression or example, so that only the default receives texts.
    NothingToMatch,
    FewExamples,
    /// The same example occurs in two intents, of one spec or of two.
    IdenticalExample,
    LanguageWithoutExamples,
    LanguageWithoutTemplates,
    /// An earlier pattern matches whenever this one does.
    SubsumedPattern,
    /// No intent, phrase or fallback leads to this pattern.
    UnreachablePattern,
    /// The expression requires characters that folding removes, and is matched against folded text.
    UnmatchableExpression,
    /// A transition or a fallback names a spec that the catalogue does not have.
    UnknownSpec,
    /// A transition has a confidence at which the rules ignore it, or do not take it automatically.
    WeakTransition,
}

impl Rule {
    /// All rules, for documents and for programs that list them.
    pub const ALL: [Self; 14] = [
        Self::NoDefault,
        Self::MissingDescription,
        Self::SharedKeyword,
        Self::StopWordKeyword,
        Self::NothingToMatch,
        Self::FewExamples,
        Self::IdenticalExample,
        Self::LanguageWithoutExamples,
        Self::LanguageWithoutTemplates,
        Self::SubsumedPattern,
        Self::UnreachablePattern,
        Self::UnmatchableExpression,
        Self::UnknownSpec,
        Self::WeakTransition,
    ];
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub rule: Rule,
    pub severity: Severity,
    /// The id of the spec; `None` for the catalogue as a whole.
    pub spec: Option<String>,
    /// The key, such as `patterns[1].phrases[0]`; empty for the spec as a whole.
    pub key: String,
    pub message: String,
    /// The advice.
    pub advice: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.severity)?;
        if let Some(spec) = &self.spec {
            write!(f, "{spec}: ")?;
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        write!(f, "{}; {}", self.message, self.advice)
    }
}

/// Collects findings: at most [`MOST_OF_A_RULE`] of a rule for a spec, then the number of further ones.
#[derive(Debug, Default)]
struct Findings {
    all: Vec<Finding>,
    /// The counts for the current spec.
    counts: std::collections::BTreeMap<Rule, usize>,
}

impl Findings {
    fn push(&mut self, finding: Finding) {
        let count = self.counts.entry(finding.rule).or_default();
        *count += 1;
        if *count <= MOST_OF_A_RULE {
            self.all.push(finding);
        }
    }

    fn finish_spec(&mut self, spec: &Spec) {
        for (rule, count) in std::mem::take(&mut self.counts) {
            if count > MOST_OF_A_RULE {
                self.all.push(Finding {
                    rule,
                    severity: Severity::Note,
                    spec: Some(spec.id.clone()),
                    key: String::new(),
                    message: format!("and {} more of the same kind", count - MOST_OF_A_RULE),
                    advice: "correct the first ones and check again".to_owned(),
                });
            }
        }
    }
}

/// Finds all findings: first those about the catalogue as a whole, then those by spec.
#[must_use]
pub fn lint(catalogue: &Catalogue) -> Vec<Finding> {
    let mut findings = Findings::default();
    if catalogue.default_spec().is_none() && !catalogue.specs().is_empty() {
        findings.all.push(Finding {
            rule: Rule::NoDefault,
            severity: Severity::Warning,
            spec: None,
            key: String::new(),
            message: "no spec is the default, so that no spec answers texts that match none".to_owned(),
            advice: "set `default = true` in the spec that should answer them".to_owned(),
        });
    }
    let shared = words::Shared::of(catalogue);
    for spec in catalogue.specs() {
        words::lint(spec, &shared, &mut findings);
        answers::lint(spec, catalogue, &mut findings);
        findings.finish_spec(spec);
    }
    findings.all
}

/// Makes a finding about `spec`.
fn about(
    spec: &Spec,
    rule: Rule,
    severity: Severity,
    key: impl Into<String>,
    message: impl Into<String>,
    advice: &str,
) -> Finding {
    Finding {
        rule,
        severity,
        spec: Some(spec.id.clone()),
        key: key.into(),
        message: message.into(),
        advice: advice.to_owned(),
    }
}

#[cfg(test)]
mod tests;
