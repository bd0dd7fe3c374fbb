//! The shim's side: starts the command, passes the input and the signals on, ends everything when the parent is gone.
//!
//! One thread, no runtime. Its stdout and stderr are the command's; it writes nothing to them itself.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{ChildStdin, ExitCode, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, getpid, kill_process, kill_process_group, pidfd_open,
    set_child_subreaper, waitpid,
};
use tokio::signal::unix::{SignalKind, signal};

use crate::descendants;
use crate::given::Given;
use crate::groups::ControlGroup;
use crate::invocation::{FIRST_PIPE, Invocation, SECOND_PIPE};
use crate::protocol::{HEADER_BYTES, KILL, MAX_INPUT, Report, TERMINATE};
use crate::stage;
use crate::strays::LEASE_VARIABLE;

/// How often processes that lost their parent and ended are reaped while the command runs. Nothing waits for it; it
/// only bounds how many dead entries gather in the process table.
const REAP_INTERVAL: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Exit status of a shim that was called wrongly or could not do its work.
const SHIM_FAILED: u8 = 125;

/// The main function of the shim. The arguments are those that [`Shim::start`](crate::Shim::start) writes. Its stdin must
/// be the socket to the parent; its environment becomes the command's.
///
/// The exit status follows the shells' custom: the command's exit code, or 128 and the number of the signal that ended
/// it. The parent does not use it; it is told through the socket.
pub fn shim_main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.collect();
    let Ok(args) = Given::give_back(&args) else { return ExitCode::from(SHIM_FAILED) };
    if let Some(code) = stage::become_command(args.iter().cloned()) {
        return code;
    }
    // What stands before our arguments leads this program here.
    let all: Vec<OsString> = std::env::args_os().collect();
    let own = all.get(1..all.len().saturating_sub(args.len())).unwrap_or_default();
    let Some((lock, invocation)) = Invocation::parse(args.iter().cloned()) else {
        return ExitCode::from(SHIM_FAILED);
    };
    let Ok(control) = io::stdin().as_fd().try_clone_to_owned() else { return ExitCode::from(SHIM_FAILED) };
    let mut control = UnixStream::from(control);
    let ending = match Lock::take(&lock) {
        Ok(lock) => {
            let group = own_group();
            let ending = supervise(&invocation, own, group.as_ref(), &mut control);
            if let Some(group) = &group {
                // Before they are ended one by one, so that nothing multiplies faster than it is ended.
                group.kill();
            }
            descendants::end_all();
            if let Some(group) = group {
                group.end(None);
            }
            if let Some(folder) = &invocation.remove {
                // Nothing is left that could write to it. What cannot be removed stays for the parent to find.
                let _ = fs::remove_dir_all(folder);
            }
            lock.remove();
            ending
        }
        Err(error) => Err(refused(&error)),
    };
    match ending {
        Ok(status) => {
            let code =
                status.exit_status().or_else(|| status.terminating_signal().map(|signal| 128 + signal));
            ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(SHIM_FAILED))
        }
        Err(report) => {
            tell(&mut control, report);
            ExitCode::from(SHIM_FAILED)
        }
    }
}

/// The file whose lock says: something that an earlier parent started may be alive.
struct Lock<'a> {
    path: &'a Path,
    _file: File,
}

impl<'a> Lock<'a> {
    fn take(path: &'a Path) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Self { path, _file: file })
    }

    fn remove(self) {
        // A file that stays is found without a holder and removed at the parent's next start.
        let _ = fs::remove_file(self.path);
    }
}

/// The control group of the command, where one can be made. The mark by which it is named is in the environment that the
/// command gets.
fn own_group() -> Option<ControlGroup> {
    ControlGroup::make(&std::env::var_os(LEASE_VARIABLE)?).ok()
}

/// Runs the command to its end. What it started may be alive afterwards.
///
/// # Errors
/// The report that says why the command did not run.
fn supervise(
    invocation: &Invocation,
    own: &[OsString],
    group: Option<&ControlGroup>,
    control: &mut UnixStream,
) -> Result<WaitStatus, Report> {
    outlive_signals().map_err(|error| refused(&error))?;
    set_child_subreaper(Some(getpid())).map_err(|errno| refused(&errno.into()))?;
    tell(control, Report::Ready);

    // The parent sends nothing before it knows that the lock is held. A parent that dies earlier leaves end of file
    // here, and the command never starts.
    let mut header = [0; HEADER_BYTES];
    control.read_exact(&mut header).map_err(|error| refused(&error))?;
    let input_length = u64::from_le_bytes(header);
    if input_length > MAX_INPUT {
        return Err(refused(&Errno::FBIG.into()));
    }

    let (command, stdin) = start(invocation, own, group)?;
    if invocation.pipes {
        close_pipes();
    }
    tell(control, Report::Started { pid: command.as_raw_nonzero().get() });
    let watched =
        Supervised::new(command, group, stdin, input_length, control).and_then(|mut watched| watched.watch());
    // While the command is not reaped, its process id, which is its group's too, cannot belong to anything else.
    let status = match watched {
        Ok(Some(status)) => status,
        Ok(None) => {
            kill(command, group);
            await_end(command).map_err(|errno| refused(&errno.into()))?
        }
        Err(error) => {
            kill(command, group);
            return Err(refused(&error));
        }
    };
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => tell(control, Report::Exited { code }),
        (None, signal) => tell(control, Report::Signalled { signal: signal.unwrap_or(0) }),
    }
    Ok(status)
}

fn start(
    invocation: &Invocation,
    own: &[OsString],
    group: Option<&ControlGroup>,
) -> Result<(Pid, Option<ChildStdin>), Report> {
    if let Some(folder) = &invocation.working_directory {
        // Asked beforehand: the system's answer to a start would not say whether the folder or the program is missing.
        match fs::metadata(folder) {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(_) => return Err(Report::NoWorkingDirectory { errno: Errno::NOTDIR.raw_os_error() }),
            Err(error) => return Err(Report::NoWorkingDirectory { errno: errno_of(&error) }),
        }
    }
    let started = stage::start(own, group, &invocation.program, &invocation.arguments, |command| {
        command.stdin(Stdio::piped()).process_group(0);
        if let Some(folder) = &invocation.working_directory {
            command.current_dir(folder);
        }
    });
    match started {
        Ok(mut child) => Ok((Pid::from_child(&child), child.stdin.take())),
        Err(error) => Err(Report::NotStarted { errno: errno_of(&error) }),
    }
}

/// Leaves the command the only one that holds its pipes, so that its end is seen at their other ends at once.
fn close_pipes() {
    // The parent has handed exactly these over, and nothing in this process owns them.
    for pipe in [FIRST_PIPE, SECOND_PIPE] {
        let _ = nix::unistd::close(pipe);
    }
}

struct Supervised<'a> {
    command: Pid,
    /// The command's control group, where it has one.
    group: Option<&'a ControlGroup>,
    command_end: OwnedFd,
    control: &'a mut UnixStream,
    /// The command's stdin, until all input is written or nobody reads it any more.
    stdin: Option<ChildStdin>,
    /// Input that came from the parent and is not written yet.
    pending: VecDeque<u8>,
    /// Bytes of input still to come from the parent; what follows them are commands.
    input_left: u64,
}

impl<'a> Supervised<'a> {
    fn new(
        command: Pid,
        group: Option<&'a ControlGroup>,
        stdin: Option<ChildStdin>,
        input_left: u64,
        control: &'a mut UnixStream,
    ) -> io::Result<Self> {
        control.set_nonblocking(true)?;
        if let Some(stdin) = &stdin {
            rustix::io::ioctl_fionbio(stdin, true)?;
        }
        let command_end = pidfd_open(command, PidfdFlags::empty())?;
        Ok(Self { command, group, command_end, control, stdin, pending: VecDeque::new(), input_left })
    }

    /// Returns when the command has ended or the parent is gone: with the command's status where it is reaped already.
    fn watch(&mut self) -> io::Result<Option<WaitStatus>> {
        loop {
            self.close_finished_stdin();
            let awaited = match (&self.stdin, self.pending.is_empty()) {
                (Some(stdin), false) => Some(stdin),
                _ => None,
            };
            let mut polled = vec![
                PollFd::new(&self.command_end, PollFlags::IN),
                PollFd::new(&*self.control, PollFlags::IN),
            ];
            polled.extend(awaited.map(|stdin| PollFd::new(stdin, PollFlags::OUT)));
            match poll(&mut polled, Some(&REAP_INTERVAL)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            let ready: Vec<bool> = polled.iter().map(|entry| !entry.revents().is_empty()).collect();
            if ready.first() == Some(&true) {
                return Ok(None);
            }
            if ready.get(2) == Some(&true) {
                self.write_input();
            }
            if ready.get(1) == Some(&true) && !self.read_control()? {
                return Ok(None);
            }
            if let Some(status) = descendants::reap_ended(self.command) {
                return Ok(Some(status));
            }
        }
    }

    fn close_finished_stdin(&mut self) {
        if self.input_left == 0 && self.pending.is_empty() {
            self.stdin = None;
        }
    }

    fn write_input(&mut self) {
        let Some(stdin) = &mut self.stdin else { return };
        match stdin.write(self.pending.as_slices().0) {
            Ok(written) => drop(self.pending.drain(..written)),
            Err(error) if is_temporary(&error) => {}
            // The command closed its stdin: it does not want the rest.
            Err(_) => {
                self.stdin = None;
                self.pending = VecDeque::new();
            }
        }
    }

    /// Reads once from the parent. False: the parent is gone.
    fn read_control(&mut self) -> io::Result<bool> {
        let mut chunk = [0; 16 * 1024];
        let received = match self.control.read(&mut chunk) {
            Ok(0) => return Ok(false),
            Ok(length) => chunk.get(..length).unwrap_or_default(),
            Err(error) if is_temporary(&error) => return Ok(true),
            Err(_) => return Ok(false),
        };
        let input_length = usize::try_from(self.input_left).unwrap_or(usize::MAX).min(received.len());
        let (input, commands) = received.split_at(input_length);
        self.input_left -= input.len() as u64;
        if self.stdin.is_some() {
            self.pending.extend(input);
        }
        for command in commands {
            match *command {
                // The group stays valid: nothing reaps the command while this loop goes on.
                TERMINATE => drop(kill_process_group(self.command, Signal::TERM)),
                KILL => kill(self.command, self.group),
                _ => {}
            }
        }
        Ok(true)
    }
}

/// SIGKILL to the command, to its process group, which the command may have left, and to all that it started where it has a
/// control group: a command that takes its time to die does not keep the others alive.
fn kill(command: Pid, group: Option<&ControlGroup>) {
    let _ = kill_process_group(command, Signal::KILL);
    let _ = kill_process(command, Signal::KILL);
    if let Some(group) = group {
        group.kill();
    }
}

fn await_end(command: Pid) -> Result<WaitStatus, Errno> {
    loop {
        match waitpid(Some(command), WaitOptions::empty()) {
            Ok(Some((_, status))) => return Ok(status),
            Ok(None) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// Makes the signals that ask a program to end harmless for the shim: a service manager may send them to every process
/// of the service at once, and a shim that dies first cannot end the others. The handlers do nothing and last for the
/// whole process; the command starts with the system's defaults.
fn outlive_signals() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let _entered = runtime.enter();
    for kind in [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup(), SignalKind::quit()] {
        drop(signal(kind)?);
    }
    Ok(())
}

/// Tells the parent. Nobody may be there to hear it; then end of file says so soon enough.
fn tell(control: &mut UnixStream, report: Report) {
    let _ = control.write_all(&report.encode());
}

fn refused(error: &io::Error) -> Report {
    Report::Refused { errno: errno_of(error) }
}

fn errno_of(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(0)
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::io::{BufRead, BufReader};
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use super::*;

    #[test]
    fn what_left_the_process_group_is_killed_although_nobody_has_awaited_the_command() {
        let mark = format!("trial/{}", uuid::Uuid::now_v7());
        let Ok(group) = ControlGroup::make(OsStr::new(&mark)) else {
            eprintln!("SKIPPED  capataz-shim::supervise: no control group can be made");
            return;
        };
        let script = "echo 0 > $0/cgroup.procs && echo entered && exec sleep 600";
        let mut left = Command::new("sh")
            .args(["-c", script])
            .arg(group.folder())
            .process_group(0)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut entered = String::new();
        BufReader::new(left.stdout.take().unwrap()).read_line(&mut entered).unwrap();
        assert_eq!(entered, "entered\n");
        let mut command = Command::new("sleep").arg("600").process_group(0).spawn().unwrap();
        kill(Pid::from_child(&command), Some(&group));
        assert_eq!(left.wait().unwrap().signal(), Some(9));
        assert_eq!(command.wait().unwrap().signal(), Some(9));
        assert!(group.end(None));
    }
}
