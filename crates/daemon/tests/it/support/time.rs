//! A clock that stands still until a test sets it forward, so that half an hour takes no time.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use capataz_daemon::{Clock, Config, HealthChecks};

/// 2026-03-21 09:00:00 UTC.
const BEGIN_MS: i64 = 1_774_083_600_000;

pub const SECOND: i64 = 1_000;
pub const MINUTE: i64 = 60 * SECOND;

#[derive(Clone, Debug, Default)]
pub struct Time(Arc<AtomicI64>);

impl Time {
    /// Gives the daemon this clock. A worker that says nothing for an hour is no lost one: nothing is heard while the clock
    /// is set forward.
    pub fn of(&self, config: &mut Config) {
        let since = Arc::clone(&self.0);
        config.clock = Clock::of_both(move || {
            let since = since.load(Ordering::SeqCst);
            (BEGIN_MS + since, since)
        });
        config.health_checks = HealthChecks { interval: Duration::from_secs(60), missed: 100 };
    }

    /// What the clock on the wall says, in Unix milliseconds.
    pub fn now_ms(&self) -> i64 {
        BEGIN_MS + self.0.load(Ordering::SeqCst)
    }

    pub fn passes(&self, milliseconds: i64) {
        self.0.fetch_add(milliseconds, Ordering::SeqCst);
    }
}
