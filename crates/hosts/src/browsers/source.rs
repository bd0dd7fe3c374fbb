//! Where the browsers of scripts come from: a program of this machine that is started for each, or one browser that a person
//! runs, in which each script gets a browser context of its own.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use capataz_executor::chromium::{
    Endpoint, EndpointError, FindError, Found, Launch, NoBrowser, Running, ShimOptions, Source, discover,
    find, passed_environment,
};
use thiserror::Error;
use tokio::time::Instant;

use super::config::BrowserConfig;
use super::folders::Folders;

/// How long nobody looks again for a browser.
const LOOK_IS_GOOD: Duration = Duration::from_secs(5);

/// A browser that there is for scripts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Available {
    /// It is started for each script.
    Program(Found),
    /// A person runs it.
    Running(Running),
}

/// Why there is none, and what a person can do about that.
#[derive(Debug, Error)]
pub enum Unavailable {
    #[error(transparent)]
    Program(#[from] Arc<FindError>),
    #[error(transparent)]
    Running(#[from] NoBrowser),
}

/// When a browser was looked for, and what that has shown.
type Look = (Instant, Result<Found, Arc<FindError>>);

/// What the configuration says of it.
#[derive(Debug)]
pub(super) enum Origin {
    Program {
        program: Option<PathBuf>,
        /// The browser that was found last.
        found: Mutex<Option<Found>>,
        /// What the last look has shown, and when. Whoever looks has it.
        last: tokio::sync::Mutex<Option<Look>>,
    },
    Running(Endpoint),
}

impl Origin {
    pub(super) fn new(config: &BrowserConfig) -> Result<Self, EndpointError> {
        match config.endpoint().transpose()? {
            Some(endpoint) => {
                tracing::warn!(
                    %endpoint,
                    "scripts work in a browser that a person runs: the second layer of the allowlist is not there as a \
                     whole (docs/configuration.md)"
                );
                Ok(Self::Running(endpoint))
            }
            None => Ok(Self::Program {
                program: config.program.clone(),
                found: Mutex::default(),
                last: tokio::sync::Mutex::default(),
            }),
        }
    }

    /// The browser that was found last, as long as it is there: to ask one for its version takes a process.
    pub(super) async fn ready(&self) -> Result<Available, Unavailable> {
        if let Self::Program { found, .. } = self {
            let known = found.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(found) = known.filter(|found| found.program.is_file()) {
                return Ok(Available::Program(found));
            }
        }
        self.look().await
    }

    /// Looks for the browser. To ask one for its version takes a process: one looks at a time, for all who want to know then
    /// and shortly afterwards.
    pub(super) async fn look(&self) -> Result<Available, Unavailable> {
        match self {
            Self::Program { program, found: known, last } => {
                let mut last = last.lock().await;
                let is_good = |at: &Instant, found: &Result<Found, Arc<FindError>>| {
                    at.elapsed() < LOOK_IS_GOOD
                        && found.as_ref().map_or(true, |found| found.program.is_file())
                };
                if let Some((_, found)) = last.as_ref().filter(|(at, found)| is_good(at, found)) {
                    return Ok(Available::Program(found.clone()?));
                }
                let path = environment("PATH");
                let found = find(program.as_deref(), path.as_deref()).await.map_err(Arc::new);
                *known.lock().unwrap_or_else(PoisonError::into_inner) = found.as_ref().ok().cloned();
                *last = Some((Instant::now(), found.clone()));
                Ok(Available::Program(found?))
            }
            Self::Running(endpoint) => Ok(Available::Running(discover(*endpoint).await?)),
        }
    }
}

impl Available {
    /// How it is opened for one script.
    pub(super) fn source(self, folders: &Folders, shim: &ShimOptions, headed: bool) -> Source {
        match self {
            Self::Program(found) => Source::Launch(Launch {
                program: found.program,
                profile_folder: folders.new_profile(),
                shim: Some(shim.clone()),
                environment: passed_environment(!headed, environment),
                headed,
            }),
            Self::Running(running) => Source::Attach(running.endpoint),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a browser needs a few variables of the daemon's environment")]
fn environment(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tokio::process::Command;
    use tokio::task::JoinSet;

    use super::*;

    /// A program that writes a line for each time that it is started. Another process writes it: a file that this one had
    /// open could not be executed while a test on another thread starts a process.
    async fn program(folder: &Path, says: &str) -> PathBuf {
        let (program, starts) = (folder.join("chromium"), folder.join("starts"));
        let script = format!("#!/bin/sh\necho started >> {}\n{says}\n", starts.display());
        let mut writer = Command::new("sh");
        writer.args(["-c", r#"printf '%s' "$1" > "$0" && chmod 755 "$0""#]).arg(&program).arg(script);
        assert!(writer.status().await.unwrap().success());
        program
    }

    fn starts(folder: &Path) -> usize {
        std::fs::read_to_string(folder.join("starts")).unwrap_or_default().lines().count()
    }

    async fn is_old(origin: &Origin) {
        let Origin::Program { last, .. } = origin else { panic!("a program") };
        let mut last = last.lock().await;
        let (at, _) = last.as_mut().unwrap();
        *at = at.checked_sub(LOOK_IS_GOOD).unwrap();
    }

    async fn check(says: &str, is_found: bool) {
        let folder = tempfile::tempdir().unwrap();
        let program = program(folder.path(), says).await;
        let config = BrowserConfig { program: Some(program.clone()), ..BrowserConfig::default() };
        let origin = Arc::new(Origin::new(&config).unwrap());
        for looks in 1..3 {
            let mut asking = JoinSet::new();
            for number in 0..100 {
                let origin = Arc::clone(&origin);
                asking.spawn(async move {
                    if number % 2 == 0 { origin.look().await.is_ok() } else { origin.ready().await.is_ok() }
                });
            }
            assert_eq!(asking.join_all().await, [is_found; 100]);
            assert_eq!(starts(folder.path()), looks, "one look for all who ask");
            is_old(&origin).await;
        }
        origin.look().await.ok();
        assert_eq!(starts(folder.path()), 3);
        std::fs::remove_file(program).unwrap();
        assert!(origin.look().await.is_err());
        assert_eq!(starts(folder.path()), 3);
    }

    #[tokio::test]
    async fn a_hundred_who_look_for_a_browser_start_one_process() {
        check("echo Chromium 150.0.1.2", true).await;
    }

    #[tokio::test]
    async fn a_hundred_who_look_in_vain_start_one_process() {
        check("echo Chromium 99.0.1.2", false).await;
    }
}
