//! One open browser: a task that owns its page and does one thing at a time.

use std::sync::Arc;
use std::time::Duration;

use capataz_contracts::v1;
use capataz_executor::chromium::{ChromiumBrowser, ChromiumPage};
use capataz_executor::page::Page;
use capataz_executor::perform::{Clock, Performer, Secrets, Task};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use super::evidence::BlobEvidence;
use super::kept::Kept;
use super::states::States;
use crate::port::{self, SecretResolver};

/// How long a browser that is asked to end may take.
const CLOSE_LIMIT: Duration = Duration::from_secs(5);

/// What is asked of a browser. Whoever no longer waits for the reply no longer wants it done.
pub(crate) enum Command {
    Perform {
        task: Box<v1::BrowserTask>,
        reply: oneshot::Sender<v1::BrowserOutcome>,
    },
    Observe {
        max_characters: usize,
        reply: oneshot::Sender<Result<v1::ObserveResponse, String>>,
    },
    Location {
        reply: oneshot::Sender<(String, String)>,
    },
    /// Keep the storage state for this run alone, and close.
    PutAway {
        reply: oneshot::Sender<Result<(), String>>,
    },
    /// Only say that it is still there.
    Answer {
        reply: oneshot::Sender<()>,
    },
}

/// An open browser with all that its actions need.
pub(super) struct Live {
    pub(super) run: String,
    pub(super) browser: ChromiumBrowser,
    pub(super) page: ChromiumPage,
    pub(super) performer: Performer,
    pub(super) storage_state: Option<String>,
    pub(super) evidence: BlobEvidence,
    pub(super) secrets: Arc<dyn SecretResolver>,
    pub(super) states: States,
    pub(super) kept: States,
    /// Told when the browser has ended by itself.
    pub(super) ends: mpsc::UnboundedSender<String>,
    pub(super) clock: port::Clock,
}

impl Live {
    /// Serves until nobody can ask any more, or the browser was closed. The permit is given back when it has ended.
    pub(super) fn start(self, permit: OwnedSemaphorePermit) -> mpsc::Sender<Command> {
        let (inbox, commands) = mpsc::channel(1);
        tokio::spawn(async move {
            Box::pin(self.serve(commands)).await;
            drop(permit);
        });
        inbox
    }

    async fn serve(mut self, mut commands: mpsc::Receiver<Command>) {
        loop {
            let command = tokio::select! {
                biased;
                command = commands.recv() => command,
                _ = self.browser.ended() => {
                    // Whoever is told finds that nobody serves any more.
                    commands.close();
                    let _ = self.ends.send(self.run.clone());
                    None
                }
            };
            let Some(command) = command else { break };
            match command {
                Command::Perform { task, mut reply } if task.activity() == v1::BrowserActivity::Close => {
                    let kept = tokio::select! {
                        kept = self.keep_state(&task) => kept,
                        () = reply.closed() => continue,
                    };
                    let outcome = match kept {
                        Ok(()) => v1::BrowserOutcome::default(),
                        Err(problem) => self.lost(*task, &problem).await,
                    };
                    // Whoever learns that it is closed finds it closed.
                    commands.close();
                    self.browser.close(CLOSE_LIMIT).await;
                    let _ = reply.send(outcome);
                    return;
                }
                Command::Perform { task, mut reply } => {
                    let outcome = tokio::select! {
                        outcome = self.perform(*task) => outcome,
                        () = reply.closed() => continue,
                    };
                    let _ = reply.send(outcome);
                }
                Command::Observe { max_characters, mut reply } => {
                    let observed = tokio::select! {
                        observed = self.performer.observe(&mut self.page, max_characters) => observed,
                        () = reply.closed() => continue,
                    };
                    let _ = reply.send(observed.map_err(|error| error.to_string()));
                }
                Command::Answer { reply } => {
                    let _ = reply.send(());
                }
                Command::PutAway { reply } => {
                    let kept = self.put_away().await;
                    if kept.is_err() {
                        let _ = reply.send(kept);
                        continue;
                    }
                    commands.close();
                    self.browser.close(CLOSE_LIMIT).await;
                    let _ = reply.send(kept);
                    return;
                }
                Command::Location { mut reply } => {
                    let location = tokio::select! {
                        location = self.page.location() => location,
                        () = reply.closed() => continue,
                    };
                    let (url, title) = location.unwrap_or_default();
                    let redactor = self.performer.redactor();
                    let _ =
                        reply.send((redactor.text(&url).into_owned(), redactor.text(&title).into_owned()));
                }
            }
        }
        self.browser.close(CLOSE_LIMIT).await;
    }

    async fn perform(&mut self, task: v1::BrowserTask) -> v1::BrowserOutcome {
        let clock = ShardClock::new(&self.clock);
        let secrets = RunSecrets(&*self.secrets);
        let task = task_of(task);
        let performed =
            self.performer.perform(&mut self.page, &task, &secrets, &mut self.evidence, &clock).await;
        named(performed, &self.run)
    }

    async fn lost(&mut self, task: v1::BrowserTask, reason: &str) -> v1::BrowserOutcome {
        let clock = ShardClock::new(&self.clock);
        named(self.performer.lost(&task_of(task), reason, None, &mut self.evidence, &clock).await, &self.run)
    }

    /// Keeps the storage state, and where the page is, for when the run goes on.
    async fn put_away(&mut self) -> Result<(), String> {
        let (url, _) = self.page.location().await.map_err(|error| error.to_string())?;
        let state = self.browser.storage_state().await.map_err(|error| error.to_string())?;
        Kept::new(url, state).write(&self.kept, &self.run).await
    }

    /// Keeps the storage state of a script that has ended well.
    async fn keep_state(&self, task: &v1::BrowserTask) -> Result<(), String> {
        let Some(name) = self.storage_state.clone().filter(|_| task.keep_storage) else { return Ok(()) };
        let state = self.browser.storage_state().await.map_err(|error| error.to_string())?;
        let bytes = serde_json::to_vec(&state).map_err(|error| error.to_string())?;
        let states = self.states.clone();
        let written = tokio::task::spawn_blocking(move || states.write(&name, &bytes)).await;
        written.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
    }
}

/// The executor's words for what the engine wants.
pub(super) fn task_of(task: v1::BrowserTask) -> Task {
    let recovers = task.activity() == v1::BrowserActivity::Recovery;
    Task {
        recovers,
        action: task.action.unwrap_or_default(),
        step_index: task.step_index,
        interactive: task.interactive,
        last_state: task.last_state,
        last_evidence: task.last_evidence,
        failure: task.failure,
    }
}

/// An outcome whose error says which run it is of.
pub(super) fn named(mut outcome: v1::BrowserOutcome, run: &str) -> v1::BrowserOutcome {
    if let Some(error) = &mut outcome.error {
        run.clone_into(&mut error.run_id);
    }
    outcome
}

/// The shard's time, and a clock for limits.
pub(super) struct ShardClock<'a> {
    now: &'a port::Clock,
    begun: tokio::time::Instant,
}

impl<'a> ShardClock<'a> {
    pub(super) fn new(now: &'a port::Clock) -> Self {
        Self { now, begun: tokio::time::Instant::now() }
    }
}

impl Clock for ShardClock<'_> {
    fn now_ms(&self) -> i64 {
        (self.now)()
    }

    fn monotonic(&self) -> Duration {
        self.begun.elapsed()
    }
}

/// The daemon's secrets, as the executor asks for them.
struct RunSecrets<'a>(&'a dyn SecretResolver);

impl Secrets for RunSecrets<'_> {
    fn has(&self, name: &str) -> bool {
        self.resolve(name).is_some()
    }

    fn resolve(&self, name: &str) -> Option<String> {
        self.0.resolve(name).unwrap_or_else(|error| {
            tracing::warn!(name, %error, "a secret cannot be read");
            None
        })
    }
}
