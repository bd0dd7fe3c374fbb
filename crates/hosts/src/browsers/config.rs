//! The table `[browser]` of the configuration.

use std::path::PathBuf;

use capataz_executor::chromium::{Endpoint, EndpointError};
use serde::Deserialize;

/// How browsers are opened.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BrowserConfig {
    /// The browser's program; where absent, it is looked for under its usual names.
    pub program: Option<PathBuf>,
    /// The DevTools port of a browser that a person runs, in which scripts work instead of in browsers of their own.
    pub attach: Option<String>,
    /// Browsers that may be open at a time; further scripts wait.
    pub max_open: u32,
    /// Folders, absolute, from which scripts may upload files. None: no script uploads anything.
    pub upload_folders: Vec<PathBuf>,
    /// Name of the secret under whose key storage states are encrypted.
    pub storage_key: Option<String>,
}

/// As many browsers as one machine of ordinary size bears.
const MAX_OPEN: u32 = 4;
/// Beyond that a browser for each run is the wrong design.
const MOST_OPEN: u32 = 256;

impl Default for BrowserConfig {
    fn default() -> Self {
        Self {
            program: None,
            attach: None,
            max_open: MAX_OPEN,
            upload_folders: Vec::new(),
            storage_key: None,
        }
    }
}

impl BrowserConfig {
    /// The browser that scripts work in, where a person runs it.
    pub fn endpoint(&self) -> Option<Result<Endpoint, EndpointError>> {
        self.attach.as_deref().map(str::parse)
    }

    /// Everything that is wrong with it, with the keys.
    #[must_use]
    pub fn check(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut wrong = |key: &str, problem: String| problems.push(format!("browser.{key}: {problem}"));
        if let Some(Err(problem)) = self.endpoint() {
            let attach = self.attach.as_deref().unwrap_or_default();
            wrong("attach", format!("{attach:?} cannot be attached to: {problem}"));
        }
        if self.attach.is_some() && self.program.is_some() {
            wrong("program", "with browser.attach, no browser is started".to_owned());
        }
        if !(1..=MOST_OPEN).contains(&self.max_open) {
            wrong("max_open", format!("from 1 to {MOST_OPEN}, not {}", self.max_open));
        }
        for (index, folder) in self.upload_folders.iter().enumerate() {
            if !folder.is_absolute() {
                wrong(&format!("upload_folders[{index}]"), format!("{} is not absolute", folder.display()));
            }
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(attach: &str, program: Option<&str>, expected: &[&str]) {
        let (attach, program) = (Some(attach.to_owned()), program.map(PathBuf::from));
        let problems = BrowserConfig { attach, program, ..BrowserConfig::default() }.check();
        assert_eq!(problems.len(), expected.len(), "{problems:?}");
        for (problem, expected) in problems.iter().zip(expected) {
            assert!(problem.starts_with(expected), "{problem}");
        }
    }

    #[test]
    fn a_browser_is_attached_to_on_this_machine_alone_and_none_is_started_beside_it() {
        check("http://127.0.0.1:9222", None, &[]);
        check("http://192.168.0.7:9222", None, &["browser.attach: \"http://192.168.0.7:9222\" cannot"]);
        check("9222", None, &["browser.attach: \"9222\" cannot"]);
        check("http://localhost:9222", Some("/usr/bin/chromium"), &["browser.program: with browser.attach"]);
    }
}
