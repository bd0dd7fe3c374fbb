//! The shard's thread: hands inputs to the core and carries its outputs out, as the tokio shell does.

use std::collections::VecDeque;

use bytes::Bytes;
use capataz_contracts::v1;
use capataz_engine::Timestamp;
use capataz_runtime::core::{Answer, Core, Input, Output, Recovered};
use capataz_runtime::feed::{self, Ring};
use capataz_store::{Position, Retention, RunId, Snapshot};
use prost::Message;

use crate::coverage::CrashPoint;
use crate::disk::Work;
use crate::invariant::{Invariant, Violation};
use crate::schedule::Action;
use crate::trace::Fact;
use crate::world::World;

pub struct Daemon {
    /// `None` while no daemon runs.
    pub core: Option<Core>,
    outputs: Vec<Output>,
    pub ring: Ring,
    /// It has recovered for the first time: subscribers are served.
    pub ready: bool,
    pub draining: bool,
    /// Something failed, and the shard was not read again since.
    pub unknown: bool,
    carrying: bool,
    /// Sweeps that wait for the core's word.
    pub sweeps: VecDeque<Retention>,
    wake_at: Option<i64>,
    /// The time that was due after the last input all the same.
    still_due: Option<Timestamp>,
    /// Events of commits that the core was told of and whose outputs have not left.
    pub acknowledged: Vec<Bytes>,
}

impl Daemon {
    pub fn new(ring_bytes: usize) -> Self {
        Self {
            core: None,
            outputs: Vec::new(),
            ring: Ring::new(Position(0), ring_bytes),
            ready: false,
            draining: false,
            unknown: false,
            carrying: false,
            sweeps: VecDeque::new(),
            wake_at: None,
            still_due: None,
            acknowledged: Vec::new(),
        }
    }

    pub fn is_idle(&self) -> bool {
        self.outputs.is_empty() && self.core.as_ref().is_some_and(|core| core.pending_appends() == 0)
    }
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
        let mut core = Core::new(self.scenario.core.clone());
        let known = Input::Learn(self.scenario.known());
        core.handle(Timestamp(self.now + self.skew), known, &mut self.daemon.outputs);
        self.daemon.core = Some(core);
        self.give(Work::Reopen);
        Ok(())
    }

    /// Hands an input to the core. Its outputs leave at once or, as in a busy shard, together with those of others.
    pub(crate) fn deliver(&mut self, input: Input) -> Result<(), Violation> {
        let now = Timestamp(self.now + self.skew);
        if self.daemon.core.is_none() {
            return Ok(());
        }
        self.inputs += 1;
        let (fact, detail) = fact_of(&input);
        self.trace.fact(fact, now.0.unsigned_abs(), detail);
        if self.trace.is_verbose() {
            let text = shorten(&input);
            self.line(|| format!("<- {text}"));
        }
        let Some(core) = &mut self.daemon.core else { return Ok(()) };
        let failed = matches!(input, Input::CommitFailed);
        let woken = matches!(input, Input::Wake);
        match input {
            Input::Recovered(_) => self.daemon.unknown = false,
            Input::CommitFailed => self.daemon.unknown = true,
            _ => {}
        }
        let before = self.daemon.outputs.len();
        core.handle(now, input, &mut self.daemon.outputs);
        let mut unknown = self.daemon.unknown;
        for output in self.daemon.outputs.iter().skip(before) {
            match output {
                Output::Append { id, append } => {
                    Invariant::NoAppendAfterUnknown.check(!unknown, || format!("{id:?} is appended"))?;
                    let begun = self.daemon.draining && leases(&append.events);
                    Invariant::NothingBegunWhileDraining
                        .check(!begun, || format!("{id:?} leases a task of run {}", append.run))?;
                }
                Output::Restart => {
                    Invariant::RestartHasCause
                        .check(failed, || "the core reads the shard again".to_owned())?;
                    unknown = true;
                }
                Output::Fenced => return Invariant::RestartHasCause.broken("the core believes to be fenced"),
                _ => {}
            }
        }
        self.daemon.unknown = unknown;
        let due = core.next_wake().filter(|due| *due <= now);
        let again = woken && due.is_some() && due == self.daemon.still_due;
        Invariant::TimersFire.check(!again, || format!("{due:?} is due at {now:?} and does not go away"))?;
        self.daemon.still_due = due;
        self.check_slots()?;
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

    fn rearm(&mut self) {
        let Some(due) = self.daemon.core.as_ref().and_then(Core::next_wake) else { return };
        let due = due.0 - self.skew;
        if self.daemon.wake_at.is_none_or(|at| due < at) {
            self.daemon.wake_at = Some(due);
            let late = self.rng.delay(2, 1_500);
            self.at(due.max(self.now) + late, Action::Wake);
        }
    }

    pub(crate) fn wake(&mut self) -> Result<(), Violation> {
        self.daemon.wake_at = None;
        let due = self.daemon.core.as_ref().and_then(Core::next_wake);
        if due.is_some_and(|due| due.0 - self.skew <= self.now) {
            return self.deliver(Input::Wake);
        }
        self.rearm();
        Ok(())
    }

    /// Lets the outputs out, in order; the process may die before or among them.
    pub(crate) fn carry_out(&mut self) -> Result<(), Violation> {
        self.daemon.carrying = false;
        let acknowledged = std::mem::take(&mut self.daemon.acknowledged);
        if !acknowledged.is_empty() && self.strikes(self.scenario.crashes) {
            self.die(CrashPoint::BeforeOutputs, &acknowledged);
            return Ok(());
        }
        let dies = self.daemon.outputs.len() > 1 && self.strikes(self.scenario.crashes / 4);
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
                Output::Publish(published) => Some(published.events.clone()),
                _ => None,
            }));
        }
        // Appends reach the writer when the turn is over, or before other work of the writer's.
        let mut appends = Vec::new();
        for (index, output) in outputs.into_iter().enumerate() {
            if index == dies_at {
                self.die(CrashPoint::MidOutputs, &kinds);
                return Ok(());
            }
            self.leave(output, &mut appends)?;
        }
        self.hand_over(&mut appends);
        Ok(())
    }

    fn hand_over(&mut self, appends: &mut Vec<Work>) {
        for append in appends.drain(..) {
            self.give(append);
        }
    }

    fn leave(&mut self, output: Output, appends: &mut Vec<Work>) -> Result<(), Violation> {
        if self.trace.is_verbose() {
            let text = shorten(&output);
            self.line(|| format!("   -> {text}"));
        }
        match output {
            Output::Append { id, append } => {
                self.trace.fact(Fact::Append, id.0, append.first_seq);
                self.trace.bytes(&append.events);
                appends.push(Work::Append(append));
                Ok(())
            }
            Output::Frame { connection, frame } => self.send_down(connection, frame),
            Output::Close { connection, reason } => {
                self.trace.fact(Fact::Close, connection.0, reason as u64);
                self.close_link(connection);
                Ok(())
            }
            Output::Reply { reply, answer } => self.answered(reply, answer),
            Output::Publish(published) => {
                self.trace.fact(Fact::Publish, published.position.0, published.first_seq);
                self.model.check_published(&published)?;
                self.daemon.ring.push(published);
                Ok(())
            }
            Output::Progress(progress) => {
                self.trace.fact(Fact::Progress, u64::from(progress.task), u64::from(progress.health_checks));
                Ok(())
            }
            Output::PutSnapshot { run, snapshot } => {
                self.trace.fact(Fact::Snapshot, snapshot.seq, snapshot.state.len() as u64);
                if self.model.session(run).is_some() {
                    self.check_session_snapshot(run, &snapshot)?;
                    self.hand_over(appends);
                    self.give(Work::Snapshot(run, snapshot));
                    return Ok(());
                }
                let state = capataz_engine::RunState::from_snapshot(&snapshot.state);
                let Ok(state) = state else { return Invariant::SnapshotFaithful.broken("it cannot be read") };
                let durable = self.model.run(run).is_some_and(|run| snapshot.seq <= run.seq());
                Invariant::NoEffectBeforeCommit
                    .check(durable, || format!("a snapshot of run {run} at event {}", snapshot.seq))?;
                self.check_faithful(run, &state, snapshot.seq)?;
                self.hand_over(appends);
                self.give(Work::Snapshot(run, snapshot));
                Ok(())
            }
            Output::PutAgents(agents) => {
                self.trace.fact(Fact::Agents, agents.len() as u64, 0);
                self.hand_over(appends);
                self.give(Work::Agents(agents));
                Ok(())
            }
            Output::ScriptOver { run } => {
                self.trace.fact(Fact::ScriptOver, run.0.as_u64_pair().1, 0);
                self.close_pages(run);
                let over = self.model.run(run).is_some_and(|run| run.finished.is_some());
                Invariant::NoEffectBeforeCommit.check(over, || format!("script {run} is said to be over"))
            }
            Output::Sweep { keep } => {
                self.trace.fact(Fact::Sweep, keep.as_ref().map_or(0, |keep| keep.len() as u64), 0);
                let retention = self.daemon.sweeps.pop_front();
                if let (Some(retention), Some(keep)) = (retention, keep) {
                    self.hand_over(appends);
                    self.give(Work::Sweep(Box::new(Retention { keep, ..retention })));
                }
                Ok(())
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
            Output::Restart => {
                self.trace.fact(Fact::Restart, 0, 0);
                self.hand_over(appends);
                self.give(Work::Reopen);
                Ok(())
            }
            Output::Fenced => Invariant::RestartHasCause.broken("the core believes to be fenced"),
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
        for (run, task, token, worker) in core.attached() {
            let live = core.run(run).and_then(|state| state.lease_of(task));
            Invariant::SlotsMatchLeases.check(live == Some((token, worker)), || {
                format!("run {run} {task}: the core holds lease {token} of {worker}, live is {live:?}")
            })?;
        }
        Ok(())
    }

    /// With nothing in flight, the core works on exactly the unfinished runs, and knows of them what the log says.
    pub(crate) fn check_state(&self) -> Result<(), Violation> {
        let Some(core) = &self.daemon.core else { return Ok(()) };
        if core.pending_appends() > 0 || !self.daemon.outputs.is_empty() {
            return Ok(());
        }
        let mut unfinished = 0;
        for model in self.model.unfinished() {
            unfinished += 1;
            let state = core.run(model.run).cloned().map(|mut state| {
                state.loaded();
                state
            });
            let folded = self.fold(model.run, model.seq())?;
            Invariant::StateMatchesLog.check(state == folded, || {
                format!("run {}: the core has {state:?}, the log {folded:?}", model.run)
            })?;
        }
        Invariant::StateMatchesLog.check(core.run_count() == unfinished, || {
            format!("the core works on {} runs, {unfinished} are unfinished", core.run_count())
        })
    }
}

/// Whether any of these events is a lease.
fn leases(events: &Bytes) -> bool {
    feed::split(events).any(|event| {
        let event = v1::Event::decode(event).unwrap_or_default();
        matches!(event.body, Some(v1::event::Body::TaskLeased(_)))
    })
}

fn fact_of(input: &Input) -> (Fact, u64) {
    match input {
        Input::Request { reply, .. } => (Fact::Request, reply.0),
        Input::Forget { reply, .. } => (Fact::Forget, reply.0),
        Input::Frame { connection, .. } => (Fact::Frame, connection.0),
        Input::Disconnected { connection } => (Fact::Disconnected, connection.0),
        Input::Committed { outcomes } => (Fact::Committed, outcomes.len() as u64),
        Input::CommitFailed => (Fact::CommitFailed, 0),
        Input::Recovered(Recovered { epoch, .. }) => (Fact::Recovered, epoch.0),
        Input::SessionLoaded { stream, .. } => (Fact::SessionLoaded, stream.0.as_u64_pair().1),
        Input::Sweep => (Fact::Sweep, 0),
        Input::Swept => (Fact::Swept, 0),
        Input::Answered { run, .. } => (Fact::Answered, run.0.as_u64_pair().1),
        Input::Learn(_) => (Fact::Learn, 0),
        Input::Wake => (Fact::Wake, 0),
        Input::Drain => (Fact::Drain, 0),
    }
}

/// The number of an answer in the trace.
pub(crate) fn answer_number(answer: &Answer) -> u64 {
    match answer {
        Answer::Started { .. } => 1,
        Answer::Existing { .. } => 2,
        Answer::KeyReused { .. } => 3,
        Answer::Finished { .. } => 4,
        Answer::NotActive { .. } => 5,
        Answer::Done { seq, .. } => 100 + seq,
        Answer::Refused(_) => 6,
        Answer::SeqMismatch { .. } => 7,
        Answer::UnknownAgents(_) => 8,
        Answer::Agents(_) => 9,
        Answer::Checked(_) => 10,
        Answer::Overloaded { .. } => 11,
        Answer::Unavailable => 12,
        Answer::Draining => 13,
        Answer::Accepted(_) => 14,
        Answer::SessionNotFound => 15,
        Answer::TransitionNotFound => 16,
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
