//! What goes wrong, and when: kills, cuts and silences, drawn from the seed.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use capataz_client::{Client, v1};
use capataz_testsite::Site;
use rustix::process::Signal;

use crate::archive::{Archive, Kept};
use crate::children::{CALM, Daemon, PATIENCE, Process, Programs};
use crate::family::{self, Kin};
use crate::journal::{Journal, now_us};
use crate::proxy::Proxy;
use crate::records::Fault;
use crate::watch::Watch;
use crate::weather::Weather;
use crate::workloads::{AGENT, Kind, Mix, SESSIONS};
use crate::{Options, Outcome, leg, site, verdict};

/// How long a silent worker may take to lose its leases: three heartbeats of 5 s, looked at every 5 s, on a busy machine.
const SILENCE: Duration = Duration::from_secs(40);
/// More than all clients keep busy, so that what does not finish is not merely late.
const SLOTS: &str = "32";
/// Few, since most of its results are refused.
const FORGETFUL_SLOTS: &str = "3";
/// How long a kill waits for a call that has no answer.
const IN_FLIGHT: Duration = Duration::from_secs(3);
/// How long a kill of the daemon waits for shims that are to be killed with it.
const SHIMS: Duration = Duration::from_secs(2);
/// How long a kill waits for a click or a form: as long as a browser takes to open and to get there.
const ACT: Duration = Duration::from_secs(8);

/// All processes and what happens to them.
pub(crate) struct Storm<'a> {
    pub(crate) options: &'a Options,
    pub(crate) programs: &'a Programs,
    pub(crate) faults: Journal,
    pub(crate) rng: fastrand::Rng,
    pub(crate) daemon: Daemon,
    pub(crate) proxy: Proxy,
    pub(crate) watch: Watch,
    pub(crate) mix: Mix,
    /// Where scripts take part.
    pub(crate) site: Option<Site>,
    /// What does not take part, and why.
    pub(crate) skipped: Vec<String>,
    /// Where the daemon's machine can be other than it is.
    pub(crate) weather: Option<Weather>,
    /// The name of the daemon's configuration.
    pub(crate) configuration: &'static str,
    /// Where old runs are removed meanwhile.
    pub(crate) archive: Option<Archive>,
    pub(crate) workers: BTreeMap<String, Process>,
    pub(crate) clients: BTreeMap<String, Process>,
    pub(crate) subscribers: BTreeMap<String, Process>,
}

impl Storm<'_> {
    pub(crate) fn start_worker(&mut self, id: &str) -> Outcome<()> {
        let mut arguments = vec!["worker".to_owned()];
        arguments.extend(flags([
            ("--addr", self.proxy.url()),
            ("--id", id.to_owned()),
            ("--journal", self.journal("worker", id)),
            ("--slots", if id.starts_with("forgetful") { FORGETFUL_SLOTS } else { SLOTS }.to_owned()),
        ]));
        if id.starts_with("forgetful") {
            arguments.push("--forgetful".to_owned());
        }
        let process = self.spawn(&arguments, id)?;
        self.workers.insert(id.to_owned(), process);
        Ok(())
    }

    pub(crate) fn start_client(&mut self, id: &str) -> Outcome<()> {
        let options = self.options;
        // Half of them are reached by cuts.
        let direct = id.ends_with(['0', '2', '4', '6', '8']);
        let kinds: Vec<String> = self.mix.kinds.iter().map(ToString::to_string).collect();
        let mut arguments = vec!["client".to_owned()];
        arguments.extend(flags([
            ("--addr", if direct { self.daemon.url() } else { self.proxy.url() }),
            ("--id", id.to_owned()),
            ("--journal", self.journal("client", id)),
            ("--runs", options.runs().div_ceil(options.clients).to_string()),
            ("--kinds", kinds.join(",")),
            ("--site", self.mix.site.clone()),
            ("--seed", options.seed().to_string()),
            ("--lanes", "3".to_owned()),
            ("--pause-ms", options.pause_ms().to_string()),
        ]));
        let process = self.spawn(&arguments, id)?;
        self.clients.insert(id.to_owned(), process);
        Ok(())
    }

    pub(crate) fn start_subscriber(&mut self, id: &str) -> Outcome<()> {
        let mut arguments = vec!["subscriber".to_owned()];
        arguments.extend(flags([
            ("--addr", self.proxy.url()),
            ("--journal", self.journal("subscriber", id)),
            ("--life-ms", "4000".to_owned()),
        ]));
        if SESSIONS.contains(&id) {
            arguments.extend(flags([("--session", id.to_owned())]));
        } else if id != super::EVERYTHING {
            arguments.extend(flags([("--client", id.to_owned())]));
        }
        let process = self.spawn(&arguments, &format!("subscriber-{id}"))?;
        self.subscribers.insert(id.to_owned(), process);
        Ok(())
    }

    fn spawn(&self, arguments: &[String], name: &str) -> Outcome<Process> {
        let log = self.programs.folder.join(format!("{name}.log"));
        Process::spawn(self.programs, &self.programs.chaos, arguments, &log)
    }

    fn journal(&self, role: &str, id: &str) -> String {
        super::journal_path(&self.programs.folder, role, id).display().to_string()
    }

    /// Kills the daemon as often as the options say, and does worse in between.
    pub(crate) async fn rage(&mut self) -> Outcome<()> {
        let kills = self.options.kills();
        let silences = self.options.silences();
        let kills_shims = self.options.kills_shims(&self.mix.kinds);
        for kill in 1..=kills {
            self.strike(true).await?;
            match kill {
                // Whatever the seed draws, each kind of fault comes.
                1 => self.kill_worker("worker-0").await?,
                2 => self.cut(100).await?,
                3 if kills_shims => self.kill_shim().await?,
                4 => {
                    self.set_clock().await?;
                    self.fail_disk().await?;
                }
                5 if !self.options.quick => self.kill_browser().await?,
                _ if kill == self.options.stops_after() => self.stop_daemon().await?,
                _ => {}
            }
            if let Some(number) = (1..=silences).find(|number| kill == number * kills / (silences + 1)) {
                // The first one while its stream stands, the next one before it is back after the daemon's restart.
                if number % 2 == 1 {
                    self.await_workers().await?;
                }
                self.silence_a_worker().await?;
            }
        }
        // Some kills came a moment too late for the calls that they were meant for.
        for _ in 0..kills {
            if self.kills_in_flight()? >= self.options.kills_in_flight() {
                break;
            }
            self.strike(false).await?;
        }
        // A worker that forgets what it holds comes back every few seconds.
        let until = Instant::now() + PATIENCE;
        let is_served = self.mix.kinds.contains(&Kind::Plans);
        while is_served && self.watch.refused() == 0 && Instant::now() < until {
            self.unrest().await?;
        }
        // Nothing is removed before it is old.
        let until = Instant::now() + PATIENCE + leg::KEPT_FOR;
        while self.archive.as_ref().is_some_and(|archive| archive.gone() == 0) && Instant::now() < until {
            self.strike(false).await?;
        }
        Ok(())
    }

    /// Waits until every worker has a stream.
    pub(crate) async fn await_workers(&self) -> Outcome<()> {
        let client = Client::connect(&self.daemon.url()).await?;
        let until = Instant::now() + PATIENCE;
        loop {
            let agents = client.list_agents().await?;
            let is_served =
                |status: &&v1::AgentStatus| status.agent.as_ref().is_some_and(|agent| agent.name == AGENT);
            let workers = agents.iter().find(is_served).map_or(0, |status| status.workers);
            if usize::try_from(workers)? == self.workers.len() {
                return Ok(());
            }
            if Instant::now() > until {
                return Err("the workers do not come up".into());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// One kill of the daemon, and what comes before it.
    async fn strike(&mut self, may_await_act: bool) -> Outcome<()> {
        self.unrest().await?;
        let with_shims = self.rng.u32(0..100) < 25 && self.options.kills_shims(&self.mix.kinds);
        let shims = if with_shims { self.shims(SHIMS).await } else { Vec::new() };
        // Some kills hit whatever the daemon does, and some the moment after a browser has done what cannot be taken
        // back; most of them hit it while somebody waits for an answer.
        match self.rng.u32(0..100) {
            0..25 if may_await_act && self.site.is_some() => self.await_act().await,
            0..85 => self.await_unanswered().await,
            _ => {}
        }
        self.kill_daemon(&shims).await?;
        if self.rng.u32(0..100) < 10 {
            // In the middle of its recovery.
            self.pause(5..250).await;
            self.kill_daemon(&[]).await?;
        }
        self.ready().await
    }

    fn kills_in_flight(&self) -> Outcome<u64> {
        let clients: Vec<&str> = self.clients.keys().map(String::as_str).collect();
        verdict::kills_in_flight(&self.programs.folder, &clients)
    }

    /// A while with smaller faults.
    async fn unrest(&mut self) -> Outcome<()> {
        let worst = self.options.unrest_ms();
        let until = Instant::now() + Duration::from_millis(self.rng.u64(worst / 3..=worst));
        while Instant::now() < until {
            self.pause(50..300).await;
            self.check_children()?;
            match self.rng.u32(0..100) {
                0..=6 => {
                    if let Some(id) = any(&mut self.rng, &self.workers) {
                        self.kill_worker(&id).await?;
                    }
                }
                7..=10 => {
                    if let Some(id) = any(&mut self.rng, &self.clients) {
                        self.kill_client(&id).await?;
                    }
                }
                11..=14 => {
                    if let Some(id) = any(&mut self.rng, &self.subscribers) {
                        self.kill_subscriber(&id).await?;
                    }
                }
                15..=27 => self.cut(40).await?,
                // A quick storm waits for a shim in few places, and few scripts would be left in it that succeed.
                28..=32 if self.options.quick => {}
                28..=30 => self.kill_shim().await?,
                31..=32 => self.kill_browser().await?,
                33..=35 => self.set_clock().await?,
                36..=38 => self.fail_disk().await?,
                _ => {}
            }
        }
        Ok(())
    }

    /// A child that ends by itself has something to say.
    pub(crate) fn check_children(&mut self) -> Outcome<()> {
        let all = self.workers.iter_mut().chain(&mut self.clients).chain(&mut self.subscribers);
        for (id, process) in all {
            if let Some(succeeded) = process.ended()? {
                let how = if succeeded { "as if all were done" } else { "with a failure" };
                return Err(format!("{id} has ended by itself, {how}; see its log").into());
            }
        }
        Ok(())
    }

    async fn cut(&mut self, percent: u32) -> Outcome<()> {
        let count = self.proxy.cut(&mut self.rng, percent);
        self.faults.write(&Fault::ConnectionsCut { at: now_us(), count }).await
    }

    async fn kill_worker(&mut self, id: &str) -> Outcome<()> {
        let Some(mut process) = self.workers.remove(id) else { return Ok(()) };
        process.kill()?;
        self.faults.write(&Fault::WorkerKilled { at: now_us(), worker: id.to_owned() }).await?;
        self.pause(0..600).await;
        self.start_worker(id)
    }

    async fn kill_client(&mut self, id: &str) -> Outcome<()> {
        let Some(mut process) = self.clients.remove(id) else { return Ok(()) };
        process.kill()?;
        self.faults.write(&Fault::ClientKilled { at: now_us(), client: id.to_owned() }).await?;
        self.start_client(id)
    }

    async fn kill_subscriber(&mut self, id: &str) -> Outcome<()> {
        let Some(mut process) = self.subscribers.remove(id) else { return Ok(()) };
        process.kill()?;
        self.faults.write(&Fault::SubscriberKilled { at: now_us(), subscriber: id.to_owned() }).await?;
        self.start_subscriber(id)
    }

    /// Waits for a moment at which the site has just seen a click or a form, and a little longer.
    async fn await_act(&mut self) {
        if let Some(site) = &self.site
            && site::await_act(site, ACT).await
        {
            // From before the page has its answer until after the outcome is durable.
            self.pause(0..120).await;
        }
    }

    /// Waits for a moment at which a start or a command has no answer yet, and a little longer.
    async fn await_unanswered(&mut self) {
        let until = Instant::now() + IN_FLIGHT;
        while Instant::now() < until {
            if self.clients.values().any(|client| client.unanswered() > 0) {
                // About as long as a call takes: before, within and after its append.
                let wait = Duration::from_micros(self.rng.u64(0..1_000));
                std::thread::sleep(wait);
                if self.clients.values().any(|client| client.unanswered() > 0) {
                    return;
                }
            }
            // A pulse of the runtime is a millisecond, and most calls are shorter.
            std::thread::sleep(Duration::from_micros(50));
            tokio::task::yield_now().await;
        }
    }

    /// Ends what goes wrong, with one more kill: from now on nothing is removed. What was kept of what was removed until now.
    pub(crate) async fn clear_up(&mut self) -> Outcome<Kept> {
        self.configuration = CALM;
        self.kill_daemon(&[]).await?;
        self.ready().await?;
        Ok(self.archive.take().map(Archive::end).unwrap_or_default())
    }

    /// SIGKILL of the daemon and of these shims, and at once a new daemon on the same port.
    pub(crate) async fn kill_daemon(&mut self, shims: &[Kin]) -> Outcome<()> {
        let kib = self.daemon.id().and_then(family::peak_memory_kib).unwrap_or_default();
        let at = now_us();
        let shims = self.daemon.kill_with(shims)?;
        self.daemon.start(self.programs, self.weather.as_ref(), self.configuration)?;
        self.faults.write_all(&[Fault::DaemonKilled { at, shims }, Fault::PeakMemory { at, kib }]).await
    }

    pub(crate) async fn ready(&mut self) -> Outcome<()> {
        self.daemon.ready().await?;
        self.faults.write(&Fault::DaemonReady { at: now_us() }).await
    }

    /// Stops a busy worker until its leases are lost, then lets it go on: what it sends then is stale.
    async fn silence_a_worker(&mut self) -> Outcome<()> {
        let honest: Vec<String> =
            self.workers.keys().filter(|id| id.starts_with("worker")).cloned().collect();
        let began = Instant::now();
        let worker = loop {
            let busiest = honest.iter().max_by_key(|id| self.watch.leases(id));
            match busiest {
                Some(worker) if self.watch.leases(worker) >= 2 => break worker.clone(),
                Some(worker) if began.elapsed() > PATIENCE => break worker.clone(),
                _ => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        };
        let before = self.watch.lost(&worker);
        let Some(process) = self.workers.get(&worker) else { return Ok(()) };
        process.signal(Signal::STOP)?;
        self.faults.write(&Fault::WorkerStopped { at: now_us(), worker: worker.clone() }).await?;
        let until = Instant::now() + SILENCE;
        while self.watch.lost(&worker) == before && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let Some(process) = self.workers.get(&worker) else { return Ok(()) };
        process.signal(Signal::CONT)?;
        let lost_leases = self.watch.lost(&worker) - before;
        self.faults.write(&Fault::WorkerContinued { at: now_us(), worker, lost_leases }).await
    }

    pub(crate) async fn pause(&mut self, milliseconds: std::ops::Range<u64>) {
        tokio::time::sleep(Duration::from_millis(self.rng.u64(milliseconds))).await;
    }
}

fn any(rng: &mut fastrand::Rng, among: &BTreeMap<String, Process>) -> Option<String> {
    rng.choice(among.keys()).cloned()
}

fn flags<const N: usize>(flags: [(&str, String); N]) -> impl Iterator<Item = String> {
    flags.into_iter().flat_map(|(name, value)| [name.to_owned(), value])
}

/// Where the faults are written down.
pub(crate) fn faults_path(folder: &std::path::Path) -> PathBuf {
    folder.join("faults.journal")
}
