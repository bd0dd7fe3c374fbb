//! Failures of a script that the engine decides: a limit is reached, or an activity has ended of which the browser's host
//! said nothing. What the page was like only the host can show, so it makes the error of them, with its evidence.

use capataz_contracts::v1;
use capataz_policy::executor as codes;
use serde_json::{Value, json};

use super::limits::Limits;
use super::state::ScriptState;
use crate::fold::activity::End;
use crate::fold::state::Moment;
use crate::machine::host_error;

/// The limits that stop a script before another action begins (CONTRACTS §3, policies). `changes`: the action is meant
/// to change the page, or what is behind it.
pub(super) fn halt_before(script: &ScriptState, step: u32, changes: bool) -> Option<v1::DecidedFailure> {
    // The limits were checked when the action began for the first time.
    if script.has_begun(step) {
        return None;
    }
    let limits = Limits::of(script);
    if step >= limits.max_steps() {
        return Some(halt(script, step, "max_steps", step));
    }
    let revisits = script.revisits();
    if changes && revisits > limits.same_state_revisit() {
        return Some(halt(script, step, "same_state_revisit", revisits));
    }
    None
}

fn halt(script: &ScriptState, step: u32, reason: &str, observed: u32) -> v1::DecidedFailure {
    v1::DecidedFailure {
        error_code: codes::code::POLICY_HALT.to_owned(),
        message: format!("{reason}: {observed}"),
        details: Some(halt_details(script, step, reason, observed, None).to_string()),
    }
}

/// The error of a limit that is reached with `cause`, whose state and evidence are its own too.
pub(super) fn halt_after(
    script: &ScriptState,
    reason: &str,
    observed: u32,
    cause: &v1::ExecutorError,
    now: Moment,
) -> v1::ExecutorError {
    let severity =
        codes::lookup(codes::code::POLICY_HALT).map_or(v1::ExecutorSeverity::Critical, |code| code.severity);
    v1::ExecutorError {
        error_code: codes::code::POLICY_HALT.to_owned(),
        stage: v1::ActionStage::Policy.into(),
        severity: severity.into(),
        message: format!("{reason}: {observed}"),
        retryable: Some(false),
        created_at: codes::iso_time(now.wall.0),
        details: Some(
            halt_details(
                script,
                cause.step_index.unwrap_or_default(),
                reason,
                observed,
                Some(&cause.error_code),
            )
            .to_string(),
        ),
        cause: Some(format!("{}: {}", cause.error_code, cause.message)),
        debug_message: cause.debug_message.as_ref().map(|debug| format!("the last attempt: {debug}")),
        failed_conditions: Vec::new(),
        ..cause.clone()
    }
}

/// The limits in force for the action of this step, which may have a limit of retries of its own.
fn halt_details(
    script: &ScriptState,
    step: u32,
    reason: &str,
    observed: u32,
    last_error: Option<&str>,
) -> Value {
    let limits = Limits::of(script);
    let retry_limit =
        script.action(step).map_or_else(|| limits.retry_limit(), |action| limits.retry_limit_of(action));
    json!({
        "policy_reason": reason,
        "policy_thresholds": {
            "max_steps": limits.max_steps(),
            "same_state_revisit": limits.same_state_revisit(),
            "retry_limit": retry_limit,
            "recovery_limit": limits.recovery_limit(),
            "backoff": {
                "base_delay_ms": limits.backoff_base(),
                "multiplier": limits.backoff_multiplier(),
                "max_delay_ms": limits.backoff_longest(),
            },
        },
        "observed": observed,
        "last_error": last_error,
    })
}

/// The error of an activity that has ended without a report of the host, so that its outcome is unknown.
pub(super) fn unexplained(end: &End) -> v1::DecidedFailure {
    let (code, message) =
        end.error.as_ref().map_or_else(Default::default, |error| (error.code.clone(), error.message.clone()));
    let reason = format!("nobody knows what became of it: {message}");
    let details = json!({"reason": reason, "original_code": code});
    v1::DecidedFailure {
        error_code: codes::code::BROWSER_LOST.to_owned(),
        message: reason,
        details: Some(details.to_string()),
    }
}

/// Gives an error of opening or closing the browser what it has to name (seed 002, section 2), for no action of the
/// script was being performed.
pub(super) fn name_activity(
    error: &mut v1::ExecutorError,
    activity: v1::BrowserActivity,
    id: String,
    actions: usize,
) {
    let last = u32::try_from(actions).unwrap_or(u32::MAX).saturating_sub(1);
    error.step_index = Some(if activity == v1::BrowserActivity::Close { last } else { 0 });
    host_error::name_no_action(error, id);
}
