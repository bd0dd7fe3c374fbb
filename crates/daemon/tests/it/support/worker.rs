//! A worker whose every frame a test decides.

use capataz_contracts::v1::worker_service_client::WorkerServiceClient;
use capataz_contracts::v1::{self, connect_request::Frame as Say, connect_response::Frame as Hear};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use super::PATIENCE;

pub struct Worker {
    said: mpsc::Sender<v1::ConnectRequest>,
    heard: Streaming<v1::ConnectResponse>,
    pub welcome: v1::Welcome,
}

/// An assignment that a worker was given.
#[derive(Clone, Debug)]
pub struct Assigned {
    pub lease: v1::LeaseRef,
    pub assignment: v1::Assignment,
}

impl Worker {
    pub async fn connect(channel: Channel, id: &str, agents: &[&str], held: Vec<v1::LeaseRef>) -> Self {
        let agents = agents.iter().map(|name| v1::Agent {
            name: (*name).to_owned(),
            category: "utility".to_owned(),
            kind: v1::AgentKind::Task as i32,
            contract_version: "1.0.0".to_owned(),
            max_concurrency: 1000,
            ..Default::default()
        });
        let hello = v1::Hello {
            worker_id: id.to_owned(),
            agents: agents.collect(),
            slots: 1000,
            held,
            protocol: 1,
            browsers: Vec::new(),
        };
        Self::with_hello(channel, hello).await.unwrap()
    }

    pub async fn with_hello(channel: Channel, hello: v1::Hello) -> Result<Self, Status> {
        let (said, frames) = mpsc::channel(256);
        said.send(v1::ConnectRequest { frame: Some(Say::Hello(hello)) }).await.unwrap();
        let heard =
            WorkerServiceClient::new(channel).connect(ReceiverStream::new(frames)).await?.into_inner();
        let mut worker = Self { said, heard, welcome: v1::Welcome::default() };
        match worker.hear().await {
            Some(Hear::Welcome(welcome)) => worker.welcome = welcome,
            other => panic!("expected a welcome, heard {other:?}"),
        }
        Ok(worker)
    }

    /// The next frame; `None` where the daemon has closed the stream.
    pub async fn hear(&mut self) -> Option<Hear> {
        let heard = tokio::time::timeout(PATIENCE, self.heard.message()).await.expect("a frame in time");
        heard.ok().flatten().and_then(|response| response.frame)
    }

    /// The status with which the daemon ends the stream; frames before it are passed over.
    pub async fn last_word(&mut self) -> Status {
        loop {
            match tokio::time::timeout(PATIENCE, self.heard.message()).await.expect("an end in time") {
                Ok(Some(_)) => {}
                Ok(None) => panic!("the stream ended without a word"),
                Err(status) => return status,
            }
        }
    }

    /// The status with which a hello is refused.
    pub async fn refusal(channel: Channel, hello: v1::Hello) -> Status {
        let (said, frames) = mpsc::channel(1);
        said.send(v1::ConnectRequest { frame: Some(Say::Hello(hello)) }).await.unwrap();
        let connected = WorkerServiceClient::new(channel).connect(ReceiverStream::new(frames)).await;
        let heard = match connected {
            Ok(response) => response.into_inner(),
            Err(status) => return status,
        };
        Self { said, heard, welcome: v1::Welcome::default() }.last_word().await
    }

    pub async fn say(&self, frame: Say) {
        let _ = self.said.send(v1::ConnectRequest { frame: Some(frame) }).await;
    }

    /// Waits until nobody takes what this worker says.
    pub async fn unheard(&self) {
        tokio::time::timeout(PATIENCE, self.said.closed()).await.expect("the daemon hangs up in time");
    }

    /// The next assignment, acknowledged. Other frames before it are passed over.
    pub async fn assignment(&mut self) -> Assigned {
        let assigned = self.unacknowledged().await;
        self.say(Say::Ack(v1::Ack { lease: Some(assigned.lease.clone()) })).await;
        assigned
    }

    /// An assignment of which the daemon knows that it has come: what nobody has acknowledged, a drain hands back.
    ///
    /// The acknowledgement has come when what the worker says next has.
    pub async fn acknowledged(&mut self) -> Assigned {
        let assigned = self.assignment().await;
        let unknown = v1::LeaseRef { lease: assigned.lease.lease + 1, ..assigned.lease.clone() };
        self.complete(&unknown, super::json(serde_json::Value::Null)).await;
        self.hear_until(|heard| matches!(heard, Hear::ResultRefused(_)).then_some(())).await;
        assigned
    }

    pub async fn unacknowledged(&mut self) -> Assigned {
        loop {
            match self.hear().await {
                Some(Hear::Assignment(assignment)) => {
                    let lease = assignment.lease.clone().unwrap();
                    return Assigned { lease, assignment };
                }
                Some(_) => {}
                None => panic!("the stream ended before an assignment came"),
            }
        }
    }

    /// As many assignments as asked for, by the names of their tasks.
    pub async fn assignments(&mut self, count: usize) -> std::collections::BTreeMap<String, Assigned> {
        let mut assigned = std::collections::BTreeMap::new();
        for _ in 0..count {
            let one = self.assignment().await;
            assigned.insert(one.assignment.task_name.clone(), one);
        }
        assigned
    }

    pub async fn complete(&self, lease: &v1::LeaseRef, output: v1::Payload) {
        self.say(Say::Completed(v1::Completed {
            lease: Some(lease.clone()),
            output: Some(output),
            ..Default::default()
        }))
        .await;
    }

    /// Answers a cancel.
    pub async fn stops(&self, lease: &v1::LeaseRef) {
        self.say(Say::Cancelled(v1::Cancelled { lease: Some(lease.clone()), ..Default::default() })).await;
    }

    pub async fn fail(&self, lease: &v1::LeaseRef, error: v1::Error) {
        self.say(Say::Failed(v1::Failed {
            lease: Some(lease.clone()),
            error: Some(error),
            ..Default::default()
        }))
        .await;
    }

    /// The next frame that `wanted` recognises; others are passed over.
    pub async fn hear_until<T>(&mut self, mut wanted: impl FnMut(&Hear) -> Option<T>) -> T {
        loop {
            match self.hear().await {
                Some(frame) => {
                    if let Some(found) = wanted(&frame) {
                        return found;
                    }
                }
                None => panic!("the stream ended before the frame came"),
            }
        }
    }
}
