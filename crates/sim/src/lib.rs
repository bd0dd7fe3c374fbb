//! The simulator: many worlds in virtual time, each from one seed, each run twice.
//!
//! A world has one daemon, of 1, 2 or 8 shards: the production [`Driver`](capataz_shard::Driver) with its shards and its
//! crew, the production [`journal`](capataz_shard::journal), [`Ring`](capataz_shard::feed::Ring)s and
//! [`Reader`](capataz_shard::feed::Reader)s over a [`MemoryStore`](capataz_store::MemoryStore). What is simulated lies
//! around it: the shards' thread and the writer's ([`daemon`], [`disk`], [`faults`], [`sweeps`]), the workers' streams ([`network`], [`worker`],
//! [`conduct`], [`host`]), clients ([`client`], [`wishes`]), sessions that are read ([`sessions`]) and subscribers ([`reader`]). None of that decides anything about a
//! run.
//!
//! An independent [`model`] sees acknowledgements and the event stream, and holds them against the named
//! [`Invariant`]s. Faults strike until the world has had its share of inputs; then they stop, and everything has to come
//! to its end within bounded virtual time.
//!
//! Nothing of this crate is shipped, and no other crate depends on it. It holds no orchestration logic: whatever decides
//! or stores is the production code. It has no clock, no thread of its own within a world, and no chance but the seed.
//!
//! [`Recorded`] replays the trace of a real daemon instead.
//!
//! Begin reading with [`world`].

mod asks;
mod bounds;
mod campaign;
mod client;
mod conduct;
mod coverage;
mod daemon;
mod damage;
mod disk;
mod faults;
mod forks;
mod host;
mod invariant;
mod model;
mod modes;
mod network;
mod pipelines;
mod plans;
#[cfg(feature = "planted-faults")]
mod planted;
mod reader;
mod record;
mod recorded;
mod rng;
mod rows;
mod scenario;
mod schedule;
mod schemas;
mod scripts;
mod sessions;
mod sweeps;
mod trace;
mod wire;
mod wishes;
mod worker;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

pub use campaign::{Campaign, Summary};
pub use coverage::{Coverage, CrashPoint, EVENT_KINDS, is_required};
pub use invariant::{Invariant, Violation};
#[cfg(feature = "planted-faults")]
pub use planted::{Caught, search};
pub use record::{Record, RecordError};
pub use recorded::Recorded;

use world::World;

/// What became of one world.
#[derive(Debug)]
pub struct Outcome {
    pub seed: u64,
    pub violation: Option<Violation>,
    /// Over every delivered input and every output.
    pub hash: u64,
    /// Inputs that were delivered to the core.
    pub inputs: u64,
    pub events: u64,
    pub runs: u64,
    pub coverage: Coverage,
    /// The last lines, where they were asked for.
    pub lines: Vec<String>,
}

/// Runs the world of a seed once, and keeps the last `keep_lines` lines of its trace.
#[must_use]
pub fn run_once(seed: u64, keep_lines: usize) -> Outcome {
    let mut world = World::new(seed, keep_lines);
    let result = catch_unwind(AssertUnwindSafe(|| world.run()));
    let violation = match result {
        Ok(result) => result.err(),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Some(Violation { invariant: Invariant::NoPanic, detail: text.unwrap_or_default() })
        }
    };
    Outcome {
        seed,
        violation,
        hash: world.trace.hash(),
        inputs: world.inputs,
        events: world.model.entries().len() as u64,
        runs: world.model.runs().count() as u64,
        coverage: std::mem::take(&mut world.coverage),
        lines: world.trace.into_lines(),
    }
}

/// Runs the world of a seed twice: the second time has to give the same trace.
#[must_use]
pub fn run_twice(seed: u64) -> Outcome {
    let mut first = run_once(seed, 0);
    let second = run_once(seed, 0);
    if first.violation.is_none() && first.hash != second.hash {
        let detail = format!("{:016x} and {:016x}", first.hash, second.hash);
        first.violation = Some(Violation { invariant: Invariant::SameTrace, detail });
    }
    first
}
