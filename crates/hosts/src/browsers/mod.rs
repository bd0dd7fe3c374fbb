//! The browsers of scripts: one for each run, opened, used and closed as the engine says.
//!
//! This is the worker of the agent `capataz.browser`. It decides nothing: it has the executor perform one action at a
//! time, and says what became of it. Browsers are memory; a daemon that comes back has none, and says that they are lost.

mod away;
mod config;
mod evidence;
mod folders;
mod kept;
mod live;
mod serve;
mod source;
mod states;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use capataz_contracts::v1;
use capataz_executor::chromium::{
    AttachError, ChromiumBrowser, EndpointError, OpenError, OpenOptions, ShimOptions, StorageState,
};
use capataz_executor::dsl::{Policy, materialise_action};
use capataz_executor::perform::Performer;
use capataz_policy::codes;
use capataz_policy::executor::code;
use capataz_policy::mode::browser::OUTLINE;
use capataz_store::{RunId, Store};
use tokio::sync::{Semaphore, broadcast, mpsc};

use crate::port::{Clock, SecretResolver};
use crate::serve::Reporter;
use away::Away;
pub use config::BrowserConfig;
use evidence::BlobEvidence;
use folders::Folders;
use kept::Kept;
use live::{Command, Live, ShardClock, named, task_of};
pub use serve::{BROWSER_HOST, browser_agent};
use source::Origin;
pub use source::{Available, Unavailable};
pub use states::{StateError, States};

/// Why there is no browser for an activity.
#[derive(Debug)]
struct NotOpened {
    reason: String,
    /// The code of the error that is behind it, where that is one of the daemon's.
    code: Option<&'static str>,
}

impl From<String> for NotOpened {
    fn from(reason: String) -> Self {
        Self { reason, code: None }
    }
}

/// The error of a browser that is not there.
fn not_found(error: &dyn fmt::Display) -> NotOpened {
    NotOpened { reason: error.to_string(), code: Some(codes::BROWSER_NOT_FOUND.as_str()) }
}

/// A browser that was there a moment ago may be gone.
fn not_opened(error: OpenError) -> NotOpened {
    match &error {
        OpenError::Attach(AttachError::NoBrowser(gone)) => not_found(gone),
        _ => chain(&error).into(),
    }
}

/// The violations of a policy in words.
fn told(violations: &[v1::ScriptViolation]) -> String {
    let told: Vec<String> =
        violations.iter().map(|violation| format!("{}: {}", violation.path, violation.message)).collect();
    format!("the policy of the script cannot be read: {}", told.join("; "))
}

/// Why nothing can be asked of a browser.
const GONE: &str = "the browser of this run is gone: it has ended, or the daemon was started anew";

/// What the browsers need of the daemon.
pub struct Surroundings {
    pub config: BrowserConfig,
    pub data_dir: PathBuf,
    /// Where evidence is kept, and where it is known whether a run has ended.
    pub store: Arc<dyn Store>,
    pub clock: Clock,
    pub shim: ShimOptions,
    pub secrets: Arc<dyn SecretResolver>,
}

impl fmt::Debug for Surroundings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Surroundings")
            .field("config", &self.config)
            .field("data_dir", &self.data_dir)
            .finish_non_exhaustive()
    }
}

/// Why browsers cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum BrowsersError {
    #[error("the profiles of earlier browsers cannot be removed")]
    Profiles(#[source] std::io::Error),
    #[error("what an earlier daemon kept of its browsers cannot be removed")]
    Kept(#[source] std::io::Error),
    #[error("browser.attach cannot be attached to: {0}")]
    Attach(EndpointError),
    #[error(
        "browser.storage_key names the secret {name:?}, and there is none: set CAPATAZ_SECRET_{name}, or put it into secrets_dir"
    )]
    NoStorageKey { name: String },
}

/// All browsers that are open, and how one more is opened.
pub struct Browsers {
    config: BrowserConfig,
    folders: Folders,
    states: States,
    /// What is kept of browsers while their runs wait, by the runs.
    kept: States,
    away: Away,
    /// Runs whose browsers have ended by themselves.
    ends: mpsc::UnboundedSender<String>,
    ended: tokio::sync::Mutex<mpsc::UnboundedReceiver<String>>,
    store: Arc<dyn Store>,
    clock: Clock,
    shim: ShimOptions,
    secrets: Arc<dyn SecretResolver>,
    permits: Arc<Semaphore>,
    open: Mutex<BTreeMap<String, Handle>>,
    origin: Origin,
}

impl fmt::Debug for Browsers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Browsers").field("config", &self.config).finish_non_exhaustive()
    }
}

/// Reaches an open browser.
#[derive(Clone, Debug)]
pub struct Handle {
    inbox: mpsc::Sender<Command>,
    pub about: Arc<About>,
}

/// What is to be told of an open browser.
#[derive(Debug)]
pub struct About {
    pub name: String,
    pub interactive: bool,
    pub opened_at_ms: i64,
    pub process_id: u32,
    pub browser: String,
    /// A person runs it.
    pub attached: bool,
    pub policy: v1::ScriptPolicy,
}

impl Browsers {
    /// Removes what an earlier daemon has left, and begins.
    ///
    /// # Errors
    /// The profiles cannot be removed, or the key for storage states is not there: nothing is kept in clear that was to be
    /// encrypted.
    pub fn new(surroundings: Surroundings) -> Result<Arc<Self>, BrowsersError> {
        let Surroundings { config, data_dir, store, clock, shim, secrets } = surroundings;
        let folders = Folders::new(data_dir);
        folders.remove_profiles().map_err(BrowsersError::Profiles)?;
        let key = match &config.storage_key {
            Some(name) => {
                let key = secrets.resolve(name).ok().flatten().filter(|key| !key.is_empty());
                Some(key.ok_or_else(|| BrowsersError::NoStorageKey { name: name.clone() })?)
            }
            None => None,
        };
        let (ends, ended) = mpsc::unbounded_channel();
        Ok(Arc::new(Self {
            states: States::new(folders.states(), key.as_deref()),
            kept: kept::states(folders.kept(), key.as_deref())?,
            away: Away::default(),
            ends,
            ended: tokio::sync::Mutex::new(ended),
            permits: Arc::new(Semaphore::new(config.max_open as usize)),
            origin: Origin::new(&config).map_err(BrowsersError::Attach)?,
            folders,
            config,
            store,
            clock,
            shim,
            secrets,
            open: Mutex::default(),
        }))
    }

    /// Closes the browsers of scripts that have ended, as the shard tells it; to be run beside the host. `None` says that
    /// scripts may have ended of which nobody told.
    pub async fn tidy(self: Arc<Self>, mut ended: broadcast::Receiver<Option<RunId>>) {
        use broadcast::error::RecvError;
        loop {
            let runs = match ended.recv().await {
                Ok(Some(run)) => vec![run.to_string()],
                Ok(None) | Err(RecvError::Lagged(_)) => {
                    let mut open: Vec<String> = self.handles().keys().cloned().collect();
                    open.extend(self.kept_runs());
                    self.ended(open).await
                }
                Err(RecvError::Closed) => return,
            };
            for run in runs {
                self.forget(&run);
            }
        }
    }

    /// Those of the runs that have ended, as the store knows.
    async fn ended(&self, mut runs: Vec<String>) -> Vec<String> {
        let store = Arc::clone(&self.store);
        let asked = tokio::task::spawn_blocking(move || {
            runs.retain(|run| is_over(&*store, run));
            runs
        });
        asked.await.unwrap_or_default()
    }

    /// A browser that nobody can reach any more closes.
    fn forget(&self, run: &str) {
        self.away.over(run);
        if self.handles().remove(run).is_some() {
            self.folders.tidy_downloads(run);
        }
        self.drop_kept(run);
    }

    /// Nobody opens the run's browser again.
    fn drop_kept(&self, run: &str) {
        if let Err(error) = self.kept.delete(run) {
            tracing::warn!(%run, %error, "what was kept of the browser cannot be removed");
        }
    }

    /// Runs of whose browsers something is kept.
    fn kept_runs(&self) -> Vec<String> {
        let kept = self.kept.list().unwrap_or_default();
        kept.into_iter().map(|state| state.name).collect()
    }

    /// Waits for the next browser that ends by itself.
    async fn next_end(&self) -> String {
        match self.ended.lock().await.recv().await {
            Some(run) => run,
            None => std::future::pending().await,
        }
    }

    fn handles(&self) -> MutexGuard<'_, BTreeMap<String, Handle>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn handle(&self, run: &str) -> Option<Handle> {
        self.handles().get(run).cloned()
    }

    /// Those that are open, by their runs.
    pub fn all(&self) -> Vec<(String, Handle)> {
        let handles = self.handles();
        let open = handles.iter().filter(|(_, handle)| !handle.inbox.is_closed());
        open.map(|(run, handle)| (run.clone(), handle.clone())).collect()
    }

    pub fn limit(&self) -> u32 {
        self.config.max_open
    }

    pub fn states(&self) -> States {
        self.states.clone()
    }

    /// Removes what is left of runs that are gone, or have ended, and tries again to put away what could not be.
    pub async fn sweep(self: Arc<Self>) {
        Arc::clone(&self).put_away_again();
        for run in self.ended(self.kept_runs()).await {
            self.drop_kept(&run);
        }
        let store = Arc::clone(&self.store);
        let swept = tokio::task::spawn_blocking(move || self.folders.sweep_downloads(&store)).await;
        if let Ok(Err(error)) = swept {
            tracing::warn!(%error, "downloads of removed runs could not be removed");
        }
    }

    /// A browser that there is for the next script; it may have been found earlier.
    ///
    /// # Errors
    /// There is none.
    pub async fn ready(&self) -> Result<Available, Unavailable> {
        self.origin.ready().await
    }

    /// Looks for the browser that would be opened.
    ///
    /// # Errors
    /// There is none.
    pub async fn find(&self) -> Result<Available, Unavailable> {
        self.origin.look().await
    }

    async fn open(
        &self,
        run: &str,
        task: &v1::BrowserTask,
        reporter: &Reporter,
    ) -> Result<v1::BrowserOutcome, NotOpened> {
        // One that is being put away is closed then, or else stays open for this.
        self.away.settled(run).await;
        if let Some(open) = self.handle(run)
            && open.is_open().await
        {
            return Ok(opened(&open.about));
        }
        let permit = match Arc::clone(&self.permits).try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => {
                reporter.say(format!("waits for a browser: {} are open", self.config.max_open));
                Arc::clone(&self.permits).acquire_owned().await.map_err(|error| error.to_string())?
            }
        };
        let available = self.ready().await.map_err(|error| not_found(&error))?;
        let declared = task.policy.clone().unwrap_or_default();
        let policy = Policy::new(&declared).map_err(|violations| told(&violations))?;
        let options = task.browser.clone().unwrap_or_default();
        let kept = if task.restore { Some(Kept::read(&self.kept, run).await?) } else { None };
        let storage_state = match &kept {
            Some(kept) => Some(kept.state.clone()),
            None => self.read_state(options.storage_state.as_deref()).await?,
        };
        let opening = OpenOptions {
            source: available.source(&self.folders, &self.shim, options.headed),
            download_folder: self.folders.make_downloads_of(run).map_err(|error| error.to_string())?,
            width: options.width.unwrap_or(1280),
            height: options.height.unwrap_or(720),
            locale: options.locale.clone().unwrap_or_default(),
            timezone: options.timezone.clone().unwrap_or_default(),
            allowlist: policy.allowlist().clone(),
            redaction: policy.page_redaction(),
            testid_attribute: policy.testid_attribute().to_owned(),
            new_tabs: declared.new_tabs(),
            dialogs: declared.dialogs(),
            page_log: policy.listens(),
            storage_state,
        };
        let (browser, mut page) = ChromiumBrowser::open(opening).await.map_err(not_opened)?;
        if let Some(kept) = kept.filter(|_| task.show_page) {
            kept.show(&mut page, policy.allowlist(), run).await;
        }
        let about = Arc::new(About {
            name: task.name.clone(),
            interactive: task.interactive,
            opened_at_ms: (self.clock)(),
            process_id: browser.info().process_id,
            browser: browser.info().version.clone(),
            attached: browser.info().attached,
            policy: declared,
        });
        let live = Live {
            run: run.to_owned(),
            browser,
            page,
            performer: Performer::new(policy, self.config.upload_folders.clone()),
            storage_state: options.storage_state,
            evidence: self.evidence(run),
            secrets: Arc::clone(&self.secrets),
            states: self.states.clone(),
            kept: self.kept.clone(),
            ends: self.ends.clone(),
            clock: Arc::clone(&self.clock),
        };
        let inbox = live.start(permit);
        self.handles().insert(run.to_owned(), Handle { inbox, about: Arc::clone(&about) });
        // Where the run has ended meanwhile, that was told before there was anything to close.
        if !self.ended(vec![run.to_owned()]).await.is_empty() {
            self.forget(run);
            return Err(GONE.to_owned().into());
        }
        self.drop_kept(run);
        Ok(opened(&about))
    }

    async fn read_state(&self, name: Option<&str>) -> Result<Option<StorageState>, String> {
        let Some(name) = name else { return Ok(None) };
        let (states, name) = (self.states.clone(), name.to_owned());
        let read = tokio::task::spawn_blocking(move || states.read(&name)).await;
        match read.map_err(|error| error.to_string())? {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| error.to_string()),
            // It is made when the script has ended well.
            Err(StateError::NotFound(_)) => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }

    fn evidence(&self, run: &str) -> BlobEvidence {
        BlobEvidence::new(Arc::clone(&self.store), Arc::clone(&self.clock), self.folders.downloads_of(run))
    }

    /// Does it in the run's browser, which is opened first where the task says so.
    async fn done_in(
        &self,
        run: &str,
        task: &v1::BrowserTask,
        reporter: &Reporter,
    ) -> Result<v1::BrowserOutcome, NotOpened> {
        // Whoever no longer waits for it, or hears that it has failed, does not know of the browser.
        let mut unknown = Unknown { browsers: self, run, is_open: task.open };
        let opened = if task.open { Some(self.open(run, task, reporter).await?) } else { None };
        let open = self.handle(run).ok_or_else(|| GONE.to_owned())?;
        let mut task = task.clone();
        if let Some(action) = task.action.as_mut() {
            // Defaults that are there already stay.
            materialise_action(action, &open.about.policy);
        }
        let outcome = match task.activity() {
            v1::BrowserActivity::Observe => {
                let most = task.max_characters.unwrap_or(OUTLINE);
                match open.observe(most as usize).await.ok_or_else(|| GONE.to_owned())? {
                    Ok(observed) => observation(&observed),
                    // A page that cannot be read now is still there.
                    Err(reason) if open.is_open().await => {
                        return Err(NotOpened { reason, code: Some(codes::API_ERROR.as_str()) });
                    }
                    Err(reason) => return Err(reason.into()),
                }
            }
            _ => open.perform(task).await.ok_or_else(|| GONE.to_owned())?,
        };
        unknown.is_open = false;
        Ok(match opened {
            Some(v1::BrowserOutcome { browser, keeps, attached, .. }) => {
                v1::BrowserOutcome { browser, keeps, attached, ..outcome }
            }
            None => outcome,
        })
    }

    /// What became of the task. To look at a page is no action, whose failure would be evidenced.
    async fn answer(
        &self,
        run: &str,
        task: v1::BrowserTask,
        reporter: &Reporter,
    ) -> Result<v1::BrowserOutcome, v1::Error> {
        if task.activity() != v1::BrowserActivity::Observe {
            return Ok(self.outcome(run, task, reporter).await);
        }
        let looked = self.done_in(run, &task, reporter).await;
        looked.map_err(|problem| v1::Error {
            code: problem.code.unwrap_or(code::BROWSER_LOST).to_owned(),
            message: problem.reason,
            severity: v1::Severity::High.into(),
            can_continue: Some(true),
            ..v1::Error::default()
        })
    }

    async fn outcome(&self, run: &str, task: v1::BrowserTask, reporter: &Reporter) -> v1::BrowserOutcome {
        // Where nobody knows what became of an activity, there is nothing to be asked of the browser.
        let unknown = task.failure.as_ref().filter(|failure| failure.error_code == code::BROWSER_LOST);
        let NotOpened { reason, code: original } = match (unknown, task.activity()) {
            (Some(failure), _) => failure.message.clone().into(),
            (_, v1::BrowserActivity::Open) => match self.open(run, &task, reporter).await {
                Ok(outcome) => return outcome,
                Err(problem) => problem,
            },
            _ => match self.done_in(run, &task, reporter).await {
                Ok(outcome) => return outcome,
                Err(problem) => problem,
            },
        };
        let mut evidence = self.evidence(run);
        let clock = ShardClock::new(&self.clock);
        let mut performer = Performer::new(Policy::default(), Vec::new());
        named(performer.lost(&task_of(task), &reason, original, &mut evidence, &clock).await, run)
    }
}

fn opened(about: &About) -> v1::BrowserOutcome {
    v1::BrowserOutcome {
        browser: about.browser.clone(),
        keeps: true,
        attached: about.attached,
        ..v1::BrowserOutcome::default()
    }
}

/// A browser that was opened for a task, and of which nobody has heard yet. It is closed where nobody will.
struct Unknown<'a> {
    browsers: &'a Browsers,
    run: &'a str,
    is_open: bool,
}

impl Drop for Unknown<'_> {
    fn drop(&mut self) {
        if self.is_open {
            self.browsers.forget(self.run);
        }
    }
}

/// What the page shows, as the output of a look at it.
fn observation(observed: &v1::ObserveResponse) -> v1::BrowserOutcome {
    v1::BrowserOutcome {
        state_after: observed.state.clone(),
        output: Some(v1::ActionOutput {
            name: "outline".to_owned(),
            value: match observed.truncated {
                true => serde_json::json!({ "outline": observed.outline, "truncated": true }),
                false => serde_json::json!({ "outline": observed.outline }),
            }
            .to_string(),
            redacted: observed.redacted,
        }),
        ..v1::BrowserOutcome::default()
    }
}

fn is_over(store: &dyn Store, run: &str) -> bool {
    let Ok(run) = run.parse::<RunId>() else { return true };
    match store.get_run(run) {
        Ok(Some(row)) => row.summary.finished_at.is_some() || row.quarantine.is_some(),
        Ok(None) => true,
        Err(_) => false,
    }
}

/// An error with its causes, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

impl Handle {
    /// `None` where the browser is gone.
    async fn perform(&self, task: v1::BrowserTask) -> Option<v1::BrowserOutcome> {
        self.ask(|reply| Command::Perform { task: Box::new(task), reply }).await
    }

    /// Whether it still serves; said when what was asked of it before is done.
    async fn is_open(&self) -> bool {
        self.ask(|reply| Command::Answer { reply }).await.is_some()
    }

    /// Closes the browser, with its state kept. `None` where it is gone.
    async fn put_away(&self) -> Option<Result<(), String>> {
        self.ask(|reply| Command::PutAway { reply }).await
    }

    pub async fn observe(&self, max_characters: usize) -> Option<Result<v1::ObserveResponse, String>> {
        self.ask(|reply| Command::Observe { max_characters, reply }).await
    }

    /// URL and title of what is shown, redacted; `None` while an action is in work, or where the browser is gone.
    pub async fn location(&self) -> Option<(String, String)> {
        let (reply, answer) = tokio::sync::oneshot::channel();
        self.inbox.try_send(Command::Location { reply }).ok()?;
        tokio::time::timeout(std::time::Duration::from_millis(500), answer).await.ok()?.ok()
    }

    async fn ask<T>(&self, command: impl FnOnce(tokio::sync::oneshot::Sender<T>) -> Command) -> Option<T> {
        let (reply, answer) = tokio::sync::oneshot::channel();
        self.inbox.send(command(reply)).await.ok()?;
        answer.await.ok()
    }
}

#[cfg(test)]
mod tests;
