//! A language model's server in the process of a test: it speaks both protocols, says what a script tells it to, and misbehaves
//! on demand. It writes HTTP by hand, so that an answer can be wrong in any way.
//!
//! Begin with [`TestModel::start`].
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "for tests: what is wrong is to be seen"
)]

mod say;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

pub use say::{Reply, Turn};

/// The protocol of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// `POST /v1/chat/completions`.
    OpenAi,
    /// `POST /v1/messages`.
    Anthropic,
}

/// What the server was asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    pub protocol: Protocol,
    /// Names in lower case, in their order.
    pub headers: Vec<(String, String)>,
    pub body: Value,
}

impl Asked {
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(of, _)| of == name).map(|(_, value)| value.as_str())
    }

    /// The text of the last message.
    #[must_use]
    pub fn text(&self) -> String {
        let messages = self.body["messages"].as_array().unwrap();
        messages.last().unwrap()["content"].as_str().unwrap().to_owned()
    }
}

type Answer = dyn Fn(&Asked) -> Turn + Send + Sync;

struct Shared {
    turns: Mutex<VecDeque<Turn>>,
    after: Option<Box<Answer>>,
    asked: Mutex<Vec<Asked>>,
    news: Notify,
}

/// The server. It serves until it is dropped.
pub struct TestModel {
    address: SocketAddr,
    shared: Arc<Shared>,
    serving: AbortHandle,
}

impl std::fmt::Debug for TestModel {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("TestModel").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Drop for TestModel {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl TestModel {
    /// Serves these turns in the order of the requests, one a request; after them it refuses with 418.
    pub async fn start(turns: impl IntoIterator<Item = Turn>) -> Self {
        Self::serve(turns.into_iter().collect(), None).await
    }

    /// Answers each request by what it asks.
    pub async fn answering(answer: impl Fn(&Asked) -> Turn + Send + Sync + 'static) -> Self {
        Self::serve(VecDeque::new(), Some(Box::new(answer))).await
    }

    async fn serve(turns: VecDeque<Turn>, after: Option<Box<Answer>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            turns: Mutex::new(turns),
            after,
            asked: Mutex::default(),
            news: Notify::new(),
        });
        let for_all = Arc::clone(&shared);
        let serving = tokio::spawn(async move {
            // What is spawned for a connection ends with the set.
            let mut connections = tokio::task::JoinSet::new();
            loop {
                let Ok((stream, _)) = listener.accept().await else { return };
                connections.spawn(converse(stream, Arc::clone(&for_all)));
                while connections.try_join_next().is_some() {}
            }
        });
        Self { address, shared, serving: serving.abort_handle() }
    }

    /// What a client has as the base of its addresses.
    #[must_use]
    pub fn base_url(&self, protocol: Protocol) -> String {
        match protocol {
            Protocol::OpenAi => format!("http://{}/v1", self.address),
            Protocol::Anthropic => format!("http://{}", self.address),
        }
    }

    /// All requests, in their order.
    #[must_use]
    pub fn asked(&self) -> Vec<Asked> {
        self.shared.asked.lock().unwrap().clone()
    }

    /// Waits until so many requests have come.
    pub async fn asked_at_least(&self, count: usize) -> Vec<Asked> {
        loop {
            let news = self.shared.news.notified();
            let asked = self.asked();
            if asked.len() >= count {
                return asked;
            }
            news.await;
        }
    }
}

/// One request, and its answer. The connection ends with it.
async fn converse(mut stream: TcpStream, shared: Arc<Shared>) {
    let Some(asked) = request(&mut stream).await else { return };
    let turn = match wrong_with(&asked) {
        Some(message) => Turn::status(400, "invalid_request_error", message),
        None => match (shared.turns.lock().unwrap().pop_front(), &shared.after) {
            (Some(turn), _) => turn,
            (None, Some(after)) => after(&asked),
            (None, None) => Turn::status(418, "script", "the script is over"),
        },
    };
    shared.asked.lock().unwrap().push(asked.clone());
    shared.news.notify_waiters();
    for reply in turn.replies(&asked) {
        match reply {
            Reply::Bytes(bytes) => {
                if stream.write_all(&bytes).await.is_err() {
                    return;
                }
            }
            // Until the client goes away.
            Reply::Silence => {
                let mut nothing = [0; 1];
                while !matches!(stream.read(&mut nothing).await, Ok(0) | Err(_)) {}
                return;
            }
            Reply::Endless(bytes) => while stream.write_all(&bytes).await.is_ok() {},
        }
    }
    let _ = stream.shutdown().await;
}

/// What a real server would refuse.
fn wrong_with(asked: &Asked) -> Option<&'static str> {
    let body = &asked.body;
    match asked.protocol {
        _ if !body["model"].is_string() => Some("model: Field required"),
        _ if !body["messages"].is_array() => Some("messages: Field required"),
        Protocol::Anthropic if !body["max_tokens"].is_u64() => Some("max_tokens: Field required"),
        Protocol::Anthropic if asked.header("anthropic-version").is_none() => {
            Some("anthropic-version: header is required")
        }
        _ => None,
    }
}

/// Reads a request by hand: its head, and a body of the length that it says.
async fn request(stream: &mut TcpStream) -> Option<Asked> {
    let mut bytes = Vec::new();
    let head = loop {
        let mut piece = [0; 4_096];
        let read = stream.read(&mut piece).await.ok().filter(|read| *read > 0)?;
        bytes.extend_from_slice(piece.get(..read)?);
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
    };
    let text = String::from_utf8(bytes.get(..head)?.to_vec()).ok()?;
    let mut lines = text.split("\r\n");
    let path = lines.next()?.split(' ').nth(1)?.to_owned();
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length: usize = headers
        .iter()
        .find(|(name, _)| name == "content-length")
        .and_then(|(_, value)| value.parse().ok())?;
    let mut body = bytes.split_off(head + 4);
    while body.len() < length {
        let mut piece = [0; 4_096];
        let read = stream.read(&mut piece).await.ok().filter(|read| *read > 0)?;
        body.extend_from_slice(piece.get(..read)?);
    }
    let protocol = match path.as_str() {
        "/v1/chat/completions" => Protocol::OpenAi,
        "/v1/messages" => Protocol::Anthropic,
        _ => return None,
    };
    Some(Asked { protocol, headers, body: serde_json::from_slice(&body).ok()? })
}

#[cfg(test)]
mod tests;
