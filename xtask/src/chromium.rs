//! `cargo xtask setup`: the Chromium that browser tests start. It is looked for, and installed where it is missing.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Outcome;

/// Names it whatever the path says. The tests read it as well.
pub const VARIABLE: &str = "CAPATAZ_CHROMIUM";

/// In the order in which they are looked for along `PATH`.
const NAMES: &[&str] = &["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// The second one is what keeps a browser of somebody who is not root apart, where the kernel allows nothing better.
const PACKAGES: &[&str] = &["chromium", "chromium-sandbox"];

const BY_HAND: &str = "\
install a Chromium or Chrome of version 120 or newer, so that one of chromium, chromium-browser, google-chrome or
       google-chrome-stable is on the path, or name its program by CAPATAZ_CHROMIUM. As root on Debian:
           apt-get update && apt-get install -y --no-install-recommends chromium
       Ubuntu's package is a snap, which cannot use folders outside of its own: take google-chrome-stable there";

/// A browser that says which version it is.
#[derive(Debug, PartialEq, Eq)]
pub struct Chromium {
    pub program: PathBuf,
    /// What it says, such as `Chromium 148.0.7778.167`.
    pub version: String,
}

/// `cargo xtask setup`.
pub fn setup() -> Outcome {
    match find()? {
        Some(found) => println!("setup: {} is {}; nothing to do", found.program.display(), found.version),
        None => {
            let installed = install()?;
            println!("setup: installed {}, {}", installed.program.display(), installed.version);
        }
    }
    Ok(())
}

/// The browser that the tests will use, if there is one.
///
/// # Errors
/// One is named by [`VARIABLE`], and is none: that is a mistake, and no reason to skip anything.
pub fn find() -> Result<Option<Chromium>, String> {
    find_in(env::var_os(VARIABLE).as_deref(), env::var_os("PATH").as_deref())
}

fn find_in(named: Option<&OsStr>, path: Option<&OsStr>) -> Result<Option<Chromium>, String> {
    if let Some(named) = named.filter(|named| !named.is_empty()) {
        let program = Path::new(named);
        let found = examine(program).ok_or_else(|| {
            format!("{VARIABLE} names {}, which does not say a version when it is asked", program.display())
        })?;
        return Ok(Some(found));
    }
    let folders: Vec<PathBuf> = path.map(|path| env::split_paths(path).collect()).unwrap_or_default();
    let candidates = NAMES.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    Ok(candidates.filter(|program| program.is_file()).find_map(|program| examine(&program)))
}

/// Some packages leave a program behind that only tells how to get the browser. A browser says its version.
fn examine(program: &Path) -> Option<Chromium> {
    let mut command = Command::new(program);
    let output = command.arg("--version").stdin(Stdio::null()).output().ok()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let line = said.lines().find(|line| says_version(line))?.trim();
    output.status.success().then(|| Chromium { program: program.to_owned(), version: line.to_owned() })
}

/// Whether there are four numbers with dots between them.
fn says_version(line: &str) -> bool {
    line.split_whitespace().any(|word| {
        let mut numbers = 0;
        let all = word.split('.').all(|number| {
            numbers += 1;
            number.parse::<u32>().is_ok()
        });
        all && numbers == 4
    })
}

/// Installs the packages and looks again.
///
/// # Errors
/// Whatever came in between, with what to do by hand.
pub fn install() -> Result<Chromium, String> {
    install_packages().map_err(|problem| format!("no Chromium: {problem};\n       {BY_HAND}"))?;
    let path = env::var_os("PATH");
    find()?.ok_or_else(|| {
        let path = path.unwrap_or_default();
        format!(
            "the packages {} are installed, and there is still no Chromium on the path\n       ({});\n       {BY_HAND}",
            PACKAGES.join(" "),
            path.display()
        )
    })
}

fn install_packages() -> Result<(), String> {
    if !answers("apt-get", &["--version"]) {
        return Err("there is no apt-get here to install one with".into());
    }
    let prefix = elevation()?;
    let mut install = vec!["apt-get", "install", "--yes", "--no-install-recommends"];
    install.extend(PACKAGES);
    for arguments in [vec!["apt-get", "update"], install] {
        let words: Vec<&str> = prefix.iter().copied().chain(arguments).collect();
        println!("setup: {}", words.join(" "));
        run(&words)?;
    }
    Ok(())
}

/// What commands that change the system have before them: nothing for root, else a `sudo` that asks nobody.
fn elevation() -> Result<Vec<&'static str>, String> {
    const QUIET: &str = "DEBIAN_FRONTEND=noninteractive";
    let id = Command::new("id").arg("-u").output().map_err(|error| format!("`id -u`: {error}"))?;
    if String::from_utf8_lossy(&id.stdout).trim() == "0" {
        return Ok(vec!["env", QUIET]);
    }
    if answers("sudo", &["-n", "true"]) {
        return Ok(vec!["sudo", "-n", "env", QUIET]);
    }
    Err("packages need root, and `sudo -n` is refused".into())
}

fn answers(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Runs the command; its output is the terminal's.
fn run(words: &[&str]) -> Result<(), String> {
    let Some((program, arguments)) = words.split_first() else { return Ok(()) };
    let status = Command::new(program).args(arguments).stdin(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{}` failed ({status})", words.join(" "))),
        Err(error) => Err(format!("`{}`: {error}", words.join(" "))),
    }
}

/// Whether this is a machine where nobody looks on, by the value of `CI`.
pub fn is_ci(value: Option<OsString>) -> bool {
    value.is_some_and(|value| !["", "0", "false"].iter().any(|no| value.eq_ignore_ascii_case(no)))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use tempfile::TempDir;

    use super::*;

    fn folder_with(name: &str, script: &str) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join(name);
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        folder
    }

    #[test]
    fn a_browser_is_a_program_on_the_path_that_says_its_version() {
        let snap = folder_with("chromium", "echo this needs the snap >&2; exit 1");
        let chrome = folder_with("google-chrome-stable", "echo warning; echo 'Google Chrome 131.0.6778.85 '");
        let path = env::join_paths([snap.path(), chrome.path()]).unwrap();
        let found = find_in(None, Some(&path)).unwrap().unwrap();
        assert_eq!(found.program, chrome.path().join("google-chrome-stable"));
        assert_eq!(found.version, "Google Chrome 131.0.6778.85");
    }

    #[test]
    fn an_empty_path_has_none_and_that_is_no_error() {
        assert_eq!(find_in(None, Some(OsStr::new(""))), Ok(None));
        assert_eq!(find_in(None, None), Ok(None));
    }

    #[test]
    fn a_named_program_is_used_or_refused_whatever_the_path_has() {
        let good = folder_with("chromium", "echo Chromium 148.0.7778.167");
        let named = good.path().join("missing");
        let error = find_in(Some(named.as_os_str()), Some(good.path().as_os_str())).unwrap_err();
        assert!(error.contains("CAPATAZ_CHROMIUM"), "{error}");
        let named = good.path().join("chromium");
        assert_eq!(find_in(Some(named.as_os_str()), None).unwrap().unwrap().program, named);
    }

    #[test]
    fn ci_is_any_value_that_does_not_deny_it() {
        let check = |value: &str| is_ci(Some(value.into()));
        assert!(check("true") && check("1") && check("woodpecker"));
        assert!(!check("") && !check("0") && !check("False") && !is_ci(None));
    }
}
