//! What a worker says after its hello.

use super::payload;
use crate::path::Path;
use crate::v1::{self, connect_request::Frame};
use crate::violation::Violations;

/// Bytes of one frame of a worker, encoded. A larger one ends its stream.
pub const FRAME_MAX: usize = 4 * 1024 * 1024;

/// Bytes of a log that are kept with its task: its end.
pub const LOG_MAX: usize = 16 * 1024;

/// Bytes of a partial output in a progress frame.
const PARTIAL_MAX: usize = 64 * 1024;
/// Bytes of an error's message, and of its reason.
const MESSAGE_MAX: usize = 16 * 1024;
const CODE_MAX: usize = 128;
/// Bytes of a progress message, of the end of an output that a worker shows, and of what an error suggests.
const LINE_MAX: usize = 1024;

/// A worker's frame, made such that it can be stored.
///
/// A worker is not sent away for a frame that breaks the rules: texts are cut, what is optional is left out, and an
/// output that is too large or that is not what its media type says becomes a failure of its task. Whoever speaks for a
/// worker, over a socket or within the daemon, hands nothing to a shard that did not go through here. `inline_max` is
/// how many bytes an output may hold inline: [`INLINE_MAX`](super::INLINE_MAX) for every worker outside of the daemon.
#[must_use]
pub fn worker_frame(frame: Frame, inline_max: usize) -> Frame {
    match frame {
        Frame::Completed(v1::Completed { lease, output, log, usage }) => {
            let log = end(log, LOG_MAX);
            match output.as_ref().and_then(|output| broken(output, inline_max)) {
                // What it took was taken all the same.
                Some(error) => {
                    Frame::Failed(v1::Failed { lease, error: Some(error), log, usage: usage.map(counted) })
                }
                None => Frame::Completed(v1::Completed { lease, output, log, usage: usage.map(counted) }),
            }
        }
        Frame::Cancelled(v1::Cancelled { lease, partial_output, log }) => {
            let partial_output = partial_output.filter(|output| broken(output, inline_max).is_none());
            Frame::Cancelled(v1::Cancelled { lease, partial_output, log: end(log, LOG_MAX) })
        }
        Frame::Progress(mut progress) => {
            progress.fraction = progress.fraction.filter(|fraction| (0.0..=1.0).contains(fraction));
            progress.message = progress.message.map(|message| cut(message, LINE_MAX));
            progress.partial_output =
                progress.partial_output.filter(|output| broken(output, PARTIAL_MAX).is_none());
            progress.partial_tail = progress.partial_tail.map(|tail| end(tail, LINE_MAX));
            progress.log = progress.log.map(v1::LogTail::checked);
            Frame::Progress(progress)
        }
        Frame::Failed(v1::Failed { lease, error, log, usage }) => {
            let error = Some(reported(error.unwrap_or_default()));
            Frame::Failed(v1::Failed { lease, error, log: end(log, LOG_MAX), usage: usage.map(counted) })
        }
        frame @ (Frame::Hello(_)
        | Frame::Ack(_)
        | Frame::Heartbeat(_)
        | Frame::Drain(_)
        | Frame::Returned(_)
        | Frame::BrowserGone(_)) => frame,
    }
}

/// Usage without what nobody could add up: work that was done does not fail because of its bill.
fn counted(mut usage: v1::Usage) -> v1::Usage {
    let is_currency = |code: &str| code.len() == 3 && code.bytes().all(|byte| byte.is_ascii_uppercase());
    usage.cost = usage.cost.filter(|cost| is_currency(&cost.currency));
    usage
}

/// Only what a worker may say of an error: the rest is the daemon's.
fn reported(given: v1::Error) -> v1::Error {
    let code =
        if given.code.trim().is_empty() { "UNKNOWN_ERROR".to_owned() } else { cut(given.code, CODE_MAX) };
    v1::Error {
        code,
        message: cut(given.message, MESSAGE_MAX),
        severity: v1::Severity::try_from(given.severity).map_or(0, |severity| severity as i32),
        retry_after_ms: given.retry_after_ms.filter(|ms| *ms >= 0),
        reason: given.reason.map(|reason| cut(reason, MESSAGE_MAX)),
        suggested_action: given.suggested_action.map(|action| cut(action, LINE_MAX)),
        ..v1::Error::default()
    }
}

/// The failure that an output is, where it breaks the rules.
fn broken(output: &v1::Payload, inline_max: usize) -> Option<v1::Error> {
    let failure = |code: &str, message| v1::Error { code: code.to_owned(), message, ..v1::Error::default() };
    let size = inline_size(output);
    if size > inline_max {
        let message =
            format!("an inline output of {size} bytes, at most {inline_max}; larger ones are blobs");
        return Some(failure("OUTPUT_TOO_LARGE", message));
    }
    let mut violations = Violations::default();
    payload::check(output, inline_max, &Path::Root, &mut violations);
    let first = violations.into_vec().into_iter().next()?;
    Some(failure("INVALID_OUTPUT", first.to_string()))
}

fn inline_size(output: &v1::Payload) -> usize {
    match &output.data {
        Some(v1::payload::Data::Inline(bytes)) => bytes.len(),
        Some(v1::payload::Data::Blob(_)) | None => 0,
    }
}

fn end(text: String, bytes: usize) -> String {
    if text.len() <= bytes {
        return text;
    }
    let start = text.ceil_char_boundary(text.len() - bytes);
    text.get(start..).unwrap_or_default().to_owned()
}

fn cut(mut text: String, bytes: usize) -> String {
    text.truncate(text.floor_char_boundary(bytes));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate::INLINE_MAX;

    fn inline(media_type: &str, bytes: Vec<u8>) -> Option<v1::Payload> {
        let data = Some(v1::payload::Data::Inline(bytes.into()));
        Some(v1::Payload { media_type: media_type.to_owned(), data })
    }

    fn completed(output: Option<v1::Payload>) -> Frame {
        let lease = Some(v1::LeaseRef { lease: 7, ..v1::LeaseRef::default() });
        Frame::Completed(v1::Completed { lease, output, log: "said".to_owned(), usage: None })
    }

    #[track_caller]
    fn fails_with(frame: Frame, inline_max: usize, code: &str) {
        let Frame::Failed(failed) = worker_frame(frame, inline_max) else {
            unreachable!("an output that breaks the rules is a failure")
        };
        assert_eq!(failed.error.map(|error| error.code).as_deref(), Some(code));
        assert_eq!(failed.lease.map(|lease| lease.lease), Some(7));
        assert_eq!(failed.log, "said");
    }

    #[test]
    fn an_output_that_breaks_the_rules_is_a_failure_of_its_task() {
        fails_with(completed(inline("application/json", b"{".to_vec())), INLINE_MAX, "INVALID_OUTPUT");
        fails_with(completed(inline("no type", b"x".to_vec())), INLINE_MAX, "INVALID_OUTPUT");
        let large = || completed(inline("text/plain", vec![b'x'; INLINE_MAX + 1]));
        fails_with(large(), INLINE_MAX, "OUTPUT_TOO_LARGE");
        assert_eq!(worker_frame(large(), INLINE_MAX + 1), large());
        let fine = completed(inline("application/json", b"{}".to_vec()));
        assert_eq!(worker_frame(fine.clone(), INLINE_MAX), fine);
        assert_eq!(worker_frame(completed(None), INLINE_MAX), completed(None));
    }

    #[test]
    fn of_a_partial_output_only_what_can_be_stored_is_kept() {
        let cancelled = |partial_output| v1::Cancelled { lease: None, partial_output, log: String::new() };
        let kept = inline("text/plain", b"half".to_vec());
        let broken = inline("application/json", b"{".to_vec());
        let frame = worker_frame(Frame::Cancelled(cancelled(kept.clone())), INLINE_MAX);
        assert_eq!(frame, Frame::Cancelled(cancelled(kept.clone())));
        let frame = worker_frame(Frame::Cancelled(cancelled(broken.clone())), INLINE_MAX);
        assert_eq!(frame, Frame::Cancelled(cancelled(None)));
        let progress = |fraction, output| {
            Frame::Progress(v1::Progress { fraction, partial_output: output, ..v1::Progress::default() })
        };
        assert_eq!(worker_frame(progress(None, kept.clone()), INLINE_MAX), progress(None, kept));
        assert_eq!(worker_frame(progress(None, broken), INLINE_MAX), progress(None, None));
        let large = inline("text/plain", vec![b'x'; PARTIAL_MAX + 1]);
        assert_eq!(worker_frame(progress(Some(1.5), large), INLINE_MAX), progress(None, None));
        let shown =
            |tail| Frame::Progress(v1::Progress { partial_tail: Some(tail), ..v1::Progress::default() });
        let long = format!("{}end", "ñ".repeat(LINE_MAX));
        // 510 of two bytes and the end: one more would not fit.
        let kept = format!("{}end", "ñ".repeat(510));
        assert_eq!(worker_frame(shown(long), INLINE_MAX), shown(kept));
        let logs = |lines, text: &str| {
            let log = Some(v1::LogTail { lines, text: text.to_owned() });
            Frame::Progress(v1::Progress { log, ..v1::Progress::default() })
        };
        assert_eq!(worker_frame(logs(0, "one\ntwo"), INLINE_MAX), logs(2, "one\ntwo\n"));
    }

    #[test]
    fn texts_are_cut_between_characters_and_an_error_says_only_what_a_worker_may() {
        let error = v1::Error {
            message: "ñ".repeat(MESSAGE_MAX),
            severity: 99,
            retry_after_ms: Some(-1),
            can_continue: Some(true),
            ..v1::Error::default()
        };
        let log = format!("{}end", "ñ".repeat(LOG_MAX));
        let cost = Some(v1::Cost { nanos: 1, currency: "nothing".to_owned() });
        let usage = Some(v1::Usage { input_tokens: Some(7), cost, ..v1::Usage::default() });
        let frame = Frame::Failed(v1::Failed { lease: None, error: Some(error), log, usage });
        let Frame::Failed(failed) = worker_frame(frame, INLINE_MAX) else {
            unreachable!("a failure stays one")
        };
        let counted = v1::Usage { input_tokens: Some(7), ..v1::Usage::default() };
        assert_eq!(failed.usage, Some(counted), "without a cost that nobody could add up");
        assert!(failed.log.len() <= LOG_MAX && failed.log.ends_with("ñend"));
        let error = failed.error.unwrap_or_default();
        assert_eq!((error.code.as_str(), error.message.len()), ("UNKNOWN_ERROR", MESSAGE_MAX));
        assert_eq!((error.severity, error.retry_after_ms, error.can_continue), (0, None, None));
    }
}
