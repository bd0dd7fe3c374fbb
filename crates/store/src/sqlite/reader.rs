//! Reads, each on a connection that only reads and in one short transaction.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use rusqlite::types::{Type, Value, ValueRef};
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};

use super::error::{failed, integer, unsigned};
use super::{SqliteOptions, SqliteStore, connection, labels};
use crate::page::Page;
use crate::port::{
    AgentRow, Bounds, LogRow, Millis, Position, RunId, RunQuery, RunRow, Snapshot, StoreError, Summary,
};

const RUN_COLUMNS: &str =
    "runs.run, runs.kind, runs.name, runs.labels, runs.created_at, runs.status, runs.outcome,
    runs.updated_at, runs.finished_at, runs.tasks_total, runs.tasks_settled, runs.last_seq";

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

    fn read<T>(
        &self,
        operation: &'static str,
        action: impl FnOnce(&Connection) -> rusqlite::Result<T>,
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
            let mut statement = connection.prepare_cached(
                "SELECT position, run, first_seq, count, events FROM log WHERE position > ?1
                 ORDER BY position LIMIT ?2",
            )?;
            let rows = statement.query(params![integer(after.0), limit(max_rows)])?;
            page(rows, max_rows, max_bytes)
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
            let mut statement = connection.prepare_cached(
                "SELECT position, run, first_seq, count, events FROM log
                 WHERE run = ?1 AND first_seq + count - 1 > ?2 AND first_seq >= coalesce(
                     (SELECT max(first_seq) FROM log WHERE run = ?1 AND first_seq <= ?2 + 1), 0)
                 ORDER BY first_seq LIMIT ?3",
            )?;
            // The bound is one less than the greatest integer, because the statement adds one.
            let after_seq = integer(after_seq).min(i64::MAX - 1);
            let rows = statement.query(params![run.0.as_bytes(), after_seq, limit(max_rows)])?;
            page(rows, max_rows, max_bytes)
        })
    }

    pub(super) fn bounds(&self) -> Result<Bounds, StoreError> {
        self.read("read the bounds of the log", |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT coalesce((SELECT max(position) FROM log), 0),
                    coalesce((SELECT removed FROM shards WHERE shard = ?1), 0)",
            )?;
            statement.query_row([SqliteStore::SHARD.0], |row| {
                let removed = unsigned(row, 1)?;
                // Retention may have removed the newest rows. Their positions are never reused.
                Ok(Bounds { newest: Position(unsigned(row, 0)?.max(removed)), removed: Position(removed) })
            })
        })
    }

    pub(super) fn get_run(&self, run: RunId) -> Result<Option<RunRow>, StoreError> {
        self.read("read a run", |connection| {
            let sql = format!("SELECT {RUN_COLUMNS} FROM runs WHERE run = ?1");
            connection.prepare_cached(&sql)?.query_row([run.0.as_bytes()], run_row).optional()
        })
    }

    pub(super) fn list_runs(&self, query: &RunQuery) -> Result<Vec<RunRow>, StoreError> {
        let (sql, values) = listing(query);
        self.read("list runs", |connection| {
            let mut statement = connection.prepare_cached(&sql)?;
            statement.query_map(params_from_iter(values), run_row)?.collect()
        })
    }

    pub(super) fn unfinished(&self, after: Option<RunId>, limit: usize) -> Result<Vec<RunId>, StoreError> {
        self.read("list unfinished runs", |connection| {
            // Without a bound, the comparison includes the least id.
            let comparison = if after.is_some() { ">" } else { ">=" };
            let mut statement = connection.prepare_cached(&format!(
                "SELECT run FROM runs INDEXED BY runs_unfinished WHERE finished_at IS NULL AND run {comparison} ?1
                 ORDER BY run LIMIT ?2"
            ))?;
            let after = after.unwrap_or(RunId::MIN);
            statement.query_map(params![after.0.as_bytes(), self::limit(limit)], |row| run_id(row, 0))?.collect()
        })
    }

    pub(super) fn snapshot(&self, run: RunId) -> Result<Option<Snapshot>, StoreError> {
        self.read("read a snapshot", |connection| {
            let mut statement =
                connection.prepare_cached("SELECT seq, format, state FROM snapshots WHERE run = ?1")?;
            let snapshot = |row: &Row<'_>| {
                Ok(Snapshot { seq: unsigned(row, 0)?, format: row.get(1)?, state: blob(row, 2)? })
            };
            statement.query_row([run.0.as_bytes()], snapshot).optional()
        })
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

/// Builds the statement of a listing. If labels are requested, the first label determines the order of the search.
fn listing(query: &RunQuery) -> (String, Vec<Value>) {
    let mut values = Vec::new();
    let mut from = String::new();
    let mut conditions = Vec::new();
    let mut id = "runs.run".to_owned();
    for (number, (key, value)) in query.labels.iter().enumerate() {
        // CROSS JOIN keeps the order of the tables.
        from.push_str(&format!("run_labels AS l{number} CROSS JOIN "));
        conditions.push(format!("l{number}.key = ? AND l{number}.value = ?"));
        values.extend([Value::from(key.clone()), Value::from(value.clone())]);
        if number == 0 {
            id = "l0.run".to_owned();
        } else {
            conditions.push(format!("l{number}.run = l0.run"));
        }
    }
    if !query.labels.is_empty() {
        conditions.push("runs.run = l0.run".to_owned());
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
    if let Some(before) = query.before {
        conditions.push(format!("{id} < ?"));
        values.push(Value::from(before.0.as_bytes().to_vec()));
    }
    let filter = if conditions.is_empty() { "1".to_owned() } else { conditions.join(" AND ") };
    values.push(Value::from(query.limit));
    (format!("SELECT {RUN_COLUMNS} FROM {from}runs WHERE {filter} ORDER BY {id} DESC LIMIT ?"), values)
}

fn page(mut rows: rusqlite::Rows<'_>, max_rows: usize, max_bytes: usize) -> rusqlite::Result<Vec<LogRow>> {
    let mut page = Page::new(max_rows, max_bytes);
    while let Some(row) = rows.next()? {
        let events = bytes(row, 4)?;
        if !page.admits(events.len()) {
            break;
        }
        page.push(LogRow {
            position: Position(unsigned(row, 0)?),
            run: run_id(row, 1)?,
            first_seq: unsigned(row, 2)?,
            count: row.get(3)?,
            events: Bytes::copy_from_slice(events),
        });
    }
    Ok(page.into_rows())
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
    })
}

pub(super) fn run_id(row: &Row<'_>, column: usize) -> rusqlite::Result<RunId> {
    let bytes: [u8; 16] = row.get(column)?;
    Ok(RunId(uuid::Uuid::from_bytes(bytes)))
}

fn bytes<'row>(row: &'row Row<'_>, column: usize) -> rusqlite::Result<&'row [u8]> {
    Ok(row.get_ref(column)?.as_blob()?)
}

fn blob(row: &Row<'_>, column: usize) -> rusqlite::Result<Bytes> {
    bytes(row, column).map(Bytes::copy_from_slice)
}
