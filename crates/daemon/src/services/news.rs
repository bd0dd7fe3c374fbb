//! What a view of a run tells of tasks that are at work and of those that wait: it is known to the run's shard and to the crew
//! alone, and is in no log.

use std::collections::{BTreeMap, BTreeSet};

use capataz_contracts::v1;
use capataz_crew::AgentSnapshot;
use capataz_engine::{RunState, TaskRef};
use capataz_runtime::Runtime;
use capataz_store::RunRow;

use super::Health;

/// Agents of waiting tasks that the crew is asked about at once.
const MOST_AGENTS: usize = 1_000;

/// What is known of a run's tasks now.
#[derive(Debug, Default)]
pub(super) struct News {
    health: Vec<(TaskRef, v1::HealthChecks)>,
    agents: BTreeMap<String, v1::WaitForAgent>,
}

impl News {
    /// Asks for it. What cannot be told now is not in an answer: everything else is.
    pub(super) async fn of(
        runtime: &Runtime,
        health: &Health,
        row: &RunRow,
        state: &RunState,
        with_logs: bool,
    ) -> Self {
        if row.summary.finished_at.is_some() {
            return Self::default();
        }
        // The tasks of a run that is held wait for people, and those of a daemon that drains for the next one.
        let may_begin = state.may_lease() && !health.is_draining();
        let queued = state.queued().filter(|_| may_begin);
        let agents: BTreeSet<&str> =
            queued.filter_map(|task| Some(state.plan().task(task)?.agent.as_str())).collect();
        let names: Vec<String> = agents.into_iter().take(MOST_AGENTS).map(str::to_owned).collect();
        let waited_for = async {
            match names.is_empty() {
                true => Vec::new(),
                false => runtime.agents_named(names, row.run).await.unwrap_or_default(),
            }
        };
        let (health, agents) = tokio::join!(runtime.health(row.run), waited_for);
        let mut health = health.unwrap_or_default();
        if !with_logs {
            health.iter_mut().for_each(|(_, of_task)| of_task.log = None);
        }
        let agents = agents.into_iter().map(|agent| (agent.known.agent.name.clone(), waited_for_one(&agent)));
        Self { health, agents: agents.collect() }
    }

    /// Adds it to the tasks of a page.
    ///
    /// It was asked for after the log was read, so that a task may be at work that the view shows as waiting, or be over that
    /// the view shows at work: a task has what both say.
    pub(super) fn add(&self, view: &mut v1::Run, state: &RunState) {
        let name = |task: TaskRef| Some(state.plan().task(task)?.name.as_str());
        let mut health: BTreeMap<&str, &v1::HealthChecks> =
            self.health.iter().filter_map(|(task, of_task)| Some((name(*task)?, of_task))).collect();
        let queued: BTreeSet<&str> = match self.agents.is_empty() {
            true => BTreeSet::new(),
            false => state.queued().filter_map(name).collect(),
        };
        for task in view.waves.iter_mut().flat_map(|wave| &mut wave.tasks) {
            task.health_checks = health.remove(task.name.as_str()).filter(|_| task.worker.is_some()).cloned();
            let waits = queued.contains(task.name.as_str()) && task.health_checks.is_none();
            task.waits_for = self.agents.get(&task.agent).filter(|_| waits).copied();
        }
    }
}

fn waited_for_one(agent: &AgentSnapshot) -> v1::WaitForAgent {
    v1::WaitForAgent {
        workers: agent.workers,
        running: agent.running,
        queued: agent.queued,
        last_seen_ms: agent.known.last_seen.map(|at| at.0),
        held_for_ms: agent.held_for_ms,
        ahead: agent.ahead,
    }
}
