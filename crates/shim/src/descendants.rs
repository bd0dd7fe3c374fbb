//! Ending everything that the shim started, whatever it became.
//!
//! The shim is a subreaper: a process whose parent dies becomes the shim's own child, in whatever group or session it
//! is. So it is enough to end the shim's direct children again and again until there are none. Only direct children are
//! ever signalled, and only here are they reaped: a process id cannot come to mean another process in between.

use std::fs;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, wait};

/// Reaps the children that have ended by now. Returns the status of `command` when it is among them.
pub(crate) fn reap_ended(command: Pid) -> Option<WaitStatus> {
    let mut command_status = None;
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if pid == command => command_status = Some(status),
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) | Err(_) => return command_status,
        }
    }
}

/// Kills and reaps every descendant. Returns when none is left; until then the shim keeps its lock.
///
/// A process that may not be signalled (it changed its user) or that hangs in the kernel is waited for.
pub(crate) fn end_all() {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(Errno::INTR) => continue,
            Ok(None) => {}
            Err(_) => return,
        }
        for child in children() {
            // A child that ended in the meantime is still there until it is reaped, so this can only miss.
            let _ = kill_process(child, Signal::KILL);
        }
        match wait(WaitOptions::empty()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

/// The direct children of this process. Read from `/proc/<pid>/stat`, which every Linux has; the `children` file depends
/// on how the kernel was built.
fn children() -> Vec<Pid> {
    let this = getpid();
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter_map(Pid::from_raw)
        .filter(|pid| parent(*pid) == Some(this))
        .collect()
}

fn parent(pid: Pid) -> Option<Pid> {
    let stat = fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    parent_in_stat(&stat)
}

/// The fourth field. The second is the name in parentheses, which may itself contain spaces and parentheses.
fn parent_in_stat(stat: &[u8]) -> Option<Pid> {
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let after_name = std::str::from_utf8(stat.get(name_end + 1..)?).ok()?;
    after_name.split_ascii_whitespace().nth(1)?.parse().ok().and_then(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use super::parent_in_stat;

    #[track_caller]
    fn check(stat: &str, expected: Option<i32>) {
        assert_eq!(parent_in_stat(stat.as_bytes()).map(|pid| pid.as_raw_nonzero().get()), expected);
    }

    #[test]
    fn the_parent_is_found_behind_any_name() {
        check("12 (sh) S 7 12 12 0", Some(7));
        check("12 (a) b) (c) R 8 12 12 0", Some(8));
        check("12 (kthreadd) S 0 0 0 0", None);
        check("12 (sh", None);
        check("", None);
    }
}
