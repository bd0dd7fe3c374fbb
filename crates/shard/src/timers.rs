//! What is due when. Each timer has one time at most.

use std::collections::{BTreeMap, BTreeSet};

use capataz_crew::Mono;
use capataz_engine::TaskRef;
use capataz_store::RunId;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// The end of the time in which a lease's worker may come back. Before the run's deadline at the same time, which may
    /// be another one then.
    Reattach(RunId, TaskRef, u64),
    /// The end of the time in which the worker that has the run's browser may come back; after that of its lease.
    Browser(RunId),
    /// An assignment that seems not to be acknowledged is looked at again.
    Unacknowledged(RunId, TaskRef, u64),
    /// The run's next deadline.
    Run(RunId),
    /// A task that was handed back is offered again.
    HandedBack(RunId, TaskRef),
    /// The run's children are asked for again.
    Children(RunId),
    /// A key's shard is asked again.
    Key(u64),
    /// A word to the crew.
    Beat,
}

#[derive(Default)]
pub(crate) struct Timers {
    queue: BTreeSet<(Mono, Timer)>,
    due: BTreeMap<Timer, Mono>,
}

impl Timers {
    /// Nobody was listened to for so long: those who may come back have that time beyond theirs.
    pub(crate) fn forgive(&mut self, milliseconds: i64) {
        let theirs =
            self.due.iter().filter(|(timer, _)| matches!(timer, Timer::Reattach(..) | Timer::Browser(_)));
        for (timer, due) in theirs.map(|(timer, due)| (*timer, *due)).collect::<Vec<_>>() {
            self.set(timer, due.plus(milliseconds));
        }
    }

    /// The timer is due then, and not at the time that was set before.
    pub(crate) fn set(&mut self, timer: Timer, at: Mono) {
        if let Some(before) = self.due.insert(timer, at) {
            self.queue.remove(&(before, timer));
        }
        self.queue.insert((at, timer));
    }

    pub(crate) fn cancel(&mut self, timer: Timer) {
        if let Some(at) = self.due.remove(&timer) {
            self.queue.remove(&(at, timer));
        }
    }

    pub(crate) fn is_set(&self, timer: Timer) -> bool {
        self.due.contains_key(&timer)
    }

    /// When the timer is due.
    pub(crate) fn due(&self, timer: Timer) -> Option<Mono> {
        self.due.get(&timer).copied()
    }

    pub(crate) fn next(&self) -> Option<Mono> {
        self.queue.first().map(|(at, _)| *at)
    }

    /// The timer that is due first, where one is due by now. It is set no more.
    pub(crate) fn fire(&mut self, now: Mono) -> Option<Timer> {
        let (at, timer) = self.queue.first().copied().filter(|(at, _)| *at <= now)?;
        self.queue.remove(&(at, timer));
        self.due.remove(&timer);
        Some(timer)
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}
