//! Spans on their way to a collector, by OTLP over gRPC.

use std::error::Error as _;
use std::time::Duration;

use http::Uri;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use opentelemetry_proto::tonic::common::v1::{InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans};
use tonic::metadata::{MetadataKey, MetadataMap, MetadataValue};
use tonic::transport::{Channel, ClientTlsConfig};
use tonic::{Code, Request, Status};

use crate::span::{Attribute, Span, attribute};

/// How long one call may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(5);
/// The name of what makes the spans.
const SCOPE: &str = "capataz";

/// Why spans cannot be sent there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidEndpoint {
    /// It is not told: there may be a password in it.
    #[error("is not an address such as http://127.0.0.1:4317")]
    Address,
    #[error("the header {0:?} has a name or a value that HTTP does not allow")]
    Header(String),
    #[error("headers are sent to other machines over https only: they may be secrets")]
    Clear,
}

/// A collector, and what it is told of who sends.
#[derive(Clone, Debug)]
pub struct Endpoint {
    transport: tonic::transport::Endpoint,
    headers: MetadataMap,
    resource: Vec<(String, String)>,
}

impl Endpoint {
    /// A collector at `http://host:port` or `https://host:port`. `resource` says who sends, such as `service.name`.
    ///
    /// # Errors
    /// The address is none, a header is none, or headers would go to another machine in the clear.
    pub fn new(
        address: &str,
        headers: &[(String, String)],
        resource: Vec<(String, String)>,
    ) -> Result<Self, InvalidEndpoint> {
        let wrong = || InvalidEndpoint::Address;
        let uri: Uri = address.parse().map_err(|_| wrong())?;
        let is_plain = uri.path_and_query().is_none_or(|path| path == "/") && !address.contains('@');
        let (Some(scheme), Some(host), true) = (uri.scheme_str(), uri.host(), is_plain) else {
            return Err(wrong());
        };
        let is_near = host == "localhost"
            || host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok_and(|host| host.is_loopback());
        let is_secure = scheme == "https";
        if !is_secure && scheme != "http" {
            return Err(wrong());
        }
        if !headers.is_empty() && !is_near && !is_secure {
            return Err(InvalidEndpoint::Clear);
        }
        let mut transport = Channel::builder(uri).connect_timeout(CONNECT).timeout(PATIENCE);
        if is_secure {
            transport =
                transport.tls_config(ClientTlsConfig::new().with_native_roots()).map_err(|_| wrong())?;
        }
        Ok(Self { transport, headers: metadata(headers)?, resource })
    }

    /// The connection; it is made with the first call. Must be called within a Tokio runtime.
    pub(crate) fn channel(&self) -> Channel {
        self.transport.connect_lazy()
    }

    pub(crate) fn headers(&self) -> &MetadataMap {
        &self.headers
    }

    pub(crate) fn resource(&self) -> &[(String, String)] {
        &self.resource
    }
}

fn metadata(headers: &[(String, String)]) -> Result<MetadataMap, InvalidEndpoint> {
    let mut metadata = MetadataMap::new();
    for (name, value) in headers {
        let wrong = || InvalidEndpoint::Header(name.clone());
        let key = MetadataKey::from_bytes(name.to_ascii_lowercase().as_bytes()).map_err(|_| wrong())?;
        let mut value = MetadataValue::try_from(value.as_str()).map_err(|_| wrong())?;
        value.set_sensitive(true);
        metadata.insert(key, value);
    }
    Ok(metadata)
}

/// Why spans have not arrived.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    /// Later they may.
    #[error("the collector cannot be reached: {0}")]
    Passing(String),
    /// Fewer of them at once may.
    #[error("the collector takes less at once: {0}")]
    TooMuch(String),
    /// It may be that of something that stands before a collector which is away.
    #[error("the collector fails: {0}")]
    Doubtful(String),
    /// They never will.
    #[error("the collector refuses spans: {0}")]
    Refused(String),
}

/// Sends spans to a collector.
#[derive(Clone, Debug)]
pub struct Exporter {
    client: TraceServiceClient<Channel>,
    headers: MetadataMap,
    resource: Resource,
}

impl Exporter {
    /// Must be called within a Tokio runtime.
    #[must_use]
    pub fn new(endpoint: &Endpoint) -> Self {
        let own = |(key, value): &(String, String)| attribute(key, Attribute::Text(value.clone()));
        let attributes: Vec<KeyValue> = endpoint.resource.iter().map(own).collect();
        Self {
            client: TraceServiceClient::new(endpoint.channel()),
            headers: endpoint.headers.clone(),
            resource: Resource { attributes, ..Resource::default() },
        }
    }

    /// Sends spans once; how many of them the collector has not taken.
    ///
    /// # Errors
    /// [`ExportError`]; whether any of them has arrived is not known then.
    pub async fn send(&mut self, spans: Vec<Span>) -> Result<u64, ExportError> {
        let scope = InstrumentationScope {
            name: SCOPE.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..InstrumentationScope::default()
        };
        let scope_spans = vec![ScopeSpans { scope: Some(scope), spans, ..ScopeSpans::default() }];
        let of_resource =
            ResourceSpans { resource: Some(self.resource.clone()), scope_spans, ..ResourceSpans::default() };
        let mut request = Request::new(ExportTraceServiceRequest { resource_spans: vec![of_resource] });
        *request.metadata_mut() = self.headers.clone();
        match self.client.export(request).await {
            Ok(answer) => {
                let rejected =
                    answer.into_inner().partial_success.map_or(0, |partial| partial.rejected_spans);
                Ok(u64::try_from(rejected).unwrap_or_default())
            }
            Err(status) => {
                let told = format!("{:?}: {}", status.code(), status.message());
                Err(what_it_means(&status)(told))
            }
        }
    }
}

/// What a failure means for the spans (OTLP, "Failures"). Who has no right to send waits: that is mended by people, and nothing is
/// to be lost meanwhile.
fn what_it_means(status: &Status) -> fn(String) -> ExportError {
    // One that the connection has made says nothing of the spans, whatever its code is.
    if status.source().is_some() {
        return ExportError::Passing;
    }
    match status.code() {
        Code::ResourceExhausted | Code::OutOfRange => ExportError::TooMuch,
        Code::Cancelled
        | Code::DeadlineExceeded
        | Code::Aborted
        | Code::Unavailable
        | Code::DataLoss
        | Code::Unauthenticated
        | Code::PermissionDenied
        | Code::Unknown => ExportError::Passing,
        Code::Internal | Code::Unimplemented | Code::NotFound => ExportError::Doubtful,
        Code::Ok | Code::InvalidArgument | Code::AlreadyExists | Code::FailedPrecondition => {
            ExportError::Refused
        }
    }
}
