//! A worker within the daemon for one agent whose answers are computed at once, such as the built-in `template` agent.
//!
//! It keeps nothing: an assignment that it loses is computed again.

use std::sync::Arc;
use std::time::Duration;

use capataz_contracts::v1::{self, connect_request::Frame as Say, connect_response::Frame as Hear};
use tokio::task::AbortHandle;

use super::shard::{Shard, WorkerSender};

/// Below the core's heartbeat, with room for a busy machine.
const HEARTBEAT: Duration = Duration::from_secs(2);

/// Computes the output of an assignment, or why there is none. Must not block.
pub type Compute = Arc<dyn Fn(&v1::Assignment) -> Result<v1::Payload, Box<v1::Error>> + Send + Sync>;

/// Serves its agent until it is dropped.
#[derive(Debug)]
pub struct BuiltinWorker {
    task: AbortHandle,
}

impl Drop for BuiltinWorker {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl BuiltinWorker {
    /// Starts serving `agent` under the worker id `name`.
    #[must_use]
    pub fn start(shard: Shard, name: &'static str, agent: v1::Agent, compute: Compute) -> Self {
        Self { task: tokio::spawn(serve(shard, name, agent, compute)).abort_handle() }
    }
}

async fn serve(shard: Shard, name: &'static str, agent: v1::Agent, compute: Compute) {
    loop {
        let slots = agent.max_concurrency;
        let (mut frames, sender) = shard.connect(slots as usize).await.split();
        let hello = v1::Hello {
            worker_id: name.to_owned(),
            agents: vec![agent.clone()],
            slots,
            held: Vec::new(),
            protocol: capataz_contracts::validate::PROTOCOL,
        };
        if !sender.send(Say::Hello(hello)).await {
            return;
        }
        let mut heartbeat = tokio::time::interval(HEARTBEAT);
        heartbeat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let alive = tokio::select! {
                frame = frames.recv() => match frame {
                    Some(Hear::Assignment(assignment)) => answer(&assignment, &compute, &sender).await,
                    Some(_) => true,
                    None => break,
                },
                _ = heartbeat.tick() => sender.send(Say::Heartbeat(v1::Heartbeat {})).await,
            };
            if !alive {
                break;
            }
        }
        // The shard is read again from the store.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn answer(assignment: &v1::Assignment, compute: &Compute, sender: &WorkerSender) -> bool {
    let lease = assignment.lease.clone();
    let frame = match compute(assignment) {
        Ok(output) => {
            Say::Completed(v1::Completed { lease, output: Some(output), ..v1::Completed::default() })
        }
        Err(error) => Say::Failed(v1::Failed { lease, error: Some(*error), log: String::new() }),
    };
    sender.send(frame).await
}
