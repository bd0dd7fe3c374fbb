//! Sockets, and what comes through them made a [`Request`].

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinSet;

use crate::answer::Addresses;
use crate::record::{Host, Record, Request};
use crate::routes;

/// The largest body that is read; a request with a larger one is cut off.
const BODY_LIMIT: usize = 64 * 1024 * 1024;

/// How many bytes of a body are kept.
const BODY_KEPT: usize = 1024 * 1024;

/// How often another port is tried when the one that we got is taken at the other family's address.
const BIND_ATTEMPTS: usize = 20;

/// The sockets of one host: the same port at `127.0.0.1` and, where the machine has it, at `::1`.
pub(crate) struct Sockets {
    pub port: u16,
    listeners: Vec<TcpListener>,
    datagrams: Vec<UdpSocket>,
}

impl Sockets {
    /// With UDP beside TCP, so that it is seen who comes that way.
    pub async fn bind() -> io::Result<Self> {
        let mut last = io::Error::other("no port was tried");
        for _ in 0..BIND_ATTEMPTS {
            match Self::bind_once().await {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => last = error,
                outcome => return outcome,
            }
        }
        Err(last)
    }

    async fn bind_once() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let mut listeners = vec![listener];
        let mut datagrams = vec![UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).await?];
        let v6 = IpAddr::from(Ipv6Addr::LOCALHOST);
        match TcpListener::bind((v6, port)).await {
            Ok(listener) => {
                listeners.push(listener);
                datagrams.push(UdpSocket::bind((v6, port)).await?);
            }
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Err(error),
            // There is no such address on this machine.
            Err(_) => {}
        }
        Ok(Self { port, listeners, datagrams })
    }

    /// Serves until the tasks are aborted.
    pub fn serve(self, host: Host, addresses: Addresses, record: &Record, tasks: &mut JoinSet<()>) {
        for listener in self.listeners {
            tasks.spawn(accept(listener, host, addresses, record.clone()));
        }
        for socket in self.datagrams {
            tasks.spawn(count_datagrams(socket, host, record.clone()));
        }
    }
}

async fn count_datagrams(socket: UdpSocket, host: Host, record: Record) {
    let mut buffer = [0; 64];
    while socket.recv_from(&mut buffer).await.is_ok() {
        record.datagram(host);
    }
}

/// The connections end with this task.
async fn accept(listener: TcpListener, host: Host, addresses: Addresses, record: Record) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { return };
                record.connection(host);
                connections.spawn(serve(stream, host, addresses, record.clone()));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(stream: TcpStream, host: Host, addresses: Addresses, record: Record) {
    let service = service_fn(|request| {
        let record = record.clone();
        async move {
            let request = Arc::new(read(request, host).await?);
            record.request(request.clone());
            routes::answer(&request, addresses, &record).await
        }
    });
    // How a connection ends is the client's business: breaking off is what some pages are for.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn read(request: hyper::Request<Incoming>, host: Host) -> io::Result<Request> {
    let (parts, body) = request.into_parts();
    let body: Bytes = Limited::new(body, BODY_LIMIT).collect().await.map_err(io::Error::other)?.to_bytes();
    let header = |(name, value): (&hyper::header::HeaderName, &hyper::header::HeaderValue)| {
        (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    Ok(Request {
        host,
        method: parts.method.to_string(),
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().map(str::to_owned),
        headers: parts.headers.iter().map(header).collect(),
        body: body.slice(..body.len().min(BODY_KEPT)),
    })
}
