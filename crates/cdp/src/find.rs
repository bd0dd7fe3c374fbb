//! Finding a Chromium on this machine.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use thiserror::Error;
use tokio::io::AsyncReadExt;
use tokio::process::Command;

use crate::patience::within;

/// The oldest major version that is used. All that this crate and its callers need of the protocol is older, and so is
/// the headless mode that is the whole browser (112); this one leaves a margin to what is tested, which is newer by far.
pub const MINIMUM_MAJOR: u32 = 120;

/// How a person gets a Chromium.
pub const INSTALL_HELP: &str = "\
Debian:         apt install chromium
Ubuntu:         install google-chrome-stable from https://www.google.com/chrome (the package there is a snap,
                which cannot use folders outside of its own)
Fedora:         dnf install chromium
macOS:          brew install --cask google-chrome";

/// Names that are looked for in the folders of `PATH`, in this order.
const NAMES: [&str; 6] = [
    "chromium",
    "chromium-browser",
    "google-chrome-stable",
    "google-chrome",
    "chrome-headless-shell",
    "headless-shell",
];

/// Where packages put a Chromium, for a `PATH` that does not lead there.
const WELL_KNOWN: [&str; 9] = [
    "/usr/bin/chromium",
    "/usr/bin/chromium-browser",
    "/usr/bin/google-chrome-stable",
    "/usr/lib/chromium/chromium",
    "/usr/lib64/chromium-browser/chromium-browser",
    "/opt/google/chrome/chrome",
    "/headless-shell/headless-shell",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
];

/// Longest wait for a program to say its version: the wrappers of some packages are shell scripts on slow disks.
const VERSION_LIMIT: Duration = Duration::from_secs(20);

/// Most bytes that are read of what it says.
const VERSION_BYTES: u64 = 64 * 1024;

/// A Chromium that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub program: PathBuf,
    /// Such as `148.0.7778.167`.
    pub version: String,
    pub major: u32,
}

/// The error that no usable Chromium was found. Its text names every program that was considered, and how to get one.
#[derive(Debug, Error)]
pub struct FindError {
    /// The programs in the order in which they were considered. Programs that do not exist are left out unless they were
    /// named by path.
    pub rejected: Vec<Rejected>,
}

impl fmt::Display for FindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "no Chromium of version {MINIMUM_MAJOR} or newer was found")?;
        for Rejected { program, problem } in &self.rejected {
            writeln!(f, "  {}: {problem}", program.display())?;
        }
        f.write_str(INSTALL_HELP)
    }
}

/// A program that is not used.
#[derive(Debug)]
pub struct Rejected {
    pub program: PathBuf,
    pub problem: Problem,
}

/// Why a program is not used.
#[derive(Debug, Error)]
pub enum Problem {
    #[error("does not exist")]
    Missing,
    #[error("cannot be executed: {0}")]
    NotStarted(io::Error),
    #[error("did not say its version within {} s", VERSION_LIMIT.as_secs())]
    Silent,
    /// The program said something else; this is its first line.
    #[error("did not say which version it is: {0:?}")]
    NoVersion(String),
    #[error("is too old: {0}")]
    TooOld(String),
}

/// Looks for a Chromium: at `explicit` and nowhere else where it is given, otherwise along `path` (the value of the
/// variable `PATH`) and at well-known places. Each candidate is asked for its version, with `path` as its only variable.
///
/// # Errors
/// No candidate can be used.
pub async fn chromium(explicit: Option<&Path>, path: Option<&OsStr>) -> Result<Found, FindError> {
    if let Some(program) = explicit {
        return examine(program, path).await.map_err(|problem| FindError {
            rejected: vec![Rejected { program: program.to_owned(), problem }],
        });
    }
    let folders: Vec<PathBuf> = path.map(|path| std::env::split_paths(path).collect()).unwrap_or_default();
    let along_path = NAMES.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    let mut seen = BTreeSet::new();
    let candidates: Vec<PathBuf> = along_path
        .chain(WELL_KNOWN.map(PathBuf::from))
        .filter(|program| program.is_absolute() && seen.insert(program.clone()))
        .collect();
    let mut rejected = Vec::new();
    for program in candidates {
        match examine(&program, path).await {
            Ok(found) => return Ok(found),
            Err(Problem::Missing) => {}
            Err(problem) => rejected.push(Rejected { program, problem }),
        }
    }
    Err(FindError { rejected })
}

async fn examine(program: &Path, path: Option<&OsStr>) -> Result<Found, Problem> {
    match tokio::fs::metadata(program).await {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(Problem::Missing),
        Err(error) => return Err(Problem::NotStarted(error)),
    }
    let said = match within(VERSION_LIMIT, ask(program, path)).await {
        Some(said) => said.map_err(Problem::NotStarted)?,
        None => return Err(Problem::Silent),
    };
    let (version, major) =
        version_in(&said).ok_or_else(|| Problem::NoVersion(said.lines().next().unwrap_or("").to_owned()))?;
    if major < MINIMUM_MAJOR {
        return Err(Problem::TooOld(version.to_owned()));
    }
    Ok(Found { program: program.to_owned(), version: version.to_owned(), major })
}

/// What the program writes to its stdout. Warnings of wrappers go to stderr and do not matter.
async fn ask(program: &Path, path: Option<&OsStr>) -> io::Result<String> {
    let mut command = Command::new(program);
    command.arg("--version").env_clear().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.envs(path.map(|path| ("PATH", path))).kill_on_drop(true);
    let mut child = command.spawn()?;
    let mut said = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        stdout.take(VERSION_BYTES).read_to_end(&mut said).await?;
    }
    Ok(String::from_utf8_lossy(&said).into_owned())
}

/// The first word of four numbers with dots between them, and the first of the numbers. A name may hold other numbers.
pub(crate) fn version_in(said: &str) -> Option<(&str, u32)> {
    said.split_whitespace().find_map(|word| {
        let numbers: Option<Vec<u32>> = word.split('.').map(|number| number.parse().ok()).collect();
        match numbers?.as_slice() {
            [major, _, _, _] => Some((word, *major)),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(said: &str, expected: Option<(&str, u32)>) {
        assert_eq!(version_in(said), expected);
    }

    #[test]
    fn versions_are_found_in_what_programs_say() {
        check(
            "Chromium 148.0.7778.167 built on Debian GNU/Linux 12 (bookworm)\n",
            Some(("148.0.7778.167", 148)),
        );
        check("Google Chrome 131.0.6778.85 \n", Some(("131.0.6778.85", 131)));
        check("Google Chrome for Testing 131.0.6778.85", Some(("131.0.6778.85", 131)));
        check("warning: 1.2 is not 3\nChromium 9.8.7.6", Some(("9.8.7.6", 9)));
        check("Chromium 148.0.x.1", None);
        check("Chromium", None);
        check("", None);
    }

    /// A folder with a program of this name that runs this script. Another process writes it: a file that this one had
    /// open could not be executed while a test on another thread starts a process.
    async fn folder_with(name: &str, script: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join(name);
        let mut writer = Command::new("sh");
        writer
            .args(["-c", r#"printf '#!/bin/sh\n%s\n' "$1" > "$0" && chmod 755 "$0""#])
            .arg(program)
            .arg(script);
        assert!(writer.status().await.unwrap().success());
        folder
    }

    #[tokio::test]
    async fn the_first_usable_program_of_the_path_is_taken() {
        let old = folder_with("chromium", "echo Chromium 99.0.1.2").await;
        let good = folder_with("google-chrome", "echo noise 1>&2; echo Google Chrome 130.1.2.3").await;
        let path = std::env::join_paths([old.path(), Path::new("relative"), good.path()]).unwrap();
        let found = chromium(None, Some(&path)).await.unwrap();
        // A Chromium of this machine has a name that comes first; it does not stand in these folders.
        let expected =
            Found { program: good.path().join("google-chrome"), version: "130.1.2.3".to_owned(), major: 130 };
        assert_eq!(found, expected);
    }

    #[tokio::test]
    async fn an_explicit_path_is_the_only_one() {
        let old = folder_with("chromium", "echo Chromium 99.0.1.2").await;
        let program = old.path().join("chromium");
        let error = chromium(Some(&program), None).await.unwrap_err();
        assert!(matches!(&error.rejected[..], [Rejected { problem: Problem::TooOld(_), .. }]), "{error}");
        let text = error.to_string();
        assert!(text.contains("is too old: 99.0.1.2") && text.contains("apt install chromium"), "{text}");

        let error = chromium(Some(Path::new("/no/such/chromium")), None).await.unwrap_err();
        assert!(error.to_string().contains("/no/such/chromium: does not exist"), "{error}");

        let silent = folder_with("chromium", "exit 1").await;
        let error = chromium(Some(&silent.path().join("chromium")), None).await.unwrap_err();
        assert!(matches!(&error.rejected[..], [Rejected { problem: Problem::NoVersion(_), .. }]), "{error}");
        let error = chromium(Some(silent.path()), None).await.unwrap_err();
        assert!(matches!(&error.rejected[..], [Rejected { problem: Problem::NotStarted(_), .. }]), "{error}");
    }
}
