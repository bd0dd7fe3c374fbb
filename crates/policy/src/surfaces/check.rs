//! What a JSON Schema cannot say about a source context.

use std::collections::BTreeSet;

use capataz_contracts::v1::SchemaViolation;
use serde_json::{Map, Value};

use super::report::{Report, shown};
use super::{Counts, Prefixes, Signals, Surface, prefix_fault};

/// The rule of buckets that are missing.
pub const BUCKETS_REQUIRED: &str = "BUCKETS_REQUIRED";

/// The name that is no surface.
const MIXED: &str = "mixed";

/// The rules of a source context beside its schema. `input` is what the agent was given; where it has `paths`, buckets are
/// compared with them. What the schema refuses already, such as a value of another type, is passed over.
///
/// | rule | what it refuses |
/// |---|---|
/// | `mixed` | the surface `mixed`: buckets tell surfaces apart |
/// | `prefix` | a prefix that is empty, or of which no path can be or is |
/// | `duplicate` | a prefix that another bucket has |
/// | `dominant` | a classification that has fewer signals than another surface, by the counts of the buckets |
/// | [`BUCKETS_REQUIRED`] | no buckets where at least two surfaces have 5 % of the signals, by the rules for paths |
#[must_use]
pub fn check_source_context(output: &Value, input: Option<&Value>) -> Vec<SchemaViolation> {
    let mut report = Report::default();
    if let Value::Object(output) = output {
        let buckets = Bucket::all(output);
        let paths = input.and_then(|input| input.get("paths")).and_then(Value::as_array);
        let paths: Option<BTreeSet<&str>> =
            paths.map(|paths| paths.iter().filter_map(Value::as_str).collect());
        mixed(output, &buckets, &mut report);
        prefixes(&buckets, paths.as_ref(), &mut report);
        dominant(output, &buckets, &mut report);
        if let Some(paths) = paths.filter(|_| buckets.is_empty()) {
            required(&paths, &mut report);
        }
    }
    report.into_violations()
}

/// A bucket as far as it can be read.
struct Bucket<'o> {
    index: usize,
    surface: Option<&'o str>,
    prefix: Option<&'o str>,
    count: Option<u128>,
}

impl<'o> Bucket<'o> {
    fn all(output: &'o Map<String, Value>) -> Vec<Self> {
        let buckets = output.get("surfaceBuckets").and_then(Value::as_array);
        let text = |bucket: &'o Value, key: &str| bucket.get(key).and_then(Value::as_str);
        let read = |(index, bucket): (usize, &'o Value)| Self {
            index,
            surface: text(bucket, "surface"),
            prefix: text(bucket, "pathPrefix"),
            count: bucket.get("signalCount").and_then(whole),
        };
        buckets.into_iter().flatten().enumerate().map(read).collect()
    }

    fn at(&self, key: &str) -> String {
        format!("/surfaceBuckets/{}/{key}", self.index)
    }
}

/// A count, be it written as `40`, `40.0` or `4e1`.
pub(super) fn whole(value: &Value) -> Option<u128> {
    if let Some(count) = value.as_u64() {
        return Some(count.into());
    }
    let count = value.as_f64().filter(|count| *count >= 0.0 && count.fract() == 0.0)?;
    // The greatest ones are as great as a count can be.
    Some(count as u128)
}

fn mixed(output: &Map<String, Value>, buckets: &[Bucket<'_>], report: &mut Report) {
    let names: Vec<_> = Surface::ALL.map(Surface::name).into();
    let names = names.join(", ");
    let is_mixed = |name: &str| name.to_lowercase() == MIXED;
    if let Some(name) = output.get("classification").and_then(Value::as_str).filter(|name| is_mixed(name)) {
        let expected = format!(
            "the surface with the most signals (one of {names}), and in surfaceBuckets the surface of each part of the \
             source by its pathPrefix"
        );
        report.push("/classification".to_owned(), MIXED, expected, shown(name));
    }
    for bucket in buckets {
        if let Some(name) = bucket.surface.filter(|name| is_mixed(name)) {
            let expected =
                format!("one of {names}, and further buckets for what is below the prefix and differs");
            report.push(bucket.at("surface"), MIXED, expected, shown(name));
        }
    }
}

fn prefixes(buckets: &[Bucket<'_>], paths: Option<&BTreeSet<&str>>, report: &mut Report) {
    let mut known = Prefixes::default();
    // Those that are sound, by the place of their bucket.
    let mut sound: Vec<(&Bucket<'_>, &str)> = Vec::new();
    for bucket in buckets {
        let Some(prefix) = bucket.prefix else { continue };
        if let Some(expected) = prefix_fault(prefix) {
            report.push(bucket.at("pathPrefix"), "prefix", expected.to_owned(), shown(prefix));
        } else if let Some(first) = known.add(prefix, bucket.index) {
            let expected = format!("another prefix than that of /surfaceBuckets/{first}");
            report.push(bucket.at("pathPrefix"), "duplicate", expected, shown(prefix));
        } else {
            sound.push((bucket, prefix));
        }
    }
    let Some(paths) = paths else { return };
    let mut used = vec![false; buckets.len()];
    for path in paths {
        known.each(path, |index| {
            if let Some(used) = used.get_mut(*index) {
                *used = true;
            }
        });
    }
    for (bucket, prefix) in sound {
        if used.get(bucket.index) == Some(&false) {
            let expected = "whole segments at the beginning of at least one path of the source".to_owned();
            report.push(bucket.at("pathPrefix"), "prefix", expected, shown(prefix));
        }
    }
}

/// Buckets without a count have none, and where no bucket has one nothing is compared.
fn dominant(output: &Map<String, Value>, buckets: &[Bucket<'_>], report: &mut Report) {
    let Some(classification) = output.get("classification").and_then(Value::as_str).and_then(Surface::parse)
    else {
        return;
    };
    let mut counts = Counts::default();
    for bucket in buckets {
        if let (Some(surface), Some(count)) = (bucket.surface.and_then(Surface::parse), bucket.count) {
            counts.add(surface, count);
        }
    }
    let Some((first, most)) = counts.ranked().first().copied() else { return };
    let own = counts.of(classification);
    if own < most {
        let expected = format!("the surface with the most signals in the buckets: {first} has {most}");
        report.push(
            "/classification".to_owned(),
            "dominant",
            expected,
            format!("{classification}, which has {own}"),
        );
    }
}

fn required(paths: &BTreeSet<&str>, report: &mut Report) {
    let signals = Signals::of(paths.iter().copied());
    let significant = signals.significant();
    if significant.len() < 2 {
        return;
    }
    let total = signals.counts().total();
    let each = significant.iter().map(|(surface, count)| format!("{surface} {count} of {total}"));
    let each: Vec<_> = each.collect();
    let expected = format!(
        "buckets with surface and pathPrefix, because the paths count for several surfaces: {}",
        each.join(", ")
    );
    report.push("/surfaceBuckets".to_owned(), BUCKETS_REQUIRED, expected, "none".to_owned());
}
