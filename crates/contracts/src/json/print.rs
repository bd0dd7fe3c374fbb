//! Message to JSON. Depth is bounded by that of the bytes that the message was decoded from.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use prost_reflect::{DynamicMessage, MapKey, Value as Field};
use serde_json::{Map, Number, Value};

use super::schema::{FieldShape, MessageShape, Schema, Shape};
use super::{payload, well_known};

pub fn message(schema: &Schema, shape: &MessageShape, message: &DynamicMessage) -> Value {
    match shape.descriptor.full_name() {
        payload::FULL_NAME => return payload::print(message),
        name if well_known::is(name) => return well_known::print(message),
        _ => {}
    }
    if shape.is_list {
        let items = shape.fields.first();
        return items
            .map_or(Value::Null, |items| field(schema, items, &message.get_field(&items.descriptor)));
    }
    let mut object = Map::new();
    for field in &shape.fields {
        if field.always || message.has_field(&field.descriptor) {
            let value: Cow<'_, Field> = message.get_field(&field.descriptor);
            object.insert(field.printed.clone(), self::field(schema, field, &value));
        }
    }
    if let Some(Value::Object(rest)) = rest(shape, message) {
        for (key, value) in rest {
            // What the message knows is not overwritten.
            if !shape.keys.contains_key(&key) {
                object.insert(key, value);
            }
        }
    }
    Value::Object(object)
}

/// The keys that the message carries without knowing them.
fn rest(shape: &MessageShape, message: &DynamicMessage) -> Option<Value> {
    let text = message.get_field_by_number(shape.rest?)?;
    serde_json::from_str(text.as_str()?).ok()
}

fn field(schema: &Schema, field: &FieldShape, value: &Field) -> Value {
    match value {
        Field::List(items) => items.iter().map(|item| one(schema, &field.shape, item)).collect(),
        Field::Map(entries) => Value::Object(
            entries.iter().map(|(key, item)| (map_key(key), one(schema, &field.shape, item))).collect(),
        ),
        _ => one(schema, &field.shape, value),
    }
}

fn one(schema: &Schema, shape: &Shape, value: &Field) -> Value {
    match value {
        Field::Bool(value) => Value::Bool(*value),
        Field::I32(value) => (*value).into(),
        Field::I64(value) => (*value).into(),
        Field::U32(value) => (*value).into(),
        Field::U64(value) => (*value).into(),
        Field::F64(value) => Number::from_f64(*value).map_or(Value::Null, Value::Number),
        // A text that is not JSON does not come from a document.
        Field::String(text) if *shape == Shape::Json => serde_json::from_str(text).unwrap_or_default(),
        Field::String(text) => Value::String(text.clone()),
        Field::Bytes(bytes) => Value::String(STANDARD.encode(bytes)),
        Field::EnumNumber(number) => enum_value(shape, *number),
        Field::Message(inner) => match shape {
            Shape::Message(name) => {
                schema.message(name).map_or(Value::Null, |shape| message(schema, shape, inner))
            }
            _ => Value::Null,
        },
        // A list of lists does not exist in protobuf, nor a float in the contract.
        Field::F32(_) | Field::List(_) | Field::Map(_) => Value::Null,
    }
}

fn enum_value(shape: &Shape, number: i32) -> Value {
    let name = match shape {
        Shape::Enum(values) => values.iter().find(|(_, known)| *known == number),
        _ => None,
    };
    name.map_or(Value::from(number), |(name, _)| Value::String(name.clone()))
}

fn map_key(key: &MapKey) -> String {
    match key {
        MapKey::Bool(key) => key.to_string(),
        MapKey::I32(key) => key.to_string(),
        MapKey::I64(key) => key.to_string(),
        MapKey::U32(key) => key.to_string(),
        MapKey::U64(key) => key.to_string(),
        MapKey::String(key) => key.clone(),
    }
}
