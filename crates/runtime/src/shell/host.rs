//! The daemon's own worker: it serves the process agents of the configuration, one command for each assignment.
//!
//! It speaks the protocol that every worker speaks, so that the core knows no difference: it says hello, acknowledges,
//! keeps results until they are confirmed, and comes back with its leases when the shard was read again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use capataz_contracts::v1::{
    self, connect_request::Frame as Say, connect_response::Frame as Hear, payload::Data,
};
use capataz_contracts::validate::INLINE_MAX;
use capataz_store::{BlobHash, Store};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use super::shard::{Shard, WorkerSender};
use crate::process::{self, Control, Output, ProcessAgent, ProcessContext, ProcessOutcome};

/// The host's name as a worker.
pub const HOST_WORKER: &str = "capataz-process-host";

/// Below the core's heartbeat, with room for a busy machine.
const HEARTBEAT: Duration = Duration::from_secs(2);
/// Bytes of a command's log that are kept with its task.
const LOG_BYTES: usize = 16 * 1024;
/// Progress lines that may wait; the newest counts.
const PROGRESS_BACKLOG: usize = 64;

type Key = (String, u32, u32, u64);

/// Serves process agents until it is dropped; then every command ends.
#[derive(Debug)]
pub struct ProcessHost {
    task: AbortHandle,
}

impl Drop for ProcessHost {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ProcessHost {
    /// Starts serving. The agents were validated.
    #[must_use]
    pub fn start(shard: Shard, agents: Vec<ProcessAgent>, context: ProcessContext) -> Self {
        let (progress_sender, progress) = mpsc::channel(PROGRESS_BACKLOG);
        let host = Host {
            shard,
            agents: agents.into_iter().map(|agent| (agent.name.clone(), Arc::new(agent))).collect(),
            context,
            running: BTreeMap::new(),
            unconfirmed: BTreeMap::new(),
            ended: JoinSet::new(),
            progress_sender,
            progress,
        };
        Self { task: tokio::spawn(host.run()).abort_handle() }
    }
}

struct Host {
    shard: Shard,
    agents: BTreeMap<String, Arc<ProcessAgent>>,
    context: ProcessContext,
    running: BTreeMap<Key, Running>,
    /// Answers that nobody has confirmed.
    unconfirmed: BTreeMap<Key, Say>,
    ended: JoinSet<(v1::LeaseRef, Say)>,
    progress_sender: mpsc::Sender<v1::Progress>,
    progress: mpsc::Receiver<v1::Progress>,
}

struct Running {
    lease: v1::LeaseRef,
    control: mpsc::Sender<Control>,
    command: AbortHandle,
}

impl Host {
    async fn run(mut self) {
        loop {
            let slots: u32 = self.agents.values().map(|agent| agent.max_concurrency).sum();
            let slots = slots.clamp(1, 10_000);
            let (mut frames, sender) = self.shard.connect(slots as usize).await.split();
            if !sender.send(Say::Hello(self.hello(slots))).await {
                return;
            }
            self.serve(&mut frames, &sender).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn hello(&self, slots: u32) -> v1::Hello {
        let agents = self.agents.values().map(|agent| v1::Agent {
            name: agent.name.clone(),
            category: agent.category.clone(),
            kind: v1::AgentKind::Task as i32,
            contract_version: "1.0.0".to_owned(),
            max_concurrency: agent.max_concurrency,
            ..v1::Agent::default()
        });
        let held = self.running.values().map(|running| running.lease.clone());
        let unconfirmed = self.unconfirmed.keys().map(|key| reference(key.clone()));
        v1::Hello {
            worker_id: HOST_WORKER.to_owned(),
            agents: agents.collect(),
            slots,
            held: held.chain(unconfirmed).collect(),
            protocol: capataz_contracts::validate::PROTOCOL,
        }
    }

    /// One connection, to its end.
    async fn serve(&mut self, frames: &mut mpsc::Receiver<Hear>, sender: &WorkerSender) {
        let mut heartbeat = tokio::time::interval(HEARTBEAT);
        heartbeat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let alive = tokio::select! {
                frame = frames.recv() => match frame {
                    Some(frame) => self.hear(frame, sender).await,
                    None => return,
                },
                Some(ended) = self.ended.join_next() => match ended {
                    Ok((lease, answer)) => {
                        let key = key_of(&lease);
                        self.running.remove(&key);
                        self.unconfirmed.insert(key, answer.clone());
                        sender.send(answer).await
                    }
                    // Aborted: its lease was revoked.
                    Err(_) => true,
                },
                Some(progress) = self.progress.recv() => sender.send(Say::Progress(progress)).await,
                _ = heartbeat.tick() => sender.send(Say::Heartbeat(v1::Heartbeat {})).await,
            };
            if !alive {
                return;
            }
        }
    }

    async fn hear(&mut self, frame: Hear, sender: &WorkerSender) -> bool {
        match frame {
            Hear::Welcome(welcome) => {
                let kept: Vec<Key> = welcome.reattached.iter().map(key_of).collect();
                self.running.retain(|key, running| {
                    let keeps = kept.contains(key);
                    if !keeps {
                        running.command.abort();
                    }
                    keeps
                });
                for answer in self.unconfirmed.values() {
                    if !sender.send(answer.clone()).await {
                        return false;
                    }
                }
            }
            Hear::Assignment(assignment) => {
                let Some(lease) = assignment.lease.clone() else { return true };
                if !self.running.contains_key(&key_of(&lease)) {
                    self.start(lease.clone(), assignment);
                }
                return sender.send(Say::Ack(v1::Ack { lease: Some(lease) })).await;
            }
            Hear::Cancel(cancel) => {
                let grace = Duration::from_millis(u64::try_from(cancel.grace_ms).unwrap_or(0));
                if let Some(running) = cancel.lease.and_then(|lease| self.running.get(&key_of(&lease))) {
                    let _ = running.control.try_send(Control::Cancel { grace });
                }
            }
            Hear::LeaseRevoked(revoked) => {
                if let Some(running) = revoked.lease.and_then(|lease| self.running.remove(&key_of(&lease))) {
                    running.command.abort();
                }
            }
            Hear::ResultAccepted(v1::ResultAccepted { lease })
            | Hear::ResultRefused(v1::ResultRefusedFrame { lease, .. }) => {
                if let Some(lease) = lease {
                    self.unconfirmed.remove(&key_of(&lease));
                }
            }
            Hear::DeadlineExtended(_) | Hear::Drain(_) => {}
        }
        true
    }

    fn start(&mut self, lease: v1::LeaseRef, assignment: v1::Assignment) {
        let (control, orders) = mpsc::channel(4);
        let agent = self.agents.get(&assignment.agent).cloned();
        let context = self.context.clone();
        let store = Arc::clone(self.shard.store());
        let progress = self.progress_sender.clone();
        let answered = lease.clone();
        let command = self.ended.spawn(async move {
            let answer = execute(agent, context, store, assignment, orders, progress).await;
            (answered, answer)
        });
        self.running.insert(key_of(&lease), Running { lease, control, command });
    }
}

/// Runs the command of one assignment; the frame that answers it.
async fn execute(
    agent: Option<Arc<ProcessAgent>>,
    context: ProcessContext,
    store: Arc<dyn Store>,
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
    let input = match read_input(&store, assignment.input).await {
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
    match process::run(&agent, &context, input, orders, report).await {
        ProcessOutcome::Completed { output, log } => match payload(&store, output).await {
            Ok(output) => Say::Completed(v1::Completed { lease, output: Some(output), log: text(&log) }),
            Err(message) => {
                Say::Failed(v1::Failed { lease, error: Some(failure("API_ERROR", message)), log: text(&log) })
            }
        },
        ProcessOutcome::Failed { error, log } => {
            Say::Failed(v1::Failed { lease, error: Some(*error), log: text(&log) })
        }
        ProcessOutcome::Cancelled { partial, log } => {
            let partial_output = match partial {
                Some(partial) => payload(&store, partial).await.ok(),
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

fn key_of(lease: &v1::LeaseRef) -> Key {
    (lease.run_id.clone(), lease.wave, lease.task, lease.lease)
}

fn reference((run_id, wave, task, lease): Key) -> v1::LeaseRef {
    v1::LeaseRef { run_id, wave, task, lease }
}
