//! The manifests of a source: which files they are, and their beginnings.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

use super::{MAX_MANIFEST_BYTES, MAX_MANIFESTS};

/// The names of manifests, in lower case. No file of another name is ever opened, but for the readme at the top.
const NAMES: &[&str] = &[
    "cargo.toml",
    "composer.json",
    "gemfile",
    "go.mod",
    "mix.exs",
    "package.json",
    "package.swift",
    "pom.xml",
    "pubspec.yaml",
    "pyproject.toml",
    "setup.py",
];
const READMES: &[&str] = &["readme", "readme.adoc", "readme.md", "readme.rst", "readme.txt"];

/// The most bytes of a readme: its title and its first paragraphs.
const MAX_README_BYTES: usize = 4 * 1024;

/// Reads the manifests among these paths, those at the top first. What is not text is passed over.
pub(super) fn read(folder: &Path, paths: &[String]) -> BTreeMap<String, String> {
    let mut named: Vec<(usize, &str, usize)> = Vec::new();
    for path in paths {
        let depth = path.matches('/').count();
        let name = path.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
        if NAMES.contains(&name.as_str()) {
            named.push((depth, path, MAX_MANIFEST_BYTES));
        } else if depth == 0 && READMES.contains(&name.as_str()) {
            named.push((depth, path, MAX_README_BYTES));
        }
    }
    named.sort_unstable();
    let read =
        |(_, path, most): (usize, &str, usize)| Some((path.to_owned(), beginning(&folder.join(path), most)?));
    named.into_iter().take(MAX_MANIFESTS).filter_map(read).collect()
}

/// At most so many bytes of a text; `None` where it is none, or is no regular file.
fn beginning(path: &Path, most: usize) -> Option<String> {
    // A file may have become a link or a pipe since it was listed.
    let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).ok()?;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(most as u64).read_to_end(&mut bytes).ok()?;
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        // The last character may be cut off.
        Err(error) if error.utf8_error().error_len().is_none() => {
            let end = error.utf8_error().valid_up_to();
            let mut bytes = error.into_bytes();
            bytes.truncate(end);
            String::from_utf8(bytes).ok()?
        }
        Err(_) => return None,
    };
    (!text.contains('\0')).then_some(text)
}
