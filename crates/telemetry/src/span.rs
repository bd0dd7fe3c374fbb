//! One span, as OTLP has it: written as it travels, piece by piece, and not made up as a message first.

use std::borrow::Cow;

use bytes::{BufMut as _, Bytes};
use capataz_contracts::trace::TraceContext;
use opentelemetry_proto::tonic::trace::v1::SpanFlags;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, fixed32, fixed64};

/// Bytes of a text in a span; what is longer is cut.
const TEXT: usize = 1_024;
/// Events of one span; of those beyond them only the number is told.
const EVENTS: usize = 128;
/// Bytes that most spans fit into.
const ROOM: usize = 384;

/// A span as it travels: encoded once, however often it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span(pub(crate) Bytes);

impl Span {
    /// Bytes of it.
    #[must_use]
    pub fn size(&self) -> usize {
        self.0.len()
    }
}

/// Numbers of the fields of OTLP's messages (`opentelemetry/proto/trace/v1/trace.proto`, `common/v1/common.proto`).
mod field {
    pub(super) mod span {
        pub(in super::super) const TRACE_ID: u32 = 1;
        pub(in super::super) const SPAN_ID: u32 = 2;
        pub(in super::super) const PARENT_SPAN_ID: u32 = 4;
        pub(in super::super) const NAME: u32 = 5;
        pub(in super::super) const KIND: u32 = 6;
        pub(in super::super) const START: u32 = 7;
        pub(in super::super) const END: u32 = 8;
        pub(in super::super) const ATTRIBUTES: u32 = 9;
        pub(in super::super) const EVENTS: u32 = 11;
        pub(in super::super) const DROPPED_EVENTS: u32 = 12;
        pub(in super::super) const LINKS: u32 = 13;
        pub(in super::super) const STATUS: u32 = 15;
        pub(in super::super) const FLAGS: u32 = 16;
    }
    pub(super) mod event {
        pub(in super::super) const TIME: u32 = 1;
        pub(in super::super) const NAME: u32 = 2;
        pub(in super::super) const ATTRIBUTES: u32 = 3;
    }
    pub(super) mod link {
        pub(in super::super) const TRACE_ID: u32 = 1;
        pub(in super::super) const SPAN_ID: u32 = 2;
    }
    pub(super) mod status {
        pub(in super::super) const MESSAGE: u32 = 2;
        pub(in super::super) const CODE: u32 = 3;
    }
    pub(super) mod key_value {
        pub(in super::super) const KEY: u32 = 1;
        pub(in super::super) const VALUE: u32 = 2;
    }
    pub(super) mod any_value {
        pub(in super::super) const TEXT: u32 = 1;
        pub(in super::super) const TRUTH: u32 = 2;
        pub(in super::super) const NUMBER: u32 = 3;
    }
}

/// A span that is made up piece by piece.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    place: TraceContext,
    parent: Option<[u8; 8]>,
    flags: u32,
    kind: SpanKind,
    start: u64,
    status: Option<(StatusCode, String)>,
    /// Name, attributes, events and links, as they travel: a message's fields come in any order.
    parts: Vec<u8>,
    events: usize,
}

impl Draft {
    /// A span of this name, which has begun at that time, in Unix milliseconds.
    pub(crate) fn new(place: TraceContext, name: &str, began_ms: i64) -> Self {
        let mut parts = Vec::with_capacity(ROOM);
        put_bytes(field::span::NAME, cut(name).as_bytes(), &mut parts);
        Self {
            place,
            parent: None,
            flags: SpanFlags::ContextHasIsRemoteMask as u32 | u32::from(place.sampled),
            kind: SpanKind::Internal,
            start: nanoseconds(began_ms),
            status: None,
            parts,
            events: 0,
        }
    }

    /// It is called otherwise than it was thought to be.
    pub(crate) fn becomes(&mut self, place: TraceContext) {
        self.place = place;
    }

    pub(crate) fn under(mut self, parent: [u8; 8]) -> Self {
        self.parent = Some(parent);
        self
    }

    /// The parent is of another process: whoever called, or whoever waits.
    pub(crate) fn under_remote(mut self, parent: [u8; 8]) -> Self {
        self.flags |= SpanFlags::ContextIsRemoteMask as u32;
        self.kind = SpanKind::Server;
        self.under(parent)
    }

    pub(crate) fn linked_to(mut self, other: TraceContext) -> Self {
        let size = size_of_bytes(other.trace_id.len()) + size_of_bytes(other.span_id.len());
        begin(field::span::LINKS, size, &mut self.parts);
        put_bytes(field::link::TRACE_ID, &other.trace_id, &mut self.parts);
        put_bytes(field::link::SPAN_ID, &other.span_id, &mut self.parts);
        self
    }

    pub(crate) fn with<'v>(mut self, key: &str, value: impl Into<Attribute<'v>>) -> Self {
        self.set(key, value);
        self
    }

    pub(crate) fn set<'v>(&mut self, key: &str, value: impl Into<Attribute<'v>>) {
        put_attribute(field::span::ATTRIBUTES, key, &value.into(), &mut self.parts);
    }

    /// Something that has happened meanwhile.
    pub(crate) fn event(&mut self, at_ms: i64, name: &str, attribute: Option<(&str, Attribute<'_>)>) {
        self.events += 1;
        if self.events > EVENTS {
            return;
        }
        let mut event = Vec::with_capacity(64);
        fixed64::encode(field::event::TIME, &nanoseconds(at_ms), &mut event);
        put_bytes(field::event::NAME, name.as_bytes(), &mut event);
        if let Some((key, value)) = attribute {
            put_attribute(field::event::ATTRIBUTES, key, &value, &mut event);
        }
        put_bytes(field::span::EVENTS, &event, &mut self.parts);
    }

    /// The code that it failed with. What an error says besides may have what somebody wrote, and stays in the log.
    pub(crate) fn failed(&mut self, error: Option<&capataz_contracts::v1::Error>, otherwise: &str) {
        let code = error.map_or(otherwise, |error| &error.code);
        self.set("error.type", code);
        self.status = Some((StatusCode::Error, cut(code).into_owned()));
    }

    pub(crate) fn succeeded(&mut self) {
        self.status = Some((StatusCode::Ok, String::new()));
    }

    /// The span as it is when it ends then. None ends before it began, whatever was done to the clock.
    pub(crate) fn ended(self, at_ms: i64) -> Span {
        let mut out = self.parts;
        put_bytes(field::span::TRACE_ID, &self.place.trace_id, &mut out);
        put_bytes(field::span::SPAN_ID, &self.place.span_id, &mut out);
        if let Some(parent) = self.parent {
            put_bytes(field::span::PARENT_SPAN_ID, &parent, &mut out);
        }
        put_number(field::span::KIND, i64::from(i32::from(self.kind)), &mut out);
        fixed64::encode(field::span::START, &self.start, &mut out);
        fixed64::encode(field::span::END, &nanoseconds(at_ms).max(self.start), &mut out);
        let dropped = self.events.saturating_sub(EVENTS);
        if dropped > 0 {
            let dropped = u32::try_from(dropped).unwrap_or(u32::MAX);
            put_number(field::span::DROPPED_EVENTS, dropped.into(), &mut out);
        }
        if let Some((code, message)) = &self.status {
            let size = if message.is_empty() { 0 } else { size_of_bytes(message.len()) };
            // The codes are below 128.
            begin(field::span::STATUS, size + 2, &mut out);
            if !message.is_empty() {
                put_bytes(field::status::MESSAGE, message.as_bytes(), &mut out);
            }
            put_number(field::status::CODE, i64::from(i32::from(*code)), &mut out);
        }
        fixed32::encode(field::span::FLAGS, &self.flags, &mut out);
        Span(out.into())
    }
}

/// The value of an attribute.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Attribute<'v> {
    Text(&'v str),
    Number(i64),
    Truth(bool),
}

impl<'v> From<&'v String> for Attribute<'v> {
    fn from(text: &'v String) -> Self {
        Self::Text(text)
    }
}

impl<'v> From<&'v str> for Attribute<'v> {
    fn from(text: &'v str) -> Self {
        Self::Text(text)
    }
}

impl From<i64> for Attribute<'_> {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<u32> for Attribute<'_> {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl From<u64> for Attribute<'_> {
    fn from(number: u64) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<bool> for Attribute<'_> {
    fn from(truth: bool) -> Self {
        Self::Truth(truth)
    }
}

/// Writes a `KeyValue`.
fn put_attribute(number: u32, key: &str, value: &Attribute<'_>, out: &mut Vec<u8>) {
    let key = cut(key);
    match value {
        Attribute::Text(text) => {
            let text = cut(text);
            begin_attribute(number, &key, size_of_bytes(text.len()), out);
            put_bytes(field::any_value::TEXT, text.as_bytes(), out);
        }
        Attribute::Number(value) => {
            begin_attribute(number, &key, 1 + encoded_len_varint(value.cast_unsigned()), out);
            put_number(field::any_value::NUMBER, *value, out);
        }
        Attribute::Truth(value) => {
            begin_attribute(number, &key, 2, out);
            put_number(field::any_value::TRUTH, i64::from(*value), out);
        }
    }
}

/// Everything of a `KeyValue` before what is in its `AnyValue`, which has so many bytes.
fn begin_attribute(number: u32, key: &str, value: usize, out: &mut Vec<u8>) {
    begin(number, size_of_bytes(key.len()) + size_of_bytes(value), out);
    put_bytes(field::key_value::KEY, key.as_bytes(), out);
    begin(field::key_value::VALUE, value, out);
}

/// The bytes of a field with so many bytes in it; numbers of fields up to 15 have one.
fn size_of_bytes(bytes: usize) -> usize {
    1 + encoded_len_varint(bytes as u64) + bytes
}

/// What stands before a field of so many bytes.
fn begin(number: u32, bytes: usize, out: &mut Vec<u8>) {
    encode_key(number, WireType::LengthDelimited, out);
    encode_varint(bytes as u64, out);
}

fn put_bytes(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    begin(number, bytes.len(), out);
    out.put_slice(bytes);
}

fn put_number(number: u32, value: i64, out: &mut Vec<u8>) {
    encode_key(number, WireType::Varint, out);
    encode_varint(value.cast_unsigned(), out);
}

fn cut(text: &str) -> Cow<'_, str> {
    if text.len() <= TEXT {
        return Cow::Borrowed(text);
    }
    let end = text.floor_char_boundary(TEXT);
    Cow::Owned(format!("{}…", text.get(..end).unwrap_or_default()))
}

fn nanoseconds(unix_ms: i64) -> u64 {
    u64::try_from(unix_ms).unwrap_or_default().saturating_mul(1_000_000)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

    use opentelemetry_proto::tonic::common::v1::any_value::Value;
    use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
    use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};
    use opentelemetry_proto::tonic::trace::v1::{Span as Otlp, Status};
    use prost::Message as _;

    use super::*;

    fn attribute(key: &str, value: Value) -> KeyValue {
        KeyValue { key: key.into(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
    }

    #[test]
    fn what_is_written_is_otlps_own_message() {
        let [place, other] = [1, 2].map(|byte| TraceContext {
            trace_id: [byte; 16],
            span_id: [byte + 8; 8],
            sampled: byte == 1,
        });
        let mut draft = Draft::new(place, "tour", 1).under_remote([7; 8]).linked_to(other);
        draft.set("text", "ñ");
        draft.set("number", -1_i64);
        draft.set("large", u64::MAX);
        draft.set("truth", true);
        draft.set("lie", false);
        draft.event(2, "paused", None);
        draft.event(3, "asked", Some(("id", "q-1".into())));
        draft.failed(None, "OUTCOME_UNKNOWN");
        let read = Otlp::decode(draft.ended(4).0).unwrap();
        let text = |text: &str| Value::StringValue(text.to_owned());
        let event = |at: u64, name: &str, attributes| Event {
            time_unix_nano: at * 1_000_000,
            name: name.into(),
            attributes,
            dropped_attributes_count: 0,
        };
        let expected = Otlp {
            trace_id: vec![1; 16],
            span_id: vec![9; 8],
            parent_span_id: vec![7; 8],
            // Sampled; and it is known that the parent is elsewhere (OTLP, SpanFlags).
            flags: 0x301,
            name: "tour".into(),
            kind: 2,
            start_time_unix_nano: 1_000_000,
            end_time_unix_nano: 4_000_000,
            attributes: vec![
                attribute("text", text("ñ")),
                attribute("number", Value::IntValue(-1)),
                attribute("large", Value::IntValue(i64::MAX)),
                attribute("truth", Value::BoolValue(true)),
                attribute("lie", Value::BoolValue(false)),
                attribute("error.type", text("OUTCOME_UNKNOWN")),
            ],
            events: vec![event(2, "paused", vec![]), event(3, "asked", vec![attribute("id", text("q-1"))])],
            links: vec![Link { trace_id: vec![2; 16], span_id: vec![10; 8], ..Link::default() }],
            status: Some(Status { code: 2, message: "OUTCOME_UNKNOWN".into() }),
            ..Otlp::default()
        };
        assert_eq!(read, expected);
    }

    #[test]
    fn a_span_that_has_nothing_but_its_end_is_otlps_message_too() {
        let place = TraceContext { trace_id: [1; 16], span_id: [2; 8], sampled: false };
        let mut draft = Draft::new(place, "", 5);
        draft.succeeded();
        // The clock was set back.
        let read = Otlp::decode(draft.ended(4).0).unwrap();
        let expected = Otlp {
            trace_id: vec![1; 16],
            span_id: vec![2; 8],
            flags: 0x100,
            kind: 1,
            start_time_unix_nano: 5_000_000,
            end_time_unix_nano: 5_000_000,
            status: Some(Status { code: 1, message: String::new() }),
            ..Otlp::default()
        };
        assert_eq!(read, expected);
    }
}
