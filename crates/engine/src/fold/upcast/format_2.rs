//! Format 2 has one clock, the one on the wall, and names deadlines by it alone.

use std::collections::BTreeMap;

use capataz_contracts::v1::event::Body;
use serde_json::Value;

use crate::fold::state::Timestamp;

/// Preferences that a session kept; of more than these, the first ones by name were dropped.
const PREFERENCES: usize = 32;

/// Adds how far deadlines lie ahead.
pub(super) fn raise(body: &mut Body, at: Timestamp) {
    let ahead = |deadline: i64| deadline.saturating_sub(at.0);
    match body {
        Body::TaskLeased(event) => {
            event.deadline_in_ms = event.deadline_ms.map(ahead);
            event.attempt_deadline_in_ms = event.attempt_deadline_ms.map(ahead);
        }
        // The delay is there already, and is what the time was computed from.
        Body::TaskAttemptFailed(event) => event.delay_ms = ahead(event.retry_at_ms),
        Body::TaskCancelRequested(event) => event.grace_ms = ahead(event.grace_until_ms),
        Body::TaskExtended(event) => event.deadline_in_ms = ahead(event.deadline_ms),
        Body::BrowserOpened(event) => event.idle_in_ms = event.idle_at_ms.map(ahead),
        Body::ActionFinished(event) => event.idle_in_ms = event.idle_at_ms.map(ahead),
        Body::ActionFailed(event) => event.idle_in_ms = event.idle_at_ms.map(ahead),
        _ => {}
    }
}

/// Drops the preferences that a session kept no more.
pub(super) fn preferences(kept: &mut Vec<u8>) {
    let mut preferences: BTreeMap<String, Value> = serde_json::from_slice(kept).unwrap_or_default();
    if preferences.len() <= PREFERENCES {
        return;
    }
    while preferences.len() > PREFERENCES {
        preferences.pop_first();
    }
    *kept = serde_json::to_vec(&preferences).unwrap_or_default();
}
