//! The writer's part: what is written together and in which order, and how a shard is claimed and read.
//!
//! A turn's outputs become [`Errand`]s: what the writer does, appends gathered as long as nothing else of the writer's
//! comes between them, and what leaves for elsewhere. [`Queue`] holds what waits for the writer and says what it does
//! next: everything that waits becomes one commit, for all shards. [`Scribe`] does it. The writer's thread and the
//! simulator's disk are loops around these.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use capataz_contracts::v1::RunKind;
use capataz_store::{
    AgentRow, Append, AppendOutcome, Epoch, Mark, Millis, Position, Quarantine, QuarantineReason, Removal,
    Retention, RunId, ShardBatch, ShardId, ShardWriter, Snapshot, Store, StoreError, Swept,
};

use crate::claim::sessions_of_quarantined;
use crate::driver::Output;
use crate::projection::CHILD;
use crate::shard::{Recovered, ReplyId};
use crate::touched::Touched;

pub use crate::claim::{claim, claim_again};
pub use crate::family::find;
pub use crate::keys::find_keys;
pub use crate::load::{Damage, LoadError, go_on, load, load_at, load_session, load_within, take_up_session};

/// Appends in one transaction at most.
pub const MAX_BATCH: usize = 1024;

/// The bytes of a snapshot at most. A larger state is not cached: writing it would hold up commits for long.
pub const MAX_SNAPSHOT_BYTES: usize = 16 * 1024 * 1024;
/// The bytes of snapshots that wait at most; beyond them, the newest is not written.
const MAX_WAITING_SNAPSHOTS: usize = MAX_SNAPSHOT_BYTES;
/// What the writer does at most while a snapshot waits, so that there are snapshots under steady load as well.
const PATIENCE: u32 = 256;

/// What the writer is given.
#[derive(Clone, Debug)]
pub enum Work {
    Append(Vec<(ShardId, Append)>),
    Snapshot {
        shard: ShardId,
        run: RunId,
        snapshot: Snapshot,
    },
    /// The run is not to be worked on.
    Quarantine {
        shard: ShardId,
        run: RunId,
        quarantine: Quarantine,
    },
    Agents(Vec<AgentRow>),
    ForgetAgents(Vec<String>),
    /// Remove a run, if it may be, and tell the caller's number with the outcome.
    Remove {
        shard: ShardId,
        reply: ReplyId,
        run: RunId,
    },
    /// Take a quarantine back that is not for damage.
    Release {
        shard: ShardId,
        run: RunId,
    },
    /// What the shard has read of its clocks.
    Readings {
        shard: ShardId,
        readings: Vec<u8>,
    },
    Sweep {
        shard: ShardId,
        retention: Box<Retention>,
    },
    /// Claim the shard anew, and read what is touched or else everything.
    Claim {
        shard: ShardId,
        touched: Option<Touched>,
    },
}

/// One thing to be done of a turn's outputs.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one for each output, moved once")]
pub enum Errand {
    Write(Work),
    /// Anything else; never what is written.
    Leave(Output),
}

/// Turns outputs into errands, in their order.
#[derive(Debug)]
pub struct Errands<I> {
    outputs: I,
    appends: Vec<(ShardId, Append)>,
    /// What comes after the appends.
    next: Option<Errand>,
}

/// The errands of a turn's outputs.
pub fn errands<I: Iterator<Item = Output>>(outputs: I) -> Errands<I> {
    Errands { outputs, appends: Vec::new(), next: None }
}

impl<I: Iterator<Item = Output>> Iterator for Errands<I> {
    type Item = Errand;

    fn next(&mut self) -> Option<Errand> {
        if let Some(errand) = self.next.take() {
            return Some(errand);
        }
        for output in self.outputs.by_ref() {
            let work = match output {
                Output::Append { shard, append, .. } => {
                    self.appends.push((shard, append));
                    continue;
                }
                Output::PutSnapshot { shard, run, snapshot } => Work::Snapshot { shard, run, snapshot },
                Output::Quarantine { shard, run, quarantine } => Work::Quarantine { shard, run, quarantine },
                Output::PutAgents(agents) => Work::Agents(agents),
                Output::ForgetAgents(names) => Work::ForgetAgents(names),
                Output::PutReadings { shard, readings } => Work::Readings { shard, readings },
                Output::Remove { shard, reply, run } => Work::Remove { shard, reply, run },
                Output::Release { shard, run } => Work::Release { shard, run },
                Output::Sweep { shard, retention: Some(retention) } => Work::Sweep { shard, retention },
                Output::Restart { shard, touched } => Work::Claim { shard, touched: Some(touched) },
                other => return Some(Errand::Leave(other)),
            };
            if self.appends.is_empty() {
                return Some(Errand::Write(work));
            }
            self.next = Some(Errand::Write(work));
            break;
        }
        let appends = std::mem::take(&mut self.appends);
        (!appends.is_empty()).then_some(Errand::Write(Work::Append(appends))).or_else(|| self.next.take())
    }
}

impl Work {
    /// The bytes that it keeps in memory until it is done.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Append(appends) => bytes_of(appends),
            Self::Snapshot { snapshot, .. } => snapshot.state.len(),
            Self::Agents(rows) => rows.iter().map(|row| row.name.len() + row.agent.len()).sum(),
            Self::ForgetAgents(names) => names.iter().map(String::len).sum(),
            Self::Readings { readings, .. } => readings.len(),
            Self::Quarantine { .. }
            | Self::Remove { .. }
            | Self::Release { .. }
            | Self::Sweep { .. }
            | Self::Claim { .. } => 0,
        }
    }
}

impl Job {
    /// The bytes that it keeps in memory until it is done.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Commit(appends) => bytes_of(appends),
            Self::Other(work) => work.bytes(),
        }
    }
}

fn bytes_of(appends: &[(ShardId, Append)]) -> usize {
    appends.iter().map(|(_, append)| append.events.len()).sum()
}

/// What waits for the writer, in order; and snapshots, which are caches and let everything else pass.
#[derive(Debug, Default)]
pub struct Queue {
    waiting: VecDeque<Work>,
    /// The newest snapshot of each run.
    snapshots: BTreeMap<(ShardId, RunId), Snapshot>,
    /// The bytes of these.
    bytes: usize,
    /// What was done since a snapshot had its turn.
    passed: u32,
}

/// What the writer does next.
#[derive(Debug)]
pub enum Job {
    /// One commit.
    Commit(Vec<(ShardId, Append)>),
    /// Never an append.
    Other(Work),
}

impl Queue {
    /// Returns the bytes of snapshots that are not written any more, because of this one or before it.
    pub fn push(&mut self, work: Work) -> usize {
        let Work::Snapshot { shard, run, snapshot } = work else {
            self.waiting.push_back(work);
            return 0;
        };
        let size = snapshot.state.len();
        let earlier = self.snapshots.remove(&(shard, run)).map_or(0, |earlier| earlier.state.len());
        self.bytes = self.bytes.saturating_sub(earlier);
        if self.bytes.saturating_add(size) > MAX_WAITING_SNAPSHOTS {
            return earlier.saturating_add(size);
        }
        self.bytes += size;
        self.snapshots.insert((shard, run), snapshot);
        earlier
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.snapshots.is_empty()
    }

    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// What waits in order, without snapshots.
    pub fn iter(&self) -> impl Iterator<Item = &Work> {
        self.waiting.iter()
    }

    /// All appends that wait, up to about `most`, or else the one other thing before them. What was given in one piece
    /// is committed in one piece. A snapshot has its turn when nothing else waits, when much has passed it, and before
    /// a sweep.
    pub fn next(&mut self, most: usize) -> Option<Job> {
        // A sweep may remove a stream that begins anew under its id: what is known of it now must not come after that.
        let is_due = match self.waiting.front() {
            Some(work) => self.passed >= PATIENCE || matches!(work, Work::Sweep { .. }),
            None => true,
        };
        if is_due && let Some(((shard, run), snapshot)) = self.snapshots.pop_first() {
            self.bytes = self.bytes.saturating_sub(snapshot.state.len());
            self.passed = 0;
            return Some(Job::Other(Work::Snapshot { shard, run, snapshot }));
        }
        self.passed = if self.snapshots.is_empty() { 0 } else { self.passed.saturating_add(1) };
        let mut appends = Vec::new();
        while appends.len() < most
            && let Some(Work::Append(_)) = self.waiting.front()
            && let Some(Work::Append(batch)) = self.waiting.pop_front()
        {
            appends.extend(batch);
        }
        if appends.is_empty() {
            return self.waiting.pop_front().map(Job::Other);
        }
        Some(Job::Commit(appends))
    }
}

/// What the writer tells the shards.
#[derive(Debug)]
pub enum Told {
    /// The outcomes of the shard's oldest appends that were not told of.
    Committed {
        shard: ShardId,
        outcomes: Vec<AppendOutcome>,
    },
    /// Nobody knows what of the shard's commit is durable, or its writer has failed otherwise. It is claimed before anything else of
    /// it is written.
    Failed {
        shard: ShardId,
        error: StoreError,
    },
    /// It is put down that the run is not to be worked on.
    Quarantined {
        run: RunId,
    },
    Swept {
        shard: ShardId,
        swept: Result<Swept, StoreError>,
    },
    /// What became of a run that a caller wants removed; `None` where the store has failed.
    Removed {
        shard: ShardId,
        reply: ReplyId,
        run: RunId,
        removal: Option<Removal>,
    },
    /// The shard was claimed and read; its newest position.
    Claimed {
        shard: ShardId,
        recovered: Recovered,
        newest: Position,
    },
    /// The shard could not be claimed or read.
    Unreadable {
        shard: ShardId,
        /// What was to be read, where that is not everything.
        touched: Option<Touched>,
        error: StoreError,
    },
}

/// Writes, for all shards of a daemon.
pub struct Scribe {
    store: Arc<dyn Store>,
    /// None for a shard that was not claimed, or whose writer has failed.
    writers: BTreeMap<ShardId, Box<dyn ShardWriter>>,
    /// The newest claims of the shards, since which each has known all that was written.
    known: BTreeMap<ShardId, Epoch>,
    /// Quarantines that could not be written. A claim that reads only what a failed commit has touched does not find them.
    owed: BTreeMap<(ShardId, RunId), Quarantine>,
    chance: Chance,
}

/// Draws the mark of a claim, at random in a daemon.
pub type Draw = Box<dyn FnMut() -> Mark + Send>;

/// What a claim needs and nobody can compute: a mark, and the time on the wall.
#[expect(missing_debug_implementations, reason = "functions have none")]
pub struct Chance {
    pub draw: Draw,
    pub wall: Box<dyn FnMut() -> Millis + Send>,
}

impl std::fmt::Debug for Scribe {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Scribe").field("shards", &self.writers.keys()).finish_non_exhaustive()
    }
}

impl Scribe {
    #[must_use]
    pub fn new(store: Arc<dyn Store>, chance: Chance) -> Self {
        Self { store, writers: BTreeMap::new(), known: BTreeMap::new(), owed: BTreeMap::new(), chance }
    }

    /// Whether the shard was claimed, and its writer has not failed since.
    #[must_use]
    pub fn has_claimed(&self, shard: ShardId) -> bool {
        self.writers.contains_key(&shard)
    }

    /// Does one thing, and adds what the shards have to be told.
    pub fn carry_out(&mut self, job: Job, told: &mut Vec<Told>) {
        match job {
            Job::Commit(appends) => self.commit(appends, told),
            Job::Other(Work::Snapshot { shard, run, snapshot }) => {
                if let Some(writer) = self.writers.get_mut(&shard)
                    && let Err(error) = writer.put_snapshot(run, &snapshot)
                {
                    tracing::warn!(%run, error = &error as &dyn std::error::Error, "a snapshot was not written");
                }
            }
            Job::Other(Work::Quarantine { shard, run, quarantine }) => {
                self.owed.insert((shard, run), quarantine);
                self.quarantine(shard, told);
            }
            Job::Other(Work::Agents(agents)) => self.any_writer(|writer| writer.put_agents(&agents)),
            Job::Other(Work::ForgetAgents(names)) => {
                self.any_writer(|writer| writer.forget_agents(&names).map(|_| ()));
            }
            Job::Other(Work::Remove { shard, reply, run }) => {
                let removal = self.remove(shard, run).inspect_err(|error| {
                    tracing::warn!(%run, error = error as &dyn std::error::Error, "a run was not removed");
                });
                told.push(Told::Removed { shard, reply, run, removal: removal.ok() });
                self.give_up_failed(shard, told);
            }
            Job::Other(Work::Release { shard, run }) => {
                if let Err(error) = self.release(shard, run) {
                    tracing::warn!(%run, error = &error as &dyn std::error::Error, "a run was not released");
                }
            }
            // Where they are not put down, nothing is any more: the shard is claimed again, and gives them again.
            Job::Other(Work::Readings { shard, readings }) => {
                if let Some(writer) = self.writers.get_mut(&shard)
                    && let Err(error) = writer.put_readings(&readings)
                {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "readings of clocks were not written"
                    );
                }
            }
            Job::Other(Work::Sweep { shard, retention }) => {
                let swept = self.sweep(shard, *retention);
                told.push(Told::Swept { shard, swept });
                self.give_up_failed(shard, told);
            }
            Job::Other(Work::Claim { shard, touched }) => {
                self.writers.remove(&shard);
                let mut known = self.known.remove(&shard);
                told.push(
                    match claim_again(&*self.store, shard, &mut self.chance, touched.as_ref(), &mut known) {
                        Ok((writer, recovered, newest)) => {
                            self.writers.insert(shard, writer);
                            Told::Claimed { shard, recovered, newest }
                        }
                        Err(error) => Told::Unreadable { shard, touched: touched.clone(), error },
                    },
                );
                // What the claim has read it has put into quarantine itself, or found whole again.
                let was_read =
                    |run: &RunId| touched.as_ref().is_none_or(|touched| touched.runs.contains(run));
                self.owed.retain(|(of, run), _| *of != shard || !was_read(run));
                self.quarantine(shard, told);
                self.known.extend(known.map(|known| (shard, known)));
            }
            Job::Other(Work::Append(appends)) => self.commit(appends, told),
        }
    }

    /// Gives a writer up that has failed beside its commits: no commit of a caller has to find that out.
    fn give_up_failed(&mut self, shard: ShardId, told: &mut Vec<Told>) {
        if self.writers.get(&shard).is_some_and(|writer| writer.has_failed()) {
            self.writers.remove(&shard);
            told.push(Told::Failed { shard, error: StoreError::Closed });
        }
    }

    /// Sweeps, but for what only the store knows to be in use.
    fn sweep(&mut self, shard: ShardId, mut retention: Retention) -> Result<Swept, StoreError> {
        let Some(writer) = self.writers.get_mut(&shard) else { return Err(StoreError::Closed) };
        let owed = self.owed.keys().filter(|(of, _)| *of == shard).map(|(_, run)| *run);
        retention.keep.extend(sessions_of_quarantined(&*self.store, shard, owed)?);
        writer.sweep(&retention)
    }

    /// Removes a run that nobody needs.
    fn remove(&mut self, shard: ShardId, run: RunId) -> Result<Removal, StoreError> {
        let Some(writer) = self.writers.get_mut(&shard) else { return Err(StoreError::Closed) };
        let owed = self.owed.keys().filter(|(of, _)| *of == shard).map(|(_, run)| *run);
        if sessions_of_quarantined(&*self.store, shard, owed)?.contains(&run) {
            return Ok(Removal::Held);
        }
        // A session goes by itself where nobody can work in it any more, and else by its age.
        let row = self.store.get_run(run)?;
        if row.is_some_and(|row| row.kind == RunKind::Session as i32 && row.quarantine.is_none()) {
            return Ok(Removal::Missing);
        }
        writer.remove(run, Some(CHILD), (self.chance.wall)())
    }

    /// Damage is tried again at each claim, and everything else where somebody says so.
    fn release(&mut self, shard: ShardId, run: RunId) -> Result<(), StoreError> {
        let quarantine = self.store.get_run(run)?.and_then(|row| row.quarantine);
        let stays = quarantine.is_none_or(|quarantine| quarantine.reason == QuarantineReason::Damaged);
        if let Some(writer) = self.writers.get_mut(&shard).filter(|_| !stays) {
            writer.release(run)?;
        }
        Ok(())
    }

    /// Writes what is owed to the shard, as far as that is possible now.
    fn quarantine(&mut self, shard: ShardId, told: &mut Vec<Told>) {
        let Some(writer) = self.writers.get_mut(&shard) else { return };
        self.owed.retain(|(of, run), quarantine| {
            if *of != shard {
                return true;
            }
            match writer.quarantine(*run, quarantine) {
                Ok(()) => told.push(Told::Quarantined { run: *run }),
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(%run, error, "a quarantine was not written");
                    return true;
                }
            }
            false
        });
    }

    /// Agents are nobody's: whichever writer can, remembers them.
    fn any_writer(&mut self, mut write: impl FnMut(&mut dyn ShardWriter) -> Result<(), StoreError>) {
        for writer in self.writers.values_mut() {
            match write(&mut **writer) {
                Ok(()) => break,
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, "what is known of agents was not written");
                }
            }
        }
    }

    fn commit(&mut self, appends: Vec<(ShardId, Append)>, told: &mut Vec<Told>) {
        let mut by_shard: BTreeMap<ShardId, Vec<Append>> = BTreeMap::new();
        for (shard, append) in appends {
            by_shard.entry(shard).or_default().push(append);
        }
        // What comes for a shard that is being read again is void.
        let writers = self.writers.iter_mut().filter_map(|(shard, writer)| {
            Some((*shard, ShardBatch { writer: &mut **writer, appends: by_shard.get(shard)? }))
        });
        let (shards, mut batches): (Vec<ShardId>, Vec<ShardBatch<'_>>) = writers.unzip();
        if batches.is_empty() {
            return;
        }
        let outcomes = self.store.commit(&mut batches);
        for (shard, outcome) in shards.into_iter().zip(outcomes) {
            match outcome {
                Ok(outcomes) => told.push(Told::Committed { shard, outcomes }),
                Err(error) => {
                    self.writers.remove(&shard);
                    told.push(Told::Failed { shard, error });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use capataz_store::builders::{Shape, beginning, keep};

    use super::*;

    const SHARD: ShardId = ShardId(0);

    fn run(number: u128) -> RunId {
        RunId(uuid::Uuid::from_u128(number))
    }

    fn snapshot(number: u128, seq: u64, size: usize) -> Work {
        let snapshot = Snapshot { seq, format: 1, state: vec![0; size].into() };
        Work::Snapshot { shard: SHARD, run: run(number), snapshot }
    }

    /// What comes next: the run and the number of a snapshot, or nothing for anything else.
    fn next(queue: &mut Queue) -> Option<Option<(RunId, u64)>> {
        queue.next(1).map(|job| match job {
            Job::Other(Work::Snapshot { run, snapshot, .. }) => Some((run, snapshot.seq)),
            _ => None,
        })
    }

    #[test]
    fn everything_passes_a_snapshot_and_the_newest_of_a_run_is_written() {
        let mut queue = Queue::default();
        queue.push(snapshot(1, 10, 5));
        queue.push(Work::Agents(Vec::new()));
        assert_eq!(queue.push(snapshot(1, 20, 6)), 5, "the earlier one is not written");
        queue.push(snapshot(2, 7, 5));
        assert_eq!(next(&mut queue), Some(None));
        assert_eq!(next(&mut queue), Some(Some((run(1), 20))));
        assert!(!queue.is_empty());
        assert_eq!(next(&mut queue), Some(Some((run(2), 7))));
        assert!(queue.is_empty() && next(&mut queue).is_none());
    }

    #[test]
    fn a_snapshot_has_its_turn_under_steady_load() {
        let mut queue = Queue::default();
        queue.push(snapshot(1, 10, 5));
        let mut passed = 0;
        loop {
            queue.push(Work::Agents(Vec::new()));
            match next(&mut queue) {
                Some(None) => passed += 1,
                written => break assert_eq!(written, Some(Some((run(1), 10)))),
            }
        }
        assert_eq!(passed, PATIENCE);
    }

    #[test]
    fn a_snapshot_is_written_before_a_sweep_that_may_remove_its_stream() {
        let mut queue = Queue::default();
        queue.push(snapshot(1, 10, 5));
        queue.push(Work::Agents(Vec::new()));
        queue.push(Work::Sweep { shard: SHARD, retention: Box::new(keep()) });
        assert_eq!(next(&mut queue), Some(None));
        assert_eq!(next(&mut queue), Some(Some((run(1), 10))));
        assert!(matches!(queue.next(1), Some(Job::Other(Work::Sweep { .. }))));
    }

    #[test]
    fn snapshots_that_wait_take_bounded_memory() {
        let mut queue = Queue::default();
        let size = MAX_SNAPSHOT_BYTES / 4;
        let dropped = (0..6).map(|number| queue.push(snapshot(number, 1, size))).sum::<usize>();
        assert_eq!(dropped, 2 * size);
        queue.push(snapshot(1, 2, size));
        let mut written = Vec::new();
        while let Some(Some((run, seq))) = next(&mut queue) {
            written.push((run, seq));
        }
        assert_eq!(written, [(run(0), 1), (run(1), 2), (run(2), 1), (run(3), 1)]);
        assert_eq!(queue.bytes, 0);
    }

    #[test]
    fn nothing_waits_in_a_queue_that_was_cleared() {
        let mut queue = Queue::default();
        queue.push(Work::Agents(Vec::new()));
        queue.push(snapshot(1, 10, 5));
        queue.clear();
        assert!(queue.is_empty() && next(&mut queue).is_none());
        assert_eq!(queue.bytes, 0);
    }

    /// The first append of the run of this number, with so many bytes of events.
    fn append(number: u128, size: usize) -> (ShardId, Append) {
        (SHARD, beginning(run(number)).events(vec![0_u8; size]))
    }

    #[test]
    fn a_commit_takes_whole_pieces_until_it_has_as_many_appends_as_are_asked_for() {
        for (most, expected) in [(1, vec![1, 2, 1, 1]), (2, vec![3, 2]), (3, vec![3, 2]), (4, vec![4, 1])] {
            let mut queue = Queue::default();
            for piece in [1..2, 2..4, 4..5, 5..6] {
                queue.push(Work::Append(piece.map(|number| append(number, 1)).collect()));
            }
            let mut committed = Vec::new();
            while let Some(Job::Commit(appends)) = queue.next(most) {
                committed.push(appends.len());
            }
            assert_eq!(committed, expected, "{most}");
        }
    }

    #[test]
    fn what_waits_for_the_writer_counts_with_the_bytes_that_it_keeps() {
        let appends = || vec![append(1, 3), append(2, 4)];
        assert_eq!(Work::Append(appends()).bytes(), 7);
        assert_eq!(Job::Commit(appends()).bytes(), 7);
        let agent = |name: &str, size: usize| AgentRow {
            name: name.to_owned(),
            agent: vec![0; size].into(),
            last_seen: Millis(0),
        };
        let works = [
            (snapshot(1, 10, 6), 6),
            (Work::Agents(vec![agent("abc", 5), agent("d", 2)]), 3 + 5 + 1 + 2),
            (Work::ForgetAgents(vec!["abc".to_owned(), "de".to_owned()]), 3 + 2),
            (Work::Readings { shard: SHARD, readings: vec![0; 8] }, 8),
            (Work::Release { shard: SHARD, run: run(1) }, 0),
        ];
        for (work, bytes) in works {
            assert_eq!(work.bytes(), bytes, "{work:?}");
            assert_eq!(Job::Other(work).bytes(), bytes);
        }
    }
}
