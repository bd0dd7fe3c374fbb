//! Defaults of plans and of their policies' rules, filled in before anything is recorded.

use std::collections::BTreeMap;

use capataz_contracts::{Violation, v1};
use capataz_policy::aggregation::AggregationPolicy;
use capataz_policy::retry::RetryPolicy;
use capataz_policy::timeout::TimeoutPolicy;

use super::{CHILD_AGENT, Plan};

impl Plan {
    /// Fills every default of `plan` in, so that the accepted event holds all that was decided, and checks the policies.
    ///
    /// # Errors
    /// All violations of the policies' rules, with their paths. The structure is checked by `contracts::validate`.
    pub fn materialise(plan: &mut v1::Plan) -> Result<(), Vec<Violation>> {
        let mut violations = Vec::new();
        let policy = plan.policy.take().unwrap_or_default();
        mark_critical(
            &policy.critical_agents,
            "policy",
            plan.waves.iter_mut().filter(|wave| wave.policy.is_none()),
            &mut violations,
        );
        plan.policy = Some(AggregationPolicy::from_proto(&policy, "policy", &mut violations).to_proto());
        let timeouts = plan.timeouts.take().unwrap_or_default();
        // Tasks take the plan's parsed values, so that a violation in these is reported once.
        let timeouts = TimeoutPolicy::from_proto(&timeouts, "timeouts", &mut violations).to_proto();
        plan.timeouts = Some(timeouts);
        let retry = plan.retry.take().unwrap_or_default();
        plan.retry = Some(RetryPolicy::from_proto(&retry, "retry", &mut violations).to_proto());
        plan.on_high = Some(plan.on_high.filter(|given| *given != 0).unwrap_or(v1::OnHigh::Continue.into()));
        for (wave_index, wave) in plan.waves.iter_mut().enumerate() {
            if wave.name.is_none() {
                wave.name = Some(format!("wave-{}", wave_index + 1));
            }
            if let Some(policy) = wave.policy.take() {
                let path = format!("waves[{wave_index}].policy");
                mark_critical(&policy.critical_agents, &path, [&mut *wave], &mut violations);
                wave.policy = Some(AggregationPolicy::from_proto(&policy, &path, &mut violations).to_proto());
            }
            for (task_index, task) in wave.tasks.iter_mut().enumerate() {
                let path = |field: &str| format!("waves[{wave_index}].tasks[{task_index}].{field}");
                let effect = task.effect.filter(|given| *given != 0);
                task.effect = Some(effect.unwrap_or(v1::Effect::AtLeastOnce.into()));
                if let Some(own) = &task.timeouts {
                    let merged = merge_timeouts(own, &timeouts);
                    let parsed = TimeoutPolicy::from_proto(&merged, &path("timeouts"), &mut violations);
                    task.timeouts = Some(parsed.to_proto());
                }
                if let Some(run) = &mut task.run {
                    CHILD_AGENT.clone_into(&mut task.agent);
                    if let Some(plan) = run.plan_mut()
                        && let Err(of_child) = Self::materialise(plan)
                    {
                        let under = path("run.plan");
                        violations.extend(of_child.into_iter().map(|violation| violation.under(&under)));
                    }
                }
                if let Some(own) = &task.retry {
                    task.retry =
                        Some(RetryPolicy::from_proto(own, &path("retry"), &mut violations).to_proto());
                }
            }
        }
        if violations.is_empty() { Ok(()) } else { Err(violations) }
    }

    /// Fills in the defaults that the tasks' own policies leave open.
    pub(crate) fn fill_policies(wave: &mut v1::Wave) {
        let mut none = Vec::new();
        for task in &mut wave.tasks {
            let timeouts = task.timeouts.unwrap_or_default();
            task.timeouts = Some(TimeoutPolicy::from_proto(&timeouts, "", &mut none).to_proto());
            let retry = task.retry.take().unwrap_or_default();
            task.retry = Some(RetryPolicy::from_proto(&retry, "", &mut none).to_proto());
        }
    }
}

/// Marks every task of these agents, in the waves that the policy at `path` judges, as critical.
fn mark_critical<'a>(
    agents: &[String],
    path: &str,
    waves: impl IntoIterator<Item = &'a mut v1::Wave>,
    violations: &mut Vec<Violation>,
) {
    if agents.is_empty() {
        return;
    }
    let wanted: BTreeMap<&str, usize> =
        agents.iter().enumerate().map(|(index, agent)| (agent.as_str(), index)).collect();
    let mut missing = wanted.clone();
    for task in waves.into_iter().flat_map(|wave| &mut wave.tasks).filter(|task| task.run.is_none()) {
        if wanted.contains_key(task.agent.as_str()) {
            task.critical = true;
            missing.remove(task.agent.as_str());
        }
    }
    for (agent, index) in missing {
        let path = format!("{path}.critical_agents[{index}]");
        let message = format!("no task that this policy judges uses agent {agent:?}");
        violations.push(Violation::new(path, "known", message));
    }
}

/// The task's own values, with the plan's values in place of missing ones.
fn merge_timeouts(own: &v1::TimeoutPolicy, plan: &v1::TimeoutPolicy) -> v1::TimeoutPolicy {
    v1::TimeoutPolicy {
        timeout_ms: own.timeout_ms.or(plan.timeout_ms),
        grace_ms: own.grace_ms.or(plan.grace_ms),
        schedule_to_start_ms: own.schedule_to_start_ms.or(plan.schedule_to_start_ms),
    }
}
