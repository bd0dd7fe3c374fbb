use capataz_contracts::{json, v1};
use serde_json::{Value, json};

use crate::in_short;

/// Parses a plan; expects the violations as `path rule`.
#[track_caller]
fn check(document: Value, expected: &[&str]) {
    let violations = json::parse::<v1::Plan>("capataz.v1.Plan", &document).err().unwrap_or_default();
    assert_eq!(in_short(&violations), expected, "{violations:#?}");
}

#[track_caller]
fn message(document: Value) -> String {
    let violations = json::parse::<v1::Plan>("capataz.v1.Plan", &document).unwrap_err();
    violations.iter().map(|violation| violation.message.as_str()).collect::<Vec<_>>().join("\n")
}

#[track_caller]
fn retry(document: Value) -> v1::RetryPolicy {
    json::parse("capataz.v1.RetryPolicy", &document).unwrap()
}

#[track_caller]
fn payload(document: Value) -> v1::Payload {
    json::parse("capataz.v1.Payload", &document).unwrap()
}

/// Parses a payload; expects the violations as `path rule`.
#[track_caller]
fn check_payload(document: Value, expected: &[&str]) {
    let violations = json::parse::<v1::Payload>("capataz.v1.Payload", &document).err().unwrap_or_default();
    assert_eq!(in_short(&violations), expected, "{violations:#?}");
}

fn inline(media_type: &str, bytes: &'static [u8]) -> v1::Payload {
    v1::Payload { media_type: media_type.to_owned(), data: Some(v1::payload::Data::Inline(bytes.into())) }
}

#[test]
fn all_violations_are_found_in_one_pass() {
    check(
        json!({
            "name": 7,
            "on_high": "explode",
            "policy": {"kind": "quorum", "quorum_threshold": "half"},
            "wave": [],
            "waves": [{"tasks": [
                {"name": "a", "agent": "x"},
                {"name": "b", "critical": "yes", "retry": {"max_attempts": -1, "base_delay": 5}},
            ]}],
        }),
        &[
            "name type",
            "on_high enum",
            "policy.quorum_threshold type",
            "wave unknown_key",
            "waves[0].tasks[1].critical type",
            "waves[0].tasks[1].retry.base_delay duration",
            "waves[0].tasks[1].retry.max_attempts range",
        ],
    );
}

#[test]
fn an_unknown_key_suggests_the_nearest_one() {
    assert!(message(json!({"nmae": "x"})).ends_with("did you mean `name`?"));
    assert!(message(json!({"timeout": {}})).ends_with("did you mean `timeouts`?"));
    assert!(!message(json!({"zzzzzz": 1})).contains("did you mean"));
    check(json!({"a b": null}), &["[\"a b\"] unknown_key"]);
    // In the form that documents have, unless whoever writes has chosen the other one.
    let of_retry = |key: &str| message(json!({"retry": {key: 3}}));
    assert!(of_retry("attempts").ends_with("did you mean `max_attempts`?"));
    assert!(of_retry("maxAtempts").ends_with("did you mean `maxAttempts`?"));
    assert!(of_retry("basedela").ends_with("did you mean `base_delay`?"));
}

#[test]
fn a_key_that_is_known_elsewhere_is_told_with_at_most_two_places() {
    let of_policy = |key: &str| message(json!({"policy": {key: null}}));
    let here = |key: &str| format!("there is no key `{key}` here");
    assert_eq!(of_policy("on_high"), here("on_high") + "; it is a key of the top level");
    let both = "; it is a key of the top level and of `waves[].tasks[]`";
    assert_eq!(of_policy("retry"), here("retry") + both);
    // A key may be written in each of its forms.
    assert_eq!(of_policy("maxAttempts"), here("maxAttempts") + "; it is a key of `retry`");
    assert_eq!(of_policy("detached"), here("detached") + "; it is a key of `waves[].tasks[].run`");
    let of_task = message(json!({"waves": [{"tasks": [{"quorum_threshold": 0.5}]}]}));
    assert_eq!(of_task, here("quorum_threshold") + "; it is a key of `policy`");
    // Three messages know a name; the two nearest to the top level are told.
    assert_eq!(of_policy("name"), here("name") + "; it is a key of the top level and of `waves[]`");
    // What only the daemon writes is nobody's key, and a near key is meant rather than one elsewhere.
    assert_eq!(of_policy("continues"), here("continues"));
    assert_eq!(message(json!({"timeout": {}})), here("timeout") + "; did you mean `timeouts`?");
    let script = json::parse::<v1::Script>("capataz.v1.Script", &json!({"browser": {"allowlist": []}}));
    assert_eq!(script.unwrap_err()[0].message, here("allowlist") + "; it is a key of `policy`");
}

#[test]
fn an_enum_names_what_is_allowed() {
    assert_eq!(message(json!({"on_high": "stop"})), "\"stop\" is not one of continue, pause");
    let severity = |text: &str| json!({"waves": [{"tasks": [{"severity": text}]}]});
    assert_eq!(message(severity("fatal")), "\"fatal\" is not one of LOW, MEDIUM, HIGH, CRITICAL");
    check(severity("HIGH"), &[]);
    check(severity("high"), &[]);
    check(json!({"on_high": "Pause"}), &[]);
    check(json!({"on_high": 2}), &["on_high type"]);
    check(json!({"on_high": "ON_HIGH_PAUSE"}), &["on_high enum"]);
}

#[test]
fn wrong_types() {
    check(json!([]), &[" type"]);
    check(json!({"waves": {}}), &["waves type"]);
    check(json!({"waves": [null, 3]}), &["waves[0] type", "waves[1] type"]);
    check(json!({"commands": ["a", 1]}), &["commands[1] type"]);
    check(json!({"waves": null, "name": null}), &[]);
}

#[test]
fn integers_have_their_range() {
    let attempts = |number: Value| json!({"retry": {"max_attempts": number}});
    check(attempts(json!(4_294_967_295_u32)), &[]);
    check(attempts(json!(4_294_967_296_u64)), &["retry.max_attempts range"]);
    check(attempts(json!(1e30)), &["retry.max_attempts range"]);
    check(attempts(json!(2.5)), &["retry.max_attempts type"]);
    check(attempts(json!(2.0)), &["retry.max_attempts type"]);
    check(attempts(json!("3")), &["retry.max_attempts type"]);
    check(json!({"retry": {"delays_ms": [1, 9_223_372_036_854_775_808_u64]}}), &["retry.delays_ms[1] range"]);
    check(json!({"policy": {"quorum_threshold": 1}}), &[]);
}

#[test]
fn camel_case_names_the_same_field() {
    let policy = retry(json!({"maxAttempts": 3, "baseDelayMs": 1000, "maxDelay": "30s", "delaysMs": [1]}));
    assert_eq!(policy.max_attempts, Some(3));
    assert_eq!(policy.base_delay_ms, Some(1_000));
    assert_eq!(policy.max_delay_ms, Some(30_000));
    assert_eq!(policy.delays_ms, [1]);
    check(json!({"retry": {"maxAttempts": 3, "max_attempts": 3}}), &["retry.max_attempts duplicate_key"]);
}

#[test]
fn durations() {
    assert_eq!(retry(json!({"base_delay": "1h 30m"})).base_delay_ms, Some(5_400_000));
    assert_eq!(retry(json!({"base_delay_ms": 250})).base_delay_ms, Some(250));
    assert_eq!(retry(json!({"base_delay": null, "base_delay_ms": 0})).base_delay_ms, Some(0));
    let timeouts = |key: &str, value: Value| json!({"timeouts": {(key): value}});
    check(timeouts("timeout", json!("250ms")), &[]);
    check(timeouts("timeout", json!("90")), &["timeouts.timeout duration"]);
    check(timeouts("timeout", json!(90)), &["timeouts.timeout duration"]);
    check(timeouts("timeout", json!("-1s")), &["timeouts.timeout duration"]);
    check(timeouts("timeout", json!("0.5ms")), &["timeouts.timeout duration"]);
    check(timeouts("timeout", json!("999999999999d")), &["timeouts.timeout duration"]);
    check(timeouts("timeout", json!([])), &["timeouts.timeout type"]);
    check(timeouts("timeout_ms", json!(-1)), &["timeouts.timeout_ms duration"]);
    check(timeouts("timeout_ms", json!("90s")), &["timeouts.timeout_ms type"]);
    check(json!({"timeouts": {"timeout": "1s", "timeout_ms": 1}}), &["timeouts.timeout_ms duplicate_key"]);
}

#[test]
fn a_oneof_has_one_member() {
    let parse = |document: Value| json::parse::<v1::ConnectRequest>("capataz.v1.ConnectRequest", &document);
    let violations = parse(json!({"ack": {}, "drain": {}, "heartbeat": {}})).unwrap_err();
    assert_eq!(in_short(&violations), ["drain oneof", "heartbeat oneof"]);
    let frame = parse(json!({"ack": null, "heartbeat": {}})).unwrap().frame;
    assert!(matches!(frame, Some(v1::connect_request::Frame::Heartbeat(_))));
}

#[test]
fn only_the_daemon_sets_output_only_fields() {
    let document = json!({"agent": {"name": "a"}, "last_seen_ms": 5});
    let violations = json::parse::<v1::AgentStatus>("capataz.v1.AgentStatus", &document).unwrap_err();
    assert_eq!(in_short(&violations), ["last_seen_ms output_only"]);
    let agent = v1::Agent { name: "a".to_owned(), ..v1::Agent::default() };
    let status = v1::AgentStatus { agent: Some(agent), last_seen_ms: Some(5), ..v1::AgentStatus::default() };
    assert_eq!(json::print("capataz.v1.AgentStatus", &status), document);
}

#[test]
fn bytes_are_base64() {
    let parse = |text: &str| {
        let document = json!({"cursor": text});
        json::parse::<v1::SubscribeRequest>("capataz.v1.SubscribeRequest", &document)
    };
    assert_eq!(parse("AAH/").unwrap().cursor.as_ref(), [0, 1, 255]);
    assert_eq!(in_short(&parse("A*").unwrap_err()), ["cursor base64"]);
}

#[test]
fn a_json_payload_is_its_value() {
    for value in
        [json!({"b": 1, "a": [1.0, null]}), json!([]), json!("text"), json!(0), json!({"$media_type": "x"})]
    {
        let read = payload(value.clone());
        assert_eq!(read.media_type, "application/json");
        assert_eq!(json::print("capataz.v1.Payload", &read), value);
    }
}

#[test]
fn other_payloads_say_what_they_are() {
    let text = json!({"$media_type": "text/plain", "$text": "hola"});
    assert_eq!(payload(text.clone()), inline("text/plain", b"hola"));
    assert_eq!(json::print("capataz.v1.Payload", &inline("text/plain", b"hola")), text);

    let bytes = json!({"$media_type": "image/png", "$base64": "AAE="});
    assert_eq!(payload(bytes.clone()), inline("image/png", &[0, 1]));
    assert_eq!(json::print("capataz.v1.Payload", &inline("image/png", &[0, 1])), bytes);

    let blob =
        json!({"$media_type": "image/png", "$blob": {"blake3": "ab", "size": 9_007_199_254_740_993_u64}});
    assert_eq!(json::print("capataz.v1.Payload", &payload(blob.clone())), blob);
}

#[test]
fn a_json_payload_that_looks_reserved_is_printed_as_text() {
    let value = inline("application/json", br#"{"$base64":1}"#);
    let printed = json::print("capataz.v1.Payload", &value);
    assert_eq!(printed, json!({"$media_type": "application/json", "$text": "{\"$base64\":1}"}));
    assert_eq!(payload(printed), value);
}

#[test]
fn reserved_keys_stand_alone() {
    check_payload(json!({"$base64": "AA=="}), &[" payload"]);
    check_payload(json!({"$media_type": "a/b", "$base64": "AA==", "$text": ""}), &[" payload"]);
    check_payload(json!({"$media_type": "a/b", "$text": "", "other": 1}), &["other payload"]);
    check_payload(json!({"$media_type": 1, "$text": 2}), &["$media_type type", "$text type"]);
    check_payload(json!({"$media_type": "a/b", "$base64": "?"}), &["$base64 base64"]);
    check_payload(
        json!({"$media_type": "a/b", "$blob": {"blake3": "x", "size": -1, "hash": ""}}),
        &["$blob.hash unknown_key", "$blob.size range"],
    );
    check_payload(json!({"nested": {"$base64": 1}}), &[]);
}

#[test]
fn what_is_set_is_printed_and_what_is_not_is_left_out() {
    let mut task = v1::Task { name: "a".to_owned(), ..Default::default() };
    assert_eq!(json::print("capataz.v1.Task", &task), json!({"name": "a"}));
    task.retry = Some(v1::RetryPolicy { max_attempts: Some(0), jitter: Some(false), ..Default::default() });
    task.severity = Some(v1::Severity::Low.into());
    task.effect = Some(v1::Effect::AtMostOnce.into());
    assert_eq!(
        json::print("capataz.v1.Task", &task),
        json!({
            "name": "a",
            "retry": {"max_attempts": 0, "jitter": false},
            "severity": "LOW",
            "effect": "at_most_once",
        })
    );
}

#[test]
fn an_event_is_printed_from_its_stored_bytes() {
    use prost::Message;
    let body = v1::event::Body::RunPaused(v1::RunPaused { request_id: "r".to_owned() });
    let event = v1::Event { seq: u64::MAX, at_ms: -1, format: 0, elapsed_ms: 0, body: Some(body) };
    assert_eq!(
        json::print_bytes("capataz.v1.Event", &event.encode_to_vec()).unwrap(),
        json!({"seq": u64::MAX, "at_ms": -1, "run_paused": {"request_id": "r"}})
    );
    assert_eq!(json::print_bytes("capataz.v1.Event", &[0xff]).unwrap_err().rule, "encoding");
}

#[test]
fn numbers_that_json_does_not_have_are_null() {
    let frame = v1::ProgressFrame { fraction: Some(f64::NAN), ..Default::default() };
    assert_eq!(json::print("capataz.v1.ProgressFrame", &frame), json!({"fraction": null}));
}

#[test]
fn a_name_that_is_no_message() {
    let violations = json::parse::<v1::Plan>("capataz.v1.Nothing", &json!({})).unwrap_err();
    assert_eq!(in_short(&violations), [" internal"]);
    assert_eq!(json::print("capataz.v1.Nothing", &v1::Plan::default()), Value::Null);
}

#[test]
fn json_text_is_read_strictly() {
    let syntax = |text: &str| json::from_str(text).unwrap_err().message;
    assert!(syntax(r#"{"a": 1, "a": 2}"#).starts_with("the key `a` is written twice at line 1"));
    let reserved = r#"{"a": {"$serde_json::private::RawValue": "[1,2]"}}"#;
    assert!(syntax(reserved).contains("is reserved"), "{}", syntax(reserved));
    assert!(syntax("{\n  \"a\": }").contains("line 2 column 8"));
    assert!(syntax("{} {}").contains("trailing"));
    assert!(syntax("").contains("EOF"));
    assert_eq!(json::from_str("\u{feff}[1]").unwrap(), json!([1]));
    assert_eq!(json::from_slice(b"[\"\xff\"]").unwrap_err().rule, "syntax");
}

/// CONTRACTS §0: documents of seeds 003 and 004 have the seeds' names; the fields' own names are read as well.
#[test]
fn documents_of_seeds_003_and_004_have_the_names_of_the_seeds() {
    let checkpoint = json!({
        "productId": "shop", "phase": "read", "status": "blocked", "checkpointVersion": "v1.0",
        "createdAt": 1, "updatedAt": 2, "runId": "r", "errorMessage": "no title",
    });
    let own = json!({
        "product_id": "shop", "phase": "read", "status": "blocked", "checkpoint_version": "v1.0",
        "created_at_ms": 1, "updated_at_ms": 2, "run_id": "r", "error_message": "no title",
    });
    let name = "capataz.v1.Checkpoint";
    let read: v1::Checkpoint = json::parse(name, &checkpoint).unwrap();
    assert_eq!(read, json::parse(name, &own).unwrap());
    assert_eq!((read.created_at_ms, json::print(name, &read)), (Some(1), checkpoint));

    let assessed = json!({
        "estimatedSteps": 2, "complexityScore": 0.5, "riskLevel": "low", "confidence": 0.9, "reasoning": ["short"],
    });
    let name = "capataz.v1.AssessRiskResponse";
    let read: v1::AssessRiskResponse = json::parse(name, &assessed).unwrap();
    assert_eq!(json::print(name, &read), assessed);

    // "Zero, false and "" are kept."
    let state = json!({
        "sessionId": "s", "mode": "planner", "step": 0, "errorCount": 1, "executionState": "executing", "progress": 0.5,
        "approved": false, "deviation": 0.0, "replans": 0, "escalations": 0, "memoryEntries": 0, "memoryTokens": 0,
        "lastResult": { "tool": "read", "durationMs": 7 },
        "plan": {
            "revision": 1, "estimatedMinutes": 0.0,
            "steps": [{
                "id": "b", "description": "", "tool": "read", "parameters": {}, "expected": null, "dependsOn": ["a"],
            }],
        },
        "checkpoints": [{
            "id": "c1", "timestamp": 5, "reason": "", "step": 0, "canRollback": false, "whyNot": "", "seq": 0,
        }],
    });
    let name = "capataz.v1.ExecutionState";
    let read: v1::ExecutionState = json::parse(name, &state).unwrap();
    assert_eq!(read.checkpoints[0].checkpoint_id, "c1");
    assert_eq!(json::print(name, &read), state);
}
