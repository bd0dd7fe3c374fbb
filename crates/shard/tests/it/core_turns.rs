//! What one turn of the core decides for several runs and sessions at once: snapshots, refused asks, sweeps, draining, stalls,
//! clocks that run back.

use std::collections::BTreeSet;

use capataz_contracts::v1::{
    self, connect_request::Frame as Say, connect_response::Frame as Hear, event::Body,
};
use capataz_crew::{ConnectionId, Now};
use capataz_engine::Work;
use capataz_shard::StartReply;
use capataz_shard::driver::Carried;
use capataz_shard::feed;
use capataz_shard::journal::{MAX_SNAPSHOT_BYTES, load_session};
use capataz_shard::shard::Config;
use capataz_shard::{
    Ages, Answer, Declined, Driver, FoundRun, ImportSession, Input, Kin, Output, Recovered, ReplyId, Request,
    StartRequest, find, session_stream,
};
use capataz_store::builders::keep;
use capataz_store::{
    Append, AppendOutcome, IdempotencyKey, Mark, MemoryStore, Millis, Retention, RunId, ShardWriter, Store,
};
use prost::Message;
use uuid::Uuid;

use crate::support::{self, SHARD, Sage, claim, plan, run, start, task};

/// A core, and a disk that is busy until the test says otherwise.
struct World {
    store: MemoryStore,
    writer: Box<dyn ShardWriter>,
    core: Driver,
    waiting: Vec<Append>,
    now: i64,
}

impl World {
    fn new() -> Self {
        Self::with(Config { snapshot_every: 1, session_snapshot_every: 1, ..Config::default() })
    }

    fn with(config: Config) -> Self {
        let store = MemoryStore::new();
        let writer = store.claim(SHARD, Mark(1)).unwrap();
        let core = Driver::new(&config, vec![SHARD]);
        let mut world = Self { store, writer, core, waiting: Vec::new(), now: 1_000 };
        let epoch = world.writer.epoch();
        world
            .hears(Input::Recovered { shard: SHARD, recovered: Recovered { epoch, ..Recovered::default() } });
        world
    }

    /// Hands over one input, and what is read of sessions at once.
    fn hears(&mut self, input: Input) -> Vec<Output> {
        let mut outputs = Vec::new();
        self.core.handle(Now::alike(self.now), input, &mut outputs);
        let mut loaded = Vec::new();
        let mut answers = Vec::new();
        for output in &outputs {
            match output {
                Output::Append { append, .. } => self.waiting.push(append.clone()),
                Output::PutSnapshot { run, snapshot, .. } => {
                    let durable = self.store.get_run(*run).unwrap().map_or(0, |row| row.last_seq);
                    assert!(
                        snapshot.seq <= durable,
                        "snapshot at {}, the log ends at {durable}",
                        snapshot.seq
                    );
                }
                Output::LoadSession { stream, load } => loaded.push((*stream, *load)),
                Output::Query { run, query, asked } => {
                    let Some((ask, context)) = self.core.asks_for(*run) else { continue };
                    let answer = find(&Sage, ask, context, asked.clone()).unwrap();
                    answers.push(Input::Answered { run: *run, query: *query, answer });
                }
                Output::Restart { .. } => panic!("the log is not what the core believes"),
                _ => {}
            }
        }
        for answer in answers {
            outputs.extend(self.hears(answer));
        }
        for (stream, load) in loaded {
            let state = load_session(&self.store, stream).unwrap().map(Box::new);
            outputs.extend(self.hears(Input::SessionLoaded { stream, load, state: Ok(state) }));
        }
        outputs
    }

    /// The process ends, and another one takes the shard: what it wants done at first.
    fn restarts(&mut self) -> Vec<Output> {
        let (writer, recovered) = claim(&self.store, 2);
        self.writer = writer;
        self.waiting.clear();
        self.core = Driver::new(&Config::default(), vec![SHARD]);
        self.hears(recovered)
    }

    /// Retention is due for everything.
    fn sweeps(&mut self) -> Vec<Output> {
        self.sweeps_by(Ages::default())
    }

    /// The same, for what is at least so old.
    fn sweeps_by(&mut self, ages: Ages) -> Vec<Output> {
        let retention = Box::new(Retention { batch: 1, ..keep() });
        self.hears(Input::Sweep { shard: SHARD, retention, ages })
    }

    /// The disk takes all that waits into one commit.
    fn commits(&mut self) -> Vec<Output> {
        let appends = std::mem::take(&mut self.waiting);
        let outcomes = self.writer.commit(&appends).unwrap();
        self.hears(Input::Committed { shard: SHARD, outcomes })
    }

    /// The disk takes the append that has waited longest, and nothing else yet.
    fn commits_first(&mut self) -> Vec<Output> {
        let first = self.waiting.remove(0);
        let outcomes = self.writer.commit(&[first]).unwrap();
        self.hears(Input::Committed { shard: SHARD, outcomes })
    }

    fn commits_all(&mut self) {
        while !self.waiting.is_empty() {
            self.commits();
        }
    }

    fn starts(&mut self, number: u128, work: Work, key: Option<&str>) -> Vec<Output> {
        let key = key.map(|key| IdempotencyKey { key: key.to_owned().into(), request: [1; 32] });
        let request = StartRequest { agents: BTreeSet::new(), key, ..start(run(number), work) };
        let reply = ReplyId(u64::try_from(number).unwrap());
        self.hears(Input::Request { reply, request: Request::Start(Box::new(request)) })
    }

    /// An ask of a session, which ends at once.
    fn asks(&mut self, number: u128, session: &str) -> Vec<Output> {
        self.starts(number, ask(session, None), Some(&format!("key-{number}")))
    }

    fn events(&self, stream: RunId) -> Vec<Body> {
        let rows = self.store.read_run(stream, 0, usize::MAX, usize::MAX).unwrap();
        let events = rows.iter().flat_map(|row| feed::events_of(row, 0).unwrap());
        events.map(|event| v1::Event::decode(event).unwrap().body.unwrap()).collect()
    }

    fn turns(&self, session: &str) -> usize {
        let events = self.events(session_stream(session));
        events.iter().filter(|body| matches!(body, Body::SessionTurn(_))).count()
    }
}

fn ask(session: &str, spec: Option<&str>) -> Work {
    Work::Ask(v1::Ask {
        text: "text".to_owned(),
        session: Some(session.to_owned()),
        spec: spec.map(str::to_owned),
        request_id: Some("request".to_owned()),
        ..v1::Ask::default()
    })
}

/// A plan of one task, for the agent `a`.
fn one_task() -> Work {
    support::one_task("a")
}

/// The same, for work that must not begin twice.
fn at_most_once() -> Work {
    let effect = Some(v1::Effect::AtMostOnce as i32);
    plan_of(v1::Task { effect, ..task("t", "a") })
}

fn plan_of(task: v1::Task) -> Work {
    Work::Plan(plan([task]))
}

/// The worker `w` comes, or comes back without what it had.
fn hello(connection: u64, slots: u32) -> Input {
    support::hello(ConnectionId(connection), "a", slots)
}

fn loads(outputs: &[Output], session: &str) -> bool {
    let is_it = |output: &Output| matches!(output, Output::LoadSession { stream, .. } if *stream == session_stream(session));
    outputs.iter().any(is_it)
}

/// The streams of the appends that wait, each with the number of its first event.
fn in_flight(world: &World) -> Vec<(RunId, u64)> {
    world.waiting.iter().map(|append| (append.run, append.first_seq)).collect()
}

/// The streams of which a state is cached.
fn snapshots(outputs: &[Output]) -> BTreeSet<RunId> {
    let cached = outputs.iter().filter_map(|output| match output {
        Output::PutSnapshot { run, .. } => Some(*run),
        _ => None,
    });
    cached.collect()
}

// That no snapshot is ahead of the log, the world holds against each of them.
#[test]
fn a_session_is_not_cached_while_what_its_next_plan_adds_to_it_is_not_on_its_way() {
    let mut world = World::new();
    for number in [1, 2] {
        let Work::Plan(plan) = one_task() else { panic!("a plan") };
        let plan = v1::Plan { session: Some("a".to_owned()), ..plan };
        world.starts(number, Work::Plan(plan), None);
    }
    world.commits_all();
    let has_begun = |world: &World, number: u128| {
        world.events(run(number)).iter().any(|body| matches!(body, Body::PlanBegun(_)))
    };
    assert_eq!([1, 2].map(|number| has_begun(&world, number)), [true, false]);
    let cancel =
        capataz_engine::Input::Cancel { reason: String::new(), force: true, request_id: "c".to_owned() };
    let request = Request::Command { run: run(1), if_seq: None, input: Box::new(cancel) };
    world.hears(Input::Request { reply: ReplyId(9), request });
    // Accepted, begun, a wave; and of the session: opened, begun, a wave.
    let session = session_stream("a");
    assert_eq!(in_flight(&world), [(run(1), 4), (session, 4)]);
    // The outcome of the plan's end comes before that of the session: by then the next plan has begun, and has added to it.
    assert_eq!(snapshots(&world.commits()), BTreeSet::new());
    assert_eq!(in_flight(&world), [(run(2), 2), (session, 5)]);
    assert_eq!(cached(&mut world), BTreeSet::from([run(2), session]));
    assert!(has_begun(&world, 2));
}

#[test]
fn neither_a_run_nor_a_session_is_cached_while_something_newer_of_it_is_on_its_way() {
    let mut world = World::new();
    world.starts(1, one_task(), None);
    world.hears(hello(1, 1));
    // Accepted and a wave; leased.
    assert_eq!(in_flight(&world), [(run(1), 1), (run(1), 3)]);
    assert_eq!(snapshots(&world.commits_first()), BTreeSet::new());
    assert_eq!(snapshots(&world.commits()), BTreeSet::from([run(1)]));

    let import = ImportSession { session: "a".to_owned(), state: "{}".to_owned(), repairs: Vec::new() };
    let request = Request::ImportSession(Box::new(import));
    world.hears(Input::Request { reply: ReplyId(2), request });
    world.commits_all();
    for (number, mode) in [(3, v1::ExecutionMode::Supervised), (4, v1::ExecutionMode::Planner)] {
        let request = Request::ChooseMode { session: "a".to_owned(), mode: mode.into() };
        world.hears(Input::Request { reply: ReplyId(number), request });
    }
    let session = session_stream("a");
    // Opened and imported; a mode; another one.
    assert_eq!(in_flight(&world), [(session, 3), (session, 4)]);
    assert_eq!(snapshots(&world.commits_first()), BTreeSet::new());
    assert_eq!(snapshots(&world.commits()), BTreeSet::from([session]));
}

#[test]
fn the_end_of_an_ask_and_its_turn_stand_or_fall_together() {
    let mut world = World::new();
    world.asks(1, "a");
    let marks = world.waiting.iter().map(|append| (append.run, append.joined));
    let marks: Vec<(RunId, bool)> = marks.collect();
    let (before, last) = marks.split_at(marks.len() - 2);
    assert_eq!(last, [(RunId(Uuid::from_u128(1)), true), (session_stream("a"), false)]);
    assert!(before.iter().all(|(_, joined)| !joined), "{before:?}");
    // Nothing of the ask is there, so that its end is refused, and with it the turn.
    let both = world.waiting.split_off(before.len());
    let outcomes = world.writer.commit(&both).unwrap();
    assert_eq!(outcomes, [AppendOutcome::Conflict, AppendOutcome::Conflict]);
    assert_eq!(world.turns("a"), 0);
    // By itself, the turn would have been taken.
    let alone = world.writer.commit(&both[1..]).unwrap();
    assert!(matches!(alone[..], [AppendOutcome::Committed(_)]), "{alone:?}");
}

#[test]
fn nobody_begins_on_the_turn_of_an_ask_that_was_refused() {
    let mut world = World::new();
    world.starts(1, ask("a", None), Some("key"));
    world.commits_all();
    // The same request again, whose end becomes part of the session before anybody knows that the key is taken; and
    // another one behind it.
    world.starts(2, ask("a", None), Some("key"));
    world.asks(3, "a");
    let outputs = world.commits();
    let existing = outputs.iter().any(|output| {
        matches!(output, Output::Reply { answer: Answer::Start(Ok(StartReply::Existing { run })), .. } if run.0 == Uuid::from_u128(1))
    });
    assert!(existing, "{outputs:?}");
    world.commits_all();
    let begun = world.events(RunId(Uuid::from_u128(3))).into_iter().find_map(|body| match body {
        Body::AskBegun(begun) => begun.context,
        _ => None,
    });
    assert_eq!(begun.unwrap().message_count, 1, "it begins on what was really said");
    assert_eq!(world.turns("a"), 2, "and its own turn is not lost");
}

#[test]
fn asks_that_wait_keep_their_order_over_a_restart_whatever_their_ids() {
    let mut world = World::new();
    // The agent of the first never comes; the others wait for its end.
    world.starts(5, ask("a", Some("sage")), None);
    world.commits_all();
    for number in [9, 2, 7] {
        world.asks(number, "a");
        world.commits_all();
    }
    world.restarts();
    world.commits_all();
    world.asks(1, "a");
    world.commits_all();
    let cancel =
        capataz_engine::Input::Cancel { request_id: "c".to_owned(), reason: String::new(), force: false };
    let request = Request::Command { run: RunId(Uuid::from_u128(5)), if_seq: None, input: Box::new(cancel) };
    world.hears(Input::Request { reply: ReplyId(50), request });
    world.commits_all();
    let turns = world.events(session_stream("a")).into_iter().filter_map(|body| match body {
        Body::SessionTurn(turn) => turn.run_id.parse::<RunId>().ok(),
        _ => None,
    });
    let expected = [9, 2, 7, 1].map(|number| RunId(Uuid::from_u128(number)));
    assert_eq!(turns.collect::<Vec<_>>(), expected);
}

#[test]
fn a_sweep_spares_sessions_in_use_and_is_waited_for_by_others() {
    let mut world = World::new();
    world.asks(1, "a");
    world.asks(2, "b");
    world.commits_all();
    // The agent of this one never comes: the session stays in use.
    world.starts(3, ask("a", Some("sage")), None);
    let outputs = world.sweeps();
    let [Output::Sweep { retention: Some(retention), .. }] = outputs.as_slice() else {
        panic!("{outputs:?}")
    };
    assert_eq!(retention.keep, BTreeSet::from([session_stream("a")]));
    // The sweep may remove the other one: it is read afterwards.
    assert!(!loads(&world.asks(4, "b"), "b"));
    assert!(loads(&world.hears(Input::Swept { shard: SHARD }), "b"));
}

#[test]
fn runs_keys_and_blobs_have_ages_of_their_own() {
    let mut world = World::new();
    world.now += 5_000;
    let mut times = |ages: Ages| {
        let outputs = world.sweeps_by(ages);
        let retention = outputs.into_iter().find_map(|output| match output {
            Output::Sweep { retention, .. } => retention,
            _ => None,
        });
        let retention = retention.unwrap();
        (retention.finished_before, retention.keys_before, retention.blobs_before)
    };
    let ages = Ages { finished_runs: Some(100), keys: Some(200), blobs: Some(300), ..Ages::default() };
    assert_eq!(times(ages), (Some(Millis(5_900)), Millis(5_800), Millis(5_700)));
    // What has no age goes by the time that the retention itself names.
    let of_keys = Ages { keys: Some(200), ..Ages::default() };
    assert_eq!(times(of_keys), (None, Millis(5_800), Millis(i64::MIN)));
    let of_blobs = Ages { blobs: Some(300), ..Ages::default() };
    assert_eq!(times(of_blobs), (None, Millis(i64::MIN), Millis(5_700)));
}

/// The callers that were told that there is no room for what they ask.
fn overloaded(outputs: &[Output]) -> Vec<u64> {
    let overloaded = outputs.iter().filter_map(|output| match output {
        Output::Reply { reply, answer: Answer::Imported(Err(Declined::Overloaded { .. })), .. } => {
            Some(reply.0)
        }
        _ => None,
    });
    overloaded.collect()
}

#[test]
fn what_waits_for_sessions_to_be_read_has_a_bound_in_bytes() {
    let mut world = World::with(Config { max_waiting_bytes: 100_000, ..Config::default() });
    let import = |number: u64| {
        let state = format!("{{\"notes\":\"{}\"}}", "x".repeat(30_000));
        let import = ImportSession { session: format!("s{number}"), state, repairs: Vec::new() };
        Input::Request { reply: ReplyId(number), request: Request::ImportSession(Box::new(import)) }
    };
    for round in 0..2 {
        // Sessions are read when the sweep is over.
        world.sweeps();
        let outputs: Vec<Output> =
            (0..5).flat_map(|number| world.hears(import(10 * round + number))).collect();
        assert_eq!(overloaded(&outputs), [10 * round + 3, 10 * round + 4], "there is room for three");
        let outputs = world.hears(Input::Swept { shard: SHARD });
        assert_eq!(overloaded(&outputs), [0; 0]);
        world.commits_all();
        for number in 0..3 {
            let session = session_stream(&format!("s{}", 10 * round + number));
            assert!(world.store.get_run(session).unwrap().is_some(), "it was carried out");
        }
    }
}

#[test]
fn an_answer_to_an_earlier_question_for_a_session_is_not_believed() {
    let mut world = World::new();
    world.asks(1, "a");
    world.commits_all();
    let stream = session_stream("a");
    let old = load_session(&world.store, stream).unwrap().map(Box::new);
    world.asks(2, "a");
    world.commits_all();
    // The session is forgotten and asked for again; what was read before the second turn comes only now.
    world.sweeps();
    let mut outputs = Vec::new();
    world.core.handle(Now::alike(1_000), Input::Swept { shard: SHARD }, &mut outputs);
    let request = Request::AcceptTransition { session: "a".to_owned(), request_id: "request".to_owned() };
    world.core.handle(Now::alike(1_000), Input::Request { reply: ReplyId(9), request }, &mut outputs);
    let [Output::LoadSession { load, .. }] = outputs.as_slice() else { panic!("{outputs:?}") };
    world.hears(Input::SessionLoaded { stream, load: load - 1, state: Ok(old) });
    world.asks(3, "a");
    world.commits_all();
    let state = load_session(&world.store, stream).unwrap().map(Box::new);
    world.hears(Input::SessionLoaded { stream, load: *load, state: Ok(state) });
    world.commits_all();
    assert_eq!(world.turns("a"), 3);
}

#[test]
fn a_daemon_that_drains_leases_nothing() {
    let mut world = World::new();
    world.starts(1, one_task(), None);
    world.commits_all();
    world.hears(Input::Drain);
    world.hears(hello(1, 1));
    world.commits_all();
    let leased =
        world.events(RunId(Uuid::from_u128(1))).iter().any(|body| matches!(body, Body::TaskLeased(_)));
    assert!(!leased, "the task waits for the next daemon");
}

/// The frames for workers among the outputs.
fn frames(outputs: &[Output]) -> Vec<&Hear> {
    let mut frames = Vec::new();
    for output in outputs {
        if let Output::Frame { frame, .. } = output {
            frames.push(frame);
        }
    }
    frames
}

/// How the run's leases were lost.
fn losses(world: &World, number: u128) -> Vec<v1::LeaseLossReason> {
    let events = world.events(RunId(Uuid::from_u128(number)));
    let reason = |body| match body {
        Body::TaskLeaseLost(lost) => Some(lost.reason()),
        _ => None,
    };
    events.into_iter().filter_map(reason).collect()
}

#[test]
fn a_lease_that_is_not_durable_when_the_daemon_begins_to_drain_is_given_to_nobody() {
    let mut world = World::new();
    world.starts(1, one_task(), None);
    world.hears(hello(1, 1));
    assert!(!world.waiting.is_empty(), "the lease is on its way to the disk");
    world.hears(Input::Drain);
    let mut outputs = Vec::new();
    while !world.waiting.is_empty() {
        outputs.extend(world.commits());
    }
    let told = frames(&outputs);
    assert!(!told.iter().any(|frame| matches!(frame, Hear::Assignment(_))), "{told:?}");
    assert_eq!(losses(&world, 1), [v1::LeaseLossReason::Returned], "it never began");
}

#[test]
fn what_no_worker_has_acknowledged_is_handed_back_when_the_daemon_begins_to_drain() {
    let mut world = World::new();
    world.starts(1, one_task(), None);
    world.starts(2, at_most_once(), None);
    world.starts(3, one_task(), None);
    let assigned = world.hears(hello(1, 3));
    assert_eq!(frames(&assigned).len(), 1, "the welcome");
    let assigned = world.commits();
    let leases = frames(&assigned).into_iter().filter_map(|frame| match frame {
        Hear::Assignment(assignment) => assignment.lease.clone(),
        _ => None,
    });
    let leases: Vec<v1::LeaseRef> = leases.collect();
    assert_eq!(leases.len(), 3);
    let third = leases.into_iter().find(|lease| lease.run_id == RunId(Uuid::from_u128(3)).to_string());
    let ack = Say::Ack(v1::Ack { lease: third });
    world.hears(Input::Frame { connection: ConnectionId(1), frame: ack });
    world.hears(Input::Drain);
    world.commits_all();
    assert_eq!(losses(&world, 1), [v1::LeaseLossReason::NotAcknowledged]);
    assert_eq!(
        losses(&world, 2),
        [],
        "it may have begun, and must not begin twice: it has its time to say so"
    );
    assert_eq!(losses(&world, 3), [], "it is at work");
}

/// A world in which the worker `w` has a task and has said nothing of it yet, and the lease.
fn assigned() -> (World, v1::LeaseRef) {
    let mut world = World::new();
    world.starts(1, one_task(), None);
    world.hears(hello(1, 1));
    let outputs = world.commits();
    let lease = frames(&outputs).into_iter().find_map(|frame| match frame {
        Hear::Assignment(assignment) => assignment.lease.clone(),
        _ => None,
    });
    (world, lease.unwrap())
}

/// The process stands still, and whatever is due comes first afterwards.
fn stands_still(world: &mut World, milliseconds: i64) {
    world.now += milliseconds;
    world.hears(Input::Wake);
    world.commits_all();
}

#[test]
fn what_arrived_while_the_daemon_stood_still_is_read_before_anything_is_held_against_its_sender() {
    // As long as a worker may take to acknowledge, and much longer.
    for stall in [10_000, 3_600_000] {
        let (mut world, lease) = assigned();
        stands_still(&mut world, stall);
        let ack = Say::Ack(v1::Ack { lease: Some(lease) });
        world.hears(Input::Frame { connection: ConnectionId(1), frame: ack });
        stands_still(&mut world, 200);
        assert_eq!(losses(&world, 1), [], "after {stall} ms");
    }
    // Who says nothing after all has lost it, and no time is won by looking twice.
    let (mut world, _) = assigned();
    for _ in 0..101 {
        stands_still(&mut world, 100);
        world.hears(Input::Frame { connection: ConnectionId(1), frame: Say::Heartbeat(v1::Heartbeat {}) });
    }
    assert_eq!(losses(&world, 1), [v1::LeaseLossReason::NotAcknowledged]);
}

#[test]
fn a_worker_whose_stream_broke_has_its_time_to_come_back_although_the_daemon_stood_still() {
    let (mut world, lease) = assigned();
    world.hears(Input::Disconnected { connection: ConnectionId(1) });
    stands_still(&mut world, 3_600_000);
    let Input::Frame { frame: Say::Hello(again), .. } = hello(2, 1) else { panic!("no hello") };
    let again = v1::Hello { held: vec![lease], ..again };
    world.hears(Input::Frame { connection: ConnectionId(2), frame: Say::Hello(again) });
    stands_still(&mut world, 200);
    assert_eq!(losses(&world, 1), []);
}

/// A second in which whatever is due is done at its time.
fn second_passes(world: &mut World) {
    world.now += 1_000;
    world.hears(Input::Wake);
    world.commits_all();
}

#[test]
fn a_clock_that_runs_back_takes_no_time_from_a_worker_that_may_come_back() {
    let (mut world, lease) = assigned();
    let ack = Say::Ack(v1::Ack { lease: Some(lease) });
    world.hears(Input::Frame { connection: ConnectionId(1), frame: ack });
    for _ in 0..10 {
        second_passes(&mut world);
        world.hears(Input::Frame { connection: ConnectionId(1), frame: Say::Heartbeat(v1::Heartbeat {}) });
    }
    let (latest, back) = (world.now, 8_000);
    world.now -= back;
    world.hears(Input::Disconnected { connection: ConnectionId(1) });
    // Its stream broke at the latest moment that there was, and it has 15 s from then on.
    while world.now < latest + 14_000 {
        second_passes(&mut world);
    }
    assert_eq!(losses(&world, 1), []);
    second_passes(&mut world);
    assert_eq!(losses(&world, 1), [v1::LeaseLossReason::Disconnected]);
}

#[test]
fn no_ask_begins_its_turn_while_the_daemon_drains() {
    let mut world = World::new();
    world.starts(1, ask("a", Some("sage")), None);
    world.starts(2, ask("a", Some("sage")), None);
    world.commits_all();
    let begun = |world: &World, number: u128| {
        let events = world.events(RunId(Uuid::from_u128(number)));
        events.iter().any(|body| matches!(body, Body::AskBegun(_)))
    };
    assert!(begun(&world, 1) && !begun(&world, 2));
    world.hears(Input::Drain);
    let cancel =
        capataz_engine::Input::Cancel { reason: String::new(), force: true, request_id: "c".to_owned() };
    let first = RunId(Uuid::from_u128(1));
    let request = Request::Command { run: first, if_seq: None, input: Box::new(cancel) };
    world.hears(Input::Request { reply: ReplyId(9), request });
    world.commits_all();
    assert!(world.events(first).iter().any(|body| matches!(body, Body::RunFinished(_))));
    assert!(!begun(&world, 2), "its turn comes with the next daemon");
}

/// A plan whose task is a run of its own.
fn with_a_child() -> Work {
    let Work::Plan(inner) = one_task() else { panic!("a plan") };
    let run = v1::ChildRun { work: Some(v1::child_run::Work::Plan(inner)), ..v1::ChildRun::default() };
    plan_of(v1::Task { name: "t".to_owned(), run: Some(Box::new(run)), ..v1::Task::default() })
}

/// The child that is looked for, and the number of the question.
#[track_caller]
fn sought(outputs: &[Output]) -> (RunId, u64) {
    let sought = outputs.iter().find_map(|output| match output {
        Output::FindChild { child, number } => Some((*child, *number)),
        _ => None,
    });
    sought.unwrap()
}

#[test]
fn no_child_is_created_while_the_daemon_drains_and_its_parent_gets_it_of_the_next_one() {
    let mut world = World::new();
    world.starts(1, with_a_child(), None);
    let (child, number) = sought(&world.commits());
    let nowhere = |number| Input::ChildFound { child, number, found: FoundRun::Nowhere };
    world.hears(Input::Drain);
    world.hears(nowhere(number));
    world.commits_all();
    let is_begun = |world: &World| {
        let events = world.events(child);
        events.iter().any(|body| matches!(body, Body::RunAccepted(_)))
    };
    assert!(!is_begun(&world));
    let ends = |body: &Body| matches!(body, Body::ChildEnded(_) | Body::RunFinished(_));
    assert!(!world.events(RunId(Uuid::from_u128(1))).iter().any(ends), "its parent waits for it");

    // The parent asks for it first, and says what it is to do once it is nowhere.
    let (again, number) = sought(&world.restarts());
    assert_eq!(again, child);
    let (_, number) = sought(&world.hears(nowhere(number)));
    world.hears(nowhere(number));
    world.commits_all();
    assert!(is_begun(&world));
}

/// The children that the log names once everything is durable that is on its way.
fn named_in_flight(world: &World) -> Vec<RunId> {
    let events = world.waiting.iter().flat_map(|append| feed::split(&append.events));
    let named = events.filter_map(|event| match v1::Event::decode(event).unwrap().body {
        Some(Body::ChildNamed(named)) => Some(named.run_id.parse::<RunId>().unwrap()),
        _ => None,
    });
    named.collect()
}

#[test]
fn nobody_is_told_to_create_a_child_before_its_parents_log_names_it_even_where_somebody_asks_for_it() {
    let mut world = World::new();
    let parent = run(1);
    world.starts(1, with_a_child(), None);
    let [child] = named_in_flight(&world)[..] else { panic!("one child") };
    let asked = || {
        let kin = Kin::Unknown { parent, task: "t".to_owned(), child };
        Input::Carried(Box::new(Carried::Kin(kin)))
    };
    let is_sought =
        |outputs: &[Output]| outputs.iter().any(|output| matches!(output, Output::FindChild { .. }));
    assert!(!is_sought(&world.hears(asked())), "it is not durable that there is to be one");
    let (found, number) = sought(&world.commits());
    assert_eq!(found, child);
    // Whoever cannot read the store knows nothing of it, and it is looked for again when somebody asks.
    let unread = Input::ChildFound { child, number, found: FoundRun::Unread };
    assert!(!is_sought(&world.hears(unread)));
    let (found, _) = sought(&world.hears(asked()));
    assert_eq!(found, child);
}

/// A daemon that died between the two appends would take the run for finished, and never go on with it.
#[test]
fn the_run_list_is_never_ahead_of_its_log() {
    // Accepted, a wave, leased, lost: the fifth event of a run is one too many.
    let mut world = World::with(Config { max_events_per_run: 5, ..Config::default() });
    world.starts(1, one_task(), None);
    world.starts(2, one_task(), None);
    world.hears(hello(1, 2));
    world.commits_all();
    world.hears(Input::Disconnected { connection: ConnectionId(1) });
    // Both leases are lost; then both tasks are leased again, which ends their runs in the same turn.
    let outputs = world.hears(hello(2, 2));
    let run = RunId(Uuid::from_u128(1));
    let appends = outputs.iter().filter_map(|output| match output {
        Output::Append { append, .. } if append.run == run => Some(append),
        _ => None,
    });
    // Listed as finished, and with its end among the events of the same append.
    let ends = appends.map(|append| {
        let events = feed::split(&append.events).map(|event| v1::Event::decode(event).unwrap());
        let has_ended = events.last().is_some_and(|event| matches!(event.body, Some(Body::RunFinished(_))));
        let is_listed = append.summary.as_ref().is_some_and(|summary| summary.finished_at.is_some());
        (append.first_seq, is_listed, has_ended)
    });
    assert_eq!(ends.collect::<Vec<_>>(), [(4, true, true)]);
}

/// The disk takes all that waits. The streams of which a state is cached then.
fn cached(world: &mut World) -> BTreeSet<RunId> {
    let mut cached = BTreeSet::new();
    while !world.waiting.is_empty() {
        cached.extend(snapshots(&world.commits()));
    }
    cached
}

/// A state that holds so much is a little smaller than the largest that is cached.
const LITTLE_LESS: usize = MAX_SNAPSHOT_BYTES - 64 * 1024;

#[test]
fn a_run_whose_state_is_too_large_is_not_cached_and_goes_on() {
    let run = RunId(Uuid::from_u128(1));
    for (size, is_cached) in [(LITTLE_LESS, true), (MAX_SNAPSHOT_BYTES, false)] {
        let mut world = World::new();
        let input = v1::Payload {
            media_type: "application/octet-stream".to_owned(),
            data: Some(v1::payload::Data::Inline(vec![0; size].into())),
        };
        world.starts(1, plan_of(v1::Task { input: Some(input), ..task("t", "a") }), None);
        assert_eq!(cached(&mut world).contains(&run), is_cached, "{size}");
        world.hears(hello(1, 1));
        let outputs = world.commits();
        let lease = frames(&outputs).into_iter().find_map(|frame| match frame {
            Hear::Assignment(assignment) => assignment.lease.clone(),
            _ => None,
        });
        assert!(lease.is_some(), "{size}");
        let completed = Say::Completed(v1::Completed { lease, ..v1::Completed::default() });
        world.hears(Input::Frame { connection: ConnectionId(1), frame: completed });
        world.commits_all();
        let ended = world.events(run).into_iter().find_map(|body| match body {
            Body::RunFinished(finished) => Some(finished.outcome()),
            _ => None,
        });
        assert_eq!(ended, Some(v1::RunOutcome::Succeeded), "{size}");
    }
}

#[test]
fn a_session_whose_state_is_too_large_is_not_cached_and_goes_on() {
    let stream = session_stream("a");
    for (size, is_cached) in [(LITTLE_LESS, true), (MAX_SNAPSHOT_BYTES, false)] {
        let mut world = World::new();
        let state = format!("{{\"notes\":\"{}\"}}", "x".repeat(size));
        let import = ImportSession { session: "a".to_owned(), state, repairs: Vec::new() };
        let request = Request::ImportSession(Box::new(import));
        world.hears(Input::Request { reply: ReplyId(1), request });
        assert_eq!(cached(&mut world).contains(&stream), is_cached, "{size}");
        world.asks(2, "a");
        assert_eq!(cached(&mut world).contains(&stream), is_cached, "{size}");
        assert_eq!(world.turns("a"), 1, "{size}");
    }
}
