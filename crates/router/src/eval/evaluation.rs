//! The result of an evaluation.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Serialize;

use super::measure::{Rule, Scored, auroc, calibration_error, choose_threshold};
use crate::route::Router;

/// The figures of an evaluation. All shares are from 0 to 1.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evaluation {
    pub specs: usize,
    pub rows: usize,
    pub rows_out_of_scope: usize,
    /// The share of correct rows in scope, regardless of confidence.
    pub accuracy: f64,
    pub macro_f1: f64,
    /// Results with thresholds that were chosen on other rows; set only if some rows are out of scope.
    pub larson: Option<Thresholded>,
    pub balanced: Option<Thresholded>,
    pub auroc: Option<f64>,
    pub calibration_error: f64,
    pub mean_confidence: f64,
    pub worst_confusions: Vec<Confusion>,
    pub latency_p50_ns: u64,
    pub latency_p99_ns: u64,
    pub training_ms: f64,
    pub memory_bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Thresholded {
    pub threshold: f64,
    /// The share of rows in scope that are correct and not refused.
    pub accuracy: f64,
    /// The share of rows out of scope that are refused.
    pub out_of_scope_recall: f64,
}

/// A label whose rows were decided for another spec.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Confusion {
    pub label: String,
    pub spec: String,
    pub rows: usize,
}

impl Evaluation {
    pub(super) fn new(
        chosen_on: &[Scored],
        scored: &[Scored],
        mut latencies: Vec<Duration>,
        training: Duration,
        router: &Router,
    ) -> Self {
        let outside = scored.iter().filter(|row| row.out_of_scope()).count();
        let inside = scored.len() - outside;
        let right = scored.iter().filter(|row| row.right()).count();
        latencies.sort_unstable();
        let percentile = |percent: usize| {
            let place = latencies.len().saturating_sub(1) * percent / 100;
            latencies.get(place).map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
        };
        let thresholded = |rule| (outside > 0).then(|| threshold(chosen_on, scored, rule));
        Self {
            specs: router.catalogue().specs().len(),
            rows: scored.len(),
            rows_out_of_scope: outside,
            accuracy: share(right, inside),
            macro_f1: macro_f1(scored),
            larson: thresholded(Rule::Larson),
            balanced: thresholded(Rule::Balanced),
            auroc: auroc(scored),
            calibration_error: calibration_error(scored),
            mean_confidence: scored.iter().map(|row| row.confidence).sum::<f64>()
                / scored.len().max(1) as f64,
            worst_confusions: super::worst_confusions(scored),
            latency_p50_ns: percentile(50),
            latency_p99_ns: percentile(99),
            training_ms: training.as_secs_f64() * 1000.0,
            memory_bytes: router.memory_bytes(),
        }
    }
}

fn threshold(chosen_on: &[Scored], scored: &[Scored], rule: Rule) -> Thresholded {
    let threshold = choose_threshold(chosen_on, rule);
    let outside = scored.iter().filter(|row| row.out_of_scope()).count();
    let kept = scored.iter().filter(|row| row.right() && row.confidence >= threshold).count();
    let refused = scored.iter().filter(|row| row.out_of_scope() && row.confidence < threshold).count();
    Thresholded {
        threshold,
        accuracy: share(kept, scored.len() - outside),
        out_of_scope_recall: share(refused, outside),
    }
}

fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// The macro F1 of rows in scope: the mean over the labels, each with the same weight.
fn macro_f1(scored: &[Scored]) -> f64 {
    let inside: Vec<&Scored> = scored.iter().filter(|row| !row.out_of_scope()).collect();
    let labels: BTreeSet<&str> = inside.iter().map(|row| row.label.as_str()).collect();
    let mut sum = 0.0;
    for label in &labels {
        let right = inside.iter().filter(|row| row.label == *label && row.right()).count();
        let named = inside.iter().filter(|row| row.label == *label).count();
        let taken = inside.iter().filter(|row| row.spec == *label).count();
        sum += share(2 * right, named + taken);
    }
    if labels.is_empty() { 0.0 } else { sum / labels.len() as f64 }
}
