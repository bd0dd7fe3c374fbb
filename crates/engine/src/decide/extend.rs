//! More time for a running task; within the grace period it withdraws the cancel of an exceeded deadline.

use capataz_contracts::v1::{self, event::Body};
use capataz_policy::codes;
use capataz_policy::lifecycle::TaskState;
use capataz_policy::timeout;

use super::deadline::{self, EXTEND};
use super::lease::milliseconds;
use super::turn::Turn;
use super::{Refusal, refuse_with, rollback, settle};
use crate::effect::Effect;
use crate::fold::state::{Moment, Timestamp};
use crate::input::TaskRef;

pub(super) fn handle(turn: &mut Turn<'_>, name: &str, by_ms: i64, request_id: String) -> Result<(), Refusal> {
    let task = turn.find(name)?;
    turn.refuse_finished()?;
    may(turn, task)?;
    by(turn, task, by_ms, request_id)?;
    deadline::withdraw(turn, task, EXTEND);
    Ok(())
}

/// Whether the task may have more time now.
///
/// # Errors
/// Why not.
pub(super) fn may(turn: &Turn<'_>, task: TaskRef) -> Result<(), Refusal> {
    let name = &turn.declared(task)?.name;
    let state = turn.state.activity(task).map_or(TaskState::Init, |activity| activity.state);
    let activity = turn.state.activity(task).filter(|activity| !activity.is_settled());
    let refused = || {
        let why = || format!("task {name:?} is {state} and has no time that runs");
        // Who wants more time does not want what was done to be lost.
        Err(Refusal::transition(state, TaskState::Active, why).without(rollback::CORRECT))
    };
    let Some(activity) = activity.filter(|activity| activity.deadline.is_some()) else { return refused() };
    // The task is told to stop, or will be as soon as a worker holds it: more time would delay the end of the run.
    if turn.state.stop_reason().is_some() {
        return refused();
    }
    // A child that was told to end cannot be told to go on.
    if activity.child().is_some_and(|child| child.cancel.is_some()) {
        return refused();
    }
    let Some(lease) = activity.lease() else { return Ok(()) };
    match lease.cancel.map(|cancel| cancel.reason) {
        None => Ok(()),
        Some(v1::CancelReason::Timeout) if lease.cancel_is_final => {
            let message = format!(
                "task {name:?} was told to end, and its agent {:?} cannot go on after that",
                agent(turn, task)
            );
            Err(refuse_with(codes::TASK_ENDING, &message))
        }
        Some(v1::CancelReason::Timeout) => Ok(()),
        // The task was stopped for another reason than its deadline, so that more time would change nothing.
        Some(_) => refused(),
    }
}

fn agent<'a>(turn: &'a Turn<'_>, task: TaskRef) -> &'a str {
    turn.declared(task).map_or("", |declared| &declared.agent)
}

/// Moves the deadline of a task that may have more time.
pub(super) fn by(turn: &mut Turn<'_>, task: TaskRef, by_ms: i64, request_id: String) -> Result<(), Refusal> {
    let activity = turn.state.activity(task).ok_or(Refusal::Outdated)?;
    let deadline = activity.deadline.ok_or(Refusal::Outdated)?;
    let withdrawn = activity.lease().is_some_and(|lease| lease.cancel.is_some());
    let clock = deadline.clock.plus(by_ms).max(turn.now.clock.plus(1));
    let deadline_in_ms = clock.since(turn.now.clock);
    let deadline = Moment { clock, wall: deadline.wall_at(clock) };
    turn.emit_request(Body::TaskExtended(v1::TaskExtended {
        wave: task.wave,
        task: task.task,
        deadline_ms: deadline.wall.0,
        deadline_in_ms,
        cancel_withdrawn: withdrawn,
        request_id,
        by_ms,
        warn_before_ms: warning(turn, task, clock),
    }));
    if let Some((lease, _)) = turn.state.lease_of(task) {
        turn.effect(Effect::Extend { task, lease, deadline, cancel_withdrawn: withdrawn });
    }
    Ok(())
}

/// How long before this deadline the task is warned. All of the time that it has counts, not what it had at first.
pub(super) fn warning(turn: &Turn<'_>, task: TaskRef, deadline: Timestamp) -> Option<i64> {
    let started = turn.state.activity(task)?.started?;
    timeout::warning(settle::duration(deadline.since(started.clock))).map(milliseconds)
}
