//! Where browsers leave things: profiles, which go with their browser, and downloads, which go with their run.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use capataz_store::{RunId, Store};

/// Below the data folder.
#[derive(Clone, Debug)]
pub(crate) struct Folders {
    data_dir: PathBuf,
}

impl Folders {
    pub(crate) fn new(data_dir: PathBuf) -> Self {
        Self { data_dir }
    }

    pub(crate) fn states(&self) -> PathBuf {
        self.data_dir.join("browser/states")
    }

    /// What is kept of browsers while their runs wait for a person.
    pub(crate) fn kept(&self) -> PathBuf {
        self.data_dir.join("browser/kept")
    }

    fn profiles(&self) -> PathBuf {
        self.data_dir.join("browser/profiles")
    }

    fn downloads(&self) -> PathBuf {
        self.data_dir.join("browser/downloads")
    }

    /// A place for the profile of one more browser; the browser makes it.
    pub(crate) fn new_profile(&self) -> PathBuf {
        self.profiles().join(uuid::Uuid::now_v7().to_string())
    }

    /// The folder of a run's downloads.
    pub(crate) fn downloads_of(&self, run: &str) -> PathBuf {
        self.downloads().join(run)
    }

    pub(crate) fn make_downloads_of(&self, run: &str) -> io::Result<PathBuf> {
        let folder = self.downloads_of(run);
        std::fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    /// Removes the profiles that browsers of an earlier daemon have left. Nothing may be starting meanwhile.
    pub(crate) fn remove_profiles(&self) -> io::Result<()> {
        match std::fs::remove_dir_all(self.profiles()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => std::fs::create_dir_all(self.profiles()),
        }
    }

    /// Removes a run's downloads where there are none.
    pub(crate) fn tidy_downloads(&self, run: &str) {
        // It fails where there is something in it, and that is what is wanted.
        let _ = std::fs::remove_dir(self.downloads_of(run));
    }

    /// Removes the downloads of runs that retention has removed.
    pub(crate) fn sweep_downloads(&self, store: &Arc<dyn Store>) -> io::Result<()> {
        let entries = match std::fs::read_dir(self.downloads()) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            let run: Option<RunId> = entry.file_name().to_str().and_then(|name| name.parse().ok());
            let Some(run) = run else { continue };
            if matches!(store.get_run(run), Ok(None)) {
                std::fs::remove_dir_all(entry.path())?;
            }
        }
        Ok(())
    }
}
