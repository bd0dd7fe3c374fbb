//! What can go wrong between us and the browser.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

use crate::connection::EventError;
use crate::process::Ended;

/// Why a command has no result.
#[derive(Debug, Error)]
pub enum CallError {
    /// The browser refused the command.
    #[error("{method}: {message} ({code})")]
    Protocol {
        method: &'static str,
        /// The protocol's number, such as -32601 for an unknown method.
        code: i64,
        /// The browser's words, with its `data` where it gave some.
        message: String,
    },
    /// The connection has ended; whether the browser carried the command out is unknown.
    #[error("{method}: {loss}")]
    Lost { method: &'static str, loss: Loss },
    /// The page crashed before it answered. The session stays: it answers again when the page is loaded anew.
    #[error("{method}: the page has crashed")]
    Crashed { method: &'static str },
    /// The session ended before it answered: its page was closed, or somebody detached from it.
    #[error("{method}: the session has ended")]
    Detached { method: &'static str },
    /// The command is longer than the browser would read; it was not sent.
    #[error("{method}: the command has {bytes} bytes; at most {limit} are possible")]
    TooLarge { method: &'static str, bytes: usize, limit: usize },
    /// Too many commands wait to be written, and the caller did not want to wait; it was not sent.
    #[error("{method}: too many commands are waiting to be sent")]
    Overloaded { method: &'static str },
    /// The parameters cannot be written as JSON; it was not sent.
    #[error("{method}: the parameters cannot be written as JSON")]
    Parameters { method: &'static str, source: serde_json::Error },
    /// The result is not of the expected shape.
    #[error("{method}: the result has another shape than expected")]
    Result { method: &'static str, source: serde_json::Error },
}

/// Why a document did not come.
#[derive(Debug, Error)]
pub enum NavigateError {
    /// A network error, in the browser's words.
    #[error("the document could not be loaded: {reason}")]
    NotLoaded { reason: String },
    #[error(transparent)]
    Call(#[from] CallError),
    #[error(transparent)]
    Event(#[from] EventError),
}

/// Why a connection has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Loss {
    /// The browser ended, or closed its side.
    #[error("the browser is gone")]
    BrowserGone,
    /// We closed it.
    #[error("the connection to the browser was closed")]
    Closed,
    /// Reading or writing failed.
    #[error("the connection to the browser broke")]
    Broken,
    /// The browser sent a message longer than [`MESSAGE_LIMIT`](crate::MESSAGE_LIMIT).
    #[error("the browser sent a message of more than {} bytes", crate::MESSAGE_LIMIT)]
    MessageTooLarge,
    /// The browser sent something that is not a message of the protocol.
    #[error("the browser sent something that is not a message")]
    NoMessage,
}

/// Why no browser was started. A process that was started has ended when this is returned, or is being killed.
#[derive(Debug, Error)]
pub enum LaunchError {
    /// The folder for the profile exists with something in it, or cannot be made.
    #[error("the profile folder {path} cannot be used")]
    ProfileFolder { path: PathBuf, source: io::Error },
    /// The pipes to the browser cannot be made.
    #[error("the pipes to the browser cannot be made")]
    Pipes { source: io::Error },
    /// The program cannot be executed.
    #[error("{program} cannot be started")]
    NotStarted { program: PathBuf, source: io::Error },
    /// The browser ended before its first answer.
    #[error("the browser ended at its start: {0}")]
    Ended(Ended),
    /// The browser did not answer in time.
    #[error("the browser did not answer within {limit:?}; it wrote:\n{stderr}")]
    NoAnswer { limit: Duration, stderr: String },
    /// The browser refused one of the first commands.
    #[error("the browser cannot be used")]
    Call(#[source] CallError),
}
