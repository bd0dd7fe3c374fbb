//! Incremental counts of a wave's results.

use capataz_contracts::v1;
use serde::{Deserialize, Serialize};

use super::policy::share;
use super::{AggregationPolicy, ResultStatus, TaskOutcome};
use crate::planted::{self, Fault};
use crate::severity::Severity;

/// The maximum number of names in a list of an evaluation; the counts are complete. Every result of a wave contains an
/// evaluation, so that unlimited lists would make a wave with many failures grow with the square of their number.
pub const MOST_NAMES: usize = 20;

/// Failures by severity (seed 000: getErrorSummary).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorSummary {
    pub total: u32,
    pub critical: u32,
    pub high: u32,
    pub medium: u32,
    pub low: u32,
    /// The failures of critical tasks.
    pub critical_tasks: u32,
}

impl ErrorSummary {
    /// Counts one failure.
    pub fn add(&mut self, severity: Severity, critical_task: bool) {
        self.total += 1;
        match severity {
            Severity::Critical => self.critical += 1,
            Severity::High => self.high += 1,
            Severity::Medium => self.medium += 1,
            Severity::Low => self.low += 1,
        }
        self.critical_tasks += u32::from(critical_task);
    }
}

/// The results of a wave so far. Adding a result takes constant time. Results are never removed: when a task begins
/// anew, the wave is counted again from its results.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    successes: u32,
    errors: u32,
    timeouts: u32,
    cancelled: u32,
    critical_cancelled: u32,
    /// The names of the failed agents, each once, in the order of their first failures.
    failed_agents: Vec<String>,
    /// The names of the failed critical tasks.
    critical_failures: Vec<String>,
    /// The names of the failed other tasks.
    optional_failures: Vec<String>,
    summary: ErrorSummary,
}

impl Tally {
    /// Counts another result.
    pub fn add(&mut self, outcome: &TaskOutcome<'_>) {
        match outcome.status {
            ResultStatus::Success => self.successes += 1,
            ResultStatus::Error => self.errors += 1,
            ResultStatus::Timeout if planted::is(Fault::TimeoutsUncounted) => {}
            ResultStatus::Timeout => self.timeouts += 1,
            ResultStatus::Cancelled => {
                self.cancelled += 1;
                self.critical_cancelled += u32::from(outcome.critical);
            }
        }
        if outcome.status.is_failure() {
            self.summary.add(outcome.severity.unwrap_or(Severity::UNKNOWN), outcome.critical);
            if !self.failed_agents.iter().any(|agent| agent == outcome.agent) {
                push_name(&mut self.failed_agents, outcome.agent);
            }
            let failures =
                if outcome.critical { &mut self.critical_failures } else { &mut self.optional_failures };
            push_name(failures, outcome.task);
        }
    }

    #[must_use]
    pub fn successes(&self) -> u32 {
        self.successes
    }

    /// The number of errors and timeouts.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.errors + self.timeouts
    }

    /// The number of results of any kind.
    #[must_use]
    pub fn total(&self) -> u32 {
        self.successes + self.errors + self.timeouts + self.cancelled
    }

    /// The failures by severity.
    #[must_use]
    pub fn summary(&self) -> ErrorSummary {
        self.summary
    }

    /// The names that it lists, at most [`MOST_NAMES`] of each kind.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let lists = [&self.failed_agents, &self.critical_failures, &self.optional_failures];
        lists.into_iter().flatten().map(String::as_str)
    }

    /// Returns whether a critical task ended without success.
    #[must_use]
    pub fn is_critical_path_broken(&self) -> bool {
        self.summary.critical_tasks > 0 || self.critical_cancelled > 0
    }

    /// Evaluates the results so far and this one. Where it is no success and changes none of the lists, they are left out: very
    /// many tasks may end in one turn, and each would say the same names again.
    #[must_use]
    pub fn evaluation_with(&self, outcome: &TaskOutcome<'_>, policy: &AggregationPolicy) -> v1::Evaluation {
        if outcome.status == ResultStatus::Success || self.would_name(outcome) {
            let mut tally = self.clone();
            tally.add(outcome);
            return tally.evaluation(policy);
        }
        let mut tally = self.without_names();
        tally.add(outcome);
        tally.without_names().evaluation(policy)
    }

    /// Whether this result would change a list of names.
    fn would_name(&self, outcome: &TaskOutcome<'_>) -> bool {
        let has_room = |names: &Vec<String>| names.len() < MOST_NAMES;
        let is_new = !self.failed_agents.iter().any(|agent| agent == outcome.agent);
        outcome.status.is_failure()
            && (has_room(self.failures_of(outcome.critical)) || (is_new && has_room(&self.failed_agents)))
    }

    /// The names of the failed tasks that are critical, or of the others.
    fn failures_of(&self, critical: bool) -> &Vec<String> {
        if critical { &self.critical_failures } else { &self.optional_failures }
    }

    fn without_names(&self) -> Self {
        let (failed_agents, critical_failures, optional_failures) = Default::default();
        Self { failed_agents, critical_failures, optional_failures, ..*self }
    }

    /// Evaluates the results so far. Its lists hold at most [`MOST_NAMES`] names each.
    #[must_use]
    pub fn evaluation(&self, policy: &AggregationPolicy) -> v1::Evaluation {
        let should_continue = policy.should_continue(self);
        v1::Evaluation {
            should_continue,
            policy: policy.kind().to_proto() as i32,
            successes: self.successes(),
            total: self.total(),
            success_rate: share(self.successes(), self.total()),
            threshold: policy.threshold(),
            quorum_met: policy.threshold().map(|_| should_continue),
            reason: policy.reason(self, should_continue),
            failed_agents: self.failed_agents.clone(),
            critical_failures: self.critical_failures.clone(),
            optional_failures: self.optional_failures.clone(),
        }
    }
}

impl<'a> FromIterator<TaskOutcome<'a>> for Tally {
    fn from_iter<I: IntoIterator<Item = TaskOutcome<'a>>>(outcomes: I) -> Self {
        let mut tally = Self::default();
        for outcome in outcomes {
            tally.add(&outcome);
        }
        tally
    }
}

fn push_name(names: &mut Vec<String>, name: &str) {
    if names.len() < MOST_NAMES {
        names.push(name.to_owned());
    }
}
