//! The shard's thread, and the handle by which everybody else reaches it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use capataz_contracts::v1::{self, connect_request, connect_response};
use capataz_engine::{Query, QueryId};
use capataz_store::{Position, Retention, RunId, ShardId, Store, StoreError, Swept};
use tokio::sync::{broadcast, mpsc, oneshot, watch};

use super::Clock;
use super::writer::{self, Work, Writer, Written, load_session};
use crate::core::{
    Answer, CloseReason, ConnectionId, Core, CoreConfig, Input, Known, Output, ReplyId, Request, Route, find,
};
use crate::feed::Ring;

/// Sizes of the shell's channels and memory.
#[derive(Clone)]
pub struct ShardOptions {
    pub core: CoreConfig,
    /// Inputs that may wait for the shard; beyond them requests are refused.
    pub inbox: usize,
    /// Bytes of newest events in memory.
    pub ring_bytes: usize,
    /// Frames that may wait for a worker to read them, beside four for each of its slots.
    pub frames_per_worker: usize,
    /// Progress frames that a subscriber may lag behind before it misses some.
    pub progress_backlog: usize,
    /// The time of everything that the shard decides.
    pub clock: Clock,
}

impl std::fmt::Debug for ShardOptions {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ShardOptions")
            .field("core", &self.core)
            .field("inbox", &self.inbox)
            .field("ring_bytes", &self.ring_bytes)
            .finish_non_exhaustive()
    }
}

impl Default for ShardOptions {
    fn default() -> Self {
        Self {
            core: CoreConfig::default(),
            inbox: 8_192,
            ring_bytes: 8 * 1024 * 1024,
            frames_per_worker: 1_024,
            progress_backlog: 256,
            clock: Arc::new(super::now),
        }
    }
}

/// Why a shard did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("a thread could not be started")]
    Thread(#[source] std::io::Error),
    #[error("the store could not be opened")]
    Store(#[source] StoreError),
    #[error("the shard's thread ended")]
    Gone,
}

/// Scripts that may have ended before their browsers are seen to; beyond them the store is asked.
const SCRIPTS_BACKLOG: usize = 1_024;

enum Message {
    Core(Input),
    Request { reply: ReplyId, request: Request, sender: oneshot::Sender<Answer> },
    Connect { connection: ConnectionId, frames: mpsc::Sender<connect_response::Frame> },
    Learn(Known),
    Router(Arc<dyn Route>),
    Sweep(Box<Retention>, Sweeper),
    Stop,
}

/// Who waits for a sweep.
type Sweeper = oneshot::Sender<Result<Swept, StoreError>>;

/// Reaches a shard. Cheap to clone.
#[derive(Clone)]
pub struct Shard {
    inner: Arc<Inner>,
}

struct Inner {
    shard: ShardId,
    store: Arc<dyn Store>,
    inbox: mpsc::Sender<Message>,
    next_id: AtomicU64,
    feed: Arc<SharedFeed>,
    frames_per_worker: usize,
    clock: Clock,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// What subscribers read: the newest events, and a bell.
pub(super) struct SharedFeed {
    ring: Mutex<Ring>,
    pub(super) newest: watch::Sender<Position>,
    pub(super) progress: broadcast::Sender<v1::ProgressFrame>,
    /// Another daemon owns the shard.
    pub(super) fenced: watch::Sender<bool>,
    /// Every script that ends; `None` where some may have ended of which nothing was said.
    pub(super) scripts_over: broadcast::Sender<Option<RunId>>,
}

impl SharedFeed {
    pub(super) fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Shard {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Shard").field("shard", &self.inner.shard).finish_non_exhaustive()
    }
}

/// One worker's end of the shard.
#[derive(Debug)]
pub struct WorkerLink {
    pub frames: mpsc::Receiver<connect_response::Frame>,
    sender: WorkerSender,
}

/// Speaks for a worker; says that it is gone when dropped.
#[derive(Debug)]
pub struct WorkerSender {
    connection: ConnectionId,
    inbox: mpsc::Sender<Message>,
}

impl WorkerLink {
    #[must_use]
    pub fn split(self) -> (mpsc::Receiver<connect_response::Frame>, WorkerSender) {
        (self.frames, self.sender)
    }
}

impl WorkerSender {
    /// Hands a validated frame to the shard; waits while the shard is busy. Whether the shard is still there.
    pub async fn send(&self, frame: connect_request::Frame) -> bool {
        let input = Input::Frame { connection: self.connection, frame };
        self.inbox.send(Message::Core(input)).await.is_ok()
    }
}

impl Drop for WorkerSender {
    fn drop(&mut self) {
        let gone = Message::Core(Input::Disconnected { connection: self.connection });
        // A full inbox must not lose it: the departure is then told by a task of its own.
        if let Err(mpsc::error::TrySendError::Full(gone)) = self.inbox.try_send(gone)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let inbox = self.inbox.clone();
            runtime.spawn(async move { inbox.send(gone).await });
        }
    }
}

impl Shard {
    /// Claims the shard, reads its unfinished runs and starts its threads. `known` is what the configuration names.
    ///
    /// # Errors
    /// The store cannot be read, or a thread cannot be started.
    pub async fn start(
        shard: ShardId,
        store: Arc<dyn Store>,
        known: Known,
        options: ShardOptions,
    ) -> Result<Self, StartError> {
        let (inbox, messages) = mpsc::channel(options.inbox);
        let (written_sender, written) = mpsc::unbounded_channel();
        let Writer { work, thread } =
            writer::spawn(Arc::clone(&store), shard, written_sender).map_err(StartError::Thread)?;
        let feed = Arc::new(SharedFeed {
            ring: Mutex::new(Ring::new(Position(0), options.ring_bytes)),
            newest: watch::Sender::new(Position(0)),
            progress: broadcast::Sender::new(options.progress_backlog),
            fenced: watch::Sender::new(false),
            scripts_over: broadcast::Sender::new(SCRIPTS_BACKLOG),
        });
        let (ready_sender, ready) = oneshot::channel();
        let driver = Driver {
            core: Core::new(options.core.clone()),
            router: None,
            unanswered: Vec::new(),
            written,
            messages,
            work,
            feed: Arc::clone(&feed),
            replies: BTreeMap::new(),
            connections: BTreeMap::new(),
            outputs: Vec::new(),
            ring_bytes: options.ring_bytes,
            ready: Some(ready_sender),
            sweeps: VecDeque::new(),
            store: Arc::clone(&store),
            inbox: inbox.downgrade(),
            clock: Arc::clone(&options.clock),
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .map_err(StartError::Thread)?;
        let driver_thread = std::thread::Builder::new()
            .name("capataz-shard".to_owned())
            .spawn(move || runtime.block_on(driver.run()))
            .map_err(StartError::Thread)?;
        let inner = Inner {
            shard,
            store,
            inbox,
            next_id: AtomicU64::new(1),
            feed,
            frames_per_worker: options.frames_per_worker,
            clock: options.clock,
            threads: Mutex::new(vec![thread, driver_thread]),
        };
        let handle = Self { inner: Arc::new(inner) };
        handle.learn(known).await;
        ready.await.map_err(|_| StartError::Gone)?.map_err(StartError::Store)?;
        Ok(handle)
    }

    /// Makes known what the configuration names.
    pub async fn learn(&self, known: Known) {
        let _ = self.inner.inbox.send(Message::Learn(known)).await;
    }

    /// Makes the specs known that asks are routed to from now on.
    pub async fn set_router(&self, router: Arc<dyn Route>) {
        let _ = self.inner.inbox.send(Message::Router(router)).await;
    }

    #[must_use]
    pub fn id(&self) -> ShardId {
        self.inner.shard
    }

    /// The time by which the shard decides.
    #[must_use]
    pub fn now(&self) -> capataz_engine::Timestamp {
        (self.inner.clock)()
    }

    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    /// Asks and waits. A full shard answers at once that it is overloaded.
    pub async fn request(&self, request: Request) -> Answer {
        let reply = ReplyId(self.next_id());
        let run = match &request {
            Request::Start(start) => Some(start.run),
            Request::Wait { run } => Some(*run),
            _ => None,
        };
        let (sender, receiver) = oneshot::channel();
        match self.inner.inbox.try_send(Message::Request { reply, request, sender }) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(_)) => return Answer::Overloaded { retry_after_ms: 250 },
            Err(mpsc::error::TrySendError::Closed(_)) => return Answer::Unavailable,
        }
        let guard = Waiting { inbox: &self.inner.inbox, reply, run, answered: false };
        let answer = receiver.await.unwrap_or(Answer::Unavailable);
        guard.answered();
        answer
    }

    /// A connection for a worker, whose first frame has to be its hello. `slots` bounds what may wait for it.
    pub async fn connect(&self, slots: usize) -> WorkerLink {
        let connection = ConnectionId(self.next_id());
        let (sender, frames) = mpsc::channel(self.inner.frames_per_worker + slots.saturating_mul(4));
        let _ = self.inner.inbox.send(Message::Connect { connection, frames: sender }).await;
        let inbox = self.inner.inbox.clone();
        WorkerLink { frames, sender: WorkerSender { connection, inbox } }
    }

    /// Removes finished runs, keys and blobs that are over their time.
    ///
    /// # Errors
    /// The store failed, or is being reopened.
    pub async fn sweep(&self, retention: Retention) -> Result<Swept, StoreError> {
        let (sender, receiver) = oneshot::channel();
        let message = Message::Sweep(Box::new(retention), sender);
        self.inner.inbox.send(message).await.map_err(|_| StoreError::Closed)?;
        receiver.await.unwrap_or(Err(StoreError::Closed))
    }

    /// Every script that ends from now on. `None`, as lagging behind, says that scripts may have ended unseen: the store
    /// knows which.
    #[must_use]
    pub fn scripts_over(&self) -> broadcast::Receiver<Option<RunId>> {
        self.inner.feed.scripts_over.subscribe()
    }

    /// Ends when another daemon has taken the shard over.
    pub async fn fenced(&self) {
        let mut fenced = self.inner.feed.fenced.subscribe();
        let _ = fenced.wait_for(|fenced| *fenced).await;
    }

    /// No new runs, workers are told; what is in flight is written, then the threads end.
    pub async fn stop(&self, patience: Duration) {
        let _ = self.inner.inbox.send(Message::Core(Input::Drain)).await;
        let _ = tokio::time::timeout(patience, self.idle()).await;
        let _ = self.inner.inbox.send(Message::Stop).await;
        let threads = std::mem::take(&mut *self.inner.threads.lock().unwrap_or_else(PoisonError::into_inner));
        let _ = tokio::task::spawn_blocking(move || {
            for thread in threads {
                let _ = thread.join();
            }
        })
        .await;
    }

    /// Ends when no task runs on any worker.
    async fn idle(&self) {
        let mut pulse = tokio::time::interval(Duration::from_millis(50));
        loop {
            pulse.tick().await;
            match self.request(Request::ListAgents).await {
                Answer::Agents(agents) if agents.iter().any(|agent| agent.running > 0) => {}
                Answer::Overloaded { .. } => {}
                _ => return,
            }
        }
    }

    pub(super) fn feed(&self) -> &Arc<SharedFeed> {
        &self.inner.feed
    }

    fn next_id(&self) -> u64 {
        self.inner.next_id.fetch_add(1, Ordering::Relaxed)
    }
}

/// Tells the shard when a caller no longer waits.
struct Waiting<'a> {
    inbox: &'a mpsc::Sender<Message>,
    reply: ReplyId,
    run: Option<RunId>,
    answered: bool,
}

impl Waiting<'_> {
    fn answered(mut self) {
        self.answered = true;
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.answered
            && let Some(run) = self.run
        {
            let _ = self.inbox.try_send(Message::Core(Input::Forget { reply: self.reply, run }));
        }
    }
}

/// The shard's thread.
struct Driver {
    core: Core,
    /// What answers queries for specs.
    router: Option<Arc<dyn Route>>,
    /// Queries that came before there was a router, as after a start.
    unanswered: Vec<(RunId, QueryId, Query)>,
    written: mpsc::UnboundedReceiver<Written>,
    messages: mpsc::Receiver<Message>,
    work: std::sync::mpsc::Sender<Work>,
    feed: Arc<SharedFeed>,
    replies: BTreeMap<ReplyId, oneshot::Sender<Answer>>,
    connections: BTreeMap<ConnectionId, mpsc::Sender<connect_response::Frame>>,
    outputs: Vec<Output>,
    ring_bytes: usize,
    ready: Option<oneshot::Sender<Result<(), StoreError>>>,
    /// Sweeps that wait for the core's word.
    sweeps: VecDeque<(Box<Retention>, Sweeper)>,
    store: Arc<dyn Store>,
    /// For what was read meanwhile; weak, so that the shard ends when nobody else can reach it.
    inbox: mpsc::WeakSender<Message>,
    clock: Clock,
}

/// Messages handled before the outputs leave: enough to share a commit, few enough to answer soon.
const TURN: usize = 256;

impl Driver {
    async fn run(mut self) {
        let _ = self.work.send(Work::Reopen);
        let mut messages = Vec::with_capacity(TURN);
        loop {
            let wake = self.core.next_wake();
            tokio::select! {
                biased;
                written = self.written.recv() => match written {
                    Some(written) => self.written(written),
                    None => return,
                },
                count = self.messages.recv_many(&mut messages, TURN) => {
                    if count == 0 {
                        return self.stop();
                    }
                    for message in messages.drain(..) {
                        if matches!(message, Message::Stop) {
                            return self.stop();
                        }
                        self.message(message);
                    }
                }
                () = sleep_until(wake, (self.clock)()) => self.core(Input::Wake),
            }
            while let Ok(written) = self.written.try_recv() {
                self.written(written);
            }
            self.carry_out();
        }
    }

    fn stop(&mut self) {
        self.carry_out();
        let _ = self.work.send(Work::Stop);
    }

    fn core(&mut self, input: Input) {
        let mut next = self.outputs.len();
        self.core.handle((self.clock)(), input, &mut self.outputs);
        while let Some(output) = self.outputs.get_mut(next) {
            next += 1;
            let Output::Query { run, query, asked } = output else { continue };
            let (run, query, asked) = (*run, *query, asked.clone());
            if let Some(answered) = self.answer(run, query, asked) {
                self.core.handle((self.clock)(), answered, &mut self.outputs);
            }
        }
    }

    /// The answer to a query; `None` where there is nobody to ask yet, or nobody who wants to know any more.
    fn answer(&mut self, run: RunId, query: QueryId, asked: Query) -> Option<Input> {
        let Some(router) = self.router.as_deref() else {
            self.unanswered.push((run, query, asked));
            return None;
        };
        let (ask, context) = self.core.asks_for(run)?;
        let answer = find(router, ask, context, asked);
        Some(Input::Answered { run, query, answer })
    }

    /// The specs are there, or others than before.
    fn routed_by(&mut self, router: Arc<dyn Route>) {
        self.router = Some(router);
        for (run, query, asked) in std::mem::take(&mut self.unanswered) {
            if let Some(answered) = self.answer(run, query, asked) {
                self.core(answered);
            }
        }
    }

    fn message(&mut self, message: Message) {
        match message {
            Message::Core(input) => {
                if let Input::Forget { reply, .. } = &input {
                    self.replies.remove(reply);
                }
                if let Input::Disconnected { connection } = &input {
                    self.connections.remove(connection);
                }
                self.core(input);
            }
            Message::Request { reply, request, sender } => {
                self.replies.insert(reply, sender);
                self.core(Input::Request { reply, request });
            }
            Message::Connect { connection, frames } => {
                self.connections.insert(connection, frames);
            }
            Message::Learn(known) => self.core(Input::Learn(known)),
            Message::Router(router) => self.routed_by(router),
            Message::Sweep(retention, sweeper) => {
                self.sweeps.push_back((retention, sweeper));
                self.core(Input::Sweep);
            }
            Message::Stop => {}
        }
    }

    fn written(&mut self, written: Written) {
        match written {
            Written::Committed(outcomes) => self.core(Input::Committed { outcomes }),
            Written::Failed => self.core(Input::CommitFailed),
            Written::Swept => self.core(Input::Swept),
            Written::Recovered(recovered, newest) => {
                // What the log holds and nobody was told of lies before the new ring.
                *self.feed.ring() = Ring::new(newest, self.ring_bytes);
                self.feed.newest.send_replace(newest);
                self.core(Input::Recovered(recovered));
                let _ = self.feed.scripts_over.send(None);
                if let Some(ready) = self.ready.take() {
                    let _ = ready.send(Ok(()));
                }
            }
            Written::Unreadable(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "the shard cannot be read");
                if let Some(ready) = self.ready.take() {
                    let _ = ready.send(Err(error));
                }
            }
        }
    }

    fn carry_out(&mut self) {
        let mut appends = Vec::new();
        let mut newest = None;
        let mut outputs = std::mem::take(&mut self.outputs);
        for output in outputs.drain(..) {
            match output {
                Output::Append { append, .. } => appends.push(append),
                Output::Frame { connection, frame } => self.send_frame(connection, frame),
                Output::Close { connection, reason } => self.close(connection, reason),
                Output::Reply { reply, answer } => {
                    if let Some(sender) = self.replies.remove(&reply) {
                        let _ = sender.send(answer);
                    }
                }
                Output::Publish(published) => {
                    newest = Some(published.position);
                    self.feed.ring().push(published);
                }
                Output::Progress(progress) => {
                    let _ = self.feed.progress.send(progress);
                }
                // Answered when it was asked: what follows from it shares the commit.
                Output::Query { .. } => {}
                Output::PutSnapshot { run, snapshot } => {
                    self.give(&mut appends, Work::Snapshot(run, snapshot))
                }
                Output::PutAgents(agents) => self.give(&mut appends, Work::Agents(agents)),
                Output::LoadSession { stream, load } => self.load_session(stream, load),
                Output::ScriptOver { run } => {
                    let _ = self.feed.scripts_over.send(Some(run));
                }
                Output::Sweep { keep } => self.sweep(&mut appends, keep),
                Output::Restart => self.give(&mut appends, Work::Reopen),
                Output::Fenced => {
                    tracing::error!("another daemon has taken the shard over");
                    self.feed.fenced.send_replace(true);
                }
            }
        }
        self.outputs = outputs;
        if !appends.is_empty() {
            let _ = self.work.send(Work::Append(appends));
        }
        if let Some(newest) = newest {
            self.feed.newest.send_replace(newest);
        }
    }

    /// Hands work to the writer, after the appends before it.
    fn give(&self, appends: &mut Vec<capataz_store::Append>, work: Work) {
        if !appends.is_empty() {
            let _ = self.work.send(Work::Append(std::mem::take(appends)));
        }
        let _ = self.work.send(work);
    }

    /// Lets the oldest sweep that waits go, or not.
    fn sweep(&mut self, appends: &mut Vec<capataz_store::Append>, keep: Option<BTreeSet<RunId>>) {
        let Some((mut retention, sweeper)) = self.sweeps.pop_front() else { return };
        match keep {
            Some(keep) => {
                retention.keep.extend(keep);
                self.give(appends, Work::Sweep(*retention, sweeper));
            }
            None => {
                let _ = sweeper.send(Err(StoreError::Closed));
            }
        }
    }

    /// Reads a session beside the shard's thread.
    fn load_session(&self, stream: RunId, load: u64) {
        let (store, inbox) = (Arc::clone(&self.store), self.inbox.clone());
        tokio::task::spawn_blocking(move || {
            let input = match load_session(&*store, stream) {
                Ok(state) => Input::SessionLoaded { stream, load, state: state.map(Box::new) },
                Err(error) => {
                    tracing::error!(%stream, error = &error as &dyn std::error::Error, "a session cannot be read");
                    Input::CommitFailed
                }
            };
            if let Some(inbox) = inbox.upgrade() {
                let _ = inbox.blocking_send(Message::Core(input));
            }
        });
    }

    fn send_frame(&mut self, connection: ConnectionId, frame: connect_response::Frame) {
        let Some(sender) = self.connections.get(&connection) else { return };
        // A worker that does not read what it is sent is gone for all that matters.
        if sender.try_send(frame).is_err() {
            self.close(connection, CloseReason::Silent);
        }
    }

    fn close(&mut self, connection: ConnectionId, reason: CloseReason) {
        if self.connections.remove(&connection).is_some() {
            tracing::info!(?connection, ?reason, "a worker's connection was closed");
        }
    }
}

/// A clock that is not the system's may be moved on: it is looked at every second at least.
async fn sleep_until(wake: Option<capataz_engine::Timestamp>, now: capataz_engine::Timestamp) {
    match wake {
        None => std::future::pending().await,
        Some(at) => {
            let wait = at.0.saturating_sub(now.0).min(1_000);
            tokio::time::sleep(Duration::from_millis(u64::try_from(wait).unwrap_or(0))).await;
        }
    }
}
