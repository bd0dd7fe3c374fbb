//! Scripts: actions of every nature, with policies that retry, recover and halt.

use capataz_contracts::v1;

use crate::rng::Rng;

const KINDS: [v1::ActionKind; 7] = [
    v1::ActionKind::Navigate,
    v1::ActionKind::Click,
    v1::ActionKind::Fill,
    v1::ActionKind::Submit,
    v1::ActionKind::Extract,
    v1::ActionKind::Assert,
    v1::ActionKind::Reload,
];
/// Codes with which a page host fails, and by which scripts retry and recover.
pub const CODES: [&str; 9] = [
    "TARGET_NOT_FOUND",
    "TARGET_NOT_UNIQUE",
    "POSTCONDITION_FAILED",
    "OVERLAY_BLOCKING",
    "NAVIGATION_TIMEOUT",
    "NAVIGATION_FAILED",
    "DOMAIN_BLOCKED",
    "ACTION_CRITICAL_BLOCKED",
    "EVIDENCE_FAILED",
];

pub fn draw(rng: &mut Rng, number: u64) -> v1::Script {
    let interactive = rng.percent(35);
    let count = if interactive { 0 } else { 1 + rng.below(4) };
    // Half of the browsers are put away while a person thinks for a moment.
    let (shortest, longest) = if rng.percent(50) { (300, 3_000) } else { (3_000, 60_000) };
    v1::Script {
        name: format!("script-{number}"),
        actions: (0..count).map(|index| action(rng, &format!("a{index}"))).collect(),
        policy: Some(policy(rng)),
        interactive,
        idle_timeout_ms: Some(rng.between(shortest, longest)),
        ..v1::Script::default()
    }
}

/// One action, with its criticality filled in as the daemon does.
pub fn action(rng: &mut Rng, id: &str) -> v1::Action {
    let kind = rng.pick(&KINDS).copied().unwrap_or(v1::ActionKind::Click);
    let critical = kind == v1::ActionKind::Submit || rng.percent(10);
    let criticality = if critical { v1::Criticality::Critical } else { v1::Criticality::Normal };
    let passes = !critical && rng.percent(30);
    v1::Action {
        id: id.to_owned(),
        kind: kind as i32,
        criticality: Some(criticality as i32),
        repeatable: rng.percent(40).then(|| rng.percent(70)),
        output: (kind == v1::ActionKind::Extract).then(|| format!("out-{id}")),
        timeout_ms: rng.percent(30).then(|| rng.between(200, 3_000)),
        on_failure: passes.then_some(v1::OnFailure::Continue as i32),
        retry: rng.percent(20).then(|| retry(rng)),
        ..v1::Action::default()
    }
}

fn retry(rng: &mut Rng) -> v1::ActionRetry {
    let limit = rng.percent(60).then(|| u32::try_from(rng.below(4)).unwrap_or(0));
    v1::ActionRetry { limit, on: if rng.percent(50) { some_codes(rng) } else { Vec::new() } }
}

fn some_codes(rng: &mut Rng) -> Vec<String> {
    CODES.iter().filter(|_| rng.percent(45)).map(|code| (*code).to_owned()).collect()
}

fn policy(rng: &mut Rng) -> v1::ScriptPolicy {
    let small = |rng: &mut Rng| rng.percent(50).then(|| u32::try_from(rng.below(3)).unwrap_or(0));
    v1::ScriptPolicy {
        max_steps: rng.percent(15).then(|| u32::try_from(1 + rng.below(3)).unwrap_or(1)),
        same_state_revisit: small(rng),
        retry_limit: small(rng),
        recovery_limit: small(rng),
        retry_on: if rng.percent(60) { some_codes(rng) } else { Vec::new() },
        backoff: Some(v1::ScriptBackoff {
            base_delay_ms: Some(rng.between(0, 800)),
            multiplier: None,
            max_delay_ms: Some(2_000),
        }),
        recovery: if rng.percent(50) { vec![recovery(rng)] } else { Vec::new() },
        action_timeout_ms: Some(rng.between(500, 5_000)),
        navigation_timeout_ms: Some(rng.between(500, 5_000)),
        ..v1::ScriptPolicy::default()
    }
}

fn recovery(rng: &mut Rng) -> v1::Recovery {
    let kind = if rng.percent(50) { v1::RecoveryKind::Reload } else { v1::RecoveryKind::Back };
    v1::Recovery { on: some_codes(rng), r#do: kind as i32, target: None }
}
