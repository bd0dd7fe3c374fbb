use proptest::prelude::*;

use super::*;

fn read(policy: &v1::RetryPolicy) -> RetryPolicy {
    let mut violations = Vec::new();
    let policy = RetryPolicy::from_proto(policy, "retry", &mut violations);
    assert_eq!(violations, []);
    policy
}

fn table(delays_ms: &[i64]) -> v1::RetryPolicy {
    v1::RetryPolicy { delays_ms: delays_ms.to_vec(), ..v1::RetryPolicy::default() }
}

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

#[test]
fn an_absent_policy_is_the_default_without_limits_of_time() {
    assert_eq!(read(&v1::RetryPolicy::default()), RetryPolicy::default());
    assert_eq!(RetryPolicy::default().timeout_per_attempt(), None);
    assert_eq!(RetryPolicy::default().total_timeout(), None);
}

/// The seed's full default, as a plan writes it.
fn seed() -> RetryPolicy {
    read(&v1::RetryPolicy {
        timeout_per_attempt_ms: Some(30_000),
        total_timeout_ms: Some(120_000),
        ..v1::RetryPolicy::default()
    })
}

fn once() -> RetryPolicy {
    read(&v1::RetryPolicy { max_attempts: Some(1), ..v1::RetryPolicy::default() })
}

#[test]
fn what_is_written_out_reads_back() {
    for policy in [
        RetryPolicy::default(),
        once(),
        seed(),
        read(&table(&[500, 1_500, 3_000])),
        read(&v1::RetryPolicy { max_attempts: Some(9), jitter: Some(true), ..table(&[7]) }),
    ] {
        assert_eq!(read(&policy.to_proto()), policy);
    }
}

// S000-C4-02, S000-C4-03
#[test]
fn delays_double_up_to_the_maximum() {
    let policy = RetryPolicy::default();
    let delays: Vec<_> = (1..=8).map(|attempt| policy.delay(attempt, None).as_millis()).collect();
    assert_eq!(delays, [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]);
}

#[test]
fn a_fractional_multiplier_gives_whole_milliseconds() {
    let policy = read(&v1::RetryPolicy {
        base_delay_ms: Some(1_000),
        backoff_multiplier: Some(1.1),
        ..v1::RetryPolicy::default()
    });
    let delays: Vec<_> = (1..=4).map(|attempt| policy.delay(attempt, None)).collect();
    assert_eq!(delays, [ms(1_000), ms(1_100), ms(1_210), ms(1_331)]);
}

#[test]
fn jitter_takes_the_drawn_part_of_the_delay() {
    #[track_caller]
    fn check(jitter: bool, draw: Option<f64>, expected: Duration) {
        let policy = read(&v1::RetryPolicy { jitter: Some(jitter), ..v1::RetryPolicy::default() });
        assert_eq!(policy.delay(2, draw), expected);
    }
    check(true, Some(0.25), ms(500));
    check(true, Some(0.0), ms(0));
    check(true, None, ms(2_000));
    check(true, Some(f64::NAN), ms(2_000));
    check(false, Some(0.25), ms(2_000));
}

#[test]
fn a_table_of_delays_bounds_the_attempts() {
    let policy = read(&table(&[500, 1_500, 3_000]));
    assert_eq!(policy.max_attempts(), 4);
    let delays: Vec<_> = (1..=4).map(|attempt| policy.delay(attempt, None)).collect();
    assert_eq!(delays, [ms(500), ms(1_500), ms(3_000), ms(3_000)]);
    assert_eq!(read(&v1::RetryPolicy { max_attempts: Some(10), ..table(&[500]) }).max_attempts(), 2);
    assert_eq!(read(&v1::RetryPolicy { max_attempts: Some(2), ..table(&[1, 2, 3]) }).max_attempts(), 2);
}

/// 100 attempts have 99 delays between them.
#[test]
fn a_table_has_at_most_a_delay_for_each_pause_between_attempts() {
    let most = read(&table(&[10; 99]));
    assert_eq!((most.max_attempts(), most.delay(99, None)), (100, ms(10)));
    let mut violations = Vec::new();
    let policy = RetryPolicy::from_proto(&table(&[10; 100]), "", &mut violations);
    let found: Vec<_> = violations.iter().map(ToString::to_string).collect();
    assert_eq!(found, ["delays_ms: must have at most 99 entries, not 100 (range)"]);
    assert_eq!(policy.delay(1, None), RetryPolicy::default().delay(1, None));
}

#[test]
fn one_given_delay_moves_the_default_of_the_other() {
    let policy = read(&v1::RetryPolicy { base_delay_ms: Some(60_000), ..v1::RetryPolicy::default() });
    assert_eq!(policy.delay(1, None), ms(60_000));
    let policy = read(&v1::RetryPolicy { max_delay_ms: Some(200), ..v1::RetryPolicy::default() });
    assert_eq!(policy.delay(1, None), ms(200));
}

// S000-C4-04
#[test]
fn all_violations_are_reported_with_their_paths() {
    let policy = v1::RetryPolicy {
        max_attempts: Some(0),
        base_delay_ms: Some(-1),
        backoff_multiplier: Some(f64::INFINITY),
        max_delay_ms: Some(86_400_001),
        timeout_per_attempt_ms: Some(0),
        total_timeout_ms: Some(-5),
        jitter: None,
        delays_ms: vec![5, -1, i64::MAX],
        retryable: vec!["E_BUSY".to_owned(), String::new()],
        non_retryable: vec![" ".to_owned()],
    };
    let mut violations = Vec::new();
    RetryPolicy::from_proto(&policy, "plan.retry", &mut violations);
    let paths: Vec<_> =
        violations.iter().map(|violation| (violation.path.as_str(), violation.rule)).collect();
    assert_eq!(
        paths,
        [
            ("plan.retry.delays_ms[1]", "range"),
            ("plan.retry.delays_ms[2]", "range"),
            ("plan.retry.base_delay_ms", "range"),
            ("plan.retry.max_delay_ms", "range"),
            ("plan.retry.timeout_per_attempt_ms", "range"),
            ("plan.retry.total_timeout_ms", "range"),
            ("plan.retry.max_attempts", "range"),
            ("plan.retry.backoff_multiplier", "range"),
            ("plan.retry.retryable[1]", "not_blank"),
            ("plan.retry.non_retryable[0]", "not_blank"),
        ]
    );
}

#[test]
fn the_maximum_may_be_as_long_as_the_base() {
    let policy = read(&v1::RetryPolicy {
        base_delay_ms: Some(10),
        max_delay_ms: Some(10),
        ..v1::RetryPolicy::default()
    });
    assert_eq!([1, 2, 3].map(|attempt| policy.delay(attempt, None)), [ms(10); 3]);
}

#[test]
fn only_a_policy_with_jitter_wants_a_draw() {
    let with = |jitter| read(&v1::RetryPolicy { jitter: Some(jitter), ..v1::RetryPolicy::default() });
    assert_eq!((with(true).jitters(), with(false).jitters()), (true, false));
    assert!(!RetryPolicy::default().jitters());
}

#[test]
fn the_maximum_must_not_be_shorter_than_the_base() {
    let policy =
        v1::RetryPolicy { base_delay_ms: Some(10), max_delay_ms: Some(9), ..v1::RetryPolicy::default() };
    let mut violations = Vec::new();
    RetryPolicy::from_proto(&policy, "", &mut violations);
    let found: Vec<_> = violations.iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        ["max_delay_ms: must not be shorter than base_delay_ms: 9 ms is less than 10 ms (order)"]
    );
}

// S000-C4-06, S000-C4-10, S000-C4-11
#[test]
fn codes_decide_before_counts_and_counts_before_limits() {
    #[track_caller]
    fn check(code: &str, attempt: u32, elapsed: Duration, expected: Option<RetryDecision>) {
        let decision = seed().decide(code, attempt, elapsed, None, None);
        match expected {
            Some(expected) => assert_eq!(decision, expected, "{code}"),
            None => assert!(matches!(decision, RetryDecision::NonRetryable { .. }), "{code}: {decision:?}"),
        }
    }
    check("TIMEOUT", 1, ms(0), Some(RetryDecision::Retry { delay: ms(1_000) }));
    check("MY_NETWORK_ERROR_7", 2, ms(0), Some(RetryDecision::Retry { delay: ms(2_000) }));
    check("RATE_LIMIT", 3, ms(0), Some(RetryDecision::Exhausted));
    check("RATE_LIMIT", 3, ms(500_000), Some(RetryDecision::Exhausted));
    check("TIMEOUT", 1, ms(119_000), Some(RetryDecision::Retry { delay: ms(1_000) }));
    check("TIMEOUT", 1, ms(119_001), Some(RetryDecision::TotalTimeoutExceeded));
    check("TIMEOUT", 1, Duration::MAX, Some(RetryDecision::TotalTimeoutExceeded));
    check("VALIDATION_ERROR", 1, ms(0), None);
    check("NETWORK_ERROR_AFTER_PARSE_ERROR", 1, ms(0), None);
    check("TASK_TIMEOUT", 1, ms(0), None);
    check("TOTAL_TIMEOUT_EXCEEDED", 1, ms(0), None);
    check("RETRY_EXHAUSTED", 1, ms(0), None);
    check("SOMETHING_ELSE", 1, ms(0), None);
    check("", 1, ms(0), None);
}

#[test]
fn a_policys_own_codes_are_added_to_the_lists() {
    let policy = read(&v1::RetryPolicy {
        retryable: vec!["E_BUSY".to_owned(), "PERMISSION_DENIED".to_owned(), "TASK_TIMEOUT".to_owned()],
        non_retryable: vec!["RATE_LIMIT_DAILY".to_owned()],
        ..v1::RetryPolicy::default()
    });
    assert!(policy.refusal("E_BUSY_NOW").is_none());
    assert!(policy.refusal("RATE_LIMIT").is_none());
    assert!(policy.refusal("RATE_LIMIT_DAILY").is_some());
    assert!(policy.refusal("PERMISSION_DENIED").is_some());
    assert!(policy.refusal("TASK_TIMEOUT").is_some());
}

// S000-C4-09
#[test]
fn the_list_that_decides_is_told_with_its_entry() {
    let policy = read(&v1::RetryPolicy {
        retryable: vec!["FLAKY".to_owned()],
        non_retryable: vec!["LICENSE".to_owned()],
        ..v1::RetryPolicy::default()
    });
    for (code, expected) in [
        ("TASK_TIMEOUT", Listing::Never),
        ("RETRY_EXHAUSTED", Listing::Never),
        ("PARSE_ERROR_IN_TIMEOUT", Listing::NonRetryable("PARSE_ERROR")),
        ("LICENSE_TIMEOUT", Listing::NonRetryable("LICENSE")),
        ("GATEWAY_TIMEOUT", Listing::Retryable("TIMEOUT")),
        ("VERY_FLAKY", Listing::Retryable("FLAKY")),
        ("TEMPORARY_ERROR", Listing::Unlisted),
        ("E1", Listing::Unlisted),
        ("", Listing::Unlisted),
    ] {
        assert_eq!(policy.listing(code), expected, "{code}");
    }
}

#[test]
fn the_failing_side_can_ask_for_a_longer_wait_but_not_for_a_shorter_one() {
    #[track_caller]
    fn check(retry_after: Duration, expected: Duration) {
        let decision = RetryPolicy::default().decide("RATE_LIMIT", 1, ms(0), Some(retry_after), None);
        assert_eq!(decision, RetryDecision::Retry { delay: expected });
    }
    check(ms(10), ms(1_000));
    check(ms(90_000), ms(90_000));
    check(Duration::MAX, LONGEST_DELAY);
}

#[test]
fn once_is_exhausted_by_its_first_failure() {
    assert_eq!(once().decide("TIMEOUT", 1, ms(0), None, None), RetryDecision::Exhausted);
}

// S000-C4-14, S000-C4-15, S000-C4-17, S000-C4-18
#[test]
fn final_errors_wrap_the_original_one() {
    let last =
        v1::Error { code: "RATE_LIMIT".to_owned(), message: "slow down".to_owned(), ..Default::default() };
    let record = v1::AttemptRecord { attempt: 3, ..Default::default() };

    let exhausted = exhausted_error(&last, vec![record.clone()], 3);
    assert_eq!(exhausted.message, "all 3 attempts failed");
    assert_eq!(exhausted.options, ["debug", "retry_manual", "skip", "abort"]);
    assert_eq!(
        exhausted.suggested_action.as_deref(),
        Some("wait before retrying or reduce the request rate")
    );

    let refused = non_retryable_error(&last, vec![record.clone()], "by the list".to_owned());
    assert_eq!(refused.message, "not retryable: RATE_LIMIT");
    assert_eq!(refused.options, ["fix_manual", "skip", "abort"]);
    assert_eq!(refused.reason.as_deref(), Some("by the list"));

    let late = total_timeout_exceeded_error(&last, vec![record], ms(120_000));
    assert_eq!(late.message, "another attempt would begin after the total timeout of 2m");

    assert_eq!(late.options, ["debug", "retry_manual", "skip", "abort"]);
    assert_eq!(late.suggested_action.as_deref(), Some("extend the timeout or check system load"));

    for error in [&exhausted, &refused, &late] {
        assert_eq!(error.severity, v1::Severity::High as i32);
        assert_eq!(error.can_continue, Some(true));
        assert_eq!(error.attempts.len(), 1);
        assert_eq!(original(error), &last);
    }
    assert_eq!(original(&exhausted_error(&refused, Vec::new(), 3)), &last);
    assert_eq!(original(&last), &last);
    assert_eq!(exhausted_error(&last, Vec::new(), 1).message, "the only attempt failed");
    // What an agent says of its own cause is the agent's.
    let caused =
        v1::Error { cause: Some(Box::new(last.clone())), code: "API_ERROR".to_owned(), ..last.clone() };
    assert_eq!(original(&exhausted_error(&caused, Vec::new(), 3)), &caused);
}

#[test]
fn a_failed_attempt_without_a_code_is_named_by_its_message() {
    let nameless = v1::Error { message: "exit code 1".to_owned(), ..Default::default() };
    assert_eq!(
        non_retryable_error(&nameless, Vec::new(), String::new()).message,
        "not retryable: exit code 1"
    );
}

// S000-C4-05
#[test]
fn an_attempts_timeout_is_retried_and_high() {
    let error = attempt_timeout_error(ms(30_000));
    assert_eq!(error.message, "the attempt exceeded its timeout of 30s");
    assert!(RetryPolicy::default().refusal(&error.code).is_none());
    let severity = crate::severity::known(&error.code, &error.message);
    assert_eq!(severity, Some(crate::severity::Severity::High));
}

// S000-C4-20
#[test]
fn a_success_after_failures_is_a_low_notice() {
    let notice = retry_success_notice("build", 1);
    assert_eq!(notice.message, "task \"build\" succeeded after 1 failed attempt");
    assert_eq!(notice.severity, v1::Severity::Low as i32);
}

prop_compose! {
    fn policies()(
        base in 0_i64..=86_400_000,
        multiplier in prop_oneof![Just(1.0), 1.0..10.0, 1.0..f64::MAX],
        max in 0_i64..=86_400_000,
        jitter: bool,
    ) -> RetryPolicy {
        read(&v1::RetryPolicy {
            max_attempts: Some(MOST_ATTEMPTS),
            base_delay_ms: Some(base.min(max)),
            backoff_multiplier: Some(multiplier),
            max_delay_ms: Some(max.max(base)),
            jitter: Some(jitter),
            ..v1::RetryPolicy::default()
        })
    }
}

proptest! {
    #[test]
    fn delays_never_shrink_and_never_exceed_the_maximum(policy in policies()) {
        let mut last = policy.base_delay;
        for attempt in 1..=MOST_ATTEMPTS {
            let delay = policy.delay(attempt, None);
            prop_assert!(last <= delay && delay <= policy.max_delay);
            prop_assert_eq!(delay.subsec_nanos() % 1_000_000, 0);
            last = delay;
        }
    }

    // S000-C4-04
    #[test]
    fn delays_are_the_formula(policy in policies(), attempt in 1..=MOST_ATTEMPTS) {
        let exponent = i32::try_from(attempt - 1).unwrap_or(i32::MAX);
        let raw = policy.base_delay.as_secs_f64() * 1_000.0 * policy.multiplier.powi(exponent);
        let expected = if raw.is_nan() { 0.0 } else { raw.min(policy.max_delay.as_secs_f64() * 1_000.0) };
        let delay = policy.delay(attempt, None).as_secs_f64() * 1_000.0;
        prop_assert!((delay - expected).abs() <= 1.0, "{} is not {}", delay, expected);
    }

    #[test]
    fn the_same_question_has_the_same_answer(
        policy in policies(), attempt in 0_u32..200, draw in proptest::option::of(0.0..1.0),
    ) {
        let first = policy.decide("TIMEOUT", attempt, Duration::ZERO, None, draw);
        prop_assert_eq!(policy.decide("TIMEOUT", attempt, Duration::ZERO, None, draw), first);
    }

    #[test]
    fn jitter_only_shortens(policy in policies(), attempt in 1..=MOST_ATTEMPTS, draw in 0.0..1.0) {
        prop_assert!(policy.delay(attempt, Some(draw)) <= policy.delay(attempt, None));
    }

    #[test]
    fn any_message_reads_into_a_policy_that_reads_back(
        max_attempts: Option<u32>, base: Option<i64>, multiplier: Option<f64>, max: Option<i64>, limit: Option<i64>,
        delays in proptest::collection::vec(any::<i64>(), 0..4),
    ) {
        let policy = v1::RetryPolicy {
            max_attempts, base_delay_ms: base, backoff_multiplier: multiplier, max_delay_ms: max,
            timeout_per_attempt_ms: limit, delays_ms: delays, ..v1::RetryPolicy::default()
        };
        let policy = RetryPolicy::from_proto(&policy, "", &mut Vec::new());
        prop_assert_eq!(read(&policy.to_proto()), policy.clone());
        let json = serde_json::to_string(&policy).ok();
        let back = json.and_then(|json| serde_json::from_str(&json).ok());
        prop_assert_eq!(back, Some(policy));
    }
}
