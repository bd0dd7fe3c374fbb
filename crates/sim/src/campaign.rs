//! Many seeds, on a few threads.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::{Coverage, Outcome, run_twice};

/// Which seeds to run, and on how many threads.
#[derive(Clone, Copy, Debug)]
pub struct Campaign {
    pub first_seed: u64,
    pub seeds: u64,
    pub threads: usize,
    /// Violations after which the campaign ends.
    pub most_violations: usize,
}

/// What the worlds of a campaign came to.
#[derive(Debug, Default)]
pub struct Summary {
    pub seeds: u64,
    /// Inputs of the first run of each seed.
    pub inputs: u64,
    /// The smallest number of inputs of a seed without violation.
    pub least_inputs: Option<u64>,
    pub events: u64,
    pub runs: u64,
    pub coverage: Coverage,
    /// Worlds in which an invariant did not hold, by seed.
    pub violations: Vec<Outcome>,
}

impl Campaign {
    /// Runs every seed twice.
    #[must_use]
    pub fn run(&self) -> Summary {
        let next = AtomicU64::new(self.first_seed);
        let enough = AtomicBool::new(false);
        let summary = Mutex::new(Summary::default());
        let end = self.first_seed.saturating_add(self.seeds);
        std::thread::scope(|scope| {
            for _ in 0..self.threads.max(1) {
                scope.spawn(|| {
                    while !enough.load(Ordering::Relaxed) {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed >= end {
                            return;
                        }
                        let outcome = run_twice(seed);
                        let mut summary = summary.lock().unwrap_or_else(PoisonError::into_inner);
                        summary.add(outcome);
                        if summary.violations.len() >= self.most_violations {
                            enough.store(true, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        let mut summary = summary.into_inner().unwrap_or_else(PoisonError::into_inner);
        summary.violations.sort_by_key(|outcome| outcome.seed);
        summary
    }
}

impl Summary {
    /// Adds what other seeds came to.
    pub fn merge(&mut self, other: Self) {
        self.seeds += other.seeds;
        self.inputs += other.inputs;
        self.events += other.events;
        self.runs += other.runs;
        self.coverage.merge(&other.coverage);
        self.violations.extend(other.violations);
        self.least_inputs = match (self.least_inputs, other.least_inputs) {
            (Some(one), Some(another)) => Some(one.min(another)),
            (one, another) => one.or(another),
        };
    }

    fn add(&mut self, outcome: Outcome) {
        self.seeds += 1;
        self.inputs += outcome.inputs;
        self.events += outcome.events;
        self.runs += outcome.runs;
        self.coverage.merge(&outcome.coverage);
        if outcome.violation.is_some() {
            self.violations.push(outcome);
        } else {
            let least = self.least_inputs.map_or(outcome.inputs, |least| least.min(outcome.inputs));
            self.least_inputs = Some(least);
        }
    }
}
