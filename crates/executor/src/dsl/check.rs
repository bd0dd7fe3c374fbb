//! Every rule that can be checked without a page, all violations at once.

use std::collections::{BTreeMap, BTreeSet};

use capataz_contracts::script::is_placeholder_name;
use capataz_contracts::v1::{self, ScriptViolation};

use super::action::Action;
use super::reader::{Form, LONGEST_LIMIT, Reader};

const ACTIONS_MAX: usize = 1_000;
const NAME_MAX: usize = 128;
const VARIABLES_MAX: usize = 256;
const SIDE_MAX: u32 = 8_192;

/// Every violation of a script: of the rules U2, U3 and U5 of seed 002, and of those whose word says what is wrong.
/// Paths are from the script.
///
/// Rules: `required`, `fields`, `only_one`, `enum`, `limit`, `id`, `duplicate`, `ref`, `regex`, `allowlist`, `url`,
/// `key`, `attribute`, `output`, `variable`, `secret`, `placeholder`, `code`, `critical`, `upload_folder`, and
/// `truncated` where there are more than a hundred.
#[must_use]
pub fn check_script(script: &v1::Script) -> Vec<ScriptViolation> {
    let mut reader = Reader::new(Form::Fixed);
    if script.name.is_empty() || script.name.chars().nth(NAME_MAX).is_some() {
        reader.refuse("name", "required", format!("a script has a name of 1 to {NAME_MAX} characters"));
    }
    check_variables(&mut reader, &script.variables);
    reader.limit("idle_timeout_ms", script.idle_timeout_ms, LONGEST_LIMIT);
    if let Some(policy) = &script.policy {
        "policy.".clone_into(&mut reader.prefix);
        reader.policy(policy);
        reader.prefix.clear();
    }
    if let Some(browser) = &script.browser {
        check_browser(&mut reader, browser);
    }
    let count = script.actions.len();
    match (script.interactive, count) {
        (true, 1..) => reader.refuse("actions", "fields", "of an interactive script are proposed one by one"),
        (false, 0) => reader.refuse("actions", "required", "a script has at least one action"),
        (_, count) if count > ACTIONS_MAX => {
            reader.refuse("actions", "limit", format!("{count} actions; at most {ACTIONS_MAX}"));
        }
        _ => {}
    }
    check_actions(reader, script)
}

fn check_actions(reader: Reader<'_>, script: &v1::Script) -> Vec<ScriptViolation> {
    let mut findings = reader.findings;
    let mut ids = BTreeSet::new();
    let mut outputs = BTreeSet::new();
    for (index, action) in script.actions.iter().take(ACTIONS_MAX).enumerate() {
        let mut reader = Reader::new(Form::Written { variables: &script.variables, outputs: &outputs });
        reader.findings = findings;
        reader.prefix = format!("actions[{index}].");
        reader.interactive = script.interactive;
        reader.action(action);
        if !ids.insert(action.id.as_str()) {
            reader.refuse("id", "duplicate", "an earlier action has this id");
        }
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
    let mut reader = Reader::new(Form::Written { variables, outputs });
    reader.interactive = interactive;
    reader.action(action);
    reader.findings.into_vec()
}

/// Reads an action that is about to be performed: everything but secrets is in its place.
pub(crate) fn read_action(action: &v1::Action, interactive: bool) -> Result<Action, Vec<ScriptViolation>> {
    let mut reader = Reader::new(Form::Ready);
    reader.interactive = interactive;
    let read = reader.action(action);
    read.ok_or_else(|| reader.findings.into_vec())
}

/// Which rules are broken, in order, each once: `violated_rules` of an `INVALID_ACTIONSPEC`.
pub(crate) fn violated_rules(violations: &[ScriptViolation]) -> Vec<&str> {
    let mut rules: Vec<&str> = Vec::new();
    for violation in violations {
        if !rules.contains(&violation.rule.as_str()) {
            rules.push(&violation.rule);
        }
    }
    rules
}

fn check_variables(reader: &mut Reader<'_>, variables: &BTreeMap<String, String>) {
    if variables.len() > VARIABLES_MAX {
        let message = format!("{} variables; at most {VARIABLES_MAX}", variables.len());
        reader.refuse("variables", "limit", message);
        return;
    }
    for (name, value) in variables {
        let path = format!("variables.{}", crate::text::shortened(name, 64));
        if !is_placeholder_name(name) {
            reader.refuse(&path, "variable", "a name has 1 to 128 letters, digits, `.`, `_`, `-`");
        }
        reader.is_clean(&path, value);
    }
}

fn check_browser(reader: &mut Reader<'_>, browser: &v1::BrowserOptions) {
    for (field, side) in [("browser.width", browser.width), ("browser.height", browser.height)] {
        if side.is_some_and(|side| !(1..=SIDE_MAX).contains(&side)) {
            reader.refuse(field, "limit", format!("must be from 1 to {SIDE_MAX}"));
        }
    }
    let is_tag = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let is_zone =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/_+-".contains(&byte));
    let words = [
        ("browser.storage_state", &browser.storage_state, is_placeholder_name as fn(&str) -> bool),
        ("browser.locale", &browser.locale, is_tag),
        ("browser.timezone", &browser.timezone, is_zone),
    ];
    for (field, word, is_right) in words {
        if word.as_ref().is_some_and(|word| !(1..=NAME_MAX).contains(&word.len()) || !is_right(word)) {
            reader.refuse(field, "name", "has characters that no such name has, or is too long");
        }
    }
}

#[cfg(test)]
mod tests;
