//! Where the browsers of scripts come from: a program of this machine that is started for each, or one browser that a person
//! runs, in which each script gets a browser context of its own.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use capataz_executor::chromium::{
    Endpoint, EndpointError, FindError, Found, Launch, NoBrowser, Running, ShimOptions, Source, discover,
    find, passed_environment,
};
use thiserror::Error;

use super::config::BrowserConfig;
use super::folders::Folders;

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
    Program(#[from] FindError),
    #[error(transparent)]
    Running(#[from] NoBrowser),
}

/// What the configuration says of it.
#[derive(Debug)]
pub(super) enum Origin {
    Program {
        program: Option<PathBuf>,
        /// The browser that was found last.
        found: Mutex<Option<Found>>,
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
            None => Ok(Self::Program { program: config.program.clone(), found: Mutex::default() }),
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

    /// Looks for the browser.
    pub(super) async fn look(&self) -> Result<Available, Unavailable> {
        match self {
            Self::Program { program, found: known } => {
                let path = environment("PATH");
                let found = find(program.as_deref(), path.as_deref()).await;
                *known.lock().unwrap_or_else(PoisonError::into_inner) = found.as_ref().ok().cloned();
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
