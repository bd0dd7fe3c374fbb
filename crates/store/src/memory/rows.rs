//! The derived rows of a [`super::MemoryStore`].

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use bytes::Bytes;

use crate::port::{Derived, DerivedRow, Place, RunId};

/// All derived rows, by their places and by their keys.
#[derive(Clone, Debug, Default)]
pub(super) struct Rows {
    rows: BTreeMap<(RunId, Place), Derived>,
    by_key: BTreeSet<(u16, Bytes, RunId, Place)>,
}

impl Rows {
    pub(super) fn insert(&mut self, run: RunId, rows: &[Derived]) {
        for row in rows {
            self.replace(run, row.place, Some(row.clone()));
        }
    }

    pub(super) fn replace(&mut self, run: RunId, place: Place, row: Option<Derived>) {
        if let Some(earlier) = self.rows.remove(&(run, place)) {
            self.by_key.remove(&(earlier.kind, earlier.key, run, place));
        }
        if let Some(row) = row {
            self.by_key.insert((row.kind, row.key.clone(), run, place));
            self.rows.insert((run, place), row);
        }
    }

    /// Removes the rows of a run.
    pub(super) fn remove(&mut self, run: RunId) {
        for row in self.of_run(run, None, usize::MAX) {
            self.replace(run, row.place, None);
        }
    }

    pub(super) fn of_run(&self, run: RunId, after: Option<Place>, limit: usize) -> Vec<Derived> {
        let start =
            after.map_or(Bound::Included((run, Place::default())), |after| Bound::Excluded((run, after)));
        let rows = self.rows.range((start, Bound::Unbounded));
        rows.take_while(|((of, _), _)| *of == run).take(limit).map(|(_, row)| row.clone()).collect()
    }

    pub(super) fn of_key(
        &self,
        kind: u16,
        key: &[u8],
        after: Option<(RunId, Place)>,
        limit: usize,
    ) -> Vec<DerivedRow> {
        let key = Bytes::copy_from_slice(key);
        let start = match after {
            Some((run, place)) => Bound::Excluded((kind, key.clone(), run, place)),
            None => Bound::Included((kind, key.clone(), RunId::MIN, Place::default())),
        };
        let found = self.by_key.range((start, Bound::Unbounded));
        let found = found.take_while(|(of, by, ..)| *of == kind && *by == key).take(limit);
        found
            .filter_map(|(_, _, run, place)| {
                Some(DerivedRow { run: *run, row: self.rows.get(&(*run, *place))?.clone() })
            })
            .collect()
    }

    /// The runs that have rows, by their ids.
    pub(super) fn runs(&self, after: Option<RunId>) -> impl Iterator<Item = RunId> {
        let mut next = match after {
            Some(RunId(id)) => id.as_u128().checked_add(1).map(|id| RunId(uuid::Uuid::from_u128(id))),
            None => Some(RunId::MIN),
        };
        std::iter::from_fn(move || {
            let ((run, _), _) = self.rows.range((next?, Place::default())..).next()?;
            next = run.0.as_u128().checked_add(1).map(|id| RunId(uuid::Uuid::from_u128(id)));
            Some(*run)
        })
    }
}
