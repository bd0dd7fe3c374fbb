//! The summary of the surfaces of all sources, `summarizeSurfaces` of the seed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use capataz_contracts::v1::SchemaViolation;
use serde_json::{Map, Value, json};

use super::check::whole;
use super::report::{Report, shown};
use super::{Counts, Prefixes, Surface};

/// The most sample paths of a surface.
pub const SAMPLE_PATHS: usize = 5;

/// The parts of a confidence: it has four decimals.
const PARTS: u128 = 10_000;

/// The keys of an entry that count, and those of inputs and outputs that do not.
const KEYS: &[&str] = &[
    "sourceId",
    "classification",
    "confidence",
    "notes",
    "paths",
    "surfaceBuckets",
    "manifests",
    "outputVersion",
];

/// One source's entry of a summary: what the agent was given, and what it has answered.
#[must_use]
pub fn entry(input: &Value, output: &Value) -> Value {
    let mut entry = Map::new();
    for (from, keys) in [
        (input, ["sourceId", "paths"].as_slice()),
        (output, ["classification", "notes", "surfaceBuckets"].as_slice()),
    ] {
        for key in keys {
            if let Some(value) = from.get(key) {
                entry.insert((*key).to_owned(), value.clone());
            }
        }
    }
    Value::Object(entry)
}

/// The summary of entries `{sourceId, classification, confidence, notes, paths, surfaceBuckets}`, of which only the first
/// two are required.
///
/// - Ids and surfaces are put in lower case; paths and notes stay as they are.
/// - Sources are sorted by id, and there is one entry of each: that of the highest confidence, of several the first by
///   classification, then by notes, then by buckets. The paths of all entries of a source are united.
/// - A path counts for the surface of the longest bucket prefix that it has, in whole segments, else for the
///   classification. Equal paths of one source count once.
/// - A confidence that is not given is the share of the paths that count for the classification: of an entry's own paths
///   where entries are compared, of the source's united ones in the result. Without paths it is 0.
/// - Surfaces are sorted by name, each with at most [`SAMPLE_PATHS`] different paths, the first ones by their bytes.
///
/// The result is the same to the byte for any order of entries, paths and buckets.
///
/// # Errors
/// What is wrong with the entries, with its places.
pub fn summarize(entries: &Value) -> Result<Value, Vec<SchemaViolation>> {
    let mut report = Report::default();
    let mut sources: BTreeMap<String, Source<'_>> = BTreeMap::new();
    match entries {
        Value::Array(entries) => {
            for (index, entry) in entries.iter().enumerate() {
                if let Some((id, entry)) = read(entry, index, &mut report) {
                    sources.entry(id).or_default().add(entry);
                }
            }
        }
        other => report.push(String::new(), "type", "array".to_owned(), kind(other).to_owned()),
    }
    if !report.is_empty() {
        return Err(report.into_violations());
    }
    let mut surfaces = Vec::new();
    let mut total = Counts::default();
    let mut samples: BTreeMap<Surface, BTreeSet<&str>> = BTreeMap::new();
    for (id, source) in sources {
        let Some(entry) = source.best else { continue };
        let counts = entry.count(&source.paths, |surface, path| {
            let samples = samples.entry(surface).or_default();
            samples.insert(path);
            if samples.len() > SAMPLE_PATHS {
                samples.pop_last();
            }
        });
        for surface in Surface::ALL {
            total.add(surface, counts.of(surface));
        }
        surfaces.push(json!({
            "sourceId": id,
            "classification": entry.classification.name(),
            "confidence": shares(entry.given.unwrap_or_else(|| share(&counts, entry.classification))),
            "notes": entry.notes,
        }));
    }
    let summary = samples.iter().map(|(surface, paths)| {
        let count = u64::try_from(total.of(*surface)).unwrap_or(u64::MAX);
        json!({"surface": surface.name(), "signalCount": count, "samplePaths": paths})
    });
    let summary: Vec<Value> = summary.collect();
    Ok(json!({"surfaces": surfaces, "summary": summary}))
}

/// The share of one surface, in parts of 10,000.
#[must_use]
pub fn share(counts: &Counts, surface: Surface) -> u32 {
    let total = counts.total();
    let parts = counts.of(surface).saturating_mul(PARTS).saturating_add(total / 2).checked_div(total);
    parts.and_then(|parts| u32::try_from(parts).ok()).unwrap_or_default()
}

/// A share as a number from 0 to 1.
fn shares(parts: u32) -> f64 {
    f64::from(parts) / 10_000.0
}

#[derive(Debug, Default)]
struct Source<'e> {
    best: Option<Entry<'e>>,
    paths: BTreeSet<&'e str>,
}

impl<'e> Source<'e> {
    fn add(&mut self, (entry, own): (Entry<'e>, BTreeSet<&'e str>)) {
        self.paths.extend(own);
        if self.best.as_ref().is_none_or(|best| entry.rank() < best.rank()) {
            self.best = Some(entry);
        }
    }
}

#[derive(Debug)]
struct Entry<'e> {
    classification: Surface,
    /// The confidence that the entry says, in parts of 10,000.
    given: Option<u32>,
    /// The one by which entries are compared.
    confidence: u32,
    notes: &'e str,
    /// Sorted: of equal prefixes the first surface counts.
    buckets: Vec<(&'e str, Surface)>,
}

impl<'e> Entry<'e> {
    /// Of two entries of a source, that of the smaller rank counts.
    fn rank(&self) -> (Reverse<u32>, Surface, &'e str, &[(&'e str, Surface)]) {
        (Reverse(self.confidence), self.classification, self.notes, &self.buckets)
    }

    fn count(&self, paths: &BTreeSet<&'e str>, mut visit: impl FnMut(Surface, &'e str)) -> Counts {
        let mut prefixes = Prefixes::default();
        for (prefix, surface) in &self.buckets {
            prefixes.add(prefix, *surface);
        }
        let mut counts = Counts::default();
        for path in paths {
            let surface = prefixes.longest(path).copied().unwrap_or(self.classification);
            counts.add(surface, 1);
            visit(surface, path);
        }
        counts
    }
}

/// One entry: the id of its source in lower case, the entry, and its own paths.
fn read<'e>(
    value: &'e Value,
    index: usize,
    report: &mut Report,
) -> Option<(String, (Entry<'e>, BTreeSet<&'e str>))> {
    let mut reader = Reader { at: format!("/{index}"), report };
    let Value::Object(object) = value else {
        reader.refuse("", "type", "object", kind(value).to_owned());
        return None;
    };
    for key in object.keys().filter(|key| !KEYS.contains(&key.as_str())) {
        let path = format!("{}/{}", reader.at, key.replace('~', "~0").replace('/', "~1"));
        reader.report.push(path, "additionalProperties", "no such key".to_owned(), shown(key));
    }
    let id = reader.text(object, "sourceId", true);
    if id.is_some_and(str::is_empty) {
        reader.refuse("/sourceId", "minLength", "the id of a source", shown(""));
    }
    let classification = reader.text(object, "classification", true);
    let classification = classification.and_then(|name| reader.surface("/classification", name));
    let notes = reader.text(object, "notes", false).unwrap_or_default();
    let given = object.get("confidence").and_then(|value| reader.confidence(value));
    let mut paths = BTreeSet::new();
    for (place, path) in reader.list(object, "paths").iter().enumerate() {
        match path {
            Value::String(path) => {
                paths.insert(path.as_str());
            }
            other => reader.refuse(&format!("/paths/{place}"), "type", "string", kind(other).to_owned()),
        }
    }
    let mut buckets = Vec::new();
    for (place, bucket) in reader.list(object, "surfaceBuckets").iter().enumerate() {
        buckets.extend(reader.bucket(bucket, place));
    }
    buckets.sort_unstable();
    let mut entry = Entry {
        classification: classification?,
        given,
        confidence: given.unwrap_or_default(),
        notes,
        buckets,
    };
    if given.is_none() {
        entry.confidence = share(&entry.count(&paths, |_, _| {}), entry.classification);
    }
    Some((id?.to_lowercase(), (entry, paths)))
}

/// Reads one entry, and reports what is wrong with it.
struct Reader<'r> {
    /// The place of the entry.
    at: String,
    report: &'r mut Report,
}

impl Reader<'_> {
    fn refuse(&mut self, place: &str, rule: &str, expected: &str, found: String) {
        self.report.push(format!("{}{place}", self.at), rule, expected.to_owned(), found);
    }

    fn text<'e>(&mut self, object: &'e Map<String, Value>, key: &str, is_required: bool) -> Option<&'e str> {
        match object.get(key) {
            Some(Value::String(text)) => return Some(text),
            Some(other) => self.refuse(&format!("/{key}"), "type", "string", kind(other).to_owned()),
            None if is_required => self.refuse("", "required", &format!("the key {key}"), "none".to_owned()),
            None => {}
        }
        None
    }

    fn list<'e>(&mut self, object: &'e Map<String, Value>, key: &str) -> &'e [Value] {
        match object.get(key) {
            Some(Value::Array(items)) => return items,
            Some(other) => self.refuse(&format!("/{key}"), "type", "array", kind(other).to_owned()),
            None => {}
        }
        &[]
    }

    fn surface(&mut self, place: &str, name: &str) -> Option<Surface> {
        let surface = Surface::parse(name);
        if surface.is_none() {
            let names = Surface::ALL.map(Surface::name).join(", ");
            self.refuse(place, "enum", &format!("one of {names}"), shown(name));
        }
        surface
    }

    fn confidence(&mut self, value: &Value) -> Option<u32> {
        let number = value.as_f64().filter(|number| (0.0..=1.0).contains(number));
        if number.is_none() {
            self.refuse("/confidence", "range", "a number from 0 to 1", kind(value).to_owned());
        }
        // It is a number from 0 to 10,000.
        number.map(|number| (number * 10_000.0).round() as u32)
    }

    fn bucket<'e>(&mut self, value: &'e Value, place: usize) -> Option<(&'e str, Surface)> {
        let at = format!("/surfaceBuckets/{place}");
        let text = |key: &str| value.get(key).and_then(Value::as_str);
        let (Some(surface), Some(prefix)) = (text("surface"), text("pathPrefix")) else {
            self.refuse(&at, "type", "an object with surface and pathPrefix", kind(value).to_owned());
            return None;
        };
        if let Some(count) = value.get("signalCount").filter(|count| whole(count).is_none()) {
            self.refuse(
                &format!("{at}/signalCount"),
                "type",
                "an integer of at least 0",
                kind(count).to_owned(),
            );
        }
        let surface = self.surface(&format!("{at}/surface"), surface)?;
        Some((prefix, surface))
    }
}

const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
