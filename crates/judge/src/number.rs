//! Numbers as JSON means them: 1 and 1.0 are the same number, and decimal fractions are what they look like.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde_json::{Number, Value};

/// Steps of a judgement that it takes to print a double and to read its digits.
const PRINTED: u64 = 4;

/// Compares two numbers by what they are, however they were written.
pub(crate) fn compare(one: &Number, other: &Number) -> Ordering {
    match (integer(one), integer(other)) {
        (Some(one), Some(other)) => one.cmp(&other),
        // A fraction is below 2^53, where doubles hold every integer; what is not an integer here and is larger is beyond
        // all integers.
        _ => double(one).total_cmp(&double(other)),
    }
}

/// Whether two values are the same: numbers by what they are, objects whatever the order of their keys.
#[must_use]
pub fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => compare(one, other) == Ordering::Equal,
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let is_there =
                |(key, one): (&String, &Value)| other.get(key).is_some_and(|other| same(one, other));
            one.len() == other.len() && one.iter().all(is_there)
        }
        (one, other) => one == other,
    }
}

/// A text that is the same for the same values and for no others.
pub(crate) fn canonical(value: &Value, text: &mut String) {
    match value {
        Value::Number(number) => match integer(number) {
            Some(integer) => text.push_str(&integer.to_string()),
            None => text.push_str(&format!("{:e}", double(number))),
        },
        Value::Array(items) => {
            text.push('[');
            for item in items {
                canonical(item, text);
                text.push(',');
            }
            text.push(']');
        }
        Value::Object(object) => {
            text.push('{');
            for (key, item) in object.iter().collect::<BTreeMap<_, _>>() {
                text.push_str(&Value::String(key.clone()).to_string());
                text.push(':');
                canonical(item, text);
                text.push(',');
            }
            text.push('}');
        }
        Value::Null | Value::Bool(_) | Value::String(_) => text.push_str(&value.to_string()),
    }
}

/// The integer that the number is, also where it was written as a fraction without one.
pub(crate) fn integer(number: &Number) -> Option<i128> {
    if let Some(integer) = number.as_i64() {
        return Some(integer.into());
    }
    if let Some(integer) = number.as_u64() {
        return Some(integer.into());
    }
    let double = double(number);
    // Beyond this nearly every double is an integer, and none of them fits.
    let fits = double.fract() == 0.0 && double.abs() < 1e38;
    #[expect(clippy::cast_possible_truncation, reason = "it is an integer, and small enough")]
    let integer = double as i128;
    fits.then_some(integer)
}

/// Whether the number is an integer.
pub(crate) fn is_integer(number: &Number) -> bool {
    number.is_i64() || number.is_u64() || double(number).fract() == 0.0
}

/// What it costs to find out whether one is a multiple of the other: the decimals between their units, which
/// [`is_multiple`] goes through one by one, and the digits of those that were read as doubles, which have to be printed.
pub(crate) fn multiple_cost(number: &Number, of: &Number) -> u64 {
    let printed = |number: &Number| if number.is_f64() { PRINTED } else { 0 };
    let between = match (Decimal::of(number), Decimal::of(of)) {
        (Some(number), Some(of)) => number.exponent.abs_diff(of.exponent).into(),
        _ => 0,
    };
    printed(number) + printed(of) + between
}

/// Whether `number` is a multiple of `of`, both taken as the decimal fractions that they print as.
pub(crate) fn is_multiple(number: &Number, of: &Number) -> bool {
    let (Some(number), Some(of)) = (Decimal::of(number), Decimal::of(of)) else { return false };
    if number.digits == 0 {
        return true;
    }
    if of.digits == 0 {
        return false;
    }
    let (modulus, mut rest) = match number.exponent - of.exponent {
        // The divisor in the unit of the number, which has more decimals.
        shift if shift < 0 => {
            let factor = u32::try_from(-shift).ok().and_then(|shift| 10u128.checked_pow(shift));
            match factor.and_then(|factor| of.digits.checked_mul(factor)) {
                Some(modulus) => return number.digits.checked_rem(modulus) == Some(0),
                // It is larger than the number, which is not 0.
                None => return false,
            }
        }
        shift => (of.digits, (number.digits.checked_rem(of.digits), shift)),
    };
    // What is left is below the divisor, which has 64 bits at most.
    while rest.1 > 0 && rest.0 != Some(0) {
        rest.0 = rest.0.and_then(|value| value.checked_mul(10)?.checked_rem(modulus));
        rest.1 -= 1;
    }
    rest.0 == Some(0)
}

/// A number as digits and a power of ten; whether it is negative does not matter for multiples.
struct Decimal {
    digits: u128,
    exponent: i32,
}

impl Decimal {
    fn of(number: &Number) -> Option<Self> {
        if let Some(integer) = number.as_i64() {
            return Some(Self { digits: integer.unsigned_abs().into(), exponent: 0 });
        }
        if let Some(integer) = number.as_u64() {
            return Some(Self { digits: integer.into(), exponent: 0 });
        }
        // The shortest digits that read back as the same double: `7.5e-3`.
        let printed = format!("{:e}", double(number).abs());
        let (mantissa, exponent) = printed.split_once('e')?;
        let decimals = mantissa.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        let digits = mantissa.replace('.', "").parse().ok()?;
        let exponent = exponent.parse::<i32>().ok()?.checked_sub(i32::try_from(decimals).ok()?)?;
        Some(Self { digits, exponent })
    }
}

fn double(number: &Number) -> f64 {
    number.as_f64().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Number {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn multiples_are_those_of_the_decimals_that_were_written() {
        for (multiple, of) in [
            ("10", "2"),
            ("4.5", "1.5"),
            ("0.0075", "0.0001"),
            ("0.3", "0.1"),
            ("1e308", "2"),
            ("1e308", "1e-308"),
            ("-9223372036854775808", "2"),
            ("18446744073709551615", "5"),
            ("0", "0.01"),
        ] {
            assert!(is_multiple(&number(multiple), &number(of)), "{multiple} of {of}");
        }
        for (other, of) in [
            ("7", "2"),
            ("35", "1.5e-7"),
            ("0.00751", "0.0001"),
            ("1e-308", "1e308"),
            ("1", "0.3"),
            ("1e308", "7"),
        ] {
            assert!(!is_multiple(&number(other), &number(of)), "{other} of {of}");
        }
    }

    #[test]
    fn a_multiple_costs_its_decimals_and_its_doubles() {
        for (one, of, expected) in [("8", "7", 0), ("1.5", "0.25", 9), ("1e308", "7", 312), ("1", "0.001", 7)]
        {
            assert_eq!(multiple_cost(&number(one), &number(of)), expected, "{one} of {of}");
        }
    }

    #[test]
    fn numbers_are_the_same_however_they_are_written() {
        for (one, other, expected) in [
            ("1", "1.0", Ordering::Equal),
            ("18446744073709551615", "18446744073709551614", Ordering::Greater),
            ("9007199254740993", "9007199254740992.0", Ordering::Greater),
            ("1.5", "2", Ordering::Less),
            ("-1e300", "1", Ordering::Less),
        ] {
            assert_eq!(compare(&number(one), &number(other)), expected, "{one} {other}");
        }
    }
}
