//! Each keyword, as the draft says what it means: values that pass, and values that break it with place and keyword.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests fail by panicking")]

use capataz_judge::Schema;
use serde_json::{Value, json};

/// `breaks` are values with the places and keywords of all their violations.
#[track_caller]
fn check(schema: Value, passes: &[Value], breaks: &[(Value, &[(&str, &str)])]) {
    let compiled = Schema::compile(&schema.to_string()).unwrap();
    for value in passes {
        assert_eq!(compiled.judge(value.to_string().as_bytes()), [], "{value} passes {schema}");
    }
    for (value, expected) in breaks {
        let violations = compiled.judge(value.to_string().as_bytes());
        let found: Vec<(&str, &str)> =
            violations.iter().map(|violation| (&*violation.path, &*violation.rule)).collect();
        assert_eq!(&found, expected, "{value} breaks {schema}");
    }
}

#[test]
fn any_kind_of_value() {
    check(json!(true), &[json!(null), json!([1])], &[]);
    check(json!(false), &[], &[(json!(null), &[("", "false")])]);
    check(
        json!({"type": "integer"}),
        &[json!(1), json!(1.0), json!(-7), json!(1e300)],
        &[(json!(1.5), &[("", "type")]), (json!("1"), &[("", "type")]), (json!(null), &[("", "type")])],
    );
    check(
        json!({"type": ["null", "array", "boolean"]}),
        &[json!(null), json!([]), json!(false)],
        &[(json!({}), &[("", "type")]), (json!(0), &[("", "type")])],
    );
    check(
        json!({"enum": [1, "a", {"b": [2.0]}]}),
        &[json!(1.0), json!("a"), json!({"b": [2]})],
        &[(json!("A"), &[("", "enum")]), (json!({"b": [2, 3]}), &[("", "enum")])],
    );
    check(json!({"const": null}), &[json!(null)], &[(json!(0), &[("", "const")])]);
}

#[test]
fn numbers() {
    check(
        json!({"minimum": 1, "exclusiveMaximum": 2.5, "multipleOf": 0.5}),
        &[json!(1), json!(1.5), json!(2), json!("text")],
        &[
            (json!(0.5), &[("", "minimum")]),
            (json!(2.5), &[("", "exclusiveMaximum")]),
            (json!(1.2), &[("", "multipleOf")]),
        ],
    );
    check(
        json!({"maximum": 3, "exclusiveMinimum": 0}),
        &[json!(3), json!(0.1)],
        &[(json!(0), &[("", "exclusiveMinimum")]), (json!(3.1), &[("", "maximum")])],
    );
}

#[test]
fn texts() {
    check(
        json!({"minLength": 2, "maxLength": 3, "pattern": "^é"}),
        &[json!("éa"), json!("ébc"), json!(1)],
        &[(json!("é"), &[("", "minLength")]), (json!("abcd"), &[("", "maxLength"), ("", "pattern")])],
    );
    // A format is a remark.
    check(json!({"format": "email"}), &[json!("no address")], &[]);
}

#[test]
fn lists() {
    check(
        json!({"prefixItems": [{"type": "string"}, true], "items": {"type": "integer"}, "minItems": 1}),
        &[json!(["a"]), json!(["a", null, 1]), json!({})],
        &[(json!([]), &[("", "minItems")]), (json!([1, 1, "x"]), &[("/0", "type"), ("/2", "type")])],
    );
    check(
        json!({"prefixItems": [{"type": "string"}], "items": false, "maxItems": 2}),
        &[json!([]), json!(["a"])],
        &[(json!([1, 2, 3]), &[("", "maxItems"), ("/0", "type"), ("/1", "items"), ("/2", "items")])],
    );
    check(
        json!({"uniqueItems": true}),
        &[json!([1, "1", [1], {"a": 1}, true]), json!([{"a": 1}, {"a": 2}])],
        &[
            (json!([1, 2, 1.0]), &[("/2", "uniqueItems")]),
            (json!([[{"a": 1}], [{"a": 1}]]), &[("/1", "uniqueItems")]),
        ],
    );
    check(
        json!({"contains": {"type": "null"}, "minContains": 2, "maxContains": 3}),
        &[json!([null, 1, null]), json!("no list")],
        &[(json!([null]), &[("", "minContains")]), (json!([null, null, null, null]), &[("", "maxContains")])],
    );
    check(json!({"contains": true, "minContains": 0}), &[json!([])], &[]);
    check(json!({"contains": true}), &[json!([1])], &[(json!([]), &[("", "contains")])]);
}

#[test]
fn objects() {
    check(
        json!({"required": ["a", "b/c"], "maxProperties": 2, "additionalProperties": false,
            "properties": {"a": {"type": "integer"}, "b/c": {"minimum": 0}}, "patternProperties": {"^x": {"type": "null"}}}),
        &[json!({"a": 1, "b/c": 0}), json!([])],
        &[
            (json!({}), &[("", "required"), ("", "required")]),
            (
                json!({"a": "1", "b/c": -1, "x~": 0, "y": 0}),
                &[
                    ("", "maxProperties"),
                    ("/a", "type"),
                    ("/b~1c", "minimum"),
                    ("/x~0", "type"),
                    ("/y", "additionalProperties"),
                ],
            ),
        ],
    );
    check(
        json!({"propertyNames": {"maxLength": 1}, "minProperties": 1}),
        &[json!({"a": 1})],
        &[(json!({}), &[("", "minProperties")]), (json!({"ab": 1}), &[("/ab", "propertyNames")])],
    );
    check(
        json!({"dependentRequired": {"a": ["b"]}, "dependentSchemas": {"c": {"required": ["d"]}}}),
        &[json!({"b": 1}), json!({"a": 1, "b": 1})],
        &[(json!({"a": 1, "c": 1}), &[("", "dependentRequired"), ("", "required")])],
    );
}

#[test]
fn combinations() {
    check(
        json!({"allOf": [{"minimum": 1}, {"maximum": 2}], "not": {"const": 1.5}}),
        &[json!(1), json!(2)],
        &[(json!(1.5), &[("", "not")]), (json!(3), &[("", "maximum")])],
    );
    check(
        json!({"oneOf": [{"multipleOf": 2}, {"multipleOf": 3}]}),
        &[json!(2), json!(3)],
        &[(json!(6), &[("", "oneOf")]), (json!(1), &[("", "oneOf")])],
    );
    check(
        json!({"if": {"required": ["a"]}, "then": {"required": ["b"]}, "else": {"required": ["c"]}}),
        &[json!({"a": 1, "b": 1}), json!({"c": 1})],
        &[(json!({"a": 1}), &[("", "required")]), (json!({}), &[("", "required")])],
    );
}

#[test]
fn a_value_that_is_like_one_of_several_forms_is_told_what_that_form_lacks() {
    check(
        json!({"anyOf": [{"type": "null"}, {"type": "object", "properties": {"a": {"type": "integer"}}}]}),
        &[json!(null), json!({"a": 1})],
        &[(json!({"a": "1"}), &[("", "anyOf"), ("/a", "type")]), (json!(1), &[("", "anyOf")])],
    );
}

#[test]
fn a_value_that_has_to_be_a_schema_itself() {
    check(
        json!({"type": ["object", "boolean"], "x-schema": true}),
        &[json!(true), json!({}), json!({"type": "string", "pattern": "^a+$"}), json!({"unknown": 1})],
        &[
            (json!({"type": "text"}), &[("", "x-schema")]),
            (json!({"properties": {"a": {"pattern": "("}}}), &[("", "x-schema")]),
            (json!({"$ref": "https://example.org/schema"}), &[("", "x-schema")]),
            (json!("{}"), &[("", "type"), ("", "x-schema")]),
        ],
    );
    check(json!({"x-schema": false}), &[json!({"type": "text"})], &[]);
    let told = Schema::compile(r#"{"x-schema": true}"#).unwrap().judge(br#"{"type": "text"}"#);
    assert!(told[0].expected.contains("/type"), "what is wrong with it is told: {told:?}");
    assert!(Schema::compile(r#"{"x-schema": "yes"}"#).is_err());
    // Compiling is work as well.
    let long = format!(r#"{{"description": "{}"}}"#, "a".repeat(200_000));
    assert_eq!(Schema::compile(r#"{"x-schema": true}"#).unwrap().judge(long.as_bytes())[0].rule, "cost");
}

#[test]
fn references() {
    let tree = json!({"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "required": ["v"],
        "properties": {"next": {"$ref": "#/$defs/node"}, "~/%": {"$ref": "#/$defs/a~1b%25"}}},
        "a/b%": {"$anchor": "here", "type": "null"}}});
    check(
        tree,
        &[json!({"v": 1, "next": {"v": 2, "~/%": null}})],
        &[(json!({"v": 1, "next": {"~/%": 0}}), &[("/next", "required"), ("/next/~0~1%", "type")])],
    );
    // In a schema of one resource, a dynamic reference leads where a plain one does.
    check(
        json!({"$dynamicRef": "#t", "$defs": {"x": {"$dynamicAnchor": "t", "type": "null"}}}),
        &[json!(null)],
        &[(json!(0), &[("", "type")])],
    );
}

#[test]
fn what_no_other_keyword_has_looked_at() {
    check(
        json!({"allOf": [{"properties": {"a": true}}], "anyOf": [{"required": ["b"], "properties": {"b": true}}, true],
            "unevaluatedProperties": false}),
        &[json!({"a": 1}), json!({"a": 1, "b": 2})],
        &[(json!({"c": 1}), &[("/c", "unevaluatedProperties")])],
    );
    check(
        json!({"prefixItems": [true], "contains": {"type": "null"}, "unevaluatedItems": {"type": "string"}}),
        &[json!([1, null, "a"])],
        &[(json!([null, 1]), &[("/1", "type")])],
    );
    check(
        json!({"prefixItems": [true], "contains": {"type": "null"}, "unevaluatedItems": false}),
        &[json!([null, null])],
        &[(json!([null, 1]), &[("/1", "unevaluatedItems")])],
    );
    // What a branch that fails has looked at does not count.
    check(
        json!({"anyOf": [{"properties": {"a": true}, "required": ["z"]}, true], "unevaluatedProperties": false}),
        &[json!({})],
        &[(json!({"a": 1}), &[("/a", "unevaluatedProperties")])],
    );
}

#[test]
fn older_dialects() {
    let old = "http://json-schema.org/draft-07/schema#";
    check(
        json!({"$schema": old, "items": [{"type": "string"}], "additionalItems": false,
            "dependencies": {"a": ["b"], "c": {"required": ["d"]}}, "definitions": {"n": {"$id": "#n", "type": "null"}},
            "properties": {"n": {"$ref": "#n"}}}),
        &[json!(["a"]), json!({"n": null})],
        &[
            (json!([1, 2]), &[("/0", "type"), ("/1", "additionalItems")]),
            (json!({"a": 1, "c": 1, "n": 0}), &[("", "required"), ("", "required"), ("/n", "type")]),
        ],
    );
    let violations = Schema::compile(r#"{"items": [true]}"#).unwrap_err();
    assert_eq!((&*violations[0].path, &*violations[0].rule), ("/items", "schema"));
    let violations =
        Schema::compile(r#"{"$schema": "http://json-schema.org/draft-04/schema#"}"#).unwrap_err();
    assert_eq!(violations[0].rule, "$schema");
}

#[test]
fn everything_that_is_wrong_with_a_schema_is_told_at_once() {
    let schema = json!({"type": "text", "minimum": "1", "required": "a", "allOf": [], "multipleOf": 0,
        "properties": {"a": 1, "b": {"minLength": -1, "enum": 1}}, "pattern": "(", "uniqueItems": 1});
    let mut found: Vec<String> = Schema::compile(&schema.to_string())
        .unwrap_err()
        .into_iter()
        .map(|violation| violation.path)
        .collect();
    found.sort();
    let expected = [
        "/allOf",
        "/minimum",
        "/multipleOf",
        "/pattern",
        "/properties/a",
        "/properties/b/enum",
        "/properties/b/minLength",
        "/required",
        "/type",
        "/uniqueItems",
    ];
    assert_eq!(found, expected);
}
