//! The one activity machine: what is known of one task, and the rules that every kind of work shares.

use capataz_contracts::v1;
use capataz_policy::aggregation::ResultStatus;
use capataz_policy::lifecycle::TaskState;
use capataz_policy::severity::Severity;

use super::state::{Moment, Timestamp, Wall};
use crate::snapshot::as_bytes;

/// One task of a wave that has begun.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Activity {
    pub(crate) state: TaskState,
    /// 1 for the first; a user's retry begins the next.
    pub(crate) activation: u32,
    /// Number of the attempt in work, or of the last one that was; 0 before the first lease.
    pub(crate) attempt: u32,
    pub(crate) step: Step,
    /// First lease of this activation.
    pub(crate) started: Option<Moment>,
    /// By the wall's clock as it stood when the deadline was set.
    pub(crate) deadline: Option<Moment>,
    /// How long before the deadline TIMEOUT_IMMINENT is given. Milliseconds; `None` where it is never given.
    pub(crate) warn_before: Option<i64>,
    /// TIMEOUT_IMMINENT was given for the present deadline.
    pub(crate) imminent_given: bool,
    /// Leases lost in this activation.
    pub(crate) losses: u32,
    /// AGENT_ABSENT was given.
    pub(crate) absence_given: bool,
    /// The attempts that failed and were followed by another one.
    #[serde(with = "as_bytes::list")]
    pub(crate) attempts: Vec<v1::AttemptRecord>,
    /// Since when the next attempt is waited for; `None` where none is.
    pub(crate) waits_since: Option<Timestamp>,
    /// How long the present attempt was waited for. Milliseconds.
    pub(crate) waited_ms: i64,
    #[serde(with = "as_bytes::option")]
    pub(crate) input: Option<v1::Payload>,
    pub(crate) end: Option<End>,
    /// Place of the newest question about the deadline of this activation.
    pub(crate) asked_at_deadline: Option<u32>,
    /// The run that the task is, or was last.
    pub(crate) child: Option<String>,
    pub(crate) history: Vec<Transition>,
}

/// A transition of the lifecycle and when it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Transition {
    pub(crate) to: TaskState,
    pub(crate) at: Wall,
}

/// What an activity waits for.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Step {
    /// A slot of its agent.
    Queued { start_by: Option<Timestamp> },
    /// The answer of the lease's holder.
    Leased(Lease),
    /// The end of the run that it is.
    Child(Child),
    /// The time of its next attempt.
    Backoff { retry_at: Timestamp },
    /// A person's answer to what became of the lease, after so many milliseconds of work.
    Asking { worked_ms: i64 },
    /// Nothing: it has settled.
    Settled,
}

#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Lease {
    /// Fencing token.
    pub(crate) token: u64,
    pub(crate) worker: String,
    pub(crate) since: Timestamp,
    pub(crate) attempt_deadline: Option<Timestamp>,
    pub(crate) cancel: Option<PendingCancel>,
    /// Number of the schema that the worker has declared of the output, where it is recorded.
    pub(crate) output_schema: Option<u32>,
    /// The work cannot go on once it was told to end.
    pub(crate) cancel_is_final: bool,
}

/// A run that is a task.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Child {
    pub(crate) run_id: String,
    pub(crate) since: Timestamp,
    pub(crate) attempt_deadline: Option<Timestamp>,
    pub(crate) detached: bool,
    pub(crate) cancel: Option<ChildCancel>,
    /// Its end was heard. What that means follows in the same decision.
    pub(crate) ended: bool,
}

/// The child was asked to end, and is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct ChildCancel {
    #[serde(with = "crate::snapshot::number")]
    pub(crate) reason: v1::CancelReason,
    pub(crate) force: bool,
}

/// The holder was asked to stop, and is waited for until then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct PendingCancel {
    #[serde(with = "crate::snapshot::number")]
    pub(crate) reason: v1::CancelReason,
    pub(crate) grace_until: Timestamp,
}

/// How an activation ended.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct End {
    pub(crate) status: ResultStatus,
    #[serde(with = "as_bytes::option")]
    pub(crate) output: Option<v1::Payload>,
    #[serde(with = "as_bytes::option")]
    pub(crate) error: Option<v1::Error>,
    /// The severity of the failure, for the policy and the summary.
    pub(crate) severity: Option<Severity>,
    pub(crate) at: Wall,
    /// How long the last attempt was at work, in milliseconds; `None` where none was when it ended.
    pub(crate) attempt_ms: Option<i64>,
    /// The lease whose answer this is, and its holder.
    pub(crate) lease: Option<u64>,
    pub(crate) worker: Option<String>,
    /// What the work used of models, as its worker says.
    #[serde(with = "as_bytes::option")]
    pub(crate) usage: Option<v1::Usage>,
    /// It ended so in the run that this one continues.
    pub(crate) taken_over: bool,
}

impl End {
    /// Whether its output is what there was of it when the work was ended.
    pub(crate) fn is_partial(&self) -> bool {
        self.output.is_some() && matches!(self.status, ResultStatus::Timeout | ResultStatus::Cancelled)
    }

    /// The output that later tasks may refer to: that of a success, or what a person has kept of a task that timed out.
    pub(crate) fn usable_output(&self) -> Option<&v1::Payload> {
        self.output.as_ref().filter(|_| matches!(self.status, ResultStatus::Success | ResultStatus::Timeout))
    }
}

impl Activity {
    pub(crate) fn scheduled(at: Wall, activation: u32) -> Self {
        Self {
            state: TaskState::Init,
            activation,
            attempt: 0,
            step: Step::Queued { start_by: None },
            started: None,
            deadline: None,
            warn_before: None,
            imminent_given: false,
            losses: 0,
            absence_given: false,
            attempts: Vec::new(),
            waits_since: None,
            waited_ms: 0,
            input: None,
            end: None,
            asked_at_deadline: None,
            child: None,
            history: vec![Transition { to: TaskState::Init, at }],
        }
    }

    pub(crate) fn enter(&mut self, to: TaskState, at: Wall) {
        if self.state != to {
            self.state = to;
            self.history.push(Transition { to, at });
        }
    }

    /// An attempt is at work. The first one of an activation has a deadline for all of them: how far ahead it lies, and what
    /// the wall's clock will say then; and how long before it the warning is given.
    pub(crate) fn begin_attempt(
        &mut self,
        at: Moment,
        attempt: u32,
        deadline: Option<(i64, i64)>,
        warn_before: Option<i64>,
    ) {
        self.enter(TaskState::Active, at.wall);
        self.attempt = attempt;
        self.started.get_or_insert(at);
        if let Some(since) = self.waits_since.take() {
            self.waited_ms = at.clock.since(since);
        }
        if let Some((ahead, wall)) = deadline {
            self.deadline = Some(Moment { clock: at.clock.plus(ahead), wall: Wall(wall) });
            self.warn_before = warn_before;
        }
    }

    /// Whether nobody was ever given the task: it is in INIT, and was never taken back to there.
    pub(crate) fn was_never_given(&self) -> bool {
        self.state == TaskState::Init && self.activation <= 1
    }

    pub(crate) fn lease(&self) -> Option<&Lease> {
        match &self.step {
            Step::Leased(lease) => Some(lease),
            _ => None,
        }
    }

    /// The child whose end was not heard.
    pub(crate) fn child(&self) -> Option<&Child> {
        match &self.step {
            Step::Child(child) if !child.ended => Some(child),
            _ => None,
        }
    }

    /// How long the present attempt has been at work, in milliseconds; `None` where none is.
    pub(crate) fn worked_ms(&self, now: Timestamp) -> Option<i64> {
        match &self.step {
            Step::Leased(lease) => Some(now.since(lease.since)),
            Step::Child(child) => Some(now.since(child.since)),
            Step::Asking { worked_ms } => Some(*worked_ms),
            Step::Queued { .. } | Step::Backoff { .. } | Step::Settled => None,
        }
    }

    pub(crate) fn is_settled(&self) -> bool {
        matches!(self.step, Step::Settled)
    }

    /// Number of the next attempt. A lost lease is not an attempt.
    pub(crate) fn next_attempt(&self) -> u32 {
        u32::try_from(self.attempts.len()).unwrap_or(u32::MAX).saturating_add(1)
    }

    /// Returns whether it was ever at work, in this activation or an earlier one.
    pub(crate) fn was_active(&self) -> bool {
        self.history.iter().any(|step| step.to == TaskState::Active)
    }

    /// Milliseconds since the first lease of this activation.
    pub(crate) fn elapsed_ms(&self, now: Timestamp) -> i64 {
        self.started.map_or(0, |started| now.since(started.clock))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_whose_end_was_heard_is_waited_for_no_more() {
        let child = |ended| Child {
            run_id: "r".to_owned(),
            since: Timestamp(1),
            attempt_deadline: None,
            detached: false,
            cancel: None,
            ended,
        };
        let activity =
            |ended| Activity { step: Step::Child(child(ended)), ..Activity::scheduled(Wall(0), 1) };
        assert_eq!(activity(false).child(), Some(&child(false)));
        assert_eq!(activity(true).child(), None);
    }
}
