//! A loopback proxy in front of the daemon, so that connections can be cut in the middle of anything.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

use crate::Outcome;

/// Forwards connections until it is dropped.
#[derive(Debug)]
pub(crate) struct Proxy {
    address: SocketAddr,
    connections: Arc<Mutex<Vec<AbortHandle>>>,
    accepting: AbortHandle,
}

impl Proxy {
    pub(crate) async fn start(daemon: SocketAddr) -> Outcome<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let connections = Arc::new(Mutex::new(Vec::new()));
        let accepting = tokio::spawn(accept(listener, daemon, Arc::clone(&connections))).abort_handle();
        Ok(Self { address, connections, accepting })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Cuts each connection with the given chance; how many were cut.
    pub(crate) fn cut(&self, rng: &mut fastrand::Rng, percent: u32) -> u64 {
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        connections.retain(|connection| !connection.is_finished());
        let mut count = 0;
        for connection in connections.iter() {
            if rng.u32(0..100) < percent {
                connection.abort();
                count += 1;
            }
        }
        count
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, daemon: SocketAddr, connections: Arc<Mutex<Vec<AbortHandle>>>) {
    // Connections end with the proxy.
    let mut forwarding = JoinSet::new();
    loop {
        let Ok((inbound, _)) = listener.accept().await else { continue };
        let connection = forwarding.spawn(forward(inbound, daemon));
        let mut connections = connections.lock().unwrap_or_else(PoisonError::into_inner);
        connections.retain(|connection| !connection.is_finished());
        connections.push(connection);
    }
}

/// Where the daemon is away, the caller finds its connection closed.
async fn forward(mut inbound: TcpStream, daemon: SocketAddr) {
    let Ok(mut outbound) = TcpStream::connect(daemon).await else { return };
    let _ = inbound.set_nodelay(true);
    let _ = outbound.set_nodelay(true);
    let _ = tokio::io::copy_bidirectional(&mut inbound, &mut outbound).await;
}
