//! Where messages for the shards are handed in: they are handled at once, by whoever brings them, while nothing else waits;
//! else they wait for the shards' thread.
//!
//! A lone caller then pays for no hand-over between threads: its request, and the commit that it waits for, are done where
//! it is. Under load something always waits, and everything goes through the shards' thread and the writer's, where many
//! messages share a turn and many appends a commit.
//!
//! Messages of one sender keep their order: one is handled at once only when none is waiting anywhere, the writer's news
//! included ([`Load`]).

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc};

use crate::turning::{Message, Turning};

/// How much is under way: messages that wait, work that the writer has, and what it has said of it; and whether many
/// callers wait for answers, so that more is likely to come in a moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Load {
    under_way: Arc<AtomicUsize>,
    crowded: Arc<AtomicBool>,
}

/// Callers that wait at once beyond which everything is left to the shards' thread and the writer's.
const FEW: usize = 4;

impl Load {
    /// Something is under way from now on.
    pub(crate) fn begin(&self) {
        self.under_way.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn end(&self, count: usize) {
        self.under_way.fetch_sub(count, Ordering::AcqRel);
    }

    /// So many callers wait for answers now.
    pub(crate) fn waiting(&self, callers: usize) {
        self.crowded.store(callers > FEW, Ordering::Relaxed);
    }

    /// Whether nothing is under way, and little is likely to come.
    pub(crate) fn is_none(&self) -> bool {
        !self.crowded.load(Ordering::Relaxed) && self.under_way.load(Ordering::Acquire) == 0
    }
}

/// Bytes of messages that may wait in the inbox: of requests, and as much again of workers' frames. A message that is
/// larger waits until it is alone.
const ROOM: usize = 32 * 1024 * 1024;
/// What room is counted in, in bytes. Of messages below it there are no more than the inbox has places.
const UNIT: usize = 4 * 1024;
/// Frames of one worker that may wait in the inbox, so that one which floods it delays its own frames.
const OF_ONE: usize = 64;

/// A message, and what it takes of the inbox until it is handled.
pub(crate) struct Queued {
    pub(crate) message: Message,
    _room: Option<OwnedSemaphorePermit>,
    _share: Option<Share>,
}

/// What a frame takes of its worker's share, and of that of all workers.
#[derive(Debug)]
struct Share {
    _of_one: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

/// Sends messages to the shards' thread, and counts them.
#[derive(Clone, Debug)]
pub(crate) struct Inbox {
    messages: mpsc::Sender<Queued>,
    load: Load,
    room: Arc<Semaphore>,
    /// The room that workers' frames have.
    frames_room: Arc<Semaphore>,
    /// The places that workers' frames may take. The other half is left to requests.
    frames: Arc<Semaphore>,
}

impl Inbox {
    pub(crate) fn new(messages: mpsc::Sender<Queued>, load: Load) -> Self {
        let frames = Arc::new(Semaphore::new((messages.max_capacity() / 2).max(1)));
        let room = || Arc::new(Semaphore::new(ROOM / UNIT));
        Self { messages, load, room: room(), frames_room: room(), frames }
    }

    /// More is about to come, so that what comes first is not handled by itself: it shares commits with the rest.
    pub(crate) fn gather(&self) -> Gathering {
        self.load.begin();
        Gathering(self.load.clone())
    }

    /// Waits while the inbox is full. Whether the shards' thread is still there.
    pub(crate) async fn send(&self, message: Message) -> bool {
        self.send_weighed(message, None, None).await
    }

    /// Sends a frame of so many bytes in its worker's turn.
    async fn send_frame(&self, message: Message, bytes: usize, frames: &Frames) -> bool {
        let Ok(of_one) = Arc::clone(&frames.waiting).acquire_owned().await else { return false };
        let Ok(of_all) = Arc::clone(&self.frames).acquire_owned().await else { return false };
        let room = match units(bytes) {
            0 => None,
            units => match Arc::clone(&self.frames_room).acquire_many_owned(units).await {
                Ok(room) => Some(room),
                Err(_) => return false,
            },
        };
        self.send_weighed(message, room, Some(Share { _of_one: of_one, _of_all: of_all })).await
    }

    async fn send_weighed(
        &self,
        message: Message,
        room: Option<OwnedSemaphorePermit>,
        share: Option<Share>,
    ) -> bool {
        // A place first: a sender that gives up while it waits has counted nothing.
        let Ok(place) = self.messages.reserve().await else { return false };
        self.load.begin();
        place.send(Queued { message, _room: room, _share: share });
        true
    }

    /// # Errors
    /// The inbox is full, or nobody reads it any more; with the message.
    #[expect(clippy::result_large_err, reason = "the message comes back where it was not taken")]
    pub(crate) fn try_send(&self, message: Message, bytes: usize) -> Result<(), TrySendError<Message>> {
        let room = match units(bytes) {
            0 => None,
            units => match Arc::clone(&self.room).try_acquire_many_owned(units) {
                Ok(room) => Some(room),
                Err(_) => return Err(TrySendError::Full(message)),
            },
        };
        self.load.begin();
        let sent = self.messages.try_send(Queued { message, _room: room, _share: None });
        sent.map_err(|refused| {
            self.load.end(1);
            match refused {
                TrySendError::Full(queued) => TrySendError::Full(queued.message),
                TrySendError::Closed(queued) => TrySendError::Closed(queued.message),
            }
        })
    }

    /// One that does not keep the shards' thread alive.
    pub(crate) fn downgrade(&self) -> WeakInbox {
        WeakInbox {
            messages: self.messages.downgrade(),
            load: self.load.clone(),
            room: Arc::clone(&self.room),
            frames_room: Arc::clone(&self.frames_room),
            frames: Arc::clone(&self.frames),
        }
    }
}

/// Somebody who is about to send more.
#[derive(Debug)]
pub struct Gathering(Load);

impl Drop for Gathering {
    fn drop(&mut self) {
        self.0.end(1);
    }
}

/// What a message of so many bytes takes of the room. What is larger than all of it takes all of it.
fn units(bytes: usize) -> u32 {
    u32::try_from((bytes / UNIT).min(ROOM / UNIT)).unwrap_or(u32::MAX)
}

/// One worker's way into the inbox.
#[derive(Debug)]
pub(crate) struct Frames {
    inbox: Inbox,
    waiting: Arc<Semaphore>,
}

impl Frames {
    pub(crate) fn new(inbox: Inbox) -> Self {
        Self { inbox, waiting: Arc::new(Semaphore::new(OF_ONE)) }
    }

    pub(crate) fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    /// Waits for the worker's turn. Whether the shards' thread is still there.
    pub(crate) async fn send(&self, message: Message, bytes: usize) -> bool {
        self.inbox.send_frame(message, bytes, self).await
    }
}

/// An inbox that may be gone.
#[derive(Clone, Debug)]
pub(crate) struct WeakInbox {
    messages: mpsc::WeakSender<Queued>,
    load: Load,
    room: Arc<Semaphore>,
    frames_room: Arc<Semaphore>,
    frames: Arc<Semaphore>,
}

impl WeakInbox {
    pub(crate) async fn send(&self, message: Message) {
        if let Some(messages) = self.messages.upgrade() {
            let (load, room, frames) = (self.load.clone(), self.room.clone(), self.frames.clone());
            let frames_room = self.frames_room.clone();
            Inbox { messages, load, room, frames_room, frames }.send(message).await;
        }
    }
}

/// The shards and the crew, and the right to have them take a turn.
pub(crate) struct Desk {
    turning: Mutex<Turning>,
    load: Load,
    /// Tells the shards' thread that something is due sooner than it knows.
    pub(crate) sooner: Notify,
    /// Callers may block for the time of a commit: others go on meanwhile.
    may_block: bool,
}

impl std::fmt::Debug for Desk {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Desk").field("load", &self.load).finish_non_exhaustive()
    }
}

impl Desk {
    pub(crate) fn new(turning: Turning, load: Load, may_block: bool) -> Self {
        Self { turning: Mutex::new(turning), load, sooner: Notify::new(), may_block }
    }

    /// For the shards' thread: whoever is at it has done in a moment. `None` after a turn that panicked, for nobody knows
    /// what its state is worth.
    pub(crate) fn lock(&self) -> Option<MutexGuard<'_, Turning>> {
        self.turning.lock().ok()
    }

    /// The shards' thread has ended: whoever waits for something is told, and streams end.
    pub(crate) fn close(&self) {
        self.turning.lock().unwrap_or_else(PoisonError::into_inner).end();
    }

    /// Handles the message here and now where nothing is under way.
    ///
    /// # Errors
    /// Something is; with the message.
    #[expect(clippy::result_large_err, reason = "the message comes back where it was not taken")]
    pub(crate) fn take(&self, message: Message) -> Result<(), Message> {
        if !self.may_block || !self.load.is_none() {
            return Err(message);
        }
        let Ok(mut turning) = self.turning.try_lock() else { return Err(message) };
        // Whoever had it may have left something behind.
        if !self.load.is_none() || turning.has_stopped() {
            return Err(message);
        }
        turning.take_alone(message);
        let due = turning.is_due_sooner();
        drop(turning);
        if due {
            self.sooner.notify_one();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACES: usize = 1_000;

    fn inbox() -> (Inbox, mpsc::Receiver<Queued>) {
        let (sender, receiver) = mpsc::channel(PLACES);
        (Inbox::new(sender, Load::default()), receiver)
    }

    /// Whether a frame of the worker finds its place at once.
    async fn finds_place(worker: &Frames) -> bool {
        let sent = tokio::task::unconstrained(worker.send(Message::Stop, 100));
        tokio::select! {
            biased;
            sent = sent => sent,
            () = std::future::ready(()) => false,
        }
    }

    #[tokio::test]
    async fn a_worker_that_floods_the_inbox_delays_its_own_frames_and_nobody_elses() {
        let (inbox, mut receiver) = inbox();
        let (flooding, other) = (Frames::new(inbox.clone()), Frames::new(inbox.clone()));
        for _ in 0..OF_ONE {
            assert!(finds_place(&flooding).await);
        }
        assert!(!finds_place(&flooding).await);
        assert!(finds_place(&other).await);
        assert!(inbox.try_send(Message::Stop, 100).is_ok());
        drop(receiver.recv().await);
        assert!(finds_place(&flooding).await, "one of its frames was handled");
    }

    #[tokio::test]
    async fn all_workers_together_leave_half_of_the_inbox_to_requests() {
        let (inbox, _receiver) = inbox();
        let workers: Vec<Frames> = (0..2 * PLACES / OF_ONE).map(|_| Frames::new(inbox.clone())).collect();
        let mut sent = 0;
        for worker in &workers {
            while finds_place(worker).await {
                sent += 1;
            }
        }
        assert_eq!(sent, PLACES / 2);
        let requests = (0..PLACES).take_while(|_| inbox.try_send(Message::Stop, 100).is_ok()).count();
        assert_eq!(requests, PLACES / 2);
    }

    #[tokio::test]
    async fn what_waits_has_a_bound_in_bytes_and_what_is_larger_than_that_waits_alone() {
        let (inbox, mut receiver) = inbox();
        assert!(inbox.try_send(Message::Stop, ROOM - UNIT).is_ok());
        assert!(matches!(inbox.try_send(Message::Stop, 2 * UNIT), Err(TrySendError::Full(Message::Stop))));
        assert!(inbox.try_send(Message::Stop, UNIT - 1).is_ok(), "small ones are bounded by the places");
        drop(receiver.recv().await);
        drop(receiver.recv().await);
        assert!(inbox.try_send(Message::Stop, 10 * ROOM).is_ok());
        assert!(inbox.try_send(Message::Stop, UNIT).is_err());
        let handled = receiver.recv().await;
        assert!(inbox.try_send(Message::Stop, UNIT).is_err(), "it is being handled");
        drop(handled);
        assert!(inbox.try_send(Message::Stop, UNIT).is_ok());
    }

    #[tokio::test]
    async fn large_frames_leave_their_room_to_large_requests() {
        let (inbox, _receiver) = inbox();
        let worker = Frames::new(inbox.clone());
        assert!(worker.send(Message::Stop, ROOM).await);
        let waiting = tokio::spawn(async move { worker.send(Message::Stop, UNIT).await });
        tokio::task::yield_now().await;
        assert!(inbox.try_send(Message::Stop, ROOM).is_ok());
        assert!(!waiting.is_finished());
        waiting.abort();
    }
}
