//! A run that was forked from another one: what it was promised there is void here.

use capataz_contracts::v1;

use super::state::{Forked, Moment, RunState, Wall};

impl RunState {
    /// From here on the run is one of its own. Its leases and children end with events of theirs.
    pub(super) fn fork(&mut self, event: v1::RunForked, at: Moment) -> Option<()> {
        if event.seq.checked_add(1) != Some(self.seq) {
            return None;
        }
        for activity in self.waves.iter_mut().flat_map(|wave| &mut wave.tasks) {
            if let Some(deadline) = &mut activity.deadline {
                deadline.wall = Wall(deadline.wall.0.saturating_add(event.shifted_ms));
            }
        }
        self.machine.forked(&event.run_id, &event.fork_id, event.input, at);
        self.labels = event.labels;
        self.parent = None;
        self.lineage = v1::Lineage::default();
        self.requests.clear();
        self.refused.clear();
        self.refused_in_init.clear();
        self.forked = Some(Forked { run: event.run_id, seq: event.seq, at });
        self.bytes = self.counted();
        Some(())
    }
}
