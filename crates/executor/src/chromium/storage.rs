//! Cookies and local storage: taking them from one browser, and putting them into another.

use std::collections::BTreeSet;
use std::time::Duration;

use capataz_cdp::{Done, Session};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::ChromiumPage;
use super::call::{Failure, READ_LIMIT};
use super::protocol::{Cookies, CreatedTarget, Navigated};
use super::state::{Reached, State};
use crate::allowlist::Allowlist;
use crate::page::PageError;

/// Longest wait for one origin.
const ORIGIN_LIMIT: Duration = Duration::from_secs(15);

const READ_ITEMS: &str = "function() { \
    return Object.entries(localStorage).map(([name, value]) => ({ name, value })); }";

const WRITE_ITEMS: &str = "function(given) { \
    for (const { name, value } of given[0]) localStorage.setItem(name, value); \
    return true; }";

/// Cookies and local storage, as JSON. Session cookies are among them; session storage, IndexedDB and caches are not.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StorageState {
    /// As the DevTools protocol has them.
    #[serde(default)]
    pub cookies: Vec<Value>,
    #[serde(default)]
    pub origins: Vec<OriginStorage>,
}

/// The local storage of one origin.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct OriginStorage {
    /// Such as `https://example.com`.
    pub origin: String,
    pub local_storage: Vec<StoredItem>,
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredItem {
    pub name: String,
    pub value: String,
}

/// Both hold sessions that somebody signed in to, so neither is ever printed.
impl std::fmt::Debug for StorageState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (cookies, origins) = (self.cookies.len(), self.origins.len());
        f.debug_struct("StorageState").field("cookies", &cookies).field("origins", &origins).finish()
    }
}

impl std::fmt::Debug for OriginStorage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { origin, local_storage } = self;
        f.debug_struct("OriginStorage").field("origin", origin).field("items", &local_storage.len()).finish()
    }
}

impl std::fmt::Debug for StoredItem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoredItem").field("name", &self.name).finish_non_exhaustive()
    }
}

impl ChromiumPage {
    /// Puts it into the browser, which shows a blank page before and after. Returns what was left out: the storage of
    /// origins that are not on the allowlist.
    pub(super) async fn restore(
        &self,
        state: StorageState,
        allowlist: &Allowlist,
    ) -> Result<StorageState, PageError> {
        let session = self.current_session()?;
        let (wanted, aside): (Vec<_>, Vec<_>) =
            state.origins.into_iter().partition(|storage| allowlist.check_url(&storage.origin).is_ok());
        if !state.cookies.is_empty() {
            let params = json!({ "cookies": state.cookies.iter().map(settable).collect::<Vec<_>>() });
            let params = self.context.params(params);
            self.command::<Done>(&self.connection.browser(), "Storage.setCookies", params, READ_LIMIT)
                .await
                .map_err(Failure::or_detached)?;
        }
        if !wanted.is_empty() {
            let tab = self.current_tab()?;
            self.shared.change(|state| state.storage_tab = Some(tab.clone()));
            let written = self.write_origins(&session, &tab, &wanted).await;
            self.shared.change(|state| state.storage_tab = None);
            written?;
            self.show(&session, &tab, "about:blank").await?;
            self.command::<Done>(&session, "Page.resetNavigationHistory", (), READ_LIMIT)
                .await
                .map_err(Failure::or_detached)?;
            self.shared.change(|state| {
                state.changes.take();
            });
        }
        Ok(StorageState { cookies: Vec::new(), origins: aside })
    }

    async fn write_origins(
        &self,
        session: &Session,
        tab: &str,
        origins: &[OriginStorage],
    ) -> Result<(), PageError> {
        for storage in origins {
            let document = self.show(session, tab, &storage.origin).await?;
            self.function::<bool>(&document, WRITE_ITEMS, json!([storage.local_storage]), READ_LIMIT)
                .await
                .map_err(Failure::or_detached)?;
        }
        Ok(())
    }

    /// The storage that the browser has now, together with what was kept aside at its start.
    pub(super) async fn storage(&self, aside: &StorageState) -> Result<StorageState, PageError> {
        let browser = self.connection.browser();
        let cookies: Cookies = self
            .command(&browser, "Storage.getCookies", self.context.params(json!({})), READ_LIMIT)
            .await
            .map_err(Failure::or_detached)?;
        let visited: BTreeSet<String> = self.shared.read().origins.clone();
        let mut origins = if visited.is_empty() { Vec::new() } else { self.read_origins(visited).await? };
        origins.extend(aside.origins.iter().cloned());
        Ok(StorageState { cookies: cookies.cookies, origins })
    }

    /// Reads the storage of these origins in a tab of its own, which is gone afterwards, whatever became of the reading: the
    /// page may be acted on again.
    async fn read_origins(&self, visited: BTreeSet<String>) -> Result<Vec<OriginStorage>, PageError> {
        self.shared.change(|state| state.expects_own_tab = true);
        let created: Result<CreatedTarget, _> = self
            .command(
                &self.connection.browser(),
                "Target.createTarget",
                self.context.params(json!({ "url": "about:blank" })),
                READ_LIMIT,
            )
            .await;
        let tab = match created {
            Ok(created) => created.target_id,
            Err(failure) => {
                // The next tab is one that the page opens, and the policy for those holds for it.
                self.shared.change(|state| state.expects_own_tab = false);
                return Err(failure.or_detached());
            }
        };
        let own = OwnTab::new(self, tab);
        let read = self.read_each(&own.tab, visited).await;
        let tab = own.close();
        // Actions happen in the last tab, so it is waited for that this is no longer the one.
        let is_gone = |state: &State| state.tabs.iter().all(|other| other.target != tab).then_some(());
        let _ = self.shared.find_within(READ_LIMIT, is_gone).await;
        read
    }

    async fn read_each(&self, tab: &str, visited: BTreeSet<String>) -> Result<Vec<OriginStorage>, PageError> {
        let mut origins = Vec::new();
        for origin in visited {
            origins.extend(self.read_origin(tab, origin).await?);
        }
        Ok(origins)
    }

    async fn read_origin(&self, tab: &str, origin: String) -> Result<Option<OriginStorage>, PageError> {
        let ready = self.shared.find_within(READ_LIMIT, |state| {
            state.tabs.iter().find(|candidate| candidate.target == tab).map(|tab| tab.session.clone())
        });
        let Some(session) = ready.await else { return Err(no_storage(&origin)) };
        let session = self.connection.session(session);
        let document = self.show(&session, tab, &origin).await?;
        let local_storage: Vec<StoredItem> = self
            .function(&document, READ_ITEMS, Value::Null, READ_LIMIT)
            .await
            .map_err(Failure::or_detached)?;
        Ok((!local_storage.is_empty()).then_some(OriginStorage { origin, local_storage }))
    }

    /// Shows an empty document of the origin, which the gate makes up. Returns the document.
    async fn show(&self, session: &Session, tab: &str, url: &str) -> Result<String, PageError> {
        let bypass = json!({ "bypass": true });
        self.command::<Done>(session, "Network.setBypassServiceWorker", bypass, READ_LIMIT)
            .await
            .map_err(Failure::or_detached)?;
        let navigated: Navigated = self
            .command(session, "Page.navigate", json!({ "url": url }), READ_LIMIT)
            .await
            .map_err(Failure::or_detached)?;
        let loader = navigated.loader_id.unwrap_or_default();
        let document = self.shared.find_within(ORIGIN_LIMIT, |state| {
            let tab = state.tabs.iter().find(|candidate| candidate.target == tab)?;
            let loaded = tab.document.loader == loader && tab.document.reached >= Reached::Load;
            if !loaded || tab.document.unreachable.is_some() {
                return None;
            }
            tab.frames.get(&tab.target)?.context.clone()
        });
        let document = document.await.ok_or_else(|| no_storage(url))?;
        let unbypassed = json!({ "bypass": false });
        super::tabs::send(session, "Network.setBypassServiceWorker", unbypassed);
        Ok(document)
    }

    fn current_tab(&self) -> Result<String, PageError> {
        let state = self.shared.read();
        let lost = || PageError::Lost { reason: "there is no tab".to_owned() };
        state.current().map(|tab| tab.target.clone()).ok_or_else(lost)
    }
}

/// The tab that reads storage. It closes with this, also where nobody waits for what is read any more.
struct OwnTab<'a> {
    page: &'a ChromiumPage,
    tab: String,
}

impl<'a> OwnTab<'a> {
    fn new(page: &'a ChromiumPage, tab: String) -> Self {
        page.shared.change(|state| state.storage_tab = Some(tab.clone()));
        Self { page, tab }
    }

    /// Begins to close it. Returns which one it was.
    fn close(self) -> String {
        self.tab.clone()
    }
}

impl Drop for OwnTab<'_> {
    fn drop(&mut self) {
        self.page.shared.change(|state| {
            state.storage_tab = None;
            // What it may still ask for is not to reach the network either.
            state.tab_unwanted(self.tab.clone());
        });
        super::tabs::close(&self.page.connection, &self.tab);
    }
}

fn no_storage(origin: &str) -> PageError {
    PageError::Failed(format!("the storage of {origin} cannot be reached"))
}

/// A cookie with the fields that the browser accepts; it reports more fields than that.
fn settable(cookie: &Value) -> Value {
    const TAKEN: [&str; 11] = [
        "name",
        "value",
        "domain",
        "path",
        "secure",
        "httpOnly",
        "sameSite",
        "priority",
        "sourceScheme",
        "sourcePort",
        "partitionKey",
    ];
    let mut taken: serde_json::Map<String, Value> =
        TAKEN.iter().filter_map(|name| Some(((*name).to_owned(), cookie.get(*name)?.clone()))).collect();
    // A cookie without this field is a session cookie: it would end with its browser, and goes on in this one.
    if let Some(expires) = cookie.get("expires").filter(|expires| expires.as_f64().is_some_and(|at| at > 0.0))
    {
        taken.insert("expires".to_owned(), expires.clone());
    }
    Value::Object(taken)
}
