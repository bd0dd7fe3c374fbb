//! The chaos test, launched by `cargo xtask chaos`.

use std::path::PathBuf;
use std::process::ExitCode;

use capataz_chaos::{ClientOptions, Options, SubscriberOptions, WorkerOptions};
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
    /// A library that is loaded before those of the program
    #[arg(long)]
    preload: Option<PathBuf>,
    parent: u32,
    program: PathBuf,
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match arguments.role {
        None => capataz_chaos::run(arguments.options).await,
        Some(Role::Client(options)) => capataz_chaos::client(options).await,
        Some(Role::Subscriber(options)) => capataz_chaos::subscriber(options).await,
        Some(Role::Worker(options)) => capataz_chaos::worker(options).await,
        Some(Role::Command { journal }) => capataz_chaos::command(&journal),
        Some(Role::Bound(bound)) => {
            let preload = bound.preload.as_deref();
            capataz_chaos::become_bound(bound.parent, &bound.program, &bound.arguments, preload)
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
