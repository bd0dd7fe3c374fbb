//! Messages that carry events as the bytes that were stored.
//!
//! On the wire an embedded message and a `bytes` field are the same, so these are wire-compatible with the messages of
//! the same name in `proto/`. The daemon streams and exports a stored event without decoding it; a client that is older
//! than the event keeps the fields that it does not know.

use bytes::Bytes;
use prost::Message;

use crate::v1::{DamagedEvents, Event, ProgressFrame};

/// `capataz.v1.SubscribeResponse`.
#[derive(Clone, PartialEq, Message)]
pub struct SubscribeResponse {
    #[prost(message, repeated, tag = "1")]
    pub events: Vec<DeliveredEvent>,
    #[prost(bytes = "bytes", tag = "2")]
    pub cursor: Bytes,
    #[prost(bool, tag = "3")]
    pub caught_up: bool,
    #[prost(message, repeated, tag = "4")]
    pub progress: Vec<ProgressFrame>,
    #[prost(message, repeated, tag = "5")]
    pub damaged: Vec<DamagedEvents>,
}

/// `capataz.v1.DeliveredEvent`, its event still encoded.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct DeliveredEvent {
    #[prost(string, tag = "1")]
    pub run_id: String,
    #[prost(bytes = "bytes", tag = "2")]
    pub event: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    pub cursor: Bytes,
    #[prost(bool, tag = "4")]
    pub inherited: bool,
}

impl DeliveredEvent {
    /// Decodes the event.
    ///
    /// # Errors
    /// The stored bytes are not an event: the log is damaged.
    pub fn decode_event(&self) -> Result<Event, prost::DecodeError> {
        Event::decode(self.event.clone())
    }
}

/// `capataz.v1.ExportRunResponse`, its events still encoded.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct ExportRunResponse {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub events: Vec<Bytes>,
}
