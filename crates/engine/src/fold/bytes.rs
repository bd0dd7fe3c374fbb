//! What the state of a run holds, in bytes. The fold counts along: an event changes the count by what its own pieces
//! weigh before and after it, so that no event costs a walk over the whole state.
//!
//! A piece weighs what its encoding has at most: the lengths of its texts and messages, and a fixed number for all else.
//! The count is thus never below the length of a snapshot.

use prost::Message;

use super::activity::{Activity, End, Lease, Step};
use super::state::{AskedQuestion, Phase, RunState, WaveState};
use crate::plan::{Plan, Task, Wave};

/// The bytes that the state of a run may have, by [`RunState::bytes`]: about 8,000 outputs of the largest size. A snapshot
/// of such a state still fits into one value of the store.
pub const MAX_RUN_BYTES: u64 = 256 * 1024 * 1024;

/// What a run may come to before it is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunLimits {
    pub events: u64,
    pub bytes: u64,
}

/// The fields of a run that have a fixed size.
const RUN: u64 = 512;
/// A wave: its counts, its policy.
const WAVE: u64 = 192;
/// A task as it is declared, but for its texts and policies.
const TASK: u64 = 48;
/// A task's life, but for what follows: its step, deadlines and up to three timers.
const ACTIVITY: u64 = 192;
/// The end of a task, but for its messages.
const END: u64 = 48;
/// A failed attempt, a transition, a refused lease.
pub(crate) const ENTRY: u64 = 16;
/// Something with a length: a text, a message.
const PIECE: u64 = 16;

/// A text.
pub(crate) fn text(text: &str) -> u64 {
    length(text.len()).saturating_add(PIECE)
}

/// A message of the contract.
pub(crate) fn message(message: &impl Message) -> u64 {
    length(message.encoded_len()).saturating_add(PIECE)
}

pub(crate) fn optional(optional: Option<&impl Message>) -> u64 {
    optional.map_or(0, message)
}

pub(crate) fn messages(messages: &[impl Message]) -> u64 {
    messages.iter().map(message).sum()
}

/// A user's request that was carried out.
pub(crate) fn request(request_id: &str, digest: &str) -> u64 {
    text(request_id).saturating_add(text(digest)).saturating_add(ENTRY)
}

pub(crate) fn length(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// The count of a state's bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count(u64);

impl Count {
    pub(crate) fn add(&mut self, bytes: u64) {
        self.replace(0, bytes);
    }

    /// A piece that weighed `before` now weighs `after`.
    pub(crate) fn replace(&mut self, before: u64, after: u64) {
        self.0 = self.0.saturating_add(after).saturating_sub(before);
    }
}

impl RunState {
    /// The bytes that the state holds; the length of its snapshot at least.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.0
    }

    /// Returns whether the run has outgrown one of the limits, so that
    /// [`Input::LimitExceeded`](crate::Input::LimitExceeded) is due.
    #[must_use]
    pub fn exceeds(&self, limits: RunLimits) -> bool {
        self.seq >= limits.events || self.bytes() >= limits.bytes
    }

    /// Counts everything afresh.
    pub(crate) fn counted(&self) -> Count {
        let labels = self.labels.iter().map(|(key, value)| text(key).saturating_add(text(value)));
        let requests = self.requests.iter().map(|(request_id, (digest, _))| request(request_id, digest));
        let waves = self
            .waves
            .iter()
            .map(|wave| wave.bytes().saturating_add(wave.tasks.iter().map(Activity::bytes).sum()));
        let parts = [
            RUN,
            labels.sum(),
            optional(self.parent.as_ref()),
            message(&self.lineage),
            self.forked.as_ref().map_or(0, |forked| text(&forked.run)),
            self.plan.bytes(),
            self.machine.bytes(),
            self.phase.bytes(),
            waves.sum(),
            self.taken_back.values().map(Activity::bytes).sum(),
            self.schemas.iter().map(|schema| text(schema)).sum(),
            self.questions.iter().map(AskedQuestion::bytes).sum(),
            messages(&self.notices),
            length(self.refused.len() + self.refused_in_init.len()).saturating_mul(ENTRY),
            requests.sum(),
        ];
        Count(parts.iter().sum())
    }
}

impl Phase {
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Running => 0,
            Self::Ending { error } | Self::Finished { error, .. } => optional(error.as_ref()),
        }
    }
}

impl Plan {
    fn bytes(&self) -> u64 {
        let names = text(&self.name).saturating_add(self.continues.as_deref().map_or(0, text));
        names.saturating_add(self.waves.iter().map(Wave::bytes).sum())
    }
}

impl Wave {
    pub(super) fn bytes(&self) -> u64 {
        text(&self.name).saturating_add(self.tasks.iter().map(Task::bytes).sum())
    }
}

impl Task {
    fn bytes(&self) -> u64 {
        // The name is also the key by which the task is found.
        let names = text(&self.name).saturating_mul(2).saturating_add(text(&self.agent));
        let inputs = optional(self.input.as_ref()).saturating_add(optional(self.taken_over.as_deref()));
        TASK.saturating_add(names).saturating_add(self.policies_bytes()).saturating_add(inputs)
    }
}

impl WaveState {
    /// Without its tasks.
    pub(super) fn bytes(&self) -> u64 {
        let names = self.tally.names().map(text).sum();
        WAVE.saturating_add(optional(self.evaluation.as_ref())).saturating_add(names)
    }
}

impl Activity {
    pub(super) fn bytes(&self) -> u64 {
        let steps = length(self.history.len()).saturating_mul(ENTRY);
        let lease = match &self.step {
            Step::Leased(Lease { worker, .. }) => text(worker),
            Step::Child(child) => text(&child.run_id),
            Step::Queued { .. } | Step::Backoff { .. } | Step::Asking { .. } | Step::Settled => 0,
        };
        let parts = [
            ACTIVITY,
            steps,
            lease,
            self.child.as_deref().map_or(0, text),
            messages(&self.attempts),
            optional(self.input.as_ref()),
            self.end.as_ref().map_or(0, End::bytes),
        ];
        parts.iter().sum()
    }
}

impl End {
    fn bytes(&self) -> u64 {
        let parts = [
            END,
            optional(self.output.as_ref()),
            optional(self.error.as_ref()),
            optional(self.usage.as_ref()),
            self.worker.as_deref().map_or(0, text),
        ];
        parts.iter().sum()
    }
}

impl AskedQuestion {
    pub(super) fn bytes(&self) -> u64 {
        // Its id is also the key by which it is found.
        message(&self.question).saturating_add(text(&self.question.question_id)).saturating_add(ENTRY)
    }
}

#[cfg(test)]
mod tests {
    use capataz_contracts::v1;
    use capataz_policy::aggregation::{ResultStatus, Tally, TaskOutcome};

    use super::*;
    use crate::fold::state::Wall;

    #[test]
    fn a_text_weighs_its_bytes_and_what_its_length_may_take() {
        assert_eq!(text(""), 16);
        assert_eq!(text("años"), 5 + 16);
    }

    #[test]
    fn a_request_weighs_its_id_and_its_digest_and_has_an_entry() {
        assert_eq!(request("r1", "pause"), (2 + 16) + (5 + 16) + 16);
    }

    #[test]
    fn a_phase_weighs_the_error_that_the_run_ends_with() {
        let finished =
            |error| Phase::Finished { outcome: v1::RunOutcome::Failed, error, at: Wall(1_700_000_000_000) };
        for phase in [Phase::Running, Phase::Ending { error: None }, finished(None)] {
            assert_eq!(phase.bytes(), 0, "{phase:?}");
        }
        // Each text has two bytes before it: its field and its length.
        let error = v1::Error { code: "E".to_owned(), message: "why".to_owned(), ..v1::Error::default() };
        for phase in [Phase::Ending { error: Some(error.clone()) }, finished(Some(error))] {
            assert_eq!(phase.bytes(), (2 + 1) + (2 + 3) + 16, "{phase:?}");
        }
    }

    #[test]
    fn a_wave_weighs_its_evaluation_and_the_names_of_what_has_failed() {
        let mut wave =
            WaveState { tasks: Vec::new(), tally: Tally::default(), stopping: false, evaluation: None };
        assert_eq!(wave.bytes(), 192);
        let failed = |task, critical| TaskOutcome {
            task,
            agent: "tester",
            status: ResultStatus::Error,
            critical,
            severity: None,
        };
        wave.tally.add(&failed("tests", false));
        assert_eq!(wave.bytes(), 192 + (6 + 16) + (5 + 16), "the agent and the task");
        wave.tally.add(&failed("all", true));
        assert_eq!(wave.bytes(), 192 + (6 + 16) + (5 + 16) + (3 + 16), "the agent is named once");
        wave.tally = Tally::default();
        wave.evaluation = Some(v1::Evaluation { reason: "late".to_owned(), ..v1::Evaluation::default() });
        assert_eq!(wave.bytes(), 192 + (2 + 4) + 16);
    }

    #[test]
    fn a_run_may_have_256_mebibytes() {
        assert_eq!(MAX_RUN_BYTES, 268_435_456);
    }
}
