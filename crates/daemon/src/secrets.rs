//! Where `${secret:NAME}` comes from: the daemon's environment, else a folder with a file for each.

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
    fn resolve(&self, name: &str) -> Option<String> {
        if let Ok(value) = std::env::var(format!("CAPATAZ_SECRET_{name}")) {
            return Some(value);
        }
        // A name that leads out of the folder names no secret.
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        if name.starts_with('.') || !name.bytes().all(plain) {
            return None;
        }
        let path = self.folder.as_ref()?.join(name);
        let metadata = std::fs::metadata(&path).ok()?;
        if !metadata.is_file() || metadata.len() > MAX_BYTES {
            return None;
        }
        let text = std::fs::read_to_string(path).ok()?;
        Some(
            text.strip_suffix('\n')
                .map_or(text.as_str(), |line| line.strip_suffix('\r').unwrap_or(line))
                .to_owned(),
        )
    }
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
        assert_eq!(secrets.resolve("SHOP").as_deref(), Some("open sesame"));
        assert_eq!(secrets.resolve("../OUTSIDE"), None);
        assert_eq!(secrets.resolve("MISSING"), None);
    }
}
