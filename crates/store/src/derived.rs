//! Rows that follow from the events of a run: what they are, and when they are well formed.

use bytes::Bytes;

use crate::port::{MemoryRow, Rest, RunId, Summary};

/// The maximum length of a derived row's key, in bytes.
pub const MAX_DERIVED_KEY: usize = 64;

/// The place of a derived row in its run: the number of the event that it follows from, and its own among the rows of that
/// event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Place {
    pub seq: u64,
    pub n: u32,
}

/// A row that follows from an event of a run, and that a query finds by its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Derived {
    pub place: Place,
    /// What the key and the value mean; the caller's.
    pub kind: u16,
    /// At most [`MAX_DERIVED_KEY`] bytes.
    pub key: Bytes,
    pub value: Bytes,
}

/// A derived row and the run that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DerivedRow {
    pub run: RunId,
    pub row: Derived,
}

/// All that is stored about a run and follows from its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mended {
    pub run: RunId,
    /// The number of the run's last event.
    pub last_seq: u64,
    pub summary: Summary,
    pub rest: Option<Rest>,
    /// All derived rows of the run, by their places.
    pub derived: Vec<Derived>,
    /// All its changes of memory, by their places.
    pub memory: Vec<MemoryRow>,
}

/// Returns whether the rows are of events from `first_seq` to `last_seq`, in order and each once, with keys that are short
/// enough.
pub(crate) fn are_well_formed(rows: &[Derived], first_seq: u64, last_seq: u64) -> bool {
    rows.is_sorted_by(|row, next| row.place < next.place)
        && rows
            .iter()
            .all(|row| (first_seq..=last_seq).contains(&row.place.seq) && row.key.len() <= MAX_DERIVED_KEY)
}
