//! The rows of removed runs. A run goes in one transaction, after which nobody reads a row of it; its rows follow, some in each
//! transaction, and where the process dies the next one goes on. `removing` has the position of the last one for each run. It is
//! the same for a run that somebody removes and for one that retention does.

use std::collections::BTreeMap;
use std::ops::Bound;

use rusqlite::{Connection, params};

use super::error::{integer, is_damage, unsigned};
use super::gate::Durability;
use super::reader::run_id;
use super::writer::{SqliteWriter, cached};
use crate::port::{Append, RunId, StoreError};
use crate::removals::Budget;

/// True of a row that is there for readers. A run that begins anew under the id of a removed one has all its rows after those.
pub(super) const IS_THERE: &str =
    "NOT EXISTS (SELECT 1 FROM removing WHERE removing.run = log.run AND removing.last >= log.position)";

/// Rows that are looked for at once.
const ROWS: u32 = 256;

/// Of so many sweeps, one tries rows again that could not be read.
const TRIED_AGAIN: u32 = 16;

/// The removed runs of which rows are left, each with the position of the last one.
pub(super) fn read(connection: &Connection) -> rusqlite::Result<BTreeMap<RunId, u64>> {
    cached(connection, "SELECT run, last FROM removing")?
        .query_map([], |row| Ok((run_id(row, 0)?, unsigned(row, 1)?)))?
        .collect()
}

impl SqliteWriter {
    /// Runs an action that removes rows, in a transaction of its own if this writer still owns the shard. Where rows of a removed
    /// run cannot be read, it is run again without those: SQLite keeps nothing of a transaction that has met damage.
    pub(super) fn remove_by<T>(
        &mut self,
        operation: &'static str,
        action: impl Fn(&mut Self, &Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        loop {
            let known = self.unreadable.len();
            let before = (self.removed_bytes, self.removals, self.removing.clone());
            match self.try_owned(operation, Durability::Now, &action) {
                Err(StoreError::Corrupt { .. }) if self.unreadable.len() > known => {
                    (self.removed_bytes, self.removals, self.removing) = before;
                }
                result => {
                    self.failed = result.is_err();
                    return result?.ok_or(StoreError::Closed);
                }
            }
        }
    }

    /// A sweep begins. Now and then one tries again what could not be read.
    pub(super) fn begin_sweep(&mut self) {
        self.sweeps = (self.sweeps + 1) % TRIED_AGAIN;
        if self.sweeps == 0 {
            self.unreadable.clear();
        }
    }

    /// Takes the rows of a run from all readers, and returns the position of the last one.
    pub(super) fn hide_rows(&mut self, connection: &Connection, run: RunId) -> rusqlite::Result<u64> {
        let before = self.removing.get(&run).copied().unwrap_or(0);
        // A row whose first event is damaged is anywhere in the order of these.
        let newest = "SELECT coalesce(max(position), 0) FROM log INDEXED BY log_run WHERE run = ?";
        let newest = cached(connection, newest)?.query_row([run.0.as_bytes()], |row| unsigned(row, 0))?;
        let last = newest.max(before);
        cached(connection, "INSERT OR REPLACE INTO removing (run, last) VALUES (?, ?)")?
            .execute(params![run.0.as_bytes(), integer(last)])?;
        self.removing.insert(run, last);
        Ok(last)
    }

    /// Removes rows of removed runs until the budget is spent, and returns whether some are left that can be removed.
    pub(super) fn remove_rows(
        &mut self,
        connection: &Connection,
        budget: &mut Budget,
    ) -> rusqlite::Result<bool> {
        let mut after: Bound<RunId> = Bound::Unbounded;
        while let Some(run) = self.removing.range((after, Bound::Unbounded)).next().map(|(run, _)| *run) {
            if self.remove_rows_of(connection, run, budget)? {
                return Ok(true);
            }
            after = Bound::Excluded(run);
        }
        Ok(false)
    }

    /// The same of one run.
    pub(super) fn remove_rows_of(
        &mut self,
        connection: &Connection,
        run: RunId,
        budget: &mut Budget,
    ) -> rusqlite::Result<bool> {
        let Some(last) = self.removing.get(&run).copied() else { return Ok(false) };
        if self.unreadable.contains(&run) {
            return Ok(false);
        }
        let left = self.remove_rows_up_to(connection, run, last, budget);
        if let Err(error) = &left
            && is_damage(error)
        {
            tracing::warn!(
                %run,
                error = error as &dyn std::error::Error,
                "rows of a removed run cannot be read, and stay; they are tried again later"
            );
            self.unreadable.insert(run);
        }
        left
    }

    fn remove_rows_up_to(
        &mut self,
        connection: &Connection,
        run: RunId,
        last: u64,
        budget: &mut Budget,
    ) -> rusqlite::Result<bool> {
        loop {
            let rows = hidden(connection, run, last, u64::MAX, ROWS)?;
            if rows.is_empty() {
                break;
            }
            for (position, bytes) in rows {
                if budget.is_spent() {
                    return Ok(true);
                }
                self.remove_row(connection, position, bytes)?;
                budget.spend(bytes);
            }
        }
        cached(connection, "DELETE FROM removing WHERE run = ?")?.execute([run.0.as_bytes()])?;
        self.removing.remove(&run);
        Ok(false)
    }

    /// Removes rows that an earlier run has left where this append of its namesake begins or ends.
    pub(super) fn make_room(&mut self, connection: &Connection, append: &Append) -> rusqlite::Result<()> {
        let Some(last) = self.removing.get(&append.run).copied() else { return Ok(()) };
        let rows = hidden(connection, append.run, last, append.last_seq(), u32::MAX)?;
        if rows.is_empty() {
            return Ok(());
        }
        for (position, bytes) in rows {
            self.remove_row(connection, position, bytes)?;
        }
        self.note_removed(connection, 0)
    }

    fn remove_row(&mut self, connection: &Connection, position: u64, bytes: u64) -> rusqlite::Result<()> {
        let position = integer(position);
        cached(connection, "DELETE FROM earlier_checksums WHERE position = ?")?.execute([position])?;
        cached(connection, "DELETE FROM log WHERE position = ?")?.execute([position])?;
        self.removed_bytes += bytes;
        Ok(())
    }
}

/// The first rows of a removed run that are left, up to the one that begins with this event: their positions, and the bytes of
/// their events.
fn hidden(
    connection: &Connection,
    run: RunId,
    last: u64,
    to_seq: u64,
    most: u32,
) -> rusqlite::Result<Vec<(u64, u64)>> {
    cached(
        connection,
        "SELECT position, length(events) FROM log WHERE run = ? AND position <= ? AND first_seq <= ?
         ORDER BY first_seq LIMIT ?",
    )?
    .query_map(params![run.0.as_bytes(), integer(last), integer(to_seq), most], |row| {
        Ok((unsigned(row, 0)?, unsigned(row, 1)?))
    })?
    .collect()
}
