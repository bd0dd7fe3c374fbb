//! The browser of a run: it is lost, or closed while the run waits for a person. A task that waited for it is taken back
//! before anybody gets it, so that it is never done in another one.

use capataz_contracts::v1;
use capataz_policy::aggregation::ResultStatus;

use super::settle::Questioning;
use super::turn::Turn;
use super::{Refusal, advance, child, settle};
use crate::fold::activity::Step;
use crate::fold::state::Phase;
use crate::input::TaskRef;

/// The worker that has the run's browser has lost it. What a worker still does there it answers for itself.
pub(super) fn lost(turn: &mut Turn<'_>, worker: &str, reason: v1::BrowserLossReason) -> Result<(), Refusal> {
    turn.refuse_finished()?;
    // A run that ends needs none any more.
    if !matches!(turn.state.phase, Phase::Running) {
        return Err(Refusal::Outdated);
    }
    let steps = turn.state.rules().browser_lost(worker, reason)?;
    advance::carry_out(turn, steps)?;
    take_back(turn)?;
    advance::advance(turn)
}

/// The run has waited for a person for too long to keep its browser open.
pub(super) fn put_away(turn: &mut Turn<'_>) -> Result<(), Refusal> {
    let steps = turn.state.rules().put_away();
    advance::carry_out(turn, steps)?;
    Ok(())
}

/// Takes back what waits for a browser that is not there any more. Whoever calls this looks at the wave afterwards.
pub(super) fn take_back(turn: &mut Turn<'_>) -> Result<(), Refusal> {
    let waits = |step: &Step| matches!(step, Step::Queued { .. } | Step::Backoff { .. });
    let waiting = turn.state.activities().filter(|(_, activity)| waits(&activity.step));
    let cannot = |task: TaskRef| Some((task, turn.state.rules().cannot_begin(turn.state, task)?));
    let cannot: Vec<(TaskRef, v1::Error)> = waiting.filter_map(|(task, _)| cannot(task)).collect();
    for (task, error) in cannot {
        settle::fail_without_advance(turn, task, ResultStatus::Error, error, None, Questioning::Never)?;
    }
    Ok(())
}

/// A task waits again for a slot of its agent, if what it is to be done in is still there.
pub(super) fn queue_again(turn: &mut Turn<'_>, task: TaskRef) -> Result<(), Refusal> {
    if !turn.state.may_lease() {
        return Ok(());
    }
    match turn.state.rules().cannot_begin(turn.state, task) {
        Some(error) => settle::fail(turn, task, ResultStatus::Error, error, None),
        None => child::enqueue(turn, task),
    }
}
