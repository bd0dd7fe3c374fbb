//! The changes of a page since they were last taken.

use capataz_contracts::v1;

/// Most entries of each kind that are kept: a page may open dialogs and send requests without end.
const LIMIT: usize = 100;

#[derive(Debug, Default)]
pub(super) struct Changes(v1::PageChanges);

impl Changes {
    pub(super) fn take(&mut self) -> v1::PageChanges {
        let mut changes = std::mem::take(&mut self.0);
        if changes.navigation() == v1::NavigationKind::Unspecified {
            changes.set_navigation(v1::NavigationKind::None);
        }
        changes
    }

    /// The outermost frame has a new document.
    pub(super) fn navigated(&mut self, status: Option<u32>) {
        self.0.set_navigation(v1::NavigationKind::Document);
        self.0.status = status;
    }

    /// The URL has changed within the same document.
    pub(super) fn moved(&mut self) {
        if self.0.navigation() != v1::NavigationKind::Document {
            self.0.set_navigation(v1::NavigationKind::SameDocument);
        }
    }

    pub(super) fn redirected(&mut self, url: String) {
        push(&mut self.0.redirects, url);
    }

    /// A request of the page to its own origin was answered with 401.
    pub(super) fn unauthorized(&mut self, url: String) {
        push(&mut self.0.unauthorized, url);
    }

    pub(super) fn dialog(&mut self, dialog: v1::DialogRecord) {
        push(&mut self.0.dialogs, dialog);
    }

    pub(super) fn new_tab(&mut self, url: String) {
        push(&mut self.0.new_tabs, url);
    }

    /// A request that is refused several times, at its beginning and at its end or because the page repeats it, is
    /// listed once.
    pub(super) fn blocked(&mut self, request: v1::BlockedRequest) {
        if !self.0.blocked.contains(&request) {
            push(&mut self.0.blocked, request);
        }
    }

    /// Notes a connection that the floor refused. The browser repeats such connections, and some are known already as
    /// requests; neither is listed a second time.
    pub(super) fn blocked_connection(&mut self, host: &str, port: u16) {
        let known = self.0.blocked.iter().any(|request| same_host(request, host, port));
        if !known {
            let url = String::new();
            let kind = "connection".to_owned();
            push(&mut self.0.blocked, v1::BlockedRequest { url, host: format!("{host}:{port}"), kind });
        }
    }
}

fn same_host(request: &v1::BlockedRequest, host: &str, port: u16) -> bool {
    if request.host == format!("{host}:{port}") {
        return true;
    }
    let url = url::Url::parse(&request.url).ok();
    let seen = url.as_ref().and_then(|url| Some((url.host_str()?, url.port_or_known_default()?)));
    seen.is_some_and(|(seen_host, seen_port)| seen_host.trim_matches(['[', ']']) == host && seen_port == port)
}

fn push<T>(list: &mut Vec<T>, entry: T) {
    if list.len() < LIMIT {
        list.push(entry);
    }
}
