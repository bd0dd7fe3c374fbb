//! The daemon under the recorder: a real `capataz serve` with runs of plans and asks, known by its program alone.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use capataz_shard::rebuild::{self, Told};
use capataz_store::conformance::SHARD;
use capataz_store::sqlite::backup;
use capataz_store::{Mark, SqliteOptions, SqliteStore, Store};
use serde_json::{Value, json};

use crate::Failure;
use crate::facts::{Fact, Known};
use crate::look::Violation;
use crate::power::{DATA, Scratch};
use crate::preload::{Recorder, Setting};
use crate::record::{self, Notes};

/// Runs and asks in one round. The daemon is killed and started again in the middle.
const REQUESTS: u64 = 24;
/// The line on the standard output with which the daemon says where it listens.
const LISTENS: &str = "capataz listens on ";
/// Two waves of the agent that the configuration has.
const PLAN: &str = r#"{"name": "disk", "waves": [
    {"tasks": [{"name": "a", "agent": "copy", "input": {"word": "one"}},
               {"name": "b", "agent": "copy", "input": {"word": "two"}}]},
    {"tasks": [{"name": "c", "agent": "copy", "input": {"before": "${tasks.a.output}"}}]}]}"#;
const CONFIGURATION: &str = "[[agents]]\nname = \"copy\"\ncommand = [\"cat\"]\nmax_concurrency = 2\n";
/// A spec that the daemon answers itself.
const SPEC: &str = include_str!("../../../specs/whispers-of-the-wave.toml");

/// The program `capataz`, and the files that it is given.
#[derive(Debug)]
pub struct Capataz {
    program: PathBuf,
    folder: PathBuf,
}

/// A running daemon, which is killed when this is dropped.
#[derive(Debug)]
struct Daemon {
    process: Child,
    address: String,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Capataz {
    /// # Errors
    /// The files cannot be written.
    pub fn new(program: &Path, base: &Path) -> Result<Self, Failure> {
        let folder = base.join("capataz");
        fs::create_dir_all(folder.join("specs"))?;
        fs::write(folder.join("capataz.toml"), CONFIGURATION)?;
        fs::write(folder.join("plan.json"), PLAN)?;
        fs::write(folder.join("specs/spec.toml"), SPEC)?;
        Ok(Self { program: program.canonicalize()?, folder })
    }

    /// Starts a daemon; `record` changes how.
    fn serve(&self, data: &Path, record: impl FnOnce(&mut Command)) -> Result<Daemon, Failure> {
        let mut command = Command::new(&self.program);
        command.args(["serve", "--listen", "127.0.0.1:0", "--log", "error", "--data-dir"]).arg(data);
        command.current_dir(&self.folder).stdin(Stdio::null()).stdout(Stdio::piped());
        record(&mut command);
        let mut process = command.spawn()?;
        let output = process.stdout.take().ok_or("the daemon has no standard output")?;
        let mut daemon = Daemon { process, address: String::new() };
        for line in BufReader::new(output).lines() {
            if let Some(address) = line?.strip_prefix(LISTENS) {
                daemon.address = address.to_owned();
                return Ok(daemon);
            }
        }
        Err("the daemon does not start".into())
    }

    /// Calls the daemon, and gives what it prints as JSON.
    fn call(&self, daemon: &Daemon, arguments: &[&str]) -> Result<Value, Failure> {
        let mut command = Command::new(&self.program);
        command.args(["--addr", &daemon.address, "--json"]).args(arguments).current_dir(&self.folder);
        let output = command.output()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(format!("{arguments:?} ended with {}: {said}", output.status).into());
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// Has a daemon work under the recorder, and notes what it tells.
    ///
    /// # Errors
    /// The daemon cannot be started, or does not do the work.
    pub fn work(
        &self,
        recorder: &Recorder,
        scratch: &Scratch,
        seed: u64,
        setting: &Setting,
    ) -> Result<(), Failure> {
        let mut notes = Notes::open(&scratch.record)?;
        let data = scratch.root.join(DATA);
        for half in 0..2 {
            if half > 0 {
                record::mend(&scratch.record)?;
            }
            let daemon =
                self.serve(&data, |command| recorder.load(command, &scratch.root, &scratch.record, setting))?;
            for request in 0..REQUESTS / 2 {
                let key = format!("{seed} {half} {request}");
                let said = match request % 3 {
                    0 => self.call(&daemon, &["run", "plan.json", "--key", &key])?,
                    1 => self.call(&daemon, &["ask", "hello", "--session", "one", "--key", &key])?,
                    _ => self.call(&daemon, &["ask", "how are you?", "--key", &key])?,
                };
                let run = [&said["run_id"], &said["request_id"]].into_iter().find_map(Value::as_str);
                let run = run.ok_or("an answer names no run")?.to_owned();
                notes.note(&Fact::Served { run })?;
            }
        }
        Ok(())
    }

    /// Starts the daemon on a folder after a cut, and looks for what was acknowledged.
    ///
    /// # Errors
    /// It does not start, or something is missing.
    pub fn is_served(&self, data: &Path, known: &Known) -> Result<(), Failure> {
        let daemon = self.serve(data, |_| {})?;
        for run in &known.served {
            let said = self.call(&daemon, &["runs", "show", run])?;
            if said["status"] != json!("finished") && said["run"]["status"] != json!("finished") {
                return Err(format!("run {run} was acknowledged as finished, and is now: {said}").into());
            }
        }
        self.call(&daemon, &["run", "plan.json", "--key", "after the cut"]).map(drop)
    }
}

/// Folds every log in a data folder of the daemon, compares all rows with them, and looks for what was acknowledged.
///
/// # Errors
/// The first promise that does not hold.
pub fn look(data: &Path, known: &Known) -> Result<(), Violation> {
    let store = SqliteStore::open(data, SqliteOptions::default())?;
    drop(store.claim(SHARD, Mark(u32::MAX))?);
    let mut wrong = Vec::new();
    rebuild::check(&store, &[SHARD], &mut |told| match told {
        Told::Differs(difference) => wrong.push(difference.to_string()),
        Told::LeftAlone(damage) => wrong.push(format!("{damage:?}")),
        Told::Progress(_) => {}
    })?;
    for run in &known.served {
        let row = run.parse().ok().map(|run| store.get_run(run)).transpose()?.flatten();
        if row.as_ref().and_then(|row| row.summary.finished_at).is_none() {
            wrong.push(format!("run {run} was acknowledged as finished, and there is {row:?}"));
        }
    }
    drop(store);
    let looked_at = backup::verify(data, &mut |_| std::ops::ControlFlow::Continue(()))?;
    if !looked_at.missing.is_empty() || !looked_at.damaged.is_empty() {
        wrong.push(format!("blobs are missing or damaged: {looked_at:?}"));
    }
    if wrong.is_empty() { Ok(()) } else { Err(Violation(wrong.join("; "))) }
}
