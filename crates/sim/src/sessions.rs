//! Reading a session, beside the shards' thread, as the shell does: at one moment it is read, at a later one the core is
//! told. A read may fail.

use capataz_contracts::v1;
use capataz_engine::session::SessionState;
use capataz_engine::{Judgement, Query, QueryId};
use capataz_shard::journal::{self, load_session};
use capataz_shard::phases;
use capataz_shard::{FoundRun, Input, KeyFact, KeyQuery, LoadError, find};
use capataz_store::{RunId, ShardId};
use prost::Message;

use crate::asks::Catalogue;
use crate::daemon::home;
use crate::disk::store_failed;
use crate::invariant::{Invariant, Violation};
use crate::pipelines::Stored;
use crate::schedule::Action;
use crate::world::World;

impl World {
    /// The core asks for a session.
    pub(crate) fn load_session(&mut self, stream: RunId, load: u64) {
        let delay = self.rng.delay(self.scenario.disk_usual, self.scenario.disk_worst);
        self.after(delay, Action::ReadSession { stream, load });
    }

    pub(crate) fn read_session(&mut self, stream: RunId, load: u64) -> Result<(), Violation> {
        if self.strikes(self.scenario.commit_faults / 4) {
            self.line(|| format!("disk: session {stream} cannot be read"));
            let shard = home(stream, &self.scenario.shards());
            return self.deliver(Input::CommitFailed { shard });
        }
        let state = load_session(&self.disk.store, stream);
        let Ok(state) = state else { return Invariant::LogStays.broken("a session cannot be read") };
        self.check_session(stream, state.as_ref())?;
        // Whoever reads may be held up for longer than anything else takes.
        let delay = self.rng.delay(self.scenario.disk_usual, 12_000);
        self.after(delay, Action::SessionRead { stream, load, state: state.map(Box::new) });
        Ok(())
    }

    /// A run that rests is read, up to what is durable now.
    pub(crate) fn read_run(&mut self, run: RunId, load: u64) -> Result<(), Violation> {
        let state = if self.strikes(self.scenario.commit_faults / 4) {
            self.line(|| format!("disk: run {run} cannot be read"));
            Ok(None)
        } else {
            match journal::load(&self.disk.store, run) {
                Ok(state) => Ok(Some(Box::new(state))),
                Err(LoadError::Damaged(damage)) => Err(damage),
                Err(LoadError::Store(error)) => return Err(store_failed(&error)),
            }
        };
        let delay = self.rng.delay(self.scenario.disk_usual, 12_000);
        self.after(delay, Action::RunRead { run, load, state });
        Ok(())
    }

    /// A run is looked for in what is durable now.
    pub(crate) fn find_run(&mut self, run: RunId, number: u64) -> Result<(), Violation> {
        let found = if self.strikes(self.scenario.commit_faults / 4) {
            self.line(|| format!("disk: run {run} cannot be looked for"));
            FoundRun::Unread
        } else {
            journal::find(&self.disk.store, run)
        };
        let delay = self.rng.delay(self.scenario.disk_usual, 12_000);
        self.after(delay, Action::RunFound { run, number, found: Box::new(found) });
        Ok(())
    }

    /// What a shard wants to know of its keys is read, now and not when its answer arrives.
    pub(crate) fn find_keys(
        &mut self,
        shard: ShardId,
        number: u64,
        query: &KeyQuery,
    ) -> Result<(), Violation> {
        let fact = if self.strikes(self.scenario.commit_faults / 4) {
            self.line(|| format!("disk: keys of {shard:?} cannot be read"));
            KeyFact::Unread
        } else {
            journal::find_keys(&self.disk.store, shard, query)
        };
        let delay = self.rng.delay(self.scenario.disk_usual, 12_000);
        self.after(delay, Action::KeysFound { shard, number, fact });
        Ok(())
    }

    /// What is read of a session, from a snapshot or not, is the fold of its stream.
    pub(crate) fn check_session(&self, stream: RunId, state: Option<&SessionState>) -> Result<(), Violation> {
        let seq = state.map_or(0, SessionState::seq);
        let durable = self.model.session(stream).map_or(0, |session| session.seq());
        Invariant::SnapshotFaithful.check(seq <= durable, || {
            format!("session {stream} is read up to event {seq}, its stream ends at {durable}")
        })?;
        let folded = self.fold_session(stream, seq)?;
        Invariant::SnapshotFaithful
            .check(folded.as_ref() == state, || format!("session {stream}: {state:?} is not {folded:?}"))
    }

    /// The fold of the first `seq` events of a session's durable stream.
    pub(crate) fn fold_session(&self, stream: RunId, seq: u64) -> Result<Option<SessionState>, Violation> {
        let Some(session) = self.model.session(stream).filter(|_| seq > 0) else { return Ok(None) };
        let events = usize::try_from(seq).ok().and_then(|seq| session.events.get(..seq));
        let events = events.unwrap_or_default().iter();
        let events = events.filter_map(|event| v1::Event::decode(event.clone()).ok());
        SessionState::fold(events).map(Some).map_err(|corrupt| Violation {
            invariant: Invariant::StateMatchesLog,
            detail: format!("session {stream}: {corrupt}"),
        })
    }

    /// Other specs are there from now on.
    pub(crate) fn change_specs(&mut self) {
        let catalogue = if self.is_calm() { Catalogue::calm() } else { Catalogue::draw(&mut self.rng) };
        self.line(|| format!("specs: {catalogue:?}"));
        self.specs = catalogue;
    }

    /// Somebody beside the shards' thread answers a query: mostly at once, now and then late, now and then twice.
    pub(crate) fn answer_query(&mut self, run: RunId, query: QueryId, asked: Query) {
        let asked = match asked {
            Query::Judge(judgement) => return self.judge(run, query, *judgement),
            asked @ Query::Route { .. } => asked,
            asked => return self.compute(run, query, &asked),
        };
        let Some(core) = &self.daemon.core else { return };
        let Some((ask, context)) = core.asks_for(run) else { return };
        let Some(answer) = find(&self.specs, ask, context, asked) else { return };
        // What the run has asked before may be answered once more after it has asked this.
        let before = self.answered.insert(run, (query, answer.clone()));
        if let Some((before, answer)) = before.filter(|(before, _)| *before != query && self.strikes(500)) {
            self.after(0, Action::Answer { run, query: before, answer: Box::new(answer) });
        }
        let repeats = self.strikes(150);
        for _ in 0..1 + usize::from(repeats) {
            let late = self.strikes(200);
            let delay = if late { self.rng.between(1, 4_000) } else { 0 };
            self.after(delay, Action::Answer { run, query, answer: Box::new(answer.clone()) });
        }
    }

    fn stored(&self) -> Stored<'_> {
        Stored { store: &self.disk.store, at: self.clocks().wall }
    }

    /// Somebody beside the shards' thread judges a value: often late, now and then twice, and never where the daemon dies
    /// before.
    fn judge(&mut self, run: RunId, query: QueryId, judged: Judgement) {
        let Ok(verdict) = phases::verdict(judged, &self.stored()) else { return };
        let repeats = self.strikes(150);
        for _ in 0..1 + usize::from(repeats) {
            let late = self.strikes(400);
            let delay = if late { self.rng.between(1, 6_000) } else { 0 };
            self.after(delay, Action::Judged { run, query, verdict: Box::new(verdict.clone()) });
        }
    }

    /// Somebody beside the shards' thread computes what a phase wants to know: mostly at once, now and then late or twice.
    fn compute(&mut self, run: RunId, query: QueryId, asked: &Query) {
        let Ok(Some(mut computed)) = phases::compute(asked, &self.stored()) else { return };
        if matches!(asked, Query::Prompt(_)) {
            self.model.memory_is_read(run);
        }
        // Now and then it cannot be made: a blob is gone, or a summary is too large.
        if !self.is_calm() && self.strikes(30) {
            computed = phases::not_computed();
        }
        let repeats = self.strikes(150);
        for _ in 0..1 + usize::from(repeats) {
            let late = self.strikes(200);
            let delay = if late { self.rng.between(1, 4_000) } else { 0 };
            self.after(delay, Action::Computed { run, query, computed: Box::new(computed.clone()) });
        }
    }
}
