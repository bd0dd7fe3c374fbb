//! Every rule that can be checked without a page, all violations at once.

use std::collections::{BTreeMap, BTreeSet};

use capataz_contracts::v1::{self, ScriptViolation};
use capataz_contracts::{Violation, validate};

use super::action::Action;
use super::reader::{Form, Reader};

/// Every violation of a script: of its shape ([`validate::script`]), of the rules U2, U3 and U5 of seed 002, and of those
/// whose name says what is wrong. Paths are from the script.
///
/// Rules beyond those of the shape: `required`, `fields`, `only_one`, `enum`, `range`, `limit`, `duplicate`, `ref`, `regex`,
/// `allowlist`, `url`, `key`, `attribute`, `output`, `variable`, `secret`, `placeholder`, `code`, `critical`,
/// `mask`, `upload_folder`, and `truncated` where there are more than a hundred.
#[must_use]
pub fn check_script(script: &v1::Script) -> Vec<ScriptViolation> {
    let shape = validate::script(script);
    // A script that is too large is refused for its size alone.
    if shape.iter().any(|violation| violation.path.is_empty() && violation.rule == "size")
        || script.actions.len() > validate::ACTIONS_MAX
    {
        return merged(shape, Vec::new(), |_| String::new());
    }
    let mut reader = Reader::new(Form::Fixed);
    if let Some(policy) = &script.policy {
        "policy.".clone_into(&mut reader.prefix);
        reader.policy(policy);
    }
    let rules = check_actions(reader, script);
    let id_of = |path: &str| {
        let index = path.strip_prefix("actions[").and_then(|rest| rest.split_once(']'));
        let action = index.and_then(|(index, _)| script.actions.get(index.parse::<usize>().ok()?));
        action.map(|action| crate::text::shortened(&action.id, 128)).unwrap_or_default()
    };
    merged(shape, rules, id_of)
}

/// The violations of the shape, and of the rules those that are about something else.
fn merged(
    shape: Vec<Violation>,
    rules: Vec<ScriptViolation>,
    id_of: impl Fn(&str) -> String,
) -> Vec<ScriptViolation> {
    let mut all: Vec<ScriptViolation> = shape
        .into_iter()
        .map(|Violation { path, rule, message }| {
            let action_id = id_of(&path);
            ScriptViolation { path, action_id, rule: rule.to_owned(), message }
        })
        .collect();
    let said: BTreeSet<String> = all.iter().map(|violation| violation.path.clone()).collect();
    all.extend(rules.into_iter().filter(|violation| !said.contains(&violation.path)));
    all
}

fn check_actions(reader: Reader<'_>, script: &v1::Script) -> Vec<ScriptViolation> {
    let mut findings = reader.findings;
    let mut outputs = BTreeSet::new();
    for (index, action) in script.actions.iter().enumerate() {
        let mut reader = Reader::new(Form::Written { variables: &script.variables, outputs: &outputs });
        reader.findings = findings;
        reader.prefix = format!("actions[{index}].");
        reader.interactive = script.interactive;
        reader.action(action);
        let output = action.output.as_ref();
        let is_taken = output.is_some_and(|output| outputs.contains(output));
        if is_taken {
            reader.refuse("output", "duplicate", "an earlier action gives an output of this name");
        }
        findings = reader.findings;
        outputs.extend(output.cloned());
    }
    findings.into_vec()
}

/// Every violation of one action as it is proposed: its placeholders name the variables and the outputs that there are.
/// Paths are from the action.
#[must_use]
pub fn check_action(
    action: &v1::Action,
    interactive: bool,
    variables: &BTreeMap<String, String>,
    outputs: &BTreeSet<String>,
) -> Vec<ScriptViolation> {
    let shape = validate::action(action);
    if shape.iter().any(|violation| violation.path.is_empty()) {
        return merged(shape, Vec::new(), |_| String::new());
    }
    let mut reader = Reader::new(Form::Written { variables, outputs });
    reader.interactive = interactive;
    reader.action(action);
    merged(shape, reader.findings.into_vec(), |_| crate::text::shortened(&action.id, 128))
}

/// Reads an action that is about to be performed: everything but secrets is in its place.
pub(crate) fn read_action(action: &v1::Action, interactive: bool) -> Result<Action, Vec<ScriptViolation>> {
    let mut reader = Reader::new(Form::Ready);
    reader.interactive = interactive;
    let read = reader.action(action);
    read.ok_or_else(|| reader.findings.into_vec())
}

/// The rules that are broken, in order, each once: `violated_rules` of an `INVALID_ACTIONSPEC`.
pub(crate) fn violated_rules(violations: &[ScriptViolation]) -> Vec<&str> {
    let mut rules: Vec<&str> = Vec::new();
    for violation in violations {
        if !rules.contains(&violation.rule.as_str()) {
            rules.push(&violation.rule);
        }
    }
    rules
}

#[cfg(test)]
mod tests;
