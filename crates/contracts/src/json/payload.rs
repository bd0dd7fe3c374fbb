//! Payloads: JSON ones are their value, others an object of reserved keys.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use prost::encoding;
use prost_reflect::DynamicMessage;
use serde_json::{Map, Value, json};

use super::MAX_DEPTH;
use super::read::Reader;
use crate::path::{Path, shown};
use crate::v1;
use crate::v1::payload::Data;

/// Fields of the message.
const MEDIA_TYPE_NUMBER: u32 = 1;
const INLINE_NUMBER: u32 = 2;
const BLOB_NUMBER: u32 = 3;

pub const FULL_NAME: &str = "capataz.v1.Payload";

/// The media type whose payloads are JSON values.
pub const JSON_MEDIA_TYPE: &str = "application/json";

pub(crate) const MEDIA_TYPE: &str = "$media_type";
const BASE64: &str = "$base64";
const TEXT: &str = "$text";
pub(crate) const BLOB: &str = "$blob";

/// Returns whether payloads of `media_type` are JSON: `application/json` in any letter case, with or without
/// parameters.
pub fn is_json(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case(JSON_MEDIA_TYPE)
}

/// Returns whether no value in `value` is nested deeper than `limit` levels. Walks without recursion.
pub fn depth_is_within(value: &Value, limit: usize) -> bool {
    let mut open = vec![(value, 1)];
    while let Some((value, depth)) = open.pop() {
        let below = depth + 1;
        match value {
            Value::Array(_) | Value::Object(_) if depth > limit => return false,
            Value::Array(items) => open.extend(items.iter().map(|item| (item, below))),
            Value::Object(object) => open.extend(object.values().map(|item| (item, below))),
            _ => {}
        }
    }
    true
}

fn is_reserved(object: &Map<String, Value>) -> bool {
    [BASE64, TEXT, BLOB].iter().any(|key| object.contains_key(*key))
}

pub fn print(message: &DynamicMessage) -> Value {
    // The descriptor is that of the generated type, so this does not fail.
    let Ok(payload) = message.transcode_to::<v1::Payload>() else { return Value::Null };
    let media_type = payload.media_type;
    let other = |key: &str, value: Value| json!({ MEDIA_TYPE: media_type, key: value });
    match payload.data {
        None => Value::Null,
        Some(Data::Blob(blob)) => other(BLOB, json!({ "blake3": blob.blake3, "size": blob.size })),
        Some(Data::Inline(bytes)) => {
            if media_type == JSON_MEDIA_TYPE
                && let Some(value) = bare(&bytes)
            {
                return value;
            }
            let is_text = media_type == JSON_MEDIA_TYPE || media_type.starts_with("text/");
            match std::str::from_utf8(&bytes) {
                Ok(text) if is_text => other(TEXT, text.into()),
                _ => other(BASE64, STANDARD.encode(&bytes).into()),
            }
        }
    }
}

/// The JSON value in `bytes`, where it can stand for itself.
fn bare(bytes: &[u8]) -> Option<Value> {
    let value: Value = serde_json::from_slice(bytes).ok()?;
    let reserved = value.as_object().is_some_and(is_reserved);
    (!reserved && depth_is_within(&value, MAX_DEPTH)).then_some(value)
}

impl Reader<'_> {
    /// Appends the encoding of the payload to `out`.
    pub(super) fn payload(&mut self, value: &Value, path: &Path<'_>, depth: usize, out: &mut Vec<u8>) {
        match value {
            Value::Object(object) if is_reserved(object) => self.reserved(object, path, depth, out),
            _ if !depth_is_within(value, MAX_DEPTH) => {
                let message = format!("a JSON value is nested at most {MAX_DEPTH} levels deep");
                self.violations.push(path, "depth", message);
            }
            _ => {
                encoding::string::encode(MEDIA_TYPE_NUMBER, &JSON_MEDIA_TYPE.to_owned(), out);
                encoding::string::encode(INLINE_NUMBER, &value.to_string(), out);
            }
        }
    }

    fn reserved(&mut self, object: &Map<String, Value>, path: &Path<'_>, depth: usize, out: &mut Vec<u8>) {
        let before = self.violations.reported().len();
        if !object.contains_key(MEDIA_TYPE) {
            self.violations.push(path, "payload", format!("`{MEDIA_TYPE}` is missing"));
        }
        if [BASE64, TEXT, BLOB].iter().filter(|key| object.contains_key(**key)).count() > 1 {
            let message = format!("only one of `{BASE64}`, `{TEXT}` and `{BLOB}` can be set");
            self.violations.push(path, "payload", message);
        }
        for (key, value) in object {
            let path = &path.key(key);
            match (key.as_str(), value) {
                (MEDIA_TYPE, Value::String(text)) => encoding::string::encode(MEDIA_TYPE_NUMBER, text, out),
                (BASE64, Value::String(text)) => {
                    if let Some(bytes) = self.bytes(text, path) {
                        encoding::bytes::encode(INLINE_NUMBER, &bytes, out);
                    }
                }
                (TEXT, Value::String(text)) => encoding::string::encode(INLINE_NUMBER, text, out),
                (MEDIA_TYPE | BASE64 | TEXT, _) => self.wrong_type("a string", value, path),
                (BLOB, _) => {
                    let schema = self.schema;
                    let Some(shape) = schema.message("capataz.v1.BlobRef") else { continue };
                    let mut blob = Vec::new();
                    self.message(shape, value, path, depth + 1, &mut blob);
                    encoding::bytes::encode(BLOB_NUMBER, &blob, out);
                }
                _ => {
                    let message =
                        format!("`{}` does not go with a reserved key such as `{TEXT}`", shown(key));
                    self.violations.push(path, "payload", message);
                }
            }
        }
        if self.violations.reported().len() > before {
            // No part of it says anything without the others.
            self.gaps.add(path.by_names());
        }
    }
}
