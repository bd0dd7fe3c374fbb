//! The time by which a daemon decides.

use std::sync::Arc;

use capataz_crew::{Mono, Now};
use capataz_store::Millis;

/// Where a daemon has its time from: the system, or the program that embeds it.
///
/// A daemon that was given a time of its own looks at it at least once a second.
#[derive(Clone)]
pub struct Clock(capataz_runtime::Clock);

impl Clock {
    /// `now` says Unix milliseconds, and never goes backwards: it is the clock on the wall and the one that nobody can
    /// set in one. It is asked often, and from several threads.
    pub fn new(now: impl Fn() -> i64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(move || Now::alike(now())))
    }

    /// The same of two clocks: what the one on the wall says, in Unix milliseconds, which somebody may set, and what the one
    /// says that nobody can set, which never goes backwards.
    pub fn of_both(now: impl Fn() -> (i64, i64) + Send + Sync + 'static) -> Self {
        Self(Arc::new(move || {
            let (wall, mono) = now();
            Now { wall: Millis(wall), mono: Mono(mono) }
        }))
    }

    pub(crate) fn of_shards(&self) -> capataz_runtime::Clock {
        Arc::clone(&self.0)
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self(Arc::new(capataz_runtime::now))
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Clock")
    }
}
