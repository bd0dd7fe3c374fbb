//! Chat completions: the request, and the pieces of its answer.

use serde_json::{Value, json};

use crate::client::Ask;
use crate::endpoint::Endpoint;
use crate::error::ModelError;
use crate::said::{Finish, Heard, Usage};
use crate::wire::{Told, content_at, text_at};

/// The end of the stream.
const DONE: &str = "[DONE]";

/// The body of the request.
pub(crate) fn body(endpoint: &Endpoint, ask: &Ask) -> Value {
    let system = ask.system.iter().map(|text| json!({ "role": "system", "content": text }));
    let messages: Vec<Value> = system.chain([json!({ "role": "user", "content": ask.user })]).collect();
    let mut body = json!({
        "model": endpoint.model,
        "messages": messages,
        "stream": true,
        "stream_options": { "include_usage": true },
    });
    if let Some(body) = body.as_object_mut() {
        body.extend(endpoint.max_tokens.map(|most| ("max_completion_tokens".to_owned(), most.into())));
        body.extend(endpoint.temperature.map(|value| ("temperature".to_owned(), value.into())));
        body.extend(ask.schema.as_ref().map(|schema| {
            let schema = json!({ "name": "answer", "strict": is_strict(schema), "schema": schema });
            ("response_format".to_owned(), json!({ "type": "json_schema", "json_schema": schema }))
        }));
    }
    body
}

/// The keywords of a schema that a server keeps to by itself.
const STRICT: [&str; 12] = [
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "enum",
    "const",
    "anyOf",
    "$ref",
    "$defs",
    "description",
    "title",
];

/// Whether a schema is one that a server keeps to by itself: its root is an object, every object lists its properties, all of
/// them are required, there are no others, and there are no keywords but the known ones.
pub(crate) fn is_strict(schema: &Value) -> bool {
    schema.get("type") == Some(&json!("object")) && schema.get("anyOf").is_none() && is_closed(schema)
}

fn is_closed(schema: &Value) -> bool {
    let Some(schema) = schema.as_object() else { return false };
    let empty = serde_json::Map::new();
    let map = |key: &str| schema.get(key).map_or(Some(&empty), Value::as_object);
    let (Some(properties), Some(definitions)) = (map("properties"), map("$defs")) else { return false };
    let is_object = schema.contains_key("properties")
        || schema.get("type").is_some_and(|of| {
            of == "object" || of.as_array().is_some_and(|types| types.contains(&json!("object")))
        });
    let is_listed = || {
        let required = schema.get("required").and_then(Value::as_array);
        let is_required =
            |name: &String| required.is_some_and(|all| all.iter().any(|one| one.as_str() == Some(name)));
        schema.contains_key("properties")
            && schema.get("additionalProperties") == Some(&json!(false))
            && properties.keys().all(is_required)
    };
    let choices = schema.get("anyOf").and_then(Value::as_array);
    schema.keys().all(|key| STRICT.contains(&key.as_str()))
        && (!is_object || is_listed())
        && (!schema.contains_key("anyOf") || choices.is_some())
        && properties.values().chain(definitions.values()).all(is_closed)
        && schema.get("items").into_iter().chain(choices.into_iter().flatten()).all(is_closed)
}

/// A piece of the stream. The text that it adds.
pub(crate) fn hear(heard: &mut Heard, data: &str) -> Result<String, ModelError> {
    if data.trim() == DONE {
        heard.is_over = true;
        return Ok(String::new());
    }
    let piece: Value =
        serde_json::from_str(data).map_err(|error| ModelError::broken(format!("no JSON: {error}")))?;
    take(heard, &piece, "/choices/0/delta")
}

/// The answer of a server that does not stream. Its text.
pub(crate) fn whole(heard: &mut Heard, body: &Value) -> Result<String, ModelError> {
    let text = take(heard, body, "/choices/0/message")?;
    heard.is_over = body.pointer("/choices/0/message").is_some();
    Ok(text)
}

fn take(heard: &mut Heard, piece: &Value, place: &str) -> Result<String, ModelError> {
    if let Some(error) = piece.get("error").filter(|error| !error.is_null()) {
        return Err(Told::of(error).in_stream());
    }
    if heard.model.is_empty() {
        text_at(piece, "/model").clone_into(&mut heard.model);
    }
    let count = |place: &str| piece.pointer(place).and_then(Value::as_u64);
    if piece.get("usage").is_some_and(|usage| !usage.is_null()) {
        heard.usage = Usage {
            input_tokens: count("/usage/prompt_tokens"),
            output_tokens: count("/usage/completion_tokens"),
            cached_tokens: count("/usage/prompt_tokens_details/cached_tokens"),
        };
    }
    let refusal = text_at(piece, &format!("{place}/refusal"));
    if !refusal.is_empty() {
        heard.finish = Some(Finish::Filtered);
    }
    let reason = text_at(piece, "/choices/0/finish_reason");
    // Whoever refuses ends like any other.
    if !reason.is_empty() && heard.finish != Some(Finish::Filtered) {
        heard.finish = Some(match reason {
            "stop" | "tool_calls" | "function_call" => Finish::Complete,
            "length" => Finish::Length,
            "content_filter" => Finish::Filtered,
            other => Finish::Other(other.to_owned()),
        });
    }
    let text = content_at(piece, &format!("{place}/content"));
    Ok(if text.is_empty() { refusal.to_owned() } else { text })
}
