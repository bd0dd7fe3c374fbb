//! [`SqliteWriter`]: commits. The hot path is one insert into the log and one write to the run's row for each append.
//! The order of the writes ensures that a refusal is known before anything of the append is written.

use std::collections::BTreeMap;
use std::sync::Arc;

use rusqlite::{CachedStatement, Connection, OptionalExtension, params};

use super::error::{failed, integer, unsigned};
use super::gate::Durability;
use super::reader;
use super::removing::Unreadable;
use super::tails::Tails;
use super::{Shared, SqliteStore, checksums, derived, eras, keys, labels, past, remembered, removing};
use crate::checksum::{self, Sealed};
use crate::port::{
    self, AgentRow, Append, AppendOutcome, Create, Epoch, Mark, Mended, Millis, Position, Quarantine,
    Removal, Removals, Rest, Retention, RunId, ShardWriter, Snapshot, StoreError, Summary, Swept, Unmarked,
};

const COMMIT: &str = "commit appends";

/// The writer of the embedded store's shard.
pub(super) struct SqliteWriter {
    pub(super) shared: Arc<Shared>,
    pub(super) epoch: Epoch,
    /// The last used position.
    position: u64,
    /// The bytes of all events ever appended.
    pub(super) appended: u64,
    /// The bytes of events that retention removed.
    pub(super) removed_bytes: u64,
    /// What retention removed.
    pub(super) removals: Removals,
    /// Removed runs of which rows are left, each with the position of the last one.
    pub(super) removing: BTreeMap<RunId, u64>,
    /// What of them could not be read.
    pub(super) unreadable: Unreadable,
    /// The first position of the era at which the last sweep ended.
    pub(super) eras_swept: Position,
    /// The first byte of the blobs among which the next sweep looks for files without a row.
    pub(super) blobs_swept: u8,
    pub(super) tails: Tails,
    /// True after a failed transaction, when this writer's state may differ from the database.
    pub(super) failed: bool,
}

impl SqliteWriter {
    pub(super) fn claim(shared: Arc<Shared>, mark: Mark) -> Result<Self, StoreError> {
        let mut writer = shared.gate.transact(port::CLAIM, Durability::Now, |connection| {
            let writer = take_over(connection, &shared).map_err(failed(port::CLAIM))?;
            let begun =
                eras::begin(connection, mark, Position(writer.position)).map_err(failed(port::CLAIM))?;
            let refused =
                |unmarked: Unmarked| StoreError::Io { operation: port::CLAIM, source: unmarked.into() };
            begun.map(|()| writer).map_err(refused)
        })?;
        writer.doubt_appended()?;
        Ok(writer)
    }

    /// No checksum covers how much was ever appended, and retention goes by it. Where the log cannot be as large as it says, the
    /// bytes are counted anew, and what is right is put down. Where they cannot be counted, the log counts as empty rather than
    /// as too large, so that no run goes for its size.
    fn doubt_appended(&mut self) -> Result<(), StoreError> {
        let counted = match self.shared.readers.counted_anew(self.log_bytes()) {
            Ok(None) => return Ok(()),
            Ok(Some(bytes)) => Some(bytes),
            Err(error @ StoreError::Corrupt { .. }) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "the size of the log is damaged, and cannot be counted anew");
                None
            }
            Err(error) => return Err(error),
        };
        self.appended = self.removed_bytes.saturating_add(counted.unwrap_or(0));
        if counted.is_none() {
            return Ok(());
        }
        let appended = integer(self.appended);
        let corrected = self.apart(port::CLAIM, |connection| {
            cached(connection, "UPDATE shards SET appended = ? WHERE shard = ?")?
                .execute(params![appended, SqliteStore::SHARD.0])?;
            cached(
                connection,
                "UPDATE log SET appended = ? WHERE position = (SELECT max(position) FROM log)",
            )?
            .execute([appended])
            .map(drop)
        });
        match corrected {
            // More of the row than its number is damaged: its run is read, and put in quarantine, as any other.
            Err(error @ StoreError::Corrupt { .. }) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(
                    error,
                    "the size of the log is known, and the damaged one cannot be corrected"
                );
                Ok(())
            }
            corrected => corrected,
        }
    }

    /// Runs `action` in a transaction of its own if this writer still owns the shard.
    pub(super) fn owned<T>(
        &mut self,
        operation: &'static str,
        durability: Durability,
        action: impl FnOnce(&mut Self, &Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let result = self.try_owned(operation, durability, action);
        self.failed = result.is_err();
        result?.ok_or(StoreError::Closed)
    }

    /// The same, after which the writer goes on where it fails: `action` changes the database alone. `None` where another
    /// epoch owns the shard.
    pub(super) fn try_owned<T>(
        &mut self,
        operation: &'static str,
        durability: Durability,
        action: impl FnOnce(&mut Self, &Connection) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, StoreError> {
        if self.failed {
            return Err(StoreError::Closed);
        }
        let shared = Arc::clone(&self.shared);
        shared.gate.transact(operation, durability, |connection| {
            if !owns(connection, self.epoch).map_err(failed(operation))? {
                return Ok(None);
            }
            action(self, connection).map(Some).map_err(failed(operation))
        })
    }

    /// Appends what fits, in groups.
    fn append_all(
        &mut self,
        connection: &Connection,
        appends: &[Append],
    ) -> rusqlite::Result<Vec<AppendOutcome>> {
        if !owns(connection, self.epoch)? {
            return Ok(appends.iter().map(|_| AppendOutcome::Fenced).collect());
        }
        let mut outcomes = Vec::with_capacity(appends.len());
        for group in port::groups(appends) {
            self.append_group(connection, group, &mut outcomes)?;
        }
        Ok(outcomes)
    }

    /// Appends either all of `group` or nothing.
    fn append_group(
        &mut self,
        connection: &Connection,
        group: &[Append],
        outcomes: &mut Vec<AppendOutcome>,
    ) -> rusqlite::Result<()> {
        // A single append needs no check in advance, because its own writes refuse it.
        if group.len() > 1 {
            for append in group {
                if let Some(refusal) = self.refusal(connection, append)? {
                    outcomes.extend(group.iter().map(|_| refusal.clone()));
                    return Ok(());
                }
            }
        }
        for append in group {
            outcomes.push(self.append(connection, append)?);
        }
        Ok(())
    }

    /// The outcome with which an append would be refused now; `None` if it would be accepted.
    fn refusal(&self, connection: &Connection, append: &Append) -> rusqlite::Result<Option<AppendOutcome>> {
        let past = append.create.as_ref().and_then(|create| create.past);
        Ok(match (self.refusal_of_itself(connection, append)?, past) {
            (None, Some(past)) => past::rows(connection, past)?.is_none().then_some(AppendOutcome::PastGone),
            (refused, _) => refused,
        })
    }

    /// The same, whatever has become of the past that it begins with.
    fn refusal_of_itself(
        &self,
        connection: &Connection,
        append: &Append,
    ) -> rusqlite::Result<Option<AppendOutcome>> {
        if !append.is_well_formed() {
            return Ok(Some(AppendOutcome::Conflict));
        }
        if let Some(change) = &append.key {
            return keys::refusal(connection, change);
        }
        if self.is_in_the_way(append.run) {
            return Ok(Some(AppendOutcome::Conflict));
        }
        let last_seq = self.last_seq(connection, append.run)?;
        let Some(create) = &append.create else {
            return Ok((last_seq != Some(append.first_seq - 1)).then_some(AppendOutcome::Conflict));
        };
        if let Some(key) = &create.key
            && let Some(taken) = keys::taken(connection, key).optional()?
        {
            return Ok(Some(taken));
        }
        Ok(last_seq.is_some().then_some(AppendOutcome::Conflict))
    }

    fn append(&mut self, connection: &Connection, append: &Append) -> rusqlite::Result<AppendOutcome> {
        if !append.is_well_formed() {
            return Ok(AppendOutcome::Conflict);
        }
        if let Some(change) = &append.key {
            if let Some(refused) = keys::refusal(connection, change)? {
                return Ok(refused);
            }
            keys::change(connection, append.run, change)?;
            return Ok(AppendOutcome::Committed(Position(self.position)));
        }
        if self.is_in_the_way(append.run) {
            return Ok(AppendOutcome::Conflict);
        }
        match &append.create {
            Some(create) => {
                let mut inherited = None;
                if let Some(past) = create.past {
                    if let Some(refused) = self.refusal_of_itself(connection, append)? {
                        return Ok(refused);
                    }
                    let Some(rows) = past::rows(connection, past)? else {
                        return Ok(AppendOutcome::PastGone);
                    };
                    inherited = Some((past, rows));
                }
                if let Some(refused) = self.create(connection, append, create)? {
                    return Ok(refused);
                }
                self.make_room(connection, append)?;
                if let Some((past, rows)) = inherited {
                    self.inherit(connection, append.run, past, &rows)?;
                }
            }
            None => {
                if self.last_seq(connection, append.run)? != Some(append.first_seq - 1) {
                    return Ok(AppendOutcome::Conflict);
                }
                if !update_run(connection, &Columns::after(append))? {
                    return Err(rusqlite::Error::QueryReturnedNoRows);
                }
                self.make_room(connection, append)?;
            }
        }
        let row = Sealed {
            position: self.next_position(),
            run: append.run,
            first_seq: append.first_seq,
            count: append.count,
            events: &append.events,
            inherited: false,
        };
        self.insert_row(connection, &row)?;
        for blob in &append.blobs {
            let new = cached(connection, "INSERT OR IGNORE INTO blob_refs (run, hash) VALUES (?, ?)")?
                .execute(params![append.run.0.as_bytes(), blob.0])?;
            if new == 1 {
                cached(connection, "UPDATE blobs SET refs = refs + 1 WHERE hash = ?")?.execute([blob.0])?;
            }
        }
        derived::insert(connection, append.run, &append.derived)?;
        remembered::write(connection, append.run, &append.memory)?;
        if append.summary.as_ref().is_some_and(|summary| summary.finished_at.is_some()) {
            self.tails.forget(append.run);
        } else {
            self.tails.set(append.run, append.last_seq());
        }
        Ok(AppendOutcome::Committed(Position(self.position)))
    }

    /// Writes everything of a new run except its events. `Some` is a refusal, after which nothing was written.
    fn create(
        &mut self,
        connection: &Connection,
        append: &Append,
        create: &Create,
    ) -> rusqlite::Result<Option<AppendOutcome>> {
        let run = append.run.0.as_bytes();
        if let Some(key) = &create.key {
            let new = cached(connection, "INSERT OR IGNORE INTO keys (key, request, run) VALUES (?, ?, ?)")?
                .execute(params![&key.key[..], key.request, run])?;
            if new == 0 {
                return keys::taken(connection, key).map(Some);
            }
        }
        let default = Summary { updated_at: create.created_at, ..Summary::default() };
        let summary = append.summary.as_ref().unwrap_or(&default);
        let key = create.key.as_ref().map(|key| &key.key[..]);
        let (rest_in, rest_at) = rest(append.rest);
        let new = cached(
            connection,
            "INSERT OR IGNORE INTO runs (run, kind, status, outcome, created_at, updated_at, finished_at, tasks_total,
                tasks_settled, last_seq, rest_in, rest_at, key, name, labels)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )?
        .execute(params![
            run,
            create.kind,
            summary.status,
            summary.outcome,
            create.created_at.0,
            summary.updated_at.0,
            summary.finished_at.map(|at| at.0),
            summary.tasks_total,
            summary.tasks_settled,
            integer(append.last_seq()),
            rest_in,
            rest_at,
            key,
            create.name,
            labels::encode(&create.labels),
        ])?;
        if new == 0 {
            if let Some(key) = key {
                cached(connection, "DELETE FROM keys WHERE key = ?")?.execute([key])?;
            }
            return Ok(Some(AppendOutcome::Conflict));
        }
        for (key, value) in &create.labels {
            // A removed run of this id, whose own labels were damaged, has left its rows.
            cached(connection, "INSERT OR IGNORE INTO run_labels (key, value, run) VALUES (?, ?, ?)")?
                .execute(params![key, value, run])?;
        }
        Ok(None)
    }

    /// Adds a row to the end of the log.
    pub(super) fn insert_row(&mut self, connection: &Connection, row: &Sealed<'_>) -> rusqlite::Result<()> {
        self.insert(&mut inserting(connection)?, row)
    }

    /// Adds a row to the end of the log, by a statement that adds many.
    pub(super) fn insert(
        &mut self,
        inserting: &mut CachedStatement<'_>,
        row: &Sealed<'_>,
    ) -> rusqlite::Result<()> {
        self.position = row.position.0;
        self.appended += row.events.len() as u64;
        let values = params![
            integer(row.position.0),
            row.run.0.as_bytes(),
            integer(row.first_seq),
            row.count,
            integer(self.appended),
            row.events,
            checksums::column(row.checksum()),
            row.inherited.then_some(true),
        ];
        inserting.execute(values).map(drop)
    }

    /// The position of the next row.
    pub(super) fn next_position(&self) -> Position {
        Position(self.position + 1)
    }

    fn last_seq(&self, connection: &Connection, run: RunId) -> rusqlite::Result<Option<u64>> {
        if let Some(last_seq) = self.tails.get(run) {
            return Ok(Some(last_seq));
        }
        cached(connection, "SELECT last_seq FROM runs WHERE run = ?")?
            .query_row([run.0.as_bytes()], |row| unsigned(row, 0))
            .optional()
    }
}

impl ShardWriter for SqliteWriter {
    fn epoch(&self) -> Epoch {
        self.epoch
    }

    fn has_failed(&self) -> bool {
        self.failed
    }

    fn commit(&mut self, appends: &[Append]) -> Result<Vec<AppendOutcome>, StoreError> {
        if self.failed {
            return Err(StoreError::Closed);
        }
        if appends.is_empty() {
            return Ok(Vec::new());
        }
        let shared = Arc::clone(&self.shared);
        loop {
            let known = self.unreadable.count();
            let before = (self.position, self.appended, self.removed_bytes);
            let result = shared.gate.transact(COMMIT, Durability::Now, |connection| {
                self.append_all(connection, appends).map_err(failed(COMMIT))
            });
            match result {
                // Done again, the append that rows of an earlier run are in the way of is refused, and the others are not.
                Err(StoreError::Corrupt { .. }) if self.unreadable.count() > known => {
                    (self.position, self.appended, self.removed_bytes) = before;
                    self.tails = Tails::new(shared.known_runs);
                }
                result => {
                    self.failed = result.is_err();
                    return result;
                }
            }
        }
    }

    fn put_snapshot(&mut self, run: RunId, snapshot: &Snapshot) -> Result<(), StoreError> {
        let written = self.try_owned("write a snapshot", Durability::Later, |_, connection| {
            cached(
                connection,
                "INSERT INTO snapshots (run, seq, format, state, checksum)
                 SELECT ?1, ?2, ?3, ?4, ?5 WHERE EXISTS (SELECT 1 FROM runs WHERE run = ?1)
                 ON CONFLICT (run) DO UPDATE SET seq = excluded.seq, format = excluded.format, state = excluded.state,
                     checksum = excluded.checksum",
            )?
            .execute(params![
                run.0.as_bytes(),
                integer(snapshot.seq),
                snapshot.format,
                &snapshot.state[..],
                checksums::column(checksum::of_snapshot(run, snapshot)),
            ])
            .map(drop)
        })?;
        written.ok_or(StoreError::Closed)
    }

    fn quarantine(&mut self, run: RunId, quarantine: &Quarantine) -> Result<(), StoreError> {
        self.owned("quarantine a run", Durability::Now, |_, connection| {
            cached(
                connection,
                "INSERT OR REPLACE INTO quarantined (run, reason, seq, position, detail, at)
                 SELECT ?1, ?2, ?3, ?4, ?5, ?6 WHERE EXISTS (SELECT 1 FROM runs WHERE run = ?1)",
            )?
            .execute(params![
                run.0.as_bytes(),
                quarantine.reason.number(),
                integer(quarantine.seq),
                quarantine.position.map(|position| integer(position.0)),
                quarantine.detail,
                quarantine.at.0,
            ])
            .map(drop)
        })
    }

    fn release(&mut self, run: RunId) -> Result<bool, StoreError> {
        self.owned("release a run", Durability::Now, |_, connection| {
            cached(connection, "DELETE FROM quarantined WHERE run = ?")?
                .execute([run.0.as_bytes()])
                .map(|removed| removed > 0)
        })
    }

    fn put_readings(&mut self, readings: &[u8]) -> Result<(), StoreError> {
        self.owned("write readings", Durability::Later, |_, connection| {
            cached(connection, "INSERT OR REPLACE INTO meta (name, value) VALUES ('readings', ?)")?
                .execute([readings])
                .map(drop)
        })
    }

    fn mend(&mut self, mended: &[Mended]) -> Result<(), StoreError> {
        self.owned("write rows again", Durability::Now, |writer, connection| {
            for mended in mended {
                derived::remove(connection, mended.run)?;
                remembered::remove(connection, mended.run)?;
                if update_run(connection, &Columns::of(mended))? {
                    derived::insert(connection, mended.run, &mended.derived)?;
                    remembered::write(connection, mended.run, &mended.memory)?;
                }
                writer.tails.forget(mended.run);
            }
            Ok(())
        })
    }

    fn put_agents(&mut self, agents: &[AgentRow]) -> Result<(), StoreError> {
        self.owned("write agents", Durability::Now, |_, connection| {
            let mut insert = cached(
                connection,
                "INSERT OR REPLACE INTO agents (name, last_seen, agent) VALUES (?, ?, ?)",
            )?;
            for agent in agents {
                insert.execute(params![agent.name, agent.last_seen.0, &agent.agent[..]])?;
            }
            Ok(())
        })
    }

    fn forget_agents(&mut self, names: &[String]) -> Result<usize, StoreError> {
        self.owned("forget agents", Durability::Now, |_, connection| {
            let mut delete = cached(connection, "DELETE FROM agents WHERE name = ?")?;
            let mut removed = 0;
            for name in names {
                removed += delete.execute([name])?;
            }
            Ok(removed)
        })
    }

    fn sweep(&mut self, retention: &Retention) -> Result<Swept, StoreError> {
        self.sweep_all(retention)
    }

    fn remove(&mut self, run: RunId, held_by: Option<u16>, at: Millis) -> Result<Removal, StoreError> {
        self.remove_one(run, held_by, at)
    }
}

/// Prepares a statement that is parsed once for each connection.
pub(super) fn cached<'connection>(
    connection: &'connection Connection,
    sql: &str,
) -> rusqlite::Result<CachedStatement<'connection>> {
    connection.prepare_cached(sql)
}

/// The statement that adds a row to the log.
pub(super) fn inserting(connection: &Connection) -> rusqlite::Result<CachedStatement<'_>> {
    cached(
        connection,
        "INSERT INTO log (position, run, first_seq, count, appended, events, checksum, inherited)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
    )
}

fn take_over(connection: &Connection, shared: &Arc<Shared>) -> rusqlite::Result<SqliteWriter> {
    let (epoch, removed, removed_bytes, appended, removals) = connection.query_row(
        "INSERT INTO shards (shard, epoch) VALUES (?, 1) ON CONFLICT (shard) DO UPDATE SET epoch = epoch + 1
         RETURNING epoch, removed, removed_bytes, appended, removals",
        [SqliteStore::SHARD.0],
        |row| {
            let removals = reader::removals(row, 4)?;
            Ok((unsigned(row, 0)?, unsigned(row, 1)?, unsigned(row, 2)?, unsigned(row, 3)?, removals))
        },
    )?;
    let last = connection
        .query_row("SELECT position, appended FROM log ORDER BY position DESC LIMIT 1", [], |row| {
            // What is damaged is doubted.
            Ok((unsigned(row, 0)?, unsigned(row, 1).unwrap_or(u64::MAX)))
        })
        .optional()?
        .unwrap_or_default();
    Ok(SqliteWriter {
        shared: Arc::clone(shared),
        epoch: Epoch(epoch),
        // Retention may have removed the newest rows. Their positions are not reused.
        position: last.0.max(removed),
        appended: last.1.max(appended),
        removed_bytes,
        removals,
        removing: removing::read(connection)?,
        unreadable: Unreadable::default(),
        eras_swept: Position(0),
        blobs_swept: 0,
        tails: Tails::new(shared.known_runs),
        failed: false,
    })
}

fn owns(connection: &Connection, epoch: Epoch) -> rusqlite::Result<bool> {
    let current = cached(connection, "SELECT epoch FROM shards WHERE shard = ?")?
        .query_row([SqliteStore::SHARD.0], |row| unsigned(row, 0))?;
    Ok(current == epoch.0)
}

/// The columns of a rest: how long, and until when.
fn rest(rest: Option<Rest>) -> (Option<i64>, Option<i64>) {
    rest.map_or((None, None), |rest| (Some(rest.due_in), rest.due_at.map(|at| at.0)))
}

/// The columns of a run's row that change.
struct Columns<'a> {
    run: RunId,
    last_seq: u64,
    /// `None` where only the others change.
    summary: Option<&'a Summary>,
    rest: Option<Rest>,
}

impl<'a> Columns<'a> {
    fn after(append: &'a Append) -> Self {
        let last_seq = append.last_seq();
        Self { run: append.run, last_seq, summary: append.summary.as_ref(), rest: append.rest }
    }

    fn of(mended: &'a Mended) -> Self {
        let Mended { run, last_seq, summary, rest, .. } = mended;
        Self { run: *run, last_seq: *last_seq, summary: Some(summary), rest: *rest }
    }
}

/// Changes a run's row, and returns whether there is one.
fn update_run(connection: &Connection, columns: &Columns<'_>) -> rusqlite::Result<bool> {
    let run = columns.run.0.as_bytes();
    let (rest_in, rest_at) = rest(columns.rest);
    let updated = match columns.summary {
        Some(summary) => cached(
            connection,
            "UPDATE runs SET status = ?, outcome = ?, updated_at = ?, finished_at = ?, tasks_total = ?,
                tasks_settled = ?, last_seq = ?, rest_in = ?, rest_at = ? WHERE run = ?",
        )?
        .execute(params![
            summary.status,
            summary.outcome,
            summary.updated_at.0,
            summary.finished_at.map(|at| at.0),
            summary.tasks_total,
            summary.tasks_settled,
            integer(columns.last_seq),
            rest_in,
            rest_at,
            run,
        ])?,
        None => cached(connection, "UPDATE runs SET last_seq = ?, rest_in = ?, rest_at = ? WHERE run = ?")?
            .execute(params![integer(columns.last_seq), rest_in, rest_at, run])?,
    };
    Ok(updated == 1)
}
