//! Storage states: cookies and local storage, kept under a name for later runs. One file each, readable by the daemon's
//! user alone, encrypted where the configuration names a key.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use capataz_contracts::v1;
use capataz_store::folders;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};

/// What a file begins with. The name of the state is authenticated with it, so that one file cannot stand for another.
const ENCRYPTED: &[u8] = b"capataz storage state, XChaCha20-Poly1305\n";
const PLAIN: &[u8] = b"capataz storage state, plain\n";
const NONCE_BYTES: usize = 24;
const EXTENSION: &str = "state";
const DRAFT: &str = "draft";
/// A state is cookies and texts; one that is larger is not read.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Why a state cannot be read or kept.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    #[error("there is no storage state {0:?}")]
    NotFound(String),
    #[error("storage state {0:?} is encrypted, and the configuration names no key (browser.storage_key)")]
    NoKey(String),
    #[error("storage state {0:?} cannot be decrypted with the key that the configuration names")]
    WrongKey(String),
    #[error("storage state {0:?} is damaged")]
    Damaged(String),
    #[error("storage state {name:?}: {source}")]
    Io {
        name: String,
        #[source]
        source: io::Error,
    },
    #[error("no randomness for a nonce: {0}")]
    Randomness(String),
}

/// The folder of the states.
#[derive(Clone)]
pub struct States {
    folder: PathBuf,
    key: Option<[u8; 32]>,
}

impl std::fmt::Debug for States {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("States")
            .field("folder", &self.folder)
            .field("encrypted", &self.key.is_some())
            .finish()
    }
}

impl States {
    pub(crate) fn new(folder: PathBuf, secret: Option<&str>) -> Self {
        let key = secret.map(|secret| blake3::derive_key("capataz 2026 storage states", secret.as_bytes()));
        Self { folder, key }
    }

    /// The state of this name; names were validated, and hold no `/`.
    pub(crate) fn read(&self, name: &str) -> Result<Vec<u8>, StateError> {
        let io = |source| StateError::Io { name: name.to_owned(), source };
        let path = self.path(name);
        let size = match fs::metadata(&path) {
            Ok(metadata) => metadata.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(StateError::NotFound(name.to_owned()));
            }
            Err(error) => return Err(io(error)),
        };
        if size > MAX_BYTES {
            return Err(StateError::Damaged(name.to_owned()));
        }
        let content = fs::read(&path).map_err(io)?;
        if let Some(plain) = content.strip_prefix(PLAIN) {
            return Ok(plain.to_vec());
        }
        let damaged = || StateError::Damaged(name.to_owned());
        let sealed = content.strip_prefix(ENCRYPTED).ok_or_else(damaged)?;
        let key = self.key.as_ref().ok_or_else(|| StateError::NoKey(name.to_owned()))?;
        let (nonce, sealed) = sealed.split_first_chunk::<NONCE_BYTES>().ok_or_else(damaged)?;
        let payload = Payload { msg: sealed, aad: name.as_bytes() };
        XChaCha20Poly1305::new(key.into())
            .decrypt(&XNonce::from(*nonce), payload)
            .map_err(|_| StateError::WrongKey(name.to_owned()))
    }

    /// Keeps a state in place of the one before it, wholly or not at all.
    pub(crate) fn write(&self, name: &str, state: &[u8]) -> Result<(), StateError> {
        let io = |source| StateError::Io { name: name.to_owned(), source };
        folders::make(&self.folder).map_err(io)?;
        let path = self.path(name);
        let draft = path.with_extension(format!("{}.{DRAFT}", uuid::Uuid::now_v7()));
        let written = self.seal(name, state).and_then(|content| {
            let mut file =
                fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft).map_err(io)?;
            for part in content {
                file.write_all(&part).map_err(io)?;
            }
            file.sync_all().map_err(io)?;
            fs::rename(&draft, &path).map_err(io)?;
            fs::File::open(&self.folder).and_then(|folder| folder.sync_all()).map_err(io)
        });
        if written.is_err() {
            let _ = fs::remove_file(&draft);
        }
        written
    }

    fn seal(&self, name: &str, state: &[u8]) -> Result<Vec<Vec<u8>>, StateError> {
        let Some(key) = &self.key else { return Ok(vec![PLAIN.to_vec(), state.to_vec()]) };
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce).map_err(|error| StateError::Randomness(error.to_string()))?;
        let payload = Payload { msg: state, aad: name.as_bytes() };
        let sealed = XChaCha20Poly1305::new(key.into())
            .encrypt(&XNonce::from(nonce), payload)
            .map_err(|_| StateError::Damaged(name.to_owned()))?;
        Ok(vec![ENCRYPTED.to_vec(), nonce.to_vec(), sealed])
    }

    /// All states, by name.
    pub fn list(&self) -> io::Result<Vec<v1::StorageStateInfo>> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut states = Vec::new();
        for entry in entries {
            let path = entry?.path();
            let (Some(name), Some(EXTENSION)) = (
                path.file_stem().and_then(|name| name.to_str()),
                path.extension().and_then(|extension| extension.to_str()),
            ) else {
                continue;
            };
            // It may have been removed meanwhile.
            let Ok(metadata) = fs::metadata(&path) else { continue };
            let saved = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
            states.push(v1::StorageStateInfo {
                name: name.to_owned(),
                saved_at_ms: saved.and_then(|age| i64::try_from(age.as_millis()).ok()).unwrap_or_default(),
                bytes: metadata.len(),
                encrypted: begins_with(&path, ENCRYPTED).unwrap_or(false),
            });
        }
        states.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(states)
    }

    /// False where no state has this name.
    pub fn delete(&self, name: &str) -> io::Result<bool> {
        match fs::remove_file(self.path(name)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Removes what was begun and never became a state, because its daemon was killed. Nothing may be writing meanwhile.
    pub(crate) fn remove_drafts(&self) -> io::Result<()> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        for entry in entries {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == DRAFT) {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.{EXTENSION}"))
    }
}

fn begins_with(path: &Path, prefix: &[u8]) -> io::Result<bool> {
    use std::io::Read;
    let mut head = vec![0; prefix.len()];
    fs::File::open(path)?.read_exact(&mut head)?;
    Ok(head == prefix)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

    use super::*;

    fn states(secret: Option<&str>) -> (tempfile::TempDir, States) {
        let folder = tempfile::tempdir().unwrap();
        let states = States::new(folder.path().join("states"), secret);
        (folder, states)
    }

    #[test]
    fn a_state_is_read_as_it_was_written_and_replaced_as_a_whole() {
        for secret in [None, Some("a key")] {
            let (_folder, states) = states(secret);
            states.write("shop", b"one").unwrap();
            states.write("shop", b"two").unwrap();
            assert_eq!(states.read("shop").unwrap(), b"two");
            let listed = states.list().unwrap();
            assert_eq!(listed.len(), 1);
            assert_eq!((listed[0].name.as_str(), listed[0].encrypted), ("shop", secret.is_some()));
            assert!(states.delete("shop").unwrap());
            assert!(!states.delete("shop").unwrap());
            assert!(matches!(states.read("shop"), Err(StateError::NotFound(_))));
        }
    }

    #[test]
    fn an_encrypted_state_shows_nothing_and_needs_its_key() {
        let (folder, states) = states(Some("a key"));
        states.write("shop", b"session=very-secret").unwrap();
        let stored = fs::read(states.path("shop")).unwrap();
        assert!(!stored.windows(11).any(|part| part == b"very-secret"));
        let other = States::new(folder.path().join("states"), Some("another key"));
        assert!(matches!(other.read("shop"), Err(StateError::WrongKey(_))));
        let none = States::new(folder.path().join("states"), None);
        assert!(matches!(none.read("shop"), Err(StateError::NoKey(_))));
    }

    #[test]
    fn a_state_does_not_stand_for_another_and_damage_is_seen() {
        let (_folder, states) = states(Some("a key"));
        states.write("shop", b"one").unwrap();
        fs::copy(states.path("shop"), states.path("bank")).unwrap();
        assert!(matches!(states.read("bank"), Err(StateError::WrongKey(_))));
        fs::write(states.path("shop"), b"short").unwrap();
        assert!(matches!(states.read("shop"), Err(StateError::Damaged(_))));
    }

    #[test]
    fn nobody_else_may_read_a_state() {
        use std::os::unix::fs::PermissionsExt;
        let (_folder, states) = states(None);
        states.write("shop", b"one").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&states.path("shop")), 0o600);
        assert_eq!(mode(&states.folder), 0o700);
    }
}
