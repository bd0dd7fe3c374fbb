//! What is kept of folded runs, over a log in memory.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use capataz_contracts::v1;
use capataz_engine::{Decision, Input, Moment, Plan, RunState, StartRun, Wall, Work, decide, start};
use capataz_shard::forks::MAX_PAST_BYTES;
use capataz_shard::journal::load;
use capataz_store::builders::{Shape, beginning, continuation};
use capataz_store::{Append, AppendOutcome, Mark, MemoryStore, RunId, ShardId, ShardWriter, Store};

use capataz_runtime::Busy;

use super::{Folds, MAX_WAITING, Unread};

struct Log {
    store: MemoryStore,
    writer: Box<dyn ShardWriter>,
}

impl Log {
    fn new() -> Self {
        let store = MemoryStore::new();
        let writer = store.claim(ShardId(0), Mark(1)).unwrap();
        Self { store, writer }
    }

    fn folds(&self, max_bytes: u64) -> Folds {
        Folds { max_bytes, ..Folds::new(Arc::new(self.store.clone()), Arc::default()) }
    }

    fn begins(&mut self, number: u128) -> (RunId, RunState) {
        let run = RunId(uuid::Uuid::from_u128(number));
        let task = v1::Task { name: "a".to_owned(), agent: "b".to_owned(), ..Default::default() };
        let wave = v1::Wave { tasks: vec![task], ..Default::default() };
        let mut plan = v1::Plan { name: "p".to_owned(), waves: vec![wave], ..Default::default() };
        Plan::materialise(&mut plan).unwrap();
        let work = StartRun { work: Work::Plan(plan), labels: BTreeMap::new(), parent: None, lineage: None };
        let (state, decision) = start(run.0.as_u64_pair().1, work, Wall(1)).unwrap();
        self.append(beginning(run).created_at(1), decision);
        (run, state)
    }

    /// A run whose state is larger than that of one that has just begun.
    fn grows(&mut self, number: u128) -> RunId {
        let (run, mut state) = self.begins(number);
        for _ in 0..50 {
            self.pauses(run, &mut state);
        }
        run
    }

    fn pauses(&mut self, run: RunId, state: &mut RunState) {
        let request_id = format!("r{}", state.seq());
        self.pauses_by(run, state, request_id);
    }

    fn pauses_by(&mut self, run: RunId, state: &mut RunState, request_id: String) {
        let input = Input::Pause { request_id };
        let decision = decide(state, input, Moment::first(Wall(2))).unwrap();
        self.append(continuation(run, decision.first_seq), decision);
    }

    fn append(&mut self, append: Append, decision: Decision) {
        let append = append.count(decision.count).events(decision.events);
        let outcomes = self.writer.commit(&[append]).unwrap();
        assert!(matches!(outcomes.as_slice(), [AppendOutcome::Committed(_)]));
    }
}

#[tokio::test]
async fn a_run_that_did_not_move_is_not_folded_again_and_one_that_did_goes_on() {
    let mut log = Log::new();
    let folds = log.folds(1 << 20);
    let (run, mut state) = log.begins(1);
    let first = folds.get(run).await.unwrap();
    assert!(Arc::ptr_eq(&first.state, &folds.get(run).await.unwrap().state), "nothing has happened to it");
    log.pauses(run, &mut state);
    let second = folds.get(run).await.unwrap();
    assert_eq!(second.seq(), first.seq() + 1);
    assert_eq!(*second.state, load(&log.store, run).unwrap());
    assert_eq!(folds.bytes.load(Ordering::Relaxed), second.bytes(), "the older state is not counted");
    assert!(folds.flights.is_empty(), "nobody reads any more");
}

#[tokio::test]
async fn what_was_looked_at_longest_ago_is_forgotten_first() {
    let mut log = Log::new();
    let (first, state) = log.begins(1);
    let folds = log.folds(state.bytes() * 8);
    for number in 2..=8 {
        let (run, _) = log.begins(number);
        folds.get(run).await.unwrap();
        folds.get(first).await.unwrap();
    }
    let kept = |number| folds.runs.contains_key(&RunId(uuid::Uuid::from_u128(number)));
    log.begins(9);
    folds.get(RunId(uuid::Uuid::from_u128(9))).await.unwrap();
    assert_eq!((kept(2), kept(3), kept(1), kept(9)), (false, false, true, true));
    let counted: u64 = folds.runs.iter().map(|folded| folded.state.bytes()).sum();
    assert_eq!(folds.bytes.load(Ordering::Relaxed), counted);
    assert!(counted <= folds.max_bytes);
}

#[tokio::test]
async fn a_large_run_is_read_once_for_all_who_ask_together_and_kept_for_nobody_else() {
    let mut log = Log::new();
    let (run, mut state) = log.begins(1);
    let folds = Folds { small: 0, ..log.folds(1 << 20) };
    // The first cannot have it before the second has asked.
    let turn = folds.large.acquire().await.unwrap();
    let (first, second, ()) = tokio::join!(folds.get(run), folds.get(run), async { drop(turn) });
    let (first, second) = (first.unwrap(), second.unwrap());
    assert!(Arc::ptr_eq(&first.state, &second.state), "the second has what the first has read");
    assert!(folds.runs.is_empty() && folds.flights.is_empty());
    drop(second);
    assert_eq!(folds.large.available_permits(), 0, "the first still holds it");
    drop(first);
    assert_eq!(folds.large.available_permits(), 1);
    log.pauses(run, &mut state);
    assert_eq!(folds.get(run).await.unwrap().seq(), state.seq());
}

#[tokio::test]
async fn large_runs_are_held_one_at_a_time_and_small_ones_do_not_wait_for_them() {
    let mut log = Log::new();
    let (small, state) = log.begins(1);
    let large: Vec<RunId> = (2..8).map(|number| log.grows(number)).collect();
    let folds = Arc::new(Folds { small: state.bytes(), ..log.folds(1 << 20) });
    let held = folds.get(large[0]).await.unwrap();
    assert_eq!(folds.get(small).await.unwrap().seq(), 2, "while a large one is held");
    drop(held);
    let (at_once, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let readers = large.into_iter().map(|run| {
        let (folds, at_once, most) = (Arc::clone(&folds), Arc::clone(&at_once), Arc::clone(&most));
        tokio::spawn(async move {
            let held = folds.get(run).await.unwrap();
            most.fetch_max(at_once.fetch_add(1, Ordering::AcqRel) + 1, Ordering::AcqRel);
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            at_once.fetch_sub(1, Ordering::AcqRel);
            drop(held);
        })
    });
    for reader in readers.collect::<Vec<_>>() {
        reader.await.unwrap();
    }
    assert_eq!(most.load(Ordering::Acquire), 1);
}

#[tokio::test]
async fn a_run_that_grows_beyond_what_is_small_needs_the_right_to_be_held() {
    let mut log = Log::new();
    let (run, mut state) = log.begins(1);
    let folds = Folds { small: state.bytes(), ..log.folds(1 << 20) };
    drop(folds.get(run).await.unwrap());
    assert_eq!((folds.runs.len(), folds.large.available_permits()), (1, 1));
    for _ in 0..50 {
        log.pauses(run, &mut state);
    }
    assert!(state.bytes() > folds.small, "what was asked for is remembered");
    let held = folds.get(run).await.unwrap();
    assert_eq!((folds.runs.len(), folds.large.available_permits()), (0, 0));
    assert_eq!(folds.bytes.load(Ordering::Relaxed), 0, "what is not kept is not counted");
    drop(held);
}

#[tokio::test]
async fn a_run_is_read_as_it_was_and_folded_again_within_the_bounds_of_all_readers() {
    let mut log = Log::new();
    let (small, state) = log.begins(1);
    let large = log.grows(2);
    let folds = Folds { small: 2 * state.bytes(), ..log.folds(1 << 20) };
    assert_eq!(folds.at(small, 1).await.unwrap().seq(), 1);
    assert_eq!(folds.at(large, 30).await.unwrap().seq(), 30);
    let newest = folds.get(large).await.unwrap().seq();
    assert_eq!(folds.replay(large).await.unwrap().unwrap().events, newest);

    // Somebody holds a large run, and as many as may wait for it do: nobody else gets in line.
    let held = folds.at(large, 30).await.unwrap();
    assert!(held.large.is_some());
    let waiting: Vec<_> = (0..MAX_WAITING).map(|_| folds.waiting.try_acquire().unwrap()).collect();
    assert!(matches!(folds.replay(small).await, Err(Unread::Busy(Busy::Overloaded))));
    assert!(matches!(folds.at(large, 30).await, Err(Unread::Busy(Busy::Overloaded))));
    assert_eq!(folds.at(small, 1).await.unwrap().seq(), 1, "a small one waits for nobody");
    drop(waiting);
    drop(held);
    assert_eq!(folds.replay(small).await.unwrap().unwrap().events, state.seq());
}

#[tokio::test]
async fn a_fork_has_no_more_of_a_run_than_is_copied_at_a_time() {
    let mut log = Log::new();
    let (run, mut state) = log.begins(1);
    let folds = log.folds(1 << 20);
    let begun = state.seq();
    let past = folds.decided_together(run, 1).await.unwrap().unwrap();
    assert_eq!((past.first, past.last), (1, begun), "what a run begins with is decided together");
    assert_eq!(folds.newest_fork(run, 1).await.unwrap(), None);
    let mebibyte = 1 << 20;
    // With the beginning, 32 of these are too much.
    for number in 0..40 {
        log.pauses_by(run, &mut state, format!("{number}{}", "a".repeat(mebibyte)));
    }
    let newest = begun + 31;
    let past = folds.decided_together(run, newest).await.unwrap().unwrap();
    assert_eq!((past.first, past.last), (newest, newest));
    assert!((31 * mebibyte as u64..MAX_PAST_BYTES).contains(&past.bytes), "{past:?}");
    assert_eq!(folds.decided_together(run, newest + 1).await.unwrap(), None);
    assert_eq!(folds.decided_together(run, state.seq()).await.unwrap(), None);
    for at in [newest, newest + 1, state.seq(), u64::MAX] {
        assert_eq!(folds.newest_fork(run, at).await.unwrap(), Some(newest));
    }
    assert_eq!(folds.newest_fork(run, newest - 1).await.unwrap(), Some(newest - 1));
    assert_eq!(folds.large.available_permits(), 1);
}
