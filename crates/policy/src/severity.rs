//! The severity of failures (seed 000, contract 6).

use std::fmt;
use std::sync::LazyLock;

use capataz_contracts::v1;
use regex::{RegexSet, RegexSetBuilder};
use serde::{Deserialize, Serialize};

use crate::codes;

/// The severity of an error. The order begins with the mildest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Severity {
    /// The error is only recorded.
    Low,
    /// The run continues by itself; the error is listed at the end.
    Medium,
    /// The run should stop; a person may let it continue.
    High,
    /// The run cannot continue.
    Critical,
}

/// Consequences of a severity for the run and for the person who watches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags {
    pub can_continue: bool,
    pub notify_immediately: bool,
    pub requires_user_action: bool,
    /// The first word of a display: ERROR, WARNING or INFO.
    pub icon: &'static str,
}

impl Severity {
    /// The severity of an unknown error, which counts as serious (seed 000, contract 6: fail-safe).
    pub const UNKNOWN: Self = Self::High;
    /// All severities, the mildest first.
    pub const ALL: [Self; 4] = [Self::Low, Self::Medium, Self::High, Self::Critical];

    /// The four flags of the severity.
    #[must_use]
    pub const fn flags(self) -> Flags {
        match self {
            Self::Critical => Flags {
                can_continue: false,
                notify_immediately: true,
                requires_user_action: true,
                icon: "ERROR",
            },
            Self::High => Flags {
                can_continue: true,
                notify_immediately: true,
                requires_user_action: true,
                icon: "ERROR",
            },
            Self::Medium => Flags {
                can_continue: true,
                notify_immediately: false,
                requires_user_action: false,
                icon: "WARNING",
            },
            Self::Low => Flags {
                can_continue: true,
                notify_immediately: false,
                requires_user_action: false,
                icon: "INFO",
            },
        }
    }

    /// The name in upper case.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Low => "LOW",
            Self::Medium => "MEDIUM",
            Self::High => "HIGH",
            Self::Critical => "CRITICAL",
        }
    }

    /// The severity as the contract's enum.
    #[must_use]
    pub const fn to_proto(self) -> v1::Severity {
        match self {
            Self::Low => v1::Severity::Low,
            Self::Medium => v1::Severity::Medium,
            Self::High => v1::Severity::High,
            Self::Critical => v1::Severity::Critical,
        }
    }

    /// The severity with the contract's number; `None` for the unspecified one and for numbers that it does not have.
    #[must_use]
    pub fn from_proto(number: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|severity| severity.to_proto() as i32 == number)
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl From<Severity> for v1::Severity {
    fn from(severity: Severity) -> Self {
        severity.to_proto()
    }
}

/// Patterns for messages. The first pattern that matches decides.
const PATTERNS: [(&str, Severity); 4] = [
    ("corrupt|invalid.*state|missing.*critical", Severity::Critical),
    ("test.*fail|build.*fail|timeout|exhausted", Severity::High),
    ("warning|deprecated|slow", Severity::Medium),
    ("info|success|hint", Severity::Low),
];

// A test compiles the constants; the fallback to an empty set is never reached.
static COMPILED: LazyLock<RegexSet> = LazyLock::new(|| {
    RegexSetBuilder::new(PATTERNS.map(|(pattern, _)| pattern))
        .case_insensitive(true)
        .build()
        .unwrap_or_else(|_| RegexSet::empty())
});

fn by_code(code: &str) -> Option<Severity> {
    codes::lookup(code).filter(|entry| entry.classifies).map(|entry| entry.severity)
}

fn by_message(message: &str) -> Option<Severity> {
    let first = COMPILED.matches(message).iter().next()?;
    PATTERNS.get(first).map(|(_, severity)| *severity)
}

/// The severity by the table of codes, else by the first pattern that matches the message; `None` if neither knows it.
#[must_use]
pub fn known(code: &str, message: &str) -> Option<Severity> {
    by_code(code).or_else(|| by_message(message))
}

/// The severity of a failed task: the one that the plan declares; else the one by code or pattern of the original
/// error, never of a wrapper such as RETRY_EXHAUSTED; else the one by the aggregator's rule (seed 000, contract 5).
#[must_use]
pub fn of_failed_task(
    declared: Option<Severity>,
    original_code: &str,
    message: &str,
    timed_out: bool,
    critical_agent: bool,
) -> Severity {
    declared
        .or_else(|| known(original_code, message))
        .unwrap_or_else(|| aggregators_rule(timed_out, critical_agent))
}

/// The severity of a failure without any further information (seed 000, contract 5).
#[must_use]
pub(crate) fn aggregators_rule(timed_out: bool, critical_agent: bool) -> Severity {
    match (timed_out, critical_agent) {
        (true, _) => Severity::High,
        (false, true) => Severity::Critical,
        (false, false) => Severity::Medium,
    }
}

/// Returns whether a failure with this code and message ends the run at once, under any policy. A critical agent alone
/// does not end the run: it acts only through `critical_path`.
#[must_use]
pub fn aborts_run(code: &str, message: &str) -> bool {
    known(code, message) == Some(Severity::Critical)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_compiles() {
        assert_eq!(COMPILED.len(), PATTERNS.len());
    }

    #[test]
    fn the_code_decides_before_the_message_and_the_first_pattern_before_later_ones() {
        #[track_caller]
        fn check(code: &str, message: &str, severity: Option<Severity>) {
            assert_eq!(known(code, message), severity, "{code}: {message}");
        }
        check("LINT_WARNINGS", "state corrupt", Some(Severity::Medium));
        check("E1", "The file is CORRUPT, see the hint", Some(Severity::Critical));
        check("E1", "Invalid session State", Some(Severity::Critical));
        check("E1", "missing a critical part", Some(Severity::Critical));
        check("E1", "2 tests failed with a warning", Some(Severity::High));
        check("E1", "timeout", Some(Severity::High));
        check("E1", "a slow disk", Some(Severity::Medium));
        check("E1", "hint: use fewer", Some(Severity::Low));
        check("E1", "exit code 1", None);
        check("NETWORK_ERROR", "slow network", Some(Severity::Medium));
        check("RESOURCE_NOT_FOUND", "no such page", None);
        check("lint_warnings", "", None);
        check("", "", None);
    }

    #[test]
    fn a_failed_task_has_its_declared_severity_then_its_codes_then_the_aggregators() {
        #[track_caller]
        fn check(
            declared: Option<Severity>,
            code: &str,
            timed_out: bool,
            critical: bool,
            expected: Severity,
        ) {
            assert_eq!(
                of_failed_task(declared, code, "exit code 1", timed_out, critical),
                expected,
                "{code}"
            );
        }
        check(Some(Severity::Low), "STATE_CORRUPTED", true, true, Severity::Low);
        check(None, "COVERAGE_LOW", true, true, Severity::Medium);
        check(None, "TASK_TIMEOUT", true, true, Severity::High);
        check(None, "E1", true, true, Severity::High);
        check(None, "E1", false, true, Severity::Critical);
        check(None, "E1", false, false, Severity::Medium);
    }

    #[test]
    fn only_a_failure_that_is_critical_by_itself_aborts_the_run() {
        assert!(aborts_run("STATE_CORRUPTED", ""));
        assert!(aborts_run("E1", "the index is corrupt"));
        assert!(!aborts_run("E1", "exit code 1"));
        assert!(!aborts_run("CRITICAL_AGENT_FAILED", "corrupt"));
        assert!(!aborts_run("COMMAND_NOT_FOUND", "exit code 127"));
    }

    #[test]
    fn names_and_contract_numbers_read_back() {
        for severity in Severity::ALL {
            assert_eq!(Severity::from_proto(severity.to_proto() as i32), Some(severity));
        }
        assert_eq!(Severity::from_proto(0), None);
        assert_eq!(Severity::from_proto(99), None);
    }
}
