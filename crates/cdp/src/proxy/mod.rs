//! The floor below every other rule about where a browser may connect: a SOCKS5 proxy of our own that all of its
//! connections go through, and that makes only those that a rule allows.
//!
//! Whatever opens a connection, a document, a worker, a WebSocket or a redirect, and whether it names a host or an
//! address, arrives here as a host and a port. Names are looked up here and nowhere else. UDP is not carried.
//!
//! The proxy listens on a loopback address only. It asks nobody who they are: another user of this machine can use it to
//! reach what the rule allows.

mod handshake;

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream, lookup_host};
use tokio::sync::{Semaphore, broadcast};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;

use crate::patience::within;
use handshake::{Answer, Handshake};

/// Most connections at a time; further ones wait to be accepted. A browser opens at most a few hundred.
pub const CONNECTIONS: usize = 512;

/// Refusals that a subscriber may leave unread before it misses some.
pub const REFUSALS: usize = 256;

/// Longest wait for the browser to say where it wants to go.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);

/// Longest wait for the name's lookup and the connection together.
const CONNECT_LIMIT: Duration = Duration::from_secs(30);

/// Pause after the system refused to accept a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Where a connection is to go, in one spelling: names in lower case and without a final dot, addresses in their
/// canonical form without brackets, IPv4 addresses within IPv6 as IPv4.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Destination {
    pub host: String,
    pub port: u16,
}

impl Destination {
    fn new(host: &str, port: u16) -> Self {
        let host = host.strip_suffix('.').unwrap_or(host);
        let unbracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let host = match unbracketed.parse::<IpAddr>() {
            Ok(address) => address.to_canonical().to_string(),
            Err(_) => host.to_ascii_lowercase(),
        };
        Self { host, port }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

/// A running proxy. Dropping it ends the listener and every connection through it.
#[derive(Debug)]
pub struct Floor {
    address: SocketAddr,
    refused: broadcast::Sender<Destination>,
    serving: AbortHandle,
}

impl Floor {
    /// Starts a proxy on a free port of 127.0.0.1. `allows` is asked for each connection, before any lookup; it must
    /// answer at once. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// No port can be had.
    pub async fn start(allows: impl Fn(&Destination) -> bool + Send + Sync + 'static) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (refused, _) = broadcast::channel(REFUSALS);
        let rules = Rules { allows: Arc::new(allows), refused: refused.clone() };
        let serving = tokio::spawn(serve(listener, rules)).abort_handle();
        Ok(Self { address, refused, serving })
    }

    /// The address of the proxy, for [`LaunchOptions::proxy`](crate::LaunchOptions::proxy).
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The destinations that are refused from now on. A subscriber that falls behind by more than [`REFUSALS`] is told
    /// how many it missed.
    pub fn refused(&self) -> broadcast::Receiver<Destination> {
        self.refused.subscribe()
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

#[derive(Clone)]
struct Rules {
    allows: Arc<dyn Fn(&Destination) -> bool + Send + Sync>,
    refused: broadcast::Sender<Destination>,
}

async fn serve(listener: TcpListener, rules: Rules) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    // The connections end with this task.
    let mut connections = JoinSet::new();
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        match accepted {
            Ok((browser, _)) => {
                let rules = rules.clone();
                connections.spawn(async move {
                    // A connection that breaks concerns the browser alone, which notices it.
                    let _ = connect(browser, &rules).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "the browser's proxy cannot accept a connection");
                // Usually there are too many open files, which are given back in a while.
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// One connection from its handshake to its end.
async fn connect(mut browser: TcpStream, rules: &Rules) -> io::Result<()> {
    browser.set_nodelay(true)?;
    let destination = match within(HANDSHAKE_LIMIT, handshake::receive(&mut browser)).await {
        Some(Ok(Handshake::Connect(destination))) => destination,
        Some(Ok(Handshake::Refuse(answer))) => return answer.send(&mut browser).await,
        Some(Err(error)) => return Err(error),
        None => return Err(io::ErrorKind::TimedOut.into()),
    };
    if !(rules.allows)(&destination) {
        // Nobody may be listening.
        let _ = rules.refused.send(destination);
        return Answer::NotAllowed.send(&mut browser).await;
    }
    let mut server = match within(CONNECT_LIMIT, reach(&destination)).await {
        Some(Ok(server)) => server,
        Some(Err(answer)) => return answer.send(&mut browser).await,
        None => return Answer::HostUnreachable.send(&mut browser).await,
    };
    server.set_nodelay(true)?;
    Answer::Connected.send(&mut browser).await?;
    copy_bidirectional(&mut browser, &mut server).await.map(drop)
}

/// Looks the name up and tries each of its addresses in turn.
async fn reach(Destination { host, port }: &Destination) -> Result<TcpStream, Answer> {
    let addresses: Vec<SocketAddr> =
        lookup_host((host.as_str(), *port)).await.map_err(|_| Answer::HostUnreachable)?.collect();
    TcpStream::connect(&*addresses).await.map_err(|error| Answer::of(&error))
}

#[cfg(test)]
mod tests {
    use super::Destination;

    #[track_caller]
    fn check(host: &str, expected: &str) {
        assert_eq!(Destination::new(host, 80).to_string(), expected);
    }

    #[test]
    fn a_destination_has_one_spelling() {
        check("Example.COM", "example.com:80");
        check("example.com.", "example.com:80");
        check("127.0.0.1", "127.0.0.1:80");
        check("::1", "[::1]:80");
        check("[::1]", "[::1]:80");
        check("0:0:0:0:0:0:0:1", "[::1]:80");
        check("::ffff:127.0.0.1", "127.0.0.1:80");
        // No address, so a name that a rule does not know.
        check("127.1", "127.1:80");
    }
}
