//! The outer shape of the protocol's messages.

use std::borrow::Cow;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::error::CallError;

/// Most bytes of one command. Chromium's pipe reader gives up the connection at 100 MiB.
pub const REQUEST_LIMIT: usize = 64 * 1024 * 1024;

/// The byte that ends each message.
pub(super) const TERMINATOR: u8 = 0;

/// The error with which the browser refuses a command.
#[derive(Debug)]
pub(super) struct ProtocolError {
    pub(super) code: i64,
    pub(super) message: String,
}

#[derive(Deserialize)]
struct RawError {
    code: i64,
    message: String,
    data: Option<serde_json::Value>,
}

impl ProtocolError {
    /// An error of a shape that is not known is its own message.
    fn parse(raw: &RawValue) -> Self {
        match serde_json::from_str(raw.get()) {
            Ok(RawError { code, message, data: None }) => Self { code, message },
            Ok(RawError { code, message, data: Some(serde_json::Value::String(data)) }) => {
                Self { code, message: format!("{message}: {data}") }
            }
            Ok(RawError { code, message, data: Some(data) }) => {
                Self { code, message: format!("{message}: {data}") }
            }
            Err(_) => Self { code: 0, message: raw.get().to_owned() },
        }
    }
}

/// One message from the browser. Payloads are JSON, unparsed, and share the memory that they were read into.
#[derive(Debug)]
pub(super) enum Incoming<'a> {
    Answer {
        id: i64,
        outcome: Result<Bytes, ProtocolError>,
    },
    Event {
        method: Cow<'a, str>,
        session: Option<Cow<'a, str>>,
        params: Bytes,
    },
    /// An error without the number of a command, which the browser could not read: the caller is unknown.
    Other,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    id: Option<i64>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "sessionId")]
    session: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

impl<'a> Incoming<'a> {
    /// `None` if these bytes are not a message of the protocol.
    pub(super) fn parse(message: &'a Bytes) -> Option<Self> {
        let envelope: Envelope<'a> = serde_json::from_slice(message).ok()?;
        let payload = |raw: Option<&RawValue>| match raw {
            Some(raw) => message.slice_ref(raw.get().as_bytes()),
            None => Bytes::from_static(b"{}"),
        };
        match (envelope.id, envelope.method) {
            (Some(id), _) => {
                let outcome = match envelope.error {
                    Some(error) => Err(ProtocolError::parse(error)),
                    None => Ok(payload(envelope.result)),
                };
                Some(Self::Answer { id, outcome })
            }
            (None, Some(method)) => {
                Some(Self::Event { method, session: envelope.session, params: payload(envelope.params) })
            }
            (None, None) => Some(Self::Other),
        }
    }
}

#[derive(Serialize)]
struct Command<'a, P> {
    id: i32,
    method: &'a str,
    #[serde(rename = "sessionId", skip_serializing_if = "Option::is_none")]
    session: Option<&'a str>,
    params: P,
}

/// The parameters of a command, written once: the command's id is known only when there is room for it.
pub(super) fn parameters(method: &'static str, params: &impl Serialize) -> Result<Box<RawValue>, CallError> {
    let params =
        serde_json::value::to_raw_value(params).map_err(|source| CallError::Parameters { method, source })?;
    let bytes = params.get().len();
    if bytes > REQUEST_LIMIT {
        return Err(CallError::TooLarge { method, bytes, limit: REQUEST_LIMIT });
    }
    Ok(params)
}

/// A whole command as it goes over the pipe.
pub(super) fn encode(
    id: i32,
    method: &'static str,
    session: Option<&str>,
    params: &RawValue,
) -> Result<Bytes, CallError> {
    // `{}` is what the protocol expects where a method has no parameters.
    let params = if params.get() == "null" { None } else { Some(params) };
    let mut bytes = Vec::with_capacity(params.map_or(2, |params| params.get().len()) + 128);
    let written = match params {
        Some(params) => serde_json::to_writer(&mut bytes, &Command { id, method, session, params }),
        None => {
            let params = serde_json::Map::new();
            serde_json::to_writer(&mut bytes, &Command { id, method, session, params })
        }
    };
    written.map_err(|source| CallError::Parameters { method, source })?;
    bytes.push(TERMINATOR);
    Ok(bytes.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &'static str) -> Option<String> {
        let message = Bytes::from_static(text.as_bytes());
        Incoming::parse(&message).map(|message| format!("{message:?}"))
    }

    #[test]
    fn what_is_not_known_does_not_matter() {
        let event = parse(r#"{"method":"New.event","params":{"a":[1]},"sessionId":"s","extra":{"b":null}}"#);
        let expected = r#"Event { method: "New.event", session: Some("s"), params: b"{\"a\":[1]}" }"#;
        assert_eq!(event.as_deref(), Some(expected));
        let answer = parse(r#"{"extra":1,"result":{"x":2},"id":7}"#);
        assert_eq!(answer.as_deref(), Some(r#"Answer { id: 7, outcome: Ok(b"{\"x\":2}") }"#));
    }

    #[test]
    fn an_event_without_parameters_has_empty_ones() {
        let event = parse(r#"{"method":"Inspector.targetCrashed"}"#);
        let expected = r#"Event { method: "Inspector.targetCrashed", session: None, params: b"{}" }"#;
        assert_eq!(event.as_deref(), Some(expected));
    }

    #[test]
    fn bytes_that_are_no_message_are_refused() {
        for text in ["", "{", "[]", "1", r#"{"id":"seven"}"#, r#"{"id":1} {"id":2}"#] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(parse(r#"{"error":{"code":-32700,"message":"too deep"}}"#).as_deref(), Some("Other"));
    }

    #[test]
    fn an_error_keeps_the_browsers_words() {
        for (error, expected) in [
            (r#"{"code":-32602,"message":"Bad"}"#, (-32602, "Bad")),
            (r#"{"code":-32602,"message":"Bad","data":"x","new":1}"#, (-32602, "Bad: x")),
            (r#"{"code":-32602,"message":"Bad","data":[1]}"#, (-32602, "Bad: [1]")),
            (r#"{"code":"odd"}"#, (0, r#"{"code":"odd"}"#)),
        ] {
            let message = Bytes::from(format!(r#"{{"id":1,"error":{error}}}"#));
            let Some(Incoming::Answer { outcome: Err(error), .. }) = Incoming::parse(&message) else {
                panic!("no error")
            };
            assert_eq!((error.code, &*error.message), expected);
        }
    }

    #[test]
    fn no_parameters_are_an_empty_object() -> Result<(), CallError> {
        let encoded = encode(1, "A.b", None, &parameters("A.b", &())?)?;
        assert_eq!(encoded, &b"{\"id\":1,\"method\":\"A.b\",\"params\":{}}\0"[..]);
        let encoded = encode(2, "A.b", Some("s"), &parameters("A.b", &serde_json::json!({ "c": "\0" }))?)?;
        let expected = "{\"id\":2,\"method\":\"A.b\",\"sessionId\":\"s\",\"params\":{\"c\":\"\\u0000\"}}\0";
        assert_eq!(encoded, expected.as_bytes());
        Ok(())
    }
}
