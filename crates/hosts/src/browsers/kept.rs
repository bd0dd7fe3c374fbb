//! What is kept of a browser while its run waits for a person: its storage state, and the address of the page that it
//! showed. For this run alone, and until the browser is open again or the run has ended. It is encrypted in any case,
//! because nobody has asked for it: with the key of storage states, else with one that ends with the daemon.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use capataz_executor::allowlist::Allowlist;
use capataz_executor::chromium::{ChromiumPage, StorageState};
use capataz_executor::page::{Act, Page, WaitUntil};
use serde::{Deserialize, Serialize};

use super::BrowsersError;
use super::states::{StateError, States};

/// Longest wait for the page that was shown before.
const PAGE_LIMIT: Duration = Duration::from_secs(30);

/// The folder of what is kept. Without a key, what an earlier daemon has kept can be read by nobody, and is removed.
pub(super) fn states(folder: PathBuf, key: Option<&str>) -> Result<States, BrowsersError> {
    if let Some(key) = key {
        let states = States::new(folder, Some(key));
        states.remove_drafts().map_err(BrowsersError::Kept)?;
        return Ok(states);
    }
    match std::fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(BrowsersError::Kept(error)),
        _ => {}
    }
    let mut key = [0; 32];
    getrandom::fill(&mut key).map_err(|error| BrowsersError::Kept(io::Error::other(error)))?;
    Ok(States::new(folder, Some(&blake3::Hash::from_bytes(key).to_hex())))
}

#[derive(Serialize, Deserialize)]
pub(super) struct Kept {
    url: String,
    pub(super) state: StorageState,
}

impl Kept {
    pub(super) fn new(url: String, state: StorageState) -> Self {
        Self { url, state }
    }

    /// Keeps it, wholly or not at all.
    pub(super) async fn write(&self, states: &States, run: &str) -> Result<(), String> {
        let bytes = serde_json::to_vec(self).map_err(|error| error.to_string())?;
        let (states, run) = (states.clone(), run.to_owned());
        let written = tokio::task::spawn_blocking(move || states.write(&run, &bytes)).await;
        written.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
    }

    /// What was kept for the run.
    pub(super) async fn read(states: &States, run: &str) -> Result<Self, String> {
        let (states, run) = (states.clone(), run.to_owned());
        let read = tokio::task::spawn_blocking(move || states.read(&run)).await;
        match read.map_err(|error| error.to_string())? {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| error.to_string()),
            Err(StateError::NotFound(_)) => Err(NOTHING.to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Shows the page again that was shown before, where the policy allows it. The engine has to allow it as well, because
    /// nothing is known here of what has led to that page. What becomes of it the next action sees.
    pub(super) async fn show(&self, page: &mut ChromiumPage, allowlist: &Allowlist, run: &str) {
        if allowlist.check_url(&self.url).is_err() {
            return;
        }
        let act = Act::Navigate { url: self.url.clone() };
        if let Err(error) = page.act(act, WaitUntil::Unspecified, PAGE_LIMIT).await {
            tracing::warn!(%run, %error, "the page that was shown before does not come again");
        }
        // What happened on the way is not a change by the action that follows.
        let _ = page.take_changes();
    }
}

const NOTHING: &str = "the browser was closed while the run waited, and its state could not be kept";

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> Kept {
        Kept::new("http://shop.test/account?token=very-secret".to_owned(), StorageState::default())
    }

    #[tokio::test]
    async fn what_is_kept_is_never_in_clear_and_is_read_by_the_daemon_that_has_its_key() {
        for key in [None, Some("a key")] {
            let data = tempfile::tempdir().expect("a folder");
            let folder = data.path().join("kept");
            let states = states(folder.clone(), key).expect("a folder for it");
            kept().write(&states, "run").await.expect("it is kept");
            let stored = std::fs::read(folder.join("run.state")).expect("a file");
            assert!(!stored.windows(11).any(|part| part == b"very-secret"));
            assert_eq!(Kept::read(&states, "run").await.map(|kept| kept.url), Ok(kept().url));
            assert!(Kept::read(&states, "other").await.is_err());

            let draft = folder.join("run.0190.draft");
            std::fs::write(&draft, "of a daemon that was killed").expect("a draft");
            let next = super::states(folder, key).expect("the next daemon");
            assert_eq!(Kept::read(&next, "run").await.is_ok(), key.is_some());
            assert!(!draft.exists(), "nobody would finish it");
        }
    }
}
