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

/// The rule by which a failure has its severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The plan, or the error itself, declares it.
    Declared,
    /// The table of codes has it.
    Code,
    /// The message matches this pattern; `number` counts the patterns from 1, and the first that matches decides.
    Pattern { number: usize, pattern: &'static str },
    /// No rule knows the failure, so that it counts as serious.
    Unknown,
}

fn by_code(code: &str) -> Option<(Severity, Rule)> {
    codes::lookup(code).filter(|entry| entry.classifies).map(|entry| (entry.severity, Rule::Code))
}

fn by_message(message: &str) -> Option<(Severity, Rule)> {
    let first = COMPILED.matches(message).iter().next()?;
    let (pattern, severity) = PATTERNS.get(first)?;
    Some((*severity, Rule::Pattern { number: first + 1, pattern }))
}

/// The severity of a failure, and the rule that decides it: what is declared, else the table of codes, else the first
/// pattern that matches the message, else that it is unknown. A command that failed without a code of its own is known by
/// what it said last, so that its message goes before the daemon's code for it.
#[must_use]
pub fn decided(declared: Option<Severity>, code: &str, message: &str) -> (Severity, Rule) {
    let declared = declared.map(|severity| (severity, Rule::Declared));
    let by_words = || match code == codes::AGENT_COMMAND_FAILED.as_str() {
        true => by_message(message).or_else(|| by_code(code)),
        false => by_code(code).or_else(|| by_message(message)),
    };
    let known = declared.or_else(by_words);
    known.unwrap_or((Severity::UNKNOWN, Rule::Unknown))
}

/// The code of an error that is only a text: in upper case, with underscores; UNKNOWN_ERROR for nothing at all.
#[must_use]
pub fn code_of(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words.as_slice() {
        [] => codes::UNKNOWN_ERROR.into(),
        words => words.join("_").to_uppercase(),
    }
}

/// The severity by the table of codes, else by the first pattern that matches the message; `None` if neither knows it.
#[must_use]
pub fn known(code: &str, message: &str) -> Option<Severity> {
    match decided(None, code, message) {
        (_, Rule::Unknown) => None,
        (severity, _) => Some(severity),
    }
}

/// The severity of a failure, and whether any rule knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Classified {
    pub severity: Severity,
    /// False where nothing but the rule for unknown failures says so, which deserves a notice.
    pub is_known: bool,
}

/// The one severity of a failure (seed 000, contract 6): the declared one; else the one by the code or by the message of
/// the original error, never of a wrapper such as RETRY_EXHAUSTED; else HIGH. Whether its task is critical, or timed out,
/// does not matter.
#[must_use]
pub fn classify(declared: Option<Severity>, original_code: &str, message: &str) -> Classified {
    let (severity, rule) = decided(declared, original_code, message);
    Classified { severity, is_known: rule != Rule::Unknown }
}

/// Gives an error and every error within it the severity that it has by itself, where it declares none.
pub fn complete(error: &mut v1::Error) {
    let classified = classify(Severity::from_proto(error.severity), &error.code, &error.message);
    error.severity = classified.severity.to_proto().into();
    for inner in error.cause.as_deref_mut().into_iter().chain(&mut error.details) {
        complete(inner);
    }
}

/// The notice that no rule knows the severity of this failure (MEDIUM).
#[must_use]
pub fn unclassified(task: &str, error: &v1::Error) -> v1::Error {
    let code = if error.code.is_empty() { codes::UNKNOWN_ERROR.as_str() } else { &error.code };
    let message = format!("the failure {code} of task {task:?} has no known severity, and counts as HIGH");
    codes::error(codes::UNCLASSIFIED, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_compiles() {
        assert_eq!(COMPILED.len(), PATTERNS.len());
    }

    // S000-C6-06, S000-C6-07
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
        check("AGENT_COMMAND_FAILED", "exit code 3: the index is corrupt", Some(Severity::Critical));
        check("AGENT_COMMAND_FAILED", "exit code 3: 2 warnings", Some(Severity::Medium));
        check("AGENT_COMMAND_FAILED", "exit code 3: out of paper", Some(Severity::High));
        check("AGENT_COMMAND_NOT_STARTED", "a slow disk", Some(Severity::High));
    }

    // S000-C5-15, S000-C6-08
    #[test]
    fn a_failure_has_its_declared_severity_then_its_codes_then_its_messages_then_high() {
        #[track_caller]
        fn check(declared: Option<Severity>, code: &str, message: &str, severity: Severity, is_known: bool) {
            assert_eq!(classify(declared, code, message), Classified { severity, is_known }, "{code}");
        }
        check(Some(Severity::Low), "STATE_CORRUPTED", "corrupt", Severity::Low, true);
        check(Some(Severity::Critical), "E1", "exit code 1", Severity::Critical, true);
        check(None, "STATE_CORRUPTED", "exit code 1", Severity::Critical, true);
        check(None, "COVERAGE_LOW", "exit code 1", Severity::Medium, true);
        check(None, "TASK_TIMEOUT", "exit code 1", Severity::High, true);
        check(None, "E1", "the index is corrupt", Severity::Critical, true);
        check(None, "E1", "exit code 1", Severity::High, false);
        check(None, "COMMAND_NOT_FOUND", "exit code 127", Severity::High, false);
        check(None, "CRITICAL_AGENT_FAILED", "corrupt", Severity::High, true);
    }

    // S000-C6-09
    #[test]
    fn the_rule_that_decides_is_told() {
        #[track_caller]
        fn check(declared: Option<Severity>, code: &str, message: &str, expected: Rule) {
            assert_eq!(decided(declared, code, message).1, expected, "{code}: {message}");
        }
        let pattern = |number, pattern| Rule::Pattern { number, pattern };
        check(Some(Severity::Low), "STATE_CORRUPTED", "corrupt", Rule::Declared);
        check(None, "LINT_WARNINGS", "corrupt", Rule::Code);
        check(None, "E1", "a corrupt file", pattern(1, "corrupt|invalid.*state|missing.*critical"));
        check(None, "E1", "Build FAILED", pattern(2, "test.*fail|build.*fail|timeout|exhausted"));
        check(None, "E1", "deprecated", pattern(3, "warning|deprecated|slow"));
        check(None, "E1", "a hint", pattern(4, "info|success|hint"));
        check(None, "E1", "exit code 1", Rule::Unknown);
        // A name that the seed's list of severities does not have is no rule.
        check(None, "COMMAND_NOT_FOUND", "exit code 127", Rule::Unknown);
        let texts = ["lint warnings", "  Tests  failed ", "", "TIMEOUT"].map(code_of);
        assert_eq!(texts, ["LINT_WARNINGS", "TESTS_FAILED", "UNKNOWN_ERROR", "TIMEOUT"]);
    }

    // S000-C6-19, S000-C6-20
    #[test]
    fn the_severest_comes_first_and_is_the_highest_of_several() {
        let levels = ["CRITICAL", "HIGH", "MEDIUM", "LOW"];
        let mut sorted = Severity::ALL;
        sorted.sort_by(|one, other| other.cmp(one));
        assert_eq!(sorted.map(Severity::as_str), levels);
        let of = |code: &str, message: &str| classify(None, code, message).severity;
        let found = [of("LINT_WARNINGS", ""), of("BUILD_FAILED", ""), of("RETRY_SUCCESS", "")];
        assert_eq!(found.into_iter().max(), Some(Severity::High));
        assert_eq!(found.into_iter().chain([of("E1", "a corrupt file")]).max(), Some(Severity::Critical));
    }

    // S000-CL-07
    #[test]
    fn causes_and_details_have_severities_of_their_own() {
        let error = |code: &str| v1::Error { code: code.to_owned(), ..v1::Error::default() };
        let declared = v1::Error { severity: v1::Severity::Low.into(), ..error("STATE_CORRUPTED") };
        let mut outer = v1::Error {
            cause: Some(Box::new(v1::Error { details: vec![declared], ..error("LINT_WARNINGS") })),
            ..error("E1")
        };
        complete(&mut outer);
        let cause = outer.cause.as_deref().expect("a cause");
        let severities = [outer.severity(), cause.severity(), cause.details[0].severity()];
        assert_eq!(severities, [v1::Severity::High, v1::Severity::Medium, v1::Severity::Low]);
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
