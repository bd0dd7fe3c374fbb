//! The only module that uses the crate `backoff`.

use std::time::Duration;

use backoff::ExponentialBackoffBuilder;
use backoff::backoff::Backoff as _;

use super::{MOST_ATTEMPTS, whole_milliseconds};

/// The delay: min(`base` × `multiplier`^(`failed_attempt` − 1), `max`), rounded to whole milliseconds.
///
/// The result is the schedule's current interval. The return value of a step is discarded, because it is that interval
/// plus a random fraction of a nanosecond.
pub(super) fn delay(base: Duration, multiplier: f64, max: Duration, failed_attempt: u32) -> Duration {
    let mut schedule = ExponentialBackoffBuilder::new()
        .with_initial_interval(base.min(max))
        .with_multiplier(multiplier)
        .with_max_interval(max)
        .with_randomization_factor(0.0)
        .with_max_elapsed_time(None)
        .build();
    for _ in 1..failed_attempt.min(MOST_ATTEMPTS) {
        schedule.next_backoff();
    }
    whole_milliseconds(schedule.current_interval)
}
