//! Whether bytes are one JSON value, without building it.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Checks that the bytes are exactly one JSON value. What passes can be read as a [`serde_json::Value`] later: UTF-8,
/// nesting, numbers and escapes are checked as if it were built, which `serde::de::IgnoredAny` does not do, but no memory
/// is spent on it.
///
/// # Errors
/// What is wrong with the bytes, with line and column.
pub fn well_formed(bytes: &[u8]) -> Result<(), serde_json::Error> {
    serde_json::from_slice::<Checked>(bytes).map(|Checked| ())
}

struct Checked;

impl<'de> Deserialize<'de> for Checked {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for Checked {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self, A::Error> {
        while items.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self, A::Error> {
        while entries.next_entry::<Key, Self>()?.is_some() {}
        Ok(self)
    }
}

/// A key that `serde_json` keeps for itself: an object that begins with it is no `Value`, where the feature `raw_value` is
/// on anywhere in the program.
const RESERVED: &str = "$serde_json::private::RawValue";

struct Key;

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Self)
    }
}

impl Visitor<'_> for Key {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Self, E> {
        if key == RESERVED { Err(E::custom(format_args!("the key {key:?} is reserved"))) } else { Ok(self) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_what_can_be_read_as_a_value_passes() {
        #[track_caller]
        fn check(bytes: &[u8], expected: bool) {
            assert_eq!(well_formed(bytes).is_ok(), expected);
            assert_eq!(serde_json::from_slice::<serde_json::Value>(bytes).is_ok(), expected);
        }
        check(b" {\"a\": [1, -2, 3.5, \"x\\n\", true, null, {}], \"a\": []}\n", true);
        check(b"18446744073709551616", true);
        check(b"", false);
        check(b"1 2", false);
        check(b"{", false);
        check(b"[1e999]", false);
        check(b"\"\\ud800\"", false);
        check(b"{\"\\ud800\": 1}", false);
        check(b"\"\xff\"", false);
        check(b"{\"\xff\": 1}", false);
        check("[".repeat(1000).as_bytes(), false);
        check(format!("{}1{}", "{\"a\":".repeat(200), "}".repeat(200)).as_bytes(), false);
        check(format!("{}1{}", "{\"a\":".repeat(100), "}".repeat(100)).as_bytes(), true);
    }

    #[test]
    fn a_key_of_the_library_is_refused_wherever_it_stands() {
        for text in [
            "{\"$serde_json::private::RawValue\": \"1\"}",
            "[{\"a\": 1, \"$serde_json::private::RawValue\": 1}]",
        ] {
            assert!(well_formed(text.as_bytes()).is_err(), "{text}");
        }
    }
}
