//! The browser of a run is at one worker: what a shard and the crew make of workers that come, go, and come back without it.

use capataz_contracts::v1::{
    self, connect_request::Frame as Say, connect_response::Frame as Hear, event::Body,
};
use capataz_crew::{ConnectionId, Now};
use capataz_engine::{BROWSER_AGENT, BROWSER_MEDIA_TYPE, Input as Ask, Work};
use capataz_shard::journal::load;
use capataz_shard::shard::Config;
use capataz_shard::{Driver, Input, Output, ReplyId, Request, feed};
use capataz_store::{MemoryStore, RunId, ShardWriter, Store};
use prost::Message;

use crate::support::{SHARD, claim, run, start};

const REATTACH_MS: i64 = 15_000;
const IDLE_MS: i64 = 5 * 60_000;

/// A core over a disk that takes everything at once.
struct World {
    store: MemoryStore,
    writer: Box<dyn ShardWriter>,
    core: Driver,
    now: i64,
    loads: Vec<(RunId, u64)>,
    next: u64,
    told: Vec<(ConnectionId, Hear)>,
    events: Vec<v1::Event>,
}

impl World {
    fn new() -> Self {
        let store = MemoryStore::new();
        let (writer, recovered) = claim(&store, 1);
        let core = Driver::new(&Config::default(), vec![SHARD]);
        let mut world = Self {
            store,
            writer,
            core,
            now: 1_000_000,
            loads: Vec::new(),
            next: 0,
            told: Vec::new(),
            events: Vec::new(),
        };
        world.hears(recovered);
        world
    }

    fn hears(&mut self, input: Input) {
        let mut outputs = Vec::new();
        self.core.handle(Now::alike(self.now), input, &mut outputs);
        let mut appends = Vec::new();
        for output in outputs {
            match output {
                Output::Append { append, .. } => appends.push(append),
                Output::LoadRun { run, load } => self.loads.push((run, load)),
                Output::Frame { connection, frame } => self.told.push((connection, frame)),
                _ => {}
            }
        }
        if !appends.is_empty() {
            let events = appends.iter().flat_map(|append| feed::split(&append.events));
            self.events.extend(events.map(|event| v1::Event::decode(event).unwrap()));
            let outcomes = self.writer.commit(&appends).unwrap();
            self.hears(Input::Committed { shard: SHARD, outcomes });
        }
    }

    /// The process ends, and another one takes the shard.
    fn restarts(&mut self) {
        self.core = Driver::new(&Config::default(), vec![SHARD]);
        let (writer, recovered) = claim(&self.store, 2);
        self.writer = writer;
        self.hears(recovered);
    }

    /// The time passes, and all workers that are there say that they live.
    fn passes(&mut self, milliseconds: i64, alive: &[ConnectionId]) {
        let until = self.now + milliseconds;
        while self.now < until {
            let due = self.core.next_wake().map_or(until, |at| at.0);
            self.now = until.min(self.now + 1_000).min(due);
            for connection in alive {
                let frame = Say::Heartbeat(v1::Heartbeat {});
                self.hears(Input::Frame { connection: *connection, frame });
            }
            self.hears(Input::Wake);
        }
    }

    /// A worker of browsers comes, with the browsers of these runs.
    fn comes(&mut self, worker: &str, browsers: &[RunId], held: Vec<v1::LeaseRef>) -> ConnectionId {
        self.next += 1;
        let connection = ConnectionId(self.next);
        let agent = v1::Agent { name: BROWSER_AGENT.to_owned(), max_concurrency: 8, ..Default::default() };
        let hello = v1::Hello {
            worker_id: worker.to_owned(),
            agents: vec![agent],
            slots: 8,
            held,
            protocol: 1,
            browsers: browsers.iter().map(ToString::to_string).collect(),
        };
        self.hears(Input::Frame { connection, frame: Say::Hello(hello) });
        connection
    }

    fn goes(&mut self, connection: ConnectionId) {
        self.hears(Input::Disconnected { connection });
    }

    fn starts(&mut self, script: v1::Script) -> RunId {
        self.next += 1;
        let run = run(7_000 + u128::from(self.next));
        let request = Request::Start(Box::new(start(run, Work::Script(Box::new(script)))));
        self.hears(Input::Request { reply: ReplyId(self.next), request });
        run
    }

    fn commands(&mut self, run: RunId, input: Ask) {
        self.next += 1;
        let request = Request::Command { run, if_seq: None, input: Box::new(input) };
        self.hears(Input::Request { reply: ReplyId(self.next), request });
    }

    /// The run's live lease, and whose it is.
    fn lease(&self, run: RunId) -> Option<(v1::LeaseRef, String)> {
        let (task, lease, worker) = self.core.run(run)?.leases().next()?;
        let reference = v1::LeaseRef { run_id: run.to_string(), wave: task.wave, task: task.task, lease };
        Some((reference, worker.to_owned()))
    }

    fn holder(&self, run: RunId) -> Option<String> {
        self.lease(run).map(|(_, worker)| worker)
    }

    fn asked(&self, run: RunId) -> v1::BrowserTask {
        let state = self.core.run(run).unwrap();
        let (task, ..) = state.leases().next().unwrap();
        let input = state.assignment(task).unwrap().input.cloned().unwrap();
        let Some(v1::payload::Data::Inline(bytes)) = input.data else { panic!("no browser's task") };
        v1::BrowserTask::decode(bytes).unwrap()
    }

    fn says(&mut self, connection: ConnectionId, run: RunId, outcome: &v1::BrowserOutcome) {
        let (lease, _) = self.lease(run).unwrap();
        let output = v1::Payload {
            media_type: BROWSER_MEDIA_TYPE.to_owned(),
            data: Some(v1::payload::Data::Inline(outcome.encode_to_vec().into())),
        };
        let completed = v1::Completed { lease: Some(lease), output: Some(output), ..Default::default() };
        self.hears(Input::Frame { connection, frame: Say::Completed(completed) });
    }

    fn opens(&mut self, connection: ConnectionId, run: RunId) {
        self.says(connection, run, &v1::BrowserOutcome { keeps: true, ..Default::default() });
    }

    fn losses(&self) -> Vec<(String, v1::BrowserLossReason)> {
        let losses = self.events.iter().filter_map(|event| match event.body.as_ref()? {
            Body::BrowserLost(lost) => Some((lost.worker.clone(), lost.reason())),
            _ => None,
        });
        losses.collect()
    }

    /// Who was told to put the run's browser away.
    fn put_away(&self, run: RunId) -> Vec<ConnectionId> {
        let keeps = |frame: &Hear| matches!(frame, Hear::KeepBrowser(keep) if keep.run_id == run.to_string());
        self.told.iter().filter(|(_, frame)| keeps(frame)).map(|(connection, _)| *connection).collect()
    }

    fn reads(&mut self) {
        for (run, number) in std::mem::take(&mut self.loads) {
            let state = Some(Box::new(load(&self.store, run).unwrap()));
            self.hears(Input::RunLoaded { run, load: number, state: Ok(state) });
        }
    }
}

fn action(id: &str, kind: v1::ActionKind) -> v1::Action {
    v1::Action {
        id: id.to_owned(),
        kind: kind as i32,
        criticality: Some(v1::Criticality::Normal as i32),
        ..v1::Action::default()
    }
}

fn script() -> v1::Script {
    let actions = ["a", "b"].map(|id| action(id, v1::ActionKind::Extract)).to_vec();
    v1::Script { name: "script".to_owned(), actions, ..v1::Script::default() }
}

fn session() -> v1::Script {
    let idle_timeout_ms = Some(10 * IDLE_MS);
    v1::Script { name: "session".to_owned(), interactive: true, idle_timeout_ms, ..v1::Script::default() }
}

/// A script whose browser is at the worker `mine`, and another worker with free slots.
fn opened(script: v1::Script) -> (World, RunId, ConnectionId, ConnectionId) {
    let mut world = World::new();
    let mine = world.comes("mine", &[], Vec::new());
    let run = world.starts(script);
    let other = world.comes("other", &[], Vec::new());
    assert_eq!(world.holder(run).as_deref(), Some("mine"));
    world.opens(mine, run);
    (world, run, mine, other)
}

#[test]
fn every_activity_goes_to_the_worker_that_has_the_browser() {
    let (mut world, run, mine, _) = opened(script());
    for _ in 0..3 {
        assert_eq!(world.holder(run).as_deref(), Some("mine"));
        world.says(mine, run, &v1::BrowserOutcome::default());
    }
    assert!(world.core.run(run).is_none(), "it has ended");
    assert_eq!(world.losses(), []);
}

#[test]
fn a_worker_that_is_away_is_waited_for_and_nobody_else_gets_its_work() {
    let (mut world, run, mine, other) = opened(session());
    world.goes(mine);
    let look =
        Ask::Propose { action: Box::new(action("a", v1::ActionKind::Extract)), request_id: "p".to_owned() };
    world.commands(run, look);
    world.passes(REATTACH_MS - 1_000, &[other]);
    assert_eq!(world.holder(run), None, "it waits for its browser");
    let back = world.comes("mine", &[run], Vec::new());
    assert_eq!(world.holder(run).as_deref(), Some("mine"));
    world.says(back, run, &v1::BrowserOutcome::default());
    world.passes(2 * REATTACH_MS, &[other, back]);
    assert_eq!(world.losses(), []);
}

#[test]
fn a_worker_that_does_not_come_back_in_time_has_lost_it() {
    let (mut world, run, mine, other) = opened(session());
    world.goes(mine);
    world.passes(REATTACH_MS - 1_000, &[other]);
    assert_eq!(world.losses(), []);
    world.passes(1_000, &[other]);
    assert_eq!(world.losses(), [("mine".to_owned(), v1::BrowserLossReason::Disconnected)]);
    assert_eq!(world.holder(run).as_deref(), Some("other"), "anybody explains it");
    assert_eq!(world.asked(run).failure.unwrap().error_code, "BROWSER_LOST");
}

#[test]
fn a_worker_that_is_back_without_it_or_silent_or_says_so_has_lost_it_at_once() {
    use v1::BrowserLossReason::{Ended, Restarted, Silent};
    let (mut world, _, mine, _) = opened(session());
    world.goes(mine);
    world.comes("mine", &[], Vec::new());
    assert_eq!(world.losses(), [("mine".to_owned(), Restarted)]);

    let (mut world, _, _, other) = opened(session());
    world.passes(20_000, &[other]);
    assert_eq!(world.losses(), [("mine".to_owned(), Silent)]);

    let (mut world, run, mine, other) = opened(session());
    let gone = |run: RunId| Say::BrowserGone(v1::BrowserGone { run_id: run.to_string() });
    world.hears(Input::Frame { connection: other, frame: gone(run) });
    assert_eq!(world.losses(), [], "it was never that worker's");
    world.hears(Input::Frame { connection: mine, frame: gone(run) });
    assert_eq!(world.losses(), [("mine".to_owned(), Ended)]);
}

#[test]
fn a_loss_is_known_to_a_shard_that_is_read_again_whatever_else_its_worker_says() {
    let (mut world, run, mine, _) = opened(session());
    let gone = |run: RunId| Say::BrowserGone(v1::BrowserGone { run_id: run.to_string() });
    for other in 0..10_000 {
        world.hears(Input::Frame { connection: mine, frame: gone(self::run(8_000_000 + other)) });
    }
    world.hears(Input::CommitFailed { shard: SHARD });
    world.hears(Input::Frame { connection: mine, frame: gone(run) });
    let (writer, recovered) = claim(&world.store, 2);
    world.writer = writer;
    world.hears(recovered);
    assert_eq!(world.losses(), [("mine".to_owned(), v1::BrowserLossReason::Restarted)]);
}

#[test]
fn what_is_at_work_in_a_browser_answers_for_it() {
    let (mut world, run, mine, _) = opened(script());
    let (lease, _) = world.lease(run).unwrap();
    let gone = Say::BrowserGone(v1::BrowserGone { run_id: run.to_string() });
    world.hears(Input::Frame { connection: mine, frame: gone });
    world.goes(mine);
    let back = world.comes("mine", &[], vec![lease]);
    assert_eq!(world.losses(), []);
    let error = lost_browser(run);
    world.says(back, run, &v1::BrowserOutcome { error: Some(error), ..Default::default() });
    assert_eq!(world.losses(), [("mine".to_owned(), v1::BrowserLossReason::Ended)]);
}

/// The whole error of a click whose browser is lost.
fn lost_browser(run: RunId) -> v1::ExecutorError {
    let action = v1::Action { id: "a".to_owned(), ..Default::default() };
    let hash = || "a".repeat(64);
    let state = v1::StateSignature {
        schema_version: "v1".to_owned(),
        dom_hash: hash(),
        anchors_hash: hash(),
        inputs_hash: hash(),
        ..Default::default()
    };
    let evidence = |kind: &str| v1::EvidenceRef {
        id: hash(),
        kind: kind.to_owned(),
        media_type: "application/json".to_owned(),
        ..Default::default()
    };
    v1::ExecutorError {
        schema_version: "v1".to_owned(),
        error_code: "BROWSER_LOST".to_owned(),
        stage: v1::ActionStage::Execution.into(),
        severity: v1::ExecutorSeverity::Critical.into(),
        message: "the process has ended".to_owned(),
        run_id: run.to_string(),
        step_index: Some(0),
        action_id: action.id.clone(),
        action_kind: v1::ActionKind::Click.into(),
        criticality: v1::Criticality::Normal.into(),
        state_before: Some(state),
        evidence_refs: vec![evidence("dom_snapshot_partial"), evidence("state_signature")],
        details: Some(r#"{"reason":"the process has ended"}"#.to_owned()),
        created_at: "2023-11-14T22:13:20.000Z".to_owned(),
        action_spec: Some(action),
        ..Default::default()
    }
}

#[test]
fn after_a_restart_the_worker_that_has_it_is_waited_for_as_well() {
    let (mut world, run, ..) = opened(session());
    world.restarts();
    let other = world.comes("other", &[], Vec::new());
    world.passes(REATTACH_MS - 1_000, &[other]);
    assert_eq!(world.losses(), []);
    let back = world.comes("mine", &[run], Vec::new());
    world.passes(2 * REATTACH_MS, &[other, back]);
    assert_eq!(world.losses(), []);

    world.restarts();
    let other = world.comes("other", &[], Vec::new());
    world.passes(REATTACH_MS, &[other]);
    assert_eq!(world.losses(), [("mine".to_owned(), v1::BrowserLossReason::Disconnected)]);
}

#[test]
fn a_run_whose_browser_is_put_away_leaves_memory_and_gets_it_back_from_the_same_worker() {
    let (mut world, run, mine, other) = opened(script());
    world.commands(run, Ask::Pause { request_id: "pause".to_owned() });
    // The second action waits.
    world.says(mine, run, &v1::BrowserOutcome::default());
    assert!(!world.core.rests(run), "its browser is open");
    world.passes(IDLE_MS, &[mine, other]);
    assert_eq!(world.put_away(run), [mine]);
    assert!(world.core.rests(run));

    // The worker did not hear of it.
    world.goes(mine);
    let back = world.comes("mine", &[run], Vec::new());
    assert_eq!(world.put_away(run), [mine, back]);
    world.passes(2 * REATTACH_MS, &[back, other]);

    world.commands(run, Ask::Resume { request_id: "resume".to_owned() });
    world.reads();
    assert_eq!(world.holder(run).as_deref(), Some("mine"));
    let asked = world.asked(run);
    assert_eq!((asked.activity(), asked.restore), (v1::BrowserActivity::Open, true));
    world.opens(back, run);
    assert_eq!(world.asked(run).action.unwrap().id, "b");
    assert_eq!(world.losses(), []);
    assert!(world.store.get_run(run).unwrap().is_some());
}
