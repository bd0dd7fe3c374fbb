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

use tokio::sync::{Notify, mpsc};

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

/// Sends messages to the shards' thread, and counts them.
#[derive(Clone, Debug)]
pub(crate) struct Inbox {
    messages: mpsc::Sender<Message>,
    load: Load,
}

impl Inbox {
    pub(crate) fn new(messages: mpsc::Sender<Message>, load: Load) -> Self {
        Self { messages, load }
    }

    /// Waits while the inbox is full. Whether the shards' thread is still there.
    pub(crate) async fn send(&self, message: Message) -> bool {
        // A place first: a sender that gives up while it waits has counted nothing.
        let Ok(place) = self.messages.reserve().await else { return false };
        self.load.begin();
        place.send(message);
        true
    }

    /// # Errors
    /// The inbox is full, or nobody reads it any more; with the message.
    #[expect(clippy::result_large_err, reason = "the message comes back where it was not taken")]
    pub(crate) fn try_send(&self, message: Message) -> Result<(), mpsc::error::TrySendError<Message>> {
        self.load.begin();
        let sent = self.messages.try_send(message);
        if sent.is_err() {
            self.load.end(1);
        }
        sent
    }

    /// One that does not keep the shards' thread alive.
    pub(crate) fn downgrade(&self) -> WeakInbox {
        WeakInbox { messages: self.messages.downgrade(), load: self.load.clone() }
    }
}

/// An inbox that may be gone.
#[derive(Clone, Debug)]
pub(crate) struct WeakInbox {
    messages: mpsc::WeakSender<Message>,
    load: Load,
}

impl WeakInbox {
    pub(crate) async fn send(&self, message: Message) {
        if let Some(messages) = self.messages.upgrade() {
            Inbox { messages, load: self.load.clone() }.send(message).await;
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
