//! Commands, answers and events over one pair of pipes, or over a WebSocket.
//!
//! One task reads, one writes. The reader looks at each message's outer shape only: the payload of an answer is parsed by
//! the caller that waits for it, that of an event by its subscriber, and where there is neither by nobody. So an event,
//! a field or an enum value that we do not know never disturbs anything.

mod events;
mod message;
mod navigate;
mod payload;
mod session;
mod tasks;
mod web_socket;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, oneshot};

use crate::error::Loss;
use message::{Incoming, ProtocolError};

pub use events::{Backlog, Event, EventError, Events, QUEUE_BYTES, QUEUE_EVENTS};
pub use message::REQUEST_LIMIT;
pub use session::{Done, Reply, Session, SessionId};
pub use tasks::MESSAGE_LIMIT;

/// Most commands that wait to be written.
const WAITING_COMMANDS: usize = 1024;

/// The event after which a crashed page answers nothing until it is loaded anew.
const CRASHED: &str = "Inspector.targetCrashed";

/// The event that ends a session.
const DETACHED: &str = "Target.detachedFromTarget";

/// What a waiting caller gets: the payload of the answer, as JSON.
type Answer = Result<Result<Bytes, ProtocolError>, Ending>;

/// Why no answer will come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Lost(Loss),
    Crashed,
    Detached,
}

/// One caller that waits.
struct Waiting {
    session: Option<SessionId>,
    answer: oneshot::Sender<Answer>,
}

/// A connection to one browser. Clones are the same connection; when the last one is gone, so is the browser's input,
/// and with it the browser.
#[derive(Clone)]
pub struct Connection {
    shared: Arc<Shared>,
    outgoing: mpsc::Sender<Bytes>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("loss", &self.loss()).finish_non_exhaustive()
    }
}

impl Connection {
    /// Speaks the protocol over the two ends of pipes; messages end with a zero byte. Must be called within a tokio
    /// runtime.
    pub fn new(
        reader: impl AsyncRead + Unpin + Send + 'static,
        writer: impl AsyncWrite + Unpin + Send + 'static,
    ) -> Self {
        let shared = Arc::new(Shared::default());
        let (outgoing, commands) = mpsc::channel(WAITING_COMMANDS);
        tokio::spawn(tasks::read(reader, Arc::clone(&shared)));
        tokio::spawn(tasks::write(writer, commands, Arc::clone(&shared)));
        Self { shared, outgoing }
    }

    /// The session of the browser itself, for `Browser.*`, `Target.*` and the like.
    pub fn browser(&self) -> Session {
        Session::new(self.clone(), None)
    }

    /// A session that the browser opened, by the id in `Target.attachedToTarget`.
    pub fn session(&self, id: impl Into<SessionId>) -> Session {
        Session::new(self.clone(), Some(id.into()))
    }

    /// The events of these methods, of all sessions, from now on. An empty list means every event.
    pub fn subscribe(&self, methods: &[&str]) -> Events {
        Events::of(&self.shared, events::Scope::Everything, methods)
    }

    /// How many commands were sent so far, whoever sent them: what an act costs, whatever the machine does besides.
    pub fn commands_sent(&self) -> u64 {
        self.shared.lock().sent
    }

    /// Why the connection has ended; `None` while it lasts.
    pub fn loss(&self) -> Option<Loss> {
        self.shared.lock().loss
    }
}

#[derive(Deserialize)]
struct Detached {
    #[serde(rename = "sessionId")]
    session: SessionId,
}

/// What the tasks, the waiting callers and the subscribers share.
#[derive(Default)]
struct Shared {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    loss: Option<Loss>,
    last_call: i32,
    sent: u64,
    waiting: BTreeMap<i32, Waiting>,
    last_subscriber: u64,
    subscribers: BTreeMap<u64, Arc<events::Queue>>,
}

impl State {
    /// A number that no waiting call has. The browser reads it as a signed number of 32 bits.
    fn next_call(&mut self) -> i32 {
        loop {
            self.last_call = self.last_call.checked_add(1).unwrap_or(1);
            if !self.waiting.contains_key(&self.last_call) {
                return self.last_call;
            }
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands one message to whoever waits for it.
    fn deliver(&self, message: Incoming<'_>) {
        match message {
            Incoming::Answer { id, outcome } => {
                let waiting = i32::try_from(id).ok().and_then(|id| self.lock().waiting.remove(&id));
                if let Some(waiting) = waiting {
                    // The send fails if the caller has given up at this moment.
                    let _ = waiting.answer.send(Ok(outcome));
                }
            }
            Incoming::Other => tracing::warn!("the browser could not read a command"),
            Incoming::Event { method, session, params } => {
                let state = self.lock();
                let mut event = None;
                for queue in state.subscribers.values() {
                    if queue.wants(&method, session.as_deref()) {
                        let event = event.get_or_insert_with(|| Event {
                            method: Arc::from(&*method),
                            session: session.as_deref().map(SessionId::from),
                            params: params.clone(),
                        });
                        queue.push(event.clone());
                    }
                }
                drop(state);
                match &*method {
                    CRASHED => self.end_session(session.as_deref(), Ending::Crashed),
                    DETACHED => {
                        let detached: Option<Detached> = serde_json::from_slice(&params).ok();
                        self.end_session(
                            detached.as_ref().map(|detached| &*detached.session),
                            Ending::Detached,
                        );
                    }
                    _ => {}
                }
            }
        }
    }

    /// Ends the waits for a session that answers nothing any more. The browser does not: it keeps the commands for a
    /// page that may be loaded anew, or forgets them.
    fn end_session(&self, session: Option<&str>, ending: Ending) {
        let Some(session) = session else { return };
        let mut state = self.lock();
        let ended = state.waiting.extract_if(.., |_, waiting| waiting.session.as_deref() == Some(session));
        let ended: Vec<_> = ended.map(|(_, waiting)| waiting.answer).collect();
        if ending == Ending::Detached {
            for (_, queue) in state.subscribers.extract_if(.., |_, queue| queue.is_of(session)) {
                queue.close(EventError::Detached);
            }
        }
        drop(state);
        for answer in ended {
            let _ = answer.send(Err(ending));
        }
    }

    /// Ends every wait. The first reason stays.
    fn lose(&self, loss: Loss) {
        let mut state = self.lock();
        if state.loss.is_some() {
            return;
        }
        state.loss = Some(loss);
        let waiting = std::mem::take(&mut state.waiting);
        let subscribers = std::mem::take(&mut state.subscribers);
        drop(state);
        for waiting in waiting.into_values() {
            let _ = waiting.answer.send(Err(Ending::Lost(loss)));
        }
        for queue in subscribers.into_values() {
            queue.close(EventError::Lost(loss));
        }
    }
}
