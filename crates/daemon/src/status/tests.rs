use super::*;

fn violations(count: usize, message: &str) -> Vec<Violation> {
    (0..count)
        .map(|place| Violation::new(format!("plan.waves[0].tasks[{place}].agent"), "length", message))
        .collect()
}

fn told(status: &Status) -> Vec<String> {
    let request = status.get_details_bad_request();
    let violations = request.map(|request| request.field_violations).unwrap_or_default();
    violations.into_iter().map(|one| one.description).collect()
}

#[test]
fn an_error_that_fits_has_every_violation() {
    let status = invalid(&violations(20, "too long"));
    assert_eq!(told(&status), vec!["too long (length)"; 20]);
    assert!(sent(&status) <= ERROR_MAX);
}

#[test]
fn an_error_of_whatever_size_can_be_read_by_every_client() {
    let long = "ñ".repeat(100_000);
    for (count, message) in [(100, "x".repeat(300)), (1_000, "no".to_owned()), (2, long.clone()), (0, long)] {
        let status = invalid(&violations(count, &message));
        assert!(sent(&status) <= ERROR_MAX, "{count}: {}", sent(&status));
        assert_eq!(status.get_details_error_info().unwrap().reason, "VALIDATION_ERROR");
        let told = told(&status);
        // What is left out is counted.
        let more = told.last().map(|last| last.strip_prefix("… and ").unwrap().to_owned());
        let more = more.map_or(0, |more| more.split(' ').next().unwrap().parse::<usize>().unwrap());
        assert_eq!(told.len().saturating_sub(1) + more, count, "{told:?}");
        // One more would not have had room.
        assert!(count < 100 || sent(&status) > ERROR_MAX - 1_000, "{}", sent(&status));
    }
}

/// Validation itself tells a hundred, and counts the others.
#[test]
fn what_validation_has_left_out_already_is_counted_too() {
    let mut found = violations(100, "is longer than a name may be");
    found.push(Violation::new("", "truncated", "… and 900 more"));
    let status = invalid(&found);
    let told = told(&status);
    let kept = told.len() - 1;
    assert!((10..100).contains(&kept), "{kept}");
    assert_eq!(told.last().unwrap(), &format!("… and {} more (truncated)", 1_000 - kept));
}

/// An error with very many others in it tells how many of them it leaves out.
#[test]
fn errors_that_an_error_leaves_out_are_counted_whatever_they_are() {
    let one = v1::Error {
        code: "AGENT_NOT_FOUND".to_owned(),
        message: format!("there is no agent {}", "x".repeat(100)),
        ..v1::Error::default()
    };
    let error = v1::Error {
        code: "AGENTS_VALIDATION_FAILED".to_owned(),
        details: vec![one; 1_000],
        ..v1::Error::default()
    };
    for status in [
        contract(Code::NotFound, &error, |_| Some("plan".to_owned())),
        contract(Code::NotFound, &error, nowhere),
    ] {
        let told = told(&status);
        let (last, others) = told.split_last().unwrap();
        let whole = others.iter().filter(|one| one.starts_with("there is no agent")).count();
        assert_eq!(last, &format!("… and {} more (truncated)", 1_000 - whole));
    }
}

#[test]
fn an_error_for_which_an_answer_has_no_room_counts_the_errors_in_it() {
    let of_one = "… and 1 more (truncated)";
    let of_many = "… and 40 more (truncated)";
    for (count, counted) in [(0, None), (1, Some(of_one)), (40, Some(of_many))] {
        let whole = to_contract(&invalid(&violations(count, "too long")));
        let told = abridged(whole.clone());
        assert_eq!((&told.code, told.severity), (&whole.code, whole.severity));
        let messages: Vec<&str> = told.details.iter().map(|one| one.message.as_str()).collect();
        assert_eq!(messages, Vec::from_iter(counted));
        // Once more nothing is left to be left out.
        assert_eq!(abridged(told.clone()), told);
    }
    // Some of them had no room in the error itself.
    let whole = to_contract(&invalid(&violations(1_000, "too long")));
    assert!((10..1_000).contains(&whole.details.len()), "{}", whole.details.len());
    let told = abridged(v1::Error { message: "x".repeat(10_000), ..whole });
    assert_eq!(told.details.first().map(|one| one.message.as_str()), Some("… and 1000 more (truncated)"));
    assert!(told.message.len() <= WORDS_MAX && told.message.ends_with('…'), "{}", told.message);
}

#[test]
fn words_beside_an_error_that_have_no_room_are_cut() {
    let error = v1::Error {
        code: "AGENT_NOT_FOUND".to_owned(),
        message: "there is no agent".to_owned(),
        suggestions: vec!["x".repeat(20_000)],
        ..v1::Error::default()
    };
    let status = contract(Code::NotFound, &error, nowhere);
    assert!(sent(&status) <= ERROR_MAX);
    let told = &status.get_details_error_info().unwrap().metadata["suggestions"];
    assert!(told.len() <= WORDS_MAX && told.ends_with('…'));
    assert_eq!(status.message(), "there is no agent");
    // No name of a list is cut: "name, " has 6 bytes, and 85 of them have room with the last one's 4.
    let error = v1::Error { suggestions: vec!["name".to_owned(); 3_000], ..error };
    let status = contract(Code::NotFound, &error, nowhere);
    let told = &status.get_details_error_info().unwrap().metadata["suggestions"];
    assert_eq!(told.split(", ").collect::<Vec<_>>(), vec!["name"; 85]);
}

/// Why the core has ended a worker's stream: the worker, and whoever looks after it, know what to do by the code, by the reason
/// beside it and by the time after which it may come back.
#[test]
fn each_reason_for_which_a_workers_stream_is_ended_has_a_code_and_words_of_its_own() {
    let name = Violation::new("agents[1].name", "reserved", "the daemon serves \"own\" itself");
    let all = [
        (
            CloseReason::Protocol,
            (Code::InvalidArgument, "VALIDATION_ERROR", None, None),
            "hello: a worker says hello in its first frame, and only there (once)",
        ),
        (
            CloseReason::Replaced,
            (Code::Aborted, "WORKER_REPLACED", None, None),
            "another connection has said hello with the same worker id",
        ),
        (
            CloseReason::Silent,
            (Code::Unavailable, "WORKER_SENT_AWAY", Some("silent"), None),
            "nothing was heard of the worker for too long",
        ),
        (
            CloseReason::Unread,
            (Code::Unavailable, "WORKER_SENT_AWAY", Some("unread"), None),
            "the worker does not read what the daemon tells it",
        ),
        (
            CloseReason::SentAway { retry_after_ms: 5_000 },
            (Code::Unavailable, "WORKER_SENT_AWAY", Some("unacknowledged"), Some(5_000)),
            "the worker acknowledged nothing of what it was given, time after time",
        ),
        (
            CloseReason::Restarting,
            (Code::Unavailable, "UNAVAILABLE", None, Some(250)),
            "the log is being read again; repeat the call with the same key",
        ),
        (
            CloseReason::Reserved(vec![name]),
            (Code::PermissionDenied, "NAME_RESERVED", None, None),
            "agents[1].name: the daemon serves \"own\" itself (reserved)",
        ),
        (
            CloseReason::TooManyAgents,
            (Code::ResourceExhausted, "AGENT_LIMIT_EXCEEDED", None, Some(60_000)),
            "the daemon remembers at most 10000 agents and 33554432 bytes of their descriptions, and all of them are \
             served, or tasks wait for them",
        ),
    ];
    for (reason, (grpc, code, because, retry_after_ms), words) in all {
        let status = closed(&reason);
        let info = status.get_details_error_info().unwrap();
        let retry = status.get_details_retry_info().and_then(|retry| retry.retry_delay);
        assert_eq!((status.code(), info.reason.as_str(), status.message()), (grpc, code, words));
        assert_eq!(info.metadata.get("reason").map(String::as_str), because, "{reason:?}");
        assert_eq!(retry, retry_after_ms.map(Duration::from_millis), "{reason:?}");
    }
}
