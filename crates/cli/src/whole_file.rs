//! Files that are replaced at once: a reader sees the old contents or the new ones, and a failure leaves the old ones.

use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// The permissions of a new file, before the umask.
const OF_NEW: u32 = 0o666;

/// The folder that a file is in.
pub fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Writes the file. One that exists is replaced only if that is allowed, and keeps its permissions.
///
/// # Errors
/// The file cannot be written, or exists and may not be replaced.
pub fn write(file: &Path, contents: &[u8], may_replace: bool) -> io::Result<()> {
    let present = fs::metadata(file).ok().map(|present| present.permissions());
    // From its first moment on, nobody may read it who may not read the file.
    let first = present.clone().unwrap_or_else(|| Permissions::from_mode(OF_NEW));
    let mut temporary = tempfile::Builder::new().permissions(first).tempfile_in(folder_of(file))?;
    if let Some(present) = present {
        // The umask has taken some of them away.
        temporary.as_file().set_permissions(present)?;
    }
    temporary.write_all(contents)?;
    temporary.as_file().sync_all()?;
    if may_replace {
        temporary.persist(file)?;
    } else {
        temporary.persist_noclobber(file)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(file: &Path) -> u32 {
        fs::metadata(file).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn a_file_keeps_its_permissions_and_a_new_one_has_those_of_any_new_file() {
        let folder = tempfile::tempdir().unwrap();
        let (file, other) = (folder.path().join("file"), folder.path().join("other"));
        fs::write(&other, "").unwrap();
        write(&file, b"one", false).unwrap();
        assert_eq!((fs::read(&file).unwrap().as_slice(), mode(&file)), (&b"one"[..], mode(&other)));
        for kept in [0o600, 0o646, 0o444] {
            fs::set_permissions(&file, Permissions::from_mode(kept)).unwrap();
            write(&file, b"two", true).unwrap();
            assert_eq!((fs::read(&file).unwrap().as_slice(), mode(&file)), (&b"two"[..], kept));
        }
        let refused = write(&file, b"three", false).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&file).unwrap(), b"two");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left over");
    }
}
