//! Runs simulated worlds and reports every invariant that did not hold.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use capataz_sim::{Campaign, Invariant, Record, Recorded, run_once};
use clap::Parser;

/// Lines of the trace that are shown of one world.
const LINES: usize = 100_000;
/// Lines of the trace that are shown for a violation.
const TAIL: usize = 60;
/// Seeds from which on every required combination of crash point and event kind has to be met.
const SEEDS_FOR_COVERAGE: u64 = 20_000;
/// Seeds between two looks at the record and the clock.
const BATCH: u64 = 500;
/// Seeds within which a planted fault has to be caught.
#[cfg(feature = "planted-faults")]
const SEEDS_FOR_FAULT: u64 = 2_000;

#[derive(Parser)]
#[command(name = "simulate", about = "Drive the shard's core through faults in virtual time")]
struct Arguments {
    /// Worlds to run; each runs twice
    #[arg(long, default_value_t = 1_000)]
    seeds: u64,
    /// The first of them
    #[arg(long, default_value_t = 1)]
    first_seed: u64,
    /// Run this one world and print its trace
    #[arg(long, conflicts_with_all = ["seeds", "planted"])]
    seed: Option<u64>,
    /// Lines of the trace to print with --seed, or turns with --replay; the last ones [default: all, none]
    #[arg(long)]
    lines: Option<usize>,
    /// Replay the trace of a real daemon (`capataz serve --trace FILE`); 1 where its outputs differ, 2 where it cannot be
    /// read
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seeds", "first_seed", "seed", "planted"])]
    replay: Option<PathBuf>,
    /// Show that each planted fault is caught; needs the feature `planted-faults`
    #[arg(long)]
    planted: bool,
    /// Plant this one fault in the world of --seed; without --seed, show that this one is caught
    #[arg(long)]
    fault: Option<String>,
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// End after so many violations
    #[arg(long, default_value_t = 5)]
    violations: usize,
    /// Go on with the campaigns of this file, and keep their totals in it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seed", "planted", "replay"])]
    record: Option<PathBuf>,
    /// End after so many minutes, at the end of a batch
    #[arg(long, value_name = "MINUTES")]
    minutes: Option<f64>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(file) = &arguments.replay {
        return recorded(file, &arguments);
    }
    // A panic is reported as a violation, with its seed.
    std::panic::set_hook(Box::new(|_| {}));
    let passed = if let Some(seed) = arguments.seed {
        replay(seed, &arguments)
    } else if arguments.planted || arguments.fault.is_some() {
        planted(&arguments)
    } else {
        campaign(&arguments)
    };
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The trace of a daemon. A panic of the daemon happens again here.
fn recorded(file: &Path, arguments: &Arguments) -> ExitCode {
    match Recorded::replay(file, arguments.lines.unwrap_or_default()) {
        Ok(recorded) => {
            match arguments.json {
                true => println!("{}", recorded.as_json()),
                false => println!("{recorded}"),
            }
            if recorded.is_same() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            let mut text = error.to_string();
            let mut cause = std::error::Error::source(&error);
            while let Some(error) = cause {
                text.push_str(&format!(": {error}"));
                cause = error.source();
            }
            eprintln!("error: {}: {text}", file.display());
            ExitCode::from(2)
        }
    }
}

fn replay(seed: u64, arguments: &Arguments) -> bool {
    if let Some(name) = &arguments.fault
        && !plant(name)
    {
        eprintln!("error: there is no fault {name:?}, or the feature `planted-faults` is off");
        return false;
    }
    let outcome = run_once(seed, arguments.lines.unwrap_or(LINES).max(1));
    for line in &outcome.lines {
        println!("{line}");
    }
    println!(
        "seed {seed}: {} inputs, {} events, {} runs, trace {:016x}",
        outcome.inputs, outcome.events, outcome.runs, outcome.hash
    );
    match outcome.violation {
        None => true,
        Some(violation) => {
            println!("violated {violation}\n  {}", violation.invariant.sentence());
            false
        }
    }
}

/// Runs the seeds that the record has not, a batch at a time, so that an interrupted campaign goes on where it was.
fn campaign(arguments: &Arguments) -> bool {
    let mut record = match &arguments.record {
        None => Record::new(arguments.first_seed),
        Some(file) => match Record::read(file, arguments.first_seed) {
            Ok(record) => record,
            Err(error) => {
                eprintln!("error: {}: {error}", file.display());
                return false;
            }
        },
    };
    let end = arguments.first_seed.saturating_add(arguments.seeds);
    let most = arguments.violations.max(1);
    let limit = arguments.minutes.map(|minutes| 60.0 * minutes);
    let (mut lasted, before) = (0.0, record.summary.seeds);
    while record.next_seed() < end
        && record.violations.len() < most
        && limit.is_none_or(|limit| lasted < limit)
    {
        #[expect(clippy::disallowed_methods, reason = "the figures tell how fast it was")]
        let began = std::time::Instant::now();
        let left = end - record.next_seed();
        let batch = Campaign {
            first_seed: record.next_seed(),
            // Without a record and a limit there is nothing to do between batches.
            seeds: if arguments.record.is_some() || limit.is_some() { left.min(BATCH) } else { left },
            threads: arguments.threads,
            most_violations: most - record.violations.len(),
        };
        let summary = batch.run();
        let is_whole = summary.seeds == batch.seeds;
        let seconds = began.elapsed().as_secs_f64();
        lasted += seconds;
        record.add(summary, seconds);
        // A batch that ended early has gaps: the next campaign runs it again.
        if let Some(file) = arguments.record.as_deref().filter(|_| is_whole)
            && let Err(error) = record.write(file)
        {
            eprintln!("error: {}: {error}", file.display());
            return false;
        }
        if !is_whole {
            break;
        }
    }
    tell(&record, before, arguments)
}

/// Prints the totals; whether they are as they should be.
fn tell(record: &Record, before: u64, arguments: &Arguments) -> bool {
    let summary = &record.summary;
    let missing = if summary.seeds >= SEEDS_FOR_COVERAGE { summary.coverage.missing() } else { Vec::new() };
    if arguments.json {
        println!("{}", as_json(record));
    } else {
        print(record);
        if let Some(file) = &arguments.record {
            println!("{before} of the seeds were in {} before", file.display());
        }
    }
    for (point, kind) in &missing {
        eprintln!("error: no crash {} met {kind}", point.name());
    }
    record.violations.is_empty() && missing.is_empty()
}

fn print(record: &Record) {
    let (summary, seconds) = (&record.summary, record.seconds);
    println!("{}\n", summary.coverage);
    println!(
        "{} seeds, each twice, in {seconds:.1} s ({:.0} worlds/s): {} inputs (at least {} each), {} events, {} runs, {} invariants",
        summary.seeds,
        2.0 * rate(summary.seeds, seconds),
        summary.inputs,
        summary.least_inputs.unwrap_or_default(),
        summary.events,
        summary.runs,
        Invariant::ALL.len()
    );
    for (seed, told) in &record.violations {
        println!("\nseed {seed} violates {told}");
        let again = run_once(*seed, TAIL);
        if let Some(violation) = &again.violation {
            println!("  {}", violation.invariant.sentence());
        }
        for line in again.lines {
            println!("    {line}");
        }
        println!("  replay: cargo xtask simulate --seed {seed}");
    }
}

fn as_json(record: &Record) -> serde_json::Value {
    let (summary, seconds) = (&record.summary, record.seconds);
    let coverage: Vec<serde_json::Value> = summary
        .coverage
        .cells()
        .map(|(point, kind, count)| {
            let kind = capataz_sim::EVENT_KINDS.get(kind).map(|(_, name)| name);
            serde_json::json!({ "point": point.name(), "event": kind, "count": count })
        })
        .collect();
    let told = |(seed, told): &(u64, String)| {
        let (invariant, detail) = told.split_once(": ").unwrap_or((told, ""));
        serde_json::json!({ "seed": seed, "invariant": invariant, "detail": detail })
    };
    let violations: Vec<serde_json::Value> = record.violations.iter().map(told).collect();
    serde_json::json!({
        "seeds": summary.seeds,
        "seconds": seconds,
        "inputs": summary.inputs,
        "least_inputs": summary.least_inputs,
        "events": summary.events,
        "runs": summary.runs,
        "coverage": coverage,
        "violations": violations,
    })
}

#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
fn rate(count: u64, seconds: f64) -> f64 {
    count as f64 / seconds.max(0.001)
}

#[cfg(feature = "planted-faults")]
fn plant(name: &str) -> bool {
    use capataz_engine::planted::{Fault, plant};
    let fault = Fault::ALL.into_iter().find(|fault| format!("{fault:?}") == name);
    plant(fault);
    fault.is_some()
}

#[cfg(not(feature = "planted-faults"))]
fn plant(_: &str) -> bool {
    false
}

/// Each fault is caught by some seed.
#[cfg(feature = "planted-faults")]
fn planted(arguments: &Arguments) -> bool {
    use capataz_engine::planted::Fault;
    let name = arguments.fault.as_deref();
    let is_wanted = |fault: &Fault| name.is_none_or(|name| format!("{fault:?}") == name);
    let wanted: Vec<Fault> = Fault::ALL.into_iter().filter(is_wanted).collect();
    let mut passed = !wanted.is_empty();
    for fault in wanted {
        match capataz_sim::search(fault, arguments.first_seed, SEEDS_FOR_FAULT) {
            Some(caught) => println!(
                "{fault:?}: caught by {} at seed {}\n    replay: cargo xtask simulate --seed {} --fault {fault:?}",
                caught.violation.invariant.name(),
                caught.seed,
                caught.seed
            ),
            None => {
                passed = false;
                println!("{fault:?}: not caught by {SEEDS_FOR_FAULT} seeds");
            }
        }
    }
    passed
}

#[cfg(not(feature = "planted-faults"))]
fn planted(_: &Arguments) -> bool {
    eprintln!("error: this build has no planted faults; run `cargo xtask simulate --planted`");
    false
}
