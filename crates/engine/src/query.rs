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

use std::collections::BTreeMap;

use capataz_contracts::v1;
use capataz_policy::mode;

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
    /// What the tasks of a phase are given. Answered by [`Computed::Inputs`](crate::Computed::Inputs).
    Compose(Box<Composition>),
    /// What of the outputs of a phase goes on. Answered by [`Computed::Summary`](crate::Computed::Summary).
    Summarize(Box<Summing>),
    /// What the tasks of a wave are given whose references read more than fits an event. Answered by
    /// [`Computed::Resolved`](crate::Computed::Resolved).
    Resolve(Box<Resolving>),
    /// What the planner of an execution is asked. Answered by [`Computed::Prompt`](crate::Computed::Prompt).
    Prompt(Box<Prompting>),
    /// Whether the result of a tool is what was expected, and what is kept of it. Answered by
    /// [`Computed::Observed`](crate::Computed::Observed).
    Observe(Box<Observation>),
}

impl Query {
    /// What is looked at of a memory that the store derives from events: those of this run that change it have to be durable
    /// before.
    #[must_use]
    pub fn recalls(&self) -> Option<&Wanted> {
        match self {
            Self::Prompt(prompting) => Some(&prompting.recall),
            _ => None,
        }
    }
}

/// What a prompt is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct Prompting {
    /// The prompt as JSON text, with an empty `memory`, and null in place of results.
    pub prompt: String,
    /// What belongs at these places: outputs of tools.
    pub results: Vec<(String, v1::Payload)>,
    pub recall: Wanted,
    /// Tools that agents serve, where it matters whether somebody does.
    pub tools: Vec<String>,
}

/// What is wanted of a session's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub session: String,
    pub mode: v1::ExecutionMode,
    /// Entries after this moment, in Unix milliseconds.
    pub since_ms: i64,
    /// The most entries that are looked at.
    pub entries: u32,
    /// The most tokens of those that are told.
    pub tokens: u32,
}

/// The result of a tool, and what was expected of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    pub tool: String,
    /// What the tool was given, as JSON.
    pub parameters: String,
    /// As a plan says it (seed 004); `None`: that it succeeds.
    pub expected: Option<String>,
    pub output: Option<v1::Payload>,
    pub error: Option<v1::Error>,
    /// The most tokens of its digest.
    pub most_tokens: u32,
}

impl Prompting {
    /// The bytes that a prompt is made of beside what is recalled, where all of them are here; `None` where a blob is read, or
    /// where recalling may take long: by relevance, what is too old is met before what is wanted.
    #[must_use]
    pub fn bytes_here(&self) -> Option<usize> {
        if mode::recalls_by_relevance(self.recall.mode) {
            return None;
        }
        let results = self.results.iter().map(|(_, output)| inline(output));
        results.sum::<Option<usize>>().map(|results| results + self.prompt.len())
    }
}

impl Judgement {
    /// The bytes of a value whose schemas alone are asked for, where all of them are here; `None` where more is looked at.
    #[must_use]
    pub fn bytes_here(&self) -> Option<usize> {
        let is_plain = self.found.is_empty() && self.rule.as_ref().is_none_or(|rule| rule.checks.is_empty());
        inline(&self.value).filter(|_| is_plain)
    }
}

/// The bytes of a payload that is no blob.
fn inline(payload: &v1::Payload) -> Option<usize> {
    match &payload.data {
        None => Some(0),
        Some(v1::payload::Data::Inline(text)) => Some(text.len()),
        Some(v1::payload::Data::Blob(_)) => None,
    }
}

impl Observation {
    /// The bytes that are looked at, where all of them are here; `None` where a blob is read, or a schema compiled.
    #[must_use]
    pub fn bytes_here(&self) -> Option<usize> {
        let expected = self.expected.as_deref().unwrap_or_default();
        // However its key is written: without these letters, and without an escape, it is none.
        if expected.contains("schema") || expected.contains("\\u") {
            return None;
        }
        let output = self.output.as_ref().map_or(Some(0), inline)?;
        let error = self.error.as_ref().map_or(0, |error| error.message.len());
        Some(self.parameters.len() + expected.len() + output + error)
    }
}

/// The inputs of tasks whose references read more than fits an event, and what they read.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolving {
    /// The place of the task in its wave, and its input as JSON text with references.
    pub inputs: Vec<(u32, bytes::Bytes)>,
    /// The outputs, by the names of their tasks. One that is not here is not there.
    pub outputs: BTreeMap<String, v1::Payload>,
}

/// What the inputs of a phase's tasks are made of.
#[derive(Clone, Debug, PartialEq)]
pub struct Composition {
    /// JSON text with references.
    pub template: String,
    /// The reference to the list whose items the tasks are for.
    pub for_each: Option<String>,
    /// The items that are wanted; `None`: all of them.
    pub items: Option<Vec<u32>>,
    /// What a person has given instead of all this: to each of the items, or a list with an input for each of them where nobody
    /// knows the items yet.
    pub given: Option<v1::Payload>,
    /// What single items were given instead.
    pub overrides: BTreeMap<u32, v1::Payload>,
    /// The input of the run.
    pub input: v1::Payload,
    /// The phases before, by their names.
    pub phases: BTreeMap<String, KnownPhase>,
}

/// What is wanted of a completed phase.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownPhase {
    pub summary: Option<v1::Payload>,
    /// One for each item.
    pub outputs: Vec<v1::Payload>,
    /// It has one for each item of a list, and not one alone.
    pub has_items: bool,
}

/// What the summary of a phase is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct Summing {
    pub rule: v1::SummaryRule,
    /// Keys of the outputs, where there is no rule.
    pub keys: Vec<String>,
    /// One for each item.
    pub outputs: Vec<v1::Payload>,
    pub has_items: bool,
    /// What the tasks were given, where the rule asks for it.
    pub inputs: Option<Composition>,
}

/// What has to be judged before an answer to a question or a worker's result counts: this value, for this purpose.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Judgement {
    pub purpose: Purpose,
    /// All of which it has to pass.
    pub schemas: Vec<String>,
    /// What is to be checked beside schemas, and what an attempt after this one is given; `None` where none of this is wanted.
    pub rule: Option<Rule>,
    #[serde(with = "crate::snapshot::as_bytes::one")]
    pub value: v1::Payload,
    /// What the run's kind has found wrong with the value, which has passed everything else or could not be read: nothing is
    /// judged any more, and only what the next attempt is given is wanted.
    #[serde(with = "crate::snapshot::as_bytes::list")]
    pub found: Vec<v1::SchemaViolation>,
}

/// What is wanted of an output beside schemas.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Rule {
    /// Values of [`v1::OutputCheck`].
    pub checks: Vec<i32>,
    /// What the task was given.
    #[serde(with = "crate::snapshot::as_bytes::option")]
    pub input: Option<v1::Payload>,
    /// Number of the attempt, from 1.
    pub attempt: u32,
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
    /// The value as it counts, where its schema marks something for lower case.
    #[serde(with = "crate::snapshot::as_bytes::option")]
    pub value: Option<v1::Payload>,
    /// What the next attempt is given, where the value is rejected and one may follow.
    #[serde(with = "crate::snapshot::as_bytes::option")]
    pub corrected: Option<v1::Payload>,
}

impl Verdict {
    /// The verdict that a value has these violations, and nothing else.
    #[must_use]
    pub fn on(judged: Judgement, violations: Vec<v1::SchemaViolation>) -> Self {
        Self { judged, violations, value: None, corrected: None }
    }
}
