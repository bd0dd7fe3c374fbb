//! The shape of a script of browser actions: names, ids, enums, counts, sizes, depths. What an action of its kind needs,
//! and the rules U2, U3 and U5 of seed 002, are the executor's.

use std::collections::{BTreeMap, BTreeSet};

use prost::Message;

use super::{NAME_MAX, name, optional_enum, script_policy};
use crate::path::{Path, shown};
use crate::reference::is_task_name;
use crate::v1;
use crate::violation::{Violation, Violations};

/// Actions of one script.
pub const ACTIONS_MAX: usize = 1_000;
/// Bytes of one action, encoded. Every attempt at it is an event that carries it.
pub const ACTION_BYTES_MAX: usize = 16 * 1024;
/// Bytes of one script, encoded.
pub const SCRIPT_BYTES_MAX: usize = 1024 * 1024;
/// Frames that lead to an element.
pub const FRAMES_MAX: usize = 8;
/// The maximum of containers around an element, one in the other.
pub const WITHIN_MAX: usize = 4;
/// How deep `not` may be nested, the condition in it being one level more.
pub const CONDITION_DEPTH_MAX: usize = 8;

/// Limits of time are at most an hour, because an action that takes longer has failed.
const DURATION_MAX_MS: i64 = 60 * 60 * 1_000;
const VARIABLES_MAX: usize = 256;
const VARIABLES_BYTES_MAX: usize = 64 * 1024;
/// Codes in one list. There are 15, and nobody needs one twice.
pub(super) const CODES_MAX: usize = 32;
/// As for tasks of plans.
pub const RETRIES_MAX: u32 = 100;

/// Checks the shape of a script. Where it is larger than it may be, only that is reported.
pub fn script(script: &v1::Script) -> Vec<Violation> {
    let mut violations = Violations::default();
    check(script, &Path::Root, &mut violations);
    violations.into_vec()
}

/// Checks the shape of one action, as it is proposed to an interactive session.
pub fn action(action: &v1::Action) -> Vec<Violation> {
    let mut violations = Violations::default();
    check_action(action, &Path::Root, &mut violations);
    violations.into_vec()
}

pub fn check(script: &v1::Script, path: &Path<'_>, violations: &mut Violations) {
    if !size(script, path, violations) {
        return;
    }
    name(&script.name, "the script's name", &path.key("name"), violations);
    if script.idle_timeout_ms.is_some() && !script.interactive {
        let message = "only an interactive script waits for somebody";
        violations.push(&path.key("idle_timeout_ms"), "fields", message);
    }
    duration(script.idle_timeout_ms, &path.key("idle_timeout_ms"), violations);
    variables(&script.variables, &path.key("variables"), violations);
    if let Some(policy) = &script.policy {
        script_policy::check(policy, &path.key("policy"), violations);
    }
    if let Some(browser) = &script.browser {
        script_policy::check_browser(browser, &path.key("browser"), violations);
    }
    actions(script, &path.key("actions"), violations);
}

fn size(script: &v1::Script, path: &Path<'_>, violations: &mut Violations) -> bool {
    let actions = script.actions.len();
    if actions > ACTIONS_MAX {
        let message = format!("{actions} actions; at most {ACTIONS_MAX} are allowed");
        violations.push(&path.key("actions"), "limit", message);
        return false;
    }
    let bytes = script.encoded_len();
    if bytes > SCRIPT_BYTES_MAX {
        let message = format!("the script has {bytes} bytes; at most {SCRIPT_BYTES_MAX} are allowed");
        violations.push(path, "size", message);
        return false;
    }
    true
}

fn actions(script: &v1::Script, path: &Path<'_>, violations: &mut Violations) {
    if script.interactive {
        if !script.actions.is_empty() {
            let message = "the actions of an interactive script are proposed once its browser is open";
            violations.push(path, "fields", message);
        }
    } else if script.actions.is_empty() {
        violations.push(path, "required", "a script has at least one action");
    }
    let mut seen = BTreeSet::new();
    for (index, action) in script.actions.iter().enumerate() {
        let path = &path.index(index);
        if !action.id.is_empty() && !seen.insert(action.id.as_str()) {
            let message = format!("there is another action with the id `{}`", shown(&action.id));
            violations.push(&path.key("id"), "duplicate", message);
        }
        check_action(action, path, violations);
    }
}

pub fn variables(variables: &BTreeMap<String, String>, path: &Path<'_>, violations: &mut Violations) {
    if variables.len() > VARIABLES_MAX {
        let message = format!("{} variables; at most {VARIABLES_MAX} are allowed", variables.len());
        return violations.push(path, "limit", message);
    }
    let bytes: usize = variables.iter().map(|(key, value)| key.len() + value.len()).sum();
    if bytes > VARIABLES_BYTES_MAX {
        let message = format!("{bytes} bytes in all; at most {VARIABLES_BYTES_MAX} are allowed");
        return violations.push(path, "size", message);
    }
    for key in variables.keys() {
        identifier(key, "the variable's name", &path.key(key), violations);
    }
}

pub fn check_action(action: &v1::Action, path: &Path<'_>, violations: &mut Violations) {
    let bytes = action.encoded_len();
    if bytes > ACTION_BYTES_MAX {
        let message = format!("the action has {bytes} bytes; at most {ACTION_BYTES_MAX} are allowed");
        return violations.push(path, "size", message);
    }
    identifier(&action.id, "the action's id", &path.key("id"), violations);
    required_enum::<v1::ActionKind>(action.kind, "the action's kind", &path.key("kind"), violations);
    optional_enum::<v1::Criticality>(action.criticality, &path.key("criticality"), violations);
    optional_enum::<v1::ExtractKind>(action.extract, &path.key("extract"), violations);
    optional_enum::<v1::WaitUntil>(action.wait_until, &path.key("wait_until"), violations);
    optional_enum::<v1::OnFailure>(action.on_failure, &path.key("on_failure"), violations);
    optional_enum::<v1::DialogAnswer>(action.dialogs, &path.key("dialogs"), violations);
    duration(action.timeout_ms, &path.key("timeout_ms"), violations);
    if let Some(output) = &action.output {
        identifier(output, "the output's name", &path.key("output"), violations);
    }
    if let Some(target) = &action.target {
        self::target(target, &path.key("target"), violations);
    }
    for (key, conditions) in
        [("conditions", &action.conditions), ("pre", &action.pre), ("post", &action.post)]
    {
        let path = &path.key(key);
        for (index, condition) in conditions.iter().enumerate() {
            self::condition(condition, 1, &path.index(index), violations);
        }
    }
    if let Some(retry) = &action.retry {
        let path = &path.key("retry");
        at_most(retry.limit, RETRIES_MAX, &path.key("limit"), violations);
        codes(&retry.on, &path.key("on"), violations);
    }
}

pub fn target(target: &v1::Target, path: &Path<'_>, violations: &mut Violations) {
    optional_enum::<v1::MatchMode>(target.r#match, &path.key("match"), violations);
    containers(target, 0, path, violations);
    let path = &path.key("frame");
    if target.frame.len() > FRAMES_MAX {
        let message = format!("{} frames; at most {FRAMES_MAX} lead to an element", target.frame.len());
        return violations.push(path, "limit", message);
    }
    for (index, frame) in target.frame.iter().enumerate() {
        let path = &path.index(index);
        optional_enum::<v1::MatchMode>(frame.r#match, &path.key("match"), violations);
        containers(frame, 0, path, violations);
        if !frame.frame.is_empty() {
            let message = "the frames that lead to an element are one list, the outermost first";
            violations.push(&path.key("frame"), "nested", message);
        }
    }
}

/// The containers of a target, one in the other. `depth` of the target itself is 0.
fn containers(target: &v1::Target, depth: usize, path: &Path<'_>, violations: &mut Violations) {
    let Some(container) = &target.within else { return };
    let path = &path.key("within");
    if depth == WITHIN_MAX {
        let message = format!("at most {WITHIN_MAX} containers, one in the other");
        return violations.push(path, "limit", message);
    }
    optional_enum::<v1::MatchMode>(container.r#match, &path.key("match"), violations);
    if !container.frame.is_empty() {
        let message = "a container is in the same frame as what is in it";
        violations.push(&path.key("frame"), "nested", message);
    }
    containers(container, depth + 1, path, violations);
}

/// `depth` of the outermost condition is 1.
fn condition(condition: &v1::Condition, depth: usize, path: &Path<'_>, violations: &mut Violations) {
    if depth > CONDITION_DEPTH_MAX {
        let message = format!("conditions are nested at most {CONDITION_DEPTH_MAX} levels deep");
        return violations.push(path, "depth", message);
    }
    required_enum::<v1::ConditionKind>(condition.kind, "the condition's kind", &path.key("kind"), violations);
    if let Some(target) = &condition.target {
        self::target(target, &path.key("target"), violations);
    }
    if let Some(inner) = &condition.condition {
        self::condition(inner, depth + 1, &path.key("condition"), violations);
    }
}

/// 1 to 128 letters, digits, `.`, `_`, `-`.
pub(super) fn identifier(text: &str, what: &str, path: &Path<'_>, violations: &mut Violations) {
    if text.is_empty() {
        violations.push(path, "required", format!("{what} is missing"));
    } else if text.chars().nth(NAME_MAX).is_some() {
        violations.push(path, "length", format!("{what} is longer than {NAME_MAX} characters"));
    } else if !is_task_name(text) {
        violations.push(path, "characters", format!("{what} has letters, digits, `.`, `_` and `-` only"));
    }
}

/// An enum without a default.
pub(super) fn required_enum<E: TryFrom<i32>>(
    value: i32,
    what: &str,
    path: &Path<'_>,
    violations: &mut Violations,
) {
    match value {
        0 => violations.push(path, "required", format!("{what} is missing")),
        number if E::try_from(number).is_err() => {
            violations.push(path, "enum", format!("there is no value {number}"));
        }
        _ => {}
    }
}

/// 0 to an hour. The path is that of the field of milliseconds.
pub(super) fn duration(value: Option<i64>, path: &Path<'_>, violations: &mut Violations) {
    if let Some(ms) = value
        && !(0..=DURATION_MAX_MS).contains(&ms)
    {
        violations.push(path, "range", format!("{ms} ms is not between 0 and {DURATION_MAX_MS} ms"));
    }
}

pub(super) fn at_most(value: Option<u32>, most: u32, path: &Path<'_>, violations: &mut Violations) {
    if let Some(number) = value.filter(|number| *number > most) {
        violations.push(path, "range", format!("{number} is more than {most}"));
    }
}

/// A list of codes. Which there are is not looked into.
pub(super) fn codes(codes: &[String], path: &Path<'_>, violations: &mut Violations) {
    if codes.len() > CODES_MAX {
        let message = format!("{} codes; at most {CODES_MAX} are allowed", codes.len());
        return violations.push(path, "limit", message);
    }
    for (index, code) in codes.iter().enumerate() {
        name(code, "the code", &path.index(index), violations);
    }
}
