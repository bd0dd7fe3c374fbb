//! What the daemon does by itself, and no log has: spans of `tracing`.

use std::fmt;

use capataz_contracts::trace::TraceContext;
use opentelemetry::trace::{
    SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState, TracerProvider as _,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{SpanExporter, WithTonicConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::Subscriber;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::registry::LookupSpan;

use crate::export::Endpoint;

/// The target of the spans that are sent. Those of libraries are not: sending would be a reason to send.
const TARGET: &str = "capataz";

/// Sends spans of `tracing`. They wait in a queue with bounds, and are dropped where it is full.
pub struct Own(SdkTracerProvider);

impl fmt::Debug for Own {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Own")
    }
}

impl Own {
    /// Must be called within a Tokio runtime; `None` where the library cannot begin.
    #[must_use]
    pub fn new(endpoint: &Endpoint) -> Option<Self> {
        let exporter = SpanExporter::builder()
            .with_tonic()
            .with_channel(endpoint.channel())
            .with_metadata(endpoint.headers().clone())
            .build()
            .ok()?;
        let said = endpoint.resource().iter().map(|(key, value)| KeyValue::new(key.clone(), value.clone()));
        let resource = Resource::builder_empty().with_attributes(said).build();
        Some(Self(SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build()))
    }

    /// The layer of the subscriber that has them sent.
    pub fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: Subscriber + Send + Sync + for<'span> LookupSpan<'span>,
    {
        let tracer = self.0.tracer(TARGET);
        let filter = filter_fn(|metadata| metadata.is_span() && metadata.target() == TARGET);
        tracing_opentelemetry::layer()
            .with_tracer(tracer)
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            // A call is entered and left whenever it is polled: neither that nor a context for others costs it anything.
            .with_tracked_inactivity(false)
            .with_context_activation(false)
            .with_filter(filter)
    }

    /// Sends what is left. It blocks meanwhile, for some seconds at most.
    pub fn stop(self) {
        // Who cannot be reached now is not told.
        let _ = self.0.shutdown();
    }
}

/// Makes a span part of the trace of whoever calls, and has log lines within it tell the trace, where the span has a field
/// `trace_id`.
pub fn belongs_to(span: &tracing::Span, caller: TraceContext) {
    let TraceContext { trace_id, span_id, sampled } = caller;
    let flags = if sampled { TraceFlags::SAMPLED } else { TraceFlags::NOT_SAMPLED };
    let (trace_id, span_id) = (TraceId::from_bytes(trace_id), SpanId::from_bytes(span_id));
    span.record("trace_id", tracing::field::display(trace_id));
    let caller = SpanContext::new(trace_id, span_id, flags, true, TraceState::NONE);
    // Where nobody sends spans it has no place in any trace.
    let _ = span.set_parent(Context::new().with_remote_span_context(caller));
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_of_the_log_tells_the_trace_of_the_caller() {
        let lines = Lines::default();
        let log = tracing_subscriber::fmt::layer().json().with_writer({
            let lines = lines.clone();
            move || lines.clone()
        });
        tracing::subscriber::with_default(tracing_subscriber::registry().with(log), || {
            let caller = TraceContext::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
            for caller in [caller, None] {
                let span = tracing::info_span!("call", trace_id = tracing::field::Empty);
                caller.into_iter().for_each(|caller| belongs_to(&span, caller));
                span.in_scope(|| tracing::info!("done"));
            }
        });
        let lines = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        let [of_caller, of_nobody] = lines.lines().collect::<Vec<_>>()[..] else { panic!("{lines}") };
        assert!(of_caller.contains("\"trace_id\":\"4bf92f3577b34da6a3ce929d0e0e4736\""), "{of_caller}");
        assert!(!of_nobody.contains("trace_id"), "{of_nobody}");
    }
}
