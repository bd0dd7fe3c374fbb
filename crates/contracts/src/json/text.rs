//! JSON text to a value, refusing what `serde_json` lets pass: a key that is written twice.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::Violation;

/// Reads one JSON value.
///
/// # Errors
/// Rule `syntax`: not JSON, not UTF-8, a key that is written twice, or nested deeper than 127 levels; the message names
/// line and column.
pub fn from_slice(bytes: &[u8]) -> Result<Value, Violation> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let offset = error.valid_up_to();
        Violation::new("", "syntax", format!("not UTF-8: byte {offset} is not part of a character"))
    })?;
    from_str(text)
}

/// Reads one JSON value.
///
/// # Errors
/// As [`from_slice`].
pub fn from_str(text: &str) -> Result<Value, Violation> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let Strict(value) =
        serde_json::from_str(text).map_err(|error| Violation::new("", "syntax", error.to_string()))?;
    Ok(value)
}

/// The keys by which the JSON reader tells itself of numbers and of texts that were not read.
const RESERVED: &str = "$serde_json::private::";

struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Strict)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(Strict(item)) = sequence.next_element()? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            // A reader that is built with other features takes such an object for something else.
            if key.starts_with(RESERVED) {
                return Err(A::Error::custom(format_args!("the key `{key}` is reserved")));
            }
            if object.contains_key(&key) {
                let shown = crate::path::shown(&key);
                return Err(A::Error::custom(format_args!("the key `{shown}` is written twice")));
            }
            let Strict(value) = entries.next_value()?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}
