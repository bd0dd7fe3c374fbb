//! What a daemon that was killed leaves behind, and the next daemon's wait for it.

#![expect(clippy::disallowed_types, reason = "starts a host as a program, to kill it")]
#![allow(clippy::unwrap_used)]

mod process_support;

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use capataz_hosts::commands::{AwaitOrphansError, await_orphans};
use process_support::{Bench, HOST, eventually, is_alive};
use rustix::fs::{FlockOperation, flock};

const LIMIT: Duration = Duration::from_secs(60);

#[tokio::test]
async fn nothing_survives_the_death_of_the_daemon() {
    let bench = Bench::new();
    let shims = bench.context.shims_folder.clone();
    // Hundreds of processes, half of them in sessions of their own, so that ending them takes a moment.
    let script = format!(
        "i=0; while [ $i -lt 100 ]; do i=$((i+1)); sleep 600 & setsid sh -c 'echo $$ >> {pids}; sleep 600; :' & done; \
         until [ $(wc -l < {pids}) -eq 100 ]; do sleep 0.01; done; {ready}; sleep 600",
        pids = bench.path("pids"),
        ready = bench.mark("ready"),
    );
    let mut daemon = Command::new(HOST)
        .arg("run")
        .arg(&shims)
        .args(["sh", "-c", &script])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    eventually(|| bench.is_marked("ready")).await;
    let mut pids: Vec<i32> =
        fs::read_to_string(bench.path("pids")).unwrap().lines().map(|line| line.parse().unwrap()).collect();
    pids.push(bench.marked("ready"));
    assert!(pids.iter().all(|pid| is_alive(*pid)));

    daemon.kill().unwrap();
    daemon.wait().unwrap();
    // One, unless everything was over before anybody looked.
    let count = await_orphans(&shims, LIMIT).unwrap();
    assert!(count <= 1, "{count}");
    let alive: Vec<i32> = pids.into_iter().filter(|pid| is_alive(*pid)).collect();
    assert!(alive.is_empty(), "{alive:?}");
    assert_eq!(bench.lock_files(), 0);
    assert_eq!(await_orphans(&shims, LIMIT).unwrap(), 0);
}

#[test]
fn no_folder_means_no_orphans() {
    assert_eq!(await_orphans(Path::new("/no/such/folder"), LIMIT).unwrap(), 0);
}

fn hold(folder: &Path, name: &str) -> File {
    let file = File::create(folder.join(name)).unwrap();
    flock(&file, FlockOperation::LockExclusive).unwrap();
    file
}

#[test]
fn stale_files_are_removed_and_others_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    File::create(folder.path().join("old.lock")).unwrap();
    File::create(folder.path().join("notes.txt")).unwrap();
    assert_eq!(await_orphans(folder.path(), LIMIT).unwrap(), 0);
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["notes.txt"]);
}

/// Whether somebody waits for the lock of this file.
fn is_awaited(file: &File) -> bool {
    let inode = format!(":{}", file.metadata().unwrap().ino());
    let locks = fs::read_to_string("/proc/locks").unwrap();
    locks
        .lines()
        .any(|line| line.contains("->") && line.split_whitespace().any(|field| field.ends_with(&inode)))
}

#[tokio::test]
async fn the_wait_ends_with_the_last_holder() {
    let folder = tempfile::tempdir().unwrap();
    let mut held = vec![hold(folder.path(), "a.lock"), hold(folder.path(), "b.lock")];
    let path = folder.path().to_owned();
    let waiting = std::thread::spawn(move || await_orphans(&path, LIMIT).unwrap());
    while !held.is_empty() {
        eventually(|| held.iter().any(is_awaited)).await;
        assert!(!waiting.is_finished());
        held.retain(|file| !is_awaited(file));
    }
    assert_eq!(waiting.join().unwrap(), 2);
}

#[test]
fn the_wait_is_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let _held = hold(folder.path(), "a.lock");
    let error = await_orphans(folder.path(), Duration::from_millis(20)).unwrap_err();
    assert!(matches!(error, AwaitOrphansError::StillRunning { count: 1, .. }), "{error}");
}
