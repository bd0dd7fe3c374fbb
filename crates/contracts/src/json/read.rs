//! JSON to the message's encoding. Goes on after each violation, so that one pass finds them all. What is wrong is left out, as
//! if it were absent; an item of a list or of a map has its default, so that the others stay where they are.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use prost::encoding;
use serde_json::{Map, Value};

use super::schema::{FieldShape, Form, MessageShape, Multiplicity, Schema, Shape};
use super::{MAX_DEPTH, depth_is_within, describe, elsewhere, payload, well_known};
use crate::duration;
use crate::gaps::Gaps;
use crate::path::{Path, shown};
use crate::violation::Violations;

/// What becomes of keys that a message does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    Refused,
    /// Kept where the message has a place for them, else refused.
    Kept,
}

/// The fields of a map's entry.
const MAP_KEY: u32 = 1;
const MAP_VALUE: u32 = 2;

pub struct Reader<'s> {
    pub(super) schema: &'s Schema,
    /// Full name of the message that the whole document is.
    root: &'s str,
    pub(super) violations: Violations,
    /// Where the document may mean something, beside the places of the violations.
    pub(super) gaps: Gaps,
    unknown: Unknown,
    /// Keys that the top level of the document may have beside those of the message: whoever calls has taken them out.
    pub(super) beside: &'static [&'static str],
}

impl<'s> Reader<'s> {
    pub fn new(schema: &'s Schema, root: &'s str, unknown: Unknown) -> Self {
        Self { schema, root, violations: Violations::default(), gaps: Gaps::default(), unknown, beside: &[] }
    }

    /// What is wrong, and where nobody knows what is meant.
    pub fn into_parts(self) -> (Violations, Gaps) {
        let Self { violations, mut gaps, .. } = self;
        gaps.add_places_of(&violations);
        (violations, gaps)
    }

    /// Appends the encoding of the message to `out`.
    pub fn message(
        &mut self,
        shape: &MessageShape,
        value: &Value,
        path: &Path<'_>,
        depth: usize,
        out: &mut Vec<u8>,
    ) {
        if depth > MAX_DEPTH {
            self.violations.push(path, "depth", format!("nested deeper than {MAX_DEPTH} levels"));
            return;
        }
        match (shape.descriptor.full_name(), value) {
            (payload::FULL_NAME, _) => self.payload(value, path, depth, out),
            (name, _) if well_known::is(name) => {
                well_known::read(name, value, path, &mut self.violations, out)
            }
            _ if shape.is_list => {
                if let Some(items) = shape.fields.first() {
                    self.field(items, value, path, depth, out);
                }
            }
            (_, Value::Object(object)) => self.fields(shape, object, path, depth, out),
            (_, _) => self.wrong_type("an object", value, path),
        }
    }

    fn fields(
        &mut self,
        shape: &MessageShape,
        object: &Map<String, Value>,
        path: &Path<'_>,
        depth: usize,
        out: &mut Vec<u8>,
    ) {
        let mut fields_seen: BTreeMap<usize, &str> = BTreeMap::new();
        let mut oneofs_seen: BTreeMap<&str, &str> = BTreeMap::new();
        let rest = shape.rest.filter(|_| self.unknown == Unknown::Kept);
        let mut kept: BTreeMap<&str, &Value> = BTreeMap::new();
        for (key, value) in object {
            let known = shape.keys.get(key);
            let Some((index, form, field)) =
                known.and_then(|(index, form)| Some((*index, *form, shape.fields.get(*index)?)))
            else {
                if rest.is_some() {
                    kept.insert(key, value);
                } else {
                    self.unknown_key(shape, object, key, path);
                }
                continue;
            };
            let parent = path;
            let path = &parent.field(key, &field.name);
            if value.is_null() {
                continue;
            }
            if let Some(other) = fields_seen.insert(index, key) {
                let message = format!("`{other}` and `{key}` are the same field; write one of them");
                self.violations.push(path, "duplicate_key", message);
                continue;
            }
            if field.output_only {
                self.violations.push(path, "output_only", "only the daemon sets this field");
                continue;
            }
            if let Some(oneof) = &field.oneof
                && let Some(other) = oneofs_seen.insert(oneof, key)
            {
                let message = format!("only one of `{other}` and `{key}` can be set ({oneof})");
                let is_told = !self.violations.is_full();
                self.violations.push(path, "oneof", message);
                let other = shape.keys.get(other).and_then(|(index, _)| shape.fields.get(*index));
                if let Some(other) = other.filter(|_| is_told) {
                    self.gaps.add(parent.key(&other.name).by_names());
                }
                continue;
            }
            match form {
                Form::Plain => self.field(field, value, path, depth + 1, out),
                Form::Duration => self.duration(field, value, path, out),
            }
        }
        if let Some(number) = rest
            && !kept.is_empty()
        {
            self.json_text(&serde_json::json!(kept), path, number, out);
        }
    }

    /// Appends the field `number` with the text of the value.
    fn json_text(&mut self, value: &Value, path: &Path<'_>, number: u32, out: &mut Vec<u8>) {
        if depth_is_within(value, MAX_DEPTH) {
            encoding::string::encode(number, &value.to_string(), out);
        } else {
            let message = format!("a JSON value is nested at most {MAX_DEPTH} levels deep");
            self.violations.push(path, "depth", message);
        }
    }

    fn field(&mut self, field: &FieldShape, value: &Value, path: &Path<'_>, depth: usize, out: &mut Vec<u8>) {
        let number = field.descriptor.number();
        match (&field.multiplicity, value) {
            (Multiplicity::One, Value::String(_)) if field.duration => {
                let base = field.name.trim_end_matches("_ms");
                let message =
                    format!("expected a number of milliseconds; a string with units goes under `{base}`");
                self.violations.push(path, "type", message);
            }
            (Multiplicity::One, _) if field.duration && value.as_i64().is_some_and(|ms| ms < 0) => {
                self.violations.push(path, "duration", duration::DurationError::Negative.to_string());
            }
            (Multiplicity::One, _) => self.one(&field.shape, value, path, depth, number, out),
            (Multiplicity::List, Value::Array(items)) => {
                for (index, item) in items.iter().enumerate() {
                    let before = out.len();
                    self.one(&field.shape, item, &path.index(index), depth, number, out);
                    if out.len() == before {
                        encode_default(&field.shape, number, out);
                    }
                }
            }
            (Multiplicity::Map(keys), Value::Object(object)) => {
                for (key, item) in object {
                    let path = &path.key(key);
                    let mut entry = Vec::new();
                    self.map_key(keys, key, path, &mut entry);
                    self.one(&field.shape, item, path, depth, MAP_VALUE, &mut entry);
                    encoding::bytes::encode(number, &entry, out);
                }
            }
            (Multiplicity::List, _) => self.wrong_type("a list", value, path),
            (Multiplicity::Map(_), _) => self.wrong_type("an object", value, path),
        }
    }

    /// Appends the field `number` with this one value.
    fn one(
        &mut self,
        shape: &Shape,
        value: &Value,
        path: &Path<'_>,
        depth: usize,
        number: u32,
        out: &mut Vec<u8>,
    ) {
        match (shape, value) {
            (Shape::Bool, Value::Bool(value)) => encoding::bool::encode(number, value, out),
            (Shape::Text, Value::String(text)) => encoding::string::encode(number, text, out),
            (Shape::Bytes, Value::String(text)) => {
                if let Some(bytes) = self.bytes(text, path) {
                    encoding::bytes::encode(number, &bytes, out);
                }
            }
            (Shape::Enum(values), Value::String(text)) => {
                if let Some(value) = self.enum_value(values, text, path) {
                    encoding::int32::encode(number, &value, out);
                }
            }
            (Shape::I32, Value::Number(_)) => {
                if let Some(value) = self.integer(value, path, i32::MIN.into(), i32::MAX.into()) {
                    encoding::int32::encode(number, &value, out);
                }
            }
            (Shape::I64, Value::Number(_)) => {
                if let Some(value) = self.integer(value, path, i64::MIN.into(), i64::MAX.into()) {
                    encoding::int64::encode(number, &value, out);
                }
            }
            (Shape::U32, Value::Number(_)) => {
                if let Some(value) = self.integer(value, path, 0, u32::MAX.into()) {
                    encoding::uint32::encode(number, &value, out);
                }
            }
            (Shape::U64, Value::Number(_)) => {
                if let Some(value) = self.integer(value, path, 0, u64::MAX.into()) {
                    encoding::uint64::encode(number, &value, out);
                }
            }
            (Shape::F64, Value::Number(value)) => {
                encoding::double::encode(number, &value.as_f64().unwrap_or_default(), out);
            }
            (Shape::Json, _) => self.json_text(value, path, number, out),
            (Shape::Message(name), _) => {
                let schema = self.schema;
                let Some(shape) = schema.message(name) else {
                    self.violations.push(path, "internal", format!("there is no message {name}"));
                    return;
                };
                let mut inner = Vec::new();
                self.message(shape, value, path, depth, &mut inner);
                encoding::bytes::encode(number, &inner, out);
            }
            (Shape::Unsupported, _) => {
                self.violations.push(path, "internal", "the JSON form does not know this type of field");
            }
            (_, _) => self.wrong_type(expected(shape), value, path),
        }
    }

    fn integer<T: TryFrom<i128>>(
        &mut self,
        value: &Value,
        path: &Path<'_>,
        least: i128,
        most: i128,
    ) -> Option<T> {
        let whole = value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from));
        if let Some(read) = whole.and_then(|whole| T::try_from(whole).ok()) {
            return Some(read);
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

    fn enum_value(&mut self, values: &[(String, i32)], text: &str, path: &Path<'_>) -> Option<i32> {
        if let Some((_, number)) = values.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)) {
            return Some(*number);
        }
        let allowed: Vec<&str> =
            values.iter().filter(|(_, number)| *number != 0).map(|(name, _)| name.as_str()).collect();
        self.violations.push(path, "enum", format!("{:?} is not one of {}", shown(text), allowed.join(", ")));
        None
    }

    fn duration(&mut self, field: &FieldShape, value: &Value, path: &Path<'_>, out: &mut Vec<u8>) {
        let refused = match value {
            Value::String(text) => match duration::parse(text) {
                Ok(ms) => return encoding::int64::encode(field.descriptor.number(), &ms, out),
                Err(error) => error.to_string(),
            },
            Value::Number(_) => {
                format!("write a unit, such as \"90s\", or milliseconds under `{}`", field.name)
            }
            _ => return self.wrong_type("a string such as \"90s\"", value, path),
        };
        self.violations.push(path, "duration", refused);
    }

    pub(super) fn bytes(&mut self, text: &str, path: &Path<'_>) -> Option<Vec<u8>> {
        match STANDARD.decode(text) {
            Ok(bytes) => Some(bytes),
            Err(error) => {
                self.violations.push(path, "base64", format!("not base64: {error}"));
                None
            }
        }
    }

    pub(super) fn wrong_type(&mut self, expected: &str, value: &Value, path: &Path<'_>) {
        let message = format!("expected {expected}, found {}", describe(value));
        self.violations.push(path, "type", message);
    }

    fn map_key(&mut self, shape: &Shape, key: &str, path: &Path<'_>, out: &mut Vec<u8>) {
        // All keys of the contract are strings.
        match shape {
            Shape::Text => encoding::string::encode(MAP_KEY, &key.to_owned(), out),
            _ => self.violations.push(path, "internal", "the JSON form does not know this type of key"),
        }
    }

    fn unknown_key(
        &mut self,
        shape: &MessageShape,
        object: &Map<String, Value>,
        key: &str,
        parent: &Path<'_>,
    ) {
        let path = parent.key(key);
        if self.violations.is_full() {
            return self.violations.push(&path, "unknown_key", String::new());
        }
        let beside: &[&str] = if matches!(parent, Path::Root) { self.beside } else { &[] };
        let (near, shown) = (nearest(shape, beside, key), shown(key));
        let known = if near.is_none() { elsewhere::places(self.schema, self.root, key) } else { Vec::new() };
        let message = match (near, known.as_slice()) {
            (Some(near), _) => format!("there is no key `{shown}` here; did you mean `{near}`?"),
            (None, [one]) => format!("there is no key `{shown}` here; it is a key of {one}"),
            (None, [one, other, ..]) => {
                format!("there is no key `{shown}` here; it is a key of {one} and of {other}")
            }
            (None, []) => format!("there is no key `{shown}` here"),
        };
        self.violations.push(&path, "unknown_key", message);
        self.add_what_may_be_meant(shape, object, near, parent);
    }

    /// An unknown key may be meant for the field that it is near to, where that one is absent; else for any that is.
    fn add_what_may_be_meant(
        &mut self,
        shape: &MessageShape,
        object: &Map<String, Value>,
        nearest: Option<&str>,
        parent: &Path<'_>,
    ) {
        let mut is_absent = vec![true; shape.fields.len()];
        for (key, (index, _)) in &shape.keys {
            if object.get(key).is_some_and(|value| !value.is_null())
                && let Some(is_absent) = is_absent.get_mut(*index)
            {
                *is_absent = false;
            }
        }
        let absent = || shape.fields.iter().enumerate().zip(&is_absent).filter(|(_, is_absent)| **is_absent);
        let meant = nearest.and_then(|key| shape.keys.get(key)).map(|(index, _)| *index);
        let meant = meant.filter(|meant| absent().any(|((index, _), _)| index == *meant));
        for ((index, field), _) in absent() {
            if meant.is_none_or(|meant| meant == index) {
                self.gaps.add(parent.key(&field.name).by_names());
            }
        }
    }
}

/// Appends the field `number` with the default of its type.
fn encode_default(shape: &Shape, number: u32, out: &mut Vec<u8>) {
    match shape {
        Shape::Bool => encoding::bool::encode(number, &false, out),
        Shape::I32 | Shape::Enum(_) => encoding::int32::encode(number, &0, out),
        Shape::I64 => encoding::int64::encode(number, &0, out),
        Shape::U32 => encoding::uint32::encode(number, &0, out),
        Shape::U64 => encoding::uint64::encode(number, &0, out),
        Shape::F64 => encoding::double::encode(number, &0.0, out),
        Shape::Text | Shape::Json => encoding::string::encode(number, &String::new(), out),
        Shape::Bytes | Shape::Message(_) => encoding::bytes::encode(number, &Vec::<u8>::new(), out),
        Shape::Unsupported => {}
    }
}

/// The known key that differs least from `key`, where it differs by less than half; a field's own name before an alias.
fn nearest<'s>(shape: &'s MessageShape, beside: &[&'s str], key: &str) -> Option<&'s str> {
    const LONGEST: usize = 64;
    if key.len() > LONGEST {
        return None;
    }
    let lower = key.to_ascii_lowercase();
    let rank = |known: &'s str| {
        let distance = strsim::osa_distance(&lower, &known.to_ascii_lowercase());
        let alias = known.contains(|c: char| c.is_ascii_uppercase());
        (distance, alias, known)
    };
    let known = shape.keys.keys().map(String::as_str).chain(beside.iter().copied());
    let (distance, _, known) = known.map(rank).min()?;
    (distance * 2 < known.len()).then(|| offered(shape, known, key))
}

/// The key as it is told to whoever has written another one: as it is printed, unless there are capital letters in both.
fn offered<'s>(shape: &'s MessageShape, known: &'s str, written: &str) -> &'s str {
    let has_capitals = |text: &str| text.contains(|c: char| c.is_ascii_uppercase());
    if has_capitals(known) && has_capitals(written) {
        return known;
    }
    let printed = |(index, form): &(usize, Form)| {
        let field = shape.fields.get(*index)?;
        let key = match form {
            Form::Plain => field.printed.as_str(),
            // The own name is that of the milliseconds.
            Form::Duration if field.printed == field.name => field.name.strip_suffix("_ms")?,
            Form::Duration => return None,
        };
        shape.keys.get_key_value(key).map(|(key, _)| key.as_str())
    };
    shape.keys.get(known).and_then(printed).unwrap_or(known)
}

fn expected(shape: &Shape) -> &'static str {
    match shape {
        Shape::Bool => "a boolean",
        Shape::I32 | Shape::I64 | Shape::U32 | Shape::U64 => "an integer",
        Shape::F64 => "a number",
        Shape::Text | Shape::Enum(_) => "a string",
        Shape::Bytes => "base64 in a string",
        Shape::Json => "a JSON value",
        Shape::Message(_) | Shape::Unsupported => "an object",
    }
}
