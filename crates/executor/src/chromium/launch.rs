//! Opening a browser for one run, and ending it; or a part of a browser that a person runs, and leaving it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use capataz_cdp::attach::{AttachError, AttachOptions, Attached, Endpoint};
use capataz_cdp::patience::within;
use capataz_cdp::proxy::{Destination, Floor};
use capataz_cdp::{
    Browser, CallError, Connection, Done, Ended, LaunchError, LaunchOptions, ShimOptions, Version, WindowSize,
};
use capataz_contracts::v1;
use serde::Deserialize;
use serde_json::json;
use thiserror::Error;
use tokio::sync::broadcast;

use super::context::Context;
use super::downloads::Downloads;
use super::page_log::LogKeeper;
use super::protocol::CreatedTarget;
use super::requests::{Filter, Gate};
use super::state::{Shared, State};
use super::storage::StorageState;
use super::tabs::{TabSetup, auto_attach_tabs, discover_ours};
use super::watch::Watcher;
use super::{ChromiumPage, script};
use crate::allowlist::Allowlist;
use crate::page::{PageError, PageRedaction};

/// Domains of services that some versions of the browser ask all the same. The floor refuses these connections like all
/// others, and no page is to be blamed for them.
const OWN_SERVICES: [&str; 4] = ["google.com", "googleapis.com", "gvt1.com", "gstatic.com"];

/// Longest wait for the first answers of a browser that runs already.
const ATTACH_LIMIT: Duration = Duration::from_secs(15);

/// Longest wait for the tab that a run begins with.
const FIRST_STEPS_LIMIT: Duration = Duration::from_secs(60);

/// Characters of what a browser calls itself.
const MAX_PRODUCT_CHARS: usize = 100;

/// Where a browser comes from.
#[derive(Clone, Debug)]
pub enum Source {
    /// It is started for one run, and ends with it.
    Launch(Launch),
    /// A person runs it, and it goes on afterwards. The run gets a browser context of its own in it.
    ///
    /// The allowlist holds at each request of a tab and at each connection of the context, but the first request of a tab
    /// that a page opens is judged only as a connection. Not held are: names that the browser looks up, and datagrams.
    Attach(Endpoint),
}

/// How a browser is started.
#[derive(Clone, Debug)]
pub struct Launch {
    pub program: PathBuf,
    /// The profile of this browser alone: made at its start, and removed after its end.
    pub profile_folder: PathBuf,
    pub shim: Option<ShimOptions>,
    /// See [`capataz_cdp::passed_environment`].
    pub environment: BTreeMap<OsString, OsString>,
    /// A window on a screen.
    pub headed: bool,
}

/// How a browser is opened. One browser serves one run, or one browser context of a person's browser does.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    pub source: Source,
    /// Where downloads are written; it must exist.
    pub download_folder: PathBuf,
    /// The size of the viewport, in CSS pixels.
    pub width: u32,
    pub height: u32,
    /// A BCP 47 tag.
    pub locale: String,
    /// An IANA time zone.
    pub timezone: String,
    pub allowlist: Allowlist,
    pub redaction: PageRedaction,
    /// The attribute that testids are in.
    pub testid_attribute: String,
    pub new_tabs: v1::NewTabs,
    pub dialogs: v1::DialogAnswer,
    /// Lines of consoles and failed requests are listened to, for [`Page::take_log`](crate::page::Page::take_log).
    pub page_log: bool,
    pub storage_state: Option<StorageState>,
}

/// What others are told about a browser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrowserInfo {
    /// Name and version, such as `HeadlessChrome/148.0.7778.167`.
    pub version: String,
    pub process_id: u32,
    /// A person runs it.
    pub attached: bool,
}

/// Why no browser was opened. What was started has ended, or is being ended.
#[derive(Debug, Error)]
pub enum OpenError {
    #[error("the browser cannot be started")]
    Launch(#[from] LaunchError),
    #[error("the browser that runs already cannot be used")]
    Attach(#[from] AttachError),
    #[error("the browser's proxy cannot be started")]
    Proxy(#[source] io::Error),
    #[error("the browser cannot be set up")]
    Setup(#[from] CallError),
    #[error("the first page did not come")]
    Page(#[from] PageError),
    #[error("the browser did not answer within {0:?}")]
    NoAnswer(Duration),
}

/// The browser's process, or our place in somebody else's.
#[derive(Debug)]
enum Driven {
    Launched(Browser),
    Attached(Attached),
}

impl Driven {
    async fn open(options: &OpenOptions, proxy: SocketAddr) -> Result<Self, OpenError> {
        match &options.source {
            Source::Launch(launch) => {
                Ok(Self::Launched(Browser::launch(launch_options(options, launch, proxy)).await?))
            }
            Source::Attach(endpoint) => {
                let attach = AttachOptions {
                    endpoint: *endpoint,
                    proxy: Some(proxy),
                    download_folder: Some(options.download_folder.clone()),
                    answer_limit: ATTACH_LIMIT,
                };
                Ok(Self::Attached(Attached::attach(attach).await?))
            }
        }
    }

    fn connection(&self) -> &Connection {
        match self {
            Self::Launched(browser) => browser.connection(),
            Self::Attached(attached) => attached.connection(),
        }
    }

    fn version(&self) -> &Version {
        match self {
            Self::Launched(browser) => browser.version(),
            Self::Attached(attached) => attached.version(),
        }
    }

    fn context(&self) -> Context {
        match self {
            Self::Launched(_) => Context::default(),
            Self::Attached(attached) => Context::of(attached.context()),
        }
    }

    async fn ended(&self) -> Ended {
        match self {
            Self::Launched(browser) => browser.ended().await,
            Self::Attached(attached) => {
                attached.ended().await;
                unseen_end()
            }
        }
    }

    async fn close(self, limit: Duration) -> Ended {
        match self {
            Self::Launched(browser) => browser.close(limit).await,
            Self::Attached(attached) => {
                attached.close(limit).await;
                unseen_end()
            }
        }
    }
}

/// The end of what is somebody else's process.
fn unseen_end() -> Ended {
    Ended { status: None, stderr: "".into() }
}

/// A running browser. Dropping it ends it, or leaves it where a person runs it; its page is then lost.
#[derive(Debug)]
pub struct ChromiumBrowser {
    driven: Driven,
    /// Ends with the browser.
    _floor: Floor,
    page: ChromiumPage,
    info: BrowserInfo,
    /// The stored state of origins that this run may not visit, which was therefore not put into the browser.
    kept_aside: StorageState,
}

impl ChromiumBrowser {
    /// Starts a browser with one blank tab in which everything is in place.
    ///
    /// # Errors
    /// [`OpenError`].
    pub async fn open(options: OpenOptions) -> Result<(Self, ChromiumPage), OpenError> {
        let allowlist = Arc::new(options.allowlist.clone());
        let floor = start_floor(&allowlist).await.map_err(OpenError::Proxy)?;
        let refused = floor.refused();
        let driven = Driven::open(&options, floor.address()).await?;
        let (connection, context) = (driven.connection().clone(), driven.context());
        let session = connection.browser();

        let follow = options.new_tabs != v1::NewTabs::Close;
        let downloads = Downloads::new(options.download_folder.clone());
        let shared = Shared::new(State::new(options.dialogs, follow, downloads));
        let filter = Filter::new(allowlist);
        let heard = Watcher::subscribe(&connection);
        let backlog = heard.backlog();
        let log = options.page_log.then(|| LogKeeper::start(&connection));
        let requests = Gate::subscribe(&connection);
        let setup = TabSetup {
            width: options.width,
            height: options.height,
            locale: options.locale.clone(),
            timezone: options.timezone.clone(),
            context: context.clone(),
            script: page_script(&options.testid_attribute, &context),
        };
        let watcher =
            Watcher { connection: connection.clone(), shared: shared.clone(), setup, filter: filter.clone() };
        tokio::spawn(watcher.run(heard));
        let gate = Gate {
            connection: connection.clone(),
            context: context.clone(),
            shared: shared.clone(),
            filter: filter.clone(),
        };
        tokio::spawn(gate.run(requests));
        tokio::spawn(note_refusals(refused, shared.clone()));

        let redaction = options.redaction.clone();
        let attached = matches!(driven, Driven::Attached(_));
        let product = driven.version().product.chars().take(MAX_PRODUCT_CHARS).collect();
        let first_steps = async {
            if context.is_part() {
                // What holds for the browser as a whole would hold for the person's tabs, too.
                session.call::<Done>("Target.setDiscoverTargets", discover_ours()).await?;
            } else {
                Gate::enable(&session).await?;
                session.call::<Done>("Target.setAutoAttach", auto_attach_tabs()).await?;
            }
            let blank = context.params(json!({ "url": "about:blank" }));
            let _: CreatedTarget = session.call("Target.createTarget", blank).await?;
            let mut page =
                ChromiumPage::new(connection.clone(), shared, backlog, filter, context.clone(), redaction);
            page.log = log;
            page.main_document().await?;
            let info = BrowserInfo { version: product, process_id: process_id(&connection).await?, attached };
            Ok::<_, OpenError>((page, info))
        };
        let (page, info) = match within(FIRST_STEPS_LIMIT, first_steps).await {
            Some(taken) => taken?,
            None => return Err(OpenError::NoAnswer(FIRST_STEPS_LIMIT)),
        };
        let kept_aside = match options.storage_state {
            Some(state) => page.restore(state, &options.allowlist).await?,
            None => StorageState::default(),
        };
        let ours = Self { driven, _floor: floor, page: page.again(), info, kept_aside };
        Ok((ours, page))
    }

    pub fn info(&self) -> &BrowserInfo {
        &self.info
    }

    /// Waits until the browser has ended, whatever the reason.
    pub async fn ended(&self) -> Ended {
        self.driven.ended().await
    }

    /// Cookies, and the local storage of the origins that tabs have shown, for [`OpenOptions::storage_state`]. Opens a tab
    /// of its own: to be called when nothing is to be done on the page any more. No request is sent.
    ///
    /// Session storage, IndexedDB, caches and the storage of embedded frames are not kept.
    ///
    /// # Errors
    /// [`PageError`].
    pub async fn storage_state(&self) -> Result<StorageState, PageError> {
        self.page.storage(&self.kept_aside).await
    }

    /// Asks the browser to end; kills it after `limit`. Returns when it has ended and its profile is gone. A person's browser
    /// goes on, and only our tabs are closed.
    pub async fn close(self, limit: Duration) -> Ended {
        self.driven.close(limit).await
    }
}

/// The script for each document.
fn page_script(testid_attribute: &str, context: &Context) -> Arc<str> {
    let script = script::source(testid_attribute);
    if !context.is_part() {
        return script.into();
    }
    // Going back always loads the page, as in a browser that was started without that cache: a page that has such a listener
    // is not kept.
    format!("{script}\naddEventListener('unload', () => {{}});").into()
}

fn launch_options(options: &OpenOptions, from: &Launch, proxy: SocketAddr) -> LaunchOptions {
    let mut launch = LaunchOptions::new(&from.program, &from.profile_folder);
    launch.headless = !from.headed;
    launch.window = WindowSize { width: options.width, height: options.height };
    launch.proxy = Some(proxy);
    launch.download_folder = Some(options.download_folder.clone());
    launch.shim.clone_from(&from.shim);
    launch.environment.clone_from(&from.environment);
    // Workers have no other way to learn of the time zone.
    launch.environment.insert("TZ".into(), options.timezone.clone().into());
    launch.disabled_features = ["Prerender2", "SpeculationRules"].map(str::to_owned).to_vec();
    launch.extra_args = vec![
        format!("--lang={}", options.locale).into(),
        format!("--accept-lang={}", options.locale).into(),
        // An iframe of another site always has a process of its own, however much memory the machine has.
        "--site-per-process".into(),
        // Going back always loads the page: a page out of that cache would come without a navigation.
        "--disable-back-forward-cache".into(),
        "--disable-popup-blocking".into(),
        "--no-pings".into(),
    ];
    launch
}

async fn start_floor(allowlist: &Arc<Allowlist>) -> io::Result<Floor> {
    let allowlist = Arc::clone(allowlist);
    Floor::start(move |destination| allowlist.allows(&destination.host, destination.port)).await
}

/// The task that records connections which the floor refused. Ends with the floor.
async fn note_refusals(mut refused: broadcast::Receiver<Destination>, shared: Shared) {
    loop {
        match refused.recv().await {
            Ok(Destination { host, .. }) if is_own_service(&host) => {
                tracing::debug!(host, "the browser's own connection is refused");
            }
            Ok(Destination { host, port }) => {
                shared.change(|state| state.changes.blocked_connection(&host, port));
            }
            // The missed refusals are not known any more. That some connections were refused is known from those
            // before.
            Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => return,
        }
    }
}

fn is_own_service(host: &str) -> bool {
    OWN_SERVICES.iter().any(|domain| {
        let front = host.strip_suffix(domain);
        front.is_some_and(|front| front.is_empty() || front.ends_with('.'))
    })
}

async fn process_id(connection: &Connection) -> Result<u32, CallError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Processes {
        process_info: Vec<Process>,
    }
    #[derive(Deserialize)]
    struct Process {
        #[serde(rename = "type")]
        kind: String,
        id: u32,
    }
    let processes: Processes = connection.browser().call("SystemInfo.getProcessInfo", ()).await?;
    let browser = processes.process_info.iter().find(|process| process.kind == "browser");
    Ok(browser.map_or(0, |process| process.id))
}
