//! What an `ExecutorError` has to have, whoever made it: the fields of seed 002, section 2, and what sections 3, 5 and 6
//! oblige its code to.

use capataz_contracts::v1::{self, ActionStage, Criticality, ExecutorSeverity, OnFailure};
use capataz_contracts::{Violation, validate};
use serde_json::Value;

use crate::executor::{EVIDENCE_OF_ALL, ExecutorCode, code, lookup};

/// Everything that breaks the contract in an error: first what is wrong with its fields, then what its code asks for and it
/// lacks. Empty for a whole one.
#[must_use]
pub fn violations(error: &v1::ExecutorError) -> Vec<Violation> {
    let mut violations = validate::executor_error(error);
    let Some(rules) = lookup(&error.error_code) else {
        if !error.error_code.is_empty() {
            let message = format!("`{}` is no code of an action", error.error_code);
            violations.push(Violation::new("error_code", "code", message));
        }
        return violations;
    };
    violations.extend(severity(rules, error));
    violations.extend(details(rules, error));
    violations.extend(conditions(rules, error));
    violations.extend(evidence(rules, error));
    violations
}

/// One severity for each code; that of a warning where the script goes on.
fn severity(rules: &ExecutorCode, error: &v1::ExecutorError) -> Option<Violation> {
    let is_critical = error.criticality() == Criticality::Critical;
    let goes_on = error.action_spec.as_ref().is_some_and(|action| action.on_failure() == OnFailure::Continue);
    let expected = match rules.severity {
        ExecutorSeverity::Error if goes_on && !is_critical && rules.code != code::POLICY_HALT => {
            ExecutorSeverity::Warning
        }
        severity => severity,
    };
    // One that is none at all is told with the fields.
    let differs = error.severity() != expected && error.severity() != ExecutorSeverity::Unspecified;
    differs.then(|| {
        let word = expected.as_str_name().trim_start_matches("EXECUTOR_SEVERITY_").to_ascii_lowercase();
        Violation::new("severity", "severity", format!("the severity of {} is `{word}` here", rules.code))
    })
}

/// What section 6 obliges the details to.
fn details(rules: &ExecutorCode, error: &v1::ExecutorError) -> Vec<Violation> {
    let details: Value = error
        .details
        .as_deref()
        .and_then(|details| serde_json::from_str(details).ok())
        .unwrap_or(Value::Null);
    let missing = rules.details.iter().filter(|key| details.get(**key).is_none());
    let mut broken: Vec<Violation> = missing
        .map(|key| {
            let message = format!("{} needs details.{key}", rules.code);
            Violation::new(format!("details.{key}"), "required", message)
        })
        .collect();
    let mut check = |key: &str, holds: fn(&Value) -> bool, message: &str| {
        if details.get(key).is_some_and(|value| !holds(value)) {
            broken.push(Violation::new(format!("details.{key}"), "value", message));
        }
    };
    match rules.code {
        code::TARGET_NOT_FOUND => {
            check("count_observed", |count| count.as_u64() == Some(0), "nothing was found: 0");
        }
        code::TARGET_NOT_UNIQUE => {
            let counts = |count: &Value| count.as_u64().is_some_and(|count| count != 1);
            check("count_observed", counts, "a number other than 1");
        }
        code::INVALID_ACTIONSPEC => {
            check("validation_errors", Value::is_array, "a list");
            check("violated_rules", Value::is_array, "a list");
        }
        code::POLICY_HALT => {
            let is_word = |reason: &Value| reason.as_str().is_some_and(|reason| !reason.is_empty());
            check("policy_reason", is_word, "a word that stays the same");
            check("policy_thresholds", Value::is_object, "an object");
        }
        code::DOWNLOAD_FAILED => check("expected_download", Value::is_boolean, "true or false"),
        _ => {}
    }
    broken
}

/// Conditions that have failed, where the code is about them.
fn conditions(rules: &ExecutorCode, error: &v1::ExecutorError) -> Vec<Violation> {
    if rules.phases.is_empty() {
        return Vec::new();
    }
    let phases = rules.phases.join("` or `");
    if error.failed_conditions.is_empty() {
        let message = format!("{} lists conditions of phase `{phases}`", rules.code);
        return vec![Violation::new("failed_conditions", "required", message)];
    }
    let conditions = error.failed_conditions.iter().enumerate();
    let others = conditions.filter(|(_, condition)| !rules.phases.contains(&condition.phase.as_str()));
    others
        .map(|(index, _)| {
            let message = format!("the phase of {} is `{phases}`", rules.code);
            Violation::new(format!("failed_conditions[{index}].phase"), "phase", message)
        })
        .collect()
}

/// The states and the evidence of sections 3 and 6.
fn evidence(rules: &ExecutorCode, error: &v1::ExecutorError) -> Vec<Violation> {
    let mut broken = Vec::new();
    if rules.state_after && error.state_after.is_none() {
        let message = format!("{} needs the state after the action", rules.code);
        broken.push(Violation::new("state_after", "required", message));
    }
    let kinds = match rules.code {
        // The store for evidence is what failed.
        code::EVIDENCE_FAILED => Vec::new(),
        // The page is gone: there is what was seen last.
        code::BROWSER_LOST => EVIDENCE_OF_ALL.to_vec(),
        _ => {
            let pictured = error.state_before.as_ref().is_none_or(|state| !state.screenshot_hash.is_empty());
            if !pictured {
                let message = "the state before has the hash of a picture";
                broken.push(Violation::new("state_before.screenshot_hash", "required", message));
            }
            let stage = ActionStage::try_from(error.stage).unwrap_or_default();
            rules.obligatory_evidence(stage, error.criticality())
        }
    };
    for kind in kinds {
        if !error.evidence_refs.iter().any(|piece| piece.kind == kind) {
            let message = format!("{} has evidence of kind `{kind}` here", rules.code);
            broken.push(Violation::new("evidence_refs", "evidence", message));
        }
    }
    broken
}
