//! The runs in work.

use std::collections::BTreeMap;
use std::sync::Arc;

use capataz_crew::{Mono, Now};
use capataz_engine::planted::{self, Fault};
use capataz_engine::{Moment, RunState, TaskRef, Timestamp, Wall};
use capataz_store::{Position, RunId};

use crate::ReplyId;
use crate::outbox::AppendId;
use crate::topics::Facts;

/// A caller that waits for a run's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiter {
    pub(crate) reply: ReplyId,
    /// It has started the run, and is answered as such.
    pub(crate) started_it: bool,
}

/// What is known of the clock of a run that is not in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RunClock {
    /// What it is ahead of the process's clock, for this process has had the run. Milliseconds.
    Ahead(i64),
    /// Nobody had the run until then.
    Since(Now),
}

pub(crate) struct RunSlot {
    pub(crate) state: RunState,
    /// The newest append of this run that is in flight or done.
    pub(crate) last_append: AppendId,
    /// Where the run was accepted; 0 while that is not durable, and where nobody asks for it.
    pub(crate) accepted: Position,
    pub(crate) waiters: Vec<Waiter>,
    /// Timers stand still until then, after a restart.
    pub(crate) quiet_until: Mono,
    /// What the run's own clock is ahead of the process's. Milliseconds.
    pub(crate) ahead: i64,
    pub(crate) snapshot_seq: u64,
    /// After how long its children are asked for again. Milliseconds.
    pub(crate) ask_children_ms: i64,
    /// What readers ask for, once something of the run is on its way to them.
    facts: Option<Arc<Facts>>,
    /// The activation of each task that was found well, and how often it was, by whichever worker had it.
    checks: BTreeMap<TaskRef, (u32, u32)>,
}

impl RunSlot {
    /// A run whose own clock says `clock` now.
    pub(crate) fn new(state: RunState, clock: Timestamp, now: Mono) -> Self {
        Self {
            state,
            ahead: clock.0.saturating_sub(now.0),
            last_append: AppendId(0),
            accepted: Position(0),
            waiters: Vec::new(),
            quiet_until: Mono::default(),
            snapshot_seq: 0,
            ask_children_ms: 0,
            facts: None,
            checks: BTreeMap::new(),
        }
    }

    /// What readers ask for of the run, which stays as it was accepted.
    pub(crate) fn facts(&mut self) -> Arc<Facts> {
        let Self { state, facts, .. } = self;
        let known = || Arc::new(Facts { kind: state.kind().into(), labels: state.labels().clone() });
        Arc::clone(facts.get_or_insert_with(known))
    }

    /// The task's worker was found well.
    pub(crate) fn checked(&mut self, task: TaskRef) {
        let activation = self.state.activation(task);
        let (of, count) = self.checks.entry(task).or_default();
        *count = if *of == activation { count.saturating_add(1) } else { 1 };
        *of = activation;
    }

    /// How often the task's workers were found well in this activation, as long as the run is in memory.
    pub(crate) fn checks(&self, task: TaskRef) -> u32 {
        let activation = self.state.activation(task);
        self.checks.get(&task).filter(|(of, _)| *of == activation).map_or(0, |(_, count)| *count)
    }

    /// What the run's own clock says.
    pub(crate) fn clock(&self, now: Mono) -> Timestamp {
        Timestamp(now.0.saturating_add(self.ahead))
    }

    /// When the run's own clock says so.
    pub(crate) fn when(&self, clock: Timestamp) -> Mono {
        Mono(clock.0.saturating_sub(self.ahead))
    }

    pub(crate) fn moment(&self, now: Now) -> Moment {
        if planted::is(Fault::DeadlineFromTheWallAlone) {
            return Moment::first(Wall(now.wall.0));
        }
        Moment { clock: self.clock(now.mono), wall: Wall(now.wall.0) }
    }

    /// What is left until then. Milliseconds.
    pub(crate) fn remaining(&self, until: Timestamp, now: Mono) -> i64 {
        until.since(self.clock(now)).max(0)
    }
}

/// All runs in work, by their ids.
#[derive(Default)]
pub(crate) struct Runs {
    /// Boxed: a node of the tree has room for eleven, and moves them as others come and go.
    slots: BTreeMap<RunId, Box<RunSlot>>,
    /// The clocks of the runs that were thrown away, until they have been read again: this process has had them all the
    /// while, whatever was done to the clock on the wall.
    clocks: BTreeMap<RunId, RunClock>,
}

impl Runs {
    pub(crate) fn insert(&mut self, run: RunId, slot: RunSlot) {
        self.slots.insert(run, Box::new(slot));
    }

    /// The clock of a run that is not in memory, found by a claim.
    pub(crate) fn clock_of(&self, run: RunId, now: Now) -> RunClock {
        let known = self.clocks.get(&run).filter(|_| !planted::is(Fault::ClockForgottenWithTheShard));
        known.copied().unwrap_or(RunClock::Since(now))
    }

    /// Whether this process has had the run before the claim.
    pub(crate) fn knows_clock(&self, run: RunId) -> bool {
        self.clocks.contains_key(&run)
    }

    /// The clock of a run that was not in memory, and is read again with its shard.
    pub(crate) fn keep_clock(&mut self, run: RunId, clock: RunClock) {
        self.clocks.insert(run, clock);
    }

    /// Takes up a run that was read.
    pub(crate) fn take_up(&mut self, run: RunId, state: RunState, clock: RunClock) -> &mut RunSlot {
        let slot = match clock {
            RunClock::Ahead(ahead) => RunSlot::new(state, Timestamp(ahead), Mono(0)),
            RunClock::Since(now) => {
                let clock = state.taken_up_at(Wall(now.wall.0));
                RunSlot::new(state, clock, now.mono)
            }
        };
        self.slots.entry(run).insert_entry(Box::new(slot)).into_mut()
    }

    /// Every run has been read.
    pub(crate) fn all_taken_up(&mut self) {
        self.clocks.clear();
    }

    /// The runs were accepted there.
    pub(crate) fn accepted(&mut self, places: impl IntoIterator<Item = (RunId, Position)>) {
        for (run, position) in places {
            if let Some(slot) = self.slots.get_mut(&run) {
                slot.accepted = position;
            }
        }
    }

    pub(crate) fn get(&self, run: RunId) -> Option<&RunSlot> {
        self.slots.get(&run).map(|slot| &**slot)
    }

    pub(crate) fn get_mut(&mut self, run: RunId) -> Option<&mut RunSlot> {
        self.slots.get_mut(&run).map(|slot| &mut **slot)
    }

    pub(crate) fn remove(&mut self, run: RunId) -> Option<Box<RunSlot>> {
        self.slots.remove(&run)
    }

    pub(crate) fn contains(&self, run: RunId) -> bool {
        self.slots.contains_key(&run)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (RunId, &RunSlot)> {
        self.slots.iter().map(|(run, slot)| (*run, &**slot))
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Throws a run away, but for its clock. Callers that wait for it.
    pub(crate) fn throw(&mut self, run: RunId) -> Vec<Waiter> {
        let Some(slot) = self.slots.remove(&run) else { return Vec::new() };
        self.clocks.insert(run, RunClock::Ahead(slot.ahead));
        slot.waiters
    }

    /// Throws everything away. Callers that wait.
    pub(crate) fn abandon(&mut self) -> Vec<Waiter> {
        let slots = std::mem::take(&mut self.slots);
        self.clocks.extend(slots.iter().map(|(run, slot)| (*run, RunClock::Ahead(slot.ahead))));
        slots.into_values().flat_map(|slot| slot.waiters).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_of_a_run_that_was_thrown_away_is_known_until_every_run_has_been_read() {
        let mut runs = Runs::default();
        runs.keep_clock(RunId::MIN, RunClock::Ahead(5));
        assert!(runs.knows_clock(RunId::MIN));
        runs.all_taken_up();
        assert!(!runs.knows_clock(RunId::MIN));
    }
}
