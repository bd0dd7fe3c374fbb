//! How fast the daemon is there, and how much memory it takes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use capataz_client::Client;
use tokio::task::JoinSet;

use crate::children::{Daemon, Folder};
use crate::disk;
use crate::report::{Cell, Section, Table, Unit};
use crate::work::Work;
use crate::{Options, Outcome, process};

const RUNS: u64 = 100_000;
const EVENTS: u64 = 1_000_000;
const CALLERS: u64 = 256;
/// Starts of which the median counts.
const STARTS: usize = 5;
/// Milliseconds.
const AIM_EMPTY: f64 = 50.0;
const AIM_FULL: f64 = 1_000.0;
/// 80 MB, in mebibytes.
const AIM_MEMORY: f64 = 80e6 / MEBIBYTE;
const MEBIBYTE: f64 = 1_048_576.0;

pub(crate) async fn footprint(options: &Options) -> Outcome<Section> {
    let mut section = Section::new("Start-up and memory");
    let mut starts = Table::new(["log", "how it ended before", "first answer after"]);
    let mut memory = Table::new(["after", "resident", "at its highest"]);

    starts.row([
        Cell::from("none"),
        Cell::from("-"),
        Cell::new(empty_start(options).await?, Unit::Milliseconds).at_most(AIM_EMPTY),
    ]);

    let folder = Folder::create(options, "footprint")?;
    let (daemon, _) = Daemon::start(options, folder.path()).await?;
    let worker = daemon.worker(folder.path(), options.slots, false).await?;
    memory.row(resident(&daemon, "the start".to_owned(), None)?);
    let runs = options.scaled(RUNS);
    run_many(&daemon, runs).await?;
    memory.row(resident(&daemon, format!("{runs} runs"), Some(AIM_MEMORY))?);
    let events = options.scaled(EVENTS);
    let mut total = runs;
    while let Some(missing) = events.checked_sub(daemon.database().events()?).filter(|missing| *missing > 0) {
        let per_run = daemon.database().events()? / total.max(1);
        let more = missing.div_ceil(per_run.max(1));
        run_many(&daemon, more).await?;
        total += more;
    }
    memory.row(resident(&daemon, format!("{total} runs"), None)?);
    drop(worker);
    let events = daemon.database().events()?;
    let mut daemon = daemon;
    daemon.process.terminate().await?;
    let stored = daemon.database().stored()?;
    section.note(format!(
        "the log has {events} events in {} rows of {total} runs, {} MiB on the disk, made by runs through the API",
        stored.log_rows,
        stored.file_bytes >> 20
    ));
    let log = format!("{events} events");
    let data_dir = daemon.data_dir().to_owned();
    let mut ended = "asked to end";
    for _ in 0..3 {
        if ended == "killed, its files not cached" {
            disk::forget_cached(&data_dir)?;
        }
        let (mut again, took) = Daemon::start(options, folder.path()).await?;
        starts.row([
            Cell::from(log.clone()),
            Cell::from(ended),
            Cell::new(took.as_secs_f64() * 1e3, Unit::Milliseconds).at_most(AIM_FULL),
        ]);
        if ended == "asked to end" {
            memory.row(resident(&again, format!("a start on {log}"), None)?);
        }
        again.process.kill();
        ended = if ended == "asked to end" { "killed" } else { "killed, its files not cached" };
    }
    section.table(starts);
    section.table(memory);
    section.note("first answer: from the start of the process to the answer of its first call");
    Ok(section)
}

/// Milliseconds, the median of several.
async fn empty_start(options: &Options) -> Outcome<f64> {
    let mut times = Vec::new();
    for _ in 0..STARTS {
        let folder = Folder::create(options, "empty")?;
        let (_daemon, took) = Daemon::start(options, folder.path()).await?;
        times.push(took);
    }
    times.sort();
    Ok(times.get(STARTS / 2).copied().unwrap_or_default().as_secs_f64() * 1e3)
}

pub(super) async fn run_many(daemon: &Daemon, runs: u64) -> Outcome<()> {
    let clients: Arc<[Client]> = daemon.clients(4).await?.into();
    let work = Arc::new(Work::single());
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let (clients, work) = (Arc::clone(&clients), Arc::clone(&work));
        let share = runs / CALLERS + u64::from(caller < runs % CALLERS);
        callers.spawn(async move {
            let index = usize::try_from(caller).unwrap_or_default() % clients.len();
            let client = clients.get(index).ok_or("no client")?;
            for _ in 0..share {
                work.execute(client).await?;
            }
            Outcome::Ok(())
        });
    }
    while let Some(caller) = callers.join_next().await {
        caller??;
    }
    Ok(())
}

fn resident(daemon: &Daemon, after: String, aim: Option<f64>) -> Outcome<Vec<Cell>> {
    let (now, highest) = process::memory(daemon.pid())?;
    let cell = |bytes: u64| Cell::new(bytes as f64 / MEBIBYTE, Unit::Mebibytes);
    let now = cell(now);
    Ok(vec![Cell::from(after), aim.map_or(now.clone(), |aim| now.at_most(aim)), cell(highest)])
}

/// Waits for a condition that is looked at again and again.
pub(super) async fn until<F: Future<Output = Outcome<bool>>>(
    what: &str,
    mut is_so: impl FnMut() -> F,
) -> Outcome<Duration> {
    let begin = Instant::now();
    while !is_so().await? {
        if begin.elapsed() > Duration::from_secs(180) {
            return Err(format!("it does not come about that {what}").into());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(begin.elapsed())
}
