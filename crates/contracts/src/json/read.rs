//! JSON to message. Goes on after each violation, so that one pass finds them all.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use prost_reflect::{DynamicMessage, MapKey, Value as Field};
use serde_json::{Map, Value};

use super::schema::{FieldShape, Form, MessageShape, Multiplicity, Schema, Shape};
use super::{MAX_DEPTH, describe, payload, well_known};
use crate::duration;
use crate::path::{Path, shown};
use crate::violation::{Violation, Violations};

/// Who wrote the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// May not send fields that are output only.
    Client,
    Daemon,
}

pub struct Reader<'s> {
    pub(super) schema: &'s Schema,
    pub(super) violations: Violations,
    sender: Sender,
}

impl<'s> Reader<'s> {
    pub fn new(schema: &'s Schema, sender: Sender) -> Self {
        Self { schema, violations: Violations::default(), sender }
    }

    pub fn into_violations(self) -> Vec<Violation> {
        self.violations.into_vec()
    }

    /// The message of `shape`; `None` where a violation stood in the way, which is then recorded.
    pub fn message(
        &mut self,
        shape: &MessageShape,
        value: &Value,
        path: &Path<'_>,
        depth: usize,
    ) -> Option<DynamicMessage> {
        if depth > MAX_DEPTH {
            self.violations.push(path, "depth", format!("nested deeper than {MAX_DEPTH} levels"));
            return None;
        }
        match shape.descriptor.full_name() {
            payload::FULL_NAME => return self.payload(shape, value, path, depth),
            name if well_known::is(name) => {
                return well_known::read(&shape.descriptor, value, path, &mut self.violations);
            }
            _ => {}
        }
        let Value::Object(object) = value else {
            self.wrong_type("an object", value, path);
            return None;
        };
        Some(self.fields(shape, object, path, depth))
    }

    fn fields(
        &mut self,
        shape: &MessageShape,
        object: &Map<String, Value>,
        path: &Path<'_>,
        depth: usize,
    ) -> DynamicMessage {
        let mut message = DynamicMessage::new(shape.descriptor.clone());
        let mut fields_seen: BTreeMap<usize, &str> = BTreeMap::new();
        let mut oneofs_seen: BTreeMap<&str, &str> = BTreeMap::new();
        for (key, value) in object {
            let path = &path.key(key);
            let known = shape
                .keys
                .get(key)
                .and_then(|(index, form)| Some((*index, *form, shape.fields.get(*index)?)));
            let Some((index, form, field)) = known else {
                self.unknown_key(shape, key, path);
                continue;
            };
            if value.is_null() {
                continue;
            }
            if let Some(other) = fields_seen.insert(index, key) {
                let message = format!("`{other}` and `{key}` are the same field; write one of them");
                self.violations.push(path, "duplicate_key", message);
                continue;
            }
            if field.output_only && self.sender == Sender::Client {
                self.violations.push(path, "output_only", "only the daemon sets this field");
                continue;
            }
            if let Some(oneof) = &field.oneof
                && let Some(other) = oneofs_seen.insert(oneof, key)
            {
                let message = format!("only one of `{other}` and `{key}` can be set ({oneof})");
                self.violations.push(path, "oneof", message);
                continue;
            }
            let read = match form {
                Form::Plain => self.field(field, value, path, depth + 1),
                Form::Duration => self.duration(field, value, path),
            };
            if let Some(read) = read {
                message.set_field(&field.descriptor, read);
            }
        }
        message
    }

    fn field(&mut self, field: &FieldShape, value: &Value, path: &Path<'_>, depth: usize) -> Option<Field> {
        match &field.multiplicity {
            Multiplicity::One => {
                let read = self.one(&field.shape, value, path, depth)?;
                if field.duration && read.as_i64().is_some_and(|ms| ms < 0) {
                    self.violations.push(path, "duration", duration::DurationError::Negative.to_string());
                    return None;
                }
                Some(read)
            }
            Multiplicity::List => {
                let Value::Array(items) = value else {
                    self.wrong_type("a list", value, path);
                    return None;
                };
                let mut list = Vec::with_capacity(items.len());
                for (index, item) in items.iter().enumerate() {
                    list.extend(self.one(&field.shape, item, &path.index(index), depth));
                }
                Some(Field::List(list))
            }
            Multiplicity::Map(keys) => {
                let Value::Object(object) = value else {
                    self.wrong_type("an object", value, path);
                    return None;
                };
                let mut entries = Vec::with_capacity(object.len());
                for (key, item) in object {
                    let path = &path.key(key);
                    let map_key = map_key(keys, key);
                    if map_key.is_none() {
                        self.violations.push(
                            path,
                            "type",
                            format!("the key {:?} has another type", shown(key)),
                        );
                    }
                    entries.extend(map_key.zip(self.one(&field.shape, item, path, depth)));
                }
                Some(Field::Map(entries.into_iter().collect()))
            }
        }
    }

    fn one(&mut self, shape: &Shape, value: &Value, path: &Path<'_>, depth: usize) -> Option<Field> {
        match (shape, value) {
            (Shape::Bool, Value::Bool(value)) => Some(Field::Bool(*value)),
            (Shape::Text, Value::String(text)) => Some(Field::String(text.clone())),
            (Shape::Bytes, Value::String(text)) => {
                self.bytes(text, path).map(|bytes| Field::Bytes(bytes.into()))
            }
            (Shape::Enum(values), Value::String(text)) => self.enum_value(values, text, path),
            (Shape::I32, Value::Number(_)) => {
                self.integer(value, path, i32::MIN.into(), i32::MAX.into(), Field::I32)
            }
            (Shape::I64, Value::Number(_)) => {
                self.integer(value, path, i64::MIN.into(), i64::MAX.into(), Field::I64)
            }
            (Shape::U32, Value::Number(_)) => self.integer(value, path, 0, u32::MAX.into(), Field::U32),
            (Shape::U64, Value::Number(_)) => self.integer(value, path, 0, u64::MAX.into(), Field::U64),
            (Shape::F64, Value::Number(number)) => number.as_f64().map(Field::F64),
            (Shape::F32, Value::Number(number)) => {
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "JSON has no 32-bit numbers to read from"
                )]
                let narrow = number.as_f64().map(|wide| wide as f32).filter(|narrow| narrow.is_finite());
                if narrow.is_none() {
                    self.violations.push(path, "range", format!("{number} is out of range"));
                }
                narrow.map(Field::F32)
            }
            (Shape::Message(name), _) => {
                let schema = self.schema;
                let shape = schema.message(name)?;
                self.message(shape, value, path, depth).map(Field::Message)
            }
            (_, _) => {
                self.wrong_type(expected(shape), value, path);
                None
            }
        }
    }

    fn integer<T: TryFrom<i128>>(
        &mut self,
        value: &Value,
        path: &Path<'_>,
        least: i128,
        most: i128,
        field: fn(T) -> Field,
    ) -> Option<Field> {
        let whole = value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from));
        if let Some(read) = whole.and_then(|whole| T::try_from(whole).ok()) {
            return Some(field(read));
        }
        // Digits beyond 64 bits arrive as a double.
        let beyond = value.as_f64().is_some_and(|double| double.abs() >= 9_223_372_036_854_775_808.0);
        if whole.is_some() || beyond {
            self.violations.push(path, "range", format!("{value} is not between {least} and {most}"));
        } else {
            self.violations.push(path, "type", format!("expected an integer, found {value}"));
        }
        None
    }

    fn enum_value(&mut self, values: &[(String, i32)], text: &str, path: &Path<'_>) -> Option<Field> {
        let found = values.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
        if found.is_none() {
            let allowed: Vec<&str> =
                values.iter().filter(|(_, number)| *number != 0).map(|(name, _)| name.as_str()).collect();
            let message = format!("{:?} is none of {}", shown(text), allowed.join(", "));
            self.violations.push(path, "enum", message);
        }
        found.map(|(_, number)| Field::EnumNumber(*number))
    }

    fn duration(&mut self, field: &FieldShape, value: &Value, path: &Path<'_>) -> Option<Field> {
        let parsed = match value {
            Value::String(text) => duration::parse(text).map_err(|error| error.to_string()),
            Value::Number(_) => {
                Err(format!("write a unit, such as \"90s\", or milliseconds under `{}`", field.name))
            }
            _ => {
                self.wrong_type("a string such as \"90s\"", value, path);
                return None;
            }
        };
        parsed.map(Field::I64).map_err(|message| self.violations.push(path, "duration", message)).ok()
    }

    pub(super) fn bytes(&mut self, text: &str, path: &Path<'_>) -> Option<Vec<u8>> {
        STANDARD
            .decode(text)
            .map_err(|error| self.violations.push(path, "base64", format!("not base64: {error}")))
            .ok()
    }

    pub(super) fn wrong_type(&mut self, expected: &str, value: &Value, path: &Path<'_>) {
        let message = format!("expected {expected}, found {}", describe(value));
        self.violations.push(path, "type", message);
    }

    fn unknown_key(&mut self, shape: &MessageShape, key: &str, path: &Path<'_>) {
        let mut message = format!("there is no key `{}` here", shown(key));
        if let Some(nearest) = nearest(shape, key).filter(|_| !self.violations.is_full()) {
            message.push_str(&format!("; did you mean `{nearest}`?"));
        }
        self.violations.push(path, "unknown_key", message);
    }
}

/// The known key that differs least from `key`, where it differs by less than half.
fn nearest<'s>(shape: &'s MessageShape, key: &str) -> Option<&'s str> {
    const LONGEST: usize = 64;
    let lower = key.to_ascii_lowercase();
    (key.len() <= LONGEST)
        .then(|| {
            shape
                .keys
                .keys()
                .map(|known| (strsim::levenshtein(&lower, &known.to_ascii_lowercase()), known.as_str()))
                .min()
        })
        .flatten()
        .filter(|(distance, known)| distance * 2 < known.len().max(2))
        .map(|(_, known)| known)
}

fn expected(shape: &Shape) -> &'static str {
    match shape {
        Shape::Bool => "a boolean",
        Shape::I32 | Shape::I64 | Shape::U32 | Shape::U64 => "an integer",
        Shape::F32 | Shape::F64 => "a number",
        Shape::Text | Shape::Enum(_) => "a string",
        Shape::Bytes => "base64 in a string",
        Shape::Message(_) => "an object",
    }
}

fn map_key(shape: &Shape, key: &str) -> Option<MapKey> {
    match shape {
        Shape::Text => Some(MapKey::String(key.to_owned())),
        Shape::Bool => key.parse().ok().map(MapKey::Bool),
        Shape::I32 => key.parse().ok().map(MapKey::I32),
        Shape::I64 => key.parse().ok().map(MapKey::I64),
        Shape::U32 => key.parse().ok().map(MapKey::U32),
        Shape::U64 => key.parse().ok().map(MapKey::U64),
        Shape::F32 | Shape::F64 | Shape::Bytes | Shape::Enum(_) | Shape::Message(_) => None,
    }
}
