//! The tables and how they came about. Migrations are only ever added.

use rusqlite::{Connection, TransactionBehavior};

use super::error::failed;
use crate::port::StoreError;

/// Migration `n` (from 0) leads from format `n` to `n + 1`; the number of the format is `PRAGMA user_version`.
const MIGRATIONS: &[&str] = &[FIRST];

/// Format of the stored events that this version reads; see `min_reader` in `meta`.
const READER: u32 = 1;

/// `PRAGMA application_id`: "CPTZ".
const APPLICATION: i64 = 0x4350_545A;

/// The write cost decides the shape: a run's creation and its end touch each table and index once.
/// - `log` grows at its end; its only index serves the reading of one run. `appended` is the number of event bytes ever
///   appended up to and including the row, so that the size of the log is known without a scan.
/// - `runs` is one tree: ids grow with time, so that rows are inserted at its end. `labels` repeats what `run_labels`
///   is searched by, so that a row is read whole. `key` is the run's idempotency key while it holds.
/// - `runs_finished` has two ranges, runs that hold a key and those that do not: retention asks for the oldest of both.
/// - `retired_keys` are keys that outlive their run.
/// - `blobs.refs` counts the rows of `blob_refs`, so that unreferenced blobs are found without a scan.
const FIRST: &str = "
CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
INSERT INTO meta (name, value) VALUES ('min_reader', 1);

CREATE TABLE shards (
    shard INTEGER PRIMARY KEY,
    epoch INTEGER NOT NULL,
    removed INTEGER NOT NULL DEFAULT 0,
    removed_bytes INTEGER NOT NULL DEFAULT 0,
    appended INTEGER NOT NULL DEFAULT 0
);

CREATE TABLE log (
    position INTEGER PRIMARY KEY,
    run BLOB NOT NULL,
    first_seq INTEGER NOT NULL,
    count INTEGER NOT NULL,
    appended INTEGER NOT NULL,
    events BLOB NOT NULL
);
CREATE UNIQUE INDEX log_run ON log (run, first_seq);

CREATE TABLE runs (
    run BLOB PRIMARY KEY,
    kind INTEGER NOT NULL,
    status INTEGER NOT NULL,
    outcome INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    finished_at INTEGER,
    tasks_total INTEGER NOT NULL,
    tasks_settled INTEGER NOT NULL,
    last_seq INTEGER NOT NULL,
    key BLOB,
    name TEXT NOT NULL,
    labels BLOB
) WITHOUT ROWID;
CREATE INDEX runs_unfinished ON runs (run) WHERE finished_at IS NULL;
CREATE INDEX runs_finished ON runs ((key IS NULL), finished_at) WHERE finished_at IS NOT NULL;

CREATE TABLE run_labels (key TEXT, value TEXT, run BLOB, PRIMARY KEY (key, value, run)) WITHOUT ROWID;

CREATE TABLE keys (key BLOB PRIMARY KEY, request BLOB NOT NULL, run BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE retired_keys (
    finished_at INTEGER, run BLOB, key BLOB, PRIMARY KEY (finished_at, run, key)
) WITHOUT ROWID;

CREATE TABLE snapshots (
    id INTEGER PRIMARY KEY, run BLOB NOT NULL UNIQUE, seq INTEGER NOT NULL, format INTEGER NOT NULL, state BLOB NOT NULL
);

CREATE TABLE agents (name TEXT PRIMARY KEY, last_seen INTEGER NOT NULL, agent BLOB NOT NULL) WITHOUT ROWID;

CREATE TABLE blobs (
    hash BLOB PRIMARY KEY, size INTEGER NOT NULL, put_at INTEGER NOT NULL, refs INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX blobs_unreferenced ON blobs (put_at) WHERE refs = 0;
CREATE TABLE blob_refs (run BLOB, hash BLOB, PRIMARY KEY (run, hash)) WITHOUT ROWID;
CREATE INDEX blob_refs_hash ON blob_refs (hash);
";

/// Brings the database up to the format of this version; each step is one transaction.
pub(super) fn migrate(connection: &mut Connection) -> Result<(), StoreError> {
    migrate_with(connection, MIGRATIONS)
}

fn migrate_with(connection: &mut Connection, migrations: &[&str]) -> Result<(), StoreError> {
    let supported = u32::try_from(migrations.len()).unwrap_or(u32::MAX);
    refuse_foreign(connection)?;
    loop {
        let found = version(connection)?;
        if found > supported {
            return Err(StoreError::TooNew { found, supported });
        }
        let Some(migration) = migrations.get(found as usize) else { break };
        step(connection, found, migration).map_err(failed("migrate the database"))?;
    }
    let min_reader: u32 = connection
        .query_row("SELECT value FROM meta WHERE name = 'min_reader'", [], |row| row.get(0))
        .map_err(failed("read the format of the events"))?;
    if min_reader > READER {
        return Err(StoreError::TooNew { found: min_reader, supported: READER });
    }
    Ok(())
}

fn version(connection: &Connection) -> Result<u32, StoreError> {
    connection
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .map_err(failed("read the format of the database"))
}

/// A database that holds something but was not made by this program is left alone.
fn refuse_foreign(connection: &Connection) -> Result<(), StoreError> {
    let read = failed("read the database");
    let application: i64 =
        connection.pragma_query_value(None, "application_id", |row| row.get(0)).map_err(&read)?;
    let objects: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(&read)?;
    if objects == 0 || application == APPLICATION {
        return Ok(());
    }
    Err(StoreError::Corrupt { detail: "it is the database of another program".to_owned() })
}

fn step(connection: &mut Connection, from: u32, migration: &str) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have been faster.
    let now: u32 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if now == from {
        transaction.execute_batch(migration)?;
        transaction.pragma_update(None, "application_id", APPLICATION)?;
        transaction.pragma_update(None, "user_version", from + 1)?;
    }
    transaction.commit()
}
