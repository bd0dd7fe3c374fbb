//! Sessions in memory: whose turn it is, and which have to be read. It decides nothing about runs.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use capataz_contracts::v1;
use capataz_engine::planted::{self, Fault};
use capataz_engine::session::{self, SessionDecision, SessionState};
use capataz_engine::{RunState, Wall};
use capataz_store::{Position, RunId, Snapshot};

use crate::ReplyId;
use crate::journal::MAX_SNAPSHOT_BYTES;
use crate::load::Damage;
use crate::outbox::AppendId;

mod commands;
mod idle;
mod streams;

pub(crate) use commands::{Commanded, MostAsked, RETRY_AFTER_MS, SessionCommand};
pub use idle::IdleSessions;
pub use streams::{key_stream, run_id, session_stream};

/// The label by which the runs and the stream of a session are found.
pub const SESSION_LABEL: &str = "capataz.session";

/// Version of the encoding of a session's snapshot.
pub const SESSION_SNAPSHOT_FORMAT: u32 = 4;

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

/// A session that is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) stream: RunId,
    pub(crate) number: u64,
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
