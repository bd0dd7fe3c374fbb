//! Derived rows: writes, as parts of the writer's transactions, and reads.

use rusqlite::{Connection, Row, params};

use super::error::{integer, unsigned};
use super::reader::{Readers, blob, run_id};
use super::writer::cached;
use crate::port::{Derived, DerivedRow, Place, RunId, StoreError};

/// Finds rows by their keys. The bound before all rows is the least id with the number -1.
pub(super) const BY_KEY: &str = "SELECT run, seq, n, kind, key, value FROM derived
    WHERE kind = ? AND key = ? AND (run, seq, n) > (?, ?, ?) ORDER BY run, seq, n LIMIT ?";

/// Finds the rows of a run.
pub(super) const BY_RUN: &str = "SELECT run, seq, n, kind, key, value FROM derived
    WHERE run = ? AND (seq, n) > (?, ?) ORDER BY seq, n LIMIT ?";

const OPERATION: &str = "read derived rows";

/// Writes the rows of a run. A run without rows costs nothing.
pub(super) fn insert(connection: &Connection, run: RunId, rows: &[Derived]) -> rusqlite::Result<()> {
    for Derived { place, kind, key, value } in rows {
        cached(connection, "INSERT INTO derived (run, seq, n, kind, key, value) VALUES (?, ?, ?, ?, ?, ?)")?
            .execute(params![run.0.as_bytes(), integer(place.seq), place.n, kind, &key[..], &value[..]])?;
    }
    Ok(())
}

/// Removes the rows of a run.
pub(super) fn remove(connection: &Connection, run: RunId) -> rusqlite::Result<()> {
    cached(connection, "DELETE FROM derived WHERE run = ?")?.execute([run.0.as_bytes()]).map(drop)
}

impl Readers {
    pub(super) fn derived(
        &self,
        kind: u16,
        key: &[u8],
        after: Option<(RunId, Place)>,
        limit: usize,
    ) -> Result<Vec<DerivedRow>, StoreError> {
        self.read(OPERATION, |connection| {
            let (run, after) = after.map_or((RunId::MIN, None), |(run, place)| (run, Some(place)));
            let (seq, n) = bound(after);
            let values = params![kind, key, run.0.as_bytes(), seq, n, integer(limit as u64)];
            cached(connection, BY_KEY)?.query_map(values, row)?.collect()
        })
    }

    pub(super) fn derived_of(
        &self,
        run: RunId,
        after: Option<Place>,
        limit: usize,
    ) -> Result<Vec<Derived>, StoreError> {
        self.read(OPERATION, |connection| {
            let (seq, n) = bound(after);
            let values = params![run.0.as_bytes(), seq, n, integer(limit as u64)];
            let found = |found: &Row<'_>| row(found).map(|found| found.row);
            cached(connection, BY_RUN)?.query_map(values, found)?.collect()
        })
    }

    pub(super) fn strays(&self, after: Option<RunId>, limit: usize) -> Result<Vec<RunId>, StoreError> {
        self.read("look for derived rows without their runs", |connection| {
            // Without a bound, the comparison includes the least id.
            let comparison = if after.is_some() { ">" } else { ">=" };
            let mut statement = connection.prepare_cached(&format!(
                "SELECT run FROM (SELECT run FROM derived UNION SELECT run FROM memory_entries
                     UNION SELECT run FROM memory_marks) AS rows
                 WHERE run {comparison} ?1 AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.run = rows.run)
                 ORDER BY run LIMIT ?2"
            ))?;
            let after = after.unwrap_or(RunId::MIN);
            let values = params![after.0.as_bytes(), integer(limit as u64)];
            statement.query_map(values, |row| run_id(row, 0))?.collect()
        })
    }
}

/// The place after which rows are read; without one, the place before all rows.
fn bound(after: Option<Place>) -> (i64, i64) {
    after.map_or((-1, -1), |after| (integer(after.seq), i64::from(after.n)))
}

fn row(row: &Row<'_>) -> rusqlite::Result<DerivedRow> {
    let place = Place { seq: unsigned(row, 1)?, n: row.get(2)? };
    let row_of_run = Derived { place, kind: row.get(3)?, key: blob(row, 4)?, value: blob(row, 5)? };
    Ok(DerivedRow { run: run_id(row, 0)?, row: row_of_run })
}
