//! `x-lowercase`: what a schema marks is rewritten in lower case, and no other byte changes.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests fail by panicking")]

use capataz_judge::{JUDGED_MAX, Schema};
use proptest::prelude::*;
use serde_json::{Value, json};

/// `expected` is the text after, or `None` where nothing is rewritten.
#[track_caller]
fn check(schema: &Value, text: &str, expected: Option<&str>) {
    let schema = Schema::compile(&schema.to_string()).unwrap();
    let lowered = schema.lowered(text.as_bytes()).map(|bytes| String::from_utf8(bytes).unwrap());
    assert_eq!(lowered.as_deref(), expected, "{text}");
}

fn colour() -> Value {
    json!({"enum": ["red", "green", 7], "x-lowercase": true})
}

// S003-OU-10
#[test]
fn a_marked_text_is_rewritten_and_every_other_byte_stays() {
    let schema = json!({"properties": {"a": colour(), "b": {"type": "string"}}});
    check(
        &schema,
        "{ \"b\":\t\"RED\" ,\r\n  \"a\" : \"Red\" , \"c\": 1.0e+2, \"\\u0064\": \"GREEN\" }\n",
        Some("{ \"b\":\t\"RED\" ,\r\n  \"a\" : \"red\" , \"c\": 1.0e+2, \"\\u0064\": \"GREEN\" }\n"),
    );
    check(&schema, "\u{feff}{\"a\":\"RED\"}", Some("\u{feff}{\"a\":\"red\"}"));
}

#[test]
fn what_is_right_or_wrong_in_any_case_is_left_alone() {
    let schema = json!({"properties": {"a": colour()}});
    for text in [r#"{"a":"red"}"#, r#"{"a":"MIXED"}"#, r#"{"a":7}"#, r#"{"a":null}"#, r#"["RED"]"#, "{}"] {
        check(&schema, text, None);
    }
    check(&json!({"properties": {"a": {"enum": ["red"]}}}), r#"{"a":"RED"}"#, None);
    check(&json!({"properties": {"a": {"enum": ["red"], "x-lowercase": false}}}), r#"{"a":"RED"}"#, None);
    // The schema allows it as it is.
    check(&json!({"enum": ["RED", "red"], "x-lowercase": true}), r#""RED""#, None);
}

#[test]
fn escapes_are_read_and_letters_are_those_of_unicode() {
    let schema = json!({"properties": {"a": {"enum": ["a\"b\\", "größe", "x/y"], "x-lowercase": true}}});
    check(&schema, r#"{"a":"A\"B\\"}"#, Some(r#"{"a":"a\"b\\"}"#));
    check(&schema, r#"{"\u0061":"GR\u00d6\u00dfE"}"#, Some(r#"{"\u0061":"größe"}"#));
    check(&schema, r#"{"q\"}":"]","a":"X\/Y"}"#, Some(r#"{"q\"}":"]","a":"x/y"}"#));
}

#[test]
fn marks_hold_in_lists_references_and_forms() {
    let list =
        json!({"properties": {"l": {"items": {"items": {"$ref": "#/$defs/c"}}}}, "$defs": {"c": colour()}});
    check(
        &list,
        r#"{"l":[["RED","red"],[],["GREEN",{"x":["RED"]}]]}"#,
        Some(r#"{"l":[["red","red"],[],["green",{"x":["RED"]}]]}"#),
    );
    let any = json!({"anyOf": [{"type": "null"}, colour()]});
    check(&any, r#""RED""#, Some(r#""red""#));
    check(&any, "null", None);
    let rest = json!({"additionalProperties": colour()});
    check(&rest, r#"{"b":"GREEN","a":"RED"}"#, Some(r#"{"b":"green","a":"red"}"#));
}

#[test]
fn of_several_forms_only_those_count_that_the_value_has() {
    let marked = json!({"properties": {"kind": {"const": 1}, "is": colour()}});
    let free = json!({"properties": {"kind": {"const": 2}, "is": {"type": "string"}}});
    for schema in [json!({"anyOf": [marked, free]}), json!({"oneOf": [marked, free]})] {
        check(&schema, r#"{"kind":1,"is":"RED"}"#, Some(r#"{"kind":1,"is":"red"}"#));
        check(&schema, r#"{"kind":2,"is":"RED"}"#, None);
        check(&schema, r#"{"kind":3,"is":"RED"}"#, None);
    }
    let condition = json!({"if": {"required": ["kind"]}, "then": {"properties": {"is": colour()}}});
    check(&condition, r#"{"is":"RED"}"#, None);
    check(&condition, r#"{"is":"RED","kind":0}"#, Some(r#"{"is":"red","kind":0}"#));
    check(&json!({"not": colour()}), r#""RED""#, None);
}

#[test]
fn what_is_wrong_elsewhere_hinders_nothing() {
    let schema = json!({"properties": {"a": colour(), "n": {"type": "integer"}}, "required": ["z"]});
    check(&schema, r#"{"n":"x","a":"RED"}"#, Some(r#"{"n":"x","a":"red"}"#));
}

#[test]
fn names_of_keys_are_never_rewritten() {
    let schema = json!({"propertyNames": colour()});
    check(&schema, r#"{"RED":1}"#, None);
    let violations = Schema::compile(&schema.to_string()).unwrap().judge(br#"{"RED":1}"#);
    assert_eq!(violations.len(), 1);
}

#[test]
fn a_judgement_compares_texts_as_they_are() {
    let schema = Schema::compile(&colour().to_string()).unwrap();
    assert_eq!(schema.judge(br#""RED""#).first().map(|violation| violation.rule.as_str()), Some("enum"));
    assert_eq!(schema.judge(&schema.lowered(br#""RED""#).unwrap()), []);
}

#[test]
fn a_mark_that_is_neither_true_nor_false_is_refused() {
    let refused = Schema::compile(r#"{"items": {"enum": ["a"], "x-lowercase": "yes"}}"#).unwrap_err();
    let found: Vec<_> = refused.iter().map(|found| (&*found.path, &*found.rule)).collect();
    assert_eq!(found, [("/items/x-lowercase", "x-lowercase")]);
}

#[test]
fn what_cannot_be_judged_is_not_rewritten() {
    let schema = json!({"items": colour()});
    check(&schema, r#"["RED""#, None);
    check(&schema, r#"[{"a":1,"a":2},"RED"]"#, None);
    check(&schema, &format!("{}\"RED\"{}", "[".repeat(1_000), "]".repeat(1_000)), None);
    let large = format!("[\"RED\",\"{}\"]", "a".repeat(JUDGED_MAX));
    check(&schema, &large, None);
    let compiled = Schema::compile(&schema.to_string()).unwrap();
    assert_eq!(compiled.lowered(b"[\"RED\",\"\xff\"]"), None);
}

#[test]
fn a_long_list_is_rewritten_in_one_pass() {
    let count = JUDGED_MAX / 8;
    let list = |word: &str| format!("[{}]", vec![word; count].join(","));
    let compiled = Schema::compile(&json!({"items": colour()}).to_string()).unwrap();
    assert_eq!(compiled.lowered(list("\"RED\"").as_bytes()), Some(list("\"red\"").into_bytes()));
}

/// Texts of JSON values of few keys and words, with white space and escapes of all kinds.
fn any_text() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        r#""red""#,
        r#""RED""#,
        r#""\u0052ed""#,
        r#""Green""#,
        r#""blue""#,
        r#""B\"\\LUE""#,
        "7",
        "-1.5e3",
        "null",
        "true",
    ]);
    let leaf = (word, "[ \n\t]{0,2}").prop_map(|(word, space)| format!("{space}{word}{space}"));
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(","))),
            prop::collection::btree_map("[ab]", inner, 0..3).prop_map(|entries| {
                let entries = entries.iter().map(|(key, value)| format!("\"{key}\" :{value}"));
                format!("{{{}}}", entries.collect::<Vec<_>>().join(","))
            }),
        ]
    })
}

/// The value with every text in lower case where that is red or green.
fn by_hand(value: Value) -> Value {
    match value {
        Value::String(text) if ["red", "green"].contains(&text.to_lowercase().as_str()) => {
            Value::String(text.to_lowercase())
        }
        Value::Array(items) => items.into_iter().map(by_hand).collect(),
        Value::Object(object) => object.into_iter().map(|(key, value)| (key, by_hand(value))).collect(),
        other => other,
    }
}

proptest! {
    #[test]
    fn only_marked_texts_change_whatever_the_text_is(text in any_text()) {
        let everywhere = json!({"anyOf": [colour(), {"type": ["number", "boolean", "null", "string"]},
            {"type": "array", "items": {"$ref": "#"}}, {"type": "object", "additionalProperties": {"$ref": "#"}}]});
        let schema = Schema::compile(&everywhere.to_string()).unwrap();
        let before: Value = serde_json::from_str(&text).unwrap();
        let after = schema.lowered(text.as_bytes());
        let expected = by_hand(before.clone());
        prop_assert_eq!(after.is_some(), expected != before);
        if let Some(after) = after {
            prop_assert_eq!(serde_json::from_slice::<Value>(&after).unwrap(), expected);
            prop_assert_eq!(schema.lowered(&after), None);
            // Apart from the words, and from escapes within them, the bytes are the same.
            let folded = |text: &str| text.replace("\\u0052", "r").to_lowercase();
            prop_assert_eq!(folded(&String::from_utf8(after).unwrap()), folded(&text));
        }
    }

    #[test]
    fn any_bytes_are_looked_at(value in prop::collection::vec(any::<u8>(), 0..60)) {
        let schema = Schema::compile(&json!({"items": colour()}).to_string()).unwrap();
        let _ = schema.lowered(&value);
    }
}
