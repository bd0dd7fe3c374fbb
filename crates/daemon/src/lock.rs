//! One daemon for one data folder.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::folder::{self, Refused};

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
    _file: File,
}

impl DataLock {
    pub(crate) fn take(data_dir: &Path) -> Result<Self, LockError> {
        let io = |source| LockError::Io { data_dir: data_dir.to_owned(), source };
        folder::prepare(data_dir).map_err(|refused| match refused {
            Refused::Writable(mode) => LockError::Writable { data_dir: data_dir.to_owned(), mode },
            Refused::Io(error) => io(error),
        })?;
        let path = data_dir.join("daemon.lock");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(path).map_err(io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                let _ = file.read_to_string(&mut text);
                return Err(LockError::Taken {
                    data_dir: data_dir.to_owned(),
                    process: text.trim().parse().ok(),
                });
            }
            Err(TryLockError::Error(error)) => return Err(io(error)),
        }
        // The name of the holder only helps people. A folder that is not writable fails when the database is opened.
        let _ = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Self { _file: file })
    }
}
