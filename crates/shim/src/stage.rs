//! The last step before the command: the process of the shim's that becomes it.
//!
//! It asks the kernel to kill it when the shim dies, which the shim cannot ask for a process that runs something else
//! already, enters the command's control group, and then becomes the command, under the same process id. So a command never
//! outlives its shim, whoever kills that, and nothing that it starts is outside of its group.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode};

use command_fds::{CommandFdExt, FdMapping};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

use crate::groups::{self, ControlGroup};

/// The first argument of a process that is to become a command.
const BECOME: &str = "--become";

/// Where such a process says why it could not become the command; closed once it has.
const TROUBLE: RawFd = 5;

/// Exit status of a process that could not become its command, by the shells' custom.
const NOT_STARTED: u8 = 127;

/// Starts the command that `prepare` sets up, by a process of this program that becomes it. `own` are the arguments that lead
/// this program to [`shim_main`](crate::shim_main). `group` is the command's control group, where it has one.
///
/// # Errors
/// Why the command does not run, as the system says it.
pub(crate) fn start(
    own: &[OsString],
    group: Option<&ControlGroup>,
    program: &OsStr,
    arguments: &[OsString],
    prepare: impl FnOnce(&mut Command),
) -> io::Result<Child> {
    let (trouble, theirs) = pipe_with(PipeFlags::CLOEXEC)?;
    let mut command = Command::new("/proc/self/exe");
    let group = group.map_or(Path::new(""), ControlGroup::folder);
    command.args(own).arg(BECOME).arg(getpid().as_raw_nonzero().to_string()).arg(group);
    command.arg(program).args(arguments);
    prepare(&mut command);
    let mapping = FdMapping { parent_fd: theirs, child_fd: TROUBLE };
    command.fd_mappings(vec![mapping]).map_err(io::Error::other)?;
    let mut child = command.spawn()?;
    // It holds our copy of the other end.
    drop(command);
    match errno_from(trouble) {
        None => Ok(child),
        Some(errno) => {
            let _ = child.wait();
            Err(io::Error::from_raw_os_error(errno))
        }
    }
}

/// What the process says before it becomes the command; nothing where it has become it, or was killed before.
fn errno_from(trouble: OwnedFd) -> Option<i32> {
    let mut errno = [0; 4];
    File::from(trouble).read_exact(&mut errno).ok()?;
    Some(i32::from_le_bytes(errno))
}

/// Becomes the command that the arguments name, where they are those of [`start`].
pub(crate) fn become_command(mut arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    if arguments.next()? != BECOME {
        return None;
    }
    let shim = arguments.next()?.to_str()?.parse().ok()?;
    let group = arguments.next()?;
    let program = arguments.next()?;
    let (error, trouble) = match take_over(TROUBLE) {
        Ok(trouble) => (become_program(shim, Path::new(&group), &program, arguments), Some(trouble)),
        Err(error) => (error, None),
    };
    if let Some(mut trouble) = trouble {
        let _ = trouble.write_all(&error.raw_os_error().unwrap_or(0).to_le_bytes());
    }
    Some(ExitCode::from(NOT_STARTED))
}

/// The file behind the descriptor, by one that the command does not inherit: its closing says that the command runs.
fn take_over(descriptor: RawFd) -> io::Result<File> {
    let file = OpenOptions::new().write(true).open(format!("/proc/self/fd/{descriptor}"))?;
    nix::unistd::close(descriptor)?;
    Ok(file)
}

/// Returns only where that fails.
fn become_program(
    shim: i32,
    group: &Path,
    program: &OsStr,
    arguments: impl Iterator<Item = OsString>,
) -> io::Error {
    if let Err(errno) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return errno.into();
    }
    // A shim that died before that is not noticed by the kernel any more.
    if getppid().map(|parent| parent.as_raw_nonzero().get()) != Some(shim) {
        return Errno::SRCH.into();
    }
    if !group.as_os_str().is_empty() {
        // That it can be entered was tried when it was made. A command that cannot enter it is still better run than not.
        let _ = groups::enter(group);
    }
    Command::new(program).args(arguments).exec()
}
