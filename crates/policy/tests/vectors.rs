//! The facts of the error contracts, as tables. The fixtures are copies of the contracts' vectors.
#![expect(clippy::expect_used, reason = "a test that cannot read its facts has failed")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Duration;

use capataz_contracts::v1;
use capataz_policy::aggregation::{
    AggregationKind, AggregationPolicy, ResultStatus, Tally, TaskOutcome, WaveDecision,
};
use capataz_policy::codes;
use capataz_policy::lifecycle::{self, TaskState};
use capataz_policy::registry::{Registry, suggest_agents, suggest_commands};
use capataz_policy::retry::{NON_RETRYABLE, RETRYABLE, RetryDecision, RetryPolicy, suggested_action};
use capataz_policy::session;
use capataz_policy::severity::{Severity, known};
use serde_json::Value;

/// Runs the check on the committed copy of the facts.
fn each_copy(name: &str, check: impl Fn(&Value)) {
    check(&read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)));
}

fn read(path: &Path) -> Value {
    let text = fs::read_to_string(path).expect("the facts can be read");
    serde_json::from_str(&text).expect("the facts are JSON")
}

fn words(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn milliseconds(value: &Value) -> Duration {
    Duration::from_millis(value.as_u64().expect("a number of milliseconds"))
}

fn severity(name: &str) -> Severity {
    Severity::ALL.into_iter().find(|severity| severity.as_str() == name).expect("a severity")
}

/// The codes beside those of seed 000 that have a severity of their own (D0-81).
const OWN_CODES: &[&str] = &[
    // What the daemon says of a run of its own: no agent has written the message, so that no pattern is meant for it.
    "AGENT_ABSENT INCOMPLETE_LIFECYCLE TIMEOUT_IMMINENT SCHEDULE_TO_START_TIMEOUT NON_RETRYABLE_ERROR",
    "TOTAL_TIMEOUT_EXCEEDED WORKER_LOST OUTCOME_UNKNOWN CHILD_TOO_DEEP SESSION_BUSY SESSION_HELD TASK_CANCELLED",
    "RUN_LIMIT_EXCEEDED OUTPUT_TOO_LARGE INVALID_OUTPUT INPUT_TOO_LARGE INPUT_UNRESOLVED BLOB_NOT_FOUND",
    "AGENT_COMMAND_NOT_STARTED",
    // The same of a command, whose own words go before the code.
    "AGENT_COMMAND_FAILED",
    // Seed 001.
    "PROCESSING_TIMEOUT TEMPORARY_ERROR INSUFFICIENT_CONTEXT INVALID_REQUEST SPEC_NOT_AVAILABLE",
    "CAPABILITY_NOT_SUPPORTED FATAL_ERROR",
    // Seed 002.
    "TARGET_NOT_FOUND TARGET_NOT_UNIQUE INVALID_ACTIONSPEC PRECONDITION_FAILED POSTCONDITION_FAILED POLICY_HALT",
    "DOMAIN_BLOCKED NAVIGATION_TIMEOUT NAVIGATION_FAILED UPLOAD_FAILED DOWNLOAD_FAILED OVERLAY_BLOCKING AUTH_FAILED",
    // Seeds 003 and 004.
    "PHASE_BLOCKED PHASE_NOT_FOUND CHECKPOINT_NOT_FOUND CHECKPOINT_TOO_LARGE TOO_MANY_ERRORS STEP_LIMIT",
    "TOOL_REJECTED ROLLBACK_NOT_POSSIBLE",
];

// S000-C6-01, S000-C6-02, S000-C6-03, S000-C6-04, S000-C6-05
#[test]
fn severities_have_the_flags_and_the_codes_of_the_table() {
    each_copy("severity.json", |facts| {
        let levels = facts["levels"].as_object().expect("levels");
        assert_eq!(levels.len(), Severity::ALL.len());
        for (severity, place) in Severity::ALL.into_iter().zip(1..) {
            let level = &levels[severity.as_str()];
            let flags = severity.flags();
            assert_eq!(level["level"], place);
            assert_eq!(level["level"], severity.to_proto() as i32);
            assert_eq!(level["canContinue"], flags.can_continue);
            assert_eq!(level["notifyImmediately"], flags.notify_immediately);
            assert_eq!(level["requiresUserAction"], flags.requires_user_action);
            assert_eq!(level["icon"], flags.icon);
        }
        let mut critical = BTreeSet::new();
        for (name, codes) in facts["codes"].as_object().expect("codes") {
            let severity = severity(name);
            for code in words(codes) {
                assert_eq!(known(code, "no pattern is in here"), Some(severity), "{code}");
                assert_eq!(codes::lookup(code).map(|entry| entry.severity), Some(severity), "{code}");
                if severity == Severity::Critical {
                    critical.insert(code);
                }
            }
        }
        // No other code that an agent reports aborts a run by itself.
        let aborting =
            codes::CODES.iter().filter(|entry| entry.classifies && entry.severity == Severity::Critical);
        assert_eq!(aborting.map(|entry| entry.code.as_str()).collect::<BTreeSet<_>>(), critical);
        assert_eq!(facts["unknown"], Severity::UNKNOWN.as_str());
        assert_eq!(known("E1", "exit code 1"), None);
        // Whatever else has a severity by its code is a code that no agent of seed 000 has: D0-81.
        let seeds = facts["codes"].as_object().expect("codes").values().flat_map(words);
        let classify: BTreeSet<&str> =
            seeds.chain(OWN_CODES.iter().flat_map(|line| line.split(' '))).collect();
        let classifying = codes::CODES.iter().filter(|entry| entry.classifies);
        assert_eq!(classifying.map(|entry| entry.code.as_str()).collect::<BTreeSet<_>>(), classify);
    });
}

// S000-C6-06
#[test]
fn patterns_match_the_message_in_their_order() {
    each_copy("severity.json", |facts| {
        for pattern in facts["patterns"].as_array().into_iter().flatten() {
            let severity = severity(pattern[1].as_str().expect("a name"));
            for alternative in pattern[0].as_str().expect("a pattern").split('|') {
                let message = alternative.replace(".*", " the ").to_uppercase();
                assert_eq!(known("E1", &message), Some(severity), "{message}");
            }
        }
    });
}

// S000-C2-01, S000-C2-02
#[test]
fn tasks_move_as_the_table_says() {
    each_copy("lifecycle.json", |facts| {
        assert_eq!(words(&facts["states"]), TaskState::ALL.map(TaskState::as_str));
        for from in TaskState::ALL {
            let allowed = words(&facts["transitions"][from.as_str()]);
            assert_eq!(from.allowed().iter().map(|state| state.as_str()).collect::<Vec<_>>(), allowed);
            for to in TaskState::ALL {
                let moved = lifecycle::transition(from, to).ok();
                assert_eq!(moved, allowed.contains(&to.as_str()).then_some(to), "{from} -> {to}");
            }
        }
    });
}

// S000-C4-01, S000-C4-03, S000-C4-05
#[test]
fn the_seeds_retry_policy_has_its_numbers() {
    each_copy("retry.json", |facts| {
        let default = &facts["default"];
        let seed = RetryPolicy::from_proto(
            &v1::RetryPolicy {
                timeout_per_attempt_ms: default["timeoutPerAttemptMs"].as_i64(),
                total_timeout_ms: default["totalTimeoutMs"].as_i64(),
                ..v1::RetryPolicy::default()
            },
            "retry",
            &mut Vec::new(),
        );
        assert_eq!(default["maxAttempts"], seed.max_attempts());
        assert_eq!(milliseconds(&default["baseDelayMs"]), seed.delay(1, None));
        let factor = default["backoffMultiplier"].as_f64().expect("a factor");
        assert_eq!(seed.delay(1, None).mul_f64(factor), seed.delay(2, None));
        assert_eq!(milliseconds(&default["maxDelayMs"]), seed.delay(99, None));
        assert_eq!(Some(milliseconds(&default["timeoutPerAttemptMs"])), seed.timeout_per_attempt());
        assert_eq!(Some(milliseconds(&default["totalTimeoutMs"])), seed.total_timeout());
    });
}

// S000-C4-07, S000-C4-08, S000-C4-09, S000-C4-10, S000-C4-16
#[test]
fn codes_are_retried_as_the_lists_say() {
    each_copy("retry.json", |facts| {
        let names = |codes: &[codes::Code]| codes.iter().map(|code| code.as_str()).collect::<Vec<_>>();
        assert_eq!(words(&facts["retryable"]), names(RETRYABLE));
        assert_eq!(words(&facts["nonRetryable"]), names(NON_RETRYABLE));
        let retried = |code: &str| {
            let decision = RetryPolicy::default().decide(code, 1, Duration::ZERO, None, None);
            matches!(decision, RetryDecision::Retry { .. })
        };
        for code in RETRYABLE {
            assert!(retried(&format!("MY_{code}_7")), "{code}");
            for other in NON_RETRYABLE {
                assert!(!retried(&format!("{code}_{other}")), "{code} {other}");
            }
        }
        assert_eq!(facts["unknownIsRetryable"], retried("SOMETHING_ELSE"));
        // Every code that there is, by the seed's two lists; the verdicts over all attempts are on neither (D0-82).
        let verdicts =
            ["TASK_TIMEOUT", "TOTAL_TIMEOUT_EXCEEDED", "RETRY_EXHAUSTED", "SCHEDULE_TO_START_TIMEOUT"];
        let has = |list: &str, code: &str| words(&facts[list]).iter().any(|entry| code.contains(entry));
        for code in codes::CODES.iter().map(|entry| entry.code.as_str()) {
            let passes = has("retryable", code) && !has("nonRetryable", code);
            assert_eq!(retried(code), passes && !verdicts.contains(&code), "{code}");
        }
        for (part, action) in facts["suggestedAction"].as_object().expect("actions") {
            assert_eq!(action, suggested_action(&format!("MY_{part}_7")));
        }
    });
}

#[test]
fn a_phase_is_retried_after_its_table_of_delays() {
    each_copy("retry.json", |facts| {
        let phase = &facts["phase"];
        let delays: Vec<_> = phase["delaysMs"].as_array().into_iter().flatten().map(milliseconds).collect();
        let delays_ms =
            phase["delaysMs"].as_array().into_iter().flatten().filter_map(Value::as_i64).collect();
        let mut violations = Vec::new();
        let policy = v1::RetryPolicy { delays_ms, ..v1::RetryPolicy::default() };
        let policy = RetryPolicy::from_proto(&policy, "retry", &mut violations);
        assert_eq!(violations, []);
        assert_eq!(phase["maxRetries"], policy.max_attempts() - 1);
        for (delay, attempt) in delays.into_iter().zip(1..) {
            let decision = policy.decide("TIMEOUT", attempt, Duration::ZERO, None, None);
            assert_eq!(decision, RetryDecision::Retry { delay });
        }
        let decision = policy.decide("TIMEOUT", policy.max_attempts(), Duration::ZERO, None, None);
        assert_eq!(decision, RetryDecision::Exhausted);
    });
}

fn kind(name: &str) -> AggregationKind {
    AggregationKind::ALL.into_iter().find(|kind| kind.as_str() == name).expect("a policy")
}

// S000-C5-01, S000-C5-02, S000-C5-04
#[test]
fn waves_are_decided_as_the_cases_say() {
    each_copy("aggregation.json", |facts| {
        assert_eq!(words(&facts["policies"]), AggregationKind::ALL.map(AggregationKind::as_str));
        let default = AggregationPolicy::default();
        assert_eq!(facts["default"], default.kind().as_str());
        assert_eq!(facts["quorumThreshold"].as_f64(), default.threshold());
        for case in facts["cases"].as_array().into_iter().flatten() {
            let kind = kind(case["policy"].as_str().expect("a policy"));
            let policy =
                v1::AggregationPolicy { kind: kind.to_proto() as i32, ..v1::AggregationPolicy::default() };
            let policy = AggregationPolicy::from_proto(&policy, "", &mut Vec::new());
            let critical = words(&case["critical"]);
            let agents = words(&case["agents"]);
            let statuses = case["statuses"].as_array().into_iter().flatten();
            let outcomes = statuses.enumerate().map(|(index, status)| {
                let agent = agents.get(index).copied().unwrap_or("builder");
                TaskOutcome {
                    task: agent,
                    agent,
                    status: serde_json::from_value::<ResultStatus>(status.clone()).expect("a status"),
                    critical: critical.contains(&agent),
                    severity: None,
                }
            });
            let tally: Tally = outcomes.collect();
            let evaluation = tally.evaluation(&policy);
            assert_eq!(case["shouldContinue"], evaluation.should_continue, "{case}");
            let should_continue = evaluation.should_continue;
            let size = usize::try_from(tally.total()).unwrap_or(usize::MAX);
            assert_eq!(policy.decide(&tally, size), WaveDecision::Decided { should_continue });
            if let Some(rate) = case["rate"].as_str() {
                assert!(evaluation.reason.contains(rate), "{} has no {rate}", evaluation.reason);
            }
        }
    });
}

// S000-C1-09, S000-C1-10
#[test]
fn the_seeds_names_are_suggested_within_their_distances() {
    each_copy("registry.json", |facts| {
        let agents: BTreeSet<_> =
            facts["agents"].as_object().into_iter().flatten().flat_map(|(_, names)| words(names)).collect();
        let commands: BTreeSet<_> = words(&facts["commands"]).into_iter().collect();
        assert_eq!((agents.len(), commands.len()), (18, 27));
        assert_eq!(facts["suggest"]["agentMaxDistance"], 5);
        assert_eq!(facts["suggest"]["commandMaxDistance"], 4);
        assert_eq!(facts["suggest"]["max"], 3);

        #[track_caller]
        fn check(found: Vec<String>, expected: &[&str]) {
            assert_eq!(found, expected);
        }
        check(suggest_agents("elsabro-nonexistent", &agents), &[]);
        check(suggest_agents("elsabro-executer", &agents), &["elsabro-executor", "elsabro-debugger"]);
        check(suggest_agents("ELSABRO-QUICK-DEV", &agents), &["elsabro-quick-dev", "elsabro-yolo-dev"]);
        check(suggest_agents("explor", &agents), &["Explore", "Plan"]);
        check(suggest_commands("/elsabro:verifi", &commands), &["verify"]);
        check(suggest_commands("/elsabro:Add-Todos", &commands), &["add-todo"]);
    });
}

// S000-C1-14
#[test]
fn a_batch_of_the_seeds_names_says_which_one_is_unknown() {
    each_copy("registry.json", |facts| {
        let mut agents = BTreeMap::new();
        for (category, names) in facts["agents"].as_object().expect("agents") {
            agents.extend(words(names).into_iter().map(|name| (name.to_owned(), category.clone())));
        }
        let commands = words(&facts["commands"]).into_iter().map(str::to_owned).collect();
        let registry = Registry { agents, commands, ..Registry::default() };
        let plan = ["elsabro-executor", "feature-dev:code-explorer", "elsabro-nonexistent"];
        let batch = registry.check_all(plan, ["/elsabro:execute"], [""; 0]);
        assert_eq!((batch.total, batch.valid, batch.invalid, batch.can_proceed), (4, 3, 1, false));
        let error = batch.error().expect("an unknown agent");
        assert_eq!((error.code.as_str(), error.suggestions.len()), ("AGENT_NOT_FOUND", 0));
    });
}

// S000-C7-01, S000-C7-03, S000-C7-05
#[test]
fn states_of_sessions_are_valid_or_not_by_the_fields_that_are_named() {
    each_copy("session.json", |facts| {
        for state in facts["valid"].as_array().expect("states that are valid") {
            let state = state.as_object().expect("a state");
            assert_eq!(session::violations(state), []);
        }
        let invalid = facts["invalid"].as_array().expect("states that are not valid");
        assert_eq!(invalid.len(), 2);
        for case in invalid {
            let found = session::violations(case["state"].as_object().expect("a state"));
            let fields: Vec<&str> = found.iter().map(|violation| violation.path.as_str()).collect();
            assert_eq!(fields, words(&case["fields"]));
        }
        let with = |command: &str, phase: &str| {
            let state = serde_json::json!({
                "version": "1.0.0",
                "updated_at": "2024-01-20T15:30:00Z",
                "current_flow": {"command": command, "phase": phase, "started_at": "2024-01-20T15:00:00Z"},
            });
            session::violations(state.as_object().expect("a state")).len()
        };
        let phases = facts["phases"].as_object().expect("the phases of each command");
        assert_eq!(phases.len(), 6);
        for (command, of_command) in phases {
            for phase in phases.values().flat_map(words) {
                let is_its_own = words(of_command).contains(&phase);
                assert_eq!(with(command, phase), usize::from(!is_its_own), "{command} {phase}");
            }
        }
        for required in words(&facts["current_flow_required"]) {
            let mut flow =
                serde_json::json!({"command": "x", "phase": "y", "started_at": "2024-01-20T15:00:00Z"});
            flow.as_object_mut().expect("an object").remove(required);
            let state = serde_json::json!({"version": "1", "updated_at": "2024-01-20", "current_flow": flow});
            let found = session::violations(state.as_object().expect("a state"));
            assert_eq!(found.len(), 1);
            assert_eq!(
                (found[0].path.as_str(), found[0].rule),
                (&*format!("current_flow.{required}"), "MISSING_REQUIRED")
            );
        }
        for required in words(&facts["required"]) {
            let mut state = serde_json::json!({"version": "1", "updated_at": "2024-01-20"});
            state.as_object_mut().expect("an object").remove(required);
            assert_eq!(session::violations(state.as_object().expect("a state"))[0].path, required);
        }
        for optional in words(&facts["optional"]) {
            let mut state = serde_json::json!({"version": "1", "updated_at": "2024-01-20"});
            state.as_object_mut().expect("an object").insert(optional.to_owned(), serde_json::json!(7));
            let found = session::violations(state.as_object().expect("a state"));
            assert_eq!((found.len(), found[0].path.as_str(), found[0].rule), (1, optional, "TYPE_MISMATCH"));
        }
    });
}
