//! How near the confidence is to what is right, on public sets of intents.
//!
//! The sets are not part of the repository: their licences and their sizes are others. `CAPATAZ_INTENT_DATA` names a folder
//! with them (CONTRIBUTING.md says which files, and their form); a test whose file is not there names itself as skipped.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use capataz_router::eval::{self, OUT_OF_SCOPE, Options, Row};
use capataz_router::model::Parameters;

/// The largest calibration error that is borne: over ten equal bins, the mean distance between the confidence and the share
/// of decisions that are right.
const MOST: f64 = 0.05;

/// The rows of a set; `None` where it is not on this machine.
#[expect(clippy::disallowed_methods, reason = "where the sets are is told by whoever has them")]
fn rows(test: &str, file: &str) -> Option<Vec<Row>> {
    let folder = std::env::var_os("CAPATAZ_INTENT_DATA").map(PathBuf::from);
    let path = folder.map(|folder| folder.join(file)).filter(|path| path.is_file());
    let Some(path) = path else {
        skipped(&format!("capataz-router::calibration {test}: {file} is not in CAPATAZ_INTENT_DATA"));
        return None;
    };
    Some(eval::read_tsv(&fs::read_to_string(path).unwrap()).unwrap())
}

/// Says so where `cargo xtask test` reads it.
#[expect(clippy::disallowed_methods, reason = "where to say so is told by whoever runs the tests")]
fn skipped(line: &str) {
    eprintln!("SKIPPED  {line}");
    if let Some(list) = std::env::var_os("CAPATAZ_SKIPPED") {
        let list = fs::OpenOptions::new().create(true).append(true).open(Path::new(&list));
        list.unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
    }
}

fn of_split(rows: &[Row], split: &str) -> Vec<Row> {
    let some: Vec<Row> = rows.iter().filter(|row| row.split == split).cloned().collect();
    assert!(!some.is_empty(), "rows of the split {split}");
    some
}

/// Trains on one split of the file, and measures on its validation rows.
#[track_caller]
fn check(test: &str, file: &str, splits: &[&str]) {
    let Some(rows) = rows(test, file) else { return };
    let valid = of_split(&rows, "valid");
    for split in splits {
        let train: Vec<Row> = of_split(&rows, split);
        let options = Options {
            train: &train,
            valid: &valid,
            test: Some(&valid),
            shots: None,
            parameters: &Parameters::default(),
            clock: &|| Duration::ZERO,
        };
        is_near(file, split, eval::evaluate(&options).calibration_error);
    }
}

#[track_caller]
fn is_near(file: &str, split: &str, error: f64) {
    eprintln!("{file} {split}: {error:.3}");
    assert!(error <= MOST, "{file}, trained on {split}: calibration error {error:.3}, at most {MOST}");
}

#[test]
fn a_hundred_and_fifty_intents_with_texts_of_none() {
    check("a_hundred_and_fifty_intents_with_texts_of_none", "clinc150_full.tsv", &["train"]);
}

#[test]
fn a_hundred_and_fifty_intents_of_few_examples() {
    check("a_hundred_and_fifty_intents_of_few_examples", "fewshot_clinc150.tsv", &["train_5", "train_10"]);
}

#[test]
fn seventy_seven_intents_of_few_examples() {
    check("seventy_seven_intents_of_few_examples", "fewshot_banking77.tsv", &["train_5", "train_10"]);
}

#[test]
fn sixty_four_intents_of_few_examples() {
    check("sixty_four_intents_of_few_examples", "fewshot_hwu64.tsv", &["train_5", "train_10"]);
}

#[test]
fn twelve_intents_in_spanish() {
    check("twelve_intents_in_spanish", "fbtod_es.tsv", &["train"]);
}

/// Fifty intents with five examples each and no rows to measure on, so that each row is measured on a model that did not see
/// it.
#[test]
fn fifty_intents_in_spanish() {
    let Some(rows) = rows("fifty_intents_in_spanish", "nlpjs_es.tsv") else { return };
    assert!(rows.iter().all(|row| row.label != OUT_OF_SCOPE));
    let report = eval::cross_validate(&rows, 5, &Parameters::default(), &|| Duration::ZERO).unwrap();
    is_near("nlpjs_es.tsv", "five folds", report.calibration_error);
}
