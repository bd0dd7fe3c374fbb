//! The work: plans of three tasks, each the same for the same seed, client and number, so that a client that was killed
//! repeats its requests to the letter.

use std::collections::BTreeMap;

use capataz_contracts::v1;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The agent of all tasks that workers serve.
pub(crate) const AGENT: &str = "chaos";

/// The agent that the daemon serves by a command.
pub(crate) const PROCESS_AGENT: &str = "chaos-process";

/// The answer to a question by which a task of unknown outcome is done again.
pub(crate) const RETRY: &str = "retry";

/// What a task is told.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TaskInput {
    /// The run's idempotency key, and the task's name.
    pub(crate) key: String,
    pub(crate) task: String,
    pub(crate) milliseconds: u64,
    /// Attempts that fail, so that retries are under way when the daemon dies.
    #[serde(default)]
    pub(crate) failures: u32,
}

/// What a task answers: who it was, so that no answer can pass for another.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TaskOutput {
    pub(crate) key: String,
    pub(crate) task: String,
    /// Absent from a command's answer, which knows of no leases.
    pub(crate) lease: Option<u64>,
}

/// How a run is steered once it is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Steering {
    None,
    /// Pause, wait so many milliseconds, resume.
    Pause(u64),
    /// Cancel after so many milliseconds.
    Cancel(u64),
    /// Give the first task more time after so many milliseconds.
    Extend(u64),
}

/// One client's run.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) index: u64,
    pub(crate) key: String,
    pub(crate) request: v1::StartRunRequest,
    pub(crate) steering: Steering,
    pub(crate) executes: bool,
}

/// The label that all of a client's runs have.
pub(crate) const CLIENT_LABEL: &str = "client";
/// The label that repeats the idempotency key, so that two runs for one key would show.
pub(crate) const KEY_LABEL: &str = "key";

pub(crate) fn piece(seed: u64, client: &str, index: u64) -> Piece {
    let key = format!("{seed}-{client}-{index}");
    let salt = key.bytes().fold(seed, |salt, byte| (salt ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3));
    let mut rng = fastrand::Rng::with_seed(salt);
    let shape: &[&[&str]] = match rng.u32(0..3) {
        0 => &[&["a", "b", "c"]],
        1 => &[&["a"], &["b"], &["c"]],
        _ => &[&["a"], &["b", "c"]],
    };
    let by_process = rng.u32(0..100) < 5;
    let waves = shape.iter().enumerate().map(|(number, names)| v1::Wave {
        tasks: names
            .iter()
            .map(|name| task(&mut rng, &key, name, number > 0, by_process && *name == "a"))
            .collect(),
        ..v1::Wave::default()
    });
    let policy = v1::AggregationPolicy {
        kind: v1::AggregationKind::ContinueAll as i32,
        ..v1::AggregationPolicy::default()
    };
    let retry = v1::RetryPolicy { base_delay_ms: Some(200), ..v1::RetryPolicy::default() };
    let timeouts = v1::TimeoutPolicy { grace_ms: Some(1_000), ..v1::TimeoutPolicy::default() };
    let plan = v1::Plan {
        name: format!("chaos {index}"),
        waves: waves.collect(),
        policy: Some(policy),
        retry: Some(retry),
        timeouts: Some(timeouts),
        ..v1::Plan::default()
    };
    let labels = [(CLIENT_LABEL, client), (KEY_LABEL, key.as_str())];
    let request = v1::StartRunRequest {
        labels: labels
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into_iter()
            .collect::<BTreeMap<_, _>>(),
        idempotency_key: Some(key.clone()),
        ..v1::StartRunRequest::of_plan(plan)
    };
    let executes = rng.u32(0..100) < 10;
    let steering = match rng.u32(0..100) {
        _ if executes => Steering::None,
        0..=9 => Steering::Pause(rng.u64(100..1_500)),
        10..=16 => Steering::Cancel(rng.u64(0..1_500)),
        17..=22 => Steering::Extend(rng.u64(0..400)),
        _ => Steering::None,
    };
    Piece { index, key, request, steering, executes }
}

fn task(rng: &mut fastrand::Rng, key: &str, name: &str, follows: bool, by_process: bool) -> v1::Task {
    let milliseconds = if rng.u32(0..100) < 12 { rng.u64(1_500..3_000) } else { rng.u64(50..900) };
    let failures = u32::from(!by_process && rng.u32(0..100) < 8);
    let mut input = json!(TaskInput { key: key.to_owned(), task: name.to_owned(), milliseconds, failures });
    if follows && let Some(fields) = input.as_object_mut() {
        fields.insert("before".to_owned(), json!("${tasks.a.output}"));
    }
    let inline = v1::payload::Data::Inline(input.to_string().into());
    let effect = (!by_process && rng.u32(0..100) < 6).then_some(v1::Effect::AtMostOnce as i32);
    v1::Task {
        effect,
        name: name.to_owned(),
        agent: if by_process { PROCESS_AGENT } else { AGENT }.to_owned(),
        input: Some(v1::Payload { media_type: "application/json".to_owned(), data: Some(inline) }),
        ..v1::Task::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_the_same_again_and_others_are_not() {
        assert_eq!(piece(7, "c1", 3).request, piece(7, "c1", 3).request);
        assert_ne!(piece(7, "c1", 3).request, piece(7, "c1", 4).request);
        for index in 0..50 {
            let plan = piece(7, "c0", index).request.plan().cloned().unwrap_or_default();
            assert_eq!(plan.waves.iter().map(|wave| wave.tasks.len()).sum::<usize>(), 3);
        }
    }
}
