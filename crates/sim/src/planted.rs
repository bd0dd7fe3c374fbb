//! Faults planted into the production code: each has to be caught.

use capataz_engine::planted::{self, Fault};

use crate::{Violation, run_once};

/// How a planted fault was caught.
#[derive(Debug)]
pub struct Caught {
    pub fault: Fault,
    pub seed: u64,
    pub violation: Violation,
}

/// Plants `fault` and runs seeds from `first_seed` on until one shows it; `None` where none of `seeds` does.
///
/// The fault is planted for the whole process: nothing else may simulate meanwhile.
#[must_use]
pub fn search(fault: Fault, first_seed: u64, seeds: u64) -> Option<Caught> {
    planted::plant(Some(fault));
    let caught = (first_seed..first_seed.saturating_add(seeds)).find_map(|seed| {
        let violation = run_once(seed, 0).violation?;
        // It is the fault that breaks the invariant, and nothing else.
        planted::plant(None);
        let healthy = run_once(seed, 0).violation.is_none();
        planted::plant(Some(fault));
        healthy.then_some(Caught { fault, seed, violation })
    });
    planted::plant(None);
    caught
}
