//! Defaults of executions, filled in before anything is recorded.

use capataz_contracts::{Violation, v1};
use capataz_policy::mode;
use capataz_policy::mode::contract::{self, Tool};
use capataz_policy::retry::RetryPolicy;
use capataz_policy::timeout::TimeoutPolicy;

/// Delays before the planner is asked again: as those of phases. Milliseconds.
const DELAYS_MS: [i64; 3] = [500, 1_500, 3_000];

/// Fills every default in, so that the accepted event holds all that was decided, and checks the policies. Tools have what
/// their agents declare already.
///
/// # Errors
/// All violations of the policies' rules, with their paths. The shape is checked by `contracts::validate`.
pub fn materialise(run: &mut v1::ModeRun) -> Result<(), Vec<Violation>> {
    let mut violations = Vec::new();
    run.autonomy_level.get_or_insert(mode::AUTONOMY);
    run.max_steps.get_or_insert(mode::MAX_ACTIONS);
    let timeouts = run.timeouts.take().unwrap_or_default();
    run.timeouts = Some(TimeoutPolicy::from_proto(&timeouts, "timeouts", &mut violations).to_proto());
    let mut retry = run.retry.take().unwrap_or_default();
    if retry.delays_ms.is_empty() && retry.base_delay_ms.is_none() && retry.max_delay_ms.is_none() {
        let most = retry.max_attempts.map_or(DELAYS_MS.len(), |most| most.saturating_sub(1) as usize);
        retry.delays_ms = DELAYS_MS.into_iter().take(most).collect();
    }
    run.retry = Some(RetryPolicy::from_proto(&retry, "retry", &mut violations).to_proto());
    for (place, tool) in run.tools.iter_mut().enumerate() {
        let path = |field: &str| format!("tools[{place}].{field}");
        let timeouts = tool.timeouts.take().unwrap_or_default();
        let timeouts = TimeoutPolicy::from_proto(&timeouts, &path("timeouts"), &mut violations).to_proto();
        tool.timeouts = Some(timeouts);
        let retry = tool.retry.take().unwrap_or_default();
        tool.retry = Some(RetryPolicy::from_proto(&retry, &path("retry"), &mut violations).to_proto());
        let least = if tool.undoable { v1::Effect::AtLeastOnce } else { v1::Effect::AtMostOnce };
        tool.effect = Some(tool.effect.filter(|given| *given != 0).unwrap_or(least.into()));
    }
    if violations.is_empty() { Ok(()) } else { Err(violations) }
}

/// The contracts by which the planner of a run may have to answer, with the paths of the modes that they are of.
#[must_use]
pub fn contracts_of(run: &v1::ModeRun) -> Vec<String> {
    let modes = match run.mode() {
        v1::ExecutionMode::Unspecified => {
            vec![v1::ExecutionMode::Simple, v1::ExecutionMode::Planner, v1::ExecutionMode::Supervised]
        }
        mode => vec![mode],
    };
    let tools = tools_of(run);
    let both = |mode: &v1::ExecutionMode| {
        [contract::answer_schema(*mode, &tools), contract::plan_schema(*mode, &tools)]
    };
    modes.iter().flat_map(both).filter(|schema| !schema.is_empty()).collect()
}

/// The tools of a run, as contracts name them.
pub(super) fn tools_of(run: &v1::ModeRun) -> Vec<Tool<'_>> {
    run.tools.iter().map(|tool| Tool { name: &tool.name, input_schema: &tool.input_schema }).collect()
}
