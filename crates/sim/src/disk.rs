//! The writer's thread over a store whose commits fail, get lost, or outlive the process.
//!
//! What a reader can see is durable, as in a database that syncs its log before it shows a transaction: a crash before
//! the commit's sync leaves nothing of it, a crash after it everything. Snapshots and agents are caches that are synced
//! with the next commit, and may or may not outlive a crash.

use std::collections::{BTreeSet, VecDeque};

use bytes::Bytes;
use capataz_contracts::v1;
use capataz_engine::{RunState, Timestamp};
use capataz_runtime::core::{Input, KnownAgent, Output, Recovered, session_stream};
use capataz_runtime::feed::Ring;
use capataz_runtime::shell;
use capataz_store::memory::Fault;
use capataz_store::{
    AgentRow, Append, AppendOutcome, MemoryStore, Position, Retention, RunId, ShardId, ShardWriter, Snapshot,
    Store, StoreError,
};
use prost::Message;

use crate::coverage::CrashPoint;
use crate::invariant::{Invariant, Violation};
use crate::schedule::Action;
use crate::trace::Fact;
use crate::world::World;

/// The only shard.
pub const SHARD: ShardId = ShardId(0);

/// What waits for the writer.
#[derive(Debug)]
pub enum Work {
    Append(Append),
    Snapshot(RunId, Snapshot),
    Agents(Vec<AgentRow>),
    Sweep(Box<Retention>),
    Reopen,
}

/// What the writer has to tell the shard.
#[derive(Debug)]
enum News {
    Committed(Vec<AppendOutcome>, Vec<Bytes>),
    Failed,
    Swept,
    Recovered(Recovered, Position),
}

#[derive(Default)]
pub struct Disk {
    pub store: MemoryStore,
    /// `None` after a failed commit, until the shard is claimed again.
    writer: Option<Box<dyn ShardWriter>>,
    queue: VecDeque<Work>,
    unsynced: Vec<Work>,
    news: VecDeque<News>,
    news_at: i64,
    busy: bool,
    reopening: bool,
}

impl Disk {
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.news.is_empty() && !self.reopening
    }

    /// Events of all appends that wait or are not known to the core yet.
    fn in_flight(&self) -> Vec<Bytes> {
        let told = self.news.iter().filter_map(|news| match news {
            News::Committed(_, events) => Some(events.clone()),
            _ => None,
        });
        let waiting = self.queue.iter().filter_map(|work| match work {
            Work::Append(append) => Some(append.events.clone()),
            _ => None,
        });
        told.flatten().chain(waiting).collect()
    }
}

fn store_failed(error: &StoreError) -> Violation {
    Violation { invariant: Invariant::LogStays, detail: error.to_string() }
}

impl World {
    pub(crate) fn give(&mut self, work: Work) {
        self.disk.queue.push_back(work);
        self.keep_writing();
    }

    fn keep_writing(&mut self) {
        if !self.disk.busy && !self.disk.reopening && !self.disk.queue.is_empty() {
            self.disk.busy = true;
            let delay = self.rng.delay(self.scenario.disk_usual, self.scenario.disk_worst);
            self.after(delay, Action::Write);
        }
    }

    fn tell(&mut self, news: News) {
        let at = (self.now + self.rng.delay(self.scenario.news_usual, 400)).max(self.disk.news_at);
        self.disk.news_at = at;
        self.disk.news.push_back(news);
        self.at(at, Action::Written);
    }

    /// The writer takes all appends that wait into one commit, then what came after them.
    pub(crate) fn write(&mut self) -> Result<(), Violation> {
        self.disk.busy = false;
        let mut group = Vec::new();
        while let Some(Work::Append(..)) = self.disk.queue.front()
            && let Some(Work::Append(append)) = self.disk.queue.pop_front()
        {
            let joined = append.joined;
            group.push(append);
            // What is joined reaches the writer in one piece.
            if !joined && self.rng.percent(4) {
                break;
            }
        }
        if !group.is_empty() && self.commit(&group)? {
            return Ok(());
        }
        while !matches!(self.disk.queue.front(), None | Some(Work::Append(..))) {
            match self.disk.queue.pop_front() {
                Some(Work::Reopen) => {
                    self.disk.reopening = true;
                    let delay = self.rng.between(5, 400);
                    self.after(delay, Action::Reopened);
                    break;
                }
                Some(Work::Sweep(retention)) => self.sweep(&retention)?,
                Some(work) => self.disk.unsynced.push(work),
                None => break,
            }
        }
        self.keep_writing();
        Ok(())
    }

    /// Commits a group, or does not. Whether the process died of it.
    fn commit(&mut self, group: &[Append]) -> Result<bool, Violation> {
        if self.disk.writer.is_none() {
            return Ok(false);
        }
        let events = || group.iter().map(|append| append.events.clone()).collect::<Vec<_>>();
        if self.strikes(self.scenario.crashes) {
            let point =
                [CrashPoint::BeforeCommit, CrashPoint::AfterCommit, CrashPoint::TakenOver][self.rng.below(3)];
            match point {
                CrashPoint::BeforeCommit => {}
                CrashPoint::AfterCommit => {
                    self.commit_now(group)?;
                }
                _ => return self.taken_over(group).map(|()| true),
            }
            self.die(point, &events());
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
            self.disk.store.fail_next_commit(fault);
            if let Some(mut writer) = self.disk.writer.take() {
                let _ = writer.commit(group);
            }
            self.observe()?;
            for events in events() {
                self.coverage.count(point, &events);
            }
            self.line(|| format!("disk: {} for {} appends", point.name(), group.len()));
            self.tell(News::Failed);
            return Ok(false);
        }
        let outcomes = self.commit_now(group)?;
        self.tell(News::Committed(outcomes, events()));
        Ok(false)
    }

    /// Retention removes what is due, durably.
    fn sweep(&mut self, retention: &Retention) -> Result<(), Violation> {
        self.sync();
        if let Some(writer) = &mut self.disk.writer {
            let swept = writer.sweep(retention).map_err(|error| store_failed(&error))?;
            self.line(|| format!("disk: swept {swept:?}"));
            let rows = self.disk.store.read_log(SHARD, Position(0), usize::MAX, usize::MAX);
            let rows = rows.map_err(|error| store_failed(&error))?;
            self.model.swept(rows, retention.finished_before.map_or(i64::MIN, |before| before.0))?;
        }
        self.tell(News::Swept);
        Ok(())
    }

    fn commit_now(&mut self, group: &[Append]) -> Result<Vec<AppendOutcome>, Violation> {
        self.sync();
        let Some(writer) = &mut self.disk.writer else { return Ok(Vec::new()) };
        let outcomes = writer.commit(group).map_err(|error| store_failed(&error))?;
        self.line(|| format!("disk: commits {} appends: {outcomes:?}", group.len()));
        self.observe()?;
        Ok(outcomes)
    }

    /// What the model has to know: the rows that have become durable.
    fn observe(&mut self) -> Result<(), Violation> {
        let rows = self.disk.store.read_log(SHARD, self.model.newest(), usize::MAX, usize::MAX);
        self.model.observe(rows.map_err(|error| store_failed(&error))?)
    }

    /// Writes the caches that wait for the next commit.
    fn sync(&mut self) {
        for work in std::mem::take(&mut self.disk.unsynced) {
            self.write_cache(work);
        }
    }

    fn write_cache(&mut self, work: Work) {
        let Some(writer) = &mut self.disk.writer else { return };
        // A cache that cannot be written is one that is not there.
        let _ = match work {
            Work::Snapshot(run, snapshot) => writer.put_snapshot(run, &snapshot),
            Work::Agents(agents) => writer.put_agents(&agents),
            Work::Append(..) | Work::Sweep(_) | Work::Reopen => Ok(()),
        };
    }

    /// The process is gone: what it had in memory goes with it, and caches may have reached the disk.
    pub(crate) fn lose_memory(&mut self) {
        for work in std::mem::take(&mut self.disk.unsynced) {
            if self.rng.percent(50) {
                self.write_cache(work);
            }
        }
        self.disk.writer = None;
        self.disk.queue.clear();
        self.disk.news.clear();
        self.disk.busy = false;
        self.disk.reopening = false;
    }

    /// Another daemon claims the shard: what the old one still appends is refused, and it falls silent.
    fn taken_over(&mut self, group: &[Append]) -> Result<(), Violation> {
        self.line(|| "disk: another daemon takes the shard over".to_owned());
        let mut in_flight: Vec<Bytes> = group.iter().map(|append| append.events.clone()).collect();
        in_flight.extend(self.disk.in_flight());
        let generation = self.generation;
        self.disk.store.claim(SHARD).map_err(|error| store_failed(&error))?;
        while let Some(news) = self.disk.news.pop_front() {
            if let News::Committed(outcomes, _) = news {
                self.deliver(Input::Committed { outcomes })?;
            }
        }
        self.carry_out_unharmed()?;
        if self.generation != generation {
            return Ok(());
        }
        let outstanding = self.disk.queue.iter().filter(|work| matches!(work, Work::Append(..))).count();
        let Some(mut writer) = self.disk.writer.take() else { return Ok(()) };
        let mut outcomes = writer.commit(group).map_err(|error| store_failed(&error))?;
        outcomes.resize(group.len() + outstanding, AppendOutcome::Fenced);
        self.fence(outcomes)?;
        self.die(CrashPoint::TakenOver, &in_flight);
        Ok(())
    }

    /// The old daemon learns that it lost the shard.
    fn fence(&mut self, outcomes: Vec<AppendOutcome>) -> Result<(), Violation> {
        let now = Timestamp(self.now + self.skew);
        let unknown = self.daemon.unknown;
        let Some(core) = &mut self.daemon.core else { return Ok(()) };
        let mut outputs = Vec::new();
        core.handle(now, Input::Committed { outcomes }, &mut outputs);
        core.handle(Timestamp(now.0 + 60_000), Input::Wake, &mut outputs);
        // One that reads the shard again has nothing in flight, and has fallen silent already.
        let fenced = unknown || outputs.iter().any(|output| matches!(output, Output::Fenced));
        Invariant::FencedIsSilent.check(fenced, || "the core does not say that it is fenced".to_owned())?;
        for output in &outputs {
            let silent = matches!(
                output,
                Output::Fenced
                    | Output::Close { .. }
                    | Output::Reply { answer: capataz_runtime::core::Answer::Unavailable, .. }
            );
            Invariant::FencedIsSilent.check(silent, || format!("{output:?}"))?;
        }
        Ok(())
    }

    /// The oldest news reaches the shard's thread.
    pub(crate) fn written(&mut self) -> Result<(), Violation> {
        match self.disk.news.pop_front() {
            None => Ok(()),
            Some(News::Committed(outcomes, events)) => {
                self.daemon.acknowledged.extend(events);
                self.deliver(Input::Committed { outcomes })
            }
            Some(News::Swept) => self.deliver(Input::Swept),
            Some(News::Failed) => self.deliver(Input::CommitFailed),
            Some(News::Recovered(recovered, newest)) => {
                self.daemon.ring = Ring::new(newest, self.scenario.ring_bytes);
                self.model.recovered(newest);
                self.daemon.ready = true;
                self.deliver(Input::Recovered(recovered))?;
                self.check_state()
            }
        }
    }

    /// The shard is claimed and read, by the code that the tokio shell reads it with.
    pub(crate) fn reopened(&mut self) -> Result<(), Violation> {
        self.sync();
        self.disk.reopening = false;
        let (recovered, newest) = self.claim().map_err(|error| store_failed(&error))?;
        self.check_store()?;
        for (run, state) in &recovered.runs {
            self.check_faithful(*run, state, state.seq())?;
        }
        for (stream, state) in &recovered.sessions {
            self.check_session(*stream, state.as_ref())?;
        }
        if self.strikes(self.scenario.crashes.saturating_mul(4)) {
            let newest = self.model.unfinished().map(|run| run.newest.clone());
            let sessions = recovered.sessions.iter().filter_map(|(stream, _)| self.model.session(*stream));
            let newest: Vec<Bytes> = newest.chain(sessions.map(|session| session.newest.clone())).collect();
            self.die(CrashPoint::DuringRecovery, &newest);
            return Ok(());
        }
        self.line(|| format!("disk: claimed by {:?}, {} runs", recovered.epoch, recovered.runs.len()));
        self.tell(News::Recovered(recovered, newest));
        self.keep_writing();
        Ok(())
    }

    fn claim(&mut self) -> Result<(Recovered, Position), StoreError> {
        let store = self.disk.store.clone();
        let writer = store.claim(SHARD)?;
        let mut runs = Vec::new();
        for run in store.unfinished(SHARD, None, usize::MAX)? {
            runs.push((run, shell::load(&store, run)?));
        }
        let streams = runs.iter().filter_map(|(_, state)| state.session().map(session_stream));
        let streams: BTreeSet<RunId> = streams.collect();
        let sessions = streams.into_iter().map(|stream| Ok((stream, shell::load_session(&store, stream)?)));
        let sessions = sessions.collect::<Result<Vec<_>, StoreError>>()?;
        let agents = store.agents()?.into_iter().filter_map(|row| {
            let agent = v1::Agent::decode(row.agent).ok()?;
            Some(KnownAgent { agent, source: v1::AgentSource::Worker, last_seen: Some(row.last_seen) })
        });
        let recovered = Recovered { epoch: writer.epoch(), runs, sessions, agents: agents.collect() };
        self.disk.writer = Some(writer);
        Ok((recovered, store.bounds(SHARD)?.newest))
    }

    pub(crate) fn check_store(&self) -> Result<(), Violation> {
        let rows = self.disk.store.read_log(SHARD, Position(0), usize::MAX, usize::MAX);
        self.model.check_log(&rows.map_err(|error| store_failed(&error))?)
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
