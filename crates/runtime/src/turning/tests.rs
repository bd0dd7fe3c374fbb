//! How long everybody waits for a turn.

use std::sync::atomic::AtomicI64;

use capataz_contracts::v1;
use capataz_crew::{Known, Now};
use capataz_engine::{StartRun, Work};
use capataz_policy::codes;
use capataz_shard::{Chosen, StartRequest};
use capataz_store::MemoryStore;
use uuid::Uuid;

use super::*;
use crate::{Options, Runtime};

/// A router that takes its time.
struct Slow(Arc<AtomicI64>);

impl Route for Slow {
    fn route(&self, _: &v1::Ask, _: &v1::SessionContext, _: Option<&str>) -> Chosen {
        self.0.fetch_add(70, Ordering::Relaxed);
        Chosen { target: Err(codes::error(codes::SPEC_NOT_FOUND, "none".to_owned())), default_spec: None }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_lasts_as_long_as_everybody_waits_for_it() {
    let time = Arc::new(AtomicI64::new(1_000));
    let clock = Arc::clone(&time);
    let clock: Clock = Arc::new(move || Now::alike(clock.load(Ordering::Relaxed)));
    let options = Options { clock, ..Options::default() };
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let runtime = Runtime::start(vec![ShardId(0)], store, Known::default(), options).await.unwrap();
    runtime.set_router(Arc::new(Slow(Arc::clone(&time)))).await;
    let ask = v1::Ask { text: "text".to_owned(), ..v1::Ask::default() };
    let start = StartRun { work: Work::Ask(ask), labels: Default::default(), parent: None, lineage: None };
    let start = StartRequest { wait: true, ..StartRequest::new(RunId(Uuid::now_v7()), start) };
    runtime.start_run(start).await.unwrap();
    let routed = time.load(Ordering::Relaxed) - 1_000;
    assert!(routed > LONG_TURN_MS);
    let longest = loop {
        let longest = runtime.desk().lock().unwrap().memory.longest.longest_ms();
        if longest > 0 {
            break longest;
        }
        tokio::task::yield_now().await;
    };
    assert!((70..=routed).contains(&longest), "{longest} of {routed}");
}
