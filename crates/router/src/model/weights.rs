//! Weights of one byte each, with one factor for each row.

use super::train::{LANES, Trained};
use crate::logit::{FRACTION_BITS, Logit};

/// The greatest absolute value of a byte, so that a weight and its negative are equally exact.
const GREATEST: f32 = 127.0;

/// A bound for the sums over a text's features, except for rounding. Scores have 16 bits; the rest of the range is for
/// rounding errors, which are below one for each feature.
const GREATEST_SUM: f32 = 24_000.0;

/// The number of bits by which a product of weight and coefficient exceeds a score.
const PRODUCT_BITS: u32 = 8;

/// A table of features by classes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Weights {
    stride: usize,
    weights: Vec<i8>,
    /// For each row, the logits of one unit of a byte.
    factors: Vec<f32>,
    /// The unit of scores is two to the power of minus this number.
    bits: u32,
}

impl Weights {
    pub(crate) fn new(trained: &Trained) -> Self {
        let mut weights = Vec::with_capacity(trained.weights.len());
        let mut factors = Vec::with_capacity(trained.features.len());
        let mut squares = vec![0.0_f32; trained.stride];
        let mut greatest_factor = 0.0_f32;
        for row in trained.weights.chunks_exact(trained.stride.max(LANES)) {
            let greatest = row.iter().fold(0.0_f32, |greatest, weight| greatest.max(weight.abs()));
            let factor = greatest / GREATEST;
            greatest_factor = greatest_factor.max(factor);
            factors.push(factor);
            let scale = if factor > 0.0 { 1.0 / factor } else { 0.0 };
            weights.extend(row.iter().map(|weight| (weight * scale).round() as i8));
            for (square, weight) in squares.iter_mut().zip(row) {
                *square += weight * weight;
            }
        }
        // A text has a length of at most one, so that no score of a class exceeds the length of its weights.
        let longest = squares.iter().fold(0.0_f32, |longest, square| longest.max(*square)).sqrt();
        let mut bits = FRACTION_BITS;
        while bits > 0
            && (longest * (1_u32 << bits) as f32 > GREATEST_SUM
                || greatest_factor * (1_u32 << (bits + PRODUCT_BITS)) as f32 > f32::from(i16::MAX))
        {
            bits -= 1;
        }
        Self { stride: trained.stride, weights, factors, bits }
    }

    pub(crate) fn stride(&self) -> usize {
        self.stride
    }

    /// The value of a feature in a text, from 0 to 1, times the factor of its row.
    pub(crate) fn coefficient(&self, row: u32, value: f32) -> i16 {
        let factor = self.factors.get(row as usize).copied().unwrap_or_default();
        (factor * value * (1_u32 << (self.bits + PRODUCT_BITS)) as f32 + 0.5) as i16
    }

    /// Computes the score of every class: the sum of the rows' contributions with their coefficients.
    ///
    /// A few classes are processed at a time, so that their sums stay in registers.
    pub(crate) fn sum(&self, rows: &[(u32, i16)], scores: &mut Vec<i16>) {
        scores.clear();
        let (blocks, _) = self.weights.as_chunks::<LANES>();
        let blocks_of_row = self.stride / LANES;
        for block in 0..blocks_of_row {
            let mut sums = [0_i16; LANES];
            for (row, coefficient) in rows {
                let Some(weights) = blocks.get(*row as usize * blocks_of_row + block) else { continue };
                for (sum, weight) in sums.iter_mut().zip(weights) {
                    *sum = sum.wrapping_add(product(*weight, *coefficient));
                }
            }
            scores.extend_from_slice(&sums);
        }
    }

    /// The contribution of one feature to one class, the same value that `sum` adds.
    pub(crate) fn contribution(&self, row: u32, coefficient: i16, class: usize) -> Logit {
        let weight = self.weights.get(row as usize * self.stride + class).copied().unwrap_or_default();
        self.logit(product(weight, coefficient))
    }

    pub(crate) fn logit(&self, score: i16) -> Logit {
        Logit::from(score) << (FRACTION_BITS - self.bits)
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.weights.len() + self.factors.len() * size_of::<f32>()
    }
}

/// The upper half of a product of 16 by 16 bits. Any 64-bit machine computes eight at once with one instruction.
#[inline(always)]
fn product(weight: i8, coefficient: i16) -> i16 {
    let wide = i32::from(i16::from(weight) << 8) * i32::from(coefficient);
    (wide >> 16) as i16
}
