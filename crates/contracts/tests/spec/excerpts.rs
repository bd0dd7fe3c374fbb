//! What is gone by of a response that is too large for an event.

use capataz_contracts::spec::{MAX_BYTES, TEXT_BYTES, excerpt, excerpt_of_size, parse_response};
use capataz_contracts::v1::AnswerExcerpt;
use serde_json::{Map, Value, json};

use crate::{Kind, fixture, with};

fn response() -> Value {
    fixture("full", Kind::Response)
}

fn excerpt_of(document: &Value) -> AnswerExcerpt {
    excerpt(document.to_string().as_bytes())
}

/// The response that the excerpt holds, which is one by itself.
#[track_caller]
fn read(excerpt: &AnswerExcerpt) -> Value {
    assert_eq!(excerpt.broken, "");
    parse_response(excerpt.response.as_bytes()).unwrap();
    serde_json::from_str(&excerpt.response).unwrap()
}

#[track_caller]
fn check_broken(document: &[u8], expected: &str) {
    let AnswerExcerpt { response, broken, .. } = excerpt(document);
    assert_eq!(response, "");
    assert!(broken.contains(expected) && broken.len() <= 16 * 1024, "{broken}");
}

/// The full response with as long a text as makes it have so many bytes.
fn of_bytes(bytes: usize) -> Vec<u8> {
    let empty = with(response(), "/response/text", json!("")).to_string().len();
    with(response(), "/response/text", json!("y".repeat(bytes - empty))).to_string().into_bytes()
}

#[test]
fn an_excerpt_has_what_an_ask_goes_by() {
    let whole = with(response(), "/response/text", json!("ñ".repeat(300_000)));
    let mut expected = whole.clone();
    expected["response"]["text"] = json!("ñ".repeat(TEXT_BYTES / 2));
    expected["response"].as_object_mut().unwrap().remove("structured");
    let excerpt = excerpt_of(&whole);
    assert_eq!(read(&excerpt), expected);
    assert_eq!((excerpt.left_out.len(), excerpt.more_left_out), (0, 0));
}

// S001-BP-05
#[test]
fn a_response_has_at_most_a_mebibyte() {
    assert_eq!(MAX_BYTES, 1_048_576);
    let text = read(&excerpt(&of_bytes(1_048_576)))["response"]["text"].clone();
    assert_eq!(text, json!("y".repeat(4_096)));
    check_broken(&of_bytes(1_048_577), "1048577 bytes, at most 1048576");
    assert_eq!(excerpt_of_size(1_048_576), None);
    let too_large = excerpt_of_size(1_048_577).unwrap();
    assert!(too_large.broken.contains("1048577 bytes, at most 1048576"), "{}", too_large.broken);
}

#[test]
fn what_is_no_response_says_why() {
    // In the middle of a text: the document around it is whole.
    let mut no_utf8 = of_bytes(100_000);
    let long = no_utf8.windows(4).position(|four| four == b"yyyy").unwrap();
    no_utf8[long] = 0xff;
    check_broken(&no_utf8, "syntax");
    let nested = with(response(), "/response/structured", json!("NESTED")).to_string();
    let nested = |levels| nested.replace("\"NESTED\"", &["[".repeat(levels), "]".repeat(levels)].concat());
    // The document and `response` are two levels.
    read(&excerpt(nested(62).as_bytes()));
    check_broken(nested(63).as_bytes(), "64 levels");
    check_broken(nested(100_000).as_bytes(), "");
    let twice = response().to_string().replacen('{', "{\"spec\":\"other\",", 1);
    check_broken(twice.as_bytes(), "spec");
    check_broken(b"", "");
    // However many violations there are, their text is bounded.
    let keys: Map<String, Value> = (0..10_000).map(|key| (format!("key-{key}"), json!(1))).collect();
    check_broken(Value::Object(keys).to_string().as_bytes(), "unknown_key");
}

#[test]
fn what_no_session_has_room_for_is_named() {
    // Each is `"key-0000":"xxxxxxxxxxxxxxxx",`: 30 bytes, and 262,144 bytes have room for 8,738 of them. The mood and the
    // attention come first.
    let many: Map<String, Value> =
        (0..10_000).map(|number| (format!("key-{number:04}"), json!("x".repeat(16)))).collect();
    let excerpt = excerpt_of(&with(response(), "/context_update", json!({ "custom": many })));
    let custom = read(&excerpt)["context_update"]["custom"].clone();
    assert_eq!(custom.as_object().unwrap().len(), 8_738);
    let expected: Vec<String> = (8_738..10_000).map(|number| format!("custom.key-{number:04}")).collect();
    assert_eq!((excerpt.left_out, excerpt.more_left_out), (expected, 0));

    let update = json!({ "emotional_state": "x".repeat(300_000), "engagement_level": "low", "custom": {} });
    let excerpt = excerpt_of(&with(response(), "/context_update", update));
    assert_eq!(read(&excerpt)["context_update"], json!({ "engagement_level": "low", "custom": {} }));
    assert_eq!(excerpt.left_out, ["emotional_state"]);
}

#[test]
fn a_failure_has_as_much_room_as_any_answer() {
    // As above: 262,144 bytes have room for 8,738 keys of 30 bytes.
    let many: Map<String, Value> =
        (0..9_000).map(|number| (format!("key-{number:04}"), json!("x".repeat(16)))).collect();
    let failure = json!({
        "success": false, "spec": "s", "request_id": "r", "timestamp": 1,
        "metadata": { "processing_time_ms": 1, "confidence": 0.5 },
        "error": { "code": "OWN", "message": "m", "recoverable": false, "fallback_spec": "f" },
        "context_update": { "custom": many },
    });
    let excerpt = excerpt_of(&failure);
    assert_eq!(read(&excerpt)["context_update"]["custom"].as_object().unwrap().len(), 8_738);
    assert_eq!(excerpt.left_out.len(), 262);
}

#[test]
fn however_long_its_parts_are_an_excerpt_is_short() {
    let long = json!("x".repeat(200_000));
    let failure = json!({
        "success": false, "spec": "s", "request_id": "r", "timestamp": 1,
        "metadata": { "processing_time_ms": 1, "confidence": 0.5, "pattern_used": long },
        "error": { "code": "OWN", "message": long, "details": long, "recoverable": true, "fallback_spec": "f" },
        "transition": { "suggest_spec": "t", "reason": long, "confidence": 0.5, "auto_transition": false },
    });
    let excerpt = excerpt_of(&failure);
    let read = read(&excerpt);
    assert!(excerpt.response.len() < 32 * 1024, "{}", excerpt.response.len());
    assert_eq!(read["error"]["message"], json!("x".repeat(16 * 1024)));
    assert_eq!(
        (&read["error"]["fallback_spec"], &read["transition"]["suggest_spec"]),
        (&json!("f"), &json!("t"))
    );
}
