//! The tests that need a Chromium: those of binaries with this word in their names. Without a browser, the skipped
//! tests are listed one by one.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

/// The word in the names of the binaries.
pub const WORD: &str = "chromium";

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// A test binary that was built.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TestBinary {
    pub package: String,
    pub name: String,
    pub program: PathBuf,
}

/// Builds all tests within the scope and lists those that need a Chromium, as `package::binary test`.
pub fn list(scope: &[&str]) -> Result<Vec<String>> {
    let mut command = crate::cargo::command();
    command.args(["test", "--no-run", "--tests", "--locked", "--message-format", "json-render-diagnostics"]);
    let built = command.args(scope).stderr(Stdio::inherit()).output()?;
    if !built.status.success() {
        return Err("the tests could not be built".into());
    }
    let mut tests = Vec::new();
    for binary in test_binaries(&String::from_utf8_lossy(&built.stdout)) {
        // The ignored ones do not run anyway.
        let ignored: BTreeSet<String> = ask(&binary, &["--ignored"])?.into_iter().collect();
        let names = ask(&binary, &[])?.into_iter().filter(|name| !ignored.contains(name));
        tests.extend(names.map(|name| format!("{}::{} {name}", binary.package, binary.name)));
    }
    Ok(tests)
}

/// Finds the test binaries in cargo's messages, one JSON object a line.
fn test_binaries(messages: &str) -> Vec<TestBinary> {
    let of_message = |line: &str| {
        let message: Value = serde_json::from_str(line).ok()?;
        let name = message["target"]["name"].as_str()?;
        let is_test = message["profile"]["test"].as_bool()?;
        (is_test && name.contains(WORD)).then_some(())?;
        Some(TestBinary {
            package: package_name(message["package_id"].as_str()?).to_owned(),
            name: name.to_owned(),
            program: message["executable"].as_str()?.into(),
        })
    };
    let found: BTreeSet<TestBinary> = messages.lines().filter_map(of_message).collect();
    found.into_iter().collect()
}

/// The name in `path+file:///…/folder#name@version`, or in `…/name#version` if the folder has the package's name.
fn package_name(id: &str) -> &str {
    let (place, fragment) = id.rsplit_once('#').unwrap_or(("", id));
    match fragment.split_once('@') {
        Some((name, _)) => name,
        None => place.rsplit('/').next().unwrap_or(fragment),
    }
}

fn ask(binary: &TestBinary, filter: &[&str]) -> Result<Vec<String>> {
    let mut command = Command::new(&binary.program);
    let output = command.args(["--list", "--format", "terse"]).args(filter).output()?;
    if !output.status.success() {
        return Err(format!("{} does not list its tests", binary.program.display()).into());
    }
    Ok(test_names(&String::from_utf8_lossy(&output.stdout)))
}

/// Reads the terse list of a test binary: lines `name: test`. Benchmarks are left out.
fn test_names(listing: &str) -> Vec<String> {
    listing.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_read_from_a_terse_list() {
        let listing = "tabs::a_popup_is_followed: test\nspeed: benchmark\na_crash_is_told: test\n\n2 tests, 1 benchmark\n";
        assert_eq!(test_names(listing), ["tabs::a_popup_is_followed", "a_crash_is_told"]);
        assert_eq!(test_names("0 tests, 0 benchmarks\n"), Vec::<String>::new());
    }

    #[test]
    fn the_binaries_meant_are_tests_with_the_word_in_their_names() {
        let message = |package: &str, name: &str, test: bool, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","package_id":"{package}","target":{{"kind":["test"],"name":"{name}"}},"profile":{{"test":{test}}},"executable":{executable}}}"#
            )
        };
        let cdp = "path+file:///project/crates/cdp#capataz-cdp@0.1.0";
        let lines = [
            message(cdp, "chromium", true, "\"/t/chromium-1\""),
            message(cdp, "capataz_cdp", true, "\"/t/capataz_cdp-1\""),
            message("path+file:///project/crates/site#0.1.0", "pages_in_chromium", true, "\"/t/pages-1\""),
            message(cdp, "chromium_host", false, "\"/t/chromium_host\""),
            message(cdp, "chromium", true, "null"),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
            "warning: not JSON".to_owned(),
        ];
        let found = test_binaries(&lines.join("\n"));
        let names: Vec<_> = found.iter().map(|one| (one.package.as_str(), one.name.as_str())).collect();
        assert_eq!(names, [("capataz-cdp", "chromium"), ("site", "pages_in_chromium")]);
        assert_eq!(found.first().map(|one| one.program.clone()), Some("/t/chromium-1".into()));
    }
}
