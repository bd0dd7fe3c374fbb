//! The second way out of the engine. An activity is leased, and durable before it leaves; a query has no effect
//! outside: it may be asked before its run's events are durable, as often as anybody likes, and its bounded answer comes
//! back as an [`Input::Answered`](crate::Input::Answered), recorded once.
//!
//! The log has the queries whose answers decide something for the run. Whether a value passes a schema ([`Judgement`]) is asked
//! by the shard before an answer or a worker's result is decided, and is not: what was found is in the event that follows, and
//! who restarts the daemon has to say the answer or the result again.
//!
//! A query belongs to no attempt: one that stalls costs none, and no deadline of a task runs for it. What waits for an
//! answer is outstanding, so that a restart asks again under the same number; an answer under another number is stale
//! and changes nothing.

use capataz_contracts::v1;

use crate::input::TaskRef;

/// Names a query within its run. A machine gives each number to one question only.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize, serde::Deserialize,
)]
pub struct QueryId(pub u64);

/// The closed list of what a run may want to know.
#[derive(Clone, Debug, PartialEq)]
pub enum Query {
    /// Which spec should answer the text of [`RunState::ask_query`](crate::RunState::ask_query): the named one, or the
    /// one that the router chooses. Answered by [`QueryAnswer::Routed`](crate::QueryAnswer::Routed).
    Route { spec: Option<String>, reason: v1::CallReason },
    /// Whether the value of a person's answer passes the schema of its question, or a worker's result those of its task.
    /// Answered by
    /// [`QueryAnswer::Judged`](crate::QueryAnswer::Judged).
    Judge(Box<Judgement>),
}

/// What has to be judged before an answer to a question or a worker's result counts: this value, for this purpose.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Judgement {
    pub purpose: Purpose,
    /// All of which it has to pass.
    pub schemas: Vec<String>,
    #[serde(with = "crate::snapshot::as_bytes::one")]
    pub value: v1::Payload,
}

/// What the value is for.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Purpose {
    /// An answer to this revision of a question.
    Answer { question_id: String, revision: u32 },
    /// The output of a task, from the holder of this lease.
    Output { task: TaskRef, lease: u64 },
}

impl Purpose {
    /// A verdict that says nothing of the value is given again to whoever gives an answer again. Nobody gives an output again.
    #[must_use]
    pub fn is_output(&self) -> bool {
        matches!(self, Self::Output { .. })
    }
}

/// The rule of a violation that says nothing about the value: it could not be judged now, and may be given again.
pub const UNJUDGED: &str = "unjudged";

/// What a judge has found, and of what.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Verdict {
    pub judged: Judgement,
    /// None where the value passes.
    #[serde(with = "crate::snapshot::as_bytes::list")]
    pub violations: Vec<v1::SchemaViolation>,
}
