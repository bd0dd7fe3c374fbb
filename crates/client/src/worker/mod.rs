//! The worker SDK: async functions that serve agents.
//!
//! A [`Worker`] keeps one stream to the daemon, runs its handlers in the slots that it offers, and keeps every result
//! until the daemon has confirmed it, over broken connections and restarts of the daemon. It keeps nothing on disk:
//! what a worker that dies was doing, the daemon gives to another one.
//!
//! Begin with [`Worker`] and [`Task`].
//!
//! ```no_run
//! use capataz_client::worker::{Task, Worker};
//! use serde_json::{Value, json};
//!
//! # async fn example() -> Result<(), capataz_client::ClientError> {
//! Worker::new("http://127.0.0.1:7411")
//!     .slots(4)
//!     .agent("greeter", |task: Task| async move { Ok(json!({ "hello": task.input_json::<Value>()? })) })
//!     .run()
//!     .await
//! # }
//! ```

mod leases;
mod outbox;
mod output;
mod perform;
mod session;
mod silence;
mod task;

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use capataz_contracts::{v1, validate};

use crate::{Client, ClientError};

pub use output::{TaskError, TaskOutput};
pub use task::Task;

pub(crate) type HandlerFuture = Pin<Box<dyn Future<Output = Result<TaskOutput, TaskError>> + Send>>;
pub(crate) type Handler = Arc<dyn Fn(Task) -> HandlerFuture + Send + Sync>;

/// A program that serves agents. Made step by step, then [`run`](Self::run).
#[must_use = "it does nothing unless `run` is called"]
pub struct Worker {
    endpoint: Endpoint,
    id: String,
    slots: u32,
    drain_timeout: Option<Duration>,
    agents: Vec<v1::Agent>,
    handlers: BTreeMap<String, Handler>,
}

enum Endpoint {
    Address(String),
    Client(Client),
}

impl Worker {
    /// A worker of the daemon at `endpoint`: `http://host:port` or `unix:/path/of/the.sock`.
    pub fn new(endpoint: impl Into<String>) -> Self {
        Self::of(Endpoint::Address(endpoint.into()))
    }

    /// A worker that shares a client's connection. Where the daemon falls silent on it, the worker makes one of its own.
    pub fn with_client(client: Client) -> Self {
        Self::of(Endpoint::Client(client))
    }

    fn of(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            id: default_id(),
            slots: 1,
            drain_timeout: None,
            agents: Vec::new(),
            handlers: BTreeMap::new(),
        }
    }

    /// A name that no other worker has and that stays the same for as long as the process lives; 1 to 128 letters,
    /// digits and `. _ - : @ /`. Default: host, process and a random part.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self
    }

    /// Tasks at once over all agents, 1 to 10,000; default 1.
    pub fn slots(mut self, slots: u32) -> Self {
        self.slots = slots;
        self
    }

    /// How long a worker that is told to stop waits for what it runs; default: as long as it takes. What is not done
    /// by then is dropped, and the daemon gives it to another worker.
    pub fn drain_timeout(mut self, limit: Duration) -> Self {
        self.drain_timeout = Some(limit);
        self
    }

    /// Serves the task agent `name`, with as many tasks at once as the worker has slots.
    ///
    /// The handler's future is dropped when the daemon takes the task back or when a cancelled task's grace is over.
    pub fn agent<H, A, O>(self, name: impl Into<String>, handler: H) -> Self
    where
        H: Fn(Task) -> A + Send + Sync + 'static,
        A: Future<Output = Result<O, TaskError>> + Send + 'static,
        O: Into<TaskOutput>,
    {
        let agent = v1::Agent {
            name: name.into(),
            kind: v1::AgentKind::Task as i32,
            // Filled in from the slots, which may be set later.
            max_concurrency: u32::MAX,
            ..v1::Agent::default()
        };
        self.agent_with(agent, handler)
    }

    /// Serves an agent that is described in full. Like [`agent`](Self::agent) otherwise.
    pub fn agent_with<H, A, O>(mut self, agent: v1::Agent, handler: H) -> Self
    where
        H: Fn(Task) -> A + Send + Sync + 'static,
        A: Future<Output = Result<O, TaskError>> + Send + 'static,
        O: Into<TaskOutput>,
    {
        let handler: Handler = Arc::new(move |task| {
            let answer = handler(task);
            Box::pin(async move { answer.await.map(Into::into) })
        });
        self.handlers.insert(agent.name.clone(), handler);
        self.agents.push(agent);
        self
    }

    /// Serves until the process is told to stop (ctrl-c or SIGTERM), then finishes what it runs. Told a second time, it
    /// drops what it runs.
    ///
    /// # Errors
    /// The worker is not described correctly, or the daemon refuses it for good. Broken connections are not errors.
    pub async fn run(self) -> Result<(), ClientError> {
        self.serve(told_to_stop(), async {
            told_to_stop().await;
            told_to_stop().await;
        })
        .await
    }

    /// Serves until `stop` is ready, then finishes what it runs. Where the returned future is dropped, everything that
    /// runs is dropped at once.
    ///
    /// # Errors
    /// The worker is not described correctly, or the daemon refuses it for good. Broken connections are not errors.
    pub async fn run_until(self, stop: impl Future<Output = ()>) -> Result<(), ClientError> {
        self.serve(stop, std::future::pending()).await
    }

    async fn serve(
        mut self,
        stop: impl Future<Output = ()>,
        drop_all: impl Future<Output = ()>,
    ) -> Result<(), ClientError> {
        for agent in &mut self.agents {
            agent.max_concurrency = agent.max_concurrency.min(self.slots);
        }
        let hello = v1::Hello {
            worker_id: self.id,
            agents: self.agents,
            slots: self.slots,
            held: Vec::new(),
            protocol: validate::PROTOCOL,
            browsers: Vec::new(),
        };
        let violations = validate::hello(&hello);
        if !violations.is_empty() {
            let listed: Vec<String> = violations.iter().map(ToString::to_string).collect();
            let message = format!("the worker is not described correctly: {}", listed.join("; "));
            return Err(ClientError::invalid(message, violations));
        }
        let client = match self.endpoint {
            Endpoint::Address(address) => Client::lazy(&address)?,
            Endpoint::Client(client) => client,
        };
        tokio::select! {
            ended = session::serve(client, hello, self.handlers, stop, self.drain_timeout) => ended,
            () = drop_all => Ok(()),
        }
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("id", &self.id)
            .field("slots", &self.slots)
            .field("agents", &self.agents)
            .finish_non_exhaustive()
    }
}

/// `host-process-random`, in the characters of worker ids.
fn default_id() -> String {
    #[cfg(unix)]
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    #[cfg(not(unix))]
    let host = "worker".to_owned();
    let host: String = host
        .chars()
        .filter(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-'))
        .take(64)
        .collect();
    // Each process has another random part, so a reused process id does not take over a dead worker's leases.
    format!("{host}-{}-{:08x}", std::process::id(), fastrand::u32(..))
}

async fn told_to_stop() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        match signal(SignalKind::terminate()) {
            Ok(mut terminated) => {
                tokio::select! {
                    _ = tokio::signal::ctrl_c() => {}
                    _ = terminated.recv() => {}
                }
            }
            Err(error) => {
                tracing::warn!(%error, "SIGTERM cannot be listened for");
                interrupted().await;
            }
        }
    }
    #[cfg(not(unix))]
    interrupted().await;
}

async fn interrupted() {
    if let Err(error) = tokio::signal::ctrl_c().await {
        tracing::warn!(%error, "ctrl-c cannot be listened for");
        std::future::pending::<()>().await;
    }
}
