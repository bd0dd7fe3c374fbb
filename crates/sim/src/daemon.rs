//! The shards' thread: hands inputs to the driver and carries its outputs out, in the order in which the tokio shell does.
//! Between the shards and the crew messages come late, twice, or never.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use capataz_contracts::v1::{self, connect_response::Frame as Told};
use capataz_crew::protocol;
use capataz_crew::{CloseReason, Mono, Now};
use capataz_shard::driver::Carried;
use capataz_shard::feed::{self, Ring};
use capataz_shard::journal::{Errand, Work, errands};
use capataz_shard::{
    Answer, CommandReply, Declined, Driver, ImportReply, Input, Output, Recovered, Request, Shard,
    StartReply, Touched, TransitionReply, WaitReply,
};
use capataz_store::{Position, Removal, RunId, ShardId, Snapshot};
use prost::Message;

use crate::coverage::{CrashPoint, likelihood};
use crate::invariant::{Invariant, Violation};
use crate::scenario::Scenario;
use crate::schedule::Action;
use crate::trace::Fact;
use crate::wire::Unreliable;
use crate::world::World;

pub struct Daemon {
    /// `None` while no daemon runs.
    pub core: Option<Driver>,
    outputs: Vec<Output>,
    pub rings: BTreeMap<ShardId, Ring>,
    /// The shards that were never read yet; subscribers are served when there are none.
    unread: BTreeSet<ShardId>,
    pub ready: bool,
    pub draining: bool,
    /// Something failed, and the shard was not read again since.
    pub unknown: BTreeSet<ShardId>,
    carrying: bool,
    /// Messages between shards and the crew that are on their way, and when the last one of each direction arrives.
    pub on_the_way: usize,
    arrives_at: BTreeMap<(ShardId, bool), i64>,
    /// The newest session between a shard and the crew, and the newest of which a message was lost.
    sessions: BTreeMap<ShardId, (u64, u64)>,
    /// Agents that a rate limit holds, as both ends of a wire know that lets nothing wait.
    held: BTreeMap<Arc<str>, Mono>,
    wake_at: Option<i64>,
    /// The time that was due after the last input all the same.
    still_due: Option<Mono>,
    /// Streams of the appends that the core was not told of yet, oldest first.
    in_flight: BTreeMap<ShardId, VecDeque<Option<RunId>>>,
    /// Events of commits that the core was told of and whose outputs have not left.
    pub acknowledged: Vec<Bytes>,
}

impl Daemon {
    pub fn new(scenario: &Scenario) -> Self {
        let ring = |shard| (shard, Ring::new(Position(0), scenario.ring_bytes));
        Self {
            core: None,
            outputs: Vec::new(),
            rings: scenario.shards().into_iter().map(ring).collect(),
            unread: scenario.shards().into_iter().collect(),
            ready: false,
            draining: false,
            unknown: BTreeSet::new(),
            carrying: false,
            on_the_way: 0,
            arrives_at: BTreeMap::new(),
            sessions: BTreeMap::new(),
            held: BTreeMap::new(),
            wake_at: None,
            still_due: None,
            in_flight: BTreeMap::new(),
            acknowledged: Vec::new(),
        }
    }

    pub fn is_idle(&self) -> bool {
        let settled = self.core.as_ref().is_some_and(|core| core.pending_appends() == 0);
        settled && self.outputs.is_empty() && self.on_the_way == 0 && self.unread.is_empty()
    }
}

impl Daemon {
    /// A message between a shard and the crew was lost, and neither has noticed.
    pub fn misses_a_message(&self) -> bool {
        self.sessions.values().any(|(newest, lost)| newest == lost)
    }
}

/// The shard of a run or of a session's stream.
pub(crate) fn home(stream: RunId, shards: &[ShardId]) -> ShardId {
    protocol::home(stream, shards).unwrap_or(ShardId(0))
}

impl World {
    /// Whether a fault of this frequency happens here.
    pub(crate) fn strikes(&mut self, per_mille: u32) -> bool {
        !self.is_calm() && self.rng.per_mille(per_mille)
    }

    pub(crate) fn boot(&mut self) -> Result<(), Violation> {
        if self.daemon.core.is_some() {
            return Ok(());
        }
        self.line(|| "daemon: starts".to_owned());
        self.unwatched_jumps.push((self.now, std::mem::take(&mut self.set_unwatched)));
        self.daemon.core = Some(Driver::new(&self.scenario.core, self.scenario.shards()));
        self.daemon.held.clear();
        self.handle(self.clocks(), Input::Configure(self.scenario.known(self.naming)))?;
        for shard in self.scenario.shards() {
            self.give(Work::Claim { shard, touched: None });
        }
        Ok(())
    }

    /// Hands an input to the core. Its outputs leave at once or, as in a busy shard, together with those of others.
    pub(crate) fn deliver(&mut self, input: Input) -> Result<(), Violation> {
        let now = self.clocks();
        if self.daemon.core.is_none() {
            return Ok(());
        }
        self.inputs += 1;
        let (fact, detail) = fact_of(&input);
        self.trace.fact(fact, now.wall.0.unsigned_abs(), detail);
        if self.trace.is_verbose() {
            let text = shorten(&input);
            self.line(|| format!("<- {text}"));
        }
        let woken = matches!(input, Input::Wake);
        let swept_at = match &input {
            Input::Sweep { ages, .. } => ages.finished_runs,
            _ => None,
        };
        let (mut failed, mut released) = (None, None);
        match &input {
            Input::Request { request: Request::Release { run }, .. } => {
                failed = Some(home(*run, &self.scenario.shards()));
                released = Some(*run);
            }
            Input::Recovered { shard, .. } => {
                self.daemon.unknown.remove(shard);
            }
            Input::CommitFailed { shard } => {
                self.daemon.unknown.insert(*shard);
                failed = Some(*shard);
            }
            Input::Committed { shard, outcomes } => {
                let in_flight = self.daemon.in_flight.entry(*shard).or_default();
                in_flight.drain(..outcomes.len().min(in_flight.len()));
            }
            _ => {}
        }
        let before = self.daemon.outputs.len();
        self.handle(now, input)?;
        let mut unknown = self.daemon.unknown.clone();
        let mut clocks = Vec::new();
        let mut streams = Vec::new();
        let mut restarts = Vec::new();
        for output in self.daemon.outputs.iter().skip(before) {
            match output {
                Output::Append { shard, id, append } => {
                    Invariant::NoAppendAfterUnknown
                        .check(!unknown.contains(shard), || format!("{id:?} is appended"))?;
                    streams.push((*shard, append.key.is_none().then_some(append.run)));
                    if append.key.is_none() {
                        let written = self.written.entry(append.run).or_default();
                        // What had this number or a higher one was never stored.
                        written.split_off(&append.first_seq);
                        written.insert(append.first_seq, self.now);
                    }
                    let elapsed = elapsed(&append.events);
                    clocks.extend(elapsed.map(|elapsed| (append.run, append.first_seq, elapsed)));
                    let begun = self.daemon.draining && begins(&append.events);
                    Invariant::NothingBegunWhileDraining
                        .check(!begun, || format!("{id:?} begins something of run {}", append.run))?;
                }
                // Where the wire takes its time, it may have been said before.
                Output::Frame { frame: Told::Assignment(assignment), .. } if self.has_direct_wire() => {
                    Invariant::NothingBegunWhileDraining
                        .check(!self.daemon.draining, || format!("{assignment:?} is given to a worker"))?;
                }
                Output::Close { reason: CloseReason::Silent, connection } => {
                    self.check_silence(*connection)?
                }
                Output::Close { reason: CloseReason::Restarting, .. } => {
                    Invariant::StreamsKept.check(!self.keeps_streams(), || format!("{output:?}"))?;
                }
                Output::Restart { shard, touched } => {
                    restarts.push((*shard, touched.clone()));
                    Invariant::RestartHasCause
                        .check(failed == Some(*shard), || "the core reads the shard again".to_owned())?;
                    unknown.insert(*shard);
                }
                Output::Fenced { .. } => {
                    return Invariant::RestartHasCause.broken("the core believes to be fenced");
                }
                Output::Sweep { shard, retention: Some(_) } => {
                    self.sweep_ages.entry(*shard).or_default().extend(swept_at.map(|age| (age, self.now)));
                }
                _ => {}
            }
        }
        self.daemon.unknown = unknown;
        for (shard, touched) in restarts {
            self.check_touched(shard, &touched, released)?;
        }
        for (shard, stream) in streams {
            self.daemon.in_flight.entry(shard).or_default().push_back(stream);
        }
        for (run, seq, elapsed) in clocks {
            self.check_clock(run, seq, elapsed)?;
        }
        let due = self.daemon.core.as_ref().and_then(Driver::next_wake).filter(|due| *due <= now.mono);
        let again = woken && due.is_some() && due == self.daemon.still_due;
        Invariant::TimersFire.check(!again, || format!("{due:?} is due at {now:?} and does not go away"))?;
        // What is due before a wake is not what the wake has left.
        self.daemon.still_due = due.filter(|_| woken || due == self.daemon.still_due);
        self.check_slots()?;
        self.check_bounds()?;
        self.rearm();
        if self.rng.percent(70) {
            return self.carry_out();
        }
        if !self.daemon.carrying {
            self.daemon.carrying = true;
            let delay = self.rng.between(0, 3);
            self.after(delay, Action::CarryOut);
        }
        Ok(())
    }

    /// Whether no worker's stream need be closed because of a shard: each was read once, and none misses a message.
    fn keeps_streams(&self) -> bool {
        let scenario = &self.scenario;
        let has_room = scenario.core.max_pending_appends > scenario.inputs as usize;
        self.daemon.ready && self.has_direct_wire() && has_room
    }

    /// Whether what the shards and the crew say to each other arrives at once.
    fn has_direct_wire(&self) -> bool {
        self.scenario.wire_faults == 0 && self.scenario.wire_usual == 0
    }

    /// What the core wants to read again is what was in flight, and what somebody wants tried again. A session may be read
    /// with it.
    fn check_touched(
        &mut self,
        shard: ShardId,
        touched: &Touched,
        released: Option<RunId>,
    ) -> Result<(), Violation> {
        let in_flight = self.daemon.in_flight.remove(&shard).unwrap_or_default();
        let in_flight: BTreeSet<RunId> = in_flight.into_iter().flatten().collect();
        let is_session = |stream: &RunId| touched.sessions.contains(stream);
        let runs = in_flight.iter().copied().chain(released).filter(|stream| !is_session(stream));
        let runs: BTreeSet<RunId> = runs.collect();
        Invariant::OnlyTouchedAreRead.check(touched.runs == runs, || {
            format!("{in_flight:?} were in flight, and {touched:?} is to be read")
        })
    }

    /// One turn of the driver, over a wire that need not be true.
    fn handle(&mut self, now: Now, input: Input) -> Result<(), Violation> {
        let calm = self.is_calm();
        let Some(core) = &mut self.daemon.core else { return Ok(()) };
        let faults = if calm { 0 } else { self.scenario.wire_faults };
        let mut wire = Unreliable {
            rng: &mut self.rng,
            faults,
            usual: self.scenario.wire_usual,
            kept: Vec::new(),
            sessions: &mut self.daemon.sessions,
            now: now.mono,
            held: &mut self.daemon.held,
            offered: None,
        };
        core.handle_over(now, input, &mut wire, &mut self.daemon.outputs);
        if let Some(agent) = wire.offered {
            let until = self.daemon.held.get(&agent);
            return Invariant::HeldAgentsRest
                .broken(format!("{agent} is held until {until:?}, and offered at {now:?}"));
        }
        for (delay, overtakes, carried) in wire.kept {
            let direction = match &carried {
                Carried::ToCrew { shard, .. } => Some((*shard, true)),
                Carried::ToShard { shard, .. } => Some((*shard, false)),
                Carried::Kin(_) | Carried::Key(_) => None,
            };
            let mut at = self.now + delay;
            if let Some(direction) = direction.filter(|_| !overtakes) {
                let last = self.daemon.arrives_at.entry(direction).or_default();
                at = at.max(*last);
                *last = at;
            }
            self.daemon.on_the_way += 1;
            self.at(at, Action::Carried(Box::new(carried)));
        }
        Ok(())
    }

    /// A message between a shard and the crew arrives.
    pub(crate) fn carried(&mut self, carried: Box<Carried>) -> Result<(), Violation> {
        self.daemon.on_the_way = self.daemon.on_the_way.saturating_sub(1);
        self.deliver(Input::Carried(carried))
    }

    /// A shard was claimed and read: what is published of it lies after `newest`.
    pub(crate) fn recovered(&mut self, shard: ShardId, newest: Position) {
        let ring = || Ring::new(newest, self.scenario.ring_bytes);
        self.daemon.rings.entry(shard).or_insert_with(ring).begin_again(newest);
        self.model.recovered(shard, newest);
        self.daemon.unread.remove(&shard);
        self.daemon.ready = self.daemon.unread.is_empty();
    }

    fn rearm(&mut self) {
        let Some(due) = self.daemon.core.as_ref().and_then(Driver::next_wake) else { return };
        let due = self.when(due);
        if self.daemon.wake_at.is_none_or(|at| due < at) {
            self.daemon.wake_at = Some(due);
            let late = self.rng.delay(2, 1_500);
            self.at(due.max(self.now) + late, Action::Wake);
        }
    }

    pub(crate) fn wake(&mut self) -> Result<(), Violation> {
        self.daemon.wake_at = None;
        let due = self.daemon.core.as_ref().and_then(Driver::next_wake);
        if due.is_some_and(|due| self.when(due) <= self.now) {
            return self.deliver(Input::Wake);
        }
        self.rearm();
        Ok(())
    }

    /// Lets the outputs out, in order; the process may die before or among them.
    pub(crate) fn carry_out(&mut self) -> Result<(), Violation> {
        self.daemon.carrying = false;
        let acknowledged = std::mem::take(&mut self.daemon.acknowledged);
        let often = likelihood(self.scenario.crashes, &acknowledged);
        if !acknowledged.is_empty() && self.strikes(often) {
            self.die(CrashPoint::BeforeOutputs, &acknowledged);
            return Ok(());
        }
        let often = if often > self.scenario.crashes { often } else { often / 4 };
        let dies = self.daemon.outputs.len() > 1 && self.strikes(often);
        let dies_at = if dies { 1 + self.rng.below(self.daemon.outputs.len() - 1) } else { usize::MAX };
        self.let_out(dies_at)
    }

    pub(crate) fn carry_out_unharmed(&mut self) -> Result<(), Violation> {
        self.daemon.acknowledged.clear();
        self.let_out(usize::MAX)
    }

    fn let_out(&mut self, dies_at: usize) -> Result<(), Violation> {
        let outputs = std::mem::take(&mut self.daemon.outputs);
        let mut kinds: Vec<Bytes> = Vec::new();
        if dies_at != usize::MAX {
            kinds.extend(outputs.iter().filter_map(|output| match output {
                Output::Append { append, .. } => Some(append.events.clone()),
                Output::Publish { published, .. } => Some(published.events.clone()),
                _ => None,
            }));
        }
        for (index, errand) in errands(outputs.into_iter()).enumerate() {
            if index == dies_at {
                self.die(CrashPoint::MidOutputs, &kinds);
                return Ok(());
            }
            if self.trace.is_verbose() {
                let text = shorten(&errand);
                self.line(|| format!("   -> {text}"));
            }
            match errand {
                Errand::Write(work) => self.write_down(work)?,
                Errand::Leave(output) => self.leave(output)?,
            }
        }
        Ok(())
    }

    /// Something goes to the writer.
    fn write_down(&mut self, work: Work) -> Result<(), Violation> {
        match &work {
            Work::Append(appends) => {
                for (shard, append) in appends {
                    self.trace.fact(Fact::Append, u64::from(shard.0), append.first_seq);
                    self.trace.bytes(&append.events);
                }
            }
            Work::Snapshot { run, snapshot, .. } => {
                self.trace.fact(Fact::Snapshot, snapshot.seq, snapshot.state.len() as u64);
                self.check_snapshot(*run, snapshot)?;
            }
            Work::Quarantine { run, .. } => {
                self.trace.fact(Fact::Quarantine, run.0.as_u64_pair().1, 0);
                self.check_quarantine(*run)?;
            }
            Work::Agents(agents) => self.trace.fact(Fact::Agents, agents.len() as u64, 0),
            Work::ForgetAgents(names) => self.trace.fact(Fact::Agents, names.len() as u64, 1),
            Work::Readings { readings, .. } => self.trace.bytes(readings),
            Work::Remove { run, .. } => self.trace.fact(Fact::Remove, run.0.as_u64_pair().1, 0),
            Work::Release { run, .. } => self.trace.fact(Fact::Remove, run.0.as_u64_pair().1, 1),
            Work::Sweep { retention, .. } => {
                self.trace.fact(Fact::Sweep, retention.keep.len() as u64, 0);
            }
            Work::Claim { shard, touched } => {
                let runs = touched.as_ref().map_or(0, |touched| touched.runs.len() as u64);
                self.trace.fact(Fact::Restart, u64::from(shard.0), runs);
            }
        }
        self.give(work);
        Ok(())
    }

    /// A snapshot tells of what is durable.
    fn check_snapshot(&self, run: RunId, snapshot: &Snapshot) -> Result<(), Violation> {
        if self.model.session(run).is_some() {
            return self.check_session_snapshot(run, snapshot);
        }
        let state = capataz_engine::RunState::from_snapshot(&snapshot.state);
        let Ok(state) = state else { return Invariant::SnapshotFaithful.broken("it cannot be read") };
        let durable = self.model.run(run).is_some_and(|run| snapshot.seq <= run.seq());
        Invariant::NoEffectBeforeCommit
            .check(durable, || format!("a snapshot of run {run} at event {}", snapshot.seq))?;
        self.check_faithful(run, &state, snapshot.seq)
    }

    fn leave(&mut self, output: Output) -> Result<(), Violation> {
        match output {
            Output::Frame { connection, frame } => self.send_down(connection, frame),
            Output::Close { connection, reason } => {
                self.trace.fact(Fact::Close, connection.0, reason_number(&reason));
                self.close_link(connection);
                Ok(())
            }
            Output::Reply { reply, answer } => self.answered(reply, answer),
            Output::Publish { shard, published } => {
                self.trace.fact(Fact::Publish, published.position.0, published.first_seq);
                self.model.check_published(shard, &published)?;
                if let Some(ring) = self.daemon.rings.get_mut(&shard) {
                    ring.push(published);
                }
                self.check_bounds()
            }
            Output::Progress(progress) => {
                self.trace.fact(Fact::Progress, u64::from(progress.task), u64::from(progress.health_checks));
                self.model.check_progress(&progress)
            }
            Output::ScriptOver { run } => {
                self.trace.fact(Fact::ScriptOver, run.0.as_u64_pair().1, 0);
                self.close_pages(run);
                let over = self.model.run(run).is_some_and(|run| run.finished.is_some());
                Invariant::NoEffectBeforeCommit.check(over, || format!("script {run} is said to be over"))
            }
            Output::Query { run, query, asked } => {
                self.trace.fact(Fact::Query, run.0.as_u64_pair().1, query.0);
                self.answer_query(run, query, asked);
                Ok(())
            }
            Output::LoadSession { stream, load } => {
                self.trace.fact(Fact::LoadSession, stream.0.as_u64_pair().1, 0);
                self.load_session(stream, load);
                Ok(())
            }
            Output::LoadRun { run, load } => {
                self.trace.fact(Fact::LoadRun, run.0.as_u64_pair().1, load);
                let delay = self.rng.delay(self.scenario.disk_usual, self.scenario.disk_worst);
                self.after(delay, Action::ReadRun { run, load });
                Ok(())
            }
            Output::FindChild { child, number } => {
                self.trace.fact(Fact::FindChild, child.0.as_u64_pair().1, number);
                // Meanwhile the child may come, end and leave again, and its parent be at its next attempt.
                let delay = match self.rng.percent(25) {
                    true => self.rng.between(0, 60_000),
                    false => self.rng.delay(self.scenario.disk_usual, self.scenario.disk_worst),
                };
                self.after(delay, Action::FindRun { run: child, number });
                Ok(())
            }
            Output::FindKeys { shard, number, query } => {
                self.trace.fact(Fact::FindKeys, u64::from(shard.0), number);
                let delay = self.rng.delay(self.scenario.disk_usual, self.scenario.disk_worst);
                self.after(delay, Action::FindKeys { shard, number, query });
                Ok(())
            }
            Output::Behind { by_ms, .. } => {
                self.trace.fact(Fact::Sweep, by_ms.unsigned_abs(), 1);
                Ok(())
            }
            // The shard is being read again, and nothing is swept.
            Output::Sweep { .. } => {
                self.round = None;
                Ok(())
            }
            // Written.
            Output::Append { .. }
            | Output::PutSnapshot { .. }
            | Output::Quarantine { .. }
            | Output::PutReadings { .. }
            | Output::Remove { .. }
            | Output::Release { .. }
            | Output::PutAgents(_)
            | Output::ForgetAgents(_)
            | Output::Restart { .. } => Invariant::NoEffectBeforeCommit.broken("what is written leaves"),
            Output::Fenced { .. } => Invariant::RestartHasCause.broken("the core believes to be fenced"),
        }
    }

    /// A session's snapshot tells of what is durable.
    fn check_session_snapshot(&self, stream: RunId, snapshot: &Snapshot) -> Result<(), Violation> {
        let state = capataz_engine::session::SessionState::from_snapshot(&snapshot.state);
        let Ok(state) = state else { return Invariant::SnapshotFaithful.broken("it cannot be read") };
        let durable = self.model.session(stream).is_some_and(|session| state.seq() <= session.seq());
        Invariant::NoEffectBeforeCommit.check(durable && state.seq() == snapshot.seq, || {
            format!("a snapshot of session {stream} at event {}", state.seq())
        })?;
        self.check_session(stream, Some(&state))
    }

    /// The core holds no lease that its state does not have.
    fn check_slots(&self) -> Result<(), Violation> {
        let Some(core) = &self.daemon.core else { return Ok(()) };
        let mut offers = BTreeSet::new();
        for held in core.attached() {
            let live = core.run(held.run).and_then(|state| state.lease_of(held.task));
            Invariant::SlotsMatchLeases.check(live == Some((held.token, held.worker)), || {
                format!("{held:?} is held, live is {live:?}")
            })?;
            Invariant::SlotsMatchLeases
                .check(offers.insert(held.offer), || format!("{held:?} has a slot that another lease has"))?;
        }
        // With nothing on its way, and nothing that waits for a commit, every slot in use is that of a lease.
        let whole = self.daemon.unknown.is_empty() && !self.daemon.misses_a_message();
        if !whole || !self.daemon.is_idle() {
            return Ok(());
        }
        let in_use: BTreeSet<_> = core.crew().slots().map(|(offer, ..)| offer).collect();
        Invariant::SlotsMatchLeases
            .check(in_use == offers, || format!("the crew has {in_use:?} in use, leases have {offers:?}"))
    }

    /// With nothing in flight, the core works on exactly the unfinished runs, and knows of them what the log says.
    pub(crate) fn check_state(&self) -> Result<(), Violation> {
        let Some(core) = &self.daemon.core else { return Ok(()) };
        if core.pending_appends() > 0 || !self.daemon.outputs.is_empty() {
            return Ok(());
        }
        let shards = self.scenario.shards();
        let is_read =
            |shard: &ShardId| !self.daemon.unread.contains(shard) && !self.daemon.unknown.contains(shard);
        let mut unfinished = 0;
        for model in self.model.unfinished().filter(|run| is_read(&home(run.run, &shards))) {
            let is_there = core.rests(model.run) || core.run(model.run).is_some();
            if !is_there && self.is_quarantined(model.run)? {
                continue;
            }
            unfinished += 1;
            if core.rests(model.run) {
                Invariant::RestsWhenIdle
                    .check(model.may_rest(), || format!("run {} rests, and works", model.run))?;
                continue;
            }
            let state = core.run(model.run).cloned().map(|mut state| {
                state.loaded();
                state
            });
            let folded = self.fold(model.run, model.seq())?;
            Invariant::StateMatchesLog.check(state == folded, || {
                format!("run {}: the core has {state:?}, the log {folded:?}", model.run)
            })?;
        }
        // A shard that is read again still has what is not touched.
        let read = shards.iter().filter(|shard| is_read(shard)).filter_map(|shard| core.shard(*shard));
        let works_on: usize = read.map(Shard::run_count).sum();
        Invariant::StateMatchesLog.check(works_on == unfinished, || {
            format!("the core works on {works_on} runs, {unfinished} are unfinished")
        })
    }
}

/// What the clock of a run said when these events of it were decided; `None` for those of a session, which has none.
fn elapsed(events: &Bytes) -> Option<i64> {
    use v1::event::Body;
    let event = v1::Event::decode(feed::split(events).next()?).ok()?;
    let of_session = matches!(
        event.body,
        Some(
            Body::SessionOpened(_)
                | Body::SessionTurn(_)
                | Body::SessionTransitionAccepted(_)
                | Body::SessionStateWritten(_)
                | Body::SessionModeChosen(_)
                | Body::SessionMemoryForgotten(_)
        )
    );
    (!of_session).then_some(event.elapsed_ms)
}

/// Whether any of these events is a lease.
/// Whether the events create a run, give a task to a worker, or an ask its turn.
fn begins(events: &Bytes) -> bool {
    use v1::event::Body;
    feed::split(events).any(|event| {
        let event = v1::Event::decode(event).unwrap_or_default();
        matches!(
            event.body,
            Some(Body::RunAccepted(_) | Body::TaskLeased(_) | Body::AskBegun(_) | Body::PlanBegun(_))
        )
    })
}

fn fact_of(input: &Input) -> (Fact, u64) {
    match input {
        Input::Request { reply, .. } => (Fact::Request, reply.0),
        Input::Forget { reply, .. } => (Fact::Forget, reply.0),
        Input::Frame { connection, .. } => (Fact::Frame, connection.0),
        Input::Hosted { connection } => (Fact::Hosted, connection.0),
        Input::Disconnected { connection } => (Fact::Disconnected, connection.0),
        Input::Unread { connection } => (Fact::Unread, connection.0),
        Input::Committed { outcomes, .. } => (Fact::Committed, outcomes.len() as u64),
        Input::CommitFailed { shard } => (Fact::CommitFailed, u64::from(shard.0)),
        Input::Recovered { recovered: Recovered { epoch, .. }, .. } => (Fact::Recovered, epoch.0),
        Input::RunLoaded { run, .. } => (Fact::RunLoaded, run.0.as_u64_pair().1),
        Input::FoundDamaged(damage) => (Fact::FoundDamaged, damage.run.0.as_u64_pair().1),
        Input::SessionLoaded { stream, .. } => (Fact::SessionLoaded, stream.0.as_u64_pair().1),
        Input::Sweep { shard, .. } => (Fact::Sweep, u64::from(shard.0)),
        Input::Swept { shard } => (Fact::Swept, u64::from(shard.0)),
        Input::Removed { run, .. } => (Fact::Remove, run.0.as_u64_pair().1),
        Input::Carried(carried) => match &**carried {
            Carried::ToCrew { shard, packet } => (Fact::ToCrew, u64::from(shard.0) << 32 | packet.number),
            Carried::ToShard { shard, packet } => (Fact::ToShard, u64::from(shard.0) << 32 | packet.number),
            Carried::Kin(kin) => (Fact::Kin, kin.to().0.as_u64_pair().1),
            Carried::Key(talk) => (Fact::Key, talk.to().0.as_u64_pair().1),
        },
        Input::KeysFound { number, .. } => (Fact::KeysFound, *number),
        Input::ChildFound { child, .. } => (Fact::ChildFound, child.0.as_u64_pair().1),
        Input::Answered { run, .. } => (Fact::Answered, run.0.as_u64_pair().1),
        Input::Judged { run, .. } => (Fact::Judged, run.0.as_u64_pair().1),
        Input::Computed { run, .. } => (Fact::Computed, run.0.as_u64_pair().1),
        Input::Configure(_) => (Fact::Configure, 0),
        Input::Wake => (Fact::Wake, 0),
        Input::Drain => (Fact::Drain, 0),
    }
}

/// The number of a reason in the trace.
fn reason_number(reason: &CloseReason) -> u64 {
    match reason {
        CloseReason::Protocol => 0,
        CloseReason::Replaced => 1,
        CloseReason::Silent => 2,
        CloseReason::Restarting => 3,
        CloseReason::Unread => 4,
        CloseReason::Reserved(_) => 5,
        CloseReason::TooManyAgents => 6,
        CloseReason::SentAway { .. } => 7,
    }
}

/// The number of an answer in the trace.
pub(crate) fn answer_number(answer: &Answer) -> u64 {
    let declined = |declined: &Declined| match declined {
        Declined::Overloaded { .. } => 11,
        Declined::Unavailable => 12,
        Declined::Draining => 13,
        Declined::Damaged(_) => 14,
    };
    match answer {
        Answer::Start(Ok(reply)) => match reply {
            StartReply::Started { .. } => 1,
            StartReply::Existing { .. } => 2,
            StartReply::KeyReused { .. } => 3,
            StartReply::Finished { .. } => 4,
            StartReply::Refused(_) => 6,
            StartReply::UnknownAgents { .. } => 8,
            StartReply::BaseGone => 21,
        },
        Answer::Wait(Ok(WaitReply::Finished { .. })) => 4,
        Answer::Wait(Ok(WaitReply::NotActive { .. })) => 5,
        Answer::Command(Ok(reply)) => match reply {
            CommandReply::Done { seq, .. } => 100 + seq,
            CommandReply::NotActive { .. } => 5,
            CommandReply::Refused(_) => 6,
            CommandReply::SeqMismatch { .. } => 7,
        },
        Answer::Transition(Ok(reply)) => match reply {
            TransitionReply::Accepted(_) => 14,
            TransitionReply::SessionNotFound => 15,
            TransitionReply::TransitionNotFound => 16,
        },
        Answer::Imported(Ok(ImportReply::Imported { seq, .. })) => 200 + seq,
        Answer::Imported(Ok(ImportReply::Busy { .. })) => 20,
        Answer::Chosen(Ok(chosen)) => 300 + chosen.seq,
        Answer::Forgotten(Ok(seq)) => 400 + *seq,
        Answer::Deleted(Ok(Removal::Removed { .. })) => 17,
        Answer::Deleted(Ok(_)) => 18,
        Answer::Released(Ok(())) => 19,
        Answer::Agents(..) => 9,
        Answer::Checked(_) => 10,
        Answer::Health(Ok(health)) => 1_000 + health.len() as u64,
        Answer::Start(Err(why))
        | Answer::Wait(Err(why))
        | Answer::Health(Err(why))
        | Answer::Command(Err(why))
        | Answer::Deleted(Err(why))
        | Answer::Released(Err(why))
        | Answer::Imported(Err(why))
        | Answer::Chosen(Err(why))
        | Answer::Forgotten(Err(why))
        | Answer::Transition(Err(why)) => declined(why),
    }
}

/// One line of at most 300 characters.
fn shorten(value: &impl std::fmt::Debug) -> String {
    let mut text = format!("{value:?}");
    if text.len() > 300 {
        let end = (0..=300).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}
