//! Decisions about a session: what an ask finds in it, what an ended ask adds, which suggestion the user accepts. Its
//! events are a stream of their own; what an ask adds becomes durable together with the end of that ask.

use bytes::Bytes;
use capataz_contracts::v1::{self, event::Body};
use capataz_contracts::{Violation, free};
use capataz_policy::session::{self as state, Stage, WorkResult};
use capataz_policy::transition;
use serde_json::{Map, Value};

use crate::decide::turn::encode;
use crate::fold::EVENT_FORMAT;
use crate::fold::session::object;
pub use crate::fold::session::{HISTORY, SessionState};
use crate::fold::state::{RunState, Wall};
use crate::planted::{self, Fault};

/// Events of a session, ready to be stored.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionDecision {
    pub first_seq: u64,
    pub count: u32,
    /// Each with a varint length before it.
    pub events: Bytes,
    /// Among them are some by which something of the session's memory is forgotten.
    pub forgets: bool,
}

impl SessionDecision {
    /// Adds what was decided after it.
    pub fn then(&mut self, next: Self) {
        self.forgets |= next.forgets;
        self.count += next.count;
        self.events = [&self.events[..], &next.events[..]].concat().into();
    }
}

/// Why a transition was not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AcceptRefusal {
    #[error("no answer to request {request_id:?} suggests a transition that is still open")]
    NotFound { request_id: String },
}

/// An accepted transition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    pub from: String,
    pub to: String,
    pub seq: u64,
}

impl SessionState {
    /// What an ask of this session finds.
    #[must_use]
    pub fn context(&self, now: Wall) -> v1::SessionContext {
        let recent = |before: &&v1::SessionTransition| {
            now.0.saturating_sub(before.at_ms) < transition::PING_PONG_WINDOW_MS
        };
        let (preferences, preferences_json) = free::divide(object(&self.preferences));
        v1::SessionContext {
            current_spec: self.current_spec.clone(),
            message_count: self.message_count,
            history: self.history.clone(),
            emotional_state: self.emotional_state.clone(),
            engagement_level: self.engagement_level.clone(),
            preferences,
            preferences_json,
            custom: self.custom.clone().into(),
            transitions: self.transitions.iter().filter(recent).cloned().collect(),
            chosen_mode: self.chosen_mode.into(),
        }
    }

    /// The plan of which the state of work says that it is at work.
    #[must_use]
    pub fn plan_at_work(&self) -> Option<&str> {
        self.flow.as_ref().map(|flow| flow.run_id.as_str())
    }

    /// The session as a read model.
    #[must_use]
    pub fn view(&self, stream_id: String, now: Wall) -> v1::Session {
        v1::Session {
            session: self.name.clone(),
            context: Some(self.context(now)),
            seq: self.seq,
            created_at_ms: self.created_at.0,
            updated_at_ms: self.last_at.0,
            suggestions: self.suggestions.iter().rev().cloned().collect(),
            stream_id,
            state: text(&self.work),
            backup: text(&self.backup),
        }
    }

    /// The spec of the suggestion in the answer to this request, while it is open.
    #[must_use]
    pub fn suggested(&self, request_id: &str) -> Option<&str> {
        let open = self.suggestions.iter().find(|open| open.request_id == request_id)?;
        Some(open.transition.as_ref()?.to.as_str())
    }

    /// The user accepts a suggested transition. A repetition finds the event of the first time.
    ///
    /// # Errors
    /// There is no such suggestion.
    pub fn accept(
        &mut self,
        request_id: &str,
        now: Wall,
    ) -> Result<(Accepted, Option<SessionDecision>), AcceptRefusal> {
        if let Some((_, from, to, seq)) = self.accepted.iter().find(|(id, ..)| id == request_id) {
            return Ok((Accepted { from: from.clone(), to: to.clone(), seq: *seq }, None));
        }
        let suggestion = self.suggestions.iter().find(|open| open.request_id == request_id);
        let Some(suggested) = suggestion.and_then(|open| open.transition.clone()) else {
            return Err(AcceptRefusal::NotFound { request_id: request_id.to_owned() });
        };
        let mut events = Events::default();
        let (from, to) = (suggested.from, suggested.to);
        let body = v1::SessionTransitionAccepted {
            request_id: request_id.to_owned(),
            from: from.clone(),
            to: to.clone(),
        };
        let now = now.max(self.last_at);
        events.emit(self, now, Body::SessionTransitionAccepted(body));
        let seq = self.seq;
        Ok((Accepted { from, to, seq }, Some(events.decision(seq))))
    }
}

/// What the run whose turn it is adds to its session, which is opened where it is not there yet: an ask when it has ended, a
/// plan whenever it has come further. Nothing where the run was cancelled before anything was at work.
///
/// # Errors
/// The state of work would have these violations, and nothing is written (SESSION_INVALID).
pub fn record(
    session: &mut Option<Box<SessionState>>,
    run: &RunState,
    run_id: &str,
) -> Result<Option<SessionDecision>, Vec<Violation>> {
    let Some(name) = run.session() else { return Ok(None) };
    let turn = run.is_finished().then(|| run.rules().session_turn(run, run_id)).flatten();
    let stages = stages(session.as_deref(), run, run_id);
    if turn.is_none() && stages.is_empty() {
        return Ok(None);
    }
    let last_at = session.as_ref().map_or(Wall(0), |state| state.last_at);
    let now = Wall(run.updated_at_ms()).max(last_at);
    // Everything is validated before anything is changed: after a refusal the session is what its events make of it.
    let mut work = session.as_ref().map_or_else(Map::new, |state| object(&state.work));
    let mut written = Vec::new();
    for (cause, progress) in stages {
        let changes = state::changes(&work, &progress, now.0);
        work.extend(changes.clone());
        let violations = state::violations(&work);
        if !violations.is_empty() {
            return Err(violations);
        }
        written.push(v1::SessionStateWritten {
            cause: cause.into(),
            fields: Value::Object(changes).to_string(),
            run_id: run_id.to_owned(),
            repairs: Vec::new(),
        });
    }
    let mut events = Events::default();
    let state = match session {
        Some(state) => state,
        None => match events.open(name, now) {
            Some(opened) => session.insert(Box::new(opened)),
            None => return Ok(None),
        },
    };
    let turn = turn.map(Body::SessionTurn);
    for body in turn.into_iter().chain(written.into_iter().map(Body::SessionStateWritten)) {
        events.emit(state, now, body);
    }
    Ok((events.count > 0).then(|| events.decision(state.seq)))
}

/// Where the run has come since the state of work was written last, in order.
fn stages<'a>(
    session: Option<&SessionState>,
    run: &'a RunState,
    run_id: &'a str,
) -> Vec<(v1::SessionStateCause, state::Progress<'a>)> {
    use v1::SessionStateCause as Cause;
    let Some(mut now) = run.rules().progress(run, run_id) else { return Vec::new() };
    let flow = session.and_then(|session| session.flow.as_ref()).filter(|flow| flow.run_id == run_id);
    let mut stages = Vec::new();
    let is_there = flow.is_some_and(|flow| flow.phase == now.stage.phase());
    if is_there && flow.is_some_and(|flow| flow.blocked_on == now.blocked_on) {
        return stages;
    }
    if !run.is_finished() {
        now.pending = run.unsettled().take(state::PENDING).collect();
    }
    let at = |stage| state::Progress { stage, ..now.clone() };
    if flow.is_none() {
        stages.push((Cause::RunBegun, at(Stage::Begun)));
    }
    match now.stage {
        Stage::Begun => {}
        Stage::Wave(_) if is_there => stages.push((Cause::Waiting, now)),
        Stage::Wave(_) if planted::is(Fault::WaveLeavesNoPhase) => {}
        Stage::Wave(_) => stages.push((Cause::WaveBegun, now)),
        Stage::Verifying => stages.push((Cause::Verifying, now)),
        Stage::Ended(result) => {
            if matches!(result, WorkResult::Succeeded | WorkResult::SucceededWithFailures) {
                stages.push((Cause::Verifying, at(Stage::Verifying)));
            }
            stages.push((Cause::RunEnded, now));
        }
    }
    stages
}

/// What became of a state that a user gave a session.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// Number of the session's newest event.
    pub seq: u64,
    /// `None` where the session had this state already, and nothing was repaired.
    pub decision: Option<SessionDecision>,
}

/// Gives a session in which no plan is at work the state of a file, validated; a session that is not there yet begins with it.
/// That something was repaired is recorded even where the session has this state already.
#[must_use]
pub fn import(
    session: &mut Option<Box<SessionState>>,
    name: &str,
    fields: &str,
    repairs: Vec<String>,
    now: Wall,
) -> Option<Imported> {
    let has_it = session.as_ref().is_some_and(|state| object(&state.work) == object(fields.as_bytes()));
    if has_it && (repairs.is_empty() || planted::is(Fault::RepairUntold)) {
        let seq = session.as_ref().map_or(0, |state| state.seq);
        return Some(Imported { seq, decision: None });
    }
    let now = session.as_ref().map_or(now, |state| now.max(state.last_at));
    let mut events = Events::default();
    let state = match session {
        Some(state) => state,
        None => session.insert(Box::new(events.open(name, now)?)),
    };
    let written = v1::SessionStateWritten {
        cause: v1::SessionStateCause::Imported.into(),
        fields: fields.to_owned(),
        run_id: String::new(),
        repairs,
    };
    events.emit(state, now, Body::SessionStateWritten(written));
    Some(Imported { seq: state.seq, decision: Some(events.decision(state.seq)) })
}

/// The mode that a user has chosen for the runs of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    pub before: v1::ExecutionMode,
    /// Number of the session's newest event.
    pub seq: u64,
    /// `None` where the session had this mode already.
    pub decision: Option<SessionDecision>,
}

/// Chooses the mode of the session's runs that name none, from the next one on; a session that is not there yet begins with it.
#[must_use]
pub fn choose_mode(
    session: &mut Option<Box<SessionState>>,
    name: &str,
    mode: v1::ExecutionMode,
    now: Wall,
) -> Option<Chosen> {
    let before = session.as_ref().map_or(v1::ExecutionMode::Unspecified, |state| state.chosen_mode);
    if before == mode {
        let seq = session.as_ref().map_or(0, |state| state.seq);
        return Some(Chosen { before, seq, decision: None });
    }
    let now = session.as_ref().map_or(now, |state| now.max(state.last_at));
    let mut events = Events::default();
    let state = match session {
        Some(state) => state,
        None => session.insert(Box::new(events.open(name, now)?)),
    };
    events.emit(state, now, Body::SessionModeChosen(v1::SessionModeChosen { mode: mode.into() }));
    Some(Chosen { before, seq: state.seq, decision: Some(events.decision(state.seq)) })
}

/// What was asked for is forgotten.
#[derive(Clone, Debug, PartialEq)]
pub struct Forgotten {
    /// Number of the session's newest event.
    pub seq: u64,
    pub decision: SessionDecision,
}

/// Has entries of the session's memory forgotten (CONTRACTS §5); a session that is not there yet begins with that: a run that
/// belongs to none has a memory of its own, which is called after it.
#[must_use]
pub fn forget(
    session: &mut Option<Box<SessionState>>,
    name: &str,
    entry_ids: Vec<String>,
    now: Wall,
) -> Option<Forgotten> {
    let now = session.as_ref().map_or(now, |state| now.max(state.last_at));
    let mut events = Events::default();
    let state = match session {
        Some(state) => state,
        None => session.insert(Box::new(events.open(name, now)?)),
    };
    events.emit(state, now, Body::SessionMemoryForgotten(v1::SessionMemoryForgotten { entry_ids }));
    Some(Forgotten { seq: state.seq, decision: events.decision(state.seq) })
}

/// The JSON text of these bytes; `None` for none.
fn text(bytes: &[u8]) -> Option<String> {
    (!bytes.is_empty()).then(|| String::from_utf8_lossy(bytes).into_owned())
}

/// Events on their way into the log.
#[derive(Default)]
struct Events {
    buffer: Vec<u8>,
    count: u32,
    forgets: bool,
}

impl Events {
    fn emit(&mut self, state: &mut SessionState, now: Wall, body: Body) {
        let event = self.encoded(state.seq + 1, now, body);
        let applied = state.apply(event);
        debug_assert!(applied.is_ok(), "{applied:?}");
    }

    /// A session that has just been opened.
    fn open(&mut self, name: &str, now: Wall) -> Option<SessionState> {
        let opened = v1::SessionOpened { session: name.to_owned() };
        SessionState::begin(self.encoded(1, now, Body::SessionOpened(opened))).ok()
    }

    fn encoded(&mut self, seq: u64, now: Wall, body: Body) -> v1::Event {
        self.forgets |= matches!(body, Body::SessionMemoryForgotten(_));
        let event = v1::Event { seq, at_ms: now.0, format: EVENT_FORMAT, elapsed_ms: 0, body: Some(body) };
        encode(&event, &mut self.buffer);
        self.count += 1;
        event
    }

    fn decision(self, last_seq: u64) -> SessionDecision {
        SessionDecision {
            first_seq: last_seq + 1 - u64::from(self.count),
            count: self.count,
            events: self.buffer.into(),
            forgets: self.forgets,
        }
    }
}
