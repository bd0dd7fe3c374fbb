//! The writer's thread: everything that waits becomes one transaction.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use capataz_contracts::v1;
use capataz_engine::session::SessionState;
use capataz_engine::{RunState, SNAPSHOT_FORMAT};
use capataz_store::{
    AgentRow, Append, AppendOutcome, Position, Retention, RunId, ShardId, ShardWriter, Snapshot, Store,
    StoreError, Swept,
};
use prost::Message;
use tokio::sync::{mpsc::UnboundedSender, oneshot};

use crate::core::{KnownAgent, Recovered, SESSION_SNAPSHOT_FORMAT, seed_of, session_stream};
use crate::feed;

/// Appends in one transaction at most.
const MAX_BATCH: usize = 1024;
/// Runs read at a time when a shard is recovered.
const RECOVERY_PAGE: usize = 1024;

pub(super) enum Work {
    Append(Vec<Append>),
    Snapshot(RunId, Snapshot),
    Agents(Vec<AgentRow>),
    Sweep(Retention, oneshot::Sender<Result<Swept, StoreError>>),
    /// Claim the shard anew and read it.
    Reopen,
    Stop,
}

/// What the writer tells the shard.
pub(super) enum Written {
    Committed(Vec<AppendOutcome>),
    Failed,
    /// A sweep has ended, well or not.
    Swept,
    /// The shard was claimed; its newest position.
    Recovered(Recovered, Position),
    /// The shard could not be claimed or read; the writer tries again.
    Unreadable(StoreError),
}

pub(super) struct Writer {
    pub(super) work: Sender<Work>,
    pub(super) thread: JoinHandle<()>,
}

pub(super) fn spawn(
    store: Arc<dyn Store>,
    shard: ShardId,
    written: UnboundedSender<Written>,
) -> std::io::Result<Writer> {
    let (work, receiver) = channel();
    let thread = std::thread::Builder::new()
        .name("capataz-writer".to_owned())
        .spawn(move || Loop { store, shard, written, writer: None }.run(&receiver))?;
    Ok(Writer { work, thread })
}

struct Loop {
    store: Arc<dyn Store>,
    shard: ShardId,
    written: UnboundedSender<Written>,
    /// `None` after a failed commit, until the shard is reopened.
    writer: Option<Box<dyn ShardWriter>>,
}

impl Loop {
    fn run(mut self, receiver: &Receiver<Work>) {
        let mut appends: Vec<Append> = Vec::new();
        let mut later = Vec::new();
        while let Ok(first) = receiver.recv() {
            let mut stop = false;
            let mut next = Some(first);
            while let Some(work) = next.take() {
                match work {
                    Work::Append(batch) => appends.extend(batch),
                    Work::Stop => stop = true,
                    other => later.push(other),
                }
                // Anything but an append comes after the appends before it.
                if appends.len() < MAX_BATCH && later.is_empty() && !stop {
                    next = receiver.try_recv().ok();
                }
            }
            self.commit(&mut appends);
            for work in later.drain(..) {
                self.carry_out(work);
            }
            if stop {
                return;
            }
        }
    }

    fn commit(&mut self, appends: &mut Vec<Append>) {
        let Some(writer) = &mut self.writer else { return appends.clear() };
        if appends.is_empty() {
            return;
        }
        let told = match writer.commit(appends) {
            Ok(outcomes) => Written::Committed(outcomes),
            Err(error) => {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "a commit failed; the shard is read again"
                );
                self.writer = None;
                Written::Failed
            }
        };
        appends.clear();
        let _ = self.written.send(told);
    }

    fn carry_out(&mut self, work: Work) {
        match work {
            Work::Snapshot(run, snapshot) => {
                if let Some(writer) = &mut self.writer
                    && let Err(error) = writer.put_snapshot(run, &snapshot)
                {
                    tracing::warn!(%run, error = &error as &dyn std::error::Error, "a snapshot was not written");
                }
            }
            Work::Agents(agents) => {
                if let Some(writer) = &mut self.writer
                    && let Err(error) = writer.put_agents(&agents)
                {
                    tracing::warn!(error = &error as &dyn std::error::Error, "agents were not remembered");
                }
            }
            Work::Sweep(retention, reply) => {
                let swept = match &mut self.writer {
                    Some(writer) => writer.sweep(&retention),
                    None => Err(StoreError::Closed),
                };
                let _ = self.written.send(Written::Swept);
                let _ = reply.send(swept);
            }
            Work::Reopen => self.reopen(),
            Work::Append(_) | Work::Stop => {}
        }
    }

    /// Claims the shard until that succeeds: the disk may be full for a while.
    fn reopen(&mut self) {
        let mut delay = Duration::from_millis(50);
        loop {
            match self.claim() {
                Ok((recovered, newest)) => {
                    let _ = self.written.send(Written::Recovered(recovered, newest));
                    return;
                }
                Err(error) => {
                    if self.written.send(Written::Unreadable(error)).is_err() {
                        return;
                    }
                }
            }
            #[expect(
                clippy::disallowed_methods,
                reason = "a disk that was full may have room later; nothing tells when"
            )]
            std::thread::sleep(delay);
            delay = (delay * 2).min(Duration::from_secs(2));
        }
    }

    fn claim(&mut self) -> Result<(Recovered, Position), StoreError> {
        let writer = self.store.claim(self.shard)?;
        let epoch = writer.epoch();
        let mut runs = Vec::new();
        let mut after = None;
        loop {
            let page = self.store.unfinished(self.shard, after, RECOVERY_PAGE)?;
            let Some(last) = page.last() else { break };
            after = Some(*last);
            for run in page {
                runs.push((run, load(&*self.store, run)?));
            }
        }
        let mut sessions = BTreeMap::new();
        for (_, state) in &runs {
            if let Some(session) = state.session() {
                let stream = session_stream(session);
                if let Entry::Vacant(session) = sessions.entry(stream) {
                    session.insert(load_session(&*self.store, stream)?);
                }
            }
        }
        let sessions = sessions.into_iter().collect();
        let agents = self.store.agents()?.into_iter().filter_map(|row| {
            let agent = v1::Agent::decode(row.agent).ok()?;
            Some(KnownAgent { agent, source: v1::AgentSource::Worker, last_seen: Some(row.last_seen) })
        });
        let agents = agents.collect();
        let newest = self.store.bounds(self.shard)?.newest;
        self.writer = Some(writer);
        Ok((Recovered { epoch, runs, sessions, agents }, newest))
    }
}

/// Reads a run: its snapshot, where there is one of this format, and the events after it.
///
/// # Errors
/// The store cannot be read, or the log is damaged.
pub fn load(store: &dyn Store, run: RunId) -> Result<RunState, StoreError> {
    let snapshot = store.snapshot(run)?.filter(|snapshot| snapshot.format == SNAPSHOT_FORMAT);
    let mut state = snapshot.and_then(|snapshot| RunState::from_snapshot(&snapshot.state).ok());
    let mut after = state.as_ref().map_or(0, RunState::seq);
    loop {
        let rows = store.read_run(run, after, 512, 4 * 1024 * 1024)?;
        let Some(last) = rows.last() else { break };
        let last_seq = last.first_seq + u64::from(last.count).saturating_sub(1);
        for row in &rows {
            for event in feed::split(&row.events) {
                let event = v1::Event::decode(event).map_err(|error| corrupt(run, &error))?;
                if event.seq <= after {
                    continue;
                }
                state = Some(match state.take() {
                    None => RunState::fold(seed_of(run), [event]).map_err(|error| corrupt(run, &error))?,
                    Some(mut state) => {
                        state.apply(event).map_err(|error| corrupt(run, &error))?;
                        state
                    }
                });
            }
        }
        after = last_seq;
    }
    let mut state =
        state.ok_or_else(|| StoreError::Corrupt { detail: format!("run {run} has no events") })?;
    state.loaded();
    Ok(state)
}

/// Reads a session by its stream; `None` where nothing was ever said in it.
///
/// # Errors
/// The store cannot be read, or the log is damaged.
pub fn load_session(store: &dyn Store, stream: RunId) -> Result<Option<SessionState>, StoreError> {
    let snapshot = store.snapshot(stream)?.filter(|snapshot| snapshot.format == SESSION_SNAPSHOT_FORMAT);
    let mut state = snapshot.and_then(|snapshot| SessionState::from_snapshot(&snapshot.state).ok());
    loop {
        let after = state.as_ref().map_or(0, SessionState::seq);
        let rows = store.read_run(stream, after, 512, 4 * 1024 * 1024)?;
        if rows.is_empty() {
            return Ok(state);
        }
        for event in rows.iter().flat_map(|row| feed::split(&row.events)) {
            let event = v1::Event::decode(event).map_err(|error| corrupt(stream, &error))?;
            match &mut state {
                None => state = Some(SessionState::fold([event]).map_err(|error| corrupt(stream, &error))?),
                Some(state) if event.seq > state.seq() => {
                    state.apply(event).map_err(|error| corrupt(stream, &error))?;
                }
                Some(_) => {}
            }
        }
    }
}

fn corrupt(run: RunId, error: &dyn std::fmt::Display) -> StoreError {
    StoreError::Corrupt { detail: format!("run {run}: {error}") }
}
