//! Over arbitrary documents: a valid one is printed as it was read, and no input is left without an answer.

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::Kind;

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 32, 5, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(".{0,6}", inner, 0..4).prop_map(|object| Value::Object(object.into_iter().collect())),
        ]
    })
}

fn any_object() -> impl Strategy<Value = Value> {
    btree_map(".{0,6}", any_value(), 0..4).prop_map(|object| Value::Object(object.into_iter().collect()))
}

fn not_null() -> impl Strategy<Value = Value> {
    any_value().prop_filter("null is absent", |value| !value.is_null())
}

fn text() -> BoxedStrategy<Value> {
    ".{0,12}".prop_map(Value::from).boxed()
}

fn id() -> BoxedStrategy<Value> {
    ".{1,12}".prop_map(Value::from).boxed()
}

fn confidence() -> BoxedStrategy<Value> {
    prop_oneof![Just(0.0), Just(1.0), Just(-0.0), 0.0..1.0].prop_map(Value::from).boxed()
}

fn timestamp() -> BoxedStrategy<Value> {
    (0..i64::MAX).prop_map(Value::from).boxed()
}

fn count() -> BoxedStrategy<Value> {
    any::<u64>().prop_map(Value::from).boxed()
}

fn list(items: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    vec(items, 0..4).prop_map(Value::from).boxed()
}

/// An object of these fields, of which the optional ones may be absent.
fn object(
    required: Vec<(&'static str, BoxedStrategy<Value>)>,
    optional: Vec<(&'static str, BoxedStrategy<Value>)>,
) -> BoxedStrategy<Value> {
    let field =
        |(key, value): (&'static str, BoxedStrategy<Value>)| value.prop_map(move |value| (key, value));
    let required: Vec<_> = required.into_iter().map(field).collect();
    let optional: Vec<_> = optional.into_iter().map(|entry| option::of(field(entry))).collect();
    (required, optional)
        .prop_map(|(required, optional)| {
            let fields = required.into_iter().chain(optional.into_iter().flatten());
            Value::Object(fields.map(|(key, value)| (key.to_owned(), value)).collect::<Map<_, _>>())
        })
        .boxed()
}

fn any_request() -> impl Strategy<Value = Value> {
    let alternative = object(vec![("spec", id()), ("confidence", confidence())], vec![]);
    let routing = object(
        vec![("confidence", confidence()), ("reason", text())],
        vec![("alternatives", list(alternative))],
    );
    let breakdown =
        object(vec![], vec![("keyword", confidence()), ("intent", confidence()), ("context", confidence())]);
    let context = object(
        vec![("detected_intent", text())],
        vec![
            ("keywords_matched", list(text())),
            ("patterns_matched", list(text())),
            ("suggested_pattern", text()),
            ("tone", text()),
            ("response_style", text()),
            ("spec_title", text()),
            ("spec_description", text()),
            ("confidence_breakdown", breakdown),
        ],
    );
    let role = prop_oneof![Just(json!("user")), Just(json!("assistant"))].boxed();
    let message =
        object(vec![("role", role), ("text", text())], vec![("spec", id()), ("timestamp", timestamp())]);
    let conversation =
        object(vec![], vec![("previous_spec", id()), ("message_count", count()), ("history", list(message))]);
    let user = object(
        vec![],
        vec![
            ("emotional_state", text()),
            ("engagement_level", text()),
            ("preferences", any_object().boxed()),
        ],
    );
    let metadata = object(
        vec![],
        vec![("source", text()), ("session_id", id()), ("device", text()), ("custom", any_object().boxed())],
    );
    object(
        vec![
            ("id", id()),
            ("timestamp", timestamp()),
            ("text", ".{0,6}[a-zñ].{0,6}".prop_map(Value::from).boxed()),
            ("spec", id()),
            ("routing", routing),
            ("context", context),
        ],
        vec![
            ("conversation", conversation),
            ("user", user),
            ("metadata", metadata),
            ("contract_version", Just(json!("1.0.0")).boxed()),
        ],
    )
}

fn any_response() -> impl Strategy<Value = Value> {
    let format = prop_oneof![Just(json!("text")), Just(json!("markdown")), Just(json!("html"))].boxed();
    let answer = object(vec![("text", text()), ("format", format)], vec![("structured", not_null().boxed())]);
    let error = object(
        vec![
            ("code", id()),
            ("message", text()),
            ("recoverable", any::<bool>().prop_map(Value::from).boxed()),
        ],
        vec![("details", text()), ("fallback_spec", id())],
    );
    let metadata = object(
        vec![("processing_time_ms", count()), ("confidence", confidence())],
        vec![("pattern_used", text()), ("tokens_used", count())],
    );
    let transition = object(
        vec![
            ("suggest_spec", id()),
            ("reason", text()),
            ("confidence", confidence()),
            ("auto_transition", any::<bool>().prop_map(Value::from).boxed()),
        ],
        vec![],
    );
    let update = object(
        vec![],
        vec![("emotional_state", text()), ("engagement_level", text()), ("custom", any_object().boxed())],
    );
    let of = |success: bool, outcome: (&'static str, BoxedStrategy<Value>)| {
        object(
            vec![
                ("success", Just(json!(success)).boxed()),
                ("spec", id()),
                ("request_id", id()),
                ("timestamp", timestamp()),
                ("metadata", metadata.clone()),
                outcome,
            ],
            vec![("transition", transition.clone()), ("context_update", update.clone())],
        )
    };
    prop_oneof![of(true, ("response", answer)), of(false, ("error", error))]
}

fn any_document() -> impl Strategy<Value = (Kind, Value)> {
    prop_oneof![
        any_request().prop_map(|document| (Kind::Request, document)),
        any_response().prop_map(|document| (Kind::Response, document)),
    ]
}

/// The value at a place that is drawn by `choices`, from the root down.
fn somewhere<'v>(value: &'v mut Value, choices: &[usize]) -> &'v mut Value {
    let Some((choice, choices)) = choices.split_first() else { return value };
    let count = value.as_object().map_or_else(|| value.as_array().map_or(0, Vec::len), Map::len);
    let Some(index) = choice.checked_rem(count) else { return value };
    match value {
        Value::Object(object) => somewhere(object.values_mut().nth(index).unwrap(), choices),
        Value::Array(items) => somewhere(&mut items[index], choices),
        _ => unreachable!("only lists and objects have items"),
    }
}

proptest! {
    // S001-RS-20
    #[test]
    fn a_valid_document_is_printed_as_it_was_read((kind, document) in any_document()) {
        prop_assert_eq!(kind.print_again(document.to_string().as_bytes()), Ok(document));
    }

    #[test]
    fn a_document_with_a_change_somewhere_is_answered(
        (kind, document) in any_document(),
        choices in vec(any::<usize>(), 1..5),
        value in any_value(),
        key in option::of("[a-z_]{0,8}"),
        version in option::of(prop_oneof![Just("1.0.0"), Just("1.9.0"), Just("2.0.0"), Just("x")]),
    ) {
        let mut document = document;
        let place = somewhere(&mut document, &choices);
        match (place.as_object_mut(), key) {
            (Some(object), Some(key)) => drop(object.insert(key, value)),
            _ => *place = value,
        }
        if let (Some(object), Some(version)) = (document.as_object_mut(), version) {
            object.insert("contract_version".to_owned(), json!(version));
        }
        match kind.print_again(document.to_string().as_bytes()) {
            // Absent and `null` are the same, so it is the second print that has to be equal.
            Ok(printed) => prop_assert_eq!(kind.print_again(printed.to_string().as_bytes()), Ok(printed)),
            Err(violations) => prop_assert!(!violations.is_empty()),
        }
    }

    #[test]
    fn any_bytes_are_answered(bytes in vec(any::<u8>(), 0..200), text in ".{0,200}") {
        for kind in [Kind::Request, Kind::Response] {
            // A few bytes are never a document.
            prop_assert!(kind.print_again(&bytes).is_err());
            prop_assert!(kind.print_again(text.as_bytes()).is_err());
        }
    }

    #[test]
    fn a_document_with_bytes_cut_out_or_put_in_is_answered(
        (kind, document) in any_document(), start in any::<prop::sample::Index>(), length in 0..20_usize,
        put_in in vec(any::<u8>(), 0..6),
    ) {
        let mut bytes = document.to_string().into_bytes();
        let start = start.index(bytes.len());
        let end = (start + length).min(bytes.len());
        bytes.splice(start..end, put_in);
        let _ = kind.print_again(&bytes);
    }
}
