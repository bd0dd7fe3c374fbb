//! What is gone by of a response that is too large to be part of an event.

use serde_json::{Map, Value};

use super::{RESPONSE, check_size, parse_response};
use crate::validate::{CONTEXT_MAX, entry_bytes};
use crate::violation::Violation;
use crate::{free, json, v1};

/// Bytes of the answer's text, which is what a session keeps of it, and of any other text but the error's message.
pub const TEXT_BYTES: usize = 4 * 1024;
/// Bytes of the error's message, and of what is wrong with a document.
const ERROR_BYTES: usize = 16 * 1024;

/// The excerpt of a document that was read as a whole. It is itself a valid response wherever the document is one.
#[must_use]
pub fn excerpt(document: &[u8]) -> v1::AnswerExcerpt {
    match parse_response(document) {
        Ok(response) => shortened(response),
        Err(violations) => broken(&violations),
    }
}

/// The excerpt of a document of so many bytes, where that is enough to know that it is no response; else it has to be read.
#[must_use]
pub fn excerpt_of_size(bytes: u64) -> Option<v1::AnswerExcerpt> {
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    check_size(bytes).err().map(|violation| broken(&[violation]))
}

fn broken(violations: &[Violation]) -> v1::AnswerExcerpt {
    let said: Vec<String> = violations.iter().map(ToString::to_string).collect();
    let mut broken = said.join("; ");
    cut(&mut broken, ERROR_BYTES);
    v1::AnswerExcerpt { broken, ..v1::AnswerExcerpt::default() }
}

fn shortened(whole: v1::SpecResponse) -> v1::AnswerExcerpt {
    let mut left_out = Vec::new();
    let response = v1::SpecResponse {
        spec: whole.spec.map(short),
        request_id: whole.request_id.map(short),
        response: whole.response.map(|answer| v1::SpecAnswer {
            text: answer.text.map(short),
            format: answer.format,
            structured: None,
            extra: None,
        }),
        metadata: whole.metadata.map(|metadata| v1::SpecResponseMetadata {
            pattern_used: metadata.pattern_used.map(short),
            extra: None,
            ..metadata
        }),
        transition: whole.transition.map(|transition| v1::SpecTransition {
            suggest_spec: transition.suggest_spec.map(short),
            reason: transition.reason.map(short),
            extra: None,
            ..transition
        }),
        error: whole.error.map(|error| v1::SpecError {
            code: error.code.map(short),
            message: error.message.map(|mut message| {
                cut(&mut message, ERROR_BYTES);
                message
            }),
            details: error.details.map(short),
            fallback_spec: error.fallback_spec.map(short),
            extra: None,
            ..error
        }),
        context_update: whole.context_update.map(|update| kept(update, &mut left_out)),
        extra: None,
        ..whole
    };
    let response = json::print(RESPONSE, &response).to_string();
    let named = free::left_out(left_out).unwrap_or_default();
    v1::AnswerExcerpt { response, broken: String::new(), left_out: named.keys, more_left_out: named.more }
}

/// Of what the answer wants to be kept, as many bytes as a session may have room for, whether it failed or not; the keys of
/// the rest are named.
fn kept(update: v1::SpecContextUpdate, left_out: &mut Vec<String>) -> v1::SpecContextUpdate {
    let mut bytes = 0;
    let mut fits = |name: &str, key: &str, value: &Value| {
        let with_it = bytes + entry_bytes(key, value);
        let fits = with_it <= CONTEXT_MAX;
        if fits {
            bytes = with_it;
        } else {
            left_out.push(format!("{name}{key}"));
        }
        fits
    };
    let mut state =
        |key: &str, state: Option<String>| state.filter(|state| fits("", key, &Value::from(&**state)));
    let emotional_state = state("emotional_state", update.emotional_state);
    let engagement_level = state("engagement_level", update.engagement_level);
    let custom = update.custom.and_then(|custom| match json::from_str(&custom) {
        Ok(Value::Object(entries)) => {
            let entries = entries.into_iter().filter(|(key, value)| fits("custom.", key, value));
            Some(Value::Object(entries.collect::<Map<String, Value>>()).to_string())
        }
        _ => None,
    });
    v1::SpecContextUpdate { emotional_state, engagement_level, custom, extra: None }
}

fn short(mut text: String) -> String {
    cut(&mut text, TEXT_BYTES);
    text
}

fn cut(text: &mut String, bytes: usize) {
    text.truncate(text.floor_char_boundary(bytes));
}
