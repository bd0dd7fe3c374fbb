//! Where the databases lie, and how fast that is.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::Outcome;

/// A folder's file system.
#[derive(Debug)]
pub(crate) struct Disk {
    pub(crate) path: PathBuf,
    /// Name of the file system, and what is mounted.
    pub(crate) kind: String,
    /// Nothing there survives a power cut.
    pub(crate) is_memory: bool,
}

pub(crate) fn describe(folder: &Path) -> Outcome<Disk> {
    let path = folder.canonicalize()?;
    let magic = rustix::fs::statfs(&path)?.f_type as u64 & 0xFFFF_FFFF;
    let name = match magic {
        0x0102_1994 => "tmpfs",
        0x8584_58F6 => "ramfs",
        0xEF53 => "ext4",
        0x5846_5342 => "xfs",
        0x9123_683E => "btrfs",
        0xF2F5_2010 => "f2fs",
        0x2FC1_2FC1 => "zfs",
        0x794C_7630 => "overlayfs",
        0x6969 => "nfs",
        _ => "file system",
    };
    let kind = match mount_of(&path) {
        Some((device, kind)) => format!("{kind} on {device} (magic {magic:#x}, {name})"),
        None => format!("{name} (magic {magic:#x})"),
    };
    Ok(Disk { path, kind, is_memory: matches!(name, "tmpfs" | "ramfs") })
}

/// Device and type of the innermost mount above `path`.
fn mount_of(path: &Path) -> Option<(String, String)> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let fields = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ');
        Some((words.next()?, words.next()?, words.next()?))
    });
    let above = fields.filter(|(_, folder, _)| path.starts_with(folder));
    let (device, _, kind) = above.max_by_key(|(_, folder, _)| folder.len())?;
    Some((device.to_owned(), kind.to_owned()))
}

/// How many times a second a block of 4 KiB is appended and on the disk.
pub(crate) fn syncs_per_second(folder: &Path, window: Duration) -> Outcome<f64> {
    let path = folder.join("fdatasync");
    let mut file = fs::File::create(&path)?;
    let block = [7; 4096];
    let begin = Instant::now();
    let mut count = 0u32;
    while begin.elapsed() < window {
        file.write_all(&block)?;
        file.sync_data()?;
        count += 1;
    }
    let rate = f64::from(count) / begin.elapsed().as_secs_f64();
    fs::remove_file(path)?;
    Ok(rate)
}

/// Lets the system forget what it has read of these files, so that the next reader goes to the disk.
pub(crate) fn forget_cached(folder: &Path) -> Outcome<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_file() {
            let file = fs::File::open(path)?;
            file.sync_all()?;
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
        }
    }
    Ok(())
}
