use crate::surfaces::{Prefixes, Signals, Surface, prefix_fault, surface_of};

#[track_caller]
fn check(paths: &[&str], expected: Surface) {
    for path in paths {
        assert_eq!(surface_of(path), expected, "{path}");
    }
}

#[test]
fn names_are_those_of_the_seed_in_their_order() {
    let names = ["docs", "experiments", "infra", "marketing_surface", "product_core", "unknown"];
    assert_eq!(Surface::ALL.map(Surface::name), names);
    assert!(Surface::ALL.is_sorted());
    for (surface, name) in Surface::ALL.into_iter().zip(names) {
        assert_eq!(Surface::parse(name), Some(surface));
        assert_eq!(Surface::parse(&name.to_uppercase()), Some(surface));
    }
    assert_eq!(Surface::parse("mixed"), None);
}

// S003-RU-01
#[test]
fn the_outermost_folder_with_the_name_of_a_surface_decides() {
    check(
        &["apps/website/index.html", "website/src/app.ts", "www/logo.png", "Marketing/a"],
        Surface::MarketingSurface,
    );
    check(
        &["docs/index.html", "docs/website/a.ts", "packages/ui/docs/infra/a.tf", "examples/a.rs"],
        Surface::Docs,
    );
    check(&[".github/workflows/website.yml", "infra/docs/a.md", "deploy/app/main.py"], Surface::Infra);
    check(&["experiments/website/a.ts", "labs/a.rs", "Sandbox/x"], Surface::Experiments);
}

#[test]
fn within_sources_only_the_names_of_sites_count() {
    check(
        &["crates/a/src/docs/table.rs", "src/infra/db.rs", "lib/experiments/flags.rb"],
        Surface::ProductCore,
    );
    check(&["src/landing/hero.tsx", "apps/web/src/marketing/a.css"], Surface::MarketingSurface);
}

#[test]
fn tests_belong_to_what_they_test() {
    check(
        &["tests/fixtures/website/index.html", "crates/a/tests/docs/a.md", "e2e/main.tf", "test/a"],
        Surface::ProductCore,
    );
    check(&["website/tests/a.ts"], Surface::MarketingSurface);
}

#[test]
fn names_count_as_whole_segments_and_only_of_folders() {
    check(&["apps/websites-api/main.go", "src/docs.rs", "infrared/a.py"], Surface::ProductCore);
    check(&["docs", "website", "infra", "docsx/a"], Surface::Unknown);
    // A backslash is a letter like any other.
    check(&[r"docs\a.rs"], Surface::ProductCore);
    check(&[r"docs\a.md"], Surface::Docs);
}

#[test]
fn the_kind_of_a_file_decides_before_the_folder_of_a_product() {
    check(
        &["apps/app/Dockerfile", "Dockerfile.dev", "main.tf", "packages/a/compose.yaml", ".gitlab-ci.yml"],
        Surface::Infra,
    );
    check(&["ARCHITECTURE.md", "crates/a/DESIGN.adoc", "mkdocs.yml", "a/b.RST"], Surface::Docs);
    check(&["src/model.ipynb", "a.ipynb"], Surface::Experiments);
}

#[test]
fn a_file_about_its_folder_counts_like_the_folder() {
    check(&["README.md", "LICENSE", "CHANGELOG.rst", "contributing.md"], Surface::Unknown);
    check(&["crates/a/README.md", "packages/b/LICENSE"], Surface::ProductCore);
    check(&["website/README.md"], Surface::MarketingSurface);
    check(&["security.rs"], Surface::ProductCore);
}

#[test]
fn a_product_is_told_by_folders_manifests_and_source_code() {
    check(
        &["Cargo.toml", "package.json", "x/go.mod", "requirements.txt", "pyproject.toml"],
        Surface::ProductCore,
    );
    check(&["a.rs", "x/y/z.ts", "main.C", "x.sql", "styles.css"], Surface::ProductCore);
    check(&["tests/data/a.bin", "apps/app/logo.png", "proto/v1/a"], Surface::ProductCore);
}

#[test]
fn what_nothing_tells_is_unknown() {
    check(
        &["", "/", "a", "a.png", "assets/logo.svg", ".gitignore", ".rs", "Cargo.lock", "ünïcode/ß"],
        Surface::Unknown,
    );
}

#[test]
fn five_percent_of_the_signals_are_significant() {
    let paths = |docs: usize| {
        let code = (0..100 - docs).map(|index| format!("src/{index}.rs"));
        let unknown = (0..400).map(|index| format!("assets/{index}.png"));
        let docs = (0..docs).map(|index| format!("docs/{index}.md"));
        code.chain(docs).chain(unknown).collect::<Vec<_>>()
    };
    let significant = |docs| Signals::of(paths(docs).iter().map(String::as_str)).significant();
    assert_eq!(significant(5), [(Surface::ProductCore, 95), (Surface::Docs, 5)]);
    assert_eq!(significant(4), [(Surface::ProductCore, 96)]);
    assert_eq!(Signals::of([]).significant(), []);
    assert_eq!(Signals::of(["a.png"]).significant(), []);
}

#[test]
fn the_longest_prefix_of_whole_segments_is_found() {
    let mut prefixes = Prefixes::default();
    for (prefix, value) in [("apps", 1), ("apps/web", 2), ("apps/web/blog/", 3), ("README.md", 4)] {
        assert_eq!(prefixes.add(prefix, value), None);
    }
    assert_eq!(prefixes.add("apps/web/", 9), Some(&2));
    let found = |path| prefixes.longest(path).copied();
    assert_eq!(found("apps/a"), Some(1));
    assert_eq!(found("apps"), Some(1));
    assert_eq!(found("apps/web"), Some(2));
    assert_eq!(found("apps/web/a"), Some(2));
    assert_eq!(found("apps/website/a"), Some(1));
    assert_eq!(found("apps/web/blog/a/b"), Some(3));
    assert_eq!(found("README.md"), Some(4));
    assert_eq!(found("README.md.bak"), None);
    assert_eq!(found("Apps/a"), None);
    assert_eq!(found(""), None);
}

#[test]
fn a_prefix_that_no_path_can_have_is_told() {
    for prefix in ["apps", "apps/web", "apps/web/", ".github", "a b", "ü", "..a", "*"] {
        assert_eq!(prefix_fault(prefix), None, "{prefix}");
    }
    for prefix in
        ["", " ", "/", "/apps", "apps//web", "apps//", "./apps", "a/../b", "..", r"apps\web", "a\nb"]
    {
        assert!(prefix_fault(prefix).is_some(), "{prefix}");
    }
}
