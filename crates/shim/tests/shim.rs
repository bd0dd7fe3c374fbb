//! What a shim does beside what the tests of process agents show: it removes the command's folder, and passes pipes on.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use capataz_shim::{
    FIRST_PIPE, HEADER_BYTES, Invocation, Report, SECOND_PIPE, Shim, ShimCommand, await_orphans,
};
use command_fds::{CommandFdExt, FdMapping};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;

const LIMIT: std::time::Duration = std::time::Duration::from_secs(60);

struct Bench {
    folder: TempDir,
}

impl Bench {
    fn new() -> Self {
        let bench = Self { folder: tempfile::tempdir().unwrap() };
        fs::create_dir_all(bench.own().join("deep/er")).unwrap();
        fs::write(bench.own().join("deep/er/file"), "text").unwrap();
        bench
    }

    /// The folder that the command gives away.
    fn own(&self) -> PathBuf {
        self.folder.path().join("own")
    }

    fn locks(&self) -> PathBuf {
        self.folder.path().join("locks")
    }

    fn sh(&self, script: &str) -> Invocation {
        Invocation {
            program: "sh".into(),
            arguments: ["-c".into(), script.into()].into(),
            working_directory: Some(self.folder.path().into()),
            remove: Some(self.own()),
            pipes: false,
        }
    }

    /// Starts the command and lets it run.
    async fn start(&self, invocation: &Invocation, pipes: Vec<FdMapping>) -> Shim {
        let command = ShimCommand { program: env!("CARGO_BIN_EXE_shim_host").into(), args: Vec::new() };
        let mut shim = Shim::start(&command, &self.locks(), invocation, |command| {
            command.stdout(Stdio::null()).as_std_mut().fd_mappings(pipes).map_err(std::io::Error::other)?;
            Ok(())
        })
        .unwrap();
        assert_eq!(shim.reports.next().await, Some(Report::Ready));
        shim.orders.write_all(&[0; HEADER_BYTES]).await.unwrap();
        shim
    }
}

async fn started(shim: &mut Shim) -> Pid {
    match shim.reports.next().await {
        Some(Report::Started { pid }) => Pid::from_raw(pid).unwrap(),
        other => unreachable!("{other:?}"),
    }
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).unwrap().next().is_none()
}

#[tokio::test]
async fn the_folder_is_gone_when_a_command_has_ended_by_itself() {
    let bench = Bench::new();
    // What it leaves behind writes for as long as it lives.
    let script = "setsid sh -c 'while :; do echo x > own/$$.$(date +%N); done' & until ls own/*.* 2>&1; do :; done; exit 3";
    let mut shim = bench.start(&bench.sh(script), Vec::new()).await;
    started(&mut shim).await;
    assert_eq!(shim.reports.next().await, Some(Report::Exited { code: 3 }));
    assert_eq!(shim.reports.next().await, None);
    assert!(!bench.own().exists());
    assert!(is_empty(&bench.locks()));
}

#[tokio::test]
async fn the_folder_is_gone_when_the_parent_is() {
    let bench = Bench::new();
    let mut shim = bench.start(&bench.sh("exec sleep 600"), Vec::new()).await;
    let command = started(&mut shim).await;
    // All that a parent which was killed leaves is a closed socket.
    let Shim { mut process, reports, orders, .. } = shim;
    drop((reports, orders));
    process.wait().await.unwrap();
    assert!(!bench.own().exists());
    assert!(test_kill_process(command).is_err());
    assert_eq!(await_orphans(&bench.locks(), LIMIT).unwrap(), 0);
}

#[tokio::test]
async fn a_folder_stays_where_no_shim_could_take_its_lock() {
    let bench = Bench::new();
    fs::write(bench.locks(), "not a folder").unwrap();
    let command = ShimCommand { program: env!("CARGO_BIN_EXE_shim_host").into(), args: Vec::new() };
    let mut shim = Shim::start(&command, &bench.locks(), &bench.sh("true"), |_| Ok(())).unwrap();
    assert!(matches!(shim.reports.next().await, Some(Report::Refused { .. })));
    assert_eq!(shim.reports.next().await, None);
    assert!(bench.own().exists());
}

#[tokio::test]
async fn the_command_alone_holds_its_pipes() {
    let bench = Bench::new();
    let (input, mut ours_to_write) = pipe();
    let (mut ours_to_read, output) = pipe();
    let pipes = vec![
        FdMapping { parent_fd: input.into(), child_fd: FIRST_PIPE },
        FdMapping { parent_fd: output.into(), child_fd: SECOND_PIPE },
    ];
    // It gives its end up and lives on: end of file comes only if neither the shim nor this process holds that end.
    let script = "read word <&3; echo heard $word >&4; exec 4>&-; exec sleep 600";
    let mut shim = bench.start(&Invocation { pipes: true, ..bench.sh(script) }, pipes).await;
    let command = started(&mut shim).await;
    ours_to_write.write_all(b"hello\n").unwrap();
    let reading = tokio::task::spawn_blocking(move || {
        let mut answer = String::new();
        ours_to_read.read_to_string(&mut answer).map(|_| answer)
    });
    assert_eq!(reading.await.unwrap().unwrap(), "heard hello\n");
    kill_process(command, Signal::KILL).unwrap();
    assert_eq!(shim.reports.next().await, Some(Report::Signalled { signal: 9 }));
}

fn pipe() -> (File, File) {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    (read.into(), write.into())
}
