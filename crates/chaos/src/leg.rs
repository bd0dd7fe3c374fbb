//! One storm: everything is started, much goes wrong, everything comes to its end, and what there is then is judged.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use capataz_client::Client;
use capataz_testsite::Site;

use crate::archive::{Archive, Kept};
use crate::children::{CALM, Daemon, Programs, STORM, log_path};
use crate::journal::Journal;
use crate::proxy::Proxy;
use crate::records::SubscriberRecord;
use crate::storm::Storm;
use crate::totals::{Need, Totals};
use crate::verdict::{Demands, Facts, Verdict};
use crate::watch::Watch;
use crate::weather::Weather;
use crate::workloads::{Kind, Mix};
use crate::{Names, Options, Outcome, journal, journal_path, site, site_path, storm, turns, verdict};

/// How long acknowledged runs may take to finish once nothing fails any more.
const CALM_PATIENCE: Duration = Duration::from_secs(120);
/// How long subscribers may take to have everything.
const DELIVERY: Duration = Duration::from_secs(60);
/// How long a run is kept where retention is short: longer than any subscriber or client may be behind.
pub(crate) const KEPT_FOR: Duration = Duration::from_secs(45);

/// What was found.
#[derive(Debug)]
pub(crate) struct Judged {
    pub(crate) verdict: Verdict,
    pub(crate) totals: Totals,
    pub(crate) problems: Vec<String>,
}

/// Runs a storm in a folder of its own, which is removed where everything was right.
pub(crate) async fn run(options: &Options) -> Outcome<(PathBuf, Outcome<Judged>)> {
    let folder = format!("{}-{}", options.seed(), std::process::id());
    let folder = options.dir.canonicalize()?.join(folder);
    fs::create_dir_all(&folder)?;
    let removes = if options.sweeps { ", ended runs are removed soon" } else { "" };
    eprintln!("chaos: seed {}, {}{removes}", options.seed(), folder.display());
    let judged = storm_and_verdict(options, &folder).await;
    if !options.keep && judged.as_ref().is_ok_and(|judged| judged.problems.is_empty()) {
        fs::remove_dir_all(&folder)?;
    }
    Ok((folder, judged))
}

async fn storm_and_verdict(options: &Options, folder: &Path) -> Outcome<Judged> {
    let began = Instant::now();
    let daemon = match &options.daemon {
        Some(daemon) => daemon.canonicalize()?,
        None => std::env::current_exe()?.with_file_name("capataz"),
    };
    let programs = Programs::copy(folder, &daemon)?;
    fs::write(folder.join(STORM), configuration(&programs, &retention(options.kept_for()))?)?;
    fs::write(folder.join(CALM), configuration(&programs, &retention(None))?)?;
    let (mut storm, names) = start(options, &programs).await?;
    storm.rage().await?;
    eprintln!("  the storm is over after {:.0} s", began.elapsed().as_secs_f64());
    let kept = storm.clear_up().await?;
    calm(&mut storm).await?;
    let client = Client::connect(&storm.daemon.url()).await?;
    deliver(&mut storm, &client, &names, &kept).await?;
    if let Some(site) = &storm.site {
        site::record(site, &site_path(folder)).await?;
    }
    // What is judged is what the disk holds, not what a daemon remembers.
    storm.subscribers.clear();
    storm.daemon.kill()?;
    storm.daemon.start(&programs, None, CALM)?;
    storm.daemon.ready().await?;
    let client = Client::connect(&storm.daemon.url()).await?;
    let facts = Facts::collect(&client, folder, &names, options.kept_for(), kept).await?;
    let verdict = verdict::judge(&facts);
    let kinds = storm.mix.kinds.clone();
    let (has_browser, has_plans) = (kinds.contains(&Kind::Scripts), kinds.contains(&Kind::Plans));
    let demands = Demands {
        runs: options.runs(),
        kills: options.kills(),
        kills_in_flight: options.kills_in_flight(),
        kinds,
        removed: u64::from(options.sweeps),
    };
    let mut problems = verdict.problems(&demands);
    problems.extend(storm.daemon.rows_after_its_end(&programs)?);
    eprintln!("  {:.0} s in all", began.elapsed().as_secs_f64());
    for skipped in &storm.skipped {
        eprintln!("  {skipped}");
    }
    let turns = turns::longest(&log_path(folder), verdict.stops)?;
    let needs = [
        (Need::Browser, has_browser),
        (Need::Shims, has_browser || has_plans),
        (Need::Weather, storm.weather.is_some()),
    ];
    let absent = needs.into_iter().filter(|(_, is_there)| !is_there).map(|(need, _)| need).collect();
    let totals = Totals::of(&verdict, turns, began.elapsed().as_secs(), absent);
    Ok(Judged { verdict, totals, problems })
}

/// What the daemon keeps.
fn retention(kept_for: Option<Duration>) -> String {
    let (runs, rest) = match kept_for.map(|kept_for| kept_for.as_secs()) {
        Some(seconds) => (format!("{seconds}s"), format!("{seconds}s")),
        // Longer than any clock is set by.
        None => ("never".to_owned(), "36500d".to_owned()),
    };
    format!(
        "[retention]\nfinished_runs = \"{runs}\"\nidempotency_keys = \"{rest}\"\nunused_blobs = \"{rest}\"\n"
    )
}

/// The daemon's configuration: what each kind of work needs.
fn configuration(programs: &Programs, retention: &str) -> Outcome<String> {
    let parts: Outcome<String> =
        Kind::ALL.into_iter().map(|kind| kind.workload().configuration(programs)).collect();
    Ok(parts? + retention)
}

async fn start<'a>(options: &'a Options, programs: &'a Programs) -> Outcome<(Storm<'a>, Names)> {
    let mut skipped = Vec::new();
    let weather = match Weather::start(&programs.folder) {
        Ok(weather) => Some(weather),
        Err(error) if site::must_be_there(std::env::var_os("CI"), None) => return Err(error),
        Err(error) => {
            skipped.push(format!("SKIPPED  the daemon's clock and disk: {error}"));
            None
        }
    };
    let mut daemon = Daemon::new()?;
    daemon.start(programs, weather.as_ref(), STORM)?;
    daemon.ready().await?;
    let client = Client::connect(&daemon.url()).await?;
    let wanted = if options.kinds.is_empty() { Kind::ALL.to_vec() } else { options.kinds.clone() };
    let (kinds, absent) = site::present(wanted, &client).await?;
    skipped.extend(absent);
    if kinds.is_empty() {
        return Err(skipped.join("; ").into());
    }
    if let Some(weather) = &weather
        && weather.loaded()? == 0
    {
        return Err("the daemon has not loaded the library for its clock and its disk".into());
    }
    let site = if kinds.contains(&Kind::Scripts) { Some(Site::start().await?) } else { None };
    let names = Names::new(options, &kinds);
    let proxy = Proxy::start(daemon.address).await?;
    let watch = Watch::start(&daemon.url())?;
    let archive = if options.sweeps { Some(Archive::start(&daemon.url())?) } else { None };
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
        weather,
        configuration: STORM,
        archive,
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
    let until = Instant::now() + CALM_PATIENCE;
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
            eprintln!("  {} still wait for runs that do not finish", left.join(", "));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    eprintln!("  calm: {} runs have finished", storm.watch.finished());
    Ok(())
}

/// Waits until every subscriber has written down as many events as there are.
async fn deliver(storm: &mut Storm<'_>, client: &Client, names: &Names, kept: &Kept) -> Outcome<()> {
    for process in storm.subscribers.values_mut() {
        process.tell("calm")?;
    }
    let expected = verdict::expected_events(client, names, kept).await?;
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
