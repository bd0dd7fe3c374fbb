use std::sync::Arc;

use bytes::Bytes;
use capataz_contracts::v1::{self, payload::Data};
use capataz_judge::Schema;
use capataz_store::{MemoryStore, Millis, Store};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::Serve;
use crate::analysis::{
    AGENTS, Analysts, DOMAIN_MAPPING, FEATURE_EXTRACTION, NARRATIVE, SURFACE_CLASSIFICATION, analyse,
};
use crate::protocol::Lease;
use crate::serve::{Answer, News, Reporter};

/// A package of a command, a service with routes, and a site.
fn shop() -> Value {
    json!({
        "sourceId": "Org/Shop",
        "paths": [
            "README.md", "package.json",
            "apps/shop/package.json", "apps/shop/app/page.tsx", "apps/shop/app/(buy)/cart/page.tsx",
            "apps/shop/app/api/orders/route.ts", "apps/shop/app/cart.css", "apps/shop/lib/money.ts",
            "apps/website/index.html", "apps/website/pages/about.tsx",
            "crates/till/Cargo.toml", "crates/till/src/main.rs", "crates/till/src/commands/mod.rs",
            "crates/till/src/commands/count.rs", "crates/till/src/commands/close.rs", "crates/till/tests/main.rs",
            "proto/till.proto",
        ],
        "manifests": {
            "README.md": "# The Shop\n\n[![ci](x)](y)\n\nSells things,\nand counts them.\n\n## More\nMore.",
            "package.json": r#"{"name": "shop-root"}"#,
            "apps/shop/package.json": r#"{"name": "@org/shop-app", "description": "What buyers see.", "bin": {"shopctl": "x"}}"#,
            "crates/till/Cargo.toml": "[package]\nname = \"till\"\ndescription = 'Counts.'\n[[bin]]\nname = \"tillctl\"\n[dependencies]\nname = \"no\"",
        },
    })
}

#[track_caller]
fn output(agent: &str, input: &Value) -> Value {
    analyse(agent, input).expect("the input is right")
}

/// The names of the features of a kind.
fn names<'o>(map: &'o Value, kind: &str) -> Vec<&'o str> {
    let features = map["features"].as_array().into_iter().flatten();
    features
        .filter(|feature| feature["kind"] == kind)
        .filter_map(|feature| feature["name"].as_str())
        .collect()
}

#[test]
fn a_source_context_cites_paths_and_packages() {
    let context = output(SURFACE_CLASSIFICATION, &shop());
    // Signals are all but README.md: 2 of 16 are of the site.
    assert_eq!(
        context["notes"],
        "17 paths, 16 signals; product_core 14 (87 %), such as apps/shop/app/(buy)/cart/page.tsx; marketing_surface 2 \
         (12 %), such as apps/website/index.html; 3 packages, such as shop-root in package.json, @org/shop-app in \
         apps/shop/package.json, till in crates/till/Cargo.toml"
    );
    assert_eq!(context["classification"], "product_core");
    assert_eq!(
        context["surfaceBuckets"],
        json!([
            {"surface": "product_core", "pathPrefix": "apps/shop", "signalCount": 6},
            {"surface": "product_core", "pathPrefix": "crates", "signalCount": 6},
            {"surface": "marketing_surface", "pathPrefix": "apps/website", "signalCount": 2},
            {"surface": "product_core", "pathPrefix": "proto", "signalCount": 1},
        ])
    );
}

#[test]
fn the_name_of_a_package_or_a_repository_tells_its_surface_and_that_of_a_folder_none() {
    let of = |id: &str, name: &str| {
        let input = json!({"sourceId": id, "paths": ["web/package.json", "web/a.ts", "web/b.ts"],
            "manifests": {"web/package.json": json!({"name": name}).to_string()}});
        output(SURFACE_CLASSIFICATION, &input)["classification"].clone()
    };
    assert_eq!(of("org/shop", "shop"), "product_core");
    assert_eq!(of("org/shop", "@org/shop-website"), "marketing_surface");
    assert_eq!(of("org/shop", "docs"), "docs");
    assert_eq!(of("org/marketing-site", "pages"), "marketing_surface");
    assert_eq!(of("org/campsite", "parasite"), "product_core");
    // Where somebody has put a copy says nothing of it.
    for folder in ["scratch", "demo", "docs", "marketing-site"] {
        assert_eq!(of(folder, "shop"), "product_core", "{folder}");
    }
}

#[test]
fn a_source_of_one_surface_has_no_buckets_and_one_of_none_is_unknown() {
    let of = |paths: &[&str]| output(SURFACE_CLASSIFICATION, &json!({"sourceId": "s", "paths": paths}));
    let one = of(&["src/a.rs", "src/b.rs", "LICENSE"]);
    assert_eq!((&one["classification"], one.get("surfaceBuckets")), (&json!("product_core"), None));
    let none = of(&["LICENSE", "a.bin"]);
    assert_eq!((&none["classification"], &none["notes"]), (&json!("unknown"), &json!("2 paths, 0 signals")));
    assert_eq!(of(&[])["notes"], "0 paths, 0 signals");
}

#[test]
fn files_are_buckets_where_a_surface_has_no_folder_and_counts_that_mislead_are_left_out() {
    let paths = ["a.py", "b.py", "c.py", "d.py", "docs/a.md", "docs/b.md", "main.tf"];
    let context = output(SURFACE_CLASSIFICATION, &json!({"sourceId": "s", "paths": paths}));
    assert_eq!(context["classification"], "product_core");
    // The product has no folder, so that the documentation would have the most paths of the buckets.
    assert_eq!(
        context["surfaceBuckets"],
        json!([{"surface": "docs", "pathPrefix": "docs"}, {"surface": "infra", "pathPrefix": "main.tf"}])
    );
}

// S003-OU-07
#[test]
fn what_a_product_context_leaves_out_is_an_empty_text_or_list() {
    let minimal = json!({"version": 1, "createdAt": 0});
    let written_out = json!({
        "version": 1, "createdAt": 0, "name": "", "summary": "", "audience": "", "technologies": [], "sources": [],
        "surfaces": [], "domains": [], "openQuestions": [],
    });
    let surfaces =
        json!({"surfaces": [], "summary": [{"surface": "docs", "signalCount": 3, "samplePaths": []}]});
    let extracted = |context: &Value| {
        output(FEATURE_EXTRACTION, &json!({"sources": [shop()], "productContext": context}))
    };
    let map = extracted(&minimal);
    let told = |context: &Value| {
        output(NARRATIVE, &json!({"surfaces": surfaces, "featureMap": map, "productContext": context}))
    };
    assert_eq!(map, extracted(&written_out));
    assert_eq!(told(&minimal), told(&written_out));
    // A context that says something is heard.
    let mut named = minimal.clone();
    named["name"] = json!("Till");
    named["domains"] = json!([{"id": "till", "name": "The till", "surface": "product_core"}]);
    assert_ne!(extracted(&named), map);
    assert_ne!(told(&named), told(&minimal));
}

#[test]
fn a_product_context_has_the_domains_and_what_the_summary_says() {
    let surfaces = json!({
        "surfaces": [{"sourceId": "org/shop", "classification": "product_core", "confidence": 0.875, "notes": ""},
            {"sourceId": "org/odds", "classification": "unknown", "confidence": 0.0, "notes": ""}],
        "summary": [{"surface": "product_core", "signalCount": 15, "samplePaths": []}],
    });
    let input = json!({"sources": [shop()], "surfaces": surfaces, "startedAt": 1_768_089_600_000_u64, "correction": {}});
    let context = output(DOMAIN_MAPPING, &input);
    assert_eq!((&context["version"], &context["createdAt"]), (&json!(1), &json!(1_768_089_600_000_u64)));
    assert_eq!(
        (&context["name"], &context["summary"]),
        (&json!("The Shop"), &json!("Sells things, and counts them."))
    );
    // Of 12 files in known languages, 5 are TypeScript, 5 Rust, 1 is of Protocol Buffers.
    assert_eq!(context["technologies"], json!(["Rust", "TypeScript", "Protocol Buffers", "JavaScript"]));
    assert_eq!(
        context["sources"],
        json!([{"sourceId": "org/shop", "classification": "product_core", "confidence": 0.875, "pathCount": 17},
            {"sourceId": "org/odds", "classification": "unknown", "confidence": 0.0, "pathCount": 0}])
    );
    assert_eq!(context["surfaces"], json!([{"surface": "product_core", "signalCount": 15}]));
    assert_eq!(
        context["domains"],
        json!([
            {"id": "shop-app", "name": "shop-app", "surface": "product_core", "signalCount": 6,
                "pathPrefixes": ["Org/Shop/apps/shop"]},
            {"id": "till", "name": "till", "surface": "product_core", "signalCount": 6,
                "pathPrefixes": ["Org/Shop/crates/till"]},
            {"id": "website", "name": "website", "surface": "marketing_surface", "signalCount": 2,
                "pathPrefixes": ["Org/Shop/apps/website"]},
            {"id": "proto", "name": "proto", "surface": "product_core", "signalCount": 1,
                "pathPrefixes": ["Org/Shop/proto"]},
            {"id": "shop-root", "name": "shop-root", "surface": "product_core", "signalCount": 1,
                "pathPrefixes": ["Org/Shop"]},
        ])
    );
    assert_eq!(context["openQuestions"], json!(["What is org/odds for? No path of it tells."]));
    // Without a summary it is computed; a name that is given counts.
    let context = output(DOMAIN_MAPPING, &json!({"sources": [shop()], "productId": "till", "version": 4}));
    assert_eq!(
        (&context["name"], &context["version"], &context["createdAt"]),
        (&json!("till"), &json!(4), &json!(0))
    );
    assert_eq!(
        context["surfaces"],
        json!([{"surface": "marketing_surface", "signalCount": 2}, {"surface": "product_core", "signalCount": 15}])
    );
}

#[test]
fn features_are_packages_programs_routes_commands_and_interfaces() {
    let map = output(FEATURE_EXTRACTION, &json!({"sources": [shop()], "startedAt": 7}));
    assert_eq!(names(&map, "package"), ["@org/shop-app", "till", "shop-root"]);
    assert_eq!(names(&map, "program"), ["shopctl", "tillctl"]);
    assert_eq!(names(&map, "route"), ["/", "/api/orders", "/cart", "/about"]);
    assert_eq!(names(&map, "command"), ["close", "count"]);
    assert_eq!(names(&map, "interface"), ["till"]);
    assert_eq!(
        map["decisionSummary"],
        "5 domains by packages and folders. 12 features: 3 packages, 2 programs, 4 routes, 2 commands, 1 interface."
    );
    assert_eq!(
        map["domainMap"]["till"],
        json!(["till-package-till", "till-program-tillctl", "till-command-close", "till-command-count"])
    );
    let till =
        map["features"].as_array().into_iter().flatten().find(|feature| feature["id"] == "till-package-till");
    let till = till.expect("it is a feature");
    assert_eq!(
        (&till["description"], &till["evidence"]),
        (&json!("Counts."), &json!(["Org/Shop/crates/till/Cargo.toml"]))
    );
    assert_eq!((&map["generatedAt"], &map["sourcesUsed"]), (&json!(7), &json!(["Org/Shop"])));
}

#[test]
fn an_entry_point_is_a_program_where_its_manifest_names_none() {
    let paths = [
        "Cargo.toml",
        "src/main.rs",
        "src/bin/extra.rs",
        "cmd/tool/main.go",
        "py/worker/__main__.py",
        "tests/x/main.py",
    ];
    let map = output(FEATURE_EXTRACTION, &json!({"sources": [{"sourceId": "org/one", "paths": paths}]}));
    let mut programs = names(&map, "program");
    programs.sort_unstable();
    assert_eq!(programs, ["extra", "one", "tool", "worker"]);
}

#[test]
fn names_that_make_one_id_are_told_apart() {
    let paths = [
        "web/pages/a-b.tsx",
        "web/pages/a/b.tsx",
        "web/pages/a_b/2.tsx",
        "web/pages/a_b.tsx",
        "web/pages/index.vue",
    ];
    let map = output(FEATURE_EXTRACTION, &json!({"sources": [{"sourceId": "s", "paths": paths}]}));
    assert_eq!(names(&map, "route"), ["/", "/a-b", "/a/b", "/a_b", "/a_b/2"]);
    let expected =
        ["web-route-root", "web-route-a-b", "web-route-a-b-2", "web-route-a-b-3", "web-route-a-b-2-2"];
    assert_eq!(map["domainMap"]["web"], json!(expected));
}

#[test]
fn the_domains_of_a_product_context_are_those_of_the_features() {
    let context = json!({"domains": [
        {"id": "money", "name": "Money", "surface": "product_core", "signalCount": 6, "pathPrefixes": ["Org/Shop/crates"]},
        {"id": "Bad Id", "name": "x", "surface": "docs", "pathPrefixes": ["Org/Shop/apps"]},
    ]});
    let map = output(FEATURE_EXTRACTION, &json!({"sources": [shop()], "productContext": context}));
    assert_eq!(
        map["domains"],
        json!([{"id": "money", "name": "Money", "surface": "product_core", "signalCount": 6}])
    );
    assert_eq!(names(&map, "command"), ["close", "count"]);
    assert_eq!(names(&map, "route"), [""; 0]);
}

#[test]
fn a_narrative_has_the_numbers_of_the_phases_before() {
    let surfaces = json!({
        "surfaces": [{"sourceId": "org/shop"}, {"sourceId": "org/docs"}],
        "summary": [{"surface": "docs", "signalCount": 40, "samplePaths": ["a.md"]},
            {"surface": "product_core", "signalCount": 120, "samplePaths": ["a", "b", "c", "d"]}],
    });
    let map = json!({"domains": [{"id": "till", "name": "till", "surface": "product_core", "signalCount": 9},
            {"id": "odds", "name": "odds", "surface": "docs", "signalCount": 1}],
        "features": [{"domain": "till", "kind": "command", "name": "close"}], "sourcesUsed": ["x"]});
    let input = json!({"surfaces": surfaces, "featureMap": map, "productContext": {"name": "The Shop"}});
    let told = output(NARRATIVE, &input);
    let texts: Vec<_> = told["narratives"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|told| told["text"].as_str())
        .collect();
    assert_eq!(
        texts,
        [
            "The Shop has 2 sources with 160 paths. Most of it is product_core: 120 of 160 (75 %). It has 1 feature in 2 \
             domains.",
            "product_core has 120 paths of 160 (75 %), such as a, b, c.",
            "docs has 40 paths of 160 (25 %), such as a.md.",
            "till has 9 paths, mostly product_core, and 1 feature: command close.",
            "odds has 1 path, mostly docs, and no features.",
        ]
    );
    assert_eq!(told["narratives"][0]["sources"], json!(["org/docs", "org/shop"]));
    let alone = output(NARRATIVE, &json!({"featureMap": map}));
    assert_eq!(alone["narratives"][0]["text"], "The product has 1 source. It has 1 feature in 2 domains.");
}

#[test]
fn texts_are_in_the_language_that_is_asked_for_and_nothing_else_differs() {
    let mut source = shop();
    source["language"] = json!("es");
    let context = output(SURFACE_CLASSIFICATION, &source);
    assert_eq!(
        context["notes"],
        "17 archivos, 16 señales; product_core 14 (87 %), como apps/shop/app/(buy)/cart/page.tsx; marketing_surface 2 \
         (12 %), como apps/website/index.html; 3 paquetes, como shop-root en package.json, @org/shop-app en \
         apps/shop/package.json, till en crates/till/Cargo.toml"
    );
    let english = output(SURFACE_CLASSIFICATION, &shop());
    assert_eq!(context["surfaceBuckets"], english["surfaceBuckets"]);

    let map = output(FEATURE_EXTRACTION, &json!({"sources": [shop()], "language": "es"}));
    assert_eq!(
        map["decisionSummary"],
        "5 dominios por paquetes y carpetas. 12 funcionalidades: 3 paquetes, 2 programas, 4 rutas, 2 comandos, 1 interfaz."
    );
    let surfaces = json!({"surfaces": [{"sourceId": "org/shop"}],
        "summary": [{"surface": "docs", "signalCount": 1, "samplePaths": ["a.md"]}]});
    let told = output(NARRATIVE, &json!({"surfaces": surfaces, "featureMap": map, "language": "es"}));
    let texts: Vec<_> = told["narratives"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|told| told["text"].as_str())
        .collect();
    assert_eq!(
        texts.get(..3),
        Some(
            [
                "El producto tiene 1 fuente con 1 archivo. La mayor parte es docs: 1 de 1 (100 %). Tiene 12 \
                 funcionalidades en 5 dominios.",
                "docs tiene 1 archivo de 1 (100 %), como a.md.",
                "shop-app tiene 6 archivos, sobre todo product_core, y 5 funcionalidades: paquete @org/shop-app, programa \
                 shopctl, ruta /, ….",
            ]
            .as_slice()
        )
    );
    let empty = json!({"sources": [{"sourceId": "s", "paths": []}], "language": "es"});
    assert_eq!(
        output(DOMAIN_MAPPING, &empty)["openQuestions"],
        json!(["¿Para qué sirve s? Ningún archivo suyo lo dice."])
    );
}

#[test]
fn wrong_inputs_are_refused_with_all_their_faults() {
    #[track_caller]
    fn check(agent: &str, input: &Value, expected: &[&str]) {
        let error = analyse(agent, input).expect_err("the input is wrong");
        assert_eq!(error.code, "VALIDATION_ERROR");
        for part in expected {
            assert!(error.message.contains(part), "{}", error.message);
        }
    }
    check(SURFACE_CLASSIFICATION, &json!(null), &["expected an object"]);
    check(SURFACE_CLASSIFICATION, &json!({"sourceId": " ", "paths": [1]}), &["sourceId", "paths[0]"]);
    check(SURFACE_CLASSIFICATION, &json!({"sourceId": "s"}), &["paths: expected a list of texts"]);
    check(
        SURFACE_CLASSIFICATION,
        &json!({"sourceId": "s", "paths": [], "manifests": {"a": 1}}),
        &["manifests[\"a\"]"],
    );
    check(
        SURFACE_CLASSIFICATION,
        &json!({"sourceId": "s", "paths": ["/docs/a.md", "/src/a.rs"]}),
        &["within the source"],
    );
    check(DOMAIN_MAPPING, &json!({"startedAt": -1, "version": 0}), &["sources", "startedAt", "version"]);
    check(
        DOMAIN_MAPPING,
        &json!({"sources": [1], "surfaces": []}),
        &["sources[0]", "surfaces: expected an object"],
    );
    check(FEATURE_EXTRACTION, &json!({"sources": {}, "startedAt": "now"}), &["sources", "startedAt"]);
    check(NARRATIVE, &json!({"productContext": {}}), &["surfaces or featureMap"]);
    check(NARRATIVE, &json!({"surfaces": {}, "language": "de"}), &["language: expected en or es"]);
    check("poet", &json!({}), &["no built-in agent"]);
    let many: Vec<Value> = (0..10_000).map(Value::from).collect();
    let error =
        analyse(SURFACE_CLASSIFICATION, &json!({"sourceId": "s", "paths": many})).expect_err("it is wrong");
    assert!(error.message.len() < 2_000, "{}", error.message.len());
}

async fn served(store: &Arc<dyn Store>, agent: &str, data: Option<Data>) -> Answer {
    let analysts = Analysts::new(Arc::clone(store), Arc::new(|| 5));
    let input = data.map(|data| v1::Payload { media_type: "application/json".to_owned(), data: Some(data) });
    let assignment = v1::Assignment { agent: agent.to_owned(), input, ..v1::Assignment::default() };
    let (_orders, orders) = mpsc::channel(1);
    analysts
        .perform(
            assignment,
            orders,
            Reporter::new(Lease::from(v1::LeaseRef::default()), Arc::new(News::default())),
        )
        .await
}

#[tokio::test]
async fn the_agents_are_served_with_inputs_and_outputs_of_any_size() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let described = Analysts::new(Arc::clone(&store), Arc::new(|| 5)).agents();
    assert_eq!(described.iter().map(|agent| agent.name.as_str()).collect::<Vec<_>>(), AGENTS);
    assert!(described.iter().all(|agent| Schema::compile(&agent.output_schema).is_ok()));
    assert_eq!(capataz_judge::declared(&described), []);

    let paths: Vec<_> = (0..5_000).map(|index| format!("packages/p{index}/src/index.ts")).collect();
    let large = json!({"sources": [{"sourceId": "org/large", "paths": paths}]}).to_string();
    let hash = store.put_blob(large.as_bytes(), Millis(1)).expect("the store keeps it");
    let blob = Data::Blob(v1::BlobRef::new(hash.to_string(), large.len() as u64));
    let Answer::Completed { output, .. } = served(&store, DOMAIN_MAPPING, Some(blob)).await else {
        panic!("the input is right");
    };
    let Some(Data::Inline(output)) = output.data else { panic!("64 domains are not large") };
    let output: Value = serde_json::from_slice(&output).expect("it is JSON");
    assert_eq!(output["domains"].as_array().map(Vec::len), Some(64));
    assert_eq!(output["openQuestions"], json!(["What about 4936 domains beyond the 64 largest?"]));

    for (data, code) in [
        (None, "VALIDATION_ERROR"),
        (Some(Data::Inline(Bytes::from_static(b"{\"sources\": [], \"sources\": []}"))), "VALIDATION_ERROR"),
        (Some(Data::Blob(v1::BlobRef::new("x".to_owned(), 1))), "INPUT_UNRESOLVED"),
        (Some(Data::Blob(v1::BlobRef::new(hash.to_string(), 1 << 40))), "VALIDATION_ERROR"),
    ] {
        let Answer::Failed { error, .. } = served(&store, DOMAIN_MAPPING, data).await else {
            panic!("the input is wrong");
        };
        assert_eq!(error.code, code, "{}", error.message);
    }
}
