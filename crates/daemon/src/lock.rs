//! One daemon for one data folder.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use crate::folder::{self, Refused};
use crate::holder::{self, LOCK, Listening};

/// The interval between two looks at the lock of a daemon that is dead, and how many of them there are: five seconds.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
const LOOKS_MAX: u32 = 500;

/// Why the data folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("another daemon{} uses the data folder {}; stop it, or choose another folder with --data-dir", by(.process), .data_dir.display())]
    Taken { data_dir: PathBuf, process: Option<u32> },
    #[error(
        "others than its owner may write to the data folder {} (mode {mode:o}); see whether they have, and take that from them: \
         chmod 700 {}", .data_dir.display(), .data_dir.display()
    )]
    Writable { data_dir: PathBuf, mode: u32 },
    #[error("the data folder {} cannot be used", .data_dir.display())]
    Io {
        data_dir: PathBuf,
        #[source]
        source: std::io::Error,
    },
}

fn by(process: &Option<u32>) -> String {
    process.map_or_else(String::new, |process| format!(" (process {process})"))
}

/// Held as long as the daemon runs; the system lets it go whatever becomes of the process.
#[derive(Debug)]
pub(crate) struct DataLock {
    data_dir: PathBuf,
    _file: File,
}

impl Drop for DataLock {
    /// The address goes before the lock does.
    fn drop(&mut self) {
        holder::forget(&self.data_dir);
    }
}

impl DataLock {
    /// Says beside the lock where its holder listens.
    pub(crate) fn tell(&self, listening: &Listening) -> std::io::Result<()> {
        listening.tell(&self.data_dir)
    }

    pub(crate) fn take(data_dir: &Path) -> Result<Self, LockError> {
        let mut looks = 0;
        Self::take_or(data_dir, || {
            looks += 1;
            #[expect(clippy::disallowed_methods, reason = "nobody tells when a lock is free")]
            std::thread::sleep(LOOK_AGAIN);
            looks < LOOKS_MAX
        })
    }

    /// Takes the lock. Where the daemon that has it is dead, `wait` says whether it is worth to look again: a process that
    /// the daemon had just forked has the lock, too, until it executes its program. So it is where the lock names nobody: who
    /// has just taken it names itself next, and who only asks whether it is held gives it back.
    fn take_or(data_dir: &Path, mut wait: impl FnMut() -> bool) -> Result<Self, LockError> {
        let io = |source| LockError::Io { data_dir: data_dir.to_owned(), source };
        folder::prepare(data_dir).map_err(|refused| match refused {
            Refused::Writable(mode) => LockError::Writable { data_dir: data_dir.to_owned(), mode },
            Refused::Io(error) => io(error),
        })?;
        let path = data_dir.join(LOCK);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(path).map_err(io)?;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) => {
                    let process = holder(&mut file);
                    if process.is_none_or(is_dead) && wait() {
                        continue;
                    }
                    return Err(LockError::Taken { data_dir: data_dir.to_owned(), process });
                }
                Err(TryLockError::Error(error)) => return Err(io(error)),
            }
        }
        // Without its name, `status` and `stop` do not find the daemon. Written over the one before, it needs no room on a
        // full disk.
        let name = format!("{}\n", std::process::id());
        file.rewind()
            .and_then(|()| file.write_all(name.as_bytes()))
            .and_then(|()| file.set_len(name.len() as u64))
            .map_err(io)?;
        // That of a daemon that was killed.
        holder::forget(data_dir);
        Ok(Self { data_dir: data_dir.to_owned(), _file: file })
    }
}

/// The process that says that it has the lock.
fn holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    let _ = file.rewind().and_then(|()| file.read_to_string(&mut text));
    text.trim().parse().ok()
}

fn is_dead(process: u32) -> bool {
    let process = i32::try_from(process).ok().and_then(Pid::from_raw);
    process.is_some_and(|process| test_kill_process(process) == Err(Errno::SRCH))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder, and its lock, which the process of that number says that it has.
    fn taken_by(process: u32) -> (tempfile::TempDir, File) {
        let folder = tempfile::tempdir().unwrap();
        let mut file = File::create(folder.path().join("daemon.lock")).unwrap();
        file.lock().unwrap();
        writeln!(file, "{process}").unwrap();
        (folder, file)
    }

    /// The number of a process that has ended.
    fn of_the_dead() -> u32 {
        #[expect(clippy::disallowed_types, reason = "a process that has ended is needed")]
        let mut process = std::process::Command::new("true").spawn().unwrap();
        process.wait().unwrap();
        process.id()
    }

    #[test]
    fn a_lock_that_a_dead_daemon_has_left_to_what_it_had_forked_is_waited_for() {
        let (folder, file) = taken_by(of_the_dead());
        let (mut left, mut looks) = (Some(file), 0);
        let lock = DataLock::take_or(folder.path(), || {
            looks += 1;
            if looks == 3 {
                left = None;
            }
            true
        });
        assert!(lock.is_ok(), "{lock:?}");
        assert_eq!(looks, 3);
        let named = std::fs::read_to_string(folder.path().join("daemon.lock")).unwrap();
        assert_eq!(named, format!("{}\n", std::process::id()));
    }

    #[test]
    fn the_lock_of_a_daemon_that_is_alive_is_refused_at_once() {
        let (folder, _file) = taken_by(std::process::id());
        let lock = DataLock::take_or(folder.path(), || panic!("nothing is waited for"));
        assert!(matches!(lock, Err(LockError::Taken { process, .. }) if process == Some(std::process::id())));
    }

    #[test]
    fn a_lock_that_names_nobody_yet_is_looked_at_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = File::create(folder.path().join("daemon.lock")).unwrap();
        file.lock_shared().unwrap();
        let mut asking = Some(file);
        let lock = DataLock::take_or(folder.path(), || asking.take().is_some());
        assert!(lock.is_ok(), "{lock:?}");
    }

    #[test]
    fn a_lock_that_cannot_name_its_holder_is_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/dev/full", folder.path().join("daemon.lock")).unwrap();
        let lock = DataLock::take(folder.path());
        assert!(matches!(lock, Err(LockError::Io { .. })), "{lock:?}");
    }

    #[test]
    fn a_lock_that_stays_taken_is_refused_in_the_end() {
        let dead = of_the_dead();
        let (folder, _file) = taken_by(dead);
        let lock = DataLock::take_or(folder.path(), || false);
        assert!(matches!(lock, Err(LockError::Taken { process, .. }) if process == Some(dead)));
    }
}
