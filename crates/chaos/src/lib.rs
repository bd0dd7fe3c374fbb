//! Chaos: the real daemon and real workers, killed, cut off and silenced while clients work with them.
//!
//! The parent ([`run`]) starts the shipped daemon, workers, clients and subscribers as processes of their own, kills the
//! daemon with SIGKILL again and again, and does the same to the others. The runs are of every kind ([`workloads`]): plans,
//! asks in sessions, and scripts in a real Chromium on a site of the parent. Each process writes down what it was told,
//! and has it on disk before it goes on. When the storm is over, these journals and what the daemon's public API says are
//! collected, and the [`verdict`] says of them what was lost, doubled, left out or repeated; the daemon's folder is never
//! looked into, but by `capataz rebuild --check` after the last kill. Beside the kills, the daemon's machine is not what it
//! was ([`weather`]): its clock is set, and its disk fails.
//!
//! A campaign ([`campaign`]) is many such storms, one after the other, with totals that are kept by commit.
//!
//! This is the counterpart of the simulator: it cannot be repeated to the letter, but nothing in it is simulated.
//!
//! Nothing of this crate is shipped, and no other crate depends on it. It reaches the daemon through its program and its
//! public API alone, and links none of the server.
//!
//! Begin reading with [`run`] and [`leg`], then [`storm`] for what goes wrong, [`workloads`] for what is at work meanwhile, and
//! [`verdict`] for what is asked afterwards.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "it starts and kills processes, and waits for them"
)]

mod archive;
mod campaign;
mod children;
mod client;
mod commands;
mod family;
mod forgetful;
mod harm;
mod journal;
mod leg;
mod proxy;
mod records;
mod site;
mod storm;
mod subscriber;
mod totals;
mod turns;
mod verdict;
mod watch;
mod weather;
mod worker;
mod workloads;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use workloads::{Kind, SESSIONS};

pub use children::become_bound;
pub use client::{ClientOptions, client};
pub use subscriber::{SubscriberOptions, subscriber};
pub use worker::{WorkerOptions, worker};
pub use workloads::command;

/// What went wrong, for the terminal.
pub type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The subscription to all runs.
const EVERYTHING: &str = "everything";

/// How the test is run.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Draws moments and victims; default: another one each time
    #[arg(long)]
    seed: Option<u64>,
    /// Runs, at least
    #[arg(long)]
    runs: Option<u64>,
    /// Kinds of runs that take part: plans, asks, scripts, pipelines, modes; default: all. Where no Chromium starts, scripts are
    /// skipped, unless `CI` is set
    #[arg(long, value_delimiter = ',')]
    kinds: Vec<Kind>,
    /// Kills of the daemon, at least: in all calls for this commit together. A call goes on where the last one stopped
    #[arg(long)]
    kills: Option<u64>,
    /// Client processes
    #[arg(long, default_value_t = 4)]
    clients: u64,
    /// One storm with a fifth of the runs and of the kills, which does not count towards the totals: half a minute
    #[arg(long)]
    quick: bool,
    /// Print the totals as JSON
    #[arg(long)]
    json: bool,
    /// Which source the programs are of: the totals are kept by it
    #[arg(long, default_value = "unknown")]
    commit: String,
    /// Forget the totals of this commit first
    #[arg(long)]
    afresh: bool,
    /// Folder for the data, journals and logs, on a disk
    #[arg(long, default_value = "target/chaos")]
    dir: PathBuf,
    /// The daemon's program; default: `capataz` beside this one
    #[arg(long)]
    daemon: Option<PathBuf>,
    /// Keep the folder where everything was right, too
    #[arg(long)]
    keep: bool,
    /// Runs that have ended are removed after a short while.
    #[arg(skip)]
    sweeps: bool,
}

impl Options {
    fn seed(&self) -> u64 {
        self.seed.unwrap_or_default()
    }

    fn runs(&self) -> u64 {
        self.runs.unwrap_or(if self.quick { 60 } else { 300 })
    }

    fn kills(&self) -> u64 {
        self.kills.unwrap_or(if self.quick { 5 } else { campaign::LEG_KILLS })
    }

    /// Workers that are stopped until their leases are lost; each takes 15 to 20 seconds.
    fn silences(&self) -> u64 {
        if self.quick { 0 } else { 2 }
    }

    /// The kill after which the daemon is stopped; none where the test is to be quick.
    fn stops_after(&self) -> u64 {
        if self.quick { 0 } else { self.kills() / 2 + 1 }
    }

    /// Whether shims are killed while these kinds take part. Few scripts would be left that succeed, of the few that a quick
    /// storm has, and without plans it has no other shims.
    fn kills_shims(&self, kinds: &[Kind]) -> bool {
        !self.quick || (kinds.contains(&Kind::Plans) && !kinds.contains(&Kind::Scripts))
    }

    /// How long a run is kept after its end, where that is short.
    fn kept_for(&self) -> Option<Duration> {
        self.sweeps.then_some(leg::KEPT_FOR)
    }

    /// Longest time between the daemon's return and its next kill.
    fn unrest_ms(&self) -> u64 {
        2_200
    }

    /// Longest pause of one caller between two starts.
    fn pause_ms(&self) -> u64 {
        2_400
    }

    fn kills_in_flight(&self) -> u64 {
        let kills = self.kills();
        (kills * 3).div_ceil(5).min(kills)
    }
}

/// Who takes part.
#[derive(Clone, Debug)]
struct Names {
    clients: Vec<String>,
    workers: Vec<String>,
    subscribers: Vec<String>,
}

impl Names {
    fn new(options: &Options, kinds: &[Kind]) -> Self {
        let clients: Vec<String> = (0..options.clients).map(|number| format!("client-{number}")).collect();
        let workers = ["worker-0", "worker-1", "worker-2", "forgetful-0"];
        let sessions = if kinds.contains(&Kind::Asks) { SESSIONS.as_slice() } else { &[] };
        let sessions = sessions.iter().map(ToString::to_string);
        let subscribers = clients.iter().cloned().chain(sessions).chain([EVERYTHING.to_owned()]).collect();
        Self { clients, workers: workers.map(str::to_owned).to_vec(), subscribers }
    }
}

fn journal_path(folder: &Path, role: &str, id: &str) -> PathBuf {
    folder.join(format!("{role}-{id}.journal"))
}

/// Where the process agent's commands write.
fn commands_path(folder: &Path) -> PathBuf {
    folder.join("commands.journal")
}

/// What the site saw of scripts.
fn site_path(folder: &Path) -> PathBuf {
    folder.join("site.journal")
}

/// Runs the test and prints the verdict.
///
/// # Errors
/// A process did not do its part, or a verdict is not clean; the folder is kept then.
pub async fn run(mut options: Options) -> Outcome<()> {
    if !options.quick {
        return campaign::run(&options).await;
    }
    let seed = *options.seed.get_or_insert_with(campaign::any_seed);
    fs::create_dir_all(&options.dir)?;
    let (folder, ended) = leg::run(&options).await?;
    let problems = match ended {
        Ok(judged) => {
            println!("{}", judged.verdict);
            judged.problems
        }
        Err(error) => return Err(format!("{error}; journals and logs are in {}", folder.display()).into()),
    };
    if problems.is_empty() {
        println!("verdict: passed, seed {seed}");
        return Ok(());
    }
    for problem in &problems {
        println!("  {problem}");
    }
    Err(format!("the verdict is not clean; journals and logs are in {}", folder.display()).into())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Arguments {
        #[command(flatten)]
        options: Options,
    }

    #[test]
    fn a_quick_storm_kills_shims_of_plans_where_there_are_no_scripts() {
        let options = |arguments: &[&str]| Arguments::parse_from(arguments).options;
        let (quick, long) = (options(&["chaos", "--quick"]), options(&["chaos"]));
        assert!(quick.kills_shims(&[Kind::Plans, Kind::Asks, Kind::Pipelines]));
        assert!(!quick.kills_shims(&[Kind::Plans, Kind::Scripts]));
        assert!(!quick.kills_shims(&[Kind::Modes]));
        assert!(long.kills_shims(&[Kind::Plans, Kind::Scripts]));
    }
}
