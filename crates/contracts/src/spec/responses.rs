//! The rules of a response, alone and as the answer to a request.

use super::parts::{self, Checker};
use crate::path::{Path, shown};
use crate::v1;
use crate::violation::{Violation, Violations};

const FORMATS: &[&str] = &["text", "markdown", "html"];

/// Checks that the response answers the request: the same spec, the same id. Neither is checked otherwise.
///
/// # Errors
/// Rule `mismatch` at `spec` or `request_id`, or at both.
pub fn answers(response: &v1::SpecResponse, request: &v1::SpecRequest) -> Result<(), Vec<Violation>> {
    let mut violations = Violations::default();
    for (key, found, expected) in
        [("spec", &response.spec, &request.spec), ("request_id", &response.request_id, &request.id)]
    {
        if found != expected {
            let shown = |text: &Option<String>| shown(text.as_deref().unwrap_or_default());
            let message = format!("{:?} does not answer {:?}", shown(found), shown(expected));
            violations.push(&Path::Root.key(key), "mismatch", message);
        }
    }
    if violations.is_empty() { Ok(()) } else { Err(violations.into_vec()) }
}

pub fn check(response: &v1::SpecResponse, violations: &mut Violations) {
    parts::document(response.contract_version.as_ref(), violations, |at| {
        at.required("success", response.success.as_ref());
        at.required_id("spec", response.spec.as_ref());
        at.required_id("request_id", response.request_id.as_ref());
        at.required("timestamp", response.timestamp.as_ref());
        at.timestamp("timestamp", response.timestamp);
        outcome(response, at);
        if let Some(answer) = &response.response {
            at.within("response", |at| self::answer(answer, at));
        }
        at.required("metadata", response.metadata.as_ref());
        if let Some(metadata) = &response.metadata {
            at.within("metadata", |at| self::metadata(metadata, at));
        }
        if let Some(transition) = &response.transition {
            at.within("transition", |at| self::transition(transition, at));
        }
        if let Some(error) = &response.error {
            at.within("error", |at| self::error(error, at));
        }
        if let Some(update) = &response.context_update {
            at.within("context_update", |at| at.object("custom", update.custom.as_ref()));
        }
    });
}

/// `response` goes with success, `error` with its absence; without a word on success nothing follows.
fn outcome(response: &v1::SpecResponse, at: &mut Checker<'_>) {
    let Some(success) = response.success else { return };
    for (key, is_there, belongs) in
        [("response", response.response.is_some(), success), ("error", response.error.is_some(), !success)]
    {
        match (is_there, belongs) {
            (false, true) => {
                at.violation(key, "required", format!("`{key}` is missing where `success` is {success}"));
            }
            (true, false) => {
                at.violation(key, "unexpected", format!("`{key}` cannot be where `success` is {success}"));
            }
            (true, true) | (false, false) => {}
        }
    }
}

fn answer(answer: &v1::SpecAnswer, at: &mut Checker<'_>) {
    at.required("text", answer.text.as_ref());
    at.required("format", answer.format.as_ref());
    at.one_of("format", answer.format.as_ref(), FORMATS);
}

fn metadata(metadata: &v1::SpecResponseMetadata, at: &mut Checker<'_>) {
    at.required("processing_time_ms", metadata.processing_time_ms.as_ref());
    at.required_confidence("confidence", metadata.confidence);
}

fn transition(transition: &v1::SpecTransition, at: &mut Checker<'_>) {
    at.required_id("suggest_spec", transition.suggest_spec.as_ref());
    at.required("reason", transition.reason.as_ref());
    at.required_confidence("confidence", transition.confidence);
    at.required("auto_transition", transition.auto_transition.as_ref());
}

fn error(error: &v1::SpecError, at: &mut Checker<'_>) {
    at.required_id("code", error.code.as_ref());
    at.required("message", error.message.as_ref());
    at.required("recoverable", error.recoverable.as_ref());
    at.id("fallback_spec", error.fallback_spec.as_ref());
}
