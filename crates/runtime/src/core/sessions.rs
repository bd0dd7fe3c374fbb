//! Sessions: whose turn it is, what an ask finds, what it leaves behind, and which spec it goes to.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

use capataz_contracts::v1;
use capataz_contracts::version::{ContractVersion, negotiate};
use capataz_engine::planted::{self, Fault};
use capataz_engine::session::{self, SessionDecision, SessionState};
use capataz_engine::{self as engine, Query, QueryAnswer, QueryId, Routed, RoutedSpec};
use capataz_policy::codes;
use capataz_store::{Append, BlobHash, Create, Millis, RunId, Snapshot, Summary};

use super::commits::Deferred;
use super::{Answer, AppendId, Core, Mode, Output, ReplyId};

/// The label by which the runs and the stream of a session are found.
pub const SESSION_LABEL: &str = "capataz.session";

/// What a full session asks its callers to wait. Milliseconds.
const RETRY_AFTER_MS: i64 = 1_000;

/// Version of the encoding of a session's snapshot.
pub const SESSION_SNAPSHOT_FORMAT: u32 = 1;

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

/// A session in memory.
#[derive(Default)]
pub(crate) struct SessionSlot {
    state: Loaded,
    /// The ask whose turn it is.
    active: Option<RunId>,
    waiting: VecDeque<RunId>,
    /// Accepted transitions that wait for the session to be read.
    commands: Vec<(ReplyId, String)>,
    last_append: AppendId,
    snapshot_seq: u64,
    /// The number under which it was asked for last.
    load: u64,
    /// It is to be read again once nothing of it is in flight.
    reread: bool,
    /// Its place in `Core::idle_sessions`.
    idle: Option<u64>,
}

#[derive(Default)]
enum Loaded {
    /// The shell was asked for it.
    #[default]
    Loading,
    /// `None` where there is no such session yet.
    Ready(Option<Box<SessionState>>),
}

/// What an ask adds to its session, with its last event.
pub(crate) struct SessionAppend {
    pub(super) stream: RunId,
    pub(super) decision: SessionDecision,
}

/// The stream of a session's events: a name has one, on every machine.
#[must_use]
pub fn session_stream(session: &str) -> RunId {
    let hash = BlobHash::of(format!("capataz session {session}").as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(hash.0.first_chunk::<16>().unwrap_or(&[0; 16]));
    RunId(uuid::Builder::from_custom_bytes(bytes).into_uuid())
}

impl SessionSlot {
    pub(super) fn recovered(state: Option<SessionState>) -> Self {
        let snapshot_seq = state.as_ref().map_or(0, SessionState::seq);
        Self { state: Loaded::Ready(state.map(Box::new)), snapshot_seq, ..Self::default() }
    }

    /// Callers that wait for the session.
    pub(super) fn into_callers(self) -> impl Iterator<Item = ReplyId> {
        self.commands.into_iter().map(|(reply, _)| reply)
    }

    fn is_idle(&self) -> bool {
        self.active.is_none() && self.waiting.is_empty() && self.commands.is_empty()
    }
}

impl Core {
    /// Whether one more ask may wait for its turn.
    pub(super) fn session_is_full(&self, session: Option<&str>) -> Option<Answer> {
        let slot = self.sessions.get(&session_stream(session?))?;
        (slot.waiting.len() >= self.config.max_waiting_per_session)
            .then_some(Answer::Overloaded { retry_after_ms: RETRY_AFTER_MS })
    }

    /// The ask waits for its turn in its session, if it has one.
    pub(super) fn join_session(&mut self, run: RunId) {
        let Some(slot) = self.runs.get(&run) else { return };
        let Some(session) = slot.state.awaited_session() else { return };
        let stream = session_stream(session);
        self.session(stream).waiting.push_back(run);
        self.next_turn(stream);
    }

    /// Asks for the session to be read.
    fn load(&mut self, stream: RunId) {
        self.loads += 1;
        let load = self.loads;
        if let Some(slot) = self.sessions.get_mut(&stream) {
            slot.load = load;
            self.outputs.push(Output::LoadSession { stream, load });
        }
    }

    fn session(&mut self, stream: RunId) -> &mut SessionSlot {
        if let Entry::Vacant(slot) = self.sessions.entry(stream) {
            slot.insert(SessionSlot::default());
            if self.sweeps > 0 {
                self.unread_sessions.insert(stream);
            } else {
                self.load(stream);
            }
        }
        self.sessions.entry(stream).or_default()
    }

    /// The shell has read a session; `None` where there is none.
    pub(super) fn session_loaded(&mut self, stream: RunId, load: u64, state: Option<Box<SessionState>>) {
        let Some(slot) = self.sessions.get_mut(&stream) else { return };
        // What was read for an earlier question may be another session by now.
        if !matches!(slot.state, Loaded::Loading) || slot.load != load {
            return;
        }
        slot.snapshot_seq = state.as_ref().map_or(0, |state| state.seq());
        slot.state = Loaded::Ready(state);
        for (reply, request_id) in std::mem::take(&mut slot.commands) {
            self.accept(reply, stream, &request_id);
        }
        self.next_turn(stream);
    }

    /// Lets the next ask of the session begin, where none is at work.
    pub(super) fn next_turn(&mut self, stream: RunId) {
        let now = self.now;
        loop {
            let Some(slot) = self.sessions.get_mut(&stream) else { return };
            let (None, Loaded::Ready(state)) = (&slot.active, &slot.state) else { return };
            let Some(run) = slot.waiting.pop_front() else { return self.rest(stream) };
            let awaits = self.runs.get(&run).is_some_and(|slot| slot.state.awaited_session().is_some());
            if !awaits {
                continue;
            }
            let context = state.as_ref().map(|state| state.context(now)).unwrap_or_default();
            slot.active = Some(run);
            return self.input(run, engine::Input::SessionTurn { context }, None);
        }
    }

    /// The ask is over, or never was: the next one has its turn.
    pub(super) fn leave_session(&mut self, run: RunId, session: &str) {
        let stream = session_stream(session);
        let Some(slot) = self.sessions.get_mut(&stream) else { return };
        slot.waiting.retain(|waiting| *waiting != run);
        if slot.active == Some(run) {
            slot.active = None;
        }
        self.next_turn(stream);
    }

    /// Nobody asks anything of the session: it may be forgotten when others need the room.
    fn rest(&mut self, stream: RunId) {
        let Some(slot) = self.sessions.get_mut(&stream) else { return };
        // It was used just now: whatever place it had among those to forget is no longer its own.
        if let Some(place) = slot.idle.take() {
            self.idle_sessions.remove(&place);
        }
        let place = self.idle_sessions.last_key_value().map_or(0, |(last, _)| last + 1);
        slot.idle = Some(place);
        self.idle_sessions.insert(place, stream);
        while self.idle_sessions.len() > self.config.max_idle_sessions {
            let Some((_, oldest)) = self.idle_sessions.pop_first() else { return };
            let in_flight = self.pending.front().map_or(self.next_append, |pending| pending.id);
            let Entry::Occupied(mut slot) = self.sessions.entry(oldest) else {
                continue;
            };
            slot.get_mut().idle = None;
            if slot.get().is_idle() && slot.get().last_append < in_flight {
                slot.remove();
            }
        }
    }

    /// What the ask that has just ended adds to its session.
    pub(super) fn record_in_session(&mut self, run: RunId) {
        let Some(slot) = self.runs.get(&run) else { return };
        let Some(name) = slot.state.session() else { return };
        let stream = session_stream(name);
        let Some(SessionSlot { state: Loaded::Ready(state), active, .. }) = self.sessions.get_mut(&stream)
        else {
            return;
        };
        if *active != Some(run) {
            return;
        }
        if let Some(decision) = session::record(state, &slot.state, &run.to_string()) {
            self.batch(run).session = Some(SessionAppend { stream, decision });
        }
    }

    /// The user accepts a suggested transition.
    pub(super) fn accept_transition(&mut self, reply: ReplyId, session: &str, request_id: String) {
        let stream = session_stream(session);
        let most = self.config.max_waiting_per_session;
        let slot = self.session(stream);
        if matches!(slot.state, Loaded::Loading) {
            if slot.commands.len() >= most {
                return self.reply(reply, Answer::Overloaded { retry_after_ms: RETRY_AFTER_MS });
            }
            slot.commands.push((reply, request_id));
            return;
        }
        self.accept(reply, stream, &request_id);
        self.next_turn(stream);
    }

    fn accept(&mut self, reply: ReplyId, stream: RunId, request_id: &str) {
        let now = self.now;
        let Some(slot) = self.sessions.get_mut(&stream) else { return };
        let Loaded::Ready(Some(state)) = &mut slot.state else {
            return self.reply(reply, Answer::SessionNotFound);
        };
        match state.accept(request_id, now) {
            Err(_) => self.reply(reply, Answer::TransitionNotFound),
            Ok((accepted, decision)) => {
                let last = slot.last_append;
                let answer = Deferred::Reply(reply, Answer::Accepted(accepted));
                match decision {
                    Some(decision) => self.append_session(SessionAppend { stream, decision }, vec![answer]),
                    None => self.after_append(stream, last, vec![answer]),
                }
            }
        }
    }

    /// Sends a session's events on their way.
    pub(super) fn append_session(&mut self, session: SessionAppend, deferred: Vec<Deferred>) {
        let SessionAppend { stream, decision } = session;
        let id = self.next_append;
        let Some(slot) = self.sessions.get_mut(&stream) else { return };
        let Loaded::Ready(Some(state)) = &slot.state else { return };
        let now = Millis(state.updated_at_ms());
        self.next_append = AppendId(id.0 + 1);
        slot.last_append = id;
        let create = (decision.first_seq == 1).then(|| Create {
            kind: v1::RunKind::Session as i32,
            name: state.name().to_owned(),
            labels: BTreeMap::from([(SESSION_LABEL.to_owned(), state.name().to_owned())]),
            created_at: now,
            key: None,
        });
        // A session is never unfinished: nothing of it has to be taken up after a restart, and retention counts from
        // its last event.
        let summary = Summary {
            status: v1::RunStatus::Finished as i32,
            updated_at: now,
            finished_at: Some(now),
            ..Summary::default()
        };
        let append = Append {
            run: stream,
            first_seq: decision.first_seq,
            count: decision.count,
            events: decision.events,
            create,
            summary: Some(summary),
            blobs: Vec::new(),
            joined: false,
        };
        self.in_flight(id, append, deferred, None);
        if planted::is(Fault::SessionSnapshotAheadOfTheLog) {
            self.snapshot_session(stream, id);
        }
    }

    /// Whether the session's state is known.
    pub(super) fn is_loaded(&self, stream: RunId) -> bool {
        self.sessions.get(&stream).is_some_and(|slot| matches!(slot.state, Loaded::Ready(_)))
    }

    /// What was decided for the session will never be stored, for its ask is refused: the session is read again, once
    /// nothing of it is in flight any more.
    pub(super) fn reread_session(&mut self, stream: RunId) {
        let Some(slot) = self.sessions.get_mut(&stream) else { return };
        slot.state = Loaded::Loading;
        slot.load = 0;
        slot.reread = true;
        self.reread_when_settled(stream);
    }

    pub(super) fn reread_when_settled(&mut self, stream: RunId) {
        let Some(slot) = self.sessions.get_mut(&stream).filter(|slot| slot.reread) else { return };
        if !self.pending.iter().any(|pending| pending.run == stream) {
            slot.reread = false;
            self.load(stream);
        }
    }

    /// Caches a long session's state.
    pub(super) fn snapshot_session(&mut self, stream: RunId, committed: AppendId) {
        // What this turn has decided for the session is part of its state, and not of the log yet.
        let decided = self.batches.iter().filter_map(|batch| batch.session.as_ref());
        let is_ahead = decided.map(|session| session.stream).any(|ahead| ahead == stream);
        if is_ahead {
            return;
        }
        let every = self.config.session_snapshot_every;
        let Some(slot) = self.sessions.get_mut(&stream) else { return };
        let Loaded::Ready(Some(state)) = &slot.state else { return };
        let seq = state.seq();
        if slot.last_append != committed || seq < slot.snapshot_seq.saturating_add(every) {
            return;
        }
        slot.snapshot_seq = seq;
        match state.snapshot() {
            Ok(state) => {
                let snapshot = Snapshot { seq, format: SESSION_SNAPSHOT_FORMAT, state: state.into() };
                self.outputs.push(Output::PutSnapshot { run: stream, snapshot });
            }
            Err(error) => tracing::warn!(session = %stream, %error, "the state could not be cached"),
        }
    }

    /// Takes the sessions up that unfinished asks belong to.
    pub(super) fn recover_sessions(&mut self, sessions: Vec<(RunId, Option<SessionState>)>) {
        for (stream, state) in sessions {
            self.sessions.insert(stream, SessionSlot::recovered(state));
        }
        let mut begun = Vec::new();
        for (run, slot) in &self.runs {
            let Some(name) = slot.state.session() else { continue };
            let Some(session) = self.sessions.get_mut(&session_stream(name)) else { continue };
            match slot.state.awaited_session() {
                Some(_) => session.waiting.push_back(*run),
                None => begun.push((*run, session_stream(name))),
            }
        }
        for (run, stream) in begun {
            if let Some(slot) = self.sessions.get_mut(&stream) {
                slot.active = Some(run);
            }
        }
        let streams: Vec<RunId> = self.sessions.keys().copied().collect();
        for stream in streams {
            self.next_turn(stream);
        }
    }

    /// Why no worker will ever answer for the spec.
    fn unavailable(&self, spec: &str, agent: &str) -> Option<v1::Error> {
        let Some(known) = self.agents.known(agent) else {
            // After a start its worker may not have come back yet.
            return (self.now >= self.gathering_until).then(|| {
                let message = format!("spec {spec:?} is served by {agent:?}, an agent that nobody knows");
                codes::error(codes::SPEC_NOT_AVAILABLE, message)
            });
        };
        let theirs = known.contract_version.as_str();
        let ours = capataz_contracts::spec::VERSION;
        let refused = match theirs.parse::<ContractVersion>() {
            Ok(theirs) => negotiate(&ours, &theirs).err().map(|violation| violation.message),
            // Agents of other kinds need not say a version.
            Err(_) if theirs.is_empty() => None,
            Err(_) => Some(format!("{theirs:?} is no version")),
        };
        refused.map(|why| {
            let message = format!("agent {agent:?} of spec {spec:?} speaks another contract: {why}");
            codes::error(codes::INCOMPATIBLE_VERSION, message)
        })
    }

    /// Retention is due. What nobody is in the middle of may go, and is read again when it is needed.
    pub(super) fn sweep(&mut self) {
        if self.mode != Mode::Running {
            return self.outputs.push(Output::Sweep { keep: None });
        }
        self.forget_idle_sessions();
        let in_use = self.sessions.keys().filter(|_| !planted::is(Fault::SweepRemovesASessionInUse));
        let keep = Some(in_use.copied().collect());
        self.sweeps += 1;
        self.outputs.push(Output::Sweep { keep });
    }

    pub(super) fn swept(&mut self) {
        self.sweeps = self.sweeps.saturating_sub(1);
        if self.sweeps > 0 {
            return;
        }
        for stream in std::mem::take(&mut self.unread_sessions) {
            self.load(stream);
        }
    }

    fn forget_idle_sessions(&mut self) {
        let in_flight = self.pending.front().map_or(self.next_append, |pending| pending.id);
        self.sessions.retain(|_, slot| {
            slot.idle = None;
            !slot.is_idle() || slot.last_append >= in_flight
        });
        self.idle_sessions.clear();
    }

    /// The answer to a query of a run. Whether it still is what the run wants to know, the engine says.
    pub(super) fn answered(&mut self, run: RunId, query: QueryId, answer: Found) {
        if self.mode != Mode::Running {
            return;
        }
        let Found { spec, target, rerouted, default_spec } = answer;
        let target = target.map(|(routing, agent)| {
            let unavailable = self.unavailable(&routing.spec, &agent);
            RoutedSpec { routing, absent: self.agents.is_absent(&agent), agent, unavailable }
        });
        let answer = QueryAnswer::Routed(Routed { spec, target, rerouted, default_spec });
        self.input(run, engine::Input::Answered { query, answer }, None);
    }

    /// What the run wants to know, with what the router has to be told; `None` where it wants to know nothing.
    #[must_use]
    pub fn asks_for(&self, run: RunId) -> Option<(&v1::Ask, &v1::SessionContext)> {
        self.runs.get(&run)?.state.ask_query()
    }
}

/// Answers a query out of what is known of specs. Pure: shell, simulator and tests use it alike.
#[must_use]
pub fn find(router: &dyn Route, ask: &v1::Ask, context: &v1::SessionContext, asked: Query) -> Found {
    let Query::Route { spec, reason } = asked;
    let chosen = router.route(ask, context, spec.as_deref());
    // The spec that the session was with is gone.
    let rerouted = chosen.target.is_err() && reason == v1::CallReason::Continued;
    let chosen = if rerouted { router.route(ask, context, None) } else { chosen };
    let spec = if rerouted { String::new() } else { spec.unwrap_or_default() };
    Found { spec, target: chosen.target, rerouted, default_spec: chosen.default_spec }
}
