//! Waits for changes of files.

use std::path::{Path, PathBuf};
use std::time::Duration;

use notify::{RecursiveMode, Watcher};
use tokio::sync::mpsc;

/// The time without a change after which files are read again, because editors write in several steps.
const SETTLED: Duration = Duration::from_millis(150);

/// Changes in some folders, heard of while it lives.
pub(crate) struct Changes {
    changes: mpsc::Receiver<()>,
    _watcher: notify::RecommendedWatcher,
}

impl std::fmt::Debug for Changes {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Changes")
    }
}

impl Changes {
    /// Changes of what is directly in these folders, for paths that `count`.
    ///
    /// # Errors
    /// A folder cannot be watched.
    pub(crate) fn of(
        folders: impl IntoIterator<Item = PathBuf>,
        counts: impl Fn(&Path) -> bool + Send + 'static,
    ) -> notify::Result<Self> {
        // Further signals would cause nothing further.
        let (changed, changes) = mpsc::channel(1);
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            if event.is_ok_and(|event| !event.kind.is_access() && event.paths.iter().any(|path| counts(path)))
            {
                let _ = changed.try_send(());
            }
        })?;
        for folder in folders {
            watcher.watch(&folder, RecursiveMode::NonRecursive)?;
        }
        Ok(Self { changes, _watcher: watcher })
    }

    /// Waits until something has changed and nothing has for a moment. Whether there may be another change.
    pub(crate) async fn settled(&mut self) -> bool {
        if self.changes.recv().await.is_none() {
            return false;
        }
        while tokio::time::timeout(SETTLED, self.changes.recv()).await.is_ok_and(|change| change.is_some()) {}
        true
    }
}
