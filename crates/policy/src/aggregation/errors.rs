//! The errors and notices about a wave's results.

use capataz_contracts::v1;

use crate::codes;
use crate::text;

/// The error that too few tasks succeeded and the run ends (HIGH), with the evaluation that decided so.
#[must_use]
pub fn quorum_not_met(evaluation: &v1::Evaluation) -> v1::Error {
    let share = text::share(evaluation.successes, evaluation.total);
    let message = match evaluation.threshold {
        Some(threshold) => format!("quorum not met: {share}, needs {}", text::percent(threshold)),
        None => format!("quorum not met: {share}"),
    };
    v1::Error { can_continue: Some(false), ..codes::error(codes::QUORUM_NOT_MET, message) }
}

/// The error that a critical task failed and the run ends (HIGH).
#[must_use]
pub fn critical_agent_failed(task: &str) -> v1::Error {
    v1::Error {
        can_continue: Some(false),
        ..codes::error(codes::CRITICAL_AGENT_FAILED, format!("critical task {task:?} failed"))
    }
}

/// The notice that a task failed that is not critical, and the run goes on (MEDIUM).
#[must_use]
pub fn optional_agent_failed(task: &str) -> v1::Error {
    codes::error(codes::OPTIONAL_AGENT_FAILED, format!("task {task:?} failed; the run goes on without it"))
}

/// The notice that the run ended in spite of failures (MEDIUM).
#[must_use]
pub fn partial_success(successes: u32, total: u32) -> v1::Error {
    let share = text::share(successes, total);
    codes::error(codes::PARTIAL_SUCCESS, format!("the run ended with failures: {share} tasks succeeded"))
}
