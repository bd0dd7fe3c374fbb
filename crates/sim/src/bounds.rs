//! What the daemon keeps for its clients has bounds, whatever they leave unread.

use capataz_shard::feed::{BATCH_BYTES, PAGE_ROWS, Step};

use crate::invariant::{Invariant, Violation};
use crate::world::World;

impl World {
    /// What is kept for callers of each run, and for the subscribers of each shard.
    pub(crate) fn check_bounds(&self) -> Result<(), Violation> {
        let bounded = |holds: bool, what: &dyn Fn() -> String| Invariant::MemoryIsBounded.check(holds, what);
        for (shard, ring) in &self.daemon.rings {
            // The newest append is there, however large it is.
            let (count, bytes) = ring.sizes().fold((0, 0), |(count, sum), size| (count + 1, sum + size));
            bounded(count <= 1 || bytes <= self.scenario.ring_bytes, &|| {
                format!("the ring of {shard:?} has {bytes} bytes in {count} appends")
            })?;
        }
        let Some(core) = &self.daemon.core else { return Ok(()) };
        let most = self.scenario.core.max_waiters_per_run;
        let most_idle = self.scenario.core.idle_sessions;
        for shard in self.scenario.shards().into_iter().filter_map(|shard| core.shard(shard)) {
            if let Some(idle) = shard.idle_sessions() {
                let is_bounded = idle.sessions <= most_idle.sessions && idle.bytes <= most_idle.bytes;
                bounded(is_bounded, &|| {
                    format!("{idle:?} are in memory, and nobody asks anything of them; {most_idle:?} may be")
                })?;
            }
            let (bytes, most_bytes) = (shard.command_bytes(), self.scenario.core.max_waiting_bytes);
            bounded(bytes <= most_bytes, &|| {
                format!("{bytes} bytes of commands wait for their sessions to be read; {most_bytes} may be")
            })?;
            for (waiters, wanted) in shard.kept_for_callers() {
                // The one who starts a run may wait for it, and the run itself may want to be read for a deadline.
                bounded(waiters <= most + 1 && wanted <= most + 1, &|| {
                    format!(
                        "{waiters} callers wait for one run, and {wanted} things are wanted of it; {most} may be"
                    )
                })?;
            }
        }
        Ok(())
    }

    /// What a subscriber is given at once.
    pub(crate) fn check_step(step: &Step, max_batch: usize) -> Result<(), Violation> {
        let bytes: usize = step.events.iter().map(|delivered| delivered.event.len()).sum();
        let is_bounded = step.events.len() <= max_batch && (step.events.len() <= 1 || bytes <= BATCH_BYTES);
        Invariant::MemoryIsBounded.check(is_bounded && step.damaged.len() <= PAGE_ROWS, || {
            format!("a subscriber is given {} events of {bytes} bytes at once", step.events.len())
        })
    }
}
