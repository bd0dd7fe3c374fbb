//! Labelled rows, and their splits.

use std::collections::BTreeMap;

use crate::spec::{Catalogue, Intent, Spec};

/// The label of texts that no spec should answer.
pub const OUT_OF_SCOPE: &str = "oos";

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Row {
    pub text: String,
    pub label: String,
    pub split: String,
}

/// A line that cannot be read as a row.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}: expected text, label and split with tabs between them, found {columns} columns")]
pub struct RowError {
    /// The line's number, from 1.
    pub line: usize,
    pub columns: usize,
}

/// Reads rows. The first line is their heading. A missing split is `test`.
///
/// # Errors
/// All lines that cannot be read as rows.
pub fn read_tsv(content: &str) -> Result<Vec<Row>, Vec<RowError>> {
    let mut rows = Vec::new();
    let mut errors = Vec::new();
    for (place, line) in content.lines().enumerate().skip(1) {
        if line.trim().is_empty() {
            continue;
        }
        let columns: Vec<&str> = line.split('\t').collect();
        match columns.as_slice() {
            [text, label] | [text, label, ""] => {
                rows.push(Row {
                    text: (*text).to_owned(),
                    label: (*label).to_owned(),
                    split: "test".to_owned(),
                });
            }
            [text, label, split] => {
                rows.push(Row {
                    text: (*text).to_owned(),
                    label: (*label).to_owned(),
                    split: (*split).to_owned(),
                });
            }
            other => errors.push(RowError { line: place + 1, columns: other.len() }),
        }
    }
    if errors.is_empty() { Ok(rows) } else { Err(errors) }
}

/// Makes a catalogue: one spec for each label, with one intent of the same name. Rows out of scope are left out.
#[must_use]
pub fn catalogue(rows: &[Row]) -> Catalogue {
    let mut examples: BTreeMap<&str, Vec<(Option<String>, String)>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.label != OUT_OF_SCOPE) {
        examples.entry(&row.label).or_default().push((None, row.text.clone()));
    }
    let spec = |(label, examples): (&str, Vec<(Option<String>, String)>)| Spec {
        id: label.to_owned(),
        title: label.to_owned(),
        intents: vec![Intent { name: label.to_owned(), examples, pattern: None }],
        ..Spec::default()
    };
    Catalogue::new(examples.into_iter().map(spec).collect())
}

/// Returns the first rows of each label, in their order.
#[must_use]
pub fn first_shots(rows: &[Row], shots: usize) -> Vec<Row> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut kept = Vec::new();
    for row in rows {
        let count = counts.entry(&row.label).or_default();
        if *count < shots {
            *count += 1;
            kept.push(row.clone());
        }
    }
    kept
}

/// Divides the rows of each label in two halves, by turns.
#[must_use]
pub fn halves(rows: &[Row]) -> (Vec<Row>, Vec<Row>) {
    let mut parts = split(rows, 2).into_iter();
    (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
}

/// For each part, returns the other rows for training and the part for measuring.
#[must_use]
pub fn folds(rows: &[Row], parts: usize) -> Vec<(Vec<Row>, Vec<Row>)> {
    let parts = split(rows, parts.max(2));
    (0..parts.len())
        .map(|held| {
            let others = parts.iter().enumerate().filter(|(place, _)| *place != held);
            let train = others.flat_map(|(_, part)| part.iter().cloned()).collect();
            (train, parts.get(held).cloned().unwrap_or_default())
        })
        .collect()
}

/// Divides the rows of each label by turns, whatever their order.
fn split(rows: &[Row], parts: usize) -> Vec<Vec<Row>> {
    let mut sorted: Vec<&Row> = rows.iter().collect();
    sorted.sort_by(|one, other| (&one.label, &one.text).cmp(&(&other.label, &other.text)));
    let mut result = vec![Vec::new(); parts];
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for row in sorted {
        let count = counts.entry(&row.label).or_default();
        if let Some(part) = result.get_mut(*count % parts) {
            part.push(row.clone());
        }
        *count += 1;
    }
    result
}
