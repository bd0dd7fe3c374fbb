//! Requests that have come in part: bytes that wait in the daemon because a client does not send the rest.
//!
//! Whatever has arrived of a message that is not whole is counted, for all clients together; of a call with one message, whatever
//! has arrived of it until its end, for nothing is done before that. Where that is more than [`MAX_BYTES`], the connection is
//! closed for which the daemon has waited for the longest time, and for a second at least, whatever has come of it meanwhile.
//! And a call ends whose next message does not go on. One that is too large is known by its header, and waits a moment to be refused.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use capataz_contracts::validate::FRAME_MAX;
use http::Request;
use http_body::{Frame, SizeHint};
use tokio::time::{Sleep, sleep};
use tonic::Status;
use tonic::body::Body;

use crate::patience::Patience;
use crate::status;
use crate::waiting::{Budget, Life, Rule};

/// Bytes of messages in part that may wait for all clients together. Beyond twice as many, nobody is given a second.
const MAX_BYTES: usize = 64 * 1024 * 1024;
/// Messages of which less has arrived are not counted: a stream has more than that for itself.
const COUNTED: usize = 1024;
/// How long the daemon waits for a message to be whole, or for [`PROGRESS_BYTES`] more of it.
const PROGRESS: Duration = Duration::from_secs(30);
/// The bytes of a message that give it time again.
const PROGRESS_BYTES: usize = 64 * 1024;
/// After how long a message is refused that is larger than any that is taken: whoever sends one after the other waits each time.
const TOO_LARGE: Duration = Duration::from_millis(100);
/// The bytes before each message: whether it is compressed, and its length.
const HEADER: usize = 5;
/// The methods whose calls may have many messages.
const STREAMS: [&str; 4] = [
    "/capataz.v1.BlobService/PutBlob",
    "/capataz.v1.WorkerService/Connect",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];

/// All that has come in part.
#[derive(Clone, Debug)]
pub(crate) struct Heard(Budget);

impl Default for Heard {
    fn default() -> Self {
        Self::with(MAX_BYTES)
    }
}

impl Heard {
    fn with(max_bytes: usize) -> Self {
        let closes =
            || tracing::warn!("a connection is closed that has left its requests unfinished for too long");
        Self(Budget::new(Rule { max_bytes, since: |piece| piece.since, closes }))
    }

    fn body<B>(&self, body: B, life: Arc<Life>, is_stream: bool) -> HeardBody<B> {
        HeardBody {
            body,
            life,
            budget: self.0.clone(),
            next: Next::default(),
            piece: None,
            is_stream,
            is_first: true,
            patience: None,
            is_late: false,
            held: None,
            was_held: false,
        }
    }
}

/// A message as far as it has come.
#[derive(Debug, Default)]
struct Next {
    header: [u8; HEADER],
    /// Bytes that have arrived, with its header.
    arrived: usize,
}

impl Next {
    /// The bytes that are still to come before more of it is known.
    fn missing(&self) -> usize {
        let [_, length @ ..] = self.header;
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        let all = if self.arrived < HEADER { HEADER } else { length.saturating_add(HEADER) };
        all.saturating_sub(self.arrived)
    }

    /// Whether the message is larger than any that is taken: whoever reads it refuses it as soon as its header is there.
    fn is_too_large(&self) -> bool {
        self.arrived >= HEADER && self.missing().saturating_add(self.arrived) > FRAME_MAX + HEADER
    }

    /// Notes what of these bytes belongs to the header.
    fn begins(&mut self, bytes: &[u8]) {
        for (place, byte) in self.header.iter_mut().skip(self.arrived).zip(bytes) {
            *place = *byte;
        }
    }

    /// Takes bytes. Returns how many messages became whole.
    fn take(&mut self, mut bytes: &[u8]) -> usize {
        let mut whole = 0;
        while !bytes.is_empty() {
            let (part, rest) = bytes.split_at(self.missing().min(bytes.len()));
            self.begins(part);
            self.arrived = self.arrived.saturating_add(part.len());
            bytes = rest;
            if self.arrived >= HEADER && self.missing() == 0 {
                *self = Self::default();
                whole += 1;
            }
        }
        whole
    }
}

/// A request whose bytes are counted until the message that they belong to is whole.
#[derive(Debug)]
struct HeardBody<B> {
    body: B,
    life: Arc<Life>,
    budget: Budget,
    next: Next,
    /// What is counted of the next message.
    piece: Option<u64>,
    /// It may have many messages.
    is_stream: bool,
    /// No message of them has come yet.
    is_first: bool,
    /// How long the next message may take to go on, and how many bytes have come since the daemon waits for that.
    patience: Option<(Patience, usize)>,
    is_late: bool,
    /// The beginning of a message that is too large, and until when nobody gets it.
    held: Option<(Pin<Box<Sleep>>, Frame<Bytes>)>,
    /// The next message was held.
    was_held: bool,
}

impl<B: http_body::Body> HeardBody<B> {
    fn arrived(&mut self, bytes: &Bytes) {
        let before = self.next.arrived;
        let is_whole = match self.is_stream {
            true => self.next.take(bytes) > 0,
            false => {
                self.next.begins(bytes);
                self.next.arrived = before.saturating_add(bytes.len());
                self.body.is_end_stream()
            }
        };
        if is_whole {
            self.is_first = false;
            self.patience = None;
            self.was_held = false;
            self.forget();
        } else if let Some((_, come)) = &mut self.patience {
            *come = come.saturating_add(bytes.len());
        }
        if is_whole && !self.is_stream {
            return;
        }
        let now = self.next.arrived;
        match self.piece {
            Some(piece) => self.budget.grow(piece, now.saturating_sub(before)),
            None if now >= COUNTED => self.piece = Some(self.budget.add(&self.life, now, None)),
            None => {}
        }
    }

    /// The daemon waits for more of the next message: ready when it has done so for too long.
    fn waits(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.next.arrived == 0 && !self.is_first && self.is_stream {
            return Poll::Pending;
        }
        if let Some(piece) = self.piece {
            self.budget.awaits(piece);
        }
        loop {
            let (patience, come) = self.patience.get_or_insert_with(|| (Patience::new(PROGRESS), 0));
            std::task::ready!(Pin::new(patience).poll(context));
            if *come < PROGRESS_BYTES {
                return Poll::Ready(());
            }
            self.patience = None;
        }
    }
}

impl<B> HeardBody<B> {
    /// The beginning of a message that is too large, when its time has come.
    fn poll_held(&mut self, context: &mut Context<'_>) -> Poll<Option<Frame<Bytes>>> {
        if let Some((until, _)) = &mut self.held {
            std::task::ready!(until.as_mut().poll(context));
        }
        Poll::Ready(self.held.take().map(|(_, frame)| frame))
    }

    fn forget(&mut self) {
        if let Some(piece) = self.piece.take() {
            self.budget.remove(piece);
        }
    }
}

impl<B> Drop for HeardBody<B> {
    fn drop(&mut self) {
        self.forget();
    }
}

fn late() -> Status {
    let message = format!("the rest of the request has not come within {} s; repeat it", PROGRESS.as_secs());
    status::late(message)
}

impl<B> http_body::Body for HeardBody<B>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.is_late {
            return Poll::Ready(None);
        }
        if self.held.is_some() {
            return self.poll_held(context).map(|frame| frame.map(Ok));
        }
        match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(bytes) = frame.data_ref() {
                    self.arrived(bytes);
                }
                if self.next.is_too_large() && !std::mem::replace(&mut self.was_held, true) {
                    self.held = Some((Box::pin(sleep(TOO_LARGE)), frame));
                    return self.poll_held(context).map(|frame| frame.map(Ok));
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(error.into()))),
            Poll::Ready(None) => {
                self.forget();
                Poll::Ready(None)
            }
            Poll::Pending => {
                std::task::ready!(self.waits(context));
                self.is_late = true;
                self.forget();
                Poll::Ready(Some(Err(late().into())))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.held.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match self.held {
            Some(_) => SizeHint::default(),
            None => self.body.size_hint(),
        }
    }
}

/// A service whose requests are counted.
#[derive(Clone, Debug)]
pub(crate) struct Hearing<S> {
    inner: S,
    heard: Heard,
}

/// Makes services count their requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct HearingLayer(Heard);

impl<S> tower::Layer<S> for HearingLayer {
    type Service = Hearing<S>;

    fn layer(&self, inner: S) -> Hearing<S> {
        Hearing { inner, heard: self.0.clone() }
    }
}

impl<S: tower::Service<Request<Body>>> tower::Service<Request<Body>> for Hearing<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> S::Future {
        let life = request.extensions().get::<Arc<Life>>().map(Arc::clone).unwrap_or_default();
        let is_stream = STREAMS.contains(&request.uri().path());
        self.inner.call(request.map(|body| Body::new(self.heard.body(body, life, is_stream))))
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use futures_util::future::join_all;
    use http_body::Body as _;
    use tokio::sync::mpsc;

    use super::*;
    use crate::waiting::STALLED;

    /// What a test sends, and what is made of it.
    struct Sent(mpsc::UnboundedReceiver<Bytes>);

    impl http_body::Body for Sent {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            self.0.poll_recv(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
        }
    }

    struct Call {
        sender: mpsc::UnboundedSender<Bytes>,
        body: HeardBody<Sent>,
        life: Arc<Life>,
    }

    impl Call {
        fn new(heard: &Heard) -> Self {
            Self::over(heard, Arc::default())
        }

        fn over(heard: &Heard, life: Arc<Life>) -> Self {
            let (sender, receiver) = mpsc::unbounded_channel();
            Self { sender, body: heard.body(Sent(receiver), Arc::clone(&life), true), life }
        }

        /// A call with one message.
        fn of_one(heard: &Heard) -> Self {
            let mut call = Self::new(heard);
            call.body.is_stream = false;
            call
        }

        fn sends(&self, bytes: impl Into<Bytes>) {
            self.sender.send(bytes.into()).unwrap();
        }

        /// Takes what has come. The refusal, if there is one.
        fn reads(&mut self) -> Option<Status> {
            match self.poll_end(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(end) => end,
                Poll::Pending => None,
            }
        }

        /// Takes what comes for so long, as the task of a call does. The refusal, if there is one.
        async fn listens(&mut self, time: Duration) -> Option<Status> {
            let end = std::future::poll_fn(|context| self.poll_end(context));
            tokio::time::timeout(time, end).await.ok().flatten()
        }

        /// Ready at the end, which may be a refusal.
        fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<Option<Status>> {
            loop {
                match std::task::ready!(Pin::new(&mut self.body).poll_frame(context)) {
                    Some(Ok(_)) => {}
                    Some(Err(error)) => return Poll::Ready(Some(*error.downcast().unwrap())),
                    None => return Poll::Ready(None),
                }
            }
        }

        fn is_over(&self) -> bool {
            self.life.is_over(Waker::noop())
        }
    }

    fn header(length: u32) -> Vec<u8> {
        [&[0][..], &length.to_be_bytes()].concat()
    }

    fn message(length: usize) -> Vec<u8> {
        [header(u32::try_from(length).unwrap()), vec![7; length]].concat()
    }

    #[tokio::test(start_paused = true)]
    async fn what_has_come_of_a_message_is_counted_until_it_is_whole() {
        let heard = Heard::with(1_000_000);
        let mut call = Call::new(&heard);
        // In pieces of every length, so that headers are cut in every place, and two messages come in one piece.
        let all = [message(10_000), message(0), message(3), message(2_000), message(700)].concat();
        for length in 1..600 {
            for piece in all.chunks(length) {
                call.sends(piece.to_vec());
                assert!(call.reads().is_none());
                // What a task may take from a channel at once is bounded.
                tokio::task::yield_now().await;
                let counted = heard.0.bytes();
                let arrived = call.body.next.arrived;
                assert_eq!(counted, if arrived < COUNTED { 0 } else { arrived }, "pieces of {length}");
            }
            assert_eq!(call.body.next.arrived, 0);
        }
        call.sends(message(5_000)[..4_000].to_vec());
        assert!(call.reads().is_none());
        assert_eq!(heard.0.bytes(), 4_000);
        drop(call);
        assert_eq!(heard.0.bytes(), 0, "a call that is over has nothing");
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_with_one_message_is_counted_to_its_end() {
        let heard = Heard::with(10_000);
        let Call { sender, mut body, life } = Call::of_one(&heard);
        sender.send(message(5_000).into()).unwrap();
        let mut context = Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut body).poll_frame(&mut context).is_ready());
        assert!(Pin::new(&mut body).poll_frame(&mut context).is_pending());
        assert_eq!(
            heard.0.bytes(),
            5_005,
            "it is whole, and nothing is done before the call says that this is all"
        );
        drop(sender);
        assert!(matches!(Pin::new(&mut body).poll_frame(&mut context), Poll::Ready(None)));
        assert_eq!(heard.0.bytes(), 0);
        assert!(!life.is_over(Waker::noop()));

        let mut open = Call::of_one(&heard);
        open.sends(message(5_000));
        assert!(open.reads().is_none());
        assert!(open.listens(2 * PROGRESS).await.is_some(), "it does not go on");
        assert_eq!(heard.0.bytes(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_that_is_larger_than_any_waits_a_moment_to_be_refused() {
        let heard = Heard::default();
        let kinds: [fn(&Heard) -> Call; 2] = [Call::new, Call::of_one];
        for (length, waits) in [(FRAME_MAX, Duration::ZERO), (FRAME_MAX + 1, TOO_LARGE)] {
            for call in kinds {
                let (mut call, begun) = (call(&heard), tokio::time::Instant::now());
                call.sends(header(u32::try_from(length).unwrap()));
                let first = std::future::poll_fn(|context| Pin::new(&mut call.body).poll_frame(context));
                assert_eq!(first.await.unwrap().unwrap().data_ref().unwrap().len(), HEADER);
                assert_eq!(begun.elapsed(), waits, "{length}");
                // What follows does not wait once more.
                call.sends(vec![7; 10]);
                assert!(call.reads().is_none());
                assert_eq!(begun.elapsed(), waits, "{length}");
            }
        }
    }

    #[test]
    fn methods_with_many_messages_are_those_of_the_contract() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../proto/capataz/v1");
        let mut found = Vec::new();
        for file in std::fs::read_dir(folder).unwrap() {
            let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
            let mut service = "";
            for line in text.lines() {
                if let Some(rest) = line.strip_prefix("service ") {
                    service = rest.trim_end_matches(" {");
                }
                if let Some((method, _)) =
                    line.trim().strip_prefix("rpc ").and_then(|rest| rest.split_once("(stream "))
                    && !method.contains('(')
                {
                    found.push(format!("/capataz.v1.{service}/{method}"));
                }
            }
        }
        found.sort_unstable();
        let ours: Vec<&str> = STREAMS.into_iter().filter(|method| method.starts_with("/capataz.")).collect();
        assert_eq!(found, ours);
    }

    #[tokio::test(start_paused = true)]
    async fn the_connection_that_is_awaited_for_longest_is_closed_whatever_drips() {
        let heard = Heard::with(100_000);
        let [mut first, mut second] = [(); 2].map(|()| Call::new(&heard));
        first.sends(message(90_000)[..60_000].to_vec());
        first.reads();
        tokio::time::advance(STALLED / 2).await;
        second.sends(message(90_000)[..60_000].to_vec());
        second.reads();
        for _ in 0..10 {
            tokio::time::sleep(STALLED / 4).await;
            first.sends(vec![7]);
            first.reads();
        }
        assert_eq!((first.is_over(), second.is_over()), (true, false), "one of them is enough");
        assert_eq!(heard.0.bytes(), 60_000);
        second.sends(vec![7; 30_005]);
        assert!(second.reads().is_none());
        assert_eq!(heard.0.bytes(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn one_connection_with_many_calls_holds_no_more_than_others_together() {
        let heard = Heard::with(100_000);
        let life = Arc::new(Life::default());
        let mut calls: Vec<Call> = (0..1_000).map(|_| Call::over(&heard, Arc::clone(&life))).collect();
        let mut most = 0;
        for call in &mut calls {
            call.sends(message(50_000)[..40_000].to_vec());
            call.reads();
            most = most.max(heard.0.bytes());
        }
        assert!(life.is_over(Waker::noop()));
        assert!(most <= 200_000, "{most}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_the_daemon_keeps_waiting_is_not_the_one() {
        let heard = Heard::with(100_000);
        let [mut kept, mut slow] = [(); 2].map(|()| Call::new(&heard));
        // The daemon takes one frame and no more, for it has something else to do.
        kept.sends([message(10), message(90_000)[..50_000].to_vec()].concat());
        let mut context = Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut kept.body).poll_frame(&mut context).is_ready());
        tokio::time::sleep(2 * PROGRESS).await;
        slow.sends(message(90_000)[..60_000].to_vec());
        slow.reads();
        tokio::time::sleep(2 * STALLED).await;
        assert_eq!((kept.is_over(), slow.is_over()), (false, true));
        kept.sends(vec![7; 40_005]);
        assert!(kept.reads().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_that_does_not_go_on_ends_its_call() {
        let heard = Heard::default();
        let [silent, stopped, drips, slow, between] = [(); 5].map(|()| Call::new(&heard));
        stopped.sends(message(4_000_000)[..2_000_000].to_vec());
        drips.sends(header(4_000_000));
        slow.sends(header(4_000_000));
        between.sends(message(5_000));
        let mut calls = [silent, stopped, drips, slow, between];
        let mut refusals: [Vec<Status>; 5] = Default::default();
        for second in 0..91 {
            if second < 29 {
                calls[2].sends(vec![7]);
            }
            calls[3].sends(vec![7; PROGRESS_BYTES / 20]);
            let told = join_all(calls.iter_mut().map(|call| call.listens(PROGRESS / 30))).await;
            assert!(second >= 29 || told.iter().take(2).all(Option::is_none), "after {second} s");
            for (refused, refusal) in refusals.iter_mut().zip(told) {
                refused.extend(refusal);
            }
        }
        assert_eq!(
            refusals.each_ref().map(Vec::len),
            [1, 1, 1, 0, 0],
            "said once, to those that do not go on"
        );
        for refusal in refusals.iter().flatten() {
            assert_eq!(refusal.code(), tonic::Code::Unavailable);
            assert!(refusal.message().contains("within 30 s"), "{}", refusal.message());
        }
        assert!(heard.0.bytes() < 500_000, "what is over is not counted");
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_in_part_goes_on_where_the_daemon_itself_stood_still() {
        let heard = Heard::default();
        let [mut first, mut second] = [Call::new(&heard), Call::of_one(&heard)];
        for call in [&mut first, &mut second] {
            let whole = message(5_000);
            call.sends(whole[..2_000].to_vec());
            assert!(call.listens(PROGRESS / 2).await.is_none());
            let sender = call.sender.clone();
            let stall = async move {
                tokio::time::advance(PROGRESS + STALLED).await;
                // What has arrived meanwhile is read a little later.
                tokio::time::sleep(Duration::from_millis(50)).await;
                sender.send(whole[2_000..].to_vec().into()).unwrap();
            };
            let (refusal, ()) = tokio::join!(biased; call.listens(PROGRESS + 2 * STALLED), stall);
            assert!(refusal.is_none(), "{refusal:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_is_closed_for_the_time_in_which_the_daemon_itself_stood_still() {
        let heard = Heard::with(100_000);
        let [mut first, mut second] = [(); 2].map(|()| Call::new(&heard));
        for call in [&mut first, &mut second] {
            call.sends(message(90_000)[..60_000].to_vec());
            call.reads();
        }
        let stall = async {
            tokio::time::sleep(STALLED / 2).await;
            tokio::time::advance(PROGRESS).await;
            tokio::time::sleep(STALLED / 2).await;
        };
        stall.await;
        assert!(!first.is_over() && !second.is_over(), "their rest may have arrived");
        for call in [&mut first, &mut second] {
            call.sends(vec![7; 30_005]);
            assert!(call.reads().is_none());
        }
        assert_eq!(heard.0.bytes(), 0);
    }
}
