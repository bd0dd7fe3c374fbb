//! The task that takes the browser's events, keeps the state by them, and answers those that cannot wait: dialogs, new
//! tabs and iframes, downloads that are too large.

use capataz_cdp::{Connection, Event, EventError, Events, Session};
use capataz_contracts::v1;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::protocol::{
    AttachedToTarget, ContextCreated, ContextDestroyed, DetachedFromTarget, DialogOpening, DownloadProgress,
    DownloadWillBegin, DragIntercepted, FrameAttached, FrameDetached, FrameNavigated, FrameOnly,
    FrameTreeFound, LifecycleEvent, NavigationStarted, ResponseReceived, TargetCreated, WebSocketCreated,
    WindowOpen,
};
use super::requests::Filter;
use super::state::Shared;
use super::tabs::{TABS_LIMIT, TabSetup, WORLD, close, send};

/// The events that the task takes. Their order matters, so they are one subscription.
const EVENTS: [&str; 22] = [
    "Input.dragIntercepted",
    "Network.responseReceived",
    "Browser.downloadProgress",
    "Browser.downloadWillBegin",
    "Inspector.targetCrashed",
    "Network.webSocketCreated",
    "Page.frameAttached",
    "Page.frameDetached",
    "Page.frameNavigated",
    "Page.frameStartedNavigating",
    "Page.javascriptDialogOpening",
    "Page.lifecycleEvent",
    "Page.navigatedWithinDocument",
    "Page.windowOpen",
    "Runtime.executionContextCreated",
    "Runtime.executionContextDestroyed",
    "Runtime.executionContextsCleared",
    "Target.attachedToTarget",
    "Target.detachedFromTarget",
    "Target.targetCrashed",
    "Target.targetCreated",
    "Target.targetDestroyed",
];

/// Longest dialog text that is kept, in characters.
const DIALOG_TEXT: usize = 4096;

/// The most announced windows that have not opened.
const ASKED_WINDOWS: usize = 100;

/// How a document comes that was kept as it was when the tab left it.
const RESTORED: &str = "BackForwardCacheRestore";

const UNAUTHORIZED: u32 = 401;

#[derive(Debug)]
pub(super) struct Watcher {
    pub connection: Connection,
    pub shared: Shared,
    pub setup: TabSetup,
    pub filter: Filter,
}

impl Watcher {
    /// To be made before anything is asked of the browser.
    pub(super) fn subscribe(connection: &Connection) -> Events {
        connection.subscribe(&EVENTS)
    }

    /// Ends with the connection.
    pub(super) async fn run(self, mut events: Events) {
        let reason = loop {
            match events.next().await {
                Ok(event) => self.heard(&event),
                Err(EventError::Lost(loss)) => break loss.to_string(),
                Err(EventError::Detached) => break "its session has ended".to_owned(),
                // A missed event may have been a dialog or a new document, so the state of the page is unknown from
                // here on.
                Err(EventError::Lagged(count)) => {
                    break format!("{count} of its events came faster than they could be read");
                }
            }
        };
        self.shared.change(|state| state.lost.get_or_insert(reason).clone());
    }

    fn heard(&self, event: &Event) {
        let session = event.session.as_deref().unwrap_or_default();
        match &*event.method {
            "Target.attachedToTarget" => parse(event, |attached| self.attached(session, attached)),
            "Target.detachedFromTarget" => parse(event, |detached: DetachedFromTarget| {
                self.detached(&detached.session_id);
            }),
            "Target.targetCreated" => parse(event, |created: TargetCreated| {
                let target = created.target_info;
                // Whatever is not in our context is a person's.
                if self.setup.context.has(&target.browser_context_id) {
                    let params = json!({ "targetId": target.target_id, "flatten": true });
                    send(&self.connection.browser(), "Target.attachToTarget", params);
                }
            }),
            "Inspector.targetCrashed" => self.crashed(session),
            "Input.dragIntercepted" => parse(event, |drag: DragIntercepted| {
                self.shared.change(|state| state.dragged = Some(drag.data));
            }),
            "Page.javascriptDialogOpening" => parse(event, |dialog| self.dialog(session, dialog)),
            "Page.frameAttached" => parse(event, |frame: FrameAttached| {
                self.shared.change(|state| {
                    state.frame_attached(session, frame.frame_id, frame.parent_frame_id);
                });
            }),
            // A frame that only changes its process stays.
            "Page.frameDetached" => parse(event, |frame: FrameDetached| {
                if frame.reason != "swap" {
                    self.shared.change(|state| state.frame_removed(session, &frame.frame_id));
                }
            }),
            "Page.frameNavigated" => parse(event, |navigated: FrameNavigated| {
                self.navigated(session, navigated);
            }),
            "Page.frameStartedNavigating" => parse(event, |frame: NavigationStarted| {
                self.started_navigating(session, frame);
            }),
            "Page.navigatedWithinDocument" => parse(event, |frame: FrameOnly| {
                self.shared.change(|state| state.moved_within_document(session, &frame.frame_id));
            }),
            "Page.lifecycleEvent" => parse(event, |lifecycle: LifecycleEvent| {
                self.shared.change(|state| state.lifecycle(session, &lifecycle));
            }),
            "Page.windowOpen" => parse(event, |window: WindowOpen| {
                if self.setup.context.is_part() && !window.user_gesture {
                    return;
                }
                self.shared.change(|state| {
                    if state.asked_windows.len() < ASKED_WINDOWS {
                        state.asked_windows.push(window.url);
                    }
                });
            }),
            "Runtime.executionContextCreated" => parse(event, |created: ContextCreated| {
                let context = created.context;
                if context.name == WORLD {
                    self.shared.change(|state| {
                        let frame = &context.aux_data.frame_id;
                        state.context_created(session, frame, context.unique_id, context.id);
                    });
                }
            }),
            "Runtime.executionContextDestroyed" => parse(event, |destroyed: ContextDestroyed| {
                self.shared.change(|state| {
                    state.context_destroyed(session, &destroyed.execution_context_unique_id);
                });
            }),
            "Runtime.executionContextsCleared" => {
                self.shared.change(|state| state.contexts_cleared(session));
            }
            "Network.webSocketCreated" => parse(event, |socket: WebSocketCreated| {
                self.filter.web_socket(&self.shared, &socket.url);
            }),
            "Network.responseReceived" => parse(event, |received: ResponseReceived| {
                let counts = matches!(received.kind.as_str(), "Fetch" | "XHR" | "Document");
                if counts && received.response.status == UNAUTHORIZED {
                    self.shared.change(|state| state.unauthorized(session, received));
                }
            }),
            "Browser.downloadWillBegin" => parse(event, |began: DownloadWillBegin| {
                let guid = began.guid.clone();
                if self.shared.change(|state| state.downloads.began(began)) {
                    self.cancel_download(&guid);
                }
            }),
            "Browser.downloadProgress" => parse(event, |progress: DownloadProgress| {
                if self.shared.change(|state| state.downloads.progressed(&progress)) {
                    self.cancel_download(&progress.guid);
                }
            }),
            _ => {}
        }
    }

    fn attached(&self, parent: &str, attached: AttachedToTarget) {
        let AttachedToTarget { session_id, target_info: target } = attached;
        let session = self.connection.session(session_id.as_str());
        match target.kind.as_str() {
            "worker" | "shared_worker" | "service_worker" => self.setup.prepare_worker(&session),
            "page" if target.subtype.is_empty() => {
                let (ours, url) = self.shared.change(|state| {
                    let ours = std::mem::take(&mut state.expects_own_tab);
                    let asked = !ours && !state.asked_windows.is_empty();
                    (ours, if asked { state.asked_windows.remove(0) } else { String::new() })
                });
                // No tab of somebody else's browser waits for us: this one has begun to load.
                let late = self.setup.context.is_part() && !ours;
                let refused = match late {
                    true => self.filter.refuse_new_tab(&self.shared, &url),
                    false => self.filter.refuse_document(&self.shared, &url),
                };
                let wanted = self.shared.change(|state| {
                    let room = state.follow_new_tabs && state.tabs.len() < TABS_LIMIT;
                    let wanted = ours || (room && !refused);
                    if !ours {
                        state.opened_by(&target.target_id, target.opener_id.as_ref());
                    }
                    if wanted {
                        state.tab_opened(target.target_id.clone(), session_id);
                    } else {
                        state.tab_unwanted(target.target_id.clone());
                    }
                    if !ours {
                        state.changes.new_tab(url);
                    }
                    wanted
                });
                if wanted && late {
                    self.prepare_late(session);
                } else if wanted {
                    self.setup.prepare_tab(&session);
                } else {
                    self.setup.guard(&session);
                    close(&self.connection, &target.target_id);
                    // The page that opened the tab waits until the tab runs.
                    send(&session, "Runtime.runIfWaitingForDebugger", ());
                }
            }
            "iframe" => {
                self.shared.change(|state| {
                    state.frame_moved_out(parent, target.target_id, target.parent_frame_id, session_id);
                });
                self.setup.prepare_iframe(&session);
            }
            _ => {
                self.setup.guard(&session);
                send(&session, "Runtime.runIfWaitingForDebugger", ());
            }
        }
    }

    /// Prepares a tab of which nobody has told yet what it shows.
    fn prepare_late(&self, session: Session) {
        self.setup.guard(&session);
        send(&session, "Page.enable", ());
        // Before the answer below, which a busy page holds up.
        send(&session, "Page.setPrerenderingAllowed", json!({ "isAllowed": false }));
        let (shared, setup, filter) = (self.shared.clone(), self.setup.clone(), self.filter.clone());
        tokio::spawn(async move {
            let found = session.call::<FrameTreeFound>("Page.getFrameTree", ()).await;
            if let (Ok(found), Some(id)) = (found, session.id()) {
                // Nobody has told of the navigation that led there.
                if filter.refuse_document(&shared, &found.frame_tree.frame.url) {
                    send(&session, "Page.navigate", json!({ "url": "about:blank" }));
                }
                shared.change(|state| state.frames_found(id, found.frame_tree));
            }
            // The worlds of frames are told only now, when the frames are known.
            setup.prepare_tab(&session);
        });
    }

    fn detached(&self, session: &str) {
        if let Some(front) = self.shared.change(|state| state.session_ended(session)) {
            send(&self.connection.session(front), "Page.bringToFront", ());
        }
    }

    fn crashed(&self, session: &str) {
        self.shared.change(|state| {
            // An iframe's process may crash alone: the tab lives on.
            state.contexts_cleared(session);
            if let Some(tab) = state.tab_of_session(session)
                && tab.session == session
            {
                tab.crashed = true;
            }
        });
    }

    fn dialog(&self, session: &str, dialog: DialogOpening) {
        let (accepted, prompt) = self.shared.change(|state| {
            let accepted = state.dialogs == v1::DialogAnswer::Accept;
            let message = dialog.message.chars().take(DIALOG_TEXT).collect();
            state.changes.dialog(v1::DialogRecord { kind: dialog.kind, message, accepted });
            (accepted, state.prompt.clone())
        });
        let text = prompt.unwrap_or(dialog.default_prompt);
        let answer = json!({ "accept": accepted, "promptText": text });
        send(&self.connection.session(session), "Page.handleJavaScriptDialog", answer);
    }

    fn started_navigating(&self, session: &str, frame: NavigationStarted) {
        let tab = self.shared.change(|state| {
            state.navigation_began(session, &frame.frame_id, frame.loader_id);
            state.tabs.iter().any(|tab| tab.target == frame.frame_id)
        });
        if tab && self.filter.refuse_document(&self.shared, &frame.url) {
            send(&self.connection.session(session), "Page.stopLoading", ());
        }
    }

    fn navigated(&self, session: &str, navigated: FrameNavigated) {
        let frame = navigated.frame;
        // The navigation was refused when it began, but its document came before the loading could be stopped.
        if frame.parent_id.is_none() && self.filter.refuse_document(&self.shared, &frame.url) {
            send(&self.connection.session(session), "Page.navigate", json!({ "url": "about:blank" }));
        }
        let restored = navigated.kind == RESTORED;
        self.shared.change(|state| state.frame_navigated(session, frame, restored));
    }

    fn cancel_download(&self, guid: &str) {
        let params = self.setup.context.params(json!({ "guid": guid }));
        send(&self.connection.browser(), "Browser.cancelDownload", params);
    }
}

/// The parameters of an event; an event of an unknown shape is passed over.
fn parse<T: DeserializeOwned>(event: &Event, then: impl FnOnce(T)) {
    match event.parse() {
        Ok(params) => then(params),
        Err(error) => tracing::debug!(method = &*event.method, %error, "an event of another shape"),
    }
}
