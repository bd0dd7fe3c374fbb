//! Weights of one byte each, with one factor for each row.

use super::train::{LANES, Trained};
use crate::logit::{FRACTION_BITS, Logit};

/// The greatest byte that is used, so that a weight and its negative are equally exact.
const GREATEST: f32 = 127.0;

/// A table of features by classes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Weights {
    stride: usize,
    weights: Vec<i8>,
    /// By row: what one unit of a byte is, in logits.
    factors: Vec<f32>,
    /// Coefficients, and so accumulated scores, are in units of two to the power of minus this.
    bits: u32,
}

impl Weights {
    pub(crate) fn new(trained: &Trained) -> Self {
        let mut weights = Vec::with_capacity(trained.weights.len());
        let mut factors = Vec::with_capacity(trained.features.len());
        let mut greatest_factor = 0.0_f32;
        for row in trained.weights.chunks_exact(trained.stride.max(LANES)) {
            let greatest = row.iter().fold(0.0_f32, |greatest, weight| greatest.max(weight.abs()));
            let factor = greatest / GREATEST;
            greatest_factor = greatest_factor.max(factor);
            factors.push(factor);
            let scale = if factor > 0.0 { 1.0 / factor } else { 0.0 };
            weights.extend(row.iter().map(|weight| (weight * scale).round() as i8));
        }
        let mut bits = FRACTION_BITS;
        while bits > 0 && greatest_factor * (1_u32 << bits) as f32 > f32::from(i16::MAX) {
            bits -= 1;
        }
        Self { stride: trained.stride, weights, factors, bits }
    }

    pub(crate) fn stride(&self) -> usize {
        self.stride
    }

    /// A feature's value in a text, from 0 to 1, times the factor of its row.
    pub(crate) fn coefficient(&self, row: u32, value: f32) -> i16 {
        let factor = self.factors.get(row as usize).copied().unwrap_or_default();
        (factor * value * (1_u32 << self.bits) as f32 + 0.5) as i16
    }

    /// Adds one feature's contribution to every class's score.
    pub(crate) fn add(&self, row: u32, coefficient: i16, scores: &mut [i32]) {
        let start = row as usize * self.stride;
        let Some(weights) = self.weights.get(start..start + self.stride) else { return };
        for (scores, weights) in scores.chunks_exact_mut(LANES).zip(weights.chunks_exact(LANES)) {
            for (score, weight) in scores.iter_mut().zip(weights) {
                *score += i32::from(*weight) * i32::from(coefficient);
            }
        }
    }

    /// One feature's contribution to one class, the same that `add` adds.
    pub(crate) fn contribution(&self, row: u32, coefficient: i16, class: usize) -> Logit {
        let weight = self.weights.get(row as usize * self.stride + class).copied().unwrap_or_default();
        self.logit(i32::from(weight) * i32::from(coefficient))
    }

    pub(crate) fn logit(&self, score: i32) -> Logit {
        Logit::from(score) << (FRACTION_BITS - self.bits)
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.weights.len() + self.factors.len() * size_of::<f32>()
    }
}
