//! The benchmarks: what the daemon does in a second and what that costs it, what the router does, and how
//! fast the executor acts on a page.
//!
//! Daemon, worker and load generator are processes of their own that speak over loopback. The daemon is the shipped
//! binary with its default configuration on a disk; what it uses is read from outside, from `/proc` and from its files,
//! never from its own mouth. Each figure stands beside its aim and beside its floor: what gRPC alone, and the log alone,
//! do on the same machine in the same minutes.
//!
//! Nothing of this crate is shipped, and no other crate depends on it. It measures and decides nothing: a missed aim is
//! printed, and is not a failure.
//!
//! Begin reading with [`orchestration`], [`router()`] and [`executor()`]; each of [`sections`] is one part of a report.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::cast_precision_loss,
    reason = "it measures time and starts processes; figures are printed with two decimals"
)]

pub mod abuse;
mod children;
mod disk;
mod executor;
mod load;
mod process;
mod report;
pub mod roles;
mod router;
mod sections;
mod stored;
mod work;

use std::path::PathBuf;
use std::time::Duration;

pub use executor::{ExecutorOptions, ExecutorSection, executor};
use report::{Report, Section};
pub use router::{RouterOptions, RouterSection, router};

/// What went wrong, for the terminal.
pub type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// One part of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum SectionName {
    /// Bare gRPC, bare group commit, bare fdatasync
    Floors,
    /// Runs of a single task
    Single,
    /// Plans of 10 sequential and of 8 parallel tasks
    Plans,
    /// Plans of 10,000 tasks in one wave, and the largest plans
    Wide,
    /// Subscribers: live and history
    Events,
    /// Start-up, and memory after many runs
    Footprint,
    /// Restart with many unfinished runs
    Recovery,
    /// Restart over 200,000 runs that wait for a person
    Waiting,
    /// This daemon and the one of --beside by turns
    Turns,
}

impl SectionName {
    const ALL: [Self; 9] = [
        Self::Floors,
        Self::Single,
        Self::Plans,
        Self::Wide,
        Self::Events,
        Self::Footprint,
        Self::Recovery,
        Self::Waiting,
        Self::Turns,
    ];
}

/// How the benchmark is run.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Seconds of each measurement, after its warm-up
    #[arg(long)]
    seconds: Option<u64>,
    /// Only these sections
    #[arg(long, value_enum, value_name = "NAME")]
    only: Vec<SectionName>,
    /// Callers at once
    #[arg(long, value_delimiter = ',', default_values_t = [1, 64, 256])]
    callers: Vec<usize>,
    /// Folder for the databases, on a disk
    #[arg(long, default_value = "target/bench")]
    dir: PathBuf,
    /// The daemon's program; default: `capataz` beside this one
    #[arg(long)]
    daemon: Option<PathBuf>,
    /// Another daemon's program, such as that of an earlier commit, to be measured by turns with this one
    #[arg(long, value_name = "PROGRAM")]
    beside: Option<PathBuf>,
    /// Turns of each daemon
    #[arg(long, default_value_t = 6)]
    rounds: u32,
    /// Tasks that the worker takes at once
    #[arg(long, default_value_t = 512)]
    slots: u32,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
    /// 3 seconds each, and a tenth of the runs and events
    #[arg(long)]
    quick: bool,
}

impl Options {
    fn window(&self) -> Duration {
        Duration::from_secs(self.seconds.unwrap_or(if self.quick { 3 } else { 20 }).max(1))
    }

    fn warm_up(&self) -> Duration {
        Duration::from_secs(if self.quick { 1 } else { 3 })
    }

    /// A number of runs or events, a tenth of it in a quick benchmark.
    fn scaled(&self, number: u64) -> u64 {
        if self.quick { number / 10 } else { number }
    }

    fn includes(&self, section: SectionName) -> bool {
        match section {
            // A comparison takes minutes, and needs something to compare with.
            SectionName::Turns => {
                self.beside.is_some() && (self.only.is_empty() || self.only.contains(&section))
            }
            _ => self.only.is_empty() || self.only.contains(&section),
        }
    }
}

/// How the benchmark of abuse is run.
#[derive(Clone, Debug, clap::Args)]
pub struct AbuseOptions {
    #[command(flatten)]
    options: Options,
    /// Only these kinds
    #[arg(long, value_enum, value_name = "KIND")]
    kind: Vec<abuse::Abuse>,
}

/// How the benchmark of a long time is run.
#[derive(Clone, Debug, clap::Args)]
pub struct SteadyOptions {
    #[command(flatten)]
    options: Options,
    /// How long
    #[arg(long, default_value_t = 60)]
    minutes: u32,
}

/// Measures what a daemon holds under mixed load for a long time, and prints.
///
/// # Errors
/// As for [`orchestration`].
pub async fn steady(SteadyOptions { options, minutes }: &SteadyOptions) -> Outcome<()> {
    alone(options, sections::steady(options, *minutes)).await
}

/// Measures honest callers beside clients that mean harm, and prints.
///
/// # Errors
/// As for [`orchestration`]; an honest call that fails is one.
pub async fn abused(AbuseOptions { options, kind }: &AbuseOptions) -> Outcome<()> {
    std::fs::create_dir_all(&options.dir)?;
    let disk = disk::describe(&options.dir)?;
    refuse_memory(&disk)?;
    let worker = ("worker", format!("one process, {} slots", options.slots));
    let mut report = Report::new(options, &disk, worker);
    let kinds = if kind.is_empty() { &abuse::Abuse::ALL[..] } else { kind };
    for kind in kinds {
        if !options.json {
            eprintln!("measuring: {kind:?}");
        }
        report.add(sections::abuse(options, &[*kind]).await?, !options.json);
    }
    if options.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    }
    Ok(())
}

/// Measures and prints.
///
/// # Errors
/// The folder is not on a disk, a process did not start, or a call failed. A missed aim is not an error.
pub async fn orchestration(options: &Options) -> Outcome<()> {
    if options.only.contains(&SectionName::Turns) && options.beside.is_none() {
        return Err("turns needs the other daemon's program: --beside PROGRAM".into());
    }
    std::fs::create_dir_all(&options.dir)?;
    let disk = disk::describe(&options.dir)?;
    refuse_memory(&disk)?;
    let worker = ("worker", format!("one process, {} slots", options.slots));
    let mut report = Report::new(options, &disk, worker);
    let mut floors = sections::Floors::default();
    for name in SectionName::ALL.into_iter().filter(|name| options.includes(*name)) {
        if !options.json {
            eprintln!("measuring: {name:?}");
        }
        let section = match name {
            SectionName::Floors => sections::floors(options, &disk, &mut floors).await,
            SectionName::Single => sections::single(options, &floors).await,
            SectionName::Plans => sections::plans(options, &floors).await,
            SectionName::Wide => sections::wide(options).await,
            SectionName::Events => sections::events(options).await,
            SectionName::Footprint => sections::footprint(options).await,
            SectionName::Recovery => sections::recovery(options).await,
            SectionName::Waiting => sections::waiting(options).await,
            SectionName::Turns => match &options.beside {
                Some(other) => sections::turns(options, other).await,
                None => continue,
            },
        };
        report.add(section.map_err(|error| format!("{name:?}: {error}"))?, !options.json);
    }
    if options.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    }
    Ok(())
}

/// Measures pipelines, and prints.
///
/// # Errors
/// The folder is not on a disk, a process did not start, or a call failed. A missed aim is not an error.
pub async fn pipelines(options: &Options) -> Outcome<()> {
    alone(options, sections::pipelines(options)).await
}

/// Measures executions and their memory, and prints.
///
/// # Errors
/// The folder is not on a disk, a process did not start, or a call failed. A missed aim is not an error.
pub async fn modes(options: &Options) -> Outcome<()> {
    std::fs::create_dir_all(&options.dir)?;
    let disk = disk::describe(&options.dir)?;
    alone(options, sections::modes(options, &disk)).await
}

/// Measures what traces and metrics cost, and prints.
///
/// # Errors
/// The folder is not on a disk, a process did not start, or a call failed. A missed aim is not an error.
pub async fn telemetry(options: &Options) -> Outcome<()> {
    alone(options, sections::telemetry(options)).await
}

/// A report of one section.
async fn alone(options: &Options, section: impl Future<Output = Outcome<Section>>) -> Outcome<()> {
    std::fs::create_dir_all(&options.dir)?;
    let disk = disk::describe(&options.dir)?;
    refuse_memory(&disk)?;
    let worker = ("worker", format!("one process, {} slots", options.slots));
    let mut report = Report::new(options, &disk, worker);
    report.add(section.await?, !options.json);
    if options.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    }
    Ok(())
}

fn refuse_memory(disk: &disk::Disk) -> Outcome<()> {
    if disk.is_memory {
        // Gone again where it was made for this.
        let _ = std::fs::remove_dir(&disk.path);
        return Err(format!("{} is {}: nothing there is durable", disk.path.display(), disk.kind).into());
    }
    Ok(())
}
