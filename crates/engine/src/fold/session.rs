//! The fold of a session: the conversation that asks share (seed 001; DESIGN, "Event sourcing").

use std::collections::VecDeque;

use capataz_contracts::free;
use capataz_contracts::v1::{self, event::Body};
use serde_json::{Map, Value};

use super::state::{CorruptLog, Wall};
use super::{bytes, upcast};
use crate::snapshot::{SnapshotError, as_bytes, number};

/// Messages that a session keeps (seed 001).
pub const HISTORY: usize = 20;
/// Suggestions that can still be accepted.
const SUGGESTIONS: usize = 20;
/// Transitions that a session keeps; which of them still count is decided when an ask begins.
const TRANSITIONS: usize = 128;

/// A session: the fold of its events.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct SessionState {
    pub(crate) name: String,
    pub(crate) seq: u64,
    pub(crate) created_at: Wall,
    pub(crate) last_at: Wall,
    pub(crate) current_spec: Option<String>,
    pub(crate) message_count: u64,
    #[serde(with = "as_bytes::list")]
    pub(crate) history: Vec<v1::SessionMessage>,
    pub(crate) emotional_state: Option<String>,
    pub(crate) engagement_level: Option<String>,
    /// A JSON object; no bytes if it is empty.
    pub(crate) preferences: Vec<u8>,
    /// A JSON object; no bytes if it is empty.
    pub(crate) custom: Vec<u8>,
    /// Newest last.
    #[serde(with = "as_bytes::list")]
    pub(crate) transitions: Vec<v1::SessionTransition>,
    /// Newest last.
    #[serde(with = "as_bytes::list")]
    pub(crate) suggestions: Vec<v1::SessionSuggestion>,
    /// Accepted suggestions by the id of their ask: from, to, and the event's number.
    pub(crate) accepted: VecDeque<(String, String, String, u64)>,
    /// The state of the session's work, a JSON object; no bytes where it has had none.
    pub(crate) work: Vec<u8>,
    /// What that was before it was written last.
    pub(crate) backup: Vec<u8>,
    /// Where the plan at work stands, of the state of work.
    pub(crate) flow: Option<Flow>,
    /// The mode of runs that name none; unspecified where the user has chosen none.
    #[serde(with = "number")]
    pub(crate) chosen_mode: v1::ExecutionMode,
}

/// Where the plan that is at work in a session stands, as the state of work says it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Flow {
    pub(crate) run_id: String,
    pub(crate) phase: String,
    pub(crate) blocked_on: Option<String>,
}

impl SessionState {
    fn open(name: String, at: Wall) -> Self {
        Self {
            name,
            seq: 1,
            created_at: at,
            last_at: at,
            current_spec: None,
            message_count: 0,
            history: Vec::new(),
            emotional_state: None,
            engagement_level: None,
            preferences: Vec::new(),
            custom: Vec::new(),
            transitions: Vec::new(),
            suggestions: Vec::new(),
            accepted: VecDeque::new(),
            work: Vec::new(),
            backup: Vec::new(),
            flow: None,
            chosen_mode: v1::ExecutionMode::Unspecified,
        }
    }

    /// The bytes that the state holds, about as many as its snapshot has.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let texts = [Some(&self.name), self.current_spec.as_ref(), self.emotional_state.as_ref()];
        let texts = texts.into_iter().chain([self.engagement_level.as_ref()]).flatten();
        let free = [&self.preferences, &self.custom, &self.work, &self.backup];
        let accepted = self
            .accepted
            .iter()
            .map(|(id, from, to, _)| bytes::text(id) + bytes::text(from) + bytes::text(to));
        let parts = [
            bytes::ENTRY,
            texts.map(|text| bytes::text(text)).sum(),
            free.iter().map(|free| bytes::length(free.len())).sum(),
            bytes::messages(&self.history),
            bytes::messages(&self.transitions),
            bytes::messages(&self.suggestions),
            accepted.sum(),
        ];
        parts.iter().sum()
    }

    /// Folds a session's whole log.
    ///
    /// # Errors
    /// The events are not those of a session.
    pub fn fold(events: impl IntoIterator<Item = v1::Event>) -> Result<Self, CorruptLog> {
        let mut state: Option<Self> = None;
        for event in events {
            match &mut state {
                Some(state) => state.apply(event)?,
                None => state = Some(Self::begin(event)?),
            }
        }
        state.ok_or(CorruptLog { seq: 0, detail: "the log is empty" })
    }

    /// The session that its first event opens.
    pub(crate) fn begin(first: v1::Event) -> Result<Self, CorruptLog> {
        let seq = first.seq;
        match first.body {
            Some(Body::SessionOpened(opened)) if seq == 1 => {
                Ok(Self::open(opened.session, Wall(first.at_ms)))
            }
            _ => Err(CorruptLog { seq, detail: "the first event opens no session" }),
        }
    }

    /// Folds one more event.
    ///
    /// # Errors
    /// The event does not follow the one before, or is not an event of a session.
    pub fn apply(&mut self, event: v1::Event) -> Result<(), CorruptLog> {
        let seq = event.seq;
        if self.seq.checked_add(1) != Some(seq) {
            return Err(CorruptLog { seq, detail: "the number is not the next one" });
        }
        let at = Wall(event.at_ms);
        match event.body {
            Some(Body::SessionTurn(mut turn)) => {
                upcast::session_turn(event.format, &mut turn, &self.custom);
                self.turn(turn, at);
                upcast::preferences(event.format, &mut self.preferences);
            }
            Some(Body::SessionTransitionAccepted(accepted)) => self.accepted(accepted, at, seq),
            Some(Body::SessionStateWritten(written)) => self.written(&written),
            Some(Body::SessionModeChosen(chosen)) => self.chosen_mode = chosen.mode(),
            // What is recalled, the store knows.
            Some(Body::SessionMemoryForgotten(_)) => {}
            _ => return Err(CorruptLog { seq, detail: "it is not an event of a session" }),
        }
        self.seq = seq;
        self.last_at = self.last_at.max(at);
        Ok(())
    }

    fn turn(&mut self, turn: v1::SessionTurn, at: Wall) {
        self.message_count = self.message_count.saturating_add(turn.messages.len() as u64);
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
        merge(&mut self.preferences, free::entries(&turn.preferences, turn.preferences_json.as_deref()));
        merge(&mut self.custom, object(&turn.custom));
        for taken in turn.transitions {
            self.remember(taken);
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

    /// The state of work is told anew. What it was before is the backup, where it was another one.
    fn written(&mut self, written: &v1::SessionStateWritten) {
        let mut work = match written.cause() {
            v1::SessionStateCause::Imported => Map::new(),
            _ => object(&self.work),
        };
        work.extend(object(written.fields.as_bytes()));
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        self.flow = work.get("current_flow").and_then(Value::as_object).and_then(|flow| {
            let (run_id, phase) = (text(flow.get("run_id"))?, text(flow.get("phase"))?);
            Some(Flow { run_id, phase, blocked_on: text(work.get("blocked_on")) })
        });
        let work = Value::Object(work).to_string().into_bytes();
        if self.work != work {
            self.backup = std::mem::replace(&mut self.work, work);
        }
    }

    fn remember(&mut self, taken: v1::SessionTransition) {
        self.transitions.push(taken);
        let surplus = self.transitions.len().saturating_sub(TRANSITIONS);
        self.transitions.drain(..surplus);
    }

    fn accepted(&mut self, accepted: v1::SessionTransitionAccepted, at: Wall, seq: u64) {
        self.suggestions.retain(|open| open.request_id != accepted.request_id);
        self.current_spec = Some(accepted.to.clone());
        let taken = v1::SessionTransition {
            from: accepted.from.clone(),
            to: accepted.to.clone(),
            at_ms: at.0,
            automatic: false,
        };
        self.remember(taken);
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
    /// The bytes are not a snapshot of this format.
    pub fn from_snapshot(bytes: &[u8]) -> Result<Self, SnapshotError> {
        Ok(postcard::from_bytes(bytes)?)
    }
}

/// Puts these entries into a JSON object, in place of those that have the same keys.
fn merge(kept: &mut Vec<u8>, news: Map<String, Value>) {
    if news.is_empty() {
        return;
    }
    let mut all = object(kept);
    all.extend(news);
    *kept = Value::Object(all).to_string().into_bytes();
}

/// The JSON object of these bytes; an empty one where they are none.
pub(crate) fn object(bytes: &[u8]) -> Map<String, Value> {
    serde_json::from_slice(bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fold::EVENT_FORMAT;

    fn turn(seq: u64) -> v1::Event {
        let turn = v1::SessionTurn { messages: vec![v1::SessionMessage::default()], ..Default::default() };
        v1::Event { seq, format: EVENT_FORMAT, body: Some(Body::SessionTurn(turn)), ..Default::default() }
    }

    #[test]
    fn numbers_that_are_at_their_end_are_no_reason_to_panic() {
        let mut state = SessionState { seq: u64::MAX, ..SessionState::open("s".to_owned(), Wall(1)) };
        assert!(state.apply(turn(0)).is_err(), "no number follows the last one");
        assert!(state.apply(turn(u64::MAX)).is_err());
        let mut state =
            SessionState { message_count: u64::MAX, ..SessionState::open("s".to_owned(), Wall(1)) };
        assert_eq!(state.apply(turn(2)), Ok(()));
        assert_eq!(state.message_count, u64::MAX);
    }

    #[test]
    fn a_session_begins_with_the_first_event_of_its_log() {
        let opened = |seq| {
            let body = Body::SessionOpened(v1::SessionOpened { session: "s".to_owned() });
            v1::Event { seq, at_ms: 5, format: EVENT_FORMAT, body: Some(body), ..Default::default() }
        };
        assert_eq!(SessionState::fold([opened(1)]), Ok(SessionState::open("s".to_owned(), Wall(5))));
        let detail = "the first event opens no session";
        assert_eq!(SessionState::fold([opened(2)]), Err(CorruptLog { seq: 2, detail }));
    }

    #[test]
    fn a_session_is_as_new_as_its_newest_event_and_never_older_than_it_was() {
        let mut state = SessionState::open("s".to_owned(), Wall(5));
        assert_eq!(state.updated_at_ms(), 5);
        for (seq, at_ms, updated_at_ms) in [(2, 7, 7), (3, 6, 7)] {
            assert_eq!(state.apply(v1::Event { at_ms, ..turn(seq) }), Ok(()));
            assert_eq!(state.updated_at_ms(), updated_at_ms);
        }
    }

    #[test]
    fn the_last_20_accepted_suggestions_are_known_again() {
        let mut state = SessionState::open("s".to_owned(), Wall(1));
        for number in 1..=21 {
            let accepted = v1::SessionTransitionAccepted {
                request_id: format!("r{number}"),
                from: "wave".to_owned(),
                to: "kiro".to_owned(),
            };
            let body = Some(Body::SessionTransitionAccepted(accepted));
            assert_eq!(state.apply(v1::Event { body, ..turn(number + 1) }), Ok(()));
        }
        assert!(state.accept("r1", Wall(2)).is_err());
        assert!(matches!(state.accept("r2", Wall(2)), Ok((_, None))));
    }

    #[test]
    fn a_session_weighs_what_was_accepted_in_it() {
        let mut state = SessionState::open("s".to_owned(), Wall(1));
        assert_eq!(state.bytes(), 16 + (1 + 16));
        state.accepted.push_back(("r1".to_owned(), "wave".to_owned(), "kiro".to_owned(), 2));
        assert_eq!(state.bytes(), 16 + (1 + 16) + (2 + 16) + (4 + 16) + (4 + 16));
    }
}
