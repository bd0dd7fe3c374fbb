//! The sweep. Its first transaction removes runs, and so many bytes of the [rows](super::removing) of removed runs. Once it is
//! durable, others remove keys, eras, and the blobs that are unreferenced, so that no kept run ever names a removed file.
//! Damage to one of these keeps nothing else from going.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, params};

use super::error::{integer, unsigned};
use super::gate::Durability;
use super::reader::run_id;
use super::writer::{SqliteWriter, cached};
use super::{SqliteStore, derived, eras, keys, labels, remembered};
use crate::port::{
    BlobHash, Millis, Position, REMOVED_AT_ONCE, Removal, Retention, RunId, StoreError, Swept,
};
use crate::removals::Budget;

/// A finished run that is removed.
struct Candidate {
    finished_at: i64,
    run: RunId,
    key: Option<Vec<u8>>,
    labels: Vec<u8>,
}

/// Finished runs with a key or without one, in the order in which they finished, from one of them on.
pub(super) const FINISHED: &str = "SELECT finished_at, run FROM runs INDEXED BY runs_finished
    WHERE finished_at IS NOT NULL AND (key IS NULL) = ?1 AND finished_at >= ?2 AND finished_at < ?3
        AND (+finished_at > ?2 OR +run > ?4)
    ORDER BY finished_at, run LIMIT ?5";

/// True where a run has to stay.
const STAYS: &str = "SELECT EXISTS (
        SELECT 1 FROM derived JOIN runs AS holder ON holder.run = derived.key
        WHERE derived.run = ?1 AND derived.kind = ?2 AND holder.finished_at IS NULL)
    -- What a person has forgotten stays so for as long as it can be written again.
    OR EXISTS (
        SELECT 1 FROM memory_marks AS mark JOIN runs AS owner
            ON owner.run = unhex(replace(substr(mark.entry, 1, 36), '-', ''))
        WHERE mark.run = ?1 AND mark.quarters IS NULL AND owner.run <> ?1)";

impl SqliteWriter {
    pub(super) fn sweep_all(&mut self, retention: &Retention) -> Result<Swept, StoreError> {
        let swept = self.unless_unreadable("remove old runs", |writer, connection| {
            writer.sweep_runs(connection, retention)
        })?;
        let unreadable = self.unreadable_runs();
        let Some(swept) = swept else {
            // The next one passes over them, and others have their turn before it.
            return Ok(Swept { unreadable, more: true, next: retention.after, ..Swept::default() });
        };
        let mut swept = Swept { unreadable, ..swept };
        if !swept.more {
            self.unreadable.sweep_ends();
        }
        let keys = self.apart("remove old keys", |connection| sweep_keys(connection, retention));
        swept.keys = or_later("old keys were not removed", keys);
        // Whether rows of an era are left is not asked where some may be damaged.
        if self.removing.is_empty() {
            or_later("old eras were not forgotten", self.sweep_eras(retention.batch));
        }
        if retention.blobs_before == Millis(i64::MIN) {
            return Ok(swept);
        }
        let (blobs, bytes) = or_later("old blobs were not removed", self.sweep_blobs(retention));
        swept.blobs = blobs;
        swept.bytes += bytes;
        or_later("files without a row were not removed", self.sweep_strays(retention.batch));
        Ok(swept)
    }

    /// Runs an action in a transaction of its own, which changes nothing that the writer knows: it goes on where that fails.
    pub(super) fn apart<T>(
        &mut self,
        operation: &'static str,
        action: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let done = self.try_owned(operation, Durability::Now, |_, connection| action(connection))?;
        done.ok_or(StoreError::Closed)
    }

    /// Forgets eras of which nothing is left.
    fn sweep_eras(&mut self, batch: u32) -> Result<(), StoreError> {
        let after = self.eras_swept;
        self.eras_swept =
            self.apart("forget old eras", |connection| eras::sweep(connection, after, batch))?;
        Ok(())
    }

    fn sweep_runs(&mut self, connection: &Connection, retention: &Retention) -> rusqlite::Result<Swept> {
        let mut swept = Swept::default();
        let mut budget = Budget::new(retention.batch_bytes);
        let mut newest = 0;
        // What the sweep before has left goes first.
        if self.remove_rows(connection, &mut budget)? {
            swept.more = true;
            swept.next = retention.after;
        } else {
            newest = self.sweep_finished(connection, retention, &mut swept, &mut budget)?;
        }
        swept.bytes = budget.bytes;
        if swept.runs > 0 || budget.bytes > 0 {
            self.note_removed(connection, newest)?;
        }
        Ok(swept)
    }

    /// Removes finished runs, with as many of their rows as the budget has room for. Returns the newest position of a row of
    /// theirs.
    fn sweep_finished(
        &mut self,
        connection: &Connection,
        retention: &Retention,
        swept: &mut Swept,
        budget: &mut Budget,
    ) -> rusqlite::Result<u64> {
        // Where no row is removed, the log gets no smaller, however many runs go.
        let most = retention.max_log_bytes.filter(|_| !self.unreadable.is_too_much());
        let too_large = |bytes: u64| most.is_some_and(|most| bytes > most);
        let expires = retention.finished_before.map_or(i64::MIN, |before| before.0);
        let before = if too_large(self.log_bytes()) { i64::MAX } else { expires };
        let (mut last, mut looked_at, mut newest) = (retention.after, 0, 0);
        for (finished_at, run) in finished(connection, before, retention)? {
            if finished_at >= expires && !too_large(self.log_bytes()) {
                break;
            }
            let is_full = swept.runs >= u64::from(retention.batch) || budget.is_spent();
            if is_full || looked_at >= retention.looked_at.max(1) {
                swept.more = retention.batch > 0;
                swept.next = last;
                break;
            }
            looked_at += 1;
            last = Some((Millis(finished_at), run));
            if retention.keep.contains(&run) || self.unreadable.keeps(run) {
                continue;
            }
            let removed = self.remove_due(connection, (finished_at, run), retention.held_by);
            let Some(position) = self.unreadable.note_due(run, removed)? else { continue };
            newest = newest.max(position);
            swept.runs += 1;
            if self.remove_rows_of(connection, run, budget)? {
                swept.more = true;
                swept.next = last;
                break;
            }
        }
        Ok(newest)
    }

    /// Removes a run that is due, and returns the position of its last row; `None` where it has to stay.
    fn remove_due(
        &mut self,
        connection: &Connection,
        (finished_at, run): (i64, RunId),
        held_by: Option<u16>,
    ) -> rusqlite::Result<Option<u64>> {
        if stays(connection, run, held_by)? {
            return Ok(None);
        }
        let candidate = candidate(connection, finished_at, run)?;
        self.remove_candidate(connection, &candidate).map(Some)
    }

    /// The bytes of all events. A damaged row that was removed may have had more than were ever appended.
    pub(super) fn log_bytes(&self) -> u64 {
        self.appended.saturating_sub(self.removed_bytes)
    }

    /// Removes a run, of which nothing can be read from then on, and returns the position of its last row. Its rows are left.
    fn remove_candidate(&mut self, connection: &Connection, candidate: &Candidate) -> rusqlite::Result<u64> {
        let last = self.hide_rows(connection, candidate.run)?;
        remove_run(connection, candidate)?;
        self.tails.forget(candidate.run);
        self.removals = self.removals.with(candidate.run, Position(last));
        Ok(last)
    }

    /// Rows were removed, and runs, the newest of whose rows had this position.
    pub(super) fn note_removed(&self, connection: &Connection, position: u64) -> rusqlite::Result<()> {
        cached(
            connection,
            "UPDATE shards SET removed = max(removed, ?), removed_bytes = ?, appended = ?, removals = ?
             WHERE shard = ?",
        )?
        .execute(params![
            integer(position),
            integer(self.removed_bytes),
            integer(self.appended),
            self.removals.0.cast_signed(),
            SqliteStore::SHARD.0
        ])
        .map(drop)
    }

    pub(super) fn remove_one(
        &mut self,
        run: RunId,
        held_by: Option<u16>,
        at: Millis,
    ) -> Result<Removal, StoreError> {
        let operation = "remove a run";
        let removed = self.unless_unreadable(operation, |writer, connection| {
            writer.remove_with_rows(connection, (run, held_by, at), true)
        })?;
        match removed {
            Some(removal) => Ok(removal),
            // The sweeps pass over what cannot be read, and so have all of its rows.
            None => self.unless_damaged(operation, |writer, connection| {
                writer.remove_with_rows(connection, (run, held_by, at), false)
            }),
        }
    }

    /// Removes a run, if it may be, and as many of its rows as there is room for at once, if any.
    fn remove_with_rows(
        &mut self,
        connection: &Connection,
        (run, held_by, at): (RunId, Option<u16>, Millis),
        with_rows: bool,
    ) -> rusqlite::Result<Removal> {
        let found = cached(
            connection,
            "SELECT finished_at, key, labels,
               EXISTS (SELECT 1 FROM quarantined WHERE quarantined.run = runs.run),
               EXISTS (
                 SELECT 1 FROM derived JOIN runs AS holder ON holder.run = derived.key
                 WHERE derived.run = runs.run AND derived.kind = ?2 AND holder.finished_at IS NULL)
             FROM runs WHERE run = ?1",
        )?
        .query_row(params![run.0.as_bytes(), held_by], |row| {
            let finished_at: Option<i64> = row.get(0)?;
            let labels = row.get::<_, Option<Vec<u8>>>(2)?.unwrap_or_default();
            let candidate =
                Candidate { finished_at: finished_at.unwrap_or(at.0), run, key: row.get(1)?, labels };
            Ok((candidate, finished_at.is_some() || row.get(3)?, row.get(4)?))
        })
        .optional()?;
        Ok(match found {
            None => Removal::Missing,
            Some((_, false, _)) => Removal::Unfinished,
            Some((_, true, true)) => Removal::Held,
            Some((candidate, true, false)) => {
                let last = self.remove_candidate(connection, &candidate)?;
                // What has no room is left to the sweeps.
                let mut budget = Budget::new(REMOVED_AT_ONCE);
                if with_rows {
                    self.remove_rows_of(connection, run, &mut budget)?;
                }
                self.note_removed(connection, last)?;
                Removal::Removed { bytes: budget.bytes }
            }
        })
    }

    fn sweep_blobs(&mut self, retention: &Retention) -> Result<(u64, u64), StoreError> {
        let shared = Arc::clone(&self.shared);
        // Putting blobs is blocked between the decision to remove a blob and its removal.
        let _no_puts = shared.blobs.hold();
        let mut stuck: Result<(), StoreError> = Ok(());
        let swept = self.apart("remove old blobs", |connection| {
            let (mut count, mut bytes) = (0, 0);
            for (hash, size) in unreferenced(connection, retention.blobs_before, retention.batch)? {
                if count > 0 && bytes >= retention.batch_bytes {
                    break;
                }
                // The file is removed first: the next sweep finds a row without a file, but a file without a row would
                // stay forever.
                if let Err(error) = shared.blobs.remove(hash) {
                    // All others that are due now have their turn before it has its next one.
                    cached(connection, "UPDATE blobs SET put_at = ? WHERE hash = ?")?
                        .execute(params![retention.blobs_before.0, hash.0])?;
                    if stuck.is_ok() {
                        stuck = Err(error);
                    }
                    continue;
                }
                cached(connection, "DELETE FROM blobs WHERE hash = ?")?.execute([hash.0])?;
                count += 1;
                bytes += size;
            }
            Ok((count, bytes))
        })?;
        or_later("files of old blobs were not removed", stuck);
        Ok(swept)
    }

    /// Removes files of blobs in one folder that no row knows. A power cut brings them back where their removal was not
    /// durable when that of their rows was.
    fn sweep_strays(&mut self, batch: u32) -> Result<(), StoreError> {
        let shared = Arc::clone(&self.shared);
        let _no_puts = shared.blobs.hold();
        let mut there = shared.blobs.in_folder(self.blobs_swept)?;
        self.blobs_swept = self.blobs_swept.wrapping_add(1);
        if there.is_empty() {
            return Ok(());
        }
        let known = shared.readers.known_blobs(&there)?;
        there.retain(|blob| !known.contains(blob));
        there.truncate(batch as usize);
        let mut removed = Ok(());
        for blob in there {
            // One that cannot be removed keeps no other there.
            removed = removed.and(shared.blobs.remove(blob));
        }
        removed
    }
}

/// What of a sweep has failed costs room and nothing else: the next one finds it again.
fn or_later<T: Default>(left: &'static str, swept: Result<T, StoreError>) -> T {
    swept.unwrap_or_else(|error| {
        tracing::warn!(error = &error as &dyn std::error::Error, "{left}");
        T::default()
    })
}

/// The runs that finished before `before` and that the sweep comes to, in the order in which they finished: one more than it
/// looks at.
fn finished(
    connection: &Connection,
    before: i64,
    retention: &Retention,
) -> rusqlite::Result<Vec<(i64, RunId)>> {
    let limit = i64::from(retention.looked_at.max(1)) + 1;
    let (at, after) = match &retention.after {
        Some((at, run)) => (at.0, run.0.as_bytes().to_vec()),
        None => (i64::MIN, Vec::new()),
    };
    let mut all: Vec<(i64, RunId)> = Vec::new();
    for without_key in [false, true] {
        let mut statement = cached(connection, FINISHED)?;
        let rows = statement.query_map(params![without_key, at, before, after, limit], |row| {
            Ok((row.get(0)?, run_id(row, 1)?))
        })?;
        for row in rows {
            all.push(row?);
        }
    }
    all.sort_unstable();
    Ok(all)
}

/// Returns whether a run may not be removed, whoever works with it: an unfinished run needs it, or what it has had forgotten
/// could come back.
fn stays(connection: &Connection, run: RunId, held_by: Option<u16>) -> rusqlite::Result<bool> {
    cached(connection, STAYS)?.query_row(params![run.0.as_bytes(), held_by], |row| row.get(0))
}

fn candidate(connection: &Connection, finished_at: i64, run: RunId) -> rusqlite::Result<Candidate> {
    cached(connection, "SELECT key, labels FROM runs WHERE run = ?")?.query_row([run.0.as_bytes()], |row| {
        let labels = row.get::<_, Option<Vec<u8>>>(1)?.unwrap_or_default();
        Ok(Candidate { finished_at, run, key: row.get(0)?, labels })
    })
}

/// Removes everything of a run but its rows in the log.
fn remove_run(connection: &Connection, candidate: &Candidate) -> rusqlite::Result<()> {
    let run = candidate.run.0.as_bytes();
    cached(connection, "DELETE FROM snapshots WHERE run = ?")?.execute([run])?;
    cached(connection, "DELETE FROM quarantined WHERE run = ?")?.execute([run])?;
    derived::remove(connection, candidate.run)?;
    remembered::remove(connection, candidate.run)?;
    cached(
        connection,
        "UPDATE blobs SET refs = refs - 1 WHERE hash IN (SELECT hash FROM blob_refs WHERE run = ?)",
    )?
    .execute([run])?;
    cached(connection, "DELETE FROM blob_refs WHERE run = ?")?.execute([run])?;
    for (key, value) in labels::decode(&candidate.labels).unwrap_or_default() {
        cached(connection, "DELETE FROM run_labels WHERE key = ? AND value = ? AND run = ?")?
            .execute(params![key, value, run])?;
    }
    if let Some(key) = &candidate.key {
        cached(connection, "INSERT INTO retired_keys (finished_at, run, key) VALUES (?, ?, ?)")?
            .execute(params![candidate.finished_at, run, key])?;
    }
    cached(connection, "DELETE FROM runs WHERE run = ?")?.execute([run]).map(drop)
}

/// Removes keys, starting with keys of removed runs.
fn sweep_keys(connection: &Connection, retention: &Retention) -> rusqlite::Result<u64> {
    let before = retention.keys_before.0;
    let retired = expired_keys(
        connection,
        "SELECT finished_at, run, key FROM retired_keys WHERE finished_at < ? ORDER BY finished_at, run, key LIMIT ?",
        before,
        retention.batch,
    )?;
    for (finished_at, run, key) in &retired {
        cached(connection, "DELETE FROM keys WHERE key = ?")?.execute([key])?;
        cached(connection, "DELETE FROM retired_keys WHERE finished_at = ? AND run = ? AND key = ?")?
            .execute(params![finished_at, run.0.as_bytes(), key])?;
    }
    let room = retention.batch.saturating_sub(u32::try_from(retired.len()).unwrap_or(u32::MAX));
    let held = expired_keys(
        connection,
        "SELECT finished_at, run, key FROM runs INDEXED BY runs_finished
         WHERE finished_at IS NOT NULL AND (key IS NULL) = 0 AND finished_at < ? ORDER BY finished_at, run LIMIT ?",
        before,
        room,
    )?;
    for (_, run, key) in &held {
        cached(connection, "DELETE FROM keys WHERE key = ?")?.execute([key])?;
        cached(connection, "UPDATE runs SET key = NULL WHERE run = ?")?.execute([run.0.as_bytes()])?;
    }
    keys::note_removed(connection, retired.iter().chain(&held).map(|(_, run, _)| *run))?;
    Ok((retired.len() + held.len()) as u64)
}

fn expired_keys(
    connection: &Connection,
    sql: &str,
    before: i64,
    limit: u32,
) -> rusqlite::Result<Vec<(i64, RunId, Vec<u8>)>> {
    cached(connection, sql)?
        .query_map(params![before, limit], |row| Ok((row.get(0)?, run_id(row, 1)?, row.get(2)?)))?
        .collect()
}

fn unreferenced(
    connection: &Connection,
    before: Millis,
    batch: u32,
) -> rusqlite::Result<Vec<(BlobHash, u64)>> {
    cached(
        connection,
        "SELECT hash, size FROM blobs INDEXED BY blobs_unreferenced WHERE refs = 0 AND put_at < ?
         ORDER BY put_at, hash LIMIT ?",
    )?
    .query_map(params![before.0, batch], |row| Ok((BlobHash(row.get(0)?), unsigned(row, 1)?)))?
    .collect()
}
