//! Checkpoints, away from the writer's path: a thread with a connection of its own copies the write-ahead log into the
//! database file.
//!
//! SQLite restarts the log only when a writer finds all of it copied, which never happens under steady load. If a
//! checkpoint beside the writer was not enough and the log is several times too long, the thread first copies
//! repeatedly beside the writer. Writers wait only while the short rest is copied.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::Connection;

use super::error::{failed, io_failed};
use super::gate::Gate;
use super::{SqliteOptions, connection, healing};
use crate::port::StoreError;

/// The bytes of a page in the write-ahead log, including its header.
const FRAME: u64 = 4096 + 24;

/// The multiple of the normal checkpoint length at which writers wait for the checkpoint.
const OVERDUE: u32 = 8;

/// The fraction of that length for which writers may have to wait, and the maximum number of copies beside the writers
/// before.
const SHORT: u32 = 16;
const CATCH_UP: u32 = 6;

/// How long a checkpoint that blocks the writers waits for readers to leave the log. Reading a page takes less time.
const READERS_LEAVE: Duration = Duration::from_millis(50);

/// The time without a due checkpoint after which the log counts as idle.
const IDLE: Duration = Duration::from_secs(5);

/// The length of the write-ahead log, and the threshold for a checkpoint.
pub(super) struct Gauge {
    /// Pages in the log after the last commit.
    pages: AtomicU32,
    /// The number of pages at which the thread is called; `u32::MAX` while the thread is working.
    due_at: AtomicU32,
    step: u32,
    call: Mutex<Call>,
    called: Condvar,
}

#[derive(Default)]
struct Call {
    due: bool,
    stop: bool,
}

impl Gauge {
    pub(super) fn new(options: &SqliteOptions) -> Self {
        let step = u32::try_from(options.checkpoint_bytes / FRAME).unwrap_or(u32::MAX).max(1);
        Self {
            pages: AtomicU32::new(0),
            due_at: AtomicU32::new(step),
            step,
            call: Mutex::new(Call::default()),
            called: Condvar::new(),
        }
    }

    /// Records the length of the log. The writer calls this after each commit.
    pub(super) fn observe(&self, pages: u32) {
        let before = self.pages.swap(pages, Ordering::Relaxed);
        let mut due_at = self.due_at.load(Ordering::Relaxed);
        if pages < before && due_at != u32::MAX {
            // The log was restarted.
            self.due_at.store(self.step, Ordering::Relaxed);
            due_at = self.step;
        }
        if pages >= due_at {
            self.due_at.store(u32::MAX, Ordering::Relaxed);
            self.call().due = true;
            self.called.notify_one();
        }
    }

    fn call(&self) -> MutexGuard<'_, Call> {
        self.call.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The maintenance thread, which ends when this value is dropped.
pub(super) struct Maintenance {
    gauge: Arc<Gauge>,
    thread: Option<JoinHandle<()>>,
}

impl Maintenance {
    pub(super) fn start(
        database: &Path,
        options: &SqliteOptions,
        gauge: Arc<Gauge>,
        gate: Arc<Gate>,
    ) -> Result<Self, StoreError> {
        let options = SqliteOptions { busy_timeout: READERS_LEAVE, max_pages: None, ..options.clone() };
        let open = || connection::open_writing(database, &options);
        // SQLite takes one read that fails (EIO) for damage.
        let connection = match open() {
            Err(StoreError::Corrupt { .. }) => open(),
            opened => opened,
        };
        let worker = Worker {
            connection: connection?,
            gauge: Arc::clone(&gauge),
            gate,
            database: database.to_owned(),
            file: healing::DatabaseFile::default(),
            wal: log_of(database),
            wal_limit_bytes: options.wal_limit_bytes,
            must_heal: false,
        };
        let thread = std::thread::Builder::new()
            .name("store-maintenance".to_owned())
            .spawn(move || worker.work())
            .map_err(io_failed("start the maintenance thread"))?;
        Ok(Self { gauge, thread: Some(thread) })
    }
}

impl Drop for Maintenance {
    fn drop(&mut self) {
        self.gauge.call().stop = true;
        self.gauge.called.notify_one();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the store's maintenance thread panicked");
        }
    }
}

/// The path of a database's write-ahead log.
pub(super) fn log_of(database: &Path) -> PathBuf {
    let mut log = database.as_os_str().to_owned();
    log.push("-wal");
    PathBuf::from(log)
}

struct Worker {
    connection: Connection,
    gauge: Arc<Gauge>,
    gate: Arc<Gate>,
    database: PathBuf,
    file: healing::DatabaseFile,
    wal: PathBuf,
    wal_limit_bytes: u64,
    /// True from a failed checkpoint on, until what it may have left behind is healed.
    must_heal: bool,
}

enum Next {
    Checkpoint,
    Truncate,
    Stop,
}

/// The mode of a checkpoint, which determines for whom it waits.
#[derive(Clone, Copy)]
enum Mode {
    /// The checkpoint waits for nobody.
    Passive,
    /// The checkpoint waits for readers; the next writer restarts the log.
    Restart,
    /// The checkpoint waits for readers; the file of the log is truncated.
    Truncate,
}

impl Worker {
    fn work(mut self) {
        loop {
            let done = match self.wait() {
                Next::Checkpoint => self.checkpoint_due(),
                Next::Truncate => self.truncate(),
                Next::Stop => return self.try_to_heal(),
            };
            if let Err(error) = done {
                // The log stays correct and grows until the next attempt.
                tracing::warn!(error = &error as &dyn std::error::Error, "checkpoint failed");
                self.must_heal = true;
                self.try_to_heal();
            }
        }
    }

    fn wait(&self) -> Next {
        let mut call = self.gauge.call();
        loop {
            if call.stop {
                return Next::Stop;
            }
            if std::mem::take(&mut call.due) {
                return Next::Checkpoint;
            }
            if !self.wal_is_huge() {
                call = self.gauge.called.wait(call).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let (guard, timeout) =
                self.gauge.called.wait_timeout(call, IDLE).unwrap_or_else(PoisonError::into_inner);
            call = guard;
            if timeout.timed_out() && !call.due && !call.stop {
                return Next::Truncate;
            }
        }
    }

    fn truncate(&mut self) -> Result<(), StoreError> {
        self.heal()?;
        let _writers_wait = self.gate.hold();
        self.checkpoint(Mode::Truncate).map(drop)
    }

    fn try_to_heal(&mut self) {
        if let Err(error) = self.heal() {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "what a failed checkpoint left is not healed"
            );
        }
    }

    /// Writes again what a failed checkpoint may have left behind. No checkpoint begins before that is done, because the
    /// next one copies only what this one did not, and then the log may be begun anew.
    fn heal(&mut self) -> Result<(), StoreError> {
        if self.must_heal {
            let _writers_wait = self.gate.hold();
            healing::log_again(&self.connection, &self.wal)?;
            self.file
                .pages_again(&self.database, &self.wal)
                .map_err(io_failed("write pages of the database again"))?;
            self.must_heal = false;
        }
        Ok(())
    }

    fn wal_is_huge(&self) -> bool {
        std::fs::metadata(&self.wal).is_ok_and(|metadata| metadata.len() > self.wal_limit_bytes)
    }

    fn checkpoint_due(&mut self) -> Result<(), StoreError> {
        let result = self.heal().and_then(|()| self.checkpoint_all());
        let copied =
            result.as_ref().map_or_else(|_| self.gauge.pages.load(Ordering::Relaxed), |pages| *pages);
        self.gauge.due_at.store(copied.saturating_add(self.gauge.step), Ordering::Relaxed);
        result.map(drop)
    }

    /// Copies the log, in one checkpoint or in several. Nothing is copied after one that failed.
    fn checkpoint_all(&self) -> Result<u32, StoreError> {
        let mut copied = self.checkpoint(Mode::Passive)?;
        if self.gauge.pages.load(Ordering::Relaxed) / OVERDUE >= self.gauge.step {
            for _ in 0..CATCH_UP {
                let left = self.gauge.pages.load(Ordering::Relaxed).saturating_sub(copied);
                if left <= self.gauge.step / SHORT {
                    break;
                }
                copied = self.checkpoint(Mode::Passive)?;
            }
            let _writers_wait = self.gate.hold();
            copied = self.checkpoint(Mode::Restart)?;
        }
        Ok(copied)
    }

    /// Performs a checkpoint, and returns the number of pages that the log had.
    fn checkpoint(&self, mode: Mode) -> Result<u32, StoreError> {
        let pragma = match mode {
            Mode::Passive => "PRAGMA wal_checkpoint(PASSIVE)",
            Mode::Restart => "PRAGMA wal_checkpoint(RESTART)",
            Mode::Truncate => "PRAGMA wal_checkpoint(TRUNCATE)",
        };
        self.connection
            .prepare_cached(pragma)
            .and_then(|mut statement| statement.query_row([], |row| row.get::<_, i64>(1)))
            // The value is -1 if there is no log yet.
            .map(|pages| u32::try_from(pages).unwrap_or(0))
            .map_err(failed("checkpoint the write-ahead log"))
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::*;

    #[test]
    fn a_log_is_huge_from_one_byte_above_its_limit_on() {
        let folder = tempfile::tempdir().unwrap();
        let (database, wal) = (folder.path().join("a.db"), folder.path().join("log"));
        let options = SqliteOptions::default();
        let gauge = Arc::new(Gauge::new(&options));
        let shared = Arc::clone(&gauge);
        let gate = Gate::open(database.clone(), options.clone(), shared, &mut |_| ControlFlow::Continue(()))
            .unwrap();
        let worker = Worker {
            connection: connection::open_writing(&database, &options).unwrap(),
            gauge,
            gate: Arc::new(gate),
            database,
            file: healing::DatabaseFile::default(),
            wal: wal.clone(),
            wal_limit_bytes: 10,
            must_heal: false,
        };
        assert!(!worker.wal_is_huge(), "there is none");
        let is_huge = [0, 10, 11, 12].map(|bytes| {
            std::fs::write(&wal, vec![0_u8; bytes]).unwrap();
            worker.wal_is_huge()
        });
        assert_eq!(is_huge, [false, false, true, true]);
    }
}
