//! Sessions in memory: whose turn it is, and which have to be read. It decides nothing about runs.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use capataz_contracts::v1;
use capataz_crew::protocol::{place, placed};
use capataz_engine::planted::{self, Fault};
use capataz_engine::session::{self, SessionDecision, SessionState};
use capataz_engine::{RunState, Wall};
use capataz_store::{BlobHash, Position, RunId, Snapshot};

use crate::ReplyId;
use crate::api::{Answer, Declined, ImportReply, ImportSession, ModeChosen, TransitionReply};
use crate::journal::MAX_SNAPSHOT_BYTES;
use crate::load::Damage;
use crate::outbox::AppendId;

/// What a session of which too much is asked has its callers wait. Milliseconds.
pub(crate) const RETRY_AFTER_MS: i64 = 1_000;

/// The label by which the runs and the stream of a session are found.
pub const SESSION_LABEL: &str = "capataz.session";

/// Version of the encoding of a session's snapshot.
pub const SESSION_SNAPSHOT_FORMAT: u32 = 4;

/// The stream of a session's events: a name has one, on every machine.
#[must_use]
pub fn session_stream(session: &str) -> RunId {
    let hash = BlobHash::of(format!("capataz session {session}").as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(hash.0.first_chunk::<16>().unwrap_or(&[0; 16]));
    RunId(uuid::Builder::from_custom_bytes(bytes).into_uuid())
}

/// The id of a new run, out of one that was drawn: in its session's shard, else in its key's, else anywhere.
///
/// A key is unique in the shard where it is at home, so that whoever repeats a start with its key comes to the run of the
/// first time. A run that lives with its session registers its key there ([`crate::keys`]).
#[must_use]
pub fn run_id(drawn: RunId, session: Option<&str>, key: Option<&[u8]>) -> RunId {
    let wanted = session.map(session_stream).or(key.map(key_stream)).map(place);
    wanted.map_or(drawn, |wanted| placed(drawn, wanted))
}

/// An id in the shard where the key is at home. Nothing has this id.
#[must_use]
pub fn key_stream(key: &[u8]) -> RunId {
    let [place, ..] = BlobHash::of(&[b"capataz key ", key].concat()).0;
    placed(RunId::MIN, place)
}

/// A session in memory.
#[derive(Default)]
struct Slot {
    state: Loaded,
    /// The ask whose turn it is.
    active: Option<RunId>,
    waiting: VecDeque<RunId>,
    /// What callers ask of the session before it was read.
    commands: Vec<(ReplyId, SessionCommand)>,
    last_append: AppendId,
    snapshot_seq: u64,
    /// The number under which it was asked for last.
    load: u64,
    /// It is to be read again once nothing of it is in flight.
    reread: bool,
    /// Its place among the idle ones, and the bytes that it had when it came there.
    idle: Option<(u64, u64)>,
}

#[derive(Default)]
enum Loaded {
    /// It was asked for.
    #[default]
    Loading,
    /// `None` where there is no such session yet.
    Ready(Option<Box<SessionState>>),
    /// Nobody can work in it.
    Damaged(Damage),
}

impl Slot {
    fn is_idle(&self) -> bool {
        self.active.is_none() && self.waiting.is_empty() && self.commands.is_empty()
    }

    fn state(&self) -> Option<&SessionState> {
        match &self.state {
            Loaded::Ready(state) => state.as_deref(),
            Loaded::Loading | Loaded::Damaged(_) => None,
        }
    }

    fn is_loaded(&self) -> bool {
        matches!(self.state, Loaded::Ready(_))
    }

    fn bytes(&self) -> u64 {
        SLOT_BYTES + self.state().map_or(0, SessionState::bytes)
    }
}

/// The bytes of a session in memory beside its state.
const SLOT_BYTES: u64 = 256;

/// The sessions that nobody asks anything, and that are in memory nevertheless.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct IdleSessions {
    pub sessions: usize,
    pub bytes: u64,
}

impl IdleSessions {
    fn is_within(self, most: Self) -> bool {
        self.sessions <= most.sessions && self.bytes <= most.bytes
    }
}

/// A session that is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) stream: RunId,
    pub(crate) number: u64,
}

/// What a caller asks of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SessionCommand {
    /// The transition that the answer to this request has suggested.
    Accept {
        request_id: String,
    },
    Import(Box<ImportSession>),
    /// The mode of its runs, a value of the contract's `ExecutionMode`.
    Choose {
        session: String,
        mode: i32,
    },
    /// Entries of its memory are wanted no more.
    Forget {
        session: String,
        entry_ids: Vec<String>,
    },
}

impl SessionCommand {
    /// What the caller hears where nothing was done, or nobody knows.
    pub(crate) fn declined(&self, declined: Declined) -> Answer {
        match self {
            Self::Accept { .. } => Answer::Transition(Err(declined)),
            Self::Import(_) => Answer::Imported(Err(declined)),
            Self::Choose { .. } => Answer::Chosen(Err(declined)),
            Self::Forget { .. } => Answer::Forgotten(Err(declined)),
        }
    }

    /// The bytes that it keeps in memory until it is carried out, with those of the session that is read for it.
    fn bytes(&self) -> u64 {
        let sum = |texts: &[String]| texts.iter().map(|text| size_of::<String>() + text.len()).sum::<usize>();
        let texts = match self {
            Self::Accept { request_id } => request_id.len(),
            Self::Import(import) => import.session.len() + import.state.len() + sum(&import.repairs),
            Self::Choose { session, .. } => session.len(),
            Self::Forget { session, entry_ids } => session.len() + sum(entry_ids),
        };
        SLOT_BYTES + (size_of::<(ReplyId, Self)>() + texts) as u64
    }
}

/// How much may be asked of sessions that were not read yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MostAsked {
    /// Commands of one session.
    pub(crate) commands: usize,
    /// The bytes of the commands of all sessions.
    pub(crate) bytes: u64,
}

/// What became of a caller's command.
pub(crate) enum Commanded {
    /// The answer, once the decision is durable; without one, once what it rests on is.
    Done { answer: Answer, decision: Option<SessionDecision>, last_append: AppendId },
    /// The answer, for nothing was done.
    Refused(Answer),
    /// The answer names this run, of which nothing may be durable yet.
    With { run: RunId, answer: Answer },
    /// It is carried out when the session has been read.
    Waits,
}

/// All sessions in memory. A session that an ask works in or waits for is among them.
#[derive(Default)]
pub(crate) struct Sessions {
    slots: BTreeMap<RunId, Slot>,
    /// Sessions that nobody asks anything, each once, those first that were left first; some may be busy again.
    idle: BTreeMap<u64, RunId>,
    idle_bytes: u64,
    /// The bytes of each run that waits for its turn, and of all of them.
    waits: BTreeMap<RunId, u64>,
    waiting_bytes: u64,
    /// The bytes of all commands that wait for their sessions to be read.
    commands_bytes: u64,
    /// Sessions that were asked for.
    loads: u64,
    wanted: Vec<Load>,
    /// Sweeps that were let go and have not ended.
    sweeps: u32,
    /// Sessions that are read when no sweep is at work any more, for it may remove them.
    unread: BTreeSet<RunId>,
}

impl Sessions {
    /// Asks that wait for their turn.
    pub(crate) fn waiting(&self, stream: RunId) -> usize {
        self.slots.get(&stream).map_or(0, |slot| slot.waiting.len())
    }

    /// Returns whether a run has its turn in the session, or waits for it.
    pub(crate) fn is_at_work(&self, stream: RunId) -> bool {
        self.slots.get(&stream).is_some_and(|slot| slot.active.is_some() || !slot.waiting.is_empty())
    }

    /// The bytes of all runs that wait for their turns.
    pub(crate) fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes
    }

    pub(crate) fn contains(&self, stream: RunId) -> bool {
        self.slots.contains_key(&stream)
    }

    /// Whether the session's state is known.
    pub(crate) fn is_loaded(&self, stream: RunId) -> bool {
        self.slots.get(&stream).is_some_and(Slot::is_loaded)
    }

    /// Sessions that have to be read now.
    pub(crate) fn take_wanted(&mut self) -> Vec<Load> {
        std::mem::take(&mut self.wanted)
    }

    /// The ask waits for its turn, with so many bytes.
    pub(crate) fn join(&mut self, stream: RunId, run: RunId, bytes: u64) {
        self.slot(stream).waiting.push_back(run);
        self.waits_no_more(run);
        self.waits.insert(run, bytes);
        self.waiting_bytes += bytes;
    }

    fn waits_no_more(&mut self, run: RunId) {
        let bytes = self.waits.remove(&run).unwrap_or(0);
        self.waiting_bytes = self.waiting_bytes.saturating_sub(bytes);
    }

    /// The next ask of the session that still awaits its turn, where none is at work; what it finds there.
    pub(crate) fn next_turn(
        &mut self,
        stream: RunId,
        now: Wall,
        awaits: impl Fn(RunId) -> bool,
    ) -> Option<(RunId, v1::SessionContext)> {
        loop {
            let slot = self.slots.get_mut(&stream)?;
            let (None, Loaded::Ready(state)) = (slot.active, &slot.state) else { return None };
            let run = slot.waiting.pop_front()?;
            let context =
                awaits(run).then(|| state.as_ref().map(|state| state.context(now)).unwrap_or_default());
            slot.active = context.as_ref().map(|_| run);
            self.waits_no_more(run);
            if let Some(context) = context {
                return Some((run, context));
            }
        }
    }

    /// The ask is over, or never was.
    pub(crate) fn leave(&mut self, stream: RunId, run: RunId) {
        let Some(slot) = self.slots.get_mut(&stream) else { return };
        slot.waiting.retain(|waiting| *waiting != run);
        if slot.active == Some(run) {
            slot.active = None;
        }
        self.waits_no_more(run);
    }

    /// Where nobody asks anything of the session, it may be put away when others need the room: then it is read again for
    /// whoever asks next.
    pub(crate) fn rest(&mut self, stream: RunId, oldest_in_flight: AppendId, most: IdleSessions) {
        let Some(slot) = self.slots.get(&stream) else { return };
        if matches!(slot.state, Loaded::Loading) || slot.active.is_some() {
            return;
        }
        // It was used just now: whatever place it had among those to put away is no longer its own.
        self.leave_idle(stream);
        let place = self.idle.last_key_value().map_or(0, |(last, _)| last + 1);
        if let Some(slot) = self.slots.get_mut(&stream) {
            let bytes = slot.bytes();
            slot.idle = Some((place, bytes));
            self.idle.insert(place, stream);
            self.idle_bytes += bytes;
        }
        self.put_away(oldest_in_flight, most);
    }

    /// Puts away as many sessions as there is no room for, those first that were left first. One of which something is in
    /// flight has to stay until that is settled.
    pub(crate) fn put_away(&mut self, oldest_in_flight: AppendId, most: IdleSessions) {
        if self.is_within(most) || planted::is(Fault::IdleSessionsWithoutBound) {
            return;
        }
        let mut next = 0;
        while let Some((place, stream)) =
            self.idle.range(next..).next().map(|(place, stream)| (*place, *stream))
        {
            if self.is_within(most) {
                return;
            }
            next = place + 1;
            let Some(slot) = self.slots.get(&stream) else { continue };
            if !slot.is_idle() {
                // It comes back when it is left.
                self.leave_idle(stream);
            } else if slot.last_append < oldest_in_flight {
                self.remove(stream);
            }
        }
    }

    fn is_within(&self, most: IdleSessions) -> bool {
        IdleSessions { sessions: self.idle.len(), bytes: self.idle_bytes }.is_within(most)
    }

    /// The session has no place among the idle ones any more.
    fn leave_idle(&mut self, stream: RunId) {
        let place = self.slots.get_mut(&stream).and_then(|slot| slot.idle.take());
        if let Some((place, bytes)) = place {
            self.idle.remove(&place);
            self.idle_bytes = self.idle_bytes.saturating_sub(bytes);
        }
    }

    /// Removes the session from memory, with its place among the idle ones.
    fn remove(&mut self, stream: RunId) {
        self.leave_idle(stream);
        self.slots.remove(&stream);
    }

    /// The idle sessions of which nothing is in flight, counted anew; for invariant checks.
    pub(crate) fn idle(&self, oldest_in_flight: AppendId) -> IdleSessions {
        let idle = self.slots.values().filter(|slot| {
            slot.is_idle() && !matches!(slot.state, Loaded::Loading) && slot.last_append < oldest_in_flight
        });
        let (sessions, bytes) =
            idle.fold((0, 0), |(sessions, bytes), slot| (sessions + 1, bytes + slot.bytes()));
        IdleSessions { sessions, bytes }
    }

    /// A session was read; `None` where there is none. Commands that waited for it; `None` where the answer is old.
    pub(crate) fn loaded(
        &mut self,
        load: Load,
        state: Option<Box<SessionState>>,
    ) -> Option<Vec<(ReplyId, SessionCommand)>> {
        let slot = self.slots.get_mut(&load.stream)?;
        // What was read for an earlier question may be another session by now.
        if !matches!(slot.state, Loaded::Loading) || slot.load != load.number {
            return None;
        }
        slot.snapshot_seq = state.as_ref().map_or(0, |state| state.seq());
        slot.state = Loaded::Ready(state);
        Some(self.take_commands(load.stream))
    }

    /// Whether the answer to this question is still waited for.
    pub(crate) fn awaits(&self, load: Load) -> bool {
        let slot = self.slots.get(&load.stream);
        slot.is_some_and(|slot| matches!(slot.state, Loaded::Loading) && slot.load == load.number)
    }

    /// Nobody can work in the session any more. Its runs in memory, and commands that waited for it.
    pub(crate) fn damaged(&mut self, damage: Damage) -> (Vec<RunId>, Vec<(ReplyId, SessionCommand)>) {
        let damage_of = damage.run;
        let Some(slot) = self.slots.get_mut(&damage_of) else { return Default::default() };
        slot.state = Loaded::Damaged(damage);
        slot.reread = false;
        let asks: Vec<RunId> =
            slot.active.take().into_iter().chain(std::mem::take(&mut slot.waiting)).collect();
        let commands = self.take_commands(damage_of);
        asks.iter().for_each(|ask| self.waits_no_more(*ask));
        (asks, commands)
    }

    /// A session that was damaged is gone, and another one may begin under its name.
    pub(crate) fn forget_damaged(&mut self, stream: RunId) {
        if self.damage(stream).is_some() {
            self.remove(stream);
        }
    }

    /// What is wrong with the session, where it is known to be damaged.
    pub(crate) fn damage(&self, stream: RunId) -> Option<&Damage> {
        match &self.slots.get(&stream)?.state {
            Loaded::Damaged(damage) => Some(damage),
            Loaded::Loading | Loaded::Ready(_) => None,
        }
    }

    /// What the run whose turn it is adds to its session.
    pub(crate) fn record(&mut self, stream: RunId, run: RunId, state: &RunState) -> Option<SessionDecision> {
        let slot = self.slots.get_mut(&stream)?;
        let Loaded::Ready(session) = &mut slot.state else { return None };
        if slot.active != Some(run) {
            return None;
        }
        session::record(session, state, &run.to_string()).unwrap_or_else(|violations| {
            tracing::error!(session = %stream, %run, ?violations, "SESSION_INVALID: the state is not written");
            None
        })
    }

    /// A caller asks something of the session.
    pub(crate) fn command(
        &mut self,
        stream: RunId,
        reply: ReplyId,
        command: SessionCommand,
        now: Wall,
        most: MostAsked,
    ) -> Commanded {
        let waiting = match self.slots.get(&stream) {
            Some(Slot { state: Loaded::Ready(_), .. }) => return self.carry_out(stream, command, now),
            Some(Slot { state: Loaded::Damaged(damage), .. }) => {
                return Commanded::Refused(command.declined(Declined::Damaged(Box::new(damage.clone()))));
            }
            Some(Slot { state: Loaded::Loading, commands, .. }) => commands.len(),
            // It is read only for what has room.
            None => 0,
        };
        let is_full = waiting >= most.commands;
        if is_full || self.commands_bytes.saturating_add(command.bytes()) > most.bytes {
            let declined = Declined::Overloaded { retry_after_ms: RETRY_AFTER_MS };
            return Commanded::Refused(command.declined(declined));
        }
        self.commands_bytes = self.commands_bytes.saturating_add(command.bytes());
        self.slot(stream).commands.push((reply, command));
        Commanded::Waits
    }

    /// The commands that waited for the session to be read, which wait no more.
    fn take_commands(&mut self, stream: RunId) -> Vec<(ReplyId, SessionCommand)> {
        let commands = self.slots.get_mut(&stream).map(|slot| std::mem::take(&mut slot.commands));
        let commands = commands.unwrap_or_default();
        let bytes: u64 = commands.iter().map(|(_, command)| command.bytes()).sum();
        self.commands_bytes = self.commands_bytes.saturating_sub(bytes);
        commands
    }

    /// Carries out what a caller asks of a session that was read.
    pub(crate) fn carry_out(&mut self, stream: RunId, command: SessionCommand, now: Wall) -> Commanded {
        let slot = self.slots.get_mut(&stream);
        let Some(Slot { state: Loaded::Ready(session), active, last_append, .. }) = slot else {
            return Commanded::Refused(command.declined(Declined::Unavailable));
        };
        let last_append = *last_append;
        match command {
            SessionCommand::Accept { request_id } => {
                let Some(session) = session else {
                    return Commanded::Refused(TransitionReply::SessionNotFound.into());
                };
                match session.accept(&request_id, now) {
                    Err(_) => Commanded::Refused(TransitionReply::TransitionNotFound.into()),
                    Ok((accepted, decision)) => {
                        let answer = TransitionReply::Accepted(accepted).into();
                        Commanded::Done { answer, decision, last_append }
                    }
                }
            }
            SessionCommand::Import(import) => {
                let ImportSession { session: name, state, repairs } = *import;
                let at_work = session.as_ref().and_then(|session| session.plan_at_work());
                if let Some(run) = active.filter(|run| at_work == Some(run.to_string().as_str())) {
                    return Commanded::With { run, answer: ImportReply::Busy { run }.into() };
                }
                match session::import(session, &name, &state, repairs, now) {
                    Some(imported) => {
                        let changed = imported.decision.is_some();
                        let answer = ImportReply::Imported { seq: imported.seq, changed }.into();
                        Commanded::Done { answer, decision: imported.decision, last_append }
                    }
                    None => Commanded::Refused(Answer::Imported(Err(Declined::Unavailable))),
                }
            }
            SessionCommand::Choose { session: name, mode } => {
                let mode = v1::ExecutionMode::try_from(mode).unwrap_or_default();
                match session::choose_mode(session, &name, mode, now) {
                    Some(chosen) => {
                        let reply = ModeChosen { seq: chosen.seq, before: chosen.before.into() };
                        let answer = Answer::Chosen(Ok(reply));
                        Commanded::Done { answer, decision: chosen.decision, last_append }
                    }
                    None => Commanded::Refused(Answer::Chosen(Err(Declined::Unavailable))),
                }
            }
            SessionCommand::Forget { session: name, entry_ids } => {
                match session::forget(session, &name, entry_ids, now) {
                    Some(session::Forgotten { seq, decision }) => Commanded::Done {
                        answer: Answer::Forgotten(Ok(seq)),
                        decision: Some(decision),
                        last_append,
                    },
                    None => Commanded::Refused(Answer::Forgotten(Err(Declined::Unavailable))),
                }
            }
        }
    }

    /// The state of a session that exists and was read.
    pub(crate) fn state(&self, stream: RunId) -> Option<&SessionState> {
        self.slots.get(&stream)?.state()
    }

    /// The newest append of the session.
    pub(crate) fn appended(&mut self, stream: RunId, append: AppendId) {
        if let Some(slot) = self.slots.get_mut(&stream) {
            slot.last_append = append;
        }
    }

    /// What was decided for the session will never be stored: it is read again, once nothing of it is in flight.
    pub(crate) fn doubt(&mut self, stream: RunId) {
        let Some(slot) = self.slots.get_mut(&stream) else { return };
        if matches!(slot.state, Loaded::Damaged(_)) {
            return;
        }
        slot.state = Loaded::Loading;
        slot.load = 0;
        slot.reread = true;
    }

    /// Reads the session again where it is in doubt; nothing of it is in flight.
    pub(crate) fn settled(&mut self, stream: RunId) {
        let Some(slot) = self.slots.get_mut(&stream).filter(|slot| slot.reread) else { return };
        slot.reread = false;
        self.load(stream);
    }

    /// Whether the session waits for its appends in flight before it is read again.
    pub(crate) fn is_in_doubt(&self, stream: RunId) -> bool {
        self.slots.get(&stream).is_some_and(|slot| slot.reread)
    }

    /// The snapshot of a long session, where one is due and this was its newest append.
    pub(crate) fn snapshot_due(
        &mut self,
        stream: RunId,
        committed: AppendId,
        every: u64,
    ) -> Option<Snapshot> {
        let slot = self.slots.get_mut(&stream)?;
        let Loaded::Ready(Some(state)) = &slot.state else { return None };
        let seq = state.seq();
        if slot.last_append != committed || seq < slot.snapshot_seq.saturating_add(every) {
            return None;
        }
        slot.snapshot_seq = seq;
        match state.snapshot() {
            Ok(state) if state.len() > MAX_SNAPSHOT_BYTES => {
                tracing::warn!(session = %stream, bytes = state.len(), "the state is too large to be cached");
                None
            }
            Ok(state) => Some(Snapshot { seq, format: SESSION_SNAPSHOT_FORMAT, state: state.into() }),
            Err(error) => {
                tracing::warn!(session = %stream, %error, "the state could not be cached");
                None
            }
        }
    }

    /// A session that was read with the shard.
    pub(crate) fn recover(&mut self, stream: RunId, state: Option<SessionState>) {
        let snapshot_seq = state.as_ref().map_or(0, SessionState::seq);
        let slot = Slot { state: Loaded::Ready(state.map(Box::new)), snapshot_seq, ..Slot::default() };
        self.leave_idle(stream);
        self.slots.insert(stream, slot);
    }

    /// The shard is read again, after what retention is at. What is damaged may be whole then, and nobody waits for it.
    /// Returns the sessions that have to be read, or were asked for and not heard of yet.
    pub(crate) fn begin_again(&mut self) -> Vec<RunId> {
        self.sweeps = 0;
        self.unread.clear();
        self.wanted.clear();
        let is_damaged = |slot: &Slot| matches!(slot.state, Loaded::Damaged(_));
        self.remove_where(is_damaged);
        let unread = self.slots.iter().filter(|(_, slot)| matches!(slot.state, Loaded::Loading));
        unread.map(|(stream, _)| *stream).collect()
    }

    /// Throws away what is known of a session, but for who waits for it.
    pub(crate) fn throw(&mut self, stream: RunId) {
        if let Some(slot) = self.slots.get_mut(&stream) {
            slot.state = Loaded::Loading;
            slot.load = 0;
            slot.reread = false;
        }
    }

    /// A session that was thrown away was read again. Commands that waited for it; `None` where nobody needs it.
    pub(crate) fn read_again(
        &mut self,
        stream: RunId,
        state: Option<SessionState>,
    ) -> Option<Vec<(ReplyId, SessionCommand)>> {
        let slot = self.slots.get_mut(&stream).filter(|slot| matches!(slot.state, Loaded::Loading))?;
        slot.snapshot_seq = state.as_ref().map_or(0, SessionState::seq);
        slot.state = Loaded::Ready(state.map(Box::new));
        Some(self.take_commands(stream))
    }

    /// Has a session read that was thrown away and could not be read with the shard.
    pub(crate) fn read_later(&mut self, stream: RunId) {
        if self.slots.get(&stream).is_some_and(|slot| matches!(slot.state, Loaded::Loading)) {
            self.load(stream);
        }
    }

    /// Asks that wait have the order of the places where they were accepted.
    pub(crate) fn order(&mut self, stream: RunId, accepted: impl Fn(RunId) -> Position) {
        let Some(slot) = self.slots.get_mut(&stream) else { return };
        let waiting = slot.waiting.make_contiguous();
        if planted::is(Fault::TurnsByIds) {
            return waiting.sort_unstable();
        }
        waiting.sort_by_key(|run| accepted(*run));
    }

    /// An ask that was read with the shard had its turn.
    pub(crate) fn resume(&mut self, stream: RunId, run: RunId) {
        if let Some(slot) = self.slots.get_mut(&stream) {
            slot.active = Some(run);
        }
    }

    pub(crate) fn streams(&self) -> Vec<RunId> {
        self.slots.keys().copied().collect()
    }

    /// Retention is let go. The sessions that it must keep, because somebody is in the middle of them.
    pub(crate) fn sweep(&mut self, oldest_in_flight: AppendId) -> BTreeSet<RunId> {
        self.remove_where(|slot| slot.is_idle() && slot.last_append < oldest_in_flight);
        self.sweeps += 1;
        let in_use = self.slots.keys().filter(|_| !planted::is(Fault::SweepRemovesASessionInUse));
        in_use.copied().collect()
    }

    /// A sweep has ended: what it may have removed is read now.
    pub(crate) fn swept(&mut self) {
        self.sweeps = self.sweeps.saturating_sub(1);
        if self.sweeps > 0 {
            return;
        }
        for stream in std::mem::take(&mut self.unread) {
            self.load(stream);
        }
    }

    fn remove_where(&mut self, is_gone: impl Fn(&Slot) -> bool) {
        let gone = self.slots.iter().filter(|(_, slot)| is_gone(slot)).map(|(stream, _)| *stream);
        for stream in gone.collect::<Vec<RunId>>() {
            self.remove(stream);
        }
    }

    /// Throws everything away. Callers that wait for a session to be read, and what they asked.
    pub(crate) fn abandon(&mut self) -> Vec<(ReplyId, SessionCommand)> {
        let loads = self.loads;
        let sessions = std::mem::take(self);
        self.loads = loads;
        sessions.slots.into_values().flat_map(|slot| slot.commands).collect()
    }

    fn slot(&mut self, stream: RunId) -> &mut Slot {
        if let Entry::Vacant(slot) = self.slots.entry(stream) {
            slot.insert(Slot::default());
            if self.sweeps > 0 {
                self.unread.insert(stream);
            } else {
                self.load(stream);
            }
        }
        self.slots.entry(stream).or_default()
    }

    /// Asks for the session to be read.
    fn load(&mut self, stream: RunId) {
        let Some(slot) = self.slots.get_mut(&stream) else { return };
        self.loads += 1;
        slot.load = self.loads;
        self.wanted.push(Load { stream, number: self.loads });
    }
}

#[cfg(test)]
mod tests {
    use capataz_crew::protocol::home;
    use capataz_store::ShardId;

    use super::*;

    fn drawn(place: u8) -> RunId {
        RunId(uuid::Uuid::from_u128(0x0199_aaaa_bbbb_7ccc_8ddd_1122_3344_5500 | u128::from(place)))
    }

    #[test]
    fn a_run_lives_with_its_session_else_with_its_key_else_where_it_was_drawn() {
        let of_session = place(session_stream("talk"));
        let of_key = place(run_id(drawn(0), None, Some(b"order-7")));
        assert_ne!(of_session, of_key, "or this test shows nothing");
        for bits in [0, 1, 0x7f, 0xff] {
            assert_eq!(run_id(drawn(bits), None, None), drawn(bits));
            assert_eq!(run_id(drawn(bits), None, Some(b"order-7")), drawn(of_key));
            assert_eq!(run_id(drawn(bits), Some("talk"), None), drawn(of_session));
            assert_eq!(run_id(drawn(bits), Some("talk"), Some(b"order-7")), drawn(of_session));
        }
    }

    #[test]
    fn keys_and_sessions_are_spread_over_all_places() {
        let of_keys = |number: u32| place(run_id(drawn(0), None, Some(&number.to_be_bytes())));
        let of_sessions = |number: u32| place(session_stream(&number.to_string()));
        for places in [of_keys as fn(u32) -> u8, of_sessions] {
            let met: BTreeSet<u8> = (0..5_000).map(places).collect();
            assert_eq!(met.len(), 256);
        }
    }

    #[test]
    fn every_place_has_a_shard_however_many_there_are() {
        for count in [1u32, 2, 8, 256] {
            let shards: Vec<ShardId> = (0..count).map(ShardId).collect();
            let homes: BTreeSet<ShardId> =
                (0..=u8::MAX).filter_map(|bits| home(drawn(bits), &shards)).collect();
            assert_eq!(homes.len(), shards.len());
        }
        assert_eq!(home(drawn(1), &[]), None);
    }
}
