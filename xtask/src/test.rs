//! `cargo xtask test`: all checks that must pass before a change lands.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use serde_json::Value;

use crate::browser_tests::{self, WORD};
use crate::chromium::Wanted;
use crate::{Outcome, chromium, codegen, docs, layers};

/// Browser tests that run at once, for each processor: half of their time they wait for a page, or for what must not come.
const BROWSERS: usize = 2;
/// So many at most: each browser is half a dozen processes.
const MOST_BROWSERS: usize = 16;

/// Everything is built as tests are, so that nothing is built twice.
const AS_TESTED: &str = "--profile=test";

/// Runs the checks. `install` installs a missing Chromium; `packages` limits building and testing to these packages, an
/// empty list means all.
pub fn run(install: bool, packages: &[String]) -> Outcome {
    let began = Instant::now();
    let mut steps: Vec<(&str, f64)> = Vec::new();
    let mut timed = |name: &'static str, step: &mut dyn FnMut() -> Outcome| -> Outcome {
        println!("\n== {name}");
        let start = Instant::now();
        step().map_err(|error| format!("{name}: {error}"))?;
        steps.push((name, start.elapsed().as_secs_f64()));
        Ok(())
    };
    let scope: Vec<&str> = match packages {
        [] => vec!["--workspace"],
        packages => packages.iter().flat_map(|name| ["--package", name]).collect(),
    };
    let cargo_in_scope = |before: &[&str], after: &[&str]| cargo(&[before, &scope, after].concat());

    timed("formatting", &mut || cargo(&["fmt", "--all", "--check"]))?;
    timed("codegen", &mut || codegen::run(true))?;
    timed("layers", &mut layers::run)?;
    timed("docs", &mut docs::run)?;
    // This check comes before those that take minutes, so that a machine that cannot have a browser fails early.
    let mut with_browser = false;
    timed("chromium", &mut || {
        let is_ci = chromium::is_ci(std::env::var_os("CI"));
        with_browser = chromium::provide(Wanted::by(install, is_ci))?.is_some();
        Ok(())
    })?;
    timed("clippy", &mut || {
        cargo_in_scope(&["clippy", AS_TESTED], &["--all-targets", "--locked", "--", "--deny", "warnings"])
    })?;
    // Some tests start these programs.
    timed("programs", &mut || cargo_in_scope(&["build", AS_TESTED], &["--bins", "--examples", "--locked"]))?;
    let (mut skipped, mut themselves) = (Vec::new(), Vec::new());
    timed("tests", &mut || {
        if !with_browser {
            skipped = browser_tests::list(&scope)?;
        }
        let list = fresh_list()?;
        tests(&scope, packages, with_browser, &list)?;
        themselves = fs::read_to_string(&list).unwrap_or_default().lines().map(str::to_owned).collect();
        Ok(())
    })?;
    timed("doctests", &mut || cargo_in_scope(&["test"], &["--doc", "--locked", "--quiet"]))?;

    println!("\n== passed in {:.0} s", began.elapsed().as_secs_f64());
    for (name, seconds) in steps {
        println!("   {seconds:6.1} s  {name}");
    }
    let without_browser = "there is no Chromium on this machine\n   \
         `cargo xtask setup` installs one, and `cargo xtask test` then runs them";
    print!("{}", about_skipped(&skipped, without_browser));
    print!("{}", about_skipped(&themselves, "this machine does not have or allow what they need"));
    Ok(())
}

/// The variable that names the file in which tests list themselves when they skip themselves.
const SKIPPED: &str = "CAPATAZ_SKIPPED";

/// That file, without the tests of an earlier run.
fn fresh_list() -> Result<PathBuf, Box<dyn std::error::Error>> {
    let list = std::path::absolute("target/skipped-tests")?;
    match fs::remove_file(&list) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(list),
    }
}

/// What the summary says about tests that did not run, and why they did not.
fn about_skipped(tests: &[String], why: &str) -> String {
    if tests.is_empty() {
        return String::new();
    }
    let lines: Vec<String> = tests.iter().map(|test| format!("   SKIPPED  {test}\n")).collect();
    let count = tests.len();
    let (noun, verb) = if count == 1 { ("test", "was") } else { ("tests", "were") };
    format!("\n== {count} {noun} {verb} skipped: {why}\n{}", lines.concat())
}

/// Runs the tests with nextest where it is installed: it is faster, runs each test in a process of its own, and ends a
/// test that hangs.
fn tests(scope: &[&str], packages: &[String], with_browser: bool, skipped: &Path) -> Outcome {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let browsers = format!("--test-threads={}", (processors * BROWSERS).min(MOST_BROWSERS));
    let nextest = crate::cargo::command().args(["nextest", "--version"]).output();
    if nextest.is_ok_and(|output| output.status.success()) {
        let run = |filter: &str, after: &[&str]| {
            let always =
                ["nextest", "run", "--locked", "--no-fail-fast", "--no-tests=pass", "--filterset", filter];
            cargo_with(&[&always[..], scope, after].concat(), skipped)
        };
        let without_browser = run(&format!("not binary(~{WORD})"), &[]);
        if !with_browser {
            return without_browser;
        }
        // One that has failed keeps no other test from being run.
        return without_browser.and(run(&format!("binary(~{WORD})"), &[&browsers]));
    }
    println!("cargo-nextest is not installed; running cargo test");
    let targets = Targets::read(packages)?;
    let run = |targets: Vec<&str>, after: &[&str]| -> Outcome {
        if targets.is_empty() {
            return Ok(());
        }
        cargo_with(&[&["test", "--locked", "--no-fail-fast"], scope, &targets, after].concat(), skipped)
    };
    let without_browser = run(targets.without_browser(), &[]);
    let of_browsers = if with_browser { run(targets.with_browser(), &["--", &browsers]) } else { Ok(()) };
    without_browser.and(of_browsers)
}

/// The targets for cargo's test command, which takes a list of inclusions and no exclusions.
#[derive(Default)]
struct Targets {
    has_library: bool,
    has_programs: bool,
    tests: Vec<String>,
}

impl Targets {
    fn read(packages: &[String]) -> Result<Self, Box<dyn std::error::Error>> {
        let arguments = ["metadata", "--no-deps", "--locked", "--format-version", "1"];
        let output = crate::cargo::command().args(arguments).output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
        }
        Ok(Self::of(&serde_json::from_slice(&output.stdout)?, packages))
    }

    fn of(metadata: &Value, packages: &[String]) -> Self {
        let mut targets = Self::default();
        let is_meant = |package: &&Value| {
            packages.is_empty() || packages.iter().any(|name| package["name"].as_str() == Some(name))
        };
        for package in metadata["packages"].as_array().into_iter().flatten().filter(is_meant) {
            for target in package["targets"].as_array().into_iter().flatten() {
                match target["kind"][0].as_str() {
                    Some("lib" | "rlib" | "proc-macro") => targets.has_library = true,
                    Some("bin") => targets.has_programs = true,
                    Some("test") => targets.tests.extend(target["name"].as_str().map(str::to_owned)),
                    _ => {}
                }
            }
        }
        targets.tests.sort();
        targets.tests.dedup();
        targets
    }

    fn without_browser(&self) -> Vec<&str> {
        let library = self.has_library.then_some("--lib");
        let programs = self.has_programs.then_some("--bins");
        library.into_iter().chain(programs).chain(self.tests(|name| !name.contains(WORD))).collect()
    }

    fn with_browser(&self) -> Vec<&str> {
        self.tests(|name| name.contains(WORD)).collect()
    }

    fn tests(&self, meant: impl Fn(&str) -> bool) -> impl Iterator<Item = &str> {
        self.tests.iter().filter(move |name| meant(name)).flat_map(|name| ["--test", name.as_str()])
    }
}

/// Runs cargo, with its output on the terminal.
pub fn cargo(arguments: &[&str]) -> Outcome {
    checked(crate::cargo::command().args(arguments), arguments)
}

/// The same for tests, which list themselves in this file where they skip themselves.
fn cargo_with(arguments: &[&str], skipped: &Path) -> Outcome {
    checked(crate::cargo::command().args(arguments).env(SKIPPED, skipped), arguments)
}

fn checked(command: &mut Command, arguments: &[&str]) -> Outcome {
    let status = command.status()?;
    if status.success() {
        return Ok(());
    }
    Err(format!("`cargo {}` failed", arguments.join(" ")).into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn metadata() -> Value {
        let target = |kind: &str, name: &str| json!({ "kind": [kind], "name": name });
        let library = [target("lib", "one"), target("test", "it"), target("test", "chromium_pages")];
        let program = [target("bin", "two"), target("test", "it"), target("custom-build", "build")];
        json!({ "packages": [{ "name": "one", "targets": library }, { "name": "two", "targets": program }] })
    }

    #[test]
    fn without_nextest_each_target_is_named_and_browsers_are_apart() {
        let all = Targets::of(&metadata(), &[]);
        assert_eq!(all.without_browser(), ["--lib", "--bins", "--test", "it"]);
        assert_eq!(all.with_browser(), ["--test", "chromium_pages"]);
        let two = Targets::of(&metadata(), &["two".to_owned()]);
        assert_eq!(two.without_browser(), ["--bins", "--test", "it"]);
        assert!(two.with_browser().is_empty());
    }

    #[test]
    fn the_summary_counts_and_names_what_was_skipped() {
        assert_eq!(about_skipped(&[], "there is no browser"), "");
        let said =
            about_skipped(&["capataz-cdp::chromium a_browser_starts".to_owned()], "there is no browser");
        assert!(said.contains("1 test was skipped: there is no browser\n"), "{said}");
        assert!(said.contains("SKIPPED  capataz-cdp::chromium a_browser_starts\n"), "{said}");
    }
}
