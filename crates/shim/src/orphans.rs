//! Waiting, at the daemon's start, for what an earlier daemon left.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use thiserror::Error;

use crate::strays::{StraysError, end_strays_of};

/// Ending of the names of lock files.
pub(crate) const LOCK_EXTENSION: &str = "lock";

/// Why it is not certain that everything of the earlier daemon has ended.
#[derive(Debug, Error)]
pub enum AwaitOrphansError {
    #[error("cannot look for running commands at {path}")]
    Io { path: PathBuf, source: io::Error },
    /// Something cannot be killed: it changed its user, or hangs in the kernel.
    #[error("up to {count} commands of an earlier daemon have not ended within {limit:?}")]
    StillRunning { count: usize, limit: Duration },
    #[error(transparent)]
    Strays(#[from] StraysError),
}

/// Waits until every shim of an earlier daemon, and so every command, is gone, and ends the commands whose shims were killed;
/// at most `limit` for each. Returns how many shims there were. `dir` holds the lock files; files without a holder are
/// removed. Blocks the thread.
///
/// To be called by a daemon that owns the data folder and has started no command yet.
///
/// # Errors
/// The folder cannot be read, or something is still alive after `limit`.
pub fn await_orphans(dir: &Path, limit: Duration) -> Result<usize, AwaitOrphansError> {
    let failed = |path: &Path, source| AwaitOrphansError::Io { path: path.to_owned(), source };
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(failed(dir, error)),
    };
    let mut held = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| failed(dir, error))?.path();
        if path.extension().is_none_or(|extension| extension != LOCK_EXTENSION) {
            continue;
        }
        let file = match OpenOptions::new().write(true).open(&path) {
            Ok(file) => file,
            // The shim ended just now.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(failed(&path, error)),
        };
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => remove(&path).map_err(|error| failed(&path, error))?,
            Err(Errno::WOULDBLOCK) => held.push((path, file)),
            Err(errno) => return Err(failed(&path, errno.into())),
        }
    }
    let count = held.len();
    if count > 0 {
        tracing::info!(count, "waiting for the commands of an earlier daemon to end");
        await_all(held, limit)?;
    }
    let strays = end_strays_of(dir, limit)?;
    if strays > 0 {
        tracing::warn!(
            strays,
            "processes of an earlier daemon whose supervisors were killed have been ended"
        );
    }
    Ok(count)
}

/// The locks are awaited on a thread of their own, since waiting for a lock knows no limit. After the limit that thread
/// is left behind; it holds nothing but the files.
fn await_all(held: Vec<(PathBuf, File)>, limit: Duration) -> Result<(), AwaitOrphansError> {
    let count = held.len();
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for (path, file) in held {
            let outcome = await_one(&file).and_then(|()| remove(&path));
            // Nobody listens after the limit.
            let _ = sender.send(outcome.map_err(|source| AwaitOrphansError::Io { path, source }));
        }
    });
    let started = Instant::now();
    for ended in 0..count {
        let left = limit.saturating_sub(started.elapsed());
        match receiver.recv_timeout(left) {
            Ok(outcome) => outcome?,
            Err(_) => return Err(AwaitOrphansError::StillRunning { count: count - ended, limit }),
        }
    }
    Ok(())
}

fn await_one(file: &File) -> io::Result<()> {
    loop {
        match flock(file, FlockOperation::LockExclusive) {
            Ok(()) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
