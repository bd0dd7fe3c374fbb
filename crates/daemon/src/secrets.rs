//! Where `${secret:NAME}` comes from: the daemon's environment, else a folder with a file for each.

use std::io;
use std::path::PathBuf;

use capataz_hosts::port::SecretResolver;

/// A secret is a password or a token.
const MAX_BYTES: u64 = 64 * 1024;

/// The daemon's secrets. They are looked up whenever they are needed, and kept nowhere.
#[derive(Clone, Debug)]
pub(crate) struct Secrets {
    folder: Option<PathBuf>,
}

impl Secrets {
    pub(crate) fn new(folder: Option<PathBuf>) -> Self {
        Self { folder }
    }
}

impl SecretResolver for Secrets {
    /// The variable `CAPATAZ_SECRET_NAME`, else the file `NAME` of the folder, without a line's end after it.
    #[expect(clippy::disallowed_methods, reason = "the daemon's environment is where secrets come from")]
    fn resolve(&self, name: &str) -> io::Result<Option<String>> {
        if let Ok(value) = std::env::var(format!("CAPATAZ_SECRET_{name}")) {
            return Ok(Some(value));
        }
        // A name that leads out of the folder names no secret.
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        if name.starts_with('.') || !name.bytes().all(plain) {
            return Ok(None);
        }
        let Some(path) = self.folder.as_ref().map(|folder| folder.join(name)) else { return Ok(None) };
        let Ok(metadata) = std::fs::metadata(&path) else { return Ok(None) };
        if !metadata.is_file() || metadata.len() > MAX_BYTES {
            return Ok(None);
        }
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            // What was removed meanwhile, is kept from the daemon or is not a text is not a secret of the daemon.
            Err(error) if is_final(error.kind()) => return Ok(None),
            Err(error) => return Err(error),
        };
        let line = text.strip_suffix('\n').unwrap_or(&text);
        let ends_with_it = line.len() < text.len();
        let line = if ends_with_it { line.strip_suffix('\r').unwrap_or(line) } else { line };
        Ok(Some(line.to_owned()))
    }
}

fn is_final(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidData)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

    use super::*;

    #[test]
    fn a_secret_is_a_file_without_its_line_end_and_nothing_outside_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("secrets");
        std::fs::create_dir(&inner).unwrap();
        std::fs::write(inner.join("SHOP"), "open sesame\n").unwrap();
        std::fs::write(folder.path().join("OUTSIDE"), "no").unwrap();
        let secrets = Secrets::new(Some(inner));
        let resolved = |name: &str| secrets.resolve(name).unwrap();
        assert_eq!(resolved("SHOP").as_deref(), Some("open sesame"));
        assert_eq!(resolved("../OUTSIDE"), None);
        assert_eq!(resolved("MISSING"), None);
    }
}
