//! The independent model: it sees acknowledgements and the event stream, and nothing else.
//!
//! It shares no code with the engine but the aggregation policies, whose direct evaluation is what an outcome is
//! compared with. [`log`] follows the durable events of each run, `ask` and [`script`] those that only an ask or a script
//! has, `page` what was really done to pages, and [`session`] those of a session; [`frames`] and [`answers`] hold what leaves the core against them.

mod answers;
mod ask;
mod deadline;
pub mod family;
mod fork;
pub mod frames;
mod host_error;
mod inputs;
mod keys;
mod lifecycle;
pub mod log;
pub mod mode;
mod mode_browser;
mod page;
pub mod pipeline;
mod policy;
mod rollback;
pub mod script;
pub mod session;
mod session_work;
pub mod settle;
pub(crate) mod severity;
mod spans;
mod take_over;
mod work;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use capataz_contracts::v1::{self, event::Body};
use capataz_shard::feed;
use capataz_shard::session_stream;
use capataz_shard::shard::Published;
use capataz_store::{LogRow, Position, RunId, ShardId};
use prost::Message;

use crate::invariant::{Invariant, Violation};
use crate::plans::KEY_LABEL;
pub use keys::KeyModel;
pub use log::{QuestionModel, RunModel};
use mode::Pool;
pub use session::SessionModel;

/// One durable event, in the order of its shard.
#[derive(Clone, Debug)]
pub struct Entry {
    pub shard: ShardId,
    pub run: RunId,
    pub event: Bytes,
    pub severity: i32,
    /// What a reader's label filter looks at.
    pub team: u8,
    pub position: Position,
    /// The sweep that has removed it. Subscribers whose streams begin after that need not get it.
    pub removed: Option<u64>,
    /// A copy of another run's event, which only readers of this one run get.
    pub inherited: bool,
}

/// What the log and the acknowledgements say.
#[derive(Clone, Debug, Default)]
pub struct Model {
    runs: BTreeMap<RunId, RunModel>,
    sessions: BTreeMap<RunId, SessionModel>,
    /// Asks that have not begun, by the streams of their sessions, in the order in which they were accepted.
    waiting: BTreeMap<RunId, Vec<RunId>>,
    /// The ask whose end is durable, and whose session has to hear of it with the next row.
    owed: Option<RunId>,
    entries: Vec<Entry>,
    /// What runs have of others whose own beginning has not been seen.
    pasts: BTreeMap<RunId, Vec<Bytes>>,
    /// Events that were seen.
    tick: u64,
    /// How many of them memory was first read after for a prompt that has not come yet.
    read_after: BTreeMap<RunId, u64>,
    shards: BTreeMap<ShardId, Rows>,
    pub keys: KeyModel,
}

/// The log of one shard.
#[derive(Clone, Debug, Default)]
struct Rows {
    rows: Vec<LogRow>,
    /// Rows that retention has removed.
    gone: Vec<LogRow>,
    /// Newest position that was published since the last start.
    published: Position,
}

impl Model {
    #[must_use]
    pub fn newest(&self, shard: ShardId) -> Position {
        let Some(Rows { rows, gone, .. }) = self.shards.get(&shard) else { return Position(0) };
        rows.iter().chain(gone).map(|row| row.position).max().unwrap_or_default()
    }

    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    #[must_use]
    pub fn run(&self, run: RunId) -> Option<&RunModel> {
        self.runs.get(&run)
    }

    #[must_use]
    pub fn session(&self, stream: RunId) -> Option<&SessionModel> {
        self.sessions.get(&stream)
    }

    pub fn sessions(&self) -> impl Iterator<Item = &SessionModel> {
        self.sessions.values()
    }

    pub fn runs(&self) -> impl Iterator<Item = &RunModel> {
        self.runs.values()
    }

    pub fn unfinished(&self) -> impl Iterator<Item = &RunModel> {
        self.runs.values().filter(|run| run.finished.is_none())
    }

    /// Takes rows that have become durable.
    pub fn observe(&mut self, shard: ShardId, rows: Vec<LogRow>) -> Result<(), Violation> {
        for row in rows {
            let owed = self.owed.take();
            let mut count = 0;
            let Some(events) = row.events.clone() else {
                return Invariant::LogStays.broken("a row that has become durable is damaged");
            };
            for bytes in feed::split(&events) {
                count += 1;
                let seq = row.first_seq + u64::from(count) - 1;
                let event = v1::Event::decode(bytes.clone());
                let Ok(event) = event else { return Invariant::GaplessSeq.broken("an event cannot be read") };
                Invariant::GaplessSeq.check(event.seq == seq, || {
                    format!("run {}: event {} lies where {seq} belongs", row.run, event.seq)
                })?;
                let severity = match row.inherited {
                    true => self.inherits(&row, seq, bytes.clone())?,
                    false => {
                        let severity = severity::of_event(&event);
                        self.event(row.run, event, bytes.clone())?;
                        severity
                    }
                };
                let team = self.runs.get(&row.run).map_or(0, |run| run.team);
                self.entries.push(Entry {
                    shard,
                    run: row.run,
                    event: bytes,
                    severity,
                    team,
                    position: row.position,
                    removed: None,
                    inherited: row.inherited,
                });
            }
            Invariant::GaplessSeq.check(count == row.count, || {
                format!("run {}: a row of {} events holds {count}", row.run, row.count)
            })?;
            if let Some(run) = self.runs.get_mut(&row.run) {
                run.has_no_lease_of(run.inherited_token)?;
                run.newest = events.clone();
            }
            if let Some(session) = self.sessions.get_mut(&row.run) {
                session.newest = events;
            }
            self.owed = self.owed.or(self.owes_work(row.run));
            if let Some(run) = owed {
                let model = self.runs.get(&run);
                let paid =
                    self.sessions.get(&row.run).zip(model).is_some_and(|(session, run)| session.knows(run));
                Invariant::SessionTurns
                    .check(paid, || format!("run {run} has come further, and its session does not know"))?;
            }
            self.shards.entry(shard).or_default().rows.push(row);
        }
        let owed = self.owed;
        Invariant::SessionTurns.check(owed.is_none(), || {
            format!("run {owed:?} has come further, and its session never hears of it")
        })
    }

    fn event(&mut self, run: RunId, event: v1::Event, bytes: Bytes) -> Result<(), Violation> {
        self.tick += 1;
        self.check_family(run, event.body.as_ref())?;
        if let Some(session) = self.sessions.get_mut(&run) {
            return session.observe(event, bytes, &self.runs, self.tick);
        }
        if matches!(event.body, Some(Body::SessionOpened(_))) {
            self.sessions.insert(run, SessionModel::begin(run, event, bytes)?);
            return Ok(());
        }
        if let Some(Body::RunForked(forked)) = &event.body
            && !self.runs.contains_key(&run)
        {
            let forked = forked.clone();
            return self.forked(run, event, forked, bytes);
        }
        if self.runs.contains_key(&run) {
            let child_ended = match &event.body {
                Some(Body::ChildEnded(ended)) => Some(ended.clone()),
                _ => None,
            };
            self.run_event(run, event, bytes)?;
            let Some(ended) = child_ended else { return Ok(()) };
            let child = ended.run_id.parse().ok().and_then(|child| self.runs.get(&child));
            let told = child.and_then(|child| child.failed_with);
            return match self.runs.get_mut(&run) {
                Some(parent) => parent.hears_of_failure(&ended, told),
                None => Ok(()),
            };
        }
        let model = RunModel::begin(run, event, bytes)?;
        if let Some(key) = model.labels.get(KEY_LABEL) {
            self.keys.is_made(key, run, &self.runs)?;
        }
        if let Some(session) = model.session() {
            self.waiting.entry(session_stream(session)).or_default().push(run);
        }
        self.runs.insert(run, model);
        Ok(())
    }

    /// One more event of a run; what the run's session has to do with it.
    fn run_event(&mut self, run: RunId, event: v1::Event, bytes: Bytes) -> Result<(), Violation> {
        let in_session = self.runs.get(&run).is_some_and(|run| run.session().is_some());
        let begins = match &event.body {
            Some(Body::AskBegun(_) | Body::PlanBegun(_)) => true,
            Some(Body::ModeBegun(_)) => in_session,
            _ => false,
        };
        if begins {
            self.check_turn(run)?;
        }
        if let Some(Body::PlannerAsked(asked)) = &event.body {
            self.check_recalled(run, asked, event.at_ms)?;
            self.read_after.remove(&run);
        }
        let Some(model) = self.runs.get_mut(&run) else { return Ok(()) };
        let stream = model.session().map(session_stream);
        if let Some(Body::ModeBegun(_)) = &event.body {
            let chosen = stream.and_then(|stream| self.sessions.get(&stream)).map(SessionModel::mode);
            model.has_its_turn_in(chosen.unwrap_or_default());
        }
        if let (Some(Body::PlanBegun(_) | Body::ModeBegun(_)), Some(stream)) = (&event.body, stream) {
            // The first plan of a session that is not there yet opens it in the same commit.
            let busy = self.sessions.get_mut(&stream).and_then(|session| session.active.replace(run));
            Invariant::SessionContexts
                .check(busy.is_none(), || format!("run {run} begins while {busy:?} is at work"))?;
        }
        if let Some(Body::AskBegun(begun)) = &event.body {
            let context = begun.context.clone().unwrap_or_default();
            let session = stream.and_then(|stream| self.sessions.get_mut(&stream));
            let same = match session {
                Some(session) => {
                    let free = session.active.replace(run).is_none();
                    free && session.check_context(&context, event.at_ms)
                }
                None => context == v1::SessionContext::default(),
            };
            Invariant::SessionContexts.check(same, || {
                let session = stream.and_then(|stream| self.sessions.get(&stream));
                format!("run {run} begins with {context:?}, its session is {session:?}")
            })?;
        }
        model.tick = self.tick;
        model.observe(event, bytes)?;
        if let (Some(outcome), Some(stream)) = (model.finished, stream) {
            if let Some(session) =
                self.sessions.get_mut(&stream).filter(|session| session.active == Some(run))
            {
                session.active = None;
            }
            let spoke = outcome != v1::RunOutcome::Cancelled as i32 && !model.waves.is_empty();
            self.owed = (model.ask().is_some() && spoke).then_some(run);
        }
        Ok(())
    }

    /// The process that has read is gone, and what it has read.
    pub fn crashed(&mut self) {
        self.read_after.clear();
    }

    /// Memory is read for the run's next prompt.
    pub fn memory_is_read(&mut self, run: RunId) {
        self.read_after.entry(run).or_insert(self.tick);
    }

    /// What a prompt was given of memory is what all runs of the session, or the run alone, have left there in its mode, and
    /// nobody has had forgotten.
    fn check_recalled(&self, run: RunId, asked: &v1::PlannerAsked, at: i64) -> Result<(), Violation> {
        let Some(model) = self.runs.get(&run) else { return Ok(()) };
        let Some((session, mode)) = model.memory_of() else { return Ok(()) };
        let forgotten = self.sessions.get(&session_stream(&session)).map(|session| &session.forgotten);
        let of_session =
            self.runs.values().filter(|other| other.memory_of() == Some((session.clone(), mode)));
        let mut pool = Pool::default();
        for other in of_session {
            // When its rows have gone nobody knows.
            if other.removed {
                return Ok(());
            }
            other.add_to(&mut pool);
        }
        // What has become forgotten since it was read was still there then.
        let read_after = self.read_after.get(&run).copied().unwrap_or(model.tick);
        if forgotten.is_some_and(|all| all.values().any(|tick| *tick > read_after)) {
            return Ok(());
        }
        pool.forget(|id| forgotten.is_some_and(|all| all.contains_key(id)));
        let recalled = asked.recalled.clone().unwrap_or_default();
        let told = pool.told(mode);
        let agrees = [recalled.entries, recalled.digests, recalled.skipped] == told;
        // Where the clock was set, not all entries are of the last day.
        Invariant::MemoryFollows.check(agrees || pool.has_old(at), || {
            format!("run {run}: {asked:?} in session {session}: expected {told:?}")
        })
    }

    /// The plan, where it has come further than the state of its session's work says.
    fn owes_work(&self, run: RunId) -> Option<RunId> {
        let model = self.runs.get(&run).filter(|model| model.plan_has_turn())?;
        let session = self.sessions.get(&session_stream(model.session()?));
        (!session.is_some_and(|session| session.knows(model))).then_some(run)
    }

    /// The ask begins before all others of its session that wait.
    fn check_turn(&mut self, run: RunId) -> Result<(), Violation> {
        let session = self.runs.get(&run).and_then(RunModel::session);
        let Some(waiting) = session.and_then(|session| self.waiting.get_mut(&session_stream(session))) else {
            return Ok(());
        };
        let runs = &self.runs;
        waiting.retain(|run| runs.get(run).is_some_and(|run| run.finished.is_none()));
        Invariant::TurnsInOrder.check(waiting.first() == Some(&run), || {
            format!("run {run} has its turn, and these were to have theirs in this order: {waiting:?}")
        })?;
        waiting.remove(0);
        Ok(())
    }

    /// What the store holds after a crash is what was durable before it.
    pub fn check_log(&self, shard: ShardId, rows: &[LogRow]) -> Result<(), Violation> {
        let durable = self.shards.get(&shard).map_or(&[][..], |log| &log.rows);
        Invariant::LogStays.check(rows == durable, || {
            format!(
                "{shard:?} has {} rows in the store, {} were durable, or their bytes differ",
                rows.len(),
                durable.len()
            )
        })
    }

    /// Retention has left these rows: what is missing are whole runs that were over before `finished_before`, and
    /// sessions that no unfinished ask belongs to; all of them are among the streams that are really `old` enough.
    pub fn swept(
        &mut self,
        shard: ShardId,
        rows: Vec<LogRow>,
        finished_before: i64,
        old: &BTreeSet<RunId>,
        sweep: u64,
    ) -> Result<(), Violation> {
        let left: BTreeSet<Position> = rows.iter().map(|row| row.position).collect();
        let (kept, gone): (Vec<LogRow>, Vec<LogRow>) =
            std::mem::take(&mut self.shards.entry(shard).or_default().rows)
                .into_iter()
                .partition(|row| left.contains(&row.position));
        let streams: BTreeSet<RunId> = gone.iter().map(|row| row.run).collect();
        for stream in streams {
            let whole = !kept.iter().any(|row| row.run == stream);
            let allowed = match (self.runs.get_mut(&stream), self.sessions.remove(&stream)) {
                (Some(run), _) => {
                    run.removed = true;
                    let parent = run.parent.filter(|_| run.finished.is_some());
                    let wanted = parent.and_then(|parent| self.runs.get(&parent)).is_some_and(|parent| {
                        parent.awaited_children().any(|child| *child == stream.to_string())
                    });
                    let Some(run) = self.runs.get(&stream) else { continue };
                    !wanted && run.finished.is_some() && run.last_at < finished_before
                }
                (None, Some(session)) => {
                    let of_it = |run: &&RunModel| run.session() == Some(&session.name);
                    session.last_at < finished_before && self.unfinished().find(of_it).is_none()
                }
                (None, None) => false,
            };
            Invariant::YoungIsKept
                .check(old.contains(&stream), || format!("{stream} is removed, and not old"))?;
            Invariant::SweepsAreAllowed
                .check(whole && allowed, || format!("{stream} is removed, before {finished_before}"))?;
        }
        let removed: BTreeSet<Position> = gone.iter().map(|row| row.position).collect();
        for entry in
            self.entries.iter_mut().filter(|entry| entry.shard == shard && removed.contains(&entry.position))
        {
            entry.removed = Some(sweep);
        }
        let log = self.shards.entry(shard).or_default();
        log.gone.extend(gone);
        log.rows = kept;
        self.check_log(shard, &rows)
    }

    /// Publications tell of durable rows, each once and in order.
    pub fn check_published(&mut self, shard: ShardId, published: &Published) -> Result<(), Violation> {
        let log = self.shards.entry(shard).or_default();
        let row = log.rows.iter().rev().chain(&log.gone).find(|row| row.position == published.position);
        let same = row.is_some_and(|row| {
            row.run == published.run
                && row.first_seq == published.first_seq
                && row.count == published.count
                && row.events.as_ref() == Some(&published.events)
        });
        Invariant::NoEffectBeforeCommit
            .check(same, || format!("published {:?} of run {}", published.position, published.run))?;
        Invariant::ExactlyOnce.check(published.position > log.published, || {
            format!("published {:?} after {:?}", published.position, log.published)
        })?;
        log.published = published.position;
        Ok(())
    }

    /// A daemon has read the shard: what it publishes lies after `newest`.
    pub fn recovered(&mut self, shard: ShardId, newest: Position) {
        self.shards.entry(shard).or_default().published = newest;
    }
}
