//! All events of a run, as they were stored.

use bytes::Bytes;
use capataz_contracts::v1;
use capataz_contracts::v1::run_service_client::RunServiceClient;
use tonic::Code;

use super::Client;
use crate::ClientError;

impl Client {
    /// All events of a run as they were stored.
    ///
    /// # Errors
    /// There is no such run, or the daemon is not reached.
    pub async fn export_run(&self, run_id: &str) -> Result<ExportStream, ClientError> {
        let request = v1::ExportRunRequest { run_id: run_id.to_owned() };
        let stream = RunServiceClient::new(self.channel()).export_run(request).await?.into_inner();
        Ok(ExportStream { stream, events: Vec::new().into_iter() })
    }
}

/// A run's events, decoded one after the other; made by [`Client::export_run`].
#[derive(Debug)]
pub struct ExportStream {
    stream: tonic::Streaming<v1::ExportRunResponse>,
    events: std::vec::IntoIter<Bytes>,
}

impl ExportStream {
    /// The next event; `None` after the last one. A broken connection is an error: begin again.
    ///
    /// # Errors
    /// The connection broke, or the log is damaged.
    pub async fn next(&mut self) -> Option<Result<v1::Event, ClientError>> {
        let encoded = self.next_encoded().await?;
        Some(encoded.and_then(|encoded| {
            prost::Message::decode(encoded)
                .map_err(|error| ClientError::with_source(Code::DataLoss, "an event cannot be read", error))
        }))
    }

    /// The next event as the bytes that were stored.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn next_encoded(&mut self) -> Option<Result<Bytes, ClientError>> {
        loop {
            if let Some(event) = self.events.next() {
                return Some(Ok(event));
            }
            match self.stream.message().await {
                Ok(Some(response)) => self.events = response.events.into_iter(),
                Ok(None) => return None,
                Err(status) => return Some(Err(status.into())),
            }
        }
    }
}
