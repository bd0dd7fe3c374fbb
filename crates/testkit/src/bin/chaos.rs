//! The chaos test, launched by `cargo xtask chaos`.

use std::path::PathBuf;
use std::process::ExitCode;

use capataz_testkit::chaos::{self, ClientOptions, Options, SubscriberOptions, WorkerOptions};
use clap::{Args, Parser, Subcommand};

#[derive(Parser)]
#[command(
    name = "chaos",
    about = "Kills the Capataz daemon under load and looks for what was lost",
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
struct Arguments {
    #[command(subcommand)]
    role: Option<Role>,
    #[command(flatten)]
    options: Options,
}

/// What the other processes of the test do.
#[derive(Subcommand)]
enum Role {
    #[command(hide = true)]
    Client(ClientOptions),
    #[command(hide = true)]
    Subscriber(SubscriberOptions),
    #[command(hide = true)]
    Worker(WorkerOptions),
    /// The command of the process agent
    #[command(hide = true)]
    Command {
        #[arg(long)]
        journal: PathBuf,
    },
    /// Becomes another program that ends with the parent
    #[command(hide = true)]
    Bound(Bound),
}

#[derive(Args)]
struct Bound {
    parent: u32,
    program: PathBuf,
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match arguments.role {
        None => chaos::run(arguments.options).await,
        Some(Role::Client(options)) => chaos::client(options).await,
        Some(Role::Subscriber(options)) => chaos::subscriber(options).await,
        Some(Role::Worker(options)) => chaos::worker(options).await,
        Some(Role::Command { journal }) => chaos::command(&journal),
        Some(Role::Bound(bound)) => chaos::become_bound(bound.parent, &bound.program, &bound.arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
