//! A plan as the engine uses it: parsed once from the contract, every default filled in.

use std::collections::BTreeMap;

use capataz_contracts::{Violation, v1};
use capataz_policy::aggregation::AggregationPolicy;
use capataz_policy::retry::RetryPolicy;
use capataz_policy::severity::Severity;
use capataz_policy::timeout::TimeoutPolicy;

use crate::input::TaskRef;

/// Ordered waves of parallel tasks.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub name: String,
    pub waves: Vec<Wave>,
    /// A HIGH failure pauses the run and asks.
    pub pause_on_high: bool,
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
    timeouts: Option<TimeoutPolicy>,
    retry: Option<RetryPolicy>,
}

impl Plan {
    /// Fills every default of `plan` in, so that the accepted event holds all that was decided, and checks the policies.
    ///
    /// # Errors
    /// All violations of the policies' rules, with their paths. The structure is checked by `contracts::validate`.
    pub fn materialise(plan: &mut v1::Plan) -> Result<(), Vec<Violation>> {
        let mut violations = Vec::new();
        let policy = plan.policy.take().unwrap_or_default();
        plan.policy = Some(AggregationPolicy::from_proto(&policy, "policy", &mut violations).to_proto());
        let timeouts = plan.timeouts.take().unwrap_or_default();
        // Tasks take the plan's values as they were read: what is wrong with those is said once.
        let timeouts = TimeoutPolicy::from_proto(&timeouts, "timeouts", &mut violations).to_proto();
        plan.timeouts = Some(timeouts);
        let retry = plan.retry.take().unwrap_or_default();
        plan.retry = Some(RetryPolicy::from_proto(&retry, "retry", &mut violations).to_proto());
        plan.on_high = Some(plan.on_high.filter(|given| *given != 0).unwrap_or(v1::OnHigh::Continue as i32));
        for (wave_index, wave) in plan.waves.iter_mut().enumerate() {
            if wave.name.is_none() {
                wave.name = Some(format!("wave-{}", wave_index + 1));
            }
            if let Some(policy) = &wave.policy {
                let path = format!("waves[{wave_index}].policy");
                wave.policy = Some(AggregationPolicy::from_proto(policy, &path, &mut violations).to_proto());
            }
            for (task_index, task) in wave.tasks.iter_mut().enumerate() {
                let path = |field: &str| format!("waves[{wave_index}].tasks[{task_index}].{field}");
                let effect = task.effect.filter(|given| *given != 0);
                task.effect = Some(effect.unwrap_or(v1::Effect::AtLeastOnce as i32));
                if let Some(own) = &task.timeouts {
                    let merged = merge_timeouts(own, &timeouts);
                    let parsed = TimeoutPolicy::from_proto(&merged, &path("timeouts"), &mut violations);
                    task.timeouts = Some(parsed.to_proto());
                }
                if let Some(own) = &task.retry {
                    task.retry =
                        Some(RetryPolicy::from_proto(own, &path("retry"), &mut violations).to_proto());
                }
            }
        }
        if violations.is_empty() { Ok(()) } else { Err(violations) }
    }

    /// Reads a materialised plan. Total: what a materialised plan always has falls back to its default.
    #[must_use]
    pub fn from_materialised(plan: v1::Plan) -> Self {
        let mut ignored = Vec::new();
        let mut parsed = Self {
            name: plan.name,
            pause_on_high: plan.on_high == Some(v1::OnHigh::Pause as i32),
            policy: AggregationPolicy::from_proto(&plan.policy.unwrap_or_default(), "", &mut ignored),
            timeouts: TimeoutPolicy::from_proto(&plan.timeouts.unwrap_or_default(), "", &mut ignored),
            retry: RetryPolicy::from_proto(&plan.retry.unwrap_or_default(), "", &mut ignored),
            waves: plan.waves.into_iter().map(Wave::from_materialised).collect(),
            by_name: BTreeMap::new(),
        };
        let mut by_name = BTreeMap::new();
        for (reference, task) in parsed.references() {
            by_name.entry(task.name.clone()).or_insert(reference);
        }
        parsed.by_name = by_name;
        parsed
    }

    /// The plan as its accepted event holds it, but for the commands and resources, which are checked before the start.
    #[must_use]
    pub fn to_proto(&self) -> v1::Plan {
        let on_high = if self.pause_on_high { v1::OnHigh::Pause } else { v1::OnHigh::Continue };
        v1::Plan {
            name: self.name.clone(),
            waves: self.waves.iter().map(Wave::to_proto).collect(),
            policy: Some(self.policy.to_proto()),
            timeouts: Some(self.timeouts.to_proto()),
            retry: Some(self.retry.to_proto()),
            on_high: Some(on_high as i32),
            commands: Vec::new(),
            resources: Vec::new(),
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

    /// Fills every default of a call's wave in. `absent`: nobody serves its agent now.
    pub(crate) fn materialise_wave(wave: &mut v1::Wave, absent: bool) {
        let (timeouts, retry) = crate::decide::call_policies(absent);
        for task in &mut wave.tasks {
            task.effect = Some(v1::Effect::AtLeastOnce as i32);
            task.timeouts = Some(timeouts);
            task.retry = Some(retry.clone());
        }
        Self::fill_policies(wave);
    }

    /// Fills the defaults of what the tasks' own policies leave open in.
    pub(crate) fn fill_policies(wave: &mut v1::Wave) {
        let mut none = Vec::new();
        for task in &mut wave.tasks {
            let timeouts = task.timeouts.unwrap_or_default();
            task.timeouts = Some(TimeoutPolicy::from_proto(&timeouts, "", &mut none).to_proto());
            let retry = task.retry.take().unwrap_or_default();
            task.retry = Some(RetryPolicy::from_proto(&retry, "", &mut none).to_proto());
        }
    }

    /// Adds a materialised wave after the others.
    pub(crate) fn push(&mut self, wave: v1::Wave) {
        let number = u32::try_from(self.waves.len()).unwrap_or(u32::MAX);
        let wave = Wave::from_materialised(wave);
        for (task, index) in wave.tasks.iter().zip(0u32..) {
            self.by_name.entry(task.name.clone()).or_insert(TaskRef { wave: number, task: index });
        }
        self.waves.push(wave);
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
        for (reference, task) in self.references() {
            agents.entry(task.agent.as_str()).or_insert(reference);
        }
        agents
    }
}

impl Wave {
    fn from_materialised(wave: v1::Wave) -> Self {
        let mut ignored = Vec::new();
        Self {
            name: wave.name.unwrap_or_default(),
            policy: wave.policy.map(|policy| AggregationPolicy::from_proto(&policy, "", &mut ignored)),
            tasks: wave.tasks.into_iter().map(Task::from_materialised).collect(),
        }
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
    fn from_materialised(task: v1::Task) -> Self {
        let mut ignored = Vec::new();
        Self {
            name: task.name,
            agent: task.agent,
            input: task.input,
            critical: task.critical,
            at_most_once: task.effect == Some(v1::Effect::AtMostOnce as i32),
            severity: task.severity.and_then(Severity::from_proto),
            timeouts: task.timeouts.map(|timeouts| TimeoutPolicy::from_proto(&timeouts, "", &mut ignored)),
            retry: task.retry.map(|retry| RetryPolicy::from_proto(&retry, "", &mut ignored)),
        }
    }

    fn to_proto(&self) -> v1::Task {
        let effect = if self.at_most_once { v1::Effect::AtMostOnce } else { v1::Effect::AtLeastOnce };
        v1::Task {
            name: self.name.clone(),
            agent: self.agent.clone(),
            input: self.input.clone(),
            critical: self.critical,
            effect: Some(effect as i32),
            timeouts: self.timeouts.as_ref().map(TimeoutPolicy::to_proto),
            retry: self.retry.as_ref().map(RetryPolicy::to_proto),
            severity: self.severity.map(|severity| v1::Severity::from(severity) as i32),
        }
    }
}

/// The task's own values, and the plan's where it has none.
fn merge_timeouts(own: &v1::TimeoutPolicy, plan: &v1::TimeoutPolicy) -> v1::TimeoutPolicy {
    v1::TimeoutPolicy {
        timeout_ms: own.timeout_ms.or(plan.timeout_ms),
        grace_ms: own.grace_ms.or(plan.grace_ms),
        schedule_to_start_ms: own.schedule_to_start_ms.or(plan.schedule_to_start_ms),
    }
}

#[cfg(test)]
mod tests;
