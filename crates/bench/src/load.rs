//! A closed loop of callers: each makes its next call when the last one was answered.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tokio::task::JoinSet;

use crate::{Options, Outcome};

/// Callers on one connection; more of them get more connections.
const CALLERS_PER_CONNECTION: usize = 64;

/// How hard and how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) concurrency: usize,
    pub(crate) warm_up: Duration,
    pub(crate) window: Duration,
}

impl Load {
    pub(crate) fn new(options: &Options, concurrency: usize) -> Self {
        Self { concurrency, warm_up: options.warm_up(), window: options.window() }
    }

    pub(crate) fn connections(&self) -> usize {
        self.concurrency.div_ceil(CALLERS_PER_CONNECTION)
    }
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Measured<S> {
    /// Answered within the window.
    pub(crate) operations: u64,
    window: Duration,
    /// All, the warm-up and the last ones included.
    pub(crate) all_operations: u64,
    /// Microseconds.
    latencies: Histogram<u64>,
    /// What was read at the beginning and at the end of the window.
    pub(crate) samples: (S, S),
}

impl<S> Measured<S> {
    pub(crate) fn per_second(&self) -> f64 {
        self.operations as f64 / self.window.as_secs_f64()
    }

    /// Milliseconds.
    pub(crate) fn quantile(&self, quantile: f64) -> f64 {
        self.latencies.value_at_quantile(quantile) as f64 / 1e3
    }

    pub(crate) fn slowest(&self) -> f64 {
        self.latencies.max() as f64 / 1e3
    }

    /// Microseconds of `used` for each operation.
    pub(crate) fn micros_per_operation(&self, used: Duration) -> f64 {
        used.as_secs_f64() * 1e6 / self.operations.max(1) as f64
    }
}

/// An empty histogram of microseconds, up to an hour.
pub(crate) fn histogram() -> Outcome<Histogram<u64>> {
    Ok(Histogram::new_with_bounds(1, 3_600_000_000, 3)?)
}

/// Makes calls until the window is over. `sample` is called at its beginning and at its end, on a thread of its own.
///
/// # Errors
/// Any call failed.
pub(crate) async fn closed_loop<S, F, A>(
    load: Load,
    sample: impl Fn() -> Outcome<S> + Send + 'static,
    operation: F,
) -> Outcome<Measured<S>>
where
    S: Send + 'static,
    F: Fn(usize) -> A + Send + Sync + 'static,
    A: Future<Output = Outcome<()>> + Send + 'static,
{
    let operation = Arc::new(operation);
    let all = Arc::new(AtomicU64::new(0));
    let begin = Instant::now() + load.warm_up;
    let end = begin + load.window;
    let sampler = std::thread::Builder::new().name("sampler".to_owned()).spawn(move || -> Outcome<_> {
        let take = |at: Instant| -> Outcome<S> {
            std::thread::sleep(at.saturating_duration_since(Instant::now()));
            sample()
        };
        Ok((take(begin)?, take(end)?))
    })?;
    let mut callers = JoinSet::new();
    for caller in 0..load.concurrency {
        let (operation, all) = (Arc::clone(&operation), Arc::clone(&all));
        callers.spawn(async move {
            let mut latencies = histogram()?;
            loop {
                let asked = Instant::now();
                if asked >= end {
                    return Ok::<_, Box<dyn std::error::Error + Send + Sync>>(latencies);
                }
                operation(caller).await?;
                let answered = Instant::now();
                all.fetch_add(1, Ordering::Relaxed);
                if answered >= begin && answered < end {
                    let micros = (answered - asked).as_micros();
                    latencies.saturating_record(u64::try_from(micros).unwrap_or(u64::MAX));
                }
            }
        });
    }
    let mut latencies = histogram()?;
    while let Some(caller) = callers.join_next().await {
        latencies.add(caller??)?;
    }
    let sampled = tokio::task::spawn_blocking(move || sampler.join()).await?;
    let samples = sampled.map_err(|_| "the sampler panicked")??;
    Ok(Measured {
        operations: latencies.len(),
        window: load.window,
        all_operations: all.load(Ordering::Relaxed),
        latencies,
        samples,
    })
}
