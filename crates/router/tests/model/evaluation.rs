use std::time::Duration;

use capataz_router::eval::{
    self, OUT_OF_SCOPE, Options, Row, Rule, Scored, auroc, calibration_error, choose_threshold, read_tsv,
};
use capataz_router::model::Parameters;

use super::support::shop;

fn scored(rows: &[(&str, &str, f64)]) -> Vec<Scored> {
    let row = |(label, spec, confidence): &(&str, &str, f64)| Scored {
        label: (*label).to_owned(),
        spec: (*spec).to_owned(),
        confidence: *confidence,
    };
    rows.iter().map(row).collect()
}

#[test]
fn rows_are_read_and_lines_that_are_none_are_named() {
    let rows = read_tsv("text\tlabel\tsplit\nhello\tgreet\tvalid\n\nbye\tleave\n").unwrap();
    assert_eq!(rows[0], Row { text: "hello".into(), label: "greet".into(), split: "valid".into() });
    assert_eq!(rows[1].split, "test");
    let errors = read_tsv("text\tlabel\tsplit\nhello\na\tb\tc\td\n").unwrap_err();
    assert_eq!(errors.iter().map(|error| (error.line, error.columns)).collect::<Vec<_>>(), [(2, 1), (3, 4)]);
}

#[test]
fn the_larson_rule_takes_the_threshold_with_the_most_rows_right() {
    let rows = scored(&[
        ("a", "a", 0.9),
        ("a", "a", 0.8),
        ("a", "a", 0.35),
        (OUT_OF_SCOPE, "a", 0.4),
        (OUT_OF_SCOPE, "a", 0.2),
        ("a", "b", 0.1),
    ]);
    // With a threshold below 0.35, one row out of scope is refused and nothing is lost.
    assert!((choose_threshold(&rows, Rule::Larson) - 0.275).abs() < 1e-12);
    // Half of the rows out of scope outweigh a quarter of the rows in scope.
    assert!((choose_threshold(&rows, Rule::Balanced) - 0.6).abs() < 1e-12);
    assert_eq!(choose_threshold(&scored(&[("a", "a", 0.5)]), Rule::Larson), 0.0);
}

#[test]
fn auroc_is_the_share_of_pairs_in_the_right_order() {
    let rows =
        scored(&[("a", "a", 0.9), ("a", "a", 0.4), (OUT_OF_SCOPE, "a", 0.4), (OUT_OF_SCOPE, "a", 0.1)]);
    assert_eq!(auroc(&rows), Some(0.875));
    assert_eq!(auroc(&rows[..2]), None);
}

#[test]
fn the_calibration_error_is_the_distance_between_what_is_said_and_what_holds() {
    let perfect: Vec<Scored> =
        scored(&[("a", "a", 0.75); 3]).into_iter().chain(scored(&[("a", "b", 0.75)])).collect();
    assert!(calibration_error(&perfect) < 1e-12);
    let boastful = scored(&[("a", "b", 1.0), (OUT_OF_SCOPE, "b", 1.0)]);
    assert_eq!(calibration_error(&boastful), 1.0);
}

fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for spec in shop() {
        for (place, (_, text)) in spec.intents[0].examples.iter().enumerate() {
            let split = if place < 4 { "train" } else { "valid" };
            rows.push(Row { text: text.clone(), label: spec.id.clone(), split: split.to_owned() });
        }
    }
    for text in ["qwx zzt", "vvk plm", "xkcd wrrt", "ghjk"] {
        rows.push(Row { text: text.to_owned(), label: OUT_OF_SCOPE.to_owned(), split: "valid".to_owned() });
    }
    rows
}

#[test]
fn an_evaluation_counts_what_it_says_it_counts() {
    let rows = rows();
    let part = |split: &str| rows.iter().filter(|row| row.split == split).cloned().collect::<Vec<_>>();
    let (train, valid) = (part("train"), part("valid"));
    let clock = || Duration::ZERO;
    let options = Options {
        train: &train,
        valid: &valid,
        test: Some(&valid),
        shots: None,
        parameters: &Parameters::default(),
        clock: &clock,
    };
    let report = eval::evaluate(&options);
    assert_eq!((report.specs, report.rows, report.rows_out_of_scope), (6, 16, 4));
    assert!(report.auroc.unwrap() > 0.9);
    let balanced = report.balanced.unwrap();
    assert!(balanced.out_of_scope_recall >= 0.75);
    assert!(balanced.accuracy <= report.accuracy && report.accuracy > 0.3);
    let wrong: usize = report.worst_confusions.iter().map(|confusion| confusion.rows).sum();
    assert_eq!(wrong, ((1.0 - report.accuracy) * 12.0).round() as usize);
    assert!(report.memory_bytes > 0 && report.latency_p50_ns == 0);
    assert_eq!(serde_json::to_value(&report).unwrap()["rows"], 16);
    // Without rows to measure on, half of the others are used.
    assert_eq!(eval::evaluate(&Options { test: None, ..options }).rows, 8);
}

#[test]
fn fewer_shots_are_the_first_ones_of_each_label() {
    let shots = eval::first_shots(&rows(), 2);
    assert_eq!(shots.len(), 7 * 2);
    assert_eq!(shots[0], rows()[0]);
}

#[test]
fn cross_validation_measures_every_row_once_on_a_model_that_did_not_see_it() {
    let rows: Vec<Row> = rows().into_iter().filter(|row| row.label != OUT_OF_SCOPE).collect();
    let clock = || Duration::ZERO;
    let report = eval::cross_validate(&rows, 3, &Parameters::default(), &clock).unwrap();
    assert_eq!(report.rows, rows.len());
    for (train, test) in eval::folds(&rows, 3) {
        assert!(test.iter().all(|row| !train.contains(row)));
        assert_eq!(train.len() + test.len(), rows.len());
    }
    assert!(
        eval::cross_validate(&[], 3, &Parameters::default(), &clock).is_none_or(|report| report.rows == 0)
    );
}
