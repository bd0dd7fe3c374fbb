//! What the documents say of browser actions is what the contract has.

use std::fs;
use std::path::Path;

use capataz_contracts::validate::executor_error;
use capataz_contracts::{json, v1};
use serde_json::Value;

/// Seed 002, section 6: what an error of each code has in `details`.
const DETAILS: [(&str, &[&str]); 13] = [
    ("TARGET_NOT_FOUND", &["target_resolution_order", "target", "count_observed"]),
    ("TARGET_NOT_UNIQUE", &["count_observed", "matches_sample"]),
    ("INVALID_ACTIONSPEC", &["validation_errors", "violated_rules"]),
    ("PRECONDITION_FAILED", &[]),
    ("POSTCONDITION_FAILED", &[]),
    ("POLICY_HALT", &["policy_reason", "policy_thresholds"]),
    ("DOMAIN_BLOCKED", &["host", "allowlist"]),
    ("ACTION_CRITICAL_BLOCKED", &["critical_reason"]),
    ("NAVIGATION_TIMEOUT", &["timeout_ms", "wait_condition"]),
    ("UPLOAD_FAILED", &["file_ref", "upload_signal"]),
    ("DOWNLOAD_FAILED", &["expected_download"]),
    ("OVERLAY_BLOCKING", &["overlay_selector", "overlay_text"]),
    ("AUTH_FAILED", &["auth_signal"]),
];

/// Those that are ours.
const OWN: [&str; 3] = ["NAVIGATION_FAILED", "BROWSER_LOST", "EVIDENCE_FAILED"];

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
}

/// The error in the example of a code's page.
fn example(code: &str) -> (Value, v1::ExecutorError) {
    let page = read(&format!("docs/errors/{code}.md"));
    let text = page.split("```json\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let document = json::from_str(text).unwrap();
    let error = json::parse("capataz.v1.ExecutorError", &document)
        .unwrap_or_else(|violations| panic!("{code}: {violations:#?}"));
    (document, error)
}

fn kinds_of_evidence(error: &v1::ExecutorError) -> Vec<&str> {
    error.evidence_refs.iter().map(|evidence| evidence.kind.as_str()).collect()
}

// S002-CO-01, S002-FI-09
#[test]
fn the_example_of_every_code_is_a_complete_error() {
    for code in DETAILS.map(|(code, _)| code).into_iter().chain(OWN) {
        let (document, error) = example(code);
        assert_eq!(executor_error(&error), [], "{code}");
        assert_eq!(error.error_code, code);
        assert_eq!(json::print("capataz.v1.ExecutorError", &error), document, "{code}");
        let action = error.action_spec.unwrap();
        assert_eq!((&action.id, action.kind), (&error.action_id, error.action_kind), "{code}");
    }
}

// S002-DE-25
#[test]
fn the_example_of_every_code_has_what_the_seed_asks_for() {
    for (code, keys) in DETAILS {
        let (document, error) = example(code);
        for key in keys {
            assert!(!document["details"][key].is_null(), "{code} without {key}");
        }
        let kinds = kinds_of_evidence(&error);
        // Section 3: always.
        assert!(kinds.contains(&"dom_snapshot_partial"), "{code}: {kinds:?}");
        assert!(!error.state_before.clone().unwrap().screenshot_hash.is_empty(), "{code}");
        // Section 3: critical actions, and failures of execution and postconditions.
        let stage = error.stage;
        let sent =
            stage == v1::ActionStage::Execution as i32 || stage == v1::ActionStage::Postcondition as i32;
        if sent || error.criticality == v1::Criticality::Critical as i32 {
            assert!(
                kinds.contains(&"html_full") && kinds.contains(&"screenshot_before"),
                "{code}: {kinds:?}"
            );
        }
        if sent {
            assert!(kinds.contains(&"screenshot_after"), "{code}: {kinds:?}");
        }
    }
}

// S002-CO-02
#[test]
fn examples_of_failed_conditions_have_their_phase() {
    for (code, phase) in [("PRECONDITION_FAILED", "pre"), ("POSTCONDITION_FAILED", "post")] {
        let (_, error) = example(code);
        let phases: Vec<&str> =
            error.failed_conditions.iter().map(|condition| condition.phase.as_str()).collect();
        assert_eq!(phases, [phase], "{code}");
    }
    assert!(example("POSTCONDITION_FAILED").1.state_after.is_some());
}

#[test]
fn the_guide_names_every_kind_and_every_code() {
    let guide = read("docs/actions.md");
    let named = |word: &str| guide.contains(&format!("`{word}`"));
    let shown = |word: &str| guide.contains(&format!("kind = \"{word}\""));
    let word = |name: &str, prefix: &str| name.strip_prefix(prefix).unwrap().to_ascii_lowercase();
    for kind in (1..).map_while(|number| v1::ActionKind::try_from(number).ok()) {
        let kind = word(kind.as_str_name(), "ACTION_KIND_");
        assert!(shown(&kind), "no example of the action {kind}");
    }
    for kind in (1..).map_while(|number| v1::ConditionKind::try_from(number).ok()) {
        let kind = word(kind.as_str_name(), "CONDITION_KIND_");
        assert!(named(&kind), "no word on the condition {kind}");
    }
    for code in DETAILS.map(|(code, _)| code).into_iter().chain(OWN) {
        assert!(guide.contains(&format!("[{code}](errors/{code}.md)")), "no word on {code}");
    }
}
