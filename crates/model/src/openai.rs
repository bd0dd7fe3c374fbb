//! Chat completions: the request, and the pieces of its answer.

use serde_json::{Value, json};

use crate::client::Ask;
use crate::endpoint::Endpoint;
use crate::error::ModelError;
use crate::said::{Finish, Heard, Usage};

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

/// Whether a schema is one that a server keeps to by itself: every object lists its properties, all of them are required, and
/// there are no others.
pub(crate) fn is_strict(schema: &Value) -> bool {
    match schema {
        Value::Object(object) => {
            let names = |key: &str| -> Option<Vec<&str>> {
                match object.get(key)? {
                    Value::Object(properties) => Some(properties.keys().map(String::as_str).collect()),
                    Value::Array(names) => Some(names.iter().filter_map(Value::as_str).collect()),
                    _ => None,
                }
            };
            let is_object = object.contains_key("properties")
                || object.get("type").is_some_and(|of| {
                    of == "object" || of.as_array().is_some_and(|types| types.contains(&json!("object")))
                });
            let is_closed = || {
                let (properties, required) = (names("properties"), names("required").unwrap_or_default());
                object.get("additionalProperties") == Some(&json!(false))
                    && properties.is_some_and(|all| all.iter().all(|name| required.contains(name)))
            };
            (!is_object || is_closed()) && object.values().all(is_strict)
        }
        Value::Array(values) => values.iter().all(is_strict),
        _ => true,
    }
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
        let (kind, message) = told(error);
        let status = error.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
        return Err(ModelError::of_status(status.unwrap_or(500), &kind, message, None));
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
    let text = text_at(piece, &format!("{place}/content"));
    Ok(if text.is_empty() { refusal } else { text }.to_owned())
}

fn text_at<'a>(value: &'a Value, place: &str) -> &'a str {
    value.pointer(place).and_then(Value::as_str).unwrap_or_default()
}

/// The kind of an error, and its words.
pub(crate) fn told(error: &Value) -> (String, String) {
    let text = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
    let kind = if text("code").is_empty() { text("type") } else { text("code") };
    let message = match text("message") {
        "" => error.as_str().unwrap_or("it does not say why").to_owned(),
        message => message.to_owned(),
    };
    (kind.to_owned(), message)
}
