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
    for kind in kinds.iter().copied() {
        let folder = Folder::create(options, "abuse")?;
        let (daemon, _) = Daemon::start(options, folder.path()).await?;
        let worker = daemon.worker(folder.path(), options.slots, false).await?;
        let work = Arc::new(Work::single());
        let load = Load::new(options, CALLERS);
        let before = execute(&daemon, &worker, load, Arc::clone(&work)).await?;
        let (resident, _) = process::memory(daemon.pid())?;
        let (mut abuser, begun) = (daemon.abuser(folder.path(), kind)?, Instant::now());
        let meanwhile = execute(&daemon, &worker, load, Arc::clone(&work)).await?;
        let own = abuser.cpu_time()?.as_secs_f64() / begun.elapsed().as_secs_f64().max(1e-9);
        let (_, highest) = process::memory(daemon.pid())?;
        drop(abuser);
        let ended = Instant::now();
        let short = Load { warm_up: Duration::ZERO, window: Duration::from_secs(2), ..load };
        let (mut after, mut least) = (0.0_f64, f64::INFINITY);
        while least > AS_BEFORE * cost(&before) && ended.elapsed() < RECOVERY {
            let window = execute(&daemon, &worker, short, Arc::clone(&work)).await?;
            (after, least) = (after.max(window.per_second()), least.min(cost(&window)));
        }
        let per_second = before.per_second().max(1e-9);
        let mebibytes = |bytes: u64| bytes as f64 / (1024.0 * 1024.0);
        table.row([
            Cell::from(format!("{kind:?}")),
            Cell::new(before.per_second(), Unit::Count),
            Cell::new(meanwhile.per_second(), Unit::Count),
            Cell::new(meanwhile.per_second() / per_second, Unit::Ratio).at_least(THROUGHPUT),
            Cell::new(100.0 * own, Unit::Percent),
            Cell::new(meanwhile.slowest(), Unit::Milliseconds),
            Cell::new(mebibytes(resident), Unit::Mebibytes),
            Cell::new(mebibytes(highest), Unit::Mebibytes).at_most(MEMORY),
            Cell::new(after / per_second, Unit::Ratio).at_least(THROUGHPUT),
            Cell::new(cost(&before), Unit::Microseconds),
            Cell::new(least, Unit::Microseconds),
            Cell::new(least / cost(&before).max(1e-9), Unit::Ratio).at_most(AS_BEFORE),
        ]);
    }
    section.table(table);
    section.note(
        "the abuser is a process of its own on the same processors, and what it takes of them (100 % is one processor) is part of the \
         ratio; any honest call that fails ends the benchmark, and so does an abuser that ends by itself",
    );
    section.note(
        "runs/s differ by a tenth from one minute to the next where nobody does anything (Nothing): whether all is as before is told by \
         what a run costs the daemon",
    );
    Ok(section)
}

/// Microseconds of the processors that a run costs the daemon.
fn cost(measured: &Measured<Used>) -> f64 {
    micros_each(Usage::between(measured.samples).cpu, measured.operations as f64)
}
