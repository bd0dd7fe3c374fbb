//! What other processes say: clients, workers, and the browser. What planners answer is in `planners.rs`.

use std::collections::BTreeSet;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes, BytesMut};
use capataz_cdp::{Connection, Done, EventError, Loss, SessionId};
use capataz_contracts::v1::{self, connect_request::Frame, start_run_request::Work as Asked};
use capataz_contracts::validate::{self, INLINE_MAX, PlanLimits};
use capataz_contracts::{canonical, json};
use capataz_crew::{ConnectionId, Now};
use capataz_engine::{Plan, RunState, StartRun, Wall, Work, materialise_mode, materialise_pipeline};
use capataz_executor::dsl;
use capataz_shard::shard::Config;
use capataz_shard::{Driver, Input, Output, Recovered, ReplyId, Request, StartRequest, feed};
use capataz_store::{Append, Mark, MemoryStore, RunId, ShardId, ShardWriter, Store};
use prost::Message;
use tokio::io::{AsyncRead, ReadBuf};

use crate::stored::{SEED, survives_encoding};

/// A client's request to start a run: what passes the checks can be started, and folds from its events.
pub(crate) fn start_request(bytes: &[u8]) {
    let Ok(request) = v1::StartRunRequest::decode(Bytes::copy_from_slice(bytes)) else { return };
    survives_encoding(&request);
    assert_eq!(canonical(&request), canonical(&request.clone()));
    let _ = json::print("capataz.v1.StartRunRequest", &request);
    if !validate::start_run(&request, &PlanLimits::default()).is_empty() {
        return;
    }
    let Some(work) = work_of(request.work) else { return };
    let start = StartRun { work, labels: request.labels, parent: request.parent, lineage: None };
    let started = capataz_engine::start(SEED, start, Wall(1_000));
    let Ok((state, decision)) = started else { return };
    let events: Result<Vec<v1::Event>, _> = feed::split(&decision.events).map(v1::Event::decode).collect();
    let folded = events.map(|events| RunState::fold(SEED, events));
    assert!(matches!(&folded, Ok(Ok(_))), "{folded:?}");
    let snapshots =
        folded.ok().and_then(Result::ok).map(|folded| (folded.snapshot().ok(), state.snapshot().ok()));
    assert!(snapshots.is_some_and(|(folded, decided)| folded == decided), "the fold is the state");
}

/// The work with its defaults, as the daemon fills them in.
fn work_of(asked: Option<Asked>) -> Option<Work> {
    match asked? {
        Asked::Plan(mut plan) => {
            Plan::materialise(&mut plan).ok()?;
            Some(Work::Plan(plan))
        }
        Asked::Pipeline(mut pipeline) => {
            materialise_pipeline(&mut pipeline).ok()?;
            Some(Work::Pipeline(pipeline))
        }
        Asked::Mode(mut run) => {
            materialise_mode(&mut run).ok()?;
            "run".clone_into(&mut run.run_id);
            Some(Work::Mode(Box::new(run)))
        }
        Asked::Ask(mut ask) => {
            ask.request_id.get_or_insert_with(|| "run".to_owned());
            Some(Work::Ask(ask))
        }
        Asked::Script(mut script) => {
            if !dsl::check_script(&script).is_empty() {
                return None;
            }
            dsl::materialise(&mut script);
            "run".clone_into(&mut script.run_id);
            Some(Work::Script(script))
        }
    }
}

const SHARD: ShardId = ShardId(0);
const WORKER: ConnectionId = ConnectionId(1);
/// The most frames of one input that are read.
const FRAMES: usize = 64;

/// The run whose only task a worker may get.
pub(crate) fn run() -> RunId {
    RunId(uuid::Uuid::from_u128(1))
}

/// A shard and its crew, with one run of one task, over a disk that is never busy.
pub(crate) struct World {
    store: MemoryStore,
    writer: Box<dyn ShardWriter>,
    driver: Driver,
    now: i64,
    pub(crate) outputs: Vec<Output>,
}

impl World {
    pub(crate) fn new() -> Option<Self> {
        let store = MemoryStore::new();
        let writer = store.claim(SHARD, Mark(1)).ok()?;
        let epoch = writer.epoch();
        let driver = Driver::new(&Config::default(), vec![SHARD]);
        let mut world = Self { store, writer, driver, now: 1_000, outputs: Vec::new() };
        world
            .hears(Input::Recovered { shard: SHARD, recovered: Recovered { epoch, ..Recovered::default() } });
        let task = v1::Task { name: "t".to_owned(), agent: "a".to_owned(), ..v1::Task::default() };
        let waves = vec![v1::Wave { tasks: vec![task], ..v1::Wave::default() }];
        let mut plan = v1::Plan { name: "p".to_owned(), waves, ..v1::Plan::default() };
        Plan::materialise(&mut plan).ok()?;
        let start =
            StartRun { work: Work::Plan(plan), labels: Default::default(), parent: None, lineage: None };
        // Nobody serves the agent yet, so that it is not asked for.
        let request = StartRequest { agents: BTreeSet::new(), ..StartRequest::new(run(), start) };
        world.hears(Input::Request { reply: ReplyId(1), request: Request::Start(Box::new(request)) });
        Some(world)
    }

    pub(crate) fn says(&mut self, frame: Frame) {
        self.hears(Input::Frame { connection: WORKER, frame });
    }

    /// Hands over one input, and commits what it leads to until nothing is left to commit.
    fn hears(&mut self, input: Input) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            self.now += 10;
            let mut outputs = Vec::new();
            self.driver.handle(Now::alike(self.now), input, &mut outputs);
            let restarts = outputs.iter().any(|output| matches!(output, Output::Restart { .. }));
            assert!(!restarts, "the log is not what the shard believes");
            let appends = outputs.iter().filter_map(|output| match output {
                Output::Append { append, .. } => Some(append.clone()),
                _ => None,
            });
            let appends: Vec<Append> = appends.collect();
            if !appends.is_empty() {
                let outcomes = self.writer.commit(&appends);
                assert!(outcomes.is_ok(), "{outcomes:?}");
                inputs.extend(outcomes.map(|outcomes| Input::Committed { shard: SHARD, outcomes }));
            }
            self.outputs.extend(outputs);
        }
    }

    /// The run's log folds to something, whatever a worker has said.
    fn check_log(&self) {
        let rows = self.store.read_run(run(), 0, usize::MAX, usize::MAX).unwrap_or_default();
        let events = rows.iter().filter_map(|row| feed::events_of(row, 0).ok()).flatten();
        let events: Result<Vec<v1::Event>, _> = events.map(v1::Event::decode).collect();
        let folded = events.map(|events| RunState::fold(SEED, events));
        assert!(matches!(&folded, Ok(Ok(_))), "{folded:?}");
    }
}

/// The stream of one worker: frames, each with a varint length before it, the first of which is its hello.
pub(crate) fn worker_frames(bytes: &[u8]) {
    let mut frames = Vec::new();
    for message in feed::split(&Bytes::copy_from_slice(bytes)).take(FRAMES) {
        let Ok(request) = v1::ConnectRequest::decode(message) else { return };
        survives_encoding(&request);
        frames.extend(request.frame);
    }
    let Some(Frame::Hello(hello)) = frames.first() else { return };
    if !validate::hello(hello).is_empty() || !capataz_judge::declared(&hello.agents).is_empty() {
        return;
    }
    let world = World::new();
    assert!(world.is_some(), "the world can be made");
    let Some(mut world) = world else { return };
    for frame in frames {
        let frame = validate::worker_frame(frame, INLINE_MAX);
        let again = validate::worker_frame(frame.clone(), INLINE_MAX);
        assert_eq!(encoded(again), encoded(frame.clone()), "what was made to pass, passes as it is");
        world.says(frame);
    }
    world.hears(Input::Disconnected { connection: WORKER });
    world.check_log();
}

fn encoded(frame: Frame) -> Vec<u8> {
    v1::ConnectRequest { frame: Some(frame) }.encode_to_vec()
}

thread_local! {
    static RUNTIME: Option<tokio::runtime::Runtime> = tokio::runtime::Builder::new_current_thread().enable_time().build().ok();
}

/// All that a browser ever says: messages, each with a zero byte behind it.
pub(crate) fn devtools(bytes: &[u8]) {
    let messages = bytes.iter().filter(|byte| **byte == 0).count();
    let said = std::io::Cursor::new(bytes.to_vec());
    talk(|| Connection::new(said, tokio::io::sink()), bytes.len(), messages);
}

/// The same over a WebSocket, where messages are frames: it is the same whatever pieces they come in.
pub(crate) fn web_socket(bytes: &[u8]) {
    // Two bytes are the shortest frame.
    let messages = bytes.len() / 2;
    let heard = |received: usize, piece: usize| {
        let (received, rest) = bytes.split_at(received.min(bytes.len()));
        let said = Pieces { rest: Bytes::copy_from_slice(rest), most: piece };
        let received = BytesMut::from(received);
        // It is never hung up.
        let (hang_up, hung_up) = tokio::sync::watch::channel(());
        let connect = || Connection::over_web_socket(said, tokio::io::sink(), received, hung_up);
        let heard = talk(connect, bytes.len(), messages);
        drop(hang_up);
        heard
    };
    let Some(at_once) = heard(bytes.len(), 1) else { return };
    for (received, piece) in [(0, usize::MAX), (3, 1)] {
        let in_pieces = heard(received, piece);
        let is_same = in_pieces.as_ref().is_none_or(|heard| *heard == at_once);
        assert!(
            is_same,
            "{received} bytes and then {piece} at a time: {in_pieces:?}, and at once {at_once:?}"
        );
    }
}

/// A reader that gives a few bytes at a time.
struct Pieces {
    rest: Bytes,
    most: usize,
}

impl AsyncRead for Pieces {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let length = self.rest.len().min(self.most).min(into.remaining());
        into.put_slice(&self.rest.split_to(length));
        Poll::Ready(Ok(()))
    }
}

/// What a caller hears of a connection until it is lost.
#[derive(Debug, PartialEq)]
struct Heard {
    events: Vec<(Arc<str>, Option<SessionId>, Bytes)>,
    loss: Option<Loss>,
    is_first_answered: bool,
    is_second_answered: bool,
}

/// Makes the connection, calls twice and listens. `None` where more was said than is kept.
fn talk(connect: impl FnOnce() -> Connection, bytes: usize, messages: usize) -> Option<Heard> {
    RUNTIME.with(|runtime| {
        assert!(runtime.is_some(), "a runtime can be made");
        runtime.as_ref()?.block_on(async move {
            let connection = connect();
            let (browser, page) = (connection.browser(), connection.session("S"));
            let mut all = connection.subscribe(&[]);
            let mut loads = page.subscribe(&["Page.loadEventFired"]);
            // Their numbers are 1 and 2.
            let first = browser.send::<serde_json::Value>("A.first", ());
            let second = page.send::<Done>("A.second", ());
            let mut events = Vec::new();
            let mut is_whole = true;
            loop {
                match all.next().await {
                    Ok(event) => {
                        assert!(event.params.remaining() <= bytes);
                        // It may be JSON that nobody can hold, such as 1e999.
                        let _ = event.parse::<serde_json::Value>();
                        events.push((event.method, event.session, event.params));
                    }
                    Err(EventError::Lagged(_)) => is_whole = false,
                    Err(EventError::Detached | EventError::Lost(_)) => break,
                }
            }
            assert!(events.len() <= messages, "{} events in {messages} messages", events.len());
            let loss = connection.loss();
            assert!(loss.is_some());
            // Every caller is told.
            let (first, second) = (first.await, second.await);
            while loads.next().await.is_ok() {}
            let (is_first_answered, is_second_answered) = (first.is_ok(), second.is_ok());
            is_whole.then_some(Heard { events, loss, is_first_answered, is_second_answered })
        })
    })
}
