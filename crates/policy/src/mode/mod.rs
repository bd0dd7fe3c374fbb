//! Rules of the execution modes (seed 004; CONTRACTS §5): their limits, and the contracts of their planners.

pub mod analytics;
pub mod browser;
pub mod contract;
pub mod risk;

use std::time::Duration;

use capataz_contracts::v1::{self, ExecutionMode};

use crate::codes::{self, Code};
use crate::retry;

/// Errors in a row after which `simple` ends, and `planner` makes its plan anew.
pub const MAX_ERRORS: u32 = 3;
/// The share of missed expectations above which a plan is made anew.
pub const MAX_DEVIATION: f64 = 0.4;
/// How often a plan is made anew before a person is asked.
pub const MAX_REPLANS: u32 = 10;
/// Actions of a run, where nobody says how many.
pub const MAX_ACTIONS: u32 = 50;
/// How far results may depart from an approved plan, where nobody says.
pub const AUTONOMY: f64 = 0.3;
/// How old an entry is at most that is recalled.
pub const MEMORY_WINDOW: Duration = Duration::from_secs(24 * 60 * 60);
/// Entries that are looked at for a prompt.
pub const MEMORY_ENTRIES: u32 = 10;
/// Tokens that the digest of an entry has at most.
pub const DIGEST_TOKENS: u32 = 40;

/// Tokens of memory in a prompt.
#[must_use]
pub fn memory_tokens(mode: ExecutionMode) -> u32 {
    match mode {
        ExecutionMode::Unspecified | ExecutionMode::Simple => 100,
        ExecutionMode::Planner => 200,
        ExecutionMode::Supervised => 300,
    }
}

/// The types of entries that are recalled in a mode (seed 004, `buildModeQuery`).
#[must_use]
pub fn recalled_types(mode: ExecutionMode) -> &'static [&'static str] {
    match mode {
        ExecutionMode::Unspecified | ExecutionMode::Simple => &["error", "solution"],
        ExecutionMode::Planner => &["success", "pattern"],
        ExecutionMode::Supervised => {
            &["tool_result", "error", "success", "plan", "user_feedback", "solution", "pattern"]
        }
    }
}

/// Whether the most relevant entries are recalled, rather than the newest (seed 004, `buildModeQuery`).
#[must_use]
pub fn recalls_by_relevance(mode: ExecutionMode) -> bool {
    mode == ExecutionMode::Planner
}

/// The share of results that miss what was expected; 0 where there are none.
#[must_use]
pub fn deviation(missed: usize, done: u32) -> f64 {
    if done == 0 {
        return 0.0;
    }
    let missed = u32::try_from(missed).unwrap_or(u32::MAX);
    f64::from(missed) / f64::from(done)
}

/// Codes of calls that no tool has ended: it was not reached, was not waited for, or nobody knows what it did.
const NOT_OF_TOOLS: &[Code] = &[
    codes::AGENT_ABSENT,
    codes::AGENT_COMMAND_NOT_STARTED,
    codes::AGENT_NOT_FOUND,
    codes::BROWSER_LOST,
    codes::BROWSER_NOT_FOUND,
    codes::CHILD_TOO_DEEP,
    codes::EVIDENCE_FAILED,
    codes::INPUT_TOO_LARGE,
    codes::INPUT_UNRESOLVED,
    codes::INVALID_OUTPUT,
    codes::OUTCOME_UNKNOWN,
    codes::OUTPUT_TOO_LARGE,
    codes::RUN_LIMIT_EXCEEDED,
    codes::SCHEDULE_TO_START_TIMEOUT,
    codes::TASK_CANCELLED,
    codes::TASK_TIMEOUT,
    codes::TIMEOUT,
    codes::TOOL_REJECTED,
    codes::TOTAL_TIMEOUT_EXCEEDED,
    codes::WORKER_LOST,
];

/// Whether a failure is the tool's own word. A step that is to fail is done by such a one alone.
#[must_use]
pub fn is_told_by_tool(error: &v1::Error) -> bool {
    let told = &retry::original(error).code;
    !NOT_OF_TOOLS.iter().any(|code| told == code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_daemon_ends_is_no_word_of_the_tool() {
        let of = |code: &str| v1::Error { code: code.to_owned(), ..v1::Error::default() };
        let exhausted =
            |cause: v1::Error| v1::Error { cause: Some(Box::new(cause)), ..of("RETRY_EXHAUSTED") };
        for code in ["FILE_NOT_FOUND", "AGENT_COMMAND_FAILED", "TARGET_NOT_FOUND", "a code of its own"] {
            assert!(is_told_by_tool(&of(code)) && is_told_by_tool(&exhausted(of(code))), "{code}");
        }
        for code in
            ["TASK_TIMEOUT", "TIMEOUT", "WORKER_LOST", "TASK_CANCELLED", "BROWSER_LOST", "OUTCOME_UNKNOWN"]
        {
            assert!(!is_told_by_tool(&of(code)) && !is_told_by_tool(&exhausted(of(code))), "{code}");
        }
    }

    #[test]
    fn two_of_five_are_no_reason_for_another_plan_and_three_of_seven_are() {
        assert!(deviation(2, 5) <= MAX_DEVIATION);
        assert!(deviation(3, 7) > MAX_DEVIATION);
        assert!(deviation(0, 0) <= 0.0);
    }

    #[test]
    fn a_prompt_has_as_many_tokens_of_memory_as_its_mode_allows() {
        let modes = [ExecutionMode::Simple, ExecutionMode::Planner, ExecutionMode::Supervised];
        assert_eq!(modes.map(memory_tokens), [100, 200, 300]);
    }
}
