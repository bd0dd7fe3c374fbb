//! A folder as a source of an analysis: its id, the paths of its files and the texts of its manifests.
//!
//! In a work tree of git the files are those that git knows or would add; elsewhere the folder is walked, without what is
//! built or installed. No link is followed. Only manifests and the readme are read, by their names: no other file's content
//! leaves the machine. Everything is bounded and sorted, so that the same folder gives the same source.

mod git;
mod manifests;
#[cfg(test)]
mod tests;
mod walk;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;

use serde_json::{Value, json};

/// The most paths of a source.
pub const MAX_PATHS: usize = 100_000;
/// The most bytes of all paths of a source.
pub const MAX_PATH_BYTES: usize = 1024 * 1024;
/// The most manifests that are read.
pub const MAX_MANIFESTS: usize = 64;
/// The most bytes of one manifest that are read.
pub const MAX_MANIFEST_BYTES: usize = 16 * 1024;

/// A folder as an agent is given it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// `owner/repository` of the remote, with the folder within it; else the folder's name.
    pub id: String,
    /// Sorted, relative to the folder, with `/` between their segments.
    pub paths: Vec<String>,
    /// The beginnings of manifests by their paths.
    pub manifests: BTreeMap<String, String>,
    pub left_out: LeftOut,
}

/// How many files a source does not have, and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Their names are no UTF-8, or have a backslash or a control character.
    pub names: u64,
    /// There are too many, or their paths are too long together. Where a walk has ended early, at least so many.
    pub beyond: u64,
}

impl Source {
    /// Lists a folder.
    ///
    /// # Errors
    /// It is no folder, or cannot be read.
    pub fn of(folder: &Path) -> io::Result<Self> {
        // A folder that cannot be read is not an empty one.
        drop(fs::read_dir(folder)?);
        let repository = git::Repository::of(folder);
        let listed = repository.as_ref().and_then(|_| git::files(folder));
        // A folder that an outer repository ignores has files all the same.
        let mut found = match listed.filter(|found| !found.paths.is_empty()) {
            Some(found) => found,
            None => walk::files(folder)?,
        };
        let (paths, beyond) = within_bounds(std::mem::take(&mut found.paths));
        found.left_out.beyond += beyond;
        let manifests = manifests::read(folder, &paths);
        let id = repository.and_then(|repository| repository.id()).unwrap_or_else(|| name_of(folder));
        Ok(Self { id, paths, manifests, left_out: found.left_out })
    }

    /// The input of an agent.
    #[must_use]
    pub fn input(&self) -> Value {
        json!({"sourceId": self.id, "paths": self.paths, "manifests": self.manifests})
    }
}

/// Files of a folder, before the bounds of a source apply.
#[derive(Debug, Default)]
struct Found {
    paths: BTreeSet<String>,
    left_out: LeftOut,
}

impl Found {
    /// Adds a path if its name can be told.
    fn add(&mut self, path: Option<&str>) {
        let is_told =
            |path: &&str| !path.chars().any(|character| character == '\\' || character.is_control());
        match path.filter(is_told) {
            Some(path) => drop(self.paths.insert(path.to_owned())),
            None => self.left_out.names += 1,
        }
    }
}

/// The first paths that fit, and how many do not.
fn within_bounds(paths: BTreeSet<String>) -> (Vec<String>, u64) {
    let (mut kept, mut bytes, mut beyond) = (Vec::new(), 0, 0);
    for path in paths {
        bytes += path.len();
        if beyond > 0 || kept.len() >= MAX_PATHS || bytes > MAX_PATH_BYTES {
            beyond += 1;
        } else {
            kept.push(path);
        }
    }
    (kept, beyond)
}

/// The folder's own name, whatever the way to it was.
fn name_of(folder: &Path) -> String {
    let whole = folder.canonicalize();
    let name = whole.as_deref().unwrap_or(folder).file_name();
    name.map_or_else(|| "source".to_owned(), |name| name.to_string_lossy().into_owned())
}
