//! Reading a run, or a session, from its log. That the log is damaged is an outcome of its own: it concerns this run and no
//! other, and a store that cannot be read concerns all.

use std::panic::{AssertUnwindSafe, catch_unwind};

use capataz_contracts::v1;
use capataz_engine::session::SessionState;
use capataz_engine::{RunState, SNAPSHOT_FORMAT};
use capataz_store::{
    LogRow, Millis, Position, Quarantine, QuarantineReason, RunId, Snapshot, Store, StoreError,
};
use prost::Message;

use crate::feed::events_of;
use crate::sessions::SESSION_SNAPSHOT_FORMAT;
use crate::shard::seed_of;

/// Rows and bytes that one read of the log takes at most.
const PAGE_ROWS: usize = 512;
const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// What is wrong with a run's log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, serde::Serialize, serde::Deserialize)]
#[error("{} after event {seq}: {detail}", match reason {
    QuarantineReason::Damaged => format!("the log of run {run} is damaged"),
    QuarantineReason::Panicked | QuarantineReason::Conflicted => format!("run {run} cannot be worked on"),
})]
pub struct Damage {
    pub run: RunId,
    pub reason: QuarantineReason,
    /// The number of the last event that is known to be whole; 0 if there is none.
    pub seq: u64,
    /// The position of the row that is wrong, where there is one.
    pub position: Option<Position>,
    /// An explanation for people.
    pub detail: String,
}

/// Why a run was not read.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error(transparent)]
    Damaged(Damage),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Damage {
    /// The row, or what should be in its place, cannot be read as it was written.
    pub(crate) fn of_row(row: &LogRow, seq: u64) -> Self {
        let missing = row.position == Position(0);
        let what = if missing { "are missing" } else { "are not what was written" };
        Self {
            run: row.run,
            reason: QuarantineReason::Damaged,
            seq,
            position: (!missing).then_some(row.position),
            detail: format!("the events from {} on {what}", seq.saturating_add(1)),
        }
    }

    /// There are no events at all.
    pub(crate) fn of_nothing(run: RunId) -> Self {
        let detail = "there are no events".to_owned();
        Self { run, reason: QuarantineReason::Damaged, seq: 0, position: None, detail }
    }

    /// What the store puts down.
    #[must_use]
    pub fn quarantine(&self, at: Millis) -> Quarantine {
        Quarantine {
            reason: self.reason,
            seq: self.seq,
            position: self.position,
            detail: self.detail.clone(),
            at,
        }
    }

    /// What the store has put down.
    #[must_use]
    pub fn of_quarantine(run: RunId, quarantine: &Quarantine) -> Self {
        Self {
            run,
            reason: quarantine.reason,
            seq: quarantine.seq,
            position: quarantine.position,
            detail: quarantine.detail.clone(),
        }
    }
}

/// Reads a run: its snapshot, where there is one of this format, and the events after it.
///
/// # Errors
/// The store cannot be read, or the log is damaged.
pub fn load(store: &dyn Store, run: RunId) -> Result<RunState, LoadError> {
    let snapshot = snapshot_of(store, run, SNAPSHOT_FORMAT)?;
    go_on(store, run, snapshot.and_then(|snapshot| state_of(&snapshot)))
}

fn state_of(snapshot: &Snapshot) -> Option<RunState> {
    RunState::from_snapshot(&snapshot.state).ok().filter(|state| state.seq() == snapshot.seq)
}

/// The run's snapshot, if it is of this format and of nothing that the log does not have: events that are not there, or no
/// more, as after a restored backup, nobody has decided.
fn snapshot_of(store: &dyn Store, run: RunId, format: u32) -> Result<Option<Snapshot>, StoreError> {
    let Some(snapshot) = store.snapshot(run)?.filter(|snapshot| snapshot.format == format) else {
        return Ok(None);
    };
    let last_seq = store.get_run(run)?.map_or(0, |row| row.last_seq);
    if snapshot.seq > last_seq {
        tracing::warn!(%run, snapshot = snapshot.seq, last_seq, "a snapshot is ahead of the log, and is not used");
        return Ok(None);
    }
    Ok(Some(snapshot))
}

/// Reads on from a state of the run; `None` begins with its first event.
///
/// # Errors
/// The store cannot be read, or the log is damaged.
pub fn go_on(store: &dyn Store, run: RunId, state: Option<RunState>) -> Result<RunState, LoadError> {
    let seq = state.as_ref().map_or(0, RunState::seq);
    let state = read_on(store, run, state, seq, |state, event| add_to_run(run, state, event))?;
    let mut state = state.ok_or_else(|| LoadError::Damaged(Damage::of_nothing(run)))?;
    state.loaded();
    Ok(state)
}

/// Reads a run, from `state` on where there is one, as long as its state has no more than so many bytes; `None` where it is
/// larger. At most a page of the log is read beyond that.
///
/// # Errors
/// The store cannot be read, or the log is damaged.
pub fn load_within(
    store: &dyn Store,
    run: RunId,
    state: Option<RunState>,
    max_bytes: u64,
) -> Result<Option<RunState>, LoadError> {
    load_until(store, run, state, u64::MAX, max_bytes)
}

/// Reads a run as it was after event `at`, which there is; else as [`load_within`].
///
/// # Errors
/// The store cannot be read, or the log is damaged.
pub fn load_at(
    store: &dyn Store,
    run: RunId,
    at: u64,
    max_bytes: u64,
) -> Result<Option<RunState>, LoadError> {
    load_until(store, run, None, at, max_bytes)
}

fn load_until(
    store: &dyn Store,
    run: RunId,
    state: Option<RunState>,
    until: u64,
    max_bytes: u64,
) -> Result<Option<RunState>, LoadError> {
    let is_small = |state: &RunState| state.bytes() <= max_bytes;
    let mut state = match state {
        Some(state) => Some(state),
        None => match snapshot_of(store, run, SNAPSHOT_FORMAT)?.filter(|snapshot| snapshot.seq <= until) {
            Some(snapshot) if snapshot.state.len() as u64 > max_bytes => return Ok(None),
            snapshot => snapshot.and_then(|snapshot| state_of(&snapshot)),
        },
    };
    let mut seq = state.as_ref().map_or(0, RunState::seq);
    while state.as_ref().is_none_or(is_small) {
        let mut add = |state: Option<RunState>, event: v1::Event| match state {
            Some(state) if event.seq > until => Ok(state),
            state => add_to_run(run, state, event),
        };
        if seq >= until || !read_page(store, run, &mut state, &mut seq, &mut add)? {
            let mut state = state.ok_or_else(|| LoadError::Damaged(Damage::of_nothing(run)))?;
            state.loaded();
            return Ok(Some(state));
        }
    }
    Ok(None)
}

/// Folds one event of a run, the first one where there is no state yet.
pub(crate) fn add_to_run(run: RunId, state: Option<RunState>, event: v1::Event) -> Result<RunState, String> {
    match state {
        None => RunState::fold(seed_of(run), [event]).map_err(|corrupt| corrupt.to_string()),
        Some(mut state) => match state.apply(event) {
            Ok(()) => Ok(state),
            Err(corrupt) => Err(corrupt.to_string()),
        },
    }
}

/// Reads a session by its stream; `None` where nothing was ever said in it.
///
/// # Errors
/// The store cannot be read, or the log is damaged.
pub fn load_session(store: &dyn Store, stream: RunId) -> Result<Option<SessionState>, LoadError> {
    let snapshot = snapshot_of(store, stream, SESSION_SNAPSHOT_FORMAT)?;
    let state = snapshot.and_then(|snapshot| {
        SessionState::from_snapshot(&snapshot.state).ok().filter(|state| state.seq() == snapshot.seq)
    });
    go_on_session(store, stream, state)
}

/// Reads a session that somebody wants to work in: one in quarantine is damaged, whatever can be read of it.
///
/// # Errors
/// As [`load_session`].
pub fn take_up_session(store: &dyn Store, stream: RunId) -> Result<Option<SessionState>, LoadError> {
    match store.get_run(stream)?.and_then(|row| row.quarantine) {
        Some(quarantine) => Err(LoadError::Damaged(Damage::of_quarantine(stream, &quarantine))),
        None => load_session(store, stream),
    }
}

/// Reads on from a state of the session; `None` begins with its first event.
///
/// # Errors
/// The store cannot be read, or the log is damaged.
pub(crate) fn go_on_session(
    store: &dyn Store,
    stream: RunId,
    state: Option<SessionState>,
) -> Result<Option<SessionState>, LoadError> {
    let seq = state.as_ref().map_or(0, SessionState::seq);
    read_on(store, stream, state, seq, add_to_session)
}

/// Folds one event of a session, the first one where there is no state yet.
pub(crate) fn add_to_session(state: Option<SessionState>, event: v1::Event) -> Result<SessionState, String> {
    match state {
        None => SessionState::fold([event]).map_err(|corrupt| corrupt.to_string()),
        Some(mut state) => match state.apply(event) {
            Ok(()) => Ok(state),
            Err(corrupt) => Err(corrupt.to_string()),
        },
    }
}

/// Adds to a state the events of the run after number `seq`, one after the other.
pub(crate) fn read_on<S>(
    store: &dyn Store,
    run: RunId,
    state: Option<S>,
    seq: u64,
    add: impl FnMut(Option<S>, v1::Event) -> Result<S, String>,
) -> Result<Option<S>, LoadError> {
    read_until(store, run, state, seq, u64::MAX, add)
}

/// As [`read_on`], up to event `until` and the page of the log that it is in.
pub(crate) fn read_until<S>(
    store: &dyn Store,
    run: RunId,
    mut state: Option<S>,
    mut seq: u64,
    until: u64,
    mut add: impl FnMut(Option<S>, v1::Event) -> Result<S, String>,
) -> Result<Option<S>, LoadError> {
    while seq < until && read_page(store, run, &mut state, &mut seq, &mut add)? {}
    Ok(state)
}

/// A page of the log of the run, after event `seq`.
pub(crate) fn page(store: &dyn Store, run: RunId, seq: u64) -> Result<Vec<LogRow>, LoadError> {
    match store.read_run(run, seq, PAGE_ROWS, PAGE_BYTES) {
        // The store has met this while it read the rows of this run.
        Err(StoreError::Corrupt { detail }) => {
            let reason = QuarantineReason::Damaged;
            Err(LoadError::Damaged(Damage { run, reason, seq, position: None, detail }))
        }
        rows => Ok(rows?),
    }
}

/// Adds a page of the log to the state. Returns whether there was one.
fn read_page<S>(
    store: &dyn Store,
    run: RunId,
    state: &mut Option<S>,
    seq: &mut u64,
    add: &mut impl FnMut(Option<S>, v1::Event) -> Result<S, String>,
) -> Result<bool, LoadError> {
    let before = *seq;
    let rows = page(store, run, before)?;
    let Some(last) = rows.last() else { return Ok(false) };
    for row in &rows {
        let damage = |seq, reason, detail| {
            LoadError::Damaged(Damage { run, reason, seq, position: Some(row.position), detail })
        };
        let events = events_of(row, *seq).map_err(|damage| LoadError::Damaged(Damage { run, ..damage }))?;
        for event in events {
            let event = v1::Event::decode(event)
                .map_err(|error| damage(*seq, QuarantineReason::Damaged, error.to_string()))?;
            if event.seq <= *seq {
                continue;
            }
            let next = event.seq;
            let earlier = state.take();
            *state = match contained(|| add(earlier, event)) {
                Ok(Ok(state)) => Some(state),
                Ok(Err(detail)) => return Err(damage(*seq, QuarantineReason::Damaged, detail)),
                Err(detail) => return Err(damage(*seq, QuarantineReason::Panicked, detail)),
            };
            *seq = next;
        }
    }
    if *seq == before {
        // Rows without what they are said to contain: reading them again would not end.
        let detail = format!("the row has no event after {before}");
        let reason = QuarantineReason::Damaged;
        let position = Some(last.position);
        return Err(LoadError::Damaged(Damage { run, reason, seq: before, position, detail }));
    }
    Ok(true)
}

/// Calls the function, and returns what it panicked with, where it does. What it has changed by then is to be thrown away.
pub(crate) fn contained<T>(function: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(function)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        format!("a panic: {}", text.as_deref().unwrap_or("without a message"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_told_with_its_message() {
        assert_eq!(contained(|| 1), Ok(1));
        assert_eq!(contained(|| -> u32 { panic!("out of order") }), Err("a panic: out of order".to_owned()));
        assert_eq!(contained(|| -> u32 { panic!("at {}", 7) }), Err("a panic: at 7".to_owned()));
    }
}
