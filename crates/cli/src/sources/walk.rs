//! A folder that git does not know, walked.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{Found, MAX_PATHS};

/// Folders of what is built or installed, and of version control.
const SKIPPED: &[&str] = &[
    ".git",
    ".gradle",
    ".hg",
    ".mypy_cache",
    ".next",
    ".nuxt",
    ".pytest_cache",
    ".ruff_cache",
    ".svn",
    ".tox",
    ".venv",
    "__pycache__",
    "build",
    "dist",
    "node_modules",
    "target",
    "venv",
];
/// How deep folders are entered.
const DEPTH: usize = 64;
/// Names that are looked at in one walk.
const MAX_NAMES: usize = 1_000_000;

/// The regular files of a folder, in folders that are not skipped.
///
/// # Errors
/// The folder itself cannot be read. What is within it and cannot be read is passed over.
pub(super) fn files(folder: &Path) -> io::Result<Found> {
    let mut found = Found::default();
    let mut names = 0;
    // Paths relative to the folder, with their depth.
    let mut open: Vec<(PathBuf, usize)> = vec![(PathBuf::new(), 0)];
    while let Some((inner, depth)) = open.pop() {
        let entries = match fs::read_dir(folder.join(&inner)) {
            Ok(entries) => entries,
            Err(error) if depth == 0 => return Err(error),
            Err(_) => continue,
        };
        let mut folders = Vec::new();
        for entry in entries.filter_map(Result::ok) {
            names += 1;
            if names > MAX_NAMES || found.paths.len() >= 2 * MAX_PATHS {
                found.left_out.beyond += 1;
                return Ok(found);
            }
            // The kind is that of a link itself, not of what it leads to.
            let Ok(kind) = entry.file_type() else { continue };
            let (name, path) = (entry.file_name(), inner.join(entry.file_name()));
            if kind.is_file() {
                found.add(path.to_str());
            } else if kind.is_dir() && depth < DEPTH && !SKIPPED.iter().any(|skipped| name == *skipped) {
                folders.push((path, depth + 1));
            }
        }
        // The first one by name is the next.
        folders.sort_unstable_by(|(one, _), (other, _)| other.cmp(one));
        open.append(&mut folders);
    }
    Ok(found)
}
