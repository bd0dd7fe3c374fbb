//! Pause and resume: no new leases and no retries in between; running work goes on.

use capataz_contracts::v1::{self, event::Body};

use super::Refusal;
use super::turn::Turn;
use crate::effect::Effect;
use crate::fold::digest;

pub(super) fn pause(turn: &mut Turn<'_>, request_id: String) -> Result<(), Refusal> {
    if turn.repeats(&request_id, digest::PAUSE)? {
        return Ok(());
    }
    turn.refuse_finished()?;
    turn.emit_request(Body::RunPaused(v1::RunPaused { request_id }));
    turn.effect(Effect::Hold);
    Ok(())
}

pub(super) fn resume(turn: &mut Turn<'_>, request_id: String) -> Result<(), Refusal> {
    if turn.repeats(&request_id, digest::RESUME)? {
        return Ok(());
    }
    turn.refuse_finished()?;
    turn.emit_request(Body::RunResumed(v1::RunResumed { request_id }));
    release(turn);
    Ok(())
}

/// Lets queued tasks be leased again, if nothing else holds the run.
pub(super) fn release(turn: &mut Turn<'_>) {
    if turn.state.may_lease() {
        turn.effect(Effect::Release);
    }
}
