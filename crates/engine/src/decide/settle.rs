//! The one end of an activation, and what follows from it.

use std::time::Duration;

use capataz_contracts::v1::{self, event::Body};
use capataz_policy::aggregation::{self, AggregationKind, ResultStatus};
use capataz_policy::codes::{self, INPUT_UNRESOLVED};
use capataz_policy::lifecycle::{History, TaskState};
use capataz_policy::retry;
use capataz_policy::severity::{self, Severity};
use capataz_policy::timeout;

use super::turn::Turn;
use super::{Refusal, advance, cancel, deadline, question};
use crate::effect::Effect;
use crate::input::{Observed, TaskRef};
use crate::planted::{self, Fault};

/// The work is done.
pub(super) fn complete(
    turn: &mut Turn<'_>,
    task: TaskRef,
    output: Option<v1::Payload>,
    lease: Option<u64>,
) -> Result<(), Refusal> {
    let failed_attempts = turn.state.activity(task).ok_or(Refusal::Outdated)?.attempts.len();
    if failed_attempts > 0 {
        let name = turn.declared(task)?.name.clone();
        let failed_attempts = u32::try_from(failed_attempts).unwrap_or(u32::MAX);
        let notice = retry::retry_success_notice(&name, failed_attempts);
        turn.notice(v1::NoticeKind::RetrySuccess, notice, Some(task));
    }
    settle(turn, task, Ending { lease, ..Ending::success(output) })
}

/// The task succeeded in the run that this one continues.
pub(super) fn take_over(
    turn: &mut Turn<'_>,
    task: TaskRef,
    output: Option<v1::Payload>,
) -> Result<(), Refusal> {
    settle_without_advance(turn, task, Ending { taken_over: true, ..Ending::success(output) })
}

/// The condition under which a failure becomes a question.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Questioning {
    /// A HIGH failure becomes one if the plan says so.
    WhenHigh,
    /// No failure becomes one: a person has just declared it.
    Never,
}

/// The task has failed for good.
pub(super) fn fail(
    turn: &mut Turn<'_>,
    task: TaskRef,
    status: ResultStatus,
    error: v1::Error,
    lease: Option<u64>,
) -> Result<(), Refusal> {
    let failure = Failure::of(turn, task, error)?;
    fail_with_output(turn, task, status, failure, lease, None)
}

/// As [`fail`], of a failure that was judged before, and with an output.
pub(super) fn fail_with_output(
    turn: &mut Turn<'_>,
    task: TaskRef,
    status: ResultStatus,
    failure: Failure,
    lease: Option<u64>,
    output: Option<v1::Payload>,
) -> Result<(), Refusal> {
    settle_failure(turn, task, status, failure, lease, output, Questioning::WhenHigh)?;
    advance::advance(turn)
}

/// As [`fail`], for callers that look at the wave themselves afterwards.
pub(super) fn fail_without_advance(
    turn: &mut Turn<'_>,
    task: TaskRef,
    status: ResultStatus,
    error: v1::Error,
    lease: Option<u64>,
    ask: Questioning,
) -> Result<(), Refusal> {
    let failure = Failure::of(turn, task, error)?;
    settle_failure(turn, task, status, failure, lease, None, ask)
}

/// A failure of a task, and what it means for the run. That is decided once, of what the failing side has said.
pub(super) struct Failure {
    pub(super) error: v1::Error,
    pub(super) severity: Severity,
    /// It ends the run at once.
    pub(super) aborts: bool,
    /// The notice that no rule knows it.
    unclassified: Option<v1::Error>,
}

impl Failure {
    pub(super) fn of(turn: &Turn<'_>, task: TaskRef, error: v1::Error) -> Result<Self, Refusal> {
        let declared = turn.declared(task)?;
        let decisive = match planted::is(Fault::SeverityOfTheCause) {
            true => retry::original(&error),
            false => &error,
        };
        // What the plan declares, else what whoever failed declares, else what the rules say.
        let said = declared.severity.or_else(|| Severity::from_proto(decisive.severity));
        let classified = severity::classify(said, &decisive.code, &decisive.message);
        let aborting = match planted::is(Fault::DeclaredCriticalGoesOn) {
            true => severity::classify(None, &error.code, &error.message).severity,
            false => classified.severity,
        };
        let unclassified = (!classified.is_known).then(|| severity::unclassified(&declared.name, &error));
        Ok(Self {
            error,
            severity: classified.severity,
            aborts: turn.state.rules().aborts_when_critical() && aborting == Severity::Critical,
            unclassified,
        })
    }

    /// The same failure in the words of the engine's own verdict about it.
    pub(super) fn told(self, verdict: impl FnOnce(&v1::Error) -> v1::Error) -> Self {
        Self { error: verdict(&self.error), ..self }
    }
}

/// Settles a failed task.
fn settle_failure(
    turn: &mut Turn<'_>,
    task: TaskRef,
    status: ResultStatus,
    failure: Failure,
    lease: Option<u64>,
    output: Option<v1::Payload>,
    ask: Questioning,
) -> Result<(), Refusal> {
    let Failure { mut error, severity, aborts, unclassified } = failure;
    let declared = turn.declared(task)?;
    error.severity = severity.to_proto().into();
    error.is_critical = declared.critical;
    severity::complete(&mut error);
    if aborts {
        error.can_continue = Some(false);
    }
    let optional =
        !declared.critical && turn.state.plan.policy_of(task.wave).kind() == AggregationKind::CriticalPath;
    let optional = optional.then(|| aggregation::optional_agent_failed(&declared.name));
    let incomplete = never_active(turn, task, &declared.name);
    let abort_with = aborts.then(|| error.clone());
    let ending = Ending {
        state: TaskState::Failed,
        status,
        output,
        error: Some(error.clone()),
        severity: Some(severity),
        lease,
        taken_over: false,
    };
    settle_without_advance(turn, task, ending)?;
    let notices = [
        (v1::NoticeKind::Unclassified, unclassified),
        (v1::NoticeKind::IncompleteLifecycle, incomplete),
        (v1::NoticeKind::OptionalAgentFailed, optional),
    ];
    for (kind, notice) in notices {
        if let Some(notice) = notice {
            turn.notice(kind, notice, Some(task));
        }
    }
    if let Some(error) = abort_with {
        return cancel::abort(turn, error);
    }
    // Who has said that it is to end with what it has is not asked again.
    let is_said = deadline::is_terminated(turn.state, task);
    let asks = !is_said
        && ask == Questioning::WhenHigh
        && turn.state.rules().asks_when_high()
        && severity == Severity::High;
    if asks && turn.state.stop_reason().is_none() {
        question::failure(turn, task, error);
    }
    Ok(())
}

/// Fails a task whose input refers to an output that does not exist.
pub(super) fn fail_unresolved(turn: &mut Turn<'_>, task: TaskRef, message: String) -> Result<(), Refusal> {
    let error = codes::error(INPUT_UNRESOLVED, message);
    fail_without_advance(turn, task, ResultStatus::Error, error, None, Questioning::WhenHigh)
}

/// The notice INCOMPLETE_LIFECYCLE, if the failing task was never ACTIVE (seed 000, contract 2).
fn never_active(turn: &Turn<'_>, task: TaskRef, name: &str) -> Option<v1::Error> {
    let activity = turn.state.activity(task).filter(|activity| !activity.was_active())?;
    let mut history = History::new(activity.history.first().map_or(turn.now.wall.0, |step| step.at.0));
    history.record(TaskState::Failed, turn.now.wall.0).ok()?;
    history.validate(name).err()
}

/// The task's time is over.
pub(super) fn time_out(
    turn: &mut Turn<'_>,
    task: TaskRef,
    observed: Observed,
    lease: Option<u64>,
) -> Result<(), Refusal> {
    let error = timeout_error(turn, task, observed)?;
    fail(turn, task, ResultStatus::Timeout, error, lease)
}

/// As [`time_out`], for a task that begins again at once.
pub(super) fn time_out_without_advance(turn: &mut Turn<'_>, task: TaskRef) -> Result<(), Refusal> {
    let error = timeout_error(turn, task, Observed::default())?;
    fail_without_advance(turn, task, ResultStatus::Timeout, error, None, Questioning::Never)
}

/// TASK_TIMEOUT, with what is known of the work, and what can be done once it was ended.
pub(super) fn timeout_error(
    turn: &Turn<'_>,
    task: TaskRef,
    observed: Observed,
) -> Result<v1::Error, Refusal> {
    let activity = turn.state.activity(task).ok_or(Refusal::Outdated)?;
    // What was shown before is still there where nothing newer was seen.
    let shown = deadline::shown(turn.state, task).filter(|_| !planted::is(Fault::ShownIsForgotten));
    let partial_output =
        observed.partial_output.or_else(|| shown.and_then(|shown| shown.partial_output.clone()));
    // What was heard of its worker before it had the work says nothing of the work.
    let since = activity.lease().map(|lease| lease.since);
    let last_frame = observed.last_frame.filter(|at| since.is_none_or(|since| *at >= since));
    let last_frame = last_frame.map(|at| turn.now.wall_at(at).0);
    let last_frame = last_frame.or_else(|| shown.and_then(|shown| shown.last_health_check_ms));
    let elapsed = activity.elapsed_ms(turn.now.clock);
    let configured = match (activity.deadline, activity.started) {
        (Some(deadline), Some(started)) => deadline.clock.since(started.clock),
        _ => super::lease::milliseconds(turn.state.plan.timeouts_of(task).timeout()),
    };
    let name = &turn.declared(task)?.name;
    let mut error = timeout::task_timeout_error(
        name,
        duration(configured),
        duration(elapsed),
        last_frame,
        partial_output,
    );
    error.options = timeout::OPTIONS_AFTER_GRACE.iter().map(|option| (*option).to_owned()).collect();
    Ok(error)
}

/// The task is no longer wanted. One that was never leased is DELETED.
pub(super) fn cancel(
    turn: &mut Turn<'_>,
    task: TaskRef,
    reason: v1::CancelReason,
    partial: Option<v1::Payload>,
    lease: Option<u64>,
) -> Result<(), Refusal> {
    let ending = Ending { output: partial, lease, ..cancelled(turn, task, reason)? };
    settle(turn, task, ending)
}

/// The end of a task that is no longer wanted: DELETED where it was never leased.
pub(super) fn cancelled(turn: &Turn<'_>, task: TaskRef, reason: v1::CancelReason) -> Result<Ending, Refusal> {
    let activity = turn.state.activity(task).ok_or(Refusal::Outdated)?;
    let never_leased = activity.state == TaskState::Init || planted::is(Fault::LifecycleNotAsked);
    Ok(Ending {
        state: if never_leased { TaskState::Deleted } else { TaskState::Failed },
        status: ResultStatus::Cancelled,
        output: None,
        error: Some(cancelled_error(reason, turn.state.rules().why_taken_back())),
        severity: Some(Severity::Medium),
        lease: None,
        taken_over: false,
    })
}

fn cancelled_error(reason: v1::CancelReason, taken_back: &str) -> v1::Error {
    let why = match reason {
        v1::CancelReason::Policy => "the wave's policy has decided without it",
        v1::CancelReason::Aborted => "the run aborts",
        v1::CancelReason::RolledBack => taken_back,
        _ => "the run was cancelled",
    };
    v1::Error {
        code: codes::TASK_CANCELLED.into(),
        message: format!("cancelled: {why}"),
        severity: Severity::Medium.to_proto().into(),
        can_continue: Some(true),
        ..v1::Error::default()
    }
}

/// How an activation ends.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ending {
    pub(crate) state: TaskState,
    pub(crate) status: ResultStatus,
    pub(crate) output: Option<v1::Payload>,
    pub(crate) error: Option<v1::Error>,
    /// The severity of the failure, for the policy and the summary.
    pub(crate) severity: Option<Severity>,
    /// The lease whose answer this is.
    pub(crate) lease: Option<u64>,
    /// The task was at work in the run that this one continues, and not here.
    pub(crate) taken_over: bool,
}

impl Ending {
    fn success(output: Option<v1::Payload>) -> Self {
        Self {
            state: TaskState::Complete,
            status: ResultStatus::Success,
            output,
            error: None,
            severity: None,
            lease: None,
            taken_over: false,
        }
    }
}

fn settle(turn: &mut Turn<'_>, task: TaskRef, ending: Ending) -> Result<(), Refusal> {
    settle_without_advance(turn, task, ending)?;
    advance::advance(turn)
}

pub(super) fn settle_without_advance(
    turn: &mut Turn<'_>,
    task: TaskRef,
    ending: Ending,
) -> Result<(), Refusal> {
    let activity = turn.state.activity(task).ok_or(Refusal::Outdated)?;
    if activity.is_settled() {
        return Err(Refusal::Outdated);
    }
    let state = match ending.taken_over {
        // By ACTIVE to where every task goes from there.
        true => turn.enters(task, TaskState::Active).map(|_| ending.state)?,
        false => turn.enters(task, ending.state)?,
    };
    let was_queued = turn.state.is_queued(task);
    let activation = activity.activation;
    let attempts = activity.attempt;
    let duration_ms = activity.elapsed_ms(turn.now.clock);
    let live = activity.lease().map(|held| held.token);
    let evaluation = evaluation_with(turn, task, &ending)?;
    if was_queued && !ending.taken_over {
        turn.effect(Effect::Dequeue { task });
    }
    if let Some(token) = live.filter(|_| ending.lease.is_none()) {
        turn.effect(Effect::Revoke { task, lease: token });
    }
    let log = std::mem::take(&mut turn.log);
    let usage = turn.usage.take();
    turn.emit(Body::TaskSettled(Box::new(v1::TaskSettled {
        wave: task.wave,
        task: task.task,
        activation,
        state: state.to_proto().into(),
        status: ending.status.to_proto().into(),
        output: ending.output,
        error: ending.error,
        attempts,
        duration_ms,
        lease: ending.lease,
        evaluation: Some(evaluation),
        severity: ending.severity.map_or(v1::Severity::Unspecified, Severity::to_proto).into(),
        log,
        usage,
        taken_over: ending.taken_over,
    })));
    deadline::over(turn, task);
    Ok(())
}

/// The policy's view of the wave once this result is counted.
fn evaluation_with(turn: &Turn<'_>, task: TaskRef, ending: &Ending) -> Result<v1::Evaluation, Refusal> {
    let declared = turn.declared(task)?;
    let wave = turn.state.waves.get(task.wave as usize).ok_or(Refusal::Outdated)?;
    let outcome = declared.outcome(ending.status, ending.severity);
    Ok(wave.tally.evaluation_with(&outcome, turn.state.plan.policy_of(task.wave)))
}

/// Milliseconds as a duration; none below zero.
pub(super) fn duration(milliseconds: i64) -> Duration {
    Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0))
}
