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
    /// None of the folders can be watched.
    pub(crate) fn of(
        folders: impl IntoIterator<Item = PathBuf>,
        counts: impl Fn(&Path) -> bool + Send + 'static,
    ) -> notify::Result<Self> {
        // Further signals would cause nothing further.
        let (changed, changes) = mpsc::channel(1);
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // Where events were lost, anything may have changed.
            let counts = |event: notify::Event| {
                let is_change = !event.kind.is_access() && event.paths.iter().any(|path| counts(path));
                is_change || event.need_rescan()
            };
            if event.is_ok_and(counts) {
                let _ = changed.try_send(());
            }
        })?;
        let (mut is_watching, mut refused) = (false, None);
        for folder in folders {
            match watcher.watch(&folder, RecursiveMode::NonRecursive) {
                Ok(()) => is_watching = true,
                Err(error) => refused = Some(error),
            }
        }
        if let Some(error) = refused.filter(|_| !is_watching) {
            return Err(error);
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
