//! The port: how many connections there are, how long one may say nothing at its beginning, and how one ends that others
//! must not wait for.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_stream::Stream;
use tonic::transport::server::Connected;

use crate::patience::Patience;
use crate::waiting::Life;

/// Connections at once, where the process may have enough files open.
const MAX_CONNECTIONS: usize = 16_384;
/// How long a new connection may take to say what every client says first.
const GREETING: Duration = Duration::from_secs(10);
/// The bytes that every client of HTTP/2 begins with, of whatever kind they are.
const GREETING_BYTES: usize = 24;
/// How long nothing is accepted when the process has no more files.
const NO_FILES: Duration = Duration::from_millis(100);
/// SETTINGS, and GOAWAY with ENHANCE_YOUR_CALM: what a client of HTTP/2 understands as a refusal.
const REFUSAL: &[u8] = b"\0\0\0\x04\0\0\0\0\0\0\0\x1c\x07\0\0\0\0\0\0\0\0\0\0\0\0\x0btoo many connections";

/// Accepts connections as long as there is room for them; sends others away at once.
#[derive(Debug)]
pub(crate) struct Listener {
    listener: TcpListener,
    places: Arc<Semaphore>,
    /// Not before then.
    resumes: Option<Pin<Box<Sleep>>>,
    /// The number of connections in a row that were sent away.
    refused: u64,
}

impl Listener {
    pub(crate) fn new(listener: TcpListener) -> Self {
        Self::with_places(listener, places(getrlimit(Resource::Nofile).current))
    }

    fn with_places(listener: TcpListener, places: usize) -> Self {
        Self { listener, places: Arc::new(Semaphore::new(places)), resumes: None, refused: 0 }
    }

    /// What to do with a connection that has come.
    fn take(&mut self, stream: TcpStream, from: SocketAddr) -> Option<Connection> {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            if self.refused == 0 {
                tracing::warn!(%from, "there are too many connections: further ones are sent away");
            }
            self.refused = self.refused.saturating_add(1);
            // A new connection has room for this much. Where it has not, it is closed without a word.
            let _ = stream.try_write(REFUSAL);
            return None;
        };
        if self.refused > 0 {
            tracing::info!(refused = self.refused, "connections are accepted again");
            self.refused = 0;
        }
        // Answers are not held back for more to come.
        let _ = stream.set_nodelay(true);
        let greeting = Some((GREETING_BYTES, Patience::new(GREETING)));
        Some(Connection { stream, life: Arc::default(), greeting, _place: place })
    }
}

/// Half of the files that the process may have open: the other half is for the database, blobs, commands and browsers.
fn places(files: Option<u64>) -> usize {
    let files = files.and_then(|files| usize::try_from(files).ok()).unwrap_or(usize::MAX);
    (files / 2).clamp(1, MAX_CONNECTIONS)
}

impl Stream for Listener {
    type Item = io::Result<Connection>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(resumes) = &mut self.resumes {
                std::task::ready!(resumes.as_mut().poll(context));
                self.resumes = None;
            }
            match std::task::ready!(self.listener.poll_accept(context)) {
                Ok((stream, from)) => {
                    if let Some(connection) = self.take(stream, from) {
                        return Poll::Ready(Some(Ok(connection)));
                    }
                }
                // Of one connection, or of a process without files: the next try may do better, and not at once.
                Err(error) => {
                    tracing::warn!(%error, "a connection was not accepted");
                    self.resumes = Some(Box::pin(sleep_until(Instant::now() + NO_FILES)));
                }
            }
        }
    }
}

/// A client's connection.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    life: Arc<Life>,
    /// Bytes that are still to come, and for how long.
    greeting: Option<(usize, Patience)>,
    _place: OwnedSemaphorePermit,
}

impl Connection {
    fn greeted(&mut self, bytes: usize) {
        self.greeting = self.greeting.take().and_then(|(missing, patience)| {
            let missing = missing.saturating_sub(bytes);
            (missing > 0).then_some((missing, patience))
        });
    }
}

impl Connected for Connection {
    type ConnectInfo = Arc<Life>;

    fn connect_info(&self) -> Arc<Life> {
        Arc::clone(&self.life)
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.life.is_over(context.waker()) {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let bytes = buffer.filled().len().saturating_sub(before);
        self.greeted(bytes);
        if read.is_pending()
            && let Some((_, patience)) = &mut self.greeting
            && Pin::new(patience).poll(context).is_ready()
        {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.life.is_over(context.waker()) {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.life.is_over(context.waker()) {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.life.is_over(context.waker()) {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio_stream::StreamExt;

    use super::*;

    async fn listening(places: usize) -> (Listener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        (Listener::with_places(listener, places), address)
    }

    #[test]
    fn connections_take_half_of_the_files_at_most() {
        assert_eq!(places(Some(1_024)), 512);
        assert_eq!(places(Some(1)), 1);
        assert_eq!(places(Some(1 << 40)), MAX_CONNECTIONS);
        assert_eq!(places(None), MAX_CONNECTIONS);
    }

    #[tokio::test]
    async fn one_connection_too_many_is_told_so_and_the_next_one_comes_in_when_another_has_gone() {
        let (mut listener, address) = listening(1).await;
        let _first_client = TcpStream::connect(address).await.unwrap();
        let first = listener.next().await.unwrap().unwrap();
        let mut refused = TcpStream::connect(address).await.unwrap();
        let waiting = tokio::spawn(async move { listener.next().await.unwrap().unwrap() });
        let mut told = Vec::new();
        refused.read_to_end(&mut told).await.unwrap();
        assert_eq!(told, REFUSAL);
        // The frame's length is that of two numbers and the text.
        assert_eq!(told.get(11), u8::try_from(8 + "too many connections".len()).ok().as_ref());
        drop(first);
        let _third_client = TcpStream::connect(address).await.unwrap();
        waiting.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn who_says_nothing_is_sent_away_and_who_has_greeted_stays() {
        let (mut listener, address) = listening(2).await;
        let mut silent = TcpStream::connect(address).await.unwrap();
        let mut half = listener.next().await.unwrap().unwrap();
        silent.write_all(&[0; GREETING_BYTES - 1]).await.unwrap();
        let mut buffer = [0; 64];
        assert_eq!(half.read(&mut buffer).await.unwrap(), GREETING_BYTES - 1);
        assert_eq!(half.read(&mut buffer).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        let mut greets = TcpStream::connect(address).await.unwrap();
        let mut whole = listener.next().await.unwrap().unwrap();
        greets.write_all(&[0; GREETING_BYTES]).await.unwrap();
        assert_eq!(whole.read(&mut buffer).await.unwrap(), GREETING_BYTES);
        let waits = tokio::time::timeout(100 * GREETING, whole.read(&mut buffer)).await;
        assert!(waits.is_err(), "it may be quiet for as long as it likes");
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_greeted_while_the_daemon_stood_still_stays() {
        let (mut listener, address) = listening(1).await;
        let mut client = TcpStream::connect(address).await.unwrap();
        let mut connection = listener.next().await.unwrap().unwrap();
        let mut buffer = [0; 64];
        let stall = async {
            tokio::time::sleep(GREETING / 2).await;
            tokio::time::advance(GREETING).await;
            // It is read a little later.
            tokio::time::sleep(Duration::from_millis(50)).await;
            client.write_all(&[0; GREETING_BYTES]).await.unwrap();
        };
        let (read, ()) = tokio::join!(biased; connection.read(&mut buffer), stall);
        assert_eq!(read.unwrap(), GREETING_BYTES);
    }
}
