//! Chaos: the real daemon and real workers, killed, cut off and silenced while clients work with them.
//!
//! The parent ([`run`]) starts the shipped daemon, workers, clients and subscribers as processes of their own, kills the
//! daemon with SIGKILL again and again, and does the same to the others. The runs are of every kind ([`workloads`]): plans,
//! asks in sessions, and scripts in a real Chromium on a site of the parent. Each process writes down what it was told,
//! and has it on disk before it goes on. When the storm is over, these journals and what the daemon's public API says are
//! collected, and the [`verdict`] says of them what was lost, doubled, left out or repeated; the daemon's folder is never
//! looked into, but by `capataz rebuild --check` after the last kill.
//!
//! This is the counterpart of the simulator: it cannot be repeated to the letter, but nothing in it is simulated.
//!
//! Nothing of this crate is shipped, and no other crate depends on it. It reaches the daemon through its program and its
//! public API alone, and links none of the server.
//!
//! Begin reading with [`run`], then [`storm`] for what goes wrong, [`workloads`] for what is at work meanwhile, and
//! [`verdict`] for what is asked afterwards.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "it starts and kills processes, and waits for them"
)]

mod children;
mod client;
mod commands;
mod forgetful;
mod journal;
mod proxy;
mod records;
mod site;
mod storm;
mod subscriber;
mod verdict;
mod watch;
mod worker;
mod workloads;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use capataz_client::Client;
use capataz_testsite::Site;

use children::{Daemon, Programs};
use journal::Journal;
use proxy::Proxy;
use records::SubscriberRecord;
use storm::Storm;
use verdict::{Demands, Facts};
use watch::Watch;
use workloads::{Kind, Mix, SESSIONS};

pub use children::become_bound;
pub use client::{ClientOptions, client};
pub use subscriber::{SubscriberOptions, subscriber};
pub use worker::{WorkerOptions, worker};
pub use workloads::command;

/// What went wrong, for the terminal.
pub type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The subscription to all runs.
const EVERYTHING: &str = "everything";

/// How long acknowledged runs may take to finish once nothing fails any more.
const CALM: Duration = Duration::from_secs(120);
/// How long subscribers may take to have everything.
const DELIVERY: Duration = Duration::from_secs(60);

/// How the test is run.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Draws moments and victims; default: another one each time
    #[arg(long)]
    seed: Option<u64>,
    /// Runs, at least
    #[arg(long)]
    runs: Option<u64>,
    /// Kinds of runs that take part: plans, asks, scripts; default: all. Where no Chromium starts, scripts are skipped,
    /// unless `CI` is set
    #[arg(long, value_delimiter = ',')]
    kinds: Vec<Kind>,
    /// Kills of the daemon, at least
    #[arg(long)]
    kills: Option<u64>,
    /// Client processes
    #[arg(long, default_value_t = 4)]
    clients: u64,
    /// A fifth of the runs and of the kills: half a minute
    #[arg(long)]
    quick: bool,
    /// Folder for the data, journals and logs, on a disk
    #[arg(long, default_value = "target/chaos")]
    dir: PathBuf,
    /// The daemon's program; default: `capataz` beside this one
    #[arg(long)]
    daemon: Option<PathBuf>,
    /// Keep the folder where everything was right, too
    #[arg(long)]
    keep: bool,
}

impl Options {
    fn seed(&self) -> u64 {
        self.seed.unwrap_or_default()
    }

    fn runs(&self) -> u64 {
        self.runs.unwrap_or(if self.quick { 60 } else { 300 })
    }

    fn kills(&self) -> u64 {
        self.kills.unwrap_or(if self.quick { 5 } else { 28 })
    }

    /// Workers that are stopped until their leases are lost; each takes 15 to 20 seconds.
    fn silences(&self) -> u64 {
        if self.quick { 0 } else { 2 }
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
/// A process did not do its part, or the verdict is not clean; the folder is kept then.
pub async fn run(mut options: Options) -> Outcome<()> {
    let seed = *options.seed.get_or_insert_with(|| journal::now_us() % 1_000_000_000);
    fs::create_dir_all(&options.dir)?;
    let folder = options.dir.canonicalize()?.join(format!("{seed}-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    println!("chaos: seed {seed}, {}", folder.display());
    match storm_and_verdict(&options, &folder).await {
        Ok(problems) if problems.is_empty() => {
            println!("verdict: passed");
            if !options.keep {
                fs::remove_dir_all(&folder)?;
            }
            Ok(())
        }
        Ok(problems) => {
            for problem in &problems {
                println!("  {problem}");
            }
            Err(format!("the verdict is not clean; journals and logs are in {}", folder.display()).into())
        }
        Err(error) => Err(format!("{error}; journals and logs are in {}", folder.display()).into()),
    }
}

async fn storm_and_verdict(options: &Options, folder: &Path) -> Outcome<Vec<String>> {
    let began = Instant::now();
    let daemon = match &options.daemon {
        Some(daemon) => daemon.canonicalize()?,
        None => std::env::current_exe()?.with_file_name("capataz"),
    };
    let programs = Programs::copy(folder, &daemon)?;
    fs::write(folder.join("capataz.toml"), configuration(&programs)?)?;
    let (mut storm, names) = start(options, &programs).await?;
    storm.rage().await?;
    println!("  the storm is over after {:.0} s", began.elapsed().as_secs_f64());
    calm(&mut storm).await?;
    let client = Client::connect(&storm.daemon.url()).await?;
    deliver(&mut storm, &client, &names).await?;
    if let Some(site) = &storm.site {
        site::record(site, &site_path(folder)).await?;
    }
    // What is judged is what the disk holds, not what a daemon remembers.
    storm.subscribers.clear();
    storm.daemon.kill()?;
    storm.daemon.start(&programs)?;
    storm.daemon.ready().await?;
    let client = Client::connect(&storm.daemon.url()).await?;
    let verdict = verdict::judge(&Facts::collect(&client, folder, &names).await?);
    println!("{verdict}  {:.0} s in all", began.elapsed().as_secs_f64());
    if let Some(skipped) = &storm.skipped {
        println!("  {skipped}");
    }
    let kinds = storm.mix.kinds.clone();
    let (runs, kills, kills_in_flight) = (options.runs(), options.kills(), options.kills_in_flight());
    let mut problems = verdict.problems(&Demands { runs, kills, kills_in_flight, kinds });
    problems.extend(storm.daemon.rows_after_its_end(&programs)?);
    Ok(problems)
}

/// The daemon's configuration: what each kind of work needs.
fn configuration(programs: &Programs) -> Outcome<String> {
    Kind::ALL.into_iter().map(|kind| kind.workload().configuration(programs)).collect()
}

async fn start<'a>(options: &'a Options, programs: &'a Programs) -> Outcome<(Storm<'a>, Names)> {
    let mut daemon = Daemon::new()?;
    daemon.start(programs)?;
    daemon.ready().await?;
    let client = Client::connect(&daemon.url()).await?;
    let wanted = if options.kinds.is_empty() { Kind::ALL.to_vec() } else { options.kinds.clone() };
    let (kinds, skipped) = site::present(wanted, &client).await?;
    if kinds.is_empty() {
        return Err(skipped.unwrap_or_default().into());
    }
    let site = if kinds.contains(&Kind::Scripts) { Some(Site::start().await?) } else { None };
    let names = Names::new(options, &kinds);
    let proxy = Proxy::start(daemon.address).await?;
    let watch = Watch::start(&daemon.url())?;
    let mut storm = Storm {
        options,
        programs,
        faults: Journal::open(&storm::faults_path(&programs.folder))?,
        rng: fastrand::Rng::with_seed(options.seed()),
        daemon,
        proxy,
        watch,
        mix: Mix { kinds, site: site.as_ref().map(Site::host).unwrap_or_default() },
        site,
        skipped,
        workers: BTreeMap::new(),
        clients: BTreeMap::new(),
        subscribers: BTreeMap::new(),
    };
    for id in &names.workers {
        storm.start_worker(id)?;
    }
    // A plan may name an agent once a worker has offered it.
    storm.await_workers().await?;
    for id in &names.subscribers {
        storm.start_subscriber(id)?;
    }
    for id in &names.clients {
        storm.start_client(id)?;
    }
    Ok((storm, names))
}

/// No more faults: clients finish what they have begun.
async fn calm(storm: &mut Storm<'_>) -> Outcome<()> {
    for process in storm.clients.values_mut() {
        process.tell("calm")?;
    }
    let until = Instant::now() + CALM;
    while !storm.clients.is_empty() {
        let mut ended = Vec::new();
        for (id, process) in &mut storm.clients {
            match process.ended()? {
                Some(true) => ended.push(id.clone()),
                Some(false) => return Err(format!("{id} has failed; see its log").into()),
                None => {}
            }
        }
        for id in ended {
            storm.clients.remove(&id);
        }
        storm.check_children()?;
        if Instant::now() > until {
            let left: Vec<String> = std::mem::take(&mut storm.clients).into_keys().collect();
            println!("  {} still wait for runs that do not finish", left.join(", "));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    println!("  calm: {} runs have finished", storm.watch.finished());
    Ok(())
}

/// Waits until every subscriber has written down as many events as there are.
async fn deliver(storm: &mut Storm<'_>, client: &Client, names: &Names) -> Outcome<()> {
    for process in storm.subscribers.values_mut() {
        process.tell("calm")?;
    }
    let expected = verdict::expected_events(client, names).await?;
    let until = Instant::now() + DELIVERY;
    for (name, count) in expected {
        let path = journal_path(&storm.programs.folder, "subscriber", &name);
        loop {
            let records: Vec<SubscriberRecord> = journal::read(&path)?;
            let events = records.iter().filter(|record| matches!(record, SubscriberRecord::Event { .. }));
            if events.count() as u64 >= count || Instant::now() > until {
                break;
            }
            storm.check_children()?;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    // Whatever comes now is one too many.
    tokio::time::sleep(Duration::from_millis(500)).await;
    Ok(())
}
