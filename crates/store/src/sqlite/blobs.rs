//! Contents of blobs: one file each, named by its hash, in `blobs/ab/`. A blob exists if its file exists. The row in
//! the database knows the blob's age. The row is written before the file and deleted after it, so that every file has a
//! row.

use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use rusqlite::params;

use super::connection::{create_folder, sync_folder};
use super::error::{failed, integer, io_failed};
use super::gate::{Durability, Gate};
use super::writer::cached;
use crate::port::{BlobHash, Millis, StoreError};

const PUT: &str = "write a blob";
const READ: &str = "read a blob";
const RENEW: &str = "renew blobs";

pub(super) struct Blobs {
    folder: PathBuf,
    temporary: PathBuf,
    /// A lock on the folder, shared with other stores on it, for as long as temporary files of this store may exist.
    _in_use: File,
    /// The beginning of the names of temporary files, different for each store.
    mark: String,
    next_temporary: AtomicU64,
    /// A lock that is held while a file and its row change together. It is taken before the gate.
    changes: Mutex<()>,
}

impl Blobs {
    pub(super) fn open(data: &Path) -> Result<Self, StoreError> {
        let folder = data.join("blobs");
        let temporary = folder.join("tmp");
        create_folder(&folder)?;
        create_folder(&temporary)?;
        let in_use = claim_temporary(&folder, &temporary).map_err(io_failed("set up the folder of blobs"))?;
        let mark = format!("{:016x}-", RandomState::new().build_hasher().finish());
        Ok(Self {
            folder,
            temporary,
            _in_use: in_use,
            mark,
            next_temporary: AtomicU64::new(0),
            changes: Mutex::new(()),
        })
    }

    /// Blocks others from putting and removing blobs while the returned value is held.
    pub(super) fn hold(&self) -> impl Sized + '_ {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn put(&self, gate: &Gate, content: &[u8], now: Millis) -> Result<BlobHash, StoreError> {
        let hash = BlobHash::of(content);
        let path = self.path(hash);
        // The content is written before the lock is taken, because writing takes time; a sweep may still remove the
        // blob before the lock is taken.
        let mut written = if self.has(&path, content)? { None } else { Some(self.write_temporary(content)?) };
        let _no_changes = self.hold();
        let present = self.has(&path, content)?;
        if !present && written.is_none() {
            written = Some(self.write_temporary(content)?);
        }
        gate.transact(PUT, Durability::Now, |connection| {
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
        if let Some(written) = written {
            let folder = path.parent().unwrap_or(&self.folder);
            create_folder(folder)?;
            fs::rename(written, &path).map_err(io_failed(PUT))?;
            sync_folder(folder)?;
        }
        Ok(hash)
    }

    /// Renews the ages of those that exist, and returns the others.
    pub(super) fn renew(
        &self,
        gate: &Gate,
        blobs: &[BlobHash],
        now: Millis,
    ) -> Result<Vec<BlobHash>, StoreError> {
        // A sweep removes a file and its row under the same lock: a blob that is there now is too young for the next one.
        let _no_changes = self.hold();
        let (mut present, mut missing) = (Vec::new(), Vec::new());
        for blob in blobs {
            match self.size(*blob)? {
                Some(_) => present.push(*blob),
                None => missing.push(*blob),
            }
        }
        if !missing.is_empty() || present.is_empty() {
            return Ok(missing);
        }
        // An age that is lost with the power is lost with all that was to name the blob.
        gate.transact(RENEW, Durability::Later, |connection| {
            let renew = || {
                let mut update =
                    cached(connection, "UPDATE blobs SET put_at = max(put_at, ?2) WHERE hash = ?1")?;
                present.iter().try_for_each(|blob| update.execute(params![blob.0, now.0]).map(drop))
            };
            renew().map_err(failed(RENEW))
        })?;
        Ok(missing)
    }

    pub(super) fn size(&self, blob: BlobHash) -> Result<Option<u64>, StoreError> {
        found(fs::metadata(self.path(blob)).map(|metadata| metadata.len()))
    }

    pub(super) fn read(
        &self,
        blob: BlobHash,
        offset: u64,
        length: usize,
    ) -> Result<Option<Bytes>, StoreError> {
        let read = || {
            let mut file = File::open(self.path(blob))?;
            let left = file.metadata()?.len().saturating_sub(offset);
            let length = usize::try_from(left).unwrap_or(usize::MAX).min(length);
            let mut content = Vec::with_capacity(length);
            if length > 0 {
                file.seek(SeekFrom::Start(offset))?;
                file.take(length as u64).read_to_end(&mut content)?;
            }
            Ok(Bytes::from(content))
        };
        found(read())
    }

    /// Removes the file; the caller removes its row.
    pub(super) fn remove(&self, blob: BlobHash) -> Result<(), StoreError> {
        match fs::remove_file(self.path(blob)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(io_failed("remove a blob")(error)),
            _ => Ok(()),
        }
    }

    fn has(&self, path: &Path, content: &[u8]) -> Result<bool, StoreError> {
        let size = found(fs::metadata(path).map(|metadata| metadata.len()))?;
        Ok(size == Some(content.len() as u64))
    }

    fn write_temporary(&self, content: &[u8]) -> Result<PathBuf, StoreError> {
        let number = self.next_temporary.fetch_add(1, Ordering::Relaxed);
        let path = self.temporary.join(format!("{}{number}", self.mark));
        let write = || {
            let mut file = File::create_new(&path)?;
            file.write_all(content)?;
            file.sync_all()
        };
        write().map_err(|error| {
            // A failure here loses nothing, because the next start removes the file.
            drop(fs::remove_file(&path));
            io_failed(PUT)(error)
        })?;
        Ok(path)
    }

    fn path(&self, blob: BlobHash) -> PathBuf {
        path_in(&self.folder, blob)
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
