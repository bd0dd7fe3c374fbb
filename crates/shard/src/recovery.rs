//! After a start, or after a commit whose outcome is unknown: memory is rebuilt from what the store holds.

use capataz_contracts::v1;
use capataz_crew::Mono;
use capataz_engine::planted::{self, Fault};
use capataz_engine::{RunState, TaskRef};
use capataz_store::{BlobHash, RunId};

use crate::shard::{Mode, Output, Recovered, Shard};

impl Shard {
    pub(crate) fn recovered(&mut self, recovered: Recovered) {
        if self.mode == Mode::Fenced {
            return;
        }
        self.mode = Mode::Running;
        self.history = recovered.history;
        for (run, state) in recovered.runs {
            if !state.is_finished() {
                self.take_up(run, state);
            }
        }
        self.runs.all_taken_up();
        self.recover_sessions(recovered.sessions);
        if self.mode == Mode::Running {
            self.open();
        }
    }

    fn take_up(&mut self, run: RunId, state: RunState) {
        let leases: Vec<(TaskRef, u64, String)> =
            state.leases().map(|(task, token, worker)| (task, token, worker.to_owned())).collect();
        let open_query = state.open_query();
        let quiet_until = self.quiet_after_recovery(!leases.is_empty());
        let slot = self.runs.take_up(run, state, self.now);
        slot.quiet_until = quiet_until;
        slot.snapshot_seq = slot.state.seq();
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
    fn quiet_after_recovery(&self, has_leases: bool) -> Mono {
        if planted::is(Fault::TimerNotRearmed) {
            return Mono::NEVER;
        }
        if has_leases { self.now.mono.plus(self.config.reattach_ms) } else { Mono::default() }
    }
}

/// The hash that a reference names; `None` where it is not a hash.
#[must_use]
pub fn blob_hash(blob: &v1::BlobRef) -> Option<BlobHash> {
    blob.blake3.parse().ok()
}
