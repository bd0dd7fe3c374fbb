//! A session: the conversation that asks share (seed 001; DESIGN, "Event sourcing"). Its events are a stream of their
//! own; what an ask adds to it becomes durable together with the end of that ask.

use std::collections::{BTreeMap, VecDeque};

use bytes::{Bytes, BytesMut};
use capataz_contracts::v1::{self, event::Body};
use capataz_policy::aggregation::ResultStatus;
use capataz_policy::transition;
use serde_json::{Map, Value};

use crate::ask::{ContextUpdate, response_of};
use crate::decide::turn::encode;
use crate::snapshot::{SnapshotError, as_bytes};
use crate::state::{CorruptLog, RunState, Timestamp};

/// Messages that a session keeps (seed 001).
pub const HISTORY: usize = 20;
/// Bytes of one message that are kept.
const MESSAGE_BYTES: usize = 4 * 1024;
/// Suggestions that can still be accepted.
const SUGGESTIONS: usize = 20;
/// Bytes of what specs asked to be kept; what would exceed them is left out.
const CUSTOM_BYTES: usize = 8 * 1024;
/// Preferences that a session keeps.
const PREFERENCES: usize = 32;

/// A session: the fold of its events.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct SessionState {
    name: String,
    seq: u64,
    created_at: Timestamp,
    last_at: Timestamp,
    current_spec: Option<String>,
    message_count: u64,
    #[serde(with = "as_bytes::list")]
    history: Vec<v1::SessionMessage>,
    emotional_state: Option<String>,
    engagement_level: Option<String>,
    preferences: BTreeMap<String, String>,
    /// JSON object; empty bytes for an empty one.
    custom: Vec<u8>,
    /// Those of the last minute, oldest first.
    #[serde(with = "as_bytes::list")]
    transitions: Vec<v1::SessionTransition>,
    /// Newest last.
    #[serde(with = "as_bytes::list")]
    suggestions: Vec<v1::SessionSuggestion>,
    /// Accepted suggestions by the id of their ask: from, to, and the event's number.
    accepted: VecDeque<(String, String, String, u64)>,
}

/// Events of a session, ready to be stored.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionDecision {
    pub first_seq: u64,
    pub count: u32,
    /// Each with a varint length before it.
    pub events: Bytes,
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
    /// A session that has just been opened, and its first event.
    fn open(name: &str, now: Timestamp, events: &mut Events) -> Self {
        let mut state = Self {
            name: name.to_owned(),
            seq: 0,
            created_at: now,
            last_at: now,
            current_spec: None,
            message_count: 0,
            history: Vec::new(),
            emotional_state: None,
            engagement_level: None,
            preferences: BTreeMap::new(),
            custom: Vec::new(),
            transitions: Vec::new(),
            suggestions: Vec::new(),
            accepted: VecDeque::new(),
        };
        let opened = v1::SessionOpened { session: name.to_owned() };
        events.emit(&mut state, now, Body::SessionOpened(opened));
        state
    }

    /// Folds a session's whole log.
    ///
    /// # Errors
    /// The events are not those of a session.
    pub fn fold(events: impl IntoIterator<Item = v1::Event>) -> Result<Self, CorruptLog> {
        let mut state: Option<Self> = None;
        for event in events {
            let seq = event.seq;
            match (&mut state, &event.body) {
                (None, Some(Body::SessionOpened(opened))) if seq == 1 => {
                    let mut opened =
                        Self::open(&opened.session, Timestamp(event.at_ms), &mut Events::default());
                    opened.seq = 1;
                    state = Some(opened);
                }
                (Some(state), _) => state.apply(event)?,
                (None, _) => return Err(CorruptLog { seq, detail: "the first event opens no session" }),
            }
        }
        state.ok_or(CorruptLog { seq: 0, detail: "the log is empty" })
    }

    /// Folds one more event.
    ///
    /// # Errors
    /// It does not follow the one before, or is no event of a session.
    pub fn apply(&mut self, event: v1::Event) -> Result<(), CorruptLog> {
        let seq = event.seq;
        if seq != self.seq + 1 {
            return Err(CorruptLog { seq, detail: "the number is not the next one" });
        }
        let at = Timestamp(event.at_ms);
        match event.body {
            Some(Body::SessionOpened(_)) if seq == 1 => {}
            Some(Body::SessionTurn(turn)) => self.turn(turn, at),
            Some(Body::SessionTransitionAccepted(accepted)) => self.accepted(accepted, at, seq),
            _ => return Err(CorruptLog { seq, detail: "it is no event of a session" }),
        }
        self.seq = seq;
        self.last_at = self.last_at.max(at);
        Ok(())
    }

    fn turn(&mut self, turn: v1::SessionTurn, at: Timestamp) {
        self.message_count += turn.messages.len() as u64;
        self.history.extend(turn.messages);
        let surplus = self.history.len().saturating_sub(HISTORY);
        self.history.drain(..surplus);
        if turn.current_spec.is_some() {
            self.current_spec = turn.current_spec;
        }
        if turn.emotional_state.is_some() {
            self.emotional_state = turn.emotional_state;
        }
        if turn.engagement_level.is_some() {
            self.engagement_level = turn.engagement_level;
        }
        self.preferences.extend(turn.preferences);
        while self.preferences.len() > PREFERENCES {
            self.preferences.pop_first();
        }
        if !turn.custom.is_empty() {
            self.merge_custom(&turn.custom);
        }
        for taken in turn.transitions {
            self.remember(taken, at);
        }
        if let Some(suggestion) = turn.suggestion {
            self.suggestions.push(v1::SessionSuggestion {
                request_id: turn.request_id,
                transition: Some(suggestion),
                at_ms: at.0,
            });
            let surplus = self.suggestions.len().saturating_sub(SUGGESTIONS);
            self.suggestions.drain(..surplus);
        }
    }

    fn merge_custom(&mut self, news: &[u8]) {
        let mut custom: Map<String, Value> = serde_json::from_slice(&self.custom).unwrap_or_default();
        custom.extend(serde_json::from_slice::<Map<String, Value>>(news).unwrap_or_default());
        let bytes = Value::Object(custom).to_string().into_bytes();
        if bytes.len() <= CUSTOM_BYTES {
            self.custom = bytes;
        }
    }

    fn remember(&mut self, taken: v1::SessionTransition, at: Timestamp) {
        self.transitions.retain(|before| at.0.saturating_sub(before.at_ms) < transition::PING_PONG_WINDOW_MS);
        self.transitions.push(taken);
    }

    fn accepted(&mut self, accepted: v1::SessionTransitionAccepted, at: Timestamp, seq: u64) {
        self.suggestions.retain(|open| open.request_id != accepted.request_id);
        self.current_spec = Some(accepted.to.clone());
        let taken = v1::SessionTransition {
            from: accepted.from.clone(),
            to: accepted.to.clone(),
            at_ms: at.0,
            automatic: false,
        };
        self.remember(taken, at);
        self.accepted.push_back((accepted.request_id, accepted.from, accepted.to, seq));
        if self.accepted.len() > SUGGESTIONS {
            self.accepted.pop_front();
        }
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sequence number of the newest event.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Unix milliseconds of the newest event.
    #[must_use]
    pub fn updated_at_ms(&self) -> i64 {
        self.last_at.0
    }

    /// What an ask of this session finds.
    #[must_use]
    pub fn context(&self, now: Timestamp) -> v1::SessionContext {
        let recent = |before: &&v1::SessionTransition| {
            now.0.saturating_sub(before.at_ms) < transition::PING_PONG_WINDOW_MS
        };
        v1::SessionContext {
            current_spec: self.current_spec.clone(),
            message_count: self.message_count,
            history: self.history.clone(),
            emotional_state: self.emotional_state.clone(),
            engagement_level: self.engagement_level.clone(),
            preferences: self.preferences.clone(),
            custom: self.custom.clone().into(),
            transitions: self.transitions.iter().filter(recent).cloned().collect(),
        }
    }

    /// Encodes the state.
    ///
    /// # Errors
    /// Never for a state that was folded; the encoder's type has an error.
    pub fn snapshot(&self) -> Result<Vec<u8>, SnapshotError> {
        Ok(postcard::to_stdvec(self)?)
    }

    /// Reads a snapshot.
    ///
    /// # Errors
    /// The bytes are something else.
    pub fn from_snapshot(bytes: &[u8]) -> Result<Self, SnapshotError> {
        Ok(postcard::from_bytes(bytes)?)
    }

    /// The session as a read model.
    #[must_use]
    pub fn view(&self, stream_id: String, now: Timestamp) -> v1::Session {
        v1::Session {
            session: self.name.clone(),
            context: Some(self.context(now)),
            seq: self.seq,
            created_at_ms: self.created_at.0,
            updated_at_ms: self.last_at.0,
            suggestions: self.suggestions.iter().rev().cloned().collect(),
            stream_id,
        }
    }

    /// The user accepts a suggested transition. A repetition finds the event of the first time.
    ///
    /// # Errors
    /// There is no such suggestion.
    pub fn accept(
        &mut self,
        request_id: &str,
        now: Timestamp,
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

/// What a finished ask adds to its session, which is opened where it is not there yet. Nothing where the ask was
/// cancelled before a spec answered.
#[must_use]
pub fn record(
    session: &mut Option<Box<SessionState>>,
    run: &RunState,
    run_id: &str,
) -> Option<SessionDecision> {
    let ask = run.ask.as_ref()?;
    let name = ask.ask.session.as_deref()?;
    let end = run.last_end().filter(|_| run.outcome() != Some(v1::RunOutcome::Cancelled))?;
    let now =
        Timestamp(run.updated_at_ms()).max(session.as_ref().map_or(Timestamp(0), |state| state.last_at));
    let mut events = Events::default();
    let state = match session {
        Some(state) => state,
        None => session.insert(Box::new(SessionState::open(name, now, &mut events))),
    };
    let response = response_of(end);
    let text = |pointer: &str| {
        response.as_ref().and_then(|response| response.pointer(pointer)?.as_str().map(str::to_owned))
    };
    let spec = ask.calls.last().map(|call| call.spec.clone());
    let mut messages = vec![v1::SessionMessage {
        role: v1::MessageRole::User as i32,
        text: cut(&ask.ask.text),
        spec: None,
        at_ms: run.created_at().0,
    }];
    if let Some(answer) = text("/response/text") {
        messages.push(v1::SessionMessage {
            role: v1::MessageRole::Assistant as i32,
            text: cut(&answer),
            spec: spec.clone(),
            at_ms: end.at.0,
        });
    }
    let update = run.context_updates().reduce(ContextUpdate::and).unwrap_or_default();
    let custom = Some(update.custom).filter(|custom| !custom.is_empty());
    let suggested = v1::TransitionVerdict::Suggested as i32;
    let turn = v1::SessionTurn {
        run_id: run_id.to_owned(),
        request_id: ask.request_id().to_owned(),
        messages,
        current_spec: moved_to(ask, run),
        emotional_state: update.emotional_state,
        engagement_level: update.engagement_level,
        preferences: ask.ask.preferences.clone(),
        custom: custom.map(|custom| Value::Object(custom).to_string().into()).unwrap_or_default(),
        transitions: ask.taken.clone(),
        suggestion: ask.considered.clone().filter(|considered| considered.verdict == suggested),
    };
    events.emit(state, now, Body::SessionTurn(turn));
    Some(events.decision(state.seq))
}

/// The spec that this ask moves its session to; `None` where the session stays, wherever it is by then.
fn moved_to(ask: &crate::ask::AskState, run: &RunState) -> Option<String> {
    if run.outcome() != Some(v1::RunOutcome::Succeeded) {
        return None;
    }
    let fallback = v1::CallReason::Fallback as i32;
    let mut led = ask.calls.iter().zip(&run.waves).filter(|(call, _)| call.reason != fallback);
    let answered = |wave: &crate::state::WaveState| {
        let end = wave.tasks.first().and_then(|activity| activity.end.as_ref());
        end.is_some_and(|end| end.status == ResultStatus::Success)
    };
    let (call, _) = match ask.context.current_spec {
        Some(_) => led.rfind(|(_, wave)| answered(wave))?,
        // A session begins with the spec that it was meant for, though that failed and another one answered.
        None => {
            let there: Vec<_> = led.filter(|(call, _)| call.routing.is_some()).collect();
            there.iter().rev().find(|(_, wave)| answered(wave)).or(there.first()).copied()?
        }
    };
    Some(call.spec.clone()).filter(|spec| ask.context.current_spec.as_ref() != Some(spec))
}

fn cut(text: &str) -> String {
    text.get(..text.floor_char_boundary(MESSAGE_BYTES)).unwrap_or(text).to_owned()
}

/// Events on their way into the log.
#[derive(Default)]
struct Events {
    buffer: BytesMut,
    count: u32,
}

impl Events {
    fn emit(&mut self, state: &mut SessionState, now: Timestamp, body: Body) {
        let event = v1::Event { seq: state.seq + 1, at_ms: now.0, body: Some(body) };
        encode(&event, &mut self.buffer);
        self.count += 1;
        let applied = state.apply(event);
        debug_assert!(applied.is_ok(), "{applied:?}");
    }

    fn decision(self, last_seq: u64) -> SessionDecision {
        SessionDecision {
            first_seq: last_seq + 1 - u64::from(self.count),
            count: self.count,
            events: self.buffer.freeze(),
        }
    }
}
