//! The weight of a feature in a text, by its frequency in the text, its rarity and its kind.

/// The weight of a feature that occurs `count` times. It grows slowly: the tenth occurrence adds little to the ninth.
pub(crate) fn frequency(count: u16) -> f32 {
    if count <= 1 { 1.0 } else { 1.0 + f32::from(count).ln() }
}

/// The weight of a feature that occurs in `documents` of `all` documents.
pub(crate) fn rarity(documents: u32, all: usize) -> f32 {
    ((1.0 + all as f32) / (1.0 + documents as f32)).ln() + 1.0
}

/// Computes `e^x` for finite `x`, to seven digits, with plain additions and multiplications. The bits are the same on
/// every machine, and the compiler can vectorise the function.
#[inline]
pub(crate) fn exponential(x: f32) -> f32 {
    const MAGIC: f32 = 12_582_912.0;
    let x = x.clamp(-87.0, 87.0) * std::f32::consts::LOG2_E;
    // Adding and subtracting 1.5 · 2^23 rounds to a whole number.
    let whole = (x + MAGIC) - MAGIC;
    let part = (x - whole) * std::f32::consts::LN_2;
    let polynomial = 1.0
        + part
            * (1.0
                + part
                    * (0.5
                        + part
                            * (0.166_666_67
                                + part * (0.041_666_67 + part * (0.008_333_34 + part * 0.001_39)))));
    let power = f32::from_bits(((whole as i32 + 127) as u32) << 23);
    polynomial * power
}

#[cfg(test)]
mod tests {
    use super::exponential;

    #[test]
    fn the_exponential_is_right_to_six_digits() {
        for step in -800..=800 {
            let x = step as f32 / 10.0;
            let expected = f64::from(x).exp();
            let error = (f64::from(exponential(x)) - expected).abs() / expected;
            assert!(error < 1e-5, "{x}: {error}");
        }
        assert!(exponential(f32::MAX).is_finite() && exponential(f32::MIN) >= 0.0);
    }
}
