//! What retention removes of a [`State`], and in which order.

use std::collections::BTreeSet;

use super::State;
use crate::port::{
    Append, BlobHash, Era, Millis, Position, REMOVED_AT_ONCE, Removal, Retention, RunId, ShardId, Swept,
};
use crate::removals::Budget;

impl State {
    pub(in crate::memory) fn sweep(&mut self, shard: ShardId, retention: &Retention) -> Swept {
        let batch = retention.batch as usize;
        let mut swept = Swept::default();
        let mut budget = Budget::new(retention.batch_bytes);
        // What the sweep before has left goes first.
        if self.remove_rows(shard, None, &mut budget) {
            swept.more = true;
            swept.next = retention.after;
        } else {
            self.sweep_finished(shard, retention, &mut swept, &mut budget);
        }
        swept.bytes = budget.bytes;
        swept.keys = self.sweep_keys(shard, retention.keys_before, batch);
        let (blobs, bytes) = self.sweep_blobs(retention);
        swept.blobs = blobs;
        swept.bytes += bytes;
        swept
    }

    /// Removes finished runs, with as many of their rows as the budget has room for.
    fn sweep_finished(
        &mut self,
        shard: ShardId,
        retention: &Retention,
        swept: &mut Swept,
        budget: &mut Budget,
    ) {
        let (mut last, mut looked_at) = (retention.after, 0);
        for (finished_at, run) in self.finished(shard) {
            if retention.after.is_some_and(|after| (finished_at, run) <= after) {
                continue;
            }
            let expired = retention.finished_before.is_some_and(|before| finished_at < before);
            let log_bytes = self.shards.get(&shard).map_or(0, |shard| shard.log_bytes);
            if !expired && retention.max_log_bytes.is_none_or(|most| log_bytes <= most) {
                break;
            }
            let is_full = swept.runs >= u64::from(retention.batch) || budget.is_spent();
            if is_full || looked_at >= retention.looked_at.max(1) {
                swept.more = retention.batch > 0;
                swept.next = last;
                break;
            }
            looked_at += 1;
            last = Some((finished_at, run));
            // What a person has forgotten stays so for as long as it can be written again.
            let is_needed =
                || self.remembered.owners_of_forgotten(run).any(|owner| self.runs.contains_key(&owner));
            if retention.keep.contains(&run) || self.is_held(run, retention.held_by) || is_needed() {
                continue;
            }
            self.remove_run(run, finished_at);
            swept.runs += 1;
            if self.remove_rows(shard, None, budget) {
                swept.more = true;
                swept.next = last;
                break;
            }
        }
    }

    /// Removes rows of removed runs, or of one of them, until the budget is spent, and returns whether some are left.
    fn remove_rows(&mut self, shard: ShardId, of: Option<RunId>, budget: &mut Budget) -> bool {
        let Some(shard) = self.shards.get_mut(&shard) else { return false };
        let (from, to) = (of.unwrap_or(RunId::MIN), of.unwrap_or(RunId::MAX));
        while let Some((place, bytes)) = shard.removing.range((from, 0)..=(to, u64::MAX)).next() {
            if budget.is_spent() {
                return true;
            }
            let (place, bytes) = (*place, *bytes);
            shard.removing.remove(&place);
            shard.log_bytes -= bytes;
            budget.spend(bytes);
        }
        false
    }

    /// Removes rows that an earlier run has left where this append of its namesake begins or ends.
    pub(super) fn make_room(&mut self, shard: ShardId, append: &Append) {
        let Some(shard) = self.shards.get_mut(&shard) else { return };
        let places = (append.run, 0)..=(append.run, append.last_seq());
        let places: Vec<(RunId, u64)> = shard.removing.range(places).map(|(place, _)| *place).collect();
        for place in places {
            shard.log_bytes -= shard.removing.remove(&place).unwrap_or(0);
        }
    }

    pub(in crate::memory) fn remove(&mut self, id: RunId, held_by: Option<u16>, at: Millis) -> Removal {
        let Some(run) = self.runs.get(&id) else { return Removal::Missing };
        let finished_at = run.row.summary.finished_at;
        if finished_at.is_none() && run.row.quarantine.is_none() {
            return Removal::Unfinished;
        }
        if self.is_held(id, held_by) {
            return Removal::Held;
        }
        let shard = run.shard;
        self.remove_run(id, finished_at.unwrap_or(at));
        // What has no room is left to the sweeps.
        let mut budget = Budget::new(REMOVED_AT_ONCE);
        self.remove_rows(shard, Some(id), &mut budget);
        Removal::Removed { bytes: budget.bytes }
    }

    /// Whether a derived row of this kind names an unfinished run.
    fn is_held(&self, run: RunId, kind: Option<u16>) -> bool {
        let unfinished = |id: &[u8]| {
            let holder = uuid::Uuid::from_slice(id).ok().and_then(|id| self.runs.get(&RunId(id)));
            holder.is_some_and(|holder| holder.row.summary.finished_at.is_none())
        };
        let rows = self.derived.of_run(run, None, usize::MAX);
        kind.is_some() && rows.iter().any(|row| Some(row.kind) == kind && unfinished(&row.key))
    }

    /// Forgets eras of which nothing is left, among the `batch` eras after `after`, once no row of a removed run is. Returns where
    /// the next sweep begins.
    pub(in crate::memory) fn sweep_eras(
        &mut self,
        shard: ShardId,
        after: Position,
        batch: usize,
    ) -> Position {
        let Some(shard) = self.shards.get_mut(&shard) else { return after };
        if !shard.removing.is_empty() {
            return after;
        }
        let eras = shard.history.eras().iter().filter(|era| era.first > after).take(batch);
        let eras: Vec<Era> = eras.copied().collect();
        for era in &eras {
            if let Some(last) = era.last
                && last < shard.removed
                && shard.log.range(era.first..=last).next().is_none()
            {
                shard.history.forget(era.first);
            }
        }
        match eras.last() {
            Some(era) if eras.len() == batch => era.first,
            None if batch == 0 => after,
            _ => Position(0),
        }
    }

    /// The finished runs, in the order in which they finished.
    fn finished(&self, shard: ShardId) -> BTreeSet<(Millis, RunId)> {
        self.runs
            .iter()
            .filter(|(_, run)| run.shard == shard)
            .filter_map(|(id, run)| run.row.summary.finished_at.map(|finished_at| (finished_at, *id)))
            .collect()
    }

    /// Removes everything about a run except its key, and the bytes of its rows, which nobody reads any more.
    fn remove_run(&mut self, id: RunId, finished_at: Millis) {
        let Some(run) = self.runs.remove(&id) else { return };
        if let Some(shard) = self.shards.get_mut(&run.shard) {
            let mut last = Position(0);
            for (first_seq, position) in &run.rows {
                let bytes = shard.log.remove(position).map_or(0, |row| row.events.len() as u64);
                shard.removing.insert((id, *first_seq), bytes);
                last = last.max(*position);
            }
            shard.removed = shard.removed.max(last);
            shard.removals = shard.removals.with(id, last);
        }
        let shard = run.shard;
        if let Some(key) = run.key.and_then(|key| self.keys.get_mut(&(shard, key))) {
            key.retired = Some(finished_at);
        }
        self.snapshots.remove(&id);
        self.blob_refs.retain(|(_, run)| *run != id);
        self.derived.remove(id);
        self.remembered.remove(id);
    }

    fn sweep_keys(&mut self, shard: ShardId, before: Millis, batch: usize) -> u64 {
        let mut expired = BTreeSet::new();
        for ((of, bytes), key) in &self.keys {
            if *of != shard || key.registered {
                continue;
            }
            // Keys of removed runs come first.
            let (run_kept, finished_at) = match (key.retired, self.runs.get(&key.run)) {
                (Some(finished_at), _) => (false, finished_at),
                (None, Some(run)) => match run.row.summary.finished_at {
                    Some(finished_at) => (true, finished_at),
                    None => continue,
                },
                (None, None) => continue,
            };
            if finished_at < before {
                expired.insert((run_kept, finished_at, key.run, bytes.clone()));
            }
        }
        let mut removed = 0;
        for (_, _, run, key) in expired.into_iter().take(batch) {
            if let Some(run) = self.runs.get_mut(&run)
                && run.key.as_ref() == Some(&key)
            {
                run.key = None;
            }
            self.keys.remove(&(shard, key));
            let keys_removed = &mut self.shards.entry(shard).or_default().keys_removed;
            *keys_removed = (*keys_removed).max(Some(run));
            removed += 1;
        }
        removed
    }

    fn sweep_blobs(&mut self, retention: &Retention) -> (u64, u64) {
        let unreferenced: BTreeSet<(Millis, BlobHash)> = self
            .blobs
            .iter()
            .filter(|(_, blob)| blob.put_at < retention.blobs_before)
            .filter(|(hash, _)| {
                self.blob_refs.range((**hash, RunId::MIN)..=(**hash, RunId::MAX)).next().is_none()
            })
            .map(|(hash, blob)| (blob.put_at, *hash))
            .collect();
        let (mut removed, mut bytes) = (0, 0);
        for (_, hash) in unreferenced.into_iter().take(retention.batch as usize) {
            if removed > 0 && bytes >= retention.batch_bytes {
                break;
            }
            bytes += self.blobs.remove(&hash).map_or(0, |blob| blob.content.len() as u64);
            removed += 1;
        }
        (removed, bytes)
    }
}
