//! Retention: when it sweeps, and by which rules.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use capataz_hosts::browsers::Browsers;
use capataz_runtime::Runtime;
use capataz_shard::Ages;
use capataz_store::{Millis, Retention, StoreError, Swept};
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::SHARD;
use crate::config::RetentionConfig;
use crate::services::Health;

/// How often old data is looked for.
const EVERY: Duration = Duration::from_secs(60);
/// How often the size of the log is looked at, where it has a limit.
const SIZE_EVERY: Duration = Duration::from_secs(1);
/// Runs, keys and blobs that one transaction removes at most, and the bytes after which it removes no further one.
const SWEEP_RUNS: u32 = 256;
const SWEEP_BYTES: u64 = 4 * 1024 * 1024;
/// Finished runs that one transaction looks at, those that have to stay among them.
const SWEEP_LOOKS: u32 = 4_096;
/// How far the clock on the wall may be ahead of the time by which a sweep goes before somebody is told. Milliseconds.
const FAR_BEHIND_MS: i64 = 24 * 60 * 60 * 1_000;

/// Removes what the rules let go, until the daemon ends.
pub(crate) async fn run(
    runtime: Runtime,
    retention: RetentionConfig,
    browsers: Arc<Browsers>,
    health: Health,
) {
    let (mut pulse, mut sizes) = (slow(EVERY), slow(SIZE_EVERY));
    let limit = retention.max_log_bytes;
    // While what is too large cannot be made smaller, because the runs are unfinished, it is left to the slower pulse. What
    // grows meanwhile can be: one commit is enough for a log that was swept to be too large again.
    let mut is_stuck = false;
    let mut telling = Telling { health, is_going: true };
    loop {
        tokio::select! {
            _ = pulse.tick() => {
                is_stuck = false;
                telling.of(sweep(&runtime, &retention).await.behind_ms).await;
                Arc::clone(&browsers).sweep().await;
            }
            _ = sizes.tick(), if limit.is_some() && !is_stuck => {
                if is_too_large(&runtime, limit).await {
                    let looked = sweep(&runtime, &retention).await;
                    telling.of(looked.behind_ms).await;
                    is_stuck = !looked.has_shrunk;
                }
            }
        }
    }
}

/// Says when retention begins to stand still for what only the clock on the wall makes old, and when that is over.
struct Telling {
    health: Health,
    is_going: bool,
}

impl Telling {
    async fn of(&mut self, behind_ms: i64) {
        let is_going = behind_ms < FAR_BEHIND_MS;
        if std::mem::replace(&mut self.is_going, is_going) == is_going {
            return;
        }
        if is_going {
            tracing::info!("retention goes by the clock on the wall again");
        } else {
            tracing::warn!(
                behind_ms,
                "the clock on the wall says that more time has passed than anybody has seen; retention removes nothing that \
                 this alone makes old, and goes on as time passes; if the clock is right, `retention.believe_clock = true` \
                 says so"
            );
        }
        self.health.retains(is_going).await;
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

/// What came of a look at all that may go.
#[derive(Debug, Default, PartialEq, Eq)]
struct Looked {
    /// By how much the clock on the wall was ahead of the time by which it went. Milliseconds.
    behind_ms: i64,
    /// Whether the log is smaller, where it has a limit.
    has_shrunk: bool,
}

/// Sweeps until nothing is due.
async fn sweep(runtime: &Runtime, retention: &RetentionConfig) -> Looked {
    let mut looked = Looked::default();
    for (rule, ages) in rules(retention) {
        let swept = told(runtime.sweep_all(SHARD, &rule, ages).await);
        // Keys and blobs are no part of the log.
        looked.has_shrunk |= rule.max_log_bytes.is_some() && swept.runs + swept.bytes > 0;
        looked.behind_ms = runtime.behind_ms().max(looked.behind_ms);
    }
    looked
}

/// The rules: one for runs and their keys, and one for the blobs that nobody names any more, so that a sweep is one
/// transaction. How old something has to be is said as an age, for the shard alone knows what its clocks have said.
fn rules(retention: &RetentionConfig) -> [(Retention, Ages); 2] {
    let age = |age: Duration| i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
    let nothing = Retention {
        // The shard knows which streams are in use.
        keep: BTreeSet::new(),
        held_by: None,
        finished_before: None,
        max_log_bytes: None,
        after: None,
        looked_at: SWEEP_LOOKS,
        keys_before: Millis(i64::MIN),
        blobs_before: Millis(i64::MIN),
        batch: SWEEP_RUNS,
        batch_bytes: SWEEP_BYTES,
    };
    let runs = Retention { max_log_bytes: retention.max_log_bytes, ..nothing.clone() };
    let believes_clock = retention.believe_clock;
    let of_runs = Ages {
        finished_runs: retention.finished_runs.map(age),
        keys: Some(age(retention.idempotency_keys)),
        blobs: None,
        believes_clock,
    };
    let of_blobs = Ages { blobs: Some(age(retention.unused_blobs)), believes_clock, ..Ages::default() };
    [(runs, of_runs), (nothing, of_blobs)]
}

/// Says what is gone; nothing where a sweep has failed.
fn told(swept: Result<Swept, StoreError>) -> Swept {
    match swept {
        Ok(swept) => {
            let Swept { runs, keys, blobs, bytes, unreadable, .. } = swept;
            if has_removed(&swept) {
                tracing::info!(runs, keys, blobs, bytes, unreadable, "retention");
            }
            swept
        }
        Err(error) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "retention failed");
            Swept::default()
        }
    }
}

/// Whether anything is gone. Bytes alone are rows of runs that were removed before.
fn has_removed(swept: &Swept) -> bool {
    let Swept { runs, keys, blobs, bytes, .. } = *swept;
    runs + keys + blobs + bytes > 0
}

#[cfg(test)]
mod tests;
