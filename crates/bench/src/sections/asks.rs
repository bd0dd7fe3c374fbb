//! Asks from request to answer, in a closed loop: routed, answered by the template agent, and durable.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use capataz_client::{Client, v1};

use super::floors::{Floors, commits_alone, echo};
use super::{Gauge, Usage, Used, disk_now, micros_each};
use crate::children::{Daemon, Folder};
use crate::disk::{self, Disk};
use crate::load::{Load, Measured, closed_loop};
use crate::report::{Cell, Section, Table, Unit};
use crate::stored::{Step, Stored};
use crate::work::unordered_key;
use crate::{Options, Outcome, process};

/// The project's own specs.
const SPECS: [(&str, &str); 2] = [
    ("kiro-adaptive-assistance.toml", include_str!("../../../../specs/kiro-adaptive-assistance.toml")),
    ("whispers-of-the-wave.toml", include_str!("../../../../specs/whispers-of-the-wave.toml")),
];

/// What is asked, in turn; half of it each spec should answer, and none of it stands in a spec file.
const TEXTS: [&str; 12] = [
    "Hoy me cuesta hasta levantarme y no entiendo el motivo",
    "Tengo que escoger entre dos pisos y no me aclaro con las cuentas",
    "I keep feeling low in the evenings and nobody notices",
    "Which steps should I take to move my shop to another town?",
    "Echo de menos a la gente de mi pueblo desde que vivo aquí",
    "Ayúdame a ordenar las tareas de esta semana, son demasiadas",
    "My chest gets tight before every class and I cannot relax",
    "How do I split my budget between rent, food and the course?",
    "Esta tarde paseando sentí mucha calma y quería contarlo",
    "¿Cómo preparo un plan para aprender a programar en tres meses?",
    "I am so tired of looking after everyone but me",
    "Compare learning the piano with learning the guitar for me",
];

/// One after the other, before the rows of an ask are read: the history of a session is full then.
const ASKED_BEFORE: usize = 12;
const MEBIBYTE: f64 = 1_048_576.0;

/// Asks, each under a key of its own.
#[derive(Debug)]
pub(super) struct Asks {
    next: AtomicU64,
    salt: u64,
    with_sessions: bool,
    /// Calls of specs, those of retries and transitions included.
    calls: AtomicU64,
}

impl Asks {
    pub(super) fn new(with_sessions: bool) -> Self {
        let (_, salt) = uuid::Uuid::now_v7().as_u64_pair();
        Self { next: AtomicU64::new(0), salt, with_sessions, calls: AtomicU64::new(0) }
    }

    /// Each caller has a session of its own, as each user has.
    fn request(&self, caller: usize) -> v1::StartRunRequest {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let text = TEXTS.get(number as usize % TEXTS.len()).copied().unwrap_or_default();
        let ask = v1::Ask {
            text: text.to_owned(),
            session: self.with_sessions.then(|| format!("bench-{:016x}-{caller}", self.salt)),
            ..v1::Ask::default()
        };
        v1::StartRunRequest {
            idempotency_key: Some(unordered_key(self.salt, number)),
            ..v1::StartRunRequest::of_ask(ask)
        }
    }

    /// One operation of the benchmark: an ask, from its request to its answer.
    pub(super) async fn execute(&self, client: &Client, caller: usize) -> Outcome<()> {
        let response = client.execute_run(self.request(caller), None).await?;
        let result = response.result.ok_or("the ask has not ended")?;
        let has_succeeded = result.outcome() == v1::RunOutcome::Succeeded;
        match result.ask() {
            Some(ask) if response.created && has_succeeded && ask.response.is_some() => {
                self.calls.fetch_add(ask.calls.len() as u64, Ordering::Relaxed);
                Ok(())
            }
            _ => Err(format!("ask {} ended otherwise: {result:?}", response.run_id).into()),
        }
    }
}

/// A daemon that finds the specs where it looks for them by default: in the folder that it works in.
pub(super) async fn start(options: &Options, folder: &Folder) -> Outcome<Daemon> {
    let specs = folder.path().join("specs");
    fs::create_dir_all(&specs)?;
    for (name, content) in SPECS {
        fs::write(specs.join(name), content)?;
    }
    let (daemon, _) = Daemon::start(options, folder.path()).await?;
    Ok(daemon)
}

fn told(with_sessions: bool) -> &'static str {
    if with_sessions { "with" } else { "without" }
}

/// gRPC alone, and the rows of asks alone; the floors of asks without a session and with one.
pub(crate) async fn ask_floors(options: &Options, disk: &Disk, floors: &mut [Floors; 2]) -> Outcome<Section> {
    let mut section = Section::new("Floors of asks: the parts alone, on this machine, now");
    let folder = Folder::create(options, "ask-floors")?;
    let syncs = disk::syncs_per_second(&disk.path, std::time::Duration::from_secs(2))?;
    section.note(format!("fdatasync of 4 KiB: {syncs:.0}/s"));
    let [without, with] = &mut *floors;
    section.table(echo(options, &folder, without).await?);
    with.echo.clone_from(&without.echo);

    let mut table = Table::new([
        "session",
        "asks a commit",
        "asks/s by commits alone",
        "commit p50",
        "commit p99",
        "CPU/ask",
        "counted commits",
    ]);
    for (with_sessions, floors) in [(false, without), (true, with)] {
        let steps = Arc::new(steps_of_an_ask(options, with_sessions).await?);
        for concurrency in options.callers.iter().copied() {
            let data = folder.path().join(format!("commit-{}-{concurrency}", told(with_sessions)));
            let alone = commits_alone(options, data, &steps, concurrency).await?;
            floors.commit.push((concurrency, alone.rate));
            table.row([
                Cell::from(told(with_sessions)),
                Cell::new(concurrency as f64, Unit::Count),
                Cell::new(alone.rate, Unit::Count),
                Cell::new(alone.p50, Unit::Milliseconds),
                Cell::new(alone.p99, Unit::Milliseconds),
                Cell::new(alone.cpu_micros, Unit::Microseconds),
                Cell::new(alone.counted, Unit::Ratio),
            ]);
        }
    }
    section.table(table);
    section.note("commits alone: the rows of a real ask in full batches; no gRPC, no engine, no routing");
    section.note("counted commits: the WAL index's counter of transactions by the commits made; 1 if it can be trusted");
    Ok(section)
}

/// The rows that the daemon writes for an ask.
async fn steps_of_an_ask(options: &Options, with_sessions: bool) -> Outcome<Vec<Step>> {
    let folder = Folder::create(options, "ask-template")?;
    let daemon = start(options, &folder).await?;
    let client = daemon.client().await?;
    let asks = Asks::new(with_sessions);
    for _ in 0..ASKED_BEFORE {
        asks.execute(&client, 0).await?;
    }
    let steps = daemon.database().newest(v1::RunKind::Ask)?;
    if steps.iter().any(|step| step.session.is_some()) != with_sessions {
        return Err("the rows of the newest ask are not those of its session".into());
    }
    Ok(steps)
}

pub(crate) async fn asks(options: &Options, floors: &[Floors; 2]) -> Outcome<Section> {
    let mut section = Section::new("Asks: routed, answered by the template agent, and durable");
    let mut speed = Table::new([
        "session",
        "callers",
        "asks/s",
        "p50",
        "p99",
        "slowest",
        "of echo",
        "of commit",
        "disk syncs/s before",
        "CPU taken by others",
    ]);
    let mut cost = Table::new([
        "session",
        "callers",
        "daemon CPU/ask",
        "callers'",
        "commits/ask",
        "log rows",
        "other rows",
        "event bytes",
        "disk bytes",
        "calls",
        "daemon memory",
    ]);
    for (with_sessions, floors) in [false, true].into_iter().zip(floors) {
        for concurrency in options.callers.iter().copied() {
            let folder = Folder::create(options, "asks")?;
            let daemon = start(options, &folder).await?;
            let syncs = disk_now(&folder).await?;
            let before = daemon.database().stored()?;
            let asks = Arc::new(Asks::new(with_sessions));
            let measured = execute(&daemon, Load::new(options, concurrency), Arc::clone(&asks)).await?;
            let per_ask = daemon.database().stored()?.per_run(before, measured.all_operations);
            let usage = Usage::between(measured.samples);
            let operations = measured.operations.max(1) as f64;
            let rate = measured.per_second();
            let calls = asks.calls.load(Ordering::Relaxed) as f64 / measured.all_operations.max(1) as f64;
            let ratio = |floor: Option<f64>| {
                floor.map_or_else(|| Cell::from("-"), |floor| Cell::new(rate / floor.max(1e-9), Unit::Ratio))
            };
            speed.row([
                Cell::from(told(with_sessions)),
                Cell::new(concurrency as f64, Unit::Count),
                Cell::new(rate, Unit::Count),
                Cell::new(measured.quantile(0.5), Unit::Milliseconds),
                Cell::new(measured.quantile(0.99), Unit::Milliseconds),
                Cell::new(measured.slowest(), Unit::Milliseconds),
                ratio(floors.echo(concurrency)),
                ratio(floors.commit(concurrency)),
                syncs,
                Cell::new(usage.elsewhere * 100.0, Unit::Percent),
            ]);
            cost.row([
                Cell::from(told(with_sessions)),
                Cell::new(concurrency as f64, Unit::Count),
                Cell::new(micros_each(usage.cpu, operations), Unit::Microseconds),
                Cell::new(micros_each(usage.callers, operations), Unit::Microseconds),
                Cell::new(usage.commits / operations, Unit::Exact),
                Cell::new(per_ask(|stored: &Stored| stored.log_rows), Unit::Exact),
                Cell::new(per_ask(|stored: &Stored| stored.runs + stored.keys), Unit::Exact),
                Cell::new(per_ask(|stored: &Stored| stored.event_bytes), Unit::Count),
                Cell::new(usage.written / operations, Unit::Count),
                Cell::new(calls, Unit::Exact),
                Cell::new(process::memory(daemon.pid())?.0 as f64 / MEBIBYTE, Unit::Mebibytes),
            ]);
        }
    }
    section.table(speed);
    section.table(cost);
    section
        .note(format!("{} texts in turn, in Spanish and English, on the project's two specs", TEXTS.len()));
    section.note("with a session: each caller has one of its own, and asks within it one after the other");
    Ok(section)
}

async fn execute(daemon: &Daemon, load: Load, asks: Arc<Asks>) -> Outcome<Measured<Used>> {
    let clients: Arc<[Client]> = daemon.clients(load.connections()).await?.into();
    let gauge = Gauge::alone(daemon);
    let sample = move || gauge.read();
    closed_loop(load, sample, move |caller| {
        let (clients, asks) = (Arc::clone(&clients), Arc::clone(&asks));
        async move {
            let client = clients.get(caller % clients.len()).ok_or("no client")?;
            asks.execute(client, caller).await
        }
    })
    .await
}
