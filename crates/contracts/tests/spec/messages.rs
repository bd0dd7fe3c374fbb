//! Messages that did not come as JSON: the same rules, and that they can be printed.

use capataz_contracts::{spec, v1};

use crate::{Kind, fixture, in_short};

/// Checks the full request, changed; expects the violations as `path rule`.
#[track_caller]
fn check(change: impl FnOnce(&mut v1::SpecRequest), expected: &[&str]) {
    let mut request = spec::parse_request(fixture("full", Kind::Request).to_string().as_bytes()).unwrap();
    change(&mut request);
    let violations = spec::request(&request);
    assert_eq!(in_short(&violations), expected, "{violations:#?}");
    if expected.is_empty() {
        let printed = spec::print_request(&request);
        let again = spec::parse_request(printed.to_string().as_bytes()).unwrap();
        assert_eq!(spec::print_request(&again), printed);
    }
}

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn a_message_has_the_rules_of_its_document() {
    check(|_| {}, &[]);
    check(
        |request| *request = v1::SpecRequest::default(),
        &[
            "id required",
            "timestamp required",
            "text required",
            "spec required",
            "routing required",
            "context required",
        ],
    );
    assert_eq!(
        in_short(&spec::response(&v1::SpecResponse::default())),
        [
            "success required",
            "spec required",
            "request_id required",
            "timestamp required",
            "metadata required",
        ]
    );
    let response = spec::parse_response(fixture("full", Kind::Response).to_string().as_bytes()).unwrap();
    assert_eq!(spec::response(&response), []);
}

#[test]
fn a_confidence_is_finite() {
    for confidence in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        check(
            |request| request.routing.as_mut().unwrap().confidence = Some(confidence),
            &["routing.confidence range"],
        );
    }
}

#[test]
fn free_parts_are_the_text_of_json() {
    let custom = |custom: &str| {
        let custom = text(custom);
        move |request: &mut v1::SpecRequest| request.metadata.as_mut().unwrap().custom = custom
    };
    check(custom(" { \"a\" : 1 } "), &[]);
    check(custom("{"), &["metadata.custom json"]);
    check(custom(""), &["metadata.custom json"]);
    check(custom("{\"a\": 1, \"a\": 2}"), &["metadata.custom json"]);
    check(custom("[]"), &["metadata.custom type"]);
    check(custom("null"), &["metadata.custom type"]);
    check(custom("{\"a\": 99999999999999999999}"), &["metadata.custom.a range"]);
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(100), "]".repeat(100));
    check(custom(&deep), &[" depth"]);
    check(custom(&format!("{{\"a\":\"{}\"}}", "x".repeat(spec::MAX_BYTES))), &[" size"]);
}

#[test]
fn extra_keys_go_with_a_newer_version_and_are_new() {
    let extra = |version: &str, extra: &str| {
        let (version, extra) = (text(version), text(extra));
        move |request: &mut v1::SpecRequest| {
            request.contract_version = version;
            request.routing.as_mut().unwrap().extra = extra;
        }
    };
    check(extra("1.1.0", r#"{"added": [1]}"#), &[]);
    check(extra("1.0.0", r#"{"added": [1]}"#), &["routing.added unknown_key"]);
    check(extra("1.1.0", r#"{"confidence": 2}"#), &["routing.confidence duplicate_key"]);
    check(extra("1.1.0", "[]"), &["routing json"]);
    check(extra("1.1.0", "{"), &["routing json"]);
    check(
        extra("3.0.0", r#"{"added": 1}"#),
        &["contract_version INCOMPATIBLE_VERSION", "routing.added unknown_key"],
    );
}

#[test]
fn an_extra_key_never_hides_one_of_the_contract() {
    let mut request = spec::parse_request(fixture("full", Kind::Request).to_string().as_bytes()).unwrap();
    request.extra = text(r#"{"id": "another", "metadata": null, "added": 1}"#);
    let expected = crate::with(fixture("full", Kind::Request), "/added", serde_json::json!(1));
    assert_eq!(spec::print_request(&request), expected);
}
