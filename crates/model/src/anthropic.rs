//! Messages: the request, and the events of its answer.

use serde_json::{Value, json};

use crate::client::{Ask, CONDITIONS};
use crate::endpoint::Endpoint;
use crate::error::ModelError;
use crate::said::{Finish, Heard};
use crate::wire::{Told, text_at};

/// The version of the protocol, as a header.
pub(crate) const VERSION: &str = "2023-06-01";
/// Tokens of an answer, where nobody says how many: the protocol demands a number.
const MAX_TOKENS: u32 = 4_096;
/// The tool whose input is the answer, where the answer has a schema.
const ANSWER: &str = "answer";

/// The body of the request. An answer with a schema is the input of a tool that the model has to use.
pub(crate) fn body(endpoint: &Endpoint, ask: &Ask) -> Value {
    let mut body = json!({
        "model": endpoint.model,
        "max_tokens": endpoint.max_tokens.unwrap_or(MAX_TOKENS),
        "messages": [{ "role": "user", "content": ask.user }],
        "stream": true,
    });
    if let Some(body) = body.as_object_mut() {
        body.extend(endpoint.temperature.map(|value| ("temperature".to_owned(), value.into())));
        body.extend(ask.system.as_ref().map(|text| ("system".to_owned(), text.as_str().into())));
        if let Some(schema) = &ask.schema {
            let mut schema = schema.clone();
            if let Some(root) = schema.as_object_mut() {
                root.retain(|key, _| !CONDITIONS.contains(&key.as_str()));
            }
            let tool = json!({ "name": ANSWER, "description": "Gives the answer.", "input_schema": schema });
            body.insert("tools".to_owned(), json!([tool]));
            let choice = json!({ "type": "tool", "name": ANSWER, "disable_parallel_tool_use": true });
            body.insert("tool_choice".to_owned(), choice);
        }
    }
    body
}

/// An event of the stream. The text that it adds.
pub(crate) fn hear(heard: &mut Heard, data: &str) -> Result<String, ModelError> {
    let event: Value =
        serde_json::from_str(data).map_err(|error| ModelError::broken(format!("no JSON: {error}")))?;
    match text_at(&event, "/type") {
        "error" => Err(failed(&event)),
        "message_start" => {
            text_at(&event, "/message/model").clone_into(&mut heard.model);
            count(heard, &event, "/message/usage");
            Ok(String::new())
        }
        "content_block_start" => Ok(begun(heard, &event)),
        "content_block_delta" => {
            let index = event.get("index").and_then(Value::as_u64);
            // Another call of the tool, after the first one, is no part of it.
            if heard.is_input && heard.input.is_some() && index.is_some() && index != heard.input {
                return Ok(String::new());
            }
            let place = if heard.is_input { "/delta/partial_json" } else { "/delta/text" };
            Ok(text_at(&event, place).to_owned())
        }
        "message_delta" => {
            count(heard, &event, "/usage");
            stopped(heard, text_at(&event, "/delta/stop_reason"));
            Ok(String::new())
        }
        "message_stop" => {
            heard.is_over = true;
            Ok(String::new())
        }
        _ => Ok(String::new()),
    }
}

/// The answer of a server that does not stream. Its text.
pub(crate) fn whole(heard: &mut Heard, body: &Value) -> Result<String, ModelError> {
    if text_at(body, "/type") == "error" {
        return Err(failed(body));
    }
    text_at(body, "/model").clone_into(&mut heard.model);
    count(heard, body, "/usage");
    stopped(heard, text_at(body, "/stop_reason"));
    let blocks = body.get("content").and_then(Value::as_array);
    heard.is_over = blocks.is_some();
    let mut blocks = blocks.into_iter().flatten();
    let input = blocks.clone().find_map(|block| block.get("input"));
    Ok(match input {
        Some(input) => input.to_string(),
        None => blocks.by_ref().map(|block| text_at(block, "/text")).collect(),
    })
}

/// A block begins. Once the input of the tool does, it is the answer, and what the model has said before it, or says beside it,
/// is not.
fn begun(heard: &mut Heard, event: &Value) -> String {
    if text_at(event, "/content_block/type") != "tool_use" || heard.is_input {
        return String::new();
    }
    heard.is_input = true;
    heard.input = event.get("index").and_then(Value::as_u64);
    heard.text.clear();
    // It comes in pieces; some servers give all of it at once.
    let whole = event
        .pointer("/content_block/input")
        .filter(|input| input.as_object().is_some_and(|all| !all.is_empty()));
    whole.map(Value::to_string).unwrap_or_default()
}

fn stopped(heard: &mut Heard, reason: &str) {
    heard.finish = match reason {
        "" => return,
        "end_turn" | "stop_sequence" | "tool_use" => Some(Finish::Complete),
        "max_tokens" | "model_context_window_exceeded" => Some(Finish::Length),
        "refusal" => Some(Finish::Filtered),
        other => Some(Finish::Other(other.to_owned())),
    };
}

/// The protocol counts what it reads from a cache beside what it reads.
fn count(heard: &mut Heard, event: &Value, place: &str) {
    let number = |key: &str| event.pointer(&format!("{place}/{key}")).and_then(Value::as_u64);
    if let Some(read) = number("input_tokens") {
        let (from_cache, to_cache) =
            (number("cache_read_input_tokens"), number("cache_creation_input_tokens"));
        let all =
            read.saturating_add(from_cache.unwrap_or_default()).saturating_add(to_cache.unwrap_or_default());
        heard.usage.input_tokens = Some(all);
        heard.usage.cached_tokens = from_cache.or(heard.usage.cached_tokens);
    }
    heard.usage.output_tokens = number("output_tokens").or(heard.usage.output_tokens);
}

fn failed(event: &Value) -> ModelError {
    Told::of(event.get("error").unwrap_or(&Value::Null)).in_stream()
}
