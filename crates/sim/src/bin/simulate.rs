//! Runs simulated worlds and reports every invariant that did not hold.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use capataz_sim::{Campaign, Invariant, Recorded, Summary, run_once};
use clap::Parser;

/// Lines of the trace that are shown of one world.
const LINES: usize = 100_000;
/// Lines of the trace that are shown for a violation.
const TAIL: usize = 60;
/// Seeds from which on every required combination of crash point and event kind has to be met.
const SEEDS_FOR_COVERAGE: u64 = 20_000;
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
    /// Plant this one fault in the world of --seed
    #[arg(long, requires = "seed")]
    fault: Option<String>,
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// End after so many violations
    #[arg(long, default_value_t = 5)]
    violations: usize,
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
    } else if arguments.planted {
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

fn campaign(arguments: &Arguments) -> bool {
    #[expect(clippy::disallowed_methods, reason = "the figures tell how fast it was")]
    let began = std::time::Instant::now();
    let campaign = Campaign {
        first_seed: arguments.first_seed,
        seeds: arguments.seeds,
        threads: arguments.threads,
        most_violations: arguments.violations.max(1),
    };
    let summary = campaign.run();
    let seconds = began.elapsed().as_secs_f64();
    let missing = if arguments.seeds >= SEEDS_FOR_COVERAGE { summary.coverage.missing() } else { Vec::new() };
    if arguments.json {
        println!("{}", as_json(&summary, seconds));
    } else {
        print(&summary, seconds);
    }
    for (point, kind) in &missing {
        eprintln!("error: no crash {} met {kind}", point.name());
    }
    summary.violations.is_empty() && missing.is_empty()
}

fn print(summary: &Summary, seconds: f64) {
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
    for outcome in &summary.violations {
        let Some(violation) = &outcome.violation else { continue };
        println!("\nseed {} violates {violation}\n  {}", outcome.seed, violation.invariant.sentence());
        for line in run_once(outcome.seed, TAIL).lines {
            println!("    {line}");
        }
        println!("  replay: cargo xtask simulate --seed {}", outcome.seed);
    }
}

fn as_json(summary: &Summary, seconds: f64) -> serde_json::Value {
    let coverage: Vec<serde_json::Value> = summary
        .coverage
        .cells()
        .map(|(point, kind, count)| {
            let kind = capataz_sim::EVENT_KINDS.get(kind).map(|(_, name)| name);
            serde_json::json!({ "point": point.name(), "event": kind, "count": count })
        })
        .collect();
    let violations: Vec<serde_json::Value> = summary
        .violations
        .iter()
        .filter_map(|outcome| {
            let violation = outcome.violation.as_ref()?;
            let (name, detail) = (violation.invariant.name(), &violation.detail);
            Some(serde_json::json!({ "seed": outcome.seed, "invariant": name, "detail": detail }))
        })
        .collect();
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
    let mut passed = true;
    for fault in Fault::ALL {
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
