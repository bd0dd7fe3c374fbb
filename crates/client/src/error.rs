//! The one error of this crate.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tonic::Code;
use tonic_types::StatusExt;

/// Why a call failed: what the daemon answered, or why there was no answer.
///
/// Clones share what they hold.
#[derive(Clone)]
pub struct ClientError(Arc<Inner>);

struct Inner {
    grpc_code: Code,
    message: String,
    reason: Option<String>,
    metadata: BTreeMap<String, String>,
    violations: Vec<FieldViolation>,
    retry_after: Option<Duration>,
    source: Option<Box<dyn Error + Send + Sync>>,
}

/// One rule that a request breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FieldViolation {
    /// Where, in the request's own names: `plan.waves[0].tasks[2].agent`.
    pub path: String,
    /// What is wrong, for people.
    pub message: String,
    /// Stable name of the rule, for programs; empty where the daemon gives none.
    pub rule: String,
}

impl ClientError {
    /// The stable code of the failure, such as `AGENT_NOT_FOUND`; `None` where the daemon gave none or did not answer.
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        self.0.reason.as_deref()
    }

    /// The gRPC code. A connection that failed or broke is `Unavailable`.
    #[must_use]
    pub fn grpc_code(&self) -> Code {
        self.0.grpc_code
    }

    /// What went wrong, for people.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Every rule that the request breaks.
    #[must_use]
    pub fn violations(&self) -> &[FieldViolation] {
        &self.0.violations
    }

    /// How long the daemon asks to wait before the call is repeated.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// A value that the daemon attached to the code.
    #[must_use]
    pub fn metadata(&self, key: &str) -> Option<&str> {
        self.0.metadata.get(key).map(String::as_str)
    }

    /// Every value that the daemon attached to the code.
    #[must_use]
    pub fn all_metadata(&self) -> &BTreeMap<String, String> {
        &self.0.metadata
    }

    /// Returns whether the same call may succeed later: the daemon is away or has too much to do.
    ///
    /// It does not say that repeating is safe; only a call with a key is.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self.0.grpc_code, Code::Unavailable | Code::ResourceExhausted)
    }

    /// Returns whether the same stream would be refused again.
    pub(crate) fn is_permanent(&self) -> bool {
        matches!(
            self.0.grpc_code,
            Code::InvalidArgument
                | Code::NotFound
                | Code::OutOfRange
                | Code::PermissionDenied
                | Code::Unauthenticated
                | Code::Unimplemented
        )
    }

    pub(crate) fn new(grpc_code: Code, message: impl Into<String>) -> Self {
        Self(Arc::new(Inner {
            grpc_code,
            message: message.into(),
            reason: None,
            metadata: BTreeMap::new(),
            violations: Vec::new(),
            retry_after: None,
            source: None,
        }))
    }

    pub(crate) fn with_source(
        grpc_code: Code,
        message: impl Into<String>,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        let mut error = Self::new(grpc_code, message);
        if let Some(inner) = Arc::get_mut(&mut error.0) {
            inner.source = Some(source.into());
        }
        error
    }

    pub(crate) fn invalid(message: impl Into<String>, violations: Vec<capataz_contracts::Violation>) -> Self {
        let mut error = Self::new(Code::InvalidArgument, message);
        if let Some(inner) = Arc::get_mut(&mut error.0) {
            inner.violations = violations
                .into_iter()
                .map(|violation| FieldViolation {
                    path: violation.path,
                    message: violation.message,
                    rule: violation.rule.to_owned(),
                })
                .collect();
        }
        error
    }
}

impl From<tonic::Status> for ClientError {
    fn from(status: tonic::Status) -> Self {
        let grpc_code = code_of(&status);
        let mut inner = Inner {
            grpc_code,
            message: status.message().to_owned(),
            reason: None,
            metadata: BTreeMap::new(),
            violations: Vec::new(),
            retry_after: None,
            source: None,
        };
        if !status.details().is_empty() {
            let details = status.get_error_details();
            if let Some(info) = details.error_info() {
                inner.reason = Some(info.reason.clone());
                inner.metadata =
                    info.metadata.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
            }
            inner.retry_after = details.retry_info().and_then(|info| info.retry_delay);
            if let Some(request) = details.bad_request() {
                inner.violations = request
                    .field_violations
                    .iter()
                    .map(|violation| FieldViolation {
                        path: violation.field.clone(),
                        message: violation.description.clone(),
                        rule: violation.reason.clone(),
                    })
                    .collect();
            }
        }
        if status.source().is_some() {
            inner.source = Some(Box::new(Cause(status)));
        }
        Self(Arc::new(inner))
    }
}

/// A status that has a source was made on this side, by a connection that failed or broke. The transport's guesses at a
/// code differ with the moment in which it broke; callers need but one.
fn code_of(status: &tonic::Status) -> Code {
    let is_local = status.source().is_some() || status.message().starts_with("Service was not ready");
    match status.code() {
        Code::Unknown | Code::Internal | Code::Cancelled if is_local => Code::Unavailable,
        code => code,
    }
}

/// Stands for a status that is shown by the error itself, so that the chain does not show it twice.
struct Cause(tonic::Status);

impl Cause {
    fn error(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.error() {
            Some(error) => fmt::Display::fmt(error, f),
            None => f.write_str(self.0.message()),
        }
    }
}

impl Error for Cause {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error().and_then(Error::source)
    }
}

impl From<tonic::transport::Error> for ClientError {
    fn from(error: tonic::transport::Error) -> Self {
        Self::with_source(Code::Unavailable, "no connection to the daemon", error)
    }
}

impl fmt::Debug for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { grpc_code, message, reason, metadata, violations, retry_after, source } = &*self.0;
        f.debug_struct("ClientError")
            .field("grpc_code", grpc_code)
            .field("message", message)
            .field("code", reason)
            .field("metadata", metadata)
            .field("violations", violations)
            .field("retry_after", retry_after)
            .field("source", source)
            .finish()
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(reason) = &self.0.reason {
            write!(f, "{reason}: ")?;
        } else if self.0.message.is_empty() {
            return write!(f, "{}", self.0.grpc_code);
        }
        f.write_str(&self.0.message)
    }
}

impl Error for ClientError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}
