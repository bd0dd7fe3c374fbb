//! Rows that follow from logs: what a shard writes is what follows, what somebody changes is told, and made again.

use bytes::Bytes;
use capataz_contracts::v1;
use capataz_crew::Now;
use capataz_engine::Input as Ask;
use capataz_shard::journal::Damage;
use capataz_shard::projection::{CHILD, child_key};
use capataz_shard::rebuild::{self, Told, Totals};
use capataz_shard::shard::Config;
use capataz_shard::{Driver, Input, Output, ReplyId, Request};
use capataz_store::{
    Derived, Mark, MemoryStore, Millis, Place, Position, Quarantine, QuarantineReason, RunId, ShardWriter,
    Store,
};
use uuid::Uuid;

use crate::support::{SHARD, claim, knows, one_task, run, start};

const AGENT: &str = "a";
const FIRST: Place = Place { seq: 1, n: 0 };

/// A core over a disk that takes everything at once.
struct World {
    store: MemoryStore,
    writer: Box<dyn ShardWriter>,
    core: Driver,
    next: u64,
}

impl World {
    fn new() -> Self {
        let store = MemoryStore::new();
        let (writer, recovered) = claim(&store, 1);
        let core = Driver::new(&Config::default(), vec![SHARD]);
        let mut world = Self { store, writer, core, next: 0 };
        world.hears(knows(AGENT));
        world.hears(recovered);
        world
    }

    fn hears(&mut self, input: Input) {
        let mut outputs = Vec::new();
        self.core.handle(Now::alike(1_000_000), input, &mut outputs);
        let appends = outputs.into_iter().filter_map(|output| match output {
            Output::Append { append, .. } => Some(append),
            _ => None,
        });
        let appends: Vec<_> = appends.collect();
        if !appends.is_empty() {
            let outcomes = self.writer.commit(&appends).unwrap();
            self.hears(Input::Committed { shard: SHARD, outcomes });
        }
    }

    fn asks(&mut self, request: Request) {
        self.next += 1;
        self.hears(Input::Request { reply: ReplyId(self.next), request });
    }

    /// A run whose one task waits for a worker.
    fn starts(&mut self, parent: Option<RunId>) -> RunId {
        let run = run(7_000 + u128::from(self.next));
        let mut start = start(run, one_task(AGENT));
        start.start.parent =
            parent.map(|run| v1::ParentRef { run_id: run.to_string(), ..Default::default() });
        self.asks(Request::Start(Box::new(start)));
        run
    }

    fn commands(&mut self, run: RunId, input: Ask) {
        self.asks(Request::Command { run, if_seq: None, input: Box::new(input) });
    }

    /// A parent that waits for a person, a child that is in work, and one that has ended.
    fn family() -> (Self, [RunId; 3]) {
        let mut world = Self::new();
        let parent = world.starts(None);
        let runs = [parent, world.starts(Some(parent)), world.starts(Some(parent))];
        world.commands(parent, Ask::Pause { request_id: "pause".to_owned() });
        world.commands(
            runs[2],
            Ask::Cancel { reason: String::new(), force: true, request_id: "cancel".to_owned() },
        );
        (world, runs)
    }

    fn children(&self, parent: RunId) -> Vec<RunId> {
        let rows = self.store.derived(CHILD, &child_key(parent), None, usize::MAX).unwrap();
        rows.into_iter()
            .map(|found| found.row)
            .for_each(|row| assert_eq!((row.place, row.value), (FIRST, Bytes::new())));
        let rows = self.store.derived(CHILD, &child_key(parent), None, usize::MAX).unwrap();
        rows.into_iter().map(|found| found.run).collect()
    }
}

/// What is told of a store: the columns that differ, and the runs that are left alone.
#[derive(Debug, Default, PartialEq)]
struct Heard {
    differences: Vec<(RunId, String)>,
    left: Vec<Damage>,
    totals: Totals,
}

fn hear(work: impl FnOnce(&mut dyn FnMut(Told<'_>)) -> Totals) -> Heard {
    let mut heard = Heard::default();
    heard.totals = {
        let (differences, left) = (&mut heard.differences, &mut heard.left);
        work(&mut |told| match told {
            Told::Differs(difference) => differences.push((difference.run, difference.column.clone())),
            Told::LeftAlone(damage) => left.push(damage.clone()),
            Told::Progress(_) => {}
        })
    };
    heard
}

fn check(store: &MemoryStore) -> Heard {
    hear(|tell| rebuild::check(store, &[SHARD], tell).unwrap())
}

fn mend(store: &MemoryStore) -> Heard {
    hear(|tell| rebuild::rebuild(store, SHARD, &mut || Mark(77), tell).unwrap())
}

#[track_caller]
fn is_clean(store: &MemoryStore, runs: u64) {
    assert_eq!(check(store), Heard { totals: Totals { runs, ..Totals::default() }, ..Heard::default() });
}

#[test]
fn what_a_shard_writes_is_what_follows_from_its_log() {
    let (world, [parent, one, other]) = World::family();
    assert_eq!(world.children(parent), [one, other]);
    assert_eq!(world.children(one), []);
    assert_eq!(world.store.derived_of(parent, None, usize::MAX).unwrap(), []);
    assert!(world.core.rests(parent) && !world.core.rests(one));
    is_clean(&world.store, 3);
    let history = world.store.history(SHARD).unwrap();
    assert_eq!(mend(&world.store), check(&world.store), "there is nothing to do");
    assert_eq!(world.store.history(SHARD).unwrap(), history, "the shard is not claimed for nothing");
}

#[test]
fn rows_that_were_changed_are_told_by_their_columns_and_made_again() {
    let (world, [parent, one, other]) = World::family();
    let (store, before) = (
        &world.store,
        world.store.list_runs(&capataz_store::RunQuery { limit: 9, ..Default::default() }).unwrap(),
    );
    assert!(store.disturb(parent, |row| row.summary.tasks_total += 1));
    assert!(store.disturb(one, |row| row.last_seq += 4));
    assert!(store.disturb(other, |row| {
        row.summary.finished_at = None;
        row.summary.status = 1;
    }));
    store.disturb_derived(one, FIRST, None);
    let wrong = Derived { place: FIRST, kind: CHILD, key: child_key(one), value: Bytes::new() };
    store.disturb_derived(other, FIRST, Some(wrong.clone()));
    let second = Place { seq: 1, n: 1 };
    store.disturb_derived(other, second, Some(Derived { place: second, ..wrong.clone() }));
    let gone = RunId(Uuid::from_u128(99));
    store.disturb_derived(gone, FIRST, Some(wrong));
    let expected: Vec<(RunId, String)> = [
        (other, "status"),
        (other, "finished_at"),
        (other, "derived row 1.0"),
        (other, "derived row 1.1"),
        (one, "last_seq"),
        (one, "derived row 1.0"),
        (parent, "tasks_total"),
        (gone, "derived rows"),
    ]
    .map(|(run, column)| (run, column.to_owned()))
    .into();
    let checked = check(store);
    assert_eq!(checked.differences, expected);
    assert_eq!(checked.totals, Totals { runs: 4, differing: 4, left: 0, mended: 0 });
    assert_eq!(check(store), checked, "a check changes nothing");

    let mended = mend(store);
    assert_eq!(mended.differences, expected);
    assert_eq!(mended.totals, Totals { mended: 4, ..checked.totals });
    is_clean(store, 3);
    assert_eq!(store.list_runs(&capataz_store::RunQuery { limit: 9, ..Default::default() }).unwrap(), before);
    assert_eq!(world.children(parent), [one, other]);
}

#[test]
fn a_run_that_seems_to_rest_and_has_something_in_work_is_looked_at_again() {
    let (mut world, [parent, one, _]) = World::family();
    let row = world.store.get_run(one).unwrap().unwrap();
    let rests = |world: &World, run| {
        let unfinished = world.store.unfinished(SHARD, None, usize::MAX).unwrap();
        unfinished.into_iter().find(|unfinished| unfinished.run == run).unwrap().rest
    };
    assert!(rests(&world, parent).is_some());
    let asleep = capataz_store::Mended {
        run: one,
        last_seq: row.last_seq,
        summary: row.summary,
        rest: Some(capataz_store::Rest::ON_INPUT),
        derived: world.store.derived_of(one, None, usize::MAX).unwrap(),
        memory: Vec::new(),
    };
    world.writer.mend(&[asleep]).unwrap();
    assert_eq!(mend(&world.store).differences, [(one, "rest".to_owned())]);
    assert_eq!(rests(&world, one), None);
    assert!(rests(&world, parent).is_some(), "what may rest rests");
}

#[test]
fn a_run_of_which_nothing_is_known_is_named_and_left_as_it_is() {
    let (mut world, [parent, one, other]) = World::family();
    let rows = world.store.read_run(one, 0, 9, usize::MAX).unwrap();
    assert!(world.store.damage(SHARD, rows[0].position));
    let quarantine = Quarantine {
        reason: QuarantineReason::Panicked,
        seq: 2,
        position: Some(Position(1)),
        detail: "a panic".to_owned(),
        at: Millis(1),
    };
    world.writer.quarantine(other, &quarantine).unwrap();
    for run in [parent, one, other] {
        assert!(world.store.disturb(run, |row| row.summary.tasks_settled += 9));
    }
    let heard = mend(&world.store);
    assert_eq!(heard.differences, [(parent, "tasks_settled".to_owned())]);
    let left: Vec<_> = heard.left.iter().map(|damage| (damage.run, damage.reason)).collect();
    assert_eq!(left, [(other, QuarantineReason::Panicked), (one, QuarantineReason::Damaged)]);
    assert_eq!(heard.totals, Totals { runs: 3, differing: 1, left: 2, mended: 1 });
    for run in [one, other] {
        assert!(world.store.get_run(run).unwrap().unwrap().summary.tasks_settled >= 9);
        assert_eq!(world.store.derived_of(run, None, 9).unwrap().len(), 1);
    }
}

#[test]
fn many_runs_are_written_again_in_bounded_transactions_and_whoever_was_stopped_goes_on() {
    const RUNS: u64 = 700;
    let mut world = World::new();
    let parent = world.starts(None);
    let children: Vec<RunId> = (1..RUNS).map(|_| world.starts(Some(parent))).collect();
    for run in &children {
        world.store.disturb_derived(*run, FIRST, None);
    }
    // Another one takes the shard when some of it is done.
    let (mut claims, store) = (0, world.store.clone());
    let mut mended = Vec::new();
    let stopped = rebuild::rebuild(&world.store, SHARD, &mut || Mark(50), &mut |told| {
        if let Told::Progress(totals) = told {
            mended.push(totals.mended);
            if totals.mended > 300 && claims == 0 {
                claims += 1;
                store.claim(SHARD, Mark(60)).unwrap();
            }
        }
    });
    assert!(stopped.is_err());
    mended.dedup();
    assert!(mended.windows(2).all(|pair| pair[1] - pair[0] <= 128), "{mended:?}");
    let done = *mended.last().unwrap();
    assert!(done > 300 && done < RUNS - 1, "{done}");
    let again = mend(&world.store);
    assert_eq!(
        again.totals,
        Totals { runs: RUNS, differing: RUNS - 1 - done, left: 0, mended: RUNS - 1 - done }
    );
    is_clean(&world.store, RUNS);
    assert_eq!(world.children(parent), children);
}
