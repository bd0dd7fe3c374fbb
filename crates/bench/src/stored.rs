//! What the daemon has stored, read from its files while it runs.

use std::fs;
use std::path::{Path, PathBuf};

use capataz_client::v1;
use capataz_store::Append;
use rusqlite::{Connection, OpenFlags};

use crate::Outcome;

/// The daemon's database, seen from outside.
#[derive(Clone, Debug)]
pub(crate) struct Database {
    path: PathBuf,
}

/// Everything that was ever stored.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stored {
    pub(crate) log_rows: u64,
    pub(crate) event_bytes: u64,
    pub(crate) runs: u64,
    pub(crate) keys: u64,
    /// The bytes of the file and of its write-ahead log.
    pub(crate) file_bytes: u64,
}

impl Database {
    pub(crate) fn of(data_dir: &Path) -> Self {
        Self { path: data_dir.join("capataz.db") }
    }

    fn open(&self) -> Outcome<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.path, flags)?;
        connection.busy_timeout(std::time::Duration::from_secs(5))?;
        Ok(connection)
    }

    /// Transactions ever written, modulo 2³².
    ///
    /// The header of the WAL index, which is the beginning of the `-shm` file, counts them at byte 8 (`iChange`); it is
    /// there twice, and both copies agree when no writer is at work on it.
    pub(crate) fn transactions(&self) -> Outcome<u32> {
        let mut path = self.path.as_os_str().to_owned();
        path.push("-shm");
        for _ in 0..1_000 {
            let index = fs::read(&path)?;
            let (first, second) = (index.get(..48), index.get(48..96));
            if let (Some(first), Some(second)) = (first, second)
                && first == second
                && let Some(count) = first.get(8..12).and_then(|bytes| bytes.try_into().ok())
            {
                return Ok(u32::from_ne_bytes(count));
            }
        }
        Err("the header of the WAL index is never at rest".into())
    }

    pub(crate) fn stored(&self) -> Outcome<Stored> {
        let connection = self.open()?;
        let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, Option<i64>>(0));
        let count = |sql: &str| {
            number(sql).map(|value| value.and_then(|value| u64::try_from(value).ok()).unwrap_or(0))
        };
        let file_bytes = ["", "-wal"].into_iter().map(|suffix| {
            let mut path = self.path.as_os_str().to_owned();
            path.push(suffix);
            fs::metadata(path).map_or(0, |metadata| metadata.len())
        });
        Ok(Stored {
            log_rows: count("SELECT max(position) FROM log")?,
            event_bytes: count("SELECT appended FROM log ORDER BY position DESC LIMIT 1").unwrap_or(0),
            runs: count("SELECT count(*) FROM runs")?,
            keys: count("SELECT count(*) FROM keys")?,
            file_bytes: file_bytes.sum(),
        })
    }

    /// Number of events in the log.
    pub(crate) fn events(&self) -> Outcome<u64> {
        let events: Option<i64> =
            self.open()?.query_row("SELECT sum(count) FROM log", [], |row| row.get(0))?;
        Ok(events.and_then(|events| u64::try_from(events).ok()).unwrap_or(0))
    }

    /// Runs that have succeeded, and rows in the log that hold a run's last event.
    pub(crate) fn finished(&self) -> Outcome<(u64, u64)> {
        let connection = self.open()?;
        let sql = "SELECT count(*) FROM runs WHERE finished_at IS NOT NULL AND outcome = 1";
        let runs: i64 = connection.query_row(sql, [], |row| row.get(0))?;
        let sql = "SELECT count(*) FROM runs JOIN log ON log.run = runs.run AND log.first_seq + log.count - 1 = runs.last_seq";
        let ends: i64 = connection.query_row(sql, [], |row| row.get(0))?;
        Ok((u64::try_from(runs)?, u64::try_from(ends)?))
    }

    /// The rows of the newest run of a kind as the daemon wrote them, one transaction after the other. Nobody but the
    /// caller of that run may have written since it began.
    pub(crate) fn newest(&self, kind: v1::RunKind) -> Outcome<Vec<Step>> {
        let connection = self.open()?;
        let newest = "SELECT max(run) FROM runs WHERE kind = ?1";
        let sql = format!(
            "SELECT run = ({newest}), count, events FROM log
             WHERE position >= (SELECT min(position) FROM log WHERE run = ({newest})) ORDER BY position"
        );
        let mut statement = connection.prepare(&sql)?;
        let mut rows = statement.query([kind as i32])?;
        let mut steps: Vec<Step> = Vec::new();
        while let Some(row) = rows.next()? {
            let (is_of_the_run, content) = (row.get(0)?, (row.get(1)?, row.get(2)?));
            match (is_of_the_run, steps.last_mut()) {
                (true, _) => steps.push(Step { run: content, session: None }),
                // What an ask adds to its session follows the ask's own row, in the same transaction.
                (false, Some(step)) if step.session.is_none() => step.session = Some(content),
                (false, _) => return Err("something else was written beside the newest run".into()),
            }
        }
        Ok(steps)
    }
}

/// What one transaction writes: for each row the number of its events, and their bytes.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) run: (u32, Vec<u8>),
    pub(crate) session: Option<(u32, Vec<u8>)>,
}

impl Stored {
    /// What came since `before`, for each of `runs`.
    pub(crate) fn per_run(self, before: Self, runs: u64) -> impl Fn(fn(&Self) -> u64) -> f64 {
        move |field| field(&self).saturating_sub(field(&before)) as f64 / runs.max(1) as f64
    }
}

/// Number of events and bytes of some appends.
pub(crate) fn size_of(appends: &[Append]) -> (u64, u64) {
    appends.iter().fold((0, 0), |(events, bytes), append| {
        (events + u64::from(append.count), bytes + append.events.len() as u64)
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use capataz_store::{AgentRow, Mark, Millis, ShardId, SqliteOptions, SqliteStore, Store};

    use super::*;

    #[test]
    fn each_transaction_is_counted_once() {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path(), SqliteOptions::default()).unwrap();
        let mut writer = store.claim(ShardId(0), Mark(1)).unwrap();
        let database = Database::of(folder.path());
        let before = database.transactions().unwrap();
        for number in 0..50 {
            let row =
                |name: String| AgentRow { name, agent: vec![1; 3000].into(), last_seen: Millis(number) };
            // Transactions of one page and of many.
            let rows: Vec<AgentRow> = (0..=number).map(|index| row(format!("agent-{index}"))).collect();
            writer.put_agents(&rows).unwrap();
        }
        assert_eq!(database.transactions().unwrap() - before, 50);
    }
}
