//! What a user's request asked for, to tell a repeated request from another one with the same id.

use crate::input::TaskRef;

pub(crate) const CANCEL: &str = "cancel";
pub(crate) const PAUSE: &str = "pause";
pub(crate) const RESUME: &str = "resume";
pub(crate) const CLOSE: &str = "close";

/// The digest of a proposal, which becomes the script's action of this number.
pub(crate) fn propose(step: u32) -> String {
    format!("propose {step}")
}

pub(crate) fn extend(task: TaskRef, by_ms: i64) -> String {
    format!("extend {task} {by_ms}")
}

pub(crate) fn retry(task: TaskRef) -> String {
    format!("retry {task}")
}

pub(crate) fn resolve(question_id: &str, answer: &str) -> String {
    format!("resolve {question_id} {answer}")
}
