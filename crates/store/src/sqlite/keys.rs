//! Keys: those of this shard's runs, whose rows in `runs` or `retired_keys` name them, and those that are registered for runs
//! of other shards, which nothing else names, so that no sweep finds them.

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, params};

use super::reader::run_id;
use super::writer::cached;
use crate::port::{AppendOutcome, IdempotencyKey, KeyChange, KeyRow, RunId};

/// The row of `meta` with the greatest id of a run whose key was removed.
const REMOVED: &str = "keys_removed";

/// The outcome for whoever wants a key that names a run.
pub(super) fn taken(connection: &Connection, key: &IdempotencyKey) -> rusqlite::Result<AppendOutcome> {
    let KeyRow { run, request } = row_of(connection, &key.key)?;
    Ok(AppendOutcome::KeyTaken { run, same_request: request == key.request })
}

fn row_of(connection: &Connection, key: &[u8]) -> rusqlite::Result<KeyRow> {
    cached(connection, "SELECT run, request FROM keys WHERE key = ?")?
        .query_row([key], |row| Ok(KeyRow { run: run_id(row, 0)?, request: row.get(1)? }))
}

/// The outcome with which the change would be refused now.
pub(super) fn refusal(
    connection: &Connection,
    change: &KeyChange,
) -> rusqlite::Result<Option<AppendOutcome>> {
    match change {
        KeyChange::Register(key) => taken(connection, key).optional(),
        KeyChange::Release(_) => Ok(None),
    }
}

pub(super) fn change(connection: &Connection, run: RunId, change: &KeyChange) -> rusqlite::Result<()> {
    let run = run.0.as_bytes();
    match change {
        KeyChange::Register(key) => {
            cached(connection, "INSERT INTO keys (key, request, run) VALUES (?, ?, ?)")?.execute(params![
                &key.key[..],
                key.request,
                run
            ])?;
        }
        // A run of this shard has a row here, or a retired key: those keys are not released.
        KeyChange::Release(key) => {
            cached(
                connection,
                "DELETE FROM keys WHERE key = ?1 AND run = ?2
                   AND NOT EXISTS (SELECT 1 FROM runs WHERE run = ?2 AND key = ?1)
                   AND NOT EXISTS (SELECT 1 FROM retired_keys WHERE run = ?2 AND key = ?1)",
            )?
            .execute(params![&key[..], run])?;
        }
    }
    Ok(())
}

pub(super) fn read(connection: &Connection, key: &[u8]) -> rusqlite::Result<Option<KeyRow>> {
    row_of(connection, key).optional()
}

pub(super) fn list(
    connection: &Connection,
    after: Option<&[u8]>,
    limit: i64,
) -> rusqlite::Result<Vec<(Bytes, RunId)>> {
    // No key is empty.
    cached(connection, "SELECT key, run FROM keys WHERE key > ? ORDER BY key LIMIT ?")?
        .query_map(params![after.unwrap_or_default(), limit], |row| {
            Ok((row.get::<_, Vec<u8>>(0)?.into(), run_id(row, 1)?))
        })?
        .collect()
}

/// The keys of these runs are removed.
pub(super) fn note_removed(
    connection: &Connection,
    runs: impl Iterator<Item = RunId>,
) -> rusqlite::Result<()> {
    let Some(greatest) = runs.max() else { return Ok(()) };
    cached(
        connection,
        "INSERT INTO meta (name, value) VALUES (?, ?)
         ON CONFLICT (name) DO UPDATE SET value = max(value, excluded.value)",
    )?
    .execute(params![REMOVED, greatest.0.as_bytes()])
    .map(drop)
}

pub(super) fn removed(connection: &Connection) -> rusqlite::Result<Option<RunId>> {
    cached(connection, "SELECT value FROM meta WHERE name = ?")?
        .query_row([REMOVED], |row| run_id(row, 0))
        .optional()
}
