//! The tables of the browser executor: what each error code says and proves, what each kind of action is by nature,
//! and the limits of a script that sets none (seed 002).
//!
//! The executor fills these tables' obligations, the engine decides by the same numbers, and tests compare errors with
//! them.

use std::time::Duration;

use capataz_contracts::v1::{ActionKind, ActionStage, Criticality, ExecutorSeverity};

use crate::severity::Severity;

/// One code of an `ExecutorError` (seed 002, sections 5 and 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExecutorCode {
    pub code: &'static str,
    /// The stage that usually finds it. An error names the stage in which it was really found.
    pub stage: ActionStage,
    pub severity: ExecutorSeverity,
    /// Keys that `details` has.
    pub details: &'static [&'static str],
    /// Phases that a failed condition may have; where there are any, the error lists at least one condition.
    pub phases: &'static [&'static str],
    /// Whether the error has the state after the action, whatever its stage.
    pub state_after: bool,
    /// Evidence beyond [`EVIDENCE_OF_ALL`] that the code asks for, whatever its stage.
    pub evidence: &'static [&'static str],
    /// Whether a script may have an action tried again after it.
    pub may_be_retried: bool,
}

/// The kinds of evidence (seed 002, section 3).
pub mod evidence {
    pub const DOM_SNAPSHOT: &str = "dom_snapshot_partial";
    pub const STATE_SIGNATURE: &str = "state_signature";
    pub const HTML: &str = "html_full";
    pub const SCREENSHOT_BEFORE: &str = "screenshot_before";
    pub const SCREENSHOT_AFTER: &str = "screenshot_after";
    /// What the action `screenshot` takes.
    pub const SCREENSHOT: &str = "screenshot";
    pub const DOWNLOAD: &str = "download";
}

use evidence::{DOM_SNAPSHOT, HTML, SCREENSHOT_AFTER, SCREENSHOT_BEFORE, STATE_SIGNATURE};

/// What every error carries (seed 002, section 3).
pub const EVIDENCE_OF_ALL: [&str; 2] = [DOM_SNAPSHOT, STATE_SIGNATURE];

const NONE: &[&str] = &[];
const PICTURE: &[&str] = &[SCREENSHOT_BEFORE];
const HTML_AND_PICTURE: &[&str] = &[HTML, SCREENSHOT_BEFORE];
const EVERYTHING: &[&str] = &[HTML, SCREENSHOT_BEFORE, SCREENSHOT_AFTER];

const fn entry(code: &'static str, stage: ActionStage, severity: ExecutorSeverity) -> ExecutorCode {
    ExecutorCode {
        code,
        stage,
        severity,
        details: NONE,
        phases: NONE,
        state_after: false,
        evidence: NONE,
        may_be_retried: true,
    }
}

macro_rules! codes {
    ($($code:ident: $stage:ident, $severity:ident, { $($field:ident: $value:expr),* };)*) => {
        /// All of them: the thirteen of the seed in its order, then our own.
        pub const EXECUTOR_CODES: &[ExecutorCode] = &[$(
            ExecutorCode {
                $($field: $value,)*
                ..entry(stringify!($code), ActionStage::$stage, ExecutorSeverity::$severity)
            },
        )*];

        /// The codes' names.
        pub mod code {
            $(pub const $code: &str = stringify!($code);)*
        }
    };
}

codes! {
    TARGET_NOT_FOUND: Precondition, Error, {
        details: &["target_resolution_order", "target", "count_observed"]
    };
    TARGET_NOT_UNIQUE: Precondition, Error, { details: &["count_observed", "matches_sample"] };
    INVALID_ACTIONSPEC: ProposalValidation, Error, {
        details: &["validation_errors", "violated_rules"], may_be_retried: false
    };
    PRECONDITION_FAILED: Precondition, Error, { phases: &["pre"] };
    POSTCONDITION_FAILED: Postcondition, Error, { phases: &["post", "assert"], state_after: true };
    POLICY_HALT: Policy, Error, {
        details: &["policy_reason", "policy_thresholds"], may_be_retried: false
    };
    DOMAIN_BLOCKED: Policy, Error, { details: &["host", "allowlist"] };
    ACTION_CRITICAL_BLOCKED: Policy, Critical, {
        details: &["critical_reason"], evidence: HTML_AND_PICTURE, may_be_retried: false
    };
    NAVIGATION_TIMEOUT: Execution, Error, { details: &["timeout_ms", "wait_condition"], evidence: PICTURE };
    UPLOAD_FAILED: Execution, Error, { details: &["file_ref", "upload_signal"], evidence: EVERYTHING };
    DOWNLOAD_FAILED: Execution, Error, { details: &["expected_download"], evidence: PICTURE };
    OVERLAY_BLOCKING: Precondition, Error, {
        details: &["overlay_selector", "overlay_text"], evidence: PICTURE
    };
    AUTH_FAILED: Postcondition, Error, { details: &["auth_signal"], evidence: HTML_AND_PICTURE };
    // A fresh browser is another state: only a person, or a new run, begins again.
    BROWSER_LOST: Execution, Critical, { details: &["reason"], may_be_retried: false };
    EVIDENCE_FAILED: Evidence, Critical, { details: &["original_code"], may_be_retried: false };
}

/// The entry of `code`.
#[must_use]
pub fn lookup(code: &str) -> Option<&'static ExecutorCode> {
    EXECUTOR_CODES.iter().find(|entry| entry.code == code)
}

impl ExecutorCode {
    /// The kinds of evidence that an error with this code carries (seed 002, sections 3 and 6).
    ///
    /// The code of a lost browser carries what was kept of the last good state, and that of failed evidence what could
    /// be kept: see [`Self::evidence_can_be_taken`].
    #[must_use]
    pub fn obligatory_evidence(&self, stage: ActionStage, criticality: Criticality) -> Vec<&'static str> {
        let sent =
            matches!(stage, ActionStage::Execution | ActionStage::Postcondition | ActionStage::Evidence);
        let critical = criticality == Criticality::Critical;
        let mut kinds = EVIDENCE_OF_ALL.to_vec();
        for kind in [HTML, SCREENSHOT_BEFORE, SCREENSHOT_AFTER] {
            // Before anything was sent there is no picture of what came after it.
            let by_rule = if kind == SCREENSHOT_AFTER { sent } else { sent || critical };
            let by_code = self.evidence.contains(&kind) && (kind != SCREENSHOT_AFTER || sent);
            if by_rule || by_code {
                kinds.push(kind);
            }
        }
        kinds
    }

    /// False where the page, or the place that keeps evidence, is what failed: then the error carries the evidence that
    /// there is.
    #[must_use]
    pub fn evidence_can_be_taken(&self) -> bool {
        !matches!(self.code, code::BROWSER_LOST | code::EVIDENCE_FAILED)
    }
}

/// The severity of the error contracts that an executor's stands for; `None` for the unspecified one.
#[must_use]
pub fn severity(severity: ExecutorSeverity) -> Option<Severity> {
    match severity {
        ExecutorSeverity::Unspecified => None,
        ExecutorSeverity::Warning => Some(Severity::Medium),
        ExecutorSeverity::Error => Some(Severity::High),
        ExecutorSeverity::Critical => Some(Severity::Critical),
    }
}

/// A time of the contract as the seed writes it (seed 002, section 2: `created_at`): ISO 8601, UTC, with milliseconds. What
/// no calendar has is the beginning of 1970.
#[must_use]
pub fn iso_time(unix_ms: i64) -> String {
    let time = jiff::Timestamp::from_millisecond(unix_ms).unwrap_or_default();
    format!("{time:.3}")
}

/// Whether a kind of action concerns one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Targeted {
    No,
    /// It may, and means something else without one.
    Optionally,
    /// Exactly one (rule U1).
    Always,
}

/// What a kind of action is by nature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KindTraits {
    /// As the DSL spells it.
    pub name: &'static str,
    pub target: Targeted,
    /// It is meant to change the page, or what is behind it. A picture is taken before it.
    pub changes: bool,
    /// It only reads, or does what may be done any number of times.
    pub repeatable: bool,
    pub criticality: Criticality,
    /// It loads a document, for which there is a longer time limit.
    pub navigates: bool,
}

/// The traits of `kind`; `None` for the unspecified one.
#[must_use]
pub fn kind_traits(kind: ActionKind) -> Option<KindTraits> {
    use Targeted::{Always, No, Optionally};
    let reads = |name, target| KindTraits {
        name,
        target,
        changes: false,
        repeatable: true,
        criticality: Criticality::Normal,
        navigates: false,
    };
    let changes = |name, target| KindTraits { changes: true, repeatable: false, ..reads(name, target) };
    let loads = |name, target| KindTraits { navigates: true, ..changes(name, target) };
    let commits = |name| KindTraits { criticality: Criticality::Critical, ..changes(name, Always) };
    Some(match kind {
        ActionKind::Unspecified => return None,
        ActionKind::Navigate => loads("navigate", No),
        ActionKind::Back => loads("back", No),
        ActionKind::Reload => loads("reload", No),
        ActionKind::Click => changes("click", Always),
        ActionKind::DoubleClick => changes("double_click", Always),
        ActionKind::Hover => reads("hover", Always),
        ActionKind::Fill => changes("fill", Always),
        ActionKind::Press => changes("press", Optionally),
        ActionKind::Select => changes("select", Always),
        ActionKind::Check => changes("check", Always),
        ActionKind::Uncheck => changes("uncheck", Always),
        ActionKind::Submit => commits("submit"),
        ActionKind::Upload => commits("upload"),
        ActionKind::Download => loads("download", Optionally),
        ActionKind::ScrollTo => reads("scroll_to", Always),
        ActionKind::WaitFor => reads("wait_for", No),
        ActionKind::Assert => reads("assert", No),
        ActionKind::Extract => reads("extract", Always),
        ActionKind::Screenshot => reads("screenshot", No),
    })
}

/// Actions of a script that may begin (CONTRACTS: the reading of seed 002, policies).
pub const MAX_STEPS: u32 = 100;
/// How often a state may be seen again.
pub const SAME_STATE_REVISIT: u32 = 3;
/// Retries of one action, beyond its first attempt.
pub const RETRY_LIMIT: u32 = 2;
/// Recoveries for one action.
pub const RECOVERY_LIMIT: u32 = 2;
/// The delay before the first retry; it is multiplied for each further one, up to the longest.
pub const BACKOFF_BASE: Duration = Duration::from_millis(500);
pub const BACKOFF_MULTIPLIER: f64 = 2.0;
pub const BACKOFF_LONGEST: Duration = Duration::from_secs(5);
/// Limit of what comes before an action's input, and again of what is waited for after it.
pub const ACTION_TIMEOUT: Duration = Duration::from_secs(10);
/// The same for what loads a document.
pub const NAVIGATION_TIMEOUT: Duration = Duration::from_secs(30);
/// An interactive session in which nobody proposes anything for so long is closed.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(5 * 60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_the_thirteen_codes_of_the_seed_in_its_order_and_two_of_ours() {
        let codes: Vec<&str> = EXECUTOR_CODES.iter().map(|entry| entry.code).collect();
        assert_eq!(
            codes,
            [
                "TARGET_NOT_FOUND",
                "TARGET_NOT_UNIQUE",
                "INVALID_ACTIONSPEC",
                "PRECONDITION_FAILED",
                "POSTCONDITION_FAILED",
                "POLICY_HALT",
                "DOMAIN_BLOCKED",
                "ACTION_CRITICAL_BLOCKED",
                "NAVIGATION_TIMEOUT",
                "UPLOAD_FAILED",
                "DOWNLOAD_FAILED",
                "OVERLAY_BLOCKING",
                "AUTH_FAILED",
                "BROWSER_LOST",
                "EVIDENCE_FAILED",
            ]
        );
    }

    #[test]
    fn every_code_is_as_severe_as_in_the_table_of_all_codes() {
        for entry in EXECUTOR_CODES {
            let code = crate::codes::lookup(entry.code).unwrap();
            assert_eq!(Some(code.severity), severity(entry.severity), "{}", entry.code);
        }
    }

    #[track_caller]
    fn check_evidence(code: &str, stage: ActionStage, criticality: Criticality, beyond: &[&str]) {
        let kinds = lookup(code).unwrap().obligatory_evidence(stage, criticality);
        let (of_all, rest) = kinds.split_at(EVIDENCE_OF_ALL.len());
        assert_eq!(of_all, EVIDENCE_OF_ALL);
        assert_eq!(rest, beyond, "{code}");
    }

    #[test]
    fn an_error_before_any_input_of_a_normal_action_needs_only_the_minimum() {
        for code in
            [code::TARGET_NOT_FOUND, code::TARGET_NOT_UNIQUE, code::PRECONDITION_FAILED, code::DOMAIN_BLOCKED]
        {
            check_evidence(code, lookup(code).unwrap().stage, Criticality::Normal, &[]);
        }
    }

    #[test]
    fn a_failure_of_execution_or_of_a_postcondition_has_the_html_and_both_pictures() {
        for stage in [ActionStage::Execution, ActionStage::Postcondition] {
            check_evidence(code::POSTCONDITION_FAILED, stage, Criticality::Normal, EVERYTHING);
        }
    }

    #[test]
    fn a_critical_action_has_the_html_and_a_picture_even_before_any_input() {
        check_evidence(
            code::TARGET_NOT_FOUND,
            ActionStage::Precondition,
            Criticality::Critical,
            HTML_AND_PICTURE,
        );
    }

    #[test]
    fn an_overlay_is_pictured_and_a_blocked_critical_action_has_its_html_too() {
        check_evidence(code::OVERLAY_BLOCKING, ActionStage::Precondition, Criticality::Normal, PICTURE);
        check_evidence(
            code::ACTION_CRITICAL_BLOCKED,
            ActionStage::Policy,
            Criticality::Normal,
            HTML_AND_PICTURE,
        );
    }

    #[test]
    fn submit_and_upload_are_critical_and_need_a_target() {
        for kind in (1..=19).map(|number| ActionKind::try_from(number).unwrap()) {
            let traits = kind_traits(kind).unwrap();
            let commits = matches!(kind, ActionKind::Submit | ActionKind::Upload);
            assert_eq!(traits.criticality == Criticality::Critical, commits, "{}", traits.name);
            assert!(!commits || traits.target == Targeted::Always);
        }
    }

    #[test]
    fn what_reads_may_be_repeated_and_what_changes_may_not() {
        for kind in (1..=19).map(|number| ActionKind::try_from(number).unwrap()) {
            let traits = kind_traits(kind).unwrap();
            assert_ne!(traits.changes, traits.repeatable, "{}", traits.name);
        }
        assert_eq!(kind_traits(ActionKind::Unspecified), None);
    }

    #[test]
    fn times_are_written_in_utc_with_milliseconds() {
        assert_eq!(iso_time(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(iso_time(1_700_000_000_120), "2023-11-14T22:13:20.120Z");
        assert_eq!(iso_time(i64::MAX), iso_time(0));
    }

    #[test]
    fn the_names_of_kinds_are_those_of_the_contract() {
        for kind in (1..=19).map(|number| ActionKind::try_from(number).unwrap()) {
            let expected = kind.as_str_name().trim_start_matches("ACTION_KIND_").to_ascii_lowercase();
            assert_eq!(kind_traits(kind).unwrap().name, expected);
        }
    }
}
