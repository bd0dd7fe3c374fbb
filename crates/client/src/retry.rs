//! Repetition of calls that are safe to repeat.

use std::time::Duration;

use tokio::time::Instant;

use crate::ClientError;

/// How long and how often a call with a key is repeated while the daemon is away or has too much to do.
///
/// Delays double from `base_delay` to `max_delay`, each shortened at random by up to a half; where the daemon says how
/// long to wait, no delay is shorter than that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryOptions {
    /// From the first failure to the last repetition; zero: no repetition. A call that got as far as waiting longer
    /// than this for its answer begins a new count.
    pub total: Duration,
    /// Before the first repetition.
    pub base_delay: Duration,
    /// Longest delay.
    pub max_delay: Duration,
}

impl Default for RetryOptions {
    /// 30 s in all, which a restart of the daemon with a long log fits into; delays of 50 ms to 2 s.
    fn default() -> Self {
        Self {
            total: Duration::from_secs(30),
            base_delay: Backoff::BASE_DELAY,
            max_delay: Backoff::MAX_DELAY,
        }
    }
}

impl RetryOptions {
    /// Never repeat.
    #[must_use]
    pub fn never() -> Self {
        Self { total: Duration::ZERO, ..Self::default() }
    }

    /// Repeat for as long as somebody waits for the answer.
    pub(crate) fn forever() -> Self {
        Self { total: Duration::MAX, ..Self::default() }
    }
}

/// Growing delays between attempts.
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    base: Duration,
    max: Duration,
    next: Duration,
}

impl Backoff {
    pub(crate) const BASE_DELAY: Duration = Duration::from_millis(50);
    pub(crate) const MAX_DELAY: Duration = Duration::from_secs(2);
    /// Whatever the other side asks for, a look once in an hour does no harm.
    const HINT_MAX: Duration = Duration::from_secs(60 * 60);

    pub(crate) fn new(base: Duration, max: Duration) -> Self {
        Self { base, max, next: base.min(max) }
    }

    pub(crate) fn reset(&mut self) {
        self.next = self.base.min(self.max);
    }

    /// The next delay, not below what the other side asked for.
    pub(crate) fn delay(&mut self, at_least: Option<Duration>) -> Duration {
        let half = self.next / 2;
        self.next = self.next.saturating_mul(2).min(self.max);
        (half + half.mul_f64(fastrand::f64())).max(at_least.unwrap_or_default().min(Self::HINT_MAX))
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self::new(Self::BASE_DELAY, Self::MAX_DELAY)
    }
}

/// One series of attempts.
pub(crate) struct Attempts<'a> {
    options: &'a RetryOptions,
    backoff: Backoff,
    attempt_began: Instant,
    failing_since: Option<Instant>,
}

impl<'a> Attempts<'a> {
    pub(crate) fn new(options: &'a RetryOptions) -> Self {
        Self {
            options,
            backoff: Backoff::new(options.base_delay, options.max_delay),
            attempt_began: Instant::now(),
            failing_since: None,
        }
    }

    /// Waits until the next attempt is due; the error itself where there is none.
    pub(crate) async fn after(&mut self, error: ClientError) -> Result<(), ClientError> {
        if !error.is_retryable() || self.options.total.is_zero() {
            return Err(error);
        }
        let now = Instant::now();
        if now - self.attempt_began > self.options.total {
            self.failing_since = None;
            self.backoff.reset();
        }
        let failing_for = now - *self.failing_since.get_or_insert(now);
        let delay = self.backoff.delay(error.retry_after());
        if failing_for.saturating_add(delay) > self.options.total {
            return Err(error);
        }
        tracing::debug!(%error, ?delay, "the call is repeated");
        tokio::time::sleep(delay).await;
        self.attempt_began = Instant::now();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_limit_and_heed_the_hint() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_millis(300));
        for upper in [100, 200, 300, 300] {
            let delay = backoff.delay(None);
            assert!(
                delay >= Duration::from_millis(upper / 2) && delay <= Duration::from_millis(upper),
                "{delay:?}"
            );
        }
        assert_eq!(backoff.delay(Some(Duration::from_secs(7))), Duration::from_secs(7));
        backoff.reset();
        assert!(backoff.delay(None) <= Duration::from_millis(100));
    }

    #[tokio::test(start_paused = true)]
    async fn a_series_ends_with_the_error_when_its_time_is_up() {
        let options = RetryOptions { total: Duration::from_secs(5), ..RetryOptions::default() };
        let error = || ClientError::new(tonic::Code::Unavailable, "away");
        let began = Instant::now();
        let mut attempts = Attempts::new(&options);
        while attempts.after(error()).await.is_ok() {}
        assert!(began.elapsed() <= options.total && began.elapsed() > Duration::from_secs(2));

        let refused = ClientError::new(tonic::Code::NotFound, "no such run");
        assert!(Attempts::new(&options).after(refused).await.is_err());
        assert!(Attempts::new(&RetryOptions::never()).after(error()).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_wait_for_an_answer_begins_a_new_series() {
        let options = RetryOptions { total: Duration::from_secs(5), ..RetryOptions::default() };
        let error = || ClientError::new(tonic::Code::Unavailable, "away");
        let mut attempts = Attempts::new(&options);
        for _ in 0..10 {
            tokio::time::advance(Duration::from_secs(60)).await;
            assert!(attempts.after(error()).await.is_ok());
        }
    }
}
