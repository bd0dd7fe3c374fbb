//! A worker that does not keep the rules, on the bare stubs: with each new connection it forgets which leases it holds,
//! goes on with the work, and sends the results under the old leases.
//!
//! Every one of them has to be refused. What the daemon confirms to it is written down, too.

use std::collections::BTreeSet;
use std::time::Duration;

use capataz_contracts::v1::worker_service_client::WorkerServiceClient;
use capataz_contracts::v1::{
    self, connect_request::Frame as Say, connect_response::Frame as Hear, payload::Data,
};
use capataz_contracts::validate::PROTOCOL;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::Endpoint;

use crate::Outcome;
use crate::journal::{Journal, now_us};
use crate::records::{Work, WorkerRecord};
use crate::worker::WorkerOptions;
use crate::workloads::{AGENT, TaskInput, TaskOutput};

/// How long it keeps a connection.
const LIFE_MS: std::ops::Range<u64> = 700..4_000;
const HEARTBEAT: Duration = Duration::from_secs(2);

struct Forgetful<'a> {
    options: &'a WorkerOptions,
    journal: Journal,
    done_sender: mpsc::UnboundedSender<(v1::LeaseRef, Say)>,
    /// Results of work that has ended.
    done: mpsc::UnboundedReceiver<(v1::LeaseRef, Say)>,
    /// Results that nobody has confirmed.
    unconfirmed: Vec<(v1::LeaseRef, Say)>,
    /// Completed results that were sent, so that confirmations of failures are not taken for theirs.
    completed: BTreeSet<(String, u64)>,
}

pub(crate) async fn serve(options: &WorkerOptions, journal: Journal) -> Outcome<()> {
    let (done_sender, done) = mpsc::unbounded_channel();
    let mut worker = Forgetful {
        options,
        journal,
        done_sender,
        done,
        unconfirmed: Vec::new(),
        completed: BTreeSet::new(),
    };
    loop {
        match worker.connect().await {
            Ok((said, heard)) => worker.session(said, heard).await?,
            // The daemon is away.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

impl Forgetful<'_> {
    async fn connect(&self) -> Outcome<(mpsc::Sender<v1::ConnectRequest>, Streaming<v1::ConnectResponse>)> {
        let (said, frames) = mpsc::channel(256);
        let agent = v1::Agent {
            name: AGENT.to_owned(),
            kind: v1::AgentKind::Task as i32,
            max_concurrency: self.options.slots,
            ..v1::Agent::default()
        };
        let hello = v1::Hello {
            worker_id: self.options.id.clone(),
            agents: vec![agent],
            slots: self.options.slots,
            held: Vec::new(),
            protocol: PROTOCOL,
            browsers: Vec::new(),
        };
        said.send(v1::ConnectRequest { frame: Some(Say::Hello(hello)) }).await?;
        let endpoint =
            Endpoint::from_shared(self.options.addr.clone())?.connect_timeout(Duration::from_secs(2));
        let mut service = WorkerServiceClient::new(endpoint.connect().await?);
        let heard = service.connect(ReceiverStream::new(frames)).await?.into_inner();
        Ok((said, heard))
    }

    /// One connection, until it breaks or its time is over.
    async fn session(
        &mut self,
        said: mpsc::Sender<v1::ConnectRequest>,
        mut heard: Streaming<v1::ConnectResponse>,
    ) -> Outcome<()> {
        let life = tokio::time::sleep(Duration::from_millis(fastrand::u64(LIFE_MS)));
        tokio::pin!(life);
        let mut heartbeat = tokio::time::interval(HEARTBEAT);
        let say = |frame: Say| {
            let said = said.clone();
            async move { said.send(v1::ConnectRequest { frame: Some(frame) }).await.is_ok() }
        };
        loop {
            let alive = tokio::select! {
                frame = heard.next() => match frame {
                    Some(Ok(v1::ConnectResponse { frame: Some(frame) })) => match self.hear(frame).await? {
                        Answer::Nothing => true,
                        Answer::Say(frame) => say(frame).await,
                        Answer::Late => {
                            let mut alive = true;
                            for (_, late) in self.unconfirmed.clone() {
                                alive = alive && say(late).await;
                            }
                            alive
                        }
                    },
                    Some(Ok(v1::ConnectResponse { frame: None })) => true,
                    Some(Err(_)) | None => false,
                },
                Some((lease, answer)) = self.done.recv() => {
                    self.unconfirmed.push((lease, answer.clone()));
                    say(answer).await
                }
                _ = heartbeat.tick() => say(Say::Heartbeat(v1::Heartbeat {})).await,
                () = &mut life => false,
            };
            if !alive {
                return Ok(());
            }
        }
    }

    async fn hear(&mut self, frame: Hear) -> Outcome<Answer> {
        match frame {
            Hear::Welcome(_) => return Ok(Answer::Late),
            Hear::Assignment(assignment) => {
                let lease = assignment.lease.clone();
                self.begin(assignment).await?;
                return Ok(Answer::Say(Say::Ack(v1::Ack { lease })));
            }
            Hear::ResultAccepted(v1::ResultAccepted { lease: Some(lease) }) => {
                self.unconfirmed.retain(|(other, _)| *other != lease);
                if self.completed.contains(&(lease.run_id.clone(), lease.lease)) {
                    let record =
                        WorkerRecord::Accepted { at: now_us(), run: lease.run_id, lease: lease.lease };
                    self.journal.write(&record).await?;
                }
            }
            Hear::ResultRefused(v1::ResultRefusedFrame { lease: Some(lease), reason, .. }) => {
                self.unconfirmed.retain(|(other, _)| *other != lease);
                let (at, run, lease) = (now_us(), lease.run_id, lease.lease);
                self.journal.write(&WorkerRecord::Refused { at, run, lease, reason }).await?;
            }
            // Cancels and revocations are not heeded: the result comes all the same.
            _ => {}
        }
        Ok(Answer::Nothing)
    }

    async fn begin(&mut self, assignment: v1::Assignment) -> Outcome<()> {
        let Some(lease) = assignment.lease else { return Err("an assignment without a lease".into()) };
        let Some(Data::Inline(input)) = assignment.input.and_then(|input| input.data) else {
            return Err("an assignment without its input".into());
        };
        let input: TaskInput = serde_json::from_slice(&input)?;
        let work = Work {
            run: lease.run_id.clone(),
            task: assignment.task_name,
            activation: assignment.activation,
            attempt: assignment.attempt,
            lease: lease.lease,
        };
        self.journal.write(&WorkerRecord::Began { at: now_us(), work: work.clone() }).await?;
        let fails = work.attempt <= input.failures;
        if !fails {
            self.completed.insert((lease.run_id.clone(), lease.lease));
        }
        let (journal, done) = (self.journal.clone(), self.done_sender.clone());
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(input.milliseconds)).await;
            let record = WorkerRecord::Ended { at: now_us(), work, completed: !fails };
            if journal.write(&record).await.is_ok() {
                // Nobody waits for it where the process is ending.
                let _ = done.send((lease.clone(), answer(lease, input, fails)));
            }
        });
        Ok(())
    }
}

#[expect(clippy::large_enum_variant, reason = "one for each frame, moved once")]
enum Answer {
    Nothing,
    Say(Say),
    /// Everything that belongs to earlier connections.
    Late,
}

fn answer(lease: v1::LeaseRef, input: TaskInput, fails: bool) -> Say {
    let token = lease.lease;
    let (lease, log) = (Some(lease), String::new());
    if fails {
        let error = v1::Error { code: "NETWORK_ERROR".to_owned(), ..v1::Error::default() };
        return Say::Failed(v1::Failed { lease, error: Some(error), log, usage: None });
    }
    let output = serde_json::json!(TaskOutput { key: input.key, task: input.task, lease: Some(token) });
    let data = Some(Data::Inline(output.to_string().into()));
    let output = Some(v1::Payload { media_type: "application/json".to_owned(), data });
    Say::Completed(v1::Completed { lease, output, log, ..v1::Completed::default() })
}
