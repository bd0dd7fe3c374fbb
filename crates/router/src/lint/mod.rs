//! What a catalogue may be and had better not: findings, each with one line of advice.
//!
//! A finding never keeps a catalogue from being used. The errors that do are those of [`crate::load`].

mod answers;
mod words;

use std::fmt;

use serde::Serialize;

use crate::spec::{Catalogue, Spec};

/// The fewest examples of an intent that teach the model something.
pub const FEW_EXAMPLES: usize = 5;

/// The most findings of one rule for one spec; a long list of the same says nothing new.
const MOST_OF_A_RULE: usize = 20;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing, and often meant so.
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

/// What a finding is about. The names are stable, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Rule {
    /// No spec is the default one.
    NoDefault,
    MissingDescription,
    /// Two specs have the same keyword.
    SharedKeyword,
    /// A keyword of words that nearly every text has.
    StopWordKeyword,
    /// A spec without any keyword, phrase, expression or example: only the default gets a text.
    NothingToMatch,
    FewExamples,
    /// The same example in two intents, of two specs or of one.
    IdenticalExample,
    LanguageWithoutExamples,
    LanguageWithoutTemplates,
    /// An earlier pattern matches wherever this one does.
    SubsumedPattern,
    /// Nothing leads to this pattern.
    UnreachablePattern,
    /// Matching is on folded text, and the expression asks for what folding removes.
    UnmatchableExpression,
    /// A transition or a fallback to a spec that the catalogue does not have.
    UnknownSpec,
    /// A transition that the rules ignore, or do not take automatically.
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
    /// The id of the spec; none for the catalogue as a whole.
    pub spec: Option<String>,
    /// `patterns[1].phrases[0]`; empty for the spec as a whole.
    pub key: String,
    pub message: String,
    /// What to do.
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

/// Collects findings: at most [`MOST_OF_A_RULE`] of a rule for a spec, then how many more.
#[derive(Debug, Default)]
struct Findings {
    all: Vec<Finding>,
    /// Of the spec at work.
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
                    advice: "correct the first ones and look again".to_owned(),
                });
            }
        }
    }
}

/// All findings: first those of the catalogue as a whole, then by spec.
#[must_use]
pub fn lint(catalogue: &Catalogue) -> Vec<Finding> {
    let mut findings = Findings::default();
    if catalogue.default_spec().is_none() && !catalogue.specs().is_empty() {
        findings.all.push(Finding {
            rule: Rule::NoDefault,
            severity: Severity::Warning,
            spec: None,
            key: String::new(),
            message: "no spec is the default, so a text that speaks for none has no one to answer it"
                .to_owned(),
            advice: "write `default = true` in the spec that should".to_owned(),
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

/// A finding about `spec`.
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
