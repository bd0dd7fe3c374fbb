//! Sweeps in parts, as a daemon makes them: the shard lets each part go, the writer's queue has its order, and the next one
//! goes on where it has ended.

use std::collections::BTreeSet;
use std::sync::Arc;

use capataz_crew::{Mono, Now};
use capataz_shard::journal::{Errand, Job, Queue, Scribe, Told, Work, errands};
use capataz_shard::projection::{CHILD, child_key};
use capataz_shard::shard::Config;
use capataz_shard::{Ages, Driver, Input, Sweeping};
use capataz_store::builders::{Shape, beginning, everything, keep};
use capataz_store::{
    Append, AppendOutcome, BlobHash, Millis, Retention, RunId, SqliteOptions, SqliteStore, Store, Swept,
};
use tempfile::TempDir;
use uuid::Uuid;

use crate::support::{SHARD, chance};

const HOUR: i64 = 3_600_000;

fn run(number: u64) -> RunId {
    RunId(Uuid::from_u128(u128::from(number)))
}

/// The beginning of a run: one row, with 100 bytes of events.
fn begun(number: u64) -> Append {
    beginning(run(number)).events(vec![0_u8; 100])
}

/// A run of one such row that has ended at this time.
fn ended(number: u64, hours: i64) -> Append {
    begun(number).ended_at(hours * HOUR)
}

/// The same as a later row of its run.
fn later(seq: u64, append: Append) -> Append {
    Append { first_seq: seq, create: None, ..append }
}

/// The same as a child of this run.
fn child_of(parent: u64, append: Append) -> Append {
    append.derives(CHILD, child_key(run(parent)))
}

/// Retention that removes nothing, a part of which has room for everything.
fn nothing() -> Retention {
    Retention { batch: 1_000, ..keep() }
}

/// A shard over the writer and the store of a daemon. What the writer does, and when, the test says.
struct World {
    store: SqliteStore,
    scribe: Scribe,
    queue: Queue,
    core: Driver,
    now: Now,
    _folder: TempDir,
}

impl World {
    /// A daemon that starts when the clock on the wall says this.
    fn new(hours: i64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path(), SqliteOptions::default()).unwrap();
        let mut world = Self {
            scribe: Scribe::new(Arc::new(store.clone()), chance(1)),
            store,
            queue: Queue::default(),
            core: Driver::new(&Config::default(), vec![SHARD]),
            now: Now { wall: Millis(hours * HOUR), mono: Mono(0) },
            _folder: folder,
        };
        world.queue.push(Work::Claim { shard: SHARD, touched: None });
        let Some(Told::Claimed { recovered, .. }) = world.does_all().pop() else { panic!("no claim") };
        world.hears(Input::Recovered { shard: SHARD, recovered });
        world.does_all();
        world
    }

    /// Somebody sets the clock on the wall by so many hours.
    fn sets_clock(&mut self, hours: i64) {
        self.now.wall.0 += hours * HOUR;
    }

    fn passes(&mut self, hours: i64) {
        self.now.wall.0 += hours * HOUR;
        self.now.mono = self.now.mono.plus(hours * HOUR);
    }

    /// What the clock on the wall says, in hours.
    fn wall(&self) -> i64 {
        self.now.wall.0 / HOUR
    }

    fn hears(&mut self, input: Input) {
        let mut outputs = Vec::new();
        self.core.handle(self.now, input, &mut outputs);
        for errand in errands(outputs.into_iter()) {
            if let Errand::Write(work) = errand {
                self.queue.push(work);
            }
        }
    }

    fn does(&mut self, job: Job) -> Vec<Told> {
        let mut told = Vec::new();
        self.scribe.carry_out(job, &mut told);
        told
    }

    /// The writer does all that waits.
    fn does_all(&mut self) -> Vec<Told> {
        let mut told = Vec::new();
        while let Some(job) = self.queue.next(usize::MAX) {
            told.extend(self.does(job));
        }
        told
    }

    /// The writer does a commit of which nothing is refused.
    #[track_caller]
    fn commits(&mut self, job: Job) {
        let told = self.does(job);
        let [Told::Committed { outcomes, .. }] = told.as_slice() else { panic!("{told:?}") };
        let is_committed = |outcome: &AppendOutcome| matches!(outcome, AppendOutcome::Committed(_));
        assert!(outcomes.iter().all(is_committed), "{outcomes:?}");
    }

    #[track_caller]
    fn has(&mut self, appends: impl IntoIterator<Item = Append>) {
        self.commits(Job::Commit(appends.into_iter().map(|append| (SHARD, append)).collect()));
    }

    /// Somebody wants the next part of a sweep, which then waits for the writer.
    fn wants_part(&mut self, sweeping: &Sweeping, ages: Ages) {
        let retention = Box::new(sweeping.part().clone());
        self.hears(Input::Sweep { shard: SHARD, retention, ages });
    }

    /// The writer has told that the part has ended.
    #[track_caller]
    fn part_ends(&mut self, told: &[Told]) -> Swept {
        let [Told::Swept { swept: Ok(swept), .. }] = told else { panic!("{told:?}") };
        self.hears(Input::Swept { shard: SHARD });
        *swept
    }

    /// One part of a sweep, and whether another one follows.
    #[track_caller]
    fn part(&mut self, sweeping: &mut Sweeping, ages: Ages) -> (Swept, bool) {
        self.wants_part(sweeping, ages);
        let told = self.does_all();
        let swept = self.part_ends(&told);
        (swept, sweeping.goes_on(&swept))
    }

    /// All parts that follow, until nothing is due.
    #[track_caller]
    fn rest(&mut self, sweeping: &mut Sweeping, ages: Ages) -> Vec<Swept> {
        let mut parts = Vec::new();
        loop {
            let (swept, goes_on) = self.part(sweeping, ages);
            parts.push(swept);
            if !goes_on {
                return parts;
            }
            assert!(parts.len() < 100, "the sweep has no end");
        }
    }

    #[track_caller]
    fn sweeps(&mut self, rule: &Retention, ages: Ages) -> Vec<Swept> {
        self.rest(&mut Sweeping::new(rule.clone()), ages)
    }

    /// The runs that somebody finds.
    fn there(&self) -> BTreeSet<RunId> {
        self.store.list_runs(&everything()).unwrap().into_iter().map(|row| row.run).collect()
    }

    /// The bytes of the log.
    fn bytes(&self) -> u64 {
        self.store.bounds(SHARD).unwrap().bytes
    }
}

/// How many runs each of the parts has removed.
fn runs(parts: &[Swept]) -> Vec<u64> {
    parts.iter().map(|swept| swept.runs).collect()
}

#[test]
fn a_commit_that_comes_while_a_large_run_is_removed_has_its_turn_before_the_next_part() {
    let mut world = World::new(50);
    // It has six rows, and each part has room for one.
    world.has([begun(1)]);
    world.has((2..=5).map(|seq| later(seq, begun(1))));
    world.has([later(6, ended(1, 10))]);
    let rule = Retention { finished_before: Some(Millis(40 * HOUR)), batch_bytes: 1, ..nothing() };
    let mut sweeping = Sweeping::new(rule);
    world.wants_part(&sweeping, Ages::default());
    // The last part looks again from the beginning on, and finds nothing.
    for (part, left) in (1..).zip([500, 400, 300, 200, 100, 0, 0]) {
        let job = world.queue.next(usize::MAX).unwrap();
        assert!(matches!(&job, Job::Other(Work::Sweep { .. })), "{job:?}");
        // The writer is at it when the commit comes, and the next part is wanted as soon as this one has ended.
        world.queue.push(Work::Append(vec![(SHARD, begun(100 + part))]));
        let told = world.does(job);
        let swept = world.part_ends(&told);
        let goes_on = sweeping.goes_on(&swept);
        assert_eq!(goes_on, part < 7, "after part {part}");
        if goes_on {
            world.wants_part(&sweeping, Ages::default());
        }
        let job = world.queue.next(usize::MAX).unwrap();
        assert!(matches!(&job, Job::Commit(appends) if appends.len() == 1), "{job:?}");
        world.commits(job);
        let others: BTreeSet<RunId> = (1..=part).map(|number| run(100 + number)).collect();
        assert_eq!(world.there(), others, "after part {part}");
        assert_eq!(world.bytes(), left + 100 * part, "after part {part}");
    }
    assert!(world.queue.is_empty());
}

#[test]
fn a_log_that_grows_by_more_than_a_part_between_sweeps_is_within_its_limit_after_each() {
    let mut world = World::new(50);
    // There is room for 150 runs, and not for one more.
    let rule = Retention { max_log_bytes: Some(15_050), batch: 256, ..nothing() };
    // Whoever ends later has the smaller id: the end counts.
    let of = |number: u64| 10_000 - number;
    for round in 0..5 {
        let first = 600 * round;
        world.has((first..first + 600).map(|number| ended(of(number), number.cast_signed())));
        let parts = runs(&world.sweeps(&rule, Ages::default()));
        let expected = if round == 0 { vec![256, 194, 0] } else { vec![256, 256, 88, 0] };
        assert_eq!(parts, expected, "round {round}");
        assert_eq!(world.bytes(), 15_000, "round {round}");
        let newest: BTreeSet<RunId> = (first + 450..first + 600).map(|number| run(of(number))).collect();
        assert_eq!(world.there(), newest, "round {round}");
    }
}

#[test]
fn more_blobs_than_a_part_removes_all_go_but_for_those_that_are_young_or_named() {
    let by_number = (7, u64::MAX, vec![7, 7, 6, 0]);
    let by_bytes = (100, 600, vec![6, 6, 6, 2, 0]);
    for (batch, batch_bytes, expected) in [by_number, by_bytes] {
        let mut world = World::new(1_000);
        let put = |world: &World, content: u8, hours: i64| {
            world.store.put_blob(&[content; 100], Millis(hours * HOUR)).unwrap()
        };
        // Those that stay are the oldest of all, and would have their turn first.
        let named: Vec<BlobHash> = (100..103).map(|content| put(&world, content, 5)).collect();
        let loose: Vec<BlobHash> = (0..20).map(|content| put(&world, content, 10)).collect();
        let young: Vec<BlobHash> = (200..202).map(|content| put(&world, content, 950)).collect();
        world.has([
            Append { blobs: named[..1].to_vec(), ..begun(1) },
            Append { blobs: named[1..].to_vec(), ..ended(2, 10) },
        ]);
        let rule = Retention { batch, batch_bytes, ..nothing() };
        let ages = Ages { blobs: Some(100 * HOUR), ..Ages::default() };
        let parts: Vec<u64> = world.sweeps(&rule, ages).iter().map(|swept| swept.blobs).collect();
        assert_eq!(parts, expected);
        let size = |blob: &BlobHash| world.store.blob_size(*blob).unwrap();
        assert!(loose.iter().all(|blob| size(blob).is_none()));
        assert!(named.iter().chain(&young).all(|blob| size(blob) == Some(100)));
        assert_eq!(world.there(), BTreeSet::from([run(1), run(2)]));
    }
}

#[test]
fn a_run_that_ends_behind_the_place_where_a_sweep_goes_on_is_met_by_its_next_round() {
    // By the clock on the wall, it ends before all others, between two that are gone, and after all others.
    for by in [-45, -35, 0, 1_000] {
        let mut world = World::new(50);
        world.has([ended(1, 10), ended(2, 20), ended(3, 30), ended(4, 40)]);
        let mut sweeping = Sweeping::new(Retention { max_log_bytes: Some(0), looked_at: 2, ..nothing() });
        let (swept, goes_on) = world.part(&mut sweeping, Ages::default());
        let place = Some((Millis(20 * HOUR), run(2)));
        assert_eq!((swept.runs, swept.next, goes_on), (2, place, true));
        assert_eq!(sweeping.part().after, place);
        world.sets_clock(by);
        world.has([ended(5, world.wall())]);
        assert_eq!(runs(&world.rest(&mut sweeping, Ages::default())), [2, 1, 0], "set by {by} hours");
        assert_eq!(world.there(), BTreeSet::new(), "set by {by} hours");
    }
}

#[test]
fn a_run_that_nobody_needs_any_more_behind_the_place_of_a_sweep_is_met_by_the_next_round() {
    // A sweep that has removed nothing has no other round: then it is the next sweep's.
    for (by, first, second) in [(-45, 0, 2), (0, 2, 0), (1_000, 2, 0)] {
        let mut world = World::new(50);
        world.has([begun(3), begun(4), child_of(3, ended(1, 10)), child_of(4, ended(2, 20))]);
        let rule = Retention { max_log_bytes: Some(0), looked_at: 1, ..nothing() };
        let mut sweeping = Sweeping::new(rule.clone());
        let (swept, goes_on) = world.part(&mut sweeping, Ages::default());
        let place = Some((Millis(10 * HOUR), run(1)));
        assert_eq!((swept.runs, swept.next, goes_on), (0, place, true), "its parent may ask for it");
        world.sets_clock(by);
        world.has([later(2, ended(3, world.wall()))]);
        let removed = |parts: &[Swept]| runs(parts).into_iter().sum::<u64>();
        let rest = world.rest(&mut sweeping, Ages::default());
        assert_eq!(removed(&rest), first, "set by {by} hours");
        let next = world.sweeps(&rule, Ages::default());
        assert_eq!(removed(&next), second, "set by {by} hours");
        assert_eq!(world.there(), BTreeSet::from([run(2), run(4)]), "set by {by} hours");
    }
}

#[test]
fn a_clock_that_is_set_between_two_parts_of_a_sweep_hides_no_old_run_from_those_that_follow() {
    // What goes in the parts that are left, when the clock is right again, 100 hours later, and 996 hours after that.
    let back = (-995, [vec![0, 0], vec![0], vec![1, 1, 1, 0], vec![0]]);
    let forward = (995, [vec![1, 1, 0], vec![0], vec![0], vec![1, 0]]);
    for (by, expected) in [back, forward] {
        let mut world = World::new(1_000);
        world.has([ended(1, 10), ended(2, 20), ended(3, 30)]);
        let rule = Retention { looked_at: 1, ..nothing() };
        let ages = Ages { finished_runs: Some(100 * HOUR), ..Ages::default() };
        let mut sweeping = Sweeping::new(rule.clone());
        let (swept, goes_on) = world.part(&mut sweeping, ages);
        let place = Some((Millis(10 * HOUR), run(1)));
        assert_eq!((swept.runs, swept.next, goes_on), (1, place, true));
        // By the clock on the wall, this one ends behind that place or long after now.
        world.sets_clock(by);
        world.has([ended(4, world.wall())]);
        let left = runs(&world.rest(&mut sweeping, ages));
        world.sets_clock(-by);
        let right = runs(&world.sweeps(&rule, ages));
        assert!(world.there().contains(&run(4)), "it has only just ended");
        world.passes(100);
        let soon = runs(&world.sweeps(&rule, ages));
        world.passes(996);
        let at_last = runs(&world.sweeps(&rule, ages));
        assert_eq!([left, right, soon, at_last], expected, "set by {by} hours");
        assert_eq!(world.there(), BTreeSet::new(), "set by {by} hours");
    }
}

#[test]
fn a_clock_that_was_set_is_written_down_at_once_and_one_that_goes_on_is_not() {
    let mut world = World::new(50);
    world.passes(1);
    world.hears(Input::Wake);
    assert!(world.queue.is_empty());
    world.sets_clock(100);
    world.hears(Input::Wake);
    let job = world.queue.next(usize::MAX).unwrap();
    assert!(matches!(&job, Job::Other(Work::Readings { .. })), "{job:?}");
    assert!(world.queue.is_empty());
}
