//! One thing wrong in a document that has every field: exactly one violation, at its place.

use serde_json::{Value, json};

use crate::{Kind, check, check_text, fixture, with, without};

/// What is done to the value at the pointer.
enum Change {
    Removed,
    Set(Value),
}
use Change::{Removed, Set};

#[track_caller]
fn check_all(kind: Kind, document: &Value, table: Vec<(&str, Change, &str)>) {
    check(kind, document, &[]);
    for (pointer, change, expected) in table {
        let corrupt = match change {
            Removed => without(document.clone(), pointer),
            Set(value) => with(document.clone(), pointer, value),
        };
        println!("{pointer}: {expected}");
        check(kind, &corrupt, &[expected]);
    }
}

// S001-RQ-01, S001-RQ-02, S001-RQ-03, S001-RQ-04, S001-RQ-05
#[test]
fn requests() {
    let table = vec![
        ("/id", Removed, "id required"),
        ("/id", Set(json!("")), "id empty"),
        ("/id", Set(json!(7)), "id type"),
        ("/timestamp", Removed, "timestamp required"),
        ("/timestamp", Set(json!(-1)), "timestamp range"),
        ("/timestamp", Set(json!(1.5)), "timestamp type"),
        ("/timestamp", Set(json!("2023-11-14T22:13:20Z")), "timestamp type"),
        ("/timestamp", Set(json!(u64::MAX)), "timestamp range"),
        ("/timestamp", Set(json!(1e300)), "timestamp range"),
        ("/text", Removed, "text required"),
        ("/text", Set(json!("")), "text blank"),
        ("/text", Set(json!(" \t\n\u{a0}\u{3000}")), "text blank"),
        ("/text", Set(json!(["x"])), "text type"),
        ("/spec", Removed, "spec required"),
        ("/spec", Set(json!("")), "spec empty"),
        ("/spec", Set(json!({})), "spec type"),
        ("/routing", Removed, "routing required"),
        ("/routing", Set(json!("direct")), "routing type"),
        ("/routing", Set(json!([])), "routing type"),
        ("/routing/confidence", Removed, "routing.confidence required"),
        ("/routing/confidence", Set(json!("NaN")), "routing.confidence type"),
        ("/routing/confidence", Set(json!("0.85")), "routing.confidence type"),
        ("/routing/confidence", Set(json!(1.0001)), "routing.confidence range"),
        ("/routing/confidence", Set(json!(-0.0001)), "routing.confidence range"),
        ("/routing/confidence", Set(json!(1e308)), "routing.confidence range"),
        ("/routing/confidence", Set(json!(85)), "routing.confidence range"),
        ("/routing/reason", Removed, "routing.reason required"),
        ("/routing/reason", Set(json!(false)), "routing.reason type"),
        ("/routing/score", Set(json!(1)), "routing.score unknown_key"),
        ("/routing/alternatives", Set(json!({})), "routing.alternatives type"),
        ("/routing/alternatives/0", Set(json!("s")), "routing.alternatives[0] type"),
        ("/routing/alternatives/0", Set(Value::Null), "routing.alternatives[0] type"),
        ("/routing/alternatives/0/spec", Removed, "routing.alternatives[0].spec required"),
        ("/routing/alternatives/0/spec", Set(json!("")), "routing.alternatives[0].spec empty"),
        ("/routing/alternatives/0/confidence", Removed, "routing.alternatives[0].confidence required"),
        ("/routing/alternatives/0/confidence", Set(json!(2)), "routing.alternatives[0].confidence range"),
        ("/routing/alternatives/0/why", Set(json!("")), "routing.alternatives[0].why unknown_key"),
        ("/context", Removed, "context required"),
        ("/context", Set(json!(1)), "context type"),
        ("/context/detected_intent", Removed, "context.detected_intent required"),
        ("/context/detected_intent", Set(json!(1)), "context.detected_intent type"),
        ("/context/keywords_matched", Set(json!("word")), "context.keywords_matched type"),
        ("/context/keywords_matched/1", Set(json!(2)), "context.keywords_matched[1] type"),
        ("/context/patterns_matched/0", Set(Value::Null), "context.patterns_matched[0] type"),
        ("/context/suggested_pattern", Set(json!([])), "context.suggested_pattern type"),
        ("/context/tone", Set(json!(0)), "context.tone type"),
        ("/context/response_style", Set(json!({})), "context.response_style type"),
        ("/context/spec_title", Set(json!(true)), "context.spec_title type"),
        ("/context/spec_description", Set(json!(1)), "context.spec_description type"),
        ("/context/confidence_breakdown", Set(json!([1])), "context.confidence_breakdown type"),
        (
            "/context/confidence_breakdown/keyword",
            Set(json!(1.1)),
            "context.confidence_breakdown.keyword range",
        ),
        ("/context/confidence_breakdown/intent", Set(json!(-1)), "context.confidence_breakdown.intent range"),
        (
            "/context/confidence_breakdown/context",
            Set(json!("")),
            "context.confidence_breakdown.context type",
        ),
        ("/context/detectedIntent", Set(json!("x")), "context.detectedIntent unknown_key"),
        ("/conversation", Set(json!([])), "conversation type"),
        ("/conversation/previous_spec", Set(json!("")), "conversation.previous_spec empty"),
        ("/conversation/message_count", Set(json!(-1)), "conversation.message_count range"),
        ("/conversation/message_count", Set(json!(2.5)), "conversation.message_count type"),
        ("/conversation/history", Set(json!("x")), "conversation.history type"),
        ("/conversation/history/0", Set(json!(3)), "conversation.history[0] type"),
        ("/conversation/history/0/role", Removed, "conversation.history[0].role required"),
        ("/conversation/history/0/role", Set(json!("system")), "conversation.history[0].role enum"),
        ("/conversation/history/1/role", Set(json!("Assistant")), "conversation.history[1].role enum"),
        ("/conversation/history/1/text", Removed, "conversation.history[1].text required"),
        ("/conversation/history/1/spec", Set(json!("")), "conversation.history[1].spec empty"),
        ("/conversation/history/1/timestamp", Set(json!(-5)), "conversation.history[1].timestamp range"),
        ("/conversation/history/1/id", Set(json!("x")), "conversation.history[1].id unknown_key"),
        ("/user/emotional_state", Set(json!(1)), "user.emotional_state type"),
        ("/user/preferences", Set(json!([])), "user.preferences type"),
        ("/user/preferences", Set(json!("concise")), "user.preferences type"),
        ("/user/mood", Set(json!("x")), "user.mood unknown_key"),
        ("/metadata/session_id", Set(json!("")), "metadata.session_id empty"),
        ("/metadata/device", Set(json!(1)), "metadata.device type"),
        ("/metadata/custom", Set(json!(0)), "metadata.custom type"),
        ("/metadata/custom_field", Set(json!(0)), "metadata.custom_field unknown_key"),
        ("/priority", Set(json!(1)), "priority unknown_key"),
        ("/extra", Set(json!({})), "extra unknown_key"),
        ("/contract_version", Set(json!("one")), "contract_version semver"),
        ("/contract_version", Set(json!(1)), "contract_version type"),
        ("/contract_version", Set(json!("2.0.0")), "contract_version INCOMPATIBLE_VERSION"),
    ];
    check_all(Kind::Request, &fixture("full", Kind::Request), table);
}

// S001-RS-01, S001-RS-02, S001-RS-03, S001-RS-04, S001-RS-05
#[test]
fn responses() {
    let table = vec![
        ("/success", Removed, "success required"),
        ("/success", Set(json!("true")), "success type"),
        ("/success", Set(json!(1)), "success type"),
        ("/spec", Removed, "spec required"),
        ("/spec", Set(json!("")), "spec empty"),
        ("/request_id", Removed, "request_id required"),
        ("/request_id", Set(json!("")), "request_id empty"),
        ("/timestamp", Removed, "timestamp required"),
        ("/timestamp", Set(json!(-1)), "timestamp range"),
        ("/response", Removed, "response required"),
        ("/response", Set(json!("text")), "response type"),
        ("/response/text", Removed, "response.text required"),
        ("/response/format", Removed, "response.format required"),
        ("/response/format", Set(json!("pdf")), "response.format enum"),
        ("/response/format", Set(json!("Markdown")), "response.format enum"),
        ("/response/format", Set(json!("")), "response.format enum"),
        ("/response/html", Set(json!("")), "response.html unknown_key"),
        ("/metadata", Removed, "metadata required"),
        ("/metadata/processing_time_ms", Removed, "metadata.processing_time_ms required"),
        ("/metadata/processing_time_ms", Set(json!(-1)), "metadata.processing_time_ms range"),
        ("/metadata/processing_time_ms", Set(json!("150ms")), "metadata.processing_time_ms type"),
        ("/metadata/processing_time", Set(json!("1s")), "metadata.processing_time unknown_key"),
        ("/metadata/confidence", Removed, "metadata.confidence required"),
        ("/metadata/confidence", Set(json!(1.5)), "metadata.confidence range"),
        ("/metadata/confidence", Set(json!("Infinity")), "metadata.confidence type"),
        ("/metadata/pattern_used", Set(json!(1)), "metadata.pattern_used type"),
        ("/metadata/tokens_used", Set(json!(-1)), "metadata.tokens_used range"),
        ("/transition/suggest_spec", Removed, "transition.suggest_spec required"),
        ("/transition/suggest_spec", Set(json!("")), "transition.suggest_spec empty"),
        ("/transition/reason", Removed, "transition.reason required"),
        ("/transition/confidence", Removed, "transition.confidence required"),
        ("/transition/confidence", Set(json!(1.01)), "transition.confidence range"),
        ("/transition/auto_transition", Removed, "transition.auto_transition required"),
        ("/transition/auto_transition", Set(json!("no")), "transition.auto_transition type"),
        ("/transition", Set(json!([])), "transition type"),
        (
            "/error",
            Set(json!({"code": "FATAL_ERROR", "message": "", "recoverable": false})),
            "error unexpected",
        ),
        ("/context_update/custom", Set(json!([])), "context_update.custom type"),
        ("/context_update/mood", Set(json!("")), "context_update.mood unknown_key"),
        ("/requestId", Set(json!("x")), "requestId unknown_key"),
        ("/contract_version", Set(json!("0.9.0")), "contract_version INCOMPATIBLE_VERSION"),
    ];
    check_all(Kind::Response, &fixture("full", Kind::Response), table);
}

// S001-RS-10, S001-RS-14, S001-RS-16
#[test]
fn failures() {
    let table = vec![
        ("/error", Removed, "error required"),
        ("/error", Set(json!("FATAL_ERROR")), "error type"),
        ("/error/code", Removed, "error.code required"),
        ("/error/code", Set(json!("")), "error.code empty"),
        ("/error/message", Removed, "error.message required"),
        ("/error/details", Set(json!({"at": 1})), "error.details type"),
        ("/error/recoverable", Removed, "error.recoverable required"),
        ("/error/recoverable", Set(json!("yes")), "error.recoverable type"),
        ("/error/fallback_spec", Set(json!("")), "error.fallback_spec empty"),
        ("/error/retryable", Set(json!(true)), "error.retryable unknown_key"),
        ("/response", Set(json!({"text": "x", "format": "text"})), "response unexpected"),
        ("/metadata", Removed, "metadata required"),
    ];
    check_all(Kind::Response, &fixture("recoverable-error", Kind::Response), table);
}

// S001-RS-05, S001-RS-14, S001-VA-05, S001-VA-06
#[test]
fn a_response_with_both_or_neither_is_refused_whatever_it_says_of_success() {
    let full = fixture("full", Kind::Response);
    let error = json!({"code": "FATAL_ERROR", "message": "", "recoverable": false});
    let both = with(full.clone(), "/error", error.clone());
    check(Kind::Response, &both, &["error unexpected"]);
    check(Kind::Response, &with(both.clone(), "/success", json!(false)), &["response unexpected"]);
    check(Kind::Response, &without(both, "/success"), &["success required"]);
    let neither = without(full.clone(), "/response");
    check(Kind::Response, &with(neither, "/success", json!(false)), &["error required"]);
    let swapped = with(full, "/success", json!(false));
    check(Kind::Response, &swapped, &["response unexpected", "error required"]);
}

/// The seed's own lists: six fields of a request, five of a response.
// S001-VA-01, S001-VA-04
#[test]
fn each_required_field_of_a_request_and_of_a_response_is_missed() {
    for (kind, fields) in [
        (Kind::Request, &["id", "timestamp", "text", "spec", "routing", "context"][..]),
        (Kind::Response, &["success", "spec", "request_id", "timestamp", "metadata"]),
    ] {
        for field in fields {
            let document = without(fixture("full", kind), &format!("/{field}"));
            check(kind, &document, &[&format!("{field} required")]);
        }
    }
}

// S001-VA-03
#[test]
fn a_confidence_is_from_zero_to_one_in_every_place() {
    for (kind, pointer, path) in [
        (Kind::Request, "/routing/confidence", "routing.confidence"),
        (Kind::Request, "/routing/alternatives/0/confidence", "routing.alternatives[0].confidence"),
        (Kind::Response, "/metadata/confidence", "metadata.confidence"),
        (Kind::Response, "/transition/confidence", "transition.confidence"),
    ] {
        for (value, is_valid) in [(0.0, true), (1.0, true), (-0.01, false), (1.01, false)] {
            let document = with(fixture("full", kind), pointer, json!(value));
            let refused = format!("{path} range");
            let expected: &[&str] = if is_valid { &[] } else { &[&refused] };
            check(kind, &document, expected);
        }
    }
}

// S001-RQ-17
#[test]
fn a_role_is_user_or_assistant() {
    for (role, expected) in [
        ("user", &[][..]),
        ("assistant", &[]),
        ("system", &["conversation.history[0].role enum"]),
        ("USER", &["conversation.history[0].role enum"]),
    ] {
        let document = with(fixture("full", Kind::Request), "/conversation/history/0/role", json!(role));
        check(Kind::Request, &document, expected);
    }
}

// S001-RS-13
#[test]
fn a_transition_needs_all_of_its_four_fields() {
    for field in ["suggest_spec", "reason", "confidence", "auto_transition"] {
        let document = without(fixture("full", Kind::Response), &format!("/transition/{field}"));
        check(Kind::Response, &document, &[&format!("transition.{field} required")]);
    }
    check(Kind::Response, &without(fixture("full", Kind::Response), "/transition"), &[]);
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let document = json!({
        "id": "",
        "timestamp": "now",
        "text": "  ",
        "routing": {"confidence": 7, "alternatives": [{"spec": ""}, 5, {"confidence": "x", "spec": "s"}]},
        "context": {"detectedIntent": "x"},
        "conversation": {"history": [7, {"role": "robot"}], "message_count": -1},
        "metadata": {"custom": 1},
        "what": {},
    });
    check(
        Kind::Request,
        &document,
        &[
            "context.detectedIntent unknown_key",
            "conversation.history[0] type",
            "conversation.message_count range",
            "routing.alternatives[1] type",
            "routing.alternatives[2].confidence type",
            "timestamp type",
            "what unknown_key",
            "id empty",
            "text blank",
            "spec required",
            "routing.confidence range",
            "routing.reason required",
            "routing.alternatives[0].spec empty",
            "routing.alternatives[0].confidence required",
            "context.detected_intent required",
            "conversation.history[1].role enum",
            "conversation.history[1].text required",
            "metadata.custom type",
        ],
    );
    let many: Vec<Value> = (0..500).map(|_| json!({"role": "x", "text": 1, "spec": ""})).collect();
    let document = with(fixture("full", Kind::Request), "/conversation/history", json!(many));
    let violations = Kind::Request.print_again(document.to_string().as_bytes()).unwrap_err();
    assert_eq!(violations.len(), 101);
    assert_eq!(violations.last().unwrap().rule, "truncated");
}

#[test]
fn an_integer_that_would_come_back_as_another_one_is_refused() {
    let document = fixture("full", Kind::Request);
    let large = |pointer: &str| {
        let marked = with(document.clone(), pointer, json!("here")).to_string();
        marked.replace("\"here\"", "123456789012345678901234567890")
    };
    check_text(Kind::Request, &large("/metadata/custom/account"), &["metadata.custom.account range"]);
    check_text(Kind::Request, &large("/user/preferences/size"), &["user.preferences.size range"]);
    check_text(Kind::Request, &large("/timestamp"), &["timestamp range"]);
    check_text(Kind::Request, &large("/routing/confidence"), &["routing.confidence range"]);
}
