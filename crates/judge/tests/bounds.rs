//! Hostile schemas and values: refused or judged within the bounds, whatever they are.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests fail by panicking")]

use std::fmt::Write as _;

use capataz_contracts::v1::{self, SchemaViolation};
use capataz_judge::{
    JUDGED_MAX, PATTERN_MAX, PATTERNS_TEXT_MAX, REPORTED_MAX, SCHEMA_MAX, SUBSCHEMAS_MAX, Schema, declared,
    judge,
};
use proptest::prelude::*;
use serde_json::{Value, json};

fn rules(violations: &[SchemaViolation]) -> Vec<&str> {
    violations.iter().map(|violation| violation.rule.as_str()).collect()
}

#[track_caller]
fn refused(schema: &Value, path: &str, rule: &str) {
    let violations = Schema::compile(&schema.to_string()).expect_err("it is no schema");
    let found = violations.iter().any(|violation| violation.path == path && violation.rule == rule);
    assert!(found, "{violations:?}");
}

#[track_caller]
fn judged(schema: &Value, value: &str) -> Vec<SchemaViolation> {
    Schema::compile(&schema.to_string()).unwrap().judge(value.as_bytes())
}

/// `$defs` of so many subschemas, each of which is the next one twice.
fn doubling(subschemas: usize) -> Value {
    let mut defs = serde_json::Map::new();
    for index in 0..subschemas {
        let next = json!({"$ref": format!("#/$defs/a{}", index + 1)});
        defs.insert(format!("a{index}"), json!({"anyOf": [next, next]}));
    }
    defs.insert(format!("a{subschemas}"), json!({"type": "string"}));
    json!({"$ref": "#/$defs/a0", "$defs": defs})
}

#[test]
fn what_would_take_exponential_time_is_given_up() {
    assert_eq!(rules(&judged(&doubling(60), "1")), ["cost"]);
    let twice = json!({"properties": {"a": {"$ref": "#"}}});
    let tree = json!({"allOf": [twice, twice, twice], "type": "object"});
    let deep = format!("{}{{}}{}", r#"{"a":"#.repeat(40), "}".repeat(40));
    assert_eq!(rules(&judged(&tree, &deep)), ["cost"]);
    let unevaluated =
        json!({"$ref": "#/$defs/a0", "$defs": doubling(40)["$defs"], "unevaluatedItems": false});
    assert_eq!(rules(&judged(&unevaluated, "[1]")), ["cost"]);
}

#[test]
fn a_chain_of_references_is_not_deeper_than_the_stack() {
    let mut defs = serde_json::Map::new();
    for index in 0..1_000 {
        defs.insert(format!("a{index}"), json!({"$ref": format!("#/$defs/a{}", index + 1)}));
    }
    defs.insert("a1000".to_owned(), json!({"type": "string"}));
    assert_eq!(rules(&judged(&json!({"$ref": "#/$defs/a0", "$defs": defs}), "1")), ["cost"]);
    assert_eq!(rules(&judged(&json!({"$ref": "#/$defs/a990", "$defs": defs}), "1")), ["type"]);
}

#[test]
fn a_value_as_deep_as_values_may_be_is_judged_by_a_recursive_schema() {
    let schema = json!({"$ref": "#/$defs/node", "$defs": {"node": {
        "anyOf": [{"type": "array", "items": {"$ref": "#/$defs/node"}}, {"type": "null"}],
    }}});
    let deep = |levels| format!("{}null{}", "[".repeat(levels), "]".repeat(levels));
    assert_eq!(judged(&schema, &deep(63)), []);
    assert_eq!(rules(&judged(&schema, &deep(65))), ["depth"]);
    assert_eq!(rules(&judged(&schema, &deep(1_000))), ["syntax"]);
}

#[test]
fn a_schema_that_leads_back_to_itself_is_none() {
    refused(&json!({"$ref": "#"}), "", "recursion");
    refused(&json!({"anyOf": [{"type": "null"}, {"not": {"$ref": "#"}}]}), "", "recursion");
    let circle = json!({"$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}]}, "b": {"$ref": "#/$defs/a"}}});
    refused(&circle, "", "recursion");
    assert_eq!(judged(&json!({"items": {"$ref": "#"}, "type": "array"}), "[[],[[]]]"), []);
}

#[test]
fn a_schema_refers_to_itself_alone() {
    for reference in
        ["https://example.com/schema", "file:///etc/passwd", "other.json#/a", "#/$defs/none", "#no"]
    {
        refused(&json!({"items": {"$ref": reference}}), "/items/$ref", "$ref");
    }
    let own = json!({"$id": "https://example.com/own", "items": {"$ref": "https://example.com/own#/$defs/a"},
        "$defs": {"a": {"$anchor": "here", "type": "null"}}, "contains": {"$ref": "#here"}});
    assert_eq!(rules(&judged(&own, "[1]")), ["type", "contains"]);
    refused(&json!({"items": {"$id": "https://example.com/other"}}), "/items/$id", "$id");
}

#[test]
fn a_pattern_takes_linear_time_and_little_memory() {
    let hostile = json!({"type": "string", "pattern": "^(a+)+$"});
    let text = serde_json::to_string(&format!("{}!", "a".repeat(100_000))).unwrap();
    assert_eq!(rules(&judged(&hostile, &text)), ["pattern"]);
    refused(&json!({"pattern": "(a)\\1"}), "/pattern", "pattern");
    refused(&json!({"pattern": "((a{100}){100}){100}"}), "/pattern", "pattern");
    refused(&json!({"patternProperties": {"(?=a)": true}}), "/patternProperties", "patternProperties");
    let many: Vec<Value> = (0..300).map(|index| json!({"pattern": index.to_string()})).collect();
    let violations = Schema::compile(&json!({"allOf": many}).to_string()).unwrap_err();
    assert_eq!(rules(&violations), ["limit"]);
    // Many patterns before a long text are too much, though each of them is not.
    let many: Vec<Value> = (0..200).map(|_| json!({"pattern": "(x+x+)+y"})).collect();
    let text = serde_json::to_string(&"x".repeat(1_000_000)).unwrap();
    assert_eq!(rules(&judged(&json!({"allOf": many}), &text)), ["cost"]);
}

#[test]
fn the_text_of_a_pattern_is_bounded_before_anything_is_built_of_it() {
    // All letters, so often that their ranges would fill the memory.
    let violations = Schema::compile(&json!({"pattern": "\\pL".repeat(16_000)}).to_string()).unwrap_err();
    assert_eq!(rules(&violations), ["pattern"]);
    assert_eq!(violations[0].expected, format!("at most {PATTERN_MAX} bytes"));
    let long = "a".repeat(PATTERN_MAX);
    assert_eq!(judged(&json!({"pattern": long}), "1"), []);
    refused(
        &json!({"patternProperties": {format!("{long}a"): true}}),
        "/patternProperties",
        "patternProperties",
    );
    let many = |count: usize| json!({"allOf": vec![json!({"pattern": long}); count]}).to_string();
    assert!(Schema::compile(&many(PATTERNS_TEXT_MAX / PATTERN_MAX)).is_ok());
    let violations = Schema::compile(&many(PATTERNS_TEXT_MAX / PATTERN_MAX + 5)).unwrap_err();
    assert_eq!(rules(&violations), ["limit"]);
}

#[test]
fn the_patterns_of_a_schema_are_not_large_together() {
    let large = |count: usize| json!({"allOf": vec![json!({"pattern": "[ab]{900}"}); count]}).to_string();
    assert!(Schema::compile(&large(8)).is_ok());
    assert_eq!(rules(&Schema::compile(&large(256)).unwrap_err()), ["limit"]);
}

#[test]
fn a_large_pattern_costs_more_than_a_small_one() {
    let text = |length: usize| json!("b".repeat(length - 1) + "a").to_string();
    for small in ["a", "a$", "^[ab]+$", "^(a|b)*$"] {
        assert_eq!(judged(&json!({"pattern": small}), &text(1_000_000)), [], "{small}");
    }
    let large = json!({"pattern": "a[ab]{900}[cd]"});
    assert_eq!(rules(&judged(&large, &text(1_000_000))), ["cost"]);
    assert_eq!(rules(&judged(&large, &text(1_000))), ["pattern"]);
    // What people write is judged a thousand times.
    let names: Vec<String> = (0..1_000).map(|index| format!("a name of a thing {index}")).collect();
    for usual in ["^.{1,40}$", r"^[\p{L}\p{N} ]+$", r"^[\w .-]{1,64}$", "^[0-9a-f]{8}-[0-9a-f]{4}|name"] {
        let schema = json!({"items": {"pattern": usual}});
        assert_eq!(judged(&schema, &json!(names).to_string()), [], "{usual}");
    }
}

#[test]
fn a_multiple_costs_the_decimals_between_the_numbers() {
    let list = |number: &str| format!("[{number}{}]", format!(",{number}").repeat(99_999));
    let schema = json!({"items": {"not": {"multipleOf": 7}}});
    assert_eq!(judged(&schema, &list("8")), []);
    assert_eq!(rules(&judged(&schema, &list("1e308"))), ["cost"]);
}

#[test]
fn sizes_are_bounded() {
    let long = format!("{{\"title\":\"{}\"}}", "a".repeat(SCHEMA_MAX));
    assert_eq!(rules(&Schema::compile(&long).unwrap_err()), ["size"]);
    let many = vec![json!(true); SUBSCHEMAS_MAX];
    assert_eq!(rules(&Schema::compile(&json!({"allOf": many}).to_string()).unwrap_err()), ["limit"]);
    let value = format!("\"{}\"", "a".repeat(JUDGED_MAX));
    assert_eq!(rules(&judged(&json!({}), &value)), ["size"]);
    let deep = format!("{}true{}", r#"{"not":"#.repeat(70), "}".repeat(70));
    assert_eq!(rules(&Schema::compile(&deep).unwrap_err()), ["depth"]);
}

#[test]
fn all_violations_are_reported_up_to_a_bound() {
    let schema = json!({"items": {"type": "string"}});
    let of = |count: usize| judged(&schema, &json!(vec![0; count]).to_string());
    assert_eq!(of(REPORTED_MAX).len(), REPORTED_MAX);
    let more = of(REPORTED_MAX + 10);
    assert_eq!(more.len(), REPORTED_MAX);
    assert_eq!(
        more.last().map(|last| (&*last.rule, &*last.found)),
        Some(("truncated", "11 more violations"))
    );
    let long = judged(&json!({"const": 1}), &json!("é".repeat(1_000)).to_string());
    assert!(long[0].found.len() < 300, "{long:?}");
}

#[test]
fn a_key_written_twice_and_a_number_that_is_none_are_not_json() {
    for text in [r#"{"a":1,"a":1}"#, "NaN", "Infinity", "[1e999]", "", "{", "\"\u{1}\""] {
        assert_eq!(rules(&judged(&json!(true), text)), ["syntax"], "{text}");
    }
    assert_eq!(rules(&Schema::compile(r#"{"type":"null","type":"null"}"#).unwrap_err()), ["syntax"]);
    assert_eq!(rules(&judged(&json!({"a": 1}), "\u{feff}1")), [""; 0]);
    assert_eq!(rules(&Schema::compile("{}").unwrap().judge(b"\"\xff\"")), ["syntax"]);
}

#[test]
fn a_payload_is_judged_with_its_media_type() {
    assert_eq!(judge("{}", "application/json; charset=utf-8", b"1"), []);
    assert_eq!(rules(&judge("{}", "text/plain", b"1")), ["media_type"]);
    assert_eq!(rules(&judge(r#"{"type":1}"#, "application/json", b"1")), ["schema"]);
}

#[test]
fn agents_that_declare_what_is_no_schema_are_told_where() {
    let agent = |input: &str, output: &str| v1::Agent {
        input_schema: input.to_owned(),
        output_schema: output.to_owned(),
        ..v1::Agent::default()
    };
    assert_eq!(declared(&[agent("", ""), agent("true", "{}")]), []);
    let found = declared(&[agent("", ""), agent("{", r#"{"properties":{"a":{"type":"text"}}}"#)]);
    let paths: Vec<&str> = found.iter().map(|violation| violation.path.as_str()).collect();
    assert_eq!(paths, ["agents[1].input_schema", "agents[1].output_schema/properties/a/type"]);
}

/// JSON that is more often a schema than chance would have it.
fn any_schema() -> impl Strategy<Value = Value> {
    let keyword = prop::sample::select(vec![
        "$ref",
        "$id",
        "$anchor",
        "$defs",
        "$dynamicRef",
        "$schema",
        "type",
        "enum",
        "const",
        "items",
        "prefixItems",
        "contains",
        "minContains",
        "properties",
        "patternProperties",
        "additionalProperties",
        "required",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "if",
        "then",
        "else",
        "unevaluatedItems",
        "unevaluatedProperties",
        "multipleOf",
        "minimum",
        "pattern",
        "uniqueItems",
        "dependencies",
        "dependentSchemas",
        "propertyNames",
        "maxLength",
        "a",
    ]);
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        prop::sample::select(vec!["#", "#/$defs/a", "#a", "string", "object", "a", "^a+$", "https://a.b/c"])
            .prop_map(Value::from),
        prop::sample::select(vec![json!(0), json!(1), json!(-1.5), json!(1e300), json!(u64::MAX)]),
    ];
    leaf.prop_recursive(6, 60, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(keyword.clone().prop_map(str::to_owned), inner, 0..6)
                .prop_map(|object| Value::Object(object.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn nothing_panics_and_every_judgement_ends(schema in any_schema(), value in any_schema()) {
        let judged = judge(&schema.to_string(), "application/json", value.to_string().as_bytes());
        prop_assert!(judged.len() <= REPORTED_MAX);
        prop_assert_eq!(judge(&schema.to_string(), "application/json", value.to_string().as_bytes()), judged);
    }

    #[test]
    fn any_bytes_are_judged(schema in ".{0,40}", value in prop::collection::vec(any::<u8>(), 0..60)) {
        let _ = judge(&schema, "application/json", &value);
        let _ = judge("{\"type\":\"object\"}", "application/json", &value);
    }
}

#[test]
fn the_text_of_a_schema_is_read_whatever_its_order() {
    let mut schema = String::from("{");
    for index in 0..50 {
        let _ = write!(schema, "\"x{index}\":{{\"$ref\":\"https://a.b\"}},");
    }
    schema.push_str("\"type\":\"null\"}");
    // What no keyword names is a remark, and not a reference.
    assert_eq!(judge(&schema, "application/json", b"null"), []);
}

#[test]
fn it_is_known_beforehand_whether_a_value_takes_few_steps() {
    let compiled = |schema: &Value| Schema::compile(&schema.to_string()).unwrap();
    let flat = compiled(&json!({"type": "object", "properties": {"a": {"type": "integer"}}}));
    assert!(flat.takes_at_most(b"{\"a\": 1}", 20));
    assert!(!flat.takes_at_most(b"{\"a\": 1}", 1));
    assert!(flat.takes_at_most(b"no JSON", 0), "it is refused unread");
    // The doubled work of the test above.
    assert!(!compiled(&doubling(60)).takes_at_most(b"1", 20_000));
}
