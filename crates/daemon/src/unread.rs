//! What was answered and not read: bytes that wait in the daemon because a client does not take them.
//!
//! Whatever waits is counted until it has left, for all clients together. Where that is more than [`MAX_BYTES`], the
//! connection is closed of which nothing has left for the longest time, and for a second at least: a client that reads is
//! never the one, unless twice as much waits, as no client that reads leaves it.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use futures_util::task::AtomicWaker;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use tokio::time::Instant;

/// Bytes that may wait for all clients together. Beyond twice as many, nobody is given a second.
const MAX_BYTES: usize = 64 * 1024 * 1024;
/// Smaller pieces are not counted: a stream has more than that for itself.
const COUNTED: usize = 1024;
/// Nothing leaves for so long only to a client that does not read.
const STALLED: Duration = Duration::from_secs(1);

/// The end of a connection, from whoever decides on it to whoever reads from it and writes to it.
#[derive(Debug, Default)]
pub(crate) struct Life {
    is_over: AtomicBool,
    waker: AtomicWaker,
    /// When something left last.
    left_at: Mutex<Option<Instant>>,
}

impl Life {
    fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// Whether the connection is to be closed. Wakes whoever has asked last when it is.
    pub(crate) fn is_over(&self, waker: &Waker) -> bool {
        self.waker.register(waker);
        self.is_over.load(Ordering::Acquire)
    }

    fn left_at(&self) -> MutexGuard<'_, Option<Instant>> {
        self.left_at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All that waits.
#[derive(Clone, Debug)]
pub(crate) struct Unread {
    waiting: Arc<Mutex<Waiting>>,
    max_bytes: usize,
}

#[derive(Debug, Default)]
struct Waiting {
    /// In the order in which it began to wait.
    pieces: BTreeMap<u64, Waits>,
    next: u64,
    bytes: usize,
    /// Somebody looks again after a while.
    is_watched: bool,
}

#[derive(Debug)]
struct Waits {
    bytes: usize,
    life: Arc<Life>,
    since: Instant,
}

impl Default for Unread {
    fn default() -> Self {
        Self { waiting: Arc::default(), max_bytes: MAX_BYTES }
    }
}

impl Unread {
    /// Counts the bytes until they have left.
    fn counted(&self, bytes: Bytes, life: &Arc<Life>) -> Bytes {
        if bytes.len() < COUNTED {
            return bytes;
        }
        let mut waiting = self.lock();
        let piece = waiting.next;
        waiting.next += 1;
        waiting.bytes += bytes.len();
        let waits = Waits { bytes: bytes.len(), life: Arc::clone(life), since: Instant::now() };
        waiting.pieces.insert(piece, waits);
        let is_far_too_much = waiting.bytes > self.max_bytes.saturating_mul(2);
        let stalled = match is_far_too_much {
            true => waiting.close_down_to(self.max_bytes, Duration::ZERO),
            false => Vec::new(),
        };
        let begins = waiting.bytes > self.max_bytes && !waiting.is_watched;
        waiting.is_watched |= begins;
        drop(waiting);
        end(stalled);
        if begins {
            tokio::spawn(self.clone().watch());
        }
        Bytes::from_owner(Piece { bytes, piece, unread: self.clone() })
    }

    /// Closes connections of which nothing leaves, until no more waits than may.
    async fn watch(self) {
        loop {
            tokio::time::sleep(STALLED).await;
            let mut waiting = self.lock();
            let stalled = waiting.close_down_to(self.max_bytes, STALLED);
            waiting.is_watched = waiting.bytes > self.max_bytes;
            let goes_on = waiting.is_watched;
            drop(waiting);
            end(stalled);
            if !goes_on {
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn end(stalled: Vec<Arc<Life>>) {
    for life in stalled {
        tracing::warn!("a connection is closed that has left its answers unread for too long");
        life.end();
    }
}

impl Waiting {
    fn left(&mut self, piece: u64) {
        // What waits for a connection that is being closed is not counted any more.
        if let Some(waits) = self.pieces.remove(&piece) {
            self.bytes -= waits.bytes;
            *waits.life.left_at() = Some(Instant::now());
        }
    }

    /// The connections to be closed so that no more than so many bytes wait: those of which nothing has left for longest, and
    /// for `at_least` so long. One connection with all that waits stays: it may have asked for one large answer.
    fn close_down_to(&mut self, max_bytes: usize, at_least: Duration) -> Vec<Arc<Life>> {
        let (now, mut stalled) = (Instant::now(), Vec::new());
        while self.bytes > max_bytes {
            let mut clients: BTreeMap<*const Life, (Instant, &Arc<Life>)> = BTreeMap::new();
            for waits in self.pieces.values() {
                let begin =
                    || (waits.life.left_at().map_or(waits.since, |left| left.max(waits.since)), &waits.life);
                clients.entry(Arc::as_ptr(&waits.life)).or_insert_with(begin);
            }
            if clients.len() < 2 && self.pieces.len() < 2 {
                break;
            }
            let Some((since, life)) = clients.into_values().min_by_key(|(since, _)| *since) else { break };
            if now.saturating_duration_since(since) < at_least {
                break;
            }
            let life = Arc::clone(life);
            let bytes = &mut self.bytes;
            self.pieces.retain(|_, waits| {
                let stays = !Arc::ptr_eq(&waits.life, &life);
                *bytes -= if stays { 0 } else { waits.bytes };
                stays
            });
            stalled.push(life);
        }
        stalled
    }
}

/// Bytes that wait; dropped when they have left.
struct Piece {
    bytes: Bytes,
    piece: u64,
    unread: Unread,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.unread.lock().left(self.piece);
    }
}

/// A service whose answers are counted.
#[derive(Clone, Debug)]
pub(crate) struct Counting<S> {
    inner: S,
    unread: Unread,
}

/// Makes services count their answers.
#[derive(Clone, Debug, Default)]
pub(crate) struct CountingLayer(pub(crate) Unread);

impl<S> tower::Layer<S> for CountingLayer {
    type Service = Counting<S>;

    fn layer(&self, inner: S) -> Counting<S> {
        Counting { inner, unread: self.0.clone() }
    }
}

impl<S, B, R> tower::Service<Request<B>> for Counting<S>
where
    S: tower::Service<Request<B>, Response = Response<R>>,
    S::Future: Send + 'static,
{
    type Response = Response<CountedBody<R>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let life = request.extensions().get::<Arc<Life>>().map(Arc::clone);
        let (answering, unread) = (self.inner.call(request), self.unread.clone());
        Box::pin(async move {
            let answer = answering.await?;
            Ok(answer.map(|body| CountedBody { body, unread, life: life.unwrap_or_default() }))
        })
    }
}

/// An answer whose bytes are counted until they have left.
#[derive(Debug)]
pub(crate) struct CountedBody<B> {
    body: B,
    unread: Unread,
    life: Arc<Life>,
}

impl<B: Body<Data = Bytes> + Unpin> Body for CountedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(context));
        let counted = |frame: Frame<Bytes>| frame.map_data(|bytes| self.unread.counted(bytes, &self.life));
        Poll::Ready(frame.map(|frame| frame.map(counted)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unread(max_bytes: usize) -> Unread {
        Unread { max_bytes, ..Unread::default() }
    }

    fn is_over(life: &Life) -> bool {
        life.is_over(Waker::noop())
    }

    fn answer(unread: &Unread, life: &Arc<Life>, size: usize) -> Bytes {
        unread.counted(vec![0; size].into(), life)
    }

    #[tokio::test]
    async fn what_has_left_is_not_counted_any_more_in_whatever_pieces_it_leaves() {
        let (unread, life) = (unread(10_000), Arc::new(Life::default()));
        for _ in 0..10 {
            let mut sent = answer(&unread, &life, 9_000);
            let first = sent.split_to(1_000);
            drop(sent);
            assert_eq!(unread.lock().bytes, 9_000, "a part of it has not left");
            drop(first);
            assert_eq!(unread.lock().bytes, 0);
        }
        assert!(!is_over(&life));
    }

    #[tokio::test(start_paused = true)]
    async fn the_connection_of_which_nothing_leaves_for_longest_is_closed() {
        let unread = unread(10_000);
        let [slow, slower, reads] = [(); 3].map(|()| Arc::new(Life::default()));
        let _first = answer(&unread, &slower, 2_000);
        tokio::time::advance(STALLED).await;
        let _second = answer(&unread, &slow, 4_000);
        tokio::time::advance(STALLED).await;
        // Of the one that reads, something has waited for longer than all else, and something leaves all the time.
        let _third = answer(&unread, &slower, 2_000);
        let _oldest = answer(&unread, &reads, 3_000);
        for _ in 0..100 {
            drop(answer(&unread, &reads, 2_000));
            tokio::time::sleep(STALLED / 10).await;
            let all = [&slow, &slower, &reads].map(|life| is_over(life));
            assert!(!all[2], "it reads");
        }
        assert_eq!((is_over(&slower), is_over(&slow)), (true, false), "one of them is enough");
        assert_eq!(unread.lock().bytes, 7_000);
    }

    #[tokio::test(start_paused = true)]
    async fn much_at_once_for_clients_that_read_closes_nobody() {
        let unread = unread(10_000);
        let clients = [(); 6].map(|()| Arc::new(Life::default()));
        let answers: Vec<Bytes> = clients.iter().map(|life| answer(&unread, life, 3_000)).collect();
        assert_eq!(unread.lock().bytes, 18_000);
        drop(answers);
        tokio::time::sleep(2 * STALLED).await;
        assert!(!clients.iter().any(|life| is_over(life)));
        assert!(!unread.lock().is_watched);
    }

    #[tokio::test(start_paused = true)]
    async fn beyond_twice_what_may_wait_nobody_is_given_a_second() {
        let unread = unread(10_000);
        let clients = [(); 8].map(|()| Arc::new(Life::default()));
        let _answers: Vec<Bytes> = clients.iter().map(|life| answer(&unread, life, 3_000)).collect();
        assert!(unread.lock().bytes <= 20_000);
        let closed = clients.iter().filter(|life| is_over(life)).count();
        assert_eq!(closed, 4, "down to what may wait, when the seventh came");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_larger_than_all_that_may_wait_is_sent_all_the_same() {
        let unread = unread(10_000);
        let life = Arc::new(Life::default());
        let large = answer(&unread, &life, 30_000);
        tokio::time::sleep(3 * STALLED).await;
        assert!(!is_over(&life));
        drop(large);
        assert_eq!(unread.lock().bytes, 0);
    }

    #[tokio::test]
    async fn small_pieces_are_not_counted() {
        let (unread, life) = (unread(0), Arc::new(Life::default()));
        let _small = answer(&unread, &life, COUNTED - 1);
        assert_eq!(unread.lock().bytes, 0);
    }
}
