//! A daemon that is gone without a word: its machine lost its power, or something between the two forgot the connection.

use std::pin::Pin;
use std::time::Duration;

use capataz_contracts::v1;
use tokio::time::{Instant, Sleep};

/// The longest silence of a daemon that has promised heartbeats: a connection that is dead at one end only is noticed
/// within this time, whatever limit the daemon names.
const LONGEST: Duration = Duration::from_secs(20);

/// How long nothing was heard on one connection.
pub(super) struct Silence {
    /// `None`: a daemon that sends no heartbeats may be silent for as long as it likes.
    limit: Option<Duration>,
    heard_at: Instant,
    /// Goes off no later than the limit is reached. It is set anew only then, not with each frame.
    timer: Pin<Box<Sleep>>,
}

impl Silence {
    pub(super) fn new(welcome: &v1::Welcome) -> Self {
        let limit = u64::try_from(welcome.silence_limit_ms).ok().filter(|limit| *limit > 0);
        let limit = limit.map(|limit| Duration::from_millis(limit).min(LONGEST));
        let timer = Box::pin(tokio::time::sleep(limit.unwrap_or_default()));
        Self { limit, heard_at: Instant::now(), timer }
    }

    /// Something was heard, whatever it was.
    pub(super) fn broken(&mut self) {
        self.heard_at = Instant::now();
    }

    /// Ends with the limit when nothing was heard for so long.
    pub(super) async fn too_long(&mut self) -> Duration {
        let Some(limit) = self.limit else { return std::future::pending().await };
        loop {
            self.timer.as_mut().await;
            let until = self.heard_at + limit;
            if until <= Instant::now() {
                return limit;
            }
            self.timer.as_mut().reset(until);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn silence(limit_ms: i64) -> Silence {
        Silence::new(&v1::Welcome { silence_limit_ms: limit_ms, ..v1::Welcome::default() })
    }

    /// After how long it is too long, where nothing is heard.
    async fn patience(limit_ms: i64) -> Duration {
        let began = Instant::now();
        silence(limit_ms).too_long().await;
        began.elapsed()
    }

    /// What timers are rounded up to.
    const TICK: Duration = Duration::from_millis(1);

    #[tokio::test(start_paused = true)]
    async fn the_daemon_names_the_limit_and_it_is_never_above_20_s() {
        for (limit_ms, patient_for) in [(300, 300), (15_000, 15_000), (20_000, 20_000), (60_000, 20_000)] {
            let expected = Duration::from_millis(patient_for);
            let patience = patience(limit_ms).await;
            assert!((expected..=expected + TICK).contains(&patience), "{limit_ms}: {patience:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_daemon_that_promises_no_heartbeats_may_be_silent() {
        for limit_ms in [0, -1, i64::MIN] {
            let a_day = Duration::from_secs(24 * 60 * 60);
            assert!(tokio::time::timeout(a_day, silence(limit_ms).too_long()).await.is_err());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn whatever_is_heard_breaks_the_silence() {
        let mut silence = silence(15_000);
        let began = Instant::now();
        for _ in 0..10 {
            let nothing = tokio::time::timeout(Duration::from_secs(14), silence.too_long()).await;
            assert!(nothing.is_err());
            silence.broken();
        }
        assert_eq!(silence.too_long().await, Duration::from_secs(15));
        let expected = Duration::from_secs(155);
        assert!((expected..=expected + TICK).contains(&began.elapsed()), "{:?}", began.elapsed());
    }
}
