//! The rows of removed runs. A run goes in one transaction, after which nobody reads a row of it; its rows follow, some in each
//! transaction, and where the process dies the next one goes on. `removing` has the position of the last one for each run. It is
//! the same for a run that somebody removes and for one that retention does.

use std::collections::BTreeMap;

use rusqlite::{Connection, params};

use super::error::{integer, unsigned};
use super::reader::run_id;
use super::writer::{SqliteWriter, cached};
use crate::port::{Append, RunId};
use crate::removals::Budget;

/// True of a row that is there for readers. A run that begins anew under the id of a removed one has all its rows after those.
pub(super) const IS_THERE: &str =
    "NOT EXISTS (SELECT 1 FROM removing WHERE removing.run = log.run AND removing.last >= log.position)";

/// Rows that are looked for at once.
const ROWS: u32 = 256;

/// The removed runs of which rows are left, each with the position of the last one.
pub(super) fn read(connection: &Connection) -> rusqlite::Result<BTreeMap<RunId, u64>> {
    cached(connection, "SELECT run, last FROM removing")?
        .query_map([], |row| Ok((run_id(row, 0)?, unsigned(row, 1)?)))?
        .collect()
}

impl SqliteWriter {
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

    /// Removes rows of removed runs until the budget is spent, and returns whether some are left.
    pub(super) fn remove_rows(
        &mut self,
        connection: &Connection,
        budget: &mut Budget,
    ) -> rusqlite::Result<bool> {
        while let Some(run) = self.removing.keys().next().copied() {
            if self.remove_rows_of(connection, run, budget)? {
                return Ok(true);
            }
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
