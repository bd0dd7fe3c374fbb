use capataz_contracts::v1::SchemaViolation;
use serde_json::{Value, json};

use crate::surfaces::{REPORTED_MAX, check_source_context};

/// The places and rules of all violations.
#[track_caller]
fn check(output: &Value, input: Option<&Value>, expected: &[(&str, &str)]) -> Vec<SchemaViolation> {
    let violations = check_source_context(output, input);
    let found: Vec<_> = violations.iter().map(|found| (&*found.path, &*found.rule)).collect();
    assert_eq!(found, expected, "{output}");
    violations
}

fn buckets(rows: &[(&str, &str, Value)]) -> Value {
    let bucket = |(surface, prefix, count): &(&str, &str, Value)| {
        let mut bucket = json!({"surface": surface, "pathPrefix": prefix});
        if !count.is_null() {
            bucket["signalCount"] = count.clone();
        }
        bucket
    };
    rows.iter().map(bucket).collect()
}

fn context(classification: &str, rows: &[(&str, &str, Value)]) -> Value {
    json!({"classification": classification, "notes": "", "surfaceBuckets": buckets(rows)})
}

// S003-RU-02
#[test]
fn the_examples_of_the_seed_pass() {
    check(&json!({"classification": "product_core", "notes": "short evidence-based reason"}), None, &[]);
    let example = context(
        "product_core",
        &[("product_core", "apps/app", json!(120)), ("marketing_surface", "apps/website", json!(40))],
    );
    check(&example, None, &[]);
    check(&example, Some(&json!({"paths": ["apps/app/a.ts", "apps/website/b.ts"]})), &[]);
}

// S003-RU-03
#[test]
fn mixed_is_refused_and_buckets_are_asked_for() {
    let violations =
        check(&json!({"classification": "mixed", "notes": ""}), None, &[("/classification", "mixed")]);
    let expected = &violations.first().expect("there is one").expected;
    assert!(expected.contains("surfaceBuckets") && expected.contains("pathPrefix"), "{expected}");
    check(&json!({"classification": "MIXED"}), None, &[("/classification", "mixed")]);
    check(
        &context("docs", &[("docs", "a", json!(null)), ("Mixed", "b", json!(null))]),
        None,
        &[("/surfaceBuckets/1/surface", "mixed")],
    );
}

// S003-RU-04
#[test]
fn several_surfaces_need_buckets() {
    let paths: Vec<String> = (0..95)
        .map(|index| format!("src/{index}.rs"))
        .chain((0..5).map(|index| format!("docs/{index}.md")))
        .collect();
    let input = json!({"sourceId": "a/b", "paths": paths});
    let plain = json!({"classification": "product_core", "notes": ""});
    let violations = check(&plain, Some(&input), &[("/surfaceBuckets", "BUCKETS_REQUIRED")]);
    let expected = &violations.first().expect("there is one").expected;
    assert!(expected.contains("product_core 95 of 100, docs 5 of 100"), "{expected}");
    check(&context("product_core", &[]), Some(&input), &[("/surfaceBuckets", "BUCKETS_REQUIRED")]);
    check(&context("product_core", &[("docs", "docs", json!(null))]), Some(&input), &[]);
    // Without paths nobody knows, and equal paths count once.
    check(&plain, None, &[]);
    check(&plain, Some(&json!({"sourceId": "a/b"})), &[]);
    check(&plain, Some(&json!({"paths": "src"})), &[]);
    let repeated: Vec<_> =
        std::iter::repeat_n("docs/a.md", 5).map(str::to_owned).chain(paths.into_iter().take(95)).collect();
    check(&plain, Some(&json!({"paths": repeated})), &[]);
}

// S003-RU-05
#[test]
fn the_classification_has_the_most_signals_of_the_buckets() {
    let of = |classification: &str, a: Value, b: Value, c: Value| {
        context(classification, &[("product_core", "a", a), ("docs", "b", b), ("product_core", "c", c)])
    };
    let wrong = &[("/classification", "dominant")];
    check(&of("docs", json!(10), json!(25), json!(20)), None, wrong);
    check(&of("product_core", json!(10), json!(25), json!(20)), None, &[]);
    check(&of("Product_Core", json!(10), json!(25), json!(20)), None, &[]);
    check(&of("unknown", json!(10), json!(25), json!(20)), None, wrong);
    // Equal ones are both right; a count that is missing is 0.
    check(&of("docs", json!(10), json!(25), json!(15)), None, &[]);
    check(&of("docs", json!(null), json!(25), json!(20)), None, &[]);
    check(&of("docs", json!(null), json!(null), json!(1)), None, wrong);
    // Without counts nothing is compared.
    check(&of("docs", json!(null), json!(null), json!(null)), None, &[]);
    check(&of("docs", json!(0), json!(0), json!(0)), None, &[]);
    // Great counts are added up without an overflow.
    check(&of("docs", json!(1e300), json!(1e300), json!(1e300)), None, &[]);
    check(&of("docs", json!(u64::MAX), json!(u64::MAX), json!(u64::MAX)), None, wrong);
    let violations = check(&of("docs", json!(120), json!(40.0), json!(0)), None, wrong);
    let violation = violations.first().expect("there is one");
    assert!(
        violation.expected.contains("product_core has 120") && violation.found.contains("docs, which has 40")
    );
}

// S003-RU-06
#[test]
fn prefixes_are_whole_segments_of_paths_and_each_is_there_once() {
    let row = |prefix| ("docs", prefix, json!(null));
    let faults = context("docs", &[row(""), row("/docs"), row("a/../b"), row("ok"), row("ok/"), row("a")]);
    let without_paths = [
        ("/surfaceBuckets/0/pathPrefix", "prefix"),
        ("/surfaceBuckets/1/pathPrefix", "prefix"),
        ("/surfaceBuckets/2/pathPrefix", "prefix"),
        ("/surfaceBuckets/4/pathPrefix", "duplicate"),
    ];
    let violations = check(&faults, None, &without_paths);
    assert!(violations.last().is_some_and(|last| last.expected.contains("/surfaceBuckets/3")));
    let paths = json!({"paths": ["ok/x.md", "ab/y.md"]});
    let with_paths = [without_paths.as_slice(), &[("/surfaceBuckets/5/pathPrefix", "prefix")]].concat();
    check(&faults, Some(&paths), &with_paths);
    check(&context("docs", &[row("ab/y.md"), row("ab"), row("ok")]), Some(&paths), &[]);
}

#[test]
fn what_the_schema_refuses_is_passed_over() {
    for output in [
        json!(null),
        json!([]),
        json!("mixed"),
        json!({}),
        json!({"classification": 1, "surfaceBuckets": {}}),
        json!({"surfaceBuckets": [null, 1, {"surface": 1, "pathPrefix": [], "signalCount": -1}]}),
        json!({"classification": "other", "surfaceBuckets": [{"surface": "docs", "signalCount": 1}]}),
    ] {
        check(&output, None, &[]);
        check(&output, Some(&json!([])), &[]);
    }
}

#[test]
fn reports_are_bounded_and_say_so() {
    let rows: Vec<_> = (0..10_000).map(|_| ("mixed", "", json!(null))).collect();
    let violations = check_source_context(&context("docs", &rows), None);
    assert_eq!(violations.len(), REPORTED_MAX);
    let last = violations.last().expect("there are some");
    assert_eq!((last.rule.as_str(), last.found.as_str()), ("truncated", "19937 more violations"));
    let long = context("docs", &[("docs", &"/".repeat(1_000_000), json!(null))]);
    let violations = check(&long, None, &[("/surfaceBuckets/0/pathPrefix", "prefix")]);
    assert!(violations.iter().all(|violation| violation.found.len() < 200));
}

#[test]
fn many_paths_and_many_buckets_are_checked_in_one_pass() {
    let paths: Vec<_> = (0..200_000).map(|index| format!("a/p{}/f{index}.rs", index % 1_000)).collect();
    let rows: Vec<_> = (0..1_001).map(|index| format!("a/p{index}")).collect();
    let rows: Vec<_> = rows.iter().map(|prefix| ("docs", prefix.as_str(), json!(1))).collect();
    let expected = [("/surfaceBuckets/1000/pathPrefix", "prefix")];
    check(&context("docs", &rows), Some(&json!({"paths": paths})), &expected);
    // A path and a prefix of a hundred thousand segments each.
    let deep = "a/".repeat(100_000);
    check(&context("docs", &[("docs", &deep, json!(1))]), Some(&json!({"paths": [format!("{deep}a")]})), &[]);
}
