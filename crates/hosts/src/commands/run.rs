//! The daemon's side: starts the shim, hands the input over, reads what comes back.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fmt;
use std::future::pending;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use capataz_contracts::v1::{LeaseRef, LogTail};
use capataz_shim::{Invocation, KILL, LeaseMark, MAX_INPUT, Report, Reports, Shim, ShimCommand, TERMINATE};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::OwnedWriteHalf;
use tokio::process::Child;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::agent::ProcessAgent;
use super::environment::Environment;
use super::outcome::{Ending, Observation, ProcessOutcome};
use super::places::{Place, Places};
use super::stderr::StderrReader;
use super::tail::tail;
use crate::port::SecretResolver;
use crate::redact::Redactor;
use crate::serve::Order;

/// Shortest time between two progress updates of one command.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// How long a command that was killed, or the rest of one that ended, may take to disappear before its task goes on
/// without it, and how long what was let go is waited for. Its shim goes on killing and keeps its lock.
pub(super) const DISAPPEAR_LIMIT: Duration = Duration::from_secs(10);

/// Bytes that are read at once from each of the command's pipes.
const READ_SIZE: usize = 16 * 1024;

/// What all runs of all agents share.
#[derive(Clone)]
pub struct ProcessContext {
    pub shim: ShimCommand,
    /// The folder for the lock files, `<data>/shims`. Made when needed.
    pub shims_folder: PathBuf,
    pub secrets: Arc<dyn SecretResolver>,
    /// Where commands are alive, also those of agents as they were declared before.
    pub places: Places,
}

impl fmt::Debug for ProcessContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { shim, shims_folder, secrets: _, places: _ } = self;
        f.debug_struct("ProcessContext")
            .field("shim", shim)
            .field("shims_folder", shims_folder)
            .finish_non_exhaustive()
    }
}

/// What a command does at the moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgressUpdate {
    /// The latest line of its stderr, at most 1 KiB.
    pub line: Option<String>,
    /// The end of its stdout, at most [`TAIL_LIMIT`](super::TAIL_LIMIT), without secrets.
    pub tail: Option<String>,
    /// The end of its stderr, without secrets.
    pub log: Option<LogTail>,
}

/// What a command is given to do.
#[derive(Clone, Debug, Default)]
pub struct Call {
    /// JSON, on its stdin.
    pub input: Bytes,
    /// The span that its work belongs to, as a `traceparent` of W3C Trace Context; empty where there is none.
    pub traceparent: String,
    /// By which it is done. Nothing: it takes no place, and waits for no other command.
    pub lease: Option<LeaseRef>,
}

/// Runs the agent's command once, with its input on its stdin, to its end. It begins when nothing is alive any more of an
/// earlier lease of its task, and when what was let go of the agent leaves it a place.
///
/// A cancel is SIGTERM to the command's group now, and SIGKILL after its grace. The sender of `orders` may be dropped:
/// the command then runs to its own end. `progress` is called at most five times a second,
/// with the latest line and the end of the output. Dropping the future kills the command with everything that it
/// started; it may still be alive for a moment then, in which it keeps its place. Memory is bounded by the input (the shim
/// holds what the command has not read yet), the agent's `max_output` and a few hundred KiB.
pub async fn run(
    agent: &ProcessAgent,
    context: &ProcessContext,
    call: Call,
    mut orders: mpsc::Receiver<Order>,
    progress: impl Fn(ProgressUpdate) + Send,
) -> ProcessOutcome {
    let Call { input, traceparent, lease } = call;
    let place = match lease {
        Some(lease) => tokio::select! {
            place = context.places.take(lease.into(), agent) => Some(place),
            () = cancelled(&mut orders) => {
                return ProcessOutcome::Cancelled { partial: None, log: Bytes::new() };
            }
        },
        None => None,
    };
    let inherited = |name: &str| std::env::var_os(name);
    let environment = match Environment::of_agent(agent, &traceparent, inherited, &*context.secrets) {
        Ok(environment) => environment,
        Err(missing) => return ProcessOutcome::without_environment(&missing),
    };
    if input.len() as u64 > MAX_INPUT {
        return ProcessOutcome::input_too_large(input.len());
    }
    let shim = match start_shim(agent, context, &environment) {
        Ok(shim) => shim,
        Err(error) => {
            let ending = Ending::Refused { errno: error.raw_os_error().unwrap_or(0) };
            let observation = Observation { ending: Some(ending), ..Observation::default() };
            return ProcessOutcome::of(agent, &environment.secrets, observation);
        }
    };
    let secrets = environment.secrets.clone();
    drop(environment);
    let mut watch = Watch {
        agent,
        input: Some(input),
        outgoing: VecDeque::new(),
        command: None,
        kill_at: None,
        give_up_at: None,
        killed: false,
        seen: Observation::default(),
        stderr: StderrReader::new(secrets.clone()),
        secrets: secrets.clone(),
        progress,
        progress_at: Instant::now(),
        line: None,
        has_news: false,
    };
    watch.follow(shim, place, &mut orders).await;
    let observation = Observation { log: watch.stderr.into_log(), ..watch.seen };
    ProcessOutcome::of(agent, &secrets, observation)
}

fn start_shim(agent: &ProcessAgent, context: &ProcessContext, environment: &Environment) -> io::Result<Shim> {
    let mut command = agent.command.iter().map(OsString::from);
    let invocation = Invocation {
        program: command.next().unwrap_or_default(),
        arguments: command.collect(),
        working_directory: agent.cwd.clone().filter(|folder| !folder.as_os_str().is_empty()),
        ..Invocation::default()
    };
    Shim::start(&context.shim, &context.shims_folder, &invocation, |command| {
        command.env_clear().envs(&environment.variables).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(())
    })
}

/// What is known of one run so far, and what is to be done next. Only [`Watch::follow`] waits.
struct Watch<'a, P> {
    agent: &'a ProcessAgent,
    /// The input until the shim is ready for it.
    input: Option<Bytes>,
    /// What the shim is still to be told.
    outgoing: VecDeque<Bytes>,
    /// Set while the command runs.
    command: Option<Pid>,
    kill_at: Option<Instant>,
    give_up_at: Option<Instant>,
    killed: bool,
    seen: Observation,
    stderr: StderrReader,
    secrets: Redactor,
    progress: P,
    /// When the next update may be given.
    progress_at: Instant,
    /// The latest line of stderr.
    line: Option<String>,
    /// True when something was read that no update has told.
    has_news: bool,
}

impl<P: Fn(ProgressUpdate) + Send> Watch<'_, P> {
    async fn follow(&mut self, shim: Shim, place: Option<Place>, orders: &mut mpsc::Receiver<Order>) {
        let Shim { mut process, reports, orders: mut writer, mark } = shim;
        let (mut stdout, mut stderr) = (process.stdout.take(), process.stderr.take());
        let seen_off = tokio::spawn(see_off(self.agent.name.clone(), process, mark, place));
        let mut reports = Some(reports);
        let mut stdout_chunk = vec![0; READ_SIZE];
        let mut stderr_chunk = vec![0; READ_SIZE];
        let mut orders_open = true;
        while reports.is_some() || stdout.is_some() || stderr.is_some() {
            tokio::select! {
                received = next_report(&mut reports) => match received {
                    Some(report) => self.on_report(report),
                    None => {
                        reports = None;
                        self.on_shim_gone();
                    }
                },
                written = write_next(&mut writer, &mut self.outgoing) => {
                    if written.is_err() {
                        // Nobody is there; the reader will see it.
                        self.outgoing.clear();
                    }
                }
                length = read_some(&mut stdout, &mut stdout_chunk) => match stdout_chunk.get(..length) {
                    Some(chunk) if length > 0 && self.on_stdout(chunk) => {}
                    _ => stdout = None,
                },
                length = read_some(&mut stderr, &mut stderr_chunk) => match stderr_chunk.get(..length) {
                    Some(chunk) if length > 0 => self.on_stderr(chunk),
                    _ => stderr = None,
                },
                order = orders.recv(), if orders_open => match order {
                    Some(order) => {
                        self.on_order(order);
                        if self.seen.cancelled && self.input.is_some() {
                            // Never told to start, the shim ends by itself.
                            return;
                        }
                    }
                    None => orders_open = false,
                },
                () = at(self.kill_at) => self.kill(),
                () = at(self.has_news.then_some(self.progress_at)) => self.give_progress(),
                () = at(self.give_up_at) => {
                    tracing::warn!(agent = self.agent.name, "what the command started cannot be ended; going on without");
                    return;
                }
            }
        }
        // The shim has closed everything; it is a matter of its last instructions.
        let limit = self.give_up_at.unwrap_or_else(|| Instant::now() + DISAPPEAR_LIMIT);
        let _ = timeout_at(limit, seen_off).await;
    }

    fn on_report(&mut self, report: Report) {
        let ending = match report {
            Report::Ready => {
                if let Some(input) = self.input.take() {
                    let length = (input.len() as u64).to_le_bytes();
                    self.outgoing.push_back(Bytes::copy_from_slice(&length));
                    self.outgoing.push_back(input);
                }
                return;
            }
            Report::Started { pid } => {
                self.command = Pid::from_raw(pid);
                self.seen.started = true;
                return;
            }
            Report::Refused { errno } => Ending::Refused { errno },
            Report::NoWorkingDirectory { errno } => Ending::NoWorkingDirectory { errno },
            Report::NotStarted { errno } => Ending::NotStarted { errno },
            Report::Exited { code } => Ending::Exited { code },
            Report::Signalled { signal } => Ending::Signalled { signal },
        };
        self.command = None;
        self.kill_at = None;
        self.seen.ending = Some(ending);
        self.await_disappearance();
    }

    fn on_shim_gone(&mut self) {
        self.outgoing.clear();
        self.kill_at = None;
        if let Some(command) = self.command.take() {
            // Somebody killed the shim while the command ran. Its group is ended at once, what left that is looked for.
            let _ = kill_process_group(command, Signal::KILL);
        }
        self.await_disappearance();
    }

    /// False: enough was read.
    fn on_stdout(&mut self, chunk: &[u8]) -> bool {
        let limit = usize::try_from(self.agent.max_output).unwrap_or(usize::MAX);
        if chunk.len() > limit.saturating_sub(self.seen.stdout.len()) {
            self.seen.stdout_too_large = true;
            self.seen.stdout = Vec::new();
            self.kill();
            return false;
        }
        self.seen.stdout.extend_from_slice(chunk);
        if !self.has_news {
            // A command that writes its result and ends gives no update.
            self.has_news = true;
            self.progress_at = self.progress_at.max(Instant::now() + PROGRESS_INTERVAL);
        }
        true
    }

    fn on_stderr(&mut self, chunk: &[u8]) {
        self.stderr.push(chunk);
        if let Some(line) = self.stderr.take_latest_line() {
            self.line = Some(line);
            self.has_news = true;
            if Instant::now() >= self.progress_at {
                self.give_progress();
            }
        }
    }

    fn give_progress(&mut self) {
        self.has_news = false;
        self.progress_at = Instant::now() + PROGRESS_INTERVAL;
        let tail = tail(&self.seen.stdout, &self.secrets);
        (self.progress)(ProgressUpdate { line: self.line.clone(), tail, log: self.stderr.log() });
    }

    fn on_order(&mut self, order: Order) {
        if self.seen.ending.is_some() {
            // The command was faster.
            return;
        }
        match order {
            Order::Cancel { grace } => {
                self.seen.cancelled = true;
                self.outgoing.push_back(Bytes::from_static(&[TERMINATE]));
                // A grace beyond the end of time is one without end.
                let until = Instant::now().checked_add(grace - time_to_tell(grace));
                self.kill_at = self.kill_at.into_iter().chain(until).min();
            }
            // A command that heeds SIGTERM ends all the same: that is an end of its own then.
            Order::Withdraw if !self.killed => {
                self.seen.cancelled = false;
                self.kill_at = None;
            }
            Order::Withdraw => {}
        }
    }

    fn kill(&mut self) {
        self.kill_at = None;
        if !self.killed {
            self.killed = true;
            self.outgoing.push_back(Bytes::from_static(&[KILL]));
            self.await_disappearance();
        }
    }

    fn await_disappearance(&mut self) {
        self.give_up_at.get_or_insert_with(|| Instant::now() + DISAPPEAR_LIMIT);
    }
}

/// Waits until the shim has ended, and with it all that it supervises, also where nobody follows the command any more; only
/// then its place is free.
async fn see_off(agent: String, mut process: Child, mark: LeaseMark, place: Option<Place>) {
    let status = process.wait().await;
    // A shim that comes to its own end has ended everything before; one that was killed could not.
    if !status.is_ok_and(|status| status.code().is_some()) {
        let ending = tokio::task::spawn_blocking(move || mark.end_strays(DISAPPEAR_LIMIT)).await;
        if let Ok(Err(error)) = ending {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(agent, error, "what the command started cannot be ended");
        }
    }
    drop(place);
}

/// Waits until the work is told to end. Waits for ever where nobody can tell it.
async fn cancelled(orders: &mut mpsc::Receiver<Order>) {
    loop {
        match orders.recv().await {
            Some(Order::Cancel { .. }) => return,
            Some(Order::Withdraw) => {}
            None => pending().await,
        }
    }
}

/// The end of a grace, in which a command that has not heeded SIGTERM is killed and what it has written is passed on: whoever
/// gave the grace does not wait any longer.
fn time_to_tell(grace: Duration) -> Duration {
    (grace / 5).min(Duration::from_secs(1))
}

/// The next report; nothing when the shim is gone. Waits for ever where nobody reports.
async fn next_report(reports: &mut Option<Reports>) -> Option<Report> {
    match reports {
        Some(reports) => reports.next().await,
        None => pending().await,
    }
}

/// Writes once of what is to be sent. Waits for ever where there is nothing.
async fn write_next(writer: &mut OwnedWriteHalf, outgoing: &mut VecDeque<Bytes>) -> io::Result<()> {
    while outgoing.front().is_some_and(Bytes::is_empty) {
        outgoing.pop_front();
    }
    match outgoing.front_mut() {
        Some(next) => writer.write_buf(next).await.map(drop),
        None => pending().await,
    }
}

/// Reads once; 0 at the end and for an error. Waits for ever where there is no source.
async fn read_some(source: &mut Option<impl AsyncRead + Unpin>, chunk: &mut [u8]) -> usize {
    match source {
        Some(source) => source.read(chunk).await.unwrap_or(0),
        None => pending().await,
    }
}

/// Waits until then, or for ever.
async fn at(when: Option<Instant>) {
    match when {
        Some(when) => sleep_until(when).await,
        None => pending().await,
    }
}
