//! `surface-classification`: the source context of one source.

use std::collections::BTreeMap;

use capataz_policy::surfaces::{Counts, Prefixes, Signals, Surface, surface_of, surface_of_folder};
use serde_json::{Value, json};

use super::OUTPUT_VERSION;
use super::input::{Faults, Reader, Source, cut};
use super::manifest::{self, Package};
use super::tree::{self, Bucket};
use super::words::{Language, PACKAGE, PATH, SIGNAL};

/// Characters of a path in the notes.
const SHOWN: usize = 100;
/// Packages that the notes name.
const PACKAGES: usize = 3;

/// # Errors
/// What is wrong with the input.
pub(super) fn source_context(input: &Value) -> Result<Value, Faults> {
    let mut reader = Reader::default();
    let source = reader.source(input, "");
    let language = input.as_object().map(|input| reader.language(input)).unwrap_or_default();
    match reader.done(source)? {
        Some(source) => classified(&source, language),
        None => Err(vec!["expected a source".to_owned()]),
    }
}

/// # Errors
/// The surfaces of the source would have to be told apart, and no path of it can be named in a bucket.
pub(super) fn classified(source: &Source<'_>, language: Language) -> Result<Value, Faults> {
    let packages = manifest::packages(source);
    let paths = surfaces(source, &packages);
    let mut signals = Signals::default();
    for (_, surface) in &paths {
        signals.add(*surface);
    }
    let classification = signals.counts().dominant().unwrap_or(Surface::Unknown);
    let required = Signals::of(source.paths.iter().copied()).significant().len() > 1;
    let buckets = tree::buckets(&paths, &signals, classification, required);
    if required && buckets.is_empty() {
        return Err(vec![
            "paths: expected paths within the source, such as apps/website/index.html".to_owned(),
        ]);
    }
    let mut output = json!({
        "classification": classification.name(),
        "notes": notes(&paths, &signals, &packages, language),
        "outputVersion": OUTPUT_VERSION,
    });
    if !buckets.is_empty() {
        let has_counts = are_counts_of(&buckets, classification);
        let shown = buckets.iter().map(|bucket| {
            let mut shown = json!({"surface": bucket.surface.name(), "pathPrefix": bucket.prefix});
            if has_counts {
                shown["signalCount"] = bucket.count.into();
            }
            shown
        });
        output["surfaceBuckets"] = shown.collect();
    }
    Ok(output)
}

/// The surface of each path. A package that has the name of a surface makes its product code part of that surface, and so
/// does the name of a repository. What a folder on somebody's disk is called, such as `scratch`, says nothing of what is in it.
pub(super) fn surfaces<'i>(
    source: &Source<'i>,
    packages: &BTreeMap<&'i str, Package>,
) -> Vec<(&'i str, Surface)> {
    let mut named = Prefixes::default();
    for (folder, package) in packages.iter().filter(|(folder, _)| !folder.is_empty()) {
        if let Some(surface) = surface_of_package(package.short_name()) {
            named.add(folder, surface);
        }
    }
    let whole = source.repository().and_then(surface_of_folder);
    let surface = |path: &'i str| match surface_of(path) {
        Surface::ProductCore => named.longest(path).copied().or(whole).unwrap_or(Surface::ProductCore),
        other => other,
    };
    source.paths.iter().map(|path| (*path, surface(path))).collect()
}

fn surface_of_package(name: &str) -> Option<Surface> {
    let is_site = matches!(name.rsplit(['-', '_']).next(), Some("website" | "marketing"));
    surface_of_folder(name).or(is_site.then_some(Surface::MarketingSurface))
}

/// Whether the classification has the most paths of the buckets. Where most of its paths are in none, the counts would say
/// something else than the signals do, and are left out.
fn are_counts_of(buckets: &[Bucket<'_>], classification: Surface) -> bool {
    let mut counts = Counts::default();
    for bucket in buckets {
        counts.add(bucket.surface, bucket.count.into());
    }
    let most = counts.ranked().first().map_or(0, |(_, most)| *most);
    counts.of(classification) >= most
}

fn notes(
    paths: &[(&str, Surface)],
    signals: &Signals,
    packages: &BTreeMap<&str, Package>,
    language: Language,
) -> String {
    let total = signals.counts().total();
    let count = language.count(paths.len() as u64, PATH);
    let mut parts = vec![format!("{count}, {}", language.count(total, SIGNAL))];
    for (surface, count) in signals.counts().ranked() {
        let percent = count.saturating_mul(100).checked_div(total).unwrap_or_default();
        let sample = paths.iter().find(|(_, of_path)| *of_path == surface).map_or("", |(path, _)| path);
        let numbers = format!("{surface} {count} ({percent} %)");
        parts.push(language.say("{}, such as {}", "{}, como {}", &[&numbers, &cut(sample, SHOWN)]));
    }
    let named = packages.values().filter(|package| !package.name.is_empty()).take(PACKAGES);
    let named: Vec<_> = named
        .map(|package| language.say("{} in {}", "{} en {}", &[&package.name, &cut(&package.path, SHOWN)]))
        .collect();
    let count = language.count(packages.len() as u64, PACKAGE);
    match (packages.is_empty(), named.is_empty()) {
        (true, _) => {}
        (_, true) => parts.push(count),
        _ => parts.push(language.say("{}, such as {}", "{}, como {}", &[&count, &named.join(", ")])),
    }
    parts.join("; ")
}
