//! The adapter that drives a real Chromium behind the [`Page`](crate::page::Page) port.
//!
//! Only this module and the DevTools client know how a browser is driven. Begin with [`ChromiumBrowser::open`];
//! what the browser reports is kept in `state`, which the task in `watch` and the gate in `requests` write.

mod ahead;
mod call;
mod changes;
mod context;
mod departures;
mod downloads;
mod drag;
mod frames;
mod input;
mod launch;
mod listeners;
mod mask;
mod navigation;
mod outline;
mod page_log;
mod port;
mod press;
mod protocol;
mod requests;
mod screenshot;
pub mod script;
mod sight;
mod state;
mod storage;
mod tabs;
mod upload;
mod watch;

use std::time::Duration;

use capataz_cdp::{Backlog, Connection};
use tokio::time::Instant;

use crate::page::{Node, Offset, PageRedaction};
use ahead::{Ahead, SERVES_FOR};
use context::Context;
use frames::Place;
use outline::References;
use page_log::LogKeeper;
use requests::Filter;
use state::Shared;

pub use capataz_cdp::attach::{AttachError, Endpoint, EndpointError, NoBrowser, Running, discover};
pub use capataz_cdp::find::{FindError, Found, MINIMUM_MAJOR, chromium as find};
pub use capataz_cdp::{ShimOptions, passed_environment};
pub use downloads::{DOWNLOAD_LIMIT, DOWNLOADS_LIMIT};
pub use launch::{BrowserInfo, ChromiumBrowser, Launch, OpenError, OpenOptions, Source};
pub use storage::{OriginStorage, StorageState, StoredItem};

/// The tabs of one browser, of which one is acted on.
#[derive(Debug)]
pub struct ChromiumPage {
    connection: Connection,
    shared: Shared,
    /// Events that have arrived and are not in the state yet.
    heard: Backlog,
    filter: Filter,
    context: Context,
    redaction: PageRedaction,
    /// The element that settled last, and where: the next act on this element need not wait again.
    settled: Option<(Node, Option<Offset>, Place)>,
    /// Documents of the newest look, and how much had happened before it: what [`crate::page::Page::changed`] is about.
    looked_at: Vec<String>,
    looked_when: u64,
    references: References,
    /// When reads end that have not been answered.
    reads_until: Option<Instant>,
    /// The picture for the next act, where one was begun.
    ahead: Option<Ahead>,
    /// Longest time for which it serves.
    pictures_serve_for: Duration,
    /// Where the policy listens to the page's console.
    log: Option<LogKeeper>,
}

impl ChromiumPage {
    fn new(
        connection: Connection,
        shared: Shared,
        heard: Backlog,
        filter: Filter,
        context: Context,
        redaction: PageRedaction,
    ) -> Self {
        let looked_when = shared.version();
        Self {
            connection,
            shared,
            heard,
            filter,
            context,
            redaction,
            settled: None,
            looked_at: Vec::new(),
            looked_when,
            references: References::default(),
            reads_until: None,
            ahead: None,
            pictures_serve_for: SERVES_FOR,
            log: None,
        }
    }

    /// How many commands the browser has got so far, those of everything that goes on beside acts included.
    pub fn commands_sent(&self) -> u64 {
        self.connection.commands_sent()
    }

    /// Another hand on the same page.
    fn again(&self) -> Self {
        Self::new(
            self.connection.clone(),
            self.shared.clone(),
            self.heard.clone(),
            self.filter.clone(),
            self.context.clone(),
            self.redaction.clone(),
        )
    }
}
