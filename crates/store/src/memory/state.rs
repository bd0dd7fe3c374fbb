//! The content of a [`super::MemoryStore`]: a plain value, which is cloned to model a crash.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use bytes::Bytes;

use super::remembered::Entries;
use super::rows::Rows;
use crate::checksum::{self, Sealed};
use crate::page::Page;
use crate::port::{
    AgentRow, Append, AppendOutcome, BlobHash, Bounds, Derived, DerivedRow, Epoch, Extent, History,
    IdempotencyKey, KeyChange, KeyRow, LogRow, Mark, Mended, Millis, Past, Place, Position, Quarantine,
    Removals, Rest, RunId, RunQuery, RunRow, ShardId, Snapshot, Summary, Unfinished, Unmarked,
};

mod retention;

#[derive(Clone, Debug, Default)]
pub(super) struct State {
    shards: BTreeMap<ShardId, Shard>,
    runs: BTreeMap<RunId, Run>,
    /// By the shard that knows them: each for itself.
    keys: BTreeMap<(ShardId, Bytes), Key>,
    /// Snapshots with their checksums.
    snapshots: BTreeMap<RunId, (Snapshot, u32)>,
    pub(super) agents: BTreeMap<String, AgentRow>,
    blobs: BTreeMap<BlobHash, Blob>,
    blob_refs: BTreeSet<(BlobHash, RunId)>,
    derived: Rows,
    pub(super) remembered: Entries,
}

#[derive(Clone, Debug, Default)]
struct Shard {
    epoch: u64,
    history: History,
    log: BTreeMap<Position, Stored>,
    /// The bytes of the rows of removed runs that are still to go, by the runs and the numbers of their first events.
    removing: BTreeMap<(RunId, u64), u64>,
    /// The bytes of all events, those of removed rows among them until they are gone.
    log_bytes: u64,
    newest: Position,
    removed: Position,
    /// The greatest id of a run whose key was removed.
    keys_removed: Option<RunId>,
    removals: Removals,
    readings: Option<Bytes>,
}

/// A row of the log, as it is kept.
#[derive(Clone, Debug)]
struct Stored {
    run: RunId,
    first_seq: u64,
    count: u32,
    events: Bytes,
    inherited: bool,
    checksum: u32,
}

impl Stored {
    fn checksum_at(&self, position: Position) -> u32 {
        let Self { run, first_seq, count, inherited, .. } = *self;
        Sealed { position, run, first_seq, count, events: &self.events, inherited }.checksum()
    }

    fn read(&self, position: Position) -> LogRow {
        let Self { run, first_seq, count, inherited, .. } = *self;
        let whole = self.checksum_at(position) == self.checksum;
        LogRow { position, run, first_seq, count, events: whole.then(|| self.events.clone()), inherited }
    }
}

#[derive(Clone, Debug)]
struct Run {
    shard: ShardId,
    row: RunRow,
    rest: Option<Rest>,
    key: Option<Bytes>,
    /// The position of each of the run's rows, by the row's first sequence number.
    rows: BTreeMap<u64, Position>,
}

#[derive(Clone, Debug)]
struct Key {
    run: RunId,
    request: [u8; 32],
    /// The time when the key's run finished; set once retention has removed the run.
    retired: Option<Millis>,
    /// It names a run of another shard.
    registered: bool,
}

#[derive(Clone, Debug)]
struct Blob {
    content: Bytes,
    put_at: Millis,
}

impl State {
    pub(super) fn claim(&mut self, shard: ShardId, mark: Mark) -> Result<Epoch, Unmarked> {
        let shard = self.shards.entry(shard).or_default();
        shard.history.begin(mark, shard.newest)?;
        shard.epoch += 1;
        Ok(Epoch(shard.epoch))
    }

    pub(super) fn history(&self, shard: ShardId) -> History {
        self.shards.get(&shard).map(|shard| shard.history.clone()).unwrap_or_default()
    }

    pub(super) fn damage(&mut self, shard: ShardId, position: Position) -> bool {
        let row = self.shards.get_mut(&shard).and_then(|shard| shard.log.get_mut(&position));
        row.map(|row| row.checksum ^= 1).is_some()
    }

    pub(super) fn damage_snapshot(&mut self, run: RunId) -> bool {
        self.snapshots.get_mut(&run).map(|(_, checksum)| *checksum ^= 1).is_some()
    }

    pub(super) fn epoch(&self, shard: ShardId) -> Epoch {
        Epoch(self.shards.get(&shard).map_or(0, |shard| shard.epoch))
    }

    /// Appends either all of `group` or nothing.
    pub(super) fn append_group(&mut self, shard: ShardId, group: &[Append]) -> Vec<AppendOutcome> {
        match group.iter().find_map(|append| self.refusal(shard, append)) {
            Some(refusal) => vec![refusal; group.len()],
            None => group.iter().map(|append| self.append(shard, append)).collect(),
        }
    }

    /// The outcome with which an append would be refused now; `None` if it would be accepted.
    fn refusal(&self, shard: ShardId, append: &Append) -> Option<AppendOutcome> {
        if !append.is_well_formed() {
            return Some(AppendOutcome::Conflict);
        }
        if let Some(change) = &append.key {
            return match change {
                KeyChange::Register(key) => self.key_taken(shard, key),
                KeyChange::Release(_) => None,
            };
        }
        let Some(create) = &append.create else {
            let fits = self
                .runs
                .get(&append.run)
                .is_some_and(|run| run.shard == shard && run.row.last_seq + 1 == append.first_seq);
            return (!fits).then_some(AppendOutcome::Conflict);
        };
        let taken = create.key.as_ref().and_then(|key| self.key_taken(shard, key));
        let exists = || self.runs.contains_key(&append.run).then_some(AppendOutcome::Conflict);
        let is_gone = |past: Past| self.past(shard, past).is_none().then_some(AppendOutcome::PastGone);
        taken.or_else(exists).or_else(|| create.past.and_then(is_gone))
    }

    /// The rows of a past; `None` where they are not there, are not whole, or do not end with its event.
    fn past(&self, shard: ShardId, past: Past) -> Option<Vec<Stored>> {
        let run = self.runs.get(&past.of).filter(|run| run.shard == shard)?;
        let log = &self.shards.get(&shard)?.log;
        let mut rows = Vec::new();
        let mut next = 1;
        for (first_seq, position) in run.rows.range(..=past.seq) {
            let row = log.get(position).filter(|row| row.checksum_at(*position) == row.checksum)?;
            if *first_seq != next {
                return None;
            }
            next += u64::from(row.count);
            rows.push(row.clone());
        }
        (past.seq > 0 && next == past.seq + 1).then_some(rows)
    }

    fn key_taken(&self, shard: ShardId, key: &IdempotencyKey) -> Option<AppendOutcome> {
        let taken = self.keys.get(&(shard, key.key.clone()))?;
        Some(AppendOutcome::KeyTaken { run: taken.run, same_request: taken.request == key.request })
    }

    fn change_key(&mut self, shard: ShardId, run: RunId, change: &KeyChange) -> AppendOutcome {
        match change {
            KeyChange::Register(IdempotencyKey { key, request }) => {
                let entry = Key { run, request: *request, retired: None, registered: true };
                self.keys.insert((shard, key.clone()), entry);
            }
            KeyChange::Release(key) => {
                let place = (shard, key.clone());
                if self.keys.get(&place).is_some_and(|key| key.registered && key.run == run) {
                    self.keys.remove(&place);
                }
            }
        }
        AppendOutcome::Committed(self.bounds(shard).newest)
    }

    pub(super) fn key(&self, shard: ShardId, key: &[u8]) -> Option<KeyRow> {
        let key = self.keys.get(&(shard, Bytes::copy_from_slice(key)))?;
        Some(KeyRow { run: key.run, request: key.request })
    }

    pub(super) fn keys(&self, shard: ShardId, after: Option<&[u8]>, limit: usize) -> Vec<(Bytes, RunId)> {
        let start = match after {
            Some(after) => Bound::Excluded((shard, Bytes::copy_from_slice(after))),
            None => Bound::Included((shard, Bytes::new())),
        };
        let keys = self.keys.range((start, Bound::Unbounded)).take_while(|((of, _), _)| *of == shard);
        keys.take(limit).map(|((_, bytes), key)| (bytes.clone(), key.run)).collect()
    }

    pub(super) fn keys_removed(&self, shard: ShardId) -> Option<RunId> {
        self.shards.get(&shard)?.keys_removed
    }

    fn append(&mut self, shard: ShardId, append: &Append) -> AppendOutcome {
        if let Some(change) = &append.key {
            return self.change_key(shard, append.run, change);
        }
        self.make_room(shard, append);
        if let Some(create) = &append.create {
            if let Some(key) = &create.key {
                let entry = Key { run: append.run, request: key.request, retired: None, registered: false };
                self.keys.insert((shard, key.key.clone()), entry);
            }
            let row = RunRow {
                run: append.run,
                kind: create.kind,
                name: create.name.clone(),
                labels: create.labels.clone(),
                created_at: create.created_at,
                summary: Summary { updated_at: create.created_at, ..Summary::default() },
                last_seq: 0,
                quarantine: None,
            };
            let key = create.key.as_ref().map(|key| key.key.clone());
            self.runs.insert(append.run, Run { shard, row, key, rest: None, rows: BTreeMap::new() });
            if let Some(past) = create.past {
                for row in self.past(shard, past).unwrap_or_default() {
                    self.insert_row(shard, Stored { run: append.run, inherited: true, ..row });
                }
                let named = self.blob_refs.iter().filter(|(_, run)| *run == past.of);
                let named: Vec<BlobHash> = named.map(|(blob, _)| *blob).collect();
                self.blob_refs.extend(named.into_iter().map(|blob| (blob, append.run)));
            }
        }
        let Some(run) = self.runs.get_mut(&append.run) else { return AppendOutcome::Conflict };
        if run.shard != shard || run.row.last_seq + 1 != append.first_seq {
            return AppendOutcome::Conflict;
        }
        run.rest = append.rest;
        if let Some(summary) = &append.summary {
            run.row.summary = summary.clone();
        }
        let position = self.insert_row(
            shard,
            Stored {
                run: append.run,
                first_seq: append.first_seq,
                count: append.count,
                events: append.events.clone(),
                inherited: false,
                checksum: 0,
            },
        );
        self.blob_refs.extend(append.blobs.iter().map(|blob| (*blob, append.run)));
        self.derived.insert(append.run, &append.derived);
        self.remembered.write(append.run, &append.memory);
        AppendOutcome::Committed(position)
    }

    /// Adds a row to the end of the shard's log, and to its run.
    fn insert_row(&mut self, shard: ShardId, row: Stored) -> Position {
        let shard = self.shards.entry(shard).or_default();
        shard.newest.0 += 1;
        let position = shard.newest;
        shard.log_bytes += row.events.len() as u64;
        if let Some(run) = self.runs.get_mut(&row.run) {
            run.rows.insert(row.first_seq, position);
            run.row.last_seq = row.first_seq + u64::from(row.count) - 1;
        }
        shard.log.insert(position, Stored { checksum: row.checksum_at(position), ..row });
        position
    }

    pub(super) fn put_snapshot(&mut self, run: RunId, snapshot: &Snapshot) {
        if self.runs.contains_key(&run) {
            self.snapshots.insert(run, (snapshot.clone(), checksum::of_snapshot(run, snapshot)));
        }
    }

    pub(super) fn snapshot(&self, run: RunId) -> Option<Snapshot> {
        let (snapshot, checksum) = self.snapshots.get(&run)?;
        (checksum::of_snapshot(run, snapshot) == *checksum).then(|| snapshot.clone())
    }

    pub(super) fn quarantine(&mut self, run: RunId, quarantine: &Quarantine) {
        if let Some(run) = self.runs.get_mut(&run) {
            run.row.quarantine = Some(quarantine.clone());
        }
    }

    pub(super) fn release(&mut self, run: RunId) -> bool {
        self.runs.get_mut(&run).is_some_and(|run| run.row.quarantine.take().is_some())
    }

    pub(super) fn quarantined(
        &self,
        shard: ShardId,
        after: Option<RunId>,
        limit: usize,
    ) -> Vec<(RunId, Quarantine)> {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.runs
            .range((start, Bound::Unbounded))
            .filter(|(_, run)| run.shard == shard)
            .filter_map(|(id, run)| run.row.quarantine.clone().map(|quarantine| (*id, quarantine)))
            .take(limit)
            .collect()
    }

    pub(super) fn read_log(
        &self,
        shard: ShardId,
        after: Position,
        max_rows: usize,
        max_bytes: usize,
    ) -> Vec<LogRow> {
        let mut page = Page::new(max_rows, max_bytes);
        let Some(shard) = self.shards.get(&shard) else { return page.into_rows() };
        for (position, row) in shard.log.range((Bound::Excluded(after), Bound::Unbounded)) {
            if !page.admits(row.events.len()) {
                break;
            }
            page.push(row.read(*position), row.events.len());
        }
        page.into_rows()
    }

    pub(super) fn extent(&self, run: RunId, seq: u64) -> Option<Extent> {
        let run = self.runs.get(&run)?;
        let shard = self.shards.get(&run.shard)?;
        let rows: Vec<&Stored> =
            run.rows.range(..=seq).filter_map(|(_, position)| shard.log.get(position)).collect();
        let row = rows.last()?;
        let last = (row.first_seq + u64::from(row.count)).saturating_sub(1);
        let bytes = rows.iter().map(|row| row.events.len() as u64).sum();
        (last >= seq).then_some(Extent { first: row.first_seq, last, bytes })
    }

    pub(super) fn read_run(
        &self,
        run: RunId,
        after_seq: u64,
        max_rows: usize,
        max_bytes: usize,
    ) -> Vec<LogRow> {
        let mut page = Page::new(max_rows, max_bytes);
        let Some(run) = self.runs.get(&run) else { return page.into_rows() };
        let Some(shard) = self.shards.get(&run.shard) else { return page.into_rows() };
        let first_row =
            run.rows.range(..=after_seq.saturating_add(1)).next_back().map_or(0, |(first_seq, _)| *first_seq);
        for (_, position) in run.rows.range(first_row..) {
            let Some(row) = shard.log.get(position) else { continue };
            if row.first_seq + u64::from(row.count) - 1 <= after_seq {
                continue;
            }
            if !page.admits(row.events.len()) {
                break;
            }
            page.push(row.read(*position), row.events.len());
        }
        page.into_rows()
    }

    pub(super) fn bounds(&self, shard: ShardId) -> Bounds {
        self.shards
            .get(&shard)
            .map(|shard| Bounds {
                newest: shard.newest,
                removed: shard.removed,
                removals: shard.removals,
                bytes: shard.log_bytes,
            })
            .unwrap_or_default()
    }

    pub(super) fn readings(&self, shard: ShardId) -> Option<Bytes> {
        self.shards.get(&shard)?.readings.clone()
    }

    pub(super) fn put_readings(&mut self, shard: ShardId, readings: &[u8]) {
        self.shards.entry(shard).or_default().readings = Some(Bytes::copy_from_slice(readings));
    }

    pub(super) fn get_run(&self, run: RunId) -> Option<RunRow> {
        self.runs.get(&run).map(|run| run.row.clone())
    }

    pub(super) fn list_runs(&self, query: &RunQuery) -> Vec<RunRow> {
        let listed = self.looked_at(query).filter(|row| query.matches(row));
        listed.take(query.limit as usize).cloned().collect()
    }

    pub(super) fn listing_floor(&self, query: &RunQuery, runs: u32) -> Option<RunId> {
        let last = (runs as usize).checked_sub(1)?;
        // What an index leads to: a label, or that a run has no end.
        let label = query.labels.iter().next();
        let mut looked_at = self.looked_at(query).filter(|row| match label {
            Some((key, value)) => row.labels.get(key) == Some(value),
            None => !query.unfinished || row.summary.finished_at.is_none(),
        });
        looked_at.nth(last).map(|row| row.run)
    }

    /// The runs within the bounds, newest first.
    fn looked_at(&self, query: &RunQuery) -> impl Iterator<Item = &RunRow> {
        let (from, before) = (query.from, query.before);
        let start = from.map_or(Bound::Unbounded, Bound::Included);
        let end = before.map_or(Bound::Unbounded, Bound::Excluded);
        // A range whose start is behind its end is none.
        let is_empty = from.zip(before).is_some_and(|(from, before)| before <= from);
        let range = (!is_empty).then(|| self.runs.range((start, end)));
        range.into_iter().flatten().rev().map(|(_, run)| &run.row)
    }

    pub(super) fn unfinished(&self, shard: ShardId, after: Option<RunId>, limit: usize) -> Vec<Unfinished> {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.runs
            .range((start, Bound::Unbounded))
            .filter(|(_, run)| run.shard == shard && run.row.summary.finished_at.is_none())
            .map(|(id, run)| Unfinished { run: *id, rest: run.rest })
            .take(limit)
            .collect()
    }

    pub(super) fn derived(
        &self,
        kind: u16,
        key: &[u8],
        after: Option<(RunId, Place)>,
        limit: usize,
    ) -> Vec<DerivedRow> {
        self.derived.of_key(kind, key, after, limit)
    }

    pub(super) fn derived_of(&self, run: RunId, after: Option<Place>, limit: usize) -> Vec<Derived> {
        self.derived.of_run(run, after, limit)
    }

    pub(super) fn strays(&self, after: Option<RunId>, limit: usize) -> Vec<RunId> {
        let with_memory = self.remembered.runs().filter(|run| after.is_none_or(|after| *run > after));
        let runs: BTreeSet<RunId> = self.derived.runs(after).chain(with_memory).collect();
        runs.into_iter().filter(|run| !self.runs.contains_key(run)).take(limit).collect()
    }

    pub(super) fn mend(&mut self, mended: &Mended) {
        self.derived.remove(mended.run);
        self.remembered.remove(mended.run);
        let Some(run) = self.runs.get_mut(&mended.run) else { return };
        run.row.last_seq = mended.last_seq;
        run.row.summary = mended.summary.clone();
        run.rest = mended.rest;
        self.derived.insert(mended.run, &mended.derived);
        self.remembered.write(mended.run, &mended.memory);
    }

    pub(super) fn disturb(&mut self, run: RunId, change: impl FnOnce(&mut RunRow)) -> bool {
        self.runs.get_mut(&run).map(|run| change(&mut run.row)).is_some()
    }

    pub(super) fn disturb_derived(&mut self, run: RunId, place: Place, row: Option<Derived>) {
        self.derived.replace(run, place, row);
    }

    pub(super) fn put_blob(&mut self, hash: BlobHash, content: &[u8], now: Millis) {
        self.blobs
            .entry(hash)
            .and_modify(|blob| blob.put_at = now)
            .or_insert_with(|| Blob { content: Bytes::copy_from_slice(content), put_at: now });
    }

    pub(super) fn renew_blobs(&mut self, blobs: &[BlobHash], now: Millis) -> Vec<BlobHash> {
        let missing: Vec<BlobHash> =
            blobs.iter().filter(|blob| !self.blobs.contains_key(blob)).copied().collect();
        if missing.is_empty() {
            for hash in blobs {
                if let Some(blob) = self.blobs.get_mut(hash) {
                    blob.put_at = blob.put_at.max(now);
                }
            }
        }
        missing
    }

    pub(super) fn read_blob(&self, blob: BlobHash, offset: u64, length: usize) -> Option<Bytes> {
        let content = &self.blobs.get(&blob)?.content;
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(content.len());
        let end = start.saturating_add(length).min(content.len());
        Some(content.slice(start..end))
    }

    pub(super) fn blob_size(&self, blob: BlobHash) -> Option<u64> {
        self.blobs.get(&blob).map(|blob| blob.content.len() as u64)
    }
}
