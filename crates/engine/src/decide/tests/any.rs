//! Plans and steps by chance.

use proptest::prelude::*;

use super::*;

pub(super) const WORKERS: [&str; 3] = ["w0", "w1", "w2"];
pub(super) const CODES: [&str; 8] = [
    "NETWORK_ERROR",
    "RATE_LIMIT",
    "VALIDATION_ERROR",
    "TESTS_FAILED",
    "COVERAGE_LOW",
    "STATE_CORRUPTED",
    "NOBODY_KNOWS_THIS",
    "",
];

/// One thing that happens. The numbers choose among what there is when it happens; some choose what there is not.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Lease {
        task: u8,
        worker: u8,
    },
    LeaseWaiting {
        task: u8,
        worker: u8,
    },
    Complete {
        task: u8,
    },
    Fail {
        task: u8,
        code: u8,
        retry_after_ms: Option<i64>,
    },
    Stop {
        task: u8,
        partial: bool,
    },
    /// A report with any token by any worker.
    Claim {
        task: u8,
        token: u8,
        worker: u8,
    },
    Lose {
        task: u8,
        reason: i32,
    },
    LoseAny {
        task: u8,
        token: u8,
    },
    Absent {
        task: u8,
    },
    /// Time passes, or goes backwards, with a tick or without one.
    Pass {
        milliseconds: i64,
        tick: bool,
    },
    /// To the next deadline.
    Meet,
    Pause {
        request: u8,
    },
    Resume {
        request: u8,
    },
    Cancel {
        force: bool,
        request: u8,
    },
    Extend {
        task: u8,
        by_ms: i64,
        request: u8,
    },
    RollBack {
        task: u8,
        cascade: bool,
        request: u8,
    },
    Retry {
        task: u8,
        request: u8,
    },
    /// The run goes on as a fork of itself.
    Fork {
        later: i64,
    },
    Answer {
        question: u8,
        answer: u8,
        request: u8,
    },
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let task = 0u8..16;
    let worker = 0u8..3;
    let request = 0u8..40;
    prop_oneof![
        40 => (task.clone(), worker.clone()).prop_map(|(task, worker)| Step::LeaseWaiting { task, worker }),
        3 => (task.clone(), worker.clone()).prop_map(|(task, worker)| Step::Lease { task, worker }),
        10 => task.clone().prop_map(|task| Step::Complete { task }),
        30 => (task.clone(), prop_oneof![30 => 0u8..5, 1 => 5u8..8], prop::option::weighted(0.1, any::<i64>()))
            .prop_map(|(task, code, retry_after_ms)| Step::Fail { task, code, retry_after_ms }),
        10 => (task.clone(), any::<bool>()).prop_map(|(task, partial)| Step::Stop { task, partial }),
        10 => (task.clone(), any::<u8>(), worker).prop_map(|(task, token, worker)| Step::Claim { task, token, worker }),
        20 => (task.clone(), 0i32..6).prop_map(|(task, reason)| Step::Lose { task, reason }),
        4 => (task.clone(), any::<u8>()).prop_map(|(task, token)| Step::LoseAny { task, token }),
        3 => task.clone().prop_map(|task| Step::Absent { task }),
        20 => (prop_oneof![9 => -2_000i64..4_000, 1 => -MINUTE..60 * MINUTE], any::<bool>())
            .prop_map(|(milliseconds, tick)| Step::Pass { milliseconds, tick }),
        15 => Just(Step::Meet),
        4 => request.clone().prop_map(|request| Step::Pause { request }),
        10 => request.clone().prop_map(|request| Step::Resume { request }),
        1 => (any::<bool>(), request.clone()).prop_map(|(force, request)| Step::Cancel { force, request }),
        10 => (task.clone(), prop_oneof![4 => Just(15 * MINUTE), 1 => any::<i64>()], request.clone())
            .prop_map(|(task, by_ms, request)| Step::Extend { task, by_ms, request }),
        15 => (task.clone(), request.clone()).prop_map(|(task, request)| Step::Retry { task, request }),
        4 => (task, any::<bool>(), request.clone())
            .prop_map(|(task, cascade, request)| Step::RollBack { task, cascade, request }),
        3 => (0i64..60 * MINUTE).prop_map(|later| Step::Fork { later }),
        30 => (any::<u8>(), prop_oneof![20 => 0u8..3, 1 => 3u8..6], request)
            .prop_map(|(question, answer, request)| Step::Answer { question, answer, request }),
    ]
}

fn policy() -> impl Strategy<Value = v1::AggregationPolicy> {
    (1i32..=4, prop::option::of(0.01f64..=1.0), prop::option::of(any::<bool>())).prop_map(
        |(kind, quorum_threshold, stop_when_decided)| v1::AggregationPolicy {
            kind,
            quorum_threshold: quorum_threshold.filter(|_| kind == v1::AggregationKind::Quorum as i32),
            stop_when_decided,
            critical_agents: Vec::new(),
        },
    )
}

fn timeouts() -> impl Strategy<Value = v1::TimeoutPolicy> {
    let timeout = prop::option::of(prop_oneof![1 => 1i64..5_000, 3 => MINUTE..10 * MINUTE]);
    (timeout, prop::option::of(0i64..20_000), prop::option::weighted(0.2, 1i64..30_000)).prop_map(
        |(timeout_ms, grace_ms, schedule_to_start_ms)| v1::TimeoutPolicy {
            timeout_ms,
            grace_ms,
            schedule_to_start_ms,
        },
    )
}

fn retries() -> impl Strategy<Value = v1::RetryPolicy> {
    let limits = (prop::option::of(1i64..5_000), prop::option::weighted(0.2, 1i64..60_000));
    let delays = prop::collection::vec(0i64..3_000, 0..3);
    (prop::option::of(1u32..5), prop::option::of(0i64..1_000), limits, any::<bool>(), delays).prop_map(
        |(max_attempts, base_delay_ms, (timeout_per_attempt_ms, total_timeout_ms), jitter, delays_ms)| {
            v1::RetryPolicy {
                max_attempts,
                base_delay_ms,
                timeout_per_attempt_ms,
                total_timeout_ms,
                jitter: Some(jitter),
                delays_ms,
                ..v1::RetryPolicy::default()
            }
        },
    )
}

/// A task without its name. The number chooses the earlier task that its input refers to, if any.
fn task() -> impl Strategy<Value = (v1::Task, Option<(u8, u8)>)> {
    let flags = (any::<bool>(), prop::bool::weighted(0.3), prop::option::weighted(0.2, 1i32..=4));
    let own = (prop::option::weighted(0.3, timeouts()), prop::option::weighted(0.3, retries()));
    let reference = prop::option::weighted(0.5, (any::<u8>(), 0u8..4));
    (flags, own, reference).prop_map(|((critical, once, severity), (timeouts, retry), reference)| {
        let effect = once.then_some(v1::Effect::AtMostOnce as i32);
        (v1::Task { critical, effect, severity, timeouts, retry, ..v1::Task::default() }, reference)
    })
}

pub(super) fn any_plan() -> impl Strategy<Value = v1::Plan> {
    let wave = (prop::collection::vec(task(), 1..5), prop::option::weighted(0.3, policy()));
    let waves = prop::collection::vec(wave, 1..4);
    let defaults = (
        prop::option::of(policy()),
        prop::option::weighted(0.4, timeouts()),
        prop::option::of(retries()),
        prop::option::of(1i32..=2),
    );
    (waves, defaults).prop_map(|(waves, (policy, timeouts, retry, on_high))| {
        let mut earlier: Vec<String> = Vec::new();
        let mut count = 0;
        let waves = waves.into_iter().map(|(tasks, policy)| {
            let mut names = Vec::new();
            let tasks = tasks.into_iter().map(|(mut task, reference)| {
                task.name = format!("t{count}");
                task.agent = format!("agent-{}", count % 3);
                count += 1;
                if let (Some((target, form)), false) = (reference, earlier.is_empty()) {
                    let target = &earlier[usize::from(target) % earlier.len()];
                    task.input = Some(json(&match form {
                        0 => format!("\"${{tasks.{target}.output}}\""),
                        1 => format!("[\"${{tasks.{target}.output.n}}\"]"),
                        2 => format!("\"${{tasks.{target}.output.missing}}\""),
                        _ => "{\"plain\":true}".to_owned(),
                    }));
                }
                names.push(task.name.clone());
                task
            });
            let wave = v1::Wave { name: None, tasks: tasks.collect(), policy };
            earlier.append(&mut names);
            wave
        });
        let waves = waves.collect();
        v1::Plan { name: "any".to_owned(), waves, policy, timeouts, retry, on_high, ..v1::Plan::default() }
    })
}
