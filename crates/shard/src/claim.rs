//! Claiming a shard: what is unfinished in it is read, and what cannot be read is put into quarantine, so that all others go
//! on.
//!
//! A run is in quarantine for one of three reasons. Damage is tried again at each claim, for what is wrong with a disk may be
//! repaired beneath it: a run that can be read from its first event on is released. The other reasons stay, because the same
//! program would do the same again.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use capataz_contracts::v1;
use capataz_crew::KnownAgent;
use capataz_engine::RunState;
use capataz_engine::session::SessionState;
use capataz_store::{
    Epoch, Mark, Millis, Position, Quarantine, QuarantineReason, Rest, RunId, ShardId, ShardWriter, Store,
    StoreError,
};
use prost::Message;

use crate::feed::split;
use crate::journal::Chance;
use crate::load::{Damage, LoadError, go_on, go_on_session, load, load_session};
use crate::readings::Earlier;
use crate::sessions::{SESSION_LABEL, session_stream};
use crate::shard::Recovered;
use crate::touched::Touched;

/// Runs read at a time when a shard is recovered.
const PAGE: usize = 1024;
/// Runs that may be unreadable at a claim. With more of them, it is the store that cannot be read.
const MOST_UNREAD: usize = 16;
/// How often a mark is drawn at most where it cannot be that of a claim. Drawing twice is rare.
const DRAWS: usize = 16;

/// Claims a shard and reads what is unfinished in it, but for what is damaged.
///
/// # Errors
/// The store cannot be read or written.
pub fn claim(
    store: &dyn Store,
    shard: ShardId,
    chance: &mut Chance,
) -> Result<(Box<dyn ShardWriter>, Recovered, Position), StoreError> {
    claim_again(store, shard, chance, None, &mut None)
}

/// Claims a shard and reads those runs and sessions of it that are touched, for the others are known. `known` is the newest
/// claim since which all that was written is known, if any: where another one lies between, everything is read.
///
/// # Errors
/// The store cannot be read or written.
pub fn claim_again(
    store: &dyn Store,
    shard: ShardId,
    chance: &mut Chance,
    touched: Option<&Touched>,
    known: &mut Option<Epoch>,
) -> Result<(Box<dyn ShardWriter>, Recovered, Position), StoreError> {
    let history = store.history(shard)?;
    let mut mark = (chance.draw)();
    for _ in 1..DRAWS {
        if mark != Mark::NONE && !history.knows(mark) {
            break;
        }
        mark = (chance.draw)();
    }
    let writer = store.claim(shard, mark)?;
    let epoch = writer.epoch();
    // Nobody writes without a claim: whoever has claimed in between may have written anything.
    let follows = known.take().is_some_and(|known| known.0.checked_add(1) == Some(epoch.0));
    let touched = touched.filter(|_| follows);
    // What is known stays known, also where the rest cannot be read.
    *known = touched.map(|_| epoch);
    let mut claiming = Claiming {
        store,
        writer,
        quarantined: quarantined(store, shard)?,
        sessions: BTreeMap::new(),
        accepted: BTreeMap::new(),
        unread: Vec::new(),
        chance,
    };
    let (runs, resting) = match touched {
        Some(touched) => claiming.touched(shard, touched)?,
        None => claiming.runs(shard)?,
    };
    claiming.release_whole(&runs, &resting)?;
    let Claiming { writer, sessions, accepted, unread, .. } = claiming;
    let agents = store.agents()?.into_iter().filter_map(|row| {
        let agent = v1::Agent::decode(row.agent).ok()?;
        Some(KnownAgent { agent, source: v1::AgentSource::Worker, last_seen: Some(row.last_seen) })
    });
    let recovered = Recovered {
        epoch: writer.epoch(),
        history: store.history(shard)?,
        runs,
        resting,
        unread,
        sessions: sessions.into_iter().filter_map(|(stream, read)| Some((stream, read.ok()?))).collect(),
        accepted,
        agents: agents.collect(),
        touched: touched.cloned(),
        earlier: earlier(store, shard)?,
    };
    let newest = store.bounds(shard)?.newest;
    *known = Some(epoch);
    Ok((writer, recovered, newest))
}

/// What earlier processes have read of their clocks, or else when something was written last.
fn earlier(store: &dyn Store, shard: ShardId) -> Result<Earlier, StoreError> {
    if let Some(earlier) = store.readings(shard)?.and_then(|readings| Earlier::decode(&readings)) {
        return Ok(earlier);
    }
    let newest = store.bounds(shard)?.newest;
    let Some(before) = newest.0.checked_sub(1) else { return Ok(Earlier::default()) };
    let row = match store.read_log(shard, Position(before), 1, 0) {
        // Its run is read by itself, and put in quarantine.
        Err(StoreError::Corrupt { .. }) => None,
        rows => rows?.pop(),
    };
    let event = row.and_then(|row| split(&row.events?).last());
    let event = event.and_then(|event| v1::Event::decode(event).ok());
    Ok(event.map(|event| Earlier::since(Millis(event.at_ms))).unwrap_or_default())
}

fn quarantined(store: &dyn Store, shard: ShardId) -> Result<BTreeMap<RunId, Quarantine>, StoreError> {
    let mut quarantined = BTreeMap::new();
    loop {
        let after = quarantined.last_key_value().map(|(run, _)| *run);
        let page = store.quarantined(shard, after, PAGE)?;
        if page.is_empty() {
            return Ok(quarantined);
        }
        quarantined.extend(page);
    }
}

/// The sessions of unfinished asks that are in quarantine, by their streams. Such an ask is nobody's meanwhile, and goes on
/// in its session when it is released. `more` are runs that are in quarantine too, and are not put down yet.
///
/// # Errors
/// The store cannot be read.
pub(crate) fn sessions_of_quarantined(
    store: &dyn Store,
    shard: ShardId,
    more: impl Iterator<Item = RunId>,
) -> Result<BTreeSet<RunId>, StoreError> {
    let mut sessions = BTreeSet::new();
    for run in quarantined(store, shard)?.into_keys().chain(more) {
        let row = store.get_run(run)?.filter(|row| row.summary.finished_at.is_none());
        let session = row.as_ref().and_then(|row| row.labels.get(SESSION_LABEL));
        sessions.extend(session.map(|name| session_stream(name)));
    }
    Ok(sessions)
}

/// The runs that are worked on, and those that rest, both by their ids.
type Unfinished = (Vec<(RunId, RunState)>, Vec<(RunId, Rest)>);

/// What was read of a run: `Err` where it is damaged.
type Read<T> = Result<T, Damage>;

fn read<T>(loaded: Result<T, LoadError>) -> Result<Read<T>, StoreError> {
    match loaded {
        Ok(state) => Ok(Ok(state)),
        Err(LoadError::Damaged(damage)) => Ok(Err(damage)),
        Err(LoadError::Store(error)) => Err(error),
    }
}

struct Claiming<'a> {
    store: &'a dyn Store,
    writer: Box<dyn ShardWriter>,
    /// What is in quarantine, as the store knows it now.
    quarantined: BTreeMap<RunId, Quarantine>,
    /// Sessions of unfinished asks, by their streams.
    sessions: BTreeMap<RunId, Read<Option<SessionState>>>,
    /// Where the asks that wait for their turns were accepted.
    accepted: BTreeMap<RunId, Position>,
    /// Runs whose rows cannot be read now.
    unread: Vec<RunId>,
    chance: &'a mut Chance,
}

impl Claiming<'_> {
    /// The unfinished runs that can be worked on. An ask cannot where its session is damaged. Those that rest are not read,
    /// unless they were found damaged.
    fn runs(&mut self, shard: ShardId) -> Result<Unfinished, StoreError> {
        let (mut runs, mut resting) = (Vec::new(), Vec::new());
        let mut after = None;
        loop {
            let page = self.store.unfinished(shard, after, PAGE)?;
            let Some(last) = page.last() else { return Ok((runs, resting)) };
            after = Some(last.run);
            for unfinished in page {
                self.unfinished(unfinished, &mut runs, &mut resting)?;
            }
        }
    }

    /// The same of what is touched; and of what is in quarantine, which may be whole again.
    fn touched(&mut self, shard: ShardId, touched: &Touched) -> Result<Unfinished, StoreError> {
        let (mut runs, mut resting) = (Vec::new(), Vec::new());
        let wanted: BTreeSet<RunId> = touched.runs.iter().chain(self.quarantined.keys()).copied().collect();
        for run in wanted {
            let before = run.0.as_u128().checked_sub(1).map(|before| RunId(uuid::Uuid::from_u128(before)));
            let next = self.store.unfinished(shard, before, 1)?.pop();
            if let Some(unfinished) = next.filter(|next| next.run == run) {
                self.unfinished(unfinished, &mut runs, &mut resting)?;
            }
        }
        for stream in &touched.sessions {
            self.session(*stream)?;
        }
        Ok((runs, resting))
    }

    fn unfinished(
        &mut self,
        capataz_store::Unfinished { run, rest }: capataz_store::Unfinished,
        runs: &mut Vec<(RunId, RunState)>,
        resting: &mut Vec<(RunId, Rest)>,
    ) -> Result<(), StoreError> {
        if let Some(rest) = rest.filter(|_| !self.quarantined.contains_key(&run)) {
            resting.push((run, rest));
            return Ok(());
        }
        let read = match self.run(run) {
            // It stays where it is.
            Err(StoreError::Io { .. }) if self.quarantined.contains_key(&run) => return Ok(()),
            Err(error @ StoreError::Io { .. }) if self.may_be_put_off(run)? => {
                tracing::error!(%run, error = &error as &dyn std::error::Error, "a run cannot be read");
                self.unread.push(run);
                return Ok(());
            }
            read => read?,
        };
        let read = match read {
            Ok(state) => self.with_its_session(run, state)?,
            damaged => damaged,
        };
        match (read, rest) {
            (Ok(_), Some(rest)) => resting.push((run, rest)),
            (Ok(state), None) => {
                if state.awaited_session().is_some() {
                    let first = self.store.read_run(run, 0, 1, 0)?;
                    self.accepted.extend(first.first().map(|row| (run, row.position)));
                }
                runs.push((run, state));
            }
            (Err(damage), _) => self.quarantine(&damage)?,
        }
        Ok(())
    }

    /// Whether the others can go on without the run. Those of its session could not: it may be its turn.
    fn may_be_put_off(&self, run: RunId) -> Result<bool, StoreError> {
        let Some(row) = self.store.get_run(run)? else { return Ok(false) };
        Ok(self.unread.len() < MOST_UNREAD && !row.labels.contains_key(SESSION_LABEL))
    }

    fn run(&self, run: RunId) -> Result<Read<RunState>, StoreError> {
        let known = self.quarantined.get(&run);
        if let Some(stays) = known.filter(|known| known.reason != QuarantineReason::Damaged) {
            return Ok(Err(Damage::of_quarantine(run, stays)));
        }
        // A cached state may hide what was found damaged beneath it.
        let loaded = if known.is_some() { go_on(self.store, run, None) } else { load(self.store, run) };
        read(loaded)
    }

    /// The run, unless its session is damaged.
    fn with_its_session(&mut self, run: RunId, state: RunState) -> Result<Read<RunState>, StoreError> {
        let Some(name) = state.session() else { return Ok(Ok(state)) };
        let of_session = self.session(session_stream(name))?;
        Ok(match of_session {
            None => Ok(state),
            Some(damage) => Err(Damage {
                run,
                seq: state.seq(),
                position: damage.position,
                reason: QuarantineReason::Damaged,
                detail: format!("its session {name}: {}", damage.detail),
            }),
        })
    }

    /// Reads a session once. What is wrong with it.
    fn session(&mut self, stream: RunId) -> Result<Option<Damage>, StoreError> {
        let session = match self.sessions.entry(stream) {
            Entry::Occupied(read) => read.into_mut(),
            Entry::Vacant(vacant) => {
                let loaded = match self.quarantined.get(&stream) {
                    None => load_session(self.store, stream),
                    Some(known) if known.reason == QuarantineReason::Damaged => {
                        go_on_session(self.store, stream, None)
                    }
                    Some(stays) => Err(LoadError::Damaged(Damage::of_quarantine(stream, stays))),
                };
                vacant.insert(read(loaded)?)
            }
        };
        let damage = session.as_ref().err().cloned();
        if let Some(damage) = &damage {
            self.quarantine(damage)?;
        }
        Ok(damage)
    }

    /// Puts the run into quarantine, where it is not there for the same.
    fn quarantine(&mut self, damage: &Damage) -> Result<(), StoreError> {
        let known = self.quarantined.get(&damage.run);
        if known.is_some_and(|known| Damage::of_quarantine(damage.run, known) == *damage) {
            return Ok(());
        }
        tracing::error!(run = %damage.run, seq = damage.seq, detail = damage.detail, "a run is quarantined");
        let quarantine = damage.quarantine((self.chance.wall)());
        self.writer.quarantine(damage.run, &quarantine)?;
        self.quarantined.insert(damage.run, quarantine);
        Ok(())
    }

    /// Releases what was damaged and can be read again: the runs that are worked on, and what has finished.
    fn release_whole(
        &mut self,
        runs: &[(RunId, RunState)],
        resting: &[(RunId, Rest)],
    ) -> Result<(), StoreError> {
        let damaged = self.quarantined.iter().filter(|(_, known)| known.reason == QuarantineReason::Damaged);
        for run in damaged.map(|(run, _)| *run).collect::<Vec<_>>() {
            let is_whole = match self.sessions.get(&run) {
                Some(session) => session.is_ok(),
                None if runs.binary_search_by_key(&run, |(run, _)| *run).is_ok() => true,
                None if resting.binary_search_by_key(&run, |(run, _)| *run).is_ok() => true,
                None => self.is_whole(run)?,
            };
            if is_whole {
                tracing::info!(%run, "a run that was damaged can be read again, and is released");
                self.writer.release(run)?;
            }
        }
        Ok(())
    }

    /// Whether a finished run, or a session, can be read from its first event on. One that is unfinished and was not read
    /// above cannot.
    fn is_whole(&self, run: RunId) -> Result<bool, StoreError> {
        let Some(row) = self.store.get_run(run)? else { return Ok(false) };
        if row.summary.finished_at.is_none() {
            return Ok(false);
        }
        if row.kind == v1::RunKind::Session as i32 {
            return Ok(read(go_on_session(self.store, run, None))?.is_ok_and(|session| session.is_some()));
        }
        Ok(read(go_on(self.store, run, None))?.is_ok())
    }
}
