//! Conversion of SQLite's errors to the port's.

use rusqlite::{Error, ErrorCode};

use crate::port::StoreError;

/// Converts an error of SQLite to the port's error, with the name of the failed operation.
pub(super) fn failed(operation: &'static str) -> impl Fn(Error) -> StoreError {
    move |error| match is_damage(&error) {
        true => StoreError::Corrupt { detail: error.to_string() },
        false => StoreError::Io { operation, source: Box::new(error) },
    }
}

/// Whether the database is damaged where it was read.
pub(super) fn is_damage(error: &Error) -> bool {
    match error {
        Error::SqliteFailure(failure, _) => {
            matches!(failure.code, ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
        }
        // The row does not match the schema, or a table is missing.
        Error::FromSqlConversionFailure(..)
        | Error::IntegralValueOutOfRange(..)
        | Error::InvalidColumnType(..)
        | Error::QueryReturnedNoRows
        | Error::SqlInputError { .. } => true,
        _ => false,
    }
}

/// Converts an error of file access, with the name of the failed operation.
pub(super) fn io_failed(operation: &'static str) -> impl Fn(std::io::Error) -> StoreError {
    move |source| StoreError::Io { operation, source: Box::new(source) }
}

/// Converts an unsigned number to SQLite's integer. Only numbers that fit are ever written; a larger bound means "all".
pub(super) fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Reads a column that is never negative.
pub(super) fn unsigned(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let number: i64 = row.get(column)?;
    u64::try_from(number).map_err(|_| Error::IntegralValueOutOfRange(column, number))
}
