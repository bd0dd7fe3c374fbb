//! The verdicts of another validator, the crate `jsonschema`, on schemas and values that are drawn.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests fail by panicking")]

use std::cell::Cell;

use capataz_judge::Schema;
use proptest::collection::{btree_map, btree_set, vec};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Map, Value, json};

const TYPES: [&str; 7] = ["null", "boolean", "object", "array", "number", "integer", "string"];

type Keyword = (&'static str, Value);

fn name() -> impl Strategy<Value = String> {
    select(vec!["a", "b", "ab"]).prop_map(str::to_owned)
}

fn number() -> impl Strategy<Value = Value> {
    prop_oneof![(-3..=4_i64).prop_map(Value::from), select(vec![0.5, 1.0, 1.5, -2.0]).prop_map(Value::from)]
}

fn simple() -> impl Strategy<Value = Value> {
    let text = select(vec!["", "a", "b", "ab", "ba", "aab", "é", "日本"]);
    prop_oneof![Just(Value::Null), any::<bool>().prop_map(Value::from), number(), text.prop_map(Value::from)]
}

/// Whatever may be judged.
fn value() -> impl Strategy<Value = Value> {
    simple().prop_recursive(3, 20, 4, |inner| {
        let object = btree_map(name(), inner.clone(), 0..4);
        prop_oneof![
            vec(inner, 0..4).prop_map(Value::from),
            object.prop_map(|object| object.into_iter().collect::<Value>()),
        ]
    })
}

/// A keyword without a schema in it. References are to the definitions, in which there are none.
fn assertion(refers: bool) -> BoxedStrategy<Keyword> {
    let keyword = |name: &'static str| move |value: Value| (name, value);
    let size = || (0..4_u64).prop_map(Value::from);
    let names = || btree_set(name(), 0..3).prop_map(|names| json!(names));
    let types = subsequence(TYPES.to_vec(), 1..4).prop_map(|types| json!(types));
    let positive = select(vec![json!(1), json!(2), json!(3), json!(0.5)]);
    let pattern = select(vec!["^a", "b$", "^[ab]+$", "a.b", "^$"]).prop_map(Value::from);
    let bounds = select(vec!["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"]);
    let sizes = select(vec![
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
        "minContains",
        "maxContains",
    ]);
    let own = prop_oneof![
        3 => prop_oneof![select(TYPES.to_vec()).prop_map(Value::from), types].prop_map(keyword("type")),
        2 => (bounds, number()),
        3 => (sizes, size()),
        1 => vec(value(), 1..4).prop_map(|values| ("enum", json!(values))),
        1 => value().prop_map(keyword("const")),
        1 => positive.prop_map(keyword("multipleOf")),
        1 => pattern.prop_map(keyword("pattern")),
        1 => any::<bool>().prop_map(|unique| ("uniqueItems", json!(unique))),
        1 => names().prop_map(keyword("required")),
        1 => btree_map(name(), names(), 0..3).prop_map(|names| ("dependentRequired", json!(names))),
    ];
    let reference = select(vec!["#/$defs/one", "#/$defs/two"]).prop_map(|to| ("$ref", json!(to)));
    if refers { prop_oneof![9 => own, 1 => reference].boxed() } else { own.boxed() }
}

/// A keyword with schemas in it.
fn applicator(inner: BoxedStrategy<Value>) -> BoxedStrategy<Keyword> {
    let lists = select(vec!["allOf", "anyOf", "oneOf", "prefixItems"]);
    let single = select(vec![
        "not",
        "if",
        "then",
        "else",
        "items",
        "contains",
        "additionalProperties",
        "propertyNames",
        "unevaluatedItems",
        "unevaluatedProperties",
    ]);
    let by_name = select(vec!["properties", "dependentSchemas"]);
    let pattern = select(vec!["^a", "b$", "."]).prop_map(str::to_owned);
    let patterns = btree_map(pattern, inner.clone(), 1..3);
    prop_oneof![
        (lists, vec(inner.clone(), 1..4)).prop_map(|(name, schemas)| (name, json!(schemas))),
        (single, inner.clone()),
        (by_name, btree_map(name(), inner, 1..4)).prop_map(|(name, schemas)| (name, json!(schemas))),
        patterns.prop_map(|schemas| ("patternProperties", json!(schemas))),
    ]
    .boxed()
}

fn object(keywords: Vec<Keyword>) -> Value {
    keywords.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>().into()
}

fn schema(refers: bool) -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        8 => vec(assertion(refers), 1..4).prop_map(object),
        1 => any::<bool>().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, move |inner| {
        let keyword = prop_oneof![assertion(refers), applicator(inner.boxed())];
        vec(keyword, 1..5).prop_map(object)
    })
}

fn whole() -> impl Strategy<Value = Value> {
    (schema(true), schema(false), schema(false)).prop_map(|(schema, one, two)| {
        let mut schema = match schema {
            Value::Object(schema) => schema,
            other => Map::from_iter([("allOf".to_owned(), json!([other]))]),
        };
        schema.insert("$defs".to_owned(), json!({ "one": one, "two": two }));
        schema.into()
    })
}

#[test]
fn another_validator_gives_the_same_verdicts() {
    // A test of many things of one kind: how often they pass and are refused says whether the draw is any good.
    let verdicts = Cell::new((0, 0));
    let config = Config { cases: 1_000, failure_persistence: None, ..Config::default() };
    let compare = |(schema, values): (Value, Vec<Value>)| {
        let ours = Schema::compile(&schema.to_string());
        let ours = ours.map_err(|why| TestCaseError::fail(format!("{schema} is refused: {why:?}")))?;
        let theirs = jsonschema::draft202012::new(&schema).unwrap();
        for value in values {
            let violations = ours.judge(value.to_string().as_bytes());
            let passes = theirs.is_valid(&value);
            prop_assert_eq!(violations.is_empty(), passes, "{} by {}: {:?}", value, schema, violations);
            let (passed, refused) = verdicts.get();
            verdicts.set(if passes { (passed + 1, refused) } else { (passed, refused + 1) });
        }
        Ok(())
    };
    TestRunner::new(config).run(&(whole(), vec(value(), 4)), compare).unwrap();
    let (passed, refused) = verdicts.get();
    assert!(passed > 500 && refused > 500, "{passed} passed, {refused} refused");
}
