//! Every unfinished effect of a run, from its state alone: what a restart has to do again.

use crate::effect::Effect;
use crate::fold::activity::{Child, Step};
use crate::fold::state::RunState;

impl RunState {
    /// The effects that are not finished. Running them again does no harm: a worker knows its leases.
    #[must_use]
    pub fn outstanding(&self) -> Vec<Effect> {
        if self.is_finished() {
            return vec![Effect::Finish];
        }
        let may_lease = self.may_lease();
        let open = self.open_query().map(|(query, asked)| Effect::Query { query, asked });
        let mut effects: Vec<Effect> = open.into_iter().collect();
        for (task, activity) in self.activities() {
            match &activity.step {
                Step::Queued { .. } if may_lease => effects.push(Effect::Enqueue { task }),
                Step::Leased(lease) => {
                    effects.push(Effect::Assign { task, lease: lease.token });
                    if let Some(cancel) = lease.cancel {
                        effects.push(Effect::Cancel {
                            task,
                            lease: lease.token,
                            reason: cancel.reason,
                            grace_ms: cancel.grace_until.since(self.last.clock).max(0),
                        });
                    }
                }
                Step::Child(Child { ended: false, .. }) => effects.push(Effect::Child { task }),
                Step::Child(_)
                | Step::Queued { .. }
                | Step::Backoff { .. }
                | Step::Asking { .. }
                | Step::Settled => {}
            }
        }
        effects
    }

    /// Returns whether nothing is unfinished: only an input or a deadline makes the run go on.
    #[must_use]
    pub fn owes_nothing(&self) -> bool {
        let may_lease = self.may_lease();
        let works = |step: &Step| match step {
            Step::Leased(_) => true,
            Step::Child(child) => !child.ended,
            Step::Queued { .. } => may_lease,
            Step::Backoff { .. } | Step::Asking { .. } | Step::Settled => false,
        };
        let idle = !self.activities().any(|(_, activity)| works(&activity.step));
        idle && !self.is_finished() && self.open_query().is_none()
    }
}
