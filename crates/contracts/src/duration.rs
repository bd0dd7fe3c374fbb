//! Durations as people write them: `90s`, `1h 30m`, `250ms`, `1.5s`.
//!
//! Units are `d`, `h`, `m` (or `min`), `s` and `ms`, from the longest to the shortest, each at most once. A fraction is
//! allowed where it comes to whole milliseconds. A number without a unit is refused: nobody can know what was meant.

use thiserror::Error;

/// Milliseconds of each unit, longest first.
const UNITS: [(&str, i64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Why a text is not a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DurationError {
    #[error("a duration is written like \"90s\", \"1h 30m\" or \"250ms\"")]
    Syntax,
    #[error("a unit is missing; write d, h, m, s or ms after each number")]
    NoUnit,
    #[error("there is no such unit; use d, h, m, s or ms")]
    UnknownUnit,
    #[error("units go from the longest to the shortest, each at most once")]
    Order,
    #[error("a duration cannot be negative")]
    Negative,
    #[error("a duration comes in whole milliseconds")]
    BelowMillisecond,
    #[error("the duration is too long")]
    Overflow,
}

/// The milliseconds that `text` names.
///
/// # Errors
/// `text` is not a duration with units, or one that milliseconds in an `i64` cannot hold.
pub fn parse(text: &str) -> Result<i64, DurationError> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(DurationError::Syntax);
    }
    let mut total: i64 = 0;
    let mut previous = i64::MAX;
    while !rest.is_empty() {
        let (amount, after) = Amount::read(rest)?;
        let (unit, after) = read_unit(after.trim_start())?;
        if unit >= previous {
            return Err(DurationError::Order);
        }
        previous = unit;
        total = total.checked_add(amount.times(unit)?).ok_or(DurationError::Overflow)?;
        rest = after.trim_start();
    }
    Ok(total)
}

/// `ms` with units, so that [`parse`] gives it back: `1h 30m`. Negative durations, which no contract has, show as zero.
pub fn format(ms: i64) -> String {
    let mut rest = ms.max(0);
    let mut parts = Vec::new();
    for (name, unit) in UNITS {
        if rest >= unit {
            parts.push(format!("{}{name}", rest / unit));
            rest %= unit;
        }
    }
    if parts.is_empty() { "0s".to_owned() } else { parts.join(" ") }
}

/// A decimal number: `digits / 10^decimals`.
struct Amount {
    digits: i128,
    decimals: u32,
}

impl Amount {
    /// More digits than any duration needs; 10^27 times a day still fits an `i128`.
    const MOST_DIGITS: usize = 27;

    fn read(text: &str) -> Result<(Self, &str), DurationError> {
        if text.starts_with('-') {
            return Err(DurationError::Negative);
        }
        let (whole, rest) = split_digits(text);
        if whole.is_empty() {
            return Err(DurationError::Syntax);
        }
        let (fraction, rest) = match rest.strip_prefix('.').map(split_digits) {
            Some(("", _)) => return Err(DurationError::Syntax),
            Some(split) => split,
            None => ("", rest),
        };
        let fraction = fraction.trim_end_matches('0');
        if whole.len() + fraction.len() > Self::MOST_DIGITS {
            return Err(DurationError::Overflow);
        }
        let mut digits: i128 = 0;
        for digit in whole.bytes().chain(fraction.bytes()) {
            digits = digits * 10 + i128::from(digit - b'0');
        }
        Ok((Self { digits, decimals: u32::try_from(fraction.len()).unwrap_or(u32::MAX) }, rest))
    }

    fn times(&self, unit: i64) -> Result<i64, DurationError> {
        let scale = 10_i128.checked_pow(self.decimals).ok_or(DurationError::Overflow)?;
        let product = self.digits.checked_mul(i128::from(unit)).ok_or(DurationError::Overflow)?;
        if product % scale != 0 {
            return Err(DurationError::BelowMillisecond);
        }
        i64::try_from(product / scale).map_err(|_| DurationError::Overflow)
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

fn read_unit(text: &str) -> Result<(i64, &str), DurationError> {
    let end = text.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    if name.is_empty() {
        // "90", "1 30s": a number follows the number; "5 %": something else does.
        let missing = text.is_empty() || text.starts_with(|c: char| c.is_ascii_digit());
        return Err(if missing { DurationError::NoUnit } else { DurationError::UnknownUnit });
    }
    let name = if name == "min" { "m" } else { name };
    UNITS
        .iter()
        .find(|(unit, _)| *unit == name)
        .map(|(_, milliseconds)| (*milliseconds, rest))
        .ok_or(DurationError::UnknownUnit)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<i64, DurationError>) {
        assert_eq!(parse(text), expected, "{text:?}");
    }

    #[test]
    fn durations_with_units() {
        check("90s", Ok(90_000));
        check("1h 30m", Ok(5_400_000));
        check("1h30m", Ok(5_400_000));
        check("250ms", Ok(250));
        check("1.5s", Ok(1_500));
        check("0.0010s", Ok(1));
        check("2 min", Ok(120_000));
        check("  1d 1ms ", Ok(86_400_001));
        check("0s", Ok(0));
        check("9223372036854775807ms", Ok(i64::MAX));
    }

    #[test]
    fn refused_durations() {
        use DurationError::*;
        check("", Err(Syntax));
        check("  ", Err(Syntax));
        check("90", Err(NoUnit));
        check("1h 30", Err(NoUnit));
        check("1 2s", Err(NoUnit));
        check("-5s", Err(Negative));
        check("1h -5s", Err(Negative));
        check("0.5ms", Err(BelowMillisecond));
        check("0.0001s", Err(BelowMillisecond));
        check("5 weeks", Err(UnknownUnit));
        check("5S", Err(UnknownUnit));
        check("5µs", Err(UnknownUnit));
        check("5%", Err(UnknownUnit));
        check("s", Err(Syntax));
        check(".5s", Err(Syntax));
        check("5.s", Err(Syntax));
        check("1e3s", Err(UnknownUnit));
        check("30m 1h", Err(Order));
        check("1s 1s", Err(Order));
        check("1m 1min", Err(Order));
        check("9223372036854775808ms", Err(Overflow));
        check("106751991168d", Err(Overflow));
        check(&format!("{}s", "9".repeat(10_000)), Err(Overflow));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(ms in prop_oneof![0..i64::MAX, 0..100_000_000_i64]) {
            prop_assert_eq!(parse(&format(ms)), Ok(ms));
        }

        #[test]
        fn any_text_is_answered(text in ".{0,40}") {
            let _ = parse(&text);
        }

        #[test]
        fn near_durations_are_answered(text in "[-0-9. dhmsin]{0,40}") {
            if let Ok(ms) = parse(&text) {
                prop_assert!(ms >= 0);
                prop_assert_eq!(parse(&format(ms)), Ok(ms));
            }
        }
    }
}
