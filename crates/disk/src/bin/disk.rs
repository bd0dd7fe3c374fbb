//! Cuts the power under the store, and has its calls to the file system fail.

use std::path::PathBuf;
use std::process::ExitCode;

use capataz_disk::work::{self, Ended, Order, STOPPED};
use capataz_disk::{Failure, faults, power};
use clap::{Parser, Subcommand};

/// The exit code of work that hangs.
const HUNG: i32 = 4;
/// The longest time that a piece of work may take.
const LONGEST: std::time::Duration = std::time::Duration::from_secs(120);

#[derive(Parser)]
#[command(name = "disk", about = "Cut the power under the store, and have its calls to the file system fail")]
struct Arguments {
    #[command(subcommand)]
    campaign: Campaign,
}

#[derive(Subcommand)]
enum Campaign {
    /// Build the data folder as it may be after a power cut at many moments, and look at each
    Power {
        /// Cuts in all
        #[arg(long, default_value_t = 1_000)]
        points: u64,
        /// The first seed; each round of 250 cuts has the next one, so that a later campaign can go on from there
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Operations of the store in each round
        #[arg(long, default_value_t = 150)]
        steps: u64,
        /// Answer the syncs of these paths (a pattern such as `*-wal`) and do not make them: has to be found
        #[arg(long, value_name = "PATTERN")]
        dropped: Option<String>,
        /// Have this program `capataz` do the work, with a daemon and real runs, instead of the store alone
        #[arg(long, value_name = "PROGRAM")]
        capataz: Option<PathBuf>,
        /// Start the daemon on one of so many folders, after they were looked at; 1 is each
        #[arg(long, value_name = "N", default_value_t = power::STARTS, requires = "capataz")]
        #[arg(value_parser = clap::value_parser!(u64).range(1..))]
        starts: u64,
        /// End after so many violations
        #[arg(long, default_value_t = 5)]
        violations: usize,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Have each call of the store to the file system fail once, in every way
    Faults {
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Operations of the store in each case
        #[arg(long, default_value_t = 40)]
        steps: u64,
        /// One of so many calls
        #[arg(long, default_value_t = 1)]
        every: usize,
        /// Only calls of this name: open, create, read, stat, map, write, sync, sync folder, truncate, rename, remove, make folder
        #[arg(long, value_name = "CALL")]
        only: Option<String>,
        /// Leave out so many calls, to go on where another campaign stopped
        #[arg(long, default_value_t = 0)]
        skip: usize,
        /// Keep the records of cases with violations in this folder
        #[arg(long, value_name = "FOLDER")]
        keep: Option<PathBuf>,
        /// The most cases
        #[arg(long, default_value_t = u64::MAX, hide_default_value = true)]
        cases: u64,
        /// End after so many violations
        #[arg(long, default_value_t = 5)]
        violations: usize,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// The program under test; the campaigns start it
    #[command(hide = true)]
    Work {
        #[arg(long)]
        data: PathBuf,
        #[arg(long)]
        record: PathBuf,
        #[arg(long)]
        seed: u64,
        #[arg(long)]
        steps: u64,
        #[arg(long)]
        stop_at_failure: bool,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse().campaign) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(campaign: Campaign) -> Result<ExitCode, Failure> {
    match campaign {
        Campaign::Power { points, seed, steps, dropped, capataz, starts, violations, json } => {
            let program = std::env::current_exe()?;
            let plan = power::Plan { program, seed, points, steps, dropped, capataz, starts, violations };
            let report = power::run(&plan, &mut |report| {
                eprintln!(
                    "{} cuts in {} rounds, {} violations",
                    report.points,
                    report.rounds,
                    report.violations.len()
                );
            })?;
            match json {
                true => println!("{}", serde_json::to_string(&report)?),
                false => print_power(&report),
            }
            Ok(code(report.violations.is_empty()))
        }
        Campaign::Faults { seed, steps, every, only, skip, keep, cases, violations, json } => {
            let program = std::env::current_exe()?;
            let plan = faults::Plan {
                program,
                seed,
                steps,
                every: every.max(1),
                only,
                skip,
                keep,
                cases,
                violations,
            };
            let report = faults::run(&plan, &mut |report| {
                if report.cases.is_multiple_of(50) {
                    let found = report.violations.len();
                    eprintln!(
                        "{} cases, up to call {} of {}, {found} violations",
                        report.cases, report.last, report.calls
                    );
                }
            })?;
            match json {
                true => println!("{}", serde_json::to_string(&report)?),
                false => print_faults(&report),
            }
            Ok(code(report.violations.is_empty()))
        }
        Campaign::Work { data, record, seed, steps, stop_at_failure } => {
            watch();
            match work::work(&Order { data, record, seed, steps, stop_at_failure })? {
                Ended::Done => Ok(ExitCode::SUCCESS),
                // As if killed: nothing is closed.
                Ended::Stopped => std::process::exit(i32::from(STOPPED)),
            }
        }
    }
}

fn code(passed: bool) -> ExitCode {
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Ends the process if it hangs.
fn watch() {
    std::thread::spawn(|| {
        std::thread::park_timeout(LONGEST);
        eprintln!("error: the work hangs");
        std::process::exit(HUNG);
    });
}

fn print_power(report: &power::Report) {
    let power::Report { rounds, points, by_cut, in_doubt, started, records, facts, violations } = report;
    println!("{points} cuts in {rounds} rounds; {in_doubt} of them while something was not durable");
    for (cut, count) in by_cut {
        println!("  {cut:?}: {count}");
    }
    println!("after {started} of them the daemon was started");
    println!("{facts} acknowledgements among {records} records");
    for found in violations {
        println!("seed {}, at record {}, {:?}: {}", found.seed, found.at, found.cut, found.what);
    }
    println!("{} violations", violations.len());
}

fn print_faults(report: &faults::Report) {
    let faults::Report { calls, cases, met, by_fault, told, restarted, cuts, last, violations } = report;
    println!(
        "{cases} cases, up to call {last} of {calls}; the call was made in {met}, an operation failed in {told}"
    );
    println!("{restarted} went on in another process; {cuts} power cuts afterwards");
    for (fault, count) in by_fault {
        println!("  {fault}: {count}");
    }
    for found in violations {
        let faults::Found { fault, path, stop_at_failure, what } = found;
        println!(
            "{} {} of {path} as {}, stopped {stop_at_failure}: {what}",
            fault.name, fault.number, fault.kind
        );
    }
    println!("{} violations", violations.len());
}
