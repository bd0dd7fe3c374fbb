//! `google.protobuf.Struct`, `Value` and `ListValue` as the JSON that they stand for.

use prost::encoding;
use prost_reflect::{DynamicMessage, ReflectMessage, Value as Field};
use serde_json::{Map, Number, Value};

use super::{depth_is_within, describe};
use crate::path::Path;
use crate::violation::Violations;

/// Each level of JSON is three of protobuf, which are decoded to a depth of 100.
const MAX_DEPTH: usize = 30;

const STRUCT: &str = "google.protobuf.Struct";
const VALUE: &str = "google.protobuf.Value";
const LIST: &str = "google.protobuf.ListValue";

pub fn is(full_name: &str) -> bool {
    matches!(full_name, STRUCT | VALUE | LIST)
}

/// Appends the encoding of the message to `out`.
pub fn read(full_name: &str, value: &Value, path: &Path<'_>, violations: &mut Violations, out: &mut Vec<u8>) {
    let expected = match (full_name, value) {
        (STRUCT, Value::Object(_)) | (LIST, Value::Array(_)) | (VALUE, _) => None,
        (STRUCT, _) => Some("an object"),
        (_, _) => Some("a list"),
    };
    if let Some(expected) = expected {
        violations.push(path, "type", format!("expected {expected}, found {}", describe(value)));
    } else if !depth_is_within(value, MAX_DEPTH) {
        violations.push(
            path,
            "depth",
            format!("a JSON value is nested at most {MAX_DEPTH} levels deep here"),
        );
    } else if full_name == VALUE {
        write_value(value, out);
    } else {
        write_content(value, out);
    }
}

/// Fields of `Value`.
mod kind {
    pub const NULL: u32 = 1;
    pub const NUMBER: u32 = 2;
    pub const TEXT: u32 = 3;
    pub const BOOL: u32 = 4;
    pub const STRUCT: u32 = 5;
    pub const LIST: u32 = 6;
}

/// The one field of `Struct` and of `ListValue`, and the fields of the entries of the former.
const CONTENT: u32 = 1;
const ENTRY_KEY: u32 = 1;
const ENTRY_VALUE: u32 = 2;

fn write_value(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => encoding::int32::encode(kind::NULL, &0, out),
        Value::Bool(value) => encoding::bool::encode(kind::BOOL, value, out),
        Value::Number(number) => {
            encoding::double::encode(kind::NUMBER, &number.as_f64().unwrap_or_default(), out);
        }
        Value::String(text) => encoding::string::encode(kind::TEXT, text, out),
        Value::Object(_) => write_nested(kind::STRUCT, value, write_content, out),
        Value::Array(_) => write_nested(kind::LIST, value, write_content, out),
    }
}

/// The content of a `Struct` or `ListValue`.
fn write_content(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Object(object) => {
            for (key, item) in object {
                let mut entry = Vec::new();
                encoding::string::encode(ENTRY_KEY, key, &mut entry);
                write_nested(ENTRY_VALUE, item, write_value, &mut entry);
                encoding::bytes::encode(CONTENT, &entry, out);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| write_nested(CONTENT, item, write_value, out)),
        _ => {}
    }
}

fn write_nested(number: u32, value: &Value, write: fn(&Value, &mut Vec<u8>), out: &mut Vec<u8>) {
    let mut inner = Vec::new();
    write(value, &mut inner);
    encoding::bytes::encode(number, &inner, out);
}

pub fn print(message: &DynamicMessage) -> Value {
    match message.descriptor().full_name() {
        STRUCT | LIST => {
            message.get_field_by_number(CONTENT).map_or(Value::Null, |content| print_field(&content))
        }
        _ => message.fields().next().map_or(Value::Null, |(_, field)| print_field(field)),
    }
}

fn print_field(field: &Field) -> Value {
    match field {
        Field::Bool(value) => Value::Bool(*value),
        Field::F64(number) => print_number(*number),
        Field::String(text) => Value::String(text.clone()),
        Field::Message(message) => print(message),
        Field::List(items) => items.iter().map(print_field).collect(),
        Field::Map(entries) => Value::Object(
            entries
                .iter()
                .filter_map(|(key, item)| Some((key.as_str()?.to_owned(), print_field(item))))
                .collect::<Map<_, _>>(),
        ),
        _ => Value::Null,
    }
}

/// Whole numbers that a double holds exactly are printed as integers.
fn print_number(number: f64) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() <= EXACT {
        #[expect(clippy::cast_possible_truncation, reason = "whole and within ±2^53")]
        return Value::from(number as i64);
    }
    Number::from_f64(number).map_or(Value::Null, Value::Number)
}

#[cfg(test)]
mod tests {
    use prost_reflect::MessageDescriptor;
    use serde_json::json;

    use super::*;

    fn written(descriptor: &MessageDescriptor, value: &Value) -> Result<DynamicMessage, &'static str> {
        let mut violations = Violations::default();
        let mut bytes = Vec::new();
        read(descriptor.full_name(), value, &Path::Root, &mut violations, &mut bytes);
        match violations.into_vec().first() {
            Some(violation) => Err(violation.rule),
            None => DynamicMessage::decode(descriptor.clone(), bytes.as_slice()).map_err(|_| "decode"),
        }
    }

    #[track_caller]
    fn check(descriptor: &MessageDescriptor, value: &Value) {
        assert_eq!(written(descriptor, value).map(|message| print(&message)).as_ref(), Ok(value));
    }

    #[test]
    fn natural_json() {
        let descriptor = prost_types::Value::default().descriptor();
        for value in [
            json!(null),
            json!(true),
            json!(-7),
            json!(0.5),
            json!(1e300),
            json!("x"),
            json!([]),
            json!({"a": [1, {"b": null}]}),
        ] {
            check(&descriptor, &value);
        }
        check(&prost_types::Struct::default().descriptor(), &json!({"a": {"b": [1, 2.5]}, "c": ""}));
        check(&prost_types::ListValue::default().descriptor(), &json!([1, "two", [3], {}]));
    }

    #[test]
    fn another_type() {
        let rule = |descriptor, value| written(&descriptor, &value).err();
        assert_eq!(rule(prost_types::Struct::default().descriptor(), json!([1])), Some("type"));
        assert_eq!(rule(prost_types::ListValue::default().descriptor(), json!({})), Some("type"));
    }

    #[test]
    fn what_is_not_too_deep_can_be_decoded() {
        let descriptor = prost_types::Struct::default().descriptor();
        let nested = |levels: usize| (1..levels).fold(json!({}), |inner, _| json!({ "a": inner }));
        check(&descriptor, &nested(MAX_DEPTH));
        assert_eq!(written(&descriptor, &nested(MAX_DEPTH + 1)), Err("depth"));
    }
}
