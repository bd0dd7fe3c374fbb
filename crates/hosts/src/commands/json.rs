//! Whether bytes are one JSON value, without building it.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// The value in `bytes` without the white space around it; `null` where there is nothing else.
///
/// What passes here can be read as a value later: nesting, numbers and escapes are checked as if it were built, but
/// memory is not spent on it.
///
/// # Errors
/// The bytes are not exactly one JSON value.
pub(super) fn one_value(bytes: &[u8]) -> Result<&[u8], serde_json::Error> {
    let trimmed = bytes.trim_ascii();
    if trimmed.is_empty() {
        return Ok(b"null");
    }
    let text = std::str::from_utf8(trimmed).map_err(serde_json::Error::custom)?;
    serde_json::from_str::<Checked>(text)?;
    Ok(trimmed)
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
        while entries.next_entry::<Self, Self>()?.is_some() {}
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::one_value;

    #[track_caller]
    fn check(bytes: &[u8], expected: Option<&[u8]>) {
        assert_eq!(one_value(bytes).ok(), expected);
    }

    #[test]
    fn exactly_what_can_be_read_as_a_value_passes() {
        check(b"", Some(b"null"));
        check(b" \n", Some(b"null"));
        check(
            b" {\"a\": [1, -2, 3.5, \"x\", true, null]}\n",
            Some(b"{\"a\": [1, -2, 3.5, \"x\", true, null]}"),
        );
        check(b"1 2", None);
        check(b"{", None);
        check(b"1e999", None);
        check(b"\"\\ud800\"", None);
        check(b"\"\xff\"", None);
        check("[".repeat(1000).as_bytes(), None);
    }
}
