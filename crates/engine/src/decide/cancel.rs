//! The end before the work is done: a user cancels the run, the run aborts itself, or a wave stops its remaining tasks.

use capataz_contracts::v1::{self, event::Body};
use capataz_policy::codes;

use super::turn::Turn;
use super::{Refusal, advance, child, settle};
use crate::effect::Effect;
use crate::fold::activity::Step;
use crate::fold::state::Phase;
use crate::input::TaskRef;

pub(super) fn handle(
    turn: &mut Turn<'_>,
    reason: String,
    force: bool,
    request_id: String,
) -> Result<(), Refusal> {
    turn.refuse_finished()?;
    let error = match &turn.state.phase {
        Phase::Ending { error } => error.clone(),
        _ => None,
    };
    turn.emit_request(Body::RunCancelRequested(v1::RunCancelRequested { reason, request_id, error }));
    end_tasks(turn, v1::CancelReason::RunCancelled, force)
}

/// The run ends itself because of `error`.
pub(super) fn abort(turn: &mut Turn<'_>, error: v1::Error) -> Result<(), Refusal> {
    if !matches!(turn.state.phase, Phase::Running) {
        return advance::advance(turn);
    }
    turn.emit(Body::RunCancelRequested(v1::RunCancelRequested {
        reason: error.code.clone(),
        request_id: String::new(),
        error: Some(error),
    }));
    end_tasks(turn, v1::CancelReason::Aborted, false)
}

/// The run has outgrown its limit and fails. No worker is waited for, because every further event makes the run larger.
pub(super) fn limit_exceeded(turn: &mut Turn<'_>, limit: u64) -> Result<(), Refusal> {
    turn.refuse_finished()?;
    if !matches!(turn.state.phase, Phase::Running) {
        return Err(Refusal::Outdated);
    }
    let message = if turn.state.seq < limit {
        format!("the state of the run has {} bytes, which is too much", turn.state.bytes())
    } else {
        format!("the run has more than {limit} events")
    };
    let error = codes::error(codes::RUN_LIMIT_EXCEEDED, message);
    turn.emit(Body::RunCancelRequested(v1::RunCancelRequested {
        reason: error.code.clone(),
        request_id: String::new(),
        error: Some(error),
    }));
    end_tasks(turn, v1::CancelReason::Aborted, true)
}

fn end_tasks(turn: &mut Turn<'_>, reason: v1::CancelReason, force: bool) -> Result<(), Refusal> {
    // No question of a run that ends needs an answer.
    let open: Vec<String> =
        turn.state.open_questions().map(|asked| asked.question.question_id.clone()).collect();
    for question_id in open {
        turn.emit(Body::QuestionAnswered(v1::QuestionAnswered {
            question_id,
            answer: WITHDRAWN.to_owned(),
            ..v1::QuestionAnswered::default()
        }));
    }
    turn.effect(Effect::Hold);
    stop_tasks(turn, reason, force)?;
    advance::advance(turn)
}

/// The recorded answer of a question that the end of its run has made superfluous.
pub(crate) const WITHDRAWN: &str = "withdrawn";

/// The policy has decided: the rest of the wave stops.
pub(super) fn stop_wave(turn: &mut Turn<'_>, wave: u32, evaluation: v1::Evaluation) -> Result<(), Refusal> {
    turn.emit(Body::WaveDecided(v1::WaveDecided { wave, evaluation: Some(evaluation) }));
    stop_tasks(turn, v1::CancelReason::Policy, false)
}

fn stop_tasks(turn: &mut Turn<'_>, reason: v1::CancelReason, force: bool) -> Result<(), Refusal> {
    let unsettled: Vec<TaskRef> = turn
        .state
        .activities()
        .filter(|(_, activity)| !activity.is_settled())
        .map(|(task, _)| task)
        .collect();
    for task in unsettled {
        let Some(activity) = turn.state.activity(task) else { continue };
        match &activity.step {
            Step::Child(_) => child::cancel(turn, task, reason, force),
            Step::Leased(lease) if !force => {
                if lease.cancel.is_none() {
                    request_cancel(turn, task, reason);
                }
            }
            Step::Settled => {}
            Step::Queued { .. } | Step::Backoff { .. } | Step::Asking { .. } | Step::Leased(_) => {
                cancel_now(turn, task, reason)?;
            }
        }
    }
    Ok(())
}

fn cancel_now(turn: &mut Turn<'_>, task: TaskRef, reason: v1::CancelReason) -> Result<(), Refusal> {
    let ending = settle::cancelled(turn, task, reason)?;
    settle::settle_without_advance(turn, task, ending)
}

/// Asks the holder of the task's lease to stop, or the run that the task is.
pub(super) fn request_cancel(turn: &mut Turn<'_>, task: TaskRef, reason: v1::CancelReason) {
    let Some((lease, _)) = turn.state.lease_of(task) else {
        return child::cancel(turn, task, reason, false);
    };
    let grace_ms = super::lease::milliseconds(turn.state.plan.timeouts_of(task).grace());
    turn.emit(Body::TaskCancelRequested(v1::TaskCancelRequested {
        wave: task.wave,
        task: task.task,
        lease,
        reason: reason.into(),
        grace_until_ms: turn.wall_in(grace_ms),
        grace_ms,
    }));
    turn.effect(Effect::Cancel { task, lease, reason, grace_ms });
}
