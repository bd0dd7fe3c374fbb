//! The file of a session's state, `.elsabro/state.json`, with its backup beside it (seed 000, contract 7).
//!
//! Only [`Locked`] changes a file, so that nobody decides about a change from what another process has replaced since.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use capataz_display::words::{fill, words};
use capataz_policy::session;

use crate::whole_file;

/// A state file. A link is followed once, so that what it points to is changed, and the link stays.
#[derive(Clone, Debug)]
pub struct StateFile {
    path: PathBuf,
}

impl StateFile {
    /// # Errors
    /// The place cannot be looked at, or is a link that leads to no file. That nothing is there is not an error.
    pub fn at(path: &Path) -> io::Result<Self> {
        Ok(Self { path: resolved(path)? })
    }

    /// The name of a file beside it: `state.json` has `state.backup.json` and `state.lock`.
    fn beside(&self, ending: &str) -> PathBuf {
        let mut name = self.path.file_stem().map_or_else(OsString::new, ToOwned::to_owned);
        name.push(format!(".{ending}"));
        self.path.with_file_name(name)
    }

    pub fn backup(&self) -> PathBuf {
        self.beside("backup.json")
    }

    /// Its bytes, one more than a state may have at most; `None` where there is no such file.
    ///
    /// # Errors
    /// It cannot be read, or is not a file.
    pub fn read(&self) -> io::Result<Option<Vec<u8>>> {
        read(&self.path)
    }

    /// The bytes of the backup, in the same way.
    ///
    /// # Errors
    /// The backup cannot be read, or is not a file.
    pub fn read_backup(&self) -> io::Result<Option<Vec<u8>>> {
        read(&resolved(&self.backup())?)
    }

    /// Takes the file for this process, until what is returned is dropped. Another process that has it is waited for.
    ///
    /// # Errors
    /// Another process has it for longer than a change takes, or its folder cannot be written.
    #[expect(clippy::disallowed_methods, reason = "nothing tells when another process is done")]
    pub fn lock(&self) -> io::Result<Locked<'_>> {
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(self.beside("lock"))?;
        for _ in 0..TRIES {
            match lock.try_lock() {
                Ok(()) => return Ok(Locked { file: self, _lock: lock }),
                Err(TryLockError::WouldBlock) => std::thread::sleep(BETWEEN_TRIES),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        Err(io::ErrorKind::WouldBlock.into())
    }
}

/// How often the lock of a file is tried, and how long it is waited between: two seconds in all. A change takes
/// milliseconds.
const TRIES: u32 = 100;
const BETWEEN_TRIES: Duration = Duration::from_millis(20);

/// A state file that no other process changes. What is decided about it has to be read after it was locked.
#[derive(Debug)]
pub struct Locked<'f> {
    file: &'f StateFile,
    _lock: File,
}

/// Names that are tried for what is kept aside in one millisecond.
const MOST_NAMES: i64 = 100;

impl Locked<'_> {
    /// Replaces the contents, so that a reader sees the old or the new ones, whole.
    ///
    /// # Errors
    /// The file cannot be written; the old contents are there.
    pub fn write(&self, text: &[u8]) -> io::Result<()> {
        write(&self.file.path, text)
    }

    /// Replaces the backup in the same way.
    ///
    /// # Errors
    /// It cannot be written; the old one is there.
    pub fn back_up(&self, text: &[u8]) -> io::Result<()> {
        write(&resolved(&self.file.backup())?, text)
    }

    /// Keeps what is there under another name beside it, which is returned: all of it, however large it is.
    ///
    /// # Errors
    /// It cannot be kept.
    pub fn keep_aside(&self, now_ms: i64) -> io::Result<PathBuf> {
        let mut names =
            (now_ms..now_ms.saturating_add(MOST_NAMES)).map(|name| format!("corrupt-{name}.json"));
        loop {
            let Some(name) = names.next() else { return Err(io::ErrorKind::AlreadyExists.into()) };
            let place = self.file.beside(&name);
            // The file is replaced, not written, so that a second name of it keeps the old contents.
            if fs::hard_link(&self.file.path, &place).is_ok() {
                return Ok(place);
            }
            // There are file systems without such names.
            match OpenOptions::new().create_new(true).write(true).open(&place) {
                Ok(mut copy) => {
                    io::copy(&mut File::open(&self.file.path)?, &mut copy)?;
                    copy.sync_all()?;
                    return Ok(place);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// The file that a path leads to. A link to nothing, or in a circle, is refused: whoever replaced it would change another
/// file than the one that is meant.
fn resolved(path: &Path) -> io::Result<PathBuf> {
    match fs::canonicalize(path) {
        Ok(path) => Ok(path),
        Err(error) if fs::symlink_metadata(path).is_ok_and(|there| there.is_symlink()) => {
            let target = fs::read_link(path).unwrap_or_default();
            let message =
                fill(words().sessions.dangling, &[&target.display().to_string(), &error.to_string()]);
            Err(io::Error::other(message))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(path.to_owned()),
        Err(error) => Err(error),
    }
}

fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    // Whoever opened a pipe would wait for its other end.
    match fs::metadata(path) {
        Ok(there) if !there.is_file() => return Err(io::Error::other(words().sessions.no_file)),
        _ => {}
    }
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    file.take(session::MAX_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

fn write(path: &Path, text: &[u8]) -> io::Result<()> {
    whole_file::write(path, text, true)?;
    File::open(whole_file::folder_of(path))?.sync_all()
}
