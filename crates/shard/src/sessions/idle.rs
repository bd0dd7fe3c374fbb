//! Sessions that nobody asks anything, and for how many of them there is room.

use capataz_engine::planted::{self, Fault};
use capataz_store::RunId;

use super::{Loaded, Sessions};
use crate::outbox::AppendId;

/// The sessions that nobody asks anything, and that are in memory nevertheless.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct IdleSessions {
    pub sessions: usize,
    pub bytes: u64,
}

impl IdleSessions {
    fn is_within(self, most: Self) -> bool {
        self.sessions <= most.sessions && self.bytes <= most.bytes
    }
}

impl Sessions {
    /// Where nobody asks anything of the session, it may be put away when others need the room: then it is read again for
    /// whoever asks next.
    pub(crate) fn rest(&mut self, stream: RunId, oldest_in_flight: AppendId, most: IdleSessions) {
        let Some(slot) = self.slots.get(&stream) else { return };
        if matches!(slot.state, Loaded::Loading) || slot.active.is_some() {
            return;
        }
        // It was used just now: whatever place it had among those to put away is no longer its own.
        self.leave_idle(stream);
        let place = self.idle.last_key_value().map_or(0, |(last, _)| last + 1);
        if let Some(slot) = self.slots.get_mut(&stream) {
            let bytes = slot.bytes();
            slot.idle = Some((place, bytes));
            self.idle.insert(place, stream);
            self.idle_bytes += bytes;
        }
        self.put_away(oldest_in_flight, most);
    }

    /// Puts away as many sessions as there is no room for, those first that were left first. One of which something is in
    /// flight has to stay until that is settled.
    pub(crate) fn put_away(&mut self, oldest_in_flight: AppendId, most: IdleSessions) {
        if self.is_within(most) || planted::is(Fault::IdleSessionsWithoutBound) {
            return;
        }
        let mut next = 0;
        while let Some((place, stream)) =
            self.idle.range(next..).next().map(|(place, stream)| (*place, *stream))
        {
            if self.is_within(most) {
                return;
            }
            next = place + 1;
            let Some(slot) = self.slots.get(&stream) else { continue };
            if !slot.is_idle() {
                // It comes back when it is left.
                self.leave_idle(stream);
            } else if slot.last_append < oldest_in_flight {
                self.remove(stream);
            }
        }
    }

    fn is_within(&self, most: IdleSessions) -> bool {
        IdleSessions { sessions: self.idle.len(), bytes: self.idle_bytes }.is_within(most)
    }

    /// The session has no place among the idle ones any more.
    pub(super) fn leave_idle(&mut self, stream: RunId) {
        let place = self.slots.get_mut(&stream).and_then(|slot| slot.idle.take());
        if let Some((place, bytes)) = place {
            self.idle.remove(&place);
            self.idle_bytes = self.idle_bytes.saturating_sub(bytes);
        }
    }

    /// Removes the session from memory, with its place among the idle ones.
    pub(super) fn remove(&mut self, stream: RunId) {
        self.leave_idle(stream);
        self.slots.remove(&stream);
    }

    /// The idle sessions of which nothing is in flight, counted anew; for invariant checks.
    pub(crate) fn idle(&self, oldest_in_flight: AppendId) -> IdleSessions {
        let idle = self.slots.values().filter(|slot| {
            slot.is_idle() && !matches!(slot.state, Loaded::Loading) && slot.last_append < oldest_in_flight
        });
        let (sessions, bytes) =
            idle.fold((0, 0), |(sessions, bytes), slot| (sessions + 1, bytes + slot.bytes()));
        IdleSessions { sessions, bytes }
    }
}
