//! Runs that begin with the log of another one: byte for byte, and once.

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use capataz_contracts::v1::{self, event::Body};
use capataz_store::{LogRow, RunId};
use prost::Message;

use super::log::{RunModel, Step};
use super::script::{Browser, Kind};
use super::{Model, severity};
use crate::invariant::{Invariant, Violation};
use crate::plans::KEY_LABEL;

impl Model {
    /// A row that a run has of another one. What it is worth is known with the run's first row of its own.
    pub(super) fn inherits(&mut self, row: &LogRow, seq: u64, bytes: Bytes) -> Result<i32, Violation> {
        let known = self.runs.contains_key(&row.run) || self.sessions.contains_key(&row.run);
        let past = self.pasts.entry(row.run).or_default();
        Invariant::ForksAreTheirBase
            .check(!known && past.len() as u64 + 1 == seq, || format!("run {} inherits {seq}", row.run))?;
        let severity = v1::Event::decode(bytes.clone()).map(|event| severity::of_event(&event));
        past.push(bytes);
        Ok(severity.unwrap_or_default())
    }

    /// The first event of its own of a run that has the beginning of another one.
    pub(super) fn forked(
        &mut self,
        run: RunId,
        event: v1::Event,
        forked: v1::RunForked,
        bytes: Bytes,
    ) -> Result<(), Violation> {
        let past = self.pasts.remove(&run).unwrap_or_default();
        let base = forked.run_id.parse().ok().and_then(|of| self.runs.get(&of));
        let same = base.is_some_and(|base| {
            forked.seq == past.len() as u64
                && forked.fork_id == run.to_string()
                && base.events.get(..past.len()) == Some(&past[..])
        });
        let (Some(base), true) = (base, same) else {
            return Invariant::ForksAreTheirBase
                .broken(format!("run {run} has {} events, and says {forked:?}", past.len()));
        };
        let mut past = past.into_iter();
        let decoded = |bytes: &Bytes| v1::Event::decode(bytes.clone()).unwrap_or_default();
        let first = past.next().unwrap_or_default();
        let mut model = RunModel::begin(run, decoded(&first), first)?;
        // What workers have done, no log says.
        model.broken = base.broken.clone();
        // What hosts tell of the one from now on is not told of the other: leases of two runs may have one number.
        model.host_errors = Rc::new(RefCell::new(base.host_errors.borrow().clone()));
        model.has_its_turn_in(base.had_its_turn_in());
        for bytes in past {
            let event = decoded(&bytes);
            let leases: Vec<u64> = model.leases.keys().copied().collect();
            for token in leases {
                if let (Some(lease), Some(before)) = (model.leases.get_mut(&token), base.leases.get(&token)) {
                    lease.was_begun = before.was_begun;
                }
            }
            let ended = match &event.body {
                Some(Body::ChildEnded(ended)) => Some(ended.clone()),
                _ => None,
            };
            model.observe(event, bytes)?;
            if let Some(ended) = ended {
                let child = ended.run_id.parse().ok().and_then(|child| self.runs.get(&child));
                model.hears_of_failure(&ended, child.and_then(|child| child.failed_with))?;
            }
        }
        Invariant::ClockKeepsTime.check(event.elapsed_ms == model.elapsed, || {
            format!("run {run} goes on at {}, the other one stood at {}", event.elapsed_ms, model.elapsed)
        })?;
        model.observe(event, bytes)?;
        if let Some(key) = model.labels.get(KEY_LABEL) {
            self.keys.is_made(key, run, &self.runs)?;
        }
        self.runs.insert(run, model);
        Ok(())
    }
}

impl RunModel {
    /// From here on it is a run of its own, as the run may have been that it was forked from.
    pub(super) fn is_forked(&mut self, forked: v1::RunForked) -> Result<(), Violation> {
        let steps = || self.waves.last().into_iter().flat_map(|wave| &wave.tasks).map(|task| task.step);
        let has_child = steps().any(|step| matches!(step, Step::Child | Step::Heard { .. }));
        let in_browser = match &self.kind {
            Kind::Script(script) => script.has_a_browser(),
            Kind::Mode(mode) => mode.browser.browser != Browser::None,
            Kind::Plan { .. } | Kind::Ask(_) | Kind::Pipeline(_) => false,
        };
        let placed = self.finished.is_none() && forked.seq + 1 == self.seq();
        Invariant::ForksAreTheirBase.check(placed && !has_child && !in_browser, || {
            self.at(format!("{forked:?}, a child: {has_child}, in a browser: {in_browser}"))
        })?;
        self.is_fork = true;
        self.inherited_token = self.leases.keys().copied().max().unwrap_or_default();
        self.team = u8::from(forked.labels.get("team").is_some_and(|team| team == "red"));
        self.labels = forked.labels;
        self.parent = None;
        self.held_sessions.clear();
        self.traceparent.clear();
        self.requests.clear();
        self.plan.session = None;
        for task in self.waves.iter_mut().flat_map(|wave| &mut wave.tasks) {
            task.deadline = task.deadline.map(|at| at + forked.shifted_ms);
        }
        match &mut self.kind {
            Kind::Ask(ask) => ask.leaves_session(),
            Kind::Pipeline(pipeline) => pipeline.works_on(forked.input.as_ref()),
            Kind::Mode(mode) => mode.leaves_session(),
            Kind::Plan { .. } | Kind::Script(_) => {}
        }
        Ok(())
    }

    /// With the fork's first row all leases of the other run have ended.
    pub(super) fn has_no_lease_of(&self, inherited: u64) -> Result<(), Violation> {
        let steps = self.waves.last().into_iter().flat_map(|wave| &wave.tasks).map(|task| task.step);
        let kept = steps.into_iter().find(|step| matches!(step, Step::Leased(token) if *token <= inherited));
        Invariant::ForksAreTheirBase.check(kept.is_none(), || self.at(format!("{kept:?} is another run's")))
    }
}
