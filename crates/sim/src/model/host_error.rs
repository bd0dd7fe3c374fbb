//! What is recorded of the errors that hosts tell, by the simulator's own copy of seed 002, sections 3, 5 and 6.

use capataz_contracts::v1;
use serde_json::Value;

use super::log::RunModel;
use crate::invariant::{Invariant, Violation};

/// Codes that hosts of the simulator fail with, and the keys that their details have to have.
const CODES: [(&str, &[&str]); 11] = [
    ("TARGET_NOT_FOUND", &["target_resolution_order", "target", "count_observed"]),
    ("TARGET_NOT_UNIQUE", &["count_observed", "matches_sample"]),
    ("POSTCONDITION_FAILED", &[]),
    ("POLICY_HALT", &["policy_reason", "policy_thresholds"]),
    ("OVERLAY_BLOCKING", &[]),
    ("NAVIGATION_TIMEOUT", &["timeout_ms"]),
    ("NAVIGATION_FAILED", &["net_error", "url"]),
    ("DOMAIN_BLOCKED", &["host", "allowlist"]),
    ("ACTION_CRITICAL_BLOCKED", &["critical_reason"]),
    ("BROWSER_LOST", &["reason"]),
    ("EVIDENCE_FAILED", &["original_code"]),
];

/// Every failure of a host is one of its stage execution, or a halt after one.
const EVIDENCE: [&str; 5] =
    ["dom_snapshot_partial", "state_signature", "html_full", "screenshot_before", "screenshot_after"];

fn details(error: &v1::ExecutorError) -> Value {
    error.details.as_deref().and_then(|details| serde_json::from_str(details).ok()).unwrap_or_default()
}

/// Whether the error has what its code obliges it to.
fn is_whole(error: &v1::ExecutorError) -> bool {
    let Some((code, keys)) = CODES.iter().find(|(code, _)| *code == error.error_code) else { return false };
    let kinds = match *code {
        "BROWSER_LOST" => &EVIDENCE[..2],
        "EVIDENCE_FAILED" => &[],
        _ => &EVIDENCE[..],
    };
    let has = |kind: &&str| error.evidence_refs.iter().any(|piece| piece.kind == **kind);
    let told = details(error);
    let after = *code != "POSTCONDITION_FAILED"
        || (error.state_after.is_some() && error.failed_conditions.iter().any(|one| one.phase == "post"));
    error.state_before.is_some()
        && !error.evidence_refs.is_empty()
        && kinds.iter().all(has)
        && keys.iter().all(|key| told.get(key).is_some())
        && after
}

impl RunModel {
    /// An error is recorded of what a host has told under this lease.
    pub(super) fn recorded_error(&self, token: u64, error: &v1::ExecutorError) -> Result<(), Violation> {
        let host_errors = self.host_errors.borrow();
        let text = || self.at(format!("{error:?}, told {:?}", host_errors.get(&token)));
        Invariant::ErrorsAreWhole.check(is_whole(error), text)?;
        let Some(told) = host_errors.get(&token) else { return Invariant::ErrorsAreWhole.broken(text()) };
        // A limit that is reached with a failure has an event of its own.
        if error.error_code == "POLICY_HALT" && told.error_code != "POLICY_HALT" {
            return Ok(());
        }
        let same = error.error_code == told.error_code
            && error.details == told.details
            && error.evidence_refs == told.evidence_refs;
        if is_whole(told) {
            return Invariant::ErrorsAreWhole.check(same, text);
        }
        let recorded = details(error);
        let given = &recorded["given"];
        let kept = error.error_code == "EVIDENCE_FAILED"
            && recorded["original_code"] == told.error_code.as_str()
            && given["message"] == told.message.as_str()
            && given["evidence_refs"].as_array().map_or(0, Vec::len) == told.evidence_refs.len()
            && told.evidence_refs.iter().all(|piece| error.evidence_refs.contains(piece));
        Invariant::ErrorsAreWhole.check(kept, text)
    }

    /// Whether a host has told under this lease that its browser is lost.
    pub(super) fn told_lost(&self, token: u64) -> bool {
        self.host_errors.borrow().get(&token).is_some_and(|told| told.error_code == "BROWSER_LOST")
    }
}
