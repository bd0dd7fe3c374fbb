//! Who may look into the data folder: its owner alone. It has every payload, cookies of browsers, and what agents logged.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use capataz_store::folders;

/// Bits of others that may change what is there.
pub(crate) const WRITABLE: u32 = 0o022;
/// Bits of anybody but the owner.
pub(crate) const NOT_THE_OWNERS: u32 = 0o077;
/// The folders in the data folder whose own entries are looked at as well.
const INNER: [&str; 2] = ["shims", "browser"];

/// Why the folder cannot be used.
#[derive(Debug)]
pub(crate) enum Refused {
    /// Others may write to it, by these permissions: nobody knows what they have.
    Writable(u32),
    Io(io::Error),
}

/// Makes the folder, or narrows it to its owner.
pub(crate) fn prepare(data_dir: &Path) -> Result<(), Refused> {
    if !data_dir.exists() {
        return folders::make(data_dir).map_err(Refused::Io);
    }
    let mode = fs::metadata(data_dir).map_err(Refused::Io)?.permissions().mode();
    if mode & WRITABLE != 0 {
        return Err(Refused::Writable(mode & 0o7777));
    }
    if mode & NOT_THE_OWNERS != 0 {
        fs::set_permissions(data_dir, Permissions::from_mode(0o700)).map_err(Refused::Io)?;
        let (data_dir, was) = (data_dir.display(), format!("{:o}", mode & 0o777));
        tracing::warn!(%data_dir, was, "others could read the data folder; from now on only its owner can");
    }
    narrow_inside(data_dir);
    Ok(())
}

/// Takes the permissions of others from what is in the folder. The folder's own keep everybody else out; this is for whoever
/// copies it.
pub(crate) fn narrow_inside(data_dir: &Path) {
    narrow_entries(data_dir);
    for inner in INNER {
        narrow_entries(&data_dir.join(inner));
    }
}

/// Takes the permissions of others from a folder and from all that is in it, however deep.
pub(crate) fn narrow_whole(folder: &Path) {
    narrow(folder);
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            narrow(&entry.path());
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(entry.path());
            }
        }
    }
}

fn narrow_entries(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        narrow(&entry.path());
    }
}

/// What cannot be narrowed belongs to somebody else, is in a file system without permissions, or has just gone.
pub(crate) fn narrow(path: &Path) {
    let Ok(metadata) = fs::symlink_metadata(path) else { return };
    let mode = metadata.permissions().mode();
    let is_own = metadata.is_dir() || metadata.is_file();
    if is_own && mode & NOT_THE_OWNERS != 0 {
        let narrowed = Permissions::from_mode(mode & 0o700);
        if let Err(error) = fs::set_permissions(path, narrowed) {
            tracing::warn!(path = %path.display(), %error, "others may read this file of the data folder");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_folder_that_others_may_read_is_narrowed_with_what_is_in_it() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("data");
        fs::create_dir_all(folder.join("shims")).unwrap();
        for (path, before) in [("capataz.db", 0o644), ("shims/a.lock", 0o664)] {
            fs::write(folder.join(path), "").unwrap();
            fs::set_permissions(folder.join(path), Permissions::from_mode(before)).unwrap();
        }
        fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
        prepare(&folder).unwrap();
        assert_eq!((mode(&folder), mode(&folder.join("shims"))), (0o700, 0o700));
        assert_eq!((mode(&folder.join("capataz.db")), mode(&folder.join("shims/a.lock"))), (0o600, 0o600));
    }

    #[test]
    fn a_folder_is_narrowed_as_deep_as_it_goes_and_nothing_outside_of_it() {
        let parent = tempfile::tempdir().unwrap();
        let (folder, elsewhere) = (parent.path().join("copy"), parent.path().join("elsewhere"));
        fs::create_dir_all(folder.join("blobs/ab")).unwrap();
        for file in [&elsewhere, &folder.join("blobs/ab/abcd")] {
            fs::write(file, "").unwrap();
            fs::set_permissions(file, Permissions::from_mode(0o644)).unwrap();
        }
        std::os::unix::fs::symlink(&elsewhere, folder.join("blobs/link")).unwrap();
        for inner in ["", "blobs", "blobs/ab"] {
            fs::set_permissions(folder.join(inner), Permissions::from_mode(0o755)).unwrap();
        }
        narrow_whole(&folder);
        let found = ["", "blobs", "blobs/ab", "blobs/ab/abcd"].map(|inner| mode(&folder.join(inner)));
        assert_eq!(found, [0o700, 0o700, 0o700, 0o600]);
        assert_eq!(mode(&elsewhere), 0o644);
    }

    #[test]
    fn a_folder_that_others_may_write_is_refused_and_left_as_it_is() {
        let parent = tempfile::tempdir().unwrap();
        for open in [0o770, 0o702, 0o777] {
            fs::set_permissions(parent.path(), Permissions::from_mode(open)).unwrap();
            let refused = prepare(parent.path());
            assert!(matches!(refused, Err(Refused::Writable(mode)) if mode == open), "{refused:?}");
            assert_eq!(mode(parent.path()), open);
        }
    }

    #[test]
    fn a_new_folder_is_its_owners() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("a/b");
        prepare(&folder).unwrap();
        assert_eq!((mode(&folder), mode(&parent.path().join("a"))), (0o700, 0o700));
    }
}
