//! What was answered and not read: bytes that wait in the daemon because a client does not take them.
//!
//! Whatever waits is counted until it has left, for all clients together. Where that is more than [`MAX_BYTES`], the
//! connection is closed of which nothing has left for the longest time, and for a second at least: a client that reads is
//! never the one, unless twice as much waits, as no client that reads leaves it.
//!
//! What is read of the store for an answer is read for a client that takes its answers: each connection has some places for that, and
//! a place is free when the answer is on its way.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::waiting::{Budget, Life, Piece, Rule};

/// Bytes that may wait for all clients together. Beyond twice as many, nobody is given a second.
const MAX_BYTES: usize = 64 * 1024 * 1024;
/// Smaller pieces are not counted: a stream has more than that for itself.
const COUNTED: usize = 1024;

/// What the names of methods begin with whose answers are read of the store, but for that of a blob, which comes in parts.
const READS: [&str; 5] = ["Get", "List", "Render", "Replay", "Search"];

/// All that waits.
#[derive(Clone, Debug)]
pub(crate) struct Unread(Budget);

impl Default for Unread {
    fn default() -> Self {
        Self::with(MAX_BYTES)
    }
}

/// Since when nothing has left.
fn since(piece: &Piece) -> Option<Instant> {
    piece.since.map(|since| piece.life.left_at().map_or(since, |left| left.max(since)))
}

impl Unread {
    fn with(max_bytes: usize) -> Self {
        let closes =
            || tracing::warn!("a connection is closed that has left its answers unread for too long");
        Self(Budget::new(Rule { max_bytes, since, closes }))
    }

    /// Counts the bytes until they have left.
    fn counted(&self, bytes: Bytes, life: &Arc<Life>) -> Bytes {
        if bytes.len() < COUNTED {
            return bytes;
        }
        let piece = self.0.add(life, bytes.len(), Some(Instant::now()));
        Bytes::from_owner(Waits { bytes, piece, unread: self.clone() })
    }
}

/// Bytes that wait; dropped when they have left.
struct Waits {
    bytes: Bytes,
    piece: u64,
    unread: Unread,
}

impl AsRef<[u8]> for Waits {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        if let Some(life) = self.unread.0.remove(self.piece) {
            *life.left_at() = Some(Instant::now());
        }
    }
}

/// Whether the call has one answer, which is read of the store and nothing is waited for.
fn is_read(path: &str) -> bool {
    let method = path.rsplit('/').next().unwrap_or_default();
    READS.iter().any(|reads| method.starts_with(reads)) && method != "GetBlob"
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
    S: tower::Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    B: Send + 'static,
{
    type Response = Response<CountedBody<R>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let life = request.extensions().get::<Arc<Life>>().map(Arc::clone).unwrap_or_default();
        let is_read = is_read(request.uri().path());
        let unread = self.unread.clone();
        // The one that is ready is called, and the next call finds another one.
        let next = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, next);
        Box::pin(async move {
            let place = if is_read { life.may_read().await } else { None };
            let answer = inner.call(request).await?;
            Ok(answer.map(|body| CountedBody { body, unread, life, _place: place }))
        })
    }
}

/// An answer whose bytes are counted until they have left.
#[derive(Debug)]
pub(crate) struct CountedBody<B> {
    body: B,
    unread: Unread,
    life: Arc<Life>,
    /// Free when the body is gone, which is when all of it is on its way.
    _place: Option<OwnedSemaphorePermit>,
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
    use std::task::Waker;

    use super::*;
    use crate::waiting::STALLED;

    fn unread(max_bytes: usize) -> Unread {
        Unread::with(max_bytes)
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
            assert_eq!(unread.0.bytes(), 9_000, "a part of it has not left");
            drop(first);
            assert_eq!(unread.0.bytes(), 0);
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
        assert_eq!(unread.0.bytes(), 7_000);
    }

    #[tokio::test(start_paused = true)]
    async fn much_at_once_for_clients_that_read_closes_nobody() {
        let unread = unread(10_000);
        let clients = [(); 6].map(|()| Arc::new(Life::default()));
        let answers: Vec<Bytes> = clients.iter().map(|life| answer(&unread, life, 3_000)).collect();
        assert_eq!(unread.0.bytes(), 18_000);
        drop(answers);
        tokio::time::sleep(2 * STALLED).await;
        assert!(!clients.iter().any(|life| is_over(life)));
        assert!(!unread.0.is_watched());
    }

    #[tokio::test(start_paused = true)]
    async fn beyond_twice_what_may_wait_nobody_is_given_a_second() {
        let unread = unread(10_000);
        let clients = [(); 8].map(|()| Arc::new(Life::default()));
        let _answers: Vec<Bytes> = clients.iter().map(|life| answer(&unread, life, 3_000)).collect();
        assert!(unread.0.bytes() <= 20_000);
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
        assert_eq!(unread.0.bytes(), 0);
    }

    /// Answers every call with so many bytes.
    #[derive(Clone)]
    struct Answers;

    impl tower::Service<Request<()>> for Answers {
        type Response = Response<axum::body::Body>;
        type Error = std::convert::Infallible;
        type Future = std::future::Ready<Result<Self::Response, Self::Error>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Request<()>) -> Self::Future {
            std::future::ready(Ok(Response::new(vec![7; 3_000].into())))
        }
    }

    #[tokio::test]
    async fn nothing_more_is_read_for_a_connection_that_takes_none_of_its_answers() {
        let mut services = tower::Layer::layer(&CountingLayer::default(), Answers);
        let mut call = |life: &Arc<Life>, method: &str| {
            let mut request = Request::get(format!("/capataz.v1.RunService/{method}")).body(()).unwrap();
            request.extensions_mut().insert(Arc::clone(life));
            tower::Service::call(&mut services, request)
        };
        let [takes_none, other] = [(); 2].map(|()| Arc::<Life>::default());
        let mut answers = Vec::new();
        for _ in 0..8 {
            answers.push(call(&takes_none, "ListRuns").await.unwrap());
        }
        let mut ninth = call(&takes_none, "GetRun");
        let mut context = Context::from_waker(Waker::noop());
        assert!(ninth.as_mut().poll(&mut context).is_pending());
        // What waits for a run, and what comes in parts, has nothing to do with it, and neither has anybody else.
        for (life, method) in [(&takes_none, "WaitRun"), (&takes_none, "GetBlob"), (&other, "ListRuns")] {
            answers.push(call(life, method).await.unwrap());
        }
        // An answer is taken: its bytes are on their way.
        let mut taken = answers.swap_remove(0).into_body();
        assert!(Pin::new(&mut taken).poll_frame(&mut context).is_ready());
        assert!(ninth.as_mut().poll(&mut context).is_pending());
        drop(taken);
        assert!(ninth.as_mut().poll(&mut context).is_ready());
    }

    #[tokio::test]
    async fn small_pieces_are_not_counted() {
        let (unread, life) = (unread(0), Arc::new(Life::default()));
        let _small = answer(&unread, &life, COUNTED - 1);
        assert_eq!(unread.0.bytes(), 0);
    }
}
