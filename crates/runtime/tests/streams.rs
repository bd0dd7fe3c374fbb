//! Streams beside retention: what is kept is delivered, what is removed is told, and a cursor stays good.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use capataz_contracts::v1;
use capataz_crew::{Known, KnownAgent, Mono, Now};
use capataz_engine::{Input, Plan, StartRun, Work};
use capataz_runtime::{CursorError, Item, News, Options, Runtime, Subscription};
use capataz_shard::feed::{Begin, Filter, Placed, Unservable};
use capataz_shard::{Ages, CommandReply, StartReply, StartRequest};
use capataz_store::builders::keep;
use capataz_store::{MemoryStore, Millis, Position, Retention, RunId, ShardId, Store, Swept};
use uuid::Uuid;

const SHARD: ShardId = ShardId(0);

async fn runtime(store: &MemoryStore, options: Options) -> Runtime {
    let agent = v1::Agent { name: "a".to_owned(), ..Default::default() };
    let agent = KnownAgent { agent, source: v1::AgentSource::Declared, last_seen: None };
    let store: Arc<dyn Store> = Arc::new(store.clone());
    let known = Known { agents: vec![agent], ..Known::default() };
    Runtime::start(vec![SHARD], store, known, options).await.unwrap()
}

/// Starts a run that nobody works on.
async fn begin(runtime: &Runtime) -> RunId {
    let task = v1::Task { name: "t".to_owned(), agent: "a".to_owned(), ..Default::default() };
    let wave = v1::Wave { tasks: vec![task], ..Default::default() };
    let mut plan = v1::Plan { name: "p".to_owned(), waves: vec![wave], ..Default::default() };
    Plan::materialise(&mut plan).unwrap();
    let start = StartRun { work: Work::Plan(plan), labels: Default::default(), parent: None, lineage: None };
    match runtime.start_run(StartRequest::new(RunId(Uuid::now_v7()), start)).await {
        Ok(StartReply::Started { run }) => run,
        other => panic!("{other:?}"),
    }
}

async fn end(runtime: &Runtime, run: RunId) {
    let cancel = Input::Cancel { reason: String::new(), force: true, request_id: format!("end {run}") };
    let done = runtime.command(run, None, cancel).await;
    assert!(matches!(done, Ok(CommandReply::Done { .. })), "{done:?}");
}

async fn ended(runtime: &Runtime) -> RunId {
    let run = begin(runtime).await;
    end(runtime, run).await;
    run
}

/// Lets everything go that has finished.
fn all() -> Retention {
    Retention { finished_before: Some(Millis(i64::MAX)), batch: 2, ..keep() }
}

async fn subscribe(runtime: &Runtime, filter: Filter, begin: Begin) -> Result<Subscription, CursorError> {
    Subscription::begin(runtime, SHARD, filter, begin, 1, News::None).await
}

fn of(run: RunId) -> Filter {
    Filter { run: Some(run), ..Filter::default() }
}

/// The events up to the end of the log, each with its run, its number and the cursor behind it.
async fn read(subscription: &mut Subscription) -> Vec<(RunId, u64, Placed)> {
    let mut events = Vec::new();
    loop {
        let Ok(Item::Step(step, _)) = subscription.next(false).await else { panic!("no step") };
        let placed = subscription.marks();
        for delivered in step.events {
            let event = <v1::Event as prost::Message>::decode(delivered.event).unwrap();
            events.push((delivered.run, event.seq, placed(delivered.cursor)));
        }
        if step.at_end {
            return events;
        }
    }
}

async fn refused(runtime: &Runtime, filter: Filter, cursor: Placed) -> Placed {
    match subscribe(runtime, filter, Begin::After(cursor)).await {
        Err(CursorError::Unservable(Unservable::TooOld { works })) => works,
        other => panic!("{other:?}"),
    }
}

fn numbers(events: &[(RunId, u64, Placed)], run: RunId) -> Vec<u64> {
    assert!(events.iter().all(|(of, ..)| *of == run), "{events:?}");
    events.iter().map(|(_, seq, _)| *seq).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_kept_is_delivered_after_a_sweep_from_the_beginning_and_from_every_cursor() {
    let store = MemoryStore::new();
    // What was removed is in memory no more.
    let runtime = runtime(&store, Options { ring_bytes: 1, ..Options::default() }).await;
    let kept = begin(&runtime).await;
    ended(&runtime).await;
    assert_eq!(runtime.sweep(SHARD, all(), Ages::default()).await.unwrap().runs, 1);
    let last = store.get_run(kept).unwrap().unwrap().last_seq;
    let first: Vec<u64> = (1..=last).collect();
    assert!(first.len() >= 2);
    // The run that was removed had the newest position.
    for filter in [of(kept), Filter::default()] {
        let events = read(&mut subscribe(&runtime, filter.clone(), Begin::Oldest).await.unwrap()).await;
        assert_eq!(numbers(&events, kept), first);
        for (index, (_, _, cursor)) in events.iter().enumerate() {
            let mut resumed = subscribe(&runtime, filter.clone(), Begin::After(*cursor)).await.unwrap();
            assert_eq!(numbers(&read(&mut resumed).await, kept), first[index + 1..]);
        }
    }
    let beginning =
        read(&mut subscribe(&runtime, Filter::default(), Begin::Oldest).await.unwrap()).await[0].2;
    let of_run = read(&mut subscribe(&runtime, of(kept), Begin::Oldest).await.unwrap()).await;
    ended(&runtime).await;
    assert_eq!(runtime.sweep(SHARD, all(), Ages::default()).await.unwrap().runs, 1);
    // Something was removed behind a cursor: it is told, and what works gives what is left without repeating anything.
    let works = refused(&runtime, Filter::default(), beginning).await;
    let mut resumed = subscribe(&runtime, Filter::default(), Begin::After(works)).await.unwrap();
    assert_eq!(numbers(&read(&mut resumed).await, kept), first[1..]);
    // Of a run that is there nothing is missing, whatever else was removed.
    end(&runtime, kept).await;
    let whole = read(&mut subscribe(&runtime, of(kept), Begin::Oldest).await.unwrap()).await;
    let whole = numbers(&whole, kept);
    assert!(whole.len() > of_run.len());
    for (index, (_, _, cursor)) in of_run.iter().enumerate() {
        let mut resumed = subscribe(&runtime, of(kept), Begin::After(*cursor)).await.unwrap();
        assert_eq!(numbers(&read(&mut resumed).await, kept), whole[index + 1..]);
    }
}

/// The cursor of the next step, which has no events.
async fn quiet(subscription: &mut Subscription) -> Placed {
    match subscription.next(true).await {
        Ok(Item::Step(step, cursor)) => {
            assert!(step.is_empty(), "{step:?}");
            subscription.marks()(cursor)
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscriber_that_gets_nothing_has_a_cursor_that_works_after_every_sweep() {
    let store = MemoryStore::new();
    // Time alone would never tell it.
    let beat = Duration::from_secs(100_000);
    let runtime = runtime(&store, Options { beat, ..Options::default() }).await;
    let severe = Filter { min_severity: i32::MAX, ..Filter::default() };
    let mut subscription = subscribe(&runtime, severe.clone(), Begin::Oldest).await.unwrap();
    assert_eq!(read(&mut subscription).await, []);
    let mut earlier: Option<Placed> = None;
    for _ in 0..3 {
        ended(&runtime).await;
        assert_eq!(runtime.sweep(SHARD, all(), Ages::default()).await.unwrap().runs, 1);
        let cursor = quiet(&mut subscription).await;
        subscribe(&runtime, severe.clone(), Begin::After(cursor)).await.unwrap();
        if let Some(earlier) = earlier.replace(cursor) {
            refused(&runtime, severe.clone(), earlier).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscriber_that_waits_for_a_label_is_told_by_every_sweep_how_far_the_log_is() {
    let store = MemoryStore::new();
    // Time alone would never tell it.
    let beat = Duration::from_secs(100_000);
    let runtime = runtime(&store, Options { beat, ..Options::default() }).await;
    let labels = BTreeMap::from([("team".to_owned(), "red".to_owned())]);
    let red = Filter { labels, ..Filter::default() };
    let mut subscription = subscribe(&runtime, red.clone(), Begin::Oldest).await.unwrap();
    assert_eq!(read(&mut subscription).await, []);
    let mut earlier: Option<Placed> = None;
    for _ in 0..3 {
        // It waits already when the run begins, which has no such label and wakes it not.
        let (cursor, newest) = tokio::join!(quiet(&mut subscription), async {
            ended(&runtime).await;
            let newest = store.bounds(SHARD).unwrap().newest;
            assert_eq!(runtime.sweep(SHARD, all(), Ages::default()).await.unwrap().runs, 1);
            newest
        });
        assert_eq!(cursor.cursor.position, newest);
        subscribe(&runtime, red.clone(), Begin::After(cursor)).await.unwrap();
        if let Some(earlier) = earlier.replace(cursor) {
            refused(&runtime, red.clone(), earlier).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscriber_that_is_woken_in_vain_is_told_after_so_many_positions_how_far_the_log_is() {
    let store = MemoryStore::new();
    // Neither time nor a sweep would ever tell it.
    let beat = Duration::from_secs(100_000);
    let runtime = runtime(&store, Options { beat, ..Options::default() }).await;
    let severe = Filter { min_severity: i32::MAX, ..Filter::default() };
    let mut subscription = subscribe(&runtime, severe.clone(), Begin::Oldest).await.unwrap();
    assert_eq!(read(&mut subscription).await, []);
    let mut told = Box::pin(quiet(&mut subscription));
    let mut runs = 0;
    let cursor = loop {
        tokio::select! {
            biased;
            cursor = &mut told => break cursor,
            _ = ended(&runtime) => {
                runs += 1;
                assert!(runs < 10_000, "it is told nothing");
            }
        }
    };
    // A run that is ended at once has two positions at least.
    assert!(cursor.cursor.position >= Position(4_096), "{cursor:?}");
    subscribe(&runtime, severe, Begin::After(cursor)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscriber_that_gets_nothing_is_told_now_and_then_how_far_the_log_is() {
    let store = MemoryStore::new();
    let runtime = runtime(&store, Options { beat: Duration::from_millis(1), ..Options::default() }).await;
    let labels = BTreeMap::from([("team".to_owned(), "red".to_owned())]);
    let red = Filter { labels, ..Filter::default() };
    let mut subscription = subscribe(&runtime, red.clone(), Begin::Oldest).await.unwrap();
    assert_eq!(read(&mut subscription).await, []);
    for _ in 0..3 {
        ended(&runtime).await;
        let newest = store.bounds(SHARD).unwrap().newest;
        let cursor = loop {
            let cursor = quiet(&mut subscription).await;
            if cursor.cursor.position >= newest {
                break cursor;
            }
        };
        assert_eq!(runtime.sweep(SHARD, all(), Ages::default()).await.unwrap().runs, 1);
        subscribe(&runtime, red.clone(), Begin::After(cursor)).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscriber_that_is_slower_than_retention_is_told_what_it_has_missed() {
    let store = MemoryStore::new();
    let runtime = runtime(&store, Options { ring_bytes: 1, ..Options::default() }).await;
    let kept = begin(&runtime).await;
    let removed = ended(&runtime).await;
    let last = begin(&runtime).await;
    let mut subscription = subscribe(&runtime, Filter::default(), Begin::Oldest).await.unwrap();
    let Ok(Item::Step(step, _)) = subscription.next(false).await else { panic!("no step") };
    assert_eq!(step.events.iter().map(|event| event.run).collect::<Vec<_>>(), [kept]);
    assert_eq!(runtime.sweep(SHARD, all(), Ages::default()).await.unwrap().runs, 1);
    let works = loop {
        match subscription.next(false).await {
            Ok(Item::Step(step, _)) => assert!(step.events.iter().all(|event| event.run == kept)),
            Ok(Item::Missed(Unservable::TooOld { works })) => break works,
            other => panic!("{other:?}, and events of {removed} are missing"),
        }
    };
    let mut resumed = subscribe(&runtime, Filter::default(), Begin::After(works)).await.unwrap();
    let rest = read(&mut resumed).await;
    let newest = store.get_run(last).unwrap().unwrap().last_seq;
    assert_eq!(rest.iter().filter(|(run, ..)| *run == last).count() as u64, newest);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_goes_on_until_nothing_is_due() {
    let store = MemoryStore::new();
    let runtime = runtime(&store, Options::default()).await;
    let kept = begin(&runtime).await;
    for _ in 0..7 {
        ended(&runtime).await;
    }
    let swept = runtime.sweep_all(SHARD, &all(), Ages::default()).await.unwrap();
    assert_eq!((swept.runs, swept.keys, swept.blobs), (7, 0, 0));
    assert_eq!(runtime.sweep_all(SHARD, &all(), Ages::default()).await.unwrap(), Swept::default());
    for number in 0..5u8 {
        store.put_blob(&[number], Millis(10)).unwrap();
    }
    let blobs = Retention { finished_before: None, blobs_before: Millis(11), ..all() };
    assert_eq!(runtime.sweep_all(SHARD, &blobs, Ages::default()).await.unwrap().blobs, 5);
    assert!(store.get_run(kept).unwrap().is_some());
    // Keeping below a size works at any rate as well.
    for _ in 0..5 {
        ended(&runtime).await;
    }
    let size = Retention { finished_before: None, max_log_bytes: Some(0), ..all() };
    assert_eq!(runtime.sweep_all(SHARD, &size, Ages::default()).await.unwrap().runs, 5);
    // Runs that have to stay, more than one sweep looks at, are not in the way of those after them.
    let mut stays = BTreeSet::new();
    for _ in 0..5 {
        stays.insert(ended(&runtime).await);
    }
    for _ in 0..4 {
        ended(&runtime).await;
    }
    let few = Retention { keep: stays.clone(), looked_at: 2, ..all() };
    assert_eq!(runtime.sweep_all(SHARD, &few, Ages::default()).await.unwrap().runs, 4);
    assert!(stays.iter().all(|run| store.get_run(*run).unwrap().is_some()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_jumps_by_days_makes_nothing_old() {
    const DAY: i64 = 24 * 60 * 60 * 1_000;
    let clock = Arc::new(Mutex::new(Now { wall: Millis(1_000 * DAY), mono: Mono(0) }));
    let passes = |wall: i64, mono: i64| {
        let mut now = clock.lock().unwrap();
        *now = Now { wall: Millis(now.wall.0 + wall), mono: now.mono.plus(mono) };
    };
    let read = Arc::clone(&clock);
    let options = Options { clock: Arc::new(move || *read.lock().unwrap()), ..Options::default() };
    let store = MemoryStore::new();
    let runtime = runtime(&store, options).await;
    let of_age = Retention { finished_before: None, ..all() };
    let ages = Ages { finished_runs: Some(30 * DAY), ..Ages::default() };
    let sweep = || runtime.sweep_all(SHARD, &of_age, ages);
    ended(&runtime).await;
    passes(40 * DAY, 0);
    assert_eq!((sweep().await.unwrap(), runtime.behind_ms()), (Swept::default(), 40 * DAY));
    passes(-80 * DAY, 0);
    // By its own time, this one is 40 days old as soon as the clock is right again.
    ended(&runtime).await;
    passes(40 * DAY, 0);
    assert_eq!((sweep().await.unwrap(), runtime.behind_ms()), (Swept::default(), 10 * DAY));
    passes(30 * DAY, 30 * DAY);
    assert_eq!((sweep().await.unwrap().runs, runtime.behind_ms()), (1, 0));
    passes(1, 1);
    assert_eq!((sweep().await.unwrap().runs, runtime.behind_ms()), (1, 0));
}
