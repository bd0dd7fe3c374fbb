//! Tasks that workers hand back: the first time a task waits for another worker at once, then it waits by itself for
//! longer and longer, and after so many times it counts as lost.
//!
//! Nothing of this is stored: a task whose shard is read again begins anew. A run that rests is remembered all the same.

use std::collections::{BTreeMap, BTreeSet};

use capataz_contracts::v1;
use capataz_crew::{Spurned, ToCrew};
use capataz_engine::TaskRef;
use capataz_engine::planted::{self, Fault};
use capataz_store::RunId;

use crate::leases::{Held, Seat};
use crate::shard::Shard;
use crate::timers::Timer;

type Key = (RunId, TaskRef);

/// Times that a task may be handed back in a row before it counts as a lost lease each time.
pub const MAX_RETURNS: u32 = 16;
/// How long a task waits after the second time; twice as long each time. Milliseconds.
const FIRST_MS: i64 = 100;
/// The longest of these times. Milliseconds.
pub const LONGEST_MS: i64 = 60_000;

/// What follows for a task that was handed back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Next {
    /// It waits for so long before it is offered again.
    pub(crate) pause_ms: Option<i64>,
    pub(crate) is_too_often: bool,
}

/// All tasks that were handed back last, and have not been taken since.
#[derive(Default)]
pub(crate) struct Returns {
    times: BTreeMap<Key, u32>,
    /// Those that wait by themselves. Each has a timer.
    paused: BTreeSet<Key>,
}

impl Returns {
    /// The task was handed back.
    pub(crate) fn returned(&mut self, run: RunId, task: TaskRef) -> Next {
        let times = self.times.entry((run, task)).or_default();
        *times = times.saturating_add(1);
        let doublings = times.saturating_sub(2).min(20);
        let pause_ms = (*times > 1 && !planted::is(Fault::HandedBackAtOnce))
            .then(|| (FIRST_MS << doublings).min(LONGEST_MS));
        let is_too_often = *times > MAX_RETURNS;
        if pause_ms.is_some() {
            self.paused.insert((run, task));
        }
        Next { pause_ms, is_too_often }
    }

    /// A worker has taken the task.
    pub(crate) fn taken(&mut self, run: RunId, task: TaskRef) {
        if !self.times.is_empty() {
            self.times.remove(&(run, task));
        }
    }

    /// The pause is over, or means nothing any more. Whether there was one.
    pub(crate) fn resume(&mut self, run: RunId, task: TaskRef) -> bool {
        self.paused.remove(&(run, task))
    }

    pub(crate) fn is_paused(&self, run: RunId, task: TaskRef) -> bool {
        self.paused.contains(&(run, task))
    }

    /// Whether a task of the run waits by itself.
    pub(crate) fn has(&self, run: RunId) -> bool {
        self.paused.range(first(run)..).next().is_some_and(|(of, _)| *of == run)
    }

    /// Forgets the run. Its tasks that waited by themselves.
    pub(crate) fn drop_run(&mut self, run: RunId) -> Vec<TaskRef> {
        if self.times.is_empty() {
            return Vec::new();
        }
        let keys = self.times.range(first(run)..).map(|(key, _)| *key).take_while(|(of, _)| *of == run);
        let keys: Vec<Key> = keys.collect();
        for key in &keys {
            self.times.remove(key);
        }
        keys.into_iter().filter(|key| self.paused.remove(key)).map(|(_, task)| task).collect()
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

impl Shard {
    /// A worker has handed the task back, undone. It goes elsewhere first, which the crew has to know before the task
    /// waits again.
    pub(crate) fn handed_back(&mut self, run: RunId, task: TaskRef, lease: u64) {
        self.tell_spurned(run, task, lease, Spurned::HandedBack);
        let next = self.returns.returned(run, task);
        if let Some(pause_ms) = next.pause_ms {
            self.timers.set(Timer::HandedBack(run, task), self.now.mono.plus(pause_ms));
        }
        let reason = match next.is_too_often {
            true => v1::LeaseLossReason::ReturnedTooOften,
            false => v1::LeaseLossReason::Returned,
        };
        self.lose(run, task, lease, reason);
        // It may have been cancelled, or have failed for that.
        if !self.runs.get(run).is_some_and(|slot| slot.state.is_queued(task)) {
            self.returns.resume(run, task);
            self.returns.taken(run, task);
            self.timers.cancel(Timer::HandedBack(run, task));
        }
    }

    /// A task that was handed back has waited by itself for long enough.
    pub(crate) fn offer_again(&mut self, run: RunId, task: TaskRef) {
        let waits = self.runs.get(run).is_some_and(|slot| slot.state.is_queued(task));
        if self.returns.resume(run, task) && waits {
            self.enqueue(run, task);
        }
    }

    /// Nothing of the run was ever handed back.
    pub(crate) fn forget_returns(&mut self, run: RunId) {
        for task in self.returns.drop_run(run) {
            self.timers.cancel(Timer::HandedBack(run, task));
        }
    }

    pub(crate) fn tell_spurned(&mut self, run: RunId, task: TaskRef, lease: u64, how: Spurned) {
        let seat = self.leases.get(run, task, lease).and_then(Held::seat);
        if let Some(Seat { offer, .. }) = seat {
            self.tell(ToCrew::Spurned { offer, how });
        }
    }
}

fn first(run: RunId) -> Key {
    (run, TaskRef { wave: 0, task: 0 })
}

#[cfg(test)]
mod tests {
    use super::{LONGEST_MS, MAX_RETURNS, Returns, RunId, TaskRef};

    const TASK: TaskRef = TaskRef { wave: 0, task: 3 };

    fn run(number: u8) -> RunId {
        format!("00000000-0000-7000-8000-0000000000{number:02}").parse().unwrap()
    }

    #[test]
    fn a_task_goes_elsewhere_first_then_waits_and_in_the_end_counts_as_lost() {
        let mut returns = Returns::default();
        let mut pauses = Vec::new();
        for _ in 0..MAX_RETURNS {
            let next = returns.returned(run(1), TASK);
            assert!(!next.is_too_often);
            assert_eq!(returns.is_paused(run(1), TASK), next.pause_ms.is_some());
            pauses.push(next.pause_ms.unwrap_or(0));
            returns.resume(run(1), TASK);
        }
        assert_eq!(pauses[..5], [0, 100, 200, 400, 800]);
        assert_eq!(pauses.last(), Some(&LONGEST_MS));
        assert!(returns.returned(run(1), TASK).is_too_often);
        returns.taken(run(1), TASK);
        assert_eq!(returns.returned(run(1), TASK).pause_ms, None);
    }

    #[test]
    fn a_run_that_is_gone_takes_its_pauses_with_it_and_no_others() {
        let mut returns = Returns::default();
        for of in [1, 2] {
            returns.returned(run(of), TASK);
            returns.returned(run(of), TASK);
        }
        assert!(returns.has(run(1)) && returns.has(run(2)));
        assert_eq!(returns.drop_run(run(1)), [TASK]);
        assert!(!returns.has(run(1)) && returns.has(run(2)));
        assert_eq!(returns.drop_run(run(1)), []);
    }
}
