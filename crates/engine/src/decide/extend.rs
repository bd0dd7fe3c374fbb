//! More time for a running task; within the grace period it withdraws the cancel of an exceeded deadline.

use capataz_contracts::v1::{self, event::Body};
use capataz_policy::lifecycle::TaskState;
use capataz_policy::timeout;

use super::lease::milliseconds;
use super::turn::Turn;
use super::{Refusal, settle};
use crate::effect::Effect;
use crate::fold::digest;
use crate::fold::state::{Moment, Timestamp};
use crate::input::TaskRef;

pub(super) fn handle(turn: &mut Turn<'_>, name: &str, by_ms: i64, request_id: String) -> Result<(), Refusal> {
    let task = turn.find(name)?;
    if turn.repeats(&request_id, &digest::extend(task, by_ms))? {
        return Ok(());
    }
    turn.refuse_finished()?;
    let state = turn.state.activity(task).map_or(TaskState::Init, |activity| activity.state);
    let activity = turn.state.activity(task).filter(|activity| !activity.is_settled());
    let deadline = activity.and_then(|activity| activity.deadline);
    let refused = || {
        Refusal::transition(state, TaskState::Active, || {
            format!("task {name:?} is {state} and has no time that runs")
        })
    };
    let (Some(activity), Some(deadline)) = (activity, deadline) else { return Err(refused()) };
    // The task is told to stop, or will be as soon as a worker holds it: more time would delay the end of the run.
    if turn.state.stop_reason().is_some() {
        return Err(refused());
    }
    // A child that was told to end cannot be told to go on.
    if activity.child().is_some_and(|child| child.cancel.is_some()) {
        return Err(refused());
    }
    let cancel = activity.lease().and_then(|lease| lease.cancel);
    let withdrawn = match cancel.map(|cancel| cancel.reason) {
        None => false,
        Some(v1::CancelReason::Timeout) => true,
        // The task was stopped for another reason than its deadline, so that more time would change nothing.
        Some(_) => return Err(refused()),
    };
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
