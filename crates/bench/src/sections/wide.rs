//! Is a task of a very wide plan dearer than a task of a small one?

use std::sync::Arc;
use std::time::Instant;

use super::{Gauge, Usage, execute, micros_each};
use crate::children::{Daemon, Folder};
use crate::load::Load;
use crate::report::{Cell, Section, Table, Unit};
use crate::work::Work;
use crate::{Options, Outcome};

/// Small plans: 8 tasks each, as many at once as fill the worker's 512 slots.
const SMALL: (usize, usize) = (8, 64);
const WIDE: usize = 10_000;

pub(crate) async fn wide(options: &Options) -> Outcome<Section> {
    let mut section = Section::new("One wave of 10,000 tasks");
    let mut table = Table::new([
        "plan",
        "plans at once",
        "tasks/s",
        "of small",
        "daemon CPU/task",
        "commits/task",
        "plan p50",
        "CPU taken by others",
    ]);
    let folder = Folder::create(options, "wide")?;
    let (daemon, _) = Daemon::start(options, folder.path()).await?;
    let worker = daemon.worker(folder.path(), options.slots, false).await?;
    let (tasks, concurrency) = SMALL;
    let load = Load::new(options, concurrency);
    let small = execute(&daemon, &worker, load, Arc::new(Work::plan(1, tasks))).await?;
    let small_rate = small.per_second() * tasks as f64;
    let settled = (small.operations as usize * tasks) as f64;
    let usage = Usage::between(small.samples);
    table.row(row(tasks, concurrency, small_rate, None, usage, settled, small.quantile(0.5)));

    let client = daemon.client().await?;
    let work = Work::plan(1, WIDE);
    work.execute(&client).await?;
    let gauge = Gauge::new(&daemon, &worker);
    let first = gauge.read()?;
    let begin = Instant::now();
    let mut times = Vec::new();
    while begin.elapsed() < options.window() || times.len() < 3 {
        let asked = Instant::now();
        work.execute(&client).await?;
        times.push(asked.elapsed().as_secs_f64() * 1e3);
    }
    let settled = (times.len() * WIDE) as f64;
    let rate = settled / begin.elapsed().as_secs_f64();
    let usage = Usage::between((first, gauge.read()?));
    times.sort_by(f64::total_cmp);
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    table.row(row(WIDE, 1, rate, Some(rate / small_rate.max(1e-9)), usage, settled, median));
    section.table(table);
    Ok(section)
}

fn row(
    tasks: usize,
    plans: usize,
    rate: f64,
    of_small: Option<f64>,
    usage: Usage,
    settled: f64,
    median: f64,
) -> Vec<Cell> {
    vec![
        Cell::from(format!("{tasks} tasks")),
        Cell::new(plans as f64, Unit::Count),
        Cell::new(rate, Unit::Count),
        of_small.map_or_else(|| Cell::from("-"), |ratio| Cell::new(ratio, Unit::Ratio).at_least(0.5)),
        Cell::new(micros_each(usage.cpu, settled), Unit::Microseconds),
        Cell::new(usage.commits / settled.max(1.0), Unit::Exact),
        Cell::new(median, Unit::Milliseconds),
        Cell::new(usage.elsewhere * 100.0, Unit::Percent),
    ]
}
