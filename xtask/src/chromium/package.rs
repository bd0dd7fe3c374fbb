//! The packages of the distribution that bring a browser: how they are installed, and brought to today's version.

use std::path::Path;
use std::process::{Command, Stdio};

const BROWSER: &str = "chromium";

/// The second package is the sandbox for users other than root, where the kernel allows no better one.
pub(super) const PACKAGES: &[&str] = &[BROWSER, "chromium-sandbox"];

pub(super) const BY_HAND: &str = "\
install a Chromium or Chrome of version 120 or newer, so that one of chromium, chromium-browser, google-chrome or
       google-chrome-stable is on the path, or name its program by CAPATAZ_CHROMIUM. As root on Debian:
           apt-get update && apt-get install -y --no-install-recommends chromium
       Ubuntu's package is a snap, which cannot use folders outside of its own: take google-chrome-stable there";

/// The versions of a package that apt knows of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Versions {
    installed: Option<String>,
    /// What apt would install now.
    candidate: Option<String>,
}

/// What becomes of a package that is installed.
#[derive(Debug, PartialEq, Eq)]
enum Refreshed {
    /// The package stays, for this reason.
    Stays(String),
    /// The package is replaced by this version.
    Replaced(String),
}

/// `asked`: what apt said after its lists were updated, or why they were not: without them its candidate may be old.
fn refreshed(asked: Result<Versions, String>) -> Refreshed {
    match asked {
        Err(problem) => {
            Refreshed::Stays(format!("the distribution cannot be asked for a newer one: {problem}"))
        }
        Ok(Versions { candidate: None, .. }) => {
            Refreshed::Stays("the distribution has no such package any more".to_owned())
        }
        Ok(Versions { installed, candidate }) if installed == candidate => {
            Refreshed::Stays("the distribution has no newer one".to_owned())
        }
        Ok(Versions { candidate: Some(candidate), .. }) => Refreshed::Replaced(candidate),
    }
}

/// Whether the file belongs to the browser's package, as dpkg knows it. Folders of the path may be links to where packages write.
pub(super) fn owns(program: &Path) -> bool {
    let program = program.canonicalize().unwrap_or_else(|_| program.to_owned());
    let output = Command::new("dpkg-query").arg("--search").arg(program).stdin(Stdio::null()).output();
    output.is_ok_and(|output| {
        let owners = String::from_utf8_lossy(&output.stdout);
        output.status.success() && owners.lines().any(|line| line.split(':').next() == Some(BROWSER))
    })
}

/// Brings the package that is installed to the version that the distribution gives today, where that can be had.
///
/// # Errors
/// An installation that had begun failed: whether the browser still works is then unknown.
pub(super) fn refresh() -> Result<(), String> {
    let asked = update_lists().and_then(|()| versions(BROWSER));
    match refreshed(asked) {
        Refreshed::Stays(why) => println!("chromium: the package stays as it is; {why}"),
        Refreshed::Replaced(version) => {
            println!("chromium: the distribution now gives {version}");
            install_packages()?;
        }
    }
    Ok(())
}

/// Installs the packages.
///
/// # Errors
/// Whatever came in between, with what to do by hand.
pub(super) fn install() -> Result<(), String> {
    if let Err(problem) = update_lists() {
        println!("chromium: the lists of packages may be old; {problem}");
    }
    install_packages().map_err(|problem| format!("no Chromium: {problem};\n       {BY_HAND}"))
}

/// Installs a package that has nothing to do with browsers.
///
/// # Errors
/// There is no such package, no apt, or no right to use it.
pub fn install_other(package: &str) -> Result<(), String> {
    if let Err(problem) = update_lists() {
        println!("packages: the lists may be old; {problem}");
    }
    apt_get(&["install", "--yes", "--no-install-recommends", package])
}

/// Without the option apt ends well though a server could not be reached, and offers what it knew before.
fn update_lists() -> Result<(), String> {
    apt_get(&["--option", "APT::Update::Error-Mode=any", "update"])
}

fn install_packages() -> Result<(), String> {
    apt_get(&[&["install", "--yes", "--no-install-recommends"], PACKAGES].concat())
}

fn apt_get(arguments: &[&str]) -> Result<(), String> {
    if !answers("apt-get", &["--version"]) {
        return Err("there is no apt-get here".into());
    }
    let prefix = elevation()?;
    let words = [prefix.as_slice(), &["apt-get"], arguments].concat();
    println!("packages: {}", words.join(" "));
    run(&words)
}

fn versions(package: &str) -> Result<Versions, String> {
    let mut command = Command::new("apt-cache");
    let output = command.args(["policy", package]).env("LC_ALL", "C").stdin(Stdio::null()).output();
    match output {
        Ok(output) if output.status.success() => Ok(read_versions(&String::from_utf8_lossy(&output.stdout))),
        Ok(output) => Err(format!("`apt-cache policy {package}` failed ({})", output.status)),
        Err(error) => Err(format!("`apt-cache policy {package}`: {error}")),
    }
}

/// Reads what `apt-cache policy` prints for one package; for an unknown one that is nothing.
fn read_versions(policy: &str) -> Versions {
    let value = |key: &str| {
        let value = policy.lines().find_map(|line| line.trim().strip_prefix(key))?.trim();
        (value != "(none)").then(|| value.to_owned())
    };
    Versions { installed: value("Installed:"), candidate: value("Candidate:") }
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

/// Whether the program is there, and ends well with these arguments.
pub fn answers(program: &str, arguments: &[&str]) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_replaced_by_another_candidate_only_and_stays_where_nobody_can_be_asked() {
        let versions = |installed: &str, candidate: &str| {
            let version = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
            Versions { installed: version(installed), candidate: version(candidate) }
        };
        let stays = |asked| match refreshed(asked) {
            Refreshed::Stays(why) => why,
            Refreshed::Replaced(version) => panic!("replaced by {version}"),
        };
        let (old, new) = ("148.0.7778.167-1~deb12u1", "156.0.8078.79-1~deb12u1");
        assert_eq!(refreshed(Ok(versions(old, new))), Refreshed::Replaced(new.to_owned()));
        assert!(stays(Ok(versions(new, new))).contains("no newer one"));
        assert!(stays(Ok(versions(old, ""))).contains("no such package"));
        let why = stays(Err("there is no network".to_owned()));
        assert!(why.contains("cannot be asked") && why.contains("there is no network"), "{why}");
    }

    #[test]
    fn versions_are_read_from_what_apt_prints() {
        let printed = "chromium:\n  Installed: 148.0.7778.167-1~deb12u1\n  Candidate: 156.0.8078.79-1~deb12u1\n  \
                       Version table:\n     156.0.8078.79-1~deb12u1 500\n";
        let versions = read_versions(printed);
        assert_eq!(versions.installed.as_deref(), Some("148.0.7778.167-1~deb12u1"));
        assert_eq!(versions.candidate.as_deref(), Some("156.0.8078.79-1~deb12u1"));
        let none = read_versions("chromium:\n  Installed: (none)\n  Candidate: (none)\n");
        assert_eq!(none, Versions::default());
        assert_eq!(read_versions(""), Versions::default());
    }

    #[test]
    fn a_program_that_no_package_brought_is_not_the_packages() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join(BROWSER);
        std::fs::write(&program, "").unwrap();
        assert!(!owns(&program));
    }
}
