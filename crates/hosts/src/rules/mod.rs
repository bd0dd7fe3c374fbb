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
/// Bytes of a file of rules.
pub const RULES_BYTES: u64 = 1024 * 1024;
/// Characters of an id, of a tool's name, and of a description, as the planners' contracts have them.
const NAME_MAX: usize = 128;
const DESCRIPTION_MAX: usize = 2_000;
/// Characters of a reason and of a question, options, and characters of one, as the planners' contracts have them.
const WORDS_MAX: usize = 4_000;
const OPTIONS_MAX: usize = 8;
const OPTION_MAX: usize = 200;
/// The mark of what the action before has given back.
const LAST: &str = "last";

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
    /// gave back, `${last.key}` for a part of it.
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
            let names: BTreeSet<&str> =
                built.iter().flat_map(|pattern| pattern.capture_names().flatten()).chain([LAST]).collect();
            if built.iter().any(|pattern| pattern.capture_names().flatten().any(|name| name == LAST)) {
                problems.push(format!(
                    "{at}.query: ${{{LAST}}} is what the action before gave back; name the group otherwise"
                ));
            }
            // Where the pattern cannot be read, nobody knows its groups.
            let names = built.is_ok().then_some(names);
            check_steps(&rule.steps, &format!("{at}.steps"), 1, names.as_ref(), &mut problems);
            check_steps(&rule.otherwise, &format!("{at}.otherwise"), 0, names.as_ref(), &mut problems);
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

fn check_steps(
    steps: &[RuleStep],
    at: &str,
    least: usize,
    names: Option<&BTreeSet<&str>>,
    problems: &mut Vec<String>,
) {
    if !(least..=STEPS_MAX).contains(&steps.len()) {
        problems.push(format!("{at}: from {least} to {STEPS_MAX} steps"));
    }
    let mut before: BTreeSet<&str> = BTreeSet::new();
    for (place, step) in steps.iter().enumerate() {
        if step.id.is_empty() || step.tool.is_empty() {
            problems.push(format!("{at}[{place}]: a step has an id and a tool"));
        }
        check_shape(step, &format!("{at}[{place}]"), problems);
        if let Some(names) = names {
            check_marks(&step.parameters, &format!("{at}[{place}].parameters"), names, problems);
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

/// What a planner's contract would refuse.
fn check_shape(step: &RuleStep, at: &str, problems: &mut Vec<String>) {
    let mut texts = vec![
        ("id", step.id.as_str(), NAME_MAX),
        ("tool", step.tool.as_str(), NAME_MAX),
        ("description", step.description.as_str(), DESCRIPTION_MAX),
    ];
    if let Some(ask) = &step.ask {
        texts.extend([("ask.reason", &*ask.reason, WORDS_MAX), ("ask.question", &*ask.question, WORDS_MAX)]);
        if ask.reason.trim().is_empty() || ask.question.trim().is_empty() {
            problems.push(format!("{at}.ask: it has a reason and a question"));
        }
        if ask.options.len() > OPTIONS_MAX {
            problems.push(format!("{at}.ask.options: at most {OPTIONS_MAX}"));
        }
        for (place, option) in ask.options.iter().enumerate() {
            if !(1..=OPTION_MAX).contains(&option.chars().count()) {
                problems.push(format!("{at}.ask.options[{place}]: 1 to {OPTION_MAX} characters"));
            }
        }
    }
    for (field, text, most) in texts {
        if text.chars().count() > most {
            problems.push(format!("{at}.{field}: at most {most} characters"));
        }
    }
    if step.expected.as_ref().is_some_and(|expected| !is_expectation(expected)) {
        problems.push(format!(
            "{at}.expected: a text, or one of {{ schema = … }}, {{ equals = … }}, {{ contains = \"…\" }}, {{ success = true }}"
        ));
    }
}

/// What a plan may expect of a step (CONTRACTS §5).
fn is_expectation(expected: &Value) -> bool {
    let only = expected.as_object().filter(|all| all.len() == 1).and_then(|all| all.iter().next());
    match only.map(|(key, value)| (key.as_str(), value)) {
        Some(("schema", value)) => value.is_object() || value.is_boolean(),
        Some(("equals", _)) => true,
        Some(("contains", value)) => value.as_str().is_some_and(|text| !text.is_empty()),
        Some(("success", value)) => value.is_boolean(),
        _ => expected.is_string(),
    }
}

/// Every `${name}` has to be one of the names, but for those with a colon.
fn check_marks(value: &Value, at: &str, names: &BTreeSet<&str>, problems: &mut Vec<String>) {
    match value {
        Value::String(text) => {
            // `${secret:NAME}` and its like are the tool's.
            let own = answer::marks(text).filter(|(_, _, name)| !name.contains(':'));
            let own = own.filter(|(_, _, name)| answer::part_of_last(name).is_none());
            for (_, _, name) in own.filter(|(_, _, name)| !names.contains(name)) {
                let known: Vec<String> = names.iter().map(|name| format!("${{{name}}}")).collect();
                problems.push(format!("{at}: ${{{name}}} is none of {}", known.join(", ")));
            }
        }
        Value::Array(items) => {
            for (place, item) in items.iter().enumerate() {
                check_marks(item, &format!("{at}[{place}]"), names, problems);
            }
        }
        Value::Object(entries) => {
            for (key, value) in entries {
                check_marks(value, &format!("{at}.{key}"), names, problems);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
