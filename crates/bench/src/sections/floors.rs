//! What the parts can do alone: gRPC without a daemon behind it, the log without gRPC before it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use capataz_client::v1;
use capataz_contracts::v1::agent_service_client::AgentServiceClient;
use capataz_store::{
    Append, AppendOutcome, Create, IdempotencyKey, Mark, Millis, RunId, ShardId, SqliteOptions, SqliteStore,
    Store, Summary,
};
use tonic::transport::Endpoint;

use crate::children::{Daemon, Folder, echo_server};
use crate::disk::{self, Disk};
use crate::load::{Load, closed_loop, histogram};
use crate::report::{Cell, Section, Table, Unit};
use crate::stored::{Database, Step, size_of};
use crate::work::Work;
use crate::{Options, Outcome, process};

/// Operations a second, by concurrency.
#[derive(Debug, Default)]
pub(crate) struct Floors {
    pub(super) echo: Vec<(usize, f64)>,
    pub(super) commit: Vec<(usize, f64)>,
    /// Milliseconds of one echo and of one commit for a lone caller, medians.
    alone: (Option<f64>, Option<f64>),
}

impl Floors {
    pub(super) fn echo(&self, concurrency: usize) -> Option<f64> {
        rate_at(&self.echo, concurrency)
    }

    pub(super) fn commit(&self, concurrency: usize) -> Option<f64> {
        rate_at(&self.commit, concurrency)
    }

    /// Milliseconds that a lone caller's run cannot do without: one call, and its two commits.
    pub(super) fn lone_run(&self) -> Option<f64> {
        let (echo, commit) = self.alone;
        Some(echo? + 2.0 * commit?)
    }

    /// Milliseconds that a lone caller's action cannot do without: the calls of its planner and of its tool, and two commits.
    pub(super) fn lone_action(&self) -> Option<f64> {
        let (echo, commit) = self.alone;
        Some(2.0 * echo? + 2.0 * commit?)
    }
}

pub(super) fn rate_at(rates: &[(usize, f64)], concurrency: usize) -> Option<f64> {
    rates.iter().find(|(callers, _)| *callers == concurrency).map(|(_, rate)| *rate)
}

pub(crate) async fn floors(options: &Options, disk: &Disk, floors: &mut Floors) -> Outcome<Section> {
    let mut section = Section::new("Floors: the parts alone, on this machine, now");
    let folder = Folder::create(options, "floors")?;
    let syncs = disk::syncs_per_second(&disk.path, Duration::from_secs(2))?;
    section.note(format!("fdatasync of 4 KiB: {syncs:.0}/s"));

    section.table(echo(options, &folder, floors).await?);

    let steps = Arc::new(steps_of_a_run(options).await?);
    let mut commit = Table::new([
        "runs a commit",
        "runs/s by commits alone",
        "commit p50",
        "commit p99",
        "CPU/run",
        "counted commits",
    ]);
    for concurrency in options.callers.iter().copied() {
        let data = folder.path().join(format!("commit-{concurrency}"));
        let alone = commits_alone(options, data, &steps, concurrency).await?;
        floors.commit.push((concurrency, alone.rate));
        if concurrency == 1 {
            floors.alone.1 = Some(alone.p50);
        }
        commit.row([
            Cell::new(concurrency as f64, Unit::Count),
            Cell::new(alone.rate, Unit::Count),
            Cell::new(alone.p50, Unit::Milliseconds),
            Cell::new(alone.p99, Unit::Milliseconds),
            Cell::new(alone.cpu_micros, Unit::Microseconds),
            Cell::new(alone.counted, Unit::Ratio),
        ]);
    }
    section.table(commit);
    section
        .note("commits alone: the rows of a real run, creation and end, in full batches; no gRPC, no engine");
    section.note("counted commits: the WAL index's counter of transactions by the commits made; 1 if it can be trusted");
    Ok(section)
}

/// What gRPC does with as many callers, when nothing has to be done.
pub(super) async fn echo(options: &Options, folder: &Folder, floors: &mut Floors) -> Outcome<Table> {
    let mut echo = Table::new(["callers", "gRPC echo/s", "p50", "p99", "server CPU"]);
    let (server, address) = echo_server(folder.path()).await?;
    for concurrency in options.callers.iter().copied() {
        let load = Load::new(options, concurrency);
        let mut clients = Vec::new();
        for _ in 0..load.connections() {
            let channel = Endpoint::from_shared(format!("http://{address}"))?.connect().await?;
            clients.push(AgentServiceClient::new(channel));
        }
        // About as many bytes as a run's request and answer.
        let request = v1::CheckAgentsRequest { agents: vec!["echo".repeat(50)], ..Default::default() };
        let pid = server.pid();
        let clients = Arc::new(clients);
        let measured = closed_loop(
            load,
            move || process::cpu_time(pid),
            move |caller| {
                let client = clients.get(caller % clients.len()).cloned();
                let request = request.clone();
                async move {
                    let response = client.ok_or("no client")?.check_agents(request).await?.into_inner();
                    if response.details.len() == 1 { Ok(()) } else { Err("no echo".into()) }
                }
            },
        )
        .await?;
        floors.echo.push((concurrency, measured.per_second()));
        if concurrency == 1 {
            floors.alone.0 = Some(measured.quantile(0.5));
        }
        let (first, last) = measured.samples;
        echo.row([
            Cell::new(concurrency as f64, Unit::Count),
            Cell::new(measured.per_second(), Unit::Count),
            Cell::new(measured.quantile(0.5), Unit::Milliseconds),
            Cell::new(measured.quantile(0.99), Unit::Milliseconds),
            Cell::new(measured.micros_per_operation(last - first), Unit::Microseconds),
        ]);
    }
    Ok(echo)
}

/// The rows that the daemon writes for a run of a single task.
async fn steps_of_a_run(options: &Options) -> Outcome<Vec<Step>> {
    let folder = Folder::create(options, "template")?;
    let (daemon, _) = Daemon::start(options, folder.path()).await?;
    let _worker = daemon.worker(folder.path(), options.slots, false).await?;
    let client = daemon.client().await?;
    let work = Work::single();
    for _ in 0..10 {
        work.execute(&client).await?;
    }
    daemon.database().newest(v1::RunKind::Plan)
}

/// What commits alone do.
pub(super) struct Alone {
    pub(super) rate: f64,
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) cpu_micros: f64,
    pub(super) counted: f64,
}

/// Commits the same rows again and again, those of so many runs at once.
pub(super) async fn commits_alone(
    options: &Options,
    data: PathBuf,
    steps: &Arc<Vec<Step>>,
    batch: usize,
) -> Outcome<Alone> {
    let (steps, window) = (Arc::clone(steps), options.window());
    tokio::task::spawn_blocking(move || commit_alone(&data, &steps, batch, window)).await?
}

/// Commits whole batches: so many creations, then their ends. Rows of sessions go to as many sessions, in one
/// transaction with those of their run, as the daemon writes them.
fn commit_alone(data: &Path, steps: &[Step], batch: usize, window: Duration) -> Outcome<Alone> {
    let store = SqliteStore::open(data, SqliteOptions::default())?;
    let mut writer = store.claim(ShardId(0), Mark(1))?;
    let database = Database::of(data);
    let counted_before = database.transactions()?;
    let mut waits = histogram()?;
    let (begin, cpu) = (Instant::now(), process::cpu_time(std::process::id())?);
    let mut commits = 0u32;
    let mut runs = 0u64;
    let mut bytes = 0;
    let mut sessions: Vec<Stream> = (0..batch).map(|_| Stream::new(v1::RunKind::Session)).collect();
    while begin.elapsed() < window {
        let kind = if steps.iter().any(|step| step.session.is_some()) {
            v1::RunKind::Ask
        } else {
            v1::RunKind::Plan
        };
        let mut streams: Vec<Stream> = (0..batch).map(|_| Stream::new(kind)).collect();
        for (number, step) in steps.iter().enumerate() {
            let is_last = number + 1 == steps.len();
            let mut appends: Vec<Append> = Vec::with_capacity(batch * 2);
            for (stream, session) in streams.iter_mut().zip(&mut sessions) {
                let mut append = stream.append(&step.run, is_last);
                append.joined = step.session.is_some();
                appends.push(append);
                appends.extend(step.session.as_ref().map(|row| session.append(row, true)));
            }
            bytes += size_of(&appends).1;
            let commit = Instant::now();
            let outcomes = writer.commit(&appends)?;
            waits.saturating_record(u64::try_from(commit.elapsed().as_micros()).unwrap_or(u64::MAX));
            commits += 1;
            if !outcomes.iter().all(|outcome| matches!(outcome, AppendOutcome::Committed(_))) {
                return Err(format!("a bare commit was refused: {outcomes:?}").into());
            }
        }
        runs += batch as u64;
    }
    let elapsed = begin.elapsed().as_secs_f64();
    let cpu = process::cpu_time(std::process::id())? - cpu;
    let counted = database.transactions()?.wrapping_sub(counted_before);
    if bytes == 0 {
        return Err("the rows of a run hold no events".into());
    }
    Ok(Alone {
        rate: runs as f64 / elapsed,
        p50: waits.value_at_quantile(0.5) as f64 / 1e3,
        p99: waits.value_at_quantile(0.99) as f64 / 1e3,
        cpu_micros: cpu.as_secs_f64() * 1e6 / runs.max(1) as f64,
        counted: f64::from(counted) / f64::from(commits.max(1)),
    })
}

/// A run or a session that is written.
struct Stream {
    run: RunId,
    kind: v1::RunKind,
    next_seq: u64,
}

impl Stream {
    fn new(kind: v1::RunKind) -> Self {
        Self { run: RunId(uuid::Uuid::now_v7()), kind, next_seq: 1 }
    }

    fn append(&mut self, (count, events): &(u32, Vec<u8>), is_last: bool) -> Append {
        let at = Millis(1_700_000_000_000);
        let is_session = self.kind == v1::RunKind::Session;
        let create = (self.next_seq == 1).then(|| {
            // Scattered like the keys of clients: the end of the id first.
            let key = Bytes::from(format!("{:032x}", self.run.0.as_u128().reverse_bits()));
            Create {
                kind: self.kind as i32,
                name: "benchmark".to_owned(),
                labels: BTreeMap::new(),
                created_at: at,
                key: (!is_session).then_some(IdempotencyKey { key, request: [7; 32] }),
                past: None,
            }
        });
        let summary = Summary {
            status: if is_last { v1::RunStatus::Finished as i32 } else { v1::RunStatus::Running as i32 },
            outcome: if is_last && !is_session { v1::RunOutcome::Succeeded as i32 } else { 0 },
            updated_at: at,
            finished_at: is_last.then_some(at),
            tasks_total: u32::from(!is_session),
            tasks_settled: u32::from(is_last && !is_session),
        };
        let first_seq = self.next_seq;
        self.next_seq += u64::from(*count);
        Append {
            run: self.run,
            first_seq,
            count: *count,
            events: Bytes::copy_from_slice(events),
            create,
            summary: Some(summary),
            derived: Vec::new(),
            memory: Vec::new(),
            blobs: Vec::new(),
            rest: None,
            joined: false,
            key: None,
        }
    }
}
