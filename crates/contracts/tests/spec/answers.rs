use capataz_contracts::spec::{self, answers};
use serde_json::{Value, json};

use crate::{Kind, fixture, in_short, with};

/// Checks the full response, changed, against the full request; expects the violations as `path rule`.
#[track_caller]
fn check(changes: &[(&str, Value)], expected: &[&str]) {
    let request = spec::parse_request(fixture("full", Kind::Request).to_string().as_bytes()).unwrap();
    let response = changes.iter().fold(fixture("full", Kind::Response), |document, (pointer, value)| {
        with(document, pointer, value.clone())
    });
    let response = spec::parse_response(response.to_string().as_bytes()).unwrap();
    assert_eq!(in_short(&answers(&response, &request).err().unwrap_or_default()), expected);
}

// S001-RS-02, S001-RS-03
#[test]
fn a_response_answers_the_request_with_its_id_and_its_spec() {
    check(&[], &[]);
    check(&[("/request_id", json!("message-20"))], &["request_id mismatch"]);
    check(&[("/request_id", json!("MESSAGE-21"))], &["request_id mismatch"]);
    check(&[("/spec", json!("listener"))], &["spec mismatch"]);
    check(&[("/spec", json!("x")), ("/request_id", json!("y"))], &["spec mismatch", "request_id mismatch"]);
}
