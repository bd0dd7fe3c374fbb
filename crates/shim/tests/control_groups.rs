//! What only a control group makes certain. Where this machine allows none, each of these tests names itself as skipped, and
//! `cargo xtask test` lists them at its end.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use capataz_shim::{
    HEADER_BYTES, Invocation, LEASE_VARIABLE, Report, Shim, ShimCommand, await_orphans, try_control_groups,
};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;

const LIMIT: Duration = Duration::from_secs(60);

/// A command with a grandchild that has left its session and its environment. It writes its group, and the number of that
/// process, and waits for the file `go`.
const LEAVER: &str = "grep ^0:: /proc/self/cgroup > group; \
    setsid env -i sh -c 'echo $$ > pid.new; mv pid.new pid; exec sleep 600' & \
    until [ -e go ]; do sleep 0.01; done; exit 3";

struct Bench {
    folder: TempDir,
}

impl Bench {
    /// Nothing where no control groups can be made, which is said.
    fn new(test: &str) -> Option<Self> {
        match try_control_groups() {
            Ok(_) => Some(Self { folder: tempfile::tempdir().unwrap() }),
            Err(error) => {
                skipped(&format!(
                    "capataz-shim::control_groups {test}: no control group can be made: {error}"
                ));
                None
            }
        }
    }

    fn locks(&self) -> PathBuf {
        self.folder.path().join("locks")
    }

    async fn start(&self, script: &str) -> Shim {
        let command = ShimCommand { program: env!("CARGO_BIN_EXE_shim_host").into(), args: Vec::new() };
        let invocation = Invocation {
            program: "sh".into(),
            arguments: ["-c".into(), script.into()].into(),
            working_directory: Some(self.folder.path().into()),
            ..Invocation::default()
        };
        let prepare = |command: &mut tokio::process::Command| {
            command.stdout(Stdio::null());
            Ok(())
        };
        let mut shim = Shim::start(&command, &self.locks(), &invocation, prepare).unwrap();
        assert_eq!(shim.reports.next().await, Some(Report::Ready));
        shim.orders.write_all(&[0; HEADER_BYTES]).await.unwrap();
        assert!(matches!(shim.reports.next().await, Some(Report::Started { .. })));
        shim
    }

    async fn written(&self, name: &str) -> String {
        let path = self.folder.path().join(name);
        let until = tokio::time::Instant::now() + LIMIT;
        loop {
            match fs::read_to_string(&path) {
                Ok(text) if text.ends_with('\n') => return text.trim().to_owned(),
                _ => assert!(tokio::time::Instant::now() < until, "{name} never came"),
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn leaver(&self) -> Pid {
        Pid::from_raw(self.written("pid").await.parse().unwrap()).unwrap()
    }

    fn go(&self) {
        fs::write(self.folder.path().join("go"), "").unwrap();
    }
}

/// Says so where `cargo xtask test` reads it.
#[expect(clippy::disallowed_methods, reason = "where to say so is told by whoever runs the tests")]
fn skipped(line: &str) {
    eprintln!("SKIPPED  {line}");
    if let Some(list) = std::env::var_os("CAPATAZ_SKIPPED") {
        let list = fs::OpenOptions::new().create(true).append(true).open(list);
        list.unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
    }
}

/// The folder of a group, as `/proc` names it.
fn folder_of(group: &str) -> PathBuf {
    let trial = try_control_groups().unwrap();
    let below = Path::new(group.strip_prefix("0::/").unwrap());
    // The trial's group is beside the command's, whose name is the last part.
    trial.with_file_name(below.file_name().unwrap())
}

fn is_alive(process: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero())).unwrap_or_default();
    let state = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next());
    test_kill_process(process).is_ok() && !matches!(state, Some("Z" | "X"))
}

#[tokio::test]
async fn a_command_has_a_group_of_its_own_that_goes_with_it() {
    let Some(bench) = Bench::new("a_command_has_a_group_of_its_own_that_goes_with_it") else { return };
    let mut shim = bench.start(LEAVER).await;
    let leaver = bench.leaver().await;
    let group = folder_of(&bench.written("group").await);
    let listed = fs::read_to_string(group.join("cgroup.procs")).unwrap();
    assert!(listed.lines().any(|line| line == leaver.as_raw_nonzero().to_string()), "{listed}");
    let shim_process = shim.process.id().unwrap().to_string();
    assert!(!listed.lines().any(|line| line == shim_process), "the shim is not in it");
    bench.go();
    assert_eq!(shim.reports.next().await, Some(Report::Exited { code: 3 }));
    assert_eq!(shim.reports.next().await, None);
    assert!(!is_alive(leaver));
    assert!(!group.exists());
}

#[tokio::test]
async fn what_has_left_session_and_environment_ends_with_a_killed_shim() {
    let Some(bench) = Bench::new("what_has_left_session_and_environment_ends_with_a_killed_shim") else {
        return;
    };
    let mut shim = bench.start(LEAVER).await;
    let leaver = bench.leaver().await;
    let group = folder_of(&bench.written("group").await);
    let environment = fs::read(format!("/proc/{}/environ", leaver.as_raw_nonzero())).unwrap();
    assert!(!String::from_utf8_lossy(&environment).contains(LEASE_VARIABLE));
    shim.process.kill().await.unwrap();
    assert_eq!(shim.reports.next().await, None);
    assert!(is_alive(leaver), "nothing else ends it");
    assert!(shim.mark.end_strays(LIMIT).unwrap() >= 1);
    assert!(!is_alive(leaver));
    assert!(!group.exists());
}

#[tokio::test]
async fn the_next_parent_ends_the_groups_of_its_folder_and_no_others() {
    let Some(bench) = Bench::new("the_next_parent_ends_the_groups_of_its_folder_and_no_others") else {
        return;
    };
    let other = Bench::new("the_next_parent_ends_the_groups_of_its_folder_and_no_others").unwrap();
    let mut killed = bench.start(LEAVER).await;
    let mut kept = other.start(LEAVER).await;
    let (leaver, others) = (bench.leaver().await, other.leaver().await);
    killed.process.kill().await.unwrap();
    assert_eq!(await_orphans(&bench.locks(), LIMIT).unwrap(), 0, "no shim is left to wait for");
    assert!(!is_alive(leaver));
    assert!(is_alive(others), "another folder's are left alone");
    other.go();
    assert_eq!(kept.reports.next().await, Some(Report::Exited { code: 3 }));
}

#[tokio::test]
async fn groups_that_a_command_made_itself_go_with_its_own() {
    let Some(bench) = Bench::new("groups_that_a_command_made_itself_go_with_its_own") else { return };
    let trial = try_control_groups().unwrap();
    let parent = trial.parent().unwrap().to_str().unwrap();
    let script = format!(
        "name=$(sed -n 's|^0::.*/||p' /proc/self/cgroup); own={parent}/$name; mkdir -p $own/a/b; \
         (setsid env -i sh -c \"echo 0 > $own/a/b/cgroup.procs; echo \\$\\$ > pid; exec sleep 600\" &); \
         until [ -e go ]; do sleep 0.01; done; exit 3"
    );
    let mut shim = bench.start(&script).await;
    let leaver = bench.leaver().await;
    shim.process.kill().await.unwrap();
    assert!(shim.mark.end_strays(LIMIT).unwrap() >= 1);
    assert!(!is_alive(leaver));
    let left = fs::read_dir(parent).unwrap().flatten();
    let name = shim_group_name(&shim);
    assert!(!left.into_iter().any(|entry| entry.file_name().to_string_lossy() == name));
}

/// The name of the group of this shim's command.
fn shim_group_name(shim: &Shim) -> String {
    let mark = format!("{:?}", shim.mark);
    let mark = mark.split('"').nth(1).unwrap();
    format!("capataz.{}", mark.replace('/', "."))
}

#[tokio::test]
async fn a_command_runs_without_a_group_where_none_can_be_made() {
    let Some(bench) = Bench::new("a_command_runs_without_a_group_where_none_can_be_made") else { return };
    let full = try_control_groups().unwrap().with_file_name(format!("capataz-full-{}", std::process::id()));
    fs::create_dir(&full).unwrap();
    fs::write(full.join("cgroup.max.descendants"), "0").unwrap();
    // A shim in a group that can have no other below it.
    let wrapper = bench.folder.path().join("shim");
    let program = env!("CARGO_BIN_EXE_shim_host");
    let text = format!("#!/bin/sh\necho 0 > {}/cgroup.procs\nexec {program} \"$@\"\n", full.display());
    fs::write(&wrapper, text).unwrap();
    fs::set_permissions(&wrapper, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let command = ShimCommand { program: wrapper, args: Vec::new() };
    let invocation = Invocation {
        program: "sh".into(),
        arguments: ["-c".into(), LEAVER.into()].into(),
        working_directory: Some(bench.folder.path().into()),
        ..Invocation::default()
    };
    let mut shim = Shim::start(&command, &bench.locks(), &invocation, |_| Ok(())).unwrap();
    assert_eq!(shim.reports.next().await, Some(Report::Ready));
    shim.orders.write_all(&[0; HEADER_BYTES]).await.unwrap();
    assert!(matches!(shim.reports.next().await, Some(Report::Started { .. })));
    let leaver = bench.leaver().await;
    assert!(bench.written("group").await.ends_with(full.file_name().unwrap().to_str().unwrap()));
    bench.go();
    assert_eq!(shim.reports.next().await, Some(Report::Exited { code: 3 }));
    assert_eq!(shim.reports.next().await, None);
    // The shim is a subreaper, so that nothing is left all the same.
    assert!(!is_alive(leaver));
    shim.process.wait().await.unwrap();
    fs::remove_dir(&full).unwrap();
}

#[tokio::test]
async fn what_has_left_session_and_environment_ends_when_the_parent_does() {
    // This needs no group: the shim is a subreaper.
    let bench = Bench { folder: tempfile::tempdir().unwrap() };
    let shim = bench.start(LEAVER).await;
    let leaver = bench.leaver().await;
    let Shim { mut process, reports, orders, .. } = shim;
    drop((reports, orders));
    process.wait().await.unwrap();
    assert!(!is_alive(leaver));
    assert!(kill_process(leaver, Signal::KILL).is_err());
}
