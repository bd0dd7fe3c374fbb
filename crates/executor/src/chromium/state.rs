//! What is known of the browser's tabs, as the fold of the browser's events. Nothing here sends commands or waits for
//! answers.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use capataz_cdp::patience::within;
use capataz_contracts::v1;
use tokio::sync::watch;
use url::Url;

use super::changes::Changes;
use super::downloads::Downloads;
use super::protocol::{FrameDescription, FrameTree, LifecycleEvent, ResponseReceived};
use crate::page::FailedDocument;

/// How far the document of a tab has come, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reached {
    Commit,
    Dom,
    Load,
}

/// The document of a tab's outermost frame.
#[derive(Clone, Debug)]
pub(super) struct Document {
    /// Rises with each document of the tab.
    pub number: u64,
    pub loader: String,
    pub reached: Reached,
    /// The requested document, which did not come: Chromium shows its own error page.
    pub unreachable: Option<String>,
}

#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub parent: Option<String>,
    pub session: String,
    /// The world of our script in the frame's document; `None` while the frame has no document.
    pub context: Option<String>,
    /// Chromium's other name for that world, which only one renderer process understands.
    pub context_number: i64,
    /// The element that shows the frame: the world in the document that it is in, and its handle there. A frame never gets
    /// another element.
    pub owner: Option<(String, u64)>,
}

impl Frame {
    fn new(parent: Option<String>, session: String) -> Self {
        Self { parent, session, context: None, context_number: 0, owner: None }
    }
}

#[derive(Debug)]
pub(super) struct Tab {
    /// Its target's and its outermost frame's id.
    pub target: String,
    pub session: String,
    pub crashed: bool,
    pub document: Document,
    /// The origin of the document, as browsers write it.
    pub origin: String,
    /// Moves within a document, since the tab was opened.
    pub same_document: u64,
    pub frames: BTreeMap<String, Frame>,
    /// HTTP status of the newest answer to a document's request, with the document's loader.
    pub answer: Option<(String, u32)>,
    /// The newest document's request that failed: its loader, and Chromium's name for the error.
    pub failure: Option<(String, String)>,
    /// The newest request for a document of this tab that was refused.
    pub refused: Option<v1::BlockedRequest>,
    /// Navigations that have begun, and the loaders of the newest ones.
    pub begun: u64,
    pub loaders: VecDeque<String>,
}

/// Navigations of a tab whose loaders are remembered: as many as can be under way at a time.
const REMEMBERED_LOADERS: usize = 16;

/// Unwanted tabs that are remembered until they have closed.
const REMEMBERED_TABS: usize = 256;

impl Tab {
    /// True if the navigation to the present document began after the first `begun` navigations of this tab.
    pub(super) fn began_after(&self, begun: u64) -> bool {
        let newest_first = self.loaders.iter().rev().position(|loader| *loader == self.document.loader);
        newest_first.is_some_and(|index| self.begun.saturating_sub(index as u64) > begun)
    }

    /// True if the present document was answered for. One without content has a page of the browser's own.
    pub(super) fn was_answered(&self) -> bool {
        self.answer.as_ref().is_some_and(|(loader, _)| *loader == self.document.loader)
    }

    /// The present document, where the network did not give it and nobody refused it.
    fn failed_document(&self) -> Option<FailedDocument> {
        let url =
            self.document.unreachable.clone().filter(|_| !self.was_answered() && self.refused.is_none())?;
        Some(FailedDocument { url, net_error: self.net_error().to_owned() })
    }

    /// Why the present document did not come.
    pub(super) fn net_error(&self) -> &str {
        let failure = self.failure.as_ref().filter(|(loader, _)| *loader == self.document.loader);
        failure.map_or("the document did not come", |(_, reason)| reason.as_str())
    }

    fn navigation_began(&mut self, loader: String) {
        if self.loaders.back() == Some(&loader) {
            return;
        }
        if self.loaders.len() == REMEMBERED_LOADERS {
            self.loaders.pop_front();
        }
        self.loaders.push_back(loader);
        self.begun += 1;
    }

    fn frames_below(&mut self, session: &str, trees: Vec<FrameTree>) {
        for tree in trees {
            let entry = || Frame::new(tree.frame.parent_id.clone(), session.to_owned());
            self.frames.entry(tree.frame.id.clone()).or_insert_with(entry);
            self.frames_below(session, tree.child_frames);
        }
    }

    fn remove_below(&mut self, frame: &str) {
        let below: Vec<String> = self
            .frames
            .iter()
            .filter(|(_, candidate)| candidate.parent.as_deref() == Some(frame))
            .map(|(id, _)| id.clone())
            .collect();
        for id in below {
            self.frames.remove(&id);
            self.remove_below(&id);
        }
    }
}

/// What one session is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Attachment {
    /// The tab, by its target.
    pub tab: String,
    /// The frame that the session begins with; that of the tab, or of an iframe with a process of its own.
    pub frame: String,
    /// The session that it was attached through, for iframes.
    pub parent: Option<String>,
}

#[derive(Debug)]
pub(super) struct State {
    /// Why nothing can be done any more.
    pub lost: Option<String>,
    /// The tabs in the order in which they were opened; actions happen in the last one.
    pub tabs: Vec<Tab>,
    pub sessions: BTreeMap<String, Attachment>,
    pub dialogs: v1::DialogAnswer,
    /// The text for prompts that are accepted.
    pub prompt: Option<String>,
    /// What is being dragged from one of the pages, as the browser describes it.
    pub dragged: Option<serde_json::Value>,
    pub follow_new_tabs: bool,
    pub changes: Changes,
    /// The tabs that the last act is about: that of its element, and those that were opened by these.
    pub acted: BTreeSet<String>,
    /// The newest document that a tab of the last act, or the current tab, did not get, with the tab.
    pub failed: Option<(String, FailedDocument)>,
    pub downloads: Downloads,
    /// Origins of the documents that tabs have shown.
    pub origins: BTreeSet<String>,
    /// URLs of windows that pages have asked for and that have not come yet.
    pub asked_windows: Vec<String>,
    /// The target of the tab that reads and writes storage. It is ours alone, and its requests never reach the network.
    pub storage_tab: Option<String>,
    /// True if the next tab to open is the storage tab, whatever the policy for new tabs says.
    pub expects_own_tab: bool,
    /// Tabs that are being closed before they could do anything.
    pub unwanted_tabs: VecDeque<String>,
}

impl State {
    pub(super) fn new(dialogs: v1::DialogAnswer, follow_new_tabs: bool, downloads: Downloads) -> Self {
        Self {
            lost: None,
            tabs: Vec::new(),
            sessions: BTreeMap::new(),
            dialogs,
            prompt: None,
            dragged: None,
            follow_new_tabs,
            changes: Changes::default(),
            acted: BTreeSet::new(),
            failed: None,
            downloads,
            origins: BTreeSet::new(),
            asked_windows: Vec::new(),
            storage_tab: None,
            expects_own_tab: true,
            unwanted_tabs: VecDeque::new(),
        }
    }

    pub(super) fn current(&self) -> Option<&Tab> {
        self.tabs.last()
    }

    pub(super) fn current_mut(&mut self) -> Option<&mut Tab> {
        self.tabs.last_mut()
    }

    pub(super) fn is_current(&self, target: &str) -> bool {
        self.current().is_some_and(|tab| tab.target == target)
    }

    pub(super) fn tab(&mut self, target: &str) -> Option<&mut Tab> {
        self.tabs.iter_mut().find(|tab| tab.target == target)
    }

    pub(super) fn tab_of_session(&mut self, session: &str) -> Option<&mut Tab> {
        let target = self.sessions.get(session)?.tab.clone();
        self.tab(&target)
    }

    /// True if the browser can still answer commands of this session.
    pub(super) fn answers(&self, session: Option<&str>) -> bool {
        // The browser's own session lasts as long as the browser.
        let Some(session) = session else { return self.lost.is_none() };
        let Some(attachment) = self.sessions.get(session) else { return false };
        self.lost.is_none() && !self.tabs.iter().any(|tab| tab.target == attachment.tab && tab.crashed)
    }

    /// Where the script of this document can be called: its session.
    pub(super) fn session_of_context(&self, context: &str) -> Option<&str> {
        let frames = self.tabs.iter().flat_map(|tab| tab.frames.values());
        frames
            .filter(|frame| frame.context.as_deref() == Some(context))
            .map(|frame| frame.session.as_str())
            .next()
    }

    /// The frame that shows this document: its id, and the tab.
    pub(super) fn frame_of_context(&self, context: &str) -> Option<(&str, &Tab)> {
        self.tabs.iter().find_map(|tab| {
            let mut frames = tab.frames.iter();
            let (id, _) = frames.find(|(_, frame)| frame.context.as_deref() == Some(context))?;
            Some((id.as_str(), tab))
        })
    }

    /// Remembers the element that shows a frame, if that is still there.
    pub(super) fn owner_found(&mut self, frame: &str, owner: (String, u64)) {
        if let Some(frame) = self.tabs.iter_mut().find_map(|tab| tab.frames.get_mut(frame)) {
            frame.owner = Some(owner);
        }
    }

    pub(super) fn tab_opened(&mut self, target: String, session: String) {
        let attachment = Attachment { tab: target.clone(), frame: target.clone(), parent: None };
        self.sessions.insert(session.clone(), attachment);
        let frame = Frame::new(None, session.clone());
        self.tabs.push(Tab {
            frames: BTreeMap::from([(target.clone(), frame)]),
            target,
            session,
            crashed: false,
            document: Document {
                number: 0,
                loader: String::new(),
                reached: Reached::Commit,
                unreachable: None,
            },
            origin: String::new(),
            same_document: 0,
            answer: None,
            failure: None,
            refused: None,
            begun: 0,
            loaders: VecDeque::new(),
        });
    }

    /// An iframe has got a process, and with it a session, of its own.
    pub(super) fn frame_moved_out(
        &mut self,
        parent_session: &str,
        frame: String,
        parent_frame: Option<String>,
        session: String,
    ) {
        let Some(target) = self.sessions.get(parent_session).map(|attachment| attachment.tab.clone()) else {
            return;
        };
        let attachment =
            Attachment { tab: target.clone(), frame: frame.clone(), parent: Some(parent_session.to_owned()) };
        self.sessions.insert(session.clone(), attachment);
        if let Some(tab) = self.tab(&target) {
            let known_parent = tab.frames.get(&frame).and_then(|frame| frame.parent.clone());
            let parent = known_parent.or(parent_frame).or(Some(target));
            tab.remove_below(&frame);
            tab.frames.insert(frame, Frame::new(parent, session));
        }
    }

    /// A session is over: its tab was closed, or its iframe is gone or back in its parent's process. Returns the tab that
    /// actions happen in from now on, where that is another one.
    pub(super) fn session_ended(&mut self, session: &str) -> Option<String> {
        let attachment = self.sessions.remove(session)?;
        match attachment.parent {
            Some(parent) => {
                if let Some(tab) = self.tab(&attachment.tab) {
                    // The frames of the session end with it. The session's first frame may live on in the parent's
                    // process.
                    tab.remove_below(&attachment.frame);
                    if let Some(frame) = tab.frames.get_mut(&attachment.frame)
                        && frame.session == session
                    {
                        frame.session = parent;
                        frame.context = None;
                    }
                }
                None
            }
            None => {
                let was_current = self.is_current(&attachment.tab);
                self.tabs.retain(|tab| tab.target != attachment.tab);
                self.sessions.retain(|_, other| other.tab != attachment.tab);
                match self.current() {
                    Some(tab) if was_current => Some(tab.session.clone()),
                    Some(_) => None,
                    None => {
                        self.lost.get_or_insert_with(|| "its last tab was closed".to_owned());
                        None
                    }
                }
            }
        }
    }

    /// Begins an act in this tab.
    pub(super) fn act_begins(&mut self, tab: Option<String>) {
        self.acted = tab.into_iter().collect();
        self.failed = None;
    }

    /// Notes a tab that a page has opened. One whose opener nobody knows counts as opened by the act.
    pub(super) fn opened_by(&mut self, target: &str, opener: Option<&String>) {
        if opener.is_none_or(|opener| self.acted.contains(opener)) {
            self.acted.insert(target.to_owned());
        }
    }

    /// Notes a tab that is closed as soon as it opens. No request of it may reach the network.
    pub(super) fn tab_unwanted(&mut self, target: String) {
        if self.unwanted_tabs.len() == REMEMBERED_TABS {
            self.unwanted_tabs.pop_front();
        }
        self.unwanted_tabs.push_back(target);
    }

    pub(super) fn navigation_began(&mut self, session: &str, frame: &str, loader: String) {
        if let Some(tab) = self.tab_of_session(session).filter(|tab| tab.target == frame) {
            tab.navigation_began(loader);
        }
    }

    pub(super) fn frame_attached(&mut self, session: &str, frame: String, parent: String) {
        let Some(tab) = self.tab_of_session(session) else { return };
        let entry = Frame::new(Some(parent), session.to_owned());
        tab.frames.insert(frame, entry);
    }

    pub(super) fn frame_removed(&mut self, session: &str, frame: &str) {
        if let Some(tab) = self.tab_of_session(session) {
            tab.remove_below(frame);
            tab.frames.remove(frame);
        }
    }

    /// What a tab shows that was attached to only after it had begun to load.
    pub(super) fn frames_found(&mut self, session: &str, tree: FrameTree) {
        let Some(tab) = self.tab_of_session(session) else { return };
        // A later document has come meanwhile.
        if tab.document.number > 0 || tab.target != tree.frame.id {
            return;
        }
        if !matches!(tree.frame.url.as_str(), "" | "about:blank") {
            self.frame_navigated(session, tree.frame, false);
        }
        let Some(tab) = self.tab_of_session(session) else { return };
        tab.frames_below(session, tree.child_frames);
    }

    /// A frame has another document. One that was `restored` is loaded already, and nothing says so any more.
    pub(super) fn frame_navigated(&mut self, session: &str, frame: FrameDescription, restored: bool) {
        let Some(tab) = self.tab_of_session(session) else { return };
        tab.remove_below(&frame.id);
        if frame.id != tab.target {
            return;
        }
        let status =
            tab.answer.as_ref().filter(|(loader, _)| *loader == frame.loader_id).map(|answer| answer.1);
        tab.document = Document {
            number: tab.document.number + 1,
            loader: frame.loader_id,
            reached: if restored { Reached::Load } else { Reached::Commit },
            unreachable: frame.unreachable_url.clone(),
        };
        tab.origin.clone_from(&frame.security_origin);
        let target = tab.target.clone();
        let failed = tab.failed_document();
        if self.is_current(&target) || self.acted.contains(&target) {
            match failed {
                Some(failed) => self.failed = Some((target.clone(), failed)),
                None => self.failed = self.failed.take().filter(|(tab, _)| *tab != target),
            }
        }
        if frame.unreachable_url.is_none() && frame.security_origin.starts_with("http") {
            self.origins.insert(frame.security_origin);
        }
        if self.is_current(&target) {
            self.changes.navigated(status);
        }
    }

    pub(super) fn lifecycle(&mut self, session: &str, event: &LifecycleEvent) {
        let reached = match event.name.as_str() {
            "DOMContentLoaded" => Reached::Dom,
            "load" => Reached::Load,
            _ => return,
        };
        let Some(tab) = self.tab_of_session(session) else { return };
        if event.frame_id != tab.target {
            return;
        }
        // Before its first navigation a tab has a document, and no event reports its commit.
        if tab.document.number == 0 {
            tab.document.loader.clone_from(&event.loader_id);
        }
        if tab.document.loader == event.loader_id {
            tab.document.reached = tab.document.reached.max(reached);
        }
    }

    /// A request by a script, or that for a frame's document, was answered with 401; that of another origin says nothing about
    /// the page, and the status of a tab's own document is kept with it.
    pub(super) fn unauthorized(&mut self, session: &str, received: ResponseReceived) {
        if received.kind == "Document" && self.tab(&received.frame_id).is_some() {
            return;
        }
        let url = received.response.url;
        let Some(tab) = self.tab_of_session(session) else { return };
        let origin = Url::parse(&url).map(|url| url.origin().ascii_serialization());
        let is_own = origin.is_ok_and(|origin| origin == tab.origin);
        let target = tab.target.clone();
        if is_own && self.is_current(&target) {
            self.changes.unauthorized(url);
        }
    }

    pub(super) fn moved_within_document(&mut self, session: &str, frame: &str) {
        let Some(tab) = self.tab_of_session(session) else { return };
        if tab.target == frame {
            tab.same_document += 1;
            if self.is_current(frame) {
                self.changes.moved();
            }
        }
    }

    pub(super) fn context_created(&mut self, session: &str, frame: &str, context: String, number: i64) {
        if let Some(frame) = self.tab_of_session(session).and_then(|tab| tab.frames.get_mut(frame))
            && frame.session == session
        {
            frame.context = Some(context);
            frame.context_number = number;
        }
    }

    pub(super) fn context_destroyed(&mut self, session: &str, context: &str) {
        let Some(tab) = self.tab_of_session(session) else { return };
        for frame in tab.frames.values_mut() {
            if frame.context.as_deref() == Some(context) {
                frame.context = None;
            }
        }
    }

    pub(super) fn contexts_cleared(&mut self, session: &str) {
        let Some(tab) = self.tab_of_session(session) else { return };
        for frame in tab.frames.values_mut().filter(|frame| frame.session == session) {
            frame.context = None;
        }
    }
}

/// The state, and a way to wait for its changes.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    state: Arc<Mutex<State>>,
    version: watch::Sender<u64>,
}

impl Shared {
    pub(super) fn new(state: State) -> Self {
        Self { state: Arc::new(Mutex::new(state)), version: watch::Sender::new(0) }
    }

    /// The state, for reading; changes go through [`Shared::change`].
    pub(super) fn read(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.read());
        self.version.send_modify(|version| *version += 1);
        result
    }

    /// Rises with every change.
    pub(super) fn version(&self) -> u64 {
        *self.version.borrow()
    }

    /// Waits until the state has changed since `version`.
    pub(super) async fn changed_since(&self, version: u64) {
        // The sender lives as long as this.
        let _ = self.version.subscribe().wait_for(|now| *now != version).await;
    }

    /// Waits until `found` finds something.
    pub(super) async fn find<T>(&self, mut found: impl FnMut(&State) -> Option<T>) -> T {
        let mut versions = self.version.subscribe();
        loop {
            versions.borrow_and_update();
            if let Some(result) = found(&self.read()) {
                return result;
            }
            // The sender lives as long as this.
            let _ = versions.changed().await;
        }
    }

    /// As [`Shared::find`]; `None` if that takes longer than `limit`.
    pub(super) async fn find_within<T>(
        &self,
        limit: Duration,
        found: impl FnMut(&State) -> Option<T>,
    ) -> Option<T> {
        within(limit, self.find(found)).await
    }
}
