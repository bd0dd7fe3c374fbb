//! What a handler gives back.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use capataz_contracts::v1;
use capataz_contracts::v1::payload::Data;
use serde::Serialize;

const JSON: &str = "application/json";

/// What a task gives back. Outputs beyond 32 KiB are uploaded as blobs by themselves.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskOutput {
    payload: v1::Payload,
    usage: Option<v1::Usage>,
}

impl TaskOutput {
    /// JSON of anything that can be written as such.
    ///
    /// # Errors
    /// The value cannot be written as JSON.
    pub fn json(value: impl Serialize) -> Result<Self, TaskError> {
        match serde_json::to_vec(&value) {
            Ok(bytes) => Ok(Self::bytes(JSON, bytes)),
            Err(error) => {
                Err(TaskError::new("LOGIC_ERROR", format!("the output cannot be written as JSON: {error}")))
            }
        }
    }

    /// Plain text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::bytes("text/plain", text.into())
    }

    /// Bytes of any media type.
    pub fn bytes(media_type: impl Into<String>, bytes: impl Into<Bytes>) -> Self {
        v1::Payload { media_type: media_type.into(), data: Some(Data::Inline(bytes.into())) }.into()
    }

    /// Says what the work used of models, for whoever counts tokens and costs. Kept with the task's result; a partial
    /// output has none.
    ///
    /// ```
    /// use capataz_client::v1::{Cost, Usage};
    /// use capataz_client::worker::TaskOutput;
    ///
    /// let usage = Usage {
    ///     input_tokens: Some(1_200),
    ///     output_tokens: Some(80),
    ///     // 0.00192 dollars.
    ///     cost: Some(Cost { nanos: 1_920_000, currency: "USD".to_owned() }),
    ///     ..Usage::default()
    /// };
    /// let output = TaskOutput::text("a summary").with_usage(usage);
    /// ```
    #[must_use]
    pub fn with_usage(mut self, usage: v1::Usage) -> Self {
        self.usage = Some(usage);
        self
    }

    pub(super) fn into_payload(self) -> v1::Payload {
        self.payload
    }

    pub(super) fn into_parts(self) -> (v1::Payload, Option<v1::Usage>) {
        (self.payload, self.usage)
    }
}

impl From<v1::Payload> for TaskOutput {
    fn from(payload: v1::Payload) -> Self {
        Self { payload, usage: None }
    }
}

impl From<serde_json::Value> for TaskOutput {
    fn from(value: serde_json::Value) -> Self {
        Self::bytes(JSON, value.to_string())
    }
}

impl From<String> for TaskOutput {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl From<&str> for TaskOutput {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

/// JSON `null`.
impl From<()> for TaskOutput {
    fn from((): ()) -> Self {
        Self::bytes(JSON, Bytes::from_static(b"null"))
    }
}

/// Why a task failed. Whether it is tried again depends on the code and the task's retry policy.
///
/// Any other error becomes one with `?`, under the code `UNKNOWN_ERROR`, which is not tried again. For that it is
/// itself not a [`std::error::Error`].
#[derive(Clone, PartialEq)]
pub struct TaskError(Box<v1::Error>);

impl TaskError {
    /// A failure with a stable code, such as `NETWORK_ERROR`, which is tried again, or `VALIDATION_ERROR`, which is not.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self(Box::new(v1::Error { code: code.into(), message: message.into(), ..v1::Error::default() }))
    }

    /// A failure that is described in full.
    #[must_use]
    pub fn detailed(error: v1::Error) -> Self {
        Self(Box::new(error))
    }

    /// Asks for at least this delay before another attempt.
    #[must_use]
    pub fn retry_after(mut self, delay: Duration) -> Self {
        self.0.retry_after_ms = Some(i64::try_from(delay.as_millis()).unwrap_or(i64::MAX));
        self
    }

    /// The severity, where it is not that of the code.
    #[must_use]
    pub fn severity(mut self, severity: v1::Severity) -> Self {
        self.0.severity = severity as i32;
        self
    }

    /// The stable code.
    #[must_use]
    pub fn code(&self) -> &str {
        &self.0.code
    }

    /// What went wrong, for people.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    pub(super) fn into_error(self) -> Box<v1::Error> {
        let mut error = self.0;
        truncate(&mut error.message, MESSAGE_MAX);
        error
    }
}

/// A frame is at most 64 KiB long; more than this nobody reads.
const MESSAGE_MAX: usize = 16 * 1024;

/// Cuts a text at a character's boundary.
pub(super) fn truncate(text: &mut String, length_max: usize) {
    if text.len() > length_max {
        text.truncate(text.floor_char_boundary(length_max));
    }
}

impl<E: std::error::Error> From<E> for TaskError {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            message.push_str(": ");
            message.push_str(&cause.to_string());
            source = cause.source();
        }
        Self::new("UNKNOWN_ERROR", message)
    }
}

impl fmt::Debug for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.code, self.0.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_error_becomes_one_with_its_chain() {
        fn fails() -> Result<(), TaskError> {
            "x".parse::<u32>()?;
            Ok(())
        }
        let expected = TaskError::new("UNKNOWN_ERROR", "invalid digit found in string");
        assert_eq!(fails(), Err(expected));
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let error = TaskError::new("X", "é".repeat(MESSAGE_MAX)).into_error();
        assert_eq!(error.message.len(), MESSAGE_MAX);
    }

    #[test]
    fn outputs() {
        let inline = |output: TaskOutput| match output.into_payload() {
            v1::Payload { media_type, data: Some(Data::Inline(bytes)) } => (media_type, bytes),
            other => unreachable!("{other:?}"),
        };
        assert_eq!(inline(().into()), (JSON.to_owned(), Bytes::from_static(b"null")));
        assert_eq!(inline(serde_json::json!([1]).into()).1, "[1]");
        assert_eq!(inline("x".into()).0, "text/plain");
        assert_eq!(
            TaskOutput::json(["a"]).map(|output| inline(output).1),
            Ok(Bytes::from_static(b"[\"a\"]"))
        );
    }
}
