//! What both protocols have in common: texts and errors in JSON that may be of any shape.

use serde_json::Value;

use crate::error::ModelError;

/// The text at a place; empty where there is none.
pub(crate) fn text_at<'a>(value: &'a Value, place: &str) -> &'a str {
    value.pointer(place).and_then(Value::as_str).unwrap_or_default()
}

/// What a message says: a text, or a list of parts, of which those that have a text count.
pub(crate) fn content_at(value: &Value, place: &str) -> String {
    match value.pointer(place) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => parts.iter().map(|part| text_at(part, "/text")).collect(),
        _ => String::new(),
    }
}

/// The error that a server speaks of, in the middle of a stream or as a body of its own.
pub(crate) struct Told {
    /// Its `code` and its `type`, as far as they are words.
    kinds: [String; 2],
    /// Its `code`, where that is a status.
    status: Option<u16>,
    message: String,
}

impl Told {
    /// `error` is the object of this name, or a text.
    pub(crate) fn of(error: &Value) -> Self {
        let code = error.get("code");
        let number = code.and_then(|code| match code {
            Value::String(text) => text.parse().ok(),
            number => number.as_u64(),
        });
        let message = match text_at(error, "/message") {
            "" => error.as_str().unwrap_or("it does not say why"),
            message => message,
        };
        Self {
            kinds: ["/code", "/type"].map(|place| text_at(error, place).to_owned()),
            status: number.and_then(|code| u16::try_from(code).ok()).filter(|code| (400..600).contains(code)),
            message: message.to_owned(),
        }
    }

    /// What no JSON says.
    pub(crate) fn text(message: String) -> Self {
        Self { kinds: Default::default(), status: None, message }
    }

    /// The error of a stream that had begun well: it has the status of its kind.
    pub(crate) fn in_stream(self) -> ModelError {
        let by_kind = || self.kinds.iter().find_map(|kind| status_of(kind));
        // What nobody knows is the server's own trouble.
        let status = self.status.or_else(by_kind).unwrap_or(500);
        let Self { kinds: [code, of], message, .. } = self;
        ModelError::of_status(status, &[&code, &of], message, None)
    }

    /// The error of a whole answer with this status.
    pub(crate) fn with_status(self, status: u16, retry_after: Option<std::time::Duration>) -> ModelError {
        let Self { kinds: [code, of], message, .. } = self;
        ModelError::of_status(status, &[&code, &of], format!("{message} (status {status})"), retry_after)
    }
}

/// The status that the protocols' documents give to a kind of error.
fn status_of(kind: &str) -> Option<u16> {
    Some(match kind {
        "invalid_request_error" | "context_length_exceeded" => 400,
        "authentication_error" | "invalid_api_key" => 401,
        "billing_error" => 402,
        "permission_error" => 403,
        "not_found_error" | "model_not_found" => 404,
        "request_too_large" => 413,
        "rate_limit_error" | "rate_limit_exceeded" | "insufficient_quota" => 429,
        "api_error" | "server_error" => 500,
        "timeout_error" => 504,
        "overloaded_error" => 529,
        _ => return None,
    })
}
