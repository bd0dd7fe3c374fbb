//! A run that begins with what another one was after one of its events.

use std::collections::BTreeMap;

use capataz_contracts::v1::{self, event::Body};

use super::turn::Turn;
use super::{Decision, Refusal, advance, lost};
use crate::fold::state::{Moment, Phase, RunState, Wall};
use crate::input::TaskRef;
use crate::planted::{self, Fault};
use crate::snapshot::as_bytes;

/// What a run begins with that is forked from another one.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Fork {
    /// The other run.
    pub of: String,
    /// The new run.
    pub run_id: String,
    /// What the other run was after an event, after which it [may be forked](RunState::may_be_forked).
    pub state: Box<RunState>,
    /// What a pipeline has as its input from there on; `None` where that stays what it is.
    #[serde(with = "as_bytes::option")]
    pub input: Option<v1::Payload>,
}

/// Why no other run may go on from where a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotForked {
    /// It has ended.
    Ended,
    /// It has been told to end, or ends by itself: there is nothing to go on with.
    Ending,
    /// A task of it is a run that is at work, which has this one as its parent.
    ChildAtWork,
    /// What it has done is in a browser, and nowhere else.
    InBrowser,
}

impl RunState {
    /// Returns whether another run may go on from here.
    #[must_use]
    pub fn may_be_forked(&self) -> bool {
        self.not_forked().is_none()
    }

    /// Why no other run may go on from here.
    #[must_use]
    pub fn not_forked(&self) -> Option<NotForked> {
        if self.is_finished() {
            return Some(NotForked::Ended);
        }
        if matches!(self.phase, Phase::Ending { .. }) {
            return Some(NotForked::Ending);
        }
        if self.activities().any(|(_, activity)| activity.child().is_some()) {
            return Some(NotForked::ChildAtWork);
        }
        (!self.rules().may_be_forked()).then_some(NotForked::InBrowser)
    }
}

/// Starts the run. What was at work goes to other workers, or a person is asked what became of it; deadlines, queries and
/// questions stay open.
pub(super) fn start(
    seed: u64,
    fork: Fork,
    labels: BTreeMap<String, String>,
    now: Wall,
) -> Result<(RunState, Decision), Refusal> {
    let Fork { of, run_id, state, input } = fork;
    let mut state = *state;
    if !state.may_be_forked() {
        return Err(Refusal::Outdated);
    }
    state.seed = seed;
    let (seq, last) = (state.seq, state.last);
    // Nobody has had the run since then: its own clock stood still.
    let now = Moment { clock: last.clock, wall: now.max(last.wall) };
    let mut turn = Turn::new(&mut state, now);
    turn.emit(Body::RunForked(v1::RunForked {
        run_id: of,
        seq,
        fork_id: run_id,
        shifted_ms: now.wall.0.saturating_sub(last.wall.0),
        input,
        labels,
    }));
    let handled = take_over(&mut turn);
    let mut decision = turn.finish(handled)?;
    // What the other run has asked for, it has asked for itself.
    decision.effects = state.outstanding();
    Ok((state, decision))
}

fn take_over(turn: &mut Turn<'_>) -> Result<(), Refusal> {
    let leases: Vec<(TaskRef, u64)> = turn.state.leases().map(|(task, lease, _)| (task, lease)).collect();
    for (task, lease) in leases {
        if planted::is(Fault::ForkKeepsLeases) {
            break;
        }
        // One that ends may end others.
        if turn.state.lease_of(task).is_some_and(|(token, _)| token == lease) {
            lost::handle(turn, task, lease, v1::LeaseLossReason::Forked)?;
        }
    }
    advance::advance(turn)
}
