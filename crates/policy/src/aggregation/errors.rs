//! What a wave's results are reported as.

use capataz_contracts::v1;

use crate::codes;
use crate::text;

/// Too few tasks succeeded, and the run ends (HIGH). The evaluation is the one that says so.
#[must_use]
pub fn quorum_not_met(evaluation: &v1::Evaluation) -> v1::Error {
    let share = text::share(evaluation.successes, evaluation.total);
    let message = match evaluation.threshold {
        Some(threshold) => format!("quorum not met: {share}, needs {}", text::percent(threshold)),
        None => format!("quorum not met: {share}"),
    };
    v1::Error { can_continue: Some(false), ..codes::error(codes::QUORUM_NOT_MET, message) }
}

/// A task that is marked critical failed, and the run ends (HIGH).
#[must_use]
pub fn critical_agent_failed(task: &str) -> v1::Error {
    v1::Error {
        can_continue: Some(false),
        ..codes::error(codes::CRITICAL_AGENT_FAILED, format!("critical task {task:?} failed"))
    }
}

/// A task that is not marked critical failed, and the run goes on (MEDIUM).
#[must_use]
pub fn optional_agent_failed(task: &str) -> v1::Error {
    codes::error(codes::OPTIONAL_AGENT_FAILED, format!("task {task:?} failed; the run goes on without it"))
}

/// The run came to its end in spite of failures (MEDIUM).
#[must_use]
pub fn partial_success(successes: u32, total: u32) -> v1::Error {
    let share = text::share(successes, total);
    codes::error(codes::PARTIAL_SUCCESS, format!("the run ended with failures: {share} tasks succeeded"))
}
