//! What is kept of folded runs, over a log in memory.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use capataz_contracts::v1;
use capataz_engine::{Input, Moment, Plan, RunState, StartRun, Wall, Work, decide, start};
use capataz_shard::journal::load;
use capataz_store::{
    Append, AppendOutcome, Create, Mark, MemoryStore, Millis, RunId, ShardId, ShardWriter, Store,
};

use super::Folds;

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
        Folds { max_bytes, ..Folds::new(Arc::new(self.store.clone())) }
    }

    fn begins(&mut self, number: u128) -> (RunId, RunState) {
        let run = RunId(uuid::Uuid::from_u128(number));
        let task = v1::Task { name: "a".to_owned(), agent: "b".to_owned(), ..Default::default() };
        let wave = v1::Wave { tasks: vec![task], ..Default::default() };
        let mut plan = v1::Plan { name: "p".to_owned(), waves: vec![wave], ..Default::default() };
        Plan::materialise(&mut plan).unwrap();
        let work = StartRun { work: Work::Plan(plan), labels: BTreeMap::new(), parent: None, lineage: None };
        let (state, decision) = start(run.0.as_u64_pair().1, work, Wall(1)).unwrap();
        let create = Create {
            kind: 1,
            name: "p".to_owned(),
            labels: BTreeMap::new(),
            created_at: Millis(1),
            key: None,
        };
        self.append(run, decision, Some(create));
        (run, state)
    }

    fn pauses(&mut self, run: RunId, state: &mut RunState) {
        let input = Input::Pause { request_id: format!("r{}", state.seq()) };
        let decision = decide(state, input, Moment::first(Wall(2))).unwrap();
        self.append(run, decision, None);
    }

    fn append(&mut self, run: RunId, decision: capataz_engine::Decision, create: Option<Create>) {
        let append = Append {
            run,
            first_seq: decision.first_seq,
            count: decision.count,
            events: decision.events,
            create,
            summary: None,
            derived: Vec::new(),
            blobs: Vec::new(),
            rest: None,
            joined: false,
        };
        let outcomes = self.writer.commit(&[append]).unwrap();
        assert!(matches!(outcomes.as_slice(), [AppendOutcome::Committed(_)]));
    }
}

#[test]
fn a_run_that_did_not_move_is_not_folded_again_and_one_that_did_goes_on() {
    let mut log = Log::new();
    let folds = log.folds(1 << 20);
    let (run, mut state) = log.begins(1);
    let first = folds.get(run).unwrap();
    assert!(Arc::ptr_eq(&first, &folds.get(run).unwrap()), "nothing has happened to it");
    log.pauses(run, &mut state);
    let second = folds.get(run).unwrap();
    assert_eq!(second.seq(), first.seq() + 1);
    assert_eq!(*second, load(&log.store, run).unwrap());
    assert_eq!(folds.bytes.load(Ordering::Relaxed), second.bytes(), "the older state is not counted");
}

#[test]
fn what_was_looked_at_longest_ago_is_forgotten_first() {
    let mut log = Log::new();
    let (first, state) = log.begins(1);
    let folds = log.folds(state.bytes() * 8);
    for number in 2..=8 {
        let (run, _) = log.begins(number);
        folds.get(run).unwrap();
        folds.get(first).unwrap();
    }
    let kept = |number| folds.runs.contains_key(&RunId(uuid::Uuid::from_u128(number)));
    log.begins(9);
    folds.get(RunId(uuid::Uuid::from_u128(9))).unwrap();
    assert_eq!((kept(2), kept(3), kept(1), kept(9)), (false, false, true, true));
    let counted: u64 = folds.runs.iter().map(|folded| folded.state.bytes()).sum();
    assert_eq!(folds.bytes.load(Ordering::Relaxed), counted);
    assert!(counted <= folds.max_bytes);
}
