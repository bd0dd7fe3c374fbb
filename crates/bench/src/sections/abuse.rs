//! Honest callers beside clients that mean harm.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Usage, Used, execute, micros_each};
use crate::abuse::Abuse;
use crate::children::{Daemon, Folder};
use crate::load::{Load, Measured};
use crate::report::{Cell, Section, Table, Unit};
use crate::work::Work;
use crate::{Options, Outcome, process};

/// Honest callers.
const CALLERS: usize = 64;
/// The least share of the throughput without abuse.
const THROUGHPUT: f64 = 0.7;
/// Mebibytes.
const MEMORY: f64 = 300.0;
/// How long everything may take to be as before, and how much more of the processors a run may cost the daemon then.
const RECOVERY: Duration = Duration::from_secs(10);
const AS_BEFORE: f64 = 1.1;
/// Descriptors that the daemon may have more of than before: up to 12 connections that have read the database stay open, with
/// two files each (`SqliteOptions::idle_readers`).
const FILES: f64 = 24.0;
/// Threads that it may have more of than before: as many as may read or store at once for clients and workers, each of which
/// ends when it had nothing to do for 10 s (`Reads` of the runtime: 8, 4, 2 and 4).
const THREADS: f64 = 18.0;

/// What the daemon holds at one moment.
#[derive(Clone, Copy, Debug)]
struct Held {
    files: f64,
    threads: f64,
    /// Mebibytes.
    resident: f64,
}

impl Held {
    fn of(daemon: &Daemon) -> Outcome<Self> {
        let (resident, _) = process::memory(daemon.pid())?;
        Ok(Self {
            files: process::open_files(daemon.pid())? as f64,
            threads: process::threads(daemon.pid())? as f64,
            resident: mebibytes(resident),
        })
    }

    /// The most that there may be after abuse, where there was this before.
    fn most(self) -> Self {
        Self { files: self.files + FILES, threads: self.threads + THREADS, resident: MEMORY }
    }

    fn is_within(self, most: Self) -> bool {
        self.files <= most.files && self.threads <= most.threads && self.resident <= most.resident
    }
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / (1024.0 * 1024.0)
}

pub(crate) async fn abuse(options: &Options, kinds: &[Abuse]) -> Outcome<Section> {
    let mut section = Section::new("Abuse: 64 honest callers beside clients that mean harm");
    let mut table = Table::new([
        "abuse",
        "runs/s before",
        "meanwhile",
        "ratio",
        "abuser's own CPU",
        "slowest",
        "memory before",
        "highest",
        "ratio after",
        "daemon's CPU per run before",
        "within 10 s",
        "ratio",
    ]);
    let mut holds = Table::new([
        "abuse",
        "files before",
        "files within 10 s",
        "threads before",
        "threads within 10 s",
        "memory within 10 s",
    ]);
    for kind in kinds.iter().copied() {
        let folder = Folder::create(options, "abuse")?;
        let (daemon, _) = Daemon::start(options, folder.path()).await?;
        let worker = daemon.worker(folder.path(), options.slots, false).await?;
        let work = Arc::new(Work::single());
        let load = Load::new(options, CALLERS);
        let before = execute(&daemon, &worker, load, Arc::clone(&work)).await?;
        let held = Held::of(&daemon)?;
        let (mut abuser, begun) = (daemon.abuser(folder.path(), kind)?, Instant::now());
        let meanwhile = execute(&daemon, &worker, load, Arc::clone(&work)).await?;
        let own = abuser.cpu_time()?.as_secs_f64() / begun.elapsed().as_secs_f64().max(1e-9);
        let (_, highest) = process::memory(daemon.pid())?;
        drop(abuser);
        let ended = Instant::now();
        let short = Load { warm_up: Duration::ZERO, window: Duration::from_secs(2), ..load };
        let (mut after, mut least) = (0.0_f64, f64::INFINITY);
        let most = held.most();
        let still_held = loop {
            let window = execute(&daemon, &worker, short, Arc::clone(&work)).await?;
            (after, least) = (after.max(window.per_second()), least.min(cost(&window)));
            let now = Held::of(&daemon)?;
            let is_as_before = least <= AS_BEFORE * cost(&before) && now.is_within(most);
            if is_as_before || ended.elapsed() >= RECOVERY {
                break now;
            }
        };
        let per_second = before.per_second().max(1e-9);
        table.row([
            Cell::from(format!("{kind:?}")),
            Cell::new(before.per_second(), Unit::Count),
            Cell::new(meanwhile.per_second(), Unit::Count),
            Cell::new(meanwhile.per_second() / per_second, Unit::Ratio).at_least(THROUGHPUT),
            Cell::new(100.0 * own, Unit::Percent),
            Cell::new(meanwhile.slowest(), Unit::Milliseconds),
            Cell::new(held.resident, Unit::Mebibytes),
            Cell::new(mebibytes(highest), Unit::Mebibytes).at_most(MEMORY),
            Cell::new(after / per_second, Unit::Ratio).at_least(THROUGHPUT),
            Cell::new(cost(&before), Unit::Microseconds),
            Cell::new(least, Unit::Microseconds),
            Cell::new(least / cost(&before).max(1e-9), Unit::Ratio).at_most(AS_BEFORE),
        ]);
        holds.row([
            Cell::from(format!("{kind:?}")),
            Cell::new(held.files, Unit::Count),
            Cell::new(still_held.files, Unit::Count).at_most(most.files),
            Cell::new(held.threads, Unit::Count),
            Cell::new(still_held.threads, Unit::Count).at_most(most.threads),
            Cell::new(still_held.resident, Unit::Mebibytes).at_most(most.resident),
        ]);
    }
    section.table(table);
    section.table(holds);
    section.note(
        "the abuser is a process of its own on the same processors, and what it takes of them (100 % is one processor) is part of the \
         ratio; any honest call that fails ends the benchmark, and so does an abuser that ends by itself",
    );
    section.note(
        "runs/s differ by a tenth from one minute to the next where nobody does anything (Nothing): whether all is as before is told by \
         what a run costs the daemon",
    );
    section.note(
        "what the daemon may have more of than before are 24 files, of connections to its database that stay open, and 18 threads, of those \
         who may read at once, each of which ends after 10 s without work",
    );
    Ok(section)
}

/// Microseconds of the processors that a run costs the daemon.
fn cost(measured: &Measured<Used>) -> f64 {
    micros_each(Usage::between(measured.samples).cpu, measured.operations as f64)
}
