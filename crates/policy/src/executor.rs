//! The tables of the browser executor: the meaning and the evidence of each error code, the nature of each kind of
//! action, and the default limits of scripts (seed 002).
//!
//! The executor fulfils these tables, the engine decides by the same numbers, and tests compare errors with them.

use std::time::Duration;

use capataz_contracts::v1::{ActionKind, ActionStage, Criticality, ExecutorSeverity};

use crate::severity::Severity;

/// One code of an `ExecutorError` (seed 002, sections 5 and 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExecutorCode {
    pub code: &'static str,
    /// The stage that usually finds the error. An error names the stage that really found it.
    pub stage: ActionStage,
    pub severity: ExecutorSeverity,
    /// The keys that `details` always has.
    pub details: &'static [&'static str],
    /// The phases that a failed condition may have. If there are any, the error lists at least one condition.
    pub phases: &'static [&'static str],
    /// True when the error contains the state after the action, whatever its stage.
    pub state_after: bool,
    /// The evidence that the code requires beyond [`EVIDENCE_OF_ALL`], whatever its stage.
    pub evidence: &'static [&'static str],
    /// True when a script may retry an action that failed with this code.
    pub may_be_retried: bool,
}

/// The kinds of evidence (seed 002, section 3).
pub mod evidence {
    pub const DOM_SNAPSHOT: &str = "dom_snapshot_partial";
    pub const STATE_SIGNATURE: &str = "state_signature";
    pub const HTML: &str = "html_full";
    pub const SCREENSHOT_BEFORE: &str = "screenshot_before";
    pub const SCREENSHOT_AFTER: &str = "screenshot_after";
    /// The picture that the action `screenshot` takes.
    pub const SCREENSHOT: &str = "screenshot";
    pub const DOWNLOAD: &str = "download";
    /// The lines of the page's console, and its requests that have failed.
    pub const PAGE_LOG: &str = "page_log";
    /// A reference that holds its text itself: no blob has it.
    pub const INLINE: &str = "inline";
}

use evidence::{DOM_SNAPSHOT, HTML, SCREENSHOT_AFTER, SCREENSHOT_BEFORE, STATE_SIGNATURE};

/// The evidence that every error carries (seed 002, section 3).
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
        /// All codes: the thirteen of the seed in its order, then the project's own.
        pub const EXECUTOR_CODES: &[ExecutorCode] = &[$(
            ExecutorCode {
                $($field: $value,)*
                ..entry(stringify!($code), ActionStage::$stage, ExecutorSeverity::$severity)
            },
        )*];

        /// The names of the codes.
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
    // What was waited for is told where anything was.
    NAVIGATION_TIMEOUT: Execution, Error, { details: &["timeout_ms"], evidence: PICTURE };
    UPLOAD_FAILED: Execution, Error, { details: &["file_ref", "upload_signal"], evidence: EVERYTHING };
    DOWNLOAD_FAILED: Execution, Error, { details: &["expected_download"], evidence: PICTURE };
    // What lies there is told where that is known.
    OVERLAY_BLOCKING: Precondition, Error, { evidence: PICTURE };
    AUTH_FAILED: Postcondition, Error, { details: &["auth_signal"], evidence: HTML_AND_PICTURE };
    NAVIGATION_FAILED: Execution, Error, { details: &["net_error", "url"], evidence: PICTURE };
    // A fresh browser has another state: only a person or a new run can begin again.
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
    /// An error about a lost browser carries what was kept of the last good state. An error about failed evidence
    /// carries the evidence that could be kept: see [`Self::evidence_can_be_taken`].
    #[must_use]
    pub fn obligatory_evidence(&self, stage: ActionStage, criticality: Criticality) -> Vec<&'static str> {
        let sent =
            matches!(stage, ActionStage::Execution | ActionStage::Postcondition | ActionStage::Evidence);
        let critical = criticality == Criticality::Critical;
        let mut kinds = EVIDENCE_OF_ALL.to_vec();
        for kind in [HTML, SCREENSHOT_BEFORE, SCREENSHOT_AFTER] {
            // Where no input was sent, the second picture is that of the failure.
            if sent || critical || self.evidence.contains(&kind) {
                kinds.push(kind);
            }
        }
        kinds
    }

    /// False when the page, or the store for evidence, is what failed. Such an error carries whatever evidence exists.
    #[must_use]
    pub fn evidence_can_be_taken(&self) -> bool {
        !matches!(self.code, code::BROWSER_LOST | code::EVIDENCE_FAILED)
    }
}

/// The severity of the error contracts that corresponds to an executor's; `None` for the unspecified one.
#[must_use]
pub fn severity(severity: ExecutorSeverity) -> Option<Severity> {
    match severity {
        ExecutorSeverity::Unspecified => None,
        ExecutorSeverity::Warning => Some(Severity::Medium),
        ExecutorSeverity::Error => Some(Severity::High),
        ExecutorSeverity::Critical => Some(Severity::Critical),
    }
}

/// A time of the contract in the seed's form (seed 002, section 2: `created_at`): ISO 8601, UTC, with milliseconds. A
/// number outside of the calendar becomes the beginning of 1970.
#[must_use]
pub fn iso_time(unix_ms: i64) -> String {
    let time = jiff::Timestamp::from_millisecond(unix_ms).unwrap_or_default();
    format!("{time:.3}")
}

/// The relation of a kind of action to an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Targeted {
    No,
    /// The action may name an element, and means something else without one.
    Optionally,
    /// The action names exactly one element (rule U1).
    Always,
}

/// The nature of a kind of action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KindTraits {
    /// The name in the DSL.
    pub name: &'static str,
    pub target: Targeted,
    /// True when the action is meant to change the page or the state behind it. A picture is taken before such an
    /// action.
    pub changes: bool,
    /// True when the action only reads, or may be performed any number of times.
    pub repeatable: bool,
    pub criticality: Criticality,
    /// True when the action loads a document, which has a longer time limit.
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
        ActionKind::Forward => loads("forward", No),
        ActionKind::Reload => loads("reload", No),
        ActionKind::Click => changes("click", Always),
        ActionKind::DoubleClick => changes("double_click", Always),
        ActionKind::RightClick => changes("right_click", Always),
        ActionKind::Drag => changes("drag", Always),
        ActionKind::Hover => reads("hover", Always),
        ActionKind::Fill => changes("fill", Always),
        ActionKind::Type => changes("type", Always),
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

/// How many actions of a script may begin (CONTRACTS: the reading of seed 002, policies).
pub const MAX_STEPS: u32 = 100;
/// How often a script may come back to the same state.
pub const SAME_STATE_REVISIT: u32 = 3;
/// Maximum number of retries of one action, not counting its first attempt.
pub const RETRY_LIMIT: u32 = 2;
/// Maximum number of recoveries for one action.
pub const RECOVERY_LIMIT: u32 = 2;
/// The delay before the first retry. Each further delay is multiplied, up to the maximum.
pub const BACKOFF_BASE: Duration = Duration::from_millis(500);
pub const BACKOFF_MULTIPLIER: f64 = 2.0;
pub const BACKOFF_LONGEST: Duration = Duration::from_secs(5);
/// The time limit for everything before an action's input, and again for the wait after it.
pub const ACTION_TIMEOUT: Duration = Duration::from_secs(10);
/// The same limit for actions that load a document.
pub const NAVIGATION_TIMEOUT: Duration = Duration::from_secs(30);
/// The time without a proposal after which an interactive session is closed.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(5 * 60);

#[cfg(test)]
mod tests {
    use super::*;

    // S002-CO-01, S002-FI-02, S002-PR-01
    #[test]
    fn the_table_has_the_thirteen_codes_of_the_seed_in_its_order_and_three_of_ours() {
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
                "NAVIGATION_FAILED",
                "BROWSER_LOST",
                "EVIDENCE_FAILED",
            ]
        );
    }

    /// The severity of each code (CONTRACTS §3), and the severity of the error contracts that corresponds to it.
    const SEVERITIES: [(&str, ExecutorSeverity, Severity); 16] = {
        use ExecutorSeverity::{Critical, Error};
        [
            ("TARGET_NOT_FOUND", Error, Severity::High),
            ("TARGET_NOT_UNIQUE", Error, Severity::High),
            ("INVALID_ACTIONSPEC", Error, Severity::High),
            ("PRECONDITION_FAILED", Error, Severity::High),
            ("POSTCONDITION_FAILED", Error, Severity::High),
            ("POLICY_HALT", Error, Severity::High),
            ("DOMAIN_BLOCKED", Error, Severity::High),
            ("ACTION_CRITICAL_BLOCKED", Critical, Severity::Critical),
            ("NAVIGATION_TIMEOUT", Error, Severity::High),
            ("UPLOAD_FAILED", Error, Severity::High),
            ("DOWNLOAD_FAILED", Error, Severity::High),
            ("OVERLAY_BLOCKING", Error, Severity::High),
            ("AUTH_FAILED", Error, Severity::High),
            ("NAVIGATION_FAILED", Error, Severity::High),
            ("BROWSER_LOST", Critical, Severity::Critical),
            ("EVIDENCE_FAILED", Critical, Severity::Critical),
        ]
    };

    // S002-FI-04
    #[test]
    fn every_code_is_as_severe_as_in_the_table_of_all_codes() {
        for (code, of_executor, of_run) in SEVERITIES {
            assert_eq!(lookup(code).unwrap().severity, of_executor, "{code}");
            assert_eq!(severity(of_executor), Some(of_run), "{code}");
            assert_eq!(crate::codes::lookup(code).unwrap().severity, of_run, "{code}");
        }
        assert_eq!(severity(ExecutorSeverity::Warning), Some(Severity::Medium));
        assert_eq!(severity(ExecutorSeverity::Unspecified), None);
    }

    /// What section 6 obliges each code to in `details`, and the phases of its failed conditions.
    const OBLIGATIONS: [(&str, &[&str], &[&str]); 13] = [
        ("TARGET_NOT_FOUND", &["target_resolution_order", "target", "count_observed"], &[]),
        ("TARGET_NOT_UNIQUE", &["count_observed", "matches_sample"], &[]),
        ("INVALID_ACTIONSPEC", &["validation_errors", "violated_rules"], &[]),
        ("PRECONDITION_FAILED", &[], &["pre"]),
        ("POSTCONDITION_FAILED", &[], &["post", "assert"]),
        ("POLICY_HALT", &["policy_reason", "policy_thresholds"], &[]),
        ("DOMAIN_BLOCKED", &["host", "allowlist"], &[]),
        ("ACTION_CRITICAL_BLOCKED", &["critical_reason"], &[]),
        // "si aplica"
        ("NAVIGATION_TIMEOUT", &["timeout_ms"], &[]),
        ("UPLOAD_FAILED", &["file_ref", "upload_signal"], &[]),
        ("DOWNLOAD_FAILED", &["expected_download"], &[]),
        // "si detectable"
        ("OVERLAY_BLOCKING", &[], &[]),
        ("AUTH_FAILED", &["auth_signal"], &[]),
    ];

    #[test]
    fn every_code_of_the_seed_obliges_to_what_its_section_says() {
        for (code, details, phases) in OBLIGATIONS {
            let entry = lookup(code).unwrap();
            assert_eq!((entry.details, entry.phases), (details, phases), "{code}");
            assert_eq!(entry.state_after, code == "POSTCONDITION_FAILED", "{code}");
        }
    }

    #[track_caller]
    fn check_evidence(code: &str, stage: ActionStage, criticality: Criticality, beyond: &[&str]) {
        let kinds = lookup(code).unwrap().obligatory_evidence(stage, criticality);
        let (of_all, rest) = kinds.split_at(2);
        assert_eq!(of_all, ["dom_snapshot_partial", "state_signature"], "{code}");
        assert_eq!(rest, beyond, "{code}");
    }

    /// Section 3: what a critical action owes, and a failure of execution or of a postcondition.
    const DOCUMENT_AND_PICTURES: [&str; 3] = ["html_full", "screenshot_before", "screenshot_after"];

    // S002-EV-06
    #[test]
    fn an_error_before_any_input_of_a_normal_action_needs_only_the_minimum() {
        use ActionStage::{Policy, Precondition, ProposalValidation};
        for (code, stage) in [
            ("TARGET_NOT_FOUND", Precondition),
            ("TARGET_NOT_UNIQUE", Precondition),
            ("INVALID_ACTIONSPEC", ProposalValidation),
            ("PRECONDITION_FAILED", Precondition),
            ("POLICY_HALT", Policy),
            ("DOMAIN_BLOCKED", Policy),
        ] {
            check_evidence(code, stage, Criticality::Normal, &[]);
        }
    }

    // S002-EV-08
    #[test]
    fn a_failure_of_execution_or_of_a_postcondition_has_the_html_and_both_pictures() {
        for stage in [ActionStage::Execution, ActionStage::Postcondition] {
            check_evidence("POSTCONDITION_FAILED", stage, Criticality::Normal, &DOCUMENT_AND_PICTURES);
        }
        for code in ["NAVIGATION_TIMEOUT", "DOWNLOAD_FAILED", "NAVIGATION_FAILED"] {
            check_evidence(code, ActionStage::Execution, Criticality::Normal, &DOCUMENT_AND_PICTURES);
        }
    }

    // S002-DE-19, S002-EV-07
    #[test]
    fn a_critical_action_has_the_html_and_both_pictures_even_before_any_input() {
        let both = &DOCUMENT_AND_PICTURES;
        check_evidence("TARGET_NOT_FOUND", ActionStage::Precondition, Criticality::Critical, both);
        check_evidence("ACTION_CRITICAL_BLOCKED", ActionStage::Policy, Criticality::Critical, both);
        // Files are looked at before the input.
        check_evidence("UPLOAD_FAILED", ActionStage::Precondition, Criticality::Normal, both);
    }

    // S002-DE-15, S002-DE-22
    #[test]
    fn an_overlay_is_pictured_and_a_blocked_critical_action_has_its_html_too() {
        let picture = ["screenshot_before"];
        check_evidence("OVERLAY_BLOCKING", ActionStage::Precondition, Criticality::Normal, &picture);
        let document = ["html_full", "screenshot_before"];
        check_evidence("ACTION_CRITICAL_BLOCKED", ActionStage::Policy, Criticality::Normal, &document);
    }

    /// Every kind of action: its name, whether it is about an element, and what it does to the page. The seed knows click,
    /// submit and upload by name (section 4); the others are ours.
    const KINDS: [(ActionKind, &str, Targeted, Nature); 23] = {
        use ActionKind as Kind;
        use Nature::{Changes, Commits, Loads, Reads};
        use Targeted::{Always, No, Optionally};
        [
            (Kind::Navigate, "navigate", No, Loads),
            (Kind::Back, "back", No, Loads),
            (Kind::Forward, "forward", No, Loads),
            (Kind::Reload, "reload", No, Loads),
            (Kind::Click, "click", Always, Changes),
            (Kind::DoubleClick, "double_click", Always, Changes),
            (Kind::RightClick, "right_click", Always, Changes),
            (Kind::Drag, "drag", Always, Changes),
            (Kind::Hover, "hover", Always, Reads),
            (Kind::Fill, "fill", Always, Changes),
            (Kind::Type, "type", Always, Changes),
            (Kind::Press, "press", Optionally, Changes),
            (Kind::Select, "select", Always, Changes),
            (Kind::Check, "check", Always, Changes),
            (Kind::Uncheck, "uncheck", Always, Changes),
            (Kind::Submit, "submit", Always, Commits),
            (Kind::Upload, "upload", Always, Commits),
            (Kind::Download, "download", Optionally, Loads),
            (Kind::ScrollTo, "scroll_to", Always, Reads),
            (Kind::WaitFor, "wait_for", No, Reads),
            (Kind::Assert, "assert", No, Reads),
            (Kind::Extract, "extract", Always, Reads),
            (Kind::Screenshot, "screenshot", No, Reads),
        ]
    };

    /// What a kind of action does to the page.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Nature {
        /// It may be performed any number of times.
        Reads,
        Changes,
        /// It loads a document.
        Loads,
        /// It is critical by itself.
        Commits,
    }

    #[test]
    fn every_kind_of_action_has_its_nature() {
        for (kind, name, target, nature) in KINDS {
            let expected = KindTraits {
                name,
                target,
                changes: nature != Nature::Reads,
                repeatable: nature == Nature::Reads,
                criticality: match nature {
                    Nature::Commits => Criticality::Critical,
                    _ => Criticality::Normal,
                },
                navigates: nature == Nature::Loads,
            };
            assert_eq!(kind_traits(kind), Some(expected), "{name}");
        }
        assert_eq!(kind_traits(ActionKind::Unspecified), None);
        let known = (1..).map_while(|number| ActionKind::try_from(number).ok());
        let missing: Vec<ActionKind> =
            known.filter(|known| !KINDS.iter().any(|(kind, ..)| kind == known)).collect();
        assert_eq!(missing, []);
    }

    // S002-FI-13
    #[test]
    fn times_are_written_in_utc_with_milliseconds() {
        assert_eq!(iso_time(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(iso_time(1_700_000_000_120), "2023-11-14T22:13:20.120Z");
        assert_eq!(iso_time(i64::MAX), iso_time(0));
    }
}
