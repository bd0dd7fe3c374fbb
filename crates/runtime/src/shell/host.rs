//! A worker within the daemon: it speaks the protocol that every worker speaks, so that the core knows no difference. It
//! says hello, acknowledges, keeps results until they are confirmed, and comes back with its leases when the shard was
//! read again. What the work is, [`Serve`] knows.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use capataz_contracts::v1::{self, connect_request::Frame as Say, connect_response::Frame as Hear};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use super::shard::{Shard, WorkerSender};
use crate::process::Control;

/// Below the core's heartbeat, with room for a busy machine.
const HEARTBEAT: Duration = Duration::from_secs(2);
/// Progress updates that may wait; the newest counts.
const PROGRESS_BACKLOG: usize = 64;

type Key = (String, u32, u32, u64);

/// What a worker within the daemon does.
pub trait Serve: Send + Sync + 'static {
    /// The worker's id.
    fn name(&self) -> &'static str;

    /// What it serves, with its slots.
    fn agents(&self) -> Vec<v1::Agent>;

    /// Does the work of one assignment; the frame that answers it. Dropped where its lease was revoked: what it has begun
    /// ends then.
    fn perform(
        self: Arc<Self>,
        assignment: v1::Assignment,
        orders: mpsc::Receiver<Control>,
        progress: mpsc::Sender<v1::Progress>,
    ) -> impl Future<Output = Say> + Send + 'static;
}

/// Serves its agents until it is dropped; then everything that it does ends.
#[derive(Debug)]
pub struct Host {
    task: AbortHandle,
}

impl Drop for Host {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Host {
    #[must_use]
    pub fn start<W: Serve>(shard: Shard, work: Arc<W>) -> Self {
        let (progress_sender, progress) = mpsc::channel(PROGRESS_BACKLOG);
        let hosting = Hosting {
            shard,
            work,
            running: BTreeMap::new(),
            unconfirmed: BTreeMap::new(),
            ended: JoinSet::new(),
            progress_sender,
            progress,
        };
        Self { task: tokio::spawn(hosting.run()).abort_handle() }
    }
}

struct Hosting<W> {
    shard: Shard,
    work: Arc<W>,
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
    task: AbortHandle,
}

impl<W: Serve> Hosting<W> {
    async fn run(mut self) {
        loop {
            let agents = self.work.agents();
            let slots: u32 = agents.iter().map(|agent| agent.max_concurrency).sum();
            let slots = slots.clamp(1, 10_000);
            let (mut frames, sender) = self.shard.connect(slots as usize).await.split();
            if !sender.send(Say::Hello(self.hello(agents, slots))).await {
                return;
            }
            self.serve(&mut frames, &sender).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn hello(&self, agents: Vec<v1::Agent>, slots: u32) -> v1::Hello {
        let held = self.running.values().map(|running| running.lease.clone());
        let unconfirmed = self.unconfirmed.keys().map(|key| reference(key.clone()));
        v1::Hello {
            worker_id: self.work.name().to_owned(),
            agents,
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
                        running.task.abort();
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
                    running.task.abort();
                }
            }
            Hear::ResultAccepted(v1::ResultAccepted { lease })
            | Hear::ResultRefused(v1::ResultRefusedFrame { lease, .. }) => {
                if let Some(lease) = lease {
                    self.unconfirmed.remove(&key_of(&lease));
                }
            }
            // A channel within the daemon cannot be half open.
            Hear::Heartbeat(_) | Hear::DeadlineExtended(_) | Hear::Drain(_) => {}
        }
        true
    }

    fn start(&mut self, lease: v1::LeaseRef, assignment: v1::Assignment) {
        let (control, orders) = mpsc::channel(4);
        let work = Arc::clone(&self.work).perform(assignment, orders, self.progress_sender.clone());
        let answered = lease.clone();
        let task = self.ended.spawn(async move { (answered, work.await) });
        self.running.insert(key_of(&lease), Running { lease, control, task });
    }
}

fn key_of(lease: &v1::LeaseRef) -> Key {
    (lease.run_id.clone(), lease.wave, lease.task, lease.lease)
}

fn reference((run_id, wave, task, lease): Key) -> v1::LeaseRef {
    v1::LeaseRef { run_id, wave, task, lease }
}
