//! Folders whose names survive a power cut.
//!
//! A file is on the disk for good when its contents are synced, and the folder with its name, and so on upwards.

use std::fs::{DirBuilder, File};
use std::io::{self, ErrorKind};
use std::path::Path;

/// How a folder above an existing one is refused that is somebody else's, or in a file system that keeps nothing.
const NOT_OURS: [ErrorKind; 3] =
    [ErrorKind::PermissionDenied, ErrorKind::InvalidInput, ErrorKind::Unsupported];

/// Makes a folder and those above it that are missing, accessible to their owner only. Their names are durable when this
/// returns.
///
/// # Errors
/// A folder cannot be made, or the one with its name cannot be synced.
pub fn make(folder: &Path) -> io::Result<()> {
    let missing: Vec<&Path> =
        folder.ancestors().take_while(|folder| !is_current(folder) && !folder.is_dir()).collect();
    // Who made the folder that is there may have been killed, or have failed, before its name was durable.
    let there = missing.last().map_or(Some(folder), |folder| folder.parent());
    match there.and_then(Path::parent).map_or(Ok(()), sync) {
        Err(error) if NOT_OURS.contains(&error.kind()) => {}
        synced => synced?,
    }
    for folder in missing.into_iter().rev() {
        let mut builder = DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        match builder.create(folder) {
            // Somebody else makes it at the same time.
            Err(error) if error.kind() == ErrorKind::AlreadyExists && folder.is_dir() => {}
            made => made?,
        }
        folder.parent().map_or(Ok(()), sync)?;
    }
    Ok(())
}

/// Makes the creation and removal of names in a folder durable.
///
/// # Errors
/// The folder cannot be read or synced.
pub fn sync(folder: &Path) -> io::Result<()> {
    let folder = if is_current(folder) { Path::new(".") } else { folder };
    File::open(folder)?.sync_all()
}

/// A relative name without a folder has an empty parent, which means the current folder.
fn is_current(folder: &Path) -> bool {
    folder.as_os_str().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_made_with_those_above_it_for_its_owner() {
        use std::os::unix::fs::PermissionsExt;

        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("above/inner");
        for _ in 0..2 {
            make(&folder).unwrap();
        }
        for made in [folder.parent().unwrap(), &folder] {
            assert_eq!(made.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        }
        std::fs::write(parent.path().join("file"), "").unwrap();
        for below in ["file", "file/inner"] {
            assert!(make(&parent.path().join(below)).is_err(), "{below}");
        }
    }
}
