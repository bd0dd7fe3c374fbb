//! What subscribers get, and when: live beside a load, and history as fast as it goes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use capataz_client::v1;
use capataz_contracts::v1::event_service_client::EventServiceClient;
use hdrhistogram::Histogram;
use prost::Message;
use tokio::task::JoinSet;
use tonic::Streaming;
use tonic::transport::Endpoint;

use super::{Usage, execute, micros_each};
use crate::children::{Daemon, Folder, Process};
use crate::load::{Load, histogram};
use crate::report::{Cell, Section, Table, Unit};
use crate::work::Work;
use crate::{Options, Outcome, process};

const SUBSCRIBERS: [usize; 3] = [0, 1, 16];
const CALLERS: usize = 64;
/// How long the last events may take to arrive.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) async fn events(options: &Options) -> Outcome<Section> {
    let mut section = Section::new("Subscribers: live beside 64 callers, and history");
    let mut live = Table::new([
        "subscribers",
        "runs/s beside",
        "events/s to each",
        "to all",
        "lag p50",
        "lag p99",
        "lag max",
        "daemon CPU/run",
        "delivered",
        "CPU taken by others",
    ]);
    let mut history = Table::new(["subscribers", "history events/s to each", "to all", "daemon CPU/event"]);
    for count in SUBSCRIBERS {
        let folder = Folder::create(options, "events")?;
        let (daemon, _) = Daemon::start(options, folder.path()).await?;
        let worker = daemon.worker(folder.path(), options.slots, false).await?;
        live.row(beside_load(options, &daemon, &worker, count).await?);
        if count > 0 {
            history.row(from_the_beginning(&daemon, count).await?);
        }
    }
    section.table(live);
    section.table(history);
    section.note("lag: from the decision that an event records, before its commit, to its arrival; the oldest of a response");
    section.note("history: from the oldest event to the mark that it ends; CPU in µs");
    Ok(section)
}

async fn beside_load(
    options: &Options,
    daemon: &Daemon,
    worker: &Process,
    count: usize,
) -> Outcome<Vec<Cell>> {
    let mut listeners = Vec::with_capacity(count);
    let mut streams = JoinSet::new();
    for _ in 0..count {
        let listener = Arc::new(Listener { received: AtomicU64::new(0), lags: Mutex::new(histogram()?) });
        let stream = subscribe(daemon).await?;
        let listens = Arc::clone(&listener);
        streams.spawn(async move { listens.listen(stream).await });
        listeners.push(listener);
    }
    let measured = execute(daemon, worker, Load::new(options, CALLERS), Arc::new(Work::single())).await?;
    let committed = daemon.database().events()?;
    let expected = committed * count as u64;
    let begin = Instant::now();
    let delivered = loop {
        let delivered: u64 = listeners.iter().map(|listener| listener.received.load(Ordering::Relaxed)).sum();
        if delivered >= expected || begin.elapsed() > PATIENCE {
            break delivered;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    if delivered != expected {
        return Err(format!("{delivered} events came, {expected} were due").into());
    }
    let mut lags = histogram()?;
    for listener in &listeners {
        lags.add(&*listener.lags.lock().unwrap_or_else(PoisonError::into_inner))?;
    }
    let events_per_run = committed as f64 / measured.all_operations.max(1) as f64;
    let to_each = measured.per_second() * events_per_run;
    let usage = Usage::between(measured.samples);
    let figure = |value: f64, unit: Unit| if count == 0 { Cell::from("-") } else { Cell::new(value, unit) };
    let lag = |quantile: f64| figure(lags.value_at_quantile(quantile) as f64 / 1e3, Unit::Milliseconds);
    Ok(vec![
        Cell::new(count as f64, Unit::Count),
        Cell::new(measured.per_second(), Unit::Count),
        figure(to_each, Unit::Count),
        figure(to_each * count as f64, Unit::Count),
        lag(0.5),
        lag(0.99),
        lag(1.0),
        Cell::new(micros_each(usage.cpu, measured.operations as f64), Unit::Microseconds),
        figure(delivered as f64 / expected.max(1) as f64, Unit::Ratio),
        Cell::new(usage.elsewhere * 100.0, Unit::Percent),
    ])
}

async fn from_the_beginning(daemon: &Daemon, count: usize) -> Outcome<Vec<Cell>> {
    let expected = daemon.database().events()? * count as u64;
    let before = process::cpu_time(daemon.pid())?;
    let begin = Instant::now();
    let mut readers = JoinSet::new();
    for _ in 0..count {
        let mut stream = subscribe(daemon).await?;
        readers.spawn(async move {
            let mut read = 0;
            while let Some(response) = stream.message().await? {
                read += response.events.len() as u64;
                if response.caught_up {
                    return Ok(read);
                }
            }
            Outcome::Err("the stream ended before its history".into())
        });
    }
    let mut read = 0;
    while let Some(reader) = readers.join_next().await {
        read += reader??;
    }
    if read != expected {
        return Err(format!("history: {read} events came, {expected} are in the log").into());
    }
    let elapsed = begin.elapsed().as_secs_f64();
    let cpu = process::cpu_time(daemon.pid())? - before;
    Ok(vec![
        Cell::new(count as f64, Unit::Count),
        Cell::new(read as f64 / elapsed / count as f64, Unit::Count),
        Cell::new(read as f64 / elapsed, Unit::Count),
        Cell::new(cpu.as_secs_f64() * 1e6 / read.max(1) as f64, Unit::Exact),
    ])
}

/// A subscription to everything, on a connection of its own.
async fn subscribe(daemon: &Daemon) -> Outcome<Streaming<v1::SubscribeResponse>> {
    let channel = Endpoint::from_shared(format!("http://{}", daemon.address))?.connect().await?;
    Ok(EventServiceClient::new(channel).subscribe(v1::SubscribeRequest::default()).await?.into_inner())
}

struct Listener {
    received: AtomicU64,
    /// Microseconds.
    lags: Mutex<Histogram<u64>>,
}

impl Listener {
    async fn listen(&self, mut stream: Streaming<v1::SubscribeResponse>) -> Outcome<()> {
        while let Some(response) = stream.message().await? {
            let Some(oldest) = response.events.first() else { continue };
            let decided = Stamp::decode(oldest.event.clone())?.at_ms;
            let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
            let lag = now.saturating_sub(Duration::from_millis(u64::try_from(decided)?));
            let micros = u64::try_from(lag.as_micros()).unwrap_or(u64::MAX);
            let count = response.events.len() as u64;
            self.lags.lock().unwrap_or_else(PoisonError::into_inner).saturating_record_n(micros, count);
            self.received.fetch_add(count, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// The one field of an event that is looked at; all others are skipped unread.
#[derive(Clone, PartialEq, Message)]
struct Stamp {
    #[prost(int64, tag = "2")]
    at_ms: i64,
}
