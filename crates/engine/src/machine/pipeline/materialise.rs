//! Defaults of pipelines, filled in before anything is recorded.

use capataz_contracts::{Violation, v1};
use capataz_policy::retry::RetryPolicy;
use capataz_policy::timeout::TimeoutPolicy;
use serde_json::{Map, Value, json};

/// Delays before the retries of a phase (seed 003, "Retry + Backoff"). Milliseconds.
const DELAYS_MS: [i64; 3] = [500, 1_500, 3_000];
/// Version of checkpoints (seed 003, "Checkpoints por fase").
const CHECKPOINT_VERSION: &str = "v1.0";

/// Fills every default of a pipeline in, so that the accepted event holds all that was decided, and checks the policies.
///
/// # Errors
/// All violations of the policies' rules, with their paths. The shape is checked by `contracts::validate`.
pub fn materialise(pipeline: &mut v1::Pipeline) -> Result<(), Vec<Violation>> {
    let mut violations = Vec::new();
    pipeline.product_id.get_or_insert_with(|| pipeline.name.clone());
    pipeline.checkpoint_version.get_or_insert_with(|| CHECKPOINT_VERSION.to_owned());
    pipeline.input.get_or_insert_with(super::null);
    let mut earlier = Vec::new();
    for (place, phase) in pipeline.phases.iter_mut().enumerate() {
        let path = |field: &str| format!("phases[{place}].{field}");
        phase.input.get_or_insert_with(|| default_input(phase.for_each.is_some(), &earlier));
        let timeouts = phase.timeouts.take().unwrap_or_default();
        let timeouts = TimeoutPolicy::from_proto(&timeouts, &path("timeouts"), &mut violations).to_proto();
        phase.timeouts = Some(timeouts);
        let mut retry = phase.retry.take().unwrap_or_default();
        if retry.delays_ms.is_empty() && retry.base_delay_ms.is_none() && retry.max_delay_ms.is_none() {
            let most = retry.max_attempts.map_or(DELAYS_MS.len(), |most| most.saturating_sub(1) as usize);
            retry.delays_ms = DELAYS_MS.into_iter().take(most).collect();
        }
        phase.retry = Some(RetryPolicy::from_proto(&retry, &path("retry"), &mut violations).to_proto());
        let effect = phase.effect.filter(|given| *given != 0);
        phase.effect = Some(effect.unwrap_or(v1::Effect::AtLeastOnce.into()));
        phase.output.get_or_insert_default();
        earlier.push(phase.name.clone());
    }
    if violations.is_empty() { Ok(()) } else { Err(violations) }
}

/// The run's input, or the item, and the summaries of the phases before.
fn default_input(has_items: bool, earlier: &[String]) -> String {
    let own = if has_items { "${item}" } else { "${input}" };
    if earlier.is_empty() {
        return Value::from(own).to_string();
    }
    let summaries = earlier.iter().map(|name| (name.clone(), json!(format!("${{phases.{name}.summary}}"))));
    let key = if has_items { "item" } else { "input" };
    json!({ key: own, "phases": summaries.collect::<Map<_, _>>() }).to_string()
}
