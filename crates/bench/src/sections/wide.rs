//! Is a task of a very wide plan dearer than a task of a small one, and do the largest plans keep everybody else waiting?

use std::sync::Arc;
use std::time::Instant;

use capataz_client::{Client, v1};

use super::telemetry::scrape;
use super::{Gauge, Usage, execute, micros_each};
use crate::children::{Daemon, Folder, Process};
use crate::load::Load;
use crate::report::{Cell, Section, Table, Unit};
use crate::roles::AGENT;
use crate::work::Work;
use crate::{Options, Outcome};

/// Small plans: 8 tasks each, as many at once as fill the worker's 512 slots.
const SMALL: (usize, usize) = (8, 64);
const WIDE: usize = 10_000;
/// As many tasks as there may be in a plan.
const WIDEST: usize = 50_000;
/// The bytes of a text that an output has room for. A plan has room for so many tasks that give such a text back, and a wave
/// for so many inputs that have one of them.
const TEXT: usize = 32 * 1024 - 64;
const READ: usize = 85;
const READERS: usize = 250;

/// What plans of one kind gave.
struct Measured {
    plan: String,
    plans: usize,
    rate: f64,
    of_small: Option<f64>,
    usage: Usage,
    settled: f64,
    median: f64,
    /// Turns that lasted longer than anybody is to wait for.
    long_turns: f64,
}

pub(crate) async fn wide(options: &Options) -> Outcome<Section> {
    let mut section = Section::new("One wave of 10,000 tasks, and the largest plans");
    let mut table = Table::new([
        "plan",
        "plans at once",
        "tasks/s",
        "of small",
        "daemon CPU/task",
        "commits/task",
        "plan p50",
        "turns over 50 ms",
        "CPU taken by others",
    ]);
    let folder = Folder::create(options, "wide")?;
    let (daemon, _) = Daemon::start(options, folder.path()).await?;
    let worker = daemon.worker(folder.path(), options.slots, false).await?;
    let small = small(options, &daemon, &worker).await?;
    let small_rate = small.rate;
    table.row(small.cells());

    let client = daemon.client().await?;
    let work = Work::plan(1, WIDE);
    let plan = format!("{WIDE} tasks");
    let wide = one_by_one(options, &daemon, &worker, plan, WIDE, || work.execute(&client)).await?;
    let of_small = Some(wide.rate / small_rate.max(1e-9));
    table.row(Measured { of_small, ..wide }.cells());

    let work = widest();
    let plan = format!("{WIDEST} tasks, begun and cancelled");
    let widest =
        one_by_one(options, &daemon, &worker, plan, WIDEST, || begin_and_cancel(&client, &work)).await?;
    table.row(widest.cells());

    let work = referring();
    let plan = format!("{READERS} tasks that read {READ} outputs of 32 KiB");
    let tasks = READ + READERS;
    let referring = one_by_one(options, &daemon, &worker, plan, tasks, || work.execute(&client)).await?;
    table.row(referring.cells());
    section.table(table);
    section.note("turns: by capataz_turn_seconds, without the commits in them; also those of the first plan");
    Ok(section)
}

async fn small(options: &Options, daemon: &Daemon, worker: &Process) -> Outcome<Measured> {
    let (tasks, concurrency) = SMALL;
    let before = long_turns(daemon).await?;
    let load = Load::new(options, concurrency);
    let small = execute(daemon, worker, load, Arc::new(Work::plan(1, tasks))).await?;
    Ok(Measured {
        plan: format!("{tasks} tasks"),
        plans: concurrency,
        rate: small.per_second() * tasks as f64,
        of_small: None,
        settled: (small.operations as usize * tasks) as f64,
        median: small.quantile(0.5),
        usage: Usage::between(small.samples),
        long_turns: long_turns(daemon).await? - before,
    })
}

/// Plans of so many tasks one after the other: a first one, and then for as long as is measured, three at least.
async fn one_by_one<A: Future<Output = Outcome<()>>>(
    options: &Options,
    daemon: &Daemon,
    worker: &Process,
    plan: String,
    tasks: usize,
    execute: impl Fn() -> A,
) -> Outcome<Measured> {
    let before = long_turns(daemon).await?;
    execute().await?;
    let gauge = Gauge::new(daemon, worker);
    let first = gauge.read()?;
    let begin = Instant::now();
    let mut times = Vec::new();
    while begin.elapsed() < options.window() || times.len() < 3 {
        let asked = Instant::now();
        execute().await?;
        times.push(asked.elapsed().as_secs_f64() * 1e3);
    }
    let settled = (times.len() * tasks) as f64;
    let rate = settled / begin.elapsed().as_secs_f64();
    let usage = Usage::between((first, gauge.read()?));
    times.sort_by(f64::total_cmp);
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    let long_turns = long_turns(daemon).await? - before;
    Ok(Measured { plan, plans: 1, rate, of_small: None, usage, settled, median, long_turns })
}

/// A run whose tasks all end in two turns: those in which it begins and is cancelled.
async fn begin_and_cancel(client: &Client, work: &Work) -> Outcome<()> {
    let run_id = client.start_run(work.request()).await?.run_id;
    let request = v1::CancelRunRequest { run_id, force: true, ..v1::CancelRunRequest::default() };
    client.cancel_run(request).await?;
    Ok(())
}

/// How many turns of the daemon have lasted for more than 50 ms so far.
async fn long_turns(daemon: &Daemon) -> Outcome<f64> {
    let text = scrape(daemon.address).await?;
    let value = |series: &str| -> Outcome<f64> {
        let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        Ok(line.ok_or_else(|| format!("the daemon has no {series}"))?.trim().parse()?)
    };
    Ok(value("capataz_turn_seconds_count")? - value("capataz_turn_seconds_bucket{le=\"0.05\"}")?)
}

fn task(name: String, input: String) -> v1::Task {
    let data = Some(v1::payload::Data::Inline(input.into()));
    let input = Some(v1::Payload { media_type: "application/json".to_owned(), data });
    v1::Task { name, agent: AGENT.to_owned(), input, ..v1::Task::default() }
}

fn wave(tasks: impl Iterator<Item = v1::Task>) -> v1::Wave {
    v1::Wave { tasks: tasks.collect(), ..v1::Wave::default() }
}

/// A plan of as many tasks as there may be.
fn widest() -> Work {
    Work::of_waves(vec![wave((0..WIDEST).map(|number| task(format!("t{number}"), "1".to_owned())))])
}

/// A plan whose second wave is given as much of what the first one has given as there is room for.
fn referring() -> Work {
    let text = format!("\"{}\"", "x".repeat(TEXT));
    let read = (0..READ).map(|number| task(format!("s{number}"), text.clone()));
    let reader =
        |number: usize| task(format!("t{number}"), format!("[\"${{tasks.s{}.output}}\"]", number % READ));
    Work::of_waves(vec![wave(read), wave((0..READERS).map(reader))])
}

impl Measured {
    fn cells(self) -> Vec<Cell> {
        let of_small = |ratio| Cell::new(ratio, Unit::Ratio).at_least(0.5);
        vec![
            Cell::from(self.plan),
            Cell::new(self.plans as f64, Unit::Count),
            Cell::new(self.rate, Unit::Count),
            self.of_small.map_or_else(|| Cell::from("-"), of_small),
            Cell::new(micros_each(self.usage.cpu, self.settled), Unit::Microseconds),
            Cell::new(self.usage.commits / self.settled.max(1.0), Unit::Exact),
            Cell::new(self.median, Unit::Milliseconds),
            Cell::new(self.long_turns, Unit::Count).at_most(0.0),
            Cell::new(self.usage.elsewhere * 100.0, Unit::Percent),
        ]
    }
}
