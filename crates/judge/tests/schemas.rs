//! The schemas of the four outputs of seed 003: examples pass, and each corruption is told with its place and its rule.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use capataz_judge::{JUDGED_MAX, Schema};
use serde_json::{Value, json};

const SOURCE_CONTEXT: &str = include_str!("../../../schemas/source-context.json");
const PRODUCT_CONTEXT: &str = include_str!("../../../schemas/product-context.json");
const FEATURE_MAP: &str = include_str!("../../../schemas/feature-map.json");
const TIMELINE: &str = include_str!("../../../schemas/timeline-interpretation.json");

/// The first example of the seed.
const SEED_SHORT: &str = r#"{
  "classification": "product_core",
  "notes": "short evidence-based reason"
}"#;

/// The seed's example with buckets.
const SEED_BUCKETS: &str = r#"{
  "classification": "product_core",
  "notes": "Monorepo con app principal + marketing site",
  "surfaceBuckets": [
    { "surface": "product_core", "pathPrefix": "apps/app", "signalCount": 120 },
    { "surface": "marketing_surface", "pathPrefix": "apps/website", "signalCount": 40 }
  ]
}"#;

#[track_caller]
fn judged(schema: &str, text: &[u8]) -> Vec<(String, String)> {
    let violations = Schema::compile(schema).expect("it is a schema").judge(text);
    violations.into_iter().map(|violation| (violation.path, violation.rule)).collect()
}

/// It passes as it is, and no byte of it is rewritten.
#[track_caller]
fn accepted(schema: &str, text: &str) {
    assert_eq!(judged(schema, text.as_bytes()), [], "{text}");
    assert_eq!(Schema::compile(schema).unwrap().lowered(text.as_bytes()), None, "{text}");
}

#[track_caller]
fn refused(schema: &str, text: &[u8], path: &str, rule: &str) {
    let shown = String::from_utf8_lossy(text.get(..200).unwrap_or(text));
    assert_eq!(judged(schema, text), [(path.to_owned(), rule.to_owned())], "{shown}");
}

/// The value with another one at a place; `None` removes what is there.
#[track_caller]
fn with(value: &Value, pointer: &str, new: Option<Value>) -> String {
    let mut value = value.clone();
    let (parent, key) = pointer.rsplit_once('/').expect("a place within the value");
    match (value.pointer_mut(parent).expect("the place is there"), new) {
        (Value::Object(object), Some(new)) => {
            object.insert(key.to_owned(), new);
        }
        (Value::Object(object), None) => {
            object.remove(key).expect("there is such a key");
        }
        (Value::Array(items), Some(new)) => items[key.parse::<usize>().unwrap()] = new,
        (other, _) => panic!("{other} has no {key}"),
    }
    value.to_string()
}

/// The corruptions of a value: the place that changes, what comes there, and the only violation.
#[track_caller]
fn corrupted(schema: &str, value: &Value, corruptions: &[(&str, Option<Value>, &str, &str)]) {
    for (pointer, new, path, rule) in corruptions {
        refused(schema, with(value, pointer, new.clone()).as_bytes(), path, rule);
    }
}

/// What no output of any kind may be. `key` is the first key of the example `text`.
#[track_caller]
fn broken_texts(schema: &str, text: &str, key: &str) {
    let deep = |levels: usize| format!("{{\"{key}\":{}1{}}}", "[".repeat(levels), "]".repeat(levels));
    refused(schema, b"", "", "syntax");
    refused(schema, b"a classification of the source", "", "syntax");
    refused(schema, format!("```json\n{text}\n```").as_bytes(), "", "syntax");
    refused(schema, format!("{text} {text}").as_bytes(), "", "syntax");
    refused(schema, text.trim_end_matches(['}', '\n']).as_bytes(), "", "syntax");
    refused(schema, text.replacen('{', &format!("{{\"{key}\":null,"), 1).as_bytes(), "", "syntax");
    refused(schema, format!("{{\"{key}\":NaN}}").as_bytes(), "", "syntax");
    refused(schema, format!("{{\"{key}\":-Infinity}}").as_bytes(), "", "syntax");
    refused(schema, deep(1_000).as_bytes(), "", "syntax");
    refused(schema, deep(80).as_bytes(), "", "depth");
    refused(schema, &[b"\xff", text.as_bytes()].concat(), "", "syntax");
    refused(schema, format!("{text}{}", " ".repeat(JUDGED_MAX)).as_bytes(), "", "size");
    refused(schema, b"[]", "", "type");
    refused(schema, b"null", "", "type");
}

// S003-OU-01, S003-OU-02, S003-OU-03
#[test]
fn the_examples_of_the_seed_are_source_contexts() {
    accepted(SOURCE_CONTEXT, SEED_SHORT);
    accepted(SOURCE_CONTEXT, SEED_BUCKETS);
    for surface in ["product_core", "marketing_surface", "infra", "docs", "experiments", "unknown"] {
        let bucket = json!({"surface": surface, "pathPrefix": "a"});
        let value = json!({"classification": surface, "notes": "", "surfaceBuckets": [bucket]});
        accepted(SOURCE_CONTEXT, &value.to_string());
    }
    accepted(
        SOURCE_CONTEXT,
        r#"{"outputVersion":"v1.0","notes":"","classification":"docs","surfaceBuckets":[]}"#,
    );
    accepted(SOURCE_CONTEXT, &SEED_BUCKETS.replace("120", "0").replace("40", "40.0"));
}

// S003-OU-01, S003-OU-03, S003-OU-04, S003-OU-05
#[test]
fn corrupted_source_contexts_are_refused_with_place_and_rule() {
    let value: Value = serde_json::from_str(SEED_BUCKETS).unwrap();
    corrupted(
        SOURCE_CONTEXT,
        &value,
        &[
            ("/classification", None, "", "required"),
            ("/notes", None, "", "required"),
            ("/classification", Some(json!("mixed")), "/classification", "enum"),
            ("/classification", Some(json!("product core")), "/classification", "enum"),
            ("/classification", Some(json!(null)), "/classification", "enum"),
            ("/notes", Some(json!(["evidence"])), "/notes", "type"),
            ("/notes", Some(json!(null)), "/notes", "type"),
            ("/outputVersion", Some(json!(1.0)), "/outputVersion", "type"),
            ("/confidence", Some(json!(0.9)), "/confidence", "additionalProperties"),
            ("/surface_buckets", Some(json!([])), "/surface_buckets", "additionalProperties"),
            ("/surfaceBuckets", Some(json!({})), "/surfaceBuckets", "type"),
            ("/surfaceBuckets", Some(json!(null)), "/surfaceBuckets", "type"),
            ("/surfaceBuckets/0", Some(json!("apps/app")), "/surfaceBuckets/0", "type"),
            ("/surfaceBuckets/0/surface", None, "/surfaceBuckets/0", "required"),
            ("/surfaceBuckets/1/pathPrefix", None, "/surfaceBuckets/1", "required"),
            ("/surfaceBuckets/1/surface", Some(json!("mixed")), "/surfaceBuckets/1/surface", "enum"),
            ("/surfaceBuckets/0/pathPrefix", Some(json!("")), "/surfaceBuckets/0/pathPrefix", "minLength"),
            ("/surfaceBuckets/0/pathPrefix", Some(json!(["a"])), "/surfaceBuckets/0/pathPrefix", "type"),
            ("/surfaceBuckets/0/signalCount", Some(json!(-1)), "/surfaceBuckets/0/signalCount", "minimum"),
            ("/surfaceBuckets/0/signalCount", Some(json!(1.5)), "/surfaceBuckets/0/signalCount", "type"),
            ("/surfaceBuckets/0/signalCount", Some(json!("120")), "/surfaceBuckets/0/signalCount", "type"),
            ("/surfaceBuckets/0/signalCount", Some(json!(null)), "/surfaceBuckets/0/signalCount", "type"),
            (
                "/surfaceBuckets/0/evidence",
                Some(json!("a")),
                "/surfaceBuckets/0/evidence",
                "additionalProperties",
            ),
        ],
    );
    broken_texts(SOURCE_CONTEXT, SEED_BUCKETS, "classification");
}

#[test]
fn all_violations_of_an_output_are_told_at_once() {
    let text = r#"{"classification":"mixed","why":1,"surfaceBuckets":[{"surface":"docs","pathPrefix":"","signalCount":-2}]}"#;
    let expected = [
        ("/classification", "enum"),
        ("", "required"),
        ("/surfaceBuckets/0/pathPrefix", "minLength"),
        ("/surfaceBuckets/0/signalCount", "minimum"),
        ("/why", "additionalProperties"),
    ];
    let mut found = judged(SOURCE_CONTEXT, text.as_bytes());
    found.sort();
    let mut expected = expected.map(|(path, rule)| (path.to_owned(), rule.to_owned()));
    expected.sort();
    assert_eq!(found, expected);
}

// S003-OU-10
#[test]
fn surfaces_in_another_case_are_rewritten_and_nothing_else() {
    let text = SEED_BUCKETS
        .replace("\"product_core\"", "\"Product_CORE\"")
        .replace("app principal", "APP Principal");
    let expected = SEED_BUCKETS.replace("app principal", "APP Principal");
    let schema = Schema::compile(SOURCE_CONTEXT).unwrap();
    assert_eq!(
        schema.lowered(text.as_bytes()).map(|bytes| String::from_utf8(bytes).unwrap()),
        Some(expected)
    );
    assert_eq!(schema.lowered(text.replace("Product_CORE", "MIXED").as_bytes()), None);
}

fn product_context() -> Value {
    json!({
        "version": 3, "createdAt": 1_768_089_600_000_u64, "outputVersion": "v1.0",
        "name": "shop", "summary": "A shop.", "audience": "", "technologies": ["Rust"],
        "sources": [{"sourceId": "org/shop", "classification": "product_core", "confidence": 0.85, "pathCount": 160}],
        "surfaces": [{"surface": "product_core", "signalCount": 120}],
        "domains": [{"id": "check-out", "name": "check-out", "surface": "product_core", "signalCount": 12,
            "pathPrefixes": ["apps/app/check-out"]}],
        "openQuestions": ["Who buys?"],
    })
}

// S003-OU-06, S003-OU-07
#[test]
fn a_product_context_needs_its_version_and_time_alone() {
    accepted(PRODUCT_CONTEXT, &product_context().to_string());
    accepted(PRODUCT_CONTEXT, r#"{"version":1,"createdAt":0}"#);
    // What may be left out has a default that says so.
    let schema: Value = serde_json::from_str(PRODUCT_CONTEXT).unwrap();
    let properties = schema.pointer("/properties").and_then(Value::as_object).unwrap();
    for (key, property) in properties {
        let expected = match key.as_str() {
            "version" | "createdAt" | "outputVersion" => None,
            "name" | "summary" | "audience" => Some(json!("")),
            _ => Some(json!([])),
        };
        assert_eq!(property.get("default"), expected.as_ref(), "{key}");
    }
}

// S003-OU-06
#[test]
fn corrupted_product_contexts_are_refused_with_place_and_rule() {
    corrupted(
        PRODUCT_CONTEXT,
        &product_context(),
        &[
            ("/version", None, "", "required"),
            ("/createdAt", None, "", "required"),
            ("/version", Some(json!("1")), "/version", "type"),
            ("/version", Some(json!(0)), "/version", "minimum"),
            ("/createdAt", Some(json!(-1)), "/createdAt", "minimum"),
            ("/createdAt", Some(json!(0.5)), "/createdAt", "type"),
            ("/createdAt", Some(json!("2026-01-11T00:00:00Z")), "/createdAt", "type"),
            ("/outputVersion", Some(json!(null)), "/outputVersion", "type"),
            ("/name", Some(json!(7)), "/name", "type"),
            ("/owner", Some(json!("me")), "/owner", "additionalProperties"),
            ("/technologies", Some(json!("Rust")), "/technologies", "type"),
            ("/technologies/0", Some(json!("")), "/technologies/0", "minLength"),
            ("/technologies", Some(json!(["Go", "Go"])), "/technologies/1", "uniqueItems"),
            ("/sources/0/sourceId", Some(json!("")), "/sources/0/sourceId", "minLength"),
            ("/sources/0/classification", Some(json!("mixed")), "/sources/0/classification", "enum"),
            ("/sources/0/confidence", Some(json!(1.01)), "/sources/0/confidence", "maximum"),
            ("/sources/0/paths", Some(json!([])), "/sources/0/paths", "additionalProperties"),
            ("/surfaces/0/surface", None, "/surfaces/0", "required"),
            ("/surfaces/0/signalCount", Some(json!(-3)), "/surfaces/0/signalCount", "minimum"),
            ("/domains/0/id", Some(json!("Check out")), "/domains/0/id", "pattern"),
            ("/domains/0/signalCount", Some(json!(2.5)), "/domains/0/signalCount", "type"),
            ("/domains/0/pathPrefixes", Some(json!([""])), "/domains/0/pathPrefixes/0", "minLength"),
            ("/domains/0/owner", Some(json!("me")), "/domains/0/owner", "additionalProperties"),
            ("/openQuestions", Some(json!([null])), "/openQuestions/0", "type"),
        ],
    );
    broken_texts(PRODUCT_CONTEXT, &product_context().to_string(), "version");
}

fn feature_map() -> Value {
    json!({
        "domains": [{"id": "billing", "name": "billing", "surface": "product_core", "description": "", "signalCount": 9}],
        "domainMap": {"billing": ["invoices"]},
        "decisionSummary": "A domain for each package.",
        "features": [{"id": "invoices", "name": "invoices", "kind": "package", "domain": "billing",
            "description": "", "evidence": ["org/shop/billing/Cargo.toml"]}],
        "generatedAt": 0, "sourcesUsed": ["org/shop"], "outputVersion": "v1.0",
    })
}

// S003-OU-08
#[test]
fn a_feature_map_has_the_keys_of_the_seed() {
    accepted(FEATURE_MAP, &feature_map().to_string());
    let empty = json!({"domains": [], "domainMap": {}, "decisionSummary": "", "features": [], "generatedAt": 0, "sourcesUsed": []});
    accepted(FEATURE_MAP, &empty.to_string());
}

// S003-OU-08
#[test]
fn corrupted_feature_maps_are_refused_with_place_and_rule() {
    corrupted(
        FEATURE_MAP,
        &feature_map(),
        &[
            ("/domains", None, "", "required"),
            ("/domainMap", None, "", "required"),
            ("/decisionSummary", None, "", "required"),
            ("/features", None, "", "required"),
            ("/generatedAt", None, "", "required"),
            ("/sourcesUsed", None, "", "required"),
            ("/notes", Some(json!("")), "/notes", "additionalProperties"),
            ("/outputVersion", Some(json!(1)), "/outputVersion", "type"),
            ("/domains/0/surface", Some(json!("mixed")), "/domains/0/surface", "enum"),
            ("/domains/0/id", Some(json!("a--b")), "/domains/0/id", "pattern"),
            ("/domains/0/signalCount", Some(json!(-1)), "/domains/0/signalCount", "minimum"),
            ("/domains/0/features", Some(json!([])), "/domains/0/features", "additionalProperties"),
            ("/domainMap", Some(json!([])), "/domainMap", "type"),
            ("/domainMap/Billing", Some(json!([])), "/domainMap/Billing", "propertyNames"),
            ("/domainMap/billing", Some(json!("invoices")), "/domainMap/billing", "type"),
            ("/domainMap/billing", Some(json!(["a", "a"])), "/domainMap/billing/1", "uniqueItems"),
            ("/decisionSummary", Some(json!({})), "/decisionSummary", "type"),
            ("/features/0/kind", Some(json!("idea")), "/features/0/kind", "enum"),
            ("/features/0/name", Some(json!("")), "/features/0/name", "minLength"),
            ("/features/0/domain", None, "/features/0", "required"),
            ("/features/0/evidence", Some(json!([])), "/features/0/evidence", "minItems"),
            ("/features/0/evidence/0", Some(json!(3)), "/features/0/evidence/0", "type"),
            ("/features/0/score", Some(json!(1)), "/features/0/score", "additionalProperties"),
            ("/generatedAt", Some(json!(1.25)), "/generatedAt", "type"),
            ("/sourcesUsed", Some(json!(["a", "a"])), "/sourcesUsed/1", "uniqueItems"),
        ],
    );
    broken_texts(FEATURE_MAP, &feature_map().to_string(), "domains");
}

fn timeline() -> Value {
    json!({
        "narratives": [{"kind": "overview", "title": "The product", "text": "160 files in one source.",
            "from": 0, "to": 1, "sources": ["org/shop"], "numbers": [{"name": "files", "value": 160}]}],
        "outputVersion": "v1.0",
    })
}

// S003-OU-09
#[test]
fn a_timeline_interpretation_has_narratives() {
    accepted(TIMELINE, &timeline().to_string());
    accepted(TIMELINE, r#"{"narratives":[]}"#);
    accepted(TIMELINE, r#"{"narratives":[{"kind":"change","title":"T","text":"x"}]}"#);
}

// S003-OU-09
#[test]
fn corrupted_timeline_interpretations_are_refused_with_place_and_rule() {
    corrupted(
        TIMELINE,
        &timeline(),
        &[
            ("/narratives", None, "", "required"),
            ("/narratives", Some(json!({})), "/narratives", "type"),
            ("/narratives", Some(json!("A story.")), "/narratives", "type"),
            ("/narratives/0", Some(json!("A story.")), "/narratives/0", "type"),
            ("/outputVersion", Some(json!([])), "/outputVersion", "type"),
            ("/summary", Some(json!("")), "/summary", "additionalProperties"),
            ("/narratives/0/kind", None, "/narratives/0", "required"),
            ("/narratives/0/title", None, "/narratives/0", "required"),
            ("/narratives/0/text", None, "/narratives/0", "required"),
            ("/narratives/0/kind", Some(json!("mixed")), "/narratives/0/kind", "enum"),
            ("/narratives/0/title", Some(json!("")), "/narratives/0/title", "minLength"),
            ("/narratives/0/text", Some(json!(null)), "/narratives/0/text", "type"),
            ("/narratives/0/from", Some(json!(-1)), "/narratives/0/from", "minimum"),
            ("/narratives/0/to", Some(json!(0.1)), "/narratives/0/to", "type"),
            ("/narratives/0/author", Some(json!("me")), "/narratives/0/author", "additionalProperties"),
            ("/narratives/0/sources", Some(json!(["a", "a"])), "/narratives/0/sources/1", "uniqueItems"),
            ("/narratives/0/sources/0", Some(json!("")), "/narratives/0/sources/0", "minLength"),
            ("/narratives/0/numbers", Some(json!({"files": 160})), "/narratives/0/numbers", "type"),
            ("/narratives/0/numbers/0/value", Some(json!("160")), "/narratives/0/numbers/0/value", "type"),
            ("/narratives/0/numbers/0/name", None, "/narratives/0/numbers/0", "required"),
            (
                "/narratives/0/numbers/0/unit",
                Some(json!("B")),
                "/narratives/0/numbers/0/unit",
                "additionalProperties",
            ),
        ],
    );
    broken_texts(TIMELINE, &timeline().to_string(), "narratives");
}

#[test]
fn no_schema_refers_to_anything_outside() {
    for schema in [SOURCE_CONTEXT, PRODUCT_CONTEXT, FEATURE_MAP, TIMELINE] {
        let text: Value = serde_json::from_str(schema).unwrap();
        let mut open = vec![&text];
        while let Some(value) = open.pop() {
            match value {
                Value::Array(items) => open.extend(items),
                Value::Object(object) => {
                    if let Some(reference) = object.get("$ref").and_then(Value::as_str) {
                        assert!(reference.starts_with("#/$defs/"), "{reference}");
                    }
                    if object.get("type") == Some(&json!("object")) {
                        assert!(object.contains_key("additionalProperties"), "{value} is strict");
                    }
                    open.extend(object.values());
                }
                _ => {}
            }
        }
    }
}
