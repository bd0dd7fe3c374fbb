//! The surface of a path, by the names of its folders and the kind of its file. `docs/surfaces.md` has the same tables.
//!
//! Names are compared in whole segments and in any case of ASCII letters. Segments are separated by `/` alone.

use super::{Counts, Surface};

/// Folders of a marketing site.
const MARKETING: &[&str] = &[
    "blog",
    "homepage",
    "landing",
    "landing-page",
    "landing-pages",
    "landing_page",
    "landingpage",
    "marketing",
    "marketing-site",
    "marketing-website",
    "marketing_site",
    "public-site",
    "site",
    "sites",
    "website",
    "websites",
    "www",
];

/// Folders of documentation.
const DOCS: &[&str] = &[
    "adr",
    "adrs",
    "doc",
    "docs",
    "docs-site",
    "docsite",
    "documentation",
    "example",
    "examples",
    "guide",
    "guides",
    "handbook",
    "javadoc",
    "man",
    "manual",
    "manuals",
    "rfc",
    "rfcs",
    "samples",
    "tutorial",
    "tutorials",
    "wiki",
];

/// Folders of what a product is built and run with.
const INFRA: &[&str] = &[
    ".azure",
    ".buildkite",
    ".ci",
    ".circleci",
    ".devcontainer",
    ".github",
    ".gitlab",
    "ansible",
    "argocd",
    "cdk",
    "charts",
    "ci",
    "cloudformation",
    "deploy",
    "deployment",
    "deployments",
    "devops",
    "docker",
    "helm",
    "infra",
    "infrastructure",
    "k8s",
    "kubernetes",
    "kustomize",
    "ops",
    "packer",
    "provisioning",
    "pulumi",
    "puppet",
    "terraform",
];

/// Folders of experiments.
const EXPERIMENTS: &[&str] = &[
    "experiment",
    "experimental",
    "experiments",
    "hackathon",
    "lab",
    "labs",
    "notebooks",
    "playground",
    "playgrounds",
    "poc",
    "pocs",
    "prototype",
    "prototypes",
    "research",
    "sandbox",
    "scratch",
    "spike",
    "spikes",
];

/// Folders of a product.
const PRODUCT: &[&str] = &[
    "android",
    "api",
    "app",
    "apps",
    "backend",
    "benches",
    "cli",
    "client",
    "clients",
    "cmd",
    "components",
    "core",
    "crates",
    "desktop",
    "frontend",
    "internal",
    "ios",
    "lib",
    "libs",
    "migrations",
    "mobile",
    "modules",
    "package",
    "packages",
    "pkg",
    "proto",
    "protos",
    "schema",
    "schemas",
    "sdk",
    "server",
    "service",
    "services",
    "source",
    "sources",
    "src",
    "web",
    "webapp",
];

/// Folders in which the names of folders are those of modules: a module `docs` or `infra` is product code.
const SOURCES: &[&str] = &["cmd", "internal", "lib", "pkg", "source", "sources", "src"];

/// Folders of tests, which belong to what they test: a tree of folders within them is an example for a test.
const TESTS: &[&str] = &["__tests__", "e2e", "fixtures", "test", "testdata", "tests"];

/// Files about the folder that they are in, by the name in front of the first dot.
const ABOUT: &[&str] = &[
    "agents",
    "authors",
    "changelog",
    "changes",
    "code_of_conduct",
    "codeowners",
    "contributing",
    "copying",
    "license",
    "licence",
    "maintainers",
    "notice",
    "readme",
    "security",
];

/// Files of documentation.
const DOCS_FILES: &[&str] = &[
    ".readthedocs.yaml",
    ".readthedocs.yml",
    "book.toml",
    "docusaurus.config.js",
    "docusaurus.config.ts",
    "mkdocs.yml",
];
const DOCS_ENDINGS: &[&str] = &["adoc", "asciidoc", "markdown", "md", "mdx", "rst", "tex"];

/// Files of what a product is built and run with.
const INFRA_FILES: &[&str] = &[
    ".dockerignore",
    ".gitlab-ci.yml",
    ".travis.yml",
    "appveyor.yml",
    "azure-pipelines.yml",
    "chart.yaml",
    "cloudbuild.yaml",
    "compose.yaml",
    "compose.yml",
    "containerfile",
    "docker-compose.yaml",
    "docker-compose.yml",
    "dockerfile",
    "fly.toml",
    "jenkinsfile",
    "kustomization.yaml",
    "kustomization.yml",
    "netlify.toml",
    "procfile",
    "pulumi.yaml",
    "render.yaml",
    "serverless.yml",
    "skaffold.yaml",
    "vagrantfile",
    "vercel.json",
];
const INFRA_ENDINGS: &[&str] = &["bicep", "dockerfile", "hcl", "nomad", "tf", "tfvars"];

const EXPERIMENTS_ENDINGS: &[&str] = &["ipynb"];

/// Manifests of packages.
const MANIFESTS: &[&str] = &[
    "build.gradle",
    "build.gradle.kts",
    "cargo.toml",
    "cmakelists.txt",
    "composer.json",
    "deno.json",
    "gemfile",
    "go.mod",
    "mix.exs",
    "package.json",
    "package.swift",
    "pom.xml",
    "pubspec.yaml",
    "pyproject.toml",
    "requirements.txt",
    "setup.cfg",
    "setup.py",
];

/// Files of source code.
const PRODUCT_ENDINGS: &[&str] = &[
    "astro", "c", "cc", "cjs", "clj", "cpp", "cs", "csproj", "css", "cxx", "dart", "erl", "ex", "exs", "fs",
    "gemspec", "go", "gql", "graphql", "h", "hpp", "hs", "htm", "html", "java", "jl", "js", "jsx", "kt",
    "kts", "less", "lua", "m", "mjs", "ml", "mm", "nim", "php", "pl", "proto", "py", "pyi", "r", "rb", "rs",
    "scala", "scss", "sql", "svelte", "swift", "thrift", "ts", "tsx", "vb", "vue", "zig",
];

/// The surface that a folder of this name makes of what is below it.
#[must_use]
pub fn surface_of_folder(name: &str) -> Option<Surface> {
    let name = name.to_ascii_lowercase();
    let tables = [
        (MARKETING, Surface::MarketingSurface),
        (DOCS, Surface::Docs),
        (INFRA, Surface::Infra),
        (EXPERIMENTS, Surface::Experiments),
    ];
    tables.into_iter().find(|(names, _)| has(names, &name)).map(|(_, surface)| surface)
}

/// The surface that a path counts for. The first of these decides:
///
/// 1. the outermost folder that has the name of a surface other than the product; within sources, only the names of
///    marketing sites count, and below a folder of tests everything is `product_core`,
/// 2. the kind of the file: documentation, infrastructure, a notebook,
/// 3. a folder of a product, a manifest, or a file of source code: `product_core`,
/// 4. else it is `unknown`, which is no signal.
#[must_use]
pub fn surface_of(path: &str) -> Surface {
    let path = path.to_ascii_lowercase();
    let (folders, file) = path.rsplit_once('/').unwrap_or(("", &path));
    let (mut is_product, mut is_source) = (false, false);
    for folder in folders.split('/') {
        match surface_of_folder(folder) {
            Some(surface) if !is_source || surface == Surface::MarketingSurface => return surface,
            _ if has(TESTS, folder) => return Surface::ProductCore,
            _ => {}
        }
        is_product |= has(PRODUCT, folder);
        is_source |= has(SOURCES, folder);
    }
    if let Some(surface) = surface_of_file(file) {
        return surface;
    }
    match ending(file) {
        _ if is_product || has(MANIFESTS, file) => Surface::ProductCore,
        Some(ending) if has(PRODUCT_ENDINGS, ending) => Surface::ProductCore,
        _ => Surface::Unknown,
    }
}

/// The surface other than the product that the kind of a file tells.
fn surface_of_file(file: &str) -> Option<Surface> {
    let stem = file.split('.').next().unwrap_or_default();
    if ABOUT.contains(&stem) {
        return None;
    }
    let is_of = |files: &[&str], endings: &[&str]| {
        has(files, file) || ending(file).is_some_and(|ending| has(endings, ending))
    };
    if is_of(INFRA_FILES, INFRA_ENDINGS) || stem == "dockerfile" {
        return Some(Surface::Infra);
    }
    if is_of(DOCS_FILES, DOCS_ENDINGS) {
        return Some(Surface::Docs);
    }
    is_of(&[], EXPERIMENTS_ENDINGS).then_some(Surface::Experiments)
}

/// What is behind the last dot of a name that does not begin with it.
fn ending(file: &str) -> Option<&str> {
    file.rsplit_once('.').filter(|(stem, _)| !stem.is_empty()).map(|(_, ending)| ending)
}

fn has(sorted: &[&str], name: &str) -> bool {
    sorted.binary_search(&name).is_ok()
}

/// How many paths count for which surface. Paths of no known surface are no signals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signals {
    counts: Counts,
}

impl Signals {
    /// Counts paths, each of which is to be given once.
    #[must_use]
    pub fn of<'p>(paths: impl IntoIterator<Item = &'p str>) -> Self {
        let mut signals = Self::default();
        for path in paths {
            signals.add(surface_of(path));
        }
        signals
    }

    pub fn add(&mut self, surface: Surface) {
        if surface != Surface::Unknown {
            self.counts.add(surface, 1);
        }
    }

    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Returns whether the surface has at least 5 % of the signals.
    #[must_use]
    pub fn is_significant(&self, surface: Surface) -> bool {
        let count = self.counts.of(surface);
        count > 0 && count.saturating_mul(100) >= self.counts.total().saturating_mul(SIGNIFICANT_PERCENT)
    }

    /// The surfaces that have at least 5 % of the signals, the one with the most first.
    #[must_use]
    pub fn significant(&self) -> Vec<(Surface, u128)> {
        let mut ranked = self.counts.ranked();
        ranked.retain(|(surface, _)| self.is_significant(*surface));
        ranked
    }
}

/// The share of the signals from which on a surface has to be told apart.
const SIGNIFICANT_PERCENT: u128 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_sorted_so_that_they_can_be_searched() {
        for table in [
            MARKETING,
            DOCS,
            INFRA,
            EXPERIMENTS,
            PRODUCT,
            SOURCES,
            TESTS,
            DOCS_FILES,
            DOCS_ENDINGS,
            INFRA_FILES,
            INFRA_ENDINGS,
            EXPERIMENTS_ENDINGS,
            MANIFESTS,
            PRODUCT_ENDINGS,
        ] {
            assert!(table.is_sorted(), "{table:?}");
        }
    }

    #[test]
    fn no_folder_has_two_surfaces() {
        let tables = [MARKETING, DOCS, INFRA, EXPERIMENTS, PRODUCT, TESTS];
        let mut all: Vec<_> = tables.iter().flat_map(|table| table.iter()).collect();
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn a_name_of_source_code_is_one_of_a_product() {
        assert!(SOURCES.iter().all(|name| PRODUCT.contains(name)));
    }
}
