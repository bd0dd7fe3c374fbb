//! Inputs that are written down: all of them come back as they were, lead to the same outputs, and nothing else passes
//! for them.

use std::collections::{BTreeMap, BTreeSet};

use capataz_contracts::v1::{self, connect_request::Frame as Say, event::Body};
use capataz_crew::link::Packet;
use capataz_crew::{ConnectionId, Known, KnownAgent, Now, ToShard};
use capataz_engine::session::SessionState;
use capataz_engine::{self as engine, Fork, QueryId, StartRun, TaskRef, Wall, Work};
use capataz_shard::driver::Carried;
use capataz_shard::shard::Config;
use capataz_shard::trace::{
    Header, MAGIC, MAX_RECORD, Recording, Replay, ReplayError, Unrecorded, Verdict, replay,
};
use capataz_shard::{
    Ages, Damage, Driver, Found, FoundRun, ImportSession, Input, KeyFact, Output, Recovered, ReplyId,
    Request, StartRequest,
};
use capataz_store::{
    Append, AppendOutcome, BlobHash, Epoch, IdempotencyKey, Mark, MemoryStore, Millis, Position,
    QuarantineReason, Removal, Retention, RunId, ShardWriter, Store,
};

use crate::support::{self, SHARD, run};

const NOW: i64 = 1_700_000_000_000;
const PLENTY: u64 = 1 << 30;

/// A driver whose inputs are recorded as a daemon's are.
struct Recorded {
    driver: Driver,
    recording: Recording,
    told: Vec<(Now, Input)>,
    now: Now,
}

impl Recorded {
    fn new() -> Self {
        let config = Config::default();
        let header = Header::of_this_build(&config, &[SHARD]);
        let recording = Recording::begin(&header, PLENTY).unwrap();
        Self { driver: Driver::new(&config, vec![SHARD]), recording, told: Vec::new(), now: Now::alike(NOW) }
    }

    fn hears(&mut self, input: Input) -> Vec<Output> {
        self.now = Now::alike(self.now.mono.0 + 7);
        self.recording.input(self.now, &input).unwrap();
        self.told.push((self.now, input.clone()));
        let mut outputs = Vec::new();
        self.driver.handle(self.now, input, &mut outputs);
        self.recording.outputs(&outputs);
        outputs
    }
}

fn plan() -> v1::Plan {
    support::plan([support::task("t", "a")])
}

fn start(number: u128, work: Work, label: &str) -> Input {
    let request = StartRequest {
        run: run(number),
        start: StartRun {
            work,
            labels: BTreeMap::from([("env".to_owned(), label.to_owned())]),
            parent: Some(v1::ParentRef { run_id: run(9).to_string(), ..v1::ParentRef::default() }),
            lineage: Some(v1::Lineage {
                depth: 3,
                sessions: vec!["talk".to_owned()],
                traceparent: String::new(),
            }),
        },
        session: None,
        agents: BTreeSet::from(["a".to_owned()]),
        commands: vec!["commit".to_owned()],
        resources: vec!["skill".to_owned()],
        key: Some(IdempotencyKey { key: format!("key-{number}").into(), request: [7; 32] }),
        wait: number.is_multiple_of(2),
        blobs: vec![BlobHash([9; 32])],
    };
    asks(Request::Start(Box::new(request)))
}

fn asks(request: Request) -> Input {
    Input::Request { reply: ReplyId(3), request }
}

fn commands(input: engine::Input) -> Input {
    asks(Request::Command { run: run(1), if_seq: Some(2), input: Box::new(input) })
}

fn known() -> Input {
    let agent = v1::Agent { name: "a".to_owned(), ..v1::Agent::default() };
    Input::Configure(Known {
        agents: vec![KnownAgent { agent, source: v1::AgentSource::Declared, last_seen: Some(Millis(5)) }],
        commands: BTreeSet::from(["commit".to_owned()]),
        resources: BTreeSet::from(["skill".to_owned()]),
        reserved: capataz_crew::Reserved {
            workers: BTreeSet::from(["host".to_owned()]),
            agents: BTreeSet::from(["own".to_owned()]),
        },
    })
}

fn recovered(runs: Vec<(RunId, engine::RunState)>) -> Input {
    let opened = v1::Event {
        seq: 1,
        at_ms: 5,
        format: 2,
        elapsed_ms: 0,
        body: Some(Body::SessionOpened(v1::SessionOpened { session: "s".to_owned() })),
    };
    let session = SessionState::fold([opened]).unwrap();
    let agents = match known() {
        Input::Configure(known) => known.agents,
        other => panic!("{other:?}"),
    };
    let sessions = vec![(run(50), Some(session)), (run(51), None)];
    Input::Recovered {
        shard: SHARD,
        recovered: Recovered { epoch: Epoch(4), runs, sessions, agents, ..Recovered::default() },
    }
}

fn hello(slots: u32) -> Input {
    support::hello(ConnectionId(1), "a", slots)
}

fn found(target: Result<(Box<v1::Routing>, String), v1::Error>) -> Input {
    let answer =
        Found { spec: "sage".to_owned(), target, rerouted: true, default_spec: Some("sage".to_owned()) };
    Input::Answered { run: run(2), query: QueryId(1), answer }
}

fn judged() -> Input {
    let judged = engine::Judgement {
        purpose: engine::Purpose::Answer { question_id: "q".to_owned(), revision: 2 },
        schemas: vec!["{}".to_owned()],
        rule: None,
        value: v1::Payload { media_type: "text/plain".to_owned(), ..v1::Payload::default() },
        found: vec![v1::SchemaViolation { path: "/b".to_owned(), ..v1::SchemaViolation::default() }],
    };
    let violation = v1::SchemaViolation { path: "/a".to_owned(), ..v1::SchemaViolation::default() };
    let verdict = engine::Verdict::on(judged, vec![violation]);
    Input::Judged { run: run(2), query: QueryId(1), verdict }
}

fn computed(computed: engine::Computed) -> Input {
    Input::Computed { run: run(4), query: QueryId(1), computed }
}

/// At least one of every input that a daemon gets, by the name that [`name`] gives it.
fn every_input() -> Vec<Input> {
    let (state, _) = engine::start(
        5,
        StartRun { work: Work::Plan(plan()), labels: BTreeMap::new(), parent: None, lineage: None },
        Wall(5),
    )
    .unwrap();
    let session = SessionState::fold([v1::Event {
        seq: 1,
        at_ms: 5,
        format: 2,
        elapsed_ms: 0,
        body: Some(Body::SessionOpened(v1::SessionOpened { session: "s".to_owned() })),
    }]);
    let damage = |number| Damage {
        run: run(number),
        reason: QuarantineReason::Damaged,
        seq: 3,
        position: Some(Position(7)),
        detail: "the events from 4 on are not what was written".to_owned(),
    };
    let request_id = || "r".to_owned();
    let ask = v1::Ask { text: "text".to_owned(), request_id: Some(request_id()), ..v1::Ask::default() };
    let routing = v1::Routing { spec: "sage".to_owned(), ..v1::Routing::default() };
    let missing = v1::Error { code: "SPEC_NOT_AVAILABLE".to_owned(), ..v1::Error::default() };
    let retention = Retention {
        keep: BTreeSet::from([run(5)]),
        held_by: None,
        finished_before: Some(Millis(4)),
        max_log_bytes: Some(6),
        after: Some((Millis(7), run(5))),
        looked_at: 10,
        keys_before: Millis(3),
        blobs_before: Millis(2),
        batch: 8,
        batch_bytes: 9,
    };
    let fork = Fork {
        of: run(1).to_string(),
        run_id: run(5).to_string(),
        state: Box::new(state.clone()),
        input: Some(v1::Payload { media_type: "application/json".to_owned(), data: None }),
    };
    vec![
        known(),
        recovered(vec![(run(40), state.clone())]),
        start(1, Work::Plan(plan()), "test"),
        start(2, Work::Ask(ask), "test"),
        start(
            3,
            Work::Script(Box::new(v1::Script { name: "s".to_owned(), ..v1::Script::default() })),
            "test",
        ),
        start(4, Work::Pipeline(v1::Pipeline { name: "p".to_owned(), ..v1::Pipeline::default() }), "test"),
        start(5, Work::Fork(Box::new(fork)), "test"),
        start(
            6,
            Work::Mode(Box::new(v1::ModeRun { query: "q".to_owned(), ..v1::ModeRun::default() })),
            "test",
        ),
        Input::Committed {
            shard: SHARD,
            outcomes: vec![
                AppendOutcome::Committed(Position(1)),
                AppendOutcome::KeyTaken { run: run(1), same_request: true },
                AppendOutcome::Conflict,
                AppendOutcome::PastGone,
                AppendOutcome::Fenced,
            ],
        },
        hello(2),
        Input::Disconnected { connection: ConnectionId(1) },
        asks(Request::Wait { run: run(1) }),
        asks(Request::AcceptTransition { session: "s".to_owned(), request_id: request_id() }),
        asks(Request::ImportSession(Box::new(ImportSession {
            session: "s".to_owned(),
            state: "{}".to_owned(),
            repairs: vec!["r".to_owned()],
        }))),
        asks(Request::ChooseMode { session: "s".to_owned(), mode: 3 }),
        asks(Request::Forget { session: "s".to_owned(), entry_ids: vec!["e".to_owned()] }),
        asks(Request::CheckAgents {
            agents: vec!["a".to_owned()],
            commands: Vec::new(),
            resources: Vec::new(),
        }),
        asks(Request::ListAgents { after: None, most: 500 }),
        asks(Request::Agents { names: vec!["coder".to_owned()], run: run(1) }),
        Input::Hosted { connection: ConnectionId(1) },
        Input::Unread { connection: ConnectionId(1) },
        commands(engine::Input::Cancel {
            reason: "enough".to_owned(),
            force: true,
            request_id: request_id(),
        }),
        commands(engine::Input::Pause { request_id: request_id() }),
        commands(engine::Input::Resume { request_id: request_id() }),
        commands(engine::Input::Extend { task: "t".to_owned(), by_ms: -4, request_id: request_id() }),
        commands(engine::Input::Rollback { task: "t".to_owned(), cascade: true, request_id: request_id() }),
        commands(engine::Input::RollbackPipeline { phase: "p".to_owned(), request_id: request_id() }),
        commands(engine::Input::Checkpoint { reason: "r".to_owned(), request_id: request_id() }),
        commands(engine::Input::RollbackExecution { checkpoint: "c1".to_owned(), request_id: request_id() }),
        commands(engine::Input::Retry { task: "t".to_owned(), request_id: request_id() }),
        commands(engine::Input::Resolve {
            question_id: "q".to_owned(),
            answer: engine::Answer {
                option: "yes".to_owned(),
                value: Some(v1::Payload::default()),
                revision: Some(2),
                ..engine::Answer::default()
            },
            request_id: request_id(),
        }),
        commands(engine::Input::Propose {
            action: Box::new(v1::Action { id: "open".to_owned(), ..v1::Action::default() }),
            request_id: request_id(),
        }),
        commands(engine::Input::CloseBrowser { request_id: request_id() }),
        Input::Forget { reply: ReplyId(3), run: run(1) },
        Input::CommitFailed { shard: SHARD },
        Input::SessionLoaded { stream: run(50), load: 2, state: Ok(session.ok().map(Box::new)) },
        Input::SessionLoaded { stream: run(51), load: 3, state: Ok(None) },
        Input::SessionLoaded { stream: run(52), load: 4, state: Err(damage(52)) },
        Input::FoundDamaged(damage(53)),
        Input::RunLoaded { run: run(54), load: 1, state: Ok(Some(Box::new(state.clone()))) },
        Input::RunLoaded { run: run(55), load: 2, state: Ok(None) },
        Input::RunLoaded { run: run(56), load: 3, state: Err(damage(56)) },
        Input::ChildFound { child: run(57), number: 1, found: FoundRun::There(Box::new(state.clone())) },
        Input::ChildFound { child: run(58), number: 2, found: FoundRun::Nowhere },
        Input::ChildFound { child: run(59), number: 3, found: FoundRun::Unread },
        Input::ChildFound { child: run(60), number: 4, found: FoundRun::Damaged(damage(60)) },
        Input::KeysFound { shard: SHARD, number: 1, fact: KeyFact::Listed(vec![(b"key".to_vec(), run(61))]) },
        Input::KeysFound { shard: SHARD, number: 2, fact: KeyFact::NeverMade },
        Input::Sweep { shard: SHARD, retention: Box::new(retention), ages: Ages::default() },
        Input::Swept { shard: SHARD },
        asks(Request::Delete { run: run(1) }),
        Input::Removed { reply: ReplyId(4), run: run(1), removal: Some(Removal::Removed { bytes: 7 }) },
        Input::Removed { reply: ReplyId(4), run: run(1), removal: None },
        asks(Request::Release { run: run(1) }),
        found(Ok((Box::new(routing), "sage".to_owned()))),
        found(Err(missing)),
        judged(),
        computed(engine::Computed::Inputs(vec![v1::Payload::default()])),
        computed(engine::Computed::Summary(v1::Payload::default())),
        computed(engine::Computed::Failed(v1::Error { code: "C".to_owned(), ..v1::Error::default() })),
        Input::Wake,
        Input::Drain,
    ]
}

/// The names of all inputs that can be written down.
const NAMES: [&str; 49] = [
    "accept transition",
    "agents",
    "answered",
    "ask",
    "cancel",
    "check agents",
    "checkpoint",
    "child found",
    "choose mode",
    "close browser",
    "commit failed",
    "committed",
    "computed",
    "configure",
    "delete",
    "disconnected",
    "drain",
    "extend",
    "forget",
    "fork",
    "found damaged",
    "frame",
    "hosted",
    "import session",
    "judged",
    "keys found",
    "list agents",
    "mode",
    "pause",
    "pipeline",
    "plan",
    "propose",
    "recovered",
    "release",
    "removed",
    "resolve",
    "resume",
    "retry",
    "rollback",
    "rollback execution",
    "rollback pipeline",
    "run loaded",
    "script",
    "session loaded",
    "sweep",
    "swept",
    "unread",
    "wait",
    "wake",
];

/// The name of an input; `None` for one that is never written down. A new one has to be thought about: does a daemon get
/// it, and is it among those of [`every_input`]?
fn name(input: &Input) -> Option<&'static str> {
    Some(match input {
        Input::Request { request, .. } => match request {
            Request::Start(start) => match start.start.work {
                Work::Plan(_) => "plan",
                Work::Ask(_) => "ask",
                Work::Script(_) => "script",
                Work::Pipeline(_) => "pipeline",
                Work::Mode(_) => "mode",
                Work::Fork(_) => "fork",
            },
            Request::Wait { .. } => "wait",
            Request::Command { input, .. } => match **input {
                engine::Input::Cancel { .. } => "cancel",
                engine::Input::Pause { .. } => "pause",
                engine::Input::Resume { .. } => "resume",
                engine::Input::Extend { .. } => "extend",
                engine::Input::Retry { .. } => "retry",
                engine::Input::Rollback { .. } => "rollback",
                engine::Input::RollbackPipeline { .. } => "rollback pipeline",
                engine::Input::Checkpoint { .. } => "checkpoint",
                engine::Input::RollbackExecution { .. } => "rollback execution",
                engine::Input::Resolve { .. } => "resolve",
                engine::Input::Propose { .. } => "propose",
                engine::Input::CloseBrowser { .. } => "close browser",
                // A shard's own.
                engine::Input::Lease { .. }
                | engine::Input::LeaseLost { .. }
                | engine::Input::Report { .. }
                | engine::Input::AgentAbsent { .. }
                | engine::Input::SessionTurn { .. }
                | engine::Input::Answered { .. }
                | engine::Input::Tick { .. }
                | engine::Input::Child { .. }
                | engine::Input::BrowserLost { .. }
                | engine::Input::LimitExceeded { .. } => return None,
            },
            Request::AcceptTransition { .. } => "accept transition",
            Request::ImportSession(_) => "import session",
            Request::ChooseMode { .. } => "choose mode",
            Request::Forget { .. } => "forget",
            Request::CheckAgents { .. } => "check agents",
            Request::ListAgents { .. } => "list agents",
            Request::Agents { .. } => "agents",
            Request::Health { .. } => "health",
            Request::Delete { .. } => "delete",
            Request::Release { .. } => "release",
        },
        Input::Forget { .. } => "forget",
        Input::Frame { .. } => "frame",
        Input::Hosted { .. } => "hosted",
        Input::Unread { .. } => "unread",
        Input::Disconnected { .. } => "disconnected",
        Input::Committed { .. } => "committed",
        Input::CommitFailed { .. } => "commit failed",
        Input::Recovered { .. } => "recovered",
        Input::RunLoaded { .. } => "run loaded",
        Input::SessionLoaded { .. } => "session loaded",
        Input::ChildFound { .. } => "child found",
        Input::KeysFound { .. } => "keys found",
        Input::FoundDamaged(_) => "found damaged",
        Input::Sweep { .. } => "sweep",
        Input::Swept { .. } => "swept",
        Input::Removed { .. } => "removed",
        Input::Answered { .. } => "answered",
        Input::Judged { .. } => "judged",
        Input::Computed { .. } => "computed",
        Input::Configure(_) => "configure",
        // Within a process every message arrives at once.
        Input::Carried(_) => return None,
        Input::Wake => "wake",
        Input::Drain => "drain",
    })
}

#[test]
fn every_input_of_a_daemon_comes_back_as_it_was() {
    let mut recorded = Recorded::new();
    for input in every_input() {
        recorded.hears(input);
    }
    let names: BTreeSet<&str> = recorded.told.iter().filter_map(|(_, input)| name(input)).collect();
    assert_eq!(names.into_iter().collect::<Vec<_>>(), NAMES);
    let bytes = recorded.recording.take();
    let mut replay = Replay::begin(bytes.as_slice()).unwrap();
    assert!(replay.header().is_of_this_version());
    for (now, input) in &recorded.told {
        let turn = replay.turn().unwrap().unwrap();
        assert_eq!((turn.now, turn.verdict), (*now, Verdict::Same));
        assert_eq!(format!("{:?}", turn.input), format!("{input:?}"));
    }
    assert!(replay.turn().unwrap().is_none());
}

#[test]
fn what_no_daemon_gets_is_refused_and_spoils_nothing() {
    let packet = Packet { session: 1, number: 1, body: ToShard::Beat };
    let carried = Input::Carried(Box::new(Carried::ToShard { shard: SHARD, packet }));
    let own = commands(engine::Input::AgentAbsent { task: TaskRef { wave: 0, task: 0 } });
    let mut recorded = Recorded::new();
    recorded.hears(known());
    for input in [carried, own] {
        assert_eq!(name(&input), None);
        let before = recorded.recording.waiting();
        let refused = recorded.recording.input(Now::alike(NOW), &input).unwrap_err();
        assert!(matches!(refused, Unrecorded::NotWritable(_)), "{refused:?}");
        assert_eq!(recorded.recording.waiting(), before);
    }
    recorded.hears(Input::Wake);
    assert_eq!(recorded.recording.turns(), 2);
    assert_eq!(replay(recorded.recording.take().as_slice()).unwrap().turns, 2);
}

/// A run from its start to its end, on a disk that takes every append.
fn story(label: &str) -> Recorded {
    let mut recorded = Recorded::new();
    let store = MemoryStore::new();
    let mut writer = store.claim(SHARD, Mark(1)).unwrap();
    recorded.hears(known());
    recorded.hears(recovered(Vec::new()));
    let outputs = recorded.hears(start(1, Work::Plan(plan()), label));
    commits(&mut recorded, &mut *writer, outputs);
    let outputs = recorded.hears(hello(1));
    commits(&mut recorded, &mut *writer, outputs);
    let token = recorded.driver.run(run(1)).unwrap().leases().next().unwrap().1;
    let lease = v1::LeaseRef { run_id: run(1).to_string(), wave: 0, task: 0, lease: token };
    let completed = v1::Completed { lease: Some(lease), ..v1::Completed::default() };
    let outputs =
        recorded.hears(Input::Frame { connection: ConnectionId(1), frame: Say::Completed(completed) });
    commits(&mut recorded, &mut *writer, outputs);
    assert_eq!(recorded.driver.run_count(), 0, "the run has ended");
    recorded
}

fn commits(recorded: &mut Recorded, writer: &mut dyn ShardWriter, outputs: Vec<Output>) {
    let mut appends: Vec<Append> = appended(outputs);
    while !appends.is_empty() {
        let outcomes = writer.commit(&appends).unwrap();
        appends = appended(recorded.hears(Input::Committed { shard: SHARD, outcomes }));
    }
}

fn appended(outputs: Vec<Output>) -> Vec<Append> {
    let append = |output| match output {
        Output::Append { append, .. } => Some(append),
        _ => None,
    };
    outputs.into_iter().filter_map(append).collect()
}

/// Where each piece of a trace ends: that of the header, then those of the turns.
fn ends(trace: &[u8]) -> Vec<usize> {
    let length = |at: usize| {
        let bytes = trace.get(at..at + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().unwrap()) as usize)
    };
    let mut at = MAGIC.len() + 4 + length(MAGIC.len()).unwrap();
    let mut ends = vec![at];
    while let Some(length) = length(at) {
        at += 4 + length + 12;
        ends.push(at);
    }
    ends
}

#[test]
fn an_input_that_is_another_one_is_found_at_its_turn() {
    let trace = story("one").recording.take();
    let other = story("two").recording.take();
    let ends = ends(&trace);
    let same = replay(trace.as_slice()).unwrap();
    assert_eq!((same.turns, same.different.is_none()), (ends.len() as u64 - 1, true));
    // The third turn is the start of the run: that of the other trace has another label.
    let (from, to) = (ends[2], ends[3]);
    let mut flipped = trace.clone();
    flipped[from..to - 12].copy_from_slice(&other[from..to - 12]);
    let different = replay(flipped.as_slice()).unwrap().different.unwrap();
    assert_eq!(different.number, 3);
    assert!(format!("{:?}", different.input).contains("two"), "{different:?}");
    assert!(matches!(different.verdict, Verdict::Different { recorded } if recorded > 0));
    // Without the start, the commit that follows has nothing to commit.
    let mut dropped = trace.clone();
    dropped.drain(from..to);
    let different = replay(dropped.as_slice()).unwrap().different.unwrap();
    assert_eq!(different.number, 3);
    assert_eq!(name(&different.input), Some("committed"));
}

#[test]
fn a_trace_ends_wherever_its_daemon_did() {
    let trace = story("one").recording.take();
    let ends = ends(&trace);
    for length in 0..trace.len() {
        let cut = &trace[..length];
        if length < ends[0] {
            assert!(matches!(replay(cut), Err(ReplayError::NotATrace)), "{length}");
            continue;
        }
        let replayed = replay(cut).unwrap();
        assert!(replayed.different.is_none(), "{length}");
        let ended = ends.iter().filter(|end| **end <= length).count() as u64 - 1;
        // An input without its outputs is that of a turn that did not end.
        let has_input = ends.iter().any(|end| (*end - 12..*end).contains(&length) && *end != ends[0]);
        assert_eq!(replayed.turns, ended + u64::from(has_input), "{length}");
        assert_eq!(replayed.unfinished.is_some(), has_input, "{length}");
    }
}

#[test]
fn a_trace_has_as_many_bytes_as_it_may_have() {
    let recorded = story("one");
    let mut whole = recorded.recording;
    let whole = whole.take();
    let header = Header::of_this_build(&Config::default(), &[SHARD]);
    let end_of_header = ends(&whole)[0] as u64;
    assert!(matches!(Recording::begin(&header, end_of_header - 1), Err(Unrecorded::Full)));
    for limit in end_of_header..=whole.len() as u64 {
        let mut recording = Recording::begin(&header, limit).unwrap();
        let mut driver = Driver::new(&Config::default(), vec![SHARD]);
        let mut is_full = false;
        for (now, input) in &recorded.told {
            if let Err(unrecorded) = recording.input(*now, input) {
                assert!(matches!(unrecorded, Unrecorded::Full), "{unrecorded:?}");
                is_full = true;
                break;
            }
            let mut outputs = Vec::new();
            driver.handle(*now, input.clone(), &mut outputs);
            recording.outputs(&outputs);
        }
        assert_eq!(is_full, limit < whole.len() as u64);
        let turns = recording.turns();
        let bytes = recording.take();
        assert!(bytes.len() as u64 <= limit && whole.starts_with(&bytes), "{limit}");
        let replayed = replay(bytes.as_slice()).unwrap();
        assert_eq!((replayed.turns, replayed.different.is_none()), (turns, true));
    }
}

#[test]
fn what_is_not_a_trace_of_this_build_is_said_to_be_none() {
    let trace = story("one").recording.take();
    let mut other_format = trace.clone();
    other_format[14] = b'9';
    assert!(matches!(replay(other_format.as_slice()), Err(ReplayError::NotATrace)));
    // A length that nothing has memory for.
    let second = ends(&trace)[1];
    let mut too_long = trace.clone();
    too_long[second..second + 4].copy_from_slice(&u32::try_from(MAX_RECORD + 1).unwrap().to_le_bytes());
    assert!(matches!(replay(too_long.as_slice()), Err(ReplayError::Damaged { record: 2 })));
    // An input that no build knows, and one with something after it.
    let mut unknown = trace.clone();
    unknown[second + 4..second + 24].fill(0xFF);
    assert!(matches!(replay(unknown.as_slice()), Err(ReplayError::Damaged { record: 2 })));
    let mut recorded = Recorded::new();
    recorded.hears(Input::Wake);
    let wake = recorded.recording.take();
    let wake = &wake[ends(&wake)[0] + 4..wake.len() - 12];
    let length = u32::try_from(wake.len() + 1).unwrap().to_le_bytes();
    let longer = [&trace[..second], &length, wake, &[0; 13]].concat();
    assert!(matches!(replay(longer.as_slice()), Err(ReplayError::Damaged { record: 2 })));
}
