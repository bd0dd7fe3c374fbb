//! The router's benchmark: a decision alone, within one process; and an ask from its request to its durable answer,
//! through a daemon that is a process of its own.

mod decisions;
mod floor;
mod texts;

use std::path::PathBuf;

use crate::report::Report;
use crate::sections::{self, Floors};
use crate::{Options, Outcome, disk, refuse_memory};

/// One part of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum RouterSection {
    /// Training and decisions in one process, without a daemon
    Decisions,
    /// Bare gRPC, bare group commit of asks, bare fdatasync
    Floors,
    /// Asks through a daemon, without and with a session
    Asks,
}

impl RouterSection {
    const ALL: [Self; 3] = [Self::Decisions, Self::Floors, Self::Asks];
}

const EXAMPLES: &str = "\
Examples:
  cargo xtask bench router
  cargo xtask bench router --quick --only decisions
  cargo xtask bench router --rows intents.tsv --only decisions
  cargo xtask bench router --only floors --only asks --callers 1,64,256 --json > router.json

FILE has text, label and split (train, valid or test) with tabs between them, under a heading; a label is \
a spec, and oos stands for texts of no spec. Without it, 150 intents of 100 utterances are generated.

Aims stand beside the figures, with met or missed. They were set for 150 specs and 15,000 utterances on an \
idle machine.";

/// How the router's benchmark is run.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct RouterOptions {
    /// Seconds of each measurement, after its warm-up [default: 10, or 3 with --quick]
    #[arg(long)]
    seconds: Option<u64>,
    /// Only these sections
    #[arg(long, value_enum, value_name = "NAME")]
    only: Vec<RouterSection>,
    /// Rows to train on and to decide, instead of generated texts
    #[arg(long, value_name = "FILE", conflicts_with = "seed")]
    rows: Option<PathBuf>,
    /// Seed of the generated texts
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Callers at once
    #[arg(long, value_delimiter = ',', default_values_t = [1, 64])]
    callers: Vec<usize>,
    /// Folder for the databases, on a disk
    #[arg(long, default_value = "target/bench")]
    dir: PathBuf,
    /// The daemon's program; default: `capataz` beside this one
    #[arg(long)]
    daemon: Option<PathBuf>,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
    /// 3 seconds each, and fewer trainings
    #[arg(long)]
    quick: bool,
}

impl RouterOptions {
    fn includes(&self, section: RouterSection) -> bool {
        self.only.is_empty() || self.only.contains(&section)
    }

    /// As the parts that both benchmarks share read them.
    fn common(&self) -> Options {
        Options {
            seconds: Some(self.seconds.unwrap_or(if self.quick { 3 } else { 10 })),
            only: Vec::new(),
            callers: self.callers.clone(),
            dir: self.dir.clone(),
            daemon: self.daemon.clone(),
            beside: None,
            rounds: 1,
            slots: 1,
            json: self.json,
            quick: self.quick,
        }
    }
}

/// Measures and prints.
///
/// # Errors
/// The folder is not on a disk, the rows cannot be read, a process did not start, or an ask was not answered. A missed
/// aim is not an error.
pub async fn router(options: &RouterOptions) -> Outcome<()> {
    let common = options.common();
    std::fs::create_dir_all(&common.dir)?;
    let disk = disk::describe(&common.dir)?;
    if options.includes(RouterSection::Floors) || options.includes(RouterSection::Asks) {
        refuse_memory(&disk)?;
    }
    let agent = ("agent", "template, within the daemon".to_owned());
    let mut report = Report::new(&common, &disk, agent);
    let mut floors = <[Floors; 2]>::default();
    for name in RouterSection::ALL.into_iter().filter(|name| options.includes(*name)) {
        if !options.json {
            eprintln!("measuring: {name:?}");
        }
        let section = match name {
            RouterSection::Decisions => {
                let (options, common) = (options.clone(), common.clone());
                tokio::task::spawn_blocking(move || decisions::decisions(&options, &common)).await?
            }
            RouterSection::Floors => sections::ask_floors(&common, &disk, &mut floors).await,
            RouterSection::Asks => sections::asks(&common, &floors).await,
        };
        report.add(section.map_err(|error| format!("{name:?}: {error}"))?, !options.json);
    }
    if options.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    }
    Ok(())
}
