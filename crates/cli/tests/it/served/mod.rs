//! The program as a daemon in a process of its own, as people start it.

#![allow(dead_code, reason = "each of the two test programs uses its part of it")]

pub mod browsers;
pub mod collector;
pub mod kills;

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};

use capataz_client::Client;
use capataz_contracts::v1::RunKind;
use capataz_shard::replay::replay;
use capataz_store::{RunQuery, SqliteOptions, SqliteStore, Store};

/// A daemon that ends with the test.
pub struct Served {
    process: Child,
    address: String,
    folder: PathBuf,
    /// True if the rows of the folder are not compared at the end: another daemon goes on in it, or the test looks itself.
    is_followed: bool,
}

impl Served {
    /// Starts a daemon on a free port, with this configuration and its data in the folder's `data`.
    pub fn start(folder: &Path, config: &str) -> Self {
        std::fs::write(folder.join("capataz.toml"), config).unwrap();
        Self::listen(folder, "127.0.0.1:0")
    }

    /// The same by a shell that runs these commands before.
    pub fn start_after(folder: &Path, config: &str, commands: &str) -> Self {
        std::fs::write(folder.join("capataz.toml"), config).unwrap();
        let mut shell = Command::new("sh");
        shell.env("LC_ALL", "C");
        shell.args(["-c", &format!("{commands}; exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_capataz")]);
        Self::listen_by(shell, folder, "127.0.0.1:0")
    }

    fn listen(folder: &Path, address: &str) -> Self {
        Self::listen_by(Command::new(env!("CARGO_BIN_EXE_capataz")), folder, address)
    }

    fn listen_by(mut program: Command, folder: &Path, address: &str) -> Self {
        let mut process = program
            .args(["serve", "--json", "--listen", address, "--config"])
            .arg(folder.join("capataz.toml"))
            .arg("--data-dir")
            .arg(folder.join("data"))
            .stdout(Stdio::piped())
            .stderr(OpenOptions::new().create(true).append(true).open(folder.join("log")).unwrap())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let said: serde_json::Value = serde_json::from_str(&line).expect("the daemon says where it listens");
        let address = said["address"].as_str().ok_or(&said).unwrap().to_owned();
        Self { process, address, folder: folder.to_owned(), is_followed: false }
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub async fn client(&self) -> Client {
        Client::connect(&self.url()).await.unwrap()
    }

    pub fn process_id(&self) -> u32 {
        self.process.id()
    }

    /// Sends a signal, such as `TERM`, to the daemon.
    pub fn signal(&self, name: &str) {
        let pid = self.process.id().to_string();
        assert!(Command::new("kill").args(["-s", name, pid.as_str()]).status().unwrap().success());
    }

    /// What the daemons of this folder have said on stderr.
    pub fn said(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap()
    }

    /// Starts another daemon at the same address, after this one has ended.
    pub fn start_again(mut self) -> Self {
        self.process.wait().unwrap();
        self.is_followed = true;
        Self::listen(&self.folder, &self.address)
    }

    /// Waits until the daemon ends by itself.
    pub fn ended(&mut self) -> ExitStatus {
        self.process.wait().unwrap()
    }

    /// The processes of the open browsers.
    pub async fn browsers(&self) -> Vec<u32> {
        let open = self.client().await.list_browsers().await.unwrap();
        open.browsers.iter().map(|browser| browser.process_id).collect()
    }

    /// Kills the daemon with SIGKILL. What it leaves is not compared.
    pub fn killed(mut self) {
        self.is_followed = true;
    }

    /// Kills the daemon with SIGKILL, and starts another one at the same address that continues its work.
    pub fn kill_and_start(mut self) -> Self {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.is_followed = true;
        Self::listen(&self.folder, &self.address)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if !self.is_followed && !std::thread::panicking() {
            rows_follow_from_their_logs(&self.folder);
            every_run_is_replayed(&self.folder);
        }
    }
}

/// Runs `capataz rebuild` on the folder's `data`.
pub fn rebuild(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_capataz"));
    command.env("LC_ALL", "C");
    command.arg("rebuild").args(arguments).arg("--data-dir").arg(folder.join("data"));
    command.current_dir(folder).output().unwrap()
}

/// What queries read is what follows from the logs, however the daemon has ended.
fn rows_follow_from_their_logs(folder: &Path) {
    let checked = rebuild(folder, &["--check"]);
    let said = String::from_utf8_lossy(&checked.stdout);
    assert!(checked.status.success(), "{said}{}", String::from_utf8_lossy(&checked.stderr));
}

/// What `capataz runs replay` says of each run that the test has made: its events say what is stored of it, snapshots too.
fn every_run_is_replayed(folder: &Path) {
    let store = SqliteStore::open_as_it_is(&folder.join("data"), SqliteOptions::default()).unwrap();
    let except_kind = Some(RunKind::Session as i32);
    let query = RunQuery { except_kind, limit: u32::MAX, ..RunQuery::default() };
    for row in store.list_runs(&query).unwrap().into_iter().filter(|row| row.quarantine.is_none()) {
        // What a test has damaged, it has looked at itself.
        let Ok(replayed) = replay(&store, row.run) else { continue };
        let differences = replayed.unwrap().differences;
        assert!(differences.is_empty(), "{}: {differences:#?}", row.run);
    }
}
