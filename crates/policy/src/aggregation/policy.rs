//! The four policies.

use capataz_contracts::{Violation, v1};
use serde::{Deserialize, Serialize};

use super::{Tally, TaskOutcome};
use crate::check::Fields;
use crate::planted::{self, Fault};
use crate::text;

const DEFAULT_THRESHOLD: f64 = 0.5;

/// The way in which a wave's results decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AggregationKind {
    /// Every task must succeed.
    FailFast,
    /// A share of the tasks must succeed.
    Quorum,
    /// The run goes on regardless of failures.
    ContinueAll,
    /// Every task that is marked critical must succeed.
    CriticalPath,
}

impl AggregationKind {
    pub const ALL: [Self; 4] = [Self::FailFast, Self::Quorum, Self::ContinueAll, Self::CriticalPath];

    /// The name in plans, such as `fail_fast`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FailFast => "fail_fast",
            Self::Quorum => "quorum",
            Self::ContinueAll => "continue_all",
            Self::CriticalPath => "critical_path",
        }
    }

    /// The kind as the contract's enum.
    #[must_use]
    pub const fn to_proto(self) -> v1::AggregationKind {
        match self {
            Self::FailFast => v1::AggregationKind::FailFast,
            Self::Quorum => v1::AggregationKind::Quorum,
            Self::ContinueAll => v1::AggregationKind::ContinueAll,
            Self::CriticalPath => v1::AggregationKind::CriticalPath,
        }
    }

    /// The kind with the contract's number; `None` for the unspecified one and for numbers that it does not have.
    #[must_use]
    pub fn from_proto(number: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.to_proto() as i32 == number)
    }
}

impl std::fmt::Display for AggregationKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// The rule of one wave. The threshold is in (0, 1] and counts only with a quorum.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AggregationPolicy {
    kind: AggregationKind,
    threshold: f64,
    stop_when_decided: bool,
}

/// The consequence of a wave's results so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaveDecision {
    /// Wait for the other results.
    Wait,
    /// The outcome is certain: cancel the unfinished tasks, then evaluate again.
    CancelRest,
    /// Every task has ended.
    Decided { should_continue: bool },
}

impl Default for AggregationPolicy {
    /// The default: a quorum of one half that waits for all results.
    fn default() -> Self {
        Self { kind: AggregationKind::Quorum, threshold: DEFAULT_THRESHOLD, stop_when_decided: false }
    }
}

impl AggregationPolicy {
    /// Every task is worked on, whatever becomes of the others.
    #[must_use]
    pub const fn all_of_them() -> Self {
        Self { kind: AggregationKind::ContinueAll, threshold: DEFAULT_THRESHOLD, stop_when_decided: false }
    }

    /// Reads a policy. An absent or invalid field gets its default; `path` is the policy's place in its document.
    pub fn from_proto(policy: &v1::AggregationPolicy, path: &str, violations: &mut Vec<Violation>) -> Self {
        let fields = &mut Fields::of(path, violations);
        let unspecified = v1::AggregationKind::Unspecified as i32;
        let kind = match AggregationKind::from_proto(policy.kind) {
            Some(kind) => kind,
            None => {
                if policy.kind != unspecified {
                    let known = AggregationKind::ALL.map(AggregationKind::as_str).join(", ");
                    fields.refuse("kind", "known", format!("must be one of {known}, not {}", policy.kind));
                }
                AggregationKind::Quorum
            }
        };
        let threshold = match policy.quorum_threshold {
            None => DEFAULT_THRESHOLD,
            Some(_) if kind != AggregationKind::Quorum => {
                fields.refuse(
                    "quorum_threshold",
                    "only_with",
                    format!("only goes with quorum, not with {kind}"),
                );
                DEFAULT_THRESHOLD
            }
            Some(threshold) if threshold > 0.0 && threshold <= 1.0 => threshold,
            Some(threshold) => {
                let message = format!("must be greater than 0 and at most 1, not {threshold}");
                fields.refuse("quorum_threshold", "range", message);
                DEFAULT_THRESHOLD
            }
        };
        Self { kind, threshold, stop_when_decided: policy.stop_when_decided.unwrap_or(false) }
    }

    /// Reads a policy that an event has recorded: nothing is filled in or refused. `None` where it is not whole.
    #[must_use]
    pub fn recorded(policy: &v1::AggregationPolicy) -> Option<Self> {
        let kind = AggregationKind::from_proto(policy.kind)?;
        let threshold = match kind {
            AggregationKind::Quorum => policy.quorum_threshold?,
            AggregationKind::FailFast | AggregationKind::ContinueAll | AggregationKind::CriticalPath => 0.0,
        };
        Some(Self { kind, threshold, stop_when_decided: policy.stop_when_decided? })
    }

    /// The rule of a wave of one task: whatever becomes of it decides.
    #[must_use]
    pub const fn of_one_task() -> Self {
        Self { kind: AggregationKind::Quorum, threshold: 0.5, stop_when_decided: false }
    }

    /// The policy with every default written out; reading it gives the same policy.
    #[must_use]
    pub fn to_proto(&self) -> v1::AggregationPolicy {
        v1::AggregationPolicy {
            kind: self.kind.to_proto() as i32,
            quorum_threshold: self.threshold(),
            stop_when_decided: Some(self.stop_when_decided),
            // The plan has the mark at the tasks of these agents.
            critical_agents: Vec::new(),
        }
    }

    #[must_use]
    pub fn kind(&self) -> AggregationKind {
        self.kind
    }

    /// The share of successes that a quorum needs; `None` for other kinds.
    #[must_use]
    pub fn threshold(&self) -> Option<f64> {
        (self.kind == AggregationKind::Quorum).then_some(self.threshold)
    }

    /// Evaluates these results.
    pub fn evaluate<'a>(&self, results: impl Iterator<Item = TaskOutcome<'a>>) -> v1::Evaluation {
        results.collect::<Tally>().evaluation(self)
    }

    /// Decides about a wave of `wave_size` tasks, of which those in `tally` have ended.
    ///
    /// `stop_when_decided` ends a quorum as soon as the missing results can no longer change it. It has no effect with
    /// other kinds: `continue_all` exists to run every task, and a failure that decides `fail_fast` or `critical_path`
    /// ends the wave anyway.
    #[must_use]
    pub fn decide(&self, tally: &Tally, wave_size: usize) -> WaveDecision {
        let wave_size = u32::try_from(wave_size).unwrap_or(u32::MAX);
        if tally.total() >= wave_size {
            return WaveDecision::Decided { should_continue: self.should_continue(tally) };
        }
        let decided = match self.kind {
            AggregationKind::FailFast | AggregationKind::CriticalPath => !self.should_continue(tally),
            AggregationKind::Quorum => self.stop_when_decided && self.quorum_is_settled(tally, wave_size),
            AggregationKind::ContinueAll => false,
        };
        if decided { WaveDecision::CancelRest } else { WaveDecision::Wait }
    }

    /// Returns whether the run would go on without further results.
    pub(super) fn should_continue(&self, tally: &Tally) -> bool {
        match self.kind {
            AggregationKind::FailFast => tally.successes() == tally.total(),
            AggregationKind::Quorum => self.quorum_met(tally.successes(), tally.total()),
            AggregationKind::ContinueAll => true,
            AggregationKind::CriticalPath => !tally.is_critical_path_broken(),
        }
    }

    /// Returns whether a quorum is met. A share exactly at the threshold is enough; with no tasks at all the quorum is
    /// not met (seed 000, contract 5).
    fn quorum_met(&self, successes: u32, total: u32) -> bool {
        let share = share(successes, total);
        let is_planted = planted::is(Fault::QuorumNeedsMore);
        if is_planted { share > self.threshold } else { share >= self.threshold }
    }

    fn quorum_is_settled(&self, tally: &Tally, wave_size: u32) -> bool {
        let missing = wave_size.saturating_sub(tally.total());
        let met_at_worst = self.quorum_met(tally.successes(), wave_size);
        let met_at_best = self.quorum_met(tally.successes() + missing, wave_size);
        met_at_worst || !met_at_best
    }

    /// The sentence that explains the evaluation.
    pub(super) fn reason(&self, tally: &Tally, should_continue: bool) -> String {
        let share = text::share(tally.successes(), tally.total());
        match (self.kind, should_continue) {
            (AggregationKind::FailFast, true) => format!("no failures: {share}"),
            (AggregationKind::FailFast, false) => format!("fail_fast stops at the first failure: {share}"),
            (AggregationKind::Quorum, true) => format!("quorum met: {share}"),
            (AggregationKind::Quorum, false) => {
                format!("quorum not met: {share}, needs {}", text::percent(self.threshold))
            }
            (AggregationKind::ContinueAll, _) => format!("continue_all goes on: {share}"),
            (AggregationKind::CriticalPath, true) => format!("no critical task failed: {share}"),
            (AggregationKind::CriticalPath, false) => format!("a critical task failed: {share}"),
        }
    }
}

/// A part's share of the whole; 0 if the whole is 0.
pub(super) fn share(part: u32, whole: u32) -> f64 {
    if whole == 0 { 0.0 } else { f64::from(part) / f64::from(whole) }
}
