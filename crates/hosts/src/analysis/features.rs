//! `feature-extraction`: the feature map, out of packages, programs, routes, commands and interfaces.

use std::collections::{BTreeMap, BTreeSet};

use capataz_policy::surfaces::{Prefixes, Surface};
use serde_json::{Map, Value, json};

use super::domains::{Domain, domains, placed, slug};
use super::input::{Faults, Reader, Source, count, rows, text};
use super::manifest::{self, split};
use super::words::{self, Language, Noun};
use super::{OUTPUT_VERSION, classify};

/// Features at most, in the order of their domains.
const FEATURES_MAX: usize = 256;
/// Paths that show one feature, at most.
const EVIDENCE_MAX: usize = 5;

/// Folders of what is not shipped.
const TESTS: &[&str] = &["__tests__", "benches", "e2e", "fixtures", "spec", "test", "testdata", "tests"];

/// Names of files that are the index of their folder.
const INDEXES: &[&str] = &["index", "init", "lib", "main", "mod", "root"];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Package,
    Program,
    Route,
    Command,
    Interface,
}

impl Kind {
    pub(super) const ALL: [Self; 5] =
        [Self::Package, Self::Program, Self::Route, Self::Command, Self::Interface];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Package => "package",
            Self::Program => "program",
            Self::Route => "route",
            Self::Command => "command",
            Self::Interface => "interface",
        }
    }

    pub(super) const fn noun(self) -> Noun {
        match self {
            Self::Package => words::PACKAGE,
            Self::Program => words::PROGRAM,
            Self::Route => words::ROUTE,
            Self::Command => words::COMMAND,
            Self::Interface => words::INTERFACE,
        }
    }
}

#[derive(Debug)]
struct Feature {
    id: String,
    name: String,
    kind: Kind,
    domain: usize,
    shown: Shown,
}

/// What a feature is shown by.
#[derive(Debug, Default)]
struct Shown {
    description: String,
    evidence: BTreeSet<String>,
}

/// # Errors
/// What is wrong with the input.
pub(super) fn feature_map(input: &Value) -> Result<Value, Faults> {
    let mut reader = Reader::default();
    let empty = Map::new();
    let input = reader.object(input, "the input").unwrap_or(&empty);
    let sources = reader.sources(input);
    let context = reader.part(input, "productContext");
    let generated_at = reader.number(input, "startedAt", 0, 0);
    let language = reader.language(input);
    let (sources, context) = reader.done((sources, context))?;
    let given = given(context);
    let are_given = !given.is_empty();
    let (domains, beyond) = if are_given { (given, 0) } else { domains(&sources) };
    let (features, left) = features(&sources, &domains);

    let mut map: BTreeMap<&str, Vec<&str>> =
        domains.iter().map(|domain| (domain.id.as_str(), Vec::new())).collect();
    let domain_of = |feature: &Feature| domains.get(feature.domain).map_or("", |domain| domain.id.as_str());
    for feature in &features {
        map.entry(domain_of(feature)).or_default().push(&feature.id);
    }
    let shown_features: Vec<Value> = features
        .iter()
        .map(|feature| {
            let Feature { id, name, kind, shown: Shown { description, evidence }, .. } = feature;
            json!({"id": id, "name": name, "kind": kind.name(), "domain": domain_of(feature),
                "description": description, "evidence": evidence})
        })
        .collect();
    let shown_domains: Vec<Value> = domains
        .iter()
        .map(|domain| {
            json!({"id": domain.id, "name": domain.name, "surface": domain.surface.name(), "signalCount": domain.count})
        })
        .collect();
    let decisions =
        Decisions { are_given, domains: domains.len(), domains_left: beyond, features_left: left };
    let used: BTreeSet<&str> = sources.iter().map(|source| source.id).collect();
    Ok(json!({
        "domains": shown_domains,
        "domainMap": map,
        "decisionSummary": decisions.told(&features, language),
        "features": shown_features,
        "generatedAt": generated_at,
        "sourcesUsed": used,
        "outputVersion": OUTPUT_VERSION,
    }))
}

/// The domains of a product context, as far as features can be told to belong to them.
fn given(context: Option<&Map<String, Value>>) -> Vec<Domain> {
    let mut ids = BTreeSet::new();
    let domain = |row: &Map<String, Value>| {
        let (id, name) = (text(row, "id"), text(row, "name"));
        let prefixes = row.get("pathPrefixes").and_then(Value::as_array);
        let prefixes = prefixes.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
        let domain = Domain {
            id: id.to_owned(),
            name: name.to_owned(),
            surface: Surface::parse(text(row, "surface")).unwrap_or(Surface::Unknown),
            count: count(row, "signalCount"),
            prefixes: prefixes.collect(),
        };
        (slug(id) == id && !name.is_empty() && ids.insert(id.to_owned())).then_some(domain)
    };
    rows(context, "domains").filter_map(domain).collect()
}

/// The features in the order of their domains, and how many there are beyond.
fn features(sources: &[Source<'_>], domains: &[Domain]) -> (Vec<Feature>, usize) {
    let mut by_prefix = Prefixes::default();
    for (index, domain) in domains.iter().enumerate() {
        for prefix in &domain.prefixes {
            by_prefix.add(prefix, index);
        }
    }
    let mut found: BTreeMap<(usize, Kind, String), Shown> = BTreeMap::new();
    let mut add = |source: &Source<'_>, path: &str, kind: Kind, name: &str, description: &str| {
        let place = placed(source.id, path);
        let index = by_prefix.longest(&place).copied();
        if let Some(index) = index.filter(|_| !name.trim().is_empty()) {
            let shown = found.entry((index, kind, name.to_owned())).or_default();
            if shown.description.is_empty() {
                shown.description = description.to_owned();
            }
            if shown.evidence.len() < EVIDENCE_MAX {
                shown.evidence.insert(place);
            }
        }
    };
    for source in sources {
        let packages = manifest::packages(source);
        // Packages whose manifests name their programs; their entry points have no names of their own.
        let mut named = Prefixes::default();
        for (folder, package) in packages.iter().filter(|(folder, _)| !folder.is_empty()) {
            named.add(folder, !package.programs.is_empty());
        }
        let root = packages.get("").is_some_and(|package| !package.programs.is_empty());
        for package in packages.values() {
            add(source, &package.path, Kind::Package, &package.name, &package.description);
            for program in &package.programs {
                add(source, &package.path, Kind::Program, program, "");
            }
        }
        for (path, surface) in classify::surfaces(source, &packages) {
            let is_shipped = matches!(surface, Surface::ProductCore | Surface::MarketingSurface);
            let are_named = || named.longest(path).copied().unwrap_or(root);
            if let Some((kind, name)) = told_by(path).filter(|_| is_shipped) {
                if kind == Kind::Program && are_named() {
                    continue;
                }
                let name = if name.is_empty() { source.name() } else { &name };
                add(source, path, kind, name, "");
            }
        }
    }
    let left = found.len().saturating_sub(FEATURES_MAX);
    let mut ids = Ids::default();
    let named = found.into_iter().take(FEATURES_MAX).map(|((domain, kind, name), shown)| {
        let of_domain = domains.get(domain).map_or("", |domain| domain.id.as_str());
        let of_name = if name == "/" { "root".to_owned() } else { slug(&name) };
        let id = ids.next(format!("{of_domain}-{}-{of_name}", kind.name()));
        Feature { id, name, kind, domain, shown }
    });
    (named.collect(), left)
}

/// The ids so far. Different names may make one id: the later ones get a number.
#[derive(Default)]
struct Ids {
    used: BTreeSet<String>,
    /// The last number behind an id.
    numbers: BTreeMap<String, u32>,
}

impl Ids {
    fn next(&mut self, id: String) -> String {
        if self.used.insert(id.clone()) {
            return id;
        }
        let number = self.numbers.entry(id.clone()).or_insert(1);
        loop {
            *number = number.saturating_add(1);
            let numbered = format!("{id}-{number}");
            if self.used.insert(numbered.clone()) {
                return numbered;
            }
        }
    }
}

/// What the path of a file tells. An empty name is that of the source.
fn told_by(path: &str) -> Option<(Kind, String)> {
    let (folders, file) = split(path);
    let folders: Vec<&str> = folders.split('/').filter(|folder| !folder.is_empty()).collect();
    if folders.iter().any(|folder| TESTS.contains(folder)) {
        return None;
    }
    let (stem, ending) = file.rsplit_once('.')?;
    let last = folders.last().copied().unwrap_or_default();
    let is_code =
        !matches!(ending, "md" | "json" | "toml" | "yaml" | "yml" | "css" | "scss" | "html" | "svg" | "png");
    let owned = |kind, name: &str| Some((kind, name.to_owned()));
    match (stem, ending) {
        (_, "proto" | "graphql" | "gql" | "thrift") => return owned(Kind::Interface, stem),
        ("openapi" | "swagger", "json" | "yaml" | "yml") => return owned(Kind::Interface, stem),
        ("main", "rs" | "go" | "py" | "kt") | ("__main__", "py") => {
            let named = folders.iter().rev().find(|folder| !matches!(**folder, "src" | "cmd" | "bin"));
            return owned(Kind::Program, named.copied().unwrap_or_default());
        }
        (_, "rs") if last == "bin" => return owned(Kind::Program, stem),
        _ if !is_code => return None,
        _ => {}
    }
    if let Some(route) = route(&folders, stem, ending) {
        return Some((Kind::Route, route));
    }
    let is_command = last == "commands" && !INDEXES.contains(&stem.trim_matches('_'));
    if is_command { owned(Kind::Command, stem) } else { None }
}

/// The route of a page or of an endpoint, by the folders of web frameworks.
fn route(folders: &[&str], stem: &str, ending: &str) -> Option<String> {
    if !matches!(ending, "astro" | "js" | "jsx" | "svelte" | "ts" | "tsx" | "vue") {
        return None;
    }
    let (root, root_name) = folders
        .iter()
        .enumerate()
        .rev()
        .find(|(_, folder)| matches!(**folder, "app" | "pages" | "routes"))?;
    let below = folders.get(root + 1..).unwrap_or_default();
    let is_of_folder = matches!(stem, "page" | "route" | "+page" | "+server");
    // In a folder `app`, only files of these names are routes; in the others, each file is one.
    let last = match (*root_name, is_of_folder) {
        (_, true) => None,
        ("app", false) => return None,
        _ if stem.starts_with(['_', '+', '.']) || below.iter().any(|folder| folder.starts_with('_')) => {
            return None;
        }
        _ => Some(stem).filter(|stem| *stem != "index"),
    };
    // Groups in parentheses are no part of the address.
    let parts = below.iter().copied().filter(|folder| !folder.starts_with('(')).chain(last);
    Some(format!("/{}", parts.collect::<Vec<_>>().join("/")))
}

/// How many domains and features there are, and where they come from.
struct Decisions {
    are_given: bool,
    domains: usize,
    domains_left: usize,
    features_left: usize,
}

impl Decisions {
    fn told(&self, features: &[Feature], language: Language) -> String {
        let domains = language.count(self.domains as u64, words::DOMAIN);
        let mut text = if self.are_given {
            language.say("{} of the product context", "{} del contexto del producto", &[&domains])
        } else {
            language.say("{} by packages and folders", "{} por paquetes y carpetas", &[&domains])
        };
        if self.domains_left > 0 {
            let left = self.domains_left.to_string();
            let spanish = ", los mayores; quedaron fuera otros {}";
            text.push_str(&language.say(", the largest ones; {} more were left out", spanish, &[&left]));
        }
        text.push_str(&format!(". {}", language.count(features.len() as u64, words::FEATURE)));
        let each = Kind::ALL.into_iter().filter_map(|kind| {
            let count = features.iter().filter(|feature| feature.kind == kind).count() as u64;
            (count > 0).then(|| language.count(count, kind.noun()))
        });
        let each: Vec<String> = each.collect();
        if !each.is_empty() {
            text.push_str(&format!(": {}", each.join(", ")));
        }
        if self.features_left > 0 {
            let left = self.features_left.to_string();
            text.push_str(&language.say("; {} more were left out", "; quedaron fuera otras {}", &[&left]));
        }
        text.push('.');
        text
    }
}
