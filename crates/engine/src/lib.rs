//! Run state machines: `(state, input, now) -> (events, effects)`.
//!
//! This crate decides everything that happens to a run and does nothing: it never reads the clock, draws randomness,
//! spawns or does I/O, and it knows neither workers' connections nor the store. Time comes in as an argument; what must
//! happen outside goes out as an [`Effect`].
//!
//! - [`RunState`] is the fold of a run's events ([`RunState::apply`]). `apply` records and never decides.
//! - [`start`] and [`decide`] handle one [`Input`]: they emit events, which are applied at once, and effects, which the
//!   caller runs only after the events are durable.
//! - [`RunState::outstanding`] names every unfinished effect from the state alone, so that a restart loses none.
//!
//! One activity machine ([`activity`]) schedules, leases, times out, retries, cancels and settles every kind of work; a
//! kind of run is a thin machine over it: [`mod@plan`] and `decide::advance` for plans, `ask` and `decide::ask` for asks,
//! `script` and `decide::script` for scripts.
//! A [`session`] is a stream of its own, to which asks add. Begin reading with [`decide`](mod@decide).

pub mod activity;
mod apply;
mod ask;
pub mod decide;
mod effect;
mod input;
mod outstanding;
pub mod plan;
pub mod planted;
mod script;
pub mod session;
mod snapshot;
mod state;
mod view;

pub use ask::AskStep;
pub use decide::{
    BROWSER_AGENT, BROWSER_MEDIA_TYPE, Decision, Refusal, StartRun, Work, decide, evidence_blobs, start,
};
pub use effect::Effect;
pub use input::{Input, Observed, Report, Routed, RoutedSpec, TaskRef};
pub use plan::Plan;
pub use script::ScriptStep;
pub use snapshot::{SNAPSHOT_FORMAT, SnapshotError};
pub use state::{CorruptLog, Phase, RunState, Timestamp};
pub use view::{AssignmentView, ViewOptions};
