//! The processes that the daemon has started: its shims, and below them commands and browsers. Found as a person would find
//! them, in the system's list of processes.

use std::fs;

use rustix::process::{Pid, Signal};

/// How the daemon calls a shim, and what a browser is told by its shim.
const SHIM: &str = "__shim";
const BROWSER: &str = "--remote-debugging-pipe";

/// A process, whoever has its number when it has ended.
#[derive(Debug)]
pub(crate) struct Kin {
    process: i32,
    handle: Handle,
}

impl Kin {
    /// Nothing where the process has ended, or is not this one's child.
    fn of(process: i32, parent: i32) -> Option<Self> {
        let handle = Handle::open(process)?;
        // The handle is that of one process from here on, and whether of the right one is asked now.
        (parent_of(process) == Some(parent)).then_some(Self { process, handle })
    }

    /// SIGKILL. Whether it was still there.
    pub(crate) fn kill(&self) -> bool {
        self.handle.kill()
    }
}

#[cfg(target_os = "linux")]
#[derive(Debug)]
struct Handle(std::os::fd::OwnedFd);

#[cfg(target_os = "linux")]
impl Handle {
    fn open(process: i32) -> Option<Self> {
        use rustix::process::{PidfdFlags, pidfd_open};
        pidfd_open(Pid::from_raw(process)?, PidfdFlags::empty()).ok().map(Self)
    }

    fn kill(&self) -> bool {
        rustix::process::pidfd_send_signal(&self.0, Signal::KILL).is_ok()
    }
}

#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
struct Handle(Pid);

#[cfg(not(target_os = "linux"))]
impl Handle {
    fn open(process: i32) -> Option<Self> {
        Pid::from_raw(process).map(Self)
    }

    fn kill(&self) -> bool {
        rustix::process::kill_process(self.0, Signal::KILL).is_ok()
    }
}

/// The shims of a daemon.
pub(crate) fn shims(daemon: i32) -> Vec<Kin> {
    children(daemon).into_iter().filter(|child| has_argument(child.process, SHIM)).collect()
}

/// The browsers under a daemon's shims.
pub(crate) fn browsers(daemon: i32) -> Vec<Kin> {
    let below = shims(daemon).into_iter().flat_map(|shim| children(shim.process));
    below.filter(|child| has_argument(child.process, BROWSER)).collect()
}

fn children(parent: i32) -> Vec<Kin> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let processes = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let ours = processes.filter(|process| parent_of(*process) == Some(parent));
    ours.filter_map(|process| Kin::of(process, parent)).collect()
}

/// The second word after the program's name, which is in parentheses and may contain any.
fn parent_of(process: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse().ok()
}

fn has_argument(process: i32, argument: &str) -> bool {
    let Ok(line) = fs::read(format!("/proc/{process}/cmdline")) else { return false };
    line.split(|byte| *byte == 0).any(|word| word == argument.as_bytes())
}

/// The most memory that a process has had resident so far, in KiB.
pub(crate) fn peak_memory_kib(process: i32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;
    use crate::Outcome;

    #[test]
    fn only_a_child_of_its_own_parent_is_killed() -> Outcome<()> {
        let own = i32::try_from(std::process::id())?;
        let mut child = Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn()?;
        let process = i32::try_from(child.id())?;
        assert!(Kin::of(process, 1).is_none());
        let found = children(own).into_iter().find(|kin| kin.process == process).ok_or("it is not found")?;
        assert!(found.kill());
        assert!(!child.wait()?.success());
        assert!(!found.kill());
        assert!(peak_memory_kib(own).is_some_and(|peak| peak > 500));
        Ok(())
    }
}
