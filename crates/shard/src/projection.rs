//! Rows that only queries need. They follow from a run's log alone, are written with the events that they follow from, in
//! one commit, and can be made again ([`crate::rebuild`]).

use bytes::Bytes;
use capataz_contracts::v1::{self, event::Body};
use capataz_engine::planted::{self, Fault};
use capataz_engine::session::SessionState;
use capataz_engine::{RunState, Wanted};
use capataz_policy::mode as policy;
use capataz_store::{
    Derived, MEMORY_TYPES, MemoryChange, MemoryEntry, MemoryRow, Millis, Place, RunId, Summary,
};
use prost::Message;

use crate::feed::split;

/// The kind of the derived row of a run that another run has started. Its key is the other run's id, in 16 bytes; its
/// value, the `ParentRef` without that id.
pub const CHILD: u16 = 1;

/// The kind of the derived row of an execution that has ended. Its key is its mode, a value of the contract's `ExecutionMode`
/// in one byte; its value, the `ExecutionEnded`.
pub const EXECUTION: u16 = 2;

/// What the list of runs says of a run.
#[must_use]
pub fn listed(state: &RunState) -> Summary {
    let (settled, total) = state.progress();
    Summary {
        status: state.status() as i32,
        outcome: state.outcome().map_or(0, |outcome| outcome as i32),
        updated_at: Millis(state.updated_at_ms()),
        finished_at: state.finished_at_ms().map(Millis),
        tasks_total: total,
        tasks_settled: settled,
    }
}

/// What the list of runs says of a session. It is never unfinished: nothing of it has to be taken up after a restart, and
/// retention counts from its last event.
#[must_use]
pub fn listed_session(state: &SessionState) -> Summary {
    let at = Millis(state.updated_at_ms());
    let status = v1::RunStatus::Finished as i32;
    Summary { status, updated_at: at, finished_at: Some(at), ..Summary::default() }
}

/// The derived rows of an event. They follow from the event alone, which has every value that its decision filled in.
#[must_use]
pub fn derived(event: &v1::Event) -> Vec<Derived> {
    let Some(Body::RunAccepted(accepted)) = &event.body else { return Vec::new() };
    let parent = accepted.parent.as_ref().and_then(parent_of);
    let child = |(parent, of): (RunId, &v1::ParentRef)| Derived {
        place: Place { seq: event.seq, n: 0 },
        kind: CHILD,
        key: child_key(parent),
        // The key says whose it is; the value, whose task, life and attempt.
        value: v1::ParentRef { run_id: String::new(), ..of.clone() }.encode_to_vec().into(),
    };
    parent.zip(accepted.parent.as_ref()).map(child).into_iter().collect()
}

/// The derived row of the event with which the run has ended, after which it is in this state.
#[must_use]
pub fn ended(state: &RunState, seq: u64) -> Option<Derived> {
    let (mode, ended) = state.execution_ended()?;
    let place = Place { seq, n: 0 };
    Some(Derived { place, kind: EXECUTION, key: execution_key(mode), value: ended.encode_to_vec().into() })
}

/// The key under which the executions of a mode are found.
#[must_use]
pub fn execution_key(mode: v1::ExecutionMode) -> Bytes {
    Bytes::copy_from_slice(&[u8::try_from(mode as i32).unwrap_or_default()])
}

/// Whether the event ends its run.
pub(crate) fn ends(event: &v1::Event) -> bool {
    matches!(event.body, Some(Body::RunFinished(_)))
}

/// The key under which the children of a run are found.
#[must_use]
pub fn child_key(parent: RunId) -> Bytes {
    Bytes::copy_from_slice(parent.0.as_bytes())
}

/// The run under whose key a child is found.
#[must_use]
pub fn parent_of_key(key: &[u8]) -> Option<RunId> {
    uuid::Uuid::from_slice(key).ok().map(RunId)
}

/// The parent, where what it is called can be a run's id.
fn parent_of(parent: &v1::ParentRef) -> Option<RunId> {
    parent.run_id.parse().ok()
}

/// The derived rows of an append, after which the run is in this state. The state says whether there are any, so that
/// almost no append is decoded for them.
pub(crate) fn derived_of_append(state: &RunState, first_seq: u64, events: &Bytes) -> Vec<Derived> {
    let is_child = first_seq == 1 && state.parent().is_some();
    let has_ended = state.is_finished() && state.execution_ended().is_some();
    if !is_child && !has_ended {
        return Vec::new();
    }
    let mut rows = Vec::new();
    for event in split(events).filter_map(|event| v1::Event::decode(event).ok()) {
        rows.extend(derived(&event));
        rows.extend(ended(state, event.seq).filter(|_| has_ended && ends(&event)));
    }
    rows
}

/// What is said of an entry by a person, in quarters of its relevance (CONTRACTS §5).
const FEEDBACK: i8 = 2;
/// What a success after it was recalled says of an entry, in quarters of its relevance (CONTRACTS §5).
const USEFUL: i8 = 1;

/// What an event of a run, or of a session, changes in memory.
#[must_use]
pub fn memory(run: RunId, event: &v1::Event) -> Vec<MemoryRow> {
    let (remembered, useful): (_, &[String]) = match &event.body {
        Some(Body::PlannerAnswered(event)) => (&event.remembered, &[]),
        Some(Body::PlanEdited(event)) => (&event.remembered, &[]),
        Some(Body::PlanApproved(event)) => (&event.remembered, &[]),
        Some(Body::PlanRejected(event)) => (&event.remembered, &[]),
        Some(Body::ToolApproved(event)) => (&event.remembered, &[]),
        Some(Body::ToolObserved(event)) => (&event.remembered, &event.useful),
        Some(Body::EscalationAnswered(event)) => (&event.remembered, &[]),
        Some(Body::ModeCompleted(event)) => (&event.remembered, &[]),
        Some(Body::ModeRolledBack(back)) => {
            return in_order(event.seq, [MemoryChange::Back { to_seq: back.to_seq }]);
        }
        Some(Body::SessionMemoryForgotten(forgotten)) => {
            let entries = forgotten.entry_ids.iter().filter(|_| !planted::is(Fault::ForgottenStays)).cloned();
            return in_order(event.seq, entries.map(|entry| MemoryChange::Forgotten { entry }));
        }
        _ => return Vec::new(),
    };
    let Some(remembered) = remembered else { return Vec::new() };
    let feedback = match remembered.positive {
        Some(true) => FEEDBACK,
        Some(false) => -FEEDBACK,
        None => 0,
    };
    let said = remembered.related_to.iter().filter(|_| feedback != 0).map(|entry| (entry, feedback));
    let useful = useful.iter().filter(|_| !planted::is(Fault::UsefulIsNoVote));
    let votes = said.chain(useful.map(|entry| (entry, USEFUL)));
    // A run that belongs to no session recalls what is its own. What a fork has recalled before it was forked is not.
    let own = run.to_string();
    let votes = votes.filter(|(entry, _)| remembered.session != own || entry.starts_with(&own));
    let votes = votes.map(|(entry, quarters)| MemoryChange::Vote { entry: entry.clone(), quarters });
    in_order(event.seq, entry(event.at_ms, remembered).into_iter().chain(votes))
}

/// The entry, unless it is of a mode or a type that nobody writes.
fn entry(at_ms: i64, remembered: &v1::Remembered) -> Option<MemoryChange> {
    let mode = mode_name(remembered.mode())?;
    let entry = MemoryEntry {
        session: remembered.session.clone(),
        mode: mode.to_owned(),
        kind: remembered.r#type.clone(),
        at: Millis(at_ms),
        content: remembered.content.clone(),
        digest: remembered.digest.clone(),
        tools: remembered.tools.clone(),
        files: remembered.files.clone(),
        related_to: remembered.related_to.clone(),
    };
    MEMORY_TYPES.contains(&entry.kind.as_str()).then(|| MemoryChange::Entry(Box::new(entry)))
}

/// The name of a mode in memory.
#[must_use]
pub fn mode_name(mode: v1::ExecutionMode) -> Option<&'static str> {
    match mode {
        v1::ExecutionMode::Unspecified => None,
        v1::ExecutionMode::Simple => Some("simple"),
        v1::ExecutionMode::Planner => Some("planner"),
        v1::ExecutionMode::Supervised => Some("supervised"),
    }
}

/// The mode of this name in memory.
#[must_use]
pub fn mode_named(name: &str) -> v1::ExecutionMode {
    let modes = [v1::ExecutionMode::Simple, v1::ExecutionMode::Planner, v1::ExecutionMode::Supervised];
    modes.into_iter().find(|mode| mode_name(*mode) == Some(name)).unwrap_or_default()
}

fn in_order(seq: u64, changes: impl IntoIterator<Item = MemoryChange>) -> Vec<MemoryRow> {
    let place = |n| Place { seq, n };
    (0..).zip(changes).map(|(n, change)| MemoryRow { place: place(n), change }).collect()
}

/// Whether this change may change what is recalled: an entry of another type, mode or session does not. A vote is on what was
/// recalled before.
pub(crate) fn is_recalled(change: &MemoryChange, wanted: &Wanted) -> bool {
    match change {
        MemoryChange::Entry(entry) => {
            entry.session == wanted.session
                && mode_name(wanted.mode) == Some(entry.mode.as_str())
                && policy::recalled_types(wanted.mode).contains(&entry.kind.as_str())
        }
        MemoryChange::Vote { .. } | MemoryChange::Forgotten { .. } | MemoryChange::Back { .. } => true,
    }
}

/// What events of a run change in memory.
pub(crate) fn memory_of(run: RunId, events: &Bytes) -> Vec<MemoryRow> {
    let events = split(events).filter_map(|event| v1::Event::decode(event).ok());
    events.flat_map(|event| memory(run, &event)).collect()
}

/// What the events of an append change in memory.
pub(crate) fn memory_of_append(run: RunId, events: &Bytes) -> Vec<MemoryRow> {
    let mut rows = memory_of(run, events);
    if planted::is(Fault::MemoryRowWithoutItsEvent)
        && let Some(MemoryRow { place, change: change @ MemoryChange::Entry(_) }) = rows.last().cloned()
    {
        rows.push(MemoryRow { place: Place { n: place.n + 1, ..place }, change });
    }
    rows
}

/// Whether an event of an append approves a call.
pub(crate) fn approves(events: &Bytes) -> bool {
    let events = split(events).filter_map(|event| v1::Event::decode(event).ok());
    events.into_iter().any(|event| matches!(event.body, Some(Body::ToolApproved(_))))
}

#[cfg(test)]
mod tests;
