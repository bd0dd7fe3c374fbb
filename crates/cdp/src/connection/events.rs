//! Events, and the bounded queue of each subscriber.
//!
//! The reader never waits for a subscriber. Where one is too slow, events are left out, and in their place it is told how
//! many: it then has to look at the page's state anew instead of trusting what it heard.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use serde::de::DeserializeOwned;
use thiserror::Error;
use tokio::sync::{Notify, watch};

use super::{SessionId, Shared, payload};
use crate::error::Loss;

/// Most events that wait for one subscriber.
pub const QUEUE_EVENTS: usize = 1024;

/// Most bytes of events that wait for one subscriber; a single longer one is taken where nothing else waits.
pub const QUEUE_BYTES: usize = 64 * 1024 * 1024;

/// One event.
#[derive(Clone, PartialEq, Eq)]
pub struct Event {
    /// Such as `Page.loadEventFired`.
    pub method: Arc<str>,
    /// The session that the event belongs to; `None` for events of the browser itself.
    pub session: Option<SessionId>,
    /// The parameters, as JSON.
    pub params: Bytes,
}

impl Event {
    /// The parameters as `T`.
    ///
    /// # Errors
    /// The parameters have another shape.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        payload::parse(&self.params)
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { method, session, params } = self;
        // Parameters may hold what a page or a user typed.
        f.debug_struct("Event")
            .field("method", method)
            .field("session", session)
            .field("bytes", &params.len())
            .finish()
    }
}

/// Why a subscriber gets no event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum EventError {
    /// The subscriber was too slow: this many events are missing here. What follows is whole again.
    #[error("{0} events were left out")]
    Lagged(u64),
    /// The session that was subscribed to has ended, and every event before its end was taken.
    #[error("the session has ended")]
    Detached,
    /// The connection has ended, and every event before its end was taken.
    #[error(transparent)]
    Lost(Loss),
}

#[derive(Debug)]
pub(super) enum Scope {
    Everything,
    /// Events of one session, or, with `None`, those of the browser itself.
    Session(Option<SessionId>),
}

/// What one subscriber gets, in the order in which the browser sent it. Ends with its drop.
pub struct Events {
    queue: Arc<Queue>,
    number: u64,
    shared: Weak<Shared>,
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("queue", &self.queue).finish_non_exhaustive()
    }
}

impl Events {
    pub(super) fn of(shared: &Arc<Shared>, scope: Scope, methods: &[&str]) -> Self {
        let methods = methods.iter().map(|method| Box::from(*method)).collect();
        let queue = Arc::new(Queue {
            scope,
            methods,
            waiting: Mutex::default(),
            arrived: Notify::new(),
            handled: watch::Sender::new(0),
        });
        let mut state = shared.lock();
        state.last_subscriber += 1;
        let number = state.last_subscriber;
        match state.loss {
            Some(loss) => queue.close(EventError::Lost(loss)),
            None => drop(state.subscribers.insert(number, Arc::clone(&queue))),
        }
        drop(state);
        Self { queue, number, shared: Arc::downgrade(shared) }
    }

    /// Waits for the next event. Nothing is lost when the future is dropped.
    ///
    /// # Errors
    /// [`EventError::Lagged`] in the place of events that were left out, the others at the end.
    pub async fn next(&mut self) -> Result<Event, EventError> {
        loop {
            if let Some(item) = self.try_next().transpose() {
                return item;
            }
            self.queue.arrived.notified().await;
        }
    }

    /// The events that this subscriber has still to take, for a caller that waits until it has taken all.
    pub fn backlog(&self) -> Backlog {
        Backlog(Arc::clone(&self.queue))
    }

    /// The next event if one has arrived.
    ///
    /// # Errors
    /// As [`Events::next`].
    pub fn try_next(&mut self) -> Result<Option<Event>, EventError> {
        let mut waiting = self.queue.lock();
        // A subscriber that asks for the next event has finished with the last one.
        self.queue.has_handled(waiting.taken);
        let item = waiting.items.pop_front();
        waiting.taken += u64::from(item.is_some());
        match item {
            Some(Item::Event(event)) => {
                waiting.bytes -= event.params.len();
                Ok(Some(event))
            }
            Some(Item::Missed(count)) => Err(EventError::Lagged(count)),
            None => waiting.closed.map_or(Ok(None), Err),
        }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.lock().subscribers.remove(&self.number);
        }
        // Nobody handles the rest.
        self.queue.has_handled(u64::MAX);
    }
}

/// How far a subscriber has come. An answer reaches its caller at once, and the events that the browser sent before it wait
/// for their subscriber's turn.
#[derive(Clone, Debug)]
pub struct Backlog(Arc<Queue>);

impl Backlog {
    /// Waits until the subscriber has done with every event that came before this call: until it has asked for the one
    /// after. Ends with the subscription, too.
    pub async fn cleared(&self) {
        let arrived = {
            let waiting = self.0.lock();
            waiting.taken + waiting.items.len() as u64
        };
        // The sender lives as long as this.
        let _ = self.0.handled.subscribe().wait_for(|handled| *handled >= arrived).await;
    }
}

#[derive(Debug)]
pub(super) struct Queue {
    scope: Scope,
    /// The wanted methods; empty for all.
    methods: BTreeSet<Box<str>>,
    waiting: Mutex<Waiting>,
    /// There is one subscriber, so one stored permit is enough.
    arrived: Notify,
    /// How many of the taken items the subscriber has finished with.
    handled: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Waiting {
    items: VecDeque<Item>,
    bytes: usize,
    /// Items that the subscriber has got, from the beginning on.
    taken: u64,
    closed: Option<EventError>,
}

#[derive(Debug)]
enum Item {
    Event(Event),
    Missed(u64),
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn wants(&self, method: &str, session: Option<&str>) -> bool {
        let in_scope = match &self.scope {
            Scope::Everything => true,
            Scope::Session(wanted) => wanted.as_deref() == session,
        };
        in_scope && (self.methods.is_empty() || self.methods.contains(method))
    }

    fn has_handled(&self, count: u64) {
        self.handled.send_if_modified(|handled| {
            let is_news = *handled < count;
            *handled = count.max(*handled);
            is_news
        });
    }

    pub(super) fn is_of(&self, session: &str) -> bool {
        matches!(&self.scope, Scope::Session(Some(of)) if **of == *session)
    }

    pub(super) fn push(&self, event: Event) {
        let mut waiting = self.lock();
        let length = event.params.len();
        let room = waiting.items.len() < QUEUE_EVENTS && waiting.bytes + length <= QUEUE_BYTES;
        if room || waiting.items.is_empty() {
            waiting.bytes += length;
            waiting.items.push_back(Item::Event(event));
        } else if let Some(Item::Missed(count)) = waiting.items.back_mut() {
            *count += 1;
        } else {
            waiting.items.push_back(Item::Missed(1));
        }
        drop(waiting);
        self.arrived.notify_one();
    }

    pub(super) fn close(&self, ending: EventError) {
        self.lock().closed = Some(ending);
        self.arrived.notify_one();
    }
}
