//! What a stored event is, without reading it.

use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

/// The number of the first field of `capataz.v1.Event` that is a body. Each later one is one too.
const FIRST_BODY: u32 = 10;

/// The number of an event, and the field of its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventHead {
    /// `Event.seq`.
    pub seq: u64,
    /// The number of the field that its body is, such as 28 of `run_finished`; of a body that this version does not know as well.
    pub body: u32,
}

impl EventHead {
    /// Looks at an encoded `capataz.v1.Event`; `None` where the bytes are none, as far as they were looked at, or it has no
    /// body.
    #[must_use]
    pub fn read(mut event: &[u8]) -> Option<Self> {
        let (mut seq, mut body) = (0, None);
        // Whoever encodes fields in order has said everything else when the body begins.
        while body.is_none() && !event.is_empty() {
            let (field, wire_type) = decode_key(&mut event).ok()?;
            match field {
                1 if wire_type == WireType::Varint => seq = decode_varint(&mut event).ok()?,
                1 => return None,
                FIRST_BODY.. => body = Some(field),
                _ => skip_field(wire_type, field, &mut event, DecodeContext::default()).ok()?,
            }
        }
        Some(Self { seq, body: body? })
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;
    use crate::v1::{self, event::Body};

    #[test]
    fn an_event_is_known_by_its_first_bytes() {
        let body = Body::RunFinished(v1::RunFinished::default());
        let event =
            v1::Event { seq: 300, at_ms: -1, format: 3, elapsed_ms: 7, body: Some(body) }.encode_to_vec();
        // The field of run_finished has the number 28 (proto/capataz/v1/event.proto).
        assert_eq!(EventHead::read(&event), Some(EventHead { seq: 300, body: 28 }));
        // What comes of the body is not looked at.
        assert_eq!(EventHead::read(&event[..event.len() - 1]), Some(EventHead { seq: 300, body: 28 }));
        for end in 0..event.len() - 2 {
            assert_eq!(EventHead::read(&event[..end]), None, "{end}");
        }
    }
}
