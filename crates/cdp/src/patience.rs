//! Limits on how long a browser is waited for, on machines that stand still now and then.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use tokio::time::timeout;

/// The number of parts that a limit is divided into, unless they would be longer than [`LONGEST_PART`].
const PARTS: u32 = 16;

const LONGEST_PART: Duration = Duration::from_secs(1);

/// The shortest part: the clock cannot tell shorter ones apart.
const SHORTEST_PART: Duration = Duration::from_millis(10);

/// Waits for the future, but no longer than `limit`; `None` if that was not enough.
///
/// The limit is waited out in parts. A virtual machine that stands still for longer than all of it, and the browser with
/// it, uses up one part: a browser that did not answer in time has really had that time.
pub async fn within<F: Future>(limit: Duration, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let part = (limit / PARTS).clamp(SHORTEST_PART, LONGEST_PART);
    let mut left = limit;
    loop {
        let next = part.min(left);
        if let Ok(output) = timeout(next, future.as_mut()).await {
            return Some(output);
        }
        left = left.saturating_sub(next);
        if left.is_zero() {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::time::{Instant, advance, sleep};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(15);

    #[tokio::test(start_paused = true)]
    async fn a_machine_that_stands_still_uses_up_no_more_than_a_part() {
        let late = async {
            advance(3 * LIMIT).await;
            sleep(LIMIT / 2).await;
            "the answer"
        };
        assert_eq!(within(LIMIT, late).await, Some("the answer"));
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_come_is_waited_for_to_the_end_of_the_limit() {
        let begun = Instant::now();
        assert_eq!(within(LIMIT, pending::<()>()).await, None);
        assert!(begun.elapsed() >= LIMIT);
        assert_eq!(within(Duration::ZERO, async { 7 }).await, Some(7));
        assert_eq!(within(Duration::ZERO, pending::<()>()).await, None);
    }
}
