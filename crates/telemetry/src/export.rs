//! Spans on their way to a collector, by OTLP over gRPC.

use std::error::Error as _;
use std::time::Duration;

use bytes::Bytes;
use http::Uri;
use http::uri::PathAndQuery;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message as _;
use tonic::client::Grpc;
use tonic::metadata::{MetadataKey, MetadataMap, MetadataValue};
use tonic::transport::{Channel, ClientTlsConfig};
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

use crate::span::Span;

/// How long one call may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(5);
/// The one call that is made.
const EXPORT: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
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

/// OTLP's messages, with what is in them encoded already: on the wire a message in another one is its bytes.
mod wire {
    use bytes::Bytes;
    use prost::Message;

    /// `ExportTraceServiceRequest`.
    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Request {
        #[prost(message, repeated, tag = "1")]
        pub(super) resource_spans: Vec<OfResource>,
    }

    /// `ResourceSpans`.
    #[derive(Clone, PartialEq, Message)]
    pub(super) struct OfResource {
        #[prost(bytes = "bytes", tag = "1")]
        pub(super) resource: Bytes,
        #[prost(message, repeated, tag = "2")]
        pub(super) scope_spans: Vec<OfScope>,
    }

    /// `ScopeSpans`.
    #[derive(Clone, PartialEq, Message)]
    pub(super) struct OfScope {
        #[prost(bytes = "bytes", tag = "1")]
        pub(super) scope: Bytes,
        #[prost(bytes = "bytes", repeated, tag = "2")]
        pub(super) spans: Vec<Bytes>,
    }
}

/// Sends spans to a collector.
#[derive(Clone, Debug)]
pub struct Exporter {
    client: Grpc<Channel>,
    headers: MetadataMap,
    resource: Bytes,
    scope: Bytes,
}

impl Exporter {
    /// Must be called within a Tokio runtime.
    #[must_use]
    pub fn new(endpoint: &Endpoint) -> Self {
        let own = |(key, value): &(String, String)| attribute(key, value);
        let attributes: Vec<KeyValue> = endpoint.resource.iter().map(own).collect();
        let scope = InstrumentationScope {
            name: SCOPE.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..InstrumentationScope::default()
        };
        Self {
            client: Grpc::new(endpoint.channel()),
            headers: endpoint.headers.clone(),
            resource: Resource { attributes, ..Resource::default() }.encode_to_vec().into(),
            scope: scope.encode_to_vec().into(),
        }
    }

    /// Sends spans once; how many of them the collector has not taken.
    ///
    /// # Errors
    /// [`ExportError`]; whether any of them has arrived is not known then.
    pub async fn send(&mut self, spans: impl Iterator<Item = &Span>) -> Result<u64, ExportError> {
        let spans = spans.map(|Span(span)| span.clone()).collect();
        let scope_spans = vec![wire::OfScope { scope: self.scope.clone(), spans }];
        let resource_spans = vec![wire::OfResource { resource: self.resource.clone(), scope_spans }];
        let mut request = Request::new(wire::Request { resource_spans });
        *request.metadata_mut() = self.headers.clone();
        self.client.ready().await.map_err(|error| ExportError::Passing(error.to_string()))?;
        let codec = ProstCodec::<wire::Request, ExportTraceServiceResponse>::default();
        match self.client.unary(request, PathAndQuery::from_static(EXPORT), codec).await {
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

fn attribute(key: &str, text: &str) -> KeyValue {
    let value = AnyValue { value: Some(Value::StringValue(text.to_owned())) };
    KeyValue { key: key.to_owned(), value: Some(value), ..KeyValue::default() }
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

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use opentelemetry_proto::tonic::trace::v1::Span as Otlp;

    use super::*;

    #[test]
    fn what_travels_is_otlps_own_message() {
        let span = Otlp { name: "tour".to_owned(), span_id: vec![7; 8], ..Otlp::default() };
        let encoded_span = Span(span.encode_to_vec().into());
        let (resource, scope) = (
            Resource { attributes: vec![attribute("service.name", "capataz")], ..Resource::default() },
            InstrumentationScope { name: "capataz".to_owned(), ..InstrumentationScope::default() },
        );
        let encoded = wire::Request {
            resource_spans: vec![wire::OfResource {
                resource: resource.encode_to_vec().into(),
                scope_spans: vec![wire::OfScope {
                    scope: scope.encode_to_vec().into(),
                    spans: vec![encoded_span.0.clone(), encoded_span.0],
                }],
            }],
        };
        let read = ExportTraceServiceRequest::decode(encoded.encode_to_vec().as_slice()).unwrap();
        let of_resource = &read.resource_spans[0];
        assert_eq!(of_resource.resource.as_ref(), Some(&resource));
        assert_eq!(of_resource.scope_spans[0].scope.as_ref(), Some(&scope));
        assert_eq!(of_resource.scope_spans[0].spans, [span.clone(), span]);
    }
}
