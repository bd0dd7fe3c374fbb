//! Clients that go on from the middle of a run.

use std::rc::Rc;

use capataz_contracts::v1;
use capataz_engine::{Fork, StartRun, Work};
use capataz_shard::forks::decided_together;
use capataz_shard::journal::load_at;
use capataz_store::{RunId, Store};

use crate::client::Wish;
use crate::pipelines;
use crate::plans::Template;
use crate::world::World;

/// What is to be forked, and where.
#[derive(Clone, Debug)]
pub struct ForkOf {
    pub run: RunId,
    pub seq: u64,
    pub input: Option<v1::Payload>,
}

impl World {
    /// Somebody goes on from an event of a run, or wants to from where that may not be.
    pub(crate) fn want_fork(&mut self) {
        let count = self.model.runs().count();
        let pick = self.rng.below(count);
        let Some(model) = self.model.runs().nth(pick) else { return };
        let (run, last, labels) = (model.run, model.seq(), model.labels.clone());
        let is_pipeline = model.is_pipeline();
        let seq = 1 + self.rng.draw() % last.max(1);
        let seq = match decided_together(&self.disk.store, run, seq) {
            Ok(Some(together)) if !self.rng.percent(5) => together.last,
            _ => seq,
        };
        let number = self.draw_id();
        let scenario = self.scenario.clone();
        let other_input = is_pipeline && self.rng.percent(50);
        let input = other_input.then(|| pipelines::draw(&mut self.rng, &scenario, number).0.input).flatten();
        let key = self.rng.percent(70).then(|| format!("fork-{number}"));
        let template = Template::of_fork(ForkOf { run, seq, input }, labels, key, number);
        self.want(Wish::Start { template: Rc::new(template), wait: false }, false);
    }

    /// The start of a fork as the daemon's door makes it; `None` where it says that there can be none.
    pub(crate) fn fork_start(&self, template: &Template, of: &ForkOf, created: RunId) -> Option<StartRun> {
        let store = &self.disk.store;
        let row = store.get_run(of.run).ok()??;
        if of.seq > row.last_seq || row.quarantine.is_some() {
            return None;
        }
        let last = decided_together(store, of.run, of.seq).ok()??.last;
        let state = load_at(store, of.run, of.seq, u64::MAX).ok()??;
        if last != of.seq || !state.may_be_forked() {
            return None;
        }
        let fork = Fork {
            of: of.run.to_string(),
            run_id: created.to_string(),
            state: Box::new(state),
            input: of.input.clone(),
        };
        Some(StartRun { work: Work::Fork(Box::new(fork)), ..template.start.clone() })
    }
}
