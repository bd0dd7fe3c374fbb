//! One span, as OTLP has it.

use capataz_contracts::trace::TraceContext;
use capataz_contracts::v1;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
pub use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link, SpanKind};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{SpanFlags, Status};

/// Bytes of a text in a span; what is longer is cut.
const TEXT: usize = 1_024;
/// Events of one span; of those beyond them only the number is told.
const EVENTS: usize = 128;

/// A span that is made up piece by piece.
#[derive(Clone, Debug)]
pub(crate) struct Draft(Span);

impl Draft {
    /// A span of this name, which has begun at that time, in Unix milliseconds.
    pub(crate) fn new(place: TraceContext, name: String, began_ms: i64) -> Self {
        let flags = SpanFlags::ContextHasIsRemoteMask as u32 | u32::from(place.sampled);
        Self(Span {
            trace_id: place.trace_id.to_vec(),
            span_id: place.span_id.to_vec(),
            flags,
            name: cut(name),
            kind: SpanKind::Internal.into(),
            start_time_unix_nano: nanoseconds(began_ms),
            ..Span::default()
        })
    }

    /// It is called otherwise than it was thought to be.
    pub(crate) fn becomes(&mut self, place: TraceContext) {
        (self.0.trace_id, self.0.span_id) = (place.trace_id.to_vec(), place.span_id.to_vec());
    }

    pub(crate) fn under(mut self, parent: [u8; 8]) -> Self {
        self.0.parent_span_id = parent.to_vec();
        self
    }

    /// The parent is of another process: whoever called, or whoever waits.
    pub(crate) fn under_remote(mut self, parent: [u8; 8]) -> Self {
        self.0.flags |= SpanFlags::ContextIsRemoteMask as u32;
        self.0.kind = SpanKind::Server.into();
        self.under(parent)
    }

    pub(crate) fn linked_to(mut self, other: TraceContext) -> Self {
        self.0.links.push(Link {
            trace_id: other.trace_id.to_vec(),
            span_id: other.span_id.to_vec(),
            ..Link::default()
        });
        self
    }

    pub(crate) fn with(mut self, key: &str, value: impl Into<Attribute>) -> Self {
        self.set(key, value);
        self
    }

    pub(crate) fn set(&mut self, key: &str, value: impl Into<Attribute>) {
        self.0.attributes.push(attribute(key, value.into()));
    }

    /// Something that has happened meanwhile.
    pub(crate) fn event(&mut self, at_ms: i64, name: &str, attributes: Vec<(&str, Attribute)>) {
        if self.0.events.len() >= EVENTS {
            self.0.dropped_events_count = self.0.dropped_events_count.saturating_add(1);
            return;
        }
        let attributes = attributes.into_iter().map(|(key, value)| attribute(key, value)).collect();
        let (name, time_unix_nano) = (name.to_owned(), nanoseconds(at_ms));
        self.0.events.push(Event { time_unix_nano, name, attributes, dropped_attributes_count: 0 });
    }

    /// The code that it failed with. What an error says besides may have what somebody wrote, and stays in the log.
    pub(crate) fn failed(&mut self, error: Option<&v1::Error>, otherwise: &str) {
        let code = error.map_or(otherwise, |error| &error.code).to_owned();
        self.set("error.type", code.clone());
        self.0.status = Some(Status { code: StatusCode::Error.into(), message: cut(code) });
    }

    pub(crate) fn succeeded(&mut self) {
        self.0.status = Some(Status { code: StatusCode::Ok.into(), ..Status::default() });
    }

    /// The span as it is when it ends then. None ends before it began, whatever was done to the clock.
    pub(crate) fn ended(mut self, at_ms: i64) -> Span {
        self.0.end_time_unix_nano = nanoseconds(at_ms).max(self.0.start_time_unix_nano);
        self.0
    }
}

/// The value of an attribute.
#[derive(Debug)]
pub(crate) enum Attribute {
    Text(String),
    Number(i64),
    Truth(bool),
}

impl From<String> for Attribute {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Attribute {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<i64> for Attribute {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<u32> for Attribute {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl From<u64> for Attribute {
    fn from(number: u64) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<bool> for Attribute {
    fn from(truth: bool) -> Self {
        Self::Truth(truth)
    }
}

pub(crate) fn attribute(key: &str, value: Attribute) -> KeyValue {
    let value = match value {
        Attribute::Text(text) => Value::StringValue(cut(text)),
        Attribute::Number(number) => Value::IntValue(number),
        Attribute::Truth(truth) => Value::BoolValue(truth),
    };
    KeyValue { key: cut(key.to_owned()), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

fn cut(mut text: String) -> String {
    if text.len() > TEXT {
        text.truncate(text.floor_char_boundary(TEXT));
        text.push('…');
    }
    text
}

fn nanoseconds(unix_ms: i64) -> u64 {
    u64::try_from(unix_ms).unwrap_or_default().saturating_mul(1_000_000)
}
