//! What manifests say of packages. They are read line by line or as far as they are JSON, because they may be cut off.

use std::collections::BTreeMap;

use serde_json::Value;

use super::input::Source;

/// The file names of manifests in lower case, with the language of their packages.
const KINDS: &[(&str, &str)] = &[
    ("cargo.toml", "Rust"),
    ("composer.json", "PHP"),
    ("gemfile", "Ruby"),
    ("go.mod", "Go"),
    ("mix.exs", "Elixir"),
    ("package.json", "JavaScript"),
    ("package.swift", "Swift"),
    ("pom.xml", "Java"),
    ("pubspec.yaml", "Dart"),
    ("pyproject.toml", "Python"),
    ("setup.py", "Python"),
];

/// Programs of one package that are read at most.
const PROGRAMS: usize = 32;
/// Characters of a name or a description that are kept.
const NAME: usize = 128;
const DESCRIPTION: usize = 400;

/// A package, by its manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Package {
    /// The manifest's path.
    pub(super) path: String,
    /// Empty where the manifest does not say it.
    pub(super) name: String,
    pub(super) description: String,
    pub(super) programs: Vec<String>,
}

impl Package {
    /// The name without the scope in front of it.
    pub(super) fn short_name(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or_default()
    }
}

/// The folder and the name of the file of a path.
pub(super) fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

/// The language of the packages of which this is a manifest.
pub(super) fn language(path: &str) -> Option<&'static str> {
    let name = split(path).1.to_ascii_lowercase();
    KINDS.iter().find(|(known, _)| *known == name).map(|(_, language)| *language)
}

/// The packages of a source by their folders. A manifest without a text has a folder alone.
pub(super) fn packages<'i>(source: &Source<'i>) -> BTreeMap<&'i str, Package> {
    let mut packages: BTreeMap<&str, Package> = BTreeMap::new();
    let paths = source.paths.iter().copied();
    for path in paths.chain(source.manifests.keys().copied()).filter(|path| language(path).is_some()) {
        let text = source.manifests.get(path).copied().unwrap_or_default();
        let package = read(path, text);
        let known = packages.entry(split(path).0).or_default();
        // Of several manifests in a folder, the first one with a name counts.
        if known.path.is_empty() || (known.name.is_empty() && !package.name.is_empty()) {
            *known = package;
        }
    }
    packages
}

fn read(path: &str, text: &str) -> Package {
    let mut package = Package { path: path.to_owned(), ..Package::default() };
    match split(path).1.to_ascii_lowercase().as_str() {
        "package.json" | "composer.json" => read_json(text, &mut package),
        "cargo.toml" | "pyproject.toml" => read_toml(text, &mut package),
        "go.mod" => {
            let module = text.lines().find_map(|line| line.trim().strip_prefix("module "));
            package.name = kept(module.unwrap_or_default(), NAME);
        }
        _ => {}
    }
    package
}

fn read_json(text: &str, package: &mut Package) {
    let Ok(Value::Object(object)) = serde_json::from_str(text) else { return };
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
    package.name = kept(text("name"), NAME);
    package.description = kept(text("description"), DESCRIPTION);
    match object.get("bin") {
        Some(Value::Object(programs)) => {
            package.programs = programs.keys().take(PROGRAMS).map(|name| kept(name, NAME)).collect();
        }
        Some(Value::String(_)) => package.programs.push(package.short_name().to_owned()),
        _ => {}
    }
    package.programs.retain(|name| !name.is_empty());
}

/// Reads the lines `key = "value"` of the sections that count.
fn read_toml(text: &str, package: &mut Package) {
    let mut section = String::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            section = line.trim_matches(['[', ']', ' ']).to_owned();
            continue;
        }
        let Some((key, value)) = line.split_once('=') else { continue };
        let (key, value) = (key.trim().trim_matches('"'), quoted(value.trim()));
        match (section.as_str(), key) {
            ("package" | "project" | "tool.poetry", "name") => package.name = kept(value, NAME),
            ("package" | "project" | "tool.poetry", "description") => {
                package.description = kept(value, DESCRIPTION);
            }
            ("bin", "name") if package.programs.len() < PROGRAMS => package.programs.push(kept(value, NAME)),
            ("project.scripts" | "tool.poetry.scripts", name) if package.programs.len() < PROGRAMS => {
                package.programs.push(kept(name, NAME));
            }
            _ => {}
        }
    }
    package.programs.retain(|name| !name.is_empty());
}

/// The text between the quotes at the beginning; nothing where there are none.
fn quoted(value: &str) -> &str {
    let within = ['"', '\''].into_iter().find_map(|quote| value.strip_prefix(quote)?.split(quote).next());
    within.unwrap_or_default()
}

fn kept(text: &str, most: usize) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(most).collect()
}

/// The title and the first paragraph of the readme of a source.
pub(super) fn readme(source: &Source<'_>) -> (String, String) {
    let is_readme = |path: &&str| {
        let name = path.to_ascii_lowercase();
        !name.contains('/') && name.split('.').next() == Some("readme")
    };
    let text = source.manifests.iter().find(|(path, _)| is_readme(path)).map(|(_, text)| *text);
    let (mut title, mut paragraph) = (String::new(), Vec::new());
    for line in text.unwrap_or_default().lines().map(str::trim) {
        // A paragraph is of words: no headings, pictures, lists, quotes, tables, code.
        let is_words = line
            .starts_with(|first: char| first.is_alphanumeric() || matches!(first, '*' | '_' | '`'))
            && !line.starts_with("* ")
            && !line.starts_with("```");
        match line.strip_prefix("# ") {
            Some(heading) if title.is_empty() => title = kept(heading, NAME),
            _ if is_words => paragraph.push(line),
            _ if !paragraph.is_empty() => break,
            _ => {}
        }
    }
    (title, kept(&paragraph.join(" "), DESCRIPTION))
}
