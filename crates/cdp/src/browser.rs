//! One browser, from its first answer to the end of everything that it started.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use serde::Deserialize;
use tokio::net::unix::pipe;
use tokio::sync::watch;

use crate::connection::{Connection, Done};
use crate::error::{CallError, LaunchError};
use crate::options::LaunchOptions;
use crate::patience::within;
use crate::process::{Ended, Outcome, Process};
use crate::profile::ProfileFolder;
use crate::stderr::StderrTail;

/// Bytes that a pipe takes before the other side has to be woken. The system's default of 64 KiB makes large answers slow.
const PIPE_BYTES: usize = 1024 * 1024;

/// How often a browser is started that crashes before its first answer.
const STARTS: usize = 3;

/// What the browser says about itself.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Version {
    /// Such as `Chrome/148.0.7778.167`.
    pub product: String,
    #[serde(rename = "protocolVersion")]
    pub protocol: String,
    #[serde(rename = "userAgent")]
    pub user_agent: String,
}

/// A running browser. Dropping it kills the browser with everything that it started; [`Browser::close`] is the polite way
/// and says when it is over.
#[derive(Debug)]
pub struct Browser {
    connection: Connection,
    version: Version,
    /// Dropping this kills, too.
    kill: watch::Sender<bool>,
    ended: watch::Receiver<Option<Outcome>>,
}

impl Browser {
    /// Starts a browser and waits for its first answer. Must be called within a tokio runtime.
    ///
    /// A browser that crashes before its first answer is started anew: Chromium crashes so now and then, and no command
    /// was sent to it yet.
    ///
    /// # Errors
    /// [`LaunchError`]; what was started is killed, and the profile folder is removed.
    pub async fn launch(options: LaunchOptions) -> Result<Self, LaunchError> {
        for _ in 1..STARTS {
            match Self::start(&options).await {
                Err(LaunchError::Ended(ended)) if ended.is_crash() => {
                    tracing::warn!(%ended, "the browser crashed at its start, and is started anew");
                }
                launched => return launched,
            }
        }
        Self::start(&options).await
    }

    async fn start(options: &LaunchOptions) -> Result<Self, LaunchError> {
        let (browser_input, ours_to_write) = new_pipe()?;
        let (ours_to_read, browser_output) = new_pipe()?;
        let reader = pipe::Receiver::from_owned_fd(ours_to_read).map_err(pipes)?;
        let writer = pipe::Sender::from_owned_fd(ours_to_write).map_err(pipes)?;
        let profile = ProfileFolder::make(options)?;
        let stderr = StderrTail::default();
        let not_started = |source| LaunchError::NotStarted { program: options.program.clone(), source };
        let process = Process::start(options, profile, browser_input, browser_output, stderr.clone())
            .map_err(not_started)?;
        let (kill, killed) = watch::channel(false);
        let (ended_sender, ended) = watch::channel(None);
        tokio::spawn(async move {
            let outcome = process.supervise(killed).await;
            ended_sender.send_replace(Some(outcome));
        });
        let connection = Connection::new(reader, writer);
        let first_calls = first_calls(&connection, options.download_folder.as_ref());
        match within(options.answer_limit, first_calls).await {
            Some(Ok(version)) => Ok(Self { connection, version, kill, ended }),
            Some(Err(CallError::Lost { .. })) => {
                kill.send_replace(true);
                let outcome = await_end(ended).await;
                Err(match outcome.not_started {
                    Some(errno) => not_started(io::Error::from_raw_os_error(errno)),
                    None => LaunchError::Ended(outcome.ended),
                })
            }
            Some(Err(error)) => Err(LaunchError::Call(error)),
            None => Err(LaunchError::NoAnswer { limit: options.answer_limit, stderr: stderr.text() }),
        }
    }

    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    pub fn version(&self) -> &Version {
        &self.version
    }

    /// Waits until the browser and everything that it started has ended and the profile is removed. May be called any
    /// number of times.
    pub async fn ended(&self) -> Ended {
        await_end(self.ended.clone()).await.ended
    }

    /// Asks the browser to end; kills it after `limit`. Returns when it is over. Slower than [`Browser::kill`], and of
    /// use only where pages are to notice the end: the profile is removed in either case.
    pub async fn close(self, limit: Duration) -> Ended {
        let politely = async {
            // The browser may be gone before it answers.
            let _ = self.connection.browser().call::<Done>("Browser.close", ()).await;
            self.ended().await
        };
        match within(limit, politely).await {
            Some(ended) => ended,
            None => self.kill().await,
        }
    }

    /// Kills the browser with everything that it started. Returns when it is over.
    pub async fn kill(self) -> Ended {
        self.kill.send_replace(true);
        self.ended().await
    }
}

async fn first_calls(connection: &Connection, downloads: Option<&PathBuf>) -> Result<Version, CallError> {
    let browser = connection.browser();
    let version = browser.call("Browser.getVersion", ()).await?;
    browser.call::<Done>("Browser.setDownloadBehavior", download_behavior(downloads)).await?;
    Ok(version)
}

/// Where downloads are written, for the default browser context.
pub(crate) fn download_behavior(folder: Option<&PathBuf>) -> serde_json::Value {
    match folder {
        Some(folder) => serde_json::json!({
            "behavior": "allowAndName", "downloadPath": folder, "eventsEnabled": true,
        }),
        None => serde_json::json!({ "behavior": "deny", "eventsEnabled": true }),
    }
}

async fn await_end(mut ended: watch::Receiver<Option<Outcome>>) -> Outcome {
    let outcome = match ended.wait_for(Option::is_some).await {
        Ok(outcome) => outcome.clone(),
        // The task that watches the process was torn down with its runtime.
        Err(_) => None,
    };
    outcome.unwrap_or_else(|| Outcome { ended: Ended { status: None, stderr: "".into() }, not_started: None })
}

/// The end to read from and the end to write to.
fn new_pipe() -> Result<(OwnedFd, OwnedFd), LaunchError> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC).map_err(|errno| pipes(errno.into()))?;
    // A user may have used up the system's share of larger pipes; the default works, too.
    let _ = fcntl_setpipe_size(&write, PIPE_BYTES);
    Ok((read, write))
}

fn pipes(source: io::Error) -> LaunchError {
    LaunchError::Pipes { source }
}
