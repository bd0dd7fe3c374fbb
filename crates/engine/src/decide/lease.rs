//! A worker takes a task; or there is no worker to take it.

use std::sync::Arc;

use capataz_contracts::browser::BROWSER_AGENT;
use capataz_contracts::v1::{self, event::Body};
use capataz_policy::codes;
use capataz_policy::lifecycle::TaskState;
use capataz_policy::severity::Severity;

use super::Refusal;
use super::turn::Turn;
use crate::effect::Effect;
use crate::fold::activity::Step;
use crate::input::TaskRef;
use crate::planted::{self, Fault};

/// Bits of a fencing token that hold the mark of the claim under which it was given.
const MARK_BITS: u32 = 32;

/// The fencing token of a lease that the event `seq` gives under `mark`: unique and increasing within the run, never used
/// again after a restart, and not the token of another lease that a copy of this run gives under another claim. Without a
/// mark, as before format 3, it is the number of the event.
fn token(seq: u64, mark: u32) -> u64 {
    match mark {
        0 => seq,
        mark => seq << MARK_BITS | u64::from(mark),
    }
}

/// The number of the event that gave a lease, by its fencing token.
pub(crate) fn given_at(token: u64) -> u64 {
    match token >> MARK_BITS {
        0 => token,
        seq => seq,
    }
}

/// The mark of the claim under which a lease was given, by its fencing token; 0 where it has none.
#[must_use]
pub fn mark_of(token: u64) -> u32 {
    let lower = u32::try_from(token & u64::from(u32::MAX)).unwrap_or_default();
    if token >> MARK_BITS == 0 { 0 } else { lower }
}

pub(super) fn handle(
    turn: &mut Turn<'_>,
    task: TaskRef,
    worker: String,
    mark: u32,
    output_schema: Option<Arc<str>>,
    cancel_is_final: bool,
) -> Result<(), Refusal> {
    if !turn.state.may_lease() || !turn.state.is_queued(task) {
        return Err(Refusal::Outdated);
    }
    let in_browser = turn.declared(task)?.agent == BROWSER_AGENT;
    if in_browser && turn.state.binding().is_some_and(|bound| bound.worker != worker) {
        return Err(Refusal::Outdated);
    }
    turn.enters(task, TaskState::Active)?;
    let activity = turn.state.activity(task).ok_or(Refusal::Outdated)?;
    let attempt = activity.next_attempt();
    let activation = activity.activation;
    let first = activity.started.is_none();
    let timeouts = turn.state.plan.timeouts_of(task);
    let (timeout, warning) = (milliseconds(timeouts.timeout()), timeouts.warning().map(milliseconds));
    let per_attempt = turn.state.plan.retry_of(task).timeout_per_attempt().map(milliseconds);
    let output_schema = match output_schema {
        Some(schema) => recorded(turn, &schema),
        None => None,
    };
    let mut lease = token(turn.next_seq(), mark);
    if planted::is(Fault::TokenReusedAfterRecovery) {
        lease = token(turn.state.leases_since_load + 1, mark);
    }
    turn.emit(Body::TaskLeased(v1::TaskLeased {
        wave: task.wave,
        task: task.task,
        activation,
        attempt,
        lease,
        worker,
        deadline_ms: first.then(|| turn.wall_in(timeout)),
        attempt_deadline_ms: per_attempt.map(|limit| turn.wall_in(limit)),
        warn_before_ms: warning.filter(|_| first),
        deadline_in_ms: first.then_some(timeout),
        attempt_deadline_in_ms: per_attempt,
        output_schema,
        cancel_is_final,
    }));
    turn.effect(Effect::Assign { task, lease });
    Ok(())
}

/// The schema of the task's output. The output is judged by it, and where a person may once have to say what the output was
/// nobody else knows what the worker had declared, so that it is recorded with the lease; its text once for each run.
fn recorded(turn: &Turn<'_>, schema: &str) -> Option<v1::RecordedSchema> {
    if !turn.state.rules().outcome_may_be_given() {
        return None;
    }
    let known = turn.state.schemas.iter().position(|known| known == schema);
    let number = known.unwrap_or(turn.state.schemas.len());
    let text = known.is_none().then(|| schema.to_owned());
    Some(v1::RecordedSchema { number: u32::try_from(number).unwrap_or(u32::MAX), text })
}

/// Gives the notice that a task waits for an agent without a connected worker, once for each task.
pub(super) fn absent(turn: &mut Turn<'_>, task: TaskRef) -> Result<(), Refusal> {
    let activity = turn.state.activity(task).ok_or(Refusal::Outdated)?;
    if activity.absence_given || !matches!(activity.step, Step::Queued { .. }) {
        return Err(Refusal::Outdated);
    }
    let declared = turn.declared(task)?;
    let notice = v1::Error {
        code: codes::AGENT_ABSENT.into(),
        message: format!(
            "no worker that serves {:?} is connected; task {:?} waits",
            declared.agent, declared.name
        ),
        severity: Severity::Medium.to_proto().into(),
        can_continue: Some(true),
        ..v1::Error::default()
    };
    turn.notice(v1::NoticeKind::AgentAbsent, notice, Some(task));
    Ok(())
}

pub(super) fn milliseconds(duration: std::time::Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
