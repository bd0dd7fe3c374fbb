//! After a start, or after a commit whose outcome is unknown: memory is rebuilt from what the store holds.

use capataz_contracts::v1;
use capataz_engine::planted::{self, Fault};
use capataz_engine::{RunState, TaskRef, Timestamp};
use capataz_store::{BlobHash, RunId};

use crate::runs::RunSlot;
use crate::shard::{Mode, Output, Recovered, Shard};

impl Shard {
    pub(crate) fn recovered(&mut self, recovered: Recovered) {
        if self.mode == Mode::Fenced {
            return;
        }
        self.mode = Mode::Running;
        for (run, state) in recovered.runs {
            if !state.is_finished() {
                self.take_up(run, state);
            }
        }
        self.recover_sessions(recovered.sessions);
        if self.mode == Mode::Running {
            self.open();
        }
    }

    fn take_up(&mut self, run: RunId, state: RunState) {
        let leases: Vec<(TaskRef, u64, String)> =
            state.leases().map(|(task, token, worker)| (task, token, worker.to_owned())).collect();
        let open_query = state.open_query();
        let mut slot = RunSlot::new(state);
        slot.quiet_until = self.quiet_after_recovery(!leases.is_empty());
        slot.snapshot_seq = slot.state.seq();
        self.runs.insert(run, slot);
        for (task, token, worker) in leases {
            self.leases.recover(run, task, token, &worker);
            self.detach(run, task);
        }
        self.enqueue_all(run);
        if let Some((query, asked)) = open_query {
            self.out(Output::Query { run, query, asked });
        }
        self.arm(run);
    }

    /// Timers of a recovered run stand still for the reattach window, where it has leases.
    fn quiet_after_recovery(&self, has_leases: bool) -> Timestamp {
        if planted::is(Fault::TimerNotRearmed) {
            return Timestamp(i64::MAX);
        }
        if has_leases { self.now.plus(self.config.reattach_ms) } else { Timestamp::default() }
    }
}

/// The hash that a reference names; `None` where it is not a hash.
#[must_use]
pub fn blob_hash(blob: &v1::BlobRef) -> Option<BlobHash> {
    blob.blake3.parse().ok()
}
