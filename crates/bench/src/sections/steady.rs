//! A daemon under mixed load for a long time: what it holds has to stay level.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use capataz_client::{Client, Delivery, v1};
use tokio::task::JoinSet;

use super::asks::{self, Asks};
use super::modes::Queries;
use super::pipelines::Pipelines;
use crate::children::{Daemon, Folder};
use crate::report::{Cell, Section, Table, Unit};
use crate::work::Work;
use crate::{Options, Outcome, process};

/// What finished is kept for a tenth of the time: the log is level when that has passed.
const KEPT: u32 = 10;
/// Rows of the report.
const ROWS: u32 = 12;
/// The pause of each caller between two operations. The machine is not to be busy: a queue would hide what is held.
const PAUSE: Duration = Duration::from_millis(40);
/// Events that a subscriber reads before it goes.
const READ: usize = 200;
/// The name of the command that the daemon itself starts.
const COMMAND: &str = "steady.command";
const MEBIBYTE: f64 = 1_048_576.0;
/// The last third beside the second one. What is measured moves by a few pages and connections all the time.
const AIM_MEMORY: f64 = 1.1;
const AIM_DISK: f64 = 1.2;
const AIM_HANDLES: f64 = 1.1;

/// What a caller does again and again.
#[derive(Debug)]
enum Caller {
    Plans(Box<Work>),
    Asks(Asks),
    Pipelines(Pipelines),
    Executions(Queries),
    /// Comes, reads some events from the beginning of what is kept, and goes.
    Subscriber,
    /// Comes with a connection of its own, reads a page of the runs and one of them, and goes.
    Visitor,
}

impl Caller {
    fn all() -> Vec<(&'static str, Self)> {
        let executions = |mode| Self::Executions(Queries::of(mode));
        vec![
            ("plans of one task", Self::Plans(Box::new(Work::single()))),
            ("plans of 4 waves of 8 tasks", Self::Plans(Box::new(Work::plan(4, 8)))),
            ("plans of two commands", Self::Plans(Box::new(Work::of(COMMAND, 1, 2)))),
            ("asks without a session", Self::Asks(Asks::new(false))),
            ("asks with sessions", Self::Asks(Asks::new(true))),
            ("pipelines", Self::Pipelines(Pipelines::new())),
            ("executions, simple", executions(v1::ExecutionMode::Simple)),
            ("executions, planner", executions(v1::ExecutionMode::Planner)),
            ("executions, supervised", executions(v1::ExecutionMode::Supervised)),
            ("subscribers", Self::Subscriber),
            ("visitors", Self::Visitor),
        ]
    }

    async fn once(&self, daemon: &Daemon, client: &Client, number: usize) -> Outcome<()> {
        match self {
            Self::Plans(work) => work.execute(client).await,
            // Sessions come and go, too: each is used for some asks and never again.
            Self::Asks(asks) => asks.execute(client, number / 20).await,
            Self::Pipelines(pipelines) => pipelines.execute(client).await,
            Self::Executions(queries) => queries.execute(client).await,
            Self::Subscriber => subscribe(client).await,
            Self::Visitor => visit(&daemon.client().await?).await,
        }
    }
}

async fn subscribe(client: &Client) -> Outcome<()> {
    let mut events = client.subscribe(v1::SubscribeRequest::default());
    let mut read = 0;
    while read < READ {
        match events.next().await.ok_or("the stream of events has ended")? {
            Ok(delivery) => read += usize::from(matches!(delivery, Delivery::Event { .. })),
            // The oldest events are the next ones that are removed, now and then while they are read.
            Err(error) if error.code() == Some("CURSOR_TOO_OLD") => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

async fn visit(client: &Client) -> Outcome<()> {
    let page =
        client.list_runs(v1::ListRunsRequest { page_size: 20, ..v1::ListRunsRequest::default() }).await?;
    let Some(run) = page.runs.into_iter().next() else { return Ok(()) };
    client.get_run(v1::GetRunRequest { run_id: run.run_id, ..v1::GetRunRequest::default() }).await?;
    Ok(())
}

/// What the daemon held at one moment.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    resident: f64,
    handles: f64,
    threads: f64,
    disk: f64,
}

impl Held {
    fn of(daemon: &Daemon) -> Outcome<Self> {
        let (resident, _) = process::memory(daemon.pid())?;
        Ok(Self {
            resident: resident as f64 / MEBIBYTE,
            handles: process::open_files(daemon.pid())? as f64,
            threads: process::threads(daemon.pid())? as f64,
            disk: daemon.database().stored()?.file_bytes as f64 / MEBIBYTE,
        })
    }

    fn mean(all: &[Self], of: fn(&Self) -> f64) -> f64 {
        all.iter().map(of).sum::<f64>() / all.len().max(1) as f64
    }
}

pub(crate) async fn steady(options: &Options, minutes: u32) -> Outcome<Section> {
    let whole = Duration::from_secs(60) * minutes.max(1);
    let folder = Folder::create(options, "steady")?;
    let kept = whole / KEPT;
    fs::write(
        folder.path().join("capataz.toml"),
        format!(
            "[retention]\nfinished_runs = \"{seconds}s\"\nidempotency_keys = \"{seconds}s\"\nunused_blobs = \"{seconds}s\"\n\n\
             [[agents]]\nname = \"{COMMAND}\"\ncommand = [\"cat\"]\n",
            seconds = kept.as_secs(),
        ),
    )?;
    let daemon = Arc::new(asks::start(options, &folder).await?);
    let _worker = daemon.worker(folder.path(), options.slots, false).await?;
    let begin = Instant::now();
    let end = begin + whole;
    let counts: Arc<Vec<(&'static str, Caller, AtomicU64)>> =
        Arc::new(Caller::all().into_iter().map(|(name, caller)| (name, caller, AtomicU64::new(0))).collect());
    let mut callers = JoinSet::new();
    for index in 0..counts.len() {
        let (daemon, counts) = (Arc::clone(&daemon), Arc::clone(&counts));
        callers.spawn(async move {
            let (name, caller, done) = counts.get(index).ok_or("no caller")?;
            let client = daemon.client().await?;
            let mut number = 0;
            while Instant::now() < end {
                caller.once(&daemon, &client, number).await.map_err(|error| format!("{name}: {error}"))?;
                done.fetch_add(1, Ordering::Relaxed);
                number += 1;
                tokio::time::sleep(PAUSE).await;
            }
            Outcome::Ok(())
        });
    }
    let mut section = Section::new(format!("A daemon under mixed load for {minutes} minutes"));
    let mut table =
        Table::new(["after", "resident", "open files", "threads", "database", "done", "daemon CPU"]);
    let mut held = Vec::new();
    let processors = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    let mut before = (begin, process::cpu_time(daemon.pid())?);
    for row in 1..=ROWS {
        let at = tokio::time::Instant::from_std(begin + whole / ROWS * row);
        // A caller that failed ends the benchmark now.
        let sleep = tokio::time::sleep_until(at);
        tokio::pin!(sleep);
        loop {
            tokio::select! {
                () = &mut sleep => break,
                Some(ended) = callers.join_next() => ended??,
            }
        }
        let now = Held::of(&daemon)?;
        let used = (Instant::now(), process::cpu_time(daemon.pid())?);
        let share = (used.1 - before.1).as_secs_f64() / (used.0 - before.0).as_secs_f64() / processors;
        before = used;
        let done: u64 = counts.iter().map(|(_, _, done)| done.load(Ordering::Relaxed)).sum();
        if !options.json {
            eprintln!("{:.0} of {minutes} minutes", begin.elapsed().as_secs_f64() / 60.0);
        }
        table.row([
            Cell::from(format!("{:.1} min", begin.elapsed().as_secs_f64() / 60.0)),
            Cell::new(now.resident, Unit::Mebibytes),
            Cell::new(now.handles, Unit::Count),
            Cell::new(now.threads, Unit::Count),
            Cell::new(now.disk, Unit::Mebibytes),
            Cell::new(done as f64, Unit::Count),
            Cell::new(share * 100.0, Unit::Percent),
        ]);
        held.push(now);
    }
    while let Some(ended) = callers.join_next().await {
        ended??;
    }
    section.table(table);
    section.table(level(&held));
    let mut done = Table::new(["callers", "done"]);
    for (name, _, count) in counts.iter() {
        done.row([Cell::from(*name), Cell::new(count.load(Ordering::Relaxed) as f64, Unit::Count)]);
    }
    section.table(done);
    section.note(format!(
        "a lone caller of each kind, with a pause of {} ms; what finished is kept for {} s; any call that fails ends the benchmark",
        PAUSE.as_millis(),
        kept.as_secs(),
    ));
    Ok(section)
}

/// The last third beside the second one: in the first one, caches fill and nothing is old enough to be removed.
fn level(held: &[Held]) -> Table {
    let mut table = Table::new(["level", "second third", "last third", "ratio"]);
    let third = held.len() / 3;
    let (second, last) =
        held.get(third..).map_or((&[][..], &[][..]), |later| later.split_at(later.len() / 2));
    let mut row = |name: &str, unit: Unit, aim: f64, of: fn(&Held) -> f64| {
        let (before, after) = (Held::mean(second, of), Held::mean(last, of));
        table.row([
            Cell::from(name),
            Cell::new(before, unit),
            Cell::new(after, unit),
            Cell::new(after / before.max(f64::MIN_POSITIVE), Unit::Ratio).at_most(aim),
        ]);
    };
    row("resident", Unit::Mebibytes, AIM_MEMORY, |held| held.resident);
    row("open files", Unit::Count, AIM_HANDLES, |held| held.handles);
    row("threads", Unit::Count, AIM_HANDLES, |held| held.threads);
    row("database", Unit::Mebibytes, AIM_DISK, |held| held.disk);
    table
}
