//! Control groups: what a command starts is in the command's group, whatever session, environment or parent it has, and a
//! group is ended as a whole.
//!
//! The shim makes a group below its own, where it may, and the process that becomes the command enters it before that. The
//! name of the group is the mark of the lease, by which the group is found when the shim was killed. A process leaves its
//! group only by writing to the file system of the groups. Where no group can be made, a command runs without one.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// What the names of our groups begin with.
const PREFIX: &[u8] = b"capataz.";

/// Groups within groups that are looked through. The kernel's own limit is not lower in practice, and a file system that
/// has more is not searched for ever.
const DEPTH: usize = 64;

/// The files by which a group is used.
const PROCESSES: &str = "cgroup.procs";
const KILL: &str = "cgroup.kill";
const EVENTS: &str = "cgroup.events";

/// The group of one command and of everything that it starts.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ControlGroup {
    folder: PathBuf,
}

impl ControlGroup {
    /// Makes the group of this mark below the group of this process.
    ///
    /// # Errors
    /// This machine, or the group of this process, does not allow it; nothing is left behind then.
    pub(crate) fn make(mark: &OsStr) -> io::Result<Self> {
        let own = own_folder()?;
        let group = Self { folder: own.join(name_of(mark.as_bytes())) };
        fs::create_dir(&group.folder)?;
        // A process may only be moved by whoever may write to both groups and to the one above them. All that is asked of
        // a group later is tried now.
        let files = [own.join(PROCESSES), group.folder.join(PROCESSES), group.folder.join(KILL)];
        match files.iter().try_for_each(|file| OpenOptions::new().write(true).open(file).map(drop)) {
            Ok(()) => Ok(group),
            Err(error) => {
                group.remove();
                Err(error)
            }
        }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The processes in the group and in the groups below it.
    pub(crate) fn processes(&self) -> Vec<i32> {
        let mut processes = Vec::new();
        each_below(&self.folder, DEPTH, &mut |folder| {
            let listed = fs::read_to_string(folder.join(PROCESSES)).unwrap_or_default();
            processes.extend(listed.lines().filter_map(|line| line.parse::<i32>().ok()));
        });
        processes
    }

    /// SIGKILL to all of them, also to those that they start meanwhile.
    pub(crate) fn kill(&self) {
        // A group that is gone has nothing to be ended.
        let _ = OpenOptions::new()
            .write(true)
            .open(self.folder.join(KILL))
            .and_then(|mut file| file.write_all(b"1"));
    }

    /// Kills what is in the group, waits until nothing is, and removes it. Without a limit it waits for as long as that
    /// takes. Returns whether nothing is left.
    pub(crate) fn end(&self, limit: Option<Duration>) -> bool {
        self.kill();
        let is_empty = self.await_empty(limit).unwrap_or(true);
        if is_empty {
            self.remove();
        }
        is_empty
    }

    /// # Errors
    /// The group is gone.
    fn await_empty(&self, limit: Option<Duration>) -> io::Result<bool> {
        let started = Instant::now();
        let mut events = File::open(self.folder.join(EVENTS))?;
        loop {
            let mut said = String::new();
            events.rewind()?;
            events.read_to_string(&mut said)?;
            if !said.lines().any(|line| line == "populated 1") {
                return Ok(true);
            }
            let left = limit.map(|limit| limit.saturating_sub(started.elapsed()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(false);
            }
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            // The kernel announces a change of the file since it was read.
            match poll(&mut [PollFd::new(&events, PollFlags::PRI)], left.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Removes the group with those that its processes made in it. What cannot be removed has a process again, or is not
    /// ours to remove.
    fn remove(&self) {
        let mut folders = Vec::new();
        each_below(&self.folder, DEPTH, &mut |folder| folders.push(folder.to_owned()));
        // A group comes after the one that it is in.
        for folder in folders.iter().rev() {
            let _ = fs::remove_dir(folder);
        }
    }
}

/// Moves this process into the group.
///
/// # Errors
/// The group is gone, or does not take it.
pub(crate) fn enter(folder: &Path) -> io::Result<()> {
    OpenOptions::new().write(true).open(folder.join(PROCESSES))?.write_all(b"0")
}

/// The groups of this mark, or of all marks that begin with it.
pub(crate) fn find(mark: &[u8], whole: bool) -> Vec<ControlGroup> {
    let name = name_of(mark);
    let mut found = Vec::new();
    let Ok(hierarchy) = Hierarchy::read() else { return found };
    each_below(&hierarchy.mounted_at, DEPTH, &mut |folder| {
        let is_one = folder.file_name().is_some_and(|other| match whole {
            true => other == name,
            false => other.as_bytes().starts_with(name.as_bytes()),
        });
        if is_one {
            found.push(ControlGroup { folder: folder.to_owned() });
        }
    });
    found
}

/// Finds out whether commands get control groups of their own, by making a group as a shim does. Returns its folder, which
/// is removed again.
///
/// # Errors
/// Why they get none.
pub fn try_control_groups() -> io::Result<PathBuf> {
    let group = ControlGroup::make(OsStr::new(&format!("trial/{}", uuid::Uuid::now_v7())))?;
    group.remove();
    Ok(group.folder)
}

/// A mark has a folder and a lock with a slash between them, which no name of a group can have.
fn name_of(mark: &[u8]) -> OsString {
    let mark = mark.iter().map(|byte| if *byte == b'/' { b'.' } else { *byte });
    OsString::from_vec(PREFIX.iter().copied().chain(mark).collect())
}

/// Calls it for the folder and for all folders below it, outer ones first.
fn each_below(folder: &Path, depth: usize, call: &mut impl FnMut(&Path)) {
    call(folder);
    let Some(depth) = depth.checked_sub(1) else { return };
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            each_below(&entry.path(), depth, call);
        }
    }
}

/// Where the file system of the groups is mounted, and the group that is seen there.
#[derive(Debug, PartialEq, Eq)]
struct Hierarchy {
    mounted_at: PathBuf,
    root: PathBuf,
}

impl Hierarchy {
    fn read() -> io::Result<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo")?;
        let missing = || io::Error::new(io::ErrorKind::NotFound, "no cgroup2 file system is mounted");
        mounts.lines().find_map(Self::of_line).ok_or_else(missing)
    }

    /// `31 23 0:28 / /sys/fs/cgroup rw,relatime shared:4 - cgroup2 cgroup2 rw`. A path with a space in it is written with
    /// a backslash, and nobody mounts it there.
    fn of_line(line: &str) -> Option<Self> {
        let (mount, file_system) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(3);
        let (root, mounted_at) = (fields.next()?, fields.next()?);
        let is_ours = file_system.split(' ').next() == Some("cgroup2") && !mount.contains('\\');
        is_ours.then(|| Self { mounted_at: mounted_at.into(), root: root.into() })
    }
}

/// The folder of the group in which this process is.
fn own_folder() -> io::Result<PathBuf> {
    let hierarchy = Hierarchy::read()?;
    let groups = fs::read_to_string("/proc/self/cgroup")?;
    let unseen =
        || io::Error::new(io::ErrorKind::NotFound, "the control group of this process is not visible");
    let own = groups.lines().find_map(|line| line.strip_prefix("0::")).ok_or_else(unseen)?;
    let below = Path::new(own).strip_prefix(&hierarchy.root).map_err(|_| unseen())?;
    // With `..` in it, the group is outside of what is seen here.
    match below.components().all(|part| matches!(part, std::path::Component::Normal(_))) {
        true => Ok(hierarchy.mounted_at.join(below)),
        false => Err(unseen()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: Option<(&str, &str)>) {
        let expected =
            expected.map(|(mounted_at, root)| Hierarchy { mounted_at: mounted_at.into(), root: root.into() });
        assert_eq!(Hierarchy::of_line(line), expected);
    }

    #[test]
    fn the_file_system_of_groups_is_found_among_the_mounts() {
        check(
            "38 31 0:37 / /sys/fs/cgroup rw,relatime shared:4 master:1 - cgroup2 cgroup2 rw,nsdelegate",
            Some(("/sys/fs/cgroup", "/")),
        );
        check("38 31 0:37 /a/b /groups rw - cgroup2 none rw", Some(("/groups", "/a/b")));
        check("31 23 0:28 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu", None);
        check("31 23 0:28 / /a\\040b rw - cgroup2 cgroup2 rw", None);
        check("31 23 0:28", None);
    }

    #[test]
    fn the_name_of_a_group_is_one_name_and_begins_with_that_of_its_folder() {
        let whole = name_of(b"1-2-3/lock");
        assert_eq!(whole, "capataz.1-2-3.lock");
        assert!(whole.as_bytes().starts_with(name_of(b"1-2-3/").as_bytes()));
        assert!(!whole.as_bytes().starts_with(name_of(b"1-2-33/").as_bytes()));
    }
}
