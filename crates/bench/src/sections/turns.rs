//! Two daemons by turns: this one and another, such as that of an earlier commit.
//!
//! A machine is not as fast in one minute as in the next, so two programs that are measured one after the other cannot
//! be compared. Here the first and the second change places with each round (A B, B A, …), each turn with an empty
//! folder, a daemon and a worker of its own; the callers and the worker are of this commit for both.

use std::path::Path;
use std::sync::Arc;

use super::footprint::run_many;
use super::{Usage, execute, micros_each};
use crate::children::{Daemon, Folder};
use crate::load::Load;
use crate::report::{Cell, Section, Table, Unit};
use crate::work::Work;
use crate::{Options, Outcome, process};

/// After so many runs memory is compared.
const RUNS: u64 = 100_000;
/// Runs a second, processor time a run and memory, as shares of the other's: what a change should keep.
const AIM_RATE: f64 = 0.97;
const AIM_COST: f64 = 1.03;

/// What all turns of one daemon gave together.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    turns: f64,
    rate: f64,
    p50: f64,
    p99: f64,
    cpu: f64,
    written: f64,
}

impl Sum {
    fn mean(&self, of: impl Fn(&Self) -> f64) -> f64 {
        of(self) / self.turns.max(1.0)
    }
}

pub(crate) async fn turns(options: &Options, other: &Path) -> Outcome<Section> {
    let mut section = Section::new("This daemon and another one by turns: runs of a single task");
    let programs = [
        Options { beside: None, ..options.clone() },
        Options { daemon: Some(other.to_owned()), ..options.clone() },
    ];
    let mut table =
        Table::new(["callers", "daemon", "turns", "runs/s", "p50", "p99", "CPU/run", "disk bytes/run"]);
    let mut shares = Table::new(["callers", "runs/s", "p50", "p99", "CPU/run", "disk bytes/run"]);
    for concurrency in options.callers.iter().copied() {
        let mut sums = [Sum::default(); 2];
        for round in 0..options.rounds {
            let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
            for index in order {
                let (Some(program), Some(sum)) = (programs.get(index), sums.get_mut(index)) else { continue };
                turn(program, concurrency, sum).await?;
            }
        }
        for (name, sum) in ["this", "other"].into_iter().zip(&sums) {
            table.row([
                Cell::new(concurrency as f64, Unit::Count),
                Cell::from(name),
                Cell::new(sum.turns, Unit::Count),
                Cell::new(sum.mean(|sum| sum.rate), Unit::Count),
                Cell::new(sum.mean(|sum| sum.p50), Unit::Milliseconds),
                Cell::new(sum.mean(|sum| sum.p99), Unit::Milliseconds),
                Cell::new(sum.mean(|sum| sum.cpu), Unit::ExactMicroseconds),
                Cell::new(sum.mean(|sum| sum.written), Unit::Count),
            ]);
        }
        let [this, that] = &sums;
        let share = |of: fn(&Sum) -> f64| {
            Cell::new(this.mean(of) / that.mean(of).max(f64::MIN_POSITIVE), Unit::Ratio)
        };
        shares.row([
            Cell::new(concurrency as f64, Unit::Count),
            share(|sum| sum.rate).at_least(AIM_RATE),
            share(|sum| sum.p50),
            share(|sum| sum.p99),
            share(|sum| sum.cpu).at_most(AIM_COST),
            share(|sum| sum.written),
        ]);
    }
    section.table(table);
    section.table(shares);

    let mut memory = Table::new(["resident after", "this", "other", "share"]);
    let runs = options.scaled(RUNS);
    let [this, that] = [resident(&programs[0], runs).await?, resident(&programs[1], runs).await?];
    memory.row([
        Cell::from(format!("{runs} runs")),
        Cell::new(this / 1_048_576.0, Unit::Mebibytes),
        Cell::new(that / 1_048_576.0, Unit::Mebibytes),
        Cell::new(this / that.max(1.0), Unit::Ratio).at_most(AIM_COST),
    ]);
    section.table(memory);
    section.note("shares: this daemon's means by the other's; p50 and p99 are means of the turns'");
    Ok(section)
}

async fn turn(options: &Options, concurrency: usize, sum: &mut Sum) -> Outcome<()> {
    let folder = Folder::create(options, "turns")?;
    let (daemon, _) = Daemon::start(options, folder.path()).await?;
    let worker = daemon.worker(folder.path(), options.slots, false).await?;
    let work = Arc::new(Work::single());
    let measured = execute(&daemon, &worker, Load::new(options, concurrency), work).await?;
    let usage = Usage::between(measured.samples);
    let runs = measured.operations.max(1) as f64;
    sum.turns += 1.0;
    sum.rate += measured.per_second();
    sum.p50 += measured.quantile(0.5);
    sum.p99 += measured.quantile(0.99);
    sum.cpu += micros_each(usage.cpu, runs);
    sum.written += usage.written / runs;
    Ok(())
}

/// Bytes of memory after so many runs.
async fn resident(options: &Options, runs: u64) -> Outcome<f64> {
    let folder = Folder::create(options, "turns")?;
    let (daemon, _) = Daemon::start(options, folder.path()).await?;
    let _worker = daemon.worker(folder.path(), options.slots, false).await?;
    run_many(&daemon, runs).await?;
    Ok(process::memory(daemon.pid())?.0 as f64)
}
