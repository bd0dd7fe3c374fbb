//! A planner without a model: a file says what is done about which queries (seed 004; CONTRACTS §5).
//!
//! It is a pure function of the prompt: the same prompt has the same answer, in all three modes. Begin with
//! [`Rules::answer`]; [`Planners`] serves the planners of a configuration.

mod answer;
mod serve;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use regex::{Regex, RegexBuilder};
use serde::Deserialize;
use serde_json::Value;

pub use serve::{Planners, RULES_HOST, described};

/// Rules of a file.
const RULES_MAX: usize = 1_000;
/// Steps of a rule: as many as a plan may have.
const STEPS_MAX: usize = 50;
/// Bytes of a compiled pattern.
const PATTERN_BYTES: usize = 1024 * 1024;

/// A file of rules, as it is read.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RulesFile {
    /// The first one whose pattern finds something in the query applies.
    pub rules: Vec<Rule>,
}

/// What is done about queries of one kind.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// A regular expression, looked for in the query whatever its case. What its named groups find is `${name}` in parameters.
    pub query: String,
    /// What is done, in this order.
    pub steps: Vec<RuleStep>,
    /// What is done where the plan has to be made anew; else the same again.
    #[serde(default)]
    pub otherwise: Vec<RuleStep>,
    /// Places of the steps, from 0, before which a checkpoint is made.
    #[serde(default)]
    pub checkpoints: Vec<u32>,
    /// What the plan is expected to take, in minutes.
    #[serde(default)]
    pub minutes: f64,
}

/// A step of a rule.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleStep {
    /// Names it within its rule.
    pub id: String,
    #[serde(default)]
    pub description: String,
    pub tool: String,
    /// What the tool is given. `${name}` stands for what a group of the pattern has found, `${last}` for what the action before
    /// gave back.
    #[serde(default)]
    pub parameters: Value,
    /// What is expected of the result; default: that the tool succeeds.
    #[serde(default)]
    pub expected: Option<Value>,
    /// Ids of steps that have to succeed before; default: the one before.
    #[serde(default)]
    pub depends_on: Option<Vec<String>>,
    /// What a person is asked before it. In the mode `supervised` alone.
    #[serde(default)]
    pub ask: Option<Ask>,
}

/// What a person is asked.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ask {
    /// Why. Names the question: it is asked once.
    pub reason: String,
    pub question: String,
    #[serde(default)]
    pub options: Vec<String>,
}

/// Rules that can be gone by.
#[derive(Clone, Debug)]
pub struct Rules {
    rules: Vec<(Regex, Rule)>,
}

impl Rules {
    /// # Errors
    /// All that is wrong with the file, each with its place.
    pub fn new(file: RulesFile) -> Result<Self, Vec<String>> {
        let mut problems = Vec::new();
        if file.rules.is_empty() || file.rules.len() > RULES_MAX {
            problems.push(format!("rules: from 1 to {RULES_MAX}"));
        }
        let mut rules = Vec::new();
        for (place, rule) in file.rules.into_iter().enumerate() {
            let at = format!("rules[{place}]");
            let built =
                RegexBuilder::new(&rule.query).case_insensitive(true).size_limit(PATTERN_BYTES).build();
            check_steps(&rule.steps, &format!("{at}.steps"), 1, &mut problems);
            check_steps(&rule.otherwise, &format!("{at}.otherwise"), 0, &mut problems);
            for (index, step) in rule.checkpoints.iter().enumerate() {
                if *step as usize >= rule.steps.len() {
                    problems.push(format!("{at}.checkpoints[{index}]: there is no step {step}"));
                }
            }
            if !rule.minutes.is_finite() || rule.minutes < 0.0 {
                problems.push(format!("{at}.minutes: a number from 0"));
            }
            match built {
                Ok(pattern) => rules.push((pattern, rule)),
                Err(error) => problems.push(format!("{at}.query: {error}")),
            }
        }
        if problems.is_empty() { Ok(Self { rules }) } else { Err(problems) }
    }
}

fn check_steps(steps: &[RuleStep], at: &str, least: usize, problems: &mut Vec<String>) {
    if !(least..=STEPS_MAX).contains(&steps.len()) {
        problems.push(format!("{at}: from {least} to {STEPS_MAX} steps"));
    }
    let mut before: BTreeSet<&str> = BTreeSet::new();
    for (place, step) in steps.iter().enumerate() {
        if step.id.is_empty() || step.tool.is_empty() {
            problems.push(format!("{at}[{place}]: a step has an id and a tool"));
        }
        // In this order none of them waits for one that waits for it.
        for (index, needed) in step.depends_on.iter().flatten().enumerate() {
            if !before.contains(needed.as_str()) {
                problems.push(format!("{at}[{place}].depends_on[{index}]: {needed:?} is no step before it"));
            }
        }
        if !before.insert(&step.id) {
            problems.push(format!("{at}[{place}].id: {:?} is there twice", step.id));
        }
    }
}
