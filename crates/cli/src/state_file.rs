//! The file of a session's state, `.elsabro/state.json`, with its backup beside it (seed 000, contract 7).

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use capataz_policy::session;
use serde_json::{Map, Value};

/// A state file. A link is followed once, so that what it points to is changed, and the link stays.
#[derive(Clone, Debug)]
pub struct StateFile {
    path: PathBuf,
}

impl StateFile {
    /// # Errors
    /// The place cannot be looked at. That nothing is there is not an error.
    pub fn at(path: &Path) -> io::Result<Self> {
        match fs::canonicalize(path) {
            Ok(path) => Ok(Self { path }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self { path: path.to_owned() }),
            Err(error) => Err(error),
        }
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

    /// The state of the backup; `None` where there is none that is valid.
    ///
    /// # Errors
    /// The backup cannot be read.
    pub fn backed_up(&self) -> io::Result<Option<Map<String, Value>>> {
        let state = read(&self.backup())?.and_then(|bytes| session::parse(&bytes).ok());
        Ok(state.filter(|state| session::violations(state).is_empty()))
    }

    /// Takes the file for this process, until what is returned is dropped.
    ///
    /// # Errors
    /// Another process has it, or its folder cannot be written.
    pub fn lock(&self) -> io::Result<File> {
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(self.beside("lock"))?;
        lock.try_lock()?;
        Ok(lock)
    }

    /// Replaces its contents, so that a reader sees the old or the new ones, whole.
    ///
    /// # Errors
    /// It cannot be written; the old contents are there.
    pub fn write(&self, text: &[u8]) -> io::Result<()> {
        write(&self.path, text)
    }

    /// Replaces the backup in the same way.
    ///
    /// # Errors
    /// It cannot be written; the old one is there.
    pub fn back_up(&self, text: &[u8]) -> io::Result<()> {
        write(&self.backup(), text)
    }

    /// Keeps what is there under another name beside it, which is returned: all of it, however large it is.
    ///
    /// # Errors
    /// It cannot be kept, or there is such a file already.
    pub fn keep_aside(&self, now_ms: i64) -> io::Result<PathBuf> {
        let place = self.beside(&format!("corrupt-{now_ms}.json"));
        // The file is replaced, not written, so that a second name of it keeps the old contents.
        if fs::hard_link(&self.path, &place).is_err() {
            // There are file systems without such names.
            let mut copy = OpenOptions::new().create_new(true).write(true).open(&place)?;
            io::copy(&mut File::open(&self.path)?, &mut copy)?;
            copy.sync_all()?;
        }
        Ok(place)
    }
}

fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    let mut bytes = Vec::new();
    file.take(session::MAX_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

fn write(path: &Path, text: &[u8]) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut temporary = tempfile::NamedTempFile::new_in(folder)?;
    if let Ok(present) = fs::metadata(path) {
        temporary.as_file().set_permissions(present.permissions())?;
    }
    temporary.write_all(text)?;
    temporary.as_file().sync_all()?;
    temporary.persist(path)?;
    File::open(folder)?.sync_all()
}
