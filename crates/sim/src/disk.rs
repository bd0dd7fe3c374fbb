//! The writer's thread over a store whose commits fail, get lost, or outlive the process. What it writes, and in which
//! order, the shard's own code says ([`Queue`], [`Scribe`]).
//!
//! What a reader can see is durable, as in a database that syncs its log before it shows a transaction: a crash before
//! the commit's sync leaves nothing of it, a crash after it everything. Snapshots and agents are caches that are synced
//! with the next commit, and may or may not outlive a crash.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use capataz_contracts::v1;
use capataz_crew::Now;
use capataz_engine::RunState;
use capataz_shard::journal::{Chance, Job, MAX_BATCH, Queue, Scribe, Told, Work};
use capataz_shard::{Answer, Declined, Input, Output, Touched};
use capataz_store::memory::Fault;
use capataz_store::{
    Append, AppendOutcome, Mark, MemoryStore, Millis, Retention, RunId, ShardId, Store, StoreError,
};
use prost::Message;

use crate::coverage::{CrashPoint, likelihood};
use crate::invariant::{Invariant, Violation};
use crate::schedule::Action;
use crate::trace::Fact;
use crate::world::World;

/// What the writer has to tell the shards, and the events of a commit that it tells of.
#[derive(Debug)]
struct News {
    told: Told,
    events: Vec<Bytes>,
}

pub struct Disk {
    pub store: MemoryStore,
    /// The mark of the next claim.
    marks: Arc<AtomicU32>,
    scribe: Scribe,
    queue: Queue,
    unsynced: Vec<Work>,
    news: VecDeque<News>,
    news_at: i64,
    busy: bool,
    reopening: bool,
}

impl std::fmt::Debug for Disk {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Disk").field("scribe", &self.scribe).finish_non_exhaustive()
    }
}

impl Disk {
    pub fn new() -> Self {
        let store = MemoryStore::new();
        let marks = Arc::new(AtomicU32::new(1));
        Self {
            scribe: Scribe::new(Arc::new(store.clone()), draws(&marks)),
            store,
            marks,
            queue: Queue::default(),
            unsynced: Vec::new(),
            news: VecDeque::new(),
            news_at: 0,
            busy: false,
            reopening: false,
        }
    }

    /// Another store is there from now on. Nothing of the one before is in flight.
    pub fn restore(&mut self, store: MemoryStore) {
        self.scribe = Scribe::new(Arc::new(store.clone()), draws(&self.marks));
        self.store = store;
    }

    pub fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.news.is_empty() && !self.reopening
    }

    /// Whether the run's quarantine waits to be put down.
    pub fn is_about_to_quarantine(&self, run: RunId) -> bool {
        let mut waiting = self.queue.iter().chain(&self.unsynced);
        waiting.any(|work| matches!(work, Work::Quarantine { run: of, .. } if *of == run))
    }

    /// Events of all appends that wait or are not known to their shards yet.
    fn in_flight(&self) -> Vec<Bytes> {
        let told = self.news.iter().flat_map(|news| news.events.clone());
        let waiting = self.queue.iter().filter_map(|work| match work {
            Work::Append(appends) => Some(appends.iter().map(|(_, append)| append.events.clone())),
            _ => None,
        });
        told.chain(waiting.flatten()).collect()
    }
}

/// Each claim of a world has a mark of its own, the same in each replay. That of its time nobody in a world looks at.
fn draws(marks: &Arc<AtomicU32>) -> Chance {
    let marks = Arc::clone(marks);
    Chance {
        draw: Box::new(move || Mark(marks.fetch_add(1, Ordering::Relaxed))),
        wall: Box::new(|| Millis(0)),
    }
}

pub(crate) fn store_failed(error: &StoreError) -> Violation {
    Violation { invariant: Invariant::LogStays, detail: error.to_string() }
}

fn events_of(group: &[(ShardId, Append)]) -> Vec<Bytes> {
    group.iter().map(|(_, append)| append.events.clone()).collect()
}

impl World {
    pub(crate) fn give(&mut self, work: Work) {
        self.disk.queue.push(work);
        self.keep_writing();
    }

    fn keep_writing(&mut self) {
        if !self.disk.busy && !self.disk.reopening && !self.disk.queue.is_empty() {
            self.disk.busy = true;
            let delay = self.rng.delay(self.scenario.disk_usual, self.scenario.disk_worst);
            self.after(delay, Action::Write);
        }
    }

    fn tell(&mut self, told: Told, events: Vec<Bytes>) {
        let at = (self.now + self.rng.delay(self.scenario.news_usual, 400)).max(self.disk.news_at);
        self.disk.news_at = at;
        self.disk.news.push_back(News { told, events });
        self.at(at, Action::Written);
    }

    /// The writer does what waits for it, up to a claim.
    pub(crate) fn write(&mut self) -> Result<(), Violation> {
        self.disk.busy = false;
        // Now and then it takes fewer appends than there are.
        let most = if self.rng.percent(10) { 1 } else { MAX_BATCH };
        while let Some(job) = self.disk.queue.next(most) {
            match job {
                Job::Commit(group) => {
                    if self.commit(group)? {
                        return Ok(());
                    }
                    break;
                }
                Job::Other(Work::Claim { shard, touched }) => {
                    self.disk.reopening = true;
                    let delay = self.rng.between(5, 400);
                    self.after(delay, Action::Reopened { shard, touched });
                    return Ok(());
                }
                Job::Other(Work::Sweep { shard, retention }) => self.sweep(shard, retention)?,
                Job::Other(cache) => self.disk.unsynced.push(cache),
            }
        }
        self.keep_writing();
        Ok(())
    }

    /// Commits a group, or does not. Whether the process died of it.
    fn commit(&mut self, mut group: Vec<(ShardId, Append)>) -> Result<bool, Violation> {
        // What comes for a shard that is to be claimed is void.
        group.retain(|(shard, _)| self.disk.scribe.has_claimed(*shard));
        if group.is_empty() {
            return Ok(false);
        }
        let often = likelihood(self.scenario.crashes, group.iter().map(|(_, append)| &append.events));
        if self.strikes(often) {
            let point =
                [CrashPoint::BeforeCommit, CrashPoint::AfterCommit, CrashPoint::TakenOver][self.rng.below(3)];
            match point {
                CrashPoint::BeforeCommit => {}
                CrashPoint::AfterCommit => {
                    self.commit_now(group.clone())?;
                }
                _ => return self.taken_over(&group).map(|()| true),
            }
            self.die(point, &events_of(&group));
            return Ok(true);
        }
        if self.strikes(self.scenario.commit_faults) {
            let lost = self.rng.percent(50);
            let (fault, point) = if lost {
                (Fault::Lost, CrashPoint::CommitLost)
            } else {
                (Fault::Kept, CrashPoint::ReplyLost)
            };
            self.sync();
            // One shard's commit fails, and those of others do not.
            self.disk.store.fail_next_commit(fault);
            let told = self.commit_now(group.clone())?;
            for told in told {
                let Told::Failed { shard, .. } = &told else {
                    let events = events_of_shard(&group, &told);
                    self.tell(told, events);
                    continue;
                };
                let failed = *shard;
                let events = group.iter().filter(|(shard, _)| *shard == failed);
                for events in events.map(|(_, append)| append.events.clone()).collect::<Vec<_>>() {
                    self.coverage.count(point, &events);
                }
                self.line(|| format!("disk: {} for {failed:?}", point.name()));
                self.tell(told, Vec::new());
            }
            return Ok(false);
        }
        for told in self.commit_now(group.clone())? {
            let events = events_of_shard(&group, &told);
            self.tell(told, events);
        }
        Ok(false)
    }

    /// Retention removes what is due, durably.
    fn sweep(&mut self, shard: ShardId, retention: Box<Retention>) -> Result<(), Violation> {
        self.sync();
        let before = retention.finished_before.map_or(i64::MIN, |before| before.0);
        let (age, at) = self.sweep_ages.entry(shard).or_default().pop_front().unwrap_or((i64::MAX, self.now));
        let old = self.old_enough(age, at);
        self.model.keys.kept_from(retention.keys_before.0);
        if let Some(round) = &mut self.round {
            round.part_begins(&retention, &self.disk.store).map_err(|error| store_failed(&error))?;
        }
        let mut told = Vec::new();
        let claimed = self.disk.scribe.has_claimed(shard);
        self.disk.scribe.carry_out(Job::Other(Work::Sweep { shard, retention }), &mut told);
        for told in told {
            if let Told::Swept { swept, .. } = &told
                && claimed
            {
                let swept = swept.as_ref().map_err(store_failed)?;
                self.line(|| format!("disk: swept {swept:?} of {shard:?}"));
                let rows = self.written_rows(shard)?;
                self.sweeps += 1;
                self.model.swept(shard, rows, before, &old, self.sweeps)?;
            }
            self.tell(told, Vec::new());
        }
        Ok(())
    }

    fn commit_now(&mut self, group: Vec<(ShardId, Append)>) -> Result<Vec<Told>, Violation> {
        self.sync();
        let count = group.len();
        let mut told = Vec::new();
        self.disk.scribe.carry_out(Job::Commit(group), &mut told);
        self.line(|| format!("disk: commits {count} appends: {told:?}"));
        self.observe()?;
        Ok(told)
    }

    /// What the model has to know: the rows that have become durable.
    fn observe(&mut self) -> Result<(), Violation> {
        for shard in self.scenario.shards() {
            let newest = self.model.newest(shard);
            let rows = self.disk.store.read_log(shard, newest, usize::MAX, usize::MAX);
            self.model.observe(shard, rows.map_err(|error| store_failed(&error))?)?;
        }
        Ok(())
    }

    /// Writes the caches that wait for the next commit.
    fn sync(&mut self) {
        for work in std::mem::take(&mut self.disk.unsynced) {
            self.write_cache(work);
        }
    }

    fn write_cache(&mut self, work: Work) {
        self.disk.scribe.carry_out(Job::Other(work), &mut Vec::new());
    }

    /// The process is gone: what it had in memory goes with it, and caches may have reached the disk.
    pub(crate) fn lose_memory(&mut self) {
        for work in std::mem::take(&mut self.disk.unsynced) {
            if self.rng.percent(50) {
                self.write_cache(work);
            }
        }
        self.disk.scribe = Scribe::new(Arc::new(self.disk.store.clone()), draws(&self.disk.marks));
        self.disk.queue.clear();
        self.sweep_ages.clear();
        self.round = None;
        self.disk.news.clear();
        self.disk.busy = false;
        self.disk.reopening = false;
    }

    /// Another daemon claims all shards: what the old one still appends is refused, and it falls silent.
    fn taken_over(&mut self, group: &[(ShardId, Append)]) -> Result<(), Violation> {
        self.line(|| "disk: another daemon takes the shards over".to_owned());
        let mut in_flight = events_of(group);
        in_flight.extend(self.disk.in_flight());
        let generation = self.generation;
        for shard in self.scenario.shards() {
            let mark = (draws(&self.disk.marks).draw)();
            self.disk.store.claim(shard, mark).map_err(|error| store_failed(&error))?;
        }
        while let Some(news) = self.disk.news.pop_front() {
            if let Told::Committed { shard, outcomes } = news.told {
                self.deliver(Input::Committed { shard, outcomes })?;
            }
        }
        self.carry_out_unharmed()?;
        if self.generation != generation {
            return Ok(());
        }
        let mut told = Vec::new();
        self.disk.scribe.carry_out(Job::Commit(group.to_vec()), &mut told);
        let mut refused: BTreeMap<ShardId, Vec<AppendOutcome>> = BTreeMap::new();
        for told in told {
            if let Told::Committed { shard, outcomes } = told {
                refused.insert(shard, outcomes);
            }
        }
        for work in self.disk.queue.iter() {
            let Work::Append(appends) = work else { continue };
            for (shard, _) in appends {
                if let Some(outcomes) = refused.get_mut(shard) {
                    outcomes.push(AppendOutcome::Fenced);
                }
            }
        }
        self.fence(refused)?;
        self.die(CrashPoint::TakenOver, &in_flight);
        Ok(())
    }

    /// The old daemon learns that it lost these shards.
    fn fence(&mut self, refused: BTreeMap<ShardId, Vec<AppendOutcome>>) -> Result<(), Violation> {
        let now = self.clocks();
        let Some(core) = &mut self.daemon.core else { return Ok(()) };
        let mut outputs = Vec::new();
        let shards: Vec<ShardId> = refused.keys().copied().collect();
        // What a shard says before it is told does no harm: nothing of it becomes durable.
        let mut untold = Vec::new();
        for (shard, outcomes) in refused {
            core.handle(now, Input::Committed { shard, outcomes }, &mut untold);
            let fenced = |output: &Output| matches!(output, Output::Fenced { .. });
            outputs.extend(untold.extract_if(.., |output| fenced(output)));
        }
        let later = Now { mono: now.mono.plus(60_000), ..now };
        core.handle(later, Input::Wake, &mut outputs);
        for shard in &shards {
            // One that reads the shard again has nothing in flight, and has fallen silent already.
            let fenced = self.daemon.unknown.contains(shard)
                || outputs.iter().any(|output| matches!(output, Output::Fenced { shard: of } if of == shard));
            Invariant::FencedIsSilent
                .check(fenced, || format!("{shard:?} does not say that it is fenced"))?;
        }
        let all = shards.len() == self.scenario.shards;
        for output in &outputs {
            let silent = match output {
                Output::Append { shard, .. }
                | Output::Publish { shard, .. }
                | Output::PutSnapshot { shard, .. }
                | Output::Quarantine { shard, .. }
                | Output::Sweep { shard, .. }
                | Output::Behind { shard, .. }
                | Output::Remove { shard, .. }
                | Output::Release { shard, .. }
                | Output::PutReadings { shard, .. }
                | Output::Restart { shard, .. } => !shards.contains(shard),
                Output::Reply { answer, .. } => {
                    !all || matches!(
                        answer,
                        Answer::Start(Err(Declined::Unavailable))
                            | Answer::Wait(Err(Declined::Unavailable))
                            | Answer::Health(Err(Declined::Unavailable))
                            | Answer::Command(Err(Declined::Unavailable))
                            | Answer::Transition(Err(Declined::Unavailable))
                            | Answer::Imported(Err(Declined::Unavailable))
                            | Answer::Chosen(Err(Declined::Unavailable))
                            | Answer::Forgotten(Err(Declined::Unavailable))
                            | Answer::Deleted(Err(Declined::Unavailable))
                            | Answer::Released(Err(Declined::Unavailable))
                    )
                }
                // A word to whoever is connected says nothing of a run.
                Output::Frame { frame, .. } => {
                    !all || matches!(frame, v1::connect_response::Frame::Heartbeat(_))
                }
                Output::Close { .. } | Output::Fenced { .. } => true,
                Output::Progress(_)
                | Output::PutAgents(_)
                | Output::ForgetAgents(_)
                | Output::LoadSession { .. }
                | Output::LoadRun { .. }
                | Output::FindChild { .. }
                | Output::FindKeys { .. }
                | Output::Query { .. }
                | Output::ScriptOver { .. } => !all,
            };
            Invariant::FencedIsSilent.check(silent, || format!("{output:?}"))?;
        }
        Ok(())
    }

    /// The oldest news reaches the shards' thread.
    pub(crate) fn written(&mut self) -> Result<(), Violation> {
        let Some(News { told, events }) = self.disk.news.pop_front() else { return Ok(()) };
        match told {
            Told::Committed { shard, outcomes } => {
                self.daemon.acknowledged.extend(events);
                self.deliver(Input::Committed { shard, outcomes })
            }
            Told::Quarantined { run } => self.check_quarantine(run),
            Told::Swept { shard, swept } => {
                self.deliver(Input::Swept { shard })?;
                self.part_ended(&swept)
            }
            Told::Removed { reply, run, removal, .. } => self.deliver(Input::Removed { reply, run, removal }),
            Told::Failed { shard, .. } => self.deliver(Input::CommitFailed { shard }),
            Told::Claimed { shard, recovered, newest } => {
                self.recovered(shard, newest);
                self.deliver(Input::Recovered { shard, recovered })?;
                self.check_state()
            }
            Told::Unreadable { error, .. } => Err(store_failed(&error)),
        }
    }

    /// A shard is claimed and read.
    pub(crate) fn reopened(&mut self, shard: ShardId, touched: Option<Touched>) -> Result<(), Violation> {
        self.sync();
        self.disk.reopening = false;
        let mut told = Vec::new();
        self.disk.scribe.carry_out(Job::Other(Work::Claim { shard, touched: touched.clone() }), &mut told);
        self.check_store()?;
        self.check_rows()?;
        for told in told {
            let recovered = match &told {
                Told::Claimed { recovered, .. } => recovered,
                Told::Quarantined { run } => {
                    self.check_quarantine(*run)?;
                    continue;
                }
                other => return Invariant::LogStays.broken(format!("{other:?}")),
            };
            // Nobody else claims a shard of a daemon that is alive.
            Invariant::OnlyTouchedAreRead.check(recovered.touched == touched, || {
                format!("{:?} was read, {touched:?} asked for", recovered.touched)
            })?;
            if let Some(touched) = &touched {
                let resting = recovered.resting.iter().map(|(run, _)| run);
                let read = recovered.runs.iter().map(|(run, _)| run).chain(resting);
                // What was in quarantine is tried again.
                let others =
                    read.filter(|run| !touched.runs.contains(run) && !self.damages.was_damaged(**run));
                let others: Vec<&RunId> = others.collect();
                Invariant::OnlyTouchedAreRead
                    .check(others.is_empty(), || format!("{others:?} were read as well"))?;
            }
            self.check_quarantined(shard, touched.as_ref(), recovered)?;
            for (run, state) in &recovered.runs {
                self.check_faithful(*run, state, state.seq())?;
            }
            for (stream, state) in &recovered.sessions {
                self.check_session(*stream, state.as_ref())?;
            }
            if self.strikes(self.scenario.crashes.saturating_mul(4)) {
                let resting = recovered.resting.iter().map(|(run, _)| run);
                let runs = recovered.runs.iter().map(|(run, _)| run).chain(resting);
                let runs = runs.filter_map(|run| self.model.run(*run));
                let runs = runs.map(|run| run.newest.clone());
                let sessions = recovered.sessions.iter();
                let sessions = sessions.filter_map(|(stream, _)| self.model.session(*stream));
                let newest = runs.chain(sessions.map(|session| session.newest.clone()));
                let newest: Vec<Bytes> = newest.collect();
                self.die(CrashPoint::DuringRecovery, &newest);
                return Ok(());
            }
            self.line(|| {
                format!("disk: {shard:?} claimed by {:?}, {} runs", recovered.epoch, recovered.runs.len())
            });
            self.tell(told, Vec::new());
        }
        self.keep_writing();
        Ok(())
    }

    pub(crate) fn check_store(&self) -> Result<(), Violation> {
        for shard in self.scenario.shards() {
            self.model.check_log(shard, &self.written_rows(shard)?)?;
        }
        Ok(())
    }

    /// A state, from a snapshot or not, is the fold of the run's log up to `seq`.
    pub(crate) fn check_faithful(&self, run: RunId, state: &RunState, seq: u64) -> Result<(), Violation> {
        let folded = self.fold(run, seq)?;
        Invariant::SnapshotFaithful.check(folded.as_ref() == Some(state), || {
            format!("run {run} at event {seq}: {state:?} is not {folded:?}")
        })
    }

    /// The fold of the first `seq` events of a run's durable log; `None` where it has fewer.
    pub(crate) fn fold(&self, run: RunId, seq: u64) -> Result<Option<RunState>, Violation> {
        let Some(model) = self.model.run(run) else { return Ok(None) };
        let Some(events) = usize::try_from(seq).ok().and_then(|seq| model.events.get(..seq)) else {
            return Ok(None);
        };
        let events = events.iter().filter_map(|event| v1::Event::decode(event.clone()).ok());
        // Any fixed function of the run's id will do, as long as the core uses the same one.
        let folded = RunState::fold(run.0.as_u64_pair().1, events);
        folded.map(Some).map_err(|corrupt| Violation {
            invariant: Invariant::StateMatchesLog,
            detail: format!("run {run}: {corrupt}"),
        })
    }

    /// A crash at a named point.
    pub(crate) fn die(&mut self, point: CrashPoint, events: &[Bytes]) {
        for events in events {
            self.coverage.count(point, events);
        }
        self.trace.fact(Fact::Crash, point as u64, events.len() as u64);
        self.line(|| format!("-- crash {} with {} appends", point.name(), events.len()));
        self.crash();
    }
}

/// The events that a commit's news tells of.
fn events_of_shard(group: &[(ShardId, Append)], told: &Told) -> Vec<Bytes> {
    let Told::Committed { shard, .. } = told else { return Vec::new() };
    let of_it = group.iter().filter(|(of, _)| of == shard);
    of_it.map(|(_, append)| append.events.clone()).collect()
}
