//! The daemon's errors as gRPC statuses: `google.rpc.Status` with `ErrorInfo`, `BadRequest` and `RetryInfo`.

#![expect(clippy::disallowed_types, reason = "the metadata of tonic-types is a HashMap")]

use std::collections::HashMap;
use std::time::Duration;

use capataz_contracts::validate::FRAME_MAX;
use capataz_contracts::{Violation, v1};
use capataz_crew::{CloseReason, REMEMBERED_AGENTS, REMEMBERED_BYTES};
use capataz_engine::{Refusal, UNJUDGED};
use capataz_policy::codes;
use capataz_runtime::Busy;
use capataz_shard::{CommandReply, Damage, Declined, LoadError, StartReply, TransitionReply};
use capataz_store::{Removal, RunId, StoreError};

use crate::specs::SpecsError;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, ErrorInfo, FieldViolation, StatusExt};

#[cfg(test)]
mod tests;

const DOMAIN: &str = "capataz";
/// Violations of one answer.
const MOST_VIOLATIONS: usize = 100;

/// A status with a stable code.
pub(crate) fn status(grpc: Code, code: codes::Code, message: impl Into<String>) -> Status {
    with_details(grpc, code, message, ErrorDetails::new(), HashMap::new())
}

/// Whether a status has this code.
pub(crate) fn is(status: &Status, code: codes::Code) -> bool {
    status.get_details_error_info().is_some_and(|info| info.reason == code.as_str())
}

fn with_details(
    grpc: Code,
    code: codes::Code,
    message: impl Into<String>,
    details: ErrorDetails,
    metadata: HashMap<String, String>,
) -> Status {
    because(grpc, code.as_str(), message, details, metadata)
}

/// The run may not be forked there. The nearest events before and behind it after which it may are in the metadata as well.
pub(crate) fn not_forked(message: String, before: Option<u64>, behind: Option<u64>) -> Status {
    let named = [("seq_before", before), ("seq_behind", behind)];
    let named = named.into_iter().filter_map(|(name, seq)| Some((name.to_owned(), seq?.to_string())));
    let metadata = named.collect();
    with_details(Code::FailedPrecondition, codes::FORK_NOT_POSSIBLE, message, ErrorDetails::new(), metadata)
}

/// A status with the code of an error of a run, which is told as it is.
pub(crate) fn told(grpc: Code, reason: &str, message: impl Into<String>) -> Status {
    because(grpc, reason, message, ErrorDetails::new(), HashMap::new())
}

fn because(
    grpc: Code,
    reason: &str,
    message: impl Into<String>,
    mut details: ErrorDetails,
    mut metadata: HashMap<String, String>,
) -> Status {
    if let Some(entry) = codes::lookup(reason) {
        metadata.insert("severity".to_owned(), entry.severity.to_string());
        // Where one cause of a code has another remedy than the others, it comes with that.
        metadata.entry("advice".to_owned()).or_insert_with(|| entry.advice.to_owned());
    }
    details.set_error_info(reason, DOMAIN, metadata);
    fitting(grpc, &message.into(), &mut details)
}

/// The most bytes of an error on its way. Clients read 8 KiB of headers where nobody has told them otherwise (gRPC's core, Java),
/// and what does not fit reaches them as a broken stream.
const ERROR_MAX: usize = 7 * 1024;
/// The most bytes of a message, and of a value beside it, where the whole has no room.
const WORDS_MAX: usize = 512;

/// A status that every client can read: as many violations as have room, with the count of the others.
fn fitting(grpc: Code, message: &str, details: &mut ErrorDetails) -> Status {
    let whole = Status::with_error_details(grpc, message, details.clone());
    if sent(&whole) <= ERROR_MAX {
        return whole;
    }
    let message = cut(message);
    if let Some(ErrorInfo { reason, domain, metadata }) = details.error_info().cloned() {
        let metadata = metadata.into_iter().map(|(name, value)| (name, shortened(&value)));
        details.set_error_info(reason, domain, metadata.collect::<HashMap<_, _>>());
    }
    let mut violations =
        details.bad_request().map(|request| request.field_violations.clone()).unwrap_or_default();
    // Whoever has found them may have left some out already.
    let before = violations.last().and_then(|last| more_of(&last.description));
    if before.is_some() {
        violations.pop();
    }
    let before = before.unwrap_or_default();
    let with = |kept: usize| {
        let mut details = details.clone();
        let mut told: Vec<FieldViolation> = violations.iter().take(kept).cloned().collect();
        let more = violations.len().saturating_sub(kept).saturating_add(before);
        told.extend((more > 0).then(|| left_out(more)));
        details.set_bad_request(told);
        Status::with_error_details(grpc, message.clone(), details)
    };
    // Each one more is longer, so that the largest number that fits is looked for by halves.
    let (mut least, mut most) = (0, violations.len());
    while least < most {
        let kept = least.midpoint(most).saturating_add(1).min(most);
        match sent(&with(kept)) <= ERROR_MAX {
            true => least = kept,
            false => most = kept.saturating_sub(1),
        }
    }
    with(least)
}

/// What stands before and after the number of violations that are left out.
const MORE: (&str, &str) = ("… and ", " more (truncated)");

/// The violation that stands for so many others.
fn left_out(more: usize) -> FieldViolation {
    let (before, after) = MORE;
    FieldViolation { description: format!("{before}{more}{after}"), ..FieldViolation::default() }
}

/// The number of violations that this one stands for; `None` of any other.
fn more_of(description: &str) -> Option<usize> {
    description.strip_prefix(MORE.0)?.strip_suffix(MORE.1)?.parse().ok()
}

/// Bytes of a status as headers: the message with its escapes, and the details, which have it again, in base 64.
fn sent(status: &Status) -> usize {
    let escaped =
        |byte: u8| if byte.is_ascii_alphanumeric() || b"-._/:;,'()[]=".contains(&byte) { 1 } else { 3 };
    let message: usize = status.message().bytes().map(escaped).sum();
    message.saturating_add(status.details().len().div_ceil(3).saturating_mul(4))
}

/// A list without the names at its end that have no room; any other text is cut.
fn shortened(text: &str) -> String {
    let room = text.get(..text.floor_char_boundary(WORDS_MAX)).unwrap_or_default();
    match room.rfind(", ").filter(|_| room.len() < text.len()) {
        Some(end) => room.get(..end).unwrap_or_default().to_owned(),
        None => cut(text),
    }
}

fn cut(text: &str) -> String {
    if text.len() <= WORDS_MAX {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(WORDS_MAX.saturating_sub('…'.len_utf8()));
    format!("{}…", text.get(..end).unwrap_or_default())
}

/// INVALID_ARGUMENT with every violation and its path.
pub(crate) fn invalid(violations: &[Violation]) -> Status {
    violated(Code::InvalidArgument, codes::VALIDATION_ERROR, violations)
}

/// INVALID_ARGUMENT with everything that is wrong with the state of a session.
pub(crate) fn invalid_state(violations: &[Violation]) -> Status {
    violated(Code::InvalidArgument, codes::SESSION_VALIDATION_FAILED, violations)
}

/// A plan is at work in the session whose state was to be replaced.
pub(crate) fn session_busy(session: &str, run: RunId) -> Status {
    let message = format!("run {run} is at work in session {session:?}, whose state is newer than any file");
    status(Code::FailedPrecondition, codes::SESSION_BUSY, message)
}

/// A status with every violation and its path.
fn violated(grpc: Code, code: codes::Code, violations: &[Violation]) -> Status {
    let mut details = ErrorDetails::new();
    for violation in violations {
        details.add_bad_request_violation(
            violation.path.clone(),
            format!("{} ({})", violation.message, violation.rule),
        );
    }
    let message = match violations {
        [one] => one.to_string(),
        many => format!(
            "{} violations, the first: {}",
            many.len(),
            many.first().map(ToString::to_string).unwrap_or_default()
        ),
    };
    with_details(grpc, code, message, details, HashMap::new())
}

/// INVALID_ARGUMENT with every rule that a script breaks.
pub(crate) fn invalid_script(violations: &[v1::ScriptViolation]) -> Status {
    let mut details = ErrorDetails::new();
    for violation in violations {
        let description = format!("{} ({})", violation.message, violation.rule);
        details.add_bad_request_violation(format!("script.{}", violation.path), description);
    }
    let first = violations.first().map(|first| format!("{}: {} ({})", first.path, first.message, first.rule));
    let message =
        format!("the script breaks {} rules, the first: {}", violations.len(), first.unwrap_or_default());
    with_details(Code::InvalidArgument, codes::INVALID_ACTIONSPEC, message, details, HashMap::new())
}

/// INVALID_ARGUMENT with every place at which a value breaks its schema; UNAVAILABLE where nobody knows whether it does.
fn breaks_schema(violations: &[v1::SchemaViolation]) -> Status {
    if violations.iter().any(|violation| violation.rule == UNJUDGED) {
        return unavailable();
    }
    let mut details = ErrorDetails::new();
    for v1::SchemaViolation { path, rule, expected, found } in violations {
        let description = format!("expected {expected}, found {found} ({rule})");
        details.add_bad_request_violation(format!("value{path}"), description);
    }
    let message = match violations {
        [one] => format!("the value breaks its schema: {}", capataz_judge::shown(one)),
        many => format!(
            "the value breaks its schema in {} places, the first: {}",
            many.len(),
            many.first().map(capataz_judge::shown).unwrap_or_default()
        ),
    };
    with_details(Code::InvalidArgument, codes::VALIDATION_ERROR, message, details, HashMap::new())
}

/// One field's violation.
pub(crate) fn invalid_field(path: &str, rule: &'static str, message: impl Into<String>) -> Status {
    invalid(&[Violation::new(path, rule, message)])
}

pub(crate) fn not_found(run_id: &str) -> Status {
    status(Code::NotFound, codes::RUN_NOT_FOUND, format!("there is no run {run_id}"))
}

pub(crate) fn unavailable() -> Status {
    let mut details = ErrorDetails::new();
    details.set_retry_info(Some(Duration::from_millis(250)));
    with_details(
        Code::Unavailable,
        codes::UNAVAILABLE,
        "the log is being read again; repeat the call with the same key",
        details,
        HashMap::new(),
    )
}

/// Why a worker's stream was ended.
pub(crate) fn closed(reason: &CloseReason) -> Status {
    match reason {
        CloseReason::Protocol => {
            invalid_field("hello", "once", "a worker says hello in its first frame, and only there")
        }
        CloseReason::Replaced => status(
            Code::Aborted,
            codes::WORKER_REPLACED,
            "another connection has said hello with the same worker id",
        ),
        CloseReason::Silent => sent_away("silent", "nothing was heard of the worker for too long", 0),
        CloseReason::Unread => sent_away("unread", "the worker does not read what the daemon tells it", 0),
        CloseReason::SentAway { retry_after_ms } => sent_away(
            "unacknowledged",
            "the worker acknowledged nothing of what it was given, time after time",
            *retry_after_ms,
        ),
        CloseReason::Restarting => unavailable(),
        CloseReason::Reserved(violations) => {
            violated(Code::PermissionDenied, codes::NAME_RESERVED, violations)
        }
        CloseReason::TooManyAgents => {
            let mut details = ErrorDetails::new();
            details.set_retry_info(Some(Duration::from_secs(60)));
            let message = format!(
                "the daemon remembers at most {REMEMBERED_AGENTS} agents and {REMEMBERED_BYTES} bytes of their \
                 descriptions, and all of them are served, or tasks wait for them"
            );
            with_details(
                Code::ResourceExhausted,
                codes::AGENT_LIMIT_EXCEEDED,
                message,
                details,
                HashMap::new(),
            )
        }
    }
}

fn sent_away(reason: &str, message: &str, retry_after_ms: i64) -> Status {
    let mut details = ErrorDetails::new();
    if let Some(after) = u64::try_from(retry_after_ms).ok().filter(|after| *after > 0) {
        details.set_retry_info(Some(Duration::from_millis(after)));
    }
    let metadata = HashMap::from([("reason".to_owned(), reason.to_owned())]);
    with_details(Code::Unavailable, codes::WORKER_SENT_AWAY, message, details, metadata)
}

/// What was to come in time has not: whoever sends it again may be faster.
pub(crate) fn late(message: String) -> Status {
    let mut details = ErrorDetails::new();
    details.set_retry_info(Some(Duration::from_secs(1)));
    with_details(Code::Unavailable, codes::UNAVAILABLE, message, details, HashMap::new())
}

/// A worker's frame that could not be read, after which its stream cannot be read any more.
pub(crate) fn unreadable_frame(error: &Status) -> Status {
    if error.code() != Code::OutOfRange {
        return invalid_field("frame", "form", format!("is not a frame: {}", error.message()));
    }
    let metadata = HashMap::from([("limit".to_owned(), FRAME_MAX.to_string())]);
    let message = format!("a frame has at most {FRAME_MAX} bytes: {}", error.message());
    with_details(Code::OutOfRange, codes::FRAME_TOO_LARGE, message, ErrorDetails::new(), metadata)
}

pub(crate) fn overloaded(retry_after_ms: i64) -> Status {
    let mut details = ErrorDetails::new();
    details.set_retry_info(Some(Duration::from_millis(u64::try_from(retry_after_ms).unwrap_or(250))));
    with_details(
        Code::ResourceExhausted,
        codes::OVERLOADED,
        format!("the daemon has more work than it can hold; come back in {retry_after_ms} ms"),
        details,
        HashMap::new(),
    )
}

/// Why nothing was read.
pub(crate) fn busy(busy: Busy) -> Status {
    match busy {
        Busy::Overloaded => overloaded(READ_AGAIN_MS),
        Busy::Lost => unavailable(),
    }
}

/// What a reader for whom there is no place is asked to wait, in milliseconds.
const READ_AGAIN_MS: i64 = 250;

pub(crate) fn store(error: &StoreError) -> Status {
    match error {
        StoreError::Corrupt { detail } => {
            status(Code::DataLoss, codes::STATE_CORRUPTED, format!("the log is damaged: {detail}"))
        }
        _ => {
            tracing::error!(error = error as &dyn std::error::Error, "the store could not be read");
            unavailable()
        }
    }
}

/// A run that cannot be read.
pub(crate) fn load(error: &LoadError) -> Status {
    match error {
        LoadError::Damaged(damage) => damaged(damage),
        LoadError::Store(error) => store(error),
    }
}

/// A run in quarantine, or one that belongs there.
pub(crate) fn damaged(damage: &Damage) -> Status {
    let mut metadata = HashMap::from([
        ("run_id".to_owned(), damage.run.to_string()),
        ("seq".to_owned(), damage.seq.to_string()),
        ("reason".to_owned(), damage.reason.name().to_owned()),
    ]);
    if let Some(position) = damage.position {
        metadata.insert("position".to_owned(), position.0.to_string());
    }
    with_details(Code::DataLoss, codes::LOG_DAMAGED, damage.to_string(), ErrorDetails::new(), metadata)
}

/// Spec files that cannot be used, each error with its place.
pub(crate) fn specs(error: &SpecsError) -> Status {
    let mut details = ErrorDetails::new();
    if let SpecsError::Invalid(errors) = error {
        for error in errors.iter().take(100) {
            let place = format!("{}:{}:{}", error.file, error.line, error.column);
            let key = if error.key.is_empty() { String::new() } else { format!("{}: ", error.key) };
            details.add_bad_request_violation(place, format!("{key}{} ({})", error.message, error.code));
        }
    }
    let first = error.to_string().lines().next().unwrap_or_default().to_owned();
    let message = format!("the specs stay unchanged: {first}");
    with_details(Code::FailedPrecondition, codes::SPEC_FILE_INVALID, message, details, HashMap::new())
}

/// What helps where the catalogue is empty: no worker could serve a spec of it.
pub(crate) const WITHOUT_SPECS: &str = "Check spec files with `capataz router lint --specs DIR`, then start the daemon with them: `capataz serve --specs DIR`.";

/// The catalogue is empty.
pub(crate) fn no_specs() -> Status {
    with_details(
        Code::FailedPrecondition,
        codes::SPEC_NOT_AVAILABLE,
        "no specs are loaded: put spec files into a folder and name it with `specs_dir` or --specs",
        ErrorDetails::new(),
        HashMap::from([("advice".to_owned(), WITHOUT_SPECS.to_owned())]),
    )
}

/// There is no spec of that name.
pub(crate) fn spec_not_found<'a>(spec: &str, known: impl IntoIterator<Item = &'a str>) -> Status {
    let near = capataz_policy::registry::suggest_agents(spec, known);
    let mut metadata = HashMap::new();
    let mut message = format!("there is no spec {spec:?}");
    if !near.is_empty() {
        message = format!("{message}; similar: {}", near.join(", "));
        metadata.insert("suggestions".to_owned(), near.join(", "));
    }
    with_details(Code::NotFound, codes::SPEC_NOT_FOUND, message, ErrorDetails::new(), metadata)
}

/// An error of the contract that refuses a call. It and the errors in it are violations with their codes, each at its place in
/// the request.
pub(crate) fn contract(
    grpc: Code,
    error: &v1::Error,
    path_of: impl Fn(&v1::Error) -> Option<String>,
) -> Status {
    let mut metadata = HashMap::new();
    if !error.suggestions.is_empty() {
        metadata.insert("suggestions".to_owned(), error.suggestions.join(", "));
    }
    if let Some(action) = &error.suggested_action {
        metadata.insert("suggested_action".to_owned(), action.clone());
    }
    if let Some(reason) = &error.reason {
        metadata.insert("reason".to_owned(), reason.clone());
    }
    if !error.options.is_empty() {
        metadata.insert("options".to_owned(), error.options.join(", "));
    }
    let mut violations = Vec::new();
    let mut more = 0_usize;
    for one in std::iter::once(error).chain(&error.details) {
        let path = path_of(one);
        // An error without a place that has no other errors in it is told by the message alone.
        if path.is_none() && std::ptr::eq(one, error) {
            continue;
        }
        if violations.len() == MOST_VIOLATIONS {
            more = more.saturating_add(1);
            continue;
        }
        let suggestions = match one.suggestions.as_slice() {
            [] => String::new(),
            names => format!("; similar: {}", names.join(", ")),
        };
        violations.push(FieldViolation {
            field: path.unwrap_or_default(),
            description: format!("{}{suggestions}", one.message),
            reason: one.code.clone(),
            localized_message: None,
        });
    }
    violations.extend((more > 0).then(|| left_out(more)));
    let mut details = ErrorDetails::new();
    if !violations.is_empty() {
        details.set_bad_request(violations);
    }
    because(grpc, &error.code, error.message.clone(), details, metadata)
}

/// Nothing of an error is at a place of the request.
pub(crate) fn nowhere(_: &v1::Error) -> Option<String> {
    None
}

/// Why the daemon did nothing, or cannot say whether it did.
pub(crate) fn declined(declined: &Declined) -> Status {
    match declined {
        Declined::Overloaded { retry_after_ms } => overloaded(*retry_after_ms),
        Declined::Draining => status(Code::Unavailable, codes::DRAINING, "the daemon is shutting down"),
        Declined::Unavailable => unavailable(),
        Declined::Damaged(damage) => damaged(damage),
    }
}

/// The core has not answered in time.
pub(crate) fn hangs() -> Status {
    let message = "the core of the daemon does not answer; the daemon has to be started again";
    status(Code::Unavailable, codes::UNAVAILABLE, message)
}

/// Why a start has started nothing.
pub(crate) fn start(reply: &StartReply) -> Status {
    match reply {
        StartReply::KeyReused { run } => status(
            Code::AlreadyExists,
            codes::IDEMPOTENCY_KEY_REUSED,
            format!("the idempotency key belongs to another request, that of run {run}"),
        ),
        StartReply::UnknownAgents { error, .. } => contract(Code::NotFound, error, nowhere),
        StartReply::Refused(refusal) => refused(refusal),
        StartReply::BaseGone => {
            let message = "the run is not forked: it was removed meanwhile, or its log is damaged";
            not_forked(message.to_owned(), None, None)
        }
        StartReply::Started { .. } | StartReply::Finished { .. } | StartReply::Existing { .. } => {
            unavailable()
        }
    }
}

/// Why a command was not carried out.
pub(crate) fn command(reply: &CommandReply) -> Status {
    match reply {
        CommandReply::NotActive { run } => {
            status(Code::FailedPrecondition, codes::RUN_FINISHED, format!("run {run} has finished"))
        }
        CommandReply::SeqMismatch { actual } => status(
            Code::Aborted,
            codes::SEQ_MISMATCH,
            format!("the run is at event {actual}, not at the one that the request expects"),
        ),
        CommandReply::Refused(refusal) => refused(refusal),
        CommandReply::Done { .. } => unavailable(),
    }
}

/// Why a run was not removed.
pub(crate) fn removal(run: RunId, removal: Removal) -> Status {
    let in_use = |message| status(Code::FailedPrecondition, codes::RUN_IN_USE, message);
    match removal {
        Removal::Missing => not_found(&run.to_string()),
        Removal::Unfinished => in_use(format!("run {run} has not finished, and is not in quarantine")),
        Removal::Held => in_use(format!("an unfinished run needs run {run}")),
        Removal::Removed { .. } => unavailable(),
    }
}

pub(crate) fn blob_not_found(blake3: &str) -> Status {
    status(Code::NotFound, codes::BLOB_NOT_FOUND, format!("there is no blob {blake3}"))
}

/// Why a session was not moved.
pub(crate) fn transition(reply: &TransitionReply) -> Status {
    match reply {
        TransitionReply::SessionNotFound => {
            status(Code::NotFound, codes::SESSION_NOT_FOUND, "there is no such session")
        }
        TransitionReply::TransitionNotFound => status(
            Code::NotFound,
            codes::TRANSITION_NOT_FOUND,
            "no answer to that request suggests a transition that is still open",
        ),
        TransitionReply::Accepted(_) => unavailable(),
    }
}

fn refused(refusal: &Refusal) -> Status {
    let message = refusal.to_string();
    match refusal {
        Refusal::RunFinished => status(Code::FailedPrecondition, codes::RUN_FINISHED, message),
        Refusal::Rule(error) => match error.code.as_str() {
            "TASK_NOT_FOUND" => contract(Code::NotFound, error, |_| Some("task".to_owned())),
            "PHASE_NOT_FOUND" => contract(Code::NotFound, error, |_| Some("phase".to_owned())),
            _ => contract(Code::FailedPrecondition, error, nowhere),
        },
        Refusal::QuestionNotFound { .. } => status(Code::NotFound, codes::QUESTION_NOT_FOUND, message),
        Refusal::QuestionAnswered { .. } => {
            status(Code::FailedPrecondition, codes::QUESTION_ANSWERED, message)
        }
        Refusal::NotAnOption { .. } => invalid_field("answer", "option", message),
        Refusal::WrongValue { .. } => invalid_field("value", "type", message),
        Refusal::BreaksSchema { violations } => breaks_schema(violations),
        Refusal::QuestionRevised { .. } => status(Code::FailedPrecondition, codes::QUESTION_REVISED, message),
        Refusal::RequestReused { .. } => status(Code::AlreadyExists, codes::REQUEST_ID_REUSED, message),
        Refusal::Unjudged | Refusal::Outdated | Refusal::Corrupt(_) => unavailable(),
    }
}

/// An error whose answer has no room for all of it: its code, the beginning of its message, and the count of the errors in it.
pub(crate) fn abridged(error: v1::Error) -> v1::Error {
    let more = match error.details.split_last() {
        // The last one may stand for others already.
        Some((last, before)) => more_of(&last.message).unwrap_or(1).saturating_add(before.len()),
        None => 0,
    };
    let counted =
        v1::Error { code: error.code.clone(), message: left_out(more).description, ..v1::Error::default() };
    let details = (more > 0).then_some(counted).into_iter().collect();
    v1::Error { message: cut(&error.message), details, ..error }
}

/// A status as an error of the contract, for answers that hold several.
pub(crate) fn to_contract(status: &Status) -> v1::Error {
    let details = status.get_error_details();
    let code =
        details.error_info().map_or_else(|| format!("{:?}", status.code()), |info| info.reason.clone());
    let violations = details.bad_request().map(|bad| bad.field_violations.as_slice()).unwrap_or_default();
    v1::Error {
        severity: codes::lookup(&code).map_or(0, |entry| entry.severity.to_proto() as i32),
        message: status.message().to_owned(),
        details: violations
            .iter()
            .map(|violation| v1::Error {
                code: match violation.reason.as_str() {
                    "" => code.clone(),
                    reason => reason.to_owned(),
                },
                message: match violation.field.as_str() {
                    "" => violation.description.clone(),
                    field => format!("{field}: {}", violation.description),
                },
                ..v1::Error::default()
            })
            .collect(),
        code,
        ..v1::Error::default()
    }
}
