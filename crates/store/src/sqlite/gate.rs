//! The only connection that writes, and its transactions.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;

use super::checksums::Progress;
use super::error::failed;
use super::maintenance::{Gauge, log_of};
use super::{SqliteOptions, checksums, connection, healing, probe, schema};
use crate::port::StoreError;

/// Serialises writers within the process, so that SQLite's own lock waits only for other processes.
pub(super) struct Gate {
    database: PathBuf,
    options: SqliteOptions,
    gauge: Arc<Gauge>,
    /// The connection; `None` after a failed transaction, because the connection's state is no longer trusted.
    connection: Mutex<Option<Connection>>,
}

/// The moment when a transaction must be on the disk.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Durability {
    Now,
    /// The transaction becomes durable with the next durable one. The order is kept.
    Later,
}

impl Gate {
    /// Opens and migrates the database.
    pub(super) fn open(
        database: PathBuf,
        options: SqliteOptions,
        gauge: Arc<Gauge>,
        progress: Progress<'_>,
    ) -> Result<Self, StoreError> {
        let mut connection = connection::open_writing(&database, &options)?;
        // A process before this one may have ended at a failed sync.
        healing::log_again(&connection, &log_of(&database))?;
        schema::migrate(&mut connection)?;
        checksums::complete(&mut connection, options.migration_rows, progress)?;
        probe::check_tables(&connection)?;
        observe(&mut connection, &gauge)?;
        Ok(Self { database, options, gauge, connection: Mutex::new(Some(connection)) })
    }

    /// A gate through which nobody comes: that of a database that is immutable. A newer format is refused.
    pub(super) fn shut(database: PathBuf, options: SqliteOptions) -> Result<Self, StoreError> {
        let mut connection = connection::open_reading(&database, &options)?;
        // There is nothing to migrate.
        schema::migrate(&mut connection)?;
        probe::check_tables(&connection)?;
        let gauge = Arc::new(Gauge::new(&options));
        Ok(Self { database, options, gauge, connection: Mutex::new(None) })
    }

    /// Runs `action` in a transaction. An error of the action or of the commit rolls the transaction back, as far as is
    /// known.
    pub(super) fn transact<T>(
        &self,
        operation: &'static str,
        durability: Durability,
        action: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut guard = self.lock();
        let connection = match guard.take() {
            Some(connection) => connection,
            None => {
                let mut connection = connection::open_writing(&self.database, &self.options)?;
                healing::log_again(&connection, &log_of(&self.database))?;
                observe(&mut connection, &self.gauge)?;
                connection
            }
        };
        let result = match durability {
            Durability::Now => in_transaction(&connection, operation, action),
            Durability::Later => {
                connection.pragma_update(None, "synchronous", "normal").map_err(failed(operation))?;
                let result = in_transaction(&connection, operation, action);
                connection.pragma_update(None, "synchronous", "full").map_err(failed(operation))?;
                result
            }
        };
        if result.is_ok() {
            *guard = Some(connection);
        }
        result
    }

    /// The same, for an action that may be done again.
    pub(super) fn transact_again<T>(
        &self,
        operation: &'static str,
        durability: Durability,
        action: impl Fn(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        match self.transact(operation, durability, &action) {
            // SQLite takes one read that fails (EIO) for damage, and nobody is to be told of damage that is not there.
            Err(StoreError::Corrupt { .. }) => self.transact(operation, durability, &action),
            result => result,
        }
    }

    /// Blocks writers while the returned value is held.
    pub(super) fn hold(&self) -> impl Sized + '_ {
        self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Connection>> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn in_transaction<T>(
    connection: &Connection,
    operation: &'static str,
    action: impl FnOnce(&Connection) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let execute = |sql: &str| {
        connection
            .prepare_cached(sql)
            .and_then(|mut statement| statement.execute([]))
            .map_err(failed(operation))
    };
    execute("BEGIN IMMEDIATE")?;
    // Without a commit, the caller closes the connection, which rolls the transaction back.
    let value = action(connection)?;
    execute("COMMIT")?;
    Ok(value)
}

/// Reports the length of the write-ahead log to the gauge after each commit.
fn observe(connection: &mut Connection, gauge: &Arc<Gauge>) -> Result<(), StoreError> {
    let gauge = Arc::clone(gauge);
    connection
        .wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages| {
            gauge.observe(u32::try_from(pages).unwrap_or(0));
            Ok(())
        }))
        .map_err(failed("watch the write-ahead log"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::ops::ControlFlow;

    use super::*;

    #[test]
    fn what_is_durable_later_leaves_the_next_transaction_durable_now() {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteOptions::default();
        let gauge = Arc::new(Gauge::new(&options));
        let gate =
            Gate::open(folder.path().join("capataz.db"), options, gauge, &mut |_| ControlFlow::Continue(()))
                .unwrap();
        let synchronous = |durability| {
            let read = |connection: &Connection| {
                let value = connection.pragma_query_value(None, "synchronous", |row| row.get::<_, i64>(0));
                value.map_err(failed("test"))
            };
            gate.transact("test", durability, read).unwrap()
        };
        assert_eq!(synchronous(Durability::Later), 1);
        assert_eq!(synchronous(Durability::Now), 2);
    }

    #[test]
    fn a_failed_transaction_leaves_nothing_and_the_next_one_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteOptions::default();
        let gauge = Arc::new(Gauge::new(&options));
        let gate =
            Gate::open(folder.path().join("capataz.db"), options, gauge, &mut |_| ControlFlow::Continue(()))
                .unwrap();
        let insert = |connection: &Connection| {
            let sql = "INSERT INTO shards (shard, epoch) VALUES (7, 1)";
            connection.execute(sql, []).map_err(failed("test"))
        };
        for _ in 0..2 {
            let result = gate.transact("test", Durability::Now, |connection| {
                insert(connection)?;
                Err::<(), _>(StoreError::Closed)
            });
            assert!(matches!(result, Err(StoreError::Closed)));
        }
        assert_eq!(gate.transact("test", Durability::Now, insert).unwrap(), 1);
    }
}
