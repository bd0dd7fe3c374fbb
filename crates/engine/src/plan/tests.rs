#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests fail by panicking")]

use std::time::Duration;

use super::*;

fn task(name: &str) -> v1::Task {
    v1::Task { name: name.to_owned(), agent: "builder".to_owned(), ..v1::Task::default() }
}

fn plan(waves: Vec<Vec<v1::Task>>) -> v1::Plan {
    let waves = waves.into_iter().map(|tasks| v1::Wave { tasks, ..v1::Wave::default() });
    v1::Plan { name: "test".to_owned(), waves: waves.collect(), ..v1::Plan::default() }
}

fn timeout(timeout_ms: i64) -> v1::TimeoutPolicy {
    v1::TimeoutPolicy { timeout_ms: Some(timeout_ms), ..v1::TimeoutPolicy::default() }
}

fn at(wave: u32, task: u32) -> TaskRef {
    TaskRef { wave, task }
}

#[track_caller]
fn recorded(plan: v1::Plan) -> Plan {
    Plan::recorded(plan).expect("every default is filled in")
}

fn materialised(mut plan: v1::Plan) -> v1::Plan {
    Plan::materialise(&mut plan).expect("the plan is valid");
    plan
}

/// The paths of what is wrong, in the order of the plan.
#[track_caller]
fn check_refused(mut plan: v1::Plan, expected: &[&str]) {
    let violations = Plan::materialise(&mut plan).expect_err("the plan is refused");
    let paths: Vec<&str> = violations.iter().map(|violation| violation.path.as_str()).collect();
    assert_eq!(paths, expected);
}

#[test]
fn every_default_is_written_out() {
    let plan = materialised(plan(vec![vec![task("a")], vec![task("b")]]));
    let policy = plan.policy.unwrap();
    assert_eq!(policy.kind(), v1::AggregationKind::Quorum);
    assert_eq!((policy.quorum_threshold, policy.stop_when_decided), (Some(0.5), Some(false)));
    let timeouts = plan.timeouts.unwrap();
    assert_eq!((timeouts.timeout_ms, timeouts.grace_ms), (Some(30 * 60_000), Some(10_000)));
    assert_eq!(timeouts.schedule_to_start_ms, None);
    let retry = plan.retry.unwrap();
    assert_eq!(
        (retry.max_attempts, retry.base_delay_ms, retry.max_delay_ms),
        (Some(3), Some(1_000), Some(30_000))
    );
    assert_eq!(plan.on_high, Some(v1::OnHigh::Continue as i32));
    let names: Vec<&str> = plan.waves.iter().map(v1::Wave::name).collect();
    assert_eq!(names, ["wave-1", "wave-2"]);
    let task = &plan.waves[0].tasks[0];
    assert_eq!(task.effect, Some(v1::Effect::AtLeastOnce as i32));
    assert_eq!((task.timeouts, &task.retry), (None, &None), "those of all tasks are at the plan");
}

#[test]
fn an_unspecified_choice_is_the_default() {
    let mut given = plan(vec![vec![v1::Task { effect: Some(0), ..task("a") }]]);
    given.on_high = Some(0);
    let plan = materialised(given);
    assert_eq!(plan.on_high, Some(v1::OnHigh::Continue as i32));
    assert_eq!(plan.waves[0].tasks[0].effect, Some(v1::Effect::AtLeastOnce as i32));
}

#[test]
fn a_task_takes_the_plans_limits_of_time_where_it_has_none_of_its_own() {
    let own = v1::TimeoutPolicy { grace_ms: Some(5), ..v1::TimeoutPolicy::default() };
    let mut given = plan(vec![vec![v1::Task { timeouts: Some(own), ..task("a") }, task("b")]]);
    given.timeouts = Some(v1::TimeoutPolicy { schedule_to_start_ms: Some(7), ..timeout(9_000) });
    let plan = materialised(given);
    let timeouts = plan.waves[0].tasks[0].timeouts.unwrap();
    assert_eq!(
        timeouts,
        v1::TimeoutPolicy { timeout_ms: Some(9_000), grace_ms: Some(5), schedule_to_start_ms: Some(7) }
    );
    let plan = recorded(plan);
    assert_eq!(plan.timeouts_of(at(0, 0)).grace(), Duration::from_millis(5));
    assert_eq!(plan.timeouts_of(at(0, 1)).grace(), Duration::from_secs(10));
}

#[test]
fn a_tasks_retry_policy_stands_for_itself() {
    let own = v1::RetryPolicy { base_delay_ms: Some(5), ..v1::RetryPolicy::default() };
    let mut given = plan(vec![vec![v1::Task { retry: Some(own), ..task("a") }, task("b")]]);
    given.retry = Some(v1::RetryPolicy { max_attempts: Some(7), ..v1::RetryPolicy::default() });
    let plan = recorded(materialised(given));
    assert_eq!(plan.retry_of(at(0, 0)).max_attempts(), 3);
    assert_eq!(plan.retry_of(at(0, 1)).max_attempts(), 7);
}

#[test]
fn all_that_is_wrong_is_told_with_its_path() {
    let mut given = plan(vec![
        vec![task("a"), v1::Task { timeouts: Some(timeout(-1)), ..task("b") }],
        vec![v1::Task {
            retry: Some(v1::RetryPolicy {
                max_attempts: Some(0),
                retryable: vec![String::new()],
                ..Default::default()
            }),
            ..task("c")
        }],
    ]);
    given.policy =
        Some(v1::AggregationPolicy { quorum_threshold: Some(1.5), ..v1::AggregationPolicy::default() });
    given.timeouts = Some(v1::TimeoutPolicy { grace_ms: Some(-1), ..timeout(0) });
    given.retry = Some(v1::RetryPolicy { backoff_multiplier: Some(0.5), ..v1::RetryPolicy::default() });
    let threshold = v1::AggregationPolicy {
        kind: v1::AggregationKind::FailFast as i32,
        quorum_threshold: Some(0.5),
        ..v1::AggregationPolicy::default()
    };
    given.waves[1].policy = Some(threshold);
    check_refused(
        given,
        &[
            "policy.quorum_threshold",
            "timeouts.timeout_ms",
            "timeouts.grace_ms",
            "retry.backoff_multiplier",
            "waves[0].tasks[1].timeouts.timeout_ms",
            "waves[1].policy.quorum_threshold",
            "waves[1].tasks[0].retry.max_attempts",
            "waves[1].tasks[0].retry.retryable[0]",
        ],
    );
}

#[test]
fn critical_agents_mark_their_tasks_where_the_policy_judges() {
    let critical = |agents: &[&str]| {
        let critical_agents = agents.iter().map(|agent| (*agent).to_owned()).collect();
        Some(v1::AggregationPolicy { kind: 4, critical_agents, ..v1::AggregationPolicy::default() })
    };
    let of = |agent: &str, name: &str| v1::Task { agent: agent.to_owned(), ..task(name) };
    let mut given = plan(vec![
        vec![of("builder", "a"), of("tester", "b")],
        vec![of("builder", "c"), of("tester", "d")],
        vec![of("builder", "e")],
    ]);
    given.policy = critical(&["builder"]);
    given.waves[1].policy = critical(&["tester"]);
    let plan = materialised(given.clone());
    let marked: Vec<&str> = plan
        .waves
        .iter()
        .flat_map(|wave| &wave.tasks)
        .filter(|task| task.critical)
        .map(|task| task.name.as_str())
        .collect();
    assert_eq!(marked, ["a", "d", "e"]);
    assert_eq!(plan.policy.as_ref().map(|policy| policy.critical_agents.len()), Some(0), "the marks say it");
    // The tester has tasks in waves with a policy of their own alone, and nobody is the reviewer.
    given.policy = critical(&["builder", "reviewer"]);
    given.waves[0].policy = critical(&["tester", "releaser"]);
    check_refused(given, &["policy.critical_agents[1]", "waves[0].policy.critical_agents[1]"]);
}

#[test]
fn what_is_wrong_with_the_plans_defaults_is_told_once() {
    let own = v1::TimeoutPolicy { grace_ms: Some(5), ..v1::TimeoutPolicy::default() };
    let mut given = plan(vec![vec![v1::Task { timeouts: Some(own), ..task("a") }, task("b")]]);
    given.timeouts = Some(timeout(0));
    check_refused(given, &["timeouts.timeout_ms"]);
}

#[test]
fn a_materialised_plan_reads_back() {
    let mut given = plan(vec![
        vec![v1::Task { timeouts: Some(timeout(5)), critical: true, severity: Some(4), ..task("a") }],
        vec![v1::Task {
            retry: Some(v1::RetryPolicy { delays_ms: vec![1, 2], ..Default::default() }),
            ..task("b")
        }],
    ]);
    given.waves[1].policy = Some(v1::AggregationPolicy { kind: 4, ..v1::AggregationPolicy::default() });
    let plan = materialised(given);
    assert_eq!(materialised(plan.clone()), plan);
    let parsed = recorded(plan.clone());
    // What a HIGH failure leads to belongs to the machine, not to the waves.
    assert_eq!(parsed.to_proto(), v1::Plan { on_high: None, ..plan });
    assert_eq!(recorded(parsed.to_proto()), parsed);
}

#[test]
fn tasks_are_found_by_name_and_agents_by_their_first_task() {
    let other = v1::Task { agent: "tester".to_owned(), ..task("c") };
    let plan = recorded(materialised(plan(vec![vec![task("a"), task("b")], vec![other]])));
    assert_eq!((plan.find("b"), plan.find("c"), plan.find("d")), (Some(at(0, 1)), Some(at(1, 0)), None));
    assert_eq!(plan.task_count(), 3);
    assert_eq!(plan.agents(), BTreeMap::from([("builder", at(0, 0)), ("tester", at(1, 0))]));
}

#[test]
fn a_plan_whose_defaults_were_not_filled_in_was_never_accepted() {
    assert_eq!(Plan::recorded(v1::Plan::default()), None);
    let mut plan = materialised(plan(vec![vec![task("a")]]));
    plan.timeouts = Some(v1::TimeoutPolicy { grace_ms: None, ..plan.timeouts.unwrap() });
    assert_eq!(Plan::recorded(plan), None);
}
