//! The browser's process: how it is started, watched and ended, under a shim or without one.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use capataz_shim::{FIRST_PIPE, HEADER_BYTES, Invocation, KILL, Report, SECOND_PIPE, Shim};
use command_fds::{CommandFdExt, FdMapping};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};
use tokio::sync::watch;

use crate::options::{LaunchOptions, Machine, ShimOptions};
use crate::patience::within;
use crate::profile::ProfileFolder;
use crate::stderr::StderrTail;

/// Longest wait, after the browser's end, for the rest of its stderr: another process may hold that open.
const STDERR_LIMIT: Duration = Duration::from_secs(1);

/// Longest wait for the end of processes whose shim was killed.
const STRAYS_LIMIT: Duration = Duration::from_secs(10);

/// How the browser ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// `None` if the browser never ran, or nobody saw its end.
    pub status: Option<ExitStatus>,
    /// The end of what it wrote to its stderr, at most 16 KiB.
    pub stderr: Arc<str>,
}

impl Ended {
    /// True if the browser ended by a fault of its own, and not because somebody wanted it to.
    pub(crate) fn is_crash(&self) -> bool {
        let faults = [Signal::SEGV, Signal::BUS, Signal::ILL, Signal::TRAP, Signal::ABORT, Signal::FPE];
        let signal = self.status.and_then(|status| status.signal());
        signal.is_some_and(|signal| faults.iter().any(|fault| fault.as_raw() == signal))
    }
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

/// How it went with the process, once it is over.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) ended: Ended,
    /// The system's number for why the program was never executed, as the shim says it.
    pub(crate) not_started: Option<i32>,
}

/// A process that was started, with what is its own.
pub(crate) struct Process {
    parent: Parent,
    profile: ProfileFolder,
    stderr: StderrTail,
}

/// The parent of the browser's process.
enum Parent {
    Us(Child),
    Shim(Shim),
}

impl Process {
    /// # Errors
    /// The program, or the shim, cannot be executed.
    pub(crate) fn start(
        options: &LaunchOptions,
        profile: ProfileFolder,
        input: OwnedFd,
        output: OwnedFd,
        stderr: StderrTail,
    ) -> io::Result<Self> {
        let arguments = options.arguments(Machine::observe());
        let inherited = vec![
            FdMapping { parent_fd: input, child_fd: FIRST_PIPE },
            FdMapping { parent_fd: output, child_fd: SECOND_PIPE },
        ];
        // Our copies of the browser's ends of the pipes close with this scope, so that the end of the browser is
        // noticed.
        let prepare = |command: &mut Command| {
            command.env_clear().envs(options.variables()).stdout(Stdio::null()).stderr(Stdio::piped());
            command.as_std_mut().fd_mappings(inherited).map(drop).map_err(io::Error::other)
        };
        let parent = match &options.shim {
            Some(ShimOptions { command, locks_folder }) => {
                let invocation = Invocation {
                    program: options.program.clone().into(),
                    arguments,
                    working_directory: Some(options.profile_folder.clone()),
                    remove: Some(options.profile_folder.clone()),
                    pipes: true,
                };
                Parent::Shim(Shim::start(command, locks_folder, &invocation, prepare)?)
            }
            None => {
                let mut command = Command::new(&options.program);
                command
                    .args(arguments)
                    .current_dir(&options.profile_folder)
                    .stdin(Stdio::null())
                    .process_group(0)
                    .kill_on_drop(true);
                prepare(&mut command)?;
                Parent::Us(command.spawn()?)
            }
        };
        Ok(Self { parent, profile, stderr })
    }

    /// Follows the process to its end, and removes what it leaves.
    pub(crate) async fn supervise(self, mut killed: watch::Receiver<bool>) -> Outcome {
        let Self { mut parent, profile, stderr } = self;
        let source = match &mut parent {
            Parent::Us(child) => child.stderr.take(),
            Parent::Shim(shim) => shim.process.stderr.take(),
        };
        let reading = source.map(|source| tokio::spawn(stderr.clone().follow(source)));
        let (status, not_started) = match parent {
            Parent::Us(child) => (follow_child(child, &mut killed).await, None),
            Parent::Shim(shim) => follow_shim(shim, &mut killed).await,
        };
        if let Some(mut reading) = reading
            && within(STDERR_LIMIT, &mut reading).await.is_none()
        {
            reading.abort();
        }
        profile.remove().await;
        Outcome { ended: Ended { status, stderr: stderr.text().into() }, not_started }
    }
}

async fn follow_child(mut child: Child, killed: &mut watch::Receiver<bool>) -> Option<ExitStatus> {
    let group = child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
    let status = tokio::select! {
        status = child.wait() => status,
        () = asked_to_kill(killed) => {
            kill(group);
            child.wait().await
        }
    };
    // Processes that the browser started may not have noticed its end.
    kill(group);
    status.ok()
}

/// The browser's status, and why it was not started. Returns when nothing that it started is left.
async fn follow_shim(shim: Shim, killed: &mut watch::Receiver<bool>) -> (Option<ExitStatus>, Option<i32>) {
    let Shim { mut process, mut reports, orders, mark } = shim;
    let mut orders = Some(orders);
    let (mut command, mut status, mut not_started) = (None, None, None);
    let mut kill_wanted = false;
    loop {
        let report = tokio::select! {
            report = reports.next() => report,
            () = asked_to_kill(killed), if !kill_wanted => {
                kill_wanted = true;
                match (&mut orders, command) {
                    // A shim that is gone says so through `reports`.
                    (Some(orders), Some(_)) => drop(orders.write_all(&[KILL]).await),
                    // Without an order the shim starts nothing.
                    _ => orders = None,
                }
                continue;
            }
        };
        match report {
            Some(Report::Ready) => {
                if let Some(orders) = &mut orders {
                    // There is no input: the browser is spoken to through its pipes.
                    let _ = orders.write_all(&[0; HEADER_BYTES]).await;
                }
            }
            Some(Report::Started { pid }) => command = Pid::from_raw(pid),
            Some(
                Report::Refused { errno }
                | Report::NotStarted { errno }
                | Report::NoWorkingDirectory { errno },
            ) => not_started = Some(errno),
            Some(Report::Exited { code }) => status = Some(ExitStatus::from_raw((code & 0xff) << 8)),
            Some(Report::Signalled { signal }) => status = Some(ExitStatus::from_raw(signal & 0x7f)),
            None => break,
        }
    }
    if status.is_none() {
        // Somebody killed the shim while the browser ran. Its group is ended at once, what left that is looked for.
        kill(command);
        if let Ok(Err(error)) = tokio::task::spawn_blocking(move || mark.end_strays(STRAYS_LIMIT)).await {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "what the browser started cannot be ended"
            );
        }
    }
    let _ = process.wait().await;
    (status, not_started)
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
