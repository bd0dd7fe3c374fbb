//! Benchmarks, launched by `cargo xtask bench`.

use std::net::SocketAddr;
use std::process::ExitCode;

use capataz_bench::abuse::{Abuse, abuse};
use capataz_bench::{AbuseOptions, ExecutorOptions, Options, RouterOptions, SteadyOptions, roles};
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "bench", about = "Benchmarks of Capataz")]
struct Arguments {
    #[command(subcommand)]
    benchmark: Benchmark,
}

#[derive(Subcommand)]
enum Benchmark {
    /// Runs, plans, subscribers, start-up, recovery and memory of a daemon process
    Orchestration(Options),
    /// Decisions and training of the router, and asks from request to durable answer
    Router(RouterOptions),
    /// Phases whose outputs are judged, a verdict alone, and a run as it was
    Pipelines(Options),
    /// Actions of planners and tools, a large memory, and ways back
    Modes(Options),
    /// Runs that are sent as traces and counted, beside runs that are not
    Telemetry(Options),
    /// An hour of mixed load: memory, open files, threads and the database have to stay level
    Steady(SteadyOptions),
    /// Finding, acting and evidence in a real Chromium
    Executor(ExecutorOptions),
    /// Honest callers beside idle streams, slow and huge senders, floods and garbage
    Abuse(AbuseOptions),
    /// A process that does harm
    #[command(hide = true)]
    Abuser {
        #[arg(long)]
        daemon: SocketAddr,
        #[arg(long)]
        kind: Abuse,
    },
    /// A worker process that gives its inputs back
    #[command(hide = true)]
    Worker {
        #[arg(long)]
        endpoint: String,
        #[arg(long)]
        slots: u32,
        /// Keep every task until the standard input is closed
        #[arg(long)]
        hold: bool,
    },
    /// A collector of spans that only counts
    #[command(hide = true)]
    Collector {
        #[arg(long)]
        listen: SocketAddr,
    },
    /// A bare gRPC server
    #[command(hide = true)]
    EchoServer {
        #[arg(long)]
        listen: SocketAddr,
    },
}

#[tokio::main]
async fn main() -> ExitCode {
    let outcome = match Arguments::parse().benchmark {
        Benchmark::Orchestration(options) => capataz_bench::orchestration(&options).await,
        Benchmark::Router(options) => capataz_bench::router(&options).await,
        Benchmark::Pipelines(options) => capataz_bench::pipelines(&options).await,
        Benchmark::Modes(options) => capataz_bench::modes(&options).await,
        Benchmark::Telemetry(options) => capataz_bench::telemetry(&options).await,
        Benchmark::Steady(options) => capataz_bench::steady(&options).await,
        Benchmark::Executor(options) => Box::pin(capataz_bench::executor(&options)).await,
        Benchmark::Abuse(options) => capataz_bench::abused(&options).await,
        Benchmark::Abuser { daemon, kind } => abuse(kind, daemon).await,
        Benchmark::Worker { endpoint, slots, hold } => roles::worker(endpoint, slots, hold).await,
        Benchmark::Collector { listen } => roles::collector(listen).await,
        Benchmark::EchoServer { listen } => roles::echo_server(listen).await,
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
