//! Processes that nobody supervises any more, because their shim was killed: found by their control group, or by what their
//! environment says, and ended.
//!
//! Each command gets a variable that names the folder of the locks and its own lock. What it starts inherits it, in whatever
//! group or session it is and whoever its parent has become. A process that gives itself another environment is found only
//! where its command has a control group (`groups.rs`).

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant, UNIX_EPOCH};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};

use crate::groups;

/// The variable of a command's environment by which it is found.
pub const LEASE_VARIABLE: &str = "CAPATAZ_LEASE";

/// What stands between the name of the folder and that of the lock.
const SEPARATOR: u8 = b'/';

/// What a command and its descendants carry in their environments: the folder of the locks, by numbers that no copy of it
/// has, and the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseMark(OsString);

impl LeaseMark {
    /// # Errors
    /// The folder is not there and cannot be made.
    pub(crate) fn new(locks_folder: &Path, lock: &str) -> io::Result<Self> {
        // Where something else than a folder is there, the shim complains of it.
        if !locks_folder.exists() {
            fs::create_dir_all(locks_folder)?;
        }
        let mut mark = of_folder(locks_folder)?;
        mark.extend(lock.bytes());
        Ok(Self(OsString::from_vec(mark)))
    }

    pub(crate) fn value(&self) -> &OsString {
        &self.0
    }

    /// Ends all processes in the group of the mark, and all that carry it: those of a shim that somebody has killed. Returns how many there were.
    /// Blocks the thread, at most for `limit`.
    ///
    /// # Errors
    /// Something is still alive after `limit`.
    pub fn end_strays(&self, limit: Duration) -> Result<usize, StraysError> {
        end_all(self.0.as_bytes(), true, limit)
    }
}

/// Something cannot be ended: it changed its user, hangs in the kernel, or multiplies faster than it is ended.
#[derive(Debug, thiserror::Error)]
#[error("processes of a command without a supervisor have not ended within {limit:?}: {}", .processes.iter().map(i32::to_string).collect::<Vec<_>>().join(", "))]
pub struct StraysError {
    pub processes: Vec<i32>,
    pub limit: Duration,
}

/// Ends all processes in groups of this folder's marks, and all that carry one. To be called when no shim of the folder is alive. Returns how many
/// there were.
pub(crate) fn end_strays_of(locks_folder: &Path, limit: Duration) -> Result<usize, StraysError> {
    match of_folder(locks_folder) {
        Ok(prefix) => end_all(&prefix, false, limit),
        // Without the folder nothing was ever started in it.
        Err(_) => Ok(0),
    }
}

/// The folder's device, its number there, and when it was made: one that takes the place of another is another one.
fn of_folder(folder: &Path) -> io::Result<Vec<u8>> {
    let metadata = fs::metadata(folder)?;
    let made = metadata.created().ok().and_then(|made| made.duration_since(UNIX_EPOCH).ok());
    let made = made.map_or(0, |made| made.as_nanos());
    let mut mark = format!("{:x}-{:x}-{made:x}", metadata.dev(), metadata.ino()).into_bytes();
    mark.push(SEPARATOR);
    Ok(mark)
}

/// Ends what is found until nothing is found any more: what one process starts while it is ended is found the next time.
fn end_all(mark: &[u8], whole: bool, limit: Duration) -> Result<usize, StraysError> {
    let started = Instant::now();
    let mut ended = end_groups(mark, whole, limit)?;
    loop {
        let found = find(mark, whole);
        if found.is_empty() {
            return Ok(ended);
        }
        for (_, process) in &found {
            // One that may not be signalled is waited for in vain.
            let _ = pidfd_send_signal(process, Signal::KILL);
        }
        for (_, process) in &found {
            if !await_end(process, limit.saturating_sub(started.elapsed())) {
                let processes = found.iter().map(|(pid, _)| pid.as_raw_nonzero().get()).collect();
                return Err(StraysError { processes, limit });
            }
            ended += 1;
        }
    }
}

/// Ends the control groups of the mark. Returns how many processes were in them.
fn end_groups(mark: &[u8], whole: bool, limit: Duration) -> Result<usize, StraysError> {
    let started = Instant::now();
    let mut ended = 0;
    for group in groups::find(mark, whole) {
        ended += group.processes().len();
        if !group.end(Some(limit.saturating_sub(started.elapsed()))) {
            return Err(StraysError { processes: group.processes(), limit });
        }
    }
    Ok(ended)
}

/// The living processes whose environments have the mark, each held so that its number cannot come to mean another one.
fn find(mark: &[u8], whole: bool) -> Vec<(Pid, OwnedFd)> {
    let this = getpid();
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let pids = pids.filter_map(Pid::from_raw).filter(|pid| *pid != this);
    let carries = |pid: Pid| {
        let environment = fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero()));
        environment.is_ok_and(|environment| has_mark(&environment, mark, whole))
    };
    pids.filter(|pid| carries(*pid))
        .filter_map(|pid| Some((pid, pidfd_open(pid, PidfdFlags::empty()).ok()?)))
        // The number may have been given to another process between the two.
        .filter(|(pid, _)| carries(*pid))
        .collect()
}

fn has_mark(environment: &[u8], mark: &[u8], whole: bool) -> bool {
    let mut values = environment
        .split(|byte| *byte == 0)
        .filter_map(|variable| variable.strip_prefix(LEASE_VARIABLE.as_bytes())?.strip_prefix(b"="));
    values.any(|value| if whole { value == mark } else { value.starts_with(mark) })
}

/// Whether the process ended within the limit.
fn await_end(process: &OwnedFd, limit: Duration) -> bool {
    let until = Instant::now() + limit;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let mut polled = [PollFd::new(process, PollFlags::IN)];
        match poll(&mut polled, Timespec::try_from(left).ok().as_ref()) {
            Ok(0) => return false,
            Ok(_) => return true,
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_found_in_its_variable_alone() {
        let mark = b"1-2-3/lock";
        let check = |environment: &[u8], whole: bool| {
            has_mark(environment, if whole { mark } else { b"1-2-3/" }, whole)
        };
        assert!(check(b"A=b\0CAPATAZ_LEASE=1-2-3/lock\0C=d\0", true));
        assert!(!check(b"CAPATAZ_LEASE=1-2-3/lock2\0", true));
        assert!(check(b"CAPATAZ_LEASE=1-2-3/lock2\0", false));
        assert!(!check(b"CAPATAZ_LEASE=1-2-33/lock\0", false));
        assert!(!check(b"OTHER=CAPATAZ_LEASE=1-2-3/lock\0", false));
        assert!(!check(b"CAPATAZ_LEASES=1-2-3/lock\0", false));
        assert!(!check(b"", false));
    }

    #[test]
    fn a_folder_in_the_place_of_another_is_another_one() {
        let parent = tempfile::tempdir().unwrap();
        let (one, other) = (parent.path().join("one"), parent.path().join("other"));
        let first = LeaseMark::new(&one, "lock").unwrap();
        assert_eq!(LeaseMark::new(&one, "lock").unwrap(), first);
        assert_ne!(LeaseMark::new(&other, "lock").unwrap(), first);
        fs::rename(&one, parent.path().join("moved")).unwrap();
        assert_ne!(LeaseMark::new(&one, "lock").unwrap(), first);
        assert_eq!(
            LeaseMark::new(&parent.path().join("moved"), "lock").unwrap(),
            first,
            "it goes with its folder"
        );
    }
}
