//! The second way out of the engine. An activity is leased, and durable before it leaves; a query has no effect
//! outside: it may be asked before its run's events are durable, as often as anybody likes, and its bounded answer comes
//! back as an [`Input::Answered`](crate::Input::Answered), recorded once.
//!
//! The log has the queries whose answers decide something for the run. Whether a value passes a schema ([`Judgement`]) is asked
//! by the shard before an answer is decided, and is not: nobody waits for it but the caller, who repeats the call.
//!
//! A query belongs to no attempt: one that stalls costs none, and no deadline of a task runs for it. What waits for an
//! answer is outstanding, so that a restart asks again under the same number; an answer under another number is stale
//! and changes nothing.

use capataz_contracts::v1;

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
    /// Whether the value of a person's answer passes the schema of its question. Answered by
    /// [`QueryAnswer::Judged`](crate::QueryAnswer::Judged).
    Judge(Box<Judgement>),
}

/// What has to be judged before an answer to a question counts: this value, as an answer to this revision of the question.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Judgement {
    pub question_id: String,
    pub revision: u32,
    pub schema: String,
    #[serde(with = "crate::snapshot::as_bytes::one")]
    pub value: v1::Payload,
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
