//! Events of older formats, raised to the present one. It stands before the fold and is frozen: nothing here follows a
//! rule that changes. Each format has a module of its own, which leads to the next one.

mod format_1;
mod format_2;

use capataz_contracts::v1::{self, event::Body};

use super::state::Timestamp;

/// What has to be known of a run's earlier events to read its later ones.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Upcaster {
    first: format_1::Upcaster,
}

impl Upcaster {
    pub(super) fn new(accepted: &v1::RunAccepted) -> Self {
        Self { first: format_1::Upcaster::new(accepted) }
    }

    /// Adds what the present format says to an event of an older one.
    pub(super) fn raise(&mut self, format: u32, body: &mut Body, at: Timestamp) {
        if format < 2 {
            self.first.raise(body, at);
        }
        if format < 3 {
            format_2::raise(body, at);
        }
    }
}

/// Leaves out of a turn of a session what an older format has kept, and this one does not.
pub(super) fn session_turn(format: u32, turn: &mut v1::SessionTurn, kept: &[u8]) {
    if format < 2 {
        format_1::session_turn(turn, kept);
    }
}

/// Drops from a session, after a turn of an older format, the preferences that the session had no room for then.
pub(super) fn preferences(format: u32, kept: &mut Vec<u8>) {
    if format < 3 {
        format_2::preferences(kept);
    }
}

#[cfg(test)]
mod tests;
