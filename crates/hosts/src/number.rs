//! The number by which the hosts of one data folder are told from those of every other one.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The file of the data folder that keeps the number.
const FILE: &str = "host-number";

/// Drawn once for a data folder. So the hosts of a daemon that was started again are the same workers, whose lost leases
/// are seen at once, and two daemons over one database are never taken for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostNumber(u32);

/// The number cannot be read, drawn or kept.
#[derive(Debug, thiserror::Error)]
#[error("the number of this data folder's hosts cannot be kept in {}", path.display())]
pub struct HostNumberError {
    path: PathBuf,
    #[source]
    source: io::Error,
}

impl HostNumber {
    /// The number of a data folder, which nobody else may be using meanwhile.
    ///
    /// # Errors
    /// Its file cannot be read or written, or the system has no randomness.
    pub fn of_folder(data_dir: &Path) -> Result<Self, HostNumberError> {
        let path = data_dir.join(FILE);
        let kept = read(&path).and_then(|kept| kept.map_or_else(|| draw(data_dir, &path), Ok));
        kept.map_err(|source| HostNumberError { path, source })
    }

    /// A worker's id: the name of its work, and the number.
    #[must_use]
    pub fn worker_id(self, name: &str) -> String {
        format!("{name}-{:08x}", self.0)
    }

    /// Whether the worker is one of this data folder's hosts.
    #[must_use]
    pub fn is_of(self, worker: &str) -> bool {
        worker.ends_with(&self.worker_id(""))
    }
}

/// Nothing where there is no file, or none that holds a number: then the leases of the hosts before wait for them in
/// vain until the reattach window closes, and nothing else is lost.
fn read(path: &Path) -> io::Result<Option<HostNumber>> {
    match fs::read(path) {
        Ok(content) => {
            let number = parse(&content);
            if number.is_none() {
                tracing::warn!(path = %path.display(), "the file holds no number; another one is drawn");
            }
            Ok(number)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn parse(content: &[u8]) -> Option<HostNumber> {
    let text = std::str::from_utf8(content).ok()?.trim_end();
    let is_number = text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_number.then(|| u32::from_str_radix(text, 16).ok().map(HostNumber))?
}

/// Kept before it is used: wholly or not at all.
fn draw(data_dir: &Path, path: &Path) -> io::Result<HostNumber> {
    let number = getrandom::u32().map_err(io::Error::other)?;
    let draft = path.with_extension("draft");
    let mut file = fs::File::create(&draft)?;
    writeln!(file, "{number:08x}")?;
    file.sync_all()?;
    fs::rename(&draft, path)?;
    fs::File::open(data_dir)?.sync_all()?;
    Ok(HostNumber(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_keeps_its_number_and_another_one_has_another() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let drawn = HostNumber::of_folder(one.path()).unwrap();
        assert_eq!(HostNumber::of_folder(one.path()).unwrap(), drawn);
        assert_ne!(HostNumber::of_folder(other.path()).unwrap(), drawn);
        let id = drawn.worker_id("host");
        assert!(id.len() == "host-".len() + 8 && id.starts_with("host-"), "{id}");
    }

    #[test]
    fn a_damaged_file_is_replaced_and_a_missing_folder_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        for damaged in ["", "12", "not a number", "+1234567", "123456789"] {
            fs::write(folder.path().join(FILE), damaged).unwrap();
            let drawn = HostNumber::of_folder(folder.path()).unwrap();
            assert_eq!(HostNumber::of_folder(folder.path()).unwrap(), drawn, "{damaged}");
        }
        let error = HostNumber::of_folder(&folder.path().join("none")).unwrap_err();
        assert!(error.to_string().contains(FILE), "{error}");
    }

    #[test]
    fn leading_zeros_belong_to_a_number() {
        assert_eq!(parse(b"0000000f\n"), Some(HostNumber(15)));
        assert_eq!(HostNumber(15).worker_id("host"), "host-0000000f");
    }
}
