//! The folder in which a copy comes into being. It belongs to one program at a time, and nothing in it is removed unless an
//! unfinished copy has put it there.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::{BackupError, written};

/// The mark of a folder that is not whole: made before anything else in it, and removed after everything else is there.
const LOCK: &str = "backup.lock";

/// A folder that this program alone writes. The system lets it go whatever becomes of the process.
#[derive(Debug)]
pub(super) struct Unfinished {
    folder: PathBuf,
    lock: File,
}

impl Unfinished {
    /// Begins a folder, or takes over one whose copy was interrupted; what that has left stays until [`Self::clear`].
    ///
    /// # Errors
    /// There is something else, another copy is being made there, or the folder cannot be written.
    pub(super) fn begin(folder: &Path) -> Result<Self, BackupError> {
        if let Some(parent) = folder.parent() {
            make_folder(parent)?;
        }
        let is_empty = match DirBuilder::new().mode(0o700).create(folder) {
            Ok(()) => true,
            // An empty folder is one whose copy was interrupted before its first file, or nobody's loss.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                written(folder, is_empty_folder(folder))?
            }
            Err(source) => return Err(BackupError::Write { path: folder.to_owned(), source }),
        };
        let path = folder.join(LOCK);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(is_empty).mode(0o600);
        let lock = match options.open(&path) {
            Ok(lock) => lock,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Err(BackupError::NotUnfinished(folder.to_owned()));
            }
            Err(source) => return Err(BackupError::Write { path, source }),
        };
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(BackupError::Busy(folder.to_owned())),
            Err(TryLockError::Error(source)) => return Err(BackupError::Write { path, source }),
        }
        // Whoever had the lock may have finished the copy between the two steps: then this is no longer the folder's lock.
        if !written(&path, is_file_of(&lock, &path))? {
            return Err(BackupError::Busy(folder.to_owned()));
        }
        Ok(Self { folder: folder.to_owned(), lock })
    }

    /// The folder.
    pub(super) fn path(&self) -> &Path {
        &self.folder
    }

    /// Removes what an interrupted copy has left.
    pub(super) fn clear(&self) -> Result<(), BackupError> {
        let clear = || {
            for entry in fs::read_dir(&self.folder)? {
                let entry = entry?;
                if entry.file_name() == LOCK {
                    continue;
                }
                if entry.file_type()?.is_dir() {
                    fs::remove_dir_all(entry.path())?;
                } else {
                    fs::remove_file(entry.path())?;
                }
            }
            Ok(())
        };
        written(&self.folder, clear())
    }

    /// Says that the folder is whole. It stays locked for others until this value is dropped.
    pub(super) fn finish(&self) -> Result<(), BackupError> {
        let path = self.folder.join(LOCK);
        written(&path, fs::remove_file(&path).and_then(|()| File::open(&self.folder)?.sync_all()))
    }

    /// Removes the folder with everything in it, unless it was finished. The mark goes last, so that an interruption leaves
    /// an unfinished folder.
    pub(super) fn remove(&self) -> Result<(), BackupError> {
        let path = self.folder.join(LOCK);
        if !written(&path, is_file_of(&self.lock, &path))? {
            return Ok(());
        }
        self.clear()?;
        self.finish()?;
        written(&self.folder, fs::remove_dir(&self.folder))
    }
}

/// Makes a folder with those above it, durably; what is there stays as it is.
pub(super) fn make_folder(folder: &Path) -> Result<(), BackupError> {
    let missing: Vec<&Path> = folder
        .ancestors()
        .take_while(|ancestor| !ancestor.as_os_str().is_empty() && !ancestor.exists())
        .collect();
    let make = || DirBuilder::new().recursive(true).mode(0o700).create(folder);
    if !missing.is_empty() {
        written(folder, make())?;
    }
    missing.into_iter().try_for_each(sync_parent)
}

/// Makes the name of a file or folder durable.
pub(super) fn sync_parent(path: &Path) -> Result<(), BackupError> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    written(parent, File::open(parent).and_then(|parent| parent.sync_all()))
}

fn is_empty_folder(folder: &Path) -> io::Result<bool> {
    match fs::read_dir(folder) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == ErrorKind::NotADirectory => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether a path names the open file.
fn is_file_of(file: &File, path: &Path) -> io::Result<bool> {
    let (opened, named) = (file.metadata()?, fs::symlink_metadata(path));
    match named {
        Ok(named) => Ok((opened.dev(), opened.ino()) == (named.dev(), named.ino())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_belongs_to_one_until_it_is_let_go() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("new/saved.partial");
        let first = Unfinished::begin(&folder).unwrap();
        fs::write(folder.join("half"), "").unwrap();
        assert!(matches!(Unfinished::begin(&folder), Err(BackupError::Busy(_))));
        drop(first);
        let second = Unfinished::begin(&folder).unwrap();
        second.clear().unwrap();
        assert!(!folder.join("half").exists());
        // Nobody takes a folder over, or removes one, that is finished and has not got its name yet.
        fs::write(folder.join("whole"), "").unwrap();
        second.finish().unwrap();
        second.remove().unwrap();
        assert!(matches!(Unfinished::begin(&folder), Err(BackupError::NotUnfinished(_))));
        assert!(folder.join("whole").exists());
    }

    #[test]
    fn a_lock_that_its_holder_has_removed_is_nobodys() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("saved.partial");
        let first = Unfinished::begin(&folder).unwrap();
        let opened = File::open(folder.join(LOCK)).unwrap();
        assert!(is_file_of(&opened, &folder.join(LOCK)).unwrap());
        first.finish().unwrap();
        assert!(!is_file_of(&opened, &folder.join(LOCK)).unwrap());
        File::create(folder.join(LOCK)).unwrap();
        assert!(!is_file_of(&opened, &folder.join(LOCK)).unwrap());
    }

    #[test]
    fn a_file_of_that_name_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("saved.partial");
        fs::write(&path, "mine").unwrap();
        assert!(matches!(Unfinished::begin(&path), Err(BackupError::NotUnfinished(_))));
        assert_eq!(fs::read(&path).unwrap(), b"mine");
    }
}
