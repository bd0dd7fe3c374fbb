//! The tokio shell around the core: threads, channels, clocks. It decides nothing.
//!
//! Three threads do the work of a shard: the shard's own (core and timers), the writer's (group commit), and the
//! caller's runtime (sockets). Between them go bounded channels; where one is full, callers are told to come back.

mod shard;
mod subscription;
mod writer;

pub use shard::{Shard, ShardOptions, StartError, WorkerLink, WorkerSender};
pub use subscription::{CursorError, Item, Subscription};
pub use writer::{load, load_session};

use capataz_engine::Timestamp;

/// Where a shard has its time from. Unix milliseconds.
pub type Clock = std::sync::Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Unix milliseconds.
#[must_use]
pub fn now() -> Timestamp {
    #[expect(clippy::disallowed_methods, reason = "the shell is where time comes in")]
    let now = std::time::SystemTime::now();
    let since = now.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
