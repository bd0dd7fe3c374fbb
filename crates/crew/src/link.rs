//! The two ends of what joins a shard and the crew: messages with numbers, in sessions.
//!
//! A message that comes twice, or after a later session has begun, is dropped. A message that never came leaves a gap in
//! the numbers, which the next one shows; both ends send one each heartbeat interval at least. A gap ends the session:
//! nothing is sent again. The shard opens the next session, and both ends say anew what holds ([`ToShard::Present`],
//! [`ToCrew::Wanted`]). Connections with slots of the shard are closed, so that what was said on them and got lost comes
//! again with the worker's next hello. One way of recovery serves a lost message, a shard that was read again as a
//! whole, and an end that was gone.
//!
//! Only the shard numbers sessions: it is the one whose memory is lost without the other's.
//!
//! [`ToShard::Present`]: crate::ToShard::Present
//! [`ToCrew::Wanted`]: crate::ToCrew::Wanted

use capataz_policy::planted::{self, Fault};

/// A message with its place.
#[derive(Clone, Debug)]
pub struct Packet<T> {
    pub session: u64,
    /// From 1 in each session. 0 says that the session is broken at the sender's end; the message then means nothing.
    pub number: u64,
    pub body: T,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It is the next one.
    Next,
    /// It is the first one of a new session.
    First,
    /// It came before, or belongs to a session that is over.
    Stale,
    /// Something before it never came: this session is over.
    Gap,
}

/// One end.
#[derive(Debug, Default)]
pub struct End {
    session: u64,
    sent: u64,
    received: u64,
    broken: bool,
}

impl End {
    /// Begins a session, at the shard's end.
    pub fn begin(&mut self) {
        *self = Self { session: self.session + 1, ..Self::default() };
    }

    pub fn pack<T>(&mut self, body: T) -> Packet<T> {
        self.sent += 1;
        Packet { session: self.session, number: self.sent, body }
    }

    /// The packet that says that the session is broken.
    pub fn complaint<T>(&self, body: T) -> Packet<T> {
        Packet { session: self.session, number: 0, body }
    }

    /// Whether a gap was seen, and no new session has begun since.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Sees a packet at the shard's end.
    pub fn arrived_at_shard<T>(&mut self, packet: &Packet<T>) -> Arrival {
        if packet.session != self.session || self.broken {
            return Arrival::Stale;
        }
        self.count(packet.number)
    }

    /// Sees a packet at the crew's end, which takes over the shard's newer sessions.
    pub fn arrived_at_crew<T>(&mut self, packet: &Packet<T>) -> Arrival {
        if packet.session > self.session {
            *self = Self { session: packet.session, ..Self::default() };
            return match self.count(packet.number) {
                Arrival::Next => Arrival::First,
                other => other,
            };
        }
        if packet.session < self.session || self.broken {
            return Arrival::Stale;
        }
        self.count(packet.number)
    }

    fn count(&mut self, number: u64) -> Arrival {
        let skips = planted::is(Fault::LostMessageUnnoticed) && number > self.received;
        if number == self.received + 1 || skips {
            self.received = number;
            return Arrival::Next;
        }
        if number <= self.received && number > 0 {
            return Arrival::Stale;
        }
        self.broken = true;
        Arrival::Gap
    }
}

#[cfg(test)]
mod tests {
    use super::{Arrival, End, Packet};

    fn packet(session: u64, number: u64) -> Packet<()> {
        Packet { session, number, body: () }
    }

    #[test]
    fn a_packet_counts_once() {
        let mut end = End::default();
        assert_eq!(end.arrived_at_crew(&packet(1, 1)), Arrival::First);
        assert_eq!(end.arrived_at_crew(&packet(1, 2)), Arrival::Next);
        assert_eq!(end.arrived_at_crew(&packet(1, 2)), Arrival::Stale);
        assert_eq!(end.arrived_at_crew(&packet(1, 1)), Arrival::Stale);
        assert_eq!(end.arrived_at_crew(&packet(1, 3)), Arrival::Next);
    }

    #[test]
    fn a_gap_ends_the_session_until_a_newer_one_begins() {
        let mut end = End::default();
        assert_eq!(end.arrived_at_crew(&packet(1, 1)), Arrival::First);
        assert_eq!(end.arrived_at_crew(&packet(1, 3)), Arrival::Gap);
        assert!(end.is_broken());
        assert_eq!(end.arrived_at_crew(&packet(1, 2)), Arrival::Stale);
        assert_eq!(end.arrived_at_crew(&packet(2, 1)), Arrival::First);
        assert!(!end.is_broken());
        assert_eq!(end.arrived_at_crew(&packet(1, 4)), Arrival::Stale);
    }

    #[test]
    fn a_session_whose_first_packet_is_lost_is_broken() {
        let mut end = End::default();
        assert_eq!(end.arrived_at_crew(&packet(3, 2)), Arrival::Gap);
        assert_eq!(end.arrived_at_crew(&packet(3, 1)), Arrival::Stale);
    }

    #[test]
    fn a_complaint_breaks_the_session_at_the_shard() {
        let mut shard = End::default();
        shard.begin();
        assert_eq!(shard.arrived_at_shard(&packet(1, 1)), Arrival::Next);
        assert_eq!(shard.arrived_at_shard(&packet(1, 0)), Arrival::Gap);
        shard.begin();
        assert_eq!(shard.arrived_at_shard(&packet(1, 2)), Arrival::Stale);
        assert_eq!(shard.arrived_at_shard(&packet(2, 1)), Arrival::Next);
    }
}
