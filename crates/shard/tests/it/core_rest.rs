//! Runs that wait for a person or a time leave memory, and come back when something is wanted of them.

use capataz_contracts::v1::{self, connect_request::Frame as Say, connect_response::Frame as Hear};
use capataz_crew::{ConnectionId, Mono, Now};
use capataz_engine::{Input as Ask, Work};
use capataz_shard::journal::{Damage, load};
use capataz_shard::shard::Config;
use capataz_shard::{
    Answer, CommandReply, Declined, Driver, Input, Output, ReplyId, Request, StartReply, StartRequest,
    WaitReply,
};
use capataz_store::{MemoryStore, Millis, QuarantineReason, RunId, ShardWriter};

use crate::support::{SHARD, claim, knows, plan, run, start, task};

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
    /// What workers were told, and the failure that one of them reported.
    told: Vec<Hear>,
    failed: Option<v1::Failed>,
}

impl World {
    fn new() -> Self {
        Self::with(&Config::default())
    }

    fn with(config: &Config) -> Self {
        let store = MemoryStore::new();
        let (writer, recovered) = claim(&store, 1);
        let core = Driver::new(config, vec![SHARD]);
        let now = Now::alike(1_000_000);
        let mut world = Self {
            store,
            writer,
            core,
            now,
            marks: 1,
            loads: Vec::new(),
            answers: Vec::new(),
            next: 0,
            told: Vec::new(),
            failed: None,
        };
        world.hears(knows(AGENT));
        world.hears(recovered);
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
                Output::Frame { frame, .. } => self.told.push(frame),
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
        let (writer, recovered) = claim(&self.store, self.marks);
        self.writer = writer;
        self.loads.clear();
        self.hears(recovered);
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
        self.starts_with(wait, None)
    }

    fn starts_with(&mut self, wait: bool, retry: Option<v1::RetryPolicy>) -> (RunId, ReplyId) {
        let plan = plan([v1::Task { retry, ..task("t", AGENT) }]);
        let run = run(7_000 + u128::from(self.next));
        let start = StartRequest { wait, ..start(run, Work::Plan(plan)) };
        let reply = self.asks(Request::Start(Box::new(start)));
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
    assert!(world.answer(command).is_none() && world.answer(creator).is_none(), "it may be as it was");
    // Another daemon has claimed in between.
    world.is_read_again();
    assert!(matches!(world.answer(command), Some(Answer::Command(Err(Declined::Unavailable)))));
    assert!(matches!(world.answer(creator), Some(Answer::Start(Err(Declined::Unavailable)))));
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

#[test]
fn a_run_that_is_read_for_nothing_rests_again() {
    let mut world = World::new();
    let (run, _) = world.starts(false);
    world.pauses(run);
    let wrong =
        Ask::Resolve { question_id: "q9".to_owned(), answer: "yes".into(), request_id: "w".to_owned() };
    let refused = world.commands(run, wrong);
    let repeated = world.commands(run, Ask::Pause { request_id: format!("pause {run}") });
    world.reads(true);
    assert!(matches!(world.answer(refused), Some(Answer::Command(Ok(CommandReply::Refused(_))))));
    assert!(matches!(world.answer(repeated), Some(Answer::Command(Ok(CommandReply::Done { .. })))));
    assert!(!world.is_in_memory(run));
}

#[test]
fn many_that_are_wanted_at_once_are_read_a_few_at_a_time() {
    let mut world = World::new();
    let runs: Vec<RunId> = (0..40).map(|_| world.starts(false).0).collect();
    for run in &runs {
        world.pauses(*run);
    }
    let replies: Vec<ReplyId> =
        runs.iter().map(|run| world.commands(*run, Ask::Resume { request_id: "r".to_owned() })).collect();
    let mut most = world.loads.len();
    while !world.loads.is_empty() {
        most = most.max(world.loads.len());
        world.reads(true);
    }
    assert!((1..=16).contains(&most), "{most} at once");
    for reply in replies {
        assert!(matches!(world.answer(reply), Some(Answer::Command(Ok(CommandReply::Done { .. })))));
    }
}

#[test]
fn more_commands_for_runs_that_rest_than_may_wait_are_declined() {
    let mut world = World::with(&Config { max_pending_appends: 20, ..Config::default() });
    let runs: Vec<RunId> = (0..30).map(|_| world.starts(false).0).collect();
    for run in &runs {
        world.pauses(*run);
    }
    let replies: Vec<ReplyId> =
        runs.iter().map(|run| world.commands(*run, Ask::Resume { request_id: "r".to_owned() })).collect();
    let declined = |world: &mut World, reply: &ReplyId| {
        matches!(world.answer(*reply), Some(Answer::Command(Err(Declined::Overloaded { .. }))))
    };
    let held = replies.iter().filter(|reply| !declined(&mut world, reply)).count();
    assert_eq!(held, 20);
    // Who no longer waits makes room, and so does what was done.
    world.hears(Input::Forget { reply: replies[0], run: runs[0] });
    let next = world.commands(runs[29], Ask::Resume { request_id: "r".to_owned() });
    assert!(world.answer(next).is_none(), "it waits");
    while !world.loads.is_empty() {
        world.reads(true);
    }
    let after = world.commands(runs[28], Ask::Resume { request_id: "r".to_owned() });
    world.reads(true);
    assert!(matches!(world.answer(after), Some(Answer::Command(Ok(CommandReply::Done { .. })))));
}

#[test]
fn runs_that_are_found_damaged_make_room_for_the_next_ones() {
    let mut world = World::new();
    let runs: Vec<RunId> = (0..20).map(|_| world.starts(false).0).collect();
    for run in &runs {
        world.pauses(*run);
    }
    let replies: Vec<ReplyId> =
        runs.iter().map(|run| world.commands(*run, Ask::Resume { request_id: "r".to_owned() })).collect();
    assert!(world.loads.len() < runs.len(), "some have to wait");
    while let Some((run, load)) = world.loads.pop() {
        let (reason, detail) = (QuarantineReason::Damaged, "torn".to_owned());
        let damage = Damage { run, reason, seq: 1, position: None, detail };
        world.hears(Input::RunLoaded { run, load, state: Err(damage) });
    }
    for reply in replies {
        let answer = world.answer(reply);
        assert!(matches!(answer, Some(Answer::Command(Err(Declined::Damaged(_))))), "{answer:?}");
    }
}

/// A run whose task has failed and is tried again after 20 minutes, within its 30 (seed 000, contract 3).
fn with_a_long_delay(world: &mut World) -> RunId {
    let retry = v1::RetryPolicy { delays_ms: vec![1_200_000], ..v1::RetryPolicy::default() };
    let (run, _) = world.starts_with(false, Some(retry));
    world.worker_fails(run);
    assert!(!world.is_in_memory(run), "it waits for 20 minutes");
    run
}

impl World {
    fn passes(&mut self, milliseconds: i64) {
        self.now = Now::alike(self.now.mono.0 + milliseconds);
        self.hears(Input::Wake);
    }

    /// A worker comes, takes the run's task, fails it and goes.
    fn worker_fails(&mut self, run: RunId) {
        let connection = ConnectionId(900 + self.next);
        let agent = v1::Agent {
            name: AGENT.to_owned(),
            category: "utility".to_owned(),
            kind: v1::AgentKind::Task as i32,
            contract_version: "1.0.0".to_owned(),
            max_concurrency: 1,
            ..v1::Agent::default()
        };
        let hello = v1::Hello {
            worker_id: "w".to_owned(),
            agents: vec![agent],
            slots: 1,
            held: Vec::new(),
            protocol: 1,
            browsers: Vec::new(),
        };
        self.hears(Input::Frame { connection, frame: Say::Hello(hello) });
        let (task, lease, _) = self.core.run(run).unwrap().leases().next().unwrap();
        let lease = v1::LeaseRef { run_id: run.to_string(), wave: task.wave, task: task.task, lease };
        let error = v1::Error { code: "NETWORK_ERROR".to_owned(), ..v1::Error::default() };
        let failed = v1::Failed { lease: Some(lease), error: Some(error), ..v1::Failed::default() };
        self.hears(Input::Frame { connection, frame: Say::Failed(failed.clone()) });
        self.failed = Some(failed);
        self.hears(Input::Disconnected { connection });
    }
}

#[test]
fn a_deadline_of_a_run_that_cannot_be_read_is_met_when_it_can() {
    let mut world = World::new();
    let run = with_a_long_delay(&mut world);
    world.passes(1_200_000 - 1);
    assert!(world.loads.is_empty());
    world.passes(1);
    assert_eq!(world.loads.len(), 1);
    for _ in 0..3 {
        world.reads(false);
        assert!(!world.is_in_memory(run) && world.loads.is_empty());
        world.passes(1_000);
        assert_eq!(world.loads.len(), 1, "it is tried again, without anybody asking");
    }
    world.reads(true);
    assert!(world.core.run(run).unwrap().queued().next().is_some(), "the next attempt waits for a worker");
}

#[test]
fn a_shard_that_is_read_again_keeps_the_time_of_runs_that_rest_whatever_the_wall_says() {
    let year = 365 * 86_400_000;
    for jump in [year, -year] {
        let mut world = World::new();
        let run = with_a_long_delay(&mut world);
        // The second time around, this process has never had the run in memory.
        for round in 0..2 {
            world.now = Now { wall: Millis(world.now.wall.0 + jump), mono: Mono(world.now.mono.0 + 300_000) };
            world.hears(Input::CommitFailed { shard: SHARD });
            world.is_read_again();
            assert!(world.loads.is_empty(), "round {round}: 15 minutes are left, or 10");
        }
        let left = 1_200_000 - 2 * 300_000;
        for (passed, loads) in [(left - 1, 0), (1, 1)] {
            world.now = Now { mono: Mono(world.now.mono.0 + passed), ..world.now };
            world.hears(Input::Wake);
            assert_eq!(world.loads.len(), loads, "jump {jump}, after {passed} ms");
        }
        world.reads(true);
        assert!(world.core.run(run).unwrap().queued().next().is_some());
    }
}

#[test]
fn a_result_that_was_accepted_is_accepted_again_while_its_run_rests() {
    let mut world = World::new();
    let run = with_a_long_delay(&mut world);
    let connection = ConnectionId(77);
    let hello = v1::Hello { worker_id: "w".to_owned(), slots: 1, protocol: 1, ..v1::Hello::default() };
    world.hears(Input::Frame { connection, frame: Say::Hello(hello) });
    let failed = world.failed.clone().unwrap();
    world.told.clear();
    world.hears(Input::Frame { connection, frame: Say::Failed(failed) });
    assert!(world.told.is_empty(), "nobody knows before it is read");
    world.reads(true);
    let answers: Vec<&Hear> = world
        .told
        .iter()
        .filter(|told| matches!(told, Hear::ResultAccepted(_) | Hear::ResultRefused(_)))
        .collect();
    assert_eq!(answers.len(), 1, "it is answered, as in memory: {answers:?}");
    assert!(!world.is_in_memory(run), "and the run rests on");
}

#[test]
fn a_run_that_was_read_and_may_rest_again_stays_in_memory_until_what_it_has_decided_is_durable() {
    let mut world = World::new();
    let (run, _) = world.starts(false);
    world.pauses(run);
    world.commands(run, Ask::Resume { request_id: "resume".to_owned() });
    world.commands(run, Ask::Pause { request_id: "again".to_owned() });
    let [(_, number)] = world.loads[..] else { panic!("{:?}", world.loads) };
    let state = Box::new(load(&world.store, run).unwrap());
    let mut outputs = Vec::new();
    world.core.handle(
        world.now,
        Input::RunLoaded { run, load: number, state: Ok(Some(state)) },
        &mut outputs,
    );
    let appends = outputs.into_iter().filter_map(|output| match output {
        Output::Append { append, .. } => Some(append),
        _ => None,
    });
    let appends: Vec<_> = appends.collect();
    assert_eq!(appends.len(), 1);
    assert!(world.is_in_memory(run), "what is read now would be older");
    let outcomes = world.writer.commit(&appends).unwrap();
    world.hears(Input::Committed { shard: SHARD, outcomes });
    assert!(!world.is_in_memory(run));
}
