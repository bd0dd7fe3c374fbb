//! [`Runtime`]: the handle by which everybody reaches the shards and the crew.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use capataz_contracts::v1::{self, connect_request, connect_response};
use capataz_crew::{AgentSnapshot, CloseReason, ConnectionId, Known, Now};
use capataz_engine::TaskRef;
use capataz_policy::registry::Batch;
use capataz_shard::shard::Config;
use capataz_shard::trace::Header;
use capataz_shard::{
    Ages, Answer, CommandReply, Damage, Declined, Driver, ImportReply, ImportSession, Input, ModeChosen,
    ReplyId, Request, Route, StartReply, StartRequest, Sweeping, TransitionReply, WaitReply,
};
use capataz_store::{Removal, Retention, RunId, ShardId, Store, StoreError, Swept};
use tokio::sync::{broadcast, mpsc, oneshot, watch};

use crate::clock::{self, Clock, Watch};
use crate::desk::{Desk, Frames, Gathering, Inbox, Load};
use crate::judging;
use crate::meters::Meters;
use crate::reads::Reads;
use crate::recorder::{Recorder, Trace};
use crate::shared::Shared;
use crate::turning::{self, Coming, Line, Memory, Message, Turning};
use crate::writer::Writer;

/// What a full inbox asks its callers to wait. Milliseconds.
const RETRY_AFTER_MS: i64 = 250;
/// How often a subscriber that gets no events is told how far the log has gone on.
const BEAT: Duration = Duration::from_secs(10);

/// Sizes of the shell's channels and memory.
#[derive(Clone)]
pub struct Options {
    pub shard: Config,
    /// Inputs that may wait for the shards; beyond them requests are refused.
    pub inbox: usize,
    /// Bytes of newest events in memory, for each shard.
    pub ring_bytes: usize,
    /// Frames that may wait for a worker to read them, beside four for each of its slots.
    pub frames_per_worker: usize,
    /// Progress frames that a subscriber may lag behind before it misses some.
    pub progress_backlog: usize,
    /// After how long a subscriber that gets no events is told how far the log has gone on.
    pub beat: Duration,
    /// The time of everything that the shards decide.
    pub clock: Clock,
    /// Where everything that the shards are told is recorded; `None` for nowhere.
    pub trace: Option<Trace>,
}

impl std::fmt::Debug for Options {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Options")
            .field("shard", &self.shard)
            .field("inbox", &self.inbox)
            .field("ring_bytes", &self.ring_bytes)
            .finish_non_exhaustive()
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            shard: Config::default(),
            inbox: 8_192,
            ring_bytes: 8 * 1024 * 1024,
            frames_per_worker: 1_024,
            progress_backlog: 256,
            beat: BEAT,
            clock: Arc::new(clock::now),
            trace: None,
        }
    }
}

/// Why the shards did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("a thread could not be started")]
    Thread(#[source] std::io::Error),
    #[error("the store could not be opened")]
    Store(#[source] StoreError),
    #[error("the trace {} cannot be created", file.display())]
    Trace {
        file: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("the shards' thread ended")]
    Gone,
}

/// Reaches a daemon's shards and its crew. Cheap to clone.
#[derive(Clone)]
pub struct Runtime {
    inner: Arc<Inner>,
}

struct Inner {
    shards: Vec<ShardId>,
    store: Arc<dyn Store>,
    inbox: Inbox,
    desk: Arc<Desk>,
    next_id: AtomicU64,
    shared: Arc<Shared>,
    frames_per_worker: usize,
    clock: Clock,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Runtime").field("shards", &self.inner.shards).finish_non_exhaustive()
    }
}

/// One worker's end.
#[derive(Debug)]
pub struct WorkerLink {
    pub frames: mpsc::Receiver<connect_response::Frame>,
    /// Why the connection was closed, from the moment at which it was.
    pub closed: watch::Receiver<Option<CloseReason>>,
    pub sender: WorkerSender,
}

impl WorkerLink {
    /// Its two directions, for whoever need not know why it was closed.
    #[must_use]
    pub fn split(self) -> (mpsc::Receiver<connect_response::Frame>, WorkerSender) {
        (self.frames, self.sender)
    }
}

/// Speaks for a worker; says that it is gone when dropped.
#[derive(Debug)]
pub struct WorkerSender {
    connection: ConnectionId,
    frames: Frames,
    desk: Arc<Desk>,
}

impl WorkerSender {
    /// Hands over a validated frame; waits while the shards are busy. Whether they are still there.
    pub async fn send(&self, frame: connect_request::Frame) -> bool {
        let bytes = frame.encoded_len();
        let message = Message::Input(Input::Frame { connection: self.connection, frame });
        match self.desk.take(message) {
            Ok(()) => true,
            Err(message) => self.frames.send(message, bytes).await,
        }
    }
}

impl Drop for WorkerSender {
    fn drop(&mut self) {
        let gone = Message::Input(Input::Disconnected { connection: self.connection });
        // A full inbox must not lose it: the departure is then told by a task of its own.
        if let Err(mpsc::error::TrySendError::Full(gone)) = self.frames.inbox().try_send(gone, 0)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let inbox = self.frames.inbox().clone();
            runtime.spawn(async move { inbox.send(gone).await });
        }
    }
}

impl Runtime {
    /// Claims the shards, reads their unfinished runs and starts the threads. `known` is what the configuration names.
    ///
    /// # Errors
    /// The store cannot be read, the trace cannot be created, or a thread cannot be started.
    pub async fn start(
        shards: Vec<ShardId>,
        store: Arc<dyn Store>,
        known: Known,
        options: Options,
    ) -> Result<Self, StartError> {
        let recording = record(&options, &shards)?;
        let (messages_sender, messages) = mpsc::channel(options.inbox);
        let (told_sender, told) = mpsc::unbounded_channel();
        let load = Load::default();
        let inbox = Inbox::new(messages_sender, load.clone());
        let clock = Arc::clone(&options.clock);
        let shared =
            Arc::new(Shared::new(&shards, options.ring_bytes, options.progress_backlog, options.beat));
        let meters = Arc::clone(&shared.meters);
        let (writer, writing) = Writer::start(Arc::clone(&store), told_sender, load.clone(), clock, meters)
            .map_err(StartError::Thread)?;
        let (ready_sender, ready) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .map_err(StartError::Thread)?;
        let (recorder, recording) = recording.unzip();
        let turning = Turning {
            driver: Driver::new(&options.shard, shards.clone()),
            store: Arc::clone(&store),
            clock: Arc::clone(&options.clock),
            watch: Watch::default(),
            recorder,
            writer,
            load: load.clone(),
            inbox: inbox.downgrade(),
            tasks: runtime.handle().clone(),
            shared: Arc::clone(&shared),
            judges: judging::Judges::new(),
            ready: Some(ready_sender),
            unread: shards.clone(),
            memory: Memory::default(),
        };
        // With one thread for everything, whoever blocks it holds up all others.
        let may_block = tokio::runtime::Handle::current().metrics().num_workers() > 1;
        let desk = Arc::new(Desk::new(turning, load, may_block));
        let (own_desk, coming) = (Arc::clone(&desk), Coming { told, messages });
        let turning = std::thread::Builder::new()
            .name("capataz-shard".to_owned())
            .spawn(move || runtime.block_on(turning::run(own_desk, coming)))
            .map_err(StartError::Thread)?;
        let inner = Inner {
            shards,
            store,
            inbox,
            desk,
            next_id: AtomicU64::new(1),
            shared,
            frames_per_worker: options.frames_per_worker,
            clock: options.clock,
            threads: Mutex::new([writing, turning].into_iter().chain(recording).collect()),
        };
        let handle = Self { inner: Arc::new(inner) };
        handle.configure(known).await;
        ready.await.map_err(|_| StartError::Gone)?.map_err(StartError::Store)?;
        Ok(handle)
    }

    /// Makes known what the configuration names, in place of what it named before.
    pub async fn configure(&self, known: Known) {
        let _ = self.inner.inbox.send(Message::Input(Input::Configure(known))).await;
    }

    /// Makes the specs known that asks are routed to from now on.
    pub async fn set_router(&self, router: Arc<dyn Route>) {
        let _ = self.inner.inbox.send(Message::Router(router)).await;
    }

    #[must_use]
    pub fn shards(&self) -> &[ShardId] {
        &self.inner.shards
    }

    /// The time by which the shards decide.
    #[must_use]
    pub fn now(&self) -> Now {
        (self.inner.clock)()
    }

    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    /// Starts a run. Answered when it is durable or, where the request says so, when it has finished.
    ///
    /// # Errors
    /// Nothing was started, or nobody knows whether it was.
    pub async fn start_run(&self, request: StartRequest) -> Result<StartReply, Declined> {
        let run = request.run;
        match self.ask(Request::Start(Box::new(request)), Some(run)).await? {
            Answer::Start(reply) => reply,
            other => unexpected(&other),
        }
    }

    /// Waits for the end of a run.
    ///
    /// # Errors
    /// The daemon cannot tell.
    pub async fn wait(&self, run: RunId) -> Result<WaitReply, Declined> {
        match self.ask(Request::Wait { run }, Some(run)).await? {
            Answer::Wait(reply) => reply,
            other => unexpected(&other),
        }
    }

    /// What is known of the work that goes on for the run; empty where the run is not in memory.
    ///
    /// # Errors
    /// The daemon cannot tell.
    pub async fn health(&self, run: RunId) -> Result<Vec<(TaskRef, v1::HealthChecks)>, Declined> {
        match self.ask(Request::Health { run }, None).await? {
            Answer::Health(reply) => reply,
            other => unexpected(&other),
        }
    }

    /// Has a command of a user carried out.
    ///
    /// # Errors
    /// It was not carried out, or nobody knows whether it was.
    pub async fn command(
        &self,
        run: RunId,
        if_seq: Option<u64>,
        input: capataz_engine::Input,
    ) -> Result<CommandReply, Declined> {
        match self.ask(Request::Command { run, if_seq, input: Box::new(input) }, None).await? {
            Answer::Command(reply) => reply,
            other => unexpected(&other),
        }
    }

    /// Removes a run that has finished or is in quarantine, or a session that is in quarantine.
    ///
    /// # Errors
    /// It was not removed, or nobody knows whether it was.
    pub async fn delete(&self, run: RunId) -> Result<Removal, Declined> {
        match self.ask(Request::Delete { run }, None).await? {
            Answer::Deleted(removal) => removal,
            other => unexpected(&other),
        }
    }

    /// Has a run, or a session, in quarantine tried again. What became of it the store knows afterwards.
    ///
    /// # Errors
    /// It was not tried.
    pub async fn release(&self, run: RunId) -> Result<(), Declined> {
        match self.ask(Request::Release { run }, None).await? {
            Answer::Released(tried) => tried,
            other => unexpected(&other),
        }
    }

    /// Moves a session to the spec that the answer to an ask has suggested.
    ///
    /// # Errors
    /// It was not moved, or nobody knows whether it was.
    pub async fn accept_transition(
        &self,
        session: String,
        request_id: String,
    ) -> Result<TransitionReply, Declined> {
        match self.ask(Request::AcceptTransition { session, request_id }, None).await? {
            Answer::Transition(reply) => reply,
            other => unexpected(&other),
        }
    }

    /// Gives a session the state of a file, validated.
    ///
    /// # Errors
    /// It has not got it, or nobody knows whether it has.
    pub async fn import_session(&self, import: ImportSession) -> Result<ImportReply, Declined> {
        match self.ask(Request::ImportSession(Box::new(import)), None).await? {
            Answer::Imported(reply) => reply,
            other => unexpected(&other),
        }
    }

    /// Chooses the mode, a value of the contract's `ExecutionMode`, of a session's runs that name none.
    ///
    /// # Errors
    /// It has not got it, or nobody knows whether it has.
    pub async fn choose_mode(&self, session: String, mode: i32) -> Result<ModeChosen, Declined> {
        match self.ask(Request::ChooseMode { session, mode }, None).await? {
            Answer::Chosen(reply) => reply,
            other => unexpected(&other),
        }
    }

    /// Has entries of a session's memory forgotten, and returns the number of the session's newest event.
    ///
    /// # Errors
    /// They are not, or nobody knows whether they are.
    pub async fn forget(&self, session: String, entry_ids: Vec<String>) -> Result<u64, Declined> {
        match self.ask(Request::Forget { session, entry_ids }, None).await? {
            Answer::Forgotten(reply) => reply,
            other => unexpected(&other),
        }
    }

    /// Which of these names are known.
    ///
    /// # Errors
    /// The daemon is overloaded or stops.
    pub async fn check_agents(
        &self,
        agents: Vec<String>,
        commands: Vec<String>,
        resources: Vec<String>,
    ) -> Result<Batch, Declined> {
        match self.ask(Request::CheckAgents { agents, commands, resources }, None).await? {
            Answer::Checked(batch) => Ok(batch),
            other => unexpected(&other),
        }
    }

    /// Known agents, by name: at most so many of those after the name, fewer where their descriptions are large; and
    /// whether there are more.
    ///
    /// # Errors
    /// The daemon is overloaded or stops.
    pub async fn agents(
        &self,
        after: Option<String>,
        most: u32,
    ) -> Result<(Vec<AgentSnapshot>, bool), Declined> {
        match self.ask(Request::ListAgents { after, most }, None).await? {
            Answer::Agents(agents, more) => Ok((agents, more)),
            other => unexpected(&other),
        }
    }

    /// Those of the agents that are known.
    ///
    /// # Errors
    /// [`Declined`].
    pub async fn agents_named(&self, names: Vec<String>, run: RunId) -> Result<Vec<AgentSnapshot>, Declined> {
        match self.ask(Request::Agents { names, run }, None).await? {
            Answer::Agents(agents, _) => Ok(agents),
            other => unexpected(&other),
        }
    }

    /// Asks and waits; `run` is the one whose end may be waited for. A full inbox answers at once.
    async fn ask(&self, request: Request, run: Option<RunId>) -> Result<Answer, Declined> {
        let reply = ReplyId(self.next_id());
        let (sender, receiver) = oneshot::channel();
        let bytes = request.bytes();
        let sent = match self.inner.desk.take(Message::Request { reply, request, sender }) {
            Ok(()) => Ok(()),
            Err(message) => self.inner.inbox.try_send(message, bytes),
        };
        match sent {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(_)) => {
                return Err(Declined::Overloaded { retry_after_ms: RETRY_AFTER_MS });
            }
            Err(mpsc::error::TrySendError::Closed(_)) => return Err(Declined::Unavailable),
        }
        let guard = Waiting { inbox: &self.inner.inbox, reply, run, answered: false };
        let answer = receiver.await.map_err(|_| Declined::Unavailable);
        guard.answered();
        answer
    }

    /// A connection for a worker, whose first frame has to be its hello. `slots` bounds what may wait for it.
    pub async fn connect(&self, slots: usize) -> WorkerLink {
        self.link(slots, false).await
    }

    /// The same for one of the daemon's own hosts.
    pub async fn connect_host(&self, slots: usize) -> WorkerLink {
        self.link(slots, true).await
    }

    async fn link(&self, slots: usize, is_host: bool) -> WorkerLink {
        let connection = ConnectionId(self.next_id());
        let (sender, frames) = mpsc::channel(self.inner.frames_per_worker + slots.saturating_mul(4));
        let (reason, closed) = watch::channel(None);
        let line = Line { frames: sender, reason, is_unread: false };
        let _ = self.inner.inbox.send(Message::Connect { connection, line, is_host }).await;
        let (said, desk) = (Frames::new(self.inner.inbox.clone()), Arc::clone(&self.inner.desk));
        WorkerLink { frames, closed, sender: WorkerSender { connection, frames: said, desk } }
    }

    /// Removes finished runs, keys and blobs of a shard that are over their time, and at least so old.
    ///
    /// # Errors
    /// The store failed, or is being reopened.
    pub async fn sweep(&self, shard: ShardId, retention: Retention, ages: Ages) -> Result<Swept, StoreError> {
        let (sweeper, receiver) = oneshot::channel();
        let message = Message::Sweep { shard, retention: Box::new(retention), ages, sweeper };
        if !self.inner.inbox.send(message).await {
            return Err(StoreError::Closed);
        }
        receiver.await.unwrap_or(Err(StoreError::Closed))
    }

    /// Sweeps until nothing is due, a bounded part at a time. What comes meanwhile waits for one part at most. Each part goes on
    /// where the one before it has ended, so that runs that have to stay are not looked at by each of them.
    ///
    /// # Errors
    /// As [`Runtime::sweep`]; what was removed before stays removed.
    pub async fn sweep_all(
        &self,
        shard: ShardId,
        retention: &Retention,
        ages: Ages,
    ) -> Result<Swept, StoreError> {
        let mut sweeping = Sweeping::new(retention.clone());
        loop {
            let swept = self.sweep(shard, sweeping.part().clone(), ages).await?;
            if !sweeping.goes_on(&swept) {
                return Ok(sweeping.swept());
            }
        }
    }

    /// By how many milliseconds the clock on the wall was ahead of the time by which the newest sweep went.
    #[must_use]
    pub fn behind_ms(&self) -> i64 {
        *self.inner.shared.behind_ms.borrow()
    }

    /// Every script that ends from now on. `None`, as lagging behind, says that scripts may have ended unseen: the store
    /// knows which.
    #[must_use]
    pub fn scripts_over(&self) -> broadcast::Receiver<Option<RunId>> {
        self.inner.shared.scripts_over.subscribe()
    }

    /// Tells the shards that a reader has found a run damaged, unless it is in quarantine already. Where they are too busy to
    /// hear of it, the next reader tells. Blocks on I/O.
    pub fn found_damaged(&self, damage: &Damage) {
        let row = self.inner.store.get_run(damage.run).ok().flatten();
        if row.is_some_and(|row| row.quarantine.is_none()) {
            let message = Message::Input(Input::FoundDamaged(damage.clone()));
            let _ = self.inner.inbox.try_send(message, 0);
        }
    }

    /// Ends when another daemon has taken a shard over.
    pub async fn fenced(&self) {
        let mut fenced = self.inner.shared.fenced.subscribe();
        let _ = fenced.wait_for(|fenced| *fenced).await;
    }

    pub(crate) fn inbox(&self) -> &Inbox {
        &self.inner.inbox
    }

    pub(crate) fn desk(&self) -> &Desk {
        &self.inner.desk
    }

    pub(crate) fn threads(&self) -> &Mutex<Vec<JoinHandle<()>>> {
        &self.inner.threads
    }

    /// Ends when the shards' thread has ended, in whatever way: nothing is decided any more.
    pub async fn over(&self) {
        let mut over = self.inner.shared.over.subscribe();
        let _ = over.wait_for(|over| *over).await;
    }

    /// Many requests are about to come from one caller: until the returned value is dropped, they share commits.
    #[must_use]
    pub fn gather(&self) -> Gathering {
        self.inner.inbox.gather()
    }

    /// What the shards have done since the process began, in numbers.
    #[must_use]
    pub fn meters(&self) -> &Arc<Meters> {
        &self.inner.shared.meters
    }

    /// The position of the newest event of a shard that subscribers may have.
    #[must_use]
    pub fn newest(&self, shard: ShardId) -> u64 {
        self.inner.shared.feed(shard).map_or(0, |feed| feed.newest.borrow().0)
    }

    /// The places of those who read the store.
    #[must_use]
    pub fn reads(&self) -> &Arc<Reads> {
        &self.inner.shared.reads
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.inner.shared
    }

    fn next_id(&self) -> u64 {
        self.inner.next_id.fetch_add(1, Ordering::Relaxed)
    }
}

/// Begins the trace, where there is to be one.
fn record(options: &Options, shards: &[ShardId]) -> Result<Option<(Recorder, JoinHandle<()>)>, StartError> {
    let Some(trace) = &options.trace else { return Ok(None) };
    let started = Recorder::start(trace, &Header::of_this_build(&options.shard, shards));
    started.map(Some).map_err(|source| StartError::Trace { file: trace.file.clone(), source })
}

/// Each request has an answer of its own kind.
fn unexpected<T>(answer: &Answer) -> Result<T, Declined> {
    tracing::error!(?answer, "the answer is to another request");
    Err(Declined::Unavailable)
}

/// Tells the shard when a caller no longer waits.
struct Waiting<'a> {
    inbox: &'a Inbox,
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
            let _ = self.inbox.try_send(Message::Input(Input::Forget { reply: self.reply, run }), 0);
        }
    }
}
