//! After a start, or after a commit whose outcome is unknown: memory is rebuilt from what the store holds.

use capataz_contracts::v1;
use capataz_engine::TaskRef;
use capataz_store::BlobHash;

use super::{AppendId, Core, Known, Mode, Recovered, RunSlot};

impl Core {
    /// Makes known what the configuration names.
    pub fn learn(&mut self, known: Known) {
        for agent in known.agents {
            self.agents.learn(agent);
        }
        self.agents.learn_names(known.commands, known.resources);
    }

    pub(super) fn recovered(&mut self, recovered: Recovered) {
        if self.mode == Mode::Fenced {
            return;
        }
        self.mode = Mode::Running;
        self.gathering_until = self.now.plus(self.config.reattach_ms);
        for agent in recovered.agents {
            self.agents.learn(agent);
        }
        for (run, state) in recovered.runs {
            if state.is_finished() {
                continue;
            }
            let leases: Vec<(TaskRef, u64, String)> =
                state.leases().map(|(task, token, worker)| (task, token, worker.to_owned())).collect();
            let quiet_until = self.quiet_after_recovery(!leases.is_empty());
            let snapshot_seq = state.seq();
            let projected = (v1::RunStatus::Unspecified, 0);
            self.runs.insert(
                run,
                RunSlot {
                    state,
                    last_append: AppendId(0),
                    projected,
                    waiters: Vec::new(),
                    wake_at: None,
                    quiet_until,
                    snapshot_seq,
                },
            );
            for (task, token, worker) in leases {
                self.recover_lease(run, task, token, worker);
            }
            let may_lease = self.runs.get(&run).is_some_and(|slot| slot.state.may_lease());
            if may_lease {
                self.enqueue_all(run);
            }
            self.arm(run);
        }
        self.recover_sessions(recovered.sessions);
    }
}

/// The hash that a reference names; `None` where it is no hash.
#[must_use]
pub fn blob_hash(blob: &v1::BlobRef) -> Option<BlobHash> {
    blob.blake3.parse().ok()
}
