//! The decision whether a wave's results let the run go on (seed 000, contract 5).

mod errors;
mod policy;
mod tally;

use serde::{Deserialize, Serialize};

use capataz_contracts::v1;

use crate::severity::Severity;

pub use errors::{critical_agent_failed, optional_agent_failed, partial_success, quorum_not_met};
pub use policy::{AggregationKind, AggregationPolicy, WaveDecision};
pub use tally::{ErrorSummary, MOST_NAMES, Tally};

/// The way in which a task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResultStatus {
    Success,
    Error,
    Timeout,
    /// The task was cancelled before it finished, which is neither a success nor a failure.
    Cancelled,
}

impl ResultStatus {
    pub const ALL: [Self; 4] = [Self::Success, Self::Error, Self::Timeout, Self::Cancelled];

    /// Returns whether the result is an error or a timeout.
    #[must_use]
    pub const fn is_failure(self) -> bool {
        matches!(self, Self::Error | Self::Timeout)
    }

    /// The status as the contract's enum.
    #[must_use]
    pub const fn to_proto(self) -> v1::ResultStatus {
        match self {
            Self::Success => v1::ResultStatus::Success,
            Self::Error => v1::ResultStatus::Error,
            Self::Timeout => v1::ResultStatus::Timeout,
            Self::Cancelled => v1::ResultStatus::Cancelled,
        }
    }

    /// The status with the contract's number; `None` for the unspecified one and for numbers that it does not have.
    #[must_use]
    pub fn from_proto(number: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.to_proto() as i32 == number)
    }
}

impl From<ResultStatus> for v1::ResultStatus {
    fn from(status: ResultStatus) -> Self {
        status.to_proto()
    }
}

/// The facts about an ended task that the policy needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskOutcome<'a> {
    pub task: &'a str,
    pub agent: &'a str,
    pub status: ResultStatus,
    /// True when the plan marks the task as critical.
    pub critical: bool,
    /// The severity of the failure; if absent, the aggregator's rule gives one. Other statuses ignore it.
    pub severity: Option<Severity>,
}

#[cfg(test)]
mod tests;
