//! A backup on which nobody works: it is read as it lies there, without a trace.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use capataz_store::sqlite::DATABASE_FILE;

use super::{NOTE, beside};
use crate::holder::LOCK;

/// What SQLite keeps beside a database, and what may have a part of it that its file has not.
const LOGS: [&str; 2] = ["-wal", "-journal"];

/// A backup all of which is in its files, and how its database lies there.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct AtRest {
    inode: u64,
    bytes: u64,
    written: (i64, i64),
    /// A daemon has worked on it, and left its lock.
    has_lock: bool,
}

impl AtRest {
    /// `None` for what is no backup, and where something else than the database may have a part of it.
    pub(super) fn of(folder: &Path) -> Option<Self> {
        let database = folder.join(DATABASE_FILE);
        let has_more = LOGS.iter().any(|part| match fs::metadata(beside(&database, part)) {
            Ok(metadata) => metadata.len() > 0,
            Err(error) => error.kind() != ErrorKind::NotFound,
        });
        if has_more || !folder.join(NOTE).is_file() {
            return None;
        }
        let has_lock = folder.join(LOCK).try_exists().ok()?;
        // SQLite keeps the log of a linked database beside the file that the link leads to.
        let metadata = fs::symlink_metadata(&database).ok().filter(fs::Metadata::is_file)?;
        let written = (metadata.mtime(), metadata.mtime_nsec());
        Some(Self { inode: metadata.ino(), bytes: metadata.len(), written, has_lock })
    }

    /// The same with the lock of the daemon that has worked on it, where there is one: no daemon begins to as long as it is held.
    /// `None` also where one has it.
    pub(super) fn held(folder: &Path) -> Option<(Self, Option<File>)> {
        let at_rest = Self::of(folder)?;
        if !at_rest.has_lock {
            return Some((at_rest, None));
        }
        let lock = File::open(folder.join(LOCK)).ok()?;
        lock.try_lock_shared().ok()?;
        // Whoever had it before may have left something.
        let is_the_same = Self::of(folder).as_ref() == Some(&at_rest);
        is_the_same.then_some((at_rest, Some(lock)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_is_at_rest_until_a_daemon_works_on_it_or_has_left_a_part_of_it_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let [database, lock] = [DATABASE_FILE, LOCK].map(|name| folder.join(name));
        fs::write(&database, "pages").unwrap();
        assert!(AtRest::held(folder).is_none(), "a data folder");
        fs::write(folder.join(NOTE), "{}").unwrap();
        let (at_rest, held) = AtRest::held(folder).unwrap();
        assert!(held.is_none() && AtRest::of(folder).as_ref() == Some(&at_rest));
        for log in LOGS.map(|part| beside(&database, part)) {
            fs::write(&log, "").unwrap();
            assert!(AtRest::held(folder).is_some(), "an empty log has nothing");
            fs::write(&log, "frames").unwrap();
            assert!(AtRest::held(folder).is_none());
            fs::remove_file(&log).unwrap();
        }
        let daemons = File::create(&lock).unwrap();
        assert!(AtRest::of(folder) != Some(at_rest), "a daemon begins");
        let (at_rest, held) = AtRest::held(folder).unwrap();
        assert!(daemons.try_lock().is_err());
        drop(held);
        daemons.lock().unwrap();
        assert!(AtRest::held(folder).is_none());
        fs::write(&database, "more pages").unwrap();
        assert!(AtRest::of(folder) != Some(at_rest), "it is another database");
    }

    /// The log of its database is beside the file that the link leads to.
    #[cfg(unix)]
    #[test]
    fn a_backup_whose_database_is_a_link_is_none_at_rest() {
        let (elsewhere, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(folder.path().join(NOTE), "{}").unwrap();
        fs::write(elsewhere.path().join(DATABASE_FILE), "pages").unwrap();
        let link = folder.path().join(DATABASE_FILE);
        std::os::unix::fs::symlink(elsewhere.path().join(DATABASE_FILE), link).unwrap();
        assert!(AtRest::of(folder.path()).is_none());
    }
}
