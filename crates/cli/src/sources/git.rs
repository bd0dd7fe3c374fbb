//! What git knows of a folder.
//!
//! A repository may have settings that start programs; those that a listing would start are switched off.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::Path;
#[expect(clippy::disallowed_types, reason = "only git knows what it ignores")]
use std::process::Command;
use std::process::Stdio;

use super::{Found, MAX_PATHS};

/// The most bytes of a listing that are read: far more than a source may have.
const MAX_LISTING: u64 = 64 * 1024 * 1024;
/// The most bytes of other answers.
const MAX_ANSWER: u64 = 64 * 1024;

/// The repository that a folder is in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Repository {
    /// The address of a remote; empty without one.
    remote: String,
    /// The folder within the work tree; empty for its top.
    folder: String,
}

impl Repository {
    /// The repository of a folder in a work tree; `None` without git, too.
    pub(super) fn of(folder: &Path) -> Option<Self> {
        let answer = answer(folder, &["rev-parse", "--is-inside-work-tree", "--show-prefix"], MAX_ANSWER)?;
        let answer = String::from_utf8(answer).ok()?;
        let mut lines = answer.lines();
        let prefix = lines.next().filter(|line| *line == "true").map(|_| lines.next().unwrap_or_default())?;
        let remotes = answer_lines(folder, &["config", "--get-regexp", r"^remote\..*\.url$"]);
        Some(Self { remote: chosen(&remotes), folder: prefix.trim_end_matches('/').to_owned() })
    }

    /// `owner/repository`, with the folder behind it; `None` where the remote has no such address.
    pub(super) fn id(&self) -> Option<String> {
        let name = plain(&self.remote)?;
        Some(if self.folder.is_empty() { name } else { format!("{name}/{}", self.folder) })
    }
}

/// The address of `origin`, else of the first remote by name. A line is `remote.NAME.url ADDRESS`.
fn chosen(lines: &[String]) -> String {
    let remotes: BTreeMap<&str, &str> = lines.iter().filter_map(|line| line.split_once(' ')).collect();
    let origin = remotes.get("remote.origin.url").or_else(|| remotes.values().next());
    origin.copied().unwrap_or_default().to_owned()
}

/// Owner and repository of an address with a server and these two alone, without whatever else it has, such as a password.
pub(super) fn plain(address: &str) -> Option<String> {
    let path = match address.split_once("://") {
        Some(("file", _)) => return None,
        Some((_, rest)) => rest.split_once('/')?.1,
        // `git@server:owner/repository`; a path of the machine has a slash before any colon.
        None => address.split_once(':').filter(|(server, _)| !server.contains('/') && server.len() > 1)?.1,
    };
    let path = path.trim_matches('/');
    let (owner, name) = path.split_once('/')?;
    let name = name.strip_suffix(".git").unwrap_or(name);
    let is_plain = |part: &str| {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        !part.is_empty() && !part.starts_with('.') && part.bytes().all(allowed)
    };
    (is_plain(owner) && is_plain(name)).then(|| format!("{owner}/{name}"))
}

/// The regular files that git tracks, or would add; `None` where it does not say.
pub(super) fn files(folder: &Path) -> Option<Found> {
    let listing =
        answer(folder, &["ls-files", "-z", "--cached", "--others", "--exclude-standard"], MAX_LISTING)?;
    Some(listed(folder, &listing))
}

/// The files of a listing that are there, and that no link leads to.
pub(super) fn listed(folder: &Path, listing: &[u8]) -> Found {
    let mut found = Found::default();
    let mut folders: BTreeMap<String, bool> = BTreeMap::new();
    for name in listing.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let Ok(path) = std::str::from_utf8(name) else {
            found.add(None);
            continue;
        };
        let is_file = fs::symlink_metadata(folder.join(path)).is_ok_and(|metadata| metadata.is_file());
        if is_file && is_within(folder, path, &mut folders) {
            found.add(Some(path));
        }
        // More would only be counted.
        if found.paths.len() > 2 * MAX_PATHS {
            found.left_out.beyond += 1;
            break;
        }
    }
    found
}

/// Returns whether all folders of a path are folders, and no links to some.
fn is_within(folder: &Path, path: &str, known: &mut BTreeMap<String, bool>) -> bool {
    let ends = path.match_indices('/').map(|(end, _)| end);
    ends.filter_map(|end| path.get(..end)).all(|parent| match known.get(parent) {
        Some(is_folder) => *is_folder,
        None => {
            let metadata = fs::symlink_metadata(folder.join(parent));
            let is_folder = parent != ".." && metadata.is_ok_and(|metadata| metadata.is_dir());
            known.insert(parent.to_owned(), is_folder);
            is_folder
        }
    })
}

fn answer_lines(folder: &Path, arguments: &[&str]) -> Vec<String> {
    let answer = answer(folder, arguments, MAX_ANSWER).unwrap_or_default();
    String::from_utf8_lossy(&answer).lines().map(str::to_owned).collect()
}

/// What git answers about a folder; `None` where it fails or is not there. An answer of more than `most` bytes is cut off.
#[expect(clippy::disallowed_types, reason = "only git knows what it ignores")]
fn answer(folder: &Path, arguments: &[&str], most: u64) -> Option<Vec<u8>> {
    let mut git = Command::new("git");
    git.args([
        "-c",
        "core.fsmonitor=false",
        "-c",
        "core.hooksPath=/dev/null",
        "-c",
        "core.quotePath=false",
        "-C",
    ]);
    git.arg(folder).args(arguments);
    git.env("GIT_OPTIONAL_LOCKS", "0").env("LC_ALL", "C");
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_CEILING_DIRECTORIES", "GIT_PREFIX"] {
        git.env_remove(name);
    }
    let mut child = git.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
    let mut bytes = Vec::new();
    let read = child.stdout.take()?.take(most).read_to_end(&mut bytes);
    let is_cut = bytes.len() as u64 >= most;
    if is_cut || read.is_err() {
        // It may wait for a reader for ever.
        let _ = child.kill();
    }
    let status = child.wait().ok()?;
    read.ok()?;
    if is_cut {
        // The last name may not be whole.
        let end = bytes.iter().rposition(|byte| matches!(byte, 0 | b'\n')).unwrap_or_default();
        bytes.truncate(end);
    }
    (status.success() || is_cut).then_some(bytes)
}
