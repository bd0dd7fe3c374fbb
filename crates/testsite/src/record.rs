//! What came to the site, and who waits for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::watch;

/// Requests that are kept whole. Those beyond are counted.
const KEPT: usize = 10_000;

/// The one of the two hosts that was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Host {
    /// `http://127.0.0.1:PORT`, where tests begin.
    First,
    /// `http://localhost:OTHER`, another site by its name and its port.
    Other,
}

/// One request as it came.
#[derive(Clone, Debug)]
pub struct Request {
    pub host: Host,
    pub method: String,
    /// Without the query, as it was sent: `/sign-in`.
    pub path: String,
    pub query: Option<String>,
    /// The headers in their order; names in lower case, and replacement characters where a value is not UTF-8.
    pub headers: Vec<(String, String)>,
    /// At most 1 MiB of it.
    pub body: Bytes,
}

impl Request {
    /// The first header of this name, which is in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// The first parameter of this name in the query.
    pub(crate) fn parameter(&self, name: &str) -> Option<String> {
        fields(self.query.as_deref().unwrap_or_default().as_bytes())
            .into_iter()
            .find_map(|(found, value)| (found == name).then_some(value))
    }

    /// The fields of a form in the body, in their order.
    pub(crate) fn form(&self) -> Vec<(String, String)> {
        fields(&self.body)
    }

    /// The value of the cookie.
    pub(crate) fn cookie(&self, name: &str) -> Option<&str> {
        let pairs = self.header("cookie")?.split("; ").filter_map(|pair| pair.split_once('='));
        pairs.into_iter().find_map(|(found, value)| (found == name).then_some(value))
    }
}

fn fields(encoded: &[u8]) -> Vec<(String, String)> {
    url::form_urlencoded::parse(encoded).into_owned().collect()
}

/// Everything that the site counts.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub requests: Vec<Arc<Request>>,
    pub hits: BTreeMap<(Host, String), usize>,
    pub connections: BTreeMap<Host, usize>,
    pub datagrams: BTreeMap<Host, usize>,
    /// True if answers that wait for `Site::release` may go on.
    pub released: bool,
}

impl Seen {
    pub fn hits(&self, host: Host, path: &str) -> usize {
        self.hits.get(&(host, path.to_owned())).copied().unwrap_or_default()
    }

    /// Requests, connections and datagrams together.
    pub fn signs(&self, host: Host) -> usize {
        let requests = self.hits.iter().filter(|((found, _), _)| *found == host).map(|(_, count)| count);
        let others =
            [&self.connections, &self.datagrams].map(|map| map.get(&host).copied().unwrap_or_default());
        requests.chain(&others).sum()
    }
}

/// Shared by all connections.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    seen: watch::Sender<Seen>,
}

impl Record {
    pub fn new() -> Self {
        Self { seen: watch::Sender::new(Seen::default()) }
    }

    pub fn request(&self, request: Arc<Request>) {
        self.seen.send_modify(|seen| {
            *seen.hits.entry((request.host, request.path.clone())).or_default() += 1;
            if seen.requests.len() < KEPT {
                seen.requests.push(request);
            }
        });
    }

    pub fn connection(&self, host: Host) {
        self.seen.send_modify(|seen| *seen.connections.entry(host).or_default() += 1);
    }

    pub fn datagram(&self, host: Host) {
        self.seen.send_modify(|seen| *seen.datagrams.entry(host).or_default() += 1);
    }

    pub fn release(&self) {
        self.seen.send_modify(|seen| seen.released = true);
    }

    pub fn read<T>(&self, read: impl FnOnce(&Seen) -> T) -> T {
        read(&self.seen.borrow())
    }

    /// Waits until the condition holds.
    pub async fn until(&self, condition: impl Fn(&Seen) -> bool) {
        // The sender is ours, so the channel is never closed.
        let _ = self.seen.subscribe().wait_for(|seen| condition(seen)).await;
    }
}
