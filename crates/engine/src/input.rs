//! Everything that can happen to a run.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use capataz_contracts::v1;
use prost::Message;

use crate::fold::state::Timestamp;
use crate::query::{QueryId, Verdict};

/// A task by its place in the plan; both indexes from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct TaskRef {
    pub wave: u32,
    pub task: u32,
}

impl fmt::Display for TaskRef {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "waves[{}].tasks[{}]", self.wave, self.task)
    }
}

/// The closed list of what [`decide`](crate::decide()) handles; each variant in a file of its own.
///
/// What a user asks for can be written down. The rest is a shard's own, and follows from what the shard was told; it stands
/// last, for the numbers of variants after a skipped one would not be those that are read.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub enum Input {
    Cancel {
        reason: String,
        force: bool,
        request_id: String,
    },
    Pause {
        request_id: String,
    },
    Resume {
        request_id: String,
    },
    Extend {
        task: String,
        by_ms: i64,
        request_id: String,
    },
    Retry {
        task: String,
        request_id: String,
    },
    Resolve {
        question_id: String,
        answer: Answer,
        request_id: String,
    },
    /// An action for an interactive session; validated, with every default filled in.
    Propose {
        #[serde(with = "crate::snapshot::as_bytes::one")]
        action: Box<v1::Action>,
        request_id: String,
    },
    CloseBrowser {
        request_id: String,
    },
    /// A user takes a task back, with `cascade` also those of later waves that have begun.
    Rollback {
        task: String,
        cascade: bool,
        request_id: String,
    },
    /// A user goes back to the newest completed checkpoint before a phase; before the one in work where it is empty.
    RollbackPipeline {
        phase: String,
        request_id: String,
    },
    /// A user wants a place to which an execution can go back.
    Checkpoint {
        reason: String,
        request_id: String,
    },
    /// A user goes back to a checkpoint of an execution.
    RollbackExecution {
        checkpoint: String,
        request_id: String,
    },
    /// A worker has a free slot for a queued task.
    #[serde(skip)]
    Lease {
        task: TaskRef,
        worker: String,
        /// The mark of the claim under which the lease is given; 0 where there is none.
        mark: u32,
        /// JSON Schema of the agent's outputs, as this worker has declared it.
        output_schema: Option<Arc<str>>,
        /// What was told to end cannot go on.
        cancel_is_final: bool,
    },
    /// The holder of a lease is gone, silent, or gave the task back unbegun.
    #[serde(skip)]
    LeaseLost {
        task: TaskRef,
        lease: u64,
        reason: v1::LeaseLossReason,
    },
    /// A worker answers its assignment.
    /// `log` is the end of what the agent logged; `usage` is what the work used of models.
    #[serde(skip)]
    Report {
        task: TaskRef,
        lease: u64,
        worker: String,
        report: Report,
        log: String,
        usage: Option<v1::Usage>,
    },
    /// No worker that serves the agent is connected.
    #[serde(skip)]
    AgentAbsent {
        task: TaskRef,
    },
    /// It is the ask's turn in its session.
    #[serde(skip)]
    SessionTurn {
        context: v1::SessionContext,
    },
    /// The answer to [`Effect::Query`](crate::Effect::Query).
    #[serde(skip)]
    Answered {
        query: QueryId,
        answer: QueryAnswer,
    },
    /// At least one deadline of the run has passed. `observed` tells of the leases in [`RunState::due`](crate::RunState::due).
    #[serde(skip)]
    Tick {
        observed: BTreeMap<TaskRef, Observed>,
    },
    /// What is heard of the run that a task is.
    #[serde(skip)]
    Child {
        task: TaskRef,
        run_id: String,
        news: ChildNews,
    },
    /// The worker no longer has the run's browser, and has nothing in work there.
    #[serde(skip)]
    BrowserLost {
        worker: String,
        reason: v1::BrowserLossReason,
    },
    /// The run has more events than it may have; where it has fewer than `limit`, its state has too many bytes.
    #[serde(skip)]
    LimitExceeded {
        limit: u64,
    },
}

impl Input {
    /// The bytes of what a user has sent, where there may be many.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Resolve { question_id, answer, .. } => {
                let value = answer.value.as_ref().map_or(0, Message::encoded_len);
                question_id.len() + answer.option.len() + value
            }
            Self::Propose { action, .. } => action.encoded_len(),
            Self::Cancel { reason: text, .. }
            | Self::Checkpoint { reason: text, .. }
            | Self::Extend { task: text, .. }
            | Self::Retry { task: text, .. }
            | Self::Rollback { task: text, .. }
            | Self::RollbackPipeline { phase: text, .. }
            | Self::RollbackExecution { checkpoint: text, .. } => text.len(),
            _ => 0,
        }
    }

    /// The id by which a user's request is known again; empty for what is not a user's request.
    #[must_use]
    pub fn request_id(&self) -> &str {
        match self {
            Self::Cancel { request_id, .. }
            | Self::Pause { request_id }
            | Self::Resume { request_id }
            | Self::Extend { request_id, .. }
            | Self::Retry { request_id, .. }
            | Self::Rollback { request_id, .. }
            | Self::RollbackPipeline { request_id, .. }
            | Self::Checkpoint { request_id, .. }
            | Self::RollbackExecution { request_id, .. }
            | Self::Propose { request_id, .. }
            | Self::CloseBrowser { request_id }
            | Self::Resolve { request_id, .. } => request_id,
            Self::Lease { .. }
            | Self::LeaseLost { .. }
            | Self::Report { .. }
            | Self::AgentAbsent { .. }
            | Self::SessionTurn { .. }
            | Self::Answered { .. }
            | Self::Child { .. }
            | Self::BrowserLost { .. }
            | Self::LimitExceeded { .. }
            | Self::Tick { .. } => "",
        }
    }

    /// The name of the task that a user's request is about, where the user is told of that task.
    #[must_use]
    pub fn task(&self) -> Option<&str> {
        match self {
            Self::Extend { task, .. } | Self::Retry { task, .. } | Self::Rollback { task, .. } => Some(task),
            _ => None,
        }
    }
}

/// What a person answers to a question.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Answer {
    /// One of the question's options; empty where the value is the whole answer.
    pub option: String,
    #[serde(with = "crate::snapshot::as_bytes::option")]
    pub value: Option<v1::Payload>,
    /// The revision of the question that the person has seen, where the caller knows it.
    pub revision: Option<u32>,
    /// What was found of the value, where the question has a schema. No part of what the person says.
    #[serde(skip)]
    pub verdict: Option<Box<Verdict>>,
}

impl From<&str> for Answer {
    fn from(option: &str) -> Self {
        Self { option: option.to_owned(), ..Self::default() }
    }
}

/// What a parent hears of its child.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "it lives for one call")]
pub enum ChildNews {
    /// It is there, durably.
    Started,
    /// It has ended, durably; `outcome` is `None` where it will never end, for it cannot be worked on.
    /// `blobs` are those that its output names.
    Ended {
        outcome: Option<v1::RunOutcome>,
        error: Option<v1::Error>,
        output: Option<v1::Payload>,
        blobs: Vec<v1::BlobRef>,
    },
}

/// The answer to a [`Query`](crate::Query), a variant for each.
#[derive(Clone, Debug, PartialEq)]
pub enum QueryAnswer {
    Routed(Routed),
    /// For whoever has the answer that waits for it, which is an input again then, with the verdict.
    Judged(Verdict),
    Computed(Computed),
}

/// What was computed for a phase, or why it cannot be.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub enum Computed {
    /// One input for each task of the phase.
    Inputs(#[serde(with = "crate::snapshot::as_bytes::list")] Vec<v1::Payload>),
    Summary(#[serde(with = "crate::snapshot::as_bytes::one")] v1::Payload),
    /// The inputs of tasks of a plan.
    Resolved(Vec<ResolvedInput>),
    /// What the planner of an execution is asked, and what of its session's memory that holds.
    Prompt {
        #[serde(with = "crate::snapshot::as_bytes::one")]
        prompt: v1::Payload,
        #[serde(with = "crate::snapshot::as_bytes::one")]
        recalled: v1::Recalled,
        /// Of the tools that the prompt is about, those that nobody has served for a while.
        absent: Vec<String>,
    },
    /// What was seen of the result of a tool.
    Observed(Observing),
    /// There is nothing, for this reason.
    Failed(#[serde(with = "crate::snapshot::as_bytes::one")] v1::Error),
}

/// The input of a task with its references replaced.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct ResolvedInput {
    /// Its place in its wave.
    pub task: u32,
    /// `None`: it cannot be, for the reason.
    #[serde(with = "crate::snapshot::as_bytes::option")]
    pub input: Option<v1::Payload>,
    pub reason: String,
}

/// What was seen of the result of a tool.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Observing {
    /// It is what was expected.
    pub as_expected: bool,
    /// What of it is kept in memory, in whole and in few tokens.
    pub content: String,
    pub digest: String,
}

impl QueryAnswer {
    /// Payloads that become part of the log with it.
    #[must_use]
    pub fn payloads(&self) -> Vec<&v1::Payload> {
        match self {
            Self::Computed(Computed::Inputs(inputs)) => inputs.iter().collect(),
            Self::Computed(Computed::Resolved(inputs)) => {
                inputs.iter().filter_map(|resolved| resolved.input.as_ref()).collect()
            }
            Self::Computed(Computed::Summary(payload) | Computed::Prompt { prompt: payload, .. }) => {
                vec![payload]
            }
            _ => Vec::new(),
        }
    }
}

/// The spec that was looked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Routed {
    /// The spec that was asked for; empty if the router was to choose.
    pub spec: String,
    /// What was found; an error where there is no such spec.
    pub target: Result<RoutedSpec, v1::Error>,
    /// True when the session's spec no longer exists, so that the router chose another one.
    pub rerouted: bool,
    pub default_spec: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct RoutedSpec {
    pub routing: Box<v1::Routing>,
    pub agent: String,
    /// Nobody serves the agent now: its workers are not waited for as long as for a slot.
    pub absent: bool,
    /// Nobody can serve it: its agent is unknown, or speaks another contract.
    pub unavailable: Option<v1::Error>,
}

/// What the runtime has seen of a lease and does not store.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// When the worker's last frame came, by the run's own clock.
    pub last_frame: Option<Timestamp>,
    pub partial_output: Option<v1::Payload>,
}

/// How an assignment ended, in the words of its worker.
#[derive(Clone, Debug, PartialEq)]
pub enum Report {
    Completed(v1::Payload),
    /// As `Completed`, with what was found of the output, where it had to be judged.
    Judged(v1::Payload, Box<Verdict>),
    Failed(v1::Error),
    /// As `Failed`, where nobody could read the output, with what the next attempt is given.
    Unread(v1::Error, Box<Verdict>),
    /// The answer to a cancel.
    Cancelled(Option<v1::Payload>),
}
