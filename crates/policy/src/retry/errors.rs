//! The errors after an operation has failed for good, and the notice after a late success.

use std::time::Duration;

use capataz_contracts::v1;

use crate::codes::{self, Code, owned};
use crate::text;

/// The error that the last attempt failed too (HIGH). It wraps the last error.
#[must_use]
pub fn exhausted_error(last: &v1::Error, attempts: Vec<v1::AttemptRecord>, max_attempts: u32) -> v1::Error {
    let message = match max_attempts {
        1 => "the only attempt failed".to_owned(),
        _ => format!("all {max_attempts} attempts failed"),
    };
    v1::Error {
        options: owned(&["debug", "retry_manual", "skip", "abort"]),
        suggested_action: Some(suggested_action(&last.code).to_owned()),
        cause: Some(Box::new(last.clone())),
        attempts,
        ..codes::error(codes::RETRY_EXHAUSTED, message)
    }
}

/// The error of an attempt that another attempt would repeat (HIGH). It wraps the original error; `reason` is the rule
/// that applied.
#[must_use]
pub fn non_retryable_error(
    original: &v1::Error,
    attempts: Vec<v1::AttemptRecord>,
    reason: String,
) -> v1::Error {
    v1::Error {
        options: owned(&["fix_manual", "skip", "abort"]),
        reason: Some(reason),
        cause: Some(Box::new(original.clone())),
        attempts,
        ..codes::error(codes::NON_RETRYABLE_ERROR, format!("not retryable: {}", name(original)))
    }
}

/// The error that no time is left for another attempt (HIGH). It wraps the last error.
#[must_use]
pub fn total_timeout_exceeded_error(
    last: &v1::Error,
    attempts: Vec<v1::AttemptRecord>,
    total_timeout: Duration,
) -> v1::Error {
    let limit = text::duration(total_timeout);
    v1::Error {
        options: owned(&["debug", "retry_manual", "skip", "abort"]),
        suggested_action: Some(suggested_action(codes::TOTAL_TIMEOUT_EXCEEDED.as_str()).to_owned()),
        cause: Some(Box::new(last.clone())),
        attempts,
        ..codes::error(
            codes::TOTAL_TIMEOUT_EXCEEDED,
            format!("another attempt would begin after the total timeout of {limit}"),
        )
    }
}

/// The error that one attempt took longer than the policy allows (HIGH). It is retried like any failure with the code
/// TIMEOUT.
#[must_use]
pub fn attempt_timeout_error(timeout_per_attempt: Duration) -> v1::Error {
    let limit = text::duration(timeout_per_attempt);
    codes::error(codes::TIMEOUT, format!("the attempt exceeded its timeout of {limit}"))
}

/// The notice that a task succeeded after failed attempts (LOW).
#[must_use]
pub fn retry_success_notice(task: &str, failed_attempts: u32) -> v1::Error {
    let plural = if failed_attempts == 1 { "" } else { "s" };
    let message = format!("task {task:?} succeeded after {failed_attempts} failed attempt{plural}");
    codes::error(codes::RETRY_SUCCESS, message)
}

/// The error inside the engine's own verdicts; the error itself if it is not such a verdict.
#[must_use]
pub fn original(error: &v1::Error) -> &v1::Error {
    const WRAPPERS: &[Code] =
        &[codes::RETRY_EXHAUSTED, codes::NON_RETRYABLE_ERROR, codes::TOTAL_TIMEOUT_EXCEEDED];
    let mut innermost = error;
    let is_verdict = |error: &v1::Error| WRAPPERS.iter().any(|code| error.code == *code);
    while let Some(cause) = innermost.cause.as_deref().filter(|_| is_verdict(innermost)) {
        innermost = cause;
    }
    innermost
}

/// The suggestion for a failure with this code.
#[must_use]
pub fn suggested_action(code: &str) -> &'static str {
    if code.contains("TIMEOUT") {
        "extend the timeout or check system load"
    } else if code.contains("NETWORK") {
        "check the network connection and the service's availability"
    } else if code.contains("RATE_LIMIT") {
        "wait before retrying or reduce the request rate"
    } else {
        "investigate the root cause"
    }
}

fn name(error: &v1::Error) -> &str {
    if error.code.is_empty() { &error.message } else { &error.code }
}
