//! Who has a data folder: the living daemon that holds its lock, and where that daemon listens.
//!
//! The lock says which process has it. Beside it, the daemon writes where it listens, for commands of the same user that are
//! given the folder and no address. Nobody is signalled who is not proved to hold the lock.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// The file that is locked, and names the process.
pub(crate) const LOCK: &str = "daemon.lock";
/// The file that says where that process listens.
const ADDRESS: &str = "daemon.address";
/// The same while it is written.
const UNFINISHED: &str = "daemon.address.new";
/// Bytes of either file that are read.
const MOST: u64 = 4096;

/// Where a daemon listens, and since when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listening {
    /// The process that listens.
    process: u32,
    pub address: SocketAddr,
    /// The version of its program.
    pub version: String,
    /// When it began to listen, in Unix milliseconds.
    pub since_ms: i64,
}

impl Listening {
    pub(crate) fn here(address: SocketAddr, since_ms: i64) -> Self {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Self { process: std::process::id(), address, version, since_ms }
    }

    /// Writes it into the data folder, whole or not at all.
    pub(crate) fn tell(&self, data_dir: &Path) -> io::Result<()> {
        let unfinished = data_dir.join(UNFINISHED);
        let text = serde_json::to_vec(self)?;
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
        file.write_all(&text)?;
        fs::rename(unfinished, data_dir.join(ADDRESS))
    }
}

/// Nobody listens any more. A file that is not there is none to remove.
pub(crate) fn forget(data_dir: &Path) {
    for name in [ADDRESS, UNFINISHED] {
        let _ = fs::remove_file(data_dir.join(name));
    }
}

/// A living process that holds the lock of a data folder.
#[derive(Debug)]
pub struct Holder {
    process: Pid,
    /// The process itself, and never another one that has its number later.
    handle: OwnedFd,
    listening: Option<Listening>,
}

impl Holder {
    /// The daemon that has the data folder; `None` where none has.
    ///
    /// # Errors
    /// The folder, or what the process has open, may not be looked at: it belongs to another user.
    pub fn of(data_dir: &Path) -> io::Result<Option<Self>> {
        let path = data_dir.join(LOCK);
        let lock = match fs::metadata(&path) {
            Ok(metadata) if metadata.is_file() => File::open(&path)?,
            Ok(_) => return Ok(None),
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut text = String::new();
        (&lock).take(MOST).read_to_string(&mut text)?;
        let Some(process) = text.trim().parse().ok().and_then(Pid::from_raw) else { return Ok(None) };
        let handle = match pidfd_open(process, PidfdFlags::empty()) {
            Ok(handle) => handle,
            Err(Errno::SRCH) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        // The number may be that of another process by now: the daemon has the lock open, and somebody holds it.
        if !holds(has_open(process, &lock), &lock)? {
            return Ok(None);
        }
        let number = u32::try_from(process.as_raw_nonzero().get()).ok();
        let listening = listening(data_dir).filter(|listening| Some(listening.process) == number);
        Ok(Some(Self { process, handle, listening }))
    }

    /// The number of the process.
    #[must_use]
    pub fn process(&self) -> i32 {
        self.process.as_raw_nonzero().get()
    }

    /// Where it listens; `None` as long as it does not yet.
    #[must_use]
    pub fn listening(&self) -> Option<&Listening> {
        self.listening.as_ref()
    }

    /// Asks it to drain and to end, by SIGTERM.
    ///
    /// # Errors
    /// It may not be asked by this user. That it has ended meanwhile is none.
    pub fn ask_to_end(&self) -> io::Result<()> {
        match pidfd_send_signal(&self.handle, Signal::TERM) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until it has ended, at most for `limit`; blocks. Returns whether it has.
    ///
    /// # Errors
    /// The system cannot say.
    pub fn wait(&self, limit: Duration) -> io::Result<bool> {
        let limit = Timespec::try_from(limit).map_err(io::Error::other)?;
        let mut waited = [PollFd::new(&self.handle, PollFlags::IN)];
        match poll(&mut waited, Some(&limit)) {
            Ok(count) => Ok(count > 0),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Whether the process has this very file open. One that has ended has nothing open.
fn has_open(process: Pid, file: &File) -> io::Result<bool> {
    let wanted = file.metadata()?;
    let folder = format!("/proc/{}/fd", process.as_raw_nonzero());
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if is_absent(&error) => return Ok(false),
        Err(error) => return Err(error),
    };
    let mut opened = entries.flatten().filter_map(|entry| fs::metadata(entry.path()).ok());
    Ok(opened.any(|opened| (opened.dev(), opened.ino()) == (wanted.dev(), wanted.ino())))
}

/// Whether a process holds the lock that has it open, or may not be looked at. One of another user is none of ours to look
/// at, and where nobody holds the lock, it only has the number of a daemon that has ended.
fn holds(has_open: io::Result<bool>, lock: &File) -> io::Result<bool> {
    match has_open {
        Ok(has_open) => Ok(has_open && is_held(lock)?),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !is_held(lock)? => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether somebody holds the lock. To find out, it is asked for; where nobody holds it, it is given back at once.
fn is_held(lock: &File) -> io::Result<bool> {
    match lock.try_lock_shared() {
        Ok(()) => lock.unlock().map(|()| false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// What the folder's file says, if it can be read.
fn listening(data_dir: &Path) -> Option<Listening> {
    let path = data_dir.join(ADDRESS);
    // A pipe would be waited for.
    let file = fs::metadata(&path).ok().filter(fs::Metadata::is_file).and_then(|_| File::open(&path).ok())?;
    let mut text = String::new();
    file.take(MOST).read_to_string(&mut text).ok()?;
    let listening: Option<Listening> = serde_json::from_str(&text).ok();
    // A daemon listens on this machine alone.
    listening.filter(|listening| listening.address.ip().is_loopback())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::lock::DataLock;

    fn here() -> Listening {
        Listening::here(SocketAddr::from(([127, 0, 0, 1], 7411)), 12)
    }

    #[test]
    fn a_folder_without_a_daemon_has_no_holder() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Holder::of(&folder.path().join("none")).unwrap().is_none());
        assert!(Holder::of(folder.path()).unwrap().is_none());
        let lock = DataLock::take(folder.path()).unwrap();
        lock.tell(&here()).unwrap();
        drop(lock);
        assert!(Holder::of(folder.path()).unwrap().is_none());
        assert!(!folder.path().join(ADDRESS).exists(), "who has ended has no address");
    }

    #[test]
    fn whoever_holds_the_lock_is_found_with_its_address() {
        let folder = tempfile::tempdir().unwrap();
        let lock = DataLock::take(folder.path()).unwrap();
        let holder = Holder::of(folder.path()).unwrap().unwrap();
        assert_eq!(u32::try_from(holder.process()), Ok(std::process::id()));
        assert_eq!(holder.listening(), None);
        lock.tell(&here()).unwrap();
        let mode = fs::metadata(folder.path().join(ADDRESS)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(Holder::of(folder.path()).unwrap().unwrap().listening(), Some(&here()));
    }

    #[test]
    fn an_address_of_another_process_is_not_the_holders() {
        let folder = tempfile::tempdir().unwrap();
        let _lock = DataLock::take(folder.path()).unwrap();
        Listening { process: 1, ..here() }.tell(folder.path()).unwrap();
        assert_eq!(Holder::of(folder.path()).unwrap().unwrap().listening(), None);
        fs::write(folder.path().join(ADDRESS), "{").unwrap();
        assert_eq!(Holder::of(folder.path()).unwrap().unwrap().listening(), None);
    }

    #[test]
    fn an_address_that_a_killed_daemon_has_left_is_gone_with_the_next_lock() {
        let folder = tempfile::tempdir().unwrap();
        here().tell(folder.path()).unwrap();
        let _lock = DataLock::take(folder.path()).unwrap();
        assert!(!folder.path().join(ADDRESS).exists());
    }

    /// The number of a daemon that has ended may be that of a process of another user by now.
    #[test]
    fn a_process_that_may_not_be_looked_at_is_no_holder_of_a_lock_that_nobody_holds() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(LOCK);
        let (held, asked) = (File::create(&path).unwrap(), File::open(&path).unwrap());
        let refused = || Err(io::ErrorKind::PermissionDenied.into());
        assert!(!holds(refused(), &asked).unwrap());
        held.lock().unwrap();
        assert_eq!(holds(refused(), &asked).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }

    /// A lock that names a process which has nothing to do with it, as after the number was given out again.
    #[test]
    fn a_process_that_only_has_the_number_of_a_daemon_is_no_holder() {
        let folder = tempfile::tempdir().unwrap();
        #[expect(clippy::disallowed_types, reason = "a process of somebody else is needed")]
        let mut other = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        // Held by this process, and open in it alone.
        let lock = File::create(folder.path().join(LOCK)).unwrap();
        lock.lock().unwrap();
        writeln!(&lock, "{}", other.id()).unwrap();
        assert!(Holder::of(folder.path()).unwrap().is_none());
        // Open in the named process, and held by nobody.
        lock.unlock().unwrap();
        fs::write(folder.path().join(LOCK), format!("{}\n", std::process::id())).unwrap();
        assert!(Holder::of(folder.path()).unwrap().is_none());
        assert!(other.try_wait().unwrap().is_none(), "nobody has ended it");
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
