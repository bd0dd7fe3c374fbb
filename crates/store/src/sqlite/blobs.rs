//! Contents of blobs: one file each, named by its hash, in `blobs/ab/`. A blob exists if its file exists. The row in
//! the database knows the blob's age. The row is written before the file and deleted after it, so that every file has a
//! row. A power cut may bring a removed file back, whose row is gone for good: sweeps look through one folder after the
//! other for such files.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use rusqlite::params;

use super::error::{failed, integer, io_failed};
use super::gate::{Durability, Gate};
use super::writer::cached;
use crate::folders;
use crate::port::{BlobHash, Millis, StoreError};

const PUT: &str = "write a blob";
const READ: &str = "read a blob";
const RENEW: &str = "renew blobs";

pub(super) struct Blobs {
    folder: PathBuf,
    temporary: PathBuf,
    /// A lock on the folder, shared with other stores on it, for as long as temporary files of this store may exist.
    _in_use: Option<File>,
    /// The beginning of the names of temporary files, different for each store.
    mark: String,
    next_temporary: AtomicU64,
    /// A lock that is held while a file and its row change together. It is taken before the gate.
    changes: Mutex<Names>,
}

/// The folder of the blobs and those in it, as far as all of their names are durable. Of others nobody knows: whoever has made the names
/// may have been killed, or have failed, before they were.
#[derive(Default)]
pub(super) struct Names {
    durable: BTreeSet<PathBuf>,
}

impl Blobs {
    pub(super) fn open(data: &Path) -> Result<Self, StoreError> {
        let mut blobs = Self::only_read(data);
        let set_up = || {
            folders::make(&blobs.folder)?;
            folders::make(&blobs.temporary)?;
            claim_temporary(&blobs.folder, &blobs.temporary)
        };
        blobs._in_use = Some(set_up().map_err(io_failed("set up the folder of blobs"))?);
        Ok(blobs)
    }

    /// Blobs as they lie there; nothing is made.
    pub(super) fn only_read(data: &Path) -> Self {
        let folder = data.join("blobs");
        Self {
            temporary: folder.join("tmp"),
            folder,
            _in_use: None,
            mark: format!("{:016x}-", RandomState::new().build_hasher().finish()),
            next_temporary: AtomicU64::new(0),
            changes: Mutex::new(Names::default()),
        }
    }

    /// Blocks others from putting and removing blobs while the returned value is held.
    pub(super) fn hold(&self) -> MutexGuard<'_, Names> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn put(&self, gate: &Gate, content: &[u8], now: Millis) -> Result<BlobHash, StoreError> {
        let hash = BlobHash::of(content);
        let path = self.path(hash);
        // The content is written before the lock is taken, because writing takes time; a sweep may still remove the
        // blob before the lock is taken.
        let mut written = if self.holds(hash)? { None } else { Some(self.write_temporary(content)?) };
        let mut names = self.hold();
        if written.is_none() && self.size(hash)?.is_none() {
            written = Some(self.write_temporary(content)?);
        }
        gate.transact_again(PUT, Durability::Now, |connection| {
            cached(
                connection,
                "INSERT INTO blobs (hash, size, put_at, refs)
                 VALUES (?1, ?2, ?3, (SELECT count(*) FROM blob_refs WHERE hash = ?1))
                 ON CONFLICT (hash) DO UPDATE SET put_at = excluded.put_at",
            )
            .and_then(|mut statement| {
                statement.execute(params![hash.0, integer(content.len() as u64), now.0])
            })
            .map_err(failed(PUT))
        })?;
        let folder = path.parent().unwrap_or(&self.folder);
        if let Some(written) = written {
            if !folder.is_dir() {
                names.durable.remove(&self.folder);
                folders::make(folder).map_err(io_failed(PUT))?;
            }
            names.durable.remove(folder);
            written.becomes(&path).map_err(io_failed(PUT))?;
        }
        self.settle(&mut names, folder).map_err(io_failed(PUT))?;
        Ok(hash)
    }

    /// Makes the names in a folder durable, unless they are known to be.
    fn settle(&self, names: &mut Names, folder: &Path) -> std::io::Result<()> {
        for folder in [folder, &self.folder] {
            if !names.durable.contains(folder) {
                folders::sync(folder)?;
                names.durable.insert(folder.to_owned());
            }
        }
        Ok(())
    }

    /// Renews the ages of those that exist, and returns the others. Those that exist are durable.
    pub(super) fn renew(
        &self,
        gate: &Gate,
        blobs: &[BlobHash],
        now: Millis,
    ) -> Result<Vec<BlobHash>, StoreError> {
        // A sweep removes a file and its row under the same lock: a blob that is there now is too young for the next one.
        let mut names = self.hold();
        let (mut present, mut missing) = (Vec::new(), Vec::new());
        for blob in blobs {
            match self.size(*blob)? {
                Some(size) => present.push((*blob, size)),
                None => missing.push(*blob),
            }
        }
        if !missing.is_empty() || present.is_empty() {
            return Ok(missing);
        }
        for (blob, _) in &present {
            let path = self.path(*blob);
            self.settle(&mut names, path.parent().unwrap_or(&self.folder)).map_err(io_failed(RENEW))?;
        }
        // An age that is lost with the power is lost with all that was to name the blob.
        gate.transact_again(RENEW, Durability::Later, |connection| {
            let renew = || {
                let mut renew = cached(
                    connection,
                    "INSERT INTO blobs (hash, size, put_at, refs)
                     VALUES (?1, ?2, ?3, (SELECT count(*) FROM blob_refs WHERE hash = ?1))
                     ON CONFLICT (hash) DO UPDATE SET put_at = max(put_at, excluded.put_at)",
                )?;
                present.iter().try_for_each(|(blob, size)| {
                    renew.execute(params![blob.0, integer(*size), now.0]).map(drop)
                })
            };
            renew().map_err(failed(RENEW))
        })?;
        Ok(missing)
    }

    pub(super) fn size(&self, blob: BlobHash) -> Result<Option<u64>, StoreError> {
        found(fs::metadata(self.path(blob)).map(|metadata| metadata.len()))
    }

    /// What is read as a whole is compared with its hash: a damaged file is no blob.
    pub(super) fn read(
        &self,
        blob: BlobHash,
        offset: u64,
        length: usize,
    ) -> Result<Option<Bytes>, StoreError> {
        let read = || {
            let mut file = File::open(self.path(blob))?;
            let size = file.metadata()?.len();
            let left = size.saturating_sub(offset);
            let length = usize::try_from(left).unwrap_or(usize::MAX).min(length);
            let mut content = Vec::with_capacity(length);
            if length > 0 {
                file.seek(SeekFrom::Start(offset))?;
                file.take(length as u64).read_to_end(&mut content)?;
            }
            Ok((Bytes::from(content), size))
        };
        let read = found(read())?;
        let is_it =
            |content: &Bytes, size: u64| content.len() as u64 != size || BlobHash::of(content) == blob;
        Ok(read.filter(|(content, size)| is_it(content, *size)).map(|(content, _)| content))
    }

    /// Removes the file; the caller removes its row.
    pub(super) fn remove(&self, blob: BlobHash) -> Result<(), StoreError> {
        match fs::remove_file(self.path(blob)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(io_failed("remove a blob")(error)),
            _ => Ok(()),
        }
    }

    /// The blobs of which there is a file in the folder of this first byte.
    pub(super) fn in_folder(&self, first: u8) -> Result<Vec<BlobHash>, StoreError> {
        let Some(entries) = found(fs::read_dir(self.folder.join(format!("{first:02x}"))))? else {
            return Ok(Vec::new());
        };
        let names = entries.map(|entry| Ok(entry?.file_name())).collect::<std::io::Result<Vec<_>>>();
        let names = names.map_err(io_failed(READ))?;
        Ok(names.iter().filter_map(|name| name.to_str()?.parse().ok()).collect())
    }

    /// The file is there, and whole.
    fn holds(&self, blob: BlobHash) -> Result<bool, StoreError> {
        self.read(blob, 0, usize::MAX).map(|content| content.is_some())
    }

    fn write_temporary(&self, content: &[u8]) -> Result<Temporary, StoreError> {
        let number = self.next_temporary.fetch_add(1, Ordering::Relaxed);
        let temporary =
            Temporary { path: self.temporary.join(format!("{}{number}", self.mark)), is_blob: false };
        let write = || {
            let mut file = File::create_new(&temporary.path)?;
            file.write_all(content)?;
            file.sync_all()
        };
        write().map_err(io_failed(PUT))?;
        Ok(temporary)
    }

    fn path(&self, blob: BlobHash) -> PathBuf {
        path_in(&self.folder, blob)
    }
}

/// A temporary file, which is removed unless it becomes a blob.
struct Temporary {
    path: PathBuf,
    is_blob: bool,
}

impl Temporary {
    fn becomes(mut self, blob: &Path) -> std::io::Result<()> {
        fs::rename(&self.path, blob)?;
        self.is_blob = true;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.is_blob {
            // A failure here loses nothing, because the next start removes the file.
            drop(fs::remove_file(&self.path));
        }
    }
}

/// The file of a blob, in a folder of blobs.
pub(super) fn path_in(folder: &Path, blob: BlobHash) -> PathBuf {
    let name = blob.to_string();
    folder.join(name.get(..2).unwrap_or_default()).join(&name)
}

/// Removes the temporary files of an interrupted process if no other store is open on the folder, and returns the lock
/// that shows this store's use of the folder.
fn claim_temporary(folder: &Path, temporary: &Path) -> std::io::Result<File> {
    let lock = File::options().create(true).truncate(false).write(true).open(folder.join("in-use"))?;
    if lock.try_lock().is_ok() {
        for entry in fs::read_dir(temporary)? {
            fs::remove_file(entry?.path())?;
        }
        lock.unlock()?;
    }
    match lock.lock_shared() {
        // If the file system does not support locks, nothing was removed.
        Err(error) if error.kind() != ErrorKind::Unsupported => Err(error),
        _ => Ok(lock),
    }
}

fn found<T>(result: std::io::Result<T>) -> Result<Option<T>, StoreError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io_failed(READ)(error)),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::conformance::{claim, keep};
    use crate::port::{Retention, Store};
    use crate::sqlite::{SqliteOptions, SqliteStore};

    #[test]
    fn a_sweep_that_comes_while_a_blob_is_being_named_waits_and_finds_it_young() {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path(), SqliteOptions::default()).unwrap();
        let mut writer = claim(&store);
        let blob = store.put_blob(b"named", Millis(10)).unwrap();
        let (missing, swept) = std::thread::scope(|scope| {
            // Whoever names the blob cannot write down yet that it is young.
            let writers = store.shared.gate.hold();
            let naming = scope.spawn(|| store.renew_blobs(&[blob], Millis(50)).unwrap());
            while store.shared.blobs.changes.try_lock().is_ok() {
                std::thread::yield_now();
            }
            drop(writers);
            let swept = writer.sweep(&Retention { blobs_before: Millis(50), ..keep() }).unwrap();
            (naming.join().unwrap(), swept)
        });
        assert_eq!((missing.len(), swept.blobs), (0, 0));
        assert_eq!(store.blob_size(blob).unwrap(), Some(5));
    }

    #[test]
    fn a_blob_that_is_there_is_not_written_again() {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path(), SqliteOptions::default()).unwrap();
        let blob = store.put_blob(b"there", Millis(10)).unwrap();
        // From now on nothing can be written.
        fs::remove_dir(folder.path().join("blobs/tmp")).unwrap();
        assert!(store.put_blob(b"another", Millis(20)).is_err());
        assert_eq!(store.put_blob(b"there", Millis(20)).unwrap(), blob);
    }
}
