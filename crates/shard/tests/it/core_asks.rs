//! Asks of sessions through the core, which dies at every step there is.

use std::collections::{BTreeSet, VecDeque};

use capataz_contracts::v1::{
    self, connect_request::Frame as Say, connect_response::Frame as Hear, event::Body,
};
use capataz_crew::{ConnectionId, Now};
use capataz_engine::session::SessionState;
use capataz_engine::{Wall, Work};
use capataz_shard::feed;
use capataz_shard::journal::{load, load_session};
use capataz_shard::shard::Config;
use capataz_shard::{
    Answer, Chosen, Declined, Driver, IdleSessions, Input, Output, Recovered, ReplyId, Request, Route,
    StartRequest, find, session_stream,
};
use capataz_shard::{StartReply, WaitReply};
use capataz_store::{Append, IdempotencyKey, Mark, MemoryStore, RunId, RunQuery, ShardWriter, Store};
use prost::Message;
use serde_json::{Value, json};

use crate::support::{SHARD, run, start};

const SPECS: [&str; 2] = ["wave", "kiro"];
/// The session of each ask, in the order in which they are asked.
const ASKS: [Option<&str>; 7] = [Some("a"), Some("b"), Some("a"), None, Some("a"), Some("b"), Some("a")];

/// A router that gives every text to `wave`.
struct Waves;

impl Route for Waves {
    fn route(&self, _: &v1::Ask, _: &v1::SessionContext, spec: Option<&str>) -> Chosen {
        let spec = spec.unwrap_or("wave");
        let routing = v1::Routing { spec: spec.to_owned(), confidence: 0.5, ..v1::Routing::default() };
        let missing = || v1::Error { code: "SPEC_NOT_AVAILABLE".to_owned(), ..v1::Error::default() };
        let target =
            if SPECS.contains(&spec) { Ok((Box::new(routing), spec.to_owned())) } else { Err(missing()) };
        Chosen { target, default_spec: Some("wave".to_owned()) }
    }
}

/// A daemon that may die, a disk that stays, clients that repeat what was not answered, and a worker.
struct World {
    store: MemoryStore,
    writer: Box<dyn ShardWriter>,
    core: Driver,
    /// What the core is told next.
    inbox: VecDeque<Input>,
    connection: u64,
    /// The numbers of the asks that have not ended for their clients.
    open: BTreeSet<usize>,
    runs_made: u128,
    /// Sessions that the core has had read.
    sessions_read: usize,
    config: Config,
    /// Bytes that each answer wants to be kept, and each text has beside its number.
    notes: usize,
    text: usize,
    /// The worker says nothing more.
    mute: bool,
    /// Asks that were declined, for there is no room.
    declined: Vec<usize>,
}

impl World {
    fn new() -> Self {
        Self::with(0..ASKS.len())
    }

    /// Asks those at once.
    fn with(asks: std::ops::Range<usize>) -> Self {
        Self::configured(asks, Config::default())
    }

    fn configured(asks: std::ops::Range<usize>, config: Config) -> Self {
        let store = MemoryStore::new();
        let writer = store.claim(SHARD, Mark(1)).unwrap();
        let mut world = Self {
            store,
            writer,
            core: Driver::new(&config, vec![SHARD]),
            inbox: VecDeque::new(),
            connection: 0,
            open: asks.collect(),
            runs_made: 0,
            sessions_read: 0,
            config,
            notes: 0,
            text: 0,
            mute: false,
            declined: Vec::new(),
        };
        world.begin();
        world
    }

    /// A daemon begins on what the disk holds; its clients and its worker come.
    fn begin(&mut self) {
        let mark = Mark(self.store.history(SHARD).unwrap().newest().unwrap().0 + 1);
        self.writer = self.store.claim(SHARD, mark).unwrap();
        self.core = Driver::new(&self.config, vec![SHARD]);
        self.inbox.clear();
        let unfinished = self.store.unfinished(SHARD, None, usize::MAX).unwrap();
        let runs: Vec<_> = unfinished
            .into_iter()
            .map(|unfinished| (unfinished.run, load(&self.store, unfinished.run).unwrap()))
            .collect();
        let streams: BTreeSet<RunId> =
            runs.iter().filter_map(|(_, state)| state.session()).map(session_stream).collect();
        let sessions = streams.into_iter().map(|stream| (stream, load_session(&self.store, stream).unwrap()));
        let sessions = sessions.collect();
        let epoch = self.writer.epoch();
        self.inbox.push_back(Input::Recovered {
            shard: SHARD,
            recovered: Recovered { epoch, runs, sessions, ..Recovered::default() },
        });
        self.connection += 1;
        let agents =
            SPECS.map(|name| v1::Agent { name: name.to_owned(), max_concurrency: 4, ..Default::default() });
        let hello = v1::Hello {
            worker_id: "w".to_owned(),
            agents: agents.to_vec(),
            slots: 8,
            ..v1::Hello::default()
        };
        self.say(Say::Hello(hello));
        for number in self.open.clone() {
            self.ask(number);
        }
    }

    fn say(&mut self, frame: Say) {
        self.inbox.push_back(Input::Frame { connection: ConnectionId(self.connection), frame });
    }

    fn ask(&mut self, number: usize) {
        self.ask_in(number, ASKS[number].map(str::to_owned));
    }

    fn ask_in(&mut self, number: usize, session: Option<String>) {
        self.runs_made += 1;
        let ask = v1::Ask {
            text: format!("text {number}{}", "x".repeat(self.text)),
            session,
            request_id: Some(format!("req-{number}")),
            ..v1::Ask::default()
        };
        let key = IdempotencyKey { key: format!("key-{number}").into(), request: [1; 32] };
        let start = start(run(self.runs_made), Work::Ask(ask));
        let request = StartRequest { key: Some(key), wait: true, ..start };
        let request = Request::Start(Box::new(request));
        self.inbox.push_back(Input::Request { reply: ReplyId(number as u64), request });
    }

    /// Handles one input and what follows from it at once. Whether there was one.
    fn step(&mut self) -> bool {
        let Some(input) = self.inbox.pop_front() else { return false };
        let mut outputs = Vec::new();
        self.core.handle(Now::alike(1_000), input, &mut outputs);
        let mut appends: Vec<Append> = Vec::new();
        for output in outputs {
            match output {
                Output::Append { append, .. } => appends.push(append),
                Output::Query { run, query, asked } => {
                    let Some((ask, context)) = self.core.asks_for(run) else { continue };
                    let answer = find(&Waves, ask, context, asked).unwrap();
                    self.inbox.push_back(Input::Answered { run, query, answer });
                }
                Output::LoadSession { stream, load } => {
                    self.sessions_read += 1;
                    let state = load_session(&self.store, stream).unwrap().map(Box::new);
                    self.inbox.push_back(Input::SessionLoaded { stream, load, state: Ok(state) });
                }
                Output::Frame { frame: Hear::Assignment(assignment), .. } if !self.mute => {
                    self.answer(assignment);
                }
                Output::Reply { reply, answer } => self.replied(usize::try_from(reply.0).unwrap(), answer),
                Output::Restart { .. } => panic!("the log is not what the core believes"),
                _ => {}
            }
        }
        if !appends.is_empty() {
            let outcomes = self.writer.commit(&appends).unwrap();
            // News of the disk go before all else, as they do in the shell.
            self.inbox.push_front(Input::Committed { shard: SHARD, outcomes });
        }
        true
    }

    fn replied(&mut self, number: usize, answer: Answer) {
        match answer {
            Answer::Start(Ok(StartReply::Finished { result, .. }))
            | Answer::Wait(Ok(WaitReply::Finished { result, .. })) => {
                assert_eq!(result.outcome(), v1::RunOutcome::Succeeded, "{result:?}");
                self.open.remove(&number);
            }
            // The ask is there already: its client waits for it.
            Answer::Start(Ok(StartReply::Existing { run })) => {
                let reply = ReplyId(number as u64);
                self.inbox.push_back(Input::Request { reply, request: Request::Wait { run } });
            }
            Answer::Wait(Ok(WaitReply::NotActive { run })) => {
                assert!(self.store.get_run(run).unwrap().unwrap().summary.finished_at.is_some());
                self.open.remove(&number);
            }
            Answer::Start(Err(Declined::Overloaded { retry_after_ms: 1_000 })) => {
                self.open.remove(&number);
                self.declined.push(number);
            }
            other => panic!("ask {number}: {other:?}"),
        }
    }

    /// `wave` hands every third text over to `kiro`.
    fn answer(&mut self, assignment: v1::Assignment) {
        let Some(v1::payload::Data::Inline(input)) = assignment.input.and_then(|input| input.data) else {
            panic!("a request is inline")
        };
        let request: Value = serde_json::from_slice(&input).unwrap();
        let mut response = json!({
            "success": true,
            "spec": request["spec"],
            "request_id": request["id"],
            "timestamp": 1_000,
            "response": { "text": format!("answer to {}", request["text"]), "format": "text" },
            "metadata": { "processing_time_ms": 0, "confidence": 0.5 },
            "context_update": { "custom": { "last": request["id"] } },
        });
        if self.notes > 0 {
            response["context_update"]["custom"]["notes"] = "x".repeat(self.notes).into();
        }
        if request["spec"] == "wave" && request["id"] == "req-2" {
            response["transition"] = json!({
                "suggest_spec": "kiro", "reason": "r", "confidence": 0.9, "auto_transition": true,
            });
        }
        let output = v1::Payload {
            media_type: "application/json".to_owned(),
            data: Some(v1::payload::Data::Inline(response.to_string().into())),
        };
        let lease = assignment.lease;
        self.say(Say::Completed(v1::Completed { lease, output: Some(output), ..v1::Completed::default() }));
    }

    fn events(&self, stream: RunId) -> Vec<v1::Event> {
        let rows = self.store.read_run(stream, 0, usize::MAX, usize::MAX).unwrap();
        let bytes = rows.iter().flat_map(|row| feed::events_of(row, 0).unwrap());
        bytes.map(|event| v1::Event::decode(event).unwrap()).collect()
    }

    /// Each ask has ended once, and each session holds its asks one after the other.
    fn check(&self) {
        let query = RunQuery { kind: Some(v1::RunKind::Ask as i32), limit: 100, ..RunQuery::default() };
        let asks = self.store.list_runs(&query).unwrap();
        assert_eq!(asks.len(), ASKS.len(), "one run for each ask");
        assert!(asks.iter().all(|row| row.summary.finished_at.is_some()));
        for session in ["a", "b"] {
            let events = self.events(session_stream(session));
            let numbers: Vec<u64> = events.iter().map(|event| event.seq).collect();
            assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
            let state = SessionState::fold(events.clone()).unwrap();
            let turns: Vec<&v1::SessionTurn> = events
                .iter()
                .filter_map(|event| match &event.body {
                    Some(Body::SessionTurn(turn)) => Some(turn),
                    _ => None,
                })
                .collect();
            let expected = ASKS.iter().filter(|of| **of == Some(session)).count();
            assert_eq!(turns.len(), expected, "one turn for each ask of session {session}");
            let context = state.context(Wall(1_000));
            assert_eq!(context.message_count, 2 * expected as u64);
            let last = turns.last().unwrap();
            let custom: Value = serde_json::from_slice(&context.custom).unwrap();
            assert_eq!(custom["last"], last.request_id.as_str());
            // Each ask found exactly what the ones before it had left.
            for (place, turn) in turns.iter().enumerate() {
                let begun =
                    self.events(turn.run_id.parse().unwrap()).into_iter().find_map(|event| {
                        match event.body {
                            Some(Body::AskBegun(begun)) => begun.context,
                            _ => None,
                        }
                    });
                assert_eq!(begun.unwrap().message_count, 2 * place as u64, "{turn:?}");
            }
        }
        let kiro = SessionState::fold(self.events(session_stream("a"))).unwrap().context(Wall(1_000));
        assert_eq!(kiro.current_spec.as_deref(), Some("kiro"), "the session has moved");
    }
}

#[test]
fn asks_survive_a_death_at_every_step() {
    let mut undisturbed = World::new();
    let mut steps = 0;
    while undisturbed.step() {
        steps += 1;
    }
    assert!(undisturbed.open.is_empty());
    undisturbed.check();

    for first in 1..=steps {
        for second in (1..=steps).step_by(5).chain([usize::MAX]) {
            let mut world = World::new();
            let mut dies_at = VecDeque::from([first, second]);
            let mut step = 0;
            loop {
                if dies_at.front() == Some(&step) {
                    dies_at.pop_front();
                    step = 0;
                    world.begin();
                    continue;
                }
                if !world.step() {
                    break;
                }
                step += 1;
            }
            assert!(world.open.is_empty(), "died at {first} and {second}: {:?} are open", world.open);
            world.check();
        }
    }
    assert!(steps >= 30, "{steps} steps are few");
}

/// Asks one after the other, `rounds` times in each session in turn; how many sessions were read from the disk.
fn sessions_read(sessions: usize, rounds: usize) -> usize {
    read_by(World::with(0..0), sessions, rounds)
}

fn read_by(mut world: World, sessions: usize, rounds: usize) -> usize {
    for number in 0..sessions * rounds {
        // Only the asks with the numbers of `ASKS` are handed over.
        let number = number + ASKS.len();
        world.open.insert(number);
        world.ask_in(number, Some(format!("session-{}", number % sessions)));
        while world.step() {}
        assert!(world.open.is_empty(), "ask {number} has not ended");
    }
    world.sessions_read
}

#[test]
fn sessions_in_use_are_read_once_however_much_is_asked() {
    assert_eq!(sessions_read(3, 500), 3);
}

#[test]
fn sessions_left_longest_ago_are_forgotten_when_there_are_too_many() {
    // In turn: when a session is asked again, all the others were used after it.
    let (many, rounds) = (1_100, 2);
    assert_eq!(sessions_read(many, rounds), many * rounds);
}

#[test]
fn sessions_left_longest_ago_are_put_away_when_they_have_too_many_bytes() {
    // Each has a little more than 100,000 bytes, so that ten of them are too many for a million.
    let world = || {
        let idle_sessions = IdleSessions { sessions: 1_024, bytes: 1_000_000 };
        let world = World::configured(0..0, Config { idle_sessions, ..Config::default() });
        World { notes: 100_000, ..world }
    };
    assert_eq!(read_by(world(), 9, 3), 9);
    assert_eq!(read_by(world(), 11, 3), 33);
}

#[test]
fn asks_that_wait_for_their_turns_have_a_bound_in_bytes() {
    let config = Config { max_waiting_bytes: 30_000, ..Config::default() };
    let mut world = World { text: 10_000, mute: true, ..World::configured(0..0, config) };
    // The first one is at work, and three wait: 30,000 bytes and more.
    for number in 10..15 {
        world.open.insert(number);
        world.ask_in(number, Some("a".to_owned()));
        while world.step() {}
    }
    assert_eq!(world.declined, [14]);
    // Where nobody is at work, and without a session, nobody waits for a turn; behind the one in "b" there is no room either.
    for (number, session) in [(15, Some("b".to_owned())), (16, None), (17, Some("b".to_owned()))] {
        world.open.insert(number);
        world.ask_in(number, session);
        while world.step() {}
    }
    assert_eq!((world.declined.clone(), world.open.len()), (vec![14, 17], 6));
}
