//! Forks whose base is removed between their start and its commit.

use std::collections::BTreeSet;

use capataz_crew::Now;
use capataz_engine::{Fork, Input as Ask, RunState, Work};
use capataz_shard::forks::fork_id;
use capataz_shard::journal::load;
use capataz_shard::shard::Config;
use capataz_shard::{
    Answer, CommandReply, Driver, Input, Output, ReplyId, Request, StartReply, StartRequest,
};
use capataz_store::builders::keep;
use capataz_store::{Append, MemoryStore, Millis, Retention, RunId, ShardWriter, Store};

use crate::support::{SHARD, claim, knows, one_task, run, start};

const AGENT: &str = "a";
const BEGINNING: i64 = 1_000_000;

/// A core whose appends wait until the test has them committed.
struct World {
    store: MemoryStore,
    writer: Box<dyn ShardWriter>,
    core: Driver,
    waiting: Vec<Append>,
    answers: Vec<(ReplyId, Answer)>,
    next: u64,
}

impl World {
    fn new() -> Self {
        let store = MemoryStore::new();
        let (writer, recovered) = claim(&store, 1);
        let core = Driver::new(&Config::default(), vec![SHARD]);
        let mut world = Self { store, writer, core, waiting: Vec::new(), answers: Vec::new(), next: 0 };
        world.hears(knows(AGENT));
        world.hears(recovered);
        world
    }

    fn hears(&mut self, input: Input) {
        let mut outputs = Vec::new();
        self.core.handle(Now::alike(BEGINNING), input, &mut outputs);
        for output in outputs {
            match output {
                Output::Append { append, .. } => self.waiting.push(append),
                Output::Reply { reply, answer } => self.answers.push((reply, answer)),
                _ => {}
            }
        }
    }

    fn asks(&mut self, request: Request) -> ReplyId {
        self.next += 1;
        let reply = ReplyId(self.next);
        self.hears(Input::Request { reply, request });
        reply
    }

    fn starts(&mut self, run: RunId, work: Work) -> ReplyId {
        let agents = BTreeSet::from([AGENT.to_owned()]);
        self.asks(Request::Start(Box::new(StartRequest { agents, ..start(run, work) })))
    }

    /// What waits is written.
    fn commits(&mut self) {
        while !self.waiting.is_empty() {
            let outcomes = self.writer.commit(&std::mem::take(&mut self.waiting)).unwrap();
            self.hears(Input::Committed { shard: SHARD, outcomes });
        }
    }

    #[track_caller]
    fn answer(&mut self, reply: ReplyId) -> Answer {
        let place = self.answers.iter().position(|(of, _)| *of == reply);
        self.answers.remove(place.unwrap()).1
    }

    /// A run at work, what it was then, and its end.
    fn ended(&mut self) -> (RunId, RunState) {
        let run = run(7);
        let started = self.starts(run, one_task(AGENT));
        self.commits();
        assert!(matches!(self.answer(started), Answer::Start(Ok(StartReply::Started { .. }))));
        let state = load(&self.store, run).unwrap();
        let end = Ask::Cancel { reason: String::new(), force: true, request_id: "c".to_owned() };
        let ended = self.asks(Request::Command { run, if_seq: None, input: Box::new(end) });
        self.commits();
        assert!(matches!(self.answer(ended), Answer::Command(Ok(CommandReply::Done { .. }))));
        (run, state)
    }

    fn forks(&mut self, of: RunId, state: RunState) -> (RunId, ReplyId) {
        let run = fork_id(run(9 << 64), of);
        let (of, run_id) = (of.to_string(), run.to_string());
        let fork = Fork { of, run_id, state: Box::new(state), input: None };
        (run, self.starts(run, Work::Fork(Box::new(fork))))
    }

    /// Whatever has finished is removed.
    fn sweeps(&mut self) -> u64 {
        let retention = Retention { finished_before: Some(Millis(BEGINNING + 1)), ..keep() };
        self.writer.sweep(&retention).unwrap().runs
    }

    /// Whether the core has the run, in memory or at rest.
    fn is_known(&self, run: RunId) -> bool {
        self.core.run(run).is_some() || self.core.rests(run)
    }
}

#[test]
fn a_fork_whose_base_is_swept_before_its_commit_is_told_so_and_there_is_no_run() {
    let mut world = World::new();
    let (base, state) = world.ended();
    let (fork, started) = world.forks(base, state);
    assert_eq!(world.waiting.len(), 1, "it is decided, and not yet written");
    assert_eq!(world.sweeps(), 1);
    assert!(world.store.get_run(base).unwrap().is_none());
    world.commits();
    let answer = world.answer(started);
    assert!(matches!(answer, Answer::Start(Ok(StartReply::BaseGone))), "{answer:?}");
    assert!(world.store.get_run(fork).unwrap().is_none());
    assert!(!world.is_known(fork));
}

/// The fork has copied what it needs, whatever becomes of the other run.
#[test]
fn a_fork_that_is_written_before_its_base_is_swept_stays() {
    let mut world = World::new();
    let (base, state) = world.ended();
    let seq = state.seq();
    let (fork, started) = world.forks(base, state);
    world.commits();
    assert!(matches!(world.answer(started), Answer::Start(Ok(StartReply::Started { .. }))));
    assert_eq!(world.sweeps(), 1);
    assert!(world.store.get_run(base).unwrap().is_none());
    assert!(world.is_known(fork));
    let read = load(&world.store, fork).unwrap();
    assert!(read.seq() > seq, "its past, and what is its own");
}
