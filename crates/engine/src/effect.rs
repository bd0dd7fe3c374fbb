//! Everything that a run can ask of the world.

use capataz_contracts::v1;

use crate::fold::state::Moment;
use crate::input::TaskRef;
use crate::query::{Query, QueryId};

/// The closed list of outward effects. Each is keyed by run, task and lease, and may be repeated without harm.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// The task waits for a slot of its agent.
    Enqueue { task: TaskRef },
    /// The task no longer waits.
    Dequeue { task: TaskRef },
    /// The run holds still: none of its tasks is to be leased.
    Hold,
    /// The run goes on: its queued tasks wait for slots again.
    Release,
    /// Give the task to the worker that has the lease.
    Assign { task: TaskRef, lease: u64 },
    /// Ask the worker to stop.
    Cancel { task: TaskRef, lease: u64, reason: v1::CancelReason, grace_ms: i64 },
    /// Tell the worker its new deadline.
    Extend { task: TaskRef, lease: u64, deadline: Moment, cancel_withdrawn: bool },
    /// Tell the worker that its answer counts.
    Accept { task: TaskRef, lease: u64 },
    /// Tell the worker that its answer does not count, with the transition that it would have been where the task's lifecycle
    /// does not allow it.
    Refuse {
        task: TaskRef,
        lease: u64,
        worker: String,
        reason: v1::RefusalReason,
        error: Option<Box<v1::Error>>,
    },
    /// The worker is no longer waited for: end the work by force.
    Revoke { task: TaskRef, lease: u64 },
    /// Have the run that the task is created where it is not there yet, or cancelled where that is wanted
    /// ([`RunState::child`](crate::RunState::child)), and hear of its end.
    Child { task: TaskRef },
    /// Find the answer to this query, and pass it on with [`Input::Answered`](crate::Input::Answered). A query changes
    /// nothing outside, and need not wait for the commit.
    Query { query: QueryId, asked: Query },
    /// Tell the worker to close the run's browser and to keep its storage state.
    KeepBrowser { worker: String },
    /// The run has ended: answer those who wait for it.
    Finish,
}
