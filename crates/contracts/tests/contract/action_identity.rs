//! Over arbitrary documents of browser actions: what is read is printed as it was, and no input is left without an
//! answer.

use capataz_contracts::script_file::{self, Format};
use capataz_contracts::validate::{action, executor_error, open_browser, propose, script};
use capataz_contracts::{json, v1};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use prost::Message;
use serde_json::{Map, Value, json};

type Field = (&'static str, BoxedStrategy<Value>);

/// An object of these fields, of which the optional ones may be absent.
fn object(required: Vec<Field>, optional: Vec<Field>) -> BoxedStrategy<Value> {
    let field = |(key, value): Field| value.prop_map(move |value| (key, value));
    let required: Vec<_> = required.into_iter().map(field).collect();
    let optional: Vec<_> = optional.into_iter().map(|entry| option::of(field(entry))).collect();
    (required, optional)
        .prop_map(|(required, optional)| {
            let fields = required.into_iter().chain(optional.into_iter().flatten());
            Value::Object(fields.map(|(key, value)| (key.to_owned(), value)).collect::<Map<_, _>>())
        })
        .boxed()
}

fn text() -> BoxedStrategy<Value> {
    ".{0,8}".prop_map(Value::from).boxed()
}

/// A text where an empty one is the same as none.
fn some_text() -> BoxedStrategy<Value> {
    ".{1,8}".prop_map(Value::from).boxed()
}

fn boolean() -> BoxedStrategy<Value> {
    any::<bool>().prop_map(Value::from).boxed()
}

fn count() -> BoxedStrategy<Value> {
    any::<u32>().prop_map(Value::from).boxed()
}

fn bytes() -> BoxedStrategy<Value> {
    any::<u64>().prop_map(Value::from).boxed()
}

fn milliseconds() -> BoxedStrategy<Value> {
    (0..i64::MAX).prop_map(Value::from).boxed()
}

fn word(words: &'static [&'static str]) -> BoxedStrategy<Value> {
    select(words).prop_map(Value::from).boxed()
}

/// A list where an empty one is the same as none.
fn list(items: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    vec(items, 1..3).prop_map(Value::from).boxed()
}

fn a_dict() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    let value = leaf.prop_recursive(4, 16, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::from),
            btree_map(".{0,4}", inner, 0..3).prop_map(|object| Value::Object(object.into_iter().collect())),
        ]
    });
    btree_map(".{0,4}", value, 0..3).prop_map(|object| Value::Object(object.into_iter().collect())).boxed()
}

fn a_target(depth: u32) -> BoxedStrategy<Value> {
    let mut optional = vec![
        ("testid", text()),
        ("role", text()),
        ("name", text()),
        ("label", text()),
        ("css", text()),
        ("xpath", text()),
        ("text", text()),
        ("ref", text()),
        ("nth", count()),
        ("match", word(&["exact", "contains", "regex"])),
    ];
    if depth > 0 {
        optional.push(("frame", list(a_target(depth - 1))));
    }
    object(vec![], optional)
}

fn a_condition(depth: u32) -> BoxedStrategy<Value> {
    let mut optional =
        vec![("target", a_target(1)), ("value", text()), ("count", count()), ("attribute", text())];
    if depth > 0 {
        optional.push(("condition", a_condition(depth - 1)));
    }
    object(vec![("kind", word(&["visible", "not", "element_count_equals", "no_overlay"]))], optional)
}

fn an_action() -> BoxedStrategy<Value> {
    object(
        vec![("id", some_text()), ("kind", word(&["navigate", "fill", "wait_for", "screenshot"]))],
        vec![
            ("target", a_target(1)),
            ("rationale", text()),
            ("criticality", word(&["normal", "critical"])),
            ("repeatable", boolean()),
            ("url", text()),
            ("value", text()),
            ("key", text()),
            ("options", list(text())),
            ("files", list(text())),
            ("conditions", list(a_condition(2))),
            ("extract", word(&["text", "value", "attribute", "table"])),
            ("attribute", text()),
            ("output", text()),
            ("pre", list(a_condition(1))),
            ("post", list(a_condition(1))),
            ("timeout_ms", milliseconds()),
            ("wait_until", word(&["commit", "dom", "load"])),
            ("on_failure", word(&["halt", "continue"])),
            ("retry", object(vec![], vec![("limit", count()), ("on", list(text()))])),
            ("dialogs", word(&["dismiss", "accept", "fail"])),
            ("full_page", Just(json!(true)).boxed()),
        ],
    )
}

fn a_script() -> BoxedStrategy<Value> {
    let multiplier = (0.0..1e9).prop_map(Value::from).boxed();
    let policy = object(
        vec![],
        vec![
            ("allowlist", list(text())),
            ("blocked_requests", word(&["fail", "record"])),
            ("max_steps", count()),
            ("retry_on", list(text())),
            ("backoff", object(vec![], vec![("base_delay_ms", milliseconds()), ("multiplier", multiplier)])),
            (
                "recovery",
                list(object(vec![("do", word(&["close_overlay", "back"]))], vec![("on", list(text()))])),
            ),
            ("new_tabs", word(&["follow", "close"])),
            ("critical", list(object(vec![], vec![("kind", word(&["click"])), ("host", text())]))),
            ("redaction", object(vec![], vec![("selectors", list(text()))])),
            ("overlays", list(a_target(0))),
        ],
    );
    let variables = btree_map(".{0,4}", text(), 1..3)
        .prop_map(|object| Value::Object(object.into_iter().collect()))
        .boxed();
    object(
        vec![("name", some_text()), ("actions", list(an_action()))],
        vec![
            ("variables", variables),
            ("policy", policy),
            ("browser", object(vec![], vec![("width", count()), ("locale", text())])),
            ("idle_timeout_ms", milliseconds()),
        ],
    )
}

fn a_signature() -> BoxedStrategy<Value> {
    let keys =
        ["schema_version", "url", "title", "dom_hash", "anchors_hash", "inputs_hash", "screenshot_hash"];
    object(keys.into_iter().map(|key| (key, text())).collect(), vec![])
}

fn a_reference() -> BoxedStrategy<Value> {
    object(
        vec![
            ("id", text()),
            ("kind", text()),
            ("media_type", text()),
            ("bytes", bytes()),
            ("redacted", boolean()),
        ],
        vec![],
    )
}

fn an_error() -> BoxedStrategy<Value> {
    let stages = &["proposal_validation", "policy", "precondition", "execution", "postcondition", "evidence"];
    let failed =
        object(vec![("kind", text()), ("phase", word(&["pre", "post", "assert"]))], vec![("args", a_dict())]);
    object(
        vec![
            ("schema_version", text()),
            ("error_code", text()),
            ("stage", word(stages)),
            ("severity", word(&["warning", "error", "critical"])),
            ("message", text()),
            ("retryable", boolean()),
            ("run_id", text()),
            ("seq", bytes()),
            ("step_index", count()),
            ("action_id", text()),
            ("action_kind", word(&["click", "scroll_to"])),
            ("criticality", word(&["normal", "critical"])),
            ("state_before", a_signature()),
            ("evidence_refs", list(a_reference())),
            ("created_at", text()),
        ],
        vec![
            ("state_after", a_signature()),
            ("cause", text()),
            ("details", a_dict()),
            ("debug_message", text()),
            ("failed_conditions", list(failed)),
            ("action_spec", an_action()),
        ],
    )
}

fn read_back<M: Message + Default>(name: &str, document: &Value) -> (M, Value) {
    let read: M = json::parse(name, document).unwrap();
    let printed = json::print(name, &read);
    (read, printed)
}

proptest! {
    #[test]
    fn scripts_are_printed_as_they_were_read(document in a_script()) {
        let (read, printed) = read_back::<v1::Script>("capataz.v1.Script", &document);
        prop_assert_eq!(&printed, &document);
        prop_assert_eq!(script_file::parse(&document.to_string(), Format::Json), Ok(read.clone()));
        let _ = script(&read);
    }

    #[test]
    fn actions_are_printed_as_they_were_read(document in an_action()) {
        let (read, printed) = read_back::<v1::Action>("capataz.v1.Action", &document);
        prop_assert_eq!(printed, document);
        let _ = action(&read);
    }

    // S002-PR-02
    #[test]
    fn errors_are_printed_as_they_were_read(document in an_error()) {
        let (read, printed) = read_back::<v1::ExecutorError>("capataz.v1.ExecutorError", &document);
        prop_assert_eq!(printed, document);
        let _ = executor_error(&read);
    }

    #[test]
    fn states_and_evidence_are_printed_as_they_were_read(state in a_signature(), evidence in a_reference()) {
        let (_, printed) = read_back::<v1::StateSignature>("capataz.v1.StateSignature", &state);
        prop_assert_eq!(printed, state);
        let (_, printed) = read_back::<v1::EvidenceRef>("capataz.v1.EvidenceRef", &evidence);
        prop_assert_eq!(printed, evidence);
    }

    #[test]
    fn near_scripts_are_answered(document in a_script(), key in "[a-z_]{1,8}", value in a_dict(), at in 0..4) {
        let mut document = document;
        let place = match at {
            0 => &mut document,
            1 => &mut document["actions"][0],
            2 => &mut document["actions"][0]["target"],
            _ => &mut document["policy"],
        };
        if let Some(object) = place.as_object_mut() {
            object.insert(key, value);
        }
        let _ = script_file::parse(&document.to_string(), Format::Json);
        let Ok(text) = toml::to_string(&document) else { return Ok(()) };
        let _ = script_file::parse(&text, Format::Toml);
    }

    #[test]
    fn whatever_comes_over_the_wire_is_answered(bytes in vec(any::<u8>(), 0..200)) {
        if let Ok(typed) = v1::Script::decode(bytes.as_slice()) {
            let _ = script(&typed);
        }
        if let Ok(typed) = v1::OpenBrowserRequest::decode(bytes.as_slice()) {
            let _ = open_browser(&typed);
        }
        if let Ok(typed) = v1::ProposeRequest::decode(bytes.as_slice()) {
            let _ = propose(&typed);
        }
        if let Ok(typed) = v1::ExecutorError::decode(bytes.as_slice()) {
            let _ = executor_error(&typed);
        }
        let _ = script_file::parse_bytes(&bytes, Format::Toml);
    }
}
