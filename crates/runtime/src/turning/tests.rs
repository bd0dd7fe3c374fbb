//! How long everybody waits for a turn, and what waits for the disk.

use std::sync::atomic::AtomicI64;

use bytes::Bytes;
use capataz_contracts::v1;
use capataz_crew::{Known, KnownAgent, Now};
use capataz_engine::{Plan, StartRun, Work};
use capataz_policy::codes;
use capataz_shard::{Chosen, Declined, StartReply, StartRequest};
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

/// A run whose only task has this input, and waits for a worker.
fn with_input(input: &Bytes) -> StartRequest {
    let data = Some(v1::payload::Data::Inline(input.clone()));
    let input = Some(v1::Payload { media_type: "text/plain".to_owned(), data });
    let task = v1::Task { name: "t".to_owned(), agent: "a".to_owned(), input, ..v1::Task::default() };
    let wave = v1::Wave { tasks: vec![task], ..v1::Wave::default() };
    let mut plan = v1::Plan { name: "p".to_owned(), waves: vec![wave], ..v1::Plan::default() };
    Plan::materialise(&mut plan).unwrap();
    let start = StartRun { work: Work::Plan(plan), labels: Default::default(), parent: None, lineage: None };
    StartRequest::new(RunId(Uuid::now_v7()), start)
}

/// Waits until the shards' thread has taken a turn that began after the call: if it takes what waits, it has.
async fn another_turn(runtime: &Runtime) {
    let turns = || runtime.meters().turns.counted().count;
    // One may be going on.
    let enough = turns() + 2;
    while turns() < enough {
        runtime.desk().sooner.notify_one();
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_while_the_disk_stands_still_has_a_bound_in_bytes_and_begins_when_it_goes_on() {
    /// What waits for the disk, and what waits for the shard, in MiB (docs/limits.md). Each run has a bit more than one.
    const BOUND: usize = 64 + 32;
    let agent = v1::Agent { name: "a".to_owned(), ..v1::Agent::default() };
    let agent = KnownAgent { agent, source: v1::AgentSource::Declared, last_seen: None };
    let known = Known { agents: vec![agent], ..Known::default() };
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let runtime = Runtime::start(vec![ShardId(0)], store, known, Options::default()).await.unwrap();
    // As long as more is about to come, the writer's thread makes all commits.
    let _more = runtime.gather();
    let scribe = runtime.desk().lock().unwrap().writer.scribe();
    let (stands, stood) = std::sync::mpsc::channel();
    let (goes_on, went_on) = std::sync::mpsc::channel::<()>();
    let disk = std::thread::spawn(move || {
        let _busy = scribe.lock().unwrap();
        stands.send(()).unwrap();
        // It goes on as well where the test has failed.
        let _ = went_on.recv();
    });
    stood.recv().unwrap();

    let input = Bytes::from(vec![b'x'; 1024 * 1024]);
    let (mut under_way, mut refused) = (Vec::new(), 0);
    while refused < 3 && under_way.len() <= BOUND {
        let mut starting = Box::pin({
            let (runtime, start) = (runtime.clone(), with_input(&input));
            async move { runtime.start_run(start).await }
        });
        let answer = tokio::select! {
            biased;
            answer = &mut starting => Some(answer),
            () = std::future::ready(()) => None,
        };
        match answer {
            None => under_way.push(starting),
            Some(Err(Declined::Overloaded { .. })) => refused += 1,
            Some(answer) => panic!("{answer:?}"),
        }
        another_turn(&runtime).await;
    }
    assert_eq!(under_way.len(), BOUND);

    drop(goes_on);
    disk.join().unwrap();
    for starting in under_way {
        let answer = tokio::time::timeout(Duration::from_secs(60), starting).await.unwrap();
        assert!(matches!(answer, Ok(StartReply::Started { .. })), "{answer:?}");
    }
    let answer = runtime.start_run(with_input(&input)).await;
    assert!(matches!(answer, Ok(StartReply::Started { .. })), "{answer:?}");
}
