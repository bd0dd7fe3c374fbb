//! One Chromium process, from its start to the end of everything that it started.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use command_fds::{CommandFdExt, FdMapping};
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use rustix::process::{Pid, Signal, geteuid, kill_process_group};
use serde::Deserialize;
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::connection::{Connection, Done};
use crate::error::{CallError, LaunchError};
use crate::options::LaunchOptions;
use crate::profile::ProfileFolder;
use crate::stderr::StderrTail;

/// The browser reads commands from the first of these and writes to the second.
const BROWSER_READS: i32 = 3;
const BROWSER_WRITES: i32 = 4;

/// Bytes that a pipe takes before the other side has to be woken. The system's default of 64 KiB makes large answers slow.
const PIPE_BYTES: usize = 1024 * 1024;

/// How long what the browser wrote to its stderr is waited for after its end: something else may hold it open.
const STDERR_LIMIT: Duration = Duration::from_secs(1);

/// How the browser ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Nothing where the system did not say.
    pub status: Option<ExitStatus>,
    /// The end of what it wrote to its stderr, at most 16 KiB.
    pub stderr: Arc<str>,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status {
            Some(status) => write!(f, "{status}")?,
            None => f.write_str("unknown status")?,
        }
        if !self.stderr.is_empty() {
            write!(f, "; it wrote:\n{}", self.stderr)?;
        }
        Ok(())
    }
}

/// What the browser says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Version {
    /// Such as `Chrome/148.0.7778.167`, or with `HeadlessChrome` in front.
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
    ended: watch::Receiver<Option<Ended>>,
}

impl Browser {
    /// Starts a browser and waits for its first answer.
    ///
    /// # Errors
    /// [`LaunchError`]; what was started is killed, and the profile folder is removed.
    pub async fn launch(options: LaunchOptions) -> Result<Self, LaunchError> {
        let (browser_input, ours_to_write) = new_pipe()?;
        let (ours_to_read, browser_output) = new_pipe()?;
        let reader = pipe::Receiver::from_owned_fd(ours_to_read).map_err(pipes)?;
        let writer = pipe::Sender::from_owned_fd(ours_to_write).map_err(pipes)?;
        let profile = ProfileFolder::make(&options)?;
        let child = start(&options, browser_input, browser_output)?;
        let (kill, killed) = watch::channel(false);
        let (ended_sender, ended) = watch::channel(None);
        let stderr = StderrTail::default();
        tokio::spawn(Process { child, profile, stderr: stderr.clone() }.supervise(killed, ended_sender));
        let connection = Connection::new(reader, writer);
        let first_answer = first_calls(&connection, options.download_folder.as_ref());
        match timeout(options.answer_limit, first_answer).await {
            Ok(Ok(version)) => Ok(Self { connection, version, kill, ended }),
            Ok(Err(CallError::Lost { .. })) => {
                kill.send_replace(true);
                Err(LaunchError::Ended(await_end(ended).await))
            }
            Ok(Err(error)) => Err(LaunchError::Call(error)),
            Err(_) => Err(LaunchError::NoAnswer { limit: options.answer_limit, stderr: stderr.text() }),
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
        await_end(self.ended.clone()).await
    }

    /// Asks the browser to end; kills it after `limit`. Returns when it is over.
    pub async fn close(self, limit: Duration) -> Ended {
        let politely = async {
            // The browser may be gone before it answers.
            let _ = self.connection.browser().call::<Done>("Browser.close", ()).await;
            self.ended().await
        };
        match timeout(limit, politely).await {
            Ok(ended) => ended,
            Err(_) => self.kill().await,
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
    let behavior = match downloads {
        Some(folder) => serde_json::json!({
            "behavior": "allowAndName", "downloadPath": folder, "eventsEnabled": true,
        }),
        None => serde_json::json!({ "behavior": "deny", "eventsEnabled": true }),
    };
    browser.call::<Done>("Browser.setDownloadBehavior", behavior).await?;
    Ok(version)
}

async fn await_end(mut ended: watch::Receiver<Option<Ended>>) -> Ended {
    let outcome = match ended.wait_for(Option::is_some).await {
        Ok(ended) => ended.clone(),
        Err(_) => None,
    };
    // The task that watches the process was torn down with its runtime.
    outcome.unwrap_or_else(|| Ended { status: None, stderr: "".into() })
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

fn start(options: &LaunchOptions, input: OwnedFd, output: OwnedFd) -> Result<Child, LaunchError> {
    let mut command = Command::new(&options.program);
    command
        .args(options.arguments(geteuid().is_root()))
        .env_clear()
        .envs(options.variables())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    let inherited = vec![
        FdMapping { parent_fd: input, child_fd: BROWSER_READS },
        FdMapping { parent_fd: output, child_fd: BROWSER_WRITES },
    ];
    let failed = |source| LaunchError::NotStarted { program: options.program.clone(), source };
    command.as_std_mut().fd_mappings(inherited).map_err(|error| failed(io::Error::other(error)))?;
    // `command` holds the browser's ends of the pipes; they go with this scope, so that its end is seen.
    command.spawn().map_err(failed)
}

/// What the supervising task owns.
struct Process {
    child: Child,
    profile: ProfileFolder,
    stderr: StderrTail,
}

impl Process {
    async fn supervise(mut self, mut killed: watch::Receiver<bool>, ended: watch::Sender<Option<Ended>>) {
        let group = self.child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
        let reading = self.child.stderr.take().map(|source| tokio::spawn(self.stderr.clone().follow(source)));
        let status = tokio::select! {
            status = self.child.wait() => status,
            () = asked_to_kill(&mut killed) => {
                kill(group);
                self.child.wait().await
            }
        };
        // Those that the browser started, and that did not notice its end.
        kill(group);
        if let Some(reading) = reading {
            let _ = timeout(STDERR_LIMIT, reading).await;
        }
        self.profile.remove().await;
        ended.send_replace(Some(Ended { status: status.ok(), stderr: self.stderr.text().into() }));
    }
}

/// Waits for the wish, or for the end of everybody who could have it.
async fn asked_to_kill(killed: &mut watch::Receiver<bool>) {
    let _ = killed.wait_for(|killed| *killed).await;
}

fn kill(group: Option<Pid>) {
    if let Some(group) = group {
        let _ = kill_process_group(group, Signal::KILL);
    }
}
