//! The checksums of rows that were written before there were any: the part of a migration that takes time. They are
//! computed in bounded batches, each a transaction, and from where they stood when they were interrupted. The rows
//! themselves are not written again: their checksums are in a table beside the log.

use std::ops::ControlFlow;

use rusqlite::{Connection, ErrorCode, OptionalExtension, Row, TransactionBehavior, params};

use super::error::{failed, unsigned};
use super::reader;
use super::writer::cached;
use crate::port::StoreError;

const OPERATION: &str = "migrate the database";

/// The bytes of events after which a batch ends.
const MIGRATION_BYTES: usize = 16 << 20;

/// The fact in `meta` up to which position the rows have their checksums. It is removed when all have.
const PENDING: &str = "log_sealed";

/// How far the migration of a database is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migrated {
    /// Rows of the log that have their checksums, also from an earlier attempt.
    pub done: u64,
    /// All rows of the log.
    pub total: u64,
}

/// Is told of each step of a migration, once the step is durable, and may stop the migration.
pub(super) type Progress<'a> = &'a mut dyn FnMut(Migrated) -> ControlFlow<()>;

/// A checksum as a column, which takes four bytes at most.
pub(super) fn column(checksum: u32) -> i32 {
    checksum.cast_signed()
}

/// Completes the migration, if it is not complete. `rows` bounds a batch.
pub(super) fn complete(
    connection: &mut Connection,
    rows: u32,
    progress: Progress<'_>,
) -> Result<(), StoreError> {
    let Some(after) = pending(connection).map_err(failed(OPERATION))? else { return Ok(()) };
    let count = |after: i64| {
        // The index is shorter than the log.
        let sql = "SELECT count(*) FROM log INDEXED BY log_run WHERE +position > ?";
        connection.query_row(sql, [after], |row| unsigned(row, 0))
    };
    let (total, left) = (count(0).map_err(failed(OPERATION))?, count(after).map_err(failed(OPERATION))?);
    let mut migrated = Migrated { done: total.saturating_sub(left), total };
    let mut tell = |migrated: Migrated| match migrated.total > 0 && progress(migrated).is_break() {
        true => Err(StoreError::Closed),
        false => Ok(()),
    };
    tell(migrated)?;
    while let Some(sealed) = step(connection, rows.max(1)).map_err(failed(OPERATION))? {
        // Nobody else makes checkpoints yet.
        connection
            .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
            .map_err(failed("checkpoint the write-ahead log"))?;
        // Another process may do the same at the same time.
        migrated.done = migrated.total.min(migrated.done + sealed);
        tell(migrated)?;
    }
    Ok(())
}

/// Returns whether the migration has begun and is not complete.
pub(super) fn is_pending(connection: &Connection) -> rusqlite::Result<bool> {
    pending(connection).map(|position| position.is_some())
}

/// The position up to which rows have their checksums; `None` if all have.
fn pending(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    cached(connection, "SELECT value FROM meta WHERE name = ?")?
        .query_row([PENDING], |row| row.get(0))
        .optional()
}

/// Does one batch, and returns the number of its rows; `None` when nothing is left.
///
/// The rows are read before the transaction, because SQLite commits nothing after it has met a damaged page. They do not
/// change meanwhile: whoever could write or remove some waits for the end of the migration, or is fenced.
fn step(connection: &mut Connection, rows: u32) -> rusqlite::Result<Option<u64>> {
    let Some(after) = pending(connection)? else { return Ok(None) };
    let batch = match read(connection, after, rows) {
        Err(error) if is_corrupt(&error) => read_each(connection, after, rows)?,
        batch => batch?,
    };
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if pending(&transaction)? != Some(after) {
        // Another process has done this batch.
        return Ok(Some(0));
    }
    {
        let mut insert =
            cached(&transaction, "INSERT INTO earlier_checksums (position, checksum) VALUES (?, ?)")?;
        for (position, checksum) in &batch.checksums {
            insert.execute(params![position, column(*checksum)])?;
        }
    }
    match batch.last {
        Some(last) => {
            transaction.execute("UPDATE meta SET value = ? WHERE name = ?", params![last, PENDING])?
        }
        None => transaction.execute("DELETE FROM meta WHERE name = ?", [PENDING])?,
    };
    transaction.commit()?;
    Ok(batch.last.map(|_| batch.rows))
}

#[derive(Default)]
struct Batch {
    checksums: Vec<(i64, u32)>,
    rows: u64,
    /// The last position of the batch; `None` if there are no more rows.
    last: Option<i64>,
}

impl Batch {
    /// Takes a row. One that cannot be read as a row of the log gets no checksum, and so stays damaged.
    fn take(&mut self, row: &Row<'_>) -> rusqlite::Result<()> {
        let position = row.get(0)?;
        self.last = Some(position);
        self.rows += 1;
        self.checksums.extend(reader::sealed(row, false).map(|sealed| (position, sealed.checksum())));
        Ok(())
    }
}

fn read(connection: &Connection, after: i64, most: u32) -> rusqlite::Result<Batch> {
    let mut statement = cached(
        connection,
        "SELECT position, run, first_seq, count, events FROM log WHERE position > ? ORDER BY position LIMIT ?",
    )?;
    let mut rows = statement.query(params![after, most])?;
    let (mut batch, mut bytes) = (Batch::default(), 0);
    while bytes <= MIGRATION_BYTES
        && let Some(row) = rows.next()?
    {
        bytes += row.get_ref(4)?.as_blob().map_or(0, <[u8]>::len);
        batch.take(row)?;
    }
    Ok(batch)
}

/// Reads the rows at the next positions one by one, and leaves out those on damaged pages: a database with such a page
/// could be opened before the migration, so it can be migrated.
fn read_each(connection: &Connection, after: i64, most: u32) -> rusqlite::Result<Batch> {
    let newest: Option<i64> = connection.query_row("SELECT max(position) FROM log", [], |row| row.get(0))?;
    let mut statement =
        cached(connection, "SELECT position, run, first_seq, count, events FROM log WHERE position = ?")?;
    let mut batch = Batch::default();
    let end = newest.unwrap_or(0).min(after.saturating_add(i64::from(most)));
    for position in after.saturating_add(1)..=end {
        match statement.query_row([position], |row| batch.take(row)).optional() {
            Err(error) if !is_corrupt(&error) => return Err(error),
            _ => batch.last = Some(position),
        }
    }
    Ok(batch)
}

fn is_corrupt(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt)
}
