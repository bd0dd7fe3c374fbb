//! Sending commands, and waiting for their answers.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::ops::Deref;
use std::pin::{Pin, pin};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};

use super::events::{Events, Scope};
use super::message::{encode, parameters};
use super::payload;
use super::{Answer, Connection, Ending, Shared};
use crate::error::{CallError, Loss};

/// The browser's name for a session.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(from = "String")]
pub struct SessionId(Arc<str>);

impl<S: AsRef<str>> From<S> for SessionId {
    fn from(id: S) -> Self {
        Self(id.as_ref().into())
    }
}

impl Deref for SessionId {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Where commands go: to one target that the browser has attached us to, or to the browser itself.
///
/// No call has a time limit of its own; a caller that has one drops the future, and the answer is then not waited for.
/// A page that crashes is sure to end its calls only after `Inspector.enable`: the browser need not report the crash
/// otherwise. A command sent after the crash waits until the page is loaded anew, which `Page.navigate` does.
#[derive(Clone, Debug)]
pub struct Session {
    connection: Connection,
    id: Option<SessionId>,
}

#[derive(Deserialize)]
struct Attached {
    #[serde(rename = "sessionId")]
    session: SessionId,
}

impl Session {
    pub(super) fn new(connection: Connection, id: Option<SessionId>) -> Self {
        Self { connection, id }
    }

    /// The id of the session; `None` for the browser's own.
    pub fn id(&self) -> Option<&SessionId> {
        self.id.as_ref()
    }

    /// The events of these methods, of this session only, from now on. An empty list means every event.
    ///
    /// To be made before the command that causes the events. Once a call has returned, every event that the browser sent
    /// before its answer waits in the subscriptions.
    pub fn subscribe(&self, methods: &[&str]) -> Events {
        Events::of(&self.connection.shared, Scope::Session(self.id.clone()), methods)
    }

    /// Sends a command and waits for its result. `()` stands for no parameters; [`Done`] takes a result that does not
    /// matter.
    ///
    /// # Errors
    /// [`CallError`], but never [`CallError::Overloaded`]: it waits for room.
    pub async fn call<R: DeserializeOwned>(
        &self,
        method: &'static str,
        params: impl Serialize,
    ) -> Result<R, CallError> {
        let params = parameters(method, &params)?;
        let Ok(room) = self.connection.outgoing.reserve().await else { return Err(self.lost(method)) };
        Reply::new(method, self.enqueue(room, method, &params)).await
    }

    /// Sends a command without waiting for anything. Commands go out in the order of these calls, whatever is done with
    /// the replies; a reply that is dropped is not waited for.
    ///
    /// Where [`CallError::Overloaded`] or another reason keeps the command from being sent, the reply says so.
    pub fn send<R: DeserializeOwned>(&self, method: &'static str, params: impl Serialize) -> Reply<R> {
        let sent = parameters(method, &params).and_then(|params| {
            let room = self.connection.outgoing.try_reserve().map_err(|error| match error {
                mpsc::error::TrySendError::Full(()) => CallError::Overloaded { method },
                mpsc::error::TrySendError::Closed(()) => self.lost(method),
            })?;
            self.enqueue(room, method, &params)
        });
        Reply::new(method, sent)
    }

    /// Attaches to a target, with the flat protocol: the new session's messages come over this connection.
    ///
    /// # Errors
    /// As [`Session::call`].
    pub async fn attach(&self, target: &str) -> Result<Session, CallError> {
        let params = serde_json::json!({ "targetId": target, "flatten": true });
        let attached: Attached = self.call("Target.attachToTarget", params).await?;
        Ok(Session::new(self.connection.clone(), Some(attached.session)))
    }

    fn enqueue(
        &self,
        room: mpsc::Permit<'_, Bytes>,
        method: &'static str,
        params: &RawValue,
    ) -> Result<Sent, CallError> {
        let shared = &self.connection.shared;
        let (sender, receiver) = oneshot::channel();
        let mut state = shared.lock();
        if let Some(loss) = state.loss {
            return Err(CallError::Lost { method, loss });
        }
        let id = state.next_call();
        state.sent += 1;
        state.waiting.insert(id, super::Waiting { session: self.id.clone(), answer: sender });
        drop(state);
        let entry = Entry { id, shared: Arc::downgrade(shared) };
        room.send(encode(id, method, self.id.as_deref(), params)?);
        Ok(Sent { receiver, _entry: entry })
    }

    /// The writer has ended; it says why before it closes its queue.
    fn lost(&self, method: &'static str) -> CallError {
        CallError::Lost { method, loss: self.connection.loss().unwrap_or(Loss::Broken) }
    }
}

/// A result whose content does not matter.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct Done {}

/// A command's result that has not come yet. It came from [`Session::send`], so the command is on its way already.
pub struct Reply<R> {
    method: &'static str,
    state: Result<Sent, Option<CallError>>,
    result: PhantomData<fn() -> R>,
}

impl<R> fmt::Debug for Reply<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply").field("method", &self.method).finish_non_exhaustive()
    }
}

struct Sent {
    receiver: oneshot::Receiver<Answer>,
    _entry: Entry,
}

/// The entry of a call among those that wait. Its drop removes the entry, so that abandoned calls do not gather.
struct Entry {
    id: i32,
    shared: Weak<Shared>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.lock().waiting.remove(&self.id);
        }
    }
}

impl<R> Reply<R> {
    fn new(method: &'static str, sent: Result<Sent, CallError>) -> Self {
        Self { method, state: sent.map_err(Some), result: PhantomData }
    }
}

impl<R: DeserializeOwned> Future for Reply<R> {
    type Output = Result<R, CallError>;

    /// To be polled no more once it is ready, as every future.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let method = self.method;
        let broken = || CallError::Lost { method, loss: Loss::Broken };
        let waiting = match &mut self.state {
            Ok(waiting) => waiting,
            Err(error) => return Poll::Ready(Err(error.take().unwrap_or_else(broken))),
        };
        let Poll::Ready(answer) = pin!(&mut waiting.receiver).poll(context) else { return Poll::Pending };
        self.state = Err(None);
        Poll::Ready(match answer {
            Ok(Ok(Ok(result))) => {
                payload::parse(&result).map_err(|source| CallError::Result { method, source })
            }
            Ok(Ok(Err(error))) => {
                Err(CallError::Protocol { method, code: error.code, message: error.message })
            }
            Ok(Err(Ending::Lost(loss))) => Err(CallError::Lost { method, loss }),
            Ok(Err(Ending::Crashed)) => Err(CallError::Crashed { method }),
            Ok(Err(Ending::Detached)) => Err(CallError::Detached { method }),
            Err(_) => Err(broken()),
        })
    }
}
