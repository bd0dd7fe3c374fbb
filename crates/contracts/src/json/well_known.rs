//! `google.protobuf.Struct`, `Value` and `ListValue` as the JSON that they stand for.

use prost_reflect::{DynamicMessage, Kind, MapKey, MessageDescriptor, Value as Field};
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

pub fn read(
    descriptor: &MessageDescriptor,
    value: &Value,
    path: &Path<'_>,
    violations: &mut Violations,
) -> Option<DynamicMessage> {
    let expected = match (descriptor.full_name(), value) {
        (STRUCT, Value::Object(_)) | (LIST, Value::Array(_)) | (VALUE, _) => None,
        (STRUCT, _) => Some("an object"),
        (_, _) => Some("a list"),
    };
    if let Some(expected) = expected {
        violations.push(path, "type", format!("expected {expected}, found {}", describe(value)));
        return None;
    }
    if !depth_is_within(value, MAX_DEPTH) {
        violations.push(
            path,
            "depth",
            format!("a JSON value is nested at most {MAX_DEPTH} levels deep here"),
        );
        return None;
    }
    build(descriptor, value)
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

/// The one field of `Struct` and of `ListValue`.
const CONTENT: u32 = 1;

fn build(descriptor: &MessageDescriptor, value: &Value) -> Option<DynamicMessage> {
    let mut message = DynamicMessage::new(descriptor.clone());
    let (number, field) = match (descriptor.full_name(), value) {
        (STRUCT, Value::Object(object)) => {
            let Kind::Message(entry) = descriptor.get_field(CONTENT)?.kind() else { return None };
            let Kind::Message(inner) = entry.map_entry_value_field().kind() else { return None };
            let entries = object
                .iter()
                .map(|(key, item)| Some((MapKey::String(key.clone()), Field::Message(build(&inner, item)?))))
                .collect::<Option<_>>()?;
            (CONTENT, Field::Map(entries))
        }
        (LIST, Value::Array(items)) => {
            let Kind::Message(inner) = descriptor.get_field(CONTENT)?.kind() else { return None };
            let items = items.iter().map(|item| build(&inner, item).map(Field::Message));
            (CONTENT, Field::List(items.collect::<Option<_>>()?))
        }
        (_, Value::Null) => (kind::NULL, Field::EnumNumber(0)),
        (_, Value::Bool(value)) => (kind::BOOL, Field::Bool(*value)),
        (_, Value::Number(number)) => (kind::NUMBER, Field::F64(number.as_f64()?)),
        (_, Value::String(text)) => (kind::TEXT, Field::String(text.clone())),
        (_, Value::Object(_)) => (kind::STRUCT, nested(descriptor, kind::STRUCT, value)?),
        (_, Value::Array(_)) => (kind::LIST, nested(descriptor, kind::LIST, value)?),
    };
    message.set_field_by_number(number, field);
    Some(message)
}

fn nested(descriptor: &MessageDescriptor, number: u32, value: &Value) -> Option<Field> {
    let Kind::Message(inner) = descriptor.get_field(number)?.kind() else { return None };
    build(&inner, value).map(Field::Message)
}

pub fn print(message: &DynamicMessage) -> Value {
    use prost_reflect::ReflectMessage;
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
