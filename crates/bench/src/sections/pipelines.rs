//! Pipelines: phases whose outputs are judged, beside waves that are not; a verdict alone; a run as it was, and forks of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use capataz_client::{Client, v1};
use capataz_judge::Schema;

use super::{Gauge, Usage, Used, micros_each};
use crate::children::{Daemon, Folder};
use crate::load::{Load, Measured, closed_loop};
use crate::report::{Cell, Section, Table, Unit};
use crate::roles::AGENT;
use crate::work::{Work, unordered_key};
use crate::{Options, Outcome};

/// Phases of a run, and waves of the plan beside it.
const PHASES: usize = 3;
/// What the worker gives back, for it gives back what it is given.
const INPUT: &[u8] = br#"{"kind":"docs","files":12,"notes":"twelve files below docs"}"#;
const SCHEMA: &str = r#"{"type":"object","additionalProperties":false,"required":["kind","files"],"properties":{
    "kind":{"enum":["docs","infra","product_core"]},"files":{"type":"integer","minimum":0},
    "notes":{"type":"string","maxLength":200}}}"#;
/// Tasks of the run that is read as it was: two events each, and a few more.
const TASKS: usize = 5_000;
/// How often a verdict is given and a run is read.
const VERDICTS: u32 = 2_000;
const READS: usize = 15;

#[derive(Debug)]
pub(super) struct Pipelines {
    pipeline: v1::Pipeline,
    next: AtomicU64,
    salt: u64,
}

impl Pipelines {
    pub(super) fn new() -> Self {
        let json = |text: &'static [u8]| v1::Payload {
            media_type: "application/json".to_owned(),
            data: Some(v1::payload::Data::Inline(Bytes::from_static(text))),
        };
        let phase = |number: usize| v1::Phase {
            name: format!("phase-{number}"),
            agent: AGENT.to_owned(),
            input: Some("\"${input}\"".to_owned()),
            output: Some(v1::OutputRule { schema: Some(SCHEMA.to_owned()), checks: Vec::new() }),
            summary: vec!["kind".to_owned()],
            ..v1::Phase::default()
        };
        let pipeline = v1::Pipeline {
            name: "benchmark".to_owned(),
            phases: (0..PHASES).map(phase).collect(),
            input: Some(json(INPUT)),
            ..v1::Pipeline::default()
        };
        let (_, salt) = uuid::Uuid::now_v7().as_u64_pair();
        Self { pipeline, next: AtomicU64::new(1), salt }
    }

    pub(super) async fn execute(&self, client: &Client) -> Outcome<()> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let request = v1::StartRunRequest {
            idempotency_key: Some(unordered_key(self.salt, number)),
            ..v1::StartRunRequest::of_pipeline(self.pipeline.clone())
        };
        let response = client.execute_run(request, None).await?;
        let result = response.result.ok_or("the run has not ended")?;
        match response.created && result.outcome() == v1::RunOutcome::Succeeded {
            true => Ok(()),
            false => Err(format!("run {} ended otherwise: {result:?}", response.run_id).into()),
        }
    }
}

/// What is run: pipelines, or plans of as many waves.
#[derive(Clone, Debug)]
enum Runs {
    Pipelines(Arc<Pipelines>),
    Plans(Arc<Work>),
}

impl Runs {
    async fn execute(&self, client: &Client) -> Outcome<()> {
        match self {
            Self::Pipelines(pipelines) => pipelines.execute(client).await,
            Self::Plans(plans) => plans.execute(client).await,
        }
    }
}

pub(crate) async fn pipelines(options: &Options) -> Outcome<Section> {
    let mut section = Section::new("Pipelines: phases whose outputs are judged before they count");
    let mut table = Table::new([
        "callers",
        "phases/s",
        "p50 of a run",
        "p99",
        "waves/s of plans",
        "of plans",
        "daemon CPU/phase",
        "commits/run",
        "CPU taken by others",
    ]);
    for concurrency in options.callers.iter().copied() {
        let folder = Folder::create(options, "pipelines")?;
        let (daemon, _) = Daemon::start(options, folder.path()).await?;
        let _worker = daemon.worker(folder.path(), options.slots, false).await?;
        let load = || Load::new(options, concurrency);
        let plans = execute(&daemon, load(), Runs::Plans(Arc::new(Work::plan(PHASES, 1)))).await?;
        let judged = execute(&daemon, load(), Runs::Pipelines(Arc::new(Pipelines::new()))).await?;
        let usage = Usage::between(judged.samples);
        let phases = judged.per_second() * PHASES as f64;
        let waves = plans.per_second() * PHASES as f64;
        let operations = judged.operations.max(1) as f64;
        let cell = Cell::new(phases, Unit::Count);
        table.row([
            Cell::new(concurrency as f64, Unit::Count),
            if concurrency >= 64 { cell.at_least(3_000.0) } else { cell },
            Cell::new(judged.quantile(0.5), Unit::Milliseconds),
            Cell::new(judged.quantile(0.99), Unit::Milliseconds),
            Cell::new(waves, Unit::Count),
            Cell::new(phases / waves.max(1e-9), Unit::Ratio),
            Cell::new(micros_each(usage.cpu, operations * PHASES as f64), Unit::Microseconds),
            Cell::new(usage.commits / operations, Unit::Exact),
            Cell::new(usage.elsewhere * 100.0, Unit::Percent),
        ]);
    }
    section.table(table);
    section.table(verdicts()?);
    section.table(as_it_was(options).await?);
    section.note(format!("{PHASES} phases a run, one after the other; plans have as many waves of one task"));
    section.note("the worker gives back what it is given; a summary of one key goes on");
    Ok(section)
}

/// A verdict on 4 KiB by a schema that is compiled, and what it costs to compile it.
fn verdicts() -> Outcome<Table> {
    let features: Vec<String> = (0..60)
        .map(|number| format!(r#"{{"name":"feature {number}","domain":"core","paths":["src/{number}.rs"]}}"#))
        .collect();
    let output = format!(r#"{{"features":[{}]}}"#, features.join(","));
    let schema = r#"{"type":"object","required":["features"],"additionalProperties":false,"properties":{"features":{
        "type":"array","items":{"type":"object","required":["name","domain","paths"],"additionalProperties":false,
        "properties":{"name":{"type":"string","minLength":1},"domain":{"enum":["core","docs"]},
        "paths":{"type":"array","items":{"type":"string","minLength":1}}}}}}}"#;
    let compile = || Schema::compile(schema).map_err(|violations| format!("{violations:?}"));
    let compiled = compile()?;
    let began = Instant::now();
    for _ in 0..VERDICTS {
        if !compiled.judge(output.as_bytes()).is_empty() {
            return Err("the output passes no more".into());
        }
    }
    let judged = began.elapsed().as_secs_f64() * 1e6 / f64::from(VERDICTS);
    let began = Instant::now();
    for _ in 0..VERDICTS {
        compile()?;
    }
    let compiles = began.elapsed().as_secs_f64() * 1e6 / f64::from(VERDICTS);
    let mut table = Table::new(["bytes of the output", "verdict", "schema compiled"]);
    table.row([
        Cell::new(output.len() as f64, Unit::Count),
        Cell::new(judged, Unit::Microseconds).at_most(50.0),
        Cell::new(compiles, Unit::Microseconds),
    ]);
    Ok(table)
}

/// A run of some 10,000 events, read as it was in the middle of them, and forked near its end.
async fn as_it_was(options: &Options) -> Outcome<Table> {
    let folder = Folder::create(options, "as-it-was")?;
    let (daemon, _) = Daemon::start(options, folder.path()).await?;
    let _worker = daemon.worker(folder.path(), options.slots, false).await?;
    let client = daemon.client().await?;
    let response = client.execute_run(Work::plan(1, TASKS).request(), None).await?;
    let get = |at_seq: Option<u64>| v1::GetRunRequest {
        run_id: response.run_id.clone(),
        summary_only: true,
        at_seq,
        ..v1::GetRunRequest::default()
    };
    let events = client.get_run(get(None)).await?.run.unwrap_or_default().seq;
    let mut read = Vec::with_capacity(READS);
    for _ in 0..READS {
        let began = Instant::now();
        client.get_run(get(Some(events / 2))).await?;
        read.push(began.elapsed());
    }
    let fork = |at_seq: Option<u64>| v1::ForkRunRequest {
        run_id: response.run_id.clone(),
        at_seq,
        ..v1::ForkRunRequest::default()
    };
    // The newest event that may be, near the end of the run.
    let at = client.fork_run(fork(None)).await?.at_seq;
    let mut forked = Vec::with_capacity(READS);
    for _ in 0..READS {
        let began = Instant::now();
        client.fork_run(fork(Some(at))).await?;
        forked.push(began.elapsed());
    }
    let mut table = Table::new([
        "events of the run",
        "as it was in the middle, p50",
        "slowest",
        "events of the fork",
        "forked, p50",
        "slowest",
    ]);
    let [read, read_slowest] = of_these(read);
    let [forked, forked_slowest] = of_these(forked);
    table.row([
        Cell::new(events as f64, Unit::Count),
        Cell::new(read, Unit::Milliseconds).at_most(50.0),
        Cell::new(read_slowest, Unit::Milliseconds),
        Cell::new(at as f64, Unit::Count),
        Cell::new(forked, Unit::Milliseconds).at_most(50.0),
        Cell::new(forked_slowest, Unit::Milliseconds),
    ]);
    Ok(table)
}

/// The median of these times, and the longest one, in milliseconds.
fn of_these(mut times: Vec<Duration>) -> [f64; 2] {
    times.sort_unstable();
    let of = |time: Option<&Duration>| time.map_or(0.0, Duration::as_secs_f64) * 1e3;
    [of(times.get(times.len() / 2)), of(times.last())]
}

async fn execute(daemon: &Daemon, load: Load, runs: Runs) -> Outcome<Measured<Used>> {
    let clients: Arc<[Client]> = daemon.clients(load.connections()).await?.into();
    let gauge = Gauge::alone(daemon);
    let sample = move || gauge.read();
    closed_loop(load, sample, move |caller| {
        let (clients, runs) = (Arc::clone(&clients), runs.clone());
        async move { runs.execute(clients.get(caller % clients.len()).ok_or("no client")?).await }
    })
    .await
}
