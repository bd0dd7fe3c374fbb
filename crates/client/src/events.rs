//! The event stream that survives broken connections.

use std::time::Duration;

use bytes::Bytes;
use capataz_contracts::v1;
use capataz_contracts::v1::event_service_client::EventServiceClient;
use tokio::time::Instant;
use tonic::Code;

use crate::retry::Backoff;
use crate::{Client, ClientError};

/// What an [`EventStream`] yields.
#[expect(clippy::large_enum_variant, reason = "most deliveries are events")]
#[derive(Clone, Debug)]
pub enum Delivery {
    /// A durable event.
    Event {
        /// The run whose event it is.
        run_id: String,
        /// The event.
        event: v1::Event,
        /// Resume after this event.
        cursor: Bytes,
        /// It is a copy of an event of the run that this one was forked from.
        inherited: bool,
    },
    /// Events that are damaged in the daemon's log, in their place. A stream of one run ends with an error instead.
    Damaged(v1::DamagedEvents),
    /// History ends here; what follows is live. Comes again after each reconnection.
    CaughtUp,
    /// The state of running work; not durable, and only where the request asks for it.
    Progress(v1::ProgressFrame),
    /// The connection broke. The stream goes on by itself, after `delay`, without a gap.
    Reconnecting {
        /// Why.
        error: ClientError,
        /// Until the next attempt.
        delay: Duration,
    },
}

/// Every event after a cursor exactly once, in order; made by [`Client::subscribe`].
///
/// A broken connection is taken up again after the event that was delivered last, without limit of time. The stream
/// ends when the daemon ends one that was asked for with `until_finished`, and after an error that would only repeat
/// itself: an invalid request, a run that is not there, a cursor older than what is kept, a lack of permission.
#[derive(Debug)]
#[must_use = "it does nothing unless `next` is called"]
pub struct EventStream {
    client: Client,
    request: v1::SubscribeRequest,
    cursor: Bytes,
    connection: Connection,
    batch: Batch,
    backoff: Backoff,
}

#[derive(Debug)]
enum Connection {
    /// To be made, not before a moment if there is one.
    Due(Option<Instant>),
    Open(Box<tonic::Streaming<v1::SubscribeResponse>>),
    Ended,
}

/// What is left of the newest response.
#[derive(Debug, Default)]
struct Batch {
    events: std::vec::IntoIter<v1::DeliveredEvent>,
    damaged: std::vec::IntoIter<v1::DamagedEvents>,
    cursor: Bytes,
    caught_up: bool,
    progress: std::vec::IntoIter<v1::ProgressFrame>,
}

impl From<v1::SubscribeResponse> for Batch {
    fn from(response: v1::SubscribeResponse) -> Self {
        Self {
            events: response.events.into_iter(),
            damaged: response.damaged.into_iter(),
            cursor: response.cursor,
            caught_up: response.caught_up,
            progress: response.progress.into_iter(),
        }
    }
}

impl EventStream {
    pub(crate) fn new(client: Client, request: v1::SubscribeRequest) -> Self {
        Self {
            client,
            cursor: request.cursor.clone(),
            request,
            connection: Connection::Due(None),
            batch: Batch::default(),
            backoff: Backoff::default(),
        }
    }

    /// Where another subscription goes on without losing or repeating what this one has delivered.
    #[must_use]
    pub fn cursor(&self) -> &Bytes {
        &self.cursor
    }

    /// What comes next; `None` when the stream has ended. Dropping the future loses nothing.
    ///
    /// # Errors
    /// The daemon refuses the subscription, or its log is damaged. The stream has ended then.
    pub async fn next(&mut self) -> Option<Result<Delivery, ClientError>> {
        loop {
            if let Some(delivery) = self.next_of_batch() {
                return Some(delivery);
            }
            let received = match &mut self.connection {
                Connection::Ended => return None,
                Connection::Due(at) => {
                    if let Some(at) = *at {
                        tokio::time::sleep_until(at).await;
                    }
                    self.connect().await
                }
                Connection::Open(stream) => match stream.message().await {
                    Ok(Some(response)) => {
                        self.batch = response.into();
                        self.backoff.reset();
                        Ok(())
                    }
                    Ok(None) if self.request.until_finished => {
                        self.connection = Connection::Ended;
                        return None;
                    }
                    Ok(None) => Err(ClientError::new(Code::Unavailable, "the daemon ended the stream")),
                    Err(status) => Err(status.into()),
                },
            };
            if let Err(error) = received {
                return Some(self.failed(error));
            }
        }
    }

    fn next_of_batch(&mut self) -> Option<Result<Delivery, ClientError>> {
        if let Some(delivered) = self.batch.events.next() {
            let event = match delivered.decode_event() {
                Ok(event) => event,
                Err(error) => {
                    self.connection = Connection::Ended;
                    self.batch = Batch::default();
                    let message = format!("an event of run {} cannot be read", delivered.run_id);
                    return Some(Err(ClientError::with_source(Code::DataLoss, message, error)));
                }
            };
            if !delivered.cursor.is_empty() {
                self.cursor = delivered.cursor.clone();
            }
            let v1::DeliveredEvent { run_id, cursor, inherited, .. } = delivered;
            return Some(Ok(Delivery::Event { run_id, event, cursor, inherited }));
        }
        let damaged = self.batch.damaged.next();
        if self.batch.damaged.len() == 0 {
            // Whoever resumes here has been told of all that is damaged before.
            let cursor = std::mem::take(&mut self.batch.cursor);
            if !cursor.is_empty() {
                self.cursor = cursor;
            }
        }
        if let Some(damaged) = damaged {
            return Some(Ok(Delivery::Damaged(damaged)));
        }
        if std::mem::take(&mut self.batch.caught_up) {
            return Some(Ok(Delivery::CaughtUp));
        }
        self.batch.progress.next().map(|frame| Ok(Delivery::Progress(frame)))
    }

    async fn connect(&mut self) -> Result<(), ClientError> {
        let mut request = self.request.clone();
        // A cursor says where to begin; the daemon refuses it together with `from_now`.
        request.from_now &= self.cursor.is_empty();
        request.cursor = self.cursor.clone();
        let stream = EventServiceClient::new(self.client.channel()).subscribe(request).await?.into_inner();
        self.connection = Connection::Open(Box::new(stream));
        Ok(())
    }

    fn failed(&mut self, error: ClientError) -> Result<Delivery, ClientError> {
        if error.is_permanent() {
            self.connection = Connection::Ended;
            return Err(error);
        }
        let delay = self.backoff.delay(error.retry_after());
        self.connection = Connection::Due(Some(Instant::now() + delay));
        Ok(Delivery::Reconnecting { error, delay })
    }
}
