use capataz_judge::Schema;
use capataz_policy::surfaces::{check_source_context, entry, summarize};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::analysis::{
    AGENTS, DOMAIN_MAPPING, FEATURE_EXTRACTION, NARRATIVE, OUTPUT_SCHEMAS, SURFACE_CLASSIFICATION, analyse,
};

/// The output passes its schema as it is.
#[track_caller]
pub(super) fn passes(agent: &str, output: &Value) {
    let index = AGENTS.iter().position(|known| *known == agent).expect("it is an agent");
    let schema = Schema::compile(OUTPUT_SCHEMAS[index]).expect("it is a schema");
    let text = output.to_string();
    assert_eq!(schema.judge(text.as_bytes()), [], "{agent}: {text}");
    assert_eq!(schema.lowered(text.as_bytes()), None);
}

/// All phases over these sources, each with what the earlier ones have put out. Returns the outputs of the last three.
#[track_caller]
pub(super) fn analysed(sources: &Value) -> (Value, [Value; 3]) {
    let run = |agent: &str, input: &Value| {
        let output = analyse(agent, input).expect("the input is right");
        passes(agent, &output);
        assert_eq!(analyse(agent, input).as_ref(), Ok(&output), "the same input has the same output");
        output
    };
    let mut entries = Vec::new();
    for source in sources.as_array().expect("a list") {
        let output = run(SURFACE_CLASSIFICATION, source);
        assert_eq!(check_source_context(&output, Some(source)), [], "{source}");
        entries.push(entry(source, &output));
    }
    let surfaces = summarize(&json!(entries)).expect("the entries are right");
    let context = run(DOMAIN_MAPPING, &json!({"sources": sources, "surfaces": surfaces, "startedAt": 9}));
    let map =
        run(FEATURE_EXTRACTION, &json!({"sources": sources, "productContext": context, "startedAt": 9}));
    let told = run(NARRATIVE, &json!({"surfaces": surfaces, "featureMap": map, "productContext": context}));
    // Each phase can also begin with less.
    run(DOMAIN_MAPPING, &json!({"sources": sources}));
    run(FEATURE_EXTRACTION, &json!({"sources": sources}));
    run(NARRATIVE, &json!({"surfaces": surfaces}));
    run(NARRATIVE, &json!({"featureMap": map}));
    (surfaces, [context, map, told])
}

fn any_path() -> impl Strategy<Value = String> {
    let folder = prop::sample::select(vec![
        "apps",
        "app",
        "website",
        "docs",
        "src",
        "infra",
        "labs",
        "crates",
        "a",
        "b",
        "Ünï",
        "pages",
        "commands",
        "tests",
        "x y",
        "website.d",
    ]);
    let file = prop::sample::select(vec![
        "main.rs",
        "index.ts",
        "page.tsx",
        "README.md",
        "guide.md",
        "main.tf",
        "Cargo.toml",
        "package.json",
        "a.ipynb",
        "x.bin",
        "Dockerfile",
        "a.proto",
        ".gitignore",
        "ß.py",
        "docs",
        "src",
    ]);
    (prop::collection::vec(folder, 0..4), file)
        .prop_map(|(folders, file)| folders.into_iter().chain([file]).collect::<Vec<_>>().join("/"))
}

fn any_manifest() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec!["website", "@org/site", "core", "", "Ünï", "a b"])
            .prop_map(|name| json!({"name": name, "bin": {"": "", name: ""}}).to_string()),
        "[package]\nname = \"[a-z-]{0,9}\"\n\\[\\[bin\\]\\]\nname = \"[a-z]{0,3}\"",
        "# [A-Za-z ]{0,9}\n\n[a-z \n]{0,40}",
        ".{0,20}",
    ]
}

fn any_source() -> impl Strategy<Value = Value> {
    (
        prop::sample::select(vec!["org/shop", "Org/Shop", "org/website", "docs", "s/", "ß"]),
        prop::collection::vec(any_path(), 0..40),
        prop::collection::vec(any_manifest(), 0..4),
    )
        .prop_map(|(id, paths, texts)| {
            let is_manifest = |path: &&String| {
                path.ends_with("toml") || path.ends_with("json") || path.ends_with("README.md")
            };
            let manifests: serde_json::Map<String, Value> = paths
                .iter()
                .filter(is_manifest)
                .zip(texts)
                .map(|(path, text)| (path.clone(), Value::String(text)))
                .collect();
            json!({"sourceId": id, "paths": paths, "manifests": manifests})
        })
}

proptest! {
    // S003-OU-13
    #[test]
    fn outputs_pass_their_schemas_and_rules_whatever_the_sources_are(sources in prop::collection::vec(any_source(), 0..4)) {
        analysed(&json!(sources));
    }

    #[test]
    fn buckets_are_those_of_any_order_of_the_paths((paths, others) in
        prop::collection::vec(any_path(), 0..30).prop_flat_map(|paths| (Just(paths.clone()), Just(paths).prop_shuffle())))
    {
        let of = |paths: &[String]| analyse(SURFACE_CLASSIFICATION, &json!({"sourceId": "s", "paths": paths}));
        prop_assert_eq!(of(&paths), of(&others));
    }

    #[test]
    fn strange_paths_are_refused_or_told_apart(paths in prop::collection::vec("[a-z/.\\\\ \t]{0,6}(docs/|src/)?[a-z./]{0,4}(md|rs)?", 0..20)) {
        let input = json!({"sourceId": "s", "paths": paths});
        if let Ok(output) = analyse(SURFACE_CLASSIFICATION, &input) {
            passes(SURFACE_CLASSIFICATION, &output);
            prop_assert_eq!(check_source_context(&output, Some(&input)), []);
        }
    }

    #[test]
    fn any_value_has_an_output_or_a_refusal(text in "[\\[\\]{}\",:a-z0-9]{0,40}", agent in prop::sample::select(AGENTS.to_vec())) {
        if let Ok(value) = serde_json::from_str::<Value>(&text) {
            let _ = analyse(agent, &value);
            let _ = analyse(agent, &json!({"sources": value, "surfaces": value, "featureMap": value, "paths": value}));
        }
    }
}
