//! The JSON form of seed 002: names, spellings, and the fields that are always there.

use capataz_contracts::validate::executor_error;
use capataz_contracts::{json, v1};
use serde_json::{Value, json};

use crate::in_short;

const NAME: &str = "capataz.v1.ExecutorError";

fn a_signature() -> Value {
    json!({
        "schema_version": "v1",
        "url": "https://shop.example/login",
        "title": "",
        "dom_hash": "0a".repeat(32),
        "anchors_hash": "1b".repeat(32),
        "inputs_hash": "2c".repeat(32),
        "screenshot_hash": "",
    })
}

/// With every field that the seed obliges to, each as small as it can be.
fn an_error() -> Value {
    json!({
        "schema_version": "v1",
        "error_code": "PRECONDITION_FAILED",
        "stage": "precondition",
        "severity": "error",
        "message": "",
        "retryable": false,
        "run_id": "01a1fea0-f95e-7474-b2ce-9cc3f946c236",
        "seq": 0,
        "step_index": 0,
        "action_id": "open",
        "action_kind": "double_click",
        "criticality": "normal",
        "state_before": a_signature(),
        "evidence_refs": [{
            "id": "3d".repeat(32),
            "kind": "dom_snapshot_partial",
            "media_type": "application/json",
            "bytes": 0,
            "redacted": false,
        }],
        "created_at": "2026-11-21T16:39:05.000Z",
        "details": {},
        "failed_conditions": [{
            "kind": "visible",
            "args": {"target": {"testid": "x"}, "observed": [false, null, 1.5]},
            "phase": "pre",
        }],
        "action_spec": {"id": "open", "kind": "double_click", "target": {"testid": "x", "nth": 0}},
    })
}

fn read(document: &Value) -> v1::ExecutorError {
    json::parse(NAME, document).unwrap()
}

/// Changes a good error; expects the violations as `path rule`.
#[track_caller]
fn check(change: impl FnOnce(&mut v1::ExecutorError), expected: &[&str]) {
    let mut error = read(&an_error());
    "visible".clone_into(&mut error.message);
    error.seq = 1;
    change(&mut error);
    let violations = executor_error(&error);
    assert_eq!(in_short(&violations), expected, "{violations:#?}");
}

// S002-FI-14
#[test]
fn what_is_obligatory_is_there_also_where_it_is_empty_zero_or_false() {
    let document = an_error();
    assert_eq!(json::print(NAME, &read(&document)), document);
    // Nothing of it has a value; texts and numbers are there all the same.
    let printed = json::print(NAME, &v1::ExecutorError::default());
    let keys = ["action_id", "created_at", "error_code", "message", "run_id", "schema_version", "seq"];
    assert_eq!(printed.as_object().unwrap().keys().collect::<Vec<_>>(), keys);
    for name in ["StateSignature", "EvidenceRef"] {
        let printed = json::print_bytes(&format!("capataz.v1.{name}"), &[]).unwrap();
        assert!(printed.as_object().unwrap().len() >= 5, "{printed}");
    }
}

// S002-FI-15, S002-FI-17
#[test]
fn optional_fields_are_kept_and_absent_ones_stay_absent() {
    let mut document = an_error();
    document["state_after"] = a_signature();
    document["cause"] = json!("");
    document["debug_message"] = json!("net::ERR_FAILED");
    document["details"] =
        json!({"policy_reason": "max_steps", "policy_thresholds": {"max_steps": 100}, "nothing": null});
    assert_eq!(json::print(NAME, &read(&document)), document);
    let object = document.as_object_mut().unwrap();
    for key in ["state_after", "cause", "debug_message", "details", "failed_conditions"] {
        object.remove(key);
    }
    assert_eq!(json::print(NAME, &read(&document)), document);
}

// S002-FI-03, S002-FI-04, S002-FI-09, S002-FI-10
#[test]
fn words_are_spelled_as_in_the_seed() {
    #[track_caller]
    fn check(key: &str, words: &[&str]) {
        for word in words {
            let mut document = an_error();
            document[key] = json!(word);
            assert_eq!(json::print(NAME, &read(&document))[key], json!(word));
        }
    }
    check(
        "stage",
        &["proposal_validation", "precondition", "execution", "postcondition", "policy", "evidence"],
    );
    check("severity", &["warning", "error", "critical"]);
    check("criticality", &["normal", "critical"]);
    check("action_kind", &["navigate", "click", "submit", "upload", "wait_for", "scroll_to"]);
}

#[test]
fn only_the_seeds_own_names_are_read() {
    let mut document = an_error();
    document["stepIndex"] = json!(1);
    document["state_before"]["domHash"] = json!("x");
    let violations = json::parse::<v1::ExecutorError>(NAME, &document).unwrap_err();
    assert_eq!(in_short(&violations), ["state_before.domHash unknown_key", "stepIndex unknown_key"]);
}

#[test]
fn a_complete_error_passes() {
    check(|_| {}, &[]);
    check(
        |error| {
            let mut state = error.state_before.clone().unwrap();
            state.screenshot_hash = "4e".repeat(32);
            error.state_after = Some(state);
        },
        &[],
    );
    check(|error| error.details = None, &[]);
}

// S002-FI-01, S002-FI-02, S002-FI-12, S002-PR-02
#[test]
fn every_obligatory_field_that_is_missing_is_told() {
    assert_eq!(
        in_short(&executor_error(&v1::ExecutorError::default())),
        [
            "schema_version version",
            "error_code required",
            "message required",
            "run_id required",
            "action_id required",
            "created_at required",
            "retryable required",
            "seq required",
            "step_index required",
            "evidence_refs required",
            "action_spec required",
            "stage required",
            "severity required",
            "action_kind required",
            "criticality required",
            "state_before required",
        ]
    );
}

// S002-FI-11, S002-FI-17, S002-FI-19
#[test]
fn parts_of_another_shape_are_told() {
    check(
        |error| {
            error.stage = 7;
            error.state_before.as_mut().unwrap().dom_hash = "0A".repeat(32);
            error.state_before.as_mut().unwrap().screenshot_hash = "0".to_owned();
            error.state_after = Some(v1::StateSignature::default());
            error.evidence_refs[0].id.clear();
            error.evidence_refs[0].media_type.clear();
            error.details = Some("[1]".to_owned());
            error.failed_conditions[0].phase = "during".to_owned();
            error.failed_conditions[0].args = Some("{".to_owned());
        },
        &[
            "stage enum",
            "state_before.dom_hash hash",
            "state_before.screenshot_hash hash",
            "state_after.schema_version version",
            "state_after.dom_hash hash",
            "state_after.anchors_hash hash",
            "state_after.inputs_hash hash",
            "evidence_refs[0].id hash",
            "evidence_refs[0].media_type required",
            "details type",
            "failed_conditions[0].args type",
            "failed_conditions[0].phase enum",
        ],
    );
}
