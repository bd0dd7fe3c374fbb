//! The browsers of scripts: one for each run, opened, used and closed as the engine says.
//!
//! This is the worker of the agent `capataz.browser`. It decides nothing: it has the executor perform one action at a
//! time, and says what became of it. Browsers are memory; a daemon that comes back has none, and says that they are lost.

mod config;
mod evidence;
mod folders;
mod live;
mod states;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use capataz_contracts::v1::{self, connect_request::Frame as Say, payload::Data};
use capataz_engine::{BROWSER_AGENT, BROWSER_MEDIA_TYPE};
use capataz_executor::chromium::{
    ChromiumBrowser, FindError, Found, OpenOptions, ShimOptions, StorageState, find,
};
use capataz_executor::dsl::Policy;
use capataz_executor::perform::Performer;
use capataz_policy::executor::code;
use capataz_runtime::process::{Control, SecretResolver};
use capataz_runtime::shell::{Serve, Shard};
use capataz_store::{RunId, Store};
use prost::Message;
use tokio::sync::{Semaphore, mpsc};

use crate::DaemonError;
pub use config::BrowserConfig;
use evidence::BlobEvidence;
use folders::Folders;
use live::{Command, Live, ShardClock, named, task_of};
pub(crate) use states::StateError;
use states::States;

/// The browsers' worker.
const BROWSER_WORKER: &str = "capataz-browser-host";
/// Why nothing can be asked of a browser.
const GONE: &str = "the browser of this run is gone: it has ended, or the daemon was started anew";
/// Activities that may be in work at a time, the ones that wait for a browser among them.
const SLOTS: u32 = 1_024;

/// What the browsers need of the daemon.
pub(crate) struct Surroundings {
    pub(crate) config: BrowserConfig,
    pub(crate) data_dir: PathBuf,
    pub(crate) shard: Shard,
    pub(crate) shim: ShimOptions,
    pub(crate) secrets: Arc<dyn SecretResolver>,
}

/// All browsers that are open, and how one more is opened.
pub(crate) struct Browsers {
    config: BrowserConfig,
    folders: Folders,
    states: States,
    shard: Shard,
    shim: ShimOptions,
    secrets: Arc<dyn SecretResolver>,
    permits: Arc<Semaphore>,
    open: Mutex<BTreeMap<String, Handle>>,
    /// The browser that was found last.
    found: Mutex<Option<Found>>,
}

/// Reaches an open browser.
#[derive(Clone)]
pub(crate) struct Handle {
    inbox: mpsc::Sender<Command>,
    pub(crate) about: Arc<About>,
}

/// What is to be told of an open browser.
pub(crate) struct About {
    pub(crate) name: String,
    pub(crate) interactive: bool,
    pub(crate) opened_at_ms: i64,
    pub(crate) process_id: u32,
    pub(crate) browser: String,
    pub(crate) policy: v1::ScriptPolicy,
}

impl Browsers {
    /// Removes what an earlier daemon has left, and begins.
    ///
    /// # Errors
    /// The profiles cannot be removed, or the key for storage states is not there: nothing is kept in clear that was to be
    /// encrypted.
    pub(crate) fn new(surroundings: Surroundings) -> Result<Arc<Self>, DaemonError> {
        let Surroundings { config, data_dir, shard, shim, secrets } = surroundings;
        let folders = Folders::new(data_dir);
        folders.remove_profiles().map_err(DaemonError::Profiles)?;
        let key = match &config.storage_key {
            Some(name) => {
                let key = secrets.resolve(name).filter(|key| !key.is_empty());
                Some(key.ok_or_else(|| DaemonError::NoStorageKey { name: name.clone() })?)
            }
            None => None,
        };
        Ok(Arc::new(Self {
            states: States::new(folders.states(), key.as_deref()),
            permits: Arc::new(Semaphore::new(config.max_open as usize)),
            folders,
            config,
            shard,
            shim,
            secrets,
            open: Mutex::default(),
            found: Mutex::default(),
        }))
    }

    /// Closes the browsers of scripts that have ended; to be run beside the host.
    pub(crate) async fn tidy(self: Arc<Self>) {
        let mut over = self.shard.scripts_over();
        while over.changed().await.is_ok() {
            let runs: Vec<String> = self.handles().keys().cloned().collect();
            let store = Arc::clone(self.shard.store());
            let ended = tokio::task::spawn_blocking(move || {
                runs.into_iter().filter(|run| is_over(&*store, run)).collect::<Vec<_>>()
            });
            for run in ended.await.unwrap_or_default() {
                self.handles().remove(&run);
                self.folders.tidy_downloads(&run);
            }
        }
    }

    fn handles(&self) -> MutexGuard<'_, BTreeMap<String, Handle>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn handle(&self, run: &str) -> Option<Handle> {
        self.handles().get(run).cloned()
    }

    /// Those that are open, by their runs.
    pub(crate) fn all(&self) -> Vec<(String, Handle)> {
        let handles = self.handles();
        let open = handles.iter().filter(|(_, handle)| !handle.inbox.is_closed());
        open.map(|(run, handle)| (run.clone(), handle.clone())).collect()
    }

    pub(crate) fn limit(&self) -> u32 {
        self.config.max_open
    }

    pub(crate) fn states(&self) -> States {
        self.states.clone()
    }

    /// Removes the downloads of runs that are gone.
    pub(crate) async fn sweep(self: Arc<Self>) {
        let store = Arc::clone(self.shard.store());
        let swept = tokio::task::spawn_blocking(move || self.folders.sweep_downloads(&store)).await;
        if let Ok(Err(error)) = swept {
            tracing::warn!(%error, "downloads of removed runs could not be removed");
        }
    }

    /// The browser that was found last, as long as it is there: to ask one for its version takes a process.
    pub(crate) async fn ready(&self) -> Result<Found, FindError> {
        let known = self.found.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match known.filter(|found| found.program.is_file()) {
            Some(found) => Ok(found),
            None => self.find().await,
        }
    }

    /// Looks for the browser that would be opened.
    pub(crate) async fn find(&self) -> Result<Found, FindError> {
        let path = environment("PATH");
        let found = find(self.config.program.as_deref(), path.as_deref()).await;
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = found.as_ref().ok().cloned();
        found
    }

    async fn open(
        &self,
        run: &str,
        task: &v1::BrowserTask,
        progress: Waiting,
    ) -> Result<v1::BrowserOutcome, String> {
        if let Some(open) = self.handle(run) {
            return Ok(opened(&open.about));
        }
        let permit = match Arc::clone(&self.permits).try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => {
                progress.say(format!("waits for a browser: {} are open", self.config.max_open)).await;
                Arc::clone(&self.permits).acquire_owned().await.map_err(|error| error.to_string())?
            }
        };
        let found = self.ready().await.map_err(|error| error.to_string())?;
        let declared = task.policy.clone().unwrap_or_default();
        let policy = Policy::new(&declared).map_err(|violations| format!("{violations:?}"))?;
        let options = task.browser.clone().unwrap_or_default();
        let storage_state = self.read_state(options.storage_state.as_deref()).await?;
        let opening = OpenOptions {
            program: found.program,
            profile_folder: self.folders.new_profile(),
            download_folder: self.folders.make_downloads_of(run).map_err(|error| error.to_string())?,
            shim: Some(self.shim.clone()),
            environment: capataz_executor::chromium::passed_environment(!options.headed, environment),
            width: options.width.unwrap_or(1280),
            height: options.height.unwrap_or(720),
            headed: options.headed,
            locale: options.locale.clone().unwrap_or_default(),
            timezone: options.timezone.clone().unwrap_or_default(),
            allowlist: policy.allowlist().clone(),
            redaction: policy.page_redaction(),
            new_tabs: declared.new_tabs(),
            dialogs: declared.dialogs(),
            storage_state,
        };
        let (browser, page) = ChromiumBrowser::open(opening).await.map_err(|error| chain(&error))?;
        let about = Arc::new(About {
            name: task.name.clone(),
            interactive: task.interactive,
            opened_at_ms: self.shard.now().0,
            process_id: browser.info().process_id,
            browser: browser.info().version.clone(),
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
            shard: self.shard.clone(),
        };
        let inbox = live.start(permit);
        self.handles().insert(run.to_owned(), Handle { inbox, about: Arc::clone(&about) });
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
        BlobEvidence::new(Arc::clone(self.shard.store()), self.folders.downloads_of(run))
    }

    async fn outcome(&self, run: &str, task: v1::BrowserTask, progress: Waiting) -> v1::BrowserOutcome {
        // Where nobody knows what became of an activity, there is nothing to be asked of the browser.
        let unknown = task.failure.as_ref().filter(|failure| failure.error_code == code::BROWSER_LOST);
        let problem = match (unknown, task.activity(), self.handle(run)) {
            (Some(failure), ..) => failure.message.clone(),
            (_, v1::BrowserActivity::Open, _) => match self.open(run, &task, progress).await {
                Ok(outcome) => return outcome,
                Err(problem) => problem,
            },
            (.., None) => GONE.to_owned(),
            (.., Some(open)) => match open.perform(task.clone()).await {
                Some(outcome) => return outcome,
                None => GONE.to_owned(),
            },
        };
        let mut evidence = self.evidence(run);
        let clock = ShardClock::new(&self.shard);
        let mut performer = Performer::new(Policy::default(), Vec::new());
        named(performer.lost(&task_of(task), &problem, &mut evidence, &clock).await, run)
    }
}

fn opened(about: &About) -> v1::BrowserOutcome {
    v1::BrowserOutcome { browser: about.browser.clone(), ..v1::BrowserOutcome::default() }
}

fn is_over(store: &dyn Store, run: &str) -> bool {
    let Ok(run) = run.parse::<RunId>() else { return true };
    match store.get_run(run) {
        Ok(Some(row)) => row.summary.finished_at.is_some(),
        Ok(None) => true,
        Err(_) => false,
    }
}

/// An error with its causes, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

#[expect(clippy::disallowed_methods, reason = "a browser needs a few variables of the daemon's environment")]
fn environment(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

impl Handle {
    /// `None` where the browser is gone.
    async fn perform(&self, task: v1::BrowserTask) -> Option<v1::BrowserOutcome> {
        self.ask(|reply| Command::Perform { task: Box::new(task), reply }).await
    }

    pub(crate) async fn observe(&self, max_characters: usize) -> Option<Result<v1::ObserveResponse, String>> {
        self.ask(|reply| Command::Observe { max_characters, reply }).await
    }

    /// URL and title of what is shown, redacted; `None` while an action is in work, or where the browser is gone.
    pub(crate) async fn location(&self) -> Option<(String, String)> {
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

/// Says what an activity waits for.
struct Waiting {
    lease: Option<v1::LeaseRef>,
    progress: mpsc::Sender<v1::Progress>,
}

impl Waiting {
    async fn say(self, message: String) {
        let progress =
            v1::Progress { lease: self.lease, message: Some(message), fraction: None, partial_output: None };
        let _ = self.progress.send(progress).await;
    }
}

impl Serve for Browsers {
    fn name(&self) -> &'static str {
        BROWSER_WORKER
    }

    fn agents(&self) -> Vec<v1::Agent> {
        vec![browser_agent()]
    }

    async fn perform(
        self: Arc<Self>,
        assignment: v1::Assignment,
        mut orders: mpsc::Receiver<Control>,
        progress: mpsc::Sender<v1::Progress>,
    ) -> Say {
        let lease = assignment.lease.clone();
        let run = lease.as_ref().map(|lease| lease.run_id.clone()).unwrap_or_default();
        let task = match assignment.input.and_then(|input| input.data) {
            Some(Data::Inline(bytes)) => v1::BrowserTask::decode(bytes).ok(),
            _ => None,
        };
        let Some(task) = task else {
            let message = "the input is no task of a browser".to_owned();
            let error = v1::Error { code: "INVALID_ARGUMENT".to_owned(), message, ..v1::Error::default() };
            return Say::Failed(v1::Failed { lease, error: Some(error), log: String::new() });
        };
        let waiting = Waiting { lease: lease.clone(), progress };
        tokio::select! {
            outcome = self.outcome(&run, task, waiting) => {
                let output = v1::Payload {
                    media_type: BROWSER_MEDIA_TYPE.to_owned(),
                    data: Some(Data::Inline(outcome.encode_to_vec().into())),
                };
                Say::Completed(v1::Completed { lease, output: Some(output), ..v1::Completed::default() })
            }
            // What was begun ends with the future that is dropped here.
            Some(_) = orders.recv() => {
                Say::Cancelled(v1::Cancelled { lease, partial_output: None, log: String::new() })
            }
        }
    }
}

/// The agent of every activity of a script.
pub(crate) fn browser_agent() -> v1::Agent {
    v1::Agent {
        name: BROWSER_AGENT.to_owned(),
        category: "browser".to_owned(),
        kind: v1::AgentKind::Tool as i32,
        contract_version: "1.0.0".to_owned(),
        max_concurrency: SLOTS,
        ..v1::Agent::default()
    }
}
