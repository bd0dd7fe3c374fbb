//! Checksums of what is stored, the same for every adapter. They are for accidents of disks and people, not against
//! forgers.

use crc32fast::Hasher;

use crate::port::{Position, RunId, Snapshot};

/// The facts of a log row that its checksum covers: the bytes, and what they are taken for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sealed<'a> {
    pub(crate) position: Position,
    pub(crate) run: RunId,
    pub(crate) first_seq: u64,
    pub(crate) count: u32,
    pub(crate) events: &'a [u8],
    pub(crate) inherited: bool,
}

impl Sealed<'_> {
    pub(crate) fn checksum(&self) -> u32 {
        let mut hasher = Hasher::new();
        hasher.update(&self.position.0.to_le_bytes());
        hasher.update(self.run.0.as_bytes());
        hasher.update(&self.first_seq.to_le_bytes());
        hasher.update(&self.count.to_le_bytes());
        hasher.update(self.events);
        if self.inherited {
            hasher.update(b"inherited");
        }
        hasher.finalize()
    }
}

pub(crate) fn of_snapshot(run: RunId, snapshot: &Snapshot) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(run.0.as_bytes());
    hasher.update(&snapshot.seq.to_le_bytes());
    hasher.update(&snapshot.format.to_le_bytes());
    hasher.update(&snapshot.state);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: Sealed<'_> = Sealed {
        position: Position(5),
        run: RunId::MIN,
        first_seq: 3,
        count: 2,
        events: b"events",
        inherited: false,
    };

    /// Computed with another implementation. Stored checksums are compared for ever, so that the sums must never change.
    #[test]
    fn the_sums_are_those_of_zlib() {
        assert_eq!(ROW.checksum(), 0xA015_4ED8);
        let snapshot = Snapshot { seq: 3, format: 2, state: b"state".as_slice().into() };
        assert_eq!(of_snapshot(RunId::MAX, &snapshot), 0xBB42_58C6);
    }

    #[test]
    fn every_fact_of_a_row_is_covered() {
        for changed in [
            Sealed { position: Position(6), ..ROW },
            Sealed { run: RunId::MAX, ..ROW },
            Sealed { first_seq: 4, ..ROW },
            Sealed { count: 3, ..ROW },
            Sealed { events: b"Events", ..ROW },
            Sealed { events: b"", ..ROW },
            Sealed { inherited: true, ..ROW },
        ] {
            assert_ne!(changed.checksum(), ROW.checksum(), "{changed:?}");
        }
    }
}
