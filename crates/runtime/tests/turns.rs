//! What the log says of turns that keep everybody waiting. The log is one for the whole process, so that this test has a
//! program of its own.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::io::{self, Write};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use capataz_contracts::v1;
use capataz_crew::{Known, Now};
use capataz_engine::{StartRun, Work};
use capataz_policy::codes;
use capataz_runtime::{Clock, Options, Runtime};
use capataz_shard::{Chosen, Route, StartRequest};
use capataz_store::{MemoryStore, RunId, ShardId, Store};
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
    /// How long the turns lasted of which a line of this level says this, in the order in which they ended.
    fn turns(&self, level: Level, said: &str) -> Vec<i64> {
        let log = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let of_level = log.lines().filter(|line| line.split_whitespace().any(|word| word == level.as_str()));
        let lines = of_level.filter(|line| line.contains(said));
        lines.map(|line| line.rsplit_once("lasted_ms=").unwrap().1.parse().unwrap()).collect()
    }
}

/// A router that takes as much time as it is given, once.
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

fn ask() -> StartRequest {
    let ask = v1::Ask { text: "text".to_owned(), ..v1::Ask::default() };
    let start = StartRun { work: Work::Ask(ask), labels: Default::default(), parent: None, lineage: None };
    StartRequest { wait: true, ..StartRequest::new(RunId(Uuid::now_v7()), start) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_is_warned_about_where_it_lasted_more_than_50_ms() {
    let log = Log::default();
    let to_log = log.clone();
    let lines = tracing_subscriber::fmt().with_max_level(Level::DEBUG).with_ansi(false);
    lines.with_writer(move || to_log.clone()).init();
    let (time, takes_ms) = (Arc::new(AtomicI64::new(1_000)), Arc::new(AtomicI64::new(0)));
    let clock = Arc::clone(&time);
    let clock: Clock = Arc::new(move || Now::alike(clock.load(Ordering::Relaxed)));
    let options = Options { clock, ..Options::default() };
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let runtime = Runtime::start(vec![ShardId(0)], store, Known::default(), options).await.unwrap();
    runtime.set_router(Arc::new(Slow { time, takes_ms: Arc::clone(&takes_ms) })).await;
    for lasts_ms in [30, 50, 51, 400] {
        takes_ms.store(lasts_ms, Ordering::Relaxed);
        runtime.start_run(ask()).await.unwrap();
        assert_eq!(takes_ms.load(Ordering::Relaxed), 0, "the router has taken its time");
    }
    // What its threads had to say is in the log.
    runtime.stop().await;
    let measured = log.turns(Level::DEBUG, "one of the two longest turns so far");
    assert_eq!(measured, [30, 50, 51, 400], "the clock stood still but for the router");
    assert_eq!(log.turns(Level::WARN, "a turn kept everybody waiting"), [51, 400]);
}
