//! Measures of routing on labelled rows: accuracy, quality of the confidence, and speed.
//!
//! Rows are tab-separated: text, label, split. Each label stands for a spec with one intent. The label [`OUT_OF_SCOPE`]
//! marks texts of no spec, which are never trained on. The clock is an argument.

mod evaluation;
mod measure;
mod rows;

pub use evaluation::{Confusion, Evaluation, Thresholded};
pub use measure::{Rule, Scored, auroc, calibration_error, choose_threshold};
pub use rows::{OUT_OF_SCOPE, Row, RowError, catalogue, first_shots, folds, halves, read_tsv};

use std::collections::BTreeMap;
use std::time::Duration;

use crate::decision::Query;
use crate::model::Parameters;
use crate::route::{Router, Scratch};

/// The number of label pairs that an evaluation lists.
const WORST: usize = 10;

/// The input of an evaluation.
pub struct Options<'a> {
    pub train: &'a [Row],
    /// The rows on which thresholds are chosen.
    pub valid: &'a [Row],
    /// The rows on which the result is measured. Without them, `valid` is halved, one half for each purpose.
    pub test: Option<&'a [Row]>,
    /// The maximum number of training examples of each label.
    pub shots: Option<usize>,
    pub parameters: &'a Parameters,
    /// The time since any fixed moment.
    pub clock: &'a dyn Fn() -> Duration,
}

impl std::fmt::Debug for Options<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Options")
            .field("train", &self.train.len())
            .field("valid", &self.valid.len())
            .field("test", &self.test.map(<[Row]>::len))
            .field("shots", &self.shots)
            .finish_non_exhaustive()
    }
}

/// Trains a router, decides every row, and measures the decisions.
#[must_use]
pub fn evaluate(options: &Options<'_>) -> Evaluation {
    let train = match options.shots {
        Some(shots) => first_shots(options.train, shots),
        None => options.train.to_vec(),
    };
    let (valid, test) = match options.test {
        Some(test) => (options.valid.to_vec(), test.to_vec()),
        None => halves(options.valid),
    };
    let catalogue = catalogue(&train);
    let begin = (options.clock)();
    let router = Router::train_with(&catalogue, options.parameters);
    let training = (options.clock)().saturating_sub(begin);
    evaluate_router(&router, &valid, &test, training, options.clock)
}

/// Evaluates a trained router, on labels that are ids of its specs.
#[must_use]
pub fn evaluate_router(
    router: &Router,
    valid: &[Row],
    test: &[Row],
    training: Duration,
    clock: &dyn Fn() -> Duration,
) -> Evaluation {
    let (chosen_on, _) = decide(router, valid, clock);
    let (scored, latencies) = decide(router, test, clock);
    Evaluation::new(&chosen_on, &scored, latencies, training, router)
}

/// Cross-validates: each row is decided by a router that was trained on the other folds, and one evaluation covers all
/// rows. Thresholds are chosen on the same rows on which they are measured, so those figures are the best possible ones
/// and not unbiased.
#[must_use]
pub fn cross_validate(
    rows: &[Row],
    parts: usize,
    parameters: &Parameters,
    clock: &dyn Fn() -> Duration,
) -> Option<Evaluation> {
    let mut scored = Vec::new();
    let mut latencies = Vec::new();
    let mut training = Duration::ZERO;
    let mut last = None;
    for (train, test) in folds(rows, parts) {
        let begin = clock();
        let router = Router::train_with(&catalogue(&train), parameters);
        training = training.max(clock().saturating_sub(begin));
        let (some, times) = decide(&router, &test, clock);
        scored.extend(some);
        latencies.extend(times);
        last = Some(router);
    }
    last.map(|router| Evaluation::new(&scored, &scored, latencies, training, &router))
}

fn decide(router: &Router, rows: &[Row], clock: &dyn Fn() -> Duration) -> (Vec<Scored>, Vec<Duration>) {
    let mut scratch = Scratch::default();
    let mut scored = Vec::with_capacity(rows.len());
    let mut latencies = Vec::with_capacity(rows.len());
    for row in rows {
        let query = Query { text: &row.text, ..Query::default() };
        let begin = clock();
        let decision = router.route_with(&query, &mut scratch);
        latencies.push(clock().saturating_sub(begin));
        scored.push(Scored {
            label: row.label.clone(),
            spec: decision.spec,
            confidence: decision.confidence,
        });
    }
    (scored, latencies)
}

/// Labels that are confused with others, the most frequent first.
fn worst_confusions(scored: &[Scored]) -> Vec<Confusion> {
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for row in scored.iter().filter(|row| !row.out_of_scope() && row.spec != row.label) {
        *counts.entry((&row.label, &row.spec)).or_default() += 1;
    }
    let mut confusions: Vec<Confusion> = counts
        .into_iter()
        .map(|((label, spec), rows)| Confusion { label: label.to_owned(), spec: spec.to_owned(), rows })
        .collect();
    confusions.sort_by_key(|confusion| std::cmp::Reverse(confusion.rows));
    confusions.truncate(WORST);
    confusions
}
