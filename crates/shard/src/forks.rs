//! Where a run may be forked: after events with which a row of its log ends, for what was decided together is forked together.

use capataz_contracts::v1;
use capataz_crew::protocol::{place, placed};
use capataz_engine::RunState;
use capataz_store::{Extent, RunId, Store};

use crate::load::{Damage, LoadError, add_to_run, page, read_until};

/// Bytes of events that a fork has of another run at most: they are copied in one commit, for which all others wait.
pub const MAX_PAST_BYTES: u64 = 32 * 1024 * 1024;

/// The id of a fork, out of one that was drawn: in the shard of the run that it is forked from, whose rows are copied there.
#[must_use]
pub fn fork_id(drawn: RunId, of: RunId) -> RunId {
    placed(drawn, place(of))
}

/// Events of a run that were decided together, and what it costs to copy them with all before them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Together {
    pub first: u64,
    pub last: u64,
    /// Bytes of the run's events up to the last of these.
    pub bytes: u64,
}

/// The events of the run that were decided together with event `at`; `None` where a fork may not have so much of the run.
///
/// # Errors
/// The store cannot be read, or the log is damaged: it has no such event.
pub fn decided_together(store: &dyn Store, run: RunId, at: u64) -> Result<Option<Together>, LoadError> {
    // Whether all of it is there and whole, `whole_until` finds out.
    let Extent { first, last, bytes } =
        store.extent(run, at)?.ok_or_else(|| LoadError::Damaged(Damage::of_nothing(run)))?;
    Ok((bytes <= MAX_PAST_BYTES).then_some(Together { first, last, bytes }))
}

/// Reads all of the run's log up to event `at`: what is damaged is found here, by a reader, and not where it is copied, in a
/// commit of others too.
///
/// # Errors
/// The store cannot be read, or the log is damaged.
pub fn whole_until(store: &dyn Store, run: RunId, at: u64) -> Result<(), LoadError> {
    each_row(store, run, at, |_| ())
}

/// The newest event at or before `at` after which the run may be forked; `None` where there is none.
///
/// # Errors
/// The store cannot be read, or the log is damaged.
pub fn newest_fork(store: &dyn Store, run: RunId, at: u64) -> Result<Option<u64>, LoadError> {
    let mut ends = Vec::new();
    each_row(store, run, at, |row| ends.extend(Some(row.last).filter(|last| *last <= at)))?;
    let Some(until) = ends.last().copied() else { return Ok(None) };
    let mut ends = ends.into_iter().peekable();
    let mut newest = None;
    read_until(store, run, None, 0, until, |state: Option<RunState>, event: v1::Event| match state {
        Some(state) if event.seq > until => Ok(state),
        state => {
            let state = add_to_run(run, state, event)?;
            if ends.next_if_eq(&state.seq()).is_some() && state.may_be_forked() {
                newest = Some(state.seq());
            }
            Ok(state)
        }
    })?;
    Ok(newest)
}

/// Calls the function with each row of the log that begins at or before event `at`, as long as a fork may have so much.
fn each_row(
    store: &dyn Store,
    run: RunId,
    at: u64,
    mut function: impl FnMut(Together),
) -> Result<(), LoadError> {
    let (mut seq, mut bytes) = (0u64, 0u64);
    while seq < at {
        let rows = page(store, run, seq)?;
        if rows.is_empty() {
            break;
        }
        for row in rows.iter().take_while(|row| row.first_seq <= at) {
            let damage = || LoadError::Damaged(Damage::of_row(row, seq));
            let events = row.events.as_ref().ok_or_else(damage)?;
            let last = row.first_seq.saturating_add(row.count.into()).saturating_sub(1);
            if last <= seq {
                return Err(damage());
            }
            bytes = bytes.saturating_add(events.len() as u64);
            if bytes > MAX_PAST_BYTES {
                return Ok(());
            }
            function(Together { first: row.first_seq, last, bytes });
            seq = last;
        }
    }
    Ok(())
}
