//! The folder that holds all that one browser keeps: its profile, home and temporary files.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::LaunchError;
use crate::options::{LaunchOptions, TEMPORARY_FOLDER};

/// Pauses between attempts to remove a folder that something still writes to.
const REMOVE_PAUSES: [Duration; 5] = [
    Duration::from_millis(10),
    Duration::from_millis(40),
    Duration::from_millis(160),
    Duration::from_millis(640),
    Duration::from_millis(2560),
];

/// Removed with its content by [`ProfileFolder::remove`], or at the latest by its drop.
#[derive(Debug)]
pub(crate) struct ProfileFolder(PathBuf);

impl ProfileFolder {
    /// Makes the folder, readable by nobody else; its parents need not exist.
    pub(crate) fn make(options: &LaunchOptions) -> Result<Self, LaunchError> {
        let path = &options.profile_folder;
        let failed = |source| LaunchError::ProfileFolder { path: path.clone(), source };
        if !path.is_absolute() {
            return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, "the path is not absolute")));
        }
        if fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some()) {
            return Err(failed(io::ErrorKind::DirectoryNotEmpty.into()));
        }
        for folder in [path.clone(), options.home_folder(), path.join(TEMPORARY_FOLDER)] {
            DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        }
        Ok(Self(path.clone()))
    }

    /// Tries a few times: processes that are just being killed may still write.
    pub(crate) async fn remove(self) {
        for pause in REMOVE_PAUSES {
            let path = self.0.clone();
            match tokio::task::spawn_blocking(move || remove(&path)).await {
                Ok(Ok(())) => return,
                _ => tokio::time::sleep(pause).await,
            }
        }
        tracing::warn!(folder = %self.0.display(), "a browser's profile folder cannot be removed");
    }
}

impl Drop for ProfileFolder {
    fn drop(&mut self) {
        let _ = remove(&self.0);
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
