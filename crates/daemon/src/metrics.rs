//! `/metrics`: the daemon in numbers, as Prometheus reads them.
//!
//! What happens is counted where it happens ([`capataz_runtime::Meters`]); here it is only read, together with what can be
//! looked up when somebody asks: sizes, queues, the process. docs/telemetry.md lists every metric, and a test compares.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use capataz_crew::AgentSnapshot;
use capataz_runtime::{Counted, Meters, Numbered, Runtime};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, prometheus_text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use crate::SHARD;
use crate::traces::Counts;

/// Where they are.
const PATH: &str = "/metrics";
/// Agents that have series of their own, those with the most tasks that wait first. The others have one together.
const AGENTS: usize = 90;
/// What those others are called. An agent of this name is told with them.
const OTHERS: &str = "(others)";
/// Characters of a label's value. Agents whose names begin with the same ones are told together.
const LABEL: usize = 128;
/// Those who may wait for their turn to be told.
const SCRAPES: usize = 16;
/// How long the sizes of files are good for.
const SIZES: Duration = Duration::from_secs(60);

/// What is told of one metric.
enum Value {
    Counter(u64),
    /// Seconds, or anything else that is more than whole.
    Amount(f64),
    Gauge(f64),
    /// By the values of one label.
    Counters(&'static str, Vec<(&'static str, u64)>),
    Gauges(&'static str, Vec<(String, f64)>),
    Histogram(Counted),
}

/// A metric: its name, that of a counter without `_total`, what it means, and what it is now.
struct Metric(&'static str, &'static str, Value);

/// Everything that metrics are read from.
pub(crate) struct Metrics {
    runtime: Runtime,
    data_dir: PathBuf,
    traces: Option<Arc<Counts>>,
    blobs: Arc<BlobBytes>,
    /// One at a time is told, for that takes what is known of all agents.
    turn: Semaphore,
    /// Places to wait for that.
    waiting: Semaphore,
}

/// What is told of an agent.
struct AgentLoad {
    name: String,
    workers: u32,
    running: u32,
    queued: u32,
    /// Seconds for which the task has waited that waits longest.
    waiting: f64,
}

/// Bytes of the blobs, as somebody counted them last.
#[derive(Default)]
struct BlobBytes {
    bytes: AtomicU64,
    /// When they were counted; `None` while that was never done.
    counted: Mutex<Option<Instant>>,
    /// Somebody counts.
    is_counting: AtomicBool,
}

/// Serves them.
pub(crate) fn routes(runtime: Runtime, data_dir: PathBuf, traces: Option<Arc<Counts>>) -> Router {
    let metrics = Arc::new(Metrics::new(runtime, data_dir, traces));
    Router::new().route(PATH, get(answer)).with_state(metrics)
}

async fn answer(State(metrics): State<Arc<Metrics>>) -> Response {
    let Some(_turn) = metrics.turn().await else { return StatusCode::SERVICE_UNAVAILABLE.into_response() };
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Read(metrics.read().await)));
    let mut text = String::new();
    match prometheus_text::encode(&mut text, &registry) {
        Ok(()) => ([(header::CONTENT_TYPE, prometheus_text::CONTENT_TYPE)], text).into_response(),
        Err(fmt::Error) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

impl Metrics {
    fn new(runtime: Runtime, data_dir: PathBuf, traces: Option<Arc<Counts>>) -> Self {
        let (turn, waiting) = (Semaphore::new(1), Semaphore::new(SCRAPES));
        Self { runtime, data_dir, traces, blobs: Arc::default(), turn, waiting }
    }

    /// The turn of one who is to be told; `None` where too many wait for theirs already.
    async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        let _waits = self.waiting.try_acquire().ok()?;
        self.turn.acquire().await.ok()
    }

    async fn read(&self) -> Vec<Metric> {
        let mut metrics = of_meters(self.runtime.meters());
        let (agents, store) = tokio::join!(self.of_agents(), self.of_store());
        metrics.extend(agents);
        metrics.extend(self.of_streams());
        metrics.extend(store);
        metrics.extend(self.traces.as_deref().map(|counts| self.of_traces(counts)).into_iter().flatten());
        metrics.extend(of_process());
        metrics
    }

    async fn of_agents(&self) -> Vec<Metric> {
        let mut agents = Vec::new();
        let mut after = None;
        loop {
            // A daemon that is overloaded says nothing of its agents, rather than that there are none.
            let Ok((page, more)) = self.runtime.agents(after.take(), u32::MAX).await else {
                return Vec::new();
            };
            after = page.last().map(|agent| agent.known.agent.name.clone());
            let now = self.runtime.now().mono;
            let seconds = |agent: &AgentSnapshot| {
                agent.waiting_since.map_or(0.0, |since| now.since(since).max(0) as f64 / 1_000.0)
            };
            agents.extend(page.into_iter().map(|agent| AgentLoad {
                workers: agent.workers,
                running: agent.running,
                queued: agent.queued,
                waiting: seconds(&agent),
                name: agent.known.agent.name,
            }));
            if !more || after.is_none() {
                break;
            }
        }
        let workers: u32 = agents.iter().map(|agent| agent.workers).max().unwrap_or_default();
        let (served, known) = (agents.iter().filter(|agent| agent.workers > 0).count(), agents.len());
        let running = agents.iter().fold(0_u64, |sum, agent| sum.saturating_add(agent.running.into()));
        let queued = by_agent(&agents, |agent| f64::from(agent.queued), |sum, more| sum + more);
        let waiting = by_agent(&agents, |agent| agent.waiting, f64::max);
        vec![
            Metric("capataz_agents", "Agents that the daemon knows.", Value::Gauge(known as f64)),
            Metric(
                "capataz_agents_served",
                "Agents that a connected worker serves.",
                Value::Gauge(served as f64),
            ),
            Metric(
                "capataz_agent_workers_max",
                "Connected workers of the agent that has the most of them.",
                Value::Gauge(workers.into()),
            ),
            Metric("capataz_tasks_running", "Tasks that workers have.", Value::Gauge(running as f64)),
            Metric(
                "capataz_agent_queued_tasks",
                "Tasks that wait for a slot of the agent.",
                Value::Gauges("agent", queued),
            ),
            Metric(
                "capataz_agent_waiting_seconds",
                "Seconds for which the task has waited for the agent that waits longest.",
                Value::Gauges("agent", waiting),
            ),
        ]
    }

    fn of_streams(&self) -> Vec<Metric> {
        let (readers, furthest) = self.runtime.meters().readers();
        let newest = self.runtime.newest(SHARD);
        let lag = furthest.map_or(0, |furthest| newest.saturating_sub(furthest));
        vec![
            Metric(
                "capataz_stream_subscribers",
                "Subscribers of all events, the sender of spans included.",
                Value::Gauge(readers as f64),
            ),
            Metric(
                "capataz_stream_lag_appends",
                "Appends that the slowest of these subscribers has not read.",
                Value::Gauge(lag as f64),
            ),
        ]
    }

    async fn of_store(&self) -> Vec<Metric> {
        let size =
            |name: &str| std::fs::metadata(self.data_dir.join(name)).map_or(0, |metadata| metadata.len());
        let mut sizes = vec![
            ("database".to_owned(), size("capataz.db") as f64),
            ("write_ahead_log".to_owned(), size("capataz.db-wal") as f64),
        ];
        sizes.extend(self.blob_bytes().map(|bytes| ("blobs".to_owned(), bytes as f64)));
        let store = Arc::clone(self.runtime.store());
        let bounds = self.runtime.reads().answer(move || store.bounds(SHARD)).await;
        let mut told = vec![Metric(
            "capataz_store_bytes",
            "Bytes on the disk; of blobs, as they were a minute ago at most.",
            Value::Gauges("part", sizes),
        )];
        if let Ok(Ok(bounds)) = bounds {
            told.push(Metric(
                "capataz_log_bytes",
                "Bytes of all events that are kept.",
                Value::Gauge(bounds.bytes as f64),
            ));
        }
        told
    }

    /// What was counted last. Where that is old it is counted again, by one at a time, beside whoever asks.
    fn blob_bytes(&self) -> Option<u64> {
        let counted = *self.blobs.counted.lock().unwrap_or_else(PoisonError::into_inner);
        if counted.is_none_or(|at| at.elapsed() >= SIZES)
            && !self.blobs.is_counting.swap(true, Ordering::AcqRel)
        {
            let (blobs, folder) = (Arc::clone(&self.blobs), self.data_dir.join("blobs"));
            tokio::task::spawn_blocking(move || {
                blobs.bytes.store(bytes_below(&folder), Ordering::Relaxed);
                *blobs.counted.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
                blobs.is_counting.store(false, Ordering::Release);
            });
        }
        counted.map(|_| self.blobs.bytes.load(Ordering::Relaxed))
    }

    fn of_traces(&self, counts: &Counts) -> Vec<Metric> {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let lag = self.runtime.newest(SHARD).saturating_sub(read(&counts.position));
        vec![
            Metric(
                "capataz_trace_spans",
                "Spans of runs that were sent, by what the collector did with them.",
                Value::Counters(
                    "result",
                    vec![("sent", read(&counts.sent)), ("rejected", read(&counts.rejected))],
                ),
            ),
            Metric(
                "capataz_trace_failures",
                "Tries to send spans that did not reach the collector.",
                Value::Counter(read(&counts.failures)),
            ),
            Metric(
                "capataz_trace_appends_removed",
                "Appends that retention had removed before their spans were sent.",
                Value::Counter(read(&counts.removed)),
            ),
            Metric(
                "capataz_trace_appends_damaged",
                "Appends that could not be read, and whose spans are left out.",
                Value::Counter(read(&counts.damaged)),
            ),
            Metric(
                "capataz_trace_lag_appends",
                "Appends whose spans have not arrived.",
                Value::Gauge(lag as f64),
            ),
        ]
    }
}

fn of_meters(meters: &Meters) -> Vec<Metric> {
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let kinds = ["plan", "ask", "script", "pipeline", "mode"];
    let outcomes = ["succeeded", "succeeded_with_failures", "failed", "cancelled", "blocked"];
    let statuses = ["success", "error", "timeout", "cancelled"];
    vec![
        Metric(
            "capataz_runs_accepted",
            "Runs that were accepted, by kind; forks are counted by themselves.",
            Value::Counters("kind", numbered(&meters.accepted, &kinds)),
        ),
        Metric(
            "capataz_runs_forked",
            "Runs that begin as forks of others.",
            Value::Counter(read(&meters.forked)),
        ),
        Metric(
            "capataz_runs_finished",
            "Runs that have ended, by outcome.",
            Value::Counters("outcome", numbered(&meters.finished, &outcomes)),
        ),
        Metric(
            "capataz_runs_unfinished",
            "Runs that have not ended.",
            Value::Gauge(read(&meters.unfinished) as f64),
        ),
        Metric(
            "capataz_run_seconds",
            "From a run's acceptance to its end, by its own clock.",
            Value::Histogram(meters.runs.counted()),
        ),
        Metric(
            "capataz_tasks_settled",
            "Tasks that have ended, by status.",
            Value::Counters("status", numbered(&meters.settled, &statuses)),
        ),
        Metric(
            "capataz_task_seconds",
            "From a task's first lease to its end.",
            Value::Histogram(meters.tasks.counted()),
        ),
        Metric(
            "capataz_attempts_leased",
            "Times that a worker was given a task.",
            Value::Counter(read(&meters.leased)),
        ),
        Metric(
            "capataz_attempts_retried",
            "Attempts that failed and are followed by another one.",
            Value::Counter(read(&meters.retried)),
        ),
        Metric(
            "capataz_leases_lost",
            "Leases that ended because their workers were gone or silent.",
            Value::Counter(read(&meters.leases_lost)),
        ),
        Metric(
            "capataz_child_runs",
            "Tasks that have begun as runs of their own.",
            Value::Counter(read(&meters.children)),
        ),
        Metric(
            "capataz_questions_asked",
            "Questions that people were asked.",
            Value::Counter(read(&meters.questions)),
        ),
        Metric("capataz_events", "Events that became durable.", Value::Counter(read(&meters.events))),
        Metric("capataz_appends", "Appends that became durable.", Value::Counter(read(&meters.appends))),
        Metric(
            "capataz_turn_seconds",
            "How long each turn of the core kept everybody else waiting, without the commits in it.",
            Value::Histogram(meters.turns.counted()),
        ),
        Metric(
            "capataz_commit_seconds",
            "How long the appends that share a commit took to be durable.",
            Value::Histogram(meters.commits.counted()),
        ),
    ]
}

/// The counters that have a name, by the contract's numbers, which begin with 1.
fn numbered(counters: &Numbered, names: &[&'static str]) -> Vec<(&'static str, u64)> {
    let counters = counters.iter().skip(1).map(|counter| counter.load(Ordering::Relaxed));
    names.iter().copied().zip(counters).collect()
}

/// A number for each of the agents of which the most waits, and one for all others together.
fn by_agent(
    agents: &[AgentLoad],
    number: impl Fn(&AgentLoad) -> f64,
    together: impl Fn(f64, f64) -> f64,
) -> Vec<(String, f64)> {
    let mut sorted: Vec<&AgentLoad> = agents.iter().collect();
    // Those that stay at nothing stay in one order, so that no series comes and goes.
    sorted.sort_by(|one, other| other.queued.cmp(&one.queued).then(one.name.cmp(&other.name)));
    let (own, others) = sorted.split_at(sorted.len().min(AGENTS));
    let label = |agent: &AgentLoad| agent.name.chars().take(LABEL).collect::<String>();
    let own = own.iter().map(|agent| (label(agent), number(agent)));
    let others = others.iter().map(|agent| (OTHERS.to_owned(), number(agent)));
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let mut told: Vec<(String, f64)> = Vec::new();
    for (label, number) in own.chain(others) {
        match places.get(&label).and_then(|place| told.get_mut(*place)) {
            Some((_, sum)) => *sum = together(*sum, number),
            None => {
                places.insert(label.clone(), told.len());
                told.push((label, number));
            }
        }
    }
    told
}

/// Bytes of the files in the folders of this folder.
fn bytes_below(folder: &Path) -> u64 {
    let folders = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let files = folders.flat_map(|folder| std::fs::read_dir(folder.path()).into_iter().flatten().flatten());
    files.map(|file| file.metadata().map_or(0, |metadata| metadata.len())).sum()
}

/// What Linux says of this process.
fn of_process() -> Vec<Metric> {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/self/{name}")).unwrap_or_default();
    let pages: f64 = read("statm").split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or_default();
    let stat = read("stat");
    // The name of the program may hold anything, and ends with the last bracket.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let field =
        |place: usize| fields.get(place).and_then(|field| field.parse::<f64>().ok()).unwrap_or_default();
    let ticks = rustix::param::clock_ticks_per_second() as f64;
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    vec![
        Metric(
            "process_resident_memory_bytes",
            "Resident memory.",
            Value::Gauge(pages * rustix::param::page_size() as f64),
        ),
        Metric("process_open_fds", "Open files.", Value::Gauge(open as f64)),
        Metric("process_threads", "Threads.", Value::Gauge(field(17))),
        Metric(
            "process_cpu_seconds",
            "Time of processors that was used.",
            Value::Amount((field(11) + field(12)) / ticks),
        ),
    ]
}

/// Metrics as they were read.
struct Read(Vec<Metric>);

impl fmt::Debug for Read {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.0.iter().map(|Metric(name, ..)| name)).finish()
    }
}

impl Collector for Read {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        for Metric(name, help, value) in &self.0 {
            let kind = match value {
                Value::Counter(_) | Value::Amount(_) | Value::Counters(..) => MetricType::Counter,
                Value::Gauge(_) | Value::Gauges(..) => MetricType::Gauge,
                Value::Histogram(_) => MetricType::Histogram,
            };
            write(encoder.encode_descriptor(name, help.trim_end_matches('.'), None, kind)?, value)?;
        }
        Ok(())
    }
}

fn write(mut encoder: MetricEncoder<'_>, value: &Value) -> Result<(), fmt::Error> {
    match value {
        Value::Counter(count) => encoder.encode_counter::<NoLabelSet, _, u64>(count, None),
        Value::Amount(amount) => encoder.encode_counter::<NoLabelSet, _, u64>(amount, None),
        Value::Gauge(gauge) => encoder.encode_gauge(gauge),
        Value::Counters(label, counts) => counts.iter().try_for_each(|(name, count)| {
            let labels = [(*label, *name)];
            encoder.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(count, None)
        }),
        Value::Gauges(label, gauges) => gauges.iter().try_for_each(|(name, gauge)| {
            let labels = [(*label, name.as_str())];
            encoder.encode_family(&labels)?.encode_gauge(gauge)
        }),
        Value::Histogram(Counted { buckets, sum, count }) => {
            encoder.encode_histogram::<NoLabelSet>(*sum, *count, buckets, None)
        }
    }
}

#[cfg(test)]
mod tests {
    use capataz_crew::Known;
    use capataz_runtime::Options;
    use capataz_store::{MemoryStore, Store};

    use super::*;

    #[track_caller]
    fn check(names: &[(&str, u32)], expected: &[(&str, f64)]) {
        let agents: Vec<AgentLoad> = names
            .iter()
            .map(|(name, queued)| AgentLoad {
                name: (*name).to_owned(),
                workers: 0,
                running: 0,
                queued: *queued,
                waiting: 0.0,
            })
            .collect();
        let told = by_agent(&agents, |agent| f64::from(agent.queued), |one, other| one + other);
        let told: Vec<(&str, f64)> = told.iter().map(|(label, number)| (label.as_str(), *number)).collect();
        assert_eq!(told, expected);
    }

    #[test]
    fn no_two_series_are_equal_whatever_agents_are_called() {
        check(&[("(others)", 2), ("a", 3)], &[("a", 3.0), ("(others)", 2.0)]);
        let names: Vec<String> = (0..AGENTS + 9).map(|number| format!("a{number:03}")).collect();
        let mut agents: Vec<(&str, u32)> = names.iter().map(|name| (name.as_str(), 5)).collect();
        agents.push((OTHERS, 7));
        // One of the ninety is the one that is called so.
        let own = names.iter().take(AGENTS - 1).map(|name| (name.as_str(), 5.0));
        let expected: Vec<(&str, f64)> = [(OTHERS, 7.0 + 5.0 * 10.0)].into_iter().chain(own).collect();
        check(&agents, &expected);
    }

    #[test]
    fn the_value_of_a_label_has_at_most_128_characters() {
        let long = "界".repeat(128);
        let [one, other] = ["1", "2"].map(|end| format!("{long}{end}"));
        check(&[(&one, 4), (&other, 3), ("a", 1)], &[(&long, 7.0), ("a", 1.0)]);
    }

    #[tokio::test]
    async fn metrics_are_told_to_one_at_a_time_and_beyond_those_who_may_wait_nobody_is_kept_waiting() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let runtime = Runtime::start(vec![SHARD], store, Known::default(), Options::default()).await.unwrap();
        let data_dir = tempfile::tempdir().unwrap();
        let metrics = Arc::new(Metrics::new(runtime, data_dir.path().to_owned(), None));
        let scrape = || answer(State(Arc::clone(&metrics)));
        let turn = metrics.turn.acquire().await.unwrap();
        let waiting: Vec<_> = (0..SCRAPES).map(|_| tokio::spawn(scrape())).collect();
        while metrics.waiting.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(scrape().await.status(), StatusCode::SERVICE_UNAVAILABLE);
        drop(turn);
        for told in waiting {
            assert_eq!(told.await.unwrap().status(), StatusCode::OK);
        }
        assert_eq!(scrape().await.status(), StatusCode::OK);
    }
}
