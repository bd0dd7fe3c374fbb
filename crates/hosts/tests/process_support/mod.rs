//! What the tests of process agents share.
#![allow(dead_code)] // Each test file uses its part.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use capataz_hosts::Order;
use capataz_hosts::commands::{Call, Places, ProcessAgent, ProcessContext, ProcessOutcome, ShimCommand, run};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::sync::mpsc;

/// The helper executable.
pub const HOST: &str = env!("CARGO_BIN_EXE_process_agent_host");

/// How long a condition may take to come true before the test fails. Nothing waits for it in the good case.
const DEADLINE: Duration = Duration::from_secs(60);

pub fn sh(script: &str) -> ProcessAgent {
    ProcessAgent::new("script", ["sh", "-c", script])
}

/// A folder of its own and what is needed to run agents in it.
pub struct Bench {
    folder: TempDir,
    pub context: ProcessContext,
}

impl Bench {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let context = ProcessContext {
            shim: ShimCommand { program: HOST.into(), args: vec!["__shim".into()] },
            shims_folder: folder.path().join("shims"),
            secrets: Arc::new(|name: &str| (name == "KEY").then(|| "hunter2-hunter2".to_owned())),
            places: Places::default(),
        };
        Self { folder, context }
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub async fn run(&self, agent: &ProcessAgent, input: &str) -> ProcessOutcome {
        assert_eq!(agent.validate(), []);
        let (_sender, receiver) = mpsc::channel(1);
        let call = Call { input: Bytes::copy_from_slice(input.as_bytes()), ..Call::default() };
        tokio::time::timeout(DEADLINE, run(agent, &self.context, call, receiver, |_| {})).await.unwrap()
    }

    /// Runs the agent while `act` does something to it.
    pub async fn run_while<T>(
        &self,
        agent: &ProcessAgent,
        act: impl AsyncFnOnce(mpsc::Sender<Order>, &Self) -> T,
    ) -> (ProcessOutcome, T) {
        let (sender, receiver) = mpsc::channel(4);
        let run = run(agent, &self.context, Call::default(), receiver, |_| {});
        let both = async { tokio::join!(run, act(sender, self)) };
        tokio::time::timeout(DEADLINE, both).await.unwrap()
    }

    /// A shell command that leaves the shell's process id in the file of this name.
    pub fn mark(&self, name: &str) -> String {
        let path = self.path(name);
        format!("echo $$ > {path}.new; mv {path}.new {path}")
    }

    pub fn path(&self, name: &str) -> String {
        self.folder().join(name).to_str().unwrap().to_owned()
    }

    pub fn is_marked(&self, name: &str) -> bool {
        Path::new(&self.path(name)).exists()
    }

    pub fn marked(&self, name: &str) -> i32 {
        fs::read_to_string(self.path(name)).unwrap().trim().parse().unwrap()
    }

    pub fn lock_files(&self) -> usize {
        fs::read_dir(&self.context.shims_folder).map_or(0, Iterator::count)
    }
}

/// Waits until the condition holds.
pub async fn eventually(condition: impl Fn() -> bool) {
    #[expect(clippy::disallowed_methods, reason = "bounds how long a failing test waits")]
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < DEADLINE, "the condition never came true");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Whether the process runs. One that has ended and was not reaped does not.
pub fn is_alive(pid: i32) -> bool {
    fields(pid).is_some_and(|fields| !matches!(fields.first().map(String::as_str), Some("Z" | "X")))
}

pub fn is_asleep(pid: i32) -> bool {
    fields(pid).is_some_and(|fields| fields.first().map(String::as_str) == Some("S"))
}

pub fn parent(pid: i32) -> Option<i32> {
    fields(pid)?.get(1)?.parse().ok()
}

/// `/proc/<pid>/stat` from the third field on.
fn fields(pid: i32) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(stat.rsplit_once(')')?.1.split_ascii_whitespace().map(str::to_owned).collect())
}

pub fn kill(pid: i32) {
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

pub fn signal(pid: i32, name: &str) {
    let signal = match name {
        "TERM" => Signal::TERM,
        "INT" => Signal::INT,
        "HUP" => Signal::HUP,
        "QUIT" => Signal::QUIT,
        _ => panic!("{name}"),
    };
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

/// The most memory that this process ever had, in bytes.
pub fn peak_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() * 1024
}
