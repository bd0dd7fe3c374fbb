//! What seed 002 and CONTRACTS §3 oblige an error of each code to, copied from them by hand. Tests compare errors with this
//! and with nothing else: the tables of the program are what is tested.

/// The obligations of one code.
#[derive(Clone, Copy, Debug)]
pub struct Obligation {
    pub code: &'static str,
    /// `warning`, `error` or `critical` (CONTRACTS §3: one for each code).
    pub severity: &'static str,
    /// The stages that may find the failure.
    pub stages: &'static [&'static str],
    /// The keys of `details` (seed 002, section 6).
    pub details: &'static [&'static str],
    /// The phases of `failed_conditions`, of which there is then at least one (sections 5 and 6).
    pub phases: &'static [&'static str],
    /// True where `state_after` is there whatever happened (section 6).
    pub state_after: bool,
    /// Evidence that the code asks for by itself (section 6).
    pub evidence: &'static [&'static str],
}

const SNAPSHOT: &str = "dom_snapshot_partial";
const SIGNATURE: &str = "state_signature";
const HTML: &str = "html_full";
const BEFORE: &str = "screenshot_before";
const AFTER: &str = "screenshot_after";

/// The thirteen codes of section 5 in its order, then those that CONTRACTS §3 adds.
pub const OBLIGATIONS: [Obligation; 16] = [
    Obligation {
        code: "TARGET_NOT_FOUND",
        severity: "error",
        // An element that goes away is gone when the input is to be sent.
        stages: &["precondition", "execution"],
        details: &["target_resolution_order", "target", "count_observed"],
        phases: &[],
        state_after: false,
        evidence: &[],
    },
    Obligation {
        code: "TARGET_NOT_UNIQUE",
        severity: "error",
        stages: &["precondition"],
        details: &["count_observed", "matches_sample"],
        phases: &[],
        state_after: false,
        evidence: &[],
    },
    Obligation {
        code: "INVALID_ACTIONSPEC",
        severity: "error",
        // A secret may go away after it was asked for, and only the page knows the frames of a target.
        stages: &["proposal_validation", "precondition", "execution"],
        details: &["validation_errors", "violated_rules"],
        phases: &[],
        state_after: false,
        evidence: &[],
    },
    Obligation {
        code: "PRECONDITION_FAILED",
        severity: "error",
        stages: &["precondition", "execution"],
        details: &[],
        phases: &["pre"],
        state_after: false,
        evidence: &[],
    },
    Obligation {
        code: "POSTCONDITION_FAILED",
        severity: "error",
        stages: &["execution", "postcondition"],
        details: &[],
        phases: &["post", "assert"],
        state_after: true,
        evidence: &[],
    },
    Obligation {
        code: "POLICY_HALT",
        severity: "error",
        stages: &["policy"],
        details: &["policy_reason", "policy_thresholds"],
        phases: &[],
        state_after: false,
        evidence: &[],
    },
    Obligation {
        code: "DOMAIN_BLOCKED",
        severity: "error",
        stages: &["policy", "execution", "postcondition"],
        details: &["host", "allowlist"],
        phases: &[],
        state_after: false,
        evidence: &[],
    },
    Obligation {
        code: "ACTION_CRITICAL_BLOCKED",
        severity: "critical",
        stages: &["policy"],
        details: &["critical_reason"],
        phases: &[],
        state_after: false,
        evidence: &[HTML, BEFORE],
    },
    Obligation {
        code: "NAVIGATION_TIMEOUT",
        severity: "error",
        stages: &["execution"],
        details: &["timeout_ms", "wait_condition"],
        phases: &[],
        state_after: false,
        evidence: &[BEFORE],
    },
    Obligation {
        code: "UPLOAD_FAILED",
        severity: "error",
        stages: &["precondition", "execution", "postcondition"],
        details: &["file_ref", "upload_signal"],
        phases: &[],
        state_after: false,
        evidence: &[HTML, BEFORE, AFTER],
    },
    Obligation {
        code: "DOWNLOAD_FAILED",
        severity: "error",
        stages: &["execution", "postcondition"],
        details: &["expected_download"],
        phases: &[],
        state_after: false,
        evidence: &[BEFORE],
    },
    Obligation {
        code: "OVERLAY_BLOCKING",
        severity: "error",
        stages: &["precondition", "execution"],
        details: &["overlay_selector", "overlay_text"],
        phases: &[],
        state_after: false,
        evidence: &[BEFORE],
    },
    Obligation {
        code: "AUTH_FAILED",
        severity: "error",
        stages: &["postcondition"],
        details: &["auth_signal"],
        phases: &[],
        state_after: false,
        evidence: &[HTML, BEFORE],
    },
    Obligation {
        code: "NAVIGATION_FAILED",
        severity: "error",
        stages: &["execution"],
        details: &["net_error", "url"],
        phases: &[],
        state_after: false,
        evidence: &[BEFORE],
    },
    Obligation {
        code: "BROWSER_LOST",
        severity: "critical",
        stages: &["proposal_validation", "policy", "precondition", "execution", "postcondition", "evidence"],
        details: &["reason"],
        phases: &[],
        state_after: false,
        evidence: &[],
    },
    Obligation {
        code: "EVIDENCE_FAILED",
        severity: "critical",
        stages: &["precondition", "evidence"],
        details: &["original_code"],
        phases: &[],
        state_after: false,
        evidence: &[],
    },
];

/// The obligations of a code; `None` for one that neither document has.
#[must_use]
pub fn obligation(code: &str) -> Option<&'static Obligation> {
    OBLIGATIONS.iter().find(|obligation| obligation.code == code)
}

impl Obligation {
    /// The kinds of evidence that an error has (section 3): the minimum always; the document and both pictures in every
    /// critical action and in every failure of execution or of a postcondition; and what the code asks for.
    #[must_use]
    pub fn evidence_of(&self, stage: &str, criticality: &str) -> Vec<&'static str> {
        match self.code {
            // The page is gone: the last good state and snapshot are what there is.
            "BROWSER_LOST" => return vec![SNAPSHOT, SIGNATURE],
            // The store is what failed: whatever it took.
            "EVIDENCE_FAILED" => return Vec::new(),
            _ => {}
        }
        let whole = criticality == "critical" || stage == "execution" || stage == "postcondition";
        let more = [HTML, BEFORE, AFTER].into_iter().filter(|kind| whole || self.evidence.contains(kind));
        [SNAPSHOT, SIGNATURE].into_iter().chain(more).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_is_what_the_section_says() {
        let of = |code: &str, stage: &str, criticality: &str| {
            obligation(code).map(|obligation| obligation.evidence_of(stage, criticality).len())
        };
        assert_eq!(of("TARGET_NOT_FOUND", "precondition", "normal"), Some(2));
        assert_eq!(of("TARGET_NOT_FOUND", "precondition", "critical"), Some(5));
        assert_eq!(of("OVERLAY_BLOCKING", "precondition", "normal"), Some(3));
        assert_eq!(of("UPLOAD_FAILED", "precondition", "normal"), Some(5));
        assert_eq!(of("POSTCONDITION_FAILED", "postcondition", "normal"), Some(5));
        assert_eq!(of("NONE", "execution", "normal"), None);
    }
}
