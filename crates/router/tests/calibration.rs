//! How near the confidence is to what is right, on public sets of intents.
//!
//! The sets are not part of the repository: their licences and their sizes are others. So these tests are no part of the suite,
//! which has sets that are drawn (`model/drawn.rs`): `cargo xtask calibration FOLDER` runs them on a folder with the sets
//! (CONTRIBUTING.md says which files, and their form). A test whose file is not there fails.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::fs;
use std::path::Path;
use std::time::Duration;

use capataz_router::eval::{self, OUT_OF_SCOPE, Options, Row};
use capataz_router::model::Parameters;

/// The largest calibration error that is borne: over ten equal bins, the mean distance between the confidence and the share
/// of decisions that are right.
const MOST: f64 = 0.05;

/// The rows of a set.
#[expect(clippy::disallowed_methods, reason = "where the sets are is told by whoever has them")]
fn rows(file: &str) -> Vec<Row> {
    let folder =
        std::env::var_os("CAPATAZ_INTENT_DATA").expect("CAPATAZ_INTENT_DATA names a folder with the sets");
    let path = Path::new(&folder).join(file);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    eval::read_tsv(&text).unwrap()
}

fn of_split(rows: &[Row], split: &str) -> Vec<Row> {
    let some: Vec<Row> = rows.iter().filter(|row| row.split == split).cloned().collect();
    assert!(!some.is_empty(), "rows of the split {split}");
    some
}

/// Trains on one split of the file, and measures on its validation rows.
#[track_caller]
fn check(file: &str, splits: &[&str]) {
    let rows = rows(file);
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
#[ignore = "needs public sets: cargo xtask calibration FOLDER"]
fn a_hundred_and_fifty_intents_with_texts_of_none() {
    check("clinc150_full.tsv", &["train"]);
}

#[test]
#[ignore = "needs public sets: cargo xtask calibration FOLDER"]
fn a_hundred_and_fifty_intents_of_few_examples() {
    check("fewshot_clinc150.tsv", &["train_5", "train_10"]);
}

#[test]
#[ignore = "needs public sets: cargo xtask calibration FOLDER"]
fn seventy_seven_intents_of_few_examples() {
    check("fewshot_banking77.tsv", &["train_5", "train_10"]);
}

#[test]
#[ignore = "needs public sets: cargo xtask calibration FOLDER"]
fn sixty_four_intents_of_few_examples() {
    check("fewshot_hwu64.tsv", &["train_5", "train_10"]);
}

#[test]
#[ignore = "needs public sets: cargo xtask calibration FOLDER"]
fn twelve_intents_in_spanish() {
    check("fbtod_es.tsv", &["train"]);
}

/// Fifty intents with five examples each and no rows to measure on, so that each row is measured on a model that did not see
/// it.
#[test]
#[ignore = "needs public sets: cargo xtask calibration FOLDER"]
fn fifty_intents_in_spanish() {
    let rows = rows("nlpjs_es.tsv");
    assert!(rows.iter().all(|row| row.label != OUT_OF_SCOPE));
    let report = eval::cross_validate(&rows, 5, &Parameters::default(), &|| Duration::ZERO).unwrap();
    is_near("nlpjs_es.tsv", "five folds", report.calibration_error);
}
