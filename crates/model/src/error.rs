//! Why there is no answer.

use std::time::Duration;

/// The most bytes of a server's words in a message.
const MESSAGE_MAX: usize = 500;

/// A model that was asked has not answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// Too much was asked of the server (429).
    #[error("the model's server takes no more requests now: {message}")]
    RateLimited {
        /// When to ask again, as the server says.
        retry_after: Option<Duration>,
        message: String,
    },
    /// The server is away, or cannot answer now (5xx).
    #[error("the model's server does not answer: {message}")]
    Unavailable { retry_after: Option<Duration>, message: String },
    /// It took longer than is allowed.
    #[error("the model's server {what}")]
    TimedOut { what: &'static str },
    /// The key is none, or does not allow it (401, 403).
    #[error("the model's server does not take the key: {message}")]
    Unauthorized { message: String },
    /// There is no such model, or no such path (404).
    #[error("the model's server does not know that: {message}")]
    NotFound { message: String },
    /// The request is wrong, and would be again (400, 413, 422, and what else is the caller's).
    #[error("the model's server refuses the request ({status}): {message}")]
    Rejected { status: u16, message: String },
    /// The server points elsewhere. Nobody goes there: the key is meant for this host.
    #[error("the model's server points to {to}, and redirects are not followed")]
    Redirected { to: String },
    /// What came is no answer: no JSON, cut off, or too long.
    #[error("the model's server gave no whole answer: {message}")]
    Broken { message: String },
}

impl ModelError {
    pub(crate) fn broken(message: impl Into<String>) -> Self {
        Self::Broken { message: message.into() }
    }

    /// What a status says, with the server's own kind of error and its words.
    pub(crate) fn of_status(
        status: u16,
        kinds: &[&str],
        message: String,
        retry_after: Option<Duration>,
    ) -> Self {
        let is = |any: &[&str]| kinds.iter().any(|kind| any.contains(kind));
        match status {
            // Whoever has paid for no more will not have in a minute.
            _ if is(&["insufficient_quota", "billing_error"]) => Self::Rejected { status, message },
            429 => Self::RateLimited { retry_after, message },
            _ if is(&["rate_limit_error", "rate_limit_exceeded"]) => {
                Self::RateLimited { retry_after, message }
            }
            408 => Self::TimedOut { what: "gave up waiting for the request" },
            // Whatever kind of error a server calls its own.
            500.. => Self::Unavailable { retry_after, message },
            401 | 403 => Self::Unauthorized { message },
            _ if is(&["authentication_error", "permission_error"]) => Self::Unauthorized { message },
            404 => Self::NotFound { message },
            _ if is(&["invalid_request_error"]) => Self::Rejected { status, message },
            _ if is(&["overloaded_error", "api_error", "server_error"]) => {
                Self::Unavailable { retry_after, message }
            }
            _ => Self::Rejected { status, message },
        }
    }

    /// The same in few words, and without the secret, wherever a server has said it back.
    pub(crate) fn told(mut self, secret: &str) -> Self {
        let clean = |text: &mut String| {
            // The secret goes first, so that no half of it is left.
            *text = redacted(std::mem::take(text), secret);
            text.truncate(text.floor_char_boundary(MESSAGE_MAX));
        };
        match &mut self {
            Self::RateLimited { message, .. }
            | Self::Unavailable { message, .. }
            | Self::Unauthorized { message }
            | Self::NotFound { message }
            | Self::Rejected { message, .. }
            | Self::Broken { message } => clean(message),
            Self::Redirected { to } => clean(to),
            Self::TimedOut { .. } => {}
        }
        self
    }
}

/// The text without the secret.
pub(crate) fn redacted(text: String, secret: &str) -> String {
    if secret.is_empty() || !text.contains(secret) { text } else { text.replace(secret, "[redacted]") }
}
