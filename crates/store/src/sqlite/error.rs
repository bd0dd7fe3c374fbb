//! From SQLite's errors to the port's.

use rusqlite::{Error, ErrorCode};

use crate::port::StoreError;

/// Turns an error of SQLite into the port's, naming what the store was about to do.
pub(super) fn failed(operation: &'static str) -> impl Fn(Error) -> StoreError {
    move |error| match &error {
        Error::SqliteFailure(failure, _)
            if matches!(failure.code, ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) =>
        {
            StoreError::Corrupt { detail: error.to_string() }
        }
        // A value that is not what the schema says, or a table that is not there.
        Error::FromSqlConversionFailure(..)
        | Error::IntegralValueOutOfRange(..)
        | Error::InvalidColumnType(..)
        | Error::QueryReturnedNoRows
        | Error::SqlInputError { .. } => StoreError::Corrupt { detail: error.to_string() },
        _ => StoreError::Io { operation, source: Box::new(error) },
    }
}

/// The same for files.
pub(super) fn io_failed(operation: &'static str) -> impl Fn(std::io::Error) -> StoreError {
    move |source| StoreError::Io { operation, source: Box::new(source) }
}

/// An unsigned number as SQLite has it. Only numbers that fit are ever written; a larger bound means "all".
pub(super) fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A column that is never negative.
pub(super) fn unsigned(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let number: i64 = row.get(column)?;
    u64::try_from(number).map_err(|_| Error::IntegralValueOutOfRange(column, number))
}
