//! Process agents: one command for each assignment.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use capataz_contracts::v1::{self, connect_request::Frame as Say, payload::Data};
use capataz_contracts::validate::INLINE_MAX;
use capataz_store::{BlobHash, Store};
use tokio::sync::mpsc;

use super::host::Serve;
use crate::process::{self, Control, Output, ProcessAgent, ProcessContext, ProcessOutcome};

/// The process agents' worker.
pub const HOST_WORKER: &str = "capataz-process-host";

/// Bytes of a command's log that are kept with its task.
const LOG_BYTES: usize = 16 * 1024;

/// Serves the process agents of the configuration.
pub struct ProcessAgents {
    agents: BTreeMap<String, Arc<ProcessAgent>>,
    context: ProcessContext,
    store: Arc<dyn Store>,
}

impl fmt::Debug for ProcessAgents {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ProcessAgents")
            .field("agents", &self.agents)
            .field("context", &self.context)
            .finish_non_exhaustive()
    }
}

impl ProcessAgents {
    /// The agents were validated.
    #[must_use]
    pub fn new(agents: Vec<ProcessAgent>, context: ProcessContext, store: Arc<dyn Store>) -> Arc<Self> {
        let agents = agents.into_iter().map(|agent| (agent.name.clone(), Arc::new(agent))).collect();
        Arc::new(Self { agents, context, store })
    }
}

impl Serve for ProcessAgents {
    fn name(&self) -> &'static str {
        HOST_WORKER
    }

    fn agents(&self) -> Vec<v1::Agent> {
        let agents = self.agents.values().map(|agent| v1::Agent {
            name: agent.name.clone(),
            category: agent.category.clone(),
            kind: v1::AgentKind::Task as i32,
            contract_version: "1.0.0".to_owned(),
            max_concurrency: agent.max_concurrency,
            ..v1::Agent::default()
        });
        agents.collect()
    }

    async fn perform(
        self: Arc<Self>,
        assignment: v1::Assignment,
        orders: mpsc::Receiver<Control>,
        progress: mpsc::Sender<v1::Progress>,
    ) -> Say {
        let agent = self.agents.get(&assignment.agent).cloned();
        execute(agent, &self.context, &self.store, assignment, orders, progress).await
    }
}

/// Runs the command of one assignment; the frame that answers it.
async fn execute(
    agent: Option<Arc<ProcessAgent>>,
    context: &ProcessContext,
    store: &Arc<dyn Store>,
    assignment: v1::Assignment,
    orders: mpsc::Receiver<Control>,
    progress: mpsc::Sender<v1::Progress>,
) -> Say {
    let lease = assignment.lease.clone();
    let Some(agent) = agent else {
        let error = failure(
            "AGENT_COMMAND_NOT_STARTED",
            format!("agent {:?} is not configured any more", assignment.agent),
        );
        return Say::Failed(v1::Failed { lease, error: Some(error), log: String::new() });
    };
    let input = match read_input(store, assignment.input).await {
        Ok(input) => input,
        Err(message) => {
            let error = Some(failure("INPUT_UNRESOLVED", message));
            return Say::Failed(v1::Failed { lease, error, log: String::new() });
        }
    };
    let of_lease = lease.clone();
    let report = move |update: process::ProgressUpdate| {
        let _ = progress.try_send(v1::Progress {
            lease: of_lease.clone(),
            fraction: None,
            message: Some(update.line),
            partial_output: None,
        });
    };
    match process::run(&agent, context, input, orders, report).await {
        ProcessOutcome::Completed { output, log } => match payload(store, output).await {
            Ok(output) => Say::Completed(v1::Completed {
                lease,
                output: Some(output),
                log: text(&log),
                ..v1::Completed::default()
            }),
            Err(message) => {
                Say::Failed(v1::Failed { lease, error: Some(failure("API_ERROR", message)), log: text(&log) })
            }
        },
        ProcessOutcome::Failed { error, log } => {
            Say::Failed(v1::Failed { lease, error: Some(*error), log: text(&log) })
        }
        ProcessOutcome::Cancelled { partial, log } => {
            let partial_output = match partial {
                Some(partial) => payload(store, partial).await.ok(),
                None => None,
            };
            Say::Cancelled(v1::Cancelled { lease, partial_output, log: text(&log) })
        }
    }
}

async fn read_input(store: &Arc<dyn Store>, input: Option<v1::Payload>) -> Result<Bytes, String> {
    match input.and_then(|input| input.data) {
        None => Ok(Bytes::from_static(b"null")),
        Some(Data::Inline(bytes)) => Ok(bytes),
        Some(Data::Blob(blob)) => {
            let hash = crate::core::blob_hash(&blob).ok_or("the input's blob reference is no hash")?;
            let store = Arc::clone(store);
            let length = usize::try_from(blob.size).unwrap_or(usize::MAX);
            let read = tokio::task::spawn_blocking(move || store.read_blob(hash, 0, length)).await;
            match read {
                Ok(Ok(Some(bytes))) => Ok(bytes),
                Ok(Ok(None)) => Err(format!("blob {} is gone", blob.blake3)),
                Ok(Err(error)) => Err(error.to_string()),
                Err(error) => Err(error.to_string()),
            }
        }
    }
}

/// Inline where it is small, else a blob that is durable before anything names it.
async fn payload(store: &Arc<dyn Store>, output: Output) -> Result<v1::Payload, String> {
    let Output { media_type, bytes } = output;
    if bytes.len() <= INLINE_MAX {
        return Ok(v1::Payload { media_type, data: Some(Data::Inline(bytes)) });
    }
    let size = bytes.len() as u64;
    let store = Arc::clone(store);
    let now = capataz_store::Millis(super::now().0);
    let put = tokio::task::spawn_blocking(move || store.put_blob(&bytes, now)).await;
    let hash = put.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
    Ok(v1::Payload { media_type, data: Some(Data::Blob(v1::BlobRef { blake3: hex(hash), size })) })
}

/// Lower-case hexadecimal.
#[must_use]
pub fn hex(hash: BlobHash) -> String {
    use std::fmt::Write;
    hash.0.iter().fold(String::with_capacity(64), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The end of a log that is kept with the task.
fn text(log: &Bytes) -> String {
    let kept = log.slice(log.len().saturating_sub(LOG_BYTES)..);
    String::from_utf8_lossy(&kept).into_owned()
}

fn failure(code: &str, message: String) -> v1::Error {
    v1::Error { code: code.to_owned(), message, ..v1::Error::default() }
}
