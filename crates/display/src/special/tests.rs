use super::*;

fn failure(code: &str, message: &str) -> v1::Error {
    v1::Error { code: code.to_owned(), message: message.to_owned(), ..v1::Error::default() }
}

fn listed(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn asked(options: &[&str]) -> v1::Question {
    v1::Question { question_id: "q1".to_owned(), options: listed(options), ..v1::Question::default() }
}

#[track_caller]
fn check(shown: &v1::Error, context: &Context<'_>, expected: &str) {
    assert_eq!(error(shown, context, Paint::OFF).as_deref(), Some(expected));
}

// S000-C1-16
#[test]
fn an_unknown_agent_with_similar_ones() {
    let shown = v1::Error {
        suggestions: listed(&["elsabro-executor", "elsabro-verifier", "elsabro-analyst"]),
        ..failure("AGENT_NOT_FOUND", "there is no agent \"elsabro-executer\"")
    };
    check(
        &shown,
        &Context::default(),
        "\
+======================================================+
|  ERROR: AGENT_NOT_FOUND                              |
|  Severity: CRITICAL                                  |
+======================================================+
|                                                      |
|  The agent \"elsabro-executer\" does not exist         |
|                                                      |
|  Similar agents available:                           |
|  - elsabro-executor                                  |
|  - elsabro-verifier                                  |
|  - elsabro-analyst                                   |
|                                                      |
+------------------------------------------------------+
|  REQUIRED ACTION:                                    |
|  -> Correct the agent's name in the plan             |
+======================================================+",
    );
}

// S000-C1-16
#[test]
fn an_unknown_agent_without_similar_ones() {
    let shown = failure("AGENT_NOT_FOUND", "there is no agent \"elsabro-nonexistent\"");
    let shown = error(&shown, &Context::default(), Paint::OFF).unwrap_or_default();
    assert!(shown.contains("|  No agent has a similar name "), "{shown}");
}

// S000-C2-12
#[test]
fn an_invalid_transition_shows_the_right_steps() {
    let shown = v1::Error {
        suggested_action: Some("INIT -> ACTIVE -> COMPLETE".to_owned()),
        options: listed(&["correct", "abort"]),
        ..failure("INVALID_STATE_TRANSITION", "invalid transition: INIT -> COMPLETE")
    };
    // No command takes these steps, so that they are not offered.
    check(
        &shown,
        &Context { run: Some("0199"), goes_on: true, ..Context::default() },
        "\
+======================================================+
|  ERROR: INVALID_STATE_TRANSITION                     |
|  Severity: HIGH                                      |
+======================================================+
|                                                      |
|  Invalid transition detected:                        |
|    INIT -> COMPLETE (skipping ACTIVE)                |
|                                                      |
|  Correct steps:                                      |
|    INIT -> ACTIVE -> COMPLETE                        |
|    INIT -> ACTIVE -> FAILED                          |
|                                                      |
+------------------------------------------------------+
|  Options:                                            |
|  [a] Abort the run: `capataz runs cancel 0199`       |
+======================================================+",
    );
}

/// A person asks for a task that is done to be run again, and one command does what the box says.
// S000-C2-14
#[test]
fn the_steps_that_a_command_takes_are_offered_with_it() {
    let shown = v1::Error {
        suggested_action: Some("COMPLETE -> ROLLED_BACK -> INIT -> ACTIVE".to_owned()),
        options: listed(&["correct", "abort"]),
        ..failure("INVALID_STATE_TRANSITION", "invalid transition: COMPLETE -> ACTIVE")
    };
    let about = Context { run: Some("0199"), task: Some("build"), goes_on: true, ..Context::default() };
    let offered = error(&shown, &about, Paint::OFF).unwrap_or_default();
    assert!(
        offered.ends_with(
            "\
|  Options:                                            |
|  [c] Correct the flow automatically: `capataz runs   |
|      rollback 0199 build`                            |
|  [a] Abort the run: `capataz runs cancel 0199`       |
+======================================================+"
        ),
        "{offered}"
    );
    let ended = error(&shown, &Context { goes_on: false, ..about }, Paint::OFF).unwrap_or_default();
    assert!(!ended.contains("[c]"), "{ended}");
    let unsaid = v1::Error { options: listed(&["abort"]), ..shown };
    assert!(!error(&unsaid, &about, Paint::OFF).unwrap_or_default().contains("[c]"));
}

// S000-C2-12
#[test]
fn an_impossible_transition_says_why() {
    let shown = v1::Error {
        reason: Some("nothing may follow DELETED".to_owned()),
        options: listed(&["abort"]),
        ..failure("INVALID_STATE_TRANSITION", "invalid transition: DELETED -> ACTIVE")
    };
    let shown = error(&shown, &Context::default(), Paint::OFF).unwrap_or_default();
    assert!(shown.contains("|    DELETED -> ACTIVE  "), "{shown}");
    assert!(shown.contains("|  nothing may follow DELETED "), "{shown}");
}

// S000-C3-24, S000-C3-25
#[test]
fn a_timeout() {
    let partial = v1::Payload {
        media_type: "text/plain".to_owned(),
        data: Some(v1::payload::Data::Inline(vec![b'x'; 4_936].into())),
    };
    let shown = v1::Error {
        timeout: Some(v1::TimeoutDetail {
            configured_timeout_ms: 1_800_000,
            elapsed_ms: 1_905_000,
            last_health_check_ms: Some(1_000_000),
            partial_output: Some(partial),
        }),
        options: listed(&["extend", "terminate", "retry", "abort"]),
        ..failure("TASK_TIMEOUT", "task \"explore-codebase\" exceeded its timeout of 30m")
    };
    let question = asked(&["extend", "terminate", "retry", "abort"]);
    let context = Context {
        agent: Some("elsabro-executor"),
        phase: Some("ACTIVE"),
        at_ms: Some(1_035_000),
        run: Some("0199"),
        question: Some(&question),
        ..Context::default()
    };
    check(
        &shown,
        &context,
        "\
+======================================================+
|  WARNING: TASK_TIMEOUT                               |
|  Severity: HIGH                                      |
+======================================================+
|                                                      |
|  The task \"explore-codebase\" exceeded its timeout    |
|                                                      |
|  Configured time: 30 minutes                         |
|  Elapsed time: 31:45                                 |
|  Last health check: 35 seconds ago                   |
|                                                      |
+------------------------------------------------------+
|  Current state:                                      |
|  - Agent: elsabro-executor                           |
|  - Phase: ACTIVE                                     |
|  - Partial output: ~1,234 tokens (4,936 bytes)       |
|                                                      |
+------------------------------------------------------+
|  Options:                                            |
|  [e] Extend the timeout (+15 min)                    |
|  [t] Stop and use the partial output                 |
|  [r] Retry from the start                            |
|  [a] Abort the whole operation                       |
|  -> `capataz runs resolve 0199 q1 extend`, or with   |
|     terminate, retry, abort                          |
+======================================================+",
    );
    let unasked = error(&shown, &Context::default(), Paint::OFF).unwrap_or_default();
    assert!(!unasked.contains("Options:"), "{unasked}");
    assert!(unasked.contains("|  -> Give the task more time: `timeouts.timeout` in   |"), "{unasked}");
}

#[test]
fn when_a_worker_was_heard_last_is_told_in_whole_seconds_from_the_first_on() {
    let told = |last_ms: i64, at_ms: i64| {
        let timeout =
            v1::TimeoutDetail { last_health_check_ms: Some(last_ms), ..v1::TimeoutDetail::default() };
        let shown = v1::Error { timeout: Some(timeout), ..failure("TASK_TIMEOUT", "over") };
        let context = Context { at_ms: Some(at_ms), ..Context::default() };
        error(&shown, &context, Paint::OFF).unwrap_or_default()
    };
    for (ago_ms, words) in [(250, "250ms"), (1_000, "1 second"), (2_960, "2 seconds"), (61_500, "61 seconds")]
    {
        let told = told(10_000, 10_000 + ago_ms);
        assert!(told.contains(&format!("|  Last health check: {words} ago ")), "{words} in\n{told}");
    }
    // No clock is too far ahead or behind.
    assert!(told(i64::MIN, i64::MAX).contains("|  Last health check: 106751991167d 7h 12m 55s ago "));
    assert!(told(i64::MAX, i64::MIN).contains("|  Last health check: 0 seconds ago "));
}

/// What is refused although the lifecycle allows it is told with its reason, and without advice in the place of steps.
#[test]
fn a_refusal_by_another_rule_says_why_and_what_can_be_done() {
    let why = "tasks of later waves have begun, and go back with \"a\" only on demand: \"b\"";
    let shown = v1::Error {
        options: listed(&["cascade", "abort"]),
        suggested_action: Some("Take the steps that the suggested action lists.".to_owned()),
        ..failure("INVALID_STATE_TRANSITION", why)
    };
    let about = Context { run: Some("0199"), task: Some("a"), goes_on: true, ..Context::default() };
    check(
        &shown,
        &about,
        "\
+======================================================+
|  ERROR: INVALID_STATE_TRANSITION                     |
|  Severity: HIGH                                      |
+======================================================+
|                                                      |
|  Invalid transition detected:                        |
|    tasks of later waves have begun, and go back      |
|    with \"a\" only on demand: \"b\"                      |
|                                                      |
+------------------------------------------------------+
|  Options:                                            |
|  [c] Take them back, too: `capataz runs rollback     |
|      0199 a --cascade`                               |
|  [a] Abort the run: `capataz runs cancel 0199`       |
+======================================================+",
    );
}

// S000-C4-13, S000-C4-23
#[test]
fn exhausted_retries() {
    let attempt = |number, waited_ms, duration_ms| v1::AttemptRecord {
        attempt: number,
        status: v1::AttemptStatus::Failed as i32,
        error: Some("NETWORK_ERROR".to_owned()),
        duration_ms,
        waited_ms,
        usage: None,
    };
    let cause = failure("", "Test suite failed to run\nCannot find module '@/utils'");
    let shown = v1::Error {
        // The seed's waits; 5.5 s of work and 3 s between are its 8.5 s.
        attempts: vec![attempt(1, 0, 2_000), attempt(2, 1_000, 1_500), attempt(3, 2_000, 2_000)],
        cause: Some(Box::new(cause)),
        suggested_action: Some("Missing dependency or wrong path alias".to_owned()),
        options: listed(&["debug", "retry_manual", "skip", "abort"]),
        ..failure("RETRY_EXHAUSTED", "all 3 attempts failed")
    };
    let question = asked(&["retry_manual", "skip", "abort"]);
    check(
        &shown,
        &Context { run: Some("0199"), question: Some(&question), ..Context::default() },
        "\
+======================================================+
|  ERROR: RETRY_EXHAUSTED                              |
|  Severity: HIGH                                      |
+======================================================+
|                                                      |
|  Attempts: 3/3 exhausted                             |
|  Total time: 8.5s                                    |
|                                                      |
|  Last error:                                         |
|  > Test suite failed to run                          |
|  > Cannot find module '@/utils'                      |
|                                                      |
+------------------------------------------------------+
|  The problem seems to be:                            |
|  -> Missing dependency or wrong path alias           |
|                                                      |
|  Options:                                            |
|  [d] Investigate with `capataz runs logs 0199`       |
|  [r] Retry after the fix                             |
|  [s] Skip this task                                  |
|  [a] Abort                                           |
|  -> `capataz runs resolve 0199 q1 retry`, or with    |
|     skip, abort                                      |
+======================================================+",
    );
}

// S000-C7-21, S000-C7-23
#[test]
fn a_corrupted_session() {
    let shown = v1::Error {
        details: vec![
            failure("", "field `version` is missing"),
            failure("", "field `current_flow` has a wrong type"),
        ],
        ..failure("SESSION_CORRUPTED", "The session is corrupted or has an invalid structure")
    };
    check(
        &shown,
        &Context::default(),
        "\
+======================================================+
|  ERROR: SESSION_CORRUPTED                            |
|  Severity: CRITICAL                                  |
+======================================================+
|                                                      |
|  The session is corrupted or has an invalid          |
|  structure                                           |
|                                                      |
|  Details:                                            |
|  - field `version` is missing                        |
|  - field `current_flow` has a wrong type             |
|                                                      |
+------------------------------------------------------+
|  Ways to recover:                                    |
|  [b] Restore from backup: `capataz sessions          |
|      restore`                                        |
|  [r] Reinitialise the state (history is lost):       |
|      `capataz sessions repair --reinitialise`        |
|  [m] Edit by hand                                    |
+======================================================+",
    );
}

/// Seed 000, scenario 1: what has been restored by itself is told, and nothing is asked for.
// S000-SC-01
#[test]
fn a_session_that_has_been_restored_asks_for_nothing() {
    check(
        &failure("SESSION_CORRUPTED", "The state file is corrupted"),
        &Context { recovered: Some(".elsabro/state.json: restored from its backup"), ..Context::default() },
        "\
+======================================================+
|  ERROR: SESSION_CORRUPTED                            |
|  Severity: CRITICAL                                  |
+======================================================+
|                                                      |
|  The state file is corrupted                         |
|                                                      |
|  .elsabro/state.json: restored from its backup       |
+======================================================+",
    );
}

// S000-C7-22
#[test]
fn five_violations_of_a_session_are_shown_and_the_others_are_counted() {
    let violations =
        |count: usize| (1..=count).map(|number| failure("", &format!("violation {number}"))).collect();
    for (count, last, more) in
        [(5, "|  - violation 5 ", None), (7, "|  - violation 5 ", Some("... and 2 more"))]
    {
        let shown = v1::Error { details: violations(count), ..failure("SESSION_VALIDATION_FAILED", "found") };
        let shown = error(&shown, &Context::default(), Paint::OFF).unwrap_or_default();
        assert!(shown.contains(last) && !shown.contains("violation 6"), "{shown}");
        assert_eq!(shown.contains("more"), more.is_some(), "{shown}");
        assert!(more.is_none_or(|more| shown.contains(more)), "{shown}");
    }
}

// S000-SC-08
#[test]
fn several_critical_errors() {
    let errors = listed(&[
        "SESSION_CORRUPTED (repaired)",
        "CRITICAL_AGENT_FAILED: elsabro-executor",
        "TASK_TIMEOUT: explore-codebase",
    ]);
    assert_eq!(
        multiple_critical(&errors, "capataz runs continue 0199", Paint::OFF),
        "\
+======================================================+
|  MULTIPLE CRITICAL ERRORS                            |
|  Severity: CRITICAL                                  |
+======================================================+
|                                                      |
|  Errors found:                                       |
|  1. SESSION_CORRUPTED (repaired)                     |
|  2. CRITICAL_AGENT_FAILED: elsabro-executor          |
|  3. TASK_TIMEOUT: explore-codebase                   |
|                                                      |
|  The run was stopped by critical errors              |
|                                                      |
+------------------------------------------------------+
|  State saved for recovery:                           |
|  -> `capataz runs continue 0199` to go on            |
+======================================================+"
    );
}
