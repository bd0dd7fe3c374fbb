//! Where the time comes in.

use std::sync::Arc;

use capataz_engine::Timestamp;

/// Where the shards have their time from. Unix milliseconds.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Unix milliseconds.
#[must_use]
pub fn now() -> Timestamp {
    #[expect(clippy::disallowed_methods, reason = "the shell is where time comes in")]
    let now = std::time::SystemTime::now();
    let since = now.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
