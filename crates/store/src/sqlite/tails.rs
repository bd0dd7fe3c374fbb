//! What the writer remembers of runs, to save a query for each append.

#![expect(
    clippy::disallowed_types,
    reason = "the cache of known runs is looked up on every append and never iterated"
)]

use std::collections::HashMap;

use crate::port::RunId;

/// The last sequence numbers of recently written runs. Two generations keep the memory bounded without a list of uses.
pub(super) struct Tails {
    young: HashMap<RunId, u64>,
    old: HashMap<RunId, u64>,
    generation: usize,
}

impl Tails {
    pub(super) fn new(generation: usize) -> Self {
        Self { young: HashMap::new(), old: HashMap::new(), generation }
    }

    pub(super) fn get(&self, run: RunId) -> Option<u64> {
        self.young.get(&run).or_else(|| self.old.get(&run)).copied()
    }

    pub(super) fn set(&mut self, run: RunId, last_seq: u64) {
        if self.young.len() >= self.generation {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(run, last_seq);
    }

    pub(super) fn forget(&mut self, run: RunId) {
        self.young.remove(&run);
        self.old.remove(&run);
    }
}
