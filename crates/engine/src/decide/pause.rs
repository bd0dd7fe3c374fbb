//! Pause and resume: no new leases and no retries in between; running work goes on.

use capataz_contracts::v1::{self, event::Body};

use super::turn::Turn;
use super::{Refusal, advance, browser, child};
use crate::effect::Effect;

pub(super) fn pause(turn: &mut Turn<'_>, request_id: String) -> Result<(), Refusal> {
    turn.refuse_finished()?;
    turn.emit_request(Body::RunPaused(v1::RunPaused { request_id }));
    turn.effect(Effect::Hold);
    Ok(())
}

pub(super) fn resume(turn: &mut Turn<'_>, request_id: String) -> Result<(), Refusal> {
    turn.refuse_finished()?;
    turn.emit_request(Body::RunResumed(v1::RunResumed { request_id }));
    release(turn)?;
    if turn.state.may_lease() {
        browser::take_back(turn)?;
    }
    // A child that cannot be has failed its task, what waited for a browser that is not there is taken back, and an execution
    // goes on only now.
    advance::advance(turn)
}

/// Lets queued tasks be leased again, and begins those that are runs, if nothing else holds the run. Whoever calls this
/// looks at the wave afterwards.
pub(super) fn release(turn: &mut Turn<'_>) -> Result<(), Refusal> {
    if turn.state.may_lease() {
        child::begin_all(turn)?;
    }
    // A run that cannot begin may have ended this one.
    if turn.state.may_lease() {
        turn.effect(Effect::Release);
    }
    Ok(())
}
