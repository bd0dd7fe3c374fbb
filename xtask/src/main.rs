//! The project's one task runner. It launches binaries and links none of the server.
//!
//! Begin reading with [`Task`].

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a task runner starts programs and tells how long they took"
)]

mod bench;
mod browser_tests;
mod calibration;
mod cargo;
mod chaos;
mod chromium;
mod codegen;
mod disk;
mod docs;
mod engine_rules;
mod fuzz;
mod layers;
mod mutants;
mod pictures;
mod simulate;
mod size;
mod test;

use std::collections::BTreeSet;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Tasks of the Capataz project")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Generate crates/contracts/src/generated from proto/; needs no protoc
    Codegen {
        /// Change nothing; fail when the committed code differs
        #[arg(long)]
        check: bool,
    },
    /// Build the released programs and measure them on a disk; figures are printed beside their targets
    Bench {
        name: bench::Benchmark,
        /// Arguments of the benchmark; `NAME -- --help` lists them, with examples
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Kill the released daemon, its workers and its streams under load, and look for what was lost or doubled
    Chaos {
        /// Arguments of the program; `-- --help` lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Cut the power under the store at many moments (`power`), and have its calls to the file system fail (`faults`)
    Disk {
        /// Arguments of the program; `-- --help` lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Search for bytes that a decoder of outside bytes does not stand, with libFuzzer; needs a C++ compiler
    Fuzz(fuzz::Options),
    /// Hold the router's confidences to public sets of intents, which are in this folder
    Calibration(calibration::Options),
    /// Make the pictures in docs anew, from real runs: of the terminal, and of reports (which needs a Chromium)
    Pictures,
    /// Change the rules one place after the other, and see whether a test notices; needs cargo-mutants
    Mutants(mutants::Options),
    /// Check the dependencies between crates against xtask/layers.txt
    Layers,
    /// Check that the documents match the source: codes, promises, rows of seeds, crates, links, numbers, paths, commands
    Docs,
    /// Drive the shards and the crew through faults in virtual time: --seeds N, --seed S to replay one, --planted
    Simulate {
        /// Arguments of the simulator; `-- --help` lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Build the released program, and fail if it is larger than 40 MB
    Size,
    /// Install what tests need beside Rust, or bring it up to date: a Chromium, by the packages of Debian
    Setup,
    /// Formatting, codegen, layers, docs, clippy, all tests, doctests: what CI runs
    Test {
        /// Install a Chromium if there is none, as CI does
        #[arg(long)]
        install: bool,
        /// Build and test these packages only
        #[arg(long, short)]
        package: Vec<String>,
    },
}

/// The result of a task; the error is printed on the terminal.
type Outcome = Result<(), Box<dyn std::error::Error>>;

/// The names of all tasks.
fn tasks() -> BTreeSet<String> {
    let command = Arguments::command();
    command.get_subcommands().map(|task| task.get_name().to_owned()).collect()
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().task {
        Task::Codegen { check } => codegen::run(check),
        Task::Bench { name, arguments } => bench::run(name, &arguments),
        Task::Chaos { arguments } => chaos::run(&arguments),
        Task::Disk { arguments } => disk::run(&arguments),
        Task::Fuzz(options) => fuzz::run(&options),
        Task::Calibration(options) => calibration::run(&options),
        Task::Pictures => pictures::run(),
        Task::Mutants(options) => mutants::run(&options),
        Task::Layers => layers::run(),
        Task::Docs => docs::run(),
        Task::Simulate { arguments } => simulate::run(&arguments),
        Task::Size => size::run(),
        Task::Setup => chromium::setup(),
        Task::Test { install, package } => test::run(install, &package),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
