//! The processes of the benchmark. Each ends when its handle is dropped.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use capataz_client::{Client, RetryOptions, v1};
use capataz_contracts::v1::agent_service_client::AgentServiceClient;
use clap::ValueEnum;
use tonic::transport::Endpoint;

use crate::abuse::Abuse;
use crate::stored::Database;
use crate::{Options, Outcome, process};

/// How long anything may take to come up or to go down.
const PATIENCE: Duration = Duration::from_secs(120);

/// A process that is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
}

impl Process {
    fn spawn(command: &mut Command, log: &Path) -> Outcome<Self> {
        let log = File::options().create(true).append(true).open(log)?;
        command.stdout(log.try_clone()?).stderr(log).stdin(Stdio::piped());
        let program = command.get_program().to_owned();
        let child = command.spawn().map_err(|error| format!("{}: {error}", program.display()))?;
        Ok(Self { child })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Closes its standard input.
    pub(crate) fn close_input(&mut self) {
        drop(self.child.stdin.take());
    }

    fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)) | Err(_))
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Asks it to end, and waits for that.
    pub(crate) async fn terminate(&mut self) -> Outcome<()> {
        let pid = i32::try_from(self.pid())?;
        let pid = rustix::process::Pid::from_raw(pid).ok_or("no such process")?;
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        let begin = Instant::now();
        while !self.has_ended() {
            if begin.elapsed() > PATIENCE {
                return Err("a process does not end".into());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A folder of one section, empty at the beginning and gone at the end.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
}

impl Folder {
    pub(crate) fn create(options: &Options, name: &str) -> Outcome<Self> {
        let path = options.dir.canonicalize()?.join(format!("{name}-{}", std::process::id()));
        if path.exists() {
            fs::remove_dir_all(&path)?;
        }
        fs::create_dir_all(&path)?;
        Ok(Self { path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// A process that does harm until it is dropped.
#[derive(Debug)]
pub(crate) struct Abuser {
    process: Process,
    log: PathBuf,
}

impl Abuser {
    /// The time of the processors that it has used.
    ///
    /// # Errors
    /// It has ended by itself, so that nobody knows for how long it did any harm.
    pub(crate) fn cpu_time(&mut self) -> Outcome<Duration> {
        if self.process.has_ended() {
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            return Err(format!("the abuser has ended\n{log}").into());
        }
        process::cpu_time(self.process.pid())
    }
}

/// The shipped daemon with its default configuration.
#[derive(Debug)]
pub(crate) struct Daemon {
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
    data_dir: PathBuf,
}

impl Daemon {
    /// Starts a daemon and waits for its first answer; how long that took.
    pub(crate) async fn start(options: &Options, folder: &Path) -> Outcome<(Self, Duration)> {
        Self::start_at(options, folder, free_address()?).await
    }

    pub(crate) async fn start_at(
        options: &Options,
        folder: &Path,
        address: SocketAddr,
    ) -> Outcome<(Self, Duration)> {
        let program = match &options.daemon {
            Some(program) => program.canonicalize()?,
            None => std::env::current_exe()?.with_file_name("capataz"),
        };
        let data_dir = folder.join("data");
        let mut command = Command::new(program);
        // No configuration but the default: neither a file nor the environment.
        command.arg("serve").args(["--listen", &address.to_string()]).arg("--data-dir").arg(&data_dir);
        command
            .current_dir(folder)
            .env_remove("CAPATAZ_LISTEN")
            .env_remove("CAPATAZ_DATA_DIR")
            .env_remove("CAPATAZ_SPECS_DIR");
        let begin = Instant::now();
        let mut process = Process::spawn(&mut command, &folder.join("daemon.log"))?;
        if let Err(error) = first_answer(&mut process, address).await {
            let log = fs::read_to_string(folder.join("daemon.log")).unwrap_or_default();
            return Err(format!("the daemon does not answer: {error}\n{log}").into());
        }
        let took = begin.elapsed();
        Ok((Self { process, address, data_dir }, took))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    pub(crate) fn database(&self) -> Database {
        Database::of(&self.data_dir)
    }

    pub(crate) fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// So many clients, each with a connection of its own.
    pub(crate) async fn clients(&self, connections: usize) -> Outcome<Vec<Client>> {
        let mut clients = Vec::with_capacity(connections);
        for _ in 0..connections {
            let client = Client::connect(&format!("http://{}", self.address)).await?;
            // A repeated call would hide a failure in a latency.
            clients.push(client.with_retry(RetryOptions::never()));
        }
        Ok(clients)
    }

    pub(crate) async fn client(&self) -> Outcome<Client> {
        self.clients(1).await?.pop().ok_or_else(|| "no client".into())
    }

    /// Starts a process that does harm.
    pub(crate) fn abuser(&self, folder: &Path, kind: Abuse) -> Outcome<Abuser> {
        let kind = kind.to_possible_value().ok_or("no such kind")?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("abuser").args(["--daemon", &self.address.to_string(), "--kind", kind.get_name()]);
        let log = folder.join("abuser.log");
        Ok(Abuser { process: Process::spawn(&mut command, &log)?, log })
    }

    /// Starts a worker process and waits until the daemon knows it.
    pub(crate) async fn worker(&self, folder: &Path, slots: u32, holds: bool) -> Outcome<Process> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("worker").args(["--endpoint", &format!("http://{}", self.address)]);
        command.args(["--slots", &slots.to_string()]);
        if holds {
            command.arg("--hold");
        }
        let mut worker = Process::spawn(&mut command, &folder.join("worker.log"))?;
        let client = self.client().await?;
        await_agent(&client, |agent| agent.workers > 0).await.map_err(|error| {
            let ended = if worker.has_ended() { " (it has ended)" } else { "" };
            let log = fs::read_to_string(folder.join("worker.log")).unwrap_or_default();
            format!("the worker does not come up{ended}: {error}\n{log}")
        })?;
        Ok(worker)
    }
}

/// Waits until the daemon says of the benchmark's agent what `is_ready` wants to hear.
pub(crate) async fn await_agent(client: &Client, is_ready: impl Fn(&v1::AgentStatus) -> bool) -> Outcome<()> {
    let begin = Instant::now();
    loop {
        let agents = client.list_agents().await?;
        let named = agents
            .iter()
            .find(|status| status.agent.as_ref().is_some_and(|agent| agent.name == super::roles::AGENT));
        if named.is_some_and(&is_ready) {
            return Ok(());
        }
        if begin.elapsed() > PATIENCE {
            return Err(format!("the agent stays as it is: {named:?}").into());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Starts the bare gRPC server.
pub(crate) async fn echo_server(folder: &Path) -> Outcome<(Process, SocketAddr)> {
    let address = free_address()?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("echo-server").args(["--listen", &address.to_string()]);
    let mut process = Process::spawn(&mut command, &folder.join("echo.log"))?;
    first_answer(&mut process, address).await?;
    Ok((process, address))
}

/// Starts a collector of spans.
pub(crate) async fn collector(folder: &Path) -> Outcome<(Process, SocketAddr)> {
    let address = free_address()?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("collector").args(["--listen", &address.to_string()]);
    let mut process = Process::spawn(&mut command, &folder.join("collector.log"))?;
    first_answer(&mut process, address).await?;
    Ok((process, address))
}

async fn first_answer(process: &mut Process, address: SocketAddr) -> Outcome<()> {
    let begin = Instant::now();
    let endpoint = Endpoint::from_shared(format!("http://{address}"))?;
    loop {
        let error = match endpoint.connect().await {
            Ok(channel) => {
                match AgentServiceClient::new(channel).list_agents(v1::ListAgentsRequest::default()).await {
                    Ok(_) => return Ok(()),
                    Err(status) => status.to_string(),
                }
            }
            Err(error) => error.to_string(),
        };
        if process.has_ended() {
            return Err("it has ended".into());
        }
        if begin.elapsed() > PATIENCE {
            return Err(error.into());
        }
        tokio::time::sleep(Duration::from_micros(500)).await;
    }
}

fn free_address() -> Outcome<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}
