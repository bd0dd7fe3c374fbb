//! The three kinds of connections, and the check that their settings took effect.

use std::path::Path;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::SqliteOptions;
use super::error::{failed, integer};
use crate::port::StoreError;

/// A capacity above the number of statements on the hot path.
const STATEMENTS: usize = 64;

/// The value of `PRAGMA synchronous` with which a commit is on the disk when it returns.
const FULL: i64 = 2;

/// Opens a connection that writes or checkpoints; makes the file if it is missing.
pub(super) fn open_writing(database: &Path, options: &SqliteOptions) -> Result<Connection, StoreError> {
    if options.immutable {
        let source = "it is open as one that nobody changes";
        return Err(StoreError::Io { operation: "open the database", source: source.into() });
    }
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(database, flags).map_err(failed("open the database"))?;
    refuse_read_only(&connection)?;
    common(&connection, options, options.cache_bytes)?;
    write_settings(&connection, options).map_err(failed("set up the database"))?;
    assert_durable(&connection)?;
    Ok(connection)
}

/// SQLite opens a file that it may not write for reading alone, and says so only at the first write.
fn refuse_read_only(connection: &Connection) -> Result<(), StoreError> {
    if connection.is_readonly("main").map_err(failed("open the database"))? {
        let source = "the file of the database may only be read; the daemon must be able to write it";
        return Err(StoreError::Io { operation: "open the database", source: source.into() });
    }
    Ok(())
}

/// Opens a connection that only reads.
pub(super) fn open_reading(database: &Path, options: &SqliteOptions) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let opened = if options.immutable {
        Connection::open_with_flags(as_immutable(database), flags | OpenFlags::SQLITE_OPEN_URI)
    } else {
        Connection::open_with_flags(database, flags)
    };
    let connection = opened.map_err(failed("open the database for reading"))?;
    common(&connection, options, options.cache_bytes / 4)?;
    Ok(connection)
}

/// The URI of a database that nobody changes while it is open.
fn as_immutable(database: &Path) -> String {
    // Behind two slashes is the name of a host, which may be empty.
    let mut uri = String::from(if database.has_root() { "file://" } else { "file:" });
    for byte in database.as_os_str().as_encoded_bytes().iter().copied() {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            uri.push_str(&format!("%{byte:02X}"));
        }
    }
    uri.push_str("?immutable=1");
    uri
}

fn common(connection: &Connection, options: &SqliteOptions, cache_bytes: u64) -> Result<(), StoreError> {
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    let set = || {
        connection.busy_timeout(options.busy_timeout)?;
        connection.pragma_update(None, "mmap_size", 0)?;
        connection.pragma_update(None, "foreign_keys", false)?;
        connection.pragma_update(None, "trusted_schema", false)?;
        // A negative size is in KiB.
        connection.pragma_update(None, "cache_size", -integer(cache_bytes / 1024))
    };
    set().map_err(failed("set up a connection"))
}

fn write_settings(connection: &Connection, options: &SqliteOptions) -> rusqlite::Result<()> {
    switch_to_wal(connection)?;
    connection.pragma_update(None, "synchronous", FULL)?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.pragma_update(None, "journal_size_limit", integer(options.wal_limit_bytes))?;
    connection.pragma_update(None, "temp_store", "memory")?;
    if let Some(pages) = options.max_pages {
        connection.pragma_update(None, "max_page_count", pages)?;
    }
    Ok(())
}

/// Switches a new file to the write-ahead log. Where several connections switch at once, SQLite refuses all but one of
/// them without waiting; a lock that it does wait for tells when that one is done.
fn switch_to_wal(connection: &Connection) -> rusqlite::Result<()> {
    for _ in 0..SWITCHES {
        match connection.pragma_update(None, "journal_mode", "wal") {
            Err(rusqlite::Error::SqliteFailure(error, _)) if error.code == ErrorCode::DatabaseBusy => {
                // Whether the lock was given does not matter: the switch is tried again in any case.
                let _ = connection.execute_batch("BEGIN IMMEDIATE; COMMIT");
            }
            switched => return switched,
        }
    }
    connection.pragma_update(None, "journal_mode", "wal")
}

/// How often a refused switch is tried again.
const SWITCHES: usize = 64;

/// Checks the settings on which every promise of durability rests, as SQLite reports them.
fn assert_durable(connection: &Connection) -> Result<(), StoreError> {
    let read = failed("read the settings of the database");
    let journal: String =
        connection.pragma_query_value(None, "journal_mode", |row| row.get(0)).map_err(&read)?;
    let synchronous: i64 =
        connection.pragma_query_value(None, "synchronous", |row| row.get(0)).map_err(&read)?;
    if journal == "wal" && synchronous == FULL {
        return Ok(());
    }
    let found = format!("journal_mode is {journal}, synchronous is {synchronous}");
    Err(StoreError::Io { operation: "make the database durable", source: found.into() })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn an_immutable_database_is_read_without_a_trace_whatever_its_name_and_never_written() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("50%? #é");
        std::fs::create_dir(&folder).unwrap();
        let (database, options) = (folder.join("capataz.db"), SqliteOptions::default());
        let writing = open_writing(&database, &options).unwrap();
        writing.execute_batch("CREATE TABLE kept (x); INSERT INTO kept VALUES (7)").unwrap();
        writing.close().unwrap();
        let there = || std::fs::read_dir(&folder).unwrap().count();
        let (files, written) = (there(), folder.metadata().unwrap().modified().unwrap());
        let options = SqliteOptions { immutable: true, ..options };
        let reading = open_reading(&database, &options).unwrap();
        let read = |connection: &Connection| {
            connection.query_row("SELECT x FROM kept", [], |row| row.get::<_, i64>(0)).unwrap()
        };
        assert_eq!((read(&reading), there()), (7, files));
        assert!(reading.execute_batch("INSERT INTO kept VALUES (8)").is_err());
        assert_eq!(folder.metadata().unwrap().modified().unwrap(), written);
        let refused = open_writing(&database, &options).unwrap_err();
        assert!(matches!(refused, StoreError::Io { .. }), "{refused:?}");
    }

    #[test]
    fn the_name_of_an_immutable_database_is_that_of_its_file() {
        let named = |database: &str| as_immutable(Path::new(database));
        assert_eq!(named("/a/b-1.db"), "file:///a/b-1.db?immutable=1");
        assert_eq!(named("//a/b"), "file:////a/b?immutable=1");
        assert_eq!(named("a b/%?#é"), "file:a%20b/%25%3F%23%C3%A9?immutable=1");
    }

    /// What SQLite does by itself with a file, or a file system, that may not be written.
    #[test]
    fn a_connection_that_may_only_read_is_refused_in_words() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("capataz.db");
        let options = SqliteOptions::default();
        refuse_read_only(&open_writing(&database, &options).unwrap()).unwrap();
        let refused = refuse_read_only(&open_reading(&database, &options).unwrap()).unwrap_err();
        assert_eq!(refused.to_string(), "the store could not open the database");
        let reason = std::error::Error::source(&refused).unwrap().to_string();
        assert!(reason.contains("may only be read"), "{reason}");
    }
}
