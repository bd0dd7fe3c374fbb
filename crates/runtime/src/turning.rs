//! Turns: hands what comes to the driver, turn by turn, and carries out what it wants; and the shards' thread, which does
//! so for all that is not handled at once where it comes from.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use capataz_contracts::v1::connect_response;
use capataz_crew::{CloseReason, ConnectionId, Mono};
use capataz_engine::{Judgement, Query, QueryId};
use capataz_shard::journal::{self, Errand, Job, Told, Work, errands, take_up_session};
use capataz_shard::{
    Ages, Answer, Driver, Input, KeyQuery, LoadError, Output, ReplyId, Request, Route, Touched, find,
};
use capataz_store::{Removal, Retention, RunId, ShardId, Store, StoreError, Swept};
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc, oneshot, watch};

use crate::clock::{Clock, Watch};
use crate::desk::{Desk, Load, Queued, WeakInbox};
use crate::judging;
use crate::longest::{Longest, Turn};
use crate::meters::Begun;
use crate::recorder::Recorder;
use crate::shared::Shared;
use crate::writer::Writer;

/// Who waits for a sweep.
pub(crate) type Sweeper = oneshot::Sender<Result<Swept, StoreError>>;

#[expect(
    clippy::large_enum_variant,
    reason = "one for each message, moved twice; a box would be an allocation for each frame"
)]
pub(crate) enum Message {
    Input(Input),
    Request {
        reply: ReplyId,
        request: Request,
        sender: oneshot::Sender<Answer>,
    },
    Connect {
        connection: ConnectionId,
        line: Line,
        is_host: bool,
    },
    Router(Arc<dyn Route>),
    Sweep {
        shard: ShardId,
        retention: Box<Retention>,
        ages: Ages,
        sweeper: Sweeper,
    },
    /// The shard could not be read, and some time has passed.
    Claim {
        shard: ShardId,
        touched: Option<Touched>,
    },
    Stop,
}

/// The way to one worker.
pub(crate) struct Line {
    pub(crate) frames: mpsc::Sender<connect_response::Frame>,
    pub(crate) reason: watch::Sender<Option<CloseReason>>,
    /// It was full, so that a frame was lost.
    pub(crate) is_unread: bool,
}

/// Messages handled before the outputs leave: enough to share a commit, few enough to answer soon.
const TURN: usize = 256;
/// Messages of a turn beyond which more are likely to come while a commit lasts: the writer's thread makes it then.
const ALONE: usize = 2;
/// The milliseconds of one turn beyond which the log says so.
const LONG_TURN_MS: i64 = 50;
/// How long a shard that cannot be read is left alone, at first and at most.
const CLAIM_AGAIN: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));
/// How long a shard has to have worked before it is claimed again at once.
const WORKED: i64 = 10_000;

/// Sweeps of one shard.
#[derive(Default)]
struct Sweeps {
    /// They wait for the shard's word.
    asked: VecDeque<Sweeper>,
    /// They are the writer's.
    going: VecDeque<Sweeper>,
}

pub(crate) struct Turning {
    pub(crate) driver: Driver,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Clock,
    pub(crate) watch: Watch,
    /// Until the trace ends.
    pub(crate) recorder: Option<Recorder>,
    pub(crate) writer: Writer,
    pub(crate) load: Load,
    /// For what was read meanwhile; weak, so that the thread ends when nobody else can reach it.
    pub(crate) inbox: WeakInbox,
    /// The shards' thread, whose tasks end with it.
    pub(crate) tasks: Handle,
    /// As many values are judged at once as this lets.
    pub(crate) judges: judging::Judges,
    pub(crate) shared: Arc<Shared>,
    pub(crate) ready: Option<oneshot::Sender<Result<(), StoreError>>>,
    /// Shards that were never read yet.
    pub(crate) unread: Vec<ShardId>,
    pub(crate) memory: Memory,
}

/// What comes to the shards' thread.
pub(crate) struct Coming {
    pub(crate) told: mpsc::UnboundedReceiver<Told>,
    pub(crate) messages: mpsc::Receiver<Queued>,
}

/// Who waits for what.
#[derive(Default)]
pub(crate) struct Memory {
    /// What answers queries for specs.
    router: Option<Arc<dyn Route>>,
    /// Queries that came before there was a router, as after a start.
    unanswered: Vec<(RunId, QueryId, Query)>,
    replies: BTreeMap<ReplyId, oneshot::Sender<Answer>>,
    connections: BTreeMap<ConnectionId, Line>,
    /// Those of which the crew does not know yet that their frames are not read.
    unread: Vec<ConnectionId>,
    sweeps: BTreeMap<ShardId, Sweeps>,
    /// How long each shard was left alone last, which could not be read, or not be written for long.
    delays: BTreeMap<ShardId, Duration>,
    /// When each shard was claimed again last.
    claimed: BTreeMap<ShardId, Mono>,
    outputs: Vec<Output>,
    longest: Longest,
    /// The turn that is being taken.
    turn: Option<Turn>,
    /// When the shards' thread looks at what is due, of itself.
    wakes_at: Option<Mono>,
    draining: bool,
    stopped: bool,
}

/// The shards' thread. Nobody waits for it in vain, however it ends.
pub(crate) async fn run(desk: Arc<Desk>, coming: Coming) {
    let closing = Closing(Arc::clone(&desk));
    take_turns(&desk, coming).await;
    drop(closing);
}

struct Closing(Arc<Desk>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Takes turns until it is stopped, or nobody can reach it any more, or a turn has panicked.
async fn take_turns(desk: &Desk, mut coming: Coming) {
    let Some(room) = desk.lock().map(|turning| turning.begin()) else { return };
    let mut messages = Vec::with_capacity(TURN);
    loop {
        let Some((wake, now, has_room)) = desk.lock().map(|mut turning| turning.sleeps()) else { return };
        let mut news = None;
        let mut woken = false;
        tokio::select! {
            biased;
            told = coming.told.recv() => match told {
                Some(told) => news = Some(told),
                None => return,
            },
            count = coming.messages.recv_many(&mut messages, TURN), if has_room => {
                if count == 0 {
                    return desk.lock().map_or((), |mut turning| turning.stop());
                }
            }
            () = desk.sooner.notified() => {}
            () = room.notified(), if !has_room => {}
            () = sleep_until(wake, now) => woken = true,
        }
        let Some(mut turning) = desk.lock() else { return };
        turning.begins();
        if woken {
            turning.input(Input::Wake);
        }
        let taken = messages.len();
        for Queued { message, .. } in messages.drain(..) {
            if matches!(message, Message::Stop) {
                return turning.stop();
            }
            turning.message(message);
        }
        let mut heard = 0;
        while let Some(told) = news.take().or_else(|| coming.told.try_recv().ok()) {
            turning.told(told);
            heard += 1;
        }
        turning.load.end(taken + heard);
        turning.wake_if_due();
        turning.carry_out(taken <= ALONE);
        turning.ends();
    }
}

impl Turning {
    /// Returns what rings when the writer has room again.
    fn begin(&self) -> Arc<Notify> {
        for shard in &self.unread {
            self.writer.give(Work::Claim { shard: *shard, touched: None });
        }
        self.writer.room()
    }

    /// The shards' thread is about to sleep: until when, what time it is, and whether it takes messages meanwhile. While the
    /// writer has much to do, they wait where they are counted.
    fn sleeps(&mut self) -> (Option<Mono>, Mono, bool) {
        self.memory.wakes_at = self.driver.next_wake();
        (self.memory.wakes_at, (self.clock)().mono, self.writer.has_room())
    }

    /// Whether something is due before the shards' thread would look.
    pub(crate) fn is_due_sooner(&self) -> bool {
        let due = self.driver.next_wake();
        due.is_some_and(|due| self.memory.wakes_at.is_none_or(|wakes_at| due < wakes_at))
    }

    pub(crate) fn has_stopped(&self) -> bool {
        self.memory.stopped
    }

    fn stop(&mut self) {
        self.memory.stopped = true;
        self.carry_out(false);
        self.ends();
    }

    /// Handles a message while nothing else is under way.
    pub(crate) fn take_alone(&mut self, message: Message) {
        self.begins();
        self.message(message);
        self.wake_if_due();
        self.carry_out(true);
        self.ends();
    }

    /// Somebody has the shards, so that everybody else waits.
    fn begins(&mut self) {
        self.memory.turn = Some(Turn::begins((self.clock)().mono));
    }

    /// They are about to be given back.
    fn ends(&mut self) {
        let Some(turn) = self.memory.turn.take() else { return };
        let (took, lasted_ms) = turn.ends((self.clock)().mono);
        self.shared.meters.turns.took(took);
        if lasted_ms > LONG_TURN_MS {
            tracing::warn!(lasted_ms, "a turn kept everybody waiting");
        }
        if self.memory.longest.takes(lasted_ms) {
            tracing::debug!(lasted_ms, "one of the two longest turns so far");
        }
    }

    /// Makes a commit here and now, which is measured for itself.
    fn commit(&mut self, job: Job) -> Vec<Told> {
        let (begun, at) = (Begun::now(), (self.clock)().mono);
        let told = self.writer.carry_out(job);
        let lasted_ms = (self.clock)().mono.since(at);
        if let Some(turn) = &mut self.memory.turn {
            turn.leaves_out(begun.took(), lasted_ms);
        }
        told
    }

    /// What is due is not put off for as long as messages come.
    fn wake_if_due(&mut self) {
        if self.driver.next_wake().is_some_and(|due| due <= (self.clock)().mono) {
            self.input(Input::Wake);
        }
    }

    /// Nothing is carried out any more. Who waits hears so, for nobody is left who could answer.
    pub(crate) fn end(&mut self) {
        self.memory = Memory { stopped: true, ..Memory::default() };
        self.ready = None;
        // What it has gathered is written, also where a turn has panicked.
        self.recorder = None;
        self.shared.over.send_replace(true);
        self.writer.stop();
        // Whoever waits for the end of what runs waits in vain from now on.
        self.shared.at_work.send_replace(Some(0));
    }

    /// One input, and what is found out at once of what follows from it, so that all of it shares the commit.
    fn input(&mut self, input: Input) {
        let mut next = self.memory.outputs.len();
        self.turn(input);
        while let Some(output) = self.memory.outputs.get(next) {
            next += 1;
            let Output::Query { run, query, asked } = output else { continue };
            let (run, query) = (*run, *query);
            let answered = match asked {
                Query::Route { .. } => self.answer(run, query, asked.clone()),
                Query::Judge(judgement) => judging::judged_at_once(&self.judges, &self.store, judgement)
                    .map(|verdict| Input::Judged { run, query, verdict }),
                asked => judging::computed_at_once(&self.judges, &self.store, asked)
                    .map(|computed| Input::Computed { run, query, computed }),
            };
            let Some(answered) = answered else { continue };
            if !matches!(answered, Input::Answered { .. }) {
                next -= 1;
                self.memory.outputs.remove(next);
            }
            self.turn(answered);
        }
    }

    /// One step of the driver, recorded where a trace is wanted.
    fn turn(&mut self, input: Input) {
        let now = (self.clock)();
        if let Some(by_ms) = self.watch.set_by(now) {
            tracing::warn!(by_ms, "the clock on the wall was set; deadlines stay as far ahead as they were");
        }
        let before = self.memory.outputs.len();
        self.recorder.take_if(|recorder| !recorder.input(now, &input));
        self.driver.handle(now, input, &mut self.memory.outputs);
        let unfinished = u64::try_from(self.driver.run_count()).unwrap_or(u64::MAX);
        self.shared.meters.unfinished.store(unfinished, Ordering::Relaxed);
        let outputs = self.memory.outputs.get(before..).unwrap_or_default();
        self.recorder.take_if(|recorder| !recorder.outputs(now, outputs));
    }

    /// The answer to a query; `None` where there is nobody to ask yet, or nobody who wants to know any more.
    fn answer(&mut self, run: RunId, query: QueryId, asked: Query) -> Option<Input> {
        let Some(router) = self.memory.router.as_deref() else {
            self.memory.unanswered.push((run, query, asked));
            return None;
        };
        let (ask, context) = self.driver.asks_for(run)?;
        let answer = find(router, ask, context, asked)?;
        Some(Input::Answered { run, query, answer })
    }

    /// The specs are there, or others than before.
    fn routed_by(&mut self, router: Arc<dyn Route>) {
        self.memory.router = Some(router);
        for (run, query, asked) in std::mem::take(&mut self.memory.unanswered) {
            if let Some(answered) = self.answer(run, query, asked) {
                self.input(answered);
            }
        }
    }

    fn message(&mut self, message: Message) {
        match message {
            Message::Input(input) => {
                if let Input::Forget { reply, .. } = &input {
                    self.memory.replies.remove(reply);
                }
                if let Input::Disconnected { connection } = &input {
                    self.memory.connections.remove(connection);
                }
                self.memory.draining |= matches!(input, Input::Drain);
                self.input(input);
            }
            Message::Request { reply, request, sender } => {
                self.memory.replies.insert(reply, sender);
                self.input(Input::Request { reply, request });
            }
            Message::Connect { connection, line, is_host } => {
                self.memory.connections.insert(connection, line);
                if is_host {
                    self.input(Input::Hosted { connection });
                }
            }
            Message::Router(router) => self.routed_by(router),
            Message::Sweep { shard, retention, ages, sweeper } => {
                self.memory.sweeps.entry(shard).or_default().asked.push_back(sweeper);
                self.input(Input::Sweep { shard, retention, ages });
            }
            Message::Claim { shard, touched } => self.writer.give(Work::Claim { shard, touched }),
            Message::Stop => {}
        }
    }

    fn told(&mut self, told: Told) {
        match told {
            Told::Committed { shard, outcomes } => self.input(Input::Committed { shard, outcomes }),
            Told::Failed { shard, error } => {
                let error = &error as &dyn std::error::Error;
                tracing::error!(shard = shard.0, error, "a write failed; the shard is read again");
                self.input(Input::CommitFailed { shard });
            }
            Told::Quarantined { run } => {
                let _ = self.shared.quarantined.send(run);
            }
            Told::Removed { shard, reply, run, removal } => {
                self.input(Input::Removed { reply, run, removal });
                if let Some(feed) =
                    self.shared.feed(shard).filter(|_| matches!(removal, Some(Removal::Removed { .. })))
                {
                    feed.swept.send_replace(());
                }
            }
            Told::Swept { shard, swept } => {
                self.input(Input::Swept { shard });
                if let Some(feed) =
                    self.shared.feed(shard).filter(|_| swept.as_ref().is_ok_and(|it| it.runs > 0))
                {
                    feed.swept.send_replace(());
                }
                let going = self.memory.sweeps.entry(shard).or_default().going.pop_front();
                if let Some(sweeper) = going {
                    let _ = sweeper.send(swept);
                }
            }
            Told::Claimed { shard, recovered, newest } => {
                if self.ready.is_none() {
                    self.memory.claimed.insert(shard, (self.clock)().mono);
                }
                if let Some(feed) = self.shared.feed(shard) {
                    feed.set_history(recovered.history.clone());
                    // What the log holds and nobody was told of lies before the new ring.
                    feed.begin_again(newest);
                }
                self.input(Input::Recovered { shard, recovered });
                let _ = self.shared.scripts_over.send(None);
                self.unread.retain(|unread| *unread != shard);
                if self.unread.is_empty()
                    && let Some(ready) = self.ready.take()
                {
                    let _ = ready.send(Ok(()));
                }
            }
            Told::Unreadable { shard, touched, error } => self.unreadable(shard, touched, error),
        }
    }

    /// The disk may be full for a while: the shard is claimed again later.
    fn unreadable(&mut self, shard: ShardId, touched: Option<Touched>, error: StoreError) {
        tracing::error!(
            shard = shard.0,
            error = &error as &dyn std::error::Error,
            "the shard cannot be read"
        );
        if let Some(ready) = self.ready.take() {
            let _ = ready.send(Err(error));
        }
        self.claim_later(shard, touched);
    }

    /// Has a shard claimed again, of which nobody knows what is durable: at once, unless that was so a short while ago. A
    /// disk that takes no commits is not claimed again and again without a pause.
    fn claim_again(&mut self, shard: ShardId, touched: Option<Touched>) {
        let now = (self.clock)().mono;
        let has_worked = |claimed: &Mono| now.0.saturating_sub(claimed.0) >= WORKED;
        if self.memory.claimed.get(&shard).is_none_or(has_worked) {
            self.memory.delays.remove(&shard);
            return self.writer.give(Work::Claim { shard, touched });
        }
        self.claim_later(shard, touched);
    }

    fn claim_later(&mut self, shard: ShardId, touched: Option<Touched>) {
        let before = self.memory.delays.get(&shard);
        let delay = before.map_or(CLAIM_AGAIN.0, |before| before.saturating_mul(2).min(CLAIM_AGAIN.1));
        self.memory.delays.insert(shard, delay);
        let inbox = self.inbox.clone();
        self.tasks.spawn(async move {
            tokio::time::sleep(delay).await;
            inbox.send(Message::Claim { shard, touched }).await;
        });
    }

    /// Carries out what is wanted. `alone`: little has come, so that a commit need not be left to the writer's thread,
    /// unless something else is under way.
    fn carry_out(&mut self, alone: bool) {
        loop {
            self.load.waiting(self.memory.replies.len());
            let (mut writes, mut replies) = (Vec::new(), Vec::new());
            let mut outputs = std::mem::take(&mut self.memory.outputs);
            for errand in errands(outputs.drain(..)) {
                match errand {
                    Errand::Leave(Output::Reply { reply, answer }) => replies.push((reply, answer)),
                    Errand::Write(work) => {
                        if let Work::Sweep { shard, .. } = &work {
                            let sweeps = self.memory.sweeps.entry(*shard).or_default();
                            sweeps.going.extend(sweeps.asked.pop_front());
                        }
                        writes.push(work);
                    }
                    Errand::Leave(output) => self.leave(output),
                }
            }
            self.memory.outputs = outputs;
            // The task that is woken last runs first, on this very thread: a caller waits, a worker that has done does not.
            for (reply, answer) in replies {
                self.reply(reply, answer);
            }
            for work in writes {
                match work {
                    Work::Append(appends) if alone && self.load.is_none() => {
                        for told in self.commit(Job::Commit(appends)) {
                            self.told(told);
                        }
                    }
                    Work::Claim { shard, touched } => self.claim_again(shard, touched),
                    work => self.writer.give(work),
                }
            }
            for connection in std::mem::take(&mut self.memory.unread) {
                self.input(Input::Unread { connection });
            }
            self.load.waiting(self.memory.replies.len());
            if self.memory.outputs.is_empty() {
                if self.memory.draining {
                    self.count_at_work();
                }
                return;
            }
        }
    }

    fn leave(&mut self, output: Output) {
        match output {
            Output::Frame { connection, frame } => self.send_frame(connection, frame),
            Output::Close { connection, reason } => self.close(connection, reason),
            Output::Reply { reply, answer } => self.reply(reply, answer),
            Output::Publish { shard, published } => {
                if let Some(feed) = self.shared.feed(shard) {
                    self.shared.meters.published(&published);
                    feed.publish(published);
                }
            }
            Output::Progress(progress) => {
                let _ = self.shared.progress.send(progress);
            }
            Output::LoadSession { stream, load } => self.load_session(stream, load),
            Output::LoadRun { run, load } => self.load_run(run, load),
            Output::FindChild { child, number } => self.find_child(child, number),
            Output::FindKeys { shard, number, query } => self.find_keys(shard, number, query),
            Output::ScriptOver { run } => {
                let _ = self.shared.scripts_over.send(Some(run));
            }
            Output::Fenced { shard } => {
                tracing::error!(shard = shard.0, "another daemon has taken the shard over");
                self.shared.fenced.send_replace(true);
            }
            // The shard is being read again.
            Output::Sweep { shard, .. } => {
                let sweeper = self.memory.sweeps.entry(shard).or_default().asked.pop_front();
                if let Some(sweeper) = sweeper {
                    let _ = sweeper.send(Err(StoreError::Closed));
                }
            }
            Output::Behind { by_ms, .. } => {
                self.shared.behind_ms.send_replace(by_ms);
            }
            Output::Query { run, query, asked: Query::Judge(judgement) } => {
                self.judge(run, query, *judgement);
            }
            // Answered when it was asked: what follows from it shares the commit.
            Output::Query { asked: Query::Route { .. }, .. } => {}
            Output::Query { run, query, asked } => self.compute(run, query, asked),
            // Written.
            Output::Append { .. }
            | Output::PutSnapshot { .. }
            | Output::Quarantine { .. }
            | Output::PutReadings { .. }
            | Output::Remove { .. }
            | Output::Release { .. }
            | Output::PutAgents(_)
            | Output::ForgetAgents(_)
            | Output::Restart { .. } => {}
        }
    }

    fn reply(&mut self, reply: ReplyId, answer: Answer) {
        if let Some(sender) = self.memory.replies.remove(&reply) {
            let _ = sender.send(answer);
        }
    }

    /// Reads a session beside the shards' thread.
    fn load_session(&self, stream: RunId, load: u64) {
        let (store, inbox) = (Arc::clone(&self.store), self.inbox.clone());
        let Some(shard) = self.driver.home(stream) else { return };
        let read = self.tasks.spawn_blocking(move || {
            let input = match take_up_session(&*store, stream) {
                Ok(state) => Input::SessionLoaded { stream, load, state: Ok(state.map(Box::new)) },
                Err(LoadError::Damaged(damage)) => Input::SessionLoaded { stream, load, state: Err(damage) },
                Err(LoadError::Store(error)) => {
                    tracing::error!(%stream, error = &error as &dyn std::error::Error, "a session cannot be read");
                    Input::CommitFailed { shard }
                }
            };
            Message::Input(input)
        });
        self.tasks.spawn(async move {
            if let Ok(message) = read.await {
                inbox.send(message).await;
            }
        });
    }

    fn load_run(&self, run: RunId, load: u64) {
        let (store, inbox) = (Arc::clone(&self.store), self.inbox.clone());
        let read = self.tasks.spawn_blocking(move || {
            let state = match journal::load(&*store, run) {
                Ok(state) => Ok(Some(Box::new(state))),
                Err(LoadError::Damaged(damage)) => Err(damage),
                Err(LoadError::Store(error)) => {
                    tracing::error!(%run, error = &error as &dyn std::error::Error, "a run cannot be read");
                    Ok(None)
                }
            };
            Message::Input(Input::RunLoaded { run, load, state })
        });
        self.tasks.spawn(async move {
            if let Ok(message) = read.await {
                inbox.send(message).await;
            }
        });
    }

    /// Looks for a run beside the shards' thread.
    fn find_child(&self, child: RunId, number: u64) {
        let (store, inbox) = (Arc::clone(&self.store), self.inbox.clone());
        let read = self.tasks.spawn_blocking(move || journal::find(&*store, child));
        self.tasks.spawn(async move {
            if let Ok(found) = read.await {
                inbox.send(Message::Input(Input::ChildFound { child, number, found })).await;
            }
        });
    }

    /// Reads keys beside the shards' thread.
    fn find_keys(&self, shard: ShardId, number: u64, query: KeyQuery) {
        let (store, inbox) = (Arc::clone(&self.store), self.inbox.clone());
        let read = self.tasks.spawn_blocking(move || journal::find_keys(&*store, shard, &query));
        self.tasks.spawn(async move {
            if let Ok(fact) = read.await {
                inbox.send(Message::Input(Input::KeysFound { shard, number, fact })).await;
            }
        });
    }

    /// Judges a value beside the shards' thread, when one of the judges is free.
    fn judge(&self, run: RunId, query: QueryId, judgement: Judgement) {
        let (store, inbox) = (Arc::clone(&self.store), self.inbox.clone());
        let (judges, tasks) = (self.judges.clone(), self.tasks.clone());
        self.tasks.spawn(async move {
            let verdict = judging::verdict(&judges, &tasks, store, judgement).await;
            inbox.send(Message::Input(Input::Judged { run, query, verdict })).await;
        });
    }

    /// Computes what a phase wants to know beside the shards' thread.
    fn compute(&self, run: RunId, query: QueryId, asked: Query) {
        let (store, inbox) = (Arc::clone(&self.store), self.inbox.clone());
        let (judges, tasks) = (self.judges.clone(), self.tasks.clone());
        self.tasks.spawn(async move {
            let computed = judging::computed(&judges, &tasks, store, asked).await;
            inbox.send(Message::Input(Input::Computed { run, query, computed })).await;
        });
    }

    fn send_frame(&mut self, connection: ConnectionId, frame: connect_response::Frame) {
        let Some(line) = self.memory.connections.get_mut(&connection) else { return };
        // A worker that does not read what it is sent is gone for all that matters. What follows a frame that is lost must
        // not reach it either.
        if !line.is_unread && line.frames.try_send(frame).is_err() {
            line.is_unread = true;
            self.memory.unread.push(connection);
        }
    }

    fn close(&mut self, connection: ConnectionId, reason: CloseReason) {
        if let Some(line) = self.memory.connections.remove(&connection) {
            tracing::info!(?connection, ?reason, "a worker's connection was closed");
            // Before the last frame, so that whoever sees the end of them sees the reason.
            line.reason.send_replace(Some(reason));
        }
    }
}

/// A clock that is not the system's may be moved on: it is looked at every second at least.
async fn sleep_until(wake: Option<Mono>, now: Mono) {
    match wake {
        None => std::future::pending().await,
        Some(at) => {
            let wait = at.since(now).min(1_000);
            tokio::time::sleep(Duration::from_millis(u64::try_from(wait).unwrap_or(0))).await;
        }
    }
}

#[cfg(test)]
mod tests;
