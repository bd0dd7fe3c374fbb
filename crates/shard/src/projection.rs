//! Rows that only queries need. They follow from a run's state alone, are written with the events that they follow from, in
//! one commit, and can be made again from the log.

use capataz_engine::RunState;
use capataz_store::{Millis, Summary};

/// What the list of runs says of a run.
#[must_use]
pub fn listed(state: &RunState) -> Summary {
    let (settled, total) = state.progress();
    Summary {
        status: state.status() as i32,
        outcome: state.outcome().map_or(0, |outcome| outcome as i32),
        updated_at: Millis(state.updated_at_ms()),
        finished_at: state.finished_at_ms().map(Millis),
        tasks_total: total,
        tasks_settled: settled,
    }
}
