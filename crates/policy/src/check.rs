//! Checks of a policy's fields. Reading a message collects all violations; no violation stops the reading.

use std::ops::RangeInclusive;
use std::time::Duration;

use capataz_contracts::Violation;

use crate::text;

pub(crate) const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// The longest permitted limit. The sum of a wall-clock time and any limit stays far from the end of its type.
pub(crate) const LONGEST_LIMIT: Duration = Duration::from_secs(30 * 24 * 60 * 60);
pub(crate) const MILLISECOND: Duration = Duration::from_millis(1);

/// Collects the violations of the fields of one message, which is at one path.
pub(crate) struct Fields<'a> {
    path: &'a str,
    violations: &'a mut Vec<Violation>,
}

impl<'a> Fields<'a> {
    pub(crate) fn of(path: &'a str, violations: &'a mut Vec<Violation>) -> Self {
        Self { path, violations }
    }

    pub(crate) fn refuse(&mut self, field: &str, rule: &'static str, message: String) {
        let path = match self.path {
            "" => field.to_owned(),
            path => format!("{path}.{field}"),
        };
        self.violations.push(Violation { path, rule, message });
    }

    /// The milliseconds of `field` if they lie in `range`; otherwise `None` and a violation.
    pub(crate) fn duration(
        &mut self,
        field: &str,
        milliseconds: i64,
        range: RangeInclusive<Duration>,
    ) -> Option<Duration> {
        let duration = u64::try_from(milliseconds).ok().map(Duration::from_millis);
        let duration = duration.filter(|duration| range.contains(duration));
        if duration.is_none() {
            let (least, most) = (text::duration(*range.start()), text::duration(*range.end()));
            self.refuse(field, "range", format!("must be from {least} to {most}, not {milliseconds} ms"));
        }
        duration
    }
}

/// A duration as an event has recorded it; `None` for one below zero.
pub(crate) fn recorded_duration(milliseconds: i64) -> Option<Duration> {
    u64::try_from(milliseconds).ok().map(Duration::from_millis)
}

/// Whole milliseconds as the contract has them.
pub(crate) fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
