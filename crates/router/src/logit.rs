//! Logits as whole numbers.
//!
//! Every term of a score is a multiple of one unit. Whole numbers have the same sum in any order, and a term that is
//! divided among words is the sum of its parts to the last bit, so that explanations are exact.

/// Logits in units of 2^-[`FRACTION_BITS`].
pub(crate) type Logit = i64;

pub(crate) const FRACTION_BITS: u32 = 20;

const UNIT: f64 = (1_u64 << FRACTION_BITS) as f64;

pub(crate) fn logits(value: f64) -> Logit {
    (value * UNIT).round() as Logit
}

/// Converts a logit to a number of floating point, exactly: no sum of terms comes near 2^53 units.
pub(crate) fn number(logit: Logit) -> f64 {
    logit as f64 / UNIT
}
