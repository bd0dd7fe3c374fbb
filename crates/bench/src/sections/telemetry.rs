//! What it costs to be watched: a daemon whose runs are sent as traces and that is scraped, beside one that is not, by turns.

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::{Usage, execute, micros_each};
use crate::children::{Daemon, Folder, Process, collector};
use crate::load::{Load, histogram};
use crate::report::{Cell, Section, Table, Unit};
use crate::work::Work;
use crate::{Options, Outcome, process};

/// The time between two scrapes; those who watch daemons take 15 times as long.
const SCRAPES: Duration = Duration::from_secs(1);
/// Runs a second with everything on, as a share of those without.
const AIM_RATE: f64 = 0.97;
/// A scrape under load, in milliseconds.
const AIM_SCRAPE: f64 = 5.0;
/// Spans of a run of one task: its beginning, its wave, the attempt, and its end.
const SPANS: f64 = 4.0;

/// What all turns of one kind gave together.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    turns: f64,
    rate: f64,
    p50: f64,
    cpu: f64,
    collector: f64,
}

impl Sum {
    fn mean(&self, of: impl Fn(&Self) -> f64) -> f64 {
        of(self) / self.turns.max(1.0)
    }
}

/// What the scrapes gave.
struct Scraped {
    took: Histogram<u64>,
    series: u64,
    /// Spans that had arrived at the last one, and how far they were behind then.
    sent: f64,
    lag: f64,
}

pub(crate) async fn telemetry(options: &Options) -> Outcome<Section> {
    let mut section = Section::new("Being watched: traces and metrics, on and off by turns");
    let mut table =
        Table::new(["callers", "watched", "turns", "runs/s", "p50", "daemon CPU/run", "collector CPU/run"]);
    let mut shares = Table::new(["callers", "runs/s", "p50", "daemon CPU/run"]);
    let mut scrapes = Table::new([
        "callers",
        "scrapes",
        "p50",
        "p99",
        "series",
        "spans of the last turn",
        "appends behind",
    ]);
    for concurrency in options.callers.iter().copied() {
        let mut sums = [Sum::default(); 2];
        let mut scraped = None;
        for round in 0..options.rounds {
            let order = if round % 2 == 0 { [true, false] } else { [false, true] };
            for watched in order {
                let [off, on] = &mut sums;
                let told = turn(options, concurrency, watched, if watched { on } else { off }).await?;
                told.map_or(Ok(()), |told| add(&mut scraped, told))?;
            }
        }
        for (name, sum) in ["no", "yes"].into_iter().zip(&sums) {
            table.row([
                Cell::new(concurrency as f64, Unit::Count),
                Cell::from(name),
                Cell::new(sum.turns, Unit::Count),
                Cell::new(sum.mean(|sum| sum.rate), Unit::Count),
                Cell::new(sum.mean(|sum| sum.p50), Unit::Milliseconds),
                Cell::new(sum.mean(|sum| sum.cpu), Unit::ExactMicroseconds),
                Cell::new(sum.mean(|sum| sum.collector), Unit::ExactMicroseconds),
            ]);
        }
        let [off, on] = &sums;
        let share =
            |of: fn(&Sum) -> f64| Cell::new(on.mean(of) / off.mean(of).max(f64::MIN_POSITIVE), Unit::Ratio);
        shares.row([
            Cell::new(concurrency as f64, Unit::Count),
            share(|sum| sum.rate).at_least(AIM_RATE),
            share(|sum| sum.p50),
            share(|sum| sum.cpu),
        ]);
        let Some(Scraped { took, series, sent, lag }) = scraped else { continue };
        let quantile = |quantile| took.value_at_quantile(quantile) as f64 / 1e3;
        scrapes.row([
            Cell::new(concurrency as f64, Unit::Count),
            Cell::new(took.len() as f64, Unit::Count),
            Cell::new(quantile(0.5), Unit::Milliseconds).at_most(AIM_SCRAPE),
            Cell::new(quantile(0.99), Unit::Milliseconds),
            Cell::new(series as f64, Unit::Count).at_most(300.0),
            Cell::new(sent, Unit::Count),
            Cell::new(lag, Unit::Count),
        ]);
    }
    section.table(table);
    section.table(shares);
    section.table(scrapes);
    section.note(format!(
        "runs of a single task, {SPANS} spans each; a collector that reads none of them is a process of its own on the same machine; \
         a scrape every {} s",
        SCRAPES.as_secs()
    ));
    Ok(section)
}

fn add(all: &mut Option<Scraped>, told: Scraped) -> Outcome<()> {
    match all {
        None => *all = Some(told),
        Some(all) => {
            all.took.add(&told.took)?;
            (all.series, all.sent, all.lag) = (told.series, told.sent, told.lag);
        }
    }
    Ok(())
}

async fn turn(
    options: &Options,
    concurrency: usize,
    watched: bool,
    sum: &mut Sum,
) -> Outcome<Option<Scraped>> {
    let folder = Folder::create(options, "telemetry")?;
    let collector = match watched {
        true => {
            let (process, address) = collector(folder.path()).await?;
            let config = format!("[telemetry]\notlp_endpoint = \"http://{address}\"\n");
            fs::write(folder.path().join("capataz.toml"), config)?;
            Some(process)
        }
        false => None,
    };
    let (daemon, _) = Daemon::start(options, folder.path()).await?;
    let worker = daemon.worker(folder.path(), options.slots, false).await?;
    let scraping = watched.then(|| Scraping::start(daemon.address));
    let used = |collector: &Option<Process>| {
        collector.as_ref().map_or(Ok(Duration::ZERO), |collector| process::cpu_time(collector.pid()))
    };
    let before = used(&collector)?;
    let measured =
        execute(&daemon, &worker, Load::new(options, concurrency), Arc::new(Work::single())).await?;
    let all = measured.all_operations;
    let of_collector = used(&collector)?.saturating_sub(before);
    let usage = Usage::between(measured.samples);
    sum.turns += 1.0;
    sum.rate += measured.per_second();
    sum.p50 += measured.quantile(0.5);
    sum.cpu += micros_each(usage.cpu, measured.operations.max(1) as f64);
    sum.collector += micros_each(of_collector, all.max(1) as f64);
    match scraping {
        Some(scraping) => Ok(Some(scraping.end().await?)),
        None => Ok(None),
    }
}

/// Somebody who scrapes until told to end.
struct Scraping {
    task: JoinHandle<Outcome<Scraped>>,
    end: tokio::sync::watch::Sender<bool>,
}

impl Scraping {
    fn start(daemon: SocketAddr) -> Self {
        let (end, mut ended) = tokio::sync::watch::channel(false);
        let task = tokio::spawn(async move {
            let mut took = histogram()?;
            loop {
                let begun = Instant::now();
                let text = scrape(daemon).await?;
                took.record(u64::try_from(begun.elapsed().as_micros())?.max(1))?;
                let waits = tokio::time::timeout(SCRAPES, ended.wait_for(|ended| *ended)).await;
                if waits.is_ok() {
                    let series =
                        text.lines().filter(|line| !line.starts_with('#') && line.contains(' ')).count();
                    let value = |name: &str| {
                        let line = text.lines().find_map(|line| line.strip_prefix(name));
                        line.and_then(|value| value.trim().parse().ok()).unwrap_or_default()
                    };
                    return Ok(Scraped {
                        took,
                        series: series as u64,
                        sent: value("capataz_trace_spans_total{result=\"sent\"}"),
                        lag: value("capataz_trace_lag_appends"),
                    });
                }
            }
        });
        Self { task, end }
    }

    async fn end(self) -> Outcome<Scraped> {
        self.end.send_replace(true);
        self.task.await?
    }
}

/// What Prometheus would get.
pub(super) async fn scrape(daemon: SocketAddr) -> Outcome<String> {
    let mut stream = TcpStream::connect(daemon).await?;
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {daemon}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    match answer.starts_with("HTTP/1.1 200") {
        true => Ok(answer),
        false => Err(format!("no metrics: {answer}").into()),
    }
}
