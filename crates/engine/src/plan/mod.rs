//! The waves of a run: those that a plan declares, or those that a machine has begun. Part of the fold: it reads the
//! plans that events record, in which [`materialise`](mod@materialise) has filled in all defaults before.

mod materialise;

use std::collections::BTreeMap;

use capataz_contracts::v1;
use capataz_policy::aggregation::{AggregationPolicy, ResultStatus, TaskOutcome};
use capataz_policy::retry::RetryPolicy;
use capataz_policy::severity::Severity;
use capataz_policy::timeout::TimeoutPolicy;

use crate::fold::bytes;
use crate::input::TaskRef;

/// What a task that is a run has instead of an agent's name.
pub const CHILD_AGENT: &str = "capataz.run";

/// Ordered waves of parallel tasks.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub name: String,
    /// The run whose work it goes on with.
    pub(crate) continues: Option<String>,
    pub waves: Vec<Wave>,
    policy: AggregationPolicy,
    timeouts: TimeoutPolicy,
    retry: RetryPolicy,
    by_name: BTreeMap<String, TaskRef>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Wave {
    pub name: String,
    pub tasks: Vec<Task>,
    policy: Option<AggregationPolicy>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    pub name: String,
    pub agent: String,
    pub input: Option<v1::Payload>,
    pub critical: bool,
    pub at_most_once: bool,
    pub severity: Option<Severity>,
    /// The run that the task is, instead of an agent's work.
    pub child: Option<Box<v1::ChildRun>>,
    /// What it has given in the run that this one continues.
    pub(crate) taken_over: Option<Box<v1::TakenOver>>,
    timeouts: Option<TimeoutPolicy>,
    retry: Option<RetryPolicy>,
}

impl Plan {
    /// Reads the plan that was accepted. `None` where it lacks something that was decided when it was accepted.
    pub(crate) fn recorded(plan: v1::Plan) -> Option<Self> {
        let waves: Option<Vec<Wave>> = plan.waves.into_iter().map(Wave::recorded).collect();
        let mut recorded = Self {
            name: plan.name,
            continues: plan.continues,
            policy: AggregationPolicy::recorded(&plan.policy?)?,
            timeouts: TimeoutPolicy::recorded(&plan.timeouts?)?,
            retry: RetryPolicy::recorded(plan.retry?)?,
            waves: waves?,
            by_name: BTreeMap::new(),
        };
        let mut by_name = BTreeMap::new();
        for (reference, task) in recorded.references() {
            by_name.entry(task.name.clone()).or_insert(reference);
        }
        recorded.by_name = by_name;
        Some(recorded)
    }

    /// The plan of a run that declares no waves: its machine begins them one by one. Each of them has one task, with
    /// limits and retries of its own, which alone decides.
    pub(crate) fn undeclared(name: String) -> Self {
        Self {
            name,
            continues: None,
            waves: Vec::new(),
            policy: AggregationPolicy::of_one_task(),
            timeouts: TimeoutPolicy::default(),
            retry: RetryPolicy::default(),
            by_name: BTreeMap::new(),
        }
    }

    /// The plan as its accepted event holds it, but for the commands and resources, which are checked before the start, and its
    /// session.
    #[must_use]
    pub fn to_proto(&self) -> v1::Plan {
        v1::Plan {
            name: self.name.clone(),
            waves: self.waves.iter().map(Wave::to_proto).collect(),
            policy: Some(self.policy.to_proto()),
            timeouts: Some(self.timeouts.to_proto()),
            retry: Some(self.retry.to_proto()),
            on_high: None,
            commands: Vec::new(),
            resources: Vec::new(),
            session: None,
            continues: self.continues.clone(),
        }
    }

    /// The wave's policy, or the plan's.
    #[must_use]
    pub fn policy_of(&self, wave: u32) -> &AggregationPolicy {
        self.wave(wave).and_then(|wave| wave.policy.as_ref()).unwrap_or(&self.policy)
    }

    /// The task's timeouts, or the plan's.
    #[must_use]
    pub fn timeouts_of(&self, task: TaskRef) -> &TimeoutPolicy {
        self.task(task).and_then(|task| task.timeouts.as_ref()).unwrap_or(&self.timeouts)
    }

    /// The task's retry policy, or the plan's.
    #[must_use]
    pub fn retry_of(&self, task: TaskRef) -> &RetryPolicy {
        self.task(task).and_then(|task| task.retry.as_ref()).unwrap_or(&self.retry)
    }

    #[must_use]
    pub fn task(&self, task: TaskRef) -> Option<&Task> {
        self.waves.get(task.wave as usize)?.tasks.get(task.task as usize)
    }

    #[must_use]
    pub fn wave(&self, wave: u32) -> Option<&Wave> {
        self.waves.get(wave as usize)
    }

    /// Adds a recorded wave after the others.
    pub(crate) fn push(&mut self, wave: v1::Wave) -> Option<()> {
        let number = u32::try_from(self.waves.len()).ok()?;
        let wave = Wave::recorded(wave)?;
        for (task, index) in wave.tasks.iter().zip(0u32..) {
            self.by_name.entry(task.name.clone()).or_insert(TaskRef { wave: number, task: index });
        }
        self.waves.push(wave);
        Some(())
    }

    /// Where the task of this name is.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<TaskRef> {
        self.by_name.get(name).copied()
    }

    /// All tasks with their places, in the plan's order.
    pub fn references(&self) -> impl Iterator<Item = (TaskRef, &Task)> {
        self.waves.iter().zip(0u32..).flat_map(|(wave, wave_index)| {
            wave.tasks
                .iter()
                .zip(0u32..)
                .map(move |(task, task_index)| (TaskRef { wave: wave_index, task: task_index }, task))
        })
    }

    #[must_use]
    pub fn task_count(&self) -> u32 {
        self.waves.iter().map(|wave| u32::try_from(wave.tasks.len()).unwrap_or(u32::MAX)).sum()
    }

    /// Names of the agents that the plan uses, each with the tasks that use it first.
    #[must_use]
    pub fn agents(&self) -> BTreeMap<&str, TaskRef> {
        let mut agents = BTreeMap::new();
        for (reference, task) in self.references().filter(|(_, task)| task.child.is_none()) {
            agents.entry(task.agent.as_str()).or_insert(reference);
        }
        agents
    }
}

impl Wave {
    fn recorded(wave: v1::Wave) -> Option<Self> {
        let policy = match wave.policy {
            Some(policy) => Some(AggregationPolicy::recorded(&policy)?),
            None => None,
        };
        let tasks: Option<Vec<Task>> = wave.tasks.into_iter().map(Task::recorded).collect();
        Some(Self { name: wave.name.unwrap_or_default(), policy, tasks: tasks? })
    }

    fn to_proto(&self) -> v1::Wave {
        v1::Wave {
            name: Some(self.name.clone()),
            tasks: self.tasks.iter().map(Task::to_proto).collect(),
            policy: self.policy.as_ref().map(AggregationPolicy::to_proto),
        }
    }
}

impl Task {
    /// A result of the task, as policies count it.
    pub(crate) fn outcome(&self, status: ResultStatus, severity: Option<Severity>) -> TaskOutcome<'_> {
        TaskOutcome { task: &self.name, agent: &self.agent, status, critical: self.critical, severity }
    }

    /// The length of its own policies, and of the run that it is, where it has any.
    pub(crate) fn policies_bytes(&self) -> u64 {
        let timeouts = self.timeouts.as_ref().map(TimeoutPolicy::to_proto);
        let retry = self.retry.as_ref().map(RetryPolicy::to_proto);
        let child = bytes::optional(self.child.as_deref());
        bytes::optional(timeouts.as_ref())
            .saturating_add(bytes::optional(retry.as_ref()))
            .saturating_add(child)
    }

    fn recorded(task: v1::Task) -> Option<Self> {
        let at_most_once = task.effect() == v1::Effect::AtMostOnce;
        let timeouts = match task.timeouts {
            Some(timeouts) => Some(TimeoutPolicy::recorded(&timeouts)?),
            None => None,
        };
        let retry = match task.retry {
            Some(retry) => Some(RetryPolicy::recorded(retry)?),
            None => None,
        };
        Some(Self {
            at_most_once,
            severity: task.severity.and_then(Severity::from_proto),
            name: task.name,
            agent: task.agent,
            input: task.input,
            critical: task.critical,
            child: task.run,
            taken_over: task.taken_over.map(Box::new),
            timeouts,
            retry,
        })
    }

    fn to_proto(&self) -> v1::Task {
        let effect = if self.at_most_once { v1::Effect::AtMostOnce } else { v1::Effect::AtLeastOnce };
        v1::Task {
            name: self.name.clone(),
            agent: self.agent.clone(),
            input: self.input.clone(),
            critical: self.critical,
            effect: Some(effect.into()),
            timeouts: self.timeouts.as_ref().map(TimeoutPolicy::to_proto),
            retry: self.retry.as_ref().map(RetryPolicy::to_proto),
            severity: self.severity.map(|severity| severity.to_proto().into()),
            run: self.child.clone(),
            taken_over: self.taken_over.as_deref().cloned(),
        }
    }
}

#[cfg(test)]
mod tests;
