//! The largest inputs that are accepted, and how long each turn of a daemon lasts that they lead to: without its writer, for a
//! commit holds up nobody but those who wait for it.
//!
//! Times are those of the processor and not of the clock, and are compared with a floor of the same run, as for what the engine
//! alone decides (`crates/engine/src/decide/tests/largest.rs`): to read, copy and write once as much JSON as the references of a
//! wave may have to do with. The tests print them, the longest first. Sizes are the same however this is compiled.

use std::collections::{BTreeSet, VecDeque};

use capataz_contracts::validate::{self, PlanLimits};
use capataz_contracts::{
    spec,
    v1::{self, connect_request::Frame as Say, connect_response::Frame as Hear, event::Body, payload::Data},
};
use capataz_crew::{ConnectionId, Now};
use capataz_engine::{self as engine, MAX_PLAN_BYTES, Plan, ViewOptions, Work};
use capataz_shard::journal::{load, load_session};
use capataz_shard::shard::Config;
use capataz_shard::{
    Answer, Driver, Input, Output, ReplyId, Request, StartReply, StartRequest, find, session_stream,
};
use capataz_store::{MemoryStore, Millis, ShardWriter, Store};
use prost::Message;
use serde_json::Value;

use crate::snapshots::{creation, event};
use crate::support::{SHARD, Sage, claim, hello, plan, run, start, task};

/// Bytes and values that the references of one wave may have to do with (docs/limits.md).
const BYTES: usize = 8 * 1024 * 1024;
const VALUES: usize = 250_000;
/// How many floors the longest turn may last, compiled as tests are: three times as many as what the engine decides in one. A
/// turn queues and leases besides, makes appends, tells of what is durable, caches states, and answers callers.
const FLOORS: u64 = 36;

/// The worker of most of the tests.
const WORKER: ConnectionId = ConnectionId(1);

/// The time that this thread has had of a processor, in nanoseconds.
fn used() -> u64 {
    let said = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    said.split_whitespace().next().unwrap().parse().unwrap()
}

fn floor() -> u64 {
    let values = format!("[{}]", vec!["0"; VALUES].join(","));
    let text = format!("\"{}\"", "x".repeat(BYTES));
    let once = || {
        let before = used();
        for json in [&values, &text] {
            let value: Value = serde_json::from_str(json).unwrap();
            assert_eq!(serde_json::to_vec(&value.clone()).unwrap().len(), json.len());
        }
        used() - before
    };
    (0..3).map(|_| once()).min().unwrap()
}

/// A daemon's core over a disk that takes everything at once, and how long its turns have lasted.
struct World {
    store: MemoryStore,
    writer: Box<dyn ShardWriter>,
    core: Driver,
    now: i64,
    requests: u64,
    floor: u64,
    turns: Vec<(u64, String)>,
}

impl World {
    fn with(config: &Config) -> Self {
        let store = MemoryStore::new();
        let (writer, recovered) = claim(&store, 1);
        let core = Driver::new(config, vec![SHARD]);
        let turns = Vec::new();
        let mut world = Self { store, writer, core, now: 1_000_000, requests: 0, floor: floor(), turns };
        world.does("a shard comes", recovered);
        world
    }

    /// States are cached whenever something of them is durable.
    fn that_caches() -> Self {
        Self::with(&Config { snapshot_every: 1, session_snapshot_every: 1, ..Config::default() })
    }

    /// One turn; what it wants done.
    fn turn(&mut self, what: &str, input: Input) -> Vec<Output> {
        self.now += 1;
        let mut outputs = Vec::new();
        let before = used();
        self.core.handle(Now::alike(self.now), input, &mut outputs);
        self.turns.push((used() - before, what.to_owned()));
        outputs
    }

    /// The turn of this input, and those of whatever comes of it; what all of them want done.
    fn does(&mut self, what: &str, input: Input) -> Vec<Output> {
        let mut done = Vec::new();
        let mut coming = VecDeque::from([(what.to_owned(), input)]);
        while let Some((what, input)) = coming.pop_front() {
            let outputs = self.turn(&what, input);
            let mut appends = Vec::new();
            for output in &outputs {
                match output {
                    Output::Append { append, .. } => appends.push(append.clone()),
                    Output::LoadSession { stream, load } => {
                        let state = Ok(load_session(&self.store, *stream).unwrap().map(Box::new));
                        let read = Input::SessionLoaded { stream: *stream, load: *load, state };
                        coming.push_back((format!("{what}: its session"), read));
                    }
                    Output::LoadRun { run, load: number } => {
                        let state = Ok(Some(Box::new(load(&self.store, *run).unwrap())));
                        let read = Input::RunLoaded { run: *run, load: *number, state };
                        coming.push_back((format!("{what}: its run"), read));
                    }
                    Output::Query { run, query, asked } => {
                        let (ask, context) = self.core.asks_for(*run).unwrap();
                        let answer = find(&Sage, ask, context, asked.clone()).unwrap();
                        let found = Input::Answered { run: *run, query: *query, answer };
                        coming.push_back((format!("{what}: its spec"), found));
                    }
                    Output::Restart { .. } => panic!("the log is not what the core believes"),
                    _ => {}
                }
            }
            if !appends.is_empty() {
                let outcomes = self.writer.commit(&appends).unwrap();
                let committed = Input::Committed { shard: SHARD, outcomes };
                coming.push_back((format!("{what}: durable"), committed));
            }
            done.extend(outputs);
        }
        done
    }

    fn asks(&mut self, what: &str, request: Request) -> Vec<Output> {
        self.requests += 1;
        self.does(what, Input::Request { reply: ReplyId(self.requests), request })
    }

    /// Starts a run, whose caller waits for its end.
    fn starts(&mut self, what: &str, request: StartRequest) -> Vec<Output> {
        self.asks(what, Request::Start(Box::new(StartRequest { wait: true, ..request })))
    }

    fn commands(&mut self, what: &str, number: u128, input: engine::Input) -> Vec<Output> {
        self.asks(what, Request::Command { run: run(number), if_seq: None, input: Box::new(input) })
    }

    /// Ends the run at once, whatever is at work of it.
    fn cancels(&mut self, what: &str, number: u128) -> Vec<Output> {
        let request_id = "cancel".to_owned();
        self.commands(what, number, engine::Input::Cancel { reason: String::new(), force: true, request_id })
    }

    fn completes(&mut self, what: &str, lease: v1::LeaseRef, output: v1::Payload) -> Vec<Output> {
        let completed =
            v1::Completed { lease: Some(lease), output: Some(output), ..v1::Completed::default() };
        self.does(what, Input::Frame { connection: WORKER, frame: Say::Completed(completed) })
    }

    /// How the run has ended, by the list of runs.
    fn outcome(&self, number: u128) -> i32 {
        self.store.get_run(run(number)).unwrap().unwrap().summary.outcome
    }

    /// Says what took how long, and checks the longest of it.
    #[track_caller]
    fn check(mut self) {
        self.turns.sort();
        let milliseconds = |nanoseconds: u64| nanoseconds as f64 / 1e6;
        println!("{:8.1} ms  the floor", milliseconds(self.floor));
        for (nanoseconds, what) in self.turns.iter().rev().take(12) {
            let floors = *nanoseconds as f64 / self.floor as f64;
            println!("{:8.1} ms  {floors:4.1} floors  {what}", milliseconds(*nanoseconds));
        }
        let (longest, what) = self.turns.last().unwrap();
        assert!(
            *longest <= FLOORS * self.floor,
            "{what}: {longest} ns, and the floor takes {} ns",
            self.floor
        );
    }
}

/// What workers are given.
fn assigned(outputs: &[Output]) -> Vec<v1::Assignment> {
    let assigned = outputs.iter().filter_map(|output| match output {
        Output::Frame { frame: Hear::Assignment(assignment), .. } => Some(assignment.clone()),
        _ => None,
    });
    assigned.collect()
}

fn leases(outputs: &[Output]) -> Vec<v1::LeaseRef> {
    assigned(outputs).into_iter().map(|assignment| assignment.lease.unwrap()).collect()
}

fn json(text: &str) -> v1::Payload {
    let data = Some(Data::Inline(text.to_owned().into()));
    v1::Payload { media_type: "application/json".to_owned(), data }
}

/// An output that has 32 KiB within a text: a list of so many of these, or one text.
fn output(item: &str) -> v1::Payload {
    let room = 32 * 1024 - 64;
    let escaped = item.matches(['"', '\\']).count();
    json(&match item {
        "text" => format!("\"{}\"", "x".repeat(room)),
        item => format!("[{}]", vec![item; room / (item.len() + 1 + escaped)].join(",")),
    })
}

/// A plan of as many tasks as there may be, whose names fill most of what a plan may have.
fn widest() -> v1::Plan {
    let tasks = (0..50_000).map(|index| task(&format!("{index:0>48x}"), "a"));
    let wave = v1::Wave { tasks: tasks.collect(), ..v1::Wave::default() };
    let mut plan = v1::Plan { name: "widest".to_owned(), waves: vec![wave], ..v1::Plan::default() };
    let violations = validate::plan(&plan, &PlanLimits::default());
    assert!(violations.is_empty(), "{violations:?}");
    Plan::materialise(&mut plan).unwrap();
    let bytes = plan.encoded_len();
    assert!(bytes <= MAX_PLAN_BYTES && bytes > MAX_PLAN_BYTES / 10 * 8, "{bytes} bytes");
    plan
}

#[test]
fn a_plan_of_as_many_tasks_as_there_may_be_is_begun_goes_on_and_is_cancelled_in_short_turns() {
    let mut world = World::that_caches();
    world.does("a worker comes", hello(WORKER, "a", 1));
    let begun = world.starts("the widest plan begins", start(run(1), Work::Plan(widest())));
    let leased = leases(&begun);
    let [lease] = &leased[..] else { panic!("{} leases for one slot", leased.len()) };
    let ended = world.completes("one of very many tasks ends", lease.clone(), json("1"));
    assert_eq!(leases(&ended).len(), 1, "the next one is given out");
    let cancelled = world.cancels("the widest plan is cancelled", 1);
    let is_told = cancelled.iter().any(|output| {
        matches!(output, Output::Reply { answer: Answer::Start(Ok(StartReply::Finished { .. })), .. })
    });
    assert!(is_told, "its caller has waited for it");
    assert_eq!(world.outcome(1), v1::RunOutcome::Cancelled as i32);
    world.check();
}

#[test]
fn as_many_slots_as_a_worker_may_have_are_filled_and_filled_again_in_short_turns() {
    let mut world = World::with(&Config::default());
    world.does("a worker of 10,000 slots comes", hello(WORKER, "a", 10_000));
    let begun = world.starts("the widest plan fills 10,000 slots", start(run(1), Work::Plan(widest())));
    assert_eq!(assigned(&begun).len(), 10_000);
    world.does("the worker's stream breaks", Input::Disconnected { connection: WORKER });
    let again = world.does("it comes back without what it had", hello(ConnectionId(2), "a", 10_000));
    assert_eq!(assigned(&again).len(), 10_000);
    world.check();
}

/// Two waves of 300 tasks, of which each of the second one reads the output of one of the first. It goes on whatever fails: not
/// all of this has room.
fn referring() -> v1::Plan {
    let first = (0..300).map(|index| task(&format!("s{index}"), "a"));
    let second = (0..300).map(|index| v1::Task {
        input: Some(json(&format!("[\"${{tasks.s{index}.output}}\"]"))),
        ..task(&format!("t{index}"), "a")
    });
    let wave = |tasks: Vec<v1::Task>| v1::Wave { tasks, ..v1::Wave::default() };
    let waves = vec![wave(first.collect()), wave(second.collect())];
    let kind = v1::AggregationKind::ContinueAll.into();
    let policy = Some(v1::AggregationPolicy { kind, ..v1::AggregationPolicy::default() });
    let mut plan = v1::Plan { name: "referring".to_owned(), policy, waves, ..v1::Plan::default() };
    Plan::materialise(&mut plan).unwrap();
    plan
}

#[test]
fn a_wave_that_refers_to_as_much_as_it_may_begins_in_a_short_turn() {
    // The state is cached once, when almost all of the outputs are in it.
    let mut world = World::with(&Config { snapshot_every: 590, ..Config::default() });
    world.does("a worker comes", hello(WORKER, "a", 300));
    for (number, item) in (1..).zip(["text", "[]", "{\"\":0}"]) {
        let begun = world.starts("300 tasks begin", start(run(number), Work::Plan(referring())));
        let first = leases(&begun);
        assert_eq!(first.len(), 300);
        let mut last = Vec::new();
        for lease in first {
            last = world.completes(&format!("a wave with outputs of {item}"), lease, output(item));
        }
        assert!(leases(&last).iter().any(|lease| lease.wave == 1), "the next wave has begun");
        world.cancels("a wave with large inputs is cancelled", number);
        assert_eq!(world.outcome(number), v1::RunOutcome::Cancelled as i32);
    }
    world.check();
}

/// A session that keeps as much as it may: 20 messages of 4 KiB, and what specs wanted to be kept.
fn largest_session() -> Vec<v1::Event> {
    let opened = v1::SessionOpened { session: "s".to_owned() };
    let message = v1::SessionMessage { text: "x".repeat(4 * 1024), ..v1::SessionMessage::default() };
    let turn = v1::SessionTurn {
        messages: vec![message; 20],
        custom: format!("{{\"a\":[{}]}}", vec!["0"; 120_000].join(",")).into(),
        ..v1::SessionTurn::default()
    };
    vec![event(1, Body::SessionOpened(opened)), event(2, Body::SessionTurn(turn))]
}

/// The answer of a spec to this request that takes longest of those that have a mebibyte: what it wants to be kept are so many
/// values.
fn largest_answer(request: &Value) -> String {
    let values = |bytes: usize| vec!["\"\\n\""; bytes / 5].join(",");
    let (small, large) = (values(250_000), values(780_000));
    format!(
        r#"{{"success":true,"response":{{"text":"t","format":"text"}},"spec":{},"request_id":{},"timestamp":1,
        "metadata":{{"processing_time_ms":1,"confidence":0.5}},
        "context_update":{{"custom":{{"a":[{small}],"b":[{large}]}}}}}}"#,
        request["spec"], request["id"],
    )
}

#[test]
fn the_largest_ask_in_the_largest_session_and_the_largest_answer_of_a_spec_take_short_turns() {
    let mut world = World::that_caches();
    let session = creation(session_stream("s"), &largest_session(), "s");
    world.writer.commit(&[session]).unwrap();
    world.does("a worker comes", hello(WORKER, "sage", 1));
    let preferences: Vec<String> = (0..20_000).map(|index| format!("\"k{index}\":0")).collect();
    let ask = v1::Ask {
        text: "palabra ".repeat(2_000),
        request_id: Some("r".to_owned()),
        session: Some("s".to_owned()),
        spec: Some("sage".to_owned()),
        preferences_json: Some(format!("{{{}}}", preferences.join(","))),
        ..v1::Ask::default()
    };
    let begun = world.starts("the largest ask", start(run(1), Work::Ask(ask)));
    let called = assigned(&begun);
    let [v1::Assignment { lease: Some(lease), input: Some(input), .. }] = &called[..] else {
        panic!("{} calls of its spec", called.len())
    };
    let Some(Data::Inline(request)) = &input.data else { panic!("a request is inline") };
    let answer = largest_answer(&serde_json::from_slice(request).unwrap());
    assert!(answer.len() > 1_000_000 && answer.len() <= 1024 * 1024, "{}", answer.len());
    let hash = world.store.put_blob(answer.as_bytes(), Millis(world.now)).unwrap();
    let mut blob = v1::BlobRef::new(hash.to_string(), answer.len() as u64);
    blob.answer = Some(Box::new(spec::excerpt(answer.as_bytes())));
    let output = v1::Payload { media_type: "application/json".to_owned(), data: Some(Data::Blob(blob)) };
    world.completes("the largest answer of a spec", lease.clone(), output);
    assert_eq!(world.outcome(1), v1::RunOutcome::Succeeded as i32);
    world.check();
}

#[test]
fn the_largest_script_and_the_largest_answer_of_a_person_take_short_turns() {
    let mut world = World::that_caches();
    let action = |index: usize| v1::Action {
        id: format!("a{index}"),
        kind: v1::ActionKind::Fill as i32,
        value: Some("x".repeat(900)),
        ..v1::Action::default()
    };
    let script = v1::Script {
        name: "s".to_owned(),
        actions: (0..1_000).map(action).collect(),
        run_id: run(1).to_string(),
        ..v1::Script::default()
    };
    // Nobody has a browser: the script is there, and waits.
    let script = start(run(1), Work::Script(Box::new(script)));
    world.starts("the largest script begins", StartRequest { agents: BTreeSet::new(), ..script });
    assert_eq!(world.outcome(1), v1::RunOutcome::Unspecified as i32);

    let effect = Some(v1::Effect::AtMostOnce as i32);
    let once = plan([v1::Task { effect, ..task("once", "a") }]);
    world.does("a worker comes", hello(WORKER, "a", 1));
    world.starts("a plan of one task begins", start(run(2), Work::Plan(once)));
    world.does("the worker's stream breaks", Input::Disconnected { connection: WORKER });
    world.does("it comes back without what it had", hello(ConnectionId(2), "a", 1));
    let options = ViewOptions { tasks: false, outputs: false, offset: 0, limit: 0 };
    let view = load(&world.store, run(2)).unwrap().view(String::new(), options);
    let question_id = view.questions.first().unwrap().question_id.clone();
    let answer = engine::Answer { value: Some(output("0")), ..engine::Answer::from("succeeded") };
    let resolve = engine::Input::Resolve { question_id, answer, request_id: "r".to_owned() };
    world.commands("the largest answer of a person", 2, resolve);
    assert_eq!(world.outcome(2), v1::RunOutcome::Succeeded as i32);
    world.check();
}
