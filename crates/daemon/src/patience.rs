//! How long the daemon waits for a client: only time in which it listened itself is held against anybody.
//!
//! Where its process or its machine stood still, what the client said meanwhile is still to be read. What counts as having stood
//! still is what counts so for workers ([`stood_still`]): a limit is waited out in steps, and a step that ended too late is
//! waited out again, though not for ever: on a machine that is always late a limit ends too. The last step is short: whatever has
//! arrived is read before the limit is over.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use capataz_crew::{LOOK_AGAIN_MS, Mono, stood_still};
use futures_util::future::{Either, select};
use tokio::time::{Instant, Sleep, sleep_until};

/// The longest step.
const STEP: Duration = Duration::from_secs(1);
/// The last step.
const LOOK_AGAIN: Duration = Duration::from_millis(LOOK_AGAIN_MS.unsigned_abs());

/// Late steps of one limit that are not held against the client.
const FORGIVEN: u32 = 60;

/// A limit on how long a client is waited for: ready when it is over.
#[derive(Debug)]
pub(crate) struct Patience {
    /// What is still to be waited for, with this step.
    left: Duration,
    step: Step,
    /// Late steps that may still be waited out again.
    forgiven: u32,
}

impl Patience {
    pub(crate) fn new(limit: Duration) -> Self {
        Self { left: limit, step: Step::of(limit), forgiven: FORGIVEN }
    }
}

impl Future for Patience {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let listened = ready!(Pin::new(&mut self.step).poll(context));
            match self.forgiven.checked_sub(1).filter(|_| !listened) {
                Some(forgiven) => self.forgiven = forgiven,
                None => self.left = self.left.saturating_sub(self.step.length),
            }
            if self.left.is_zero() {
                return Poll::Ready(());
            }
            self.step = Step::of(self.left);
        }
    }
}

/// Waits for the future, but no longer than the limit; `None` if that was not enough.
pub(crate) async fn within<F: Future>(limit: Duration, future: F) -> Option<F::Output> {
    match select(pin!(future), Patience::new(limit)).await {
        Either::Left((output, _)) => Some(output),
        Either::Right(_) => None,
    }
}

/// Waits until the daemon has listened for so long without a break, or was late each time.
pub(crate) async fn listened_for(time: Duration) {
    for _ in 0..=FORGIVEN {
        if Step::new(time).await {
            return;
        }
    }
}

/// A part of a limit. Ready when it is over, and then says whether the daemon listened all the while.
#[derive(Debug)]
struct Step {
    begun: Instant,
    length: Duration,
    over: Pin<Box<Sleep>>,
}

impl Step {
    /// The next part of what is left.
    fn of(left: Duration) -> Self {
        Self::new(match left.saturating_sub(LOOK_AGAIN) {
            Duration::ZERO => left,
            before => before.min(STEP),
        })
    }

    fn new(length: Duration) -> Self {
        let begun = Instant::now();
        Self { begun, length, over: Box::pin(sleep_until(begun + length)) }
    }
}

impl Future for Step {
    type Output = bool;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<bool> {
        ready!(self.over.as_mut().poll(context));
        let (due, now) = (mono(self.length), mono(self.begun.elapsed()));
        Poll::Ready(stood_still(Mono(0), now, Some(due)).is_none())
    }
}

fn mono(since: Duration) -> Mono {
    Mono(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::time::{advance, sleep};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    /// The time that passes until the limit is over where the daemon stands still in between.
    async fn waits(limit: Duration, listens: Duration, stands_still: Duration) -> Duration {
        let begun = Instant::now();
        let stall = async {
            sleep(listens).await;
            advance(stands_still).await;
            pending::<()>().await;
        };
        assert_eq!(within(limit, stall).await, None);
        begun.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_is_as_long_as_it_says() {
        for limit in [Duration::ZERO, LOOK_AGAIN / 2, LOOK_AGAIN, 2 * STEP, LIMIT] {
            let begun = Instant::now();
            assert_eq!(within(limit, pending::<()>()).await, None);
            assert_eq!(begun.elapsed(), limit);
        }
        assert_eq!(within(Duration::ZERO, async { 7 }).await, Some(7));
    }

    #[tokio::test(start_paused = true)]
    async fn time_in_which_the_daemon_stood_still_is_no_part_of_a_limit() {
        for listens in [0, 1, 10, 29_850, 29_950].map(Duration::from_millis) {
            for stands_still in [20, 31, 3_600].map(Duration::from_secs) {
                let waited = waits(LIMIT, listens, stands_still).await;
                let more = waited - stands_still;
                assert!(LIMIT <= more && more <= LIMIT + STEP, "{listens:?}, {stands_still:?}: {waited:?}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_had_arrived_is_read_before_a_limit_is_over() {
        for listens in [10, 29_850, 29_950].map(Duration::from_millis) {
            let answer = async {
                sleep(listens).await;
                advance(2 * LIMIT).await;
                // It is read a little later than whoever waits for it is woken.
                sleep(LOOK_AGAIN / 2).await;
                "the answer"
            };
            assert_eq!(within(LIMIT, answer).await, Some("the answer"));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_break_in_listening_begins_the_time_anew() {
        let begun = Instant::now();
        let stall = async {
            sleep(STEP / 2).await;
            advance(LIMIT).await;
        };
        tokio::join!(listened_for(STEP), stall);
        assert_eq!(begun.elapsed(), STEP / 2 + LIMIT + STEP);
    }
}
