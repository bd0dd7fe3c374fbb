//! The project's one task runner. It launches binaries and links none of the server.
//!
//! Begin reading with [`Task`].

mod codegen;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

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
}

/// What a task that failed tells the terminal.
type Outcome = Result<(), Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let outcome = match Arguments::parse().task {
        Task::Codegen { check } => codegen::run(check),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
