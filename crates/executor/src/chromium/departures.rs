//! Navigations that an act begins. What becomes of them belongs to the act: whether a link was refused is known only after
//! its click has been taken.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use capataz_cdp::{Connection, Event, EventError, Events};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::Instant;

use super::ChromiumPage;
use super::call::READ_LIMIT;
use super::protocol::{
    AttachedToTarget, DetachedFromTarget, DialogClosed, FrameDescription, FrameDetached, FrameNavigated,
    FrameOnly, NavigationRequested, NavigationStarted, WindowOpen,
};
use super::state::{Shared, Tab};
use super::tabs::send;
use crate::page::PageError;

/// The events that report the beginning and the end of a navigation.
const EVENTS: [&str; 13] = [
    "Inspector.targetCrashed",
    "Page.frameClearedScheduledNavigation",
    "Page.frameDetached",
    "Page.frameNavigated",
    "Page.frameRequestedNavigation",
    "Page.frameScheduledNavigation",
    "Page.frameStartedLoading",
    "Page.frameStartedNavigating",
    "Page.frameStoppedLoading",
    "Page.javascriptDialogClosed",
    "Page.windowOpen",
    "Target.attachedToTarget",
    "Target.detachedFromTarget",
];

/// Why an iframe is followed, too: somebody's click or submit leads there. What a page loads into its iframes by itself is
/// part of the page.
const LINKS_AND_FORMS: [&str; 3] = ["anchorClick", FORM_GET, FORM_POST];
const FORM_GET: &str = "formSubmissionGet";
const FORM_POST: &str = "formSubmissionPost";

/// The most navigations that are followed at a time, and the most announced windows that have not opened.
const FOLLOWED: usize = 64;

/// A function that answers after the tasks that the document has put off until now; a form is sent in such a task.
const TASKS_DONE: &str = "function() { return new Promise((done) => { \
    const { port1, port2 } = new MessageChannel(); \
    port2.onmessage = () => done(true); \
    port1.postMessage(null); }); }";

/// A navigation that was announced and has not ended.
#[derive(Debug, Default)]
struct Departure {
    /// The session of the newest event about the navigation.
    session: String,
    /// The frame is a tab's outermost one.
    is_tab: bool,
    /// A form is being sent, for which the browser uses a later task. Until then the page may withdraw the form, and no
    /// event reports that.
    is_put_off: bool,
    /// Its document has been asked whether it still comes.
    was_asked_about: bool,
    /// Whoever answers dialogs chose to stay on the page.
    is_forbidden: bool,
    /// The browser has started the navigation.
    has_started: bool,
    /// The earlier document has given way: an event that loading has stopped now means this navigation.
    is_left_to: bool,
}

/// The navigations and windows that were announced since an act began.
#[derive(Debug)]
pub(super) struct Departures {
    connection: Connection,
    shared: Shared,
    events: Events,
    /// The tab that the act is done to. What other tabs do meanwhile is no part of the act.
    acted: Option<String>,
    /// The navigations, by the id of their frame.
    under_way: BTreeMap<String, Departure>,
    /// Tabs that the act has opened, with their sessions, and the URLs of windows that are to open.
    new_tabs: BTreeMap<String, String>,
    windows: Vec<String>,
    /// Tabs that show the browser's own page in the place of a document that did not come, with its loader.
    failed: BTreeMap<String, String>,
}

impl ChromiumPage {
    /// To be called before an act, with its tab.
    pub(super) fn departures(&self, acted: Option<String>) -> Departures {
        // What was refused before is told by then.
        self.shared.read().tabs.iter_mut().for_each(|tab| tab.refused = None);
        Departures {
            connection: self.connection.clone(),
            shared: self.shared.clone(),
            events: self.connection.subscribe(&EVENTS),
            acted,
            under_way: BTreeMap::new(),
            new_tabs: BTreeMap::new(),
            windows: Vec::new(),
            failed: BTreeMap::new(),
        }
    }

    /// To be called once the page has answered after the act: what the act has led to was announced before that answer.
    /// Waits until each navigation has come to its end, whichever: another document, a download, no content, a refusal, or
    /// the page has thought better of it. What the browser told until then is known when this returns. Fails where the
    /// network did not give the document of a tab; of one that the allowlist refused the changes tell.
    pub(super) async fn followed(
        &self,
        mut departures: Departures,
        limit: Duration,
        deadline: Instant,
    ) -> Result<(), PageError> {
        let following = async {
            departures.heard_so_far()?;
            while !departures.under_way.is_empty() {
                if departures.ask() {
                    self.tasks_are_done().await;
                    departures.heard_so_far()?;
                    departures.drop_what_was_taken_back();
                } else {
                    let event = departures.events.next().await?;
                    departures.heard(&event);
                }
            }
            Ok(())
        };
        let followed = tokio::time::timeout_at(deadline, following).await;
        self.heard.cleared().await;
        match followed {
            Ok(Ok(())) => departures.all_loaded(),
            // What was missed may have been the end: no more can be said than that the act was done.
            Ok(Err(EventError::Lagged(_) | EventError::Detached)) => departures.all_loaded(),
            Ok(Err(EventError::Lost(loss))) => Err(PageError::Lost { reason: loss.to_string() }),
            Err(_) if departures.stop_loading() => Err(too_slow(limit)),
            // A navigation of an iframe may last longer than the act.
            Err(_) => departures.all_loaded(),
        }
    }

    /// Returns when the documents have run the tasks that they had put off.
    async fn tasks_are_done(&self) {
        for document in self.documents() {
            // A document that goes away has sent its form, or never will.
            let _: Result<bool, _> = self.function(&document, TASKS_DONE, Value::Null, READ_LIMIT).await;
        }
    }
}

impl Departures {
    /// Does something, and stops what it has led to where that does not come in time: a page that is being left may answer
    /// nothing until then.
    pub(super) async fn beside(
        &mut self,
        acting: impl Future<Output = Result<(), PageError>>,
        limit: Duration,
        deadline: Instant,
    ) -> Result<(), PageError> {
        let mut acting = pin!(acting);
        if let Ok(done) = tokio::time::timeout_at(deadline, &mut acting).await {
            return done;
        }
        let is_late = self.heard_so_far().is_ok() && self.stop_loading();
        acting.await?;
        if is_late { Err(too_slow(limit)) } else { Ok(()) }
    }

    /// True if there is a navigation to ask about.
    fn ask(&mut self) -> bool {
        let mut any = false;
        for departure in self.under_way.values_mut() {
            departure.was_asked_about = departure.is_put_off;
            any |= departure.was_asked_about;
        }
        any
    }

    /// Drops the navigations that were asked about and of which no event has come since: none will come.
    fn drop_what_was_taken_back(&mut self) {
        self.under_way.retain(|_, departure| !departure.is_put_off || !departure.was_asked_about);
    }

    /// What did not come in time is not to come under the next act. Returns whether there was anything, but in iframes.
    fn stop_loading(&self) -> bool {
        let mut any = false;
        let started = |departure: &&Departure| departure.is_tab && departure.has_started;
        for tab in self.under_way.values().filter(started) {
            send(&self.connection.session(tab.session.as_str()), "Page.stopLoading", ());
            any = true;
        }
        any
    }

    fn all_loaded(&self) -> Result<(), PageError> {
        let state = self.shared.read();
        let failed = |tab: &&Tab| {
            let loader = &tab.document.loader;
            tab.refused.is_none() && self.failed.get(&tab.target) == Some(loader) && !tab.was_answered()
        };
        match state.tabs.iter().find(failed) {
            Some(tab) => {
                let url = tab.document.unreachable.clone();
                Err(PageError::NotLoaded { reason: tab.net_error().to_owned(), url })
            }
            None => Ok(()),
        }
    }

    fn heard_so_far(&mut self) -> Result<(), EventError> {
        while let Some(event) = self.events.try_next()? {
            self.heard(&event);
        }
        Ok(())
    }

    fn heard(&mut self, event: &Event) {
        let session = event.session.as_deref().unwrap_or_default();
        match &*event.method {
            "Page.windowOpen" if self.is_ours(session) => {
                let windows = &mut self.windows;
                windows.extend(
                    parse(event).filter(|_| windows.len() < FOLLOWED).map(|window: WindowOpen| window.url),
                );
            }
            "Target.attachedToTarget" => {
                if let Some(attached) = parse(event) {
                    self.attached(attached);
                }
            }
            "Page.frameRequestedNavigation" => {
                if let Some(requested) = parse(event) {
                    self.requested(session, &requested);
                }
            }
            "Page.frameScheduledNavigation" => self.news(event, |departure| {
                departure.is_put_off = false;
                departure.is_forbidden = false;
            }),
            "Page.frameStartedNavigating" => {
                if let Some(started) = parse(event) {
                    self.started(session, &started);
                }
            }
            "Page.frameStartedLoading" => self.news(event, |departure| {
                departure.has_started = true;
                departure.is_left_to = true;
                departure.is_put_off = false;
            }),
            "Page.javascriptDialogClosed"
                if parse::<DialogClosed>(event).is_some_and(|closed| !closed.result) =>
            {
                let here = self.under_way.values_mut().filter(|departure| departure.session == session);
                here.for_each(|departure| departure.is_forbidden = true);
            }
            "Page.frameClearedScheduledNavigation" => {
                self.news(event, |departure| departure.is_left_to = true);
                self.under_way.retain(|_, departure| {
                    !departure.is_left_to || departure.has_started || !departure.is_forbidden
                });
            }
            "Page.frameStoppedLoading" => {
                let stopped = parse::<FrameOnly>(event).map(|frame| frame.frame_id);
                if let Some(frame) = stopped.filter(|frame| self.is_left_to(frame)) {
                    self.under_way.remove(&frame);
                }
            }
            "Page.frameNavigated" => {
                if let Some(navigated) = parse::<FrameNavigated>(event) {
                    self.arrived(navigated.frame);
                }
            }
            "Page.frameDetached" => {
                if let Some(detached) = parse::<FrameDetached>(event).filter(|frame| frame.reason != "swap") {
                    self.under_way.remove(&detached.frame_id);
                }
            }
            "Target.detachedFromTarget" => {
                if let Some(detached) = parse::<DetachedFromTarget>(event) {
                    self.under_way.retain(|_, departure| departure.session != detached.session_id);
                }
            }
            "Inspector.targetCrashed" => self.under_way.retain(|_, departure| departure.session != session),
            _ => {}
        }
    }

    /// A window that was asked for with an address is on its way there.
    fn attached(&mut self, attached: AttachedToTarget) {
        let target = attached.target_info;
        let is_ours = target.opener_id.as_ref().is_none_or(|opener| self.is_acted(opener));
        if target.kind != "page" || !target.subtype.is_empty() || !is_ours {
            return;
        }
        let session = attached.session_id;
        if !self.windows.is_empty() {
            let url = self.windows.remove(0);
            if url.starts_with("http:") || url.starts_with("https:") {
                self.follow(
                    target.target_id.clone(),
                    Departure { session: session.clone(), is_tab: true, ..Departure::default() },
                );
            }
        }
        self.new_tabs.insert(target.target_id, session);
    }

    fn requested(&mut self, session: &str, requested: &NavigationRequested) {
        let is_tab = self.is_acted(&requested.frame_id);
        let reason = requested.reason.as_str();
        // Another window has events of its own.
        if requested.disposition == "currentTab"
            && self.is_ours(session)
            && (is_tab || LINKS_AND_FORMS.contains(&reason))
        {
            let is_put_off = [FORM_GET, FORM_POST].contains(&reason);
            let departure =
                Departure { session: session.to_owned(), is_tab, is_put_off, ..Departure::default() };
            self.follow(requested.frame_id.clone(), departure);
        }
    }

    fn started(&mut self, session: &str, started: &NavigationStarted) {
        if started.navigation_type.ends_with("ameDocument") {
            return;
        }
        // A page does not ask for going back in the way it asks for another document.
        if !self.under_way.contains_key(&started.frame_id) && self.is_acted(&started.frame_id) {
            self.follow(started.frame_id.clone(), Departure { is_tab: true, ..Departure::default() });
        }
        let is_new = self.new_tabs.contains_key(&started.frame_id);
        if let Some(departure) = self.under_way.get_mut(&started.frame_id) {
            session.clone_into(&mut departure.session);
            departure.has_started = true;
            departure.is_put_off = false;
            // The tab has no document yet that could be left.
            departure.is_left_to |= is_new;
        }
    }

    fn arrived(&mut self, frame: FrameDescription) {
        let departure = self.under_way.remove(&frame.id);
        self.failed.remove(&frame.id);
        if frame.unreachable_url.is_some() && departure.is_some_and(|departure| departure.is_tab) {
            self.failed.insert(frame.id, frame.loader_id);
        }
    }

    fn follow(&mut self, frame: String, departure: Departure) {
        if self.under_way.len() < FOLLOWED {
            self.under_way.insert(frame, departure);
        }
    }

    fn news(&mut self, event: &Event, tell: impl FnOnce(&mut Departure)) {
        let frame = parse::<FrameOnly>(event).map(|frame| frame.frame_id);
        if let Some(departure) = frame.and_then(|frame| self.under_way.get_mut(&frame)) {
            tell(departure);
        }
    }

    fn is_left_to(&self, frame: &str) -> bool {
        self.under_way.get(frame).is_some_and(|departure| departure.is_left_to)
    }

    /// True if this is the outermost frame of the act's tab or of one that the act has opened.
    fn is_acted(&self, frame: &str) -> bool {
        self.acted.as_deref() == Some(frame) || self.new_tabs.contains_key(frame)
    }

    /// True if the session is one of these tabs.
    fn is_ours(&self, session: &str) -> bool {
        let tab = || self.shared.read().sessions.get(session).map(|attachment| attachment.tab.clone());
        self.new_tabs.values().any(|new| new == session) || tab().is_some_and(|tab| self.is_acted(&tab))
    }
}

fn too_slow(limit: Duration) -> PageError {
    PageError::TooSlow { waiting_for: "the document", limit }
}

/// The parameters of an event; an event of an unknown shape is passed over.
fn parse<T: DeserializeOwned>(event: &Event) -> Option<T> {
    event.parse().ok()
}
