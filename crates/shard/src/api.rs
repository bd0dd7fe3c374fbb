//! What callers ask of a shard, and what they are answered.

use std::collections::BTreeSet;

use capataz_contracts::v1;
use capataz_crew::AgentSnapshot;
use capataz_engine::session::Accepted;
use capataz_engine::{Refusal, StartRun, TaskRef};
use capataz_policy::registry::Batch;
use capataz_store::{BlobHash, IdempotencyKey, Removal, RunId};

use crate::load::Damage;

/// What a caller asks for. Already validated. Each has a reply type of its own.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub enum Request {
    /// Answered with a [`StartReply`].
    Start(Box<StartRequest>),
    /// Answered with a [`WaitReply`], when the run has finished.
    Wait { run: RunId },
    /// Answered with a [`CommandReply`].
    Command { run: RunId, if_seq: Option<u64>, input: Box<capataz_engine::Input> },
    /// Removes a run that has finished or is in quarantine, or a session that is in quarantine. Answered with
    /// [`Answer::Deleted`].
    Delete { run: RunId },
    /// Has a run, or a session, in quarantine tried again. Answered with [`Answer::Released`] when that is over.
    Release { run: RunId },
    /// Moves a session to the spec that the answer to an ask has suggested. Answered with a [`TransitionReply`].
    AcceptTransition { session: String, request_id: String },
    /// Gives a session the state of a file. Answered with an [`ImportReply`].
    ImportSession(Box<ImportSession>),
    /// Answered with [`Answer::Checked`].
    CheckAgents { agents: Vec<String>, commands: Vec<String>, resources: Vec<String> },
    /// Answered with [`Answer::Health`]: what is known of the work that goes on for the run.
    Health { run: RunId },
    /// At most so many agents after the name `after`, by name. Answered with [`Answer::Agents`].
    ListAgents { after: Option<String>, most: u32 },
    /// Those of the agents that are known, with the turn of the run at each. Answered with [`Answer::Agents`].
    Agents { names: Vec<String>, run: RunId },
    /// Chooses the mode, a value of the contract's `ExecutionMode`, of a session's runs that name none. Answered with
    /// [`Answer::Chosen`].
    ChooseMode { session: String, mode: i32 },
    /// Has entries of a session's memory forgotten. Answered with [`Answer::Forgotten`].
    Forget { session: String, entry_ids: Vec<String> },
}

impl Request {
    /// The bytes that it keeps in memory until it is handled, where there may be many.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Start(start) => start.start.work.bytes(),
            Self::Command { input, .. } => input.bytes(),
            Self::CheckAgents { agents, commands, resources } => {
                let names = agents.iter().chain(commands).chain(resources);
                names.map(|name| size_of::<String>() + name.len()).sum()
            }
            Self::Agents { names, .. } => names.iter().map(|name| size_of::<String>() + name.len()).sum(),
            Self::ListAgents { after, .. } => after.as_ref().map_or(0, String::len),
            Self::ImportSession(import) => {
                import.state.len() + import.repairs.iter().map(String::len).sum::<usize>()
            }
            Self::Forget { entry_ids, .. } => entry_ids.iter().map(|id| size_of::<String>() + id.len()).sum(),
            Self::AcceptTransition { session, request_id } => session.len() + request_id.len(),
            Self::Wait { .. }
            | Self::Health { .. }
            | Self::Delete { .. }
            | Self::Release { .. }
            | Self::ChooseMode { .. } => 0,
        }
    }
}

#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct StartRequest {
    pub run: RunId,
    pub start: StartRun,
    /// The session that the run belongs to.
    pub session: Option<String>,
    /// Every agent that the plan names.
    pub agents: BTreeSet<String>,
    pub commands: Vec<String>,
    pub resources: Vec<String>,
    pub key: Option<IdempotencyKey>,
    /// Answer when the run has finished, not when it is accepted.
    pub wait: bool,
    /// Blobs that the plan's inputs name.
    pub blobs: Vec<BlobHash>,
}

/// The state of a session's work that a user brings, validated.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ImportSession {
    pub session: String,
    /// A JSON object.
    pub state: String,
    /// What had to be repaired before.
    pub repairs: Vec<String>,
}

/// Why the daemon did nothing, or cannot say whether it did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Declined {
    Overloaded {
        retry_after_ms: i64,
    },
    /// The shard is read again: whether the request was carried out shows when it is repeated.
    Unavailable,
    Draining,
    /// The run, or the session, is in quarantine.
    Damaged(Box<Damage>),
}

#[derive(Debug)]
pub enum StartReply {
    Started {
        run: RunId,
    },
    /// The caller waited for the end.
    Finished {
        run: RunId,
        result: Box<v1::RunResult>,
    },
    /// The idempotency key named this run.
    Existing {
        run: RunId,
    },
    /// The idempotency key belongs to another request.
    KeyReused {
        run: RunId,
    },
    Refused(Refusal),
    /// The run that was to be forked was removed meanwhile, or is damaged.
    BaseGone,
    /// AGENT_NOT_FOUND or AGENTS_VALIDATION_FAILED, and what was to be started, for whoever says where it names them.
    UnknownAgents {
        error: Box<v1::Error>,
        start: Box<StartRun>,
    },
}

#[derive(Debug)]
pub enum WaitReply {
    Finished {
        run: RunId,
        result: Box<v1::RunResult>,
    },
    /// The run is not in work: the store knows it, or nobody does.
    NotActive {
        run: RunId,
    },
}

#[derive(Debug)]
pub enum CommandReply {
    Done {
        seq: u64,
        deadline_ms: i64,
        activation: u32,
        /// It was carried out before, and the rest is told of the task as it is by now.
        repeated: bool,
    },
    Refused(Refusal),
    SeqMismatch {
        actual: u64,
    },
    /// The run is not in work: the store knows it, or nobody does.
    NotActive {
        run: RunId,
    },
}

#[derive(Debug)]
pub enum TransitionReply {
    Accepted(Accepted),
    SessionNotFound,
    /// No answer to that request suggests a transition that is still open.
    TransitionNotFound,
}

#[derive(Debug)]
pub enum ImportReply {
    Imported {
        /// Number of the session's newest event.
        seq: u64,
        /// False where the session had this state already.
        changed: bool,
    },
    /// This plan of the session is at work, and its state is newer than any file.
    Busy { run: RunId },
}

/// The mode of a session was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModeChosen {
    /// Number of the session's newest event.
    pub seq: u64,
    /// What the session had chosen before, a value of the contract's `ExecutionMode`.
    pub before: i32,
}

/// The answer to a [`Request`], by its kind.
#[derive(Debug)]
pub enum Answer {
    Start(Result<StartReply, Declined>),
    Wait(Result<WaitReply, Declined>),
    Command(Result<CommandReply, Declined>),
    Transition(Result<TransitionReply, Declined>),
    Imported(Result<ImportReply, Declined>),
    Chosen(Result<ModeChosen, Declined>),
    /// The number of the session's newest event.
    Forgotten(Result<u64, Declined>),
    Deleted(Result<Removal, Declined>),
    /// What became of it, the store knows.
    Released(Result<(), Declined>),
    Checked(Batch),
    /// The tasks that have a worker. Empty where the run is not in memory.
    Health(Result<Vec<(TaskRef, v1::HealthChecks)>, Declined>),
    /// And whether there are more.
    Agents(Vec<AgentSnapshot>, bool),
}

impl Answer {
    /// What the same caller is told instead.
    #[must_use]
    pub(crate) fn declined(&self, declined: Declined) -> Option<Self> {
        match self {
            Self::Start(_) => Some(Self::Start(Err(declined))),
            Self::Wait(_) => Some(Self::Wait(Err(declined))),
            Self::Command(_) => Some(Self::Command(Err(declined))),
            Self::Transition(_) => Some(Self::Transition(Err(declined))),
            Self::Imported(_) => Some(Self::Imported(Err(declined))),
            Self::Chosen(_) => Some(Self::Chosen(Err(declined))),
            Self::Forgotten(_) => Some(Self::Forgotten(Err(declined))),
            Self::Deleted(_) => Some(Self::Deleted(Err(declined))),
            Self::Released(_) => Some(Self::Released(Err(declined))),
            Self::Health(_) => Some(Self::Health(Err(declined))),
            Self::Checked(_) | Self::Agents(..) => None,
        }
    }
}

impl From<StartReply> for Answer {
    fn from(reply: StartReply) -> Self {
        Self::Start(Ok(reply))
    }
}

impl From<WaitReply> for Answer {
    fn from(reply: WaitReply) -> Self {
        Self::Wait(Ok(reply))
    }
}

impl From<CommandReply> for Answer {
    fn from(reply: CommandReply) -> Self {
        Self::Command(Ok(reply))
    }
}

impl From<TransitionReply> for Answer {
    fn from(reply: TransitionReply) -> Self {
        Self::Transition(Ok(reply))
    }
}

impl From<ImportReply> for Answer {
    fn from(reply: ImportReply) -> Self {
        Self::Imported(Ok(reply))
    }
}

#[cfg(test)]
mod tests {
    use capataz_engine::Input;

    use super::*;

    #[test]
    fn every_text_that_a_caller_sends_counts_while_it_waits() {
        let text = "x".repeat(1_000);
        let accept = Request::AcceptTransition { session: "s".to_owned(), request_id: text.clone() };
        assert_eq!(accept.bytes(), 1_001);
        let request_id = String::new;
        let inputs = [
            Input::Cancel { reason: text.clone(), force: false, request_id: request_id() },
            Input::Extend { task: text.clone(), by_ms: 1, request_id: request_id() },
            Input::Retry { task: text.clone(), request_id: request_id() },
            Input::Rollback { task: text.clone(), cascade: false, request_id: request_id() },
            Input::Resolve {
                question_id: text.clone(),
                answer: capataz_engine::Answer::default(),
                request_id: request_id(),
            },
            Input::Resolve {
                question_id: String::new(),
                answer: text.as_str().into(),
                request_id: request_id(),
            },
            Input::RollbackPipeline { phase: text.clone(), request_id: request_id() },
            Input::Checkpoint { reason: text.clone(), request_id: request_id() },
            Input::RollbackExecution { checkpoint: text, request_id: request_id() },
        ];
        let run = RunId(uuid::Uuid::from_u128(1));
        for input in inputs {
            let command = Request::Command { run, if_seq: None, input: Box::new(input) };
            assert_eq!(command.bytes(), 1_000, "{command:?}");
        }
    }
}
