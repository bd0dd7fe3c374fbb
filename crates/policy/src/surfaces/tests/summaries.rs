use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::surfaces::{REPORTED_MAX, SAMPLE_PATHS, entry, summarize};

#[track_caller]
fn check(entries: &Value, expected: &Value) {
    assert_eq!(summarize(entries).as_ref(), Ok(expected));
}

#[track_caller]
fn refused(entries: &Value, expected: &[(&str, &str)]) {
    let violations = summarize(entries).expect_err("the entries are wrong");
    let found: Vec<_> = violations.iter().map(|found| (&*found.path, &*found.rule)).collect();
    assert_eq!(found, expected, "{entries}");
}

// S003-SU-01
#[test]
fn the_site_in_a_monorepo_is_in_the_summary() {
    let input = json!({"sourceId": "Org/Shop", "paths": [
        "apps/app/main.ts", "apps/app/cart.ts", "apps/app/a/b.ts", "apps/app-shell/x.ts", "README.md",
        "apps/website/index.html", "apps/website/blog/first.md", "apps/website",
    ], "manifests": {"package.json": "{}"}});
    let output = json!({"classification": "Product_Core", "notes": "Monorepo con app principal + Marketing site",
    "outputVersion": "v1.0", "surfaceBuckets": [
        {"surface": "product_core", "pathPrefix": "apps/app", "signalCount": 120},
        {"surface": "Marketing_Surface", "pathPrefix": "apps/website", "signalCount": 40},
        {"surface": "docs", "pathPrefix": "apps/website/blog"},
    ]});
    // Below apps/app: 3. By the classification: apps/app-shell/x.ts and README.md. Below apps/website: 2, of which the
    // path itself is one. Below apps/website/blog: 1. So 5 of 8 count for the classification.
    check(
        &json!([entry(&input, &output)]),
        &json!({
            "surfaces": [{"sourceId": "org/shop", "classification": "product_core", "confidence": 0.625,
                "notes": "Monorepo con app principal + Marketing site"}],
            "summary": [
                {"surface": "docs", "signalCount": 1, "samplePaths": ["apps/website/blog/first.md"]},
                {"surface": "marketing_surface", "signalCount": 2,
                    "samplePaths": ["apps/website", "apps/website/index.html"]},
                {"surface": "product_core", "signalCount": 5, "samplePaths": [
                    "README.md", "apps/app-shell/x.ts", "apps/app/a/b.ts", "apps/app/cart.ts", "apps/app/main.ts"]},
            ],
        }),
    );
}

// S003-SU-02
#[test]
fn sources_are_sorted_by_id_and_surfaces_by_name() {
    let of = |id: &str, classification: &str, path: &str| json!({"sourceId": id, "classification": classification, "confidence": 1, "paths": [path]});
    let summary =
        summarize(&json!([of("b", "infra", "x"), of("C", "docs", "y"), of("a", "product_core", "z")]));
    let summary = summary.expect("the entries are right");
    let named = |list: &str, key: &str| -> Vec<String> {
        let items = summary[list].as_array().expect("a list");
        items.iter().map(|item| item[key].as_str().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(named("surfaces", "sourceId"), ["a", "b", "c"]);
    assert_eq!(named("summary", "surface"), ["docs", "infra", "product_core"]);
}

// S003-SU-03
#[test]
fn of_one_source_the_entry_of_the_highest_confidence_counts_with_the_paths_of_all() {
    let entries = json!([
        {"sourceId": "Org/Repo", "classification": "docs", "confidence": 0.4, "notes": "a", "paths": ["x", "y"]},
        {"sourceId": "org/repo", "classification": "product_core", "confidence": 0.9, "notes": "B", "paths": ["y", "z"]},
        {"sourceId": "ORG/REPO", "classification": "infra", "confidence": 0.9, "notes": "z", "paths": []},
        {"sourceId": "org/repo", "classification": "infra", "confidence": 0.9, "notes": "y"},
    ]);
    check(
        &entries,
        &json!({
            "surfaces": [{"sourceId": "org/repo", "classification": "infra", "confidence": 0.9, "notes": "y"}],
            "summary": [{"surface": "infra", "signalCount": 3, "samplePaths": ["x", "y", "z"]}],
        }),
    );
}

// S003-SU-04
#[test]
fn five_sample_paths_in_lexicographic_order_are_kept_as_they_are_written() {
    let paths = ["b", "a", "B", "ä", "a/b", "a-b", "c", "b"];
    check(
        &json!([{"sourceId": "s", "classification": "docs", "paths": paths}]),
        &json!({
            "surfaces": [{"sourceId": "s", "classification": "docs", "confidence": 1.0, "notes": ""}],
            "summary": [{"surface": "docs", "signalCount": 7, "samplePaths": ["B", "a", "a-b", "a/b", "b"]}],
        }),
    );
}

// S003-SU-05
#[test]
fn equal_paths_count_once_in_a_source_and_once_for_each_source() {
    let of = |id: &str| json!({"sourceId": id, "classification": "docs", "paths": ["x", "x", "X"]});
    let summary = summarize(&json!([of("a"), of("b"), of("A")])).expect("the entries are right");
    assert_eq!(summary["summary"], json!([{"surface": "docs", "signalCount": 4, "samplePaths": ["X", "x"]}]));
}

#[test]
fn a_source_without_paths_has_no_signals_and_no_confidence() {
    check(
        &json!([{"sourceId": "s", "classification": "UNKNOWN", "notes": "Empty"}]),
        &json!({
            "surfaces": [{"sourceId": "s", "classification": "unknown", "confidence": 0.0, "notes": "Empty"}],
            "summary": [],
        }),
    );
    check(&json!([]), &json!({"surfaces": [], "summary": []}));
}

#[test]
fn a_confidence_that_is_not_given_is_the_share_of_the_united_paths() {
    let entries = json!([
        {"sourceId": "s", "classification": "docs", "paths": ["a/1", "a/2", "b/1"],
            "surfaceBuckets": [{"surface": "infra", "pathPrefix": "b"}]},
        {"sourceId": "s", "classification": "infra", "confidence": 0.1, "paths": ["b/2", "b/3", "b/4"]},
    ]);
    // Of its own paths, 2 of 3 count for docs, which is more than 0.1; of all six, 2.
    check(
        &entries,
        &json!({
            "surfaces": [{"sourceId": "s", "classification": "docs", "confidence": 0.3333, "notes": ""}],
            "summary": [
                {"surface": "docs", "signalCount": 2, "samplePaths": ["a/1", "a/2"]},
                {"surface": "infra", "signalCount": 4, "samplePaths": ["b/1", "b/2", "b/3", "b/4"]},
            ],
        }),
    );
}

#[test]
fn wrong_entries_are_refused_with_all_their_places() {
    refused(&json!({}), &[("", "type")]);
    refused(
        &json!([7, {"sourceId": "", "classification": "mixed"}, {"sourceId": "a"}]),
        &[("/0", "type"), ("/1/sourceId", "minLength"), ("/1/classification", "enum"), ("/2", "required")],
    );
    let entry = json!({"sourceId": "a", "classification": "docs", "confidence": 1.5, "notes": 1, "paths": ["a", 2],
        "surfaceBuckets": [{"surface": "docs"}, {"surface": "x", "pathPrefix": "a"},
            {"surface": "docs", "pathPrefix": "a", "signalCount": -1}], "why/not": 1});
    refused(
        &json!([entry]),
        &[
            ("/0/why~1not", "additionalProperties"),
            ("/0/notes", "type"),
            ("/0/confidence", "range"),
            ("/0/paths/1", "type"),
            ("/0/surfaceBuckets/0", "type"),
            ("/0/surfaceBuckets/1/surface", "enum"),
            ("/0/surfaceBuckets/2/signalCount", "type"),
        ],
    );
    let many: Vec<Value> = (0..1_000).map(|_| json!(null)).collect();
    assert_eq!(summarize(&json!(many)).map_err(|violations| violations.len()), Err(REPORTED_MAX));
}

#[test]
fn two_hundred_thousand_paths_and_a_thousand_buckets_are_counted_in_one_pass() {
    let paths: Vec<_> = (0..200_000).map(|index| format!("a/p{}/f{index}.rs", index % 2_000)).collect();
    let buckets: Vec<_> =
        (0..1_000).map(|index| json!({"surface": "docs", "pathPrefix": format!("a/p{index}")})).collect();
    let entries =
        json!([{"sourceId": "s", "classification": "infra", "paths": paths, "surfaceBuckets": buckets}]);
    let summary = summarize(&entries).expect("the entries are right");
    assert_eq!(summary["summary"][0]["signalCount"], json!(100_000));
    assert_eq!(summary["summary"][1]["signalCount"], json!(100_000));
    assert_eq!(summary["surfaces"][0]["confidence"], json!(0.5));
    // A thousand entries of one source do not look at each other's paths.
    let chunk = |index: usize| {
        let paths: Vec<_> = (0..200).map(|path| format!("{index}/{path}")).collect();
        json!({"sourceId": "s", "classification": "infra", "paths": paths})
    };
    let many: Vec<Value> = (0..1_000).map(chunk).collect();
    let summary = summarize(&json!(many)).expect("the entries are right");
    assert_eq!(summary["summary"][0]["signalCount"], json!(200_000));
}

const SURFACES: [&str; 6] = ["docs", "experiments", "infra", "marketing_surface", "product_core", "unknown"];

fn any_path() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(vec!["a", "b", "A", "ab", ""]), 1..4)
        .prop_map(|parts| parts.join("/"))
}

fn any_surface() -> impl Strategy<Value = String> {
    prop::sample::select(SURFACES.to_vec())
        .prop_flat_map(|name| prop::sample::select(vec![name.to_owned(), name.to_uppercase()]))
}

fn any_entry() -> impl Strategy<Value = Value> {
    let confidence = prop::option::of(prop::sample::select(vec![0.0, 0.25, 0.5, 1.0]));
    let bucket = (any_surface(), any_path())
        .prop_map(|(surface, prefix)| json!({"surface": surface, "pathPrefix": prefix}));
    (
        prop::sample::select(vec!["s", "S", "t", "T/u"]),
        any_surface(),
        confidence,
        prop::sample::select(vec!["", "Note", "note"]),
        prop::collection::vec(any_path(), 0..8),
        prop::collection::vec(bucket, 0..5),
    )
        .prop_map(|(id, classification, confidence, notes, paths, buckets)| {
            let mut entry = json!({"sourceId": id, "classification": classification, "notes": notes, "paths": paths,
                "surfaceBuckets": buckets});
            if let Some(confidence) = confidence {
                entry["confidence"] = json!(confidence);
            }
            entry
        })
}

/// The same entries in another order, with paths and buckets in another order.
fn shuffled(entries: Vec<Value>) -> impl Strategy<Value = Vec<Value>> {
    let within = |entry: Value| {
        let list = |key: &str| entry[key].as_array().cloned().unwrap_or_default();
        (Just(list("paths")).prop_shuffle(), Just(list("surfaceBuckets")).prop_shuffle()).prop_map(
            move |(paths, buckets)| {
                let mut entry = entry.clone();
                entry["paths"] = json!(paths);
                entry["surfaceBuckets"] = json!(buckets);
                entry
            },
        )
    };
    entries.into_iter().map(within).collect::<Vec<_>>().prop_shuffle()
}

/// The number of paths for each surface where every source has one entry, counted in the simplest way.
fn counted(entries: &[Value]) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for entry in entries {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_lowercase();
        let paths: BTreeSet<_> =
            entry["paths"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        for path in paths {
            let buckets = entry["surfaceBuckets"].as_array().into_iter().flatten();
            let fitting = buckets.filter_map(|bucket| {
                let prefix = bucket["pathPrefix"].as_str().unwrap_or_default();
                let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
                let fits = path == prefix || path.starts_with(&format!("{prefix}/"));
                fits.then(|| (prefix.len(), text(&bucket["surface"])))
            });
            let longest = fitting.max_by_key(|(length, _)| *length).map(|(_, surface)| surface);
            *counts.entry(longest.unwrap_or_else(|| text(&entry["classification"]))).or_default() += 1;
        }
    }
    counts
}

proptest! {
    // S003-SU-06
    #[test]
    fn the_order_of_what_is_summarized_changes_no_byte(
        (entries, others) in prop::collection::vec(any_entry(), 0..7)
            .prop_flat_map(|entries| (Just(entries.clone()), shuffled(entries))),
    ) {
        let first = summarize(&json!(entries)).expect("the entries are right").to_string();
        let second = summarize(&json!(others)).expect("the entries are right").to_string();
        prop_assert_eq!(first, second);
    }

    #[test]
    fn counts_are_those_of_the_longest_prefixes(mut entries in prop::collection::vec(any_entry(), 0..5)) {
        for (index, entry) in entries.iter_mut().enumerate() {
            entry["sourceId"] = json!(format!("s{index}"));
            // Which of two buckets with one prefix counts is another rule.
            let buckets: BTreeMap<String, Value> = entry["surfaceBuckets"].as_array().into_iter().flatten()
                .map(|bucket| (bucket["pathPrefix"].as_str().unwrap_or_default().trim_end_matches('/').to_owned(), bucket.clone()))
                .collect();
            entry["surfaceBuckets"] = buckets.into_values().collect();
        }
        let summary = summarize(&json!(entries)).expect("the entries are right");
        let rows = summary["summary"].as_array().expect("a list");
        let found: BTreeMap<String, u64> = rows.iter()
            .map(|row| (row["surface"].as_str().unwrap_or_default().to_owned(), row["signalCount"].as_u64().unwrap_or_default()))
            .collect();
        prop_assert_eq!(found, counted(&entries));
        for row in rows {
            let samples = row["samplePaths"].as_array().expect("a list");
            prop_assert!(samples.len() <= SAMPLE_PATHS && !samples.is_empty());
        }
    }
}
