//! The processes of the test. None of them outlives the parent, whatever becomes of it.

use std::fs::{self, File};
use std::io::{BufRead, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use capataz_client::Client;
use rustix::process::{Pid, Signal};
use tokio::sync::watch;

use crate::Outcome;
use crate::family::Kin;
use crate::weather::Weather;

/// How long anything may take to come up or to go down.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The daemon's data, in the folder of the test.
const DATA: &str = "data";
/// The daemon's configuration during the storm, and afterwards.
pub(crate) const STORM: &str = "capataz.toml";
pub(crate) const CALM: &str = "calm.toml";
/// What the daemon logs: among the rest, its longest turns.
const LOGGED: &str = "info,capataz_runtime=debug";

/// What all daemons of a test have logged.
pub(crate) fn log_path(folder: &Path) -> PathBuf {
    folder.join("daemon.log")
}

/// A child that is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    input: Option<ChildStdin>,
    /// Calls of this process that have no answer, as it tells on its standard output.
    unanswered: Arc<AtomicI64>,
}

impl Process {
    /// Starts `program` under this binary's subcommand `bound`, so that it dies with the parent. Must be called on the
    /// main thread: to the system, the parent is the thread.
    pub(crate) fn spawn(
        programs: &Programs,
        program: &Path,
        arguments: &[String],
        log: &Path,
    ) -> Outcome<Self> {
        Self::spawn_under(None, programs, program, arguments, log)
    }

    /// The same, with a machine that is what the weather says.
    fn spawn_under(
        weather: Option<&Weather>,
        programs: &Programs,
        program: &Path,
        arguments: &[String],
        log: &Path,
    ) -> Outcome<Self> {
        let log = File::options().create(true).append(true).open(log)?;
        let mut command = Command::new(&programs.chaos);
        command.arg("bound");
        if let Some(weather) = weather {
            command.arg("--preload").arg(&weather.library);
            command.env("CAPATAZ_CHAOS_CONTROL", &weather.control_path);
            command.env("CAPATAZ_CHAOS_DATA", programs.folder.join(DATA));
        }
        command.arg(std::process::id().to_string()).arg(program).args(arguments);
        command.current_dir(&programs.folder).env_remove("CAPATAZ_LISTEN").env_remove("CAPATAZ_DATA_DIR");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().map_err(|error| format!("{}: {error}", program.display()))?;
        let unanswered = Arc::new(AtomicI64::new(0));
        let input = child.stdin.take();
        if let Some(mut output) = child.stdout.take() {
            let unanswered = Arc::clone(&unanswered);
            let count = move || {
                let mut words = [0; 64];
                while let Ok(length @ 1..) = output.read(&mut words) {
                    for word in words.iter().take(length) {
                        match word {
                            b'+' => _ = unanswered.fetch_add(1, Ordering::Relaxed),
                            b'-' => _ = unanswered.fetch_sub(1, Ordering::Relaxed),
                            _ => {}
                        }
                    }
                }
                unanswered.store(0, Ordering::Relaxed);
            };
            std::thread::Builder::new().name("counter".to_owned()).spawn(count)?;
        }
        Ok(Self { child, input, unanswered })
    }

    pub(crate) fn unanswered(&self) -> i64 {
        self.unanswered.load(Ordering::Relaxed)
    }

    /// Whether it ended, and well.
    pub(crate) fn ended(&mut self) -> Outcome<Option<bool>> {
        Ok(self.child.try_wait()?.map(|status| status.success()))
    }

    pub(crate) fn signal(&self, signal: Signal) -> Outcome<()> {
        let pid = Pid::from_raw(self.id()?).ok_or("no such process")?;
        Ok(rustix::process::kill_process(pid, signal)?)
    }

    fn id(&self) -> Outcome<i32> {
        Ok(i32::try_from(self.child.id())?)
    }

    /// SIGKILL; returns when it is gone.
    pub(crate) fn kill(&mut self) -> Outcome<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Says a word on its standard input.
    pub(crate) fn tell(&mut self, word: &str) -> Outcome<()> {
        let input = self.input.as_mut().ok_or("its standard input is closed")?;
        Ok(input.write_all(format!("{word}\n").as_bytes())?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Becomes `program`, which the system ends when the parent does, with a library that is loaded before its own.
///
/// # Errors
/// It returns only where that is not possible.
pub fn become_bound(
    parent: u32,
    program: &Path,
    arguments: &[String],
    preload: Option<&Path>,
) -> Outcome<()> {
    #[cfg(target_os = "linux")]
    {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        let parent = Pid::from_raw(i32::try_from(parent)?);
        if rustix::process::getppid() != parent {
            return Err("the parent has ended".into());
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = parent;
    let mut command = Command::new(program);
    if let Some(library) = preload {
        command.env("LD_PRELOAD", library);
    }
    Err(command.args(arguments).exec().into())
}

/// A call that has no answer yet. The parent counts them by what comes on the standard output.
pub(crate) struct Unanswered;

impl Unanswered {
    pub(crate) fn begin() -> Self {
        tell(b"+");
        Self
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        tell(b"-");
    }
}

fn tell(word: &[u8]) {
    let mut out = std::io::stdout().lock();
    // Without a parent nobody counts.
    let _ = out.write_all(word).and_then(|()| out.flush());
}

/// Turns true when the parent has said `word` on the standard input. Where that is closed, the process ends.
pub(crate) fn told_on_stdin(word: &'static str) -> Outcome<watch::Receiver<bool>> {
    let (sender, receiver) = watch::channel(false);
    let listen = move || {
        for line in std::io::stdin().lock().lines() {
            match line {
                Ok(line) if line == word => _ = sender.send_replace(true),
                Ok(_) => {}
                Err(_) => break,
            }
        }
        std::process::exit(0);
    };
    std::thread::Builder::new().name("parent".to_owned()).spawn(listen)?;
    Ok(receiver)
}

/// Copies of the programs, so that a build in the middle of the test changes nothing.
#[derive(Debug)]
pub(crate) struct Programs {
    pub(crate) folder: PathBuf,
    pub(crate) chaos: PathBuf,
    pub(crate) daemon: PathBuf,
}

impl Programs {
    pub(crate) fn copy(folder: &Path, daemon: &Path) -> Outcome<Self> {
        let programs = folder.join("programs");
        fs::create_dir_all(&programs)?;
        let (own, capataz) = (programs.join("chaos"), programs.join("capataz"));
        fs::copy(std::env::current_exe()?, &own)?;
        fs::copy(daemon, &capataz).map_err(|error| format!("{}: {error}", daemon.display()))?;
        Ok(Self { folder: folder.to_owned(), chaos: own, daemon: capataz })
    }
}

/// The daemon, as it is killed and started again on the same port and the same folder.
#[derive(Debug)]
pub(crate) struct Daemon {
    pub(crate) address: SocketAddr,
    process: Option<Process>,
}

impl Daemon {
    pub(crate) fn new() -> Outcome<Self> {
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        Ok(Self { address, process: None })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// With the configuration of that name.
    pub(crate) fn start(
        &mut self,
        programs: &Programs,
        weather: Option<&Weather>,
        configuration: &str,
    ) -> Outcome<()> {
        let text = |path: PathBuf| path.display().to_string();
        let arguments = [
            ("--listen", self.address.to_string()),
            ("--data-dir", text(programs.folder.join(DATA))),
            ("--config", text(programs.folder.join(configuration))),
            ("--log", LOGGED.to_owned()),
            ("--log-format", "json".to_owned()),
        ];
        let arguments = arguments.into_iter().flat_map(|(name, value)| [name.to_owned(), value]);
        let arguments: Vec<String> = ["serve".to_owned()].into_iter().chain(arguments).collect();
        let log = log_path(&programs.folder);
        let process = Process::spawn_under(weather, programs, &programs.daemon, &arguments, &log)?;
        self.process = Some(process);
        Ok(())
    }

    /// The number of its process, while there is one.
    pub(crate) fn id(&self) -> Option<i32> {
        self.process.as_ref().and_then(|process| process.id().ok())
    }

    pub(crate) fn signal(&self, signal: Signal) -> Outcome<()> {
        self.process.as_ref().ok_or("the daemon is away")?.signal(signal)
    }

    /// Waits for its first answer.
    pub(crate) async fn ready(&mut self) -> Outcome<()> {
        let began = Instant::now();
        loop {
            let answered = match Client::connect(&self.url()).await {
                Ok(client) => client.list_agents().await.map(|_| ()),
                Err(error) => Err(error),
            };
            let Err(error) = answered else { return Ok(()) };
            if self.process.as_mut().is_none_or(|process| !matches!(process.ended(), Ok(None))) {
                return Err("the daemon has ended by itself".into());
            }
            if began.elapsed() > PATIENCE {
                return Err(format!("the daemon does not answer: {error}").into());
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Kills the daemon for the last time, and holds the rows that queries read against the logs; what was found wrong.
    pub(crate) fn rows_after_its_end(&mut self, programs: &Programs) -> Outcome<Vec<String>> {
        self.kill()?;
        let mut rebuild = Command::new(&programs.daemon);
        rebuild.args(["rebuild", "--check", "--data-dir"]).arg(programs.folder.join(DATA));
        rebuild.arg("--config").arg(programs.folder.join(CALM));
        rebuild.current_dir(&programs.folder).env_remove("CAPATAZ_LISTEN").env_remove("CAPATAZ_DATA_DIR");
        let checked = rebuild.output()?;
        let said = String::from_utf8_lossy(&checked.stdout).into_owned();
        eprintln!("  rows: {}", said.lines().last().unwrap_or_default());
        if checked.status.success() {
            return Ok(Vec::new());
        }
        let error = String::from_utf8_lossy(&checked.stderr).into_owned();
        Ok(said.lines().chain(error.lines()).map(|line| format!("rows: {line}")).collect())
    }

    pub(crate) fn kill(&mut self) -> Outcome<()> {
        self.kill_with(&[]).map(drop)
    }

    /// Kills these with it, in the same moment; how many of them were still there.
    pub(crate) fn kill_with(&mut self, shims: &[Kin]) -> Outcome<u64> {
        let Some(mut process) = self.process.take() else { return Ok(0) };
        if process.ended()?.is_some() {
            return Err("the daemon had ended by itself".into());
        }
        process.signal(Signal::KILL)?;
        let killed = shims.iter().filter(|shim| shim.kill()).count();
        process.kill()?;
        Ok(killed as u64)
    }
}
