//! `cargo xtask setup`: the Chromium that browser tests start. It is looked for, installed where it is missing, and
//! brought to the version that the distribution gives today where it came from there.

pub mod package;

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Outcome;

/// Names it whatever the path says. The tests read it as well.
pub const VARIABLE: &str = "CAPATAZ_CHROMIUM";

/// In the order in which they are looked for along `PATH`.
const NAMES: &[&str] = &["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// A browser that says which version it is.
#[derive(Debug, PartialEq, Eq)]
pub struct Chromium {
    pub program: PathBuf,
    /// What it says, such as `Chromium 148.0.7778.167`.
    pub version: String,
}

/// Which browser a task needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The one that is there, if any.
    Present,
    /// Any version; a missing browser is installed.
    Any,
    /// The version that the distribution gives today, unless the browser came from elsewhere.
    Todays,
}

impl Wanted {
    /// What `cargo xtask test` needs: on a machine of CI an old package must not hide what users get today.
    pub fn by(install: bool, is_ci: bool) -> Self {
        match (install, is_ci) {
            (_, true) => Self::Todays,
            (true, false) => Self::Any,
            (false, false) => Self::Present,
        }
    }
}

/// Where the browser that was found came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Missing,
    /// The distribution's package.
    Package,
    /// Named by [`VARIABLE`], or installed in another way: such a browser is not ours to change.
    Elsewhere,
}

/// What is done before the tests can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Nothing: the browser that is there is used, or the tests do without one.
    Keep,
    /// The package is installed.
    Install,
    /// The distribution is asked for a newer package.
    Refresh,
}

fn step(wanted: Wanted, origin: Origin) -> Step {
    match (wanted, origin) {
        (Wanted::Any | Wanted::Todays, Origin::Missing) => Step::Install,
        (Wanted::Todays, Origin::Package) => Step::Refresh,
        (Wanted::Present, _) | (Wanted::Any | Wanted::Todays, Origin::Package | Origin::Elsewhere) => {
            Step::Keep
        }
    }
}

/// `cargo xtask setup`.
pub fn setup() -> Outcome {
    provide(Wanted::Todays)?;
    Ok(())
}

/// The browser that the tests will use, after what [`Wanted`] asks for is done; says what was done.
///
/// # Errors
/// A package cannot be installed, or [`VARIABLE`] names a program that is not a browser. Where the distribution cannot be
/// asked for a newer package, the browser that is there is used as it is.
pub fn provide(wanted: Wanted) -> Result<Option<Chromium>, String> {
    let found = find()?;
    let found = match step(wanted, origin(found.as_ref())) {
        Step::Keep => found,
        Step::Install => {
            package::install()?;
            Some(find()?.ok_or_else(not_on_the_path)?)
        }
        Step::Refresh => {
            package::refresh()?;
            find()?
        }
    };
    match &found {
        Some(found) => println!("chromium: {}, {}", found.program.display(), found.version),
        None => println!("chromium: there is none; what needs it is left out and listed at the end"),
    }
    Ok(found)
}

fn origin(found: Option<&Chromium>) -> Origin {
    let Some(found) = found else { return Origin::Missing };
    let is_named = env::var_os(VARIABLE).is_some_and(|named| !named.is_empty());
    if !is_named && package::owns(&found.program) { Origin::Package } else { Origin::Elsewhere }
}

fn not_on_the_path() -> String {
    format!(
        "the packages {} are installed, and there is still no Chromium on the path\n       ({});\n       {}",
        package::PACKAGES.join(" "),
        env::var_os("PATH").unwrap_or_default().display(),
        package::BY_HAND
    )
}

/// The browser that the tests will use, if there is one.
///
/// # Errors
/// [`VARIABLE`] names a program that is not a browser: that is a mistake, and not a reason to skip anything.
fn find() -> Result<Option<Chromium>, String> {
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

/// True if the line has four numbers with dots between them.
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

/// True if nobody watches this machine, by the value of `CI`.
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
    fn ci_takes_todays_package_and_changes_no_other_browser() {
        let check = |install, is_ci, origin, expected: Step| {
            assert_eq!(step(Wanted::by(install, is_ci), origin), expected, "{install} {is_ci} {origin:?}");
        };
        for install in [false, true] {
            check(install, true, Origin::Missing, Step::Install);
            check(install, true, Origin::Package, Step::Refresh);
            check(install, true, Origin::Elsewhere, Step::Keep);
        }
        for origin in [Origin::Missing, Origin::Package, Origin::Elsewhere] {
            check(false, false, origin, Step::Keep);
        }
        check(true, false, Origin::Missing, Step::Install);
        check(true, false, Origin::Package, Step::Keep);
        check(true, false, Origin::Elsewhere, Step::Keep);
    }

    #[test]
    fn ci_is_any_value_that_does_not_deny_it() {
        let check = |value: &str| is_ci(Some(value.into()));
        assert!(check("true") && check("1") && check("woodpecker"));
        assert!(!check("") && !check("0") && !check("False") && !is_ci(None));
    }
}
