//! The holder of a lease is gone. A lost lease does not count as an attempt of the task, but a task can lose only so many.

use capataz_contracts::v1::{self, event::Body};
use capataz_policy::aggregation::ResultStatus;
use capataz_policy::codes;
use capataz_policy::severity::Severity;

use super::turn::Turn;
use super::{Refusal, browser, question, report, settle};
use crate::effect::Effect;
use crate::input::{Observed, TaskRef};
use crate::planted::{self, Fault};

/// Lost leases after which a task fails with WORKER_LOST.
const MAX_LOSSES: u32 = 5;

pub(super) fn handle(
    turn: &mut Turn<'_>,
    task: TaskRef,
    lease: u64,
    reason: v1::LeaseLossReason,
) -> Result<(), Refusal> {
    let activity = turn.state.activity(task).ok_or(Refusal::Outdated)?;
    let Some(held) = activity.lease().filter(|held| held.token == lease) else {
        return Err(Refusal::Outdated);
    };
    let (cancel, worker) = (held.cancel, held.worker.clone());
    // A worker that gives a task back before it has begun is not lost, and the task has had no effect. But a task that
    // nobody takes does not go round for ever.
    let (returned, forked) = (v1::LeaseLossReason::Returned, v1::LeaseLossReason::Forked);
    let is_lost = reason != returned && reason != forked;
    let unbegun = reason == returned || reason == v1::LeaseLossReason::ReturnedTooOften;
    let losses = activity.losses.saturating_add(u32::from(is_lost));
    if let Some(cancel) = cancel {
        return report::stopped(turn, task, cancel.reason, Observed::default(), None);
    }
    let repeats = planted::is(Fault::ActionRepeatedAfterUnknownOutcome) && turn.state.uses_browser();
    if turn.declared(task)?.at_most_once && !unbegun && !repeats {
        return question::outcome(turn, task);
    }
    if losses >= MAX_LOSSES && is_lost {
        let message = match unbegun {
            false => format!("{losses} leases were lost, the last one by worker {worker:?}"),
            true => {
                format!("no worker takes the task; worker {worker:?} was the last one that handed it back")
            }
        };
        let error = v1::Error {
            code: codes::WORKER_LOST.into(),
            message,
            severity: Severity::High.to_proto().into(),
            can_continue: Some(true),
            options: ["retry", "skip", "abort"].map(str::to_owned).to_vec(),
            ..v1::Error::default()
        };
        return settle::fail(turn, task, ResultStatus::Error, error, None);
    }
    turn.effect(Effect::Revoke { task, lease });
    turn.emit(Body::TaskLeaseLost(v1::TaskLeaseLost {
        wave: task.wave,
        task: task.task,
        lease,
        reason: reason.into(),
        losses,
    }));
    browser::queue_again(turn, task)
}
