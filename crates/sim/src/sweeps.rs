//! Retention's sweeps: one at a time, in parts that follow one another as those of the daemon's runtime do.

use std::collections::BTreeMap;

use capataz_shard::{Ages, Input, Sweeping};
use capataz_store::{
    Mark, MemoryStore, Millis, Retention, RunId, RunQuery, RunRow, ShardId, Store, StoreError, Swept,
};

use crate::disk::store_failed;
use crate::invariant::{Invariant, Violation};
use crate::world::World;

/// The mark under which copies of the store are claimed, which no claim of a world has.
const OF_A_COPY: Mark = Mark(u32::MAX);

/// A sweep.
#[derive(Debug)]
pub(crate) struct Round {
    shard: ShardId,
    ages: Ages,
    sweeping: Sweeping,
    /// Whether it goes on until nothing is due.
    is_whole: bool,
    /// What all of its parts remove, and keep, since one has begun with the run that finished first; and the runs that were due
    /// when that one began.
    rule: Option<Retention>,
    due: BTreeMap<RunId, RunRow>,
}

impl Round {
    /// The writer begins with a part.
    pub(crate) fn part_begins(&mut self, part: &Retention, store: &MemoryStore) -> Result<(), StoreError> {
        if !self.is_whole {
            return Ok(());
        }
        match &mut self.rule {
            Some(rule) if part.after.is_some() => {
                rule.keep.extend(part.keep.iter().copied());
                rule.finished_before = rule.finished_before.min(part.finished_before);
            }
            _ => {
                self.due = due(store, self.shard, part)?;
                self.rule = Some(part.clone());
            }
        }
        Ok(())
    }

    /// The runs that have been due for all of its parts, as they are now, and are there.
    fn left(&self, store: &MemoryStore) -> Result<Vec<RunId>, StoreError> {
        let Some(rule) = &self.rule else { return Ok(Vec::new()) };
        let still = due(store, self.shard, rule)?;
        Ok(still
            .into_iter()
            .filter(|(run, row)| self.due.get(run) == Some(row))
            .map(|(run, _)| run)
            .collect())
    }
}

/// The runs that a sweep without bounds would remove now.
fn due(store: &MemoryStore, shard: ShardId, rule: &Retention) -> Result<BTreeMap<RunId, RunRow>, StoreError> {
    let copy = store.checkpoint();
    let mut there = rows(&copy)?;
    let without_bounds = Retention {
        after: None,
        looked_at: u32::MAX,
        keys_before: Millis(i64::MIN),
        blobs_before: Millis(i64::MIN),
        batch: u32::MAX,
        batch_bytes: u64::MAX,
        ..rule.clone()
    };
    copy.claim(shard, OF_A_COPY)?.sweep(&without_bounds)?;
    let left = rows(&copy)?;
    there.retain(|run, _| !left.contains_key(run));
    Ok(there)
}

fn rows(store: &MemoryStore) -> Result<BTreeMap<RunId, RunRow>, StoreError> {
    let all = RunQuery { limit: u32::MAX, ..RunQuery::default() };
    Ok(store.list_runs(&all)?.into_iter().map(|row| (row.run, row)).collect())
}

impl World {
    /// Somebody wants a sweep, and waits for it.
    pub(crate) fn sweep_begins(
        &mut self,
        shard: ShardId,
        rule: Retention,
        ages: Ages,
        is_whole: bool,
    ) -> Result<(), Violation> {
        let sweeping = Sweeping::new(rule);
        self.round = Some(Round { shard, ages, sweeping, is_whole, rule: None, due: BTreeMap::new() });
        self.ask_for_part()
    }

    fn ask_for_part(&mut self) -> Result<(), Violation> {
        let Some(round) = &self.round else { return Ok(()) };
        let (shard, ages) = (round.shard, round.ages);
        let retention = Box::new(round.sweeping.part().clone());
        self.deliver(Input::Sweep { shard, retention, ages })
    }

    /// Whoever waits for the sweep hears of the end of a part.
    pub(crate) fn part_ended(&mut self, swept: &Result<Swept, StoreError>) -> Result<(), Violation> {
        let Some(mut round) = self.round.take() else { return Ok(()) };
        let Ok(swept) = swept else { return Ok(()) };
        if !round.is_whole {
            return Ok(());
        }
        if round.sweeping.goes_on(swept) {
            self.round = Some(round);
            return self.ask_for_part();
        }
        let left = round.left(&self.disk.store).map_err(|error| store_failed(&error))?;
        // A child stays while its parent is unfinished, which one that goes back is again for a time. Sessions may have been in use.
        let is_free = |run: &&RunId| self.model.run(**run).is_some_and(|run| run.parent.is_none());
        let left: Vec<&RunId> = left.iter().filter(is_free).collect();
        Invariant::SweepsGoOn.check(left.is_empty(), || format!("{left:?} are left by a sweep that is over"))
    }
}
