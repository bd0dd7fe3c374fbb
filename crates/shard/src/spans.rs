//! Where the parts of a run are in its trace.

use capataz_contracts::trace::{AWAITED, TraceContext};
use capataz_engine::RunState;
use capataz_engine::planted::{self, Fault};
use capataz_store::RunId;

/// The first span of a run.
pub(crate) fn of_run(run: RunId, state: &RunState) -> TraceContext {
    TraceContext::of_run(run.0.into_bytes(), TraceContext::parse(state.traceparent()))
}

/// The span of a lease, by its fencing token.
pub(crate) fn of_lease(run: RunId, state: &RunState, token: u64) -> TraceContext {
    let first = of_run(run, state);
    if planted::is(Fault::SpanOfTheRun) { first } else { first.at(run.0.into_bytes(), token) }
}

/// The span of what waits for a child of this run.
pub(crate) fn of_waiting(run: RunId, state: &RunState, child: RunId) -> TraceContext {
    let (run, child) = (run.0.into_bytes(), child.0.into_bytes());
    let parent =
        TraceContext::parse(state.traceparent()).filter(|_| !planted::is(Fault::ChildLeavesTheTrace));
    TraceContext::of_run(run, parent).at(child, AWAITED)
}
