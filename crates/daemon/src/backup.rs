//! Copies of a data folder: made beside a running daemon, looked through, and put in the place of a folder.
//!
//! A backup is a data folder with a note beside its database. It comes into being under another name and is renamed when it
//! is whole, so that what was begun and not finished is never taken for one. A daemon that works on a restored folder begins
//! a history of its own with its first claim: cursors and leases of what came after the backup are refused by name.

mod at_rest;
mod unfinished;

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::ops::ControlFlow;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use capataz_shard::rebuild::{self, Told, Totals};
use capataz_store::sqlite::DATABASE_FILE;
use capataz_store::sqlite::backup::{self as copies, Blobs, Copying};
use capataz_store::{SqliteOptions, SqliteStore, Store, StoreError};
use serde::{Deserialize, Serialize};

use self::at_rest::AtRest;
use self::unfinished::{Unfinished, make_folder, sync_parent};
use crate::SHARD;
use crate::folder;
use crate::lock::{DataLock, LockError};

/// The note of a backup.
const NOTE: &str = "backup.json";
/// What the daemon keeps beside the database, and what a run that waits may need: states of browsers, encrypted.
const BESIDE: [&str; 2] = ["browser/states", "browser/kept"];
/// What SQLite keeps beside a database under its name, and takes for a part of whatever has that name next.
const PARTS: [&str; 3] = ["-wal", "-shm", "-journal"];
/// How often a copy is begun anew because blobs were removed while it was made.
const TRIES: u32 = 3;

/// Why there is no backup, or nothing was restored.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error("{} is there already; choose another name", .0.display())]
    Exists(PathBuf),
    #[error("{} has a database already; move the folder away, or choose another one with --data-dir", .0.display())]
    HasDatabase(PathBuf),
    #[error("{} is left of a database that is gone, and would change the restored one; move it away first", .0.display())]
    LeftOver(PathBuf),
    #[error("{} is there and is not an unfinished backup; move it away, or choose another name", .0.display())]
    NotUnfinished(PathBuf),
    #[error("another backup is being made in {}; wait for it, or choose another name", .0.display())]
    Busy(PathBuf),
    #[error("{} is not a backup: it has no {NOTE}", .0.display())]
    NoBackup(PathBuf),
    #[error("the note of the backup {} cannot be read", folder.display())]
    Note {
        folder: PathBuf,
        #[source]
        source: serde_json::Error,
    },
    #[error("{} cannot be copied to {}", from.display(), to.display())]
    Copy {
        from: PathBuf,
        to: PathBuf,
        #[source]
        source: StoreError,
    },
    #[error("{} cannot be looked through", folder.display())]
    Verify {
        folder: PathBuf,
        #[source]
        source: StoreError,
    },
    #[error("{} was changed while it was looked through; end what works on it, and look again", .0.display())]
    Changed(PathBuf),
    #[error("{} cannot be written", path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
}

/// What a backup says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// The version of the program that made it.
    pub version: String,
    /// When it was begun, in milliseconds since 1970.
    pub begun_at_ms: i64,
    /// The position of the newest append that it has.
    pub position: u64,
    pub runs: u64,
    pub blobs: u64,
    pub blob_bytes: u64,
}

/// What is told on the way.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    Copying(Copying),
    Verifying(Told<'a>),
}

/// A folder that was looked through.
#[derive(Clone, Debug)]
pub struct Looked {
    pub totals: Totals,
    pub blobs: Blobs,
    pub position: u64,
}

impl Looked {
    /// Whether every log is whole, and every blob that a run names. Runs in quarantine for another reason count as not.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.totals.left == 0 && self.blobs.missing.is_empty() && self.blobs.damaged.is_empty()
    }
}

/// Makes a backup of a data folder, which a daemon may use meanwhile, and looks it through. What is damaged is told, and
/// copied as far as it is there.
///
/// # Errors
/// `target` exists; there is no database of this version; something cannot be read or written. Nothing has the name
/// `target` then.
pub fn backup(data_dir: &Path, target: &Path, tell: &mut dyn FnMut(Step<'_>)) -> Result<Looked, BackupError> {
    if target.exists() {
        return Err(BackupError::Exists(target.to_owned()));
    }
    let begun_at_ms = capataz_runtime::now().wall.0;
    let partial = Unfinished::begin(&beside(target, ".partial"))?;
    let made = made(data_dir, target, &partial, begun_at_ms, tell);
    if made.is_err() {
        // What is wrong is said already, and whatever stays is taken over by the next backup of this name.
        let _ = partial.remove();
    }
    made
}

/// Makes a backup in its unfinished folder, and gives it its name.
fn made(
    data_dir: &Path,
    target: &Path,
    partial: &Unfinished,
    begun_at_ms: i64,
    tell: &mut dyn FnMut(Step<'_>),
) -> Result<Looked, BackupError> {
    // Another backup may have got the name before the folder was ours.
    if target.exists() {
        return Err(BackupError::Exists(target.to_owned()));
    }
    let looked = copied(data_dir, partial, tell)?;
    let note = Note {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        begun_at_ms,
        position: looked.position,
        runs: looked.totals.runs,
        blobs: looked.blobs.count,
        blob_bytes: looked.blobs.bytes,
    };
    write_note(partial.path(), &note)?;
    partial.finish()?;
    rename(partial.path(), target)?;
    Ok(looked)
}

/// Puts a copy of a backup in the place of a data folder that has no database, and looks it through.
///
/// # Errors
/// `from` is not a backup; a daemon has the data folder, or it has a database or parts of one; something cannot be read or
/// written. The data folder has no database then.
pub fn restore(
    from: &Path,
    data_dir: &Path,
    tell: &mut dyn FnMut(Step<'_>),
) -> Result<(Note, Looked), BackupError> {
    let note = note_of(from)?.ok_or_else(|| BackupError::NoBackup(from.to_owned()))?;
    no_database(data_dir)?;
    make_folder(data_dir)?;
    let _lock = DataLock::take(data_dir)?;
    no_database(data_dir)?;
    let partial = Unfinished::begin(&data_dir.join("restoring"))?;
    let looked = copied(from, &partial, tell)?;
    // The database comes last: a folder without it is not a data folder yet.
    for name in BESIDE.iter().copied().chain(["blobs", DATABASE_FILE]) {
        let (part, place) = (partial.path().join(name), data_dir.join(name));
        if !part.exists() {
            continue;
        }
        if let Some(parent) = place.parent() {
            make_folder(parent)?;
        }
        if place.is_dir() {
            written(&place, fs::remove_dir_all(&place))?;
        }
        rename(&part, &place)?;
    }
    partial.remove()?;
    Ok((note, looked))
}

/// Refuses a data folder that has a database, or a part of one that is gone: SQLite would play the write-ahead log of
/// another database into the one that is put in its place.
fn no_database(data_dir: &Path) -> Result<(), BackupError> {
    let is_there = |path: &Path| match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(source) => Err(BackupError::Write { path: path.to_owned(), source }),
    };
    let database = data_dir.join(DATABASE_FILE);
    if is_there(&database)? {
        return Err(BackupError::HasDatabase(data_dir.to_owned()));
    }
    for part in PARTS {
        let part = beside(&database, part);
        if is_there(&part)? {
            return Err(BackupError::LeftOver(part));
        }
    }
    Ok(())
}

/// Looks a backup, or a data folder that no daemon uses, through to its end; changes no data. In a backup nothing at all is
/// changed or made, so that it may be where nobody can write, unless a daemon has left more there than the database.
///
/// # Errors
/// A daemon has the folder, or has begun to work on it; there is no database of this version; the database cannot be read, or
/// is damaged as a whole.
pub fn verify(folder: &Path, tell: &mut dyn FnMut(Step<'_>)) -> Result<Looked, BackupError> {
    if let Some((at_rest, _lock)) = AtRest::held(folder) {
        let options = SqliteOptions { immutable: true, ..SqliteOptions::default() };
        let looked = verified(folder, options, tell);
        // What was changed meanwhile was not seen, or in part, and would be told as damage.
        return if AtRest::of(folder) == Some(at_rest) {
            looked
        } else {
            Err(BackupError::Changed(folder.to_owned()))
        };
    }
    let has_database = folder.join(DATABASE_FILE).exists();
    let _lock = if has_database { Some(DataLock::take(folder)?) } else { None };
    verified(folder, SqliteOptions::default(), tell)
}

fn verified(
    folder: &Path,
    options: SqliteOptions,
    tell: &mut dyn FnMut(Step<'_>),
) -> Result<Looked, BackupError> {
    let failed = |source| BackupError::Verify { folder: folder.to_owned(), source };
    let blobs = copies::verify_with(folder, &options, &mut |copying| {
        tell(Step::Copying(copying));
        ControlFlow::Continue(())
    });
    let blobs = blobs.map_err(failed)?;
    let (totals, position) = looked_through(folder, options, tell)?;
    Ok(Looked { totals, blobs, position })
}

/// What a folder says of itself, if it is a backup.
///
/// # Errors
/// The note cannot be read.
pub fn note_of(folder: &Path) -> Result<Option<Note>, BackupError> {
    let path = folder.join(NOTE);
    match fs::read(&path) {
        Ok(text) => serde_json::from_slice(&text)
            .map(Some)
            .map_err(|source| BackupError::Note { folder: folder.to_owned(), source }),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(BackupError::Write { path, source }),
    }
}

/// Copies a folder to an unfinished one, which has everything durably afterwards. What an interrupted copy has left there
/// goes.
fn copied(from: &Path, to: &Unfinished, tell: &mut dyn FnMut(Step<'_>)) -> Result<Looked, BackupError> {
    let (unfinished, to, mut tries) = (to, to.path(), 0);
    let blobs = loop {
        tries += 1;
        unfinished.clear()?;
        // An empty folder that was there may be open to others.
        folder::narrow(to);
        let blobs = copies::copy(from, to, &mut |copying| {
            tell(Step::Copying(copying));
            ControlFlow::Continue(())
        });
        let blobs =
            blobs.map_err(|source| BackupError::Copy { from: from.to_owned(), to: to.to_owned(), source })?;
        // A sweep may have removed a run, with its blobs, after the moment that was copied: a later moment has neither.
        if blobs.missing.is_empty() || tries == TRIES {
            break blobs;
        }
    };
    for name in BESIDE {
        copy_files(&from.join(name), &to.join(name))?;
    }
    let (totals, position) = looked_through(to, SqliteOptions::default(), tell)?;
    // The folder keeps others out, and none of what is in it once somebody copies it to another place.
    folder::narrow_whole(to);
    Ok(Looked { totals, blobs, position })
}

/// Holds every log against what was read of it, and against its rows.
fn looked_through(
    folder: &Path,
    options: SqliteOptions,
    tell: &mut dyn FnMut(Step<'_>),
) -> Result<(Totals, u64), BackupError> {
    let look = || {
        let store = SqliteStore::open_as_it_is(folder, options)?;
        let totals = rebuild::check(&store, &[SHARD], &mut |told| tell(Step::Verifying(told)))?;
        Ok((totals, store.bounds(SHARD)?.newest.0))
    };
    look().map_err(|source| BackupError::Verify { folder: folder.to_owned(), source })
}

/// Copies the files of a folder that may not be there, durably. Files that go meanwhile are left out.
fn copy_files(from: &Path, to: &Path) -> Result<(), BackupError> {
    let Ok(entries) = fs::read_dir(from) else { return Ok(()) };
    make_folder(to)?;
    for entry in entries.flatten() {
        let copy = to.join(entry.file_name());
        if !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        match fs::copy(entry.path(), &copy) {
            Ok(_) => written(&copy, File::open(&copy).and_then(|file| file.sync_all()))?,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(source) => return Err(BackupError::Write { path: copy, source }),
        }
    }
    written(to, File::open(to).and_then(|folder| folder.sync_all()))
}

fn write_note(folder: &Path, note: &Note) -> Result<(), BackupError> {
    let path = folder.join(NOTE);
    let write = || {
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&path)?;
        serde_json::to_writer_pretty(&mut file, note)?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        File::open(folder)?.sync_all()
    };
    written(&path, write())
}

/// Renames within a folder, or into another one of the same file system; durably.
fn rename(from: &Path, to: &Path) -> Result<(), BackupError> {
    written(to, fs::rename(from, to))?;
    sync_parent(to)
}

fn written<T>(path: &Path, result: std::io::Result<T>) -> Result<T, BackupError> {
    result.map_err(|source| BackupError::Write { path: path.to_owned(), source })
}

/// A path beside another one, in the same folder.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path.file_name().unwrap_or_default());
    name.push(suffix);
    path.with_file_name(name)
}
