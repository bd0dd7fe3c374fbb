//! The structure of a plan.

use std::collections::{BTreeMap, BTreeSet};

use super::ask::check_session;
use super::{defaulted_enum, name, optional_enum, payload, references, request};
use crate::path::{Path, shown};
use crate::reference::is_task_name;
use crate::v1;
use crate::violation::{Violation, Violations};

/// How large a plan may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanLimits {
    pub max_tasks: usize,
    pub max_waves: usize,
    /// Commands; resources and a policy's critical agents likewise.
    pub max_names: usize,
    /// Plans within plans.
    pub max_depth: usize,
}

impl Default for PlanLimits {
    fn default() -> Self {
        // 50,000 tasks are the largest run that is tested; waves and names are few in any plan that people read.
        Self { max_tasks: 50_000, max_waves: 1_000, max_names: 1_000, max_depth: 8 }
    }
}

/// The index of the wave that a task is in, by the task's name.
pub type WaveOfTask<'a> = BTreeMap<&'a str, usize>;

/// Checks the structure: names, counts, inputs, references between tasks. Where the plan is larger than `limits`, only
/// that is reported. Policies are not looked into.
pub fn plan(plan: &v1::Plan, limits: &PlanLimits) -> Vec<Violation> {
    let mut violations = Violations::default();
    check(plan, limits, &Path::Root, &mut violations);
    violations.into_vec()
}

pub fn check(plan: &v1::Plan, limits: &PlanLimits, path: &Path<'_>, violations: &mut Violations) {
    if !size(plan, limits, path, violations) {
        return;
    }
    name(&plan.name, "the plan's name", &path.key("name"), violations);
    policy(plan.policy.as_ref(), &path.key("policy"), violations);
    optional_enum::<v1::OnHigh>(plan.on_high, &path.key("on_high"), violations);
    if let Some(session) = &plan.session {
        check_session(session, &path.key("session"), violations);
    }
    if plan.continues.is_some() {
        output_only(&path.key("continues"), violations);
    }
    for (key, what, names) in [
        ("commands", "the command's name", &plan.commands),
        ("resources", "the resource's name", &plan.resources),
    ] {
        let path = &path.key(key);
        for (index, item) in names.iter().enumerate() {
            name(item, what, &path.index(index), violations);
        }
    }
    let path = &path.key("waves");
    if plan.waves.is_empty() {
        violations.push(path, "required", "a plan has at least one wave");
    }
    let mut wave_names = BTreeSet::new();
    let mut wave_of_task = WaveOfTask::new();
    for (index, wave) in plan.waves.iter().enumerate() {
        let path = &path.index(index);
        wave_name(wave, index, &mut wave_names, path, violations);
        policy(wave.policy.as_ref(), &path.key("policy"), violations);
        let path = &path.key("tasks");
        if wave.tasks.is_empty() {
            violations.push(path, "required", "a wave has at least one task");
        }
        for (task_index, task) in wave.tasks.iter().enumerate() {
            let path = &path.index(task_index);
            task_name(task, index, &mut wave_of_task, path, violations);
            self::task(task, limits, path, violations);
        }
    }
    references::check(plan, &wave_of_task, path, violations);
}

fn size(plan: &v1::Plan, limits: &PlanLimits, path: &Path<'_>, violations: &mut Violations) -> bool {
    let tasks: usize = plan.waves.iter().map(|wave| wave.tasks.len()).sum();
    let mut within = true;
    for (key, what, count, most) in [
        ("waves", "waves", plan.waves.len(), limits.max_waves),
        ("waves", "tasks", tasks, limits.max_tasks),
        ("commands", "commands", plan.commands.len(), limits.max_names),
        ("resources", "resources", plan.resources.len(), limits.max_names),
    ] {
        if count > most {
            within = false;
            violations.push(&path.key(key), "limit", format!("{count} {what}; at most {most} are allowed"));
        }
    }
    let waves = &path.key("waves");
    let of_waves = plan.waves.iter().enumerate().take(limits.max_waves);
    within &= critical_agents(plan.policy.as_ref(), limits, path, violations);
    for (index, wave) in of_waves {
        within &= critical_agents(wave.policy.as_ref(), limits, &waves.index(index), violations);
    }
    within
}

/// Looks at how many agents the policy marks; each is looked for among the tasks.
fn critical_agents(
    policy: Option<&v1::AggregationPolicy>,
    limits: &PlanLimits,
    path: &Path<'_>,
    violations: &mut Violations,
) -> bool {
    let (count, most) = (policy.map_or(0, |policy| policy.critical_agents.len()), limits.max_names);
    if count > most {
        let message = format!("{count} agents; at most {most} are allowed");
        violations.push(&path.key("policy").key("critical_agents"), "limit", message);
    }
    count <= most
}

fn wave_name(
    wave: &v1::Wave,
    index: usize,
    seen: &mut BTreeSet<String>,
    path: &Path<'_>,
    violations: &mut Violations,
) {
    let path = &path.key("name");
    if let Some(given) = &wave.name {
        name(given, "the wave's name", path, violations);
    }
    let effective = wave.name.clone().unwrap_or_else(|| format!("wave-{}", index + 1));
    if let Some(effective) = seen.replace(effective) {
        violations.push(path, "duplicate", format!("there is another wave named `{}`", shown(&effective)));
    }
}

fn task_name<'p>(
    task: &'p v1::Task,
    wave: usize,
    wave_of_task: &mut WaveOfTask<'p>,
    path: &Path<'_>,
    violations: &mut Violations,
) {
    let path = &path.key("name");
    name(&task.name, "the task's name", path, violations);
    // Tasks that have none have no other in common.
    if task.name.is_empty() {
        return;
    }
    if task.name.chars().count() <= super::NAME_MAX && !is_task_name(&task.name) {
        let message = "a task's name has letters, digits, `.`, `_` and `-` only";
        violations.push(path, "characters", message);
    }
    if wave_of_task.contains_key(task.name.as_str()) {
        violations.push(path, "duplicate", format!("there is another task named `{}`", shown(&task.name)));
    } else {
        wave_of_task.insert(&task.name, wave);
    }
}

fn task(task: &v1::Task, limits: &PlanLimits, path: &Path<'_>, violations: &mut Violations) {
    match &task.run {
        Some(run) => request::child(task, run, limits, path, violations),
        None => name(&task.agent, "the agent", &path.key("agent"), violations),
    }
    optional_enum::<v1::Effect>(task.effect, &path.key("effect"), violations);
    optional_enum::<v1::Severity>(task.severity, &path.key("severity"), violations);
    if task.taken_over.is_some() {
        output_only(&path.key("taken_over"), violations);
    }
    if let Some(input) = &task.input {
        payload::check(input, payload::INLINE_MAX, &path.key("input"), violations);
    }
}

pub(super) fn output_only(path: &Path<'_>, violations: &mut Violations) {
    violations.push(path, "output_only", "only the daemon sets this field");
}

fn policy(policy: Option<&v1::AggregationPolicy>, path: &Path<'_>, violations: &mut Violations) {
    if let Some(policy) = policy {
        defaulted_enum::<v1::AggregationKind>(policy.kind, &path.key("kind"), violations);
        let path = &path.key("critical_agents");
        for (index, agent) in policy.critical_agents.iter().enumerate() {
            name(agent, "the agent", &path.index(index), violations);
        }
    }
}
