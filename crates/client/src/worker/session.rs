//! The connection: made, kept, made again.

use std::collections::BTreeMap;
use std::future::Future;
use std::panic::resume_unwind;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use capataz_contracts::v1::worker_service_client::WorkerServiceClient;
use capataz_contracts::v1::{self, connect_response::Frame};
use capataz_contracts::validate::FRAME_MAX;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tonic::{Code, Streaming};

use super::Handler;
use super::leases::Leases;
use super::outbox::Outbox;
use super::silence::Silence;
use crate::retry::Backoff;
use crate::{Client, ClientError};

/// From the first frame to the daemon's answer.
const WELCOME_TIMEOUT: Duration = Duration::from_secs(10);
/// What the daemon gets to close its side.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

struct Connector {
    leases: Arc<Leases>,
    hello: v1::Hello,
    handlers: BTreeMap<String, Handler>,
}

/// How a connection ended that had been made.
enum Ended {
    /// The daemon, or something between, closed it.
    Broken(ClientError),
    /// Nothing was heard for too long. Nobody has closed the connection, so that it must not be used again.
    Silent(ClientError),
    /// The worker closed it because somebody shuts down and nothing is held.
    Closed,
}

pub(super) async fn serve(
    client: Client,
    hello: v1::Hello,
    handlers: BTreeMap<String, Handler>,
    stop: impl Future<Output = ()>,
    drain_timeout: Option<Duration>,
) -> Result<(), ClientError> {
    let leases = Arc::new(Leases::new(client, hello.slots));
    let _abandon = Abandon(Arc::clone(&leases));
    let connector = Connector { leases: Arc::clone(&leases), hello, handlers };
    let stopped = Notify::new();
    let mut stop = pin!(stop);
    // A task of its own: where a program waits for the worker in its main function, each frame would otherwise go to that
    // thread and back. It ends with this future.
    let mut serving = JoinSet::new();
    serving.spawn(async move { connector.serve().await });
    let mut too_late = pin!(async {
        stopped.notified().await;
        match drain_timeout {
            Some(limit) => tokio::time::sleep(limit).await,
            None => std::future::pending().await,
        }
    });
    let mut is_stopping = false;
    loop {
        tokio::select! {
            ended = serving.join_next() => return match ended {
                Some(Ok(ended)) => ended,
                Some(Err(error)) if error.is_panic() => resume_unwind(error.into_panic()),
                // The runtime shuts down.
                Some(Err(_)) | None => Ok(()),
            },
            () = &mut stop, if !is_stopping => {
                is_stopping = true;
                if !leases.stop() {
                    return Ok(());
                }
                stopped.notify_one();
            }
            () = &mut too_late => {
                tracing::warn!("what still runs is dropped: the time to finish it is over");
                return Ok(());
            }
        }
    }
}

/// Nothing runs on when the worker is gone.
struct Abandon(Arc<Leases>);

impl Drop for Abandon {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

impl Connector {
    /// Ends when the worker was told to stop and holds nothing any more, or when the daemon refuses it for good.
    async fn serve(&self) -> Result<(), ClientError> {
        let mut backoff = Backoff::default();
        loop {
            let began = Instant::now();
            let ended = self.session().await;
            self.leases.disconnected();
            let delay = match ended {
                Ok(Ended::Closed) => Backoff::MAX_DELAY,
                Ok(Ended::Silent(error)) => {
                    self.leases.redial();
                    let delay = backoff.delay(None);
                    tracing::warn!(%error, ?delay, "the connection to the daemon is given up");
                    delay
                }
                Ok(Ended::Broken(error)) => {
                    self.heed(&error);
                    // One that breaks at once, again and again, is not to be made ever faster.
                    if began.elapsed() > Backoff::MAX_DELAY {
                        backoff.reset();
                    }
                    let delay = backoff.delay(error.retry_after());
                    tracing::warn!(%error, ?delay, "the connection to the daemon broke");
                    delay
                }
                Err(error) if error.is_permanent() => return Err(error),
                Err(error) => {
                    let delay = backoff.delay(error.retry_after());
                    tracing::warn!(%error, ?delay, "no connection to the daemon");
                    delay
                }
            };
            if self.leases.is_stopping() && self.leases.is_empty() {
                return Ok(());
            }
            tokio::time::sleep(delay).await;
        }
    }

    /// What is refused for good is not said again.
    fn heed(&self, error: &ClientError) {
        if error.code() == Some("FRAME_TOO_LARGE") {
            let limit = error.metadata("limit").and_then(|limit| limit.parse().ok());
            self.leases.shrink(limit.unwrap_or(FRAME_MAX));
        }
    }

    /// One connection, from hello to its end. An error is one before the daemon's welcome.
    async fn session(&self) -> Result<Ended, ClientError> {
        let session = self.leases.begin(self.hello.clone());
        let outbox = Outbox::new(Arc::clone(&self.leases), session);
        let Ok(connected) = timeout(WELCOME_TIMEOUT, self.connect(outbox)).await else {
            let message = "the daemon does not answer the worker's hello";
            return Ok(Ended::Silent(ClientError::new(Code::Unavailable, message)));
        };
        let (mut inbound, welcome) = connected?;
        tracing::debug!(reattached = welcome.reattached.len(), "the daemon welcomes the worker");
        let mut silence = Silence::new(&welcome);
        self.leases.welcomed(welcome);
        // A moment before the welcome at which the worker was told to stop counts, too.
        while !self.leases.must_close() {
            let mut poked = pin!(self.leases.poked.notified());
            tokio::select! {
                biased;
                received = inbound.message() => match received {
                    Ok(Some(response)) => {
                        silence.broken();
                        // A frame of a kind that this version does not know is one, too.
                        if let Some(frame) = response.frame
                            && let Err(error) = self.handle(frame)
                        {
                            return Ok(Ended::Broken(error));
                        }
                    }
                    Ok(None) => return Ok(Ended::Broken(closed())),
                    Err(status) => return Ok(Ended::Broken(status.into())),
                },
                () = &mut poked => {}
                limit = silence.too_long() => return Ok(Ended::Silent(silent(limit))),
            }
        }
        // The goodbye is not cut off by leaving first.
        let _ = timeout(CLOSE_TIMEOUT, async { while let Ok(Some(_)) = inbound.message().await {} }).await;
        Ok(Ended::Closed)
    }

    async fn connect(
        &self,
        outbox: Outbox,
    ) -> Result<(Streaming<v1::ConnectResponse>, v1::Welcome), ClientError> {
        let mut service = WorkerServiceClient::new(self.leases.client().channel());
        let mut inbound = service.connect(outbox).await?.into_inner();
        match inbound.message().await?.and_then(|response| response.frame) {
            Some(Frame::Welcome(welcome)) => Ok((inbound, welcome)),
            Some(_) => Err(ClientError::new(Code::Internal, "the daemon's first frame is not a welcome")),
            None => Err(closed()),
        }
    }

    fn handle(&self, frame: Frame) -> Result<(), ClientError> {
        match frame {
            Frame::Assignment(assignment) => {
                let handler = self.handlers.get(&assignment.agent);
                if !self.leases.assigned(assignment, handler) {
                    let message = "the daemon sends assignments without reading their answers";
                    return Err(ClientError::new(Code::Internal, message));
                }
            }
            Frame::Cancel(cancel) => {
                if let Some(task) = self.leases.running(cancel.lease.as_ref()) {
                    let grace = u64::try_from(cancel.grace_ms).unwrap_or_default();
                    task.cancel(cancel.reason(), Duration::from_millis(grace));
                }
            }
            Frame::DeadlineExtended(extended) => {
                if let Some(task) = self.leases.running(extended.lease.as_ref()) {
                    task.deadline_extended(extended.remaining_ms, extended.cancel_withdrawn);
                }
            }
            Frame::ResultAccepted(accepted) => self.leases.confirmed(accepted.lease),
            Frame::ResultRefused(refused) => {
                tracing::debug!(reason = refused.reason().as_str_name(), "a result was refused");
                self.leases.confirmed(refused.lease);
            }
            Frame::LeaseRevoked(revoked) => self.leases.revoked(revoked.lease),
            Frame::Drain(_) => self.leases.daemon_drains(),
            // A worker of this SDK has no browsers.
            Frame::Welcome(_) | Frame::Heartbeat(_) | Frame::KeepBrowser(_) => {}
        }
        Ok(())
    }
}

fn closed() -> ClientError {
    ClientError::new(Code::Unavailable, "the daemon closed the connection")
}

fn silent(limit: Duration) -> ClientError {
    ClientError::new(Code::Unavailable, format!("the daemon has been silent for {limit:?}"))
}
