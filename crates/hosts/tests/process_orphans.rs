//! What a daemon that was killed leaves behind, and the next daemon's wait for it.

#![expect(clippy::disallowed_types, reason = "starts a host as a program, to kill it")]
#![allow(clippy::unwrap_used)]

mod process_support;

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use capataz_hosts::commands::{AwaitOrphansError, ProcessOutcome, await_orphans};
use process_support::{Bench, HOST, eventually, is_alive, sh};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};

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

/// A command with a child, a grandchild in a session of its own, and one whose parent is gone; each writes its number.
fn nest(bench: &Bench) -> String {
    format!(
        "sleep 600 & echo $! >> {pids}; setsid sh -c 'echo $$ >> {pids}; exec sleep 600' & \
         (setsid sh -c 'echo $$ >> {pids}; exec sleep 600' &) ; echo $$ >> {pids}; \
         until [ $(wc -l < {pids}) -eq 4 ]; do sleep 0.01; done; {ready}; wait; sleep 600",
        pids = bench.path("pids"),
        ready = bench.mark("ready"),
    )
}

fn pids(bench: &Bench) -> Vec<i32> {
    fs::read_to_string(bench.path("pids")).unwrap().lines().map(|line| line.parse().unwrap()).collect()
}

/// The shim that has this command.
fn shim_of(command: i32) -> Pid {
    let stat = fs::read_to_string(format!("/proc/{command}/stat")).unwrap();
    let parent = stat.rsplit(')').next().unwrap().split_whitespace().nth(1).unwrap().parse().unwrap();
    Pid::from_raw(parent).unwrap()
}

/// Whether the process is gone with all of its threads, and with what they have held.
fn has_ended(process: Pid) -> bool {
    let process = process.as_raw_nonzero().get();
    let threads = fs::read_dir(format!("/proc/{process}/task")).map_or(0, Iterator::count);
    threads <= 1 && !is_alive(process)
}

#[tokio::test]
async fn nothing_survives_the_death_of_daemon_and_shim_together() {
    let (bench, other) = (Bench::new(), Bench::new());
    let mut daemons = Vec::new();
    for bench in [&bench, &other] {
        let mut command = Command::new(HOST);
        command.arg("run").arg(&bench.context.shims_folder).args(["sh", "-c", &nest(bench)]);
        daemons.push(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap());
    }
    for bench in [&bench, &other] {
        eventually(|| bench.is_marked("ready")).await;
    }
    let command = bench.marked("ready");
    let shim = shim_of(command);
    // Stopped first, so that neither can act on the death of the other.
    let daemon = Pid::from_child(&daemons[0]);
    for process in [daemon, shim] {
        kill_process(process, Signal::STOP).unwrap();
    }
    for process in [daemon, shim] {
        kill_process(process, Signal::KILL).unwrap();
    }
    daemons[0].wait().unwrap();
    // The command goes with its shim, at once and without anybody's help: with the thread that has started it, so that the
    // other threads may still be about to go.
    eventually(|| !is_alive(command)).await;
    eventually(|| has_ended(shim)).await;
    assert_eq!(await_orphans(&bench.context.shims_folder, LIMIT).unwrap(), 0, "no shim is left to wait for");
    let alive: Vec<i32> = pids(&bench).into_iter().filter(|pid| is_alive(*pid)).collect();
    assert!(alive.is_empty(), "{alive:?}");
    let theirs = pids(&other);
    assert!(theirs.len() == 4 && theirs.iter().all(|pid| is_alive(*pid)), "another folder's are left alone");
    daemons[1].kill().unwrap();
    daemons[1].wait().unwrap();
    await_orphans(&other.context.shims_folder, LIMIT).unwrap();
    assert!(!theirs.into_iter().any(is_alive));
}

#[tokio::test]
async fn nothing_of_a_command_is_left_when_its_shim_was_killed() {
    let bench = Bench::new();
    let agent = sh(&nest(&bench));
    let kill_the_shim = async |_, bench: &Bench| {
        eventually(|| bench.is_marked("ready")).await;
        kill_process(shim_of(bench.marked("ready")), Signal::KILL).unwrap();
    };
    let (outcome, ()) = bench.run_while(&agent, kill_the_shim).await;
    assert!(matches!(outcome, ProcessOutcome::Failed { .. }), "{outcome:?}");
    let alive: Vec<i32> = pids(&bench).into_iter().filter(|pid| is_alive(*pid)).collect();
    assert!(alive.is_empty(), "{alive:?}");
}
