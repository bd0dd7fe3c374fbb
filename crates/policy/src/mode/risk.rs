//! The assessment of a text: how many steps it may take, how complex it is, how much harm it may do, and how far this
//! can be trusted (seed 004, "RiskAssessment"). It informs, and decides nothing.
//!
//! [`assess`] goes by fixed lists of English and Spanish words and by the formula of `docs/risk.md`, and gives reasons
//! for what it says. It understands nothing: a negated word counts as the word itself, and an unknown one does no harm.
//! The time is in proportion to the text. What is added to a text in a clause of its own never lowers the level.

mod reader;
mod reason;
mod target;
#[cfg(test)]
mod tests;
mod words;

use std::fmt;

use reader::Findings;
pub use reason::Reason;

/// The most steps that are estimated.
pub const STEPS_MAX: u32 = 50;

/// The parts of the complexity; together they are 1. Each counts in full from its number on.
const STEPS_WEIGHT: f64 = 0.4;
/// Steps beyond the first one.
const STEPS_FULL: u32 = 10;
const TARGETS_WEIGHT: f64 = 0.2;
const TARGETS_FULL: u32 = 10;
const CONDITIONS_WEIGHT: f64 = 0.15;
const CONDITIONS_FULL: u32 = 3;
const LOOPS_WEIGHT: f64 = 0.15;
const LOOPS_FULL: u32 = 3;
const LENGTH_WEIGHT: f64 = 0.1;
const WORDS_FULL: u32 = 200;

/// The impact of the gravest verb.
const DESTROYS: f64 = 0.5;
const PUBLISHES: f64 = 0.4;
const CHANGES: f64 = 0.25;
const READS: f64 = 0.05;
/// What broad and sensitive words add to the factor of the verb's impact, which is 1 without them.
const BROAD: f64 = 0.5;
const SENSITIVE: f64 = 0.5;
/// What tools add to the impact.
const IRREVERSIBLE: f64 = 0.4;
const NEEDS_APPROVAL: f64 = 0.2;

/// The share of the impact that counts whatever the complexity is; the rest counts by the complexity.
const IMPACT_ALONE: f64 = 0.7;
/// The risk from which on the level is medium, and high.
const MEDIUM_FROM: f64 = 0.25;
const HIGH_FROM: f64 = 0.5;

/// The confidence in a text whose words are all known.
const CONFIDENCE_MOST: f64 = 0.9;
/// What is taken from it: in proportion to the unknown words, and where something is so.
const UNKNOWN_PENALTY: f64 = 0.5;
const NO_VERB_PENALTY: f64 = 0.2;
const SHORT_PENALTY: f64 = 0.3;
const SHORT_BELOW: u32 = 3;
const LONG_PENALTY: f64 = 0.2;
const LONG_ABOVE: u32 = 400;

/// What has to be known of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolFacts<'n> {
    pub name: &'n str,
    /// Its effects can be undone.
    pub undoable: bool,
    pub needs_approval: bool,
}

/// How much harm a text may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RiskLevel {
    Low,
    Medium,
    High,
}

impl RiskLevel {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }

    fn of(risk: f64) -> Self {
        if risk >= HIGH_FROM {
            Self::High
        } else if risk >= MEDIUM_FROM {
            Self::Medium
        } else {
            Self::Low
        }
    }
}

impl fmt::Display for RiskLevel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// What is said about a text. No mode is recommended.
#[derive(Clone, Debug, PartialEq)]
pub struct Assessment {
    /// 1 to [`STEPS_MAX`].
    pub estimated_steps: u32,
    /// 0 to 1, with four decimals.
    pub complexity_score: f64,
    pub risk_level: RiskLevel,
    /// 0 to 1, with four decimals.
    pub confidence: f64,
    /// What the numbers come from: the impact first, then the complexity, then the confidence.
    pub reasoning: Vec<Reason>,
}

/// The assessment of a text that may name some of the tools.
#[must_use]
pub fn assess(query: &str, tools: &[ToolFacts<'_>]) -> Assessment {
    let findings = reader::read(query, tools);
    let estimated_steps = findings.steps.clamp(1, STEPS_MAX);
    let complexity_score = complexity(&findings, estimated_steps);
    let risk = rounded(impact(&findings) * (IMPACT_ALONE + (1.0 - IMPACT_ALONE) * complexity_score));
    Assessment {
        estimated_steps,
        complexity_score,
        risk_level: RiskLevel::of(risk),
        confidence: confidence(&findings),
        reasoning: reason::reasons(&findings, estimated_steps),
    }
}

fn complexity(findings: &Findings<'_>, steps: u32) -> f64 {
    let part = |weight: f64, count: u32, full: u32| weight * f64::from(count.min(full)) / f64::from(full);
    let sum = part(STEPS_WEIGHT, steps.saturating_sub(1), STEPS_FULL)
        + part(TARGETS_WEIGHT, findings.target_count(), TARGETS_FULL)
        + part(CONDITIONS_WEIGHT, findings.conditions, CONDITIONS_FULL)
        + part(LOOPS_WEIGHT, findings.loops, LOOPS_FULL)
        + part(LENGTH_WEIGHT, findings.words, WORDS_FULL);
    rounded(sum.clamp(0.0, 1.0))
}

fn impact(findings: &Findings<'_>) -> f64 {
    let term = |holds: bool, amount: f64| if holds { amount } else { 0.0 };
    let verb = if !findings.destroys.is_empty() {
        DESTROYS
    } else if !findings.publishes.is_empty() {
        PUBLISHES
    } else if !findings.changes.is_empty() {
        CHANGES
    } else {
        term(!findings.reads.is_empty(), READS)
    };
    let factor =
        1.0 + term(!findings.broad.is_empty(), BROAD) + term(!findings.sensitive.is_empty(), SENSITIVE);
    let tools = term(findings.tools.iter().any(|tool| !tool.undoable), IRREVERSIBLE)
        + term(findings.tools.iter().any(|tool| tool.needs_approval), NEEDS_APPROVAL);
    (verb * factor + tools).min(1.0)
}

fn confidence(findings: &Findings<'_>) -> f64 {
    if findings.words == 0 {
        return 0.0;
    }
    let mut confidence =
        CONFIDENCE_MOST - UNKNOWN_PENALTY * f64::from(findings.unknown) / f64::from(findings.words);
    if !findings.has_verb() {
        confidence -= NO_VERB_PENALTY;
    }
    if findings.is_short() {
        confidence -= SHORT_PENALTY;
    }
    if findings.is_long() {
        confidence -= LONG_PENALTY;
    }
    rounded(confidence.clamp(0.0, 1.0))
}

/// A number with four decimals.
fn rounded(number: f64) -> f64 {
    (number * 10_000.0).round() / 10_000.0
}
