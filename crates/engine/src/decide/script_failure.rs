//! Failures of a script that the engine decides: a limit is reached, or an activity has ended of which the browser's host
//! said nothing. What the page was like only the host can show, so it makes the error of them, with its evidence.

use capataz_contracts::v1;
use capataz_policy::executor as limits;
use serde_json::{Value, json};

use super::turn::Turn;
use crate::activity::End;
use crate::script::{ScriptState, changes_something, milliseconds};

/// The limits that stop a script before another action begins (CONTRACTS §3, policies).
pub(super) fn halt_before(turn: &Turn<'_>, step: u32) -> Option<v1::DecidedFailure> {
    let script = turn.state.script.as_ref()?;
    // They were looked at when the action began for the first time.
    if script.has_begun(step) {
        return None;
    }
    let policy = script.policy();
    let max_steps = policy.max_steps.unwrap_or(limits::MAX_STEPS);
    if step >= max_steps {
        return Some(halt(script, "max_steps", step));
    }
    let revisits = script.revisits();
    let changes = script.action(step).is_some_and(changes_something);
    if changes && revisits > policy.same_state_revisit.unwrap_or(limits::SAME_STATE_REVISIT) {
        return Some(halt(script, "same_state_revisit", revisits));
    }
    None
}

fn halt(script: &ScriptState, reason: &str, observed: u32) -> v1::DecidedFailure {
    v1::DecidedFailure {
        error_code: limits::code::POLICY_HALT.to_owned(),
        message: format!("{reason}: {observed}"),
        details: Some(halt_details(script, reason, observed, None).to_string()),
    }
}

/// The error of a limit that is reached with `cause`, whose state and evidence are its own too.
pub(super) fn halt_after(
    turn: &Turn<'_>,
    script: &ScriptState,
    reason: &str,
    observed: u32,
    cause: &v1::ExecutorError,
) -> v1::ExecutorError {
    let severity = limits::lookup(limits::code::POLICY_HALT)
        .map_or(v1::ExecutorSeverity::Critical, |code| code.severity);
    v1::ExecutorError {
        error_code: limits::code::POLICY_HALT.to_owned(),
        stage: v1::ActionStage::Policy as i32,
        severity: severity as i32,
        message: format!("{reason}: {observed}"),
        retryable: Some(false),
        created_at: limits::iso_time(turn.now.0),
        details: Some(halt_details(script, reason, observed, Some(&cause.error_code)).to_string()),
        cause: Some(format!("{}: {}", cause.error_code, cause.message)),
        debug_message: None,
        failed_conditions: Vec::new(),
        ..cause.clone()
    }
}

fn halt_details(script: &ScriptState, reason: &str, observed: u32, last_error: Option<&str>) -> Value {
    let policy = script.policy();
    let backoff = policy.backoff.unwrap_or_default();
    json!({
        "policy_reason": reason,
        "policy_thresholds": {
            "max_steps": policy.max_steps.unwrap_or(limits::MAX_STEPS),
            "same_state_revisit": policy.same_state_revisit.unwrap_or(limits::SAME_STATE_REVISIT),
            "retry_limit": policy.retry_limit.unwrap_or(limits::RETRY_LIMIT),
            "recovery_limit": policy.recovery_limit.unwrap_or(limits::RECOVERY_LIMIT),
            "backoff": {
                "base_delay_ms": backoff.base_delay_ms.unwrap_or(milliseconds(limits::BACKOFF_BASE)),
                "multiplier": backoff.multiplier.unwrap_or(limits::BACKOFF_MULTIPLIER),
                "max_delay_ms": backoff.max_delay_ms.unwrap_or(milliseconds(limits::BACKOFF_LONGEST)),
            },
        },
        "observed": observed,
        "last_error": last_error,
    })
}

/// What an activity fails with that has ended without a word of the host: nobody knows what became of it.
pub(super) fn unexplained(end: &End) -> v1::DecidedFailure {
    let (code, message) =
        end.error.as_ref().map_or_else(Default::default, |error| (error.code.clone(), error.message.clone()));
    let reason = format!("nobody knows what became of it: {message}");
    let details = json!({"reason": reason, "original_code": code});
    v1::DecidedFailure {
        error_code: limits::code::BROWSER_LOST.to_owned(),
        message: reason,
        details: Some(details.to_string()),
    }
}

/// Gives an error of opening or closing the browser what it has to name (seed 002, section 2), for no action of the
/// script was being performed. The colon keeps its id apart from those of actions.
pub(super) fn name_activity(
    error: &mut v1::ExecutorError,
    activity: v1::BrowserActivity,
    id: String,
    actions: usize,
) {
    let last = u32::try_from(actions).unwrap_or(u32::MAX).saturating_sub(1);
    error.step_index = Some(if activity == v1::BrowserActivity::Close { last } else { 0 });
    error.action_id.clone_from(&id);
    error.action_kind = v1::ActionKind::Navigate as i32;
    error.criticality = v1::Criticality::Normal as i32;
    error.action_spec = Some(v1::Action {
        id,
        kind: v1::ActionKind::Navigate as i32,
        url: Some(EMPTY_PAGE.to_owned()),
        criticality: Some(v1::Criticality::Normal as i32),
        ..v1::Action::default()
    });
}

/// What a browser shows before the first action, and when nothing of it is left.
const EMPTY_PAGE: &str = "about:blank";
