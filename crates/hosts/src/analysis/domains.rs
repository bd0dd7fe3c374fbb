//! `domain-mapping`: the product context of all sources, and the domains that their folders and packages make.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use capataz_policy::surfaces::{Counts, Prefixes, Surface, entry, summarize};
use serde_json::{Map, Value, json};

use super::input::{Faults, Reader, Source, count, rows, text};
use super::manifest::{self, Package};
use super::words::{DOMAIN, Language};
use super::{OUTPUT_VERSION, classify};

/// Domains at most, the largest ones.
pub(super) const DOMAINS_MAX: usize = 64;
/// Prefixes of one domain at most.
const PREFIXES_MAX: usize = 32;
/// A language is named where it has at least this share of the files in known ones, in percent.
const LANGUAGE_PERCENT: u64 = 2;

/// Folders whose folders are domains.
const CONTAINERS: &[&str] = &[
    "apps", "cmd", "crates", "internal", "lib", "libs", "modules", "packages", "pkg", "plugins", "projects",
    "services", "source", "src",
];

/// The languages of files, by their endings.
const LANGUAGES: &[(&str, &[&str])] = &[
    ("C", &["c", "h"]),
    ("C#", &["cs"]),
    ("C++", &["cc", "cpp", "cxx", "hpp"]),
    ("Dart", &["dart"]),
    ("Elixir", &["ex", "exs"]),
    ("Go", &["go"]),
    ("Java", &["java"]),
    ("JavaScript", &["cjs", "js", "jsx", "mjs"]),
    ("Kotlin", &["kt", "kts"]),
    ("PHP", &["php"]),
    ("Protocol Buffers", &["proto"]),
    ("Python", &["py", "pyi"]),
    ("Ruby", &["rb"]),
    ("Rust", &["rs"]),
    ("SQL", &["sql"]),
    ("Scala", &["scala"]),
    ("Svelte", &["svelte"]),
    ("Swift", &["swift"]),
    ("Terraform", &["tf"]),
    ("TypeScript", &["ts", "tsx"]),
    ("Vue", &["vue"]),
];

/// A part of the product.
#[derive(Clone, Debug)]
pub(super) struct Domain {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) surface: Surface,
    /// Paths that count for it.
    pub(super) count: u64,
    /// Folders, with the id of their source in front.
    pub(super) prefixes: BTreeSet<String>,
}

/// What is known of a domain before all paths are counted.
#[derive(Default)]
struct Gathered {
    name: String,
    counts: Counts,
    prefixes: BTreeSet<String>,
}

/// The largest domains of the sources, and how many there are beyond.
pub(super) fn domains(sources: &[Source<'_>]) -> (Vec<Domain>, usize) {
    let mut gathered: BTreeMap<String, Gathered> = BTreeMap::new();
    for source in sources {
        let packages = manifest::packages(source);
        let mut folders = Prefixes::default();
        for folder in packages.keys().filter(|folder| !folder.is_empty()) {
            folders.add(folder, *folder);
        }
        let mut by_folder: BTreeMap<&str, Counts> = BTreeMap::new();
        for (path, surface) in classify::surfaces(source, &packages) {
            if surface != Surface::Unknown {
                let folder = folders.longest(path).copied().unwrap_or_else(|| folder_of(path));
                by_folder.entry(folder).or_default().add(surface, 1);
            }
        }
        for (folder, counts) in by_folder {
            let name = name_of(source, packages.get(folder), folder);
            let domain = gathered.entry(slug(&name)).or_default();
            if domain.name.is_empty() {
                domain.name = name;
            }
            for surface in Surface::ALL {
                domain.counts.add(surface, counts.of(surface));
            }
            if domain.prefixes.len() < PREFIXES_MAX {
                domain.prefixes.insert(placed(source.id, folder));
            }
        }
    }
    let domain = |(id, gathered): (String, Gathered)| Domain {
        id,
        name: gathered.name,
        surface: gathered.counts.dominant().unwrap_or(Surface::Unknown),
        count: u64::try_from(gathered.counts.total()).unwrap_or(u64::MAX),
        prefixes: gathered.prefixes,
    };
    let mut domains: Vec<Domain> = gathered.into_iter().map(domain).collect();
    domains.sort_by_key(|domain| (Reverse(domain.count), domain.id.clone()));
    let beyond = domains.len().saturating_sub(DOMAINS_MAX);
    domains.truncate(DOMAINS_MAX);
    (domains, beyond)
}

/// A path with the id of its source in front.
pub(super) fn placed(source: &str, path: &str) -> String {
    if path.is_empty() { source.to_owned() } else { format!("{source}/{path}") }
}

/// The folder whose name is that of the domain of a path in no package; empty for the files at the top.
fn folder_of(path: &str) -> &str {
    let (folders, _) = manifest::split(path);
    let mut ends = folders.match_indices('/').map(|(end, _)| end);
    let first = ends.next().unwrap_or(folders.len());
    let is_container = folders.get(..first).is_some_and(|name| CONTAINERS.contains(&name));
    let end = if is_container { ends.next().unwrap_or(folders.len()) } else { first };
    folders.get(..end).unwrap_or_default()
}

/// The name of the package in the folder, else that of the folder, else that of the source.
fn name_of(source: &Source<'_>, package: Option<&Package>, folder: &str) -> String {
    let folder_name = folder.rsplit('/').next().filter(|name| !name.is_empty() && !CONTAINERS.contains(name));
    let package_name = package.map(Package::short_name).filter(|name| !name.is_empty());
    package_name.or(folder_name).unwrap_or_else(|| source.name()).to_owned()
}

/// An id out of a name: letters and digits of ASCII in lower case, with single hyphens between them.
pub(super) fn slug(name: &str) -> String {
    let lower = name.to_ascii_lowercase();
    let words = lower.split(|character: char| !character.is_ascii_alphanumeric());
    let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
    if words.is_empty() { "unnamed".to_owned() } else { words.join("-") }
}

/// # Errors
/// What is wrong with the input.
pub(super) fn product_context(input: &Value) -> Result<Value, Faults> {
    let mut reader = Reader::default();
    let empty = Map::new();
    let input = reader.object(input, "the input").unwrap_or(&empty);
    let sources = reader.sources(input);
    let given = reader.part(input, "surfaces");
    let version = reader.number(input, "version", 1, 1);
    let created_at = reader.number(input, "startedAt", 0, 0);
    let language = reader.language(input);
    let (sources, given) = reader.done((sources, given))?;
    let computed = if given.is_none() { Some(summary(&sources, language)?) } else { None };
    let surfaces = given.or_else(|| computed.as_ref().and_then(Value::as_object));

    let (domains, beyond) = domains(&sources);
    let (title, summary) =
        sources.iter().map(manifest::readme).find(|(title, _)| !title.is_empty()).unwrap_or_default();
    let root = sources.iter().find_map(|source| manifest::packages(source).remove(""));
    let root = root.unwrap_or_default();
    let first = sources.first().map_or("", Source::name);
    let name = [text(input, "productId"), &title, root.short_name(), first];
    let name = name.into_iter().find(|name| !name.trim().is_empty()).unwrap_or_default();
    let summary = if summary.is_empty() { &root.description } else { &summary };
    let known = sources_of(surfaces, &sources);
    let mut questions = questions(&known, language);
    if beyond > 0 {
        let (more, most) = (language.count(beyond as u64, DOMAIN), DOMAINS_MAX.to_string());
        questions.push(language.say(
            "What about {} beyond the {} largest?",
            "¿Qué hay de {} más allá de los {} mayores?",
            &[&more, &most],
        ));
    }
    Ok(json!({
        "version": version,
        "createdAt": created_at,
        "outputVersion": OUTPUT_VERSION,
        "name": name,
        "summary": summary,
        "technologies": technologies(&sources),
        "sources": known,
        "surfaces": rows(surfaces, "summary").filter_map(surface_count).collect::<Vec<_>>(),
        "domains": domains.iter().map(shown).collect::<Vec<_>>(),
        "openQuestions": questions,
    }))
}

/// The summary of the surfaces of sources that nobody has classified.
fn summary(sources: &[Source<'_>], language: Language) -> Result<Value, Faults> {
    let mut entries = Vec::new();
    for source in sources {
        let input = json!({"sourceId": source.id, "paths": source.paths});
        entries.push(entry(&input, &classify::classified(source, language)?));
    }
    let told = |found: capataz_contracts::v1::SchemaViolation| {
        format!("{}: expected {}", found.path, found.expected)
    };
    summarize(&Value::Array(entries)).map_err(|violations| violations.into_iter().map(told).collect())
}

fn shown(domain: &Domain) -> Value {
    json!({"id": domain.id, "name": domain.name, "surface": domain.surface.name(), "signalCount": domain.count,
        "pathPrefixes": domain.prefixes})
}

/// The sources with what the summary says of them.
fn sources_of(surfaces: Option<&Map<String, Value>>, sources: &[Source<'_>]) -> Vec<Value> {
    let mut paths: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for source in sources {
        paths.entry(source.id.to_lowercase()).or_default().extend(&source.paths);
    }
    let source = |row: &Map<String, Value>| {
        let id = Some(text(row, "sourceId")).filter(|id| !id.is_empty())?;
        let surface = Surface::parse(text(row, "classification"))?;
        let mut shown = json!({"sourceId": id, "classification": surface.name(),
            "pathCount": paths.get(id).map_or(0, BTreeSet::len)});
        let confidence = row.get("confidence").and_then(Value::as_f64);
        if let Some(confidence) = confidence.filter(|confidence| (0.0..=1.0).contains(confidence)) {
            shown["confidence"] = confidence.into();
        }
        Some(shown)
    };
    rows(surfaces, "surfaces").filter_map(source).collect()
}

fn surface_count(row: &Map<String, Value>) -> Option<Value> {
    let surface = Surface::parse(text(row, "surface"))?;
    Some(json!({"surface": surface.name(), "signalCount": count(row, "signalCount")}))
}

fn questions(sources: &[Value], language: Language) -> Vec<String> {
    let unknown = |source: &Value| {
        let id = source.get("sourceId")?.as_str()?;
        let is_unknown = source.get("classification")? == Surface::Unknown.name();
        is_unknown.then(|| {
            let spanish = "¿Para qué sirve {}? Ningún archivo suyo lo dice.";
            language.say("What is {} for? No path of it tells.", spanish, &[id])
        })
    };
    sources.iter().filter_map(unknown).collect()
}

/// The languages of the files, those of the most files first, and then those of the packages.
fn technologies(sources: &[Source<'_>]) -> Vec<&'static str> {
    let mut counts: BTreeMap<&'static str, u64> = BTreeMap::new();
    let mut packages = BTreeSet::new();
    for path in sources.iter().flat_map(|source| &source.paths) {
        let (_, file) = manifest::split(path);
        let ending = file.rsplit_once('.').map_or("", |(_, ending)| ending).to_ascii_lowercase();
        let language = LANGUAGES.iter().find(|(_, endings)| endings.contains(&ending.as_str()));
        if let Some((language, _)) = language {
            *counts.entry(language).or_default() += 1;
        }
        packages.extend(manifest::language(path));
    }
    let total: u64 = counts.values().sum();
    let mut ranked: Vec<_> = counts.iter().map(|(language, count)| (Reverse(*count), *language)).collect();
    ranked.sort_unstable();
    let is_named = |count: u64| count.saturating_mul(100) >= total.saturating_mul(LANGUAGE_PERCENT);
    let mut named: Vec<_> =
        ranked.into_iter().filter(|(count, _)| is_named(count.0)).map(|(_, name)| name).collect();
    for language in packages {
        if !named.contains(&language) {
            named.push(language);
        }
    }
    named
}
