//! The parent's side: starts a shim and reads what it reports.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::{Child, Command};

use crate::invocation::Invocation;
use crate::orphans::LOCK_EXTENSION;
use crate::protocol::{REPORT_BYTES, Report};
use crate::strays::{LEASE_VARIABLE, LeaseMark};

/// How a program starts its shim: itself again, with arguments that lead to [`shim_main`](crate::shim_main).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShimCommand {
    pub program: PathBuf,
    /// What comes before the shim's own arguments.
    pub args: Vec<OsString>,
}

impl Default for ShimCommand {
    /// The running executable with the subcommand `__shim`. By this path it is found even after its file was replaced,
    /// so that both sides are always of one version.
    fn default() -> Self {
        Self { program: "/proc/self/exe".into(), args: vec!["__shim".into()] }
    }
}

/// A started shim, and our ends of the socket to it. When `orders` is dropped, everything is ended.
#[derive(Debug)]
pub struct Shim {
    pub process: Child,
    pub reports: Reports,
    /// See `protocol.rs` for what may be written, and when.
    pub orders: OwnedWriteHalf,
    /// By which all that the command started is found, where the shim was killed.
    pub mark: LeaseMark,
}

impl Shim {
    /// Starts a shim that holds a lock file of its own in `locks_folder`, which is made when needed. `prepare` sets what
    /// the command inherits through the shim: its environment, stdout, stderr, and the pipes where it has some.
    ///
    /// # Errors
    /// The shim cannot be started.
    pub fn start(
        shim: &ShimCommand,
        locks_folder: &Path,
        invocation: &Invocation,
        prepare: impl FnOnce(&mut Command) -> io::Result<()>,
    ) -> io::Result<Self> {
        let name = uuid::Uuid::now_v7().to_string();
        let mark = LeaseMark::new(locks_folder, &name)?;
        let lock = locks_folder.join(format!("{name}.{LOCK_EXTENSION}"));
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let (reader, orders) = UnixStream::from_std(ours)?.into_split();
        let mut command = Command::new(&shim.program);
        command
            .args(&shim.args)
            .args(invocation.to_arguments(lock))
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .process_group(0);
        prepare(&mut command)?;
        command.env(LEASE_VARIABLE, mark.value());
        // `command` holds the shim's end of the socket; it goes with this scope, so that end of file is seen.
        let process = command.spawn()?;
        let reports = Reports { reader, partial: Vec::with_capacity(REPORT_BYTES) };
        Ok(Self { process, reports, orders, mark })
    }
}

/// What the shim reports.
#[derive(Debug)]
pub struct Reports {
    reader: OwnedReadHalf,
    /// What was read of a report; it stays between calls.
    partial: Vec<u8>,
}

impl Reports {
    /// The next report; nothing when the shim is gone. Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Report> {
        loop {
            let mut chunk = [0; REPORT_BYTES];
            let room = chunk.get_mut(self.partial.len()..)?;
            match self.reader.read(room).await {
                Ok(0) | Err(_) => return None,
                Ok(length) => self.partial.extend(room.iter().take(length)),
            }
            if let Ok(report) = <[u8; REPORT_BYTES]>::try_from(self.partial.as_slice()) {
                self.partial.clear();
                if let Some(report) = Report::decode(report) {
                    return Some(report);
                }
            }
        }
    }
}
