use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::random::analysed;
use crate::analysis::{SURFACE_CLASSIFICATION, analyse};

/// The files of this repository, without what is built.
fn walked(root: &Path) -> Vec<String> {
    let mut paths = Vec::new();
    let mut open = vec![String::new()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(root.join(&folder)).expect("the folder is there") {
            let entry = entry.expect("the folder can be read");
            let name = entry.file_name().into_string().expect("names are text");
            let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            let kind = entry.file_type().expect("it has a kind");
            if kind.is_dir() && !matches!(name.as_str(), "target" | ".git" | ".capataz" | "__pycache__") {
                open.push(path);
            } else if kind.is_file() {
                paths.push(path);
            }
        }
    }
    paths
}

fn bucket<'o>(context: &'o Value, prefix: &str) -> &'o Value {
    let buckets = context["surfaceBuckets"].as_array().expect("there are buckets");
    buckets.iter().find(|bucket| bucket["pathPrefix"] == prefix).unwrap_or(&Value::Null)
}

#[test]
fn this_repository_is_a_product_with_documentation() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let paths = walked(&root);
    let manifests: serde_json::Map<String, Value> = paths
        .iter()
        .filter(|path| path.ends_with("Cargo.toml") || *path == "README.md")
        .map(|path| (path.clone(), json!(fs::read_to_string(root.join(path)).expect("it is a text"))))
        .collect();
    let source = json!({"sourceId": "org/capataz", "paths": paths, "manifests": manifests});
    let context = analyse(SURFACE_CLASSIFICATION, &source).expect("the input is right");
    assert_eq!(context["classification"], "product_core");
    for (prefix, surface) in [("crates", "product_core"), ("docs", "docs")] {
        let count = paths.iter().filter(|path| path.starts_with(&format!("{prefix}/"))).count();
        assert_eq!(
            bucket(&context, prefix),
            &json!({"surface": surface, "pathPrefix": prefix, "signalCount": count})
        );
    }
    let (surfaces, [product, map, told]) = analysed(&json!([source]));
    assert_eq!(product["name"], "Capataz");
    assert_eq!(product["technologies"][0], "Rust");
    let total: u64 = surfaces["summary"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|row| row["signalCount"].as_u64())
        .sum();
    assert_eq!(total, paths.len() as u64);
    let crates = fs::read_dir(root.join("crates")).expect("it is there").count();
    let packages = map["features"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|feature| feature["kind"] == "package")
        .count();
    // The crates, and fuzz and xtask.
    assert_eq!(packages, crates + 2);
    assert!(
        told["narratives"][0]["text"]
            .as_str()
            .is_some_and(|text| text.starts_with("Capataz has 1 source with "))
    );
}

/// A repository of a product with a site, infrastructure and documentation.
fn monorepo() -> Value {
    let files = |count: usize, folder: &str, ending: &str| {
        let path = |index| format!("{folder}/f{index:03}.{ending}");
        (0..count).map(path).collect::<Vec<_>>()
    };
    let paths = [
        files(119, "apps/app/src", "ts"),
        vec!["apps/app/package.json".to_owned()],
        files(40, "apps/website/pages", "tsx"),
        files(20, "docs", "md"),
        files(15, "infra/modules", "tf"),
        vec!["README.md".to_owned(), "package.json".to_owned(), ".gitignore".to_owned()],
    ];
    json!({"sourceId": "Org/Shop", "paths": paths.concat(), "manifests": {"apps/app/package.json": r#"{"name": "@org/app"}"#}})
}

// S003-OU-14
#[test]
fn a_monorepo_with_a_site_has_a_bucket_for_each_surface() {
    let context = analyse(SURFACE_CLASSIFICATION, &monorepo()).expect("the input is right");
    assert_eq!(context["classification"], "product_core");
    assert_eq!(
        context["surfaceBuckets"],
        json!([
            {"surface": "product_core", "pathPrefix": "apps/app", "signalCount": 120},
            {"surface": "marketing_surface", "pathPrefix": "apps/website", "signalCount": 40},
            {"surface": "docs", "pathPrefix": "docs", "signalCount": 20},
            {"surface": "infra", "pathPrefix": "infra", "signalCount": 15},
        ])
    );
    let (surfaces, [product, map, told]) = analysed(&json!([monorepo()]));
    // The three files at the top count for the classification: 123 of 198.
    assert_eq!(
        surfaces["summary"],
        json!([
            {"surface": "docs", "signalCount": 20, "samplePaths":
                ["docs/f000.md", "docs/f001.md", "docs/f002.md", "docs/f003.md", "docs/f004.md"]},
            {"surface": "infra", "signalCount": 15, "samplePaths": ["infra/modules/f000.tf", "infra/modules/f001.tf",
                "infra/modules/f002.tf", "infra/modules/f003.tf", "infra/modules/f004.tf"]},
            {"surface": "marketing_surface", "signalCount": 40, "samplePaths": ["apps/website/pages/f000.tsx",
                "apps/website/pages/f001.tsx", "apps/website/pages/f002.tsx", "apps/website/pages/f003.tsx",
                "apps/website/pages/f004.tsx"]},
            {"surface": "product_core", "signalCount": 123, "samplePaths": [".gitignore", "README.md",
                "apps/app/package.json", "apps/app/src/f000.ts", "apps/app/src/f001.ts"]},
        ])
    );
    assert_eq!(surfaces["surfaces"][0]["confidence"], json!(0.6212));
    let ids: Vec<_> = product["domains"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|domain| domain["id"].as_str())
        .collect();
    assert_eq!(ids, ["app", "website", "docs", "infra", "shop"]);
    assert_eq!(map["domainMap"]["website"].as_array().map(Vec::len), Some(40));
    assert_eq!(
        told["narratives"][0]["text"],
        "Shop has 1 source with 198 paths. Most of it is product_core: 123 of 198 (62 %). It has 41 features in 5 domains."
    );
}

#[test]
fn a_large_source_is_told_apart_in_one_pass() {
    let paths: Vec<_> = (0..100_000)
        .map(|index| {
            format!("packages/p{}/{}/f{index}.ts", index % 1_000, if index % 4 == 0 { "docs" } else { "src" })
        })
        .collect();
    let context = analyse(SURFACE_CLASSIFICATION, &json!({"sourceId": "s", "paths": paths}))
        .expect("the input is right");
    assert_eq!(context["classification"], "product_core");
    // No folder `docs` has 1 % of the signals, so that files stand for them.
    assert_eq!(bucket(&context, "packages")["signalCount"], json!(100_000 - 8));
    assert_eq!(context["surfaceBuckets"].as_array().map(Vec::len), Some(9));
    let deep = format!("{}a.rs", "d/".repeat(50_000));
    analyse(SURFACE_CLASSIFICATION, &json!({"sourceId": "s", "paths": [deep, "docs/a.md"]}))
        .expect("the input is right");
}
