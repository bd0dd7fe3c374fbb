//! Deadlines that have passed.

use std::collections::BTreeMap;

use capataz_contracts::v1::{self, event::Body};
use capataz_policy::codes;
use capataz_policy::severity::Severity;
use capataz_policy::timeout;

use super::turn::Turn;
use super::{Refusal, browser, cancel, deadline, machine, report, settle};
use crate::fold::activity::Step;
use crate::fold::state::{RunState, Timer, Timestamp};
use crate::input::{Observed, TaskRef};

pub(super) fn handle(turn: &mut Turn<'_>, mut observed: BTreeMap<TaskRef, Observed>) -> Result<(), Refusal> {
    turn.refuse_finished()?;
    let mut before = None;
    while let Some(next) = due(turn) {
        // A timer that stays after it has fired would fire for ever.
        if turn.is_broken() || before == Some(next) {
            return Err(Refusal::Outdated);
        }
        before = Some(next);
        let (_, task, timer) = next;
        fire(turn, task, timer, &mut observed)?;
    }
    Ok(())
}

/// The earliest timer that is due.
fn due(turn: &Turn<'_>) -> Option<(Timestamp, TaskRef, Timer)> {
    let running = turn.state.timers.first();
    let held = turn.state.held_timers.first().filter(|_| turn.state.held_since.is_none());
    let first = match (running, held) {
        (Some(running), Some(held)) => Some(running.min(held)),
        (one, other) => one.or(other),
    };
    first.filter(|(at, ..)| *at <= turn.now.clock).copied()
}

fn fire(
    turn: &mut Turn<'_>,
    task: TaskRef,
    timer: Timer,
    observed: &mut BTreeMap<TaskRef, Observed>,
) -> Result<(), Refusal> {
    match timer {
        Timer::StartBy => {
            let (status, error) = turn.state.rules().not_taken(turn.state, task);
            settle::fail(turn, task, status, error, None)
        }
        Timer::Retry => {
            turn.emit(Body::TaskRetryDue(v1::TaskRetryDue { wave: task.wave, task: task.task }));
            browser::queue_again(turn, task)
        }
        Timer::Imminent => {
            let activity = turn.state.activity(task).ok_or(Refusal::Outdated)?;
            let remaining = activity.deadline.map_or(0, |deadline| deadline.clock.since(turn.now.clock));
            // The deadline has passed meanwhile, so that a warning would be pointless.
            if remaining <= 0 {
                return fire(turn, task, Timer::Deadline, observed);
            }
            let name = turn.declared(task)?.name.clone();
            let notice = timeout::timeout_imminent_notice(&name, settle::duration(remaining));
            turn.notice(v1::NoticeKind::TimeoutImminent, notice, Some(task));
            Ok(())
        }
        Timer::AttemptDeadline => {
            cancel::request_cancel(turn, task, v1::CancelReason::AttemptTimeout);
            Ok(())
        }
        Timer::Deadline => {
            let activity = turn.state.activity(task).ok_or(Refusal::Outdated)?;
            if matches!(activity.step, Step::Leased(_) | Step::Child(_)) {
                return deadline::exceeded(turn, task, observed.get(&task).cloned().unwrap_or_default());
            }
            settle::time_out(turn, task, Observed::default(), None)
        }
        Timer::PutAway => browser::put_away(turn),
        Timer::Machine => machine::overdue(turn),
        Timer::Grace => {
            let activity = turn.state.activity(task).ok_or(Refusal::Outdated)?;
            let Some(cancel) = activity.lease().and_then(|lease| lease.cancel) else {
                return Err(Refusal::Outdated);
            };
            let observed = observed.remove(&task).unwrap_or_default();
            report::stopped(turn, task, cancel.reason, observed, None)
        }
    }
}

/// Settles a task that no worker took within its limit for the wait.
pub(crate) fn schedule_to_start_error(run: &RunState, task: TaskRef) -> v1::Error {
    let waited = run.plan.timeouts_of(task).schedule_to_start().unwrap_or_default();
    let agent = run.plan.task(task).map(|declared| declared.agent.as_str()).unwrap_or_default();
    v1::Error {
        code: codes::SCHEDULE_TO_START_TIMEOUT.into(),
        message: format!("no worker took the task within {waited:?}; agent {agent:?}"),
        severity: Severity::High.to_proto().into(),
        can_continue: Some(true),
        options: ["retry", "skip", "abort"].map(str::to_owned).to_vec(),
        ..v1::Error::default()
    }
}
