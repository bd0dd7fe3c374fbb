//! A proxy between a worker and the daemon, whose connections can fall silent without being closed.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// Forwards connections until it is dropped.
pub struct Proxy {
    address: SocketAddr,
    /// One for each connection so far: whether it is silent.
    connections: Arc<Mutex<Vec<watch::Sender<bool>>>>,
    accepting: AbortHandle,
}

impl Proxy {
    pub async fn start(daemon: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(Mutex::new(Vec::new()));
        let accepting = tokio::spawn(accept(listener, daemon, Arc::clone(&connections))).abort_handle();
        Self { address, connections, accepting }
    }

    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on nothing passes over the connections that are there, in neither direction, and none of them ends.
    /// New ones are not affected.
    pub fn silence(&self) {
        for connection in &*self.connections.lock().unwrap() {
            connection.send_replace(true);
        }
    }

    /// Connections so far.
    pub fn connections(&self) -> usize {
        self.connections.lock().unwrap().len()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(
    listener: TcpListener,
    daemon: SocketAddr,
    connections: Arc<Mutex<Vec<watch::Sender<bool>>>>,
) {
    loop {
        let (inbound, _) = listener.accept().await.unwrap();
        let outbound = TcpStream::connect(daemon).await.unwrap();
        let silent = watch::Sender::new(false);
        let (from_worker, to_worker) = inbound.into_split();
        let (from_daemon, to_daemon) = outbound.into_split();
        tokio::spawn(forward(from_worker, to_daemon, silent.subscribe()));
        tokio::spawn(forward(from_daemon, to_worker, silent.subscribe()));
        connections.lock().unwrap().push(silent);
    }
}

/// One direction, to its end or to its silence. A silent one keeps both of its ends open for as long as the proxy lives.
async fn forward(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut silent: watch::Receiver<bool>) {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        tokio::select! {
            biased;
            is_silent = async { silent.wait_for(|silent| *silent).await.is_ok() } => {
                if is_silent {
                    std::future::pending::<()>().await;
                }
                return;
            }
            read = from.read(&mut buffer) => match read {
                Ok(0) | Err(_) => return,
                Ok(length) => {
                    if to.write_all(&buffer[..length]).await.is_err() {
                        return;
                    }
                }
            },
        }
    }
}
