//! What was answered and not read: bytes that wait in the daemon because a client does not take them.
//!
//! Whatever waits is counted until it has left, for all clients together. Beyond [`MAX_BYTES`] the connection that has left
//! something unread for the longest time is closed, and what waits for it is gone: a client that reads is never the one.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use futures_util::task::AtomicWaker;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};

/// Bytes that may wait for all clients together.
const MAX_BYTES: usize = 64 * 1024 * 1024;
/// Smaller pieces are not counted: a stream has more than that for itself.
const COUNTED: usize = 1024;

/// The end of a connection, from whoever decides on it to whoever reads from it.
#[derive(Debug, Default)]
pub(crate) struct Life {
    is_over: AtomicBool,
    waker: AtomicWaker,
}

impl Life {
    fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// Whether the connection is to be closed. Wakes whoever has asked when it is.
    pub(crate) fn is_over(&self, waker: &Waker) -> bool {
        self.waker.register(waker);
        self.is_over.load(Ordering::Acquire)
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
    pieces: BTreeMap<u64, (usize, Arc<Life>)>,
    next: u64,
    bytes: usize,
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
        waiting.pieces.insert(piece, (bytes.len(), Arc::clone(life)));
        let stalled = waiting.close_down_to(self.max_bytes);
        drop(waiting);
        for life in stalled {
            tracing::warn!("a connection is closed that has left its answers unread for too long");
            life.end();
        }
        Bytes::from_owner(Piece { bytes, piece, unread: self.clone() })
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn left(&mut self, piece: u64) {
        // What waits for a connection that is being closed is not counted any more.
        if let Some((bytes, _)) = self.pieces.remove(&piece) {
            self.bytes -= bytes;
        }
    }

    /// The connections to be closed so that no more than so many bytes wait. The newest piece stays: it may be the only one.
    fn close_down_to(&mut self, max_bytes: usize) -> Vec<Arc<Life>> {
        let mut stalled = Vec::new();
        while self.bytes > max_bytes && self.pieces.len() > 1 {
            let Some((_, (_, life))) = self.pieces.first_key_value() else { break };
            let life = Arc::clone(life);
            let bytes = &mut self.bytes;
            self.pieces.retain(|_, (size, of)| {
                let stays = !Arc::ptr_eq(of, &life);
                *bytes -= if stays { 0 } else { *size };
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

    #[test]
    fn what_has_left_is_not_counted_any_more_in_whatever_pieces_it_leaves() {
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

    #[test]
    fn the_connection_that_has_left_something_unread_for_longest_is_closed() {
        let unread = unread(10_000);
        let [slow, slower, reads] = [(); 3].map(|()| Arc::new(Life::default()));
        let _first = answer(&unread, &slower, 2_000);
        let _second = answer(&unread, &slow, 4_000);
        let _third = answer(&unread, &slower, 2_000);
        for _ in 0..100 {
            drop(answer(&unread, &reads, 2_000));
        }
        assert!(![&slow, &slower, &reads].into_iter().any(|life| is_over(life)));
        let _fourth = answer(&unread, &reads, 6_000);
        assert_eq!((is_over(&slower), is_over(&slow), is_over(&reads)), (true, false, false));
        assert_eq!(unread.lock().bytes, 10_000);
    }

    #[test]
    fn an_answer_that_is_larger_than_all_that_may_wait_is_sent_all_the_same() {
        let unread = unread(10_000);
        let (other, life) = (Arc::new(Life::default()), Arc::new(Life::default()));
        let _small = answer(&unread, &other, 2_000);
        let large = answer(&unread, &life, 20_000);
        assert_eq!((is_over(&other), is_over(&life)), (true, false));
        drop(large);
        assert_eq!(unread.lock().bytes, 0);
    }

    #[test]
    fn small_pieces_are_not_counted() {
        let (unread, life) = (unread(0), Arc::new(Life::default()));
        let _small = answer(&unread, &life, COUNTED - 1);
        assert_eq!(unread.lock().bytes, 0);
    }
}
