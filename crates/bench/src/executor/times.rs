//! How long something takes, many times.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::Outcome;
use crate::report::{Cell, Unit};

#[derive(Clone, Debug)]
pub(super) struct Times {
    /// Nanoseconds.
    latencies: Histogram<u64>,
}

impl Times {
    pub(super) fn new() -> Outcome<Self> {
        Ok(Self { latencies: Histogram::new_with_bounds(1, 60_000_000_000, 3)? })
    }

    /// Those of so many things.
    pub(super) fn several<const N: usize>() -> Outcome<[Self; N]> {
        let one = Self::new()?;
        Ok(std::array::from_fn(|_| one.clone()))
    }

    /// Does it, and notes how long it took.
    pub(super) async fn of<T, E>(&mut self, work: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        let begun = Instant::now();
        let done = work.await?;
        self.note(begun.elapsed());
        Ok(done)
    }

    pub(super) fn note(&mut self, duration: Duration) {
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.latencies.saturating_record(nanoseconds.max(1));
    }

    pub(super) fn count(&self) -> u64 {
        self.latencies.len()
    }

    /// What was noted so far was warm-up.
    pub(super) fn forget(&mut self) {
        self.latencies.reset();
    }

    /// Milliseconds.
    pub(super) fn quantile(&self, quantile: f64) -> f64 {
        self.latencies.value_at_quantile(quantile) as f64 / 1e6
    }

    pub(super) fn median(&self) -> Cell {
        Cell::new(self.quantile(0.5), Unit::Milliseconds)
    }

    pub(super) fn tail(&self) -> Cell {
        Cell::new(self.quantile(0.99), Unit::Milliseconds)
    }

    /// How many times the median of something else.
    pub(super) fn ratio(&self, floor: &Self) -> Cell {
        Cell::new(self.quantile(0.5) / floor.quantile(0.5), Unit::Ratio)
    }
}
