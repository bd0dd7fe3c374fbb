//! What the log says of turns that keep everybody waiting, and of a clock that is set. The log is one for the whole process,
//! so that these tests have a program of their own. Each looks at lines that no other one causes.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::io::{self, Write};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

use capataz_contracts::v1;
use capataz_crew::{Known, Mono, Now};
use capataz_engine::{StartRun, Work};
use capataz_policy::codes;
use capataz_runtime::{Clock, Options, Runtime};
use capataz_shard::{Chosen, Route, StartRequest};
use capataz_store::{MemoryStore, Millis, RunId, ShardId, Store};
use tracing::Level;
use uuid::Uuid;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// What is logged from the first test on that looks at it.
    fn kept() -> &'static Self {
        static KEPT: LazyLock<Log> = LazyLock::new(|| {
            let log = Log::default();
            let to_log = log.clone();
            let lines = tracing_subscriber::fmt().with_max_level(Level::DEBUG).with_ansi(false);
            lines.with_writer(move || to_log.clone()).init();
            log
        });
        &KEPT
    }

    /// The number at the end of each line of this level that says this, in the order of the lines.
    fn numbers(&self, level: Level, said: &str) -> Vec<i64> {
        let log = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let of_level = log.lines().filter(|line| line.split_whitespace().any(|word| word == level.as_str()));
        let lines = of_level.filter(|line| line.contains(said));
        lines.map(|line| line.rsplit_once("_ms=").unwrap().1.parse().unwrap()).collect()
    }
}

/// A router that takes as much time as it is given, once.
#[derive(Default)]
struct Slow {
    time: Arc<AtomicI64>,
    takes_ms: Arc<AtomicI64>,
}

impl Route for Slow {
    fn route(&self, _: &v1::Ask, _: &v1::SessionContext, _: Option<&str>) -> Chosen {
        self.time.fetch_add(self.takes_ms.swap(0, Ordering::Relaxed), Ordering::Relaxed);
        Chosen { target: Err(codes::error(codes::SPEC_NOT_FOUND, "none".to_owned())), default_spec: None }
    }
}

async fn runtime(clock: Clock, router: Slow) -> Runtime {
    let options = Options { clock, ..Options::default() };
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let runtime = Runtime::start(vec![ShardId(0)], store, Known::default(), options).await.unwrap();
    runtime.set_router(Arc::new(router)).await;
    runtime
}

fn ask() -> StartRequest {
    let ask = v1::Ask { text: "text".to_owned(), ..v1::Ask::default() };
    let start = StartRun { work: Work::Ask(ask), labels: Default::default(), parent: None, lineage: None };
    StartRequest { wait: true, ..StartRequest::new(RunId(Uuid::now_v7()), start) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_is_warned_about_where_it_lasted_more_than_50_ms() {
    let log = Log::kept();
    let (time, takes_ms) = (Arc::new(AtomicI64::new(1_000)), Arc::new(AtomicI64::new(0)));
    let clock = Arc::clone(&time);
    let clock: Clock = Arc::new(move || Now::alike(clock.load(Ordering::Relaxed)));
    let runtime = runtime(clock, Slow { time, takes_ms: Arc::clone(&takes_ms) }).await;
    for lasts_ms in [30, 50, 51, 400] {
        takes_ms.store(lasts_ms, Ordering::Relaxed);
        runtime.start_run(ask()).await.unwrap();
        assert_eq!(takes_ms.load(Ordering::Relaxed), 0, "the router has taken its time");
    }
    // What its threads had to say is in the log.
    runtime.stop().await;
    let measured = log.numbers(Level::DEBUG, "one of the two longest turns so far");
    assert_eq!(measured, [30, 50, 51, 400], "the clock stood still but for the router");
    assert_eq!(log.numbers(Level::WARN, "a turn kept everybody waiting"), [51, 400]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_on_the_wall_that_is_set_by_more_than_a_second_is_warned_about_once() {
    const HOUR_MS: i64 = 3_600_000;
    let log = Log::kept();
    let set_by = Arc::new(AtomicI64::new(0));
    let set = Arc::clone(&set_by);
    // The other one stands still.
    let clock: Clock =
        Arc::new(move || Now { wall: Millis(9_000_000 + set.load(Ordering::Relaxed)), mono: Mono(1_000) });
    let runtime = runtime(clock, Slow::default()).await;
    for by_ms in [0, 1_000, HOUR_MS, HOUR_MS, 0, 0] {
        set_by.store(by_ms, Ordering::Relaxed);
        runtime.start_run(ask()).await.unwrap();
    }
    // What its threads had to say is in the log.
    runtime.stop().await;
    assert_eq!(log.numbers(Level::WARN, "the clock on the wall was set"), [HOUR_MS, -HOUR_MS]);
}
