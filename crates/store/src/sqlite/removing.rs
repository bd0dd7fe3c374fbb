//! The rows of removed runs. A run goes in one transaction, after which nobody reads a row of it; its rows follow, some in each
//! transaction, and where the process dies the next one goes on. `removing` has the position of the last one for each run. It is
//! the same for a run that somebody removes and for one that retention does.

use std::collections::{BTreeMap, BTreeSet};
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

/// So many rows of one run are passed over, each by itself, before all of it is.
const PASSED_OVER: usize = 256;

/// Where so much could not be read, no row is tried any more.
const TOO_MUCH: usize = 1_024;

/// Runs that stay although they are due, each after a transaction that has failed for it: where there are so many, every run stays.
const MOST_DUE: usize = 16;

/// The removed runs of which rows are left, each with the position of the last one.
pub(super) fn read(connection: &Connection) -> rusqlite::Result<BTreeMap<RunId, u64>> {
    cached(connection, "SELECT run, last FROM removing")?
        .query_map([], |row| Ok((run_id(row, 0)?, unsigned(row, 1)?)))?
        .collect()
}

/// What of runs that are removed, or are to be, could not be read. It is passed over, and tried again later.
#[derive(Default)]
pub(super) struct Unreadable {
    /// The positions of rows of removed runs, by these. Position 0 stands for all of a run.
    rows: BTreeSet<(RunId, u64)>,
    /// Runs that are due and stay as they are.
    due: BTreeSet<RunId>,
    /// Sweeps that have passed over it.
    sweeps: u32,
}

impl Unreadable {
    /// How much there is. Damage that is noted makes it more.
    pub(super) fn count(&self) -> usize {
        self.rows.len() + self.due.len()
    }

    /// Whether so much could not be read that no row is tried.
    pub(super) fn is_too_much(&self) -> bool {
        self.rows.len() >= TOO_MUCH
    }

    /// Whether no row of the run is tried.
    fn has_all_of(&self, run: RunId) -> bool {
        self.rows.contains(&(run, 0))
    }

    fn has_some_of(&self, run: RunId) -> bool {
        self.rows.range((run, 0)..=(run, u64::MAX)).next().is_some()
    }

    /// Whether a run stays although it is due. Where there are too many of these, every run does.
    pub(super) fn keeps(&self, run: RunId) -> bool {
        self.due.len() >= MOST_DUE || self.due.contains(&run)
    }

    /// A sweep has come to its end. Now and then, what could not be read is tried by the next one.
    pub(super) fn sweep_ends(&mut self) {
        self.sweeps += 1;
        if self.sweeps >= TRIED_AGAIN {
            *self = Self::default();
        }
    }

    /// Notes where what was to be done with a row, or with the whole run at position 0, has met damage.
    fn note<T>(&mut self, run: RunId, position: u64, done: rusqlite::Result<T>) -> rusqlite::Result<T> {
        if let Err(error) = &done
            && is_damage(error)
        {
            let known = self.rows.range((run, 0)..=(run, u64::MAX)).count();
            if known == 0 {
                tracing::warn!(
                    %run,
                    error = error as &dyn std::error::Error,
                    "rows of a removed run cannot be read, and stay; they are tried again later"
                );
            }
            self.rows.insert((run, if known < PASSED_OVER { position } else { 0 }));
        }
        done
    }

    /// Notes where the removal of a run that is due has met damage.
    pub(super) fn note_due<T>(&mut self, run: RunId, done: rusqlite::Result<T>) -> rusqlite::Result<T> {
        if let Err(error) = &done
            && is_damage(error)
            && self.due.insert(run)
        {
            tracing::warn!(
                %run,
                error = error as &dyn std::error::Error,
                "what belongs to a run that is due cannot be read, and the run stays; it is tried again later"
            );
        }
        done
    }
}

impl SqliteWriter {
    /// Runs an action that removes runs or rows, in a transaction of its own if this writer still owns the shard. Where the
    /// action meets damage nothing was done, for SQLite keeps nothing of such a transaction, and the writer goes on.
    pub(super) fn unless_damaged<T>(
        &mut self,
        operation: &'static str,
        action: impl FnOnce(&mut Self, &Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let before = (self.removed_bytes, self.removals, self.removing.clone());
        let mut has_met_damage = false;
        let result = self.try_owned(operation, Durability::Now, |writer, connection| {
            action(writer, connection).inspect_err(|error| has_met_damage = is_damage(error))
        });
        if has_met_damage {
            (self.removed_bytes, self.removals, self.removing) = before;
        } else {
            self.failed = result.is_err();
        }
        result?.ok_or(StoreError::Closed)
    }

    /// The same. `None` where the writer knows what could not be read, and passes over it from then on.
    pub(super) fn unless_unreadable<T>(
        &mut self,
        operation: &'static str,
        action: impl FnOnce(&mut Self, &Connection) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, StoreError> {
        let known = self.unreadable.count();
        match self.unless_damaged(operation, action) {
            Err(StoreError::Corrupt { .. }) if self.unreadable.count() > known => Ok(None),
            result => result.map(Some),
        }
    }

    /// The removed runs of which rows are left that could not be read, and those that are due and stay because of damage.
    pub(super) fn unreadable_runs(&self) -> u64 {
        let removed = self.removing.keys().filter(|run| self.unreadable.has_some_of(**run));
        (removed.count() + self.unreadable.due.len()) as u64
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

    /// Removes rows of removed runs until the budget is spent, and returns whether some are left that may be readable.
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
        if self.unreadable.is_too_much() || self.unreadable.has_all_of(run) {
            return Ok(false);
        }
        // Those that stay come before the others that are left.
        let mut passed: u32 = 0;
        loop {
            let rows = hidden(connection, run, last, passed);
            let rows = self.unreadable.note(run, 0, rows)?;
            if rows.is_empty() {
                break;
            }
            for position in rows {
                if self.unreadable.rows.contains(&(run, position)) {
                    passed += 1;
                    continue;
                }
                if budget.is_spent() {
                    return Ok(true);
                }
                let removed = self.remove_row(connection, position);
                budget.spend(self.unreadable.note(run, position, removed)?);
            }
        }
        if passed == 0 {
            cached(connection, "DELETE FROM removing WHERE run = ?")?.execute([run.0.as_bytes()])?;
            self.removing.remove(&run);
        }
        Ok(false)
    }

    /// Whether rows that an earlier run has left cannot be removed, so that nothing is appended to its namesake.
    pub(super) fn is_in_the_way(&self, run: RunId) -> bool {
        self.unreadable.has_all_of(run) && self.removing.contains_key(&run)
    }

    /// Removes rows that an earlier run has left where this append of its namesake begins or ends. Where they cannot be read,
    /// [they are in the way](Self::is_in_the_way) from then on.
    pub(super) fn make_room(&mut self, connection: &Connection, append: &Append) -> rusqlite::Result<()> {
        let Some(last) = self.removing.get(&append.run).copied() else { return Ok(()) };
        let made = self.remove_rows_to(connection, append.run, last, append.last_seq());
        if self.unreadable.note(append.run, 0, made)? { self.note_removed(connection, 0) } else { Ok(()) }
    }

    /// Removes the rows of a removed run that begin with this event or one before, and returns whether there were any.
    fn remove_rows_to(
        &mut self,
        connection: &Connection,
        run: RunId,
        last: u64,
        seq: u64,
    ) -> rusqlite::Result<bool> {
        let rows: Vec<u64> = cached(
            connection,
            "SELECT position FROM log WHERE run = ? AND position <= ? AND first_seq <= ?",
        )?
        .query_map(params![run.0.as_bytes(), integer(last), integer(seq)], |row| unsigned(row, 0))?
        .collect::<rusqlite::Result<_>>()?;
        for position in &rows {
            self.remove_row(connection, *position)?;
        }
        Ok(!rows.is_empty())
    }

    /// Removes a row, and returns the bytes of its events.
    fn remove_row(&mut self, connection: &Connection, position: u64) -> rusqlite::Result<u64> {
        let position = integer(position);
        // Nobody knows of what type a damaged column is.
        let bytes = cached(connection, "SELECT coalesce(length(events), 0) FROM log WHERE position = ?")?
            .query_row([position], |row| unsigned(row, 0))?;
        cached(connection, "DELETE FROM earlier_checksums WHERE position = ?")?.execute([position])?;
        cached(connection, "DELETE FROM log WHERE position = ?")?.execute([position])?;
        self.removed_bytes += bytes;
        Ok(bytes)
    }
}

/// The positions of the next rows of a removed run that are left, after so many. The index has them, so that a row that cannot
/// be read is among them; and whatever its first event is by its damage.
fn hidden(connection: &Connection, run: RunId, last: u64, passed: u32) -> rusqlite::Result<Vec<u64>> {
    cached(
        connection,
        "SELECT position FROM log INDEXED BY log_run WHERE run = ? AND position <= ?
         ORDER BY first_seq LIMIT ? OFFSET ?",
    )?
    .query_map(params![run.0.as_bytes(), integer(last), ROWS, passed], |row| unsigned(row, 0))?
    .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn run(number: u128) -> RunId {
        RunId(uuid::Uuid::from_u128(number))
    }

    fn meets_damage(unreadable: &mut Unreadable, run: RunId, position: u64) {
        unreadable.note::<()>(run, position, Err(rusqlite::Error::QueryReturnedNoRows)).unwrap_err();
    }

    #[test]
    fn what_is_no_damage_is_not_noted() {
        let mut unreadable = Unreadable::default();
        assert_eq!(unreadable.note(run(1), 1, Ok(7)).unwrap(), 7);
        unreadable.note::<()>(run(1), 1, Err(rusqlite::Error::InvalidQuery)).unwrap_err();
        assert_eq!(unreadable.count(), 0);
    }

    #[test]
    fn a_run_that_is_due_stays_where_its_removal_meets_damage_and_all_do_where_many_have() {
        let mut unreadable = Unreadable::default();
        unreadable.note_due::<()>(run(1), Err(rusqlite::Error::InvalidQuery)).unwrap_err();
        assert_eq!(unreadable.note_due(run(1), Ok(7)).unwrap(), 7);
        assert_eq!((unreadable.count(), unreadable.keeps(run(1))), (0, false));
        for number in 1..=16 {
            assert!(!unreadable.keeps(run(number)));
            unreadable.note_due::<()>(run(number), Err(rusqlite::Error::QueryReturnedNoRows)).unwrap_err();
            assert!(unreadable.keeps(run(number)));
        }
        assert!(unreadable.keeps(run(2_000)) && !unreadable.has_some_of(run(1)));
        for _ in 0..16 {
            unreadable.sweep_ends();
        }
        assert!(!unreadable.keeps(run(1)));
    }

    #[test]
    fn where_much_cannot_be_read_a_run_is_passed_over_and_then_every_row() {
        let mut unreadable = Unreadable::default();
        for position in 1..=257 {
            assert!(!unreadable.has_all_of(run(1)));
            meets_damage(&mut unreadable, run(1), position);
        }
        assert!(unreadable.has_all_of(run(1)) && !unreadable.has_some_of(run(2)));
        for number in 2..769 {
            assert!(!unreadable.is_too_much());
            meets_damage(&mut unreadable, run(number), 1);
        }
        assert_eq!((unreadable.count(), unreadable.is_too_much()), (1_024, true));
        for _ in 0..15 {
            unreadable.sweep_ends();
        }
        assert_eq!(unreadable.count(), 1_024);
        unreadable.sweep_ends();
        assert_eq!((unreadable.count(), unreadable.is_too_much()), (0, false));
    }
}
