//! A session as its stream tells it, and what the asks of it owe to it (CONTRACTS §2, "Transitions").

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use capataz_contracts::free;
use capataz_contracts::v1::{self, event::Body};
use capataz_store::RunId;
use serde_json::{Map, Value};

use super::ask::object;
use super::log::RunModel;
use super::session_work::WorkModel;
use crate::invariant::{Invariant, Violation};

/// Messages that a session keeps.
const HISTORY: usize = 20;
/// Milliseconds for which a transition is remembered.
const WINDOW: i64 = 60_000;

/// A session, followed event by event.
#[derive(Clone, Debug, Default)]
pub struct SessionModel {
    pub name: String,
    pub events: Vec<Bytes>,
    /// Events of its newest append.
    pub newest: Bytes,
    /// The ask whose turn it is.
    pub active: Option<RunId>,
    pub last_at: i64,
    context: v1::SessionContext,
    /// Suggestions by the ids of their asks: from and to.
    open: BTreeMap<String, (String, String)>,
    /// Accepted ones, with the number of their event.
    pub accepted: BTreeMap<String, u64>,
    turns: BTreeSet<RunId>,
    pub work: WorkModel,
    /// Modes that were chosen, by the numbers of the events.
    chosen: BTreeMap<u64, i32>,
    /// What a person has had forgotten, and when.
    pub forgotten: BTreeMap<String, u64>,
}

impl SessionModel {
    pub fn begin(stream: RunId, event: v1::Event, bytes: Bytes) -> Result<Self, Violation> {
        let Some(Body::SessionOpened(opened)) = event.body else {
            return Invariant::GaplessSeq.broken(format!("stream {stream} begins with {:?}", event.body));
        };
        Ok(Self { name: opened.session, events: vec![bytes], last_at: event.at_ms, ..Self::default() })
    }

    #[must_use]
    pub fn seq(&self) -> u64 {
        self.events.len() as u64
    }

    /// Whether a suggestion of this ask can be accepted, or was.
    #[must_use]
    pub fn suggests(&self, request_id: &str) -> bool {
        self.open.contains_key(request_id) || self.accepted.contains_key(request_id)
    }

    /// Whether the session says of its run all that it owes to it.
    #[must_use]
    pub fn knows(&self, run: &RunModel) -> bool {
        match run.ask() {
            Some(_) => self.turns.contains(&run.run),
            // An execution leaves nothing in its session but what it remembers.
            None => run.is_mode() || self.work.follows(run),
        }
    }

    /// The mode of its runs that name none.
    #[must_use]
    pub fn mode(&self) -> v1::ExecutionMode {
        let newest = self.chosen.last_key_value();
        newest.and_then(|(_, mode)| v1::ExecutionMode::try_from(*mode).ok()).unwrap_or_default()
    }

    /// Whether after this event the mode was this one, and the other one before it was chosen.
    #[must_use]
    pub fn has_chosen(&self, seq: u64, mode: i32, before: i32) -> bool {
        let mut until = self.chosen.range(..=seq);
        let newest = until.next_back();
        let earlier = until.next_back().map_or(0, |(_, mode)| *mode);
        newest.is_some_and(|(_, chosen)| *chosen == mode) && (before == mode || before == earlier)
    }

    pub fn suggestions(&self) -> impl Iterator<Item = &String> {
        self.open.keys()
    }

    fn at(&self, what: impl std::fmt::Display) -> String {
        format!("session {} event {}: {what}", self.name, self.seq())
    }

    pub fn observe(
        &mut self,
        event: v1::Event,
        bytes: Bytes,
        runs: &BTreeMap<RunId, RunModel>,
        tick: u64,
    ) -> Result<(), Violation> {
        self.events.push(bytes);
        Invariant::GaplessSeq.check(event.seq == self.seq() && event.at_ms >= self.last_at, || {
            self.at(format!("numbered {}, or its time goes backwards", event.seq))
        })?;
        self.last_at = event.at_ms;
        match event.body {
            Some(Body::SessionTurn(turn)) => self.turn(turn, runs),
            Some(Body::SessionTransitionAccepted(accepted)) => self.accept(accepted),
            Some(Body::SessionStateWritten(written)) => self.written(&written, runs),
            Some(Body::SessionModeChosen(chosen)) => {
                let another = self.mode() != chosen.mode();
                self.chosen.insert(self.seq(), chosen.mode);
                self.context.chosen_mode = chosen.mode;
                Invariant::SessionTurns.check(another, || self.at(format!("{chosen:?} again")))
            }
            Some(Body::SessionMemoryForgotten(forgotten)) => {
                for entry in forgotten.entry_ids {
                    self.forgotten.entry(entry).or_insert(tick);
                }
                Ok(())
            }
            body => Invariant::SessionTurns.broken(self.at(format!("{body:?} in a session"))),
        }
    }

    fn written(
        &mut self,
        written: &v1::SessionStateWritten,
        runs: &BTreeMap<RunId, RunModel>,
    ) -> Result<(), Violation> {
        let run = written.run_id.parse::<RunId>().ok().and_then(|run| runs.get(&run));
        let run = run.filter(|run| run.session() == Some(&self.name));
        // The plan that opens the session has begun before it is there.
        if let Some(run) = run.filter(|run| run.finished.is_none() && self.events.len() == 2) {
            self.active.get_or_insert(run.run);
        }
        match self.work.written(written, run, self.active) {
            Ok(()) => Ok(()),
            Err(what) => Invariant::WorkFollowsThePlan
                .broken(self.at(format!("{what}: {written:?}, before it {:?}", self.work))),
        }
    }

    fn turn(&mut self, turn: v1::SessionTurn, runs: &BTreeMap<RunId, RunModel>) -> Result<(), Violation> {
        let run = turn.run_id.parse::<RunId>().ok();
        let Some(run) = run.and_then(|run| runs.get(&run)) else {
            return Invariant::SessionTurns
                .broken(self.at(format!("a turn of {:?}, which never was", turn.run_id)));
        };
        let once = self.turns.insert(run.run);
        let text = self.at(format!("{turn:?}"));
        let Some(ask) = run.ask().filter(|ask| ask.ask.session.as_deref() == Some(&self.name)) else {
            return Invariant::SessionTurns.broken(text);
        };
        let ended = run.finished.is_some_and(|outcome| outcome != v1::RunOutcome::Cancelled as i32);
        let of_turn = self.active.is_none() && ended && once;
        Invariant::SessionTurns.check(of_turn, || text.clone())?;
        let user = turn.messages.first().is_some_and(|message| {
            message.role == v1::MessageRole::User as i32 && message.text == ask.ask.text
        });
        let answer = ask.answer_text();
        let assistant = match turn.messages.get(1) {
            Some(message) => {
                answer.as_ref() == Some(&message.text) && message.spec.as_deref() == ask.last_spec()
            }
            None => answer.is_none(),
        };
        let succeeded = run.finished == Some(v1::RunOutcome::Succeeded as i32);
        let moved = turn.current_spec.as_deref() == ask.moves_to().filter(|_| succeeded);
        let update = ask.context_update();
        let said = user
            && assistant
            && turn.messages.len() <= 2
            && turn.suggestion.as_ref() == ask.suggestion()
            && turn.transitions == ask.taken
            && Some(&turn.request_id) == ask.ask.request_id.as_ref()
            && object(&turn.preferences, turn.preferences_json.as_ref()) == update.preferences
            && turn.emotional_state.as_deref() == update.user.get("emotional_state").and_then(Value::as_str)
            && json(&turn.custom) == update.custom
            && turn.left_out.as_ref().map_or(&[][..], |names| &names.keys) == update.left_out
            && moved;
        Invariant::SessionTurns.check(said, || format!("{text}, the ask is {ask:?}"))?;
        self.fold(turn);
        Ok(())
    }

    fn fold(&mut self, turn: v1::SessionTurn) {
        let context = &mut self.context;
        context.message_count += turn.messages.len() as u64;
        context.history.extend(turn.messages);
        let surplus = context.history.len().saturating_sub(HISTORY);
        context.history.drain(..surplus);
        context.current_spec = turn.current_spec.or(context.current_spec.take());
        context.emotional_state = turn.emotional_state.or(context.emotional_state.take());
        context.engagement_level = turn.engagement_level.or(context.engagement_level.take());
        let mut preferences = object(&context.preferences, context.preferences_json.as_ref());
        preferences.extend(object(&turn.preferences, turn.preferences_json.as_ref()));
        (context.preferences, context.preferences_json) = free::divide(preferences);
        if !turn.custom.is_empty() {
            let mut custom = json(&context.custom);
            custom.extend(json(&turn.custom));
            context.custom = Value::Object(custom).to_string().into();
        }
        context.transitions.extend(turn.transitions);
        if let Some(suggestion) = turn.suggestion {
            self.open.insert(turn.request_id, (suggestion.from, suggestion.to));
        }
    }

    fn accept(&mut self, accepted: v1::SessionTransitionAccepted) -> Result<(), Violation> {
        let open = self.open.remove(&accepted.request_id);
        let same = open == Some((accepted.from.clone(), accepted.to.clone()));
        Invariant::SessionTurns.check(same, || self.at(format!("{accepted:?}, open was {open:?}")))?;
        self.accepted.insert(accepted.request_id, self.seq());
        self.context.current_spec = Some(accepted.to.clone());
        self.context.transitions.push(v1::SessionTransition {
            from: accepted.from,
            to: accepted.to,
            at_ms: self.last_at,
            automatic: false,
        });
        Ok(())
    }

    /// An ask begins with what the stream folds to.
    pub fn check_context(&self, given: &v1::SessionContext, at: i64) -> bool {
        let mut expected = v1::SessionContext { transitions: Vec::new(), ..self.context.clone() };
        let mut found = v1::SessionContext { transitions: Vec::new(), ..given.clone() };
        let custom = json(&std::mem::take(&mut expected.custom)) == json(&std::mem::take(&mut found.custom));
        // A clock that was set back may still see some that are older.
        let recent =
            self.context.transitions.iter().filter(|taken| at.max(self.last_at) - taken.at_ms < WINDOW);
        let all_recent = recent.clone().all(|taken| given.transitions.contains(taken));
        let no_other = given.transitions.iter().all(|taken| self.context.transitions.contains(taken));
        custom && expected == found && all_recent && no_other
    }
}

fn json(bytes: &[u8]) -> Map<String, Value> {
    serde_json::from_slice(bytes).unwrap_or_default()
}
