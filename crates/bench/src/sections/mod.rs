//! The parts of the report. Each starts its own daemon on an empty folder.

mod abuse;
mod asks;
mod events;
mod floors;
mod footprint;
mod modes;
mod pipelines;
mod recovery;
mod runs;
mod steady;
mod telemetry;
mod turns;
mod waiting;
mod wide;

pub(crate) use abuse::abuse;
pub(crate) use asks::{ask_floors, asks};
pub(crate) use events::events;
pub(crate) use floors::{Floors, floors};
pub(crate) use footprint::footprint;
pub(crate) use modes::modes;
pub(crate) use pipelines::pipelines;
pub(crate) use recovery::recovery;
pub(crate) use runs::{plans, single};
pub(crate) use steady::steady;
pub(crate) use telemetry::telemetry;
pub(crate) use turns::turns;
pub(crate) use waiting::waiting;
pub(crate) use wide::wide;

use std::sync::Arc;
use std::time::{Duration, Instant};

use capataz_client::Client;

use crate::children::{Daemon, Folder, Process};
use crate::load::{Load, Measured, closed_loop};
use crate::report::{Cell, Unit};
use crate::stored::Database;
use crate::work::Work;
use crate::{Outcome, disk, process};

/// What had been used at one moment.
#[derive(Clone, Copy, Debug)]
struct Used {
    at: Instant,
    /// The time that the daemon used.
    cpu: Duration,
    worker: Duration,
    /// The time that the load generator used.
    callers: Duration,
    /// The time that all processes of the machine used.
    machine: Duration,
    transactions: u32,
    written: u64,
}

/// Reads what is used.
#[derive(Clone, Debug)]
struct Gauge {
    daemon: u32,
    worker: Option<u32>,
    database: Database,
}

impl Gauge {
    fn new(daemon: &Daemon, worker: &Process) -> Self {
        Self { worker: Some(worker.pid()), ..Self::alone(daemon) }
    }

    /// Without a worker.
    fn alone(daemon: &Daemon) -> Self {
        Self { daemon: daemon.pid(), worker: None, database: daemon.database() }
    }

    fn read(&self) -> Outcome<Used> {
        Ok(Used {
            at: Instant::now(),
            cpu: process::cpu_time(self.daemon)?,
            worker: self.worker.map_or(Ok(Duration::ZERO), process::cpu_time)?,
            callers: process::cpu_time(std::process::id())?,
            machine: process::machine_time()?,
            transactions: self.database.transactions()?,
            written: process::written_bytes(self.daemon)?,
        })
    }
}

/// What one measurement used.
#[derive(Clone, Copy, Debug)]
struct Usage {
    cpu: Duration,
    worker: Duration,
    callers: Duration,
    commits: f64,
    written: f64,
    /// Share of the machine's processors that was spent on something else.
    elsewhere: f64,
}

impl Usage {
    fn between((first, last): (Used, Used)) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        let (cpu, worker) = (last.cpu - first.cpu, last.worker - first.worker);
        let callers = last.callers - first.callers;
        let others = (last.machine - first.machine).saturating_sub(cpu + worker + callers);
        Self {
            cpu,
            worker,
            callers,
            commits: f64::from(last.transactions.wrapping_sub(first.transactions)),
            written: last.written.saturating_sub(first.written) as f64,
            elsewhere: others.as_secs_f64() / (last.at - first.at).as_secs_f64() / processors,
        }
    }
}

/// Microseconds for each of so many operations.
fn micros_each(used: Duration, operations: f64) -> f64 {
    used.as_secs_f64() * 1e6 / operations.max(1.0)
}

/// Executes runs in a closed loop.
async fn execute(daemon: &Daemon, worker: &Process, load: Load, work: Arc<Work>) -> Outcome<Measured<Used>> {
    let clients: Arc<[Client]> = daemon.clients(load.connections()).await?.into();
    let gauge = Gauge::new(daemon, worker);
    let sample = move || gauge.read();
    closed_loop(load, sample, move |caller| {
        let (clients, work) = (Arc::clone(&clients), Arc::clone(&work));
        async move {
            let client = clients.get(caller % clients.len()).ok_or("no client")?;
            work.execute(client).await
        }
    })
    .await
}

/// How often the disk could sync just before a measurement.
async fn disk_now(folder: &Folder) -> Outcome<Cell> {
    let path = folder.path().to_owned();
    let probe = move || disk::syncs_per_second(&path, Duration::from_millis(500));
    Ok(Cell::new(tokio::task::spawn_blocking(probe).await??, Unit::Count))
}
