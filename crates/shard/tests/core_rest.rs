//! Runs that wait for a person or a time leave memory, and come back when something is wanted of them.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;

use capataz_contracts::v1;
use capataz_crew::{Mono, Now};
use capataz_engine::{Input as Ask, Plan, StartRun, Work};
use capataz_shard::journal::{self, load};
use capataz_shard::shard::Config;
use capataz_shard::{
    Answer, CommandReply, Declined, Driver, Input, Output, ReplyId, Request, StartReply, StartRequest,
    WaitReply,
};
use capataz_store::{Mark, MemoryStore, Millis, RunId, ShardId, ShardWriter};
use uuid::Uuid;

const SHARD: ShardId = ShardId(0);
const AGENT: &str = "a";

/// A core over a disk that takes everything at once. What is read of runs waits until the test says so.
struct World {
    store: MemoryStore,
    writer: Box<dyn ShardWriter>,
    core: Driver,
    now: Now,
    marks: u32,
    loads: Vec<(RunId, u64)>,
    answers: Vec<(ReplyId, Answer)>,
    next: u64,
}

fn chance(mark: Mark) -> journal::Chance {
    journal::Chance { draw: Box::new(move || mark), wall: Box::new(|| Millis(0)) }
}

impl World {
    fn new() -> Self {
        let store = MemoryStore::new();
        let (writer, recovered, _) = journal::claim(&store, SHARD, &mut chance(Mark(1))).unwrap();
        let core = Driver::new(&Config::default(), vec![SHARD]);
        let now = Now::alike(1_000_000);
        let mut world =
            Self { store, writer, core, now, marks: 1, loads: Vec::new(), answers: Vec::new(), next: 0 };
        let agent = v1::Agent { name: AGENT.to_owned(), ..v1::Agent::default() };
        let known = capataz_crew::KnownAgent { agent, source: v1::AgentSource::Declared, last_seen: None };
        let known = capataz_crew::Known { agents: vec![known], ..Default::default() };
        world.hears(Input::Learn(known));
        world.hears(Input::Recovered { shard: SHARD, recovered });
        world
    }

    fn hears(&mut self, input: Input) {
        let mut outputs = Vec::new();
        self.core.handle(self.now, input, &mut outputs);
        let mut appends = Vec::new();
        for output in outputs {
            match output {
                Output::Append { append, .. } => appends.push(append),
                Output::LoadRun { run, load } => self.loads.push((run, load)),
                Output::Reply { reply, answer } => self.answers.push((reply, answer)),
                _ => {}
            }
        }
        if !appends.is_empty() {
            let outcomes = self.writer.commit(&appends).unwrap();
            self.hears(Input::Committed { shard: SHARD, outcomes });
        }
    }

    /// The process ends, and another one takes the shard.
    fn restarts(&mut self) {
        self.core = Driver::new(&Config::default(), vec![SHARD]);
        self.is_read_again();
    }

    fn is_read_again(&mut self) {
        self.marks += 1;
        let mark = Mark(self.marks);
        let (writer, recovered, _) = journal::claim(&self.store, SHARD, &mut chance(mark)).unwrap();
        self.writer = writer;
        self.loads.clear();
        self.hears(Input::Recovered { shard: SHARD, recovered });
    }

    fn asks(&mut self, request: Request) -> ReplyId {
        self.next += 1;
        let reply = ReplyId(self.next);
        self.hears(Input::Request { reply, request });
        reply
    }

    fn commands(&mut self, run: RunId, input: Ask) -> ReplyId {
        self.asks(Request::Command { run, if_seq: None, input: Box::new(input) })
    }

    fn answer(&mut self, reply: ReplyId) -> Option<Answer> {
        let place = self.answers.iter().position(|(of, _)| *of == reply)?;
        Some(self.answers.remove(place).1)
    }

    /// A run whose one task waits for a worker; `wait` for its end.
    fn starts(&mut self, wait: bool) -> (RunId, ReplyId) {
        let task = v1::Task { name: "t".to_owned(), agent: AGENT.to_owned(), ..Default::default() };
        let wave = v1::Wave { tasks: vec![task], ..Default::default() };
        let mut plan = v1::Plan { name: "p".to_owned(), waves: vec![wave], ..Default::default() };
        Plan::materialise(&mut plan).unwrap();
        let run = RunId(Uuid::from_u128(7_000 + u128::from(self.next)));
        let start = StartRun { work: Work::Plan(plan), labels: Default::default(), parent: None };
        let reply = self.asks(Request::Start(Box::new(StartRequest {
            run,
            start,
            session: None,
            agents: BTreeSet::from([AGENT.to_owned()]),
            commands: Vec::new(),
            resources: Vec::new(),
            key: None,
            wait,
            blobs: Vec::new(),
        })));
        (run, reply)
    }

    fn pauses(&mut self, run: RunId) {
        let reply = self.commands(run, Ask::Pause { request_id: format!("pause {run}") });
        let answer = self.answer(reply);
        assert!(matches!(answer, Some(Answer::Command(Ok(CommandReply::Done { .. })))), "{answer:?}");
    }

    fn is_in_memory(&self, run: RunId) -> bool {
        assert_ne!(self.core.run(run).is_some(), self.core.rests(run), "one of both");
        !self.core.rests(run)
    }

    /// Everything that was asked for is read; whether it can be.
    fn reads(&mut self, can_be: bool) {
        for (run, number) in std::mem::take(&mut self.loads) {
            let state = can_be.then(|| Box::new(load(&self.store, run).unwrap()));
            self.hears(Input::RunLoaded { run, load: number, state: Ok(state) });
        }
    }
}

#[test]
fn a_run_that_waits_for_a_person_leaves_memory_and_a_command_brings_it_back() {
    let mut world = World::new();
    let (run, _) = world.starts(false);
    assert!(world.is_in_memory(run), "a task of it waits for a worker");
    world.pauses(run);
    assert!(!world.is_in_memory(run));

    let (again, resume) = ("again".to_owned(), "resume".to_owned());
    let first = world.commands(run, Ask::Pause { request_id: again });
    let second = world.commands(run, Ask::Resume { request_id: resume });
    assert!(world.answer(first).is_none() && world.answer(second).is_none(), "it is not read yet");
    assert_eq!(world.loads.len(), 1, "it is read once");
    world.reads(true);
    for reply in [first, second] {
        assert!(matches!(world.answer(reply), Some(Answer::Command(Ok(CommandReply::Done { .. })))));
    }
    assert!(world.is_in_memory(run));
    assert_eq!(world.core.run(run).unwrap().status(), v1::RunStatus::Running);
}

#[test]
fn whoever_waits_for_its_end_does_not_keep_it_in_memory_and_hears_the_end() {
    let mut world = World::new();
    let (run, creator) = world.starts(true);
    world.pauses(run);
    let waiter = world.asks(Request::Wait { run });
    let gone = world.asks(Request::Wait { run });
    world.hears(Input::Forget { reply: gone, run });
    assert!(!world.is_in_memory(run) && world.loads.is_empty());
    world.commands(run, Ask::Cancel { reason: String::new(), force: true, request_id: "c".to_owned() });
    world.reads(true);
    assert!(matches!(world.answer(creator), Some(Answer::Start(Ok(StartReply::Finished { .. })))));
    assert!(matches!(world.answer(waiter), Some(Answer::Wait(Ok(WaitReply::Finished { .. })))));
    assert!(world.answer(gone).is_none());
}

#[test]
fn a_run_that_cannot_be_read_rests_on_and_is_read_when_it_is_wanted_again() {
    let mut world = World::new();
    let (run, creator) = world.starts(true);
    world.pauses(run);
    let unlucky = world.commands(run, Ask::Resume { request_id: "one".to_owned() });
    world.reads(false);
    assert!(matches!(world.answer(unlucky), Some(Answer::Command(Err(Declined::Unavailable)))));
    assert!(!world.is_in_memory(run));
    let lucky = world.commands(run, Ask::Resume { request_id: "two".to_owned() });
    world.reads(true);
    assert!(matches!(world.answer(lucky), Some(Answer::Command(Ok(CommandReply::Done { .. })))));
    assert!(world.is_in_memory(run) && world.answer(creator).is_none());
}

#[test]
fn an_old_answer_is_not_believed_and_nobody_waits_in_vain_when_the_shard_is_read_again() {
    let mut world = World::new();
    let (run, creator) = world.starts(true);
    world.pauses(run);
    let command = world.commands(run, Ask::Resume { request_id: "r".to_owned() });
    let [(_, old)] = world.loads[..] else { panic!("{:?}", world.loads) };
    world.hears(Input::CommitFailed { shard: SHARD });
    assert!(matches!(world.answer(command), Some(Answer::Command(Err(Declined::Unavailable)))));
    assert!(matches!(world.answer(creator), Some(Answer::Start(Err(Declined::Unavailable)))));
    world.is_read_again();
    assert!(!world.is_in_memory(run));
    let state = Box::new(load(&world.store, run).unwrap());
    world.hears(Input::RunLoaded { run, load: old, state: Ok(Some(state)) });
    assert!(!world.is_in_memory(run), "nobody has asked for it since");
    let command = world.commands(run, Ask::Resume { request_id: "r".to_owned() });
    let [(_, new)] = world.loads[..] else { panic!("{:?}", world.loads) };
    assert_ne!(new, old);
    world.reads(true);
    assert!(matches!(world.answer(command), Some(Answer::Command(Ok(CommandReply::Done { .. })))));
}

#[test]
fn a_start_reads_no_run_that_rests_and_its_clock_goes_on() {
    let mut world = World::new();
    let (rests, _) = world.starts(false);
    let (works, _) = world.starts(false);
    world.pauses(rests);
    world.restarts();
    assert!(!world.is_in_memory(rests) && world.is_in_memory(works));
    // The wall clock is set forward by a day after the start: the run's own clock has not moved by it.
    let day = 86_400_000;
    world.now = Now { wall: Millis(world.now.wall.0 + day), mono: Mono(world.now.mono.0 + 5_000) };
    world.commands(rests, Ask::Resume { request_id: "r".to_owned() });
    world.reads(true);
    let last = world.core.run(rests).unwrap().last();
    assert_eq!((last.clock.0, last.wall.0), (1_005_000, 1_000_000 + day));
}
