//! Time limits of tasks, and the messages about them (seed 000, contract 3).

use std::time::Duration;

use capataz_contracts::{Violation, v1};
use serde::{Deserialize, Serialize};

use crate::check::{Fields, LONGEST_LIMIT, MILLISECOND, milliseconds, recorded_duration};
use crate::codes::{self, owned};
use crate::planted::{self, Fault};
use crate::text;

/// The remaining time below which TIMEOUT_IMMINENT is given, and not yet when just so much is left.
pub const IMMINENT: Duration = Duration::from_secs(60);
/// How long before the deadline the notice is given: in the first millisecond in which less is left.
const WARNED: Duration = IMMINENT.saturating_sub(Duration::from_millis(1));
/// The time that one answer "extend" adds.
pub const EXTENSION: Duration = Duration::from_secs(15 * 60);

/// The answers to TASK_TIMEOUT until the grace period ends.
pub const OPTIONS: &[&str] = &["extend", "terminate", "retry", "abort"];
/// The answers to TASK_TIMEOUT after the task was ended, when there is no time left to extend.
pub const OPTIONS_AFTER_GRACE: &[&str] = &["terminate", "retry", "abort"];

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30 * 60);
const DEFAULT_GRACE: Duration = Duration::from_secs(10);
const LONGEST_GRACE: Duration = Duration::from_secs(60 * 60);

/// The time limits of a task, over all of its attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeoutPolicy {
    timeout: Duration,
    grace: Duration,
    schedule_to_start: Option<Duration>,
}

impl Default for TimeoutPolicy {
    /// The defaults: 30 min, 10 s of grace, and no limit on the wait for a worker.
    fn default() -> Self {
        Self { timeout: DEFAULT_TIMEOUT, grace: DEFAULT_GRACE, schedule_to_start: None }
    }
}

impl TimeoutPolicy {
    /// Reads a policy. An absent or invalid field gets its default; `path` is the policy's place in its document.
    pub fn from_proto(policy: &v1::TimeoutPolicy, path: &str, violations: &mut Vec<Violation>) -> Self {
        let fields = &mut Fields::of(path, violations);
        let limits = MILLISECOND..=LONGEST_LIMIT;
        let timeout =
            policy.timeout_ms.and_then(|limit| fields.duration("timeout_ms", limit, limits.clone()));
        let grace = policy
            .grace_ms
            .and_then(|grace| fields.duration("grace_ms", grace, Duration::ZERO..=LONGEST_GRACE));
        let schedule_to_start = policy
            .schedule_to_start_ms
            .and_then(|limit| fields.duration("schedule_to_start_ms", limit, limits));
        Self {
            timeout: timeout.unwrap_or(DEFAULT_TIMEOUT),
            grace: grace.unwrap_or(DEFAULT_GRACE),
            schedule_to_start,
        }
    }

    /// Reads a policy that an event has recorded: nothing is filled in or refused. `None` where it is not whole.
    #[must_use]
    pub fn recorded(policy: &v1::TimeoutPolicy) -> Option<Self> {
        let schedule_to_start = match policy.schedule_to_start_ms {
            Some(limit) => Some(recorded_duration(limit)?),
            None => None,
        };
        Some(Self {
            timeout: recorded_duration(policy.timeout_ms?)?,
            grace: recorded_duration(policy.grace_ms?)?,
            schedule_to_start,
        })
    }

    /// The policy with every default written out; reading it gives the same policy.
    #[must_use]
    pub fn to_proto(&self) -> v1::TimeoutPolicy {
        v1::TimeoutPolicy {
            timeout_ms: Some(milliseconds(self.timeout)),
            grace_ms: Some(milliseconds(self.grace)),
            schedule_to_start_ms: self.schedule_to_start.map(milliseconds),
        }
    }

    /// The time limit from the first lease of the task, over all of its attempts.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The time between the polite cancel and the forced end.
    #[must_use]
    pub fn grace(&self) -> Duration {
        self.grace
    }

    /// The time limit of the wait for a worker, if there is one.
    #[must_use]
    pub fn schedule_to_start(&self) -> Option<Duration> {
        self.schedule_to_start
    }

    /// How long before the deadline TIMEOUT_IMMINENT is given; `None` where it is not, because the timeout is very short.
    #[must_use]
    pub fn warning(&self) -> Option<Duration> {
        warning(self.timeout)
    }
}

/// How long before its end the notice TIMEOUT_IMMINENT of so much time is given. In all of a minute or less it would be due
/// at the start, and is omitted.
#[must_use]
pub fn warning(time: Duration) -> Option<Duration> {
    let before = if planted::is(Fault::WarnedWithAMinuteLeft) { IMMINENT } else { WARNED };
    (time > IMMINENT).then_some(before)
}

/// The error of a task that did not end within its timeout (HIGH). `last_health_check_ms` is the Unix time of the
/// worker's last frame.
#[must_use]
pub fn task_timeout_error(
    task: &str,
    configured: Duration,
    elapsed: Duration,
    last_health_check_ms: Option<i64>,
    partial_output: Option<v1::Payload>,
) -> v1::Error {
    let (limit, taken) = (text::duration(configured), text::duration(elapsed));
    v1::Error {
        options: owned(OPTIONS),
        timeout: Some(v1::TimeoutDetail {
            configured_timeout_ms: milliseconds(configured),
            elapsed_ms: milliseconds(elapsed),
            last_health_check_ms,
            partial_output,
        }),
        ..codes::error(
            codes::TASK_TIMEOUT,
            format!("task {task:?} exceeded its timeout of {limit}: it has taken {taken}"),
        )
    }
}

/// The notice that a task has little time left (MEDIUM): less than so many whole seconds.
#[must_use]
pub fn timeout_imminent_notice(task: &str, remaining: Duration) -> v1::Error {
    let left = text::duration(Duration::from_secs(remaining.as_secs().saturating_add(1)));
    let message = format!("task {task:?} has less than {left} left before its timeout");
    v1::Error { options: owned(&["extend"]), ..codes::error(codes::TIMEOUT_IMMINENT, message) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MINUTE_MS: i64 = 60_000;

    #[track_caller]
    fn read(policy: v1::TimeoutPolicy, refused: &[&str]) -> TimeoutPolicy {
        let mut violations = Vec::new();
        let policy = TimeoutPolicy::from_proto(&policy, "tasks[0].timeouts", &mut violations);
        let paths: Vec<_> = violations.iter().map(|violation| violation.path.as_str()).collect();
        assert_eq!(paths, refused);
        policy
    }

    fn of(timeout_ms: i64) -> v1::TimeoutPolicy {
        v1::TimeoutPolicy { timeout_ms: Some(timeout_ms), ..v1::TimeoutPolicy::default() }
    }

    // S000-C3-01, S000-C3-11
    #[test]
    fn an_absent_policy_is_half_an_hour_with_ten_seconds_of_grace() {
        let policy = read(v1::TimeoutPolicy::default(), &[]);
        assert_eq!(policy, TimeoutPolicy::default());
        assert_eq!(policy.timeout(), Duration::from_secs(1_800));
        assert_eq!(policy.grace(), Duration::from_secs(10));
        assert_eq!(policy.schedule_to_start(), None);
    }

    // S000-C3-02
    #[test]
    fn limits_have_bounds() {
        let month = 30 * 24 * 60 * MINUTE_MS;
        read(of(1), &[]);
        read(of(month), &[]);
        read(of(0), &["tasks[0].timeouts.timeout_ms"]);
        read(of(month + 1), &["tasks[0].timeouts.timeout_ms"]);
        read(v1::TimeoutPolicy { grace_ms: Some(0), schedule_to_start_ms: Some(1), ..of(1) }, &[]);
        read(
            v1::TimeoutPolicy {
                grace_ms: Some(60 * MINUTE_MS + 1),
                schedule_to_start_ms: Some(0),
                ..of(i64::MIN)
            },
            &[
                "tasks[0].timeouts.timeout_ms",
                "tasks[0].timeouts.grace_ms",
                "tasks[0].timeouts.schedule_to_start_ms",
            ],
        );
    }

    /// The seed compares what remains: `remaining < 60000`.
    // S000-C3-09
    #[test]
    fn the_warning_of_longer_timeouts_comes_when_less_than_a_minute_is_left() {
        assert_eq!(read(of(MINUTE_MS), &[]).warning(), None);
        assert_eq!(read(of(MINUTE_MS + 1), &[]).warning(), Some(Duration::from_millis(59_999)));
    }

    // S000-C3-13, S000-C3-16
    #[test]
    fn a_timeout_says_how_long_it_took_and_what_can_be_done() {
        let elapsed = Duration::from_millis(1_905_000);
        let error =
            task_timeout_error("explore-codebase", Duration::from_secs(1_800), elapsed, Some(17), None);
        assert_eq!(
            error.message,
            "task \"explore-codebase\" exceeded its timeout of 30m: it has taken 31m 45s"
        );
        assert_eq!(error.severity, v1::Severity::High as i32);
        assert_eq!(error.can_continue, Some(true));
        assert_eq!(error.options, ["extend", "terminate", "retry", "abort"]);
        let detail = error.timeout.unwrap_or_default();
        assert_eq!((detail.configured_timeout_ms, detail.elapsed_ms), (1_800_000, 1_905_000));
        assert_eq!(detail.last_health_check_ms, Some(17));
    }

    // S000-C3-09
    #[test]
    fn the_warning_is_medium() {
        let notice = timeout_imminent_notice("build", Duration::from_millis(59_999));
        assert_eq!(notice.message, "task \"build\" has less than 1m left before its timeout");
        let late = timeout_imminent_notice("build", Duration::from_millis(30_500));
        assert_eq!(late.message, "task \"build\" has less than 31s left before its timeout");
        assert_eq!(notice.severity, v1::Severity::Medium as i32);
        assert_eq!(notice.can_continue, Some(true));
    }

    proptest! {
        #[test]
        fn any_message_reads_into_a_policy_that_reads_back(
            timeout_ms: Option<i64>, grace_ms: Option<i64>, schedule_to_start_ms: Option<i64>,
        ) {
            let policy = v1::TimeoutPolicy { timeout_ms, grace_ms, schedule_to_start_ms };
            let policy = TimeoutPolicy::from_proto(&policy, "", &mut Vec::new());
            prop_assert_eq!(read(policy.to_proto(), &[]), policy);
        }
    }
}
