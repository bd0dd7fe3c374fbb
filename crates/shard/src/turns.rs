//! Asks in their sessions: whose turn it is, which spec an ask goes to, what it leaves behind.

use std::collections::BTreeMap;
use std::sync::Arc;

use capataz_contracts::v1;
use capataz_engine::planted::{self, Fault};
use capataz_engine::session::SessionState;
use capataz_engine::{self as engine, Query, QueryAnswer, QueryId};
use capataz_store::{Append, Create, Millis, Position, RunId};

use crate::api::Declined;
use crate::blob_hash;
use crate::outbox::{AppendId, Deferred, SessionAppend};
use crate::projection;
use crate::sessions::{
    Commanded, Load, MostAsked, RETRY_AFTER_MS, SESSION_LABEL, SessionCommand, session_stream,
};
use crate::shard::{Mode, Origin, Output, ReplyId, Shard};
use crate::topics::Facts;
use crate::touched::Kept;

/// What a caller is asked to wait whose session is told of something in the same turn. Milliseconds.
const SOON_MS: i64 = 10;

/// Finds the spec for an ask, out of those that the daemon knows. Pure: the same question has the same answer.
pub trait Route: Send + Sync {
    /// `spec` is the one that is asked for; without it the router chooses.
    fn route(&self, ask: &v1::Ask, context: &v1::SessionContext, spec: Option<&str>) -> Chosen;
}

/// What a router chose.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    /// The spec and the agent that serves it, or why there is none.
    pub target: Result<(Box<v1::Routing>, String), v1::Error>,
    pub default_spec: Option<String>,
}

/// The answer to a query for a spec.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The spec that was asked for by name; empty where the router was to choose.
    pub spec: String,
    /// The spec and the agent that serves it, or why there is none.
    pub target: Result<(Box<v1::Routing>, String), v1::Error>,
    /// The session's spec is gone, and the router chose another one.
    pub rerouted: bool,
    pub default_spec: Option<String>,
}

impl Shard {
    /// Whether one more run may wait for its turn. Its parent waits for a child, which therefore counts no bytes of others: they
    /// may wait for that same parent.
    pub(crate) fn session_is_full(&self, session: Option<&str>, is_child: bool) -> Option<Declined> {
        let stream = session_stream(session?);
        // What finds nobody at work has its turn at once, whatever waits elsewhere.
        let has_no_room = !is_child
            && self.sessions.is_at_work(stream)
            && self.sessions.waiting_bytes() >= self.config.max_waiting_bytes;
        let full = self.sessions.waiting(stream) >= self.config.max_waiting_per_session || has_no_room;
        full.then_some(Declined::Overloaded { retry_after_ms: RETRY_AFTER_MS })
    }

    /// The ask waits for its turn in its session, if it has one.
    pub(crate) fn join_session(&mut self, run: RunId) {
        let Some(slot) = self.runs.get(run) else { return };
        let Some(session) = slot.state.awaited_session() else { return };
        let stream = session_stream(session);
        self.sessions.join(stream, run, slot.state.bytes());
        self.load_sessions();
        self.next_turn(stream);
    }

    pub(crate) fn load_sessions(&mut self) {
        for Load { stream, number } in self.sessions.take_wanted() {
            self.out(Output::LoadSession { stream, load: number });
        }
    }

    /// The shell has read a session; `None` where there is none.
    pub(crate) fn session_loaded(&mut self, load: Load, state: Option<Box<SessionState>>) {
        let stream = load.stream;
        let Some(commands) = self.sessions.loaded(load, state) else { return };
        for (reply, command) in commands {
            self.carry_out_in_session(reply, stream, command);
        }
        self.next_turn(stream);
    }

    /// Lets the next ask of the session begin, where none is at work. While the daemon drains it waits for the next one.
    pub(crate) fn next_turn(&mut self, stream: RunId) {
        if self.draining {
            return;
        }
        let runs = &self.runs;
        let awaits = |run| runs.get(run).is_some_and(|slot| slot.state.awaited_session().is_some());
        match self.sessions.next_turn(stream, self.wall(), awaits) {
            Some((run, context)) => self.input(run, engine::Input::SessionTurn { context }, Origin::Shard),
            None => self.sessions.rest(stream, self.outbox.oldest(), self.config.idle_sessions),
        }
    }

    /// The ask is over, or never was: the next one has its turn.
    pub(crate) fn leave_session(&mut self, run: RunId, session: &str) {
        let stream = session_stream(session);
        self.sessions.leave(stream, run);
        self.next_turn(stream);
    }

    /// What the run adds to its session, with what it has just decided.
    pub(crate) fn record_in_session(&mut self, run: RunId) {
        let Some(slot) = self.runs.get(run) else { return };
        let Some(name) = slot.state.session() else { return };
        let stream = session_stream(name);
        if let Some(decision) = self.sessions.record(stream, run, &slot.state) {
            self.outbox.batch(run).add_to_session(stream, decision);
        }
    }

    /// A caller asks something of a session.
    pub(crate) fn session_command(&mut self, reply: ReplyId, stream: RunId, command: SessionCommand) {
        // What a run has decided in this turn goes first: it is on its way at the end of the turn.
        if self.outbox.has_decided_session(stream) {
            let declined = Declined::Overloaded { retry_after_ms: SOON_MS };
            return self.reply(reply, command.declined(declined));
        }
        let most =
            MostAsked { commands: self.config.max_waiting_per_session, bytes: self.config.max_waiting_bytes };
        let commanded = self.sessions.command(stream, reply, command, self.wall(), most);
        self.load_sessions();
        self.commanded(reply, stream, commanded);
        self.next_turn(stream);
    }

    /// Carries out what was asked of a session before it was read.
    pub(crate) fn carry_out_in_session(&mut self, reply: ReplyId, stream: RunId, command: SessionCommand) {
        let commanded = self.sessions.carry_out(stream, command, self.wall());
        self.commanded(reply, stream, commanded);
    }

    fn commanded(&mut self, reply: ReplyId, stream: RunId, commanded: Commanded) {
        match commanded {
            Commanded::Waits => {}
            Commanded::Refused(answer) => self.reply(reply, answer),
            Commanded::With { run, answer } => {
                self.outbox.batch(run).deferred.push(Deferred::Reply(reply, answer));
            }
            Commanded::Done { answer, decision, last_append } => {
                let answer = Deferred::Reply(reply, answer);
                match decision {
                    Some(decision) => self.append_session(SessionAppend { stream, decision }, vec![answer]),
                    None => self.after_append(stream, last_append, vec![answer]),
                }
            }
        }
    }

    /// What readers may ask for of a run, or of the stream of a session.
    pub(crate) fn facts_of(&mut self, stream: RunId) -> Option<Arc<Facts>> {
        if let Some(slot) = self.runs.get_mut(stream) {
            return Some(slot.facts());
        }
        let session = self.sessions.state(stream)?;
        let labels = BTreeMap::from([(SESSION_LABEL.to_owned(), session.name().to_owned())]);
        Some(Arc::new(Facts { kind: v1::RunKind::Session as i32, labels }))
    }

    /// Sends a session's events on their way.
    pub(crate) fn append_session(&mut self, session: SessionAppend, deferred: Vec<Deferred>) {
        let SessionAppend { stream, decision } = session;
        let Some(state) = self.sessions.state(stream) else { return };
        let now = Millis(state.updated_at_ms());
        let create = (decision.first_seq == 1).then(|| Create {
            kind: v1::RunKind::Session as i32,
            name: state.name().to_owned(),
            labels: BTreeMap::from([(SESSION_LABEL.to_owned(), state.name().to_owned())]),
            created_at: now,
            key: None,
            past: None,
        });
        let summary = projection::listed_session(state);
        let memory = match decision.forgets {
            true => projection::memory_of_append(stream, &decision.events),
            false => Vec::new(),
        };
        let append = Append {
            run: stream,
            first_seq: decision.first_seq,
            count: decision.count,
            events: decision.events,
            create,
            summary: Some(summary),
            derived: Vec::new(),
            memory,
            blobs: Vec::new(),
            rest: None,
            joined: false,
            key: None,
        };
        let id = self.send_append(append, deferred, None);
        self.sessions.appended(stream, id);
        if planted::is(Fault::SessionSnapshotAheadOfTheLog) {
            self.snapshot_session(stream, id);
        }
    }

    /// What was decided for the session will never be stored, for its ask is refused: the session is read again, once
    /// nothing of it is in flight any more.
    pub(crate) fn reread_session(&mut self, stream: RunId) {
        self.sessions.doubt(stream);
        self.reread_when_settled(stream);
    }

    pub(crate) fn reread_when_settled(&mut self, stream: RunId) {
        if self.sessions.is_in_doubt(stream) && !self.outbox.is_in_flight(stream) {
            self.sessions.settled(stream);
            self.load_sessions();
        }
    }

    /// Caches a long session's state.
    pub(crate) fn snapshot_session(&mut self, stream: RunId, committed: AppendId) {
        // What this turn has decided for the session is part of its state, and not of the log yet.
        if self.outbox.has_decided_session(stream) {
            return;
        }
        let every = self.config.session_snapshot_every;
        if let Some(snapshot) = self.sessions.snapshot_due(stream, committed, every) {
            self.out(Output::PutSnapshot { run: stream, snapshot });
        }
    }

    /// Takes the sessions up that unfinished asks belong to.
    pub(crate) fn recover_sessions(&mut self, sessions: Vec<(RunId, Option<SessionState>)>) {
        for (stream, state) in sessions {
            self.sessions.recover(stream, state);
        }
        for (run, slot) in self.runs.iter() {
            let Some(stream) = slot.state.session().map(session_stream) else { continue };
            if !self.sessions.contains(stream) {
                continue;
            }
            match slot.state.awaited_session() {
                Some(_) => self.sessions.join(stream, run, slot.state.bytes()),
                None => self.sessions.resume(stream, run),
            }
        }
        for stream in self.sessions.streams() {
            self.order_session(stream);
            self.next_turn(stream);
        }
    }

    /// Asks that were read have their old places among those that wait: the order in which they were accepted.
    pub(crate) fn order_session(&mut self, stream: RunId) {
        let runs = &self.runs;
        self.sessions.order(stream, |run| runs.get(run).map_or(Position(0), |slot| slot.accepted));
    }

    /// The answer to a query of a run. Whether it still is what the run wants to know, the engine says.
    pub(crate) fn answered(&mut self, run: RunId, query: QueryId, answer: QueryAnswer) {
        if let QueryAnswer::Judged(verdict) = answer {
            return self.judged(run, query, verdict);
        }
        match self.mode {
            Mode::Running => {
                let blobs = answer.payloads().into_iter().filter_map(|payload| match &payload.data {
                    Some(v1::payload::Data::Blob(blob)) => blob_hash(blob),
                    _ => None,
                });
                let blobs: Vec<_> = blobs.collect();
                if self.runs.contains(run) {
                    self.outbox.batch(run).blobs.extend(blobs);
                }
                self.input(run, engine::Input::Answered { query, answer }, Origin::Shard);
            }
            Mode::Recovering => self.keep(Kept::Answered { run, query, answer: Box::new(answer) }),
            Mode::Fenced => {}
        }
    }

    /// What the run wants to know, with what the router has to be told; `None` where it wants to know nothing.
    #[must_use]
    pub fn asks_for(&self, run: RunId) -> Option<(&v1::Ask, &v1::SessionContext)> {
        self.runs.get(run)?.state.ask_query()
    }
}

/// Answers a query for a spec out of what is known of specs; `None` where something else is asked. Pure: shell, simulator
/// and tests use it alike.
#[must_use]
pub fn find(router: &dyn Route, ask: &v1::Ask, context: &v1::SessionContext, asked: Query) -> Option<Found> {
    let Query::Route { spec, reason } = asked else { return None };
    let chosen = router.route(ask, context, spec.as_deref());
    // The spec that the session was with is gone.
    let rerouted = chosen.target.is_err() && reason == v1::CallReason::Continued;
    let chosen = if rerouted { router.route(ask, context, None) } else { chosen };
    let spec = if rerouted { String::new() } else { spec.unwrap_or_default() };
    Some(Found { spec, target: chosen.target, rerouted, default_spec: chosen.default_spec })
}

#[cfg(test)]
mod tests {
    use capataz_store::ShardId;
    use capataz_store::builders::continuation;

    use super::*;
    use crate::shard::Config;

    #[test]
    fn a_session_in_doubt_is_read_again_once_nothing_of_it_is_in_flight() {
        let shard = ShardId(0);
        let mut shard = Shard::new(Config::default(), shard, vec![shard]);
        let stream = session_stream("shop");
        shard.sessions.join(stream, RunId::MIN, 1);
        shard.outbox.send(&continuation(stream, 2), None, Vec::new(), None);
        shard.reread_session(stream);
        assert!(shard.sessions.is_in_doubt(stream), "what is in flight may still be stored");
        assert!(shard.outbox.settle().is_some());
        shard.reread_when_settled(stream);
        assert!(!shard.sessions.is_in_doubt(stream));
    }
}
