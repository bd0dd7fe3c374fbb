//! Reads, each on a connection that only reads and in one short transaction.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use rusqlite::types::{Type, Value, ValueRef};
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};

use super::error::{failed, integer, unsigned};
use super::removing::IS_THERE;
use super::{SqliteOptions, SqliteStore, checksums, connection, keys, labels};
use crate::checksum::{self, Sealed};
use crate::page::Page;
use crate::port::{
    AgentRow, BlobHash, Bounds, Era, Extent, History, KeyRow, LogRow, Mark, Millis, Position, Quarantine,
    QuarantineReason, Removals, Rest, RunId, RunQuery, RunRow, Snapshot, StoreError, Summary, Unfinished,
};

/// A row of the log with its checksum, which is beside the log for rows that were written before there were checksums.
pub(super) const LOG_COLUMNS: &str = "position, run, first_seq, count, events,
    coalesce(checksum, (SELECT earlier.checksum FROM earlier_checksums AS earlier WHERE earlier.position = log.position)),
    inherited";
const RUN_COLUMNS: &str =
    "runs.run, runs.kind, runs.name, runs.labels, runs.created_at, runs.status, runs.outcome,
    runs.updated_at, runs.finished_at, runs.tasks_total, runs.tasks_settled, runs.last_seq, quarantined.reason,
    quarantined.seq, quarantined.position, quarantined.detail, quarantined.at";
/// Why a run is quarantined, if it is.
const WITH_QUARANTINE: &str = "LEFT JOIN quarantined ON quarantined.run = runs.run";
/// The way to the runs that have no end.
const UNFINISHED: &str = "INDEXED BY runs_unfinished";

/// The reading connections, as many as there are concurrent reads.
pub(super) struct Readers {
    database: PathBuf,
    options: SqliteOptions,
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    pub(super) fn new(database: PathBuf, options: &SqliteOptions) -> Self {
        Self { database, options: options.clone(), idle: Mutex::new(Vec::new()) }
    }

    pub(super) fn read<T>(
        &self,
        operation: &'static str,
        action: impl Fn(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        match self.read_once(operation, &action) {
            // SQLite takes one read that fails (EIO) for damage, and nobody is to be told of damage that is not there.
            // The pages that it has met are gone with the connection.
            Err(StoreError::Corrupt { .. }) => self.read_once(operation, &action),
            result => result,
        }
    }

    fn read_once<T>(
        &self,
        operation: &'static str,
        action: &impl Fn(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let reused = idle().pop();
        let connection = match reused {
            Some(connection) => connection,
            None => connection::open_reading(&self.database, &self.options)?,
        };
        // A connection that failed is closed and not used again.
        let value = action(&connection).map_err(failed(operation))?;
        let mut idle = idle();
        if idle.len() < self.options.idle_readers {
            idle.push(connection);
        }
        Ok(value)
    }

    pub(super) fn read_log(
        &self,
        after: Position,
        max_rows: usize,
        max_bytes: usize,
    ) -> Result<Vec<LogRow>, StoreError> {
        self.read("read the log", |connection| {
            let mut statement = connection.prepare_cached(&format!(
                "SELECT {LOG_COLUMNS} FROM log WHERE position > ?1 AND {IS_THERE} ORDER BY position LIMIT ?2"
            ))?;
            let rows = statement.query(params![integer(after.0), limit(max_rows)])?;
            Ok(page(rows, max_rows, max_bytes)?.0)
        })
    }

    pub(super) fn read_run(
        &self,
        run: RunId,
        after_seq: u64,
        max_rows: usize,
        max_bytes: usize,
    ) -> Result<Vec<LogRow>, StoreError> {
        self.read("read a run's log", |connection| {
            // One transaction, so that the run's last event is that of the same moment as its rows.
            connection.prepare_cached("BEGIN")?.execute([])?;
            let mut statement = connection.prepare_cached(&format!(
                "SELECT {LOG_COLUMNS} FROM log
                 WHERE run = ?1 AND first_seq + count - 1 > ?2 AND {IS_THERE} AND first_seq >= coalesce(
                     (SELECT max(first_seq) FROM log WHERE run = ?1 AND first_seq <= ?2 + 1 AND {IS_THERE}), 0)
                 ORDER BY first_seq LIMIT ?3"
            ))?;
            // The bound is one less than the greatest integer, because the statement adds one.
            let bound = integer(after_seq).min(i64::MAX - 1);
            let rows = statement.query(params![run.0.as_bytes(), bound, limit(max_rows)])?;
            let (rows, all) = page(rows, max_rows, max_bytes)?;
            let last_seq = match all {
                true => connection
                    .prepare_cached("SELECT last_seq FROM runs WHERE run = ?1")?
                    .query_row([run.0.as_bytes()], |row| unsigned(row, 0))
                    .optional()?,
                false => None,
            };
            connection.prepare_cached("COMMIT")?.execute([])?;
            let mut rows = with_gaps(run, after_seq, rows, last_seq);
            rows.truncate(max_rows);
            Ok(rows)
        })
    }

    pub(super) fn extent(&self, run: RunId, seq: u64) -> Result<Option<Extent>, StoreError> {
        self.read("measure a run's log", |connection| {
            // A column beside `max` is that of its row, and the length of a blob is known without its bytes.
            let mut statement = connection.prepare_cached(&format!(
                "SELECT max(first_seq), count, sum(length(events)) FROM log
                 WHERE run = ?1 AND first_seq <= ?2 AND {IS_THERE}"
            ))?;
            statement.query_row(params![run.0.as_bytes(), integer(seq)], |row| {
                if row.get_ref(0)? == ValueRef::Null {
                    return Ok(None);
                }
                let (first, count, bytes) = (unsigned(row, 0)?, unsigned(row, 1)?, unsigned(row, 2)?);
                let last = first.saturating_add(count).saturating_sub(1);
                Ok((last >= seq).then_some(Extent { first, last, bytes }))
            })
        })
    }

    /// Those of the blobs that have a row, or that a run names.
    pub(super) fn known_blobs(&self, blobs: &[BlobHash]) -> Result<BTreeSet<BlobHash>, StoreError> {
        self.read("look for blobs", |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT EXISTS (SELECT 1 FROM blobs WHERE hash = ?1)
                     OR EXISTS (SELECT 1 FROM blob_refs WHERE hash = ?1)",
            )?;
            let mut known = BTreeSet::new();
            for blob in blobs {
                if statement.query_row([blob.0], |row| row.get(0))? {
                    known.insert(*blob);
                }
            }
            Ok(known)
        })
    }

    pub(super) fn history(&self) -> Result<History, StoreError> {
        self.read("read the history of the shard", |connection| {
            let mut statement = connection
                .prepare_cached("SELECT mark, first, last FROM eras WHERE shard = ? ORDER BY first")?;
            let era = |row: &Row<'_>| {
                Ok(Era {
                    mark: Mark(row.get(0)?),
                    first: Position(unsigned(row, 1)?),
                    last: optional(row, 2)?.map(Position),
                })
            };
            let eras = statement.query_map([SqliteStore::SHARD.0], era)?;
            eras.collect::<rusqlite::Result<_>>().map(History::new)
        })
    }

    pub(super) fn bounds(&self) -> Result<Bounds, StoreError> {
        self.read("read the bounds of the log", |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT coalesce(last.position, 0), shards.removed, shards.removals, shards.removed_bytes,
                    max(coalesce(last.appended, 0), shards.appended)
                 FROM shards LEFT JOIN (SELECT position, appended FROM log ORDER BY position DESC LIMIT 1) AS last
                 WHERE shards.shard = ?1",
            )?;
            let bounds = statement.query_row([SqliteStore::SHARD.0], |row| {
                let removed = unsigned(row, 1)?;
                Ok(Bounds {
                    // Retention may have removed the newest rows. Their positions are never reused.
                    newest: Position(unsigned(row, 0)?.max(removed)),
                    removed: Position(removed),
                    removals: removals(row, 2)?,
                    bytes: unsigned(row, 4)?.saturating_sub(unsigned(row, 3)?),
                })
            });
            bounds.optional().map(Option::unwrap_or_default)
        })
    }

    /// The bytes of all events of the log, each row of which is looked at; `None` where the database has room for as many as are
    /// `said` to be there.
    pub(super) fn counted_anew(&self, said: u64) -> Result<Option<u64>, StoreError> {
        self.read("count the bytes of the log", |connection| {
            let read = |pragma| connection.pragma_query_value(None, pragma, |row| unsigned(row, 0));
            if said <= read("page_count")?.saturating_mul(read("page_size")?) {
                return Ok(None);
            }
            connection
                .query_row("SELECT coalesce(sum(length(events)), 0) FROM log", [], |row| unsigned(row, 0))
                .map(Some)
        })
    }

    pub(super) fn readings(&self) -> Result<Option<Bytes>, StoreError> {
        self.read("read readings", |connection| {
            connection
                .prepare_cached("SELECT value FROM meta WHERE name = 'readings'")?
                .query_row([], |row| row.get::<_, Vec<u8>>(0).map(Bytes::from))
                .optional()
        })
    }

    pub(super) fn get_run(&self, run: RunId) -> Result<Option<RunRow>, StoreError> {
        self.read("read a run", |connection| {
            let sql = format!("SELECT {RUN_COLUMNS} FROM runs {WITH_QUARANTINE} WHERE runs.run = ?1");
            connection.prepare_cached(&sql)?.query_row([run.0.as_bytes()], run_row).optional()
        })
    }

    pub(super) fn list_runs(&self, query: &RunQuery) -> Result<Vec<RunRow>, StoreError> {
        let (sql, values) = listing(query);
        self.read("list runs", |connection| {
            let mut statement = connection.prepare_cached(&sql)?;
            let mut rows = statement.query(params_from_iter(&values))?;
            let mut listed = Vec::new();
            while listed.len() < query.limit as usize
                && let Some(row) = rows.next()?
            {
                if let Some(name) = &query.name
                    && !name.matches(row.get_ref(2)?.as_str()?)
                {
                    continue;
                }
                listed.push(run_row(row)?);
            }
            Ok(listed)
        })
    }

    pub(super) fn listing_floor(&self, query: &RunQuery, runs: u32) -> Result<Option<RunId>, StoreError> {
        let Some(skipped) = runs.checked_sub(1) else { return Ok(None) };
        let (sql, mut values) = listing_floor(query);
        values.push(Value::from(skipped));
        self.read("find the end of a page of runs", |connection| {
            let mut statement = connection.prepare_cached(&sql)?;
            statement.query_row(params_from_iter(&values), |row| run_id(row, 0)).optional()
        })
    }

    pub(super) fn unfinished(
        &self,
        after: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<Unfinished>, StoreError> {
        self.read("list unfinished runs", |connection| {
            // Without a bound, the comparison includes the least id.
            let comparison = if after.is_some() { ">" } else { ">=" };
            let mut statement = connection.prepare_cached(&format!(
                "SELECT run, rest_in, rest_at FROM runs INDEXED BY runs_unfinished WHERE finished_at IS NULL AND run {comparison} ?1
                 ORDER BY run LIMIT ?2"
            ))?;
            let after = after.unwrap_or(RunId::MIN);
            let unfinished = |row: &Row<'_>| {
                let (due_in, due_at): (Option<i64>, Option<i64>) = (row.get(1)?, row.get(2)?);
                let rest = due_in.map(|due_in| Rest { due_at: due_at.map(Millis), due_in });
                Ok(Unfinished { run: run_id(row, 0)?, rest })
            };
            statement.query_map(params![after.0.as_bytes(), self::limit(limit)], unfinished)?.collect()
        })
    }

    pub(super) fn snapshot(&self, run: RunId) -> Result<Option<Snapshot>, StoreError> {
        let read = self.read("read a snapshot", |connection| {
            let mut statement = connection
                .prepare_cached("SELECT seq, format, state, checksum FROM snapshots WHERE run = ?1")?;
            let snapshot = |row: &Row<'_>| {
                let whole = |snapshot: &Snapshot| {
                    let checksum = checksums::column(checksum::of_snapshot(run, snapshot));
                    row.get(3).is_ok_and(|stored: i32| stored == checksum)
                };
                Ok(snapshot_row(row, 0).ok().filter(whole))
            };
            Ok(statement.query_row([run.0.as_bytes()], snapshot).optional()?.flatten())
        });
        match read {
            // A snapshot is a cache: whoever cannot read it reads the log.
            Err(error @ StoreError::Corrupt { .. }) => {
                tracing::warn!(%run, error = &error as &dyn std::error::Error, "a snapshot is damaged");
                Ok(None)
            }
            read => read,
        }
    }

    pub(super) fn quarantined(
        &self,
        after: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<(RunId, Quarantine)>, StoreError> {
        self.read("list quarantined runs", |connection| {
            // Without a bound, the comparison includes the least id.
            let comparison = if after.is_some() { ">" } else { ">=" };
            let mut statement = connection.prepare_cached(&format!(
                "SELECT run, reason, seq, position, detail, at FROM quarantined WHERE run {comparison} ?1
                 ORDER BY run LIMIT ?2"
            ))?;
            let after = after.unwrap_or(RunId::MIN);
            statement
                .query_map(params![after.0.as_bytes(), self::limit(limit)], |row| {
                    Ok((run_id(row, 0)?, quarantine(row, 1)?))
                })?
                .collect()
        })
    }

    pub(super) fn key(&self, key: &[u8]) -> Result<Option<KeyRow>, StoreError> {
        self.read("read a key", |connection| keys::read(connection, key))
    }

    pub(super) fn keys(&self, after: Option<&[u8]>, limit: usize) -> Result<Vec<(Bytes, RunId)>, StoreError> {
        self.read("list keys", |connection| keys::list(connection, after, self::limit(limit)))
    }

    pub(super) fn keys_removed(&self) -> Result<Option<RunId>, StoreError> {
        self.read("read which keys were removed", keys::removed)
    }

    pub(super) fn agents(&self) -> Result<Vec<AgentRow>, StoreError> {
        self.read("read the agents", |connection| {
            let mut statement =
                connection.prepare_cached("SELECT name, agent, last_seen FROM agents ORDER BY name")?;
            let agent = |row: &Row<'_>| {
                Ok(AgentRow { name: row.get(0)?, agent: blob(row, 1)?, last_seen: Millis(row.get(2)?) })
            };
            statement.query_map([], agent)?.collect()
        })
    }
}

fn limit(rows: usize) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}

/// Builds the statement of a listing, all of whose rows are in its order. If labels are requested, the first label determines
/// the order of the search. The condition for the name is not in it.
pub(super) fn listing(query: &RunQuery) -> (String, Vec<Value>) {
    let mut values = Vec::new();
    let mut from = String::new();
    let mut conditions = Vec::new();
    for (number, (key, value)) in query.labels.iter().enumerate() {
        // CROSS JOIN keeps the order of the tables.
        from.push_str(&format!("run_labels AS l{number} CROSS JOIN "));
        conditions.push(format!("l{number}.key = ? AND l{number}.value = ?"));
        values.extend([Value::from(key.clone()), Value::from(value.clone())]);
        if number > 0 {
            conditions.push(format!("l{number}.run = l0.run"));
        }
    }
    let mut index = "";
    if !query.labels.is_empty() {
        conditions.push("runs.run = l0.run".to_owned());
    } else if query.unfinished {
        index = UNFINISHED;
    }
    let columns = [("status", query.status), ("outcome", query.outcome), ("kind", query.kind)];
    for (column, wanted) in columns {
        if let Some(wanted) = wanted {
            conditions.push(format!("runs.{column} = ?"));
            values.push(Value::from(wanted));
        }
    }
    if let Some(unwanted) = query.except_kind {
        conditions.push("runs.kind <> ?".to_owned());
        values.push(Value::from(unwanted));
    }
    if query.unfinished {
        conditions.push("runs.finished_at IS NULL".to_owned());
    }
    for (comparison, time) in [(">=", query.since), ("<", query.until)] {
        if let Some(time) = time {
            conditions.push(format!("runs.created_at {comparison} ?"));
            values.push(Value::from(time.0));
        }
    }
    let id = if query.labels.is_empty() { "runs.run" } else { "l0.run" };
    let filter = within_bounds(conditions, &mut values, id, query);
    let tables = format!("{from}runs {index} {WITH_QUARANTINE}");
    (format!("SELECT {RUN_COLUMNS} FROM {tables} WHERE {filter} ORDER BY {id} DESC"), values)
}

/// Builds the statement that finds the last run that a listing looks at, whose last parameter is the number of those before
/// it.
pub(super) fn listing_floor(query: &RunQuery) -> (String, Vec<Value>) {
    let (table, conditions, mut values) = match query.labels.iter().next() {
        Some((key, value)) => {
            let values = vec![Value::from(key.clone()), Value::from(value.clone())];
            ("run_labels".to_owned(), vec!["key = ? AND value = ?".to_owned()], values)
        }
        None if query.unfinished => {
            (format!("runs {UNFINISHED}"), vec!["finished_at IS NULL".to_owned()], Vec::new())
        }
        None => ("runs".to_owned(), Vec::new(), Vec::new()),
    };
    let filter = within_bounds(conditions, &mut values, "run", query);
    (format!("SELECT run FROM {table} WHERE {filter} ORDER BY run DESC LIMIT 1 OFFSET ?"), values)
}

/// The conditions, and that the id is within the bounds of the query.
fn within_bounds(mut conditions: Vec<String>, values: &mut Vec<Value>, id: &str, query: &RunQuery) -> String {
    for (comparison, bound) in [("<", query.before), (">=", query.from)] {
        if let Some(bound) = bound {
            conditions.push(format!("{id} {comparison} ?"));
            values.push(Value::from(bound.0.as_bytes().to_vec()));
        }
    }
    if conditions.is_empty() { "1".to_owned() } else { conditions.join(" AND ") }
}

/// Reads one page, and returns whether it has all rows that there are.
fn page(
    mut rows: rusqlite::Rows<'_>,
    max_rows: usize,
    max_bytes: usize,
) -> rusqlite::Result<(Vec<LogRow>, bool)> {
    let mut page = Page::new(max_rows, max_bytes);
    let mut all = true;
    while let Some(row) = rows.next()? {
        let bytes = row.get_ref(4)?.as_blob().map_or(0, <[u8]>::len);
        all = page.admits(bytes);
        if !all {
            break;
        }
        page.push(log_row(row)?, bytes);
    }
    let rows = page.into_rows();
    all &= rows.len() < max_rows;
    Ok((rows, all))
}

/// Reads a row of the log, whatever is in its columns.
pub(super) fn log_row(row: &Row<'_>) -> rusqlite::Result<LogRow> {
    let checksum: Option<i32> = row.get(5).unwrap_or_default();
    let inherited = row.get::<_, Option<bool>>(6).unwrap_or_default().unwrap_or_default();
    let whole =
        |sealed: &Sealed<'_>| checksum.is_some_and(|stored| stored == checksums::column(sealed.checksum()));
    Ok(LogRow {
        position: Position(unsigned(row, 0)?),
        run: run_id(row, 1).unwrap_or(RunId::MIN),
        first_seq: unsigned(row, 2).unwrap_or_default(),
        count: row.get(3).unwrap_or_default(),
        events: sealed(row, inherited).filter(whole).map(|sealed| Bytes::copy_from_slice(sealed.events)),
        inherited,
    })
}

/// What the checksum of a row of the log covers; `None` if a column has not even the right type.
pub(super) fn sealed<'row>(row: &'row Row<'_>, inherited: bool) -> Option<Sealed<'row>> {
    Some(Sealed {
        position: Position(unsigned(row, 0).ok()?),
        run: run_id(row, 1).ok()?,
        first_seq: unsigned(row, 2).ok()?,
        count: row.get(3).ok()?,
        events: bytes(row, 4).ok()?,
        inherited,
    })
}

/// Adds a row without events wherever rows are missing. `last_seq` is the run's last event, if the rows are all that
/// there are.
fn with_gaps(run: RunId, after_seq: u64, rows: Vec<LogRow>, last_seq: Option<u64>) -> Vec<LogRow> {
    let missing = |first_seq: u64, last_seq: u64| LogRow {
        position: Position(0),
        run,
        first_seq,
        count: u32::try_from(last_seq - first_seq + 1).unwrap_or(u32::MAX),
        events: None,
        inherited: false,
    };
    let mut next = after_seq.saturating_add(1);
    let mut complete = Vec::with_capacity(rows.len());
    let mut rows = rows.into_iter();
    for row in rows.by_ref() {
        if row.events.is_none() {
            // Nothing can be computed from a damaged row, so what comes after it is not looked at.
            complete.push(row);
            complete.extend(rows);
            return complete;
        }
        if row.first_seq > next {
            complete.push(missing(next, row.first_seq - 1));
        }
        next = row.first_seq.saturating_add(u64::from(row.count));
        complete.push(row);
    }
    if let Some(last_seq) = last_seq.filter(|last_seq| *last_seq >= next) {
        complete.push(missing(next, last_seq));
    }
    complete
}

fn run_row(row: &Row<'_>) -> rusqlite::Result<RunRow> {
    let labels = match row.get_ref(3)? {
        ValueRef::Null => Some(BTreeMap::new()),
        column => column.as_blob().ok().and_then(labels::decode),
    };
    let damaged = || rusqlite::Error::InvalidColumnType(3, "labels".to_owned(), Type::Blob);
    Ok(RunRow {
        run: run_id(row, 0)?,
        kind: row.get(1)?,
        name: row.get(2)?,
        labels: labels.ok_or_else(damaged)?,
        created_at: Millis(row.get(4)?),
        summary: Summary {
            status: row.get(5)?,
            outcome: row.get(6)?,
            updated_at: Millis(row.get(7)?),
            finished_at: row.get::<_, Option<i64>>(8)?.map(Millis),
            tasks_total: row.get(9)?,
            tasks_settled: row.get(10)?,
        },
        last_seq: unsigned(row, 11)?,
        quarantine: match row.get_ref(12)? {
            ValueRef::Null => None,
            _ => Some(quarantine(row, 12)?),
        },
    })
}

/// Reads a quarantine from five columns, the first of which is `first`.
fn quarantine(row: &Row<'_>, first: usize) -> rusqlite::Result<Quarantine> {
    let number: u32 = row.get(first)?;
    let unknown = || rusqlite::Error::IntegralValueOutOfRange(first, i64::from(number));
    Ok(Quarantine {
        reason: QuarantineReason::from_number(number).ok_or_else(unknown)?,
        seq: unsigned(row, first + 1)?,
        position: optional(row, first + 2)?.map(Position),
        detail: row.get(first + 3)?,
        at: Millis(row.get(first + 4)?),
    })
}

/// Reads a snapshot from three columns, the first of which is `first`.
fn snapshot_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Snapshot> {
    Ok(Snapshot { seq: unsigned(row, first)?, format: row.get(first + 1)?, state: blob(row, first + 2)? })
}

/// Reads a column that is NULL or never negative.
fn optional(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<u64>> {
    match row.get_ref(column)? {
        ValueRef::Null => Ok(None),
        _ => unsigned(row, column).map(Some),
    }
}

/// Reads a number of which SQLite keeps the bits as an integer with a sign.
pub(super) fn removals(row: &Row<'_>, column: usize) -> rusqlite::Result<Removals> {
    row.get(column).map(|bits: i64| Removals(bits.cast_unsigned()))
}

pub(super) fn run_id(row: &Row<'_>, column: usize) -> rusqlite::Result<RunId> {
    let bytes: [u8; 16] = row.get(column)?;
    Ok(RunId(uuid::Uuid::from_bytes(bytes)))
}

fn bytes<'row>(row: &'row Row<'_>, column: usize) -> rusqlite::Result<&'row [u8]> {
    Ok(row.get_ref(column)?.as_blob()?)
}

pub(super) fn blob(row: &Row<'_>, column: usize) -> rusqlite::Result<Bytes> {
    bytes(row, column).map(Bytes::copy_from_slice)
}
