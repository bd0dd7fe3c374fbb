//! Runs from request to end, in a closed loop.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::floors::rate_at;
use super::{Floors, Usage, disk_now, execute, micros_each};
use crate::children::{Daemon, Folder};
use crate::load::Load;
use crate::report::{Aim, Cell, Section, Table, Unit};
use crate::stored::Stored;
use crate::work::Work;
use crate::{Options, Outcome, process};

/// What is aimed at with single-task runs: runs a second, and milliseconds at the 99th percentile.
fn aims(concurrency: usize) -> (Option<f64>, Option<f64>) {
    match concurrency {
        1 => (Some(1_500.0), None),
        64 => (Some(7_000.0), Some(20.0)),
        256 => (Some(8_000.0), Some(60.0)),
        _ => (None, None),
    }
}

/// Commits of a single-task run that shares them with nobody, and its daemon's CPU in microseconds.
const COMMITS: f64 = 2.0;
const CPU: f64 = 110.0;
/// A lone caller's median, by one echo and two commits of the same benchmark.
const OF_FLOOR: f64 = 2.0;

/// Runs a second of a durable-execution server with its worker on two idle cores, by the number of callers.
type Peer = &'static [(usize, f64)];
/// One step, ten steps one after the other, eight steps at once.
const PEER_SINGLE: Peer = &[(1, 297.0), (64, 1_335.0), (256, 1_901.0)];
const PEER_SEQUENTIAL: Peer = &[(1, 78.0), (64, 329.0), (256, 438.0)];
const PEER_PARALLEL: Peer = &[(64, 512.0)];

pub(crate) async fn single(options: &Options, floors: &Floors) -> Outcome<Section> {
    let mut section = Section::new("Runs of a single task");
    measure(options, "single", Work::single, PEER_SINGLE, true, floors, &mut section).await?;
    Ok(section)
}

pub(crate) async fn plans(options: &Options, floors: &Floors) -> Outcome<Section> {
    let mut section = Section::new("Plans: 10 sequential tasks, then 8 parallel tasks");
    measure(options, "sequential", || Work::plan(10, 1), PEER_SEQUENTIAL, false, floors, &mut section)
        .await?;
    measure(options, "parallel", || Work::plan(1, 8), PEER_PARALLEL, false, floors, &mut section).await?;
    Ok(section)
}

async fn measure(
    options: &Options,
    name: &str,
    work: impl Fn() -> Work,
    peer: Peer,
    has_aims: bool,
    floors: &Floors,
    section: &mut Section,
) -> Outcome<()> {
    let mut speed = Table::new([
        "callers",
        "runs/s",
        "p50",
        "p99",
        "slowest",
        "of echo",
        "of commit",
        "of peer",
        "p50 of floor",
        "disk syncs/s before",
        "CPU taken by others",
    ]);
    let mut cost = Table::new([
        "callers",
        "daemon CPU/run",
        "worker's",
        "callers'",
        "commits/run",
        "log rows",
        "other rows",
        "event bytes",
        "disk bytes",
    ]);
    let mut threads = String::new();
    for concurrency in options.callers.iter().copied() {
        let folder = Folder::create(options, name)?;
        let (daemon, _) = Daemon::start(options, folder.path()).await?;
        let worker = daemon.worker(folder.path(), options.slots, false).await?;
        let syncs = disk_now(&folder).await?;
        let before = daemon.database().stored()?;
        let by_thread = process::cpu_by_thread(daemon.pid())?;
        let work = Arc::new(work());
        let tasks = work.tasks();
        let measured = execute(&daemon, &worker, Load::new(options, concurrency), work).await?;
        let per_run = daemon.database().stored()?.per_run(before, measured.all_operations);
        let usage = Usage::between(measured.samples);
        let runs = measured.operations.max(1) as f64;
        let rate = measured.per_second();

        let (aim_rate, aim_p99) = aims(concurrency);
        let at_least = |aim: Option<f64>| aim.filter(|_| has_aims).map(Aim::AtLeast);
        let at_most = |aim: Option<f64>| aim.filter(|_| has_aims).map(Aim::AtMost);
        let ratio = |floor: Option<f64>| {
            floor.map_or_else(|| Cell::from("-"), |floor| Cell::new(rate / floor.max(1e-9), Unit::Ratio))
        };
        speed.row([
            Cell::new(concurrency as f64, Unit::Count),
            Cell::new(rate, Unit::Count).aiming(at_least(aim_rate)),
            Cell::new(measured.quantile(0.5), Unit::Milliseconds),
            Cell::new(measured.quantile(0.99), Unit::Milliseconds).aiming(at_most(aim_p99)),
            Cell::new(measured.slowest(), Unit::Milliseconds),
            ratio(floors.echo(concurrency)),
            ratio(floors.commit(concurrency)),
            ratio(rate_at(peer, concurrency)),
            of_floor(floors, concurrency, has_aims, measured.quantile(0.5)),
            syncs,
            Cell::new(usage.elsewhere * 100.0, Unit::Percent),
        ]);
        let commits_aim = at_most(Some(COMMITS + 0.01));
        cost.row([
            Cell::new(concurrency as f64, Unit::Count),
            Cell::new(micros_each(usage.cpu, runs), Unit::Microseconds).aiming(at_most(Some(CPU))),
            Cell::new(micros_each(usage.worker, runs), Unit::Microseconds),
            Cell::new(micros_each(usage.callers, runs), Unit::Microseconds),
            Cell::new(usage.commits / runs, Unit::Exact).aiming(commits_aim),
            Cell::new(per_run(|stored: &Stored| stored.log_rows), Unit::Exact),
            Cell::new(per_run(|stored: &Stored| stored.runs + stored.keys), Unit::Exact),
            Cell::new(per_run(|stored: &Stored| stored.event_bytes), Unit::Count),
            Cell::new(usage.written / runs, Unit::Count),
        ]);
        if concurrency == 64 {
            let after = process::cpu_by_thread(daemon.pid())?;
            threads = by_threads(&by_thread, &after, measured.all_operations * tasks as u64);
        }
    }
    section.table(speed);
    section.table(cost);
    if !threads.is_empty() {
        section.note(format!("daemon CPU a task by threads, 64 callers: {threads}"));
    }
    Ok(())
}

/// `p50` in milliseconds; a share for a lone caller's runs of a single task, where the floors were measured.
fn of_floor(floors: &Floors, concurrency: usize, is_single: bool, p50: f64) -> Cell {
    match floors.lone_run() {
        Some(floor) if concurrency == 1 && is_single => {
            Cell::new(p50 / floor.max(f64::MIN_POSITIVE), Unit::Ratio).at_most(OF_FLOOR)
        }
        _ => Cell::from("-"),
    }
}

fn by_threads(before: &BTreeMap<String, Duration>, after: &BTreeMap<String, Duration>, tasks: u64) -> String {
    let mut used: Vec<(f64, &String)> = after
        .iter()
        .map(|(name, cpu)| (cpu.saturating_sub(before.get(name).copied().unwrap_or_default()), name))
        .map(|(cpu, name)| (cpu.as_secs_f64() * 1e6 / tasks.max(1) as f64, name))
        .filter(|(micros, _)| *micros >= 0.1)
        .collect();
    used.sort_by(|left, right| right.0.total_cmp(&left.0));
    used.iter().map(|(micros, name)| format!("{name} {micros:.1} µs")).collect::<Vec<_>>().join(", ")
}
