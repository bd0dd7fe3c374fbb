//! What a view of a run tells of the work that goes on: that is known to the run's shard alone, and is in no log.

use std::collections::BTreeMap;

use capataz_contracts::v1;
use capataz_engine::{RunState, TaskRef};

/// Adds what is known of the work that goes on to the tasks of a page.
///
/// The shard was asked after the log was read, so that a task may be at work that the view shows as waiting, or be over
/// that the view shows at work: a task has health checks where both say that it is at work.
pub(super) fn add(view: &mut v1::Run, state: &RunState, health: &[(TaskRef, v1::HealthChecks)]) {
    let mut health: BTreeMap<&str, &v1::HealthChecks> = health
        .iter()
        .filter_map(|(task, of_task)| Some((state.plan().task(*task)?.name.as_str(), of_task)))
        .collect();
    for task in view.waves.iter_mut().flat_map(|wave| &mut wave.tasks) {
        task.health_checks = health.remove(task.name.as_str()).filter(|_| task.worker.is_some()).cloned();
    }
}
