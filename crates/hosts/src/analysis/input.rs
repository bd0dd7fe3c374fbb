//! The inputs of the agents, read with everything that is wrong with them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::words::Language;

/// Faults that are told at most.
const FAULTS: usize = 20;

/// What is wrong with an input, in words.
pub(super) type Faults = Vec<String>;

/// A source: its paths, each of them once and sorted, and the texts of its manifests.
#[derive(Debug)]
pub(super) struct Source<'i> {
    pub(super) id: &'i str,
    pub(super) paths: BTreeSet<&'i str>,
    pub(super) manifests: BTreeMap<&'i str, &'i str>,
}

impl Source<'_> {
    /// The name of the repository, where the id is one of a repository, `owner/name`.
    pub(super) fn repository(&self) -> Option<&str> {
        self.id.contains('/').then(|| self.name())
    }

    /// The last part of the id, which is the name of a repository or of a folder.
    pub(super) fn name(&self) -> &str {
        self.id.rsplit('/').find(|part| !part.is_empty()).unwrap_or(self.id)
    }
}

/// Reads an input, and gathers its faults.
#[derive(Debug, Default)]
pub(super) struct Reader {
    faults: Faults,
}

impl Reader {
    pub(super) fn refuse(&mut self, place: &str, expected: &str) {
        if self.faults.len() < FAULTS {
            self.faults.push(format!("{place}: expected {expected}"));
        }
    }

    /// # Errors
    /// The faults that were gathered.
    pub(super) fn done<T>(self, value: T) -> Result<T, Faults> {
        if self.faults.is_empty() { Ok(value) } else { Err(self.faults) }
    }

    pub(super) fn object<'i>(&mut self, value: &'i Value, place: &str) -> Option<&'i Map<String, Value>> {
        let object = value.as_object();
        if object.is_none() {
            self.refuse(place, "an object");
        }
        object
    }

    /// The sources of an input.
    pub(super) fn sources<'i>(&mut self, input: &'i Map<String, Value>) -> Vec<Source<'i>> {
        let Some(Value::Array(items)) = input.get("sources") else {
            self.refuse("sources", "a list of sources");
            return Vec::new();
        };
        let items = items.iter().enumerate();
        items.filter_map(|(index, item)| self.source(item, &format!("sources[{index}]"))).collect()
    }

    pub(super) fn source<'i>(&mut self, value: &'i Value, place: &str) -> Option<Source<'i>> {
        let object = self.object(value, if place.is_empty() { "the input" } else { place })?;
        let at = |key: &str| if place.is_empty() { key.to_owned() } else { format!("{place}.{key}") };
        let id = object.get("sourceId").and_then(Value::as_str).filter(|id| !id.trim().is_empty());
        if id.is_none() {
            self.refuse(&at("sourceId"), "a text");
        }
        let mut paths = BTreeSet::new();
        match object.get("paths") {
            Some(Value::Array(items)) => {
                for (index, item) in items.iter().enumerate() {
                    match item {
                        Value::String(path) => drop(paths.insert(path.as_str())),
                        _ => self.refuse(&at(&format!("paths[{index}]")), "a text"),
                    }
                }
            }
            _ => self.refuse(&at("paths"), "a list of texts"),
        }
        let mut manifests = BTreeMap::new();
        match object.get("manifests") {
            None | Some(Value::Null) => {}
            Some(Value::Object(entries)) => {
                for (path, text) in entries {
                    match text {
                        Value::String(text) => drop(manifests.insert(path.as_str(), text.as_str())),
                        _ => self.refuse(&at(&format!("manifests[{path:?}]")), "a text"),
                    }
                }
            }
            Some(_) => self.refuse(&at("manifests"), "an object of texts"),
        }
        Some(Source { id: id?, paths, manifests })
    }

    /// A number of at least `least`; `default` where there is none.
    pub(super) fn number(&mut self, input: &Map<String, Value>, key: &str, least: u64, default: u64) -> u64 {
        match input.get(key) {
            None | Some(Value::Null) => default,
            Some(value) => {
                let number = value.as_u64().filter(|number| *number >= least);
                if number.is_none() {
                    self.refuse(key, &format!("an integer of at least {least}"));
                }
                number.unwrap_or(default)
            }
        }
    }

    /// The language of the output; English where there is none.
    pub(super) fn language(&mut self, input: &Map<String, Value>) -> Language {
        let named = match input.get("language") {
            None | Some(Value::Null) => Some(Language::default()),
            Some(value) => value.as_str().and_then(Language::parse),
        };
        if named.is_none() {
            self.refuse("language", "en or es");
        }
        named.unwrap_or_default()
    }

    /// An object that may be missing.
    pub(super) fn part<'i>(
        &mut self,
        input: &'i Map<String, Value>,
        key: &str,
    ) -> Option<&'i Map<String, Value>> {
        match input.get(key) {
            None | Some(Value::Null) => None,
            Some(value) => self.object(value, key),
        }
    }
}

/// The objects of a list; what is none is passed over.
pub(super) fn rows<'i>(
    object: Option<&'i Map<String, Value>>,
    key: &str,
) -> impl Iterator<Item = &'i Map<String, Value>> + use<'i> {
    let items = object.and_then(|object| object.get(key)).and_then(Value::as_array);
    items.into_iter().flatten().filter_map(Value::as_object)
}

pub(super) fn text<'i>(row: &'i Map<String, Value>, key: &str) -> &'i str {
    row.get(key).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn count(row: &Map<String, Value>, key: &str) -> u64 {
    row.get(key).and_then(Value::as_u64).unwrap_or_default()
}

/// A text of at most so many characters.
pub(super) fn cut(text: &str, most: usize) -> String {
    let mut cut: String = text.chars().take(most).collect();
    if cut.len() < text.len() {
        cut.push('…');
    }
    cut
}
