//! Checkpoints, away from the writer's path: a thread with a connection of its own copies the write-ahead log into the
//! database file.
//!
//! SQLite begins the log anew only when a writer finds all of it copied, which never happens under steady load. So when
//! a checkpoint beside the writer was not enough and the log has become several times too long, what was written
//! meanwhile is copied beside the writer, too, again and again; the rest, which is short by then, is copied while
//! writers wait.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::Connection;

use super::error::{failed, io_failed};
use super::gate::Gate;
use super::{SqliteOptions, connection};
use crate::port::StoreError;

/// Bytes of a page with its header in the write-ahead log.
const FRAME: u64 = 4096 + 24;

/// Writers wait for the checkpoint once the log has so many times the length at which checkpoints begin.
const OVERDUE: u32 = 8;

/// The part of that length which writers may have to wait for, and how often the rest is copied beside them before.
const SHORT: u32 = 16;
const CATCH_UP: u32 = 6;

/// How long a checkpoint that holds up the writers waits for readers to leave the log. Pages of reading are shorter.
const READERS_LEAVE: Duration = Duration::from_millis(50);

/// The log counts as idle when nothing was due for so long.
const IDLE: Duration = Duration::from_secs(5);

/// How long the write-ahead log is, and when it is too long.
pub(super) struct Gauge {
    /// Pages in the log after the last commit.
    pages: AtomicU32,
    /// From how many on the thread is called; `u32::MAX` while it is at work.
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

    /// Called by the writer after each commit.
    pub(super) fn observe(&self, pages: u32) {
        let before = self.pages.swap(pages, Ordering::Relaxed);
        let mut due_at = self.due_at.load(Ordering::Relaxed);
        if pages < before && due_at != u32::MAX {
            // The log began anew.
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

/// The thread; dropping this ends it.
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
        let mut wal = database.as_os_str().to_owned();
        wal.push("-wal");
        let options = SqliteOptions { busy_timeout: READERS_LEAVE, max_pages: None, ..options.clone() };
        let worker = Worker {
            connection: connection::open_writing(database, &options)?,
            gauge: Arc::clone(&gauge),
            gate,
            wal: PathBuf::from(wal),
            wal_limit_bytes: options.wal_limit_bytes,
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

struct Worker {
    connection: Connection,
    gauge: Arc<Gauge>,
    gate: Arc<Gate>,
    wal: PathBuf,
    wal_limit_bytes: u64,
}

enum Next {
    Checkpoint,
    Truncate,
    Stop,
}

/// A way to checkpoint, and what it may wait for.
#[derive(Clone, Copy)]
enum Mode {
    /// For nobody.
    Passive,
    /// For readers; the next writer begins the log anew.
    Restart,
    /// For readers; the file of the log is cut.
    Truncate,
}

impl Worker {
    fn work(self) {
        loop {
            let done = match self.wait() {
                Next::Checkpoint => self.checkpoint_due(),
                Next::Truncate => {
                    let _writers_wait = self.gate.hold();
                    self.checkpoint(Mode::Truncate).map(drop)
                }
                Next::Stop => return,
            };
            if let Err(error) = done {
                // The log stays correct and grows; the next step tries again.
                tracing::warn!(error = &error as &dyn std::error::Error, "checkpoint failed");
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

    fn wal_is_huge(&self) -> bool {
        std::fs::metadata(&self.wal).is_ok_and(|metadata| metadata.len() > self.wal_limit_bytes)
    }

    fn checkpoint_due(&self) -> Result<(), StoreError> {
        let mut result = self.checkpoint(Mode::Passive);
        let pages = self.gauge.pages.load(Ordering::Relaxed);
        if result.is_ok() && pages / OVERDUE >= self.gauge.step {
            for _ in 0..CATCH_UP {
                let copied = result.as_ref().map_or(0, |pages| *pages);
                let left = self.gauge.pages.load(Ordering::Relaxed).saturating_sub(copied);
                if left <= self.gauge.step / SHORT || result.is_err() {
                    break;
                }
                result = self.checkpoint(Mode::Passive);
            }
            let _writers_wait = self.gate.hold();
            result = self.checkpoint(Mode::Restart);
        }
        let copied =
            result.as_ref().map_or_else(|_| self.gauge.pages.load(Ordering::Relaxed), |pages| *pages);
        self.gauge.due_at.store(copied.saturating_add(self.gauge.step), Ordering::Relaxed);
        result.map(drop)
    }

    /// The number of pages that the log had.
    fn checkpoint(&self, mode: Mode) -> Result<u32, StoreError> {
        let pragma = match mode {
            Mode::Passive => "PRAGMA wal_checkpoint(PASSIVE)",
            Mode::Restart => "PRAGMA wal_checkpoint(RESTART)",
            Mode::Truncate => "PRAGMA wal_checkpoint(TRUNCATE)",
        };
        self.connection
            .prepare_cached(pragma)
            .and_then(|mut statement| statement.query_row([], |row| row.get::<_, i64>(1)))
            // -1 where there is no log yet.
            .map(|pages| u32::try_from(pages).unwrap_or(0))
            .map_err(failed("checkpoint the write-ahead log"))
    }
}
