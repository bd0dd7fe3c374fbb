//! What retention has removed of a shard, as one number.

use crate::blob::BlobHash;
use crate::port::{Position, ROW_COST, RunId};

/// A number for everything that retention has ever removed of a shard; 0 if that is nothing.
///
/// It follows from what was removed alone, so that two stores in which it is equal, whether or not one is a copy of the
/// other, have lost the same. Whoever has read from the oldest row on, when it had this value, has missed nothing that was
/// removed later if it has the value still.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize, serde::Deserialize,
)]
pub struct Removals(pub u64);

impl Removals {
    /// The number after a run was removed as well, whose last row was at `position`. A stream that begins anew under the
    /// same id, and is removed again, ends at another position.
    #[must_use]
    pub fn with(self, run: RunId, position: Position) -> Self {
        let [a, b, c, d, e, f, g, h, ..] =
            BlobHash::of(&[&run.0.as_bytes()[..], &position.0.to_be_bytes()].concat()).0;
        // The order in which runs are removed does not count.
        let sum = self.0.wrapping_add(u64::from_be_bytes([a, b, c, d, e, f, g, h]));
        Self(sum.max(1))
    }
}

/// What one sweep may remove of the log, and what it has removed.
#[derive(Debug)]
pub(crate) struct Budget {
    most: u64,
    spent: u64,
    /// The bytes of the events that were removed.
    pub(crate) bytes: u64,
}

impl Budget {
    pub(crate) fn new(most: u64) -> Self {
        Self { most, spent: 0, bytes: 0 }
    }

    /// Returns whether no further row is removed. The first one always is.
    pub(crate) fn is_spent(&self) -> bool {
        self.spent > 0 && self.spent >= self.most
    }

    /// A row with so many bytes of events was removed.
    pub(crate) fn spend(&mut self, bytes: u64) {
        self.spent += ROW_COST + bytes;
        self.bytes += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_numbers_tell_of_equal_losses() {
        let run = |number| RunId(uuid::Uuid::from_u128(number));
        let one = Removals::default().with(run(1), Position(7));
        let both = one.with(run(2), Position(9));
        assert_eq!(both, Removals::default().with(run(2), Position(9)).with(run(1), Position(7)));
        let all =
            [Removals::default(), one, both, both.with(run(1), Position(12)), both.with(run(1), Position(7))];
        for (index, number) in all.iter().enumerate() {
            assert!(all.iter().skip(index + 1).all(|other| other != number));
        }
    }
}
