//! A connection to the daemon. What it is asked for is in a module for each service.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use capataz_contracts::trace::TraceContext;
use capataz_contracts::v1;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Response, Status};
use uuid::Uuid;

use crate::retry::Attempts;
use crate::{ClientError, EventStream, RetryOptions};

mod agents;
mod blobs;
mod export;
mod memory;
mod modes;
mod pipelines;
mod router;
mod runs;
mod sessions;

pub use export::ExportStream;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A peer that is gone without a word is noticed after the sum of the two.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection to one daemon. Clones are cheap and share it; it is made again by itself when it breaks.
///
/// Calls that carry an idempotency key or a `request_id` are repeated as [`RetryOptions`] say; all others are made
/// once, except [`wait_run`](Self::wait_run) and [`put_blob`](Self::put_blob), which can be repeated as they are.
#[derive(Clone, Debug)]
pub struct Client {
    endpoint: Arc<Endpoint>,
    channel: Channel,
    pub(crate) retry: RetryOptions,
    /// What runs that are started are part of.
    traceparent: Option<MetadataValue<Ascii>>,
}

impl Client {
    /// Connects to `http://host:port` or `unix:/path/of/the.sock`. Without a scheme it is taken as `http`.
    ///
    /// # Errors
    /// The endpoint is not an address, or nobody listens there.
    pub async fn connect(endpoint: &str) -> Result<Self, ClientError> {
        let endpoint = transport(endpoint)?;
        let channel = endpoint.connect().await?;
        Ok(Self { endpoint: Arc::new(endpoint), channel, retry: RetryOptions::default(), traceparent: None })
    }

    /// Connects with the first call. Must be called within a Tokio runtime.
    ///
    /// # Errors
    /// The endpoint is not an address.
    pub fn lazy(endpoint: &str) -> Result<Self, ClientError> {
        let endpoint = transport(endpoint)?;
        let channel = endpoint.connect_lazy();
        Ok(Self { endpoint: Arc::new(endpoint), channel, retry: RetryOptions::default(), traceparent: None })
    }

    /// The same client over a connection of its own, which is made with the first call.
    pub(crate) fn over_new_connection(&self) -> Self {
        Self { channel: self.endpoint.connect_lazy(), ..self.clone() }
    }

    /// How calls with a key are repeated.
    #[must_use]
    pub fn with_retry(mut self, retry: RetryOptions) -> Self {
        self.retry = retry;
        self
    }

    /// The runs that are started from here on belong to this span of the caller, a `traceparent` of W3C Trace Context. One
    /// that is none is ignored: the runs begin traces of their own.
    #[must_use]
    pub fn with_traceparent(mut self, traceparent: &str) -> Self {
        let context = TraceContext::parse(traceparent);
        self.traceparent = context.and_then(|context| context.to_string().parse().ok());
        self
    }

    /// The request, with the span that it belongs to.
    pub(crate) fn traced<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(traceparent) = &self.traceparent {
            request.metadata_mut().insert("traceparent", traceparent.clone());
        }
        request
    }

    /// The connection, for services that this crate has no methods for.
    #[must_use]
    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// Subscribes to events. Nothing is sent before the first [`EventStream::next`].
    pub fn subscribe(&self, request: v1::SubscribeRequest) -> EventStream {
        EventStream::new(self.clone(), request)
    }
}

/// Makes a call, and makes it again with the same request where it is safe and may help.
pub(crate) async fn repeated<Q, R, F, A>(
    retry: &RetryOptions,
    keyed: bool,
    request: Q,
    call: F,
) -> Result<R, ClientError>
where
    Q: Clone,
    F: Fn(Q) -> A,
    A: Future<Output = Result<Response<R>, Status>>,
{
    if !keyed {
        return Ok(call(request).await?.into_inner());
    }
    let mut attempts = Attempts::new(retry);
    loop {
        match call(request.clone()).await {
            Ok(response) => return Ok(response.into_inner()),
            Err(status) => attempts.after(status.into()).await?,
        }
    }
}

fn transport(endpoint: &str) -> Result<Endpoint, ClientError> {
    let invalid = |message: String| ClientError::new(Code::InvalidArgument, message);
    let is_socket = endpoint.starts_with("unix:");
    let address = if is_socket || endpoint.contains("://") {
        endpoint.to_owned()
    } else {
        format!("http://{endpoint}")
    };
    if !is_socket && !address.starts_with("http://") {
        return Err(invalid(format!("`{endpoint}`: endpoints are `http://host:port` or `unix:/path`")));
    }
    let mut transport = Endpoint::from_shared(address)
        .map_err(|error| ClientError::with_source(Code::InvalidArgument, format!("`{endpoint}`"), error))?;
    if is_socket {
        // The daemon refuses hosts that are not local names.
        transport = transport.origin(tonic::codegen::http::Uri::from_static("http://localhost"));
    } else if transport.uri().host().is_none_or(str::is_empty) {
        return Err(invalid(format!("`{endpoint}` names no host")));
    }
    Ok(transport
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEP_ALIVE_INTERVAL)
        .keep_alive_timeout(KEEP_ALIVE_TIMEOUT))
}

pub(crate) fn fill(request_id: &mut String) {
    if request_id.is_empty() {
        *request_id = Uuid::now_v7().to_string();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn endpoints() {
        for valid in [
            "http://127.0.0.1:7411",
            "localhost:7411",
            "[::1]:7411",
            "unix:/run/c.sock",
            "unix:///run/c.sock",
        ] {
            assert!(Client::lazy(valid).is_ok(), "{valid}");
        }
        for invalid in ["", "http://", "https://example.org", "ftp://x", "http://a b"] {
            let error = Client::lazy(invalid).err().map(|error| error.grpc_code());
            assert_eq!(error, Some(Code::InvalidArgument), "{invalid}");
        }
    }
}
