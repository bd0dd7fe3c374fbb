//! The decision whether and when a failed attempt is repeated (seed 000, contract 4).

mod backoff_delays;
mod errors;

use std::time::Duration;

use capataz_contracts::{Violation, v1};
use serde::{Deserialize, Serialize};

use crate::check::{DAY, Fields, LONGEST_LIMIT, MILLISECOND, milliseconds, recorded_duration};
use crate::codes::{self, Code};

pub use errors::{
    attempt_timeout_error, exhausted_error, non_retryable_error, original, retry_success_notice,
    suggested_action, total_timeout_exceeded_error,
};

/// The codes that are retried. A code matches if it contains an entry.
pub const RETRYABLE: &[Code] = &[
    codes::TIMEOUT,
    codes::NETWORK_ERROR,
    codes::RATE_LIMIT,
    codes::SERVICE_UNAVAILABLE,
    codes::CONNECTION_RESET,
    codes::ECONNREFUSED,
    codes::ETIMEDOUT,
];

/// The code that passes by itself where a spec fails with it, matched in the same way, although a plan's task does not get
/// another attempt for it: seed 001 calls it recoverable, and seed 000 has seven codes. PROCESSING_TIMEOUT and RATE_LIMIT are
/// already in [`RETRYABLE`].
const RETRYABLE_OF_SPECS: Code = codes::TEMPORARY_ERROR;

/// The codes that are not retried, matched in the same way. This list takes precedence over the retryable codes.
pub const NON_RETRYABLE: &[Code] = &[
    codes::PARSE_ERROR,
    codes::VALIDATION_ERROR,
    codes::LOGIC_ERROR,
    codes::FILE_NOT_FOUND,
    codes::PERMISSION_DENIED,
    codes::INVALID_ARGUMENT,
];

/// The engine's own verdicts over all attempts of a task, matched by the whole code. No list makes them retryable.
pub const NEVER_RETRIED: &[Code] = &[
    codes::TASK_TIMEOUT,
    codes::TOTAL_TIMEOUT_EXCEEDED,
    codes::RETRY_EXHAUSTED,
    codes::SCHEDULE_TO_START_TIMEOUT,
];

/// The maximum number of attempts that a policy may request.
pub const MOST_ATTEMPTS: u32 = 100;
/// The maximum delay before another attempt.
pub const LONGEST_DELAY: Duration = DAY;

const DEFAULT_ATTEMPTS: u32 = 3;
const DEFAULT_BASE_DELAY: Duration = Duration::from_secs(1);
const DEFAULT_MULTIPLIER: f64 = 2.0;
const DEFAULT_MAX_DELAY: Duration = Duration::from_secs(30);

/// The number of attempts, their delays, and the codes that are retried. The values are checked: there is at least one
/// attempt, and no delay is longer than [`LONGEST_DELAY`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RetryPolicy {
    max_attempts: u32,
    base_delay: Duration,
    multiplier: f64,
    max_delay: Duration,
    timeout_per_attempt: Option<Duration>,
    total_timeout: Option<Duration>,
    jitter: bool,
    delays: Vec<Duration>,
    retryable: Vec<String>,
    non_retryable: Vec<String>,
}

/// The consequence of a failed attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RetryDecision {
    /// Another attempt follows after this delay.
    Retry { delay: Duration },
    /// The code is retryable, but that was the last attempt.
    Exhausted,
    /// Another attempt would fail in the same way, or the code is unknown.
    NonRetryable { reason: String },
    /// The next attempt would begin after the policy's total limit.
    TotalTimeoutExceeded,
}

impl Default for RetryPolicy {
    /// The default: three attempts, with delays of 1 s and 2 s. The time limits are the task's; the seed's own, 30 s for
    /// an attempt and 120 s for all, apply only where a plan writes them.
    fn default() -> Self {
        Self {
            max_attempts: DEFAULT_ATTEMPTS,
            base_delay: DEFAULT_BASE_DELAY,
            multiplier: DEFAULT_MULTIPLIER,
            max_delay: DEFAULT_MAX_DELAY,
            timeout_per_attempt: None,
            total_timeout: None,
            jitter: false,
            delays: Vec::new(),
            retryable: Vec::new(),
            non_retryable: Vec::new(),
        }
    }
}

impl RetryPolicy {
    /// Reads a policy. An absent or invalid field gets its default; `path` is the policy's place in its document.
    ///
    /// A table of delays without `max_attempts` allows one attempt more than it has entries; a larger `max_attempts` is
    /// reduced to that number. If only one of base and maximum is given, the default of the other one is adapted to it.
    pub fn from_proto(policy: &v1::RetryPolicy, path: &str, violations: &mut Vec<Violation>) -> Self {
        let fields = &mut Fields::of(path, violations);
        let delays = read_delays(policy, fields);
        let (base_delay, max_delay) = read_base_and_max(policy, fields);
        let limits = MILLISECOND..=LONGEST_LIMIT;
        let timeout_per_attempt = policy
            .timeout_per_attempt_ms
            .and_then(|limit| fields.duration("timeout_per_attempt_ms", limit, limits.clone()));
        let total_timeout =
            policy.total_timeout_ms.and_then(|limit| fields.duration("total_timeout_ms", limit, limits));
        Self {
            max_attempts: read_max_attempts(policy, &delays, fields),
            base_delay,
            multiplier: read_multiplier(policy, fields),
            max_delay,
            timeout_per_attempt,
            total_timeout,
            jitter: policy.jitter.unwrap_or(false),
            delays,
            retryable: read_codes("retryable", &policy.retryable, fields),
            non_retryable: read_codes("non_retryable", &policy.non_retryable, fields),
        }
    }

    /// Reads a policy that an event has recorded: nothing is filled in or refused. `None` where it is not whole.
    #[must_use]
    pub fn recorded(policy: v1::RetryPolicy) -> Option<Self> {
        let limit = |limit: Option<i64>| limit.map(recorded_duration);
        let delays: Option<Vec<Duration>> = policy.delays_ms.into_iter().map(recorded_duration).collect();
        let timeout_per_attempt = match limit(policy.timeout_per_attempt_ms) {
            Some(limit) => Some(limit?),
            None => None,
        };
        let total_timeout = match limit(policy.total_timeout_ms) {
            Some(limit) => Some(limit?),
            None => None,
        };
        Some(Self {
            max_attempts: policy.max_attempts?,
            base_delay: recorded_duration(policy.base_delay_ms?)?,
            multiplier: policy.backoff_multiplier?,
            max_delay: recorded_duration(policy.max_delay_ms?)?,
            timeout_per_attempt,
            total_timeout,
            jitter: policy.jitter?,
            delays: delays?,
            retryable: policy.retryable,
            non_retryable: policy.non_retryable,
        })
    }

    /// The policy with every default written out; reading it gives the same policy.
    #[must_use]
    pub fn to_proto(&self) -> v1::RetryPolicy {
        v1::RetryPolicy {
            max_attempts: Some(self.max_attempts),
            base_delay_ms: Some(milliseconds(self.base_delay)),
            backoff_multiplier: Some(self.multiplier),
            max_delay_ms: Some(milliseconds(self.max_delay)),
            timeout_per_attempt_ms: self.timeout_per_attempt.map(milliseconds),
            total_timeout_ms: self.total_timeout.map(milliseconds),
            jitter: Some(self.jitter),
            delays_ms: self.delays.iter().copied().map(milliseconds).collect(),
            retryable: self.retryable.clone(),
            non_retryable: self.non_retryable.clone(),
        }
    }

    /// The number of attempts, including the first.
    #[must_use]
    pub fn max_attempts(&self) -> u32 {
        self.max_attempts
    }

    /// The time limit of one attempt, if there is one.
    #[must_use]
    pub fn timeout_per_attempt(&self) -> Option<Duration> {
        self.timeout_per_attempt
    }

    /// The time after the start of the first attempt at which no further attempt begins, if there is such a limit.
    #[must_use]
    pub fn total_timeout(&self) -> Option<Duration> {
        self.total_timeout
    }

    /// Returns whether [`Self::delay`] needs a random draw.
    #[must_use]
    pub fn jitters(&self) -> bool {
        self.jitter
    }

    /// The delay between the failed attempt (1 for the first) and the next one, in whole milliseconds. With jitter,
    /// `jitter_draw` in [0, 1) selects the part of the delay; without a draw, the delay is complete.
    #[must_use]
    pub fn delay(&self, failed_attempt: u32, jitter_draw: Option<f64>) -> Duration {
        let delay = match self.delays.last() {
            Some(last) => *usize::try_from(failed_attempt.saturating_sub(1))
                .ok()
                .and_then(|index| self.delays.get(index))
                .unwrap_or(last),
            None => backoff_delays::delay(self.base_delay, self.multiplier, self.max_delay, failed_attempt),
        };
        match jitter_draw {
            Some(draw) if self.jitter && (0.0..1.0).contains(&draw) => {
                whole_milliseconds(delay.mul_f64(draw))
            }
            _ => delay,
        }
    }

    /// The consequence of attempt number `attempt`, which failed with `code` at `elapsed` after the start of the first
    /// attempt. The `retry_after` of the failing side lengthens the delay, up to [`LONGEST_DELAY`]; it never shortens
    /// the delay.
    #[must_use]
    pub fn decide(
        &self,
        code: &str,
        attempt: u32,
        elapsed: Duration,
        retry_after: Option<Duration>,
        jitter_draw: Option<f64>,
    ) -> RetryDecision {
        if let Some(reason) = self.refusal(code) {
            return RetryDecision::NonRetryable { reason };
        }
        self.decide_retryable(attempt, elapsed, retry_after, jitter_draw)
    }

    /// The consequence of a failure that is known to be recoverable, whatever its code.
    #[must_use]
    pub fn decide_retryable(
        &self,
        attempt: u32,
        elapsed: Duration,
        retry_after: Option<Duration>,
        jitter_draw: Option<f64>,
    ) -> RetryDecision {
        if attempt >= self.max_attempts {
            return RetryDecision::Exhausted;
        }
        let asked = retry_after.unwrap_or(Duration::ZERO).min(LONGEST_DELAY);
        let delay = self.delay(attempt, jitter_draw).max(asked);
        match self.total_timeout {
            Some(limit) if elapsed.saturating_add(delay) > limit => RetryDecision::TotalTimeoutExceeded,
            _ => RetryDecision::Retry { delay },
        }
    }

    /// The list that decides whether a failure with this code is retried.
    #[must_use]
    pub fn listing<'a>(&'a self, code: &str) -> Listing<'a> {
        if NEVER_RETRIED.iter().any(|never| *never == *code) {
            return Listing::Never;
        }
        if let Some(entry) = named(NON_RETRYABLE, &self.non_retryable, code) {
            return Listing::NonRetryable(entry);
        }
        named(RETRYABLE, &self.retryable, code).map_or(Listing::Unlisted, Listing::Retryable)
    }

    /// The reason why `code` is not retried; `None` if it is.
    #[must_use]
    pub fn refusal(&self, code: &str) -> Option<String> {
        match self.listing(code) {
            Listing::Never => Some(format!("{code} already ends all attempts")),
            Listing::NonRetryable(entry) => {
                Some(format!("{code} is on the list of failures that are not retried, by {entry}"))
            }
            Listing::Retryable(_) => None,
            Listing::Unlisted => {
                let name = if code.is_empty() { "a failure without a code" } else { code };
                Some(format!("{name} is on no list, and only failures that are known to pass are retried"))
            }
        }
    }
}

/// Whether a failure with this code passes by itself where a spec fails with it without saying so in an answer, and would not
/// by the lists alone.
#[must_use]
pub fn passes_for_a_spec(code: &str) -> bool {
    code.contains(RETRYABLE_OF_SPECS.as_str()) && RetryPolicy::default().listing(code) == Listing::Unlisted
}

/// The list that has a code, by the entry that the code contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listing<'a> {
    /// The code is a verdict over all attempts.
    Never,
    NonRetryable(&'a str),
    Retryable(&'a str),
    /// The code is on no list, and is not retried.
    Unlisted,
}

/// The entry that `code` contains, from the standard list or the policy's own.
fn named<'a>(standard: &[Code], own: &'a [String], code: &str) -> Option<&'a str> {
    standard
        .iter()
        .map(|entry| entry.as_str())
        .chain(own.iter().map(String::as_str))
        .find(|entry| code.contains(entry))
}

fn whole_milliseconds(duration: Duration) -> Duration {
    Duration::from_millis(u64::try_from((duration.as_nanos() + 500_000) / 1_000_000).unwrap_or(u64::MAX))
}

fn read_delays(policy: &v1::RetryPolicy, fields: &mut Fields<'_>) -> Vec<Duration> {
    let most = MOST_ATTEMPTS as usize - 1;
    if policy.delays_ms.len() > most {
        let given = policy.delays_ms.len();
        fields.refuse("delays_ms", "range", format!("must have at most {most} entries, not {given}"));
        return Vec::new();
    }
    let entries = policy.delays_ms.iter().enumerate();
    entries
        .filter_map(|(index, delay)| {
            fields.duration(&format!("delays_ms[{index}]"), *delay, Duration::ZERO..=LONGEST_DELAY)
        })
        .collect()
}

fn read_max_attempts(policy: &v1::RetryPolicy, delays: &[Duration], fields: &mut Fields<'_>) -> u32 {
    let by_table = u32::try_from(delays.len()).ok().filter(|&length| length > 0).map(|length| length + 1);
    match policy.max_attempts {
        None => by_table.unwrap_or(DEFAULT_ATTEMPTS),
        Some(attempts) if (1..=MOST_ATTEMPTS).contains(&attempts) => {
            by_table.map_or(attempts, |most| attempts.min(most))
        }
        Some(attempts) => {
            fields.refuse(
                "max_attempts",
                "range",
                format!("must be from 1 to {MOST_ATTEMPTS} attempts in all, not {attempts}"),
            );
            DEFAULT_ATTEMPTS
        }
    }
}

fn read_base_and_max(policy: &v1::RetryPolicy, fields: &mut Fields<'_>) -> (Duration, Duration) {
    let range = Duration::ZERO..=LONGEST_DELAY;
    let base = policy.base_delay_ms.and_then(|delay| fields.duration("base_delay_ms", delay, range.clone()));
    let max = policy.max_delay_ms.and_then(|delay| fields.duration("max_delay_ms", delay, range));
    match (base, max) {
        (Some(base), Some(max)) if max < base => {
            let (base_ms, max_ms) = (base.as_millis(), max.as_millis());
            let message =
                format!("must not be shorter than base_delay_ms: {max_ms} ms is less than {base_ms} ms");
            fields.refuse("max_delay_ms", "order", message);
            (base, base)
        }
        (Some(base), Some(max)) => (base, max),
        (Some(base), None) => (base, DEFAULT_MAX_DELAY.max(base)),
        (None, Some(max)) => (DEFAULT_BASE_DELAY.min(max), max),
        (None, None) => (DEFAULT_BASE_DELAY, DEFAULT_MAX_DELAY),
    }
}

fn read_multiplier(policy: &v1::RetryPolicy, fields: &mut Fields<'_>) -> f64 {
    match policy.backoff_multiplier {
        None => DEFAULT_MULTIPLIER,
        Some(multiplier) if multiplier.is_finite() && multiplier >= 1.0 => multiplier,
        Some(multiplier) => {
            let message = format!("must be a finite number of at least 1, not {multiplier}");
            fields.refuse("backoff_multiplier", "range", message);
            DEFAULT_MULTIPLIER
        }
    }
}

/// An empty entry would match every code, which is never intended.
fn read_codes(field: &str, entries: &[String], fields: &mut Fields<'_>) -> Vec<String> {
    let mut codes = Vec::with_capacity(entries.len());
    for (index, entry) in entries.iter().enumerate() {
        if entry.trim().is_empty() {
            fields.refuse(&format!("{field}[{index}]"), "not_blank", "must not be blank".to_owned());
        } else {
            codes.push(entry.clone());
        }
    }
    codes
}

#[cfg(test)]
mod tests;
