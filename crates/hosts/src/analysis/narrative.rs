//! `narrative`: the timeline interpretation, short texts with the numbers of the earlier phases.

use capataz_policy::surfaces::{Counts, Surface};
use serde_json::{Map, Value, json};

use super::OUTPUT_VERSION;
use super::features::Kind;
use super::input::{Faults, Reader, count, cut, rows, text};
use super::words::{self, Language};

/// Domains that have a text of their own, the largest ones.
const DOMAINS: usize = 5;
/// Features, paths and domains that one text names.
const NAMED: usize = 3;
/// Characters of a name in a text.
const NAME: usize = 100;

/// # Errors
/// What is wrong with the input.
pub(super) fn timeline(input: &Value) -> Result<Value, Faults> {
    let mut reader = Reader::default();
    let empty = Map::new();
    let input = reader.object(input, "the input").unwrap_or(&empty);
    let surfaces = reader.part(input, "surfaces");
    let features = reader.part(input, "featureMap");
    let context = reader.part(input, "productContext");
    if surfaces.is_none() && features.is_none() {
        reader.refuse("the input", "surfaces or featureMap");
    }
    let language = reader.language(input);
    let known = reader.done(Known { surfaces, features, context, language })?;
    let mut narratives = vec![known.overview()];
    narratives.extend(known.of_surfaces());
    narratives.extend(known.of_domains());
    Ok(json!({"narratives": narratives, "outputVersion": OUTPUT_VERSION}))
}

/// What the earlier phases have put out.
struct Known<'i> {
    surfaces: Option<&'i Map<String, Value>>,
    features: Option<&'i Map<String, Value>>,
    context: Option<&'i Map<String, Value>>,
    language: Language,
}

impl Known<'_> {
    fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for row in rows(self.surfaces, "summary") {
            if let Some(surface) = Surface::parse(text(row, "surface")) {
                counts.add(surface, count(row, "signalCount").into());
            }
        }
        counts
    }

    fn sources(&self) -> Vec<&str> {
        let of_features =
            self.features.and_then(|features| features.get("sourcesUsed")).and_then(Value::as_array);
        let of_features = of_features.into_iter().flatten().filter_map(Value::as_str);
        let of_surfaces = rows(self.surfaces, "surfaces").map(|row| text(row, "sourceId"));
        let mut sources: Vec<&str> =
            if self.surfaces.is_some() { of_surfaces.collect() } else { of_features.collect() };
        sources.retain(|source| !source.is_empty());
        sources.sort_unstable();
        sources.dedup();
        sources
    }

    fn overview(&self) -> Value {
        let (language, counts, sources) = (self.language, self.counts(), self.sources());
        let name = self.context.map(|context| text(context, "name")).filter(|name| !name.trim().is_empty());
        let name =
            name.map_or_else(|| language.say("The product", "El producto", &[]), |name| cut(name, NAME));
        let domains = rows(self.features, "domains").count() as u64;
        let features = rows(self.features, "features").count() as u64;
        let paths = counts.total();
        let of_sources = language.count(sources.len() as u64, words::SOURCE);
        let mut told = language.say("{} has {}", "{} tiene {}", &[&name, &of_sources]);
        let mut numbers = vec![json!({"name": "sources", "value": sources.len()})];
        if self.surfaces.is_some() {
            told.push_str(&language.say(" with {}", " con {}", &[&language.count(paths, words::PATH)]));
            numbers.push(json!({"name": "paths", "value": u64::try_from(paths).unwrap_or(u64::MAX)}));
        }
        told.push('.');
        if let Some((surface, most)) = counts.ranked().first() {
            let (most, share) = (format!("{most}"), percent(*most, paths));
            told.push_str(&language.say(
                " Most of it is {}: {} of {} ({}).",
                " La mayor parte es {}: {} de {} ({}).",
                &[surface.name(), &most, &paths.to_string(), &share],
            ));
        }
        if self.features.is_some() {
            let of_features = language.count(features, words::FEATURE);
            let of_domains = language.count(domains, words::DOMAIN);
            told.push_str(&language.say(
                " It has {} in {}.",
                " Tiene {} en {}.",
                &[&of_features, &of_domains],
            ));
            numbers.push(json!({"name": "domains", "value": domains}));
            numbers.push(json!({"name": "features", "value": features}));
        }
        json!({"kind": "overview", "title": name, "text": told, "sources": sources, "numbers": numbers})
    }

    fn of_surfaces(&self) -> Vec<Value> {
        let (language, total) = (self.language, self.counts().total());
        let mut told = Vec::new();
        for (surface, number) in self.counts().ranked() {
            let row = rows(self.surfaces, "summary")
                .find(|row| Surface::parse(text(row, "surface")) == Some(surface));
            let samples = row.and_then(|row| row.get("samplePaths")).and_then(Value::as_array);
            let samples = samples.into_iter().flatten().filter_map(Value::as_str).take(NAMED);
            let samples: Vec<_> = samples.map(|path| cut(path, NAME)).collect();
            let paths = language.count(number, words::PATH);
            let mut line = language.say(
                "{} has {} of {} ({})",
                "{} tiene {} de {} ({})",
                &[surface.name(), &paths, &total.to_string(), &percent(number, total)],
            );
            if !samples.is_empty() {
                line.push_str(&language.say(", such as {}", ", como {}", &[&samples.join(", ")]));
            }
            line.push('.');
            told.push(json!({"kind": "surface", "title": surface.name(), "text": line,
                "numbers": [{"name": "paths", "value": u64::try_from(number).unwrap_or(u64::MAX)}]}));
        }
        told
    }

    /// The domains come from the feature map in the order of their size.
    fn of_domains(&self) -> Vec<Value> {
        let mut domains: Vec<_> =
            rows(self.features, "domains").filter(|row| !text(row, "name").is_empty()).collect();
        domains.sort_by_key(|row| (std::cmp::Reverse(count(row, "signalCount")), text(row, "id")));
        domains.into_iter().take(DOMAINS).map(|row| self.of_domain(row)).collect()
    }

    fn of_domain(&self, row: &Map<String, Value>) -> Value {
        let (name, paths) = (cut(text(row, "name"), NAME), count(row, "signalCount"));
        let features: Vec<_> = rows(self.features, "features")
            .filter(|feature| text(feature, "domain") == text(row, "id"))
            .collect();
        let number = features.len() as u64;
        let language = self.language;
        let named = features.iter().take(NAMED).map(|feature| {
            let kind = Kind::ALL.into_iter().find(|kind| kind.name() == text(feature, "kind"));
            let kind = kind.map_or_else(|| text(feature, "kind"), |kind| language.one(kind.noun()));
            format!("{kind} {}", cut(text(feature, "name"), NAME))
        });
        let named: Vec<_> = named.collect();
        let surface = Surface::parse(text(row, "surface")).unwrap_or(Surface::Unknown);
        let of_paths = language.count(paths, words::PATH);
        let mut line = language.say(
            "{} has {}, mostly {}",
            "{} tiene {}, sobre todo {}",
            &[&name, &of_paths, surface.name()],
        );
        if named.is_empty() {
            line.push_str(&language.say(", and no features.", ", y ninguna funcionalidad.", &[]));
        } else {
            let of_features = language.count(number, words::FEATURE);
            let more = if features.len() > NAMED { ", …" } else { "" };
            line.push_str(&language.say(
                ", and {}: {}{}.",
                ", y {}: {}{}.",
                &[&of_features, &named.join(", "), more],
            ));
        }
        json!({"kind": "domain", "title": name, "text": line,
            "numbers": [{"name": "paths", "value": paths}, {"name": "features", "value": number}]})
    }
}

/// A share with its percentage, rounded down.
fn percent(part: u128, whole: u128) -> String {
    format!("{} %", part.saturating_mul(100).checked_div(whole).unwrap_or_default())
}
