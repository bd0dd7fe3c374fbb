//! `cargo xtask bench NAME`: builds the released programs and launches one of their benchmarks.

use std::path::PathBuf;
use std::process::Command;

use crate::codegen::project_root;
use crate::{Outcome, size};

/// The benchmarks.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum Benchmark {
    /// Runs, plans, subscribers, start-up, recovery and memory of a daemon process
    Orchestration,
    /// Honest callers beside idle streams, slow and huge senders, floods and garbage
    Abuse,
    /// Decisions and training of the router, and asks from request to durable answer
    Router,
    /// Phases whose outputs are judged, a verdict alone, and a run as it was
    Pipelines,
    /// Actions of planners and tools, a large memory, and ways back
    Modes,
    /// Runs that are sent as traces and counted, beside runs that are not
    Telemetry,
    /// An hour of mixed load: memory, open files, threads and the database have to stay level
    Steady,
    /// Finding, acting and evidence in a real Chromium, compared with the bare protocol
    Executor,
}

impl Benchmark {
    fn name(self) -> &'static str {
        match self {
            Self::Orchestration => "orchestration",
            Self::Abuse => "abuse",
            Self::Router => "router",
            Self::Pipelines => "pipelines",
            Self::Modes => "modes",
            Self::Telemetry => "telemetry",
            Self::Steady => "steady",
            Self::Executor => "executor",
        }
    }

    /// The packages whose programs the benchmark starts.
    fn packages(self) -> &'static [&'static str] {
        match self {
            Self::Orchestration
            | Self::Abuse
            | Self::Router
            | Self::Pipelines
            | Self::Modes
            | Self::Telemetry
            | Self::Steady => &["capataz-cli", "capataz-bench"],
            Self::Executor => &["capataz-bench"],
        }
    }
}

/// Runs the benchmark with these arguments.
pub fn run(benchmark: Benchmark, arguments: &[String]) -> Outcome {
    let root = project_root()?;
    let mut build = crate::cargo::command();
    build.current_dir(&root).args(["build", "--release", "--bins"]);
    for package in benchmark.packages() {
        build.args(["--package", package]);
    }
    if benchmark.packages().contains(&"capataz-cli") {
        build.args(size::features()?);
    }
    if !build.status()?.success() {
        return Err("the programs could not be built".into());
    }
    let target = target_folder(&root)?;
    if benchmark.packages().contains(&"capataz-cli") {
        size::check(&target)?;
    }
    let program = target.join("release").join(format!("bench{}", std::env::consts::EXE_SUFFIX));
    let mut bench = Command::new(program);
    bench.arg(benchmark.name());
    if !arguments.iter().any(|argument| argument == "--dir" || argument.starts_with("--dir=")) {
        bench.arg("--dir").arg(target.join("bench"));
    }
    if !bench.args(arguments).status()?.success() {
        return Err(format!("the benchmark {} failed", benchmark.name()).into());
    }
    Ok(())
}

/// The folder of cargo's build results.
pub fn target_folder(root: &std::path::Path) -> Result<PathBuf, Box<dyn std::error::Error>> {
    let mut metadata = crate::cargo::command();
    metadata.current_dir(root).args(["metadata", "--format-version", "1", "--no-deps"]);
    let metadata: serde_json::Value = serde_json::from_slice(&metadata.output()?.stdout)?;
    let folder = metadata.get("target_directory").and_then(serde_json::Value::as_str);
    Ok(folder.ok_or("cargo does not say where it builds")?.into())
}
