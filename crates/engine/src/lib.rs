//! Run state machines: `(state, input, now) -> (events, effects)`.
//!
//! This crate decides everything that happens to a run and does nothing: it never reads the clock, draws randomness,
//! spawns or does I/O, and it knows neither workers' connections nor the store. Time comes in as an argument; what must
//! happen outside goes out as an [`Effect`].
//!
//! - [`RunState`] is the fold of a run's events ([`RunState::apply`]). The module `fold` records and never decides, and
//!   imports no rule.
//! - [`start`] and [`decide`] handle one [`Input`]: they emit events, which are applied at once, and effects, which the
//!   caller runs only after the events are durable.
//! - [`RunState::outstanding`] names every unfinished effect from the state alone, so that a restart loses none.
//!
//! One activity machine ([`decide`](mod@decide)) schedules, leases, times out, retries, cancels and settles every kind of
//! work. A kind of run is a thin machine over it: a variant of one closed enum, in a folder of its own below `machine`,
//! behind one interface. Two ways lead out: an activity, which is leased and durable before it leaves, and a [`Query`],
//! which has no effect outside. A [`session`] is a stream of its own, to which asks add.
//!
//! Begin reading with [`decide`](mod@decide), then `machine/mod.rs`.

pub mod decide;
mod effect;
mod fold;
mod input;
mod machine;
mod outstanding;
pub mod plan;
mod query;
pub mod session;
mod snapshot;
mod view;

pub use capataz_contracts::browser::{BROWSER_AGENT, BROWSER_MEDIA_TYPE};
pub use capataz_policy::planted;
pub use decide::{
    Decision, Fork, MAX_DEPTH, MAX_PLAN_BYTES, Needs, NotForked, Refusal, StartRun, WantedChild, Work,
    decide, mark_of, never_ends, start,
};
pub use effect::Effect;
pub use fold::EVENT_FORMAT;
pub use fold::bytes::{MAX_RUN_BYTES, RunLimits};
pub use fold::state::{CorruptLog, Moment, Phase, RunState, Timestamp, Wall};
pub use input::{
    Answer, ChildNews, Computed, Input, Observed, Observing, QueryAnswer, Report, ResolvedInput, Routed,
    RoutedSpec, TaskRef,
};
pub use machine::Binding;
pub use machine::mode::{
    BUILT_IN_TOOLS, built_in_tool, contracts_of as mode_contracts, materialise as materialise_mode,
};
pub use machine::pipeline::materialise as materialise_pipeline;
pub use plan::{CHILD_AGENT, Plan};
pub use query::{
    Composition, Judgement, KnownPhase, Observation, Prompting, Purpose, Query, QueryId, Resolving, Rule,
    Summing, UNJUDGED, Verdict, Wanted,
};
pub use snapshot::{SNAPSHOT_FORMAT, SnapshotError};
pub use view::{AssignmentView, ViewOptions, without_values};
