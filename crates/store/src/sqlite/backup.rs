//! A copy of a data folder, also of one that a daemon is writing; and whether a folder is whole.
//!
//! The copy of the database is what was durable at one moment. Its blobs are copied while that moment is held, each
//! compared with its hash on the way.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use super::connection::open_reading;
use super::error::{failed, io_failed};
use super::{DATABASE_FILE, SqliteOptions, probe, schema};
use crate::folders;
use crate::port::{BlobHash, StoreError};

const COPY: &str = "copy the data folder";
const VERIFY: &str = "verify the data folder";
/// Pages that are copied between two words about progress.
const PAGES: i32 = 4_096;
/// Bytes that are copied at a time.
const PIECE: usize = 1024 * 1024;

/// How far a copy is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copying {
    /// Pages of the database, of so many.
    Database { done: u64, of: u64 },
    /// Blobs, of so many.
    Blobs { done: u64, of: u64 },
}

/// What was copied, or looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blobs {
    pub count: u64,
    pub bytes: u64,
    /// Blobs that runs refer to, and that are not there.
    pub missing: BTreeSet<BlobHash>,
    /// Blobs whose content is not what was put.
    pub damaged: BTreeSet<BlobHash>,
}

/// Copies the database of the folder `from`, and the blobs that it knows, into the new folder `to`. What is there is read
/// alone; a daemon may work on it meanwhile. The copy is on the disk when this returns.
///
/// # Errors
/// There is no database of this version in `from`; one of the folders cannot be read or written; [`StoreError::Closed`]
/// if `tell` stops the copy. Then what is in `to` is worth nothing.
pub fn copy(
    from: &Path,
    to: &Path,
    tell: &mut dyn FnMut(Copying) -> ControlFlow<()>,
) -> Result<Blobs, StoreError> {
    let (database, options) = (from.join(DATABASE_FILE), SqliteOptions::default());
    probe::check_length(&database)?;
    schema::refuse_to_migrate(&database, &options)?;
    folders::make(to).map_err(io_failed(COPY))?;
    let source = open_reading(&database, &options)?;
    // From the first read on, this connection sees one moment.
    source.execute_batch("BEGIN").map_err(failed(COPY))?;
    let known = blobs_of(&source)?;
    copy_database(&source, &to.join(DATABASE_FILE), tell)?;
    let (of, mut copied) = (known.len() as u64, Blobs::default());
    for (done, blob) in (1..).zip(known) {
        copied.look_at(blob, &mut |hash| copy_blob(from, to, hash))?;
        going_on(tell(Copying::Blobs { done, of }))?;
    }
    // A file is on the disk only if the names on the way to it are.
    folders_of(to)
        .and_then(|all| all.iter().try_for_each(|folder| folders::sync(folder)))
        .map_err(io_failed(COPY))?;
    Ok(copied)
}

/// A folder, and every folder below it.
fn folders_of(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let (mut found, mut looked_into) = (vec![folder.to_owned()], 0);
    while let Some(folder) = found.get(looked_into).cloned() {
        looked_into += 1;
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                found.push(entry.path());
            }
        }
    }
    Ok(found)
}

/// Whether the pages of the database fit together, and whether the blobs that runs refer to are what was put.
///
/// # Errors
/// [`StoreError::Corrupt`] with what SQLite finds wrong; there is no database of this version in the folder, or it cannot
/// be read.
pub fn verify(folder: &Path, tell: &mut dyn FnMut(Copying) -> ControlFlow<()>) -> Result<Blobs, StoreError> {
    verify_with(folder, &SqliteOptions::default(), tell)
}

/// The same with other options, such as for a folder that is immutable.
///
/// # Errors
/// Those of [`verify`].
pub fn verify_with(
    folder: &Path,
    options: &SqliteOptions,
    tell: &mut dyn FnMut(Copying) -> ControlFlow<()>,
) -> Result<Blobs, StoreError> {
    let database = folder.join(DATABASE_FILE);
    probe::check_length(&database)?;
    schema::refuse_to_migrate(&database, options)?;
    let connection = open_reading(&database, options)?;
    let found: String =
        connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)).map_err(failed(VERIFY))?;
    if found != "ok" {
        return Err(StoreError::Corrupt { detail: found });
    }
    let known = blobs_of(&connection)?;
    let (of, mut looked_at) = (known.len() as u64, Blobs::default());
    for (done, blob) in (1..).zip(known) {
        looked_at.look_at(blob, &mut |hash| hash_of(&path_of(folder, hash), &mut |_| Ok(())))?;
        going_on(tell(Copying::Blobs { done, of }))?;
    }
    Ok(looked_at)
}

/// A blob that the database knows.
struct Known {
    hash: BlobHash,
    is_named: bool,
}

impl Blobs {
    /// Looks at one blob; `read` gives the hash of its content and its bytes, and `None` where it is not there.
    fn look_at(
        &mut self,
        known: Known,
        read: &mut dyn FnMut(BlobHash) -> std::io::Result<(BlobHash, u64)>,
    ) -> Result<(), StoreError> {
        match read(known.hash) {
            Ok((found, bytes)) if found == known.hash => {
                self.count += 1;
                self.bytes += bytes;
            }
            Ok(_) => drop(self.damaged.insert(known.hash)),
            // The row comes before its file, and goes after it. A run never names a blob that was not there.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if known.is_named {
                    self.missing.insert(known.hash);
                }
            }
            Err(error) => return Err(io_failed(COPY)(error)),
        }
        Ok(())
    }
}

fn going_on(flow: ControlFlow<()>) -> Result<(), StoreError> {
    if flow.is_break() { Err(StoreError::Closed) } else { Ok(()) }
}

fn blobs_of(connection: &Connection) -> Result<Vec<Known>, StoreError> {
    let read = || {
        let mut statement = connection.prepare("SELECT hash, refs > 0 FROM blobs ORDER BY hash")?;
        let rows = statement
            .query_map([], |row| Ok(Known { hash: BlobHash(row.get(0)?), is_named: row.get(1)? }))?;
        rows.collect::<rusqlite::Result<Vec<Known>>>()
    };
    read().map_err(failed(COPY))
}

fn copy_database(
    source: &Connection,
    to: &Path,
    tell: &mut dyn FnMut(Copying) -> ControlFlow<()>,
) -> Result<(), StoreError> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut target = Connection::open_with_flags(to, flags).map_err(failed(COPY))?;
    let copying = Backup::new(source, &mut target).map_err(failed(COPY))?;
    loop {
        let step = copying.step(PAGES).map_err(failed(COPY))?;
        let progress = copying.progress();
        let of = u64::try_from(progress.pagecount).unwrap_or_default();
        let left = u64::try_from(progress.remaining).unwrap_or_default();
        going_on(tell(Copying::Database { done: of.saturating_sub(left), of }))?;
        if step == StepResult::Done {
            break;
        }
    }
    drop(copying);
    target.close().map_err(|(_, error)| failed(COPY)(error))?;
    File::open(to).and_then(|file| file.sync_all()).map_err(io_failed(COPY))
}

/// Copies one blob, and gives the hash of what was copied.
fn copy_blob(from: &Path, to: &Path, hash: BlobHash) -> std::io::Result<(BlobHash, u64)> {
    let (source, target) = (path_of(from, hash), path_of(to, hash));
    // A blob that is not there leaves no trace.
    File::open(&source)?;
    if let Some(folder) = target.parent().filter(|folder| !folder.is_dir()) {
        folders::make(folder)?;
    }
    let mut copy = File::options().create_new(true).write(true).open(&target)?;
    let (found, bytes) = hash_of(&source, &mut |piece| copy.write_all(piece))?;
    if found == hash {
        copy.sync_all()?;
    } else {
        fs::remove_file(&target)?;
    }
    Ok((found, bytes))
}

fn hash_of(
    path: &Path,
    each: &mut dyn FnMut(&[u8]) -> std::io::Result<()>,
) -> std::io::Result<(BlobHash, u64)> {
    let (mut file, mut hasher, mut piece, mut bytes) =
        (File::open(path)?, blake3::Hasher::new(), vec![0; PIECE], 0);
    loop {
        let read = match file.read(&mut piece) {
            Ok(read) => piece.get(..read).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if read.is_empty() {
            return Ok((BlobHash(*hasher.finalize().as_bytes()), bytes));
        }
        hasher.update(read);
        each(read)?;
        bytes += read.len() as u64;
    }
}

fn path_of(folder: &Path, hash: BlobHash) -> PathBuf {
    super::blobs::path_in(&folder.join("blobs"), hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_folder_of_a_copy_is_made_durable() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        for made in ["blobs/ab", "blobs/cd", "browser"] {
            fs::create_dir_all(folder.join(made)).unwrap();
        }
        fs::write(folder.join("blobs/ab/abcd"), "").unwrap();
        let mut found = folders_of(folder).unwrap();
        found.sort();
        let expected = ["", "blobs", "blobs/ab", "blobs/cd", "browser"];
        assert_eq!(found, expected.map(|name| folder.join(name)));
    }

    #[cfg(unix)]
    #[test]
    fn what_can_be_opened_and_not_be_read_is_an_error_and_not_tried_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let error = hash_of(folder.path(), &mut |_| Ok(())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IsADirectory);
    }
}
