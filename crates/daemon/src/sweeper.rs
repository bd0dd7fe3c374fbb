//! Retention: when it sweeps, and by which rules.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use capataz_hosts::browsers::Browsers;
use capataz_runtime::Runtime;
use capataz_store::{Millis, Retention, StoreError, Swept};
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::SHARD;
use crate::config::RetentionConfig;

/// How often old data is looked for.
const EVERY: Duration = Duration::from_secs(60);
/// How often the size of the log is looked at, where it has a limit.
const SIZE_EVERY: Duration = Duration::from_secs(1);
/// Runs, keys and blobs that one transaction removes at most, and the bytes after which it removes no further one.
const SWEEP_RUNS: u32 = 256;
const SWEEP_BYTES: u64 = 4 * 1024 * 1024;

/// Removes what the rules let go, until the daemon ends.
pub(crate) async fn run(runtime: Runtime, retention: RetentionConfig, browsers: Arc<Browsers>) {
    let (mut pulse, mut sizes) = (slow(EVERY), slow(SIZE_EVERY));
    let limit = retention.max_log_bytes;
    // While what is too large cannot be made smaller, because the runs are unfinished, it is left to the slower pulse.
    let mut is_stuck = false;
    loop {
        tokio::select! {
            _ = pulse.tick() => {
                is_stuck = false;
                sweep(&runtime, &retention).await;
                Arc::clone(&browsers).sweep().await;
            }
            _ = sizes.tick(), if limit.is_some() && !is_stuck => {
                if is_too_large(&runtime, limit).await {
                    sweep(&runtime, &retention).await;
                    is_stuck = is_too_large(&runtime, limit).await;
                }
            }
        }
    }
}

fn slow(period: Duration) -> Interval {
    let mut interval = interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

async fn is_too_large(runtime: &Runtime, limit: Option<u64>) -> bool {
    let store = Arc::clone(runtime.store());
    let bounds = tokio::task::spawn_blocking(move || store.bounds(SHARD)).await;
    let Ok(Ok(bounds)) = bounds else { return false };
    limit.is_some_and(|limit| bounds.bytes > limit)
}

/// Sweeps until nothing is due.
async fn sweep(runtime: &Runtime, retention: &RetentionConfig) {
    for rule in rules(retention, runtime.now().wall) {
        told(runtime.sweep_all(SHARD, &rule).await);
    }
}

/// The rules at a moment: one for runs and their keys, and one for the blobs that nobody names any more, so that a sweep is
/// one transaction.
fn rules(retention: &RetentionConfig, now: Millis) -> [Retention; 2] {
    let before =
        |age: Duration| Millis(now.0.saturating_sub(i64::try_from(age.as_millis()).unwrap_or(i64::MAX)));
    let nothing = Retention {
        // The shard knows which streams are in use.
        keep: BTreeSet::new(),
        held_by: None,
        finished_before: None,
        max_log_bytes: None,
        keys_before: Millis(i64::MIN),
        blobs_before: Millis(i64::MIN),
        batch: SWEEP_RUNS,
        batch_bytes: SWEEP_BYTES,
    };
    let runs = Retention {
        finished_before: retention.finished_runs.map(before),
        max_log_bytes: retention.max_log_bytes,
        keys_before: before(retention.idempotency_keys),
        ..nothing.clone()
    };
    [runs, Retention { blobs_before: before(retention.unused_blobs), ..nothing }]
}

fn told(swept: Result<Swept, StoreError>) {
    match swept {
        Ok(Swept { runs, keys, blobs, bytes }) => {
            if runs + keys + blobs > 0 {
                tracing::info!(runs, keys, blobs, bytes, "retention");
            }
        }
        Err(error) => tracing::warn!(error = &error as &dyn std::error::Error, "retention failed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_is_of_runs_or_of_blobs() {
        let config = RetentionConfig { max_log_bytes: Some(7), ..RetentionConfig::default() };
        let [runs, blobs] = rules(&config, Millis(100_000_000_000));
        let day = 24 * 60 * 60 * 1_000;
        assert_eq!(runs.finished_before, Some(Millis(100_000_000_000 - 30 * day)));
        assert_eq!((runs.max_log_bytes, runs.keys_before), (Some(7), Millis(100_000_000_000 - day)));
        assert_eq!(runs.blobs_before, Millis(i64::MIN));
        assert_eq!(blobs.blobs_before, Millis(100_000_000_000 - day));
        assert_eq!((blobs.finished_before, blobs.max_log_bytes), (None, None));
        assert_eq!(blobs.keys_before, Millis(i64::MIN));
    }
}
