//! Files that the configuration names.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

/// The text of a file of at most so many bytes. Nothing but a file is opened: a pipe would be waited for.
pub(super) fn read(file: &Path, most: u64) -> io::Result<String> {
    let other = |problem: String| io::Error::new(io::ErrorKind::InvalidData, problem);
    if !fs::metadata(file)?.is_file() {
        return Err(other("it is no file".to_owned()));
    }
    let mut text = String::new();
    File::open(file)?.take(most.saturating_add(1)).read_to_string(&mut text)?;
    if text.len() as u64 > most {
        return Err(other(format!("it has more than {most} bytes")));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_up_to_its_limit_and_what_is_no_file_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        fs::write(&file, "señor").unwrap();
        assert_eq!(read(&file, 6).unwrap(), "señor");
        for most in [0, 2, 3, 5] {
            assert!(read(&file, most).is_err(), "{most}");
        }
        assert_eq!(read(folder.path(), 9).unwrap_err().to_string(), "it is no file");
        assert_eq!(read(Path::new("/dev/null"), 9).unwrap_err().to_string(), "it is no file");
        assert_eq!(read(&folder.path().join("b"), 9).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
