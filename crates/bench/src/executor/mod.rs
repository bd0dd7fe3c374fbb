//! The executor's benchmark: finding elements, acting on them and taking evidence in a real Chromium, on a page like an
//! administration's, each beside what the protocol alone does.
//!
//! Whatever is compared is measured by turns in one loop, so that what else the machine does falls on both. The floors
//! come from a second browser that shows the same page and has nothing of ours in it: no script, no allowlist, no proxy.

mod actions;
mod browsers;
mod observation;
mod raw;
mod resolution;
mod times;
mod watched;

use std::path::PathBuf;

use capataz_testsite::{BIG_PAGE_ELEMENTS, Site};

use crate::Outcome;
use crate::report::Report;
use browsers::Browsers;

/// One part of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ExecutorSection {
    /// Finding one element, by each kind of locator
    Resolution,
    /// Clicks, texts and navigations with all their checks
    Actions,
    /// Signatures, partial DOM, HTML and pictures
    Observation,
}

impl ExecutorSection {
    const ALL: [Self; 3] = [Self::Resolution, Self::Actions, Self::Observation];
}

const EXAMPLES: &str = "\
Examples:
  cargo xtask bench executor
  cargo xtask bench executor --quick --only resolution
  cargo xtask bench executor --samples 2000 --json > executor.json

Aims stand beside the figures, with met or missed. They were set for an idle machine of two processors.";

/// How the executor's benchmark is run.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ExecutorOptions {
    /// Samples of each figure [default: 500, or 60 with --quick]
    #[arg(long)]
    samples: Option<u32>,
    /// Only these sections
    #[arg(long, value_enum, value_name = "NAME")]
    only: Vec<ExecutorSection>,
    /// The Chromium to drive; default: CAPATAZ_CHROMIUM, else the first along the path
    #[arg(long, value_name = "PROGRAM")]
    chromium: Option<PathBuf>,
    /// Folder for the browsers' profiles
    #[arg(long, default_value = "target/bench")]
    dir: PathBuf,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
    /// Few samples
    #[arg(long)]
    quick: bool,
}

impl ExecutorOptions {
    fn samples(&self) -> u32 {
        self.samples.unwrap_or(if self.quick { 60 } else { 500 }).max(1)
    }

    /// Rounds that come before those that count.
    fn warm_up(&self) -> u32 {
        (self.samples() / 10).max(5)
    }

    fn includes(&self, section: ExecutorSection) -> bool {
        self.only.is_empty() || self.only.contains(&section)
    }
}

/// Measures and prints.
///
/// # Errors
/// There is no Chromium, or something failed that was measured. A missed aim is no error.
pub async fn executor(options: &ExecutorOptions) -> Outcome<()> {
    std::fs::create_dir_all(&options.dir)?;
    let site = Site::start().await?;
    let load = load_average();
    let mut browsers = Browsers::open(options, &site).await?;
    let machine = vec![
        ("browser", browsers.version.clone()),
        ("page", format!("{BIG_PAGE_ELEMENTS} elements, 1280 × 720")),
        ("processors", std::thread::available_parallelism().map_or(0, usize::from).to_string()),
        ("load", load),
        ("measured", format!("{} samples each, after {} of warm-up", options.samples(), options.warm_up())),
    ];
    let mut report = Report::of_machine(machine, !options.json);
    for name in ExecutorSection::ALL.into_iter().filter(|name| options.includes(*name)) {
        if !options.json {
            eprintln!("measuring: {name:?}");
        }
        let section = match name {
            ExecutorSection::Resolution => resolution::resolution(options, &mut browsers).await,
            ExecutorSection::Actions => actions::actions(options, &mut browsers, &site).await,
            ExecutorSection::Observation => observation::observation(options, &mut browsers).await,
        };
        let mut section = section.map_err(|error| format!("{name:?}: {error}"))?;
        section.note(format!("load after it: {}", load_average()));
        report.add(section, !options.json);
    }
    browsers.close().await;
    if options.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    }
    Ok(())
}

/// The load of the last minute, and of the last five and fifteen minutes.
fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}
