//! Whole documents: those of the seed, and others with the same facts.

use std::fs;
use std::path::Path;

use capataz_contracts::spec;
use serde_json::{Value, json};

use crate::{Kind, check, check_text, fixture, fixtures, with};

const ORIGINALS: &str = "tests/fixtures/seed-001";

/// The document without the keys of the contract that are `null`.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(object) => object
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key.clone(), without_nulls(value)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

/// Reads, checks and prints each document of the folder. Returns how many there are.
fn check_folder(folder: &Path) -> usize {
    let mut names: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    for path in &names {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let kind = if name.ends_with(".request.json") { Kind::Request } else { Kind::Response };
        let text = fs::read(path).unwrap();
        let value: Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(kind.print_again(&text), Ok(without_nulls(&value)), "{name}");
        if kind == Kind::Response {
            let request = fs::read(folder.join(name.replace(".response.", ".request."))).unwrap();
            let request = spec::parse_request(&request).unwrap();
            assert_eq!(spec::answers(&spec::parse_response(&text).unwrap(), &request), Ok(()), "{name}");
        }
    }
    names.len()
}

#[test]
fn the_fixtures_are_valid_and_printed_as_they_were_read() {
    assert_eq!(check_folder(&fixtures()), 10);
}

// S001-EX-05, S001-RS-20
#[test]
fn the_originals_are_valid_and_printed_as_they_were_read() {
    assert_eq!(check_folder(&Path::new(env!("CARGO_MANIFEST_DIR")).join(ORIGINALS)), 10);
}

// S001-RQ-08, S001-RQ-23, S001-RS-10, S001-RS-16
#[test]
fn the_least_documents_have_the_required_fields_only() {
    let request = json!({
        "id": "a", "timestamp": 0, "text": "x", "spec": "s",
        "routing": {"confidence": 0.0, "reason": ""}, "context": {"detected_intent": ""},
    });
    check(Kind::Request, &request, &[]);
    let response = json!({
        "success": true, "spec": "s", "request_id": "a", "timestamp": 0,
        "metadata": {"processing_time_ms": 0, "confidence": 1.0}, "response": {"text": "", "format": "text"},
    });
    check(Kind::Response, &response, &[]);
    let failure = json!({
        "success": false, "spec": "s", "request_id": "a", "timestamp": 0,
        "metadata": {"processing_time_ms": 0, "confidence": 0.0},
        "error": {"code": "MY_OWN_CODE", "message": "", "recoverable": false},
    });
    check(Kind::Response, &failure, &[]);
}

/// Reads the document and expects it printed the same.
#[track_caller]
fn check_kept(kind: Kind, document: &Value) {
    assert_eq!(kind.print_again(document.to_string().as_bytes()).as_ref(), Ok(document));
}

// S001-RS-12
#[test]
fn what_is_empty_zero_or_false_is_kept() {
    let request = fixture("full", Kind::Request);
    for (pointer, value) in [
        ("/routing/alternatives", json!([])),
        ("/context/keywords_matched", json!([])),
        ("/context/patterns_matched", json!([""])),
        ("/context/tone", json!("")),
        ("/context/confidence_breakdown", json!({})),
        ("/conversation", json!({})),
        ("/conversation/history", json!([])),
        ("/conversation/message_count", json!(0)),
        ("/user", json!({})),
        ("/user/preferences", json!({})),
        ("/metadata", json!({})),
        ("/timestamp", json!(0)),
        ("/routing/confidence", json!(-0.0)),
        ("/contract_version", json!("1.0.0")),
        ("/contract_version", json!("1.0.9")),
    ] {
        check_kept(Kind::Request, &with(request.clone(), pointer, value));
    }
    let response = fixture("full", Kind::Response);
    for (pointer, value) in [
        ("/context_update", json!({})),
        ("/metadata/tokens_used", json!(0)),
        ("/metadata/processing_time_ms", json!(u64::MAX)),
        ("/timestamp", json!(i64::MAX)),
        ("/response/text", json!("")),
    ] {
        check_kept(Kind::Response, &with(response.clone(), pointer, value));
    }
}

// S001-RQ-19, S001-RQ-21, S001-RS-07
#[test]
fn the_specs_own_parts_have_any_shape_and_keep_every_number() {
    let response = fixture("full", Kind::Response);
    for value in [
        json!([]),
        json!({}),
        json!(""),
        json!(false),
        json!(0),
        json!([null, {"a": null, "": [[], {}]}]),
        json!({"$text": 1, "$media_type": "x", "extra": {"extra": []}}),
        json!([u64::MAX, i64::MIN, 9_007_199_254_740_993_u64, -1, 1.0, -0.0, 0.1, 1e300, 5e-324, 1e20]),
    ] {
        check_kept(Kind::Response, &with(response.clone(), "/response/structured", value.clone()));
        let value = json!({ "within": value });
        check_kept(Kind::Response, &with(response.clone(), "/context_update/custom", value.clone()));
        let request = fixture("full", Kind::Request);
        check_kept(Kind::Request, &with(request.clone(), "/user/preferences", value.clone()));
        check_kept(Kind::Request, &with(request, "/metadata/custom", value));
    }
}

// S001-RS-06
#[test]
fn the_three_formats_of_an_answer_are_read_and_no_other() {
    let of = |format: &str| with(fixture("full", Kind::Response), "/response/format", json!(format));
    for format in ["text", "markdown", "html"] {
        check_kept(Kind::Response, &of(format));
    }
    for format in ["pdf", "TEXT", ""] {
        check(Kind::Response, &of(format), &["response.format enum"]);
    }
}

// S001-RQ-23
#[test]
fn an_explicit_null_is_an_absent_field() {
    for (kind, pointers) in [
        (
            Kind::Request,
            &[
                "/routing/alternatives",
                "/context/suggested_pattern",
                "/context/confidence_breakdown/keyword",
                "/conversation",
                "/conversation/history/1/spec",
                "/user/preferences",
                "/metadata",
            ][..],
        ),
        (
            Kind::Response,
            &["/response/structured", "/metadata/tokens_used", "/transition", "/context_update/custom"],
        ),
    ] {
        for pointer in pointers {
            let document = with(fixture("full", kind), pointer, Value::Null);
            let absent = crate::without(fixture("full", kind), pointer);
            assert_eq!(kind.print_again(document.to_string().as_bytes()), Ok(absent), "{pointer}");
        }
    }
    check(Kind::Request, &with(fixture("full", Kind::Request), "/id", Value::Null), &["id required"]);
}

#[test]
fn a_document_that_is_no_json_has_one_violation() {
    for text in
        ["", "{", "[1", "{\"id\": NaN}", "{\"id\": 1e400}", "{\"id\": 01}", "\u{0}", "{\"a\":1,\"a\":1}"]
    {
        check_text(Kind::Request, text, &[" syntax"]);
        check_text(Kind::Response, text, &[" syntax"]);
    }
    let violations = spec::parse_request(b"{\"id\": \"\xff\"}").unwrap_err();
    assert_eq!(crate::in_short(&violations), [" syntax"]);
    check_text(Kind::Request, "[]", &[" type"]);
    check_text(Kind::Response, "null", &[" type"]);
}

#[test]
fn sizes_are_bounded() {
    let request = fixture("full", Kind::Request);
    let empty = with(request.clone(), "/text", json!("")).to_string().len();
    let text = |bytes: usize| with(request.clone(), "/text", json!("x".repeat(bytes)));
    check(Kind::Request, &text(spec::MAX_BYTES - empty), &[]);
    check(Kind::Request, &text(spec::MAX_BYTES - empty + 1), &[" size"]);

    // `custom` itself is the third level.
    let nested = |levels: usize| (1..levels).fold(json!({}), |inner, _| json!({ "a": inner }));
    let custom = |levels: usize| with(request.clone(), "/metadata/custom", nested(levels));
    check_kept(Kind::Request, &custom(spec::MAX_DEPTH - 2));
    check(Kind::Request, &custom(spec::MAX_DEPTH - 1), &[" depth"]);
    check_text(Kind::Request, &"[".repeat(100_000), &[" syntax"]);

    let message = json!({"role": "user", "text": "x"});
    let history = |count: usize| with(request.clone(), "/conversation/history", json!(vec![&message; count]));
    check(Kind::Request, &history(spec::MAX_ITEMS), &[]);
    check(Kind::Request, &history(spec::MAX_ITEMS + 1), &["conversation.history limit"]);
    let words = |count: usize| with(request.clone(), "/context/patterns_matched", json!(vec!["x"; count]));
    check(Kind::Request, &words(spec::MAX_ITEMS), &[]);
    check(Kind::Request, &words(spec::MAX_ITEMS + 1), &["context.patterns_matched limit"]);
}
