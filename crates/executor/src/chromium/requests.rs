//! The allowlist at each request: documents, each hop of a redirect, and whatever a page, frame or worker asks for. What is
//! not seen here, WebSockets first, meets the floor.

use std::collections::BTreeSet;
use std::sync::Arc;

use capataz_cdp::{CallError, Connection, Done, Event, EventError, Events, Session, SessionId};
use capataz_contracts::v1;
use futures_util::FutureExt;
use serde_json::{Value, json};

use super::context::Context;
use super::protocol::{AuthRequired, DetachedFromTarget, RequestPaused};
use super::state::Shared;
use super::tabs::send;
use crate::allowlist::{Allowlist, Refusal};

/// Schemes of documents that need no network, and that a tab may show: the blank one, and Chromium's own page for what
/// could not be loaded.
const HARMLESS_DOCUMENTS: [&str; 2] = ["about:", "chrome-error:"];

/// Longest URL that is kept, in characters.
const URL_LIMIT: usize = 4096;

/// Decides about requests.
#[derive(Clone, Debug)]
pub(super) struct Filter(Arc<Allowlist>);

impl Filter {
    pub(super) fn new(allowlist: Arc<Allowlist>) -> Self {
        Self(allowlist)
    }

    /// The record of a request that is refused; `None` if the request may go on.
    pub(super) fn refuse(&self, url: &str, kind: &str) -> Option<v1::BlockedRequest> {
        let refusal = self.0.check_url(url).err()?;
        Some(blocked(url, &refusal, kind))
    }

    /// True if a tab that shows this URL has gone around the allowlist.
    fn leads_around(&self, url: &str) -> bool {
        let harmless = HARMLESS_DOCUMENTS.iter().any(|scheme| url.starts_with(scheme));
        !harmless && matches!(self.0.check_url(url), Err(Refusal::Scheme { .. }))
    }

    /// Records a tab's navigation to a URL that leads around the allowlist. All other navigations are judged at their
    /// request.
    pub(super) fn refuse_document(&self, shared: &Shared, url: &str) -> bool {
        // The script of such a URL runs in the document that is there, with the rights that it has.
        if url.is_empty() || url.starts_with("javascript:") || !self.leads_around(url) {
            return false;
        }
        if let Some(request) = self.refuse(url, "document") {
            shared.change(|state| state.changes.blocked(request));
        }
        true
    }

    /// As [`Filter::refuse_document`], for a tab whose first request nobody has judged.
    pub(super) fn refuse_new_tab(&self, shared: &Shared, url: &str) -> bool {
        if self.refuse_document(shared, url) {
            return true;
        }
        let is_blank = url.is_empty() || url.starts_with("about:") || url.starts_with("javascript:");
        match self.refuse(url, "document").filter(|_| !is_blank) {
            Some(request) => {
                shared.change(|state| state.changes.blocked(request));
                true
            }
            None => false,
        }
    }

    /// Records a WebSocket that the floor will refuse.
    pub(super) fn web_socket(&self, shared: &Shared, url: &str) {
        if let Some(request) = self.refuse(url, "websocket") {
            shared.change(|state| state.changes.blocked(request));
        }
    }
}

fn blocked(url: &str, refusal: &Refusal, kind: &str) -> v1::BlockedRequest {
    let url = url.chars().take(URL_LIMIT).collect();
    v1::BlockedRequest { url, host: refusal.host(), kind: kind.to_owned() }
}

/// The task that lets requests go on, or fails them.
#[derive(Debug)]
pub(super) struct Gate {
    pub connection: Connection,
    pub context: Context,
    pub shared: Shared,
    pub filter: Filter,
}

impl Gate {
    pub(super) fn subscribe(connection: &Connection) -> Events {
        connection.subscribe(&["Fetch.requestPaused", "Fetch.authRequired", "Target.detachedFromTarget"])
    }

    /// Turns the gate on for a whole browser. Requests wait for [`Gate::run`].
    pub(super) async fn enable(browser: &Session) -> Result<(), CallError> {
        browser.call::<Done>("Fetch.enable", patterns()).await.map(|Done {}| ())
    }

    /// Ends with the connection.
    pub(super) async fn run(self, mut events: Events) {
        let mut heard_of = BTreeSet::new();
        loop {
            match events.next().await {
                Ok(event) if &*event.method == "Target.detachedFromTarget" => {
                    if let Ok(detached) = event.parse::<DetachedFromTarget>() {
                        heard_of.remove(&SessionId::from(detached.session_id.as_str()));
                    }
                }
                Ok(event) => {
                    let session = self.session(event.session.as_ref());
                    if let Some(id) = &event.session
                        && !heard_of.contains(id)
                    {
                        heard_of.insert(id.clone());
                    }
                    match &*event.method {
                        "Fetch.authRequired" => credentials(&session, &event),
                        _ => self.paused(&session, &event).await,
                    }
                }
                Err(EventError::Lost(_) | EventError::Detached) => return,
                // Nobody knows which requests wait now. This lets them go on, and the floor refuses what it has to.
                Err(EventError::Lagged(_)) => {
                    for session in self.gates(&heard_of) {
                        command(&session, "Fetch.disable", json!({})).await;
                        command(&session, "Fetch.enable", patterns()).await;
                    }
                }
            }
        }
    }

    fn session(&self, id: Option<&SessionId>) -> Session {
        id.map_or_else(|| self.connection.browser(), |id| self.connection.session(id.clone()))
    }

    /// Wherever requests wait: in the browser as a whole, or in each of our targets.
    fn gates(&self, heard_of: &BTreeSet<SessionId>) -> Vec<Session> {
        if !self.context.is_part() {
            return vec![self.connection.browser()];
        }
        let mut ids = heard_of.clone();
        ids.extend(self.shared.read().sessions.keys().map(SessionId::from));
        ids.into_iter().map(|id| self.connection.session(id)).collect()
    }

    async fn paused(&self, session: &Session, event: &Event) {
        let Ok(request) = event.parse::<RequestPaused>() else { return };
        let id = request.request_id.as_str();
        if request.response_status_code.is_some() || request.response_error_reason.is_some() {
            self.answered(&request);
            return command(session, "Fetch.continueRequest", json!({ "requestId": id })).await;
        }
        if self.shared.read().storage_tab.as_deref() == Some(&*request.frame_id) {
            let empty = json!({
                "requestId": id,
                "responseCode": 200,
                "responseHeaders": [{ "name": "content-type", "value": "text/html" }],
            });
            return command(session, "Fetch.fulfillRequest", empty).await;
        }
        if self.shared.read().unwanted_tabs.contains(&request.frame_id) {
            let failure = json!({ "requestId": id, "errorReason": "Aborted" });
            return command(session, "Fetch.failRequest", failure).await;
        }
        match self.refused(&request) {
            None => command(session, "Fetch.continueRequest", json!({ "requestId": id })).await,
            Some(refused) => {
                self.shared.change(|state| {
                    if let Some(tab) = state.tab(&request.frame_id)
                        && refused.kind == "document"
                    {
                        tab.refused = Some(refused.clone());
                    }
                    state.changes.blocked(refused);
                });
                let failure = json!({ "requestId": id, "errorReason": "BlockedByClient" });
                command(session, "Fetch.failRequest", failure).await;
            }
        }
    }

    fn refused(&self, request: &RequestPaused) -> Option<v1::BlockedRequest> {
        let url = &request.request.url;
        let mut kind = request.resource_type.to_ascii_lowercase();
        if kind == "document" && !self.is_tab(&request.frame_id) {
            kind = "iframe".to_owned();
        }
        // The page made this content itself, and it leads to no host. A tab may not show it, but parts of a page may be
        // loaded from it.
        let own_content = url.starts_with("data:") || url.starts_with("blob:");
        if own_content && kind != "document" {
            return None;
        }
        self.filter.refuse(url, &kind)
    }

    fn is_tab(&self, frame: &str) -> bool {
        self.shared.read().tabs.iter().any(|tab| tab.target == frame)
    }

    /// Keeps the status or the error of the answer to a tab's document, and notes redirects.
    fn answered(&self, request: &RequestPaused) {
        let loader = request.network_id.clone().unwrap_or_default();
        self.shared.change(|state| {
            let current = state.is_current(&request.frame_id);
            let Some(tab) = state.tab(&request.frame_id) else { return };
            match (request.response_status_code, &request.response_error_reason) {
                (_, Some(reason)) => tab.failure = Some((loader, net_error(reason))),
                (Some(301 | 302 | 303 | 307 | 308), None) => {
                    if current {
                        state.changes.redirected(request.request.url.chars().take(URL_LIMIT).collect());
                    }
                }
                (Some(status), None) => tab.answer = Some((loader, status)),
                (None, None) => {}
            }
        });
    }
}

/// The browser's name for an error, from how it is spelled of a request: `net::ERR_TIMED_OUT` for `TimedOut`.
fn net_error(reason: &str) -> String {
    let mut name = "net::ERR".to_owned();
    for letter in reason.chars() {
        if letter.is_uppercase() {
            name.push('_');
        }
        name.push(letter.to_ascii_uppercase());
    }
    name
}

/// Nobody is there to type a password into the browser's own dialog; the page with status 401 is shown.
fn credentials(session: &Session, event: &Event) {
    if let Ok(required) = event.parse::<AuthRequired>() {
        let answer = json!({
            "requestId": required.request_id,
            "authChallengeResponse": { "response": "CancelAuth" },
        });
        send(session, "Fetch.continueWithAuth", answer);
    }
}

/// Sends without waiting for the answer; waits where too many commands wait to be sent.
async fn command(session: &Session, method: &'static str, params: Value) {
    let reply = session.send::<Done>(method, &params);
    if let Some(Err(CallError::Overloaded { .. })) = reply.now_or_never() {
        // The request may be gone.
        let _ = session.call::<Done>(method, params).await;
    }
}

/// Each request, and each answer to a document's.
pub(super) fn patterns() -> Value {
    json!({
        "handleAuthRequests": true,
        "patterns": [
            { "urlPattern": "*", "requestStage": "Request" },
            { "urlPattern": "*", "resourceType": "Document", "requestStage": "Response" },
        ],
    })
}
