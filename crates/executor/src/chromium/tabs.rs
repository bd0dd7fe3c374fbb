//! Getting a tab, or an iframe with a process of its own, ready before anything in it runs.

use std::sync::Arc;

use capataz_cdp::{Connection, Done, Session};
use serde::Serialize;
use serde_json::{Value, json};

use super::context::Context;
use super::requests::patterns;

/// Most tabs of one run. A page that opens more has them closed.
pub(super) const TABS_LIMIT: usize = 20;

/// Name of the world in which our script lives: the page's own scripts cannot see it.
pub(super) const WORLD: &str = "capataz";

/// How each tab is set up.
#[derive(Clone, Debug)]
pub(super) struct TabSetup {
    pub width: u32,
    pub height: u32,
    pub locale: String,
    /// An IANA time zone.
    pub timezone: String,
    pub context: Context,
    /// The script for each document.
    pub script: Arc<str>,
}

impl TabSetup {
    /// Sends what a new tab needs, and lets it run. Nothing is waited for: the browser carries commands out in order.
    pub(super) fn prepare_tab(&self, session: &Session) {
        self.prepare_frame(session);
        let size =
            json!({ "width": self.width, "height": self.height, "deviceScaleFactor": 1, "mobile": false });
        send(session, "Page.setLifecycleEventsEnabled", json!({ "enabled": true }));
        send(session, "Inspector.enable", ());
        if self.context.is_part() {
            // A browser of our own is started without them.
            send(session, "Page.setPrerenderingAllowed", json!({ "isAllowed": false }));
        }
        send(session, "Emulation.setDeviceMetricsOverride", size);
        send(session, "Runtime.runIfWaitingForDebugger", ());
    }

    /// The same for an iframe.
    pub(super) fn prepare_iframe(&self, session: &Session) {
        self.prepare_frame(session);
        send(session, "Runtime.runIfWaitingForDebugger", ());
    }

    /// A worker is attached to because of its WebSockets, and because it would wait for ever otherwise.
    pub(super) fn prepare_worker(&self, session: &Session) {
        self.guard(session);
        prepare_network(session);
        send(session, "Runtime.runIfWaitingForDebugger", ());
    }

    /// Turns the gate on for a target beside which there are others that are none of ours, and makes up for what a browser
    /// of our own is told at its start.
    pub(super) fn guard(&self, session: &Session) {
        if !self.context.is_part() {
            return;
        }
        send(session, "Fetch.enable", patterns());
        // Without a name of its own, the browser keeps the one that it has.
        let language = json!({ "userAgent": "", "acceptLanguage": self.locale });
        send(session, "Emulation.setUserAgentOverride", language);
        send(session, "Emulation.setTimezoneOverride", json!({ "timezoneId": self.timezone }));
    }

    fn prepare_frame(&self, session: &Session) {
        self.guard(session);
        send(session, "Page.enable", ());
        send(session, "Runtime.enable", ());
        let script = json!({ "source": &*self.script, "worldName": WORLD, "runImmediately": true });
        send(session, "Page.addScriptToEvaluateOnNewDocument", script);
        prepare_network(session);
        send(session, "Target.setAutoAttach", auto_attach());
        // A tab in the background is to behave as the one in front.
        send(session, "Emulation.setFocusEmulationEnabled", json!({ "enabled": true }));
        // The browser refuses this where the process has the script already.
        send(session, "Emulation.setLocaleOverride", json!({ "locale": self.locale }));
    }
}

/// The events of the network are needed for WebSockets alone, so bodies are not kept.
fn prepare_network(session: &Session) {
    let buffers = json!({ "maxTotalBufferSize": 0, "maxResourceBufferSize": 0, "maxPostDataSize": 0 });
    send(session, "Network.enable", buffers);
}

/// All new targets are attached to, and wait until they are set up. A filter would leave some of them waiting for ever.
fn auto_attach() -> Value {
    json!({ "autoAttach": true, "waitForDebuggerOnStart": true, "flatten": true })
}

/// As [`auto_attach`], for the browser: for tabs alone.
pub(super) fn auto_attach_tabs() -> Value {
    let mut params = auto_attach();
    params["filter"] = json!([{ "type": "page" }]);
    params
}

/// The kinds of targets that nothing else tells of where only some of the browser's targets are ours.
pub(super) fn discover_ours() -> Value {
    json!({ "discover": true, "filter": [{ "type": "page" }, { "type": "shared_worker" }] })
}

/// Sends a command whose answer does not matter.
pub(super) fn send(session: &Session, method: &'static str, params: impl Serialize) {
    drop(session.send::<Done>(method, params));
}

/// Closes a tab.
pub(super) fn close(connection: &Connection, target: &str) {
    send(&connection.browser(), "Target.closeTarget", json!({ "targetId": target }));
}
