//! What a user's request asked for, to tell a repeated request from another one with the same id.

use capataz_contracts::v1;
use prost::Message;

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

pub(crate) fn rollback(task: TaskRef, cascade: bool) -> String {
    format!("rollback {task}{}", if cascade { " cascade" } else { "" })
}

pub(crate) fn rollback_pipeline(requested: &str) -> String {
    format!("rollback to {requested:?}")
}

pub(crate) fn checkpoint(reason: &str) -> String {
    format!("checkpoint {reason:?}")
}

pub(crate) fn rollback_execution(checkpoint_id: &str) -> String {
    format!("rollback to checkpoint {checkpoint_id:?}")
}

pub(crate) fn resolve(question_id: &str, answer: &str, value: Option<&v1::Payload>) -> String {
    match value {
        None => format!("resolve {question_id} {answer}"),
        Some(value) => format!("resolve {question_id} {answer} {:016x}", fnv(&value.encode_to_vec())),
    }
}

/// FNV-1a of 64 bits: whether two values are the same, and no protection against somebody who wants them to seem so.
fn fnv(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3))
}
