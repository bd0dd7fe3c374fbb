//! The error that a browser action ends with.

use serde_json::Value;

use super::name;
use super::payload::{NO_HASH, is_hash};
use super::script::required_enum;
use crate::path::Path;
use crate::v1;
use crate::violation::{Violation, Violations};

/// The version of the error contract (seed 002).
const SCHEMA_VERSION: &str = "v1";

/// The kind of evidence that holds its text itself.
const INLINE: &str = "inline";
const INLINE_BYTES_MAX: usize = 8 * 1024;

/// Checks that an error has every obligatory field of seed 002, section 2, in the shape that it has there. What its code
/// asks for besides, the policies know.
pub fn executor_error(error: &v1::ExecutorError) -> Vec<Violation> {
    let mut violations = Violations::default();
    let root = &Path::Root;
    if error.schema_version != SCHEMA_VERSION {
        violations.push(&root.key("schema_version"), "version", "the version is `v1`");
    }
    for (key, text) in [
        ("error_code", &error.error_code),
        ("message", &error.message),
        ("run_id", &error.run_id),
        ("action_id", &error.action_id),
        ("created_at", &error.created_at),
    ] {
        if text.is_empty() {
            missing(key, &mut violations);
        }
    }
    for (key, is_there) in [
        ("retryable", error.retryable.is_some()),
        ("seq", error.seq > 0),
        ("step_index", error.step_index.is_some()),
        ("evidence_refs", !error.evidence_refs.is_empty()),
        ("action_spec", error.action_spec.is_some()),
    ] {
        if !is_there {
            missing(key, &mut violations);
        }
    }
    required_enum::<v1::ActionStage>(error.stage, "the stage", &root.key("stage"), &mut violations);
    required_enum::<v1::ExecutorSeverity>(
        error.severity,
        "the severity",
        &root.key("severity"),
        &mut violations,
    );
    required_enum::<v1::ActionKind>(
        error.action_kind,
        "the action's kind",
        &root.key("action_kind"),
        &mut violations,
    );
    required_enum::<v1::Criticality>(
        error.criticality,
        "the criticality",
        &root.key("criticality"),
        &mut violations,
    );
    match &error.state_before {
        None => missing("state_before", &mut violations),
        Some(state) => signature(state, &root.key("state_before"), &mut violations),
    }
    if let Some(state) = &error.state_after {
        signature(state, &root.key("state_after"), &mut violations);
    }
    let path = &root.key("evidence_refs");
    for (index, evidence) in error.evidence_refs.iter().enumerate() {
        let path = &path.index(index);
        hash(&evidence.id, &path.key("id"), &mut violations);
        name(&evidence.kind, "the kind", &path.key("kind"), &mut violations);
        name(&evidence.media_type, "the media type", &path.key("media_type"), &mut violations);
        match &evidence.inline {
            Some(_) if evidence.kind != INLINE => {
                violations.push(&path.key("inline"), "inline", "only evidence of kind `inline` has a text");
            }
            Some(text) if text.len() > INLINE_BYTES_MAX => {
                let message = format!("{} bytes; at most {INLINE_BYTES_MAX} are allowed", text.len());
                violations.push(&path.key("inline"), "length", message);
            }
            None if evidence.kind == INLINE => {
                violations.push(&path.key("inline"), "required", "evidence of kind `inline` has a text");
            }
            Some(_) | None => {}
        }
    }
    object(error.details.as_deref(), &root.key("details"), &mut violations);
    let path = &root.key("failed_conditions");
    for (index, condition) in error.failed_conditions.iter().enumerate() {
        let path = &path.index(index);
        name(&condition.kind, "the kind", &path.key("kind"), &mut violations);
        object(condition.args.as_deref(), &path.key("args"), &mut violations);
        if !matches!(condition.phase.as_str(), "pre" | "post" | "assert") {
            violations.push(&path.key("phase"), "enum", "a phase is `pre`, `post` or `assert`");
        }
    }
    violations.into_vec()
}

fn missing(key: &str, violations: &mut Violations) {
    violations.push(&Path::Root.key(key), "required", format!("{key} is missing"));
}

fn signature(state: &v1::StateSignature, path: &Path<'_>, violations: &mut Violations) {
    if state.schema_version != SCHEMA_VERSION {
        violations.push(&path.key("schema_version"), "version", "the version is `v1`");
    }
    for (key, digits) in [
        ("dom_hash", &state.dom_hash),
        ("anchors_hash", &state.anchors_hash),
        ("inputs_hash", &state.inputs_hash),
    ] {
        hash(digits, &path.key(key), violations);
    }
    // A page whose browser is gone has no picture any more.
    if !state.screenshot_hash.is_empty() {
        hash(&state.screenshot_hash, &path.key("screenshot_hash"), violations);
    }
}

fn hash(digits: &str, path: &Path<'_>, violations: &mut Violations) {
    if !is_hash(digits) {
        violations.push(path, "hash", NO_HASH);
    }
}

fn object(text: Option<&str>, path: &Path<'_>, violations: &mut Violations) {
    if let Some(text) = text
        && !matches!(serde_json::from_str(text), Ok(Value::Object(_)))
    {
        violations.push(path, "type", "not a JSON object");
    }
}
