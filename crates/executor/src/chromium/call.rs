//! Commands to a tab, and calls of our script in its documents, with what can go wrong.

use std::future::Future;
use std::time::Duration;

use capataz_cdp::patience::within;
use capataz_cdp::{CallError, Reply, Session};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::ChromiumPage;
use super::frames::Maybe;
use super::protocol::{DescribedNode, Evaluated, NodeDescription};
use super::script::{OBJECT, function};
use crate::page::{Node, PageError, SubmittingKeys};

/// Longest wait for an answer about the page. A page that does not answer in this time runs a script that never ends.
pub(super) const READ_LIMIT: Duration = Duration::from_secs(15);

/// Longest wait for the answers of other frames, so that the frame that matters is not kept waiting.
pub(super) const OTHER_FRAMES_LIMIT: Duration = Duration::from_secs(1);

/// Elements of one chain that may hide the focus: the element, what has the focus in it, and a label's control.
const HOSTS_TRIED: usize = 3;

/// The browser's messages for a document that went away before or during a call.
const GONE: [&str; 8] = [
    "Cannot find context",
    "uniqueContextId not found",
    "Execution context was destroyed",
    "Inspected target navigated or closed",
    "Session with given id not found",
    "Promise was collected",
    "Cannot find default execution context",
    "Not attached to an active page",
];

/// Why a call of the script has no result.
#[derive(Debug)]
pub(super) enum Failure {
    /// The document went away; whether the script ran is unknown.
    Gone,
    Page(PageError),
}

impl Failure {
    /// The error of a call that is not repeated.
    pub(super) fn or_detached(self) -> PageError {
        match self {
            Self::Gone => PageError::Detached,
            Self::Page(error) => error,
        }
    }
}

impl From<PageError> for Failure {
    fn from(error: PageError) -> Self {
        Self::Page(error)
    }
}

/// A document, named by the world of our script in it.
pub(super) type DocumentId = str;

impl ChromiumPage {
    /// Calls a function of the script in a document. A promise is waited for.
    pub(super) async fn script<R: DeserializeOwned>(
        &self,
        document: &DocumentId,
        function: &'static str,
        arguments: Value,
        limit: Duration,
    ) -> Result<R, Failure> {
        let session = self.session_of(document).ok_or(Failure::Gone)?;
        let reply = call_script(&session, document, function, &arguments);
        let evaluated = self.answer(&session, reply, limit).await?;
        value_of_json(function, evaluated)
    }

    /// Calls a function that is not part of the script but given by the adapter; it gets the arguments as a list.
    pub(super) async fn function<R: DeserializeOwned>(
        &self,
        document: &DocumentId,
        declaration: &str,
        arguments: Value,
        limit: Duration,
    ) -> Result<R, Failure> {
        let session = self.session_of(document).ok_or(Failure::Gone)?;
        let reply = call(&session, document, declaration, &arguments);
        let evaluated: Evaluated<R> = self.answer(&session, reply, limit).await?;
        value("function", evaluated)
    }

    /// Calls a function on an object, in the world that the object belongs to.
    pub(super) async fn on_object<R: DeserializeOwned>(
        &self,
        session: &Session,
        object: &str,
        declaration: &str,
        limit: Duration,
    ) -> Result<R, Failure> {
        let params = json!({ "functionDeclaration": declaration, "objectId": object, "returnByValue": true });
        let evaluated: Evaluated<R> = self.command(session, "Runtime.callFunctionOn", params, limit).await?;
        value("function", evaluated)
    }

    /// As [`ChromiumPage::script`], in several documents at once.
    pub(super) async fn scripts<R: DeserializeOwned>(
        &self,
        documents: &[String],
        function: &'static str,
        arguments: Value,
        limit: Duration,
    ) -> Vec<Result<R, Failure>> {
        let sent: Vec<_> = documents
            .iter()
            .map(|document| {
                let session = self.session_of(document)?;
                let reply = call_script(&session, document, function, &arguments);
                Some((session, reply))
            })
            .collect();
        // They are waited for together: many documents that do not answer take as long as one.
        let answers = sent.into_iter().map(|sent| async move {
            let (session, reply) = sent.ok_or(Failure::Gone)?;
            let evaluated = self.answer(&session, reply, limit).await?;
            value_of_json(function, evaluated)
        });
        futures_util::future::join_all(answers).await
    }

    /// The session that this document's script is called through; `None` if the document is gone.
    pub(super) fn session_of(&self, document: &DocumentId) -> Option<Session> {
        let state = self.shared.read();
        Some(self.connection.session(state.session_of_context(document)?))
    }

    /// The browser's id for an element; `None` if the element is gone.
    pub(super) async fn object(&self, node: &Node) -> Result<Option<(Session, String)>, Failure> {
        let session = self.session_of(&node.frame).ok_or(Failure::Gone)?;
        let params = json!({
            "expression": format!("{OBJECT}.{}({})", function::NODE, node.handle),
            "uniqueContextId": node.frame,
        });
        let evaluated: Evaluated<Value> =
            self.command(&session, "Runtime.evaluate", params, READ_LIMIT).await?;
        Ok(evaluated.result.object_id.map(|object| (session, object)))
    }

    /// The frame that an iframe's element shows.
    pub(super) async fn frame_of(&self, node: &Node) -> Result<Option<String>, Failure> {
        Ok(self.described(node).await?.and_then(|described| described.frame_id))
    }

    /// What the browser says of an element; `None` if the element is gone.
    async fn described(&self, node: &Node) -> Result<Option<NodeDescription>, Failure> {
        let Some((session, object)) = self.object(node).await? else { return Ok(None) };
        let reply = session.send("DOM.describeNode", json!({ "objectId": object, "pierce": true }));
        let described: DescribedNode = self.answer(&session, reply, READ_LIMIT).await?;
        super::tabs::send(&session, "Runtime.releaseObject", json!({ "objectId": object }));
        Ok(Some(described.node))
    }

    /// The keys that submit a form when they are pressed on an element, where those that were told first may only because of
    /// an element that may hide the focus: the browser can tell whether that has a closed shadow root.
    pub(super) async fn keys_told(
        &self,
        node: &Node,
        mut told: SubmittingKeys,
    ) -> Result<SubmittingKeys, Failure> {
        for _ in 0..HOSTS_TRIED {
            let Some(host) = told.hidden_in else { break };
            let host = Node { frame: node.frame.clone(), handle: host };
            let roots = self.described(&host).await?.map(|described| described.shadow_roots);
            if roots.unwrap_or_default().iter().any(|root| root.shadow_root_type == "closed") {
                break;
            }
            let marked: Value =
                self.script(&host.frame, function::MARK_PLAIN, json!([host.handle]), READ_LIMIT).await?;
            let keys: Maybe<SubmittingKeys> =
                self.script(&node.frame, function::KEYS_OF, json!([node.handle]), READ_LIMIT).await?;
            match keys {
                Maybe::Here(keys) if marked == Value::Bool(true) => told = keys,
                _ => break,
            }
        }
        Ok(told)
    }

    /// Sends a command to a session and waits for the result.
    pub(super) async fn command<R: DeserializeOwned>(
        &self,
        session: &Session,
        method: &'static str,
        params: impl Serialize,
        limit: Duration,
    ) -> Result<R, Failure> {
        self.answer(session, session.send(method, params), limit).await
    }

    /// Waits for an answer while there can be one: a tab that is closed or crashes answers nothing any more.
    pub(super) async fn answer<R: DeserializeOwned>(
        &self,
        session: &Session,
        reply: Reply<R>,
        limit: Duration,
    ) -> Result<R, Failure> {
        let limit = self.limited(limit);
        let id = session.id().map(|id| &**id);
        let silent = self.shared.find(|state| (!state.answers(id)).then_some(()));
        let answer = tokio::select! {
            biased;
            answer = reply => answer,
            () = silent => return Err(self.lost().map_or(Failure::Gone, Failure::Page)),
            _ = within(limit, std::future::pending::<()>()) => {
                let waiting_for = "an answer of the page";
                return Err(Failure::Page(PageError::Unanswered { waiting_for, limit }));
            }
        };
        answer.map_err(|error| self.failure(session, error))
    }

    /// No more of the limit than reads have time for.
    fn limited(&self, limit: Duration) -> Duration {
        self.reads_until.map_or(limit, |until| limit.min(until.saturating_duration_since(Instant::now())))
    }

    fn failure(&self, session: &Session, error: CallError) -> Failure {
        match error {
            CallError::Lost { loss, .. } => Failure::Page(PageError::Lost { reason: loss.to_string() }),
            // An iframe with a process of its own crashes alone.
            CallError::Crashed { .. } if self.is_iframes(session) => Failure::Gone,
            CallError::Crashed { .. } => {
                Failure::Page(PageError::Lost { reason: "the tab has crashed".to_owned() })
            }
            CallError::Detached { .. } => Failure::Gone,
            CallError::Protocol { ref message, .. } if GONE.iter().any(|gone| message.contains(gone)) => {
                Failure::Gone
            }
            error => Failure::Page(PageError::Failed(error.to_string())),
        }
    }

    fn is_iframes(&self, session: &Session) -> bool {
        let state = self.shared.read();
        let attachment = session.id().and_then(|id| state.sessions.get(&**id));
        attachment.is_some_and(|attachment| attachment.parent.is_some())
    }

    /// Why nothing can be done any more.
    pub(super) fn lost(&self) -> Option<PageError> {
        let state = self.shared.read();
        if let Some(reason) = &state.lost {
            return Some(PageError::Lost { reason: reason.clone() });
        }
        match state.current() {
            Some(tab) if tab.crashed => Some(PageError::Lost { reason: "the tab has crashed".to_owned() }),
            _ => None,
        }
    }

    /// The document of the current tab, as soon as there is one.
    pub(super) async fn main_document(&self) -> Result<String, PageError> {
        let found = self.shared.find_within(self.limited(READ_LIMIT), |state| {
            if state.lost.is_some() {
                return Some(None);
            }
            let tab = state.current()?;
            if tab.crashed {
                return Some(None);
            }
            tab.frames.get(&tab.target)?.context.clone().map(Some)
        });
        match found.await {
            Some(Some(document)) => Ok(document),
            Some(None) => Err(self.lost().unwrap_or_else(no_document)),
            None => Err(no_document()),
        }
    }

    /// Reads something of the current tab's document, or of the new one if the document is replaced meanwhile.
    pub(super) async fn read<R: DeserializeOwned>(
        &self,
        function: &'static str,
        arguments: Value,
    ) -> Result<R, PageError> {
        let reading = async || {
            let document = self.main_document().await?;
            self.script(&document, function, arguments.clone(), READ_LIMIT).await
        };
        self.repeated(reading).await
    }

    /// Repeats a read as long as its documents go away meanwhile. Not for anything that changes the page.
    pub(super) async fn repeated<R, F>(&self, reading: impl Fn() -> F) -> Result<R, PageError>
    where
        F: Future<Output = Result<R, Failure>>,
    {
        let repeating = async {
            loop {
                let version = self.shared.version();
                match reading().await {
                    Ok(result) => return Ok(result),
                    Err(Failure::Page(error)) => return Err(error),
                    // The event about the document that replaces it may still be on its way.
                    Err(Failure::Gone) => {
                        if let Some(lost) = self.lost() {
                            return Err(lost);
                        }
                        self.shared.changed_since(version).await;
                    }
                }
            }
        };
        match within(self.limited(READ_LIMIT), repeating).await {
            Some(result) => result,
            None => Err(PageError::Unanswered { waiting_for: "a document that stays", limit: READ_LIMIT }),
        }
    }
}

fn no_document() -> PageError {
    PageError::Unanswered { waiting_for: "a document", limit: READ_LIMIT }
}

/// The arguments are written into the expression, which JSON allows: the browser reads them faster than arguments of a
/// function.
fn call_script(
    session: &Session,
    document: &DocumentId,
    function: &'static str,
    arguments: &Value,
) -> Reply<Evaluated<String>> {
    let params = json!({
        "expression": format!("{OBJECT}.{}({function:?},{arguments})", function::ANSWER),
        "uniqueContextId": document,
        "returnByValue": true,
        // Awaiting a promise costs time even where the answer is there already.
        "awaitPromise": function::WAITING.contains(&function),
    });
    session.send("Runtime.evaluate", params)
}

fn call<R: DeserializeOwned>(
    session: &Session,
    document: &DocumentId,
    declaration: &str,
    arguments: &Value,
) -> Reply<Evaluated<R>> {
    let params = json!({
        "functionDeclaration": declaration,
        "arguments": [{ "value": arguments }],
        "uniqueContextId": document,
        "returnByValue": true,
        "awaitPromise": true,
    });
    session.send("Runtime.callFunctionOn", params)
}

fn value_of_json<R: DeserializeOwned>(
    function: &'static str,
    evaluated: Evaluated<String>,
) -> Result<R, Failure> {
    let text = value(function, evaluated)?;
    serde_json::from_str(&text).map_err(|error| {
        Failure::Page(PageError::Failed(format!("the script's {function} answered something else: {error}")))
    })
}

fn value<R: DeserializeOwned>(function: &'static str, evaluated: Evaluated<R>) -> Result<R, Failure> {
    if let Some(exception) = evaluated.exception_details {
        let message = exception.message();
        return Err(PageError::Failed(format!("the script's {function} failed: {message}")).into());
    }
    let nothing = || Failure::Page(PageError::Failed(format!("the script's {function} answered nothing")));
    evaluated.result.value.ok_or_else(nothing)
}
