//! `cargo xtask fuzz`: searches for inputs that a decoder of outside bytes does not stand.
//!
//! The targets are those of the package `capataz-fuzz`. They are compiled with the instructions that tell libFuzzer which
//! ways an input took, by the stable compiler, and only the project's own crates are compiled anew for it. What was
//! learned stays in `target/fuzz`, so that the next search goes on there; an input that breaks a property is written to
//! the committed corpus, where the tests try it from then on.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use clap::Args;

use crate::Outcome;
use crate::codegen::project_root;

/// The committed corpora, one folder for each target.
const CORPUS: &str = "fuzz/corpus";
/// What the searches have learned.
const LEARNED: &str = "target/fuzz";
/// Where the compiler's options are.
const COMPILER: &str = "fuzz/rustc-with-coverage";
/// One input may take so many seconds: decoders take microseconds.
const SECONDS_FOR_ONE: u32 = 5;
/// What a search may keep in memory, in MiB: what it has learned, beside what one input takes.
const MEMORY_MIB: u32 = 1024;
/// How often progress is printed.
const PROGRESS: Duration = Duration::from_secs(10);
/// How many lines of the search's own output are printed with a finding.
const LINES: usize = 30;

#[derive(Args)]
pub struct Options {
    /// Search with these targets only, by the names of the folders in fuzz/corpus
    targets: Vec<String>,
    /// How long to search, over all targets
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// Keep in the committed corpus what reaches code that nothing in it reaches
    #[arg(long)]
    keep: bool,
}

/// What the search with one target came to.
#[derive(Debug, Default, PartialEq)]
struct Found {
    inputs: u64,
    /// Places of the code that were reached.
    coverage: u64,
    /// The last lines of the search, where an input broke a property.
    broken: Option<Vec<String>>,
}

pub fn run(options: &Options) -> Outcome {
    let root = project_root()?;
    let known = targets(&root)?;
    if let Some(unknown) = options.targets.iter().find(|name| !known.contains(name)) {
        return Err(format!("there is no target {unknown:?}; there are {}", known.join(", ")).into());
    }
    let chosen = if options.targets.is_empty() { &known } else { &options.targets };
    let program = build(&root)?;
    let seconds = (options.minutes * 60.0 / chosen.len() as f64).ceil().max(1.0);
    println!("fuzz: {} targets, {seconds} s each", chosen.len());
    let mut found = Vec::new();
    for target in chosen {
        found.push((target, search(&root, &program, target, seconds as u64)?));
        if options.keep {
            keep(&root, &program, target)?;
        }
    }
    println!("\n{:<18} {:>12} {:>8}", "target", "inputs", "places");
    for (target, Found { inputs, coverage, broken }) in &found {
        let verdict = if broken.is_some() { "BROKEN" } else { "" };
        println!("{target:<18} {inputs:>12} {coverage:>8}  {verdict}");
    }
    let broken = found.iter().filter(|(_, found)| found.broken.is_some()).count();
    println!("fuzz: {} inputs, {broken} findings", found.iter().map(|(_, found)| found.inputs).sum::<u64>());
    if broken == 0 {
        return Ok(());
    }
    Err(format!("the inputs are in {CORPUS}/TARGET/found-*; `cargo test -p capataz-fuzz` tries them").into())
}

/// The names of all targets, in order.
fn targets(root: &Path) -> Result<Vec<String>, std::io::Error> {
    let entries = fs::read_dir(root.join(CORPUS))?;
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names: Vec<String> = names.collect::<Result<_, std::io::Error>>()?;
    names.sort();
    Ok(names)
}

/// Builds the search, and returns its program.
fn build(root: &Path) -> Result<std::path::PathBuf, Box<dyn std::error::Error>> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into);
    let mut cargo = crate::cargo::command();
    // The dependencies are those of the tests; the project's own crates are optimised as they are.
    cargo.current_dir(root).env("RUSTC_WORKSPACE_WRAPPER", root.join(COMPILER)).args([
        "build",
        "--locked",
        "--profile",
        "test",
        "--config",
        "profile.test.opt-level=1",
        "--package",
        "capataz-fuzz",
        "--features",
        "libfuzzer",
        "--bin",
        "fuzz",
    ]);
    if cargo.status()?.success() {
        Ok(target.join("debug/fuzz"))
    } else {
        Err("the search does not build".into())
    }
}

/// The search as a process, for one target. Its arguments are libFuzzer's.
fn libfuzzer(root: &Path, program: &Path, target: &str) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root).env("CAPATAZ_FUZZ_TARGET", target).arg(format!("-rss_limit_mb={MEMORY_MIB}"));
    command
}

fn search(
    root: &Path,
    program: &Path,
    target: &str,
    seconds: u64,
) -> Result<Found, Box<dyn std::error::Error>> {
    let learned = root.join(LEARNED).join(target);
    fs::create_dir_all(&learned)?;
    let mut child = libfuzzer(root, program, target)
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-timeout={SECONDS_FOR_ONE}"))
        .arg(format!("-artifact_prefix={CORPUS}/{target}/found-"))
        .arg("-print_final_stats=1")
        .arg("-reload=0")
        .args([&learned, &root.join(CORPUS).join(target)])
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let began = Instant::now();
    let mut printed = began;
    let mut last = Vec::new();
    let mut found = Found::default();
    for line in BufReader::new(child.stderr.take().ok_or("no output")?).lines() {
        let line = line?;
        found.read(&line);
        if printed.elapsed() >= PROGRESS {
            printed = Instant::now();
            println!(
                "  {target}: {} of {seconds} s, {} inputs, {} places",
                began.elapsed().as_secs(),
                found.inputs,
                found.coverage
            );
        }
        last.push(line);
        if last.len() > LINES {
            last.remove(0);
        }
    }
    if !child.wait()?.success() {
        println!("{target}: BROKEN\n    {}", last.join("\n    "));
        found.broken = Some(last);
    }
    Ok(found)
}

impl Found {
    /// Reads a line such as `#1234 NEW cov: 56 ft: 78 corp: 9/10b`, or `stat::number_of_executed_units: 1234`.
    fn read(&mut self, line: &str) {
        let number = |text: Option<&str>| text.and_then(|text| text.parse::<u64>().ok());
        if let Some(units) = number(line.strip_prefix("stat::number_of_executed_units:").map(str::trim)) {
            self.inputs = units;
        }
        let Some(rest) = line.strip_prefix('#') else { return };
        let mut words = rest.split_whitespace();
        if let Some(inputs) = number(words.next()) {
            self.inputs = inputs;
        }
        while let Some(word) = words.next() {
            if word == "cov:"
                && let Some(places) = number(words.next())
            {
                self.coverage = places;
            }
        }
    }
}

/// Takes into the committed corpus what reaches more than it does.
fn keep(root: &Path, program: &Path, target: &str) -> Outcome {
    let corpus = root.join(CORPUS).join(target);
    let merged = libfuzzer(root, program, target)
        .arg("-merge=1")
        .args([&corpus, &root.join(LEARNED).join(target)])
        .stderr(Stdio::null())
        .status()?;
    if merged.success() { Ok(()) } else { Err(format!("what {target} has learned cannot be kept").into()) }
}

#[cfg(test)]
mod tests {
    use super::Found;

    #[test]
    fn the_lines_of_a_search_say_how_far_it_is() {
        let mut found = Found::default();
        found.read("INFO: Loaded 1 modules   (52 inline 8-bit counters): 52 [0x1, 0x2),");
        assert_eq!(found, Found::default());
        found.read("#4096\tpulse  cov: 310 ft: 911 corp: 52/3113b lim: 43 exec/s: 1365 rss: 60Mb");
        assert_eq!(found, Found { inputs: 4096, coverage: 310, broken: None });
        found.read("stat::number_of_executed_units: 5000");
        assert_eq!(found, Found { inputs: 5000, coverage: 310, broken: None });
    }
}
