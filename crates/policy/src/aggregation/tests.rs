use proptest::prelude::*;

use super::ResultStatus::{Cancelled, Error, Success, Timeout};
use super::*;

fn policy(kind: AggregationKind, threshold: Option<f64>, stop_when_decided: bool) -> AggregationPolicy {
    let mut violations = Vec::new();
    let policy = v1::AggregationPolicy {
        kind: kind.to_proto() as i32,
        quorum_threshold: threshold,
        stop_when_decided: Some(stop_when_decided),
        critical_agents: Vec::new(),
    };
    let policy = AggregationPolicy::from_proto(&policy, "policy", &mut violations);
    assert_eq!(violations, []);
    policy
}

fn outcome(status: ResultStatus, critical: bool) -> TaskOutcome<'static> {
    TaskOutcome { task: "build", agent: "builder", status, critical, severity: None }
}

fn tally(statuses: &[ResultStatus]) -> Tally {
    statuses.iter().map(|status| outcome(*status, false)).collect()
}

#[test]
fn a_tally_lists_who_failed_and_which_of_them_was_critical() {
    let of = |task, agent, status, critical| TaskOutcome { task, agent, status, critical, severity: None };
    let tally: Tally = [
        of("lint", "linter", Success, true),
        of("build", "builder", Error, true),
        of("docs", "writer", Timeout, false),
    ]
    .into_iter()
    .collect();
    let mut names: Vec<&str> = tally.names().collect();
    names.sort_unstable();
    assert_eq!(names, ["build", "builder", "docs", "writer"]);
}

// S000-C5-02, S000-CL-09
#[test]
fn an_absent_policy_is_a_quorum_of_one_half_that_waits() {
    let mut violations = Vec::new();
    let read = AggregationPolicy::from_proto(&v1::AggregationPolicy::default(), "policy", &mut violations);
    assert_eq!((read, violations), (AggregationPolicy::default(), Vec::new()));
    assert_eq!(read.kind(), AggregationKind::Quorum);
    assert_eq!((read.threshold(), read.to_proto().stop_when_decided), (Some(0.5), Some(false)));
}

// S000-C5-01, S000-C5-03
#[test]
fn a_threshold_is_a_share_and_only_goes_with_a_quorum() {
    #[track_caller]
    fn check(kind: i32, threshold: f64, refused: &[&str]) {
        let policy = v1::AggregationPolicy {
            kind,
            quorum_threshold: Some(threshold),
            ..v1::AggregationPolicy::default()
        };
        let mut violations = Vec::new();
        let read = AggregationPolicy::from_proto(&policy, "waves[1].policy", &mut violations);
        let found: Vec<_> = violations.iter().map(ToString::to_string).collect();
        assert_eq!(found, refused);
        assert_eq!(AggregationPolicy::from_proto(&read.to_proto(), "", &mut violations), read);
    }
    let (unspecified, fail_fast, quorum) = (0, 1, 2);
    check(quorum, 1.0, &[]);
    check(unspecified, f64::MIN_POSITIVE, &[]);
    let range = "waves[1].policy.quorum_threshold: must be greater than 0 and at most 1, not";
    check(quorum, 0.0, &[&format!("{range} 0 (range)")]);
    check(quorum, 1.01, &[&format!("{range} 1.01 (range)")]);
    check(quorum, f64::NAN, &[&format!("{range} NaN (range)")]);
    check(quorum, f64::INFINITY, &[&format!("{range} inf (range)")]);
    check(
        fail_fast,
        0.5,
        &["waves[1].policy.quorum_threshold: only goes with quorum, not with fail_fast (only_with)"],
    );
    check(
        9,
        0.5,
        &[
            "waves[1].policy.kind: must be one of fail_fast, quorum, continue_all, critical_path, not 9 (known)",
        ],
    );
}

// S000-C5-05, S000-C5-13, S000-CL-10
#[test]
fn a_wave_waits_cancels_or_is_decided() {
    #[track_caller]
    fn check(policy: AggregationPolicy, statuses: &[ResultStatus], wave_size: usize, expected: WaveDecision) {
        assert_eq!(policy.decide(&tally(statuses), wave_size), expected, "{policy:?} {statuses:?}");
    }
    use AggregationKind::{ContinueAll, CriticalPath, FailFast, Quorum};
    use WaveDecision::{CancelRest, Decided, Wait};
    let go_on = Decided { should_continue: true };
    let stop = Decided { should_continue: false };

    let fail_fast = policy(FailFast, None, false);
    check(fail_fast, &[Success], 2, Wait);
    check(fail_fast, &[Success, Timeout], 3, CancelRest);
    check(fail_fast, &[Cancelled], 3, CancelRest);
    check(fail_fast, &[Success, Timeout, Cancelled], 3, stop);
    check(fail_fast, &[Success, Success], 2, go_on);
    check(fail_fast, &[Success, Cancelled], 2, stop);

    let quorum = policy(Quorum, None, false);
    check(quorum, &[Success, Success, Success], 4, Wait);
    check(quorum, &[Error, Error, Error], 4, Wait);
    check(quorum, &[Success, Error], 2, go_on);
    check(quorum, &[Success, Cancelled, Cancelled], 3, stop);

    let early = policy(Quorum, None, true);
    check(early, &[Success], 4, Wait);
    check(early, &[Success, Success], 4, CancelRest);
    check(early, &[Error, Error], 4, Wait);
    check(early, &[Error, Timeout, Error], 4, CancelRest);
    check(early, &[Success, Success, Cancelled, Cancelled], 4, go_on);

    for stop_when_decided in [false, true] {
        let continue_all = policy(ContinueAll, None, stop_when_decided);
        check(continue_all, &[], 2, Wait);
        check(continue_all, &[Error], 2, Wait);
        check(continue_all, &[Error, Error], 2, go_on);
    }

    let critical_path = policy(CriticalPath, None, false);
    check(critical_path, &[Error], 2, Wait);
    check(critical_path, &[Error, Error], 2, go_on);
}

// S000-C5-09
#[test]
fn a_critical_task_without_success_ends_a_critical_path_alone() {
    for status in [Error, Timeout, Cancelled] {
        let tally: Tally = [outcome(Success, true), outcome(status, true)].into_iter().collect();
        let critical_path = policy(AggregationKind::CriticalPath, None, false);
        assert_eq!(critical_path.decide(&tally, 3), WaveDecision::CancelRest);
        assert_eq!(critical_path.decide(&tally, 2), WaveDecision::Decided { should_continue: false });
        assert_eq!(AggregationPolicy::default().decide(&tally, 3), WaveDecision::Wait);
    }
}

// S000-C5-07
#[test]
fn an_evaluation_gives_its_reason_with_the_share_of_successes() {
    #[track_caller]
    fn check(kind: AggregationKind, statuses: &[ResultStatus], reason: &str) {
        assert_eq!(tally(statuses).evaluation(&policy(kind, None, false)).reason, reason);
    }
    use AggregationKind::{ContinueAll, CriticalPath, FailFast, Quorum};
    check(Quorum, &[Success, Success, Timeout, Success], "quorum met: 3/4 (75%)");
    check(Quorum, &[Success, Timeout, Error, Timeout], "quorum not met: 1/4 (25%), needs 50%");
    check(FailFast, &[Success], "no failures: 1/1 (100%)");
    check(FailFast, &[Success, Error], "fail_fast stops at the first failure: 1/2 (50%)");
    check(ContinueAll, &[Error], "continue_all goes on: 0/1 (0%)");
    check(CriticalPath, &[Error, Success], "no critical task failed: 1/2 (50%)");
}

// S000-C5-07
#[test]
fn only_a_quorum_has_a_threshold() {
    for kind in AggregationKind::ALL {
        let evaluation = tally(&[Success]).evaluation(&policy(kind, None, false));
        let quorum = kind == AggregationKind::Quorum;
        assert_eq!(evaluation.threshold, quorum.then_some(0.5));
        assert_eq!(evaluation.quorum_met, quorum.then_some(true));
    }
}

#[test]
fn names_are_listed_up_to_twenty_and_agents_once() {
    let names: Vec<_> = (0..50).map(|number| format!("task-{number:02}")).collect();
    let mut tally = Tally::default();
    for name in &names {
        let agent = if name.ends_with('7') { name } else { "builder" };
        tally.add(&TaskOutcome { task: name, agent, status: Error, critical: false, severity: None });
    }
    let evaluation = tally.evaluation(&AggregationPolicy::default());
    assert_eq!(evaluation.optional_failures, names[..20]);
    assert_eq!(evaluation.failed_agents, ["builder", "task-07", "task-17", "task-27", "task-37", "task-47"]);
    assert_eq!((evaluation.total, tally.summary().total), (50, 50));
}

#[test]
fn an_evaluation_names_who_failed_where_its_result_is_a_success_or_adds_a_name_and_else_nobody() {
    #[track_caller]
    fn check(before: &Tally, outcome: TaskOutcome<'_>, named: [&[&str]; 3]) {
        let nameless = |evaluation: &v1::Evaluation| v1::Evaluation {
            failed_agents: Vec::new(),
            critical_failures: Vec::new(),
            optional_failures: Vec::new(),
            ..evaluation.clone()
        };
        let policy = AggregationPolicy::default();
        let evaluation = before.evaluation_with(&outcome, &policy);
        let mut after = before.clone();
        after.add(&outcome);
        assert_eq!(nameless(&evaluation), nameless(&after.evaluation(&policy)), "{outcome:?}");
        let lists = [evaluation.failed_agents, evaluation.critical_failures, evaluation.optional_failures];
        assert_eq!(lists, named, "{outcome:?}");
    }
    const NOBODY: [&[&str]; 3] = [&[], &[], &[]];
    let of = |task, agent, status, critical| TaskOutcome { task, agent, status, critical, severity: None };
    let numbered: Vec<String> = (0..20).map(|number| format!("n{number}")).collect();
    let twenty: Vec<&str> = numbered.iter().map(String::as_str).collect();
    // Twenty tasks that are not critical have failed: as many as are named.
    let of_one_agent: Tally = twenty.iter().map(|&task| of(task, "builder", Error, false)).collect();
    let of_twenty_agents: Tally = twenty.iter().map(|&task| of(task, task, Error, false)).collect();

    check(&Tally::default(), of("x", "builder", Error, false), [&["builder"], &[], &["x"]]);
    // The task has no room. Its agent is known, or has room.
    check(&of_one_agent, of("x", "builder", Error, false), NOBODY);
    check(&of_one_agent, of("x", "tester", Timeout, false), [&["builder", "tester"], &[], &twenty]);
    // Critical tasks have a list of their own.
    check(&of_one_agent, of("x", "builder", Timeout, true), [&["builder"], &["x"], &twenty]);
    check(&of_twenty_agents, of("x", "n0", Error, true), [&twenty, &["x"], &twenty]);
    check(&of_twenty_agents, of("x", "tester", Error, true), [&twenty, &["x"], &twenty]);
    // Neither the task nor its agent has room.
    check(&of_twenty_agents, of("x", "tester", Error, false), NOBODY);
    // What was cancelled has not failed.
    check(&of_one_agent, of("x", "tester", Cancelled, true), NOBODY);
    check(&of_one_agent, of("x", "tester", Success, false), [&["builder"], &[], &twenty]);
}

// S000-C5-17
#[test]
fn failures_are_summed_up_by_severity() {
    let of = |status, critical, severity| TaskOutcome { severity, ..outcome(status, critical) };
    let tally: Tally = [
        of(Error, false, None),
        of(Error, true, Some(Severity::Medium)),
        of(Timeout, true, None),
        of(Error, false, Some(Severity::Critical)),
        of(Error, false, Some(Severity::Low)),
        of(Success, true, Some(Severity::Critical)),
        of(Cancelled, true, None),
    ]
    .into_iter()
    .collect();
    assert_eq!(
        tally.summary(),
        ErrorSummary { total: 5, critical: 1, high: 2, medium: 1, low: 1, critical_tasks: 2 }
    );
}

// S000-C5-16
#[test]
fn reports_have_the_severities_of_the_table() {
    #[track_caller]
    fn check(error: &v1::Error, severity: v1::Severity, can_continue: bool, message: &str) {
        assert_eq!(error.severity, severity as i32, "{}", error.code);
        assert_eq!(error.can_continue, Some(can_continue), "{}", error.code);
        assert_eq!(error.message, message);
    }
    let evaluation = tally(&[Success, Error, Error]).evaluation(&AggregationPolicy::default());
    check(&quorum_not_met(&evaluation), v1::Severity::High, false, "quorum not met: 1/3 (33%), needs 50%");
    check(&critical_agent_failed("build"), v1::Severity::High, false, "critical task \"build\" failed");
    check(
        &optional_agent_failed("docs"),
        v1::Severity::Medium,
        true,
        "task \"docs\" failed; the run goes on without it",
    );
    check(
        &partial_success(3, 4),
        v1::Severity::Medium,
        true,
        "the run ended with failures: 3/4 (75%) tasks succeeded",
    );
}

#[test]
fn statuses_and_kinds_read_back() {
    for status in ResultStatus::ALL {
        assert_eq!(ResultStatus::from_proto(status.to_proto() as i32), Some(status));
        assert_eq!(ResultStatus::from_proto(v1::ResultStatus::from(status) as i32), Some(status));
    }
    assert_eq!(ResultStatus::from_proto(0), None);
    for kind in AggregationKind::ALL {
        assert_eq!(AggregationKind::from_proto(kind.to_proto() as i32), Some(kind));
        assert_eq!(serde_json::to_value(kind).ok(), Some(kind.as_str().into()));
    }
}

/// A generated result.
type Drawn = (ResultStatus, bool, Option<Severity>, u8);

fn drawn() -> impl Strategy<Value = Vec<Drawn>> {
    let status = proptest::sample::select(ResultStatus::ALL.to_vec());
    let severity = proptest::option::of(proptest::sample::select(Severity::ALL.to_vec()));
    proptest::collection::vec((status, any::<bool>(), severity, 0_u8..30), 0..60)
}

fn drawn_policy() -> impl Strategy<Value = AggregationPolicy> {
    let kind = proptest::sample::select(AggregationKind::ALL.to_vec());
    (kind, 0.0..1.0, any::<bool>()).prop_map(|(kind, below, stop_when_decided)| {
        let threshold = (kind == AggregationKind::Quorum).then_some(1.0 - below);
        policy(kind, threshold, stop_when_decided)
    })
}

fn with_names<T>(drawn: &[Drawn], read: impl FnOnce(&[TaskOutcome<'_>]) -> T) -> T {
    let names: Vec<_> = drawn
        .iter()
        .zip(0..)
        .map(|(one, task)| (format!("task-{task}"), format!("agent-{}", one.3)))
        .collect();
    let outcomes: Vec<_> = drawn
        .iter()
        .zip(&names)
        .map(|(&(status, critical, severity, _), (task, agent))| TaskOutcome {
            task,
            agent,
            status,
            critical,
            severity,
        })
        .collect();
    read(&outcomes)
}

/// The seed's own evaluation, which reads the whole list each time.
fn evaluate_naively(policy: AggregationPolicy, results: &[TaskOutcome<'_>]) -> v1::Evaluation {
    let names = |wanted: &dyn Fn(&TaskOutcome<'_>) -> bool| -> Vec<String> {
        let failures = results.iter().filter(|result| matches!(result.status, Error | Timeout));
        failures.filter(|result| wanted(result)).take(20).map(|result| result.task.to_owned()).collect()
    };
    let mut failed_agents = Vec::new();
    for result in results.iter().filter(|result| matches!(result.status, Error | Timeout)) {
        if failed_agents.len() < 20 && !failed_agents.contains(&result.agent.to_owned()) {
            failed_agents.push(result.agent.to_owned());
        }
    }
    let successes = results.iter().filter(|result| result.status == Success).count();
    let rate = if results.is_empty() { 0.0 } else { successes as f64 / results.len() as f64 };
    let should_continue = match policy.kind() {
        AggregationKind::FailFast => results.iter().all(|result| result.status == Success),
        AggregationKind::Quorum => policy.threshold().is_some_and(|threshold| rate >= threshold),
        AggregationKind::ContinueAll => true,
        AggregationKind::CriticalPath => {
            results.iter().all(|result| !result.critical || result.status == Success)
        }
    };
    v1::Evaluation {
        should_continue,
        policy: policy.kind().to_proto() as i32,
        successes: u32::try_from(successes).unwrap_or(u32::MAX),
        total: u32::try_from(results.len()).unwrap_or(u32::MAX),
        success_rate: rate,
        threshold: policy.threshold(),
        quorum_met: policy.threshold().map(|_| should_continue),
        reason: String::new(),
        failed_agents,
        critical_failures: names(&|result| result.critical),
        optional_failures: names(&|result| !result.critical),
    }
}

proptest! {
    // S000-C5-06, S000-C5-10, S000-C5-13
    #[test]
    fn a_running_tally_agrees_with_an_evaluation_of_the_whole_list(policy in drawn_policy(), drawn in drawn()) {
        with_names(&drawn, |outcomes| {
            let mut tally = Tally::default();
            for (index, outcome) in outcomes.iter().enumerate() {
                tally.add(outcome);
                let so_far = outcomes.iter().take(index + 1);
                let evaluation = tally.evaluation(&policy);
                prop_assert_eq!(&policy.evaluate(so_far.copied()), &evaluation);
                let so_far: Vec<_> = outcomes.iter().take(index + 1).copied().collect();
                let naive = evaluate_naively(policy, &so_far);
                prop_assert_eq!(v1::Evaluation { reason: String::new(), ..evaluation }, naive);
            }
            let json = serde_json::to_string(&tally).ok();
            prop_assert_eq!(json.and_then(|json| serde_json::from_str(&json).ok()), Some(tally));
            Ok(())
        })?;
    }

    /// Once the rest may be cancelled, no results of the rest could change the outcome.
    #[test]
    fn an_early_decision_is_final(policy in drawn_policy(), drawn in drawn(), cut in 0_usize..60) {
        with_names(&drawn, |outcomes| {
            let settled: Tally = outcomes.iter().take(cut).copied().collect();
            if policy.decide(&settled, outcomes.len()) != WaveDecision::CancelRest {
                return Ok(());
            }
            let finish = |status: Option<ResultStatus>| {
                let rest = outcomes.iter().skip(cut);
                let rest = rest.map(|rest| TaskOutcome { status: status.unwrap_or(rest.status), ..*rest });
                let all: Tally = outcomes.iter().take(cut).copied().chain(rest).collect();
                policy.decide(&all, outcomes.len())
            };
            let drawn = finish(None);
            let is_decided = matches!(drawn, WaveDecision::Decided { .. });
            prop_assert!(is_decided);
            for status in ResultStatus::ALL {
                prop_assert_eq!(finish(Some(status)), drawn);
            }
            Ok(())
        })?;
    }
}
