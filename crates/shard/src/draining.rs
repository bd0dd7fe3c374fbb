//! A shard that drains begins nothing: it gives no lease and no turn, creates no run, and hands back what no worker has
//! acknowledged. What runs goes on to its end, or as long as the daemon waits for it.

use capataz_contracts::v1;
use capataz_engine::TaskRef;
use capataz_engine::planted::{self, Fault};
use capataz_store::RunId;

use crate::shard::{Mode, Shard};

impl Shard {
    /// Nothing is begun from now on. A shard that is being read again hands back when it has been read: what it decided
    /// before would be nobody's.
    pub(crate) fn drain(&mut self) {
        self.draining = true;
        if self.mode == Mode::Running {
            self.hand_back();
        }
    }

    /// Hands back what no worker has acknowledged.
    pub(crate) fn hand_back(&mut self) {
        for (run, task, token) in self.leases.unacknowledged() {
            if !self.may_not_begin_again(run, task) {
                self.lose(run, task, token, v1::LeaseLossReason::NotAcknowledged);
            }
        }
    }

    /// Whether nothing may be leased any more.
    pub(crate) fn leases_nothing(&self) -> bool {
        self.draining && !planted::is(Fault::LeaseGrantedWhileDraining)
    }

    /// A lease whose assignment has not left, and does not leave any more: nobody has begun on it.
    pub(crate) fn is_kept_back(&mut self, run: RunId, task: TaskRef, token: u64) -> bool {
        let keeps = self.draining && !planted::is(Fault::AssignedWhileDraining);
        if keeps {
            self.lose(run, task, token, v1::LeaseLossReason::Returned);
        }
        keeps
    }

    /// Nobody knows whether a worker that has not acknowledged its assignment has begun. What must not begin twice is left
    /// to it, for as long as every worker has to acknowledge.
    fn may_not_begin_again(&self, run: RunId, task: TaskRef) -> bool {
        let declared = self.runs.get(run).and_then(|slot| slot.state.plan().task(task));
        declared.is_some_and(|declared| declared.at_most_once)
    }
}
