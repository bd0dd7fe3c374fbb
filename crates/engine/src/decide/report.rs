//! A worker answers an assignment. Only the holder of the live lease is heard.

use std::time::Duration;

use capataz_contracts::v1::{self, event::Body};
use capataz_policy::aggregation::ResultStatus;
use capataz_policy::codes;
use capataz_policy::lifecycle::{self, TaskState};
use capataz_policy::retry::{self, RetryDecision};
use capataz_policy::severity;

use super::lease::milliseconds;
use super::settle::Failure;
use super::turn::Turn;
use super::{Ending, Refusal, advance, browser, extend, judge, question, settle};
use crate::effect::Effect;
use crate::fold::activity::Activity;
use crate::fold::state::Timestamp;
use crate::input::{Observed, Report, TaskRef};
use crate::machine::{Meaning, Verdict};
use crate::planted::{self, Fault};

pub(super) fn handle(
    turn: &mut Turn<'_>,
    task: TaskRef,
    lease: u64,
    worker: String,
    mut report: Report,
) -> Result<(), Refusal> {
    if let Report::Failed(error) | Report::Unread(error, _) = &mut report {
        cut_causes(error, MAX_CAUSES);
    }
    let Some(activity) = turn.state.activity(task) else {
        let reason = match (turn.state.known(task), turn.state.plan.task(task)) {
            // What was at work in a wave that has not begun again was taken back.
            (Some(_), _) => v1::RefusalReason::StaleLease,
            (None, Some(_)) => return refuse_in_init(turn, task, lease, worker, &report),
            (None, None) => v1::RefusalReason::UnknownTask,
        };
        return refuse(turn, task, lease, worker, reason);
    };
    if activity.was_never_given() {
        if planted::is(Fault::CompletedInInit)
            && let Report::Completed(output) = &report
        {
            turn.effect(Effect::Accept { task, lease });
            return settle::complete(turn, task, Some(output.clone()), Some(lease));
        }
        return refuse_in_init(turn, task, lease, worker, &report);
    }
    if let Some(end) = &activity.end
        && activity.is_settled()
    {
        // The answer came before, and its confirmation was lost on the way.
        if end.lease == Some(lease) && end.worker.as_ref() == Some(&worker) {
            turn.effect(Effect::Accept { task, lease });
            return Ok(());
        }
        return refuse(turn, task, lease, worker, v1::RefusalReason::AlreadySettled);
    }
    let is_live = activity.lease().is_some_and(|held| held.token == lease);
    let holds = is_live && activity.lease().is_some_and(|held| held.worker == worker);
    let heard = holds || (planted::is(Fault::NoFenceCheck) && activity.lease().is_some());
    let Some(held) = activity.lease().filter(|_| heard) else {
        let reason = if is_live { v1::RefusalReason::NotYours } else { v1::RefusalReason::StaleLease };
        let is_new = !turn.state.refused.contains(&lease);
        refuse(turn, task, lease, worker.clone(), reason)?;
        if is_new {
            question::heard(turn, task, lease, &worker, report);
        }
        return Ok(());
    };
    let found = match &report {
        Report::Completed(output) => judge::found(turn.state, task, lease, &worker, output, None)?,
        Report::Judged(output, verdict) => {
            judge::found(turn.state, task, lease, &worker, output, Some(&**verdict))?
        }
        Report::Unread(error, verdict) => {
            judge::found_unread(turn.state, task, lease, &worker, error, verdict)?
        }
        Report::Failed(_) | Report::Cancelled(_) => judge::Found::default(),
    };
    let cancel = held.cancel.filter(|_| !planted::is(Fault::LateResultAfterCancelAccepted));
    turn.effect(Effect::Accept { task, lease });
    match (cancel, report) {
        // The work is done, though too late for its attempt; another attempt would do the work a second time.
        (Some(cancel), Report::Completed(output) | Report::Judged(output, _))
            if cancel.reason == v1::CancelReason::AttemptTimeout
                && turn.state.stop_reason().is_none()
                && turn.declared(task)?.at_most_once =>
        {
            match found.violations.is_empty() {
                true => settle::complete(turn, task, Some(found.value.unwrap_or(output)), Some(lease)),
                false => {
                    let error = judge::broken(&found.violations);
                    settle::fail(turn, task, ResultStatus::Error, error, Some(lease))
                }
            }
        }
        (Some(cancel), report) => {
            let partial_output = match report {
                Report::Completed(output) | Report::Judged(output, _) => Some(output),
                Report::Cancelled(partial) => partial,
                Report::Failed(_) | Report::Unread(..) => None,
            };
            let observed = Observed { last_frame: Some(turn.now.clock), partial_output };
            stopped(turn, task, cancel.reason, observed, Some(lease))
        }
        (None, Report::Completed(output) | Report::Judged(output, _)) => {
            let rules = turn.state.rules();
            let verdict = match found.violations.is_empty() {
                true => rules.completed(turn.state, task, found.value.unwrap_or(output), turn.now),
                false => rules.rejected(turn.state, task, found.violations, found.corrected),
            };
            judged(turn, task, verdict, lease)
        }
        (None, Report::Unread(..)) => {
            let rules = turn.state.rules();
            let verdict = rules.rejected(turn.state, task, found.violations, found.corrected);
            judged(turn, task, verdict, lease)
        }
        (None, Report::Failed(error)) => {
            let verdict = turn.state.rules().failed(turn.state, task, error);
            judged(turn, task, verdict, lease)
        }
        (None, Report::Cancelled(_)) => {
            let message = format!("worker {worker:?} cancelled the task by itself");
            let error = codes::error(codes::TASK_CANCELLED, message);
            attempt_failed(turn, task, error, Some(lease))
        }
    }
}

/// Carries out what the machine makes of its task's answer.
fn judged(turn: &mut Turn<'_>, task: TaskRef, verdict: Verdict, lease: u64) -> Result<(), Refusal> {
    for body in verdict.record {
        turn.emit(body);
    }
    match verdict.meaning {
        Meaning::Done(output) => settle::complete(turn, task, output, Some(lease)),
        Meaning::AttemptFailed { error, output, may_pass } => {
            attempt_failed_as(turn, task, error, Some(lease), output, may_pass)
        }
        Meaning::Failed(error) => settle::fail(turn, task, ResultStatus::Error, error, Some(lease)),
        Meaning::Settled(ending) => {
            settle::settle_without_advance(turn, task, Ending { lease: Some(lease), ..*ending })?;
            advance::advance(turn)
        }
    }
}

/// Refuses an answer and records that, once for each lease.
fn refuse(
    turn: &mut Turn<'_>,
    task: TaskRef,
    lease: u64,
    worker: String,
    reason: v1::RefusalReason,
) -> Result<(), Refusal> {
    // A lease that the run never gave is not recorded, so that a lying worker cannot make the log grow.
    let given =
        turn.state.activity(task).is_some() && (1..=turn.state.seq).contains(&super::lease::given_at(lease));
    let is_recorded =
        given && !turn.state.refused.contains(&lease) && turn.state.refused.len() < MAX_RECORDED_REFUSALS;
    tell_refused(turn, is_recorded, Refused { task, lease, worker, reason, error: None });
    Ok(())
}

/// Refuses an answer for a task that nobody was given. A completion is a transition that the lifecycle does not allow, and is
/// recorded once for each task: no lease bounds how often a worker can claim one.
fn refuse_in_init(
    turn: &mut Turn<'_>,
    task: TaskRef,
    lease: u64,
    worker: String,
    report: &Report,
) -> Result<(), Refusal> {
    let reason = v1::RefusalReason::NotBegun;
    let to = match report {
        Report::Completed(_) | Report::Judged(..) | Report::Unread(..) => TaskState::Complete,
        Report::Failed(_) | Report::Cancelled(_) => TaskState::Failed,
    };
    let error = lifecycle::transition(TaskState::Init, to).err().map(Box::new);
    let is_recorded = error.is_some() && !turn.state.refused_in_init.contains(&task);
    tell_refused(turn, is_recorded, Refused { task, lease, worker, reason, error });
    Ok(())
}

/// An answer that is not taken.
struct Refused {
    task: TaskRef,
    lease: u64,
    worker: String,
    reason: v1::RefusalReason,
    error: Option<Box<v1::Error>>,
}

/// Tells the worker that its answer is not taken, and the log as well where it is to be `recorded`.
fn tell_refused(turn: &mut Turn<'_>, recorded: bool, refused: Refused) {
    let Refused { task, lease, worker, reason, error } = refused;
    // Nothing follows a run's last event.
    if recorded && !turn.state.is_finished() {
        turn.emit(Body::ResultRefused(v1::ResultRefused {
            wave: task.wave,
            task: task.task,
            lease,
            worker: worker.clone(),
            reason: reason.into(),
            error: error.clone(),
        }));
    }
    turn.effect(Effect::Refuse { task, lease, worker, reason, error });
}

const MAX_RECORDED_REFUSALS: usize = 10_000;

/// Deepest chain of causes that is kept of a worker's error. An event nested deeper than its decoder reads would make
/// the whole log unreadable.
const MAX_CAUSES: u32 = 16;

fn cut_causes(error: &mut v1::Error, levels: u32) {
    if levels == 0 {
        error.cause = None;
        error.details.clear();
        return;
    }
    for inner in error.cause.as_deref_mut().into_iter().chain(&mut error.details) {
        cut_causes(inner, levels - 1);
    }
}

/// An attempt failed: another one follows, or the task has failed.
pub(super) fn attempt_failed(
    turn: &mut Turn<'_>,
    task: TaskRef,
    error: v1::Error,
    lease: Option<u64>,
) -> Result<(), Refusal> {
    attempt_failed_as(turn, task, error, lease, None, None)
}

/// As [`attempt_failed`], with a partial output, and with `may_pass` if the failing side knows whether a retry helps.
pub(super) fn attempt_failed_as(
    turn: &mut Turn<'_>,
    task: TaskRef,
    error: v1::Error,
    lease: Option<u64>,
    output: Option<v1::Payload>,
    may_pass: Option<bool>,
) -> Result<(), Refusal> {
    let mut failure = Failure::of(turn, task, error)?;
    let error = &failure.error;
    let activity = turn.state.activity(task).ok_or(Refusal::Outdated)?;
    let attempt = activity.attempt;
    let elapsed_ms = activity.elapsed_ms(turn.now.clock);
    let duration_ms = activity.worked_ms(turn.now.clock).unwrap_or(0);
    let retry = turn.state.plan.retry_of(task);
    let retry_after = error.retry_after_ms.and_then(|ms| u64::try_from(ms).ok()).map(Duration::from_millis);
    let draw = retry.jitters().then(|| jitter_draw(turn.state.seed, turn.next_seq()));
    let decision = if failure.aborts {
        RetryDecision::NonRetryable { reason: "a CRITICAL failure aborts the run".to_owned() }
    } else {
        let elapsed = settle::duration(elapsed_ms);
        match may_pass {
            None => retry.decide(&error.code, attempt, elapsed, retry_after, draw),
            Some(true) => retry.decide_retryable(attempt, elapsed, retry_after, draw),
            Some(false) => RetryDecision::NonRetryable {
                reason: "the failing side says that another attempt would not help".to_owned(),
            },
        }
    };
    let (max_attempts, total_timeout) = (retry.max_attempts(), retry.total_timeout());
    let attempts = records(activity, attempt, error, duration_ms);
    let failure = match decision {
        RetryDecision::Retry { delay } => {
            failure.error.severity = failure.severity.to_proto().into();
            severity::complete(&mut failure.error);
            return try_again(turn, task, failure.error, lease, output, delay);
        }
        RetryDecision::Exhausted => {
            failure.told(|error| retry::exhausted_error(error, attempts, max_attempts))
        }
        RetryDecision::TotalTimeoutExceeded => {
            let limit = total_timeout.unwrap_or_default();
            failure.told(|error| retry::total_timeout_exceeded_error(error, attempts, limit))
        }
        RetryDecision::NonRetryable { reason } => {
            failure.told(|error| retry::non_retryable_error(error, attempts, reason))
        }
    };
    settle::fail_with_output(turn, task, ResultStatus::Error, failure, lease, output)
}

/// Another attempt follows after the delay, unless the run is ending.
fn try_again(
    turn: &mut Turn<'_>,
    task: TaskRef,
    error: v1::Error,
    lease: Option<u64>,
    output: Option<v1::Payload>,
    delay: Duration,
) -> Result<(), Refusal> {
    if let Some(reason) = turn.state.stop_reason() {
        return settle::cancel(turn, task, reason, None, lease);
    }
    let activity = turn.state.activity(task).ok_or(Refusal::Outdated)?;
    let attempt = activity.attempt;
    let duration_ms = activity.worked_ms(turn.now.clock).unwrap_or(0);
    revoke_unanswered(turn, task, lease);
    let delay_ms = super::lease::milliseconds(delay);
    let log = std::mem::take(&mut turn.log);
    let usage = turn.usage.take();
    turn.emit(Body::TaskAttemptFailed(v1::TaskAttemptFailed {
        wave: task.wave,
        task: task.task,
        attempt,
        error: Some(error),
        duration_ms,
        delay_ms,
        retry_at_ms: turn.wall_in(delay_ms),
        log,
        output,
        usage,
    }));
    Ok(())
}

/// Ends the lease by force where its holder did not answer.
pub(super) fn revoke_unanswered(turn: &mut Turn<'_>, task: TaskRef, answered: Option<u64>) {
    if answered.is_none()
        && let Some((lease, _)) = turn.state.lease_of(task)
    {
        turn.effect(Effect::Revoke { task, lease });
    }
}

fn records(activity: &Activity, attempt: u32, error: &v1::Error, duration_ms: i64) -> Vec<v1::AttemptRecord> {
    let mut attempts = activity.attempts.clone();
    attempts.push(v1::AttemptRecord {
        attempt,
        status: v1::AttemptStatus::Failed.into(),
        error: Some(error.code.clone()),
        duration_ms,
        waited_ms: activity.waited_ms,
        usage: None,
    });
    // An error says what the seed has of attempts, and no more.
    attempts.iter_mut().for_each(|record| record.usage = None);
    attempts
}

/// The work was asked to stop and has stopped, or is no longer waited for.
pub(super) fn stopped(
    turn: &mut Turn<'_>,
    task: TaskRef,
    reason: v1::CancelReason,
    observed: Observed,
    lease: Option<u64>,
) -> Result<(), Refusal> {
    match reason {
        v1::CancelReason::Timeout => settle::time_out(turn, task, observed, lease),
        v1::CancelReason::AttemptTimeout => {
            // The effects of a worker that did not answer are unknown.
            if lease.is_none() && turn.declared(task)?.at_most_once {
                return question::outcome(turn, task);
            }
            let error = turn.state.rules().attempt_too_late(turn.state, task);
            attempt_failed(turn, task, error, lease)
        }
        reason => settle::cancel(turn, task, reason, observed.partial_output, lease),
    }
}

/// Bits that differ from run to run and from event to event, and are the same in every replay.
pub(super) fn mixed(seed: u64, seq: u64) -> u64 {
    let mut mixed = seed.wrapping_add(seq.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// A number in [0, 1) that differs from run to run and from event to event, and is the same in every replay.
fn jitter_draw(seed: u64, seq: u64) -> f64 {
    let mixed = mixed(seed, seq);
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit a double exactly")]
    let draw = (mixed >> 11) as f64 / (1u64 << 53) as f64;
    draw
}

/// A person lets a task whose outcome is unknown run again, as the same attempt: its worker may know the work by the
/// same idempotency key. The time that the person took is not the task's. Where nothing of the task's time was left when the
/// person was asked, it has all of it again: it would end as soon as it begins.
pub(super) fn run_again(turn: &mut Turn<'_>, task: TaskRef, asked_at: Timestamp) -> Result<(), Refusal> {
    let deadline = turn.state.activity(task).ok_or(Refusal::Outdated)?.deadline;
    if let Some(deadline) = deadline {
        let left = match deadline.clock.since(asked_at) {
            left if left > 0 || planted::is(Fault::AgainWithoutTime) => left,
            _ => milliseconds(turn.state.plan.timeouts_of(task).timeout()),
        };
        let until = turn.now.clock.plus(left);
        let by_ms = until.since(deadline.clock);
        if by_ms > 0 {
            turn.emit(Body::TaskExtended(v1::TaskExtended {
                wave: task.wave,
                task: task.task,
                deadline_ms: deadline.wall_at(until).0,
                deadline_in_ms: left,
                by_ms,
                warn_before_ms: extend::warning(turn, task, until),
                ..v1::TaskExtended::default()
            }));
        }
    }
    turn.emit(Body::TaskRetryDue(v1::TaskRetryDue { wave: task.wave, task: task.task }));
    browser::queue_again(turn, task)
}
