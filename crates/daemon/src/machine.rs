//! What a daemon would find on this machine, and in its data folder, for whoever wants to know before it starts or why it
//! does not. Nothing here changes anything.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

pub use capataz_hosts::commands::Abilities;
use rustix::fs::{Access, access, statvfs};
use rustix::process::{Resource, getrlimit};

use crate::folder::{NOT_THE_OWNERS, WRITABLE};

/// The files of which the newest shows when the folder was written last.
const WRITTEN: [&str; 2] = ["capataz.db", "capataz.db-wal"];

/// What the machine lets a daemon do.
#[derive(Debug)]
pub struct Machine {
    /// Files that a daemon may have open, since it raises its limit; nothing where there is no limit.
    pub descriptors: Option<u64>,
    pub abilities: Abilities,
}

impl Machine {
    #[must_use]
    pub fn examine() -> Self {
        Self { descriptors: getrlimit(Resource::Nofile).maximum, abilities: Abilities::try_out() }
    }
}

/// How a data folder is.
#[derive(Debug)]
pub enum Permission {
    /// It is made at the first start; this is the folder in which that happens.
    Missing(PathBuf),
    /// Its owner's alone.
    Own,
    /// Others may read it, by these permissions; a daemon narrows it at its start.
    Readable(u32),
    /// Others may write to it, by these permissions; a daemon does not start on it.
    Writable(u32),
    /// This process may not use it.
    Refused(io::Error),
}

/// A data folder and its disk.
#[derive(Debug)]
pub struct Folder {
    pub access: Permission,
    /// Bytes that are free for this user on its disk.
    pub free: io::Result<u64>,
    /// When the database was written last; nothing where there is none.
    pub written: Option<SystemTime>,
}

impl Folder {
    #[must_use]
    pub fn examine(data_dir: &Path) -> Self {
        // The empty parent of a relative name is the working folder.
        let named = |folder: &'_ Path| folder.as_os_str().is_empty().then_some(Path::new("."));
        let mut folders = data_dir.ancestors().map(|folder| named(folder).unwrap_or(folder));
        let existing = folders.find(|folder| folder.exists()).unwrap_or(data_dir);
        let times = WRITTEN.iter().filter_map(|name| fs::metadata(data_dir.join(name)).ok()?.modified().ok());
        Self {
            access: look_at(data_dir, existing),
            free: statvfs(existing)
                .map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize))
                .map_err(io::Error::from),
            written: times.max(),
        }
    }
}

fn look_at(data_dir: &Path, existing: &Path) -> Permission {
    if let Err(errno) = access(existing, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK) {
        return Permission::Refused(errno.into());
    }
    if existing != data_dir {
        return Permission::Missing(existing.to_owned());
    }
    match fs::metadata(data_dir) {
        Err(error) => Permission::Refused(error),
        Ok(metadata) if !metadata.is_dir() => Permission::Refused(io::ErrorKind::NotADirectory.into()),
        Ok(metadata) => match metadata.permissions().mode() & 0o7777 {
            mode if mode & WRITABLE != 0 => Permission::Writable(mode),
            mode if mode & NOT_THE_OWNERS != 0 => Permission::Readable(mode),
            _ => Permission::Own,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;

    use super::*;

    #[track_caller]
    fn check(mode: u32, is_expected: impl Fn(&Permission) -> bool) {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(mode)).unwrap();
        let found = Folder::examine(folder.path());
        assert!(is_expected(&found.access), "{found:?}");
        assert!(found.free.is_ok() && found.written.is_none(), "{found:?}");
    }

    #[test]
    fn a_folder_is_looked_at_as_a_daemon_would_and_left_as_it_is() {
        check(0o700, |access| matches!(access, Permission::Own));
        check(0o755, |access| matches!(access, Permission::Readable(0o755)));
        check(0o770, |access| matches!(access, Permission::Writable(0o770)));
        let parent = tempfile::tempdir().unwrap();
        let found = Folder::examine(&parent.path().join("a/b"));
        assert!(matches!(&found.access, Permission::Missing(path) if path == parent.path()), "{found:?}");
        assert!(!parent.path().join("a").exists());
        let file = parent.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(matches!(Folder::examine(&file).access, Permission::Refused(_)));
    }

    #[test]
    fn the_newest_file_of_the_database_says_when_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        for name in WRITTEN {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let later = std::time::UNIX_EPOCH + std::time::Duration::from_secs(4_102_444_800);
        let wal = fs::OpenOptions::new().write(true).open(folder.path().join(WRITTEN[1])).unwrap();
        wal.set_modified(later).unwrap();
        assert_eq!(Folder::examine(folder.path()).written, Some(later));
    }
}
