//! Opening a browser for one run, and ending it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use capataz_cdp::proxy::{Destination, Floor};
use capataz_cdp::{
    Browser, CallError, Connection, Done, Ended, LaunchError, LaunchOptions, ShimOptions, WindowSize,
};
use capataz_contracts::v1;
use serde::Deserialize;
use serde_json::json;
use thiserror::Error;
use tokio::sync::broadcast;

use super::downloads::Downloads;
use super::page_log::LogKeeper;
use super::protocol::CreatedTarget;
use super::requests::{Filter, Gate};
use super::state::{Shared, State};
use super::storage::StorageState;
use super::tabs::{TabSetup, auto_attach_tabs};
use super::watch::Watcher;
use super::{ChromiumPage, script};
use crate::allowlist::Allowlist;
use crate::page::{PageError, PageRedaction};

/// Domains of services that some versions of the browser ask all the same. The floor refuses these connections like all
/// others, and no page is to be blamed for them.
const OWN_SERVICES: [&str; 4] = ["google.com", "googleapis.com", "gvt1.com", "gstatic.com"];

/// How a browser is opened. One browser serves one run.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    pub program: PathBuf,
    /// The profile of this browser alone: made at its start, and removed after its end.
    pub profile_folder: PathBuf,
    /// Where downloads are written; it must exist.
    pub download_folder: PathBuf,
    pub shim: Option<ShimOptions>,
    /// See [`capataz_cdp::passed_environment`].
    pub environment: BTreeMap<OsString, OsString>,
    /// The size of the viewport, in CSS pixels.
    pub width: u32,
    pub height: u32,
    /// A window on a screen.
    pub headed: bool,
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
}

/// Why no browser was opened. What was started has ended, or is being ended.
#[derive(Debug, Error)]
pub enum OpenError {
    #[error("the browser cannot be started")]
    Launch(#[from] LaunchError),
    #[error("the browser's proxy cannot be started")]
    Proxy(#[source] io::Error),
    #[error("the browser cannot be set up")]
    Setup(#[from] CallError),
    #[error("the first page did not come")]
    Page(#[from] PageError),
}

/// A running browser. Dropping it ends it; its page is then lost.
#[derive(Debug)]
pub struct ChromiumBrowser {
    browser: Browser,
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
        let browser = Browser::launch(launch_options(&options, floor.address())).await?;
        let connection = browser.connection().clone();
        let session = connection.browser();

        let follow = options.new_tabs != v1::NewTabs::Close;
        let downloads = Downloads::new(options.download_folder.clone());
        let shared = Shared::new(State::new(options.dialogs, follow, downloads));
        let filter = Filter::new(allowlist);
        let heard = Watcher::subscribe(&connection);
        let backlog = heard.backlog();
        let log = options.page_log.then(|| LogKeeper::start(&connection));
        let requests = Gate::subscribe(&session);
        let setup = TabSetup {
            width: options.width,
            height: options.height,
            locale: options.locale.clone(),
            script: Arc::from(script::source(&options.testid_attribute)),
        };
        let watcher =
            Watcher { connection: connection.clone(), shared: shared.clone(), setup, filter: filter.clone() };
        tokio::spawn(watcher.run(heard));
        let gate = Gate { browser: session.clone(), shared: shared.clone(), filter: filter.clone() };
        tokio::spawn(gate.run(requests));
        tokio::spawn(note_refusals(refused, shared.clone()));

        Gate::enable(&session).await?;
        session.call::<Done>("Target.setAutoAttach", auto_attach_tabs()).await?;
        let _: CreatedTarget = session.call("Target.createTarget", json!({ "url": "about:blank" })).await?;
        let mut page =
            ChromiumPage::new(connection.clone(), shared, backlog, filter, options.redaction.clone());
        page.log = log;
        page.main_document().await?;
        let info = BrowserInfo {
            version: browser.version().product.clone(),
            process_id: process_id(&connection).await?,
        };
        let kept_aside = match options.storage_state {
            Some(state) => page.restore(state, &options.allowlist).await?,
            None => StorageState::default(),
        };
        let ours = Self { browser, _floor: floor, page: page.again(), info, kept_aside };
        Ok((ours, page))
    }

    pub fn info(&self) -> &BrowserInfo {
        &self.info
    }

    /// Waits until the browser has ended, whatever the reason.
    pub async fn ended(&self) -> Ended {
        self.browser.ended().await
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

    /// Asks the browser to end; kills it after `limit`. Returns when it has ended and its profile is gone.
    pub async fn close(self, limit: Duration) -> Ended {
        self.browser.close(limit).await
    }
}

fn launch_options(options: &OpenOptions, proxy: SocketAddr) -> LaunchOptions {
    let mut launch = LaunchOptions::new(&options.program, &options.profile_folder);
    launch.headless = !options.headed;
    launch.window = WindowSize { width: options.width, height: options.height };
    launch.proxy = Some(proxy);
    launch.download_folder = Some(options.download_folder.clone());
    launch.shim.clone_from(&options.shim);
    launch.environment.clone_from(&options.environment);
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
