//! Runs and sessions that cannot be read or worked on: they are in quarantine, and nothing else stops.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use capataz_contracts::v1;
use capataz_crew::Now;
use capataz_engine::{self as engine, Work};
use capataz_shard::feed::{Cursor, Filter, Reader, Start};
use capataz_shard::journal::{
    self, Chance, Errand, Job, Queue, Scribe, Told, Work as Writing, errands, go_on, take_up_session,
};
use capataz_shard::shard::Config;
use capataz_shard::{
    Ages, Answer, CommandReply, Damage, Declined, Driver, Input, LoadError, Output, ReplyId, Request,
    StartReply, StartRequest, find, session_stream,
};
use capataz_store::builders::{Shape, beginning, keep};
use capataz_store::sqlite::DATABASE_FILE;
use capataz_store::{
    AppendOutcome, IdempotencyKey, Mark, MemoryStore, Millis, Position, Quarantine, QuarantineReason,
    Removal, Retention, RunId, SqliteOptions, SqliteStore, Store, StoreError,
};

use crate::snapshots::{creation, of_run};
use crate::support::{SHARD, Sage, chance, one_task, run, start};

/// The time at which everything happens.
const NOW: i64 = 1_000;

/// A daemon whose disk does at once what it is told.
struct World {
    store: MemoryStore,
    marks: Arc<AtomicU32>,
    scribe: Scribe,
    core: Driver,
    /// What the core is told next, and what the disk has to do.
    inbox: VecDeque<Input>,
    queue: Queue,
    replies: BTreeMap<u64, Answer>,
    /// Appends of this run do not fit its log.
    conflicting: Option<RunId>,
    restarts: usize,
    next_reply: u64,
}

fn scribe(store: &MemoryStore, marks: &Arc<AtomicU32>) -> Scribe {
    let marks = Arc::clone(marks);
    let chance = Chance {
        draw: Box::new(move || Mark(marks.fetch_add(1, Ordering::Relaxed))),
        wall: Box::new(|| Millis(NOW)),
    };
    Scribe::new(Arc::new(store.clone()), chance)
}

impl World {
    fn new() -> Self {
        let (store, marks) = (MemoryStore::new(), Arc::new(AtomicU32::new(1)));
        let mut world = Self {
            scribe: scribe(&store, &marks),
            store,
            marks,
            core: Driver::new(&Config::default(), vec![SHARD]),
            inbox: VecDeque::new(),
            queue: Queue::default(),
            replies: BTreeMap::new(),
            conflicting: None,
            restarts: 0,
            next_reply: 0,
        };
        world.restart();
        world
    }

    /// Another daemon begins on what the disk holds.
    fn restart(&mut self) {
        self.scribe = scribe(&self.store, &self.marks);
        self.core = Driver::new(&Config::default(), vec![SHARD]);
        self.writes(Writing::Claim { shard: SHARD, touched: None });
        self.goes_on();
    }

    fn hears(&mut self, input: Input) {
        self.inbox.push_back(input);
        self.goes_on();
    }

    fn writes(&mut self, work: Writing) {
        self.restarts += usize::from(matches!(work, Writing::Claim { .. }));
        self.queue.push(work);
    }

    /// Does all that there is to do, in order.
    fn goes_on(&mut self) {
        loop {
            while let Some(job) = self.queue.next(usize::MAX) {
                for told in self.carries_out(job) {
                    self.inbox.extend(match told {
                        Told::Committed { shard, outcomes } => Some(Input::Committed { shard, outcomes }),
                        Told::Claimed { shard, recovered, .. } => Some(Input::Recovered { shard, recovered }),
                        Told::Quarantined { .. } => None,
                        Told::Swept { shard, .. } => Some(Input::Swept { shard }),
                        Told::Removed { reply, run, removal, .. } => {
                            Some(Input::Removed { reply, run, removal })
                        }
                        other => panic!("{other:?}"),
                    });
                }
            }
            let Some(input) = self.inbox.pop_front() else { return };
            let mut outputs = Vec::new();
            self.core.handle(Now::alike(NOW), input, &mut outputs);
            for errand in errands(outputs.into_iter()) {
                match errand {
                    Errand::Write(work) => self.writes(work),
                    Errand::Leave(output) => self.leaves(output),
                }
            }
        }
    }

    fn carries_out(&mut self, job: Job) -> Vec<Told> {
        let mut told = Vec::new();
        let Job::Commit(appends) = job else {
            self.scribe.carry_out(job, &mut told);
            return told;
        };
        let conflicting = self.conflicting;
        let refused: Vec<bool> = appends.iter().map(|(_, append)| Some(append.run) == conflicting).collect();
        let fitting = appends.into_iter().zip(&refused).filter(|(_, refused)| !**refused);
        self.scribe.carry_out(Job::Commit(fitting.map(|(append, _)| append).collect()), &mut told);
        let committed = told.into_iter().flat_map(|told| match told {
            Told::Committed { outcomes, .. } => outcomes,
            other => panic!("{other:?}"),
        });
        let mut committed = committed.collect::<Vec<_>>().into_iter();
        let outcomes = refused.into_iter().map(|refused| match refused {
            true => AppendOutcome::Conflict,
            false => committed.next().unwrap(),
        });
        vec![Told::Committed { shard: SHARD, outcomes: outcomes.collect() }]
    }

    fn leaves(&mut self, output: Output) {
        match output {
            Output::Reply { reply, answer } => {
                self.replies.insert(reply.0, answer);
            }
            Output::LoadSession { stream, load } => {
                let state = match take_up_session(&self.store, stream) {
                    Ok(state) => Ok(state.map(Box::new)),
                    Err(LoadError::Damaged(damage)) => Err(damage),
                    Err(LoadError::Store(error)) => panic!("{error}"),
                };
                self.inbox.push_back(Input::SessionLoaded { stream, load, state });
            }
            Output::LoadRun { run, load } => {
                let state = match journal::load(&self.store, run) {
                    Ok(state) => Ok(Some(Box::new(state))),
                    Err(LoadError::Damaged(damage)) => Err(damage),
                    Err(LoadError::Store(error)) => panic!("{error}"),
                };
                self.inbox.push_back(Input::RunLoaded { run, load, state });
            }
            Output::Query { run, query, asked } => {
                let Some((ask, context)) = self.core.asks_for(run) else { return };
                let answer = find(&Sage, ask, context, asked).unwrap();
                self.inbox.push_back(Input::Answered { run, query, answer });
            }
            _ => {}
        }
    }

    fn asks_for(&mut self, request: Request) -> Option<Answer> {
        self.next_reply += 1;
        let reply = self.next_reply;
        self.hears(Input::Request { reply: ReplyId(reply), request });
        self.replies.remove(&reply)
    }

    /// The answer; `None` where it is still to come.
    fn try_start(&mut self, run: RunId, work: Work, wait: bool) -> Option<Answer> {
        let key = IdempotencyKey { key: format!("key of {run}").into(), request: [1; 32] };
        let request = StartRequest { agents: BTreeSet::new(), key: Some(key), wait, ..start(run, work) };
        self.asks_for(Request::Start(Box::new(request)))
    }

    #[track_caller]
    fn starts(&mut self, number: u128, work: Work) -> RunId {
        let run = run(number);
        let answer = self.try_start(run, work, false);
        assert!(matches!(answer, Some(Answer::Start(Ok(StartReply::Started { .. })))), "{answer:?}");
        run
    }

    #[track_caller]
    fn deletes(&mut self, run: RunId) -> Removal {
        match self.asks_for(Request::Delete { run }) {
            Some(Answer::Deleted(Ok(removal))) => removal,
            other => panic!("{other:?}"),
        }
    }

    /// Has the run tried again.
    #[track_caller]
    fn releases(&mut self, run: RunId) {
        let answer = self.asks_for(Request::Release { run });
        assert!(matches!(answer, Some(Answer::Released(Ok(())))), "{answer:?}");
    }

    /// Retention removes everything that it may.
    fn sweeps(&mut self) {
        let retention = Box::new(Retention { finished_before: Some(Millis(i64::MAX)), ..keep() });
        self.hears(Input::Sweep { shard: SHARD, retention, ages: Ages::default() });
    }

    fn pause(&mut self, run: RunId) -> Result<CommandReply, Declined> {
        let request_id = format!("pause {}", self.next_reply);
        self.command(run, engine::Input::Pause { request_id })
    }

    fn resume(&mut self, run: RunId) -> Result<CommandReply, Declined> {
        let request_id = format!("resume {}", self.next_reply);
        self.command(run, engine::Input::Resume { request_id })
    }

    fn command(&mut self, run: RunId, input: engine::Input) -> Result<CommandReply, Declined> {
        match self.asks_for(Request::Command { run, if_seq: None, input: Box::new(input) }) {
            Some(Answer::Command(reply)) => reply,
            other => panic!("{other:?}"),
        }
    }

    fn cancel(&mut self, run: RunId) {
        let input =
            engine::Input::Cancel { reason: "enough".to_owned(), force: true, request_id: "c".to_owned() };
        assert!(matches!(self.command(run, input), Ok(CommandReply::Done { .. })));
        assert!(self.core.run(run).is_none(), "it has finished");
    }

    /// The position of each of the run's rows.
    fn positions(&self, run: RunId) -> Vec<Position> {
        let rows = self.store.read_run(run, 0, usize::MAX, usize::MAX).unwrap();
        rows.into_iter().map(|row| row.position).collect()
    }

    fn damage(&self, position: Position) {
        assert!(self.store.damage(SHARD, position));
    }

    fn quarantine(&self, run: RunId) -> Option<Quarantine> {
        self.store.get_run(run).unwrap().unwrap().quarantine
    }

    #[track_caller]
    fn check_works(&mut self, run: RunId) {
        assert_eq!(self.quarantine(run), None);
        let paused = self.pause(run);
        assert!(matches!(paused, Ok(CommandReply::Done { .. })), "{paused:?}");
        let resumed = self.resume(run);
        assert!(matches!(resumed, Ok(CommandReply::Done { .. })), "{resumed:?}");
    }

    #[track_caller]
    fn check_quarantined(&mut self, run: RunId, reason: QuarantineReason) -> Quarantine {
        assert!(self.core.run(run).is_none());
        assert!(matches!(self.pause(run), Ok(CommandReply::NotActive { .. })));
        let quarantine = self.quarantine(run).unwrap();
        assert_eq!(quarantine.reason, reason);
        quarantine
    }
}

fn plan() -> Work {
    one_task("a")
}

/// An ask that waits for its agent, or one that ends at once.
fn ask(session: Option<&str>, waits: bool) -> Work {
    Work::Ask(v1::Ask {
        text: "text".to_owned(),
        session: session.map(str::to_owned),
        request_id: Some("r".to_owned()),
        spec: waits.then(|| "sage".to_owned()),
        ..v1::Ask::default()
    })
}

fn script() -> Work {
    let script = v1::Script { name: "s".to_owned(), interactive: true, ..v1::Script::default() };
    Work::Script(Box::new(script))
}

#[track_caller]
fn check_damaged(declined: Option<Declined>, run: RunId, reason: QuarantineReason) -> Damage {
    match declined {
        Some(Declined::Damaged(damage)) if (damage.run, damage.reason) == (run, reason) => *damage,
        other => panic!("{other:?} is not said of {run}"),
    }
}

#[test]
fn a_damaged_run_is_skipped_and_released_when_it_is_whole_again() {
    for (kind, work) in [("plan", plan()), ("ask", ask(None, true)), ("script", script())] {
        for row in [0, 1] {
            let mut world = World::new();
            let (bad, good) = (world.starts(1, work.clone()), world.starts(2, plan()));
            world.check_works(bad);
            let rows = world.store.read_run(bad, 0, usize::MAX, usize::MAX).unwrap();
            let (position, whole) = (rows[row].position, rows[row].first_seq - 1);
            world.damage(position);
            for _ in 0..2 {
                world.restart();
                let quarantine = world.check_quarantined(bad, QuarantineReason::Damaged);
                assert_eq!(quarantine.position, Some(position), "{kind}");
                assert_eq!(quarantine.at, Millis(NOW));
                assert_eq!(quarantine.seq, whole, "{kind}");
                world.check_works(good);
            }
            world.damage(position);
            world.restart();
            world.check_works(bad);
            world.check_works(good);
        }
    }
}

#[test]
fn a_quarantine_stays_as_it_was_put_down_until_its_run_is_damaged_elsewhere() {
    let mut world = World::new();
    let bad = world.starts(1, plan());
    // Its events 1 and 2 are one row, and the other two are one each.
    world.check_works(bad);
    let rows = world.positions(bad);
    let [first, _, last] = rows[..] else { panic!("{rows:?}") };
    let claimed = |mark, at| {
        let wall = Box::new(move || Millis(at));
        let mut chance = Chance { draw: Box::new(move || Mark(mark)), wall };
        drop(journal::claim(&world.store, SHARD, &mut chance).unwrap());
        world.quarantine(bad).unwrap()
    };
    world.damage(last);
    let late = claimed(101, 5_000);
    assert_eq!((late.seq, late.position, late.at), (3, Some(last), Millis(5_000)));
    assert_eq!(claimed(102, 6_000), late, "it was known before");
    world.damage(first);
    let early = claimed(103, 7_000);
    assert_eq!((early.seq, early.position, early.at), (0, Some(first), Millis(7_000)));
}

/// A run that waits for a person is not read by a claim: who wants something of it finds that it is damaged.
#[test]
fn a_resting_run_that_is_damaged_is_quarantined_when_something_is_wanted_of_it() {
    let mut world = World::new();
    let (bad, good) = (world.starts(1, plan()), world.starts(2, plan()));
    for run in [bad, good] {
        world.pause(run).unwrap();
        assert!(world.core.rests(run));
    }
    let position = *world.positions(bad).first().unwrap();
    world.damage(position);
    world.restart();
    assert!(world.core.rests(bad) && world.core.rests(good));
    let damage = check_damaged(world.resume(bad).err(), bad, QuarantineReason::Damaged);
    assert_eq!((damage.seq, damage.position), (0, Some(position)));
    for _ in 0..2 {
        world.check_quarantined(bad, QuarantineReason::Damaged);
        assert!(!world.core.rests(bad) && world.core.rests(good));
        world.restart();
    }
    assert!(matches!(world.resume(good), Ok(CommandReply::Done { .. })));
    world.damage(position);
    world.restart();
    assert!(world.core.rests(bad));
    assert!(matches!(world.resume(bad), Ok(CommandReply::Done { .. })));
    world.check_works(bad);
}

#[test]
fn a_finished_run_that_a_reader_found_damaged_is_released_when_it_is_whole_again() {
    let mut world = World::new();
    let (bad, works) = (world.starts(1, plan()), world.starts(2, plan()));
    let rests = world.starts(3, plan());
    world.cancel(bad);
    world.pause(rests).unwrap();
    let find = |world: &World, run| match go_on(&world.store, run, None) {
        Err(LoadError::Damaged(damage)) => damage,
        other => panic!("{other:?}"),
    };
    for run in [bad, works, rests] {
        let first = *world.positions(run).first().unwrap();
        world.damage(first);
        let damage = find(&world, run);
        assert_eq!((damage.seq, damage.position), (0, Some(first)));
        world.hears(Input::FoundDamaged(damage));
    }
    world.check_quarantined(bad, QuarantineReason::Damaged);
    // What is in work has its state in memory; the next claim finds what is wrong with its log.
    assert!(world.core.run(works).is_some() && world.quarantine(works).is_none());
    world.check_quarantined(rests, QuarantineReason::Damaged);
    world.restart();
    for run in [bad, works, rests] {
        world.check_quarantined(run, QuarantineReason::Damaged);
        world.damage(*world.positions(run).first().unwrap());
    }
    world.restart();
    assert_eq!(world.quarantine(bad), None);
    world.check_works(works);
}

#[test]
fn a_session_that_is_damaged_takes_its_asks_with_it_and_no_others() {
    let mut world = World::new();
    let stream = session_stream("talk");
    world.starts(1, ask(Some("talk"), false));
    world.starts(2, ask(Some("other"), false));
    let (bad, good) = (world.starts(3, ask(Some("talk"), true)), world.starts(4, ask(Some("other"), true)));
    let position = *world.positions(stream).first().unwrap();
    world.damage(position);
    world.restart();
    assert_eq!(world.quarantine(stream).unwrap().reason, QuarantineReason::Damaged);
    assert_eq!(world.check_quarantined(bad, QuarantineReason::Damaged).position, Some(position));
    world.check_works(good);

    // The first that asks finds the session damaged, and whoever comes after that is told so at once.
    let (found, told) = (run(5), run(6));
    let answer = world.try_start(found, ask(Some("talk"), true), true);
    let Some(Answer::Start(answer)) = answer else { panic!("{answer:?}") };
    check_damaged(answer.err(), found, QuarantineReason::Damaged);
    world.check_quarantined(found, QuarantineReason::Damaged);
    let answer = world.try_start(told, ask(Some("talk"), true), true);
    let Some(Answer::Start(answer)) = answer else { panic!("{answer:?}") };
    check_damaged(answer.err(), stream, QuarantineReason::Damaged);
    assert_eq!(world.store.get_run(told).unwrap(), None, "nothing was written");
    let transition = Request::AcceptTransition { session: "talk".to_owned(), request_id: "r".to_owned() };
    let Some(Answer::Transition(answer)) = world.asks_for(transition) else { panic!("no answer") };
    check_damaged(answer.err(), stream, QuarantineReason::Damaged);
    assert!(world.core.run(good).is_some());

    world.damage(position);
    world.restart();
    for run in [stream, bad, found, good] {
        assert_eq!(world.quarantine(run), None);
    }
    assert!([bad, found, good].iter().all(|run| world.core.run(*run).is_some()));
}

#[test]
fn the_session_of_a_quarantined_ask_outlives_every_sweep_until_the_ask_has_ended() {
    let mut world = World::new();
    let stream = session_stream("talk");
    let earlier = world.starts(1, ask(Some("talk"), false));
    world.starts(2, ask(Some("other"), false));
    let bad = world.starts(3, ask(Some("talk"), true));
    let position = *world.positions(bad).last().unwrap();
    world.damage(position);
    world.restart();
    world.check_quarantined(bad, QuarantineReason::Damaged);
    let said = world.positions(stream);
    world.sweeps();
    assert_eq!(world.positions(stream), said, "the ask goes on in it");
    for gone in [earlier, session_stream("other")] {
        assert_eq!(world.store.get_run(gone).unwrap(), None, "nobody needs it");
    }
    world.damage(position);
    world.restart();
    world.check_works(bad);
    world.cancel(bad);
    world.sweeps();
    assert_eq!(world.store.get_run(stream).unwrap(), None);
}

#[test]
fn a_run_that_conflicts_twice_in_a_row_is_quarantined_and_the_others_go_on() {
    let mut world = World::new();
    let (bad, good) = (world.starts(1, plan()), world.starts(2, plan()));
    // Once is the fault of whoever believed something else of the log.
    for _ in 0..2 {
        world.conflicting = Some(bad);
        let restarts = world.restarts;
        assert!(matches!(world.pause(bad), Err(Declined::Unavailable)));
        assert_eq!(world.restarts, restarts + 1);
        world.conflicting = None;
        world.check_works(bad);
    }
    world.conflicting = Some(bad);
    assert!(matches!(world.pause(bad), Err(Declined::Unavailable)));
    let restarts = world.restarts;
    let seq = world.core.run(bad).unwrap().seq();
    let paused = world.pause(bad);
    assert_eq!(check_damaged(paused.err(), bad, QuarantineReason::Conflicted).seq, seq);
    assert_eq!(world.restarts, restarts, "the shard is not read again");
    world.check_quarantined(bad, QuarantineReason::Conflicted);
    world.check_works(good);
    // The same program would do the same again.
    world.conflicting = None;
    world.restart();
    world.check_quarantined(bad, QuarantineReason::Conflicted);
    assert!(world.core.run(good).is_some());
}

#[test]
fn a_session_that_conflicts_twice_in_a_row_is_quarantined_with_its_asks() {
    let mut world = World::new();
    let stream = session_stream("talk");
    world.starts(1, ask(Some("talk"), false));
    let good = world.starts(2, plan());
    world.conflicting = Some(stream);
    // An ask that ends at once adds to its session in the commit that it begins in.
    for number in 3..8 {
        let restarts = world.restarts;
        world.try_start(run(number), ask(Some("talk"), false), true);
        assert!(world.restarts <= restarts + 1, "the shard is not read for ever");
    }
    assert_eq!(world.quarantine(stream).unwrap().reason, QuarantineReason::Conflicted);
    world.check_works(good);
}

#[test]
fn a_run_in_quarantine_is_tried_again_on_demand() {
    let mut world = World::new();
    let (bad, good) = (world.starts(1, plan()), world.starts(2, plan()));
    let position = *world.positions(bad).last().unwrap();
    world.damage(position);
    world.restart();
    world.releases(bad);
    world.check_quarantined(bad, QuarantineReason::Damaged);
    world.check_works(good);
    world.damage(position);
    world.releases(bad);
    world.check_works(bad);
    world.check_works(good);
    // Nobody but a person takes this one back.
    world.conflicting = Some(bad);
    for _ in 0..2 {
        assert!(world.pause(bad).is_err());
    }
    world.conflicting = None;
    world.restart();
    world.check_quarantined(bad, QuarantineReason::Conflicted);
    world.releases(bad);
    world.check_works(bad);
    // A session is released with the asks that could not go on without it.
    let stream = session_stream("talk");
    world.starts(3, ask(Some("talk"), false));
    let waits = world.starts(4, ask(Some("talk"), true));
    let position = *world.positions(stream).first().unwrap();
    world.damage(position);
    world.restart();
    world.check_quarantined(waits, QuarantineReason::Damaged);
    world.damage(position);
    world.releases(stream);
    assert_eq!(world.quarantine(stream), None);
    world.check_works(waits);
}

#[test]
fn what_is_in_work_or_needed_is_not_deleted_and_everything_else_is() {
    let mut world = World::new();
    let (bad, works, ended) = (world.starts(1, plan()), world.starts(2, plan()), world.starts(3, plan()));
    world.cancel(ended);
    let (stream, said) = (session_stream("talk"), world.starts(4, ask(Some("talk"), false)));
    let waits = world.starts(5, ask(Some("talk"), true));
    for position in [world.positions(bad)[0], world.positions(stream)[0]] {
        world.damage(position);
    }
    world.restart();
    assert_eq!(world.deletes(run(9)), Removal::Missing);
    assert_eq!(world.deletes(works), Removal::Unfinished);
    assert_eq!(world.deletes(stream), Removal::Held, "an ask would go on in it");
    for gone in [bad, ended, said, waits, stream] {
        assert!(matches!(world.deletes(gone), Removal::Removed { bytes } if bytes > 0), "{gone}");
        assert_eq!(world.store.get_run(gone).unwrap(), None);
        assert_eq!(world.deletes(gone), Removal::Missing);
    }
    world.check_works(works);
    world.starts(6, ask(Some("talk"), true));
    world.restart();
    world.check_works(works);
    assert!(world.core.run(run(6)).is_some());
}

#[test]
fn a_stream_of_all_runs_has_a_marker_in_the_place_of_what_is_damaged() {
    let mut world = World::new();
    let (one, two) = (world.starts(1, plan()), world.starts(2, plan()));
    world.pause(two).unwrap();
    world.pause(one).unwrap();
    let position = *world.positions(two).first().unwrap();
    world.damage(position);

    let mut reader = Reader::new(SHARD, Filter::default(), Start::default(), 100);
    let mut seen = Vec::new();
    loop {
        let step = reader.read_log(&world.store, Position(0)).unwrap();
        assert!(step.events.is_empty() || step.damaged.is_empty());
        seen.extend(step.events.iter().map(|event| (event.cursor.position, event.run, true)));
        for damaged in &step.damaged {
            assert_eq!((damaged.position, damaged.first_seq), (position, 1));
            seen.push((damaged.position, damaged.run, false));
        }
        if step.at_end {
            break;
        }
    }
    assert_eq!(seen.iter().filter(|(_, _, whole)| !whole).count(), 1, "once");
    assert!(seen.is_sorted_by_key(|(position, ..)| *position), "in its place: {seen:?}");
    assert_eq!(seen.iter().filter(|(_, run, whole)| *run == two && *whole).count(), 1);
    assert_eq!(reader.cursor().position, world.store.bounds(SHARD).unwrap().newest);

    // Behind the marker there is none.
    let mut reader = Reader::new(
        SHARD,
        Filter::default(),
        Start { cursor: Cursor::behind(position), ..Start::default() },
        100,
    );
    let step = reader.read_log(&world.store, Position(0)).unwrap();
    assert!(step.damaged.is_empty() && !step.events.is_empty());
}

#[test]
fn a_stream_of_a_damaged_run_has_what_is_whole_and_then_an_error() {
    let mut world = World::new();
    let bad = world.starts(1, plan());
    let whole = world.store.get_run(bad).unwrap().unwrap().last_seq;
    world.pause(bad).unwrap();
    let position = *world.positions(bad).last().unwrap();
    world.damage(position);
    let filter = Filter { run: Some(bad), ..Filter::default() };
    let mut reader = Reader::new(SHARD, filter, Start::default(), 100);
    let step = reader.read_log(&world.store, position).unwrap();
    assert_eq!(step.events.len() as u64, whole);
    match reader.read_log(&world.store, position) {
        Err(LoadError::Damaged(damage)) => {
            assert_eq!((damage.run, damage.seq, damage.position), (bad, whole, Some(position)));
        }
        other => panic!("{other:?}"),
    }
}

/// What the events of a large row are made of. Nothing else in a database fills a page with it.
const FILLING: u8 = 0x5A;

/// Where the events of the log's only large row go on a second time, there is nothing.
fn cut_the_large_row(folder: &Path) {
    let file = folder.join(DATABASE_FILE);
    let mut content = fs::read(&file).unwrap();
    // The number of the page on which they go on, 0 on the last one; and as many of them as fit.
    let goes_on = |page: &&mut [u8]| page[..4] != [0; 4] && page[4..].iter().all(|byte| *byte == FILLING);
    let mut cut = 0;
    for page in content.chunks_mut(4096).filter(goes_on) {
        page[..4].fill(0xA5);
        cut += 1;
    }
    assert_eq!(cut, 1);
    fs::write(&file, content).unwrap();
}

#[test]
fn a_newest_row_that_cannot_be_read_lets_the_shard_be_claimed_and_costs_only_its_run() {
    let folder = tempfile::tempdir().unwrap();
    let open = || SqliteStore::open(folder.path(), SqliteOptions::default()).unwrap();
    let (whole, large) = (run(7), run(8));
    {
        let store = open();
        let mut writer = store.claim(SHARD, Mark(1)).unwrap();
        // Of 10,000 bytes, one page has the first ones beside the row, and two more pages have the others.
        let appends = [creation(whole, &of_run(), "p"), beginning(large).events(vec![FILLING; 10_000])];
        let outcomes = writer.commit(&appends).unwrap();
        assert_eq!(outcomes, [1, 2].map(|at| AppendOutcome::Committed(Position(at))));
    }
    cut_the_large_row(folder.path());
    let store = open();
    let newest = store.read_log(SHARD, Position(1), 1, 0);
    assert!(matches!(newest, Err(StoreError::Corrupt { .. })), "{newest:?}");
    // Nothing was read of clocks before, so that the claim asks the newest row for its time.
    assert_eq!(store.readings(SHARD).unwrap(), None);
    let (_writer, recovered, newest) = journal::claim(&store, SHARD, &mut chance(2)).unwrap();
    assert_eq!(newest, Position(2));
    let at_work: Vec<RunId> = recovered.runs.iter().map(|(run, _)| *run).collect();
    assert_eq!(at_work, [whole]);
    let quarantined = store.quarantined(SHARD, None, 10).unwrap();
    let [(of, Quarantine { reason: QuarantineReason::Damaged, seq: 0, position: None, .. })] =
        &quarantined[..]
    else {
        panic!("{quarantined:?}")
    };
    assert_eq!(*of, large);
}
